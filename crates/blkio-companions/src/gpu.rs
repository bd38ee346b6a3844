//! Reads GPU utilisation as logged by nvidia-smi.

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
    /// The GPU as its column names it (index, UUID, bus id), else its place among the rows of one time.
    pub gpu: String,
    /// The other columns with numbers, such as `clocks.current.sm`.
    pub others: Vec<Column>,
}

/// A column of numbers beside the utilisation.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// Its heading without unit.
    pub name: String,
    /// A value for each sample.
    pub values: Vec<Option<f64>>,
}

/// A row of the file.
struct Row<'t> {
    /// The GPU.
    name: Option<&'t [u8]>,
    sample: Sample,
    /// Values of the other columns.
    others: Vec<Option<f64>>,
}

/// Returns a number with or without unit.
fn with_unit(text: &[u8]) -> Option<f64> {
    let mut words = trim(text).split(|b| *b == b' ');
    words.next().and_then(real)
}

/// Returns a heading without its unit.
fn heading(text: &[u8]) -> String {
    let name = text.split(|b| *b == b'[').next().unwrap_or_default();
    String::from_utf8_lossy(trim(name)).into_owned()
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
        let mut all = Self::parse_all(name, text)?;
        Ok(all.swap_remove(0))
    }

    /// Same as [`parse`](Self::parse), for each GPU of the file; there is at least one.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no row at all.
    pub fn parse_all(name: &str, text: &[u8]) -> Result<Vec<Self>> {
        let mut malformed = 0;
        let (mut time_at, mut value_at, mut name_at) = (0, 1, None);
        let mut others: Vec<(usize, String)> = Vec::new();
        let mut rows: Vec<Row<'_>> = Vec::new();
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
                let own = columns.iter().enumerate();
                let own =
                    own.filter(|(at, _)| ![time_at, value_at].contains(at) && name_at != Some(*at));
                others = own.map(|(at, text)| (at, heading(text))).collect();
                continue;
            }
            let time = columns.get(time_at).and_then(|t| parse_wall(t));
            let value = columns.get(value_at).and_then(|v| percent(v));
            let (Some(t_ns), Some(percent)) = (time, value) else {
                malformed += 1;
                continue;
            };
            let has_unit = columns.get(value_at).is_some_and(|v| v.ends_with(b"%"));
            if is_open && has_units && !has_unit && percent.is_some() {
                // A number without its unit may be truncated.
                malformed += 1;
                continue;
            }
            has_units |= has_unit;
            let name = name_at.and_then(|at| columns.get(at)).copied();
            let each = others.iter();
            rows.push(Row {
                name,
                sample: Sample { t_ns, percent },
                others: each.map(|(at, _)| with_unit(columns.get(*at)?)).collect(),
            });
        }
        if rows.is_empty() {
            return Err(Error {
                name: name.to_owned(),
                reason: "no row of GPU utilisation; expected nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv".into(),
            });
        }
        let names: Vec<String> = others.into_iter().map(|(_, name)| name).collect();
        let each = split(rows);
        let gpus = each.len();
        let logs = each.into_iter().map(|(gpu, rows)| {
            let column = |(at, name): (usize, &String)| Column {
                name: name.clone(),
                values: rows
                    .iter()
                    .map(|row| row.others.get(at).copied().flatten())
                    .collect(),
            };
            let others: Vec<Column> = names.iter().enumerate().map(column).collect();
            let has_number = |column: &Column| column.values.iter().any(Option::is_some);
            Self {
                samples: rows.iter().map(|row| row.sample).collect(),
                malformed,
                gpus,
                gpu,
                others: others.into_iter().filter(has_number).collect(),
            }
        });
        Ok(logs.collect())
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

/// Returns the rows of each GPU, in the order of the first row of each; at least one.
fn split(rows: Vec<Row<'_>>) -> Vec<(String, Vec<Row<'_>>)> {
    if rows.first().is_some_and(|row| row.name.is_some()) {
        let mut order: Vec<(String, Vec<Row<'_>>)> = Vec::new();
        for row in rows {
            let Some(name) = row.name else { continue };
            let name = String::from_utf8_lossy(name).into_owned();
            match order.iter_mut().find(|(known, _)| *known == name) {
                Some((_, own)) => own.push(row),
                None => order.push((name, vec![row])),
            }
        }
        return order;
    }
    // Rows of one query have the same time, except possibly for the last digit, and are consecutive.
    let of_one_time = rows.chunk_by(|a, b| a.sample.t_ns == b.sample.t_ns);
    let gpus = of_one_time.map(<[_]>::len).max().unwrap_or(1);
    let mut out: Vec<(String, Vec<Row<'_>>)> =
        (0..gpus).map(|gpu| (gpu.to_string(), Vec::new())).collect();
    for (at, row) in rows.into_iter().enumerate() {
        out[at % gpus].1.push(row);
    }
    out
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

    #[test]
    fn all_gpus_with_their_other_columns() {
        let text = b"timestamp, index, utilization.gpu [%], clocks.current.sm [MHz], name, power.draw [W]\n\
            2025/01/21 01:31:52.000, 0, 7 %, 1980 MHz, H100, 612.25 W\n\
            2025/01/21 01:31:52.001, 1, 9 %, 1410 MHz, H100, [N/A]\n\
            2025/01/21 01:31:52.200, 0, 8 %, 1975 MHz, H100, 600 W\n";
        let logs = GpuLog::parse_all("gpu", text).unwrap();
        let of = |gpu: usize, name: &str| {
            let mut all = logs[gpu].others.iter();
            all.find(|column| column.name == name)
                .map(|column| column.values.clone())
        };
        assert_eq!(
            logs.iter().map(|log| log.gpu.as_str()).collect::<Vec<_>>(),
            ["0", "1"]
        );
        assert_eq!(
            of(0, "clocks.current.sm"),
            Some(vec![Some(1980.0), Some(1975.0)])
        );
        assert_eq!(
            (of(0, "power.draw"), of(1, "power.draw")),
            (Some(vec![Some(612.25), Some(600.0)]), None)
        );
        assert_eq!(of(0, "name"), None);
        assert_eq!((logs[1].samples.len(), logs[1].gpus), (1, 2));
    }
}
