//! What a format makes of items: runs, lessons, and parts that are neither.

use folklore_protocol::claim::{Evidence, Outcome};
use folklore_protocol::lesson::{LessonDraft, LessonKind, MAX_CONDITION_BYTES, MAX_TAG_BYTES, MAX_TITLE_BYTES};
use folklore_store::run::{Run, clean, one_line, shorten};

/// What a lesson that came from another system's bank carries as `induced_by`: it was not drawn here.
pub const IMPORTED: &str = "imported";

/// A lesson of another system's bank.
#[derive(Debug, Clone)]
pub struct BankLesson {
    /// Format, file name and item, for people.
    pub source: String,
    /// What it says. It fits a lesson's limits.
    pub fields: LessonDraft,
    /// What the bank says it rests on; `induced_by` is [`IMPORTED`].
    pub evidence: Evidence,
}

/// One thing that came out of an item.
pub(super) enum Part {
    Run(Box<Run>),
    Lesson(Box<LessonDraft>, Box<Evidence>),
    Refused(String),
}

/// The things that came out, each with its name inside the item (`run 2`); an empty name is the item itself.
#[derive(Default)]
pub(super) struct Parts(pub(super) Vec<(String, Part)>);

impl Parts {
    pub(super) fn run(&mut self, name: impl Into<String>, run: Run) {
        self.0.push((name.into(), Part::Run(Box::new(run))));
    }

    /// A lesson; `outcome` is that of the run the bank drew it from, where the bank says.
    pub(super) fn lesson(&mut self, name: impl Into<String>, lesson: Told<'_>) {
        let (fields, evidence) = lesson.into_draft();
        self.0.push((name.into(), Part::Lesson(Box::new(fields), Box::new(evidence))));
    }

    pub(super) fn refuse(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.0.push((name.into(), Part::Refused(reason.into())));
    }
}

/// Puts together what belongs together: the lines of a session, the spans of a trace, the lines of a text.
pub(super) trait Gather {
    /// One item, or one line of a text. The error is why it is passed over.
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String>;
    /// The file ends.
    fn end(&mut self, parts: &mut Parts);
}

/// A lesson as a bank tells it, before it is brought into our fields.
pub(super) struct Told<'a> {
    pub kind: LessonKind,
    /// A line that says it; shortened visibly where it is long, because the content has all of it.
    pub title: &'a str,
    pub applies_when: &'a str,
    pub content: String,
    pub task: &'a str,
    pub domain: &'a str,
    pub tags: Vec<String>,
    /// Of the run it was drawn from, and who said so.
    pub outcome: Option<(Outcome, &'a str)>,
}

impl Default for Told<'_> {
    fn default() -> Self {
        Self {
            kind: LessonKind::Strategy,
            title: "",
            applies_when: "",
            content: String::new(),
            task: "",
            domain: "",
            tags: Vec::new(),
            outcome: None,
        }
    }
}

impl Told<'_> {
    fn into_draft(self) -> (LessonDraft, Evidence) {
        let mut evidence = Evidence::told(IMPORTED);
        if let Some((outcome, judge)) = self.outcome {
            evidence.outcome = outcome;
            evidence.attempts = u32::from(outcome != Outcome::Unknown);
            evidence.judged_by = judge.to_owned();
        }
        let content = clean(&self.content).trim().to_owned();
        let title = one_line(self.title);
        let title = if title.is_empty() { one_line(first_sentence(&content)) } else { title };
        let fields = LessonDraft {
            kind: self.kind,
            title: shorten(&title, MAX_TITLE_BYTES),
            applies_when: shorten(clean(self.applies_when).trim(), MAX_CONDITION_BYTES),
            not_when: String::new(),
            content,
            task: shorten(clean(self.task).trim(), folklore_protocol::lesson::MAX_TASK_BYTES),
            domain: shorten(&one_line(self.domain), folklore_protocol::lesson::MAX_DOMAIN_BYTES),
            tags: self.tags.iter().map(|tag| shorten(&one_line(tag), MAX_TAG_BYTES)).collect(),
        };
        (fields, evidence.normalised())
    }
}

/// A text up to the end of its first sentence, if it has one on its first line.
pub(super) fn first_sentence(text: &str) -> &str {
    let line = text.trim_start().lines().next().unwrap_or_default();
    match line.find(". ") {
        Some(end) if end > 10 => line.get(..=end).unwrap_or(line),
        _ => line,
    }
}
