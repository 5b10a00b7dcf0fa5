//! What carries messages in a simulated world, as TCP and the daemon's network do it (`node/src/network`): dials that knock again
//! and time out, handshakes of several trips, pings by which each end finds out for itself that nothing comes any more, and what
//! a cut stops, which TCP sends again.
//!
//! Where its numbers come from: how often is pinged and how long a dial may take are the daemon's own ([`PING_INTERVAL_MS`],
//! [`DIAL_TIMEOUT_MS`]), TCP's timers are Linux's ([`crate::link`]), and the trips of a handshake are counted on the wire: see
//! [`World::knock`].

use folklore_protocol::{DIAL_TIMEOUT_MS, DialTarget, Event, PING_INTERVAL_MS, SILENCE_CHECK_MS};

use crate::{
    connection::State,
    fact::Fact,
    heap::Happening,
    link::{DIAL_AT_MS, Passage},
    observe::LossCause,
    world::World,
};

impl World {
    /// What happens to connections.
    pub(crate) fn carry_on(&mut self, happening: Happening) {
        match happening {
            // What an earlier life dialled is nothing to this one.
            Happening::Knock { from, life, .. }
            | Happening::DialEnds { from, life, .. }
            | Happening::DialFails { from, life, .. }
                if !self.lives(from, life) => {}
            Happening::Knock { from, to, life, again, began_ms } => {
                self.knock((from as usize, to as usize), life, again, began_ms);
            }
            Happening::DialEnds { from, to, life, later_ms, began_ms } => {
                self.dial_ends((from as usize, to as usize), life, later_ms, began_ms);
            }
            Happening::DialFails { from, to, .. } => {
                let target = DialTarget::Peer(self.author(to as usize));
                self.handle(from as usize, Event::DialFailed { target, own: false });
            }
            Happening::Accepted { to, slot, connection } => self.accepted(to as usize, slot, connection),
            Happening::Hangup { from, to, slot, connection } => {
                self.hung_up((from as usize, to as usize), slot, connection);
            }
            Happening::Silence { node, slot, connection } => self.look_for_silence(node as usize, slot, connection),
            Happening::GoesOn { node } => self.goes_on(node as usize),
            _ => {}
        }
    }

    /// The first packet of a dial is sent, `again` times after the first.
    ///
    /// Where it comes through, TCP takes one trip there and back and Noise another; with its third message the dialler asks for
    /// Yamux and a stream of ours in it, and the acknowledgement of that stream makes its session, after three round trips. The
    /// other has it when the stream that it opens in turn is acknowledged, one trip later.
    pub(crate) fn knock(&mut self, (from, to): (usize, usize), life: u32, again: u8, began_ms: u64) {
        let now_ms = self.now_ms;
        let open = self.links.is_open(from, to);
        // A cut that keeps two nodes from connecting cuts traffic, though no message was sent.
        self.counters.stopped += u64::from(again == 0 && !open && self.nodes[to].up);
        let fails = Happening::DialFails { from: from as u32, to: to as u32, life };
        let gives_up_ms = began_ms + DIAL_TIMEOUT_MS;
        let target = &self.nodes[to];
        // The machine of a process that died says that nobody listens; one without power says nothing.
        let refuses = !target.up && target.settles.is_some();
        if !open || !(target.up || refuses) {
            match DIAL_AT_MS.get(usize::from(again) + 1) {
                Some(after_ms) => {
                    let (from, to, again) = (from as u32, to as u32, again + 1);
                    self.schedule_at(began_ms + after_ms, Happening::Knock { from, to, life, again, began_ms });
                }
                None => self.schedule_at(gives_up_ms, fails),
            }
            return;
        }
        let starts_ms = target.paused_until.map_or(now_ms, |until| until.max(now_ms));
        let (there, back) = (self.links.get(from, to), self.links.get(to, from));
        let rng = &mut self.nodes[from].rng;
        let mut round = || there.trip_ms(rng) + back.trip_ms(rng);
        if refuses {
            let answered_ms = round();
            self.schedule(answered_ms, fails);
            return;
        }
        let connected_ms = starts_ms + round() + round();
        let (session_ms, later_ms) = (connected_ms + round(), there.trip_ms(rng));
        if connected_ms >= gives_up_ms {
            self.schedule_at(gives_up_ms, fails);
        } else {
            let (from, to, later_ms) = (from as u32, to as u32, u32::try_from(later_ms).unwrap_or(u32::MAX));
            self.schedule_at(session_ms, Happening::DialEnds { from, to, life, later_ms, began_ms });
        }
    }

