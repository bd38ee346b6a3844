//! Time and counters of each function in each cycle.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::cycles::Cycle;
use super::event::{Events, Kind, Sample};
use super::{Options, PerfRow};
use crate::num::{mean_std, real};
use crate::topology::Topology;

/// What a function is, by category and name; decides which counters speak of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum FuncType {
    GpuComm,
    GpuCompute,
    MemcpyH2d,
    MemcpyD2h,
    MemcpyD2d,
    SyscallMem,
    CpuSync,
    Disk,
    OnCpu,
    RunQ,
}

impl FuncType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GpuComm => "gpu_comm",
            Self::GpuCompute => "gpu_compute",
            Self::MemcpyH2d => "gpu_memcpy_h2d",
            Self::MemcpyD2h => "gpu_memcpy_d2h",
            Self::MemcpyD2d => "gpu_memcpy_d2d",
            Self::SyscallMem => "cpu_os_syscall_mem",
            Self::CpuSync => "cpu_sync",
            Self::Disk => "disk_read_and_write",
            Self::OnCpu => "oncpu",
            Self::RunQ => "runq",
        }
    }

    pub(crate) fn is_gpu(self) -> bool {
        matches!(
            self,
            Self::GpuComm | Self::GpuCompute | Self::MemcpyH2d | Self::MemcpyD2h | Self::MemcpyD2d
        )
    }

    pub(crate) fn counters(self) -> &'static [&'static str] {
        match self {
            Self::GpuCompute => &[
                "process_gpu_usage",
                "gpu_usage",
                "gpu_sm_util",
                "gpu_sm_occupancy",
                "gpu_mem_used",
                "gpu_frequency",
                "gpu_sm_frequency",
                "gpu_mem_frequency",
            ],
            Self::GpuComm => &[
                "process_gpu_usage",
                "gpu_usage",
                "gpu_sm_util",
                "gpu_sm_occupancy",
                "gpu_pcie_transmit",
                "gpu_pcie_receive",
                "gpu_link_transmit",
                "gpu_link_receive",
                "net_tx_rate",
                "net_rx_rate",
            ],
            Self::MemcpyH2d | Self::MemcpyD2h => &["gpu_pcie_transmit", "gpu_pcie_receive"],
            Self::MemcpyD2d => &[
                "gpu_link_transmit",
                "gpu_link_receive",
                "net_tx_rate",
                "net_rx_rate",
            ],
            Self::OnCpu => &[
                "process_cpu_usage",
                "host_cpu_usage",
                "host_mem_usage",
                "process_mem_usage",
                "cpu_frequency",
                "cpu_temp",
                "cpu_power",
            ],
            Self::RunQ => &[
                "process_cpu_usage",
                "host_cpu_usage",
                "host_mem_usage",
                "process_mem_usage",
            ],
            Self::SyscallMem => &["host_mem_usage", "process_mem_usage", "process_mem_rss"],
            Self::Disk => &["disk_usage"],
            Self::CpuSync => &[],
        }
    }

    pub(crate) fn of(kind: Kind, name: &str, tid: &str) -> Option<Self> {
        Some(match kind {
            Kind::Kernel if name.contains("nccl") => Self::GpuComm,
            Kind::Kernel => Self::GpuCompute,
            Kind::Memset if !name.starts_with("Memcpy") => Self::MemcpyH2d,
            _ if kind == Kind::Memcpy || name.starts_with("Memcpy") => {
                if name.contains("HtoD") {
                    Self::MemcpyH2d
                } else if name.contains("DtoH") {
                    Self::MemcpyD2h
                } else if name.contains("DtoD") {
                    Self::MemcpyD2d
                } else {
                    Self::MemcpyH2d
                }
            }
            _ if matches!(name, "mmap" | "mprotect" | "munmap") => Self::SyscallMem,
            Kind::Runtime if name == "cudaStreamSynchronize" => Self::CpuSync,
            Kind::App if tid.contains("user probe") && name == "cuStreamSynchronize" => {
                Self::CpuSync
            }
            Kind::Disk if matches!(name, "read" | "readv" | "write") => Self::Disk,
            _ if name
                .get(..5)
                .is_some_and(|h| h.eq_ignore_ascii_case("oncpu")) =>
            {
                Self::OnCpu
            }
            _ if name == "runq" => Self::RunQ,
            _ => return None,
        })
    }
}

