//! Reads results and logs of fio.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::scan::trim;

/// Totals of one job in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Number of requests.
    pub ios: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Mean completion latency in nanoseconds.
    pub clat_mean_ns: f64,
    /// Bandwidth in KiB/s.
    pub bw_kib_s: f64,
}

impl Totals {
    /// Converts output of fio before version 3: KiB, and latencies in microseconds under another
    /// name.
    fn in_old_units(self, value: Option<&Value>) -> Self {
        let clat = value.and_then(|v| v.get("clat")?.get("mean")?.as_f64());
        let has_kib = value.is_some_and(|v| v.get("io_kbytes").is_some());
        Self {
            bytes: self.bytes.saturating_mul(if has_kib { 1 } else { 1024 }),
            clat_mean_ns: clat.map_or(self.clat_mean_ns, |us| us * 1000.0),
            ..self
        }
    }
}

/// One job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Job {
    /// Name of the job.
    pub name: String,
    /// `true` if it bypassed the page cache (`direct=1`), from its own or the global options.
    pub direct: bool,
    /// Reads.
    pub read: Totals,
    /// Writes.
    pub write: Totals,
    /// Trims.
    pub trim: Totals,
}

/// A result of fio.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FioResult {
    /// Version of fio.
    pub version: String,
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl FioResult {
    /// Reads fio's JSON, which may follow lines of text.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such JSON.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self> {
        let unreadable = |reason: String| Error {
            name: name.to_owned(),
            reason,
        };
        let mut document = None;
        let mut failed = None;
        // With --status-interval there is one per interval, each of all so far; and text may
        // surround them.
        for json in values_at_line_starts(text) {
            match json {
                Ok(value) => document = Some(value),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let document: Value = match (document, failed) {
            (Some(document), _) => document,
            (None, Some(error)) => return Err(unreadable(format!("not fio's JSON: {error}"))),
            (None, None) => {
                let reason = "no JSON: run fio with --output-format=json";
                return Err(unreadable(reason.to_owned()));
            }
        };
        let global_direct = is_direct(document.get("global options"));
        let version = document.get("fio version").and_then(Value::as_str);
        let version = version.unwrap_or_default().to_owned();
        // A client prints the results of its servers, and their sum if there are several.
        let jobs = ["jobs", "client_stats"]
            .iter()
            .find_map(|key| document.get(key)?.as_array())
            .ok_or_else(|| unreadable("no jobs in this JSON: is it fio's?".to_owned()))?;
        let is_old = ["fio-1.", "fio-2."]
            .iter()
            .any(|old| version.starts_with(old));
        let totals = |value: Option<&Value>| {
            let found = totals(value);
            if is_old {
                found.in_old_units(value)
            } else {
                found
            }
        };
        let jobs = jobs
            .iter()
            .filter(|job| job.get("jobname").and_then(Value::as_str) != Some("All clients"))
            .map(|job| Job {
                name: job
                    .get("jobname")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                direct: is_direct(job.get("job options"))
                    .or(global_direct)
                    .unwrap_or(false),
                read: totals(job.get("read")),
                write: totals(job.get("write")),
                trim: totals(job.get("trim")),
            })
            .collect();
        Ok(Self { version, jobs })
    }
}

/// Returns the JSON objects that begin in the first column; the inside of an object is skipped with
/// it.
fn values_at_line_starts(text: &[u8]) -> impl Iterator<Item = serde_json::Result<Value>> {
    let mut rest = text;
    let mut is_line_start = true;
    std::iter::from_fn(move || {
        loop {
            if is_line_start && rest.starts_with(b"{") {
                let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
                let value = values.next()?;
                let length = values.byte_offset().max(1);
                rest = rest.get(length..).unwrap_or_default();
                is_line_start = false;
                return Some(value);
            }
            let end = memchr::memchr(b'\n', rest)?;
            rest = rest.get(end + 1..).unwrap_or_default();
            is_line_start = true;
        }
    })
}

fn is_direct(options: Option<&Value>) -> Option<bool> {
    let value = options?.get("direct")?;
    Some(match value {
        Value::String(text) => text != "0",
        other => other.as_u64() != Some(0),
    })
}

fn totals(value: Option<&Value>) -> Totals {
    let number = |key: &str| value.and_then(|v| v.get(key)).and_then(Value::as_u64);
    let clat = value
        .and_then(|v| v.get("clat_ns"))
        .and_then(|v| v.get("mean"))
        .and_then(Value::as_f64);
    Totals {
        ios: number("total_ios").unwrap_or(0),
        bytes: number("io_bytes").unwrap_or(0),
        clat_mean_ns: clat.unwrap_or(0.0),
        bw_kib_s: value
            .and_then(|v| v.get("bw"))
            .and_then(Value::as_f64)
            .unwrap_or(0.0),
    }
}

/// One line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Time of completion in milliseconds since the start of its job.
    pub time_ms: u64,
    /// Latency in nanoseconds, or bandwidth in KiB/s, or IOPS, by the kind of log; in a log with
    /// windows (`log_avg_msec`) their mean, or with `log_max_value=1` their maximum.
    pub value: u64,
    /// Maximum of the window, with `log_max_value=2`.
    pub largest: Option<u64>,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// Size in bytes; 0 if the line is of a window.
    pub block_bytes: u64,
    /// Offset in the file, with `log_offset=1`.
    pub offset: Option<u64>,
    /// Priority: 1 for the real-time class, or with `log_prio=1` the whole value.
    pub priority: Option<u64>,
    /// Time of issue in nanoseconds since the start of its job, with `log_issue_time=1`.
    pub issue_ns: Option<u64>,
}

