//! `blkio collect`: records a trace while a command runs, and says what was lost.

mod beside;
mod disk;
mod reading;
mod tracer;
mod unfinished;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use blkio_parser::collect::script;
use blkio_parser::{Direction, EventKind, Stats, StatsOptions, pipeline};
use cli::{Interrupt, OrExit as _, Outcome};
use serde_json::{Value, json};

use crate::NO_INPUT;
use crate::args::CollectArgs;
use crate::guard::{Guard, discard};
use beside::{Work, end_sampler, gpu_sampler, workload};
use disk::Disk;
use reading::Reading;
use tracer::{script_options, start, stop};
use unfinished::put_unfinished_in_place;

/// The exit code of an interrupt.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &CollectArgs) -> anyhow::Result<Outcome> {
    let disk = Disk::of(&args.device).or_exit(NO_INPUT)?;
    if args.print_script {
        let mut out = cli::Output::stdout();
        let text = script(disk.major, disk.minor, &script_options(args));
        out.write_all(text.as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    // The owner of a process's files in /proc is the user it acts as.
    if fs::metadata("/proc/self").is_ok_and(|data| data.uid() != 0) {
        return Err(anyhow::anyhow!(
            "tracing needs root: run this with sudo, or print the script with --print-script"
        ))
        .or_exit(NO_INPUT);
    }
    let interrupt = Interrupt::listen();
    fs::create_dir(&args.out).with_context(|| {
        format!(
            "{}: cannot create the folder (it must be new)",
            args.out.display()
        )
    })?;
    if disk.has(&args.out) {
        args.verbosity.note(format!(
            "blkio: warning: {} is on the traced disk: the tracer's own writes will be in the trace",
            args.out.display()
        ));
    }
    let log = args.out.join("events.txt");
    let mut guard = Guard::start();
    let gpu = gpu_sampler(&args.out, &mut guard);
    let started = start(args, &disk, &log, &mut guard, &interrupt);
    let begun = started.is_ok() && !interrupt.has_come();
    let (tracer, method) = match started {
        Ok(started) if begun => started,
        // What was begun would be in the way of the next try.
        other => {
            let told = other.and_then(|(tracer, _)| stop(tracer));
            end_sampler(gpu)?;
            guard.finish();
            discard(&args.out);
            if interrupt.has_come() {
                args.verbosity
                    .note("blkio: interrupted before the recording began: nothing is kept");
                return Ok(Outcome::Code(INTERRUPTED));
            }
            return told.map(|_| Outcome::Fine).or_exit(NO_INPUT);
        }
    };
    let before = (disk.stat()?, Reading::now());
    let work = workload(args, &interrupt, &mut guard);
    let after = (disk.stat()?, Reading::now());
    // Completions that were counted are in the tracer's buffers by now or never.
    thread::sleep(Duration::from_millis(300));
    let stopped = stop(tracer);
    end_sampler(gpu)?;
    guard.finish();
    let status = match work {
        Work::Ended(status) => status,
        Work::NotStarted(error) => {
            discard(&args.out);
            return Err(error).or_exit(NO_INPUT);
        }
    };
    let misses = stopped?;
    if method == "tracefs" {
        // bpftrace writes the readings itself.
        let mut log = File::options().append(true).open(&log)?;
        log.write_all(after.1.line().as_bytes())?;
    }
    put_unfinished_in_place(&log)?;
    let counted = after.0.since(&before.0);
    let mut options = StatsOptions::default();
    options.read.device = Some((disk.major << 20) | disk.minor);
    let stats = Stats::of_files(std::slice::from_ref(&log), &options)?;
    let matching = stats
        .newest
        .as_ref()
        .map(|p| p.matching)
        .unwrap_or_default();
    let recorded = stats.traffic.completions - matching.sequence_end_completions;
    let unfinished = matching.unmatched_issues;
    let empty = empty_writes(&log, &options)?;
    let on_device =
        (counted.read_ios + counted.write_ios + counted.discard_ios + counted.flush_ios)
            .saturating_sub(empty);
    let counts = stats.outcome.counts();
    let manifest = json!({
        "schema_version": 1,
        "method": method,
        "device": {"name": disk.name, "number": format!("{}:{}", disk.major, disk.minor)},
        "command": args.command,
        "clocks": {"before": before.1.value(), "after": after.1.value()},
        "device_counters": {
            "read_ios": counted.read_ios, "read_bytes": counted.read_bytes,
            "write_ios": counted.write_ios, "write_bytes": counted.write_bytes,
            "discard_ios": counted.discard_ios, "flush_ios": counted.flush_ios,
        },
        "recorded": {
            "issues": stats.traffic.issues,
            "bytes_issued": issued_bytes(&stats),
            "completions": recorded,
            "issues_without_completion": unfinished,
            "sequence_end_completions": matching.sequence_end_completions,
            "lost_events": counts.lost_events,
            "malformed": counts.malformed,
        },
        "recursion_misses": misses,
        "empty_writes": empty,
        "only_comm": args.script.comm,
        "completed_on_device_minus_recorded": i64::try_from(i128::from(on_device) - i128::from(recorded)).ok(),
    });
    let mut out = cli::Output::file(args.out.join("manifest.json"))?;
    serde_json::to_writer_pretty(&mut out, &manifest)?;
    writeln!(out)?;
    out.finish()?;
    let mut clock = cli::Output::file(args.out.join("clock.json"))?;
    serde_json::to_writer_pretty(&mut clock, &manifest["clocks"])?;
    writeln!(clock)?;
    clock.finish()?;
    args.verbosity.note(format!(
        "blkio: {} requests recorded, {unfinished} of them without their completion; {on_device} completed on the device",
        stats.traffic.issues
    ));
    status?;
    Ok(Outcome::Fine)
}

/// Writes without data that only ask for a flush: the device counts them beside the flush itself, and the trace has no issue
/// of theirs but the end of their sequence. Those of writes with data end at the place of the data.
fn empty_writes(log: &Path, options: &StatsOptions) -> anyhow::Result<u64> {
    let count = std::cell::Cell::new(0);
    pipeline::read(
        &[log.to_owned()],
        &options.read,
        &mut |events| {
            let empty = events.iter().filter(|e| {
                e.kind == EventKind::Complete
                    && e.direction == Direction::Write
                    && (e.sector, e.nr_sector) == (0, 0)
            });
            count.set(count.get() + empty.count() as u64);
        },
        &mut || count.set(0),
    )?;
    Ok(count.get())
}

/// Bytes of what was issued, by direction.
fn issued_bytes(stats: &Stats) -> Value {
    let mut bytes = serde_json::Map::new();
    for (rwbs, operation) in stats
        .outcome
        .symbols
        .rwbs_all()
        .iter()
        .zip(&stats.traffic.operations)
    {
        let sum: u64 = operation
            .sizes
            .iter()
            .map(|(size, count)| u64::from(*size) * count)
            .sum();
        let name = rwbs.decode().direction.name();
        let before = bytes.get(name).and_then(Value::as_u64).unwrap_or(0);
        bytes.insert(name.to_owned(), (before + sum).into());
    }
    Value::Object(bytes)
}
