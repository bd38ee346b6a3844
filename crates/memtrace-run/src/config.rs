//! Reads and checks the YAML configuration of an experiment; every mistake is reported with its
//! place.

mod section;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use memtrace_analyser::AnalysisTable;
use serde::Serialize;
use yaml_rust2::{Yaml, YamlLoader};

use self::section::Section;
use crate::error::{ConfigMistake, Error, Result, io_error};

/// About the experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct ExperimentInfo {
    pub name: String,
    pub description: String,
    pub version: String,
    pub date_created: String,
    pub authors: Vec<String>,
    pub institution: String,
    pub paper_ref: String,
}

/// A model and the engine that runs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct ModelConfig {
    pub id: String,
    pub engine: String,
    pub path: Option<String>,
    pub hf_repo: Option<String>,
    pub family: String,
    pub params_billions: Option<f64>,
    pub quantisation: Option<String>,
    pub dtype: String,
}

/// The combinations to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct SweepConfig {
    pub context_lengths: Vec<u64>,
    pub batch_sizes: Vec<u64>,
    pub output_tokens: Vec<u64>,
    pub repetitions: u64,
    pub warmup_runs: u64,
}

/// Source of the prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct PromptsConfig {
    pub source: String,
    pub categories: Vec<String>,
}

/// Settings of `perf mem`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct PerfMemConfig {
    pub sample_period: u64,
    /// `true` if the file has a period; else accesses are sampled by frequency.
    #[serde(skip)]
    pub has_period: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_frequency: Option<u64>,
    pub ldlat_threshold: u64,
    pub events: Vec<String>,
    pub extra_flags: Vec<String>,
    pub require_root: bool,
}

/// Settings of memray.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct MemrayConfig {
    pub native_traces: bool,
    pub follow_fork: bool,
    pub file_size_limit_gb: u64,
}

/// Settings of the process monitor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct ProcessMonitorConfig {
    pub poll_interval_ms: u64,
    pub metrics: Vec<String>,
}

/// Collectors to use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct CollectorConfig {
    pub primary: String,
    pub fallback: Option<String>,
    pub fallback_2: Option<String>,
    pub perf_mem: PerfMemConfig,
    pub memray: MemrayConfig,
    pub process_monitor: ProcessMonitorConfig,
}

/// Data recorded in addition to the trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    clippy::struct_excessive_bools,
    reason = "the names are those of the file"
)]
#[non_exhaustive]
pub struct TelemetryConfig {
    pub capture: bool,
    pub thermal_sampling_interval_s: u64,
    pub thermal_source: String,
    pub invalidate_on_throttle: bool,
    pub software_versions: bool,
    pub hardware_topology: bool,
    pub run_fio_benchmark: bool,
}

/// Settings of the labeller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct LabellerConfig {
    pub rules_file: String,
    pub unknown_policy: String,
    pub min_sample_count: u64,
}

/// Settings of the analyser.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct AnalyserConfig {
    pub metrics: Vec<String>,
    pub histogram_bins: u64,
    pub cdf_resolution: u64,
    pub group_by: Vec<String>,
}

/// Formats of the outputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct FormatsConfig {
    pub raw_traces: String,
    pub metrics: String,
    pub figures: String,
    pub metadata: String,
}

/// Outputs and their folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct OutputConfig {
    pub base_dir: String,
    pub formats: FormatsConfig,
    pub compression: String,
    pub hf_dataset_push: bool,
    pub hf_repo: Option<String>,
}

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the file")]
#[non_exhaustive]
pub struct Config {
    pub experiment: ExperimentInfo,
    pub models: Vec<ModelConfig>,
    pub sweep: SweepConfig,
    pub prompts: Option<PromptsConfig>,
    pub collector: CollectorConfig,
    pub telemetry: TelemetryConfig,
    pub labeller: LabellerConfig,
    pub analyser: AnalyserConfig,
    pub output: OutputConfig,
    /// Places of unknown keys, which the reference ignores.
    #[serde(skip)]
    pub unknown_keys: Vec<String>,
}

