//! Forgetting: the body of a lesson is erased, and the records that name it stay.
//!
//! In the place of a body's frame comes one that says that it was erased and whose it was, under the same key and a later
//! generation: so carving does not bring the body back, the count stays what it was, and the bank remembers what it must not take
//! again from a peer. The bytes themselves are gone from the file once the database is [rewritten](Store::rewrite), and what was
//! made of the text once the catalogue has erased it. Both are owed from the same group on: a setting says so until it is
//! done, whatever comes in between.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    sync::PoisonError,
};

use folklore_protocol::lesson::LessonId;

use super::{RewriteError, SETTING_REWRITE_OWED, SETTING_TRACES_OWED, Store, facts::Fact, write::Plan};
use crate::{
    error::{ReadError, WriteError},
    frame::{self, Frame, Key, Kind, Tree},
};

/// How the names of copies begin: put aside by an opening, or left by a rewrite that could not remove it.
const COPIES: [&str; 3] = ["bank.damaged", "bank.quarantine", "bank.old"];
/// Lessons that a bank remembers as forgotten: each takes a hundred bytes on disk and as many in memory.
pub const MAX_FORGOTTEN: usize = 100_000;

/// Times that a rewrite after forgetting is begun again because another forgetting came in between.
const OVERTAKEN_MAX: usize = 3;

/// What forgetting came to. The lessons are shown nowhere, and no peer brings them back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// Lessons whose text was here and is erased.
    pub erased: usize,
    /// Why bytes of it are still in the database file, if they are. They go with the next rewrite, which the bank tries again
    /// by itself.
    pub not_rewritten: Option<RewriteError>,
    /// Copies of files that an earlier opening put aside, or that could not be removed, which may hold the text too: nothing
    /// damaged is deleted.
    pub copies: Vec<String>,
}

impl Store {
    /// Erases the bodies of lessons, durably, and rewrites the database without them, and without those of which an earlier
    /// attempt could not. What is not here is remembered as forgotten all the same. A lesson that this node teaches again is no
    /// longer forgotten.
    ///
    /// # Errors
    /// State unchanged, except after [`WriteError::Stopped`].
    pub fn forget(&self, lessons: &[LessonId]) -> Result<Forgotten, WriteError> {
        let erased = self.group(|store, plan| {
            // What is still on its way to disk cannot be read yet.
            store.settle_queue()?;
            plan.forget(store, lessons)
        })?;
        let not_rewritten = self.rewrite_if_owed().err();
        Ok(Forgotten { erased, not_rewritten, copies: self.copies_aside() })
    }

    /// Rewrites the database if forgotten text is still in it.
    pub(super) fn rewrite_if_owed(&self) -> Result<(), RewriteError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let one = self.0.rewriting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.rewrite_owed().is_none() {
                return Ok(());
            }
            match self.rewrite_alone(&one) {
                Err(RewriteError::Overtaken) if tries < OVERTAKEN_MAX => {}
                done => return done.map(drop),
            }
        }
    }

    /// The number of the last forgetting since which the database was not rewritten; `None` if none is.
    pub(super) fn rewrite_owed(&self) -> Option<u64> {
        owed(&self.setting(SETTING_REWRITE_OWED)?)
    }

    /// The number of the last forgetting whose traces outside of the bank may still be there; `None` if none may.
    pub(crate) fn traces_owed(&self) -> Option<u64> {
        owed(&self.setting(SETTING_TRACES_OWED)?)
    }

    /// Says that traces of what is forgotten are gone, up to the forgetting of this [number](Store::traces_owed).
    pub(crate) fn traces_gone(&self, number: u64) {
        self.paid(SETTING_TRACES_OWED, number);
    }

    /// Notes that what is owed under a setting is done up to a number. Should that fail, it is done once more.
    pub(super) fn paid(&self, setting: &'static str, number: u64) {
        let noted = self.group(|_, plan| {
            let last = plan.index.settings.get(setting).and_then(|held| owed(&held.value));
            if last == Some(number) { plan.setting(setting, &[]) } else { Ok(()) }
        });
        if let Err(error) = noted {
            tracing::warn!(%error, setting, "it could not be noted that a forgetting is done; it is done again at the next start");
        }
    }

    /// All lessons that are forgotten here.
    pub(crate) fn forgotten(&self) -> HashSet<LessonId> {
        self.index().forgotten.clone()
    }

    /// Whether a lesson was forgotten here, and not taught again since.
    pub fn is_forgotten(&self, id: &LessonId) -> bool {
        self.index().forgotten.contains(id)
    }

    /// Names of copies of the bank's files.
    fn copies_aside(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0.disk.paths.dir).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut aside: Vec<String> = names.filter(|name| COPIES.iter().any(|copy| name.starts_with(copy))).collect();
        aside.sort();
        aside
    }
}