    fn dial_ends(&mut self, (from, to): (usize, usize), life: u32, later_ms: u32, began_ms: u64) {
        let now_ms = self.now_ms;
        if !self.nodes[to].up || !self.links.is_open(from, to) {
            // Since the handshake began.
            let fails = Happening::DialFails { from: from as u32, to: to as u32, life };
            self.schedule_at(now_ms.max(began_ms + DIAL_TIMEOUT_MS), fails);
            return;
        }
        let (there, back) = (self.links.get(from, to), self.links.get(to, from));
        let round_ms = there.mean_trip_ms() + back.mean_trip_ms();
        let standing = self.connections.between(from, to).and_then(|slot| Some((slot, self.connections.number(slot)?)));
        if let Some((slot, number)) = standing {
            match self.connections.get(slot, number).map(|c| c.state(from)) {
                // Both dialled at once, and the other was faster.
                Some(State::Up) => return,
                Some(State::Coming) => {
                    // It will stand in a moment, unless the link is cut before.
                    let (from, to) = (from as u32, to as u32);
                    self.schedule(round_ms.max(1), Happening::DialEnds { from, to, life, later_ms, began_ms });
                    return;
                }
                // The other end has not found out that this one gave it up. Now it does: a new one takes its place.
                _ => self.hung_up((from, to), slot, number),
            }
        }
        self.sequence += 1;
        let number = self.sequence;
        let slot = self.connections.open(from, to, number, round_ms, PING_INTERVAL_MS);
        let accepted_ms = now_ms + u64::from(later_ms);
        let ping_in_ms = self.first_ping_in_ms();
        if let Some(connection) = self.connections.get_mut(slot, number) {
            connection.rise(from, now_ms, ping_in_ms);
            // What is said at once waits there until the other has its session.
            connection.lane(from).after(accepted_ms);
        }
        self.schedule_at(accepted_ms, Happening::Accepted { to: to as u32, slot, connection: number });
        self.tell(Fact::Connected { at_ms: now_ms, a: from, b: to });
        self.handle(from, Event::Connected { peer: self.author(to), dialled: Some(format!("sim/{to}")) });
    }

    /// After how long a new connection is first pinged: at once. Those of the beginning count as made before it, by up to a whole
    /// interval, as nodes are up for some time when something begins; else all of an experiment would hang on how long before a
    /// fault its clock was started. How much is drawn once for a run; a run on real processes waits as long.
    fn first_ping_in_ms(&self) -> u64 {
        if self.now_ms < PING_INTERVAL_MS { PING_INTERVAL_MS - self.up_since_ms } else { 0 }
    }

    fn accepted(&mut self, to: usize, slot: u32, number: u64) {
        let (now_ms, ping_in_ms) = (self.now_ms, self.first_ping_in_ms());
        let Some(connection) = self.connections.get_mut(slot, number) else { return };
        let from = connection.other(to);
        if connection.state(to) != State::Coming {
            return;
        }
        if !self.links.is_open(from, to) || !self.nodes[to].up {
            // The handshake breaks off here; who dialled finds out by the silence, or when this end's machine can say so.
            self.give_up(to, slot, number);
            return;
        }
        connection.rise(to, now_ms, ping_in_ms);
        let peer = self.author(from);
        self.handle(to, Event::Connected { peer, dialled: None });
        // The two tell each other where they can be dialled (identify), so whichever finds the other gone dials it.
        self.handle(to, Event::AddressLearned { peer: Some(peer), address: format!("sim/{from}"), keep: false });
    }

    /// Node `n` gives up its end of a connection, and hears that it is over.
    pub(crate) fn let_go(&mut self, n: usize, slot: u32, number: u64) {
        let Some((was_up, other)) = self.connections.get(slot, number).map(|c| (c.is_up(n), c.other(n))) else {
            return;
        };
        self.give_up(n, slot, number);
        if was_up {
            self.handle(n, Event::Disconnected { peer: self.author(other) });
        }
    }

