//! Reads GPU utilisation as logged by nvidia-smi.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::scan::BYTE_ORDER_MARK;
use crate::scan::{real, trim};
use crate::wall_clock::parse_wall;

/// One reading. The value applies to the time since the previous reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Local wall time in nanoseconds since 1970.
    pub t_ns: u64,
    /// Utilisation in percent; `None` for `[N/A]` and the like.
    pub percent: Option<f64>,
}

/// Utilisation of one GPU.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GpuLog {
    /// The readings, in the order of the file.
    pub samples: Vec<Sample>,
    /// Number of rows that could not be read, including a truncated last one.
    pub malformed: u64,
    /// Number of GPUs in the file; if there are several, the samples are those of the first.
    pub gpus: usize,
}

/// Columns that name a GPU, as `nvidia-smi --help-query-gpu` has them.
const NAMES: [&[u8]; 7] = [
    b"index",
    b"uuid",
    b"gpu_uuid",
    b"pci.bus_id",
    b"gpu_bus_id",
    b"serial",
    b"gpu_serial",
];

/// Returns `true` if a line is a row of such a file without heading.
pub(crate) fn looks_like_row(line: &[u8]) -> bool {
    let mut columns = line.split(|b| *b == b',');
    let is_time = columns.next().is_some_and(|t| {
        let t = trim(t);
        t.get(4) == Some(&b'/') && parse_wall(t).is_some()
    });
    is_time && columns.next().is_some_and(|value| percent(value).is_some())
}

/// Parses a value with or without unit; the inner `None` is a value that the driver did not have.
fn percent(text: &[u8]) -> Option<Option<f64>> {
    let text = trim(text);
    if (text.starts_with(b"[") && text.ends_with(b"]")) || text == b"N/A" || text == b"ERR!" {
        return Some(None);
    }
    let number = text.strip_suffix(b"%").map_or(text, trim);
    real(number).map(Some)
}

