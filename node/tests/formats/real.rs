//! The formats on the real files of their producers, where those are present.

use super::*;
use folklore_store::learn;

/// Every file below a directory, in order.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() { files(&entry, found) } else { found.push(entry) }
    }
}

#[test]
fn every_real_file_is_imported_or_refused_with_a_reason_that_names_it() {
    let Some(data) = shared_data("every_real_file_is_imported_or_refused_with_a_reason_that_names_it") else {
        return;
    };
    let mut all = Vec::new();
    files(&data, &mut all);
    assert!(all.len() > 100);
    let mut bad = Vec::new();
    for path in all {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let shown = path.strip_prefix(&data).unwrap().display().to_string();
        let out = out(&path, &ReadOptions::default());
        let (runs, lessons, skipped) = (out.runs.len(), out.lessons.len(), out.skips.len());
        match &out.summary {
            Ok(summary) => {
                let judged = out.runs.iter().filter(|run| run.outcome.status != RunStatus::Unknown).count();
                println!(
                    "{shown:90} {:18} {runs:4} runs ({judged} judged) {lessons:5} lessons {skipped:3} skipped{}",
                    summary.format,
                    out.skips.first().map(|(item, why)| format!(" [{item}: {why}]")).unwrap_or_default()
                );
                assert_eq!((summary.runs, summary.lessons, summary.skipped), (runs, lessons, skipped), "{shown}");
                if runs + lessons + skipped == 0 {
                    bad.push(format!("{shown}: nothing came out, and the file says nothing"));
                }
            }
            Err(error) => {
                let error = error.to_string();
                println!("{shown:90} refused: {error}");
                if !error.starts_with(&name) || error.contains('\n') {
                    bad.push(format!("{shown}: {error}"));
                }
            }
        }
        for (item, reason) in &out.skips {
            if item.is_empty() || reason.is_empty() || reason.contains('\n') {
                bad.push(format!("{shown}: skipped '{item}' for '{reason}'"));
            }
        }
        for run in &out.runs {
            let text =
                run.steps.iter().any(|s| !(s.think.is_empty() && s.action.is_empty() && s.observation.is_empty()));
            if run.task_key.is_empty() || run.source.is_empty() || (!run.steps.is_empty() && !text) {
                bad.push(format!("{shown}: a run without a task or words: {run:?}"));
            }
        }
        for lesson in &out.lessons {
            if lesson.evidence.induced_by != formats::IMPORTED || lesson.fields.title.is_empty() {
                bad.push(format!("{shown}: {lesson:?}"));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn every_line_that_real_runs_teach_quotes_the_step_it_names() {
    let Some(data) = shared_data("every_line_that_real_runs_teach_quotes_the_step_it_names") else { return };
    let table = Outcomes::read(&data.join("mini-swe-agent/outcomes.json")).unwrap();
    let options = ReadOptions { outcomes: Some(&table), ..ReadOptions::default() };
    let mut all = Vec::new();
    files(&data, &mut all);
    let mut lessons = 0;
    for path in all {
        for run in out(&path, &options).runs {
            for draft in learn::from_run(&run, learn::NONE_GIVEN).lessons {
                lessons += 1;
                let sources = learn::quote::Sources { first: &run, second: None };
                learn::quote::check(&draft.fields.content, sources)
                    .unwrap_or_else(|why| panic!("{}: {why}", run.source));
                assert!(draft.fields.content.lines().all(|line| line.contains('[')), "{}", draft.fields.content);
                assert!(draft.lesson().is_ok(), "{}", run.source);
            }
        }
    }
    println!("{lessons} lessons");
    assert!(lessons > 100);
}

/// Steps that a line points to.
fn steps_named(text: &str) -> Vec<usize> {
    let pieces = text.split("step ").skip(1);
    pieces.filter_map(|piece| piece.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
}

#[test]
#[ignore = "prints what induction makes of groups of runs and of marked mistakes"]
fn contrasts_and_blame_to_look_at() {
    let Some(data) = shared_data("contrasts_and_blame_to_look_at") else { return };
    for (name, files) in [
        ("tau-bench airline", &["tau-bench/gpt-4o-airline.json"][..]),
        ("tau-bench retail", &["tau-bench/retail_assertions.json", "tau-bench/retail_tool-calling.json"]),
        ("MBPP", &["reflexion/mbpp_py_reflexion_gpt4.jsonl", "reflexion/mbpp_py_simple_gpt4.jsonl"]),
        ("GSM8K", &["procedural/gsm8k_model_solutions_1-250.jsonl"]),
        (
            "cheatsheet",
            &["dynamic-cheatsheet/balancer_claude_DC-RS.jsonl", "dynamic-cheatsheet/balancer_claude_baseline.jsonl"],
        ),
    ] {
        let mut tasks = std::collections::BTreeMap::<String, Vec<Run>>::new();
        for run in files.iter().flat_map(|file| out(&data.join(file), &ReadOptions::default()).runs) {
            tasks.entry(run.task_key.clone()).or_default().push(run);
        }
        let mixed: Vec<_> = tasks
            .values()
            .filter(|runs| count(runs, RunStatus::Success) > 0 && count(runs, RunStatus::Failure) > 0)
            .collect();
        let (mut with, mut shown) = (0, 0);
        let mut reasons = std::collections::BTreeMap::<String, usize>::new();
        for runs in &mixed {
            let made = learn::contrast(&runs.iter().collect::<Vec<_>>(), learn::NONE_GIVEN);
            with += usize::from(!made.lessons.is_empty());
            made.no_lesson.into_iter().for_each(|none| *reasons.entry(none.reason).or_default() += 1);
            if let Some(draft) = made.lessons.first().filter(|_| shown < 2) {
                shown += 1;
                println!("+++ {} / {}", draft.fields.title, draft.fields.content);
            }
        }
        println!(
            "{name}: {} tasks, {} with both outcomes, a contrast for {with}; none: {reasons:?}",
            tasks.len(),
            mixed.len()
        );
    }
    let (mut right, mut told, mut last, mut all) = (0, 0, 0, 0);
    let mut paths = Vec::new();
    files(&data.join("who-and-when"), &mut paths);
    for run in paths.iter().flat_map(|path| out(path, &ReadOptions::default()).runs) {
        let marked = steps_named(run.outcome.reason.as_deref().unwrap_or_default()).first().copied();
        let Some(marked) = marked else { continue };
        all += 1;
        last += usize::from(run.steps.len().abs_diff(marked) <= 1);
        let lessons = learn::from_run(&run, learn::NONE_GIVEN).lessons;
        let blamed =
            lessons.first().and_then(|draft| steps_named(draft.fields.content.lines().next()?).first().copied());
        told += usize::from(blamed.is_some());
        right += usize::from(blamed.is_some_and(|blamed| blamed.abs_diff(marked) <= 1));
        println!("{}: marked {marked} of {}, blamed {blamed:?}", run.source, run.steps.len());
    }
    println!(
        "Who&When: {all} runs, {told} with a pitfall, {right} within one step; the last step would be right for {last}"
    );
}

#[test]
#[ignore = "prints samples to look at"]
fn samples_to_look_at() {
    let Some(data) = shared_data("samples_to_look_at") else { return };
    let mut all = Vec::new();
    files(&data, &mut all);
    let filter = std::env::var("FOLKLORE_SAMPLE").unwrap_or_default();
    for path in all.iter().filter(|path| path.to_string_lossy().contains(&filter)) {
        let out = out(path, &ReadOptions::default());
        for run in out.runs.iter().take(2) {
            println!(
                "\n=== {} | key {} | agent {} | {:?} | attempt {:?} | tags {:?}",
                run.source, run.task_key, run.agent, run.outcome, run.attempt, run.tags
            );
            println!("TASK {}", folklore_store::run::shorten(&run.task, 500));
            for (at, step) in run.steps.iter().take(8).enumerate() {
                let short = |text: &str| folklore_store::run::shorten(&text.replace('\n', "⏎"), 220);
                println!(
                    "  {} T[{}] A[{}] O[{}]",
                    at + 1,
                    short(&step.think),
                    short(&step.action),
                    short(&step.observation)
                );
            }
        }
        for lesson in out.lessons.iter().take(3) {
            println!("\n--- {} {:?}\n{:#?}", lesson.source, lesson.evidence, lesson.fields);
        }
        let induced = learn::separately(&out.runs, learn::NONE_GIVEN);
        for draft in induced.lessons.iter().take(4) {
            println!("\n+++ {:#?}", draft.fields);
        }
        let mut reasons = std::collections::BTreeMap::<String, usize>::new();
        induced.no_lesson.into_iter().for_each(|none| *reasons.entry(none.reason).or_default() += 1);
        println!("{} -> {} lessons; none: {reasons:?}", path.display(), induced.lessons.len());
    }
}

/// `cargo test -p folklore-node --test formats -- --ignored --nocapture a_gigabyte` measures it, alone in its process.
#[test]
#[ignore = "writes and reads a gigabyte"]
fn a_gigabyte_of_lines_is_read_in_bounded_memory() {
    let Some(data) = shared_data("a_gigabyte_of_lines_is_read_in_bounded_memory") else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.jsonl");
    let text = fs::read_to_string(data.join("tau-bench/gpt-4o-airline.json")).unwrap();
    let items: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    let (mut bytes, mut trial) = (0_u64, 0);
    while bytes < 1 << 30 {
        for item in &items {
            let mut item = item.clone();
            item["trial"] = trial.into();
            let line = item.to_string();
            bytes += line.len() as u64 + 1;
            writeln!(file, "{line}").unwrap();
        }
        trial += 1;
    }
    drop((file, text, items));
    let position = std::cell::Cell::new(0);
    let options = ReadOptions { position: Some(&position), ..ReadOptions::default() };
    let began = std::time::Instant::now();
    let mut runs = 0;
    let summary = formats::read_path(&path, &options, &mut |_| {
        runs += 1;
        ControlFlow::Continue(())
    });
    let seconds = began.elapsed().as_secs_f64();
    let peak = peak_memory().unwrap_or_default();
    println!("{bytes} bytes, {runs} runs, {:.0} MB/s, peak {} MB", bytes as f64 / 1e6 / seconds, peak >> 20);
    assert_eq!((summary.unwrap().skipped, position.get()), (0, bytes));
    assert!(peak < 200 << 20);
}
