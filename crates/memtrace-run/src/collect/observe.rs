//! Runs a command under a collector, observes it and waits for its end.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::RunOptions;
use super::channel::Channels;
use super::clock::monotonic_ns;
use super::command::is_profiler;
use super::machine::machine_slug;
use super::marks::{Marks, OutputPattern};
use super::record::{self, Baseline};
use super::sensors::{Sensed, Sensors};
use super::stop;
use super::watch::{Watched, throttle_counts, watch};
use crate::error::{Error, Result, io_error};
use crate::validity::{
    Disturbance, ObserverEffect, ObserverVersion, Validity, classify, throttle_events,
};

/// Observations of a run.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) status: ExitStatus,
    pub(super) interrupted: bool,
    pub(super) marks: Marks,
    /// Begin and end of the run, on the monotonic clock.
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) duration_s: f64,
    pub(super) watched: Watched,
    sensed: Sensed,
    baseline: Baseline,
    throttled: u64,
}

impl Observed {
    /// Runs a command line to its end, or until it must stop.
    pub(super) fn of(
        words: &[String],
        collector: &str,
        raw: &Path,
        patterns: &[OutputPattern],
        options: &RunOptions,
    ) -> Result<Self> {
        let baseline = Baseline::take();
        let throttled = throttle_counts();
        let (program, arguments) = words.split_first().ok_or_else(|| Error::NoCollector {
            what: "no command was given".to_owned(),
        })?;
        let marks = Marks::default();
        let channels = Channels::open(options, &marks)?;
        // The first reading of the clock must determine its offset.
        monotonic_ns();
        let started = Instant::now();
        let mut start = Command::new(program);
        start
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        channels.tell(&mut start);
        stop::alone(&mut start);
        let mut child = start.spawn().map_err(|source| Error::Start {
            command: program.clone(),
            source,
        })?;
        let start_ns = monotonic_ns();
        let sensors = Sensors::start(options.heat_interval);
        let watching = watch(
            &mut child,
            raw,
            options,
            &marks,
            patterns,
            is_profiler(collector),
        )?;
        let (status, interrupted) = options.stop.wait(&mut child).map_err(io_error(raw))?;
        let end_ns = monotonic_ns();
        let sensed = sensors.end();
        let watched = watching.end();
        channels.close();
        Ok(Self {
            status,
            interrupted,
            marks,
            start_ns,
            end_ns,
            duration_s: started.elapsed().as_secs_f64(),
            watched,
            sensed,
            baseline,
            throttled: throttle_events(&throttled, &throttle_counts()),
        })
    }

    /// Writes the observations of the machine and of this process to the metadata, and classifies
    /// the run.
    pub(super) fn describe(
        &self,
        folder: &Path,
        options: &RunOptions,
        metadata: &mut Map<String, Value>,
    ) -> (Validity, Vec<String>) {
        let effect = ObserverEffect::new(
            &self.watched.observer,
            &self.watched.target_mb,
            self.throttled,
            self.baseline.cpu_pct,
            ObserverVersion::Mrm023,
        );
        let seen = Disturbance {
            peak_temperature_c: self.sensed.peak_temperature_c,
            ..effect.disturbance(ObserverVersion::Mrm023)
        };
        let judged = Disturbance {
            throttle_events: if options.throttling_counts {
                seen.throttle_events
            } else {
                0
            },
            ..seen
        };
        let (class, reasons) = classify(&judged, &options.limits);
        let told = reasons.iter().map(ToString::to_string).collect();
        let members = [
            ("machine_id", machine_slug().into()),
            ("observer_effect_summary", json!(effect)),
            (
                "thermal",
                json!({
                    "run_validity": class.name(),
                    "reasons": reasons,
                    "limits": options.limits,
                    "peak_temp_c": seen.peak_temperature_c,
                    "throttle_events": seen.throttle_events,
                    "throttling_counts": options.throttling_counts,
                }),
            ),
            ("timing", json!({"total_wall_duration_s": self.duration_s})),
            ("baseline", self.baseline.json()),
            ("software", record::software()),
            ("hardware", record::hardware()),
            ("hardware_context", record::hardware_context(folder)),
            ("cpu_frequency", self.sensed.cpu_frequency()),
            ("gpu", self.sensed.gpu()),
            ("gpu_power_draw_w", json!(self.sensed.gpu_power_draw_w())),
        ];
        for (name, value) in members {
            metadata.insert(name.to_owned(), value);
        }
        (class, told)
    }
}

/// Creates the folder of a run and, in it, the folder for the collectors' files.
///
/// # Errors
///
/// [`Error::FolderExists`] if the folder is not empty: a run never replaces another.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf> {
    let raw = folder.join("raw");
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(io_error(parent))?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_empty(folder) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::FolderExists {
                folder: folder.display().to_string(),
            });
        }
        made => made.map_err(io_error(folder))?,
    }
    fs::create_dir(&raw).map_err(io_error(&raw))?;
    Ok(raw)
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the first of `base`, `base-2`, `base-3`, ... that does not exist or is an empty folder.
#[must_use]
pub fn next_folder(base: &Path) -> PathBuf {
    let name = base.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |number: u64| match number {
        1 => base.to_owned(),
        _ => base.with_file_name(format!("{name}-{number}")),
    };
    let free = |path: &PathBuf| !path.exists() || is_empty(path);
    let mut found = (1..u64::MAX).map(numbered).filter(free);
    found.next().unwrap_or_else(|| base.to_owned())
}
