//! A tool that is missing on the machine, and what did the same work.

use super::super::draft::Parts;
use super::super::moves::{Work, error_line, is_path};
use super::super::quote::{Side, quoted};
use super::checks::same_target;
use super::{CODE_BYTES, commands};
use crate::run::{Run, shorten};
use folklore_protocol::lesson::LessonKind;

/// What an error says when the tool itself is not there or does not start.
pub(crate) const MISSING: &[&str] = &[
    "command not found",
    "No module named",
    "unrecognized arguments",
    "unknown option",
    "no such option",
    "ImproperlyConfigured",
    "is not recognized",
];

/// What an error says when a program or module is absent, with its name.
const ABSENT: &[&str] = &["command not found", "No module named", "is not recognized"];

/// How many steps after an error its way round is looked for.
const DETOUR_STEPS: usize = 10;

/// A program that is missing or does not start here, and the command that did the same work later.
///
/// It is a strategy whatever became of the run: that the one tool runs here and the other does not is true either way, and
/// runs of any outcome then teach one lesson instead of two of one title.
pub(crate) fn detour(run: &Run) -> Option<Parts> {
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
    let (this, other) = (program(command), program(later));
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
    let absent = ABSENT.iter().any(|words| error.contains(words)) && error.contains(this);
    let (when, not_when) = if absent {
        (format!("Where {this} is not installed."), format!("Where {this} is there."))
    } else {
        (format!("Where {this} gives: {}", shorten(error, 120)), format!("Where {this} does not give that error."))
    };
    Some(Parts {
        kind: LessonKind::Strategy,
        cause: format!("run {other}, not {this}"),
        about: Some(match run.tags.first() {
            Some(project) => format!("Running the tests or scripts of {project}"),
            None => "Running the project's tests or scripts".to_owned(),
        }),
        when,
        not_when,
        lines,
        tags: vec![other.to_owned()],
    })
}

/// The program a command starts; for an interpreter with `-m`, the module.
pub(crate) fn program(command: &str) -> &str {
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
