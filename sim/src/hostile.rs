//! Hostile peers: nodes that run the shipped protocol and, beside it, do what no honest node would.

use folklore_protocol::{AuthorId, BankId, Claim, Evidence, Item, Lesson, LessonDraft, LessonKind, Message, RecordId};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use crate::{
    heap::Happening,
    seeds::{self, Purpose},
    world::World,
};

/// Records a hostile node remembers to misuse.
const REMEMBERED: usize = 256;
/// Lessons a flood writes at a time, and ids it makes up beside them.
const FLOOD_LESSONS: usize = 16;
const FLOOD_IDS: usize = 64;
/// Old records that are replayed at a time.
const REPLAYED: usize = 16;
/// Where the author's key begins in a record: behind the format's version and the bank (`protocol/FORMAT.md`).
const AUTHOR_AT: usize = 33;

/// What a hostile node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// Pushes records in the name of others, signed by itself, and true ones with a flipped signature.
    Forge,
    /// Signs two records with one seq and tells one half of its peers the one, the other half the other.
    Equivocate,
    /// Writes worthless lessons without end, and announces ids that nobody has.
    Flood,
    /// Takes everything and gives nothing on.
    Withhold,
    /// Pushes old records again and again, and greets with old roots.
    Replay,
    /// Teaches well-formed lessons that mislead.
    Poison,
}

/// A hostile node's own state.
#[derive(Debug)]
pub struct Hostile {
    attack: Attack,
    bank: BankId,
    every_ms: u64,
    rng: ChaCha8Rng,
    /// Lessons that mislead, the next to be taught last.
    lies: Vec<Lesson>,
    heard: Vec<Item>,
    old_greeting: Option<Message>,
    made: u64,
}

impl World {
    /// Makes node `n` hostile from now on: it attacks every `every_ms`. `lies` are lessons that mislead, each taught once.
    pub fn turn_hostile(&mut self, n: usize, attack: Attack, bank: BankId, every_ms: u64, mut lies: Vec<Lesson>) {
        lies.reverse();
        let rng = seeds::stream(self.config.seed, n as u64, Purpose::Hostile);
        let every_ms = every_ms.max(1);
        let (heard, old_greeting, made) = (Vec::new(), None, 0);
        self.nodes[n].hostile =
            Some(Box::new(Hostile { attack, bank, every_ms, rng, lies, heard, old_greeting, made }));
        self.schedule_attack(n, every_ms);
    }

    /// Node `n` is honest again. What it did stays.
    pub fn turn_honest(&mut self, n: usize) {
        self.nodes[n].hostile = None;
    }

    /// What node `n` is up to, if it is hostile.
    pub fn attack_of(&self, n: usize) -> Option<Attack> {
        self.nodes[n].hostile.as_ref().map(|hostile| hostile.attack)
    }

    fn schedule_attack(&mut self, n: usize, in_ms: u64) {
        let life = self.nodes[n].life;
        self.schedule(in_ms, Happening::Attack { node: n as u32, life });
    }

    /// A hostile node listens to what comes.
    pub(crate) fn overhear(&mut self, n: usize, message: &Message) {
        let Some(hostile) = &mut self.nodes[n].hostile else { return };
        let items: &[Item] = match message {
            Message::Push { item, .. } => std::slice::from_ref(item),
            Message::Records { items, .. } => items,
            _ => return,
        };
        let room = REMEMBERED.saturating_sub(hostile.heard.len());
        hostile.heard.extend(items.iter().take(room).cloned());
    }

    /// What node `from` really says instead of a message; `None`: nothing.
    pub(crate) fn tampered(&mut self, from: usize, _to: usize, message: Message) -> Option<Message> {
        let Some(hostile) = &mut self.nodes[from].hostile else { return Some(message) };
        match (hostile.attack, message) {
            (
                Attack::Withhold,
                Message::Push { .. }
                | Message::Have { .. }
                | Message::Records { .. }
                | Message::Answer { .. }
                | Message::Offer { .. },
            ) => None,
            (Attack::Replay, message @ Message::Hello { .. }) => {
                // A greeting is to one peer; an old one to another is a tag that fits nothing, which is an attack too.
                Some(hostile.old_greeting.get_or_insert(message).clone())
            }
            (_, message) => Some(message),
        }
    }

