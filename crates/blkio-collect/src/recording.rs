//! Makes a whole recording: the tracer, the command, and an account of losses.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use blkio_parser::{Direction, EventKind, Stats, StatsOptions, pipeline};
use byte_source::output::AtomicFile;
use serde_json::{Value, json};

use crate::clock_reading::Reading;
use crate::disk::{Disk, DiskStat};
use crate::error::{Error, Result};
use crate::guard::{Guard, discard};
use crate::script::ScriptOptions;
use crate::tracer::{Method, start, stop as stop_tracer};
use crate::unfinished::put_unfinished_in_place;
use crate::workload::{end_sampler, gpu_sampler, workload};

/// Time for completions to reach the buffers of the tracer.
const SETTLE: Duration = Duration::from_millis(300);

/// Options of a recording.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordOptions {
    /// New folder for the recording; should not be on the traced disk.
    pub folder: PathBuf,
    /// Method; `None` uses bpftrace if it works.
    pub method: Option<Method>,
    /// Output of the bpftrace program.
    pub script: ScriptOptions,
    /// The command to run while recording, with its arguments. It may be empty.
    pub command: Vec<String>,
    /// Duration of a recording without a command.
    pub length: Duration,
}

impl RecordOptions {
    /// Returns the options of a recording of ten seconds into this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            method: None,
            script: ScriptOptions::default(),
            command: Vec::new(),
            length: Duration::from_secs(10),
        }
    }

    /// Returns `true` if the options require the bpftrace program.
    pub(crate) fn needs_bpftrace(&self) -> bool {
        self.script != ScriptOptions::default()
    }
}

/// Information for the caller during recording.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The folder is on the traced disk: the tracer's own writes will be in the trace.
    FolderIsTraced,
    /// bpftrace does not work, for this reason; tracefs is used.
    NoBpftrace(String),
}

/// End of a recording without an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It is complete.
    Recorded(Box<Recording>),
    /// It was interrupted before it began; nothing is kept.
    Interrupted,
}

/// Result of a recording.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recording {
    /// Method used.
    pub method: Method,
    /// Issued requests in the trace.
    pub issues: u64,
    /// Requests without a completion.
    pub unfinished: u64,
    /// Requests completed according to the device's counters, without empty writes.
    pub completed_on_device: u64,
    /// Completions in the trace.
    pub completions: u64,
    /// Exit status of the command, if it failed.
    pub failed_command: Option<ExitStatus>,
}

/// Records a disk while the command runs, or for the time in the options, and writes the folder.
///
/// `stop` is called every few hundredths of a second and returns `true` to end; the command is then
/// interrupted once. The command has its own process group. Helpers end even if this process is
/// killed.
///
/// # Errors
///
/// Missing rights, tracers or command, for which [`Error::is_refusal`] is `true`; files that cannot
/// be written or read. A recording that could not begin leaves no folder.
pub fn record(
    disk: &Disk,
    options: &RecordOptions,
    stop: &dyn Fn() -> bool,
    note: &mut dyn FnMut(Note),
) -> Result<Ended> {
    if options.needs_bpftrace() && options.method == Some(Method::Tracefs) {
        return Err(Error::NeedsBpftrace);
    }
    // The owner of a process's files in /proc is its effective user.
    if fs::metadata("/proc/self").is_ok_and(|data| data.uid() != 0) {
        return Err(Error::NotRoot);
    }
    let folder = &options.folder;
    fs::create_dir(folder).map_err(|source| Error::Folder {
        path: folder.clone(),
        source,
    })?;
    if disk.has(folder) {
        note(Note::FolderIsTraced);
    }
    let log = folder.join("events.txt");
    let mut guard = Guard::start();
    let gpu = gpu_sampler(folder, &mut guard);
    let started = start(disk, options, &log, &mut guard, stop, note);
    let begun = started.is_ok() && !stop();
    let (tracer, method) = match started {
        Ok(started) if begun => started,
        // Leftovers would obstruct the next attempt.
        other => {
            let ended = other.and_then(|(tracer, _)| stop_tracer(tracer));
            end_sampler(gpu)?;
            guard.finish();
            discard(folder);
            return match ended {
                Err(error) if !stop() => Err(error),
                _ => Ok(Ended::Interrupted),
            };
        }
    };
    let before = (disk.stat()?, Reading::now());
    let work = workload(&options.command, options.length, stop, &mut guard);
    let after = (disk.stat()?, Reading::now());
    // Counted completions are now in the tracer's buffers, or never will be.
    thread::sleep(SETTLE);
    let stopped = stop_tracer(tracer);
    end_sampler(gpu)?;
    guard.finish();
    let failed_command = match work {
        Err(error @ Error::NoCommand { .. }) => {
            discard(folder);
            return Err(error);
        }
        other => other?,
    };
    let misses = stopped?;
    if method == Method::Tracefs {
        // bpftrace writes the readings itself.
        let mut log = File::options().append(true).open(&log)?;
        log.write_all(after.1.line().as_bytes())?;
    }
    put_unfinished_in_place(&log)?;
    let clocks = json!({"before": before.1.value(), "after": after.1.value()});
    let counted = after.0.since(&before.0);
    let (mut recording, manifest) = account(disk, options, method, &log, counted, misses, &clocks)?;
    recording.failed_command = failed_command;
    write_json(&folder.join("manifest.json"), &manifest)?;
    write_json(&folder.join("clock.json"), &clocks)?;
    Ok(Ended::Recorded(Box::new(recording)))
}

