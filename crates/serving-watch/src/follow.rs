//! Steps that come while they are watched: from a growing file, or from the metrics of a server.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serving_logs::{Metrics, StepRow, log_step, metrics};

use crate::{Error, http};

/// Where steps come from: a table or a log to which lines are added, or an address with metrics.
pub struct Source(Kind);

enum Kind {
    File(Growing),
    Address(Scraped),
}

impl Source {
    /// Begins to watch a file, or an address with `http://` or `https://`. What is in a file already counts as new.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a file that cannot be read, so that it is known before the watch begins.
    pub fn of(name: &Path) -> Result<Self, Error> {
        let text = name.to_string_lossy();
        if http::is_address(&text) {
            return Ok(Self(Kind::Address(Scraped {
                address: text.into_owned(),
                last: None,
            })));
        }
        File::open(name).map_err(|source| of_file(name, source))?;
        Ok(Self(Kind::File(Growing {
            path: name.to_owned(),
            at: 0,
            head: Vec::new(),
            rest: Vec::new(),
            header: None,
        })))
    }

    /// Returns the steps since the last call. Metrics give one step, the mean of those between two calls.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the server gives no answer or one without metrics of an engine.
    pub fn poll(&mut self) -> Result<Vec<StepRow>, Error> {
        match &mut self.0 {
            Kind::File(file) => file.poll().map_err(|source| of_file(&file.path, source)),
            Kind::Address(address) => address.poll(),
        }
    }
}

fn of_file(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}

/// Number of bytes at the start of a file by which it is known again.
const HEAD_BYTES: u64 = 256;

/// A file that others write.
struct Growing {
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
    fn poll(&mut self) -> std::io::Result<Vec<StepRow>> {
        let mut file = File::open(&self.path)?;
        let mut head = Vec::new();
        let mut first = (&mut file).take(HEAD_BYTES);
        first.read_to_end(&mut head)?;
        let len = file.metadata()?.len();
        if len < self.at || !head.starts_with(&self.head) {
            // It was replaced or emptied, as logs are.
            (self.at, self.header) = (0, None);
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut new = Vec::new();
        self.at += file.read_to_end(&mut new)? as u64;
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
                steps.push(step);
                continue;
            }
            match &self.header {
                None if serving_logs::steps(line).is_ok() => self.header = Some(line.to_owned()),
                Some(header) => {
                    // A line that is no row is none of the table, whatever wrote it.
                    let table = serving_logs::steps(&format!("{header}\n{line}"));
                    let rows = table.map(|(rows, _)| rows).unwrap_or_default();
                    steps.extend(rows);
                }
                None => {}
            }
        }
        Ok(steps)
    }
}

/// Metrics of a server.
struct Scraped {
    address: String,
    last: Option<Metrics>,
}

impl Scraped {
    fn poll(&mut self) -> Result<Vec<StepRow>, Error> {
        let found = metrics(&http::get(&self.address)?);
        if !found.is_of_engine() {
            return Err(Error::NoMetrics {
                address: self.address.clone(),
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_us = now.unwrap_or_default().as_secs_f64() * 1e6;
        let last = self.last.replace(found);
        let found = self.last.as_ref().zip(last);
        let step = found.and_then(|(found, last)| found.step_since(&last, at_us));
        Ok(step.into_iter().collect())
    }
}

/// How often and how long to look.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time between two looks.
    pub interval: Duration,
    /// The time to watch; `None` without an end.
    pub during: Option<Duration>,
}

/// Calls `each` with the new steps of all sources, until the time is over. What cannot be read is `missed`, and tried again.
///
/// # Errors
///
/// Those of `each`.
pub fn follow<E>(
    sources: &mut [Source],
    pace: Pace,
    mut each: impl FnMut(Vec<StepRow>) -> Result<(), E>,
    mut missed: impl FnMut(&Error),
) -> Result<(), E> {
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
    fn a_growing_file_is_read_line_by_line_and_again_after_it_is_replaced()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("steps.csv");
        std::fs::write(&path, "start_ts,duration_us,batch_size\n1,100,4\n2,11")?;
        let mut source = Source::of(&path)?;
        let took = |source: &mut Source| -> Result<Vec<i64>, Error> {
            #[expect(clippy::cast_possible_truncation, reason = "whole microseconds")]
            let us = |s: &StepRow| s.duration_us.round() as i64;
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
    fn metrics_of_a_server_become_steps() -> Result<(), Box<dyn std::error::Error>> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}/metrics", server.local_addr()?);
        let serve = std::thread::spawn(move || -> std::io::Result<()> {
            for scrape in 1..=3 {
                let (mut stream, _) = server.accept()?;
                let mut request = [0; 4096];
                let read = stream.read(&mut request)?;
                assert!(request[..read].starts_with(b"GET /metrics HTTP/1.1\r\n"));
                let (sum, count) = (0.3 * f64::from(scrape), 10 * scrape);
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nvllm:num_requests_running 4\nvllm:inter_token_latency_seconds_sum {sum}\nvllm:inter_token_latency_seconds_count {count}\n"
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
                (steps[0].duration_us - 3e4).abs() < 1e-3 && (steps[0].batch - 4.0).abs() < 1e-9
            );
        }
        serve.join().map_err(|_| "the server failed")??;
        assert!(source.poll().is_err());
        Ok(())
    }
}
