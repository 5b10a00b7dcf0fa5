//! Import: finished runs from files into the bank, and what they teach.
//!
//! Lessons that another system drew come with some formats; they are taught as they are, with `imported` as their origin.
//!
//! A run and the lessons it teaches by itself are written as one atomic group, so an import that is killed can simply be
//! repeated: what is there counts as a duplicate, the rest follows. Contrasts, which need all runs of a task, are drawn when
//! the files are done, from what the store then holds of each task.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use folklore_protocol::{
    BankId, Claim, Lesson, LessonError, Outcome, RunDigest,
    canonical::{self, Lines},
};
use folklore_store::{
    bank::{BankInfo as StoreBank, Batch},
    learn::{self, Draft, Induced},
    run::{Run, digest_hex},
    runs::{MAX_RUN_BYTES, RunOutcome, RunRow},
};
use tokio::sync::mpsc;

use super::{
    Memory,
    induce::Backend,
    merge::{Fresh, taught},
    read_failed,
    teach::{Struck, brief},
};
use crate::{
    api::{self, Answer, ApiError, ImportEvent, ImportedFile},
    formats::{self, BankLesson, FileError, Item, Outcomes, ReadOptions},
    induction::{Ask, Work, prompt},
};

/// Runs and lessons of one group.
const GROUP_ITEMS: usize = 64;
/// Bytes of runs in one group, about.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Runs of one task that a contrast is drawn from; the first of each outcome by digest.
const MAX_CONTRASTED: usize = 64;
/// Bytes of the runs that are read at once to be compared: at the least two of the longest, one of each outcome.
pub(super) const MAX_COMPARED_BYTES: u64 = 2 * MAX_RUN_BYTES as u64;
/// Reports of things left out that one answer carries; beyond, they are counted.
const MAX_REPORTED: usize = 10_000;

/// Bytes of one file between two reports of how far it is.
const PROGRESS_BYTES: u64 = 1024 * 1024;

impl Memory {
    pub(super) fn import_now(
        &self,
        request: api::ImportRequest,
        events: &mpsc::Sender<ImportEvent>,
    ) -> Answer<api::ImportResponse> {
        let backend = self.backend(&request.induce, &request.model)?;
        if request.paths.is_empty() {
            return Err(ApiError::bad_request("name at least one file or directory"));
        }
        if let Some(path) = request.paths.iter().chain(&request.outcomes).find(|p| !p.is_absolute()) {
            return Err(ApiError::bad_request(format!("'{}' is not an absolute path", brief(&path.to_string_lossy()))));
        }
        let missing: Vec<&PathBuf> = request.paths.iter().filter(|path| fs::metadata(path).is_err()).collect();
        if missing.len() == request.paths.len() {
            // Among others that are there it is skipped and named; alone it is a mistyped command.
            let named = missing.first().map(|path| brief(&path.to_string_lossy())).unwrap_or_default();
            let others = missing.len() - 1;
            let more = if others > 0 { format!(", nor any of the {others} other paths") } else { String::new() };
            return Err(ApiError::not_found(format!(
                "there is no '{named}' that can be read{more}: nothing was imported"
            )));
        }
        let bank = self.bank(request.bank.as_deref())?;
        self.check_may_write(&bank)?;
        let format = request.format.as_deref().map(formats::by_name).transpose();
        let format = format.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let outcomes = request.outcomes.as_deref().map(Outcomes::read).transpose();
        let outcomes = outcomes.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let position = Cell::new(0);
        let options = ReadOptions { format, outcomes: outcomes.as_ref(), position: Some(&position) };

        let found = formats::expand(&request.paths);
        let size = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
        let total_bytes: u64 = found.iter().map(|f| size(&f.path)).sum();
        let (done, tasks) = (api::ImportResponse::default(), BTreeSet::new());
        let mut import = Import { memory: self, bank, backend, events, total_bytes, done_bytes: 0, done, tasks };
        let mut fruitless: Vec<&PathBuf> = request.paths.iter().filter(|path| path.is_dir()).collect();
        for entry in found {
            if entry.walked && entry.problem.as_ref().is_some_and(FileError::is_side_file) {
                continue; // A label table or the like beside the runs; nobody named it.
            }
            if matches!(entry.problem, Some(FileError::NoFiles { .. })) {
                continue; // Said below, together with directories that hold only such.
            }
            let path = entry.path.display().to_string();
            position.set(0);
            if !import.progress(&path, 0) {
                break; // The client has gone. What is done is durable; the rest can be imported again.
            }
            let mut file = ImportedFile { path: path.clone(), ..ImportedFile::default() };
            let (error, stopped) = match &entry.problem {
                Some(_) => (None, false),
                None => import.read(&entry.path, &options, &mut file)?,
            };
            match error.as_ref().or(entry.problem.as_ref()) {
                Some(error) if entry.passes_over(error) => continue,
                Some(error) => file.skipped.push(api::Skipped { path, item: None, reason: error.to_string() }),
                None => {}
            }
            fruitless.retain(|dir| !entry.path.starts_with(dir));
            import.done_bytes += size(&entry.path);
            import.count(&file);
            if stopped || events.blocking_send(ImportEvent::File(file)).is_err() {
                break;
            }
        }
        for dir in fruitless {
            let reason = FileError::NoFiles { file: formats::file_name(dir) }.to_string();
            import.done.skipped.push(api::Skipped { path: dir.display().to_string(), item: None, reason });
        }
        import.contrast(events)?;
        Ok(import.done)
    }
}

