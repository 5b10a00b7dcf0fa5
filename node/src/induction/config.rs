//! Which model draws lessons, and how much of it is used: `induction.json` in the home, and what a request says on top.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::service::{ChatConfig, ChatModel, ChatProvider, Secret, chat::MAX_ANSWER_TOKENS};

/// Calls in an hour when the configuration does not say.
pub const DEFAULT_CALLS_AN_HOUR: u32 = 1_000;
/// Tokens in an hour, prompts and answers, when the configuration does not say: as many calls of 4,000 each.
pub const DEFAULT_TOKENS_AN_HOUR: u64 = 4_000_000;
/// Seconds that one call may take when the configuration does not say.
pub const DEFAULT_TIMEOUT_S: u64 = 120;
/// Most seconds that one call may take.
const MAX_TIMEOUT_S: u64 = 3_600;
/// Bytes of a prompt's material when the configuration does not say, about 12,000 tokens: a small model's window holds it
/// with its answer.
pub const DEFAULT_PROMPT_BYTES: usize = 48 * 1024;
/// Least and most bytes of a prompt's material.
pub const PROMPT_BYTES: std::ops::RangeInclusive<usize> = 4 * 1024..=1024 * 1024;
/// Longest key read from a file, bytes.
const MAX_KEY_BYTES: u64 = 4096;

/// A model as `induction.json` in the home, the command line or a request names it.
///
/// ```json
/// {"provider": "openai", "url": "http://127.0.0.1:11434", "model": "qwen3:8b", "key_file": "/run/secrets/llm",
///  "ended": true, "judge": true, "procedures": false, "prompt_bytes": 49152, "timeout_s": 120,
///  "calls_an_hour": 1000, "tokens_an_hour": 4000000}
/// ```
///
/// The key is in no argument and in no request: it is read from `key_file`, else from the environment of the daemon,
/// `FOLKLORE_LLM_KEY`, then `OPENAI_API_KEY`, `GEMINI_API_KEY` or `ANTHROPIC_API_KEY`. A request may name another address
/// or model, but no key, and a key goes to no other address than that of this configuration (one of the environment also to
/// the provider's own): else whoever may speak to the daemon could have it sent anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InductionOptions {
    /// The interface it speaks; none: lessons are drawn without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ChatProvider>,
    /// Base address of the service; none: that of the interface's author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The model's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A file that holds the key and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether runs that end on this node are given to it; as a rule yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<bool>,
    /// Whether it judges runs that have no label; as a rule yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<bool>,
    /// Whether successes are also split into procedures; as a rule no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procedures: Option<bool>,
    /// Bytes of runs in one prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_bytes: Option<usize>,
    /// Seconds that one call may take; a model of one's own on a small machine needs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// Most calls in an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_an_hour: Option<u32>,
    /// Most tokens in an hour, prompts and answers together, as far as they can be told beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_an_hour: Option<u64>,
}

