//! Permutation of blocks with a studentised statistic, for many columns at once.
//!
//! A family of m hypotheses declares one of them at p <= level / m, which a fixed number of permutations may never reach. So
//! permutations go on in rounds for the columns that are still open (Besag and Clifford 1991): a column ends once
//! [`ENOUGH`] permutations reached its statistic, since more of them would only refine a p that is large already, or once it
//! is declared with room to spare.

use std::ops::Range;
use std::thread;

use super::multiple::adjust;
use super::random::Stream;

/// Enumerate instead of sampling up to this many arrangements.
const ENUMERATE: u128 = 20_000;
/// Names the use of random numbers.
const PURPOSE: u64 = 1;
/// Permutations as extreme as the observed arrangement after which a column is not followed further.
const ENOUGH: u64 = 20;
/// Permutations expected beyond the smallest p that matters, when a column is followed to the end.
const RESOLUTION: f64 = 10.0;
/// Maximum number of permutations, whatever the size of the family.
const MOST: usize = 2_000_000;

/// Columns of equal shape: rows of the first side, then of the second, row by row.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) n: [usize; 2],
    pub(crate) block: usize,
}

/// How many hypotheses are tested together, and at which rate of false discoveries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    pub(crate) size: usize,
    pub(crate) level: f64,
}

impl Family {
    /// p at which a single member is declared.
    pub(crate) fn smallest(self) -> f64 {
        self.level / self.size.max(1) as f64
    }

    /// Permutations that resolve [`Self::smallest`]; at least `asked`.
    fn permutations(self, asked: usize) -> usize {
        let mut wanted = asked;
        while wanted < MOST && (wanted as f64) < RESOLUTION / self.smallest() {
            wanted = wanted.saturating_mul(2).max(1);
        }
        wanted
    }

    /// Adjusted p of some members, the others taken to be null.
    fn adjusted(self, p: &[f64]) -> Vec<f64> {
        let mut all = p.to_vec();
        all.resize(self.size.max(p.len()), 1.0);
        let mut q = adjust(&all, false);
        q.truncate(p.len());
        q
    }
}

