//! Text made of `<think>` and `<action>` blocks: AWM's workflow memories, and WebArena runs written that way.
//!
//! A workflow file has `Query: words` lines, each followed by its blocks: the query is the subquestion and the blocks its
//! routine, so each is a procedure. In a run's text the task stands on an `Objective:`, `Intent:`, `Task:` or `Goal:` line,
//! and what the browser showed in `<observation>` blocks; this second form is written from its description, without files
//! of a producer at hand. Neither says how it ended.

use super::parts::{Gather, Parts, Told};
use super::words::{Bounded, join};
use super::{Detect, Format, Gives, Read};
use folklore_protocol::lesson::LessonKind;
use folklore_store::run::{Run, Step};

pub(super) const AWM: Format = Format {
    name: "awm",
    shape: "text with 'Query:' lines and <think> / <action> blocks; procedures",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Lines(|head| has_blocks(head) && head.lines().any(|line| line.starts_with("Query:"))),
    read: Read::Text(|_| Box::new(Blocks::new(true))),
};

pub(super) const WEBARENA: Format = Format {
    name: "webarena-text",
    shape: "text with <think> / <action> / <observation> blocks after an 'Objective:' line, one run each; no label",
    gives: Gives::Runs,
    from_description: true,
    detect: Detect::Lines(has_blocks),
    read: Read::Text(|_| Box::new(Blocks::new(false))),
};

/// Words that begin a task.
const TASKS: [&str; 6] = ["Query:", "Objective:", "OBJECTIVE:", "Intent:", "Task:", "Goal:"];
/// Bytes of one task's blocks that are kept open.
const MAX_OPEN_BYTES: usize = 32 * 1024 * 1024;

