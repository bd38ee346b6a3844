//! Starting an engine and collecting while it runs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use byte_source::OpenOptions;
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{InputOptions, LabelOptions, Names, PhaseBoundary, Phases, RowStream};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::doctor::{facility, has_memray, on_path, system_text, temperature_c};
use crate::error::{Error, Result, io_error};
use crate::experiment::{Experiment, PlannedRun};
use crate::export::RunExporter;
use crate::manifest::{write_json, write_manifest};
use crate::pipeline::Steps;
use crate::validity::{
    Disturbance, ObserverEffect, ObserverSample, ObserverVersion, ValidityLimits, classify,
    throttle_events,
};

/// Least free space before a collection.
const NEEDED_BYTES: u64 = 1 << 30;
/// Ticks of a second in /proc; Linux has had no other value for user space.
const TICKS: f64 = 100.0;

/// How to collect.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Accesses for each sample.
    pub period: u64,
    /// What collects; the first that can when absent: `perf`, `pagefaults`, `memray`, `monitor`.
    pub collector: Option<String>,
    /// What the collector may fall back to, in order, when `collector` is absent.
    pub hierarchy: Vec<String>,
    /// `PHASE=TEXT`: the phase begins with the first line of output that contains the text.
    pub phase_marks: Vec<String>,
    /// Interval of the process monitor.
    pub poll: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            period: 4000,
            collector: None,
            hierarchy: ["perf", "pagefaults", "memray", "monitor"]
                .map(str::to_owned)
                .to_vec(),
            phase_marks: Vec::new(),
            poll: Duration::from_millis(100),
        }
    }
}

/// What a run was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunResult {
    /// Its name.
    pub run_id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What collected.
    pub collector: String,
    /// What was tried before, and why it could not.
    pub fallback_reason: Option<String>,
    /// Exit code of the command; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Rows of the trace; `None` when there is no trace.
    pub rows: Option<u64>,
    /// Class of validity.
    pub validity: &'static str,
}

impl RunResult {
    /// Whether the command failed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.exit_code != Some(0)
    }

    /// The result as a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let rows = self
            .rows
            .map_or("no trace".to_owned(), |rows| format!("{rows} rows"));
        format!(
            "{}: {} by {}, {}, in {}",
            self.run_id,
            rows,
            self.collector,
            self.validity,
            self.folder.display()
        )
    }
}

/// Whether a collector can run here, or what it lacks.
fn lacking(collector: &str) -> Option<&'static str> {
    match collector {
        "perf" | "perf_mem" if !on_path("perf") => Some("perf is not on PATH"),
        "perf" | "perf_mem" if facility().is_none() => Some("no memory-sampling counters"),
        "pagefaults" if !on_path("perf") => Some("perf is not on PATH"),
        "memray" if !has_memray() => Some("memray is not installed"),
        "monitor" | "process_monitor" if !Path::new("/proc/self/stat").exists() => {
            Some("there is no /proc")
        }
        "perf" | "perf_mem" | "pagefaults" | "memray" | "monitor" | "process_monitor" => None,
        _ => Some("there is no such collector"),
    }
}

/// The first collector that can run, and why those before it cannot.
fn choose(options: &RunOptions) -> Result<(String, Option<String>)> {
    let wanted = match &options.collector {
        Some(one) => vec![one.clone()],
        None => options.hierarchy.clone(),
    };
    let mut reasons = Vec::new();
    for collector in wanted {
        match lacking(&collector) {
            None => {
                let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
                return Ok((collector, reason));
            }
            Some(reason) => reasons.push(format!("{collector}: {reason}")),
        }
    }
    Err(Error::NoCollector {
        what: reasons.join("; "),
    })
}

/// Bytes free at the nearest existing ancestor, by `df`.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let place = path.ancestors().find(|place| place.exists())?;
    let output = Command::new("df")
        .args(["-B1", "--output=avail"])
        .arg(if place.as_os_str().is_empty() {
            Path::new(".")
        } else {
            place
        })
        .output()
        .ok()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .nth(1)?
        .trim()
        .parse()
        .ok()
}

