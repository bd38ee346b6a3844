//! An experiment: loading, validating, planning.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::{Config, PromptsConfig};
use crate::error::Result;
use crate::manifest::{civil, unix_seconds};

/// Findings of the validation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Findings {
    /// Findings that stop the experiment.
    pub errors: Vec<String>,
    /// Findings that do not stop it.
    pub warnings: Vec<String>,
}

/// One run of the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedRun {
    /// Index of the model in the configuration.
    pub model_index: usize,
    /// Id of the model.
    pub model_id: String,
    /// Engine of the model.
    pub engine: String,
    /// Context length in tokens.
    pub context_length: u64,
    /// Number of concurrent sequences.
    pub batch_size: u64,
    /// Number of tokens to generate.
    pub output_tokens: u64,
    /// Number of the repetition or warm-up, from 0.
    pub rep_index: u64,
    /// `true` for a warm-up.
    pub is_warmup: bool,
    /// Name of the run.
    pub run_id: String,
    /// Folder of the run.
    pub output_dir: PathBuf,
}

/// Naming scheme of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Naming {
    /// This crate's scheme: warm-ups are numbered; slashes and blanks in a model's name make no
    /// folders.
    #[default]
    Native,
    /// The reference's scheme: all warm-ups of a combination share a name and a folder.
    Mrm,
}

