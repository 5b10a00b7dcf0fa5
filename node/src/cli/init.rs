//! `folklore init`: make a home. Needs no daemon.

use clap::Args;
use serde::Serialize;

use super::{Context, client::Client, words::fields};
use crate::{
    api::{Answer, ApiError, BankJoinRequest},
    home::{DEFAULT_BANK, Home, HomeError},
    ticket::{Ticket, TicketError},
};

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Join the bank of this ticket when the daemon runs
    #[arg(long, value_name = "TICKET")]
    join: Option<String>,
    /// Name of the bank that the new home owns
    #[arg(long, value_name = "NAME", default_value = DEFAULT_BANK)]
    name: String,
}

/// What `init` says.
#[derive(Serialize)]
struct Made {
    node: String,
    data: String,
    /// Whether there was no home before.
    new: bool,
    bank: Named,
    /// The bank of the ticket.
    joins: Option<Named>,
}

#[derive(Serialize)]
struct Named {
    id: String,
    name: String,
}

pub(super) async fn run(args: InitArgs, context: &mut Context) -> Answer<u8> {
    let dir = context.data()?;
    // Before anything is made: a slip in the ticket leaves no half-made home behind.
    let parse = |text: &String| text.parse().map_err(|error: TicketError| ApiError::bad_request(error.to_string()));
    let ticket: Option<Ticket> = args.join.as_ref().map(parse).transpose()?;
    let (home, new) = Home::create(&dir, &args.name)?;
    let own = home.bank()?;
    if let Some(ticket) = &ticket {
        join(&home, ticket).await?;
    }
    let joins = ticket.map(|t| Named { id: t.bank().id.to_string(), name: t.name().to_owned() });
    let data = std::path::absolute(&dir).unwrap_or(dir).display().to_string();
    let made = Made {
        node: home.node()?.to_string(),
        data,
        new,
        bank: Named { id: own.id.to_string(), name: own.name },
        joins,
    };
    context.show_own(&made, text)?;
    Ok(0)
}

/// Leaves the ticket for the daemon, or gives it to the one that runs.
async fn join(home: &Home, ticket: &Ticket) -> Answer<()> {
    match home.add_ticket(ticket) {
        Err(HomeError::Served { .. }) => {
            let request = BankJoinRequest { ticket: ticket.to_string() };
            Client::find(home.dir())?.post("bank/join", &request).await.map(drop)
        }
        done => Ok(done?),
    }
}

fn text(made: &Made) -> String {
    let what = if made.new { "made a home in" } else { "there is a home already in" };
    let named = |bank: &Named| format!("{} ({})", bank.name, bank.id);
    let rows = fields(&[
        ("node", &made.node),
        ("bank", &named(&made.bank)),
        ("joins", &made.joins.as_ref().map(named).unwrap_or_default()),
    ]);
    let next = if made.new { format!("\nnext: folklore up --data {}", made.data) } else { String::new() };
    format!("{what} {}\n{rows}{next}", made.data)
}
