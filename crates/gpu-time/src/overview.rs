//! Overview of a trace: hardware, software, date, steps, kernels, how busy the GPU was.

use std::collections::{BTreeMap, BTreeSet};

use report::human;
use serde::Serialize;
use serde_json::Value;
use trace_model::step_name::step_phase;
use trace_model::{ClockDomain, Trace};

use crate::comm::{host_collectives, host_communication};
use crate::{GpuWork, KernelOptions, Roles, Rules, account, kernels, steps};

/// Parts of names of Python functions and annotations, with their software. The first match of each
/// kind counts.
const ENGINES: &[(&str, &str)] = &[
    ("sglang/srt/", "SGLang"),
    ("vllm/v1/", "vLLM"),
    ("vllm/worker/", "vLLM"),
    ("vllm/model_executor/", "vLLM"),
    ("vllm::", "vLLM"),
    ("gpu_model_runner: ", "vLLM"),
    ("tensorrt_llm/", "TensorRT-LLM"),
    ("lmdeploy/", "LMDeploy"),
    ("sglang::", "SGLang"),
    ("megatron/", "Megatron-LM"),
    ("deepspeed/", "DeepSpeed"),
    ("diffusers/", "Diffusers"),
    ("transformers/", "Transformers"),
    ("torchtitan/", "TorchTitan"),
];
const FRAMEWORKS: &[(&str, &str)] = &[
    ("aten::", "PyTorch"),
    ("jax/", "JAX"),
    ("PjitFunction", "JAX"),
    ("tensorflow/", "TensorFlow"),
];

/// Overview of a trace.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// Models of the GPUs of the machine with the number of each, as the file lists them.
    pub gpu_models: BTreeMap<String, u64>,
    /// Number of devices with GPU activity.
    pub devices_used: u64,
    /// Serving or training software, from the names of functions.
    pub engine: Option<&'static str>,
    /// Framework, from the names of operators.
    pub framework: Option<&'static str>,
    /// Time of the first event in UTC, if the file gives wall time.
    pub recorded_utc: Option<String>,
    /// Number of steps marked by annotations.
    pub steps: u64,
    /// Number of steps by phase; `unknown` if the name states none.
    pub phases: BTreeMap<&'static str, u64>,
    /// Number of kernels, memcpys and memsets.
    pub gpu_events: u64,
    /// Time in which any of them ran on any device.
    pub gpu_busy_ns: i64,
    /// Time from the first start to the last end of them.
    pub gpu_span_ns: i64,
    /// The kernel with the most time.
    pub top_kernel: Option<TopKernel>,
    /// Text on collectives that the host carried out itself.
    pub host_communication: Option<String>,
}

/// The kernel with the most time.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TopKernel {
    /// Its name.
    pub name: String,
    /// Number of its runs.
    pub count: u64,
    /// Its share of the sum of all durations, in percent.
    pub share_gpu_pct: f64,
}

impl Overview {
    /// Collects the overview. Cost: one pass over the names, the slices and the GPU activity.
    pub fn new(work: &GpuWork<'_>) -> Self {
        let trace = work.trace();
        let time = account(&mut Roles::new(work, Rules::Extended), work.events(), None);
        let devices: BTreeSet<i64> = work.events().iter().map(|e| e.device.0).collect();
        let found = steps(work, None);
        let mut phases = BTreeMap::new();
        for step in &found {
            let phase = step_phase(&step.name).map_or("unknown", |phase| phase.name());
            *phases.entry(phase).or_insert(0) += 1;
        }
        let groups = kernels(work, work.events(), &KernelOptions::default()).groups;
        let top = groups.into_iter().next().map(|group| TopKernel {
            count: group.spread.count,
            share_gpu_pct: group.share_gpu_pct,
            name: group.name,
        });
        Self {
            gpu_models: gpu_models(trace),
            devices_used: devices.len() as u64,
            engine: named(trace, ENGINES),
            framework: named(trace, FRAMEWORKS),
            recorded_utc: recorded(trace),
            steps: found.len() as u64,
            phases,
            gpu_events: time.gpu_events,
            gpu_busy_ns: time.busy_ns,
            gpu_span_ns: time.span_ns,
            top_kernel: top,
            host_communication: host_communication(&host_collectives(trace)),
        }
    }

