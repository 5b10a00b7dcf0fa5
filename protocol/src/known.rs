//! Which record ids a node knows in a bank, kept as an id-prefix Merkle tree.
//!
//! The tree's shape follows from the set alone: up to [`LEAF_IDS`] ids below a prefix are a leaf, more are sixteen children
//! by the next half byte. So equal sets have equal hashes whatever the order of arrival, and two peers can find what differs
//! by walking down where hashes differ. Hashes are computed when asked for and kept until an insert below them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{canonical::DecodeError, reconcile::Sketch, record::RecordId};

/// Most ids in a leaf. Small enough that listing a leaf costs little more than the hashes of sixteen children would.
pub const LEAF_IDS: usize = 16;
const FANOUT: usize = 16;
/// Half bytes in an id, and in a short id.
const MAX_DEPTH: u8 = 64;
const SHORT_NIBBLES: u8 = 16;

/// A 256-bit root over a set of ids. Equal sets have equal roots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Root(pub [u8; 32]);

impl std::fmt::Display for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Root({}…)", data_encoding::HEXLOWER.encode(&self.0[..6]))
    }
}

/// The first eight bytes of a record id: enough to name a record to a peer that holds it. Ids are hashes, so two records of
/// a bank share one by chance once in 2^64 / n² banks of n; somebody who prepares two that do gains nothing, since whoever
/// is asked for a short id gives every record that has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShortId(pub [u8; 8]);

impl ShortId {
    /// That of a record.
    pub fn of(id: &RecordId) -> Self {
        Self(std::array::from_fn(|n| id.0[n]))
    }

    /// Every record id that has it lies between these two, both included.
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<RecordId> {
        let fill = |byte| RecordId(std::array::from_fn(|n| self.0.get(n).copied().unwrap_or(byte)));
        fill(0)..=fill(255)
    }

    pub(crate) fn value(self) -> u64 {
        u64::from_be_bytes(self.0)
    }

    pub(crate) fn from_value(value: u64) -> Self {
        Self(value.to_be_bytes())
    }
}

impl std::fmt::Debug for ShortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShortId({})", data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl From<RecordId> for ShortId {
    fn from(id: RecordId) -> Self {
        Self::of(&id)
    }
}

impl From<&RecordId> for ShortId {
    fn from(id: &RecordId) -> Self {
        Self::of(id)
    }
}

/// The first `nibbles` half bytes of an id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prefix {
    nibbles: u8,
    bytes: Vec<u8>,
}

impl Prefix {
    /// The prefix of every id.
    pub fn root() -> Self {
        Self { nibbles: 0, bytes: Vec::new() }
    }

    /// This prefix and one half byte more, or `None` at full depth.
    pub fn child(&self, nibble: u8) -> Option<Self> {
        if self.nibbles >= MAX_DEPTH {
            return None;
        }
        let mut bytes = self.bytes.clone();
        if self.nibbles.is_multiple_of(2) {
            bytes.push(nibble << 4);
        } else if let Some(last) = bytes.last_mut() {
            *last |= nibble & 0x0f;
        }
        Some(Self { nibbles: self.nibbles + 1, bytes })
    }

    /// How many half bytes.
    pub fn depth(&self) -> u8 {
        self.nibbles
    }

    fn nibble(&self, at: u8) -> usize {
        nibble_of(&self.bytes, at)
    }

    /// Whether `id` begins with this prefix.
    pub fn matches(&self, id: &RecordId) -> bool {
        (0..self.nibbles).all(|at| nibble_of(&id.0, at) == self.nibble(at))
    }

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let padded = self.nibbles % 2 == 1 && self.bytes.last().is_some_and(|b| b & 0x0f != 0);
        if self.nibbles > MAX_DEPTH || self.bytes.len() != usize::from(self.nibbles.div_ceil(2)) || padded {
            return Err(DecodeError::Invalid("not a prefix of an id".into()));
        }
        Ok(())
    }
}

fn nibble_of(bytes: &[u8], at: u8) -> usize {
    let byte = bytes[usize::from(at / 2)];
    usize::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 0x0f })
}

/// The hash of the ids below a prefix, cut to 128 bits for the wire: the final answer of a reconcile is the exchange of the
/// ids themselves, and roots are compared in full.
pub type NodeHash = [u8; 16];

/// A set of ids as a tree of hashes.
#[derive(Debug, Clone, Default)]
pub struct IdTree {
    top: TreeNode,
}

#[derive(Debug, Clone)]
struct TreeNode {
    /// Ids below; four thousand million are more than a node holds.
    count: u32,
    hash: Option<[u8; 32]>,
    below: Below,
}

#[derive(Debug, Clone)]
enum Below {
    /// Sorted, with no room to spare: most of a tree's memory is its leaves, and a thousand simulated nodes keep a tree each.
    Leaf(Box<[RecordId]>),
    Branch(Box<[TreeNode; FANOUT]>),
}

