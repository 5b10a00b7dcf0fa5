//! The shipped protocol on a private clock: loss, delay, cuts, crashes and disks that fail.

use folklore_protocol::{
    AuthorId, BankId, Claim, Config, Evidence, Item, Keypair, Message, Record, RecordId, known::ShortId,
};
use folklore_sim::{Link, World, WorldConfig, world::lesson};

const MINUTE: u64 = 60_000;

/// `n` nodes that share one bank and are introduced in a line: 0 - 1 - 2 - ...
fn line(config: WorldConfig) -> (World, BankId) {
    let n = config.nodes;
    let mut world = World::new(config);
    let bank = world.open_bank(0, 0..n);
    for k in 1..n {
        world.introduce(k, k - 1);
    }
    (world, bank)
}

/// `n` nodes that share one bank and all know each other.
fn mesh(config: WorldConfig) -> (World, BankId) {
    let n = config.nodes;
    let (mut world, bank) = line(config);
    for a in 0..n {
        for b in 0..a {
            world.introduce(a, b);
        }
    }
    (world, bank)
}

fn seeded(seed: u64, nodes: usize) -> WorldConfig {
    WorldConfig { seed, nodes, ..WorldConfig::default() }
}

#[test]
fn a_lesson_reaches_the_other_site_after_the_link_was_down_all_night() {
    let (mut world, bank) = line(seeded(1, 2));
    assert!(world.run_until(MINUTE, |w| w.node(0).peers().sharing(&bank).len() == 1));
    world.cut(&[0], &[1]);
    let learned = world.teach(0, bank, 7).unwrap();
    let also = world.teach(1, bank, 8).unwrap();
    world.run_for(8 * 60 * MINUTE);
    assert!(!world.node(1).holds(&bank, &learned), "nothing passes a cut");
    world.heal();
    let both = |w: &mut World| w.node(1).holds(&bank, &learned) && w.node(0).holds(&bank, &also);
    assert!(world.run_until(MINUTE, both), "within the capped backoff after the link is back");
    assert!(world.agree(&bank, 0..2));
}

#[test]
fn announcements_reach_a_connected_mesh_at_once_and_nearly_without_copies() {
    let (mut world, bank) = mesh(seeded(2, 12));
    world.run_for(MINUTE);
    for n in 0..6 {
        world.teach(n, bank, n as u64);
        world.run_for(2_000);
    }
    let before = world.counters().record_copies;
    for number in 100..150 {
        world.teach(3, bank, number).unwrap();
        world.run_for(1_000);
    }
    assert!(world.agree(&bank, 0..12));
    let copies = (world.counters().record_copies - before) as f64 / (50.0 * 11.0);
    println!("copies of a record received per node and record: {copies:.3}");
    assert!(copies <= 1.1, "{copies}");
}

#[test]
fn what_a_node_fetched_after_a_heal_travels_on_to_nodes_behind_it() {
    let (mut world, bank) = line(seeded(3, 5));
    world.cut(&[0, 1], &[2, 3, 4]);
    world.teach_all(0, bank, 0..200);
    world.run_for(10 * MINUTE);
    assert!(!world.agree(&bank, 0..5));
    world.heal();
    assert!(world.run_until(2 * MINUTE, |w| w.agree(&bank, 0..5)));
    assert_eq!(world.on_disk(4, &bank).len(), 200);
}

#[test]
fn sets_become_equal_under_loss_delay_cuts_and_crashes_for_every_seed() {
    for seed in 0..40 {
        let link = Link { latency_ms: 30, jitter_ms: 200, loss_ppm: 100_000, ..Link::default() };
        let (mut world, bank) = mesh(WorldConfig { link, ..seeded(seed, 5) });
        let mut taught = Vec::new();
        for round in 0..12u64 {
            let pick = (seed * 7 + round * 3) as usize % 5;
            match round % 4 {
                1 => world.cut(&[pick], &(0..5).filter(|n| *n != pick).collect::<Vec<_>>()),
                2 => world.heal(),
                3 => {
                    world.crash(pick);
                    world.run_for(3_000);
                    world.restart(pick);
                }
                _ => {}
            }
            for n in 0..5 {
                taught.extend(world.teach(n, bank, round * 10 + n as u64));
            }
            world.run_for(4_000);
        }
        world.heal();
        assert!(world.run_until(10 * MINUTE, |w| w.agree(&bank, 0..5)), "seed {seed}");
        for id in &taught {
            assert!(world.node(0).holds(&bank, id), "seed {seed}: an acknowledged record is lost");
        }
    }
}

