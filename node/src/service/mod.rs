//! Model services over HTTP: what a node asks of a machine that is not its own.
//!
//! [`call`] sends one JSON request with retries and bounds; [`embed`] turns texts into vectors through the services of
//! [`Provider`]. A service is not trusted: its answers are bounded in size and checked before anything believes them.
//! It may be slow, full, broken or gone at any time, and nothing here waits without a limit.

pub mod call;
pub mod chat;
pub mod embed;

use std::fmt;

pub use call::{CallError, Patience, Service};
pub use chat::{ChatConfig, ChatModel, ChatProvider};
pub use embed::{EmbedConfig, Purpose, RemoteEmbedder};

/// The interface that a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// `POST /v1/embeddings` as OpenAI published it: OpenAI, vLLM, Ollama, TEI, llama.cpp and others.
    #[value(name = "openai")]
    OpenAi,
    /// `models/…:batchEmbedContents` of the Gemini API.
    Gemini,
}

impl Provider {
    /// Its name in flags and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// Where the service of the interface's author answers.
    pub fn default_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// The environment variables that may hold its key, the first one set counts.
    pub fn key_variables(self) -> [&'static str; 2] {
        match self {
            Self::OpenAi => ["FOLKLORE_EMBEDDER_KEY", "OPENAI_API_KEY"],
            Self::Gemini => ["FOLKLORE_EMBEDDER_KEY", "GEMINI_API_KEY"],
        }
    }
}

/// A key for a service. Its text is in no log, no error and no answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A key as given.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
