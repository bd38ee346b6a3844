//! fio's results and logs.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::scan::{Cursor, trim};

/// Totals of one job in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Requests fio made.
    pub ios: u64,
    /// Bytes it moved.
    pub bytes: u64,
    /// Mean completion latency in nanoseconds.
    pub clat_mean_ns: f64,
    /// Bandwidth in KiB/s.
    pub bw_kib_s: f64,
}

impl Totals {
    /// What fio printed before version 3: KiB, and latencies in microseconds under a name of their own.
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
pub struct Job {
    /// Its name.
    pub name: String,
    /// Whether it went around the page cache (`direct=1`), from its own or the global options.
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
pub struct FioResult {
    /// Its version.
    pub version: String,
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl FioResult {
    /// Reads fio's JSON, which may follow lines of text.
    ///
    /// # Errors
    ///
    /// When there is no such JSON.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self> {
        let unreadable = |reason: String| Error::Unreadable {
            name: name.to_owned(),
            reason,
        };
        let start = if text.starts_with(b"{") {
            Some(0)
        } else {
            memchr::memmem::find(text, b"\n{").map(|at| at + 1)
        };
        let json = start
            .and_then(|at| text.get(at..))
            .ok_or_else(|| unreadable("no JSON: run fio with --output-format=json".to_owned()))?;
        // Text may follow, too.
        let mut values = serde_json::Deserializer::from_slice(json).into_iter::<Value>();
        let document = match values.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => return Err(unreadable(format!("not fio's JSON: {error}"))),
            None => return Err(unreadable("no JSON".to_owned())),
        };
        let global_direct = is_direct(document.get("global options"));
        let version = document.get("fio version").and_then(Value::as_str);
        let version = version.unwrap_or_default().to_owned();
        // A client prints what its servers did, and the sum of it if there are several.
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

/// One line of a log: time in ms since the job began, value, direction (0 read, 1 write, 2 trim), block size, offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine {
    /// Completion in milliseconds since its job began.
    pub time_ms: u64,
    /// Latency in nanoseconds, or bandwidth in KiB/s, or IOPS, by the kind of log.
    pub value: u64,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// Bytes.
    pub block_bytes: u64,
    /// Offset in the file, if the log has it.
    pub offset: Option<u64>,
}

/// Reads a line of a log.
#[must_use]
pub fn log_line(line: &[u8]) -> Option<LogLine> {
    let mut cursor = Cursor::new(trim(line));
    let mut column = || {
        cursor.blanks();
        let value = cursor.uint()?;
        cursor.blanks();
        if !cursor.rest.is_empty() && !cursor.eat(b',') {
            return None;
        }
        Some(value)
    };
    Some(LogLine {
        time_ms: column()?,
        value: column()?,
        direction: u8::try_from(column()?).ok().filter(|d| *d <= 2)?,
        block_bytes: column()?,
        offset: column(),
    })
}

/// A section of a job file: `global` or a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Options and their values, in order; those without a value have an empty one.
    pub options: Vec<(String, String)>,
}

/// The sections of a job file.
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

/// Whether a text is a job file: sections, and options that say what to do.
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

/// Whether a line is one of such a log.
pub(crate) fn is_log_line(line: &[u8]) -> bool {
    log_line(line).is_some()
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
    fn log_lines() {
        let line = log_line(b"1, 104851, 1, 131072, 0, 0").unwrap();
        assert_eq!(
            (line.value, line.direction, line.offset),
            (104_851, 1, Some(0))
        );
        assert_eq!(log_line(b"1, 2, 0, 4096").unwrap().offset, None);
        assert_eq!(log_line(b"1, R, 0, 4096"), None);
    }
}
