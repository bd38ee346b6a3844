//! Experiments on the life of data in memory: configuration, collection, validity, run folders.
//!
//! * [`Experiment`] loads a configuration, validates it and plans the runs of its sweep.
//! * [`process`] reads, labels, writes and analyses in one pass; [`RunExporter`] makes the folder of a run of it: trace, region
//!   map and KV life cycle as Parquet, `metrics.csv`, `metadata.json`, figures, and `manifest.json` with the hashes.
//! * [`verify_manifest`] and [`judge`] check a folder and a trace.
//! * [`PhaseDetector`] finds loading, generation and teardown in the accesses of a run that nobody marked.
//! * [`classify`] says whether collecting has disturbed a run.
//!
//! It does not know the engines from within: they are commands that are started.
//!
//! ```
//! use byte_source::Source;
//! use memtrace_analyser::AnalysisOptions;
//! use memtrace_labeller::{InputOptions, LabelOptions, Names, RowStream};
//! use memtrace_run::{RunExporter, Steps, verify_manifest};
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
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

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
mod validity;

pub use collect::{PROMPTS_FILE, RunOptions, RunResult, Stop, run_command, run_experiment};
pub use compare::compare_analyses;
pub use config::{
    AnalyserConfig, CollectorConfig, Config, ExperimentInfo, FormatsConfig, LabellerConfig,
    MemrayConfig, ModelConfig, OutputConfig, PerfMemConfig, ProcessMonitorConfig, PromptsConfig,
    SweepConfig, TelemetryConfig,
};
pub use detector::{PhaseDetector, infer_phases, phases_json};
pub use doctor::{Check, Diagnosis, Status, diagnose, on_path, temperature_c};
pub use error::{ConfigMistake, Error, Result};
pub use experiment::{Experiment, Findings, Naming, PlannedRun, plan_text};
pub use export::{RunExporter, append_dataset_row, facts, report_json, run_metadata};
pub use figures::{Figure, FigureFormat, draw_figures, kv_age_pyramid};
pub use follow::{Follow, Growth, follow};
pub use manifest::{
    FileFinding, MANIFEST_FILE, Manifest, ManifestFile, copy_whole, unlisted, verify_manifest,
    write_manifest,
};
pub use metrics_csv::{METRICS_COLUMNS, metrics_csv};
pub use page::{dataset_columns, write_dataset_card, write_report};
pub use pipeline::{Processed, RowOutput, Steps, process};
pub use quality::{Quality, QualityProfile, Verdict, judge};
pub use validity::{
    Disturbance, ObserverEffect, ObserverSample, ObserverVersion, Validity, ValidityLimits,
    classify, throttle_events,
};
