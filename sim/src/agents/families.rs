//! Problem families: tasks that share a trap, worded differently, and what falling into the trap teaches.
//!
//! The built-in ones are in `families.txt`. A lesson is drawn by the store's own induction ([`folklore_store::learn`]) from the
//! run that fell into the trap, after the store's own redaction, so it reads as lessons of the daemon do.

use std::{collections::BTreeMap, path::Path};

use folklore_protocol::{Lesson, LessonDraft, LessonKind, lesson::MAX_TITLE_BYTES};
use folklore_store::{
    learn,
    redact::{Classes, redact},
    run::{Run, RunOutcome, RunStatus, Step, shorten},
};

use super::tasks;

/// The built-in families.
const BUILTIN: &str = include_str!("families.txt");

/// Why there are no families to draw from.
#[derive(Debug, thiserror::Error)]
pub enum FamiliesError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unread {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It holds nothing that is a task.
    #[error("{path}: no tasks in it: a JSON array or JSON Lines of WebArena intents or tau-bench results is read")]
    NoTasks {
        /// Which.
        path: String,
    },
    /// A line of the built-in file cannot be meant.
    #[error("families.txt, line {line}: {message}")]
    Builtin {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        message: &'static str,
    },
}

/// Problems with one trap.
#[derive(Debug, Clone, Default)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Its field of work.
    pub domain: String,
    /// The tasks, each in its own words. At least one.
    pub tasks: Vec<String>,
    /// How a run falls into the trap.
    pub steps: Vec<Step>,
    /// What the judge expected instead.
    pub expected: Vec<String>,
    /// How often the trap is fallen into without a lesson, per million: all, unless real outcomes say otherwise.
    pub trap_ppm: u32,
}

impl Family {
    /// The run of an agent that was given task `task` and fell into the trap.
    pub fn failed_run(&self, task: usize) -> Run {
        let mut run = Run {
            task_key: format!("{}/{task}", self.name),
            task: self.tasks.get(task).cloned().unwrap_or_default(),
            domain: self.domain.clone(),
            agent: "simulated".into(),
            source: format!("sim {}", self.name),
            steps: self.steps.clone(),
            outcome: RunOutcome {
                status: RunStatus::Failure,
                reward_milli: Some(0),
                judged_by: Some("sim".into()),
                expected: Some(self.expected.clone()),
                ..RunOutcome::default()
            },
            ..Run::default()
        };
        clean(&mut run);
        run
    }

    /// What that run teaches.
    pub fn lesson(&self, task: usize) -> Option<Lesson> {
        let run = self.failed_run(task);
        let induced = learn::from_run(&run, learn::NONE_GIVEN);
        if let Some(lesson) = induced.lessons.first().and_then(|draft| draft.lesson().ok()) {
            return Some(lesson);
        }
        // Induction refuses what its quotes do not carry; the agent then says in a sentence what it was told.
        let told = run.outcome.expected.as_ref().and_then(|expected| expected.first());
        let told = told.map_or("change nothing here", String::as_str);
        Lesson::new(self.draft(&run, "was due", &format!("Do: {told} [judge]."))).ok()
    }

    /// A well-formed lesson on the same task that gives the trap for the remedy.
    pub fn poison(&self, task: usize) -> Option<Lesson> {
        let run = self.failed_run(task);
        let trap = self.steps.last().map_or("respond: done", |step| step.action.as_str());
        let advice = format!("Do: {trap} and report success. Nothing else was needed in any run [judge].");
        Lesson::new(self.draft(&run, "is enough", &advice)).ok()
    }

    fn draft(&self, run: &Run, says: &str, content: &str) -> LessonDraft {
        let title = format!("{} {says}: {}", self.name, learn::task::name(run));
        LessonDraft {
            kind: LessonKind::Pitfall,
            title: shorten(&title, MAX_TITLE_BYTES),
            applies_when: format!("In {}: {}", self.domain, shorten(&run.task, 400)),
            not_when: String::new(),
            content: content.into(),
            task: learn::task::general(run),
            domain: self.domain.clone(),
            tags: Vec::new(),
        }
    }
}

