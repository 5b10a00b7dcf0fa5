//! Credentials given where a request says who asks: URLs, `Authorization` headers, `curl -u`, `.netrc`, JSON web tokens.

use super::entropy::{is_stand_in, looks_drawn, shannon};
use super::hay::{Hay, is_base64};
use super::private_key::decode;
use super::rule::{Rule, found};
use std::ops::Range;

pub(crate) const RULES: &[Rule] = &[
    found("jwt", "JSON web token (RFC 7519)", &["eyJ"], json_web_token),
    found("url-password", "URL (RFC 3986)", &["://"], url_password),
    found("basic-auth", "HTTP Basic (RFC 7617)", &["basic "], basic),
    found(
        "bearer-token",
        "HTTP Bearer (RFC 6750)",
        &[
            "bearer ",
            "authorization: token ",
            "authorization\": \"token ",
        ],
        bearer,
    ),
    found("curl-password", "curl", &["curl "], curl_user),
    found("netrc-password", ".netrc", &["machine "], netrc),
    found(
        "docker-auth",
        "Docker config",
        &["\"auth\"", "\\\"auth\\\""],
        docker_auth,
    ),
];

/// Longest JSON web token read, in bytes; claims of 10 KB are seen in the field.
const JWT_BYTES: usize = 16 * 1024;

/// Longest user and password read from an URL, in bytes.
const USER_INFO_BYTES: usize = 512;

/// How far a `curl` command is followed for `-u`, in bytes, on one line.
const COMMAND_BYTES: usize = 400;

/// Least entropy of a bearer token, bits a byte.
const BEARER_FLOOR: f64 = 3.0;

fn json_web_token(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let inside = |b: u8| is_base64(b) && !matches!(b, b'+' | b'/');
    // Only where a token can begin: otherwise `eyJ-eyJ-…` would be read again at each of them.
    let glued = hay
        .before(hit.start)
        .is_some_and(|b| b == b'-' || b == b'.');
    if hay.get(hit.clone()) != b"eyJ" || !hay.opens(hit.start) || glued {
        return None;
    }
    let header = hay.skip(hit.start, JWT_BYTES, inside);
    // The second part is JSON as well, or opaque in an encrypted token.
    if header - hit.start < 16 || hay.at(header) != Some(b'.') {
        return None;
    }
    let claims = hay.skip(header + 1, JWT_BYTES, inside);
    let named = hay.ahead(header + 1, 2) == b"ey";
    if hay.at(claims) != Some(b'.') {
        // A token cut off in its claims still tells them.
        return (named && claims - header > 16).then_some(hit.start..claims);
    }
    let end = hay.skip(claims + 1, JWT_BYTES, |b| inside(b) || b == b'.');
    let end = hay.skip_back(end, 1, |b| b == b'.');
    (claims - header > 8 || end - claims > 16).then_some(hit.start..end)
}

/// Words that stand for a password in documentation; only in URLs, where a real password may be as weak.
const URL_STAND_INS: &[&str] = &[
    "pass",
    "passwd",
    "pwd",
    "pw",
    "user",
    "username",
    "admin",
    "test",
    "testing",
    "postgres",
    "mysql",
    "root",
    "guest",
    "redis",
    "mongo",
    "x-oauth-basic",
    "x-token-auth",
    "none",
    "null",
    "key",
];

fn url_password(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    hay.before(hit.start).filter(u8::is_ascii_alphanumeric)?;
    let outside = |b: u8| {
        b <= b' '
            || matches!(
                b,
                b'/' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'?' | b'#' | b'|'
            )
    };
    let end = hay.skip(hit.end, USER_INFO_BYTES, |b| !outside(b));
    let authority = hay.get(hit.end..end);
    // The last `@` before the path: people leave `@` unescaped in passwords.
    let at = authority.iter().rposition(|&b| b == b'@')?;
    let colon = authority[..at].iter().position(|&b| b == b':')?;
    let (user, password) = (&authority[..colon], &authority[colon + 1..at]);
    let lower = password.to_ascii_lowercase();
    let stand_in = password.is_empty()
        || password == user
        || URL_STAND_INS.iter().any(|word| word.as_bytes() == lower)
        || is_stand_in(password)
        // `{user}:{password}`, `http://a:80,b:81@…`
        || password.iter().any(|b| matches!(b, b'{' | b'}' | b'(' | b','));
    let start = hit.end + colon + 1;
    (!stand_in && hay.at(hit.end + at + 1).is_some()).then_some(start..hit.end + at)
}

