//! What a reconcile costs, against the negentropy crate on the same sets in the same run.
//!
//! `cargo bench -p folklore-protocol --bench reconcile [-- quick | table]`: `table` measures only what the last table needs, `quick`
//! only ten thousand ids. With `-p folklore-sim --bench harness` in the same command, the rows follow that need bodies, cuts
//! and many nodes. Both write `target/figures/*.json`.
//!
//! Ours is the shipped protocol: two [`Node`]s that greet each other and reconcile, every message through its bytes. Counted
//! is what is said until both know what they lack; the greeting, fetches and records are not. A round trip is a message of
//! the opener's that is answered. Negentropy is given the same ids with timestamps, spread over time ("scattered": the ids
//! that differ have any age) or the youngest ("recent", its best case), and no limit on frames. CPU is the time both sides
//! spend on the session, on one thread; of negentropy without filling and sealing its storage, of ours with the upkeep of as
//! many records as differ.
#![allow(clippy::disallowed_types, missing_docs, reason = "a benchmark reads the clock")]

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use folklore_protocol::{
    AuthorId, BankId, Config, Effect, Event, Known, Message, Node, RecordId, Time, known::IdTree, message::SketchAnswer,
};

use folklore_tests::figures::{Figure, Report};
use negentropy::{Id, Negentropy, NegentropyStorageVector};

fn id(set: u64, n: u64) -> RecordId {
    RecordId(*blake3::hash(&[set.to_le_bytes(), n.to_le_bytes()].concat()).as_bytes())
}

/// Two sets: `common` ids on both sides, and so many on either side alone.
#[derive(Clone, Copy)]
struct Case {
    common: u64,
    ours: u64,
    theirs: u64,
    seed: u64,
}

impl Case {
    fn d(&self) -> u64 {
        self.ours + self.theirs
    }

    /// The opener's ids, then the answerer's.
    fn sets(&self) -> [Vec<RecordId>; 2] {
        let alone = |set, n: u64| (0..n).map(move |k| id(self.seed << 8 | set, k));
        [(1, self.ours), (2, self.theirs)]
            .map(|(set, n)| (0..self.common).map(|k| id(0, k)).chain(alone(set, n)).collect::<Vec<_>>())
    }
}

#[derive(Default, Clone, Copy)]
struct Cost {
    bytes: usize,
    round_trips: u32,
    cpu: Duration,
    /// The longest that one event or message kept a node.
    step: Duration,
    /// Whether the walk down the tree was needed.
    walked: bool,
}

/// Two nodes on one clock. Node 0 is the one that opens.
struct Pair {
    ids: [AuthorId; 2],
    nodes: [Node; 2],
    bank: BankId,
    queue: VecDeque<(usize, Message)>,
    now: Time,
    step: Duration,
}

impl Pair {
    fn new(sets: [Vec<RecordId>; 2]) -> Self {
        let ids = [AuthorId([1; 32]), AuthorId([2; 32])];
        let bank = BankId([7; 32]);
        let nodes = [0, 1].map(|n| Node::new(ids[n], Config::default(), [n as u8; 32]));
        let mut pair = Self { ids, nodes, bank, queue: VecDeque::new(), now: Time(0), step: Duration::ZERO };
        for (n, held) in sets.into_iter().enumerate() {
            pair.handle(n, Event::BankOpened { bank, held });
            // What a node that has been up for a while has long worked out.
            pair.nodes[n].roots(&bank);
        }
        pair.step = Duration::ZERO;
        pair
    }

    fn handle(&mut self, n: usize, event: Event) -> Duration {
        let begin = Instant::now();
        self.nodes[n].handle(event, self.now);
        let mut took = begin.elapsed();
        self.step = self.step.max(took);
        while let Some(effect) = self.nodes[n].next_effect() {
            if let Effect::Send { message, .. } = effect {
                let begin = Instant::now();
                let frame = message.encode();
                let message = Message::decode(&frame).expect("a node sends only what a node reads");
                took += begin.elapsed();
                self.queue.push_back((1 - n, message));
            }
        }
        took
    }

