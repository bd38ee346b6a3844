//! Runs independent jobs at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Minimum number of rows; below it a thread costs more than it saves.
const MANY_ROWS: usize = 1 << 17;

/// Runs both jobs, the first on a thread of its own if there are many `rows` (2^17): below, a
/// thread costs more than it saves. A panic of either is propagated.
pub fn both<A: Send, B>(
    rows: usize,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if rows < MANY_ROWS {
        return (first(), second());
    }
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        match first.join() {
            Ok(first) => (first, second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Calls `one` with the place of each job and the job, up to `threads` at once, and returns the results in the order of the jobs. A panic of
/// any is propagated.
///
/// ```
/// let squares = trace_model::parallel::in_parallel(&[3, 1, 2], 2, |_, n| n * n);
/// assert_eq!(squares, [9, 1, 4]);
/// ```
pub fn in_parallel<J: Sync, T: Send>(
    jobs: &[J],
    threads: usize,
    one: impl Fn(usize, &J) -> T + Sync,
) -> Vec<T> {
    let workers = threads.min(jobs.len());
    if workers <= 1 {
        return jobs
            .iter()
            .enumerate()
            .map(|(at, job)| one(at, job))
            .collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return done;
            };
            done.push((at, one(at, job)));
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let of_worker = handles.into_iter().flat_map(|handle| {
            let joined = handle.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        of_worker.collect()
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_however_many_threads() {
        for (count, threads) in [(0, 4), (1, 4), (100, 1), (100, 7)] {
            let jobs: Vec<usize> = (0..count).collect();
            let found = in_parallel(&jobs, threads, |at, job| at + 2 * job);
            let expected: Vec<usize> = jobs.iter().map(|job| job * 3).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_results_do_not_depend_on_the_number_of_rows() {
        for rows in [0, MANY_ROWS] {
            let mut count = 0;
            let sum = both(rows, || 40, || count += 2);
            assert_eq!((sum.0, count), (40, 2));
        }
    }
}
