//! What a node holds, asked again and again.

use std::{collections::BTreeMap, sync::atomic::Ordering, thread};

use serde_json::{Value, json};

use super::{LOOK_PATIENCE, LOOKS_AFTER_CHANGE, Shared, lock, text_at};
use crate::{
    observe::Observed,
    real::{LOOK_EVERY, door::Door, process::Process, tape::Seen},
};

/// Lessons of one page of a list.
const PAGE: usize = 1000;

/// Asks a node what it holds, until the run is over.
pub(super) fn watch(shared: &Shared, node: usize) {
    let mut known = Known::default();
    while !shared.over.load(Ordering::Relaxed) {
        let door = shared.nodes.get(node).and_then(Process::door);
        if let Some(door) = door
            && lock(&shared.board).up.get(node) == Some(&true)
        {
            // One that stands still or goes down is asked again.
            let _ = look(shared, node, &door, &mut known);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What a watcher remembers of its node.
#[derive(Default)]
struct Known {
    root: String,
    /// Looks since that root was new.
    looks: u32,
    /// By how many each lesson was taught when it was last looked into.
    taught_by: BTreeMap<String, u64>,
}

/// One look at a node.
fn look(shared: &Shared, node: usize, door: &Door, known: &mut Known) -> std::io::Result<()> {
    let status = door.get("status", LOOK_PATIENCE)?;
    let bank = lock(&shared.bank).clone();
    let banks = status.get("banks").and_then(Value::as_array).into_iter().flatten();
    let root = banks.into_iter().find(|of| of.get("id").and_then(Value::as_str) == Some(&bank));
    let Some(root) = root.and_then(|of| text_at(of, "held_root")) else { return Ok(()) };
    known.looks = if known.root == root { known.looks.saturating_add(1) } else { 0 };
    known.root.clone_from(&root);
    show_root(shared, node, root);
    if known.looks > LOOKS_AFTER_CHANGE {
        return Ok(());
    }
    let mut offset = 0;
    loop {
        let list = door.post("list", &json!({"limit": PAGE, "offset": offset}), LOOK_PATIENCE)?;
        let lessons = list.get("lessons").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for lesson in lessons {
            let Some(id) = text_at(lesson, "id") else { continue };
            let by = lesson.get("taught_by").and_then(Value::as_u64).unwrap_or(0);
            if known.taught_by.get(&id) == Some(&by) {
                continue;
            }
            let shown = door.post("show", &json!({"id": id}), LOOK_PATIENCE)?;
            let authors = shown.get("authors").and_then(Value::as_array).into_iter().flatten();
            for author in authors.filter_map(|author| shared.by_id.get(author.as_str()?)) {
                let key = (id.clone(), *author);
                let is_new = lock(&shared.board).held.get_mut(node).is_some_and(|held| held.insert(key.clone()));
                if is_new {
                    shared.see(Seen::Held { node, key });
                }
            }
            known.taught_by.insert(id, by);
        }
        offset += lessons.len();
        if lessons.len() < PAGE {
            break;
        }
    }
    Ok(())
}

/// Puts up what a node holds, and looks whether all hold the same.
fn show_root(shared: &Shared, node: usize, root: String) {
    let mut board = lock(&shared.board);
    if board.up.get(node) != Some(&true) {
        return;
    }
    if let Some(entry) = board.roots.get_mut(node) {
        *entry = Some(root);
    }
    let up = || board.roots.iter().zip(&board.up).filter(|(_, up)| **up).map(|(root, _)| root);
    let first = up().next().cloned().flatten();
    let equal = first.is_some() && up().all(|root| *root == first);
    if equal != board.equal {
        board.equal = equal;
        board.changed_ms = shared.now_ms();
        shared.see(Seen::Plain(if equal { Observed::Converged } else { Observed::Diverged }));
    }
}
