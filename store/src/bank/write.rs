//! Writing: claims of our own, records of others, bodies, runs, settings. Everything a call adds is one group.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering,
};

use folklore_protocol::{
    bank::BankId,
    claim::{Claim, Outcome, RunDigest},
    identity::{AuthorId, Keypair},
    lesson::{Lesson, LessonId},
    record::{Record, RecordId},
};

use super::{
    Admission, BankInfo, Batch, ClaimOutcome, Incoming, MAX_SETTING_BYTES, SETTING_OWN, SETTING_PREFIX, Store, Written,
    facts::{Fact, RecordFact},
    index::{Index, OwnState, RunRef, SettingRef},
    logs,
    parallel::in_order,
    queue::Group,
    scan,
};
use crate::{
    error::WriteError,
    frame::{self, Frame, Key, Kind, Packer, Tree},
    runs::{MAX_RUN_BYTES, MAX_TASK_KEY_BYTES, RunOutcome, RunRow},
};

/// A group being planned: what goes to disk, and what the index learns when it is queued.
pub(super) struct Plan<'a> {
    pub(super) index: &'a Index,
    session: u64,
    pub(super) group: Group,
    packer: Packer,
    adds: Vec<Add>,
    new_lessons: HashSet<LessonId>,
    new_records: HashSet<RecordId>,
    new_runs: HashMap<RunDigest, RunRef>,
    /// What becomes of the logs of runs under way.
    pub(super) logs: Option<logs::Change>,
}

pub(super) enum Add {
    Logs(logs::Change),
    Bank(BankInfo),
    Setting(String, SettingRef),
    Note(String),
    Own(AuthorId, Vec<(BankId, OwnState)>),
    SeqFloor(u64),
}

impl<'a> Plan<'a> {
    fn new(index: &'a Index, session: u64) -> Self {
        let group = Group { next_arrival: index.next_arrival, ..Group::default() };
        Self {
            index,
            session,
            group,
            packer: Packer::default(),
            adds: Vec::new(),
            new_lessons: HashSet::new(),
            new_records: HashSet::new(),
            new_runs: HashMap::new(),
            logs: None,
        }
    }

    /// As [`Plan::put`], for the small values that are many: into a pack.
    fn pack(&mut self, tree: Tree, value: &[u8], identity: [u8; 32]) -> Result<u64, WriteError> {
        self.pack_as(Kind::Value, tree, value, identity)
    }

    /// Says that a body, which is not here, is not to be taken.
    pub(super) fn pack_erased(&mut self, id: &LessonId) -> Result<u64, WriteError> {
        self.pack_as(Kind::Erased, Tree::Lesson, &id.0, id.0)
    }

    fn pack_as(&mut self, kind: Kind, tree: Tree, value: &[u8], identity: [u8; 32]) -> Result<u64, WriteError> {
        if value.len() > frame::MAX_PART_BYTES {
            return Err(WriteError::TooLarge {
                what: "a record or body",
                len: value.len(),
                limit: frame::MAX_PART_BYTES,
            });
        }
        let arrival = self.group.next_arrival;
        let key = Key::first(tree, arrival);
        let frame = Frame { key, kind, parts: 1, generation: self.session << 32, payload: value };
        let full = self.packer.push(&frame);
        self.put_pack(full);
        self.group.next_arrival = arrival + 1;
        self.group.items.push((tree, arrival, identity));
        Ok(arrival)
    }

    fn put_pack(&mut self, pack: Option<(u64, Vec<u8>)>) {
        if let Some((first, bytes)) = pack {
            self.group.facts.push(Fact::Pack(first));
            self.change(frame::pack_key(first).to_vec(), Some(bytes));
        }
    }

    /// What goes to disk, and what the index learns.
    fn finish(mut self) -> (Group, Vec<Add>) {
        let last = self.packer.take();
        self.put_pack(last);
        self.adds.extend(self.logs.map(Add::Logs));
        (self.group, self.adds)
    }

    fn put(&mut self, tree: Tree, value: &[u8], identity: [u8; 32]) -> Result<(u64, u16), WriteError> {
        self.put_as(tree, value, |_| identity)
    }

    /// As [`Plan::put`], known to the count by what `identity` makes of the arrival number.
    pub(super) fn put_as(
        &mut self,
        tree: Tree,
        value: &[u8],
        identity: impl FnOnce(u64) -> [u8; 32],
    ) -> Result<(u64, u16), WriteError> {
        let arrival = self.group.next_arrival;
        let parts = self.put_at(tree, arrival, self.session_generation(), value)?;
        self.group.next_arrival = arrival + 1;
        self.group.items.push((tree, arrival, identity(arrival)));
        Ok((arrival, parts))
    }

