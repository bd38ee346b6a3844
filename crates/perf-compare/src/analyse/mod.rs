//! From two sides to a report.

mod apart;
mod beside;
mod better;
mod gate;
mod growth;
mod infer;
mod inside;
mod layers;
mod mix;
mod often;
mod onset;
mod panel;
mod pauses;
mod roles;
mod samples;
mod single;
mod slow;
mod tails;
mod times;
mod together;
mod workload;

use std::collections::BTreeSet;

use self::apart::Apart;
pub(crate) use self::better::{Better, better};
use self::panel::{Pairing, Panel};
pub use self::times::{Times, compare_times, slow_steps_by_chance};
use crate::document::{
    Comparability, Evidence, Finding, Mix, Report, Role, SCHEMA_VERSION, SideInfo, Status, Verdict,
    Workload,
};
use crate::headline;
use crate::side::{Capture, Side};
use crate::stats::{Effort, Family};
use crate::verdict::{self, Facts, Signatures};

/// Settings of a comparison.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Minimum number of permutations of each test, unless all arrangements can be counted; 9,999 unless set. Tests that are
    /// still open get as many as the number of functions demands.
    pub permutations: usize,
    /// Resamples for each interval; 1,999 unless set.
    pub resamples: usize,
    /// Seed of all random numbers; fixed unless set.
    pub seed: u64,
    /// Threads to work with; the result does not depend on it.
    pub threads: usize,
    /// False discovery rate among functions, and level of the test of cycle time; 0.05 unless set.
    pub level: f64,
    /// A change counts only beyond this part of the cycle, in percent; 0.5 unless set.
    pub min_effect_pct: f64,
    /// ... and beyond this time per cycle, in microseconds; 20 unless set.
    pub min_effect_us: f64,
    /// Within this many percent, things count as the same; 3 unless set.
    pub equivalence_pct: f64,
    /// Control the false discovery rate under any dependence (Benjamini and Yekutieli).
    pub any_dependence: bool,
    /// Compare although the gate forbids it.
    pub force: bool,
    /// Processes to be matched, baseline and candidate.
    pub map: Vec<(i64, i64)>,
    /// Anchors with different names at which cycles of the same meaning begin.
    pub same_anchors: Vec<(String, String)>,
    /// What counters look like for each cause.
    pub signatures: Signatures,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            permutations: 9_999,
            resamples: 1_999,
            seed: 20_240_229,
            threads: 1,
            level: 0.05,
            min_effect_pct: 0.5,
            min_effect_us: 20.0,
            equivalence_pct: 3.0,
            any_dependence: false,
            force: false,
            map: Vec::new(),
            same_anchors: Vec::new(),
            signatures: Signatures::builtin(),
        }
    }
}

impl Options {
    /// For one of `size` hypotheses that are tested together.
    fn effort(&self, in_time: bool, size: usize) -> Effort {
        let penalty = if self.any_dependence {
            (1..=size).map(|i| 1.0 / i as f64).sum::<f64>().max(1.0)
        } else {
            1.0
        };
        Effort {
            permutations: self.permutations.max(19),
            family: Family {
                size,
                level: self.level / penalty,
            },
            resamples: self.resamples.max(99),
            seed: self.seed,
            threads: self.threads,
            in_time,
        }
    }
}

fn info(side: &Side) -> SideInfo {
    let anchors: BTreeSet<&str> = side
        .captures
        .iter()
        .flat_map(|c| c.anchors.iter().map(String::as_str))
        .collect();
    SideInfo {
        name: side.name.clone(),
        files: side
            .captures
            .len()
            .max(usize::from(!side.series.is_empty())),
        cycles: side.cycles(),
        anchors: anchors.into_iter().map(str::to_owned).collect(),
        counter_samples: side.captures.iter().any(|c| c.has_counter_file),
    }
}

