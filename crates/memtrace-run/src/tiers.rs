//! What-if analysis: compares the data of a type with a memory or storage tier that the user
//! describes.

use std::time::Duration;

use memtrace_analyser::{Analysis, Rate, Semantics, TypeMetrics};
use memtrace_labeller::Records;
use report::{Cell, Column, Table};
use serde::Serialize;

use crate::answers::{bytes, number};

/// Size in bytes of an access for which the capture has none: a cache line.
const LINE_BYTES: f64 = 64.0;
/// Required lifetime of a tier's cells in years.
const WEAR_YEARS: f64 = 5.0;
const NO_STORE: &str = "no store was recorded";
const NO_ACCESSES: &str = "no loads or stores were recorded";
const YEAR_S: f64 = 365.25 * 86_400.0;

/// A tier of memory or storage. Absent properties are not compared.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Bandwidth in bytes per second, reads and writes together.
    pub bandwidth: Option<f64>,
    /// Capacity in bytes.
    pub capacity: Option<f64>,
    /// Retention without a refresh, in seconds.
    pub retention: Option<f64>,
    /// Number of times that each byte can be written.
    pub endurance: Option<f64>,
}

/// The answer to one question about a type and a tier.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fit {
    /// The tier.
    pub tier: String,
    /// The type.
    pub region_type: String,
    /// `capacity` (bytes), `bandwidth` (bytes per second), `retention` (seconds) or `endurance` (writes of each byte in five years).
    pub question: &'static str,
    /// `fits`, `does not fit`, or `cannot say`.
    pub answer: &'static str,
    /// Lower bound of the requirement.
    pub needed_low: Option<f64>,
    /// Upper bound of the requirement.
    pub needed_high: Option<f64>,
    /// Value of the tier.
    pub given: f64,
    /// Ratio of the tier's value to the requirement; below 1 it is insufficient.
    pub margin: Option<f64>,
    /// Explanation in words.
    pub note: String,
}

impl Tier {
    /// Parses `NAME:key=value,...` with the keys `bandwidth`, `capacity`, `retention` and
    /// `endurance`.
    ///
    /// # Errors
    ///
    /// A description of what is wrong with the argument.
    ///
    /// ```
    /// let tier = memtrace_run::Tier::parse("cxl:bandwidth=32GB/s,capacity=256GiB,retention=1h")?;
    /// assert_eq!((tier.bandwidth, tier.retention), (Some(32e9), Some(3600.0)));
    /// assert!(memtrace_run::Tier::parse("cxl:speed=3").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(argument: &str) -> Result<Self, String> {
        let (name, list) = argument
            .split_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("'{argument}' is not NAME:key=value,..."))?;
        let mut tier = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        for part in list.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not key=value"))?;
            tier.set(key.trim(), value)?;
        }
        Ok(tier)
    }

    /// Parses tiers from TOML: a table per tier, by name, with the keys of [`Tier::parse`] as
    /// numbers or as texts with units.
    ///
    /// # Errors
    ///
    /// A description of what is wrong with the text.
    ///
    /// ```
    /// let tiers = memtrace_run::Tier::from_toml("[cxl]\nbandwidth = \"32GB/s\"\nretention = 3600\n")?;
    /// assert_eq!((tiers[0].name.as_str(), tiers[0].retention), ("cxl", Some(3600.0)));
    /// # Ok::<(), String>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Vec<Self>, String> {
        let file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut tiers = Vec::new();
        for (name, keys) in file {
            let keys = keys
                .as_table()
                .ok_or_else(|| format!("'{name}' is no table"))?;
            let mut tier = Self {
                name,
                ..Self::default()
            };
            for (key, value) in keys {
                let text = match value {
                    toml::Value::String(text) => text.clone(),
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Float(number) => number.to_string(),
                    _ => return Err(format!("{}.{key}: expected a number or a text", tier.name)),
                };
                tier.set(key, &text)?;
            }
            tiers.push(tier);
        }
        Ok(tiers)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (place, units) = match key {
            "bandwidth" => (&mut self.bandwidth, BYTES),
            "capacity" => (&mut self.capacity, BYTES),
            "retention" => (&mut self.retention, TIMES),
            "endurance" => (&mut self.endurance, COUNTS),
            _ => {
                return Err(format!(
                    "'{key}' is none of bandwidth, capacity, retention, endurance"
                ));
            }
        };
        let number = amount(value, units).ok_or_else(|| {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let names = names.join(" ");
            format!("{key}={value}: expected a number above 0, units:{names}")
        })?;
        if place.replace(number).is_some() {
            return Err(format!("{key} is given twice"));
        }
        Ok(())
    }
}

