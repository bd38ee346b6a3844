//! Tails of cycle time.

use super::Options;
use super::pauses;
use crate::document::Tail;
use crate::stats::{Compared, quantile, sorted};

/// Chance below which a side is said to have more cycles beyond.
pub(super) const CHANCE: f64 = 0.01;

/// A quantile that is established to be longer or shorter: by its interval, by more than the margin of equivalence, and by how
/// many cycles of each side lie beyond that quantile of both together (Fisher's exact test on numbers of independent cycles).
pub(super) fn compare(
    lengths: &[Vec<f64>; 2],
    q: f64,
    (values, (change, [low, high])): ([f64; 2], (f64, [f64; 2])),
    total: &Compared,
    options: &Options,
) -> Option<Tail> {
    let margin = options.equivalence_pct / 100.0 * (values[0] + values[1]) / 2.0;
    let is_clear = (low > 0.0 && change > margin) || (high < 0.0 && -change > margin);
    if !is_clear {
        return None;
    }
    let limit = quantile(&sorted(&lengths.concat()), q);
    // Cycles that resemble their neighbours count together.
    let block = total.dependence.block.max(1);
    let beyond = lengths.each_ref().map(|side| {
        let beyond = side.iter().filter(|length| **length > limit).count();
        beyond / block
    });
    let of = lengths.each_ref().map(|side| side.len() / block);
    let more = usize::from(change > 0.0);
    let p = pauses::by_chance(beyond[more], beyond[0] + beyond[1], of[more], of[1 - more]);
    (p <= CHANCE).then_some(Tail {
        quantile: q,
        longer: change > 0.0,
        values_us: values,
        change_us: (change, [low, high]),
        p,
    })
}
