//! BM25 over the terms of [`super::tokens`], kept in memory and changed in place.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::tokens::{Token, tokenize};
use super::{Filter, keep_best};

/// How soon more of the same term stops counting (Robertson and Zaragoza 2009).
const K1: f32 = 1.2;
/// How much a long document is held back.
const B: f32 = 0.75;

/// A young bank has no document frequencies of its own, so a background of this many imagined documents stands beside
/// it: function words are common from the first lesson on, and a word of the first lesson is not.
const BACKGROUND_DOCS: f32 = 50.0;
/// The share of background documents that hold a function word.
const FUNCTION_SHARE: f32 = 0.7;
/// The share of background documents that hold a common word.
const COMMON_SHARE: f32 = 0.2;

/// A query of less idf mass than this many unknown words have is taken to have that much, so that a word or two,
/// or function words alone, cannot be covered wholly by chance.
const MASS_MIN_UNKNOWN: f32 = 1.5;

/// English words that carry no topic. Written for this project.
const FUNCTION_WORDS: &str = "a about above after again against all also am an and any anything are as at be because been \
    before being below between both but by can can't cannot could did do does doesn't doing don't down during each either \
    ever every everyone everything few for from further get gets give go goes going got had has have having he help her here \
    hers him his how however i i'm i've if in instead into is isn't it its itself just let like made make makes making may me \
    might more most much must my myself need needs never no nobody none nor not nothing now of off often on once only or other \
    others our out over own perhaps please quite rather really same shall she should since so some someone something still \
    such tell than that the their them themselves then there these they thing things this those though through to together \
    too toward under unless until up upon us use used uses using very via want wants was way we well were what whatever when \
    where whether which while who whom whose why will with within without would yes yet you your yours yourself";

/// English words that most texts on most topics share. Written for this project.
const COMMON_WORDS: &str = "able actually add allow almost alone already always amount answer around ask away back bad become \
    begin best better big bit bring build buy call case cause change check choose clear close come common complete consider \
    contain continue cost could couple create day deal decide describe detail difference different difficult early easy end \
    enough example exist expect explain fact far fast feel find first follow form found free full general good great group \
    half hand happen happy hard head high hold home hope hour house idea important include keep kind know large last late lead \
    learn least leave left less level life list little live long look lose lot low main man many matter mean meaning method \
    minute moment money month move name near new next nice night number obtain old one open opinion order part past people \
    person piece place plan play point possible prefer problem provide put question quick reach read ready reason receive \
    remember result return right run safe say second see seem sense set several short show side simple single small soon \
    sort sound start state stay step stop story sure take talk ten thank think three time today tomorrow top total true try \
    turn two type understand useful usual value version wait walk watch week whole wish word work world worth write wrong year \
    yesterday young";

/// The share of background documents that hold `term`.
fn background_share(term: &str) -> f32 {
    static SHARES: OnceLock<HashMap<String, f32>> = OnceLock::new();
    let shares = SHARES.get_or_init(|| {
        let terms = |words, share| tokenize(words).into_iter().map(move |token| (token.term, share));
        // Function words last: where two words have one stem, the commoner decides.
        terms(COMMON_WORDS, COMMON_SHARE).chain(terms(FUNCTION_WORDS, FUNCTION_SHARE)).collect()
    });
    shares.get(term).copied().unwrap_or(0.0)
}

/// A query made ready once: its terms, each once, in order of first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalQuery {
    tokens: Vec<Token>,
    terms: Vec<String>,
}

impl LexicalQuery {
    /// The terms of `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let tokens = tokenize(text);
        let mut seen = HashSet::new();
        let terms = tokens.iter().map(|t| &t.term).filter(|t| seen.insert(*t)).cloned().collect();
        LexicalQuery { tokens, terms }
    }

    /// Distinct terms.
    #[must_use]
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether the text had no term at all: punctuation, emoji, nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// The terms of one document with their counts, and its length in terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermCounts {
    counts: HashMap<String, u32>,
    length: u32,
}

