//! Reading the whole database once at open: every frame is checked, every id goes into memory. Packs, which hold nearly
//! all of it, are checked and decoded on all cores.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    thread,
};

use folklore_protocol::{
    bank::{BankId, BankSalt},
    canonical,
    identity::AuthorId,
    lesson::LessonId,
    record::UnverifiedRecord,
};

use super::{
    BankInfo, MAX_BANK_VALUE_BYTES, SETTING_OWN, SETTING_SEQ_FLOOR,
    count::Tally,
    facts::{Fact, RecordFact},
    index::{Index, RunRef, SettingRef},
    logs,
    parallel::in_order,
    summary::{Loaded, Summary},
};
use crate::{
    frame::{self, Frame, Key, Kind, Tree},
    runs::RunHead,
};

/// Packs read before they are decoded together: 14 MB.
const PACKS_AT_ONCE: usize = 512;

/// A value that could not be read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Its key, in words.
    pub key: String,
    /// What is wrong.
    pub detail: String,
    /// The keys in sled that belong to it.
    pub(crate) raw_keys: Vec<Vec<u8>>,
    /// Which frame it is, if it lies in a pack with others.
    pub(crate) frame: Option<Key>,
}

/// What is to become of the keys of damaged values: those in packs are left out of them, all others are taken out.
pub(super) fn without_damaged(
    damaged: &[Damaged],
    read: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let bad: BTreeSet<Key> = damaged.iter().filter_map(|d| d.frame).collect();
    let keys = damaged.iter().flat_map(|d| d.raw_keys.iter().cloned());
    let kept = |key: &Vec<u8>| {
        frame::pack_first(key)?;
        let pack = read(key)?;
        let mut out = Vec::with_capacity(pack.len());
        frame::carve(&pack)
            .filter(|(_, frame)| !bad.contains(&frame.key))
            .for_each(|(_, frame)| frame.append(&mut out));
        (!out.is_empty()).then_some(out)
    };
    keys.map(|key| (key.clone(), kept(&key))).collect()
}

/// What the scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub index: Index,
    /// All values.
    pub tally: Tally,
    /// The values below the arrival number that the count file names.
    pub below: Tally,
    pub damaged: Vec<Damaged>,
    /// The highest session in any frame.
    pub session: u64,
    /// Arrival numbers seen; empty if nothing had to be looked for.
    pub arrivals: Vec<u64>,
    /// Takes the facts down, for the next opening.
    pub summary: Option<Summary>,
    pub from_summary: bool,
    /// Bytes of all values.
    pub bytes: u64,
    /// The lowest arrival number of each pack.
    pub pack_firsts: Vec<u64>,
    /// The index is not wanted.
    only_check: bool,
    open: Option<Value>,
}

/// A value whose parts are coming in.
#[derive(Debug)]
struct Value {
    first: Key,
    kind: Kind,
    generation: u64,
    parts: u16,
    seen: u16,
    broken: Option<String>,
    bytes: Vec<u8>,
}

impl Scan {
    /// Takes the facts from the summary file, reads what is in no pack, and walks over the packs without decoding them.
    /// `None` if the database does not hold exactly the values that the facts name.
    pub fn quick(db: &sled::Db, loaded: Loaded) -> Result<Option<Self>, sled::Error> {
        let tally = loaded.tally;
        let mut scan = Self::default();
        for tree in [Tree::Setting, Tree::Bank, Tree::Note, Tree::Log] {
            for entry in db.scan_prefix([tree.letter()]) {
                let (key, value) = entry?;
                scan.entry(&key, &value);
            }
            scan.finish();
        }
        scan.index.logs.settle();
        let alone = scan.tally.items;
        let (walked, read) = thread::scope(|scope| {
            let index = &mut scan.index;
            let read = scope.spawn(move || {
                let mut named = Vec::with_capacity(2 * loaded.about());
                index.reserve(loaded.about(), loaded.about());
                let summary = loaded.read(|fact| {
                    if let Fact::Record(arrival, _) | Fact::Lesson(arrival, _) | Fact::Erased(_, arrival, _) = &fact {
                        named.push(*arrival);
                    }
                    index.apply(&fact);
                });
                (named, summary)
            });
            (walk(db), read.join())
        });
        let (Some((met, bytes)), Ok((mut named, Some(summary)))) = (walked?, read) else { return Ok(None) };
        scan.summary = Some(summary);
        named.sort_unstable();
        // What was erased since is named twice.
        named.dedup();
        let items = (named.len() + scan.index.runs.len()) as u64 + alone;
        if named != met || items != tally.items || !scan.damaged.is_empty() {
            return Ok(None);
        }
        let runs: u64 = scan.index.runs.values().map(|run| u64::from(run.parts) * frame::MAX_FRAME_BYTES as u64).sum();
        scan.bytes += bytes + runs;
        (scan.tally, scan.below, scan.from_summary) = (tally, tally, true);
        scan.arrivals.clear();
        scan.index.next_arrival = tally.next_arrival;
        Ok(Some(scan))
    }

