//! Lessons from runs made of shell commands.
//!
//! Such runs end with a patch. What a pitfall blames: the patch that was handed in, quoted line by line, because that is
//! what was judged. Its evidence, in this order: an edit the run made earlier and took back (the direction it gave up); a
//! test or script that still failed after the last edit; checks that passed all the same and so prove nothing here; files
//! that were read and left as they were. A doubt in the agent's own words about something it changed is quoted too.
//!
//! A tool that is missing on the machine and what worked in its place is a lesson of its own, from a success or a failure.

use super::draft::Parts;
use super::moves::{Move, Work, error_line, is_path, work};
use super::quote::{Side, piece, quoted};
use super::tools::SENTENCE_BYTES;
use crate::run::Run;
use folklore_protocol::lesson::LessonKind;

/// Bytes of a quoted line of code or command.
const CODE_BYTES: usize = 140;
/// Changed places of a patch that are shown.
const SHOWN_CHANGES: usize = 3;
/// Files shown as read and left alone.
const SHOWN_FILES: usize = 3;
/// How many steps after an error its way round is looked for.
const DETOUR_STEPS: usize = 10;

/// One file of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch<'a> {
    pub path: &'a str,
    /// Pairs of a removed and an added line; either may be missing.
    pub changes: Vec<(Option<&'a str>, Option<&'a str>)>,
}

/// The patch a run handed in, and the step whose observation shows it.
pub(super) fn patch(run: &Run) -> Option<(usize, Vec<FilePatch<'_>>)> {
    let (at, text) = run.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let text = step.observation.as_str();
        let start = text.find("diff --git ")?;
        Some((at, text.get(start..)?))
    })?;
    let files = text.split("diff --git ").skip(1).filter_map(file_patch).collect::<Vec<_>>();
    (!files.is_empty()).then_some((at, files))
}

fn file_patch<'a>(text: &'a str) -> Option<FilePatch<'a>> {
    let path = text.lines().next()?.split(" b/").nth(1)?.trim();
    let mut changes = Vec::new();
    let (mut removed, mut added): (Vec<&'a str>, Vec<&'a str>) = (Vec::new(), Vec::new());
    let mut flush = |removed: &mut Vec<&'a str>, added: &mut Vec<&'a str>| {
        let pairs = removed.len().max(added.len());
        changes.extend((0..pairs).map(|n| (removed.get(n).copied(), added.get(n).copied())));
        removed.clear();
        added.clear();
    };
    for line in text.lines().skip_while(|line| !line.starts_with("@@")) {
        match line.split_at_checked(1) {
            Some(("-", old)) => removed.push(old),
            Some(("+", new)) => added.push(new),
            _ => flush(&mut removed, &mut added),
        }
    }
    flush(&mut removed, &mut added);
    changes.retain(|(old, new)| [old, new].into_iter().flatten().any(|line| says_something(line)));
    (!path.is_empty()).then_some(FilePatch { path, changes })
}

/// Not blank, no comment, no lone bracket.
fn says_something(line: &str) -> bool {
    let line = line.trim();
    line.chars().filter(|c| c.is_alphanumeric()).count() >= 3 && !line.starts_with("# ") && !line.starts_with("//")
}

/// The commands of a run.
pub(super) fn commands(run: &Run) -> Vec<(usize, &str, Work<'_>)> {
    let of = |(at, step): (usize, &'_ crate::run::Step)| match Move::of(step_action(run, at)) {
        Move::Command(command) if !step.action.is_empty() => Some((at, command, work(command))),
        _ => None,
    };
    run.steps.iter().enumerate().filter_map(of).collect()
}

fn step_action(run: &Run, at: usize) -> &str {
    run.steps.get(at).map_or("", |step| step.action.as_str())
}

/// Lessons of the kind that the run's outcome gives.
pub(super) fn lessons(run: &Run, kind: LessonKind) -> Vec<Parts> {
    let main = match patch(run) {
        Some((at, files)) if kind == LessonKind::Pitfall => pitfall(run, at, &files),
        Some((at, files)) => strategy(run, at, &files),
        None if kind == LessonKind::Pitfall => stuck(run),
        None => sequence(run),
    };
    main.into_iter().chain(detour(run, kind)).collect()
}

