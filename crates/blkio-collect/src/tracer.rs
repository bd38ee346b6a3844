//! Starts and stops bpftrace with the shipped program, or an instance of tracefs.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock_reading::Reading;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::guard::{Guard, alone, signal};
use crate::recording::{Note, RecordOptions};
use crate::script::{recursion_misses, script, tracefs_head, tracefs_settings};

/// Method of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The bpftrace program.
    Bpftrace,
    /// An instance of tracefs.
    Tracefs,
}

impl Method {
    /// Returns its name, as in the manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpftrace => "bpftrace",
            Self::Tracefs => "tracefs",
        }
    }
}

/// Mount points of tracefs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Maximum time for the tracer to attach.
const ATTACH: Duration = Duration::from_secs(60);

/// A running tracer.
pub(crate) enum Tracer {
    Bpftrace(Child),
    Tracefs {
        instance: PathBuf,
        stop: Arc<AtomicBool>,
        copier: Option<thread::JoinHandle<Result<()>>>,
    },
}

/// Starts bpftrace, or tracefs if bpftrace does not work and is not required.
pub(crate) fn start(
    disk: &Disk,
    options: &RecordOptions,
    log: &Path,
    guard: &mut Guard,
    stop: &dyn Fn() -> bool,
    note: &mut dyn FnMut(Note),
) -> Result<(Tracer, Method)> {
    // bpftrace finds its tracepoints there, too.
    let tracefs = tracefs()?;
    if options.method != Some(Method::Tracefs) {
        let needs_it = options.method == Some(Method::Bpftrace) || options.needs_bpftrace();
        match start_bpftrace(disk, log, options, guard, stop) {
            Ok(tracer) => return Ok((tracer, Method::Bpftrace)),
            Err(error) if needs_it || stop() => return Err(error),
            Err(error) => note(Note::NoBpftrace(crate::error::chain(&error))),
        }
    }
    Ok((start_tracefs(disk, log, tracefs, guard)?, Method::Tracefs))
}

/// Finds the mount of tracefs.
fn tracefs() -> Result<&'static Path> {
    let mut roots = TRACEFS.iter().map(Path::new);
    let root = roots.find(|root| root.join("instances").is_dir());
    let root = root.ok_or(Error::NoTracefs)?;
    if !root.join("events/block/block_rq_issue").is_dir() {
        return Err(Error::NoTracepoints);
    }
    Ok(root)
}

fn start_bpftrace(
    disk: &Disk,
    log: &Path,
    options: &RecordOptions,
    guard: &mut Guard,
    stop: &dyn Fn() -> bool,
) -> Result<Tracer> {
    let program = options.folder.join("blkio-collect.bt");
    fs::write(&program, script(disk.major, disk.minor, &options.script))?;
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
    let mut child = command.spawn().map_err(Error::NoBpftrace)?;
    guard.process(&child);
    let started = Instant::now();
    loop {
        let text = fs::read(log)?;
        // The program prints its first line once everything is attached.
        if text.windows(9).any(|w| w == b"# device:") {
            return Ok(Tracer::Bpftrace(child));
        }
        if let Some(status) = child.try_wait()? {
            let text = String::from_utf8_lossy(&text);
            let mut lines = text.lines();
            let last = lines.clone().rfind(|l| !l.trim().is_empty());
            // The lines after an error show its position in the program.
            let told = lines.rfind(|l| l.contains("ERROR:")).or(last);
            return Err(Error::BpftraceEnded {
                status,
                said: told.unwrap_or_default().to_owned(),
            });
        }
        let is_late = started.elapsed() > ATTACH;
        if is_late || stop() {
            child.kill()?;
            child.wait()?;
            let seconds = ATTACH.as_secs();
            return Err(if is_late {
                Error::Late { seconds }
            } else {
                Error::Interrupted
            });
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn start_tracefs(disk: &Disk, log: &Path, root: &Path, guard: &mut Guard) -> Result<Tracer> {
    let mut out = File::create(log)?;
    out.write_all(tracefs_head(disk.major, disk.minor).as_bytes())?;
    out.write_all(Reading::now().line().as_bytes())?;
    let instance = root
        .join("instances")
        .join(format!("blkio-{}", std::process::id()));
    let failed = |what: String| move |source| Error::Tracefs { what, source };
    let what = "cannot make a tracefs instance (it needs root)";
    fs::create_dir(&instance).map_err(failed(what.to_owned()))?;
    guard.instance(&instance);
    for (file, text) in tracefs_settings(disk.major, disk.minor) {
        let written = fs::write(instance.join(&file), &text);
        if let Err(error) = written {
            // Best effort: the other error is reported.
            let _ = fs::remove_dir(&instance);
            return Err(failed(format!("{file}: cannot write `{text}`"))(error));
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let copier = {
        let stop = Arc::clone(&stop);
        let pipe = instance.join("trace_pipe");
        thread::spawn(move || -> Result<()> {
            use std::os::unix::fs::OpenOptionsExt as _;
            /// `O_NONBLOCK` of Linux: an empty pipe must not block the thread.
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

/// Ends the tracer; returns the number of program runs that the kernel skipped.
pub(crate) fn stop(tracer: Tracer) -> Result<Option<u64>> {
    match tracer {
        Tracer::Bpftrace(mut child) => {
            if let Some(status) = child.try_wait()? {
                let said = "before it was told to; what it wrote until then is kept".to_owned();
                return Err(Error::BpftraceEnded { status, said });
            }
            let folder = PathBuf::from(format!("/proc/{}/fdinfo", child.id()));
            let mut texts = Vec::new();
            for entry in fs::read_dir(&folder)?.flatten() {
                // A descriptor that was closed meanwhile is not a program.
                texts.extend(fs::read_to_string(entry.path()));
            }
            let misses = recursion_misses(texts.iter().map(String::as_str));
            // After an interrupt it prints the remaining data and its last lines.
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
                _ => return Err(Error::CopierDied),
            }
            removed.map_err(|source| Error::Tracefs {
                what: format!("{}: cannot remove", instance.display()),
                source,
            })?;
            Ok(None)
        }
    }
}