/// The number that a setting says is owed; an empty one says that nothing is.
fn owed(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|number| u64::from_le_bytes(*number))
}

impl Plan<'_> {
    fn forget(&mut self, store: &Store, lessons: &[LessonId]) -> Result<usize, WriteError> {
        let new = lessons.iter().filter(|id| !self.index.forgotten.contains(*id)).count();
        if self.index.forgotten.len() + new > MAX_FORGOTTEN {
            return Err(WriteError::ForgottenFull(MAX_FORGOTTEN));
        }
        // Packs as they are to be, several lessons may be in one.
        let mut packs: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut erased = 0;
        for id in lessons {
            let Some(arrival) = self.index.lessons.get(id).copied() else {
                if !self.index.forgotten.contains(id) {
                    let arrival = self.pack_erased(id)?;
                    self.group.facts.push(Fact::Erased(Tree::Lesson, arrival, id.0));
                }
                continue;
            };
            let key = Key::first(Tree::Lesson, arrival);
            let damaged = |detail: &str| ReadError::Damaged { what: key.to_string(), detail: detail.to_owned() };
            let read = |raw: &[u8]| store.0.disk.with(|db| db.get(raw));
            let first = self.index.pack_of(arrival);
            let held = match first.filter(|first| !packs.contains_key(first)) {
                Some(first) => read(&frame::pack_key(first))?.map(|bytes| (first, bytes.to_vec())),
                None => None,
            };
            self.group.freed += held.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64);
            packs.extend(held);
            let pack = first.and_then(|first| packs.get_mut(&first));
            let in_pack = match &pack {
                Some(bytes) => frame::find(bytes, key).map_err(|e| damaged(&e.to_string()))?.is_some(),
                None => false,
            };
            match pack.filter(|_| in_pack) {
                Some(bytes) => {
                    let mut out = Vec::with_capacity(bytes.len());
                    for piece in frame::unpack(bytes) {
                        let frame = piece.map_err(|(_, e)| damaged(&e.to_string()))?;
                        if frame.key == key {
                            let generation = self.after(frame.generation);
                            Frame { kind: Kind::Erased, generation, payload: &id.0, ..frame }.append(&mut out);
                        } else {
                            frame.append(&mut out);
                        }
                    }
                    *bytes = out;
                }
                None => {
                    // From before there were packs.
                    let bytes = read(&key.to_bytes())?.ok_or_else(|| damaged("not in the database"))?;
                    let frame = Frame::read(key, &bytes).map_err(|e| damaged(&e.to_string()))?;
                    let generation = self.after(frame.generation);
                    let mark = Frame { key, kind: Kind::Erased, parts: 1, generation, payload: &id.0 };
                    let parts = frame.parts;
                    self.change(key.to_bytes().to_vec(), Some(mark.to_bytes()));
                    (1..parts).for_each(|part| self.change(Key { part, ..key }.to_bytes().to_vec(), None));
                }
            }
            self.group.facts.push(Fact::Erased(Tree::Lesson, arrival, id.0));
            erased += 1;
        }
        for (first, bytes) in packs {
            self.change(frame::pack_key(first).to_vec(), Some(bytes));
        }
        if erased > 0 {
            for name in [SETTING_REWRITE_OWED, SETTING_TRACES_OWED] {
                let last = self.index.settings.get(name).and_then(|held| owed(&held.value)).unwrap_or(0);
                self.setting(name, &(last + 1).to_le_bytes())?;
            }
        }
        Ok(erased)
    }
}
