//! Shared pieces of the human output.

use crate::api::{Replaced, Standing, TimeMs};

/// Characters of a lesson id in a list: 7 are the same for all, 13 remain to tell a million apart.
const SHORT_LESSON_ID: usize = 20;
/// Characters of a hash in a list.
const SHORT_HASH: usize = 12;
/// Characters at the end of a node id that tell it from others in a list.
const SHORT_NODE: usize = 8;

/// Replaced lessons that are named; the rest is counted.
const SHOWN_REPLACED: usize = 5;

/// Which texts are not kept and which lessons stand for them; `all` is how many there are.
pub(super) fn replaced(list: &[Replaced], all: u64) -> Vec<String> {
    let line = |one: &Replaced| format!("  not kept: '{}', for {} says it ('{}')", one.title, one.by, one.by_title);
    let mut lines: Vec<String> = list.iter().take(SHOWN_REPLACED).map(line).collect();
    let more = all.saturating_sub(len(&lines));
    if more > 0 {
        lines.push(format!("  not kept: {more} more, which --json names"));
    }
    lines
}

/// `1 run`, `2 runs`.
pub(super) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// The number of something in a list.
pub(super) fn len<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

/// Bytes for people.
pub(super) fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}

/// A lesson id long enough to be used as a prefix.
pub(super) fn short_id(id: &str) -> &str {
    id.get(..SHORT_LESSON_ID).unwrap_or(id)
}

/// A hash long enough to compare by eye.
pub(super) fn short_hash(hash: &str) -> &str {
    hash.get(..SHORT_HASH).unwrap_or(hash)
}

/// The end of a node id: all begin with `12D3KooW`.
pub(super) fn short_node(id: &str) -> String {
    match id.len().checked_sub(SHORT_NODE).and_then(|at| id.get(at..)) {
        Some(end) if id.len() > 2 * SHORT_NODE => format!("…{end}"),
        _ => id.to_owned(),
    }
}

/// A time, or `never`.
pub(super) fn when(time: Option<TimeMs>) -> String {
    time.map_or_else(|| "never".to_owned(), |t| t.to_string())
}

/// `unproven (taught by 1, helped 0, hurt 0, disputed 0)`.
pub(super) fn standing(s: &Standing) -> String {
    format!(
        "{} (taught by {}, helped {}, hurt {}, disputed {})",
        s.state.as_str(),
        s.taught_by,
        s.helped,
        s.hurt,
        s.disputed
    )
}

/// Every line of `text` behind `prefix`.
pub(super) fn indent(text: &str, prefix: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Names and values under each other, without the empty ones; a value of several lines stays in its column.
pub(super) fn fields(fields: &[(&str, &str)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let line =
        |(name, value): &(&str, &str)| format!("{name:<width$}{}", indent(value, &" ".repeat(width)).trim_start());
    fields.iter().filter(|(_, value)| !value.is_empty()).map(line).collect::<Vec<_>>().join("\n")
}

/// Rows with their columns under each other; the last column is not padded.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let len = cell.chars().count();
            match widths.get_mut(at) {
                Some(width) => *width = len.max(*width),
                None => widths.push(len),
            }
        }
    }
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [["é", "x", "last"], ["abc", "", "end"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "é    x  last\nabc     end");
        assert_eq!(table(&[]), "");
        assert_eq!(fields(&[("a", "1\n2"), ("none", ""), ("long", "3")]), "a     1\n      2\nlong  3");
    }

    #[test]
    fn counts_read_as_words() {
        assert_eq!((count(1, "run"), count(0, "lesson")), ("1 run".into(), "0 lessons".into()));
        assert_eq!(short_node("12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5"), "…yKSUKPH5");
        assert_eq!(short_node("short"), "short");
    }
}