/// Smallest p that exchanging blocks can give: 2 of all arrangements, or 1 where the sides differ in size.
pub(crate) fn attainable(n: [usize; 2], block: usize) -> f64 {
    let blocks = n.map(|n| n.div_ceil(block.max(1)));
    let as_extreme = if n[0] == n[1] { 2.0 } else { 1.0 };
    (as_extreme / choose(blocks[0] + blocks[1], blocks[0]) as f64).min(1.0)
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

/// The sums of all rows, and those of each block, which is all that an arrangement of blocks needs.
struct Columns {
    width: usize,
    rows: usize,
    total: Vec<f64>,
    total_squares: Vec<f64>,
    /// Rows of each block, and sums and squares of its rows by column.
    lengths: Vec<usize>,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Columns {
    /// Welch's statistic of every column, if the blocks in `picked` are the first group.
    fn statistics(&self, picked: &[usize], sums: &mut [f64], squares: &mut [f64], out: &mut [f64]) {
        sums.fill(0.0);
        squares.fill(0.0);
        let mut count = 0;
        for &block in picked {
            count += self.lengths.get(block).copied().unwrap_or(0);
            let own = block * self.width..(block + 1) * self.width;
            let blocks = self.sums.get(own.clone()).unwrap_or_default();
            for (sum, value) in sums.iter_mut().zip(blocks) {
                *sum += value;
            }
            let blocks = self.squares.get(own).unwrap_or_default();
            for (square, value) in squares.iter_mut().zip(blocks) {
                *square += value;
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

/// The columns at `places` of a matrix, and their number.
fn selected(matrix: &[f64], width: usize, places: &[usize]) -> Vec<f64> {
    let rows = matrix.chunks_exact(width.max(1));
    rows.flat_map(|row| places.iter().filter_map(|&at| row.get(at).copied()))
        .collect()
}

/// Two-sided p values. `matrix` has `width` columns and as many rows as both sides; `widening` divides the observed
/// statistic of each column. Columns should be of a common order of magnitude (they are scaled by the caller).
pub(crate) fn permute(
    matrix: &[f64],
    width: usize,
    shape: &Shape,
    widening: &[f64],
    budget: Budget,
) -> Permuted {
    let (all, first) = blocks(shape);
    let exact = choose(all.len(), first) <= ENUMERATE;
    let mut p = vec![1.0; width];
    let mut counts = vec![0_u64; width];
    let mut open: Vec<usize> = (0..width).collect();
    if exact {
        let trial = Trial::new(matrix, width, shape, widening);
        let (found, tried) =
            trial.reached(&mut |chosen| next_combination(chosen, all.len(), first));
        for (p, count) in p.iter_mut().zip(found) {
            *p = count as f64 / tried.max(1) as f64;
        }
        return Permuted { p, exact };
    }
    let most = budget.family.permutations(budget.permutations);
    let (mut done, mut until) = (0, budget.permutations);
    while !open.is_empty() {
        let own: Vec<f64> = open
            .iter()
            .filter_map(|&at| widening.get(at).copied())
            .collect();
        let part = selected(matrix, width, &open);
        let trial = Trial::new(&part, open.len(), shape, &own);
        let found = trial.sampled(done..until, budget.seed, budget.threads);
        done = until;
        for (&at, found) in open.iter().zip(found) {
            counts[at] += found;
            p[at] = (counts[at] as f64 + 1.0) / (done as f64 + 1.0);
        }
        if done >= most {
            break;
        }
        let q = budget.family.adjusted(&p);
        open.retain(|&at| counts[at] < ENOUGH && q[at] > budget.family.level / 2.0);
        until = done.saturating_mul(2).min(most);
    }
    Permuted { p, exact }
}

/// How many permutations are made for whom, and from where chance comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Permutations of every column; open columns get more.
    pub(crate) permutations: usize,
    pub(crate) family: Family,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

/// Columns with their observed statistics, ready for other arrangements.
struct Trial {
    columns: Columns,
    first: usize,
    observed: Vec<f64>,
}

impl Trial {
    fn new(matrix: &[f64], width: usize, shape: &Shape, widening: &[f64]) -> Self {
        let mut total = vec![0.0; width];
        let mut total_squares = vec![0.0; width];
        for row in matrix.chunks_exact(width.max(1)) {
            for (at, value) in row.iter().enumerate() {
                total[at] += value;
                total_squares[at] += value * value;
            }
        }
        let (blocks, first) = blocks(shape);
        let mut columns = Columns {
            width,
            rows: shape.n[0] + shape.n[1],
            total,
            total_squares,
            lengths: blocks.iter().map(|(from, to)| to - from).collect(),
            sums: vec![0.0; blocks.len() * width],
            squares: vec![0.0; blocks.len() * width],
        };
        for (block, (from, to)) in blocks.into_iter().enumerate() {
            let rows = matrix.get(from * width..to * width).unwrap_or_default();
            for row in rows.chunks_exact(width.max(1)) {
                for (at, value) in row.iter().enumerate() {
                    columns.sums[block * width + at] += value;
                    columns.squares[block * width + at] += value * value;
                }
            }
        }
        let fresh = || vec![0.0; width];
        let mut observed = fresh();
        columns.statistics(
            &(0..first).collect::<Vec<usize>>(),
            &mut fresh(),
            &mut fresh(),
            &mut observed,
        );
        for (t, widening) in observed.iter_mut().zip(widening) {
            // The observed arrangement must count as extreme as itself.
            *t = *t / widening * (1.0 - 1e-10);
        }
        Self {
            columns,
            first,
            observed,
        }
    }

    /// How many of the arrangements from `next` reach the observed statistic of each column, and their number.
    fn reached(&self, next: &mut dyn FnMut(&mut Vec<usize>) -> bool) -> (Vec<u64>, u64) {
        let width = self.columns.width;
        let fresh = || vec![0.0; width];
        let mut counts = vec![0_u64; width];
        let mut tried = 0_u64;
        let (mut sums, mut squares, mut t) = (fresh(), fresh(), fresh());
        let mut chosen = Vec::new();
        while next(&mut chosen) {
            let picked = chosen.get(..self.first).unwrap_or(&chosen);
            self.columns
                .statistics(picked, &mut sums, &mut squares, &mut t);
            for ((count, t), limit) in counts.iter_mut().zip(&t).zip(&self.observed) {
                *count += u64::from(t >= limit);
            }
            tried += 1;
        }
        (counts, tried)
    }

    /// The same for the random arrangements with these numbers; the number of threads does not show.
    fn sampled(&self, indices: Range<usize>, seed: u64, threads: usize) -> Vec<u64> {
        let threads = threads.clamp(1, 64);
        let part = |thread: usize| {
            let mut index = indices.start + thread;
            self.reached(&mut |chosen| {
                if index >= indices.end {
                    return false;
                }
                let mut stream = Stream::new(seed, PURPOSE, index as u64);
                shuffle(chosen, self.columns.lengths.len(), self.first, &mut stream);
                index += threads;
                true
            })
            .0
        };
        let mut counts = vec![0_u64; self.columns.width];
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
            add(part(0));
            for (at, worker) in (1..).zip(workers) {
                // A worker that died is done again here; it has no state of its own.
                add(worker.join().unwrap_or_else(|_| part(at)));
            }
        });
        counts
    }
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

    fn budget(permutations: usize, seed: u64, threads: usize, size: usize) -> Budget {
        Budget {
            permutations,
            family: Family { size, level: 0.05 },
            seed,
            threads,
        }
    }

    #[test]
    fn complete_separation_has_the_smallest_p() {
        let matrix: Vec<f64> = [0.0, 0.1, 0.2, 0.3, 0.4, 9.0, 9.1, 9.2, 9.3, 9.4].to_vec();
        let shape = Shape {
            n: [5, 5],
            block: 1,
        };
        let result = permute(&matrix, 1, &shape, &[1.0], budget(99, 1, 1, 1));
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
        let p = |threads| permute(&matrix, 2, &shape, &[1.0, 1.0], budget(999, 5, threads, 40)).p;
        let one = p(1);
        assert_eq!(one, p(2));
        assert_eq!(one, p(7));
    }

    #[test]
    fn permutations_go_on_until_the_family_can_be_declared() {
        // The first column differs between the sides, the second does not.
        let matrix: Vec<f64> = (0..40)
            .flat_map(|i| [f64::from(i % 7 + 20 * (i / 20)), f64::from(i * 11 % 13)])
            .collect();
        let shape = Shape {
            n: [20, 20],
            block: 1,
        };
        for family in [1, 15, 500, 2000] {
            let p = permute(&matrix, 2, &shape, &[1.0, 1.0], budget(999, 3, 2, family)).p;
            let q = p[0] * family as f64;
            assert!(q <= 0.05, "{family}: q {q}");
            assert!(p[1] > 0.05, "{family}: p {}", p[1]);
        }
    }

    #[test]
    fn smallest_attainable() {
        assert!((attainable([5, 5], 1) - 2.0 / 252.0).abs() < 1e-12);
        assert!((attainable([10, 10], 2) - 2.0 / 252.0).abs() < 1e-12);
        assert!((attainable([2, 3], 1) - 0.1).abs() < 1e-12);
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
