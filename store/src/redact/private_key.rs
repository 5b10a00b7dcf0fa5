//! Private keys in their text forms: PEM of all kinds (also OpenSSH, PGP and SSH2), PuTTY, a PEM file in base64, age.

use super::entropy::find;
use super::hay::Hay;
use super::rule::{Rule, found, token};
use std::ops::Range;

pub(crate) const RULES: &[Rule] = &[
    found("private-key", "PEM (RFC 7468)", &["-----begin ", "---- begin ", "-----end ", "---- end "], block),
    found("putty-private-key", "PuTTY", &["putty-user-key-file-"], putty),
    found("private-key-base64", "PEM in base64", &["LS0tLS1CRUdJTi"], encoded_pem),
    token(
        "age-secret-key",
        "age",
        &["AGE-SECRET-KEY-1", "AGE-SECRET-KEY-PQ-1"],
        "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{40,}",
    ),
];

/// From BEGIN to END at most, in bytes. An RSA key of 16,384 bits takes 13 KB; PGP key blocks with certificates are larger.
const BLOCK_BYTES: usize = 256 * 1024;

/// The label of a block (`RSA PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`) at most, in bytes.
const LABEL_BYTES: usize = 64;

/// A block must hold a base64 run this long, in characters; the shortest private key (Ed25519 in PKCS#8) has 64 and
/// line breaks come at 64 or later. Below it, the text only talks about keys.
const RUN_BYTES: usize = 32;

/// Header lines (`Proc-Type`, `DEK-Info`, `Comment`) skipped in a block without END.
const HEADER_LINES: usize = 8;

/// Where the label that begins at `at` ends, delimiter included, if the label is that of a private key.
fn private_label(hay: &Hay<'_>, at: usize) -> Option<usize> {
    let ahead = hay.ahead(at, LABEL_BYTES);
    let label = ahead.iter().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ').count();
    let text = std::str::from_utf8(ahead.get(..label)?).ok()?;
    let dashes = hay.skip(at + label, 5, |b| b == b'-');
    (text.contains("PRIVATE KEY") && dashes - (at + label) >= 4).then_some(dashes)
}

fn block(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if hay.get(hit.clone()).to_ascii_lowercase().ends_with(b"begin ") { pem(hay, hit) } else { pem_tail(hay, hit) }
}

