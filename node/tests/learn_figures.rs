//! How good the built-in induction is on real runs: figures that are printed with their baselines, and the bounds below
//! which they may not fall.

mod runs;

use folklore_store::learn;
use folklore_store::run::{Run, RunStatus};
use runs::{assert_verbatim, read, read_some, shared_data};
use std::collections::BTreeMap;

/// Groups of runs of one task that have both outcomes.
fn mixed(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut tasks: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        tasks.entry(&run.task_key).or_default().push(run);
    }
    let has = |group: &[&Run], status| group.iter().any(|run| run.outcome.status == status);
    tasks.into_values().filter(|group| has(group, RunStatus::Success) && has(group, RunStatus::Failure)).collect()
}

/// Whether a contrast quotes, at a step of the failing run, a move that no succeeding run of the group made.
fn names_a_move(content: &str, group: &[&Run]) -> bool {
    let of = |status: RunStatus| group.iter().filter(move |run| run.outcome.status == status);
    let numbers =
        content.split("[failed step ").skip(1).filter_map(|rest| rest.split(']').next()?.parse::<usize>().ok());
    let quotes: Vec<&str> = content.split('`').skip(1).step_by(2).collect();
    numbers.into_iter().any(|number| {
        of(RunStatus::Failure).any(|failed| {
            let Some(step) = failed.steps.get(number - 1).filter(|step| !step.action.is_empty()) else { return false };
            let quoted = quotes.iter().any(|quote| step.action.contains(quote));
            quoted && of(RunStatus::Success).any(|ok| !ok.steps.iter().any(|other| other.action == step.action))
        })
    })
}

#[test]
fn tasks_with_both_outcomes_give_a_contrast_that_names_the_failing_move() {
    let Some(data) = shared_data("tasks_with_both_outcomes_give_a_contrast_that_names_the_failing_move") else {
        return;
    };
    let tau = read(&[data.join("tau-bench")], None);
    let of = |domain: &str| tau.iter().filter(|run| run.domain == domain).cloned().collect::<Vec<_>>();
    let mbpp = [data.join("reflexion/mbpp_py_reflexion_gpt4.jsonl"), data.join("reflexion/mbpp_py_simple_gpt4.jsonl")];
    let sets = [
        ("tau-bench airline", of("airline"), 10),
        ("tau-bench retail", of("retail"), 5),
        ("MBPP", read(&mbpp, None), 23),
        ("GSM8K", read(&[data.join("procedural/gsm8k_model_solutions_1-250.jsonl")], None), 128),
    ];
    for (name, runs, groups) in sets {
        let mixed = mixed(&runs);
        assert_eq!(mixed.len(), groups, "{name}");
        let (mut told, mut named) = (0, 0);
        for group in &mixed {
            let induced = learn::contrast(group, learn::NONE_GIVEN);
            induced.lessons.iter().for_each(|draft| assert_verbatim(draft, group));
            told += usize::from(!induced.lessons.is_empty());
            let good = induced.lessons.iter().any(|draft| names_a_move(&draft.fields.content, group));
            named += usize::from(good);
            if !good {
                println!("{name}: {}: {:?}", group[0].task_key, induced);
            }
        }
        println!("{name}: {named} of {groups} groups name a failing move, {told} have a contrast");
        assert!(named * 100 >= groups * 80, "{name}: {named} of {groups}");
    }
}

/// The step that a pitfall blames: the first that its first line points to.
fn blamed(content: &str) -> Option<usize> {
    content.split("[step ").nth(1)?.split(']').next()?.parse().ok()
}

#[test]
fn the_step_that_people_marked_is_blamed_more_often_than_by_either_baseline() {
    let Some(data) = shared_data("the_step_that_people_marked_is_blamed_more_often_than_by_either_baseline") else {
        return;
    };
    let runs = read(&[data.join("who-and-when")], None);
    let (mut right, mut last, mut error, mut second, mut all) = (0, 0, 0, 0, 0);
    for run in &runs {
        let reason = run.outcome.reason.clone().unwrap_or_default();
        let Some(marked) = reason.strip_prefix("the decisive mistake is step ") else { continue };
        let marked: usize = marked.split(',').next().unwrap().parse().unwrap();
        all += 1;
        // The label goes before anything is induced: what people marked must not be what the lesson was read from.
        let mut blind = run.clone();
        blind.outcome.reason = None;
        let near = |step: usize| usize::from(step.abs_diff(marked) <= 1);
        let induced = learn::from_run(&blind, learn::NONE_GIVEN);
        induced.lessons.iter().for_each(|draft| assert_verbatim(draft, &[run]));
        let step = induced.lessons.first().and_then(|draft| blamed(&draft.fields.content));
        println!("{}: marked {marked} of {}, blamed {step:?} {:?}", run.source, run.steps.len(), induced.no_lesson);
        right += step.map_or(0, near);
        last += near(run.steps.len());
        second += near(2);
        let failed = |text: &str| text.contains("Traceback") || text.contains("(execution failed)");
        let first = run.steps.iter().position(|step| failed(&step.observation));
        error += first.map_or(0, |at| near(at + 1));
    }
    println!(
        "Who&When: the pitfall {right} of {all}, the last step {last}, the first error {error}, always the second step \
         {second} (each within 1 step)"
    );
    assert_eq!(all, 22);
    assert!(right > last + 3 && right > error + 3, "{right} of {all}, last {last}, error {error}");
}

#[test]
fn no_lesson_of_the_real_runs_fits_two_tasks() {
    let Some(data) = shared_data("no_lesson_of_the_real_runs_fits_two_tasks") else { return };
    let mut runs = Vec::new();
    for folder in [
        "mini-swe-agent",
        "tau-bench",
        "reflexion",
        "lats",
        "who-and-when",
        "procedural",
        "dynamic-cheatsheet",
        "openhands",
        "swe-agent",
    ] {
        let table = data.join(folder).join("outcomes.json");
        runs.extend(read_some(&[data.join(folder)], table.exists().then_some(table.as_path())).0);
    }
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    let mut twice = 0;
    for draft in &induced.lessons {
        let fields = &draft.fields;
        if texts.insert(&fields.content, &fields.task).is_some_and(|other| other != fields.task) {
            println!("{}", fields.content);
            twice += 1;
        }
    }
    println!("{} runs, {} lessons, {twice} with the text of another task's", runs.len(), induced.lessons.len());
    assert_eq!(twice, 0);
    assert!(induced.lessons.len() > 200);
}
