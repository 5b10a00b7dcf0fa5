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
        &["bearer ", "authorization: token ", "authorization\": \"token "],
        bearer,
    ),
    found("curl-password", "curl", &["curl "], curl_user),
    found(
        "command-password",
        "client programs",
        &["sshpass ", "docker login ", "redis-cli ", "mysql ", "mysqldump ", "mariadb ", "mysqladmin "],
        command_password,
    ),
    found("netrc-password", ".netrc", &["machine "], netrc),
    found("docker-auth", "Docker config", &["\"auth\"", "\\\"auth\\\""], docker_auth),
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
    let glued = hay.before(hit.start).is_some_and(|b| b == b'-' || b == b'.');
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
    let outside =
        |b: u8| b <= b' ' || matches!(b, b'/' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'?' | b'#' | b'|');
    let end = hay.skip(hit.end, USER_INFO_BYTES, |b| !outside(b));
    let authority = hay.get(hit.end..end);
    // The last `@` with a host behind it: people leave `@` unescaped in passwords.
    let at = authority.windows(2).rposition(|pair| pair[0] == b'@' && pair[1] != b'@')?;
    let colon = authority[..at].iter().position(|&b| b == b':')?;
    let (user, password) = (&authority[..colon], &authority[colon + 1..at]);
    let stand_in = password.is_empty()
        || password == user
        || is_common(password)
        // `{user}:{password}`, `http://a:80,b:81@…`
        || password.iter().any(|b| matches!(b, b'{' | b'}' | b'(' | b','));
    let start = hit.end + colon + 1;
    (!stand_in).then_some(start..hit.end + at)
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
    (encoded.len() >= 8 && !hay.cut_right(end) && is_user_password(&decode(encoded))).then_some(start..end)
}

fn bearer(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let end = hay.skip(hit.end, 4096, |b| is_base64(b) || matches!(b, b'.' | b'~' | b'='));
    if hay.cut_right(end) {
        return None;
    }
    let end = hay.skip_back(end, end - hit.end, |b| b == b'.');
    let token = hay.get(hit.end..end);
    (token.len() >= 16 && shannon(token) >= BEARER_FLOOR && looks_drawn(token) && !is_stand_in(token))
        .then_some(hit.end..end)
}

fn curl_user(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let given = flag_value(hay, &hit, |line| {
        [&b"-u "[..], b"--user ", b"--user=", b"--proxy-user ", b"-U "]
            .into_iter()
            .find(|flag| line.starts_with(flag))
            .map(<[u8]>::len)
    })?;
    let pair = hay.get(given.clone());
    let colon = pair.iter().position(|&b| b == b':')?;
    let (user, password) = (&pair[..colon], &pair[colon + 1..]);
    let start = given.start + colon + 1;
    (password.len() >= 3 && password != user && !is_common(password)).then_some(start..given.end)
}

/// A password given to a client on its command line: `sshpass -p …`, `docker login -p …`, `redis-cli -a …`, `mysql -p…`.
fn command_password(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let command = hay.get(hit.clone()).to_ascii_lowercase();
    let glued = command.starts_with(b"mysql") || command.starts_with(b"mariadb");
    let flag = if command.starts_with(b"redis") { b"-a" } else { b"-p" };
    let given = flag_value(hay, &hit, |line| {
        let rest = line.strip_prefix(flag)?;
        let blank = rest.first()?.is_ascii_whitespace();
        match (glued, blank) {
            // `mysql -p` alone asks for it.
            (true, false) => Some(flag.len()),
            (false, true) => Some(flag.len() + 1),
            _ => None,
        }
    })?;
    let password = hay.get(given.clone());
    (password.len() >= 5 && !is_common(password) && !password.starts_with(b"-")).then_some(given)
}

/// Whether a password is one of those that documentation uses, or stands for one.
fn is_common(password: &[u8]) -> bool {
    let lower = password.to_ascii_lowercase();
    URL_STAND_INS.iter().any(|word| word.as_bytes() == lower) || is_stand_in(password)
}

/// What is given to a flag of the command at `hit`, on the same line. `flag` says how long the flag is that a stretch of
/// the line begins with, its blank included.
fn flag_value(hay: &Hay<'_>, hit: &Range<usize>, flag: impl Fn(&[u8]) -> Option<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let line_end = hay.skip(hit.end, COMMAND_BYTES, |b| b != b'\n');
    let line = hay.get(hit.end..line_end);
    let after = (0..line.len())
        .filter(|&at| line[at] == b'-' && (at == 0 || line[at - 1].is_ascii_whitespace()))
        .find_map(|at| Some(hit.end + at + flag(&line[at..])?))?;
    let start = hay.skip(after, 4, |b| matches!(b, b'"' | b'\'' | b'\\' | b' '));
    let end = hay.skip(start, 256, |b| !b.is_ascii_whitespace() && !matches!(b, b'"' | b'\'' | b'\\'));
    (end > start && !hay.cut_right(end)).then_some(start..end)
}

fn netrc(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) {
        return None;
    }
    let mut at = hit.end;
    let mut word = |max: usize| {
        at = hay.skip(at, 16, |b| b.is_ascii_whitespace());
        let start = at;
        at = hay.skip(at, max, |b| !b.is_ascii_whitespace() && !matches!(b, b'"' | b'\'' | b'\\'));
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
                let ok = !value.is_empty() && !hay.cut_right(value.end) && !is_stand_in(hay.get(value.clone()));
                return ok.then_some(value);
            }
            _ => return None,
        }
    }
    None
}
