//! Procedures beside what was learned about whole tasks, in one answer.
//!
//! A procedure answers the subquestion that a run is on, and a bank may hold thousands of them beside a hundred lessons about
//! tasks. Ranked together they take the places among the candidates, raise the gate's bar by their mere number, change
//! which words are rare, and being near to everything that counts or compares they answer nonsense. So each side is ranked
//! as if the other were not there, and of the procedures only those stand in an answer about a task that clear the gate by
//! [`PROCEDURE_RISE`]. Whoever names kinds, or asks for a step, is not met by any of this.
//!
//! Measured in `node/tests/beside_procedures.rs`; the rise was chosen on the half of its queries that the gate was fitted on.

use folklore_protocol::LessonKind;

use super::{EmptyReason, LEXICAL_SHARE, Ranked, Scored};

/// What was learned about whole tasks.
pub const TASK_KINDS: &[LessonKind] = &[LessonKind::Strategy, LessonKind::Pitfall, LessonKind::Contrast];

/// How much more than the gate asks a procedure must reach. Of 108 off-topic queries, 5,000 procedures answer 19 without it, 10 with
/// 0.1 and 3 with this; of 673 subquestions in other words it costs 6 in a hundred, if they are not asked as steps.
const PROCEDURE_RISE: f32 = 0.25;

/// Both in one answer of at most `k`, best first. `has_gate`: the gate decided, not a score that the caller named.
#[must_use]
pub fn beside(lessons: Ranked, procedures: Ranked, k: usize, has_gate: bool) -> Ranked {
    let (ours, theirs) = (lessons.query.best_bm25, procedures.query.best_bm25);
    let best = ours.max(theirs);
    // Each side's BM25 was divided by its own best; scores of two sides compare when it is one best.
    let score = |scored: &Scored, own: f32| {
        let lexical = |best: f32| if best > 0.0 { scored.bm25 / best } else { 0.0 };
        let share = if procedures.query.embedded { LEXICAL_SHARE } else { 1.0 };
        scored.score - scored.weight * share * (lexical(own) - lexical(best))
    };
    let clears = |scored: &Scored| !has_gate || scored.gate.reached >= scored.gate.bar + PROCEDURE_RISE;
    let mut rivals: Vec<(Scored, Vec<_>)> =
        procedures.hits.iter().copied().zip(procedures.folded.iter().cloned()).filter(|(hit, _)| clears(hit)).collect();
    rivals.reverse();
    let (mut hits, mut folded) = (Vec::new(), Vec::new());
    let mut waiting: Vec<(Scored, Vec<_>)> = lessons.hits.iter().copied().zip(lessons.folded.iter().cloned()).collect();
    waiting.reverse();
    while hits.len() < k {
        let next = match (waiting.last(), rivals.last()) {
            (Some((lesson, _)), Some((rival, _))) if score(rival, theirs) > score(lesson, ours) => rivals.pop(),
            (Some(_), _) => waiting.pop(),
            (None, _) => rivals.pop(),
        };
        let Some((hit, same)) = next else { break };
        hits.push(hit);
        folded.push(same);
    }
    let reason = if hits.is_empty() { lessons.reason.or(Some(EmptyReason::BelowThreshold)) } else { None };
    let nearest = lessons.nearest.or(procedures.nearest).filter(|_| hits.is_empty());
    let embedder_error = lessons.embedder_error.or(procedures.embedder_error);
    let mut query = lessons.query;
    query.best_bm25 = best;
    query.lessons += procedures.query.lessons;
    Ranked { hits, folded, nearest, reason, embedder_error, query }
}
