//! Standing connections: a slab of them, and for each node a short sorted list of whom it is connected with.
//!
//! Each end has a state of its own: over a cut link neither hears that the other has given up. When an end last heard something
//! is worked out when it is asked for: pings are answered at regular times, and cost the world nothing.

use crate::link::{Lane, Link};

/// Nothing keeps a connection from answering.
const ALIVE: u64 = u64::MAX;

/// How a node sees its end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The other has dialled, and the handshake is not over here.
    Coming,
    /// It stands.
    Up,
    /// It is given up.
    Gone,
}

/// One end.
#[derive(Debug, Clone, Copy)]
struct End {
    state: State,
    /// When a message came, or an answer to a ping before `answer_ms`, milliseconds.
    heard_ms: u64,
    /// When a ping was or will be answered; and so it goes on, one each [`Connection::answers_every_ms`].
    answer_ms: u64,
}

/// A connection between two nodes.
#[derive(Debug)]
pub(crate) struct Connection {
    /// No other connection of the world has it. 0: the slot is free.
    pub(crate) number: u64,
    low: u32,
    high: u32,
    /// From the lower node to the higher, and back.
    lanes: [Lane; 2],
    ends: [End; 2],
    /// Since when no ping is answered, milliseconds, or [`ALIVE`].
    dead_ms: u64,
    /// There and back, milliseconds, on average.
    round_ms: u32,
    /// From one ping to the next.
    ping_ms: u32,
}

impl Connection {
    /// The two nodes, ascending.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.low as usize, self.high as usize)
    }

    /// The one that is not `node`.
    pub(crate) fn other(&self, node: usize) -> usize {
        if self.low as usize == node { self.high as usize } else { self.low as usize }
    }

    fn side(&self, node: usize) -> usize {
        usize::from(self.low as usize != node)
    }

    /// The direction that begins at `from`.
    pub(crate) fn lane(&mut self, from: usize) -> &mut Lane {
        let side = self.side(from);
        &mut self.lanes[side]
    }

    /// How `node` sees it.
    pub(crate) fn state(&self, node: usize) -> State {
        self.ends[self.side(node)].state
    }

    /// Whether it stands for `node`.
    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.state(node) == State::Up
    }

    /// It stands for `node`, from now on, and is pinged: the first ping after `ping_in_ms`.
    pub(crate) fn rise(&mut self, node: usize, now_ms: u64, ping_in_ms: u64) {
        let side = self.side(node);
        self.ends[side] =
            End { state: State::Up, heard_ms: now_ms, answer_ms: now_ms + ping_in_ms + u64::from(self.round_ms) };
    }

    /// `node` gives it up.
    pub(crate) fn fall(&mut self, node: usize) {
        let side = self.side(node);
        self.ends[side].state = State::Gone;
    }

    /// A message came to `node`.
    pub(crate) fn hears(&mut self, node: usize, now_ms: u64) {
        let side = self.side(node);
        self.ends[side].heard_ms = now_ms;
    }

    fn answers_every_ms(&self) -> u64 {
        u64::from(self.ping_ms + self.round_ms).max(1)
    }

    /// When `node` last heard something: a message or the answer to a ping.
    pub(crate) fn heard_ms(&self, node: usize, now_ms: u64) -> u64 {
        let end = &self.ends[self.side(node)];
        let every = self.answers_every_ms();
        let since = now_ms.min(self.dead_ms).checked_sub(end.answer_ms);
        since.map_or(end.heard_ms, |since| end.heard_ms.max(end.answer_ms + since / every * every))
    }

    /// Whether pings are answered now.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead_ms != ALIVE
    }

    /// From now on no ping is answered: the link is cut, or an end stands still.
    pub(crate) fn die(&mut self, now_ms: u64) {
        self.dead_ms = self.dead_ms.min(now_ms);
    }

    /// Pings are answered again. What was under way is sent again when TCP does so, over these links from the lower node and back;
    /// where no links are given it was not lost but waited at the other end.
    pub(crate) fn revive(&mut self, links: Option<[Link; 2]>, now_ms: u64) {
        let (every, round) = (self.answers_every_ms(), u64::from(self.round_ms));
        for side in 0..2 {
            // The ping that was the first to go without an answer, and when it was sent.
            let end = &self.ends[side];
            let missed = match self.dead_ms.checked_sub(end.answer_ms) {
                Some(since) => end.answer_ms + (since / every + 1) * every,
                None => end.answer_ms,
            };
            let sent_ms = missed.saturating_sub(round);
            let lost = sent_ms < now_ms;
            let mut again_ms = now_ms;
            if let Some(links) = &links {
                if lost {
                    self.lanes[side].stall(sent_ms);
                }
                if let Some(at_ms) = self.lanes[side].resume(&links[side], now_ms) {
                    again_ms = at_ms;
                    // All that is sent waits behind it.
                    self.lanes[side].after(at_ms + links[side].latency_ms);
                }
            }
            if lost {
                let heard_ms = self.heard_ms([self.low, self.high][side] as usize, now_ms);
                self.ends[side].heard_ms = heard_ms;
                self.ends[side].answer_ms = again_ms + round;
            }
        }
        self.dead_ms = ALIVE;
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Connection>,
    free: Vec<u32>,
    /// For each node: the other end and the slot, ascending.
    of: Vec<Vec<(u32, u32)>>,
}

