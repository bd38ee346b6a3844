//! Classifies how much collecting disturbed a run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, Result};

/// Limits of the classes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ValidityLimits {
    /// Limit of the observer's CPU share for a clean run, exclusive, percent.
    pub clean_cpu_pct: f64,
    /// Limit of the ratio of the observer's memory to the target's for a clean run, exclusive.
    pub clean_memory_frac: f64,
    /// Limit of the CPU share before a clean run, exclusive, percent.
    pub clean_baseline_pct: f64,
    /// Maximum temperature of a clean run, inclusive, degrees Celsius.
    pub clean_temperature_c: f64,
    /// Limit of the observer's CPU share for a marginal run, exclusive, percent.
    pub marginal_cpu_pct: f64,
    /// Limit of the ratio of the observer's memory to the target's for a marginal run, exclusive.
    pub marginal_memory_frac: f64,
    /// Limit of the CPU share before a marginal run, exclusive, percent; `None` is no limit.
    pub marginal_baseline_pct: Option<f64>,
    /// Maximum temperature of a marginal run, inclusive, degrees Celsius.
    pub marginal_temperature_c: f64,
    /// Maximum number of throttle events of a marginal run, inclusive.
    pub marginal_throttle: u64,
}

impl ValidityLimits {
    /// Limits of the reference's version 0.1.0, which does not limit the baseline of a marginal run
    /// and ignores the temperature.
    pub const MRM_010: Self = Self {
        clean_cpu_pct: 10.0,
        clean_memory_frac: 0.05,
        clean_baseline_pct: 15.0,
        clean_temperature_c: f64::INFINITY,
        marginal_cpu_pct: 20.0,
        marginal_memory_frac: 0.15,
        marginal_baseline_pct: None,
        marginal_temperature_c: f64::INFINITY,
        marginal_throttle: 2,
    };

    /// Limits of the reference's version 0.1.23, which are also the default.
    pub const MRM_023: Self = Self {
        clean_temperature_c: 85.0,
        marginal_baseline_pct: Some(30.0),
        marginal_temperature_c: 90.0,
        ..Self::MRM_010
    };
}

impl ValidityLimits {
    /// Sets a limit by its name in the metadata.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] for an unknown name or a value that is not a number.
    ///
    /// ```
    /// let mut limits = memtrace_run::ValidityLimits::default();
    /// limits.set("clean_cpu_pct=12.5")?;
    /// assert_eq!(limits.clean_cpu_pct, 12.5);
    /// assert!(limits.set("clean_cpu=1").is_err());
    /// # Ok::<(), memtrace_run::Error>(())
    /// ```
    pub fn set(&mut self, argument: &str) -> Result<()> {
        let refused = |what: &'static str| Error::Limit {
            argument: argument.to_owned(),
            what,
        };
        let (name, value) = argument
            .split_once('=')
            .ok_or_else(|| refused("is not NAME=NUMBER"))?;
        let value: f64 = value
            .parse()
            .ok()
            .filter(|value: &f64| *value >= 0.0)
            .ok_or_else(|| refused("is not NAME=NUMBER with a number from 0"))?;
        let place = match name {
            "clean_cpu_pct" => &mut self.clean_cpu_pct,
            "clean_memory_frac" => &mut self.clean_memory_frac,
            "clean_baseline_pct" => &mut self.clean_baseline_pct,
            "clean_temperature_c" => &mut self.clean_temperature_c,
            "marginal_cpu_pct" => &mut self.marginal_cpu_pct,
            "marginal_memory_frac" => &mut self.marginal_memory_frac,
            "marginal_baseline_pct" => self.marginal_baseline_pct.get_or_insert(value),
            "marginal_temperature_c" => &mut self.marginal_temperature_c,
            "marginal_throttle" => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count that was checked to be from 0; a cast stops at the largest"
                )]
                let count = value as u64;
                self.marginal_throttle = count;
                return Ok(());
            }
            _ => {
                return Err(refused(
                    "is none of clean_cpu_pct, clean_memory_frac, clean_baseline_pct, clean_temperature_c, marginal_cpu_pct, \
                     marginal_memory_frac, marginal_baseline_pct, marginal_temperature_c, marginal_throttle",
                ));
            }
        };
        *place = value;
        Ok(())
    }
}

impl Default for ValidityLimits {
    fn default() -> Self {
        Self::MRM_023
    }
}

