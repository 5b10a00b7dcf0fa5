//! Work on many values at once, results in order: reading, hashing and decoding share no state, taking in what was read
//! does.

use std::{sync::mpsc::sync_channel, thread};

/// Blocks of results that wait for whoever takes them in, for each thread. Bounds the memory.
const WAITING: usize = 2;
/// Threads that a machine has for such work.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on each item, on all cores, and `take` on each result, in the order of the items, on this thread. A thread
/// takes `block` items at a time; fewer than two blocks are not worth one. `start` makes what a thread keeps between items.
/// Ends with the first error of `take`.
pub(super) fn in_order<T: Sync, S, R: Send, E>(
    items: &[T],
    block: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    if items.len() < 2 * block {
        let mut state = start();
        return items.iter().try_for_each(|item| take(work(&mut state, item)));
    }
    let threads = threads();
    thread::scope(|scope| {
        let mut results = Vec::with_capacity(threads);
        for first in 0..threads {
            let (send, receive) = sync_channel::<Vec<R>>(WAITING);
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                let mut state = start();
                for part in items.chunks(block).skip(first).step_by(threads) {
                    // Nobody takes any more after an error.
                    if send.send(part.iter().map(|item| work(&mut state, item)).collect()).is_err() {
                        return;
                    }
                }
            });
            results.push(receive);
        }
        for n in 0..items.len().div_ceil(block) {
            // A thread that panicked is silent; the scope passes its panic on.
            let Ok(done) = results[n % threads].recv() else { break };
            done.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_and_stop_at_an_error() {
        let items: Vec<usize> = (0..20_007).collect();
        let mut seen = Vec::new();
        let done: Result<(), ()> = in_order(
            &items,
            1000,
            || 0,
            |_, n| *n,
            |n| {
                seen.push(n);
                Ok(())
            },
        );
        assert_eq!((done, &seen), (Ok(()), &items));
        let mut count = 0;
        let stopped = in_order(
            &items,
            1000,
            || (),
            |(), n| *n,
            |n| {
                count += 1;
                if n == 3000 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!((stopped, count), (Err(3000), 3001));
    }
}
