//! Groups whose collectives take longer than those of other groups for the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::comm::CollectiveTime;

use super::Ranks;
use super::outlier::Scatter;
use super::rows::LinkRow;
use crate::finding::{Finding, Kind, Strength};
use crate::words::{self, counted, factor, nearest, real, shown};

/// Excess of a group from which its link is slow.
const SLOW: f64 = 1.2;

/// Minimum number of collectives of a group.
const LEAST_COLLECTIVES: usize = 5;

/// Operation, bytes and number of ranks: collectives of equal keys transfer the same.
type Key = (&'static str, u64, usize);

/// Compares the transfer times of all groups, and names those that stand out.
///
/// The transfer time of a collective is its shortest duration over the ranks: that of the rank that came last and did not wait. Collectives
/// that not all members of the group recorded may contain waiting, and do not count.
pub(super) fn links(ranks: &Ranks) -> (Vec<LinkRow>, Vec<Finding>) {
    let mut times: BTreeMap<Key, BTreeMap<usize, Vec<&CollectiveTime>>> = BTreeMap::new();
    for c in &ranks.job.collectives {
        let known = c.what.op.zip(c.what.bytes);
        let Some((op, bytes)) = known.filter(|_| c.matched.runs.len() > 1) else {
            continue;
        };
        if !c.includes_waiting() && !c.contradiction {
            let key = (op.name(), bytes, c.matched.runs.len());
            let groups = times.entry(key).or_default();
            groups.entry(c.matched.group).or_default().push(c);
        }
    }
    let mut rows = Vec::new();
    // Slow groups: extra time, and the collectives.
    let mut slow: BTreeMap<usize, Vec<Slow<'_>>> = BTreeMap::new();
    for ((op, bytes, size), groups) in &times {
        let medians: BTreeMap<usize, f64> = groups
            .iter()
            .map(|(group, list)| {
                let all: Vec<f64> = list.iter().map(|c| real(c.latency_ns)).collect();
                (*group, stats::median(&all))
            })
            .collect();
        let values: Vec<f64> = medians.values().copied().collect();
        for (group, list) in groups {
            // A group is compared with the others: among few, it would move a median that contains it.
            let rest = medians.iter().filter(|(other, _)| *other != group);
            let others: Vec<f64> = rest.map(|(_, median)| *median).collect();
            let own = medians.get(group).copied().unwrap_or(0.0);
            let usual = if others.is_empty() {
                own
            } else {
                stats::median(&others)
            };
            let ratio = if usual > 0.0 { own / usual } else { 1.0 };
            let is_above = match Scatter::of(&others, usual * 0.01) {
                Some(scatter) => scatter.is_above(own),
                // The scatter of two or three groups says little: nearly all transfers must be slower than the usual one.
                None => !others.is_empty() && low(list) >= SLOW * usual,
            };
            let is_slow = list.len() >= LEAST_COLLECTIVES && ratio >= SLOW && is_above;
            rows.push(LinkRow {
                group: label(ranks, *group),
                members: members(ranks, list),
                op: (*op).to_owned(),
                bytes: *bytes,
                ranks: *size,
                collectives: list.len(),
                transfer_ns: nearest(own),
                usual_ns: nearest(usual),
                ratio,
                groups_compared: values.len(),
                is_slow,
            });
            if is_slow {
                slow.entry(*group).or_default().push(Slow {
                    op,
                    bytes: *bytes,
                    own,
                    usual,
                    groups: values.len(),
                    list,
                });
            }
        }
    }
    rows.sort_by(|a, b| {
        let key = |row: &LinkRow| (std::cmp::Reverse(row.is_slow), row.group.clone());
        key(a)
            .cmp(&key(b))
            .then_with(|| b.ratio.total_cmp(&a.ratio))
            .then(b.bytes.cmp(&a.bytes))
    });
    let common = common_rank(ranks, &slow);
    let findings = slow
        .iter()
        .filter_map(|(group, list)| finding(ranks, *group, list, common));
    let findings = findings.collect();
    (rows, findings)
}

/// Returns the lower decile of the transfer times.
fn low(list: &[&CollectiveTime]) -> f64 {
    let all: Vec<f64> = list.iter().map(|c| real(c.latency_ns)).collect();
    stats::quantile(&stats::sorted(&all), 0.1)
}

struct Slow<'c> {
    op: &'static str,
    bytes: u64,
    own: f64,
    usual: f64,
    groups: usize,
    list: &'c [&'c CollectiveTime],
}

