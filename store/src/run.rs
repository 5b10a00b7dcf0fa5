//! A finished run in neutral form: what every importer yields and what induction reads.
//!
//! A [`Run`] carries no trace of the file format it came from except its `source` line. Its texts have been through
//! [`clean`] and are within the bounds below, so that code behind this type needs no second look at hostile input.
//!
//! [`Run::digest`] names the attempt, not the verdict: a run that was imported without a label and comes back with
//! one has the same digest. The attempt number is hashed where the format has one, because two repeats of a
//! deterministic agent can be equal word for word and are still two attempts. Where a format has no attempt number,
//! equal runs are one run.

use folklore_protocol::{
    canonical,
    claim::{Outcome, RunDigest},
};
use serde::{Deserialize, Serialize};
use std::fmt;
use unicode_normalization::UnicodeNormalization;

/// Steps kept of one run. The longest runs in public collections have a few hundred; the rest is cut and said so.
pub const MAX_STEPS: usize = 2_048;
/// Bytes kept of each of a step's three texts, of runs that come from files. Long tool output is elided in the middle, where it
/// says least. Runs recorded here keep what was acknowledged ([`crate::runs::log::MAX_STEP_BYTES`]).
pub const MAX_STEP_TEXT_BYTES: usize = 16 * 1024;
/// Bytes kept of the task in words. Issue texts with logs in them are the longest.
pub const MAX_TASK_BYTES: usize = 16 * 1024;
/// Bytes kept of a one-line field: task key, domain, agent, source, tag.
pub const MAX_LINE_BYTES: usize = 256;
/// Bytes kept of what the judge said.
pub const MAX_REASON_BYTES: usize = 4 * 1024;
/// Moves of the judge's reference solution that are kept.
pub const MAX_EXPECTED: usize = 64;
/// Tags kept of a run.
pub const MAX_TAGS: usize = 16;
/// Ids of injected lessons that are kept.
pub const MAX_INJECTED: usize = 64;

/// The context under which run digests are derived, so that no other hash of the project can equal one.
const DIGEST_CONTEXT: &str = "folklore 2026 run digest v1";

/// One `think` + `action` + `observation` of an agent. Any of the three may be empty.
///
/// An action is written in one of three ways: `name {"argument":"value"}` for a tool call (compact JSON, keys in
/// order), `respond: words` for a message to the user, or the command itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What the agent wrote for itself.
    pub think: String,
    /// What it did.
    pub action: String,
    /// What came back.
    pub observation: String,
}

/// How a run ended, as far as a real label says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The judge said it was solved.
    Success,
    /// The judge said it was not.
    Failure,
    /// The judge gave part of the reward.
    Partial,
    /// Nobody judged it.
    #[default]
    Unknown,
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        })
    }
}

impl From<RunStatus> for Outcome {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Success => Self::Success,
            RunStatus::Failure => Self::Failure,
            RunStatus::Partial => Self::Partial,
            RunStatus::Unknown => Self::Unknown,
        }
    }
}

/// The verdict on a run. Not part of the run's digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Success, failure, partial, or unknown when there is no label.
    pub status: RunStatus,
    /// The reward in thousandths, where the label is a number.
    pub reward_milli: Option<i32>,
    /// What the judge said, in words.
    pub reason: Option<String>,
    /// Who judged: a benchmark, a label table's file name, a person.
    pub judged_by: Option<String>,
    /// Moves of the judge's reference solution, written like [`Step::action`]; `None` where the label has none. An
    /// empty list is a statement: the judge expected that nothing be done.
    pub expected: Option<Vec<String>>,
    /// Words the judge looked for in the answer and did not find.
    pub missing_answers: Vec<String>,
}

/// One attempt at one task by one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Groups the runs of one task, e.g. `tau-bench/airline/3` or an instance id.
    pub task_key: String,
    /// The task in words, as the agent or its user was given it.
    pub task: String,
    /// The field of work, e.g. `airline` or `coding`; empty when unknown.
    pub domain: String,
    /// Who acted: a model or agent name; empty when the file does not say.
    pub agent: String,
    /// Which attempt at the task this was, where the format numbers them.
    pub attempt: Option<u32>,
    /// Format, file name and item, for people. No directories: they would tell where the importer keeps its files.
    pub source: String,
    /// What was done, in order.
    pub steps: Vec<Step>,
    /// The verdict.
    pub outcome: RunOutcome,
    /// Words to filter by.
    pub tags: Vec<String>,
    /// Ids of the lessons the agent had been given.
    pub injected: Vec<String>,
}

