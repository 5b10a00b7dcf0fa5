//! What a node holds, asked again and again.

use std::{collections::BTreeSet, sync::atomic::Ordering, thread};

use serde_json::{Value, json};

use super::{Board, LOOK_PATIENCE, LOOKS_AFTER_CHANGE, Shared, lock, text_at};
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
    /// Lessons that were looked into.
    lessons: BTreeSet<String>,
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
            if !is_due(&lock(&shared.board), node, &id, &known.lessons) {
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
            known.lessons.insert(id);
        }
        offset += lessons.len();
        if lessons.len() < PAGE {
            break;
        }
    }
    Ok(())
}

/// Whether a lesson is to be looked into: it is new at the node, or somebody taught it of whose record the node is not known to
/// have it. (How many a list says taught it are principals, of which strangers are one.)
fn is_due(board: &Board, node: usize, lesson: &str, known: &BTreeSet<String>) -> bool {
    let held = |author: &usize| board.held.get(node).is_some_and(|held| held.contains(&(lesson.to_owned(), *author)));
    !known.contains(lesson) || board.taught.get(lesson).is_some_and(|by| !by.iter().all(held))
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
