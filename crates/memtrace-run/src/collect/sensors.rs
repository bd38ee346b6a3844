//! Sensors of the machine while an engine runs: CPU clock, temperature, GPUs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::{Value, json};

use crate::doctor::{on_path, system_text, temperature_c};

/// Interval between two readings of the CPU clock.
const CLOCK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval between two queries of a GPU's tool, which is slow to answer.
const GPU_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which a sensor checks for the end.
const TICK: Duration = Duration::from_millis(20);
const CPUS: &str = "/sys/devices/system/cpu";
const MIB: f64 = 1_048_576.0;

/// First, minimum, mean, maximum and last value of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Series {
    first: f64,
    least: f64,
    most: f64,
    last: f64,
    sum: f64,
    count: u32,
}

impl Series {
    fn push(&mut self, value: f64) {
        if self.count == 0 {
            (self.first, self.least, self.most) = (value, value, value);
        }
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.last = value;
        self.sum += value;
        self.count += 1;
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }

    fn of(self, value: impl Fn(&Self) -> f64) -> Option<f64> {
        (self.count > 0).then(|| value(&self))
    }
}

/// Returns the mean CPU clock in MHz: from cpufreq, else from `/proc/cpuinfo`, which virtual
/// machines also have.
fn clock_mhz() -> Option<f64> {
    let mut series = Series::default();
    for file in cpu_files("cpufreq/scaling_cur_freq") {
        if let Some(khz) = number(&file) {
            series.push(khz / 1000.0);
        }
    }
    if series.count == 0 {
        let text = system_text("/proc/cpuinfo")?;
        for mhz in text.lines().filter_map(|line| line.strip_prefix("cpu MHz")) {
            if let Ok(mhz) = mhz.trim_start_matches([' ', '\t', ':']).trim().parse() {
                series.push(mhz);
            }
        }
    }
    series.mean()
}

/// Returns the paths of a file of every CPU.
fn cpu_files(file: &str) -> Vec<PathBuf> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(CPUS)?
            .map(|cpu| Ok(cpu?.path().join(file)))
            .collect()
    };
    // Without the folder there is nothing to read.
    list().unwrap_or_default()
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the clock limits of cpufreq for the first CPU.
fn clock_limits() -> [(&'static str, Value); 4] {
    let place = Path::new(CPUS).join("cpu0/cpufreq");
    let mhz = |file: &str| json!(number(&place.join(file)).map(|khz| khz / 1000.0));
    let governor = fs::read_to_string(place.join("scaling_governor")).ok();
    [
        ("hw_max_mhz", mhz("cpuinfo_max_freq")),
        ("scaling_max_mhz", mhz("scaling_max_freq")),
        ("scaling_min_mhz", mhz("scaling_min_freq")),
        (
            "governor",
            json!(governor.map(|text| text.trim().to_owned())),
        ),
    ]
}

/// One reading of a GPU, as far as its tool provides it.
#[derive(Debug, Clone, PartialEq, Default)]
struct GpuReading {
    name: String,
    total_mb: Option<f64>,
    used_mb: Option<f64>,
    utilisation_pct: Option<f64>,
    power_w: Option<f64>,
}

/// A tool that reports the state of GPUs: its arguments and its parser.
#[derive(Debug, Clone, Copy)]
struct GpuTool {
    program: &'static str,
    arguments: &'static [&'static str],
    read: fn(&str) -> Vec<GpuReading>,
}

const GPU_TOOLS: [GpuTool; 2] = [
    GpuTool {
        program: "nvidia-smi",
        arguments: &[
            "--query-gpu=name,memory.total,memory.used,utilization.gpu,power.draw",
            "--format=csv,noheader,nounits",
        ],
        read: nvidia,
    },
    GpuTool {
        program: "rocm-smi",
        arguments: &[
            "--showproductname",
            "--showmeminfo",
            "vram",
            "--showuse",
            "--showpower",
            "--csv",
        ],
        read: rocm,
    },
];

