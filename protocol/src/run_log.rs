//! Runs under way that are shared: a node tells the readers of a bank how far its runs have come, and they fetch the steps,
//! so that another site can go on with a run whose node is gone.
//!
//! A log is no part of the record set: it is told by the node that holds it and by nobody else, on the connection that
//! says who that is, so nothing in it is signed. It ends with the run: then whoever copied it lets it go.
//!
//! ```text
//! holder                        reader
//!   Run(head, about)    ->        is it wanted, and how much of it is here?      Effect::RunHeard, Event::RunHeld
//!                      <-  RunFetch(from step, offset)
//!   RunSteps(pieces)    ->        whole steps are stored                         Effect::StoreSteps, Event::RunHeld
//! ```
//!
//! A step may be longer than a message, so steps travel in pieces; what is there of one that is not whole is kept in
//! memory, within the length that a step may have. One question for each run is under way. What is lost on the way is
//! made good by the next word about the run: at its next step, and with each regular comparison of the bank.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    bank::BankId,
    canonical::DecodeError,
    event::{Effect, Ticket},
    identity::AuthorId,
    message::{ITEMS_BUDGET_BYTES, Message},
    node::{Node, Pending, Timer},
    time::Time,
};

/// Runs of one peer that are followed. A host has a few agents.
pub const MAX_RUNS_OF_PEER: usize = 64;
/// Runs of this node's own that are told of, the latest begun of them.
pub const MAX_RUNS_TOLD: usize = 256;
/// Marks that a head tells of.
pub const MAX_RUN_MARKS: usize = 16;
/// Longest action in a mark, bytes; a longer one is cut, visibly.
pub const MAX_MARK_BYTES: usize = 512;
/// Longest canonical bytes of a step.
pub const MAX_RUN_STEP_BYTES: usize = 264 * 1024;
/// Steps of a run.
pub const MAX_RUN_STEPS: u32 = 2_048;
/// Pieces in a message: small steps come many at a time.
pub const MAX_PIECES: usize = 256;
/// Longest task in words, bytes.
pub const MAX_RUN_TASK_BYTES: usize = 16 * 1024;
/// Longest of the other texts about a run, bytes.
pub const MAX_RUN_LINE_BYTES: usize = 256;
/// Tags of a run.
pub const MAX_RUN_TAGS: usize = 16;

/// Names a run over all nodes: random bytes of whoever began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey(pub [u8; 16]);

/// Something that was started and is not recorded as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMark {
    /// The number of the step that it was to be.
    pub n: u32,
    /// When, wall time of the holder, milliseconds.
    pub at_ms: u64,
    /// What, at most [`MAX_MARK_BYTES`].
    pub action: String,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// Which run.
    pub run: RunKey,
    /// Whether it is under way; if not, copies are let go.
    pub open: bool,
    /// Steps recorded.
    pub steps: u32,
    /// The state after them: the last link of the chain over task and steps.
    pub state: [u8; 32],
    /// At most [`MAX_RUN_MARKS`].
    pub marks: Vec<RunMark>,
}

/// What a run is about; told once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAbout {
    /// What its holder calls it.
    pub name: String,
    /// What runs of the task share.
    pub task_key: String,
    /// The task in words.
    pub task: String,
    /// The field of work.
    pub domain: String,
    /// Who acts.
    pub agent: String,
    /// Words to filter by.
    pub tags: Vec<String>,
    /// When it began, wall time of the holder, milliseconds.
    pub began_ms: u64,
    /// The node it was taken over from and the steps taken over, if it was.
    pub branch: Option<(AuthorId, u32, [u8; 32])>,
}

/// A step's canonical bytes, or a part of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPiece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many of the step follow.
    pub left: u32,
}

impl RunHead {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        at_most("marks of a run", self.marks.len(), MAX_RUN_MARKS)?;
        at_most("steps of a run", self.steps as usize, MAX_RUN_STEPS as usize)?;
        self.marks.iter().try_for_each(|mark| at_most("bytes of a mark", mark.action.len(), MAX_MARK_BYTES))
    }
}

impl RunAbout {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        at_most("bytes of a task", self.task.len(), MAX_RUN_TASK_BYTES)?;
        at_most("tags", self.tags.len(), MAX_RUN_TAGS)?;
        let lines = [&self.name, &self.task_key, &self.domain, &self.agent].into_iter().chain(&self.tags);
        // Lengths alone: storage takes no text that it would have written otherwise.
        lines.into_iter().try_for_each(|line| at_most("bytes of a line about a run", line.len(), MAX_RUN_LINE_BYTES))
    }
}

