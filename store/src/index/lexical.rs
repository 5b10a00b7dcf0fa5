//! BM25 over the terms of [`super::tokens`], kept in memory and changed in place.
//!
//! The code is our own. `tantivy`, the well-kept crate for this, is built for large segments that a writer thread
//! commits and merges: an added document is found only after a commit, a commit costs files and milliseconds, and its
//! tokenisers know neither compounds with parts nor which share of a query a document covers, which the gate needs. Here
//! an added lesson is found at once, scores depend on the set of documents and on nothing else, lessons that are not
//! held can compete, and it all is the few hundred lines below. The index may be [stored] in a file that is mapped at the next
//! opening, and what came since is added in memory. It is a pure function of the bank's text: without a file it is made anew, at the
//! rate that `benches/lexical.rs` prints beside the memory it takes.
//!
//! Layout: a document is a *place*, given out in ascending order and never again, so that postings are only appended to.
//! Each term has its places and each place its terms, both packed ([`packed`]). Removing marks a place and takes the
//! document out of the frequencies; once more than half of all places are so, the postings are written anew.

mod background;
mod packed;
mod query;
mod stored;

use std::collections::HashMap;

pub use query::{LexicalQuery, Match, TermCounts, Weighed};

use std::sync::{Mutex, PoisonError};

use super::{Best, SlotSet};
use crate::index::tokens::{chunk_terms, chunks};
use background::{BACKGROUND_DOCS, background_share};
use packed::Unpack;
use stored::{Base, TermRef};

/// How soon more of the same term stops counting (Robertson and Zaragoza 2009).
const K1: f32 = 1.2;
/// How much a long document is held back.
const B: f32 = 0.75;

/// Bytes of one block of packed documents. A block is never moved, so growing copies nothing.
const BLOCK_BYTES: usize = 1 << 20;
/// Chunks of text whose terms are remembered; then all are forgotten. Some 5 MiB.
const CHUNKS_KEPT: usize = 1 << 16;
/// Longest chunk that is remembered: longer ones seldom come again.
const CHUNK_BYTES_MAX: usize = 24;
/// Below so many places it is not worth writing the postings anew.
const REWRITE_MIN: usize = 1024;
/// The length of a removed document: longer than any can be, whose text is bounded.
const REMOVED: u32 = u32::MAX;
/// No place.
const NONE: u32 = u32::MAX;
/// Sums that are kept for queries to come: as many as are asked at a time.
const SUMS_KEPT: usize = 4;
/// Postings that are read in the time that it takes to read one document: a miss of the cache and some ninety terms.
const POSTINGS_PER_DOCUMENT: usize = 64;
/// Postings of a term that are counted one by one: a millisecond's work for all terms of a query. What is in more documents is
/// rare nowhere.
const POSTINGS_COUNTED_MAX: usize = 1 << 16;
/// A sum of floats may be off by this share of itself.
const ROUNDING: f32 = 1e-5;

/// What is known of a term.
#[derive(Debug)]
struct Term {
    /// The places that have it, ascending, and how often; of removed documents too. Without those in the file.
    postings: Vec<u8>,
    /// Where the first of them is counted from: behind the last one in the file.
    from: u64,
    last: Option<u32>,
    /// Documents held that have it.
    documents: u32,
    /// The most often that a document ever had it.
    count_max: u32,
    /// The length of the shortest document that ever had it.
    length_min: u32,
    /// The share of background documents that have it.
    background: f32,
}

/// Where the terms of a document that is not in the file are.
#[derive(Clone, Copy, Debug)]
struct Document {
    block: u32,
    start: u32,
    bytes: u32,
}

/// The terms of a document by number with their counts, ascending: for comparing documents with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bag(Vec<(u32, u32)>);