    /// Reads everything, without making an index of it.
    pub fn check(db: &sled::Db, summary: Summary) -> Result<Self, sled::Error> {
        Self { summary: Some(summary), only_check: true, ..Self::default() }.read(db)
    }

    /// Reads everything. `counted` is the first arrival number that the count file does not cover.
    pub fn run(db: &sled::Db, counted: u64, summary: Option<Summary>) -> Result<Self, sled::Error> {
        let mut scan = Self { below: Tally::below(counted), summary, ..Self::default() }.read(db)?;
        let next = scan.arrivals.iter().max().map_or(0, |n| n.saturating_add(1));
        scan.tally.next_arrival = next.max(counted);
        scan.index.next_arrival = scan.tally.next_arrival;
        Ok(scan)
    }

    fn read(mut self, db: &sled::Db) -> Result<Self, sled::Error> {
        let scan = &mut self;
        // Settings first: they say which authors are own.
        let settings = [Tree::Setting.letter()];
        for entry in db.scan_prefix(settings) {
            let (key, value) = entry?;
            scan.entry(&key, &value);
        }
        scan.finish();
        let mut packs = Vec::with_capacity(PACKS_AT_ONCE);
        for entry in db.iter() {
            let (key, value) = entry?;
            if let Some(first) = frame::pack_first(&key) {
                scan.bytes += value.len() as u64;
                packs.push((first, value));
                if packs.len() == PACKS_AT_ONCE {
                    scan.packs(&packs);
                    packs.clear();
                }
            } else if !key.starts_with(&settings) {
                scan.entry(&key, &value);
            }
        }
        scan.finish();
        scan.packs(&packs);
        scan.index.logs.settle();
        for bank in &mut scan.index.banks {
            // A bank from before there were packs has records outside of them.
            bank.records.sort_unstable();
        }
        Ok(self)
    }

    /// Arrival numbers that the count covers and the bank lacks, as ranges with both ends included.
    pub fn gaps(&self) -> Vec<(u64, u64)> {
        let mut seen = self.arrivals.clone();
        seen.sort_unstable();
        let mut gaps = Vec::new();
        let mut next = 0;
        for arrival in seen.into_iter().chain([self.below.next_arrival]) {
            if arrival > next && next < self.below.next_arrival {
                gaps.push((next, arrival.min(self.below.next_arrival) - 1));
            }
            next = next.max(arrival.saturating_add(1));
        }
        gaps
    }

    fn entry(&mut self, raw_key: &[u8], bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let Some(key) = Key::from_bytes(raw_key) else {
            self.damaged.push(Damaged {
                key: raw_key.iter().map(|b| format!("{b:02x}")).collect(),
                detail: "not a key of the bank".into(),
                raw_keys: vec![raw_key.to_vec()],
                frame: None,
            });
            return;
        };
        let belongs = |v: &Value| v.first.tree == key.tree && v.first.arrival == key.arrival;
        if !self.open.as_ref().is_some_and(belongs) {
            self.finish();
        }
        let value = self.open.get_or_insert_with(|| Value {
            first: Key::first(key.tree, key.arrival),
            kind: Kind::Value,
            generation: 0,
            parts: 1,
            seen: 0,
            broken: None,
            bytes: Vec::new(),
        });
        match Frame::read(key, bytes) {
            Ok(frame) if value.seen == 0 && key.part == 0 => {
                (value.kind, value.generation, value.parts) = (frame.kind, frame.generation, frame.parts);
                value.bytes.extend_from_slice(frame.payload);
            }
            Ok(frame) if key.part == value.seen && frame.generation == value.generation => {
                // Of a run only the head is wanted, and that is in the first part.
                if key.tree != Tree::Run {
                    value.bytes.extend_from_slice(frame.payload);
                }
            }
            Ok(_) => value.broken = Some(format!("part {} does not follow part {}", key.part, value.seen)),
            Err(e) => value.broken = Some(e.to_string()),
        }
        value.seen = value.seen.saturating_add(1);
    }