    /// Takes down the end of node `n`. The other one is told, as soon as that can be.
    fn give_up(&mut self, n: usize, slot: u32, number: u64) {
        let Some(connection) = self.connections.get_mut(slot, number) else { return };
        let other = connection.other(n);
        if connection.state(n) == State::Gone {
            return;
        }
        connection.fall(n);
        let others = connection.state(other);
        self.forget_requests(n, other);
        let at_ms = self.now_ms;
        if others == State::Gone {
            self.shut(slot, number);
            return;
        }
        let (low, high) = (n.min(other), n.max(other));
        self.tell(Fact::Disconnected { at_ms, a: low, b: high });
        let hangup = Happening::Hangup { from: n as u32, to: other as u32, slot, connection: number };
        let passage = self.links.passage(n, other);
        if passage != Passage::Open {
            self.keep_back(passage, hangup);
            return;
        }
        let trip_ms = self.links.get(n, other).trip_ms(&mut self.nodes[n].rng);
        if let Some(connection) = self.connections.get_mut(slot, number) {
            let arrives_ms = connection.lane(n).after(at_ms + trip_ms);
            self.schedule_at(arrives_ms, hangup);
        }
    }

    /// Node `to` hears that the other end of a connection is gone.
    fn hung_up(&mut self, (from, to): (usize, usize), slot: u32, number: u64) {
        let Some(was_up) = self.connections.get(slot, number).map(|c| c.is_up(to)) else { return };
        let passage = self.links.passage(from, to);
        if passage != Passage::Open {
            let (from, to) = (from as u32, to as u32);
            self.keep_back(passage, Happening::Hangup { from, to, slot, connection: number });
            return;
        }
        self.forget_requests(from, to);
        self.shut(slot, number);
        if was_up {
            self.handle(to, Event::Disconnected { peer: self.author(from) });
        }
    }

    /// A connection is no more, at either end: what waited to come over it never will.
    fn shut(&mut self, slot: u32, number: u64) {
        self.connections.close(slot);
        let at_ms = self.now_ms;
        for waited in self.held.remove(&number).unwrap_or_default() {
            if let Happening::Deliver { from, to, .. } = waited {
                self.counters.lost += 1;
                let (from, to) = (from as usize, to as usize);
                self.tell(Fact::Lost { at_ms, from, to, cause: LossCause::Cut });
            }
        }
    }

