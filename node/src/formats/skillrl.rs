//! SkillRL memories and skills.
//!
//! Memories are an array of `{memory_id, contextual_description, tags{environment, outcome}, content{task_meta{original_goal},
//! refined_trajectory, strategic_guidelines{planning_pattern, mistakes_to_avoid[{trigger_condition, bad_action}]}}}`: the
//! pattern is a strategy with the moves of the run it came from, each mistake a pitfall. Skills are one document of
//! `{general_skills[], task_specific_skills{type: []}, common_mistakes[]}`.

use super::parts::{Parts, Told};
use super::words::{id, join, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_protocol::claim::Outcome;
use folklore_protocol::lesson::LessonKind;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const FORMAT: Format = Format {
    name: "skillrl",
    shape: "array of {memory_id, contextual_description, tags, content{strategic_guidelines}}, or {general_skills, common_mistakes}",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Several(parse),
};

/// Who says how the run ended that a memory came from.
const JUDGE: &str = "skillrl tags.outcome";

fn detect(names: &BTreeSet<&str>) -> bool {
    (names.contains("memory_id") && names.contains("content"))
        || names.contains("general_skills")
        || names.contains("task_specific_skills")
}

fn parse(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let value: Value = decode(bytes)?;
    if value.get("content").is_some() { memory(&value, parts) } else { skills(&value, parts) }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().trim()
}

fn memory(value: &Value, parts: &mut Parts) -> Result<(), String> {
    let outcome = match text(value, "/tags/outcome").to_ascii_lowercase().as_str() {
        "success" => Some((Outcome::Success, JUDGE)),
        "failure" => Some((Outcome::Failure, JUDGE)),
        _ => None,
    };
    let context = text(value, "/contextual_description");
    let (task, domain) = (text(value, "/content/task_meta/original_goal"), text(value, "/tags/environment"));
    // The type of task stands in quotes: "AlfWorld task classified as 'clean' to ...".
    let tags: Vec<String> = context.split('\'').nth(1).map(str::to_owned).into_iter().collect();
    let mut any = false;
    let pattern = text(value, "/content/strategic_guidelines/planning_pattern");
    if !pattern.is_empty() {
        any = true;
        let mut content = pattern.to_owned();
        let moves = value.pointer("/content/refined_trajectory");
        let moves = moves.map(|moves| moves.get("refined_trajectory").unwrap_or(moves));
        for (at, one) in moves.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let (action, seen) = (text(one, "/action"), text(one, "/critical_observation"));
            join(&mut content, &format!("{}. {action}: {seen}", at + 1));
        }
        let told = Told {
            title: pattern,
            applies_when: context,
            content,
            task,
            domain,
            tags: tags.clone(),
            outcome,
            ..Told::default()
        };
        parts.lesson("pattern", told);
    }
    let mistakes = value.pointer("/content/strategic_guidelines/mistakes_to_avoid").and_then(Value::as_array);
    for (at, mistake) in mistakes.into_iter().flatten().enumerate() {
        let (when, bad) = (text(mistake, "/trigger_condition"), text(mistake, "/bad_action"));
        let name = format!("mistake {}", at + 1);
        if bad.is_empty() {
            parts.refuse(name, "it has no bad_action");
            continue;
        }
        any = true;
        let told = Told {
            kind: LessonKind::Pitfall,
            title: bad,
            applies_when: when,
            content: format!("When: {when}\nDo not: {bad}"),
            task,
            domain,
            tags: tags.clone(),
            outcome,
        };
        parts.lesson(name, told);
    }
    if any { Ok(()) } else { Err("it has neither a planning pattern nor a mistake to avoid".into()) }
}

