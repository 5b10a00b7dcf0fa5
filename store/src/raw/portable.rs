//! The kernels in plain Rust: the definition that the other versions are held to.

use super::{GROUP, Hit, Kernels, NIBBLE_BYTES, Pick, Scan};

pub(super) const KERNELS: Kernels = Kernels { name: "portable", scan, dot, sum_rows };

fn scan(scan: &Scan<'_>, positions: usize, found: &mut Vec<Hit>) {
    let groups = scan.codes.chunks_exact(positions * NIBBLE_BYTES).zip(scan.factors.as_chunks::<GROUP>().0);
    for (first, (codes, factors)) in (scan.first..).step_by(GROUP).zip(groups) {
        let mut sums = [0u16; GROUP];
        let (below, above) = sums.split_at_mut(NIBBLE_BYTES);
        for (bytes, table) in codes.as_chunks::<NIBBLE_BYTES>().0.iter().zip(scan.tables.as_chunks::<16>().0) {
            for ((below, above), &byte) in below.iter_mut().zip(above.iter_mut()).zip(bytes) {
                *below += u16::from(table[usize::from(byte & 15)]);
                *above += u16::from(table[usize::from(byte >> 4)]);
            }
        }
        for ((row, sum), &factor) in (first..).zip(sums).zip(factors) {
            let score = score(sum, scan.bias, scan.shift, factor);
            if score > scan.above {
                found.push((row, score));
            }
        }
    }
}

fn score(sum: u16, bias: i16, shift: u32, factor: i16) -> i16 {
    let centred = sum.cast_signed().wrapping_sub(bias) << shift;
    // What the rounding multiply of SSSE3 and of NEON does.
    ((i32::from(centred) * i32::from(factor) + 0x4000) >> 15) as i16
}

fn dot(row: &[i8], query: &[i16]) -> i32 {
    row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

fn sum_rows(picks: &[Pick<'_>], sum: &mut [f32]) {
    for (row, scale) in picks {
        for (sum, byte) in sum.iter_mut().zip(*row) {
            *sum += scale * f32::from(byte.cast_signed());
        }
    }
}
