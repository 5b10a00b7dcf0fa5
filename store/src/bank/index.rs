//! What the bank keeps in memory: which ids it holds and under which arrival number.

use std::collections::{BTreeSet, HashMap, HashSet};

use folklore_protocol::{
    bank::BankId,
    claim::{Claim, Outcome, RunDigest},
    identity::AuthorId,
    lesson::LessonId,
    record::{Record, RecordId},
};

use super::BankInfo;

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The next arrival number to give out.
    pub next_arrival: u64,
    pub banks: Vec<BankState>,
    bank_of: HashMap<BankId, usize>,
    pub records: HashMap<RecordId, u64>,
    pub lessons: HashMap<LessonId, u64>,
    pub runs: HashMap<RunDigest, RunRef>,
    pub tasks: HashMap<String, Vec<RunDigest>>,
    pub settings: HashMap<String, SettingRef>,
    /// Authors whose keys sign here.
    pub own: BTreeSet<AuthorId>,
    /// No own record gets a number below this one; raised after a restore.
    pub seq_floor: u64,
    pub notes: Vec<String>,
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

#[derive(Debug, Clone, Copy)]
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
    pub fn add(&mut self, record: &Record) {
        self.by_seq.entry(record.seq()).or_insert_with(|| record.id());
        let taught = match record.claim() {
            Claim::Taught { .. } => true,
            Claim::Withdrawn { .. } => false,
            _ => return,
        };
        if let Some(lesson) = record.claim().lesson_id() {
            let stand = Stand { seq: record.seq(), record: record.id(), taught };
            let held = self.stands.entry(lesson).or_insert(stand);
            *held = stand.max(*held);
        }
    }
}

impl Index {
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

    pub fn add_record(&mut self, arrival: u64, record: &Record) {
        let (author, id) = (record.author(), record.id());
        if self.records.insert(id, arrival).is_some() {
            return;
        }
        let own = self.own.contains(&author);
        let missing = record.claim().body().filter(|lesson| !self.lessons.contains_key(lesson));
        let bank = self.bank_mut(&record.bank());
        bank.records.push((arrival, id));
        let highest = bank.highest_seq.entry(author).or_default();
        *highest = record.seq().max(*highest);
        if own {
            bank.own.entry(author).or_default().add(record);
        }
        bank.missing.extend(missing);
    }

    pub fn add_lesson(&mut self, arrival: u64, lesson: LessonId) {
        if self.lessons.insert(lesson, arrival).is_none() {
            for bank in &mut self.banks {
                bank.missing.remove(&lesson);
            }
        }
    }

    pub fn add_run(&mut self, digest: RunDigest, task_key: &str, run: RunRef) {
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
