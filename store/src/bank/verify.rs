//! Checking everything again: what `doctor` runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use folklore_protocol::record::UnverifiedRecord;

use super::{
    Store,
    queue::{panic_text, sled_text},
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

impl Store {
    /// Checks the hash of every frame, the signature of every record, the id of every body, and that the database holds
    /// what the count says. Reads the whole bank; records cost 50 µs each.
    ///
    /// # Errors
    /// When the database cannot be read at all. Single damaged values are in the report.
    pub fn verify(&self) -> Result<VerifyReport, ReadError> {
        let mut report = VerifyReport::default();
        let (records, lessons, runs, covered) = {
            let durable = self.0.queue.durable();
            let index = self.index();
            let mut records: Vec<_> = index.records.iter().map(|(id, a)| (*a, *id)).filter(|r| r.0 < durable).collect();
            let mut lessons: Vec<_> = index.lessons.iter().map(|(id, a)| (*a, *id)).filter(|l| l.0 < durable).collect();
            let mut runs: Vec<_> = index.runs.values().map(|r| r.arrival).filter(|a| *a < durable).collect();
            records.sort_unstable();
            lessons.sort_unstable();
            runs.sort_unstable();
            (records, lessons, runs, self.0.disk.tally())
        };
        for (arrival, id) in records {
            let checked = self.fetch(Tree::Record, arrival).map_err(|e| e.to_string()).and_then(|bytes| {
                let bytes = bytes.ok_or("erased")?;
                let record =
                    UnverifiedRecord::parse(&bytes).and_then(UnverifiedRecord::verify).map_err(|e| e.to_string())?;
                if record.id() == id { Ok(()) } else { Err("another record in its place".to_string()) }
            });
            report.take(checked, |r| &mut r.records, || format!("record {id}"));
        }
        for (_, id) in lessons {
            // Erased on purpose is not wrong.
            let checked = self.lesson(&id).map(|_| ()).map_err(|e| e.to_string());
            report.take(checked, |r| &mut r.lessons, || format!("lesson {id}"));
        }
        for arrival in runs {
            let checked = self
                .fetch(Tree::Run, arrival)
                .map_err(|e| e.to_string())
                .and_then(|value| RunRow::from_value(&value.ok_or("erased")?).map(|_| ()).map_err(|e| e.to_string()));
            report.take(checked, |r| &mut r.runs, || format!("run {arrival}"));
        }
        // Frames that the index does not know, settings and notes among them, and the count.
        let scan = match catch_unwind(AssertUnwindSafe(|| Scan::run(&self.0.disk.db, covered.next_arrival))) {
            Ok(Ok(scan)) => scan,
            Ok(Err(e)) => return Err(ReadError::Database(sled_text(&e))),
            Err(panic) => return Err(ReadError::Database(panic_text(panic.as_ref()))),
        };
        report.wrong.extend(scan.damaged.iter().map(|Damaged { key, detail, .. }| format!("{key}: {detail}")));
        if scan.below != covered {
            report.wrong.push(format!(
                "the database holds {} values of the {} that were counted",
                scan.below.items, covered.items
            ));
        }
        Ok(report)
    }
}

impl VerifyReport {
    fn take(
        &mut self,
        checked: Result<(), String>,
        good: impl FnOnce(&mut Self) -> &mut usize,
        name: impl FnOnce() -> String,
    ) {
        match checked {
            Ok(()) => *good(self) += 1,
            Err(detail) => self.wrong.push(format!("{}: {detail}", name())),
        }
    }
}
