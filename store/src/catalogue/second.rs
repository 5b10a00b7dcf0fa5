//! The second space of vectors: an embedder beside the built-in one, filled from outside.

use std::{
    ops::Bound,
    sync::{Arc, PoisonError},
};

use folklore_protocol::LessonId;

use super::{Catalogue, shelf::Entry};
use crate::{
    embed::{EmbedError, Embedder, EmbedderIdentity},
    index::dense::DenseError,
    recall::{Prepared, gate::Gate},
};

/// The second space answers while at most one lesson in so many waits for its vectors.
const WAITING_ONE_IN: usize = 20;
/// How far the second space is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// Its embedder.
    pub embedder: EmbedderIdentity,
    /// Lessons that wait for their vectors.
    pub waiting: usize,
    /// Whether queries are answered by it, or still by the built-in embedder.
    pub answers: bool,
}

/// A lesson that waits for its vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unembedded {
    /// Which.
    pub id: LessonId,
    /// Its keys: task and text.
    pub keys: [String; 2],
}

/// Whether the second space may answer: while so few of the lessons wait for their vectors. Those are found by their words.
fn may_answer(waiting: usize, lessons: usize) -> bool {
    waiting.saturating_mul(WAITING_ONE_IN) <= lessons
}

impl Catalogue {
    /// Uses a second embedder beside the built-in one, which goes on answering until all lessons have their vectors by
    /// this one. Those that are on disk from before count; the others [wait](Catalogue::unembedded). Returns what was damaged,
    /// in words.
    pub fn use_embedder(&self, embedder: Arc<dyn Embedder>, gate: Gate) -> Vec<String> {
        let _alone = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.write();
        // What would be redacted does not leave this node, and is not shown either.
        let shown = |(slot, entry): (usize, &Entry)| {
            (entry.secret == 0 && !entry.gone)
                .then(|| u32::try_from(slot).ok().map(|slot| (slot, entry.id.0)))
                .flatten()
        };
        let lessons: Vec<(u32, [u8; 32])> = inner.entries.iter().enumerate().filter_map(shown).collect();
        let identity = embedder.identity().clone();
        let (waiting, notes) = inner.ranker.open_second(identity, gate, self.vectors.as_deref(), &lessons);
        inner.waiting = Some(waiting.into_iter().collect());
        *self.second.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(embedder);
        notes
    }

    /// How far the second space is, if there is one.
    pub fn embedding(&self) -> Option<Embedding> {
        let inner = self.read();
        let waiting = inner.waiting.as_ref()?;
        Some(Embedding {
            embedder: inner.ranker.second_identity()?.clone(),
            waiting: waiting.len(),
            answers: may_answer(waiting.len(), inner.entries.len()),
        })
    }

    /// Lessons that wait for their vectors in the second space: at most `limit` of those behind `after`, in the order of
    /// arrival, and the place of the last of them.
    /// Those that `skip` names are passed over.
    pub fn unembedded(
        &self,
        after: Option<u32>,
        limit: usize,
        skip: impl Fn(&LessonId) -> bool,
    ) -> (Vec<Unembedded>, Option<u32>) {
        let some: Vec<(u32, LessonId)> = {
            let inner = self.read();
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let slots = inner.waiting.iter().flat_map(|waiting| waiting.range((from, Bound::Unbounded)));
            let named = slots.filter_map(|slot| Some((*slot, inner.entries.get(*slot as usize)?.id)));
            named.filter(|(_, id)| !skip(id)).take(limit).collect()
        };
        let last = some.last().map(|(slot, _)| *slot);
        let lesson = |(_, id): &(u32, LessonId)| {
            let lesson = self.read_lesson(id)?;
            Some(Unembedded { id: *id, keys: [lesson.task.clone(), lesson.text()] })
        };
        (some.iter().filter_map(lesson).collect(), last)
    }

    /// Takes in vectors of lessons' keys that the embedder `identity` made, and says how many lessons got theirs. Vectors of
    /// another embedder than the second space's are not taken.
    ///
    /// # Errors
    /// When a vector does not fit the index. The lessons before that one have theirs.
    pub fn embedded(
        &self,
        identity: &EmbedderIdentity,
        made: &[(LessonId, Vec<Vec<f32>>)],
    ) -> Result<usize, DenseError> {
        let mut inner = self.write();
        let mut taken = 0;
        for (id, vectors) in made {
            let Some(slot) = inner.slot(id) else { continue };
            if !inner.waiting.as_ref().is_some_and(|waiting| waiting.contains(&slot)) {
                continue;
            }
            if inner.ranker.add_second(slot, &id.0, identity, vectors)?
                && let Some(waiting) = &mut inner.waiting
            {
                waiting.remove(&slot);
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// The second embedder, if queries are for it to answer now.
    pub(super) fn answering(&self) -> Option<Arc<dyn Embedder>> {
        let embedder = self.second.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()?;
        self.embedding().is_some_and(|e| e.answers && e.embedder == *embedder.identity()).then_some(embedder)
    }
}

/// The vectors of a query and of lessons' keys (task, text) by an embedder.
pub(super) fn prepare(embedder: &dyn Embedder, query: &str, lessons: &[(&str, &str)]) -> Result<Prepared, EmbedError> {
    let mut texts = vec![query];
    texts.extend(lessons.iter().flat_map(|(task, text)| [*task, *text]));
    let mut vectors = embedder.embed(&texts)?;
    if vectors.len() != texts.len() {
        return Err(EmbedError::BadAnswer("not one vector a text".into()));
    }
    let externals = vectors.split_off(1);
    match vectors.pop().flatten() {
        Some(query) => Ok(Prepared { query, externals }),
        None => Err(EmbedError::BadAnswer("no vector for the query".into())),
    }
}