/// Whether decoded bytes are `user:password` in printable text.
fn is_user_password(decoded: &[u8]) -> bool {
    let colon = decoded.iter().position(|&b| b == b':');
    colon.is_some_and(|colon| colon > 0 && decoded.len() - colon > 3)
        && decoded.iter().all(|b| b.is_ascii_graphic() || *b == b' ')
}

fn basic(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    encoded_pair(hay, hit.end)
}

fn docker_auth(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let start = hay.skip(hit.end, 16, |b| matches!(b, b' ' | b':' | b'\\' | b'"'));
    encoded_pair(hay, start)
}

/// Base64 of `user:password` that begins at `start`.
fn encoded_pair(hay: &Hay<'_>, start: usize) -> Option<Range<usize>> {
    let end = hay.skip(start, 1024, |b| is_base64(b) || b == b'=');
    let encoded = hay.get(start..end);
    (encoded.len() >= 8 && !hay.cut_right(end) && is_user_password(&decode(encoded)))
        .then_some(start..end)
}

fn bearer(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let end = hay.skip(hit.end, 4096, |b| {
        is_base64(b) || matches!(b, b'.' | b'~' | b'=')
    });
    let end = hay.skip_back(end, end - hit.end, |b| b == b'.');
    let token = hay.get(hit.end..end);
    (token.len() >= 16
        && !hay.cut_right(end)
        && shannon(token) >= BEARER_FLOOR
        && looks_drawn(token)
        && !is_stand_in(token))
    .then_some(hit.end..end)
}

fn curl_user(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let line_end = hay.skip(hit.end, COMMAND_BYTES, |b| b != b'\n');
    let line = hay.get(hit.end..line_end);
    let flag = [
        &b"-u "[..],
        b"--user ",
        b"--user=",
        b"--proxy-user ",
        b"-U ",
    ]
    .iter()
    .find_map(|flag| {
        let at = line
            .windows(flag.len())
            .position(|window| window == *flag)?;
        let alone = at == 0 || line.get(at - 1).is_some_and(|b| b.is_ascii_whitespace());
        alone.then_some(hit.end + at + flag.len())
    })?;
    let start = hay.skip(flag, 4, |b| matches!(b, b'"' | b'\'' | b'\\' | b' '));
    let end = hay.skip(start, 256, |b| {
        !b.is_ascii_whitespace() && !matches!(b, b'"' | b'\'' | b'\\')
    });
    let pair = hay.get(start..end);
    let colon = pair.iter().position(|&b| b == b':')?;
    let (user, password) = (&pair[..colon], &pair[colon + 1..]);
    let stand_in = password.len() < 3
        || password == user
        || URL_STAND_INS
            .iter()
            .any(|word| word.as_bytes() == password.to_ascii_lowercase())
        || is_stand_in(password);
    (!stand_in && !hay.cut_right(end)).then_some(start + colon + 1..end)
}

fn netrc(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let mut at = hit.end;
    let mut word = |max: usize| {
        at = hay.skip(at, 16, |b| b.is_ascii_whitespace());
        let start = at;
        at = hay.skip(at, max, |b| {
            !b.is_ascii_whitespace() && !matches!(b, b'"' | b'\'' | b'\\')
        });
        start..at
    };
    let _host = word(255);
    let mut seen_login = false;
    for _ in 0..3 {
        let key = word(16);
        let value = word(256);
        match hay.get(key) {
            b"login" => seen_login = true,
            b"account" => {}
            b"password" if seen_login => {
                let ok = !value.is_empty()
                    && !hay.cut_right(value.end)
                    && !is_stand_in(hay.get(value.clone()));
                return ok.then_some(value);
            }
            _ => return None,
        }
    }
    None
}
