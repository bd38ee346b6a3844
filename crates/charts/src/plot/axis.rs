//! Axes: ranges, ticks at round numbers, labels in one unit per axis.

use std::borrow::Cow;

use report::{RealFormat, Unit, human, real_text};

/// Mapping of values to positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scale {
    /// Equal differences have equal distances.
    #[default]
    Linear,
    /// Equal ratios have equal distances; values of zero and below cannot be shown.
    Log,
}

/// One axis of a plot.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Axis {
    /// Name of the quantity, without unit: `step time`.
    pub label: Cow<'static, str>,
    /// Unit of the values as given; the axis scales them (`ms`).
    pub unit: Unit,
    /// Mapping of values to positions.
    pub scale: Scale,
    /// Ends of the axis; derived from the values if `None`. Values outside are clipped.
    pub range: Option<(f64, f64)>,
    /// `true` if a linear axis with a derived range must include zero.
    pub from_zero: bool,
}

impl Axis {
    /// Creates a linear axis that starts at the smallest value.
    pub fn new(label: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            scale: Scale::Linear,
            range: None,
            from_zero: false,
        }
    }

    /// Creates a linear axis that includes zero.
    pub fn from_zero(label: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self {
            from_zero: true,
            ..Self::new(label, unit)
        }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::new(label, unit)
        }
    }

    /// Sets the ends.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// Returns `true` if the value has a position on this axis.
    pub(crate) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Lays out the axis for these values, with about `target` ticks; both ends are ticks unless
    /// they are given.
    pub(crate) fn lay_out(&self, values: impl Iterator<Item = f64>, target: f64) -> Ruler {
        self.lay_out_ends(values, target, false)
    }

    /// Same as [`Axis::lay_out`], but with ends at the smallest and largest value if `tight`.
    pub(crate) fn lay_out_ends(
        &self,
        values: impl Iterator<Item = f64>,
        target: f64,
        tight: bool,
    ) -> Ruler {
        let fits =
            |range: &(f64, f64)| self.takes(range.0) && self.takes(range.1) && range.0 < range.1;
        let fixed = self.range.filter(fits);
        let (low, high) = fixed.unwrap_or_else(|| {
            let start = if self.from_zero && self.scale == Scale::Linear {
                (0.0, 0.0)
            } else {
                (f64::INFINITY, f64::NEG_INFINITY)
            };
            let (low, high) = values
                .filter(|v| self.takes(*v))
                .fold(start, |(low, high), v| (low.min(v), high.max(v)));
            match (low <= high, self.scale) {
                (false, _) => (
                    if self.scale == Scale::Log { 1.0 } else { 0.0 },
                    if self.scale == Scale::Log { 10.0 } else { 1.0 },
                ),
                (true, Scale::Linear) if low >= high => (
                    low.min(0.0),
                    if high > 0.0 {
                        high
                    } else if low < 0.0 {
                        0.0
                    } else {
                        1.0
                    },
                ),
                (true, Scale::Log) if low >= high => (low / 2.0, high * 2.0),
                (true, _) => (low, high),
            }
        });
        match self.scale {
            Scale::Linear => self.linear(low, high, tight || fixed.is_some(), target),
            Scale::Log => self.log_ticks(low, high, tight || fixed.is_some(), target),
        }
    }

    fn linear(&self, low: f64, high: f64, fixed: bool, target: f64) -> Ruler {
        let (divisor, unit) = step_unit(self.unit, low.abs().max(high.abs()));
        let (low, high) = (low / divisor, high / divisor);
        let binary = self.unit == Unit::Bytes && divisor > 1.0;
        let step = nice_step((high - low) / target.max(1.0), binary);
        let (low, high) = if fixed {
            (low, high)
        } else {
            (
                (low / step + 1e-9).floor() * step,
                (high / step - 1e-9).ceil() * step,
            )
        };
        let mut ticks = Vec::new();
        let first = (low / step - 1e-9).ceil();
        let decimals = (0..=9)
            .find(|d| is_whole(step * 10_f64.powi(i32::from(*d))))
            .unwrap_or(9);
        let mut index = 0.0;
        while (first + index) * step <= high + step * 1e-9 && ticks.len() < 200 {
            let value = (first + index) * step;
            ticks.push((value * divisor, tick_text(value, decimals, self.unit)));
            index += 1.0;
        }
        Ruler {
            low: low * divisor,
            high: high * divisor,
            log: false,
            ticks,
            unit,
        }
    }

    fn log_ticks(&self, low: f64, high: f64, fixed: bool, target: f64) -> Ruler {
        let base: f64 = if self.unit == Unit::Bytes { 2.0 } else { 10.0 };
        let exponent = |v: f64| v.ln() / base.ln();
        let first = (exponent(low) + 1e-9).floor();
        let last = (exponent(high) - 1e-9).ceil();
        let (low, high) = if fixed {
            (low, high)
        } else {
            (base.powf(first), base.powf(last.max(first + 1.0)))
        };
        let decades = (last - first).max(1.0);
        let stride = (decades / target.max(1.0)).ceil().max(1.0);
        // Up to two decades have room for ticks at 2 and 5 as well.
        let within: &[f64] = if base > 2.0 && decades <= 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let mut ticks = Vec::new();
        let mut at = (first / stride).ceil() * stride;
        while at <= last + 1e-9 && ticks.len() < 200 {
            for factor in within {
                let value = factor * base.powf(at.round());
                if value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9) {
                    ticks.push((value, short(value, self.unit)));
                }
            }
            at += stride;
        }
        Ruler {
            low,
            high,
            log: true,
            ticks,
            unit: "",
        }
    }
}

