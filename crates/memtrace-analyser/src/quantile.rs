//! Quantiles of any number of integers.

use crate::error::Result;
use crate::record::Ascending;
use spill_sort::{Sorter, SpillOptions};
use stats::{quantile_at, quantile_position};

use crate::sketch::Sketch;

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

/// More values than these are sketched, where quantiles need not be exact.
const SKETCH_BEYOND: usize = 1 << 16;

/// Collects integers for quantiles: exact ones, for which more than the budget goes to disk, or those of a sketch.
pub(crate) struct OrderStats {
    options: SpillOptions,
    values: Vec<u64>,
    sorter: Option<Sorter<Ascending>>,
    approximate: bool,
    sketch: Option<Sketch>,
    sum: u128,
    count: u64,
}

impl OrderStats {
    pub(crate) fn new(options: SpillOptions, approximate: bool) -> Self {
        Self {
            options,
            values: Vec::new(),
            sorter: None,
            approximate,
            sketch: None,
            sum: 0,
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, value: u64) -> Result<()> {
        self.sum += u128::from(value);
        self.count += 1;
        if let Some(sketch) = &mut self.sketch {
            sketch.push(value);
            return Ok(());
        }
        if let Some(sorter) = &mut self.sorter {
            return Ok(sorter.push(value)?);
        }
        self.values.push(value);
        if self.approximate {
            // By their number, so that the budget has no say in the result.
            if self.values.len() > SKETCH_BEYOND {
                let sketch = self.sketch.insert(Sketch::default());
                for value in std::mem::take(&mut self.values) {
                    sketch.push(value);
                }
            }
            return Ok(());
        }
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

    /// The mean of these and `more` times the lowest integer of 64 bits, added up exactly.
    #[expect(clippy::cast_precision_loss, reason = "statistics are reals")]
    pub(crate) fn mean_with_lowest(&self, more: u64) -> f64 {
        let lowest = i128::from(i64::MIN) * i128::from(more);
        let sum = i128::try_from(self.sum).unwrap_or(i128::MAX);
        sum.saturating_add(lowest) as f64 / real(self.count + more)
    }

    /// The quantiles, in the order asked for, and forgets everything. Zeros when there are no values.
    pub(crate) fn take_quantiles(&mut self, wanted: &[f64]) -> Result<Vec<f64>> {
        self.take_quantiles_of(wanted, real)
    }

    /// As [`OrderStats::take_quantiles`], of what `scaled` makes of each value, which must not fall as the value rises.
    pub(crate) fn take_quantiles_of(
        &mut self,
        wanted: &[f64],
        scaled: fn(u64) -> f64,
    ) -> Result<Vec<f64>> {
        self.sum = 0;
        let count = usize::try_from(std::mem::take(&mut self.count)).unwrap_or(usize::MAX);
        let sketch = self.sketch.take();
        let sorter = self.sorter.take();
        if sketch.is_none() && sorter.is_none() {
            self.values.sort_unstable();
            let values = &self.values;
            let at = |at: usize| values.get(at).map_or(0.0, |value| scaled(*value));
            let of = |q: &f64| quantile_at(count, *q, at).unwrap_or(0.0);
            let found = wanted.iter().map(of).collect();
            self.values.clear();
            return Ok(found);
        }
        // Only the neighbours of the wanted positions are kept on the way through.
        let last = count.saturating_sub(1);
        let mut needed: Vec<usize> = wanted
            .iter()
            .flat_map(|q| {
                let (low, _) = quantile_position(last, *q);
                [low, (low + 1).min(last)]
            })
            .collect();
        needed.sort_unstable();
        needed.dedup();
        let kept = match (sketch, sorter) {
            (Some(sketch), _) => sketch.at(&needed),
            (None, Some(sorter)) => {
                let mut kept = Vec::with_capacity(needed.len());
                let mut merged = sorter.finish()?;
                let mut at = 0;
                let mut next = needed.iter().peekable();
                while let Some(value) = merged.next_item()? {
                    if next.next_if_eq(&&at).is_some() {
                        kept.push(value);
                    }
                    at += 1;
                }
                kept
            }
            (None, None) => Vec::new(),
        };
        let value = |at: usize| {
            needed
                .iter()
                .zip(&kept)
                .find(|(known, _)| **known == at)
                .map_or(0.0, |(_, value)| scaled(*value))
        };
        let of = |q: &f64| quantile_at(count, *q, value).unwrap_or(0.0);
        Ok(wanted.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(memory_bytes: usize) -> OrderStats {
        of(memory_bytes, false)
    }

    fn of(memory_bytes: usize, approximate: bool) -> OrderStats {
        let options = SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes,
        };
        OrderStats::new(options, approximate)
    }

    #[test]
    fn a_sketch_is_near_and_depends_on_nothing_but_the_values() {
        let wanted = [0.0, 0.25, 0.5, 0.9, 0.99, 1.0];
        let mut exact = stats(1 << 30);
        let mut forth = of(1 << 10, true);
        let mut back = of(1 << 30, true);
        let value = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 50);
        for at in 0..200_000 {
            exact.push(value(at)).unwrap();
            forth.push(value(at)).unwrap();
            back.push(value(199_999 - at)).unwrap();
        }
        assert!(forth.sketch.is_some() && forth.sorter.is_none());
        let (mean, exact_mean) = (forth.mean(), exact.mean());
        assert!((mean - exact_mean).abs() < 1e-9 * exact_mean);
        let found = forth.take_quantiles(&wanted).unwrap();
        assert_eq!(found, back.take_quantiles(&wanted).unwrap());
        for (found, exact) in found.iter().zip(exact.take_quantiles(&wanted).unwrap()) {
            assert!(
                (found - exact).abs() <= crate::sketch::RELATIVE_ERROR * exact,
                "{found} {exact}"
            );
        }
        // Few values are exact, and a sketch is used once.
        forth.push(123_456_789).unwrap();
        assert!((forth.take_quantiles(&[0.5]).unwrap()[0] - 123_456_789.0).abs() < 0.5);
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
}