impl Default for TreeNode {
    fn default() -> Self {
        Self { count: 0, hash: None, below: Below::Leaf(Box::default()) }
    }
}

impl TreeNode {
    fn insert(&mut self, id: RecordId, depth: u8) -> bool {
        let added = match &mut self.below {
            Below::Branch(children) => children[nibble_of(&id.0, depth)].insert(id, depth + 1),
            Below::Leaf(ids) => match ids.binary_search(&id) {
                Ok(_) => false,
                Err(at) => {
                    let (before, after) = ids.split_at(at);
                    *ids = [before, &[id], after].concat().into_boxed_slice();
                    true
                }
            },
        };
        if !added {
            return false;
        }
        self.count += 1;
        self.hash = None;
        if let Below::Leaf(ids) = &mut self.below
            && ids.len() > LEAF_IDS
        {
            let ids = std::mem::take(ids);
            let mut children: Box<[TreeNode; FANOUT]> = Box::default();
            for id in ids.into_vec() {
                children[nibble_of(&id.0, depth)].insert(id, depth + 1);
            }
            self.below = Below::Branch(children);
        }
        true
    }

    fn hash(&mut self) -> [u8; 32] {
        if let Some(hash) = self.hash {
            return hash;
        }
        let hash = match &mut self.below {
            Below::Leaf(ids) => leaf_hash(ids.iter()),
            Below::Branch(children) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&[1]);
                for child in children.iter_mut() {
                    hasher.update(&child.hash());
                }
                *hasher.finalize().as_bytes()
            }
        };
        self.hash = Some(hash);
        hash
    }

    fn collect(&self, out: &mut Vec<RecordId>) {
        match &self.below {
            Below::Leaf(ids) => out.extend_from_slice(ids),
            Below::Branch(children) => children.iter().for_each(|c| c.collect(out)),
        }
    }

    fn visit(&self, each: &mut impl FnMut(&RecordId)) {
        match &self.below {
            Below::Leaf(ids) => ids.iter().for_each(each),
            Below::Branch(children) => children.iter().for_each(|c| c.visit(each)),
        }
    }
}

fn leaf_hash<'a>(ids: impl Iterator<Item = &'a RecordId>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[0]);
    for id in ids {
        hasher.update(&id.0);
    }
    *hasher.finalize().as_bytes()
}

/// What lies below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subtree {
    /// So few ids that they are listed.
    Ids(Vec<RecordId>),
    /// Hashes of the sixteen prefixes one half byte longer.
    Children(Box<[NodeHash; FANOUT]>),
}

impl IdTree {
    /// Adds an id; false if it was there.
    pub fn insert(&mut self, id: RecordId) -> bool {
        self.top.insert(id, 0)
    }

