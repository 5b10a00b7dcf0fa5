//! Cells beyond those that a bank keeps are made of its whole set: in steps, between which the node does whatever else is due.
//! The sessions that need them wait.

use crate::{
    bank::BankId,
    identity::AuthorId,
    node::{Node, Timer},
    time::Time,
};

/// Between two steps, milliseconds: what came meanwhile has its turn.
const PAUSE_MS: u64 = 1;

/// A session that waits for cells.
#[derive(Debug)]
pub(crate) struct Coding {
    pub(super) peer: AuthorId,
    pub(super) session: u64,
    /// How many it needs.
    pub(super) cells: usize,
    pub(super) goal: Goal,
}

/// What it goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// As the opener: it sends cells `from..to`.
    Send { from: usize, to: usize },
    /// As the answerer: it takes the difference apart.
    Try,
}

impl Coding {
    fn takes_place_of(&self, other: &Self) -> bool {
        self.peer == other.peer && (self.goal == Goal::Try) == (other.goal == Goal::Try)
    }
}

impl Node {
    /// Whether a bank has as many cells as a session needs. If not they are made from now on, and then the session goes on.
    pub(super) fn has_cells(&mut self, bank: BankId, coding: Coding, now: Time) -> bool {
        let Some(state) = self.banks.get_mut(&bank) else { return false };
        if state.known.make_cells(coding.cells) {
            return true;
        }
        let first = state.coding.is_empty();
        state.coding.retain(|other| !coding.takes_place_of(other));
        state.coding.push(coding);
        if first {
            self.set_timer(now + PAUSE_MS, Timer::Code { bank });
        }
        false
    }

    /// The next step.
    pub(crate) fn coding_due(&mut self, bank: BankId, now: Time) {
        let Some(state) = self.banks.get_mut(&bank) else { return };
        let Some(cells) = state.coding.iter().map(|coding| coding.cells).max() else { return };
        if !state.known.make_cells(cells) {
            self.set_timer(now + PAUSE_MS, Timer::Code { bank });
            return;
        }
        for Coding { peer, session, goal, .. } in std::mem::take(&mut state.coding) {
            let Some(state) = self.banks.get(&bank) else { return };
            match goal {
                Goal::Send { from, to } if state.sessions.get(&peer).is_some_and(|s| s.number == session) => {
                    self.send_cells(bank, peer, from, to, now);
                }
                Goal::Try if state.responding.get(&peer).is_some_and(|r| r.session == session) => {
                    self.try_sketch(bank, peer, now);
                }
                _ => {}
            }
        }
    }
}
