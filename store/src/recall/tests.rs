//! The ranking core, on a handful of lessons.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;

use super::gate::Gate;
use super::{EmptyReason, External, RankOptions, Ranked, Ranker, Source};
use crate::embed::{BuiltinEmbedder, EmbedError, Embedder, EmbedderIdentity};

const LESSONS: [(&str, &str); 5] = [
    (
        "Cancel a flight reservation",
        "Check the travel insurance with get_reservation_details before cancel_reservation.",
    ),
    (
        "Exchange an item of a delivered order",
        "Ask for all items first: exchange_delivered_order_items works once an order.",
    ),
    ("Fix a Rust program that does not compile", "error[E0277]: the trait bound is not satisfied; derive Clone."),
    ("Free space on a full disk", "Truncate open log files instead of deleting them."),
    ("取消客户的订单", "先检查订单状态,再调用 cancel_pending_order。"),
];

fn empty() -> Ranker {
    Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN)
}

fn ranker() -> Ranker {
    let mut ranker = empty();
    for (slot, (task, text)) in (0..).zip(LESSONS) {
        ranker.add(slot, task, text).unwrap();
    }
    ranker
}

fn slots(ranked: &Ranked) -> Vec<u32> {
    ranked.hits.iter().filter_map(super::Scored::slot).collect()
}

/// An embedder that is a service and is down.
struct Down(EmbedderIdentity);

impl Embedder for Down {
    fn identity(&self) -> &EmbedderIdentity {
        &self.0
    }
    fn embed(&self, _: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        Err(EmbedError::Unavailable("connection refused".into()))
    }
}

#[test]
fn a_question_in_other_words_finds_its_lesson() {
    let ranked = ranker().rank("customer wants to call off a booked flight", &RankOptions::default());
    assert_eq!(slots(&ranked), [0]);
    assert_eq!(ranked.reason, None);
    let hit = ranked.hits[0];
    assert!(hit.relevant && hit.score > 0.0 && hit.score <= 1.0 && hit.lexical <= 1.0);
}

#[test]
fn an_empty_bank_says_that_it_is_empty() {
    let ranked = empty().rank("anything", &RankOptions::default());
    assert!(ranked.hits.is_empty());
    assert_eq!(ranked.reason, Some(EmptyReason::BankEmpty));
}

#[test]
fn nonsense_is_below_the_threshold() {
    for query in ["", "!!!", "🙂", "how do penguins sleep", "qwxz vbnm plk", "今天天气怎么样"] {
        let ranked = ranker().rank(query, &RankOptions::default());
        assert!(ranked.hits.is_empty(), "{query}");
        assert_eq!(ranked.reason, Some(EmptyReason::BelowThreshold), "{query}");
    }
}

#[test]
fn a_lesson_that_the_caller_excludes_is_told_apart_from_none() {
    let ranker = ranker();
    let not_that: crate::index::SlotSet = (0..ranker.len() as u32).filter(|slot| *slot != 3).collect();
    let filtered = RankOptions { filter: Some(&not_that), ..RankOptions::default() };
    let no_standing = |slot: u32| if slot == 3 { 0.0 } else { 1.0 };
    let weighted = RankOptions { weight: Some(&no_standing), ..RankOptions::default() };
    for options in [filtered, weighted] {
        assert_eq!(ranker.rank("the log files fill my disk", &options).reason, Some(EmptyReason::Filtered));
        assert_eq!(ranker.rank("how do penguins sleep", &options).reason, Some(EmptyReason::BelowThreshold));
    }
}

#[test]
fn without_the_embedder_words_answer_and_the_failure_is_told() {
    let identity = EmbedderIdentity { name: "far".into(), revision: "1".into(), dim: 8 };
    let mut ranker = Ranker::new(Arc::new(Down(identity)), Gate::BUILTIN);
    for (slot, (task, text)) in (0..).zip(LESSONS) {
        assert!(ranker.add(slot, task, text).is_err());
    }
    assert_eq!(ranker.len(), LESSONS.len());
    let found = ranker.rank("free space on the full disk", &RankOptions::default());
    assert_eq!(slots(&found), [3]);
    assert!(found.embedder_error.is_some() && found.hits[0].dense.is_none());
    let none = ranker.rank("throttled", &RankOptions::default());
    assert_eq!(none.reason, Some(EmptyReason::EmbedderUnavailable));
}

