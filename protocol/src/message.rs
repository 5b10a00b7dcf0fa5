//! Every message that nodes exchange, in one enum, with its limits.
//!
//! A message is one frame: canonical bytes of [`Message`], at most [`MAX_MESSAGE_BYTES`]. Lists in messages are bounded by
//! named constants and checked on decoding, so that nothing a stranger sends makes this node allocate or answer more.

use serde::{Deserialize, Serialize};

use crate::{
    bank::BankId,
    canonical::{self, DecodeError, Lines},
    identity::AuthorId,
    known::{NodeHash, Prefix, Root, ShortId},
    lesson::MAX_BODY_BYTES,
    record::{MAX_RECORD_BYTES, RecordId},
    run_log::{self, RunAbout, RunHead, RunKey, StepPiece},
};

pub use crate::reconcile::{Cell, ESTIMATE_BYTES};

mod length;

/// Version of what nodes say; a peer that greets with another is told so and let go. What every version shares, so that it can
/// be told: a greeting begins with its version, and a refusal reads as here.
pub const PROTOCOL_VERSION: u32 = 3;
/// Longest message, bytes. Two of them fit the 128 KiB that a relay gives a circuit by default.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Bytes of records and bodies in one message: the largest record with its body fits, with room for the envelope.
pub const ITEMS_BUDGET_BYTES: usize = 48 * 1024;
/// Most banks in a greeting.
pub const MAX_GREETED_BANKS: usize = 256;
/// Most prefixes asked about at once. Answers may be sixteen ids each: 64 × 16 × 32 bytes stay inside a message.
pub const MAX_PROBES: usize = 64;
/// Most record ids in one message.
pub const MAX_IDS: usize = 1024;
/// Most cells in one message: 60 000 bytes.
pub const MAX_CELLS: usize = 5000;
/// Most short ids in one message, 8 bytes each, beside [`MAX_IDS`] whole ones.
pub const MAX_SHORT_IDS: usize = 3000;
/// Most records asked for at once.
pub const MAX_FETCH: usize = 128;
/// Longest query, bytes.
pub const MAX_QUERY_BYTES: usize = 4096;
/// Most hits asked of a peer, and most it answers with.
pub const MAX_ASKED_HITS: u32 = 16;
/// Most texts that say what a node is working on, and longest of them, bytes.
pub const MAX_NEAR: usize = 4;
/// Longest of the texts that say what a node is working on, bytes.
pub const MAX_NEAR_BYTES: usize = 512;
/// Longest words of a refusal, bytes.
pub const MAX_REFUSAL_BYTES: usize = 256;

/// A bank as it is named to a peer that may not know it: only one who knows the bank id can make or recognise the tag, and
/// it fits no other pair of nodes, so a greeting tells a stranger nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BankTag(pub [u8; 16]);

impl BankTag {
    /// The tag that `from` shows to `to` for `bank`.
    pub fn new(bank: &BankId, from: &AuthorId, to: &AuthorId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 bank greeting v1");
        hasher.update(&bank.0).update(&from.0).update(&to.0);
        let hash = hasher.finalize();
        Self(std::array::from_fn(|n| hash.as_bytes()[n]))
    }
}

/// A bank in a greeting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreetedBank {
    /// Which bank, to those who know it.
    pub tag: BankTag,
    /// The sender's known root: a peer whose root is equal has nothing to reconcile.
    pub root: Root,
    /// Records the sender holds.
    pub records: u64,
    /// An earlier session found records that the receiver has, and they are still missing at the sender: it fetches them now,
    /// and compares when it has them.
    pub resumes: bool,
}

/// A record on its way, with the body it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The record's bytes.
    pub record: Vec<u8>,
    /// The lesson's canonical bytes; `None` where the claim names none, or the sender has it no more.
    pub body: Option<Vec<u8>>,
}

