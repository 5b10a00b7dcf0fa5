//! What the bank keeps in memory: which ids it holds and under which arrival number.

use std::collections::{BTreeSet, HashMap, HashSet};

use folklore_protocol::{
    bank::BankId,
    claim::{Outcome, RunDigest},
    identity::AuthorId,
    lesson::LessonId,
    record::RecordId,
};

use super::{
    BankInfo,
    facts::{Fact, RecordFact},
    logs::Logs,
};
use crate::frame::Tree;

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The next arrival number to give out.
    pub next_arrival: u64,
    /// The lowest arrival number of each pack, ascending.
    pub packs: Vec<u64>,
    pub banks: Vec<BankState>,
    bank_of: HashMap<BankId, usize>,
    pub records: HashMap<RecordId, u64>,
    pub lessons: HashMap<LessonId, u64>,
    /// Lessons whose body was erased, or is not to be taken, and that nobody here taught again.
    pub forgotten: HashSet<LessonId>,
    pub runs: HashMap<RunDigest, RunRef>,
    pub tasks: HashMap<String, Vec<RunDigest>>,
    pub settings: HashMap<String, SettingRef>,
    /// Authors whose keys sign here.
    pub own: BTreeSet<AuthorId>,
    /// No own record gets a number below this one; raised after a restore.
    pub seq_floor: u64,
    pub notes: Vec<String>,
    /// Runs under way.
    pub logs: Logs,
}

#[derive(Debug)]
pub(crate) struct BankState {
    pub id: BankId,
    pub info: Option<BankInfo>,
    /// In order of arrival.
    pub records: Vec<(u64, RecordId)>,
    pub highest_seq: HashMap<AuthorId, u64>,
    pub own: HashMap<AuthorId, OwnState>,
    /// Lessons that records of this bank teach and whose body is not here.
    pub missing: HashSet<LessonId>,
}

/// What an author that signs here has said in a bank.
#[derive(Debug, Default, Clone)]
pub(crate) struct OwnState {
    pub by_seq: HashMap<u64, RecordId>,
    pub stands: HashMap<LessonId, Stand>,
}

/// The author's latest word on a lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stand {
    pub seq: u64,
    pub record: RecordId,
    /// Taught, and not withdrawn since.
    pub taught: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunRef {
    pub arrival: u64,
    pub generation: u64,
    pub outcome: Outcome,
    pub parts: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct SettingRef {
    pub arrival: u64,
    pub generation: u64,
    pub value: Vec<u8>,
}

impl OwnState {
    pub fn add(&mut self, record: &RecordFact) {
        self.by_seq.entry(record.seq).or_insert(record.id);
        if let Some((lesson, taught)) = record.word {
            let stand = Stand { seq: record.seq, record: record.id, taught };
            let held = self.stands.entry(lesson).or_insert(stand);
            *held = stand.max(*held);
        }
    }
}

impl Index {
    /// The pack that holds the value of an arrival number, if a pack does.
    pub fn pack_of(&self, arrival: u64) -> Option<u64> {
        let behind = self.packs.partition_point(|first| *first <= arrival);
        self.packs.get(behind.checked_sub(1)?).copied()
    }

    pub fn bank(&self, id: &BankId) -> Option<&BankState> {
        self.banks.get(*self.bank_of.get(id)?)
    }

    /// The state of a bank, made on first sight: after damage its records may be there without its name.
    pub fn bank_mut(&mut self, id: &BankId) -> &mut BankState {
        let at = *self.bank_of.entry(*id).or_insert_with(|| {
            self.banks.push(BankState {
                id: *id,
                info: None,
                records: Vec::new(),
                highest_seq: HashMap::new(),
                own: HashMap::new(),
                missing: HashSet::new(),
            });
            self.banks.len() - 1
        });
        &mut self.banks[at]
    }

    /// Makes room for so many records and bodies.
    pub fn reserve(&mut self, records: usize, lessons: usize) {
        self.records.reserve(records);
        self.lessons.reserve(lessons);
    }

    /// Takes a fact in. The order does not matter, but for the order of a bank's records, and that a body which was erased and
    /// came again comes after it.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Pack(first) => self.packs.push(*first),
            Fact::Record(arrival, record) => self.add_record(*arrival, record),
            Fact::Lesson(arrival, id) => self.add_lesson(*arrival, *id),
            Fact::Erased(Tree::Lesson, arrival, id) => self.forget(*arrival, LessonId(*id)),
            Fact::Erased(..) => {}
            Fact::Run(digest, task_key, run) => self.add_run(*digest, task_key, *run),
        }
    }

    fn add_record(&mut self, arrival: u64, record: &RecordFact) {
        if self.records.insert(record.id, arrival).is_some() {
            return;
        }
        let own = self.own.contains(&record.author);
        let here = |lesson: &LessonId| self.lessons.contains_key(lesson) || self.forgotten.contains(lesson);
        let missing = record.body().filter(|lesson| !here(lesson));
        let bank = self.bank_mut(&record.bank);
        bank.records.push((arrival, record.id));
        let highest = bank.highest_seq.entry(record.author).or_default();
        *highest = record.seq.max(*highest);
        if own {
            bank.own.entry(record.author).or_default().add(record);
        }
        bank.missing.extend(missing);
    }

    fn forget(&mut self, arrival: u64, lesson: LessonId) {
        match self.lessons.get(&lesson) {
            // It came again, later.
            Some(held) if *held > arrival => return,
            Some(_) => self.lessons.remove(&lesson),
            None => None,
        };
        self.forgotten.insert(lesson);
        for bank in &mut self.banks {
            bank.missing.remove(&lesson);
        }
    }

    fn add_lesson(&mut self, arrival: u64, lesson: LessonId) {
        self.forgotten.remove(&lesson);
        if self.lessons.insert(lesson, arrival).is_none() {
            for bank in &mut self.banks {
                bank.missing.remove(&lesson);
            }
        }
    }

    fn add_run(&mut self, digest: RunDigest, task_key: &str, run: RunRef) {
        if self.runs.insert(digest, run).is_none() {
            self.tasks.entry(task_key.to_owned()).or_default().push(digest);
        }
    }

    /// The number that `author`'s next record in `bank` gets, if there is one left.
    pub fn next_seq(&self, bank: &BankId, author: &AuthorId) -> Option<u64> {
        let highest = self.bank(bank).and_then(|b| b.highest_seq.get(author)).copied().unwrap_or(0);
        Some(highest.checked_add(1)?.max(self.seq_floor))
    }

    /// The highest number any own author has used in any bank.
    pub fn highest_own_seq(&self) -> u64 {
        let own = |author: &AuthorId| self.own.contains(author);
        self.banks.iter().flat_map(|b| &b.highest_seq).filter(|(a, _)| own(a)).map(|(_, s)| *s).max().unwrap_or(0)
    }
}
