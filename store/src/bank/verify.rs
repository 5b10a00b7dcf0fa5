//! Checking everything again: what `doctor` runs.

use std::{convert::Infallible, sync::atomic::Ordering};

use folklore_protocol::{
    lesson::LessonId,
    record::{RecordId, UnverifiedRecord},
};

use super::{
    Store,
    parallel::in_order,
    queue::guarded,
    read::{BLOCK, Reader},
    scan::{Damaged, Scan},
};
use crate::{error::ReadError, frame::Tree, runs::RunRow};

/// What a check of the whole bank found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Records whose hash and signature are good.
    pub records: usize,
    /// Bodies whose hash is good and that read as lessons.
    pub lessons: usize,
    /// Runs that read back whole.
    pub runs: usize,
    /// Each thing that is wrong, by name.
    pub wrong: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// How far a check has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Values checked.
    pub done: usize,
    /// Values to check.
    pub total: usize,
}

/// Values between two words on progress: a quarter of a second's work.
const PROGRESS_EVERY: usize = 10_000;

impl Store {
    /// Checks the hash of every frame, the signature of every record, the id of every body, and that the database holds
    /// what the count says, on all cores. Reads the whole bank; records cost 50 µs of a core each. `progress` is told now
    /// and then.
    ///
    /// # Errors
    /// When the database cannot be read at all. Single damaged values are in the report.
    pub fn verify(&self, mut progress: impl FnMut(VerifyProgress)) -> Result<VerifyReport, ReadError> {
        let mut report = VerifyReport::default();
        let (values, covered) = {
            let durable = self.0.queue.durable();
            let index = self.index();
            let records = index.records.iter().map(|(id, arrival)| (*arrival, What::Record(*id)));
            let lessons = index.lessons.iter().map(|(id, arrival)| (*arrival, What::Lesson(*id)));
            let runs = index.runs.values().map(|run| (run.arrival, What::Run));
            let mut values: Vec<_> = records.chain(lessons).chain(runs).filter(|v| v.0 < durable).collect();
            values.sort_unstable_by_key(|value| value.0);
            (values, self.0.disk.tally())
        };
        let mut at = VerifyProgress { done: 0, total: values.len() };
        let work = |reader: &mut Reader<'_>, (arrival, what): &(u64, What)| (*what, check(reader, *arrival, what));
        let checked: Result<(), Infallible> = in_order(
            &values,
            BLOCK,
            || Reader::new(self),
            work,
            |(what, checked)| {
                match (checked, what) {
                    (Ok(()), What::Record(_)) => report.records += 1,
                    (Ok(()), What::Lesson(_)) => report.lessons += 1,
                    (Ok(()), What::Run) => report.runs += 1,
                    (Err(detail), What::Record(id)) => report.wrong.push(format!("record {id}: {detail}")),
                    (Err(detail), What::Lesson(id)) => report.wrong.push(format!("lesson {id}: {detail}")),
                    (Err(detail), What::Run) => report.wrong.push(detail),
                }
                at.done += 1;
                if at.done.is_multiple_of(PROGRESS_EVERY) || at.done == at.total {
                    progress(at);
                }
                Ok(())
            },
        );
        match checked {
            Ok(()) => {}
        }
        // Frames that the index does not know, settings and notes among them, and the count.
        let db = self.0.disk.handle().ok_or_else(|| ReadError::Database("it is being opened again".into()))?;
        let scan = guarded(|| Scan::run(&db, covered.next_arrival, None)).map_err(ReadError::Database)?;
        report.wrong.extend(scan.damaged.iter().map(|Damaged { key, detail, .. }| format!("{key}: {detail}")));
        if scan.below != covered {
            report.wrong.push(format!(
                "the database holds {} values of the {} that were counted",
                scan.below.items, covered.items
            ));
        }
        if !report.ok() {
            self.0.disk.doubtful.store(true, Ordering::Relaxed);
        }
        Ok(report)
    }
}

/// A value that is checked.
#[derive(Debug, Clone, Copy)]
enum What {
    Record(RecordId),
    Lesson(LessonId),
    Run,
}

fn check(reader: &mut Reader<'_>, arrival: u64, what: &What) -> Result<(), String> {
    match what {
        What::Record(id) => {
            let bytes = reader.fetch(Tree::Record, arrival).map_err(|e| e.to_string())?.ok_or("erased")?;
            let record =
                UnverifiedRecord::parse(&bytes).and_then(UnverifiedRecord::verify).map_err(|e| e.to_string())?;
            if record.id() == *id { Ok(()) } else { Err("another record in its place".into()) }
        }
        // Erased on purpose is not wrong.
        What::Lesson(id) => reader.lesson(arrival, id).map(|_| ()).map_err(|e| e.to_string()),
        What::Run => {
            let value = reader.fetch(Tree::Run, arrival).map_err(|e| e.to_string())?.ok_or("erased")?;
            RunRow::from_value(&value).map(|_| ()).map_err(|e| format!("run {arrival}: {e}"))
        }
    }
}
