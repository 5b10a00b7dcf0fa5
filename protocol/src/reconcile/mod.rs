//! Reconcile: two peers find which records only one of them holds, at the cost of what differs.
//!
//! # The ladder
//!
//! 1. **Roots.** Equal roots end it: at the greeting, or with one [`Message::Compare`](crate::Message::Compare) and its answer, 119 bytes, without a
//!    look at any record.
//! 2. **Cells.** A rateless invertible Bloom lookup table (Yang, Gilad, Alizadeh: *Practical Rateless Set Reconciliation*,
//!    SIGCOMM 2024, arXiv 2402.02668). Each id falls into cell 0 and into cell `i` with probability 1 / (1 + i / 2); a cell is
//!    the XOR of the short ids in it and of a check of each. The XOR of two sets' cells is the cells of their difference,
//!    since what is common cancels. A cell with one id left in it gives that id; taking it out of its other cells leaves more
//!    of them with one, and so on until all are empty. About 1.36 cells an id that differs are enough, however large the sets,
//!    and any first part of the endless row of cells is a code: whoever has sent too few goes on where it stopped.
//! 3. **Salted cells.** The same under short ids that are hashes of the ids under nonces of both sides.
//! 4. **The tree.** A walk down the id-prefix tree of [`crate::known`], which needs no luck and always ends.
//!
//! # A session
//!
//! The opener sends its first cells, as many as the difference in the number of records calls for, between [`MIN_CELLS`] and
//! those it keeps. The answerer subtracts its own, which it keeps at hand too ([`sketch`]), and takes the rest apart. If that
//! works it says what the opener lacks and fetches what it lacks itself: one round trip. If not it answers with 640 bytes of
//! [`estimate`], or without them if half came apart, and the opener sends as many cells more as that calls for, with so many
//! to spare ([`SPARE_CELLS`]) that they fail once in a thousand times: two round trips.
//!
//! Who has little reason to think that anything differs (the timer, a person who says "sync") sends its root alone first.
//!
//! The answerer keeps the cells that came and subtracts its own of the moment when it tries; so nothing that arrives there
//! meanwhile does harm. The opener keeps its cells of the beginning, for as far as it kept any, and starts anew with a fresh
//! head if it is asked for more than that and its set has changed.
//!
//! Records then travel by [`crate::fetch`], each batch durable before it counts as known. What a session found stays wanted
//! of that peer when the connection breaks. After the next greeting, which says so, it is fetched first and only then compared
//! again; so a link that breaks every few seconds pays for the finding once. Which records come first is not
//! decided here, since of a record that is missing only the short id is known, and that is a hash; see [`crate::suggest`].
//!
//! # Why there is no salt on the first rung, and no count
//!
//! The cells on both sides must be made with one key, and they are kept up to date, so the key cannot change with the session.
//! A key that both know, for example one derived from the bank's id, is known to everybody in the bank. But a record's id is
//! such a keyed hash already: BLAKE3 in a context of its own of fields that hold the bank's id. So the short id is its first
//! eight bytes. Somebody in the bank can prepare two records that share them, with the work of 2^32 hashes, no more and no
//! less than with a further hash on top; nobody outside can put records there. The gain is that a short id leads to its record
//! through the tree of ids, and no table of short ids needs to be kept.
//!
//! The paper's cells also hold a count. What it is for, to tell which side an id is from, the answerer sees by looking the id
//! up, and the check tells a cell with one id; so the count would be a tenth of all bytes for nothing.
//!
//! # Never wrong
//!
//! What the cells gave stands only if
//! * every cell is empty once all ids found are taken out, and no id came twice;
//! * each of the answerer's own is one record and no more;
//! * the numbers of records on both sides differ by just what was found;
//! * and, once the answerer has fetched what it lacked, the sums of both sets differ by just that: a sum over 128 bits of each
//!   id that are not in the short id. Two records with one short id cancel in all cells, be they on one side or one on
//!   either, but not in the sum.
//!
//! If any of these fails the session goes on at the next rung, for which nobody can have prepared anything. Only then does the
//! answerer say "done", and neither side counts itself complete before. A node whose records can only be compared by
//! the tree still is compared, and a peer that lies about its cells only makes its own session longer.
//!
//! # What strangers can make of it
//!
//! | attack | what it meets |
//! | --- | --- |
//! | colliding short ids | the checks above, then the salt, then the tree |
//! | endless cells | [`MAX_SESSION_CELLS`], and never more than both sets together could call for; then the tree |
//! | a claimed size that is a lie | it only sizes the first batch, within the same bound; the numbers must fit at the end |
//! | cells that mean nothing | taking them apart ends after as many ids as cells, and is tried again only once there are a good part more |
//! | ids announced, then gone | what nobody here has is forgotten first when the list of missing records is full |
//! | many large sessions at once | [`MAX_LARGE`] a bank, then the tree, for which the answerer keeps nothing |
//! | making this node code its set under ever new salts | once in [`SALTED_EVERY_MS`] a bank, then the tree |
//! | records found and never delivered | they are asked for like any other, of others too; the session does not complete |
//!
//! # Cost
//!
//! | | |
//! | --- | --- |
//! | an id that differs | 1.36 to 1.6 cells of 12 bytes, and 8 bytes if it is the opener that lacks it |
//! | a session | 145 bytes around them, 190 more and the estimate if it takes a second round trip |
//! | a record that comes | about 15 cells, one bit of the estimate, one sum: a quarter of a microsecond |
//! | a bank | 12 bytes a cell, one cell for 4 records, 64 to 4,096 cells; 640 bytes of estimate; 8 bytes for the short id of each record |
//! | a session beyond the kept cells | one walk over the short ids on either side, in steps of a few milliseconds ([`coding`]); the cells are kept until the timer next finds them unused |
//!
//! Measured by `cargo bench -p folklore-protocol --bench reconcile`.

mod answerer;
mod cells;
mod coding;
mod estimate;
mod opener;
mod session;
mod sketch;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use walk::Offered;

pub(crate) use answerer::CellBatch;
pub use cells::Cell;
pub(crate) use coding::Coding;
pub use estimate::ESTIMATE_BYTES;
pub(crate) use session::{Responding, Session, Which};
pub(crate) use sketch::Sketch;

/// Fewest cells a sketch begins with: they tell ten differences apart in 97 of 100 cases and cost 336 bytes.
const MIN_CELLS: usize = 28;
/// Cells sent beyond those that do in 99 of 100 cases, where being short costs a third round trip: then they do in 999 of
/// 1,000 (measured for differences of 10 to 2,000; see the test of round trips). 672 bytes.
const SPARE_CELLS: usize = 56;
/// Most cells of one session, enough for 190,000 differences; 3 MiB. Beyond that the tree costs little more, and needs no memory.
const MAX_SESSION_CELLS: usize = 1 << 18;
/// Batches of cells an opener sends before it takes them for hopeless.
const MAX_BATCHES: u32 = 8;
/// Sessions of one bank with more cells than a bank keeps that are answered at once.
const MAX_LARGE: usize = 4;
/// A bank is coded under a salt for strangers at most this often. It takes half a second for a million records.
const SALTED_EVERY_MS: u64 = 5_000;
/// Most records given for one short id. So many that share one take 2^56 hashes to prepare.
pub(crate) const MAX_SAME_SHORT: usize = 8;
