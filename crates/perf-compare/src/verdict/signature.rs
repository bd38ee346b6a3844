//! The table of signatures: data, not code.

use serde::Deserialize;

use super::signal::{Signal, Stat};
use crate::error::{Error, Result};
use crate::stats::choose;

/// What the causes look like. [`Signatures::builtin`] is documented in `signatures.toml`; more can be added.
#[derive(Debug, Clone)]
pub struct Signatures {
    pub(super) all: Vec<Signature>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    signature: Vec<Signature>,
}

/// One way in which a cause shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    pub(super) cause: String,
    /// In words: what the cause covers.
    pub(super) covers: String,
    /// How little else looks like this, 0 to 1.
    pub(super) specificity: f64,
    /// Whether it may also explain an improvement, read from candidate to baseline.
    #[serde(default)]
    pub(super) reversible: bool,
    /// All of these must hold.
    #[serde(default)]
    pub(super) need: Vec<Clause>,
    /// At least one clause of each group must hold.
    #[serde(default)]
    pub(super) one_of: Vec<Vec<Clause>>,
    /// These make it more credible.
    #[serde(default)]
    pub(super) support: Vec<Clause>,
    /// Any of these rules it out.
    #[serde(default)]
    pub(super) against: Vec<Clause>,
    /// Quantities in time per cycle: the one that grew most must explain at least half of what a cycle takes longer.
    #[serde(default)]
    pub(super) explains: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Up,
    Down,
    /// In either direction.
    Moved,
    Flat,
    /// It was recorded, whatever it did.
    Recorded,
    /// It was not recorded.
    Absent,
}

/// What one metric has to do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clause {
    pub(super) metric: String,
    pub(super) direction: Direction,
    /// Least change in percent of the baseline; for `flat`, the largest.
    #[serde(default)]
    pub(super) pct: Option<f64>,
    /// Least change in native units.
    #[serde(default)]
    pub(super) by: Option<f64>,
    /// The larger side must reach this value.
    #[serde(default)]
    pub(super) reach: Option<f64>,
    /// Only quantities in this unit.
    #[serde(default)]
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) stat: Stat,
    /// Cliff's δ that the change must reach.
    #[serde(default = "default_separation")]
    pub(super) separation: f64,
    /// Whether means that differ beyond chance do as well as that δ: for what comes in some cycles only, whose neighbours may change
    /// the other way.
    #[serde(default)]
    pub(super) means: bool,
    /// Why this speaks against the cause.
    #[serde(default)]
    pub(super) why: Option<String>,
}

fn default_separation() -> f64 {
    0.6
}

/// Cliff's δ between means of runs: there are few of them, and 0.6 is common by chance.
const RUN_SEPARATION: f64 = 0.9;

/// Cliff's δ that samples of these sizes from one distribution exceed in one case of twenty, by the normal approximation
/// of the rank sum. Complete separation always suffices: few samples of a counter are all that a short recording has.
fn separation_by_chance(one: usize, two: usize) -> f64 {
    const TWO_SIDED_5_PCT: f64 = 1.96;
    let (one, two) = (one as f64, two as f64);
    (TWO_SIDED_5_PCT * ((one + two + 1.0) / (3.0 * one * two)).sqrt()).min(1.0)
}

/// Returns `true` if the samples are so few that all of one side exceed those of the other more often than in one case of twenty,
/// and not farther apart than a side varies itself: three samples of a counter that wanders are apart in one case of ten. So are
/// a few more where a counter changes slowly, which few samples do not show.
fn few_overlap(signal: &Signal) -> bool {
    /// Distance of the sides relative to the range of either.
    const APART: f64 = 2.0;
    const CHANCE: f64 = 0.05;
    /// Samples of a side from which on it shows how much neighbours resemble each other.
    const IN_TIME: usize = 8;
    let sides = &signal.values;
    let [n, m] = sides.each_ref().map(Vec::len);
    let is_known = !signal.is_counter || n.min(m) >= IN_TIME;
    if signal.by_run || (is_known && 2.0 / choose(n + m, n) as f64 <= CHANCE) {
        return false;
    }
    let ends = sides.each_ref().map(|side| {
        side.iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                (low.min(*x), high.max(*x))
            })
    });
    let gap = (ends[1].0 - ends[0].1).max(ends[0].0 - ends[1].1);
    let range = ends
        .iter()
        .map(|(low, high)| high - low)
        .fold(0.0, f64::max);
    n.min(m) < 2 || gap < APART * range
}