/// A digest as people see it: hexadecimal.
#[must_use]
pub fn digest_hex(digest: &RunDigest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Run {
    /// Hash of what was attempted and done: task key, task, agent, attempt number and every step. The outcome, the
    /// domain, the tags and the source are left out, because a better label, another guess at the domain or a renamed
    /// file do not make another run.
    #[must_use]
    pub fn digest(&self) -> RunDigest {
        let mut hasher = blake3::Hasher::new_derive_key(DIGEST_CONTEXT);
        // Lengths go in front of texts: without them two different splits of the same bytes would be one run.
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field(&self.task_key);
        field(&self.task);
        field(&self.agent);
        field(&self.attempt.map(|n| n.to_string()).unwrap_or_default());
        field(&self.steps.len().to_string());
        for step in &self.steps {
            field(&step.think);
            field(&step.action);
            field(&step.observation);
        }
        *hasher.finalize().as_bytes()
    }

    /// Brings every text through [`clean`] and within its bound. Importers call it once on what they built;
    /// doing it again changes nothing.
    pub fn tidy(&mut self) {
        self.tidy_to(MAX_STEP_TEXT_BYTES);
    }

    /// As [`tidy`](Self::tidy), with so many bytes kept of each of a step's three texts.
    pub fn tidy_to(&mut self, step_text_bytes: usize) {
        for line in [&mut self.task_key, &mut self.domain, &mut self.agent, &mut self.source] {
            *line = one_line(line);
        }
        self.task = elide(clean(&self.task).trim(), MAX_TASK_BYTES);
        if self.steps.len() > MAX_STEPS {
            // The end of a run is where its outcome is decided: the middle goes, visibly.
            let gone = self.steps.len() - (MAX_STEPS - 1);
            let from = MAX_STEPS / 2;
            let note = Step { observation: format!("[… {gone} steps elided …]"), ..Step::default() };
            self.steps.splice(from..from + gone, [note]);
        }
        for step in &mut self.steps {
            for text in [&mut step.think, &mut step.action, &mut step.observation] {
                *text = elide(clean(text).trim(), step_text_bytes);
            }
        }
        let outcome = &mut self.outcome;
        if let Some(reason) = &mut outcome.reason {
            *reason = elide(clean(reason).trim(), MAX_REASON_BYTES);
        }
        outcome.reason = outcome.reason.take().filter(|reason| !reason.is_empty());
        outcome.judged_by = outcome.judged_by.take().map(|judge| one_line(&judge)).filter(|judge| !judge.is_empty());
        if let Some(expected) = &mut outcome.expected {
            expected.truncate(MAX_EXPECTED);
            for step in expected {
                *step = elide(clean(step).trim(), MAX_STEP_TEXT_BYTES);
            }
        }
        outcome.missing_answers.truncate(MAX_EXPECTED);
        for answer in &mut outcome.missing_answers {
            *answer = one_line(answer);
        }
        for list in [&mut self.tags, &mut self.injected] {
            for line in list.iter_mut() {
                *line = one_line(line);
            }
            list.retain(|line| !line.is_empty());
        }
        self.tags.truncate(MAX_TAGS);
        self.injected.truncate(MAX_INJECTED);
    }

    /// A task key for formats that name no task: runs of one task share it because the task's words are equal.
    #[must_use]
    pub fn key_from_task(task: &str) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 task key v1");
        hasher.update(clean(task).trim().as_bytes());
        format!("task-{}", &hasher.finalize().to_hex()[..16])
    }
}

/// Text as the whole project keeps it: NFC, line ends `\n`, tabs kept; without terminal escape sequences, control,
/// zero-width, bidi-override, tag, private-use and noncharacters. Everything else stays as it was.
#[must_use]
pub fn clean(text: &str) -> String {
    // Most text is plain ASCII and clean; looking at bytes is many times faster than looking at characters.
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.nfc().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(c),
            // A terminal escape: `ESC [ parameters letter`, else only the ESC goes.
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                while let Some(&next) = chars.peek() {
                    if !matches!(next, '\u{20}'..='\u{7e}') {
                        break;
                    }
                    chars.next();
                    if matches!(next, '@'..='~') {
                        break;
                    }
                }
            }
            '\u{2028}' | '\u{2029}' | '\u{85}' => out.push('\n'),
            c if is_dropped(c) => {}
            c => out.push(c),
        }
    }
    // Dropping a character can bring two together that compose.
    if unicode_normalization::is_nfc(&out) { out } else { out.nfc().collect() }
}

/// What no text of a run keeps: what no lesson keeps, so that a lesson drawn from it brings no two parts together that stood
/// apart when it was redacted; and what only this or that system gives a shape.
fn is_dropped(c: char) -> bool {
    canonical::is_invisible(c)
        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{fdd0}'..='\u{fdef}')
        || (u32::from(c) & 0xfffe) == 0xfffe
}