/// Takes out of a run what the store would take out before it is hashed or kept.
fn clean(run: &mut Run) {
    let strike = |text: &mut String| {
        let struck = redact(text, Classes::ALL).text.into_owned();
        *text = struck;
    };
    strike(&mut run.task);
    for step in &mut run.steps {
        strike(&mut step.action);
        strike(&mut step.observation);
    }
    run.outcome.expected.iter_mut().flatten().for_each(strike);
    run.tidy();
}

/// Families to draw from, and their lessons, each made once.
#[derive(Debug, Clone, Default)]
pub struct Families {
    families: Vec<Family>,
    lessons: BTreeMap<(usize, usize), Lesson>,
}

impl Families {
    /// Those that the project ships.
    pub fn builtin() -> Result<Self, FamiliesError> {
        Ok(Self { families: parse(BUILTIN)?, lessons: BTreeMap::new() })
    }

    /// Those of a file of real tasks: see [`tasks`].
    pub fn load(path: &Path) -> Result<Self, FamiliesError> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| FamiliesError::Unread { path: name.clone(), error })?;
        let families = tasks::families(&text);
        if families.is_empty() { Err(FamiliesError::NoTasks { path: name }) } else { Ok(Self::of(families)) }
    }

    /// These.
    pub fn of(families: Vec<Family>) -> Self {
        Self { families, lessons: BTreeMap::new() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.families.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// A family.
    pub fn get(&self, family: usize) -> Option<&Family> {
        self.families.get(family)
    }

    /// The lesson of the run that failed task `task` of a family.
    pub fn lesson(&mut self, family: usize, task: usize) -> Option<Lesson> {
        if let Some(lesson) = self.lessons.get(&(family, task)) {
            return Some(lesson.clone());
        }
        let lesson = self.families.get(family)?.lesson(task)?;
        self.lessons.insert((family, task), lesson.clone());
        Some(lesson)
    }
}

/// Reads `families.txt`.
fn parse(text: &str) -> Result<Vec<Family>, FamiliesError> {
    let mut families: Vec<Family> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |message| FamiliesError::Builtin { line: at + 1, message };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(task) = line.strip_prefix("- ") {
            families.last_mut().ok_or(wrong("a task before any family"))?.tasks.push(task.into());
        } else if let Some(did) = line.strip_prefix("did ") {
            let (action, observation) = did.split_once(" => ").ok_or(wrong("a step without what came back"))?;
            let step = Step { think: String::new(), action: action.into(), observation: observation.into() };
            families.last_mut().ok_or(wrong("a step before any family"))?.steps.push(step);
        } else if let Some(due) = line.strip_prefix("due ") {
            families.last_mut().ok_or(wrong("a remedy before any family"))?.expected.push(due.into());
        } else {
            let (name, domain) = line.split_once(' ').ok_or(wrong("a family without its field of work"))?;
            let (name, domain) = (name.into(), domain.into());
            families.push(Family { name, domain, trap_ppm: 1_000_000, ..Family::default() });
        }
    }
    Ok(families)
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_store::redact::fires;

    #[test]
    fn each_built_in_family_has_several_wordings_and_each_of_them_teaches() {
        let mut families = Families::builtin().unwrap();
        assert!(families.len() >= 40, "{}", families.len());
        let (mut induced, mut all) = (0, 0);
        for n in 0..families.len() {
            let family = families.get(n).unwrap().clone();
            assert!(
                family.tasks.len() >= 4 && family.steps.len() >= 2 && !family.expected.is_empty(),
                "{}",
                family.name
            );
            for task in 0..family.tasks.len() {
                let lesson = families.lesson(n, task).unwrap_or_else(|| panic!("{} {task}", family.name));
                let poison = family.poison(task).unwrap_or_else(|| panic!("{} {task}", family.name));
                assert_ne!(lesson.id(), poison.id());
                for text in [lesson.text(), poison.text()] {
                    assert_eq!(fires(&text, Classes::CREDENTIAL), None, "{text}");
                }
                all += 1;
                induced +=
                    usize::from(!learn::from_run(&family.failed_run(task), learn::NONE_GIVEN).lessons.is_empty());
            }
        }
        println!("{induced} of {all} lessons are drawn by induction");
        assert!(induced * 10 >= all * 9, "{induced} of {all}");
    }
}