/// Percent below which a quantity counts as flat unless the clause says otherwise.
const FLAT_PCT: f64 = 5.0;

impl Clause {
    /// How far this signal goes beyond what is asked, as a factor; `None` if it does not get there.
    pub(super) fn met_by(&self, signal: &Signal) -> Option<f64> {
        self.met(signal, true)
    }

    /// The same, where few samples that happen to be apart do as well unless `surely`.
    fn met(&self, signal: &Signal, surely: bool) -> Option<f64> {
        if signal.metric != self.metric
            || self.unit.as_ref().is_some_and(|unit| unit != signal.unit)
        {
            return None;
        }
        let [a, b] = signal.typical(self.stat);
        let change = signal.change_pct(self.stat);
        let by_chance = separation_by_chance(signal.values[0].len(), signal.values[1].len());
        let least = if signal.by_run {
            RUN_SEPARATION
        } else {
            by_chance
        };
        let needed = self.separation.max(least);
        let by_mean = self.means && signal.means_differ && !signal.by_run;
        let separated = signal.point
            || ((by_mean || signal.separation.abs() >= needed)
                && !(surely && (signal.by_chance || few_overlap(signal))));
        if self.direction == Direction::Flat {
            let limit = self.pct.unwrap_or(FLAT_PCT);
            let within = self
                .by
                .map_or(change.abs() <= limit, |by| (b - a).abs() <= by);
            return (within || !separated).then_some(1.0);
        }
        let right_way = match self.direction {
            Direction::Up => b > a,
            Direction::Down => b < a,
            _ => (b - a).abs() > 0.0,
        };
        let consistent = signal.point || by_mean || signal.separation * (b - a) > 0.0;
        if !right_way || !separated || !consistent {
            return None;
        }
        if self.reach.is_some_and(|reach| a.max(b) < reach) {
            return None;
        }
        let mut factor = f64::INFINITY;
        if let Some(pct) = self.pct {
            // On a log scale, so that halving and doubling weigh the same.
            let size = |pct: f64| (1.0 + pct / 100.0).max(1e-6).ln().abs();
            let needed = if b < a {
                size(-pct.min(99.0))
            } else {
                size(pct)
            };
            let found = if b < a {
                size(change.max(-99.99))
            } else {
                size(change)
            };
            factor = factor.min(found / needed);
        }
        if let Some(by) = self.by {
            factor = factor.min((b - a).abs() / by);
        }
        // Rounding must not decide at the edge.
        (factor >= 1.0 - 1e-9).then_some(factor)
    }