impl Item {
    /// Bytes it takes.
    pub fn len(&self) -> usize {
        self.record.len() + self.body.as_ref().map_or(0, Vec::len)
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A question about a part of the tree of ids: "here is my hash below this prefix; what is yours?"
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Which part.
    pub prefix: Prefix,
    /// The asker's hash of it.
    pub hash: NodeHash,
}

/// The answer to one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAnswer {
    /// The hashes are equal.
    Same,
    /// Few ids: here they are, ascending.
    Ids(Vec<RecordId>),
    /// The hashes of the sixteen prefixes one half byte longer.
    Children(Box<[NodeHash; 16]>),
}

/// What comes with the first cells of a sketch: of which set they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchHead {
    /// Root over the ids the sender knows.
    pub root: Root,
    /// How many.
    pub records: u64,
    /// Their sum modulo 2^128, little endian: of each id its first half plus its second half times a constant, both little
    /// endian too.
    pub sum: [u8; 16],
    /// The sender's nonce, where short ids are made under a salt of both sides' nonces.
    pub nonce: Option<u64>,
}

/// The answer to a sketch. The order of the variants is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SketchAnswer {
    /// The roots are equal.
    Same,
    /// These cells do not tell yet.
    More {
        /// Cells that came without a gap; those that follow are missing.
        have: u32,
        /// Ids the answerer knows.
        records: u64,
        /// The answerer's nonce, should the opener want to start over under a salt.
        nonce: u64,
        /// The answerer's estimate bits, [`ESTIMATE_BYTES`], once a session.
        estimate: Option<Vec<u8>>,
    },
    /// The difference is known: this is what the opener lacks. What the answerer lacks it fetches.
    Found {
        /// At most [`MAX_SHORT_IDS`].
        lacks: Vec<ShortId>,
        /// How many more will follow in further messages.
        left: u32,
    },
    /// The same, under a salt.
    FoundSalted {
        /// What the opener lacks, at most [`MAX_IDS`].
        lacks: Vec<RecordId>,
        /// Salted short ids of what the answerer lacks, at most [`MAX_SHORT_IDS`]; the opener offers the ids they stand for.
        wants: Vec<ShortId>,
        /// How many more of both will follow in further messages.
        left: u32,
    },
    /// Colliding short ids: start over, under a salt from this nonce of the answerer's and one of the opener's.
    Salt {
        /// The answerer's.
        nonce: u64,
    },
    /// Compare by walking the tree of ids.
    Walk,
    /// The answerer has all that it lacked, and the sums of both sets agree with what was found.
    Done,
}

/// Why a peer was refused something. The order of the variants is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// It speaks another version.
    Version,
    /// It may not read the bank, or has not shown that it knows it.
    Bank,
    /// It sent what is not a message.
    Malformed,
}

