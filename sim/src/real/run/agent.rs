//! What the agents of a node do: attempt tasks, recall and teach through its door.

use std::sync::{atomic::Ordering, mpsc};

use folklore_protocol::Lesson;
use serde_json::{Value, json};

use super::{PATIENCE, Shared, Work, lock, text, text_at};
use crate::{
    agents::Task,
    observe::Observed,
    real::{RealError, process::Process, tape::Seen},
};

/// Does what a node's agents do, one thing after the other.
pub(super) fn work(shared: &Shared, node: usize, receiver: &mpsc::Receiver<Work>, ticket: &str, k: usize) {
    while let Ok(work) = receiver.recv() {
        if !shared.over.load(Ordering::Relaxed) {
            match work {
                Work::Attempt { number, task, text, lesson } => attempt(shared, number, &task, &text, lesson, k),
                Work::Start { fault } => {
                    let joined = shared.start(node).and_then(|door| {
                        let joined = door.post("bank/join", &json!({"ticket": ticket}), PATIENCE);
                        joined.map_err(|error| RealError::Daemon { node, why: error.to_string() })
                    });
                    match joined {
                        Ok(_) => shared.set_up(node, true),
                        Err(error) => shared.fail(node, format!("after fault {fault}: {error}")),
                    }
                }
            }
        }
        shared.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One task: recall, fall into the trap or not, and teach.
fn attempt(shared: &Shared, number: u64, task: &Task, text: &str, lesson: Option<Box<Lesson>>, k: usize) {
    let node = task.node;
    let Some(door) = shared.nodes.get(node).and_then(Process::door) else { return };
    let bank = lock(&shared.bank).clone();
    let answer = door.post("recall", &json!({"task": text, "k": k, "bank": bank}), PATIENCE);
    // A node that went down meanwhile did not answer: as in the simulation there was no attempt.
    let Ok(answer) = answer else { return };
    let hits = answer.get("hits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let family = task.family as u32;
    let rank = {
        let families = lock(&shared.families);
        hits.iter().position(|hit| {
            let id = hit.pointer("/lesson/id").and_then(Value::as_str);
            id.and_then(|id| families.get(id)) == Some(&family)
        })
    };
    let helped_by = rank.and_then(|at| hits.get(at)).and_then(|hit| {
        let author = hit.get("authors")?.as_array()?.iter().filter_map(Value::as_str);
        let author = author.filter_map(|id| shared.by_id.get(id)).next()?;
        Some((text_of(hit)?, *author))
    });
    let failed = rank.is_none() && task.trapped;
    let attempt = Observed::Attempted {
        node,
        task: number,
        family,
        rank: rank.and_then(|rank| u32::try_from(rank + 1).ok()),
        record: None,
        shown: u32::try_from(hits.len()).unwrap_or(u32::MAX),
        failed,
        poisoned: false,
        reached: true,
    };
    shared.see(Seen::Attempted { attempt, helped_by });
    let Some(lesson) = lesson.filter(|_| failed) else { return };
    let bytes = u32::try_from(lesson.bytes().len()).unwrap_or(u32::MAX);
    let Ok(mut request) = serde_json::to_value(lesson.fields()) else { return };
    if let Some(fields) = request.as_object_mut() {
        fields.insert("bank".into(), bank.into());
        fields.insert("evidence".into(), json!({"outcome": "failure", "agent": "simulated", "judged_by": "sim"}));
    }
    match door.post("teach", &request, PATIENCE) {
        Ok(taught) => {
            let Some(id) = text_at(&taught, "merged_into").or_else(|| text_at(&taught, "id")) else { return };
            lock(&shared.families).entry(id.clone()).or_insert(family);
            lock(&shared.board).taught.entry(id.clone()).or_default().insert(node);
            shared.see(Seen::Taught { key: (id, node), family, bytes });
        }
        // One that was killed may have stored it or not; what was never acknowledged is not counted.
        Err(_) => shared.see(Seen::Plain(Observed::TeachFailed { node, family })),
    }
}

fn text_of(hit: &Value) -> Option<String> {
    text(hit, "/lesson/id")
}
