//! The catch-all: any value assigned to a name that says password, secret, token or key, if it looks like a real one.

use super::assignment::{self, Tie, Value};
use super::entropy::{contains, is_stand_in, looks_drawn, shannon};
use super::hay::{Hay, is_base64};
use super::rule::{Rule, found};
use std::ops::Range;

/// What the catch-all gives as its provider; claims of other providers come before it.
pub(crate) const PROVIDER: &str = "any";

pub(crate) const RULES: &[Rule] = &[
    found("password", PROVIDER, &["password", "passwd", "passphrase", "passcode", "pwd", "pass"], password),
    found(
        "secret",
        PROVIDER,
        &[
            "secret",
            "token",
            "api_key",
            "apikey",
            "api-key",
            "access_key",
            "accesskey",
            "access-key",
            "auth_key",
            "authkey",
            "private_key",
            "privatekey",
            "encryption_key",
            "encryptionkey",
            "signing_key",
            "signingkey",
            "master_key",
            "masterkey",
            "account_key",
            "credential",
        ],
        secret,
    ),
    found("secret", PROVIDER, &["key"], key),
];

/// What names a key that is none: to a table, a cache, a lock, a map.
const KEY_HEADS: &[&str] = &[
    "cache",
    "primary",
    "foreign",
    "sort",
    "dedupe",
    "dedup",
    "partition",
    "object",
    "row",
    "group",
    "order",
    "hot",
    "map",
    "dict",
    "index",
    "unique",
    "natural",
    "composite",
    "routing",
    "shard",
    "s3",
    "file",
    "storage",
    "query",
    "translation",
    "i18n",
    "lookup",
    "hash",
    "item",
    "node",
    "state",
    "react",
    "host",
    "known",
    "ssh",
    "pub",
];

/// Fewest bytes and least entropy of what is only called a key.
const KEY_BYTES: usize = 16;
const KEY_FLOOR: f64 = 3.2;

/// What may follow the keyword within its name (lower case, separators dropped). Anything else names another thing:
/// `token_count`, `password_file`, `secret_name`, `tokenizer`.
const NAME_TAILS: &[&str] = &[
    "",
    "key",
    "value",
    "val",
    "keybase",
    "string",
    "str",
    "prod",
    "production",
    "staging",
    "stage",
    "dev",
    "live",
    "test",
    "text",
    "plain",
    "plaintext",
    "raw",
    "base64",
    "b64",
    "hex",
    "id0",
    "old",
    "new",
    "default",
    "env",
];

/// Names whose tokens are no secrets: where to go on reading, and what a language model counts or reads.
const NAME_HEADS: &[&str] = &[
    "next",
    "page",
    "sync",
    "continuation",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "stop",
    "special",
    "max",
    "min",
    "num",
    "n",
    "total",
    "cancellation",
    "idempotency",
    "public",
];

/// Fewest bytes of a password; shorter ones are too likely words.
const PASSWORD_BYTES: usize = 6;

/// Least entropy of a password, bits a byte. `hunter2` has 2.8.
const PASSWORD_FLOOR: f64 = 2.2;

/// Fewest bytes of any other secret.
const SECRET_BYTES: usize = 12;

/// Least entropy of any other secret, bits a byte; random hex of 16 has about 3.2.
const SECRET_FLOOR: f64 = 2.9;

/// Fewest bytes of a passphrase of letters only, as in `DB_PASSWORD=correct-horse-battery`.
const PHRASE_BYTES: usize = 12;

fn password(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let short = hit.len() <= 4;
    if short && !begins_word(hay, hit.start) {
        return None;
    }
    let value = named_value(hay, &hit)?;
    let bytes = hay.get(value.range.clone());
    // Dashes, dots and slashes join words; letters beyond ASCII are letters.
    let strange = bytes
        .iter()
        .any(|b| b.is_ascii_digit() || (b.is_ascii_punctuation() && !matches!(b, b'_' | b'-' | b'.' | b':' | b'/')));
    let screaming = hay.get(hit).iter().all(u8::is_ascii_uppercase);
    let phrase = screaming
        && value.tie == Tie::Sign
        && bytes.len() >= PHRASE_BYTES
        && bytes.iter().any(|b| matches!(b, b'-' | b'_'));
    let real = bytes.len() >= PASSWORD_BYTES
        && shannon(bytes) >= PASSWORD_FLOOR
        && bytes.iter().any(u8::is_ascii_alphabetic)
        && (strange || phrase || is_drawn_from_letters(bytes))
        && !bytes.iter().any(u8::is_ascii_whitespace)
        && !is_stand_in(bytes)
        && (value.quoted || !is_code(hay, &value))
        && (value.tie != Tie::Is || bytes.iter().any(u8::is_ascii_digit));
    real.then_some(value.range)
}

/// Whether a password without a digit or a sign is one all the same: one in fifty of those that are drawn from letters and digits
/// has none.
fn is_drawn_from_letters(bytes: &[u8]) -> bool {
    bytes.len() >= PHRASE_BYTES && bytes.iter().all(u8::is_ascii_alphabetic) && looks_drawn(bytes)
}

