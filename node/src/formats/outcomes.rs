//! Label tables: who solved which task, for formats whose files do not say (`--outcomes FILE`).
//!
//! Accepted shapes, told apart by content:
//! - a JSON array or JSON lines of `{instance_id | task_id | id, resolved | success | is_success | passed | reward, reason?, ...}`;
//! - an object from id to `true`/`false`, to a reward, or to such a row;
//! - an object with `resolved_ids` and `unresolved_ids`, as SWE-bench reports have them.

use folklore_store::run::{Run, RunOutcome, RunStatus};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a label table. A row is about 100 bytes; this is for half a million of them.
pub const MAX_TABLE_BYTES: u64 = 64 * 1024 * 1024;

const ID_FIELDS: [&str; 3] = ["instance_id", "task_id", "id"];
const VERDICT_FIELDS: [&str; 4] = ["resolved", "success", "is_success", "passed"];

const AGENT_FIELDS: [&str; 2] = ["model", "agent"];
const REASON_FIELDS: [&str; 2] = ["reason", "explanation"];

/// Why a label table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutcomesError {
    /// The file cannot be read.
    #[error("cannot read the label table {file}: {reason}")]
    Unreadable {
        /// File name.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// The file is larger than [`MAX_TABLE_BYTES`].
    #[error("the label table {file} is larger than {} MiB; split it", MAX_TABLE_BYTES / (1024 * 1024))]
    TooLarge {
        /// File name.
        file: String,
    },
    /// The content is not one of the shapes above.
    #[error(
        "{file} is not a label table: {reason}; expected rows like {{\"instance_id\":\"...\",\"resolved\":true}}, \
         or an object from id to true or false"
    )]
    NotATable {
        /// File name.
        file: String,
        /// The first thing that is wrong.
        reason: String,
    },
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    status: RunStatus,
    reward_milli: Option<i32>,
    /// What the judge said, where the row tells.
    reason: Option<String>,
}

/// A label table, by task key.
///
/// Rows may name the agent (`model` or `agent`), so that one table can label several agents' runs of one task. A task
/// with one row is labelled whatever agent the row names: a table of one submission often spells the agent in another
/// way than the trajectories do. A task with several rows is labelled only where a row names the run's agent.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    file: String,
    /// By task, then by agent; the empty agent is a row that names none.
    labels: BTreeMap<String, BTreeMap<String, Label>>,
}

impl Outcomes {
    /// Reads a table.
    pub fn read(path: &Path) -> Result<Self, OutcomesError> {
        let file = super::file_name(path);
        let unreadable =
            |error: std::io::Error| OutcomesError::Unreadable { file: file.clone(), reason: error.to_string() };
        let mut bytes = Vec::new();
        File::open(path).and_then(|open| open.take(MAX_TABLE_BYTES + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_TABLE_BYTES {
            return Err(OutcomesError::TooLarge { file });
        }
        Self::parse(&bytes, &file)
    }

    /// Parses a table's bytes; `file` is the name that messages and outcomes carry.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, OutcomesError> {
        let wrong = |reason: String| OutcomesError::NotATable { file: file.to_owned(), reason };
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(wrong("it is empty".into()));
        }
        let mut table = Self { file: file.to_owned(), labels: BTreeMap::new() };
        match serde_json::from_slice::<Value>(bytes) {
            Ok(Value::Array(rows)) => {
                for (at, row) in rows.iter().enumerate() {
                    table.add_row(row, None).map_err(|reason| wrong(format!("row {}: {reason}", at + 1)))?;
                }
            }
            Ok(Value::Object(map)) => table.add_object(&map).map_err(wrong)?,
            Ok(_) => return Err(wrong("it is neither an array nor an object".into())),
            // Several documents: JSON lines.
            Err(whole) => {
                let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".into()))?;
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                for (at, line) in lines {
                    let row = serde_json::from_str(line).map_err(|error| {
                        // A pretty-printed file with one fault is reported as what it is.
                        wrong(if at == 0 { whole.to_string() } else { format!("line {}: {error}", at + 1) })
                    })?;
                    table.add_row(&row, None).map_err(|reason| wrong(format!("line {}: {reason}", at + 1)))?;
                }
            }
        }
        if table.labels.is_empty() {
            return Err(wrong("it has no labels".into()));
        }
        Ok(table)
    }

