//! What the built-in induction makes of the shipped runs, and of real ones where they are present.

mod runs;

use folklore_protocol::lesson::LessonKind;
use folklore_store::embed::BuiltinEmbedder;
use folklore_store::learn::{self, Draft, Induced, quote};
use folklore_store::recall::gate::Gate;
use folklore_store::recall::{RankOptions, Ranker, Scored};
use folklore_store::run::{Run, RunStatus};
use runs::{assert_verbatim, read, shared_data};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of paraphrased questions at most this share may find another task's lesson first, or none, in percent.
const MISSED_MAX_PERCENT: usize = 25;

fn demo_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/demo")
}

fn demo() -> Vec<Run> {
    read(&[demo_dir()], Some(&demo_dir().join("coding/outcomes.json")))
}

/// Real runs with their labels.
fn real(test: &str) -> Option<Vec<Run>> {
    let data = shared_data(test)?;
    let mini = data.join("mini-swe-agent");
    let mut runs = read(std::slice::from_ref(&mini), Some(&mini.join("outcomes.json")));
    runs.extend(read(&[data.join("tau-bench")], None));
    Some(runs)
}

fn assert_sound(runs: &[Run], induced: &Induced) {
    let by_digest: BTreeMap<_, _> = runs.iter().map(|run| (run.digest(), run)).collect();
    let mut tasks: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        tasks.entry(&run.task_key).or_default().push(run);
    }
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    for draft in &induced.lessons {
        let lesson = draft.lesson().unwrap();
        assert_eq!(lesson.fields().content, draft.fields.content, "normal form changes no quote");
        assert!(lesson.content.len() <= learn::CONTENT_BUDGET_BYTES + 600, "{} bytes", lesson.content.len());
        assert!(!lesson.applies_when.is_empty() && !lesson.task.is_empty() && !lesson.domain.is_empty());
        // The runs that the lesson may quote: the one it names, else all of a task.
        let one = draft.evidence.run_digest.and_then(|digest| by_digest.get(&digest));
        match one {
            Some(run) => assert_verbatim(draft, &[run]),
            None => {
                let holds = |group: &&Vec<&Run>| {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_verbatim(draft, group))).is_ok()
                };
                assert!(tasks.values().any(|group| holds(&group)), "{}", draft.fields.content);
            }
        }
        let task = lesson.task.clone();
        let other = texts.insert(&draft.fields.content, &draft.fields.task);
        assert!(other.is_none_or(|other| other == task), "one text for two tasks: {}", draft.fields.content);
    }
    for run in runs.iter().filter(|run| run.outcome.status == RunStatus::Unknown) {
        assert!(induced.no_lesson.iter().any(|none| none.run == run.source && none.reason.contains("label")));
    }
}

#[test]
fn the_shipped_runs_are_diverse_and_every_failure_teaches() {
    let runs = demo();
    let tasks: BTreeSet<&str> = runs.iter().map(|run| run.task_key.as_str()).collect();
    let domains: BTreeSet<&str> = runs.iter().map(|run| run.domain.as_str()).collect();
    assert!(runs.len() >= 36 && tasks.len() >= 20, "{} runs of {} tasks", runs.len(), tasks.len());
    assert_eq!(domains.into_iter().collect::<Vec<_>>(), ["coding", "retail"]);
    assert!(runs.iter().all(|run| run.outcome.status != RunStatus::Unknown && (3..=9).contains(&run.steps.len())));
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    assert_sound(&runs, &induced);
    assert_eq!(induced.no_lesson, [], "every shipped run teaches");
    let count = |kind| induced.lessons.iter().filter(|draft| draft.fields.kind == kind).count();
    assert!(count(LessonKind::Pitfall) >= 18 && count(LessonKind::Strategy) >= 18);
    assert_eq!(count(LessonKind::Contrast), 14, "one for each task with both outcomes");
}

#[derive(Deserialize)]
struct Query {
    file: String,
    task_key: String,
    query: String,
}

#[test]
fn the_demo_asks_for_lessons_that_exist_in_other_words() {
    let queries: Vec<Query> =
        serde_json::from_str(&fs::read_to_string(demo_dir().join("queries.json")).unwrap()).unwrap();
    assert!(queries.len() >= 12);
    let runs = demo();
    let lessons = learn::induce(&runs, learn::NONE_GIVEN).lessons;
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() >= 5);
        words.map(str::to_lowercase).collect()
    };
    let (mut in_common, mut in_all) = (0, 0);
    for query in queries {
        assert!(demo_dir().join(&query.file).exists(), "{}", query.file);
        let digests: Vec<_> =
            runs.iter().filter(|run| run.task_key == query.task_key).map(|run| Some(run.digest())).collect();
        let lesson = lessons.iter().find(|draft| digests.contains(&draft.evidence.run_digest)).unwrap();
        let (asked, told) = (words(&query.query), words(&format!("{} {}", lesson.fields.title, lesson.fields.task)));
        let shared = asked.intersection(&told).count();
        assert!(!lesson.fields.task.contains(&query.query) && !lesson.fields.title.contains(&query.query));
        (in_common, in_all) = (in_common + shared, in_all + asked.len());
    }
    assert!(in_common * 2 <= in_all, "{in_common} of {in_all} longer words are the lessons' own");
}