#[test]
fn text_that_the_embedder_cannot_read_is_found_by_its_words() {
    let ranked = ranker().rank("怎样取消订单", &RankOptions::default());
    assert_eq!(slots(&ranked), [4]);
    assert_eq!(ranked.hits[0].dense, None);
}

#[test]
fn a_min_score_of_the_callers_own_stands_in_for_the_gate() {
    let ranker = ranker();
    let all = RankOptions { k: 10, min_score: Some(-1.0), ..RankOptions::default() };
    let hits = ranker.rank("cancel a reservation", &all).hits;
    assert!(hits.len() >= 4 && hits.iter().any(|hit| !hit.relevant));
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    let high = RankOptions { min_score: Some(0.999), ..RankOptions::default() };
    assert_eq!(ranker.rank("cancel a reservation", &high).reason, Some(EmptyReason::BelowThreshold));
}

#[test]
fn weights_multiply_scores_and_reorder() {
    let mut ranker = empty();
    ranker.add(1, "Cancel a flight", "Check the insurance.").unwrap();
    ranker.add(2, "Cancel a flight", "Check the insurance.").unwrap();
    let plain = ranker.rank("cancel the flight", &RankOptions { k: 2, ..RankOptions::default() });
    assert_eq!(slots(&plain), [1, 2]);
    let weight = |slot: u32| if slot == 1 { 0.5 } else { 1.0 };
    let weighted =
        ranker.rank("cancel the flight", &RankOptions { k: 2, weight: Some(&weight), ..RankOptions::default() });
    assert_eq!(slots(&weighted), [2, 1]);
    assert_eq!(weighted.hits[1].score, 0.5 * plain.hits[0].score);
}

#[test]
fn lessons_of_others_are_scored_as_if_they_were_held() {
    let query = "cancel a reservation or exchange an item";
    let options = RankOptions { k: 10, min_score: Some(-1.0), ..RankOptions::default() };
    let held = ranker().rank(query, &options).hits;
    let mut some = ranker();
    let (task, text) = LESSONS[1];
    some.remove(1);
    let external = External { task, text, weight: 1.0 };
    let mixed = some.rank_with(query, &options, &[external]).hits;
    assert_eq!(held.len(), mixed.len());
    for (a, b) in held.iter().zip(&mixed) {
        assert!((a.score - b.score).abs() < 1e-5);
        assert_eq!(b.source, if a.slot() == Some(1) { Source::External(0) } else { a.source });
    }
    let alone = some.score_external(query, &[external]).unwrap();
    assert_eq!(alone.len(), 1);
    assert!(mixed.contains(&alone[0]));
}

#[test]
fn lessons_of_others_answer_where_there_are_none_of_ones_own() {
    let external = External { task: LESSONS[3].0, text: LESSONS[3].1, weight: 1.0 };
    let foreign = External { task: LESSONS[2].0, text: LESSONS[2].1, weight: 1.0 };
    let ranked = empty().rank_with("my disk is full", &RankOptions::default(), &[foreign, external]);
    assert_eq!(ranked.hits[0].source, Source::External(1));
    let distrusted = External { weight: 0.0, ..external };
    let ranked = empty().rank_with("my disk is full", &RankOptions::default(), &[foreign, distrusted]);
    assert_eq!(ranked.reason, Some(EmptyReason::Filtered));
}

