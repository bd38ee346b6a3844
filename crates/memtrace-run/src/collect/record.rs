//! Metadata of a run about the machine, the collector and the engine.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byte_source::OpenOptions;
use memtrace_labeller::{InputOptions, Names, RowStream};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::machine::free_bytes;
use crate::doctor::{
    cpu_model, facility, first_line, has_ac_power, has_memray, on_path, system_text,
};
use crate::error::Result;

/// Bytes at the end of a log that are searched for an engine's summary.
const TAIL_BYTES: usize = 64 << 10;
const MB: f64 = 1_048_576.0;

/// Reads a number from a system file.
fn system_number(path: &str) -> Option<f64> {
    system_text(path)?.parse().ok()
}

/// Returns the member `hardware`.
pub(super) fn hardware() -> Value {
    let highest = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq";
    json!({
        "cpu_model": cpu_model(),
        "cpu_freq_scaling_max_mhz": system_number(highest).map(|khz| khz / 1000.0),
    })
}

/// Returns the member `hardware_context`.
pub(super) fn hardware_context(folder: &Path) -> Value {
    let vendor = system_text("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("vendor_id"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let turbo = system_number("/sys/devices/system/cpu/intel_pstate/no_turbo")
        .map(|off| off == 0.0)
        .or_else(|| system_number("/sys/devices/system/cpu/cpufreq/boost").map(|on| on != 0.0));
    #[expect(clippy::cast_precision_loss, reason = "free space is shown in GB")]
    let free = free_bytes(folder).map(|bytes| bytes as f64 / (1024.0 * MB));
    json!({
        "cpu_model": cpu_model(),
        "cpu_vendor": vendor,
        "pmu_type": facility(),
        "pmu_facility_available": facility().is_some(),
        "ac_power": has_ac_power(),
        "turbo_enabled": turbo,
        "disk_free_gb": free,
    })
}

/// Returns the member `software`.
pub(super) fn software() -> Value {
    let version = system_text("/proc/version").unwrap_or_default();
    json!({
        "os": std::env::consts::OS,
        "kernel": system_text("/proc/sys/kernel/osrelease"),
        "hostname": system_text("/proc/sys/kernel/hostname"),
        "is_wsl2": version.to_lowercase().contains("microsoft"),
        "perf_bin": on_path("perf").then_some("perf"),
        "perf_version": first_line("perf", &["--version"]),
        "perf_event_paranoid": system_number("/proc/sys/kernel/perf_event_paranoid"),
        "memray_installed": has_memray(),
    })
}

/// Activity of the machine before the run started.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Baseline {
    /// Mean CPU share over the samples, percent.
    pub(super) cpu_pct: f64,
    cpu_pct_max: f64,
}

impl Baseline {
    /// Samples the machine for two seconds.
    pub(super) fn take() -> Self {
        let mut before = cpu_times();
        let mut shares = Vec::new();
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(200));
            let now = cpu_times();
            if let (Some((all, idle)), Some((all_now, idle_now))) = (before, now)
                && all_now > all
            {
                shares.push((1.0 - (idle_now - idle) / (all_now - all)) * 100.0);
            }
            before = now;
        }
        let mut count = 0.0;
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for share in shares {
            count += 1.0;
            sum += share;
            most = most.max(share);
        }
        Self {
            cpu_pct: if count > 0.0 { sum / count } else { 0.0 },
            cpu_pct_max: most,
        }
    }

    /// Returns the member `baseline`.
    pub(super) fn json(&self) -> Value {
        let memory = system_text("/proc/meminfo").unwrap_or_default();
        let field = |key: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let (total, free) = (field("MemTotal:"), field("MemAvailable:"));
        let load = system_text("/proc/loadavg")
            .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        json!({
            "cpu_pct": self.cpu_pct,
            "cpu_pct_max": self.cpu_pct_max,
            "mem_total_mb": total.map(|kb| kb / 1024.0),
            "mem_available_mb": free.map(|kb| kb / 1024.0),
            "mem_used_pct": total.zip(free).map(|(total, free)| (1.0 - free / total) * 100.0),
            "load_avg_1m": load,
            "timestamp_s": SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
        })
    }
}

/// Returns the ticks of all CPUs: total and idle.
fn cpu_times() -> Option<(f64, f64)> {
    let text = system_text("/proc/stat")?;
    let fields: Vec<f64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((fields.iter().sum(), idle))
}

