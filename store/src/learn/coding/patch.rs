//! The patch a run handed in: files and changed lines.

use super::super::moves::Work;
use super::super::quote::quoted;
use super::{CODE_BYTES, commands};
use crate::run::Run;

/// Changed places of a patch that are shown.
const SHOWN_CHANGES: usize = 3;

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

/// `in path, old became new` for the first changes of a patch. The pointer to the patch's step is added by the caller.
pub(crate) fn changes(files: &[FilePatch<'_>]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut count = 0;
    // Tests beside the change are not what was asked for.
    let (tests, sources): (Vec<_>, Vec<_>) = files.iter().partition(|file| is_test(file.path));
    for file in if sources.is_empty() { tests } else { sources } {
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
            if count < SHOWN_CHANGES && !told.contains(&text) {
                count += 1;
                told.push(text);
            }
        }
        if !told.is_empty() {
            out.push(format!("in `{}`, {}", file.path, told.join(" and ")));
        }
    }
    out
}

pub(crate) fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| matches!(part, "test" | "tests" | "testing" | "spec"))
        || name.starts_with("test_")
        || name.contains("_test.")
}

pub(crate) fn touches(command: &str, files: &[FilePatch<'_>]) -> bool {
    files.iter().any(|file| command.contains(file.path))
}

pub(crate) fn first_edit(run: &Run, files: &[FilePatch<'_>]) -> usize {
    let edits =
        commands(run).into_iter().find(|(_, command, kind)| matches!(kind, Work::Edit(_)) && touches(command, files));
    edits.map_or(run.steps.len(), |(at, _, _)| at)
}

pub(crate) fn last_edit(run: &Run, files: &[FilePatch<'_>]) -> usize {
    let edits = commands(run)
        .into_iter()
        .rev()
        .find(|(_, command, kind)| matches!(kind, Work::Edit(_)) && touches(command, files));
    edits.map_or(0, |(at, _, _)| at)
}
