//! Kernels of one class, or of a few, that are slower together while the others are as before.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::kernel::KernelClass;

use super::kernels::{Track, is_alike, is_slower};
use super::signal::Signal;
use crate::document::Role;

/// Part of the time of a class in slower kernels from which on the class is slower.
const MOST: f64 = 0.6;
/// A kernel is as before if it changed by less than this part of what the slower ones did, on a log scale.
const UNCHANGED: f64 = 0.2;

/// Returns `true` if a kernel takes as long as before, where others changed by the factor `all`.
pub(super) fn is_unchanged(ratio: f64, all: f64) -> bool {
    ratio.ln() / all.ln() < UNCHANGED
}

/// The slower classes of one role.
struct Slower<'t> {
    classes: BTreeSet<KernelClass>,
    /// Their kernels.
    members: Vec<&'t Track>,
    /// By how much these are slower together.
    ratio: f64,
    /// Time per cycle that they add by slower calls, us.
    added_us: f64,
    /// Parts of the time that slower kernels add, of their own time that is slower alike, and of all time that is as before.
    share: f64,
    alike: f64,
    unchanged: f64,
}

/// Time of the calls of the baseline, at the durations of a side.
fn expected(track: &Track, side: usize) -> f64 {
    track.per_call(side) * track.called(0)
}

fn ratio(tracks: &[&Track]) -> f64 {
    let sum = |side: usize| tracks.iter().map(|t| expected(t, side)).sum::<f64>();
    sum(1) / sum(0)
}

/// The classes of which most of the time is in slower kernels; `None` unless they have two slower kernels at least.
fn slower<'t>(own: &[&'t Track]) -> Option<Slower<'t>> {
    let time = |tracks: &[&Track]| tracks.iter().map(|t| t.total(0)).sum::<f64>();
    let moved: Vec<&Track> = own.iter().copied().filter(|t| is_slower(t)).collect();
    let mut by_class: BTreeMap<KernelClass, Vec<&'t Track>> = BTreeMap::new();
    for track in own {
        by_class.entry(track.kernel).or_default().push(track);
    }
    by_class.retain(|_, members| {
        let slow: Vec<&Track> = members.iter().copied().filter(|t| is_slower(t)).collect();
        time(&slow) >= MOST * time(members)
    });
    let classes: BTreeSet<KernelClass> = by_class.keys().copied().collect();
    let members: Vec<&Track> = by_class.into_values().flatten().collect();
    let slow: Vec<&Track> = members.iter().copied().filter(|t| is_slower(t)).collect();
    if slow.len() < 2 {
        return None;
    }
    let factor = ratio(&members);
    let added = |tracks: &[&Track]| {
        let each = tracks.iter().map(|t| expected(t, 1) - expected(t, 0));
        each.sum::<f64>()
    };
    let like: Vec<&Track> = members
        .iter()
        .copied()
        .filter(|t| is_alike(ratio(&[t]), factor))
        .collect();
    let unchanged: Vec<&Track> = own
        .iter()
        .copied()
        .filter(|t| is_unchanged(ratio(&[t]), factor))
        .collect();
    let cycles = members.iter().map(|t| t.cycles[0]).max()?;
    Some(Slower {
        ratio: factor,
        added_us: added(&slow) / cycles.max(1) as f64,
        share: added(&slow) / added(&moved),
        alike: time(&like) / time(&members),
        unchanged: time(&unchanged) / time(own),
        classes,
        members,
    })
}

/// Time by cycle of some kernels.
fn by_cycle(members: &[&Track]) -> [Vec<f64>; 2] {
    [0, 1].map(|side| {
        let longest = members.iter().map(|t| t.durs[side].len()).max();
        let at = |i: usize| {
            let each = members.iter().filter_map(|t| t.durs[side].get(i));
            each.sum::<f64>()
        };
        (0..longest.unwrap_or(0)).map(at).collect()
    })
}

/// Quantities of the slower classes, of the role where they add most, or of all roles if they are slower alike on all.
pub(super) fn signals(
    tracks: &BTreeMap<(usize, String), Track>,
    roles: &[Role],
    comparable: bool,
    out: &mut Vec<Signal>,
) {
    let both = |t: &Track| t.called(0) > 0.0 && t.called(1) > 0.0;
    let of_role = |role: usize| -> Vec<&Track> {
        let own = tracks.iter().filter(|(key, t)| key.0 == role && both(t));
        own.map(|(_, t)| t).collect()
    };
    let each: Vec<Option<Slower<'_>>> = (0..roles.len())
        .map(|role| slower(&of_role(role)))
        .collect();
    let found = each.iter().enumerate();
    let found = found.filter_map(|(role, slower)| Some((role, slower.as_ref()?)));
    let most = found.max_by(|a, b| a.1.added_us.total_cmp(&b.1.added_us));
    let Some((role, most)) = most else {
        return;
    };
    let is_same = |other: &Option<Slower<'_>>| {
        let other = other.as_ref();
        other.is_some_and(|o| o.classes == most.classes && is_alike(o.ratio, most.ratio))
    };
    let place = match roles.len() {
        n if n > 1 && each.iter().all(is_same) => format!("all {n} ranks"),
        _ => roles[role].device(1),
    };
    let names: Vec<&str> = most.classes.iter().map(|class| class.name()).collect();
    let device = format!("{place}: {}", names.join(", "));
    let percent = |value: f64| [0.0, value * 100.0];
    for (metric, unit, values) in [
        ("kernel_class_slower_pct", "%", percent(most.ratio - 1.0)),
        (
            "kernel_class_share_pct",
            "% of added time",
            percent(most.share),
        ),
        (
            "kernel_class_alike_pct",
            "% of its time",
            percent(most.alike),
        ),
        (
            "kernel_class_rest_pct",
            "% of kernel time as before",
            percent(most.unchanged),
        ),
        (
            "kernel_class_kernels",
            "count",
            [0.0, most.members.len() as f64],
        ),
    ] {
        out.extend(Signal::point(metric, &device, unit, values));
    }
    if comparable {
        let added = Signal::point(
            "kernel_class_added_us",
            &device,
            "us per cycle",
            [0.0, most.added_us],
        );
        out.extend(added);
        let time = by_cycle(&most.members);
        out.extend(Signal::series(
            "kernel_class_us",
            &device,
            "us per cycle",
            time,
        ));
    }
}
