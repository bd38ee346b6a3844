//! One run of a command under a collector: started, watched, waited for.

use std::fs;
use std::path::Path;
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

/// What was seen of a run.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) status: ExitStatus,
    pub(super) interrupted: bool,
    pub(super) marks: Marks,
    /// Beginning and end, of the monotonic clock.
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) duration_s: f64,
    pub(super) watched: Watched,
    sensed: Sensed,
    baseline: Baseline,
    throttled: u64,
}

impl Observed {
    /// Runs the words of a command line to its end, or until it is to stop.
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
        // A clock that is read first must find out where it stands.
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

    /// Says in the metadata what was seen of the machine and of ourselves, and judges by it.
    pub(super) fn describe(
        &self,
        folder: &Path,
        options: &RunOptions,
        metadata: &mut Map<String, Value>,
    ) -> Validity {
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
        class
    }
}

/// The folder for what collectors write; what an earlier run left there goes with its manifest.
pub(super) fn prepare(folder: &Path) -> Result<std::path::PathBuf> {
    let raw = folder.join("raw");
    fs::create_dir_all(&raw).map_err(io_error(&raw))?;
    // What an earlier run left is not complete any more.
    crate::manifest::remove_manifest(folder)?;
    Ok(raw)
}
