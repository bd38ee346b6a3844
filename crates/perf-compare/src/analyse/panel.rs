//! Columns of comparable numbers, one per function, made from the captures of one type of cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::single::Calls;
use super::{growth, layers, mix, often, onset, pauses};
use crate::document::{Growth, Mix, Pauses, Role};
use crate::side::{Capture, Class, Work};
use crate::stats::{deviation, mean, median, sorted};

/// Runs needed on each side to speak about the condition.
pub(super) const RUNS: usize = 3;
/// Cycles of a mode needed on each side to treat it as one.
const MODE_CYCLES: usize = 3;
/// Two neighbouring lengths this far apart separate modes.
const MODE_GAP: f64 = 1.6;

/// The captures of one type of cycle on both sides.
pub(super) struct Pairing<'s> {
    pub(super) cycle_type: String,
    pub(super) sides: [Vec<&'s Capture>; 2],
}

/// What a column stands for.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) device: String,
    pub(super) role: Option<usize>,
}

/// One column: observations of both sides in the order of time, and calls per cycle.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) key: Key,
    pub(super) values: [Vec<f64>; 2],
    pub(super) calls: [f64; 2],
    pub(super) present: [bool; 2],
    /// Its calls one by one, as far as the tables state them; of sums and of several ranks nothing.
    pub(super) single: [Calls; 2],
}

/// One type of cycle, ready for tests.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) cycle_type: String,
    /// Lengths that were tested: of cycles, or means of runs.
    pub(super) totals: [Vec<f64>; 2],
    /// All cycles used, for medians and drawing, with their numbers.
    pub(super) cycles: [Vec<(i64, f64)>; 2],
    /// What the steps of these cycles did, where their names say it.
    pub(super) works: [Vec<Option<Work>>; 2],
    pub(super) columns: Vec<Column>,
    /// Whether an observation is a run.
    pub(super) by_run: bool,
    pub(super) notes: Vec<String>,
    /// Rank that waits most, by side, for collectives of several ranks.
    pub(super) swaps: Vec<String>,
    /// Cycles far longer than the rest. Of two modes the short one has them: they are cycles of the long one.
    pub(super) pauses: Option<Pauses>,
    /// How the candidate becomes slower within itself.
    pub(super) growth: Option<Growth>,
    /// Shares of the two modes, where they changed and the long one is no pause.
    pub(super) modes: Option<Mix>,
}

impl Panel {
    /// The lengths of all cycles of both sides.
    pub(super) fn lengths(&self) -> [Vec<f64>; 2] {
        let all = self.cycles.each_ref();
        all.map(|side| side.iter().map(|cycle| cycle.1).collect())
    }
}

/// Which cycles of each capture take part.
type Kept = Vec<Vec<usize>>;

/// One panel, or two if the cycles of both sides have two modes.
pub(super) fn panels(pairing: &Pairing<'_>, roles: &[Role]) -> Vec<Panel> {
    let mut notes = Vec::new();
    let kept = pairing
        .sides
        .each_ref()
        .map(|captures| usable(captures, &mut notes));
    let lengths = |side: usize, kept: &[Kept; 2]| -> Vec<f64> {
        pairing.sides[side]
            .iter()
            .zip(&kept[side])
            .flat_map(|(capture, kept)| kept.iter().map(|&at| capture.cycles[at].dur_us))
            .collect()
    };
    let mode = mode_limit(&[lengths(0, &kept), lengths(1, &kept)]);
    let whole = |notes| panel(pairing, roles, &kept, pairing.cycle_type.clone(), notes);
    let Some(limit) = mode else {
        let mut panel = whole(notes);
        panel.pauses = pauses::compare(&panel, roles, None);
        if panel
            .pauses
            .as_ref()
            .is_none_or(|pauses| !pauses.established)
        {
            panel.pauses = often::compare(&panel, roles).or(panel.pauses);
        }
        panel.growth = growth::of(&panel, roles).or_else(|| onset::of(&panel, roles));
        return vec![panel];
    };
    // Each mode by itself does not show how many cycles are of which.
    let both = whole(Vec::new());
    let mut of_both = pauses::compare(&both, roles, Some(limit));
    let mut modes = match of_both {
        None if !both.by_run => mix::modes(&both.cycles, limit),
        _ => None,
    };
    notes.push(format!(
        "cycles have two modes, split at {limit:.0} µs; each is compared by itself"
    ));
    [("short", false), ("long", true)]
        .into_iter()
        .map(|(name, long)| {
            let part: [Kept; 2] = [0, 1].map(|side| {
                pairing.sides[side]
                    .iter()
                    .zip(&kept[side])
                    .map(|(capture, kept)| {
                        let is = |at: &usize| (capture.cycles[*at].dur_us > limit) == long;
                        kept.iter().copied().filter(is).collect()
                    })
                    .collect()
            });
            let cycle_type = format!("{}/{name}", pairing.cycle_type);
            let notes = if long {
                Vec::new()
            } else {
                std::mem::take(&mut notes)
            };
            let mut panel = panel(pairing, roles, &part, cycle_type, notes);
            (panel.pauses, panel.modes) = (of_both.take(), modes.take());
            panel
        })
        .collect()
}

