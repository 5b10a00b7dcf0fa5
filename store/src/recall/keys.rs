//! What of a lesson is indexed.

use folklore_protocol::lesson::LessonDraft;

/// The two keys of a lesson: its task, and its text (title, when it applies, content, domain and tags).
///
/// `not_when` is no key: whoever asks in its words is the one for whom the lesson is not.
#[must_use]
pub fn keys(lesson: &LessonDraft) -> (String, String) {
    let tags = lesson.tags.join(" ");
    let parts = [&lesson.title, &lesson.applies_when, &lesson.content, &lesson.domain, &tags];
    let text = parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n");
    (lesson.task.clone(), text)
}
