//! Secrets without a form of their own, known by whose name they are assigned to.

use super::entropy::{contains, find, looks_drawn, shannon};
use super::hay::Hay;
use super::rule::{Rule, assigned, found};
use std::ops::Range;

pub(crate) const RULES: &[Rule] = &[
    assigned(
        "aws-secret-access-key",
        "AWS",
        &["secret_access_key", "secretaccesskey", "secret-access-key", "secret access key", "aws_secret", "aws_sec"],
        "[A-Za-z0-9/+]{40}",
    ),
    found("aws-secret-access-key", "AWS", &["AKIA", "ASIA"], beside_key_id),
    assigned(
        "aws-session-token",
        "AWS",
        &["session_token", "sessiontoken", "security_token", "security-token"],
        "[A-Za-z0-9/+=]{100,}",
    ),
    assigned(
        "azure-storage-key",
        "Azure",
        &["accountkey", "sharedaccesskey", "account_key"],
        "[A-Za-z0-9+/]{40,88}={0,2}",
    ),
    assigned(
        "azure-sas-signature",
        "Azure",
        &["?sig", "&sig", ";sig", "sharedaccesssignature"],
        "(?:sig=)?[A-Za-z0-9%+/]{40,}={0,2}",
    ),
    assigned("gcp-service-account-key-id", "Google", &["private_key_id"], HEX_40),
    assigned("heroku-api-key", "Heroku", &["heroku"], UUID),
    assigned(
        "cloudflare-api-token",
        "Cloudflare",
        &["cloudflare", "cf_api", "cf-api", "x-auth-key"],
        "[A-Za-z0-9_-]{37,45}",
    ),
    assigned("twilio-auth-token", "Twilio", &["twilio"], HEX_32),
    assigned("mailgun-signing-key", "Mailgun", &["mailgun"], "(?:[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}|[0-9a-f]{32})"),
    assigned(
        "datadog-key",
        "Datadog",
        &["datadog", "dd_api", "dd-api", "dd_app", "dd-app"],
        "[0-9a-f]{32}(?:[0-9a-f]{8})?",
    ),
    assigned("newrelic-license-key", "New Relic", &["new_relic", "newrelic", "new-relic"], HEX_40),
    assigned("sentry-auth-token", "Sentry", &["sentry"], "[0-9a-f]{64}"),
    assigned("vercel-token", "Vercel", &["vercel"], "[A-Za-z0-9]{24}"),
    assigned("hashicorp-vault-token", "HashiCorp Vault", &["vault"], r"s\.[A-Za-z0-9]{24}"),
    assigned("consul-token", "HashiCorp Consul", &["consul"], UUID),
    assigned("algolia-key", "Algolia", &["algolia"], HEX_32),
    assigned("fastly-token", "Fastly", &["fastly"], "[A-Za-z0-9_-]{32}"),
    assigned("okta-token", "Okta", &["okta"], "00[A-Za-z0-9_=-]{40}"),
    assigned("meraki-api-key", "Cisco Meraki", &["meraki"], HEX_40),
    assigned("private-ai-token", "Private AI", &["private_ai", "private-ai", "privateai"], "[a-z0-9]{32}"),
    assigned(
        "dropbox-app-secret",
        "Dropbox",
        &["dropbox_app", "dropbox-app", "dropbox_secret", "dropbox_key"],
        "[a-z0-9]{15}",
    ),
    assigned("telegram-bot-token", "Telegram", &["telegr"], "[0-9]{5,16}:A[A-Za-z0-9_-]{34}"),
    assigned("hetzner-token", "Hetzner", &["hcloud", "hetzner"], "[A-Za-z0-9]{64}"),
    assigned("linode-token", "Linode", &["linode"], "[0-9a-f]{64}"),
    assigned("vultr-key", "Vultr", &["vultr"], "[A-Z0-9]{36}"),
    assigned("scaleway-secret", "Scaleway", &["scw_secret", "scaleway"], UUID),
    assigned("cohere-api-key", "Cohere", &["cohere", "co_api_key"], "[A-Za-z0-9]{40}"),
    assigned("mistral-api-key", "Mistral", &["mistral"], "[A-Za-z0-9]{32}"),
    assigned("wandb-api-key", "Weights & Biases", &["wandb"], HEX_40),
    assigned(
        "azure-openai-key",
        "Azure",
        &["azure_openai", "azure-openai", "ocp-apim-subscription-key"],
        "(?:[A-Za-z0-9]{84}|[0-9a-f]{32})",
    ),
    assigned("snyk-token", "Snyk", &["snyk"], UUID),
    assigned("codecov-token", "Codecov", &["codecov"], UUID),
    assigned("trello-token", "Trello", &["trello"], "(?:ATTA[0-9a-zA-Z]{60,}|[0-9a-f]{64}|[0-9a-f]{32})"),
    assigned("postmark-token", "Postmark", &["postmark"], UUID),
    assigned("pagerduty-token", "PagerDuty", &["pagerduty", "pager_duty"], "[A-Za-z0-9_+-]{20}"),
    assigned("rollbar-token", "Rollbar", &["rollbar"], HEX_32),
    assigned("npm-auth-token", "npm", &["_authtoken", "npm_auth"], "[A-Za-z0-9_+/=-]{20,}"),
    assigned("confluent-key", "Confluent", &["confluent"], "(?:[A-Za-z0-9+/]{64}|[A-Z0-9]{16})"),
    assigned("ngrok-token", "ngrok", &["ngrok", "authtoken"], "[A-Za-z0-9]{20,30}_[A-Za-z0-9]{20,30}"),
    assigned(
        "ethereum-private-key",
        "Ethereum",
        &["private_key", "privatekey", "private-key", "deployer_key"],
        "0x[0-9a-fA-F]{64}",
    ),
    assigned("django-secret-key", "Django", &["secret_key"], "django-insecure-[A-Za-z0-9!@#$%^&*(=_+-]{40,60}"),
    assigned(
        "session-cookie",
        "HTTP cookie (RFC 6265)",
        &["_gitlab_session", "phpsessid", "jsessionid", "connect.sid", "aspxauth"],
        "[A-Za-z0-9%._-]{20,}",
    ),
    assigned(
        "sidekiq-key",
        "Sidekiq",
        &["enterprise__contribsys__com", "gems__contribsys__com"],
        "[0-9a-f]{8}:[0-9a-f]{8}",
    ),
    found("hashicorp-vault-token", "HashiCorp Vault", &["s."], old_vault_token),
    found("kubernetes-secret", "Kubernetes", &["kind: secret"], kubernetes_secret),
];