/// The alphabet of PEM bodies; dashes are not part of it.
fn is_body(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn pem(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let body_at = private_label(hay, hit.end)?;
    let mut at = body_at;
    // Up to the next dashes: headers have single ones, base64 and armour checksums none.
    loop {
        let dash = hay.skip(at, BLOCK_BYTES - (at - body_at), |b| b != b'-');
        let marker = hay.skip(dash, 5, |b| b == b'-');
        if marker == dash {
            break;
        }
        let word = hay.skip(marker, 1, |b| b == b' ');
        let delimiter = marker - dash >= 4;
        if delimiter
            && hay.ahead(word, 4).eq_ignore_ascii_case(b"END ")
            && let Some(end) = private_label(hay, word + 4)
        {
            return longest_run(hay.get(body_at..dash)).map(|_| hit.start..end);
        }
        if delimiter && hay.ahead(word, 6).eq_ignore_ascii_case(b"BEGIN ") {
            break;
        }
        at = marker;
        if at - body_at >= BLOCK_BYTES {
            break;
        }
    }
    let end = end_of_run(hay, body_at)?;
    Some(hit.start..end)
}

/// The tail of a block whose beginning was cut away: the base64 lines before END.
fn pem_tail(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let end = private_label(hay, hit.end)?;
    let mut start = hit.start;
    let mut longest = 0;
    loop {
        let line_end = back_over_break(hay, start);
        let line_start = hay.skip_back(line_end, 128, is_body);
        let line_start = if hay.ends_escape(line_start + 1) { line_start + 1 } else { line_start };
        let length = line_end.saturating_sub(line_start);
        // The last line may be short, those before it may not: what is above the key are words.
        if length == 0 || (start != hit.start && length < RUN_BYTES) {
            break;
        }
        longest = longest.max(length);
        start = line_start;
    }
    (longest >= RUN_BYTES && !hay.cut_left(start)).then_some(start..end)
}

/// Where the line break (real or escaped, with indentation) before `at` begins.
fn back_over_break(hay: &Hay<'_>, at: usize) -> usize {
    let mut at = at;
    loop {
        let next = match hay.behind(at, 2) {
            [.., b' ' | b'\t' | b'\n' | b'\r'] => at - 1,
            [b'\\', b'n' | b'r'] => hay.skip_back(at - 1, 16, |b| b == b'\\'),
            _ => return at,
        };
        at = next;
    }
}

/// Where a line break (real or escaped, with indentation) or blank after `at` ends.
fn over_break(hay: &Hay<'_>, at: usize) -> usize {
    let mut at = at;
    loop {
        let slashes = hay.skip(at, 16, |b| b == b'\\');
        let next = match hay.at(slashes) {
            Some(b'n' | b'r' | b't') if slashes > at => slashes + 1,
            Some(b' ' | b'\t' | b'\n' | b'\r') if slashes == at => at + 1,
            _ => return at,
        };
        at = next;
    }
}

/// The end of the base64 lines that begin at `at`, where the block has no END; `None` if there is no key material.
fn end_of_run(hay: &Hay<'_>, at: usize) -> Option<usize> {
    let mut at = over_break(hay, at);
    for _ in 0..HEADER_LINES {
        let name = hay.skip(at, 32, |b| b.is_ascii_alphanumeric() || b == b'-');
        if name == at || hay.ahead(name, 2) != b": " {
            break;
        }
        at = over_break(hay, hay.skip(name, 256, |b| !matches!(b, b'\n' | b'\r' | b'\\')));
    }
    let mut end = None;
    loop {
        let line_end = hay.skip(at, BLOCK_BYTES, is_body);
        let length = line_end - at;
        if length < RUN_BYTES {
            // A last short line, but only after a full one.
            return match end {
                Some(_) if length > 0 => Some(line_end),
                end => end,
            };
        }
        end = Some(line_end);
        at = over_break(hay, line_end);
        if at == line_end {
            return end;
        }
    }
}

/// The longest run of base64 in `body` if it is long enough for a key, line breaks not counted.
fn longest_run(body: &[u8]) -> Option<usize> {
    body.split(|&b| !is_body(b)).map(<[u8]>::len).max().filter(|&longest| longest >= RUN_BYTES)
}

/// PuTTY's own key file: header lines `Name: value`, base64 lines, to the MAC. A file cut short ends where its lines do.
fn putty(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let mut at = hit.start;
    let mut end = hit.end;
    let mut material = false;
    loop {
        let line_end = hay.skip(at, 512, |b| !matches!(b, b'\n' | b'\r' | b'\\' | b'"'));
        let line = hay.get(at..line_end);
        let header = line
            .iter()
            .position(|&b| b == b':')
            .is_some_and(|colon| line[..colon].iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-') && colon > 0);
        let encoded = !line.is_empty() && line.iter().all(|&b| is_body(b));
        // Another file begins there.
        let next_file = at > hit.start && line.starts_with(b"PuTTY-User-Key-File-");
        if next_file || (!header && !encoded) {
            break;
        }
        material |= encoded && line.len() >= RUN_BYTES;
        end = line_end;
        let next = over_break(hay, line_end);
        if next == line_end || line.starts_with(b"Private-MAC") {
            break;
        }
        at = next;
    }
    material.then_some(hit.start..end)
}

/// A PEM file that was itself put into base64, as Kubernetes secrets and CI variables are.
fn encoded_pem(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    // Enough for `-----BEGIN ENCRYPTED PRIVATE KEY-----`; a certificate is encoded the same way and is no secret.
    let head = decode(hay.ahead(hit.start, 64));
    find(&head, b"PRIVATE KEY")?;
    let end = hay.skip(hit.start, BLOCK_BYTES, is_body);
    (end - hit.start >= 80).then_some(hit.start..end)
}

/// Decodes base64 (either alphabet); stops at the first byte outside it.
pub(crate) fn decode(encoded: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(encoded.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for &byte in encoded {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}
