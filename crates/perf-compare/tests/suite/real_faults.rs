//! Faults planted into published recordings of healthy engines, with the side effects that they have: the recordings have
//! gaps, mixed counters and noise that no simulator thinks of.

use std::collections::BTreeMap;

use perf_compare::{Options, Report, Side, compare};

use crate::data::{recordings, text};
use crate::simulate::Noise;

/// What a fault does. Durations and calls by kind of work and name, counters by name in native units.
struct Fault {
    cause: &'static str,
    /// Factor on the cycle.
    cycle: f64,
    dur: fn(&str, &str, Rank) -> f64,
    calls: fn(&str) -> f64,
    counter: fn(&str, f64) -> f64,
    /// Only recordings of several ranks.
    ranks: bool,
}

/// Whether a row is of the first process.
type Rank = bool;

const HEALTHY: Fault = Fault {
    cause: "none",
    cycle: 1.0,
    dur: |_, _, _| 1.0,
    calls: |_| 1.0,
    counter: |_, value| value,
    ranks: false,
};

fn is_collective(kind: &str, name: &str) -> bool {
    kind == "gpu_comm" || name.contains("cross_device_reduce")
}

fn is_kernel(kind: &str, name: &str) -> bool {
    kind == "gpu_compute" && !is_collective(kind, name)
}

