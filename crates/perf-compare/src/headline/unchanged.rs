//! What is said where no cause is established.

use super::{excludes_zero, from_to, kind, percent};
use crate::document::{CycleTime, Mix, Report, Statement};
use crate::report_text::short;

/// Returns the change of a few long cycles that the typical one does not have, in words: mean and the quantile that moved most.
fn of_few_cycles(time: &CycleTime) -> Option<String> {
    /// Changes of the mean and of a quantile that are worth words, where the typical cycle changed by less than
    const MEAN: f64 = 0.03;
    const QUANTILE: f64 = 0.25;
    /// this.
    const SAME: f64 = 0.03;
    let change = |[before, after]: [f64; 2]| after / before - 1.0;
    let (of_mean, typical) = (change(time.mean_us), change(time.median_us));
    let quantiles = [("p95", time.p95_us), ("p99", time.p99_us)];
    let (name, values) = quantiles
        .into_iter()
        .max_by(|a, b| change(a.1).abs().total_cmp(&change(b.1).abs()))?;
    let differs = of_mean.abs() > MEAN || change(values).abs() > QUANTILE;
    let is_of_few = typical.abs() < SAME && (of_mean - typical).abs() > SAME / 2.0;
    let said = |values: [f64; 2]| {
        format!(
            "{} ({})",
            from_to(values[0], values[1]),
            percent(values[1] / values[0])
        )
    };
    (differs && is_of_few).then(|| format!("mean {}, {name} {}", said(time.mean_us), said(values)))
}

/// The type of cycle whose tail changed, else the first.
pub(super) fn most_telling(report: &Report) -> Option<&CycleTime> {
    let mut times = report.cycle_time.iter();
    let tail = times.find(|time| time.tail.is_some());
    tail.or_else(|| report.cycle_time.first())
}

/// More cycles than so many times those recorded are no advice.
const MOST_MORE: u64 = 50;

/// Sides that drift within themselves, in words with a semicolon before them: such captures do not tell what differs between
/// them.
pub(super) fn drifting(report: &Report) -> String {
    let Some(shown) = most_telling(report) else {
        return String::new();
    };
    let names = ["baseline", "candidate"];
    let said = shown
        .drift_pct
        .iter()
        .zip(names)
        .filter_map(|(drift, name)| {
            // The means of the halves are half as far apart as the ends.
            Some(format!(
                "the {name} drifts by {:+.0} % within itself",
                2.0 * (*drift)?
            ))
        });
    said.fold(String::new(), |text, one| format!("{text}; {one}"))
}

pub(super) fn nothing(report: &Report) -> String {
    let text = match report.mix.as_ref().filter(|_| leads(report)) {
        Some(mix) => by_mix(report, mix),
        None => unchanged(report),
    };
    format!("{text}{}", drifting(report))
}

/// Returns `true` if the mean step changed with the shares of phases and nothing else is said to have changed: steps that are
/// equal phase by phase are not equal.
pub(super) fn leads(report: &Report) -> bool {
    /// Change of the mean step that is worth the first words.
    const LEAST: f64 = 0.03;
    let [before, after] = report.mix.as_ref().map_or([1.0; 2], |mix| mix.mean_us);
    report.verdict.cause == "none"
        && report
            .mix
            .as_ref()
            .is_some_and(|mix| mix.limit_us.is_none())
        && (after / before - 1.0).abs() >= LEAST
}

/// The mean step that changed with the shares of phases, by chance or not, then the steps of the phase with most of them.
fn by_mix(report: &Report, mix: &Mix) -> String {
    let [before, after] = mix.mean_us;
    let how = if after > before { "longer" } else { "shorter" };
    let chance = match (mix.established, mix.steps.contains(&0)) {
        (true, _) => String::new(),
        (_, true) => ", which may be chance, and its steps are compared with none".to_owned(),
        _ => format!(
            ", which may be chance (p = {}; {})",
            short(mix.p),
            mix.advice()
        ),
    };
    let own = most_telling(report).map_or(String::new(), |shown| {
        format!(
            "; {} steps by themselves {}",
            kind(shown),
            from_to(shown.effect.baseline, shown.effect.candidate)
        )
    });
    format!(
        "The mean step is {:.1} % {how} with the mix of steps ({}){chance}{own}",
        (after / before - 1.0).abs() * 100.0,
        mix.said()
    )
}

