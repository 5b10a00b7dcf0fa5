//! From text to the ranges that rules claim: one automaton over all keywords, then each rule at the places its keywords
//! point to.

use super::Classes;
use super::assignment;
use super::entropy::{contains, shannon};
use super::hay::Hay;
use super::rule::{self, Rule, Shape};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

/// How far an expression may look beyond its keyword, in bytes. The longest published token forms stay below it, and it
/// keeps the work per keyword, and so the whole scan, linear in the text.
const REACH_BYTES: usize = 1024;

/// How far an [`Shape::Infix`] rule looks back, in bytes: the longest such head (Azure DevOps) has 76.
const LOOK_BACK_BYTES: usize = 96;

/// The random part is measured over this many bytes only. It is the shortest body that an unbounded token has, so that a
/// token cut short by a placeholder cannot measure better than the whole one did.
pub(crate) const FLOOR_BYTES: usize = 16;

/// What opens every placeholder; see [`gaps`].
pub(crate) const PLACEHOLDER_OPEN: &str = "[REDACTED:";

/// The longest kind that a placeholder may name, in bytes.
const PLACEHOLDER_KIND_BYTES: usize = 64;

/// A range claimed by a rule.
#[derive(Clone)]
pub(crate) struct Claimed {
    pub(crate) range: Range<usize>,
    /// Index into [`Scanner::rules`].
    pub(crate) rule: usize,
}

struct Compiled {
    before: Option<Regex>,
    after: Regex,
}

/// The rules, ready to scan. One for the process: [`Scanner::get`].
pub(crate) struct Scanner {
    pub(crate) rules: Vec<&'static Rule>,
    automaton: AhoCorasick,
    /// For each keyword of the automaton: the rules it wakes, and the keyword's index within the rule.
    wakes: Vec<Vec<(usize, usize)>>,
    compiled: Vec<OnceLock<Compiled>>,
}

