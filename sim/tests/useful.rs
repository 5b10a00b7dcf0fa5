//! Useful ones first: what a node has after a short contact is what it was worth having first.

use folklore_protocol::{BankId, Config, UnverifiedRecord};
use folklore_sim::{World, WorldConfig, world::lesson};

const MINUTE: u64 = 60_000;
/// Records in a row of one author, before the others teach: a bulk import.
const BULK: u64 = 1_500;

/// Node 0 holds what three authors taught, 1,500 of them and twice twenty; node 3 knows node 0 alone, and lacks all of it.
fn newcomer(config: Config, near: Option<&str>) -> (World, BankId) {
    let mut world = World::new(WorldConfig { seed: 1, nodes: 4, protocol: config, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..4);
    world.introduce(1, 0);
    world.introduce(2, 0);
    world.teach_all(0, bank, 0..BULK);
    for n in [1, 2] {
        world.teach_all(n, bank, 10_000 * n as u64..10_000 * n as u64 + 20);
    }
    assert!(world.run_until(5 * MINUTE, |w| w.agree(&bank, 0..3)));
    if let Some(text) = near {
        world.work_on(3, text);
    }
    world.introduce(3, 0);
    (world, bank)
}

/// The lesson numbers (author, number) that node 3 has when it has `many` records or a few more.
fn first(world: &mut World, bank: BankId, many: usize) -> Vec<(usize, u64)> {
    assert!(world.run_until(MINUTE, |w| w.node(3).held_len(&bank) >= many));
    let of = |author: usize, number: u64| (lesson(number).id(), (author, number));
    let mut numbers: std::collections::BTreeMap<_, _> = (0..BULK).map(|n| of(0, n)).collect();
    numbers.extend(
        [1, 2].into_iter().flat_map(|a| (0..20).map(move |n| (a, 10_000 * a as u64 + n))).map(|(a, n)| of(a, n)),
    );
    let entries = world.entries(3, &bank).into_iter();
    entries
        .filter_map(|(_, (record, _))| {
            let read = UnverifiedRecord::parse(record.bytes()).ok()?;
            numbers.get(&read.fields().claim.body()?).copied()
        })
        .collect()
}

#[test]
fn the_latest_of_each_author_come_before_the_bulk_of_one() {
    let share = |config: Config| {
        let (mut world, bank) = newcomer(config, None);
        let have = first(&mut world, bank, 200);
        // By the order that is asked for, the forty of the small authors and the latest of the large one are the first.
        let small = have.iter().filter(|(author, _)| *author != 0).count() as f64 / 40.0;
        let large: Vec<u64> = have.iter().filter(|(author, _)| *author == 0).map(|(_, n)| *n).collect();
        let late = large.iter().filter(|n| **n >= BULK - 250).count() as f64 / large.len() as f64;
        (small, late)
    };
    let (small, late) = share(Config::default());
    let plain = share(Config { suggest_from: usize::MAX, ..Config::default() });
    println!(
        "of 1,540 records, 200 fetched: {:.0} % of the small authors' and {:.0} % of the others among the latest 250; in any \
         order {:.0} % and {:.0} %",
        100.0 * small,
        100.0 * late,
        100.0 * plain.0,
        100.0 * plain.1,
    );
    assert!(small >= 0.95 && late >= 0.8, "{small} {late}");
    assert!(plain.0 <= 0.5 && plain.1 <= 0.5, "without being asked there is no such order: {plain:?}");
}

#[test]
fn what_is_near_to_the_work_comes_first_if_the_node_shows_what_it_works_on() {
    let share = |near: Option<&str>| {
        let (mut world, bank) = newcomer(Config::default(), near);
        let have = first(&mut world, bank, 150);
        // Lessons go round through eight words; the fifth is "invoice".
        have.iter().filter(|(_, number)| number % 8 == 4).count() as f64 / have.len() as f64
    };
    let (near, plain) = (share(Some("invoice")), share(None));
    println!(
        "150 fetched of 1,540, an eighth of which are about invoices: {:.0} %, {:.0} % otherwise",
        100.0 * near,
        100.0 * plain
    );
    assert!(near >= 0.8, "{near}");
    assert!(plain <= 0.3, "{plain}");
}

#[test]
fn a_small_difference_is_fetched_without_asking_for_an_order() {
    let mut world = World::new(WorldConfig { seed: 2, nodes: 2, ..WorldConfig::default() });
    let bank = world.open_bank(0, 0..2);
    world.teach_all(0, bank, 0..40);
    world.introduce(1, 0);
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    assert_eq!(world.counters().messages.get("suggest"), None);
}