/// Which of the documents held a query is weighed by: how rare its words are among them, and how long they are.
#[derive(Clone, Copy, Debug)]
pub enum Corpus<'a> {
    /// All of them.
    All,
    /// Those of these slots.
    Only(&'a SlotSet),
    /// All but those of these slots.
    Without(&'a SlotSet),
}

/// What is known of some documents: how many they are, how many of them have each term of a query, and their terms.
struct Counted {
    documents: usize,
    frequencies: Vec<usize>,
    length_sum: u64,
}

/// Numbers for terms that the index does not know, so that documents outside it can be compared with each other.
#[derive(Debug, Default)]
pub struct Strangers(HashMap<String, u32>);

/// An inverted index that grows and shrinks in place.
///
/// Scores depend on the set of documents held and on nothing else: not on the order they came in, nor on what was
/// removed.
#[derive(Debug, Default)]
pub struct LexicalIndex {
    /// What was read from a file.
    base: Base,
    /// Documents in the file, the first places; none once the postings were written anew.
    stored_documents: usize,
    /// Numbers of terms that the file does not have, and goes on from those that it has.
    term_ids: HashMap<Box<str>, u32>,
    /// The terms of chunks of text met lately: a bank's words come again and again, and looking one up takes a tenth of
    /// taking it apart.
    chunks: HashMap<Box<str>, Box<[u32]>>,
    /// Terms that the file does not have.
    terms: Vec<Term>,
    /// Terms that the file has and that something was added to or taken from since.
    changed: HashMap<u32, Term>,
    /// The slot of each place.
    slots: Vec<u32>,
    /// The documents that are not in the file.
    documents: Vec<Document>,
    /// Terms of each document, counted with repetition; [`REMOVED`] once it is.
    lengths: Vec<u32>,
    blocks: Vec<Vec<u8>>,
    /// The place of each slot, or [`NONE`].
    place_of_slot: Vec<u32>,
    /// Slots that have a place.
    held: usize,
    /// Terms of all documents held, counted with repetition.
    length_sum: u64,
    /// Sums of zeros, one a place, for the next query: making them takes longer than most queries.
    sums: Mutex<Vec<Vec<f32>>>,
}

impl LexicalIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Documents held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held
    }

    /// Whether no document is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Bytes of packed postings and documents.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        let ids = 0..self.terms_known();
        let postings: usize = ids.filter_map(|id| self.term_at(id)).map(|t| t.stored.len() + t.added.len()).sum();
        let stored: usize = (0..self.stored_documents).map(|place| self.base.document(place).len()).sum();
        postings + stored + self.blocks.iter().map(Vec::len).sum::<usize>()
    }

    /// Indexes `texts` together as the document of `slot`, in place of what `slot` had before.
    pub fn add(&mut self, slot: u32, texts: &[&str]) {
        self.remove(slot);
        let mut ids: Vec<u32> = Vec::new();
        texts.iter().for_each(|text| chunks(text, |chunk| self.chunk(chunk, &mut ids)));
        let length = u32::try_from(ids.len()).unwrap_or(REMOVED).min(REMOVED - 1);
        ids.sort_unstable();
        // A slot is a u32 and a rewrite keeps places below twice the slots; what is beyond is not indexed.
        let Some(place) = u32::try_from(self.slots.len()).ok().filter(|place| *place != NONE) else { return };
        let mut bytes = Vec::with_capacity(2 * ids.len());
        let mut last = None;
        for same in ids.chunk_by(|a, b| a == b) {
            let (Some(&id), Ok(count)) = (same.first(), u32::try_from(same.len())) else { continue };
            packed::push(&mut bytes, last, id, count);
            last = Some(id);
            if let Some(term) = self.term_mut(id) {
                packed::push(&mut term.postings, term.last, place, count);
                term.last = Some(place);
                term.documents += 1;
                term.count_max = term.count_max.max(count);
                term.length_min = term.length_min.min(length);
            }
        }
        if self.blocks.last().is_none_or(|block| block.len() + bytes.len() > block.capacity()) {
            self.blocks.push(Vec::with_capacity(BLOCK_BYTES.max(bytes.len())));
        }
        let block = self.blocks.len() - 1;
        let start = self.blocks.last().map_or(0, Vec::len);
        if let Some(block) = self.blocks.last_mut() {
            block.extend_from_slice(&bytes);
        }
        self.documents.push(Document { block: block as u32, start: start as u32, bytes: bytes.len() as u32 });
        self.slots.push(slot);
        self.lengths.push(length);
        self.length_sum += u64::from(length);
        self.set_place(slot, place);
        self.held += 1;
    }

    fn set_place(&mut self, slot: u32, place: u32) {
        if self.place_of_slot.len() <= slot as usize {
            self.place_of_slot.resize(slot as usize + 1, NONE);
        }
        if let Some(held) = self.place_of_slot.get_mut(slot as usize) {
            *held = place;
        }
    }

    fn place(&self, slot: u32) -> Option<u32> {
        self.place_of_slot.get(slot as usize).copied().filter(|place| *place != NONE)
    }

    /// Terms that have a number.
    fn terms_known(&self) -> u32 {
        (self.base.terms() + self.terms.len()) as u32
    }

    /// Whether postings in the file are still a part of the index.
    fn stored_postings_hold(&self) -> bool {
        self.stored_documents == self.base.documents()
    }

    /// A term by its number.
    fn term_at(&self, id: u32) -> Option<TermRef<'_>> {
        if let Some(own) = (id as usize).checked_sub(self.base.terms()) {
            return self.terms.get(own).map(|term| TermRef::of_term(&[], term));
        }
        let mut stored = self.base.term(id)?;
        if !self.stored_postings_hold() {
            stored.postings = &[];
        }
        Some(match self.changed.get(&id) {
            Some(term) => TermRef::of_term(stored.postings, term),
            None => TermRef::of_stored(stored),
        })
    }

    /// A term by its number, to be changed.
    fn term_mut(&mut self, id: u32) -> Option<&mut Term> {
        if let Some(own) = (id as usize).checked_sub(self.base.terms()) {
            return self.terms.get_mut(own);
        }
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.changed.entry(id) {
            let stored = self.base.term(id)?;
            vacant.insert(Term {
                postings: Vec::new(),
                from: stored.last.map_or(0, |last| u64::from(last) + 1),
                last: stored.last,
                documents: stored.documents,
                count_max: stored.count_max,
                length_min: stored.length_min,
                background: stored.background,
            });
        }
        self.changed.get_mut(&id)
    }

    /// The places of a term, ascending, and how often they have it; of removed documents too.
    fn postings(&self, id: u32) -> impl Iterator<Item = (u32, u32)> {
        self.term_at(id).into_iter().flat_map(|term| term.postings())
    }

    fn id_of(&self, term: &str) -> Option<u32> {
        self.term_ids.get(term).copied().or_else(|| self.base.find(term))
    }

    /// The packed terms of the document at a place.
    fn packed(&self, place: u32) -> &[u8] {
        match (place as usize).checked_sub(self.stored_documents) {
            None => self.base.document(place as usize),
            Some(own) => self.documents.get(own).map_or(&[], |document| packed_of(&self.blocks, document)),
        }
    }

    /// Appends the terms of a chunk of text.
    fn chunk(&mut self, chunk: &str, ids: &mut Vec<u32>) {
        if let Some(known) = self.chunks.get(chunk) {
            ids.extend_from_slice(known);
            return;
        }
        let terms: Box<[u32]> = chunk_terms(chunk).into_iter().map(|token| self.intern(token.term)).collect();
        ids.extend_from_slice(&terms);
        if chunk.len() <= CHUNK_BYTES_MAX {
            if self.chunks.len() >= CHUNKS_KEPT {
                self.chunks.clear();
            }
            self.chunks.insert(chunk.into(), terms);
        }
    }

    fn intern(&mut self, term: String) -> u32 {
        if let Some(id) = self.id_of(&term) {
            return id;
        }
        let id = self.terms_known();
        let background = background_share(&term);
        self.term_ids.insert(term.into_boxed_str(), id);
        let (documents, count_max, length_min) = (0, 0, REMOVED);
        let postings = Vec::new();
        self.terms.push(Term { postings, from: 0, last: None, documents, count_max, length_min, background });
        id
    }

    /// Removes the document of `slot`; says whether there was one.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(place) = self.place(slot) else { return false };
        let Some(length) = self.lengths.get_mut(place as usize) else { return false };
        self.length_sum -= u64::from(std::mem::replace(length, REMOVED));
        let ids: Vec<u32> = Unpack::new(self.packed(place)).map(|(id, _)| id).collect();
        for id in ids {
            if let Some(term) = self.term_mut(id) {
                term.documents = term.documents.saturating_sub(1);
            }
        }
        self.set_place(slot, NONE);
        self.held -= 1;
        if self.slots.len() > REWRITE_MIN && self.slots.len() > 2 * self.len() {
            self.rewrite();
        }
        true
    }

    /// Writes places, documents and postings anew without what was removed. Terms keep their numbers.
    fn rewrite(&mut self) {
        let mut fresh = LexicalIndex::default();
        let live = |(_, (_, length)): &(u32, (&u32, &u32))| **length != REMOVED;
        let documents: Vec<(u32, u32, u32)> = (0u32..)
            .zip(self.slots.iter().zip(&self.lengths))
            .filter(live)
            .map(|(place, (slot, length))| (place, *slot, *length))
            .collect();
        let empty = |term: &mut Term| (term.postings, term.from, term.last) = (Vec::new(), 0, None);
        self.terms.iter_mut().for_each(empty);
        // From here on the file's postings count no more, so each of its terms has its own.
        for id in 0..self.base.terms() as u32 {
            self.term_mut(id).map(empty);
        }
        for (place, slot, length) in documents {
            let bytes = self.packed(place).to_vec();
            let new = fresh.slots.len() as u32;
            for (id, count) in Unpack::new(&bytes) {
                if let Some(term) = self.term_mut(id) {
                    packed::push(&mut term.postings, term.last, new, count);
                    term.last = Some(new);
                }
            }
            if fresh.blocks.last().is_none_or(|block| block.len() + bytes.len() > block.capacity()) {
                fresh.blocks.push(Vec::with_capacity(BLOCK_BYTES.max(bytes.len())));
            }
            let block = (fresh.blocks.len() - 1) as u32;
            if let Some(last) = fresh.blocks.last_mut() {
                fresh.documents.push(Document { block, start: last.len() as u32, bytes: bytes.len() as u32 });
                last.extend_from_slice(&bytes);
            }
            fresh.slots.push(slot);
            fresh.lengths.push(length);
            fresh.set_place(slot, new);
        }
        self.stored_documents = 0;
        self.slots = fresh.slots;
        self.documents = fresh.documents;
        self.lengths = fresh.lengths;
        self.blocks = fresh.blocks;
        self.place_of_slot = fresh.place_of_slot;
        self.sums = Mutex::default();
    }

    /// Weighs the terms of `query` by what is held and by `others`, documents that are not in the index but compete.
    #[must_use]
    pub fn weigh<'q>(&self, query: &'q LexicalQuery, others: &[TermCounts]) -> Weighed<'q> {
        self.weigh_by(query, others, Corpus::All)
    }

    /// As [`LexicalIndex::weigh`], by some of what is held. It is quick where those of the set that is named are few.
    #[must_use]
    pub fn weigh_by<'q>(&self, query: &'q LexicalQuery, others: &[TermCounts], corpus: Corpus<'_>) -> Weighed<'q> {
        let ids: Vec<Option<u32>> = query.terms.iter().map(|term| self.id_of(term)).collect();
        let known = |id: &Option<u32>| id.and_then(|id| self.term_at(id));
        let all = || Counted {
            documents: self.len(),
            frequencies: ids.iter().map(|id| known(id).map_or(0, |term| term.documents as usize)).collect(),
            length_sum: self.length_sum,
        };
        let held = match corpus {
            Corpus::All => all(),
            Corpus::Only(slots) => self.counted(&ids, slots),
            Corpus::Without(slots) => {
                let (mut all, out) = (all(), self.counted(&ids, slots));
                all.documents = all.documents.saturating_sub(out.documents);
                all.length_sum = all.length_sum.saturating_sub(out.length_sum);
                all.frequencies.iter_mut().zip(out.frequencies).for_each(|(all, out)| *all = all.saturating_sub(out));
                all
            }
        };
        let documents = held.documents + others.len();
        let others_length: u64 = others.iter().map(|other| u64::from(other.length)).sum();
        let mean_length = (held.length_sum + others_length) as f64 / documents.max(1) as f64;
        let weight = |((term, id), held): ((&String, &Option<u32>), &usize)| {
            let frequency = held + others.iter().filter(|other| other.count(term) > 0).count();
            let background = known(id).map_or_else(|| background_share(term), |known| known.background);
            idf(background, frequency, documents)
        };
        let weights = query.terms.iter().zip(&ids).zip(&held.frequencies).map(weight).collect();
        Weighed::new(query, weights, &ids, idf(0.0, 0, documents), (mean_length as f32).max(1.0))
    }

    /// Counts some documents for the terms of a query: by reading them where they are few, else by the postings of its terms, of
    /// which those longer than [`POSTINGS_COUNTED_MAX`] are taken to be spread evenly.
    fn counted(&self, ids: &[Option<u32>], slots: &SlotSet) -> Counted {
        let mut counted = Counted { documents: 0, frequencies: vec![0; ids.len()], length_sum: 0 };
        let mut known: Vec<(u32, usize)> = ids.iter().enumerate().filter_map(|(at, id)| Some(((*id)?, at))).collect();
        known.sort_unstable();
        let length_of = |place: u32| self.lengths.get(place as usize).copied().filter(|length| *length != REMOVED);
        let postings: usize =
            known.iter().filter_map(|(id, _)| self.term_at(*id)).map(|term| term.documents as usize).sum();
        let reads = slots.len().saturating_mul(POSTINGS_PER_DOCUMENT) <= postings;
        for place in slots.iter().filter_map(|slot| self.place(slot)) {
            let Some(length) = length_of(place) else { continue };
            counted.documents += 1;
            counted.length_sum += u64::from(length);
            if !reads {
                continue;
            }
            let mut wanted = known.iter().peekable();
            for (id, _) in Unpack::new(self.packed(place)) {
                while wanted.next_if(|(known, _)| *known < id).is_some() {}
                let Some((known, at)) = wanted.peek() else { break };
                if let (true, Some(frequency)) = (*known == id, counted.frequencies.get_mut(*at)) {
                    *frequency += 1;
                }
            }
        }
        if reads {
            return counted;
        }
        for (id, at) in known {
            let (Some(term), Some(frequency)) = (self.term_at(id), counted.frequencies.get_mut(at)) else { continue };
            let documents = term.documents as usize;
            if documents > POSTINGS_COUNTED_MAX {
                *frequency = (documents as u64 * counted.documents as u64 / self.len().max(1) as u64) as usize;
                continue;
            }
            let is_in = |place: u32| self.slots.get(place as usize).is_some_and(|slot| slots.contains(*slot));
            let mut count = |(place, _): (u32, u32)| {
                *frequency += usize::from(length_of(place).is_some() && is_in(place));
            };
            Unpack::new(term.stored).for_each(&mut count);
            Unpack::behind(term.added, term.from).for_each(&mut count);
        }
        counted
    }

    /// The `k` best documents that share a term with the query and whose slot is in `among`, with their BM25, best first.
    /// `None`: any slot.
    ///
    /// Terms are taken weightiest first. As soon as those left could not lift a document that has none of the terms
    /// taken so far among the best `k`, their long postings are not read: the documents still in question are looked up.
    /// Where few slots are in question, their documents are read and no postings at all.
    #[must_use]
    pub fn search(&self, query: &Weighed<'_>, k: usize, among: Option<&SlotSet>) -> Vec<(u32, f32)> {
        if k == 0 {
            return Vec::new();
        }
        let named: usize =
            query.order.iter().filter_map(|at| self.term(query, *at)).map(|t| t.documents as usize).sum();
        match among {
            Some(slots) if slots.len().saturating_mul(POSTINGS_PER_DOCUMENT) <= named => self.walk(query, k, slots),
            _ => {
                let kept = self.kept_sums().pop();
                let mut sums = kept.unwrap_or_default();
                sums.resize(self.slots.len(), 0.0);
                let mut touched = Vec::new();
                let best = self.scan(query, k, among, &mut sums, &mut touched);
                for place in touched {
                    if let Some(sum) = sums.get_mut(place as usize) {
                        *sum = 0.0;
                    }
                }
                let mut kept = self.kept_sums();
                if kept.len() < SUMS_KEPT {
                    kept.push(sums);
                }
                best
            }
        }
    }

    /// As [`LexicalIndex::search`] by nothing but the `terms` rarest terms of the query that any document has: who says the same
    /// has most of these, and their postings are short.
    #[must_use]
    pub fn search_rarest(
        &self,
        query: &LexicalQuery,
        terms: usize,
        k: usize,
        among: Option<&SlotSet>,
    ) -> Vec<(u32, f32)> {
        let mut weighed = self.weigh(query, &[]);
        let is_had = |at: &usize| self.term(&weighed, *at).is_some_and(|term| term.documents > 0);
        let order = weighed.order.iter().copied().filter(is_had).take(terms).collect();
        weighed.order = order;
        self.search(&weighed, k, among)
    }

    fn kept_sums(&self) -> std::sync::MutexGuard<'_, Vec<Vec<f32>>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`LexicalIndex::search`] by the documents of the set.
    fn walk(&self, query: &Weighed<'_>, k: usize, slots: &SlotSet) -> Vec<(u32, f32)> {
        let mut best = Best::new(k);
        let mut counts = Vec::new();
        for slot in slots.iter() {
            let Some(place) = self.place(slot) else { continue };
            let score = self.finish(query, place, 0.0, &query.order, &mut counts);
            if score > 0.0 {
                best.offer(slot, score);
            }
        }
        best.done()
    }

    /// [`LexicalIndex::search`] by the postings of the query's terms. `sums` are zeros, and not zero afterwards where `touched`
    /// says.
    fn scan(
        &self,
        query: &Weighed<'_>,
        k: usize,
        among: Option<&SlotSet>,
        sums: &mut [f32],
        touched: &mut Vec<u32>,
    ) -> Vec<(u32, f32)> {
        let passes = |place: u32| {
            among.is_none_or(|among| self.slots.get(place as usize).is_some_and(|slot| among.contains(*slot)))
        };
        let mut left: f32 = query.order.iter().map(|at| self.most(query, *at)).sum();
        let mut taken = 0;
        for &at in &query.order {
            let term = self.term(query, at);
            // Finding the bar takes a walk over what was touched: worth it where the postings are longer than that.
            let is_long = term.is_some_and(|term| touched.len() > k && term.documents as usize > touched.len());
            if is_long && left < kth_best(touched, sums, k) * (1.0 - ROUNDING) {
                break;
            }
            if let Some(term) = term {
                let mut add = |(place, count): (u32, u32)| {
                    if let (Some(&length), Some(sum)) = (self.lengths.get(place as usize), sums.get_mut(place as usize))
                        && length != REMOVED
                        && passes(place)
                    {
                        if *sum == 0.0 {
                            touched.push(place);
                        }
                        *sum += query.part(at, count, length);
                    }
                };
                Unpack::new(term.stored).for_each(&mut add);
                Unpack::behind(term.added, term.from).for_each(&mut add);
            }
            left -= self.most(query, at);
            taken += 1;
        }
        let rest = query.order.get(taken..).unwrap_or_default();
        // Nobody below this bar can still come among the best.
        let bar = if rest.is_empty() { 0.0 } else { kth_best(touched, sums, k) * (1.0 - ROUNDING) - left };
        let mut best = Best::new(k);
        let mut counts = Vec::new();
        for &place in &*touched {
            let (Some(&slot), Some(&sum)) = (self.slots.get(place as usize), sums.get(place as usize)) else {
                continue;
            };
            if sum < bar || sum + left.max(0.0) < best.worst_kept {
                continue;
            }
            let score = if rest.is_empty() { sum } else { self.finish(query, place, sum, rest, &mut counts) };
            best.offer(slot, score);
        }
        best.done()
    }

    /// The most that a term of the query can add to a document's score.
    fn most(&self, query: &Weighed<'_>, at: usize) -> f32 {
        self.term(query, at).map_or(0.0, |term| query.part(at, term.count_max, term.length_min))
    }

    /// Adds the terms `rest` of the query to the sum of a document. `counts` is room to work in.
    fn finish(&self, query: &Weighed<'_>, place: u32, sum: f32, rest: &[usize], counts: &mut Vec<u32>) -> f32 {
        let length = self.count(query, place, counts);
        let count = |at: usize| counts.get(at).copied().unwrap_or(0);
        rest.iter().filter(|at| count(**at) > 0).fold(sum, |sum, at| sum + query.part(*at, count(*at), length))
    }

    /// How well the document of `slot` matches; nothing at all where none is held.
    #[must_use]
    pub fn matching(&self, query: &Weighed<'_>, slot: u32) -> Match {
        self.place(slot).map_or_else(Match::default, |place| {
            let mut counts = Vec::new();
            let length = self.count(query, place, &mut counts);
            query.match_counts(&counts, length)
        })
    }

    /// The BM25 of the document of `slot`; 0 where it shares no term with the query or is not held.
    #[must_use]
    pub fn score(&self, query: &Weighed<'_>, slot: u32) -> f32 {
        self.matching(query, slot).bm25
    }

    /// The share, 0 to 1, of the query's idf mass whose terms occur in the document of `slot`. A term that no document
    /// has weighs most, so a query of unknown words is covered by nothing: the guard against nonsense. A query of hardly
    /// any mass (one word, or function words only) is never covered wholly.
    #[must_use]
    pub fn idf_mass_covered(&self, query: &Weighed<'_>, slot: u32) -> f32 {
        self.matching(query, slot).coverage
    }

    /// The terms of the document of `slot`; `None` where none is held.
    #[must_use]
    pub fn bag(&self, slot: u32) -> Option<Bag> {
        Some(Bag(Unpack::new(self.packed(self.place(slot)?)).collect()))
    }

    /// The terms of a document outside the index. Documents to be compared must share `strangers`.
    #[must_use]
    pub fn bag_of(&self, document: &TermCounts, strangers: &mut Strangers) -> Bag {
        let mut bag = Vec::with_capacity(document.counts.len());
        for (term, &count) in &document.counts {
            let id = match self.id_of(term) {
                Some(id) => id,
                // Counted down from the top, where no number of the index is.
                None => {
                    let next = u32::MAX - strangers.0.len() as u32;
                    *strangers.0.entry(term.clone()).or_insert(next)
                }
            };
            bag.push((id, count));
        }
        bag.sort_unstable();
        Bag(bag)
    }

    /// How much of their words two documents share, 0 to 1: the idf mass that both have of what either has.
    #[must_use]
    pub fn overlap(&self, a: &Bag, b: &Bag) -> f32 {
        let weight = |id: u32| {
            let known = self.term_at(id);
            let documents = known.map_or(0, |term| term.documents as usize);
            idf(known.map_or(0.0, |term| term.background), documents.max(1), self.len().max(1))
        };
        let (mut both, mut either) = (0.0, 0.0);
        let (mut a, mut b) = (a.0.iter().copied().peekable(), b.0.iter().copied().peekable());
        loop {
            let id = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some((id, _)), None) | (None, Some((id, _))) => *id,
                (Some((x, _)), Some((y, _))) => *x.min(y),
            };
            let of_a = a.next_if(|(x, _)| *x == id).map_or(0, |(_, count)| count);
            let of_b = b.next_if(|(x, _)| *x == id).map_or(0, |(_, count)| count);
            both += weight(id) * of_a.min(of_b) as f32;
            either += weight(id) * of_a.max(of_b) as f32;
        }
        if either > 0.0 { both / either } else { 0.0 }
    }

    fn term(&self, query: &Weighed<'_>, at: usize) -> Option<TermRef<'_>> {
        self.term_at(query.number(at)?)
    }

    /// The length of the document at a place; and into `counts` how often it has each term of the query.
    fn count(&self, query: &Weighed<'_>, place: u32, counts: &mut Vec<u32>) -> u32 {
        counts.clear();
        counts.resize(query.query.len(), 0);
        let Some(&length) = self.lengths.get(place as usize) else { return 0 };
        let mut wanted = query.known.iter().copied().peekable();
        for (id, count) in Unpack::new(self.packed(place)) {
            while wanted.next_if(|(known, _)| *known < id).is_some() {}
            match wanted.peek() {
                None => break,
                Some((known, at)) if *known == id => {
                    if let Some(place) = counts.get_mut(*at) {
                        *place = count;
                    }
                }
                Some(_) => {}
            }
        }
        length
    }
}

