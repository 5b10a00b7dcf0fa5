//! What is to come, ordered by (time, sequence).

use folklore_protocol::{BankId, Incoming, Message, RecordId, Ticket};

use crate::disk::Stored;

/// Records on their way to a disk.
#[derive(Debug)]
pub(crate) struct Admitting {
    pub(crate) ticket: Ticket,
    pub(crate) bank: BankId,
    pub(crate) items: Vec<Incoming>,
}

/// What is read from a disk.
#[derive(Debug)]
pub(crate) enum Reading {
    Load { ids: Vec<RecordId>, budget_bytes: usize },
    Search { query: String, hits: u32 },
    Suggest { near: Vec<String>, from: usize, count: usize },
}

/// One thing to come. Small, since the heap moves it about: what is large is boxed.
#[derive(Debug)]
pub(crate) enum Happening {
    Deliver {
        from: u32,
        to: u32,
        slot: u32,
        connection: u64,
        message: Box<Message>,
    },
    /// The first packet of a dial that began at `began_ms` is sent, for this time after the first.
    Knock {
        from: u32,
        to: u32,
        life: u32,
        again: u8,
        began_ms: u64,
    },
    /// The handshake of a dial is over for who dialled, and for the other so much later.
    DialEnds {
        from: u32,
        to: u32,
        life: u32,
        later_ms: u32,
        began_ms: u64,
    },
    DialFails {
        from: u32,
        to: u32,
        life: u32,
    },
    /// It is over for the other.
    Accepted {
        to: u32,
        slot: u32,
        connection: u64,
    },
    /// One end has given up a connection, and the other hears of it.
    Hangup {
        from: u32,
        to: u32,
        slot: u32,
        connection: u64,
    },
    /// It is looked whether a connection is silent at a node.
    Silence {
        node: u32,
        slot: u32,
        connection: u64,
    },
    /// A node that stood still goes on.
    GoesOn {
        node: u32,
    },
    Admit {
        node: u32,
        life: u32,
        admitting: Box<Admitting>,
    },
    Read {
        node: u32,
        life: u32,
        ticket: Ticket,
        reading: Box<(BankId, Reading)>,
    },
    Write {
        node: u32,
        life: u32,
        write: Box<(BankId, Vec<Stored>)>,
    },
    Wake {
        node: u32,
        life: u32,
    },
    Attack {
        node: u32,
        life: u32,
    },
    Call(u64),
}

impl Happening {
    /// The node it happens to, and in which of its lives; `None` where it is no node's, or any life's.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::Deliver { to: node, .. }
            | Self::Knock { from: node, .. }
            | Self::DialEnds { from: node, .. }
            | Self::DialFails { from: node, .. }
            | Self::Accepted { to: node, .. }
            | Self::Hangup { to: node, .. }
            | Self::Silence { node, .. }
            | Self::Admit { node, .. }
            | Self::Read { node, .. }
            | Self::Write { node, .. }
            | Self::Wake { node, .. }
            | Self::Attack { node, .. } => Some(*node as usize),
            Self::GoesOn { .. } | Self::Call(_) => None,
        }
    }

    /// What goes into the log of a run: kind and place.
    pub(crate) fn mark(&self) -> u64 {
        let at = |kind: u64, a: u32, b: u32| kind | u64::from(a) << 8 | u64::from(b) << 36;
        match self {
            Self::Deliver { from, to, .. } => at(1, *from, *to),
            Self::DialEnds { from, to, .. } => at(2, *from, *to),
            Self::Silence { node, slot, .. } => at(3, *node, *slot),
            Self::Admit { node, life, .. } => at(4, *node, *life),
            Self::Read { node, life, .. } => at(5, *node, *life),
            Self::Write { node, life, .. } => at(6, *node, *life),
            Self::Wake { node, life } => at(7, *node, *life),
            Self::Attack { node, life } => at(8, *node, *life),
            Self::Hangup { to, slot, .. } => at(10, *to, *slot),
            Self::Knock { from, to, .. } => at(12, *from, *to),
            Self::DialFails { from, to, .. } => at(13, *from, *to),
            Self::Accepted { to, slot, .. } => at(14, *to, *slot),
            Self::GoesOn { node } => at(15, *node, 0),
            Self::Call(number) => 11 | number << 8,
        }
    }
}

/// Something to come, and when.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) at_ms: u64,
    pub(crate) sequence: u64,
    pub(crate) happening: Happening,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.at_ms, self.sequence)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_heap_moves_about_is_small() {
        assert!(std::mem::size_of::<Entry>() <= 56, "{} bytes", std::mem::size_of::<Entry>());
    }
}