    fn finish(&mut self) {
        let Some(value) = self.open.take() else { return };
        self.session = self.session.max(value.generation >> 32);
        let done = match &value.broken {
            Some(detail) => Err(detail.clone()),
            None if value.seen != value.parts => Err(format!("{} of {} parts", value.seen, value.parts)),
            None => self.take(&value),
        };
        match done {
            Ok(identity) => {
                let (tree, arrival) = (value.first.tree, value.first.arrival);
                self.arrivals.push(arrival);
                self.tally.add(tree, arrival, &identity);
                if arrival < self.below.next_arrival {
                    self.below.add(tree, arrival, &identity);
                }
            }
            Err(detail) => {
                let keys = (0..value.seen.max(value.parts)).map(|part| Key { part, ..value.first }.to_bytes().to_vec());
                let raw_keys = keys.collect();
                self.damaged.push(Damaged { key: value.first.to_string(), detail, raw_keys, frame: None });
            }
        }
    }

    /// Puts a whole value into the index and returns what the count knows it by.
    fn take(&mut self, value: &Value) -> Result<[u8; 32], String> {
        let arrival = value.first.arrival;
        let bytes = value.bytes.as_slice();
        if value.first.tree == Tree::Log {
            match value.kind {
                Kind::Erased => self.index.logs.meet_free(arrival, value.generation),
                Kind::Value => self.index.logs.meet(value.first, value.generation, value.parts, bytes)?,
            }
            return Ok(logs::identity(arrival));
        }
        if matches!(value.first.tree, Tree::Record | Tree::Lesson) || value.kind == Kind::Erased {
            let (fact, identity) = fact_of(value.kind, value.first, bytes)?;
            self.learn(&fact);
            return Ok(identity);
        }
        match value.first.tree {
            Tree::Record | Tree::Lesson | Tree::Log => Err("a value of another kind".into()),
            Tree::Run => {
                let (head, _) = RunHead::split_off(bytes).map_err(|e| e.to_string())?;
                let (generation, parts) = (value.generation, value.parts);
                let run = RunRef { arrival, generation, outcome: head.outcome, parts };
                self.learn(&Fact::Run(head.digest, head.task_key, run));
                Ok(head.digest)
            }
            Tree::Bank => {
                let info = BankInfo::from_value(bytes).map_err(|e| e.to_string())?;
                let id = info.id;
                self.index.bank_mut(&id).info = Some(info);
                Ok(id.0)
            }
            Tree::Setting => {
                let (name, content) = split_setting(bytes).ok_or("a setting that ends in its name")?;
                let setting = SettingRef { arrival, generation: value.generation, value: content.to_vec() };
                self.apply_own(name, content);
                self.index.settings.insert(name.to_owned(), setting);
                Ok(setting_identity(name))
            }
            Tree::Note => {
                self.index.notes.push(String::from_utf8_lossy(bytes).into_owned());
                Ok(*blake3::hash(bytes).as_bytes())
            }
        }
    }

    /// Takes in packs, in order.
    fn packs(&mut self, packs: &[(u64, sled::IVec)]) {
        let counted = self.below.next_arrival;
        let work = |(): &mut (), (first, bytes): &(u64, sled::IVec)| PackRead::new(*first, bytes, counted);
        let took: Result<(), Infallible> = in_order(
            packs,
            16,
            || (),
            work,
            |read| {
                self.session = self.session.max(read.session);
                self.tally.merge(&read.tally);
                self.below.merge(&read.below);
                self.damaged.extend(read.damaged);
                self.arrivals.extend(read.arrivals);
                read.facts.iter().for_each(|fact| self.learn(fact));
                Ok(())
            },
        );
        match took {
            Ok(()) => {}
        }
    }

    fn learn(&mut self, fact: &Fact) {
        if let Fact::Pack(first) = fact {
            self.pack_firsts.push(*first);
        }
        if !self.only_check {
            self.index.apply(fact);
        }
        if let Some(summary) = &mut self.summary {
            summary.add(fact);
        }
    }

    fn apply_own(&mut self, name: &str, content: &[u8]) {
        if name == SETTING_OWN {
            self.index.own.extend(content.chunks_exact(32).filter_map(|c| c.try_into().ok()).map(AuthorId));
        } else if name == SETTING_SEQ_FLOOR {
            self.index.seq_floor = content.try_into().map_or(0, u64::from_le_bytes);
        }
    }
}