    /// A signal that speaks against a cause: one that may have moved by chance leaves it open, which is enough.
    pub(super) fn speaks<'s>(&self, signals: &'s [Signal]) -> Option<&'s Signal> {
        let found = self.best(signals).map(|found| found.0);
        found.or_else(|| {
            let moves = !matches!(self.direction, Direction::Flat | Direction::Recorded);
            let candidates = self.candidates(signals).into_iter();
            let mut counters = candidates.filter(|s| moves && s.is_counter);
            counters.find(|s| self.met(s, false).is_some())
        })
    }

    /// The best signal for this clause, with its factor.
    pub(super) fn best<'s>(&self, signals: &'s [Signal]) -> Option<(&'s Signal, f64)> {
        let candidates: Vec<&Signal> = self.candidates(signals);
        if self.direction == Direction::Recorded {
            return candidates.first().map(|s| (*s, 1.0));
        }
        if self.direction == Direction::Flat {
            // Flat everywhere, or not flat.
            let all = candidates.iter().all(|s| self.met_by(s).is_some());
            return candidates.first().filter(|_| all).map(|s| (*s, 1.0));
        }
        candidates
            .into_iter()
            .filter_map(|s| Some((s, self.met_by(s)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Signals of this metric. Those of a single device are preferred to mixtures of several.
    pub(super) fn candidates<'s>(&self, signals: &'s [Signal]) -> Vec<&'s Signal> {
        let of: Vec<&Signal> = signals
            .iter()
            .filter(|s| {
                s.metric == self.metric && self.unit.as_ref().is_none_or(|unit| unit == s.unit)
            })
            .collect();
        let single: Vec<&Signal> = of
            .iter()
            .copied()
            .filter(|s| s.device != "all GPUs")
            .collect();
        if single.is_empty() { of } else { single }
    }
}

impl Signatures {
    /// The table that comes with the program.
    #[must_use]
    pub fn builtin() -> Self {
        // A test reads it; an unreadable table would leave every cause unknown, never panic.
        Self::parse(include_str!("signatures.toml"), "built-in signatures")
            .unwrap_or(Self { all: Vec::new() })
    }

    /// The text of the built-in table, which is also its documentation.
    #[must_use]
    pub fn builtin_text() -> &'static str {
        include_str!("signatures.toml")
    }

    /// Reads a table in the form of [`Signatures::builtin_text`]; `name` is for messages.
    ///
    /// # Errors
    ///
    /// [`Error::Signatures`] for anything but such a table.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|source| Error::Signatures {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self {
            all: file.signature,
        })
    }

    /// Adds the signatures of another table.
    pub fn extend(&mut self, more: Self) {
        self.all.extend(more.all);
    }

    /// The causes of the table, each once, in the order of the table.
    #[must_use]
    pub fn causes(&self) -> Vec<&str> {
        let mut causes: Vec<&str> = Vec::new();
        for signature in &self.all {
            if !causes.contains(&signature.cause.as_str()) {
                causes.push(&signature.cause);
            }
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clause(text: &str) -> Clause {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_builtin_table_has_every_cause() {
        let table = Signatures::parse(Signatures::builtin_text(), "x").unwrap();
        for cause in [
            "cpu_contention",
            "cpu_frequency",
            "gpu_frequency",
            "gpu_contention",
            "nvlink_contention",
            "pcie_contention",
            "memory_pressure",
            "disk_contention",
            "network_contention",
            "host_code",
            "gpu_kernel",
            "collective_straggler",
            "workload_shift",
        ] {
            assert!(table.causes().contains(&cause), "{cause}");
        }
        assert!(
            table
                .all
                .iter()
                .all(|s| s.specificity > 0.0 && s.specificity <= 1.0)
        );
    }

    #[test]
    fn clauses() {
        let down = clause("metric = 'f'\ndirection = 'down'\npct = 10");
        let signal =
            |a: f64, b: f64| Signal::series("f", "Host", "MHz", [vec![a; 4], vec![b; 4]]).unwrap();
        assert!(down.met_by(&signal(3500.0, 900.0)).unwrap() > 10.0);
        assert!(down.met_by(&signal(3500.0, 3300.0)).is_none());
        assert!(down.met_by(&signal(900.0, 3500.0)).is_none());
        let flat = clause("metric = 'f'\ndirection = 'flat'");
        assert!(flat.met_by(&signal(3500.0, 3400.0)).is_some());
        assert!(flat.met_by(&signal(3500.0, 3000.0)).is_none());
        let up = clause("metric = 'f'\ndirection = 'up'\nby = 10\nreach = 50");
        assert!(up.met_by(&signal(1.0, 20.0)).is_none());
        assert!(up.met_by(&signal(1.0, 60.0)).unwrap() > 5.0);
        assert!(Signatures::parse("[[signature]]\ncause = 'x'", "x").is_err());
    }

    #[test]
    fn few_samples_must_be_told_apart_more_clearly() {
        let up = clause("metric = 'f'\ndirection = 'up'\npct = 10");
        let met = |one: &[f64], two: &[f64]| {
            let signal = Signal::series("f", "Host", "B/s", [one.to_vec(), two.to_vec()]);
            up.met_by(&signal.unwrap()).is_some()
        };
        // δ is 0.67 in each: with two and six samples that is common by chance, with twelve on each side it is not.
        assert!(!met(&[1.0, 20.0], &[2.0, 30.0, 31.0, 32.0, 3.0, 33.0]));
        let bursts = |low: f64, high: f64, highs: usize| {
            let mut values = vec![high; highs];
            values.resize(12, low);
            values
        };
        assert!(met(&bursts(1.0, 20.0, 4), &bursts(2.0, 30.0, 6)));
        // Few samples without any overlap are enough.
        assert!(met(&[1.0, 2.0], &[13.0, 14.0, 15.0]));
        // Unless they are no farther apart than they vary.
        assert!(!met(&[1.0, 2.0], &[3.0, 4.0, 5.0]));
        assert!(!met(&[1.0], &[30.0, 31.0]));
    }
}
