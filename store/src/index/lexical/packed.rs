//! Ascending numbers with a count each, packed: the gap to the number before as a varint whose lowest bit says whether a
//! count other than 1 follows. A posting or a document's term takes about two bytes so.

/// Appends `number`, which is above `last`, with its count, at least 1. The first of a list has `last` = `None`.
pub(super) fn push(bytes: &mut Vec<u8>, last: Option<u32>, number: u32, count: u32) {
    let gap = u64::from(number) - last.map_or(0, |last| u64::from(last) + 1);
    varint(bytes, gap << 1 | u64::from(count != 1));
    if count != 1 {
        varint(bytes, u64::from(count));
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads what [`push`] wrote. Ends early where the bytes do.
pub(super) struct Unpack<'a> {
    bytes: &'a [u8],
    next: u64,
}

impl<'a> Unpack<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Unpack { bytes, next: 0 }
    }

    /// Of a list that goes on: its first gap is counted from `next`, one behind the last number before.
    pub(super) fn behind(bytes: &'a [u8], next: u64) -> Self {
        Unpack { bytes, next }
    }

    fn varint(&mut self) -> Option<u64> {
        // Most gaps and nearly all counts take one byte.
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        while let Some((&byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 || shift > 49 {
                return Some(value);
            }
            shift += 7;
        }
        None
    }
}

impl Iterator for Unpack<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        let head = self.varint()?;
        // Damaged bytes may say anything; a count of 0 would have a place taken for one that was not met before.
        let count = if head & 1 == 1 { self.varint().filter(|count| *count > 0)? } else { 1 };
        let number = self.next.checked_add(head >> 1)?;
        self.next = number.checked_add(1)?;
        Some((u32::try_from(number).ok()?, u32::try_from(count).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_was_packed_is_read_again(numbers in proptest::collection::btree_map(0u32.., 1u32.., 0..50)) {
            let mut bytes = Vec::new();
            let mut last = None;
            for (&number, &count) in &numbers {
                push(&mut bytes, last, number, count);
                last = Some(number);
            }
            let read: Vec<(u32, u32)> = Unpack::new(&bytes).collect();
            proptest::prop_assert_eq!(read, numbers.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn no_bytes_make_a_count_of_nothing(bytes in proptest::collection::vec(0u8..4, 0..40)) {
            proptest::prop_assert!(Unpack::new(&bytes).all(|(_, count)| count > 0));
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            proptest::prop_assert!(Unpack::new(&bytes).count() <= bytes.len());
        }
    }
}