const COLLECTORS: &[&str] = &["perf_mem", "memray", "process_monitor"];
const POLICIES: &[&str] = &[
    "log_and_skip",
    "assign_runtime",
    "assign_unknown",
    "fail_run",
];
const METRICS: &[&str] = &AnalysisTable::METRICS;

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// A missing or empty file, text that is not YAML, and all mistakes together.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => Error::ConfigMissing {
                name: path.display().to_string(),
            },
            _ => io_error(path)(source),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| Error::ConfigYaml {
            what: error.to_string(),
        })?;
        Self::from_yaml(&text)
    }

    /// Reads a configuration from text.
    ///
    /// # Errors
    ///
    /// Same as [`Config::load`].
    ///
    /// ```
    /// use memtrace_run::{Config, Error};
    /// let text = "experiment: {name: x}\nmodels: [{id: m, engine: tgi, path: /a}]\n";
    /// let Err(Error::ConfigInvalid(mistakes)) = Config::from_yaml(text) else { unreachable!() };
    /// assert_eq!(mistakes[0].field, "models.0.engine");
    /// ```
    pub fn from_yaml(text: &str) -> Result<Self> {
        let documents = YamlLoader::load_from_str(text).map_err(|error| Error::ConfigYaml {
            what: error.to_string(),
        })?;
        let document = match documents.first() {
            None | Some(Yaml::Null) => return Err(Error::ConfigEmpty),
            Some(document) => document,
        };
        let mut mistakes = Vec::new();
        let mut unknown = Vec::new();
        let config = match document.as_hash() {
            Some(table) => {
                let mut root =
                    Section::new(Some(table), String::new(), &mut mistakes, &mut unknown);
                let config = read(&mut root);
                root.end();
                config
            }
            None => {
                mistakes.push(ConfigMistake {
                    field: String::new(),
                    what: "expected a table of sections".to_owned(),
                });
                None
            }
        };
        match config {
            Some(config) if mistakes.is_empty() => Ok(Self {
                unknown_keys: unknown,
                ..config
            }),
            _ => Err(Error::ConfigInvalid(mistakes)),
        }
    }
}

