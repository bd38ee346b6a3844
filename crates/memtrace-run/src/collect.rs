//! Starting an engine and collecting while it runs.

mod clock;
mod command;
mod marks;
mod processes;
mod record;
mod stop;
mod watch;

pub use stop::Stop;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use byte_source::OpenOptions;
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{
    AddressRange, Compression, InputOptions, LabelOptions, MapsSnapshot, ModelFile, Names,
    PhaseBoundary, Phases, RowStream, RuleSet, UnknownPolicy, ranges_of_maps,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::clock::{epoch_offset_ns, monotonic_ns};
use self::command::{choose, engine_command, input_of, is_profiler, wrapped};
use self::marks::{Marks, PIPE_VARIABLE, PhasePipe};
use self::record::{Baseline, TokenCounts, prompt_outputs};
use self::watch::{throttle_counts, watch};
use crate::config::Config;
use crate::detector::{infer_phases, phases_json};
use crate::doctor::{system_text, temperature_c};
use crate::error::{Error, Result, io_error};
use crate::experiment::Experiment;
use crate::export::RunExporter;
use crate::figures::FigureFormat;
use crate::manifest::{remove_manifest, write_json, write_manifest, write_whole};
use crate::pipeline::Steps;
use crate::validity::{
    Disturbance, ObserverEffect, ObserverVersion, ValidityLimits, classify, throttle_events,
};

/// What was asked of an engine, and what came out.
pub const PROMPTS_FILE: &str = "prompt_outputs.json";
/// Least free space before a collection.
const NEEDED_BYTES: u64 = 1 << 30;

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
    /// `PHASE=PATTERN`: the same with a regular expression.
    pub phase_patterns: Vec<String>,
    /// Where the named pipe for marks is made, a temporary place when absent; the command finds it in `MEMTRACE_PHASES`.
    pub phase_pipe: Option<PathBuf>,
    /// Says when to stop.
    pub stop: Stop,
    /// Interval of the process monitor.
    pub poll: Duration,
    /// Least latency of loads that are sampled, where the machine can choose.
    pub load_latency: u64,
    /// Events for perf in place of those of this machine.
    pub events: Vec<String>,
    /// More arguments for perf.
    pub extra_flags: Vec<String>,
    /// Whether memray records native frames.
    pub native_traces: bool,
    /// Whether memray follows children.
    pub follow_fork: bool,
    /// Model files whose tensors are looked for in memory; those that the command names when empty.
    pub models: Vec<PathBuf>,
    /// How rows are labelled.
    pub label: LabelOptions,
    /// Fewest samples of a type for a verdict.
    pub min_samples: u64,
    /// Compression of the trace.
    pub compression: Compression,
    /// Kinds of files for figures.
    pub figures: Vec<FigureFormat>,
}

/// Events of an Intel machine, which the configuration has when it names none.
const DEFAULT_EVENTS: [&str; 2] = ["cpu/mem-loads,ldlat=20/P", "cpu/mem-stores/P"];