/// Without the cycles at the start that device capture missed, if enough others remain.
fn usable(captures: &[&Capture], notes: &mut Vec<String>) -> Kept {
    captures
        .iter()
        .map(|capture| {
            let n = capture.cycles.len();
            let (from, to) = capture.whole;
            if to - from == n || to - from < 5 {
                return (0..n).collect();
            }
            notes.push(format!(
                "{}: device capture was not on throughout {} cycles at the start and {} at the end, which are left out",
                capture.file,
                from,
                n - to
            ));
            (from..to).collect()
        })
        .collect()
}

/// The length between two modes, if there are two on both sides: the widest ratio between neighbouring lengths.
fn mode_limit(sides: &[Vec<f64>; 2]) -> Option<f64> {
    let all = sorted(&sides.concat());
    let widest = all
        .windows(2)
        .max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])))?;
    if widest[1] / widest[0] < MODE_GAP {
        return None;
    }
    let limit = (widest[0] * widest[1]).sqrt();
    let enough = sides.iter().all(|side| {
        let long = side.iter().filter(|length| **length > limit).count();
        let least = MODE_CYCLES.max(side.len() / 20);
        long >= least && side.len() - long >= least
    });
    // A mode is compact: outliers of all lengths are none.
    let spread_is_small = |long: bool| {
        let part: Vec<f64> = all
            .iter()
            .copied()
            .filter(|x| (*x > limit) == long)
            .collect();
        deviation(&part) < 0.25 * median(&part)
    };
    (enough && spread_is_small(false) && spread_is_small(true)).then_some(limit)
}

/// Time and calls of one function on one side, by kept cycle.
struct Sight {
    class: Class,
    device: String,
    durs: Vec<Vec<f64>>,
    calls: Vec<Vec<f64>>,
    single: Calls,
}

type SightKey = (usize, usize, String, Class);

/// Everything one side shows, by role, place of the device within the role, and name.
fn sights(
    captures: &[&Capture],
    kept: &Kept,
    role_of: impl Fn(usize, usize) -> Option<usize>,
) -> BTreeMap<SightKey, Sight> {
    let mut found: BTreeMap<SightKey, Sight> = BTreeMap::new();
    let empty = || {
        kept.iter()
            .map(|kept| vec![f64::NAN; kept.len()])
            .collect::<Vec<_>>()
    };
    for (run, capture) in captures.iter().enumerate() {
        for function in &capture.functions {
            let Some(role) = role_of(run, function.process) else {
                continue;
            };
            let devices = &capture.processes[function.process].devices;
            let place = devices
                .iter()
                .position(|d| *d == function.device)
                .map_or(0, |at| at + 1);
            let sight = found
                .entry((role, place, function.name.clone(), function.class))
                .or_insert_with(|| Sight {
                    class: function.class,
                    device: function.device.clone(),
                    durs: empty(),
                    calls: empty(),
                    single: Calls::default(),
                });
            for (at, &cycle) in kept[run].iter().enumerate() {
                sight.durs[run][at] = function.dur_us[cycle];
                sight.calls[run][at] = function.calls[cycle];
                if let Some(single) = &function.single {
                    let own = &mut sight.single;
                    own.durs.push(function.dur_us[cycle]);
                    own.calls.push(function.calls[cycle]);
                    own.shortest.push(single.shortest_us[cycle]);
                    own.longest.push(single.longest_us[cycle]);
                    own.place.push(single.longest[cycle]);
                }
            }
        }
    }
    // A function that one run never shows was not called there, if that run saw anything of the kind.
    let mut on: BTreeMap<(usize, bool), Vec<Vec<bool>>> = BTreeMap::new();
    for ((role, _, _, _), sight) in &found {
        let seen = on
            .entry((*role, sight.class.on_device()))
            .or_insert_with(|| kept.iter().map(|kept| vec![false; kept.len()]).collect());
        for (seen, durs) in seen.iter_mut().zip(&sight.durs) {
            for (seen, dur) in seen.iter_mut().zip(durs) {
                *seen |= !dur.is_nan();
            }
        }
    }
    for ((role, _, _, _), sight) in &mut found {
        let Some(seen) = on.get(&(*role, sight.class.on_device())) else {
            continue;
        };
        for ((durs, calls), seen) in sight.durs.iter_mut().zip(&mut sight.calls).zip(seen) {
            for ((dur, calls), seen) in durs.iter_mut().zip(calls).zip(seen) {
                if dur.is_nan() && *seen {
                    *dur = 0.0;
                    *calls = 0.0;
                }
            }
        }
    }
    found
}