fn has_blocks(head: &str) -> bool {
    let tagged = |tag: &str| head.lines().any(|line| line.trim_start().starts_with('<') && line.contains(tag));
    tagged("<action>") && (tagged("<think>") || tagged("<observation>"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Think,
    Action,
    Observation,
}

const TAGS: [(&str, &str, Place); 3] = [
    ("<think>", "</think>", Place::Think),
    ("<action>", "</action>", Place::Action),
    ("<observation>", "</observation>", Place::Observation),
];

struct Blocks {
    lessons: bool,
    task: String,
    place: Place,
    block: Bounded,
    steps: Vec<Step>,
    held: usize,
    count: usize,
}

impl Blocks {
    fn new(lessons: bool) -> Self {
        Self {
            lessons,
            task: String::new(),
            place: Place::Outside,
            block: Bounded::default(),
            steps: Vec::new(),
            held: 0,
            count: 0,
        }
    }

    fn piece(&mut self, line: &str, parts: &mut Parts) {
        let mut rest = line;
        loop {
            if self.place == Place::Outside {
                let next = TAGS
                    .iter()
                    .filter_map(|(open, _, place)| Some((rest.find(open)?, *open, *place)))
                    .min_by_key(|(at, ..)| *at);
                let Some((at, open, place)) = next else {
                    self.outside(rest, parts);
                    return;
                };
                self.outside(rest.get(..at).unwrap_or_default(), parts);
                self.place = place;
                rest = rest.get(at + open.len()..).unwrap_or_default();
            } else {
                let close = TAGS.iter().find(|(.., place)| *place == self.place).map_or("", |(_, close, _)| *close);
                match rest.split_once(close) {
                    Some((inside, after)) => {
                        self.block.line(inside);
                        self.end_block();
                        rest = after;
                    }
                    None => {
                        self.block.line(rest);
                        return;
                    }
                }
            }
        }
    }

    fn outside(&mut self, words: &str, parts: &mut Parts) {
        let words = words.trim();
        if let Some(task) = TASKS.iter().find_map(|word| words.strip_prefix(word)) {
            self.close(parts);
            self.task = task.trim().to_owned();
        } else if !words.is_empty() && !words.starts_with('#') && !self.task.is_empty() && self.steps.is_empty() {
            // A task of several lines.
            join(&mut self.task, words);
        }
    }

    fn end_block(&mut self) {
        let text = std::mem::take(&mut self.block).finish().trim().to_owned();
        let place = std::mem::replace(&mut self.place, Place::Outside);
        let last = self.steps.last_mut();
        match (place, last) {
            (Place::Action, Some(step)) if step.action.is_empty() && step.observation.is_empty() => step.action = text,
            (Place::Action, _) => self.steps.push(Step { action: text, ..Step::default() }),
            (Place::Observation, Some(step)) => join(&mut step.observation, &text),
            (Place::Observation, None) => self.steps.push(Step { observation: text, ..Step::default() }),
            (Place::Think | Place::Outside, _) => self.steps.push(Step { think: text, ..Step::default() }),
        }
    }

    fn close(&mut self, parts: &mut Parts) {
        self.held = 0;
        let open = self.place != Place::Outside;
        let task = std::mem::take(&mut self.task);
        if open {
            self.end_block();
        }
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() && task.is_empty() {
            return;
        }
        self.count += 1;
        let name = format!("{} {}", if self.lessons { "query" } else { "run" }, self.count);
        if open {
            parts.refuse(name, "a block in it is not closed");
        } else if steps.is_empty() {
            parts.refuse(name, "no block follows it");
        } else if self.lessons {
            if task.is_empty() {
                parts.refuse(name, "no query stands before its blocks");
                return;
            }
            let mut content = String::new();
            for (at, step) in steps.iter().enumerate() {
                join(&mut content, &format!("{}. {}", at + 1, step.think));
                join(&mut content, &step.action);
            }
            let title = &task;
            parts.lesson(
                name,
                Told { kind: LessonKind::Procedure, title, content, task: &task, domain: "web", ..Told::default() },
            );
        } else {
            parts.run(
                name,
                Run { task_key: Run::key_from_task(&task), task, domain: "web".into(), steps, ..Run::default() },
            );
        }
    }
}

impl Gather for Blocks {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
        self.held += line.len();
        if self.held > MAX_OPEN_BYTES {
            self.close(parts);
        }
        self.piece(line.trim_end_matches('\r'), parts);
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        self.close(parts);
        if self.count == 0 {
            parts.refuse("", "it holds no <action> block");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    fn read(text: &str, lessons: bool) -> Vec<(String, Part)> {
        let (mut blocks, mut parts) = (Blocks::new(lessons), Parts::default());
        for line in text.lines() {
            blocks.take(line.as_bytes(), &mut parts).unwrap();
        }
        blocks.end(&mut parts);
        parts.0
    }

    #[test]
    fn a_workflow_is_a_procedure() {
        let text = "## Concrete Examples\n\nQuery: Upvote the post\n<think>\nOpen forums.\n</think>\n<action>\nclick('42')\n</action>\n\nQuery: Nothing\n\nQuery: Cut\n<think>\nx";
        let parts = read(text, true);
        let (name, Part::Lesson(fields, _)) = &parts[0] else { panic!() };
        assert_eq!(
            (name.as_str(), fields.kind, fields.task.as_str()),
            ("query 1", LessonKind::Procedure, "Upvote the post")
        );
        assert_eq!(fields.content, "1. Open forums.\nclick('42')");
        assert!(matches!(&parts[1].1, Part::Refused(why) if why.contains("no block")));
        assert!(matches!(&parts[2].1, Part::Refused(why) if why.contains("not closed")));
        assert!(AWM.detect.is_lines(text) && !AWM.detect.is_lines("Query: x"));
    }

    #[test]
    fn a_run_in_text_keeps_what_was_seen() {
        let parts = read(
            "Objective: buy it\n<observation>page</observation>\n<think>look</think><action>click('1')</action>\n<observation>\nok\n</observation>\n",
            false,
        );
        let (_, Part::Run(run)) = &parts[0] else { panic!() };
        assert_eq!(run.task, "buy it");
        let got: Vec<_> = run.steps.iter().map(|s| [s.think.as_str(), &s.action, &s.observation]).collect();
        assert_eq!(got, [["", "", "page"], ["look", "click('1')", "ok"]]);
    }

    impl Detect {
        fn is_lines(&self, head: &str) -> bool {
            matches!(self, Self::Lines(detect) if detect(head))
        }
    }
}
