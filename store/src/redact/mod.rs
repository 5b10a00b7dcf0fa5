//! Redaction: finds secrets in text and puts a placeholder such as `[REDACTED:aws-access-key-id]` in their place, before
//! the text is hashed, stored or sent anywhere.
//!
//! Two classes. [`Class::Credential`] is what lets its holder in: keys, tokens, passwords; it is replaced before anything
//! is stored. [`Class::Identity`] is what tells who and where: e-mail addresses, home directories, private addresses and
//! internal hosts; it is replaced before anything leaves a node. Lessons get both.
//!
//! The rules are our own, written from the token forms that the providers publish. How a scan goes: one automaton looks
//! for the keywords of all rules; at each keyword only the rules it belongs to are tried, each within a bounded distance,
//! so time is linear in the text. Expressions are compiled when their keyword is first met.
//!
//! What holds, and is tested:
//! - [`redact`] is deterministic and idempotent; what it returns does not [`fires`] for the same classes.
//! - Claims that overlap are replaced as one and named by the most telling rule: credentials before identity, a provider's
//!   form before the catch-all, then the longer, then the earlier, then the order of the table.
//! - Text that holds no secret comes back borrowed, byte for byte.
//! - No value that was found is kept, returned, formatted or logged.
//!
//! ```
//! use folklore_store::redact::{Classes, redact};
//!
//! let text = format!("export GITHUB_TOKEN=ghp_{}", "aB3dE5gH7jK9".repeat(3));
//! let redacted = redact(&text, Classes::CREDENTIAL);
//! assert_eq!(redacted.text, "export GITHUB_TOKEN=[REDACTED:github-token]");
//! assert_eq!((redacted.fired[0].rule, redacted.fired[0].count), ("github-token", 1));
//! ```

mod allow;
mod assignment;
mod authority;
mod contextual;
mod entropy;
mod generic;
mod hay;
mod identity;
mod private_key;
mod rule;
mod scanner;
mod tokens;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use allow::{Allow, AllowError, MAX_ALLOWED, MAX_ALLOWED_BYTES, MIN_ALLOWED_BYTES};
use scanner::{Claimed, PLACEHOLDER_OPEN, Scanner};
use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

/// Version of the rule set. Goes up whenever a text could be redacted differently than before, so that a bank can tell
/// which of its bodies were made under older rules.
pub const RULES_VERSION: u32 = 3;

/// What a rule protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Lets its holder in: keys, tokens, passwords. Never stored.
    Credential,
    /// Tells who and where: e-mail addresses, home directories, private addresses, internal hosts. Never leaves a node.
    Identity,
}

/// The set of classes to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Classes(u8);

impl Classes {
    /// Credentials only: what is due before anything is stored.
    pub const CREDENTIAL: Self = Self(1);
    /// Identity data only.
    pub const IDENTITY: Self = Self(2);
    /// Both: what is due before anything leaves the node, and for every lesson.
    pub const ALL: Self = Self(3);

    /// Whether `class` is in the set.
    pub const fn has(self, class: Class) -> bool {
        match class {
            Class::Credential => self.0 & Self::CREDENTIAL.0 != 0,
            Class::Identity => self.0 & Self::IDENTITY.0 != 0,
        }
    }
}

/// One rule that found something, and how often; never what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The kind, as in `[REDACTED:kind]`.
    pub rule: &'static str,
    /// The class of the rule.
    pub class: Class,
    /// Placeholders of this kind that were put in.
    pub count: usize,
}

/// A text after redaction, with a report of what fired.
#[derive(Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The text; borrowed when nothing was found.
    pub text: Cow<'t, str>,
    /// What was replaced, in the order of the rule table; empty when nothing was found.
    pub fired: Vec<Fired>,
}

impl fmt::Debug for Redacted<'_> {
    /// Shows lengths and counts only: the text may still hold what the other class would take out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redacted").field("text_bytes", &self.text.len()).field("fired", &self.fired).finish()
    }
}

/// Rounds of [`redact`] at most. The rules are written such that a replacement reveals nothing that the round before could
/// not see, so a second round only confirms the first; the rare exceptions (a password that ran into another secret) end
/// with the third. The bound keeps text made to peel open layer by layer from costing more than this many scans.
const ROUNDS: usize = 8;

/// Replaces every secret of `classes` in `text` by a placeholder that names its kind.
///
/// Never fails, never panics; time is linear in the length of the text.
///
/// Values of the allow list in force ([`Allow::install`]) stay.
pub fn redact(text: &str, classes: Classes) -> Redacted<'_> {
    redact_but(text, classes, Allow::in_force())
}

