//! Recall: this node's banks, and with scope `network` the connected peers'.

use std::collections::BTreeMap;

use folklore_protocol::{
    Answer as PeerAnswer, AuthorId, BankId, Claim, Lesson, LessonId, LessonKind, UnverifiedRecord,
    canonical::{Lines, normalise},
    message::{MAX_ASKED_HITS, MAX_NEAR_BYTES, MAX_QUERY_BYTES},
};
use folklore_store::catalogue::{Explained, Offered, Recalled, Wish};
use folklore_store::embed::EmbedError;
use folklore_store::recall::{EmptyReason, TASK_KINDS};
use folklore_store::redact::{Classes, redact};
use folklore_store::runs::log::Lease;

use super::{Memory, read_failed, runs::run_failed, stopping, teach};
use crate::{
    api::{self, Answer, ApiError},
    engine::Answers,
};

/// How long peers have to answer when the request does not say, milliseconds. An agent waits for this.
const DEFAULT_DEADLINE_MS: u64 = 2_000;
/// Longest a request may let peers take, milliseconds.
const MAX_DEADLINE_MS: u64 = 60_000;
/// How much difference counts among the lessons of several attempts, when the request does not say.
const ATTEMPTS_DIVERSITY: f32 = 0.5;
/// Peers are asked for this many lessons more than are wanted: they rank by their own measure, this node by its own.
const ASK_FACTOR: usize = 4;

/// Kinds that are ranked apart from one another: in the middle of a run a procedure for the very step and a lesson about the
/// task do not compete for one place.
fn by_kinds(step: bool) -> &'static [Option<&'static [LessonKind]>] {
    if step { &[Some(&[LessonKind::Procedure]), Some(TASK_KINDS)] } else { &[None] }
}

/// A task as it may leave the node: what tells who and where stays behind.
fn outgoing(task: &str, limit: usize) -> String {
    let task = normalise(task, Lines::Many);
    folklore_protocol::canonical::shorten(&redact(&task, Classes::ALL).text, limit)
}

