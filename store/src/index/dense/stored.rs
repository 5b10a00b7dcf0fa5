//! Vectors that were on disk at opening, by the id that they belong to.

use super::{BLOCK_ROWS, DenseIndex, block::Key};

/// What nobody has claimed yet. Things are mostly claimed in the order in which their vectors were added, so what follows the
/// last that was claimed is looked at first, and ids are sorted only once that was another's.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Where the vectors behind those claimed last are.
    next: u32,
    sorted: Option<Vec<(u64, u32)>>,
}

fn prefix(id: &[u8; 32]) -> u64 {
    id.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The first bytes of each vector's id and its number, ascending: 16 bytes a vector, while the bank is being read.
fn sort(index: &DenseIndex) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    for (number, block) in index.blocks().enumerate() {
        let base = number * BLOCK_ROWS;
        all.extend((0..block.rows).filter_map(|row| Some((prefix(&block.key(row)?.0.id), (base + row) as u32))));
    }
    let damaged = damaged(index);
    all.retain(|(_, row)| damaged.binary_search(row).is_err());
    all.sort_unstable();
    all
}

fn damaged(index: &DenseIndex) -> Vec<u32> {
    let mut damaged = index.files.as_ref().map_or_else(Vec::new, |files| files.damaged().to_vec());
    damaged.sort_unstable();
    damaged
}

impl Stored {
    /// The vectors of `id`, if they are all there and follow those that were claimed last.
    pub fn next(&mut self, index: &DenseIndex, id: &[u8; 32]) -> Option<Vec<u32>> {
        let key = |row: u32| Some(index.block(row as usize / BLOCK_ROWS)?.key(row as usize % BLOCK_ROWS)?.0);
        let of = key(self.next).filter(|first| first.id == *id)?.of;
        let rows: Vec<u32> = (self.next..self.next.checked_add(of.into())?).collect();
        let is_part =
            |(part, row): (u16, &u32)| key(*row) == Some(Key { id: *id, part, of }) && index.slots.slot(*row).is_none();
        let whole = !rows.is_empty() && (0..).zip(&rows).all(is_part);
        let damaged = damaged(index);
        if !whole || rows.iter().any(|row| damaged.binary_search(row).is_ok()) {
            return None;
        }
        self.next += u32::from(of);
        Some(rows)
    }

    /// The vectors of `id`, each part once, if all parts are there.
    pub fn complete(&mut self, index: &DenseIndex, id: &[u8; 32]) -> Option<Vec<u32>> {
        let sorted = self.sorted.get_or_insert_with(|| sort(index));
        let first = sorted.partition_point(|(p, _)| *p < prefix(id));
        let same = sorted.get(first..)?.iter().take_while(|(p, _)| *p == prefix(id));
        let mut parts: Vec<(Key, u32)> = same
            .filter_map(|&(_, row)| {
                let (key, _) = index.block(row as usize / BLOCK_ROWS)?.key(row as usize % BLOCK_ROWS)?;
                (key.id == *id && index.slots.slot(row).is_none()).then_some((key, row))
            })
            .collect();
        parts.sort_unstable_by_key(|(key, row)| (key.part, *row));
        parts.dedup_by_key(|(key, _)| key.part);
        let of = parts.first()?.0.of;
        let whole = parts.len() == usize::from(of) && parts.iter().all(|(key, _)| key.of == of);
        let rows: Vec<u32> = whole.then(|| parts.into_iter().map(|(_, row)| row).collect())?;
        self.next = rows.last().map_or(0, |row| row.saturating_add(1));
        Some(rows)
    }
}
