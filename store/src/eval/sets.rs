//! Labelled sets: the one that comes along, a user's own, and those made of the shared data.
//!
//! A set of one's own is JSON Lines, in any order: lessons `{"doc": ID, "task": TEXT, "text": TEXT}` (one of the texts may be
//! left out) and queries `{"query": TEXT, "relevant": [ID, ...]}`. `relevant` may give grades, `{ID: 2, ID: 1}`; where it is
//! empty the query is off-topic, and a good gate gives it no answer. `"exclude": ID` names a lesson that must not answer,
//! such as the one that the query was taken from.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::paraphrase::paraphrase;
use super::{Doc, Query, Set};

/// The name of the set that comes along.
pub const OWN: &str = "own";

/// Lessons in the bank that the steps of word problems are sought in.
const STEPS_BANK: usize = 5_000;
/// Longest file that is read as a set, bytes.
const MAX_SET_BYTES: u64 = 1 << 30;

/// Why a set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// A line is not as it should be.
    #[error("{set}, line {line}: {reason}")]
    Line {
        /// Which set.
        set: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong, and what is wanted.
        reason: String,
    },
    /// There is nothing to evaluate.
    #[error("{0} has no lessons or no queries: give lines with \"doc\" and lines with \"query\"")]
    Empty(String),
}

/// A line of a set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    doc: Option<String>,
    #[serde(default)]
    task: String,
    #[serde(default)]
    text: String,
    query: Option<String>,
    #[serde(default)]
    relevant: Relevant,
    exclude: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Relevant {
    Ids(Vec<String>),
    Grades(BTreeMap<String, f32>),
}

impl Default for Relevant {
    fn default() -> Self {
        Relevant::Ids(Vec::new())
    }
}

/// The set that comes along: a dozen lessons written for this project with paraphrases, short queries and off-topic ones.
#[must_use]
pub fn own() -> Set {
    let set = read_jsonl(OWN, include_str!("own.jsonl")).unwrap_or_default();
    Set { about: "a dozen lessons and their paraphrases, and off-topic queries; comes along".into(), ..set }
}

/// Reads a set of the form that the module describes.
///
/// # Errors
/// When a line is not of that form, or names a lesson that is not there; the line is named.
pub fn read_jsonl(name: &str, text: &str) -> Result<Set, SetError> {
    let wrong = |line: usize, reason: String| SetError::Line { set: name.to_owned(), line: line + 1, reason };
    let mut docs: Vec<Doc> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut asked: Vec<(usize, String, Relevant, Option<String>)> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(at, error.to_string()))?;
        match (line.doc, line.query) {
            (Some(id), None) => {
                if places.insert(id.clone(), docs.len()).is_some() {
                    return Err(wrong(at, format!("a second lesson is called '{id}': ids must differ")));
                }
                docs.push(Doc { id, task: line.task, text: line.text });
            }
            (None, Some(query)) => asked.push((at, query, line.relevant, line.exclude)),
            _ => return Err(wrong(at, "it has neither or both of \"doc\" and \"query\": give one of them".into())),
        }
    }
    let place = |at: usize, id: &str| {
        places.get(id).copied().ok_or_else(|| wrong(at, format!("no lesson of the set is called '{id}'")))
    };
    let mut queries = Vec::new();
    for (at, text, relevant, exclude) in asked {
        let graded: Vec<(String, f32)> = match relevant {
            Relevant::Ids(ids) => ids.into_iter().map(|id| (id, 1.0)).collect(),
            Relevant::Grades(grades) => grades.into_iter().collect(),
        };
        if graded.iter().any(|(_, grade)| !(grade.is_finite() && *grade > 0.0)) {
            return Err(wrong(at, "a grade is not above 0: leave out what does not answer".into()));
        }
        let relevant: Result<Vec<(usize, f32)>, SetError> =
            graded.iter().map(|(id, grade)| Ok((place(at, id)?, *grade))).collect();
        let exclude = exclude.map(|id| place(at, &id)).transpose()?;
        queries.push(Query { text, relevant: relevant?, exclude });
    }
    if docs.is_empty() || queries.is_empty() {
        return Err(SetError::Empty(name.to_owned()));
    }
    Ok(Set { name: name.to_owned(), about: "a set of the user's own".into(), docs, queries })
}

