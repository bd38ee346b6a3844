//! Joins findings that are one: ranks that are late because their link, their host or their rack is.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Kind};
use crate::words::{real, shown};

/// Replaces late ranks and late hosts by the slow group, the rack or the host that all of them belong to. A rank that causes most of the delay alone
/// stays a finding of its own. `blameless` are the ranks that each slow group delays, by the id of its finding.
pub(super) fn join(findings: &mut Vec<Finding>, blameless: &BTreeMap<String, BTreeSet<u32>>) {
    for kind in [
        Kind::SlowLink,
        Kind::LateRack,
        Kind::LateHost,
        Kind::LateDevice,
    ] {
        let wholes: Vec<(String, Vec<u32>)> = findings
            .iter()
            .filter(|finding| finding.kind == kind)
            .map(|finding| (finding.id.clone(), finding.ranks.clone()))
            .collect();
        for (id, ranks) in wholes {
            let delayed = blameless.get(&id);
            fold(findings, &id, &ranks, kind, delayed);
        }
    }
}

/// Share of a host's delays up to which the largest one of a rank is a part of them.
const PART: f64 = 2.0 / 3.0;

fn fold(
    findings: &mut Vec<Finding>,
    whole: &str,
    ranks: &[u32],
    kind: Kind,
    delayed: Option<&BTreeSet<u32>>,
) {
    let mut inside: BTreeSet<u32> = ranks.iter().copied().collect();
    inside.extend(delayed.into_iter().flatten());
    let is_part = |finding: &Finding| {
        let is_late = finding.kind == Kind::LateRank
            || (kind == Kind::SlowLink
                && matches!(
                    finding.kind,
                    Kind::LateRack | Kind::LateHost | Kind::LateDevice
                ))
            || (kind == Kind::LateRack && finding.kind == Kind::LateHost);
        is_late && finding.id != whole && finding.ranks.iter().all(|rank| inside.contains(rank))
    };
    let is_delayed = |finding: &Finding| {
        let all = |delayed: &BTreeSet<u32>| finding.ranks.iter().all(|rank| delayed.contains(rank));
        finding.kind == Kind::LateRank && delayed.is_some_and(all)
    };
    let of_whole = findings.iter().find(|finding| finding.id == whole);
    let of_whole = of_whole.and_then(|finding| finding.cost_ns);
    let late = findings.iter().filter(|finding| is_part(finding));
    let costs: Vec<i64> = late
        .clone()
        .filter(|finding| finding.kind == Kind::LateRank)
        .filter_map(|finding| finding.cost_ns)
        .collect();
    let of_hosts = late
        .filter(|finding| finding.kind != Kind::LateRank)
        .filter_map(|finding| finding.cost_ns)
        .max();
    let of_ranks: i64 = costs.iter().sum();
    let largest = costs.iter().copied().max().unwrap_or(0);
    // A rack is its hosts only where none of them is most of it.
    let (of_host, largest) = match kind {
        Kind::LateRack => (None, largest.max(of_hosts.unwrap_or(0))),
        _ => (of_hosts, largest),
    };
    let is_small = |whole: i64| real(largest) <= PART * real(whole);
    let is_common = (costs.len() * 2 >= ranks.len() && largest <= of_ranks / 2)
        || (kind != Kind::SlowLink && of_whole.is_some_and(is_small));
    let delayed_ns: i64 = findings
        .iter()
        .filter(|finding| is_part(finding) && is_delayed(finding))
        .filter_map(|finding| finding.cost_ns)
        .sum();
    let is_any = is_common || of_host.is_some();
    if !is_any && delayed_ns == 0 {
        return;
    }
    let of_ranks = if is_any { of_ranks } else { delayed_ns };
    findings.retain(|finding| !(is_part(finding) && (is_any || is_delayed(finding))));
    let Some(found) = findings.iter_mut().find(|finding| finding.id == whole) else {
        return;
    };
    if kind == Kind::SlowLink {
        let delay = of_ranks.max(of_host.unwrap_or(0));
        found.title = format!(
            "{}; others wait {} for its ranks",
            found.title,
            shown(delay)
        );
        found.cost_ns = Some(found.cost_ns.unwrap_or(0).saturating_add(delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Strength;

    fn late(kind: Kind, name: &str, ranks: &[u32], cost_ns: i64) -> Finding {
        let title = String::from("late");
        let mut finding = Finding::new(kind, name, Strength::Established, title);
        finding.cost_ns = Some(cost_ns);
        finding.of_ranks(ranks.iter().copied())
    }

    #[test]
    fn late_ranks_of_a_slow_group_are_that_group() {
        let mut findings: Vec<Finding> = (8..16)
            .map(|rank| late(Kind::LateRank, &rank.to_string(), &[rank], 10))
            .collect();
        findings.push(late(Kind::LateHost, "b", &(8..16).collect::<Vec<_>>(), 80));
        findings.push(late(
            Kind::SlowLink,
            "tp:1",
            &(8..16).collect::<Vec<_>>(),
            5,
        ));
        findings.push(late(Kind::LateRank, "3", &[3], 7));
        join(&mut findings, &BTreeMap::new());
        let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["slow_link-tp:1", "late_rank-3"]);
        assert_eq!(findings[0].cost_ns, Some(85));
    }

    #[test]
    fn one_rank_of_a_group_stays_itself() {
        let group: Vec<u32> = (0..8).collect();
        let mut findings = vec![
            late(Kind::LateRank, "3", &[3], 70),
            late(Kind::LateRank, "4", &[4], 2),
            late(Kind::SlowLink, "tp:0", &group, 5),
        ];
        join(&mut findings, &BTreeMap::new());
        assert_eq!(findings.len(), 3);
        // Ranks that are late in other groups only are those that the slow group delays.
        let delayed = BTreeMap::from([("slow_link-tp:0".to_owned(), BTreeSet::from([3]))]);
        join(&mut findings, &delayed);
        let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["late_rank-4", "slow_link-tp:0"]);
        assert_eq!(findings[1].cost_ns, Some(75));
    }
}
