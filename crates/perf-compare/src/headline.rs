//! The answer in one sentence that an engineer can act on.

mod host;
mod kernels;
mod ranks;
mod unchanged;
mod work;

use crate::document::{Change, CycleTime, Evidence, Finding, Report, Statement, Status, Tail};
use crate::report_text::{label, quantity, short, time};
use crate::side::is_wait;

use host::{allocates, host, input, nothing_recorded, whole_host};
use kernels::{kernel, may_be_lengths, slow_gpus};
use ranks::straggler;
use unchanged::{most_telling, nothing};
pub(crate) use work::called;
use work::{how, more_work};

/// Causes that the same sentence fits: what happened, and what happened where the baseline had the trouble.
const SAID: [(&str, &str, &str); 10] = [
    (
        "collective_slow",
        "Collectives are slower on all ranks alike, no rank is late",
        "Collectives are faster on all ranks alike",
    ),
    ("cpu_frequency", "CPU clock lower", "CPU clock higher"),
    (
        "cpu_contention",
        "Threads wait for processors",
        "Threads wait less for processors",
    ),
    ("gpu_frequency", "GPU clock lower", "GPU clock higher"),
    (
        "gpu_contention",
        "Another process uses the GPU",
        "The GPU is shared no more",
    ),
    (
        "nvlink_contention",
        "Links between GPUs carry other traffic",
        "Links between GPUs are free again",
    ),
    (
        "pcie_contention",
        "Copies between host and GPU are slower",
        "Copies between host and GPU are faster",
    ),
    (
        "memory_pressure",
        "Memory runs short",
        "Memory is sufficient again",
    ),
    (
        "disk_contention",
        "Reads and writes are slower",
        "Reads and writes are faster",
    ),
    (
        "network_contention",
        "The network carries other traffic",
        "The network is free again",
    ),
];

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// `a -> b` in one unit that suits the larger.
fn from_to(a: f64, b: f64) -> String {
    let (unit, scale) = match a.abs().max(b.abs()) {
        most if most >= 1e6 => ("s", 1e6),
        most if most >= 1e3 => ("ms", 1e3),
        _ => ("us", 1.0),
    };
    format!("{} -> {} {unit}", short(a / scale), short(b / scale))
}

/// Both values of a row with their unit.
fn amounts(row: &Evidence) -> String {
    match row.unit.as_str() {
        "us" => from_to(row.baseline, row.candidate),
        unit => format!("{} -> {} {unit}", short(row.baseline), short(row.candidate)),
    }
}

fn signed(us: f64) -> String {
    let sign = if us < 0.0 { "-" } else { "+" };
    format!("{sign}{}", time(us.abs()))
}

fn kind(time: &CycleTime) -> &str {
    match time.cycle_type.as_str() {
        "" => "cycle",
        other => other,
    }
}

/// Returns `true` if the interval of the difference excludes zero: a small change is no unchanged time.
fn excludes_zero(time: &CycleTime) -> bool {
    let interval = time.effect.interval;
    interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
}

/// Cycle time that changed, or that it did not.
fn cycle(report: &Report) -> Option<String> {
    let changed = report
        .cycle_time
        .iter()
        .find(|time| time.verdict == Statement::Changed);
    let shown = changed.or_else(|| most_telling(report))?;
    let effect = &shown.effect;
    if changed.is_some() {
        // A tail that grows more than all says more than all do.
        let by = effect.ratio.map_or(0.0, |ratio| (ratio - 1.0).abs());
        let tail = shown.tail.as_ref().filter(|tail| {
            let [before, after] = tail.values_us;
            (after / before - 1.0).abs() > 2.0 * by
        });
        return Some(format!(
            "{} time {} ({}){}",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            percent(effect.ratio.unwrap_or(1.0)),
            tail.map_or(String::new(), |tail| format!(", {}", tail.said()))
        ));
    }
    Some(match shown.verdict {
        _ if shown.tail.is_some() => format!(
            "typical {} time {}, {}",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            shown.tail.as_ref().map_or(String::new(), Tail::said)
        ),
        Statement::Equivalent if excludes_zero(shown) => format!(
            "{} time {} ({}), the same within the margin",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            percent(effect.ratio.unwrap_or(1.0))
        ),
        Statement::Equivalent => format!(
            "{} time unchanged at {}",
            kind(shown),
            time(effect.candidate)
        ),
        _ => format!("no change of {} time established", kind(shown)),
    })
}

