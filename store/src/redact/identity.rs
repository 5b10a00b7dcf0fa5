//! Who and where: e-mail addresses, home directories, private IPv4 addresses, internal hosts.

use super::hay::{Hay, is_word};
use super::rule::{Rule, personal};
use std::ops::Range;

pub(crate) const RULES: &[Rule] = &[
    personal("email", &["@"], email),
    personal("home-directory", &["/home/", "/users/"], unix_home),
    personal("home-directory", &["\\users\\", "\\\\users\\\\", ":/users/"], windows_home),
    personal("private-ip", &["10.", "172.", "192.168."], private_ip),
    personal(
        "internal-host",
        &[".internal", ".local", ".localdomain", ".corp", ".lan", ".intranet", ".home.arpa"],
        internal_host,
    ),
];

/// Longest local part and domain of an address, in bytes (RFC 5321).
const LOCAL_BYTES: usize = 64;
const DOMAIN_BYTES: usize = 255;

/// Longest user name in a home directory, in bytes (Linux allows 32, Windows 64 with blanks).
const NAME_BYTES: usize = 64;

/// Local parts that belong to a program.
const PROGRAM_MAILBOXES: &[&str] = &["git", "noreply", "no-reply", "donotreply", "do-not-reply", "mailer-daemon"];

/// Domains kept for documentation and tests (RFC 2606, RFC 6761).
const SYNTHETIC_DOMAINS: &[&str] =
    &["example.com", "example.org", "example.net", "example.edu", "localhost.localdomain"];
const SYNTHETIC_ENDINGS: &[&str] = &["example", "test", "invalid", "localhost"];

/// Top-level domains that addresses are taken for; with them every one of two letters. Keeps out `img@2x.png`.
const TOP_LEVEL: &[&str] = &[
    "com",
    "org",
    "net",
    "edu",
    "gov",
    "mil",
    "int",
    "info",
    "biz",
    "name",
    "pro",
    "aero",
    "coop",
    "museum",
    "dev",
    "app",
    "cloud",
    "tech",
    "online",
    "site",
    "xyz",
    "email",
    "mail",
    "blog",
    "shop",
    "store",
    "agency",
    "company",
    "solutions",
    "systems",
    "software",
    "services",
    "digital",
    "group",
    "team",
    "work",
    "world",
    "today",
    "live",
    "life",
    "media",
    "news",
    "network",
    "academy",
    "university",
    "school",
    "health",
    "care",
    "bank",
    "finance",
    "capital",
    "ventures",
    "consulting",
    "studio",
    "design",
    "engineering",
    "build",
    "run",
    "page",
    "space",
    "zone",
    "world",
    "global",
    "top",
    "club",
    "vip",
    "icu",
    "art",
    "fun",
    "one",
    "moe",
    "ninja",
    "codes",
    "chat",
    "bot",
    "berlin",
    "london",
    "paris",
    "amsterdam",
    "nyc",
    "tokyo",
    "wien",
    "swiss",
    "eus",
    "cat",
    "asia",
    "africa",
    "internal",
    "local",
    "corp",
    "lan",
    "intranet",
    "home",
    "arpa",
    "localdomain",
];

fn email(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let mailbox = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-');
    let start = hay.skip_back(hit.start, LOCAL_BYTES, mailbox);
    let start = past_escape(hay, start, hit.start);
    let start = hay.skip(start, LOCAL_BYTES, |b| matches!(b, b'.' | b'-' | b'%' | b'+'));
    if start >= hit.start || hay.cut_left(start) || hay.before(hit.start) == Some(b'.') {
        return None;
    }
    let local = hay.get(start..hit.start).to_ascii_lowercase();
    if PROGRAM_MAILBOXES.iter().any(|program| program.as_bytes() == local) {
        return None;
    }
    let end = domain_end(hay, hit.end)?;
    let domain = hay.get(hit.end..end).to_ascii_lowercase();
    let domain = std::str::from_utf8(&domain).ok()?;
    let (_, top) = domain.rsplit_once('.')?;
    let known = top.len() == 2 || TOP_LEVEL.contains(&top);
    let synthetic = SYNTHETIC_ENDINGS.contains(&top)
        || SYNTHETIC_DOMAINS
            .iter()
            .any(|kept| domain.strip_suffix(kept).is_some_and(|left| left.is_empty() || left.ends_with('.')));
    // `user:password@host` in an URL is no address; neither is a call `a@b.co(…)`.
    let in_url = hay.before(start) == Some(b':') || hay.behind(start, 3) == b"://";
    (known && !synthetic && !in_url && top.bytes().all(|b| b.is_ascii_alphabetic()) && hay.at(end) != Some(b'('))
        .then_some(start..end)
}