    /// Returns the share of the span in which a GPU was busy, in percent.
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    pub fn busy_pct(&self) -> Option<f64> {
        let share = || 100.0 * self.gpu_busy_ns as f64 / self.gpu_span_ns as f64;
        (self.gpu_span_ns > 0).then(share)
    }

    /// Returns `8 x NVIDIA B200, 1 of them used`, if the file lists GPUs.
    pub fn gpus(&self) -> Option<String> {
        let models = self.gpu_models.iter();
        let models: Vec<String> = models.map(|(name, n)| format!("{n} x {name}")).collect();
        let listed: u64 = self.gpu_models.values().sum();
        let used = match self.devices_used {
            used if used == listed || used == 0 => String::new(),
            used => format!(", {used} with GPU activity"),
        };
        (!models.is_empty()).then(|| models.join(", ") + &used)
    }

    /// Returns `vLLM on PyTorch`, as far as it is known.
    pub fn software(&self) -> Option<String> {
        match (self.engine, self.framework) {
            (Some(engine), Some(framework)) => Some(format!("{engine} on {framework}")),
            (engine, framework) => engine.or(framework).map(str::to_owned),
        }
    }

    /// Returns `12 steps (10 decode, 2 prefill)`, if steps are marked.
    pub fn steps_text(&self) -> Option<String> {
        let known = self.phases.iter().filter(|(phase, _)| **phase != "unknown");
        let known: Vec<String> = known.map(|(phase, n)| format!("{n} {phase}")).collect();
        let phases = match known.is_empty() {
            true => String::new(),
            false => format!(" ({})", known.join(", ")),
        };
        let plural = if self.steps == 1 { "" } else { "s" };
        (self.steps > 0).then(|| format!("{} step{plural}{phases}", human::count(self.steps)))
    }
}

/// Returns the first entry whose part is in a name of the trace.
fn named(trace: &Trace, known: &[(&str, &'static str)]) -> Option<&'static str> {
    let mut found: Option<usize> = None;
    for (_, name) in trace.strings().iter() {
        let limit = found.unwrap_or(known.len());
        let at = known[..limit]
            .iter()
            .position(|(part, _)| name.contains(part));
        found = at.or(found);
        if found == Some(0) {
            break;
        }
    }
    known.get(found?).map(|(_, software)| *software)
}

/// Returns the GPUs that Kineto lists under `deviceProperties`.
fn gpu_models(trace: &Trace) -> BTreeMap<String, u64> {
    let mut models = BTreeMap::new();
    let listed = trace.meta().entry("deviceProperties").unwrap_or_default();
    let listed: Value = serde_json::from_str(listed).unwrap_or_default();
    let names = listed.as_array().map_or(&[][..], Vec::as_slice).iter();
    for name in names.filter_map(|device| device["name"].as_str()) {
        let name = if name.is_empty() {
            "GPU without a name"
        } else {
            name
        };
        *models.entry(name.to_owned()).or_insert(0) += 1;
    }
    models
}

/// Returns the time of the first event as `2025-02-25 06:14:39 UTC`, if the trace has wall time.
fn recorded(trace: &Trace) -> Option<String> {
    let meta = trace.meta();
    let stored = trace.slices().next().map(|slice| slice.ts().nanos());
    let outlined = trace.outlines().groups().iter().map(|group| group.first_ns);
    let start = stored.into_iter().chain(outlined).min()?;
    let ns = match (meta.base_time_ns, meta.clock) {
        (0, ClockDomain::RealTime) => start,
        (0, _) => return None,
        (base, _) => start.checked_add(base)?,
    };
    Some(utc(u64::try_from(ns).ok()? / 1_000_000_000))
}

/// Returns seconds since 1970 as a date and time.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Converts days to a date: Howard Hinnant, "chrono-compatible low-level date algorithms",
    // civil_from_days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date --utc --date=@SECONDS`: leap days, ends of years and centuries.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