/// Asks for every query in a bank of all lessons; gives the queries whose best answer is of another task, or empty.
fn missed<'a>(lessons: &[Draft], queries: impl Iterator<Item = (&'a str, Vec<String>)>) -> (usize, Vec<String>) {
    let mut ranker = Ranker::new(Arc::new(BuiltinEmbedder::new()), Gate::BUILTIN);
    for (slot, draft) in (0..).zip(lessons) {
        ranker.add(slot, &draft.fields.task, &draft.lesson().unwrap().text()).unwrap();
    }
    let (mut asked, mut missed) = (0, Vec::new());
    for (query, tasks) in queries {
        asked += 1;
        let ranked = ranker.rank(query, &RankOptions::default());
        let best = ranked.hits.first().and_then(Scored::slot).and_then(|slot| lessons.get(slot as usize));
        if !best.is_some_and(|draft| tasks.contains(&draft.fields.task)) {
            missed.push(format!("{query:?} found {:?} ({:?})", best.map(|draft| &draft.fields.title), ranked.reason));
        }
    }
    (asked, missed)
}

#[test]
fn the_demos_questions_find_the_lessons_they_are_about() {
    let queries: Vec<Query> =
        serde_json::from_str(&fs::read_to_string(demo_dir().join("queries.json")).unwrap()).unwrap();
    let runs = demo();
    let lessons = learn::induce(&runs, learn::NONE_GIVEN).lessons;
    let general = |key: &str| runs.iter().filter(|run| run.task_key == key).map(learn::task::general).collect();
    let (asked, missed) = missed(&lessons, queries.iter().map(|q| (q.query.as_str(), general(&q.task_key))));
    assert!(missed.is_empty(), "{} of {asked}: {missed:#?}", missed.len());
}

#[test]
fn paraphrases_find_the_lessons_of_real_runs() {
    #[derive(Deserialize)]
    struct OnTopic {
        source: String,
        task_ids: Vec<String>,
        query: String,
    }
    let Some(runs) = real("paraphrases_find_the_lessons_of_real_runs") else { return };
    let lessons = learn::induce(&runs, learn::NONE_GIVEN).lessons;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/data/on_topic_queries.jsonl");
    let queries: Vec<OnTopic> =
        fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tasks = |query: &OnTopic| -> Vec<String> {
        let keys: Vec<String> = query
            .task_ids
            .iter()
            .map(|id| match query.source.as_str() {
                "mini-swe-agent" => id.clone(),
                source => format!("{}/{id}", source.replacen("tau-bench-", "tau-bench/", 1)),
            })
            .collect();
        runs.iter().filter(|run| keys.contains(&run.task_key)).map(learn::task::general).collect()
    };
    let labelled: Vec<(&str, Vec<String>)> = queries
        .iter()
        .map(|query| (query.query.as_str(), tasks(query)))
        .filter(|(_, tasks)| !tasks.is_empty())
        .collect();
    let (asked, missed) = missed(&lessons, labelled.into_iter());
    println!("{} of {asked} questions found a lesson of their task first; missed: {missed:#?}", asked - missed.len());
    assert!(asked >= 50 && missed.len() * 100 <= asked * MISSED_MAX_PERCENT, "{} of {asked}", missed.len());
}

#[test]
fn real_runs_teach_with_every_quote_verbatim() {
    let Some(runs) = real("real_runs_teach_with_every_quote_verbatim") else { return };
    assert_eq!(runs.len(), 107);
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    assert_sound(&runs, &induced);
    let kinds = |kind| induced.lessons.iter().filter(|draft| draft.fields.kind == kind).count();
    let (pitfalls, strategies) = (kinds(LessonKind::Pitfall), kinds(LessonKind::Strategy));
    println!("{pitfalls} pitfalls, {strategies} strategies, {} contrasts", kinds(LessonKind::Contrast));
    for none in &induced.no_lesson {
        println!("no lesson: {}: {}", none.run, none.reason);
    }
    assert!(pitfalls >= 45 && strategies >= 25);
    // Nearly every labelled failure teaches something.
    assert!(induced.no_lesson.len() <= 5, "{:?}", induced.no_lesson);
}

/// The step that the first pointer behind `words` names, as an index.
fn cited(line: &str, words: &str) -> Option<usize> {
    let (_, rest) = line.split_once(words)?;
    let number = rest.split_once("[step ")?.1.split_once(']')?.0;
    number.parse::<usize>().ok()?.checked_sub(1)
}

