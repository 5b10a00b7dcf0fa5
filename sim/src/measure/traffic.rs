//! What went over the links.

use super::RunFigures;
use crate::observe::{Class, LossCause, Observed};

/// Counts bytes, messages and copies that nobody needed.
#[derive(Debug, Default)]
pub struct Traffic {
    bytes: [u64; 3],
    messages: u64,
    lost: [u64; 4],
    duplicates: u64,
    duplicate_bytes: u64,
}

impl Traffic {
    pub(super) fn see(&mut self, what: &Observed) {
        match what {
            Observed::Sent { class, bytes, .. } => {
                self.messages += 1;
                self.bytes[*class as usize] += u64::from(*bytes);
            }
            Observed::Lost { cause, .. } => self.lost[*cause as usize] += 1,
            Observed::Duplicate { bytes, .. } => {
                self.duplicates += 1;
                self.duplicate_bytes += u64::from(*bytes);
            }
            _ => {}
        }
    }

    /// `taught`: lessons taught by honest nodes; `delivered`: copies that came to a node that lacked them.
    pub(super) fn report(&self, run: &mut RunFigures, taught: u64, delivered: u64) {
        let mut put = |name: String, value: Option<f64>| run.figures.extend(value.map(|value| (name, value)));
        let each = |value: u64, of: u64| (of > 0).then(|| value as f64 / of as f64);
        let total: u64 = self.bytes.iter().sum();
        put("messages".into(), Some(self.messages as f64));
        put("bytes".into(), Some(total as f64));
        if self.messages == 0 {
            return;
        }
        put("bytes_per_lesson".into(), each(total, taught));
        put("bytes_per_delivery".into(), each(total, delivered));
        for class in Class::ALL {
            let bytes = self.bytes[class as usize];
            put(format!("bytes_per_lesson.{}", class.name()), each(bytes, taught));
            put(format!("bytes_per_delivery.{}", class.name()), each(bytes, delivered));
        }
        put("duplicates_per_delivery".into(), each(self.duplicates, delivered));
        put("duplicate_bytes".into(), Some(self.duplicate_bytes as f64));
        for (cause, name) in
            [(LossCause::Cut, "cut"), (LossCause::Loss, "loss"), (LossCause::Queue, "queue"), (LossCause::Down, "down")]
        {
            put(format!("lost_messages.{name}"), Some(self.lost[cause as usize] as f64));
        }
    }
}
