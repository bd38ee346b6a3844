//! Samples of a benchmark or of metrics, in one form.

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
