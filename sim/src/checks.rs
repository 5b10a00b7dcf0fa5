//! What must hold in every run, whatever happens to links, nodes and disks. Each check has a name, and a bug that must make it
//! speak (`sim/tests/planted.rs`).

use std::collections::{BTreeMap, BTreeSet};

use folklore_protocol::{BankId, LessonId, RecordId, Tally, UnverifiedRecord, known::IdTree};

use crate::world::World;

/// A request that reached a node is answered, and the answer sent, on a link that lost and cut nothing meanwhile.
pub const REQUESTS_ARE_ANSWERED: &str = "requests are answered";
/// A lesson whose withdrawal a node had is never shown there again.
pub const WITHDRAWN_STAYS_WITHDRAWN: &str = "withdrawn stays withdrawn";
/// Every record's bytes have its id and its author's signature, and its body is the one it names.
pub const BYTES_ARE_WHAT_IDS_SAY: &str = "bytes are what ids say";
/// Each record is there once.
pub const RECORDS_COUNT_ONCE: &str = "records count once";
/// What a node holds is on its disk, and nothing else is.
pub const HELD_IS_DURABLE: &str = "what is held is durable";
/// Where a node says that it is complete with a peer as of a time, it has all that the peer had then.
pub const COMPLETE_IS_COMPLETE: &str = "complete is complete";
/// What a disk acknowledged to the agent that taught it is never gone from there.
pub const ACKNOWLEDGED_STAYS: &str = "what was acknowledged stays";
/// After quiet all nodes hold the same.
pub const SETS_ARE_EQUAL: &str = "sets are equal after quiet";

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which check.
    pub check: &'static str,
    /// At which node.
    pub node: usize,
    /// What was seen.
    pub detail: String,
}

/// Watches one bank of a world.
#[derive(Debug)]
pub struct Checks {
    bank: BankId,
    /// Who may have it in time for a request to be overdue, milliseconds: longest way there and back and the disk.
    answer_within_ms: u64,
    /// A root that was right when it was sent counts as of when it came.
    under_way_ms: u64,
    withdrawn: BTreeMap<usize, BTreeSet<LessonId>>,
    violations: BTreeSet<Violation>,
}

impl Checks {
    /// `longest_way_ms`: the longest a message may be under way.
    pub fn new(bank: BankId, longest_way_ms: u64) -> Self {
        let (withdrawn, violations) = (BTreeMap::new(), BTreeSet::new());
        Self { bank, answer_within_ms: 2 * longest_way_ms + 500, under_way_ms: longest_way_ms, withdrawn, violations }
    }

    /// Looks round in the midst of a run.
    pub fn look(&mut self, world: &mut World) {
        for (node, detail) in world.overdue(self.answer_within_ms) {
            self.found(REQUESTS_ARE_ANSWERED, node, detail);
        }
        for node in (0..world.len()).filter(|n| world.is_up(*n)).collect::<Vec<_>>() {
            self.look_at(world, node);
        }
    }

    fn look_at(&mut self, world: &mut World, node: usize) {
        let bank = self.bank;
        let held = world.held_root(node, &bank);
        let on_disk = world.on_disk(node, &bank);
        let mut tree: IdTree = on_disk.iter().copied().collect();
        if held != Some(tree.root()) {
            let detail = format!("{} records held, {} on disk", world.node(node).held_len(&bank), on_disk.len());
            self.found(HELD_IS_DURABLE, node, detail);
        }
        for id in world.acknowledged(node) {
            if !tree.contains(id) {
                self.found(ACKNOWLEDGED_STAYS, node, format!("{id} is gone"));
            }
        }
        let mut seen = BTreeSet::new();
        let mut tally = Tally::new(world.author(0));
        for (record, _) in world.entries(node, &bank).values() {
            if !seen.insert(record.id()) {
                self.found(RECORDS_COUNT_ONCE, node, format!("{} is there twice", record.id()));
            }
            tally.apply(record);
        }
        let withdrawn = self.withdrawn.entry(node).or_default();
        let gone = |lesson: &LessonId| tally.standing(lesson).is_some_and(|standing| standing.withdrawn);
        withdrawn.extend(tally.lessons().filter(gone));
        let back: Vec<LessonId> = withdrawn.iter().filter(|lesson| !gone(lesson)).copied().collect();
        for lesson in back {
            self.found(WITHDRAWN_STAYS_WITHDRAWN, node, format!("{lesson} is back"));
        }
        let said: Vec<_> =
            world.node(node).peers().iter().filter_map(|(id, p)| Some((*id, *p.complete_as_of.get(&bank)?))).collect();
        for (peer, as_of) in said {
            let Some(peer) = world.number_of(&peer) else { continue };
            let then = world.had_by(peer, &bank, as_of.0.saturating_sub(self.under_way_ms));
            let missing = then.iter().filter(|id| !tree.contains(id)).count();
            if missing > 0 {
                let detail = format!("complete with node {peer} as of {} ms, but {missing} are missing", as_of.0);
                self.found(COMPLETE_IS_COMPLETE, node, detail);
            }
        }
    }

    /// Looks round at the end of a run, when all has been quiet for a while and every node is up.
    pub fn settle(&mut self, world: &mut World) {
        self.look(world);
        let bank = self.bank;
        let roots: Vec<_> = (0..world.len()).map(|n| world.held_root(n, &bank)).collect();
        for (node, root) in roots.iter().enumerate() {
            if *root != roots[0] {
                self.found(SETS_ARE_EQUAL, node, "another root than node 0".into());
            }
        }
        for node in 0..world.len() {
            let wrong: Vec<RecordId> = world
                .entries(node, &bank)
                .into_iter()
                .filter(|(id, (record, body))| {
                    let read = UnverifiedRecord::parse(record.bytes()).and_then(UnverifiedRecord::verify);
                    let fits = match (record.claim().body(), body) {
                        (Some(lesson), Some(body)) => LessonId::of(body) == lesson,
                        (None, Some(_)) => false,
                        (_, None) => true,
                    };
                    !fits || read.map_or(true, |record| record.id() != *id)
                })
                .map(|(id, _)| id)
                .collect();
            for id in wrong {
                self.found(BYTES_ARE_WHAT_IDS_SAY, node, format!("{id} does not fit its bytes"));
            }
        }
    }

    /// What was found.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter()
    }

    /// Names of the checks that failed.
    pub fn failed(&self) -> BTreeSet<&'static str> {
        self.violations.iter().map(|violation| violation.check).collect()
    }

    fn found(&mut self, check: &'static str, node: usize, detail: String) {
        self.violations.insert(Violation { check, node, detail });
    }
}