fn faults() -> Vec<Fault> {
    vec![
        HEALTHY,
        Fault {
            cause: "cpu_contention",
            cycle: 1.1,
            dur: |kind, _, _| match kind {
                "runq" => 6.0,
                "disk_read_and_write" => 1.3,
                "oncpu" => 1.05,
                _ => 1.0,
            },
            counter: |name, value| match name {
                "host_cpu_usage" => (value + 45.0).min(100.0),
                "cpu_frequency" => value * 0.95,
                "gpu_usage" | "process_gpu_usage" | "process_cpu_usage" => value * 0.9,
                _ => value,
            },
            ..HEALTHY
        },
        // A quota: nobody else is seen.
        Fault {
            cause: "cpu_contention",
            cycle: 1.05,
            dur: |kind, _, _| if kind == "runq" { 4.0 } else { 1.0 },
            ..HEALTHY
        },
        // A neighbour on the device also costs some of the clock.
        Fault {
            cause: "gpu_contention",
            cycle: 1.03,
            dur: |kind, name, _| match kind {
                _ if is_kernel(kind, name) => 1.5 + 0.1 * (name.len() % 4) as f64,
                "gpu_memcpy_d2d" => 1.2,
                _ => 1.0,
            },
            counter: |name, value| match name {
                "gpu_usage" => value.max(95.0),
                "gpu_sm_util" => value.max(0.9),
                "gpu_sm_frequency" | "gpu_frequency" => value * 0.92,
                "process_gpu_usage" => (value * 1.3).min(100.0),
                "gpu_mem_used%" => value + 4.0,
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "gpu_frequency",
            dur: |kind, name, _| if is_kernel(kind, name) { 1.4 } else { 1.0 },
            counter: |name, value| match name {
                "gpu_sm_frequency" | "gpu_frequency" => value * 0.65,
                "gpu_usage" | "process_gpu_usage" => (value * 1.4).min(100.0),
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "memory_pressure",
            cycle: 1.08,
            dur: |kind, _, _| match kind {
                "runq" => 1.5,
                "disk_read_and_write" => 1.3,
                "oncpu" => 1.1,
                _ => 1.0,
            },
            counter: |name, value| match name {
                "host_mem_available" | "host_mem_cache" => value * 0.3,
                "host_mem_usage" => (value + 50.0).min(99.0),
                "process_mem_swap" => value + 2e8,
                "host_cpu_usage" => value + 6.0,
                _ => value,
            },
            ..HEALTHY
        },
        // Waiting for the disk is counted as use of the processor.
        Fault {
            cause: "disk_contention",
            cycle: 1.4,
            dur: |kind, _, _| {
                if kind == "disk_read_and_write" {
                    6.0
                } else {
                    1.0
                }
            },
            counter: |name, value| match name {
                "host_cpu_usage" => value + 15.0,
                "gpu_usage" => value * 0.8,
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "pcie_contention",
            cycle: 1.03,
            dur: |kind, _, _| match kind {
                "gpu_memcpy_h2d" | "gpu_memcpy_d2h" => 3.0,
                _ => 1.0,
            },
            counter: |name, value| match name {
                "gpu_pcie_transmit" | "gpu_pcie_receive" => value + 8e9,
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "network_contention",
            cycle: 1.05,
            dur: |kind, _, _| if kind == "gpu_comm" { 2.0 } else { 1.0 },
            counter: |name, value| match name {
                "net_tx_rate" | "net_rx_rate" => value + 3e9,
                "host_cpu_usage" => value + 1.0,
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "host_code",
            cycle: 1.15,
            dur: |kind, _, _| if kind == "oncpu" { 1.15 } else { 1.0 },
            counter: |name, value| match name {
                "gpu_usage" | "process_gpu_usage" | "gpu_sm_util" => value * 0.87,
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "gpu_kernel",
            dur: |kind, name, _| {
                let slow = is_kernel(kind, name) && name.contains("stages_64x6");
                if slow { 1.5 } else { 1.0 }
            },
            ..HEALTHY
        },
        Fault {
            cause: "workload_shift",
            cycle: 1.3,
            dur: |kind, _, _| if kind.starts_with("gpu_") { 1.6 } else { 1.3 },
            calls: |kind| if kind.starts_with("gpu_") { 1.6 } else { 1.3 },
            counter: |name, value| match name {
                "gpu_usage" | "process_gpu_usage" => (value * 1.2).min(100.0),
                _ => value,
            },
            ..HEALTHY
        },
        // Longer contexts: attention most of all.
        Fault {
            cause: "workload_shift",
            cycle: 1.08,
            dur: |kind, name, _| match kind {
                _ if !is_kernel(kind, name) => 1.0,
                _ if name.contains("flash_fwd") || name.contains("PagedKVCache") => 2.5,
                _ if name.contains("gemm") => 1.15,
                _ => 1.4,
            },
            counter: |name, value| match name {
                "gpu_usage" | "process_gpu_usage" => (value * 1.4).min(100.0),
                "gpu_sm_util" => (value * 1.4).min(1.0),
                _ => value,
            },
            ..HEALTHY
        },
        Fault {
            cause: "nvlink_contention",
            dur: |kind, name, _| if is_collective(kind, name) { 1.5 } else { 1.0 },
            counter: |name, value| match name {
                "gpu_link_transmit" | "gpu_link_receive" => value + 6e10,
                _ => value,
            },
            ranks: true,
            ..HEALTHY
        },
        Fault {
            cause: "collective_straggler",
            cycle: 1.06,
            dur: |kind, name, first| match (is_collective(kind, name), first) {
                (true, false) => 1.15,
                (false, true) if kind == "gpu_compute" => 1.3,
                _ => 1.0,
            },
            ranks: true,
            ..HEALTHY
        },
    ]
}

/// Metrics that rows carry times 100.
fn scale(metric: &str, value: f64) -> f64 {
    let raw = metric.contains("frequency") || metric.contains("link_") || metric.contains("pcie_");
    if raw && value > 150.0 { 100.0 } else { 1.0 }
}

/// The recording with a fault, and with every duration varied a little.
fn plant(perf: &str, counters: &str, fault: &Fault, seed: u64) -> Side {
    let mut noise = Noise::new(seed);
    let mut reader = csv::Reader::from_reader(perf.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<Vec<String>> = reader
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
        .collect();
    let number = |text: &str| text.parse::<f64>().unwrap();
    let first = rows.iter().map(|row| row[1].clone()).min().unwrap();
    // Old and new begin and length of each cycle.
    let mut cycles: BTreeMap<String, [f64; 4]> = BTreeMap::new();
    for row in &rows {
        let old = [number(&row[14]), number(&row[13])];
        cycles.insert(row[0].clone(), [old[0], old[1], 0.0, 0.0]);
    }
    let mut at = 1e15;
    let mut in_order: Vec<&mut [f64; 4]> = cycles.values_mut().collect();
    in_order.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for cycle in in_order {
        cycle[2] = at;
        cycle[3] = cycle[1] * fault.cycle * (1.0 + 0.006 * noise.normal());
        at += cycle[3] + 1000.0;
    }
    let mut vary: BTreeMap<(String, String, String), f64> = BTreeMap::new();
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&header).unwrap();
    for mut row in rows {
        let cycle = cycles[&row[0]];
        let key = (row[0].clone(), row[1].clone(), row[4].clone());
        let by = *vary
            .entry(key)
            .or_insert_with(|| 1.0 + 0.012 * noise.normal());
        let dur = number(&row[10]) * (fault.dur)(&row[7], &row[4], row[1] == first) * by;
        let calls = number(&row[15]) * (fault.calls)(&row[7]);
        if let Ok(value) = row[8].parse::<f64>() {
            let times = scale(&row[5], value);
            let name = if row[5] == "gpu_mem_used" {
                "gpu_mem_used%"
            } else {
                &row[5]
            };
            row[8] = format!("{:.4}", (fault.counter)(name, value / times) * times);
        }
        row[3] = format!("{:.4}", dur / cycle[3] * 100.0);
        row[10] = format!("{dur:.4}");
        row[13] = format!("{:.4}", cycle[3]);
        row[14] = format!("{:.4}", cycle[2]);
        row[15] = format!("{:.0}", calls.max(1.0));
        out.write_record(&row).unwrap();
    }
    let perf = out.into_inner().unwrap();
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut reader = csv::Reader::from_reader(counters.as_bytes());
    out.write_record(reader.headers().unwrap()).unwrap();
    for row in reader.records() {
        let mut row: Vec<String> = row.unwrap().iter().map(str::to_owned).collect();
        let time = number(&row[1]);
        let inside = cycles
            .values()
            .find(|c| c[0] <= time && time <= c[0] + c[1]);
        let Some(cycle) = inside else { continue };
        row[1] = format!("{:.6}", cycle[2] + (time - cycle[0]) / cycle[1] * cycle[3]);
        // Samples of all devices are mixed here, and only one of them has the fault.
        if !row[0].starts_with("gpu_") {
            let base = match row[0].rsplit_once('_') {
                Some((base, pid)) if pid.parse::<f64>().is_ok() => base,
                _ => &row[0],
            };
            row[2] = format!("{:.6}", (fault.counter)(base, number(&row[2])));
        }
        out.write_record(&row).unwrap();
    }
    let counters = out.into_inner().unwrap();
    Side::from_csv("planted", &*perf, Some(&*counters)).unwrap()
}

fn judge(a: &Side, b: &Side) -> Report {
    let mut options = Options::default();
    options.permutations = 299;
    options.resamples = 199;
    options.threads = 2;
    compare(a, b, &options)
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn each_fault_in_each_recording() {
    let data = recordings();
    let mut wrong = Vec::new();
    for (scenario, ranks) in [
        ("SGLang/gpu_instability", false),
        ("vLLM/gpu_instability", false),
        ("SGLang/gpu_memory_squeeze_out_NVLink", true),
    ] {
        let from = data
            .join("Processed")
            .join(scenario)
            .join("normal_perf_data");
        let perf = text(&from.join("result_perf_data.csv.xz"));
        let counters = text(&from.join("result_counters_data.csv.xz"));
        let healthy = plant(&perf, &counters, &HEALTHY, 1);
        for (at, fault) in faults().iter().enumerate() {
            if fault.ranks && !ranks {
                continue;
            }
            let report = judge(&healthy, &plant(&perf, &counters, fault, 2 + at as u64));
            let verdict = &report.verdict;
            if verdict.cause != fault.cause {
                let why = verdict
                    .ruled_out
                    .iter()
                    .find(|out| out.cause == fault.cause);
                wrong.push(format!(
                    "{scenario}, {at} {}: {} ({:?})",
                    fault.cause,
                    verdict.summary,
                    why.map(|out| &out.why)
                ));
            } else if fault.cause != "none" {
                assert!(!verdict.evidence.is_empty());
                // Every other cause of the table has its reason, or what was not recorded.
                let others = || verdict.ruled_out.iter().chain(&verdict.not_judged);
                assert!(others().count() >= 12, "{:?}", verdict.ruled_out);
                assert!(others().all(|out| !out.why.is_empty()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
