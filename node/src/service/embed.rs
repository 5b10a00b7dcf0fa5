//! Embedders that are services: texts to unit vectors, in batches, checked.
//!
//! ```text
//! openai   POST {base}/v1/embeddings                             {model, input: [text], encoding_format, dimensions?}
//!          → {data: [{index, embedding: [number]}]}
//! gemini   POST {base}/v1beta/models/{model}:batchEmbedContents  {requests: [{model, content, taskType, outputDimensionality?}]}
//!          → {embeddings: [{values: [number]}]}
//! ```
//!
//! Both as their authors publish them. The vectors of an answer are matched to the texts by number where the answer
//! numbers them; there must be one for each text, all of one dimension, finite and not zero. They are brought to length 1
//! here, since not every service does. Texts lose what tells who and where before they leave the node.

use std::sync::OnceLock;

use folklore_store::{
    embed::EmbedderIdentity,
    redact::{Classes, redact},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CallError, Patience, Provider, Secret, Service, call::Auth};

/// Texts of one request when the configuration does not say: below the published limits of the services known (Gemini
/// takes 100, TEI 32 by default, and a batch that is refused as too large is halved).
pub const DEFAULT_BATCH: usize = 32;
/// Most texts of one request.
pub const MAX_BATCH: usize = 2048;
/// Longest text sent, bytes: a lesson's own limit with room. Services cut at their model's window.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Most components of a vector. The largest published models have 4,096.
pub const MAX_DIM: usize = 8192;

/// What a vector is for. Some models embed the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is looked for.
    Query,
    /// What is found.
    Document,
}

/// An embedding service as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedConfig {
    /// The interface it speaks.
    pub provider: Provider,
    /// Its base address, without `/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// Tells apart what goes by the same name; the user's word, since no service says which weights it runs.
    pub revision: String,
    /// Components asked for; `None` takes what the model gives.
    pub dim: Option<usize>,
    /// Its key, if it wants one.
    pub key: Option<Secret>,
    /// Texts of one request.
    pub batch: usize,
}

/// An embedder that is a service.
#[derive(Debug)]
pub struct RemoteEmbedder {
    service: Service,
    config: EmbedConfig,
    /// Known from the first answer, or from the configuration.
    dim: OnceLock<usize>,
}

