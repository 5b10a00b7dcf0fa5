//! Announce at its figures: copies of a body that a node receives, and a tree that heals under churn.

use folklore_protocol::BankId;
use folklore_sim::{Link, World, WorldConfig};

const MINUTE: u64 = 60_000;
const NODES: usize = 30;

/// Thirty nodes that share a bank and all know each other.
fn mesh(seed: u64, link: Link) -> (World, BankId) {
    let mut world = World::new(WorldConfig { seed, nodes: NODES, link, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..NODES);
    for a in 0..NODES {
        for b in 0..a {
            world.introduce(a, b);
        }
    }
    assert!(world.run_until(MINUTE, |w| (0..NODES).all(|n| w.node(n).peers().sharing(&bank).len() == NODES - 1)));
    (world, bank)
}

/// Copies of a record that a node received for each it did not teach, while 200 are taught one by one at nodes all over.
fn copies(seed: u64, link: Link) -> f64 {
    let (mut world, bank) = mesh(seed, link);
    // The tree is built by the first broadcasts.
    for n in 0..NODES {
        world.teach(n, bank, n as u64);
        world.run_for(2_000);
    }
    assert!(world.run_until(5 * MINUTE, |w| w.agree(&bank, 0..NODES)));
    let before = world.counters().clone();
    for number in 0..200 {
        world.teach(number as usize * 7 % NODES, bank, 1_000 + number).unwrap();
        world.run_for(700);
    }
    assert!(world.run_until(5 * MINUTE, |w| w.agree(&bank, 0..NODES)));
    let copies = (world.counters().record_copies - before.record_copies) as f64 / (200.0 * (NODES - 1) as f64);
    let spent = |kind: &str| {
        let of = |counters: &folklore_sim::Counters| counters.messages.get(kind).copied().unwrap_or_default();
        of(world.counters()) - of(&before)
    };
    println!(
        "  seed {seed}: {copies:.3} (push {}, records {}, have {}, graft {}, prune {})",
        spent("push"),
        spent("records"),
        spent("have"),
        spent("graft"),
        spent("prune"),
    );
    copies
}

#[test]
fn a_mesh_of_thirty_passes_a_record_on_with_few_copies() {
    let link = Link { latency_ms: 20, jitter_ms: 10, ..Link::default() };
    for (loss_ppm, most) in [(0, 1.1), (100_000, 1.3)] {
        println!("30 nodes, all connected, 20 to 30 ms, {} % of messages lost, target {most}:", loss_ppm / 10_000);
        let mean = (1..=3).map(|seed| copies(seed, Link { loss_ppm, ..link })).sum::<f64>() / 3.0;
        println!("  body copies received per node and record: {mean:.3}");
        assert!(mean <= most, "{mean} copies at {loss_ppm} ppm");
    }
}
