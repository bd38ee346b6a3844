//! Adds what a GPU's log and an engine's log tell to the document of a trace.

use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::Stats;
use blkio_parser::analyse::user_phases::Named;
use serde_json::Value;

use super::{ClockHint, align, engine, engine_phases, gpu, held, held_for_phases};
use crate::companion_values::{engine_value, gpu_value};
use crate::document::phases_beside;
use crate::limit::Yardstick;
use crate::phases::GpuSpan;

/// Logs of the same run as a trace.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Logs {
    /// Utilisation of the GPU.
    pub gpu: Option<GpuLog>,
    /// Standard output of the engine.
    pub engine: Option<EngineLog>,
}

/// Adds the members `gpu`, `engine`, `gpu_against_io` and `engine_phases` to the document of a trace, and finds `phases` anew
/// where the clocks are known well enough for the GPU to tell them. Returns the utilisation on the clock of the trace, none
/// where the clocks cannot be aligned.
#[must_use]
pub fn add_logs(
    document: &mut Value,
    stats: &Stats,
    logs: &Logs,
    hint: &ClockHint,
    yardstick: Option<&Yardstick>,
) -> Vec<GpuSpan> {
    let mut put = |key: &str, value: Value| {
        if let Some(map) = document.as_object_mut() {
            map.insert(key.to_owned(), value);
        }
    };
    if let Some(log) = &logs.gpu {
        put("gpu", gpu_value(log));
    }
    if let Some(log) = &logs.engine {
        put("engine", engine_value(log));
    }
    let log = logs.gpu.as_ref();
    let aligned = log.map(|log| align(stats, log, logs.engine.as_ref(), hint));
    let clock = aligned.as_ref().and_then(|aligned| aligned.as_ref().ok());
    let on_clock = log.zip(clock);
    if let Some((log, clock)) = on_clock {
        let spans = held_for_phases(stats, log, clock);
        put("phases", phases_beside(stats, &spans, yardstick));
    }
    let phases = logs.engine.as_ref().map(|log| {
        let anchored = hint.anchored();
        engine(stats, log, clock.or(anchored.as_ref()), yardstick)
    });
    if let (Some(log), Some(aligned)) = (log, &aligned) {
        let named = phases.iter().flat_map(|of| engine_phases(stats, of));
        let named: Vec<Named> = named.collect();
        put("gpu_against_io", gpu(stats, log, aligned, &named));
    }
    if let Some(phases) = phases {
        put("engine_phases", phases);
    }
    on_clock.map_or(Vec::new(), |(log, clock)| held(stats, log, clock))
}
