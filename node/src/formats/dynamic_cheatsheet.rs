//! Dynamic Cheatsheet results: JSON lines of `{input, target, steps[{generator_output, current_cheatsheet, new_cheatsheet}],
//! final_answer, final_cheatsheet}`.
//!
//! A line is a run; the label is whether `final_answer` is the `target`, apart from white space, capitals and brackets
//! around it. The cheatsheet holds `<memory_item><description>..</description><example>..</example></memory_item>` items.
//! It is rewritten from line to line, so of items with one title only the last wording is taken, when the file ends.

use super::parts::{Gather, Parts, Told, first_sentence};
use super::words::{join, words};
use super::{Detect, Format, Gives, Read, decode};
use folklore_store::run::{Run, RunOutcome, RunStatus, Step, one_line};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FORMAT: Format = Format {
    name: "dynamic-cheatsheet",
    shape: "JSON lines of {input, target, steps[{generator_output}], final_answer, final_cheatsheet}; label by target",
    gives: Gives::Both,
    from_description: false,
    detect: Detect::Fields(detect),
    read: Read::Together(|_| Box::new(Sheets::default())),
};

/// Items kept until the file ends. A sheet holds a few dozen at a time.
const MAX_ITEMS: usize = 4096;

#[derive(Deserialize)]
struct Line {
    input: String,
    #[serde(default)]
    target: Value,
    #[serde(default)]
    steps: Vec<Round>,
    #[serde(default)]
    final_answer: Value,
    #[serde(default)]
    final_cheatsheet: Option<String>,
}

#[derive(Deserialize)]
struct Round {
    #[serde(default)]
    generator_output: Value,
}

fn detect(names: &BTreeSet<&str>) -> bool {
    ["input", "target", "steps", "final_answer"].iter().all(|name| names.contains(name))
}

/// The items so far, by title, and the runs so far.
#[derive(Default)]
struct Sheets {
    items: BTreeMap<String, String>,
    lines: usize,
}

impl Gather for Sheets {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line: Line = decode(bytes)?;
        self.lines += 1;
        let name = format!("run {}", self.lines);
        for (title, content) in line.final_cheatsheet.as_deref().map(items).unwrap_or_default() {
            if self.items.len() < MAX_ITEMS || self.items.contains_key(&title) {
                self.items.insert(title, content);
            }
        }
        let answer = words(&line.final_answer);
        let mut steps: Vec<Step> =
            line.steps.iter().map(|round| Step { think: words(&round.generator_output), ..Step::default() }).collect();
        steps.retain(|step| !step.think.trim().is_empty());
        if !answer.trim().is_empty() {
            steps.push(Step { action: format!("respond: {}", answer.trim()), ..Step::default() });
        }
        if steps.is_empty() {
            return Err("it has neither an output nor an answer".into());
        }
        let target = words(&line.target);
        let status = match (answer.trim(), target.trim()) {
            (_, "") | ("" | "No final answer found", _) => RunStatus::Unknown,
            (answer, target) if plain(answer) == plain(target) => RunStatus::Success,
            _ => RunStatus::Failure,
        };
        let judged = status != RunStatus::Unknown;
        parts.run(
            name,
            Run {
                task_key: Run::key_from_task(&line.input),
                task: line.input,
                agent: "Dynamic Cheatsheet".into(),
                steps,
                outcome: RunOutcome {
                    status,
                    judged_by: judged.then(|| "target".to_owned()),
                    missing_answers: (status == RunStatus::Failure).then_some(target).into_iter().collect(),
                    ..RunOutcome::default()
                },
                ..Run::default()
            },
        );
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        for (title, content) in std::mem::take(&mut self.items) {
            parts.lesson(
                format!("item {}", one_line(&title)),
                Told { title: &title, content, tags: vec!["dynamic-cheatsheet".to_owned()], ..Told::default() },
            );
        }
    }
}

fn plain(text: &str) -> String {
    let text = text.trim().trim_matches(|c: char| matches!(c, '(' | ')' | '.' | '"' | '\'' | '`'));
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The items of a cheatsheet: title and content.
fn items(sheet: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for piece in sheet.split("<memory_item>").skip(1) {
        let piece = piece.split("</memory_item>").next().unwrap_or_default();
        let inside = |tag: &str| {
            let (_, rest) = piece.split_once(&format!("<{tag}>"))?;
            Some(rest.split(&format!("</{tag}>")).next().unwrap_or_default().trim())
        };
        let description = inside("description").unwrap_or(piece.trim());
        // "(Reference: Q1, Q7)" numbers questions of that experiment.
        let first = first_sentence(description);
        let title = first.split(" (Reference").next().unwrap_or(first).trim().to_owned();
        if title.is_empty() {
            continue;
        }
        let mut content = description.to_owned();
        if let Some(example) = inside("example").filter(|example| !example.is_empty()) {
            join(&mut content, "Example:");
            join(&mut content, example);
        }
        found.push((title, content));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_are_labelled_by_the_target_and_the_last_sheet_stays() {
        let sheet = |words: &str| {
            format!(
                "<memory_item>\n<description>\nTry all (Reference: Q1)\n{words}\n</description>\n<example>\nE\n</example>\n</memory_item>\n** Count: 1"
            )
        };
        let line = |answer: &str, sheet: Option<String>| json!({"input": "1 ? 2 = 3", "target": "1 + 2 = 3", "steps": [{"generator_output": "I try.", "new_cheatsheet": null}], "final_answer": answer, "final_cheatsheet": sheet});
        let (mut sheets, mut parts) = (Sheets::default(), Parts::default());
        for one in [
            line("1 + 2 =  3", Some(sheet("old"))),
            line("1 - 2 = 3", Some(sheet("new"))),
            line("No final answer found", None),
        ] {
            sheets.take(one.to_string().as_bytes(), &mut parts).unwrap();
        }
        sheets.end(&mut parts);
        let statuses: Vec<_> = parts
            .0
            .iter()
            .filter_map(|(_, p)| if let Part::Run(run) = p { Some(run.outcome.status) } else { None })
            .collect();
        assert_eq!(statuses, [RunStatus::Success, RunStatus::Failure, RunStatus::Unknown]);
        let (_, Part::Lesson(fields, _)) = &parts.0[3] else { panic!() };
        assert_eq!(
            (fields.title.as_str(), fields.content.as_str()),
            ("Try all", "Try all (Reference: Q1)\nnew\nExample:\nE")
        );
        assert_eq!(parts.0.len(), 4);
    }
}