/// An experiment.
///
/// ```
/// use memtrace_run::{Experiment, Naming};
/// let text = "experiment: {name: demo}\nmodels: [{id: m1, engine: vllm, hf_repo: a/b}]\nsweep: {repetitions: 2}\n";
/// let experiment = Experiment::from_yaml(text)?;
/// let runs = experiment.plan_at("20250102T030405Z", Naming::Native);
/// assert_eq!(runs[1].run_id, "m1_ctx2048_batch1_out128_rep1_20250102T030405Z");
/// # Ok::<(), memtrace_run::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Experiment {
    /// Its configuration.
    pub config: Config,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    ///
    /// Same as [`Config::load`].
    pub fn load(path: &Path) -> Result<Self> {
        Ok(Self {
            config: Config::load(path)?,
        })
    }

    /// Reads an experiment from text.
    ///
    /// # Errors
    ///
    /// Same as [`Config::load`].
    pub fn from_yaml(text: &str) -> Result<Self> {
        Ok(Self {
            config: Config::from_yaml(text)?,
        })
    }

    /// Checks the configuration on this machine. `on_path` returns `true` if a program can be
    /// started.
    #[must_use]
    pub fn validate(&self, on_path: impl Fn(&str) -> bool) -> Findings {
        let config = &self.config;
        let mut found = Findings::default();
        let mut ids: Vec<&str> = config.models.iter().map(|model| &*model.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair.first() == pair.last()) {
            found.errors.push("Model IDs must be unique".to_owned());
        }
        for model in &config.models {
            if let Some(path) = &model.path
                && !Path::new(path).exists()
            {
                found
                    .errors
                    .push(format!("Model '{}' path not found: {path}", model.id));
            }
        }
        let base = Path::new(&config.output.base_dir);
        if base.exists() && !base.is_dir() {
            found.errors.push(format!(
                "output.base_dir exists but is not a directory: {}",
                config.output.base_dir
            ));
        }
        let sweep = &config.sweep;
        let product = [
            config.models.len(),
            sweep.context_lengths.len(),
            sweep.batch_sizes.len(),
            sweep.output_tokens.len(),
        ]
        .iter()
        .map(|count| *count as u64)
        .fold(sweep.repetitions, u64::saturating_mul);
        if product > 1000 {
            found.warnings.push(format!(
                "Sweep will produce {product} actual runs — this may take a long time"
            ));
        }
        let collector = &config.collector;
        if collector.primary == "perf_mem" && !on_path("perf") {
            found.warnings.push(
                "'perf' not found in PATH; primary collector unavailable — will fall back to next available collector"
                    .to_owned(),
            );
        }
        found
    }

    /// Returns settings without effect, and why: unknown keys, and settings that differ from their
    /// default but are not supported.
    #[must_use]
    pub fn unused_settings(&self) -> Vec<String> {
        let config = &self.config;
        let mut unused: Vec<String> = config
            .unknown_keys
            .iter()
            .map(|place| format!("unknown key: {place}"))
            .collect();
        if let Some(prompts) = &config.prompts
            && let Err(error) = fs::File::open(&prompts.source)
        {
            unused.push(format!("prompts.source: {}: {error}", prompts.source));
        }
        let mut say = |is_set: bool, place: &str, reason: &str| {
            if is_set {
                unused.push(format!("not supported: {place}: {reason}"));
            }
        };
        let has_categories = |prompts: &PromptsConfig| !prompts.categories.is_empty();
        say(
            config.prompts.as_ref().is_some_and(has_categories),
            "prompts.categories",
            "the whole file is the prompt",
        );
        let collector = &config.collector;
        say(
            !collector.perf_mem.require_root,
            "collector.perf_mem.require_root",
            "perf_event_paranoid decides, see 'memtrace doctor'",
        );
        say(
            collector.memray.file_size_limit_gb != 20,
            "collector.memray.file_size_limit_gb",
            "memray has no limit",
        );
        say(
            collector.process_monitor.metrics != ["rss", "vms", "shared", "text", "data"],
            "collector.process_monitor.metrics",
            "CPU and resident memory are recorded",
        );
        let telemetry = &config.telemetry;
        say(
            !telemetry.capture || !telemetry.software_versions || !telemetry.hardware_topology,
            "telemetry",
            "it is always recorded",
        );
        say(
            telemetry.thermal_source != "auto",
            "telemetry.thermal_source",
            "the zone of the package is read, else the hottest",
        );
        say(
            telemetry.run_fio_benchmark,
            "telemetry.run_fio_benchmark",
            "run fio by hand",
        );
        let analyser = &config.analyser;
        say(
            analyser.metrics.len() < 4,
            "analyser.metrics",
            "all metrics are computed",
        );
        say(
            analyser.histogram_bins != 100 || analyser.cdf_resolution != 1000,
            "analyser.histogram_bins and cdf_resolution",
            "figures choose their own",
        );
        say(
            analyser.group_by != ["region_type", "context_length"],
            "analyser.group_by",
            "tables are by region type, runs are compared by 'memtrace compare'",
        );
        let output = &config.output;
        let formats = &output.formats;
        say(
            formats.raw_traces != "parquet"
                || formats.metrics != "csv"
                || formats.metadata != "json",
            "output.formats",
            "traces are Parquet, metrics CSV, metadata JSON",
        );
        say(
            !matches!(&*formats.figures, "svg" | "png" | "pdf"),
            "output.formats.figures",
            "figures are svg, png or pdf",
        );
        say(
            output.hf_dataset_push || output.hf_repo.is_some(),
            "output.hf_dataset_push and hf_repo",
            "nothing is uploaded, see 'memtrace export --format hf'",
        );
        unused
    }

    /// Returns a warning if the configuration uses memray and it is not installed.
    /// [`Experiment::validate`] leaves it out: whether the reference reports it depends on the
    /// Python in which it runs.
    #[must_use]
    pub fn missing_memray(&self, has_memray: impl FnOnce() -> bool) -> Option<String> {
        let collector = &self.config.collector;
        let wanted = [
            Some(&collector.primary),
            collector.fallback.as_ref(),
            collector.fallback_2.as_ref(),
        ];
        let place = ["primary", "fallback", "fallback_2"]
            .into_iter()
            .zip(wanted)
            .find(|(_, name)| name.is_some_and(|name| name == "memray"))?
            .0;
        (!has_memray()).then(|| {
            format!("memray is not installed, collector.{place} cannot be used: pip install memray")
        })
    }

    /// Returns the planned runs, named by the current time.
    #[must_use]
    pub fn plan(&self) -> Vec<PlannedRun> {
        let ([year, month, day], [hour, minute, second]) = civil(unix_seconds());
        let stamp = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
        self.plan_at(&stamp, Naming::Native)
    }

    /// Returns the runs in order: model, context, batch, output; for each combination the warm-ups
    /// first.
    #[must_use]
    pub fn plan_at(&self, stamp: &str, naming: Naming) -> Vec<PlannedRun> {
        let (config, sweep) = (&self.config, &self.config.sweep);
        let mut runs = Vec::new();
        for (model_index, model) in config.models.iter().enumerate() {
            for context_length in &sweep.context_lengths {
                for batch_size in &sweep.batch_sizes {
                    for output_tokens in &sweep.output_tokens {
                        let warmups = (0..sweep.warmup_runs).map(|at| (at, true));
                        let repetitions = (0..sweep.repetitions).map(|at| (at, false));
                        for (rep_index, is_warmup) in warmups.chain(repetitions) {
                            let mut run = PlannedRun {
                                model_index,
                                model_id: model.id.clone(),
                                engine: model.engine.clone(),
                                context_length: *context_length,
                                batch_size: *batch_size,
                                output_tokens: *output_tokens,
                                rep_index,
                                is_warmup,
                                run_id: String::new(),
                                output_dir: PathBuf::new(),
                            };
                            run.run_id = run_id(&run, stamp, naming);
                            let folder = match naming {
                                Naming::Mrm => run.model_id.clone(),
                                Naming::Native => slug(&run.model_id),
                            };
                            run.output_dir = Path::new(&config.output.base_dir)
                                .join(folder)
                                .join(&run.run_id);
                            runs.push(run);
                        }
                    }
                }
            }
        }
        runs
    }
}

