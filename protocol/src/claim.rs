//! Claims: what an author states about lessons, and what an owner states about a bank.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    bank::Policy,
    canonical::{self, DecodeError, Lines},
    identity::{AuthorId, ParseIdError},
    lesson::LessonId,
};

/// Longest reason in a claim, bytes.
pub const MAX_REASON_BYTES: usize = 1024;
/// Longest name of an agent, judge or induction backend, bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Most lessons that evidence may say a run had been given.
pub const MAX_INJECTED: usize = 32;

/// BLAKE3 of a run, as the store computes it; links a claim to the run it came from without telling the run.
pub type RunDigest = [u8; 32];

/// How a run ended. The order of the variants is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// It did not.
    Failure,
    /// Some of it; for several runs of one task: some of them did.
    Partial,
    /// Nobody said.
    Unknown,
}

impl Outcome {
    /// The word used in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Outcome {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        [Self::Success, Self::Failure, Self::Partial, Self::Unknown]
            .into_iter()
            .find(|o| o.as_str() == text)
            .ok_or_else(|| ParseIdError::new("outcome", text))
    }
}

/// What a lesson did for a run that was given it. The order of the variants is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The run did better for it.
    Helped,
    /// The run did worse for it.
    Hurt,
}

impl FromStr for Verdict {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        match text {
            "helped" => Ok(Self::Helped),
            "hurt" => Ok(Self::Hurt),
            _ => Err(ParseIdError::new("verdict (helped or hurt)", text)),
        }
    }
}

/// What a teaching rests on. The order of the fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// How the run ended, or [`Outcome::Partial`] for runs of one task with both outcomes.
    pub outcome: Outcome,
    /// Reward in thousandths (1000 is a full success), the mean over attempts; `None` where nobody gave one.
    pub reward_milli: Option<i32>,
    /// Runs the lesson was drawn from.
    pub attempts: u32,
    /// Who judged: a label file, a benchmark, a person, a model. May be empty.
    pub judged_by: String,
    /// What drew the lesson: `extractive`, a model's name, `agent`, `person`.
    pub induced_by: String,
    /// The run, or for several the digest of their sorted digests.
    pub run_digest: Option<RunDigest>,
    /// Which agent ran. May be empty.
    pub agent: String,
    /// Lessons the run had been given, sorted, so that a lesson is not learned again from its own injection.
    pub injected: Vec<LessonId>,
}

impl Evidence {
    /// Evidence of a lesson that somebody wrote down, with no run behind it.
    pub fn told(by: &str) -> Self {
        Self {
            outcome: Outcome::Unknown,
            reward_milli: None,
            attempts: 0,
            judged_by: String::new(),
            induced_by: canonical::shorten(&canonical::normalise(by, Lines::One), MAX_NAME_BYTES),
            run_digest: None,
            agent: String::new(),
            injected: Vec::new(),
        }
    }

    /// Brings names into normal form and within limits, and sorts `injected`. These are labels this node writes itself,
    /// so a long one is shortened visibly; what a stranger wrote is never changed.
    pub fn normalised(mut self) -> Self {
        for name in [&mut self.judged_by, &mut self.induced_by, &mut self.agent] {
            *name = canonical::shorten(&canonical::normalise(name, Lines::One), MAX_NAME_BYTES);
        }
        self.injected.sort();
        self.injected.dedup();
        self.injected.truncate(MAX_INJECTED);
        self
    }

    fn check(&self) -> Result<(), DecodeError> {
        canonical::check_text("judged_by", &self.judged_by, MAX_NAME_BYTES, Lines::One)?;
        canonical::check_text("induced_by", &self.induced_by, MAX_NAME_BYTES, Lines::One)?;
        canonical::check_text("agent", &self.agent, MAX_NAME_BYTES, Lines::One)?;
        canonical::check_set("injected", &self.injected, MAX_INJECTED)
    }
}

/// What an author states. The order of the variants is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// Taught a lesson, with evidence.
    Taught {
        /// The lesson.
        lesson_id: LessonId,
        /// What it rests on.
        evidence: Evidence,
    },
    /// Used a lesson, and it helped or hurt.
    Rated {
        /// The lesson.
        lesson_id: LessonId,
        /// Helped or hurt.
        verdict: Verdict,
        /// The run it was used in, where known.
        run: Option<RunDigest>,
    },
    /// Says a lesson is wrong. Marks it, does not delete it.
    Disputed {
        /// The lesson.
        lesson_id: LessonId,
        /// Why.
        reason: String,
    },
    /// Voids the author's own teaching; by the owner or a curator, the lesson.
    Withdrawn {
        /// The lesson.
        lesson_id: LessonId,
        /// Why.
        reason: String,
    },
    /// Vouches for a lesson; by a curator, shows it in a curated bank.
    Endorsed {
        /// The lesson.
        lesson_id: LessonId,
    },
    /// The owner sets the bank's policy.
    Policy(Policy),
    /// The owner shuts an author out: its records after `keep_through_seq` count for nothing.
    Revoked {
        /// The author shut out.
        author: AuthorId,
        /// The last seq that still counts; 0 for none.
        keep_through_seq: u64,
        /// Why.
        reason: String,
    },
    /// The author goes on under another key. Counts once that key says so too ([`Claim::Succeeds`]): nobody can tie its own
    /// standing to a key that is not its own.
    Rotated {
        /// The new key.
        new_author: AuthorId,
    },
    /// The author is the new key of another, which has said [`Claim::Rotated`].
    Succeeds {
        /// The old key.
        old_author: AuthorId,
    },
}

impl Claim {
    /// The lesson the claim is about, if it is about one.
    pub fn lesson_id(&self) -> Option<LessonId> {
        match self {
            Self::Taught { lesson_id, .. }
            | Self::Rated { lesson_id, .. }
            | Self::Disputed { lesson_id, .. }
            | Self::Withdrawn { lesson_id, .. }
            | Self::Endorsed { lesson_id } => Some(*lesson_id),
            Self::Policy(_) | Self::Revoked { .. } | Self::Rotated { .. } | Self::Succeeds { .. } => None,
        }
    }

    /// The body that must travel with the record, if any.
    pub fn body(&self) -> Option<LessonId> {
        match self {
            Self::Taught { lesson_id, .. } => Some(*lesson_id),
            _ => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::Taught { evidence, .. } => evidence.check(),
            Self::Disputed { reason, .. } | Self::Withdrawn { reason, .. } | Self::Revoked { reason, .. } => {
                canonical::check_text("reason", reason, MAX_REASON_BYTES, Lines::Many)
            }
            Self::Policy(policy) => policy.check(),
            Self::Rated { .. } | Self::Endorsed { .. } | Self::Rotated { .. } | Self::Succeeds { .. } => Ok(()),
        }
    }
}
