//! Reads a step's action: a tool call, a message, or a shell command of some kind.
//!
//! Everything here is a reading of text and may be wrong about an exotic command; then the command counts as
//! [`Work::Other`] and no lesson is built on it.

use crate::run::Step;
use serde_json::{Map, Value};

/// What an action is.
#[derive(Debug, Clone, PartialEq)]
pub enum Move<'a> {
    /// A tool call: `name {"argument":"value"}`.
    Call {
        /// The tool.
        name: &'a str,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// Words to the user: `respond: words`.
    Say(&'a str),
    /// A shell command, or an action in another notation such as `click('12')`.
    Command(&'a str),
    /// Nothing was done in this step.
    Nothing,
}

impl<'a> Move<'a> {
    /// Reads an action.
    #[must_use]
    pub fn of(action: &'a str) -> Self {
        let action = action.trim();
        if action.is_empty() {
            return Self::Nothing;
        }
        if let Some(words) = action.strip_prefix("respond:") {
            return Self::Say(words.trim());
        }
        if let Some((name, rest)) = action.split_once([' ', '{'])
            && is_tool_name(name)
            && rest.ends_with('}')
        {
            let arguments = action.get(name.len()..).map(str::trim).unwrap_or_default();
            if let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) {
                return Self::Call { name, arguments };
            }
        }
        Self::Command(action)
    }
}

fn is_tool_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 80
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/'))
}

/// What a tool call does to the world, told from the verb that its name begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It looks, computes or notes.
    Reads,
    /// It changes something.
    Writes,
    /// It gives the task to somebody else.
    HandsOff,
}

/// The effect of a tool of this name. A verb that is not known to read counts as a change, because a change that is
/// overlooked is the worse mistake.
#[must_use]
pub fn effect(tool: &str) -> Effect {
    const READS: &[&str] = &[
        "get",
        "list",
        "find",
        "search",
        "read",
        "view",
        "show",
        "look",
        "lookup",
        "check",
        "calculate",
        "compute",
        "think",
        "plan",
        "query",
        "fetch",
        "open",
        "browse",
        "count",
        "describe",
        "verify",
        "inspect",
        "log",
        "ask",
        "track",
        "estimate",
        "quote",
        "compare",
        "preview",
    ];
    const HANDS_OFF: &[&str] = &["transfer", "escalate", "handoff"];
    let last = tool.rsplit(['.', ':', '/']).next().unwrap_or(tool);
    let verb = last.split(['_', '-']).next().unwrap_or_default().to_ascii_lowercase();
    // A change to money is called "transfer" too.
    let to_people = ["human", "agent", "person", "operator", "support"].iter().any(|word| last.contains(word));
    match verb.as_str() {
        verb if READS.contains(&verb) => Effect::Reads,
        "escalate" | "handoff" => Effect::HandsOff,
        verb if HANDS_OFF.contains(&verb) && to_people => Effect::HandsOff,
        _ => Effect::Writes,
    }
}

/// The line of an observation that says something went wrong; `None` when nothing does.
///
/// A return code in front that is not zero, the first line beginning with an error word, or an exception's last line.
#[must_use]
pub fn error_line(observation: &str) -> Option<&str> {
    let text = observation.trim_start();
    let failed = return_code(text).is_some_and(|code| code != 0);
    let first = text.lines().next().unwrap_or_default();
    let lower = first.get(..first.len().min(24)).unwrap_or_default().to_ascii_lowercase();
    if lower.starts_with("error") || lower.starts_with("{\"error") || lower.starts_with("failed:") {
        return Some(first.trim());
    }
    let body = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('<'));
    let named = body.clone().rfind(|line| is_exception(line));
    if text.contains("Traceback (most recent call last)") || failed {
        return named
            .or_else(|| body.clone().rfind(|line| says_error(line)))
            .or_else(|| body.clone().next_back().filter(|_| failed));
    }
    body.clone().rfind(|line| line.contains("command not found") || line.contains("No module named"))
}

