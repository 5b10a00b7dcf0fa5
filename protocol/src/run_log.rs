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
//! memory, within the length that a step may have. Of each run one thing is under way: a question to the peer, or something
//! that storage was told. A question that gets no answer is asked again; a word that is lost is made good by the next one about
//! the run: at its next step, and with each regular comparison of the bank.
//!
//! Only those whom the bank's policy lets read are told, and whoever runs this node says who they are
//! ([`Event::RunReaders`](crate::Event::RunReaders)).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    bank::{Access, BankId},
    canonical::DecodeError,
    event::{Effect, Ticket},
    identity::AuthorId,
    message::{ITEMS_BUDGET_BYTES, Message},
    node::{Node, Pending, Timer},
    time::Time,
};

/// Runs of one peer under way that are followed, the first it tells of. A host has a few agents.
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

/// What a run is about.
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

/// What is under way for a run that is followed: one thing at a time, so that no answer meets a state that it was not asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The peer was asked for steps, under this number.
    Asked(u64),
    /// The peer is busy and is asked again before long.
    Resting,
    /// Storage was told something and has not answered.
    Storing,
}

/// A run of a peer that is followed.
#[derive(Debug)]
struct Followed {
    head: RunHead,
    /// Steps that are durable here; none as long as storage has not said.
    have: Option<u32>,
    /// What came of a step that is not whole yet, and which step that is.
    partial: (u32, Vec<u8>),
    doing: Doing,
    /// The head is newer than what storage was told.
    news: bool,
    /// Its connection is gone: what was heard is stored, and then it is followed no longer.
    gone: bool,
}

impl Followed {
    /// Whether the peer is known to have steps that are not here.
    fn is_behind(&self) -> bool {
        self.have.is_some_and(|have| have < self.head.steps)
    }
}

/// Shared runs, told and followed.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    told: BTreeMap<(BankId, RunKey), Told>,
    /// Who may be told of the runs of a bank; nobody where nothing was said.
    readers: BTreeMap<BankId, Access>,
    /// Whom the ended runs of a bank were told on this connection, with those that ended since, which the next comparison tells
    /// again: the first word may have been lost.
    ended: BTreeMap<(AuthorId, BankId), BTreeSet<RunKey>>,
    followed: BTreeMap<(AuthorId, BankId, RunKey), Followed>,
}

impl Runs {
    /// Runs of a peer that are followed: how many under way, and how many that have ended, of which storage was told.
    fn followed_of(&self, peer: AuthorId) -> (usize, usize) {
        let first = (peer, BankId([0; 32]), RunKey([0; 16]));
        let of_peer = self.followed.range(first..).take_while(|((other, ..), _)| *other == peer);
        of_peer.fold((0, 0), |(open, ended), (_, followed)| match followed.head.open {
            true => (open + 1, ended),
            false => (open, ended + 1),
        })
    }
}

impl Node {
    /// Who may be told of the runs of a bank. Those who now may, and could not before, are told at once.
    pub(crate) fn run_readers(&mut self, bank: BankId, readers: Access) {
        let mut could_not = self.peers.sharing(&bank);
        could_not.retain(|peer| !self.may_hear_runs(&bank, peer));
        self.runs.readers.insert(bank, readers);
        could_not.into_iter().for_each(|peer| self.tell_runs(bank, peer));
    }

    fn may_hear_runs(&self, bank: &BankId, peer: &AuthorId) -> bool {
        self.runs.readers.get(bank).is_some_and(|readers| readers.allows(peer))
    }

    /// A run of this node's own came a step further, ended or was begun.
    pub(crate) fn run_shared(&mut self, bank: BankId, head: RunHead, about: RunAbout) {
        let key = (bank, head.run);
        let is_new = !self.runs.told.contains_key(&key);
        if is_new && self.runs.told.len() >= MAX_RUNS_TOLD {
            let ended = self.runs.told.iter().filter(|(_, told)| !told.head.open);
            match ended.min_by_key(|(_, told)| told.about.began_ms).map(|(key, _)| *key) {
                Some(oldest) => self.runs.told.remove(&oldest),
                None => return,
            };
        }
        for peer in self.peers.sharing(&bank) {
            if !self.may_hear_runs(&bank, &peer) {
                continue;
            }
            if let Some(again) = self.runs.ended.get_mut(&(peer, bank)).filter(|_| !head.open)
                && again.len() < MAX_RUNS_TOLD
            {
                again.insert(head.run);
            }
            let about = (is_new && head.open).then(|| about.clone());
            self.send(peer, Message::Run { bank, head: head.clone(), about });
        }
        self.runs.told.insert(key, Told { head, about });
    }

