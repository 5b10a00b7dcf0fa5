//! What a reconcile costs on the wire, records and bodies included, and what cuts add to it.

mod figures;

use figures::{MINUTE, two};
use folklore_protocol::Message;

#[test]
fn a_catch_up_costs_little_more_than_the_records_and_bodies_themselves() {
    let ratio = figures::catch_up_with_bodies();
    println!("{ratio:.3} of their own bytes");
    assert!(ratio <= 1.12, "{ratio}");
}

#[test]
fn a_catch_up_cut_at_a_hundred_points_costs_little_more_than_uncut() {
    let ratio = figures::catch_up_with_cuts();
    println!("{ratio:.3} of uncut");
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
