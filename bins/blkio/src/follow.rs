//! `blkio stats --follow`: a log that grows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use blkio_collect::{Follow, Grown, Tail};
use blkio_parser::pipeline::Opened;
use byte_source::{OpenOptions, Source};
use cli::{Interrupt, VerbosityArgs};

use crate::args::StatsArgs;
use crate::reading::OrCode as _;

/// Lines so far, and when that was last said.
struct Reported {
    lines: u64,
    before: u64,
    at: Instant,
}

/// Opens the only input to follow it: until an interrupt, or until nothing was added for as long as `--until-quiet` says. Its
/// growth is reported on standard error.
pub(crate) fn open(
    args: &StatsArgs,
    interval_ns: u64,
    open: &OpenOptions,
) -> anyhow::Result<Opened> {
    let [path] = args.files.as_slice() else {
        return Err(cli::usage("--follow watches one file"));
    };
    if path.as_os_str() == "-" {
        return Err(cli::usage(
            "standard input is read to its end anyway: leave --follow out",
        ));
    }
    let interrupt = Interrupt::listen();
    let follow = Follow {
        ended: Arc::new(move || interrupt.has_come()),
        quiet: args.until_quiet.map(Duration::from_nanos),
        grown: growth(args.verbosity, Duration::from_nanos(interval_ns)),
    };
    let tail = Tail::open(path, follow).or_code()?;
    match Source::from_reader_with(path.display().to_string(), tail, open) {
        Ok(source) => Ok(Opened::new(Some(source))),
        Err(byte_source::Error::Empty { .. }) => Ok(Opened::new(None)),
        Err(error) => Err(error).or_code(),
    }
}

fn growth(verbosity: VerbosityArgs, interval: Duration) -> Grown {
    let said = Mutex::new(Reported {
        lines: 0,
        before: 0,
        at: Instant::now(),
    });
    Arc::new(move |bytes| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let since = said.at.elapsed();
        if since < interval || said.lines == said.before {
            return;
        }
        let per_second = (said.lines - said.before) as f64 / since.as_secs_f64();
        verbosity.note(format!(
            "blkio: {} lines, {per_second:.0} per second",
            said.lines
        ));
        said.before = said.lines;
        said.at = Instant::now();
    })
}