    /// Tells a peer of the shared runs of a bank: of those under way, the latest begun first, and of those that ended once on
    /// each connection, and once more if it was meanwhile.
    pub(crate) fn tell_runs(&mut self, bank: BankId, peer: AuthorId) {
        if !self.may_hear_runs(&bank, &peer) {
            return;
        }
        let again = self.runs.ended.insert((peer, bank), BTreeSet::new());
        let of_bank = (bank, RunKey([0; 16]))..=(bank, RunKey([255; 16]));
        let (mut open, mut ended) = (Vec::new(), Vec::new());
        for ((_, run), told) in self.runs.told.range(of_bank) {
            if told.head.open {
                open.push(told);
            } else if again.as_ref().is_none_or(|again| again.contains(run)) {
                ended.push(told);
            }
        }
        open.sort_by_key(|told| (u64::MAX - told.about.began_ms, told.head.run));
        // Nobody follows more of one node: of the others the head alone, for whoever had them earlier.
        let is_wanted = |n: usize| n < MAX_RUNS_OF_PEER;
        let open = open.into_iter().enumerate();
        let open = open.map(|(n, told)| (told.head.clone(), is_wanted(n).then(|| told.about.clone())));
        // Whoever has a copy knows what it is about, and others need not.
        let ended = ended.into_iter().map(|told| (told.head.clone(), None));
        let messages: Vec<Message> =
            open.chain(ended).map(|(head, about)| Message::Run { bank, head, about }).collect();
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
        if !self.runs.followed.contains_key(&key) {
            let (open, ended) = self.runs.followed_of(peer);
            // Without what it is about, a run that is not followed yet says nothing; the next comparison tells it. One that has
            // ended is let go, if there is a copy of it.
            let wanted = !head.open || (about.is_some() && open < MAX_RUNS_OF_PEER);
            if !wanted || open + ended >= MAX_RUNS_OF_PEER + MAX_RUNS_TOLD {
                return;
            }
        }
        let followed = self.runs.followed.entry(key).or_insert_with(|| Followed {
            head: head.clone(),
            have: None,
            partial: (0, Vec::new()),
            doing: Doing::Nothing,
            news: true,
            gone: false,
        });
        followed.gone = false;
        followed.news |= followed.head != head;
        followed.head = head;
        if followed.doing != Doing::Nothing {
            return;
        }
        if about.is_some() || !followed.is_behind() {
            self.tell_storage(key, about);
        } else {
            self.go_on(key, now);
        }
    }

