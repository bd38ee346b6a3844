//! One side of a comparison: what was captured, by run and cycle.

use std::collections::BTreeMap;

mod capture;
mod class;
mod counters;
mod load;
mod parquet_table;
mod rank;
mod samples;

pub(crate) use capture::{Capture, Function, Process};
pub(crate) use class::Class;
pub use load::{LoadOptions, load};
pub(crate) use samples::{Series, unit_to_us};

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
                add(&capture.kind, format!("{}{place}", function.name), values);
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
