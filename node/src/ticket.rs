//! Tickets: one word of text that holds all another node needs to join a bank.
//!
//! `folklore1` and the base32 (RFC 4648, lower case, no padding) of: the canonical bytes of [`Fields`], then the first 4
//! bytes of their BLAKE3 hash, which tell a slip in copying. The bank's id is not in it: it follows from owner, salt and name,
//! so a ticket cannot name one bank and lead to another.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_NOPAD;
use folklore_protocol::{
    bank::{BankSalt, MAX_BANK_NAME_BYTES},
    canonical::{self, DecodeError, Lines},
    identity::AuthorId,
};
use folklore_store::bank::BankInfo;
use libp2p::Multiaddr;
use serde::{Deserialize, Serialize};

/// Most addresses in a ticket: a host with several interfaces and transports stays below.
pub const MAX_ADDRESSES: usize = 16;
/// Longest address, bytes. Relayed ones with two peer ids take about 200.
pub const MAX_ADDRESS_BYTES: usize = 256;

const PREFIX: &str = "folklore1";
const CHECKSUM_BYTES: usize = 4;
/// All fields at their limits: version, owner, salt, name, number of addresses, addresses. The length of one takes up to
/// 3 bytes, the two others 1.
const MAX_FIELDS_BYTES: usize = 1 + 32 + 16 + 1 + MAX_BANK_NAME_BYTES + 1 + MAX_ADDRESSES * (3 + MAX_ADDRESS_BYTES);
const MAX_TEXT_BYTES: usize = PREFIX.len() + (MAX_FIELDS_BYTES + CHECKSUM_BYTES) * 8 / 5 + 1;

/// Why a text is not a ticket, or a ticket cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Some other text.
    #[error("not a ticket: a ticket is one word that begins with {PREFIX}, as 'folklore bank invite' prints it")]
    NotATicket,
    /// Characters are missing or wrong.
    #[error("the ticket was damaged in copying: copy it again, whole")]
    Damaged,
    /// The checksum is right and the content is not.
    #[error("the ticket says nothing this build understands ({0}): is the other node newer?")]
    Content(String),
}

/// The order of the fields is part of the format.
#[derive(Serialize, Deserialize)]
struct Fields {
    owner: AuthorId,
    salt: BankSalt,
    name: String,
    addresses: Vec<String>,
}

/// An invitation to a bank. Whoever has it can join while the bank is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    owner: AuthorId,
    salt: BankSalt,
    name: String,
    addresses: Vec<Multiaddr>,
}

impl Ticket {
    /// A ticket for the bank `name` that `owner` made with `salt`, held by a node at `addresses` (each may end in `/p2p/<node id>`).
    pub fn new(owner: AuthorId, salt: BankSalt, name: &str, addresses: Vec<Multiaddr>) -> Result<Self, TicketError> {
        let ticket = Self { owner, salt, name: canonical::normalise(name, Lines::One), addresses };
        ticket.check().map_err(TicketError::Content)?;
        Ok(ticket)
    }

    /// The bank.
    pub fn bank(&self) -> BankInfo {
        BankInfo::new(self.owner, self.salt, &self.name)
    }

    /// Who owns it.
    pub fn owner(&self) -> AuthorId {
        self.owner
    }

