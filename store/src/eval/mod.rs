//! How good recall is: BM25 alone, vectors alone and both, on labelled sets.
//!
//! A [`Set`] is a bank and queries that name the lessons that answer them. Every system ranks the same bank through the
//! same indexes; the hybrid is [`Ranker`] with its gate left open, so that ranking is judged and not the gate, whose rates
//! are told beside. Figures are means over queries with 95 % intervals by bootstrap from a given seed: equal input and
//! seed give equal output.

mod measure;
mod paraphrase;
mod sets;

use std::sync::Arc;

pub use measure::{Interval, QueryFigures};
use serde::Serialize;
pub use sets::{OWN, SetError, all_shared, own, read_jsonl, shared};

use crate::embed::{EmbedError, Embedder};
use crate::index::SlotSet;
use crate::index::dense::DenseIndex;
use crate::index::lexical::{LexicalIndex, LexicalQuery};
use crate::recall::gate::Gate;
use crate::recall::{RankOptions, Ranker};
use measure::{bootstrap, figures};

/// How deep each system ranks. Figures look at the first 10; the reciprocal rank at all.
const DEPTH: usize = 100;

/// A lesson of a set: its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doc {
    /// Its name in the set.
    pub id: String,
    /// Its task.
    pub task: String,
    /// The rest of its text.
    pub text: String,
}

/// A query of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What is asked.
    pub text: String,
    /// The lessons that answer it, by place in the set, with a grade above 0 each. Empty: nothing does, so it counts for
    /// the gate only.
    pub relevant: Vec<(usize, f32)>,
    /// A lesson that must not answer, by place: the very one that the query was taken from.
    pub exclude: Option<usize>,
}

/// A labelled set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// What it is made of, in one line.
    pub about: String,
    /// The bank.
    pub docs: Vec<Doc>,
    /// The queries.
    pub queries: Vec<Query>,
}

/// Which queries count. A hash of the text splits them into halves that no one chose; what is fitted, is fitted on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// Every query.
    #[default]
    All,
    /// Those that constants may be fitted on.
    Fitted,
    /// The others.
    HeldOut,
}

impl Half {
    /// Whether the half has the query.
    #[must_use]
    pub fn has(self, query: &str) -> bool {
        match self {
            Half::All => true,
            Half::Fitted => !is_held_out(query),
            Half::HeldOut => is_held_out(query),
        }
    }
}

/// FNV-1a of the query, one bit of it.
#[must_use]
pub fn is_held_out(query: &str) -> bool {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (query.bytes().fold(0xcbf2_9ce4_8422_2325, step) >> 32) & 1 == 1
}

/// How to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct EvalOptions {
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Times the queries are drawn anew for an interval.
    pub resamples: usize,
    /// Which queries count.
    pub half: Half,
}

impl Default for EvalOptions {
    fn default() -> Self {
        EvalOptions { seed: 1, resamples: 1000, half: Half::All }
    }
}

/// The figures of one system on one set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SystemReport {
    /// `bm25`, `dense` or `hybrid`.
    pub system: &'static str,
    /// Of the lessons that answer a query, at most one, the share that is first.
    pub recall_1: Interval,
    /// Of the lessons that answer a query, at most five, the share among the first five.
    pub recall_5: Interval,
    /// The same for ten.
    pub recall_10: Interval,
    /// One divided by the place of the first lesson that answers.
    pub mrr: Interval,
    /// Discounted gain of the first ten, of the best possible.
    pub ndcg_10: Interval,
}

/// What the gate let through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// Queries that a lesson answers.
    pub on_topic: usize,
    /// Of these, those that got an answer.
    pub on_topic_answered: usize,
    /// Of these, those whose first hit answers.
    pub on_topic_right: usize,
    /// Queries that no lesson answers.
    pub off_topic: usize,
    /// Of these, those that got one all the same.
    pub off_topic_answered: usize,
}

/// What was found on one set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetReport {
    /// The set's name.
    pub set: String,
    /// What it is made of.
    pub about: String,
    /// Lessons in the bank.
    pub docs: usize,
    /// Queries that figures are means over.
    pub queries: usize,
    /// BM25 alone, vectors alone, both.
    pub systems: Vec<SystemReport>,
    /// nDCG@10 of the hybrid less that of the better of the other two, query by query.
    pub hybrid_gain: Interval,
    /// What the gate does with the queries.
    pub gate: GateReport,
}

/// Names of the systems, in the order of every report.
pub const SYSTEMS: [&str; 3] = ["bm25", "dense", "hybrid"];

