//! How a scenario file writes durations, sizes, rates and shares; reading and writing, which are inverse to each other.

/// Milliseconds of `"250ms"`, `"8h"` or `"1h30m"`; `None` if it is none of these or does not fit.
pub fn duration_ms(text: &str) -> Option<u64> {
    let (mut rest, mut total) = (text, 0_u64);
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let tail = rest.get(digits..)?;
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let unit = DURATIONS.iter().find(|(name, _)| Some(*name) == tail.get(..letters))?.1;
        // Each unit once, larger ones first: "30m1h" and "1h1h" are more likely slips than meant.
        if unit >= smallest {
            return None;
        }
        smallest = unit;
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = tail.get(letters..)?;
    }
    (!text.is_empty()).then_some(total)
}

/// Units of time, the largest first, with their milliseconds.
const DURATIONS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A duration as [`duration_ms`] reads it.
pub fn duration_text(ms: u64) -> String {
    let (mut rest, mut text) = (ms, String::new());
    for (name, unit) in DURATIONS {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Bytes of `"256KiB"`, `"64KB"` or `"1500B"`; `None` if it is none of these or does not fit.
pub fn size_bytes(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A size as [`size_bytes`] reads it.
pub fn size_text(bytes: u64) -> String {
    let (name, unit) = SIZES.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)).unwrap_or(&("B", 1));
    format!("{}{name}", bytes / unit)
}

/// Bytes a second of `"10Mbit"` (a second is understood, `"/s"` may stand there) or `"128KiB/s"`.
pub fn rate_bytes_per_s(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    match scaled(text, &BITS) {
        Some(bits) => Some(bits / 8),
        None => size_bytes(text),
    }
}

const BITS: [(&str, u64); 4] = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// A rate as [`rate_bytes_per_s`] reads it.
pub fn rate_text(bytes_per_s: u64) -> String {
    format!("{}/s", size_text(bytes_per_s))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = units.iter().find(|(name, _)| Some(*name) == text.get(digits..))?.1;
    text.get(..digits)?.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parts per million of `"2%"` or `"0.5%"`; `None` if it is no share from 0 to 1.
pub fn percent_ppm(text: &str) -> Option<u32> {
    share_ppm(text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0)
}

/// Parts per million of a share from 0 to 1.
pub fn share_ppm(share: f64) -> Option<u32> {
    (0.0..=1.0).contains(&share).then(|| (share * 1_000_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them_and_nothing_else_is() {
        for (text, ms) in [("8h", 28_800_000), ("250ms", 250), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "8", "h", "8 h", "30m1h", "1h1h", "-1s", "1.5h", "99999999999999999999s", "9999999999999999d"]
        {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_rates_are_read_in_bytes_and_bits() {
        assert_eq!(size_bytes("256KiB"), Some(262_144));
        assert_eq!(size_bytes("64KB"), Some(64_000));
        assert_eq!(size_bytes("12"), None);
        assert_eq!(rate_bytes_per_s("10Mbit/s"), Some(1_250_000));
        assert_eq!(rate_bytes_per_s("10Mbit"), Some(1_250_000));
        assert_eq!(rate_bytes_per_s("128KiB/s"), Some(131_072));
    }

    #[test]
    fn shares_are_parts_of_one_or_of_a_hundred() {
        assert_eq!(percent_ppm("2%"), Some(20_000));
        assert_eq!(share_ppm(0.5), Some(500_000));
        assert_eq!(share_ppm(1.5), None);
        assert_eq!(share_ppm(f64::NAN), None);
    }

    #[test]
    fn what_is_written_reads_as_what_it_was() {
        for n in [0, 1, 7, 999, 1_000, 61_001, 86_400_000, 90_061_001, 1_048_576, 1_500_000] {
            assert_eq!(duration_ms(&duration_text(n)), Some(n));
            assert_eq!(size_bytes(&size_text(n)), Some(n));
            assert_eq!(rate_bytes_per_s(&rate_text(n)), Some(n));
        }
    }
}
