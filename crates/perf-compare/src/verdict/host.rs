//! What code of the host does: the function that changed most, all of them alike, waits for input.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::Waiting;

use super::kernels;
use super::observe::roles_by_place;
use super::signal::{Signal, Stat};
use crate::document::Role;
use crate::side::{Capture, Class, Function, is_wait, numbered, waits_for};
use crate::stats::{mean, median};

/// Name of a function, and the role of the processes that it runs in.
type Place<'c> = (&'c str, Option<usize>);

/// Returns `true` for functions of the program on the host that work.
pub(super) fn works(function: &Function) -> bool {
    function.class == Class::Host && !is_wait(&function.name)
}

/// Time by cycle of the functions on the host by name and role, for those that `wanted` returns `true` for.
fn host_series<'c>(
    sides: [&'c [&'c Capture]; 2],
    roles: &[Role],
    wanted: &dyn Fn(&Function) -> bool,
) -> BTreeMap<Place<'c>, [Vec<f64>; 2]> {
    let mut all: BTreeMap<Place<'c>, [Option<Vec<f64>>; 2]> = BTreeMap::new();
    for (side, captures) in sides.into_iter().enumerate() {
        let places = roles_by_place(captures, roles, side);
        for capture in captures {
            for function in capture.functions.iter().filter(|f| wanted(f)) {
                let role = places.get(function.process).copied().flatten();
                let sides = all.entry((&function.name, role)).or_default();
                sides[side]
                    .get_or_insert_default()
                    .extend(function.dur_us.iter().filter(|d| !d.is_nan()));
            }
        }
    }
    let n = sides.map(|captures| captures.iter().map(|c| c.cycles.len()).sum::<usize>());
    let filled = |sides: [Option<Vec<f64>>; 2]| {
        let [one, two] = sides;
        [
            one.unwrap_or_else(|| vec![0.0; n[0]]),
            two.unwrap_or_else(|| vec![0.0; n[1]]),
        ]
    };
    all.into_iter()
        .map(|(key, sides)| (key, filled(sides)))
        .collect()
}

/// What a cycle takes longer, the typical one or the mean, us; none unless it is a percent at least.
fn cycle_grows(out: &[Signal], stat: Stat) -> Option<f64> {
    let cycle = out.iter().find(|signal| signal.metric == "cycle_us")?;
    let [before, after] = cycle.typical(stat);
    (after > 1.01 * before).then_some(after - before)
}

/// The function of the program on the host whose time changed most, and whether all of them changed alike; calls that wait
/// follow something else.
pub(super) fn signals(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    // By function and role: the mean over ranks hides what one of them does.
    let series = host_series(sides, roles, &works);
    let added = |s: &Signal| {
        let [x, y] = s.typical(Stat::Mean);
        y - x
    };
    let mut top: Option<Signal> = None;
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // By role: time of each function on either side; layers and modules of a model count as one.
    let mut by_role: BTreeMap<Option<usize>, BTreeMap<String, [f64; 2]>> = BTreeMap::new();
    let together = layers(&series);
    late_host(sides, roles, &series, out);
    for ((name, role), values) in series {
        let one = numbered(name).unwrap_or_else(|| name.to_owned());
        let sum = by_role.entry(role).or_default().entry(one).or_default();
        for (sum, side) in sum.iter_mut().zip(&values) {
            *sum += median(side);
        }
        let signal = Signal::series(
            "host_function_us",
            &format!("Host: {name}"),
            "us per cycle",
            values,
        );
        let Some(signal) = signal else { continue };
        by_name.entry(name).or_default().push(added(&signal));
        if top
            .as_ref()
            .is_none_or(|known| added(&signal) > added(known))
        {
            top = Some(signal);
        }
    }
    for ((name, _), values) in together {
        let device = format!("Host: {name}");
        let sum = Signal::series("host_function_us", &device, "us per cycle", values);
        // One slow layer is that layer.
        let is_more = |s: &Signal| {
            top.as_ref()
                .is_none_or(|known| added(s) > ONE_OF_THEM * added(known))
        };
        top = sum.filter(is_more).or(top);
    }
    // A wait for a lock is a function like others where none that works grew as much.
    let blocked = longer_wait(sides, roles, &|f| f.class == Class::Blocked, out);
    if let Some((name, values, excess)) = blocked
        && top.as_ref().is_none_or(|known| excess > added(known))
        && cycle_grows(out, Stat::Mean).is_some_and(|grown| excess >= 0.5 * grown)
    {
        let device = format!("Host: {name}");
        top = Signal::series("host_function_us", &device, "us per cycle", values);
    }
    out.extend(top);
    let by_role = by_role
        .into_iter()
        .map(|(role, own)| (role, own.into_values().collect()))
        .collect();
    whole_host(&by_role, out);
    waits_for_input(sides, roles, out);
    alike(&by_name, roles, out);
}

