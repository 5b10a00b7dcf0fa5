//! Makes lessons of what a model told, and refuses what it cannot prove.
//!
//! Each lesson has to quote at least one step, letter for letter apart from white space; the quotations stand under its
//! content, so that whoever reads it later sees what it rests on. Limits are those of every lesson. A lesson that says again
//! what its run had been given is not a new one.

use folklore_protocol::{
    Lesson, LessonDraft,
    canonical::{Lines, normalise, shorten},
    lesson::{
        LessonKind, MAX_CONDITION_BYTES, MAX_CONTENT_BYTES, MAX_DOMAIN_BYTES, MAX_TAG_BYTES, MAX_TAGS, MAX_TITLE_BYTES,
    },
};
use folklore_store::{
    learn::{self, Draft, Given},
    redact::{Classes, redact},
    run::{self, Run, RunStatus},
};

use super::answer::{ToldEvidence, ToldLesson, ToldLessons, ToldVerdict};
use super::prompt::Ask;

/// Letters that a quotation needs: fewer stand anywhere.
const MIN_QUOTE_CHARS: usize = 4;
/// Longest quotation, bytes; a longer one is a retelling.
const MAX_QUOTE_BYTES: usize = 400;
/// Quotations kept of one lesson.
const MAX_QUOTES: usize = 4;
/// Bytes of content that say anything.
const MIN_CONTENT_BYTES: usize = 30;
/// Longest content that a model may write: short enough to be read in the middle of a task, and far below a lesson's limit.
const MAX_TOLD_BYTES: usize = 3_000;

/// What an answer came to.
#[derive(Debug, Default)]
pub struct Checked {
    /// Lessons that hold.
    pub drafts: Vec<Draft>,
    /// What is wrong with the others, in words for the model; empty when all hold.
    pub problems: Vec<String>,
    /// Lessons that are no news: their run had been given them.
    pub relearned: usize,
    /// Why the model gave none, if it said so.
    pub none: Option<String>,
}

/// Checks the lessons of an answer against the runs that the prompt showed. `by` is what they will say drew them.
#[must_use]
pub fn lessons(told: ToldLessons, ask: Ask, runs: &[&Run], by: &str, given: Given<'_>) -> Checked {
    let mut out = Checked { none: told.none.filter(|why| !why.trim().is_empty()), ..Checked::default() };
    if told.lessons.len() > ask.most() {
        out.problems.push(format!("{} lessons where at most {} are wanted", told.lessons.len(), ask.most()));
    }
    for (at, lesson) in told.lessons.into_iter().take(ask.most()).enumerate() {
        match draft(lesson, ask, runs, by) {
            Ok(draft) if learn::is_relearned(&draft.fields, runs, given) => out.relearned += 1,
            Ok(draft) if out.drafts.iter().any(|old| old.fields.title == draft.fields.title) => {
                out.problems.push(format!("lesson {}: its title is that of an earlier one", at + 1));
            }
            Ok(draft) => out.drafts.push(draft),
            Err(problem) => out.problems.push(format!("lesson {}: {problem}", at + 1)),
        }
    }
    out
}

