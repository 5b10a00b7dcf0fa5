//! The kernels for x86-64 with AVX2. AVX-512 was tried and is no faster: on Zen 4 it does the same shuffles a cycle, and both wait for
//! memory.

use core::arch::x86_64::*;

use super::{GROUP, Hit, Kernels, NIBBLE_BYTES, Pick, Scan};

/// How far ahead of their use codes are fetched. What the processor fetches by itself ends with the page, and a page is
/// four groups.
const AHEAD_BYTES: usize = 4096;

/// What this processor has.
pub(super) fn available() -> impl Iterator<Item = Kernels> {
    is_x86_feature_detected!("avx2").then_some(Kernels { name: "avx2", scan, dot, sum_rows }).into_iter()
}

fn scan(scan: &Scan<'_>, positions: usize, found: &mut Vec<Hit>) {
    // SAFETY: `available` gives this function out only where the processor has AVX2.
    unsafe { scan_in(scan, positions, found) }
}

fn dot(row: &[i8], query: &[i16]) -> i32 {
    // SAFETY: as for `scan`.
    unsafe { dot_in(row, query) }
}

fn sum_rows(picks: &[Pick<'_>], sum: &mut [f32]) {
    // SAFETY: as for `scan`.
    unsafe { sum_rows_in(picks, sum) }
}

/// Sums of 16 vectors, two by two: in each 16-bit lane the one of an even vector, and in another register those of the
/// odd ones. A register of byte sums is added without masking, so `mixed` has `even + 256 × odd` (modulo 2^16).
#[derive(Clone, Copy)]
struct Sums {
    mixed: __m256i,
    odd: __m256i,
}

#[target_feature(enable = "avx2")]
fn scan_in(scan: &Scan<'_>, positions: usize, found: &mut Vec<Hit>) {
    let low = _mm256_set1_epi8(15);
    let zero = _mm256_setzero_si256();
    let groups = scan.codes.chunks_exact(positions * NIBBLE_BYTES).zip(scan.factors.as_chunks::<GROUP>().0);
    for (first, (codes, factors)) in (scan.first..).step_by(GROUP).zip(groups) {
        let mut sums = [Sums { mixed: zero, odd: zero }; 2];
        // Eight positions at a time: four steps of two positions, whose byte sums stay below 4 × 60.
        for (codes, tables) in codes.as_chunks::<128>().0.iter().zip(scan.tables.as_chunks::<128>().0) {
            let (mut below, mut above) = (zero, zero);
            fetch_ahead(codes);
            for (codes, table) in codes.as_chunks::<32>().0.iter().zip(tables.as_chunks::<32>().0) {
                // SAFETY: each array has 32 bytes, and the loads need no alignment.
                let (codes, table) =
                    unsafe { (_mm256_loadu_si256(codes.as_ptr().cast()), _mm256_loadu_si256(table.as_ptr().cast())) };
                let nibbles = _mm256_and_si256(codes, low);
                below = _mm256_add_epi8(below, _mm256_shuffle_epi8(table, nibbles));
                let nibbles = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low);
                above = _mm256_add_epi8(above, _mm256_shuffle_epi8(table, nibbles));
            }
            for (sums, bytes) in sums.iter_mut().zip([below, above]) {
                sums.mixed = _mm256_add_epi16(sums.mixed, bytes);
                sums.odd = _mm256_add_epi16(sums.odd, _mm256_srli_epi16::<8>(bytes));
            }
        }
        let sums = sums.map(|s| {
            let even = _mm256_sub_epi16(s.mixed, _mm256_slli_epi16::<8>(s.odd));
            // The two halves hold even and odd positions of the same vectors.
            let fold = |v| _mm_add_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let (even, odd) = (fold(even), fold(s.odd));
            _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd))
        });
        tell(scan, sums, factors, first, found);
    }
}

/// Fetches what lies as far behind these codes as [`AHEAD_BYTES`], be it codes or not.
#[inline]
fn fetch_ahead(codes: &[u8]) {
    for line in codes.chunks_exact(64) {
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; SSE is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD_BYTES).cast()) };
    }
}