/// `ValueError: words`, `pkg.SomeException: words`, `error[E0308]: words`.
fn is_exception(line: &str) -> bool {
    let head = line.split([':', ' ']).next().unwrap_or_default();
    (head.ends_with("Error") || head.ends_with("Exception")) && head.chars().next().is_some_and(char::is_alphabetic)
        || line.starts_with("error[")
        || line.starts_with("error:")
}

fn says_error(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["error", "failed", "not found", "no such file", "cannot", "refused", "denied"].iter().any(|w| lower.contains(w))
}

/// The number between `<returncode>` tags at the front.
pub(super) fn return_code(observation: &str) -> Option<i64> {
    observation.strip_prefix("<returncode>")?.split_once('<')?.0.trim().parse().ok()
}

/// What a shell command works at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// Looks for files or words.
    Search,
    /// Reads a file.
    View,
    /// Changes a file that stays, or makes one.
    Edit(Option<&'a str>),
    /// Runs tests of the project.
    Test,
    /// Runs a program, most often a script of the agent's own.
    Run,
    /// Takes back an edit, or removes files.
    Undo,
    /// Hands in.
    Submit,
    /// Anything else.
    Other,
}

/// Reads what a command is for.
#[must_use]
pub fn work(command: &str) -> Work<'_> {
    const TESTS: &[&str] = &[
        "pytest",
        "runtests.py",
        "bin/test",
        "cargo test",
        "cargo nextest",
        "go test",
        "npm test",
        "npm run test",
        "tox",
        "unittest",
        "make test",
        "make check",
        "jest",
        "vitest",
        "ctest",
        "mvn test",
        "gradle test",
        "rspec",
        "phpunit",
        "manage.py test",
    ];
    let first = command.lines().next().unwrap_or_default().trim();
    // `cd x && real command`
    let first = match first.split_once("&&") {
        Some((cd, rest)) if cd.trim_start().starts_with("cd ") => rest.trim_start(),
        _ => first,
    };
    // `NAME=value command`
    let is_setting = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_tool_name(name));
    let program = first.split_whitespace().find(|word| !is_setting(word)).unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    if first.contains("COMPLETE_TASK_AND_SUBMIT") || program == "submit" {
        return Work::Submit;
    }
    if let Some(path) = heredoc_target(first) {
        return Work::Edit(Some(path));
    }
    let undo = ["git checkout", "git restore", "git reset", "git stash", "git revert"];
    if program == "rm" || undo.iter().any(|verb| first.starts_with(verb)) {
        return Work::Undo;
    }
    if matches!(program, "sed" | "perl") && first.split_whitespace().any(|word| word.starts_with("-i") || word == "-pi")
    {
        return Work::Edit(last_path(command));
    }
    if matches!(program, "patch" | "apply_patch" | "str_replace_editor" | "edit") || first.starts_with("git apply") {
        return Work::Edit(last_path(first));
    }
    if TESTS.iter().any(|test| first.contains(test))
        && !matches!(program, "grep" | "find" | "ls" | "cat" | "sed" | "pip")
    {
        return Work::Test;
    }
    match program {
        "grep" | "rg" | "find" | "ls" | "ag" | "fd" | "tree" => Work::Search,
        "cat" | "nl" | "head" | "tail" | "sed" | "less" | "awk" | "wc" => Work::View,
        "git" if first.starts_with("git diff") || first.starts_with("git log") || first.starts_with("git show") => {
            Work::View
        }
        "python" | "python3" | "node" | "ruby" | "bash" | "sh" | "cargo" | "go" | "npm" | "make" | "php" | "java" => {
            Work::Run
        }
        program if program.ends_with(".py") || program.ends_with(".sh") => Work::Run,
        _ => Work::Other,
    }
}

/// `cat <<'EOF' > path`, `cat > path <<EOF`, `tee path <<EOF`.
fn heredoc_target(line: &str) -> Option<&str> {
    if !line.contains("<<") {
        return None;
    }
    let after = line.split_once('>').filter(|(before, _)| !before.ends_with('<')).map(|(_, after)| after);
    let after = after.or_else(|| line.split_once("tee ").map(|(_, after)| after))?;
    after.trim_start_matches('>').split_whitespace().find(|word| !word.starts_with('<') && !word.starts_with('-'))
}

