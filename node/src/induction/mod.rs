//! Induction by a language model: what it is asked, how its answer is read and checked, and when it is asked again.
//!
//! The backend without a model, `extractive`, is [`folklore_store::learn`]. Here are the others: `openai`, `gemini` and
//! `anthropic` over HTTP, and `agent`, where the caller's own model answers the prompt that this module writes.
//!
//! ```text
//! runs ─ render ─ prompt ─→ model ─→ answer ─ check ─→ lessons that quote their steps
//!                             ↑                  │
//!                             └── objection ←────┘  once
//! ```
//!
//! A model is never waited for by whoever brings a run: each thing that is asked is a job in the bank's durable queue
//! ([`folklore_store::jobs`]), and [`worker`] works it off. What a model answers is data like any other: bounded, read
//! tolerantly, believed only where it quotes the run letter for letter. What is sent has lost what tells who and where
//! ([`crate::service::chat`]).

pub mod answer;
pub mod check;
pub mod config;
pub mod prompt;
pub mod render;
pub mod worker;

use folklore_protocol::{BankId, canonical, claim::RunDigest};
use serde::{Deserialize, Serialize};

pub use config::{InductionOptions, Target};
pub use prompt::Ask;
pub use worker::{Induction, Meter, Used};

/// The backend without a model.
pub const EXTRACTIVE: &str = "extractive";
/// The backend whose model is the caller's own.
pub const AGENT: &str = "agent";
/// Room for a job's work.
const MAX_WORK_BYTES: usize = folklore_store::jobs::MAX_WORK_BYTES;

/// What a job is to do. Its bytes are what the job is known by, so nothing stands in it that changes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The bank that gets the lessons.
    pub bank: BankId,
    /// What is asked.
    pub ask: Ask,
    /// The runs, as the bank knows them.
    pub runs: Vec<RunDigest>,
    /// Whom.
    pub target: Target,
    /// Whether a run without a label is judged first.
    pub judge: bool,
    /// Whether a success is also split into procedures.
    pub procedures: bool,
    /// Bytes of runs in the prompt.
    pub prompt_bytes: u32,
}

impl Work {
    /// Its bytes in a job.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::encode(self)
    }

    /// Reads the bytes of a job.
    ///
    /// # Errors
    /// When they are not those of a work.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        canonical::decode::<Self, MAX_WORK_BYTES>(bytes).map_err(|error| error.to_string())
    }
}

/// How runs are to be given to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Whom to ask.
    pub target: Target,
    /// Whether runs without a label are judged.
    pub judge: bool,
    /// Whether successes are split into procedures.
    pub procedures: bool,
    /// Bytes of runs in one prompt.
    pub prompt_bytes: usize,
}

impl Plan {
    /// The plan that options name.
    ///
    /// # Errors
    /// When they name no model that could be asked, in words for the user.
    pub fn of(options: &InductionOptions) -> Result<Self, String> {
        Ok(Self {
            target: options.target()?,
            judge: options.judge.unwrap_or(true),
            procedures: options.procedures.unwrap_or(false),
            prompt_bytes: options.prompt_bytes(),
        })
    }

    /// The work of asking this of these runs.
    #[must_use]
    pub fn work(&self, bank: BankId, ask: Ask, runs: Vec<RunDigest>) -> Work {
        Work {
            bank,
            ask,
            runs,
            target: self.target.clone(),
            judge: self.judge,
            procedures: self.procedures,
            prompt_bytes: u32::try_from(self.prompt_bytes).unwrap_or(u32::MAX),
        }
    }
}

impl From<&Work> for Plan {
    fn from(work: &Work) -> Self {
        Self {
            target: work.target.clone(),
            judge: work.judge,
            procedures: work.procedures,
            prompt_bytes: work.prompt_bytes as usize,
        }
    }
}
