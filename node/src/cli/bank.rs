//! `folklore bank`: make, share and join banks.

use clap::Subcommand;

use super::{
    Context,
    words::{count, fields, short_hash, table},
};
use crate::api::{
    Answer, BankCreateRequest, BankInfo, BankInviteRequest, BankInviteResponse, BankJoinRequest, BankJoinResponse,
    BankListResponse,
};

#[derive(Debug, Subcommand)]
pub(super) enum BankCommand {
    /// Make a bank that this node owns
    Create {
        /// Its name
        name: String,
        /// Let anybody who knows this node's id and the name find it: those who hold it are named in the DHT. Cannot be
        /// changed later
        #[arg(long)]
        public: bool,
    },
    /// Print a ticket: all that another node needs to join
    Invite {
        /// Name or id of the bank [default: the one this home owns]
        bank: Option<String>,
    },
    /// Join the bank of a ticket, or a public bank
    Join {
        /// What 'folklore bank invite' printed; or OWNER/NAME of a public bank, whose holders are then found in the DHT
        ticket: String,
    },
    /// List the banks this node holds
    List,
}

pub(super) async fn run(command: BankCommand, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    match command {
        BankCommand::Create { name, public } => {
            let answer = client.post("bank/create", &BankCreateRequest { name, public }).await?;
            let kind = |bank: &BankInfo| if bank.public { "public bank" } else { "bank" };
            context.show(&answer, |bank: &BankInfo| format!("made {} {} ({})", kind(bank), bank.name, bank.id))?;
        }
        BankCommand::Invite { bank } => {
            let answer = client.post("bank/invite", &BankInviteRequest { bank }).await?;
            // Nothing but the ticket, so that it can go straight into a variable.
            context.show(&answer, |invite: &BankInviteResponse| invite.ticket.clone())?;
        }
        BankCommand::Join { ticket } => {
            let answer = client.post("bank/join", &BankJoinRequest { ticket }).await?;
            context.show(&answer, joined)?;
        }
        BankCommand::List => {
            let answer = client.get("banks").await?;
            context.show(&answer, list)?;
        }
    }
    Ok(0)
}

fn joined(response: &BankJoinResponse) -> String {
    let dialing = if response.dialing.is_empty() { "nobody".to_owned() } else { response.dialing.join("\n") };
    let about = fields(&[("id", &response.bank), ("owner", &response.owner), ("dialing", &dialing)]);
    format!("joined bank {}\n{about}", response.name)
}

fn list(response: &BankListResponse) -> String {
    let row = |bank: &BankInfo| {
        vec![
            bank.name.clone(),
            count(bank.records, "record"),
            count(bank.lessons, "lesson"),
            format!("held {}", short_hash(&bank.held_root)),
            format!("of {}", bank.owner),
            if bank.default { "default" } else { "" }.to_owned(),
            if bank.public { "public" } else { "" }.to_owned(),
            bank.id.clone(),
        ]
    };
    table(&response.banks.iter().map(row).collect::<Vec<_>>())
}
