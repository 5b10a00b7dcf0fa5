//! Vectors that were on disk at opening, by the id that they belong to.

use super::{BLOCK_ROWS, DenseIndex, block::Key};

/// The first bytes of each vector's id and its number, ascending: 16 bytes a vector, while the bank is being read.
#[derive(Debug, Default)]
pub(super) struct Stored(Vec<(u64, u32)>);

fn prefix(id: &[u8; 32]) -> u64 {
    id.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

impl Stored {
    /// All vectors of an index.
    pub fn of(index: &DenseIndex) -> Self {
        let mut all = Vec::new();
        for (number, block) in index.blocks().enumerate() {
            let base = number * BLOCK_ROWS;
            all.extend((0..block.rows).filter_map(|row| Some((prefix(&block.key(row)?.0.id), (base + row) as u32))));
        }
        let mut damaged = index.files.as_ref().map_or_else(Vec::new, |files| files.damaged().to_vec());
        damaged.sort_unstable();
        all.retain(|(_, row)| damaged.binary_search(row).is_err());
        all.sort_unstable();
        Stored(all)
    }

    /// The vectors of `id`, each part once, if all parts are there.
    pub fn complete(&self, index: &DenseIndex, id: &[u8; 32]) -> Option<Vec<u32>> {
        let first = self.0.partition_point(|(p, _)| *p < prefix(id));
        let same = self.0.get(first..)?.iter().take_while(|(p, _)| *p == prefix(id));
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
        whole.then(|| parts.into_iter().map(|(_, row)| row).collect())
    }
}