/// Returns the member `collector` about the collected data.
pub(super) fn collected(
    collector: &str,
    raw: &Path,
    input: Option<&Path>,
) -> Result<Map<String, Value>> {
    let file = match collector {
        "memray" => "memray.bin",
        "perf" | "perf_mem" | "pagefaults" => "perf.data",
        _ => "process_monitor.csv",
    };
    let path = raw.join(file);
    let size = fs::metadata(&path).ok().map(|file| file.len());
    let mut warnings = Vec::new();
    if size.unwrap_or(0) == 0 {
        warnings.push(format!("{file} was not written"));
    }
    // The text of perf script does not contain the kernel's lost events.
    let (mut rows, mut lost) = (None, None);
    if file == "perf.data" && size.is_some() {
        let mut options = InputOptions::default();
        options.drop_kernel = false;
        let mut stream = RowStream::open_path(&path, &OpenOptions::default(), &options)?;
        let (mut names, mut batch) = (Names::new(), Vec::new());
        while stream.next_batch(&mut names, &mut batch)? {
            batch.clear();
        }
        let report = stream.report();
        (rows, lost) = (Some(report.rows), Some(report.lost));
        warnings.extend(report.damage);
    }
    if let Some(lost) = lost.filter(|lost| *lost > 0) {
        warnings.push(format!("{lost} samples lost"));
    }
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let coverage = rows
        .zip(lost)
        .filter(|(rows, lost)| rows + lost > 0)
        .map(|(rows, lost)| rows as f64 / (rows + lost) as f64);
    let value = json!({
        "available": true,
        "used": true,
        "output_file": format!("raw/{file}"),
        "output_file_size_bytes": size,
        "parse_success": input.is_some(),
        "dropped_samples": lost,
        "coverage_estimate": coverage,
        "warnings": warnings,
    });
    Ok(match value {
        Value::Object(members) => members,
        _ => Map::new(),
    })
}

/// Token counts that llama.cpp prints at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TokenCounts {
    prompt: u64,
    generated: u64,
    generation_ms: f64,
}

impl TokenCounts {
    /// Parses the end of the engine's output, if it has the counts.
    pub(super) fn of_logs(raw: &Path) -> Option<Self> {
        ["engine.stderr.log", "engine.stdout.log"]
            .iter()
            .filter_map(|file| fs::read(raw.join(file)).ok())
            .find_map(|bytes| {
                let tail = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..)?;
                Self::of_text(&String::from_utf8_lossy(tail))
            })
    }

    fn of_text(text: &str) -> Option<Self> {
        let line = |name: &str| -> Option<(f64, u64)> {
            let pattern = format!(r"(?m){name} *eval time = +([0-9.]+) ms / +([0-9]+) ");
            let pattern = Regex::new(&pattern).ok()?;
            let found = pattern.captures_iter(text).last()?;
            Some((
                found.get(1)?.as_str().parse().ok()?,
                found.get(2)?.as_str().parse().ok()?,
            ))
        };
        let (_, prompt) = line("prompt")?;
        let (generation_ms, generated) = line(r"(?:^|: ) *")?;
        Some(Self {
            prompt,
            generated,
            generation_ms,
        })
    }

    /// Adds them to `generation`.
    pub(super) fn tell(&self, generation: &mut Map<String, Value>) {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate =
            (self.generation_ms > 0.0).then(|| self.generated as f64 / self.generation_ms * 1000.0);
        generation.insert("avg_tokens_per_second".to_owned(), json!(rate));
        generation.insert("total_output_tokens".to_owned(), self.generated.into());
    }
}

/// Returns `prompt_outputs.json`: the prompt and the output.
pub(super) fn prompt_outputs(
    prompt: &str,
    raw: &Path,
    tokens: Option<TokenCounts>,
    duration_s: f64,
) -> Value {
    let output = fs::read(raw.join("engine.stdout.log")).unwrap_or_default();
    json!({"prompts": [{
        "index": 0,
        "prompt": prompt,
        "output": String::from_utf8_lossy(&output),
        "prompt_tokens": tokens.map(|tokens| tokens.prompt),
        "tokens_generated": tokens.map(|tokens| tokens.generated),
        "duration_s": duration_s,
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_llama_cpp_are_those_of_its_summary() {
        let text = "llama_perf_context_print:        load time =    1813.12 ms\n\
            llama_perf_context_print: prompt eval time =    1800.93 ms /     7 tokens (  257.28 ms per token)\n\
            llama_perf_context_print:        eval time =   13523.22 ms /     9 runs   ( 1931.89 ms per token)\n";
        let found = TokenCounts::of_text(text).unwrap();
        assert_eq!((found.prompt, found.generated), (7, 9));
        let mut generation = Map::new();
        found.tell(&mut generation);
        let rate = generation["avg_tokens_per_second"].as_f64().unwrap();
        assert!((rate - 9.0 / 13.523_22).abs() < 1e-9);
        assert_eq!(TokenCounts::of_text("prompt eval time =    x"), None);
        let only = "prompt eval time =    1.5 ms /     7 tokens";
        assert_eq!(TokenCounts::of_text(only), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_is_described() {
        assert!(software()["kernel"].is_string());
        assert!(
            hardware_context(Path::new("."))["disk_free_gb"]
                .as_f64()
                .unwrap()
                > 0.0
        );
        let baseline = Baseline::take();
        let json = baseline.json();
        assert!(baseline.cpu_pct <= baseline.cpu_pct_max);
        assert!(json["mem_available_mb"].as_f64() < json["mem_total_mb"].as_f64());
    }
}
