//! Quotes: verbatim pieces of a run with a pointer to the step they stand in, and the check that they do.
//!
//! In a lesson's content every line carries at least one pointer: `[step 4]`, in a contrast `[ok step 4]` or
//! `[failed step 2]`, else `[judge]` for what the judge said or expected and `[task]` for the task's own words. A
//! backquoted piece belongs to the next pointer on its line and is found there letter for letter. Steps are counted
//! from 1.

use crate::run::{Run, Step};
use serde_json::Value;

/// Which run of a contrast a pointer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The only run of a lesson drawn from one run.
    Only,
    /// The run that succeeded.
    Ok,
    /// The run that failed.
    Failed,
}

impl Side {
    /// The pointer to a step, given its index.
    #[must_use]
    pub fn at(self, index: usize) -> String {
        let n = index + 1;
        match self {
            Self::Only => format!("[step {n}]"),
            Self::Ok => format!("[ok step {n}]"),
            Self::Failed => format!("[failed step {n}]"),
        }
    }
}

/// A piece of `text` fit for a quote: from one line, without backquotes, at most `max` bytes, cut after a word where
/// one ends near. `None` when nothing is left.
#[must_use]
pub fn piece(text: &str, max: usize) -> Option<&str> {
    let line = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric))?;
    // The longest part between backquotes: code in a sentence is quoted by itself or not at all.
    let part = line.split('`').map(str::trim).max_by_key(|part| part.len())?;
    if part.len() <= max {
        return Some(part).filter(|part| !part.is_empty());
    }
    let mut end = max;
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    let cut = part.get(..end)?;
    let word = cut.rfind([' ', ',']).filter(|&word| word * 2 >= end).unwrap_or(end);
    cut.get(..word).map(str::trim_end).filter(|part| !part.is_empty())
}

/// The sentences of a text, line by line. A full stop ends one only before white space: `62.50` and `a.py` are whole.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.lines().flat_map(|line| {
        let mut rest = line.trim();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            // The first, without looking at the others: a line may be a whole step long.
            let mut ends = rest.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
            let end = ends.find(|end| rest[*end..].chars().next().is_none_or(char::is_whitespace));
            let (sentence, behind) = rest.split_at(end.unwrap_or(rest.len()));
            rest = behind.trim_start();
            Some(sentence)
        })
    })
}

/// [`piece`] in backquotes, with a mark outside them when it was cut.
#[must_use]
pub fn quoted(text: &str, max: usize) -> Option<String> {
    let shown = piece(text, max)?;
    let whole = text.trim();
    Some(if shown.len() == whole.len() { format!("`{shown}`") } else { format!("`{shown}`…") })
}

/// `"name":value` as it stands in a call's compact JSON; `None` when the action does not show it.
#[must_use]
pub fn argument(action: &str, name: &str, value: &Value, max: usize) -> Option<String> {
    let whole = format!("{}:{value}", Value::from(name));
    if !action.contains(&whole) {
        return None;
    }
    quoted(&whole, max)
}

/// What every quote in a lesson is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The run, or for a contrast the one that succeeded.
    pub first: &'a Run,
    /// For a contrast, the run that failed.
    pub second: Option<&'a Run>,
}

/// Checks that every line points somewhere and that every quote stands where its line says; the error names the first
/// that does not. A lesson that fails here is not made.
pub fn check(content: &str, sources: Sources<'_>) -> Result<(), String> {
    for line in content.lines().filter(|line| !line.trim().is_empty()) {
        let mut waiting: Vec<&str> = Vec::new();
        let mut supported = false;
        let mut rest = line;
        while let Some(at) = rest.find(['`', '[']) {
            let after = rest.get(at + 1..).unwrap_or_default();
            if rest[at..].starts_with('`') {
                let (span, behind) = after.split_once('`').ok_or_else(|| format!("an open quote in {line:?}"))?;
                waiting.push(span);
                rest = behind;
                continue;
            }
            rest = after;
            let Some((inside, behind)) = after.split_once(']') else { continue };
            let Some(found) = lookup(inside, sources) else { continue };
            rest = behind;
            for span in waiting.drain(..) {
                if span.is_empty() || !found(span) {
                    return Err(format!("{span:?} does not stand at [{inside}]"));
                }
                supported = true;
            }
        }
        if !waiting.is_empty() || !supported {
            return Err(format!("no pointer for {line:?}"));
        }
    }
    Ok(())
}

