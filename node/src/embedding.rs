//! The second embedder at work: a service makes the vectors of the lessons in the background and those of queries while
//! somebody waits. Until it has made nearly all of them, and whenever it cannot be reached, the built-in embedder answers,
//! and the answer says so.
//!
//! What is still to be done is the bank's lessons without the vectors of [the space on disk](folklore_store::catalogue), so the
//! queue survives a crash without being written down, and cannot disagree with the bank.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use folklore_protocol::LessonId;
use folklore_store::{
    catalogue::{Catalogue, Unembedded},
    embed::{EmbedError, Embedder, EmbedderIdentity},
    recall::gate::Gate,
};
use serde::Deserialize;
use tokio::runtime::Handle;

use crate::service::{
    CallError, EmbedConfig, Patience, Provider, Purpose, RemoteEmbedder, Secret, embed::DEFAULT_BATCH,
};

/// Texts sent in an hour when the configuration does not say: a stranger who floods the bank costs no more than this.
pub const DEFAULT_TEXTS_AN_HOUR: u32 = 50_000;
/// How often it is looked whether new lessons wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// First and longest wait after the service failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Lessons that the service gave no usable vectors for are tried again after this.
const REFUSED_PAUSE: Duration = Duration::from_secs(3600);
/// How often, and after which pauses, it is looked whether the work has ended.
const STOP_LOOKS: u32 = 500;
const STOP_PAUSE: Duration = Duration::from_millis(10);
/// Refused lessons that are remembered with the reason; beyond, only counted as waiting.
const MAX_REFUSED: usize = 10_000;
/// All that a query may wait for its vectors, those of what peers offered included.
const QUERY_TIME: Duration = Duration::from_secs(3);
/// After a query failed the service is left alone for this long, so that not every recall waits for it.
const QUERY_REST: Duration = Duration::from_secs(10);

/// A second embedder as `embedder.json` in the home, or the command line, names it.
///
/// ```json
/// {"provider": "openai", "url": "http://127.0.0.1:11434", "model": "qwen3-embedding:0.6b", "dim": 512, "revision": "1",
///  "batch": 32, "texts_an_hour": 50000}
/// ```
///
/// The key is taken from the environment, never from a file that is copied about: `FOLKLORE_EMBEDDER_KEY`, else
/// `OPENAI_API_KEY` or `GEMINI_API_KEY`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderOptions {
    /// The interface; none: no second embedder.
    pub provider: Option<Provider>,
    /// Base address of the service; none: that of the interface's author.
    pub url: Option<String>,
    /// The model's name there.
    pub model: Option<String>,
    /// Components asked for; none: what the model gives.
    pub dim: Option<usize>,
    /// Tells apart what goes by one name.
    pub revision: Option<String>,
    /// Texts of one request.
    pub batch: Option<usize>,
    /// Most texts sent in an hour, queries apart.
    pub texts_an_hour: Option<u32>,
}

