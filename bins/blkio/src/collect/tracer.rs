//! bpftrace with the shipped script, or tracefs where there is none.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use blkio_parser::collect::{
    ScriptOptions, recursion_misses, script, tracefs_head, tracefs_settings,
};
use cli::Interrupt;

use super::disk::Disk;
use super::reading::Reading;
use crate::args::{CollectArgs, Method};
use crate::guard::{Guard, alone, signal};

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// How long the tracer may take to attach.
const ATTACH: Duration = Duration::from_secs(60);

/// A running tracer.
pub(super) enum Tracer {
    Bpftrace(Child),
    Tracefs {
        instance: PathBuf,
        stop: Arc<AtomicBool>,
        copier: Option<thread::JoinHandle<anyhow::Result<()>>>,
    },
}

pub(super) fn start(
    args: &CollectArgs,
    disk: &Disk,
    log: &Path,
    guard: &mut Guard,
    interrupt: &Interrupt,
) -> anyhow::Result<(Tracer, &'static str)> {
    let bpftrace_only =
        args.script.events || args.script.with_submitter || args.script.comm.is_some();
    if bpftrace_only && args.method == Some(Method::Tracefs) {
        return Err(cli::usage(
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

pub(super) fn script_options(args: &CollectArgs) -> ScriptOptions {
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

/// Ends the tracer; gives the number of program runs that the kernel left out.
pub(super) fn stop(tracer: Tracer) -> anyhow::Result<Option<u64>> {
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
