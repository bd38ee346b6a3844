//! Level by level: cycle time, then functions, with what may be said about each.

use super::Options;
use super::beside;
use super::gate::FEWEST;
use super::layers;
use super::panel::Panel;
use super::single::slow_calls;
use super::tails;
use crate::document::{Change, CycleTime, Effect, Finding, Statement};
use crate::report_text::short;
use crate::side::is_wait;
use crate::stats::{
    Compared, adjust, attainable, compare_columns, continued, deviation, drift,
    is_within_wandering, median, normal_quantile, quantile, quantile_change, sorted,
};

/// Runs below which nothing can be declared.
const FEWEST_RUNS: usize = 4;
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

pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(super) fn both(values: [f64; 2]) -> Option<[f64; 2]> {
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
pub(super) fn bound(found: &Compared) -> f64 {
    nearest_zero(found.interval)
}

pub(super) fn nearest_zero([low, high]: [f64; 2]) -> f64 {
    if low > 0.0 {
        low
    } else if high < 0.0 {
        -high
    } else {
        0.0
    }
}

pub(super) fn state(
    found: &Compared,
    significant: bool,
    limit: f64,
    margin: f64,
    by_run: bool,
) -> Statement {
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

pub(super) fn direction(verdict: Statement, delta: f64) -> Change {
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
            slow_calls: slow_calls(column.single.each_ref()),
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
    let lengths = panel.lengths();
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
pub(super) fn speaks_otherwise(
    total: &Compared,
    verdict: Statement,
    limit: f64,
    margin: f64,
) -> bool {
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
    let spread = deviation(&baseline);
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