    /// How many ids.
    pub fn len(&self) -> usize {
        self.top.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `id` is there.
    pub fn contains(&self, id: &RecordId) -> bool {
        let (mut node, mut depth) = (&self.top, 0);
        loop {
            match &node.below {
                Below::Leaf(ids) => return ids.binary_search(id).is_ok(),
                Below::Branch(children) => {
                    node = &children[nibble_of(&id.0, depth)];
                    depth += 1;
                }
            }
        }
    }

    /// Every id that has a short id, ascending.
    pub fn with_short(&self, short: ShortId) -> Vec<RecordId> {
        let (mut node, mut depth) = (&self.top, 0);
        loop {
            match &node.below {
                Below::Leaf(ids) => {
                    let range = short.range();
                    let from = ids.partition_point(|id| id < range.start());
                    return ids[from..].iter().take_while(|id| *id <= range.end()).copied().collect();
                }
                Below::Branch(_) if depth >= SHORT_NIBBLES => {
                    let mut out = Vec::new();
                    node.collect(&mut out);
                    return out;
                }
                Below::Branch(children) => {
                    node = &children[nibble_of(&short.0, depth)];
                    depth += 1;
                }
            }
        }
    }

    /// Looks at every id, ascending.
    pub fn for_each(&self, mut each: impl FnMut(&RecordId)) {
        self.top.visit(&mut each);
    }

    /// The root over all ids.
    pub fn root(&mut self) -> Root {
        let mut hasher = blake3::Hasher::new_derive_key("folklore 2026 known root v1");
        hasher.update(&u64::from(self.top.count).to_le_bytes()).update(&self.top.hash());
        Root(*hasher.finalize().as_bytes())
    }

    /// The hash of the ids below `prefix`.
    pub fn hash(&mut self, prefix: &Prefix) -> NodeHash {
        let full = match self.descend(prefix) {
            Ok(node) => node.hash(),
            Err(ids) => leaf_hash(ids.iter().filter(|id| prefix.matches(id))),
        };
        cut(&full)
    }

    /// What lies below `prefix`: ids if there are at most [`LEAF_IDS`], else child hashes.
    pub fn subtree(&mut self, prefix: &Prefix) -> Subtree {
        match self.descend(prefix) {
            Err(ids) => Subtree::Ids(ids.iter().filter(|id| prefix.matches(id)).copied().collect()),
            Ok(node) => match &mut node.below {
                Below::Leaf(ids) => Subtree::Ids(ids.to_vec()),
                Below::Branch(children) => {
                    Subtree::Children(Box::new(std::array::from_fn(|n| cut(&children[n].hash()))))
                }
            },
        }
    }

    /// Every id below `prefix`, ascending.
    pub fn ids(&mut self, prefix: &Prefix) -> Vec<RecordId> {
        match self.descend(prefix) {
            Err(ids) => ids.iter().filter(|id| prefix.matches(id)).copied().collect(),
            Ok(node) => {
                let mut out = Vec::with_capacity(node.count as usize);
                node.collect(&mut out);
                out
            }
        }
    }

    /// The node at `prefix`, or the ids of the leaf that lies above it.
    fn descend(&mut self, prefix: &Prefix) -> Result<&mut TreeNode, &[RecordId]> {
        let (mut node, mut depth) = (&mut self.top, 0);
        while depth < prefix.nibbles {
            match &mut node.below {
                Below::Leaf(ids) => return Err(ids),
                Below::Branch(children) => node = &mut children[prefix.nibble(depth)],
            }
            depth += 1;
        }
        Ok(node)
    }
}

fn cut(hash: &[u8; 32]) -> NodeHash {
    std::array::from_fn(|n| hash[n])
}

impl FromIterator<RecordId> for IdTree {
    fn from_iter<I: IntoIterator<Item = RecordId>>(ids: I) -> Self {
        let mut tree = Self::default();
        for id in ids {
            tree.insert(id);
        }
        tree
    }
}

/// Ids this node refused under the policy it knew: they keep reconcile quiet, and are dropped when the policy changes.
/// Bounded, since strangers make them: beyond this the oldest half is dropped and may be offered again.
const MAX_DECLINED: usize = 100_000;

/// The ids a node knows in one bank.
#[derive(Debug, Clone, Default)]
pub struct Known {
    held: IdTree,
    declined: BTreeSet<RecordId>,
    /// Held and declined together; absent while nothing is declined, when it would equal `held`.
    all: Option<IdTree>,
    /// Kept of all that is known.
    sketch: Sketch,
}

impl Known {
    /// A bank that holds `ids`.
    pub fn holding(ids: impl IntoIterator<Item = RecordId>) -> Self {
        let held: IdTree = ids.into_iter().collect();
        let sketch = Sketch::of(held.len(), &mut |each| held.for_each(each));
        Self { held, sketch, ..Self::default() }
    }

    /// Notes a record as held; false if it was already.
    pub fn hold(&mut self, id: RecordId) -> bool {
        let declined = self.declined.remove(&id);
        let new = self.held.insert(id);
        if new && !declined {
            if let Some(all) = &mut self.all {
                all.insert(id);
            }
            self.note(&id);
        }
        new
    }

    /// Notes a record as refused under the policy now in force.
    pub fn decline(&mut self, id: RecordId) {
        if self.held.contains(&id) || !self.declined.insert(id) {
            return;
        }
        if self.declined.len() > MAX_DECLINED {
            let kept = self.declined.iter().skip(MAX_DECLINED / 2).copied().collect();
            for dropped in std::mem::replace(&mut self.declined, kept).difference(&self.declined) {
                if *dropped != id {
                    self.sketch.remove(dropped);
                }
            }
            self.all = None;
        }
        match &mut self.all {
            Some(all) => {
                all.insert(id);
            }
            None => {
                let mut all = self.held.clone();
                self.declined.iter().for_each(|id| {
                    all.insert(*id);
                });
                self.all = Some(all);
            }
        }
        if self.declined.contains(&id) {
            self.note(&id);
        }
    }

    /// Drops every refusal: the policy changed, so what was refused is judged again.
    pub fn forget_declined(&mut self) {
        for id in std::mem::take(&mut self.declined) {
            self.sketch.remove(&id);
        }
        self.all = None;
    }

    /// Carries a new id into what is kept of the set, which grows with it.
    fn note(&mut self, id: &RecordId) {
        self.sketch.add(id);
        if self.sketch.outgrown() {
            self.sketch =
                Sketch::of(self.sketch.len(), &mut |each| self.all.as_ref().unwrap_or(&self.held).for_each(each));
        }
    }

    /// What is kept of the ids known.
    pub(crate) fn sketch(&self) -> &Sketch {
        &self.sketch
    }

