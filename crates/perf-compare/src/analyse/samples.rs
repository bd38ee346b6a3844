//! Metrics of two tables of samples: each by itself, and the tails of times.

use super::Options;
use super::better::{Better, better};
use super::infer::{
    Inferred, both, bound, direction, effect, finite, nearest_zero, speaks_otherwise, state,
};
use super::panel::RUNS;
use super::tails;
use super::workload::{self, Adjusted};
use crate::document::{Change, Effect, Finding, Statement, Tail};
use crate::side::{Series, Side, unit_to_us};
use crate::stats::{Compared, adjust, compare_columns, mean, quantile, quantile_change, sorted};

/// Samples of each side below which nothing is said about their tail.
const FEWEST_OF_TAIL: usize = 100;

fn said_of_workloads(metric: &str, found: &Adjusted) -> String {
    let mut said = format!("{metric}: compared within {} workloads", found.strata);
    for (count, side) in found.left_out.iter().zip(["baseline", "candidate"]) {
        if *count > 0 {
            said +=
                &format!("; {count} samples of workloads that only the {side} has are left out");
        }
    }
    said
}

/// The tail of samples of a time, where it is established to differ: of several metrics each is asked more strictly.
fn tail(
    values: &[Vec<f64>; 2],
    found: &Compared,
    options: &Options,
    metrics: usize,
) -> Option<Tail> {
    if found.n.iter().any(|n| *n < FEWEST_OF_TAIL) {
        return None;
    }
    let effort = options.effort(true, 1);
    let dependence = found.dependence.for_intervals(found.n[0], found.n[1]);
    [0.95, 0.99].into_iter().find_map(|q| {
        let ends = values.each_ref().map(|side| quantile(&sorted(side), q));
        let change = quantile_change(&values[0], &values[1], q, dependence, effort);
        let tail = tails::compare(values, q, (ends, change), found, options);
        tail.filter(|tail| tail.p * metrics.max(1) as f64 <= tails::CHANCE)
    })
}

fn of_tail(tail: &Tail, series: &Series, found: &Compared) -> Finding {
    let (delta, interval) = tail.change_us;
    let [baseline, candidate] = tail.values_us;
    let effect = Effect {
        baseline,
        candidate,
        delta,
        interval: both(interval),
        ratio: finite(candidate / baseline).filter(|ratio| *ratio > 0.0),
        ratio_interval: None,
        p: Some(tail.p),
        p_brunner_munzel: None,
        shift: None,
        cliffs_delta: None,
        trimmed: None,
        method: "quantiles with intervals by resampling, and the samples beyond that of both sides (Fisher)".to_owned(),
        ..effect(found, false)
    };
    Finding {
        kind: "tail",
        name: format!("p{:.0} of {}", tail.quantile * 100.0, series.metric),
        change: direction(Statement::Changed, delta),
        verdict: Statement::Changed,
        bound: nearest_zero(interval),
        ..of_metric(series, effect)
    }
}

/// A finding about a metric of which nothing is said yet.
fn of_metric(series: &Series, effect: Effect) -> Finding {
    Finding {
        id: String::new(),
        kind: "metric",
        name: series.metric.clone(),
        class: "metric",
        device: String::new(),
        role: None,
        rank: None,
        cycle_type: series.group.clone(),
        unit: series.unit.clone(),
        change: Change::None,
        verdict: Statement::Inconclusive,
        q: None,
        effect,
        bound: 0.0,
        calls_ratio: None,
        us_per_call_ratio: None,
        explained_pct: None,
        no_effect_on_cycle: false,
        members: None,
        part_of: None,
        by_work: false,
        slow_calls: None,
    }
}

