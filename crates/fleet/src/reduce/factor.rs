//! Racks, hosts and devices that late ranks have in common.

use std::collections::{BTreeMap, BTreeSet};

use super::lateness::Late;
use super::outlier::z;
use super::rows::FactorRow;
use super::{Member, Ranks};
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, factor as times, real, shown};

/// Maximum probability of chance, over all hosts together.
const CHANCE: f64 = 0.01;

/// Minimum share of a host in all delays, as a multiple of its share of the ranks.
const LEAST_EXCESS: f64 = 2.0;

/// Number of tests of each host.
const TESTS: f64 = 2.0;

/// Share of the late arrivals of a host (or rack) up to which one of its ranks (or hosts) is not the reason alone.
const ONE_PART: f64 = 2.0 / 3.0;

/// How often the ranks of a host arrive behind all others.
#[derive(Clone, Debug, Default, PartialEq)]
struct Together {
    times: usize,
    expected: f64,
    variance: f64,
    /// How often each of its parts was the last one.
    last: BTreeMap<usize, usize>,
}

impl Together {
    /// Returns the probability of as many late arrivals by chance; 1 where one part alone causes them.
    fn chance(&self) -> f64 {
        let most = self.last.values().copied().max().unwrap_or(0);
        match self.last.len() > 1 && count(most) <= ONE_PART * count(self.times) {
            true => stats::normal_sf(z(self.times, self.expected, self.variance)),
            false => 1.0,
        }
    }
}

/// Counts the collectives of several hosts in which all ranks of one arrive behind those of the others, by its own work: where they arrive
/// together, none of them alone costs much, so that a comparison of ranks does not see the host.
fn together<'v>(
    ranks: &Ranks,
    values: &'v [Option<String>],
    parts: &[usize],
) -> BTreeMap<&'v str, Together> {
    let mut out: BTreeMap<&str, Together> = BTreeMap::new();
    let counted = ranks.job.collectives.iter();
    for c in counted.filter(|c| c.knows_waits() && !c.contradiction) {
        // First start of each host, and the last start of all.
        let mut first: BTreeMap<&str, i64> = BTreeMap::new();
        let mut last: Option<(i64, &str, usize)> = None;
        let mut is_known = true;
        for (start, (member, _)) in c.start_ns.iter().zip(&c.matched.runs) {
            let value = values.get(*member).and_then(Option::as_deref);
            let (Some(start), Some(value)) = (start, value) else {
                is_known = false;
                break;
            };
            let begin = first.entry(value).or_insert(*start);
            *begin = (*begin).min(*start);
            if last.is_none_or(|last| *start > last.0) {
                last = Some((*start, value, *member));
            }
        }
        let Some((_, host, member)) = last.filter(|_| is_known && first.len() > 1) else {
            continue;
        };
        let others = c
            .start_ns
            .iter()
            .zip(&c.matched.runs)
            .filter(|(_, (member, _))| {
                values.get(*member).and_then(Option::as_deref) != Some(host)
            });
        let before = others.filter_map(|(start, _)| *start).max();
        let behind = first
            .get(host)
            .copied()
            .zip(before)
            .map(|(own, before)| own - before);
        // What others passed on to the host is not its own.
        let is_own =
            |behind: &i64| *behind > c.error_ns && c.passed_on_ns.saturating_mul(2) < *behind;
        if behind.filter(is_own).is_none() {
            continue;
        }
        let chance = 1.0 / count(first.len());
        for value in first.keys() {
            let of = out.entry(value).or_default();
            of.expected += chance;
            of.variance += chance * (1.0 - chance);
        }
        if let Some(of) = out.get_mut(host) {
            of.times += 1;
            let part = parts.get(member).copied().unwrap_or(member);
            *of.last.entry(part).or_default() += 1;
        }
    }
    out
}

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

/// Something that ranks have in common.
struct Factor {
    name: &'static str,
    kind: Kind,
    /// Its value of each member.
    values: Vec<Option<String>>,
    /// What it consists of: the first member of the same part for each member. A rack consists of hosts, a host of ranks.
    parts: Vec<usize>,
}

impl Factor {
    fn all(members: &[Member]) -> [Self; 3] {
        let each = || (0..members.len()).collect();
        let hosts: Vec<Option<String>> = members.iter().map(|member| member.host.clone()).collect();
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let of_host = hosts.iter().enumerate().map(|(at, host)| match host {
            Some(host) => *first.entry(host).or_insert(at),
            None => at,
        });
        let of_host = of_host.collect();
        let devices = members.iter().map(|member| {
            let first = member.summary.devices.first();
            first.map(i64::to_string)
        });
        [
            Self {
                name: "rack",
                kind: Kind::LateRack,
                values: members.iter().map(|member| member.rack.clone()).collect(),
                parts: of_host,
            },
            Self {
                name: "host",
                kind: Kind::LateHost,
                values: hosts,
                parts: each(),
            },
            Self {
                name: "device",
                kind: Kind::LateDevice,
                values: devices.collect(),
                parts: each(),
            },
        ]
    }

