//! Compares two analyses and shows which differences can be explained by chance.

use memtrace_analyser::{Analysis, RegionList, RegionMetrics, TypeMetrics};
use report::{Cell, Column, Table};

use crate::error::Result;

/// Number of bootstrap draws, for many regions and for few.
const DRAWS: std::ops::RangeInclusive<usize> = 100..=1000;
/// Maximum number of regions drawn per metric of a type, in total.
const WORK: usize = 20_000_000;
/// Minimum number of regions on each side for an interval; with fewer, draws are meaningless.
const FEWEST: usize = 5;

/// Statistic of a metric.
#[derive(Debug, Clone, Copy)]
enum Statistic {
    /// A quantile over regions.
    Quantile(f64),
    /// The mean over the regions that have it.
    Mean,
}

type OfType = fn(&TypeMetrics) -> Option<f64>;
type OfRegion = fn(&RegionMetrics) -> Option<f64>;

/// A metric by type, and the value per region that it summarises.
struct Metric {
    name: &'static str,
    of_type: OfType,
    of_regions: Option<(OfRegion, Statistic)>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "differences of metrics are reals"
)]
const METRICS: [Metric; 7] = [
    Metric {
        name: "n_regions",
        of_type: |kind| Some(kind.n_regions as f64),
        of_regions: None,
    },
    Metric {
        name: "retention_p50_s",
        of_type: |kind| Some(kind.retention_s[0]),
        of_regions: Some((
            |region| Some(region.retention_s()),
            Statistic::Quantile(0.5),
        )),
    },
    Metric {
        name: "retention_p99_s",
        of_type: |kind| Some(kind.retention_s[2]),
        of_regions: Some((
            |region| Some(region.retention_s()),
            Statistic::Quantile(0.99),
        )),
    },
    Metric {
        name: "write_once_ratio_mean",
        of_type: TypeMetrics::write_once,
        of_regions: Some((RegionMetrics::write_once_ratio, Statistic::Mean)),
    },
    Metric {
        name: "reads_per_write_mean",
        of_type: |kind| Some(kind.reads_per_write_mean),
        of_regions: Some((|region| Some(region.reads_per_write()), Statistic::Mean)),
    },
    Metric {
        name: "total_pages",
        of_type: |kind| Some(kind.total_pages as f64),
        of_regions: None,
    },
    Metric {
        name: "read_age_p99_ns",
        of_type: |kind| {
            let verdict = kind.verdict.as_ref()?;
            verdict.read_age_ns?;
            match kind.is_complete() {
                true => kind.values?.read_age_ns.map(|[_, _, p99, _]| p99),
                // Samples give only bounds.
                false => kind.read_ages()[2],
            }
        },
        of_regions: None,
    },
];

/// Compares the figures of the types of two analyses and their difference.
///
/// If a metric summarises regions, `difference_low` and `difference_high` are the 95 % interval
/// obtained by resampling regions on both sides (the percentile bootstrap of Efron, 1979); they are
/// empty if a side has fewer than five regions. The draws are the same each time.
///
/// # Errors
///
/// None in practice; the signature is that of [`report::Table`].
pub fn compare_analyses(before: &Analysis, after: &Analysis) -> Result<Table> {
    let mut table = Table::new(
        "comparison",
        vec![
            Column::text("region_type"),
            Column::text("metric"),
            Column::real("before"),
            Column::real("after"),
            Column::real("difference"),
            Column::real("difference_low"),
            Column::real("difference_high"),
            Column::real("change_pct"),
        ],
    )?;
    let mut names: Vec<&str> = before
        .types
        .iter()
        .chain(&after.types)
        .map(|kind| &*kind.region_type)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let [old, new] = [before, after].map(|analysis| Side::of(analysis, name));
        for metric in &METRICS {
            let of = |side: &Side<'_>| (metric.of_type)(side.kind?);
            let (was, is) = (of(&old), of(&new));
            let difference = was.zip(is).map(|(was, is)| is - was);
            let change = was
                .zip(difference)
                .filter(|(was, _)| *was != 0.0)
                .map(|(was, difference)| difference / was * 100.0);
            let interval = match metric.of_regions.filter(|_| difference.is_some()) {
                Some((read, statistic)) => {
                    interval(&old.values(read)?, &new.values(read)?, statistic)
                }
                None => None,
            };
            let cell = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
            table.push(&[
                name.into(),
                metric.name.into(),
                cell(was),
                cell(is),
                cell(difference),
                cell(interval.map(|(low, _)| low)),
                cell(interval.map(|(_, high)| high)),
                cell(change),
            ])?;
        }
    }
    Ok(table)
}

