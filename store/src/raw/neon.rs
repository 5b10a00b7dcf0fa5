//! The kernels for aarch64, where NEON is always there. The dot product is left to the compiler, which vectorises it.

use core::arch::aarch64::*;

use super::{GROUP, Hit, Kernels, NIBBLE_BYTES, Scan, portable};

pub(super) fn available() -> impl Iterator<Item = Kernels> {
    [Kernels { name: "neon", scan, ..portable::KERNELS }].into_iter()
}

fn scan(scan: &Scan<'_>, positions: usize, found: &mut Vec<Hit>) {
    // SAFETY: every aarch64 that Rust's targets with a standard library run on has NEON.
    unsafe { scan_in(scan, positions, found) }
}

#[target_feature(enable = "neon")]
fn scan_in(scan: &Scan<'_>, positions: usize, found: &mut Vec<Hit>) {
    let low = vdupq_n_u8(15);
    let groups = scan.codes.chunks_exact(positions * NIBBLE_BYTES).zip(scan.factors.as_chunks::<GROUP>().0);
    for (first, (codes, factors)) in (scan.first..).step_by(GROUP).zip(groups) {
        // Vectors 0..8, 8..16, 16..24 and 24..32.
        let mut sums = [vdupq_n_u16(0); 4];
        // Four positions at a time, whose byte sums stay below 4 × 60.
        for (codes, tables) in codes.as_chunks::<64>().0.iter().zip(scan.tables.as_chunks::<64>().0) {
            let (mut below, mut above) = (vdupq_n_u8(0), vdupq_n_u8(0));
            for (codes, table) in codes.as_chunks::<16>().0.iter().zip(tables.as_chunks::<16>().0) {
                // SAFETY: each array has 16 bytes.
                let (codes, table) = unsafe { (vld1q_u8(codes.as_ptr()), vld1q_u8(table.as_ptr())) };
                below = vaddq_u8(below, vqtbl1q_u8(table, vandq_u8(codes, low)));
                above = vaddq_u8(above, vqtbl1q_u8(table, vshrq_n_u8::<4>(codes)));
            }
            sums[0] = vaddw_u8(sums[0], vget_low_u8(below));
            sums[1] = vaddw_u8(sums[1], vget_high_u8(below));
            sums[2] = vaddw_u8(sums[2], vget_low_u8(above));
            sums[3] = vaddw_u8(sums[3], vget_high_u8(above));
        }
        let bias = vdupq_n_s16(scan.bias);
        let shift = vdupq_n_s16(scan.shift as i16);
        let mut scores = [0i16; GROUP];
        let mut best = vdupq_n_s16(i16::MIN);
        let eighths = scores.as_chunks_mut::<8>().0.iter_mut().zip(factors.as_chunks::<8>().0);
        for ((scores, factors), sums) in eighths.zip(sums) {
            // SAFETY: the array has 8 numbers of 16 bits.
            let factors = unsafe { vld1q_s16(factors.as_ptr()) };
            let score = vqrdmulhq_s16(vshlq_s16(vsubq_s16(vreinterpretq_s16_u16(sums), bias), shift), factors);
            best = vmaxq_s16(best, score);
            // SAFETY: as above.
            unsafe { vst1q_s16(scores.as_mut_ptr(), score) };
        }
        if vmaxvq_s16(best) > scan.above {
            found.extend((first..).zip(scores).filter(|(_, score)| *score > scan.above));
        }
    }
}
