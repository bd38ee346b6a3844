//! What ranks do to each other: transfer and waiting in collectives, and whose host falls behind.

use std::collections::{BTreeMap, BTreeSet};

use super::observe::roles_by_place;
use super::signal::Signal;
use crate::document::Role;
use crate::side::{Capture, Class};
use crate::stats::median;

/// All quantities of ranks. `comparable` says whether cycles mean the same on both sides.
pub(super) fn signals(
    sides: [&[&Capture]; 2],
    roles: &[Role],
    comparable: bool,
    out: &mut Vec<Signal>,
) {
    transfer(sides, out);
    if comparable {
        wait(sides, roles, out);
        host_skew(sides, roles, out);
        super::moving::signals(sides, roles, out);
    }
}

/// The shortest rank of each collective: what the transfer takes, without waiting.
fn transfer(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let [per_call, per_cycle] = [false, true].map(|per_cycle| {
        sides.map(|captures| {
            let mut values = Vec::new();
            for capture in captures {
                let members: Vec<_> = capture
                    .functions
                    .iter()
                    .filter(|f| f.class == Class::Collective)
                    .collect();
                let names: BTreeSet<&str> = members.iter().map(|f| f.name.as_str()).collect();
                for at in 0..capture.cycles.len() {
                    let (mut time, mut calls) = (0.0, 0.0);
                    for name in &names {
                        let ranks = members.iter().filter(|f| f.name == *name);
                        let shortest = ranks.min_by(|a, b| a.dur_us[at].total_cmp(&b.dur_us[at]));
                        if let Some(rank) =
                            shortest.filter(|f| f.dur_us[at] > 0.0 && f.calls[at] > 0.0)
                        {
                            time += rank.dur_us[at];
                            calls += rank.calls[at];
                        }
                    }
                    values.push(match per_cycle {
                        _ if calls <= 0.0 => f64::NAN,
                        true => time,
                        false => time / calls,
                    });
                }
            }
            values
        })
    });
    out.extend(Signal::series(
        "collective_transfer_us_per_call",
        "shortest rank",
        "us",
        per_call,
    ));
    out.extend(Signal::series(
        "collective_transfer_us",
        "shortest rank",
        "us per cycle",
        per_cycle,
    ));
}

/// Time per cycle that all ranks together spend in collectives beyond the shortest rank's: waiting for the last one. What the
/// others wait longer than before counts for the rank that waits least, which comes last.
fn wait(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    type ByRank<'a> = Vec<(Option<usize>, &'a [f64])>;
    let mut by_rank: [BTreeMap<usize, Vec<f64>>; 2] = [BTreeMap::new(), BTreeMap::new()];
    let series = [0, 1].map(|side| {
        let places = roles_by_place(sides[side], roles, side);
        let mut values = Vec::new();
        for capture in sides[side] {
            let mut by_name: BTreeMap<&str, ByRank<'_>> = BTreeMap::new();
            for function in &capture.functions {
                if function.class == Class::Collective {
                    let role = places.get(function.process).copied().flatten();
                    let ranks = by_name.entry(&function.name).or_default();
                    ranks.push((role, &function.dur_us));
                }
            }
            by_name.retain(|_, ranks| ranks.len() > 1);
            if by_name.is_empty() {
                continue;
            }
            for at in 0..capture.cycles.len() {
                let mut all = 0.0;
                let mut own: BTreeMap<usize, f64> = BTreeMap::new();
                for ranks in by_name.values() {
                    let shortest = ranks.iter().map(|(_, d)| d[at]).fold(f64::NAN, f64::min);
                    for (role, durs) in ranks {
                        // A rank that was not observed makes the cycle unusable.
                        all += durs[at] - shortest;
                        if let Some(role) = role {
                            *own.entry(*role).or_default() += durs[at] - shortest;
                        }
                    }
                }
                values.push(all);
                for (role, wait) in own {
                    by_rank[side].entry(role).or_default().push(wait);
                }
            }
        }
        values
    });
    let (count, grown) = (by_rank[1].len() as f64, {
        let typical = series.each_ref().map(|side| median(side));
        typical[1] - typical[0]
    });
    let last = by_rank[1]
        .iter()
        .map(|(role, waits)| (*role, median(waits)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((role, _)) = last
        && count > 1.0
        && grown.is_finite()
    {
        let device = roles.get(role).map_or(String::new(), |role| role.device(1));
        out.extend(Signal::point(
            "rank_late_us",
            &device,
            "us per cycle",
            [0.0, grown / (count - 1.0)],
        ));
    }
    out.extend(Signal::series(
        "collective_wait_us",
        "all ranks",
        "us per cycle, all ranks",
        series,
    ));
}

/// How much more one rank's threads compute than another's, compared with the baseline.
fn host_skew(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    if roles.len() < 2 {
        return;
    }
    let typical = [0, 1].map(|side| {
        let places = roles_by_place(sides[side], roles, side);
        let mut all: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for function in sides[side].iter().flat_map(|capture| &capture.functions) {
            let role = places.get(function.process).copied().flatten();
            if let (Class::OnCpu, Some(role)) = (function.class, role) {
                let durs = function.dur_us.iter().filter(|dur| !dur.is_nan());
                all.entry(role).or_default().extend(durs);
            }
        }
        all.into_iter()
            .map(|(role, durs)| (role, median(&durs)))
            .collect::<BTreeMap<usize, f64>>()
    });
    let slower: Vec<(usize, f64)> = typical[0]
        .iter()
        .filter_map(|(role, before)| Some((*role, typical[1].get(role)? / before)))
        .filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0)
        .collect();
    if slower.len() < 2 {
        return;
    }
    let by_ratio = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
    let (Some((slowest, most)), Some((_, least))) = (
        slower.iter().max_by(by_ratio),
        slower.iter().min_by(by_ratio),
    ) else {
        return;
    };
    out.extend(Signal::point(
        "rank_host_skew_pct",
        &roles
            .get(*slowest)
            .map_or("all ranks".to_owned(), |role| role.device(1)),
        "%",
        [0.0, (most / least - 1.0) * 100.0],
    ));
}
