//! One run on real processes: what is due when, and what all its threads share.

mod agent;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use folklore_protocol::Lesson;
use serde_json::{Value, json};

use super::{
    LOOK_EVERY, RealError,
    door::Door,
    emulator::{Emulator, Place},
    process::Process,
    tape::{self, Key, Seen},
};
use crate::{
    agents::{self, Families, Task},
    experiment::{self, faults::split_of},
    link::{Link, Links},
    observe::{Observed, Observer},
    scenario::{FaultKind, Scenario},
    world::up_since_ms,
};

/// How long a daemon may take to answer what it is asked once. One that stands still answers when it goes on.
const PATIENCE: Duration = Duration::from_secs(super::MAX_MS / 1000);
/// How long it may take to say what it holds; it is asked again.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// How long nodes may take to find each other before the run begins.
const MEET_WITHIN_MS: u64 = 60_000;
/// How often the run itself looks at what is due.
const STEP: Duration = Duration::from_millis(5);
/// How often a node is looked into after its root has changed: what it lists comes a moment after what it holds. The run ends
/// only when nothing has changed for as long.
const LOOKS_AFTER_CHANGE: u32 = 10;

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) bytes: u64,
    pub(super) taught: u64,
    pub(super) delivered: u64,
    pub(super) violations: Vec<String>,
}

/// What all threads of a run share.
struct Shared {
    emulator: Arc<Emulator>,
    nodes: Vec<Process>,
    /// For each node, what it is started with.
    args: Vec<Vec<String>>,
    by_id: BTreeMap<String, usize>,
    families: Mutex<BTreeMap<String, u32>>,
    bank: Mutex<String>,
    seen: Mutex<Vec<(u64, Seen)>>,
    board: Mutex<Board>,
    /// When the run began, on the emulator's clock, milliseconds.
    began_ms: u64,
    under_way: AtomicUsize,
    over: AtomicBool,
}

/// What each node was last seen to hold.
#[derive(Default)]
struct Board {
    up: Vec<bool>,
    roots: Vec<Option<String>>,
    held: Vec<BTreeSet<Key>>,
    /// Which nodes taught each lesson.
    taught: BTreeMap<String, BTreeSet<usize>>,
    equal: bool,
    /// When that last changed.
    changed_ms: u64,
    failed: Option<(usize, String)>,
}

/// What a node's own thread does.
enum Work {
    Attempt { number: u64, task: Task, text: String, lesson: Option<Box<Lesson>> },
    Start { fault: usize },
}

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Begin(usize),
    Flap(usize, bool),
    End(usize),
    Task(usize),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.emulator.now_ms().saturating_sub(self.began_ms)
    }

    fn see(&self, what: Seen) {
        let mut seen = lock(&self.seen);
        seen.push((self.now_ms(), what));
    }

    fn start(&self, node: usize) -> Result<Door, RealError> {
        let failed = |why: String| RealError::Daemon { node, why };
        let process = self.nodes.get(node).ok_or_else(|| failed("there is no such node".into()))?;
        let args = self.args.get(node).map_or(&[][..], Vec::as_slice);
        let mut place = Place::default();
        let listens: SocketAddr = process
            .up(args, |pid| {
                place.pid = Some(pid);
                self.emulator.leads_to(node, place);
            })
            .map_err(failed)?;
        place.listens = Some(listens);
        self.emulator.leads_to(node, place);
        process.door().ok_or_else(|| failed("it went away as soon as it was up".into()))
    }

    fn stop(&self, node: usize) {
        if let Some(process) = self.nodes.get(node) {
            process.kill();
        }
        self.emulator.leads_to(node, Place::default());
    }

    fn set_up(&self, node: usize, up: bool) {
        let mut board = lock(&self.board);
        if let Some(entry) = board.up.get_mut(node).filter(|entry| **entry != up) {
            *entry = up;
            self.see(Seen::Plain(if up { Observed::Up { node } } else { Observed::Down { node } }));
        }
        if let Some(root) = board.roots.get_mut(node) {
            *root = None;
        }
    }

    fn fail(&self, node: usize, why: String) {
        if !self.over.load(Ordering::Relaxed) {
            lock(&self.board).failed.get_or_insert((node, why));
        }
    }
}

/// Ends everything that was started, whatever happens.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        self.0.nodes.iter().for_each(Process::end);
        self.0.emulator.close();
    }
}