fn draft(told: ToldLesson, ask: Ask, runs: &[&Run], by: &str) -> Result<Draft, String> {
    let first = runs.first().ok_or("there is no run")?;
    // In this order: what shows nothing could hide a secret from the rules.
    let settled = |text: &str, lines| redact(&normalise(text, lines), Classes::ALL).text.into_owned();
    let one = |text: &str| settled(text, Lines::One);
    let many = |text: &str| settled(text, Lines::Many);
    let (title, content) = (one(&told.title), many(&told.content));
    let (applies_when, not_when) = (many(&told.applies_when), many(&told.not_when));
    for (name, text, most) in [
        ("title", &title, MAX_TITLE_BYTES),
        ("applies_when", &applies_when, MAX_CONDITION_BYTES),
        ("not_when", &not_when, MAX_CONDITION_BYTES),
        ("content", &content, MAX_TOLD_BYTES),
    ] {
        if text.len() > most {
            return Err(format!("its {name} has {} bytes, the limit is {most}", text.len()));
        }
    }
    if title.is_empty() || applies_when.is_empty() {
        return Err("it needs a title and an applies_when".into());
    }
    if content.len() < MIN_CONTENT_BYTES {
        return Err(format!("its content has {} bytes, too few to say what to do", content.len()));
    }
    let proof = proof(&told.evidence, ask, runs)?;
    if !is_about(&[&title, &applies_when, &content], runs, &told.evidence) {
        return Err("it would fit any task: it names nothing that the task or the quoted steps name".into());
    }
    let content = format!("{content}\n{proof}");
    let kind = match (ask, first.outcome.status) {
        (Ask::Contrast, _) => LessonKind::Contrast,
        (Ask::Procedures, _) => LessonKind::Procedure,
        (Ask::Lessons, RunStatus::Success) => LessonKind::Strategy,
        (Ask::Lessons | Ask::Judge, _) => LessonKind::Pitfall,
    };
    let task = if ask == Ask::Procedures { title.clone() } else { learn::task::general(first) };
    let mut tags: Vec<String> = first.tags.iter().map(|tag| shorten(tag, MAX_TAG_BYTES)).collect();
    tags.sort();
    tags.dedup();
    tags.truncate(MAX_TAGS);
    let fields = LessonDraft {
        kind,
        title,
        applies_when,
        not_when,
        content: shorten(&content, MAX_CONTENT_BYTES),
        task,
        domain: shorten(&first.domain, MAX_DOMAIN_BYTES),
        tags,
    };
    Lesson::new(fields.clone()).map_err(|error| error.to_string())?;
    let mut evidence = learn::evidence(runs);
    evidence.induced_by = by.to_owned();
    Ok(Draft { fields, evidence: evidence.normalised() })
}

/// The quotations, found where they are said to stand, as one line.
fn proof(told: &[ToldEvidence], ask: Ask, runs: &[&Run]) -> Result<String, String> {
    let mut shown = Vec::new();
    let (mut ok, mut failed) = (false, false);
    for one in told {
        let number = one.run.unwrap_or(1);
        let run =
            number.checked_sub(1).and_then(|at| runs.get(at)).ok_or_else(|| format!("there is no run {number}"))?;
        let quote = found(one, run)?;
        ok |= run.outcome.status == RunStatus::Success;
        failed |= run.outcome.status != RunStatus::Success;
        let pointer = if runs.len() > 1 {
            format!("[run {number} ({}) step {}]", run.outcome.status, one.step)
        } else {
            format!("[step {}]", one.step)
        };
        shown.push(format!("`{}` {pointer}", quote.replace('`', "'")));
    }
    if shown.is_empty() {
        return Err("it quotes no step: evidence is missing".into());
    }
    if ask == Ask::Contrast && !(ok && failed) {
        return Err("a contrast quotes a step of a succeeding and one of a failing run".into());
    }
    shown.truncate(MAX_QUOTES);
    Ok(format!("Seen: {}.", shown.join("; ")))
}

/// A quotation as it stands in its step.
fn found(told: &ToldEvidence, run: &Run) -> Result<String, String> {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quote = squeezed(told.quote.trim_start_matches(super::render::QUOTE));
    let step = told.step.checked_sub(1).and_then(|at| run.steps.get(at));
    let step = step.ok_or_else(|| format!("there is no step {}", told.step))?;
    if quote.chars().filter(|c| c.is_alphanumeric()).count() < MIN_QUOTE_CHARS {
        return Err(format!("the quotation {quote:?} of step {} is too short to prove anything", told.step));
    }
    if quote.len() > MAX_QUOTE_BYTES {
        return Err(format!(
            "a quotation of step {} has {} bytes: a piece of one line is wanted",
            told.step,
            quote.len()
        ));
    }
    let texts = [&step.think, &step.action, &step.observation];
    if texts.iter().any(|text| squeezed(text).contains(&quote)) {
        return Ok(quote);
    }
    Err(format!("{:?} does not stand in step {}", shorten(&quote, 80), told.step))
}

/// Whether a lesson shares words with what it is about. One that does not would fit any task.
fn is_about(texts: &[&str], runs: &[&Run], evidence: &[ToldEvidence]) -> bool {
    const LONG: usize = 5;
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| word.chars().count() >= LONG).map(str::to_lowercase).collect()
    };
    let said = words(&texts.join(" "));
    let scripts_without_spaces = texts.iter().any(|text| text.chars().any(|c| u32::from(c) >= 0x3040));
    let task = runs.iter().flat_map(|run| words(&run.task));
    let quoted = evidence.iter().flat_map(|one| words(&one.quote));
    scripts_without_spaces || task.chain(quoted).any(|word| said.contains(&word))
}