    /// Nothing comes back over a connection from now on, and these ends will notice.
    pub(crate) fn goes_silent(&mut self, slot: u32, number: u64, ends: &[usize]) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connections.get_mut(slot, number) else { return };
        connection.die(now_ms);
        for node in ends {
            self.look_for_silence(*node, slot, number);
        }
    }

    /// Node `n` looks whether a connection is silent, as it does every [`SILENCE_CHECK_MS`]; while it may become so it does again.
    fn look_for_silence(&mut self, n: usize, slot: u32, number: u64) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connections.get(slot, number).filter(|c| c.is_up(n)) else { return };
        let silent_ms = connection.heard_ms(n, now_ms) + self.config.silent_ms;
        if silent_ms < now_ms {
            self.let_go(n, slot, number);
        } else if connection.is_dead() {
            // The first look after that.
            let looks_ms = self.nodes[n].looks_ms;
            let at_ms = (silent_ms + SILENCE_CHECK_MS - looks_ms) / SILENCE_CHECK_MS * SILENCE_CHECK_MS + looks_ms;
            let node = n as u32;
            self.schedule_at(at_ms.max(now_ms), Happening::Silence { node, slot, connection: number });
        }
    }

    /// Node `n` stood still until now; what came meanwhile waited for it.
    fn goes_on(&mut self, n: usize) {
        let now_ms = self.now_ms;
        if self.paused_until(n).is_some() {
            return;
        }
        for (other, slot) in self.connections.of(n) {
            if self.links.is_open(n, other)
                && self.paused_until(other).is_none()
                && let Some(number) = self.connections.number(slot)
                && let Some(connection) = self.connections.get_mut(slot, number).filter(|c| c.is_dead())
            {
                connection.revive(None, now_ms);
            }
        }
    }

    /// A message that a partition does not let pass.
    pub(crate) fn stopped(&mut self, passage: Passage, delivery: Happening) {
        let Happening::Deliver { from, to, .. } = &delivery else { return };
        let (at_ms, from, to) = (self.now_ms, *from as usize, *to as usize);
        self.counters.stopped += 1;
        self.tell(Fact::Held { at_ms, from, to });
        self.keep_back(passage, delivery);
    }

    /// Something that goes over a connection waits until a partition lets it pass.
    fn keep_back(&mut self, passage: Passage, what: Happening) {
        let (Happening::Deliver { from, slot, connection: number, .. }
        | Happening::Hangup { from, slot, connection: number, .. }) = &what
        else {
            return;
        };
        let (from, number, now_ms) = (*from as usize, *number, self.now_ms);
        let Some(connection) = self.connections.get_mut(*slot, number) else { return };
        if passage == Passage::Cut {
            connection.lane(from).stall(now_ms);
        }
        self.held.entry(number).or_default().push(what);
    }

    /// A partition is over. What it held comes now, in the order it was sent, behind what is under way; what a cut stopped comes
    /// when TCP sends it again.
    pub(crate) fn release(&mut self) {
        let now_ms = self.now_ms;
        let is_back = |a: usize, b: usize| {
            self.links.is_open(a, b) && self.paused_until(a).is_none() && self.paused_until(b).is_none()
        };
        let back: Vec<(u32, u64, usize, usize)> = self
            .connections
            .all()
            .filter(|(_, connection)| connection.is_dead())
            .map(|(slot, connection)| (slot, connection.number, connection.ends()))
            .filter(|(.., (a, b))| is_back(*a, *b))
            .map(|(slot, number, (a, b))| (slot, number, a, b))
            .collect();
        for (slot, number, a, b) in back {
            let links = [self.links.get(a, b), self.links.get(b, a)];
            if let Some(connection) = self.connections.get_mut(slot, number) {
                connection.revive(Some(links), now_ms);
            }
        }
        for (number, waiting) in std::mem::take(&mut self.held) {
            for what in waiting {
                let (Happening::Deliver { from, to, slot, .. } | Happening::Hangup { from, to, slot, .. }) = &what
                else {
                    continue;
                };
                let (from, to, slot) = (*from as usize, *to as usize, *slot);
                if self.links.passage(from, to) != Passage::Open {
                    self.held.entry(number).or_default().push(what);
                    continue;
                }
                let at_ms = now_ms + self.links.get(from, to).latency_ms;
                if let Some(connection) = self.connections.get_mut(slot, number) {
                    let at_ms = connection.lane(from).after(at_ms);
                    self.schedule_at(at_ms, what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{link::Link, world::WorldConfig};

    /// Two nodes that are connected and have a bank; the first has told the second where it is.
    fn pair(seed: u64) -> World {
        let link = Link { latency_ms: 50, jitter_ms: 10, ..Link::default() };
        let mut world = World::new(WorldConfig { seed, link, tells_facts: true, ..WorldConfig::default() });
        world.open_bank(0, 0..2);
        world.introduce(1, 0);
        assert!(world.run_until(1_000, |world| sees(world, 0) && sees(world, 1)), "they meet");
        world
    }

    /// Whether a node of the pair takes the other for connected.
    fn sees(world: &World, n: usize) -> bool {
        world.node(n).peers().get(&world.author(1 - n)).is_some_and(|peer| peer.connected)
    }

    fn connected(world: &mut World) -> usize {
        let mut facts = Vec::new();
        world.take_facts(&mut facts);
        facts.iter().filter(|fact| matches!(fact, Fact::Connected { .. })).count()
    }

    #[test]
    fn who_dials_has_a_session_after_three_round_trips_and_the_other_half_a_one_later() {
        let link = Link { latency_ms: 50, jitter_ms: 0, ..Link::default() };
        let mut world = World::new(WorldConfig { seed: 1, link, ..WorldConfig::default() });
        world.open_bank(0, 0..2);
        world.introduce(1, 0);
        assert!(world.run_until(1_000, |world| sees(world, 1)));
        assert_eq!((world.now_ms(), sees(&world, 0)), (300, false));
        assert!(world.run_until(1_000, |world| sees(world, 0)));
        assert_eq!(world.now_ms(), 350);
    }

    #[test]
    fn each_end_of_a_cut_connection_finds_out_by_its_own_pings() {
        let (mut first, mut apart) = (Vec::new(), 0);
        for seed in 0..20 {
            let mut world = pair(seed);
            // Pings go at different times of the seconds before the cut.
            world.run_for(60_000 + seed * 511);
            world.cut(&[0], &[1]);
            let cut_ms = world.now_ms();
            assert!(world.run_until(30_000, |world| !sees(world, 0) || !sees(world, 1)));
            first.push(world.now_ms() - cut_ms);
            assert!(world.run_until(2_000, |world| !sees(world, 0) && !sees(world, 1)), "they were pinged together");
            apart += u32::from(world.now_ms() - cut_ms > *first.last().unwrap());
        }
        assert!(first.iter().all(|ms| (9_900..=21_000).contains(ms)), "{first:?}");
        let (least, most) = (first.iter().min().unwrap(), first.iter().max().unwrap());
        assert!(most - least > 5_000, "{first:?}");
        assert!(apart > 10, "each looks at its own times");
    }

    #[test]
    fn a_connection_outlives_a_short_cut_and_what_was_said_meanwhile_comes_late() {
        let mut world = pair(3);
        let bank = world.bank_of(0);
        world.run_for(5_000);
        connected(&mut world);
        world.cut(&[0], &[1]);
        let id = world.teach(0, bank, 1).unwrap();
        world.run_for(5_000);
        world.heal();
        let healed_ms = world.now_ms();
        assert!(world.run_until(10_000, |world| world.node(1).holds(&bank, &id)));
        // Sent again 300, 900, 2,100, 4,500 and 9,300 ms after it was first sent.
        let late_ms = world.now_ms() - healed_ms;
        assert!((4_300..4_500).contains(&late_ms), "{late_ms}");
        world.run_for(60_000);
        assert_eq!(connected(&mut world), 0, "it is the connection they had");
        assert_eq!(world.counters().lost, 0);
    }

    #[test]
    fn a_dial_that_begins_in_a_cut_connects_when_its_first_packet_is_sent_again() {
        let mut world = pair(4);
        world.cut(&[0], &[1]);
        assert!(world.run_until(30_000, |world| !sees(world, 0) && !sees(world, 1)));
        world.run_for(4_000);
        world.heal();
        let healed_ms = world.now_ms();
        assert!(world.run_until(10_000, |world| sees(world, 0) && sees(world, 1)));
        let took_ms = world.now_ms() - healed_ms;
        // The dial of the first second after the end began is under way all that time.
        assert!((350..4_500).contains(&took_ms), "{took_ms}");
        assert_eq!(connected(&mut world), 2);
    }

    #[test]
    fn a_new_connection_takes_the_place_of_one_that_only_one_end_has_given_up() {
        let mut world = pair(5);
        world.run_for(3_000);
        let slot = world.connections.between(0, 1).unwrap();
        let number = world.connections.number(slot).unwrap();
        world.cut(&[0], &[1]);
        world.let_go(0, slot, number);
        assert!(!sees(&world, 0) && sees(&world, 1));
        world.heal();
        // Its farewell is under way, and so is its next dial; whichever comes first, they end up connected, once.
        world.run_for(5_000);
        assert!(sees(&world, 0) && sees(&world, 1));
        assert_eq!(world.connections.all().count(), 1);
    }

    #[test]
    fn who_stands_still_for_long_is_given_up_and_told_when_it_goes_on() {
        let mut world = pair(6);
        world.run_for(5_000);
        world.pause(1, 40_000);
        assert!(world.run_until(21_000, |world| !sees(world, 0)));
        assert!(sees(&world, 1), "it cannot know");
        world.run_for(60_000);
        assert!(sees(&world, 0) && sees(&world, 1));
        let mut brief = pair(7);
        brief.run_for(5_000);
        connected(&mut brief);
        brief.pause(1, 5_000);
        brief.run_for(60_000);
        assert_eq!(connected(&mut brief), 0, "a short one goes unnoticed");
    }
}