fn pitfall(run: &Run, at: usize, files: &[FilePatch<'_>]) -> Option<Parts> {
    let mut lines = Vec::new();
    let shown = changes(files);
    if shown.is_empty() {
        return None;
    }
    let given_up = taken_back(run, files);
    let says = |text: &str| {
        format!("Not enough: {} {}; the judge found the task unsolved.{text}", shown.join("; "), Side::Only.at(at))
    };
    lines.push(says(""));
    lines.extend(given_up);
    let last_edit = last_edit(run, files);
    lines.extend(left_failing(run, last_edit));
    lines.extend(
        proof(run, last_edit).map(|(text, at)| {
            format!("It passed all the same: {text} {}, so look beyond that check.", Side::Only.at(at))
        }),
    );
    lines.extend(left_alone(run, files));
    lines.extend(doubt(run, files));
    let path = files.first().map(|file| file.path).unwrap_or_default();
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("a change to {path} that was not enough"),
        when: format!(
            "Files: {}.",
            files.iter().map(|file| file.path).take(SHOWN_FILES).collect::<Vec<_>>().join(", ")
        ),
        not_when: format!("Where {path} looks different, or the fault lies elsewhere."),
        lines,
        tags: Vec::new(),
    })
}

fn strategy(run: &Run, at: usize, files: &[FilePatch<'_>]) -> Option<Parts> {
    let shown = changes(files);
    if shown.is_empty() {
        return None;
    }
    let mut lines = vec![format!("Do: {} {}.", shown.join("; "), Side::Only.at(at))];
    lines.extend(found_by(run, files));
    let first_edit = first_edit(run, files);
    lines.extend(shown_before(run, first_edit));
    let last_edit = last_edit(run, files);
    lines.extend(proof(run, last_edit).map(|(text, at)| format!("Proof: {text} {}.", Side::Only.at(at))));
    let path = files.first().map(|file| file.path).unwrap_or_default();
    Some(Parts {
        kind: LessonKind::Strategy,
        cause: format!("a change to {path} solved it"),
        when: format!(
            "Files: {}.",
            files.iter().map(|file| file.path).take(SHOWN_FILES).collect::<Vec<_>>().join(", ")
        ),
        not_when: format!("Where {path} looks different."),
        lines,
        tags: Vec::new(),
    })
}

/// `in path, old became new` for the first changes of a patch. The pointer to the patch's step is added by the caller.
pub(super) fn changes(files: &[FilePatch<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    // Tests beside the change are not what was asked for.
    let (tests, sources): (Vec<_>, Vec<_>) = files.iter().partition(|file| is_test(file.path));
    for file in if sources.is_empty() { tests } else { sources } {
        for (old, new) in &file.changes {
            let old = old.and_then(|line| quoted(line, CODE_BYTES));
            let new = new.and_then(|line| quoted(line, CODE_BYTES));
            let text = match (old, new) {
                (Some(old), Some(new)) => format!("{old} became {new}"),
                (Some(old), None) => format!("{old} was removed"),
                (None, Some(new)) => format!("{new} was added"),
                (None, None) => continue,
            };
            out.push(format!("in `{}`, {text}", file.path));
            if out.len() == SHOWN_CHANGES {
                return out;
            }
        }
    }
    out
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| matches!(part, "test" | "tests" | "testing" | "spec"))
        || name.starts_with("test_")
        || name.contains("_test.")
}

fn touches(command: &str, files: &[FilePatch<'_>]) -> bool {
    files.iter().any(|file| command.contains(file.path))
}

fn first_edit(run: &Run, files: &[FilePatch<'_>]) -> usize {
    let edits =
        commands(run).into_iter().find(|(_, command, kind)| matches!(kind, Work::Edit(_)) && touches(command, files));
    edits.map_or(run.steps.len(), |(at, _, _)| at)
}

fn last_edit(run: &Run, files: &[FilePatch<'_>]) -> usize {
    let edits = commands(run)
        .into_iter()
        .rev()
        .find(|(_, command, kind)| matches!(kind, Work::Edit(_)) && touches(command, files));
    edits.map_or(0, |(at, _, _)| at)
}

/// An edit of a source file that a later command took back, with what made the run give it up.
fn taken_back(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    let log = commands(run);
    let (undo_at, undo, _) =
        log.iter().rev().find(|(_, command, kind)| *kind == Work::Undo && !command.trim_start().starts_with("rm"))?;
    let words: Vec<&str> = undo.split_whitespace().filter(|word| is_path(word) && !is_test(word)).collect();
    let (edit_at, edit, _) = log.iter().rev().find(|(at, command, kind)| {
        at < undo_at && matches!(kind, Work::Edit(_)) && words.iter().any(|path| command.contains(path))
    })?;
    let same = files.iter().any(|file| words.contains(&file.path));
    let why = log
        .iter()
        .rev()
        .filter(|(at, _, kind)| at < undo_at && at > edit_at && matches!(kind, Work::Test | Work::Run))
        .find_map(|(at, _, _)| {
            let line = result_line(&run.steps.get(*at)?.observation)?;
            Some(format!(", after {} {}", quoted(line, CODE_BYTES)?, Side::Only.at(*at)))
        });
    let shown = quoted(edit, CODE_BYTES)?;
    let direction = if same { "" } else { "; that file was not changed in the end" };
    Some(format!(
        "Look again at what was taken back: {shown} {}, undone by {} {}{}{direction}.",
        Side::Only.at(*edit_at),
        quoted(undo, CODE_BYTES)?,
        Side::Only.at(*undo_at),
        why.unwrap_or_default()
    ))
}

/// A check that still failed when the patch was handed in.
fn left_failing(run: &Run, last_edit: usize) -> Option<String> {
    let log = commands(run);
    let (at, command, _) = log.iter().rev().find(|(at, command, kind)| {
        *at > last_edit
            && matches!(kind, Work::Test | Work::Run)
            && run.steps.get(*at).is_some_and(|step| fails(&step.observation))
            && !log.iter().any(|(later, other, _)| {
                later > at
                    && same_target(command, other)
                    && run.steps.get(*later).is_some_and(|s| !fails(&s.observation))
            })
    })?;
    let observation = &run.steps.get(*at)?.observation;
    let line = error_line(observation).or_else(|| result_line(observation))?;
    Some(format!(
        "Left failing: {} printed {} {}.",
        quoted(command, CODE_BYTES)?,
        quoted(line, CODE_BYTES)?,
        Side::Only.at(*at)
    ))
}

fn fails(observation: &str) -> bool {
    error_line(observation).is_some()
        || result_line(observation).is_some_and(|line| line.contains("FAIL") || line.contains(" failed"))
}

/// Two commands that work on one file.
fn same_target(a: &str, b: &str) -> bool {
    a == b || a.split_whitespace().filter(|word| word.contains('/') || is_path(word)).any(|word| b.contains(word))
}

/// The last check after an edit that passed: its text and step.
fn proof(run: &Run, last_edit: usize) -> Option<(String, usize)> {
    let log = commands(run);
    let passed = |kind_wanted: fn(&Work<'_>) -> bool| {
        log.iter().rev().find_map(|(at, command, kind)| {
            let observation = &run.steps.get(*at)?.observation;
            let line = result_line(observation)?;
            (*at > last_edit && kind_wanted(kind) && !fails(observation)).then_some((*at, *command, line))
        })
    };
    let (at, command, line) = passed(|kind| *kind == Work::Test).or_else(|| passed(|kind| *kind == Work::Run))?;
    Some((format!("{} printed {}", quoted(command, CODE_BYTES)?, quoted(line, CODE_BYTES)?), at))
}

/// What a check failed with before the first edit.
fn shown_before(run: &Run, first_edit: usize) -> Option<String> {
    let (at, command, line) = commands(run).into_iter().find_map(|(at, command, kind)| {
        let line = result_line(&run.steps.get(at)?.observation)?;
        (at < first_edit && matches!(kind, Work::Run | Work::Test)).then_some((at, command, line))
    })?;
    Some(format!(
        "Before it, {} printed {} {}.",
        quoted(command, CODE_BYTES)?,
        quoted(line, CODE_BYTES)?,
        Side::Only.at(at)
    ))
}

/// The search that led to the changed file.
fn found_by(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    let path = files.iter().find(|file| !is_test(file.path)).or(files.first())?.path;
    let (at, command, _) = commands(run).into_iter().find(|(at, command, kind)| {
        matches!(kind, Work::Search)
            && (run.steps.get(*at).is_some_and(|step| step.observation.contains(path)) || command.contains(path))
    })?;
    Some(format!("Found by {} {}.", quoted(command, CODE_BYTES)?, Side::Only.at(at)))
}

/// Source files that were read and not changed.
fn left_alone(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for (at, command, kind) in commands(run) {
        if kind != Work::View {
            continue;
        }
        for word in command.split_whitespace().filter(|word| is_path(word) && word.contains('/') && !is_test(word)) {
            let word = word.trim_start_matches("./");
            if !files.iter().any(|file| file.path == word) && !seen.iter().any(|(path, _)| *path == word) {
                seen.push((word, at));
            }
        }
    }
    if seen.is_empty() {
        return None;
    }
    let shown: Vec<String> =
        seen.iter().take(SHOWN_FILES).map(|(path, at)| format!("`{path}` {}", Side::Only.at(*at))).collect();
    Some(format!("Read and left as they were: {}.", shown.join(", ")))
}

/// A sentence in which the agent doubts something it changed.
fn doubt(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    const DOUBTS: &[&str] = &[
        "not sure",
        "what if",
        "i wonder",
        "might break",
        "might be better",
        "should i ",
        "however,",
        "wait,",
        "but what about",
        "is it possible",
    ];
    let names: Vec<&str> = files
        .iter()
        .flat_map(|file| &file.changes)
        .flat_map(|(old, new)| [*old, *new])
        .flatten()
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| word.len() >= 6)
        .collect();
    let first = first_edit(run, files);
    for marker in DOUBTS {
        for (at, step) in run.steps.iter().enumerate().skip(first.saturating_sub(1)) {
            let sentences = step.think.lines().flat_map(|line| line.split_inclusive(['.', '?', '!'])).map(str::trim);
            for sentence in sentences.filter(|s| (40..=260).contains(&s.len()) && s.to_lowercase().contains(marker)) {
                let Some(shown) = piece(sentence, SENTENCE_BYTES) else { continue };
                if names.iter().any(|name| shown.contains(name)) {
                    return Some(format!(
                        "A doubt on the way: {} {}.",
                        quoted(sentence, SENTENCE_BYTES)?,
                        Side::Only.at(at)
                    ));
                }
            }
        }
    }
    None
}

/// The line of a program's output that sums it up.
pub(super) fn result_line(observation: &str) -> Option<&str> {
    const SUMS_UP: &[&str] =
        &["FAIL", "SUCCESS", "PASS", "passed", "failed", "OK", "Ran ", "tests finished", "Error", "test result"];
    let lines = observation
        .lines()
        .map(str::trim)
        .filter(|line| line.chars().any(char::is_alphanumeric) && !line.starts_with('<'));
    lines
        .clone()
        .rfind(|line| SUMS_UP.iter().any(|word| line.contains(word)) && !line.starts_with("Destroying"))
        .or_else(|| lines.last())
}

/// A program that is missing or does not start here, and the command that did the same work later.
fn detour(run: &Run, kind: LessonKind) -> Option<Parts> {
    const MISSING: &[&str] = &[
        "command not found",
        "No module named",
        "unrecognized arguments",
        "unknown option",
        "no such option",
        "ImproperlyConfigured",
    ];
    let log = commands(run);
    let (at, command, error, later_at, later) = log.iter().find_map(|(at, command, kind)| {
        let error = error_line(&run.steps.get(*at)?.observation)?;
        if !MISSING.iter().any(|words| error.contains(words)) || !matches!(kind, Work::Test | Work::Run | Work::Other) {
            return None;
        }
        let (later_at, later, _) = log.iter().find(|(later_at, later, other)| {
            later_at > at
                && *later_at <= at + DETOUR_STEPS
                && (other == kind || *other == Work::Test)
                && program(later) != program(command)
                && same_target(command, later)
                && run.steps.get(*later_at).is_some_and(|step| {
                    error_line(&step.observation).is_none_or(|line| !MISSING.iter().any(|words| line.contains(words)))
                })
        })?;
        Some((*at, *command, error, *later_at, *later))
    })?;
    let lines = vec![
        format!("Do: {} {} runs here.", quoted(later, CODE_BYTES)?, Side::Only.at(later_at)),
        format!(
            "Not: {} {}, which gives {} {}.",
            quoted(command, CODE_BYTES)?,
            Side::Only.at(at),
            quoted(error, CODE_BYTES)?,
            Side::Only.at(at)
        ),
    ];
    Some(Parts {
        kind,
        cause: format!("run {}, not {}", program(later), program(command)),
        when: format!("When {} is not there.", program(command)),
        not_when: format!("Where {} is installed.", program(command)),
        lines,
        tags: vec![program(later).to_owned()],
    })
}

/// The program a command starts; for an interpreter with `-m`, the module.
fn program(command: &str) -> &str {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    if first.ends_with("python") || first.ends_with("python3") {
        let rest: Vec<&str> = words.collect();
        if let ["-m", module, ..] = rest.as_slice() {
            return module;
        }
        return rest.first().copied().filter(|word| is_path(word)).unwrap_or(first);
    }
    first
}

/// A failure without a patch: the last error, or a command repeated without effect.
fn stuck(run: &Run) -> Option<Parts> {
    let (at, error) =
        run.steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, error_line(&step.observation)?)))?;
    let action = step_action(run, at);
    let mut lines = vec![format!(
        "{} came back with {} {} and the run never got past it.",
        quoted(action, CODE_BYTES)?,
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at)
    )];
    if let Some(last) = run.steps.len().checked_sub(1).filter(|last| *last != at) {
        lines.extend(
            quoted(step_action(run, last), CODE_BYTES)
                .map(|shown| format!("It ended with {shown} {}.", Side::Only.at(last))),
        );
    }
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("stuck at {}", piece(error, 90)?),
        when: String::new(),
        not_when: String::new(),
        lines,
        tags: Vec::new(),
    })
}