fn read(root: &mut Section<'_>) -> Option<Config> {
    if root.get("experiment").is_none() {
        root.wrong("experiment".to_owned(), "required");
    }
    let named = root.get("experiment").is_some();
    let experiment = root.with("experiment", |s| ExperimentInfo {
        name: if named {
            s.required("name")
        } else {
            String::new()
        },
        description: s.text("description", ""),
        version: s.text("version", "1.0.0"),
        date_created: s.text("date_created", ""),
        authors: s.texts("authors", &[]),
        institution: s.text("institution", ""),
        paper_ref: s.text("paper_ref", ""),
    });
    let models = models(root);
    let sweep = root.with("sweep", |s| SweepConfig {
        context_lengths: s.counts("context_lengths", 2048),
        batch_sizes: s.counts("batch_sizes", 1),
        output_tokens: s.counts("output_tokens", 128),
        repetitions: s.number("repetitions", 1, 1),
        warmup_runs: s.number("warmup_runs", 0, 0),
    });
    let prompts = match root.get("prompts") {
        None | Some(Yaml::Null) => None,
        Some(_) => Some(root.with("prompts", |s| PromptsConfig {
            source: s.required("source"),
            categories: s.texts("categories", &[]),
        })),
    };
    let collector = root.with("collector", |s| CollectorConfig {
        primary: s.one_of("primary", "perf_mem", COLLECTORS),
        fallback: s.maybe_one_of("fallback", "memray", COLLECTORS),
        fallback_2: s.maybe_one_of("fallback_2", "process_monitor", COLLECTORS),
        perf_mem: s.with("perf_mem", |s| PerfMemConfig {
            has_period: s.get("sample_period").is_some(),
            sample_frequency: (s.get("sample_frequency").is_some())
                .then(|| s.number("sample_frequency", 4000, 1)),
            sample_period: s.number("sample_period", 4000, i64::MIN),
            ldlat_threshold: s.number("ldlat_threshold", 20, i64::MIN),
            events: s.texts("events", &["cpu/mem-loads,ldlat=20/P", "cpu/mem-stores/P"]),
            extra_flags: s.texts("extra_flags", &[]),
            require_root: s.flag("require_root", true),
        }),
        memray: s.with("memray", |s| MemrayConfig {
            native_traces: s.flag("native_traces", true),
            follow_fork: s.flag("follow_fork", true),
            file_size_limit_gb: s.number("file_size_limit_gb", 20, i64::MIN),
        }),
        process_monitor: s.with("process_monitor", |s| ProcessMonitorConfig {
            poll_interval_ms: s.number("poll_interval_ms", 100, i64::MIN),
            metrics: s.texts("metrics", &["rss", "vms", "shared", "text", "data"]),
        }),
    });
    let telemetry = root.with("telemetry", |s| TelemetryConfig {
        capture: s.flag("capture", true),
        thermal_sampling_interval_s: s.number("thermal_sampling_interval_s", 5, i64::MIN),
        thermal_source: s.text("thermal_source", "auto"),
        invalidate_on_throttle: s.flag("invalidate_on_throttle", true),
        software_versions: s.flag("software_versions", true),
        hardware_topology: s.flag("hardware_topology", true),
        run_fio_benchmark: s.flag("run_fio_benchmark", false),
    });
    let labeller = root.with("labeller", |s| LabellerConfig {
        rules_file: s.text("rules_file", "config/models.yaml"),
        unknown_policy: s.one_of("unknown_policy", "log_and_skip", POLICIES),
        min_sample_count: s.number("min_sample_count", 10, i64::MIN),
    });
    let analyser = root.with("analyser", |s| {
        let metrics = s.texts("metrics", METRICS.get(..4).unwrap_or_default());
        for (at, metric) in metrics.iter().enumerate() {
            if !METRICS.contains(&&**metric) {
                let place = format!("{}.{at}", s.place("metrics"));
                s.wrong(place, format!("expected one of {}", METRICS.join(", ")));
            }
        }
        AnalyserConfig {
            metrics,
            histogram_bins: s.number("histogram_bins", 100, i64::MIN),
            cdf_resolution: s.number("cdf_resolution", 1000, i64::MIN),
            group_by: s.texts("group_by", &["region_type", "context_length"]),
        }
    });
    let output = root.with("output", |s| OutputConfig {
        base_dir: s.text("base_dir", "results/"),
        formats: s.with("formats", |s| FormatsConfig {
            raw_traces: s.text("raw_traces", "parquet"),
            metrics: s.text("metrics", "csv"),
            figures: s.text("figures", "pdf"),
            metadata: s.text("metadata", "json"),
        }),
        compression: s.one_of("compression", "zstd", &["zstd", "snappy", "gzip", "none"]),
        hf_dataset_push: s.flag("hf_dataset_push", false),
        hf_repo: s.maybe("hf_repo", None),
    });
    Some(Config {
        experiment,
        models,
        sweep,
        prompts,
        collector,
        telemetry,
        labeller,
        analyser,
        output,
        unknown_keys: Vec::new(),
    })
}

fn models(root: &mut Section<'_>) -> Vec<ModelConfig> {
    let list = match root.get("models").cloned() {
        None => {
            root.wrong("models".to_owned(), "required");
            return Vec::new();
        }
        Some(Yaml::Array(list)) if !list.is_empty() => list,
        Some(_) => {
            root.wrong("models".to_owned(), "expected a list of at least one model");
            return Vec::new();
        }
    };
    let mut models = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let path = format!("models.{at}");
        let before = root.mistakes();
        let mut section = root.entry(value.as_hash(), path.clone());
        let model = ModelConfig {
            id: section.required("id"),
            engine: {
                if section.get("engine").is_none() {
                    section.wrong(section.place("engine"), "required");
                }
                section.one_of("engine", "llamacpp", &["llamacpp", "vllm"])
            },
            path: section.maybe("path", None),
            hf_repo: section.maybe("hf_repo", None),
            family: section.text("family", ""),
            params_billions: section.real("params_billions"),
            quantisation: section.maybe("quantisation", None),
            dtype: section.text("dtype", "float16"),
        };
        section.end();
        // Combinations are checked only if each part is valid.
        if root.mistakes() == before {
            if model.engine == "llamacpp" && model.path.is_none() {
                root.wrong(path, "llamacpp needs a path");
            } else if model.path.is_none() && model.hf_repo.is_none() {
                root.wrong(path, "vllm needs hf_repo or path");
            }
        }
        models.push(model);
    }
    models
}
