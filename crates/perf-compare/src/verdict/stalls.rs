//! Kernels that are stopped: single calls that take many times as long as they do otherwise, of other kernels in each cycle. A GPU
//! whose time is sliced among processes does this to whatever runs at the end of a slice.

use std::collections::BTreeMap;

use super::observe::roles_by_place;
use super::signal::Signal;
use crate::document::Role;
use crate::side::{Capture, Class, Function};
use crate::stats::median;

/// A call is stopped if it takes so many times as long as the longest of a cycle usually does in the baseline,
const TIMES: f64 = 3.0;
/// and so many microseconds longer.
const LEAST_US: f64 = 150.0;

/// The longest call of a kernel in a cycle.
fn longest(f: &Function, at: usize) -> f64 {
    let single = f.single.as_ref().map(|single| single.longest_us[at]);
    let single = single.filter(|us| !us.is_nan());
    single.unwrap_or(if f.calls[at] > 1.0 {
        f64::NAN
    } else {
        f.dur_us[at]
    })
}

/// Time of stopped calls by cycle, and how much of it is of other kernels than the one that is stopped most.
pub(super) fn signals(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    type Key<'c> = (usize, &'c str);
    let places = [0, 1].map(|side| roles_by_place(sides[side], roles, side));
    let kernels = |side: usize| {
        let places = &places[side];
        sides[side].iter().flat_map(move |capture| {
            let own = capture
                .functions
                .iter()
                .filter(|f| f.class == Class::Kernel);
            own.filter_map(move |f| {
                let role = places.get(f.process).copied().flatten()?;
                Some((*capture, role, f))
            })
        })
    };
    let mut usual: BTreeMap<Key<'_>, Vec<f64>> = BTreeMap::new();
    for (capture, role, f) in kernels(0) {
        let each = (0..capture.cycles.len()).map(|at| longest(f, at));
        let known = each.filter(|us| *us > 0.0);
        usual.entry((role, &f.name)).or_default().extend(known);
    }
    let usual: BTreeMap<Key<'_>, f64> = usual
        .into_iter()
        .map(|(key, values)| (key, median(&values)))
        .filter(|(_, us)| us.is_finite())
        .collect();
    // Of the role whose kernels are stopped most: ranks wait for each other.
    let mut by_role: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    let mut stopped: BTreeMap<usize, BTreeMap<&str, f64>> = BTreeMap::new();
    for side in 0..2 {
        let cycles: usize = sides[side].iter().map(|c| c.cycles.len()).sum();
        for (capture, role, f) in kernels(side) {
            let Some(usual) = usual.get(&(role, f.name.as_str())) else {
                continue;
            };
            let sums = by_role.entry(role).or_default();
            sums[side].resize(cycles, 0.0);
            let before = sides[side]
                .iter()
                .take_while(|c| !std::ptr::eq(**c, capture));
            let offset: usize = before.map(|c| c.cycles.len()).sum();
            for at in 0..capture.cycles.len() {
                let more = longest(f, at) - usual;
                if more > LEAST_US && more > (TIMES - 1.0) * usual {
                    sums[side][offset + at] += more;
                    if side == 1 {
                        *stopped.entry(role).or_default().entry(&f.name).or_default() += more;
                    }
                }
            }
        }
    }
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let most = by_role
        .into_iter()
        .max_by(|a, b| sum(&a.1[1]).total_cmp(&sum(&b.1[1])));
    let Some((role, series)) = most else { return };
    let device = roles.get(role).map_or(String::new(), |role| role.device(1));
    let own = stopped.remove(&role).unwrap_or_default();
    let (all, top) = own
        .values()
        .fold((0.0, 0.0_f64), |(all, top), us| (all + us, top.max(*us)));
    let others = if all > 0.0 {
        (1.0 - top / all) * 100.0
    } else {
        0.0
    };
    out.extend(Signal::series(
        "kernel_stalls_us",
        &device,
        "us per cycle",
        series,
    ));
    out.extend(Signal::point(
        "kernel_stalls_of_others_pct",
        &device,
        "% of stopped time",
        [0.0, others],
    ));
}
