//! Text to vectors.
//!
//! Vectors never travel between nodes and are never mixed: each is kept under the [`EmbedderIdentity`] that made it.
//! The built-in embedder needs no network, no file and no key, so a node always has one.

mod builtin;
mod pieces;

pub use builtin::{BUILTIN_DIM, BUILTIN_NAME, BUILTIN_REVISION, BuiltinEmbedder, WEIGHTS_SHA256};

/// What made a vector. Two vectors may be compared only where all three parts are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EmbedderIdentity {
    /// The model's name, such as `folklore-static`.
    pub name: String,
    /// The model's version: for the built-in one the first 12 hex digits of its weights' SHA-256.
    pub revision: String,
    /// Components of each vector.
    pub dim: usize,
}

/// Why texts could not be embedded. The embedder's state is unchanged by every one of these.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The compiled-in or configured weights do not have the layout their header promises.
    #[error("the embedder's weights are malformed ({0}); rebuild or reinstall folklore")]
    Weights(&'static str),
    /// The embedder is a service and did not answer in time or at all.
    #[error("the embedder cannot be reached ({0}); check its address, or use the built-in embedder")]
    Unavailable(String),
    /// The embedder answered with something that is not one vector a text of the right size.
    #[error("the embedder gave an unusable answer ({0}); check that the configured model matches")]
    BadAnswer(String),
}

/// Turns texts into unit vectors.
pub trait Embedder: Send + Sync {
    /// What its vectors are to be kept under.
    fn identity(&self) -> &EmbedderIdentity;

    /// One entry a text, in order: a unit vector of `identity().dim` components, or `None` where the text has no token
    /// the model knows. `None` means "no dense answer": it is similar to nothing, not even to another `None`.
    ///
    /// # Errors
    /// When the model cannot answer at all. Nothing is embedded then.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError>;

    /// The vector of one text; see [`Embedder::embed`].
    ///
    /// # Errors
    /// As [`Embedder::embed`].
    fn embed_one(&self, text: &str) -> Result<Option<Vec<f32>>, EmbedError> {
        let mut vectors = self.embed(&[text])?;
        match (vectors.pop(), vectors.is_empty()) {
            (Some(vector), true) => Ok(vector),
            _ => Err(EmbedError::BadAnswer("not one vector for one text".into())),
        }
    }
}
