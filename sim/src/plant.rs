//! Bugs put into a run on purpose, to see that a check notices them. They sit between a node and its network or its disk, so
//! nothing of what is shipped knows of them.

use folklore_protocol::{Claim, Message, message::SketchAnswer};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// One reply in this many is never sent.
    DropReplies(u64),
    /// A node comes back from a crash without the withdrawals it had, as from an old copy.
    BringBackWithdrawn,
    /// Node `.0` stores the body that came beside another record.
    AcceptWrongHash(usize),
    /// Node `.0` files each fifth record under a second id too.
    CountTwice(usize),
    /// Node `.0` says that all of a batch is durable, and the last of it is not.
    LoseTail(usize),
    /// Nodes answer every comparison with "the same", whatever differs.
    SayComplete,
}

/// Whether a message answers a request.
pub(crate) fn is_reply(message: &Message) -> bool {
    matches!(
        message,
        Message::Records { .. } | Message::Answer { .. } | Message::Probed { .. } | Message::Sketched { .. }
    )
}

/// What a node says instead of `message`; `None` if nothing. `replies` counts those there were so far.
pub(crate) fn said(plant: Option<Plant>, replies: &mut u64, message: Message) -> Option<Message> {
    *replies += u64::from(is_reply(&message));
    match (plant, message) {
        (Some(Plant::DropReplies(one_in)), message) if is_reply(&message) && replies.is_multiple_of(one_in) => None,
        (Some(Plant::SayComplete), Message::Sketched { bank, session, .. }) => {
            Some(Message::Sketched { bank, session, answer: SketchAnswer::Same })
        }
        (_, message) => Some(message),
    }
}

/// Whether a claim is one that [`Plant::BringBackWithdrawn`] loses.
pub(crate) fn is_withdrawal(claim: &Claim) -> bool {
    matches!(claim, Claim::Withdrawn { .. })
}