impl Memory {
    pub(super) async fn recall_now(&self, mut request: api::RecallRequest) -> Answer<api::RecallResponse> {
        if let Some(attempts) = request.attempts {
            // One lesson an attempt, and none twice: that is what makes several attempts worth more than one.
            request.k = attempts;
            request.diverse = request.diverse.or(Some(ATTEMPTS_DIVERSITY));
        }
        if request.k == 0 || request.k > api::MAX_K {
            return Err(ApiError::bad_request(format!("k is 1 to {}", api::MAX_K)));
        }
        if request.min_score.is_some_and(|x| !x.is_finite()) {
            return Err(ApiError::bad_request("min_score is a number, 0 to 1"));
        }
        if request.diverse.is_some_and(|x| !(0.0..=1.0).contains(&x)) {
            return Err(ApiError::bad_request("diverse is a number, 0 to 1"));
        }
        if request.exclude_tasks.len() > api::MAX_EXCLUDED_TASKS {
            return Err(ApiError::bad_request(format!("at most {} tasks are excluded", api::MAX_EXCLUDED_TASKS)));
        }
        let task = normalise(&request.task, Lines::Many);
        if task.is_empty() {
            return Err(ApiError::bad_request("the task is empty: say what is to be done"));
        }
        if self.0.engine.shows_work() {
            self.0.engine.working_on(outgoing(&task, MAX_NEAR_BYTES)).await.map_err(stopping)?;
        }
        let bank = request.bank.as_deref().map(|name| self.bank(Some(name))).transpose()?.map(|b| b.id);
        let explain = request.explain;
        let lease = request.run.as_deref().map(str::parse::<Lease>).transpose().map_err(run_failed)?;
        let exclude = match lease.clone() {
            Some(lease) => self.blocking(move |m| m.given_before(&lease)).await?,
            None => Vec::new(),
        };
        let wishes = by_kinds(request.step && request.kinds.is_empty());
        let wish = Wish {
            exclude,
            k: request.k,
            min_score: request.min_score,
            bank,
            kinds: request.kinds,
            domain: request.domain,
            diversity: request.diverse.unwrap_or(0.0),
            exclude_tasks: request.exclude_tasks.iter().map(|task| normalise(task, Lines::Many)).collect(),
            explain,
        };
        let mut peers = api::AskedPeers::default();
        let mut offered = Vec::new();
        if request.scope == api::Scope::Network {
            let within_ms = request.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS).min(MAX_DEADLINE_MS);
            let hits = (request.k * ASK_FACTOR * wishes.len()).min(MAX_ASKED_HITS as usize) as u32;
            (offered, peers) = self.ask_peers(&task, bank, hits, within_ms).await?;
        }
        let recall = move |m: &Self| {
            let mut answer: Option<Recalled> = None;
            for kinds in wishes {
                let kinds = kinds.map_or_else(|| wish.kinds.clone(), <[LessonKind]>::to_vec);
                let wish = Wish { kinds, ..wish.clone() };
                let mut recalled = m.0.catalogue.recall(&task, &wish, &offered).map_err(read_failed)?;
                if let Some(before) = answer.take().filter(|before| !before.hits.is_empty()) {
                    recalled.hits.splice(0..0, before.hits);
                    recalled.reason = None;
                }
                answer = Some(recalled);
            }
            let recalled = answer.ok_or_else(|| ApiError::failed("nothing was asked for"))?;
            if let Some(lease) = &lease {
                m.note_given(lease, &recalled)?;
            }
            Ok(recalled)
        };
        let recalled = self.blocking(recall).await?;
        let mut response = self.to_response(recalled, peers, explain);
        let short = request.attempts.filter(|attempts| (1..*attempts).contains(&response.hits.len()));
        if let (Some(attempts), None) = (short, &response.note) {
            let found = response.hits.len();
            response.note =
                Some(format!("{found} different lessons for {attempts} attempts: the others go without one"));
        }
        Ok(response)
    }

    /// What a run was given before; the error says why its lease is none.
    fn given_before(&self, lease: &Lease) -> Answer<Vec<LessonId>> {
        self.0.store.note_given(lease, &[]).map_err(run_failed)?;
        Ok(self.0.store.run_info(&lease.name).map_err(run_failed)?.given)
    }

    /// Asks the peers that share each bank, and verifies what comes back.
    async fn ask_peers(
        &self,
        task: &str,
        only: Option<BankId>,
        hits: u32,
        within_ms: u64,
    ) -> Answer<(Vec<Offered>, api::AskedPeers)> {
        let query = outgoing(task, MAX_QUERY_BYTES);
        let banks = self.blocking(|m| Ok(m.0.store.banks())).await?;
        let banks = banks.into_iter().map(|b| b.id).filter(|id| only.is_none_or(|o| o == *id));
        let mut asked = Vec::new();
        for bank in banks {
            let (engine, query) = (self.0.engine.clone(), query.clone());
            asked.push(tokio::spawn(async move { (bank, engine.ask(bank, query, hits, within_ms).await) }));
        }
        let (mut answered, mut silent) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let mut raw: Vec<(BankId, PeerAnswer)> = Vec::new();
        for task in asked {
            let (bank, answers) =
                task.await.map_err(|_| ApiError::failed("asking the peers failed inside the daemon"))?;
            let Answers { answers, silent: quiet } = answers.map_err(stopping)?;
            silent.extend(quiet);
            for answer in answers {
                answered.insert(answer.peer);
                raw.push((bank, answer));
            }
        }
        let offered = self.blocking(move |m| Ok(m.verify(raw, hits as usize))).await?;
        let silent: Vec<AuthorId> = silent.difference(&answered).copied().collect();
        let text = |ids: &mut dyn Iterator<Item = &AuthorId>| ids.map(ToString::to_string).collect::<Vec<_>>();
        let mut all: Vec<AuthorId> = answered.iter().chain(&silent).copied().collect();
        all.sort();
        let peers = api::AskedPeers {
            asked: text(&mut all.iter()),
            answered: text(&mut answered.iter()),
            silent: text(&mut silent.iter()),
        };
        Ok((offered, peers))
    }

    pub(super) fn to_response(&self, recalled: Recalled, peers: api::AskedPeers, explain: bool) -> api::RecallResponse {
        let query = &recalled.query;
        let explanation = explain.then(|| api::RecallExplanation {
            lessons: query.lessons as u64,
            mass: query.mass,
            best_bm25: query.best_bm25,
            embedded: query.embedded,
            nearest: recalled.nearest.as_ref().map(|(lesson, explained)| api::Nearest {
                id: lesson.id().to_string(),
                title: lesson.title.clone(),
                score: explained.scored.score,
                lexical: explained.scored.lexical,
                explain: to_explanation(explained),
            }),
        });
        let hits = recalled.hits.into_iter().map(|hit| api::Hit {
            lesson: teach::to_view(&hit.lesson),
            score: hit.score,
            dense: hit.dense.unwrap_or(0.0),
            lexical: hit.lexical,
            standing: teach::to_standing(hit.state, &hit.standing),
            authors: hit.standing.authors.iter().map(ToString::to_string).collect(),
            source: hit.peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string()),
            also: hit.also.iter().map(ToString::to_string).collect(),
            explain: hit.explained.as_ref().map(to_explanation),
        });
        let reason = recalled.reason.map(|reason| match reason {
            EmptyReason::BankEmpty => api::EmptyReason::BankEmpty,
            EmptyReason::BelowThreshold => api::EmptyReason::BelowThreshold,
            EmptyReason::Filtered => api::EmptyReason::Filtered,
            EmptyReason::EmbedderUnavailable => api::EmptyReason::EmbedderUnavailable,
        });
        let by_words = recalled.embedder_error.map(|error| format!("ranked by words only: {error}"));
        let note = by_words.or_else(|| self.fallback_note(recalled.fallback.as_ref()));
        // Whose vectors ranked this answer, which may be another than answers the next one.
        let embedder = recalled.query.embedder.as_ref().map_or_else(|| self.embedder(), super::to_embedder);
        api::RecallResponse {
            hits: hits.collect(),
            reason,
            embedder: Some(embedder),
            peers,
            note,
            explain: explanation,
        }
    }
}