fn skills(value: &Value, parts: &mut Parts) -> Result<(), String> {
    let general =
        value.get("general_skills").and_then(Value::as_array).into_iter().flatten().map(|one| ("general", one));
    let special = value.get("task_specific_skills").and_then(Value::as_object).into_iter().flatten();
    let special =
        special.flat_map(|(kind, list)| list.as_array().into_iter().flatten().map(|one| (kind.as_str(), one)));
    let mut any = false;
    for (kind, skill) in general.chain(special) {
        let name = skill.get("skill_id").and_then(id).unwrap_or_else(|| format!("a skill of {kind}"));
        let (title, principle) = (text(skill, "/title"), text(skill, "/principle"));
        if principle.is_empty() {
            parts.refuse(name, "it has no principle");
            continue;
        }
        any = true;
        let told = Told {
            title,
            applies_when: text(skill, "/when_to_apply"),
            content: principle.to_owned(),
            tags: vec![kind.to_owned()],
            ..Told::default()
        };
        parts.lesson(name, told);
    }
    for (at, mistake) in value.get("common_mistakes").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name = mistake.get("mistake_id").and_then(id).unwrap_or_else(|| format!("mistake {}", at + 1));
        let title = text(mistake, "/description");
        if title.is_empty() {
            parts.refuse(name, "it has no description");
            continue;
        }
        any = true;
        let mut content = title.to_owned();
        for (label, field) in [("Why it happens", "why_it_happens"), ("Instead", "how_to_avoid")] {
            let said = mistake.get(field).map(words).unwrap_or_default();
            if !said.trim().is_empty() {
                join(&mut content, &format!("{label}: {}", said.trim()));
            }
        }
        parts.lesson(name, Told { kind: LessonKind::Pitfall, title, content, ..Told::default() });
    }
    if any { Ok(()) } else { Err("it holds no skill and no mistake".into()) }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Vec<(String, LessonKind, String, Outcome)> {
        let mut parts = Parts::default();
        parse(value.to_string().as_bytes(), "", &mut parts).unwrap();
        let lessons = parts.0.into_iter().filter_map(|(name, part)| match part {
            Part::Lesson(fields, evidence) => Some((name, fields.kind, fields.content, evidence.outcome)),
            _ => None,
        });
        lessons.collect()
    }

    #[test]
    fn a_success_is_a_strategy_and_a_failure_is_pitfalls() {
        let memory = |outcome: &str, trajectory: Value, pattern: Value, mistakes: Value| {
            json!({"memory_id": "m", "contextual_description": "task classified as 'clean' to wash", "tags": {"environment": "Alfworld", "outcome": outcome},
                "content": {"task_meta": {"original_goal": "wash"}, "refined_trajectory": trajectory,
                    "strategic_guidelines": {"planning_pattern": pattern, "mistakes_to_avoid": mistakes}}})
        };
        let steps = json!({"refined_trajectory": [{"action": "go to sink", "critical_observation": "it is there"}]});
        let got = read(&memory("Success", steps, json!("Find -> Wash"), json!([])));
        assert_eq!(
            got,
            [(
                "pattern".into(),
                LessonKind::Strategy,
                "Find -> Wash\n1. go to sink: it is there".into(),
                Outcome::Success
            )]
        );
        let mistakes =
            json!([{"trigger_condition": "it is dirty", "bad_action": "put it down"}, {"trigger_condition": "x"}]);
        let got = read(&memory("Failure", json!(null), json!(null), mistakes));
        assert_eq!(
            got,
            [(
                "mistake 1".into(),
                LessonKind::Pitfall,
                "When: it is dirty\nDo not: put it down".into(),
                Outcome::Failure
            )]
        );
    }

    #[test]
    fn a_document_of_skills_gives_each_of_them() {
        let got =
            read(&json!({"general_skills": [{"skill_id": "g1", "title": "T", "principle": "P", "when_to_apply": "W"}],
            "task_specific_skills": {"clean": [{"skill_id": "c1", "title": "T", "principle": "Q"}]},
            "common_mistakes": [{"mistake_id": "e1", "description": "D", "how_to_avoid": "H"}]}));
        let names: Vec<_> = got.iter().map(|(name, kind, ..)| (name.as_str(), *kind)).collect();
        assert_eq!(names, [("g1", LessonKind::Strategy), ("c1", LessonKind::Strategy), ("e1", LessonKind::Pitfall)]);
        assert_eq!(got[2].2, "D\nInstead: H");
    }
}
