//! Hosts and ranks whose clocks differ from the others.

use std::collections::BTreeMap;

use super::{Ranks, SINCE_1970_NS};
use crate::finding::{Finding, Kind, Strength};
use crate::words::{list, nearest, real, shown};

/// Largest minimum difference: clocks that the network sets differ by less.
const LEAST_NS: f64 = 1_000_000.0;

/// Share of a step from which a difference puts events of one step into another one when recordings are laid side by side.
const OF_STEP: f64 = 0.1;

/// Returns the lead of the clock of each rank over the median clock of its part of the job, with half the width of its interval; `None` if it
/// is not known or its times do not count from 1970.
pub(super) fn leads(ranks: &Ranks) -> Vec<Option<(i64, i64)>> {
    let known: Vec<Option<(usize, i64, i64)>> = ranks
        .clocks
        .iter()
        .zip(&ranks.parts)
        .zip(&ranks.digests)
        .map(|((clock, part), digest)| {
            let fit = clock.as_ref()?.fit;
            let first = digest.runs.first()?;
            let is_of_day = digest.start_ns(first) >= SINCE_1970_NS;
            is_of_day.then_some(((*part)?, fit.ahead_ns, fit.ahead_error_ns))
        })
        .collect();
    let mut by_part: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for (part, ahead, _) in known.iter().flatten() {
        by_part.entry(*part).or_default().push(*ahead);
    }
    let middles: BTreeMap<usize, i64> = by_part
        .into_iter()
        .filter_map(|(part, mut all)| {
            all.sort_unstable();
            Some((part, *all.get(all.len().saturating_sub(1) / 2)?))
        })
        .collect();
    known
        .into_iter()
        .map(|lead| {
            let (part, ahead, error) = lead?;
            Some((ahead.saturating_sub(*middles.get(&part)?), error))
        })
        .collect()
}

/// A host, or a rank, with its clock.
struct Clock {
    name: String,
    members: Vec<usize>,
    ahead: f64,
    error: f64,
}

/// Returns hosts whose clocks differ from the others of their part of the job, else ranks.
pub(super) fn findings(ranks: &Ranks) -> Vec<Finding> {
    let leads = leads(ranks);
    let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (member, (part, lead)) in ranks.parts.iter().zip(&leads).enumerate() {
        if let (Some(part), Some(_)) = (part, lead) {
            by_part.entry(*part).or_default().push(member);
        }
    }
    let mut out: Vec<Finding> = Vec::new();
    for members in by_part.into_values() {
        for finding in of_part(ranks, &leads, &members) {
            // A host may be in several parts.
            if out.iter().all(|known| known.id != finding.id) {
                out.push(finding);
            }
        }
    }
    out
}

/// Returns the difference from which a clock is off.
fn least_ns(ranks: &Ranks, members: &[usize]) -> f64 {
    let of = members
        .iter()
        .filter_map(|member| ranks.members.get(*member));
    let steps = of.filter(|member| member.summary.steps_by != "whole");
    let durations = steps.flat_map(|member| member.summary.steps.iter());
    let durations: Vec<f64> = durations.map(|step| real(step.duration_ns)).collect();
    match durations.is_empty() {
        true => LEAST_NS,
        false => LEAST_NS.min(OF_STEP * stats::median(&durations)),
    }
}

fn of_part(ranks: &Ranks, leads: &[Option<(i64, i64)>], members: &[usize]) -> Vec<Finding> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for member in members {
        if let Some(host) = ranks.members.get(*member).and_then(|m| m.host.as_ref()) {
            hosts.entry(host).or_default().push(*member);
        }
    }
    let kind = if hosts.len() > 1 {
        Kind::HostClock
    } else {
        Kind::RankClock
    };
    let of_each: Vec<(String, Vec<usize>)> = match kind {
        Kind::HostClock => hosts
            .into_iter()
            .map(|(host, members)| (host.to_owned(), members))
            .collect(),
        _ => members
            .iter()
            .map(|member| (ranks.rank(*member).to_string(), vec![*member]))
            .collect(),
    };
    let clocks: Vec<Clock> = of_each
        .into_iter()
        .map(|(name, members)| {
            let of = members
                .iter()
                .filter_map(|member| leads.get(*member).copied().flatten());
            let own: Vec<f64> = of.clone().map(|lead| real(lead.0)).collect();
            Clock {
                ahead: stats::median(&own),
                error: of.map(|lead| real(lead.1)).fold(0.0, f64::max),
                name,
                members,
            }
        })
        .collect();
    let values: Vec<f64> = clocks.iter().map(|clock| clock.ahead).collect();
    // Of two clocks nothing tells which one is wrong: the second is compared with the first.
    let usual = match values.as_slice() {
        [] | [_] => return Vec::new(),
        [first, _] => *first,
        _ => stats::median(&values),
    };
    let least = least_ns(ranks, members);
    let off: Vec<(&Clock, f64)> = clocks
        .iter()
        .map(|clock| (clock, clock.ahead - usual))
        .filter(|(clock, off)| off.abs() > least.max(clock.error))
        .collect();
    let word = if kind == Kind::HostClock {
        "host"
    } else {
        "rank"
    };
    // A wrong clock is one of few; if many differ, they are not set by one source.
    if clocks.len() > 2 && off.len() * 2 >= clocks.len() {
        return several(ranks, kind, word, &off).into_iter().collect();
    }
    off.into_iter()
        .map(|(clock, off)| {
            let side = if off > 0.0 { "ahead of" } else { "behind" };
            let others = match clocks.as_slice() {
                [first, _] => format!("that of {word} {}", first.name),
                all => format!("the median of {} {word}s", all.len()),
            };
            let title = format!(
                "The clock of {word} {} is {} (± {}) {side} {others}: times of its recordings, and of its logs, do not match theirs; \
                 waits here are free of it",
                clock.name,
                shown(nearest(off.abs())),
                shown(nearest(clock.error)),
            );
            finding(ranks, kind, &clock.name, title, &clock.members)
        })
        .collect()
}

fn finding(ranks: &Ranks, kind: Kind, name: &str, title: String, members: &[usize]) -> Finding {
    let mut finding = Finding::new(kind, name, Strength::Established, title);
    finding.host = (kind == Kind::HostClock).then(|| name.to_owned());
    let numbers: Vec<u32> = members.iter().map(|member| ranks.rank(*member)).collect();
    let window = members
        .first()
        .and_then(|member| ranks.middle_step(*member));
    finding.of_ranks(numbers).at(window)
}

/// Returns one finding for clocks of which no few are wrong.
fn several(ranks: &Ranks, kind: Kind, word: &str, off: &[(&Clock, f64)]) -> Option<Finding> {
    let (most, by) = off.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let mut names: Vec<String> = off
        .iter()
        .take(4)
        .map(|(clock, _)| clock.name.clone())
        .collect();
    if off.len() > names.len() {
        names.push(format!("{} more", off.len() - names.len()));
    }
    let title = format!(
        "The clocks of the {word}s are not set by one source: those of {word}s {} are off the median by up to {} (± {}, {word} {}); waits here \
         are free of it",
        list(&names),
        shown(nearest(by.abs())),
        shown(nearest(most.error)),
        most.name,
    );
    let members: Vec<usize> = off
        .iter()
        .flat_map(|(clock, _)| clock.members.clone())
        .collect();
    let mut found = finding(ranks, kind, &most.name, title, &members);
    found.id = format!("{}-several", kind.name());
    Some(found)
}