impl RunOptions {
    /// Takes over what a configuration says.
    fn configure(&mut self, config: &Config) -> Result<()> {
        let collector = &config.collector;
        self.period = collector.perf_mem.sample_period;
        self.poll = Duration::from_millis(collector.process_monitor.poll_interval_ms.max(1));
        self.load_latency = collector.perf_mem.ldlat_threshold;
        self.events = Vec::new();
        if collector.perf_mem.events != DEFAULT_EVENTS {
            self.events.clone_from(&collector.perf_mem.events);
        }
        self.extra_flags.clone_from(&collector.perf_mem.extra_flags);
        self.native_traces = collector.memray.native_traces;
        self.follow_fork = collector.memray.follow_fork;
        self.hierarchy = [
            Some(collector.primary.clone()),
            collector.fallback.clone(),
            collector.fallback_2.clone(),
        ]
        .into_iter()
        .flatten()
        .collect();
        self.label.unknown = match &*config.labeller.unknown_policy {
            "log_and_skip" => UnknownPolicy::Skip,
            "assign_runtime" => UnknownPolicy::Runtime,
            "fail_run" => UnknownPolicy::Error,
            _ => UnknownPolicy::Keep,
        };
        let rules = Path::new(&config.labeller.rules_file);
        // The default names a file of the reference that need not be there.
        if rules.is_file() {
            let text = fs::read_to_string(rules).map_err(io_error(rules))?;
            self.label.rules = RuleSet::from_yaml(&text)?;
        }
        self.min_samples = config.labeller.min_sample_count;
        self.compression = match &*config.output.compression {
            "snappy" => Compression::Snappy,
            "none" => Compression::None,
            _ => Compression::Zstd,
        };
        if let Ok(format) = config.output.formats.figures.parse() {
            self.figures = vec![FigureFormat::Svg, format];
            self.figures.dedup();
        }
        Ok(())
    }
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
            phase_patterns: Vec::new(),
            phase_pipe: None,
            stop: Stop::default(),
            poll: Duration::from_millis(100),
            load_latency: 20,
            events: Vec::new(),
            extra_flags: Vec::new(),
            native_traces: false,
            follow_fork: false,
            models: Vec::new(),
            label: LabelOptions::native(),
            min_samples: AnalysisOptions::default().min_samples,
            compression: Compression::Zstd,
            figures: FigureFormat::ALL.to_vec(),
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
    /// Where the phases are from: `pipe`, `output`, `pipe and output`, `inferred`, or `none`.
    pub phases: &'static str,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl RunResult {
    /// Whether the command failed by itself.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.exit_code != Some(0) && !self.interrupted
    }

    /// The result as a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let rows = self
            .rows
            .map_or("no trace".to_owned(), |rows| format!("{rows} rows"));
        format!(
            "{}: {} by {}, phases {}, {}{}, in {}",
            self.run_id,
            rows,
            self.collector,
            self.phases,
            self.validity,
            if self.interrupted {
                ", interrupted"
            } else {
                ""
            },
            self.folder.display()
        )
    }
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

/// Runs a command, collects, and makes its folder.
///
/// # Errors
///
/// [`Error::NoCollector`], [`Error::DiskFull`], [`Error::Start`], and what reading and writing say.
pub fn run_command(command: &[String], folder: &Path, options: &RunOptions) -> Result<RunResult> {
    let run_id = folder
        .file_name()
        .map_or("run".to_owned(), |name| name.to_string_lossy().into_owned());
    collect(command, folder, &run_id, options, Map::new(), None)
}

/// Runs all runs of an experiment, one after the other; none is begun after the stop.
///
/// # Errors
///
/// As [`run_command`]; the first run that fails to start ends it.
pub fn run_experiment(experiment: &Experiment, options: &RunOptions) -> Result<Vec<RunResult>> {
    let config = &experiment.config;
    let mut options = options.clone();
    options.configure(config)?;
    experiment
        .plan()
        .iter()
        .take_while(|_| !options.stop.is_asked())
        .map(|run| {
            let (command, prompt) = engine_command(experiment, run)?;
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
                model.map_or(Value::Null, |model| json!(model)),
            );
            metadata.insert("experiment".to_owned(), json!(config.experiment));
            collect(
                &command,
                &run.output_dir,
                &run.run_id,
                &options,
                metadata,
                prompt.as_deref(),
            )
        })
        .collect()
}