/// Runs and lessons that are written together.
#[derive(Default)]
struct Group {
    runs: Vec<Run>,
    lessons: Vec<BankLesson>,
    /// Of the runs' steps, about.
    bytes: usize,
}

struct Import<'m> {
    memory: &'m Memory,
    bank: StoreBank,
    backend: Backend,
    events: &'m mpsc::Sender<ImportEvent>,
    /// Of all files.
    total_bytes: u64,
    /// Of the files that are done.
    done_bytes: u64,
    done: api::ImportResponse,
    /// Tasks that got a run or a label, for the contrasts.
    tasks: BTreeSet<String>,
}

impl Import<'_> {
    /// Says how far the import is; false when nobody listens any more.
    fn progress(&self, path: &str, position: u64) -> bool {
        let (done_bytes, total_bytes) = (self.done_bytes + position, self.total_bytes);
        self.events.blocking_send(ImportEvent::Progress { path: path.to_owned(), done_bytes, total_bytes }).is_ok()
    }

    /// Reads a file to its end; what stopped the reading before that, if something did, and whether the client has gone.
    fn read(
        &mut self,
        path: &Path,
        options: &ReadOptions<'_>,
        file: &mut ImportedFile,
    ) -> Answer<(Option<FileError>, bool)> {
        let mut group = Group::default();
        let (mut failure, mut stopped, mut told) = (None, false, 0);
        let shown = file.path.clone();
        let result = formats::read_path(path, options, &mut |item| {
            match item {
                Item::Skipped { .. } if file.skipped.len() >= MAX_REPORTED => {}
                Item::Skipped { item, reason } => {
                    file.skipped.push(api::Skipped { path: shown.clone(), item: Some(item), reason });
                }
                Item::Lesson(lesson) => group.lessons.push(*lesson),
                Item::Run(mut run) => {
                    clean_run(&mut run);
                    let bytes = run.steps.iter().map(|s| s.think.len() + s.action.len() + s.observation.len());
                    group.bytes += bytes.sum::<usize>();
                    group.runs.push(*run);
                }
            }
            if group.runs.len() + group.lessons.len() >= GROUP_ITEMS || group.bytes >= GROUP_BYTES {
                if let Err(error) = self.write(std::mem::take(&mut group), file) {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
                let position = options.position.map_or(0, Cell::get);
                if position >= told + PROGRESS_BYTES {
                    told = position;
                    if !self.progress(&shown, position) {
                        stopped = true;
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(error) = failure {
            return Err(error);
        }
        self.write(group, file)?;
        Ok((result.err(), stopped))
    }

    /// Writes runs, with what each teaches by itself, and lessons, as one group.
    fn write(&mut self, group: Group, file: &mut ImportedFile) -> Answer<()> {
        let Group { runs, lessons, .. } = group;
        let mut rows = Vec::new();
        let mut fresh: Vec<Run> = Vec::new();
        let mut seen = BTreeSet::new();
        for run in runs {
            let digest = in_bank(&self.bank.id, &run.digest());
            let outcome = Outcome::from(run.outcome.status);
            self.tasks.insert(run.task_key.clone());
            let known = self.memory.0.store.run_outcome(&digest);
            let is_news = known.is_none() || (known == Some(Outcome::Unknown) && outcome != Outcome::Unknown);
            if !is_news || !seen.insert(digest) {
                file.duplicates += 1;
                continue;
            }
            let bytes = canonical::encode(&run);
            if bytes.len() > MAX_RUN_BYTES {
                file.skipped.push(api::Skipped {
                    path: file.path.clone(),
                    item: Some(run.source.clone()),
                    reason: format!("the run has {} bytes, the limit is {MAX_RUN_BYTES}", bytes.len()),
                });
                continue;
            }
            rows.push(RunRow { digest, task_key: task_in_bank(&self.bank.id, &run.task_key), outcome, bytes });
            fresh.push(run);
        }
        let mut works = Vec::new();
        let induced = self.drawn(&rows, &fresh, &mut works);
        let mut known = Fresh::default();
        let mut claims = self.claims(induced, &fresh, &mut known, &mut file.no_lesson);
        file.no_lesson.truncate(MAX_REPORTED);
        self.imported(lessons, &mut known, &mut claims, file);
        let batch = Batch { claims, runs: rows, skip_if_taught: true };
        let (records, outcomes, queued) = self.memory.write_queued(&self.bank.id, batch, &works)?;
        match queued {
            Ok(jobs) => file.queued += jobs.len() as u64,
            Err(error) => file.no_lesson.extend(
                fresh
                    .iter()
                    .take(MAX_REPORTED)
                    .map(|run| api::NoLesson { run: run.source.clone(), reason: error.to_string() }),
            ),
        }
        for outcome in outcomes {
            match outcome {
                RunOutcome::Stored | RunOutcome::Relabelled => file.runs += 1,
                RunOutcome::Duplicate => file.duplicates += 1,
            }
        }
        file.lessons.extend(records.iter().filter_map(|r| r.claim().body()).map(|id| id.to_string()));
        Ok(())
    }

    /// What runs teach by themselves, or what is to be asked of a model about them.
    fn drawn(&self, rows: &[RunRow], runs: &[Run], works: &mut Vec<Work>) -> Induced {
        match &self.backend {
            Backend::Extractive => learn::separately(runs, &|id| self.memory.given(id)),
            Backend::Agent => left(runs, "it waits for the agent's own model: 'folklore induce RUN --backend agent'"),
            Backend::None => left(runs, "no backend was wanted: 'folklore induce RUN' draws from it later"),
            Backend::Model(plan) => {
                let mut unasked = Induced::default();
                for (row, run) in rows.iter().zip(runs) {
                    let asked = Memory::works(plan, self.bank.id, row.digest, run.outcome.status);
                    if asked.is_empty() {
                        unasked.no_lesson.extend(left(std::slice::from_ref(run), UNJUDGED).no_lesson);
                    }
                    works.extend(asked);
                }
                unasked
            }
        }
    }

    /// Claims on lessons of other banks.
    fn imported(
        &mut self,
        lessons: Vec<BankLesson>,
        known: &mut Fresh,
        claims: &mut Vec<(Claim, Option<Lesson>)>,
        file: &mut ImportedFile,
    ) {
        for BankLesson { source, mut fields, mut evidence } in lessons {
            let mut struck = Struck::default();
            struck.clean_draft(&mut fields);
            struck.settle(&mut evidence.agent, Lines::One);
            struck.settle(&mut evidence.judged_by, Lines::One);
            match Lesson::new(fields) {
                Ok(lesson) if self.memory.has_spoken(&self.bank.id, &lesson) || taught(claims, &lesson.id()) => {
                    file.duplicates += 1;
                }
                Ok(lesson) => {
                    let Some(lesson) = self.merged(lesson, known, claims) else { continue };
                    let claim = Claim::Taught { lesson_id: lesson.id(), evidence: evidence.normalised() };
                    claims.push((claim, Some(lesson)));
                }
                // Redaction can make a text longer than it was.
                Err(error) => file.skipped.push(api::Skipped {
                    path: file.path.clone(),
                    item: Some(source),
                    reason: error.to_string(),
                }),
            }
        }
    }

    /// The lesson that a claim is to be made on; `None` if this node makes it already.
    fn merged(&mut self, lesson: Lesson, known: &mut Fresh, claims: &[(Claim, Option<Lesson>)]) -> Option<Lesson> {
        let mut replaced = Vec::new();
        let held = self.memory.merged(&self.bank.id, lesson, known, claims, &mut replaced);
        self.replaced(replaced);
        held
    }

    fn replaced(&mut self, replaced: Vec<api::Replaced>) {
        self.done.merged += replaced.len() as u64;
        let room = api::MAX_REPLACED.saturating_sub(self.done.replaced.len());
        self.done.replaced.extend(replaced.into_iter().take(room));
    }

    fn claims(
        &mut self,
        induced: Induced,
        runs: &[Run],
        known: &mut Fresh,
        no_lesson: &mut Vec<api::NoLesson>,
    ) -> Vec<(Claim, Option<Lesson>)> {
        let digests: BTreeMap<&str, String> =
            runs.iter().map(|r| (r.source.as_str(), digest_hex(&r.digest()))).collect();
        for none in induced.no_lesson {
            let run = match digests.get(none.run.as_str()) {
                Some(digest) => format!("{} ({})", none.run, &digest[..16]),
                None => none.run,
            };
            no_lesson.push(api::NoLesson { run, reason: none.reason });
        }
        let mut problems = Vec::new();
        let (claims, replaced) = self.memory.claims_of(&self.bank.id, induced.lessons, known, &mut problems);
        self.replaced(replaced);
        no_lesson.extend(problems.into_iter().map(|reason| api::NoLesson { run: String::new(), reason }));
        claims
    }

    /// Draws the contrasts of every task that this import touched.
    fn contrast(&mut self, events: &mpsc::Sender<ImportEvent>) -> Answer<()> {
        let together = self.contrasts()?;
        if together.lessons.is_empty() && together.no_lesson.is_empty() && together.queued == 0 {
            return Ok(());
        }
        self.count(&together);
        self.done.files -= 1; // It is no file.
        // Nobody may be listening any more; it is durable all the same.
        let _ = events.blocking_send(ImportEvent::File(together));
        Ok(())
    }

    fn contrasts(&mut self) -> Answer<ImportedFile> {
        let mut together = ImportedFile { path: "(runs of one task together)".into(), ..ImportedFile::default() };
        for task in std::mem::take(&mut self.tasks) {
            let task = task_in_bank(&self.bank.id, &task);
            match &self.backend {
                Backend::Extractive => {}
                Backend::Agent | Backend::None => break,
                Backend::Model(plan) => {
                    let group = self.memory.both_outcomes(&task, prompt::MAX_GROUP, None);
                    if group.is_empty() {
                        continue;
                    }
                    let work = plan.work(self.bank.id, Ask::Contrast, group);
                    let (_, _, queued) = self.memory.write_queued(&self.bank.id, Batch::default(), &[work])?;
                    match queued {
                        Ok(jobs) => together.queued += jobs.len() as u64,
                        Err(error) => {
                            together.no_lesson.push(api::NoLesson { run: task, reason: error.to_string() });
                        }
                    }
                    continue;
                }
            }
            let mut runs = Vec::new();
            for digest in self.memory.both_outcomes(&task, MAX_CONTRASTED, None) {
                let Some(row) = self.memory.0.store.run(&digest).map_err(read_failed)? else { continue };
                match canonical::decode::<Run, MAX_RUN_BYTES>(&row.bytes) {
                    Ok(run) => runs.push(run),
                    Err(error) => together.no_lesson.push(api::NoLesson {
                        run: digest_hex(&row.digest),
                        reason: format!("the stored run does not read: {error}"),
                    }),
                }
            }
            if runs.is_empty() {
                continue;
            }
            let induced = learn::contrast(&runs.iter().collect::<Vec<_>>(), &|id| self.memory.given(id));
            let claims = self.claims(induced, &runs, &mut Fresh::default(), &mut together.no_lesson);
            let (records, _) =
                self.memory.write(&self.bank.id, Batch { claims, runs: Vec::new(), skip_if_taught: true })?;
            together.lessons.extend(records.iter().filter_map(|r| r.claim().body()).map(|id| id.to_string()));
        }
        Ok(together)
    }

    fn count(&mut self, file: &ImportedFile) {
        let done = &mut self.done;
        done.files += 1;
        done.runs += file.runs;
        done.lessons += file.lessons.len() as u64;
        done.duplicates += file.duplicates;
        done.queued += file.queued;
        let room = MAX_REPORTED.saturating_sub(done.skipped.len());
        done.skipped.extend(file.skipped.iter().take(room).cloned());
        let room = MAX_REPORTED.saturating_sub(done.no_lesson.len());
        done.no_lesson.extend(file.no_lesson.iter().take(room).cloned());
    }
}

/// A run that just ended, ready to be written.
pub(super) struct Finished {
    pub row: RunRow,
    /// What it teaches by itself.
    pub claims: Vec<(Claim, Option<Lesson>)>,
    /// What a model is to be asked about it.
    pub works: Vec<Work>,
    /// What of it is not kept because lessons say it already.
    pub replaced: Vec<api::Replaced>,
    /// Why it teaches nothing.
    pub no_lesson: Vec<api::NoLesson>,
}

impl Memory {
    /// What a run that ended here comes to in a bank, as if it had been imported. Nothing is written.
    pub(super) fn finish(&self, bank: &StoreBank, run: &Run) -> Finished {
        self.with_import(bank, |import| {
            let digest = in_bank(&bank.id, &run.digest());
            let outcome = Outcome::from(run.outcome.status);
            let task_key = task_in_bank(&bank.id, &run.task_key);
            let row = RunRow { digest, task_key, outcome, bytes: canonical::encode(run) };
            let (mut works, mut no_lesson) = (Vec::new(), Vec::new());
            let runs = std::slice::from_ref(run);
            let induced = import.drawn(std::slice::from_ref(&row), runs, &mut works);
            let claims = import.claims(induced, runs, &mut Fresh::default(), &mut no_lesson);
            let replaced = std::mem::take(&mut import.done.replaced);
            Finished { row, claims, works, replaced, no_lesson }
        })
    }

    /// Draws the contrast of a task from what the bank holds of it, or queues it for the model; and tells what is not kept of it.
    pub(super) fn contrast_task(&self, bank: &StoreBank, task_key: &str) -> Answer<(ImportedFile, Vec<api::Replaced>)> {
        self.with_import(bank, |import| {
            import.tasks.insert(task_key.to_owned());
            let together = import.contrasts()?;
            Ok((together, std::mem::take(&mut import.done.replaced)))
        })
    }

    /// An import of nothing, by the backend that runs ending here are given to.
    fn with_import<T>(&self, bank: &StoreBank, f: impl FnOnce(&mut Import<'_>) -> T) -> T {
        // Nobody listens.
        let (events, _) = mpsc::channel(1);
        let (done, tasks) = (api::ImportResponse::default(), BTreeSet::new());
        let backend = self.standing_plan().map_or(Backend::Extractive, Backend::Model);
        let (memory, bank, events) = (self, bank.clone(), &events);
        f(&mut Import { memory, bank, backend, events, total_bytes: 0, done_bytes: 0, done, tasks })
    }
}

/// Why a run is not given to a model.
const UNJUDGED: &str = "it has no outcome label, and the model is not to judge: give a table of labels with --outcomes";

/// Runs that are kept without being drawn from now.
fn left(runs: &[Run], reason: &str) -> Induced {
    let none = |run: &Run| learn::NoLesson { run: run.source.clone(), reason: reason.to_owned() };
    Induced { lessons: Vec::new(), no_lesson: runs.iter().map(none).collect() }
}

/// Leaves of runs of a task, solved and others, those that fit together into [`MAX_COMPARED_BYTES`], the first by digest before
/// the later; the first of each outcome fits always.
pub(super) fn that_fit(solved: &mut Vec<RunDigest>, others: &mut Vec<RunDigest>, bytes: impl Fn(&RunDigest) -> u64) {
    let firsts: Vec<RunDigest> = solved.first().into_iter().chain(others.first()).copied().collect();
    let mut left = MAX_COMPARED_BYTES.saturating_sub(firsts.iter().map(&bytes).sum());
    let mut rest: Vec<RunDigest> = solved.iter().skip(1).chain(others.iter().skip(1)).copied().collect();
    rest.sort_unstable();
    rest.retain(|digest| {
        let fits = bytes(digest) <= left;
        left -= if fits { bytes(digest) } else { 0 };
        fits
    });
    let kept = |digest: &RunDigest| firsts.contains(digest) || rest.contains(digest);
    solved.retain(kept);
    others.retain(kept);
}

/// What a run is known by in one bank: importing it into another bank is news there.
fn in_bank(bank: &BankId, digest: &RunDigest) -> RunDigest {
    let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 run in bank v1");
    hasher.update(&bank.0).update(digest);
    *hasher.finalize().as_bytes()
}

/// What the runs of one task are known by in one bank: what was imported into a private bank is no evidence elsewhere.
pub(super) fn task_in_bank(bank: &BankId, task_key: &str) -> String {
    format!("{}/{task_key}", bank.to_string().get(..16).unwrap_or_default())
}

/// The lesson of a draft. The run was redacted already; a lesson could only bring a secret together again out of two parts.
pub(crate) fn lesson_of(draft: &Draft) -> Result<Lesson, LessonError> {
    let mut fields = draft.fields.clone();
    Struck::default().clean_draft(&mut fields);
    Lesson::new(fields)
}

/// Takes secrets and what tells who and where out of every text of a run, before anything is hashed or stored. The run is
/// [tidy](Run::tidy): what it would lose only afterwards could hide a secret from the rules.
pub(crate) fn clean_run(run: &mut Run) -> Struck {
    let struck = strike_run(run);
    run.tidy();
    struck
}

/// As [`clean_run`], without bringing the run within its bounds again: what stands for a secret may be longer than that was.
pub(super) fn strike_run(run: &mut Run) -> Struck {
    let mut struck = Struck::default();
    let Run { task_key, task, domain, agent, attempt: _, source, steps, outcome, tags, injected } = run;
    for text in [task_key, task, domain, agent, source].into_iter().chain(tags).chain(injected) {
        struck.clean(text);
    }
    for step in steps {
        for text in [&mut step.think, &mut step.action, &mut step.observation] {
            struck.clean(text);
        }
    }
    let texts = outcome.reason.iter_mut().chain(outcome.judged_by.iter_mut()).chain(&mut outcome.missing_answers);
    for text in texts.chain(outcome.expected.iter_mut().flatten()) {
        struck.clean(text);
    }
    struck
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_compared_fit_into_memory_and_each_outcome_is_among_them() {
        let digest = |n: u8| [n; 32];
        let longest = MAX_RUN_BYTES as u64;
        let fit = |solved: &[u8], others: &[u8], bytes: &dyn Fn(u8) -> u64| {
            let [mut solved, mut others] = [solved, others].map(|list| list.iter().map(|n| digest(*n)).collect());
            that_fit(&mut solved, &mut others, |digest| bytes(digest[0]));
            [solved, others].map(|list| list.iter().map(|digest| digest[0]).collect::<Vec<u8>>())
        };
        let all: Vec<u8> = (0..64).collect();
        let (even, odd): (Vec<u8>, Vec<u8>) = all.iter().partition(|n| *n % 2 == 0);
        assert_eq!(fit(&even, &odd, &|_| 1024 * 1024), [even.clone(), odd.clone()], "ordinary ones all");
        let kept = fit(&even, &odd, &|_| longest);
        assert_eq!(kept, [vec![0], vec![1]]);
        // A long one does not keep the short ones behind it out.
        let kept = fit(&[0, 2, 4], &[1, 3], &|n| if n == 2 { longest } else { longest / 4 });
        assert_eq!(kept, [vec![0, 2, 4], vec![1, 3]]);
        let kept = fit(&[0, 2, 4], &[1, 3], &|n| if n == 2 { 2 * longest } else { longest / 4 });
        assert_eq!(kept, [vec![0, 4], vec![1, 3]]);
        // Even where the numbers say that nothing fits.
        assert_eq!(fit(&[5, 6], &[7], &|_| 9 * longest), [vec![5], vec![7]]);
    }
}
