//! Memento's case bank: JSON lines of `{case, plan, case_label}`, where the plan is JSON inside a text,
//! `{"plan": [{"id", "description"}]}`. A plan that led to a right answer (`positive`) is a strategy, one that did not a
//! pitfall.

use super::parts::{Parts, Told};
use super::words::{join, unwrapped, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_protocol::claim::Outcome;
use folklore_protocol::lesson::LessonKind;
use serde::Deserialize;
use serde_json::Value;

pub(super) const FORMAT: Format = Format {
    name: "memento",
    shape: "JSON lines of {case, plan, case_label}; lessons",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Fields(|names| names.contains("case") && names.contains("plan")),
    read: Read::Several(parse),
};

#[derive(Deserialize)]
struct Case {
    case: String,
    plan: Value,
    #[serde(default)]
    case_label: Option<String>,
}

fn parse(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let case: Case = decode(bytes)?;
    let plan = unwrapped(&case.plan);
    let steps = plan.get("plan").unwrap_or(&plan);
    let mut content = String::new();
    match steps {
        Value::Array(steps) => {
            for (at, step) in steps.iter().enumerate() {
                let said = step.get("description").map_or_else(|| words(step), words);
                join(&mut content, &format!("{}. {}", at + 1, said.trim()));
            }
        }
        Value::String(text) => content.clone_from(text),
        _ => return Err("its plan is neither a list nor a text".into()),
    }
    if content.trim().is_empty() {
        return Err("its plan is empty".into());
    }
    const JUDGE: &str = "memento case_label";
    let (kind, outcome) = match case.case_label.as_deref() {
        Some("positive") => (LessonKind::Strategy, Some((Outcome::Success, JUDGE))),
        Some("negative") => (LessonKind::Pitfall, Some((Outcome::Failure, JUDGE))),
        Some(other) => return Err(format!("its case_label is '{other}', neither positive nor negative")),
        None => (LessonKind::Strategy, None),
    };
    let title = match kind {
        LessonKind::Pitfall => format!("This plan did not answer: {}", case.case.trim()),
        _ => format!("A plan for: {}", case.case.trim()),
    };
    let told = Told { kind, title: &title, content, task: &case.case, outcome, ..Told::default() };
    parts.lesson("", told);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn a_plan_inside_a_text_is_read_and_its_label_kept() {
        let mut parts = Parts::default();
        parse(br#"{"case":"Who?","plan":"{ \"plan\": [ {\"id\": 1, \"description\": \"Ask.\"} ] }","case_label":"negative"}"#, "", &mut parts).unwrap();
        let (_, Part::Lesson(fields, evidence)) = &parts.0[0] else { panic!() };
        assert_eq!(
            (fields.kind, fields.content.as_str(), evidence.outcome),
            (LessonKind::Pitfall, "1. Ask.", Outcome::Failure)
        );
        parse(br#"{"case":"Who?","plan":"just ask","case_label":"positive"}"#, "", &mut parts).unwrap();
        for bad in [
            r#"{"case":"x","plan":7}"#,
            r#"{"case":"x","plan":"{\"plan\":[]}"}"#,
            r#"{"case":"x","plan":"y","case_label":"?"}"#,
        ] {
            assert!(parse(bad.as_bytes(), "", &mut parts).is_err(), "{bad}");
        }
    }
}