/// The end of the domain name that begins at `at`: two labels or more, no empty one.
fn domain_end(hay: &Hay<'_>, at: usize) -> Option<usize> {
    let end = hay.skip(at, DOMAIN_BYTES, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    // What a placeholder cut short cannot be judged; the same below.
    if hay.cut_right(end) {
        return None;
    }
    let end = hay.skip_back(end, end - at, |b| matches!(b, b'-' | b'.'));
    let domain = hay.get(at..end);
    let labels = domain.split(|b| *b == b'.');
    let sound = domain.contains(&b'.') && labels.into_iter().all(|label| !label.is_empty() && label[0] != b'-');
    (sound && hay.at(end) != Some(b'_')).then_some(end)
}

/// Moves `start` behind the letter of an escape such as `\n`, if it stands on one.
fn past_escape(hay: &Hay<'_>, start: usize, limit: usize) -> usize {
    (start + 1..limit.min(start + 6))
        .find(|&at| hay.before(start) == Some(b'\\') && hay.ends_escape(at))
        .unwrap_or(start)
}

/// Accounts that come with images, installers and CI, and words that stand for a name.
const COMMON_ACCOUNTS: &[&str] = &[
    "user",
    "users",
    "username",
    "user_name",
    "user-name",
    "your_name",
    "yourname",
    "your-username",
    "your_username",
    "you",
    "me",
    "name",
    "root",
    "admin",
    "administrator",
    "ubuntu",
    "debian",
    "centos",
    "fedora",
    "arch",
    "pi",
    "ec2-user",
    "core",
    "opc",
    "runner",
    "runneradmin",
    "runnervm",
    "vsts",
    "appveyor",
    "circleci",
    "travis",
    "jenkins",
    "gitlab-runner",
    "buildkite-agent",
    "app",
    "appuser",
    "node",
    "agent",
    "agents",
    "testbed",
    "vagrant",
    "vscode",
    "codespace",
    "coder",
    "jovyan",
    "gitpod",
    "dev",
    "devel",
    "developer",
    "swe",
    "swe-agent",
    "sweagent",
    "openhands",
    "work",
    "worker",
    "workspace",
    "sandbox",
    "docker",
    "container",
    "public",
    "default",
    "shared",
    "guest",
    "linuxbrew",
    "nonroot",
    "nobody",
    "www-data",
    "www",
    "git",
    "postgres",
    "mysql",
    "airflow",
    "hadoop",
    "spark",
    "oracle",
    "steam",
    "test",
    "tester",
    "testuser",
    "someone",
    "somebody",
    "someuser",
    "foo",
    "bar",
    "example",
    "demo",
    "service",
    "svc",
    "build",
    "builder",
    "deploy",
    "deployer",
    "ci",
    "bot",
    "defaultuser0",
    "all",
    "envs",
    "conda",
    "miniconda",
    "miniconda3",
    "venv",
    "containeradministrator",
    "containeruser",
    "wdagutilityaccount",
];

fn unix_home(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    // `/users/` is a web path more often than a directory.
    if !matches!(hay.get(hit.clone()), b"/home/" | b"/Users/") {
        return None;
    }
    // The directory begins a path, or lies in one of the places where home directories are mounted.
    let parent = hay.skip_back(hit.start, 12, |b| is_word(b) || b == b'-');
    let parent = past_escape(hay, parent, hit.start + 1).min(hit.start);
    let mounted = hay.before(parent) == Some(b'/')
        && matches!(
            hay.get(parent..hit.start),
            b"export" | b"var" | b"mnt" | b"nfs" | b"data" | b"net" | b"c" | b"d" | b"host"
        );
    // `-I/home/…`: the letter is a flag's.
    let flag =
        matches!(hay.get(parent..hit.start), [b'-', letter] if letter.is_ascii_alphabetic()) && !hay.cut_left(parent);
    let begins =
        flag || (hay.opens(hit.start) && !matches!(hay.before(hit.start), Some(b'.' | b'-' | b'}' | b'*' | b')')));
    if !begins && !mounted {
        return None;
    }
    account(hay, hit.end, false)
}

fn windows_home(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let drive = hay.skip_back(hit.start, 2, |b| b.is_ascii_alphabetic() || b == b':' || b == b'\\');
    if drive == hit.start && hay.at(hit.start) != Some(b':') {
        return None;
    }
    account(hay, hit.end, true)
}

/// The account name that begins at `at`, unless it is a common one.
fn account(hay: &Hay<'_>, at: usize, windows: bool) -> Option<Range<usize>> {
    // More separators, as in `C:\\\\Users\\\\name`.
    let start = if windows { hay.skip(at, 8, |b| b == b'\\') } else { at };
    let inside = |b: u8| is_word(b) || matches!(b, b'.' | b'-') || b >= 0x80;
    let mut end = hay.skip(start, NAME_BYTES, inside);
    if windows && hay.at(end) == Some(b' ') {
        // `C:\Users\Ada Lovelace\`: the blank is in the name only if the path goes on.
        let whole = hay.skip(end, NAME_BYTES, |b| inside(b) || b == b' ');
        if matches!(hay.at(whole), Some(b'\\' | b'/')) {
            end = whole;
        }
    }
    if hay.cut_right(end) {
        return None;
    }
    let end = hay.skip_back(end, end.saturating_sub(start), |b| matches!(b, b'.' | b'-' | b' '));
    let name = hay.get(start..end).to_ascii_lowercase();
    let starts = name.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80);
    let common = COMMON_ACCOUNTS.iter().any(|common| common.as_bytes() == name)
        || [&b".html"[..], b".php", b".js", b".py", b".md", b".json", b".css"]
            .iter()
            .any(|ending| name.ends_with(ending));
    (starts && !common).then_some(start..end)
}