/// Puts a model's verdict into a run that has none. `by` is the model.
///
/// # Errors
/// What is wrong with the verdict, in words for the model. An unclear one is no error: the run stays without a label, and
/// false is returned.
pub fn verdict(told: &ToldVerdict, run: &mut Run, by: &str) -> Result<bool, String> {
    let status = match told.verdict.trim().to_ascii_lowercase().as_str() {
        "success" => RunStatus::Success,
        "failure" => RunStatus::Failure,
        "partial" => RunStatus::Partial,
        "unclear" => return Ok(false),
        other => return Err(format!("{:?} is no verdict: success, failure, partial or unclear", shorten(other, 40))),
    };
    if told.reason.trim().is_empty() {
        return Err("the verdict has no reason".into());
    }
    if told.evidence.is_empty() {
        return Err("the verdict quotes no step: evidence is missing".into());
    }
    let mut reason = told.reason.trim().to_owned();
    for one in &told.evidence {
        let quote = found(one, run)?;
        reason.push_str(&format!(" `{}` [step {}]", quote.replace('`', "'"), one.step));
    }
    run.outcome.status = status;
    run.outcome.reason = Some(redact(&run::clean(&reason), Classes::ALL).text.into_owned());
    run.outcome.judged_by = Some(format!("judged by {by}"));
    run.tidy();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_store::run::Step;

    fn run(status: RunStatus) -> Run {
        let step = |action: &str, observation: &str| Step {
            action: action.into(),
            observation: observation.into(),
            ..Step::default()
        };
        let mut run = Run {
            task: "Return the kettle of an order".into(),
            domain: "shop".into(),
            source: "test".into(),
            steps: vec![
                step("get_order {\"order_id\":\"#W1\"}", "{\"status\":  \"delivered\"}"),
                step("return_items {\"order_id\":\"#W1\"}", "ok, refund on its way"),
            ],
            ..Run::default()
        };
        run.outcome.status = status;
        run
    }

    fn told(step: usize, quote: &str) -> ToldLesson {
        ToldLesson {
            title: "Look at the order before return_items".into(),
            applies_when: "An item of an order is to be returned.".into(),
            not_when: "The order is still pending.".into(),
            content: "Call get_order and see that its status is delivered, then return_items.".into(),
            evidence: vec![ToldEvidence { run: None, step, quote: quote.into() }],
        }
    }

    fn check(lesson: ToldLesson, ask: Ask, runs: &[&Run]) -> Checked {
        lessons(ToldLessons { lessons: vec![lesson], none: None }, ask, runs, "openai:m", learn::NONE_GIVEN)
    }

    #[test]
    fn a_lesson_that_quotes_its_step_is_taken_and_shows_the_quotation() {
        let ok = run(RunStatus::Success);
        let checked = check(told(1, "> \"status\": \"delivered\""), Ask::Lessons, &[&ok]);
        assert_eq!(checked.problems, Vec::<String>::new());
        let Draft { fields, evidence } = &checked.drafts[0];
        assert_eq!((fields.kind, evidence.induced_by.as_str()), (LessonKind::Strategy, "openai:m"));
        assert!(fields.content.ends_with("Seen: `\"status\": \"delivered\"` [step 1]."), "{}", fields.content);
        assert_eq!(evidence.run_digest, Some(ok.digest()));
    }

    #[test]
    fn a_secret_that_invisible_characters_split_is_redacted_in_what_a_model_tells() {
        let key = format!("AKIA{}", "Q3Y7ABCDEFGH2345");
        for hidden in ['\u{200b}', '\u{2060}', '\u{ad}', '\u{1bca0}', '\u{e0041}'] {
            let split = format!("{}{hidden}{}", &key[..9], &key[9..]);
            let ok = run(RunStatus::Success);
            let mut lesson = told(1, "delivered");
            for text in [&mut lesson.title, &mut lesson.applies_when, &mut lesson.not_when, &mut lesson.content] {
                text.push_str(&format!(" It takes {split}."));
            }
            let fields = check(lesson, Ask::Lessons, &[&ok]).drafts.remove(0).fields;
            for text in [&fields.title, &fields.applies_when, &fields.not_when, &fields.content] {
                assert!(text.contains("It takes [REDACTED:aws-access-key-id]."), "{hidden:?}: {text}");
            }
            let evidence = vec![ToldEvidence { run: None, step: 2, quote: "refund on its way".into() }];
            let told = ToldVerdict { verdict: "success".into(), reason: format!("It took {split}."), evidence };
            let mut unjudged = run(RunStatus::Unknown);
            assert_eq!(verdict(&told, &mut unjudged, "m"), Ok(true));
            let reason = unjudged.outcome.reason.unwrap();
            assert!(reason.starts_with("It took [REDACTED:aws-access-key-id]."), "{hidden:?}: {reason}");
        }
    }

    #[test]
    fn what_cannot_be_proven_is_refused_in_words() {
        let ok = run(RunStatus::Success);
        let with = |change: fn(&mut ToldLesson)| {
            let mut lesson = told(1, "delivered");
            change(&mut lesson);
            lesson
        };
        for (lesson, says) in [
            (with(|l| l.evidence[0].step = 2), "does not stand in step 2"),
            (with(|l| l.evidence[0].step = 3), "no step 3"),
            (with(|l| l.evidence[0].step = 0), "no step 0"),
            (with(|l| l.evidence[0].run = Some(2)), "no run 2"),
            (with(|l| l.evidence[0].quote = "\"".into()), "too short"),
            (with(|l| l.evidence.clear()), "evidence is missing"),
            (with(|l| l.title.clear()), "title"),
            (with(|l| l.applies_when.clear()), "applies_when"),
            (with(|l| l.content = "Be careful.".into()), "too few"),
            (with(|l| l.title = "x".repeat(201)), "limit is 200"),
            (with(|l| l.content = "word ".repeat(700)), "limit is 3000"),
            (
                with(|l| {
                    l.title = "Be careful".into();
                    l.applies_when = "Always.".into();
                    l.content = "Think before you act, and check your work twice.".into();
                }),
                "fit any task",
            ),
        ] {
            let checked = check(lesson, Ask::Lessons, &[&ok]);
            assert!(checked.drafts.is_empty() && checked.problems[0].contains(says), "{says}: {:?}", checked.problems);
        }
    }

    #[test]
    fn a_contrast_quotes_both_sides() {
        let (ok, failed) = (run(RunStatus::Success), run(RunStatus::Failure));
        let mut lesson = told(1, "delivered");
        assert!(check(lesson.clone(), Ask::Contrast, &[&ok, &failed]).problems[0].contains("of a failing run"));
        lesson.evidence.push(ToldEvidence { run: Some(2), step: 2, quote: "refund on its way".into() });
        let checked = check(lesson, Ask::Contrast, &[&ok, &failed]);
        assert_eq!(checked.drafts[0].fields.kind, LessonKind::Contrast);
        assert!(checked.drafts[0].fields.content.contains("[run 2 (failure) step 2]"));
    }

    #[test]
    fn a_procedure_is_found_by_its_subquestion() {
        let ok = run(RunStatus::Success);
        let mut lesson = told(1, "delivered");
        lesson.title = "How do I see whether an order can be returned?".into();
        let fields = check(lesson, Ask::Procedures, &[&ok]).drafts.remove(0).fields;
        assert_eq!((fields.kind, fields.task), (LessonKind::Procedure, fields.title));
    }

    #[test]
    fn a_verdict_is_marked_as_judged_by_the_model_and_needs_a_step() {
        let mut unjudged = run(RunStatus::Unknown);
        let mut told = ToldVerdict { verdict: "Success".into(), reason: "It was returned.".into(), evidence: vec![] };
        assert!(verdict(&told, &mut unjudged, "openai:m").unwrap_err().contains("evidence"));
        assert_eq!(unjudged.outcome.status, RunStatus::Unknown);
        told.evidence.push(ToldEvidence { run: None, step: 2, quote: "refund on its way".into() });
        assert_eq!(verdict(&told, &mut unjudged, "openai:m"), Ok(true));
        let outcome = &unjudged.outcome;
        assert_eq!((outcome.status, outcome.judged_by.as_deref()), (RunStatus::Success, Some("judged by openai:m")));
        assert!(outcome.reason.as_ref().unwrap().contains("`refund on its way` [step 2]"));
        told.verdict = "unclear".into();
        assert_eq!(verdict(&told, &mut run(RunStatus::Unknown), "m"), Ok(false));
        told.verdict = "yes".into();
        assert!(verdict(&told, &mut run(RunStatus::Unknown), "m").unwrap_err().contains("no verdict"));
    }
}