/// [`clean`] text on one line of at most [`MAX_LINE_BYTES`], white space collapsed, cut with a visible `…`.
#[must_use]
pub fn one_line(text: &str) -> String {
    let joined = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    shorten(&joined, MAX_LINE_BYTES)
}

/// At most `max` bytes of `text`; a cut is at a character boundary, after a word where one ends near, and ends in `…`.
#[must_use]
pub fn shorten(text: &str, max: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= max {
        return text.to_owned();
    }
    let room = floor_boundary(text, max.saturating_sub(MARK.len()));
    let kept = &text[..room];
    // Prefer a word's end, unless that costs more than a quarter of the room.
    let end = kept.rfind(char::is_whitespace).filter(|&end| end * 4 >= room * 3).unwrap_or(room);
    format!("{}{MARK}", kept[..end].trim_end())
}

/// At most about `max` bytes of `text`: what is too long loses its middle, and a line in its place says how much and what
/// it hashed to, so that texts that differ only there stay different.
#[must_use]
pub fn elide(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let half = max.saturating_sub(96) / 2;
    let head = floor_boundary(text, half);
    let mut tail = text.len() - half;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let gone = &text[head..tail];
    let hash = blake3::hash(gone.as_bytes()).to_hex();
    format!("{}\n[… {} bytes elided, blake3 {} …]\n{}", &text[..head], gone.len(), &hash[..16], &text[tail..])
}

/// The largest character boundary at or below `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run() -> Run {
        Run {
            task_key: "shop/1".into(),
            task: "Cancel an order".into(),
            agent: "clerk".into(),
            steps: vec![Step { think: "look".into(), action: "get {}".into(), observation: "ok".into() }],
            ..Run::default()
        }
    }

    #[test]
    fn a_later_label_does_not_make_another_run() {
        let unlabelled = run();
        let mut labelled = run();
        labelled.outcome = RunOutcome { status: RunStatus::Failure, reward_milli: Some(0), ..RunOutcome::default() };
        labelled.source = "elsewhere".into();
        labelled.domain = "shop".into();
        assert_eq!(unlabelled.digest(), labelled.digest());
    }

    #[test]
    fn equal_repeats_with_different_attempt_numbers_are_two_runs() {
        let (mut first, mut second) = (run(), run());
        (first.attempt, second.attempt) = (Some(0), Some(1));
        assert_ne!(first.digest(), second.digest());
        assert_ne!(first.digest(), run().digest());
    }

    #[test]
    fn text_moved_between_fields_changes_the_digest() {
        let mut moved = run();
        moved.steps[0] = Step { think: "lookget {}".into(), action: String::new(), observation: "ok".into() };
        assert_ne!(moved.digest(), run().digest());
    }

    #[test]
    fn cleaning_drops_what_hides_and_keeps_what_shows() {
        assert_eq!(clean("a\u{200b}b\u{202e}c\u{0}d\u{feff}"), "abcd");
        assert_eq!(clean("one\r\ntwo\rthree\tfour"), "one\ntwo\nthree\tfour");
        assert_eq!(clean("\u{1b}[1;31mred\u{1b}[0m plain \u{1b}x"), "red plain x");
        assert_eq!(clean("e\u{301} 日本 🙂"), "é 日本 🙂");
        assert_eq!(clean("e\u{200b}\u{301}"), "é");
    }

    #[test]
    fn a_long_observation_loses_its_middle_and_says_so() {
        let long = format!("start{}end", "é".repeat(20_000));
        let short = elide(&long, MAX_STEP_TEXT_BYTES);
        assert!(short.len() <= MAX_STEP_TEXT_BYTES && short.starts_with("start") && short.ends_with("end"));
        assert!(short.contains(" bytes elided, blake3 "));
    }

    #[test]
    fn a_run_with_too_many_steps_keeps_both_ends() {
        let mut long = run();
        long.steps = (0..3_000).map(|n| Step { action: format!("move {n}"), ..Step::default() }).collect();
        long.tidy();
        assert_eq!(long.steps.len(), MAX_STEPS);
        assert_eq!(long.steps[0].action, "move 0");
        assert_eq!(long.steps[MAX_STEPS - 1].action, "move 2999");
        assert!(long.steps.iter().any(|step| step.observation == "[… 953 steps elided …]"));
    }

    proptest! {
        #[test]
        fn tidying_twice_is_tidying_once(task in ".*", think in ".{0,400}", repeat in 1_usize..200) {
            let mut once = run();
            once.task = task.repeat(repeat);
            once.steps[0].think = think.repeat(repeat);
            once.tidy();
            let mut twice = once.clone();
            twice.tidy();
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn shortening_respects_the_bound(text in ".*", max in 3_usize..100) {
            prop_assert!(shorten(&text, max).len() <= max);
        }
    }
}