pub(super) fn run(
    program: &Path,
    scenario: &Scenario,
    seed: u64,
    stop: &AtomicBool,
    on_second: &mut dyn FnMut(u64),
    observer: &mut dyn Observer,
) -> Result<Ending, RealError> {
    let mut families = match &scenario.workload.tasks {
        Some(path) => Families::load(path)?,
        None => Families::builtin()?,
    };
    let tasks = agents::schedule(scenario, seed, &families);
    let homes = tempfile::Builder::new().prefix("folklore-sim-").tempdir()?;
    let nodes = scenario.nodes();
    let mut links = Links::new(Link::default());
    let sites = scenario.site_of_nodes().into_iter().map(|site| u16::try_from(site).unwrap_or(u16::MAX)).collect();
    links.place(sites, experiment::links_of(scenario));
    let emulator = Emulator::open(links, nodes, seed)?;
    let processes: Vec<Process> =
        (0..nodes).map(|node| Process::init(program, homes.path(), node)).collect::<Result<_, _>>()?;
    let args = (0..nodes).map(|node| {
        let known = experiment::acquaintances(scenario, seed, node, node).into_iter().filter_map(|other| {
            Some(["--peer".into(), format!("{}/p2p/{}", emulator.multiaddr(other), processes.get(other)?.id)])
        });
        ["--announce".into(), emulator.multiaddr(node)].into_iter().chain(known.flatten()).collect()
    });
    let mut shared = Shared {
        args: args.collect(),
        by_id: processes.iter().enumerate().map(|(node, process)| (process.id.clone(), node)).collect(),
        nodes: processes,
        emulator,
        families: Mutex::default(),
        bank: Mutex::default(),
        seen: Mutex::default(),
        board: Mutex::new(Board {
            up: vec![false; nodes],
            roots: vec![None; nodes],
            held: vec![BTreeSet::new(); nodes],
            ..Board::default()
        }),
        began_ms: 0,
        under_way: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let late = late_nodes(scenario);
    let ticket = match meet(&shared, &late, stop) {
        Ok(ticket) => ticket,
        Err(error) => {
            drop(Ends(Arc::new(shared)));
            return Err(error);
        }
    };
    // As long as the nodes of the simulated run with this seed have been up when it begins.
    let began_ms = shared.emulator.now_ms() + up_since_ms(seed);
    while shared.emulator.now_ms() < began_ms && !stop.load(Ordering::Relaxed) {
        thread::sleep(STEP);
    }
    shared.began_ms = shared.emulator.now_ms();
    let shared = Arc::new(shared);
    let ends = Ends(shared.clone());
    (0..nodes).filter(|node| !late.contains(node)).for_each(|node| shared.set_up(node, true));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut workers = Vec::new();
    for node in 0..nodes {
        let (sender, receiver) = mpsc::channel();
        workers.push(sender);
        let (worker, ticket, k) = (shared.clone(), ticket.clone(), scenario.workload.k);
        threads.push(thread::spawn(move || agent::work(&worker, node, &receiver, &ticket, k)));
        let watcher = shared.clone();
        threads.push(thread::spawn(move || watch::watch(&watcher, node)));
    }
    let mut run =
        Run { scenario, shared: &shared, workers, down: vec![0; nodes], splits: BTreeMap::new(), due: BTreeSet::new() };
    late.iter().for_each(|node| run.down[*node] = 1);
    let ran = run.go(&tasks, &mut families, stop, on_second);
    drop(run);
    let end_ms = shared.now_ms();
    let converged = lock(&shared.board).equal;
    drop(ends);
    for thread in threads {
        let _ = thread.join();
    }
    ran?;
    let (bytes, stopped) = (shared.emulator.bytes(), shared.emulator.stopped());
    let cuts = scenario.faults.iter().any(|fault| fault.kind.is_cut() && fault.at_ms < end_ms);
    if cuts && stopped == 0 {
        return Err(RealError::Void(
            "no cut kept anything from passing; choose a time at which something is under way".into(),
        ));
    }
    let seen: Vec<(u64, Seen)> =
        std::mem::take(&mut *lock(&shared.seen)).into_iter().filter(|(at, _)| *at <= end_ms).collect();
    let mut violations = Vec::new();
    let board = lock(&shared.board);
    if scenario.expect.convergence && !converged {
        violations.push(format!("{}: nodes do not hold the same at the end", experiment::ROOTS_ARE_EQUAL));
    }
    let everywhere: BTreeSet<&Key> = board.held.iter().flatten().collect();
    for (_, what) in &seen {
        if let Seen::Taught { key, .. } = what
            && !everywhere.contains(key)
        {
            violations.push(format!("{}: node {}: {} is nowhere", experiment::ACKNOWLEDGED_IS_THERE, key.1, key.0));
        }
    }
    let counts = tape::play(seen, observer);
    Ok(Ending { bytes, taught: counts.taught, delivered: counts.delivered, violations })
}

/// Nodes that are not there from the start.
fn late_nodes(scenario: &Scenario) -> BTreeSet<usize> {
    let joins = scenario.faults.iter().filter_map(|fault| match &fault.kind {
        FaultKind::Join { nodes } => Some(nodes),
        _ => None,
    });
    joins.flatten().copied().collect()
}

/// Starts all nodes that are there from the start, makes them members of one bank and waits until they have met. Gives the ticket.
fn meet(shared: &Shared, late: &BTreeSet<usize>, stop: &AtomicBool) -> Result<String, RealError> {
    let early: Vec<usize> = (0..shared.nodes.len()).filter(|node| !late.contains(node)).collect();
    let Some(owner) = early.first().copied() else {
        return Err(RealError::Refused("some node must be there from the start".into()));
    };
    let mut ticket = String::new();
    for node in &early {
        if stop.load(Ordering::Relaxed) {
            return Err(RealError::Stopped);
        }
        let failed = |why: String| RealError::Daemon { node: *node, why };
        let door = shared.start(*node)?;
        if *node == owner {
            let invited = door.post("bank/invite", &json!({}), PATIENCE).map_err(|error| failed(error.to_string()))?;
            ticket = text(&invited, "/ticket").ok_or_else(|| failed("it gives no ticket".into()))?;
            let bank = text(&invited, "/bank").or_else(|| default_bank(&door));
            *lock(&shared.bank) = bank.ok_or_else(|| failed("it has no bank of its own".into()))?;
        } else {
            door.post("bank/join", &json!({"ticket": ticket}), PATIENCE).map_err(|error| failed(error.to_string()))?;
        }
    }
    let limit = shared.emulator.now_ms() + MEET_WITHIN_MS;
    for node in early.iter().filter(|_| early.len() > 1) {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(RealError::Stopped);
            }
            let door = shared.nodes.get(*node).and_then(Process::door);
            let status = door.and_then(|door| door.get("status", LOOK_PATIENCE).ok()).unwrap_or_default();
            let peers = status.get("peers").and_then(Value::as_array).into_iter().flatten();
            if peers.filter(|peer| peer.get("connected") == Some(&Value::Bool(true))).count() > 0 {
                break;
            }
            if shared.emulator.now_ms() > limit {
                let why = "it meets nobody; are loopback connections allowed here?".into();
                return Err(RealError::Daemon { node: *node, why });
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    Ok(ticket)
}

fn text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at).and_then(Value::as_str).map(str::to_owned)
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn default_bank(door: &Door) -> Option<String> {
    let status = door.get("status", LOOK_PATIENCE).ok()?;
    let banks = status.get("banks")?.as_array()?;
    text(banks.iter().find(|bank| bank.get("default") == Some(&Value::Bool(true)))?, "/id")
}

/// The course of a run: what is due when.
struct Run<'a> {
    scenario: &'a Scenario,
    shared: &'a Arc<Shared>,
    workers: Vec<mpsc::Sender<Work>>,
    /// For each node, reasons for it to be down.
    down: Vec<u32>,
    splits: BTreeMap<usize, u64>,
    due: BTreeSet<(u64, Call)>,
}