impl Scanner {
    /// The scanner over the whole table; built at first use.
    pub(crate) fn get() -> &'static Self {
        static SCANNER: OnceLock<Scanner> = OnceLock::new();
        SCANNER.get_or_init(Self::build)
    }

    fn build() -> Self {
        let rules: Vec<&'static Rule> = rule::all().collect();
        let mut by_keyword: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
        for (index, rule) in rules.iter().enumerate() {
            for (which, keyword) in rule.keywords.iter().enumerate() {
                by_keyword.entry(keyword.to_ascii_lowercase()).or_default().push((index, which));
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(by_keyword.keys())
            // Only too many or too long patterns can fail here, and the table is a constant that every test builds.
            .expect("the keyword table is a constant that fits an automaton");
        let compiled = rules.iter().map(|_| OnceLock::new()).collect();
        Self { rules, automaton, wakes: by_keyword.into_values().collect(), compiled }
    }

    /// Calls `claim` for every range that a rule of `classes` claims, in order of where its keyword ends, until it breaks.
    /// Ranges may overlap.
    pub(crate) fn scan(&self, text: &str, classes: Classes, mut claim: impl FnMut(Claimed) -> ControlFlow<()>) {
        let mut gaps = gaps(text);
        let mut gap = gaps.next().unwrap_or(0..text.len());
        // A rule that claimed up to here is not tried on keywords inside its own claim.
        let mut busy_until = vec![0usize; self.rules.len()];
        for hit in self.automaton.find_overlapping_iter(text) {
            while hit.end() > gap.end {
                match gaps.next() {
                    Some(next) => gap = next,
                    None => return,
                }
            }
            if hit.start() < gap.start {
                continue;
            }
            let hay = Hay::new(text, gap.clone());
            let Some(wakes) = self.wakes.get(hit.pattern().as_usize()) else {
                continue;
            };
            for &(index, which) in wakes {
                if !classes.has(self.rules[index].class) || hit.start() < busy_until[index] {
                    continue;
                }
                if let Some(range) = self.try_rule(index, which, &hay, hit.range()) {
                    busy_until[index] = range.end;
                    if claim(Claimed { range, rule: index }).is_break() {
                        return;
                    }
                }
            }
        }
    }

    fn try_rule(&self, index: usize, which: usize, hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
        let rule = self.rules[index];
        match rule.shape {
            Shape::Token { bounded, .. } => {
                if hay.get(hit.clone()) != rule.keywords[which].as_bytes() || (bounded && !hay.opens(hit.start)) {
                    return None;
                }
                let rest = hay.ahead(hit.end, REACH_BYTES);
                let body = self.expressions(index).after.find(rest)?;
                let end = hit.end + body.end();
                if bounded && (!hay.closes(end) || is_documentation(body.as_bytes())) {
                    return None;
                }
                measured(body.as_bytes(), rule.floor).then_some(hit.start..end)
            }
            Shape::Infix { .. } => {
                if hay.get(hit.clone()) != rule.keywords[which].as_bytes() {
                    return None;
                }
                let expressions = self.expressions(index);
                let behind = hay.behind(hit.start, LOOK_BACK_BYTES);
                let head = expressions.before.as_ref()?.find(behind)?;
                let tail = expressions.after.find(hay.ahead(hit.end, REACH_BYTES))?;
                let (start, end) = (hit.start - (behind.len() - head.start()), hit.end + tail.end());
                let whole = hay.get(start..end);
                (hay.opens(start) && hay.closes(end) && !is_documentation(whole) && shannon(whole) >= rule.floor)
                    .then_some(start..end)
            }
            Shape::Assigned { .. } => assignment::after_name(hay, hit).find_map(|value| {
                let rest = hay.ahead(value.start, REACH_BYTES);
                let found = self.expressions(index).after.find(rest)?;
                let end = value.start + found.end();
                (hay.closes(end) && shannon(found.as_bytes()) >= rule.floor && !is_documentation(found.as_bytes()))
                    .then_some(value.start..end)
            }),
            Shape::Found(search) => search(hay, hit),
        }
    }

    fn expressions(&self, index: usize) -> &Compiled {
        self.compiled[index].get_or_init(|| {
            let (before, after) = match self.rules[index].shape {
                Shape::Token { body, .. } => (None, body),
                Shape::Infix { before, after } => (Some(compile(&format!(r"(?:{before})\z"))), after),
                Shape::Assigned { value } => (None, value),
                Shape::Found(_) => (None, ""),
            };
            Compiled { before, after: compile(&format!(r"\A(?:{after})")) }
        })
    }
}

/// Expressions are constants of the table; a test compiles each of them.
fn compile(expression: &str) -> Regex {
    RegexBuilder::new(expression).unicode(false).build().expect("rule expressions are constants that a test compiles")
}

/// Whether the first bytes of the random part reach the floor.
fn measured(body: &[u8], floor: f64) -> bool {
    shannon(&body[..body.len().min(FLOOR_BYTES)]) >= floor
}

/// Whether a token is one that documentation shows: providers put `EXAMPLE` into theirs, people write `xxxxxx`.
fn is_documentation(token: &[u8]) -> bool {
    contains(&token.to_ascii_lowercase(), b"example") || contains(&token.to_ascii_lowercase(), b"xxxxxx")
}

/// The stretches of `text` between placeholders, in order. A placeholder is `[REDACTED:kind]` with any well-formed kind,
/// also one that this version of the rules does not know.
fn gaps(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    let mut openings = text.match_indices(PLACEHOLDER_OPEN);
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        for (at, open) in openings.by_ref() {
            let kind_at = at + open.len();
            let kind = text.as_bytes()[kind_at..]
                .iter()
                .take(PLACEHOLDER_KIND_BYTES + 1)
                .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
                .count();
            if (1..=PLACEHOLDER_KIND_BYTES).contains(&kind) && text.as_bytes().get(kind_at + kind) == Some(&b']') {
                let gap = from..at;
                from = kind_at + kind + 1;
                return Some(gap);
            }
        }
        done = true;
        Some(from..text.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_compiles_and_every_rule_has_keywords() {
        let scanner = Scanner::get();
        for (index, rule) in scanner.rules.iter().enumerate() {
            scanner.expressions(index);
            assert!(!rule.keywords.is_empty(), "{}", rule.id);
            assert!(
                rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                    && rule.id.len() <= PLACEHOLDER_KIND_BYTES,
                "{}",
                rule.id
            );
        }
    }

    #[test]
    fn gaps_skip_well_formed_placeholders_only() {
        let text = "a[REDACTED:x-1]b[REDACTED:]c[REDACTED:Y]d[REDACTED:z";
        let found: Vec<&str> = gaps(text).map(|gap| &text[gap]).collect();
        assert_eq!(found, ["a", "b[REDACTED:]c[REDACTED:Y]d[REDACTED:z"]);
    }
}
