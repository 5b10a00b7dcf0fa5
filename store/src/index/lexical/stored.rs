//! The part of the index that lies in a file: terms, postings and documents as they were when it was written.
//!
//! ```text
//! head       documents u32 · terms u32 · length of all documents u64 · key of the term hash 32
//! lengths    u32 a document
//! documents  what `packed` makes of each document's terms
//! starts     u64 a document, and where the last one ends
//! postings   what `packed` makes of each term's places
//! terms      44 bytes a term: postings' start u64 · text's start u64 · postings' bytes u32 · documents u32 ·
//!            most often u32 · shortest document u32 · last place u32 · background f32 · text's bytes u32
//! texts      of the terms
//! slots      u32 a slot, a power of two of them: the number of a term whose keyed hash leads here, or to a slot before
//!            with no free one between, plus 1; 0 is free
//! ```
//! Numbers are little-endian. A document's slot is its place. The hash is keyed at random, so that nobody can choose words
//! that all lead to one slot.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::Arc,
};

use super::{LexicalIndex, REMOVED, Term, packed, packed::Unpack};
use crate::sections::{Sections, Writer, take};

const HEAD: usize = 0;
const LENGTHS: usize = 1;
const DOCUMENTS: usize = 2;
const STARTS: usize = 3;
const POSTINGS: usize = 4;
const TERMS: usize = 5;
const TEXTS: usize = 6;
const SLOTS: usize = 7;

const TERM_BYTES: usize = 44;
/// Slots of the hash for each term, at least.
const SLOTS_PER_TERM: usize = 2;
/// A term that is left out, since no document has it any more, or a document that is.
const GONE: u32 = u32::MAX;

/// A stored index, as it lies in a file that was checked. Nothing that it says is believed without a look at its bounds.
#[derive(Debug, Default)]
pub(super) struct Base {
    file: Option<Arc<Sections>>,
    /// The number of the first of its sections.
    first: usize,
    documents: usize,
    terms: usize,
    key: [u8; 32],
}

/// What a stored index says of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredTerm<'a> {
    pub postings: &'a [u8],
    pub last: Option<u32>,
    pub documents: u32,
    pub count_max: u32,
    pub length_min: u32,
    pub background: f32,
}

impl Base {
    /// The index whose sections begin at `first`, with the length of each document and of all; `None` if they do not fit
    /// one another.
    pub fn open(file: Arc<Sections>, first: usize) -> Option<(Self, Vec<u32>, u64)> {
        let mut head = file.get(first + HEAD);
        let documents = u32::from_le_bytes(take(&mut head)?) as usize;
        let terms = u32::from_le_bytes(take(&mut head)?) as usize;
        let length_sum = u64::from_le_bytes(take(&mut head)?);
        let key = take(&mut head)?;
        let lengths: Vec<u32> =
            file.get(first + LENGTHS).as_chunks::<4>().0.iter().map(|length| u32::from_le_bytes(*length)).collect();
        let slots = file.get(first + SLOTS).len() / 4;
        let fits = lengths.len() == documents
            && lengths.iter().all(|length| *length != REMOVED)
            && lengths.iter().map(|length| u64::from(*length)).sum::<u64>() == length_sum
            && file.get(first + STARTS).len() == (documents + 1) * 8
            && file.get(first + TERMS).len() == terms.checked_mul(TERM_BYTES)?
            && slots > terms
            && slots.is_power_of_two();
        fits.then_some((Base { file: Some(file), first, documents, terms, key }, lengths, length_sum))
    }

    fn section(&self, number: usize) -> &[u8] {
        self.file.as_ref().map_or(&[], |file| file.get(self.first + number))
    }

    /// Documents in it.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Terms in it.
    pub fn terms(&self) -> usize {
        self.terms
    }

    /// The packed terms of a document.
    pub fn document(&self, place: usize) -> &[u8] {
        let range = || {
            let starts = self.section(STARTS).as_chunks::<8>().0;
            let start = u64::from_le_bytes(*starts.get(place)?);
            let end = u64::from_le_bytes(*starts.get(place + 1)?);
            self.section(DOCUMENTS).get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        };
        range().unwrap_or_default()
    }

