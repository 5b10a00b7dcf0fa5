//! The catalogue's file: what would otherwise be read out of every lesson and record at each opening.
//!
//! Sections, see [`crate::sections`]:
//!
//! ```text
//! 0  about    canonical bytes: see [`About`]
//! 1  entries  60 bytes a slot: id 32 · task u64 · domain u32 · rule broken + 1, or 0, u16 · kind u8 · state u8 ·
//!             bank + 1, or 0, u16 · 6 zeros · weight f32
//! 2  by id    u32 a slot: the slots, ascending by id
//! 3  starts   u32 a slot, and the end: where its claims begin
//! 4  claims   50 bytes each, ascending in a slot: bank u16 · author's first 8 bytes u64 · seq u64 · record id 32
//! 5  words    the sections of the lexical index
//! ```
//! Banks, domains and rules are numbered by the lists in `about`.
//!
//! The file says up to which arrival number it covers the bank, and a digest of what the bank held below that; where the
//! digest is another one, because something was lost, erased or put back, the file is not believed; neither is one that was
//! written under other redaction rules or another list of values that are no secrets. What came later is read
//! from the bank. So it may lag behind, be damaged or be gone: it only saves time.

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use folklore_protocol::{AuthorId, BankId, LessonId, LessonKind, RecordId, State, canonical};
use serde::{Deserialize, Serialize};

use super::shelf::{ClaimKey, Entry, Ids, Inner, View, place};
use crate::{
    bank::{Holding, Store},
    index::{lexical::LexicalIndex, tokens},
    recall::Ranker,
    redact,
    sections::{Sections, Writer, take},
};

pub(crate) const MAGIC: &[u8; 8] = b"FLCATLG\x01";
const ABOUT: usize = 0;
const ENTRIES: usize = 1;
const BY_ID: usize = 2;
const STARTS: usize = 3;
const CLAIMS: usize = 4;
const WORDS: usize = 5;
const ENTRY_BYTES: usize = 60;
const CLAIM_BYTES: usize = 50;
/// More than `about` takes: domains, and records that speak of lessons whose text is not here.
const ABOUT_BYTES_MAX: usize = 256 << 20;
/// What a later version of this code makes of a lesson's text may be something else: raise it then.
const READING: u32 = 2;
/// All states, by the number that stands for each in the file.
const STATES: [State; 5] = [State::Trusted, State::Unproven, State::Disputed, State::Withdrawn, State::Quarantined];

/// What the file says of itself and of banks.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    reading: u32,
    tokens: u32,
    rules: u32,
    /// Of the list of values that are no secrets: which rule a text breaks depends on it too.
    allowed: [u8; 32],
    me: AuthorId,
    below: u64,
    held: Holding,
    domains: Vec<String>,
    rules_broken: Vec<String>,
    banks: Vec<AboutBank>,
    /// Views beyond the first of a slot: slot, bank, state, weight's bits.
    more_views: Vec<(u32, u16, u8, u32)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AboutBank {
    id: BankId,
    ruling: Vec<RecordId>,
    /// Records about lessons whose text is not here.
    strays: Vec<(LessonId, Vec<ClaimKey>)>,
}

/// Records about lessons, as the file has them.
#[derive(Debug, Default)]
pub(super) struct StoredClaims(Option<Arc<Sections>>);

impl StoredClaims {
    /// The records of a bank about the lesson of a slot.
    pub fn of(&self, slot: u32, bank: u16) -> impl Iterator<Item = ClaimKey> {
        self.at(slot).iter().filter_map(move |bytes| claim(bytes).filter(|(of, _)| *of == bank)).map(|c| c.1)
    }

    /// Whether a record of a bank about the lesson of a slot is among them.
    pub fn has(&self, slot: u32, bank: u16, key: &ClaimKey) -> bool {
        // They ascend: a lesson may have any number of them.
        self.at(slot).binary_search_by(|bytes| claim(bytes).cmp(&Some((bank, *key)))).is_ok()
    }

    fn at(&self, slot: u32) -> &[[u8; CLAIM_BYTES]] {
        let range = || {
            let starts = self.0.as_ref()?.get(STARTS).as_chunks::<4>().0;
            let start = u32::from_le_bytes(*starts.get(slot as usize)?) as usize;
            let end = u32::from_le_bytes(*starts.get(slot as usize + 1)?) as usize;
            self.0.as_ref()?.get(CLAIMS).as_chunks::<CLAIM_BYTES>().0.get(start..end)
        };
        range().unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |file| file.get(CLAIMS).len() / CLAIM_BYTES)
    }
}