/// Units and their factors.
type Units = &'static [(&'static str, f64)];
const BYTES: Units = &[
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const TIMES: Units = &[
    ("", 1.0),
    ("s", 1.0),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("y", YEAR_S),
];
const COUNTS: Units = &[("", 1.0)];

/// Parses the longest number before a unit.
fn amount(text: &str, units: Units) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix("/s").unwrap_or(text);
    let (number, unit) = (0..=text.len())
        .rev()
        .filter_map(|at| text.split_at_checked(at))
        .find_map(|(number, unit)| Some((number.parse::<f64>().ok()?, unit.trim())))?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number * scale).filter(|number| number.is_finite() && *number > 0.0)
}

/// Compares each type that has loads or stores with each tier; empty in the reference's semantics.
#[must_use]
pub fn fits(analysis: &Analysis, tiers: &[Tier]) -> Vec<Fit> {
    if analysis.semantics == Semantics::Mrm {
        return Vec::new();
    }
    let types = || {
        let types = analysis.types.iter();
        types.filter(|kind| {
            let is_known = kind.has_accesses() || analysis.records == Records::Regions;
            is_known && kind.n_regions > 0
        })
    };
    tiers
        .iter()
        .flat_map(|tier| types().map(move |kind| (tier, kind)))
        .flat_map(|(tier, kind)| judged(analysis, tier, kind))
        .collect()
}

