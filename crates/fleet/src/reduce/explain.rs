//! Joins findings that are one: ranks that are late because their link or their host is.

use std::collections::BTreeSet;

use crate::finding::{Finding, Kind};
use crate::words::shown;

/// Replaces late ranks and late hosts by the slow group, or the host, that all of them belong to. A rank that causes most of the delay alone
/// stays a finding of its own.
pub(super) fn join(findings: &mut Vec<Finding>) {
    for kind in [Kind::SlowLink, Kind::LateHost, Kind::LateDevice] {
        let wholes: Vec<(String, Vec<u32>)> = findings
            .iter()
            .filter(|finding| finding.kind == kind)
            .map(|finding| (finding.id.clone(), finding.ranks.clone()))
            .collect();
        for (id, ranks) in wholes {
            fold(findings, &id, &ranks, kind);
        }
    }
}

fn fold(findings: &mut Vec<Finding>, whole: &str, ranks: &[u32], kind: Kind) {
    let inside: BTreeSet<u32> = ranks.iter().copied().collect();
    let is_part = |finding: &Finding| {
        let is_late = finding.kind == Kind::LateRank
            || (kind == Kind::SlowLink && finding.kind == Kind::LateHost);
        is_late && finding.id != whole && finding.ranks.iter().all(|rank| inside.contains(rank))
    };
    let late = findings.iter().filter(|finding| is_part(finding));
    let costs: Vec<i64> = late
        .clone()
        .filter(|finding| finding.kind == Kind::LateRank)
        .filter_map(|finding| finding.cost_ns)
        .collect();
    let of_host = late
        .filter(|finding| finding.kind == Kind::LateHost)
        .filter_map(|finding| finding.cost_ns)
        .max();
    let of_ranks: i64 = costs.iter().sum();
    let largest = costs.iter().copied().max().unwrap_or(0);
    let is_common = costs.len() * 2 >= ranks.len() && largest <= of_ranks / 2;
    if !is_common && of_host.is_none() {
        return;
    }
    findings.retain(|finding| !is_part(finding));
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
        join(&mut findings);
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
        join(&mut findings);
        assert_eq!(findings.len(), 3);
    }
}
