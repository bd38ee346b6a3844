//! Which cycles stand out.

use std::collections::BTreeMap;

use super::PerfRow;
use super::cycles::Cycle;
use super::event::Events;
use super::metrics::samples_of;
use crate::health::{Levels, issues};
use crate::num::mean_std;

/// What limits a cycle, and how far it stands out among those with the same limit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What limits it, in the reference's words: `COMPUTE_BOUND`, `GPU_TEMPERATURE`, ...
    pub fingerprint: String,
    /// Time of the function that limits it in µs, or largest by second compute time of hosts.
    pub score: f64,
    /// Standard deviations of the score from the mean of its kind; 0 alone.
    pub z: f64,
}

/// The diagnosis of each cycle.
pub(super) fn diagnoses(
    events: &Events<'_>,
    list: &[(usize, &Cycle)],
    rows: &[Vec<PerfRow>],
) -> Vec<Diagnosis> {
    let each = list.iter().zip(rows);
    let mut all: Vec<Diagnosis> = each
        .map(|((_, cycle), rows)| {
            let (fingerprint, score) = fingerprint(events, cycle, rows);
            Diagnosis {
                fingerprint,
                score,
                z: 0.0,
            }
        })
        .collect();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, one) in all.iter().enumerate() {
        groups.entry(one.fingerprint.clone()).or_default().push(i);
    }
    for group in groups.values() {
        let scores: Vec<f64> = group.iter().map(|&i| all[i].score).collect();
        let (mean, std) = mean_std(&scores);
        if group.len() > 1 && std > 0.0 {
            for &i in group {
                all[i].z = (all[i].score - mean) / std;
            }
        }
    }
    all
}

/// Numbers of the cycles that stand out among those of their kind, at most two beside all that
/// started late.
pub(super) fn representatives(list: &[(usize, &Cycle)], diagnoses: &[Diagnosis]) -> Vec<usize> {
    let late = list.iter().filter(|(_, cycle)| cycle.delayed);
    let mut chosen: Vec<usize> = late.map(|(number, _)| *number).collect();
    let each = list.iter().zip(diagnoses);
    let mut scored: Vec<(f64, usize)> = each.map(|((number, _), d)| (d.z, *number)).collect();
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
    let hosts: Vec<Levels<'_>> = hosts.into_values().collect();
    let issues: Vec<(u8, &str)> = issues(&hosts)
        .iter()
        .map(|i| (i.issue.priority(), i.issue.name()))
        .collect();
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