/// A sum of functions is to blame if it grew by this factor more than any one of them.
const ONE_OF_THEM: f64 = 1.5;

/// Functions of one role whose names differ in one number, summed by cycle.
fn layers(
    series: &BTreeMap<Place<'_>, [Vec<f64>; 2]>,
) -> BTreeMap<(String, Option<usize>), [Vec<f64>; 2]> {
    const FEWEST: usize = 3;
    type Members<'v> = Vec<&'v [Vec<f64>; 2]>;
    let mut groups: BTreeMap<(String, Option<usize>), Members<'_>> = BTreeMap::new();
    for ((name, role), values) in series {
        if let Some(one) = numbered(name) {
            groups.entry((one, *role)).or_default().push(values);
        }
    }
    let sum = |members: &[&[Vec<f64>; 2]]| {
        let lengths = members.first()?.each_ref().map(Vec::len);
        let is_whole = |m: &&[Vec<f64>; 2]| m.each_ref().map(Vec::len) == lengths;
        let enough = members.len() >= FEWEST && members.iter().all(is_whole);
        let side = |side: usize| {
            let at = |i: usize| members.iter().map(|m| m[side][i]).sum::<f64>();
            (0..lengths[side]).map(at).collect()
        };
        enough.then(|| [side(0), side(1)])
    };
    groups
        .into_iter()
        .filter_map(|(key, members)| Some((key, sum(&members)?)))
        .collect()
}

/// By how much all host code of a role is slower, and what part of it is: by count and by time, whichever is less.
fn whole_host(by_role: &BTreeMap<Option<usize>, Vec<[f64; 2]>>, out: &mut Vec<Signal>) {
    /// Functions with less than this part of the time are not counted one by one.
    const SMALL: f64 = 0.002;
    let sum = |list: &[[f64; 2]], side: usize| list.iter().map(|own| own[side]).sum::<f64>();
    let ratio = |list: &[[f64; 2]]| sum(list, 1) / sum(list, 0);
    let most = by_role
        .values()
        .filter(|list| ratio(list).is_finite())
        .max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let Some(list) = most else { return };
    let (all, factor) = (sum(list, 0), ratio(list));
    let counted: Vec<&[f64; 2]> = list.iter().filter(|own| own[0] >= SMALL * all).collect();
    let is_like = |own: &&&[f64; 2]| kernels::is_alike(own[1] / own[0], factor);
    let like = counted.iter().filter(is_like);
    let (count, time) = like.fold((0.0, 0.0), |sum, own| (sum.0 + 1.0, sum.1 + own[0]));
    let part = (count / counted.len().max(1) as f64).min(time / all);
    out.extend(Signal::point(
        "host_time_pct",
        "Host",
        "% of before",
        [100.0, factor * 100.0],
    ));
    out.extend(Signal::point(
        "host_alike_functions_pct",
        "Host",
        "% of host functions, by count and by time",
        [0.0, if counted.len() > 2 { part * 100.0 } else { 0.0 }],
    ));
    if let Some(grown) = cycle_grows(out, Stat::Median) {
        let of_host = by_role.values().map(|list| sum(list, 1) - sum(list, 0));
        let most = of_host.fold(0.0, f64::max);
        out.extend(Signal::point(
            "host_part_pct",
            "Host",
            "% of the change of a cycle",
            [0.0, most / grown * 100.0],
        ));
    }
}