    /// Lets them talk. Fetches stay unanswered: what is measured is finding out. What is due within a few milliseconds is what
    /// they still work at.
    fn talk(&mut self) -> Cost {
        let (mut cost, mut opener_spoke) = (Cost::default(), false);
        loop {
            self.say(&mut cost, &mut opener_spoke);
            let due = self.nodes.iter().filter_map(Node::next_deadline).min();
            let Some(due) = due.filter(|due| *due <= self.now + 5) else { break };
            self.now = due.max(self.now);
            for n in [0, 1] {
                cost.cpu += self.handle(n, Event::Tick);
            }
        }
        cost.step = self.step;
        cost
    }

    fn say(&mut self, cost: &mut Cost, opener_spoke: &mut bool) {
        while let Some((to, message)) = self.queue.pop_front() {
            let discovery = match &message {
                Message::Compare { .. } | Message::Sketch { .. } | Message::Probe { .. } | Message::Probed { .. } => {
                    true
                }
                Message::Offer { .. } => true,
                Message::Sketched { answer, .. } => *answer != SketchAnswer::Done,
                _ => false,
            };
            cost.walked |= matches!(message, Message::Probe { .. });
            if discovery {
                cost.bytes += message.encode().len();
                if to == 1 {
                    *opener_spoke = true;
                } else if std::mem::take(opener_spoke) {
                    cost.round_trips += 1;
                }
            }
            if !matches!(message, Message::Fetch { .. }) {
                cost.cpu += self.handle(to, Event::Received { peer: self.ids[1 - to], message });
            }
        }
    }

    fn greet(&mut self) -> Cost {
        let mut cpu = Duration::ZERO;
        for n in [0, 1] {
            cpu += self.handle(n, Event::Connected { peer: self.ids[1 - n], dialled: None });
        }
        let mut cost = self.talk();
        cost.cpu += cpu;
        cost
    }
}

fn ours(case: Case) -> Cost {
    let mut pair = Pair::new(case.sets());
    let cost = pair.greet();
    let missing = [0, 1].map(|n| pair.nodes[n].missing_len(&pair.bank) as u64);
    assert_eq!(missing, [case.theirs, case.ours], "found what differs");
    cost
}

/// Bytes both ways, round trips and CPU of a timer's comparison of equal banks.
fn nothing_differs(n: u64) -> Cost {
    let set = || (0..n).map(|k| id(0, k)).collect::<Vec<_>>();
    let mut pair = Pair::new([set(), set()]);
    pair.greet();
    let cpu = pair.handle(0, Event::Sync { peer: None });
    let mut cost = pair.talk();
    cost.cpu += cpu;
    cost
}

fn storage(ids: &[RecordId], stamps: impl Fn(usize) -> u64) -> NegentropyStorageVector {
    let mut storage = NegentropyStorageVector::with_capacity(ids.len());
    for (n, id) in ids.iter().enumerate() {
        storage.insert(stamps(n), Id::from_byte_array(id.0)).expect("room");
    }
    storage.seal().expect("sealed once");
    storage
}

fn negentropy(case: Case, recent: bool) -> Cost {
    let sets = case.sets();
    let common = case.common as usize;
    let [client, server] = sets.each_ref().map(|ids| {
        storage(ids, |n| {
            let any = u64::from_le_bytes(std::array::from_fn(|k| ids[n].0[24 + k])) % 1_000_000_000;
            if recent && n >= common { 2_000_000_000 + any } else { any }
        })
    });
    let mut client = Negentropy::owned(client, 0).expect("a client");
    let mut server = Negentropy::owned(server, 0).expect("a server");
    let (mut have, mut need) = (Vec::new(), Vec::new());
    let mut cost = Cost::default();
    let begin = Instant::now();
    let mut message = client.initiate().expect("a first message");
    loop {
        cost.bytes += message.len();
        let answer = server.reconcile(&message).expect("an answer");
        cost.bytes += answer.len();
        cost.round_trips += 1;
        match client.reconcile_with_ids(&answer, &mut have, &mut need).expect("a next message") {
            Some(next) => message = next,
            None => break,
        }
    }
    cost.cpu = begin.elapsed();
    let unique = |ids: &[Id]| ids.iter().map(|id| id.to_bytes()).collect::<BTreeSet<_>>().len() as u64;
    assert_eq!((unique(&have), unique(&need)), (case.ours, case.theirs), "found what differs");
    cost
}