/// Class of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Validity {
    /// The run was not disturbed.
    Clean,
    /// The run was slightly disturbed.
    Marginal,
    /// Keep the run, but leave it out of aggregates.
    Contaminated,
}

impl Validity {
    /// Returns the class as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Marginal => "marginal",
            Self::Contaminated => "contaminated",
        }
    }
}

/// Measurements that decide the class.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Disturbance {
    /// CPU share of the observer, percent.
    pub cpu_pct: f64,
    /// Ratio of the observer's memory to the target's.
    pub memory_frac: f64,
    /// Throttle events during the run.
    pub throttle_events: u64,
    /// CPU share before the run, percent.
    pub baseline_cpu_pct: f64,
    /// `true` if the observer wrote much.
    pub io_contention: bool,
    /// Highest temperature, degrees Celsius; 0 when unknown.
    pub peak_temperature_c: f64,
}

impl Disturbance {
    /// Returns the value for no disturbance.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

/// Returns the class, and a reason for every limit of a clean run that is not met.
#[must_use]
pub fn classify(seen: &Disturbance, limits: &ValidityLimits) -> (Validity, Vec<String>) {
    let mut reasons = Vec::new();
    let mut unmet = |bad: bool, what: String| {
        if bad {
            reasons.push(what);
        }
    };
    let l = limits;
    unmet(
        seen.cpu_pct >= l.clean_cpu_pct,
        format!(
            "observer CPU {} % is not below {} %",
            seen.cpu_pct, l.clean_cpu_pct
        ),
    );
    unmet(
        seen.memory_frac >= l.clean_memory_frac,
        format!(
            "observer memory {} of the target's is not below {}",
            seen.memory_frac, l.clean_memory_frac
        ),
    );
    unmet(
        seen.throttle_events > 0,
        format!("{} throttle events", seen.throttle_events),
    );
    unmet(
        seen.baseline_cpu_pct >= l.clean_baseline_pct,
        format!(
            "CPU before the run {} % is not below {} %",
            seen.baseline_cpu_pct, l.clean_baseline_pct
        ),
    );
    unmet(
        seen.io_contention,
        "the observer wrote more than 10 MiB".to_owned(),
    );
    unmet(
        seen.peak_temperature_c > l.clean_temperature_c,
        format!(
            "{} °C is above {} °C",
            seen.peak_temperature_c, l.clean_temperature_c
        ),
    );
    let marginal = seen.cpu_pct < l.marginal_cpu_pct
        && seen.memory_frac < l.marginal_memory_frac
        && seen.throttle_events <= l.marginal_throttle
        && !seen.io_contention
        && l.marginal_baseline_pct
            .is_none_or(|limit| seen.baseline_cpu_pct < limit)
        && seen.peak_temperature_c <= l.marginal_temperature_c;
    let class = if reasons.is_empty() {
        Validity::Clean
    } else if marginal {
        Validity::Marginal
    } else {
        Validity::Contaminated
    };
    (class, reasons)
}

/// A sample of the observer itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ObserverSample {
    /// CPU share, percent.
    pub cpu_pct: f64,
    /// Resident memory, MiB.
    pub rss_mb: f64,
    /// Bytes written since its start.
    pub write_bytes: u64,
}

impl ObserverSample {
    /// Creates a sample.
    #[must_use]
    pub const fn new(cpu_pct: f64, rss_mb: f64, write_bytes: u64) -> Self {
        Self {
            cpu_pct,
            rss_mb,
            write_bytes,
        }
    }
}

/// Cost of observing: the summary of the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ObserverEffect {
    /// Maximum CPU share in 0.1.0, its 95th percentile since 0.1.23.
    pub observer_cpu_overhead_pct_max: f64,
    /// Maximum CPU share; since 0.1.23.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observer_cpu_overhead_pct_abs_max: Option<f64>,
    /// Mean CPU share.
    pub observer_cpu_overhead_pct_mean: f64,
    /// Peak memory, MiB.
    pub observer_memory_overhead_mb_peak: f64,
    /// Ratio to the target's peak; 0 when that is 0.
    pub observer_memory_overhead_frac: f64,
    /// Peak memory of the target, MiB.
    pub target_rss_mb_peak: f64,
    /// Throttle events.
    pub thermal_throttle_events: u64,
    /// CPU share before the run.
    pub baseline_cpu_pct: f64,
    /// `true` if more than 10 MiB were written.
    pub io_contention_detected: bool,
    /// Number of samples of the observer.
    pub n_observer_samples: usize,
    /// Number of samples of the target.
    pub n_target_samples: usize,
}

