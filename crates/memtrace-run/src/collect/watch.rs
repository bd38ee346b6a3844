//! Watching a process: its output, its share of the machine, the machine beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use memtrace_labeller::PhaseBoundary;

use super::RunOptions;
use crate::doctor::system_text;
use crate::error::{Result, io_error};
use crate::validity::ObserverSample;

/// Ticks of a second in /proc; Linux has had no other value for user space.
const TICKS: f64 = 100.0;

/// Nanoseconds of the system's uptime, which is CLOCK_MONOTONIC unless the machine slept; resolution 10 ms.
pub(super) fn monotonic_ns() -> i64 {
    let seconds = system_text("/proc/uptime")
        .and_then(|text| text.split_whitespace().next().map(str::to_owned))
        .and_then(|text| text.parse::<f64>().ok())
        .unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "uptimes are below 2^63 ns")]
    let ns = (seconds * 1e9) as i64;
    ns
}

/// Phases from the marks in the order of their times; each lasts until the next.
pub(super) fn phases(
    marks: &Mutex<Vec<(String, i64)>>,
    start_ns: i64,
    end_ns: i64,
) -> Vec<PhaseBoundary> {
    let mut marks = marks.lock().map(|marks| marks.clone()).unwrap_or_default();
    if marks.is_empty() {
        return Vec::new();
    }
    if marks.first().is_some_and(|(name, _)| name == "generation") {
        marks.insert(0, ("weight_load".to_owned(), start_ns));
    }
    marks
        .iter()
        .enumerate()
        .map(|(at, (name, from))| {
            let to = marks.get(at + 1).map_or(end_ns, |(_, to)| *to);
            PhaseBoundary::new(name.clone(), *from, to)
        })
        .collect()
}

/// Threads that watch a child.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    monitor: Option<thread::JoinHandle<(Vec<ObserverSample>, Vec<f64>)>>,
    pipes: Vec<thread::JoinHandle<()>>,
}

impl Watch {
    pub(super) fn end(mut self) -> (Vec<ObserverSample>, Vec<f64>) {
        for pipe in self.pipes.drain(..) {
            // A pipe that broke has written what it could.
            let _ = pipe.join();
        }
        self.stop.store(true, Ordering::Relaxed);
        self.monitor
            .take()
            .and_then(|monitor| monitor.join().ok())
            .unwrap_or_default()
    }
}

pub(super) fn watch(
    child: &mut Child,
    raw: &Path,
    options: &RunOptions,
    marks: &Arc<Mutex<Vec<(String, i64)>>>,
) -> Result<Watch> {
    let stop = Arc::new(AtomicBool::new(false));
    let (pid, poll) = (child.id(), options.poll);
    let log = raw.join("process_monitor.csv");
    let mut log = fs::File::create(&log).map_err(io_error(&log))?;
    let stopped = Arc::clone(&stop);
    let monitor = thread::spawn(move || {
        let started = Instant::now();
        let (mut observer, mut target) = (Vec::new(), Vec::new());
        let (mut before_self, mut before_target) = (None, None);
        let _ = writeln!(log, "t_s,pid,cpu_pct,rss_mb");
        while !stopped.load(Ordering::Relaxed) {
            if let Some((cpu, rss)) = sample("self", &mut before_self) {
                observer.push(ObserverSample::new(cpu, rss, written_bytes()));
            }
            if let Some((cpu, rss)) = sample(&pid.to_string(), &mut before_target) {
                target.push(rss);
                let at = started.elapsed().as_secs_f64();
                let _ = writeln!(log, "{at:.3},{pid},{cpu:.2},{rss:.2}");
            }
            thread::sleep(poll);
        }
        (observer, target)
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
        let marks = Arc::clone(marks);
        let wanted: Vec<(String, String)> = options
            .phase_marks
            .iter()
            .filter_map(|mark| mark.split_once('='))
            .map(|(phase, text)| (phase.to_owned(), text.to_owned()))
            .collect();
        pipes.push(thread::spawn(move || {
            let mut line = Vec::new();
            let mut reader = BufReader::new(pipe);
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line);
                for (phase, mark) in &wanted {
                    if text.contains(mark)
                        && let Ok(mut marks) = marks.lock()
                        && !marks.iter().any(|(known, _)| known == phase)
                    {
                        marks.push((phase.clone(), monotonic_ns()));
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

/// CPU share since the sample before (none at the first), and resident memory in MiB.
fn sample(pid: &str, before: &mut Option<(f64, Instant)>) -> Option<(f64, f64)> {
    let stat = system_text(&format!("/proc/{pid}/stat"))?;
    // The command's name may hold anything, but it ends at the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let tick = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let used = (tick(11)? + tick(12)?) / TICKS;
    let pages = tick(21)?;
    let now = Instant::now();
    let last = before.replace((used, now));
    let (used_before, then) = last?;
    let passed = now.duration_since(then).as_secs_f64().max(1e-3);
    Some((
        (used - used_before) / passed * 100.0,
        pages * 4096.0 / 1_048_576.0,
    ))
}

fn written_bytes() -> u64 {
    system_text("/proc/self/io")
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("write_bytes:"))?;
            line.trim().parse().ok()
        })
        .unwrap_or(0)
}

/// CPU share of the whole machine over a while.
pub(super) fn baseline_pct(span: Duration) -> f64 {
    let read = || -> Option<(f64, f64)> {
        let text = system_text("/proc/stat")?;
        let fields: Vec<f64> = text
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .filter_map(|field| field.parse().ok())
            .collect();
        let idle = fields.get(3)? + fields.get(4)?;
        Some((fields.iter().sum(), idle))
    };
    let before = read();
    thread::sleep(span);
    match (before, read()) {
        (Some((all, idle)), Some((all_after, idle_after))) if all_after > all => {
            (1.0 - (idle_after - idle) / (all_after - all)) * 100.0
        }
        _ => 0.0,
    }
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
