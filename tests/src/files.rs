//! Copying and searching directories.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Copies a directory with everything a copy can keep, as an administrator would.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp(1) can be started");
    assert!(copied.success(), "{} could not be copied", from.display());
}

/// Every file below a path (itself, if it is one).
pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(files(&entry?.path())?);
    }
    Ok(found)
}

/// Where `needle` stands in `hay`, if anywhere.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = hay.get(from..)?.iter().position(|byte| *byte == first) {
        let at = from + at;
        if hay[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Base64 (RFC 4648, without padding) of `bytes` at each of the three ways it can be aligned in a longer text, with the
/// characters that depend on what stands beside it left out.
pub fn base64_cores(bytes: &[u8]) -> Vec<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let core = |before: usize| {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
        let bits: Vec<bool> =
            padded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
        let whole = bits.chunks_exact(6).enumerate().filter(|(at, _)| at * 6 >= before * 8);
        whole.map(|(_, six)| ALPHABET[six.iter().fold(0, |n, bit| n << 1 | usize::from(*bit))] as char).collect()
    };
    (0..3).map(core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_at_every_alignment() {
        // "secret" in "secret", "asecret", "absecret"
        for (at, whole) in ["c2VjcmV0", "YXNlY3JldA", "YWJzZWNyZXQ"].iter().enumerate() {
            assert!(whole.contains(&base64_cores(b"secret")[at]), "{whole}");
        }
        assert_eq!(base64_cores(b"secret")[0], "c2VjcmV0");
    }

    #[test]
    fn a_needle_is_found_behind_a_false_start() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aa", b"ab"), None);
    }
}
