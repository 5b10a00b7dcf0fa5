//! Queries and documents as terms, and what a corpus says about a query.

use std::collections::{HashMap, HashSet};

use super::background::background_share;
use super::{B, K1, idf};
use crate::index::tokens::tokenize;

/// A query of less idf mass than this many unknown words have is taken to have that much, so that a word or two,
/// or function words alone, cannot be covered wholly by chance.
const MASS_MIN_UNKNOWN: f32 = 2.0;

/// A query made ready once: its terms, each once, in order of first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalQuery {
    tokens: Vec<QueryToken>,
    pub(super) terms: Vec<String>,
}

/// A token of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueryToken {
    /// Its term, by place among the terms.
    term: usize,
    /// How many of the tokens that follow are its parts.
    parts: usize,
    /// Whether its term stood earlier in the query.
    again: bool,
}

impl LexicalQuery {
    /// The terms of `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let (mut tokens, mut terms) = (Vec::new(), Vec::new());
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut simple_seen = HashSet::new();
        for token in tokenize(text) {
            let term = *places.entry(token.term).or_insert_with_key(|term| {
                terms.push(term.clone());
                terms.len() - 1
            });
            let again = token.parts == 0 && !simple_seen.insert(term);
            tokens.push(QueryToken { term, parts: token.parts, again });
        }
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

    /// How often a document has each term.
    pub(crate) fn counts_in(&self, document: &TermCounts) -> Box<[u32]> {
        self.terms.iter().map(|term| document.count(term)).collect()
    }

    /// Weighs the terms by a corpus of which no index is at hand: how many of its `documents` have each term, and how many
    /// terms they have together. The same weights as an index of these documents gives.
    pub(crate) fn weigh_by(&self, frequencies: &[usize], documents: usize, length_sum: u64) -> Weighed<'_> {
        let weight = |(at, term): (usize, &String)| {
            idf(background_share(term), frequencies.get(at).copied().unwrap_or(0), documents)
        };
        let weights = self.terms.iter().enumerate().map(weight).collect();
        let mean_length = (length_sum as f64 / documents.max(1) as f64) as f32;
        Weighed::new(self, weights, &[], idf(0.0, 0, documents), mean_length.max(1.0))
    }
}

/// The terms of one document with their counts, and its length in terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermCounts {
    pub(super) counts: HashMap<String, u32>,
    pub(super) length: u32,
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

    /// How many terms, counted with repetition.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(super) fn count(&self, term: &str) -> u32 {
        self.counts.get(term).copied().unwrap_or(0)
    }
}

/// How well a document matches a query by its words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Match {
    /// BM25.
    pub bm25: f32,
    /// The share, 0 to 1, of the query's idf mass whose terms the document has.
    pub coverage: f32,
}

/// What the corpus says about one query: the weight of each of its terms, and the mean length of a document.
/// Documents outside the index may take part; see [`LexicalIndex::weigh`](super::LexicalIndex::weigh).
#[derive(Clone, Debug)]
pub struct Weighed<'q> {
    pub(super) query: &'q LexicalQuery,
    /// One a term of the query.
    idf: Vec<f32>,
    /// Terms by their place in the query, weightiest first: the order in which every score is summed, so that equal
    /// documents score equally wherever they are.
    pub(super) order: Vec<usize>,
    /// The number of each term that the index knows with its place in the query, ascending.
    pub(super) known: Vec<(u32, usize)>,
    /// The number of each term, by its place in the query.
    ids: Vec<Option<u32>>,
    unknown_idf: f32,
    /// How much each term of a document's length holds it back.
    length_slope: f32,
    mass: f32,
}

impl<'q> Weighed<'q> {
    /// `ids` are the numbers of the terms in the index; `unknown_idf` is the weight of a term that no document has.
    pub(super) fn new(
        query: &'q LexicalQuery,
        idf: Vec<f32>,
        ids: &[Option<u32>],
        unknown_idf: f32,
        mean_length: f32,
    ) -> Self {
        let mut order: Vec<usize> = (0..idf.len()).collect();
        let weight = |at: &usize| idf.get(*at).copied().unwrap_or(0.0);
        order.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let mut known: Vec<(u32, usize)> = ids.iter().enumerate().filter_map(|(at, id)| Some(((*id)?, at))).collect();
        known.sort_unstable();
        let simple = query.tokens.iter().filter(|token| token.parts == 0 && !token.again);
        let mass = simple.map(|token| weight(&token.term)).sum();
        let ids = ids.to_vec();
        Weighed { query, idf, order, known, ids, unknown_idf, length_slope: K1 * B / mean_length, mass }
    }

    /// The number of a term by its place in the query, if the index knows it.
    pub(super) fn number(&self, at: usize) -> Option<u32> {
        self.ids.get(at).copied().flatten()
    }

    /// The weight of a term by its place in the query.
    pub(super) fn idf(&self, at: usize) -> f32 {
        self.idf.get(at).copied().unwrap_or(0.0)
    }

    /// How much a term that stands `count` times adds to the score of a document of `length` terms.
    pub(super) fn part(&self, at: usize, count: u32, length: u32) -> f32 {
        let count = count as f32;
        let norm = K1 * (1.0 - B) + self.length_slope * length as f32;
        self.idf(at) * (K1 + 1.0) * count / (count + norm)
    }

    /// How much the query says: its idf mass, counted in words that no lesson has. "fix bug" says less than one, a code
    /// that no lesson names says one.
    #[must_use]
    pub fn mass(&self) -> f32 {
        if self.unknown_idf > 0.0 { self.mass / self.unknown_idf } else { 0.0 }
    }

    /// A document outside the index.
    #[must_use]
    pub fn matching(&self, document: &TermCounts) -> Match {
        let counts: Vec<u32> = self.query.terms.iter().map(|term| document.count(term)).collect();
        self.match_counts(&counts, document.length)
    }

    /// The BM25 of a document outside the index.
    #[must_use]
    pub fn score(&self, document: &TermCounts) -> f32 {
        self.matching(document).bm25
    }

    /// A document by how often it has each term of the query.
    pub(crate) fn match_counts(&self, counts: &[u32], length: u32) -> Match {
        let count = |at: usize| counts.get(at).copied().unwrap_or(0);
        let parts = self.order.iter().filter(|at| count(**at) > 0).map(|at| self.part(*at, count(*at), length));
        Match { bm25: parts.fold(0.0, |sum, part| sum + part), coverage: self.covered(|at| count(at) > 0) }
    }

    fn covered(&self, has: impl Fn(usize) -> bool) -> f32 {
        let mut covered = 0.0;
        // Parts of a compound that the document has as a whole count as had.
        let mut covered_until = 0;
        for (at, token) in self.query.tokens.iter().enumerate() {
            let had = at < covered_until || has(token.term);
            if token.parts > 0 {
                if had {
                    covered_until = covered_until.max(at + 1 + token.parts);
                }
            } else if had && !token.again {
                covered += self.idf(token.term);
            }
        }
        covered / self.mass.max(MASS_MIN_UNKNOWN * self.unknown_idf)
    }
}
