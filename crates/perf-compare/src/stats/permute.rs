//! Permutation of blocks with a studentised statistic, for many columns at once.

use std::thread;

use super::random::Stream;

/// Enumerate instead of sampling up to this many arrangements.
const ENUMERATE: u128 = 20_000;
/// Names the use of random numbers.
const PURPOSE: u64 = 1;

/// Columns of equal shape: rows of the first side, then of the second, row by row.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) n: [usize; 2],
    pub(crate) block: usize,
}

/// p of each column, and whether all arrangements were counted.
#[derive(Debug, Clone)]
pub(crate) struct Permuted {
    pub(crate) p: Vec<f64>,
    pub(crate) exact: bool,
}

/// Number of ways to choose `k` of `n`, saturating.
pub(crate) fn choose(n: usize, k: usize) -> u128 {
    let k = k.min(n - k.min(n));
    let mut value: u128 = 1;
    for i in 1..=k as u128 {
        match value.checked_mul(n as u128 - k as u128 + i) {
            Some(product) => value = product / i,
            None => return u128::MAX,
        }
    }
    value
}

/// Blocks of both sides as ranges of rows, the first side's first.
fn blocks(shape: &Shape) -> (Vec<(usize, usize)>, usize) {
    let mut all = Vec::new();
    let mut first = 0;
    for (side, &n) in shape.n.iter().enumerate() {
        let offset = if side == 0 { 0 } else { shape.n[0] };
        let mut from = 0;
        while from < n {
            let to = (from + shape.block).min(n);
            all.push((offset + from, offset + to));
            from = to;
        }
        if side == 0 {
            first = all.len();
        }
    }
    (all, first)
}

/// The sums of all rows, and the work space for the rows of one group.
struct Columns<'m> {
    matrix: &'m [f64],
    width: usize,
    rows: usize,
    total: Vec<f64>,
    total_squares: Vec<f64>,
}

impl Columns<'_> {
    /// Welch's statistic of every column, if the rows in `picked` are the first group.
    fn statistics(
        &self,
        picked: &[(usize, usize)],
        sums: &mut [f64],
        squares: &mut [f64],
        out: &mut [f64],
    ) {
        sums.fill(0.0);
        squares.fill(0.0);
        let mut count = 0;
        for &(from, to) in picked {
            count += to - from;
            let rows = self
                .matrix
                .get(from * self.width..to * self.width)
                .unwrap_or_default();
            for row in rows.chunks_exact(self.width) {
                for ((sum, square), value) in sums.iter_mut().zip(squares.iter_mut()).zip(row) {
                    *sum += value;
                    *square += value * value;
                }
            }
        }
        let (n1, n2) = (count as f64, (self.rows - count) as f64);
        let totals = self.total.iter().zip(&self.total_squares);
        for (((t, sum), square), (total, total_square)) in out
            .iter_mut()
            .zip(sums.iter())
            .zip(squares.iter())
            .zip(totals)
        {
            let (m1, m2) = (sum / n1, (total - sum) / n2);
            let v1 = (square - sum * m1).max(0.0) / (n1 - 1.0);
            let v2 = (total_square - square - (total - sum) * m2).max(0.0) / (n2 - 1.0);
            let difference = (m1 - m2).abs();
            let error = (v1 / n1 + v2 / n2).sqrt();
            *t = if difference <= 1e-12 {
                0.0
            } else if error <= 1e-12 * difference || error.is_nan() {
                f64::INFINITY
            } else {
                difference / error
            };
        }
    }
}