fn claim(mut bytes: &[u8]) -> Option<(u16, ClaimKey)> {
    let bank = u16::from_le_bytes(take(&mut bytes)?);
    let (author, seq) = (u64::from_le_bytes(take(&mut bytes)?), u64::from_le_bytes(take(&mut bytes)?));
    Some((bank, (author, seq, RecordId(take(&mut bytes)?))))
}

/// A file that was read, before it is known whether it fits the bank.
pub(super) struct Read {
    file: Arc<Sections>,
    about: About,
    rules: Vec<&'static str>,
    entries: Vec<Entry>,
    /// Slots, ascending by id.
    sorted: Vec<u32>,
    words: LexicalIndex,
}

impl Read {
    /// Reads the file at `path`; `None` if there is none, or if it is of no use to this node.
    pub fn open(path: &Path, me: &AuthorId) -> io::Result<Option<Self>> {
        Ok(Sections::open(path, MAGIC)?.and_then(|file| Self::of(Arc::new(file), me)))
    }

    fn of(file: Arc<Sections>, me: &AuthorId) -> Option<Self> {
        let about: About = canonical::decode::<About, ABOUT_BYTES_MAX>(file.get(ABOUT)).ok()?;
        let is_ours = (about.reading, about.tokens, about.rules, about.allowed, about.me)
            == (READING, tokens::VERSION, redact::RULES_VERSION, redact::Allow::in_force().digest(), *me);
        if !is_ours {
            return None;
        }
        let rules: Vec<&'static str> =
            about.rules_broken.iter().map(|name| redact::rule_named(name)).collect::<Option<_>>()?;
        let entries = file.get(ENTRIES).as_chunks::<ENTRY_BYTES>().0.iter().map(|bytes| entry(bytes));
        let mut entries: Vec<Entry> = entries.collect::<Option<_>>()?;
        for (slot, bank, state, weight) in &about.more_views {
            let view = View { shelf: *bank, state: *STATES.get(usize::from(*state))?, weight: f32::from_bits(*weight) };
            entries.get_mut(*slot as usize)?.more_views.push(view);
        }
        let sound = |entry: &Entry| {
            (entry.domain as usize) < about.domains.len()
                && usize::from(entry.secret) <= rules.len()
                && entry.views().all(|view| usize::from(view.shelf) < about.banks.len())
        };
        let sorted: Vec<u32> =
            file.get(BY_ID).as_chunks::<4>().0.iter().map(|slot| u32::from_le_bytes(*slot)).collect();
        let words = LexicalIndex::open(file.clone(), WORDS)?;
        let fits = sorted.len() == entries.len()
            && sorted.iter().all(|slot| (*slot as usize) < entries.len())
            && entries.iter().all(sound)
            && words.len() == entries.len()
            && file.get(STARTS).len() == 4 * (entries.len() + 1);
        fits.then_some(Read { file, about, rules, entries, sorted, words })
    }

    /// Gives its lessons their vectors; returns the slots of those that have none on disk.
    pub fn claim_vectors(&self, ranker: &mut Ranker) -> Vec<u32> {
        ranker.claim_all((0u32..).zip(&self.entries).map(|(slot, entry)| (slot, &entry.id.0)))
    }
}

/// What sections make a catalogue's file of this node: its words, how many lessons it has, and how many records about them it
/// tells of, each looked up.
pub(crate) fn look(file: Sections, me: &AuthorId) -> Option<(LexicalIndex, usize, usize)> {
    let Read { file, about, entries, words, .. } = Read::of(Arc::new(file), me)?;
    let stored = StoredClaims(Some(file));
    let banks = about.banks.len().min(usize::from(u16::MAX)) as u16;
    let claims = (0u32..).zip(&entries).map(|(slot, entry)| {
        let of_bank = |bank| stored.of(slot, bank).count();
        entry.views().map(|view| view.shelf).chain((0..banks).take(1)).map(of_bank).max().unwrap_or(0)
    });
    Some((words, entries.len(), claims.sum()))
}