fn run_id(run: &PlannedRun, stamp: &str, naming: Naming) -> String {
    let which = match (naming, run.is_warmup) {
        (Naming::Mrm, true) => "warmup".to_owned(),
        (Naming::Native, true) => format!("warmup{}", run.rep_index),
        (_, false) => format!("rep{}", run.rep_index),
    };
    let model = match naming {
        Naming::Mrm => run.model_id.clone(),
        Naming::Native => slug(&run.model_id),
    };
    format!(
        "{model}_ctx{}_batch{}_out{}_{which}_{stamp}",
        run.context_length, run.batch_size, run.output_tokens
    )
}

/// Returns the name as a single folder name: anything but letters, digits, points, underscores and
/// hyphens becomes a hyphen.
///
/// ```
/// assert_eq!(memtrace_run::slug("org/model 7B"), "org-model-7B");
/// ```
#[must_use]
pub fn slug(text: &str) -> String {
    let slug: String = text
        .chars()
        .map(|char| {
            if char.is_alphanumeric() || matches!(char, '.' | '_' | '-') {
                char
            } else {
                '-'
            }
        })
        .collect();
    match slug.trim_matches('.') {
        "" => "model".to_owned(),
        _ => slug,
    }
}

/// Formats the plan as the reference prints it.
#[must_use]
pub fn plan_text(name: &str, runs: &[PlannedRun]) -> String {
    let warmups = runs.iter().filter(|run| run.is_warmup).count();
    let mut out = format!(
        "\nExperiment : {name}\nTotal runs : {}  ({warmups} warmup, {} actual)\n\n",
        runs.len(),
        runs.len() - warmups
    );
    let _ = writeln!(
        out,
        "{:<5} {:<24} {:<10} {:>7} {:>5} {:>5} {:>4}  {:<8}",
        "#", "Model", "Engine", "Ctx", "Batch", "Out", "Rep", "Type"
    );
    let _ = writeln!(out, "{}", "-".repeat(76));
    for (at, run) in runs.iter().enumerate() {
        let kind = if run.is_warmup {
            "warmup".to_owned()
        } else {
            format!("rep{}", run.rep_index)
        };
        let _ = writeln!(
            out,
            "{:<5} {:<24} {:<10} {:>7} {:>5} {:>5} {:>4}  {:<8}",
            at + 1,
            run.model_id,
            run.engine,
            run.context_length,
            run.batch_size,
            run.output_tokens,
            run.rep_index,
            kind
        );
    }
    out
}