#[test]
fn lessons_of_real_runs_claim_no_more_than_their_steps_show() {
    let mut runs = demo();
    runs.extend(real("lessons_of_real_runs_claim_no_more_than_their_steps_show").unwrap_or_default());
    let (mut found, mut proven, mut first) = (0, 0, 0);
    for run in &runs {
        for draft in learn::from_run(run, learn::NONE_GIVEN).lessons {
            let content = &draft.fields.content;
            let line = |start: &str| content.lines().find(|line| line.starts_with(start));
            // The last command that made the change, or the step that shows it whole.
            let change = content.lines().next().unwrap_or_default();
            let made = change.rsplit_once("[step ").and_then(|(_, rest)| rest.split_once(']')?.0.parse::<usize>().ok());
            if let Some(at) = line("Found by").and_then(|line| cited(line, "Found by")) {
                let seen = &run.steps[at].observation;
                assert!(Some(at + 1) < made, "{content}");
                assert!(!seen.starts_with("<returncode>") || seen.starts_with("<returncode>0<"), "{content}");
                found += 1;
            }
            for start in ["Proof:", "It passed all the same:", "After it,"] {
                if let Some(at) = line(start).and_then(|line| cited(line, start)) {
                    assert!(made < Some(at + 1) && !run.steps[at].action.contains("git diff"), "{content}");
                    proven += 1;
                }
            }
            let judged = run.outcome.expected.as_ref().is_some_and(|expected| !expected.is_empty());
            if draft.fields.kind == LessonKind::Pitfall && judged {
                assert!(content.starts_with("Do: ") || content.starts_with("Do only: "), "{content}");
                first += 1;
            }
        }
    }
    println!(
        "{found} found by a look-up, {proven} with a check after the change, {first} pitfalls that say what to do first"
    );
    assert!(found >= 5 && proven >= 12 && first >= 5);
}

#[test]
fn one_import_never_tells_one_title_of_one_task_twice() {
    let mut runs = demo();
    runs.extend(real("one_import_never_tells_one_title_of_one_task_twice").unwrap_or_default());
    let mut told = BTreeSet::new();
    for draft in learn::separately(&runs, learn::NONE_GIVEN).lessons {
        let fields = draft.fields;
        let one = (fields.kind.as_str(), fields.title, fields.task);
        assert!(told.insert(one.clone()), "{one:?}");
    }
}

#[test]
fn real_tasks_with_both_outcomes_give_contrasts() {
    let Some(runs) = real("real_tasks_with_both_outcomes_give_contrasts") else { return };
    let mut tasks: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.domain == "airline") {
        tasks.entry(&run.task_key).or_default().push(run);
    }
    assert_eq!(tasks.len(), 18);
    let (mut mixed, mut told) = (0, 0);
    for group in tasks.values() {
        let has = |status| group.iter().any(|run| run.outcome.status == status);
        let contrasts = learn::contrast(group, learn::NONE_GIVEN).lessons;
        assert!(contrasts.len() <= learn::MAX_CONTRASTS);
        if has(RunStatus::Success) && has(RunStatus::Failure) {
            mixed += 1;
            told += usize::from(!contrasts.is_empty());
        } else {
            assert_eq!(contrasts, [], "{}", group[0].task_key);
        }
    }
    assert_eq!(mixed, 10);
    assert!(told >= 9, "{told} of {mixed}");
}

#[test]
fn without_labels_real_runs_teach_nothing_and_say_why() {
    let Some(data) = shared_data("without_labels_real_runs_teach_nothing_and_say_why") else { return };
    let runs = read(&[data.join("mini-swe-agent")], None);
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    assert_eq!((runs.len(), induced.lessons.len(), induced.no_lesson.len()), (13, 0, 13));
}

#[test]
fn induction_is_the_same_every_time_and_in_any_order_of_tasks() {
    let mut runs = demo();
    runs.extend(real("induction_is_the_same_every_time_and_in_any_order_of_tasks").unwrap_or_default());
    let first = learn::induce(&runs, learn::NONE_GIVEN);
    assert_eq!(first, learn::induce(&runs, learn::NONE_GIVEN));
    // Tasks in another order, attempts of each task in the same.
    runs.sort_by(|a, b| b.task_key.cmp(&a.task_key));
    let ids = |induced: &Induced| {
        let mut ids: Vec<_> = induced.lessons.iter().map(|draft| draft.lesson().unwrap().id()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&first), ids(&learn::induce(&runs, learn::NONE_GIVEN)));
}

#[test]
fn the_librarys_check_and_this_files_search_agree_on_a_planted_fault() {
    let runs = demo();
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    let by_digest: BTreeMap<_, _> = runs.iter().map(|run| (run.digest(), run)).collect();
    let mut planted = 0;
    for draft in &induced.lessons {
        let Some(run) = draft.evidence.run_digest.and_then(|digest| by_digest.get(&digest)) else { continue };
        let mut wrong = draft.clone();
        wrong.fields.content = draft.fields.content.replacen("`", "`planted ", 1);
        let sources = quote::Sources { first: run, second: None };
        assert!(quote::check(&draft.fields.content, sources).is_ok());
        assert!(quote::check(&wrong.fields.content, sources).is_err());
        let searched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_verbatim(&wrong, &[run])));
        assert!(searched.is_err());
        planted += 1;
    }
    assert!(planted >= 30);
}