impl TermCounts {
    /// The terms of a document made of `texts`.
    #[must_use]
    pub fn new(texts: &[&str]) -> Self {
        let mut document = TermCounts::default();
        for token in texts.iter().flat_map(|text| tokenize(text)) {
            *document.counts.entry(token.term).or_default() += 1;
            document.length = document.length.saturating_add(1);
        }
        document
    }

    fn count(&self, term: &str) -> u32 {
        self.counts.get(term).copied().unwrap_or(0)
    }
}

/// What the corpus says about one query: the weight of each of its terms, and the mean length of a document.
/// Documents outside the index may take part; see [`LexicalIndex::weigh`].
#[derive(Clone, Debug)]
pub struct Weighed<'q> {
    query: &'q LexicalQuery,
    /// One a term of the query.
    idf: Vec<f32>,
    /// The weight of a term that no document has.
    unknown_idf: f32,
    mean_length: f32,
}

impl Weighed<'_> {
    fn bm25(&self, length: u32, count: impl Fn(&str) -> u32) -> f32 {
        let norm = length_norm(length, self.mean_length);
        self.query.terms.iter().zip(&self.idf).map(|(term, idf)| idf * saturate(count(term), norm)).sum()
    }

    /// The BM25 of a document.
    #[must_use]
    pub fn score(&self, document: &TermCounts) -> f32 {
        self.bm25(document.length, |term| document.count(term))
    }

    /// The share of the query's idf mass whose terms are in `document`; see [`LexicalIndex::idf_mass_covered`].
    #[must_use]
    pub fn idf_mass_covered(&self, document: &TermCounts) -> f32 {
        self.covered(|term| document.count(term) > 0)
    }

    fn covered(&self, has: impl Fn(&str) -> bool) -> f32 {
        let idf: HashMap<&str, f32> =
            self.query.terms.iter().map(String::as_str).zip(self.idf.iter().copied()).collect();
        let (mut mass, mut covered) = (0.0, 0.0);
        let mut seen = HashSet::new();
        // Parts of a compound that the document has as a whole count as had.
        let mut covered_until = 0;
        for (at, token) in self.query.tokens.iter().enumerate() {
            let had = at < covered_until || has(&token.term);
            if token.parts > 0 {
                if had {
                    covered_until = covered_until.max(at + 1 + token.parts);
                }
                continue;
            }
            if !seen.insert(token.term.as_str()) {
                continue;
            }
            let idf = idf.get(token.term.as_str()).copied().unwrap_or(0.0);
            mass += idf;
            if had {
                covered += idf;
            }
        }
        covered / mass.max(MASS_MIN_UNKNOWN * self.unknown_idf)
    }
}

/// One document in the index. Terms are numbers into `LexicalIndex::terms`, ascending.
#[derive(Debug)]
struct Document {
    slot: u32,
    length: u32,
    terms: Vec<(u32, u32)>,
}