/// All counters that speak of some function.
const COUNTERS: [&str; 24] = [
    "process_gpu_usage",
    "process_cpu_usage",
    "process_mem_usage",
    "process_mem_rss",
    "host_cpu_usage",
    "host_mem_usage",
    "gpu_usage",
    "gpu_sm_util",
    "gpu_sm_occupancy",
    "gpu_mem_used",
    "gpu_frequency",
    "gpu_sm_frequency",
    "gpu_mem_frequency",
    "gpu_pcie_transmit",
    "gpu_pcie_receive",
    "gpu_link_transmit",
    "gpu_link_receive",
    "net_tx_rate",
    "net_rx_rate",
    "cpu_frequency",
    "cpu_temp",
    "cpu_power",
    "disk_usage",
    "gpu_temp",
];

fn base_name(counter: &str) -> Option<&'static str> {
    COUNTERS
        .into_iter()
        .filter(|base| counter.starts_with(base))
        .max_by_key(|base| base.len())
}

/// Instances of one counter in one cycle, in order of time.
type Series = Vec<(f64, f64)>;

struct CounterSet {
    series: FxHashMap<(&'static str, Option<u32>, i64), Series>,
    /// All hosts count as one if the cycle has seen at most one.
    one_host: bool,
}

impl CounterSet {
    fn new(samples: &[&Sample], events: &Events<'_>, hosts: usize) -> Self {
        let one_host = hosts <= 1;
        let mut series: FxHashMap<_, Series> = FxHashMap::default();
        for s in samples {
            if let Some(base) = base_name(events.names.get(s.name)) {
                let host = if one_host { None } else { s.host };
                series
                    .entry((base, host, s.instance))
                    .or_default()
                    .push((s.ts, s.value));
            }
        }
        Self { series, one_host }
    }

    fn find(&self, base: &'static str, host: Option<u32>, instance: i64) -> Option<&Series> {
        let host = if self.one_host { None } else { host };
        self.series
            .get(&(base, host, instance))
            .or_else(|| self.series.get(&(base, host, -1)))
    }
}

/// Mean and spread of a counter during an event, and whether there were samples enough.
fn level(series: &Series, from: f64, to: f64) -> (f64, f64, bool) {
    let low = series.partition_point(|s| s.0 < from);
    let high = series.partition_point(|s| s.0 <= to).max(low);
    if high - low >= 3 {
        let inside: Vec<f64> = series[low..high].iter().map(|s| s.1).collect();
        let (mean, std) = mean_std(&inside);
        return (mean, std, true);
    }
    let (a, b) = (interpolate(series, from), interpolate(series, to));
    (f64::midpoint(a, b), (a - b).abs() / 2.0, false)
}

/// Linear between samples, constant outside.
pub(crate) fn interpolate(series: &[(f64, f64)], at: f64) -> f64 {
    let next = series.partition_point(|s| s.0 <= at);
    match (
        next.checked_sub(1).and_then(|i| series.get(i)),
        series.get(next),
    ) {
        (Some(a), Some(b)) => {
            let slope = (b.1 - a.1) / (b.0 - a.0);
            slope * (at - a.0) + a.1
        }
        (Some(one), None) | (None, Some(one)) => one.1,
        (None, None) => 0.0,
    }
}

/// Where a function ran and what of it was measured.
#[derive(Default)]
struct Stats {
    dur: f64,
    instances: usize,
    real: usize,
    interpolated: usize,
    /// By counter: sums of weight, weighted mean, weighted variance.
    levels: BTreeMap<&'static str, (f64, f64, f64)>,
}

struct Item {
    ts: f64,
    end: f64,
    /// Sum of original durations.
    dur: f64,
    instances: usize,
}

/// Cores by the usage of processes, snapped to a usual number.
fn estimated_cores(samples: &[&Sample], events: &Events<'_>) -> f64 {
    let mut highest: BTreeMap<i64, f64> = BTreeMap::new();
    for s in samples {
        if events.names.get(s.name).starts_with("process_cpu_usage") {
            let h = highest.entry(s.instance).or_insert(0.0);
            *h = h.max(s.value);
        }
    }
    let needed: f64 = highest.values().map(|v| (v / 100.0).ceil()).sum();
    if needed <= 0.0 {
        return 1.0;
    }
    let mut best = 8.0;
    for cores in [16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0_f64] {
        if (cores - needed).abs() < (best - needed).abs() {
            best = cores;
        }
    }
    best
}

struct Scale<'a> {
    cores: f64,
    topology: Option<&'a Topology>,
    cpu_mhz: Option<f64>,
}

