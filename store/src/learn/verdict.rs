//! Compares what a run did with what its judge expected.
//!
//! Only calls that change something count: benchmarks of this kind judge by the state that is left behind, so another
//! way of looking things up is no fault. A call that came back with an error changed nothing. Equal calls are paired
//! first; then calls of one tool by how many arguments agree; what is left over was missing or not expected.

use super::moves::{Effect, Move, effect, went_through};
use crate::run::{Run, RunStatus, shorten};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Bytes of one call that are written out in a judge's reason.
const SHOWN_CALL_BYTES: usize = 240;
/// Bytes of one argument's value that are written out.
const SHOWN_VALUE_BYTES: usize = 120;

/// One argument that was not what the judge expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The argument's name.
    pub argument: String,
    /// What the run passed; `None` when it left it out.
    pub made: Option<Value>,
    /// What the judge expected; `None` when it was not to be passed.
    pub wanted: Option<Value>,
}

/// What sets a run apart from its judge's reference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Changes the judge expected and the run never made, as indices into the expected moves.
    pub missing: Vec<usize>,
    /// Steps that changed what was not to be changed, as indices into the steps.
    pub unexpected: Vec<usize>,
    /// Steps that used the expected tool with other arguments: step, expected move, arguments that differ.
    pub changed: Vec<(usize, usize, Vec<Difference>)>,
    /// Whether the judge expected any change at all.
    pub expects_change: bool,
}

impl Comparison {
    /// Whether the run left behind what the judge expected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.changed.is_empty()
    }
}

/// Compares a run with its judge's expected moves; `None` when the label has none.
#[must_use]
pub fn compare(run: &Run) -> Option<Comparison> {
    let expected = run.outcome.expected.as_ref()?;
    let mut wanted: Vec<(usize, &str, Map<String, Value>)> = writes(expected.iter().map(String::as_str)).collect();
    let mut made: Vec<(usize, &str, Map<String, Value>)> = writes(run.steps.iter().map(|step| step.action.as_str()))
        .filter(|(at, _, _)| run.steps.get(*at).is_some_and(went_through))
        .collect();
    let mut found = Comparison { expects_change: !wanted.is_empty(), ..Comparison::default() };
    made.retain(|(_, name, arguments)| {
        let twin =
            wanted.iter().position(|(_, other, wants)| other == name && differences(arguments, wants).is_empty());
        twin.map(|at| wanted.remove(at)).is_none()
    });
    for (step, name, arguments) in made {
        // The expected call of this tool that agrees in most arguments; the earliest among equals.
        let nearest = wanted
            .iter()
            .enumerate()
            .filter(|(_, (_, other, _))| *other == name)
            .min_by_key(|(_, (_, _, wants))| differences(&arguments, wants).len())
            .map(|(at, _)| at);
        match nearest {
            Some(at) => {
                let (index, _, wants) = wanted.remove(at);
                found.changed.push((step, index, differences(&arguments, &wants)));
            }
            None => found.unexpected.push(step),
        }
    }
    found.missing = wanted.into_iter().map(|(index, _, _)| index).collect();
    Some(found)
}

/// The calls among actions that change something.
fn writes<'a>(actions: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (usize, &'a str, Map<String, Value>)> {
    actions.enumerate().filter_map(|(at, action)| match Move::of(action) {
        Move::Call { name, arguments } if effect(name) == Effect::Writes => Some((at, name, arguments)),
        _ => None,
    })
}

/// Arguments in which two calls differ, by name.
pub(super) fn differences(made: &Map<String, Value>, wanted: &Map<String, Value>) -> Vec<Difference> {
    let mut names: Vec<&String> = made.keys().chain(wanted.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names.into_iter().filter(|name| match (made.get(*name), wanted.get(*name)) {
        (Some(a), Some(b)) => !same(a, b),
        _ => true,
    });
    differ
        .map(|name| Difference {
            argument: name.clone(),
            made: made.get(name).cloned(),
            wanted: wanted.get(name).cloned(),
        })
        .collect()
}

/// Equal but for how a number is written and in which order a list is.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            let mut rest: Vec<&Value> = b.iter().collect();
            a.len() == b.len()
                && a.iter()
                    .all(|item| rest.iter().position(|other| same(item, other)).map(|at| rest.remove(at)).is_some())
        }
        (Value::Object(a), Value::Object(b)) => differences(a, b).is_empty(),
        (a, b) => a == b,
    }
}