    pub(crate) fn attack(&mut self, n: usize) {
        let Some(mut hostile) = self.nodes[n].hostile.take() else { return };
        let every_ms = hostile.every_ms;
        match hostile.attack {
            Attack::Forge => self.forge_records(n, &mut hostile),
            Attack::Equivocate => self.equivocate(n, &mut hostile),
            Attack::Flood => self.flood(n, &mut hostile),
            Attack::Replay => self.replay(n, &mut hostile),
            Attack::Poison => {
                if let Some(lie) = hostile.lies.pop() {
                    self.publish(n, hostile.bank, [taught(&lie)]);
                }
            }
            Attack::Withhold => {}
        }
        self.nodes[n].hostile.get_or_insert(hostile);
        self.schedule_attack(n, every_ms);
    }

    fn neighbours(&self, n: usize) -> Vec<usize> {
        self.connections.of(n).into_iter().map(|(other, _)| other).collect()
    }

    fn forge_records(&mut self, n: usize, hostile: &mut Hostile) {
        let neighbours = self.neighbours(n);
        let victim = neighbours.get(seeds::below(&mut hostile.rng, neighbours.len() as u64) as usize).copied();
        let lie = junk(hostile.next(), n);
        let (claim, body) = taught(&lie);
        let record = self.sign_as(n, hostile.bank, 1_000_000 + hostile.made, claim);
        let mut forged = record.bytes().to_vec();
        if let Some(victim) = victim {
            forged[AUTHOR_AT..AUTHOR_AT + 32].copy_from_slice(&self.author(victim).0);
        }
        let mut items = vec![Item { record: forged, body: body.map(|body| body.to_vec()) }];
        if let Some(mut broken) = hostile.any_heard() {
            if let Some(last) = broken.record.last_mut() {
                *last ^= 1;
            }
            items.push(broken);
        }
        for to in neighbours {
            for item in &items {
                self.transmit(n, to, Message::Push { bank: hostile.bank, hops: 0, item: item.clone() });
            }
        }
    }

    fn equivocate(&mut self, n: usize, hostile: &mut Hostile) {
        let seq = self.seq_of(n, &hostile.bank) + 1;
        let mut sides = Vec::new();
        for _ in 0..2 {
            let (claim, body) = taught(&junk(hostile.next(), n));
            sides.push((self.sign_as(n, hostile.bank, seq, claim), body));
        }
        for (at, to) in self.neighbours(n).into_iter().enumerate() {
            let (record, body) = &sides[at % 2];
            let item = Item { record: record.bytes().to_vec(), body: body.as_ref().map(|body| body.to_vec()) };
            self.transmit(n, to, Message::Push { bank: hostile.bank, hops: 0, item });
        }
        // It keeps the first itself, so that its own next number is another.
        self.nodes[n].seq.insert(hostile.bank, seq);
        self.commit(n, hostile.bank, vec![sides.swap_remove(0)]);
    }

    fn flood(&mut self, n: usize, hostile: &mut Hostile) {
        let lessons: Vec<Lesson> = (0..FLOOD_LESSONS).map(|_| junk(hostile.next(), n)).collect();
        self.publish(n, hostile.bank, lessons.iter().map(taught));
        let ids: Vec<RecordId> = (0..FLOOD_IDS).map(|_| made_up(&mut hostile.rng)).collect();
        for to in self.neighbours(n) {
            self.transmit(n, to, Message::Have { bank: hostile.bank, ids: ids.clone() });
        }
    }

    fn replay(&mut self, n: usize, hostile: &mut Hostile) {
        let old: Vec<Item> = (0..REPLAYED).filter_map(|_| hostile.any_heard()).collect();
        for to in self.neighbours(n) {
            for item in &old {
                self.transmit(n, to, Message::Push { bank: hostile.bank, hops: 1, item: item.clone() });
            }
            if let Some(greeting) = hostile.old_greeting.clone() {
                self.transmit(n, to, greeting);
            }
        }
    }