/// An inverted index that grows and shrinks in place.
///
/// Scores depend on the set of documents held and on nothing else: not on the order they came in, nor on what was
/// removed.
#[derive(Debug, Default)]
pub struct LexicalIndex {
    term_ids: HashMap<String, u32>,
    /// The places in `documents` that hold each term, ascending, and how often.
    postings: Vec<Vec<(u32, u32)>>,
    documents: Vec<Option<Document>>,
    place_of_slot: HashMap<u32, u32>,
    free_places: Vec<u32>,
    /// Terms of all documents held, counted with repetition.
    length_sum: u64,
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
        self.place_of_slot.len()
    }

    /// Whether no document is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place_of_slot.is_empty()
    }

    /// Indexes `texts` together as the document of `slot`, in place of what `slot` had before.
    pub fn add(&mut self, slot: u32, texts: &[&str]) {
        self.remove(slot);
        let counts = TermCounts::new(texts);
        let place = match self.free_places.pop() {
            Some(place) => place,
            None => {
                self.documents.push(None);
                // A slot is a u32 and has one place, so places cannot outgrow it.
                (self.documents.len() - 1) as u32
            }
        };
        let mut terms = Vec::with_capacity(counts.counts.len());
        for (term, count) in counts.counts {
            let next = self.term_ids.len() as u32;
            let id = *self.term_ids.entry(term).or_insert(next);
            if id == next {
                self.postings.push(Vec::new());
            }
            if let Some(posting) = self.postings.get_mut(id as usize)
                && let Err(at) = posting.binary_search_by_key(&place, |(place, _)| *place)
            {
                posting.insert(at, (place, count));
            }
            terms.push((id, count));
        }
        terms.sort_unstable();
        self.length_sum += u64::from(counts.length);
        self.place_of_slot.insert(slot, place);
        if let Some(document) = self.documents.get_mut(place as usize) {
            *document = Some(Document { slot, length: counts.length, terms });
        }
    }

    /// Removes the document of `slot`; says whether there was one.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(place) = self.place_of_slot.remove(&slot) else {
            return false;
        };
        let Some(document) = self.documents.get_mut(place as usize).and_then(Option::take) else {
            return false;
        };
        for (id, _) in document.terms {
            if let Some(posting) = self.postings.get_mut(id as usize)
                && let Ok(at) = posting.binary_search_by_key(&place, |(place, _)| *place)
            {
                posting.remove(at);
            }
        }
        self.length_sum -= u64::from(document.length);
        self.free_places.push(place);
        true
    }

    /// Weighs the terms of `query` by what is held and by `others`, documents that are not in the index but compete.
    #[must_use]
    pub fn weigh<'q>(&self, query: &'q LexicalQuery, others: &[TermCounts]) -> Weighed<'q> {
        let documents = self.len() + others.len();
        let others_length: u64 = others.iter().map(|other| u64::from(other.length)).sum();
        let mean_length = (self.length_sum + others_length) as f64 / documents.max(1) as f64;
        let idf = query
            .terms
            .iter()
            .map(|term| {
                let held = self.posting(term).map_or(0, <[_]>::len);
                let frequency = held + others.iter().filter(|other| other.count(term) > 0).count();
                self::idf(background_share(term), frequency, documents)
            })
            .collect();
        Weighed { query, idf, unknown_idf: self::idf(0.0, 0, documents), mean_length: (mean_length as f32).max(1.0) }
    }

    /// The `k` best documents that share a term with the query and pass `filter`, with their BM25, best first.
    #[must_use]
    pub fn search(&self, query: &Weighed<'_>, k: usize, filter: &Filter<'_>) -> Vec<(u32, f32)> {
        let mut sums = vec![0.0f32; self.documents.len()];
        for (term, idf) in query.query.terms.iter().zip(&query.idf) {
            let Some(&id) = self.term_ids.get(term) else {
                continue;
            };
            for &(place, count) in self.postings.get(id as usize).map_or(&[][..], Vec::as_slice) {
                if let (Some(Some(document)), Some(sum)) =
                    (self.documents.get(place as usize), sums.get_mut(place as usize))
                {
                    let norm = length_norm(document.length, query.mean_length);
                    *sum += idf * saturate(count, norm);
                }
            }
        }
        let mut scored: Vec<(u32, f32)> = self
            .documents
            .iter()
            .zip(sums)
            .filter(|(_, sum)| *sum > 0.0)
            .filter_map(|(document, sum)| Some((document.as_ref()?.slot, sum)))
            .filter(|(slot, _)| filter(*slot))
            .collect();
        keep_best(&mut scored, k);
        scored
    }

    /// The BM25 of the document of `slot`; 0 where it shares no term with the query or is not held.
    #[must_use]
    pub fn score(&self, query: &Weighed<'_>, slot: u32) -> f32 {
        self.document(slot).map_or(0.0, |document| query.bm25(document.length, |term| self.count(document, term)))
    }

    /// The share, 0 to 1, of the query's idf mass whose terms occur in the document of `slot`. A term that no document
    /// has weighs most, so a query of unknown words is covered by nothing: the guard against nonsense. A query of hardly
    /// any mass (one word, or function words only) is never covered wholly.
    #[must_use]
    pub fn idf_mass_covered(&self, query: &Weighed<'_>, slot: u32) -> f32 {
        self.document(slot).map_or(0.0, |document| query.covered(|term| self.count(document, term) > 0))
    }

    fn document(&self, slot: u32) -> Option<&Document> {
        self.documents.get(*self.place_of_slot.get(&slot)? as usize)?.as_ref()
    }

    fn posting(&self, term: &str) -> Option<&[(u32, u32)]> {
        self.postings.get(*self.term_ids.get(term)? as usize).map(Vec::as_slice)
    }

    fn count(&self, document: &Document, term: &str) -> u32 {
        self.term_ids.get(term).map_or(0, |&id| document.count(id))
    }
}

