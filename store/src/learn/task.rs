//! The task in general terms: what another agent with another task of the kind would ask for.
//!
//! Names, numbers and dates of the one instance go where that is easy; the words stay. This is a matter of recall, not
//! of secrecy: what must not leave a node is the business of redaction.

use crate::run::{Run, shorten};

/// Bytes of a general task. Longer texts make the embedding of the task vague.
pub const MAX_GENERAL_BYTES: usize = 600;
/// Bytes of a task's one-line name.
pub const MAX_NAME_BYTES: usize = 110;
/// Bytes of an issue's body beside its title.
const MAX_BODY_BYTES: usize = 320;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A task's one-line name: an issue's title, else its first sentence in general terms.
#[must_use]
pub fn name(run: &Run) -> String {
    let first = run.task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let first = first.trim_start_matches(['#', '*', ' ']);
    if is_issue(&run.task) {
        return shorten(&words(first), MAX_NAME_BYTES);
    }
    let general = general(run);
    let sentence = general.split_inclusive(". ").next().unwrap_or_default().trim();
    shorten(sentence.trim_end_matches('.'), MAX_NAME_BYTES)
}

/// The task in general terms, at most [`MAX_GENERAL_BYTES`].
#[must_use]
pub fn general(run: &Run) -> String {
    let text = if is_issue(&run.task) { issue(&run.task) } else { third_person(&run.task) };
    shorten(text.trim(), MAX_GENERAL_BYTES)
}

/// A text with a title line and a body, as issues have; an instruction is one paragraph.
fn is_issue(task: &str) -> bool {
    let mut lines = task.lines().filter(|line| !line.trim().is_empty());
    lines.next().is_some_and(|title| title.len() <= 200) && lines.next().is_some()
}

/// Title and the first prose of the body, without code, links and headings.
fn issue(task: &str) -> String {
    let mut lines = task.lines().map(str::trim);
    let title = lines.find(|line| !line.is_empty()).unwrap_or_default().trim_start_matches(['#', ' ']);
    let mut body = String::new();
    let mut in_code = false;
    for line in lines {
        if line.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code || body.len() >= MAX_BODY_BYTES || !is_prose(line) {
            continue;
        }
        if !body.is_empty() {
            body.push(' ');
        }
        body.push_str(&words(line));
    }
    let title = words(title);
    let end = if title.ends_with(['.', '?', '!', ':']) || body.is_empty() { "" } else { "." };
    shorten(format!("{title}{end} {body}").trim(), MAX_GENERAL_BYTES)
}

/// A line of sentences: several words, few signs, no link alone.
fn is_prose(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let all = line.chars().count();
    line.split_whitespace().count() >= 4
        && letters * 5 >= all * 4
        && !line.starts_with(['>', '#', '(', '|'])
        && !line.ends_with([';', '{', '}'])
}

/// The words of a text without links and instance numbers.
fn words(text: &str) -> String {
    let kept = text.split_whitespace().filter(|word| !word.contains("://"));
    kept.collect::<Vec<_>>().join(" ")
}

/// An instruction to play a customer becomes a description of that customer, without ids, names and dates.
fn third_person(task: &str) -> String {
    let joined = task.split_whitespace().collect::<Vec<_>>().join(" ");
    let played = ["You are ", "Your name is ", "You want ", "You have ", "Your user id "];
    let is_role = played.iter().any(|start| joined.starts_with(start));
    let mut out: Vec<String> = Vec::new();
    for sentence in sentences(&joined) {
        if is_role && introduces(sentence) {
            continue;
        }
        let said = if is_role { turn(sentence) } else { sentence.to_owned() };
        let said = anonymous(&said);
        if said.split_whitespace().count() > 1 {
            out.push(said);
        }
    }
    out.join(" ")
}

/// Splits after `. `, `! ` and `? `, and at the comma of "You are NAME, you want".
fn sentences(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(". ").or_else(|| rest.find("! ")).or_else(|| rest.find("? ")) {
        out.push(rest[..=at].trim());
        rest = &rest[at + 2..];
    }
    out.push(rest.trim());
    out.into_iter().flat_map(split_introduction).filter(|sentence| !sentence.is_empty()).collect()
}

fn split_introduction(sentence: &str) -> Vec<&str> {
    match sentence.split_once(", you ") {
        Some((before, _)) if introduces(before) => vec![sentence[before.len() + 2..].trim()],
        _ => match sentence.split_once(" and ") {
            Some((before, after)) if introduces(before) && before.split_whitespace().count() <= 4 => vec![after],
            _ => vec![sentence],
        },
    }
}