#[test]
fn vectors_of_another_space_are_refused_and_words_remain() {
    let mut ranker = empty();
    assert!(ranker.add_embedded(1, "Free space on a full disk", "", &[vec![1.0, 0.0]]).is_err());
    assert_eq!(ranker.len(), 1);
    let vector = BuiltinEmbedder::new().embed_one("Free space on a full disk").unwrap().unwrap();
    ranker.add_embedded(1, "Free space on a full disk", "", &[vector]).unwrap();
    let hit = ranker.rank("free space on a full disk", &RankOptions::default()).hits[0];
    assert!(hit.dense.is_some_and(|cosine| cosine > 0.99));
}

/// Counts the texts that it embeds.
struct Counting(BuiltinEmbedder, AtomicUsize);

impl Embedder for Counting {
    fn identity(&self) -> &EmbedderIdentity {
        self.0.identity()
    }
    fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        self.1.fetch_add(texts.len(), Ordering::Relaxed);
        self.0.embed(texts)
    }
}

#[test]
fn what_was_embedded_before_a_restart_is_not_embedded_again() {
    let dir = tempfile::tempdir().unwrap();
    let embedder = Arc::new(Counting(BuiltinEmbedder::new(), AtomicUsize::new(0)));
    let mut answers = Vec::new();
    for (lessons, embedded) in [(3, 6), (4, 2), (4, 0)] {
        let before = embedder.1.load(Ordering::Relaxed);
        let (mut ranker, notes) = Ranker::open(embedder.clone(), Gate::BUILTIN, dir.path()).unwrap();
        assert!(notes.is_empty());
        for (slot, (task, text)) in (0u32..).zip(&LESSONS[..lessons]) {
            ranker.add_lesson(slot, &[slot as u8; 32], task, text).unwrap();
        }
        ranker.settle().unwrap();
        assert_eq!(embedder.1.load(Ordering::Relaxed) - before, embedded);
        answers.push(ranker.rank("the log files fill my disk", &RankOptions::default()).hits);
    }
    assert_eq!(answers[1], answers[2]);
    assert_eq!(answers[2][0].slot(), Some(3));
}