    /// Whether a record is one that its author signed, by the library; a forged one never gets there.
    pub fn is_genuine(&self, id: &RecordId) -> bool {
        self.library.number_of(id).is_some()
    }

    /// Authors that are hostile now.
    pub fn hostile_authors(&self) -> Vec<AuthorId> {
        (0..self.len()).filter(|n| self.nodes[*n].hostile.is_some()).map(|n| self.author(n)).collect()
    }
}

impl Hostile {
    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn any_heard(&mut self) -> Option<Item> {
        let at = seeds::below(&mut self.rng, self.heard.len() as u64) as usize;
        self.heard.get(at).cloned()
    }
}

fn taught(lesson: &Lesson) -> (Claim, Option<std::sync::Arc<[u8]>>) {
    let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("sim") };
    (claim, Some(lesson.bytes().clone()))
}

fn made_up(rng: &mut ChaCha8Rng) -> RecordId {
    let mut id = RecordId([0; 32]);
    rng.fill_bytes(&mut id.0);
    id
}

/// A well-formed lesson that says nothing.
fn junk(number: u64, by: usize) -> Lesson {
    Lesson::new(LessonDraft {
        kind: LessonKind::Strategy,
        title: format!("Note {number} of {by}"),
        applies_when: "at any time".into(),
        not_when: String::new(),
        content: format!("Entry {number} of node {by} carries no advice. ").repeat(4),
        task: format!("keep note {number} of {by}"),
        domain: "noise".into(),
        tags: Vec::new(),
    })
    .expect("a lesson within limits")
}

/// Whether a record's bytes are those of one that was signed under this name; for tests.
#[cfg(test)]
fn verifies(record: &folklore_protocol::Record) -> bool {
    folklore_protocol::UnverifiedRecord::parse(record.bytes()).and_then(|record| record.verify()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::WorldConfig;

    const MINUTE: u64 = 60_000;

    fn run(attack: Attack) -> (World, BankId) {
        let mut world = World::new(WorldConfig { seed: 5, nodes: 5, ..WorldConfig::default() });
        let bank = world.open_bank(0, 0..5);
        for a in 0..5 {
            (0..a).for_each(|b| world.introduce(a, b));
        }
        world.run_for(MINUTE);
        world.teach_all(0, bank, 0..5);
        world.run_for(10_000);
        let lies = (0..3).map(|n| junk(n, 99)).collect();
        world.turn_hostile(4, attack, bank, 5_000, lies);
        for number in 10..30 {
            world.teach(number as usize % 4, bank, number);
            world.run_for(6_000);
        }
        world.turn_honest(4);
        world.run_for(3 * MINUTE);
        (world, bank)
    }

    #[test]
    fn whatever_one_of_five_does_the_others_have_all_and_nothing_forged() {
        for attack in
            [Attack::Forge, Attack::Equivocate, Attack::Flood, Attack::Withhold, Attack::Replay, Attack::Poison]
        {
            let (mut world, bank) = run(attack);
            assert!(world.agree(&bank, 0..4), "{attack:?}");
            let entries = world.entries(1, &bank);
            assert!(entries.values().all(|(record, _)| verifies(record)), "{attack:?}");
            let own = |n: usize| entries.values().filter(|(r, _)| r.author() == world.author(n)).count();
            assert_eq!((0..4).map(own).sum::<usize>(), 25, "{attack:?}");
            match attack {
                Attack::Forge | Attack::Withhold | Attack::Replay => assert_eq!(own(4), 0, "{attack:?}"),
                Attack::Poison => assert_eq!(own(4), 3),
                Attack::Flood => assert!(own(4) >= 16),
                Attack::Equivocate => {
                    let seqs: Vec<u64> =
                        entries.values().filter(|(r, _)| r.author() == world.author(4)).map(|(r, _)| r.seq()).collect();
                    assert!(seqs.iter().any(|seq| seqs.iter().filter(|s| *s == seq).count() == 2), "{seqs:?}");
                }
            }
        }
    }
}
