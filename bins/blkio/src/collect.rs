//! `blkio collect`: records a trace while a command runs, and says what was lost.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use blkio_parser::collect::{DiskStat, recursion_misses, script, tracefs_settings};
use blkio_parser::{Stats, StatsOptions};
use serde_json::{Value, json};
use shell::Outcome;

use crate::args::{CollectArgs, Method};

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// How long the tracer may take to attach.
const ATTACH: Duration = Duration::from_secs(60);

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

/// Readings of both clocks, one right after the other.
fn clocks() -> Value {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime.split(' ').next().and_then(|s| s.parse::<f64>().ok());
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    json!({
        "boottime_s": seconds,
        "boottime_resolution_ns": 10_000_000,
        "realtime_ns": u64::try_from(wall.as_nanos()).ok(),
    })
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
    let disk = Disk::of(&args.device)?;
    if args.print_script {
        let mut out = shell::Output::stdout();
        out.write_all(script(disk.major, disk.minor, false).as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
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
    let (tracer, method) = start(args, &disk, &log)?;
    let before = (disk.stat()?, clocks());
    let status = workload(args);
    let after = (disk.stat()?, clocks());
    // Completions that were counted are in the tracer's buffers by now or never.
    thread::sleep(Duration::from_millis(300));
    let misses = stop(tracer)?;
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
    let on_device = counted.read_ios + counted.write_ios + counted.discard_ios + counted.flush_ios;
    let counts = stats.outcome.counts();
    let manifest = json!({
        "schema_version": 1,
        "method": method,
        "device": {"name": disk.name, "number": format!("{}:{}", disk.major, disk.minor)},
        "command": args.command,
        "clocks": {"before": before.1, "after": after.1},
        "device_counters": {
            "read_ios": counted.read_ios, "read_bytes": counted.read_bytes,
            "write_ios": counted.write_ios, "write_bytes": counted.write_bytes,
            "discard_ios": counted.discard_ios, "flush_ios": counted.flush_ios,
        },
        "recorded": {
            "issues": stats.traffic.issues,
            "completions": recorded,
            "sequence_end_completions": matching.sequence_end_completions,
            "lost_events": counts.lost_events,
            "malformed": counts.malformed,
        },
        "recursion_misses": misses,
        "completed_on_device_minus_recorded": i64::try_from(i128::from(on_device) - i128::from(recorded)).ok(),
    });
    let mut out = shell::Output::file(args.out.join("manifest.json"))?;
    serde_json::to_writer_pretty(&mut out, &manifest)?;
    writeln!(out)?;
    out.finish()?;
    args.verbosity.note(format!(
        "blkio: {recorded} requests recorded, {on_device} completed on the device, {} skipped by the kernel",
        misses.map_or("unknown".to_owned(), |m| m.to_string())
    ));
    status?;
    Ok(Outcome::Fine)
}

fn start(args: &CollectArgs, disk: &Disk, log: &Path) -> anyhow::Result<(Tracer, &'static str)> {
    if args.method != Some(Method::Tracefs) {
        match start_bpftrace(disk, log, &args.out) {
            Ok(tracer) => return Ok((tracer, "bpftrace")),
            Err(error) if args.method == Some(Method::Bpftrace) => return Err(error),
            Err(error) => args
                .verbosity
                .note(format!("blkio: no bpftrace ({error:#}): using tracefs")),
        }
    }
    Ok((start_tracefs(disk, log)?, "tracefs"))
}

fn start_bpftrace(disk: &Disk, log: &Path, out: &Path) -> anyhow::Result<Tracer> {
    let program = out.join("blkio-collect.bt");
    fs::write(&program, script(disk.major, disk.minor, false))?;
    let file = File::create(log)?;
    let errors = file.try_clone()?;
    let mut child = Command::new("bpftrace")
        .arg(&program)
        .env("BPFTRACE_PERF_RB_PAGES", "1024")
        .env("BPFTRACE_MAP_KEYS_MAX", "65536")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .context("cannot start bpftrace")?;
    let started = Instant::now();
    loop {
        let text = fs::read(log)?;
        // The first line of the program comes once everything is attached.
        if text.windows(9).any(|w| w == b"# device:") {
            return Ok(Tracer::Bpftrace(child));
        }
        if let Some(status) = child.try_wait()? {
            let text = String::from_utf8_lossy(&text);
            let last = text
                .lines()
                .rfind(|l| !l.trim().is_empty())
                .unwrap_or_default();
            bail!("bpftrace ended with {status}: {last}");
        }
        if started.elapsed() > ATTACH {
            child.kill()?;
            child.wait()?;
            bail!("bpftrace did not attach within {} s", ATTACH.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn start_tracefs(disk: &Disk, log: &Path) -> anyhow::Result<Tracer> {
    let root = TRACEFS
        .iter()
        .map(Path::new)
        .find(|root| root.join("instances").is_dir())
        .context("no tracefs: mount it with `mount -t tracefs tracefs /sys/kernel/tracing`")?;
    let instance = root
        .join("instances")
        .join(format!("blkio-{}", std::process::id()));
    fs::create_dir(&instance).context("cannot make a tracefs instance: are you root?")?;
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
        let mut out = File::create(log)?;
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

/// Runs the command, or waits.
fn workload(args: &CollectArgs) -> anyhow::Result<()> {
    match args.command.split_first() {
        None => {
            thread::sleep(Duration::from_secs_f64(args.seconds.clamp(0.0, 86_400.0)));
            Ok(())
        }
        Some((program, rest)) => {
            let status = Command::new(program)
                .args(rest)
                .status()
                .with_context(|| format!("cannot start {program}"))?;
            anyhow::ensure!(status.success(), "{program} ended with {status}");
            Ok(())
        }
    }
}

/// Ends the tracer; gives the number of program runs that the kernel left out.
fn stop(tracer: Tracer) -> anyhow::Result<Option<u64>> {
    match tracer {
        Tracer::Bpftrace(mut child) => {
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
            Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status()?;
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