/// Columns of a log of fio, the same for all lines of a file:
/// `time, value[, largest], direction, block size[, offset][, priority][, issue time]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogColumns {
    count: usize,
    has_largest: bool,
    has_offset: bool,
    has_priority: bool,
    has_issue: bool,
}

/// Returns the numbers of a line, hexadecimal ones marked.
fn numbers(line: &[u8]) -> Option<Vec<(u64, bool)>> {
    let columns = trim(line).split(|b| *b == b',').map(trim);
    columns
        .map(|column| match column.strip_prefix(b"0x") {
            Some(digits) => {
                let digits = std::str::from_utf8(digits).ok()?;
                Some((u64::from_str_radix(digits, 16).ok()?, true))
            }
            None => Some((crate::scan::whole_uint(column)?, false)),
        })
        .collect()
}

/// Number of lines that are examined to detect the columns.
const TELLING_LINES: usize = 10_000;

impl LogColumns {
    /// Detects the columns of a log by the values in them; `None` if it is not such a log.
    ///
    /// A direction is 0, 1 or 2, which identifies a log with two values; priorities are 0, 1 or
    /// hexadecimal, which distinguishes them from offsets (which versions before 3.18 wrote alone).
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        let lines = text.split(|b| *b == b'\n').filter_map(numbers);
        let lines: Vec<Vec<(u64, bool)>> = lines.take(TELLING_LINES).collect();
        let count = lines.first()?.len();
        let lines: Vec<_> = lines.iter().filter(|line| line.len() == count).collect();
        let all = |column: usize, test: &dyn Fn((u64, bool)) -> bool| {
            lines
                .iter()
                .all(|line| line.get(column).is_some_and(|value| test(*value)))
        };
        let is_direction = |(value, is_hex): (u64, bool)| value <= 2 && !is_hex;
        let is_priority = |(value, is_hex): (u64, bool)| value <= 1 || is_hex;
        let has_largest = match (all(2, &is_direction), all(3, &is_direction)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        let base = 4 + usize::from(has_largest);
        let mut found = Self {
            count,
            has_largest,
            ..Self::default()
        };
        match count.checked_sub(base)? {
            0 => {}
            1 if all(base, &is_priority) => found.has_priority = true,
            1 => found.has_offset = true,
            2 if all(base + 1, &is_priority) => {
                found.has_offset = true;
                found.has_priority = true;
            }
            2 => {
                found.has_priority = true;
                found.has_issue = true;
            }
            3 => {
                found.has_offset = true;
                found.has_priority = true;
                found.has_issue = true;
            }
            _ => return None,
        }
        Some(found)
    }

