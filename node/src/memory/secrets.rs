//! Looking through a bank for secrets: what came in under older rules, or past a rule that was missing. Values are never
//! told, only where they are and of which kind.

use std::collections::BTreeMap;

use folklore_protocol::{Claim, Lesson, canonical};
use folklore_store::{
    redact::{Allow, Class, Classes, RULES_VERSION, redact},
    run::{Run, Step, digest_hex},
    runs::{MAX_RUN_BYTES, log::RunError},
};

use super::{Memory, read_failed, runs::run_failed};
use crate::api::{Answer, Check};

/// Places that are named; beyond, they are counted.
const MAX_NAMED: usize = 20;

/// What was found of one class.
#[derive(Default)]
struct Found {
    kinds: BTreeMap<&'static str, usize>,
    places: usize,
    named: Vec<String>,
}

#[derive(Default)]
struct Search {
    texts: u64,
    credentials: Found,
    personal: Found,
}

impl Search {
    fn look<'t>(&mut self, place: &dyn Fn() -> String, texts: impl IntoIterator<Item = &'t str>) {
        let mut kinds: [BTreeMap<&'static str, usize>; 2] = Default::default();
        for text in texts {
            self.texts += 1;
            for fired in redact(text, Classes::ALL).fired {
                *kinds[usize::from(fired.class == Class::Identity)].entry(fired.rule).or_default() += fired.count;
            }
        }
        for (found, kinds) in [&mut self.credentials, &mut self.personal].into_iter().zip(kinds) {
            if kinds.is_empty() {
                continue;
            }
            found.places += 1;
            if found.named.len() < MAX_NAMED {
                let names: Vec<&str> = kinds.keys().copied().collect();
                found.named.push(format!("{}: {}", place(), names.join(", ")));
            }
            kinds.into_iter().for_each(|(kind, count)| *found.kinds.entry(kind).or_default() += count);
        }
    }

    fn lesson(&mut self, lesson: &Lesson) {
        let fields = lesson.fields();
        let texts =
            [&fields.title, &fields.applies_when, &fields.not_when, &fields.content, &fields.task, &fields.domain];
        let texts = texts.into_iter().chain(&fields.tags).map(String::as_str);
        self.look(&|| format!("lesson {}", lesson.id()), texts);
    }

    fn steps<'s>(&mut self, place: &dyn Fn() -> String, steps: impl Iterator<Item = &'s Step>) {
        self.look(place, steps.flat_map(|step| [&*step.think, &*step.action, &*step.observation]));
    }

    fn run(&mut self, place: &dyn Fn() -> String, run: &Run) {
        let outcome = &run.outcome;
        let texts = [&run.task_key, &run.task, &run.domain, &run.agent, &run.source].into_iter();
        let judged = outcome.reason.iter().chain(&outcome.judged_by).chain(&outcome.missing_answers);
        let all = texts.chain(judged).chain(outcome.expected.iter().flatten()).chain(&run.tags);
        self.look(place, all.map(String::as_str));
        self.steps(place, run.steps.iter());
    }
}

impl Found {
    fn line(&self, texts: u64, advice: &str) -> String {
        if self.places == 0 {
            return format!("none in {texts} texts by rules version {RULES_VERSION}");
        }
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let more = self.places - self.named.len();
        let more = if more > 0 { format!("; and {more} more places") } else { String::new() };
        format!("{} in {} places: {}{more}. {advice}", kinds.join(", "), self.places, self.named.join("; "))
    }
}

impl Memory {
    /// Reads every text of the bank. Seconds for a hundred megabytes.
    pub(super) fn look_for_secrets(&self) -> Answer<Vec<Check>> {
        let store = &self.0.store;
        let mut search = Search::default();
        store.for_each_lesson(|lesson| search.lesson(lesson)).map_err(read_failed)?;
        for bank in store.banks() {
            let look = |record: &folklore_protocol::Record| {
                let texts: Vec<&str> = match record.claim() {
                    Claim::Taught { evidence, .. } => vec![&evidence.judged_by, &evidence.induced_by, &evidence.agent],
                    Claim::Disputed { reason, .. }
                    | Claim::Withdrawn { reason, .. }
                    | Claim::Revoked { reason, .. } => vec![reason],
                    _ => Vec::new(),
                };
                search.look(&|| format!("record {}", record.id()), texts);
            };
            store.for_each_record(&bank.id, look).map_err(read_failed)?;
        }
        for digest in store.run_digests() {
            let Some(row) = store.run(&digest).map_err(read_failed)? else { continue };
            // One that does not read is `doctor --verify`'s to tell.
            if let Ok(run) = canonical::decode::<Run, MAX_RUN_BYTES>(&row.bytes) {
                search.run(&|| format!("run {}", digest_hex(&digest)), &run);
            }
        }
        for info in store.runs_here().into_iter().filter(|run| run.ended.is_none()) {
            // By its id: a peer's run may have the name of one of this node's.
            let held = match store.checkpoint_of(&info.id) {
                Ok(held) => held,
                // It ended, or went on, while others were looked at.
                Err(RunError::Unknown(_) | RunError::Moved(_)) => continue,
                Err(error) => return Err(run_failed(error)),
            };
            let place = || format!("run {} under way", info.name);
            let texts = [&info.task, &info.task_key, &info.domain, &info.agent];
            search.look(&place, texts.into_iter().chain(&info.tags).map(String::as_str));
            let marks = held.uncertain.iter().map(|mark| &mark.what);
            search.steps(&place, held.steps.iter().map(|recorded| &recorded.step).chain(marks));
        }
        let allowed = match Allow::in_force().len() {
            0 => String::new(),
            n => format!(" ({n} values are allowed)"),
        };
        let advice = "Change what was a real secret; withdraw the lesson, and teach it again without";
        let (texts, credentials, personal) = (search.texts, &search.credentials, &search.personal);
        Ok(vec![
            Check::new("secrets", credentials.places == 0, format!("{}{allowed}", credentials.line(texts, advice))),
            // Told, and no fault: whether it is known to the readers anyway, only a person can say.
            Check::new("personal data", true, format!("{}{allowed}", personal.line(texts, "See whether it may stay"))),
        ])
    }
}