/// The arrival numbers of all values in packs, and of those that could be in one, in order, and their bytes. sled checks its own sums on the
/// way. `None` if a pack holds anything else.
fn walk(db: &sled::Db) -> Result<Option<(Vec<u64>, u64)>, sled::Error> {
    let (mut met, mut bytes) = (Vec::new(), 0);
    for tree in [Tree::Lesson, Tree::Record] {
        for entry in db.scan_prefix([tree.letter()]) {
            let (key, value) = entry?;
            bytes += value.len() as u64;
            let Some(key) = Key::from_bytes(&key) else { return Ok(None) };
            met.push(key.arrival);
        }
    }
    for entry in db.scan_prefix([frame::PACK_LETTER]) {
        let (key, value) = entry?;
        if frame::pack_first(&key).is_none() {
            return Ok(None);
        }
        bytes += value.len() as u64;
        let mut rest = &value[..];
        while !rest.is_empty() {
            let Ok(frame) = Frame::unchecked(rest) else { return Ok(None) };
            met.push(frame.key.arrival);
            rest = &rest[frame.len()..];
        }
    }
    met.sort_unstable();
    Ok(Some((met, bytes)))
}

/// What one pack holds.
struct PackRead {
    session: u64,
    tally: Tally,
    below: Tally,
    arrivals: Vec<u64>,
    facts: Vec<Fact>,
    damaged: Vec<Damaged>,
}

impl PackRead {
    fn new(first: u64, bytes: &[u8], counted: u64) -> Self {
        let mut read = Self {
            session: 0,
            tally: Tally::default(),
            below: Tally::default(),
            arrivals: Vec::new(),
            facts: vec![Fact::Pack(first)],
            damaged: Vec::new(),
        };
        let mut next = first;
        for piece in frame::unpack(bytes) {
            let taken = piece.map_err(|(key, e)| (key, e.to_string())).and_then(|frame| {
                let key = frame.key;
                if key.arrival < next || frame.parts != 1 {
                    return Err((Some(key), "a frame that does not belong into this pack".into()));
                }
                let taken = fact_of(frame.kind, key, frame.payload).map_err(|detail| (Some(key), detail))?;
                Ok((key, frame.generation, taken))
            });
            match taken {
                Ok((key, generation, (fact, identity))) => {
                    next = key.arrival + 1;
                    read.session = read.session.max(generation >> 32);
                    read.arrivals.push(key.arrival);
                    read.tally.add(key.tree, key.arrival, &identity);
                    if key.arrival < counted {
                        read.below.add(key.tree, key.arrival, &identity);
                    }
                    read.facts.push(fact);
                }
                Err((key, detail)) => read.damaged.push(Damaged {
                    key: key.map_or_else(|| format!("something in pack {first}"), |key| key.to_string()),
                    detail,
                    raw_keys: vec![frame::pack_key(first).to_vec()],
                    frame: key,
                }),
            }
        }
        read
    }
}

/// What is to be known of a record, a body or something erased, and what the count knows it by.
fn fact_of(kind: Kind, key: Key, bytes: &[u8]) -> Result<(Fact, [u8; 32]), String> {
    let arrival = key.arrival;
    if kind == Kind::Erased {
        let identity = bytes.try_into().map_err(|_| "an erased value without its id".to_string())?;
        return Ok((Fact::Erased(key.tree, arrival, identity), identity));
    }
    match key.tree {
        Tree::Record => {
            // Verified before it was stored, under a hash that was just checked.
            let record = UnverifiedRecord::parse(bytes).map_err(|e| e.to_string())?.assume_verified();
            Ok((Fact::Record(arrival, RecordFact::of(&record)), record.id().0))
        }
        Tree::Lesson => {
            let id = LessonId::of(bytes);
            Ok((Fact::Lesson(arrival, id), id.0))
        }
        Tree::Bank | Tree::Log | Tree::Note | Tree::Setting | Tree::Run => {
            Err("a value that is never in a pack".into())
        }
    }
}

/// A setting's value in the bank: the length of the name (2 bytes, little-endian), the name, the content.
pub(super) fn join_setting(name: &str, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + name.len() + content.len());
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(content);
    out
}

fn split_setting(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let (name, content) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    Some((std::str::from_utf8(name).ok()?, content))
}

/// What the count knows a setting by: its name, so that a changed content changes no count.
pub(super) fn setting_identity(name: &str) -> [u8; 32] {
    *blake3::hash(name.as_bytes()).as_bytes()
}

impl BankInfo {
    pub(super) fn to_value(&self) -> Vec<u8> {
        canonical::encode(&(self.owner, self.salt, self.name.as_str()))
    }

    fn from_value(bytes: &[u8]) -> Result<Self, canonical::DecodeError> {
        let (owner, salt, name) = canonical::decode::<(AuthorId, BankSalt, String), MAX_BANK_VALUE_BYTES>(bytes)?;
        Ok(Self { id: BankId::new(&owner, &salt, &name), owner, salt, name })
    }
}
