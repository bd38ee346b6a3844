//! `blkio collect`: records a trace while a command runs, and says what was lost.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use blkio_parser::collect::{
    DiskStat, ScriptOptions, clock_line, recursion_misses, script, tracefs_head, tracefs_settings,
    unfinished_line,
};
use blkio_parser::{Direction, EventKind, Stats, StatsOptions, pipeline};
use serde_json::{Value, json};
use shell::{Interrupt, OrExit as _, Outcome};

use crate::NO_INPUT;
use crate::args::{CollectArgs, Method};
use crate::guard::{Guard, alone, discard, signal};

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// How long the tracer may take to attach.
const ATTACH: Duration = Duration::from_secs(60);

/// How often the workload is looked at, and what it has to end in when it is told to.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);
/// The exit code of an interrupt.
const INTERRUPTED: u8 = 130;

/// Longest time without a change of the time since boot.
const TICK: Duration = Duration::from_millis(50);
/// How well both clocks are to be known together, and how often that is tried.
const CLOSE: Duration = Duration::from_micros(100);
const TRIES: usize = 5;

/// A whole disk.
struct Disk {
    name: String,
    major: u32,
    minor: u32,
}

impl Disk {
    /// The disk of a device or partition. Requests carry the whole disk's number, so a partition's would find nothing.
    fn of(path: &Path) -> anyhow::Result<Self> {
        let real = fs::canonicalize(path)
            .with_context(|| format!("{}: no such device", path.display()))?;
        let name = real
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        let class = PathBuf::from("/sys/class/block").join(name);
        let mut folder = fs::canonicalize(&class)
            .with_context(|| format!("{}: no block device", path.display()))?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let text = fs::read_to_string(folder.join("dev"))?;
        let (major, minor) = text
            .trim()
            .split_once(':')
            .with_context(|| format!("{text}: no device number"))?;
        let name = folder
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            major: major.parse()?,
            minor: minor.parse()?,
        })
    }

    fn stat(&self) -> anyhow::Result<DiskStat> {
        let path = format!("/sys/block/{}/stat", self.name);
        let text = fs::read_to_string(&path)?;
        DiskStat::parse(&text).with_context(|| format!("{path}: not the kernel's counters"))
    }
}

/// Readings of both clocks at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    boottime_ns: Option<u64>,
    realtime_ns: Option<u64>,
    uncertainty: Duration,
}

impl Reading {
    /// Reads them now, again where the machine was busy with something else.
    fn now() -> Self {
        let mut best = Self::once();
        for _ in 1..TRIES {
            if best.uncertainty < CLOSE {
                break;
            }
            let other = Self::once();
            if other.uncertainty < best.uncertainty {
                best = other;
            }
        }
        best
    }

    /// The kernel tells the time since boot in hundredths of a second. So it is read until it changes: then it is known to
    /// the time since the reading before began.
    fn once() -> Self {
        let boottime_ns = || -> Option<u64> {
            let text = fs::read_to_string("/proc/uptime").ok()?;
            let (seconds, hundredths) = text.split(' ').next()?.split_once('.')?;
            let seconds: u64 = seconds.parse().ok()?;
            let hundredths: u64 = hundredths.parse().ok()?;
            seconds
                .checked_mul(1_000_000_000)?
                .checked_add(hundredths * 10_000_000)
        };
        let began = Instant::now();
        let first = boottime_ns();
        let mut before = began;
        loop {
            let start = Instant::now();
            let boot = boottime_ns();
            let wall = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let changed = boot != first;
            if changed || began.elapsed() > TICK {
                let uncertainty = if changed { before.elapsed() } else { TICK };
                return Self {
                    boottime_ns: boot,
                    realtime_ns: u64::try_from(wall.as_nanos()).ok(),
                    uncertainty,
                };
            }
            before = start;
        }
    }

    fn value(self) -> Value {
        json!({
            "boottime_ns": self.boottime_ns,
            "realtime_ns": self.realtime_ns,
            "uncertainty_ns": u64::try_from(self.uncertainty.as_nanos()).ok(),
        })
    }

    /// As a line of a log; empty where the time since boot cannot be read.
    fn line(self) -> String {
        let readings = self.boottime_ns.zip(self.realtime_ns);
        readings.map_or(String::new(), |(boot, wall)| clock_line(boot, wall))
    }
}