const HEX_32: &str = "[0-9a-f]{32}";
const HEX_40: &str = "[0-9a-f]{40}";
const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/// How far behind a key id its secret is looked for, in bytes: the next column or line of an export.
const BESIDE_BYTES: usize = 96;

/// Length of an AWS key id and of its secret, in bytes.
const AWS_ID_BYTES: usize = 20;
const AWS_SECRET_BYTES: usize = 40;

/// Least entropy of a secret without a name, bits a byte: a random one has 4.5 or more, a file path or hex digest less.
const BESIDE_FLOOR: f64 = 4.1;

/// The secret right behind its key id, as in an exported table (`AKIA…,wJal…`) or on the next line.
fn beside_key_id(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let id_end = hay.skip(hit.start, AWS_ID_BYTES + 1, |b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if id_end - hit.start != AWS_ID_BYTES || !hay.opens(hit.start) || !hay.closes(id_end) {
        return None;
    }
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'+');
    let mut at = id_end;
    while at < id_end + BESIDE_BYTES {
        let start = hay.skip(at, BESIDE_BYTES, |b| !inside(b));
        let end = hay.skip(start, AWS_SECRET_BYTES + 1, inside);
        if end == start {
            return None;
        }
        // The letter of an escape is no part of the secret.
        let start = if hay.ends_escape(start + 1) { start + 1 } else { start };
        let end = hay.skip(start, AWS_SECRET_BYTES + 1, inside);
        let secret = hay.get(start..end);
        if secret.len() == AWS_SECRET_BYTES
            && !hay.cut_right(end)
            && hay.at(end) != Some(b'=')
            && shannon(secret) >= BESIDE_FLOOR
        {
            return Some(start..end);
        }
        at = hay.skip(end.max(start + 1), BESIDE_BYTES, inside);
    }
    None
}

