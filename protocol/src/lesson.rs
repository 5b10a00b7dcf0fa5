//! Lessons: the unit of memory, addressed by the hash of its canonical bytes.

use std::{fmt, ops::Deref, str::FromStr, sync::Arc};

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};

use crate::{
    canonical::{self, DecodeError, Lines},
    identity::ParseIdError,
};

/// Longest title, bytes.
pub const MAX_TITLE_BYTES: usize = 200;
/// Longest `applies_when` and longest `not_when`, bytes.
pub const MAX_CONDITION_BYTES: usize = 1024;
/// Longest `task`, bytes.
pub const MAX_TASK_BYTES: usize = 2048;
/// Longest `content`, bytes.
pub const MAX_CONTENT_BYTES: usize = 8192;
/// Longest `domain`, bytes.
pub const MAX_DOMAIN_BYTES: usize = 64;
/// Most tags.
pub const MAX_TAGS: usize = 16;
/// Longest tag, bytes.
pub const MAX_TAG_BYTES: usize = 64;
/// Longest canonical bytes of a lesson: all fields at their limits and their lengths, rounded up.
pub const MAX_BODY_BYTES: usize = 14 * 1024;

/// CIDv1, raw codec, blake3 multihash of 32 bytes: what stands in front of the hash.
const CID_HEADER: [u8; 4] = [0x01, 0x55, 0x1e, 0x20];

/// BLAKE3-256 of a lesson's canonical bytes. Shown as a CIDv1 (raw codec, blake3 multihash, base32), so that any
/// multiformats tool can check it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LessonId(pub [u8; 32]);

impl LessonId {
    /// The id of a body with these canonical bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for LessonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = CID_HEADER.to_vec();
        bytes.extend_from_slice(&self.0);
        write!(f, "b{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl fmt::Debug for LessonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LessonId({self})")
    }
}

impl FromStr for LessonId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError::new("lesson id", text);
        let base32 = text.strip_prefix('b').filter(|t| t.len() < 80).ok_or_else(wrong)?;
        let bytes = BASE32_NOPAD.decode(base32.to_ascii_uppercase().as_bytes()).map_err(|_| wrong())?;
        let hash = bytes.strip_prefix(&CID_HEADER).ok_or_else(wrong)?;
        Ok(Self(hash.try_into().map_err(|_| wrong())?))
    }
}

/// What a lesson was learned from, and so how it is to be read. The order of the variants is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LessonKind {
    /// From success: what to do.
    Strategy,
    /// From failure: what not to do, and when.
    Pitfall,
    /// From several runs of one task with different outcomes: what made the difference.
    Contrast,
    /// A subquestion and the subroutine that answers it.
    Procedure,
}

impl LessonKind {
    /// All kinds, in the order of their encoding.
    pub const ALL: [Self; 4] = [Self::Strategy, Self::Pitfall, Self::Contrast, Self::Procedure];

    /// The word used in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strategy => "strategy",
            Self::Pitfall => "pitfall",
            Self::Contrast => "contrast",
            Self::Procedure => "procedure",
        }
    }
}

impl fmt::Display for LessonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LessonKind {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Self::ALL.into_iter().find(|k| k.as_str() == text).ok_or_else(|| ParseIdError::new("lesson kind", text))
    }
}

/// The fields of a lesson, before or after they were checked. The order of the fields is part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonDraft {
    /// What kind of lesson.
    pub kind: LessonKind,
    /// One line that says it.
    pub title: String,
    /// When to use it.
    #[serde(default)]
    pub applies_when: String,
    /// When not to use it.
    #[serde(default)]
    pub not_when: String,
    /// What to know or do.
    pub content: String,
    /// The task in general terms; for a procedure the subquestion. A query may match this or the text.
    #[serde(default)]
    pub task: String,
    /// Where it belongs (`retail`, `coding`); may be empty.
    #[serde(default)]
    pub domain: String,
    /// Free words, a set: sorted, no repeats.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Why a draft is not a lesson.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// A field is over its limit. Nothing is cut silently: shorten the field.
    #[error("{field} has {len} {unit}, the limit is {limit}: shorten it")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What it has.
        len: usize,
        /// What it may have.
        limit: usize,
        /// `bytes` or `tags`.
        unit: &'static str,
    },
    /// A field that must say something is empty.
    #[error("{field} is empty: a lesson needs one")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Bytes that are not a lesson's canonical bytes.
    #[error("not a lesson: {0}")]
    Bytes(#[from] DecodeError),
}

