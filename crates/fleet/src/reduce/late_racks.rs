//! Racks whose hosts are all late: where several racks are, each hides a part of the others, and only their hosts are told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::Ranks;
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, counted, list, nearest, real, shown};

/// Maximum probability that the late hosts fill a rack by chance, for it to be the reason.
const CHANCE: f64 = 0.01;

/// Share of the delays of a rack up to which one of its hosts is not the reason alone.
const ONE_PART: f64 = 2.0 / 3.0;

/// Number of hosts that a sentence names.
const NAMED: usize = 4;

/// Returns the racks that have at least two hosts, each of which is a finding. Where all hosts are late, no rack is the reason.
pub(super) fn of_hosts(ranks: &Ranks, findings: &[Finding]) -> Vec<Finding> {
    let mut racks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in &ranks.members {
        if let (Some(host), Some(rack)) = (&member.host, &member.rack) {
            racks.entry(rack).or_default().insert(host);
        }
    }
    let of_kind = |kind: Kind| findings.iter().filter(move |finding| finding.kind == kind);
    let known: BTreeSet<&str> = of_kind(Kind::LateRack)
        .filter_map(|finding| finding.rack.as_deref())
        .collect();
    let late: BTreeMap<&str, &Finding> = of_kind(Kind::LateHost)
        .filter_map(|finding| Some((finding.host.as_deref()?, finding)))
        .collect();
    let all: usize = racks.values().map(BTreeSet::len).sum();
    let mut is_late: BTreeSet<&str> = late.keys().copied().collect();
    is_late.extend(known.iter().filter_map(|rack| racks.get(rack)).flatten());
    if racks.len() < 2 || is_late.len() >= all {
        return Vec::new();
    }
    let is_full = |hosts: &&BTreeSet<&str>| hosts.iter().all(|host| is_late.contains(host));
    let full: Vec<usize> = racks.values().filter(is_full).map(BTreeSet::len).collect();
    let chance = choose(racks.len(), full.len()) * fills(full.iter().sum(), is_late.len(), all);
    let mut out = Vec::new();
    for (rack, hosts) in racks.iter().filter(|(rack, _)| !known.contains(*rack)) {
        let of: Option<Vec<&Finding>> = hosts.iter().map(|host| late.get(host).copied()).collect();
        let Some(of) = of.filter(|of| of.len() > 1) else {
            continue;
        };
        let costs = of.iter().filter_map(|finding| finding.cost_ns);
        let delay = costs.clone().fold(0_i64, i64::saturating_add);
        if real(costs.max().unwrap_or(0)) > ONE_PART * real(delay) {
            continue;
        }
        let least = of.iter().map(|finding| finding.strength).max();
        let strength = match (least, chance <= CHANCE) {
            (Some(Strength::Established), true) => Strength::Established,
            _ => Strength::Likely,
        };
        let mut names: Vec<String> = hosts
            .iter()
            .take(NAMED)
            .map(|&host| host.to_owned())
            .collect();
        if hosts.len() > NAMED {
            names.push(format!("{} more", hosts.len() - NAMED));
        }
        let doubt = match chance <= CHANCE {
            true => String::new(),
            false => format!(
                "; {} of {all} are late, and as many fill {} by chance in up to {} % of cases",
                counted(is_late.len(), "host", "hosts"),
                counted(full.len(), "rack", "racks"),
                nearest((chance * 100.0).min(100.0)).max(1),
            ),
        };
        let title = format!(
            "All {} hosts of rack {rack} ({}) are late by their own work: for them alone the others would wait {}{doubt}",
            hosts.len(),
            list(&names),
            shown(delay),
        );
        let mut finding = Finding::new(Kind::LateRack, rack, strength, title);
        finding.cost_ns = Some(delay);
        finding.share_pct = of.iter().filter_map(|f| f.share_pct).reduce(f64::max);
        finding.rack = Some((*rack).to_owned());
        let worst = of.iter().max_by_key(|finding| finding.cost_ns);
        let window = worst.and_then(|finding| finding.window.clone());
        let numbers = of.iter().flat_map(|finding| finding.ranks.iter().copied());
        out.push(finding.of_ranks(numbers).at(window));
    }
    out
}

/// Returns the number of ways to choose some of several racks.
fn choose(all: usize, some: usize) -> f64 {
    (0..some).fold(1.0, |ways, at| {
        ways * count(all.saturating_sub(at)) / count(at + 1)
    })
}

/// Returns the probability that `late` of `all` hosts, drawn by chance, contain `hosts` given ones.
fn fills(hosts: usize, late: usize, all: usize) -> f64 {
    (0..hosts).fold(1.0, |chance, drawn| {
        let (left, of) = (late.saturating_sub(drawn), all.saturating_sub(drawn).max(1));
        chance * count(left) / count(of)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_late_hosts_fill_a_rack_by_chance() {
        // 4 of 8 hosts: the first of the rack is late in 4 of 8 cases, then the second one in 3 of 7.
        assert!((fills(2, 4, 8) - 4.0 / 8.0 * 3.0 / 7.0).abs() < 1e-12);
        assert!((fills(4, 4, 16) - 1.0 / 1820.0).abs() < 1e-12);
        assert!(fills(3, 2, 8).abs() < 1e-12);
        // Two of four racks of two hosts each.
        assert!((choose(4, 2) * fills(4, 4, 8) - 6.0 / 70.0).abs() < 1e-12);
    }
}