impl Inner {
    /// Takes in a file, and returns the arrival number from which on the store has to be read; `None`, and nothing is taken in, if
    /// it is of another bank than the store's. Banks must be open, and nothing else in the catalogue.
    pub fn take_in(&mut self, read: Read, store: &Store) -> Option<u64> {
        let Read { file, about, rules, entries, sorted, words } = read;
        if store.holding(about.below) != about.held {
            return None;
        }
        // Banks are numbered in the order in which they were added, here as in the file.
        let banks: Vec<u16> = about.banks.iter().map(|bank| self.number(&bank.id)).collect::<Option<_>>()?;
        if banks.iter().copied().ne(0..banks.len() as u16) {
            return None;
        }
        let rulings: Option<Vec<_>> = about
            .banks
            .iter()
            .map(|bank| {
                let records = bank.ruling.iter().map(|id| store.record(id).ok().flatten());
                records.collect::<Option<Vec<_>>>()
            })
            .collect();
        let rulings = rulings?;

        self.ranker.set_words(words);
        self.stored = StoredClaims(Some(file.clone()));
        about.domains.iter().for_each(|domain| {
            self.domain_number(domain);
        });
        rules.into_iter().for_each(|rule| {
            self.rule_number(rule);
        });
        entries.into_iter().for_each(|entry| self.push(entry));
        self.by_id = Ids::new(sorted);
        for bytes in file.get(CLAIMS).as_chunks::<CLAIM_BYTES>().0 {
            if let Some((bank, _)) = claim(bytes)
                && let Some(shelf) = self.shelves.get_mut(usize::from(bank))
            {
                shelf.records += 1;
            }
        }
        for ((shelf, bank), records) in self.shelves.iter_mut().zip(about.banks).zip(rulings) {
            for record in &records {
                shelf.tally.apply(record);
                shelf.records += usize::from(shelf.ruling.insert(record.id()));
            }
            for (lesson, keys) in bank.strays {
                let keys: BTreeSet<ClaimKey> = keys.into_iter().collect();
                shelf.records += keys.len();
                shelf.claims.insert(lesson, keys);
            }
        }
        Some(about.below)
    }

    /// Lessons and records known, those in the file and those that came since.
    pub fn known(&self) -> (usize, usize) {
        let lessons = self.entries.iter().filter(|entry| !entry.gone).count();
        (lessons, self.shelves.iter().map(|shelf| shelf.records).sum())
    }

    /// About how many lessons and records are known.
    pub fn known_about(&self) -> usize {
        self.entries.len() + self.shelves.iter().map(|shelf| shelf.records).sum::<usize>()
    }

    /// Lessons and records that are not in the file that was read.
    pub fn unsaved(&self) -> usize {
        let recent = self.shelves.iter().map(|shelf| shelf.records).sum::<usize>().saturating_sub(self.stored.len());
        recent + self.entries.len().saturating_sub(self.by_id.stored())
    }

