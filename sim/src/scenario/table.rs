//! Tables of a scenario file as they are read: each key is asked for by name, and one that nobody asked for is an error that
//! says what could have stood there.

use std::{cell::RefCell, fmt::Display};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{ScenarioError, units};

/// A table under way of being read.
pub(super) struct Table<'a> {
    text: &'a str,
    /// As an error names it: `[run]`, `[[fault]]`.
    name: String,
    line: usize,
    entries: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
}

/// A value with the key it stands under.
pub(super) struct Value<'a> {
    text: &'a str,
    key: String,
    line: usize,
    value: &'a DeValue<'a>,
}

/// The line a byte stands on, from 1.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}

/// The error of a text that is not TOML.
pub(super) fn not_toml(text: &str, error: &toml::de::Error) -> ScenarioError {
    let line = line_at(text, error.span().map_or(0, |span| span.start));
    ScenarioError::at(line, error.message().replace('\n', "; "))
}

impl<'a> Table<'a> {
    /// The whole file.
    pub(super) fn root(text: &'a str, entries: &'a DeTable<'a>) -> Self {
        Self { text, name: "the file".into(), line: 1, entries, asked: RefCell::default() }
    }

    /// The value under a key.
    pub(super) fn get(&self, key: &'static str) -> Option<Value<'a>> {
        self.asked.borrow_mut().push(key);
        let (_, value) = self.entries.iter().find(|(name, _)| name.get_ref() == key)?;
        let line = line_at(self.text, value.span().start);
        let key = if self.name == "the file" { key.into() } else { format!("{} {key}", self.name) };
        Some(Value { text: self.text, key, line, value: value.get_ref() })
    }

    /// The value under a key that must be there.
    pub(super) fn need(&self, key: &'static str) -> Result<Value<'a>, ScenarioError> {
        self.get(key).ok_or_else(|| ScenarioError::at(self.line, format!("{} needs the key `{key}`", self.name)))
    }

    /// What `read` makes of the value under a key, or `default` where there is none.
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Value<'a>) -> Result<T, ScenarioError>,
    ) -> Result<T, ScenarioError> {
        self.get(key).map_or(Ok(default), |value| read(&value))
    }

    /// A table of its own under a key.
    pub(super) fn table(&self, key: &'static str) -> Result<Option<Table<'a>>, ScenarioError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.table(&format!("[{key}]")).map(Some)
    }

    /// The tables written `[[key]]`.
    pub(super) fn tables(&self, key: &'static str, name: &str) -> Result<Vec<Table<'a>>, ScenarioError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.value else {
            return Err(value.wrong(format!("a table for each, written `{name}`")));
        };
        items.iter().map(|item| value.part(item).table(name)).collect()
    }

    /// An error about the table as a whole.
    pub(super) fn wrong(&self, message: impl Display) -> ScenarioError {
        ScenarioError::at(self.line, format!("{} {message}", self.name))
    }

    /// Ends the reading: what stands there and was not asked for is an error.
    pub(super) fn done(self) -> Result<(), ScenarioError> {
        let asked = self.asked.into_inner();
        let stray = self.entries.iter().map(|(key, _)| key).filter(|key| !asked.contains(&key.get_ref().as_ref()));
        let Some(first) = stray.min_by_key(|key| key.span().start) else { return Ok(()) };
        let line = line_at(self.text, first.span().start);
        let known = asked.join(", ");
        Err(ScenarioError::at(line, format!("{} has no key `{}`; it may have {known}", self.name, first.get_ref())))
    }
}

impl<'a> Value<'a> {
    /// Where it stands.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    fn part(&self, item: &'a Spanned<DeValue<'a>>) -> Value<'a> {
        let line = line_at(self.text, item.span().start);
        Value { text: self.text, key: self.key.clone(), line, value: item.get_ref() }
    }

