//! The built-in static embedder: the mean of the vectors of a text's word pieces, from a table compiled in.
//!
//! Layout and rule are those of `weights/README.md` (distilled from all-MiniLM-L6-v2, Apache-2.0; see `NOTICE`).
//! About 0.15 µs a piece on one core, so 15 µs a lesson and 2 µs a short query, after a few milliseconds for reading the table once.

use std::sync::OnceLock;

use super::pieces::Pieces;
use super::{EmbedError, Embedder, EmbedderIdentity};
use crate::raw::{Kernels, prefetch};

/// The built-in embedder's name in its identity.
pub const BUILTIN_NAME: &str = "folklore-static";
/// SHA-256 of `weights/static256.bin`, in hex.
pub const WEIGHTS_SHA256: &str = "eb54fb7141c61955fb0fbdebb39e0f44a43cc561f91692a005b33a24292afb5b";
/// The first 12 hex digits of [`WEIGHTS_SHA256`].
pub const BUILTIN_REVISION: &str = "eb54fb7141c6";
/// Components of the built-in embedder's vectors.
pub const BUILTIN_DIM: usize = 256;

static WEIGHTS: &[u8] = include_bytes!("../../weights/static256.bin");

/// Below this length a summed vector points nowhere: the pieces cancelled, or all their rows are zero.
const NORM_MIN: f32 = 1e-6;

/// The share of a text's letters that must be known. Without it the one Latin name in a Chinese question would stand
/// for the whole question, with a cosine near 1 to every text that has the name.
const KNOWN_SHARE_MIN: f32 = 0.5;

/// The parsed table. Rows stay where the compiler put them; only the vocabulary is indexed.
struct Table {
    scales: Vec<f32>,
    rows: &'static [u8],
    pieces: Pieces,
}

impl Table {
    fn parse(bytes: &'static [u8]) -> Result<Self, EmbedError> {
        let short = || EmbedError::Weights("shorter than its header says");
        let (count, bytes) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (dim, bytes) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let count = u32::from_le_bytes(*count) as usize;
        if u32::from_le_bytes(*dim) as usize != BUILTIN_DIM {
            return Err(EmbedError::Weights("another dimension than 256"));
        }
        let (scales, bytes) = bytes.split_at_checked(count * 4).ok_or_else(short)?;
        let (rows, tokens) = bytes.split_at_checked(count * BUILTIN_DIM).ok_or_else(short)?;
        let (scales, _) = scales.as_chunks::<4>();
        let tokens = std::str::from_utf8(tokens).map_err(|_| EmbedError::Weights("tokens are not UTF-8"))?;
        let tokens = tokens.strip_suffix('\n').unwrap_or(tokens);
        if tokens.split('\n').count() != count {
            return Err(EmbedError::Weights("another number of tokens than rows"));
        }
        Ok(Table {
            scales: scales.iter().map(|scale| f32::from_le_bytes(*scale)).collect(),
            rows,
            pieces: Pieces::new(tokens.split('\n')),
        })
    }

    /// The table, read once a process.
    fn get() -> Result<&'static Table, EmbedError> {
        static TABLE: OnceLock<Option<Table>> = OnceLock::new();
        TABLE
            .get_or_init(|| Table::parse(WEIGHTS).ok())
            .as_ref()
            .ok_or(EmbedError::Weights("the compiled-in table does not parse"))
    }

    fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut picks = Vec::with_capacity(text.len() / 4);
        let known = self.pieces.for_each(text, |id| {
            let at = id as usize * BUILTIN_DIM;
            if let (Some(&scale), Some(row)) = (self.scales.get(id as usize), self.rows.get(at..at + BUILTIN_DIM)) {
                // The table is larger than the caches; by the time that rows are summed this one is here.
                prefetch(row);
                picks.push((row, scale));
            }
        });
        if (known.matched as f32) < KNOWN_SHARE_MIN * known.letters as f32 {
            return None;
        }
        let mut sum = vec![0.0f32; BUILTIN_DIM];
        Kernels::best().sum_rows(&picks, &mut sum);
        let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm < NORM_MIN {
            return None;
        }
        sum.iter_mut().for_each(|x| *x /= norm);
        Some(sum)
    }
}

/// The embedder that is compiled in. Cheap to make: all of them share one table.
#[derive(Clone, Debug)]
pub struct BuiltinEmbedder {
    identity: EmbedderIdentity,
}

impl BuiltinEmbedder {
    /// The built-in embedder. Its table is read on the first [`Embedder::embed`].
    #[must_use]
    pub fn new() -> Self {
        BuiltinEmbedder {
            identity: EmbedderIdentity {
                name: BUILTIN_NAME.into(),
                revision: BUILTIN_REVISION.into(),
                dim: BUILTIN_DIM,
            },
        }
    }
}

