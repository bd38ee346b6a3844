//! Hosts and ranks whose clocks differ from the others.

use std::collections::BTreeMap;

use super::outlier::Scatter;
use super::{Ranks, SINCE_1970_NS};
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, nearest, real, shown};

/// Minimum difference: clocks that the network sets differ by less.
const LEAST_NS: f64 = 1_000_000.0;

/// Returns the lead of the clock of each rank over the median clock, with half the width of its interval; `None` if it is not known or its
/// times do not count from 1970.
pub(super) fn leads(ranks: &Ranks) -> Vec<Option<(i64, i64)>> {
    let known: Vec<Option<(i64, i64)>> = ranks
        .job
        .clocks
        .iter()
        .zip(&ranks.digests)
        .map(|(clock, digest)| {
            let fit = clock.as_ref()?.fit;
            let first = digest.runs.first()?;
            let is_of_day = digest.start_ns(first) >= SINCE_1970_NS;
            is_of_day.then_some((fit.ahead_ns, fit.ahead_error_ns))
        })
        .collect();
    let mut all: Vec<i64> = known.iter().flatten().map(|lead| lead.0).collect();
    all.sort_unstable();
    let middle = all.get(all.len().saturating_sub(1) / 2).copied();
    known
        .into_iter()
        .map(|lead| {
            let (ahead, error) = lead?;
            Some((ahead.saturating_sub(middle?), error))
        })
        .collect()
}

/// Returns hosts whose clocks stand out, else ranks.
pub(super) fn findings(ranks: &Ranks) -> Vec<Finding> {
    let leads = leads(ranks);
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (member, of) in ranks.members.iter().enumerate() {
        if let (Some(host), Some(Some(_))) = (&of.host, leads.get(member)) {
            hosts.entry(host).or_default().push(member);
        }
    }
    let groups: Vec<(Kind, String, Vec<usize>)> = match hosts.len() > 1 {
        true => hosts
            .into_iter()
            .map(|(host, members)| (Kind::HostClock, host.to_owned(), members))
            .collect(),
        false => leads
            .iter()
            .enumerate()
            .filter(|(_, lead)| lead.is_some())
            .map(|(member, _)| {
                (
                    Kind::RankClock,
                    ranks.rank(member).to_string(),
                    vec![member],
                )
            })
            .collect(),
    };
    let middles: Vec<(f64, f64)> = groups
        .iter()
        .map(|(_, _, members)| {
            let of = members
                .iter()
                .filter_map(|member| leads.get(*member).copied().flatten());
            let own: Vec<f64> = of.clone().map(|lead| real(lead.0)).collect();
            let error = of.map(|lead| real(lead.1)).fold(0.0, f64::max);
            (stats::median(&own), error)
        })
        .collect();
    // Two or three clocks do not tell which of them is wrong.
    let values: Vec<f64> = middles.iter().map(|middle| middle.0).collect();
    let Some(scatter) = Scatter::of(&values, 0.0) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for ((kind, name, members), (middle, error)) in groups.into_iter().zip(middles) {
        let off = middle - scatter.median;
        let is_off = scatter.is_outside(middle) && off.abs() > LEAST_NS.max(error);
        if !is_off {
            continue;
        }
        let side = if off > 0.0 { "ahead of" } else { "behind" };
        let what = match kind {
            Kind::HostClock => format!("host {name}"),
            _ => format!("rank {name}"),
        };
        let others = match kind {
            Kind::HostClock => format!("the median of {} hosts", values.len()),
            _ => format!("the median of {} ranks", values.len()),
        };
        let title = format!(
            "The clock of {what} is {} (± {}) {side} {others}: times of its recordings, and of its logs, do not match theirs; waits here \
             are free of it",
            shown(nearest(off.abs())),
            shown(nearest(error)),
        );
        let mut finding = Finding::new(kind, &name, Strength::Established, title);
        finding.host = (kind == Kind::HostClock).then(|| name.clone());
        let numbers: Vec<u32> = members.iter().map(|member| ranks.rank(*member)).collect();
        let window = members
            .first()
            .and_then(|member| ranks.middle_step(*member));
        out.push(finding.of_ranks(numbers).at(window));
    }
    // A wrong clock is one of few; if many differ they are not set by one source.
    match count(out.len()) > 0.25 * count(values.len()) {
        true => Vec::new(),
        false => out,
    }
}
