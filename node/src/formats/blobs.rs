//! Takes out of a run what nobody reads: images and files written as base64. What stands in their place says how long they
//! were and what they hash to, so that two runs with different images stay two runs.

use folklore_store::run::Run;

/// Characters in one piece that make base64 rather than a long word or a hash. A key of 4,096 bits has 3,200.
const MIN_CHARS: usize = 1024;
/// Characters of a line that may be one of several lines of base64; MIME breaks at 76, PEM at 64.
const MIN_LINE_CHARS: usize = 60;

/// Elides base64 in every text of a run.
pub(super) fn elide(run: &mut Run) {
    let Run { task, steps, outcome, .. } = run;
    let reason = outcome.reason.iter_mut().chain(outcome.expected.iter_mut().flatten());
    for text in reason.chain([task]) {
        elide_text(text);
    }
    for step in steps {
        for text in [&mut step.think, &mut step.action, &mut step.observation] {
            elide_text(text);
        }
    }
}

fn elide_text(text: &mut String) {
    if text.len() < MIN_CHARS {
        return;
    }
    let found = blobs(text.as_bytes());
    if found.is_empty() {
        return;
    }
    let mut out = String::with_capacity(text.len() / 2);
    let mut done = 0;
    for (from, to) in found {
        // Both ends stand beside ASCII, so these are character boundaries.
        let (Some(before), Some(blob)) = (text.get(done..from), text.get(from..to)) else { return };
        out.push_str(before);
        let hash = blake3::hash(blob.as_bytes()).to_hex();
        out.push_str(&format!("[base64 of {} bytes elided, blake3 {}]", blob.len(), &hash[..16]));
        done = to;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    *text = out;
}

/// Where base64 stands: runs of its characters, over lines if the lines are long, with capitals, small letters and digits.
fn blobs(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        let mut end = at;
        loop {
            let line_from = at;
            while bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)) {
                at += 1;
            }
            // The last line of several is shorter and comes in fours; a word behind them usually does not.
            let len = at - line_from;
            if line_from == from || len >= MIN_LINE_CHARS || len % 4 == 0 {
                end = at;
            }
            let goes_on = len >= MIN_LINE_CHARS && bytes.get(at).is_some_and(|b| b"\r\n".contains(b));
            if !goes_on {
                break;
            }
            while bytes.get(at).is_some_and(|b| b"\r\n".contains(b)) {
                at += 1;
            }
        }
        let piece = bytes.get(from..end).unwrap_or_default().trim_ascii_end();
        let end = from + piece.len();
        if piece.len() >= MIN_CHARS && looks_random(piece) {
            found.push((from, end));
        }
        at = at.max(end).max(from + 1);
        while bytes.get(at).is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
            at += 1;
        }
    }
    found
}

/// Whether capitals, small letters and digits all make up a fair part, as in packed data and not in prose or code.
fn looks_random(piece: &[u8]) -> bool {
    let share = |is: fn(&u8) -> bool| piece.iter().filter(|byte| is(byte)).count() * 100 / piece.len().max(1);
    share(u8::is_ascii_uppercase) >= 10 && share(u8::is_ascii_lowercase) >= 10 && share(u8::is_ascii_digit) >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base64 of a counter's hashes.
    fn base64(chars: usize) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = 7_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(ALPHABET[(state >> 26) as usize])
        };
        (0..chars).map(next).collect()
    }

    fn elided(text: &str) -> String {
        let mut text = text.to_owned();
        elide_text(&mut text);
        text
    }

    #[test]
    fn an_embedded_image_becomes_its_length_and_hash() {
        let (blob, other) = (base64(5000), base64(5001));
        let text = elided(&format!("see ![x](data:image/png;base64,{blob}) é and {other}"));
        assert!(text.starts_with("see ![x](data:image/png;base64,[base64 of 5000 bytes elided, blake3 "), "{text}");
        assert!(text.contains("]) é and [base64 of 5001 bytes elided") && text.len() < 250, "{text}");
        assert_ne!(elided(&blob)[..40], elided(&other)[..40]);
    }

    #[test]
    fn wrapped_lines_are_one_blob() {
        let blob = base64(3000);
        let lines: Vec<&str> = (0..blob.len()).step_by(76).map(|at| &blob[at..blob.len().min(at + 76)]).collect();
        let text = elided(&format!("-----BEGIN\n{}\nend", lines.join("\n")));
        assert!(text.contains("[base64 of 30") && !text.contains(lines[3]), "{text}");
        assert!(text.ends_with("end"), "{text}");
    }

    #[test]
    fn prose_code_hex_and_long_words_stay() {
        for text in [
            "plain words and some code(x) { return y; }\n".repeat(200),
            "deadbeef01".repeat(400),
            "x".repeat(5000),
            "path/to/some/file_name/".repeat(200),
            "CamelCaseWords".repeat(200),
            base64(1000),
        ] {
            assert_eq!(elided(&text), text);
        }
    }
}
