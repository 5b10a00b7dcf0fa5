//! Chat models that are services: one prompt in, one answer out.
//!
//! ```text
//! openai     POST {base}/v1/chat/completions                    {model, messages: [{role, content}], temperature, max_tokens}
//!            → {choices: [{message: {content}, finish_reason}]}
//! gemini     POST {base}/v1beta/models/{model}:generateContent  {systemInstruction, contents, generationConfig}
//!            → {candidates: [{content: {parts: [{text}]}, finishReason}]}
//! anthropic  POST {base}/v1/messages                            {model, system, messages, max_tokens, temperature}
//!            → {content: [{type: "text", text}], stop_reason}
//! ```
//!
//! As their authors publish them. Whatever is sent loses what tells who and where, and credentials, right before it leaves the
//! node: it does not matter which caller forgot to.

use folklore_store::{
    redact::{Classes, redact},
    run,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CallError, Patience, Secret, Service, call::Auth};

/// Longest answer that is read, bytes: a few lessons have some thousand, reasoning before them some hundred thousand.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Tokens that an answer may have: three lessons with room for reasoning, which many models count as part of it.
pub const MAX_ANSWER_TOKENS: u32 = 8_192;
/// The version of the Messages API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The interface that a chat model's service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatProvider {
    /// `POST /v1/chat/completions`: OpenAI, vLLM, Ollama, llama.cpp and others.
    #[value(name = "openai")]
    OpenAi,
    /// `models/…:generateContent` of the Gemini API.
    Gemini,
    /// `POST /v1/messages` of the Anthropic API.
    Anthropic,
}

impl ChatProvider {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Gemini, Self::Anthropic];

    /// Its name in flags and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
        }
    }

    /// The provider of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == name)
    }

    /// Where the service of the interface's author answers.
    pub fn default_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }

    /// The environment variables that may hold its key; the first one set counts.
    pub fn key_variables(self) -> [&'static str; 2] {
        match self {
            Self::OpenAi => ["FOLKLORE_LLM_KEY", "OPENAI_API_KEY"],
            Self::Gemini => ["FOLKLORE_LLM_KEY", "GEMINI_API_KEY"],
            Self::Anthropic => ["FOLKLORE_LLM_KEY", "ANTHROPIC_API_KEY"],
        }
    }
}

/// A chat model as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatConfig {
    /// The interface it speaks.
    pub provider: ChatProvider,
    /// Its base address, with or without `/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// Its key, if it wants one.
    pub key: Option<Secret>,
}

/// A prompt: what the model is to do, and what it is to do it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The rules.
    pub system: String,
    /// The material.
    pub user: String,
}

impl Prompt {
    /// Without credentials and without what tells who and where: as it may leave the node.
    #[must_use]
    pub fn outgoing(&self) -> Self {
        Self { system: outgoing(&self.system), user: outgoing(&self.user) }
    }

    /// Tokens, about: four bytes each, as is usual for English and code; more for other scripts, whose letters have more
    /// bytes.
    pub fn tokens(&self) -> u64 {
        ((self.system.len() + self.user.len()) as u64).div_ceil(4)
    }
}

/// A text as it may leave the node. What shows nothing goes first: it could hide a secret from the rules.
fn outgoing(text: &str) -> String {
    redact(&run::clean(text), Classes::ALL).text.into_owned()
}

/// One more round of a talk: what the model had answered, and what is to be said to that.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The model's answer.
    pub answered: &'a str,
    /// What is wrong with it.
    pub objection: &'a str,
}

/// A chat model that is a service.
#[derive(Debug)]
pub struct ChatModel {
    service: Service,
    config: ChatConfig,
}

impl ChatModel {
    /// The model of a configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration cannot be meant, in words for the user.
    pub fn new(config: ChatConfig) -> Result<Self, String> {
        // It becomes part of an address at Gemini: nothing that could lead elsewhere.
        let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@');
        if config.model.is_empty() || !config.model.chars().all(sound) || config.model.contains("..") {
            return Err("the model needs a name of letters, digits and -_.:/@: --model NAME".into());
        }
        let auth = match (&config.key, config.provider) {
            (None, _) => Auth::None,
            (Some(key), ChatProvider::OpenAi) => Auth::Bearer(key.clone()),
            (Some(key), ChatProvider::Gemini) => Auth::Header("x-goog-api-key", key.clone()),
            (Some(key), ChatProvider::Anthropic) => Auth::Header("x-api-key", key.clone()),
        };
        // Most tools ask for the address with /v1, the paths here bring their own.
        let base = config.url.trim_end_matches('/');
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/v1beta")).unwrap_or(base);
        let service = Service::new(base, auth)?.reading_at_most(MAX_ANSWER_BYTES);
        let service = match config.provider {
            ChatProvider::Anthropic => service.with_header("anthropic-version", ANTHROPIC_VERSION),
            ChatProvider::OpenAi | ChatProvider::Gemini => service,
        };
        Ok(Self { service, config })
    }

