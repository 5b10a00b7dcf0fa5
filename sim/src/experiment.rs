//! One experiment: a scenario, one arm, one seed.
//!
//! The world runs; this calls it at every task, fault and look. In the Folklore arm agents recall what their node's disk holds,
//! and records travel by the shipped protocol. In the others nothing travels: a memory is the node's own disk, one server's,
//! or everybody's. Tasks, faults and disks are the same in all.

mod audit;
pub(crate) mod faults;
mod memory;

use std::collections::BTreeMap;

use folklore_protocol::{BankId, Claim, Evidence, LessonId, RecordId, Root};

use crate::{
    agents::{self, Families, FamiliesError, Task},
    checks::Violation,
    disk::Disk,
    fact::Fact,
    library::{Number, Numbers},
    link::{Burst, Link},
    observe::{Class, Observed, Observer},
    scenario::{Arm, FaultKind, LinkSpec, Scenario},
    seeds::{self, Purpose},
    world::{Counters, World, WorldConfig, lesson},
};
use audit::Audit;
use memory::Memory;

pub use audit::{
    ACKNOWLEDGED_IS_THERE, CUT_CUTS, HELD_IS_DURABLE, NOTHING_FORGED, NOTHING_WITHDRAWN_SERVED, QUEUES_ARE_BOUNDED,
    REQUESTS_ARE_ANSWERED, ROOTS_ARE_EQUAL,
};

/// A withdrawal that finds its node down is tried again after this, milliseconds.
const WITHDRAW_AGAIN_MS: u64 = 60_000;
/// Worlds of so few nodes send every message through bytes in debug builds; see [`WorldConfig::through_bytes`].
const THROUGH_BYTES: usize = 32;
/// See [`hold`].
const FIRST_MINUTE_MS: u64 = 60_000;
/// In worlds of so few nodes it is looked whether requests are answered, for which each is noted.
const ACCOUNTED: usize = 32;
/// Draws for the peers that a node is told of, at least.
const MAX_DRAWS: usize = 64;

/// Why a run tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There are no tasks to draw.
    #[error(transparent)]
    Families(#[from] FamiliesError),
    /// The built-in embedder failed.
    #[error("recall failed: {0}")]
    Recall(String),
    /// A scenario without a node.
    #[error("the scenario has no nodes: give a [[site]] some")]
    NoNodes,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunEnd {
    /// A digest of everything that happened; equal digests, equal runs.
    pub digest: u64,
    /// Messages that state machines were given.
    pub messages: u64,
    /// Deadlines that had come when a state machine was woken; wake-ups with nothing due are not counted.
    pub timers: u64,
    /// Messages and dials that a partition kept from passing, lost or late.
    pub stopped: u64,
    /// Virtual time at the end, milliseconds.
    pub end_ms: u64,
    /// Whether all honest nodes that were up held the same at the end. Always true in the other arms.
    pub converged: bool,
    /// When they last began to, milliseconds.
    pub converged_at_ms: Option<u64>,
    /// The held root of each node of the scenario; none where nothing is shared.
    pub roots: Vec<Option<Root>>,
    /// Checks that failed.
    pub violations: Vec<Violation>,
    /// Records of the whole run, and signatures that were checked for them.
    pub records: usize,
    /// Signatures that were checked.
    pub verified: u64,
}

/// What the world calls back for.
#[derive(Debug, Clone, Copy)]
enum Call {
    Task(usize),
    Begin(usize),
    End(usize),
    Flap {
        fault: usize,
        down: bool,
    },
    /// A backup is made of a node's disk, for a fault that will put it back.
    Copy {
        fault: usize,
        node: usize,
    },
    Withdraw {
        node: usize,
        lesson: LessonId,
    },
    Look,
}

/// Runs a scenario in one arm with one seed; `observer` sees what happens.
///
/// # Errors
/// When the tasks cannot be read, or recall fails.
pub fn run(scenario: &Scenario, arm: Arm, seed: u64, observer: &mut dyn Observer) -> Result<RunEnd, RunError> {
    let families = match &scenario.workload.tasks {
        Some(path) => Families::load(path)?,
        None => Families::builtin()?,
    };
    let mut experiment = Experiment::new(scenario, arm, seed, families, observer)?;
    experiment.set_up()?;
    experiment.run()
}

/// The world of a scenario's Folklore arm after its first minute and before its agents work: for looking at what it takes.
///
/// # Errors
/// As [`run`].
pub fn hold(scenario: &Scenario, seed: u64) -> Result<World, RunError> {
    let mut observer = ();
    let mut experiment = Experiment::new(scenario, Arm::Folklore, seed, Families::builtin()?, &mut observer)?;
    experiment.set_up()?;
    experiment.world.run_to_call(FIRST_MINUTE_MS);
    experiment.world.take_facts(&mut Vec::new());
    Ok(experiment.world)
}

struct Experiment<'a> {
    scenario: &'a Scenario,
    arm: Arm,
    seed: u64,
    world: World,
    bank: BankId,
    families: Families,
    tasks: Vec<Task>,
    memory: Memory,
    calls: Vec<Call>,
    observer: &'a mut dyn Observer,
    facts: Vec<Fact>,
    /// What everybody knows in the arms where memory is one.
    shared: Numbers,
    /// For each node of the world: reasons for it to be down, its clock's error, over how many links it got each record, what
    /// was acknowledged to it, and which withdrawals it had.
    down: Vec<u32>,
    clocks: Vec<(i64, i64)>,
    hops: Vec<Vec<u8>>,
    acknowledged: Vec<Vec<RecordId>>,
    withdrawals: Vec<Numbers>,
    /// Nodes that are hostile at some time, other names of them included.
    hostile: Vec<bool>,
    site_of: Vec<usize>,
    splits: BTreeMap<usize, u64>,
    copies: BTreeMap<(usize, usize), Disk>,
    /// Lessons on their way to a disk: where, about which family, and after how long they are withdrawn.
    teaching: BTreeMap<RecordId, (usize, u32, Option<u64>)>,
    converged: bool,
    converged_at_ms: Option<u64>,
    audit: Audit,
}