/// Turns the sums of a group into scores and tells those above the bar.
#[inline]
#[target_feature(enable = "avx2")]
fn tell(scan: &Scan<'_>, sums: [__m256i; 2], factors: &[i16; GROUP], first: u32, found: &mut Vec<Hit>) {
    let bias = _mm256_set1_epi16(scan.bias);
    let shift = _mm_cvtsi32_si128(scan.shift.cast_signed());
    let bar = _mm256_set1_epi16(scan.above);
    let mut scores = [0i16; GROUP];
    let mut passing = [bar; 2];
    let halves = scores.as_chunks_mut::<16>().0.iter_mut().zip(factors.as_chunks::<16>().0);
    for (((half, factors), sums), passing) in halves.zip(sums).zip(&mut passing) {
        // SAFETY: the array has 32 bytes, and the load needs no alignment.
        let factors = unsafe { _mm256_loadu_si256(factors.as_ptr().cast()) };
        let score = _mm256_mulhrs_epi16(_mm256_sll_epi16(_mm256_sub_epi16(sums, bias), shift), factors);
        // SAFETY: the array has 32 bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), score) };
        *passing = _mm256_cmpgt_epi16(score, bar);
    }
    // Packing works within halves of a register; the permutation puts the vectors into their order.
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(passing[0], passing[1]));
    let mut mask = _mm256_movemask_epi8(packed).cast_unsigned();
    while mask != 0 {
        let at = mask.trailing_zeros();
        found.push((first + at, scores[at as usize % GROUP]));
        mask &= mask - 1;
    }
}

#[target_feature(enable = "avx2")]
fn dot_in(row: &[i8], query: &[i16]) -> i32 {
    let mut sums = [_mm256_setzero_si256(); 2];
    for (row, query) in row.as_chunks::<32>().0.iter().zip(query.as_chunks::<32>().0) {
        let halves = row.as_chunks::<16>().0.iter().zip(query.as_chunks::<16>().0);
        for (sum, (row, query)) in sums.iter_mut().zip(halves) {
            // SAFETY: the arrays have 16 and 32 bytes, and the loads need no alignment.
            let (row, query) =
                unsafe { (_mm_loadu_si128(row.as_ptr().cast()), _mm256_loadu_si256(query.as_ptr().cast())) };
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(row), query));
        }
    }
    sum_lanes(_mm256_add_epi32(sums[0], sums[1]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_lanes(v: __m256i) -> i32 {
    let v = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let v = _mm_add_epi32(v, _mm_shuffle_epi32::<0b01_00_11_10>(v));
    _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32::<0b00_00_00_01>(v)))
}

/// In strips of 64 components, whose sums stay in registers. Multiplied and added apart, as in the portable version.
#[target_feature(enable = "avx2")]
fn sum_rows_in(picks: &[Pick<'_>], sum: &mut [f32]) {
    for (strip, sums) in sum.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let mut kept = [_mm256_setzero_ps(); 8];
        for (kept, sums) in kept.iter_mut().zip(sums.as_chunks::<8>().0) {
            // SAFETY: the array has 32 bytes, and the load needs no alignment.
            *kept = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
        }
        for (row, scale) in picks {
            let scale = _mm256_set1_ps(*scale);
            let Some(row) = row.get(strip * 64..).and_then(<[u8]>::first_chunk::<64>) else { continue };
            for (kept, bytes) in kept.iter_mut().zip(row.as_chunks::<8>().0) {
                // SAFETY: the array has 8 bytes, and the load needs no alignment.
                let bytes = unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) };
                let numbers = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
                *kept = _mm256_add_ps(*kept, _mm256_mul_ps(scale, numbers));
            }
        }
        for (kept, sums) in kept.iter().zip(sums.as_chunks_mut::<8>().0) {
            // SAFETY: the array has 32 bytes, and the store needs no alignment.
            unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), *kept) };
        }
    }
}