/// What nodes say. The order of the variants is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The first message each way, and again whenever the set of banks changes.
    Hello {
        /// [`PROTOCOL_VERSION`] of the sender.
        version: u32,
        /// The sender's banks.
        banks: Vec<GreetedBank>,
    },
    /// Something is refused.
    Refusal {
        /// Why.
        code: RefusalCode,
        /// In words.
        detail: String,
    },
    /// Announce: a whole fresh record, along the spanning tree.
    Push {
        /// The bank.
        bank: BankId,
        /// Nodes it has passed, the author's being 0.
        hops: u32,
        /// The record.
        item: Item,
    },
    /// Announce: ids of fresh records, to the other neighbours.
    Have {
        /// The bank.
        bank: BankId,
        /// The ids.
        ids: Vec<RecordId>,
    },
    /// Announce: "push me whole records from now on": a gap showed that the tree is broken here.
    Graft {
        /// The bank.
        bank: BankId,
    },
    /// Announce: "send me only ids from now on": another neighbour was first.
    Prune {
        /// The bank.
        bank: BankId,
    },
    /// Reconcile: compare parts of the tree of ids.
    Probe {
        /// The bank.
        bank: BankId,
        /// The asker's number for the session.
        session: u64,
        /// At most [`MAX_PROBES`].
        probes: Vec<Probe>,
    },
    /// Reconcile: the answers, in the order of the probes.
    Probed {
        /// The bank.
        bank: BankId,
        /// As asked.
        session: u64,
        /// One for each probe.
        answers: Vec<ProbeAnswer>,
    },
    /// Reconcile: ids that the asker has found the other side lacks.
    Offer {
        /// The bank.
        bank: BankId,
        /// As asked.
        session: u64,
        /// How many the session offered before: if fewer came, a message was lost.
        from: u32,
        /// At most [`MAX_IDS`].
        ids: Vec<RecordId>,
        /// The session's last: with these the other side knows all it lacked.
        last: bool,
    },
    /// Asks for records.
    Fetch {
        /// The bank.
        bank: BankId,
        /// The asker's number for the request.
        request: u64,
        /// Records and bodies in the answer should not be more than this, but for the first.
        budget_bytes: u32,
        /// At most [`MAX_FETCH`]. Every record is meant that has one of these.
        ids: Vec<ShortId>,
    },
    /// Answers [`Message::Fetch`]: as many as fit its budget and [`ITEMS_BUDGET_BYTES`], in the order asked.
    Records {
        /// The bank.
        bank: BankId,
        /// As asked.
        request: u64,
        /// The records.
        items: Vec<Item>,
        /// Ids asked for that the sender knows, but does not hold.
        absent: Vec<RecordId>,
        /// Short ids asked for of which the sender knows no record.
        unknown: Vec<ShortId>,
    },
    /// Ask: a similarity query.
    Ask {
        /// The bank.
        bank: BankId,
        /// The asker's number for the query.
        request: u64,
        /// The task, as text: vectors never travel.
        query: String,
        /// How many hits at most.
        hits: u32,
    },
    /// Answers [`Message::Ask`] with records for the asker to verify and score itself.
    Answer {
        /// The bank.
        bank: BankId,
        /// As asked.
        request: u64,
        /// Records that teach the lessons found, with bodies.
        items: Vec<Item>,
        /// Records the sender holds, so that the asker sees how much was looked through.
        records: u64,
    },
    /// Reconcile: opens a session where nothing is likely to differ.
    Compare {
        /// The bank.
        bank: BankId,
        /// The asker's number for the session.
        session: u64,
        /// Root over the ids the asker knows.
        root: Root,
    },
    /// Reconcile: the first cells of the asker's ids, or more of them.
    Sketch {
        /// The bank.
        bank: BankId,
        /// The asker's number for the session.
        session: u64,
        /// With the first cells, and only there: a set, from its beginning.
        head: Option<SketchHead>,
        /// Which cell is the first here.
        from: u32,
        /// At most [`MAX_CELLS`].
        cells: Vec<Cell>,
        /// No more will come before an answer.
        last: bool,
    },
    /// Reconcile: answers [`Message::Compare`] and [`Message::Sketch`].
    Sketched {
        /// The bank.
        bank: BankId,
        /// As asked.
        session: u64,
        /// What the cells tell.
        answer: SketchAnswer,
    },
    /// Answers [`Message::Fetch`], [`Message::Ask`] and [`Message::Suggest`] where too many are under way: ask again later.
    Busy {
        /// The bank.
        bank: BankId,
        /// As asked.
        request: u64,
    },
    /// Asks which of the peer's records are the most useful, since many are to be fetched.
    Suggest {
        /// The bank.
        bank: BankId,
        /// The asker's number for the request.
        request: u64,
        /// What the asker's agents are working on: those near to it come first. None: the latest of each author come first.
        /// At most [`MAX_NEAR`] of at most [`MAX_NEAR_BYTES`] bytes.
        near: Vec<String>,
        /// How many of the order the asker has heard of.
        from: u32,
    },
    /// Answers [`Message::Suggest`].
    Suggested {
        /// The bank.
        bank: BankId,
        /// As asked.
        request: u64,
        /// At most [`MAX_FETCH`], the most useful first. Fewer than that: there are no more.
        ids: Vec<ShortId>,
    },
    /// Runs: how far a run of the sender's has come.
    Run {
        /// The bank whose readers may have it.
        bank: BankId,
        /// How far.
        head: RunHead,
        /// What it is about: with the first word about it, on a new connection, and now and then.
        about: Option<RunAbout>,
    },
    /// Runs: asks for steps.
    RunFetch {
        /// The bank.
        bank: BankId,
        /// The asker's number for the request.
        request: u64,
        /// Which run.
        run: RunKey,
        /// From which step on, from 1.
        from: u32,
        /// Bytes of that step that the asker has.
        offset: u32,
    },
    /// Answers [`Message::RunFetch`]: as many as fit [`ITEMS_BUDGET_BYTES`]; none if there is no more, or no such run.
    RunSteps {
        /// The bank.
        bank: BankId,
        /// As asked.
        request: u64,
        /// Which run.
        run: RunKey,
        /// At most [`MAX_PIECES`](run_log::MAX_PIECES). The first continues the step asked for; all but the last are whole to their ends.
        pieces: Vec<StepPiece>,
    },
}

