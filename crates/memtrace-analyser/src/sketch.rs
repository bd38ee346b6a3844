//! Quantiles of any number of integers in fixed memory, within a stated error.

/// Bits of a value that are kept.
const KEPT_BITS: u32 = 10;
/// Buckets of each doubling.
const STEPS: u64 = 1 << (KEPT_BITS - 1);
/// Values below are counted one by one.
const EXACT: u64 = 1 << KEPT_BITS;

/// The largest relative error of a quantile: half a bucket.
pub(crate) const RELATIVE_ERROR: f64 = 0.5 / 512.0;

/// Counts of values in buckets that grow with the value (as in HdrHistogram, or DDSketch of Masson and others, 2019).
///
/// What comes out depends on the values alone and not on their order.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    counts: Vec<u64>,
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return usize::try_from(value).unwrap_or(0);
    }
    let octave = 63 - value.leading_zeros();
    let step = (value >> (octave - (KEPT_BITS - 1))) - STEPS;
    let at = EXACT + u64::from(octave - KEPT_BITS) * STEPS + step;
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let Some(above) = bucket.checked_sub(EXACT) else {
        return bucket;
    };
    let shift = above / STEPS + 1;
    let lowest = (above % STEPS + STEPS) << shift;
    lowest + (1 << (shift - 1))
}

impl Sketch {
    pub(crate) fn push(&mut self, value: u64) {
        let at = bucket(value);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    /// The values at places of their order, which ascend.
    pub(crate) fn at(&self, places: &[usize]) -> Vec<u64> {
        let mut found = Vec::with_capacity(places.len());
        let mut places = places.iter().peekable();
        let mut before = 0;
        for (at, count) in self.counts.iter().enumerate() {
            before += count;
            while places.next_if(|place| (**place as u64) < before).is_some() {
                found.push(middle(at));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantile::real;

    #[test]
    fn buckets_join_without_a_gap() {
        let mut last = 0;
        let values = (0..5000).chain((13..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1]
        }));
        for value in values.chain([u64::MAX - 1, u64::MAX]) {
            let at = bucket(value);
            assert!(
                at >= last && at as u64 <= (last as u64).max(EXACT) + STEPS,
                "{value}"
            );
            last = at;
            let off = real(middle(at).abs_diff(value));
            assert!(
                off <= RELATIVE_ERROR * real(value),
                "{value}: {}",
                middle(at)
            );
        }
        assert!(
            last < 32_768,
            "a sketch has at most a quarter of a megabyte"
        );
    }

    proptest! {
        #[test]
        fn every_place_is_within_the_error(mut values in prop::collection::vec(any::<u64>().prop_flat_map(|high| 0..=high), 1..300)) {
            let mut sketch = Sketch::default();
            for value in &values {
                sketch.push(*value);
            }
            values.sort_unstable();
            let places: Vec<usize> = (0..values.len()).collect();
            for (found, value) in sketch.at(&places).iter().zip(&values) {
                prop_assert!(real(found.abs_diff(*value)) <= RELATIVE_ERROR * real(*value));
            }
        }
    }
}