/// An axis with ends and ticks, in the values' own unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ruler {
    pub(crate) low: f64,
    pub(crate) high: f64,
    log: bool,
    /// Positions and labels.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Unit that the labels omit and the axis title must name.
    unit: &'static str,
}

impl Ruler {
    /// Returns the position of a value: 0 at the low end, 1 at the high end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.log {
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the title of the axis: `step time (ms)`.
    pub(crate) fn title(&self, label: &str) -> String {
        match (label.is_empty(), self.unit.is_empty()) {
            (_, true) => label.to_owned(),
            (true, false) => self.unit.to_owned(),
            (false, false) => format!("{label} ({})", self.unit),
        }
    }
}

/// Returns divisor and name of the unit in which numbers up to `largest` are short.
fn step_unit(unit: Unit, largest: f64) -> (f64, &'static str) {
    const K: f64 = 1024.0;
    let steps: &[(f64, &str)] = match unit {
        Unit::Nanos => &[
            (1.0, "ns"),
            (1e3, "µs"),
            (1e6, "ms"),
            (1e9, "s"),
            (6e11, "min"),
            (7.2e12, "h"),
        ],
        Unit::Seconds => &[
            (1e-9, "ns"),
            (1e-6, "µs"),
            (1e-3, "ms"),
            (1.0, "s"),
            (600.0, "min"),
            (7200.0, "h"),
        ],
        Unit::Bytes => &[
            (1.0, "B"),
            (K, "KiB"),
            (K * K, "MiB"),
            (K * K * K, "GiB"),
            (K * K * K * K, "TiB"),
        ],
        Unit::BytesPerSecond => &[
            (1.0, "B/s"),
            (1e3, "kB/s"),
            (1e6, "MB/s"),
            (1e9, "GB/s"),
            (1e12, "TB/s"),
        ],
        Unit::Pct => &[(1.0, "%")],
        Unit::PerSecond => &[(1.0, "1/s")],
        _ => &[(1.0, "")],
    };
    let found = steps
        .iter()
        .rev()
        .find(|(size, _)| largest >= *size)
        .or(steps.first());
    match found {
        // Times from ten minutes on are counted in minutes, from two hours on in hours.
        Some(&(size, name @ ("min" | "h"))) => {
            (size / if name == "min" { 10.0 } else { 2.0 }, name)
        }
        Some(&(size, name)) => (size, name),
        None => (1.0, ""),
    }
}

/// Returns the smallest of 1, 2, 5 times a power of ten (or of the powers of two) that is at least
/// `least`.
fn nice_step(least: f64, binary: bool) -> f64 {
    if !(least.is_finite() && least > 0.0) {
        return 1.0;
    }
    if binary {
        return 2_f64.powf((least.log2() - 1e-9).ceil());
    }
    let power = 10_f64.powf((least.log10() + 1e-9).floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|f| f * power >= least * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1e-3)
}

fn tick_text(value: f64, decimals: u8, unit: Unit) -> String {
    // A tick at zero must not read -0.
    let value = if value.abs() < 1e-300 { 0.0 } else { value };
    let plain = matches!(unit, Unit::None | Unit::Count | Unit::PerSecond);
    if value.abs() >= 1e15 || (value != 0.0 && decimals >= 9) {
        return format!("{value:.1e}");
    }
    if plain && value.abs() >= 1e4 {
        return short(value, Unit::Count).replace(' ', "");
    }
    let text = real_text(value, RealFormat::Fixed(decimals));
    if text
        .trim_start_matches('-')
        .bytes()
        .all(|b| b == b'0' || b == b'.')
    {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    }
}