/// Names of the sets that the shared data gives.
#[must_use]
pub fn all_shared() -> [&'static str; 3] {
    ["web-tasks", "task-types", "steps"]
}

/// A set by name, made of the shared data in `dir`; `None` for a name that is none of [`all_shared`].
///
/// # Errors
/// When its files are absent or not as they were.
pub fn shared(name: &str, dir: &Path) -> Option<Result<Set, SetError>> {
    match name {
        "web-tasks" => Some(web_tasks(dir)),
        "task-types" => Some(task_types(dir)),
        "steps" => Some(steps(dir)),
        _ => None,
    }
}

fn read(path: &Path) -> Result<String, SetError> {
    let unreadable = |reason: String| SetError::Unreadable { path: path.display().to_string(), reason };
    let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_SET_BYTES {
        return Err(unreadable(format!("it has {size} bytes, the limit is {MAX_SET_BYTES}")));
    }
    fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

/// The values of a JSON Lines file.
fn lines(path: &Path) -> Result<Vec<Value>, SetError> {
    let text = read(path)?;
    let parse = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| SetError::Line {
            set: path.display().to_string(),
            line: at + 1,
            reason: error.to_string(),
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

/// Queries that are the lessons' own tasks: relevant are the others with the same label.
fn by_label(docs: &[Doc], labels: &[String]) -> Vec<Query> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    labels.iter().enumerate().for_each(|(place, label)| groups.entry(label).or_default().push(place));
    let query = |(place, (doc, label)): (usize, (&Doc, &String))| {
        let others = groups.get(label.as_str())?.iter().filter(|other| **other != place);
        let relevant: Vec<(usize, f32)> = others.map(|other| (*other, 1.0)).collect();
        (!relevant.is_empty()).then(|| Query { text: doc.task.clone(), relevant, exclude: Some(place) })
    };
    docs.iter().zip(labels).enumerate().filter_map(query).collect()
}

/// Web tasks: a task is answered by others of its template.
fn web_tasks(dir: &Path) -> Result<Set, SetError> {
    let (mut docs, mut labels) = (Vec::new(), Vec::new());
    for task in lines(&dir.join("retrieval/webarena_tasks_even_templates.jsonl"))? {
        let Some(intent) = task.get("intent").and_then(Value::as_str) else { continue };
        docs.push(Doc { id: docs.len().to_string(), task: intent.into(), text: String::new() });
        labels.push(task.get("template_id").map(Value::to_string).unwrap_or_default());
    }
    let queries = by_label(&docs, &labels);
    let about = "WebArena intents; those of one template answer each other".into();
    Ok(Set { name: "web-tasks".into(), about, docs, queries })
}

/// Household tasks: a task is answered by memories of its type, which no text of the bank names.
fn task_types(dir: &Path) -> Result<Set, SetError> {
    let path = dir.join("lesson-banks/skillrl_alfworld_memories.json");
    let memories: Vec<Value> = serde_json::from_str(&read(&path)?).map_err(|error| SetError::Line {
        set: path.display().to_string(),
        line: error.line(),
        reason: error.to_string(),
    })?;
    let (mut docs, mut labels) = (Vec::new(), Vec::new());
    for memory in &memories {
        let text = |pointer: &str| memory.pointer(pointer).and_then(Value::as_str);
        let label = text("/contextual_description").and_then(|about| about.split('\'').nth(1));
        let Some((label, task)) = label.zip(text("/content/task_meta/original_goal")) else { continue };
        let steps = memory.pointer("/content/refined_trajectory/refined_trajectory").and_then(Value::as_array);
        let told = steps.into_iter().flatten().filter_map(|step| step.get("reasoning")?.as_str());
        let pattern = text("/content/strategic_guidelines/planning_pattern").unwrap_or_default();
        let told = std::iter::once(pattern).chain(told).collect::<Vec<_>>().join("\n");
        docs.push(Doc { id: docs.len().to_string(), task: task.into(), text: told });
        labels.push(label.to_owned());
    }
    let queries = by_label(&docs, &labels);
    let about = "SkillRL household memories; those of one task type answer each other's goals".into();
    Ok(Set { name: "task-types".into(), about, docs, queries })
}

/// Steps of word problems: a subquestion in other words is answered by its step, among 5,000 texts.
///
/// The bank is every step of the file and, up to 5,000, lines of models' solutions to its first problems; the queries are
/// of the problems after those, so that no solution answers one.
fn steps(dir: &Path) -> Result<Set, SetError> {
    let problems = lines(&dir.join("procedural/gsm8k_test_socratic_1-660.jsonl"))?;
    let solved = lines(&dir.join("procedural/gsm8k_model_solutions_1-250.jsonl"))?;
    let mut docs: Vec<Doc> = Vec::new();
    let mut asked: Vec<(String, usize)> = Vec::new();
    for (number, problem) in problems.iter().enumerate() {
        let answer = problem.get("answer").and_then(Value::as_str).unwrap_or_default();
        for (question, step) in answer.lines().filter_map(|line| line.split_once(" ** ")) {
            if number >= solved.len() {
                asked.push((question.to_owned(), docs.len()));
            }
            docs.push(Doc { id: docs.len().to_string(), task: question.into(), text: plain(step) });
        }
    }
    let solutions = solved.iter().filter_map(Value::as_object).flat_map(|models| models.values());
    let told = solutions.filter_map(|model| model.get("solution")?.as_str()).flat_map(str::lines);
    for line in told.filter(|line| !line.starts_with("A:") && !line.trim().is_empty()) {
        if docs.len() >= STEPS_BANK {
            break;
        }
        docs.push(Doc { id: docs.len().to_string(), task: String::new(), text: plain(line) });
    }
    // Some questions are asked word for word by several problems: each of their steps answers.
    let mut same: HashMap<&str, Vec<(usize, f32)>> = HashMap::new();
    docs.iter().enumerate().for_each(|(place, doc)| same.entry(doc.task.as_str()).or_default().push((place, 1.0)));
    let query = |(question, _): &(String, usize)| Query {
        text: paraphrase(question),
        relevant: same.get(question.as_str()).cloned().unwrap_or_default(),
        exclude: None,
    };
    let queries = asked.iter().map(query).collect();
    let about = "GSM8K subquestions in other words, by rule; each finds its step".into();
    Ok(Set { name: "steps".into(), about, docs, queries })
}

/// A step without the calculator's marks, `<<9*2=18>>`.
fn plain(step: &str) -> String {
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some((before, after)) = rest.split_once("<<") {
        out.push_str(before);
        rest = after.split_once(">>").map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_meant_is_named() {
        let doc = "{\"doc\": \"a\", \"task\": \"t\"}\n";
        for (text, wanted) in [
            ("{\"doc\": \"a\"}\nnot json\n".to_owned(), "line 2"),
            (format!("{doc}{doc}"), "line 2: a second lesson"),
            (format!("{doc}{{\"query\": \"q\", \"relevant\": [\"b\"]}}"), "line 2: no lesson of the set is called 'b'"),
            (format!("{doc}{{\"query\": \"q\", \"relevant\": {{\"a\": 0}}}}"), "line 2: a grade"),
            (format!("{doc}{{\"query\": \"q\", \"relevnat\": []}}"), "relevnat"),
            (format!("{doc}{{\"task\": \"q\"}}"), "line 2: it has neither"),
            (doc.to_owned(), "no queries"),
        ] {
            let error = read_jsonl("mine", &text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{wanted:?} in {error:?}");
        }
    }

    #[test]
    fn grades_and_exclusions_are_read() {
        let text = "{\"query\": \"q\", \"relevant\": {\"b\": 2.0}, \"exclude\": \"a\"}\n\n{\"doc\": \"a\"}\n{\"doc\": \"b\"}\n";
        let set = read_jsonl("mine", text).unwrap();
        assert_eq!(set.queries, [Query { text: "q".into(), relevant: vec![(1, 2.0)], exclude: Some(0) }]);
    }

    #[test]
    fn marks_of_the_calculator_are_dropped() {
        assert_eq!(plain("Janet sells 16 - 3 = <<16-3=13>>13 eggs <<1"), "Janet sells 16 - 3 = 13 eggs ");
    }

    #[test]
    fn an_absent_folder_is_named() {
        let error = shared("steps", Path::new("/nowhere")).unwrap().unwrap_err().to_string();
        assert!(error.contains("/nowhere"), "{error}");
        assert!(shared("other", Path::new("/nowhere")).is_none());
    }
}