/// Compares a candidate with a baseline.
///
/// Bad input was dealt with when the sides were read: whatever they hold, there is a report. Cost: proportional to
/// permutations × cycles × functions.
#[must_use]
pub fn compare(baseline: &Side, candidate: &Side, options: &Options) -> Report {
    let samples = !baseline.series.is_empty() || !candidate.series.is_empty();
    // A table on one side makes both tables.
    let tables = [baseline, candidate].map(|side| Side {
        name: side.name.clone(),
        series: if samples {
            side.as_series()
        } else {
            Vec::new()
        },
        settings: side.settings.clone(),
        ..Side::default()
    });
    let [baseline_table, candidate_table] = &tables;
    let pairings = if samples {
        Vec::new()
    } else {
        gate::pairings(baseline, candidate)
    };
    let roles = match_roles(&pairings, options);
    let mut comparability = if samples {
        gate::samples(baseline_table, candidate_table)
    } else {
        gate::captures(
            baseline,
            candidate,
            &pairings,
            roles.len(),
            &options.same_anchors,
        )
    };
    let no_data = comparability
        .reasons
        .iter()
        .any(|reason| reason.code == "no_data");
    let stopped = comparability.status == Status::NotComparable;
    comparability.forced = stopped && options.force && !no_data;
    let go = !stopped || comparability.forced;

    let mut notes: Vec<String> = [baseline, candidate]
        .iter()
        .flat_map(|side| side.notes.clone())
        .collect();
    let panels: Vec<Panel> = if go && !samples {
        pairings
            .iter()
            .flat_map(|pairing| panel::panels(pairing, &roles))
            .collect()
    } else {
        Vec::new()
    };
    for panel in &panels {
        notes.extend(panel.notes.iter().cloned());
        notes.extend(panel.swaps.iter().cloned());
    }
    let mut inferred = if go && samples {
        samples::compare(baseline_table, candidate_table, options)
    } else {
        infer::panels(&panels, options)
    };
    notes.append(&mut inferred.notes);
    if roles.len() > 1 {
        for finding in &mut inferred.findings {
            let role = finding.role.and_then(|at| roles.get(at));
            finding.rank = role.map(|role| {
                let rank = role.ranks[1].clone().or_else(|| role.ranks[0].clone());
                rank.unwrap_or_else(|| format!("role {}", role.role))
            });
        }
    }
    let counter_findings = if go {
        inside::counters(&pairings, &roles, &inferred.findings, options)
    } else {
        Vec::new()
    };
    let mix = if go && !samples {
        let of_modes = || panels.iter().find_map(|panel| panel.modes.clone());
        mix::compare(baseline, candidate).or_else(of_modes)
    } else {
        None
    };
    let aparts: Vec<Option<Apart>> = pairings
        .iter()
        .map(|pairing| Apart::of(pairing, &roles).filter(|_| go))
        .collect();
    for finding in &mut inferred.findings {
        finding.by_work = aparts.iter().flatten().any(|apart| apart.explains(finding));
    }
    let Concluded {
        verdict,
        counters,
        workload,
    } = if samples || pairings.is_empty() {
        let facts = Facts {
            cycle_time: &inferred.cycle_time,
            findings: &inferred.findings,
            comparable: go && !comparability.forced,
            swaps: Vec::new(),
            mix: None,
            modes: false,
        };
        let there = verdict::observe_samples(baseline_table, candidate_table);
        let back = verdict::observe_samples(candidate_table, baseline_table);
        verdict::conclude(&there, &back, &facts, &options.signatures).into()
    } else {
        let comparable = go && !comparability.forced;
        let swaps = panels.iter().flat_map(|p| p.swaps.clone()).collect();
        of_pairings(
            &pairings,
            &aparts,
            &roles,
            &inferred,
            comparable,
            swaps,
            mix.as_ref().filter(|mix| mix.established || mix.large),
            options,
        )
    };
    // Sides that ran other work on other hardware have no cause.
    let mut verdict = match go {
        false if other_work(&comparability) => Verdict::undecided(),
        _ => verdict,
    };
    if verdict.cause == "none" && mix.is_some() {
        // Equal within each phase is not equal.
        verdict.confidence = verdict.confidence.min(0.6);
    }
    let by_run = panels.iter().any(|panel| panel.by_run) || inferred.by_run;
    let mut report = Report {
        schema_version: SCHEMA_VERSION,
        headline: String::new(),
        identical: baseline.is_same(candidate),
        baseline: info(baseline),
        candidate: info(candidate),
        comparability,
        verdict,
        cycle_time: inferred.cycle_time,
        findings: inferred.findings,
        counter_findings,
        mix,
        workload,
        roles,
        counters,
        claim: if by_run {
            "the condition"
        } else {
            "these two captures"
        },
        notes,
        seed: options.seed,
        permutations: options.permutations,
    };
    report.verdict.rate();
    let doubt = headline::doubt(&report);
    if let Some(why) = doubt {
        report.verdict.question(why);
    }
    report.headline = headline::of_report(&report);
    report
}

