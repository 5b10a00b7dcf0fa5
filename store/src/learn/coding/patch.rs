//! The patch a run handed in: files and changed lines.

use super::super::moves::{Work, error_line, is_path, return_code};
use super::super::quote::{Side, quoted};
use super::{CODE_BYTES, commands};
use crate::run::Run;

/// Changed places of a patch that are shown.
const SHOWN_CHANGES: usize = 3;
/// Commands shown as having made a patch.
const SHOWN_EDITS: usize = 3;

/// One file of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch<'a> {
    pub(crate) path: &'a str,
    /// Pairs of a removed and an added line; either may be missing.
    pub(crate) changes: Vec<(Option<&'a str>, Option<&'a str>)>,
}

/// The patch a run handed in, and the step whose observation shows it.
pub(crate) fn patch(run: &Run) -> Option<(usize, Vec<FilePatch<'_>>)> {
    let (at, text) = run.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let text = step.observation.as_str();
        // Somebody else's change is no patch of this run.
        if ["git show", "git log", "git stash show"].iter().any(|past| step.action.contains(past)) {
            return None;
        }
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
        // A line that is on both sides only moved: pairing it with another would tell of a change that was none.
        let kept: Vec<&str> = removed.iter().map(|line| line.trim()).collect();
        let both = |line: &&str| kept.contains(&line.trim());
        let moved: Vec<&str> = added.iter().copied().filter(both).map(str::trim).collect();
        removed.retain(|line| !moved.contains(&line.trim()));
        added.retain(|line| !moved.contains(&line.trim()));
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

/// `in path, old became new` for the first changes of a patch.
pub(crate) fn changes(files: &[FilePatch<'_>]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let (mut count, mut left) = (0, 0);
    // Tests beside the change are not what was asked for.
    for file in main_files(files) {
        let mut told: Vec<String> = Vec::new();
        for (old, new) in &file.changes {
            let old = old.and_then(|line| quoted(line, CODE_BYTES));
            let new = new.and_then(|line| quoted(line, CODE_BYTES));
            let text = match (old, new) {
                (Some(old), Some(new)) => format!("{old} became {new}"),
                (Some(old), None) => format!("{old} was removed"),
                (None, Some(new)) => format!("{new} was added"),
                (None, None) => continue,
            };
            if told.contains(&text) {
                continue;
            }
            if count < SHOWN_CHANGES {
                count += 1;
                told.push(text);
            } else {
                left += 1;
            }
        }
        if !told.is_empty() {
            out.push(format!("in `{}`, {}", file.path, told.join(" and ")));
        }
    }
    if let (Some(last), true) = (out.last_mut(), left > 0) {
        *last += &format!(" and {left} more changed {}", if left == 1 { "line" } else { "lines" });
    }
    out
}

pub(crate) fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| matches!(part, "test" | "tests" | "testing" | "spec"))
        || name.starts_with("test_")
        || name.contains("_test.")
}

/// The files that were asked for: the sources of a patch, or its tests when there is nothing else.
pub(crate) fn main_files<'p, 'a>(files: &'p [FilePatch<'a>]) -> Vec<&'p FilePatch<'a>> {
    let (tests, sources): (Vec<_>, Vec<_>) = files.iter().partition(|file| is_test(file.path));
    if sources.is_empty() { tests } else { sources }
}

/// The steps that made a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edits<'a> {
    /// Edits of the patch's files that were not taken back: step and command.
    pub(crate) kept: Vec<(usize, &'a str)>,
    /// The first edit of one of these files, taken back or not.
    pub(crate) first: Option<usize>,
}

impl Edits<'_> {
    /// The last edit; `None` when no step is known to have made the patch. Then nothing is known to come before or after.
    pub(crate) fn last(&self) -> Option<usize> {
        self.kept.last().map(|(at, _)| *at)
    }
}

/// Finds the steps that made a patch: editors and here-documents that name one of its files, and scripts that write to one,
/// at the step that ran them. An edit that came back with an error changed nothing.
pub(crate) fn edits<'a>(run: &'a Run, files: &[FilePatch<'_>]) -> Edits<'a> {
    let paths: Vec<&str> = main_files(files).iter().map(|file| file.path).collect();
    let names = |text: &str| paths.iter().any(|path| text.contains(path));
    let is_one = |target: &str| paths.iter().any(|path| same_file(path, target));
    let writes = |text: &str| ["write", "sed -i", "'w'", "\"w\""].iter().any(|word| text.contains(word));
    let mut found = Edits::default();
    let mut scripts: Vec<&str> = Vec::new();
    for (at, command, kind) in commands(run) {
        if kind == Work::Undo {
            let words: Vec<&str> = command.split_whitespace().collect();
            let all = words.contains(&".") || words.contains(&"--hard");
            found.kept.retain(|(_, edit)| !all && !words.iter().any(|word| is_path(word) && edit.contains(word)));
            continue;
        }
        let is_edit = match kind {
            Work::Edit(Some(target)) if command.contains("<<") => {
                if !is_one(target) && names(command) && writes(command) {
                    scripts.push(target);
                }
                is_one(target)
            }
            Work::Edit(_) => names(command),
            Work::Run | Work::Other => {
                let runs_script =
                    command.split_whitespace().any(|word| scripts.iter().any(|file| same_file(word, file)));
                runs_script || names(command) && writes(command)
            }
            _ => false,
        };
        let went_wrong = run.steps.get(at).is_none_or(|step| came_back_wrong(&step.observation));
        if is_edit && !went_wrong {
            found.first.get_or_insert(at);
            found.kept.push((at, command));
        }
    }
    found
}

/// Two spellings of one path: one ends with the other.
fn same_file(a: &str, b: &str) -> bool {
    let ends =
        |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let (a, b) = (a.trim_start_matches("./"), b.trim_start_matches("./"));
    !a.is_empty() && !b.is_empty() && (ends(a, b) || ends(b, a))
}

/// Whether an observation shows an error or a return code other than 0.
pub(crate) fn came_back_wrong(observation: &str) -> bool {
    error_line(observation).is_some() || return_code(observation.trim_start()).is_some_and(|code| code != 0)
}

/// What was changed and where that stands: at the step that made the change when its command shows the lines, else in the
/// diff, with the commands that made it behind.
pub(crate) fn told_change(
    run: &Run,
    at: usize,
    files: &[FilePatch<'_>],
    edits: &Edits<'_>,
    side: Side,
) -> Option<String> {
    let shown = changes(files);
    if shown.is_empty() {
        return None;
    }
    let shown = shown.join("; ");
    if let [(step, command)] = edits.kept.as_slice()
        && shown.split('`').skip(1).step_by(2).all(|span| command.contains(span))
    {
        return Some(format!("{shown} {}", side.at(*step)));
    }
    let is_last = edits.last().is_none_or(|last| last <= at);
    let which = if is_last && at + 1 >= run.steps.len().saturating_sub(1) { "final" } else { "last" };
    let mut commands = Vec::new();
    // The first ones and the last: what lies between changed the same files again.
    let shown_edits = edits.kept.len().min(SHOWN_EDITS);
    let (head, tail) = edits.kept.split_at(shown_edits.saturating_sub(1));
    for (step, command) in head.iter().chain(tail.last()) {
        commands.push(format!("{} {}", quoted(command, CODE_BYTES)?, side.at(*step)));
    }
    let made = if commands.is_empty() { String::new() } else { format!("; edited by {}", commands.join(", then ")) };
    Some(format!("{shown}, shown by the {which} diff {}{made}", side.at(at)))
}