/// A checked lesson: fields in normal form and within limits, with its canonical bytes and id.
#[derive(Clone)]
pub struct Lesson {
    fields: LessonDraft,
    bytes: Arc<[u8]>,
    id: LessonId,
}

impl Lesson {
    /// Brings a draft into normal form and checks it.
    pub fn new(draft: LessonDraft) -> Result<Self, LessonError> {
        let one = |t: &str| canonical::normalise(t, Lines::One);
        let many = |t: &str| canonical::normalise(t, Lines::Many);
        let mut tags: Vec<String> = draft.tags.iter().map(|t| one(t)).filter(|t| !t.is_empty()).collect();
        tags.sort();
        tags.dedup();
        let fields = LessonDraft {
            kind: draft.kind,
            title: one(&draft.title),
            applies_when: many(&draft.applies_when),
            not_when: many(&draft.not_when),
            content: many(&draft.content),
            task: many(&draft.task),
            domain: one(&draft.domain),
            tags,
        };
        check_limits(&fields)?;
        let bytes: Arc<[u8]> = canonical::encode(&fields).into();
        let id = LessonId::of(&bytes);
        Ok(Self { fields, bytes, id })
    }

    /// Reads canonical bytes. Whatever is not exactly what [`Lesson::new`] would have made is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LessonError> {
        let fields = canonical::decode::<LessonDraft, MAX_BODY_BYTES>(bytes)?;
        if !is_normal(&fields) {
            return Err(LessonError::Bytes(DecodeError::Invalid("a field is not in normal form".into())));
        }
        check_limits(&fields)?;
        Ok(Self { fields, bytes: bytes.into(), id: LessonId::of(bytes) })
    }

    /// The canonical bytes.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The hash of the canonical bytes.
    pub fn id(&self) -> LessonId {
        self.id
    }

    /// The checked fields.
    pub fn fields(&self) -> &LessonDraft {
        &self.fields
    }

    /// The text that recall indexes beside `task`: title, conditions and content.
    pub fn text(&self) -> String {
        let f = &self.fields;
        [f.title.as_str(), &f.applies_when, &f.content].join("\n")
    }
}

impl Deref for Lesson {
    type Target = LessonDraft;

    fn deref(&self) -> &LessonDraft {
        &self.fields
    }
}

impl fmt::Debug for Lesson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lesson").field("id", &self.id).field("fields", &self.fields).finish()
    }
}