/// Nanoseconds of the system's uptime, which is CLOCK_MONOTONIC unless the machine slept; resolution 10 ms.
fn monotonic_ns() -> i64 {
    let seconds = system_text("/proc/uptime")
        .and_then(|text| text.split_whitespace().next().map(str::to_owned))
        .and_then(|text| text.parse::<f64>().ok())
        .unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "uptimes are below 2^63 ns")]
    let ns = (seconds * 1e9) as i64;
    ns
}

/// Runs a command, collects, and makes its folder.
///
/// # Errors
///
/// [`Error::NoCollector`], [`Error::DiskFull`], [`Error::Start`], and what reading and writing say.
pub fn run_command(command: &[String], folder: &Path, options: &RunOptions) -> Result<RunResult> {
    let run_id = folder
        .file_name()
        .map_or("run".to_owned(), |name| name.to_string_lossy().into_owned());
    collect(command, folder, &run_id, options, Map::new())
}

/// Runs all runs of an experiment, one after the other.
///
/// # Errors
///
/// As [`run_command`]; the first run that fails to start ends it.
pub fn run_experiment(experiment: &Experiment, options: &RunOptions) -> Result<Vec<RunResult>> {
    let config = &experiment.config;
    let mut options = options.clone();
    options.period = config.collector.perf_mem.sample_period;
    options.poll = Duration::from_millis(config.collector.process_monitor.poll_interval_ms.max(1));
    options.hierarchy = [
        Some(config.collector.primary.clone()),
        config.collector.fallback.clone(),
        config.collector.fallback_2.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    experiment
        .plan()
        .iter()
        .map(|run| {
            let command = engine_command(experiment, run)?;
            let mut metadata = Map::new();
            metadata.insert(
                "generation".to_owned(),
                json!({
                    "context_length": run.context_length,
                    "batch_size": run.batch_size,
                    "output_tokens": run.output_tokens,
                    "rep_index": run.rep_index,
                }),
            );
            let model = config.models.get(run.model_index);
            metadata.insert(
                "model".to_owned(),
                json!({"id": run.model_id, "hf_repo": model.and_then(|model| model.hf_repo.clone())}),
            );
            collect(&command, &run.output_dir, &run.run_id, &options, metadata)
        })
        .collect()
}

/// The command of an engine for a run.
fn engine_command(experiment: &Experiment, run: &PlannedRun) -> Result<Vec<String>> {
    let model = experiment.config.models.get(run.model_index);
    let path = model.and_then(|model| model.path.clone());
    let prompt = experiment
        .config
        .prompts
        .as_ref()
        .and_then(|prompts| fs::read_to_string(&prompts.source).ok())
        .unwrap_or_else(|| "Tell the history of the computer's memory.".to_owned());
    let missing = |what: &str| Error::NoCollector {
        what: format!("engine: {what} is not on PATH"),
    };
    let words: Vec<String> = if run.engine == "llamacpp" {
        let program = ["llama-cli", "llama"]
            .into_iter()
            .find(|program| on_path(program))
            .ok_or_else(|| missing("llama-cli"))?;
        [
            program,
            "-m",
            &path.unwrap_or_default(),
            "-p",
            &prompt,
            "-n",
            &run.output_tokens.to_string(),
            "-c",
            &run.context_length.to_string(),
            "--no-display-prompt",
        ]
        .map(str::to_owned)
        .to_vec()
    } else {
        if !on_path("vllm") {
            return Err(missing("vllm"));
        }
        let name = model
            .and_then(|model| model.hf_repo.clone())
            .or(path)
            .unwrap_or_default();
        let input = run.context_length.saturating_sub(run.output_tokens).max(1);
        [
            "vllm",
            "bench",
            "latency",
            "--model",
            &name,
            "--input-len",
            &input.to_string(),
            "--output-len",
            &run.output_tokens.to_string(),
            "--batch-size",
            &run.batch_size.to_string(),
            "--max-model-len",
            &run.context_length.to_string(),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    Ok(words)
}

/// The command line of a collector around that of the engine.
fn wrapped(collector: &str, command: &[String], raw: &Path, options: &RunOptions) -> Vec<String> {
    let file = |name: &str| raw.join(name).display().to_string();
    let mut words: Vec<String> = match collector {
        "perf" | "perf_mem" => {
            let events: &[&str] = match facility() {
                Some("amd") => &["ibs_op//"],
                Some("arm") => &["arm_spe_0/load_filter=1,store_filter=1,min_latency=30/"],
                _ => &["cpu/mem-loads,ldlat=20/P", "cpu/mem-stores/P"],
            };
            let mut words: Vec<String> = ["perf", "record", "-d", "-W", "-k", "CLOCK_MONOTONIC"]
                .map(str::to_owned)
                .to_vec();
            words.extend(["-c".to_owned(), options.period.to_string()]);
            for event in events {
                words.extend(["-e".to_owned(), (*event).to_owned()]);
            }
            words.extend(["-o".to_owned(), file("perf.data"), "--".to_owned()]);
            words
        }
        "pagefaults" => [
            "perf",
            "record",
            "-e",
            "page-faults",
            "-c",
            "1",
            "-d",
            "-k",
            "CLOCK_MONOTONIC",
            "-o",
            &file("perf.data"),
            "--",
        ]
        .map(str::to_owned)
        .to_vec(),
        "memray" => ["memray", "run", "--force", "-o", &file("memray.bin")]
            .map(str::to_owned)
            .to_vec(),
        _ => Vec::new(),
    };
    words.extend_from_slice(command);
    words
}

fn collect(
    command: &[String],
    folder: &Path,
    run_id: &str,
    options: &RunOptions,
    mut metadata: Map<String, Value>,
) -> Result<RunResult> {
    let (collector, fallback_reason) = choose(options)?;
    if let Some(free) = free_bytes(folder)
        && free < NEEDED_BYTES
    {
        return Err(Error::DiskFull {
            folder: folder.display().to_string(),
            free_bytes: free,
            needed_bytes: NEEDED_BYTES,
        });
    }
    let raw = folder.join("raw");
    fs::create_dir_all(&raw).map_err(io_error(&raw))?;
    let baseline = baseline_pct(Duration::from_secs(1));
    let throttled = throttle_counts();
    let words = wrapped(&collector, command, &raw, options);
    let (program, arguments) = words.split_first().ok_or_else(|| Error::NoCollector {
        what: "no command was given".to_owned(),
    })?;
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| Error::Start {
            command: program.clone(),
            source,
        })?;
    let start_ns = monotonic_ns();
    let marks = Arc::new(Mutex::new(Vec::new()));
    let watched = watch(&mut child, &raw, options, &marks)?;
    let status = child.wait().map_err(io_error(&raw))?;
    let end_ns = monotonic_ns();
    let (observer, target) = watched.end();
    let phases = phases(&marks, start_ns, end_ns);
    write_json(
        &raw.join("phases.json"),
        &json!({"phase_boundaries": phases.iter().map(|p| json!({"phase": p.phase, "start_ns": p.start_ns, "end_ns": p.end_ns})).collect::<Vec<_>>(), "source": "output"}),
    )?;

    let effect = ObserverEffect::new(
        &observer,
        &target,
        throttle_events(&throttled, &throttle_counts()),
        baseline,
        ObserverVersion::Mrm023,
    );
    let seen = Disturbance {
        peak_temperature_c: temperature_c(),
        ..effect.disturbance(ObserverVersion::Mrm023)
    };
    let limits = ValidityLimits::default();
    let (class, reasons) = classify(&seen, &limits);
    metadata.insert("machine_id".to_owned(), machine_slug().into());
    metadata.insert(
        "collector".to_owned(),
        json!({"type": collector, "fallback_reason": fallback_reason, "command": words, "sample_period": options.period}),
    );
    metadata.insert("observer_effect_summary".to_owned(), json!(effect));
    metadata.insert(
        "thermal".to_owned(),
        json!({"run_validity": class.name(), "reasons": reasons, "limits": limits, "peak_temp_c": seen.peak_temperature_c, "throttle_events": seen.throttle_events}),
    );
    metadata.insert(
        "timing".to_owned(),
        json!({"total_wall_duration_s": started.elapsed().as_secs_f64()}),
    );
    metadata.insert(
        "software".to_owned(),
        json!({"os": std::env::consts::OS, "kernel": system_text("/proc/sys/kernel/osrelease")}),
    );

    let mut exporter = RunExporter::new(folder, run_id, "native-1");
    exporter.metadata = metadata;
    let rows = match input_of(&collector, &raw)? {
        Some(path) => {
            let mut names = Names::new();
            let phases = Phases::new(&phases, &mut names)?;
            let mut input = InputOptions::default();
            input.run_id = run_id.to_owned();
            input.threads = thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
            let stream =
                RowStream::open_path(&path, &OpenOptions::default(), &input)?.with_phases(phases);
            let steps = Steps {
                label: Some(LabelOptions::native()),
                infer_kv_blocks: true,
                analyse: Some(AnalysisOptions::default()),
                ..Steps::default()
            };
            let (processed, _) = exporter.export(stream, names, steps)?;
            Some(processed.report.rows)
        }
        None => {
            write_json(&folder.join("metadata.json"), &exporter.metadata)?;
            write_manifest(folder, run_id)?;
            None
        }
    };
    Ok(RunResult {
        run_id: run_id.to_owned(),
        folder: folder.to_owned(),
        collector,
        fallback_reason,
        exit_code: status.code(),
        rows,
        validity: class.name(),
    })
}

/// What a collector left to be read.
fn input_of(collector: &str, raw: &Path) -> Result<Option<PathBuf>> {
    let path = match collector {
        "perf" | "perf_mem" | "pagefaults" => raw.join("perf.data"),
        "memray" => raw.join("memray.bin"),
        _ => return Ok(None),
    };
    if collector == "memray" {
        return Ok(path.is_file().then_some(path));
    }
    // The symbols are in the machine that recorded, so perf resolves them here and now.
    let text = raw.join("perf_script.txt");
    let file = fs::File::create(&text).map_err(io_error(&text))?;
    let done = Command::new("perf")
        .args(["script", "-i"])
        .arg(&path)
        .args([
            "-F",
            "comm,pid,tid,cpu,time,period,event,addr,ip,sym,symoff,dso,weight,data_src",
        ])
        .stdout(file)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if done {
        return Ok(Some(text));
    }
    fs::remove_file(&text).map_err(io_error(&text))?;
    Ok(path.is_file().then_some(path))
}

/// Phases from the marks in the order of their times; each lasts until the next.
fn phases(marks: &Mutex<Vec<(String, i64)>>, start_ns: i64, end_ns: i64) -> Vec<PhaseBoundary> {
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
struct Watch {
    stop: Arc<AtomicBool>,
    monitor: Option<thread::JoinHandle<(Vec<ObserverSample>, Vec<f64>)>>,
    pipes: Vec<thread::JoinHandle<()>>,
}

impl Watch {
    fn end(mut self) -> (Vec<ObserverSample>, Vec<f64>) {
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

fn watch(
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
fn baseline_pct(span: Duration) -> f64 {
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

fn throttle_counts() -> BTreeMap<String, u64> {
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

/// The host's name as a folder: up to the first dot, lower case, other characters as hyphens.
fn machine_slug() -> String {
    let name = system_text("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = name.split('.').next().unwrap_or_default().to_lowercase();
    let mut slug = String::new();
    for char in short.chars() {
        if char.is_ascii_lowercase() || char.is_ascii_digit() {
            slug.push(char);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    match slug.trim_matches('-') {
        "" => "unknown-host".to_owned(),
        slug => slug.to_owned(),
    }
}