impl InductionOptions {
    /// Reads the text of `induction.json`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let options: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if options.provider.is_none() {
            return Err("it names no provider: openai, gemini or anthropic".into());
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if self.prompt_bytes.is_some_and(|bytes| !PROMPT_BYTES.contains(&bytes)) {
            return Err(format!("prompt_bytes is {} to {}", PROMPT_BYTES.start(), PROMPT_BYTES.end()));
        }
        if self.timeout_s.is_some_and(|seconds| !(1..=MAX_TIMEOUT_S).contains(&seconds)) {
            return Err(format!("timeout_s is 1 to {MAX_TIMEOUT_S}"));
        }
        if self.calls_an_hour == Some(0) || self.tokens_an_hour.is_some_and(|tokens| tokens < MIN_TOKENS_AN_HOUR) {
            return Err(format!(
                "with no call, or fewer than {MIN_TOKENS_AN_HOUR} tokens, in an hour nothing would ever be done"
            ));
        }
        Ok(())
    }

    /// These, where they say something, on top of `file`. What `file` says of another provider's service, its address, model and
    /// key, is no default for this one; and its key goes to no other address than that which it is for.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        let provider = self.provider.or(file.provider);
        let same = provider == file.provider;
        let address = |url: Option<&String>| {
            let url = url.map(String::as_str).or(provider.map(ChatProvider::default_url));
            url.map(|url| url.trim_end_matches('/').to_owned())
        };
        let of_file = address(file.url.as_ref());
        let url = self.url.or(file.url.filter(|_| same));
        let there = same && address(url.as_ref()) == of_file;
        Self {
            provider,
            url,
            model: self.model.or(file.model.filter(|_| same)),
            key_file: self.key_file.or(file.key_file.filter(|_| there)),
            ended: self.ended.or(file.ended),
            judge: self.judge.or(file.judge),
            procedures: self.procedures.or(file.procedures),
            prompt_bytes: self.prompt_bytes.or(file.prompt_bytes),
            timeout_s: self.timeout_s.or(file.timeout_s),
            calls_an_hour: self.calls_an_hour.or(file.calls_an_hour),
            tokens_an_hour: self.tokens_an_hour.or(file.tokens_an_hour),
        }
    }

    /// Bytes of runs in one prompt.
    #[must_use]
    pub fn prompt_bytes(&self) -> usize {
        self.prompt_bytes.unwrap_or(DEFAULT_PROMPT_BYTES)
    }

    /// Where a job for these options is to be sent: what has to be known of them when it is done later, the key excepted.
    ///
    /// # Errors
    /// When they do not name a model that could be asked, in words for the user.
    pub fn target(&self) -> Result<Target, String> {
        self.check()?;
        let provider = self.provider.ok_or("no provider is named: openai, gemini or anthropic")?;
        let model = self.model.clone().ok_or_else(|| format!("{} needs a model: --model NAME", provider.as_str()))?;
        let target = Target { provider, url: self.url.clone().unwrap_or_else(|| provider.default_url().into()), model };
        target.chat(None).map(|_| target)
    }
}

/// Least tokens in an hour that let one call of the largest answer through.
const MIN_TOKENS_AN_HOUR: u64 = 2 * MAX_ANSWER_TOKENS as u64;

/// A model and the way to it, as a job keeps it. It holds no key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    /// The interface.
    pub provider: ChatProvider,
    /// Base address.
    pub url: String,
    /// The model's name.
    pub model: String,
}

impl Target {
    /// What lessons say drew them.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}", self.provider.as_str(), self.model)
    }

    fn chat(&self, key: Option<Secret>) -> Result<ChatModel, String> {
        let (url, model) = (self.url.clone(), self.model.clone());
        ChatModel::new(ChatConfig { provider: self.provider, url, model, key })
    }

    /// The model, with its key. `configured` is what the home's own configuration says, `variable` reads the environment.
    ///
    /// # Errors
    /// When its key file cannot be read, in words for the user.
    pub fn open(
        &self,
        configured: &InductionOptions,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ChatModel, String> {
        let named = configured.provider == Some(self.provider)
            && configured.url.as_deref().unwrap_or(self.provider.default_url()) == self.url;
        let of_environment = || {
            let held = |name: &&str| variable(name).filter(|key| !key.trim().is_empty());
            self.provider.key_variables().iter().find_map(held).map(Secret::new)
        };
        let key = match &configured.key_file {
            Some(file) if named => Some(read_key(file)?),
            _ if named || self.url == self.provider.default_url() => of_environment(),
            _ => None,
        };
        self.chat(key)
    }
}