fn panel(
    pairing: &Pairing<'_>,
    roles: &[Role],
    kept: &[Kept; 2],
    cycle_type: String,
    mut notes: Vec<String>,
) -> Panel {
    let by_run = pairing.sides.iter().all(|side| side.len() >= RUNS);
    let cycles = [0, 1].map(|side| {
        pairing.sides[side]
            .iter()
            .zip(&kept[side])
            .flat_map(|(capture, kept)| kept.iter().map(|&at| &capture.cycles[at]))
            .map(|cycle| (cycle.number, cycle.dur_us))
            .collect::<Vec<_>>()
    });
    let works = [0, 1].map(|side| {
        let captures = pairing.sides[side].iter().zip(&kept[side]);
        let each = captures.flat_map(|(capture, kept)| kept.iter().map(|&at| &capture.cycles[at]));
        each.map(|cycle| cycle.work.clone()).collect::<Vec<_>>()
    });
    let observe = |runs: &[Vec<f64>]| -> Vec<f64> {
        let clean = runs.iter().map(|run| {
            run.iter()
                .copied()
                .filter(|x| !x.is_nan())
                .collect::<Vec<f64>>()
        });
        if by_run {
            clean
                .filter(|run| !run.is_empty())
                .map(|run| mean(&run))
                .collect()
        } else {
            clean.flatten().collect()
        }
    };
    let totals = [0, 1].map(|side| {
        let runs: Vec<Vec<f64>> = pairing.sides[side]
            .iter()
            .zip(&kept[side])
            .map(|(capture, kept)| kept.iter().map(|&at| capture.cycles[at].dur_us).collect())
            .collect();
        observe(&runs)
    });
    let seen = [0, 1].map(|side| {
        let captures = &pairing.sides[side];
        // Roles are numbers of processes in the first capture; other captures have the same order of places.
        let by_place: Vec<Option<usize>> = captures.first().map_or(Vec::new(), |first| {
            (0..first.processes.len())
                .map(|at| roles.iter().position(|role| role.places[side] == at))
                .collect()
        });
        sights(captures, &kept[side], |_, process| {
            by_place.get(process).copied().flatten()
        })
    });
    let mut keys: BTreeSet<&SightKey> = seen[0].keys().collect();
    keys.extend(seen[1].keys());
    let several_ranks = roles.len() > 1;
    let mut columns = Vec::new();
    for key in &keys {
        let sides = [seen[0].get(*key), seen[1].get(*key)];
        let Some(any) = sides[0].or(sides[1]) else {
            continue;
        };
        if several_ranks && any.class == Class::Collective {
            continue;
        }
        let values = [0, 1].map(|side| match sides[side] {
            Some(sight) => observe(&sight.durs),
            None => observe(&absent(&seen[side], key.0, any.class, &kept[side])),
        });
        columns.push(Column {
            key: Key {
                kind: "function",
                name: key.2.clone(),
                class: any.class,
                device: any.device.clone(),
                role: Some(key.0),
            },
            values,
            calls: [0, 1].map(|side| sides[side].map_or(0.0, |s| average(&s.calls))),
            present: [
                sides[0].is_some_and(Sight::was_called),
                sides[1].is_some_and(Sight::was_called),
            ],
            single: sides.map(|sight| sight.map_or_else(Calls::default, |s| s.single.clone())),
        });
    }
    columns.extend(layers::sums(&columns));
    let mut swaps = Vec::new();
    if several_ranks {
        let names: BTreeSet<&str> = seen
            .iter()
            .flat_map(|side| {
                side.iter()
                    .filter(|(_, s)| s.class == Class::Collective)
                    .map(|(k, _)| k.2.as_str())
            })
            .collect();
        for name in names {
            columns.extend(joint(name, &seen, roles, &observe, &mut swaps));
        }
    }
    if by_run {
        notes.push("observations are runs: the claim is about the condition".to_owned());
    }
    Panel {
        cycle_type,
        totals,
        cycles,
        works,
        columns,
        by_run,
        notes,
        swaps,
        pauses: None,
        growth: None,
        modes: None,
    }
}