pub(crate) fn check_pieces(pieces: &[StepPiece]) -> Result<(), DecodeError> {
    at_most("pieces", pieces.len(), MAX_PIECES)?;
    at_most("bytes of steps", pieces.iter().map(|piece| piece.bytes.len()).sum(), ITEMS_BUDGET_BYTES)?;
    // Only the last can be cut: of those in front the next step follows.
    let whole = pieces.split_last().is_none_or(|(_, front)| front.iter().all(|piece| piece.left == 0));
    if whole { Ok(()) } else { Err(DecodeError::Invalid("a step that is cut is followed by another".into())) }
}

fn at_most(what: &str, len: usize, limit: usize) -> Result<(), DecodeError> {
    if len > limit {
        return Err(DecodeError::Invalid(format!("{len} {what}, the limit is {limit}")));
    }
    Ok(())
}

/// A run of this node's own that is told of.
#[derive(Debug)]
struct Told {
    head: RunHead,
    about: RunAbout,
}

/// A run of a peer that is followed.
#[derive(Debug)]
struct Followed {
    head: RunHead,
    /// Steps that are durable here; none as long as storage has not said.
    have: Option<u32>,
    /// What came of the step behind them.
    partial: Vec<u8>,
    /// The question under way.
    asked: Option<u64>,
    /// With storage now.
    storing: bool,
    /// The head is newer than what storage was told.
    news: bool,
}

/// Shared runs, told and followed.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    told: BTreeMap<(BankId, RunKey), Told>,
    followed: BTreeMap<(AuthorId, BankId, RunKey), Followed>,
}

impl Node {
    /// A run of this node's own came a step further, ended or was begun.
    pub(crate) fn run_shared(&mut self, bank: BankId, head: RunHead, about: RunAbout) {
        let key = (bank, head.run);
        let is_new = !self.runs.told.contains_key(&key);
        if is_new && self.runs.told.len() >= MAX_RUNS_TOLD {
            let ended = self.runs.told.iter().find(|(_, told)| !told.head.open).map(|(key, _)| *key);
            match ended {
                Some(oldest) => self.runs.told.remove(&oldest),
                None => return,
            };
        }
        for peer in self.peers.sharing(&bank) {
            let about = is_new.then(|| about.clone());
            self.send(peer, Message::Run { bank, head: head.clone(), about });
        }
        self.runs.told.insert(key, Told { head, about });
    }

    /// Tells a peer of every shared run of a bank.
    pub(crate) fn tell_runs(&mut self, bank: BankId, peer: AuthorId) {
        let of_bank = (bank, RunKey([0; 16]))..=(bank, RunKey([255; 16]));
        let messages: Vec<Message> = self
            .runs
            .told
            .range(of_bank)
            .map(|(_, told)| Message::Run { bank, head: told.head.clone(), about: Some(told.about.clone()) })
            .collect();
        messages.into_iter().for_each(|message| self.send(peer, message));
    }

    pub(crate) fn receive_run(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        head: RunHead,
        about: Option<RunAbout>,
        now: Time,
    ) {
        let key = (peer, bank, head.run);
        let of_peer = self.runs.followed.keys().filter(|(other, ..)| *other == peer).count();
        let known = self.runs.followed.contains_key(&key);
        // Without what it is about, a run that is not followed yet says nothing; the next comparison tells it.
        if !known && (about.is_none() || of_peer >= MAX_RUNS_OF_PEER) {
            return;
        }
        let followed = self.runs.followed.entry(key).or_insert_with(|| Followed {
            head: head.clone(),
            have: None,
            partial: Vec::new(),
            asked: None,
            storing: false,
            news: true,
        });
        followed.news |= followed.head != head;
        followed.head = head;
        if followed.storing {
            return;
        }
        if about.is_some() || followed.have.is_none_or(|have| have >= followed.head.steps) {
            followed.storing = true;
            followed.news = false;
            let head = followed.head.clone();
            self.emit(Effect::RunHeard { peer, bank, head, about });
        } else {
            self.fetch_steps_at(key, now);
        }
    }

