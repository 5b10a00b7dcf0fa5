//! What a rule is, and the table of all of them.

use super::hay::Hay;
use super::{Class, authority, contextual, generic, identity, private_key, tokens};
use std::ops::Range;

/// A search by hand: given the stretch of text and where the keyword stands, the range to replace.
pub(crate) type Search = fn(&Hay<'_>, Range<usize>) -> Option<Range<usize>>;

/// One kind of secret and how it is recognised. Plain data; expressions are compiled when first needed.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The kind, as in `[REDACTED:kind]`: lower case, digits and `-`.
    pub(crate) id: &'static str,
    /// Who issues such secrets, or the standard that defines them.
    pub(crate) provider: &'static str,
    pub(crate) class: Class,
    /// Without one of these in the text the rule cannot fire.
    pub(crate) keywords: &'static [&'static str],
    pub(crate) shape: Shape,
    /// Least Shannon entropy of the random part, bits a byte.
    pub(crate) floor: f64,
}

/// How the secret lies around the keyword.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// The keyword (in exactly this case) begins the token; `body` is an expression for the rest. A `bounded` token must
    /// stand alone as a word; an unbounded one has a prefix so telling that it is taken wherever it stands.
    Token { body: &'static str, bounded: bool },
    /// The keyword (in exactly this case) stands inside the token.
    Infix { before: &'static str, after: &'static str },
    /// The keyword (any case) is in the name that a value matching `value` is assigned to.
    Assigned { value: &'static str },
    /// Found by code.
    Found(Search),
}

/// Floor for the random part of a token with a telling prefix: only stops `xxxx…` and the like. Sixteen random hex digits
/// fell below it in none of 300,000 draws.
const TOKEN_FLOOR: f64 = 1.8;

/// Floor for a value recognised by the name it is assigned to.
const ASSIGNED_FLOOR: f64 = 2.2;

/// A token with a prefix so telling that it is taken wherever it stands. The body must be at least
/// [`super::scanner::FLOOR_BYTES`] long.
pub(crate) const fn token(
    id: &'static str,
    provider: &'static str,
    keywords: &'static [&'static str],
    body: &'static str,
) -> Rule {
    Rule {
        id,
        provider,
        class: Class::Credential,
        keywords,
        shape: Shape::Token { body, bounded: false },
        floor: TOKEN_FLOOR,
    }
}

/// A token with a short prefix that must stand alone as a word.
pub(crate) const fn word(
    id: &'static str,
    provider: &'static str,
    keywords: &'static [&'static str],
    body: &'static str,
) -> Rule {
    Rule {
        id,
        provider,
        class: Class::Credential,
        keywords,
        shape: Shape::Token { body, bounded: true },
        floor: TOKEN_FLOOR,
    }
}

/// A token known by what stands in its middle or at its end.
pub(crate) const fn infix(
    id: &'static str,
    provider: &'static str,
    keywords: &'static [&'static str],
    before: &'static str,
    after: &'static str,
) -> Rule {
    Rule { id, provider, class: Class::Credential, keywords, shape: Shape::Infix { before, after }, floor: TOKEN_FLOOR }
}

/// A value without a prefix of its own, known by the name it is assigned to.
pub(crate) const fn assigned(
    id: &'static str,
    provider: &'static str,
    keywords: &'static [&'static str],
    value: &'static str,
) -> Rule {
    Rule { id, provider, class: Class::Credential, keywords, shape: Shape::Assigned { value }, floor: ASSIGNED_FLOOR }
}

/// The rule with another floor.
pub(crate) const fn floored(floor: f64, rule: Rule) -> Rule {
    Rule { floor, ..rule }
}

/// A credential found by code.
pub(crate) const fn found(
    id: &'static str,
    provider: &'static str,
    keywords: &'static [&'static str],
    search: Search,
) -> Rule {
    Rule { id, provider, class: Class::Credential, keywords, shape: Shape::Found(search), floor: 0.0 }
}

/// Identity data found by code.
pub(crate) const fn personal(id: &'static str, keywords: &'static [&'static str], search: Search) -> Rule {
    Rule { id, provider: "identity", class: Class::Identity, keywords, shape: Shape::Found(search), floor: 0.0 }
}

/// All rules, most telling first: where two rules of one class claim the same text, the one earlier in the table names
/// it. The catch-all comes after every credential with a name, identity last.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    let telling = [contextual::RULES, authority::RULES, generic::RULES, identity::RULES];
    [private_key::RULES].into_iter().chain(tokens::TABLES).chain(telling).flatten()
}