/// The world's nodes beyond the scenario's: for each fault that gives nodes other names, whose they are.
fn other_names(scenario: &Scenario) -> Vec<(usize, usize)> {
    let names = |(fault, what): (usize, &crate::scenario::Fault)| match &what.kind {
        FaultKind::Sybil { nodes, identities, .. } => {
            nodes.iter().flat_map(|n| std::iter::repeat_n((fault, *n), *identities)).collect()
        }
        _ => Vec::new(),
    };
    scenario.faults.iter().enumerate().flat_map(names).collect()
}

/// Whom node `n`, which is `face` or another name of it, is told of at the start.
pub(crate) fn acquaintances(scenario: &Scenario, seed: u64, n: usize, face: usize) -> Vec<usize> {
    let site_of = scenario.site_of_nodes();
    let own = site_of.get(face).copied().unwrap_or_default();
    let mut known = Vec::new();
    let Some(site) = scenario.sites.get(own) else { return known };
    let of_site = scenario.nodes_of(own);
    let mut rng = seeds::stream(seed, n as u64, Purpose::Topology);
    let others = of_site.len().saturating_sub(usize::from(n == face));
    // A ring, so that a site is never in two; the others anywhere.
    if others > 0 && n == face && site.known > 0 {
        known.push(of_site.start + (n - of_site.start + 1) % of_site.len());
    }
    for _ in 0..MAX_DRAWS.max(4 * site.known) {
        if known.len() >= site.known.min(others) {
            break;
        }
        let other = of_site.start + seeds::below(&mut rng, of_site.len() as u64) as usize;
        if other != n && !known.contains(&other) {
            known.push(other);
        }
    }
    if face - of_site.start < site.gateways {
        let mut left: Vec<usize> = (0..scenario.sites.len())
            .filter(|other| *other != own)
            .flat_map(|other| scenario.nodes_of(other).take(scenario.sites[other].gateways))
            .collect();
        for _ in 0..site.uplinks.min(left.len()) {
            known.push(left.swap_remove(seeds::below(&mut rng, left.len() as u64) as usize));
        }
    }
    known
}

/// The links of a scenario, with these nodes at these sites.
pub(crate) fn links_of(scenario: &Scenario) -> Vec<Link> {
    let sites = scenario.sites.len();
    (0..sites * sites).map(|at| link_of(scenario.links.of(at / sites, at % sites))).collect()
}

fn link_of(spec: &LinkSpec) -> Link {
    let leave_ppm = |length: u32| 1_000_000 / length.max(1);
    Link {
        latency_ms: spec.latency_ms,
        jitter_ms: spec.jitter_ms,
        loss_ppm: spec.loss_ppm,
        burst: spec.burst.map(|burst| Burst {
            enter_ppm: burst.start_ppm,
            leave_ppm: leave_ppm(burst.length),
            loss_ppm: burst.loss_ppm,
        }),
        rate_bytes: spec.rate,
        queue_bytes: spec.queue_bytes,
    }
}

