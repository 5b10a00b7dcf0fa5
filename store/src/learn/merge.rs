//! Whether two lessons say the same in nearly the same words, so that the later one is a further claim on the earlier.
//!
//! Agents that reflect after every attempt write the same text again, longer by a sentence or with a clause moved. Texts of
//! one template, on the other hand, share most of their words and differ in the few that matter: the product, the file, the
//! number. A mean of word vectors puts both at the same distance, so words decide, by three rules on each text:
//!
//! - every word of the shorter that carries meaning stands in the longer too, by its stem;
//! - nearly every run of [`SHINGLE`] words of the shorter stands in the longer, so nothing was swapped or turned round;
//! - where anything was changed, both deny as often as each other, since one inserted "not" changes few runs of words, and
//!   what the shorter quotes stands in the longer between the same marks, since a search for three words is not one for two.
//!
//! One sentence in which the shorter only tells what it did ("I clicked on …") may be missing in the longer, unless the longer
//! tells something else in its place: what is to be done is the lesson.
//!
//! Measured on pairs of Reflexion reflections labelled by hand: see `node/tests/merging.rs`.

use std::collections::BTreeSet;

use folklore_protocol::lesson::LessonDraft;
use rust_stemmers::{Algorithm, Stemmer};

/// Words in a row that are compared.
const SHINGLE: usize = 5;
/// Runs of words of the shorter text that may be missing: a clause that was moved, not two words that were swapped.
const MAX_LOST: usize = 8;
/// And of a short text, one of so many.
const LOST_ONE_IN: usize = 10;
/// The shorter text has at least this share of the longer's words, in percent: more is not the same any more.
const LENGTH_MIN_PERCENT: usize = 55;
/// And this where all of it stands in the longer as it is.
const WHOLE_LENGTH_MIN_PERCENT: usize = 40;
/// Words of a sentence that may be missing.
const TOLD_WORDS_MAX: usize = 30;

/// Words that carry no meaning of their own. Words that deny are none of them.
const FUNCTION_WORDS: &[&str] = &[
    "a", "after", "again", "also", "an", "and", "are", "as", "at", "be", "been", "before", "being", "but", "by", "can",
    "could", "did", "do", "does", "done", "for", "from", "had", "has", "have", "he", "here", "how", "i", "if", "in",
    "into", "is", "it", "its", "just", "make", "may", "me", "might", "more", "most", "must", "my", "next", "of", "on",
    "only", "or", "our", "she", "should", "so", "sure", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "time", "to", "very", "was", "we", "were", "what", "when", "where", "which",
    "while", "who", "will", "with", "would", "you", "your",
];
/// Words that turn what they stand beside into its opposite.
const DENYING: &[&str] = &["not", "no", "never", "without", "cannot", "none", "nor", "neither", "except", "t"];

/// Words by which a sentence says what is to be done and not what was.
const DIRECTING: &[&str] =
    &["will", "should", "must", "need", "always", "next", "try", "would", "shall", "can", "could"];

/// A lesson's texts, taken apart once for many comparisons.
#[derive(Debug, Clone)]
pub struct Gist {
    kind: folklore_protocol::lesson::LessonKind,
    domain: String,
    /// Content, task, conditions.
    texts: [Words; 4],
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Words {
    words: Vec<String>,
    /// Stems of those that carry meaning.
    stems: BTreeSet<String>,
    denials: usize,
    /// What stands between double quotation marks, by its words.
    quoted: BTreeSet<Vec<String>>,
    /// Where sentences that only tell what the writer did begin and end among the words.
    told: Vec<(usize, usize)>,
}

impl Words {
    fn of(text: &str, stemmer: &Stemmer) -> Self {
        let quoted = text.split('"').skip(1).step_by(2).map(split).filter(|words| !words.is_empty()).collect();
        let (mut words, mut told) = (Vec::new(), Vec::new());
        for sentence in sentences(text) {
            let of = split(sentence);
            let (from, to) = (words.len(), words.len() + of.len());
            if only_tells(&of) {
                told.push((from, to));
            }
            words.extend(of);
        }
        Self { quoted, told, ..Self::plain(words, stemmer) }
    }

    fn plain(words: Vec<String>, stemmer: &Stemmer) -> Self {
        let meaning = words.iter().filter(|word| FUNCTION_WORDS.binary_search(&word.as_str()).is_err());
        let stems = meaning.map(|word| stemmer.stem(word).into_owned()).collect();
        let denials = words.iter().filter(|word| DENYING.contains(&word.as_str())).count();
        Self { words, stems, denials, quoted: BTreeSet::new(), told: Vec::new() }
    }

