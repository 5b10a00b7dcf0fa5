//! What a reconcile costs on the wire, records and bodies included, and what cuts add to it.

use folklore_protocol::{BankId, Claim, Evidence, Keypair, Message, Record};
use folklore_sim::{World, WorldConfig, world::lesson};

const MINUTE: u64 = 60_000;

fn two(seed: u64) -> (World, BankId) {
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

#[test]
fn a_catch_up_costs_little_more_than_the_records_and_bodies_themselves() {
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
    let ratio = spent as f64 / own as f64;
    println!("1,000 records of {} bytes with bodies: {spent} bytes on the wire, {ratio:.3} of their own", own / 1_000);
    for (kind, bytes) in &world.counters().bytes {
        println!("  {kind}: {}", bytes - before.bytes.get(kind).unwrap_or(&0));
    }
    assert!(ratio <= 1.12, "{ratio}");
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

#[test]
fn a_catch_up_cut_at_a_hundred_points_costs_little_more_than_uncut() {
    let records = 10_000;
    let (uncut, _) = catch_up(records, &[]);
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let cuts: Vec<u64> = (0..100).map(|_| draw(84)).collect();
    let (cut, met) = catch_up(records, &cuts);
    let ratio = cut as f64 / uncut as f64;
    println!("{records} records: {uncut} bytes uncut, {cut} with {met} cuts, {ratio:.3}");
    assert!(met >= 90, "{met} cuts before the end");
    assert!(ratio <= 1.15, "{ratio}");
}

#[test]
fn fetching_by_a_short_id_that_nobody_has_is_answered_and_harmless() {
    let (mut world, bank) = two(4);
    world.introduce(1, 0);
    world.teach(0, bank, 1).unwrap();
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    let ids = vec![folklore_protocol::known::ShortId([9; 8])];
    world.forge(1, 0, Message::Fetch { bank, request: 5, budget_bytes: 4_096, ids });
    world.run_for(MINUTE);
    assert!(world.node(0).peers().connected().len() == 1 && world.agree(&bank, 0..2));
}
