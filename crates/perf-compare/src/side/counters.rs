//! Samples of counters over time, in native units.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::table::parse_real;

/// One counter: all its samples, instances and processes together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    /// Microseconds and value.
    pub(crate) samples: Vec<(f64, f64)>,
}

/// Counters by base name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) by_name: BTreeMap<String, Counter>,
    pub(crate) odd: u64,
}

/// The name without a process number behind, which may be written as a real: `process_cpu_usage_1.571875e+06`.
pub(crate) fn base_name(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number))
            if !base.is_empty() && number.parse::<f64>().is_ok_and(f64::is_finite) =>
        {
            base
        }
        _ => name,
    }
}

impl Counters {
    /// Reads `counter_name,timestamp,value,hostname`.
    pub(crate) fn parse(reader: impl Read, file: &Path) -> Result<Self> {
        let mut csv = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
        let csv_error = |source| Error::Csv {
            file: file.to_owned(),
            source,
        };
        let header = csv.byte_headers().map_err(csv_error)?.clone();
        let at = |name: &'static str| {
            header
                .iter()
                .position(|field| field == name.as_bytes())
                .ok_or_else(|| Error::Column {
                    file: file.to_owned(),
                    column: name,
                })
        };
        let (name, time, value) = (at("counter_name")?, at("timestamp")?, at("value")?);
        let mut counters = Self::default();
        let mut record = csv::ByteRecord::new();
        while csv.read_byte_record(&mut record).map_err(csv_error)? {
            let real = |at: usize| {
                record
                    .get(at)
                    .and_then(parse_real)
                    .filter(|x| x.is_finite())
            };
            let (Some(name), Some(time), Some(value)) = (record.get(name), real(time), real(value))
            else {
                counters.odd += 1;
                continue;
            };
            let name = String::from_utf8_lossy(name);
            counters
                .by_name
                .entry(base_name(&name).to_owned())
                .or_default()
                .samples
                .push((time, value));
        }
        for counter in counters.by_name.values_mut() {
            counter
                .samples
                .sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        }
        Ok(counters)
    }

    /// Adds the samples of another file.
    pub(crate) fn merge(&mut self, other: Self) {
        for (name, counter) in other.by_name {
            let own = self.by_name.entry(name).or_default();
            own.samples.extend(counter.samples);
            own.samples
                .sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        }
        self.odd += other.odd;
    }

    /// Means over equal spans of time, per counter: at most `most` spans, and no more than the sparsest counter with at
    /// least three samples has samples, so that each is one observation.
    pub(crate) fn binned(&self, most: usize) -> BTreeMap<&str, Vec<f64>> {
        let all = || self.by_name.values().flat_map(|counter| &counter.samples);
        let from = all().map(|s| s.0).fold(f64::INFINITY, f64::min);
        let to = all().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
        let sparsest = self
            .by_name
            .values()
            .map(|c| c.samples.len())
            .filter(|n| *n >= 3)
            .min();
        let bins = sparsest.unwrap_or(1).min(most).max(1);
        let width = ((to - from) / bins as f64).max(1e-9);
        self.by_name
            .iter()
            .map(|(name, counter)| {
                let mut sums = vec![(0.0, 0.0); bins];
                for (time, value) in &counter.samples {
                    let mut bin = 0;
                    while bin + 1 < bins && (bin + 1) as f64 * width <= time - from {
                        bin += 1;
                    }
                    sums[bin].0 += value;
                    sums[bin].1 += 1.0;
                }
                let means = sums
                    .iter()
                    .filter(|(_, n)| *n > 0.0)
                    .map(|(sum, n)| sum / n);
                (name.as_str(), means.collect())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bins() {
        assert_eq!(
            base_name("process_cpu_usage_1.571875e+06"),
            "process_cpu_usage"
        );
        assert_eq!(base_name("process_mem_rss_923228"), "process_mem_rss");
        assert_eq!(base_name("net_tx_rate"), "net_tx_rate");
        let text = "counter_name,timestamp,value,hostname\na,0,1,\na,1,3,\na,2,5,\na,3,x,\nb,0,1,\nb,0,2,\nb,2,9,\nb,2,9,\n";
        let counters = Counters::parse(text.as_bytes(), Path::new("x")).unwrap();
        assert_eq!(counters.odd, 1);
        let bins = counters.binned(8);
        assert_eq!(bins["a"], [1.0, 3.0, 5.0]);
        assert_eq!(bins["b"], [1.5, 9.0]);
    }
}