/// Formats a value with its unit and without trailing zeros: `1 ms`, `64 KiB`.
pub(crate) fn short(value: f64, unit: Unit) -> String {
    let text = match unit {
        Unit::None | Unit::Count | Unit::PerSecond => human::short_count(value),
        unit => human::quantity(value, unit),
    };
    match text.split_once(' ') {
        Some((number, name)) if number.contains('.') => {
            format!(
                "{} {name}",
                number.trim_end_matches('0').trim_end_matches('.')
            )
        }
        None if text.contains('.') && !text.contains('e') => {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> (Vec<String>, String) {
        let ruler = axis.lay_out(values.iter().copied(), 5.0);
        (
            ruler.ticks.iter().map(|t| t.1.clone()).collect(),
            ruler.title("x"),
        )
    }

    #[test]
    fn ticks_fall_on_round_numbers_in_one_unit() {
        let cases: &[(Unit, &[f64], &[&str], &str)] = &[
            (
                Unit::None,
                &[0.0, 10.0],
                &["0", "2", "4", "6", "8", "10"],
                "x",
            ),
            (
                Unit::None,
                &[0.0, 1.0],
                &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"],
                "x",
            ),
            (
                Unit::Nanos,
                &[0.0, 4_300_000.0],
                &["0", "1", "2", "3", "4", "5"],
                "x (ms)",
            ),
            (
                Unit::Nanos,
                &[200.0, 1900.0],
                &["0.0", "0.5", "1.0", "1.5", "2.0"],
                "x (µs)",
            ),
            (
                Unit::Nanos,
                &[0.0, 3.6e12],
                &["0", "20", "40", "60"],
                "x (min)",
            ),
            (
                Unit::Bytes,
                &[0.0, 3000.0],
                &["0", "1", "2", "3"],
                "x (KiB)",
            ),
            (
                Unit::Bytes,
                &[0.0, 500.0 * 1024.0 * 1024.0],
                &["0", "128", "256", "384", "512"],
                "x (MiB)",
            ),
            (
                Unit::Count,
                &[0.0, 45_000.0],
                &["0", "10k", "20k", "30k", "40k", "50k"],
                "x",
            ),
            (
                Unit::Pct,
                &[-30.0, 30.0],
                &["-40", "-20", "0", "20", "40"],
                "x (%)",
            ),
            (
                Unit::None,
                &[],
                &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"],
                "x",
            ),
            (Unit::None, &[5.0], &["0", "1", "2", "3", "4", "5"], "x"),
            (
                Unit::None,
                &[f64::NAN, f64::INFINITY, 5.0, 6.0],
                &["5.0", "5.2", "5.4", "5.6", "5.8", "6.0"],
                "x",
            ),
        ];
        for (unit, values, expected, title) in cases {
            assert_eq!(
                labels(&Axis::new("", *unit), values),
                (
                    expected.iter().map(|s| (*s).to_owned()).collect(),
                    (*title).to_owned()
                )
            );
        }
    }

    #[test]
    fn logarithmic_ticks_carry_their_units() {
        let (ticks, title) = labels(&Axis::log("", Unit::Nanos), &[3e3, 5e7, 0.0, -1.0]);
        assert_eq!(
            ticks,
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]
        );
        assert_eq!(title, "x");
        let (ticks, _) = labels(&Axis::log("", Unit::Bytes), &[1024.0, 1_048_576.0]);
        assert_eq!(
            ticks,
            ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]
        );
        let (ticks, _) = labels(&Axis::log("", Unit::None), &[1.0, 90.0]);
        assert_eq!(ticks, ["1", "2", "5", "10", "20", "50", "100"]);
    }

    #[test]
    fn places_run_from_zero_to_one() {
        let ruler = Axis::new("", Unit::None)
            .range(2.0, 4.0)
            .lay_out(std::iter::empty(), 4.0);
        assert!((ruler.place(2.0), ruler.place(3.0), ruler.place(4.0)) == (0.0, 0.5, 1.0));
        let ruler = Axis::log("", Unit::None)
            .range(1.0, 100.0)
            .lay_out(std::iter::empty(), 4.0);
        assert!((ruler.place(10.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn zero_is_included_on_request() {
        let ruler = Axis::from_zero("", Unit::None).lay_out([90.0, 100.0].into_iter(), 5.0);
        assert!((ruler.low, ruler.high) == (0.0, 100.0));
        let ruler = Axis::new("", Unit::None).lay_out_ends([3.0, 97.0].into_iter(), 5.0, true);
        assert!((ruler.low, ruler.high) == (3.0, 97.0));
        assert_eq!(
            ruler.ticks.iter().map(|t| t.1.as_str()).collect::<Vec<_>>(),
            ["20", "40", "60", "80"]
        );
    }
}
