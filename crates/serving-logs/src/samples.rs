//! Samples of a benchmark or of metrics, in one form.

use std::collections::BTreeMap;

/// One measured value.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// Name of the quantity, for example `ttft`.
    pub metric: String,
    /// Unit; empty for plain numbers.
    pub unit: &'static str,
    /// Instance that it was measured on, for example the labels of a metric; mostly empty.
    pub group: String,
    /// Number of the run, from 1.
    pub run: u64,
    /// Place within the run: number of the request or of the scrape, from 0.
    pub cycle: u64,
    /// The value.
    pub value: f64,
}

/// Samples, and what was left out.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Samples {
    /// In the order of the file.
    pub samples: Vec<Sample>,
    /// Settings that each run of a benchmark states, by their names there.
    pub settings: Vec<BTreeMap<String, String>>,
    /// Requests that failed; they have no samples.
    pub failed_requests: u64,
    /// Values that are no finite numbers, and lines that cannot be read.
    pub bad_values: u64,
    /// Metrics that only grow, of which a single reading is no measurement.
    pub single_readings: u64,
}

impl Samples {
    pub(crate) fn push(
        &mut self,
        (metric, unit): (&str, &'static str),
        group: &str,
        (run, cycle): (u64, u64),
        value: Option<f64>,
    ) {
        match value.filter(|value| value.is_finite()) {
            Some(value) => self.samples.push(Sample {
                metric: metric.to_owned(),
                unit,
                group: group.to_owned(),
                run,
                cycle,
                value,
            }),
            None => self.bad_values += 1,
        }
    }

    /// Adds the runs of another file behind those of this one.
    pub fn append(&mut self, other: Self) {
        let before = self.samples.iter().map(|sample| sample.run).max();
        let before = before.unwrap_or(0).max(self.settings.len() as u64);
        let new = other.samples.into_iter().map(|mut sample| {
            sample.run += before;
            sample
        });
        self.samples.extend(new);
        self.settings.extend(other.settings);
        self.failed_requests += other.failed_requests;
        self.bad_values += other.bad_values;
        self.single_readings += other.single_readings;
    }

    /// Makes a group of the runs with one value of each setting of the load, where these differ among the runs: latencies at
    /// one request rate are no samples of those at another.
    pub fn group_by_load(&mut self) {
        let of = |run: &BTreeMap<String, String>, key: &str| run.get(key).cloned();
        let differ = |key: &&&str| {
            let mut values = self.settings.iter().map(|run| of(run, key));
            let first = values.next();
            values.any(|value| Some(&value) != first.as_ref())
        };
        let keys: Vec<&&str> = crate::LOAD_SETTINGS.iter().filter(differ).collect();
        if keys.is_empty() {
            return;
        }
        let label = |run: &BTreeMap<String, String>| {
            let each = keys
                .iter()
                .filter_map(|key| Some(format!("{key} {}", of(run, key)?)));
            each.collect::<Vec<String>>().join(", ")
        };
        let labels: Vec<String> = self.settings.iter().map(label).collect();
        for sample in &mut self.samples {
            let run = usize::try_from(sample.run)
                .ok()
                .and_then(|run| run.checked_sub(1));
            if let Some(label) = run.and_then(|run| labels.get(run)) {
                sample.group.clone_from(label);
            }
        }
    }

    /// Returns them as a CSV table with the columns `metric,unit,value,group,run,cycle`.
    pub fn to_csv(&self) -> String {
        use std::fmt::Write as _;
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut out = String::from("metric,unit,value,group,run,cycle\n");
        for s in &self.samples {
            let (metric, group) = (quoted(&s.metric), quoted(&s.group));
            let row = (s.unit, s.value, s.run, s.cycle);
            // Writing to a text cannot fail.
            let _ = writeln!(
                out,
                "{metric},{},{:?},{group},{},{}",
                row.0, row.1, row.2, row.3
            );
        }
        out
    }
}