/// Writes the judge's reason into a failed run whose label has none, from what the judge expected. Runs that were not
/// judged to have failed, or that bring a reason, are left as they are.
pub fn explain_verdict(run: &mut Run) {
    let failed = matches!(run.outcome.status, RunStatus::Failure | RunStatus::Partial);
    if !failed || run.outcome.reason.is_some() {
        return;
    }
    let mut reason = String::new();
    if let Some(found) = compare(run) {
        let expected = run.outcome.expected.as_deref().unwrap_or_default();
        let call = |text: &str| shorten(text, SHOWN_CALL_BYTES);
        for &index in &found.missing {
            if let Some(text) = expected.get(index) {
                let _ = write!(reason, "the judge expected {} and the run never made it; ", call(text));
            }
        }
        for (step, index, differ) in &found.changed {
            let tool = expected.get(*index).and_then(|text| text.split(' ').next()).unwrap_or_default();
            let differ: Vec<String> = differ.iter().map(describe).collect();
            let _ = write!(reason, "step {} made {tool} with {}; ", step + 1, differ.join(", "));
        }
        for &step in &found.unexpected {
            if let Some(taken) = run.steps.get(step) {
                let _ =
                    write!(reason, "step {} made {} that the judge did not expect; ", step + 1, call(&taken.action));
            }
        }
        if !found.expects_change && !found.unexpected.is_empty() {
            reason.push_str("nothing was to be changed; ");
        }
    }
    for answer in &run.outcome.missing_answers {
        let _ = write!(reason, "the answer never said {answer}; ");
    }
    let reason = reason.trim_end_matches("; ");
    if !reason.is_empty() {
        run.outcome.reason = Some(reason.to_owned());
        run.tidy();
    }
}

fn describe(difference: &Difference) -> String {
    let value = |value: &Value| shorten(&value.to_string(), SHOWN_VALUE_BYTES);
    let name = &difference.argument;
    match (&difference.made, &difference.wanted) {
        (Some(made), Some(wanted)) => format!("{name} {} where {} was expected", value(made), value(wanted)),
        (Some(made), None) => format!("{name} {} where none was expected", value(made)),
        (None, Some(wanted)) => format!("no {name} where {} was expected", value(wanted)),
        (None, None) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOutcome, Step};

    fn run(actions: &[(&str, &str)], expected: &[&str]) -> Run {
        let step = |(action, observation): &(&str, &str)| Step {
            action: (*action).into(),
            observation: (*observation).into(),
            ..Step::default()
        };
        Run {
            steps: actions.iter().map(step).collect(),
            outcome: RunOutcome {
                status: RunStatus::Failure,
                expected: Some(expected.iter().map(|text| (*text).to_owned()).collect()),
                ..RunOutcome::default()
            },
            ..Run::default()
        }
    }

    #[test]
    fn reads_failed_calls_and_list_order_are_no_difference() {
        let run = run(
            &[
                ("get_order {\"id\":1}", "{}"),
                ("return_items {\"ids\":[\"a\",\"b\"]}", "Error: not delivered"),
                ("return_items {\"ids\":[\"b\",\"a\"],\"fee\":2}", "{}"),
            ],
            &["list_orders {}", "return_items {\"fee\":2.0,\"ids\":[\"a\",\"b\"]}"],
        );
        assert_eq!(compare(&run), Some(Comparison { expects_change: true, ..Comparison::default() }));
    }

    #[test]
    fn wrong_arguments_are_paired_with_the_nearest_expected_call() {
        let mut run = run(
            &[("book {\"bags\":1,\"seat\":\"a\"}", "ok"), ("cancel {\"id\":9}", "ok")],
            &["book {\"bags\":3,\"seat\":\"b\"}", "book {\"bags\":0,\"seat\":\"a\"}"],
        );
        let found = compare(&run).unwrap();
        assert_eq!((found.missing, found.unexpected), (vec![0], vec![1]));
        assert_eq!((found.changed[0].0, found.changed[0].1, found.changed[0].2[0].argument.as_str()), (0, 1, "bags"));
        explain_verdict(&mut run);
        let reason = run.outcome.reason.unwrap();
        assert!(reason.contains("step 1 made book with bags 1 where 0 was expected"), "{reason}");
        assert!(reason.contains("step 2 made cancel {\"id\":9} that the judge did not expect"), "{reason}");
    }

    #[test]
    fn an_empty_expectation_says_that_nothing_was_to_be_changed() {
        let mut run = run(&[("cancel {\"id\":9}", "ok")], &[]);
        explain_verdict(&mut run);
        assert!(run.outcome.reason.unwrap().ends_with("nothing was to be changed"));
    }
}