/// A success without a patch: its moves in order.
fn sequence(run: &Run) -> Option<Parts> {
    const SHOWN: usize = 6;
    let moves: Vec<(usize, &str)> = run
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| (at, step.action.trim()))
        .filter(|(_, action)| !action.is_empty())
        .collect();
    if moves.len() < 2 {
        return None;
    }
    let mut spans = Vec::new();
    for (at, action) in moves.iter().take(SHOWN - 1).chain(moves.iter().skip(SHOWN - 1).last()) {
        spans.push(format!("{} {}", quoted(action, CODE_BYTES)?, Side::Only.at(*at)));
    }
    let mut lines = vec![format!("Do in order: {}.", spans.join(", then "))];
    let thought =
        run.steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, piece(&step.think, SENTENCE_BYTES)?)));
    if let Some((at, thought)) = thought {
        lines.push(format!("The thought behind the end: `{thought}` {}.", Side::Only.at(at)));
    }
    Some(Parts {
        kind: LessonKind::Strategy,
        cause: format!("{} moves that solved it", moves.len()),
        when: String::new(),
        not_when: String::new(),
        lines,
        tags: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Step;

    #[test]
    fn a_patch_is_read_by_file_and_line() {
        let text = "diff --git a/x/a.py b/x/a.py\nindex 1..2 100644\n--- a/x/a.py\n+++ b/x/a.py\n@@ -1,3 +1,4 @@ def f():\n     keep\n-    old line\n+    new line\n+    more here\n+\n";
        let step = Step { observation: format!("noise\n{text}"), ..Step::default() };
        let run = Run { steps: vec![step], ..Run::default() };
        let (at, files) = patch(&run).unwrap();
        assert_eq!((at, files.len(), files[0].path), (0, 1, "x/a.py"));
        assert_eq!(files[0].changes, [(Some("    old line"), Some("    new line")), (None, Some("    more here"))]);
    }

    #[test]
    fn results_and_programs_are_named() {
        assert_eq!(result_line("Testing\nRan 12 tests in 0.1s\n\nOK\nDestroying test database"), Some("OK"));
        assert_eq!(program("python -m pytest tests/x.py"), "pytest");
        assert_eq!(program("bin/test a.py"), "bin/test");
        assert_eq!(program("python3 tests/runtests.py forms"), "tests/runtests.py");
    }
}
