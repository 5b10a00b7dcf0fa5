//! How long a message is as a frame, by arithmetic alone. Each arm follows the order of fields in [`Message`]; the test holds
//! them to what [`Message::encode`] makes.

use super::{GreetedBank, Item, Message, Probe, ProbeAnswer, SketchAnswer, SketchHead};
use crate::{
    reconcile::Cell,
    run_log::{RunAbout, RunHead, RunMark, StepPiece},
};

/// A bank's id, a record's id, a root.
const HASH: usize = 32;
const SHORT: usize = 8;
const RUN_KEY: usize = 16;
/// An enum's variant, a bool, whether there is an optional value: of each there are few, so one byte.
const TAG: usize = 1;
const CELL: usize = std::mem::size_of::<Cell>();

/// An integer of two bytes or more, as bincode's standard configuration writes it.
fn int(value: u64) -> usize {
    match value {
        0..=250 => 1,
        251..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

fn bytes(len: usize) -> usize {
    int(len as u64) + len
}

/// A list of things of one size.
fn list(len: usize, each: usize) -> usize {
    int(len as u64) + len * each
}

fn sum<T>(items: &[T], each: impl Fn(&T) -> usize) -> usize {
    int(items.len() as u64) + items.iter().map(each).sum::<usize>()
}

fn item(item: &Item) -> usize {
    bytes(item.record.len()) + TAG + item.body.as_ref().map_or(0, |body| bytes(body.len()))
}

fn probe(probe: &Probe) -> usize {
    1 + bytes(probe.prefix.depth().div_ceil(2).into()) + 16
}

fn probe_answer(answer: &ProbeAnswer) -> usize {
    TAG + match answer {
        ProbeAnswer::Same => 0,
        ProbeAnswer::Ids(ids) => list(ids.len(), HASH),
        ProbeAnswer::Children(children) => children.len() * 16,
    }
}

fn greeted(bank: &GreetedBank) -> usize {
    16 + HASH + int(bank.records) + TAG
}

fn head(head: &SketchHead) -> usize {
    HASH + int(head.records) + 16 + TAG + head.nonce.map_or(0, int)
}

fn sketch_answer(answer: &SketchAnswer) -> usize {
    TAG + match answer {
        SketchAnswer::Same | SketchAnswer::Walk | SketchAnswer::Done => 0,
        SketchAnswer::More { have, records, nonce, estimate } => {
            let estimate = TAG + estimate.as_ref().map_or(0, |estimate| bytes(estimate.len()));
            int(u64::from(*have)) + int(*records) + int(*nonce) + estimate
        }
        SketchAnswer::Found { lacks, left } => list(lacks.len(), SHORT) + int(u64::from(*left)),
        SketchAnswer::FoundSalted { lacks, wants, left } => {
            list(lacks.len(), HASH) + list(wants.len(), SHORT) + int(u64::from(*left))
        }
        SketchAnswer::Salt { nonce } => int(*nonce),
    }
}

fn run_head(head: &RunHead) -> usize {
    let mark = |mark: &RunMark| int(u64::from(mark.n)) + int(mark.at_ms) + bytes(mark.action.len());
    RUN_KEY + TAG + int(u64::from(head.steps)) + HASH + sum(&head.marks, mark)
}

fn run_about(about: &RunAbout) -> usize {
    let RunAbout { name, task_key, task, domain, agent, tags, began_ms, branch } = about;
    let texts: usize = [name, task_key, task, domain, agent].into_iter().map(|text| bytes(text.len())).sum();
    let branch = branch.as_ref().map_or(0, |(_, steps, _)| HASH + int(u64::from(*steps)) + HASH);
    texts + sum(tags, |tag| bytes(tag.len())) + int(*began_ms) + TAG + branch
}

/// Bytes of the frame: the format's version, the variant, the fields.
pub(super) fn of(message: &Message) -> usize {
    1 + TAG
        + match message {
            Message::Hello { version, banks } => int(u64::from(*version)) + sum(banks, greeted),
            Message::Refusal { detail, .. } => TAG + bytes(detail.len()),
            Message::Push { hops, item: pushed, .. } => HASH + int(u64::from(*hops)) + item(pushed),
            Message::Have { ids, .. } => HASH + list(ids.len(), HASH),
            Message::Graft { .. } | Message::Prune { .. } => HASH,
            Message::Probe { session, probes, .. } => HASH + int(*session) + sum(probes, probe),
            Message::Probed { session, answers, .. } => HASH + int(*session) + sum(answers, probe_answer),
            Message::Offer { session, from, ids, .. } => {
                HASH + int(*session) + int(u64::from(*from)) + list(ids.len(), HASH) + TAG
            }
            Message::Fetch { request, budget_bytes, ids, .. } => {
                HASH + int(*request) + int(u64::from(*budget_bytes)) + list(ids.len(), SHORT)
            }
            Message::Records { request, items, absent, unknown, .. } => {
                HASH + int(*request) + sum(items, item) + list(absent.len(), HASH) + list(unknown.len(), SHORT)
            }
            Message::Ask { request, query, hits, .. } => {
                HASH + int(*request) + bytes(query.len()) + int(u64::from(*hits))
            }
            Message::Answer { request, items, records, .. } => HASH + int(*request) + sum(items, item) + int(*records),
            Message::Compare { session, .. } => HASH + int(*session) + HASH,
            Message::Sketch { session, head: first, from, cells, .. } => {
                let first = TAG + first.as_ref().map_or(0, head);
                HASH + int(*session) + first + int(u64::from(*from)) + list(cells.len(), CELL) + TAG
            }
            Message::Sketched { session, answer, .. } => HASH + int(*session) + sketch_answer(answer),
            Message::Busy { request, .. } => HASH + int(*request),
            Message::Suggest { request, near, from, .. } => {
                HASH + int(*request) + sum(near, |text| bytes(text.len())) + int(u64::from(*from))
            }
            Message::Suggested { request, ids, .. } => HASH + int(*request) + list(ids.len(), SHORT),
            Message::Run { head, about, .. } => HASH + run_head(head) + TAG + about.as_ref().map_or(0, run_about),
            Message::RunFetch { request, from, offset, .. } => {
                HASH + int(*request) + RUN_KEY + int(u64::from(*from)) + int(u64::from(*offset))
            }
            Message::RunSteps { request, pieces, .. } => {
                let piece = |piece: &StepPiece| bytes(piece.bytes.len()) + int(u64::from(piece.left));
                HASH + int(*request) + RUN_KEY + sum(pieces, piece)
            }
        }
}
