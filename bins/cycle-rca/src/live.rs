//! Steps that come while they are watched: from a growing file, or from the metrics of a server.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rca_cycles::sentinel::Step;
use serving_logs::{Metrics, log_step, metrics};

use crate::http;
use crate::sentinel::step_of;

/// Where steps come from.
pub(crate) enum Source {
    /// A table or a log to which lines are added.
    File(Growing),
    /// An address with metrics.
    Address(Scraped),
}

impl Source {
    pub(crate) fn of(name: &Path) -> anyhow::Result<Self> {
        let text = name.to_string_lossy();
        if http::is_address(&text) {
            return Ok(Self::Address(Scraped {
                address: text.into_owned(),
                last: None,
            }));
        }
        // A file that cannot be read is told before the watch begins.
        File::open(name).with_context(|| name.display().to_string())?;
        Ok(Self::File(Growing {
            path: name.to_owned(),
            at: 0,
            head: Vec::new(),
            rest: Vec::new(),
            header: None,
        }))
    }

    /// Returns the steps since the last call.
    pub(crate) fn poll(&mut self) -> anyhow::Result<Vec<Step>> {
        match self {
            Self::File(file) => file.poll(),
            Self::Address(address) => address.poll(),
        }
    }
}

/// Number of bytes at the start of a file by which it is known again.
const HEAD_BYTES: u64 = 256;

/// A file that others write.
pub(crate) struct Growing {
    path: PathBuf,
    at: u64,
    /// Its first bytes, by which a file that took its place is told from one that grew.
    head: Vec<u8>,
    /// A line without its end.
    rest: Vec<u8>,
    /// Names of the columns of a table; empty for a log.
    header: Option<String>,
}

impl Growing {
    fn poll(&mut self) -> anyhow::Result<Vec<Step>> {
        let place = || self.path.display().to_string();
        let mut file = File::open(&self.path).with_context(place)?;
        let mut head = Vec::new();
        let mut first = (&mut file).take(HEAD_BYTES);
        first.read_to_end(&mut head).with_context(place)?;
        let len = file.metadata().with_context(place)?.len();
        if len < self.at || !head.starts_with(&self.head) {
            // It was replaced or emptied, as logs are.
            (self.at, self.header) = (0, None);
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.at)).with_context(place)?;
        let mut new = Vec::new();
        self.at += file.read_to_end(&mut new).with_context(place)? as u64;
        self.head = head;
        self.rest.extend(new);
        let whole = self
            .rest
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8_lossy(&lines);
        let mut steps = Vec::new();
        for line in text.lines() {
            if let Some(step) = log_step(line) {
                steps.push(step_of(&step));
                continue;
            }
            match &self.header {
                None if serving_logs::steps(line).is_ok() => self.header = Some(line.to_owned()),
                Some(header) => {
                    // A line that is no row is none of the table, whatever wrote it.
                    let table = serving_logs::steps(&format!("{header}\n{line}"));
                    let rows = table.map(|(rows, _)| rows).unwrap_or_default();
                    steps.extend(rows.iter().map(step_of));
                }
                None => {}
            }
        }
        Ok(steps)
    }
}

/// Metrics of a server.
pub(crate) struct Scraped {
    address: String,
    last: Option<Metrics>,
}

impl Scraped {
    fn poll(&mut self) -> anyhow::Result<Vec<Step>> {
        let found = metrics(&http::get(&self.address)?);
        anyhow::ensure!(
            found.is_of_engine(),
            "{}: no metrics of vLLM or SGLang there; give the address of the engine's /metrics",
            self.address
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_us = now.unwrap_or_default().as_secs_f64() * 1e6;
        let last = self.last.replace(found);
        let found = self.last.as_ref().zip(last);
        let step = found.and_then(|(found, last)| found.step_since(&last, at_us));
        Ok(step.iter().map(step_of).collect())
    }
}

/// How often and how long to look.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// `None` for ever.
    pub(crate) during: Option<Duration>,
}

/// Calls `each` with the new steps of all sources, until the time is over. What cannot be read is `missed`, and tried again.
pub(crate) fn follow(
    sources: &mut [Source],
    pace: Pace,
    mut each: impl FnMut(Vec<Step>) -> anyhow::Result<()>,
    mut missed: impl FnMut(&anyhow::Error),
) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        for source in &mut *sources {
            match source.poll() {
                Ok(steps) => each(steps)?,
                Err(error) => missed(&error),
            }
        }
        let left = pace.during.map(|all| all.saturating_sub(begin.elapsed()));
        match left {
            Some(left) if left.is_zero() => return Ok(()),
            left => std::thread::sleep(left.unwrap_or(pace.interval).min(pace.interval)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn a_growing_file_is_read_line_by_line_and_again_after_it_is_replaced() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("steps.csv");
        std::fs::write(&path, "start_ts,duration_us,batch_size\n1,100,4\n2,11")?;
        let mut source = Source::of(&path)?;
        let took = |source: &mut Source| -> anyhow::Result<Vec<i64>> {
            #[expect(clippy::cast_possible_truncation, reason = "whole microseconds")]
            let us = |s: &Step| (s.duration_ns / 1000.0) as i64;
            Ok(source.poll()?.iter().map(us).collect())
        };
        assert_eq!(took(&mut source)?, [100]);
        assert!(took(&mut source)?.is_empty());
        let mut file = File::options().append(true).open(&path)?;
        write!(file, "0,4\nbroken\n3,120,4\n")?;
        assert_eq!(took(&mut source)?, [110, 120]);
        let log = "Decode batch. #running-req: 2, #token: 9, gen throughput (token/s): 200, #queue-req: 0\n";
        std::fs::write(&path, log)?;
        assert_eq!(took(&mut source)?, [10_000]);
        Ok(())
    }

    #[test]
    fn metrics_of_a_server_become_steps() -> anyhow::Result<()> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}/metrics", server.local_addr()?);
        let serve = std::thread::spawn(move || -> anyhow::Result<()> {
            for scrape in 1..=3 {
                let (mut stream, _) = server.accept()?;
                let mut request = [0; 4096];
                let read = stream.read(&mut request)?;
                anyhow::ensure!(request[..read].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                let (sum, count) = (0.3 * f64::from(scrape), 10 * scrape);
                write!(
                    stream,
                    "HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 4\nvllm:inter_token_latency_seconds_sum {sum}\nvllm:inter_token_latency_seconds_count {count}\n"
                )?;
            }
            Ok(())
        });
        let mut source = Source::of(Path::new(&address))?;
        assert!(source.poll()?.is_empty());
        for _ in 0..2 {
            let steps = source.poll()?;
            assert_eq!(steps.len(), 1);
            assert!(
                (steps[0].duration_ns - 3e7).abs() < 1.0 && (steps[0].batch - 4.0).abs() < 1e-9
            );
        }
        serve
            .join()
            .map_err(|_| anyhow::anyhow!("the server failed"))??;
        assert!(source.poll().is_err());
        Ok(())
    }
}
