//! Figures of the harness, measured the same way by its tests, which hold them to their targets, and by its benchmark, which
//! prints them.
#![allow(dead_code, reason = "each test uses one of them")]

use folklore_protocol::{BankId, Claim, Evidence, Keypair, Record};
use folklore_sim::{Link, World, WorldConfig, world::lesson};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

pub const MINUTE: u64 = 60_000;

pub fn two(seed: u64) -> (World, BankId) {
    let mut world = World::new(WorldConfig { seed, nodes: 2, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..2);
    (world, bank)
}

/// Bytes of the records that teach these lessons, and of the lessons.
fn own_bytes(bank: BankId, numbers: impl IntoIterator<Item = u64>) -> u64 {
    let key = Keypair::from_seed(&[1; 32]);
    let of = |number: u64| {
        let lesson = lesson(number);
        let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("sim") };
        let record = Record::sign(&key, bank, 1, 0, claim).unwrap();
        (record.bytes().len() + lesson.bytes().len()) as u64
    };
    numbers.into_iter().map(of).sum()
}

/// 1,000 of 3,000 records differ, half on either side: all bytes until both have all, over the bytes of these records and bodies.
pub fn catch_up_with_bodies() -> f64 {
    let (mut world, bank) = two(1);
    world.teach_all(0, bank, 0..2_000);
    world.introduce(1, 0);
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    world.cut(&[0], &[1]);
    world.run_for(MINUTE);
    world.teach_all(0, bank, 10_000..10_500);
    world.teach_all(1, bank, 20_000..20_500);
    let before = world.counters().clone();
    world.heal();
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    let spent = world.counters().total_bytes() - before.total_bytes();
    let own = own_bytes(bank, (10_000..10_500).chain(20_000..20_500));
    println!("1,000 records of {} bytes with bodies: {spent} bytes on the wire", own / 1_000);
    for (kind, bytes) in &world.counters().bytes {
        println!("  {kind}: {}", bytes - before.bytes.get(kind).unwrap_or(&0));
    }
    spent as f64 / own as f64
}

/// Node 1 fetches what node 0 holds, with a cut after each of these numbers of messages. Gives all bytes sent, and how many
/// cuts came before the end.
fn catch_up(records: u64, cuts: &[u64]) -> (u64, usize) {
    let (mut world, bank) = two(3);
    let mut cut = 0;
    world.teach_all(0, bank, 0..records);
    world.introduce(1, 0);
    for after in cuts {
        world.cut_after(*after, 0, 1);
        world.run_until(20 * MINUTE, |w| w.is_cut(0, 1) || w.agree(&bank, 0..2));
        cut += usize::from(!world.agree(&bank, 0..2));
        world.run_for(MINUTE);
        world.heal();
    }
    assert!(world.run_until(60 * MINUTE, |w| w.agree(&bank, 0..2)));
    (world.counters().total_bytes(), cut)
}

/// Bytes of a catch-up of 10,000 records that is cut at a hundred random points, over those of one that is not.
pub fn catch_up_with_cuts() -> f64 {
    let records = 10_000;
    let (uncut, _) = catch_up(records, &[]);
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let cuts: Vec<u64> = (0..100).map(|_| draw(84)).collect();
    let (cut, met) = catch_up(records, &cuts);
    println!("{records} records: {uncut} bytes uncut, {cut} with {met} cuts");
    assert!(met >= 90, "{met} cuts before the end");
    cut as f64 / uncut as f64
}

/// Nodes of the mesh of [`copies`].
pub const MESH: usize = 30;