fn collect(
    command: &[String],
    folder: &Path,
    run_id: &str,
    options: &RunOptions,
    mut metadata: Map<String, Value>,
    prompt: Option<&str>,
) -> Result<RunResult> {
    let (collector, fallback_reason) = choose(options, command)?;
    if let Some(free) = free_bytes(folder)
        && free < NEEDED_BYTES
    {
        return Err(Error::DiskFull {
            folder: folder.display().to_string(),
            free_bytes: free,
            needed_bytes: NEEDED_BYTES,
        });
    }
    let mut patterns = marks::patterns(&options.phase_marks, true)?;
    patterns.extend(marks::patterns(&options.phase_patterns, false)?);
    let raw = folder.join("raw");
    fs::create_dir_all(&raw).map_err(io_error(&raw))?;
    // What an earlier run left is not complete any more.
    remove_manifest(folder)?;
    let baseline = Baseline::take();
    let throttled = throttle_counts();
    let words = wrapped(&collector, command, &raw, options);
    let (program, arguments) = words.split_first().ok_or_else(|| Error::NoCollector {
        what: "no command was given".to_owned(),
    })?;
    let marks = Marks::default();
    let pipe = phase_pipe(options, &marks)?;
    // A clock that is read first must find out where it stands.
    monotonic_ns();
    let started = Instant::now();
    let mut start = Command::new(program);
    start
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(pipe) = &pipe {
        start.env(PIPE_VARIABLE, pipe.path());
    }
    stop::alone(&mut start);
    let mut child = start.spawn().map_err(|source| Error::Start {
        command: program.clone(),
        source,
    })?;
    let start_ns = monotonic_ns();
    let watched = watch(
        &mut child,
        &raw,
        options,
        &marks,
        &patterns,
        is_profiler(&collector),
    )?;
    let (status, interrupted) = options.stop.wait(&mut child).map_err(io_error(&raw))?;
    let end_ns = monotonic_ns();
    let watched = watched.end();
    if let Some(pipe) = pipe {
        pipe.close();
    }
    let ranges = mapped(&raw, watched.maps.as_deref(), command, options)?;
    let (boundaries, source) = marks.phases(start_ns, end_ns);
    let mut phases = FoundPhases { boundaries, source };

    let effect = ObserverEffect::new(
        &watched.observer,
        &watched.target_mb,
        throttle_events(&throttled, &throttle_counts()),
        baseline.cpu_pct,
        ObserverVersion::Mrm023,
    );
    let seen = Disturbance {
        peak_temperature_c: temperature_c(),
        ..effect.disturbance(ObserverVersion::Mrm023)
    };
    let limits = ValidityLimits::default();
    let (class, reasons) = classify(&seen, &limits);
    metadata.insert("machine_id".to_owned(), machine_slug().into());
    metadata.insert("observer_effect_summary".to_owned(), json!(effect));
    metadata.insert(
        "thermal".to_owned(),
        json!({"run_validity": class.name(), "reasons": reasons, "limits": limits, "peak_temp_c": seen.peak_temperature_c, "throttle_events": seen.throttle_events}),
    );
    let duration_s = started.elapsed().as_secs_f64();
    metadata.insert(
        "timing".to_owned(),
        json!({"total_wall_duration_s": duration_s}),
    );
    metadata.insert("baseline".to_owned(), baseline.json());
    metadata.insert("software".to_owned(), record::software());
    metadata.insert("hardware".to_owned(), record::hardware());
    metadata.insert(
        "hardware_context".to_owned(),
        record::hardware_context(folder),
    );
    let tokens = TokenCounts::of_logs(&raw);
    if let (Some(tokens), Some(generation)) = (
        tokens,
        metadata
            .get_mut("generation")
            .and_then(Value::as_object_mut),
    ) {
        tokens.tell(generation);
    }
    if let Some(prompt) = prompt {
        let document = prompt_outputs(prompt, &raw, tokens, duration_s);
        write_json(&folder.join(PROMPTS_FILE), &document)?;
    }

    let mut exporter = RunExporter::new(folder, run_id, "native-1");
    exporter.metadata = metadata;
    exporter.compression = options.compression;
    exporter.figures.clone_from(&options.figures);
    let input = input_of(&collector, &raw)?;
    let mut used = record::collected(&collector, &raw, input.as_deref())?;
    used.insert("type".to_owned(), collector.as_str().into());
    used.insert("fallback_reason".to_owned(), json!(fallback_reason));
    used.insert("command".to_owned(), json!(words));
    used.insert("event_strings".to_owned(), json!(events_of(&words)));
    let period = period_of(&collector, options);
    used.insert("sample_period".to_owned(), json!(period));
    exporter
        .metadata
        .insert("collector".to_owned(), used.into());
    // Marks and mappings have the monotonic clock, as perf's samples; memray's have that of the calendar.
    let offset = match collector.as_str() {
        "memray" => epoch_offset_ns(),
        _ => 0,
    };
    phases.shift(offset);
    let ranges = ranges.into_iter().map(|range| shifted(range, offset));
    if let Some(path) = &input
        && phases.boundaries.is_empty()
    {
        phases.infer(path)?;
    }
    phases.write(&raw, marks.ignored(), &mut exporter.metadata)?;
    if interrupted {
        exporter
            .metadata
            .insert("interrupted".to_owned(), true.into());
    }
    let rows = match input {
        Some(path) => {
            let mut names = Names::new();
            let phases = Phases::new(&phases.boundaries, &mut names)?;
            let mut input = input_options();
            input.run_id = run_id.to_owned();
            let stream =
                RowStream::open_path(&path, &OpenOptions::default(), &input)?.with_phases(phases);
            exporter.input = Some(path);
            let mut analysis = AnalysisOptions::default();
            analysis.min_samples = options.min_samples;
            let steps = Steps {
                label: Some(options.label.clone()),
                infer_kv_blocks: true,
                ranges: ranges.collect(),
                analyse: Some(analysis),
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
        phases: phases.source,
        interrupted,
    })
}

/// How the collectors' files are read.
fn input_options() -> InputOptions {
    let mut input = InputOptions::default();
    input.threads = thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
    input
}

/// The events that a collector was asked for.
fn events_of(words: &[String]) -> Vec<&String> {
    // What the command itself is given is none of them.
    let own = words.iter().take_while(|word| *word != "--");
    let pairs = own.clone().zip(own.skip(1));
    pairs
        .filter(|(option, _)| *option == "-e")
        .map(|(_, event)| event)
        .collect()
}

/// Accesses for each sample, where a collector samples.
fn period_of(collector: &str, options: &RunOptions) -> Option<u64> {
    match collector {
        "perf" | "perf_mem" => Some(options.period),
        "pagefaults" => Some(1),
        _ => None,
    }
}

/// The pipe that was asked for; without one a pipe in a temporary place, where pipes can be made.
fn phase_pipe(options: &RunOptions, marks: &Marks) -> Result<Option<PhasePipe>> {
    match &options.phase_pipe {
        Some(path) => PhasePipe::open(path, marks).map(Some),
        None => {
            let name = format!("memtrace-{}-{}.phases", std::process::id(), monotonic_ns());
            Ok(PhasePipe::open(&std::env::temp_dir().join(name), marks).ok())
        }
    }
}

/// Moves the time for which a range is valid to another clock.
fn shifted(range: AddressRange, offset_ns: i64) -> AddressRange {
    let moved = |time: Option<u64>| time.map(|time| time.saturating_add_signed(offset_ns));
    let (from_ns, to_ns) = (moved(range.from_ns), moved(range.to_ns));
    range.valid(from_ns, to_ns)
}

/// The phases of a run and where they are from.
struct FoundPhases {
    boundaries: Vec<PhaseBoundary>,
    source: &'static str,
}

impl FoundPhases {
    fn shift(&mut self, offset_ns: i64) {
        for phase in &mut self.boundaries {
            phase.start_ns = phase.start_ns.saturating_add(offset_ns);
            phase.end_ns = phase.end_ns.saturating_add(offset_ns);
        }
    }

    /// Looks for them in the accesses.
    fn infer(&mut self, path: &Path) -> Result<()> {
        let mut stream = RowStream::open_path(path, &OpenOptions::default(), &input_options())?;
        self.boundaries = infer_phases(&mut stream)?;
        if !self.boundaries.is_empty() {
            self.source = "inferred";
        }
        Ok(())
    }

    /// Keeps them as a file that `--phases` reads, and in the metadata.
    fn write(&self, raw: &Path, ignored: u64, metadata: &mut Map<String, Value>) -> Result<()> {
        let mut document = phases_json(&self.boundaries, self.source);
        if let Some(members) = document.as_object_mut().filter(|_| ignored > 0) {
            members.insert("ignored_lines".to_owned(), ignored.into());
        }
        write_json(&raw.join("phases.json"), &document)?;
        metadata.insert("phases".to_owned(), document);
        Ok(())
    }
}

/// Keeps the mappings that were seen, and says which of them hold the tensors of a model.
fn mapped(
    raw: &Path,
    maps: Option<&str>,
    command: &[String],
    options: &RunOptions,
) -> Result<Vec<AddressRange>> {
    let Some(text) = maps else {
        return Ok(Vec::new());
    };
    let file = raw.join("maps.txt");
    write_whole(&file, text.as_bytes())?;
    let models: Vec<ModelFile> = if options.models.is_empty() {
        // A model that is named to the engine; files that only look like one are none.
        command
            .iter()
            .map(Path::new)
            .filter(|path| is_model_name(path) && path.is_file())
            .filter_map(|path| ModelFile::open(path).ok())
            .collect()
    } else {
        let files = options.models.iter();
        files
            .map(|path| Ok(ModelFile::open(path)?))
            .collect::<Result<_>>()?
    };
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let snapshots = MapsSnapshot::read("maps.txt", text.as_bytes())?;
    Ok(ranges_of_maps(&snapshots, &models))
}

fn is_model_name(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("gguf" | "safetensors"))
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