/// The `k`-th best sum among `touched`; 0 where there are not so many.
fn kth_best(touched: &[u32], sums: &[f32], k: usize) -> f32 {
    let mut best: Vec<f32> = Vec::with_capacity(2 * k.min(touched.len()));
    let mut bar = 0.0;
    for place in touched {
        let value = sums.get(*place as usize).copied().unwrap_or(0.0);
        if value <= bar {
            continue;
        }
        best.push(value);
        if best.len() >= 2 * k {
            best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            best.truncate(k);
            bar = best.last().copied().unwrap_or(0.0);
        }
    }
    if best.len() < k {
        return 0.0;
    }
    let (_, kth, _) = best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    *kth
}

impl Bag {
    /// Terms counted with repetition.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.0.iter().map(|(_, count)| *count).sum()
    }
}

fn packed_of<'b>(blocks: &'b [Vec<u8>], document: &Document) -> &'b [u8] {
    let start = document.start as usize;
    let block = blocks.get(document.block as usize).map_or(&[][..], Vec::as_slice);
    block.get(start..start + document.bytes as usize).unwrap_or_default()
}

/// Inverse document frequency, never negative, of a term in `frequency` of `documents` and a share of the background.
fn idf(background_share: f32, frequency: usize, documents: usize) -> f32 {
    // A damaged file may say more, and no weight is below zero.
    let frequency = frequency.min(documents) as f32 + background_share * BACKGROUND_DOCS;
    let documents = documents as f32 + BACKGROUND_DOCS;
    (1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(index: &LexicalIndex, text: &str) -> Vec<u32> {
        let query = LexicalQuery::new(text);
        let weighed = index.weigh(&query, &[]);
        index.search(&weighed, 10, None).into_iter().map(|(slot, _)| slot).collect()
    }

    fn covered(index: &LexicalIndex, text: &str, slot: u32) -> f32 {
        let query = LexicalQuery::new(text);
        index.idf_mass_covered(&index.weigh(&query, &[]), slot)
    }

    fn small() -> LexicalIndex {
        let mut index = LexicalIndex::new();
        index.add(1, &["cancel the reservation", "call cancel_reservation after checking the insurance"]);
        index.add(2, &["change the cabin of the flight"]);
        index.add(3, &["error E0277 in src/net/tcp.rs"]);
        index
    }

    #[test]
    fn rare_words_rank_above_common_ones() {
        let index = small();
        assert_eq!(found(&index, "cancelling a reservation in the cabin")[0], 1);
        assert_eq!(found(&index, "E0277"), [3]);
        assert_eq!(found(&index, "tcp"), [3]);
        assert_eq!(found(&index, "cancelReservation")[0], 1);
        assert!(found(&index, "xylophone").is_empty());
        assert!(found(&index, "").is_empty());
    }

    #[test]
    fn unknown_words_weigh_most_and_function_words_little() {
        let index = small();
        assert!(covered(&index, "cancel reservation after checking insurance", 1) > 0.99);
        assert_eq!(covered(&index, "cancel reservation", 2), 0.0);
        assert_eq!(covered(&index, "cancel reservation", 99), 0.0);
        assert!(covered(&index, "how do i cancel the reservation", 1) > 0.7);
        assert!(covered(&index, "the xylophone of the duke", 2) < 0.2);
        assert_eq!(covered(&index, "", 1), 0.0);
    }

    #[test]
    fn a_query_weighed_by_some_of_the_documents_is_weighed_as_if_the_others_were_not_there() {
        let texts = |n: u32| {
            let word = ["cancel", "refund", "parcel", "valve"][n as usize % 4];
            format!("{word} the order {} of room {}", n % 7, n % 3) + &" and again".repeat(n as usize % 5)
        };
        for (one, many) in [(3, 300), (60, 240), (200, 100)] {
            let (mut all, mut alone, mut rest) = (LexicalIndex::new(), LexicalIndex::new(), LexicalIndex::new());
            let chosen: SlotSet = (0..one).collect();
            for slot in 0..one + many {
                all.add(slot, &[&texts(slot)]);
                if slot < one {
                    alone.add(slot, &[&texts(slot)])
                } else {
                    rest.add(slot, &[&texts(slot)])
                };
            }
            all.remove(one + 1);
            rest.remove(one + 1);
            for text in ["cancel the order 3", "a valve in room 2 again", "refund a xylophone", "order"] {
                let query = LexicalQuery::new(text);
                let places = |index: &LexicalIndex, corpus: Corpus<'_>, of: &LexicalIndex| {
                    let weighed = index.weigh_by(&query, &[], corpus);
                    let bare = of.weigh(&query, &[]);
                    for slot in (0..one + many).filter(|slot| of.place(*slot).is_some()) {
                        let (here, there) = (index.matching(&weighed, slot), of.matching(&bare, slot));
                        assert_eq!((here.bm25, here.coverage), (there.bm25, there.coverage), "{text}, {slot}");
                    }
                    assert_eq!(weighed.mass(), bare.mass());
                };
                places(&all, Corpus::Only(&chosen), &alone);
                places(&all, Corpus::Without(&chosen), &rest);
            }
        }
    }

    #[test]
    fn a_compound_known_as_a_whole_covers_its_parts() {
        let mut index = LexicalIndex::new();
        index.add(1, &["an email newsletter"]);
        assert!(covered(&index, "e-mail newsletters", 1) > 0.99);
    }

    #[test]
    fn one_word_is_never_the_whole_of_a_query() {
        let index = small();
        let one = covered(&index, "E0277", 3);
        assert!(0.3 < one && one < 0.5, "{one}");
        assert!(covered(&index, "the of and", 1) < 0.2);
    }

    #[test]
    fn a_filter_hides_documents_without_changing_the_scores_of_others() {
        let index = small();
        let query = LexicalQuery::new("reservation flight");
        let weighed = index.weigh(&query, &[]);
        let all = index.search(&weighed, 10, None);
        let some = index.search(&weighed, 10, Some(&[2, 3].into_iter().collect()));
        assert_eq!(all.iter().copied().filter(|f| f.0 != 1).collect::<Vec<_>>(), some);
    }

    #[test]
    fn a_document_outside_the_index_scores_as_if_it_were_inside() {
        let mut index = small();
        let query = LexicalQuery::new("change a cabin or a reservation");
        let other = TermCounts::new(&["reservation of a cabin"]);
        let outside = index.weigh(&query, std::slice::from_ref(&other));
        let (score, coverage) = (outside.score(&other), outside.matching(&other).coverage);
        let neighbour = index.score(&outside, 2);
        index.add(9, &["reservation of a cabin"]);
        let inside = index.weigh(&query, &[]);
        assert_eq!(index.score(&inside, 9), score);
        assert_eq!(index.idf_mass_covered(&inside, 9), coverage);
        assert_eq!(index.score(&inside, 2), neighbour);
    }

    #[test]
    fn stopping_early_finds_what_reading_everything_finds() {
        // Words of very different frequency, as in a language: the n-th in about one of n documents.
        let mut index = LexicalIndex::new();
        for slot in 0..3000u32 {
            let mut text = String::from("the");
            for word in 1..60u32 {
                if slot.wrapping_mul(2_654_435_761).rotate_left(word) % word == 0 {
                    text.push_str(&format!(
                        " {}{}",
                        "w".repeat(1 + word as usize % 3),
                        char::from(b'a' + (word % 26) as u8)
                    ));
                }
            }
            index.add(slot, &[&text]);
        }
        for text in ["the wa wwb", "wwz wy the wwa", "wwb wwwc wx the wwv", "wwww the", "the the"] {
            let query = LexicalQuery::new(text);
            let weighed = index.weigh(&query, &[]);
            let odd: SlotSet = (0..3000).filter(|slot| slot % 2 == 1).collect();
            let all = index.search(&weighed, 3000, Some(&odd));
            for k in [1, 7, 128] {
                assert_eq!(index.search(&weighed, k, Some(&odd)), all[..k.min(all.len())], "{text} {k}");
            }
        }
    }

    /// What opening gives of what writing wrote.
    fn reopened(index: &LexicalIndex, slots: &[u32]) -> LexicalIndex {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        let mut writer = crate::sections::Writer::create(&path, b"FLTESTWD").unwrap();
        index.write(&mut writer, slots).unwrap();
        writer.finish().unwrap();
        let file = crate::sections::Sections::open(&path, b"FLTESTWD").unwrap().unwrap();
        LexicalIndex::open(file.into(), 0).unwrap()
    }

    #[test]
    fn words_of_documents_that_are_left_out_are_not_written() {
        let mut index = small();
        index.add(4, &["a xylophone in the cabin"]);
        let all = reopened(&index, &[1, 2, 3, 4]);
        assert_eq!(found(&all, "xylophone"), [3]);
        let dir = tempfile::tempdir().unwrap();
        for (from, slots) in [(&index, &[1, 2, 3]), (&all, &[0, 1, 2])] {
            let path = dir.path().join("words");
            let mut writer = crate::sections::Writer::create(&path, b"FLTESTWD").unwrap();
            from.write(&mut writer, slots).unwrap();
            writer.finish().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let has = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(has("cabin") && !has("xylophon"));
        }
    }

    #[test]
    fn a_term_of_which_the_file_says_what_cannot_be_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        let mut writer = crate::sections::Writer::create(&path, b"FLTESTWD").unwrap();
        small().write(&mut writer, &[1, 2, 3]).unwrap();
        writer.finish().unwrap();
        let file = crate::sections::Sections::open(&path, b"FLTESTWD").unwrap().unwrap();
        let sections: Vec<Vec<u8>> = (0..8).map(|number| file.get(number).to_vec()).collect();
        let opened = |sections: &[Vec<u8>]| {
            let sections: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
            LexicalIndex::open(crate::sections::Sections::held(&sections).into(), 0)
        };
        assert!(opened(&sections).is_some());
        // Documents, last place and background of each term, in turn.
        for (at, bytes) in [(20, u32::MAX.to_le_bytes()), (32, u32::MAX.to_le_bytes()), (36, f32::NAN.to_le_bytes())] {
            let mut damaged = sections.clone();
            damaged[5].chunks_mut(44).for_each(|term| term[at..at + 4].copy_from_slice(&bytes));
            let mut index = opened(&damaged).unwrap();
            index.add(9, &["the cabin of another flight"]);
            let query = LexicalQuery::new("cabin flight");
            let weighed = index.weigh(&query, &[]);
            assert!(index.search(&weighed, 9, None).iter().all(|(_, score)| score.is_finite()));
        }
        // Nor is a sum believed that is another than the documents have.
        let mut damaged = sections;
        damaged[0][8] ^= 1;
        assert!(opened(&damaged).is_none());
    }

    #[test]
    fn a_set_that_is_walked_gives_what_a_scan_gives() {
        let mut index = LexicalIndex::new();
        for slot in 0..4000u32 {
            index.add(slot, &[&format!("the word{} and word{} of all", slot % 7, slot % 31)]);
        }
        let query = LexicalQuery::new("the word3 and word9");
        let weighed = index.weigh(&query, &[]);
        let few: SlotSet = (0..4000).filter(|slot| slot % 100 == 3).collect();
        let all = index.search(&weighed, 4000, None);
        let expected: Vec<(u32, f32)> = all.into_iter().filter(|(slot, _)| few.contains(*slot)).take(10).collect();
        assert_eq!(index.search(&weighed, 10, Some(&few)), expected);
    }

    proptest! {
        #[test]
        fn a_stored_index_answers_as_the_one_that_was_written_and_goes_on_from_there(
            documents in prop::collection::vec("[a-d]( [a-f]){0,6}", 1..20),
            gone in prop::collection::vec(0u32..20, 0..6),
            later in prop::collection::vec((0u32..24, prop::option::weighted(0.7, "[c-h]( [a-h]){0,6}")), 0..20),
            text in "[a-h]( [a-h]){0,3}",
        ) {
            let mut index = LexicalIndex::new();
            let mut held: Vec<&String> = Vec::new();
            for (slot, document) in (0u32..).zip(&documents) {
                index.add(slot, &[document]);
            }
            let slots: Vec<u32> = (0..documents.len() as u32).filter(|slot| !gone.contains(slot)).collect();
            held.extend(slots.iter().map(|slot| &documents[*slot as usize]));
            let mut again = reopened(&index, &slots);
            let mut fresh = LexicalIndex::new();
            for (slot, document) in (0u32..).zip(held) {
                fresh.add(slot, &[document]);
            }
            let twice = reopened(&again, &(0..slots.len() as u32).collect::<Vec<_>>());
            for (slot, document) in &later {
                again.remove(*slot);
                fresh.remove(*slot);
                if let Some(document) = document {
                    again.add(*slot, &[document]);
                    fresh.add(*slot, &[document]);
                }
            }
            let thrice = {
                let live: Vec<u32> = (0..24).filter(|slot| again.place(*slot).is_some()).collect();
                let renumbered = reopened(&again, &live);
                let mut expected = LexicalIndex::new();
                for (new, slot) in (0u32..).zip(&live) {
                    let last = later.iter().rev().find(|(s, _)| s == slot).and_then(|(_, d)| d.as_ref());
                    let document = last.unwrap_or_else(|| &documents[slots[*slot as usize] as usize]);
                    expected.add(new, &[document]);
                }
                (renumbered, expected)
            };
            for (ours, theirs) in [(&again, &fresh), (&thrice.0, &thrice.1)] {
                prop_assert_eq!(ours.len(), theirs.len());
                let query = LexicalQuery::new(&text);
                let (our, their) = (ours.weigh(&query, &[]), theirs.weigh(&query, &[]));
                let found = ours.search(&our, 20, None);
                prop_assert_eq!(&found, &theirs.search(&their, 20, None));
                for (slot, _) in found {
                    prop_assert_eq!(ours.matching(&our, slot), theirs.matching(&their, slot));
                }
            }
            prop_assert_eq!(twice.len(), slots.len());
        }

        #[test]
        fn after_adding_and_removing_it_answers_as_a_fresh_one(
            documents in prop::collection::vec((0u32..12, "[a-d]( [a-f]){0,6}"), 1..30),
            removed in prop::collection::vec(0u32..12, 0..10),
            text in "[a-g]( [a-g]){0,3}",
        ) {
            let mut index = LexicalIndex::new();
            let mut last = std::collections::BTreeMap::new();
            for (slot, document) in &documents {
                index.add(*slot, &[document]);
                last.insert(*slot, document);
            }
            for slot in &removed {
                prop_assert_eq!(index.remove(*slot), last.remove(slot).is_some());
            }
            let mut fresh = LexicalIndex::new();
            for (slot, document) in last.iter().rev() {
                fresh.add(*slot, &[document]);
            }
            prop_assert_eq!(index.len(), fresh.len());
            let query = LexicalQuery::new(&text);
            let (ours, theirs) = (index.weigh(&query, &[]), fresh.weigh(&query, &[]));
            let found = index.search(&ours, 20, None);
            prop_assert_eq!(&found, &fresh.search(&theirs, 20, None));
            for (slot, score) in found {
                prop_assert_eq!(index.score(&ours, slot), score);
                prop_assert_eq!(index.idf_mass_covered(&ours, slot), fresh.idf_mass_covered(&theirs, slot));
            }
        }
    }
}