/// Compares the trace with the counters of the device; the JSON is the manifest.
fn account(
    disk: &Disk,
    options: &RecordOptions,
    method: Method,
    log: &Path,
    counted: DiskStat,
    misses: Option<u64>,
    clocks: &Value,
) -> Result<(Recording, Value)> {
    let mut reading = StatsOptions::default();
    reading.read.device = Some((disk.major << 20) | disk.minor);
    let stats = Stats::of_files(&[log.to_owned()], &reading)?;
    let matching = stats.newest.as_ref().map(|pairs| pairs.matching);
    let matching = matching.unwrap_or_default();
    let completions = stats.traffic.completions - matching.sequence_end_completions;
    let empty = empty_writes(log, &reading)?;
    let DiskStat {
        read_ios,
        write_ios,
        discard_ios,
        flush_ios,
        ..
    } = counted;
    let completed_on_device =
        (read_ios + write_ios + discard_ios + flush_ios).saturating_sub(empty);
    let difference = i128::from(completed_on_device) - i128::from(completions);
    let counts = stats.outcome.counts();
    let manifest = json!({
        "schema_version": 1,
        "method": method.name(),
        "device": {"name": disk.name, "number": format!("{}:{}", disk.major, disk.minor)},
        "command": options.command,
        "clocks": clocks,
        "device_counters": {
            "read_ios": read_ios, "read_bytes": counted.read_bytes,
            "write_ios": write_ios, "write_bytes": counted.write_bytes,
            "discard_ios": discard_ios, "flush_ios": flush_ios,
        },
        "recorded": {
            "issues": stats.traffic.issues,
            "bytes_issued": issued_bytes(&stats),
            "completions": completions,
            "issues_without_completion": matching.unmatched_issues,
            "sequence_end_completions": matching.sequence_end_completions,
            "lost_events": counts.lost_events,
            "malformed": counts.malformed,
        },
        "recursion_misses": misses,
        "empty_writes": empty,
        "only_comm": options.script.comm,
        "completed_on_device_minus_recorded": i64::try_from(difference).ok(),
    });
    let recording = Recording {
        method,
        issues: stats.traffic.issues,
        unfinished: matching.unmatched_issues,
        completed_on_device,
        completions,
        failed_command: None,
    };
    Ok((recording, manifest))
}

/// Counts writes without data that only request a flush: the device counts them in addition to the
/// flush, and the trace has no issue for them, only the end of their sequence. Those of writes with
/// data end at the location of the data.
fn empty_writes(log: &Path, options: &StatsOptions) -> Result<u64> {
    let count = Cell::new(0);
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

/// Returns the issued bytes, by direction.
fn issued_bytes(stats: &Stats) -> Value {
    let mut bytes = serde_json::Map::new();
    let symbols = stats.outcome.symbols.rwbs_all().iter();
    for (rwbs, operation) in symbols.zip(&stats.traffic.operations) {
        let sizes = operation.sizes.iter();
        let sum: u64 = sizes.map(|(size, count)| u64::from(*size) * count).sum();
        let name = rwbs.decode().direction.name();
        let before = bytes.get(name).and_then(Value::as_u64).unwrap_or(0);
        bytes.insert(name.to_owned(), (before + sum).into());
    }
    Value::Object(bytes)
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut out = AtomicFile::create(path)?;
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(out.commit()?)
}