/// The last word of a command that looks like a path.
fn last_path(command: &str) -> Option<&str> {
    command.split_whitespace().rev().map(|word| word.trim_matches(['"', '\'', ';'])).find(|word| is_path(word))
}

/// Whether a word looks like a path to a source file: a dot with an extension of letters, and no odd characters.
#[must_use]
pub fn is_path(word: &str) -> bool {
    let Some((stem, extension)) = word.rsplit_once('.') else {
        return false;
    };
    !stem.is_empty()
        && (1..=5).contains(&extension.len())
        && extension.chars().all(|c| c.is_ascii_alphanumeric())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
}

/// Whether a step is a call that came back without an error.
#[must_use]
pub fn went_through(step: &Step) -> bool {
    error_line(&step.observation).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_apart() {
        assert!(matches!(Move::of("get_order {\"id\":\"#W1\"}"), Move::Call { name: "get_order", .. }));
        assert!(matches!(Move::of("get_order {}"), Move::Call { .. }));
        assert_eq!(Move::of("respond: hello {}"), Move::Say("hello {}"));
        assert_eq!(Move::of("click('12')"), Move::Command("click('12')"));
        assert!(matches!(Move::of("awk '{print $1}'"), Move::Command(_)));
        assert!(matches!(Move::of("echo {1}"), Move::Command(_)));
        assert_eq!(Move::of("  "), Move::Nothing);
    }

    #[test]
    fn effects_follow_the_verb() {
        assert_eq!(effect("get_user_details"), Effect::Reads);
        assert_eq!(effect("update_reservation_flights"), Effect::Writes);
        assert_eq!(effect("transfer_to_human_agents"), Effect::HandsOff);
        assert_eq!(effect("transfer_funds"), Effect::Writes);
        assert_eq!(effect("shop.cancel_order"), Effect::Writes);
    }

    #[test]
    fn the_line_that_says_what_went_wrong_is_found() {
        assert_eq!(error_line("Error: payment does not add up\nmore"), Some("Error: payment does not add up"));
        assert_eq!(error_line("fine"), None);
        assert_eq!(error_line("{\"status\": \"no error\"}"), None);
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: bad\n";
        assert_eq!(error_line(trace), Some("ValueError: bad"));
        let shell = "<returncode>127</returncode>\n<output>\nbash: line 1: pytest: command not found\n</output>";
        assert_eq!(error_line(shell), Some("bash: line 1: pytest: command not found"));
        assert_eq!(error_line("<returncode>1</returncode>\n<output>\n</output>"), None);
        // The words of a source file that is only shown are no error.
        assert_eq!(error_line("class ValueError:\n    raise TypeError"), None);
    }

    #[test]
    fn commands_are_sorted_by_purpose() {
        assert_eq!(work("sed -n '1,5p' a/b.py"), Work::View);
        assert_eq!(work("sed -i 's/a/b/' a/b.py"), Work::Edit(Some("a/b.py")));
        assert_eq!(work("cat <<'EOF' > repro.py\nprint(1)\nEOF"), Work::Edit(Some("repro.py")));
        assert_eq!(work("cat >> tests/a.py <<EOF\nx\nEOF"), Work::Edit(Some("tests/a.py")));
        assert_eq!(work("cat a.py | grep x"), Work::View);
        assert_eq!(work("python -m pytest tests/x.py"), Work::Test);
        assert_eq!(work("cd sub && python3 tests/runtests.py forms"), Work::Test);
        assert_eq!(work("grep -rn pytest ."), Work::Search);
        assert_eq!(work("python repro.py"), Work::Run);
        assert_eq!(work("PYTHONPATH=. python repro.py"), Work::Run);
        assert_eq!(work("git checkout a.py"), Work::Undo);
        assert_eq!(work("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A"), Work::Submit);
    }
}