fn secret(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let value = named_value(hay, &hit)?;
    let bytes = hay.get(value.range.clone());
    let real = bytes.len() >= SECRET_BYTES
        && shannon(bytes) >= SECRET_FLOOR
        && looks_drawn(bytes)
        && bytes.iter().any(u8::is_ascii_alphabetic)
        && bytes.iter().all(u8::is_ascii_graphic)
        && !is_stand_in(bytes)
        && !is_named_thing(bytes)
        && (value.quoted || !is_code(hay, &value));
    real.then_some(value.range)
}

/// `ACME_KEY=…`, `adminKey: "…"`: a weaker name than those above, so the value must look more like one.
fn key(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let name_at = assignment::name_start(hay, hit.start);
    let head = hay.get(name_at..hit.start).to_ascii_lowercase();
    let plain = head.split(|b| *b == b'_').any(|part| KEY_HEADS.iter().any(|head| part.ends_with(head.as_bytes())));
    let separated = matches!(hay.before(hit.start), Some(b'_' | b'-'));
    if plain || !(separated || (name_at < hit.start && begins_word(hay, hit.start))) {
        return None;
    }
    let value = secret(hay, hit)?;
    let bytes = hay.get(value.clone());
    (bytes.len() >= KEY_BYTES && shannon(bytes) >= KEY_FLOOR && bytes.iter().all(|&b| is_base64(b) || b == b'='))
        .then_some(value)
}

/// The value, if the name around the keyword is that of a secret. Nothing where a placeholder cuts name or value short:
/// what is left of them cannot be judged.
fn named_value(hay: &Hay<'_>, hit: &Range<usize>) -> Option<Value> {
    let name_end = hay.skip(hit.end, 24, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let squeezed = |bytes: &[u8]| -> String {
        bytes.iter().filter(|b| b.is_ascii_alphanumeric()).map(|b| char::from(b.to_ascii_lowercase())).collect()
    };
    let tail = squeezed(hay.get(hit.end..name_end));
    let tail = tail.trim_end_matches(|c: char| c.is_ascii_digit());
    if !NAME_TAILS.contains(&tail) {
        return None;
    }
    let name_at = assignment::name_start(hay, hit.start);
    if hay.cut_left(name_at) {
        return None;
    }
    let head = hay.get(name_at..hit.start).to_ascii_lowercase();
    if head.split(|b| *b == b'_').any(|part| NAME_HEADS.iter().any(|head| head.as_bytes() == part)) {
        return None;
    }
    let mut value = assignment::value(hay, hit.start, name_end)?;
    if hay.cut_right(value.range.end) {
        return None;
    }
    if !value.quoted {
        // A full stop or comma that ends the sentence.
        let kept = hay.skip_back(value.range.end, value.range.len(), |b| matches!(b, b'.' | b'!' | b'?' | b':'));
        value.range.end = kept;
    }
    (!value.range.is_empty()).then_some(value)
}

/// Whether a new word begins at `at`: no letter before it, or a capital after a small letter.
fn begins_word(hay: &Hay<'_>, at: usize) -> bool {
    match (hay.before(at), hay.at(at)) {
        (Some(before), Some(first)) if before.is_ascii_alphabetic() => {
            (before.is_ascii_lowercase() && first.is_ascii_uppercase()) || hay.ends_escape(at)
        }
        _ => !hay.cut_left(at),
    }
}

/// Whether a bare value is an expression: a call, an index, names joined by dots, or a plain name with a number in it.
fn is_code(hay: &Hay<'_>, value: &Value) -> bool {
    let bytes = hay.get(value.range.clone());
    let name = |part: &[u8]| {
        part.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    let call = matches!(hay.at(value.range.end), Some(b'(' | b'[' | b'{'));
    let dotted = bytes.contains(&b'.') && bytes.split(|b| *b == b'.').all(name) && !random(bytes);
    let parts: Vec<&[u8]> = bytes.split(|b| *b == b'_').collect();
    let snake = name(bytes) && parts.len() > 1 && !random(bytes);
    call || dotted || snake || contains(bytes, b"::") || contains(bytes, b"->")
}

/// Whether letters and digits alternate as they do in random text and not in names.
fn random(bytes: &[u8]) -> bool {
    let turns = bytes
        .windows(2)
        .filter(|pair| {
            pair[0].is_ascii_digit() != pair[1].is_ascii_digit() && pair.iter().all(u8::is_ascii_alphanumeric)
        })
        .count();
    turns >= 4
}

/// Whether a value names something: a file, a path, a date, a version, an URL, words joined by dashes.
fn is_named_thing(bytes: &[u8]) -> bool {
    const ENDINGS: &[&str] = &[
        ".json", ".txt", ".pem", ".key", ".py", ".js", ".ts", ".rs", ".go", ".java", ".yml", ".yaml", ".toml", ".env",
        ".xml", ".html", ".md", ".com", ".org", ".io", ".net",
    ];
    let lower = bytes.to_ascii_lowercase();
    let letters = bytes.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    ENDINGS.iter().any(|ending| lower.ends_with(ending.as_bytes()))
        || contains(bytes, b"://")
        || contains(bytes, b"()")
        || (letters <= 2 && bytes.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b':' | b'.' | b'T' | b'Z' | b'+')))
        // Words with a number: `gpt-4o-mini-2024`, `model_v2_final`.
        || (digits * 8 < letters && !random(bytes) && bytes.iter().any(|b| matches!(b, b'-' | b'_' | b'.' | b'/')))
}