/// Parses lines of `name, MiB, MiB, %, W`; a value that a device does not know is a word in
/// brackets.
fn nvidia(text: &str) -> Vec<GpuReading> {
    let line = |line: &str| {
        let mut cells = line.split(',').map(str::trim);
        let name = cells.next().filter(|name| !name.is_empty())?.to_owned();
        let mut next = || cells.next().and_then(|cell| cell.parse().ok());
        Some(GpuReading {
            name,
            total_mb: next(),
            used_mb: next(),
            utilisation_pct: next(),
            power_w: next(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Parses a table with a header. The columns differ between versions and are found by their words;
/// memory is in bytes.
fn rocm(text: &str) -> Vec<GpuReading> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("device"));
    let header: Vec<String> = lines
        .next()
        .unwrap_or_default()
        .split(',')
        .map(str::to_lowercase)
        .collect();
    let line = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |words: &[&str]| {
            let at = header
                .iter()
                .position(|name| words.iter().all(|word| name.contains(word)))?;
            cells.get(at).copied()
        };
        let real = |words: &[&str]| cell(words).and_then(|cell| cell.parse::<f64>().ok());
        let device = cells.first().filter(|cell| cell.starts_with("card"))?;
        Some(GpuReading {
            name: cell(&["card", "series"]).unwrap_or(device).to_owned(),
            total_mb: real(&["vram total memory"]).map(|bytes| bytes / MIB),
            used_mb: real(&["vram total used"]).map(|bytes| bytes / MIB),
            utilisation_pct: real(&["gpu use"]),
            power_w: real(&["power", "(w)"]),
        })
    };
    lines.filter_map(line).collect()
}

/// State of a GPU over a run.
#[derive(Debug, Clone, Default)]
struct Gpu {
    name: String,
    total_mb: Option<f64>,
    used_mb: Series,
    utilisation_pct: Series,
    power_w: Series,
}

impl Gpu {
    fn push(&mut self, reading: GpuReading) {
        self.name = reading.name;
        self.total_mb = reading.total_mb.or(self.total_mb);
        let pairs = [
            (reading.used_mb, &mut self.used_mb),
            (reading.utilisation_pct, &mut self.utilisation_pct),
            (reading.power_w, &mut self.power_w),
        ];
        for (value, series) in pairs {
            if let Some(value) = value {
                series.push(value);
            }
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "vram_total_mb": self.total_mb,
            "vram_start_mb": self.used_mb.of(|used| used.first),
            "vram_peak_mb": self.used_mb.of(|used| used.most),
            "vram_end_mb": self.used_mb.of(|used| used.last),
            "utilisation_mean_pct": self.utilisation_pct.mean(),
            "power_mean_w": self.power_w.mean(),
            "samples": self.used_mb.count.max(self.utilisation_pct.count),
        })
    }
}

fn read_gpus(tool: &GpuTool) -> Vec<GpuReading> {
    let answer = Command::new(tool.program)
        .args(tool.arguments)
        .stdin(Stdio::null())
        .output();
    answer.map_or(Vec::new(), |answer| {
        (tool.read)(&String::from_utf8_lossy(&answer.stdout))
    })
}

/// Threads that read the sensors, each at its own interval.
pub(super) struct Sensors {
    stop: Arc<AtomicBool>,
    clock: thread::JoinHandle<Series>,
    heat: thread::JoinHandle<f64>,
    gpus: Option<(&'static str, thread::JoinHandle<Vec<Gpu>>)>,
}

/// Results of the sensors.
#[derive(Debug, Default)]
pub(super) struct Sensed {
    clock: Series,
    gpu_tool: Option<&'static str>,
    gpus: Vec<Gpu>,
    /// The highest temperature, degrees Celsius; 0 when unknown.
    pub(super) peak_temperature_c: f64,
}

/// Calls `read` immediately, at every interval, and a last time at the end.
fn at_intervals(stop: &AtomicBool, interval: Duration, mut read: impl FnMut()) {
    loop {
        read();
        let since = Instant::now();
        while since.elapsed() < interval {
            if stop.load(Ordering::Relaxed) {
                read();
                return;
            }
            thread::sleep(TICK.min(interval));
        }
    }
}

impl Sensors {
    /// Starts the sensors; temperatures have an interval of their own.
    pub(super) fn start(heat_interval: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = || Arc::clone(&stop);
        let clock = {
            let stop = stopped();
            thread::spawn(move || {
                let mut series = Series::default();
                at_intervals(&stop, CLOCK_INTERVAL, || {
                    if let Some(mhz) = clock_mhz() {
                        series.push(mhz);
                    }
                });
                series
            })
        };
        let heat = {
            let stop = stopped();
            thread::spawn(move || {
                let mut peak = 0.0_f64;
                at_intervals(&stop, heat_interval, || peak = peak.max(temperature_c()));
                peak
            })
        };
        let tool = GPU_TOOLS.into_iter().find(|tool| on_path(tool.program));
        let gpus = tool.map(|tool| {
            let stop = stopped();
            let watch = move || {
                let mut gpus: Vec<Gpu> = Vec::new();
                at_intervals(&stop, GPU_INTERVAL, || {
                    for (at, reading) in read_gpus(&tool).into_iter().enumerate() {
                        if at == gpus.len() {
                            gpus.push(Gpu::default());
                        }
                        if let Some(gpu) = gpus.get_mut(at) {
                            gpu.push(reading);
                        }
                    }
                });
                gpus
            };
            (tool.program, thread::spawn(watch))
        });
        Self {
            stop,
            clock,
            heat,
            gpus,
        }
    }

    /// Reads a last time. A sensor that failed has no values.
    pub(super) fn end(self) -> Sensed {
        self.stop.store(true, Ordering::Relaxed);
        let (gpu_tool, gpus) = match self.gpus {
            Some((tool, gpus)) => (Some(tool), gpus.join().unwrap_or_default()),
            None => (None, Vec::new()),
        };
        Sensed {
            clock: self.clock.join().unwrap_or_default(),
            gpu_tool,
            gpus,
            peak_temperature_c: self.heat.join().unwrap_or_default(),
        }
    }
}

impl Sensed {
    /// Returns `cpu_frequency`: first, minimum, mean, last, and the limits; null if the machine
    /// does not report it.
    pub(super) fn cpu_frequency(&self) -> Value {
        let mut found = json!({
            "start_mhz": self.clock.of(|clock| clock.first),
            "min_mhz": self.clock.of(|clock| clock.least),
            "mean_mhz": self.clock.mean(),
            "end_mhz": self.clock.of(|clock| clock.last),
            "samples": self.clock.count,
        });
        if let Some(members) = found.as_object_mut() {
            for (name, value) in clock_limits() {
                members.insert(name.to_owned(), value);
            }
        }
        found
    }

    /// Returns `gpu`: the tool used and its values per device; null without a tool.
    pub(super) fn gpu(&self) -> Value {
        match self.gpu_tool {
            None => Value::Null,
            Some(tool) => json!({
                "source": tool,
                "devices": self.gpus.iter().map(Gpu::json).collect::<Vec<_>>(),
            }),
        }
    }

    /// Returns the mean total power of all GPUs in watts; `None` if no GPU reports it.
    pub(super) fn gpu_power_draw_w(&self) -> Option<f64> {
        let known: Vec<f64> = self
            .gpus
            .iter()
            .filter_map(|gpu| gpu.power_w.mean())
            .collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_tools_are_read() {
        let text =
            "NVIDIA A100-SXM4-80GB, 81920, 1024, 37, 61.25\nTesla T4, 15360, 3, [N/A], [N/A]\n";
        let found = nvidia(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "NVIDIA A100-SXM4-80GB");
        assert_eq!(
            (found[0].total_mb, found[0].used_mb),
            (Some(81920.0), Some(1024.0))
        );
        assert_eq!(
            (found[0].utilisation_pct, found[0].power_w),
            (Some(37.0), Some(61.25))
        );
        assert_eq!(
            (found[1].used_mb, found[1].utilisation_pct),
            (Some(3.0), None)
        );
        // Older drivers omit the power.
        assert_eq!(nvidia("T, 1, 2, 3")[0].power_w, None);
        assert!(nvidia("\n").is_empty());

        let text = "WARNING: low power state\ndevice,Average Graphics Package Power (W),GPU use (%),VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series\ncard0,41.0,12,17163091968,1048576,Radeon VII\n\n";
        let found = rocm(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "Radeon VII");
        assert_eq!(
            (found[0].total_mb, found[0].used_mb),
            (Some(16368.0), Some(1.0))
        );
        assert_eq!(
            (found[0].utilisation_pct, found[0].power_w),
            (Some(12.0), Some(41.0))
        );
        assert!(rocm("no devices\n").is_empty());
    }

    #[test]
    fn series_keep_their_ends_and_extremes() {
        let mut gpu = Gpu::default();
        for (used, busy) in [(5.0, 10.0), (9.0, 50.0), (7.0, 0.0)] {
            gpu.push(GpuReading {
                name: "g".to_owned(),
                used_mb: Some(used),
                utilisation_pct: Some(busy),
                ..GpuReading::default()
            });
        }
        let found = gpu.json();
        let figure = |name: &str| found[name].as_f64();
        assert_eq!(figure("vram_start_mb"), Some(5.0));
        assert_eq!(figure("vram_peak_mb"), Some(9.0));
        assert_eq!(figure("vram_end_mb"), Some(7.0));
        assert_eq!(figure("utilisation_mean_pct"), Some(20.0));
        assert_eq!(
            (&found["power_mean_w"], &found["samples"]),
            (&Value::Null, &json!(3))
        );
        assert_eq!(Series::default().mean(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sensors_are_read_at_the_start_and_at_the_end() {
        let sensed = Sensors::start(Duration::from_secs(60)).end();
        let found = sensed.cpu_frequency();
        assert!(found["samples"].as_u64() >= Some(2) || clock_mhz().is_none());
        assert!(found["min_mhz"].as_f64() <= found["mean_mhz"].as_f64());
        assert!(found.get("governor").is_some() && sensed.peak_temperature_c >= 0.0);
    }
}
