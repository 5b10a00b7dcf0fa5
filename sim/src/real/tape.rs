//! What was seen of a real run, put in order afterwards: several threads look on, and a record is seen at another node before its
//! author's own answer is read.

use std::collections::BTreeMap;

use crate::observe::{Observed, Observer};

/// A record, as it can be seen from outside: a lesson that a node taught.
pub(super) type Key = (String, usize);

/// Something that was seen at a time, milliseconds of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// What needs no record's number.
    Plain(Observed),
    /// A lesson was taught and acknowledged.
    Taught { key: Key, family: u32, bytes: u32 },
    /// A node holds a record.
    Held { node: usize, key: Key },
    /// An attempt; the record is that of the lesson that helped.
    Attempted { attempt: Observed, helped_by: Option<Key> },
}

impl Seen {
    /// Of what happened in one millisecond, what comes first.
    fn rank(&self) -> u8 {
        match self {
            Self::Plain(Observed::Converged | Observed::Diverged) => 3,
            Self::Plain(_) => 0,
            Self::Taught { .. } | Self::Held { .. } => 1,
            Self::Attempted { .. } => 2,
        }
    }
}

/// What came of it beyond what an observer is told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Records taught.
    pub(super) taught: u64,
    /// Records that came to a node which had not taught them.
    pub(super) delivered: u64,
}

/// Tells an observer of everything, in the order of time.
pub(super) fn play(mut seen: Vec<(u64, Seen)>, observer: &mut dyn Observer) -> Counts {
    let mut taught_ms: BTreeMap<Key, u64> = BTreeMap::new();
    for (at, what) in &seen {
        if let Seen::Taught { key, .. } = what {
            taught_ms.entry(key.clone()).and_modify(|first| *first = (*first).min(*at)).or_insert(*at);
        }
    }
    // Nothing is held before it is taught.
    for (at, what) in &mut seen {
        if let Seen::Held { key, .. } = what {
            *at = (*at).max(taught_ms.get(key).copied().unwrap_or(0));
        }
    }
    let order = |(at, what): &(u64, Seen)| (*at, what.rank(), u8::from(!matches!(what, Seen::Taught { .. })));
    seen.sort_by_key(order);
    let mut numbers: BTreeMap<Key, u64> = BTreeMap::new();
    let mut counts = Counts::default();
    for (at, what) in seen {
        match what {
            Seen::Plain(what) => observer.see(at, what),
            Seen::Taught { key, family, bytes } => {
                let record = numbers.len() as u64;
                let node = key.1;
                if numbers.contains_key(&key) {
                    continue;
                }
                numbers.insert(key, record);
                counts.taught += 1;
                observer.see(at, Observed::Taught { node, record, family: Some(family), poison: false, bytes });
            }
            Seen::Held { node, key } => {
                let Some(record) = numbers.get(&key).copied().filter(|_| node != key.1) else { continue };
                counts.delivered += 1;
                observer.see(at, Observed::Stored { node, record, from: Some(key.1), hops: 1 });
            }
            Seen::Attempted { mut attempt, helped_by } => {
                if let Observed::Attempted { record, .. } = &mut attempt {
                    *record = helped_by.and_then(|key| numbers.get(&key).copied());
                }
                observer.see(at, attempt);
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_saw_out_of_order_is_told_in_order_and_records_get_numbers() {
        let key = ("lesson".to_string(), 0);
        let attempt = Observed::Attempted {
            node: 1,
            task: 3,
            family: 2,
            rank: Some(1),
            record: None,
            shown: 1,
            failed: false,
            poisoned: false,
            reached: true,
        };
        let seen = vec![
            (9, Seen::Attempted { attempt, helped_by: Some(key.clone()) }),
            (4, Seen::Held { node: 1, key: key.clone() }),
            (4, Seen::Held { node: 0, key: key.clone() }),
            (5, Seen::Taught { key: key.clone(), family: 2, bytes: 10 }),
            (7, Seen::Taught { key, family: 2, bytes: 10 }),
            (0, Seen::Plain(Observed::Up { node: 0 })),
        ];
        let mut told: Vec<(u64, Observed)> = Vec::new();
        assert_eq!(play(seen, &mut told), Counts { taught: 1, delivered: 1 });
        let stored = Observed::Stored { node: 1, record: 0, from: Some(0), hops: 1 };
        let taught = Observed::Taught { node: 0, record: 0, family: Some(2), poison: false, bytes: 10 };
        assert_eq!(told[..3], [(0, Observed::Up { node: 0 }), (5, taught), (5, stored)]);
        assert!(matches!(told[3], (9, Observed::Attempted { record: Some(0), .. })), "{told:?}");
        assert_eq!(told.len(), 4);
    }
}