/// Whether a folder lies on a disk: its own writes would be in the trace.
fn is_on(folder: &Path, disk: &Disk) -> bool {
    let Ok(data) = folder.metadata() else {
        return false;
    };
    // The number that stat gives is coded another way than the kernel's.
    let dev = data.dev();
    let major = (dev >> 8) & 0xfff | (dev >> 32) & !0xfff;
    let minor = dev & 0xff | (dev >> 12) & !0xff;
    let link = format!("/sys/dev/block/{major}:{minor}");
    fs::canonicalize(link).is_ok_and(|path| {
        path.components()
            .any(|c| c.as_os_str() == disk.name.as_str())
    })
}

/// A running tracer.
enum Tracer {
    Bpftrace(Child),
    Tracefs {
        instance: PathBuf,
        stop: Arc<AtomicBool>,
        copier: Option<thread::JoinHandle<anyhow::Result<()>>>,
    },
}

pub(crate) fn run(args: &CollectArgs) -> anyhow::Result<Outcome> {
    let disk = Disk::of(&args.device).or_exit(NO_INPUT)?;
    if args.print_script {
        let mut out = shell::Output::stdout();
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
    if is_on(&args.out, &disk) {
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
    let mut out = shell::Output::file(args.out.join("manifest.json"))?;
    serde_json::to_writer_pretty(&mut out, &manifest)?;
    writeln!(out)?;
    out.finish()?;
    let mut clock = shell::Output::file(args.out.join("clock.json"))?;
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

fn start(
    args: &CollectArgs,
    disk: &Disk,
    log: &Path,
    guard: &mut Guard,
    interrupt: &Interrupt,
) -> anyhow::Result<(Tracer, &'static str)> {
    let bpftrace_only =
        args.script.events || args.script.with_submitter || args.script.comm.is_some();
    if bpftrace_only && args.method == Some(Method::Tracefs) {
        return Err(shell::usage(
            "--events, --with-submitter and --comm are of the bpftrace script: leave --method tracefs out",
        ));
    }
    // bpftrace finds tracepoints there, too.
    let tracefs = tracefs()?;
    if args.method != Some(Method::Tracefs) {
        match start_bpftrace(disk, log, args, guard, interrupt) {
            Ok(tracer) => return Ok((tracer, "bpftrace")),
            Err(error)
                if bpftrace_only
                    || args.method == Some(Method::Bpftrace)
                    || interrupt.has_come() =>
            {
                return Err(error);
            }
            Err(error) => args
                .verbosity
                .note(format!("blkio: no bpftrace ({error:#}): using tracefs")),
        }
    }
    Ok((start_tracefs(disk, log, tracefs, guard)?, "tracefs"))
}

/// Where tracefs is.
fn tracefs() -> anyhow::Result<&'static Path> {
    let mut roots = TRACEFS.iter().map(Path::new);
    let root = roots.find(|root| root.join("instances").is_dir());
    let root =
        root.context("no tracefs: mount it with `mount -t tracefs tracefs /sys/kernel/tracing`")?;
    anyhow::ensure!(
        root.join("events/block/block_rq_issue").is_dir(),
        "this kernel has no block tracepoints (CONFIG_BLK_DEV_IO_TRACE): nothing can be recorded"
    );
    Ok(root)
}

fn script_options(args: &CollectArgs) -> ScriptOptions {
    ScriptOptions {
        events: args.script.events,
        with_submitter: args.script.with_submitter,
        comm: args.script.comm.clone(),
    }
}

fn start_bpftrace(
    disk: &Disk,
    log: &Path,
    args: &CollectArgs,
    guard: &mut Guard,
    interrupt: &Interrupt,
) -> anyhow::Result<Tracer> {
    let program = args.out.join("blkio-collect.bt");
    fs::write(
        &program,
        script(disk.major, disk.minor, &script_options(args)),
    )?;
    let file = File::create(log)?;
    let errors = file.try_clone()?;
    let mut command = Command::new("bpftrace");
    command
        .arg(&program)
        .env("BPFTRACE_PERF_RB_PAGES", "1024")
        .env("BPFTRACE_MAP_KEYS_MAX", "65536")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors);
    // The kernel's counts are read before the tracer ends.
    alone(&mut command);
    let mut child = command
        .spawn()
        .context("cannot start bpftrace: install it, or record with --method tracefs")?;
    guard.process(&child);
    let started = Instant::now();
    loop {
        let text = fs::read(log)?;
        // The first line of the program comes once everything is attached.
        if text.windows(9).any(|w| w == b"# device:") {
            return Ok(Tracer::Bpftrace(child));
        }
        if let Some(status) = child.try_wait()? {
            let text = String::from_utf8_lossy(&text);
            let mut lines = text.lines();
            let last = lines.clone().rfind(|l| !l.trim().is_empty());
            // What follows an error is the place in the program.
            let told = lines.rfind(|l| l.contains("ERROR:")).or(last);
            bail!("bpftrace ended with {status}: {}", told.unwrap_or_default());
        }
        let is_late = started.elapsed() > ATTACH;
        if is_late || interrupt.has_come() {
            child.kill()?;
            child.wait()?;
            if is_late {
                bail!("bpftrace did not attach within {} s", ATTACH.as_secs());
            }
            bail!("interrupted while bpftrace attached");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn start_tracefs(
    disk: &Disk,
    log: &Path,
    root: &Path,
    guard: &mut Guard,
) -> anyhow::Result<Tracer> {
    let mut out = File::create(log)?;
    out.write_all(tracefs_head(disk.major, disk.minor).as_bytes())?;
    out.write_all(Reading::now().line().as_bytes())?;
    let instance = root
        .join("instances")
        .join(format!("blkio-{}", std::process::id()));
    fs::create_dir(&instance).context("cannot make a tracefs instance: are you root?")?;
    guard.instance(&instance);
    for (file, text) in tracefs_settings(disk.major, disk.minor) {
        let written = fs::write(instance.join(&file), &text);
        if let Err(error) = written {
            // Best effort: the reason for leaving is the other error.
            let _ = fs::remove_dir(&instance);
            return Err(error).with_context(|| format!("{file}: cannot write `{text}`"));
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let copier = {
        let stop = Arc::clone(&stop);
        let pipe = instance.join("trace_pipe");
        thread::spawn(move || -> anyhow::Result<()> {
            use std::os::unix::fs::OpenOptionsExt as _;
            /// `O_NONBLOCK` of Linux: an empty pipe must not keep the thread.
            const NONBLOCK: i32 = 0o4000;
            let mut pipe = File::options()
                .read(true)
                .custom_flags(NONBLOCK)
                .open(pipe)?;
            let mut buffer = vec![0; 1 << 16];
            loop {
                let ending = stop.load(Ordering::Acquire);
                match pipe.read(&mut buffer) {
                    Ok(0) if ending => return Ok(()),
                    Ok(0) => thread::sleep(Duration::from_millis(5)),
                    Ok(count) => out.write_all(buffer.get(..count).unwrap_or_default())?,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        if ending {
                            return Ok(());
                        }
                        thread::sleep(Duration::from_millis(5));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        })
    };
    Ok(Tracer::Tracefs {
        instance,
        stop,
        copier: Some(copier),
    })
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

/// Samples GPU utilisation beside the trace, where there is a GPU.
fn gpu_sampler(out: &Path, guard: &mut Guard) -> Option<Child> {
    let file = File::create(out.join("gpu.csv")).ok()?;
    let mut command = Command::new("nvidia-smi");
    command
        .args([
            "--query-gpu=timestamp,index,utilization.gpu",
            "--format=csv",
            "-lms",
            "200",
        ])
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null());
    alone(&mut command);
    let child = command.spawn();
    match &child {
        Ok(child) => guard.process(child),
        // No GPU: no file that says nothing.
        Err(_) => _ = fs::remove_file(out.join("gpu.csv")),
    }
    child.ok()
}

fn end_sampler(gpu: Option<Child>) -> anyhow::Result<()> {
    if let Some(mut gpu) = gpu {
        gpu.kill()?;
        gpu.wait()?;
    }
    Ok(())
}

/// Moves the requests whose completion was skipped from the tracer's closing dump to where they were issued, as `I` lines. At
/// the end of the log they would lie far out of order.
fn put_unfinished_in_place(log: &Path) -> anyhow::Result<()> {
    let open = |path: &Path| -> anyhow::Result<BufReader<File>> {
        Ok(BufReader::with_capacity(1 << 20, File::open(path)?))
    };
    let mut unfinished = Vec::new();
    for line in open(log)?.split(b'\n') {
        unfinished.extend(unfinished_line(&line?));
    }
    if unfinished.is_empty() {
        return Ok(());
    }
    unfinished.sort();
    let mut left = unfinished.iter().peekable();
    let mut out = shell::Output::file(log)?;
    for line in open(log)?.split(b'\n') {
        let line = line?;
        if unfinished_line(&line).is_some() {
            continue;
        }
        if let Some(complete_ns) = complete_ns(&line) {
            while let Some((_, text)) = left.next_if(|(issue_ns, _)| *issue_ns <= complete_ns) {
                out.write_all(text.as_bytes())?;
            }
        }
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    for (_, text) in left {
        out.write_all(text.as_bytes())?;
    }
    out.finish()
}

/// Time of completion in an `R` line.
fn complete_ns(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line.strip_prefix(b"R,")?).ok()?;
    text.split(',').nth(1)?.trim().parse().ok()
}

/// How what was to be recorded went.
enum Work {
    /// To its end, or to an interrupt; an error is that of the command.
    Ended(anyhow::Result<()>),
    /// The command cannot be run.
    NotStarted(anyhow::Error),
}

/// Runs the command, or waits; an interrupt ends both.
fn workload(args: &CollectArgs, interrupt: &Interrupt, guard: &mut Guard) -> Work {
    let Some((program, rest)) = args.command.split_first() else {
        let length = Duration::from_secs_f64(args.seconds.clamp(0.0, 86_400.0));
        let started = Instant::now();
        while started.elapsed() < length && !interrupt.has_come() {
            thread::sleep(POLL);
        }
        return Work::Ended(Ok(()));
    };
    let mut command = Command::new(program);
    command.args(rest);
    if std::io::stdin().is_terminal() {
        // A group in the background that reads from the terminal is stopped.
        command.stdin(Stdio::null());
    }
    alone(&mut command);
    match command.spawn() {
        Ok(mut child) => {
            guard.group(&child);
            Work::Ended(wait(&mut child, program, interrupt))
        }
        Err(error) => {
            Work::NotStarted(anyhow::Error::new(error).context(format!("cannot start {program}")))
        }
    }
}

/// Waits for the command; an interrupt is handed on to it, once.
fn wait(child: &mut Child, program: &str, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            // How a command ends that was told to end is its own affair.
            anyhow::ensure!(
                status.success() || told.is_some(),
                "{program} ended with {status}"
            );
            return Ok(());
        }
        let group = format!("-{}", child.id());
        match told {
            None if interrupt.has_come() => {
                told = Some(Instant::now());
                signal("INT", &group);
            }
            Some(since) if since.elapsed() > PATIENCE => {
                told = Some(Instant::now());
                signal("KILL", &group);
            }
            _ => {}
        }
        thread::sleep(POLL);
    }
}

/// Ends the tracer; gives the number of program runs that the kernel left out.
fn stop(tracer: Tracer) -> anyhow::Result<Option<u64>> {
    match tracer {
        Tracer::Bpftrace(mut child) => {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "bpftrace ended with {status} before it was told to: what it wrote until then is kept"
                );
            }
            let folder = PathBuf::from(format!("/proc/{}/fdinfo", child.id()));
            let mut texts = Vec::new();
            for entry in fs::read_dir(&folder)?.flatten() {
                let file = File::open(entry.path());
                if let Ok(file) = file {
                    let mut text = String::new();
                    for line in BufReader::new(file).lines().map_while(Result::ok) {
                        text.push_str(&line);
                        text.push('\n');
                    }
                    texts.push(text);
                }
            }
            let misses = recursion_misses(texts.iter().map(String::as_str));
            // An interrupt lets it print what is left and its last lines.
            signal("INT", &child.id().to_string());
            child.wait()?;
            Ok(Some(misses))
        }
        Tracer::Tracefs {
            instance,
            stop,
            mut copier,
        } => {
            fs::write(instance.join("events/block/enable"), "0")?;
            stop.store(true, Ordering::Release);
            let copied = copier.take().map(thread::JoinHandle::join);
            let removed = fs::remove_dir(&instance);
            match copied {
                Some(Ok(result)) => result?,
                _ => bail!("the thread that copies the trace died"),
            }
            removed.with_context(|| format!("{}: cannot remove", instance.display()))?;
            Ok(None)
        }
    }
}