    /// The generation of a value that takes no other's place.
    pub(super) fn session_generation(&self) -> u64 {
        self.session << 32
    }

    pub(super) fn put_at(
        &mut self,
        tree: Tree,
        arrival: u64,
        generation: u64,
        value: &[u8],
    ) -> Result<u16, WriteError> {
        let frames = frame::split(tree, arrival, generation, value).ok_or(WriteError::TooLarge {
            what: "a value",
            len: value.len(),
            limit: usize::from(u16::MAX) * frame::MAX_PART_BYTES,
        })?;
        let parts = frames.len() as u16;
        self.group.changes.extend(frames.into_iter().map(|(key, bytes)| (key.to_bytes().to_vec(), Some(bytes))));
        Ok(parts)
    }

    /// The generation of a value that takes the place of one with `generation`.
    pub(super) fn after(&self, generation: u64) -> u64 {
        (generation + 1).max(self.session << 32)
    }

    fn has_record(&self, id: &RecordId) -> bool {
        self.index.records.contains_key(id) || self.new_records.contains(id)
    }

    fn has_lesson(&self, id: &LessonId) -> bool {
        self.index.lessons.contains_key(id) || self.new_lessons.contains(id)
    }

    fn record(&mut self, record: &Record) -> Result<(), WriteError> {
        let arrival = self.pack(Tree::Record, record.bytes(), record.id().0)?;
        self.new_records.insert(record.id());
        self.group.facts.push(Fact::Record(arrival, RecordFact::of(record)));
        Ok(())
    }

    /// Stores a body that came from elsewhere. One that was forgotten here does not come back so.
    fn lesson(&mut self, lesson: &Lesson) -> Result<bool, WriteError> {
        if self.index.forgotten.contains(&lesson.id()) { Ok(false) } else { self.own_lesson(lesson) }
    }

    fn own_lesson(&mut self, lesson: &Lesson) -> Result<bool, WriteError> {
        if self.has_lesson(&lesson.id()) {
            return Ok(false);
        }
        let arrival = self.pack(Tree::Lesson, lesson.bytes(), lesson.id().0)?;
        self.new_lessons.insert(lesson.id());
        self.group.facts.push(Fact::Lesson(arrival, lesson.id()));
        Ok(true)
    }

    fn run(&mut self, run: &RunRow) -> Result<RunOutcome, WriteError> {
        for (what, len, limit) in
            [("a run", run.bytes.len(), MAX_RUN_BYTES), ("a task key", run.task_key.len(), MAX_TASK_KEY_BYTES)]
        {
            if len > limit {
                return Err(WriteError::TooLarge { what, len, limit });
            }
        }
        let held = self.new_runs.get(&run.digest).or_else(|| self.index.runs.get(&run.digest)).copied();
        let (run_ref, outcome) = match held {
            None => {
                let (arrival, parts) = self.put(Tree::Run, &run.to_value(), run.digest)?;
                let generation = self.session << 32;
                (RunRef { arrival, generation, outcome: run.outcome, parts }, RunOutcome::Stored)
            }
            Some(held) if held.outcome == Outcome::Unknown && run.outcome != Outcome::Unknown => {
                let generation = self.after(held.generation);
                let parts = self.put_at(Tree::Run, held.arrival, generation, &run.to_value())?;
                self.group.freed += u64::from(held.parts.saturating_sub(1)) * frame::RUN_PART_BYTES as u64;
                for part in parts..held.parts {
                    let key = Key { tree: Tree::Run, arrival: held.arrival, part };
                    self.group.changes.push((key.to_bytes().to_vec(), None));
                }
                (RunRef { generation, outcome: run.outcome, parts, ..held }, RunOutcome::Relabelled)
            }
            Some(_) => return Ok(RunOutcome::Duplicate),
        };
        self.new_runs.insert(run.digest, run_ref);
        self.group.facts.push(Fact::Run(run.digest, run.task_key.clone(), run_ref));
        Ok(outcome)
    }