/// A type in one analysis.
struct Side<'a> {
    kind: Option<&'a TypeMetrics>,
    at: Option<usize>,
    regions: &'a RegionList,
}

impl<'a> Side<'a> {
    fn of(analysis: &'a Analysis, name: &str) -> Self {
        let at = analysis
            .types
            .iter()
            .position(|kind| kind.region_type == name);
        Self {
            kind: at.and_then(|at| analysis.types.get(at)),
            at,
            regions: &analysis.regions,
        }
    }

    /// Returns the values of its regions, ascending.
    fn values(&self, read: OfRegion) -> Result<Vec<f64>> {
        let mut values = Vec::new();
        for region in self.regions {
            let region = region?;
            if Some(region.type_index) == self.at {
                values.extend(read(&region));
            }
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(values)
    }
}

/// Returns the interval of the difference of a statistic.
fn interval(old: &[f64], new: &[f64], statistic: Statistic) -> Option<(f64, f64)> {
    if old.len().min(new.len()) < FEWEST {
        return None;
    }
    let draws = (WORK / (old.len() + new.len())).clamp(*DRAWS.start(), *DRAWS.end());
    let mut numbers = Numbers(0x6d65_6d74_7261_6365);
    let mut counts = Vec::new();
    let mut differences: Vec<f64> = (0..draws)
        .map(|_| {
            let was = drawn(old, statistic, &mut numbers, &mut counts);
            let is = drawn(new, statistic, &mut numbers, &mut counts);
            is - was
        })
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    let at = |share: usize| differences.get((draws - 1) * share / 1000).copied();
    Some((at(25)?, at(975)?))
}

/// Returns the statistic of as many values, drawn with replacement. `values` is ascending.
fn drawn(
    values: &[f64],
    statistic: Statistic,
    numbers: &mut Numbers,
    counts: &mut Vec<u32>,
) -> f64 {
    counts.clear();
    counts.resize(values.len(), 0);
    for _ in 0..values.len() {
        if let Some(count) = counts.get_mut(numbers.below(values.len())) {
            *count += 1;
        }
    }
    let weighted = values.iter().zip(&*counts);
    match statistic {
        Statistic::Mean => {
            let sum: f64 = weighted
                .map(|(value, count)| value * f64::from(*count))
                .sum();
            sum / real(values.len())
        }
        Statistic::Quantile(share) => {
            let place = real(values.len() - 1) * share;
            let mut before = 0.0;
            let (mut low, mut high) = (None, 0.0);
            for (value, count) in weighted {
                before += f64::from(*count);
                if low.is_none() && before > place.floor() {
                    low = Some(*value);
                }
                if before > place.ceil() {
                    high = *value;
                    break;
                }
            }
            let low = low.unwrap_or(high);
            low + (high - low) * place.fract()
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn real(count: usize) -> f64 {
    count as f64
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next()) * limit as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(numbers: &mut Numbers, n: usize, shift: f64) -> Vec<f64> {
        let mut values: Vec<f64> = (0..n)
            .map(|_| f64::from(u32::try_from(numbers.next() >> 40).unwrap()) / 16_777_216.0 + shift)
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// Intervals of 95 % contain the true value about as often, for means and for quantiles.
    #[test]
    fn intervals_hold_what_is_true() {
        let mut numbers = Numbers(7);
        for statistic in [Statistic::Mean, Statistic::Quantile(0.5)] {
            let held = (0..200)
                .filter(|_| {
                    let old = sample(&mut numbers, 60, 0.0);
                    let new = sample(&mut numbers, 80, 0.25);
                    let (low, high) = interval(&old, &new, statistic).unwrap();
                    low <= 0.25 && 0.25 <= high
                })
                .count();
            assert!((178..=199).contains(&held), "{statistic:?}: {held} of 200");
        }
    }

    #[test]
    fn few_or_equal_values() {
        assert_eq!(interval(&[1.0; 4], &[2.0; 50], Statistic::Mean), None);
        assert_eq!(
            interval(&[1.0; 5], &[2.5; 9], Statistic::Mean),
            Some((1.5, 1.5))
        );
        let quantile = Statistic::Quantile(0.99);
        assert_eq!(interval(&[1.0; 5], &[2.5; 9], quantile), Some((1.5, 1.5)));
    }
}