impl Connections {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { of: vec![Vec::new(); nodes], ..Self::default() }
    }

    /// The connection between two nodes: its slot.
    pub(crate) fn between(&self, a: usize, b: usize) -> Option<u32> {
        let of = &self.of[a];
        let at = of.binary_search_by_key(&(b as u32), |(other, _)| *other).ok()?;
        Some(of[at].1)
    }

    /// Makes one that stands for neither end yet; `number` must be new and not 0. `round_ms`: there and back, `ping_ms`: between
    /// two pings, both milliseconds.
    pub(crate) fn open(&mut self, a: usize, b: usize, number: u64, round_ms: u64, ping_ms: u64) -> u32 {
        let (low, high) = (a.min(b) as u32, a.max(b) as u32);
        let short = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX / 2);
        let connection = Connection {
            number,
            low,
            high,
            lanes: [Lane::default(); 2],
            ends: [End { state: State::Coming, heard_ms: 0, answer_ms: 0 }; 2],
            dead_ms: ALIVE,
            round_ms: short(round_ms),
            ping_ms: short(ping_ms),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = connection;
                slot
            }
            None => {
                self.slots.push(connection);
                self.slots.len() as u32 - 1
            }
        };
        for (one, other) in [(low, high), (high, low)] {
            let of = &mut self.of[one as usize];
            if let Err(at) = of.binary_search_by_key(&other, |(other, _)| *other) {
                of.insert(at, (other, slot));
            }
        }
        slot
    }

    /// Ends the one in a slot; gives its number.
    pub(crate) fn close(&mut self, slot: u32) -> Option<u64> {
        let connection = self.slots.get_mut(slot as usize).filter(|c| c.number != 0)?;
        let (number, low, high) = (connection.number, connection.low, connection.high);
        connection.number = 0;
        for (one, other) in [(low, high), (high, low)] {
            self.of[one as usize].retain(|(node, _)| *node != other);
        }
        self.free.push(slot);
        Some(number)
    }

    /// The connection in a slot, if it is still the one of this number.
    pub(crate) fn get(&self, slot: u32, number: u64) -> Option<&Connection> {
        self.slots.get(slot as usize).filter(|c| c.number == number)
    }

    /// The same, to change.
    pub(crate) fn get_mut(&mut self, slot: u32, number: u64) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize).filter(|c| c.number == number)
    }

    /// The number of the connection in a slot.
    pub(crate) fn number(&self, slot: u32) -> Option<u64> {
        self.slots.get(slot as usize).map(|c| c.number).filter(|number| *number != 0)
    }

    /// Whom a node is connected with, ascending, and over which slots.
    pub(crate) fn of(&self, node: usize) -> Vec<(usize, u32)> {
        self.of[node].iter().map(|(other, slot)| (*other as usize, *slot)).collect()
    }

    /// Every connection that stands, by slot.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Connection)> {
        (0..).zip(&self.slots).filter(|(_, connection)| connection.number != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_is_another_connection() {
        let mut all = Connections::new(3);
        let first = all.open(2, 0, 7, 100, 10_000);
        assert_eq!((all.between(0, 2), all.between(2, 0), all.between(0, 1)), (Some(first), Some(first), None));
        assert_eq!(all.close(first), Some(7));
        assert_eq!((all.close(first), all.between(0, 2)), (None, None));
        let second = all.open(1, 2, 8, 100, 10_000);
        assert_eq!(first, second);
        assert!(all.get(second, 7).is_none() && all.get(second, 8).is_some());
        assert_eq!(all.of(2), [(1, second)]);
        assert_eq!(all.all().count(), 1);
    }

    /// A connection of nodes 0 and 1 that stands for both since this time.
    fn standing(since_ms: u64) -> Connection {
        let mut all = Connections::new(2);
        let slot = all.open(0, 1, 1, 100, 10_000);
        let mut connection = all.slots.remove(slot as usize);
        [0, 1].into_iter().for_each(|node| connection.rise(node, since_ms, 0));
        connection
    }

    #[test]
    fn an_end_hears_messages_and_the_answer_to_a_ping_each_interval_and_round_trip() {
        let mut connection = standing(1_000);
        let heard = |c: &Connection, now| c.heard_ms(0, now);
        assert_eq!(heard(&connection, 1_050), 1_000);
        assert_eq!(heard(&connection, 11_199), 1_100);
        assert_eq!(heard(&connection, 11_200), 11_200);
        connection.hears(0, 15_000);
        assert_eq!((heard(&connection, 16_000), connection.heard_ms(1, 16_000)), (15_000, 11_200));
        connection.die(18_000);
        assert_eq!((heard(&connection, 60_000), connection.heard_ms(1, 60_000)), (15_000, 11_200));
    }

    #[test]
    fn a_ping_that_a_cut_swallowed_is_answered_when_tcp_has_sent_it_again() {
        let link = Link { latency_ms: 50, ..Link::default() };
        let mut connection = standing(0);
        // Answers at 100, 10,200, 20,300; so a ping goes at 20,200, and again 300, 900 and 2,100 ms later.
        connection.die(15_000);
        connection.revive(Some([link; 2]), 21_500);
        assert_eq!(connection.heard_ms(0, 22_000), 10_200);
        assert_eq!(connection.heard_ms(0, 22_400), 22_400);
        assert_eq!(connection.lane(0).after(0), 22_350, "what is sent meanwhile waits behind it");
        // A cut between two pings is not even noticed.
        connection.die(24_000);
        connection.revive(Some([link; 2]), 29_000);
        assert_eq!(connection.heard_ms(0, 32_500), 32_500);
        // Who stood still answers at once.
        connection.die(40_000);
        connection.revive(None, 50_000);
        assert_eq!(connection.heard_ms(1, 50_100), 50_100);
    }
}