/// What a record costs in a bank of `n` beyond its place in the tree of ids.
fn upkeep(n: u64) -> Duration {
    const MORE: u64 = 20_000;
    let before: Vec<RecordId> = (0..n).map(|k| id(0, k)).collect();
    let more: Vec<RecordId> = (0..MORE).map(|k| id(9, k)).collect();
    let mut best = [Duration::MAX; 2];
    for _ in 0..3 {
        let mut known = Known::holding(before.iter().copied());
        let mut tree: IdTree = before.iter().copied().collect();
        let begin = Instant::now();
        more.iter().for_each(|id| {
            known.hold(*id);
        });
        best[0] = best[0].min(begin.elapsed());
        let begin = Instant::now();
        more.iter().for_each(|id| {
            tree.insert(*id);
        });
        best[1] = best[1].min(begin.elapsed());
    }
    best[0].saturating_sub(best[1]) / MORE as u32
}

fn mean(costs: &[Cost]) -> (f64, f64, u32, Duration) {
    let n = costs.len();
    let bytes = costs.iter().map(|c| c.bytes).sum::<usize>() as f64 / n as f64;
    let round_trips = f64::from(costs.iter().map(|c| c.round_trips).sum::<u32>()) / n as f64;
    let most = costs.iter().map(|c| c.round_trips).max().unwrap_or_default();
    (bytes, round_trips, most, costs.iter().map(|c| c.cpu).sum::<Duration>() / n as u32)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What one pair of sets gave, ours over a few seeds and negentropy's once.
struct Row {
    n: u64,
    d: u64,
    split: &'static str,
    bytes: f64,
    trips: f64,
    most: u32,
    walked: bool,
    cpu: Duration,
    step: Duration,
    scattered: Cost,
    recent: Cost,
}

impl Row {
    fn measure(n: u64, d: u64, (split, ours_alone): (&'static str, u64), upkeep: Duration) -> Self {
        let case = |seed| Case { common: n - d / 2, ours: ours_alone, theirs: d - ours_alone, seed };
        let trials = match n {
            ..100_000 => 40,
            100_000..1_000_000 => 8,
            _ => 3,
        };
        let costs: Vec<Cost> = (1..=trials).map(|seed| ours(case(seed))).collect();
        let (bytes, trips, most, cpu) = mean(&costs);
        let cpu = cpu + upkeep * case(1).d() as u32;
        let walked = costs.iter().any(|c| c.walked);
        let step = costs.iter().map(|c| c.step).max().unwrap_or_default();
        let (scattered, recent) = (negentropy(case(1), false), negentropy(case(1), true));
        Self { n, d, split, bytes, trips, most, walked, cpu, step, scattered, recent }
    }

    fn per_item(&self, bytes: f64) -> f64 {
        bytes / self.d as f64
    }

    fn print(&self) {
        println!(
            "| {} | {} | {} | {:.1} | {:.2} ({}){} | {:.2} ({:.2}) | {:.1} | {} | {:.2} | {:.1} | {:.2} |",
            self.n,
            self.d,
            self.split,
            self.per_item(self.bytes),
            self.trips,
            self.most,
            if self.walked { " tree" } else { "" },
            ms(self.cpu),
            ms(self.step),
            self.per_item(self.scattered.bytes as f64),
            self.scattered.round_trips,
            ms(self.scattered.cpu),
            self.per_item(self.recent.bytes as f64),
            ms(self.recent.cpu),
        );
    }
}

/// The targets that this benchmark measures.
fn figures(rows: &[Row], n: u64, equal: Cost, upkeep: Duration) -> Report {
    let mut report = Report::new("reconcile");
    let mut add = |figure: &str, setting: String, value: f64, unit: &str, target, peer: Option<f64>| {
        let figure = Figure::new(figure, value, unit).on(setting).at_most(target);
        report.add(match peer {
            Some(theirs) => figure.beside("negentropy", theirs),
            None => figure,
        });
    };
    for row in rows.iter().filter(|row| row.n == n) {
        let setting = format!("n = {n}, d = {}, {}", row.d, if row.split == "even" { "two-sided" } else { row.split });
        let one_sided = row.split != "even";
        let theirs = row.scattered.bytes as f64;
        let bytes = match row.d {
            10 => Some(64.0),
            1_000 => Some(if one_sided { 26.0 } else { 24.0 }),
            100_000 => Some(26.0),
            _ => None,
        };
        if let Some(target) = bytes {
            let (value, theirs) = (row.per_item(row.bytes), row.per_item(theirs));
            add("discovery", setting.clone(), value, "bytes an item", target, Some(theirs));
        }
        if row.d == 1_000 {
            add("discovery against negentropy", setting.clone(), row.bytes / theirs, "of its bytes", 0.25, None);
            let theirs = ms(row.scattered.cpu);
            add("CPU of both sides", setting.clone(), ms(row.cpu), "ms", theirs, Some(theirs));
        }
        let trips = if row.d <= 2_000 { 2.0 } else { 4.0 };
        add(
            "round trips, at most",
            setting,
            f64::from(row.most),
            "",
            trips,
            Some(f64::from(row.scattered.round_trips)),
        );
    }
    let setting = |n: u64| format!("n = {n}");
    add("nothing differs", setting(n), equal.bytes as f64, "bytes", 128.0, None);
    add("nothing differs", setting(n), f64::from(equal.round_trips), "round trips", 1.0, None);
    add("upkeep of a record", setting(n), upkeep.as_nanos() as f64, "ns", 2_000.0, None);
    for (n, target) in [(n, 64.0), (1_000, 4.0)] {
        let bytes = Known::holding((0..n).map(|k| id(0, k))).sketch_bytes();
        add("cells and estimate of a bank", setting(n), bytes as f64 / 1024.0, "KiB", target, None);
    }
    report
}

fn main() {
    let asked = |word: &str| std::env::args().any(|a| a == word);
    let largest = if asked("quick") { 10_000 } else { 1_000_000 };
    let of_table = asked("table");
    println!("upkeep of a record");
    let mut upkeep_of = Vec::new();
    for n in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|n| *n <= largest) {
        let cost = upkeep(n);
        println!("  n = {n:>9}: {:>6} ns", cost.as_nanos());
        upkeep_of.push((n, cost));
    }
    let upkeep = |n| upkeep_of.iter().find(|(m, _)| *m == n).map_or(Duration::ZERO, |(_, cost)| *cost);
    let equal = nothing_differs(largest);
    println!(
        "nothing differs, n = {largest}, connected: {} bytes both ways, {} round trip, {:.3} ms",
        equal.bytes,
        equal.round_trips,
        ms(equal.cpu)
    );
    println!();
    println!(
        "| n | d | split | bytes/d | round trips mean (most) | cpu ms (longest step) | negentropy bytes/d | trips | cpu ms | recent bytes/d | cpu ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rows = Vec::new();
    for n in [10_000u64, 100_000, 1_000_000].into_iter().filter(|n| *n <= largest && (!of_table || *n == largest)) {
        for d in [1u64, 10, 100, 1_000, 2_000, 10_000, 100_000].into_iter().filter(|d| *d <= n / 10) {
            if of_table && [1, 100].contains(&d) {
                continue;
            }
            let splits: &[(&'static str, u64)] = if d == 1 {
                &[("opener lacks", 0)]
            } else {
                &[("even", d / 2), ("opener lacks", 0), ("answerer lacks", d)]
            };
            for split in splits {
                let row = Row::measure(n, d, *split, upkeep(n));
                row.print();
                rows.push(row);
            }
        }
    }
    figures(&rows, largest, equal, upkeep(largest)).finish().expect("the figures are written");
}