    fn same(&self, other: &Self) -> bool {
        if self.words == other.words {
            return true;
        }
        let (short, long) = if self.words.len() <= other.words.len() { (self, other) } else { (other, self) };
        if short.words.is_empty() || 100 * short.words.len() < WHOLE_LENGTH_MIN_PERCENT * long.words.len() {
            return false;
        }
        // Other marks may be single ones, which words have inside them, too.
        if !short.quoted.is_empty() && !long.quoted.is_empty() && !short.quoted.is_subset(&long.quoted) {
            return false;
        }
        short.stands_in(long) || short.without_what_it_told(long).is_some_and(|short| short.stands_in(long))
    }

    /// Whether the other says all that this one does.
    fn stands_in(&self, long: &Self) -> bool {
        if !self.stems.is_subset(&long.stems) {
            return false;
        }
        let runs =
            |words: &Words| -> BTreeSet<Vec<String>> { words.words.windows(SHINGLE).map(<[String]>::to_vec).collect() };
        let (ours, theirs) = (runs(self), runs(long));
        // Too short to say anything by runs of words, and not equal.
        if ours.is_empty() {
            return false;
        }
        let lost = ours.difference(&theirs).count();
        let length_min = if lost == 0 { WHOLE_LENGTH_MIN_PERCENT } else { LENGTH_MIN_PERCENT };
        100 * self.words.len() >= length_min * long.words.len()
            && lost <= MAX_LOST.min(ours.len() / LOST_ONE_IN)
            && (lost == 0 || self.denials == long.denials)
    }

    /// This text without the one sentence that tells what the other does not, where the other tells nothing that this one does not.
    fn without_what_it_told(&self, long: &Self) -> Option<Self> {
        let tells = |of: &Self, at: &(usize, usize)| of.words.get(at.0..at.1).map(<[String]>::to_vec);
        let all = |of: &Self| -> BTreeSet<Vec<String>> { of.told.iter().filter_map(|at| tells(of, at)).collect() };
        let (ours, theirs) = (all(self), all(long));
        if !theirs.is_subset(&ours) {
            return None;
        }
        let mut missing = self.told.iter().filter(|at| tells(self, at).is_some_and(|told| !theirs.contains(&told)));
        let (Some((from, to)), None) = (missing.next(), missing.next()) else { return None };
        let left = [self.words.get(..*from)?, self.words.get(*to..)?].concat();
        Some(Self::plain(left, &Stemmer::create(Algorithm::English)))
    }
}

/// A text's sentences, each with what ends it.
fn sentences(text: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), text);
    let ends = |pair: &(usize, char)| matches!(pair.1, '.' | '!' | '?' | '\n');
    while let Some((at, mark)) = rest.char_indices().find(|pair| {
        let behind = rest.get(pair.0 + pair.1.len_utf8()..).and_then(|behind| behind.chars().next());
        ends(pair) && (pair.1 == '\n' || behind.is_none_or(char::is_whitespace))
    }) {
        let (sentence, behind) = rest.split_at(at + mark.len_utf8());
        out.push(sentence);
        rest = behind;
    }
    out.push(rest);
    out
}

/// Whether a sentence tells what its writer did, and directs nobody.
fn only_tells(words: &[String]) -> bool {
    words.first().is_some_and(|word| word == "i")
        && words.len() <= TOLD_WORDS_MAX
        && !words.iter().any(|word| DIRECTING.contains(&word.as_str()))
}

/// Lower-case words. Scripts without spaces give a word a character.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        let alone = c.is_alphabetic() && !c.is_lowercase() && !c.is_uppercase();
        if c.is_alphanumeric() && !alone || c == '_' {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if alone {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

impl Gist {
    /// Of a lesson.
    #[must_use]
    pub fn of(lesson: &LessonDraft) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let texts = [&lesson.content, &lesson.task, &lesson.applies_when, &lesson.not_when];
        Self { kind: lesson.kind, domain: lesson.domain.clone(), texts: texts.map(|text| Words::of(text, &stemmer)) }
    }

    /// Whether the other says the same, of the same task and under the same conditions. Titles may differ.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.domain == other.domain
            && self.texts.iter().zip(&other.texts).all(|(ours, theirs)| ours.same(theirs))
    }
}