impl Document {
    fn count(&self, id: u32) -> u32 {
        self.terms
            .binary_search_by_key(&id, |(id, _)| *id)
            .ok()
            .and_then(|at| self.terms.get(at))
            .map_or(0, |(_, count)| *count)
    }
}

/// Inverse document frequency, never negative, of a term in `frequency` of `documents` and a share of the background.
fn idf(background_share: f32, frequency: usize, documents: usize) -> f32 {
    let frequency = frequency as f32 + background_share * BACKGROUND_DOCS;
    let documents = documents as f32 + BACKGROUND_DOCS;
    (1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln()
}

fn length_norm(length: u32, mean_length: f32) -> f32 {
    K1 * (1.0 - B + B * length as f32 / mean_length)
}

fn saturate(count: u32, norm: f32) -> f32 {
    let count = count as f32;
    count * (K1 + 1.0) / (count + norm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(index: &LexicalIndex, text: &str) -> Vec<u32> {
        let query = LexicalQuery::new(text);
        let weighed = index.weigh(&query, &[]);
        index.search(&weighed, 10, &|_| true).into_iter().map(|(slot, _)| slot).collect()
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
    fn a_compound_known_as_a_whole_covers_its_parts() {
        let mut index = LexicalIndex::new();
        index.add(1, &["an email newsletter"]);
        assert!(covered(&index, "e-mail newsletters", 1) > 0.99);
    }

    #[test]
    fn one_word_is_never_the_whole_of_a_query() {
        let index = small();
        let one = covered(&index, "E0277", 3);
        assert!(0.5 < one && one < 0.7, "{one}");
        assert!(covered(&index, "the of and", 1) < 0.2);
    }

    #[test]
    fn a_filter_hides_documents_without_changing_the_scores_of_others() {
        let index = small();
        let query = LexicalQuery::new("reservation flight");
        let weighed = index.weigh(&query, &[]);
        let all = index.search(&weighed, 10, &|_| true);
        let some = index.search(&weighed, 10, &|slot| slot != 1);
        assert_eq!(all.iter().copied().filter(|f| f.0 != 1).collect::<Vec<_>>(), some);
    }

    #[test]
    fn a_document_outside_the_index_scores_as_if_it_were_inside() {
        let mut index = small();
        let query = LexicalQuery::new("change a cabin or a reservation");
        let other = TermCounts::new(&["reservation of a cabin"]);
        let outside = index.weigh(&query, std::slice::from_ref(&other));
        let (score, coverage) = (outside.score(&other), outside.idf_mass_covered(&other));
        let neighbour = index.score(&outside, 2);
        index.add(9, &["reservation of a cabin"]);
        let inside = index.weigh(&query, &[]);
        assert_eq!(index.score(&inside, 9), score);
        assert_eq!(index.idf_mass_covered(&inside, 9), coverage);
        assert_eq!(index.score(&inside, 2), neighbour);
    }

    proptest! {
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
            let found = index.search(&ours, 20, &|_| true);
            prop_assert_eq!(&found, &fresh.search(&theirs, 20, &|_| true));
            for (slot, score) in found {
                prop_assert_eq!(index.score(&ours, slot), score);
                prop_assert_eq!(index.idf_mass_covered(&ours, slot), fresh.idf_mass_covered(&theirs, slot));
            }
        }
    }
}