/// Quantities of samples that changed, or why none did.
fn of_samples(report: &Report) -> String {
    const SHOWN: usize = 3;
    let findings = || report.findings.iter();
    let changed: Vec<String> = findings()
        .filter(|f| f.verdict == Statement::Changed)
        .map(|f| {
            let (a, b) = (f.effect.baseline, f.effect.candidate);
            let by = match (b / a - 1.0) * 100.0 {
                by if !by.is_finite() => "other".to_owned(),
                by if by < 0.0 => format!("{:.1} % lower", -by),
                by => format!("{by:.1} % higher"),
            };
            // Initials of latencies are written in capitals.
            let name = match f.name.as_str() {
                name @ ("ttft" | "tpot" | "itl" | "e2el") => name.to_uppercase(),
                name => name.to_owned(),
            };
            let several = findings().any(|other| other.cycle_type != f.cycle_type);
            let at = match several {
                true => format!(" at {}", f.cycle_type),
                false => String::new(),
            };
            let unit = match f.unit.as_str() {
                "" => String::new(),
                unit => format!(" {unit}"),
            };
            format!("{name}{at} is {by} ({} -> {}{unit})", short(a), short(b))
        })
        .collect();
    let is_too_few = |f: &crate::document::Finding| f.verdict == Statement::Insufficient;
    match changed.len() {
        0 if findings().next().is_some() && findings().all(is_too_few) => {
            let most = findings()
                .map(|f| f.effect.n.into_iter().min().unwrap_or(0))
                .max();
            format!(
                "Cannot say whether anything changed: no quantity has more than {} sample{} on both sides; give several \
                 runs of each side, or results with the values of each request",
                most.unwrap_or(0),
                if most == Some(1) { "" } else { "s" }
            )
        }
        0 => "No change established".to_owned(),
        n => {
            let more = match n.saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!("; {more} more changed"),
            };
            let shown: Vec<String> = changed.into_iter().take(SHOWN).collect();
            format!("{}{more}", shown.join(", "))
        }
    }
}

fn unchanged(report: &Report) -> String {
    let Some(shown) = most_telling(report) else {
        return of_samples(report);
    };
    let effect = &shown.effect;
    if let Some(tail) = &shown.tail {
        return format!(
            "The longest cycles are {}: {}; the typical {} {}",
            if tail.longer { "longer" } else { "shorter" },
            tail.said(),
            kind(shown),
            from_to(effect.baseline, effect.candidate)
        );
    }
    let relative = |us: f64| format!("{:+.1}", us / effect.baseline * 100.0);
    let within = effect.interval.map_or(String::new(), |[low, high]| {
        format!(", difference {} to {} %", relative(low), relative(high))
    });
    let few = of_few_cycles(shown);
    match shown.verdict {
        Statement::Insufficient => format!(
            "Too few cycles to say anything: {} and {}; record at least 20 a side",
            effect.n[0], effect.n[1]
        ),
        Statement::Equivalent if excludes_zero(shown) => format!(
            "Hardly any change: {} time {}{within}, the same within the margin",
            kind(shown),
            from_to(effect.baseline, effect.candidate)
        ),
        Statement::Equivalent if few.is_none() && report.mix.is_some() => format!(
            "No change within {} steps: their time {}{within}",
            kind(shown),
            from_to(effect.baseline, effect.candidate)
        ),
        Statement::Equivalent if few.is_none() => format!(
            "No change: {} time {}{within}",
            kind(shown),
            from_to(effect.baseline, effect.candidate)
        ),
        _ if few.is_some() => format!(
            "No change established, but a few long cycles differ: {}; the typical {} {}{}",
            few.unwrap_or_default(),
            kind(shown),
            from_to(shown.median_us[0], shown.median_us[1]),
            match &shown.pauses {
                Some(pauses) => format!("; {}", pauses.said()),
                None => String::new(),
            }
        ),
        _ => {
            let n = effect.n[0].min(effect.n[1]) as u64;
            let more = shown
                .cycles_needed_for_2pct
                .map(|needed| needed.saturating_sub(n))
                .filter(|more| *more > 0)
                .map_or(String::new(), |more| match more > MOST_MORE * n {
                    true => "; cycles vary too slowly for more of them to help: record several runs of each side".to_owned(),
                    false => format!("; {more} more cycles a side would show 2 %"),
                });
            format!(
                "No change established: {} time {}{within}{more}",
                kind(shown),
                from_to(effect.baseline, effect.candidate)
            )
        }
    }
}
