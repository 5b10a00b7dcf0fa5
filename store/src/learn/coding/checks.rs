//! What a run checked and what it passed over: the evidence beside a patch.

use super::super::moves::{Work, error_line, is_path};
use super::super::quote::{Side, piece, quoted, sentences};
use super::super::tools::SENTENCE_BYTES;
use super::detour::MISSING;
use super::patch::{FilePatch, came_back_wrong, is_test, main_files};
use super::{CODE_BYTES, commands};
use crate::run::Run;

/// An edit of a source file that a later command took back, with what made the run give it up.
pub(crate) fn taken_back(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    let log = commands(run);
    let (undo_at, undo, _) =
        log.iter().rev().find(|(_, command, kind)| *kind == Work::Undo && !command.trim_start().starts_with("rm"))?;
    let words: Vec<&str> = undo.split_whitespace().filter(|word| is_path(word) && !is_test(word)).collect();
    let (edit_at, edit, _) = log.iter().rev().find(|(at, command, kind)| {
        at < undo_at && matches!(kind, Work::Edit(_)) && words.iter().any(|path| command.contains(path))
    })?;
    // Done again later, it was not given up.
    if log.iter().any(|(at, command, _)| at > undo_at && command == edit) {
        return None;
    }
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
pub(crate) fn left_failing(run: &Run, last_edit: usize) -> Option<String> {
    let log = commands(run);
    let (at, command, _) = log.iter().rev().find(|(at, command, kind)| {
        *at > last_edit
            && matches!(kind, Work::Test | Work::Run)
            && run.steps.get(*at).is_some_and(|step| fails(&step.observation) && !is_missing(&step.observation))
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

/// The check itself did not start, so it says nothing about the change.
fn is_missing(observation: &str) -> bool {
    error_line(observation).is_some_and(|line| MISSING.iter().any(|words| line.contains(words)))
}

fn fails(observation: &str) -> bool {
    came_back_wrong(observation)
        || result_line(observation).is_some_and(|line| line.contains("FAIL") || line.contains(" failed"))
}

/// Two commands that work on one file.
pub(crate) fn same_target(a: &str, b: &str) -> bool {
    a == b || a.split_whitespace().filter(|word| word.contains('/') || is_path(word)).any(|word| b.contains(word))
}

/// The last edit was handed in without running anything.
pub(crate) fn unchecked(run: &Run, last_edit: usize) -> Option<String> {
    let log = commands(run);
    let (at, edit, _) = log.iter().find(|(at, _, _)| *at == last_edit)?;
    // What is of no known kind may be a check too, and a chain of commands may end with one.
    let ran = log.iter().any(|(later, _, kind)| later > at && matches!(kind, Work::Test | Work::Run | Work::Other));
    if ran || edit.contains("&&") {
        return None;
    }
    Some(format!("Nothing was run after {} {}.", quoted(edit, CODE_BYTES)?, Side::Only.at(*at)))
}

/// A check that came after the change and showed no failure.
pub(crate) struct Check {
    at: usize,
    text: String,
    /// Whether what it printed says that it passed.
    passed: bool,
}

impl Check {
    /// The check in words, after `passed` when its output says that it passed, else after `ran`.
    pub(crate) fn told(&self, passed: &str, ran: &str) -> String {
        format!("{} {} {}", if self.passed { passed } else { ran }, self.text, Side::Only.at(self.at))
    }
}

/// The last check after an edit that did not fail. The project's own tests before what the run wrote itself, tests before
/// scripts.
pub(crate) fn proof(run: &Run, last_edit: usize) -> Option<Check> {
    const SAYS_PASSED: &[&str] = &["OK", "PASS", "SUCCESS", "passed", "test result: ok"];
    let log = commands(run);
    let own: Vec<&str> = log
        .iter()
        .filter_map(|(_, command, kind)| match kind {
            Work::Edit(Some(path)) if command.contains("<<") => Some(*path),
            _ => None,
        })
        .filter_map(|path| path.rsplit('/').next()?.split('.').next())
        .filter(|stem| stem.len() >= MIN_STEM_BYTES)
        .collect();
    let passed = |wanted: &dyn Fn(&str, &Work<'_>) -> bool| {
        log.iter().rev().find_map(|(at, command, kind)| {
            let observation = &run.steps.get(*at)?.observation;
            let line = result_line(observation)?;
            (*at > last_edit && wanted(command, kind) && !fails(observation)).then_some((*at, *command, line))
        })
    };
    let (at, command, line) =
        passed(&|command, kind| *kind == Work::Test && !own.iter().any(|stem| command.contains(stem)))
            .or_else(|| passed(&|_, kind| *kind == Work::Test))
            .or_else(|| passed(&|_, kind| *kind == Work::Run))?;
    Some(Check {
        at,
        text: format!("{} printed {}", quoted(command, CODE_BYTES)?, quoted(line, CODE_BYTES)?),
        passed: SAYS_PASSED.iter().any(|word| line.contains(word)),
    })
}

/// What a check printed before the first edit.
pub(crate) fn shown_before(run: &Run, first_edit: usize) -> Option<String> {
    let (at, command, line) = commands(run).into_iter().find_map(|(at, command, kind)| {
        let observation = &run.steps.get(at)?.observation;
        let line = result_line(observation)?;
        let is_check = matches!(kind, Work::Run | Work::Test) && !is_missing(observation);
        (at < first_edit && is_check).then_some((at, command, line))
    })?;
    Some(format!(
        "Before it, {} printed {} {}.",
        quoted(command, CODE_BYTES)?,
        quoted(line, CODE_BYTES)?,
        Side::Only.at(at)
    ))
}

/// The search that led to the change: before the first edit, without an error, and what it printed names the changed file,
/// or when the search was in that file already, shows a line that was changed.
pub(crate) fn found_by(run: &Run, files: &[FilePatch<'_>], first_edit: usize) -> Option<String> {
    const LOOKS_INSIDE: &[&str] = &["grep", "rg ", "ag ", "find ", "fd "];
    let main = main_files(files);
    let found = |command: &str, output: &str| {
        main.iter().any(|file| {
            if command.contains(file.path) {
                let removed = file.changes.iter().filter_map(|(old, _)| old.map(str::trim));
                removed.filter(|line| line.len() >= MIN_STEM_BYTES).any(|line| output.contains(line))
            } else {
                output.contains(file.path)
            }
        })
    };
    let (at, command, _) = commands(run).into_iter().find(|(at, command, kind)| {
        *kind == Work::Search
            && *at < first_edit
            && LOOKS_INSIDE.iter().any(|program| command.contains(program))
            && run
                .steps
                .get(*at)
                .is_some_and(|step| !came_back_wrong(&step.observation) && found(command, &step.observation))
    })?;
    Some(format!("Found by {} {}.", quoted(command, CODE_BYTES)?, Side::Only.at(at)))
}

/// Source files that were read and not changed.
pub(crate) fn left_alone(run: &Run, files: &[FilePatch<'_>]) -> Option<String> {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let log = commands(run);
    let edited = |path: &str| log.iter().any(|(_, other, kind)| matches!(kind, Work::Edit(_)) && other.contains(path));
    for (at, command, kind) in &log {
        let at = *at;
        let read = run.steps.get(at).is_some_and(|step| !came_back_wrong(&step.observation));
        if *kind != Work::View || !read {
            continue;
        }
        for word in command.split_whitespace().filter(|word| is_path(word) && word.contains('/') && !is_test(word)) {
            let word = word.trim_start_matches("./");
            if !files.iter().any(|file| file.path == word)
                && !edited(word)
                && !seen.iter().any(|(path, _)| *path == word)
            {
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
pub(crate) fn doubt(run: &Run, files: &[FilePatch<'_>], first_edit: usize) -> Option<String> {
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
    const SENTENCE: std::ops::RangeInclusive<usize> = 50..=260;
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    // Identifiers only: a word of the language would tie the doubt to nothing.
    let is_name =
        |word: &String| word.len() >= 6 && (word.contains('_') || word.chars().skip(1).any(char::is_uppercase));
    let changed = files.iter().flat_map(|file| &file.changes).flat_map(|(old, new)| [*old, *new]).flatten();
    let names: Vec<String> = changed.flat_map(words).filter(is_name).collect();
    for marker in DOUBTS {
        for (at, step) in run.steps.iter().enumerate().skip(first_edit.saturating_sub(1)) {
            let sentences = sentences(&step.think);
            for sentence in sentences.filter(|s| SENTENCE.contains(&s.len()) && s.to_lowercase().contains(marker)) {
                let shown = piece(sentence, SENTENCE_BYTES).filter(|shown| SENTENCE.contains(&shown.len()));
                if shown.is_some_and(|shown| words(shown).iter().any(|word| names.contains(word))) {
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
pub(crate) fn result_line(observation: &str) -> Option<&str> {
    const SUMS_UP: &[&str] =
        &["FAIL", "SUCCESS", "PASS", "passed", "failed", "OK", "Ran ", "tests finished", "Error", "test result"];
    let mut lines = observation
        .lines()
        .map(str::trim)
        .filter(|line| line.chars().any(char::is_alphanumeric) && !line.starts_with('<'));
    lines
        .clone()
        .rfind(|line| SUMS_UP.iter().any(|word| line.contains(word)) && !line.starts_with("Destroying"))
        .or_else(|| lines.next_back())
}

/// Bytes of a file's stem that is looked for in a command.
const MIN_STEM_BYTES: usize = 4;
/// Files shown as read and left alone.
const SHOWN_FILES: usize = 3;