/// What is added to every cycle, else what a function takes longer.
fn added(report: &Report, finding: Option<&Finding>) -> String {
    let changed = report
        .cycle_time
        .iter()
        .find(|time| time.verdict == Statement::Changed);
    match (changed, finding) {
        (Some(time), _) => format!(
            "{} time {} ({})",
            kind(time),
            signed(time.effect.delta),
            percent(time.effect.ratio.unwrap_or(1.0))
        ),
        (None, Some(finding)) => {
            let cycle = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
            format!(
                "{} in all its calls of a cycle{cycle}",
                signed(finding.effect.delta)
            )
        }
        (None, None) => cycle(report).unwrap_or_default(),
    }
}

fn of<'r>(report: &'r Report, metric: &str) -> Option<&'r Evidence> {
    report.verdict.evidence.iter().find(|e| e.metric == metric)
}

/// The first changed finding in the direction of the verdict.
fn changed<'r>(report: &'r Report, classes: &'r [&'r str]) -> Option<&'r Finding> {
    all_changed(report, classes).next()
}

/// All changed findings in the direction of the verdict, most important first.
fn all_changed<'r>(
    report: &'r Report,
    classes: &'r [&'r str],
) -> impl Iterator<Item = &'r Finding> {
    let wanted = if report.verdict.direction == "better" {
        [Change::Faster, Change::Gone]
    } else {
        [Change::Slower, Change::New]
    };
    report.findings.iter().filter(move |f| {
        f.verdict == Statement::Changed && wanted.contains(&f.change) && classes.contains(&f.class)
    })
}

fn workload(report: &Report) -> String {
    if let Some(more) = more_work(report) {
        return more;
    }
    let steps: Vec<String> = report
        .verdict
        .evidence
        .iter()
        .filter(|row| row.metric.starts_with("step_"))
        .map(|row| {
            let name = row.metric.trim_start_matches("step_").replace('_', " ");
            let change = row
                .change_pct
                .map_or(String::new(), |c| format!(" ({c:+.0} %)"));
            format!(
                "{name} {} -> {}{change}",
                short(row.baseline),
                short(row.candidate)
            )
        })
        .collect();
    let tail = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    if let (Some(mix), true) = (&report.mix, of(report, "phase_share_pct").is_some()) {
        return format!("The mix of steps changed: {}{tail}", mix.said());
    }
    if steps.is_empty() {
        return format!(
            "The requests are others: kernels were called more or less often, or for other shapes{tail}"
        );
    }
    format!("The work of a step changed: {}{tail}", steps.join(", "))
}

/// Another declared change that is a good part of what a cycle takes longer and is not of the kind of the verdict.
fn also(report: &Report) -> Option<String> {
    const PART: f64 = 15.0;
    let classes: &[&str] = match report.verdict.cause.as_str() {
        "host_code" => &["kernel", "collective"],
        "gpu_kernel" | "gpu_slow" | "collective_slow" => &["host"],
        "workload_shift" if of(report, "kernel_top_calls").is_some() => &["host"],
        "workload_shift" if of(report, "copy_us").is_some() => &["kernel"],
        _ => return None,
    };
    // Calls that launch or copy follow the work that they launch.
    let is_api = |name: &str| {
        ["cuda", "hip", "cu"]
            .iter()
            .any(|api| name.starts_with(api))
    };
    let second = all_changed(report, classes)
        .filter(|f| f.kind != "collective_total")
        .filter(|f| !is_wait(&f.name) && !is_api(&f.name))
        .find(|f| f.explained_pct.is_some_and(|part| part.abs() >= PART))?;
    let kind = match second.class {
        "kernel" => "kernel",
        "collective" => "collective",
        _ => "host function",
    };
    Some(format!(
        "; also {kind} {} {} ({})",
        label(&second.name),
        how(second),
        from_to(second.effect.baseline, second.effect.candidate)
    ))
}