    /// What lessons say drew them.
    pub fn name(&self) -> String {
        format!("{}:{}", self.config.provider.as_str(), self.config.model)
    }

    /// Where it is and what it is called, for people.
    pub fn describe(&self) -> String {
        format!("{} {} at {}", self.config.provider.as_str(), self.config.model, self.service.base())
    }

    /// The words that the model answers with. `then` are earlier rounds of the same talk.
    ///
    /// # Errors
    /// When there is no answer with words in it after all tries.
    pub async fn ask(&self, prompt: &Prompt, then: &[Reply<'_>], patience: Patience) -> Result<String, CallError> {
        self.ask_while(prompt, then, patience, &|| true).await
    }

    /// As [`ChatModel::ask`], where `again` decides before each try but the first whether it may be made.
    ///
    /// # Errors
    /// When there is no answer with words in it after the last try.
    pub async fn ask_while(
        &self,
        prompt: &Prompt,
        then: &[Reply<'_>],
        patience: Patience,
        again: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, CallError> {
        let prompt = prompt.outgoing();
        let mut turns: Vec<(bool, String)> = vec![(true, prompt.user)];
        for reply in then {
            turns.push((false, outgoing(reply.answered)));
            turns.push((true, outgoing(reply.objection)));
        }
        let (path, body) = self.request(&prompt.system, &turns);
        let answer: Value = self.service.post_while(&path, &body, patience, again).await?;
        let bad = |reason: String| CallError::BadAnswer { url: format!("{}{path}", self.service.base()), reason };
        let (text, cut) = match self.config.provider {
            ChatProvider::OpenAi => {
                let choice = answer.pointer("/choices/0").ok_or_else(|| bad("no choices in it".into()))?;
                (content(choice.pointer("/message/content")), choice.get("finish_reason") == Some(&json!("length")))
            }
            ChatProvider::Gemini => {
                let one = answer.pointer("/candidates/0").ok_or_else(|| bad("no candidates in it".into()))?;
                (content(one.pointer("/content/parts")), one.get("finishReason") == Some(&json!("MAX_TOKENS")))
            }
            ChatProvider::Anthropic => {
                let text = answer.get("content").ok_or_else(|| bad("no content in it".into()))?;
                (content(Some(text)), answer.get("stop_reason") == Some(&json!("max_tokens")))
            }
        };
        // What stops at the limit is not what the model meant to say.
        if cut {
            return Err(bad(format!("it was cut off at {MAX_ANSWER_TOKENS} tokens")));
        }
        if text.trim().is_empty() {
            return Err(bad("no words in it".into()));
        }
        Ok(text)
    }

    fn request(&self, system: &str, turns: &[(bool, String)]) -> (String, Value) {
        let model = &self.config.model;
        let messages = |assistant: &str| -> Vec<Value> {
            let role = |own: bool| if own { "user" } else { assistant };
            turns.iter().map(|(own, text)| json!({"role": role(*own), "content": text})).collect()
        };
        match self.config.provider {
            ChatProvider::OpenAi => {
                let mut all = vec![json!({"role": "system", "content": system})];
                all.extend(messages("assistant"));
                let body = json!({"model": model, "messages": all, "temperature": 0, "max_tokens": MAX_ANSWER_TOKENS});
                ("/v1/chat/completions".into(), body)
            }
            ChatProvider::Gemini => {
                let parts = |text: &str| json!([{"text": text}]);
                let role = |own: bool| if own { "user" } else { "model" };
                let contents: Vec<Value> =
                    turns.iter().map(|(own, text)| json!({"role": role(*own), "parts": parts(text)})).collect();
                let body = json!({
                    "systemInstruction": {"parts": parts(system)},
                    "contents": contents,
                    "generationConfig": {"temperature": 0, "maxOutputTokens": MAX_ANSWER_TOKENS},
                });
                (format!("/v1beta/models/{model}:generateContent"), body)
            }
            ChatProvider::Anthropic => {
                let body = json!({
                    "model": model, "system": system, "messages": messages("assistant"),
                    "max_tokens": MAX_ANSWER_TOKENS, "temperature": 0,
                });
                ("/v1/messages".into(), body)
            }
        }
    }
}

/// The words of a text, or of a list of parts; what is marked as thinking is left out.
fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let words = parts.iter().filter(|part| part.get("thought") != Some(&Value::Bool(true)));
            words.filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_nothing_hides_no_secret_on_its_way_out() {
        let key = format!("AKIA{}", "Q3Y7ABCDEFGH2345");
        for hidden in ['\u{200b}', '\u{2060}', '\u{ad}', '\u{1bca0}', '\u{e0041}'] {
            let split = format!("use {}{hidden}{} for it", &key[..9], &key[9..]);
            let prompt = Prompt { system: split.clone(), user: split }.outgoing();
            assert_eq!(prompt.system, "use [REDACTED:aws-access-key-id] for it", "{hidden:?}");
            assert_eq!(prompt.user, prompt.system);
        }
    }
}
