//! Which cycles stand out.

use std::collections::BTreeMap;

use super::PerfRow;
use super::cycles::Cycle;
use super::event::Events;
use super::metrics::samples_of;
use crate::num::mean_std;

/// Numbers of the cycles that stand out among those of their kind, at most two beside all that
/// started late.
pub(super) fn representatives(
    events: &Events<'_>,
    list: &[(usize, &Cycle)],
    rows: &[Vec<PerfRow>],
) -> Vec<usize> {
    let mut groups: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    let mut chosen = Vec::new();
    for ((number, cycle), rows) in list.iter().zip(rows) {
        if cycle.delayed {
            chosen.push(*number);
        }
        let (print, score) = fingerprint(events, cycle, rows);
        groups.entry(print).or_default().push((*number, score));
    }
    let mut scored: Vec<(f64, usize)> = Vec::new();
    for group in groups.values() {
        let scores: Vec<f64> = group.iter().map(|g| g.1).collect();
        let (mean, std) = mean_std(&scores);
        for &(number, score) in group {
            let z = if group.len() > 1 && std > 0.0 {
                (score - mean) / std
            } else {
                0.0
            };
            scored.push((z, number));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    chosen.extend(scored.iter().take(2).map(|s| s.1));
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// What limits the cycle, and how strongly.
fn fingerprint(events: &Events<'_>, cycle: &Cycle, rows: &[PerfRow]) -> (String, f64) {
    let mut compute: BTreeMap<&str, f64> = BTreeMap::new();
    let mut seen: Vec<(&str, i64, &str)> = Vec::new();
    let mut top: Option<&PerfRow> = None;
    for row in rows {
        let key = (row.function_name.as_str(), row.pid, row.device.as_str());
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        if row.func_type == "gpu_compute" {
            *compute.entry(&row.hostname).or_default() += row.duration_us;
        }
        if row.func_type != "oncpu" && top.is_none_or(|t| row.beta_pct > t.beta_pct) {
            top = Some(row);
        }
    }
    let strength = top.map_or(0.0, |t| t.beta_pct / 100.0 * t.anchor_dur_us);
    if cycle.delayed {
        return ("DELAYED_START".to_owned(), strength);
    }
    if let Some(issue) = host_health(events, cycle) {
        return (issue, strength);
    }
    let Some(top) = top.filter(|t| t.beta_pct >= 1.0) else {
        return ("CPU_BOTTLENECK".to_owned(), strength);
    };
    let print = match top.func_type {
        "gpu_comm" if compute.len() >= 2 => {
            let mut times: Vec<f64> = compute.values().copied().collect();
            times.sort_by(|a, b| b.total_cmp(a));
            let imbalance = if times[1] > 0.0 {
                times[0] / times[1]
            } else {
                0.0
            };
            return ("LOAD_IMBALANCE_PURE".to_owned(), imbalance);
        }
        "gpu_comm" => "COMM_BOTTLENECK",
        "gpu_compute" => "COMPUTE_BOUND",
        t if t.starts_with("gpu_memcpy") => "DATA_TRANSFER_BOUND",
        _ => "UNKNOWN_BOTTLENECK",
    };
    (print.to_owned(), strength)
}

/// Values of each counter of a host.
type Levels<'e> = BTreeMap<&'e str, Vec<f64>>;
/// Something of a host.
type Of<'f> = &'f dyn Fn(&Levels<'_>) -> Option<f64>;

/// Is a host unwell by its counters? The most urgent issue.
fn host_health(events: &Events<'_>, cycle: &Cycle) -> Option<String> {
    let mut hosts: BTreeMap<&str, Levels<'_>> = BTreeMap::new();
    for m in &cycle.members {
        if let Some(h) = events.list[m.event as usize].host {
            hosts.entry(events.names.get(h)).or_default();
        }
    }
    for s in samples_of(events, cycle) {
        if let Some(map) = s.host.and_then(|h| hosts.get_mut(events.names.get(h))) {
            map.entry(events.names.get(s.name))
                .or_default()
                .push(s.value);
        }
    }
    let mean = |host: &Levels<'_>, name: &str| host.get(name).map(|v| mean_std(v).0);
    let link = |host: &Levels<'_>| {
        let (tx, rx) = (
            mean(host, "gpu_link_transmit"),
            mean(host, "gpu_link_receive"),
        );
        tx.or(rx).map(|_| tx.unwrap_or(0.0) + rx.unwrap_or(0.0))
    };
    let clock = |host: &Levels<'_>| {
        host.get("gpu_frequency")
            .map(|v| v.iter().copied().fold(0.0, f64::max))
    };
    let highest = |f: Of<'_>| hosts.values().filter_map(f).fold(0.0, f64::max);
    let least = |f: Of<'_>| hosts.values().filter_map(f).fold(f64::INFINITY, f64::min);
    // Priority in tenths, name.
    let mut issues: Vec<(u8, &str)> = Vec::new();
    for host in hosts.values() {
        if hosts.len() >= 2 {
            let best = highest(&|h| mean(h, "cpu_frequency"));
            if mean(host, "cpu_frequency").is_some_and(|f| f < 0.7 * best) {
                issues.push((10, "CPU_FREQUENCY"));
            }
            let best = highest(&clock);
            if clock(host).is_some_and(|f| f < 0.85 * best) {
                issues.push((10, "GPU_FREQUENCY"));
            }
            let low = least(&|h| mean(h, "gpu_mem_used"));
            if mean(host, "gpu_mem_used").is_some_and(|m| m > 1.2 * low && m - low > 2e9) {
                issues.push((20, "GPU_MEMORY"));
            }
            let low = least(&link);
            if link(host).is_some_and(|l| l > 1.5 * low && l > 1e9) {
                issues.push((20, "LINK_TRAFFIC"));
            }
        }
        if mean(host, "cpu_temp").is_some_and(|t| t > 90.0) {
            issues.push((10, "CPU_TEMPERATURE"));
        }
        if mean(host, "gpu_temp").is_some_and(|t| t > 85.0) {
            issues.push((10, "GPU_TEMPERATURE"));
        }
        if mean(host, "cpu_frequency").is_some_and(|f| f < 1200.0) {
            issues.push((11, "CPU_LOW_FREQUENCY"));
        }
        if mean(host, "host_mem_available").is_some_and(|m| m < 2e9) {
            issues.push((21, "HOST_MEMORY"));
        }
        if mean(host, "disk_usage").is_some_and(|d| d > 80.0) {
            issues.push((30, "DISK_USAGE"));
        }
    }
    let urgent = issues.iter().map(|i| i.0).min()?;
    let at: Vec<&str> = issues
        .iter()
        .filter(|i| i.0 == urgent)
        .map(|i| i.1)
        .collect();
    Some(match at.as_slice() {
        [one] => (*one).to_owned(),
        _ => format!("MULTIPLE_P{}_ISSUES", f64::from(urgent) / 10.0),
    })
}