impl EmbedderOptions {
    /// Reads the text of `embedder.json`.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let options: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match options.provider {
            Some(_) => Ok(options),
            None => Err("it names no provider: openai or gemini".into()),
        }
    }

    /// These, where they say something, on top of `file`. What `file` says of another provider's service is no default for this
    /// one: texts and a key would go to its address.
    pub fn over(self, file: Self) -> Self {
        let provider = self.provider.or(file.provider);
        let same = provider == file.provider;
        Self {
            provider,
            url: self.url.or(file.url.filter(|_| same)),
            model: self.model.or(file.model.filter(|_| same)),
            dim: self.dim.or(file.dim.filter(|_| same)),
            revision: self.revision.or(file.revision.filter(|_| same)),
            batch: self.batch.or(file.batch.filter(|_| same)),
            texts_an_hour: self.texts_an_hour.or(file.texts_an_hour),
        }
    }

    /// The embedder they name and how many texts it is sent in an hour, if they name one. `variable` reads the environment.
    ///
    /// # Errors
    /// When they cannot be meant, in words for the user.
    pub fn embedder(self, variable: impl Fn(&str) -> Option<String>) -> Result<Option<(RemoteEmbedder, u32)>, String> {
        let Some(provider) = self.provider else {
            return if self == Self::default() {
                Ok(None)
            } else {
                Err("an embedder's model or address is given, and not which interface it speaks: --embedder openai or gemini".into())
            };
        };
        let model = self.model.ok_or("an embedding service needs a model: --embedder-model NAME")?;
        let key = provider.key_variables().iter().find_map(|name| variable(name).filter(|key| !key.is_empty()));
        let config = EmbedConfig {
            provider,
            url: self.url.unwrap_or_else(|| provider.default_url().into()),
            model,
            revision: self.revision.unwrap_or_else(|| "1".into()),
            dim: self.dim,
            key: key.map(Secret::new),
            batch: self.batch.unwrap_or(DEFAULT_BATCH),
        };
        let a_lesson = u32::try_from(KEYS).unwrap_or(u32::MAX);
        let texts_an_hour = self.texts_an_hour.unwrap_or(DEFAULT_TEXTS_AN_HOUR).max(a_lesson);
        Ok(Some((RemoteEmbedder::new(config)?, texts_an_hour)))
    }
}

/// Texts that are embedded of a lesson: its task and its text.
const KEYS: usize = 2;

/// How the second embedder fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What and where it is.
    pub service: String,
    /// What its vectors are kept under, once it has answered.
    pub identity: Option<EmbedderIdentity>,
    /// Whether it answers queries now.
    pub answers: bool,
    /// Lessons that wait for their vectors; `None` before it has answered at all.
    pub waiting: Option<usize>,
    /// Lessons that it gave no usable vectors for; they are tried again.
    pub failed: usize,
    /// What went wrong last, until something goes well.
    pub error: Option<String>,
}

/// The second embedder at work. The work ends with this value.
pub struct Embedding {
    shared: Arc<Shared>,
    work: tokio::task::JoinHandle<()>,
}

struct Shared {
    remote: Arc<RemoteEmbedder>,
    catalogue: Arc<Catalogue>,
    texts_an_hour: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    error: Option<String>,
    /// Lessons that the service gave no usable vectors for.
    refused: BTreeMap<LessonId, Instant>,
}

impl Embedding {
    /// Sets the embedder to work on a catalogue. Must be called in a runtime.
    pub fn start(remote: RemoteEmbedder, catalogue: Arc<Catalogue>, texts_an_hour: u32) -> Self {
        let shared = Arc::new(Shared { remote: Arc::new(remote), catalogue, texts_an_hour, state: Mutex::default() });
        let work = tokio::spawn(Arc::clone(&shared).work());
        Self { shared, work }
    }

    /// How it fares.
    pub fn progress(&self) -> Progress {
        let embedding = self.shared.catalogue.embedding();
        let state = self.shared.state();
        Progress {
            service: self.shared.remote.describe(),
            identity: self.shared.remote.identity(),
            answers: embedding.as_ref().is_some_and(|e| e.answers),
            waiting: embedding.map(|e| e.waiting),
            failed: state.refused.len(),
            error: state.error.clone(),
        }
    }
}

impl Embedding {
    /// Ends the work and waits, for a moment at most, until nothing of it holds the catalogue any more.
    pub async fn stop(&self) {
        self.work.abort();
        for _ in 0..STOP_LOOKS {
            if Arc::strong_count(&self.shared) == 1 {
                return;
            }
            tokio::time::sleep(STOP_PAUSE).await;
        }
        tracing::warn!("the embedding service's work did not end in time");
    }
}