impl Memory {
    /// Why the built-in embedder answers in place of the configured one, if it does.
    fn fallback_note(&self, failed: Option<&EmbedError>) -> Option<String> {
        if let Some(error) = failed {
            return Some(format!("the built-in embedder answered: {error}"));
        }
        let embedding = self.embedding().filter(|e| !e.answers)?;
        let why = match (embedding.waiting, embedding.error) {
            (_, Some(error)) => error,
            (Some(waiting), None) => format!("{waiting} lessons wait for their vectors"),
            (None, None) => "it has not been reached yet".into(),
        };
        Some(format!("the built-in embedder answered for {}: {why}", embedding.service))
    }
}

fn to_explanation(explained: &Explained) -> api::HitExplanation {
    let (scored, keys) = (&explained.scored, &explained.keys);
    api::HitExplanation {
        task_cosine: keys.task_cosine,
        text_cosine: keys.text_cosine,
        task_bm25: keys.task_bm25,
        text_bm25: keys.text_bm25,
        bm25: scored.bm25,
        fused: scored.fused,
        standing_factor: scored.weight,
        gate: api::GateExplanation {
            coverage: scored.coverage,
            reached: scored.gate.reached,
            bar: scored.gate.bar,
            passes: scored.gate.passes(),
        },
    }
}

impl Memory {
    /// Keeps what is a teaching of the lesson that came with it, in the bank asked, by a good signature of an author who may
    /// write there: the same as for a record that is to be stored. No peer gives more than it was asked for.
    fn verify(&self, answers: Vec<(BankId, PeerAnswer)>, hits: usize) -> Vec<Offered> {
        let mut out = Vec::new();
        let owners: BTreeMap<BankId, AuthorId> = self.0.store.banks().into_iter().map(|b| (b.id, b.owner)).collect();
        for (bank, answer) in answers {
            let policy = self.0.catalogue.policy(&bank);
            let Some(owner) = owners.get(&bank) else { continue };
            for item in answer.items.into_iter().take(hits) {
                let record = match UnverifiedRecord::parse(&item.record).and_then(UnverifiedRecord::verify) {
                    Ok(record) if record.bank() == bank => record,
                    _ => {
                        tracing::warn!(peer = %answer.peer, "an answer holds a record that does not verify");
                        continue;
                    }
                };
                let author = record.author();
                let revoked = self.0.catalogue.revoked_after(&bank, &author).is_some_and(|keep| record.seq() > keep);
                if revoked || policy.endorsed_only || !policy.may_write(owner, &author) {
                    continue; // What waits for a curator here waits wherever it comes from.
                }
                let lesson = item.body.and_then(|body| Lesson::from_bytes(&body).ok());
                let taught = match record.claim() {
                    Claim::Taught { lesson_id, .. } => Some(*lesson_id),
                    _ => None,
                };
                match lesson.filter(|l| Some(l.id()) == taught) {
                    Some(lesson) => out.push(Offered { lesson, author: record.author(), peer: answer.peer }),
                    None => {
                        tracing::warn!(peer = %answer.peer, "an answer holds a lesson that its record does not teach")
                    }
                }
            }
        }
        out
    }
}
