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
        && !line.starts_with(['>', '#', '(', '|', '_', '!', '['])
        && !line.ends_with([';', '{', '}', ':', ','])
        && !line.contains(" = ")
        && !["from ", "import ", "File ", "return ", "def ", "class ", "Traceback", ">>>"]
            .iter()
            .any(|code| line.starts_with(code))
}

/// The words of a text without links and instance numbers.
fn words(text: &str) -> String {
    let kept = text.split_whitespace().filter(|word| !word.contains("://"));
    kept.collect::<Vec<_>>().join(" ")
}

/// An instruction to play a customer becomes a description of that customer, without ids, names and dates.
fn third_person(task: &str) -> String {
    let joined = task.split_whitespace().collect::<Vec<_>>().join(" ");
    let played = ["You ", "Your name is ", "Your user id "];
    let is_role = played.iter().any(|start| joined.starts_with(start));
    let mut out: Vec<String> = Vec::new();
    for sentence in sentences(&joined) {
        let said = match (is_role, without_introduction(sentence)) {
            (false, _) => sentence.to_owned(),
            (true, Some(sentence)) => turn(&sentence, out.is_empty()),
            (true, None) => continue,
        };
        let said = anonymous(&said);
        if said.split_whitespace().count() > 1 {
            out.push(said);
        }
    }
    out.join(" ")
}

/// Splits after `. `, `! ` and `? `.
fn sentences(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = [". ", "! ", "? "].iter().filter_map(|end| rest.find(end)).min() {
        out.push(rest[..=at].trim());
        rest = &rest[at + 2..];
    }
    out.push(rest.trim());
    out.into_iter().filter(|sentence| !sentence.is_empty()).collect()
}

/// A sentence without the words that say who plays: "You are ana_lo_3668, and you want" becomes "you want". `None` when
/// nothing else is in it, `Some` unchanged when it says nothing of the kind.
fn without_introduction(sentence: &str) -> Option<String> {
    const NAMED: &[&str] = &["Your name is ", "Your user id is ", "Your zip", "Your email", "Your birthday"];
    let starts = ["You are ", "You "].iter().chain(NAMED).find_map(|start| sentence.strip_prefix(start));
    let Some(who) = starts else { return Some(sentence.to_owned()) };
    let named = NAMED.iter().any(|start| sentence.starts_with(start));
    let mut rest = who.trim_start();
    let mut names = 0;
    loop {
        let word = rest.split(' ').next().unwrap_or_default();
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_' && c != '@');
        let is_id = (core.contains('_') && core.ends_with(|c: char| c.is_ascii_digit())) || core.contains('@');
        let is_name = core.starts_with(char::is_uppercase) && !["I", "If", "You"].contains(&core);
        let is_number = !core.is_empty() && core.chars().all(|c| c.is_ascii_digit());
        let joins = ["in", "from", "at", "zip", "code", "email", "id", "is"].contains(&core) && (names > 0 || named);
        if !(is_id || is_name || is_number || joins) {
            break;
        }
        names += usize::from(!joins);
        rest = rest[word.len()..].trim_start();
        if word.ends_with([',', '.']) {
            break;
        }
    }
    if names == 0 {
        return Some(sentence.to_owned());
    }
    let rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
    if rest.is_empty() || named {
        return (!rest.is_empty()).then(|| capital(rest));
    }
    Some(if rest.starts_with("you") { capital(rest) } else { format!("You {rest}") })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// "You want your money" becomes "They want their money".
fn turn(sentence: &str, is_first: bool) -> String {
    // After these, "you" is who something is done to.
    const TAKES_OBJECT: &[&str] = &[
        "about", "ask", "asks", "at", "by", "charge", "charges", "cost", "costs", "for", "from", "give", "gives",
        "help", "helps", "let", "lets", "of", "offer", "offers", "on", "refund", "refunds", "remind", "reminds",
        "save", "saves", "tell", "tells", "to", "told", "with",
    ];
    let mut out: Vec<String> = Vec::new();
    let mut previous = "";
    for word in sentence.split(' ') {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'');
        let said = match core {
            "You" => "They",
            "you" if TAKES_OBJECT.contains(&previous) => "them",
            "you" => "they",
            "Your" => "Their",
            "your" => "their",
            "You're" => "They're",
            "you're" => "they're",
            "yourself" => "themselves",
            "You'd" => "They'd",
            "you'd" => "they'd",
            _ => core,
        };
        previous = core;
        out.push(if said == core { word.to_owned() } else { word.replacen(core, said, 1) });
    }
    let mut text = out.join(" ");
    if text.starts_with("they ") {
        text.replace_range(..4, "They");
    }
    if let (true, Some(rest)) = (is_first, text.strip_prefix("Their ")) {
        text = format!("The user's {rest}");
    }
    if let (true, Some(rest)) = (is_first, text.strip_prefix("They ")) {
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let verb = match verb {
            "want" => "wants",
            "have" => "has",
            "are" => "is",
            "need" => "needs",
            "wish" => "wishes",
            other => other,
        };
        text = format!("The user {verb} {rest}").trim_end().to_owned();
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
            "The user wants to fly from New York to Seattle on a given day (one way). They have order, reservation and \
             paid on. If they cannot, they do not want their money."
        );
        for (task, want) in [
            ("You are Ana Lo in 19122. You received your order #W1.", "The user received their order."),
            ("You are ana_lo_2305, you currently reside in Newark.", "The user currently reside in Newark."),
            ("You are ana_lo_2305, and you want to leave.", "The user wants to leave."),
            ("You are ana_lo_2305 and want to leave.", "The user wants to leave."),
            ("You ana_lo_2305 and you want to leave.", "The user wants to leave."),
            ("You are Ana Lo (ana@example.com). You want to leave.", "The user wants to leave."),
            ("Your user id is ana_lo_2305 and you want to leave.", "The user wants to leave."),
            ("You are an angry customer. You want to leave.", "The user is an angry customer. They want to leave."),
            ("You are ana_lo_1. You accept if the agent tells you so.", "The user accept if the agent tells them so."),
            ("Book a table for two.", "Book a table for two."),
        ] {
            assert_eq!(of(task), want, "{task}");
        }
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
