//! Reads what a model answered.
//!
//! Models put the object they were asked for into a fence, behind a paragraph of reasoning, before a farewell, with a comma
//! too many. All that is taken. What is cut off, of another shape or empty is not: it becomes a problem in words, never a
//! lesson with a part missing.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Longest answer that is looked through, bytes. Reasoning is part of it.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Places at which an object is tried: each opening brace that is not inside an object that was read.
const MAX_TRIES: usize = 512;
/// Bytes that are looked through for what can be mended, over all tries: an answer of nothing but braces costs no more.
const MAX_MENDED_BYTES: usize = 4 * MAX_ANSWER_BYTES;

/// One lesson of an answer, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldLesson {
    /// One line that says it; for a procedure the subquestion.
    pub title: String,
    /// When to use it.
    #[serde(default)]
    pub applies_when: String,
    /// When not to.
    #[serde(default)]
    pub not_when: String,
    /// What to know or do.
    pub content: String,
    /// The steps that show it.
    #[serde(default)]
    pub evidence: Vec<ToldEvidence>,
}

/// A quotation from a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldEvidence {
    /// Which run of the prompt, from 1; of one run it need not be said.
    #[serde(default)]
    pub run: Option<usize>,
    /// Which step of it, from 1.
    pub step: usize,
    /// A piece of it, letter for letter.
    pub quote: String,
}

/// An answer to a prompt for lessons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldLessons {
    /// The lessons.
    pub lessons: Vec<ToldLesson>,
    /// Why there are none.
    #[serde(default)]
    pub none: Option<String>,
}

/// An answer to the judge's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldVerdict {
    /// `success`, `failure`, `partial` or `unclear`.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// The steps that decide it.
    #[serde(default)]
    pub evidence: Vec<ToldEvidence>,
}

/// The lessons of an answer.
///
/// # Errors
/// What is wrong with the answer, in words for the model.
pub fn lessons(text: &str) -> Result<ToldLessons, String> {
    read(text, "lessons")
}

/// The verdict of an answer.
///
/// # Errors
/// What is wrong with the answer, in words for the model.
pub fn verdict(text: &str) -> Result<ToldVerdict, String> {
    read(text, "verdict")
}

/// The last object in a text that has the field: reasoning may try out others before it.
fn read<T: DeserializeOwned>(text: &str, field: &str) -> Result<T, String> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(format!("it has {} bytes, more than the {MAX_ANSWER_BYTES} that are read", text.len()));
    }
    let text = without_thinking(text);
    let mut last: Option<Result<T, String>> = None;
    let (mut at, mut tries, mut broken) = (0, 0, false);
    let mut looked_through = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('{')) {
        let start = at + open;
        tries += 1;
        if tries > MAX_TRIES {
            break;
        }
        looked_through += text.len() - start;
        match object_at(text, start, looked_through <= MAX_MENDED_BYTES) {
            Some((value, end)) => {
                if value.get(field).is_some() {
                    last = Some(
                        T::deserialize(value)
                            .map_err(|error| format!("the object is not of the form asked for: {error}")),
                    );
                }
                at = end;
            }
            None => {
                broken = true;
                at = start + 1;
            }
        }
    }
    last.unwrap_or_else(|| {
        Err(if broken {
            format!("there is no whole JSON object with \"{field}\" in it: it is cut off or no JSON")
        } else {
            format!("there is no JSON object with \"{field}\" in it")
        })
    })
}

/// What follows the last mark that thinking is over, if there is one.
fn without_thinking(text: &str) -> &str {
    let ends = ["</think>", "</thinking>", "</reasoning>"];
    let end = ends.iter().filter_map(|mark| Some(text.rfind(mark)? + mark.len())).max();
    end.and_then(|end| text.get(end..)).unwrap_or(text)
}

/// The JSON object that begins at `start`, and where it ends; `mend`: also one that is not quite JSON.
fn object_at(text: &str, start: usize, mend: bool) -> Option<(serde_json::Value, usize)> {
    let rest = text.get(start..)?;
    let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    if let Some(Ok(value)) = stream.next() {
        return Some((value, start + stream.byte_offset()));
    }
    let len = if mend { balanced(rest)? } else { return None };
    let mended = without_loose_commas(rest.get(..len)?);
    serde_json::from_str(&mended).ok().map(|value| (value, start + len))
}

/// The length of a text up to the brace that closes its first one; `None` when none does.
fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Without commas before a closing bracket or brace, and with line breaks inside strings escaped: what models add to JSON and
/// no reader of JSON takes.
fn without_loose_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '\n' if in_string => {
                out.push_str("\\n");
                continue;
            }
            ',' if !in_string => {
                let next = chars.clone().find(|c| !c.is_whitespace());
                if matches!(next, Some('}' | ']')) {
                    continue;
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"{"lessons":[{"title":"t {1}","content":"c","evidence":[{"step":1,"quote":"q"}]}]}"#;

    #[test]
    fn what_models_put_around_the_object_is_taken() {
        let good = lessons(GOOD).unwrap();
        for text in [
            format!("```json\n{GOOD}\n```"),
            format!("Let me think. The set {{a, b}} is empty {{.\n\n{GOOD}\n\nI hope this helps {{:"),
            format!("<think>Perhaps {{\"lessons\": []}}? No.</think>{GOOD}"),
            format!("First I thought of {{\"lessons\": [], \"none\": \"x\"}} but then:\n{GOOD}"),
            r#"{"lessons":[{"title":"t {1}","content":"c","evidence":[{"step":1,"quote":"q",},],},],}"#.to_owned(),
            GOOD.replace(',', ",\n  "),
        ] {
            assert_eq!(lessons(&text), Ok(good.clone()), "{text}");
        }
        // A line break inside a string, and a comma that looks loose there.
        let broken_line = GOOD.replace("\"c\"", "\"c\nd, }\"");
        assert_eq!(lessons(&broken_line).unwrap().lessons[0].content, "c\nd, }");
    }

    #[test]
    fn what_is_broken_is_a_problem_and_no_lesson() {
        let cut = &GOOD[..GOOD.len() - 4];
        for (text, says) in [
            ("", "no JSON object"),
            ("I could not find any lesson.", "no JSON object"),
            (cut, "cut off"),
            ("{\"lesson\": []}", "no JSON object"),
            ("[]", "no JSON object"),
            ("{\"lessons\": \"none\"}", "not of the form"),
            ("{\"lessons\": [{\"title\": \"t\"}]}", "content"),
            ("{\"lessons\": [{\"title\": 7, \"content\": \"c\"}]}", "not of the form"),
            (
                "{\"lessons\": [{\"title\":\"t\",\"content\":\"c\",\"evidence\":[{\"step\":-1,\"quote\":\"q\"}]}]}",
                "not of the form",
            ),
        ] {
            let error = lessons(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(lessons(&"{".repeat(MAX_ANSWER_BYTES + 1)).unwrap_err().contains("more than"));
        assert!(verdict("{\"verdict\": \"success\"}").unwrap_err().contains("reason"));
    }

    #[test]
    fn an_answer_of_nothing_but_braces_is_given_up_soon() {
        assert!(lessons(&"{".repeat(MAX_ANSWER_BYTES)).is_err());
        assert!(lessons(&"{\"a\":".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(?s)[{}\\[\\]\",:\\\\a-z\n ]{0,400}") {
            let _ = lessons(&text);
            let _ = lessons(&format!("{text}{GOOD}"));
        }
    }
}
