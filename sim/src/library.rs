//! Every record there is in a world, once. Disks hold numbers of these, so that a thousand copies of a record are a thousand
//! bits; and a signature that was verified once is known to be good wherever the same bytes come again.

use std::{collections::BTreeMap, sync::Arc};

use folklore_protocol::{Lesson, Record, RecordId, UnverifiedRecord};

/// A record by its place in the library.
pub type Number = u32;

/// Signatures found wrong that are remembered, so that a flood of one forgery costs one check. Beyond that they are checked
/// each time.
const MAX_FORGED: usize = 1 << 14;

/// A record and the body it names.
#[derive(Debug, Clone)]
struct Entry {
    record: Record,
    body: Option<Arc<[u8]>>,
}

/// All records that some disk of the world holds or held.
#[derive(Debug, Default)]
pub struct Library {
    entries: Vec<Entry>,
    by_id: BTreeMap<RecordId, Number>,
    /// Wrong signatures, by what they claim to sign.
    forged: BTreeMap<RecordId, Vec<Arc<[u8]>>>,
    forged_len: usize,
    verified: u64,
}

impl Library {
    /// Puts a record in that its author signed here and now.
    pub(crate) fn put(&mut self, record: Record, body: Option<Arc<[u8]>>) -> Number {
        if let Some(number) = self.by_id.get(&record.id()) {
            let entry = &mut self.entries[*number as usize];
            if entry.body.is_none() {
                entry.body = body;
            }
            return *number;
        }
        let number = self.entries.len() as Number;
        self.by_id.insert(record.id(), number);
        self.entries.push(Entry { record, body });
        number
    }

    /// Checks what came as a store does: the signature strictly, the body's form. Each distinct record once; the same bytes
    /// are known again. `None` if it is not good.
    pub(crate) fn check(&mut self, record: &UnverifiedRecord, body: Option<&[u8]>) -> Option<Number> {
        let id = record.id();
        if let Some(number) = self.by_id.get(&id).copied() {
            let entry = &mut self.entries[number as usize];
            if entry.record.bytes() == record.bytes() {
                if let (None, Some(body)) = (&entry.body, body) {
                    // That it is the body which the record names was seen before it came here.
                    Lesson::from_bytes(body).ok()?;
                    entry.body = Some(body.into());
                }
                return Some(number);
            }
        }
        if self.forged.get(&id).is_some_and(|wrong| wrong.contains(record.bytes())) {
            return None;
        }
        self.verified += 1;
        let Ok(record) = record.clone().verify() else {
            if self.forged_len < MAX_FORGED {
                self.forged_len += 1;
                self.forged.entry(id).or_default().push(record.bytes().clone());
            }
            return None;
        };
        if body.is_some_and(|body| Lesson::from_bytes(body).is_err()) {
            return None;
        }
        Some(self.put(record, body.map(Into::into)))
    }

    /// The number of a record.
    pub fn number_of(&self, id: &RecordId) -> Option<Number> {
        self.by_id.get(id).copied()
    }

    /// A record by its number.
    pub fn record(&self, number: Number) -> &Record {
        &self.entries[number as usize].record
    }

    /// The body a record names, if anybody had it.
    pub fn body(&self, number: Number) -> Option<&Arc<[u8]>> {
        self.entries[number as usize].body.as_ref()
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Signatures that were checked.
    pub fn verified(&self) -> u64 {
        self.verified
    }
}

/// A set of numbers, one bit each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    words: Vec<u64>,
    len: usize,
}

impl Numbers {
    /// Adds a number; false if it was there.
    pub fn insert(&mut self, number: Number) -> bool {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let new = self.words[at] & bit == 0;
        self.words[at] |= bit;
        self.len += usize::from(new);
        new
    }

    /// Takes a number away; false if it was not there.
    pub fn remove(&mut self, number: Number) -> bool {
        let there = self.contains(number);
        if there {
            self.words[number as usize / 64] &= !(1 << (number % 64));
            self.len -= 1;
        }
        there
    }

    /// Whether a number is there.
    pub fn contains(&self, number: Number) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Number> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(at as Number * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folklore_protocol::{BankId, Claim, Evidence, Keypair, LessonId};

    #[test]
    fn numbers_are_a_set() {
        let mut numbers = Numbers::default();
        for n in [5, 64, 63, 700, 5] {
            numbers.insert(n);
        }
        assert_eq!((numbers.iter().collect::<Vec<_>>(), numbers.len()), (vec![5, 63, 64, 700], 4));
        assert!(numbers.remove(64) && !numbers.remove(64) && !numbers.contains(64) && !numbers.contains(9_999));
        assert_eq!(numbers.len(), 3);
    }

    #[test]
    fn a_signature_is_checked_once_and_a_wrong_one_beside_a_good_one_is_refused() {
        let claim = Claim::Taught { lesson_id: LessonId([3; 32]), evidence: Evidence::told("sim") };
        let record = Record::sign(&Keypair::from_seed(&[1; 32]), BankId([9; 32]), 1, 0, claim).unwrap();
        let good = UnverifiedRecord::parse(record.bytes()).unwrap();
        let mut bytes = record.bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let wrong = UnverifiedRecord::parse(&bytes).unwrap();
        let mut library = Library::default();
        for _ in 0..3 {
            assert_eq!(library.check(&wrong, None), None);
            assert_eq!(library.check(&good, None), Some(0));
        }
        assert_eq!(library.verified(), 2);
    }
}