/// Metrics of two tables of samples.
pub(super) fn compare(a: &Side, b: &Side, options: &Options) -> Inferred {
    let mut out = Inferred::default();
    let mut columns = Vec::new();
    let mut about = Vec::new();
    for x in &a.series {
        let Some(y) = b
            .series
            .iter()
            .find(|y| y.metric == x.metric && y.group == x.group)
        else {
            out.notes
                .push(format!("{}: only in the baseline", x.metric));
            continue;
        };
        let scales = if x.unit == y.unit {
            [1.0, 1.0]
        } else {
            match (unit_to_us(&x.unit), unit_to_us(&y.unit)) {
                (Some(one), Some(two)) => [1.0, two / one],
                _ => continue,
            }
        };
        let by_run = x.runs.len() >= RUNS && y.runs.len() >= RUNS;
        out.by_run |= by_run;
        let observe = |runs: &[Vec<f64>], scale: f64| -> Vec<f64> {
            if by_run {
                let runs = runs.iter().filter(|run| !run.is_empty());
                runs.map(|run| mean(run) * scale).collect()
            } else {
                runs.iter().flatten().map(|v| v * scale).collect()
            }
        };
        columns.push(match workload::adjusted([x, y], scales) {
            Some(found) => {
                out.notes.push(said_of_workloads(&x.metric, &found));
                found.runs.map(|runs| observe(&runs, 1.0))
            }
            None => {
                if x.has_workloads() && y.has_workloads() {
                    out.notes.push(format!(
                        "{}: no workload is on both sides, so times differ by what was served, too",
                        x.metric
                    ));
                }
                [observe(&x.runs, scales[0]), observe(&y.runs, scales[1])]
            }
        });
        about.push((x, by_run));
    }
    for y in &b.series {
        if !a
            .series
            .iter()
            .any(|x| x.metric == y.metric && x.group == y.group)
        {
            out.notes
                .push(format!("{}: only in the candidate", y.metric));
        }
    }
    let by_run = out.by_run;
    let compared = compare_columns(&columns, options.effort(!by_run, columns.len()));
    let testable: Vec<usize> = (0..compared.len())
        .filter(|&at| compared[at].p.is_some())
        .collect();
    let p: Vec<f64> = testable.iter().filter_map(|&at| compared[at].p).collect();
    let adjusted = adjust(&p, options.any_dependence);
    for (at, (found, (series, by_run))) in compared.iter().zip(&about).enumerate() {
        let q = testable
            .iter()
            .position(|t| *t == at)
            .and_then(|place| adjusted.get(place))
            .copied();
        let size = (found.location[0].abs() + found.location[1].abs()) / 2.0;
        let limit = options.min_effect_pct / 100.0 * size;
        let margin = options.equivalence_pct / 100.0 * size;
        let verdict = state(
            found,
            q.is_some_and(|q| q <= options.level),
            limit,
            margin,
            *by_run,
        );
        let better = better(&series.metric, &series.unit);
        // Tokens come as often as the mean says, whatever most samples are.
        let verdict = match speaks_otherwise(found, verdict, limit, margin) {
            true => Statement::Inconclusive,
            false => verdict,
        };
        let change = match (verdict, better) {
            (Statement::Changed, Better::Neither) if found.delta > 0.0 => Change::Higher,
            (Statement::Changed, Better::Neither) => Change::Lower,
            (verdict, Better::More) => direction(verdict, -found.delta),
            (verdict, _) => direction(verdict, found.delta),
        };
        let tail = match (*by_run, better) {
            (false, Better::Less) => tail(&columns[at], found, options, testable.len()),
            _ => None,
        };
        out.findings.push(Finding {
            change,
            verdict,
            q,
            bound: bound(found),
            ..of_metric(series, effect(found, *by_run))
        });
        out.findings
            .extend(tail.map(|tail| of_tail(&tail, series, found)));
    }
    // Units differ from metric to metric: relative size ranks them.
    out.findings.sort_by(|a, b| {
        let key = |f: &Finding| {
            let size = (f.effect.baseline.abs() + f.effect.candidate.abs()).max(f64::MIN_POSITIVE);
            let declared = f.verdict == Statement::Changed;
            (
                declared,
                if declared {
                    f.bound
                } else {
                    f.effect.delta.abs()
                } / size,
            )
        };
        let (x, y) = (key(a), key(b));
        y.0.cmp(&x.0)
            .then(y.1.total_cmp(&x.1))
            .then_with(|| (&a.name, &a.cycle_type).cmp(&(&b.name, &b.cycle_type)))
    });
    for (at, finding) in (1..).zip(&mut out.findings) {
        finding.id = format!("f{at}");
    }
    out
}