fn read_key(file: &Path) -> Result<Secret, String> {
    use std::io::Read;
    let told = |what: &dyn std::fmt::Display| format!("the key file {}: {what}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| told(&error))?;
    opened.take(MAX_KEY_BYTES + 1).read_to_string(&mut text).map_err(|error| told(&error))?;
    let key = text.trim();
    if key.is_empty() || text.len() as u64 > MAX_KEY_BYTES || key.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(told(&"a key on one line is wanted, and nothing else"));
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(json: &str) -> Result<InductionOptions, String> {
        InductionOptions::parse(json.as_bytes())
    }

    #[test]
    fn a_file_that_cannot_be_meant_says_why() {
        for (json, says) in [
            (r#"{"model":"m"}"#, "provider"),
            (r#"{"provider":"openai","modle":"m"}"#, "modle"),
            (r#"{"provider":"openai","model":"m","prompt_bytes":1}"#, "prompt_bytes"),
            (r#"{"provider":"openai","model":"m","calls_an_hour":0}"#, "nothing would ever be done"),
            (r#"{"provider":"openai","model":"m","key":"sk-1"}"#, "key"),
        ] {
            let error = options(json).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
        assert!(options(r#"{"provider":"gemini"}"#).unwrap().target().unwrap_err().contains("--model"));
    }

    #[test]
    fn what_the_file_says_of_one_service_is_not_taken_for_another() {
        let file = options(
            r#"{"provider":"openai","url":"http://127.0.0.1:1","model":"m","key_file":"/key","timeout_s":7,"judge":false}"#,
        )
        .unwrap();
        let named = |provider, url: Option<&str>| InductionOptions {
            provider,
            url: url.map(str::to_owned),
            ..InductionOptions::default()
        };
        let other = named(Some(ChatProvider::Anthropic), None).over(file.clone());
        assert_eq!((&other.url, &other.model, &other.key_file), (&None, &None, &None));
        assert_eq!((other.timeout_s, other.judge), (Some(7), Some(false)), "what is no service's stays");
        let with_model = InductionOptions { model: Some("x".into()), ..other };
        assert_eq!(with_model.target().unwrap().url, ChatProvider::Anthropic.default_url());
        let key = |options: &InductionOptions| options.key_file.clone();
        for same in [
            named(None, None),
            named(Some(ChatProvider::OpenAi), None),
            named(None, Some("http://127.0.0.1:1/")),
            named(Some(ChatProvider::OpenAi), Some("http://127.0.0.1:1")),
        ] {
            let over = same.over(file.clone());
            assert_eq!((over.model.as_deref(), key(&over)), (Some("m"), key(&file)), "{over:?}");
        }
        for elsewhere in [named(None, Some("https://other")), named(Some(ChatProvider::OpenAi), Some("https://other"))]
        {
            let over = elsewhere.over(file.clone());
            assert_eq!((over.url.as_deref(), key(&over)), (Some("https://other"), None), "{over:?}");
        }
        // A file that names no address is for the provider's own.
        let own = InductionOptions { url: None, ..file.clone() };
        assert_eq!(key(&named(None, None).over(own.clone())), key(&file));
        assert_eq!(key(&named(None, Some("https://other")).over(own)), None);
        assert_eq!(key(&named(None, Some("https://other")).over(InductionOptions::default())), None);
    }

    #[test]
    fn a_key_of_the_environment_goes_to_no_address_that_only_a_request_names() {
        let variable = |name: &str| (name == "OPENAI_API_KEY").then(|| "sesame".to_owned());
        let has_key = |target: &Target, configured: &InductionOptions| {
            format!("{:?}", target.open(configured, variable).unwrap()).contains("Bearer")
        };
        let configured = options(r#"{"provider":"openai","model":"m","url":"http://127.0.0.1:1"}"#).unwrap();
        let other = InductionOptions { url: Some("http://192.0.2.7".into()), ..configured.clone() };
        let none = InductionOptions::default();
        assert!(has_key(&configured.target().unwrap(), &configured));
        assert!(!has_key(&configured.target().unwrap(), &none));
        assert!(!has_key(&other.target().unwrap(), &configured));
        let usual = InductionOptions { url: None, ..configured.clone() };
        assert!(has_key(&usual.target().unwrap(), &none));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "own\n").unwrap();
        let filed = InductionOptions { key_file: Some(file.clone()), ..configured.clone() };
        assert!(!has_key(&other.target().unwrap(), &filed));
        let model = filed.target().unwrap().open(&filed, |_| None).unwrap();
        assert!(format!("{model:?}").contains("Bearer") && !format!("{model:?}").contains("own"));
        std::fs::write(&file, "two words").unwrap();
        assert!(filed.target().unwrap().open(&filed, variable).unwrap_err().contains("on one line"));
    }
}