fn class_of(kind: &str) -> Class {
    match kind {
        "push" | "records" | "answer" => Class::Data,
        "compare" | "sketch" | "sketched" | "probe" | "probed" | "offer" => Class::Reconcile,
        _ => Class::Control,
    }
}

impl<'a> Experiment<'a> {
    fn new(
        scenario: &'a Scenario,
        arm: Arm,
        seed: u64,
        families: Families,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        let names = other_names(scenario);
        let nodes = scenario.nodes() + names.len();
        if scenario.nodes() == 0 {
            return Err(RunError::NoNodes);
        }
        let config = WorldConfig {
            seed,
            nodes,
            plant: scenario.run.plant,
            through_bytes: cfg!(debug_assertions) && nodes <= THROUGH_BYTES,
            keeps_account: nodes <= ACCOUNTED,
            tells_facts: true,
            ..WorldConfig::default()
        };
        let world = World::new(config);
        let mut site_of = scenario.site_of_nodes();
        site_of.extend(names.iter().map(|(_, face)| site_of[*face]).collect::<Vec<_>>());
        let mut hostile = scenario.hostile();
        hostile.resize(nodes, true);
        Ok(Self {
            tasks: agents::schedule(scenario, seed, &families),
            bank: world.bank_of(0),
            memory: Memory::new(world.author(0)),
            scenario,
            arm,
            seed,
            world,
            families,
            calls: Vec::new(),
            observer,
            facts: Vec::new(),
            shared: Numbers::default(),
            down: vec![0; nodes],
            clocks: vec![(0, 0); nodes],
            hops: vec![Vec::new(); nodes],
            acknowledged: vec![Vec::new(); nodes],
            withdrawals: vec![Numbers::default(); nodes],
            hostile,
            site_of,
            splits: BTreeMap::new(),
            copies: BTreeMap::new(),
            teaching: BTreeMap::new(),
            converged: false,
            converged_at_ms: None,
            audit: Audit::default(),
        })
    }

    /// Whether records travel between nodes.
    fn shares(&self) -> bool {
        self.arm == Arm::Folklore
    }

    /// The scenario's node that a node of the world is, or is another name of.
    fn face(&self, n: usize) -> usize {
        let own = self.scenario.nodes();
        if n < own { n } else { other_names(self.scenario).get(n - own).map_or(0, |(_, face)| *face) }
    }

    /// The other names that a fault brings.
    fn names_of(&self, fault: usize) -> impl Iterator<Item = usize> + use<> {
        let names = other_names(self.scenario);
        let own = self.scenario.nodes();
        names.into_iter().enumerate().filter(move |(_, (of, _))| *of == fault).map(move |(at, _)| own + at)
    }

    fn end_ms(&self) -> u64 {
        self.scenario.run.duration_ms + if self.shares() { self.scenario.run.settle_ms } else { 0 }
    }

    fn call(&mut self, at_ms: u64, call: Call) {
        self.calls.push(call);
        self.world.call_at(at_ms, self.calls.len() as u64 - 1);
    }

    fn observe(&mut self, what: Observed) {
        let at_ms = self.world.now_ms();
        self.observer.see(at_ms, what);
    }

    fn set_up(&mut self) -> Result<(), RunError> {
        let scenario = self.scenario;
        self.world.place_sites(self.site_of.iter().map(|site| *site as u16).collect(), links_of(scenario));
        for (at, fault) in scenario.faults.iter().enumerate() {
            if let FaultKind::Join { nodes } = &fault.kind {
                nodes.iter().for_each(|n| self.down[*n] += 1);
            }
            self.call(fault.at_ms, Call::Begin(at));
            if let Some(end) = fault.end_ms() {
                self.call(end, Call::End(at));
            }
            if let FaultKind::RestoreOldCopy { nodes, age_ms } = &fault.kind {
                nodes
                    .iter()
                    .for_each(|n| self.call(fault.at_ms.saturating_sub(*age_ms), Call::Copy { fault: at, node: *n }));
            }
        }
        self.down.iter_mut().skip(scenario.nodes()).for_each(|down| *down += 1);
        (0..self.tasks.len()).for_each(|task| self.call(self.tasks[task].at_ms, Call::Task(task)));
        if self.shares() {
            self.call(scenario.measure.look_every_ms, Call::Look);
        }
        self.preload()?;
        let up: Vec<usize> = (0..self.world.len()).filter(|n| self.down[*n] == 0).collect();
        for n in 0..self.world.len() {
            if self.down[n] > 0 {
                self.world.keep_out(n);
            } else {
                self.observe(Observed::Up { node: n });
            }
        }
        let all = 0..self.world.len();
        self.world.open_bank(0, all);
        if self.shares() {
            up.into_iter().for_each(|n| self.introduce(n));
        }
        self.memory.take_in(self.world.library())
    }

