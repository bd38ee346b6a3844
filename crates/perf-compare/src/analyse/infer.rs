//! Level by level: cycle time, then functions, with what may be said about each.

use super::Options;
use super::beside;
use super::better::{Better, better};
use super::gate::FEWEST;
use super::layers;
use super::panel::{Panel, RUNS};
use super::tails;
use super::workload::{self, Adjusted};
use crate::document::{Change, CycleTime, Effect, Finding, Statement, Tail};
use crate::report_text::short;
use crate::side::{Series, Side, is_wait, unit_to_us};
use crate::stats::{
    Compared, adjust, attainable, compare_columns, continued, drift, is_within_wandering, mean,
    median, normal_quantile, quantile, quantile_change, sorted,
};

/// Runs below which nothing can be declared.
const FEWEST_RUNS: usize = 4;
/// Samples of each side below which nothing is said about their tail.
const FEWEST_OF_TAIL: usize = 100;
/// Power that sample sizes are given for.
const POWER: f64 = 0.9;

/// What came out.
#[derive(Debug, Default)]
pub(super) struct Inferred {
    pub(super) cycle_time: Vec<CycleTime>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
    pub(super) by_run: bool,
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn both(values: [f64; 2]) -> Option<[f64; 2]> {
    values.iter().all(|v| v.is_finite()).then_some(values)
}

pub(super) fn effect(found: &Compared, by_run: bool) -> Effect {
    let d = found.dependence;
    let exchanged = match (by_run, d.block) {
        (true, _) => "runs",
        (_, 1) => "cycles",
        _ => "blocks of cycles",
    };
    let exact = if found.exact { "exact " } else { "" };
    // Where neighbours resemble each other, p is larger than the permutation alone would give.
    let reduced = if d.rho > 0.0 {
        ", reduced as neighbours are correlated"
    } else {
        ""
    };
    let beside = match found.relative {
        true => ", relative to the other kernels of the device in each cycle",
        false => "",
    };
    let method = if found.robust {
        "trimmed means with Yuen's interval and ranks (Brunner and Munzel), as a few observations rule the mean".to_owned()
    } else {
        format!("{exact}permutation of {exchanged}, Welch statistic{reduced}{beside}")
    };
    let or_zero = |x: f64| if x.is_finite() { x } else { 0.0 };
    Effect {
        baseline: or_zero(found.location[0]),
        candidate: or_zero(found.location[1]),
        delta: or_zero(found.delta),
        interval: both(found.interval),
        ratio: found.ratio.and_then(|r| finite(r.0)),
        ratio_interval: found.ratio.and_then(|r| both(r.1)),
        n: found.n,
        effective_n: found.n.map(|n| d.effective(n)),
        autocorrelation: d.rho,
        block: d.block,
        p: found.p,
        p_brunner_munzel: finite(found.p_rank),
        shift: finite(found.shift),
        cliffs_delta: finite(found.dominance),
        trimmed: found
            .trimmed
            .filter(|t| t.0.is_finite() && both(t.1).is_some()),
        method,
    }
}

/// The end of the interval nearest to zero.
fn bound(found: &Compared) -> f64 {
    nearest_zero(found.interval)
}

fn nearest_zero([low, high]: [f64; 2]) -> f64 {
    if low > 0.0 {
        low
    } else if high < 0.0 {
        -high
    } else {
        0.0
    }
}

fn state(found: &Compared, significant: bool, limit: f64, margin: f64, by_run: bool) -> Statement {
    let fewest = if by_run { FEWEST_RUNS } else { FEWEST };
    if found.n.iter().any(|n| *n < fewest) {
        return Statement::Insufficient;
    }
    if significant && nearest_zero(found.cautious) > limit {
        return Statement::Changed;
    }
    let [low, high] = found.interval90;
    if low > -margin && high < margin {
        Statement::Equivalent
    } else if significant && bound(found) > 0.0 {
        Statement::Small
    } else {
        Statement::Inconclusive
    }
}

fn direction(verdict: Statement, delta: f64) -> Change {
    match verdict {
        Statement::Changed if delta > 0.0 => Change::Slower,
        Statement::Changed => Change::Faster,
        _ => Change::None,
    }
}

/// All types of cycle, and one family of all functions.
pub(super) fn panels(panels: &[Panel], options: &Options) -> Inferred {
    let mut out = Inferred::default();
    let mut family: Vec<(usize, usize, Compared)> = Vec::new();
    let mut limits = Vec::new();
    let mut totals_changed = Vec::new();
    let mut equivalent = Vec::new();
    let tested: usize = panels.iter().map(|panel| panel.columns.len()).sum();
    for (at, panel) in panels.iter().enumerate() {
        let effort = options.effort(!panel.by_run, tested);
        let mut columns: Vec<[Vec<f64>; 2]> = vec![panel.totals.clone()];
        columns.extend(panel.columns.iter().map(|column| column.values.clone()));
        let mut compared = compare_columns(&columns, effort);
        if let Some((_, functions)) = compared.split_first_mut() {
            beside::refine(panel, functions, effort);
        }
        let mut compared = compared.into_iter();
        let Some(total) = compared.next() else {
            continue;
        };
        if total.n.contains(&0) {
            limits.push((0.0, 0.0));
            totals_changed.push(None);
            equivalent.push(false);
            continue;
        }
        // The mean of both sides, so that exchanging them changes nothing.
        let cycle = (total.location[0] + total.location[1]) / 2.0;
        let limit = (options.min_effect_pct / 100.0 * cycle).max(options.min_effect_us);
        limits.push((limit, cycle));
        let time = cycle_time(panel, &total, limit, cycle, options, &mut out.notes);
        let changed = time
            .effect
            .interval
            .is_some_and(|[low, high]| low > 0.0 || high < 0.0);
        totals_changed.push(changed.then_some(total.delta));
        equivalent.push(time.verdict == Statement::Equivalent);
        out.cycle_time.push(time);
        family.extend(
            compared
                .enumerate()
                .map(|(column, found)| (at, column, found)),
        );
    }
    family.retain(|(_, _, found)| {
        let idle = found.mean.iter().all(|m| *m <= 0.0 || m.is_nan());
        found.n.iter().all(|n| *n > 0) && !idle
    });
    let testable: Vec<usize> = (0..family.len())
        .filter(|&at| family[at].2.p.is_some())
        .collect();
    let p: Vec<f64> = testable.iter().filter_map(|&at| family[at].2.p).collect();
    let adjusted = adjust(&p, options.any_dependence);
    let mut q = vec![None; family.len()];
    for (&at, adjusted) in testable.iter().zip(&adjusted) {
        q[at] = Some(*adjusted);
    }
    warn_if_hopeless(&family, testable.len(), options, &mut out.notes);
    for ((at, column, found), q) in family.iter().zip(q) {
        let panel = &panels[*at];
        let column = &panel.columns[*column];
        let (limit, _) = limits[*at];
        // Equal is what is equal relative to the function's own time, however little of the cycle it takes.
        let margin =
            options.equivalence_pct / 100.0 * (found.location[0] + found.location[1]) / 2.0;
        let declared = q.is_some_and(|q| q <= options.level);
        let [one, two] = &column.values;
        let drifts = declared
            && !panel.by_run
            && !found.relative
            && (continued(one, two).is_some()
                || is_within_wandering([one, two], found.dependence, found.delta));
        let mut verdict = state(found, declared && !drifts, limit, margin, panel.by_run);
        // Ranks wait for each other more, and no cycle takes longer for it.
        let is_wait = column.key.kind == "collective_total" && equivalent.get(*at) == Some(&true);
        if is_wait && verdict == Statement::Changed {
            verdict = Statement::Small;
        }
        let mut change = direction(verdict, found.delta);
        match column.present {
            [false, true] if verdict == Statement::Changed || !panel.by_run => change = Change::New,
            [true, false] if verdict == Statement::Changed || !panel.by_run => {
                change = Change::Gone
            }
            _ => {}
        }
        let calls = column.calls[1] / column.calls[0];
        let total_changed = totals_changed[*at];
        out.findings.push(Finding {
            id: String::new(),
            kind: column.key.kind,
            name: column.key.name.clone(),
            class: column.key.class.name(),
            device: column.key.device.clone(),
            role: column.key.role,
            rank: None,
            cycle_type: panel.cycle_type.clone(),
            unit: "us".to_owned(),
            change,
            verdict,
            q,
            effect: effect(found, panel.by_run),
            bound: bound(found),
            calls_ratio: finite(calls).filter(|c| *c > 0.0),
            us_per_call_ratio: finite(found.location[1] / found.location[0] / calls)
                .filter(|r| *r > 0.0),
            explained_pct: total_changed.and_then(|total| finite(found.delta / total * 100.0)),
            no_effect_on_cycle: verdict == Statement::Changed && total_changed.is_none(),
            members: None,
            part_of: None,
            by_work: false,
        });
        if verdict == Statement::Changed
            && let Some((_, [low, high])) = found.trimmed
            && low <= 0.0
            && high >= 0.0
        {
            out.notes.push(format!(
                "{}: the change rests on the extreme tenths of the cycles; without them it is not established",
                column.key.name
            ));
        }
    }
    layers::roll_up(&mut out.findings);
    rank(&mut out.findings);
    out
}

/// Declared findings by the conservative end of their interval, calls that wait and parts of others behind them, the rest by size.
fn rank(findings: &mut [Finding]) {
    let key = |f: &Finding| {
        let declared = f.verdict == Statement::Changed;
        // A call that waits follows what it waits for.
        let own = declared && f.class != "sync" && !is_wait(&f.name) && f.part_of.is_none();
        (
            (declared, own),
            if declared {
                f.bound
            } else {
                f.effect.delta.abs()
            },
        )
    };
    findings.sort_by(|a, b| {
        let (x, y) = (key(a), key(b));
        y.0.cmp(&x.0).then(y.1.total_cmp(&x.1)).then_with(|| {
            (&a.name, &a.device, a.role, a.kind).cmp(&(&b.name, &b.device, b.role, b.kind))
        })
    });
    for (at, finding) in (1..).zip(findings) {
        finding.id = format!("f{at}");
    }
}

/// Says how many members of the family could not be declared alone, whatever their values, since there are too few cycles.
fn warn_if_hopeless(
    family: &[(usize, usize, Compared)],
    m: usize,
    options: &Options,
    notes: &mut Vec<String>,
) {
    let needed = options.effort(true, m).family.smallest();
    let least: Vec<f64> = family
        .iter()
        .map(|(_, _, found)| attainable(found.n, found.dependence.block))
        .filter(|p| *p > needed)
        .collect();
    if m == 0 || least.len() * 10 < m {
        return;
    }
    let best = least.iter().copied().fold(f64::INFINITY, f64::min);
    notes.push(format!(
        "{} of {m} functions could not be declared alone, whatever their difference: this many cycles attain p = {} at best, and {} is needed among {m} functions; record more cycles",
        least.len(),
        short(best),
        short(needed)
    ));
}

fn cycle_time(
    panel: &Panel,
    total: &Compared,
    limit: f64,
    cycle: f64,
    options: &Options,
    notes: &mut Vec<String>,
) -> CycleTime {
    let significant = total.p.is_some_and(|p| p <= options.level);
    let margin = options.equivalence_pct / 100.0 * cycle;
    let lengths = panel
        .cycles
        .each_ref()
        .map(|side| side.iter().map(|c| c.1).collect::<Vec<f64>>());
    let [one, two] = &panel.totals;
    let wanders = !panel.by_run && is_within_wandering([one, two], total.dependence, total.delta);
    let drifting = continued(&lengths[0], &lengths[1]).filter(|_| !panel.by_run);
    // Drift makes neighbours alike, so that its difference need not be significant. What is the same within the margin needs no reason.
    let is_same = state(total, false, limit, margin, panel.by_run) == Statement::Equivalent;
    let continues_drift = drifting.is_some() && total.delta.abs() > limit && !is_same;
    let mut verdict = state(
        total,
        significant && !continues_drift && !wanders,
        limit,
        margin,
        panel.by_run,
    );
    if speaks_otherwise(total, verdict, limit, margin) {
        verdict = Statement::Inconclusive;
    }
    if let (Some(slope), true) = (drifting, continues_drift) {
        notes.push(format!(
            "cycle time drifts by {:+.1} % per 100 cycles within both captures, and their difference is no more than this drift continued: warm up longer, or record the two alternately",
            slope * 1e4 / cycle
        ));
    }
    if significant && wanders && !continues_drift {
        notes.push("cycle time wanders within a capture by as much as the captures differ: no change can be told from that; record several runs of each side, alternately".to_owned());
    }
    let effort = options.effort(true, 1);
    let dependence = total.dependence.for_intervals(total.n[0], total.n[1]);
    let of = |p: f64| {
        (
            lengths.each_ref().map(|side| quantile(&sorted(side), p)),
            quantile_change(&lengths[0], &lengths[1], p, dependence, effort),
        )
    };
    let (median_us, median_change_us) = of(0.5);
    let (p95_us, p95_change_us) = of(0.95);
    let (p99_us, p99_change_us) = of(0.99);
    let tails = [(0.95, p95_us, p95_change_us), (0.99, p99_us, p99_change_us)]
        .map(|(q, values, change)| tails::compare(&lengths, q, (values, change), total, options));
    let drifts = lengths
        .each_ref()
        .map(|side| drift(side).map(|change| change * 100.0));
    for (drift, name) in drifts.iter().zip(["baseline", "candidate"]) {
        if let Some(drift) = drift {
            notes.push(format!(
                "{name}: cycles drift by {drift:+.1} % from the first to the second half; a longer warm-up or capture is advisable"
            ));
        }
    }
    let few = total.dependence.may_leave_few(total.n[0], total.n[1]);
    if !panel.by_run && few && total.n.iter().all(|n| *n >= FEWEST) {
        let effective = total.n.map(|n| dependence.effective(n));
        notes.push(format!(
            "neighbouring cycles are so alike that those of a side count as about {} independent ones or fewer: the 95 % interval of the cycle time is wider for that, and may still hold less often; record longer, or several runs of each side",
            short(effective[0].min(effective[1]))
        ));
    }
    let (detectable_pct, cycles_needed_for_2pct) = sample_size(total, limit, cycle);
    CycleTime {
        cycle_type: panel.cycle_type.clone(),
        effect: effect(total, panel.by_run),
        verdict,
        change: direction(verdict, total.delta),
        median_us,
        median_change_us,
        p95_us,
        p95_change_us,
        p99_us,
        p99_change_us,
        mean_us: total.mean,
        tail: tails
            .into_iter()
            .filter(|_| !panel.by_run && !wanders)
            .flatten()
            .next(),
        pauses: panel.pauses.clone(),
        growth: panel.growth.clone().filter(|_| !continues_drift),
        detectable_pct,
        cycles_needed_for_2pct,
        drift_pct: drifts,
        continues_drift,
        intermittent_cycles: intermittent(panel),
        cycles_us: lengths,
    }
}

/// Returns `true` if the mean contradicts what the typical cycle says: tokens come as often as the mean cycle ends, so that
/// cycles whose mean is longer are neither equivalent nor faster, whatever most of them are.
fn speaks_otherwise(total: &Compared, verdict: Statement, limit: f64, margin: f64) -> bool {
    let of_mean = total.mean[1] - total.mean[0];
    match verdict {
        Statement::Equivalent | Statement::Small => of_mean.abs() > margin,
        Statement::Changed => of_mean * total.delta < 0.0 && of_mean.abs() > limit,
        _ => false,
    }
}

/// Detectable change at this size, and the size for 2 %: a change is declared when its interval clears the practical
/// limit, so the distance to that limit is what has to be resolved.
fn sample_size(total: &Compared, limit: f64, cycle: f64) -> (Option<f64>, Option<u64>) {
    let fewest = total.n[0].min(total.n[1]);
    let variance = (total.std[0].powi(2) + total.std[1].powi(2)) / 2.0
        * total.dependence.inflation_from(fewest);
    if !variance.is_finite() || cycle <= 0.0 {
        return (None, None);
    }
    let z = normal_quantile(0.975) + normal_quantile(POWER);
    let n = fewest as f64;
    let detectable = limit + z * (2.0 * variance / n).sqrt();
    let room = 0.02 * cycle - limit;
    let needed = (room > 0.0).then(|| {
        // More than the normal theory says: the dispersion is itself an estimate, small samples have wider intervals, and
        // the correction for dependence costs something where there is none. Calibrated by simulation.
        let exact = 1.4 * 2.0 * variance * z * z / (room * room) + 2.0;
        let fewest = FEWEST as u64;
        (fewest..1_000_000_000).find(|&n| n as f64 >= exact || n > 100_000_000)
    });
    (finite(detectable / cycle * 100.0), needed.flatten())
}

/// Candidate cycles far beyond the baseline, if they are few and the baseline has none like them.
fn intermittent(panel: &Panel) -> Vec<i64> {
    let baseline: Vec<f64> = panel.cycles[0].iter().map(|c| c.1).collect();
    let middle = median(&baseline);
    let spread = median(
        &baseline
            .iter()
            .map(|x| (x - middle).abs())
            .collect::<Vec<f64>>(),
    );
    let limit = middle + (8.0 * spread).max(0.15 * middle);
    let beyond = |side: usize| {
        panel.cycles[side]
            .iter()
            .filter(|c| c.1 > limit)
            .map(|c| c.0)
            .collect::<Vec<i64>>()
    };
    let (before, after) = (beyond(0), beyond(1));
    if before.is_empty() && after.len() * 3 <= panel.cycles[1].len() {
        after
    } else {
        Vec::new()
    }
}

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
        id: String::new(),
        kind: "tail",
        name: format!("p{:.0} of {}", tail.quantile * 100.0, series.metric),
        class: "metric",
        device: String::new(),
        role: None,
        rank: None,
        cycle_type: series.group.clone(),
        unit: series.unit.clone(),
        change: direction(Statement::Changed, delta),
        verdict: Statement::Changed,
        q: None,
        bound: nearest_zero(interval),
        effect,
        calls_ratio: None,
        us_per_call_ratio: None,
        explained_pct: None,
        no_effect_on_cycle: false,
        members: None,
        part_of: None,
        by_work: false,
    }
}

/// Metrics of two tables of samples.
pub(super) fn samples(a: &Side, b: &Side, options: &Options) -> Inferred {
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
            id: String::new(),
            kind: "metric",
            name: series.metric.clone(),
            class: "metric",
            device: String::new(),
            role: None,
            rank: None,
            cycle_type: series.group.clone(),
            unit: series.unit.clone(),
            change,
            verdict,
            q,
            effect: effect(found, *by_run),
            bound: bound(found),
            calls_ratio: None,
            us_per_call_ratio: None,
            explained_pct: None,
            no_effect_on_cycle: false,
            members: None,
            part_of: None,
            by_work: false,
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