fn judged(analysis: &Analysis, tier: &Tier, kind: &TypeMetrics) -> Vec<Fit> {
    let need = Need::of(analysis, kind);
    let fit = |question, [low, high]: [Option<f64>; 2], given: f64, note: String| {
        let (answer, needed) = match (low, high) {
            (_, Some(high)) if high <= given => ("fits", Some(high)),
            (Some(low), _) if low > given => ("does not fit", Some(low)),
            _ => ("cannot say", None),
        };
        Fit {
            tier: tier.name.clone(),
            region_type: kind.region_type.clone(),
            question,
            answer,
            needed_low: low,
            needed_high: high,
            given,
            margin: needed
                .filter(|needed| *needed > 0.0)
                .map(|needed| given / needed),
            note,
        }
    };
    let mut all = Vec::new();
    if let Some(capacity) = tier.capacity {
        let what = match analysis.records {
            Records::Allocations => "allocated",
            Records::Regions => "found accessed",
            _ => "touched",
        };
        let grows = match need.is_growing {
            true => ", more until the recording ends",
            false => "",
        };
        let note = format!("{} {what}{grows}", bytes(kind.distinct_pages * 4096));
        all.push(fit("capacity", need.size, capacity, note));
    }
    if let Some(bandwidth) = tier.bandwidth {
        let note = match analysis.records {
            Records::Accesses if kind.periods_vary => {
                "at least the mean of the recording: samples of different periods do not show the busiest window"
                    .to_owned()
            }
            Records::Accesses => format!(
                "busiest of {} windows of {} s, 64 B for each {}{}",
                kind.window_loads.len(),
                number(seconds(analysis.window_ns)),
                match need.has_stores {
                    true => "access",
                    false => "load: no store was recorded",
                },
                match need.is_sampled {
                    true => "; 95 % bounds that hold for all windows at once",
                    false => "",
                }
            ),
            _ => NO_ACCESSES.to_owned(),
        };
        all.push(fit("bandwidth", need.peak, bandwidth, note));
    }
    if let Some(retention) = tier.retention {
        let note = match (need.age, need.size) {
            ([Some(low), _], [Some(size), _]) if low > retention => format!(
                "needs a refresh every {} s: {} MB/s",
                number(retention),
                number(size / retention / 1e6)
            ),
            _ if analysis.records != Records::Accesses => NO_ACCESSES.to_owned(),
            _ if !need.has_stores => NO_STORE.to_owned(),
            ([Some(low), None], _) if need.age_is_cut => {
                format!("read until the recording ends: at least {} s", number(low))
            }
            _ => "age that 99 % of reads stay below".to_owned(),
        };
        all.push(fit("retention", need.age, retention, note));
    }
    if let (Some(endurance), Some(capacity)) = (tier.endurance, tier.capacity) {
        // With even wear, each byte is written once per capacity written.
        let writes = |written: f64| written * WEAR_YEARS * YEAR_S / capacity;
        let lasts = |written: f64| lasting(endurance * capacity / written);
        let half = number(seconds(kind.late_stores.length_ns));
        let note = match need.written {
            _ if analysis.records == Records::Accesses && !need.has_stores => NO_STORE.to_owned(),
            [_, Some(high)] if high <= 0.0 && kind.stores == 0 => "never written".to_owned(),
            [_, Some(high)] if high <= 0.0 => format!("not written in the last {half} s"),
            [Some(low), Some(high)] if low >= high => format!(
                "wears out in {} if writes go on as in the last {half} s, spread evenly",
                lasts(high)
            ),
            [Some(low), Some(high)] => format!(
                "wears out in {} or more{} if writes go on as in the last {half} s, spread evenly",
                lasts(high),
                match low > 0.0 {
                    true => format!(", at most {},", lasts(low)),
                    false => String::new(),
                }
            ),
            _ => "writes are not known".to_owned(),
        };
        let needed = need.written.map(|written| written.map(writes));
        all.push(fit("endurance", needed, endurance, note));
    }
    all
}

/// Formats a time in a suitable unit.
fn lasting(seconds: f64) -> String {
    let units = [(YEAR_S, "years"), (86_400.0, "days"), (3600.0, "h")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= *unit);
    let (unit, name) = unit.unwrap_or((1.0, "s"));
    format!("{} {name}", number(seconds / unit))
}

/// Requirements of a type, each with lower and upper bound.
struct Need {
    size: [Option<f64>; 2],
    /// `true` if new memory is touched until the recording ends.
    is_growing: bool,
    /// Bytes per second in the busiest window.
    peak: [Option<f64>; 2],
    /// `true` if the recording has any store. One of loads only says nothing of stores, and with them of ages.
    has_stores: bool,
    /// `true` if `peak` is estimated from samples.
    is_sampled: bool,
    /// Sustained bytes per second.
    written: [Option<f64>; 2],
    age: [Option<f64>; 2],
    /// `true` if reads after the end of the recording may find older data.
    age_is_cut: bool,
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64().max(1e-9)
}

/// Bounds of the largest expected number of samples in any of some windows, of which each has such a number, all at once with 95 %.
///
/// The largest of many counts is large by chance, too. So each window has bounds that are wrong with a probability of 5 % over the number
/// of windows (Bonferroni; the tail of the normal distribution is at most half of `exp(-z²/2)`), and the largest of these are
/// the bounds. Counts are of Poisson's distribution, whose square root has a standard deviation of one half.
#[expect(clippy::cast_precision_loss, reason = "counts are estimated from")]
fn most(windows: &[u64]) -> [f64; 2] {
    let half = (2.0 * (20.0 * windows.len().max(1) as f64).ln()).sqrt() / 2.0;
    let low = |count: u64| ((count as f64).sqrt() - half).max(0.0).powi(2);
    let high = |count: u64| ((count as f64 + 1.0).sqrt() + half).powi(2);
    let largest = windows.iter().copied().max().unwrap_or(0);
    [low(largest), high(largest)]
}

