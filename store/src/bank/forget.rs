//! Forgetting: the body of a lesson is erased, and the records that name it stay.
//!
//! In the place of a body's frame comes one that says that it was erased and whose it was, under the same key and a later
//! generation: so carving does not bring the body back, the count stays what it was, and the bank remembers what it must not take
//! again from a peer. The bytes themselves are gone from the file once the database is [rewritten](Store::rewrite).

use std::{collections::BTreeMap, fs};

use folklore_protocol::lesson::LessonId;

use super::{RewriteError, Store, facts::Fact, write::Plan};
use crate::{
    error::{ReadError, WriteError},
    frame::{self, Frame, Key, Kind, Tree},
};

/// Lessons that a bank remembers as forgotten: each takes a hundred bytes on disk and as many in memory.
pub const MAX_FORGOTTEN: usize = 100_000;

/// What forgetting came to. The lessons are shown nowhere, and no peer brings them back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// Lessons whose text was here and is erased.
    pub erased: usize,
    /// Why bytes of it are still in the database file, if they are. They go with the next rewrite.
    pub not_rewritten: Option<RewriteError>,
    /// Copies of damaged files that an earlier opening put aside, which may hold the text too: nothing damaged is deleted.
    pub copies: Vec<String>,
}

impl Store {
    /// Erases the bodies of lessons, durably, and rewrites the database without them. What is not here is remembered as
    /// forgotten all the same. A lesson that this node teaches again is no longer forgotten.
    ///
    /// # Errors
    /// State unchanged, except after [`WriteError::Stopped`].
    pub fn forget(&self, lessons: &[LessonId]) -> Result<Forgotten, WriteError> {
        let erased = self.group(|store, plan| {
            // What is still on its way to disk cannot be read yet.
            store.settle_queue()?;
            plan.forget(store, lessons)
        })?;
        let not_rewritten = if erased > 0 { self.rewrite().err() } else { None };
        Ok(Forgotten { erased, not_rewritten, copies: self.copies_aside() })
    }

    /// Whether a lesson was forgotten here, and not taught again since.
    pub fn is_forgotten(&self, id: &LessonId) -> bool {
        self.index().forgotten.contains(id)
    }

    /// Names of what earlier openings put aside.
    fn copies_aside(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0.disk.paths.dir).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut aside: Vec<String> =
            names.filter(|name| name.starts_with("bank.damaged") || name.starts_with("bank.quarantine")).collect();
        aside.sort();
        aside
    }
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
        Ok(erased)
    }
}