/// Whether a span stands at one place.
type Finder<'a> = Box<dyn Fn(&str) -> bool + 'a>;

/// How to look for a span at a pointer; `None` when the text is no pointer or points nowhere.
fn lookup<'a>(pointer: &str, sources: Sources<'a>) -> Option<Finder<'a>> {
    let judged = sources.second.unwrap_or(sources.first);
    match pointer {
        "task" => return Some(Box::new(move |span| judged.task.contains(span))),
        "judge" => {
            let outcome = &judged.outcome;
            return Some(Box::new(move |span| {
                let expected = outcome.expected.iter().flatten();
                expected.chain(&outcome.missing_answers).chain(&outcome.reason).any(|text| text.contains(span))
            }));
        }
        _ => {}
    }
    let (run, number) = match (pointer.strip_prefix("ok step "), pointer.strip_prefix("failed step ")) {
        (Some(number), _) => (sources.first, number),
        (_, Some(number)) => (sources.second?, number),
        _ if sources.second.is_none() => (sources.first, pointer.strip_prefix("step ")?),
        _ => return None,
    };
    let step: &Step = run.steps.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    Some(Box::new(move |span| [&step.think, &step.action, &step.observation].iter().any(|text| text.contains(span))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run() -> Run {
        let step = Step { think: "why".into(), action: "get {\"a\":1}".into(), observation: "two\nlines".into() };
        Run {
            task: "a task".into(),
            steps: vec![step.clone(), Step { action: "end".into(), ..step }],
            ..Run::default()
        }
    }

    #[test]
    fn a_planted_wrong_quote_is_caught() {
        let run = run();
        let sources = Sources { first: &run, second: None };
        let good = "First `get` with `\"a\":1` [step 1], then `end` [step 2].\nIt was `a task` [task].";
        assert_eq!(check(good, sources), Ok(()));
        for bad in [
            "First `put` [step 1].",
            "First `get` [step 2].",
            "First `get` [step 3].",
            "First `get` [step 0].",
            "First `get`.",
            "No quote at all [step 1].",
            "First `get` [step 1], then `end`.",
            "First `get [step 1].",
            "First `get` [ok step 1] is good, `end` [failed step 1].",
            "The judge said `get` [judge].",
            "good `get` [step 1]\nbad",
        ] {
            assert!(check(bad, sources).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_contrast_points_into_both_runs() {
        let (ok, mut failed) = (run(), run());
        failed.steps[0].action = "skip".into();
        failed.outcome.expected = Some(vec!["get {\"a\":1}".into()]);
        let sources = Sources { first: &ok, second: Some(&failed) };
        assert_eq!(check("`get` [ok step 1] but `skip` [failed step 1], not `get` [judge]", sources), Ok(()));
        assert!(check("`skip` [ok step 1]", sources).is_err());
        assert!(check("`get` [step 1]", sources).is_err());
    }

    #[test]
    fn pieces_are_one_line_without_backquotes() {
        assert_eq!(piece("\n  --\n the `short` rest of it \nmore", 100), Some("rest of it"));
        assert_eq!(piece("one two three four", 12), Some("one two"));
        assert_eq!(quoted("one two three four", 12).as_deref(), Some("`one two`…"));
        assert_eq!(piece(" \n--", 9), None);
        assert_eq!(argument("f {\"a\":\"x\",\"b\":2}", "b", &Value::from(2), 50).as_deref(), Some("`\"b\":2`"));
        assert_eq!(argument("f {\"a\":\"x\"}", "b", &Value::from(2), 50), None);
    }

    #[test]
    fn a_sentence_keeps_its_numbers_and_paths_whole() {
        let found: Vec<&str> = sentences("It was 62.50 in a.py. Was it?\n - Yes!").collect();
        assert_eq!(found, ["It was 62.50 in a.py.", "Was it?", "- Yes!"]);
    }

    proptest! {
        #[test]
        fn a_piece_always_stands_in_its_text(text in "(?s).{0,200}", max in 1_usize..80) {
            if let Some(found) = piece(&text, max) {
                prop_assert!(text.contains(found) && found.len() <= max && !found.contains(['`', '\n']));
            }
        }
    }
}