    /// Storage says how many steps of a peer's run are durable here; none if the run is not wanted, or let go.
    pub(crate) fn run_held(&mut self, peer: AuthorId, bank: BankId, run: RunKey, have: Option<u32>, now: Time) {
        let key = (peer, bank, run);
        let Some(followed) = self.runs.followed.get_mut(&key) else { return };
        followed.storing = false;
        let Some(have) = have else {
            self.runs.followed.remove(&key);
            return;
        };
        followed.have = Some(have);
        if have < followed.head.steps {
            self.fetch_steps_at(key, now);
        } else if followed.news {
            followed.storing = true;
            followed.news = false;
            let head = followed.head.clone();
            self.emit(Effect::RunHeard { peer, bank, head, about: None });
        }
    }

    fn fetch_steps_at(&mut self, key: (AuthorId, BankId, RunKey), now: Time) {
        if let Some(request) = self.fetch_steps(key) {
            let (peer, bank, run) = key;
            self.set_timer(now + self.config.request_timeout_ms, Timer::Steps { peer, bank, run, request });
        }
    }

    /// Asks for what follows; the number of the question.
    fn fetch_steps(&mut self, key: (AuthorId, BankId, RunKey)) -> Option<u64> {
        let (peer, bank, run) = key;
        let request = self.next_number();
        let followed = self.runs.followed.get_mut(&key)?;
        let have = followed.have?;
        if followed.asked.is_some() || followed.storing {
            return None;
        }
        followed.asked = Some(request);
        let (from, offset) = (have.saturating_add(1), followed.partial.len() as u32);
        self.send(peer, Message::RunFetch { bank, request, run, from, offset });
        Some(request)
    }

    /// A question got no answer: the next word about the run asks again.
    pub(crate) fn steps_timed_out(&mut self, key: (AuthorId, BankId, RunKey), request: u64) {
        let Some(followed) = self.runs.followed.get_mut(&key).filter(|f| f.asked == Some(request)) else { return };
        followed.asked = None;
        self.timed_out(key.0);
    }

    pub(crate) fn receive_run_steps(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        run: RunKey,
        pieces: Vec<StepPiece>,
        now: Time,
    ) {
        let key = (peer, bank, run);
        let Some(followed) = self.runs.followed.get_mut(&key).filter(|f| f.asked == Some(request)) else { return };
        followed.asked = None;
        if pieces.is_empty() {
            // It has no more than this, whatever it said.
            followed.partial.clear();
            return;
        }
        let mut steps = Vec::new();
        for piece in pieces {
            followed.partial.extend_from_slice(&piece.bytes);
            if followed.partial.len().saturating_add(piece.left as usize) > MAX_RUN_STEP_BYTES {
                self.runs.followed.remove(&key);
                self.strike(peer, now);
                return;
            }
            if piece.left == 0 {
                steps.push(std::mem::take(&mut followed.partial));
            }
        }
        if steps.is_empty() {
            self.fetch_steps_at(key, now);
            return;
        }
        followed.storing = true;
        followed.news = false;
        let (from, head) = (followed.have.unwrap_or(0).saturating_add(1), followed.head.clone());
        self.emit(Effect::StoreSteps { peer, bank, head, from, steps });
    }

    pub(crate) fn receive_run_fetch(
        &mut self,
        peer: AuthorId,
        bank: BankId,
        request: u64,
        run: RunKey,
        from: u32,
        offset: u32,
    ) {
        if !self.runs.told.contains_key(&(bank, run)) {
            self.send(peer, Message::RunSteps { bank, request, run, pieces: Vec::new() });
        } else if self.may_serve(peer, bank, request) {
            let ticket = self.issue(Pending::Steps { peer, bank, request, run });
            self.emit(Effect::LoadSteps { ticket, peer, bank, run, from, offset, budget_bytes: ITEMS_BUDGET_BYTES });
        }
    }

    pub(crate) fn steps_loaded(&mut self, ticket: Ticket, pieces: Vec<StepPiece>) {
        let Some(Pending::Steps { peer, bank, request, run }) = self.tickets.remove(&ticket) else { return };
        self.served(&peer);
        self.send(peer, Message::RunSteps { bank, request, run, pieces });
    }

    /// A connection is gone, and what was under way on it. What a peer shared is told anew when it comes back.
    pub(crate) fn runs_disconnected(&mut self, peer: &AuthorId) {
        self.runs.followed.retain(|(other, ..), _| other != peer);
    }

    /// A question for steps was turned away as one too many.
    pub(crate) fn steps_busy(&mut self, peer: AuthorId, bank: BankId, request: u64) {
        let of_bank = self.runs.followed.iter_mut().filter(|((p, b, _), _)| *p == peer && *b == bank);
        for (_, followed) in of_bank {
            if followed.asked == Some(request) {
                followed.asked = None;
            }
        }
    }
}