impl GpuLog {
    /// Parses such a file: with or without heading and units, any columns as long as there are
    /// `timestamp` and `utilization.gpu`. Several GPUs are distinguished by their index or another
    /// identifying column; without one, by equal times.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no row at all.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self> {
        let mut log = Self {
            gpus: 1,
            ..Self::default()
        };
        let (mut time_at, mut value_at, mut name_at) = (0, 1, None);
        let mut rows: Vec<(Option<&[u8]>, Sample)> = Vec::new();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let mut has_units = false;
        let mut lines = text.split(|b| *b == b'\n').peekable();
        while let Some(line) = lines.next() {
            let line = trim(line);
            if line.is_empty() {
                continue;
            }
            // A line without a line feed is the end of the file.
            let is_open = lines.peek().is_none();
            let columns: Vec<&[u8]> = line.split(|b| *b == b',').map(trim).collect();
            let place = |name: &[u8]| columns.iter().position(|c| c.starts_with(name));
            if let Some(time) = place(b"timestamp") {
                time_at = time;
                value_at = place(b"utilization.gpu").ok_or_else(|| Error {
                    name: name.to_owned(),
                    reason: "no column utilization.gpu: ask nvidia-smi for --query-gpu=timestamp,utilization.gpu".into(),
                })?;
                name_at = NAMES.iter().find_map(|name| place(name));
                continue;
            }
            let time = columns.get(time_at).and_then(|t| parse_wall(t));
            let value = columns.get(value_at).and_then(|v| percent(v));
            let (Some(t_ns), Some(percent)) = (time, value) else {
                log.malformed += 1;
                continue;
            };
            let has_unit = columns.get(value_at).is_some_and(|v| v.ends_with(b"%"));
            if is_open && has_units && !has_unit && percent.is_some() {
                // A number without its unit may be truncated.
                log.malformed += 1;
                continue;
            }
            has_units |= has_unit;
            let name = name_at.and_then(|at| columns.get(at)).copied();
            rows.push((name, Sample { t_ns, percent }));
        }
        if rows.is_empty() {
            return Err(Error {
                name: name.to_owned(),
                reason: "no row of GPU utilisation; expected nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv".into(),
            });
        }
        log.split(rows);
        Ok(log)
    }

    /// Keeps the rows of the first GPU.
    fn split(&mut self, rows: Vec<(Option<&[u8]>, Sample)>) {
        let first = rows.first().and_then(|(name, _)| *name);
        if first.is_some() {
            let names: BTreeSet<&[u8]> = rows.iter().filter_map(|(name, _)| *name).collect();
            self.gpus = names.len();
            let of_first = rows.into_iter().filter(|(name, _)| *name == first);
            self.samples = of_first.map(|(_, sample)| sample).collect();
            return;
        }
        // Rows of one query have the same time, except possibly for the last digit, and are
        // consecutive.
        let of_one_time = rows.chunk_by(|(_, a), (_, b)| a.t_ns == b.t_ns);
        self.gpus = of_one_time.map(<[_]>::len).max().unwrap_or(1);
        let samples = rows.into_iter().map(|(_, sample)| sample);
        self.samples = samples.step_by(self.gpus).collect();
    }

    /// Returns the available values.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().filter_map(|sample| sample.percent)
    }

    /// Returns the unweighted average, as published.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.values().count();
        (count > 0).then(|| self.values().sum::<f64>() / count as f64)
    }

    /// Returns the average with each value weighted by the time it holds for.
    #[must_use]
    pub fn weighted_mean(&self) -> Option<f64> {
        let mut sum = 0.0;
        let mut time = 0.0;
        for pair in self.samples.windows(2) {
            if let [before, sample] = pair
                && let Some(value) = sample.percent
            {
                let lasted = sample.t_ns.saturating_sub(before.t_ns) as f64;
                sum += value * lasted;
                time += lasted;
            }
        }
        (time > 0.0).then(|| sum / time)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.values().reduce(f64::max)
    }

    /// Returns the number of readings of exactly zero.
    #[must_use]
    pub fn zero_samples(&self) -> usize {
        self.values().filter(|v| v.abs() < f64::EPSILON).count()
    }

    /// Returns the times between readings in nanoseconds.
    #[must_use]
    pub fn intervals_ns(&self) -> Vec<u64> {
        self.samples
            .windows(2)
            .map(|pair| match pair {
                [a, b] => b.t_ns.saturating_sub(a.t_ns),
                _ => 0,
            })
            .collect()
    }

    /// Returns the gaps between readings longer than three times the median interval: start and
    /// length in nanoseconds.
    #[must_use]
    pub fn gaps(&self) -> Vec<(u64, u64)> {
        let mut sorted = self.intervals_ns();
        sorted.sort_unstable();
        let Some(median) = sorted.get(sorted.len() / 2).copied() else {
            return Vec::new();
        };
        self.samples
            .iter()
            .zip(self.intervals_ns())
            .filter(|(_, length)| *length > median * 3)
            .map(|(sample, length)| (sample.t_ns, length))
            .collect()
    }

    /// Returns the x axis of the published figure: number of the sample times 0.2 s; timestamps are
    /// ignored.
    #[must_use]
    pub fn published_x(&self) -> Vec<f64> {
        (1..=self.samples.len()).map(|n| n as f64 * 0.2).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.000, 0 %\n2025/01/21 01:31:52.200, 50 %\r\n2025/01/21 01:31:52.400, [N/A]\n2025/01/21 01:31:53.400, 100 %\n2025/01/21 01:31:5";

    #[test]
    fn averages_gaps_and_torn_rows() {
        let log = GpuLog::parse("gpu", TEXT).unwrap();
        assert_eq!((log.samples.len(), log.malformed, log.gpus), (4, 1, 1));
        assert_eq!(log.mean(), Some(50.0));
        let weighted = log.weighted_mean().unwrap();
        assert!((weighted - (50.0 * 0.2 + 100.0) / 1.2).abs() < 1e-9);
        assert_eq!(log.gaps().len(), 1);
        assert_eq!(log.zero_samples(), 1);
    }

    #[test]
    fn another_utilisation_is_not_taken_for_it() {
        let text = b"timestamp, utilization.memory [%]\n2025/01/21 01:31:52.000, 7 %\n";
        let error = GpuLog::parse("gpu", text).unwrap_err().to_string();
        assert!(error.contains("gpu: no column utilization.gpu"), "{error}");
    }

    #[test]
    fn several_gpus_are_split() {
        let text = b"2025/01/21 01:31:52.000, 1\n2025/01/21 01:31:52.000, 9\n2025/01/21 01:31:52.200, 2\n2025/01/21 01:31:52.200, 8\n";
        let log = GpuLog::parse("gpu", text).unwrap();
        assert_eq!((log.gpus, log.mean()), (2, Some(1.5)));
        let text = b"index, timestamp, utilization.gpu [%]\n1, 2025/01/21 01:31:52.000, 7 %\n0, 2025/01/21 01:31:52.001, 9 %\n1, 2025/01/21 01:31:52.200, 8 %\n";
        let log = GpuLog::parse("gpu", text).unwrap();
        assert_eq!((log.gpus, log.mean()), (2, Some(7.5)));
        // Two queries of the same GPUs whose times differ in the last digit once.
        let text = b"2025/01/21 01:31:52.000, 1\n2025/01/21 01:31:52.001, 9\n2025/01/21 01:31:52.200, 2\n2025/01/21 01:31:52.200, 8\n";
        let log = GpuLog::parse("gpu", text).unwrap();
        assert_eq!((log.gpus, log.mean()), (2, Some(1.5)));
        let text = b"timestamp, uuid, utilization.gpu [%]\n2025/01/21 01:31:52.000, GPU-b, 7 %\n2025/01/21 01:31:52.001, GPU-a, 9 %\n2025/01/21 01:31:52.200, GPU-b, 8 %\n";
        let log = GpuLog::parse("gpu", text).unwrap();
        assert_eq!((log.gpus, log.mean()), (2, Some(7.5)));
        assert!(GpuLog::parse("gpu", b"nothing\n").is_err());
    }

    #[test]
    fn a_number_that_may_be_cut_is_left_out() {
        let row = "2025/01/21 01:31:52.000, 50 %\n2025/01/21 01:31:52.200, ";
        for (end, malformed, mean) in [
            ("1", 1, 50.0),
            ("10 ", 1, 50.0),
            ("100 %", 0, 75.0),
            ("[N/A]", 0, 50.0),
            ("100\n", 0, 75.0),
        ] {
            let log = GpuLog::parse("gpu", format!("{row}{end}").as_bytes()).unwrap();
            assert_eq!(
                (log.malformed, log.mean()),
                (malformed, Some(mean)),
                "{end}"
            );
        }
        let plain = b"2025/01/21 01:31:52.000, 50\n2025/01/21 01:31:52.200, 10";
        assert_eq!(GpuLog::parse("gpu", plain).unwrap().mean(), Some(30.0));
    }

    #[test]
    fn a_mark_before_the_heading() {
        let text = b"\xef\xbb\xbftimestamp, utilization.memory [%], utilization.gpu [%]\r\n2025/01/21 01:31:52.000, 7 %, 40 %\r\n";
        let log = GpuLog::parse("gpu", text).unwrap();
        assert_eq!((log.malformed, log.mean()), (0, Some(40.0)));
    }
}