    pub(super) fn setting(&mut self, name: &str, value: &[u8]) -> Result<(), WriteError> {
        for (what, len, limit) in [("a setting", value.len(), MAX_SETTING_BYTES), ("a setting's name", name.len(), 256)]
        {
            if len > limit {
                return Err(WriteError::TooLarge { what, len, limit });
            }
        }
        let stored = scan::join_setting(name, value);
        let (arrival, generation) = match self.index.settings.get(name) {
            Some(held) => {
                let generation = self.after(held.generation);
                let parts = self.put_at(Tree::Setting, held.arrival, generation, &stored)?;
                self.group.freed += (2 + name.len() + held.value.len()) as u64;
                let held_parts = (2 + name.len() + held.value.len()).div_ceil(frame::MAX_PART_BYTES) as u16;
                for part in parts..held_parts {
                    let key = Key { tree: Tree::Setting, arrival: held.arrival, part };
                    self.group.changes.push((key.to_bytes().to_vec(), None));
                }
                (held.arrival, generation)
            }
            None => (self.put(Tree::Setting, &stored, scan::setting_identity(name))?.0, self.session << 32),
        };
        self.adds.push(Add::Setting(name.to_owned(), SettingRef { arrival, generation, value: value.to_vec() }));
        Ok(())
    }

    pub(super) fn seq_floor(&mut self, floor: u64) -> Result<(), WriteError> {
        self.setting(super::SETTING_SEQ_FLOOR, &floor.to_le_bytes())?;
        self.group.seq_bound = floor;
        self.adds.push(Add::SeqFloor(floor));
        Ok(())
    }

    /// Puts a value in place of the one under a key of sled, or takes that out.
    pub(super) fn change(&mut self, raw_key: Vec<u8>, value: Option<Vec<u8>>) {
        self.group.changes.push((raw_key, value));
    }

    fn note(&mut self, text: String) -> Result<(), WriteError> {
        self.put(Tree::Note, text.as_bytes(), *blake3::hash(text.as_bytes()).as_bytes())?;
        self.adds.push(Add::Note(text));
        Ok(())
    }

    fn own(&mut self, author: AuthorId, states: Vec<(BankId, OwnState)>) -> Result<(), WriteError> {
        let all: Vec<u8> = self.index.own.iter().chain([&author]).flat_map(|a| a.0).collect();
        self.setting(SETTING_OWN, &all)?;
        self.adds.push(Add::Own(author, states));
        Ok(())
    }

    /// Numbers and signs claims, and plans them with their bodies, runs and settings. The author is adopted already.
    pub(super) fn write(
        &mut self,
        bank: BankId,
        keypair: &Keypair,
        at_ms: u64,
        batch: Batch,
        settings: &[(String, Vec<u8>)],
    ) -> Result<Written, WriteError> {
        let author = keypair.author();
        let state = self.index.bank(&bank).filter(|b| b.info.is_some()).ok_or(WriteError::UnknownBank(bank))?;
        let mut seq = self.index.next_seq(&bank, &author);
        let own = state.own.get(&author);
        let mut stands: HashMap<LessonId, Word> = HashMap::new();
        // First each claim's number, which is what order is needed for; a signature takes twenty times the rest.
        let mut numbered: Vec<Numbered> = Vec::with_capacity(batch.claims.len());
        for (index, (claim, body)) in batch.claims.into_iter().enumerate() {
            if body.as_ref().is_some_and(|body| claim.body() != Some(body.id())) {
                return Err(WriteError::Body { index });
            }
            let lesson = claim.lesson_id();
            let taught = matches!(claim, Claim::Taught { .. });
            let held = lesson.and_then(|lesson| {
                let before = || own?.stands.get(&lesson).map(|s| Word { by: By::Record(s.record), taught: s.taught });
                stands.get(&lesson).copied().or_else(before)
            });
            if let Some(Word { by, taught: true }) = held
                && taught
                && batch.skip_if_taught
            {
                numbered.push(Numbered { body, what: What::Known(by) });
                continue;
            }
            let this = seq.ok_or(WriteError::SeqExhausted(bank))?;
            seq = this.checked_add(1);
            let withdrawn = matches!(claim, Claim::Withdrawn { .. });
            if let Some(lesson) = lesson.filter(|_| taught || withdrawn) {
                stands.insert(lesson, Word { by: By::Claim(numbered.len()), taught });
            }
            self.group.seq_bound = this.saturating_add(1);
            numbered.push(Numbered { body, what: What::Sign(this, claim) });
        }
        let mut signed = Vec::with_capacity(numbered.len());
        let sign = |(): &mut (), claim: &Numbered| match &claim.what {
            What::Known(_) => None,
            What::Sign(seq, claim) => Some(Record::sign(keypair, bank, *seq, at_ms, claim.clone())),
        };
        in_order(
            &numbered,
            SIGNED_AT_ONCE,
            || (),
            sign,
            |record| {
                let index = signed.len();
                signed.push(record.transpose().map_err(|source| WriteError::Claim { index, source })?);
                Ok::<(), WriteError>(())
            },
        )?;
        let mut written = Written::default();
        for (Numbered { body, what }, record) in numbered.iter().zip(&signed) {
            if let Some(body) = body {
                self.own_lesson(body)?;
            }
            let outcome = match (record, what) {
                (Some(record), _) => {
                    self.record(record)?;
                    ClaimOutcome::Written(record.clone())
                }
                (None, What::Known(By::Record(id))) => ClaimOutcome::Known(*id),
                (None, What::Known(By::Claim(at))) => {
                    let record = signed.get(*at).and_then(Option::as_ref);
                    ClaimOutcome::Known(record.map_or(RecordId([0; 32]), Record::id))
                }
                (None, What::Sign(..)) => continue,
            };
            written.claims.push(outcome);
        }
        for run in &batch.runs {
            written.runs.push(self.run(run)?);
        }
        for (name, value) in settings {
            self.setting(name, value)?;
        }
        Ok(written)
    }
}

