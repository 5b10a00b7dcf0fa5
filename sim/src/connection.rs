//! Standing connections: a slab of them, and for each node a short sorted list of whom it is connected with.

use crate::link::Lane;

/// A connection between two nodes.
#[derive(Debug)]
pub(crate) struct Connection {
    /// No other connection of the world has it. 0: the slot is free.
    pub(crate) number: u64,
    low: u32,
    high: u32,
    /// From the lower node to the higher, and back.
    lanes: [Lane; 2],
}

impl Connection {
    /// The two nodes, ascending.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.low as usize, self.high as usize)
    }

    /// The direction that begins at `from`.
    pub(crate) fn lane(&mut self, from: usize) -> &mut Lane {
        &mut self.lanes[usize::from(self.low as usize != from)]
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

    /// Makes one; `number` must be new and not 0.
    pub(crate) fn open(&mut self, a: usize, b: usize, number: u64) -> u32 {
        let (low, high) = (a.min(b) as u32, a.max(b) as u32);
        let connection = Connection { number, low, high, lanes: [Lane::default(); 2] };
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
        let first = all.open(2, 0, 7);
        assert_eq!((all.between(0, 2), all.between(2, 0), all.between(0, 1)), (Some(first), Some(first), None));
        assert_eq!(all.close(first), Some(7));
        assert_eq!((all.close(first), all.between(0, 2)), (None, None));
        let second = all.open(1, 2, 8);
        assert_eq!(first, second);
        assert!(all.get(second, 7).is_none() && all.get(second, 8).is_some());
        assert_eq!(all.of(2), [(1, second)]);
        assert_eq!(all.all().count(), 1);
    }
}