impl Message {
    /// Its name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Refusal { .. } => "refusal",
            Self::Push { .. } => "push",
            Self::Have { .. } => "have",
            Self::Graft { .. } => "graft",
            Self::Prune { .. } => "prune",
            Self::Probe { .. } => "probe",
            Self::Probed { .. } => "probed",
            Self::Offer { .. } => "offer",
            Self::Fetch { .. } => "fetch",
            Self::Records { .. } => "records",
            Self::Ask { .. } => "ask",
            Self::Answer { .. } => "answer",
            Self::Compare { .. } => "compare",
            Self::Sketch { .. } => "sketch",
            Self::Sketched { .. } => "sketched",
            Self::Busy { .. } => "busy",
            Self::Suggest { .. } => "suggest",
            Self::Suggested { .. } => "suggested",
            Self::Run { .. } => "run",
            Self::RunFetch { .. } => "run-fetch",
            Self::RunSteps { .. } => "run-steps",
        }
    }

    /// The bytes of a frame.
    pub fn encode(&self) -> Vec<u8> {
        canonical::encode(self)
    }

    /// How long the frame is, without making it. A simulator that hands messages over as they are asks this for each.
    pub fn encoded_len(&self) -> usize {
        length::of(self)
    }

    /// Reads a frame, checking every limit.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        if let Some(found) = spoken_version(frame).filter(|version| *version != PROTOCOL_VERSION) {
            return Err(DecodeError::Protocol { found });
        }
        let message: Self = canonical::decode::<Self, MAX_MESSAGE_BYTES>(frame)?;
        message.check()?;
        Ok(message)
    }

    /// The bank a message is about, if it is about one.
    pub fn bank(&self) -> Option<BankId> {
        match self {
            Self::Hello { .. } | Self::Refusal { .. } => None,
            Self::Push { bank, .. }
            | Self::Have { bank, .. }
            | Self::Graft { bank }
            | Self::Prune { bank }
            | Self::Probe { bank, .. }
            | Self::Probed { bank, .. }
            | Self::Offer { bank, .. }
            | Self::Fetch { bank, .. }
            | Self::Records { bank, .. }
            | Self::Ask { bank, .. }
            | Self::Answer { bank, .. }
            | Self::Compare { bank, .. }
            | Self::Sketch { bank, .. }
            | Self::Sketched { bank, .. }
            | Self::Busy { bank, .. }
            | Self::Suggest { bank, .. }
            | Self::Suggested { bank, .. }
            | Self::Run { bank, .. }
            | Self::RunFetch { bank, .. }
            | Self::RunSteps { bank, .. } => Some(*bank),
        }
    }

    fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::Hello { banks, .. } => at_most("banks", banks.len(), MAX_GREETED_BANKS),
            Self::Refusal { detail, .. } => canonical::check_text("detail", detail, MAX_REFUSAL_BYTES, Lines::One),
            Self::Push { item, .. } => check_items(std::slice::from_ref(item)),
            Self::Have { ids, .. } | Self::Offer { ids, .. } => at_most("ids", ids.len(), MAX_IDS),
            Self::Graft { .. } | Self::Prune { .. } => Ok(()),
            Self::Probe { probes, .. } => {
                at_most("probes", probes.len(), MAX_PROBES)?;
                probes.iter().try_for_each(|p| p.prefix.check())
            }
            Self::Probed { answers, .. } => {
                at_most("answers", answers.len(), MAX_PROBES)?;
                answers.iter().try_for_each(|answer| match answer {
                    ProbeAnswer::Ids(ids) => canonical::check_set("ids", ids, crate::known::LEAF_IDS),
                    ProbeAnswer::Same | ProbeAnswer::Children(_) => Ok(()),
                })
            }
            Self::Fetch { ids, .. } => at_most("ids", ids.len(), MAX_FETCH),
            Self::Records { items, absent, unknown, .. } => {
                at_most("absent", absent.len(), MAX_FETCH)?;
                at_most("unknown", unknown.len(), MAX_FETCH)?;
                check_items(items)
            }
            Self::Ask { query, hits, .. } => {
                at_most("hits", *hits as usize, MAX_ASKED_HITS as usize)?;
                canonical::check_text("query", query, MAX_QUERY_BYTES, Lines::Many)
            }
            Self::Answer { items, .. } => check_items(items),
            Self::Compare { .. } => Ok(()),
            Self::Sketch { head, from, cells, .. } => {
                at_most("cells", cells.len(), MAX_CELLS)?;
                if head.is_some() != (*from == 0) {
                    return Err(DecodeError::Invalid(
                        "a sketch has a head with its first cells, and only there".into(),
                    ));
                }
                Ok(())
            }
            Self::Sketched { answer, .. } => check_sketch_answer(answer),
            Self::Busy { .. } => Ok(()),
            Self::Suggest { near, .. } => {
                at_most("texts", near.len(), MAX_NEAR)?;
                near.iter().try_for_each(|text| canonical::check_text("near", text, MAX_NEAR_BYTES, Lines::Many))
            }
            Self::Suggested { ids, .. } => at_most("ids", ids.len(), MAX_FETCH),
            Self::Run { head, about, .. } => {
                head.check()?;
                about.as_ref().map_or(Ok(()), RunAbout::check)
            }
            Self::RunFetch { from, offset, .. } => {
                at_most("steps", *from as usize, run_log::MAX_RUN_STEPS as usize + 1)?;
                at_most("bytes of a step", *offset as usize, run_log::MAX_RUN_STEP_BYTES)
            }
            Self::RunSteps { pieces, .. } => run_log::check_pieces(pieces),
        }
    }
}