/// "You are mia_li_3668.", "You are Yusuf Rossi in 19122.", "Your name is ...", "Your user id is ...".
fn introduces(sentence: &str) -> bool {
    let sentence = sentence.trim_end_matches(['.', ',']);
    if ["Your name is", "Your user id is", "Your zip", "Your email", "Your birthday"]
        .iter()
        .any(|s| sentence.starts_with(s))
    {
        return true;
    }
    let Some(who) = sentence.strip_prefix("You are ") else { return false };
    let words: Vec<&str> = who.split_whitespace().collect();
    let is_id = |word: &str| word.contains('_') && word.ends_with(|c: char| c.is_ascii_digit());
    let capital = |word: &&str| word.starts_with(char::is_uppercase) || word.chars().all(|c| c.is_ascii_digit());
    match words.as_slice() {
        [one] => is_id(one) || capital(one),
        [first, rest @ ..] => {
            (is_id(first) || capital(first))
                && rest.iter().all(|w| capital(w) || is_id(w) || ["in", "from", "at", "zip", "code", "and"].contains(w))
        }
        [] => false,
    }
}

/// "You want your money" becomes "They want their money".
fn turn(sentence: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'');
        let said = match core {
            "You" => "They",
            "you" => "they",
            "Your" => "Their",
            "your" => "their",
            "You're" => "They're",
            "you're" => "they're",
            "yourself" => "themselves",
            "You'd" => "They'd",
            "you'd" => "they'd",
            "I'm" | "I" | "am" | "my" | "me" => core,
            _ => core,
        };
        out.push(if said == core { word.to_owned() } else { word.replacen(core, said, 1) });
    }
    let mut text = out.join(" ");
    if text.starts_with("they ") {
        text.replace_range(..4, "They");
    }
    if let Some(rest) = text.strip_prefix("They want ") {
        text = format!("The user wants {rest}");
    } else if let Some(rest) = text.strip_prefix("They have ") {
        text = format!("The user has {rest}");
    } else if let Some(rest) = text.strip_prefix("They are ") {
        text = format!("The user is {rest}");
    }
    text
}

/// Without ids, long numbers and dates.
fn anonymous(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#' && c != '_');
        let next = words.get(at + 1).map(|next| next.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_day = |next: Option<&str>| {
            next.is_some_and(|n| {
                n.trim_end_matches(|c: char| c.is_alphabetic()).parse::<u8>().is_ok_and(|d| (1..=31).contains(&d))
            })
        };
        if MONTHS.contains(&core) && is_day(next) {
            let end = words.get(at + 1).map_or("", |next| next.trim_start_matches(|c: char| c.is_alphanumeric()));
            out.push(format!("a given day{end}"));
            at += 2;
            continue;
        }
        if is_instance_word(core) {
            // The punctuation that ended the clause stays.
            let end: String = word.chars().rev().take_while(|c| matches!(c, '.' | ',' | ';' | ')')).collect();
            if let (Some(last), false) = (out.last_mut(), end.is_empty()) {
                last.extend(end.chars().rev());
            }
        } else {
            out.push((*word).to_owned());
        }
        at += 1;
    }
    out.join(" ").replace("( ", "(").replace("()", "").replace(" ,", ",").replace(",,", ",")
}

/// An order number, a reservation code, a user id, a date, a long number.
fn is_instance_word(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let is_code = digits > 0
        && letters > 0
        && word.len() >= 5
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    let is_id = word.contains('_') && digits >= 2;
    let is_number = digits >= 4 && letters == 0;
    let is_date = word.len() == 10 && word.matches('-').count() == 2 && digits == 8;
    (word.starts_with('#') && digits > 0) || is_code || is_id || is_number || is_date
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(task: &str) -> String {
        general(&Run { task: task.into(), ..Run::default() })
    }

    #[test]
    fn a_role_becomes_a_description_without_the_instance() {
        let text = of(
            "You are ana_lo_3668. You want to fly from New York to Seattle on May 20 (one way). You have order #W123, \
             reservation YAX4DR and paid on 2024-05-01. If you cannot, you do not want your money.",
        );
        assert_eq!(
            text,
            "The user wants to fly from New York to Seattle on a given day (one way). The user has order, reservation and \
             paid on. If they cannot, they do not want their money."
        );
        assert_eq!(
            of("You are Ana Lo in 19122. You received your order #W1 and wish to exchange it."),
            "They received their order and wish to exchange it."
        );
        assert_eq!(of("You are ana_lo_2305, you currently reside in Newark."), "They currently reside in Newark.");
    }

    #[test]
    fn an_issue_keeps_its_title_and_first_prose() {
        let run = Run {
            task: "Fix parse_duration() for negative durations\nDescription\n\nThe https://x.org/a defines it.\n```\ncode here is not prose\n```\nIt does not match negative values because of the sign.\nif x: y = {1};\n".into(),
            ..Run::default()
        };
        assert_eq!(
            general(&run),
            "Fix parse_duration() for negative durations. The defines it. It does not match negative values because of the sign."
        );
        assert_eq!(name(&run), "Fix parse_duration() for negative durations");
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in ["", " ", ".", "You are", "日本語のタスク", ". . .", "You are ana_lo_1, you "] {
            let _ = (of(text), name(&Run { task: text.into(), ..Run::default() }));
        }
    }
}
