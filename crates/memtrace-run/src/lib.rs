//! Experiments on the lifetime of data in memory: configuration, collection, validity, run folders.
//!
//! * [`Experiment`] loads a configuration, validates it, plans the runs of its sweep and runs them ([`Experiment::run`]; a single
//!   command with [`run_command`]); [`analyse_run`] and [`report_run`] continue with the folder of a run.
//! * [`process`] reads, labels, writes and analyses in one pass; [`RunExporter`] writes the folder of a run: trace, region map and
//!   KV life cycle as Parquet, `metrics.csv`, `metadata.json`, figures, and `manifest.json` with the hashes.
//! * [`verify_manifest`] and [`judge`] check a folder and a trace.
//! * [`PhaseDetector`] finds loading, generation and teardown in the accesses of a run without phase marks.
//! * [`classify`] determines whether collecting disturbed a run.
//!
//! The crate has no knowledge of the engines' internals: they are commands that it starts.
//!
//! An experiment from its configuration to its report:
//!
//! ```
//! use memtrace_analyser::AnalysisOptions;
//! use memtrace_run::{Experiment, FigureFormat, RunOptions, Stop, analyse_run, on_path, report_run};
//!
//! let text = "experiment: {name: demo}\nmodels: [{id: m1, engine: vllm, hf_repo: a/b}]\n";
//! let experiment = Experiment::from_yaml(text)?;
//! assert!(experiment.validate(on_path).errors.is_empty());
//! assert_eq!(experiment.plan().len(), 1);
//! let mut options = RunOptions::default();
//! // As if it were interrupted before the first run; without this the engine is started.
//! options.stop = Stop::when(|| true);
//! assert!(experiment.run(&options)?.is_empty());
//! for folder in experiment.finished_runs()? {
//!     let processed = analyse_run(&folder, AnalysisOptions::default())?;
//!     println!("{} rows", processed.report.rows);
//!     report_run(&folder, &folder.join("report"), &[FigureFormat::Svg])?;
//! }
//! # Ok::<(), memtrace_run::Error>(())
//! ```
//!
//! The folder of a run from a capture that is there already, checked, analysed and reported:
//!
//! ```
//! use byte_source::{OpenOptions, Source};
//! use memtrace_analyser::AnalysisOptions;
//! use memtrace_labeller::{InputOptions, LabelOptions, Names, RowStream, Schema, check_parquet};
//! use memtrace_run::{FigureFormat, RunExporter, Steps, analyse_run, report_run, verify_manifest};
//!
//! let text = b"cli 42 [0] 1.0: cpu/mem-stores/P: 7f00 kv_update+0x10 (/x.so)\n";
//! let stream = RowStream::open(Source::from_bytes("perf.txt", text.to_vec())?, &InputOptions::default())?;
//! let mut steps = Steps::default();
//! steps.label = Some(LabelOptions::native());
//! steps.analyse = Some(AnalysisOptions::default());
//! # let folder = std::env::temp_dir().join(format!("memtrace-run-doc-{}", std::process::id()));
//! let exporter = RunExporter::new(&folder, "demo", "native-1");
//! exporter.export(stream, Names::new(), steps)?;
//! assert!(verify_manifest(&folder)?.1.is_empty());
//! let trace = Source::open(folder.join("trace.parquet"), &OpenOptions::default())?;
//! assert_eq!(check_parquet(trace, Schema::Trace)?.rows, 1);
//! let analysed = analyse_run(&folder, AnalysisOptions::default())?;
//! assert_eq!(analysed.analysis.map(|analysis| analysis.rows), Some(1));
//! let files = report_run(&folder, &folder.join("report"), &[FigureFormat::Svg])?;
//! assert!(files.iter().any(|file| file == "report.html"));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod access_rows;
mod answers;
mod collect;
mod compare;
mod config;
mod detector;
mod doctor;
mod error;
mod experiment;
mod export;
mod figures;
mod follow;
mod manifest;
mod metrics_csv;
mod page;
mod pipeline;
mod quality;
mod runs;
mod tensors;
mod text;
mod tiers;
mod validity;

pub use access_rows::{pass_accesses, run_name};
pub use answers::{Answer, answers};
pub use collect::{
    FIRST_TOUCHES, PROMPTS_FILE, RunOptions, RunResult, Sampling, Stop, next_folder, run_command,
    run_experiment,
};
pub use compare::compare_analyses;
pub use config::{
    AnalyserConfig, CollectorConfig, Config, ExperimentInfo, FormatsConfig, LabellerConfig,
    MemrayConfig, ModelConfig, OutputConfig, PerfMemConfig, ProcessMonitorConfig, PromptsConfig,
    SweepConfig, TelemetryConfig,
};
pub use detector::{PhaseDetector, infer_phases, phases_json};
pub use doctor::{Check, Diagnosis, Status, diagnose, has_memray, on_path, temperature_c};
pub use error::{ConfigMistake, Error, Result};
pub use experiment::{Experiment, Findings, Naming, PlannedRun, plan_text, slug};
pub use export::{RunExporter, append_dataset_row, facts, other_input, report_json, run_metadata};
pub use figures::{Figure, FigureData, FigureFormat, draw_figures, kv_age_pyramid};
pub use follow::{Follow, Growth, follow};
pub use manifest::{
    FileFinding, MANIFEST_FILE, Manifest, ManifestFile, copy_whole, unlisted, verify_manifest,
    write_manifest,
};
pub use metrics_csv::{METRICS_COLUMNS, metrics_csv};
pub use page::{dataset_columns, write_dataset_card, write_report};
pub use pipeline::{Processed, RowOutput, Steps, process};
pub use quality::{ACCESSES, Quality, QualityProfile, Verdict, judge};
pub use runs::{analyse_run, report_run};
pub use tensors::{HotTensor, hottest};
pub use text::{Detail, analysis_text, hanging, narrow_text, tensors_text};
pub use tiers::{Fit, Tier, fits, fits_text};
pub use validity::{
    Disturbance, ObserverEffect, ObserverSample, ObserverVersion, Validity, ValidityLimits,
    classify, throttle_events,
};
