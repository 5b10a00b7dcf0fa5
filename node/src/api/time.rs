//! Wall-clock times: milliseconds since 1970 inside, ISO-8601 UTC text in JSON.

use std::{
    fmt,
    str::FromStr,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The last millisecond of the year 9999: later ones, which only a broken or lying clock gives, are shown as this.
const MAX_MS: u64 = 253_402_300_799_999;
const DAY_MS: u64 = 86_400_000;

/// Milliseconds since 1970, UTC. In JSON a text such as `2026-11-30T16:05:38.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeMs(pub u64);

impl TimeMs {
    /// This machine's clock.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(MAX_MS))
    }
}

/// A text that is not a time as [`TimeMs`] writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time: write it like 2026-11-30T16:05:38.000Z")]
pub struct ParseTimeError;

impl fmt::Display for TimeMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.min(MAX_MS);
        let (year, month, day) = civil_from_days(ms / DAY_MS);
        let (hours, rest) = ((ms % DAY_MS) / 3_600_000, ms % 3_600_000);
        let (minutes, seconds, milli) = (rest / 60_000, rest % 60_000 / 1000, rest % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{milli:03}Z")
    }
}

impl FromStr for TimeMs {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        // Exactly what Display writes; the final comparison refuses days and hours that do not exist.
        let number = |range| -> Result<u64, ParseTimeError> {
            let digits: &str = text.get(range).ok_or(ParseTimeError)?;
            digits.parse().map_err(|_| ParseTimeError)
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hours, minutes, seconds, milli) = (number(11..13)?, number(14..16)?, number(17..19)?, number(20..23)?);
        if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(ParseTimeError);
        }
        let time = Self(
            days_from_civil(year, month, day) * DAY_MS + hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + milli,
        );
        if time.to_string() == text { Ok(time) } else { Err(ParseTimeError) }
    }
}

impl Serialize for TimeMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Gregorian date of a day number since 1970, after Howard Hinnant's "chrono-compatible low-level date algorithms".
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`], for years from 1970.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let y = year - u64::from(month <= 2);
    let (era, year_of_era) = (y / 400, y % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments_read_as_iso_8601() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (MAX_MS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(TimeMs(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(TimeMs(ms)));
        }
        assert_eq!(TimeMs(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2026-02-30T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01 00:00:00.000Z",
            "1969-12-31T00:00:00.000Z",
            "2026-01-01T00:00:00.000+01",
            "ééééééééééééé",
        ] {
            assert_eq!(text.parse::<TimeMs>(), Err(ParseTimeError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_reads_back(ms in 0..=MAX_MS) {
            prop_assert_eq!(TimeMs(ms).to_string().parse(), Ok(TimeMs(ms)));
        }
    }
}