#[test]
fn a_cut_at_any_message_loses_nothing_and_the_rest_follows() {
    let fresh = |seed| {
        let (mut world, bank) = line(seeded(seed, 2));
        world.teach_all(0, bank, 0..90);
        world.teach_all(1, bank, 60..150);
        (world, bank)
    };
    let (mut whole, bank) = fresh(4);
    assert!(whole.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    let messages: u64 = whole.counters().messages.values().sum();
    assert!(messages > 10, "{messages}");
    for at in 0..=messages {
        let (mut world, bank) = fresh(4);
        world.cut_after(at, 0, 1);
        world.run_for(MINUTE);
        world.heal();
        assert!(world.run_until(2 * MINUTE, |w| w.agree(&bank, 0..2)), "cut after {at} messages");
        assert_eq!(world.on_disk(0, &bank).len(), 180, "cut after {at} messages");
    }
}

#[test]
fn equal_banks_end_at_the_greeting() {
    let (mut world, bank) = line(seeded(5, 2));
    world.teach_all(0, bank, 0..500);
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    world.crash(1);
    world.run_for(MINUTE);
    world.restart(1);
    let (bytes, records) = (world.counters().total_bytes(), world.counters().record_copies);
    let complete =
        |w: &mut World| w.node(1).peers().get(&w.author(0)).is_some_and(|p| p.complete_as_of.contains_key(&bank));
    assert!(world.run_until(MINUTE, complete));
    let spent = world.counters().total_bytes() - bytes;
    println!("bytes both ways for two nodes to see that 500 records are equal: {spent}");
    assert!(spent <= 256, "{spent}");
    assert_eq!(world.counters().record_copies, records);
}

#[test]
fn both_sides_say_as_of_when_they_are_complete() {
    let (mut world, bank) = line(seeded(6, 2));
    world.teach_all(0, bank, 0..300);
    world.teach_all(1, bank, 1_000..1_200);
    let as_of = |w: &World, a: usize, b: usize| {
        w.node(a).peers().get(&w.author(b)).and_then(|p| p.complete_as_of.get(&bank).copied())
    };
    let both = |w: &mut World| as_of(w, 0, 1).is_some() && as_of(w, 1, 0).is_some();
    assert!(world.run_until(MINUTE, both));
    assert!(world.agree(&bank, 0..2), "complete means that nothing is missing");
    let first = as_of(&world, 0, 1);
    world.run_for(5 * MINUTE);
    assert!(as_of(&world, 0, 1) > first, "compared again on a timer");
}

#[test]
fn a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let (mut world, bank) = line(seeded(7, 2));
    world.disk_faults(1).full = true;
    world.teach_all(0, bank, 0..50);
    world.run_for(2 * MINUTE);
    assert_eq!(world.on_disk(1, &bank).len(), 0);
    assert!(!world.agree(&bank, 0..2), "what is not durable is not held");
    assert!(world.teach(1, bank, 99).is_none(), "and not acknowledged");
    world.disk_faults(1).full = false;
    assert!(world.run_until(2 * MINUTE, |w| w.agree(&bank, 0..2)));
}

#[test]
fn a_crash_before_the_sync_is_as_if_nothing_had_come() {
    let (mut world, bank) = line(seeded(8, 2));
    world.run_for(5_000);
    world.disk_faults(1).sync_ms = 10_000;
    world.teach(0, bank, 1).unwrap();
    world.run_for(2_000);
    assert!(world.on_disk(1, &bank).is_empty());
    world.crash(1);
    world.restart(1);
    assert!(world.on_disk(1, &bank).is_empty());
    assert!(world.run_until(2 * MINUTE, |w| w.agree(&bank, 0..2)));
}

#[test]
fn no_record_is_fetched_twice_however_many_peers_offer_it() {
    let (mut world, bank) = mesh(seeded(9, 5));
    world.cut(&[4], &[0, 1, 2, 3]);
    world.teach_all(0, bank, 0..400);
    assert!(world.run_until(5 * MINUTE, |w| w.agree(&bank, 0..4)));
    let before = world.counters().record_copies;
    world.heal();
    assert!(world.run_until(5 * MINUTE, |w| w.agree(&bank, 0..5)));
    let copies = world.counters().record_copies - before;
    println!("copies received for 400 records offered by four peers: {copies}");
    assert!(copies <= 400 + 4, "{copies}");
}

