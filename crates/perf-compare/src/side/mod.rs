//! One side of a comparison: what was captured, by run and cycle.

use std::collections::BTreeMap;

mod capture;
mod class;
mod counters;
mod load;
mod numbered;
mod parquet_table;
mod rank;
mod recording;
mod samples;
mod step;

pub(crate) use capture::{
    Capture, Cycle, DeviceCounter, DeviceTime, Function, Process, SingleCalls,
};
pub(crate) use class::{Class, is_wait, waits_for};
pub use load::{LoadOptions, load};
pub(crate) use numbered::numbered;
pub use recording::{CAPTURE_SETTINGS, Recording};
pub(crate) use samples::{Series, unit_to_us};
pub(crate) use step::{Work, shape, template};

/// One side: captures of a process group, or plain samples of metrics.
///
/// Made by [`load()`]; compared by [`compare`](crate::compare).
#[derive(Debug, Default)]
pub struct Side {
    /// What the user called it: the path.
    pub(crate) name: String,
    /// One per perf-data file, sorted by kind and path.
    pub(crate) captures: Vec<Capture>,
    /// Samples of metrics, from a table of them.
    pub(crate) series: Vec<Series>,
    /// What each run of a benchmark was asked to do, by the names of its settings.
    pub(crate) settings: Vec<BTreeMap<String, String>>,
    /// What the recordings state about themselves, each once.
    pub(crate) recordings: Vec<Recording>,
    /// Remarks about what was read.
    pub(crate) notes: Vec<String>,
}

impl Side {
    /// The path it was read from.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Cycles over all captures.
    #[must_use]
    pub fn cycles(&self) -> usize {
        self.captures
            .iter()
            .map(|capture| capture.cycles.len())
            .sum()
    }

    /// States what each run of a benchmark was asked to do: sides whose models or loads differ are not comparable.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<BTreeMap<String, String>>) -> Self {
        self.settings = settings;
        self
    }

    /// Returns `true` if the other side holds the same cycles, functions and samples to the last digit.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
        let captures = self.captures.len() == other.captures.len()
            && self.captures.iter().zip(&other.captures).all(|(a, b)| {
                let cycle = |c: &capture::Cycle| (c.number, c.dur_us.to_bits());
                let function = |f: &Function| (f.name.clone(), f.device.clone(), bits(&f.dur_us));
                a.cycles.iter().map(cycle).eq(b.cycles.iter().map(cycle))
                    && a.functions
                        .iter()
                        .map(function)
                        .eq(b.functions.iter().map(function))
            });
        let series = self.series.len() == other.series.len()
            && self.series.iter().zip(&other.series).all(|(a, b)| {
                let runs = |s: &Series| s.runs.iter().map(|run| bits(run)).collect::<Vec<_>>();
                (&a.group, &a.metric, &a.unit) == (&b.group, &b.metric, &b.unit)
                    && runs(a) == runs(b)
            });
        captures && series && self.captures.len() + self.series.len() > 0
    }

    /// The same as a table of samples: `cycle` and every function, in microseconds per cycle. Written to a file it is a
    /// baseline for later comparisons that need no recording.
    #[must_use]
    pub fn to_samples_csv(&self) -> String {
        let mut out = String::from("metric,unit,value,group,run,cycle\n");
        for series in self.as_series() {
            let quoted = |text: &str| {
                if text.contains([',', '"', '\n', '\r']) {
                    format!("\"{}\"", text.replace('"', "\"\""))
                } else {
                    text.to_owned()
                }
            };
            let head = format!("{},{}", quoted(&series.metric), quoted(&series.unit));
            for (run, values) in (1..).zip(&series.runs) {
                for (cycle, value) in (1..).zip(values) {
                    out.push_str(&format!(
                        "{head},{value},{},{run},{cycle}\n",
                        quoted(&series.group)
                    ));
                }
            }
        }
        out
    }

    /// Series as they are, or made of captures.
    pub(crate) fn as_series(&self) -> Vec<Series> {
        let mut all: BTreeMap<(String, String), Series> = BTreeMap::new();
        let mut add = |group: &str, metric: String, values: Vec<f64>| {
            if values.is_empty() {
                return;
            }
            let key = (group.to_owned(), metric.clone());
            let series = all.entry(key).or_insert_with(|| Series {
                group: group.to_owned(),
                metric,
                unit: "us".to_owned(),
                runs: Vec::new(),
                workloads: Vec::new(),
            });
            series.runs.push(values);
        };
        for capture in &self.captures {
            add(
                &capture.kind,
                "cycle".to_owned(),
                capture.cycles.iter().map(|cycle| cycle.dur_us).collect(),
            );
            for function in &capture.functions {
                let place = if capture.processes.len() > 1 {
                    format!(" [role {}]", function.process)
                } else {
                    String::new()
                };
                let values = function
                    .dur_us
                    .iter()
                    .copied()
                    .filter(|dur| !dur.is_nan())
                    .collect();
                // The calls of one name that wait are a series of their own.
                let is_other = |f: &Function| {
                    f.name == function.name
                        && f.process == function.process
                        && f.device == function.device
                        && f.class != function.class
                };
                let waits = function.class == Class::Sync && capture.functions.iter().any(is_other);
                let waits = if waits { " (waits)" } else { "" };
                add(
                    &capture.kind,
                    format!("{}{waits}{place}", function.name),
                    values,
                );
            }
        }
        let mut series = self.series.clone();
        series.extend(all.into_values());
        series
    }

    /// Functions over all captures, each counted once per capture, process and device.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.captures
            .iter()
            .map(|capture| capture.functions.len())
            .sum()
    }
}