impl Scale<'_> {
    fn of(&self, base: &str, host: &str, device: Option<i64>) -> f64 {
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        if base == "process_cpu_usage" {
            return 100.0 * self.cores;
        }
        if let Some(topology) = self.topology {
            match base {
                "cpu_frequency" => return self.cpu_mhz.unwrap_or(1.0),
                "process_mem_usage" => {
                    if let Some(gb) = topology.memory_gb.get(host) {
                        return gb * GIB;
                    }
                }
                "gpu_mem_used" => {
                    let gb = device.and_then(|d| topology.gpu_gb.get(&(host.to_owned(), d)));
                    if let Some(gb) = gb {
                        return gb * GIB;
                    }
                }
                _ => {}
            }
        }
        let is_share = ["usage", "rate", "util", "occupancy"]
            .iter()
            .any(|word| base.contains(word));
        if is_share { 100.0 } else { 1.0 }
    }
}

/// Rows of one cycle, those of largest share first.
pub(crate) fn rows(
    events: &Events<'_>,
    cycle: &Cycle,
    number: usize,
    options: &Options,
    devices: &FxHashMap<i64, (Option<u32>, i64)>,
) -> Vec<PerfRow> {
    let length = cycle.end - cycle.start;
    let samples = samples_of(events, cycle);
    let mut hosts: Vec<u32> = Vec::new();
    let mut host_of_pid: BTreeMap<i64, u32> = BTreeMap::new();
    for m in &cycle.members {
        let e = &events.list[m.event as usize];
        if let Some(h) = e.host {
            host_of_pid.entry(e.pid).or_insert(h);
            if !hosts.contains(&h) {
                hosts.push(h);
            }
        }
    }
    let counters = CounterSet::new(&samples, events, hosts.len());
    let anchor = &events.list[cycle.representative as usize];
    let topology = options.topology.as_ref();
    let any_host = hosts.first().map_or("", |&h| events.names.get(h));
    let cores = match (options.cpu_cores, topology) {
        (Some(n), _) => real(n),
        (None, Some(t)) if t.cores.get(any_host).is_some_and(|&c| c > 0.0) => t.cores[any_host],
        _ => estimated_cores(&samples, events),
    };
    let scale = Scale {
        cores,
        topology,
        cpu_mhz: topology.and_then(|t| t.cpu_mhz.get(any_host).copied()),
    };
    let mut out = Vec::new();
    for ((name, pid, device), (func, items)) in items(events, cycle) {
        let host = host_of_pid.get(&pid).copied().or(anchor.host);
        let host_text = host.map_or_else(
            || format!("pid_{pid}_host"),
            |h| events.names.get(h).to_owned(),
        );
        let physical = device.and_then(|d| devices.get(&d)).map(|d| d.1);
        let mut stats = Stats::default();
        for item in &items {
            stats.dur += item.dur;
            stats.instances += item.instances;
            // A merged event is as long as its ends say, which binary64 rounds.
            let weight = if item.instances > 1 {
                item.end - item.ts
            } else {
                item.dur
            };
            for &base in func.counters() {
                let instance = if base.starts_with("process_") {
                    pid
                } else if func.is_gpu() {
                    physical.or(device).unwrap_or(-1)
                } else {
                    -1
                };
                let Some(series) = counters.find(base, host, instance) else {
                    continue;
                };
                let by = scale.of(base, &host_text, physical.or(device));
                let (mean, std, sampled) = level(series, item.ts, item.end);
                let (mean, std) = (mean / by, std / by);
                if sampled {
                    stats.real += 1;
                } else {
                    stats.interpolated += 1;
                }
                let sums = stats.levels.entry(base).or_default();
                sums.0 += weight;
                sums.1 += mean * weight;
                sums.2 += std * std * weight;
            }
        }
        let device_text = match (func.is_gpu(), physical, device) {
            (false, ..) => "Host".to_owned(),
            (true, Some(p), _) => format!("GPU {p}"),
            (true, None, d) => format!("GPU {} (virtual)", d.unwrap_or(-1)),
        };
        let status = match (stats.real, stats.interpolated) {
            (0, 1..) => "**",
            (1.., 1..) => "*",
            _ => " ",
        };
        let text = events.text(name).to_owned();
        let row = PerfRow {
            cycle: number,
            pid,
            hostname: host_text,
            beta_pct: if length > 0.0 {
                stats.dur / length * 100.0
            } else {
                0.0
            },
            simple_name: super::simple_name(&text),
            function_name: text,
            metric: None,
            device: device_text,
            func_type: func.name(),
            duration_us: stats.dur,
            interpolation: status,
            anchor_name: events.text(anchor.name).to_owned(),
            anchor_dur_us: length,
            cycle_start_us: cycle.start,
            instances: stats.instances,
            copy_bytes: None,
            kernel_class: "",
            device_us: None,
            calls: None,
        };
        if stats.levels.is_empty() {
            out.push(row);
            continue;
        }
        for (base, (weight, mean, variance)) in &stats.levels {
            let (mu, sigma) = if *weight > 0.0 {
                (mean / weight, (variance / weight).sqrt())
            } else {
                (0.0, 0.0)
            };
            out.push(PerfRow {
                metric: Some((base, mu * 100.0, sigma * 100.0)),
                ..row.clone()
            });
        }
    }
    out.sort_by(|a, b| {
        a.pid
            .cmp(&b.pid)
            .then(b.beta_pct.total_cmp(&a.beta_pct))
            .then_with(|| a.function_name.cmp(&b.function_name))
            .then_with(|| a.device.cmp(&b.device))
            .then_with(|| a.metric.map(|m| m.0).cmp(&b.metric.map(|m| m.0)))
    });
    out
}

