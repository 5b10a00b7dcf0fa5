//! What recall finds in a bank with thousands of procedures beside the lessons of real runs: a task still gets what was learned
//! about tasks, and a subquestion its procedure.
//!
//! The lessons are those that importing tau-bench and mini-swe-agent gives, and our own; the queries about them are the labelled
//! ones of `store/tests/data`. The procedures are the steps of GSM8K's socratic answers, up to 5,000 with lines of solutions, and their
//! queries subquestions in other words, as in `folklore eval steps`. Where the runs are absent, the test says so and passes.

#[path = "../../store/tests/labelled/mod.rs"]
mod labelled;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod runs;

use std::collections::BTreeMap;
use std::path::Path;

use folklore_protocol::{Claim, Evidence, Keypair, Lesson, LessonDraft, LessonId, LessonKind};
use folklore_store::bank::{BankInfo, Batch, OpenOptions, Store};
use folklore_store::catalogue::{Catalogue, Wish};
use folklore_store::eval;
use folklore_store::learn;
use folklore_store::run::Run;
use labelled::{OFF_TOPIC_MAX_PERCENT, Rate};
use serde::Deserialize;

/// What a lesson is about: a source and the task in it, or the place of a step.
type About = (&'static str, String);

/// Lessons of a group that is written at once.
const GROUP: usize = 1_000;

fn of_runs(data: &Path) -> Vec<(About, LessonDraft)> {
    let mut tasks: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for dir in ["tau-bench", "mini-swe-agent"] {
        let table = data.join(dir).join("outcomes.json");
        for run in runs::read_some(&[data.join(dir)], table.is_file().then_some(table.as_path())).0 {
            tasks.entry(run.task_key.clone()).or_default().push(run);
        }
    }
    let mut out = Vec::new();
    for (key, runs) in &tasks {
        let about = match key.strip_prefix("tau-bench/").and_then(|rest| rest.split_once('/')) {
            Some(("airline", id)) => ("tau-bench-airline", id.to_owned()),
            Some(("retail", id)) => ("tau-bench-retail", id.to_owned()),
            _ => ("mini-swe-agent", key.rsplit('/').next().unwrap_or_default().to_owned()),
        };
        let induced = learn::induce(runs, learn::NONE_GIVEN).lessons;
        out.extend(induced.into_iter().map(|draft| (about.clone(), draft.fields)));
    }
    out
}

fn our_own() -> Vec<(About, LessonDraft)> {
    #[derive(Deserialize)]
    struct Own {
        id: String,
        #[serde(flatten)]
        lesson: LessonDraft,
    }
    let lines = include_str!("../../store/tests/data/own_lessons.jsonl").lines();
    let own = lines.map(|line| serde_json::from_str::<Own>(line).expect("a lesson"));
    own.map(|own| (("own", own.id), own.lesson)).collect()
}

/// The steps of the set as procedures, by their place in it.
fn procedures(set: &eval::Set) -> Vec<(About, LessonDraft)> {
    let shortened = |text: &str| folklore_store::run::shorten(text, 150);
    let draft = |doc: &eval::Doc| LessonDraft {
        kind: LessonKind::Procedure,
        title: shortened(if doc.task.is_empty() { &doc.text } else { &doc.task }),
        applies_when: String::new(),
        not_when: String::new(),
        content: doc.text.clone(),
        task: doc.task.clone(),
        domain: "math".into(),
        tags: Vec::new(),
    };
    set.docs.iter().map(|doc| (("steps", doc.id.clone()), draft(doc))).collect()
}

/// A bank, and what each of its lessons is about: several, where they say the same word for word.
struct Bank {
    _dir: tempfile::TempDir,
    catalogue: Catalogue,
    about: BTreeMap<LessonId, Vec<About>>,
}

impl Bank {
    fn of(lessons: &[(About, LessonDraft)]) -> Self {
        let (dir, key) = (tempfile::tempdir().unwrap(), Keypair::from_seed(&[1; 32]));
        let store = Store::open(dir.path(), OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store;
        let bank = BankInfo::new(key.author(), [0; 16], "home");
        store.add_bank(bank.clone()).unwrap();
        let mut about: BTreeMap<LessonId, Vec<About>> = BTreeMap::new();
        for group in lessons.chunks(GROUP) {
            let mut claims = Vec::new();
            for (of, draft) in group {
                let Ok(lesson) = Lesson::new(draft.clone()) else { continue };
                let lesson_id = lesson.id();
                about.entry(lesson_id).or_default().push(of.clone());
                claims.push((Claim::Taught { lesson_id, evidence: Evidence::told("person") }, Some(lesson)));
            }
            store.write(bank.id, &key, 0, Batch { claims, runs: Vec::new(), skip_if_taught: true }).unwrap();
        }
        let catalogue = Catalogue::load(store, key.author()).unwrap();
        Self { _dir: dir, catalogue, about }
    }

    /// What the best hit is about; nothing where there is none.
    fn first(&self, query: &str, kinds: &[LessonKind]) -> &[About] {
        let wish = Wish { k: 1, kinds: kinds.to_vec(), ..Wish::default() };
        let recalled = self.catalogue.recall(query, &wish, &[]).unwrap();
        recalled.hits.first().map_or(&[], |hit| &self.about[&hit.lesson.id()])
    }
}

/// Queries about the lessons of tasks: answered at all, by the right task, by a procedure; and off-topic ones answered.
#[derive(Default)]
struct Asked {
    on: Rate,
    right: Rate,
    procedure: Rate,
    off: Rate,
}

fn ask(name: &str, bank: &Bank, kinds: &[LessonKind]) -> (Asked, usize) {
    let (mut asked, mut hits) = (Asked::default(), 0);
    for on in labelled::on_topic() {
        let first = bank.first(&on.query, kinds);
        let right = first.iter().any(|(source, id)| *source == on.source && on.task_ids.contains(id));
        asked.on.add(!first.is_empty());
        asked.right.add(right);
        asked.procedure.add(first.iter().any(|(source, _)| *source == "steps"));
        hits += usize::from(right);
    }
    for query in labelled::off_topic() {
        asked.off.add(!bank.first(query, kinds).is_empty());
    }
    println!(
        "{name}: on-topic answered {}, hit@1 {}, by a procedure {}; off-topic answered {}",
        asked.on, asked.right, asked.procedure, asked.off
    );
    (asked, hits)
}

#[test]
fn thousands_of_procedures_drown_no_lesson_and_are_found_by_their_subquestions() {
    let Some(data) = labelled::shared_data("beside procedures") else { return };
    let set = eval::shared("steps", &data).expect("a known set").expect("its files");
    let lessons = [of_runs(&data), our_own()].concat();
    let procedures = procedures(&set);
    println!("{} lessons about tasks, {} procedures", lessons.len(), procedures.len());
    let alone = Bank::of(&lessons);
    let mixed = Bank::of(&[lessons, procedures].concat());

    let (_, hits_alone) = ask("lessons alone", &alone, &[]);
    // Naming every kind asks for all of them as equals.
    ask("all kinds as equals", &mixed, &LessonKind::ALL);
    let (beside, hits_beside) = ask("beside procedures", &mixed, &[]);
    assert!(beside.off.at_most(OFF_TOPIC_MAX_PERCENT), "{}", beside.off);
    // The words of procedures count into how rare a word is, which moves an answer or two.
    assert!(hits_beside + 2 >= hits_alone, "{hits_beside} of {hits_alone}");

    let found = |kinds: &[LessonKind]| {
        let mut rate = Rate::default();
        for query in &set.queries {
            let first = mixed.first(&query.text, kinds);
            rate.add(first.iter().any(|(source, id)| {
                *source == "steps" && query.relevant.iter().any(|(at, _)| set.docs[*at].id == *id)
            }));
        }
        rate
    };
    let (step, plain) = (found(&[LessonKind::Procedure]), found(&[]));
    println!("subquestions in other words: hit@1 {step} with --step, {plain} without");
    assert!(step.at_least(60) && plain.at_least(50), "{step}, {plain}");
}