#[test]
fn a_query_is_answered_by_those_who_can_and_says_who_stayed_silent() {
    let (mut world, bank) = mesh(seeded(10, 4));
    world.run_for(MINUTE);
    world.cut(&[3], &[0, 1, 2]);
    world.run_for(MINUTE);
    let fresh = world.teach(3, bank, 4).unwrap();
    world.ask(0, 1, bank, "invoice before checking", 2_000);
    assert!(world.run_until(5_000, |w| w.answered(0, 1).is_some()));
    let (answers, silent) = world.answered(0, 1).unwrap();
    assert_eq!((answers.len(), silent.len()), (2, 0), "who is away is not asked");
    assert!(!world.node(0).holds(&bank, &fresh));
    // One peer is cut off and nobody has noticed yet: it is asked, and named as silent.
    world.heal();
    assert!(world.run_until(MINUTE, |w| w.node(0).peers().sharing(&bank).len() == 3));
    world.cut(&[2], &[0, 1, 3]);
    world.ask(0, 2, bank, "invoice before checking", 2_000);
    assert!(world.run_until(5_000, |w| w.answered(0, 2).is_some()));
    let (answers, silent) = world.answered(0, 2).unwrap();
    let answered: Vec<AuthorId> = answers.iter().map(|a| a.peer).collect();
    assert_eq!(silent, &[world.author(2)]);
    assert!(answered.contains(&world.author(3)));
    assert!(answers.iter().any(|a| !a.items.is_empty()));
}

#[test]
fn a_peer_that_has_not_shown_that_it_knows_the_bank_gets_nothing() {
    let mut world = World::new(seeded(11, 2));
    let bank = world.open_bank(0, [0]);
    let id = world.teach(0, bank, 1).unwrap();
    world.introduce(1, 0);
    world.run_for(MINUTE);
    world.forge(1, 0, Message::Fetch { bank, request: 1, budget_bytes: 4_096, ids: vec![ShortId::of(&id)] });
    world.forge(1, 0, Message::Ask { bank, request: 1, query: "refund".into(), hits: 4 });
    world.run_for(MINUTE);
    assert_eq!(world.counters().record_copies, 0);
    assert!(world.node(0).peers().sharing(&bank).is_empty());
    assert!(!world.counters().messages.contains_key("answer"));
}

#[test]
fn a_bank_joined_later_is_found_on_a_standing_connection() {
    let mut world = World::new(seeded(12, 2));
    let bank = world.open_bank(0, [0]);
    world.teach_all(0, bank, 0..20);
    world.introduce(1, 0);
    world.run_for(MINUTE);
    assert_eq!(world.open_bank(0, [1]), bank);
    assert!(world.run_until(10_000, |w| w.agree(&bank, 0..2)));
}

#[test]
fn forged_wrong_and_unrequested_records_are_not_held_and_end_the_connection() {
    let (mut world, bank) = line(seeded(13, 2));
    let id = world.teach(0, bank, 1).unwrap();
    assert!(world.run_until(MINUTE, |w| w.agree(&bank, 0..2)));
    let good = folklore_protocol::Record::sign(
        &folklore_protocol::Keypair::from_seed(&[9; 32]),
        bank,
        1,
        0,
        folklore_protocol::Claim::Taught {
            lesson_id: lesson(5).id(),
            evidence: folklore_protocol::Evidence::told("x"),
        },
    )
    .unwrap();
    let mut forged = good.bytes().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let body = Some(lesson(5).bytes().to_vec());
    let wrong_body = Some(lesson(6).bytes().to_vec());
    let held = |w: &World| w.on_disk(0, &bank);
    let unrequested = Item { record: good.bytes().to_vec(), body: body.clone() };
    world.forge(
        1,
        0,
        Message::Records { bank, request: 77, items: vec![unrequested], absent: vec![], unknown: vec![] },
    );
    for _ in 0..10 {
        world.forge(1, 0, Message::Push { bank, hops: 0, item: Item { record: forged.clone(), body: body.clone() } });
        world.forge(
            1,
            0,
            Message::Push { bank, hops: 0, item: Item { record: good.bytes().to_vec(), body: wrong_body.clone() } },
        );
        world.run_for(100);
    }
    assert_eq!(held(&world), [id]);
    assert!(!world.node(0).peers().get(&world.author(1)).unwrap().connected, "struck out");
}