/// Length of the part behind `s.` in a Vault token from before version 1.10, in bytes.
const OLD_VAULT_BYTES: usize = 24;

/// `s.` and 24 letters and digits, which must look drawn: attribute names of that length occur.
fn old_vault_token(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    let end = hay.skip(hit.end, OLD_VAULT_BYTES + 1, |b| b.is_ascii_alphanumeric());
    let token = hay.get(hit.end..end);
    let digits = token.iter().filter(|b| b.is_ascii_digit()).count();
    (hay.at(hit.start) == Some(b's')
        && token.len() == OLD_VAULT_BYTES
        && digits >= 2
        && looks_drawn(token)
        && hay.opens(hit.start)
        && hay.closes(end))
    .then_some(hit.start..end)
}

/// How far from `kind: Secret` its data is looked for, in bytes, and how much of it is read.
const MANIFEST_BYTES: usize = 2048;
const MANIFEST_DATA_BYTES: usize = 64 * 1024;

/// The `data` or `stringData` of a Kubernetes secret in YAML: everything indented below it, whatever its names are.
fn kubernetes_secret(hay: &Hay<'_>, hit: Range<usize>) -> Option<Range<usize>> {
    // As a file has it, then as a JSON string has it.
    secret_data(hay, &hit, b"\n").or_else(|| secret_data(hay, &hit, b"\\n"))
}

/// The same, where `newline` ends lines.
fn secret_data(hay: &Hay<'_>, hit: &Range<usize>, newline: &[u8]) -> Option<Range<usize>> {
    let line = |text: &[u8]| [newline, text].concat();
    let headings = [[&line(b"data:")[..], newline].concat(), [&line(b"stringData:")[..], newline].concat()];
    // The object ends where another document of the stream or another object begins.
    let others = [b"kind: ".to_vec(), line(b"---")];
    let mut ahead = hay.ahead(hit.end, MANIFEST_BYTES);
    let mut behind = hay.behind(hit.start, MANIFEST_BYTES);
    for other in &others {
        ahead = &ahead[..find(ahead, other).unwrap_or(ahead.len())];
        let from = behind.windows(other.len()).rposition(|window| window == other);
        behind = &behind[from.map_or(0, |at| at + other.len())..];
    }
    let below = |bytes: &[u8]| headings.iter().find_map(|heading| Some(find(bytes, heading)? + heading.len()));
    let start = match below(ahead) {
        Some(at) => hit.end + at,
        None => hit.start - behind.len() + below(behind)?,
    };
    let rest = hay.ahead(start, MANIFEST_DATA_BYTES);
    let mut length = 0;
    let mut filled = false;
    while rest.get(length) == Some(&b' ') {
        let next = &rest[length..];
        let end = find(next, newline).unwrap_or(next.len());
        // In a JSON string the last line ends with the string.
        let end = next[..end].iter().position(|b| *b == b'"').filter(|_| newline != b"\n").unwrap_or(end);
        filled |= next.iter().take(end).position(|b| *b == b':').is_some_and(|colon| end > colon + 5);
        length += end;
        if !rest[length..].starts_with(newline) {
            break;
        }
        length += newline.len();
    }
    let block = rest[..length].strip_suffix(newline).unwrap_or(&rest[..length]);
    let indent = block.iter().take_while(|b| **b == b' ').count();
    let end = start + block.len();
    // A chart's template holds no values.
    (filled && !contains(block, b"{{") && !hay.cut_right(end)).then_some(start + indent..end)
}