    /// Hands storage what was heard of a run.
    fn tell_storage(&mut self, key: (AuthorId, BankId, RunKey), about: Option<RunAbout>) {
        let Some(followed) = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Nothing) else { return };
        if !followed.news && about.is_none() {
            return;
        }
        (followed.doing, followed.news) = (Doing::Storing, false);
        let ((peer, bank, _), head) = (key, followed.head.clone());
        self.emit(Effect::RunHeard { peer, bank, head, about });
    }

    /// Does what is to be done next for a run that is followed, if something is.
    fn go_on(&mut self, key: (AuthorId, BankId, RunKey), now: Time) {
        let request = self.next_number();
        let Some(followed) = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Nothing) else { return };
        if followed.gone && !followed.news {
            self.runs.followed.remove(&key);
            return;
        }
        if followed.gone || !followed.head.open || !followed.is_behind() {
            self.tell_storage(key, None);
            return;
        }
        let from = followed.have.unwrap_or_default().saturating_add(1);
        if followed.partial.0 != from {
            followed.partial = (from, Vec::new());
        }
        followed.doing = Doing::Asked(request);
        let ((peer, bank, run), offset) = (key, followed.partial.1.len() as u32);
        self.send(peer, Message::RunFetch { bank, request, run, from, offset });
        self.set_timer(now + self.config.request_timeout_ms, Timer::Steps { peer, bank, run, request });
    }

    /// As [`Node::go_on`], but what is news is stored first: the peer may be going.
    fn go_on_after_news(&mut self, key: (AuthorId, BankId, RunKey), now: Time) {
        self.tell_storage(key, None);
        self.go_on(key, now);
    }

    /// Storage says how many steps of a peer's run are durable here; none if the run is not wanted, or let go.
    pub(crate) fn run_held(&mut self, peer: AuthorId, bank: BankId, run: RunKey, have: Option<u32>, now: Time) {
        let key = (peer, bank, run);
        let Some(followed) = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Storing) else { return };
        followed.doing = Doing::Nothing;
        followed.have = have;
        if have.is_none() || (!followed.head.open && !followed.news) {
            self.runs.followed.remove(&key);
            return;
        }
        self.go_on(key, now);
    }

    /// A question got no answer: it is asked again, unless the connection is taken for dead.
    pub(crate) fn steps_timed_out(&mut self, key: (AuthorId, BankId, RunKey), request: u64, now: Time) {
        let asked = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Asked(request));
        let Some(followed) = asked else { return };
        followed.doing = Doing::Nothing;
        self.timed_out(key.0);
        self.go_on_after_news(key, now);
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
        let asked = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Asked(request));
        let Some(followed) = asked else { return };
        followed.doing = Doing::Nothing;
        if pieces.is_empty() {
            // It has no more than this, whatever it said: it is asked no more until its next word.
            followed.partial.1.clear();
            self.tell_storage(key, None);
            return;
        }
        let mut steps = Vec::new();
        let (from, mut partial) = std::mem::take(&mut followed.partial);
        for piece in pieces {
            partial.extend_from_slice(&piece.bytes);
            if partial.len().saturating_add(piece.left as usize) > MAX_RUN_STEP_BYTES {
                self.runs.followed.remove(&key);
                self.strike(peer, now);
                return;
            }
            if piece.left == 0 {
                steps.push(std::mem::take(&mut partial));
            }
        }
        // What it recorded after its last word is asked for when that is told: without it nothing says where the chain leads.
        let told = followed.head.steps.saturating_add(1).saturating_sub(from) as usize;
        if steps.len() > told {
            steps.truncate(told);
            partial.clear();
        }
        followed.partial = (from.saturating_add(steps.len() as u32), partial);
        if steps.is_empty() || !followed.head.open {
            self.go_on(key, now);
            return;
        }
        (followed.doing, followed.news) = (Doing::Storing, false);
        let head = followed.head.clone();
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
        if !self.runs.told.contains_key(&(bank, run)) || !self.may_hear_runs(&bank, &peer) {
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

    /// A connection is gone. What was heard on it and is not stored is stored now: it may be the last word of a node that is
    /// gone for good. What a peer shared is told anew when it comes back.
    pub(crate) fn runs_disconnected(&mut self, peer: &AuthorId, now: Time) {
        self.runs.ended.retain(|(other, _), _| other != peer);
        let of_peer: Vec<_> = self.runs.followed.keys().filter(|(other, ..)| other == peer).copied().collect();
        for key in of_peer {
            let Some(followed) = self.runs.followed.get_mut(&key) else { continue };
            followed.gone = true;
            followed.partial.1.clear();
            if followed.doing != Doing::Storing {
                followed.doing = Doing::Nothing;
                self.go_on(key, now);
            }
        }
    }

    /// A question for steps was turned away as one too many: it is asked again after a pause.
    pub(crate) fn steps_busy(&mut self, peer: AuthorId, bank: BankId, request: u64, now: Time) {
        let mut of_bank = self.runs.followed.iter_mut().filter(|((p, b, _), _)| *p == peer && *b == bank);
        let Some((&(_, _, run), followed)) = of_bank.find(|(_, f)| f.doing == Doing::Asked(request)) else { return };
        followed.doing = Doing::Resting;
        self.set_timer(now + self.config.busy_pause_ms, Timer::StepsAgain { peer, bank, run });
    }

    /// The pause after [`Node::steps_busy`] is over.
    pub(crate) fn steps_rested(&mut self, key: (AuthorId, BankId, RunKey), now: Time) {
        let resting = self.runs.followed.get_mut(&key).filter(|f| f.doing == Doing::Resting);
        let Some(followed) = resting else { return };
        followed.doing = Doing::Nothing;
        self.go_on_after_news(key, now);
    }
}