/// The wait that grew most: name, times, and growth of the mean beyond its share of the cycle before, since a thread without
/// work waits for as long as a cycle takes, whatever makes that longer.
fn longer_wait<'c>(
    sides: [&'c [&'c Capture]; 2],
    roles: &[Role],
    wanted: &dyn Fn(&Function) -> bool,
    out: &[Signal],
) -> Option<(&'c str, [Vec<f64>; 2], f64)> {
    let cycle = out.iter().find(|signal| signal.metric == "cycle_us")?;
    let cycles = cycle.typical(Stat::Mean);
    // Waits may come in some cycles only, so that the median shows nothing.
    let beyond = |values: &[Vec<f64>; 2]| {
        let [before, after] = values.each_ref().map(|side| mean(side));
        after - before * cycles[1] / cycles[0]
    };
    let ((name, _), values) = host_series(sides, roles, wanted)
        .into_iter()
        .max_by(|a, b| beyond(&a.1).total_cmp(&beyond(&b.1)))?;
    let excess = beyond(&values);
    excess.is_finite().then_some((name, values, excess))
}

/// The wait for something from outside that grew most.
fn waits_for_input(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    let is_input = |f: &Function| match f.class {
        Class::Requests => true,
        Class::Host => waits_for(&f.name) == Some(Waiting::Input),
        _ => false,
    };
    let Some((name, values, excess)) = longer_wait(sides, roles, &is_input, out) else {
        return;
    };
    out.extend(Signal::series(
        "input_wait_us",
        &format!("Host: {name}"),
        "us per cycle",
        values,
    ));
    if let Some(grown) = cycle_grows(out, Stat::Mean) {
        out.extend(Signal::point(
            "input_wait_part_pct",
            "Host",
            "% of the change of a cycle",
            [0.0, (excess / grown * 100.0).max(0.0)],
        ));
    }
}

/// The rank whose host takes longer by itself, where ranks wait for each other in collectives: what it takes longer than the
/// next one does, and the function that grew most on it.
fn late_host(
    sides: [&[&Capture]; 2],
    roles: &[Role],
    series: &BTreeMap<Place<'_>, [Vec<f64>; 2]>,
    out: &mut Vec<Signal>,
) {
    let communicates = |capture: &&Capture| {
        let own = capture.functions.iter();
        let ranks = own.filter(|f| f.class == Class::Collective);
        let ranks: BTreeSet<usize> = ranks.map(|f| f.process).collect();
        ranks.len() > 1
    };
    if roles.len() < 2 || !sides.into_iter().flatten().all(communicates) {
        return;
    }
    let grown = |values: &[Vec<f64>; 2]| mean(&values[1]) - mean(&values[0]);
    let mut by_role = vec![0.0; roles.len()];
    for ((_, role), values) in series {
        if let Some(sum) = role.and_then(|role| by_role.get_mut(role)) {
            *sum += grown(values);
        }
    }
    let mut order: Vec<usize> = (0..roles.len()).collect();
    order.sort_by(|a, b| by_role[*b].total_cmp(&by_role[*a]));
    let [late, next, ..] = order[..] else {
        return;
    };
    let (by, device) = (
        by_role[late] - by_role[next].max(0.0),
        roles[late].device(1),
    );
    let late_us = Signal::point("rank_host_late_us", &device, "us per cycle", [0.0, by]);
    out.extend(late_us.filter(|_| by > 0.0));
    if let Some(cycle) = cycle_grows(out, Stat::Median) {
        out.extend(Signal::point(
            "rank_host_late_pct",
            &device,
            "% of the change of a cycle",
            [0.0, (by / cycle * 100.0).max(0.0)],
        ));
    }
    let own = series.iter().filter(|((_, role), _)| *role == Some(late));
    if let Some(((name, _), values)) = own.max_by(|a, b| grown(a.1).total_cmp(&grown(b.1))) {
        out.extend(Signal::series(
            "rank_host_function_us",
            &format!("{device}: {name}"),
            "us per cycle",
            values.clone(),
        ));
    }
}

/// What a function takes longer on every rank, in percent of what a cycle takes longer: no rank is late by that.
fn alike(by_name: &BTreeMap<&str, Vec<f64>>, roles: &[Role], out: &mut Vec<Signal>) {
    if roles.len() < 2 {
        return;
    }
    let of_all = by_name.values().filter(|each| each.len() == roles.len());
    let most = of_all
        .map(|each| each.iter().copied().fold(f64::INFINITY, f64::min))
        .fold(0.0, f64::max);
    if let Some(grown) = cycle_grows(out, Stat::Median) {
        out.extend(Signal::point(
            "host_alike_pct",
            "all ranks",
            "% of the change of a cycle",
            [0.0, most / grown * 100.0],
        ));
    }
}