    /// Reads a line of the log.
    #[must_use]
    pub fn line(self, line: &[u8]) -> Option<LogLine> {
        let numbers = numbers(line).filter(|numbers| numbers.len() == self.count)?;
        let mut columns = numbers.into_iter().map(|(value, _)| value);
        let mut next = || columns.next();
        Some(LogLine {
            time_ms: next()?,
            value: next()?,
            largest: if self.has_largest { next() } else { None },
            direction: u8::try_from(next()?).ok().filter(|d| *d <= 2)?,
            block_bytes: next()?,
            offset: if self.has_offset { next() } else { None },
            priority: if self.has_priority { next() } else { None },
            issue_ns: if self.has_issue { next() } else { None },
        })
    }
}

/// A section of a job file: `global` or a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Options and their values, in order; the value is empty if there is none.
    pub options: Vec<(String, String)>,
}

/// Returns the sections of a job file.
#[must_use]
pub fn job_file(text: &[u8]) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let as_text = |bytes: &[u8]| String::from_utf8_lossy(trim(bytes)).into_owned();
    for line in text.split(|b| *b == b'\n').map(trim) {
        if matches!(line.first(), None | Some(b'#' | b';')) {
            continue;
        }
        if let Some(name) = line.strip_prefix(b"[").and_then(|l| l.strip_suffix(b"]")) {
            found.push(Section {
                name: as_text(name),
                ..Section::default()
            });
        } else if let Some(section) = found.last_mut() {
            let at = memchr::memchr(b'=', line).unwrap_or(line.len());
            let (option, value) = line.split_at(at);
            let value = value.strip_prefix(b"=").unwrap_or_default();
            section.options.push((as_text(option), as_text(value)));
        }
    }
    found
}

/// Returns `true` if a text is a job file: sections with options.
pub(crate) fn is_job_file(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(trim);
    let first = lines.find(|line| !matches!(line.first(), None | Some(b'#' | b';')));
    let is_section = |line: &[u8]| line.starts_with(b"[") && line.ends_with(b"]");
    let says_what = |line: &[u8]| {
        [&b"rw="[..], b"readwrite=", b"ioengine=", b"bs="]
            .iter()
            .any(|option| line.starts_with(option))
    };
    first.is_some_and(is_section) && lines.any(says_what)
}