impl Drop for Embedding {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn work(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = Arc::clone(&self).begin().await {
            self.failed(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.state().error = None;
        let mut budget = Budget::new(self.texts_an_hour);
        loop {
            self.look_through(&mut budget).await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks the service for the first time: how long its vectors are, and where its cosines lie.
    async fn begin(self: Arc<Self>) -> Result<(), String> {
        let texts = ["folklore"];
        self.remote.embed(&texts, Purpose::Document, Patience::BACKGROUND).await.map_err(|e| e.to_string())?;
        let handle = Handle::current();
        let begun = tokio::task::spawn_blocking(move || -> Result<(), String> {
            let embedder = Waited::new(Arc::clone(&self.remote), handle)?;
            let gate = Gate::of(&embedder).map_err(|error| error.to_string())?;
            for note in self.catalogue.use_embedder(Arc::new(embedder), gate) {
                tracing::warn!("{note}");
            }
            Ok(())
        });
        begun.await.map_err(|_| "it failed inside the daemon; its log says more".to_owned())?
    }

    /// Embeds whatever waits, once through, for as long as the service does its part.
    async fn look_through(self: &Arc<Self>, budget: &mut Budget) {
        let mut after = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let (shared, from) = (Arc::clone(self), after);
            let lessons = self.remote.batch().div_ceil(KEYS);
            let Ok((batch, last)) = tokio::task::spawn_blocking(move || {
                shared.catalogue.unembedded(from, lessons, |id| shared.was_refused(id))
            })
            .await
            else {
                return;
            };
            let Some(last) = last else { return };
            budget.wait_for(batch.len() * KEYS, |text| self.failed(text)).await;
            match self.embed(&batch).await {
                Ok(()) => {
                    self.went_well();
                    (after, pause) = (Some(last), FIRST_PAUSE);
                }
                // One by one, so that one bad text does not hold up the others.
                Err(error) if is_about_the_texts(&error) && batch.len() > 1 => {
                    for lesson in batch {
                        budget.wait_for(KEYS, |text| self.failed(text)).await;
                        match self.embed(std::slice::from_ref(&lesson)).await {
                            Err(error) if is_about_the_texts(&error) => self.refused(lesson.id, &error),
                            Err(error) => self.failed(&error.to_string()),
                            Ok(()) => {}
                        }
                    }
                    after = Some(last);
                }
                Err(error) if is_about_the_texts(&error) => {
                    batch.iter().for_each(|lesson| self.refused(lesson.id, &error));
                    after = Some(last);
                }
                Err(error) => {
                    self.failed(&error.to_string());
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn embed(self: &Arc<Self>, batch: &[Unembedded]) -> Result<(), CallError> {
        let texts: Vec<&str> = batch.iter().flat_map(|lesson| &lesson.keys).map(String::as_str).collect();
        let vectors = self.remote.embed(&texts, Purpose::Document, Patience::BACKGROUND).await?;
        let made: Vec<(LessonId, Vec<Vec<f32>>)> =
            batch.iter().map(|lesson| lesson.id).zip(vectors.chunks(KEYS).map(<[_]>::to_vec)).collect();
        let Some(identity) = self.remote.identity() else { return Ok(()) };
        let shared = Arc::clone(self);
        let taken = tokio::task::spawn_blocking(move || shared.catalogue.embedded(&identity, &made)).await;
        if let Ok(Err(error)) = taken {
            return Err(CallError::BadAnswer { url: self.remote.describe(), reason: error.to_string() });
        }
        let mut state = self.state();
        for lesson in batch {
            state.refused.remove(&lesson.id);
        }
        Ok(())
    }

    /// Whether a lesson was refused lately.
    fn was_refused(&self, id: &LessonId) -> bool {
        self.state().refused.get(id).is_some_and(|at| at.elapsed() < REFUSED_PAUSE)
    }

    fn refused(&self, id: LessonId, error: &CallError) {
        tracing::warn!(lesson = %id, %error, "a lesson gets no vectors from the service for now");
        let mut state = self.state();
        state.error = Some(error.to_string());
        if state.refused.len() < MAX_REFUSED || state.refused.contains_key(&id) {
            state.refused.insert(id, Instant::now());
        }
    }

    /// Nothing is wrong any more, unless there are lessons that were refused.
    fn went_well(&self) {
        let mut state = self.state();
        if state.refused.is_empty() {
            state.error = None;
        }
    }

    fn failed(&self, error: &str) {
        let mut state = self.state();
        if state.error.as_deref() != Some(error) {
            tracing::warn!(
                error,
                "the embedding service does not do its part; the built-in embedder answers meanwhile"
            );
            state.error = Some(error.to_owned());
        }
    }
}

/// Whether an error may be due to the very texts that were sent, and not to the service or the way there.
fn is_about_the_texts(error: &CallError) -> bool {
    matches!(error, CallError::BadAnswer { .. }) || error.may_be_too_large()
}

/// How many more texts may be sent in the hour.
struct Budget {
    an_hour: u32,
    left: u32,
    until: tokio::time::Instant,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Budget {
    fn new(an_hour: u32) -> Self {
        Self { an_hour, left: an_hour, until: tokio::time::Instant::now() + HOUR }
    }

    /// Takes `texts` from the hour's budget, waiting for the next hour if there are not so many left.
    async fn wait_for(&mut self, texts: usize, say: impl Fn(&str)) {
        let texts = u32::try_from(texts).unwrap_or(u32::MAX).min(self.an_hour);
        if tokio::time::Instant::now() >= self.until {
            *self = Self::new(self.an_hour);
        }
        if texts > self.left {
            say(&format!(
                "{} texts were sent within an hour, which is the most allowed; it goes on afterwards",
                self.an_hour
            ));
            tokio::time::sleep_until(self.until).await;
            *self = Self::new(self.an_hour);
        }
        self.left -= texts;
    }
}

/// The service as an [`Embedder`]: blocks the calling thread, which must be none of the runtime's own, for at most
/// [`QUERY_TIME`].
struct Waited {
    remote: Arc<RemoteEmbedder>,
    identity: EmbedderIdentity,
    handle: Handle,
    /// Until when queries do not ask, and why.
    rest: Mutex<Option<(Instant, String)>>,
}

impl Waited {
    fn new(remote: Arc<RemoteEmbedder>, handle: Handle) -> Result<Self, String> {
        let identity = remote.identity().ok_or("the service has not said how long its vectors are")?;
        Ok(Self { remote, identity, handle, rest: Mutex::default() })
    }

    fn rest(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.rest.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Embedder for Waited {
    fn identity(&self) -> &EmbedderIdentity {
        &self.identity
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        if let Some((until, why)) = &*self.rest()
            && Instant::now() < *until
        {
            return Err(EmbedError::Unavailable(why.clone()));
        }
        let asked = self.remote.embed(texts, Purpose::Query, Patience::QUERY);
        let answer = self.handle.block_on(async { tokio::time::timeout(QUERY_TIME, asked).await });
        let failed = match answer {
            Ok(Ok(vectors)) => {
                *self.rest() = None;
                return Ok(vectors.into_iter().map(Some).collect());
            }
            Ok(Err(error @ CallError::BadAnswer { .. })) => EmbedError::BadAnswer(error.to_string()),
            Ok(Err(error)) => EmbedError::Unavailable(error.to_string()),
            Err(_) => EmbedError::Unavailable(format!("{} did not answer in time", self.remote.describe())),
        };
        *self.rest() = Some((Instant::now() + QUERY_REST, failed.to_string()));
        Err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_says_of_one_service_is_not_taken_for_another() {
        let json =
            r#"{"provider":"openai","url":"http://127.0.0.1:1","model":"m","dim":8,"revision":"2","texts_an_hour":9}"#;
        let file = EmbedderOptions::parse(json.as_bytes()).unwrap();
        let named = |provider| EmbedderOptions { provider, ..EmbedderOptions::default() };
        let other = named(Some(Provider::Gemini)).over(file.clone());
        assert_eq!(other, EmbedderOptions { texts_an_hour: Some(9), ..named(Some(Provider::Gemini)) });
        for same in [named(None), named(Some(Provider::OpenAi))] {
            assert_eq!(same.over(file.clone()), file);
        }
    }
}
