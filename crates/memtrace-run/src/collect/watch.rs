//! Observes a process: its output, its share of the machine, and the machine itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::RunOptions;
use super::clock::monotonic_ns;
use super::marks::{Marks, OutputPattern};
use super::processes::{LOG_HEADER, MapsLog, Processes, family};
use crate::error::{Result, io_error};
use crate::validity::ObserverSample;

/// Threads that observe a child.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    monitor: Option<thread::JoinHandle<Watched>>,
    pipes: Vec<thread::JoinHandle<()>>,
}

/// Observations of the machine while the child ran.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Samples of this process.
    pub(super) observer: Vec<ObserverSample>,
    /// Resident memory of the started processes, MiB.
    pub(super) target_mb: Vec<f64>,
    /// Snapshots of the mappings of the largest process.
    pub(super) maps: Option<String>,
}

impl Watch {
    pub(super) fn end(mut self) -> Watched {
        for pipe in self.pipes.drain(..) {
            // A broken pipe has delivered what it could.
            let _ = pipe.join();
        }
        self.stop.store(true, Ordering::Relaxed);
        self.monitor
            .take()
            .and_then(|monitor| monitor.join().ok())
            .unwrap_or_default()
    }
}

/// Observes a child. With `is_profiler`, the child itself is not measured, but its descendants are.
pub(super) fn watch(
    child: &mut Child,
    raw: &Path,
    options: &RunOptions,
    marks: &Marks,
    patterns: &[OutputPattern],
    is_profiler: bool,
) -> Result<Watch> {
    let stop = Arc::new(AtomicBool::new(false));
    let (pid, poll) = (child.id(), options.poll);
    let log = raw.join("process_monitor.csv");
    let mut log = fs::File::create(&log).map_err(io_error(&log))?;
    let stopped = Arc::clone(&stop);
    let monitor = thread::spawn(move || {
        let started = Instant::now();
        let mut watched = Watched::default();
        let (mut processes, mut maps) = (Processes::default(), MapsLog::default());
        let own_pid = std::process::id();
        let _ = writeln!(log, "{LOG_HEADER}");
        while !stopped.load(Ordering::Relaxed) {
            if let Some(own) = processes.sample(own_pid)
                && let Some(cpu) = own.cpu_pct
            {
                let written = own.write_bytes.unwrap_or(0);
                let sample = ObserverSample::new(cpu, own.rss_mb, written);
                watched.observer.push(sample);
            }
            let mut rss_mb = 0.0;
            for pid in family(pid).into_iter().skip(usize::from(is_profiler)) {
                let Some(sample) = processes.sample(pid) else {
                    continue;
                };
                rss_mb += sample.rss_mb;
                maps.look(pid, sample.rss_mb, monotonic_ns());
                let _ = writeln!(log, "{}", sample.line(started.elapsed().as_secs_f64()));
            }
            if rss_mb > 0.0 {
                watched.target_mb.push(rss_mb);
            }
            thread::sleep(poll);
        }
        watched.maps = maps.text();
        watched
    });
    let mut pipes = Vec::new();
    let out = child
        .stdout
        .take()
        .map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let err = child
        .stderr
        .take()
        .map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (name, pipe) in [("engine.stdout.log", out), ("engine.stderr.log", err)] {
        let Some(pipe) = pipe else { continue };
        let path = raw.join(name);
        let mut log = fs::File::create(&path).map_err(io_error(&path))?;
        let marks = marks.clone();
        let patterns = patterns.to_vec();
        pipes.push(thread::spawn(move || {
            let mut line = Vec::new();
            let mut reader = BufReader::new(pipe);
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                for wanted in &patterns {
                    if wanted.pattern.is_match(&line) {
                        marks.begins(&wanted.phase);
                    }
                }
                let _ = log.write_all(&line);
                line.clear();
            }
        }));
    }
    Ok(Watch {
        stop,
        monitor: Some(monitor),
        pipes,
    })
}

pub(super) fn throttle_counts() -> BTreeMap<String, u64> {
    let Ok(cpus) = fs::read_dir("/sys/devices/system/cpu") else {
        return BTreeMap::new();
    };
    cpus.filter_map(std::result::Result::ok)
        .filter_map(|cpu| {
            let file = cpu.path().join("thermal_throttle/core_throttle_count");
            let count = fs::read_to_string(file).ok()?.trim().parse().ok()?;
            Some((cpu.file_name().to_string_lossy().into_owned(), count))
        })
        .collect()
}