    /// Lessons about nothing that any task asks for, held by all nodes there are.
    fn preload(&mut self) -> Result<(), RunError> {
        let claims = (0..self.scenario.workload.preload as u64).map(|number| {
            let lesson = lesson(number);
            (Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("sim") }, Some(lesson.bytes().clone()))
        });
        let items = self.world.sign(0, self.bank, claims);
        for n in (0..self.world.len()).filter(|n| self.down[*n] == 0) {
            self.world.put(n, self.bank, &items);
        }
        self.shared = self.world.disk(0).numbers(&self.bank).cloned().unwrap_or_default();
        self.memory.take_in(self.world.library())?;
        for (record, _) in &items {
            let Some(number) = self.world.library().number_of(&record.id()) else { continue };
            let record = self.number(0, 0, number);
            for node in (1..self.scenario.nodes()).filter(|n| self.down[*n] == 0).collect::<Vec<_>>() {
                self.observe(Observed::Stored { node, record, from: None, hops: 0 });
            }
        }
        Ok(())
    }

    /// Tells a node whom its site's rules let it know at the start.
    fn introduce(&mut self, n: usize) {
        let known = acquaintances(self.scenario, self.seed, n, self.face(n));
        known.into_iter().for_each(|other| self.world.introduce(n, other));
    }

    fn run(mut self) -> Result<RunEnd, RunError> {
        let end = self.end_ms();
        while let Some(number) = self.world.run_to_call(end) {
            self.see_facts();
            self.memory.take_in(self.world.library())?;
            let Some(call) = self.calls.get(number as usize).copied() else { continue };
            match call {
                Call::Task(task) => self.attempt(task)?,
                Call::Begin(fault) => self.begin(fault),
                Call::End(fault) => self.end(fault),
                Call::Flap { fault, down } => {
                    if self.world.now_ms() < self.scenario.faults[fault].end_ms().unwrap_or(end) {
                        self.flap(fault, down);
                    }
                }
                Call::Copy { fault, node } => {
                    self.copies.insert((fault, node), self.world.copy_disk(node));
                }
                Call::Withdraw { node, lesson } => self.withdraw(node, lesson),
                Call::Look => {
                    self.look();
                    let now = self.world.now_ms();
                    let over = now >= self.scenario.run.duration_ms && now >= self.scenario.quiet_from_ms();
                    if over && self.converged && self.teaching.is_empty() {
                        break;
                    }
                    self.call(now + self.scenario.measure.look_every_ms, Call::Look);
                }
            }
            self.see_facts();
            self.memory.take_in(self.world.library())?;
        }
        self.see_facts();
        self.memory.take_in(self.world.library())?;
        if self.shares() {
            self.look();
        }
        self.finish()
    }

    /// Which node may do something now; `None`: it is down. One that stands still is asked again when it goes on.
    fn at_work(&mut self, node: usize, call: Call) -> bool {
        if let Some(until) = self.world.paused_until(node) {
            self.call(until, call);
            return false;
        }
        self.world.is_up(node)
    }

    fn attempt(&mut self, number: usize) -> Result<(), RunError> {
        let task = self.tasks[number];
        let node = task.node;
        if !self.at_work(node, Call::Task(number)) {
            return Ok(());
        }
        let Some(text) = self.families.get(task.family).and_then(|family| family.tasks.get(task.wording)).cloned()
        else {
            return Ok(());
        };
        let (family, me, k) = (task.family as u32, self.world.author(node), self.scenario.workload.k);
        let reached = self.arm != Arm::Central || self.reaches_server(node);
        let shown = if reached {
            let none = Numbers::default();
            let (library, bank) = (self.world.library(), self.bank);
            let disk = self.world.disk(node);
            let (held, own) = match self.arm {
                Arm::Isolated | Arm::Folklore | Arm::Real => (disk.numbers(&bank).unwrap_or(&none), true),
                Arm::Central | Arm::Oracle => (&self.shared, false),
            };
            let whole = |number: Number| !own || disk.is_whole(&bank, number);
            self.memory.recall(library, held, &whole, me, &text, k)?
        } else {
            Vec::new()
        };
        let own_family = |about: Option<(u32, bool)>| about == Some((family, false));
        let rank = shown.iter().position(|hit| own_family(hit.about));
        let misled = shown.iter().position(|hit| hit.about.is_some_and(|(_, poison)| poison));
        // What is shown first is followed.
        let failed = match (rank, misled) {
            (Some(good), Some(bad)) => bad < good,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => task.trapped,
        };
        let record = rank.and_then(|at| shown.get(at)).and_then(|hit| self.memory.entry(hit.record)?.observed);
        if self.shares() {
            self.check_served(node, &shown);
        }
        self.world.mark(&[12, number as u64, u64::from(failed), rank.map_or(0, |rank| rank as u64 + 1)]);
        self.observe(Observed::Attempted {
            node,
            task: number as u64,
            family,
            rank: rank.map(|rank| rank as u32 + 1),
            record,
            shown: shown.len() as u32,
            failed,
            poisoned: misled.is_some(),
            reached,
        });
        if failed {
            self.teach(node, task, family);
        }
        Ok(())
    }

    fn teach(&mut self, node: usize, task: Task, family: u32) {
        let Some(lesson) = self.families.lesson(task.family, task.wording) else { return };
        let id = lesson.id();
        self.memory.declare(&id, family, false);
        let me = self.world.author(node);
        let held = self.world.disk(node).numbers(&self.bank);
        if held.is_some_and(|held| self.memory.has_taught(self.world.library(), held, me, &id)) {
            return; // It says nothing that it has not said.
        }
        let mut evidence = Evidence::told("extractive");
        evidence.outcome = folklore_protocol::Outcome::Failure;
        evidence.attempts = 1;
        let claim = Claim::Taught { lesson_id: id, evidence };
        if let Some(record) = self.world.publish_later(node, self.bank, claim, Some(lesson.bytes().clone())) {
            self.teaching.insert(record, (node, family, task.withdrawn_after_ms));
        }
    }

    fn withdraw(&mut self, node: usize, lesson: LessonId) {
        if !self.at_work(node, Call::Withdraw { node, lesson }) {
            let again = self.world.now_ms() + WITHDRAW_AGAIN_MS;
            if again < self.scenario.run.duration_ms && self.world.paused_until(node).is_none() {
                self.call(again, Call::Withdraw { node, lesson });
            }
            return;
        }
        let claim = Claim::Withdrawn { lesson_id: lesson, reason: "it misled".into() };
        self.world.publish_later(node, self.bank, claim, None);
    }

    /// Whether an agent at a node reaches the server of the central arm.
    fn reaches_server(&self, node: usize) -> bool {
        // A place of its own beyond all nodes: faults put it where most of its site is.
        !self.world.is_cut(node, self.world.len())
    }

    /// Takes in what happened in the world, and passes it on.
    fn see_facts(&mut self) {
        let mut facts = std::mem::take(&mut self.facts);
        self.world.take_facts(&mut facts);
        if facts.iter().any(|fact| matches!(fact, Fact::Stored { .. } | Fact::Acknowledged { .. })) {
            // What recall needs of a new record fails only with the embedder, and then at the next recall too.
            let _ = self.memory.take_in(self.world.library());
        }
        for fact in facts.drain(..) {
            self.see_fact(fact);
        }
        self.facts = facts;
    }

    fn see_fact(&mut self, fact: Fact) {
        match fact {
            Fact::Sent { at_ms, from, to, kind, bytes, .. } => {
                let (from, to) = (self.face(from), self.face(to));
                let class = class_of(kind);
                self.observer.see(at_ms, Observed::Sent { from, to, kind, class, bytes: bytes as u32 });
            }
            Fact::Lost { at_ms, from, to, cause } => {
                let (from, to) = (self.face(from), self.face(to));
                self.observer.see(at_ms, Observed::Lost { from, to, cause });
            }
            Fact::Duplicate { at_ms, node, bytes } => {
                let node = self.face(node);
                self.observer.see(at_ms, Observed::Duplicate { node, bytes: bytes as u32 });
            }
            Fact::Invalid { at_ms, node, .. } => {
                let node = self.face(node);
                self.observer.see(at_ms, Observed::Refused { node });
            }
            Fact::Up { at_ms, node } if node < self.scenario.nodes() => self.observer.see(at_ms, Observed::Up { node }),
            Fact::Down { at_ms, node } if node < self.scenario.nodes() => {
                self.observer.see(at_ms, Observed::Down { node });
            }
            Fact::Stored { at_ms, node, from, id, hops } => self.stored(at_ms, node, from, &id, hops),
            Fact::Acknowledged { at_ms, node, id } => self.acknowledged(at_ms, node, id),
            Fact::Refused { at_ms, node, id } => {
                if let Some((_, family, _)) = self.teaching.remove(&id) {
                    let node = self.face(node);
                    self.observer.see(at_ms, Observed::TeachFailed { node, family });
                }
            }
            Fact::Arrived { .. } | Fact::Held { .. } | Fact::Connected { .. } | Fact::Disconnected { .. } => {}
            Fact::Up { .. } | Fact::Down { .. } => {}
        }
    }

    /// Gives a taught record its number, and tells of it when it is new.
    fn number(&mut self, at_ms: u64, author: usize, number: Number) -> u64 {
        let (record, is_new) = self.memory.number(number);
        if is_new {
            let library = self.world.library();
            let of = library.record(number);
            let about = of.claim().lesson_id().and_then(|id| self.memory.about(&id));
            let bytes = of.bytes().len() + library.body(number).map_or(0, |body| body.len());
            let (node, poison) = (self.face(author), about.is_some_and(|(_, poison)| poison));
            let family = about.map(|(family, _)| family);
            self.observer.see(at_ms, Observed::Taught { node, record, family, poison, bytes: bytes as u32 });
        }
        record
    }

    fn stored(&mut self, at_ms: u64, node: usize, from: usize, id: &RecordId, pushed: Option<u32>) {
        let Some(number) = self.world.library().number_of(id) else { return };
        let Some(entry) = self.memory.entry(number).copied() else { return };
        if entry.withdraws {
            self.withdrawals[node].insert(number);
        }
        if !entry.taught {
            return;
        }
        let author = self.world.number_of(&self.world.library().record(number).author()).unwrap_or(from);
        let before = self.hops[from].get(number as usize).copied().unwrap_or(0);
        let hops = pushed.map_or(u32::from(before) + 1, |passed| passed + 1);
        let own = &mut self.hops[node];
        if own.len() <= number as usize {
            own.resize(number as usize + 1, 0);
        }
        own[number as usize] = hops.min(255) as u8;
        let record = self.number(at_ms, author, number);
        let (node, from) = (self.face(node), Some(self.face(from)));
        self.observer.see(at_ms, Observed::Stored { node, record, from, hops });
    }

    fn acknowledged(&mut self, at_ms: u64, node: usize, id: RecordId) {
        let taught = self.teaching.remove(&id);
        let Some(number) = self.world.library().number_of(&id) else { return };
        let Some(entry) = self.memory.entry(number).copied() else { return };
        self.acknowledged[node].push(id);
        match self.arm {
            Arm::Central if !self.reaches_server(node) => {
                if let Some((_, family, _)) = taught {
                    let node = self.face(node);
                    self.observer.see(at_ms, Observed::TeachFailed { node, family });
                }
                return;
            }
            Arm::Central | Arm::Oracle => {
                self.shared.insert(number);
            }
            Arm::Isolated | Arm::Folklore | Arm::Real => {}
        }
        if entry.withdraws {
            self.withdrawals[node].insert(number);
            let before = self.memory.taught_before(self.world.library(), number);
            if let Some(record) = before.and_then(|before| self.memory.entry(before)?.observed) {
                let node = self.face(node);
                self.observer.see(at_ms, Observed::Withdrawn { node, record });
            }
        } else if entry.taught {
            self.number(at_ms, node, number);
            if let (Some((_, _, Some(after_ms))), Some(lesson)) =
                (taught, entry.slot.and_then(|slot| self.memory.lesson_of(slot)))
            {
                let at = (at_ms + after_ms).max(self.world.now_ms());
                self.call(at, Call::Withdraw { node, lesson });
            }
        }
    }

    /// What went over the links.
    fn counters(&self) -> &Counters {
        self.world.counters()
    }
}