impl PartialEq for Lesson {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Lesson {}

/// Whether every field is as [`Lesson::new`] leaves it.
fn is_normal(f: &LessonDraft) -> bool {
    let one = |text: &String| canonical::is_normal(text, Lines::One);
    let many = |text: &String| canonical::is_normal(text, Lines::Many);
    [&f.title, &f.domain].into_iter().all(one)
        && [&f.applies_when, &f.not_when, &f.content, &f.task].into_iter().all(many)
        && f.tags.iter().all(|tag| !tag.is_empty() && one(tag))
        && f.tags.is_sorted_by(|a, b| a < b)
}

fn check_limits(f: &LessonDraft) -> Result<(), LessonError> {
    let fields = [
        ("title", &f.title, MAX_TITLE_BYTES),
        ("applies_when", &f.applies_when, MAX_CONDITION_BYTES),
        ("not_when", &f.not_when, MAX_CONDITION_BYTES),
        ("content", &f.content, MAX_CONTENT_BYTES),
        ("task", &f.task, MAX_TASK_BYTES),
        ("domain", &f.domain, MAX_DOMAIN_BYTES),
    ];
    for (field, text, limit) in fields {
        if text.len() > limit {
            return Err(LessonError::TooLong { field, len: text.len(), limit, unit: "bytes" });
        }
    }
    for (field, text) in [("title", &f.title), ("content", &f.content)] {
        if text.is_empty() {
            return Err(LessonError::Empty { field });
        }
    }
    if f.tags.len() > MAX_TAGS {
        return Err(LessonError::TooLong { field: "tags", len: f.tags.len(), limit: MAX_TAGS, unit: "tags" });
    }
    if let Some(tag) = f.tags.iter().find(|t| t.len() > MAX_TAG_BYTES) {
        return Err(LessonError::TooLong { field: "a tag", len: tag.len(), limit: MAX_TAG_BYTES, unit: "bytes" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draft(title: &str, content: &str) -> LessonDraft {
        LessonDraft {
            kind: LessonKind::Pitfall,
            title: title.into(),
            applies_when: String::new(),
            not_when: String::new(),
            content: content.into(),
            task: "refund an order".into(),
            domain: "retail".into(),
            tags: vec!["b".into(), "a".into(), " a ".into()],
        }
    }

    #[test]
    fn the_same_lesson_written_in_two_ways_has_one_id() {
        let a = Lesson::new(draft("caf\u{e9}", "one\r\ntwo ")).unwrap();
        let b = Lesson::new(draft(" cafe\u{301}", "one\ntwo")).unwrap();
        assert_eq!(a.id(), b.id());
        assert_eq!(a.tags, ["a", "b"]);
    }

    #[test]
    fn the_shown_id_is_a_cid_that_other_tools_read() {
        let lesson = Lesson::new(draft("t", "c")).unwrap();
        let cid: cid::Cid = lesson.id().to_string().parse().unwrap();
        assert_eq!((cid.codec(), cid.hash().code()), (0x55, 0x1e));
        assert_eq!(cid.hash().digest(), blake3::hash(lesson.bytes()).as_bytes());
        assert_eq!(lesson.id().to_string().parse::<LessonId>(), Ok(lesson.id()));
    }

    #[test]
    fn a_field_over_its_limit_is_named_and_nothing_is_cut() {
        let error = Lesson::new(draft(&"x".repeat(201), "c")).unwrap_err();
        assert_eq!(error.to_string(), "title has 201 bytes, the limit is 200: shorten it");
        let mut many = draft("t", "c");
        many.tags = (0..17).map(|n| format!("tag{n}")).collect();
        assert!(matches!(Lesson::new(many), Err(LessonError::TooLong { field: "tags", len: 17, .. })));
        assert!(matches!(Lesson::new(draft("\u{200b}", "c")), Err(LessonError::Empty { field: "title" })));
    }

    #[test]
    fn a_lesson_with_every_field_at_its_limit_fits_the_body_limit() {
        let lesson = Lesson::new(LessonDraft {
            kind: LessonKind::Strategy,
            title: "t".repeat(MAX_TITLE_BYTES),
            applies_when: "a".repeat(MAX_CONDITION_BYTES),
            not_when: "n".repeat(MAX_CONDITION_BYTES),
            content: "c".repeat(MAX_CONTENT_BYTES),
            task: "k".repeat(MAX_TASK_BYTES),
            domain: "d".repeat(MAX_DOMAIN_BYTES),
            tags: (0..MAX_TAGS).map(|n| format!("{n:0>width$}", width = MAX_TAG_BYTES)).collect(),
        })
        .unwrap();
        assert_eq!(Lesson::from_bytes(lesson.bytes()).unwrap(), lesson);
    }

    #[test]
    fn bytes_that_are_not_in_normal_form_are_refused() {
        let mut fields = Lesson::new(draft("t", "c")).unwrap().fields().clone();
        fields.title = "t\u{202e}".into();
        assert!(Lesson::from_bytes(&canonical::encode(&fields)).is_err());
    }

    proptest! {
        #[test]
        fn every_lesson_reads_back_from_its_bytes(title in "\\PC{1,30}", content in "(\\PC|\n){1,200}") {
            if let Ok(lesson) = Lesson::new(draft(&title, &content)) {
                let back = Lesson::from_bytes(lesson.bytes()).unwrap();
                prop_assert_eq!(back.fields(), lesson.fields());
            }
        }

        #[test]
        fn a_flipped_byte_is_another_lesson_or_none(at in 0usize..60, bit in 0u8..8) {
            let lesson = Lesson::new(draft("title of it", "content of the lesson, long enough to flip")).unwrap();
            let mut bytes = lesson.bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Ok(other) = Lesson::from_bytes(&bytes) {
                prop_assert_ne!(other.id(), lesson.id());
            }
        }
    }
}
