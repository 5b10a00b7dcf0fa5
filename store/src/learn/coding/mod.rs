//! Lessons from runs made of shell commands.
//!
//! Such runs end with a patch. What a pitfall blames: the patch that was handed in, quoted line by line, because that is
//! what was judged. Its evidence, in this order: what the judge said; an edit the run made earlier and took back (the
//! direction it gave up); a test or script that still failed after the last edit; that nothing was run after it; checks
//! that passed all the same and so prove nothing here; files that were read and left as they were. A doubt in the agent's
//! own words about something it changed is quoted too.
//!
//! Where a change was made is the step that edited the file. A diff only shows it: it comes last, and a check cited beside it
//! would seem to come before the change. Where no step is known to have made the change, nothing is said of before and after.
//!
//! A tool that is missing on the machine and what worked in its place is a lesson of its own, from a success or a failure.

mod checks;
mod detour;
mod patch;

pub(super) use checks::result_line;
pub(super) use patch::{FilePatch, changes, edits, main_files, patch, told_change};

use super::draft::Parts;
use super::moves::{Move, Work, error_line, work};
use super::quote::{Side, piece, quoted};
use super::tools::SENTENCE_BYTES;
use crate::run::Run;
use checks::{doubt, found_by, left_alone, left_failing, proof, shown_before, taken_back, unchecked};
use detour::detour;
use folklore_protocol::lesson::LessonKind;

/// Bytes of a quoted line of code or command.
const CODE_BYTES: usize = 140;

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
    main.into_iter().chain(detour(run)).collect()
}

fn pitfall(run: &Run, at: usize, files: &[FilePatch<'_>]) -> Option<Parts> {
    let edits = edits(run, files);
    let change = told_change(run, at, files, &edits, Side::Only)?;
    let mut lines = vec![format!("Not enough: {change}; the judge found the task unsolved.")];
    lines.extend(judge_said(run));
    lines.extend(taken_back(run, files));
    // What came after the change is only known when the step that made it is.
    if let Some(last) = edits.last() {
        lines.extend(left_failing(run, last));
        lines.extend(unchecked(run, last));
        if let Some(check) = proof(run, last) {
            lines.push(format!("{}, so look beyond that check.", check.told("It passed all the same:", "After it,")));
        }
    }
    lines.extend(left_alone(run, files));
    lines.extend(edits.first.and_then(|first| doubt(run, files, first)));
    let path = main_path(files);
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("a change to {path} that was not enough"),
        about: None,
        when: files_in_play(files),
        not_when: format!("Where {path} looks different, or the fault lies elsewhere."),
        lines,
        tags: Vec::new(),
    })
}

fn strategy(run: &Run, at: usize, files: &[FilePatch<'_>]) -> Option<Parts> {
    let edits = edits(run, files);
    let mut lines = vec![format!("Do: {}.", told_change(run, at, files, &edits, Side::Only)?)];
    lines.extend(edits.first.and_then(|first| found_by(run, files, first)));
    lines.extend(edits.first.and_then(|first| shown_before(run, first)));
    if let Some(check) = edits.last().and_then(|last| proof(run, last)) {
        lines.push(format!("{}.", check.told("Proof:", "After it,")));
    }
    let path = main_path(files);
    Some(Parts {
        kind: LessonKind::Strategy,
        cause: format!("a change to {path} solved it"),
        about: None,
        when: files_in_play(files),
        not_when: format!("Where {path} looks different."),
        lines,
        tags: Vec::new(),
    })
}

/// The file that a lesson is named after.
fn main_path<'a>(files: &[FilePatch<'a>]) -> &'a str {
    main_files(files).first().map_or("", |file| file.path)
}

fn files_in_play(files: &[FilePatch<'_>]) -> String {
    const SHOWN: usize = 3;
    format!("Files: {}.", files.iter().map(|file| file.path).take(SHOWN).collect::<Vec<_>>().join(", "))
}

/// What the judge gave as its reason.
fn judge_said(run: &Run) -> Option<String> {
    let reason = run.outcome.reason.as_deref()?;
    Some(format!("The judge said {} [judge].", quoted(reason, SENTENCE_BYTES)?))
}

/// A failure without a patch: the last error, or a command repeated without effect.
fn stuck(run: &Run) -> Option<Parts> {
    let (at, error) =
        run.steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, error_line(&step.observation)?)))?;
    let action = step_action(run, at);
    // A step without an error afterwards may be the way past it, so nothing is claimed.
    let never_past = at + 1 == run.steps.len();
    let mut lines = vec![format!(
        "{} came back with {} {}{}.",
        quoted(action, CODE_BYTES)?,
        quoted(error, SENTENCE_BYTES)?,
        Side::Only.at(at),
        if never_past { " and the run never got past it" } else { ", the last error of the run" }
    )];
    if let Some(last) = run.steps.len().checked_sub(1).filter(|last| *last != at) {
        lines.extend(
            quoted(step_action(run, last), CODE_BYTES)
                .map(|shown| format!("It ended with {shown} {}.", Side::Only.at(last))),
        );
    }
    Some(Parts {
        kind: LessonKind::Pitfall,
        cause: format!("{} {}", if never_past { "stuck at" } else { "unsolved after" }, piece(error, 90)?),
        about: None,
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
        about: None,
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
        assert_eq!(detour::program("python -m pytest tests/x.py"), "pytest");
        assert_eq!(detour::program("bin/test a.py"), "bin/test");
        assert_eq!(detour::program("python3 tests/runtests.py forms"), "tests/runtests.py");
    }
}