/// Two-sided p values. `matrix` has `width` columns and as many rows as both sides; `widening` divides the observed
/// statistic of each column. Columns should be of a common order of magnitude (they are scaled by the caller).
pub(crate) fn permute(
    matrix: &[f64],
    width: usize,
    shape: &Shape,
    widening: &[f64],
    permutations: usize,
    seed: u64,
    threads: usize,
) -> Permuted {
    let rows = shape.n[0] + shape.n[1];
    let mut total = vec![0.0; width];
    let mut total_squares = vec![0.0; width];
    for row in matrix.chunks_exact(width.max(1)) {
        for (at, value) in row.iter().enumerate() {
            total[at] += value;
            total_squares[at] += value * value;
        }
    }
    let columns = Columns {
        matrix,
        width,
        rows,
        total,
        total_squares,
    };
    let (all, first) = blocks(shape);
    let fresh = || vec![0.0; width];
    let mut observed = fresh();
    columns.statistics(
        all.get(..first).unwrap_or_default(),
        &mut fresh(),
        &mut fresh(),
        &mut observed,
    );
    for (t, widening) in observed.iter_mut().zip(widening) {
        // The observed arrangement must count as extreme as itself.
        *t = *t / widening * (1.0 - 1e-10);
    }
    let exact = choose(all.len(), first) <= ENUMERATE;
    let reached = |next: &mut dyn FnMut(&mut Vec<usize>) -> bool| {
        let mut counts = vec![0_u64; width];
        let mut tried = 0_u64;
        let (mut sums, mut squares, mut t) = (fresh(), fresh(), fresh());
        let mut chosen = Vec::new();
        let mut picked = Vec::with_capacity(first);
        while next(&mut chosen) {
            picked.clear();
            picked.extend(
                chosen
                    .iter()
                    .take(first)
                    .filter_map(|&at| all.get(at).copied()),
            );
            columns.statistics(&picked, &mut sums, &mut squares, &mut t);
            for ((count, t), limit) in counts.iter_mut().zip(&t).zip(&observed) {
                *count += u64::from(t >= limit);
            }
            tried += 1;
        }
        (counts, tried)
    };
    if exact {
        let (counts, tried) = reached(&mut |chosen| next_combination(chosen, all.len(), first));
        let p = counts
            .iter()
            .map(|&count| count as f64 / tried.max(1) as f64)
            .collect();
        return Permuted { p, exact };
    }
    let threads = threads.clamp(1, 64);
    let part = |thread: usize| {
        let mut index = thread;
        reached(&mut |chosen| {
            if index >= permutations {
                return false;
            }
            shuffle(
                chosen,
                all.len(),
                first,
                &mut Stream::new(seed, PURPOSE, index as u64),
            );
            index += threads;
            true
        })
    };
    let mut counts = vec![0_u64; width];
    thread::scope(|scope| {
        let part = &part;
        let workers: Vec<_> = (1..threads)
            .map(|at| scope.spawn(move || part(at)))
            .collect();
        let mut add = |found: Vec<u64>| {
            for (sum, count) in counts.iter_mut().zip(found) {
                *sum += count;
            }
        };
        add(part(0).0);
        for (at, worker) in (1..).zip(workers) {
            // A worker that died is done again here; it has no state of its own.
            add(worker.join().unwrap_or_else(|_| part(at)).0);
        }
    });
    let tries = permutations as f64;
    let p = counts
        .iter()
        .map(|&count| (count as f64 + 1.0) / (tries + 1.0))
        .collect();
    Permuted { p, exact }
}

/// The first `k` places become a random choice.
fn shuffle(order: &mut Vec<usize>, n: usize, k: usize, stream: &mut Stream) {
    order.clear();
    order.extend(0..n);
    for at in 0..k.min(n) {
        let other = at + stream.below(n - at);
        order.swap(at, other);
    }
}

/// The next choice of `k` of `n` in lexicographic order; the first one from empty.
fn next_combination(chosen: &mut Vec<usize>, n: usize, k: usize) -> bool {
    if chosen.is_empty() {
        chosen.extend(0..k);
        return k <= n;
    }
    for at in (0..k).rev() {
        if chosen[at] < n - k + at {
            chosen[at] += 1;
            for later in at + 1..k {
                chosen[later] = chosen[later - 1] + 1;
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_separation_has_the_smallest_p() {
        let matrix: Vec<f64> = [0.0, 0.1, 0.2, 0.3, 0.4, 9.0, 9.1, 9.2, 9.3, 9.4].to_vec();
        let shape = Shape {
            n: [5, 5],
            block: 1,
        };
        let result = permute(&matrix, 1, &shape, &[1.0], 99, 1, 1);
        assert!(result.exact);
        assert!((result.p[0] - 2.0 / 252.0).abs() < 1e-12, "{:?}", result.p);
    }

    #[test]
    fn threads_do_not_matter() {
        let matrix: Vec<f64> = (0..80).map(|i| f64::from((i * 37) % 23)).collect();
        let shape = Shape {
            n: [20, 20],
            block: 2,
        };
        let p = |threads| permute(&matrix, 2, &shape, &[1.0, 1.0], 999, 5, threads).p;
        let one = p(1);
        assert_eq!(one, p(2));
        assert_eq!(one, p(7));
    }

    #[test]
    fn counting() {
        assert_eq!(choose(10, 5), 252);
        assert_eq!(choose(14, 7), 3432);
        let mut seen = 0;
        let mut chosen = Vec::new();
        while next_combination(&mut chosen, 6, 3) {
            seen += 1;
        }
        assert_eq!(seen, 20);
        assert_eq!(
            blocks(&Shape {
                n: [12, 11],
                block: 3
            })
            .0
            .len(),
            8
        );
    }
}