#[test]
fn reasons_have_the_words_of_every_door() {
    use EmptyReason::{BankEmpty, BelowThreshold, EmbedderUnavailable, Filtered};
    let words = [BankEmpty, BelowThreshold, Filtered, EmbedderUnavailable].map(|reason| reason.to_string());
    assert_eq!(words, ["bank-empty", "below-threshold", "filtered", "embedder-unavailable"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_adding_and_removing_it_ranks_as_a_fresh_one(
        added in prop::collection::vec((0u32..6, 0usize..5, 0usize..5), 1..12),
        removed in prop::collection::vec(0u32..6, 0..4),
        query in 0usize..5,
    ) {
        let (mut ranker, mut last) = (empty(), std::collections::BTreeMap::new());
        for &(slot, task, text) in &added {
            ranker.add(slot, LESSONS[task].0, LESSONS[text].1).unwrap();
            last.insert(slot, (task, text));
        }
        for slot in &removed {
            prop_assert_eq!(ranker.remove(*slot), last.remove(slot).is_some());
        }
        let mut fresh = empty();
        for (&slot, &(task, text)) in last.iter().rev() {
            fresh.add(slot, LESSONS[task].0, LESSONS[text].1).unwrap();
        }
        for min_score in [None, Some(-1.0)] {
            let options = RankOptions { k: 6, min_score, ..RankOptions::default() };
            let (ours, theirs) = (ranker.rank(LESSONS[query].0, &options), fresh.rank(LESSONS[query].0, &options));
            prop_assert_eq!(ours.hits, theirs.hits);
            prop_assert_eq!(ours.reason, theirs.reason);
        }
    }
}

const COPIES: [(&str, &str); 4] = [
    (
        "Cancel a flight",
        "Check the travel insurance of the reservation with get_reservation_details before anything else.",
    ),
    ("Cancel a flight", "Check the travel insurance of the reservation with get_reservation_details before anything."),
    ("Cancel a flight", "Ask which of the passengers cancels: a booking is cancelled whole or not at all."),
    ("Cancel a flight", "Tell the customer how long the refund to the credit card takes."),
];

fn copies() -> Ranker {
    let mut ranker = empty();
    for (slot, (task, text)) in (0..).zip(COPIES) {
        ranker.add(slot, task, text).unwrap();
    }
    ranker
}

const QUERY: &str = "check the travel insurance before cancelling a flight reservation";

#[test]
fn near_duplicates_are_shown_as_one_that_names_the_others() {
    let any = |_: Source, _: Source| true;
    let options = RankOptions { k: 4, min_score: Some(-1.0), may_fold: Some(&any), ..RankOptions::default() };
    let ranked = copies().rank(QUERY, &options);
    assert_eq!(ranked.hits.len(), 3);
    let folded: Vec<Vec<Source>> = ranked.folded;
    let first = ranked.hits[0].slot().unwrap();
    assert!(first < 2);
    assert_eq!(folded, [vec![Source::Slot(1 - first)], vec![], vec![]]);
}

#[test]
fn near_duplicates_stay_apart_where_the_caller_says_so() {
    let options = RankOptions { k: 4, min_score: Some(-1.0), ..RankOptions::default() };
    assert_eq!(copies().rank(QUERY, &options).hits.len(), 4);
    let never = |_: Source, _: Source| false;
    assert_eq!(copies().rank(QUERY, &RankOptions { may_fold: Some(&never), ..options }).hits.len(), 4);
}

#[test]
fn a_copy_from_elsewhere_folds_into_the_one_held() {
    let mut ranker = empty();
    ranker.add(7, COPIES[0].0, COPIES[0].1).unwrap();
    let copy = External { task: COPIES[1].0, text: COPIES[1].1, weight: 0.5 };
    let any = |_: Source, _: Source| true;
    let options = RankOptions { k: 4, may_fold: Some(&any), ..RankOptions::default() };
    let ranked = ranker.rank_with(QUERY, &options, &[copy]);
    assert_eq!((slots(&ranked), ranked.folded), (vec![7], vec![vec![Source::External(0)]]));
}

#[test]
fn diversity_puts_a_copy_of_the_first_hit_behind_what_says_something_else() {
    let options = RankOptions { k: 4, min_score: Some(-1.0), ..RankOptions::default() };
    let plain = slots(&copies().rank(QUERY, &options));
    assert!(plain[..2].contains(&0) && plain[..2].contains(&1), "{plain:?}");
    let diverse = copies().rank(QUERY, &RankOptions { diversity: 0.6, ..options });
    assert_eq!(diverse.hits.len(), 4);
    let order = slots(&diverse);
    assert_eq!(order[0], plain[0]);
    assert!(!order[..2].contains(&(1 - plain[0])), "{order:?}");
}

#[test]
fn an_empty_answer_tells_what_came_nearest_and_what_it_lacked() {
    let ranked = ranker().rank("how do penguins sleep on ice", &RankOptions::default());
    assert!(ranked.hits.is_empty());
    let nearest = ranked.nearest.unwrap();
    assert!(nearest.gate.reached < nearest.gate.bar && !nearest.relevant);
    assert_eq!(ranked.query.lessons, LESSONS.len());
    assert!(ranked.query.embedded && ranked.query.mass > 1.0);
}

#[test]
fn both_keys_are_told_apart_when_an_answer_is_explained() {
    let ranker = ranker();
    let query = "cancel flight reservation";
    let keys = ranker.keys(query, &[LESSONS[0], LESSONS[3]], &[], None);
    assert!(keys[0].task_cosine > keys[0].text_cosine && keys[0].task_bm25 > 0.0);
    let hit = ranker.rank(query, &RankOptions::default()).hits[0];
    assert!((hit.dense.unwrap() - keys[0].task_cosine.unwrap()).abs() < 1e-4);
    assert!((hit.fused - (0.7 * hit.dense.unwrap() + 0.3 * hit.lexical)).abs() < 1e-6);
    assert_eq!(keys[1].task_bm25, 0.0);
}