impl Need {
    #[expect(clippy::cast_precision_loss, reason = "needs are reals")]
    fn of(analysis: &Analysis, kind: &TypeMetrics) -> Self {
        let verdict = kind.verdict.as_ref();
        let rate = verdict.map_or(Rate::Unknown, |verdict| verdict.rate);
        let scale = match rate {
            Rate::Complete => Some(1.0),
            Rate::Sampled(p) => Some(1.0 / p),
            Rate::Unknown => None,
        };
        let has_accesses = analysis.records == Records::Accesses;
        let has_stores = analysis.types.iter().any(|kind| kind.stores > 0);
        let scale = scale.filter(|_| has_accesses && !analysis.made_up_clock);
        // Counts of samples are known to two standard deviations.
        let range = |count: u64, seconds: f64| {
            let count = count as f64;
            let spread = match rate {
                Rate::Complete => 0.0,
                _ => 2.0 * count.sqrt() + 3.0,
            };
            let of = |count: f64| Some(count.max(0.0) * scale? * LINE_BYTES / seconds);
            [of(count - spread), of(count + spread)]
        };
        let windows = kind.window_loads.iter().zip(&kind.window_stores);
        let windows: Vec<u64> = windows.map(|(loads, stores)| loads + stores).collect();
        let each = |count: f64| Some(count * scale? * LINE_BYTES / seconds(analysis.window_ns));
        let peak = match (rate, kind.sampling) {
            (Rate::Complete, _) => [each(windows.iter().copied().max().unwrap_or(0) as f64); 2],
            (_, Some(sampling)) if kind.periods_vary => {
                let all = seconds(analysis.last_ns.saturating_sub(analysis.first_ns));
                let mean = sampling.accesses.low * LINE_BYTES / all;
                [scale.map(|_| mean), None]
            }
            _ => most(&windows).map(each),
        };
        // Stores, which are not there, come on top.
        let peak = match (has_stores, peak) {
            (true, peak) => peak,
            (false, [low, _]) => [low, None],
        };
        let size = (kind.distinct_pages * 4096) as f64;
        // Some touched memory may have been freed before the rest was allocated, so only the memory
        // touched at one time is needed.
        let is_growing = has_accesses && kind.late_pages * 100 > kind.distinct_pages;
        let at_a_time = kind.window_pages.iter().max().copied().unwrap_or(0);
        let least = match has_accesses && (is_growing || rate != Rate::Complete) {
            true => (at_a_time * 4096) as f64,
            false => size,
        };
        // Stores at the beginning happen once and not for years: the second half shows the
        // sustained rate. A first store to an address may be one of many, or the only one, so only
        // repeated stores are certain to continue.
        let late = kind.late_stores;
        let [low, high] = range(late.stores, seconds(late.length_ns));
        let once = verdict.and_then(|verdict| verdict.write_once?.high);
        let is_rewritten = once.is_some_and(|once| once < 0.2);
        let low = match rate {
            Rate::Complete => range(late.again, seconds(late.length_ns))[0],
            // For data that is rewritten, nearly all stores continue.
            _ => low.map(|low| if is_rewritten { low } else { 0.0 }),
        };
        let age_is_cut = verdict.is_some_and(|verdict| verdict.ages_go_on);
        let ages = verdict.and_then(|verdict| verdict.read_age_ns);
        let age = ages
            .map(|[_, _, age]| age)
            .filter(|_| !analysis.made_up_clock);
        Self {
            size: [
                Some(least),
                Some(size).filter(|_| rate == Rate::Complete && !is_growing),
            ],
            is_growing,
            has_stores,
            peak,
            is_sampled: rate != Rate::Complete,
            written: [low, high].map(|bound| bound.filter(|_| has_stores)),
            age_is_cut,
            age: [
                age.map(|age| age.low / 1e9),
                age.and_then(|age| age.high)
                    .filter(|_| !age_is_cut)
                    .map(|high| high / 1e9),
            ],
        }
    }
}