impl Index {
    fn learn(&mut self, group: &Group, adds: Vec<Add>) {
        self.next_arrival = group.next_arrival;
        group.facts.iter().for_each(|fact| self.apply(fact));
        for add in adds {
            match add {
                Add::Bank(info) => {
                    let id = info.id;
                    self.bank_mut(&id).info = Some(info);
                }
                Add::Setting(name, setting) => {
                    self.settings.insert(name, setting);
                }
                Add::Note(text) => self.notes.push(text),
                Add::Own(author, states) => {
                    self.own.insert(author);
                    for (bank, state) in states {
                        self.bank_mut(&bank).own.insert(author, state);
                    }
                }
                Add::SeqFloor(floor) => self.seq_floor = floor,
                Add::Logs(change) => self.logs.learn(change),
            }
        }
    }
}

/// Claims that a thread signs at a time: a signature takes 20 µs, starting a thread about twice that.
const SIGNED_AT_ONCE: usize = 32;

/// A claim of our own on its way to being a record.
struct Numbered {
    body: Option<Lesson>,
    what: What,
}

enum What {
    /// It is said already.
    Known(By),
    /// To be signed under a number.
    Sign(u64, Claim),
}

/// An author's latest word on a lesson.
#[derive(Clone, Copy)]
struct Word {
    by: By,
    taught: bool,
}

/// Who says it.
#[derive(Clone, Copy)]
enum By {
    /// A record that is there.
    Record(RecordId),
    /// A claim of the same group, by its place.
    Claim(usize),
}