fn label(ranks: &Ranks, group: usize) -> String {
    let group = ranks.job.groups.get(group);
    group.map_or_else(String::new, |group| group.key.label())
}

/// Returns the ranks that recorded the first of some collectives.
fn members(ranks: &Ranks, list: &[&CollectiveTime]) -> Vec<u32> {
    let runs = list.first().map(|c| &c.matched.runs);
    let runs = runs.into_iter().flatten();
    runs.map(|(member, _)| ranks.rank(*member)).collect()
}

/// Returns the only rank that all of several slow groups have in common.
fn common_rank(ranks: &Ranks, slow: &BTreeMap<usize, Vec<Slow<'_>>>) -> Option<u32> {
    let mut sets = slow.values().filter_map(|list| {
        let members = members(ranks, list.first()?.list);
        Some(members.into_iter().collect::<BTreeSet<u32>>())
    });
    let first = sets.next()?;
    let (mut common, mut groups) = (first, 1);
    for set in sets {
        common = common.intersection(&set).copied().collect();
        groups += 1;
    }
    let mut ranks = common.into_iter();
    ranks
        .next()
        .filter(|_| groups > 1 && ranks.next().is_none())
}

fn finding(ranks: &Ranks, group: usize, list: &[Slow<'_>], common: Option<u32>) -> Option<Finding> {
    // The message that costs most.
    let excess =
        |slow: &&Slow<'_>| nearest((slow.own - slow.usual) * crate::words::count(slow.list.len()));
    let most = list.iter().max_by_key(|slow| (excess(slow), slow.bytes))?;
    let numbers = members(ranks, most.list);
    let cost: i64 = list
        .iter()
        .map(|slow| {
            let each = excess(&slow);
            let size = i64::try_from(numbers.len()).unwrap_or(i64::MAX);
            each.saturating_mul(size)
        })
        .sum();
    let name = label(ranks, group);
    let also = match common {
        Some(rank) => format!("; rank {rank} is in all slow groups"),
        None => String::new(),
    };
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let size = report::human::bytes(most.bytes as f64);
    let title = format!(
        "{} of {size} between {} (group {name}) takes {}, {} times the median of {} with the same operation and size{also}",
        most.op,
        words::ranks(&numbers),
        shown(nearest(most.own)),
        factor(most.own / most.usual),
        counted(most.groups - 1, "other group", "other groups"),
    );
    // Where groups differ in their topology, a link may be slower by design.
    let mut finding = Finding::new(Kind::SlowLink, &name, Strength::Likely, title);
    finding.group = Some(name);
    finding.cost_ns = Some(cost);
    // The collective with the longest transfer, on the rank that came last.
    let worst = most.list.iter().max_by_key(|c| c.latency_ns)?;
    let window = worst
        .matched
        .runs
        .iter()
        .filter_map(|(member, place)| {
            Some((*member, ranks.digests.get(*member)?.runs.get(*place)?))
        })
        .min_by_key(|(member, run)| (run.duration_ns(), *member));
    let window = window.and_then(|(member, run)| {
        let margin = run.duration_ns();
        let begin = run.start_ns.saturating_sub(margin);
        ranks.window(member, begin, run.end_ns.saturating_add(margin))
    });
    Some(finding.of_ranks(numbers).at(window))
}