/// Returns `true` if the sides differ in what ran, or where, so that no quantity of theirs may be compared.
fn other_work(comparability: &Comparability) -> bool {
    const OTHER: [&str; 4] = ["hardware", "engine", "functions", "devices"];
    let mut reasons = comparability.reasons.iter();
    reasons.any(|reason| reason.stops && OTHER.contains(&reason.code))
}

/// A cause, what was measured, and the work of steps where it differs.
struct Concluded {
    verdict: Verdict,
    counters: Vec<Evidence>,
    workload: Option<Workload>,
}

impl From<(Verdict, Vec<Evidence>)> for Concluded {
    fn from((verdict, counters): (Verdict, Vec<Evidence>)) -> Self {
        Self {
            verdict,
            counters,
            workload: None,
        }
    }
}

/// The cause by type of cycle: that of the type with most cycles that has one. Steps of one phase are compared with steps of
/// that phase only.
#[expect(clippy::too_many_arguments, reason = "all that is known of the sides")]
fn of_pairings(
    pairings: &[Pairing<'_>],
    aparts: &[Option<Apart>],
    roles: &[Role],
    inferred: &infer::Inferred,
    comparable: bool,
    swaps: Vec<String>,
    mix: Option<&Mix>,
    options: &Options,
) -> Concluded {
    let mut order: Vec<(&Pairing<'_>, Option<&Apart>)> = pairings
        .iter()
        .zip(aparts.iter().map(Option::as_ref))
        .collect();
    let cycles = |pairing: &Pairing<'_>| {
        let sides = pairing.sides.iter();
        let sum = |side: &Vec<&Capture>| side.iter().map(|c| c.cycles.len()).sum::<usize>();
        sides.map(sum).min().unwrap_or(0)
    };
    order.sort_by_key(|(pairing, _)| std::cmp::Reverse(cycles(pairing)));
    let mirrored: Vec<Role> = roles.iter().map(mirror).collect();
    let judge = |sides: [&[&Capture]; 2], facts: &Facts<'_>| {
        let enough = sides.iter().all(|side| side.len() >= panel::RUNS);
        let of = |one: usize, two: usize, roles: &[Role]| {
            verdict::observe([sides[one], sides[two]], roles, comparable, enough)
        };
        let (there, back) = (of(0, 1, roles), of(1, 0, &mirrored));
        verdict::conclude(&there, &back, facts, &options.signatures)
    };
    let conclude = |pairing: &Pairing<'_>, apart: Option<&Apart>, facts: &Facts<'_>| {
        let whole = pairing.sides.each_ref().map(|side| &side[..]);
        let (mut verdict, table) = judge(whole, facts);
        let mut paused = facts.cycle_time.iter().filter_map(|t| t.pauses.as_ref());
        if let Some(found) =
            paused.find_map(|pauses| slow::of_copies(pauses, whole, &|sides| judge(sides, facts).0))
        {
            verdict = found;
        }
        let Some(apart) = apart else {
            return Concluded::from((verdict, table));
        };
        let workload = Some(apart.told());
        // What the work does not explain comes first: of two captures of one server it differs nearly always.
        let findings: Vec<Finding> = (facts.findings.iter())
            .filter(|f| !f.by_work)
            .cloned()
            .collect();
        let of_rest = Facts {
            cycle_time: facts.cycle_time,
            findings: &findings,
            comparable,
            swaps: facts.swaps.clone(),
            mix: None,
            modes: facts.modes,
        };
        for hidden in [false, true] {
            let rest = apart.rest(pairing, hidden);
            let rest = rest.each_ref().map(|side| side.iter().collect::<Vec<_>>());
            let rest = [&rest[0][..], &rest[1][..]];
            let (found, measured) = judge(rest, &of_rest);
            let is_cause = !matches!(
                found.cause.as_str(),
                "none" | "unknown" | "drift" | "pauses"
            );
            if is_cause && apart::is_left(whole, rest, found.direction) {
                let stated = table
                    .into_iter()
                    .filter(|row| row.metric.starts_with("step_"));
                return Concluded {
                    verdict: found,
                    counters: measured.into_iter().chain(stated).collect(),
                    workload,
                };
            }
        }
        let rest = apart.rest(pairing, false);
        let rest = rest.each_ref().map(|side| side.iter().collect::<Vec<_>>());
        let of_steps = verdict
            .evidence
            .iter()
            .any(|row| row.metric.starts_with("step_"));
        if of_steps && apart::is_most_left(whole, [&rest[0], &rest[1]]) {
            verdict.question(format!(
                "the work of a step explains at most {} of what a cycle takes longer or shorter",
                crate::report_text::time(workload.as_ref().map_or(0.0, |w| w.explained_us.abs()))
            ));
        }
        Concluded {
            verdict,
            counters: table,
            workload,
        }
    };
    let mut first = None;
    for (at, (pairing, apart)) in order.into_iter().enumerate() {
        // Modes of a type are named after it.
        let own = |kind: &str| kind.split('/').next() == Some(pairing.cycle_type.as_str());
        let cycle_time: Vec<_> = inferred
            .cycle_time
            .iter()
            .filter(|t| own(&t.cycle_type))
            .cloned()
            .collect();
        let findings: Vec<_> = inferred
            .findings
            .iter()
            .filter(|f| own(&f.cycle_type))
            .cloned()
            .collect();
        let facts = Facts {
            cycle_time: &cycle_time,
            findings: &findings,
            comparable,
            swaps: swaps.clone(),
            mix: mix.filter(|mix| at == 0 && mix.limit_us.is_none()),
            modes: at == 0 && mix.is_some_and(|mix| mix.limit_us.is_some()),
        };
        let found = conclude(pairing, apart, &facts);
        if !matches!(found.verdict.cause.as_str(), "none" | "unknown") {
            return found;
        }
        let unknown = |found: &Concluded| found.verdict.cause == "unknown";
        // What changed without a known cause is more than nothing.
        match &first {
            Some(known) if unknown(known) || !unknown(&found) => {}
            _ => first = Some(found),
        }
    }
    first.unwrap_or_else(|| {
        verdict::conclude(
            &[],
            &[],
            &Facts {
                cycle_time: &inferred.cycle_time,
                findings: &inferred.findings,
                comparable,
                swaps,
                mix,
                modes: false,
            },
            &options.signatures,
        )
        .into()
    })
}

fn mirror(role: &Role) -> Role {
    let mut role = role.clone();
    role.pids.swap(0, 1);
    role.ranks.swap(0, 1);
    role.places.swap(0, 1);
    role.devices.swap(0, 1);
    role
}

fn match_roles(pairings: &[Pairing<'_>], options: &Options) -> Vec<Role> {
    pairings
        .iter()
        .find_map(|pairing| Some((pairing.sides[0].first()?, pairing.sides[1].first()?)))
        .map_or_else(Vec::new, |(a, b)| roles::assign(a, b, &options.map))
}