    /// How many tasks have a label.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no label at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The tasks that have a label, in order.
    pub fn task_keys(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str)
    }

    /// Gives a run the table's label for its task key, if there is one; says whether there was. The table wins over
    /// what the file says, because the user named it.
    pub fn label(&self, run: &mut Run) -> bool {
        let Some(rows) = self.labels.get(&run.task_key) else { return false };
        let only = rows.values().next().filter(|_| rows.len() == 1);
        let Some(label) = rows.get(&run.agent).or(only).or_else(|| rows.get("")) else { return false };
        let old = std::mem::take(&mut run.outcome);
        run.outcome = RunOutcome {
            status: label.status,
            reward_milli: label.reward_milli,
            judged_by: Some(self.file.clone()),
            reason: label.reason.clone().or(old.reason),
            ..old
        };
        run.tidy();
        true
    }

    fn add_object(&mut self, map: &Map<String, Value>) -> Result<(), String> {
        if map.contains_key("resolved_ids") || map.contains_key("unresolved_ids") {
            for (field, status) in [("resolved_ids", RunStatus::Success), ("unresolved_ids", RunStatus::Failure)] {
                let ids = map.get(field).map_or(Ok(&[][..]), |ids| ids.as_array().map(Vec::as_slice).ok_or(field));
                for id in ids.map_err(|field| format!("{field} is not an array"))? {
                    let id = id.as_str().ok_or_else(|| format!("{field} holds something that is not a text"))?;
                    self.add(id.to_owned(), "", Label { status, reward_milli: None, reason: None })?;
                }
            }
            return Ok(());
        }
        if ID_FIELDS.iter().any(|field| map.contains_key(*field)) {
            return self.add_row(&Value::Object(map.clone()), None);
        }
        for (id, value) in map {
            match value {
                Value::Object(_) => self.add_row(value, Some(id)).map_err(|reason| format!("{id}: {reason}"))?,
                value => {
                    let label = verdict(value).ok_or_else(|| format!("{id}: neither true, false nor a reward"))?;
                    if let Some(label) = label {
                        self.add(id.clone(), "", label)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_row(&mut self, row: &Value, id: Option<&str>) -> Result<(), String> {
        let row = row.as_object().ok_or("not an object")?;
        let id = match id {
            Some(id) => id.to_owned(),
            None => match ID_FIELDS.iter().find_map(|field| row.get(*field)) {
                Some(Value::String(id)) => id.clone(),
                Some(Value::Number(id)) => id.to_string(),
                Some(_) => return Err("the id is neither a text nor a number".into()),
                None => return Err(format!("no {}", ID_FIELDS.join(" or "))),
            },
        };
        let found = VERDICT_FIELDS.iter().chain(&["reward"]).find_map(|field| Some((*field, row.get(*field)?)));
        let (field, value) = found.ok_or_else(|| format!("{id} has no {} or reward", VERDICT_FIELDS.join(" or ")))?;
        match verdict(value) {
            Some(Some(label)) => {
                let reason = REASON_FIELDS.iter().find_map(|field| row.get(*field)?.as_str());
                let agent = AGENT_FIELDS.iter().find_map(|field| row.get(*field)?.as_str()).unwrap_or_default();
                self.add(id, agent, Label { reason: reason.map(str::to_owned), ..label })
            }
            // A null verdict is a row without a label.
            Some(None) => Ok(()),
            None => Err(format!("{id}: {field} is neither true, false nor a number")),
        }
    }

    fn add(&mut self, id: String, agent: &str, label: Label) -> Result<(), String> {
        match self.labels.entry(id.clone()).or_default().insert(agent.to_owned(), label.clone()) {
            Some(other) if other != label => Err(format!("{id} has two different labels")),
            _ => Ok(()),
        }
    }
}

/// What a verdict's value says: `None` when it is no verdict, `Some(None)` when it is null.
fn verdict(value: &Value) -> Option<Option<Label>> {
    match value {
        Value::Null => Some(None),
        Value::Bool(solved) => {
            let status = if *solved { RunStatus::Success } else { RunStatus::Failure };
            Some(Some(Label { status, reward_milli: None, reason: None }))
        }
        Value::Number(reward) => {
            let (status, reward_milli) = from_reward(reward.as_f64()?)?;
            Some(Some(Label { status, reward_milli: Some(reward_milli), reason: None }))
        }
        _ => None,
    }
}

/// A reward between 0 and 1 as a status and thousandths; `None` outside that range, where it is no reward.
/// Within a millionth of 1 is success, as tau-bench itself counts it.
pub(super) fn from_reward(reward: f64) -> Option<(RunStatus, i32)> {
    const SLACK: f64 = 1e-6;
    if !reward.is_finite() || !(-SLACK..=1.0 + SLACK).contains(&reward) {
        return None;
    }
    let status = match reward {
        r if (r - 1.0).abs() <= SLACK => RunStatus::Success,
        r if r.abs() <= SLACK => RunStatus::Failure,
        _ => RunStatus::Partial,
    };
    // In range by the check above.
    Some((status, (reward * 1000.0).round() as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(table: &str, key: &str) -> Option<RunStatus> {
        let table = Outcomes::parse(table.as_bytes(), "labels.json").unwrap();
        let mut run = Run { task_key: key.into(), ..Run::default() };
        table.label(&mut run).then_some(run.outcome.status)
    }

    #[test]
    fn every_shape_gives_the_same_labels() {
        for table in [
            r#"[{"instance_id":"a","resolved":true},{"instance_id":"b","resolved":false,"messages":3}]"#,
            "{\"instance_id\":\"a\",\"resolved\":true}\n\n{\"instance_id\":\"b\",\"resolved\":false}\n",
            r#"{"a":true,"b":false}"#,
            r#"{"a":{"resolved":true},"b":{"reward":0.0}}"#,
            r#"{"resolved_ids":["a"],"unresolved_ids":["b"],"schema_version":2}"#,
            "\u{feff}[{\"task_id\":\"a\",\"reward\":1},{\"task_id\":\"b\",\"success\":false}]",
        ] {
            assert_eq!(status(table, "a"), Some(RunStatus::Success), "{table}");
            assert_eq!(status(table, "b"), Some(RunStatus::Failure), "{table}");
            assert_eq!(status(table, "c"), None, "{table}");
        }
        assert_eq!(status(r#"{"a":0.5}"#, "a"), Some(RunStatus::Partial));
    }

    #[test]
    fn several_rows_of_one_task_are_told_apart_by_agent() {
        let table = r#"[{"id":"a","model":"m1","resolved":true},{"id":"a","agent":"m2","resolved":false,"reason":"too slow"},
            {"id":"b","model":"other spelling","resolved":true}]"#;
        let table = Outcomes::parse(table.as_bytes(), "labels.json").unwrap();
        let labelled = |key: &str, agent: &str| {
            let mut run = Run { task_key: key.into(), agent: agent.into(), ..Run::default() };
            table.label(&mut run).then_some((run.outcome.status, run.outcome.reason))
        };
        assert_eq!(labelled("a", "m1"), Some((RunStatus::Success, None)));
        assert_eq!(labelled("a", "m2"), Some((RunStatus::Failure, Some("too slow".into()))));
        assert_eq!(labelled("a", "m3"), None);
        assert_eq!(labelled("b", "m1"), Some((RunStatus::Success, None)));
    }

    #[test]
    fn a_bad_table_says_what_is_wrong_with_it() {
        for (table, says) in [
            ("", "empty"),
            ("[]", "no labels"),
            ("7", "neither an array nor an object"),
            ("[{\"resolved\":true}]", "row 1: no instance_id"),
            ("[{\"instance_id\":\"a\"}]", "has no resolved"),
            ("[{\"instance_id\":\"a\",\"resolved\":\"yes\"}]", "neither true, false nor a number"),
            ("{\"a\":true,\"a\":1,\"b\":[]}", "b: neither"),
            ("[{\"id\":\"a\",\"resolved\":true},{\"id\":\"a\",\"resolved\":false}]", "two different labels"),
            ("{\"messages\":[],\"info\":{}}", "info: no"),
            ("[{\"instance_id\":\"a\",", "EOF"),
            ("{\"id\":\"a\",\"resolved\":true}\nnonsense", "line 2"),
            ("{\"a\":7}", "neither"),
        ] {
            let error = Outcomes::parse(table.as_bytes(), "labels.json").unwrap_err().to_string();
            assert!(error.contains("labels.json"), "{error}");
            if table != "{\"messages\":[],\"info\":{}}" {
                assert!(error.contains(says), "{table}: {error}");
            }
        }
        assert!(Outcomes::parse(b"\xff\xfe\x00", "labels.json").is_err());
    }
}
