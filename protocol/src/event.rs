//! What goes into a [`Node`](crate::Node), and what comes out of it.

use std::sync::Arc;

use crate::{
    bank::{Access, BankId},
    canonical::DecodeError,
    identity::AuthorId,
    message::{Item, Message},
    peers::DialTarget,
    record::{Record, RecordId, UnverifiedRecord},
    run_log::{RunAbout, RunHead, RunKey, StepPiece},
    time::Time,
};

/// Links an effect to the event that answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A record from elsewhere, on its way to storage, which checks its signature, its body and the policy.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The record; its signature is not checked yet.
    pub record: UnverifiedRecord,
    /// The body it names, if it came along: hash checked, form not yet.
    pub body: Option<Vec<u8>>,
}

/// What storage did with one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is new, and durable.
    Stored,
    /// It was there.
    Known,
    /// The policy now known refuses it.
    Declined,
    /// Its signature or its body is wrong.
    Invalid,
    /// Storage could not take it now; offer it again.
    Failed,
}

/// One peer's answer to a query of this node's.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Who answered.
    pub peer: AuthorId,
    /// Records with bodies; nothing in them is verified yet.
    pub items: Vec<Item>,
    /// Records the peer says it looked through.
    pub records: u64,
}

/// What goes in.
#[derive(Debug, Clone)]
pub enum Event {
    /// A deadline has come.
    Tick,
    /// A bank is here, holding these records.
    BankOpened {
        /// Which.
        bank: BankId,
        /// Ids held.
        held: Vec<RecordId>,
    },
    /// The policy in force changed: what was declined is judged again.
    PolicyChanged {
        /// Of which bank.
        bank: BankId,
    },
    /// Somebody says where a peer is.
    AddressLearned {
        /// Who, where known.
        peer: Option<AuthorId>,
        /// Where.
        address: String,
        /// Dial it for ever (a person, a ticket, the address book said so).
        keep: bool,
    },
    /// Somebody says that a peer holds a bank of this node's: it is dialled while more neighbours are wanted.
    PeerFound {
        /// Who.
        peer: AuthorId,
        /// Where.
        address: String,
    },
    /// A connection stands. One per peer until [`Event::Disconnected`].
    Connected {
        /// With whom.
        peer: AuthorId,
        /// The address this node dialled, if it was the one to dial.
        dialled: Option<String>,
    },
    /// No connection to the peer is left.
    Disconnected {
        /// Which.
        peer: AuthorId,
    },
    /// A dial came to nothing.
    DialFailed {
        /// Which.
        target: DialTarget,
        /// The address is this node's own: it is not tried again.
        own: bool,
    },
    /// A message came.
    Received {
        /// From whom.
        peer: AuthorId,
        /// What.
        message: Message,
    },
    /// Bytes came that are no message.
    Malformed {
        /// From whom.
        peer: AuthorId,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// This node itself wrote records; they are durable.
    Published {
        /// In which bank.
        bank: BankId,
        /// The records, with the bodies they name.
        items: Vec<(Record, Option<Arc<[u8]>>)>,
    },
    /// Answers [`Effect::Admit`], in the order of its items.
    Admitted {
        /// As given.
        ticket: Ticket,
        /// One for each item.
        results: Vec<Admission>,
    },
    /// Answers [`Effect::Load`].
    Loaded {
        /// As given.
        ticket: Ticket,
        /// What is held, in the order asked, as much as fits the budget.
        items: Vec<Item>,
        /// Ids that are not held.
        absent: Vec<RecordId>,
    },
    /// Answers [`Effect::Search`].
    Found {
        /// As given.
        ticket: Ticket,
        /// Records that teach the lessons found, best first, with bodies.
        items: Vec<Item>,
    },
    /// Answers [`Effect::Suggest`].
    Suggested {
        /// As given.
        ticket: Ticket,
        /// The most useful first.
        ids: Vec<RecordId>,
    },
    /// What agents here are working on, the latest first, as texts that may be shown to peers. From now on these are shown to
    /// peers that have many records for this node, so that those near to them come first; with none (as at the beginning)
    /// nothing is shown, and the latest of each author come first.
    WorkingOn {
        /// At most [`MAX_NEAR`](crate::message::MAX_NEAR) are used, each cut to
        /// [`MAX_NEAR_BYTES`](crate::message::MAX_NEAR_BYTES).
        texts: Vec<String>,
    },
    /// An agent here asks the connected peers.
    Ask {
        /// Comes back in [`Effect::Answered`].
        ask: u64,
        /// In which bank.
        bank: BankId,
        /// The task.
        query: String,
        /// How many hits of each peer.
        hits: u32,
        /// Answer by then with what there is.
        deadline: Time,
    },
    /// Who may be told of runs under way in a bank: its readers, with its owner. Until it is said, nobody is; said again when the
    /// policy changes.
    RunReaders {
        /// The bank.
        bank: BankId,
        /// Who.
        readers: Access,
    },
    /// A run of this node's own that a bank's readers may have was begun, came further, or ended. Said of each at the start
    /// too.
    RunShared {
        /// The bank.
        bank: BankId,
        /// How far it has come.
        head: RunHead,
        /// What it is about.
        about: RunAbout,
    },
    /// Answers [`Effect::RunHeard`] and [`Effect::StoreSteps`], of which one at a time is under way for a run.
    RunHeld {
        /// Whose run.
        peer: AuthorId,
        /// In which bank.
        bank: BankId,
        /// Which.
        run: RunKey,
        /// Steps that are durable here; `None` if it is not wanted, or was let go.
        have: Option<u32>,
    },
    /// Answers [`Effect::LoadSteps`].
    StepsLoaded {
        /// As given.
        ticket: Ticket,
        /// As asked; none if there is no more.
        pieces: Vec<StepPiece>,
    },
    /// Reconcile now with this peer, or with all.
    Sync {
        /// Whom.
        peer: Option<AuthorId>,
    },
}

/// What comes out.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send a message. If it cannot be queued it may be dropped: every request has a timeout.
    Send {
        /// To whom.
        peer: AuthorId,
        /// What.
        message: Message,
    },
    /// Connect; answered by [`Event::Connected`] or [`Event::DialFailed`].
    Dial {
        /// To whom.
        target: DialTarget,
        /// Where, best first.
        addresses: Vec<String>,
    },
    /// Close every connection with a peer.
    Disconnect {
        /// Which.
        peer: AuthorId,
        /// Why, for the log.
        reason: &'static str,
    },
    /// Check and store records, durably.
    Admit {
        /// For [`Event::Admitted`].
        ticket: Ticket,
        /// In which bank.
        bank: BankId,
        /// The records.
        items: Vec<Incoming>,
    },
    /// Read records with their bodies.
    Load {
        /// For [`Event::Loaded`].
        ticket: Ticket,
        /// Of which bank.
        bank: BankId,
        /// Which.
        ids: Vec<RecordId>,
        /// Stop before the items pass this many bytes, but give at least one.
        budget_bytes: usize,
    },
    /// Search the own bank for a peer.
    Search {
        /// For [`Event::Found`].
        ticket: Ticket,
        /// Which bank.
        bank: BankId,
        /// The task.
        query: String,
        /// How many hits.
        hits: u32,
    },
    /// Say which records held are the most useful to a peer that has many to fetch.
    Suggest {
        /// For [`Event::Suggested`].
        ticket: Ticket,
        /// Of which bank.
        bank: BankId,
        /// What they should be near to. Where that is nothing, or says nothing more: the highest seq of each author, then the
        /// second highest of each, and so on.
        near: Vec<String>,
        /// Leave out so many of the first.
        from: usize,
        /// At most so many.
        count: usize,
    },
    /// A peer tells of a run of its own: store what it says of it, if it is wanted.
    RunHeard {
        /// Whose.
        peer: AuthorId,
        /// In which bank.
        bank: BankId,
        /// How far it has come.
        head: RunHead,
        /// What it is about, where that was told.
        about: Option<RunAbout>,
    },
    /// Check and store steps of a peer's run, and what its head says besides, durably.
    StoreSteps {
        /// Whose.
        peer: AuthorId,
        /// In which bank.
        bank: BankId,
        /// How far it has come.
        head: RunHead,
        /// The number of the first of the steps.
        from: u32,
        /// Canonical bytes of each; nothing in them is checked.
        steps: Vec<Vec<u8>>,
    },
    /// Read steps of a run of this node's own for a peer.
    LoadSteps {
        /// For [`Event::StepsLoaded`].
        ticket: Ticket,
        /// For whom.
        peer: AuthorId,
        /// Of which bank.
        bank: BankId,
        /// Which run.
        run: RunKey,
        /// From which step on, from 1.
        from: u32,
        /// Bytes of that step to leave out.
        offset: u32,
        /// At most so many bytes.
        budget_bytes: usize,
    },
    /// A query of this node's own has ended.
    Answered {
        /// As given.
        ask: u64,
        /// Who answered, and what.
        answers: Vec<Answer>,
        /// Who was asked and did not answer.
        silent: Vec<AuthorId>,
    },
}