type Key = (trace_model::StrId, i64, Option<i64>);

/// The events of each function, process and device; what ran on CPUs merged where it overlaps.
fn items(events: &Events<'_>, cycle: &Cycle) -> BTreeMap<Key, (FuncType, Vec<Item>)> {
    let mut map: BTreeMap<Key, (FuncType, Vec<Item>)> = BTreeMap::new();
    let mut on_cpu: BTreeMap<i64, Vec<(trace_model::StrId, f64, f64)>> = BTreeMap::new();
    let mut members: Vec<_> = cycle.members.iter().collect();
    members.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    for m in members {
        let e = &events.list[m.event as usize];
        let name = events.text(e.name);
        let Some(func) = FuncType::of(e.kind, name, events.names.get(e.tid)) else {
            continue;
        };
        if func == FuncType::OnCpu {
            on_cpu.entry(e.pid).or_default().push((e.name, m.ts, m.dur));
            continue;
        }
        let device = if func.is_gpu() { e.device } else { None };
        let entry = map
            .entry((e.name, e.pid, device))
            .or_insert_with(|| (func, Vec::new()));
        entry.0 = func;
        entry.1.push(Item {
            ts: m.ts,
            end: m.ts + m.dur,
            dur: m.dur,
            instances: 1,
        });
    }
    for (pid, list) in on_cpu {
        let mut merged: Option<(trace_model::StrId, Item)> = None;
        let mut done = Vec::new();
        for (name, ts, dur) in list {
            match &mut merged {
                Some((_, item)) if ts < item.end => {
                    item.end = item.end.max(ts + dur);
                    item.dur += dur;
                    item.instances += 1;
                }
                other => {
                    done.extend(other.take());
                    *other = Some((
                        name,
                        Item {
                            ts,
                            end: ts + dur,
                            dur,
                            instances: 1,
                        },
                    ));
                }
            }
        }
        done.extend(merged);
        for (name, item) in done {
            map.entry((name, pid, None))
                .or_insert_with(|| (FuncType::OnCpu, Vec::new()))
                .1
                .push(item);
        }
    }
    map
}

/// The samples from the first start to the last end of anything in the cycle.
pub(crate) fn samples_of<'e>(events: &'e Events<'_>, cycle: &Cycle) -> Vec<&'e Sample> {
    let (mut from, mut to) = (cycle.start, cycle.end);
    for m in &cycle.members {
        from = from.min(m.ts);
        to = to.max(m.ts + m.dur);
    }
    let low = events.samples.partition_point(|s| s.ts < from);
    let high = events.samples.partition_point(|s| s.ts <= to).max(low);
    events.samples[low..high].iter().collect()
}

/// Which physical device a logical one is; the last process that says so counts.
pub(crate) fn devices(
    events: &Events<'_>,
    topology: Option<&Topology>,
) -> FxHashMap<i64, (Option<u32>, i64)> {
    let mut map = FxHashMap::default();
    let Some(topology) = topology else {
        return map;
    };
    for e in &events.list {
        let (true, Some(device), Some(host)) = (e.kind.is_gpu(), e.device, e.host) else {
            continue;
        };
        if let Some(physical) = topology.gpu_of(events.names.get(host), e.pid) {
            map.insert(device, (Some(host), physical));
        }
    }
    map
}