fn private_ip(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    if !hay.opens(hit.start) || matches!(hay.before(hit.start), Some(b'.' | b'-')) {
        return None;
    }
    let end = hay.skip(hit.start, 16, |b| b.is_ascii_digit() || b == b'.');
    if hay.cut_right(end) {
        return None;
    }
    let end = hay.skip_back(end, end - hit.start, |b| b == b'.');
    let text = std::str::from_utf8(hay.get(hit.start..end)).ok()?;
    let address: std::net::Ipv4Addr = text.parse().ok()?;
    // The blocks themselves, as firewalls and manuals name them, tell nothing.
    let block = matches!(address.octets(), [10, 0, 0, 0] | [172, 16, 0, 0] | [192, 168, 0, 0]);
    (address.is_private() && !block && hay.closes(end)).then_some(hit.start..end)
}

/// Hosts that every container, cloud or cluster has.
const COMMON_HOSTS: &[&str] = &[
    "host.docker.internal",
    "gateway.docker.internal",
    "kubernetes.docker.internal",
    "host.containers.internal",
    "metadata.google.internal",
    "kubernetes.default.svc.cluster.local",
    "svc.cluster.local",
    "cluster.local",
    "localhost.local",
    "localhost.localdomain",
    "hostname.local",
    "myhost.local",
];

/// Names before `.local` and the like that make a name in code: `threading.local`, `.env.local`.
const CODE_NAMES: &[&str] = &[
    "threading",
    "thread",
    "thread_local",
    "self",
    "this",
    "env",
    "cls",
    "asgiref",
    "werkzeug",
    "contextvars",
    "settings",
    "config",
    "git",
    "scope",
    "storage",
    "jdk",
    "sun",
    "com",
    "java",
    "pkg",
    "internal",
    "module",
    "gevent",
    "eventlet",
    "ctx",
    "state",
    "data",
    "std",
    "core",
    "django",
    "flask",
    "torch",
    "numpy",
    "pandas",
    "usr",
    "is",
    "node",
    "var",
    "path",
    "context",
    "docker-compose",
    "values",
    "application",
    "development",
    "production",
    "test",
    "obj",
    "db",
    "session",
    "request",
    "app",
];

fn internal_host(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let start = hay.skip_back(hit.start, DOMAIN_BYTES, inside);
    let start = past_escape(hay, start, hit.start);
    let goes_on = hay.at(hit.end).is_some_and(|b| is_word(b) || b == b'-' || b == b'(')
        || (hay.at(hit.end) == Some(b'.') && !hay.closes(hit.end + 1));
    let glued = hay.cut_left(start) || matches!(hay.before(start), Some(b'_' | b'$' | b'}' | b')' | b']' | b'*'));
    if goes_on || glued || hay.cut_right(hit.end) || start >= hit.start {
        return None;
    }
    let name = hay.get(start..hit.end).to_ascii_lowercase();
    let name = std::str::from_utf8(&name).ok()?;
    let head = std::str::from_utf8(hay.get(start..hit.start)).ok()?.to_ascii_lowercase();
    let sound = head.split('.').all(|label| !label.is_empty() && !label.starts_with('-'));
    let addressed = matches!(hay.behind(start, 3), b"://")
        || hay.before(start) == Some(b'@')
        || (hay.at(hit.end) == Some(b':') && hay.at(hit.end + 1).is_some_and(|b| b.is_ascii_digit()));
    let machine = head.bytes().any(|b| b.is_ascii_digit() || b == b'-');
    let last = head.rsplit('.').next().unwrap_or_default();
    let code = CODE_NAMES.contains(&last) || head.split('.').next().is_some_and(|first| CODE_NAMES.contains(&first));
    let common = COMMON_HOSTS.contains(&name);
    (sound && !common && (addressed || machine || !code)).then_some(start..hit.end)
}