/// Whether `held` says nothing that `ours` does not, so that whoever wrote `ours` may put their name to it: each text, title and
/// tags included, is ours but for white space, or whole sentences of ours in a row with no denial left out. Much stricter than
/// [`Gist::same`]: a stranger who knows what will be taught here could otherwise have words of theirs signed in its place.
#[must_use]
pub fn adds_nothing(held: &LessonDraft, ours: &LessonDraft) -> bool {
    let texts = |l: &LessonDraft| {
        [&l.title, &l.content, &l.task, &l.applies_when, &l.not_when]
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    held.kind == ours.kind
        && held.domain == ours.domain
        && held.tags.iter().all(|tag| ours.tags.contains(tag))
        && texts(held).iter().zip(&texts(ours)).all(|(part, whole)| part == whole || is_part(part, whole))
}

/// Whether a text is whole sentences of another in a row, without any that was denied in between or around them.
fn is_part(part: &str, whole: &str) -> bool {
    const ENDS: [char; 7] = ['.', '!', '?', '…', '。', '！', '？'];
    const ENDS_WITHOUT_SPACE: [char; 3] = ['。', '！', '？'];
    let denials = |text: &str| split(text).iter().filter(|word| DENYING.contains(&word.as_str())).count();
    let ends = |text: &str, then: &str| {
        text.ends_with(ENDS_WITHOUT_SPACE) || (text.ends_with(ENDS) && then.starts_with(char::is_whitespace))
    };
    let stands_alone = |at: usize| {
        let (before, rest) = whole.split_at(at);
        let (said, after) = rest.split_at(part.len());
        let begins = before.is_empty() || ends(before.trim_end(), &before[before.trim_end().len()..]);
        // What comes straight after it without a space would be another word.
        begins && (after.is_empty() || ends(said, after))
    };
    !part.is_empty() && denials(part) == denials(whole) && whole.match_indices(part).any(|(at, _)| stands_alone(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_protocol::lesson::LessonKind;

    fn draft(content: &str) -> LessonDraft {
        LessonDraft {
            kind: LessonKind::Pitfall,
            title: String::new(),
            applies_when: String::new(),
            not_when: String::new(),
            content: content.into(),
            task: "ship a parcel".into(),
            domain: String::new(),
            tags: Vec::new(),
        }
    }

    fn same(a: &str, b: &str) -> bool {
        let (a, b) = (Gist::of(&draft(a)), Gist::of(&draft(b)));
        assert_eq!(a.same(&b), b.same(&a));
        a.same(&b)
    }

    const TEXT: &str = "The parcel came back because the label named the old street. Look up the address in the customer's \
        last message before the label is printed, and print the label again when the customer writes once more. The scale \
        in room 3 rounds up, so weigh the parcel in room 5 and write the weight on the form.";

    #[test]
    fn the_list_of_function_words_is_in_order() {
        assert!(FUNCTION_WORDS.is_sorted());
        assert!(DENYING.iter().all(|word| FUNCTION_WORDS.binary_search(word).is_err()));
    }

    #[test]
    fn a_text_with_a_sentence_more_or_other_marks_is_the_same() {
        assert!(same(TEXT, TEXT));
        assert!(same(TEXT, &TEXT.replace('.', ";").to_uppercase()));
        assert!(same(TEXT, &format!("{TEXT} I will also look at the stamp.")));
        assert!(same(TEXT, &TEXT.replace("so weigh", "so always weigh")));
    }

    #[test]
    fn a_sentence_that_only_tells_what_was_done_may_be_left_out_and_no_other() {
        let told = "I clicked on the parcel that looked right, but it was another one.";
        let longer = format!(
            "{TEXT} I will also look at the stamp and read what the customer wrote before, then ask a colleague who knows \
             the street."
        );
        assert!(same(&format!("{told} {TEXT}"), &longer));
        assert!(!same(&format!("Click the parcel that looks right, then the other one. {TEXT}"), &longer));
        assert!(!same(&format!("I will click the parcel that looks right. {TEXT}"), &longer));
        assert!(!same(&format!("{told} {TEXT}"), &format!("I bought a stamp. {longer}")), "it tells of something else");
    }

    #[test]
    fn what_is_quoted_is_the_same_or_the_lesson_is_another() {
        let text = |search: &str| {
            format!(
                "My search was \"blue box 4 litres\". {TEXT} Then I will search for \"{search}\" and look at the price."
            )
        };
        assert!(same(&text("blue box"), &text("blue box").replace("the price", "the price and the size")));
        assert!(!same(&text("blue box 4"), &text("blue box").replace("the price", "the price and the 4 litres")));
    }

    #[test]
    fn a_text_that_stands_whole_in_one_twice_as_long_is_the_same() {
        let more = " I will also look at the stamp and read what the customer wrote before, and ask a colleague who knows the \
            street. If the form is full, I will take another one from the drawer beside the door and write on that. Last, I \
            will put the key back.";
        assert!(same(TEXT, &format!("{TEXT}{more}")));
        assert!(!same(TEXT, &format!("{TEXT}{more}").replace("room 5", "room 7")));
    }

    #[test]
    fn another_number_word_or_order_and_a_denial_make_another_lesson() {
        for (from, to) in [
            ("room 3 rounds", "room 4 rounds"),
            ("old street", "new street"),
            ("before the label", "not before the label"),
            ("so weigh", "so never weigh"),
        ] {
            assert!(!same(TEXT, &TEXT.replace(from, to)), "{to}");
        }
        let swapped = TEXT.replace("room 3", "room x").replace("room 5", "room 3").replace("room x", "room 5");
        assert!(!same(TEXT, &swapped), "{swapped}");
        assert!(!same(TEXT, TEXT.split_once(". ").map_or("", |(first, _)| first)), "a part of it");
        assert!(!same("Use tabs", "Use spaces"));
        assert!(!same("手続きを先に確認する", "手続きを後で確認する"));
    }

    #[test]
    fn a_lesson_adds_nothing_only_if_it_is_whole_sentences_of_the_other_under_its_title() {
        let ours = draft(TEXT);
        assert!(adds_nothing(&ours, &ours));
        assert!(adds_nothing(&draft(&TEXT.replace(' ', "\n")), &ours), "white space says nothing");
        let (first, rest) = TEXT.split_once(". ").unwrap();
        let (_, last) = TEXT.rsplit_once(". ").unwrap();
        for part in [format!("{first}."), rest.to_owned(), last.to_owned()] {
            assert!(adds_nothing(&draft(&part), &ours), "{part}");
            assert!(!adds_nothing(&ours, &draft(&part)), "{part}");
        }
        for other in [
            format!("{TEXT} Then send the customer's letters to the old street."),
            TEXT.replace("before the label", "after the label"),
            TEXT.replace("named the old street", "named the old-street"),
            first.to_owned(),
            first.split_once(' ').unwrap().1.to_owned(),
            String::new(),
        ] {
            assert!(!adds_nothing(&draft(&other), &ours), "{other}");
        }
        let denied = draft("Empty the store when it is full. Never do it while a run is open.");
        assert!(!adds_nothing(&draft("Empty the store when it is full."), &denied), "what warns was left out");
        let script = draft("先に住所を確認する。ラベルを印刷する。");
        assert!(adds_nothing(&draft("ラベルを印刷する。"), &script) && !adds_nothing(&draft("印刷する。"), &script));
        for change in [
            |l: &mut LessonDraft| l.title = "Burn the parcel".into(),
            |l: &mut LessonDraft| l.task = "ship a parcel twice".into(),
            |l: &mut LessonDraft| l.applies_when = "always".into(),
            |l: &mut LessonDraft| l.not_when = "the parcel is a gift".into(),
            |l: &mut LessonDraft| l.domain = "post".into(),
            |l: &mut LessonDraft| l.kind = LessonKind::Strategy,
            |l: &mut LessonDraft| l.tags = vec!["post".into()],
        ] {
            let mut held = ours.clone();
            change(&mut held);
            assert!(!adds_nothing(&held, &ours), "{held:?}");
        }
    }

    #[test]
    fn the_same_words_about_another_task_are_another_lesson() {
        let (ours, mut theirs) = (draft(TEXT), draft(TEXT));
        assert!(Gist::of(&ours).same(&Gist::of(&theirs)));
        theirs.task = "ship a letter".into();
        assert!(!Gist::of(&ours).same(&Gist::of(&theirs)));
        theirs.task.clone_from(&ours.task);
        theirs.not_when = "the parcel is a gift".into();
        assert!(!Gist::of(&ours).same(&Gist::of(&theirs)));
        theirs.not_when.clear();
        theirs.kind = LessonKind::Strategy;
        assert!(!Gist::of(&ours).same(&Gist::of(&theirs)));
    }
}