    fn table(&self, name: &str) -> Result<Table<'a>, ScenarioError> {
        let DeValue::Table(entries) = self.value else { return Err(self.wrong("a table")) };
        Ok(Table { text: self.text, name: name.into(), line: self.line, entries, asked: RefCell::default() })
    }

    /// The error that something else was expected here.
    pub(super) fn wrong(&self, expected: impl Display) -> ScenarioError {
        let found = match self.value {
            DeValue::String(text) => format!("\"{text}\""),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            other => format!("a value of type {}", other.type_str()),
        };
        ScenarioError::at(self.line, format!("{} must be {expected}, not {found}", self.key))
    }

    /// A text.
    pub(super) fn text(&self) -> Result<&'a str, ScenarioError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text in quotes"))
    }

    /// Yes or no.
    pub(super) fn truth(&self) -> Result<bool, ScenarioError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number within a range.
    pub(super) fn whole(&self, least: i64, most: i64) -> Result<i64, ScenarioError> {
        let number = self.value.as_integer().and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
        let number = number.filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| self.wrong(format!("a whole number from {least} to {most}")))
    }

    /// A count within a range.
    pub(super) fn count(&self, least: usize, most: usize) -> Result<usize, ScenarioError> {
        self.whole(least as i64, most as i64).map(|n| n as usize)
    }

    /// A number, with or without a point, within a range.
    pub(super) fn number(&self, least: f64, most: f64) -> Result<f64, ScenarioError> {
        let number = match self.value {
            DeValue::Integer(n) => n.as_str().parse().ok(),
            DeValue::Float(n) => n.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|n: &f64| (least..=most).contains(n));
        number.ok_or_else(|| self.wrong(format!("a number from {least} to {most}")))
    }

    /// A duration, milliseconds.
    pub(super) fn duration(&self) -> Result<u64, ScenarioError> {
        let ms = self.value.as_str().and_then(units::duration_ms).filter(|ms| *ms <= super::MAX_DURATION_MS);
        ms.ok_or_else(|| self.wrong("a duration such as \"8h\", \"1h30m\" or \"250ms\", at most \"3650d\""))
    }

    /// A duration that is not nothing, milliseconds.
    pub(super) fn some_duration(&self) -> Result<u64, ScenarioError> {
        self.duration().and_then(|ms| if ms > 0 { Ok(ms) } else { Err(self.wrong("a duration above nothing")) })
    }

    /// A duration forwards or, with a minus before it, backwards, milliseconds.
    pub(super) fn signed_duration(&self) -> Result<i64, ScenarioError> {
        let text = self.value.as_str().unwrap_or_default();
        let (sign, ms) = match text.strip_prefix('-') {
            Some(rest) => (-1, units::duration_ms(rest)),
            None => (1, units::duration_ms(text)),
        };
        let ms = ms.filter(|ms| *ms <= super::MAX_DURATION_MS);
        ms.map(|ms| sign * ms as i64).ok_or_else(|| self.wrong("a duration such as \"90s\" or \"-2h\""))
    }

    /// A size, bytes.
    pub(super) fn size(&self) -> Result<u64, ScenarioError> {
        self.value.as_str().and_then(units::size_bytes).ok_or_else(|| self.wrong("a size such as \"256KiB\""))
    }

    /// A rate, bytes a second.
    pub(super) fn rate(&self) -> Result<u64, ScenarioError> {
        let rate = self.value.as_str().and_then(units::rate_bytes_per_s).filter(|rate| *rate > 0);
        rate.ok_or_else(|| self.wrong("a rate such as \"10Mbit/s\" or \"128KiB/s\""))
    }

    /// A share, parts per million.
    pub(super) fn share(&self) -> Result<u32, ScenarioError> {
        let ppm = match self.value {
            DeValue::String(text) => units::percent_ppm(text),
            _ => self.number(0.0, 1.0).ok().and_then(units::share_ppm),
        };
        ppm.ok_or_else(|| self.wrong("a share from 0 to 1, or a text such as \"2%\""))
    }

    /// The values of a list.
    pub(super) fn list(&self) -> Result<Vec<Value<'a>>, ScenarioError> {
        let DeValue::Array(items) = self.value else { return Err(self.wrong("a list in brackets")) };
        Ok(items.iter().map(|item| self.part(item)).collect())
    }

    /// A text, or the texts of a list, each with where it stands.
    pub(super) fn texts(&self) -> Result<Vec<(usize, &'a str)>, ScenarioError> {
        match self.value {
            DeValue::Array(_) => self.list()?.iter().map(|item| Ok((item.line, item.text()?))).collect(),
            _ => Ok(vec![(self.line, self.text()?)]),
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, ScenarioError> {
        let text = self.value.as_str();
        let found = words.iter().find(|(word, _)| Some(*word) == text);
        let names = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(format!("one of {}", names())))
    }

    /// A table written in braces.
    pub(super) fn braces(&self) -> Result<Table<'a>, ScenarioError> {
        self.table(&self.key)
    }
}