/// Version of the summary: the versions differ in the definition of the maximum CPU share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ObserverVersion {
    /// 0.1.0.
    Mrm010,
    /// 0.1.23, and the default.
    #[default]
    Mrm023,
}

impl ObserverEffect {
    /// Summarises samples; no samples count as a single zero.
    #[must_use]
    pub fn new(
        observer: &[ObserverSample],
        target_rss_mb: &[f64],
        throttle_events: u64,
        baseline_cpu_pct: f64,
        version: ObserverVersion,
    ) -> Self {
        let none = [ObserverSample::default()];
        let samples = if observer.is_empty() { &none } else { observer };
        let mut cpu: Vec<f64> = samples.iter().map(|sample| sample.cpu_pct).collect();
        cpu.sort_by(f64::total_cmp);
        let count = cpu.len();
        #[expect(clippy::cast_precision_loss, reason = "a mean is a real")]
        let mean = samples.iter().map(|sample| sample.cpu_pct).sum::<f64>() / count as f64;
        let largest = cpu.last().copied().unwrap_or(0.0);
        let p95 = cpu
            .get((count * 95 / 100).saturating_sub(1))
            .copied()
            .unwrap_or(0.0);
        let peak = samples
            .iter()
            .map(|sample| sample.rss_mb)
            .fold(0.0, f64::max);
        let target = target_rss_mb.iter().copied().fold(0.0, f64::max);
        let written: u64 = samples
            .windows(2)
            .map(|pair| match pair {
                [before, after] => after.write_bytes.saturating_sub(before.write_bytes),
                _ => 0,
            })
            .sum();
        let old = version == ObserverVersion::Mrm010;
        Self {
            observer_cpu_overhead_pct_max: if old { largest } else { p95 },
            observer_cpu_overhead_pct_abs_max: (!old).then_some(largest),
            observer_cpu_overhead_pct_mean: mean,
            observer_memory_overhead_mb_peak: peak,
            observer_memory_overhead_frac: if target > 0.0 { peak / target } else { 0.0 },
            target_rss_mb_peak: target,
            thermal_throttle_events: throttle_events,
            baseline_cpu_pct,
            io_contention_detected: written > 10 * 1_048_576,
            n_observer_samples: observer.len(),
            n_target_samples: target_rss_mb.len(),
        }
    }

    /// Returns the measurements that decide the class: the mean CPU share in 0.1.23, else the
    /// maximum.
    #[must_use]
    pub fn disturbance(&self, version: ObserverVersion) -> Disturbance {
        Disturbance {
            cpu_pct: match version {
                ObserverVersion::Mrm010 => self.observer_cpu_overhead_pct_max,
                ObserverVersion::Mrm023 => self.observer_cpu_overhead_pct_mean,
            },
            memory_frac: if self.target_rss_mb_peak > 0.0 {
                self.observer_memory_overhead_mb_peak / self.target_rss_mb_peak
            } else {
                self.observer_memory_overhead_frac
            },
            throttle_events: self.thermal_throttle_events,
            baseline_cpu_pct: self.baseline_cpu_pct,
            io_contention: self.io_contention_detected,
            peak_temperature_c: 0.0,
        }
    }
}

