//! Import: finished runs from files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ApiError, DEFAULT_INDUCE, ModelRequest, Replaced};

/// Lessons that one answer names as replaced; beyond, they are counted.
pub const MAX_REPLACED: usize = 1_000;

/// `import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// Absolute paths of files or directories, readable by the daemon.
    pub paths: Vec<PathBuf>,
    /// Format name; none: told from the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Absolute path of a label table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<PathBuf>,
    /// Induction backend.
    #[serde(default = "default_induce")]
    pub induce: String,
    /// Which model, for a backend that has one.
    #[serde(default, skip_serializing_if = "ModelRequest::is_default")]
    pub model: ModelRequest,
    /// Name or id of the bank; none: the node's default bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<String>,
}

fn default_induce() -> String {
    DEFAULT_INDUCE.to_owned()
}

/// Something in the input that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// File.
    pub path: String,
    /// Which item of the file, as its format counts them (`item 3`); null for the whole file.
    pub item: Option<String>,
    /// Why.
    pub reason: String,
}

/// A run that taught nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoLesson {
    /// The run: its digest, or file and item.
    pub run: String,
    /// Why.
    pub reason: String,
}

/// Answer of `import`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportResponse {
    /// Files read.
    pub files: u64,
    /// Runs stored for the first time.
    pub runs: u64,
    /// Lessons that are new to the bank.
    pub lessons: u64,
    /// Runs, and lessons of imported banks, that were here already.
    pub duplicates: u64,
    /// Lessons that say what another says: each is a claim on that one.
    #[serde(default)]
    pub merged: u64,
    /// Which these are and which lessons stand for them, at most [`MAX_REPLACED`].
    #[serde(default)]
    pub replaced: Vec<Replaced>,
    /// Jobs that wait for a model.
    #[serde(default)]
    pub queued: u64,
    /// What was left out.
    pub skipped: Vec<Skipped>,
    /// Runs that taught nothing.
    pub no_lesson: Vec<NoLesson>,
}

/// What an import says on its way; over HTTP one JSON object a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum ImportEvent {
    /// A file is done. Sent only after its runs and lessons are durable.
    File(ImportedFile),
    /// Bytes read so far, over all files.
    Progress {
        /// The file being read.
        path: String,
        /// Bytes done.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// The end: everything is durable.
    Done(ImportResponse),
    /// The end: it stopped. What earlier events reported is durable.
    Error(ApiError),
}

/// What one file gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// The file.
    pub path: String,
    /// Runs stored for the first time.
    pub runs: u64,
    /// Ids of the lessons that are new to the bank.
    pub lessons: Vec<String>,
    /// Runs, and lessons of imported banks, that were here already.
    pub duplicates: u64,
    /// Jobs that wait for a model.
    #[serde(default)]
    pub queued: u64,
    /// What was left out.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Runs that taught nothing.
    #[serde(default)]
    pub no_lesson: Vec<NoLesson>,
}