fn redact_but<'t>(text: &'t str, classes: Classes, allow: &Allow) -> Redacted<'t> {
    let scanner = Scanner::get();
    let mut counts = vec![0usize; scanner.rules.len()];
    let mut text = Cow::Borrowed(text);
    for _ in 0..ROUNDS {
        match replaced(scanner, &text, classes, allow, &mut counts) {
            Some(next) => text = Cow::Owned(next),
            None => break,
        }
    }
    let mut fired: Vec<Fired> = Vec::new();
    for (rule, count) in scanner.rules.iter().zip(counts) {
        match fired.iter_mut().find(|fired| fired.rule == rule.id) {
            _ if count == 0 => {}
            // Several rules of the table may be for one kind.
            Some(same) => same.count += count,
            None => fired.push(Fired { rule: rule.id, class: rule.class, count }),
        }
    }
    Redacted { text, fired }
}

/// One round: the text with its claims replaced, or `None` where there are none. Adds to the count of each rule.
fn replaced(scanner: &Scanner, text: &str, classes: Classes, allow: &Allow, counts: &mut [usize]) -> Option<String> {
    let mut claims = Vec::new();
    scanner.scan(text, classes, |claimed| {
        if !is_allowed(text, &claimed, allow) {
            claims.push(claimed);
        }
        ControlFlow::Continue(())
    });
    if claims.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for Claimed { range, rule } in merged(scanner, text, claims) {
        out.push_str(&text[from..range.start]);
        out.push_str(PLACEHOLDER_OPEN);
        out.push_str(scanner.rules[rule].id);
        out.push(']');
        counts[rule] += 1;
        from = range.end;
    }
    out.push_str(&text[from..]);
    Some(out)
}

/// The kind of a secret of `classes` that `text` holds, or `None` when [`redact`] would leave the text as it is. Stops at
/// the first; used to quarantine what other nodes send.
pub fn fires(text: &str, classes: Classes) -> Option<&'static str> {
    fires_but(text, classes, Allow::in_force())
}

fn is_allowed(text: &str, claimed: &Claimed, allow: &Allow) -> bool {
    // A claim that begins within a character is none of a whole value.
    text.get(claimed.range.clone()).is_some_and(|value| allow.has(value))
}

fn fires_but(text: &str, classes: Classes, allow: &Allow) -> Option<&'static str> {
    let scanner = Scanner::get();
    let mut first = None;
    scanner.scan(text, classes, |claimed| {
        if is_allowed(text, &claimed, allow) {
            return ControlFlow::Continue(());
        }
        first = scanner.rules.get(claimed.rule).map(|rule| rule.id);
        ControlFlow::Break(())
    });
    first
}

/// The rule of this name.
pub(crate) fn rule_named(name: &str) -> Option<&'static str> {
    Scanner::get().rules.iter().map(|rule| rule.id).find(|id| *id == name)
}

/// Joins claims that overlap; each joined range is named by its most telling claim. Sorted, disjoint, on character
/// boundaries.
fn merged(scanner: &Scanner, text: &str, mut claims: Vec<Claimed>) -> Vec<Claimed> {
    for claimed in &mut claims {
        while !text.is_char_boundary(claimed.range.start) {
            claimed.range.start -= 1;
        }
        while !text.is_char_boundary(claimed.range.end) {
            claimed.range.end += 1;
        }
    }
    claims.sort_by_key(|claimed| (claimed.range.start, std::cmp::Reverse(claimed.range.end), claimed.rule));
    // Smaller is more telling.
    let telling = |claimed: &Claimed| {
        let rule = scanner.rules[claimed.rule];
        let catch_all = rule.provider == generic::PROVIDER;
        (rule.class, catch_all, std::cmp::Reverse(claimed.range.len()), claimed.range.start, claimed.rule)
    };
    let mut joined: Vec<(Claimed, Claimed)> = Vec::new();
    for claimed in claims {
        match joined.last_mut() {
            Some((whole, best)) if claimed.range.start < whole.range.end => {
                whole.range.end = whole.range.end.max(claimed.range.end);
                if telling(&claimed) < telling(best) {
                    *best = claimed;
                }
            }
            _ => joined.push((claimed.clone(), claimed)),
        }
    }
    joined.into_iter().map(|(whole, best)| Claimed { range: whole.range, rule: best.rule }).collect()
}