    /// Writes the file anew, up to its [end](Writer::finish), which waits for the disk and needs nothing of this any more. What it
    /// does not have yet of the store is read from there at the next opening.
    pub fn write(&self, path: &Path, store: &Store, me: &AuthorId) -> io::Result<Writer> {
        let below = store.covered(
            self.known(),
            |lesson| self.slot(lesson).is_some(),
            |bank, record| {
                // Only where something is amiss.
                self.knows_record(store, bank, record)
            },
        );
        let slots: Vec<u32> =
            (0u32..).zip(&self.entries).filter(|(_, entry)| !entry.gone).map(|(slot, _)| slot).collect();
        let live = |slot: &u32| self.entries.get(*slot as usize);
        let mut about = About {
            reading: READING,
            tokens: tokens::VERSION,
            rules: redact::RULES_VERSION,
            allowed: redact::Allow::in_force().digest(),
            me: *me,
            below,
            held: store.holding(below),
            domains: self.domains().iter().map(|name| name.to_string()).collect(),
            rules_broken: self.rules_broken().iter().map(|name| (*name).to_owned()).collect(),
            banks: Vec::new(),
            more_views: Vec::new(),
        };
        for (new, entry) in (0u32..).zip(slots.iter().filter_map(live)) {
            let more = entry.more_views.iter().map(|v| (new, v.shelf, state_number(v.state), v.weight.to_bits()));
            about.more_views.extend(more);
        }
        for shelf in &self.shelves {
            let strays = shelf.claims.iter().filter(|(lesson, _)| self.slot(lesson).is_none());
            about.banks.push(AboutBank {
                id: shelf.info.id,
                ruling: shelf.ruling.iter().copied().collect(),
                strays: strays.map(|(lesson, keys)| (*lesson, keys.iter().copied().collect())).collect(),
            });
        }
        let about = canonical::encode(&about);
        if about.len() > ABOUT_BYTES_MAX {
            return Err(io::Error::other(
                "more domains, or lessons without text, than the catalogue's file has room for",
            ));
        }
        let mut writer = Writer::create(path, MAGIC)?;
        writer.section()?;
        writer.write(&about)?;
        writer.section()?;
        slots.iter().filter_map(live).try_for_each(|entry| writer.write(&entry_bytes(entry)))?;
        writer.section()?;
        let mut new_of = vec![u32::MAX; self.entries.len()];
        for (new, slot) in (0u32..).zip(&slots) {
            if let Some(place) = new_of.get_mut(*slot as usize) {
                *place = new;
            }
        }
        for slot in self.by_id.ascending(&self.entries) {
            writer.write(&new_of.get(slot as usize).copied().unwrap_or(u32::MAX).to_le_bytes())?;
        }
        writer.section()?;
        let mut at = 0u32;
        let numbers = 0..self.shelves.len() as u16;
        let recent: Vec<bool> = self.shelves.iter().map(|shelf| !shelf.claims.is_empty()).collect();
        let mut claims = Vec::new();
        for (slot, entry) in slots.iter().filter_map(|slot| Some((slot, live(slot)?))) {
            writer.write(&at.to_le_bytes())?;
            for (number, recent) in numbers.clone().zip(&recent) {
                let keys: Vec<ClaimKey> =
                    if *recent { self.claims_of(number, &entry.id) } else { self.stored.of(*slot, number).collect() };
                for (author, seq, id) in keys {
                    claims.extend(number.to_le_bytes());
                    claims.extend(author.to_le_bytes());
                    claims.extend(seq.to_le_bytes());
                    claims.extend(id.0);
                    at += 1;
                }
            }
        }
        writer.write(&at.to_le_bytes())?;
        writer.section()?;
        writer.write(&claims)?;
        drop(claims);
        self.ranker.words().write(&mut writer, &slots)?;
        Ok(writer)
    }

    fn knows_record(&self, store: &Store, bank: &BankId, id: &RecordId) -> bool {
        let Some(number) = self.number(bank) else { return false };
        let Ok(Some(record)) = store.record(id) else { return false };
        match record.claim().lesson_id() {
            Some(lesson) => self.claims_of(number, &lesson).iter().any(|(.., known)| known == id),
            None => self.shelf(bank).is_some_and(|shelf| shelf.ruling.contains(id)),
        }
    }
}

fn state_number(state: State) -> u8 {
    STATES.iter().position(|other| *other == state).unwrap_or_default() as u8
}

fn entry_bytes(entry: &Entry) -> [u8; ENTRY_BYTES] {
    let mut out = [0; ENTRY_BYTES];
    let view = entry.view.unwrap_or(View { shelf: u16::MAX, state: State::Withdrawn, weight: 0.0 });
    let fields = [
        &entry.id.0[..],
        &entry.task.to_le_bytes(),
        &entry.domain.to_le_bytes(),
        &entry.secret.to_le_bytes(),
        &[place(entry.kind) as u8, state_number(view.state)],
        &view.shelf.wrapping_add(1).to_le_bytes(),
        &[0; 6],
        &view.weight.to_le_bytes(),
    ];
    out.iter_mut().zip(fields.into_iter().flatten()).for_each(|(out, byte)| *out = *byte);
    out
}

fn entry(mut bytes: &[u8]) -> Option<Entry> {
    let id = LessonId(take(&mut bytes)?);
    let task = u64::from_le_bytes(take(&mut bytes)?);
    let domain = u32::from_le_bytes(take(&mut bytes)?);
    let secret = u16::from_le_bytes(take(&mut bytes)?);
    let [kind, state] = take(&mut bytes)?;
    let shelf = u16::from_le_bytes(take(&mut bytes)?);
    let _: [u8; 6] = take(&mut bytes)?;
    let weight = f32::from_le_bytes(take(&mut bytes)?);
    let kind = *LessonKind::ALL.get(usize::from(kind))?;
    let state = *STATES.get(usize::from(state))?;
    let view = shelf.checked_sub(1).map(|shelf| View { shelf, state, weight });
    weight.is_finite().then_some(Entry { id, task, domain, secret, kind, gone: false, view, more_views: Vec::new() })
}