/// Evaluates the three systems on a set.
///
/// # Errors
/// When the embedder does not answer.
pub fn evaluate(set: &Set, embedder: &Arc<dyn Embedder>, options: &EvalOptions) -> Result<SetReport, EmbedError> {
    let (mut lexical, mut dense) = (LexicalIndex::new(), DenseIndex::new(embedder.identity().dim));
    let mut ranker = Ranker::new(Arc::clone(embedder), Gate::of(embedder.as_ref())?);
    for (slot, doc) in (0u32..).zip(&set.docs) {
        let vectors = embedder.embed(&[&doc.task, &doc.text])?;
        let vectors: Vec<Vec<f32>> = vectors.into_iter().flatten().collect();
        lexical.add(slot, &[&doc.task, &doc.text]);
        for vector in &vectors {
            dense.add(slot, vector).map_err(|error| EmbedError::BadAnswer(error.to_string()))?;
        }
        ranker
            .add_embedded(slot, &doc.task, &doc.text, &vectors)
            .map_err(|error| EmbedError::BadAnswer(error.to_string()))?;
    }
    let mut by_system: [Vec<QueryFigures>; 3] = Default::default();
    let mut gate = GateReport::default();
    for query in set.queries.iter().filter(|query| options.half.has(&query.text)) {
        let open: SlotSet = (0u32..)
            .zip(&set.docs)
            .map(|(slot, _)| slot)
            .filter(|slot| query.exclude != Some(*slot as usize))
            .collect();
        let shown = RankOptions { filter: Some(&open), ..RankOptions::default() };
        let first = ranker.rank(&query.text, &shown).hits.first().and_then(|hit| hit.slot());
        let is_relevant = |slot: u32| query.relevant.iter().any(|(place, _)| *place == slot as usize);
        if query.relevant.is_empty() {
            gate.off_topic += 1;
            gate.off_topic_answered += usize::from(first.is_some());
            continue;
        }
        gate.on_topic += 1;
        gate.on_topic_answered += usize::from(first.is_some());
        gate.on_topic_right += usize::from(first.is_some_and(is_relevant));
        let words = LexicalQuery::new(&query.text);
        let by_words = lexical.search(&lexical.weigh(&words, &[]), DEPTH, Some(&open));
        let vector = embedder.embed_one(&query.text)?;
        let by_meaning = vector.map_or_else(Vec::new, |vector| dense.search_in(&vector, DEPTH, &open));
        let all = RankOptions { k: DEPTH, min_score: Some(f32::NEG_INFINITY), ..shown };
        let hybrid = ranker.rank(&query.text, &all).hits;
        let slots = |found: Vec<(u32, f32)>| found.into_iter().map(|(slot, _)| slot as usize).collect::<Vec<_>>();
        let hybrid = hybrid.iter().filter_map(|hit| Some(hit.slot()? as usize)).collect();
        for (figures_of, ranking) in by_system.iter_mut().zip([slots(by_words), slots(by_meaning), hybrid]) {
            figures_of.push(figures(&ranking, &query.relevant));
        }
    }
    Ok(report(set, &by_system, gate, options))
}

fn report(set: &Set, by_system: &[Vec<QueryFigures>; 3], gate: GateReport, options: &EvalOptions) -> SetReport {
    let interval = |values: Vec<f64>| bootstrap(&values, options.seed, options.resamples);
    let systems = SYSTEMS.iter().zip(by_system).map(|(system, figures)| {
        let of = |figure: fn(&QueryFigures) -> f64| interval(figures.iter().map(figure).collect());
        SystemReport {
            system,
            recall_1: of(|f| f.recall_1),
            recall_5: of(|f| f.recall_5),
            recall_10: of(|f| f.recall_10),
            mrr: of(|f| f.reciprocal_rank),
            ndcg_10: of(|f| f.ndcg_10),
        }
    });
    let systems: Vec<SystemReport> = systems.collect();
    let [bm25, dense, hybrid] = by_system;
    let value = |at: usize| systems.get(at).map_or(0.0, |system| system.ndcg_10.value);
    let better = if value(0) >= value(1) { bm25 } else { dense };
    let gain = hybrid.iter().zip(better).map(|(ours, theirs)| ours.ndcg_10 - theirs.ndcg_10).collect();
    SetReport {
        set: set.name.clone(),
        about: set.about.clone(),
        docs: set.docs.len(),
        queries: hybrid.len(),
        hybrid_gain: interval(gain),
        systems,
        gate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::BuiltinEmbedder;

    fn embedder() -> Arc<dyn Embedder> {
        Arc::new(BuiltinEmbedder::new())
    }

    #[test]
    fn the_set_that_comes_along_is_evaluated_and_equal_seeds_give_equal_figures() {
        let set = own();
        assert!(set.docs.len() >= 12 && set.queries.len() >= 300);
        let options = EvalOptions { resamples: 200, ..EvalOptions::default() };
        let report = evaluate(&set, &embedder(), &options).unwrap();
        assert_eq!(report, evaluate(&set, &embedder(), &options).unwrap());
        let ndcg: Vec<f64> = report.systems.iter().map(|system| system.ndcg_10.value).collect();
        assert!(ndcg[2] >= ndcg[0].max(ndcg[1]) - 0.01, "{ndcg:?}");
        for system in &report.systems {
            for interval in [system.recall_1, system.recall_5, system.recall_10, system.mrr, system.ndcg_10] {
                assert!(interval.low <= interval.value && interval.value <= interval.high, "{system:?}");
            }
            assert!(system.recall_1.value <= system.recall_10.value);
        }
        assert!(report.gate.off_topic > 200 && report.gate.off_topic_answered * 10 < report.gate.off_topic);
        assert_eq!(report.queries, report.gate.on_topic);
    }

    #[test]
    fn the_halves_share_no_query_and_lose_none() {
        let set = own();
        let count = |half| {
            let options = EvalOptions { half, resamples: 1, ..EvalOptions::default() };
            evaluate(&set, &embedder(), &options).unwrap().queries
        };
        assert_eq!(count(Half::Fitted) + count(Half::HeldOut), count(Half::All));
        assert!(count(Half::HeldOut) > 20);
    }

    #[test]
    fn what_a_query_was_taken_from_does_not_answer_it() {
        let text = "{\"doc\": \"a\", \"task\": \"cancel a flight\"}\n{\"doc\": \"b\", \"task\": \"cancel the flight\"}\n\
            {\"query\": \"cancel a flight\", \"relevant\": [\"b\"], \"exclude\": \"a\"}\n";
        let set = read_jsonl("mine", text).unwrap();
        let report = evaluate(&set, &embedder(), &EvalOptions::default()).unwrap();
        assert!(report.systems.iter().all(|system| system.recall_1.value == 1.0), "{report:?}");
    }
}