impl Run<'_> {
    fn go(
        &mut self,
        tasks: &[Task],
        families: &mut Families,
        stop: &AtomicBool,
        on_second: &mut dyn FnMut(u64),
    ) -> Result<(), RealError> {
        let (work_ms, whole_ms) =
            (self.scenario.run.duration_ms, self.scenario.run.duration_ms + self.scenario.run.settle_ms);
        for (at, fault) in self.scenario.faults.iter().enumerate() {
            self.due.insert((fault.at_ms, Call::Begin(at)));
            if let Some(end_ms) = fault.end_ms() {
                self.due.insert((end_ms, Call::End(at)));
            }
        }
        self.due.extend(tasks.iter().enumerate().map(|(number, task)| (task.at_ms, Call::Task(number))));
        {
            let mut known = lock(&self.shared.families);
            for family in 0..families.len() {
                for wording in 0..families.get(family).map_or(0, |family| family.tasks.len()) {
                    if let Some(lesson) = families.lesson(family, wording) {
                        known.insert(lesson.id().to_string(), family as u32);
                    }
                }
            }
        }
        let mut told_s = u64::MAX;
        loop {
            let now = self.shared.now_ms();
            if stop.load(Ordering::Relaxed) {
                return Err(RealError::Stopped);
            }
            if let Some((node, why)) = lock(&self.shared.board).failed.clone() {
                return Err(RealError::Daemon { node, why });
            }
            if now / 1000 != told_s {
                told_s = now / 1000;
                on_second(now);
                let ended = |(node, process): (usize, &Process)| Some((node, process.ended()?));
                if let Some((node, why)) = self.shared.nodes.iter().enumerate().find_map(ended) {
                    return Err(RealError::Daemon { node, why });
                }
            }
            while let Some((at, call)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
                self.due.remove(&(at, call));
                match call {
                    Call::Task(number) => self.hand_over(number, tasks, families),
                    Call::Begin(fault) => self.begin(fault)?,
                    Call::End(fault) => self.end(fault)?,
                    Call::Flap(fault, cut) => self.flap(fault, cut, at),
                }
            }
            let quiet = now >= work_ms && now >= self.scenario.quiet_from_ms();
            let idle = self.shared.under_way.load(Ordering::SeqCst) == 0;
            let settled = {
                let board = lock(&self.shared.board);
                let looked = LOOK_EVERY * LOOKS_AFTER_CHANGE;
                board.equal && u128::from(now.saturating_sub(board.changed_ms.max(work_ms))) > looked.as_millis()
            };
            if now >= whole_ms || (quiet && idle && settled) {
                return Ok(());
            }
            thread::sleep(STEP);
        }
    }

    fn give(&self, node: usize, work: Work) {
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        if self.workers.get(node).is_none_or(|worker| worker.send(work).is_err()) {
            self.shared.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn hand_over(&self, number: usize, tasks: &[Task], families: &mut Families) {
        let Some(task) = tasks.get(number).copied() else { return };
        let text = families.get(task.family).and_then(|family| family.tasks.get(task.wording)).cloned();
        let lesson = families.lesson(task.family, task.wording).map(Box::new);
        if let Some(text) = text {
            self.give(task.node, Work::Attempt { number: number as u64, task, text, lesson });
        }
    }

    fn begin(&mut self, fault: usize) -> Result<(), RealError> {
        self.shared.see(Seen::Plain(Observed::FaultBegan { fault }));
        let Some(what) = self.scenario.faults.get(fault) else { return Ok(()) };
        match &what.kind {
            FaultKind::Crash { nodes } | FaultKind::Leave { nodes } => {
                for node in nodes {
                    self.down[*node] += 1;
                    self.shared.set_up(*node, false);
                    self.shared.stop(*node);
                }
            }
            FaultKind::Pause { nodes } => self.pause(nodes, true)?,
            FaultKind::Join { nodes } => nodes.iter().for_each(|node| self.bring_up(fault, *node)),
            FaultKind::Flapping { .. } => self.flap(fault, true, what.at_ms),
            kind => self.cut(fault, kind),
        }
        Ok(())
    }

    fn end(&mut self, fault: usize) -> Result<(), RealError> {
        self.heal(fault);
        match self.scenario.faults.get(fault).map(|what| &what.kind) {
            Some(FaultKind::Crash { nodes }) => nodes.iter().for_each(|node| self.bring_up(fault, *node)),
            Some(FaultKind::Pause { nodes }) => self.pause(nodes, false)?,
            _ => {}
        }
        self.shared.see(Seen::Plain(Observed::FaultEnded { fault }));
        Ok(())
    }

    fn cut(&mut self, fault: usize, kind: &FaultKind) {
        self.heal(fault);
        if let Some(split) = split_of(kind, self.scenario.nodes(), |group_of| group_of) {
            self.splits.insert(fault, self.shared.emulator.split(split));
        }
    }

    fn heal(&mut self, fault: usize) {
        if let Some(number) = self.splits.remove(&fault) {
            self.shared.emulator.mend(number);
        }
    }

    fn flap(&mut self, fault: usize, cut: bool, at_ms: u64) {
        let Some(what) = self.scenario.faults.get(fault) else { return };
        let FaultKind::Flapping { down_ms, up_ms, .. } = &what.kind else { return };
        if cut {
            self.cut(fault, &what.kind);
        } else {
            self.heal(fault);
        }
        let next = at_ms + if cut { *down_ms } else { *up_ms }.max(1);
        if next < what.end_ms().unwrap_or(u64::MAX) {
            self.due.insert((next, Call::Flap(fault, !cut)));
        }
    }

    fn pause(&self, nodes: &[usize], stand: bool) -> Result<(), RealError> {
        for node in nodes {
            let Some(process) = self.shared.nodes.get(*node) else { continue };
            process.pause(stand).map_err(|why| RealError::Daemon { node: *node, why })?;
        }
        Ok(())
    }

    /// One reason less for a node to be down.
    fn bring_up(&mut self, fault: usize, node: usize) {
        self.down[node] = self.down[node].saturating_sub(1);
        if self.down[node] == 0 {
            self.give(node, Work::Start { fault });
        }
    }
}
