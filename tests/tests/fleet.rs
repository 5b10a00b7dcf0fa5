//! Many nodes that are killed, restarted, cut off and frozen while all of them learn: after quiet they hold the same.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use folklore_tests::{
    Node, PATIENCE, Relay,
    inputs::{Dice, lesson},
    node::text,
    wait::within,
};

/// How many earlier nodes each node is given the ticket of: enough that no single one holds the fleet together.
const TICKETS: u64 = 3;

struct Site {
    node: Node,
    /// The way in to the node. What the node dials itself goes through the others' ways in.
    way_in: Relay,
}

struct Fleet {
    sites: Vec<Site>,
    dice: Dice,
    bank: String,
    /// Lessons whose teaching was acknowledged.
    taught: BTreeSet<String>,
}

/// What happened to a fleet, counted.
#[derive(Debug, Default)]
struct Troubles {
    killed: u32,
    stopped: u32,
    cut: u32,
    frozen: u32,
}

impl Fleet {
    /// So many nodes that share one bank, each behind a relay of its own.
    fn new(count: u64, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut sites = Vec::new();
        let mut bank = String::new();
        for n in 0..count {
            let mut node = Node::new(&format!("site-{n}"));
            let way_in = Relay::new();
            node.up_args.extend(["--announce".into(), way_in.multiaddr().into()]);
            node.up();
            way_in.leads_to(node.peer_port());
            let others: BTreeSet<u64> = (0..TICKETS.min(n)).map(|_| dice.below(n)).collect();
            for other in others {
                let host: &Site = &sites[other as usize];
                if bank.is_empty() {
                    bank = host.node.default_bank();
                }
                let ticket = text(&host.node.json(["bank", "invite", &bank])["ticket"]);
                assert_eq!(node.json(["bank", "join", &ticket])["bank"], bank);
            }
            sites.push(Site { node, way_in });
        }
        Self { sites, dice, bank, taught: BTreeSet::new() }
    }

    fn pick(&mut self) -> usize {
        self.dice.below(self.sites.len() as u64) as usize
    }

    /// Teaches at a node that is up and not frozen itself; a door is on loopback, so cuts do not matter.
    fn teach(&mut self) {
        let (at, about) = (self.pick(), self.dice.text("abcdefghijklmnopqrstuvwxyz", 12));
        if self.sites[at].node.is_up() {
            let mut lesson = lesson(&about);
            lesson["bank"] = self.bank.as_str().into();
            let id = self.sites[at].node.teach(&lesson);
            self.taught.insert(id);
        }
    }

    /// One thing goes wrong, or is mended.
    fn trouble(&mut self, seen: &mut Troubles) {
        let (at, kind) = (self.pick(), self.dice.below(7));
        let site = &mut self.sites[at];
        if !site.node.is_up() {
            site.node.up();
            site.way_in.leads_to(site.node.peer_port());
            return;
        }
        match kind {
            0 => {
                site.node.kill();
                seen.killed += 1;
            }
            1 => {
                site.node.stop();
                seen.stopped += 1;
            }
            2 | 3 => {
                site.way_in.cut();
                seen.cut += 1;
            }
            4 => {
                site.way_in.freeze();
                seen.frozen += 1;
            }
            _ => site.way_in.heal(),
        }
    }

    /// Everything is mended: all nodes are up, all ways open.
    fn quiet(&mut self) {
        for site in &mut self.sites {
            if !site.node.is_up() {
                site.node.up();
            }
            site.way_in.leads_to(site.node.peer_port());
        }
    }

    fn roots(&self) -> BTreeSet<String> {
        self.sites.iter().map(|site| site.node.held_root(&self.bank)).collect()
    }

    /// Troubles for so long, two a second; then quiet. Returns how long after the last mending all roots were equal.
    fn weather(&mut self, length: Duration, patience: Duration) -> Duration {
        let end = Instant::now() + length;
        let mut seen = Troubles::default();
        while Instant::now() < end {
            self.teach();
            self.trouble(&mut seen);
            thread::sleep(Duration::from_millis(500));
        }
        self.quiet();
        let since = Instant::now();
        let equal = within(patience, || (self.roots().len() == 1).then(|| since.elapsed()));
        let equal = equal.unwrap_or_else(|| {
            let holds = |site: &Site| {
                let bank = site.node.bank(&self.bank);
                format!("{} of {} {}\n", bank["records"], bank["known"], site.node.id())
            };
            let all: String = self.sites.iter().map(holds).collect();
            panic!("the fleet does not come to hold the same within {patience:?} after {seen:?}:\n{all}")
        });
        println!(
            "{} nodes, {length:?} of {seen:?}, {} lessons taught: equal roots {equal:?} after quiet",
            self.sites.len(),
            self.taught.len()
        );
        equal
    }

    /// Every acknowledged lesson is at every node.
    fn nothing_is_lost(&self) {
        assert!(!self.taught.is_empty(), "nothing was taught, so nothing was shown");
        for site in &self.sites {
            let listed: BTreeSet<String> = site.node.lesson_ids().into_iter().collect();
            let missing: Vec<&String> = self.taught.difference(&listed).collect();
            assert!(missing.is_empty(), "{} lacks {missing:?}", site.node.id());
        }
    }
}

#[test]
fn nodes_killed_and_cut_off_at_random_hold_the_same_after_quiet() {
    let mut fleet = Fleet::new(6, 11);
    fleet.weather(Duration::from_secs(15), PATIENCE);
    fleet.nothing_is_lost();
}

/// Ten minutes: run by hand, `cargo test -p folklore-tests --test fleet -- --ignored --nocapture`.
#[test]
#[ignore = "takes ten minutes"]
fn twenty_nodes_after_ten_minutes_of_trouble_are_equal_within_half_a_minute() {
    let mut fleet = Fleet::new(20, 2026);
    let took = fleet.weather(Duration::from_secs(600), PATIENCE);
    fleet.nothing_is_lost();
    assert!(took <= Duration::from_secs(30), "equal only {took:?} after quiet");
}