/// The version in a greeting, whatever else is in it: that is how the greeting of another version reads.
fn spoken_version(frame: &[u8]) -> Option<u32> {
    match frame {
        [canonical::FORMAT_VERSION, 0, small @ 0..=250, ..] => Some(u32::from(*small)),
        [canonical::FORMAT_VERSION, 0, 251, a, b, ..] => Some(u32::from(u16::from_le_bytes([*a, *b]))),
        [canonical::FORMAT_VERSION, 0, 252, a, b, c, d, ..] => Some(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

fn at_most(what: &str, len: usize, limit: usize) -> Result<(), DecodeError> {
    if len > limit {
        return Err(DecodeError::Invalid(format!("{len} {what} in a message, the limit is {limit}")));
    }
    Ok(())
}

fn check_sketch_answer(answer: &SketchAnswer) -> Result<(), DecodeError> {
    match answer {
        SketchAnswer::More { estimate: Some(bytes), .. } if bytes.len() != ESTIMATE_BYTES => {
            Err(DecodeError::Invalid(format!("an estimate of {} bytes, it has {ESTIMATE_BYTES}", bytes.len())))
        }
        SketchAnswer::Found { lacks, .. } => at_most("short ids", lacks.len(), MAX_SHORT_IDS),
        SketchAnswer::FoundSalted { lacks, wants, .. } => {
            at_most("ids", lacks.len(), MAX_IDS)?;
            at_most("short ids", wants.len(), MAX_SHORT_IDS)
        }
        SketchAnswer::Same
        | SketchAnswer::More { .. }
        | SketchAnswer::Salt { .. }
        | SketchAnswer::Walk
        | SketchAnswer::Done => Ok(()),
    }
}

fn check_items(items: &[Item]) -> Result<(), DecodeError> {
    at_most("records", items.len(), MAX_FETCH)?;
    items.iter().try_for_each(|item| {
        at_most("bytes of a record", item.record.len(), MAX_RECORD_BYTES)?;
        at_most("bytes of a body", item.body.as_ref().map_or(0, Vec::len), MAX_BODY_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tag_fits_one_bank_and_one_direction_between_two_nodes() {
        let (bank, a, b) = (BankId([1; 32]), AuthorId([2; 32]), AuthorId([3; 32]));
        let tag = BankTag::new(&bank, &a, &b);
        assert_ne!(tag, BankTag::new(&bank, &b, &a));
        assert_ne!(tag, BankTag::new(&BankId([9; 32]), &a, &b));
        assert_eq!(tag, BankTag::new(&bank, &a, &b));
    }

    #[test]
    fn the_largest_answers_fit_a_message() {
        let ids = |n: usize| {
            (0..n)
                .map(|n| RecordId(std::array::from_fn(|at| if at < 2 { (n >> (8 * at)) as u8 } else { 255 })))
                .collect::<Vec<_>>()
        };
        let bank = BankId([1; 32]);
        let mut leaf = ids(crate::known::LEAF_IDS);
        leaf.sort();
        let largest = [
            Message::Probed { bank, session: u64::MAX, answers: vec![ProbeAnswer::Ids(leaf); MAX_PROBES] },
            Message::Offer { bank, session: u64::MAX, from: u32::MAX, ids: ids(MAX_IDS), last: true },
            Message::Records {
                bank,
                request: u64::MAX,
                items: vec![Item { record: vec![0; MAX_RECORD_BYTES], body: Some(vec![0; MAX_BODY_BYTES]) }],
                absent: ids(MAX_FETCH),
                unknown: vec![ShortId([255; 8]); MAX_FETCH],
            },
            Message::Sketch {
                bank,
                session: u64::MAX,
                head: Some(SketchHead { root: Root([9; 32]), records: u64::MAX, sum: [9; 16], nonce: Some(u64::MAX) }),
                from: 0,
                cells: vec![Cell { short: [255; 8], check: [255; 4] }; MAX_CELLS],
                last: true,
            },
            Message::Sketched {
                bank,
                session: u64::MAX,
                answer: SketchAnswer::FoundSalted {
                    lacks: ids(MAX_IDS),
                    wants: vec![ShortId([255; 8]); MAX_SHORT_IDS],
                    left: u32::MAX,
                },
            },
        ];
        for message in largest {
            let frame = message.encode();
            assert!(frame.len() <= MAX_MESSAGE_BYTES, "{} bytes", frame.len());
            assert_eq!(Message::decode(&frame), Ok(message));
        }
    }

    #[test]
    fn a_list_over_its_limit_is_refused() {
        let many = Message::Fetch {
            bank: BankId([1; 32]),
            request: 1,
            budget_bytes: 1,
            ids: vec![ShortId([0; 8]); MAX_FETCH + 1],
        };
        assert!(Message::decode(&many.encode()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_frames_never_panic_and_what_reads_is_canonical(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = 1;
            }
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