/// Returns `true` if a line belongs to such a log.
pub(crate) fn is_log_line(line: &[u8]) -> bool {
    LogColumns::of(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_between_text() {
        let text = b"note: both iodepth >= 1\n{\n\"fio version\": \"fio-3.33\", \"global options\": {\"direct\": \"1\"}, \"jobs\": [{\"jobname\": \"a\", \"read\": {\"io_bytes\": 4096, \"total_ios\": 1, \"clat_ns\": {\"mean\": 5.5}}}, {\"jobname\": \"b\", \"job options\": {\"direct\": \"0\"}}]}\ntail\n";
        let found = FioResult::parse("fio.json", text).unwrap();
        assert_eq!(found.jobs[0].read.bytes, 4096);
        assert!(found.jobs[0].direct && !found.jobs[1].direct);
        assert!(FioResult::parse("x", b"{}").is_err());
        assert!(FioResult::parse("x", b"nothing").is_err());
    }

    #[test]
    fn the_last_of_several_results_counts() {
        let one = |ios: u64| {
            format!(
                "{{\n\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"a\", \"read\": {{\"io_bytes\": 4096, \"total_ios\": {ios}}}}}]\n}}\n"
            )
        };
        for text in [
            [one(1), one(2), one(3)].concat(),
            [one(1), "note {\n".to_owned(), one(3)].concat(),
            ["x\n".to_owned(), one(1), one(3), "{cut".to_owned()].concat(),
        ] {
            let found = FioResult::parse("x", text.as_bytes()).unwrap();
            assert_eq!(found.jobs[0].read.ios, 3, "{text}");
        }
        assert!(FioResult::parse("x", &one(1).as_bytes()[..40]).is_err());
    }

    #[test]
    fn results_of_clients_and_of_old_versions() {
        let job = |name: &str| {
            format!(
                "{{\"jobname\": \"{name}\", \"read\": {{\"io_bytes\": 4, \"total_ios\": 1, \"clat\": {{\"mean\": 2.5}}}}}}"
            )
        };
        let (a, all) = (job("a"), job("All clients"));
        let text =
            format!("{{\"fio version\": \"fio-3.33\", \"client_stats\": [{a}, {a}, {all}]}}");
        let found = FioResult::parse("x", text.as_bytes()).unwrap();
        assert_eq!((found.jobs.len(), found.jobs[0].read.bytes), (2, 4));
        let text = format!("{{\"fio version\": \"fio-2.16\", \"jobs\": [{a}]}}");
        let found = FioResult::parse("x", text.as_bytes()).unwrap();
        assert_eq!(found.jobs[0].read.bytes, 4096);
        assert!((found.jobs[0].read.clat_mean_ns - 2500.0).abs() < 1e-9);
    }

    #[test]
    fn job_files() {
        let text = b"; KV cache\n[global]\ndirect=1\n\n[prefill write]\nrw=write\n bs = 128k\ntime_based\n";
        assert!(is_job_file(text) && !is_job_file(b"[a]\nb=c\n") && !is_job_file(b"rw=read\n"));
        let found = job_file(text);
        let [global, job] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((global.name.as_str(), global.options.len()), ("global", 1));
        let options: Vec<_> = job
            .options
            .iter()
            .map(|(o, v)| (o.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            options,
            [("rw", "write"), ("bs", "128k"), ("time_based", "")]
        );
        assert_eq!(job.name, "prefill write");
    }

    #[test]
    fn columns_of_logs_of_all_versions() {
        let read = |text: &str| {
            let columns = LogColumns::of(text.as_bytes())?;
            let last = text.lines().next_back()?;
            columns.line(last.as_bytes())
        };
        let line = LogLine {
            time_ms: 1,
            value: 104_851,
            largest: None,
            direction: 1,
            block_bytes: 131_072,
            offset: None,
            priority: None,
            issue_ns: None,
        };
        let some = |largest, offset, priority, issue_ns| LogLine {
            largest,
            offset,
            priority,
            issue_ns,
            ..line
        };
        for (text, wanted) in [
            ("1, 104851, 1, 131072", line),
            // The block size of a request is not a direction, however small.
            (
                "0, 7, 0, 512, 1\n1, 104851, 1, 131072, 0",
                some(None, None, Some(0), None),
            ),
            (
                "0, 7, 0, 4096, 4096\n1, 104851, 1, 131072, 0",
                some(None, Some(0), None, None),
            ),
            (
                "0, 7, 0, 4096, 4096, 0\n1, 104851, 1, 131072, 8192, 1",
                some(None, Some(8192), Some(1), None),
            ),
            (
                "1, 104851, 1, 131072, 8192, 0x4004",
                some(None, Some(8192), Some(0x4004), None),
            ),
            (
                "1, 104851, 1, 131072, 0x4004",
                some(None, None, Some(0x4004), None),
            ),
            (
                "1, 104851, 1, 131072, 0, 99123",
                some(None, None, Some(0), Some(99_123)),
            ),
            (
                "1, 104851, 1, 131072, 8192, 0, 99123",
                some(None, Some(8192), Some(0), Some(99_123)),
            ),
            (
                "0, 2, 2, 0, 4096, 0, 0\n1, 104851, 204851, 1, 131072, 8192, 0",
                some(Some(204_851), Some(8192), Some(0), None),
            ),
            (
                "1, 104851, 204851, 1, 131072, 0",
                some(Some(204_851), None, Some(0), None),
            ),
            (
                "1, 104851, 204851, 1, 131072, 8192, 0x0000, 99123",
                some(Some(204_851), Some(8192), Some(0), Some(99_123)),
            ),
        ] {
            assert_eq!(read(text), Some(wanted), "{text}");
        }
        for wrong in [
            "1, R, 0, 4096",
            "1, 2, 3, 4096",
            "1, 2, 0",
            "1, 2, 0, 4, 5, 6, 7, 8, 9",
            "",
        ] {
            assert_eq!(LogColumns::of(wrong.as_bytes()), None, "{wrong}");
        }
        // A truncated line has fewer columns.
        let columns = LogColumns::of(b"1, 2, 0, 4096, 8192, 0").unwrap();
        assert_eq!(columns.line(b"1, 2, 0, 4096, 81"), None);
    }
}
