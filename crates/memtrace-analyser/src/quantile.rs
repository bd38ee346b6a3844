//! Exact quantiles of any number of integers.

use crate::error::Result;
use crate::record::Ascending;
use crate::sorter::{Sorter, SpillOptions};

/// A quantile between two neighbours: linear interpolation, from the nearer end.
///
/// This is the definition of the reference (numpy's `linear`, Hyndman and Fan's type 7) with its way of rounding, so results
/// are equal to the last bit. `at` gives the sorted values by index. 0 for no values.
pub(crate) fn quantile(n: usize, q: f64, at: impl Fn(usize) -> f64) -> f64 {
    let Some(last) = n.checked_sub(1) else {
        return 0.0;
    };
    let (low, share) = position(last, q);
    let (a, b) = (at(low), at((low + 1).min(last)));
    between(a, b, share)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are below 2^53, and not negative"
)]
fn position(last: usize, q: f64) -> (usize, f64) {
    let position = last as f64 * q;
    let low = position.floor();
    (low as usize, position - low)
}

fn between(a: f64, b: f64, share: f64) -> f64 {
    let d = b - a;
    if share < 0.5 {
        a + d * share
    } else {
        b - d * (1.0 - share)
    }
}

/// An integer as a number with a fraction.
#[expect(clippy::cast_precision_loss, reason = "statistics are reals")]
pub(crate) fn real(value: u64) -> f64 {
    value as f64
}

/// The mean of a sum over a count, 0 for none.
#[expect(clippy::cast_precision_loss, reason = "statistics are reals")]
pub(crate) fn mean(sum: u128, count: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        sum as f64 / count as f64
    }
}

/// Collects integers for exact quantiles; more than the budget goes to disk.
pub(crate) struct OrderStats {
    options: SpillOptions,
    values: Vec<u64>,
    sorter: Option<Sorter<Ascending>>,
    sum: u128,
    count: u64,
}

impl OrderStats {
    pub(crate) fn new(options: SpillOptions) -> Self {
        Self {
            options,
            values: Vec::new(),
            sorter: None,
            sum: 0,
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, value: u64) -> Result<()> {
        self.sum += u128::from(value);
        self.count += 1;
        if let Some(sorter) = &mut self.sorter {
            return sorter.push(value);
        }
        self.values.push(value);
        if self.values.len() * 8 > self.options.memory_bytes / 2 {
            let mut sorter = Sorter::new(self.options.clone());
            for value in std::mem::take(&mut self.values) {
                sorter.push(value)?;
            }
            self.sorter = Some(sorter);
        }
        Ok(())
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> f64 {
        mean(self.sum, self.count)
    }

    /// The quantiles, in the order asked for, and forgets everything. Zeros when there are no values.
    pub(crate) fn take_quantiles(&mut self, wanted: &[f64]) -> Result<Vec<f64>> {
        self.sum = 0;
        let count = usize::try_from(std::mem::take(&mut self.count)).unwrap_or(usize::MAX);
        let Some(sorter) = self.sorter.take() else {
            self.values.sort_unstable();
            let values = &self.values;
            let at = |at: usize| values.get(at).map_or(0.0, |value| real(*value));
            let found = wanted.iter().map(|q| quantile(count, *q, at)).collect();
            self.values.clear();
            return Ok(found);
        };
        // Only the neighbours of the wanted positions are kept on the way through.
        let last = count.saturating_sub(1);
        let mut needed: Vec<usize> = wanted
            .iter()
            .flat_map(|q| {
                let (low, _) = position(last, *q);
                [low, (low + 1).min(last)]
            })
            .collect();
        needed.sort_unstable();
        needed.dedup();
        let mut kept = Vec::with_capacity(needed.len());
        let mut merged = sorter.finish()?;
        let mut at = 0;
        let mut next = needed.iter().peekable();
        while let Some(value) = merged.next()? {
            if next.peek() == Some(&&at) {
                next.next();
                kept.push((at, value));
            }
            at += 1;
        }
        let value = |at: usize| {
            kept.iter()
                .find(|(known, _)| *known == at)
                .map_or(0.0, |(_, value)| real(*value))
        };
        Ok(wanted.iter().map(|q| quantile(count, *q, value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(memory_bytes: usize) -> OrderStats {
        OrderStats::new(SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes,
        })
    }

    #[test]
    fn spilling_changes_no_quantile() {
        let wanted = [0.0, 0.25, 0.5, 0.9, 0.99, 1.0];
        let (mut small, mut large) = (stats(1 << 10), stats(1 << 30));
        for at in 0..50_000_u64 {
            let value = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            small.push(value).unwrap();
            large.push(value).unwrap();
        }
        assert!(small.sorter.is_some() && large.sorter.is_none());
        assert_eq!(
            small.take_quantiles(&wanted).unwrap(),
            large.take_quantiles(&wanted).unwrap()
        );
        assert_eq!(small.count(), 0);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the last bit is the point")]
    fn the_form_with_two_sides() {
        let values = [0.0, 10.0];
        assert_eq!(quantile(2, 0.9, |at| values[at]), 10.0 - 10.0 * (1.0 - 0.9));
        assert_eq!(quantile(0, 0.5, |_| 1.0), 0.0);
    }
}
