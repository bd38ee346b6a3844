//! Reads a file while it grows.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a file that does not grow is checked.
const PAUSE: Duration = Duration::from_millis(50);

/// Conditions on which following a file ends.
#[derive(Clone)]
pub struct Follow {
    /// Returns `true` to end now; called several times per second.
    pub ended: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Ends when nothing was added for this long.
    pub quiet: Option<Duration>,
    /// Called with the bytes that were added, and with none several times per second while nothing
    /// is.
    pub grown: Grown,
}

/// Receives bytes, in file order.
pub type Grown = Arc<dyn Fn(&[u8]) + Send + Sync>;

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("quiet", &self.quiet)
            .finish_non_exhaustive()
    }
}

/// Reads a growing file until it is told to end. If the file is replaced or truncated, reads the
/// rest of the old contents, then the new ones from their start.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: File,
    at: u64,
    follow: Follow,
}

impl Tail {
    /// Opens a file to follow.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path, follow: Follow) -> Result<Self, byte_source::Error> {
        let file = File::open(path).map_err(|source| byte_source::Error::Read {
            name: path.display().to_string(),
            offset: 0,
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            at: 0,
            follow,
        })
    }

    /// Switches to the file that now has the name, if it is another one or was truncated.
    fn rotate(&mut self) -> io::Result<bool> {
        let Ok(now) = File::open(&self.path) else {
            // Moved away, and not yet recreated.
            return Ok(false);
        };
        let data = now.metadata()?;
        if is_same(&data, &self.file.metadata()?) && data.len() >= self.at {
            return Ok(false);
        }
        self.file = now;
        self.at = 0;
        Ok(true)
    }
}

#[cfg(unix)]
fn is_same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    a.created().ok() == b.created().ok()
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            // Checked before reading: data written until then is still read.
            let is_last = (self.follow.ended)()
                || (self.follow.quiet).is_some_and(|quiet| started.elapsed() >= quiet);
            let count = self.file.read(buffer)?;
            self.at += count as u64;
            if count > 0 {
                (self.follow.grown)(buffer.get(..count).unwrap_or_default());
                return Ok(count);
            }
            if is_last {
                return Ok(0);
            }
            if !self.rotate()? {
                (self.follow.grown)(&[]);
                thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkio_parser::pipeline::Opened;
    use blkio_parser::{Stats, StatsOptions};
    use byte_source::{OpenOptions, Source};
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    fn stats_of(path: &Path, follow: Follow) -> Stats {
        let tail = Tail::open(path, follow).unwrap();
        let source = Source::from_reader_with("log", tail, &OpenOptions::default()).unwrap();
        let mut options = StatsOptions::default();
        options.read.opened = Some(Opened::new(Some(source)));
        Stats::of_files(&[path.to_owned()], &options).unwrap()
    }

    const FIRST: &str = "1, R, 4096, 8, 8\n";

    #[test]
    fn what_is_added_and_what_replaces_the_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, FIRST).unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(AtomicU64::new(0));
        let follow = Follow {
            ended: {
                let end = Arc::clone(&end);
                Arc::new(move || end.load(Ordering::Acquire))
            },
            quiet: Some(Duration::from_secs(60)),
            grown: {
                let seen = Arc::clone(&seen);
                Arc::new(move |bytes| {
                    seen.fetch_add(bytes.len() as u64, Ordering::AcqRel);
                })
            },
        };
        let reader = {
            let path = path.clone();
            thread::spawn(move || stats_of(&path, follow))
        };
        let mut written = 0;
        let mut wait_for = |text: &str| {
            written += text.len() as u64;
            let deadline = Instant::now() + Duration::from_secs(30);
            while seen.load(Ordering::Acquire) < written {
                assert!(Instant::now() < deadline, "{text:?} was not read");
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(FIRST);
        let mut file = File::options().append(true).open(&path).unwrap();
        for part in ["2, R, 4096, 16, 8\n3, R, 40", "96, 24, 8\n"] {
            file.write_all(part.as_bytes()).unwrap();
            wait_for(part);
        }
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        let replaced = "4, W, 4096, 8, 8\n";
        std::fs::write(&path, replaced).unwrap();
        wait_for(replaced);
        end.store(true, Ordering::Release);
        let stats = reader.join().unwrap();
        assert_eq!(stats.traffic.issues, 4);
        assert_eq!(stats.outcome.counts().malformed, 0);
    }

    #[test]
    fn silence_ends_it_when_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "1, R, 4096, 8, 8\n").unwrap();
        let follow = Follow {
            ended: Arc::new(|| false),
            quiet: Some(Duration::from_millis(100)),
            grown: Arc::new(|_| {}),
        };
        let stats = stats_of(&path, follow);
        assert_eq!(stats.traffic.issues, 1);
    }
}