/// Returns the answers as a table.
pub(crate) fn fits_table(fits: &[Fit]) -> crate::error::Result<Table> {
    let columns = vec![
        Column::text("tier"),
        Column::text("region_type"),
        Column::text("question"),
        Column::text("answer"),
        Column::real("needed_low"),
        Column::real("needed_high"),
        Column::real("given"),
        Column::real("margin"),
        Column::text("note"),
    ];
    let mut table = Table::new("tiers", columns)?;
    for fit in fits {
        table.push(&[
            Cell::Text(&fit.tier),
            Cell::Text(&fit.region_type),
            fit.question.into(),
            fit.answer.into(),
            fit.needed_low.into(),
            fit.needed_high.into(),
            fit.given.into(),
            fit.margin.into(),
            Cell::Text(&fit.note),
        ])?;
    }
    Ok(table)
}

/// Returns the answers as text, one line each.
#[must_use]
pub fn fits_text(fits: &[Fit]) -> String {
    let mut text = String::new();
    for fit in fits {
        let margin = fit.margin.map_or(String::new(), |margin| match margin {
            // Fixed digits would show none.
            margin if margin < 0.001 => format!(", margin {margin:.3e}x"),
            margin => format!(", margin {}x", number(margin)),
        });
        text.push_str(&format!(
            "{} in {}: {} {}{margin} ({})\n",
            fit.region_type, fit.tier, fit.question, fit.answer, fit.note
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the profile over windows is, the bounds hold in 95 % of the recordings, and the largest count alone does not.
    #[test]
    fn bounds_of_the_busiest_window_hold_for_all_windows() {
        let mut state = 5_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for peak in [1.0, 3.0] {
            for mean in [2.0, 20.0, 200.0] {
                let (mut wrong, mut above) = (0, 0);
                for _ in 0..400 {
                    let windows: Vec<u64> = (0..64)
                        .map(|at| {
                            let expected: f64 = if at == 9 { mean * peak } else { mean };
                            // Poisson, by waiting times.
                            let (mut count, mut time) = (0, 0.0);
                            loop {
                                time -= f64::ln(1.0 - random());
                                if time > expected {
                                    return count;
                                }
                                count += 1;
                            }
                        })
                        .collect();
                    let truth = mean * peak;
                    let [low, high] = most(&windows);
                    wrong += u32::from(!(low..=high).contains(&truth));
                    above += u32::from(*windows.iter().max().unwrap() as f64 > truth);
                }
                assert!(wrong <= 20, "{peak}, {mean}: {wrong}");
                assert!(peak > 1.0 || above > 380, "{above}");
            }
        }
    }

    #[test]
    fn tiers_are_read_and_mistakes_refused() {
        let tier = Tier::parse("hbm:bandwidth=3.35TB/s,retention=250ms,endurance=1e15").unwrap();
        assert_eq!(tier.bandwidth, Some(3.35e12));
        assert_eq!((tier.retention, tier.endurance), (Some(0.25), Some(1e15)));
        assert_eq!(tier.capacity, None);
        for wrong in [
            "hbm",
            ":capacity=1",
            "a:capacity",
            "a:capacity=0",
            "a:capacity=-1",
            "a:capacity=inf",
            "a:capacity=1x",
            "a:retention=1GB",
            "a:capacity=1,capacity=2",
            "a:",
        ] {
            assert!(Tier::parse(wrong).is_err(), "{wrong}");
        }
    }
}