    /// What it says of a term; `None` where that cannot be: what is added goes on from it.
    pub fn term(&self, id: u32) -> Option<StoredTerm<'_>> {
        let mut fields = self.fields(id)?;
        let start = usize::try_from(u64::from_le_bytes(take(&mut fields)?)).ok()?;
        let _text: [u8; 8] = take(&mut fields)?;
        let mut number = || take(&mut fields).map(u32::from_le_bytes);
        let (bytes, documents, count_max, length_min, last) = (number()?, number()?, number()?, number()?, number()?);
        let background = f32::from_bits(number()?);
        let postings = self.section(POSTINGS).get(start..start.checked_add(bytes as usize)?)?;
        let last = (!postings.is_empty()).then_some(last);
        let can_be = documents as usize <= self.documents
            && last.is_none_or(|last| (last as usize) < self.documents)
            && (0.0..=1.0).contains(&background);
        can_be.then_some(StoredTerm { postings, last, documents, count_max, length_min, background })
    }

    fn fields(&self, id: u32) -> Option<&[u8]> {
        self.section(TERMS).as_chunks::<TERM_BYTES>().0.get(id as usize).map(|fields| &fields[..])
    }

    /// The text of a term.
    pub fn text(&self, id: u32) -> Option<&str> {
        let fields = self.fields(id)?;
        let start = usize::try_from(u64::from_le_bytes(*fields.get(8..)?.first_chunk()?)).ok()?;
        let bytes = u32::from_le_bytes(*fields.last_chunk()?) as usize;
        std::str::from_utf8(self.section(TEXTS).get(start..start.checked_add(bytes)?)?).ok()
    }

    /// The number of a term.
    pub fn find(&self, term: &str) -> Option<u32> {
        let slots = self.section(SLOTS).as_chunks::<4>().0;
        let mask = slots.len().checked_sub(1)?;
        let mut at = hash(&self.key, term) & mask;
        // Damage that the hashes of the file let through must not make it go round for ever.
        for _ in 0..slots.len() {
            let id = u32::from_le_bytes(*slots.get(at)?).checked_sub(1)?;
            if self.text(id) == Some(term) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

fn hash(key: &[u8; 32], term: &str) -> usize {
    let hash = blake3::keyed_hash(key, term.as_bytes());
    usize::from_le_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default())
}

/// 256 bits that nobody outside of this process can guess.
fn random_key() -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 key of the hash of stored terms");
    for n in 0..4u64 {
        hasher.update(&RandomState::new().hash_one(n).to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl LexicalIndex {
    /// Opens what [`LexicalIndex::write`] wrote, its sections beginning at `first`. Documents have the slots from 0 on. `None` if
    /// the sections do not fit one another.
    pub(crate) fn open(file: Arc<Sections>, first: usize) -> Option<Self> {
        let (base, lengths, length_sum) = Base::open(file, first)?;
        let slots: Vec<u32> = (0..u32::try_from(base.documents()).ok()?).collect();
        Some(LexicalIndex {
            stored_documents: base.documents(),
            place_of_slot: slots.clone(),
            held: slots.len(),
            slots,
            base,
            lengths,
            length_sum,
            ..LexicalIndex::default()
        })
    }

    /// Writes the documents of `slots`, the first under slot 0 and so on, as sections of a file. Of others, and of words
    /// that only they had, nothing is written.
    pub(crate) fn write(&self, writer: &mut Writer, slots: &[u32]) -> io::Result<()> {
        let places: Vec<u32> = slots.iter().map(|slot| self.place(*slot).unwrap_or(GONE)).collect();
        let mut new_place = vec![GONE; self.slots.len()];
        for (new, place) in (0u32..).zip(&places) {
            if let Some(slot) = new_place.get_mut(*place as usize) {
                *slot = new;
            }
        }
        let same_places = self.stored_postings_hold()
            && new_place.len() == places.len()
            && new_place.iter().zip(0..).all(|(a, b)| *a == b);
        let terms: Vec<(u32, u32)> =
            (0..self.terms_known()).filter_map(|id| Some((id, self.frequency(id, &new_place, same_places)?))).collect();
        let mut new_term = vec![GONE; self.terms_known() as usize];
        for (new, (old, _)) in (0u32..).zip(&terms) {
            if let Some(slot) = new_term.get_mut(*old as usize) {
                *slot = new;
            }
        }
        let same_terms = new_term.len() == terms.len();

        let mut texts = vec![""; self.terms.len()];
        for (text, id) in &self.term_ids {
            if let Some(slot) = texts.get_mut((*id as usize).wrapping_sub(self.base.terms())) {
                *slot = text;
            }
        }
        let text = |id: u32| match (id as usize).checked_sub(self.base.terms()) {
            Some(own) => texts.get(own).copied().unwrap_or_default(),
            None => self.base.text(id).unwrap_or_default(),
        };

        let key = random_key();
        let length = |place: &u32| self.lengths.get(*place as usize).copied().filter(|length| *length != REMOVED);
        let lengths: Vec<u32> = places.iter().map(|place| length(place).unwrap_or(0)).collect();
        writer.section()?;
        writer.write(&(slots.len() as u32).to_le_bytes())?;
        writer.write(&(terms.len() as u32).to_le_bytes())?;
        writer.write(&lengths.iter().map(|length| u64::from(*length)).sum::<u64>().to_le_bytes())?;
        writer.write(&key)?;
        writer.section()?;
        lengths.iter().try_for_each(|length| writer.write(&length.to_le_bytes()))?;

        writer.section()?;
        let mut starts = Vec::with_capacity(8 * (places.len() + 1));
        let mut at = 0u64;
        let mut bytes = Vec::new();
        for place in &places {
            starts.extend(at.to_le_bytes());
            let packed = self.packed(*place);
            if same_terms {
                writer.write(packed)?;
                at += packed.len() as u64;
                continue;
            }
            bytes.clear();
            let mut last = None;
            for (id, count) in Unpack::new(packed) {
                // Terms keep their order, so they still ascend.
                if let Some(new) = new_term.get(id as usize).filter(|new| **new != GONE) {
                    packed::push(&mut bytes, last, *new, count);
                    last = Some(*new);
                }
            }
            writer.write(&bytes)?;
            at += bytes.len() as u64;
        }
        starts.extend(at.to_le_bytes());
        writer.section()?;
        writer.write(&starts)?;
        drop(starts);

        writer.section()?;
        let mut records = Vec::with_capacity(TERM_BYTES * terms.len());
        let (mut at, mut text_at) = (0u64, 0u64);
        for &(id, documents) in &terms {
            let Some(term) = self.term_at(id) else { continue };
            let (last, written) = if same_places {
                writer.write(term.stored)?;
                writer.write(term.added)?;
                (term.last, term.stored.len() + term.added.len())
            } else {
                let mut kept = self.kept(id, &new_place);
                kept.sort_unstable();
                bytes.clear();
                let mut last = None;
                for (place, count) in kept {
                    packed::push(&mut bytes, last, place, count);
                    last = Some(place);
                }
                writer.write(&bytes)?;
                (last, bytes.len())
            };
            let text = text(id).len();
            records.extend(at.to_le_bytes());
            records.extend(text_at.to_le_bytes());
            let numbers = [written as u32, documents, term.count_max, term.length_min, last.unwrap_or(0)];
            records.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            records.extend(term.background.to_le_bytes());
            records.extend((text as u32).to_le_bytes());
            at += written as u64;
            text_at += text as u64;
        }
        writer.section()?;
        writer.write(&records)?;
        drop(records);

        writer.section()?;
        let mut hashed = vec![0u32; (terms.len() * SLOTS_PER_TERM + 1).next_power_of_two()];
        let mask = hashed.len() - 1;
        for (new, (id, _)) in (1u32..).zip(&terms) {
            let text = text(*id);
            writer.write(text.as_bytes())?;
            let mut at = hash(&key, text) & mask;
            while hashed.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = hashed.get_mut(at) {
                *slot = new;
            }
        }
        writer.section()?;
        hashed.iter().try_for_each(|slot| writer.write(&slot.to_le_bytes()))
    }

    /// How many of the documents that are written have a term; `None` if none.
    fn frequency(&self, id: u32, new_place: &[u32], same_places: bool) -> Option<u32> {
        let documents = if same_places { self.term_at(id)?.documents } else { self.kept(id, new_place).len() as u32 };
        (documents > 0).then_some(documents)
    }

    /// The new places of a term, and how often they have it.
    fn kept(&self, id: u32, new_place: &[u32]) -> Vec<(u32, u32)> {
        let new = |(place, count): (u32, u32)| {
            new_place.get(place as usize).filter(|new| **new != GONE).map(|new| (*new, count))
        };
        self.postings(id).filter_map(new).collect()
    }
}

/// A term of the index, from the file and from what was added since.
#[derive(Clone, Copy, Debug)]
pub(super) struct TermRef<'a> {
    /// Postings in the file.
    pub stored: &'a [u8],
    /// Postings behind those.
    pub added: &'a [u8],
    /// Where the first of `added` is counted from.
    pub from: u64,
    /// The last place of all.
    pub last: Option<u32>,
    pub documents: u32,
    pub count_max: u32,
    pub length_min: u32,
    pub background: f32,
}

impl<'a> TermRef<'a> {
    pub fn of_stored(stored: StoredTerm<'a>) -> Self {
        let StoredTerm { postings, last, documents, count_max, length_min, background } = stored;
        TermRef { stored: postings, added: &[], from: 0, last, documents, count_max, length_min, background }
    }

    pub fn of_term(stored: &'a [u8], term: &'a Term) -> Self {
        TermRef {
            stored,
            added: &term.postings,
            from: term.from,
            last: term.last,
            documents: term.documents,
            count_max: term.count_max,
            length_min: term.length_min,
            background: term.background,
        }
    }

    /// Places that have the term, ascending, with how often; of removed documents too.
    pub fn postings(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        Unpack::new(self.stored).chain(Unpack::behind(self.added, self.from))
    }
}