impl Sight {
    fn was_called(&self) -> bool {
        self.durs.iter().flatten().any(|dur| *dur > 0.0)
    }
}

fn average(runs: &[Vec<f64>]) -> f64 {
    let all: Vec<f64> = runs
        .iter()
        .flatten()
        .copied()
        .filter(|x| !x.is_nan())
        .collect();
    mean(&all)
}

/// Zeros where the role was observed, for a function that a side never shows.
fn absent(
    seen: &BTreeMap<SightKey, Sight>,
    role: usize,
    class: Class,
    kept: &Kept,
) -> Vec<Vec<f64>> {
    let like = seen
        .iter()
        .find(|(key, sight)| key.0 == role && sight.class.on_device() == class.on_device());
    match like {
        Some((_, sight)) => sight
            .durs
            .iter()
            .map(|run| {
                run.iter()
                    .map(|dur| if dur.is_nan() { f64::NAN } else { 0.0 })
                    .collect()
            })
            .collect(),
        None => kept.iter().map(|_| Vec::new()).collect(),
    }
}

/// A collective over all ranks: the shortest rank is the transfer, the sum does not change when ranks change places.
fn joint(
    name: &str,
    seen: &[BTreeMap<SightKey, Sight>; 2],
    roles: &[Role],
    observe: &dyn Fn(&[Vec<f64>]) -> Vec<f64>,
    swaps: &mut Vec<String>,
) -> Vec<Column> {
    let ranks = [0, 1].map(|side| -> Vec<(usize, &Sight)> {
        seen[side]
            .iter()
            .filter(|(key, _)| key.2 == name && key.3 == Class::Collective)
            .map(|(key, sight)| (key.0, sight))
            .collect()
    });
    if ranks[0].len() != ranks[1].len() || ranks[0].len() < 2 {
        return Vec::new();
    }
    let combine = |side: usize, with: fn(f64, f64) -> f64| -> Vec<f64> {
        let runs: Vec<Vec<f64>> = (0..ranks[side][0].1.durs.len())
            .map(|run| {
                (0..ranks[side][0].1.durs[run].len())
                    .map(|at| {
                        let mut values = ranks[side].iter().map(|(_, sight)| sight.durs[run][at]);
                        let first = values.next().unwrap_or(f64::NAN);
                        // NaN of any rank makes the cycle unusable.
                        values.fold(first, |a, b| {
                            if a.is_nan() || b.is_nan() {
                                f64::NAN
                            } else {
                                with(a, b)
                            }
                        })
                    })
                    .collect()
            })
            .collect();
        observe(&runs)
    };
    let longest = [0, 1].map(|side| {
        ranks[side]
            .iter()
            .map(|(role, sight)| (average(&sight.durs), *role))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    });
    if let [Some((one, first)), Some((two, second))] = longest
        && first != second
    {
        let device =
            |role: usize, side: usize| roles.get(role).map_or(String::new(), |r| r.device(side));
        swaps.push(format!(
            "in `{name}` the rank that waits is role {first} ({}, {one:.0} µs per cycle) in the baseline and role {second} ({}, {two:.0} µs) in the candidate: the ranks changed places, which is no cause",
            device(first, 0),
            device(second, 1)
        ));
    }
    let calls = [0, 1].map(|side| average(&ranks[side][0].1.calls));
    let column = |kind: &'static str, with: fn(f64, f64) -> f64| Column {
        key: Key {
            kind,
            name: name.to_owned(),
            class: Class::Collective,
            device: "all ranks".to_owned(),
            role: None,
        },
        values: [combine(0, with), combine(1, with)],
        calls,
        present: [true, true],
        single: Default::default(),
    };
    vec![
        column("collective_transfer", f64::min),
        column("collective_total", |a, b| a + b),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_need_both_sides_and_compactness() {
        let mixed: Vec<f64> = (0..20)
            .map(|i| {
                if i % 4 == 0 {
                    180.0 + f64::from(i)
                } else {
                    30.0
                }
            })
            .collect();
        let plain = vec![30.0; 20];
        let limit = mode_limit(&[mixed.clone(), mixed.clone()]).unwrap();
        assert!((30.0..180.0).contains(&limit));
        assert_eq!(mode_limit(&[mixed, plain.clone()]), None);
        assert_eq!(mode_limit(&[plain.clone(), plain]), None);
    }
}