    /// Returns the parts of some members.
    fn parts_of(&self, members: &[usize]) -> BTreeSet<usize> {
        let parts = members.iter().filter_map(|member| self.parts.get(*member));
        parts.copied().collect()
    }
}

/// Compares the ranks of each rack, of each host, and of each number of a device, with the others.
pub(super) fn factors(ranks: &Ranks, late: &[Late]) -> (Vec<FactorRow>, Vec<Finding>) {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for factor in Factor::all(&ranks.members) {
        let kind = factor.kind;
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (member, value) in factor.values.iter().enumerate() {
            if let Some(value) = value {
                groups.entry(value).or_default().push(member);
            }
        }
        let has_parts = |members: &Vec<usize>| factor.parts_of(members).len() > 1;
        if groups.len() < 2 || !groups.values().any(has_parts) {
            continue;
        }
        let total: i64 = late.iter().map(Late::delay_ns).sum();
        // Delays that others may have passed on are those of the others.
        let own = |member: &usize| {
            let late = late.get(*member).filter(|late| !late.may_be_passed_on());
            late.map_or(0.0, |late| real(late.avoidable_ns))
        };
        let tests = count(groups.len()) * TESTS;
        let together = together(ranks, &factor.values, &factor.parts);
        for (value, members) in &groups {
            let is_inside: BTreeSet<usize> = members.iter().copied().collect();
            // Ranks whose waits are unknown are neither early nor late.
            let is_known =
                |member: &usize| late.get(*member).is_some_and(|late| late.collectives > 0);
            let inside: Vec<f64> = members
                .iter()
                .filter(|member| is_known(member))
                .map(own)
                .collect();
            let outside: Vec<f64> = (0..late.len())
                .filter(|member| !is_inside.contains(member) && is_known(member))
                .map(|member| own(&member))
                .collect();
            if inside.is_empty() {
                continue;
            }
            let delay: i64 = members
                .iter()
                .filter_map(|member| late.get(*member))
                .map(Late::delay_ns)
                .sum();
            let share = match total {
                0 => 0.0,
                total => real(delay) / real(total),
            };
            let expected = count(inside.len()) / count(inside.len() + outside.len());
            let is_more = stats::median(&inside) > stats::median(&outside);
            let by_ranks = match is_more {
                true => stats::mann_whitney(&inside, &outside),
                false => 1.0,
            };
            let is_open = members
                .iter()
                .any(|m| late.get(*m).is_some_and(Late::is_open));
            let by_arrivals = together.get(value).filter(|_| !is_open);
            let by_arrivals = by_arrivals.map_or(1.0, Together::chance);
            // No number stands for a probability that cannot be told.
            let chance = match outside.is_empty() {
                true => f64::NAN,
                false => (by_ranks.min(by_arrivals) * tests).min(1.0),
            };
            rows.push(FactorRow {
                factor: factor.name.to_owned(),
                value: (*value).to_owned(),
                ranks: inside.len(),
                delay_ns: delay,
                share_pct: share * 100.0,
                share_of_ranks_pct: expected * 100.0,
                chance,
            });
            let is_large = share >= expected * LEAST_EXCESS && delay > 0;
            // Where one part causes nearly all, it is that part.
            let mut of_parts: BTreeMap<usize, i64> = BTreeMap::new();
            for member in members {
                let delay = late.get(*member).map_or(0, Late::delay_ns);
                let part = factor.parts.get(*member).copied().unwrap_or(*member);
                *of_parts.entry(part).or_default() += delay;
            }
            let most = of_parts.values().copied().max().unwrap_or(0);
            let is_one = real(most) > ONE_PART * real(delay);
            if inside.len() < 2
                || of_parts.len() < 2
                || is_one
                || !is_large
                || chance.is_nan()
                || chance > CHANCE
            {
                continue;
            }
            let what = match kind {
                Kind::LateRack => format!("the {} hosts of rack {value}", of_parts.len()),
                Kind::LateHost => format!("host {value}"),
                _ => format!("device {value} of their hosts"),
            };
            let title = format!(
                "The {} ranks on {what} cause {} of the delays of the job ({} % of {}, {} times their share of the ranks)",
                inside.len(),
                shown(delay),
                (share * 1000.0).round() / 10.0,
                shown(total),
                times(share / expected),
            );
            let mut finding = Finding::new(kind, value, Strength::Established, title);
            finding.cost_ns = Some(delay);
            let value = Some((*value).to_owned());
            match kind {
                Kind::LateRack => finding.rack = value,
                Kind::LateHost => finding.host = value,
                _ => {}
            }
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
