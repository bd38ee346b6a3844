//! Options of a collection, from arguments and from a configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{Compression, LabelOptions, RuleSet, UnknownPolicy};

use super::stop::Stop;
use crate::config::Config;
use crate::error::{Result, io_error};
use crate::figures::FigureFormat;
use crate::validity::ValidityLimits;

/// How often accesses are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// So many samples a second of each thread. The period varies, so that samples leave the rhythm of a program that repeats itself.
    Frequency(u64),
    /// One access in so many. Of a program that repeats itself the same accesses may be sampled again and again, and no others.
    Period(u64),
}

impl Sampling {
    /// The period of processors that sample by no frequency.
    pub(super) const PERIOD: u64 = 4000;

    /// Returns the fixed period, if it is fixed.
    #[must_use]
    pub const fn period(self) -> Option<u64> {
        match self {
            Self::Period(period) => Some(period),
            Self::Frequency(_) => None,
        }
    }
}

/// The frequency that perf has by itself.
impl Default for Sampling {
    fn default() -> Self {
        Self::Frequency(4000)
    }
}

/// Options of a collection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// How often perf samples.
    pub sampling: Sampling,
    /// Collector; if absent, the first usable one of `perf`, `pagefaults`, `memray`, `monitor`.
    pub collector: Option<String>,
    /// Collectors to try, in order, when `collector` is absent.
    pub hierarchy: Vec<String>,
    /// `PHASE=TEXT`: the phase begins with the first line of output that contains the text.
    pub phase_marks: Vec<String>,
    /// `PHASE=PATTERN`: the same with a regular expression.
    pub phase_patterns: Vec<String>,
    /// Path of the named pipe for marks, a temporary place when absent; the command finds it in
    /// `MEMTRACE_PHASES`.
    pub phase_pipe: Option<PathBuf>,
    /// Path of the socket for marks, a temporary place when absent; the command finds it in
    /// `MEMTRACE_PHASE_SOCKET`.
    pub phase_socket: Option<PathBuf>,
    /// Decides when to stop.
    pub stop: Stop,
    /// Interval of the process monitor.
    pub poll: Duration,
    /// Interval between two readings of the temperature.
    pub heat_interval: Duration,
    /// Limits of the validity classes.
    pub limits: ValidityLimits,
    /// `true` if throttling affects the class.
    pub throttling_counts: bool,
    /// Minimum latency of sampled loads, where the machine supports it.
    pub load_latency: u64,
    /// Events for perf instead of those of this machine.
    pub events: Vec<String>,
    /// Additional arguments for perf.
    pub extra_flags: Vec<String>,
    /// `true` if memray records native frames.
    pub native_traces: bool,
    /// `true` if memray follows children.
    pub follow_fork: bool,
    /// Model files whose tensors are located in memory; if empty, those that the command names.
    pub models: Vec<PathBuf>,
    /// Options for labelling rows.
    pub label: LabelOptions,
    /// Minimum number of samples of a type for a verdict.
    pub min_samples: u64,
    /// Compression of the trace.
    pub compression: Compression,
    /// File formats of figures.
    pub figures: Vec<FigureFormat>,
}

/// Events of an Intel machine, which the configuration uses when it names none.
const DEFAULT_EVENTS: [&str; 2] = ["cpu/mem-loads,ldlat=20/P", "cpu/mem-stores/P"];

impl RunOptions {
    /// Applies the settings of a configuration.
    pub(super) fn configure(&mut self, config: &Config) -> Result<()> {
        let collector = &config.collector;
        self.sampling = match (
            collector.perf_mem.sample_frequency,
            collector.perf_mem.has_period,
        ) {
            (Some(frequency), _) => Sampling::Frequency(frequency),
            (None, true) => Sampling::Period(collector.perf_mem.sample_period),
            (None, false) => Sampling::default(),
        };
        self.poll = Duration::from_millis(collector.process_monitor.poll_interval_ms.max(1));
        let telemetry = &config.telemetry;
        self.heat_interval = Duration::from_secs(telemetry.thermal_sampling_interval_s.max(1));
        self.throttling_counts = telemetry.invalidate_on_throttle;
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
        // The default names a file of the reference that may be absent.
        if rules.is_file() {
            let text = fs::read_to_string(rules).map_err(io_error(rules))?;
            self.label.rules = RuleSet::from_yaml(&text)?;
        }
        self.min_samples = config.labeller.min_sample_count;
        self.compression = match &*config.output.compression {
            "snappy" => Compression::Snappy,
            "gzip" => Compression::Gzip,
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
            sampling: Sampling::default(),
            collector: None,
            hierarchy: ["perf", "pagefaults", "memray", "monitor"]
                .map(str::to_owned)
                .to_vec(),
            phase_marks: Vec::new(),
            phase_patterns: Vec::new(),
            phase_pipe: None,
            phase_socket: None,
            stop: Stop::default(),
            poll: Duration::from_millis(100),
            heat_interval: Duration::from_secs(5),
            limits: ValidityLimits::default(),
            throttling_counts: true,
            load_latency: 20,
            events: Vec::new(),
            extra_flags: Vec::new(),
            native_traces: false,
            follow_fork: false,
            models: Vec::new(),
            label: LabelOptions::native(),
            min_samples: AnalysisOptions::default().min_samples,
            compression: Compression::Zstd,
            figures: vec![FigureFormat::Svg],
        }
    }
}