fn sentence(report: &Report) -> String {
    let verdict = &report.verdict;
    if let Some(why) = report
        .not_comparable()
        .filter(|_| !report.comparability.forced)
    {
        return format!("Not comparable: {why}");
    }
    if report.identical {
        return "Identical input: both sides hold the same cycles and functions".to_owned();
    }
    let better = verdict.direction == "better";
    let tail = || cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    match verdict.cause.as_str() {
        "gpu_kernel" => kernel(report),
        "collective_straggler" => straggler(report),
        "workload_shift" => workload(report),
        "gpu_slow" => {
            let row = of(report, "kernel_time_beyond_clock_pct");
            let by = row.map_or(0.0, |row| row.effect.abs());
            let place = row.map_or("the GPU".to_owned(), |row| slow_gpus(report, row));
            if better {
                format!(
                    "All kernels of {place} faster than in the baseline, where they took {by:.1} % longer: clock, contention or power; record clocks to tell{}",
                    tail()
                )
            } else {
                format!(
                    "All kernels of {place} slower by {by:.1} %: clock, contention or power; record clocks to tell{}",
                    tail()
                )
            }
        }
        "pauses" => {
            let paused = report
                .cycle_time
                .iter()
                .find_map(|time| time.pauses.as_ref().filter(|pauses| pauses.established));
            paused.map_or_else(String::new, |pauses| pauses.said())
        }
        "host_code" => host(report, better, &tail()),
        "memory_pressure" if allocates(report).is_some() => {
            format!("{}{}", allocates(report).unwrap_or_default(), tail())
        }
        "waiting_for_input" => input(report, better),
        "none" => nothing(report),
        "unknown"
            if report.cycle_time.iter().any(|time| time.tail.is_some())
                && report
                    .cycle_time
                    .iter()
                    .all(|time| time.verdict != Statement::Changed) =>
        {
            nothing(report)
        }
        "unknown" => {
            let first = report
                .findings
                .iter()
                .find(|f| f.verdict == Statement::Changed);
            let largest = first.map_or(String::new(), |f| {
                format!(
                    "; largest change: {} {}",
                    label(&f.name),
                    signed(f.effect.delta)
                )
            });
            match (cycle(report), first) {
                (Some(cycle), _) => match cycle.contains(" time unchanged ") {
                    true => format!("{cycle}{largest}"),
                    false => format!("Cause unknown: {cycle}{largest}"),
                },
                (None, Some(_)) => nothing(report),
                (None, None) => "Cause unknown: times cannot be compared".to_owned(),
            }
        }
        cause => match SAID.iter().find(|(name, _, _)| *name == cause) {
            Some((_, worse, better_words)) => {
                let words = if better { better_words } else { worse };
                let row = verdict.evidence.first().map_or(String::new(), |row| {
                    format!(
                        " ({} on {} {})",
                        quantity(&row.metric),
                        row.device,
                        amounts(row)
                    )
                });
                format!("{words}{row}{}", tail())
            }
            None => verdict.summary.clone(),
        },
    }
}

impl Report {
    /// Returns why the sides may not be compared, if so. Cuts that differ are told only where nothing else does: other models and
    /// hardware have other cuts.
    #[must_use]
    pub fn not_comparable(&self) -> Option<String> {
        const CUTS: [&str; 2] = ["anchor", "cycle_type"];
        if self.comparability.status != Status::NotComparable {
            return None;
        }
        let stops = || self.comparability.reasons.iter().filter(|r| r.stops);
        let is_cut = |code: &str| CUTS.contains(&code);
        let only_cuts = stops().all(|r| is_cut(r.code));
        let shown = stops().filter(|r| only_cuts || !is_cut(r.code));
        let reasons: Vec<&str> = shown.map(|r| r.text.as_str()).collect();
        Some(reasons.join("; "))
    }

    /// Returns `true` if all code of the host is slower alike, so that no function is to blame.
    #[must_use]
    pub fn is_whole_host(&self) -> bool {
        whole_host(self).is_some()
    }
}

/// Returns why the recordings cannot establish the cause: what would look the same, if so.
pub(crate) fn doubt(report: &Report) -> Option<String> {
    let mut reasons = report.comparability.reasons.iter();
    if let Some(capture) = reasons.find(|reason| reason.code == "capture") {
        return Some(capture.text.clone());
    }
    if nothing_recorded(report) {
        return Some(
            "nothing was recorded on the host in the time that a cycle takes longer: code, a lock, or requests that do not come"
                .to_owned(),
        );
    }
    may_be_lengths(report).then(|| {
        "longer sequences make attention slower too, and how long they were was not recorded"
            .to_owned()
    })
}

/// Returns the sentence of a report, with a capital and without a full stop.
pub(crate) fn of_report(report: &Report) -> String {
    let mut text = String::new();
    // What makes the sides unlike comes before what they differ by.
    let stopped = report.comparability.status == Status::NotComparable;
    if !stopped && !report.identical {
        let unlike = report.comparability.reasons.iter();
        for reason in unlike.filter(|reason| reason.code == "capture") {
            text += &reason.text;
            text += ". ";
        }
    }
    text += &sentence(report);
    text += &also(report).unwrap_or_default();
    if let Some(mix) = report
        .mix
        .as_ref()
        .filter(|_| of(report, "phase_share_pct").is_none())
    {
        let how = match mix.established {
            true => "changed too",
            false => "differs, which may be chance, and its steps are compared with none",
        };
        text += &format!("; the mix of steps {how}: {}", mix.said());
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text,
    }
}
