//! Runs two independent jobs at once if there is enough work.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_do_not_depend_on_the_number_of_rows() {
        for rows in [0, MANY_ROWS] {
            let mut count = 0;
            let sum = both(rows, || 40, || count += 2);
            assert_eq!((sum.0, count), (40, 2));
        }
    }
}
