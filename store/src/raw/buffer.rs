//! Bytes that are aligned for numbers, and the same bytes seen as numbers.

#[cfg(target_endian = "big")]
compile_error!("the index keeps numbers in little-endian order and looks at them in place");

/// Zeroed bytes, aligned so that numbers can be looked at in place as in a mapped file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

/// Integers, so that zeroed ones come from the system as they are, and no page is touched before it is used.
type Line = [u64; 8];

impl Buffer {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        Buffer { lines: vec![[0; 8]; len.div_ceil(64)], len }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Line` is 64 bytes without padding, so the vector's lines are that many initialised bytes in a row.
        let all = unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast::<u8>(), self.lines.len() * 64) };
        all.get(..self.len).unwrap_or_default()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; any byte is a valid byte of a `Line`, and the borrow of `self` is exclusive.
        let all =
            unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<u8>(), self.lines.len() * 64) };
        all.get_mut(..self.len).unwrap_or_default()
    }
}

/// The bytes as floats; empty if they are not aligned for that or not whole.
pub(crate) fn as_f32(bytes: &[u8]) -> &[f32] {
    // SAFETY: every pattern of four bytes is a float.
    let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
    if before.is_empty() && after.is_empty() { floats } else { &[] }
}

/// The bytes as 16-bit integers; empty if they are not aligned for that or not whole.
pub(crate) fn as_i16(bytes: &[u8]) -> &[i16] {
    // SAFETY: every pattern of two bytes is an integer.
    let (before, numbers, after) = unsafe { bytes.align_to::<i16>() };
    if before.is_empty() && after.is_empty() { numbers } else { &[] }
}

/// The bytes as signed ones.
pub(crate) fn as_i8(bytes: &[u8]) -> &[i8] {
    // SAFETY: both have one byte, no alignment, and every pattern is valid.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// The bytes of floats.
pub(crate) fn as_bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: a float has four initialised bytes without padding, and a byte needs no alignment.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_looked_at_in_place_or_not_at_all() {
        let mut buffer = Buffer::zeroed(70);
        buffer.bytes_mut()[..4].copy_from_slice(&1.5f32.to_le_bytes());
        buffer.bytes_mut()[4..6].copy_from_slice(&(-2i16).to_le_bytes());
        let bytes = buffer.bytes();
        assert_eq!(bytes.len(), 70);
        assert_eq!(as_f32(&bytes[..8])[0], 1.5);
        assert_eq!(as_i16(&bytes[4..6]), [-2]);
        assert_eq!(as_i8(&bytes[4..6]), [-2, -1]);
        assert_eq!(as_bytes(&[1.5]), &bytes[..4]);
        assert!(as_f32(&bytes[1..5]).is_empty() && as_f32(&bytes[..6]).is_empty() && as_i16(&bytes[1..3]).is_empty());
        assert!(Buffer::default().bytes().is_empty());
    }
}