/// Thirty nodes that share a bank and all know each other.
fn mesh(seed: u64, link: Link) -> (World, BankId) {
    let mut world = World::new(WorldConfig { seed, nodes: MESH, link, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..MESH);
    for a in 0..MESH {
        for b in 0..a {
            world.introduce(a, b);
        }
    }
    // Greetings are lost too; who got none hangs up and is dialled again.
    world.run_for(2 * MINUTE);
    let neighbours: usize = (0..MESH).map(|n| world.node(n).peers().sharing(&bank).len()).sum();
    assert!(neighbours * 100 >= MESH * (MESH - 1) * 95, "{neighbours} of {}", MESH * (MESH - 1));
    (world, bank)
}

/// Copies of a record that a node of the mesh received for each that it did not teach, while 200 are taught one by one at
/// nodes all over.
fn copies_of(seed: u64, link: Link) -> f64 {
    let (mut world, bank) = mesh(seed, link);
    // The tree is built by the first broadcasts.
    for n in 0..MESH {
        world.teach(n, bank, n as u64);
        world.run_for(2_000);
    }
    world.run_for(MINUTE);
    assert!(world.agree(&bank, 0..MESH));
    let before = world.counters().clone();
    for number in 0..200 {
        world.teach(number as usize * 7 % MESH, bank, 1_000 + number).unwrap();
        world.run_for(700);
    }
    world.run_for(MINUTE);
    assert!(world.agree(&bank, 0..MESH));
    let copies = (world.counters().record_copies - before.record_copies) as f64 / (200.0 * (MESH - 1) as f64);
    let spent = |kind: &str| {
        let of = |counters: &folklore_sim::Counters| counters.messages.get(kind).copied().unwrap_or_default();
        of(world.counters()) - of(&before)
    };
    let [push, records, have, graft, prune] = ["push", "records", "have", "graft", "prune"].map(spent);
    println!("  seed {seed}: {copies:.3} (push {push}, records {records}, have {have}, graft {graft}, prune {prune})");
    copies
}

/// Copies of a body that a node of the mesh receives where so many messages in a million are lost; the mean of three seeds.
pub fn copies(loss_ppm: u32) -> f64 {
    println!("30 nodes, all connected, 20 to 30 ms, {} % of messages lost:", loss_ppm / 10_000);
    let link = Link { latency_ms: 20, jitter_ms: 10, loss_ppm, ..Link::default() };
    (1..=3).map(|seed| copies_of(seed, link)).sum::<f64>() / 3.0
}

/// Nodes of [`quiet`].
pub const FLEET: usize = 20;
/// Seeds of [`quiet`].
pub const SEEDS: u64 = 50;

/// Each node knows five others, as in a fleet where nobody lists all.
fn fleet(seed: u64, rng: &mut ChaCha8Rng) -> (World, BankId) {
    let link = Link { latency_ms: 30, jitter_ms: 40, ..Link::default() };
    let mut world = World::new(WorldConfig { seed, nodes: FLEET, link, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..FLEET);
    for n in 0..FLEET {
        world.introduce(n, (n + 1) % FLEET);
        for _ in 0..4 {
            let other = rng.next_u64() as usize % FLEET;
            if other != n {
                world.introduce(n, other);
            }
        }
    }
    (world, bank)
}

/// Ten minutes of restarts and cuts at random, then quiet. Milliseconds of quiet until all roots are equal.
fn quiet_of(seed: u64) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut world, bank) = fleet(seed, &mut rng);
    let mut draw = |below: u64| rng.next_u64() % below;
    let (mut number, mut taught) = (0, Vec::new());
    while world.now_ms() < 10 * MINUTE {
        world.run_for(1_000 + draw(9_000));
        let n = draw(FLEET as u64) as usize;
        match draw(6) {
            0 => {
                let far: Vec<usize> = (0..FLEET).filter(|_| draw(3) == 0).collect();
                let near: Vec<usize> = (0..FLEET).filter(|n| !far.contains(n)).collect();
                world.cut(&far, &near);
            }
            1 => world.heal(),
            2 if world.is_up(n) => world.crash(n),
            3 if !world.is_up(n) => world.restart(n),
            _ if world.is_up(n) => {
                taught.extend(world.teach_all(n, bank, number..number + 1 + draw(40)));
                number += 40;
            }
            _ => {}
        }
    }
    world.heal();
    (0..FLEET).for_each(|n| {
        if !world.is_up(n) {
            world.restart(n);
        }
    });
    let quiet = world.now_ms();
    while world.now_ms() <= quiet + 2 * MINUTE {
        if world.agree(&bank, 0..FLEET) {
            let lost = taught.iter().filter(|id| !world.node(7).holds(&bank, id)).count();
            assert_eq!(lost, 0, "seed {seed}: something acknowledged is lost");
            return world.now_ms() - quiet;
        }
        world.run_for(100);
    }
    panic!("seed {seed}: the sets do not become equal");
}

/// How long the fleet took after quiet with each of the seeds, milliseconds, ascending.
pub fn quiet() -> Vec<u64> {
    let every_other = |first: u64| (first..SEEDS).step_by(2).map(quiet_of).collect::<Vec<u64>>();
    let mut took = std::thread::scope(|threads| {
        let odd = threads.spawn(|| every_other(1));
        let even = every_other(0);
        [even, odd.join().expect("the odd seeds")].concat()
    });
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{FLEET} nodes, ten minutes of restarts and cuts, then quiet; {SEEDS} seeds: equal after {} ms at best, {} in half, {} in \
         nine of ten, {} at worst",
        at(0),
        at(50),
        at(90),
        at(100),
    );
    took
}