    /// The same, with at least so many cells.
    pub(crate) fn sketch_of(&mut self, cells: usize) -> &Sketch {
        self.sketch.grow(cells, &mut |each| self.all.as_ref().unwrap_or(&self.held).for_each(each));
        &self.sketch
    }

    /// Drops what a session needed beyond what is kept.
    pub(crate) fn trim_sketch(&mut self) {
        self.sketch.trim();
    }

    /// Makes what is kept differ from what is known.
    #[cfg(test)]
    pub(crate) fn break_sketch(&mut self, how: impl FnOnce(&mut Sketch)) {
        how(&mut self.sketch);
    }

    /// Ids known that have a short id.
    pub(crate) fn with_short(&self, short: ShortId) -> Vec<RecordId> {
        self.all.as_ref().unwrap_or(&self.held).with_short(short)
    }

    /// Looks at every id known, ascending.
    pub(crate) fn for_each(&self, each: impl FnMut(&RecordId)) {
        self.all.as_ref().unwrap_or(&self.held).for_each(each);
    }

    /// Bytes of cells and estimate that are kept beside the ids, so that comparing needs no walk over them.
    pub fn sketch_bytes(&self) -> usize {
        self.sketch.bytes()
    }

    /// Ids known.
    pub fn known_len(&self) -> usize {
        self.sketch.len()
    }

    /// Whether `id` is held or declined.
    pub fn contains(&self, id: &RecordId) -> bool {
        self.held.contains(id) || self.declined.contains(id)
    }

    /// Whether `id` is held.
    pub fn holds(&self, id: &RecordId) -> bool {
        self.held.contains(id)
    }

    /// Records held.
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// The root over what is held.
    pub fn held_root(&mut self) -> Root {
        self.held.root()
    }

    /// The root over all that is known, which reconcile compares.
    pub fn known_root(&mut self) -> Root {
        self.tree().root()
    }

    /// The tree that reconcile walks.
    pub fn tree(&mut self) -> &mut IdTree {
        self.all.as_mut().unwrap_or(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(n: u32) -> RecordId {
        RecordId(*blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    proptest! {
        #[test]
        fn equal_sets_have_equal_roots_whatever_the_order(mut ns in proptest::collection::vec(0u32..500, 0..300), seed in any::<u64>()) {
            let a: IdTree = ns.iter().map(|n| id(*n)).collect();
            let len = ns.len().max(1);
            ns.rotate_left((seed as usize) % len);
            ns.reverse();
            let mut b = IdTree::default();
            for n in &ns {
                b.insert(id(*n));
                b.root(); // hashes kept between inserts must not go stale
            }
            prop_assert_eq!(a.clone().root(), b.root());
            let set: BTreeSet<RecordId> = ns.iter().map(|n| id(*n)).collect();
            prop_assert_eq!(a.len(), set.len());
            prop_assert_eq!(a.clone().ids(&Prefix::root()), set.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn the_hash_below_a_prefix_is_that_of_the_same_ids_alone(n in 0u32..400, nibbles in proptest::collection::vec(0u8..16, 0..4)) {
            let mut tree: IdTree = (0..n).map(id).collect();
            let mut prefix = Prefix::root();
            for nibble in nibbles {
                prefix = prefix.child(nibble).unwrap();
            }
            prop_assert!(prefix.check().is_ok());
            let mut alone: IdTree = (0..n).map(id).filter(|id| prefix.matches(id)).collect();
            prop_assert_eq!(tree.hash(&prefix), alone.hash(&prefix));
            prop_assert_eq!(tree.ids(&prefix), alone.ids(&prefix));
        }
    }

    #[test]
    fn ids_that_share_all_but_the_last_half_byte_are_told_apart() {
        let mut tree = IdTree::default();
        for n in 0..32u8 {
            let mut bytes = [0xab; 32];
            bytes[31] = n;
            tree.insert(RecordId(bytes));
        }
        assert_eq!(tree.len(), 32);
        let mut prefix = Prefix::root();
        while let Some(next) = prefix.child(if prefix.depth().is_multiple_of(2) { 0xa } else { 0xb }) {
            prefix = next;
        }
        assert!(prefix.child(0).is_none());
        assert_eq!(tree.ids(&prefix), []);
    }

    #[test]
    fn a_declined_record_is_known_but_not_held_until_the_policy_changes() {
        let mut known = Known::holding([id(1)]);
        let held = known.held_root();
        assert_eq!(known.known_root(), held);
        known.decline(id(2));
        assert!(known.contains(&id(2)) && !known.holds(&id(2)));
        assert_eq!(known.held_root(), held);
        assert_ne!(known.known_root(), held);
        known.hold(id(2));
        assert_eq!(known.known_root(), known.held_root());
        known.decline(id(3));
        known.forget_declined();
        assert!(!known.contains(&id(3)));
        assert_eq!(known.known_root(), known.held_root());
    }
}
