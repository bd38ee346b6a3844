//! Hosts and devices that late ranks have in common.

use std::collections::{BTreeMap, BTreeSet};

use super::lateness::Late;
use super::rows::FactorRow;
use super::{Member, Ranks};
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, factor, real, shown};

/// Maximum probability of chance, over all hosts together.
const CHANCE: f64 = 0.01;

/// Minimum share of a host in all delays, as a multiple of its share of the ranks.
const LEAST_EXCESS: f64 = 2.0;

/// Sets the hosts that recordings do not state: the name in files of `PyTorch`'s handler (`HOST_PID.TIME.pt.trace.json`), else the folder,
/// where the recordings are in several.
pub(super) fn name_hosts(members: &mut [Member]) {
    if members.iter().any(|member| member.host.is_some()) {
        return;
    }
    let handlers: Option<Vec<String>> = members
        .iter()
        .map(|m| of_handler(&m.summary.file))
        .collect();
    if let Some(hosts) = handlers {
        for (member, host) in members.iter_mut().zip(hosts) {
            member.host = Some(host);
        }
        return;
    }
    let folders: Vec<Option<&str>> = members.iter().map(|m| folder(&m.summary.file)).collect();
    let distinct: BTreeSet<&str> = folders.iter().flatten().copied().collect();
    // A folder for each rank is none for a host.
    if distinct.len() < 2 || distinct.len() == members.len() {
        return;
    }
    let hosts: Vec<Option<String>> = folders.iter().map(|f| f.map(str::to_owned)).collect();
    for (member, host) in members.iter_mut().zip(hosts) {
        member.host = host;
    }
}

/// Returns the folder of a file, or of the archive that contains it.
fn folder(file: &str) -> Option<&str> {
    let mut parts = file.rsplit('/');
    parts.next()?;
    parts.next().filter(|folder| !folder.is_empty())
}

/// Returns the host in the name of a file that `torch.profiler.tensorboard_trace_handler` wrote.
fn of_handler(file: &str) -> Option<String> {
    let name = file.rsplit('/').next()?;
    let (start, _) = name.split_once(".pt.trace.json")?;
    let (start, time) = start.rsplit_once('.')?;
    let (host, process) = start.rsplit_once('_')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(time) && is_number(process) && !host.is_empty()).then(|| host.to_owned())
}

/// Compares the ranks of each host, and of each number of a device, with the others.
pub(super) fn factors(ranks: &Ranks, late: &[Late]) -> (Vec<FactorRow>, Vec<Finding>) {
    let hosts = ranks.members.iter().map(|member| member.host.clone());
    let devices = ranks.members.iter().map(|member| {
        let first = member.summary.devices.first();
        first.map(i64::to_string)
    });
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    let both = [
        ("host", Kind::LateHost, hosts.collect::<Vec<_>>()),
        ("device", Kind::LateDevice, devices.collect()),
    ];
    for (name, kind, values) in both {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (member, value) in values.iter().enumerate() {
            if let Some(value) = value {
                groups.entry(value).or_default().push(member);
            }
        }
        if groups.len() < 2 || groups.values().all(|members| members.len() < 2) {
            continue;
        }
        let total: i64 = late.iter().map(Late::delay_ns).sum();
        // Delays that others may have passed on are those of the others.
        let own = |member: &usize| {
            let late = late.get(*member).filter(|late| !late.may_be_passed_on());
            late.map_or(0.0, |late| real(late.avoidable_ns))
        };
        let tests = count(groups.len());
        for (value, members) in &groups {
            let is_inside: BTreeSet<usize> = members.iter().copied().collect();
            let inside: Vec<f64> = members.iter().map(own).collect();
            let outside: Vec<f64> = (0..late.len())
                .filter(|member| !is_inside.contains(member))
                .map(|member| own(&member))
                .collect();
            let delay: i64 = members
                .iter()
                .filter_map(|member| late.get(*member))
                .map(Late::delay_ns)
                .sum();
            let share = match total {
                0 => 0.0,
                total => real(delay) / real(total),
            };
            let expected = count(members.len()) / count(late.len());
            let chance = (stats::mann_whitney(&inside, &outside) * tests).min(1.0);
            rows.push(FactorRow {
                factor: name.to_owned(),
                value: (*value).to_owned(),
                ranks: members.len(),
                delay_ns: delay,
                share_pct: share * 100.0,
                share_of_ranks_pct: expected * 100.0,
                chance,
            });
            let is_more = stats::median(&inside) > stats::median(&outside);
            let is_large = share >= expected * LEAST_EXCESS && delay > 0;
            if members.len() < 2 || !is_more || !is_large || chance.is_nan() || chance > CHANCE {
                continue;
            }
            let what = match kind {
                Kind::LateHost => format!("host {value}"),
                _ => format!("device {value} of their hosts"),
            };
            let title = format!(
                "The {} ranks on {what} cause {} of the delays of the job ({} % of {}, {} times their share of the ranks)",
                members.len(),
                shown(delay),
                (share * 1000.0).round() / 10.0,
                shown(total),
                factor(share / expected),
            );
            let mut finding = Finding::new(kind, value, Strength::Established, title);
            finding.cost_ns = Some(delay);
            finding.host = (kind == Kind::LateHost).then(|| (*value).to_owned());
            let worst = members
                .iter()
                .max_by_key(|member| late.get(**member).map(Late::delay_ns));
            let window = worst.and_then(|member| ranks.middle_step(*member));
            let of_rank = members.iter().map(|member| ranks.rank(*member));
            findings.push(finding.of_ranks(of_rank).at(window));
        }
    }
    (rows, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_in_names() {
        let name = "logs/gpu-node_07_4711.1700000000123456789.pt.trace.json.gz";
        assert_eq!(of_handler(name).as_deref(), Some("gpu-node_07"));
        assert_eq!(of_handler("logs/rank0.pt.trace.json"), None);
        assert_eq!(folder("run/node3/rank7.json"), Some("node3"));
        assert_eq!(folder("rank7.json"), None);
    }
}