impl Store {
    /// Plans a group under the lock that orders writers, queues it, and returns once it is durable.
    ///
    /// Also waits for whatever was queued before: an answer like "known" may rest on a group that is not durable yet.
    pub(super) fn group<T>(
        &self,
        plan: impl FnOnce(&Self, &mut Plan<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let (result, ticket) = {
            let _order = self.order();
            self.0.queue.check()?;
            let index = self.index();
            let mut planned = Plan::new(&index, self.0.session.load(Ordering::Relaxed));
            let result = plan(self, &mut planned)?;
            let (group, adds) = planned.finish();
            drop(index);
            let ticket = if group.changes.is_empty() {
                self.0.queue.tail()
            } else {
                self.index_mut().learn(&group, adds);
                self.0.queue.push(group)
            };
            (result, ticket)
        };
        self.0.queue.wait(ticket, &self.0.disk)?;
        Ok(result)
    }

    /// Makes a bank known here, durably. A bank already known is left as it is.
    pub fn add_bank(&self, info: BankInfo) -> Result<(), WriteError> {
        if BankId::new(&info.owner, &info.salt, &info.name) != info.id {
            return Err(WriteError::BankId(info.id));
        }
        self.group(|_, plan| {
            if plan.index.bank(&info.id).is_some_and(|b| b.info.is_some()) {
                return Ok(());
            }
            plan.put(Tree::Bank, &info.to_value(), info.id.0)?;
            plan.adds.push(Add::Bank(info));
            Ok(())
        })
    }

    /// Stores records of others, with their bodies, as one durable group. The answers are in the order of the records.
    ///
    /// The signatures are checked already, or there would be no [`Record`]. A body is stored once by its id, whatever
    /// banks share it. A record that is known brings its body in if that was missing.
    ///
    /// # Errors
    /// State unchanged, except after [`WriteError::Stopped`], where what is on disk is not certain.
    pub fn admit(&self, bank: BankId, incoming: Vec<Incoming>) -> Result<Vec<Admission>, WriteError> {
        self.group(|_, plan| {
            let state = plan.index.bank(&bank).filter(|b| b.info.is_some()).ok_or(WriteError::UnknownBank(bank))?;
            let declined = |reason: &str| Ok(Admission::Declined { reason: reason.to_owned() });
            let admit = |Incoming { record, body }: Incoming| {
                if record.bank() != bank {
                    return declined("the record belongs to another bank");
                }
                if let Some(body) = &body {
                    if record.claim().body() != Some(body.id()) {
                        return declined("the body is not the one that the record names");
                    }
                    plan.lesson(body)?;
                }
                if plan.has_record(&record.id()) {
                    return Ok(Admission::Known);
                }
                let held = state.own.get(&record.author()).and_then(|own| own.by_seq.get(&record.seq()));
                if let Some(held) = held {
                    plan.note(format!(
                        "own author {} has two records numbered {} in bank {bank}: {held} here, and {} from a peer; \
                         was this data directory copied or rolled back?",
                        record.author(),
                        record.seq(),
                        record.id(),
                    ))?;
                }
                plan.record(&record)?;
                Ok(Admission::Stored)
            };
            incoming.into_iter().map(admit).collect()
        })
    }

    /// Stores bodies of lessons, as one durable group. Returns how many were new.
    pub fn put_bodies(&self, lessons: &[Lesson]) -> Result<usize, WriteError> {
        self.group(|_, plan| lessons.iter().try_fold(0, |new, lesson| Ok(new + usize::from(plan.lesson(lesson)?))))
    }

    /// Numbers, signs and stores claims of our own, their bodies and the runs they came from, as one durable group:
    /// after a crash either all of it is there or none.
    ///
    /// # Errors
    /// State unchanged, except after [`WriteError::Stopped`], where what is on disk is not certain.
    pub fn write(&self, bank: BankId, keypair: &Keypair, at_ms: u64, batch: Batch) -> Result<Written, WriteError> {
        self.write_with(bank, keypair, at_ms, batch, &[])
    }

    /// As [`write`](Self::write), with settings in the same group: what a job brought and that it is done are there both or
    /// neither.
    ///
    /// # Errors
    /// As for [`write`](Self::write), and when a setting is too long or the bank's own.
    pub fn write_with(
        &self,
        bank: BankId,
        keypair: &Keypair,
        at_ms: u64,
        batch: Batch,
        settings: &[(String, Vec<u8>)],
    ) -> Result<Written, WriteError> {
        unreserved(settings)?;
        self.adopt(keypair.author())?;
        self.group(|_, plan| plan.write(bank, keypair, at_ms, batch, settings))
    }

    /// Returns once everything that is queued is durable.
    pub(super) fn settle_queue(&self) -> Result<(), WriteError> {
        self.0.queue.wait(self.0.queue.tail(), &self.0.disk)
    }

    /// Takes an author whose key signs here into the books, once: its records are looked through for numbers and stands.
    pub(super) fn adopt(&self, author: AuthorId) -> Result<(), WriteError> {
        if self.index().own.contains(&author) {
            return Ok(());
        }
        self.group(|store, plan| {
            if plan.index.own.contains(&author) {
                return Ok(());
            }
            // Records still on their way to disk cannot be read yet.
            store.settle_queue()?;
            let mut states = Vec::new();
            for bank in plan.index.banks.iter().filter(|b| b.highest_seq.contains_key(&author)) {
                let mut own = OwnState::default();
                store.read_records(&bank.records, |record| {
                    if record.author() == author {
                        own.add(&RecordFact::of(record));
                    }
                })?;
                states.push((bank.id, own));
            }
            plan.own(author, states)
        })
    }

    /// Stores a setting, durably. Up to [`MAX_SETTING_BYTES`]; sled keeps what is overwritten for long, so not for
    /// anything large that changes often.
    pub fn set_setting(&self, name: &str, value: &[u8]) -> Result<(), WriteError> {
        if name.starts_with(SETTING_PREFIX) {
            return Err(WriteError::Reserved(SETTING_PREFIX));
        }
        self.group(|_, plan| {
            if plan.index.settings.get(name).is_some_and(|held| held.value == value) {
                return Ok(());
            }
            plan.setting(name, value)
        })
    }
}

/// Names that the bank keeps for itself are nobody else's to set.
pub(super) fn unreserved(settings: &[(String, Vec<u8>)]) -> Result<(), WriteError> {
    match settings.iter().any(|(name, _)| name.starts_with(SETTING_PREFIX)) {
        true => Err(WriteError::Reserved(SETTING_PREFIX)),
        false => Ok(()),
    }
}