#[test]
fn offers_of_records_that_do_not_exist_end_and_do_not_make_it_complete() {
    let (mut world, bank) = line(seeded(14, 2));
    world.run_for(MINUTE);
    let ghosts: Vec<RecordId> = (0..100u8).map(|n| RecordId([n; 32])).collect();
    world.forge(1, 0, Message::Have { bank, ids: ghosts });
    world.run_for(5 * MINUTE);
    assert_eq!(world.node(0).missing_len(&bank), 0);
    assert!(world.agree(&bank, 0..2));
}

#[test]
fn a_mute_peer_is_let_go_and_dialled_again() {
    let config = Config { request_timeout_ms: 2_000, ..Config::default() };
    let (mut world, bank) = line(WorldConfig { protocol: config, silent_ms: 100 * MINUTE, ..seeded(15, 2) });
    assert!(world.run_until(MINUTE, |w| w.node(0).peers().sharing(&bank).len() == 1));
    // The connection stands but nothing passes, and no ping tells.
    world.cut(&[0], &[1]);
    let gone = |w: &mut World| w.node(0).peers().connected().is_empty() && w.node(1).peers().connected().is_empty();
    assert!(world.run_until(10 * MINUTE, gone));
    world.heal();
    assert!(world.run_until(2 * MINUTE, |w| w.node(0).peers().sharing(&bank).len() == 1));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let link = Link { loss_ppm: 50_000, ..Link::default() };
        let (mut world, bank) = mesh(WorldConfig { link, ..seeded(seed, 6) });
        for n in 0..6 {
            world.teach_all(n, bank, (n as u64 * 100)..(n as u64 * 100 + 20));
            world.run_for(3_000);
        }
        (world.digest(), world.counters().clone())
    };
    assert_eq!(run(16), run(16));
    assert_ne!(run(16).0, run(17).0);
}

/// Three nodes of which 0 and 2 are cut off from each other, and a record of lesson 5 that nobody has yet, without the text.
fn stripped_beyond_a_cut(seed: u64) -> (World, BankId, Record, Item) {
    let (mut world, bank) = mesh(seeded(seed, 3));
    world.run_for(MINUTE);
    world.cut(&[2], &[0]);
    world.run_for(MINUTE);
    let claim = Claim::Taught { lesson_id: lesson(5).id(), evidence: Evidence::told("x") };
    let record = Record::sign(&Keypair::from_seed(&[9; 32]), bank, 1, 0, claim).unwrap();
    let stripped = Item { record: record.bytes().to_vec(), body: None };
    (world, bank, record, stripped)
}

#[test]
fn a_lesson_pushed_without_its_text_is_had_whole_from_another() {
    let (mut world, bank, _, stripped) = stripped_beyond_a_cut(18);
    let whole = Item { body: Some(lesson(5).bytes().to_vec()), ..stripped.clone() };
    // Node 1 strips the text before node 2 hears of the lesson; node 0 has it whole.
    world.forge(1, 2, Message::Push { bank, hops: 0, item: stripped });
    world.forge(1, 0, Message::Push { bank, hops: 0, item: whole });
    world.heal();
    assert!(world.run_until(5 * MINUTE, |w| w.whole_teachings(2, &bank) == 1), "node 2 goes on asking");
    assert!(world.agree(&bank, [0, 2]));
}

#[test]
fn a_lesson_whose_only_holder_had_no_text_gets_it_from_a_peer_that_comes_later() {
    let (mut world, bank, record, stripped) = stripped_beyond_a_cut(19);
    // Node 1 has it without the text, and is all that node 2 can reach; node 0 has it whole, beyond the cut.
    world.cut(&[1], &[0]);
    world.run_for(MINUTE);
    world.place(0, bank, &record, Some(lesson(5).bytes().clone()));
    world.place(1, bank, &record, None);
    world.forge(1, 2, Message::Push { bank, hops: 0, item: stripped });
    assert!(world.run_until(MINUTE, |w| w.node(2).holds(&bank, &record.id())));
    assert_eq!(world.whole_teachings(2, &bank), 0);
    world.heal();
    let both = |w: &mut World| w.whole_teachings(2, &bank) == 1;
    assert!(world.run_until(2 * MINUTE, both), "node 2 asks node 0 when it is back, without a restart");
    assert!(world.agree(&bank, 0..3));
}
