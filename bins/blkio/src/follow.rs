//! `blkio stats --follow`: totals while a log grows.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use shell::OrExit as _;

use crate::NO_INPUT;
use crate::args::StatsArgs;

/// How long nothing may be added before the log counts as ended.
const QUIET: Duration = Duration::from_secs(10);

/// Watches the only input until it has not grown for ten seconds, with a line of its growth on standard error; the analysis
/// then reads it whole.
pub(crate) fn run(args: &StatsArgs, interval_ns: u64) -> anyhow::Result<()> {
    let [path] = args.files.as_slice() else {
        return Err(shell::usage("--follow watches one file"));
    };
    if path.as_os_str() == "-" {
        return Err(shell::usage(
            "standard input is read to its end anyway: leave --follow out",
        ));
    }
    let mut file = File::open(path)
        .with_context(|| format!("{}: cannot open", path.display()))
        .or_exit(NO_INPUT)?;
    let interval = Duration::from_nanos(interval_ns);
    let mut lines = 0_u64;
    let mut grown = Instant::now();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0_u64;
    loop {
        let started = Instant::now();
        let before = at;
        if file.metadata()?.len() < at {
            args.verbosity
                .note("blkio: the file became shorter: reading from its beginning");
            at = file.seek(SeekFrom::Start(0))?;
            lines = 0;
        }
        let mut new_lines = 0_u64;
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            at += count as u64;
            let piece = buffer.get(..count).unwrap_or_default();
            new_lines += piece.iter().filter(|b| **b == b'\n').count() as u64;
        }
        lines += new_lines;
        if at != before {
            grown = Instant::now();
            let per_second = new_lines as f64 / interval.as_secs_f64();
            args.verbosity
                .note(format!("blkio: {lines} lines, {per_second:.0} per second"));
        } else if grown.elapsed() >= QUIET {
            return Ok(());
        }
        thread::sleep(interval.saturating_sub(started.elapsed()));
    }
}