/// Returns the throttle events between two readings of the CPUs' counters; a CPU that is new counts
/// 0.
#[must_use]
pub fn throttle_events(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    after
        .iter()
        .filter_map(|(cpu, after)| Some(after.saturating_sub(*before.get(cpu)?)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each limit at its edge, by the wording of the definitions: exclusive ones are met below, inclusive ones at the limit.
    #[test]
    fn each_limit_holds_to_its_edge() {
        let old = ValidityLimits::MRM_010;
        let new = ValidityLimits::MRM_023;
        let none = Disturbance::none;
        let cpu = |cpu_pct| Disturbance { cpu_pct, ..none() };
        let memory = |memory_frac| Disturbance {
            memory_frac,
            ..none()
        };
        let throttle = |throttle_events| Disturbance {
            throttle_events,
            ..none()
        };
        let baseline = |baseline_cpu_pct| Disturbance {
            baseline_cpu_pct,
            ..none()
        };
        let hot = |peak_temperature_c| Disturbance {
            peak_temperature_c,
            ..none()
        };
        let writes = Disturbance {
            io_contention: true,
            ..none()
        };
        let both = Disturbance {
            cpu_pct: 19.9,
            ..throttle(2)
        };
        for (seen, limits, class, reasons) in [
            (none(), new, Validity::Clean, 0),
            (cpu(9.999), new, Validity::Clean, 0),
            (cpu(10.0), new, Validity::Marginal, 1),
            (cpu(20.0), new, Validity::Contaminated, 1),
            (memory(0.0499), new, Validity::Clean, 0),
            (memory(0.05), new, Validity::Marginal, 1),
            (memory(0.15), new, Validity::Contaminated, 1),
            (throttle(1), new, Validity::Marginal, 1),
            (throttle(2), new, Validity::Marginal, 1),
            (throttle(3), new, Validity::Contaminated, 1),
            (baseline(14.9), new, Validity::Clean, 0),
            (baseline(15.0), new, Validity::Marginal, 1),
            (baseline(30.0), new, Validity::Contaminated, 1),
            (baseline(99.0), old, Validity::Marginal, 1),
            (writes, new, Validity::Contaminated, 1),
            (hot(85.0), new, Validity::Clean, 0),
            (hot(90.0), new, Validity::Marginal, 1),
            (hot(90.1), new, Validity::Contaminated, 1),
            (hot(120.0), old, Validity::Clean, 0),
            (both, new, Validity::Marginal, 2),
        ] {
            let (found, why) = classify(&seen, &limits);
            assert_eq!((found, why.len()), (class, reasons), "{seen:?} {why:?}");
        }
    }

    #[test]
    fn the_observer_is_summarised_as_each_version_defines() {
        // Shares 1 to 40; memory up to 30 of 200 MiB; 6 MiB written, and again.
        let mut samples: Vec<ObserverSample> = (1..=40)
            .map(|n| ObserverSample::new(f64::from(n), 10.0, 0))
            .collect();
        samples[7].rss_mb = 30.0;
        for (at, sample) in samples.iter_mut().enumerate() {
            sample.write_bytes = [0, 6 << 20, 12 << 20][at.min(2)];
        }
        let effect =
            |version| ObserverEffect::new(&samples, &[50.0, 200.0, 100.0], 3, 12.5, version);
        let (old, new) = (
            effect(ObserverVersion::Mrm010),
            effect(ObserverVersion::Mrm023),
        );
        // The 95th percentile of 40 samples is the 38th.
        assert_eq!(
            (
                old.observer_cpu_overhead_pct_max,
                new.observer_cpu_overhead_pct_max
            ),
            (40.0, 38.0)
        );
        assert_eq!(
            (
                old.observer_cpu_overhead_pct_abs_max,
                new.observer_cpu_overhead_pct_abs_max
            ),
            (None, Some(40.0))
        );
        for effect in [&old, &new] {
            assert_eq!(
                (
                    effect.observer_cpu_overhead_pct_mean,
                    effect.observer_memory_overhead_frac
                ),
                (20.5, 0.15)
            );
            assert!(effect.io_contention_detected);
            assert_eq!(
                (effect.n_observer_samples, effect.n_target_samples),
                (40, 3)
            );
        }
        // The maximum decides in 0.1.0, the mean since 0.1.23.
        let largest = old.disturbance(ObserverVersion::Mrm010).cpu_pct;
        let mean = new.disturbance(ObserverVersion::Mrm023).cpu_pct;
        assert_eq!((largest, mean), (40.0, 20.5));
        // Exactly 10 MiB are not too much; nothing seen is no disturbance.
        let quiet = [
            ObserverSample::new(0.0, 0.0, 5),
            ObserverSample::new(0.0, 0.0, 5 + (10 << 20)),
        ];
        let quiet = ObserverEffect::new(&quiet, &[], 0, 0.0, ObserverVersion::Mrm023);
        assert!(!quiet.io_contention_detected);
        assert_eq!(
            quiet.disturbance(ObserverVersion::Mrm023),
            Disturbance::none()
        );
    }

    #[test]
    fn throttle_events_are_those_of_cpus_that_were_there_before() {
        let counts = |list: &[(&str, u64)]| -> BTreeMap<String, u64> {
            list.iter()
                .map(|(cpu, count)| ((*cpu).to_owned(), *count))
                .collect()
        };
        let before = counts(&[("cpu0", 3), ("cpu1", 7), ("cpu2", 1)]);
        // A counter that went back counts 0, and so does a CPU that is new or gone.
        let after = counts(&[("cpu0", 5), ("cpu1", 2), ("cpu3", 9)]);
        assert_eq!(throttle_events(&before, &after), 2);
    }
}