    /// The owner's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it can be had.
    pub fn addresses(&self) -> &[Multiaddr] {
        &self.addresses
    }

    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.name.len() > MAX_BANK_NAME_BYTES {
            return Err(format!("a bank's name has 1 to {MAX_BANK_NAME_BYTES} bytes"));
        }
        if self.addresses.len() > MAX_ADDRESSES {
            return Err(format!("{} addresses, the limit is {MAX_ADDRESSES}", self.addresses.len()));
        }
        if self.addresses.iter().any(|a| a.to_string().len() > MAX_ADDRESS_BYTES) {
            return Err(format!("an address is longer than {MAX_ADDRESS_BYTES} bytes"));
        }
        Ok(())
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(ToString::to_string).collect();
        let mut bytes =
            canonical::encode(&Fields { owner: self.owner, salt: self.salt, name: self.name.clone(), addresses });
        let checksum = blake3::hash(&bytes);
        bytes.extend(checksum.as_bytes().iter().take(CHECKSUM_BYTES));
        write!(f, "{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        let base32 = text.strip_prefix(PREFIX).ok_or(TicketError::NotATicket)?;
        if text.len() > MAX_TEXT_BYTES {
            return Err(TicketError::Damaged);
        }
        let bytes = BASE32_NOPAD.decode(base32.to_ascii_uppercase().as_bytes()).map_err(|_| TicketError::Damaged)?;
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TicketError::Damaged)?;
        if !blake3::hash(content).as_bytes().starts_with(checksum) {
            return Err(TicketError::Damaged);
        }
        let read = |error: DecodeError| TicketError::Content(error.to_string());
        let fields: Fields = canonical::decode::<Fields, MAX_FIELDS_BYTES>(content).map_err(read)?;
        let address = |text: &String| text.parse::<Multiaddr>().map_err(|e| TicketError::Content(e.to_string()));
        let addresses = fields.addresses.iter().map(address).collect::<Result<_, _>>()?;
        let ticket = Self::new(fields.owner, fields.salt, &fields.name, addresses)?;
        if ticket.name == fields.name { Ok(ticket) } else { Err(TicketError::Content("its name".into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_protocol::identity::Keypair;
    use proptest::prelude::*;

    fn ticket() -> Ticket {
        let owner = Keypair::from_seed(&[1; 32]).author();
        let addresses = vec![
            format!("/ip4/192.0.2.7/tcp/4001/p2p/{owner}").parse().unwrap(),
            "/dns/node.example/udp/4001/quic-v1".parse().unwrap(),
        ];
        Ticket::new(owner, [5; 16], "site notes", addresses).unwrap()
    }

    #[test]
    fn a_ticket_reads_back_and_leads_to_its_owners_bank() {
        let text = ticket().to_string();
        assert!(text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{text}");
        let back: Ticket = format!(" {text}\n").parse().unwrap();
        assert_eq!(back, ticket());
        assert_eq!(back.bank(), BankInfo::new(back.owner(), [5; 16], "site notes"));
    }

    #[test]
    fn the_ticket_that_the_format_page_works_out_is_this_one() {
        let page = include_str!("../../protocol/FORMAT.md");
        let text = page.lines().find_map(|line| line.strip_prefix("→ ").filter(|t| t.starts_with(PREFIX))).unwrap();
        let owner = Keypair::from_seed(&[1; 32]).author();
        let worked = Ticket::new(owner, [7; 16], "home", vec!["/ip4/192.0.2.7/tcp/4001".parse().unwrap()]).unwrap();
        assert_eq!(text.parse(), Ok(worked.clone()));
        assert_eq!(worked.to_string(), text);
        assert!(page.contains(&worked.bank().id.to_string()), "the bank's id is worked out there too");
    }

    #[test]
    fn a_slip_in_copying_is_told_from_another_text() {
        let text = ticket().to_string();
        let cut = &text[..text.len() - 2];
        let swapped = text.replacen('a', "b", 1);
        for wrong in [cut, &swapped, PREFIX, &format!("{PREFIX}{}", "a".repeat(100_000))] {
            assert_eq!(wrong.parse::<Ticket>(), Err(TicketError::Damaged));
        }
        for wrong in ["", "hello", "/ip4/127.0.0.1/tcp/1"] {
            assert_eq!(wrong.parse::<Ticket>(), Err(TicketError::NotATicket));
        }
    }

    #[test]
    fn the_largest_ticket_reads_back_and_a_larger_one_is_refused() {
        let owner = ticket().owner();
        let label = "x".repeat(MAX_ADDRESS_BYTES - "/dns/".len());
        let long: Multiaddr = format!("/dns/{label}").parse().unwrap();
        let name = "n".repeat(MAX_BANK_NAME_BYTES);
        let largest = Ticket::new(owner, [5; 16], &name, vec![long.clone(); MAX_ADDRESSES]).unwrap();
        assert_eq!(largest.to_string().parse(), Ok(largest));
        assert!(Ticket::new(owner, [5; 16], &name, vec![long; MAX_ADDRESSES + 1]).is_err());
        assert!(Ticket::new(owner, [5; 16], "", vec![]).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", rest in "[a-z2-7]{0,80}") {
            let _ = text.parse::<Ticket>();
            let _ = format!("{PREFIX}{rest}").parse::<Ticket>();
        }
    }
}