impl RemoteEmbedder {
    /// The service of a configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration cannot be meant, in words for the user.
    pub fn new(config: EmbedConfig) -> Result<Self, String> {
        if config.model.is_empty() || !config.model.chars().all(|c| c.is_ascii_graphic()) {
            return Err("the embedder's model needs a name without spaces".into());
        }
        if !(1..=MAX_BATCH).contains(&config.batch) {
            return Err(format!("a batch has 1 to {MAX_BATCH} texts"));
        }
        if config.dim.is_some_and(|dim| !(1..=MAX_DIM).contains(&dim)) {
            return Err(format!("an embedder has 1 to {MAX_DIM} dimensions"));
        }
        let auth = match (&config.key, config.provider) {
            (None, _) => Auth::None,
            (Some(key), Provider::OpenAi) => Auth::Bearer(key.clone()),
            (Some(key), Provider::Gemini) => Auth::Header("x-goog-api-key", key.clone()),
        };
        let service = Service::new(&config.url, auth)?;
        let dim = config.dim.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Self { service, config, dim })
    }

    /// What its vectors are kept under, once its dimension is known. The address is no part of it: a model keeps its vectors
    /// when the machine that serves it moves.
    pub fn identity(&self) -> Option<EmbedderIdentity> {
        let dim = *self.dim.get()?;
        Some(EmbedderIdentity {
            name: format!("{}:{}", self.config.provider.as_str(), self.config.model),
            revision: self.config.revision.clone(),
            dim,
        })
    }

    /// Texts of one request.
    pub fn batch(&self) -> usize {
        self.config.batch
    }

    /// Where it is and what it is called, for people.
    pub fn describe(&self) -> String {
        format!("{} {} at {}", self.config.provider.as_str(), self.config.model, self.service.base())
    }

    /// One unit vector a text, in order. A batch that the service refuses as too large is sent in halves.
    ///
    /// # Errors
    /// When a batch cannot be embedded; then none of its call counts.
    pub async fn embed(
        &self,
        texts: &[&str],
        purpose: Purpose,
        patience: Patience,
    ) -> Result<Vec<Vec<f32>>, CallError> {
        let clean: Vec<String> = texts.iter().map(|text| outgoing(text)).collect();
        let mut vectors = Vec::with_capacity(clean.len());
        // Batches still to send, the next one last.
        let mut waiting: Vec<&[String]> = clean.chunks(self.config.batch).rev().collect();
        while let Some(batch) = waiting.pop() {
            match self.one_batch(batch, purpose, patience).await {
                Ok(some) => vectors.extend(some),
                Err(error) if error.may_be_too_large() && batch.len() > 1 => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    waiting.extend([second, first]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(vectors)
    }

    async fn one_batch(
        &self,
        texts: &[String],
        purpose: Purpose,
        patience: Patience,
    ) -> Result<Vec<Vec<f32>>, CallError> {
        let raw = match self.config.provider {
            Provider::OpenAi => {
                let mut body = json!({"model": self.config.model, "input": texts, "encoding_format": "float"});
                if let Some(dim) = self.config.dim {
                    body["dimensions"] = dim.into();
                }
                let answer: OpenAiAnswer = self.service.post("/v1/embeddings", &body, patience).await?;
                in_order(answer, texts.len()).map_err(|reason| self.bad(reason))?
            }
            Provider::Gemini => {
                let model = format!("models/{}", self.config.model.trim_start_matches("models/"));
                let task = match purpose {
                    Purpose::Query => "RETRIEVAL_QUERY",
                    Purpose::Document => "RETRIEVAL_DOCUMENT",
                };
                let requests: Vec<Value> = texts
                    .iter()
                    .map(|text| {
                        let mut one = json!({"model": model, "content": {"parts": [{"text": text}]}, "taskType": task});
                        if let Some(dim) = self.config.dim {
                            one["outputDimensionality"] = dim.into();
                        }
                        one
                    })
                    .collect();
                let path = format!("/v1beta/{model}:batchEmbedContents");
                let answer: GeminiAnswer = self.service.post(&path, &json!({"requests": requests}), patience).await?;
                answer.embeddings.into_iter().map(|one| one.values).collect()
            }
        };
        self.checked(raw, texts.len()).map_err(|reason| self.bad(reason))
    }

    /// What came back as unit vectors, if it is what was asked for. The first good answer settles the dimension.
    fn checked(&self, raw: Vec<Vec<f32>>, wanted: usize) -> Result<Vec<Vec<f32>>, String> {
        if raw.len() != wanted {
            return Err(format!("{} vectors for {wanted} texts", raw.len()));
        }
        let Some(given) = raw.first().map(Vec::len) else { return Ok(raw) };
        let expected = self.dim.get().copied().unwrap_or(given);
        if expected == 0 || expected > MAX_DIM {
            return Err(format!("vectors of {expected} components"));
        }
        let mut vectors = raw;
        for vector in &mut vectors {
            if vector.len() != expected {
                return Err(format!("a vector of {} components where {expected} were expected", vector.len()));
            }
            // In f64, so that neither the squares of large components nor of small ones are lost.
            let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            if !norm.is_finite() {
                return Err("a vector that is not finite".into());
            }
            if norm == 0.0 {
                return Err("a vector of zeros".into());
            }
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        }
        // Another answer may have settled it meanwhile.
        if *self.dim.get_or_init(|| expected) != expected {
            return Err(format!("vectors of {expected} components, and of others before"));
        }
        Ok(vectors)
    }

    fn bad(&self, reason: String) -> CallError {
        CallError::BadAnswer { url: self.service.base().to_owned(), reason }
    }
}

/// A text as it may leave the node: no credentials, nothing that tells who or where, within the limit, never empty (some
/// services refuse a whole batch for one empty text).
fn outgoing(text: &str) -> String {
    // What shows nothing goes first: it could hide a secret from the rules.
    let seen = folklore_store::run::clean(text);
    let clean = redact(&seen, Classes::ALL).text;
    let cut = folklore_protocol::canonical::shorten(&clean, MAX_TEXT_BYTES);
    if cut.trim().is_empty() { ".".into() } else { cut }
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct GeminiAnswer {
    embeddings: Vec<GeminiVector>,
}

#[derive(Deserialize)]
struct GeminiVector {
    values: Vec<f32>,
}

/// The vectors by their numbers, or as they come where no one is numbered.
fn in_order(answer: OpenAiAnswer, wanted: usize) -> Result<Vec<Vec<f32>>, String> {
    if answer.data.len() != wanted {
        return Err(format!("{} vectors for {wanted} texts", answer.data.len()));
    }
    if answer.data.iter().all(|one| one.index.is_none()) {
        return Ok(answer.data.into_iter().map(|one| one.embedding).collect());
    }
    let mut places: Vec<Option<Vec<f32>>> = vec![None; wanted];
    for one in answer.data {
        let place = one.index.and_then(|index| places.get_mut(index)).ok_or("a vector for no text of the batch")?;
        if place.replace(one.embedding).is_some() {
            return Err("two vectors for one text".into());
        }
    }
    places.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| "a text without a vector".into())
}
