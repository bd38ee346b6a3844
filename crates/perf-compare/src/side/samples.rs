//! A plain table of samples: `metric,unit,value` and optionally `group`, `run`, `cycle`, `workload`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::table::is_missing;

/// Samples of one metric of one group.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) group: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    /// By run, in the order of cycles.
    pub(crate) runs: Vec<Vec<f64>>,
    /// What each sample served, in the shape of `runs`; empty where the table does not say.
    pub(crate) workloads: Vec<Vec<String>>,
}

impl Series {
    /// Does every sample say what it served?
    pub(crate) fn has_workloads(&self) -> bool {
        !self.workloads.is_empty() && self.workloads.iter().flatten().all(|w| !w.is_empty())
    }

    /// Every sample with what it served.
    pub(crate) fn with_workloads(&self) -> impl Iterator<Item = (&str, f64)> {
        let runs = self.runs.iter().zip(&self.workloads);
        runs.flat_map(|(values, workloads)| {
            let workloads = workloads.iter().map(String::as_str);
            workloads.zip(values.iter().copied())
        })
    }
}

/// Microseconds in a unit of time; `None` for other units.
pub(crate) fn unit_to_us(unit: &str) -> Option<f64> {
    Some(match unit.trim() {
        "ns" => 1e-3,
        "us" | "µs" | "μs" => 1.0,
        "ms" => 1e3,
        "s" | "sec" | "seconds" => 1e6,
        _ => return None,
    })
}

/// A run's samples with the cycle that orders them, and what they served.
type Samples = Vec<(f64, f64, String)>;

/// One row of a table, from any format.
#[derive(Debug, Default)]
pub(super) struct Row<'r> {
    pub(super) group: Cow<'r, str>,
    pub(super) metric: Cow<'r, str>,
    pub(super) unit: Cow<'r, str>,
    pub(super) run: Cow<'r, str>,
    /// Place within the run; the number of the row unless given.
    pub(super) cycle: Option<f64>,
    pub(super) value: Option<f64>,
    /// What was served, if the table says it.
    pub(super) workload: Cow<'r, str>,
}

/// Gathers rows by group, metric and run.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    found: BTreeMap<(String, String), (String, BTreeMap<String, Samples>)>,
    rows: f64,
    odd: u64,
}

impl Gathered {
    pub(super) fn push(&mut self, row: &Row<'_>) {
        self.rows += 1.0;
        let (Some(value), false) = (row.value.filter(|x| x.is_finite()), row.metric.is_empty())
        else {
            self.odd += 1;
            return;
        };
        let order = row.cycle.unwrap_or(self.rows);
        let entry = self
            .found
            .entry((row.group.to_string(), row.metric.to_string()))
            .or_insert_with(|| (row.unit.to_string(), BTreeMap::new()));
        if entry.0 != row.unit {
            // Two units of one metric cannot be averaged.
            self.odd += 1;
            return;
        }
        let run = entry.1.entry(row.run.to_string()).or_default();
        run.push((order, value, row.workload.to_string()));
    }

    /// All series, and the number of rows without a usable value.
    pub(super) fn finish(self) -> (Vec<Series>, u64) {
        let series = self
            .found
            .into_iter()
            .map(|((group, metric), (unit, runs))| {
                let mut series = Series {
                    group,
                    metric,
                    unit,
                    runs: Vec::new(),
                    workloads: Vec::new(),
                };
                for mut samples in runs.into_values() {
                    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
                    series.runs.push(samples.iter().map(|s| s.1).collect());
                    let workloads = samples.into_iter().map(|s| s.2);
                    series.workloads.push(workloads.collect());
                }
                series
            })
            .collect();
        (series, self.odd)
    }
}

/// The double nearest to a decimal number, as every writer of such tables means it.
fn nearest(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

/// Reads a CSV table; rows without a value are counted in the second result.
pub(crate) fn parse(reader: impl Read, file: &Path) -> Result<(Vec<Series>, u64)> {
    let mut csv = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
    let csv_error = |source| Error::Csv {
        file: file.to_owned(),
        source,
    };
    let header = csv.byte_headers().map_err(csv_error)?.clone();
    let at = |name: &str| {
        header.iter().position(|field| {
            let field = field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field);
            field.trim_ascii() == name.as_bytes()
        })
    };
    let need = |name: &'static str| {
        at(name).ok_or_else(|| Error::Column {
            file: file.to_owned(),
            column: name,
        })
    };
    let (metric, value) = (need("metric")?, need("value")?);
    let (unit, group, run, cycle) = (at("unit"), at("group"), at("run"), at("cycle"));
    let workload = at("workload");
    let mut gathered = Gathered::default();
    let mut record = csv::ByteRecord::new();
    while csv.read_byte_record(&mut record).map_err(csv_error)? {
        let field = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default();
        let text = |at: Option<usize>| String::from_utf8_lossy(field(at).trim_ascii());
        let number = Some(field(Some(value))).filter(|field| !is_missing(field));
        gathered.push(&Row {
            group: text(group),
            metric: text(Some(metric)),
            unit: text(unit),
            run: text(run),
            cycle: nearest(field(cycle)),
            value: number.and_then(nearest),
            workload: text(workload),
        });
    }
    Ok(gathered.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_runs_and_order() {
        let text = "metric,unit,value,group,run,cycle\nttft,ms,3,g,1,2\nttft,ms,1,g,1,1\nttft,ms,9,g,2,1\nttft,s,9,g,2,1\nttft,ms,,g,2,2\ntps,1/s,5,,,\n";
        let (series, odd) = parse(text.as_bytes(), Path::new("x")).unwrap();
        assert_eq!(odd, 2);
        assert_eq!(series.len(), 2);
        assert_eq!(series[1].runs, [vec![1.0, 3.0], vec![9.0]]);
        assert_eq!(
            (series[0].metric.as_str(), series[0].unit.as_str()),
            ("tps", "1/s")
        );
        assert!(parse("a,b\n1,2\n".as_bytes(), Path::new("x")).is_err());
        assert_eq!(unit_to_us("ms"), Some(1000.0));
    }
}
