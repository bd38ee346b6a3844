//! The third level: counters of devices on which functions were declared.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::gate::FEWEST;
use super::infer::effect;
use super::panel::{Pairing, RUNS};
use crate::document::{CounterFinding, Finding, Role, Statement};
use crate::stats::{adjust, compare_columns, mean};
use crate::verdict::{native, roles_by_place};

/// A device is the host or the device of a role.
type Place = (usize, bool);

/// Values of a counter on one side, and how many interpolated ones were left out.
#[derive(Debug, Default)]
struct Values {
    runs: Vec<Vec<f64>>,
    interpolated: usize,
}

type Found = BTreeMap<(Place, String, &'static str), Values>;

/// Tests the counters of every device with declared functions, each device a family by itself, at the level of those
/// functions' family times the part of it that was declared (Benjamini and Bogomolov 2014).
pub(super) fn counters(
    pairings: &[Pairing<'_>],
    roles: &[Role],
    findings: &[Finding],
    options: &Options,
) -> Vec<CounterFinding> {
    let declared: Vec<&Finding> = findings
        .iter()
        .filter(|f| f.verdict == Statement::Changed)
        .collect();
    let mut places: BTreeMap<Place, (&str, Vec<String>)> = BTreeMap::new();
    for finding in &declared {
        if let Some(role) = finding.role {
            let host = !finding.device.starts_with("GPU");
            let place = places
                .entry((role, host))
                .or_insert_with(|| (&finding.device, Vec::new()));
            place.1.push(finding.id.clone());
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    let level = options.level * declared.len() as f64 / findings.len().max(1) as f64;
    let sides = [0, 1].map(|side| found(pairings, roles, side));
    let by_run = pairings
        .iter()
        .all(|pairing| pairing.sides.iter().all(|side| side.len() >= RUNS));
    let observe = |values: Option<&Values>| -> Vec<f64> {
        let runs = values.map_or(&[][..], |values| &values.runs);
        if by_run {
            let filled = runs.iter().filter(|run| !run.is_empty());
            filled.map(|run| mean(run)).collect()
        } else {
            runs.concat()
        }
    };
    let mut out = Vec::new();
    for (place, (device, functions)) in places {
        let keys: BTreeSet<_> = sides
            .iter()
            .flat_map(Found::keys)
            .filter(|key| key.0 == place)
            .collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let columns: Vec<[Vec<f64>; 2]> = keys
            .iter()
            .map(|key| [0, 1].map(|side| observe(sides[side].get(*key))))
            .collect();
        let compared = compare_columns(&columns, options.effort(!by_run, columns.len()));
        let p: Vec<f64> = compared.iter().filter_map(|found| found.p).collect();
        let mut adjusted = adjust(&p, options.any_dependence).into_iter();
        for (key, found) in keys.into_iter().zip(&compared) {
            let q = found.p.and_then(|_| adjusted.next());
            let outside = found.interval[0] > 0.0 || found.interval[1] < 0.0;
            let verdict = if found.n.iter().any(|n| *n < FEWEST) {
                Statement::Insufficient
            } else if q.is_some_and(|q| q <= level) && outside {
                Statement::Changed
            } else {
                let margin = options.equivalence_pct / 100.0 * found.location[0].abs();
                let [low, high] = found.interval90;
                if low >= -margin && high <= margin {
                    Statement::Equivalent
                } else {
                    Statement::Inconclusive
                }
            };
            out.push(CounterFinding {
                metric: key.1.clone(),
                device: device.to_owned(),
                role: place.0,
                unit: key.2.to_owned(),
                functions: functions.clone(),
                verdict,
                q,
                level,
                effect: effect(found, by_run),
                interpolated: [0, 1].map(|side| sides[side].get(key).map_or(0, |v| v.interpolated)),
            });
        }
    }
    out
}

fn found(pairings: &[Pairing<'_>], roles: &[Role], side: usize) -> Found {
    let mut found = Found::new();
    for pairing in pairings {
        let captures = &pairing.sides[side];
        let places = roles_by_place(captures, roles, side);
        for capture in captures {
            let mut here: BTreeMap<(Place, String, &'static str), Vec<f64>> = BTreeMap::new();
            for counter in &capture.device_counters {
                let Some(role) = places.get(counter.process).copied().flatten() else {
                    continue;
                };
                let place = (role, !counter.device.starts_with("GPU"));
                let values = counter.values.iter().zip(&counter.sampled);
                for (value, sampled) in values.filter(|(value, _)| !value.is_nan()) {
                    let (value, unit) = native(&counter.metric, *value);
                    let key = (place, counter.metric.clone(), unit);
                    if *sampled {
                        here.entry(key).or_default().push(value);
                    } else {
                        found.entry(key).or_default().interpolated += 1;
                    }
                }
            }
            for (key, run) in here {
                found.entry(key).or_default().runs.push(run);
            }
        }
    }
    found
}