impl BuiltinEmbedder {
    /// How many pieces of a text it knows: what its speed is counted in.
    ///
    /// # Errors
    /// When the table is malformed.
    pub fn tokens(&self, text: &str) -> Result<usize, EmbedError> {
        let mut tokens = 0;
        Table::get()?.pieces.for_each(text, |_| tokens += 1);
        Ok(tokens)
    }
}

impl Default for BuiltinEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl Embedder for BuiltinEmbedder {
    fn identity(&self) -> &EmbedderIdentity {
        &self.identity
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let table = Table::get()?;
        Ok(texts.iter().map(|text| table.embed(text)).collect())
    }
}

/// Every piece, in the order of their ids.
#[cfg(test)]
pub(super) fn vocabulary() -> impl Iterator<Item = &'static str> {
    let rows = Table::get().map_or(0, |table| table.scales.len());
    let tokens = WEIGHTS.get(8 + rows * (4 + BUILTIN_DIM)..).unwrap_or_default();
    std::str::from_utf8(tokens).unwrap_or_default().lines()
}

#[cfg(test)]
mod tests {
    use super::{super::pieces::PIECE_BYTES_MAX, *};

    #[derive(serde::Deserialize)]
    struct Reference {
        text: String,
        tokens: Vec<u32>,
        vector: Vec<f32>,
    }

    fn references() -> Vec<Reference> {
        serde_json::from_str(include_str!("../../weights/vectors.json")).unwrap()
    }

    #[test]
    fn token_ids_equal_those_of_the_independent_implementation() {
        let table = Table::get().unwrap();
        for reference in references() {
            let mut tokens = Vec::new();
            table.pieces.for_each(&reference.text, |id| tokens.push(id));
            assert_eq!(tokens, reference.tokens, "{:?}", reference.text);
        }
    }

    #[test]
    fn vectors_agree_with_the_independent_implementation() {
        let references = references();
        assert!(references.len() >= 10);
        let texts: Vec<&str> = references.iter().map(|r| r.text.as_str()).collect();
        let vectors = BuiltinEmbedder::new().embed(&texts).unwrap();
        for (reference, vector) in references.iter().zip(vectors) {
            let Some(vector) = vector else {
                assert!(reference.tokens.is_empty(), "{:?}", reference.text);
                continue;
            };
            assert_eq!(vector.len(), reference.vector.len());
            for (ours, theirs) in vector.iter().zip(&reference.vector) {
                assert!((ours - theirs).abs() < 1e-4, "{:?}", reference.text);
            }
        }
    }

    #[test]
    fn a_text_without_known_tokens_has_no_vector() {
        let vectors = BuiltinEmbedder::new().embed(&["", " \n", "搜索 订单", "🙂"]).unwrap();
        assert_eq!(vectors, [None, None, None, None]);
    }

    #[test]
    fn a_text_mostly_in_an_unknown_script_has_no_vector() {
        let embedder = BuiltinEmbedder::new();
        assert_eq!(embedder.embed_one("请帮我取消这个客户的所有订单 tokio").unwrap(), None);
        assert!(embedder.embed_one("cancel order 订单").unwrap().is_some());
    }

    #[test]
    fn the_revision_is_the_prefix_of_the_weights_hash() {
        assert!(WEIGHTS_SHA256.starts_with(BUILTIN_REVISION));
        assert_eq!(BUILTIN_REVISION.len(), 12);
        assert_eq!(BuiltinEmbedder::new().identity().dim, BUILTIN_DIM);
    }

    #[test]
    fn a_damaged_table_is_an_error() {
        for bytes in
            [&WEIGHTS[..3], &WEIGHTS[..8], &WEIGHTS[..8_000_000], &WEIGHTS[..WEIGHTS.len() - 40_000], &WEIGHTS[4..]]
        {
            assert!(matches!(Table::parse(bytes), Err(EmbedError::Weights(_))));
        }
    }

    #[test]
    fn no_piece_of_the_vocabulary_is_too_long_to_be_found() {
        let longest = vocabulary().map(str::len).max().unwrap();
        assert!(longest > 10 && longest <= PIECE_BYTES_MAX, "{longest}");
    }

    #[test]
    fn hostile_text_costs_time_in_proportion_to_its_length() {
        let table = Table::get().unwrap();
        // A word of the longest allowed kind that matches only single letters, many times over.
        let word = format!("{} ", "qz".repeat(200));
        let text = word.repeat(100);
        let mut pieces = 0;
        table.pieces.for_each(&text, |_| pieces += 1);
        assert!(pieces <= text.len());
    }

    proptest::proptest! {
        #[test]
        fn any_text_embeds_to_a_unit_vector_or_to_none(text in ".{0,200}") {
            if let Some(vector) = BuiltinEmbedder::new().embed_one(&text).unwrap() {
                let norm = vector.iter().map(|x| x * x).sum::<f32>();
                proptest::prop_assert!((norm - 1.0).abs() < 1e-3);
            }
        }
    }
}
