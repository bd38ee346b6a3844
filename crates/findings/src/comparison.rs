//! The second of two sides against the first.

use std::collections::BTreeMap;

use crate::catalogue::Catalogue;
use crate::document::{Answer, Comparison, DifferencePart, Finding, Interval, Shape, Side};
use crate::draft::phase_word;
use crate::job::{Job, Phase, Portion};
use crate::numbers::{interval, median, pct, share, time};
use crate::sentence::{base, capital};
use crate::words;

/// Share of the step time below which a part of the difference is not listed, in percent.
const LEAST_PART: f64 = 1.0;

/// Least share of the step time that is called a difference, in percent.
const LEAST: f64 = 1.0;

/// Key of a part: class and name.
type Key = (String, String);

/// Returns the mean time of a step by class and name.
fn means(job: &Job, phase: &Phase) -> BTreeMap<Key, i64> {
    let mut sums: BTreeMap<Key, i64> = BTreeMap::new();
    for item in job.of(phase).flat_map(|step| &step.items) {
        let name = match item.portion {
            Portion::Wait => String::new(),
            _ => item.name.clone(),
        };
        *sums.entry((item.class_name(), name)).or_default() += item.ns;
    }
    let n = i64::try_from(phase.steps.len()).unwrap_or(i64::MAX).max(1);
    sums.values_mut().for_each(|ns| *ns /= n);
    sums
}

/// Compares the steps of the phase with most time that both sides have.
pub(crate) fn compare(
    baseline: &Job,
    candidate: &Job,
    catalogue: &Catalogue,
    findings: &[Finding],
) -> (Answer, Option<Comparison>) {
    let pair = candidate.phases.iter().find_map(|phase| {
        let other = baseline
            .phases
            .iter()
            .find(|other| other.name == phase.name)?;
        Some((other, phase))
    });
    let Some((before, after)) = pair else {
        let names = |job: &Job| {
            let names: Vec<&str> = job.phases.iter().map(|phase| phase.name.as_str()).collect();
            names.join(", ")
        };
        let answer = Answer {
            shape: Shape::CannotSay,
            sentence: format!(
                "Cannot say: the sides have no phase in common (baseline: {}; candidate: {}).",
                names(baseline),
                names(candidate)
            ),
            ..Answer::default()
        };
        return (answer, None);
    };
    let times = |job: &Job, phase: &Phase| interval(job.of(phase).map(|step| step.row.duration_ns));
    let (a, b) = (times(baseline, before), times(candidate, after));
    let difference = Interval {
        median: b.median - a.median,
        low: b.low - a.high,
        high: b.high - a.low,
    };
    let (slow_a, slow_b) = slow(baseline, before, candidate, after);
    let mean = |phase: &Phase| {
        phase.total_ns / i64::try_from(phase.steps.len()).unwrap_or(i64::MAX).max(1)
    };
    let of_means = mean(after) - mean(before);
    let is_apart = b.low > a.high || b.high < a.low;
    // Few slow steps move the mean and not the median.
    let is_tail = slow_a != slow_b
        && share(of_means.abs(), a.median) >= LEAST
        && !(is_apart && share(difference.median.abs(), a.median) >= LEAST)
        && (of_means > 0) == (slow_b > slow_a);
    let difference = match is_tail {
        true => interval([of_means]),
        false => difference,
    };
    let parts = parts(
        baseline,
        candidate,
        (before, after),
        catalogue,
        findings,
        a.median,
    );
    let explained: i64 = parts.iter().map(|part| part.difference_ns).sum();
    let comparison = Comparison {
        phase: after.name.clone(),
        baseline_ns: a,
        candidate_ns: b,
        difference_ns: difference,
        unexplained_ns: difference.median - explained,
        parts,
    };
    let tail = is_tail.then_some((slow_a, slow_b, mean(before), mean(after)));
    let answer = answer(
        candidate,
        (baseline, before),
        after,
        (&comparison, tail),
        catalogue,
        findings,
    );
    (answer, Some(comparison))
}

fn parts(
    baseline: &Job,
    candidate: &Job,
    (before, after): (&Phase, &Phase),
    catalogue: &Catalogue,
    findings: &[Finding],
    step_ns: i64,
) -> Vec<DifferencePart> {
    let (old, new) = (means(baseline, before), means(candidate, after));
    let keys: std::collections::BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
    let of = |all: &BTreeMap<Key, i64>, key: &Key| all.get(key).copied().unwrap_or(0);
    let mut parts: Vec<(i64, &Key)> = keys
        .into_iter()
        .map(|key| (of(&new, key) - of(&old, key), key))
        .filter(|(ns, _)| share(ns.abs(), step_ns) >= LEAST_PART)
        .collect();
    parts.sort_by_key(|(ns, key)| (std::cmp::Reverse(ns.abs()), *key));
    let parts = parts.into_iter().map(|(ns, (class, name))| {
        let label = catalogue.label(class);
        let shown = match class.starts_with("kernel") || class.starts_with("comm") {
            true => words::kernel(name),
            false => words::function(name),
        };
        let finding = findings.iter().find(|finding| {
            let names = finding.evidence.iter().map(|evidence| &evidence.name);
            let mut names = names.chain([&finding.place.name]);
            finding.place.side == Side::Candidate
                && !name.is_empty()
                && names.any(|own| own.as_ref() == Some(name))
        });
        DifferencePart {
            label: match name.is_empty() {
                true => label.to_owned(),
                false => format!("{label} ({shown})"),
            },
            difference_ns: ns,
            finding: finding.map(|finding| finding.id.clone()),
        }
    });
    parts.collect()
}

fn answer(
    candidate: &Job,
    (baseline, before): (&Job, &Phase),
    after: &Phase,
    (found, tail): (&Comparison, Option<Tail>),
    catalogue: &Catalogue,
    findings: &[Finding],
) -> Answer {
    let mut answer = base(candidate, after);
    let word = capital(&phase_word(&after.name));
    let (a, b, d) = (found.baseline_ns, found.candidate_ns, found.difference_ns);
    let work = work(baseline, before, candidate, after);
    // Intervals that meet may be of the same median.
    let is_apart = b.low > a.high || b.high < a.low;
    let is_large = share(d.median.abs(), a.median) >= LEAST;
    if tail.is_none() && !(is_apart && is_large) {
        let smallest = ((a.high - a.low) / 2 + (b.high - b.low) / 2).max(a.median / 100);
        answer.shape = Shape::Nothing;
        answer.sentence = format!(
            "{word} steps take {} on the baseline and {} on the candidate: no difference was found; one of {} would have been{work}.",
            time(a.median),
            time(b.median),
            time(smallest)
        );
        return answer;
    }
    let sign = if d.median > 0 { "+" } else { "-" };
    let percent = pct(share(d.median.abs(), a.median));
    let interval = match d.low == d.high {
        true => String::new(),
        false => {
            let signed = |ns: i64| match ns < 0 {
                true => format!("-{}", time(-ns)),
                false => format!("+{}", time(ns)),
            };
            format!("; {} to {}", signed(d.low), signed(d.high))
        }
    };
    let same_way: Vec<&DifferencePart> = found
        .parts
        .iter()
        .filter(|part| (part.difference_ns > 0) == (d.median > 0))
        .take(3)
        .collect();
    let mut why: Vec<String> = same_way
        .iter()
        .map(|part| {
            let sign = if part.difference_ns > 0 { "+" } else { "-" };
            format!("{sign}{} {}", time(part.difference_ns.abs()), part.label)
        })
        .collect();
    let rest = d.median - same_way.iter().map(|part| part.difference_ns).sum::<i64>();
    let sign_rest = if rest < 0 { "-" } else { "+" };
    why.push(format!(
        "{sign_rest}{} in all other parts",
        time(rest.abs())
    ));
    let own = |kind: &str| {
        let mut own = findings
            .iter()
            .filter(|finding| finding.place.side == Side::Candidate);
        own.find(|finding| finding.kind == kind)
            .map(|finding| finding.id.clone())
    };
    let of_tail = tail.and_then(|_| own("periodic_stall").or_else(|| own("pause")));
    let cause = of_tail.or_else(|| found.parts.iter().find_map(|part| part.finding.clone()));
    let kind = findings
        .iter()
        .find(|finding| Some(&finding.id) == cause.as_ref());
    answer.shape = Shape::Cause;
    answer.cause = kind
        .and_then(|finding| catalogue.kind(&finding.kind))
        .and_then(|kind| kind.cause.clone());
    answer.finding = cause;
    let kernel = kernel(baseline, candidate, found);
    if let Some((slow_a, slow_b, mean_a, mean_b)) = tail {
        answer.sentence = format!(
            "{word} steps take {} instead of {} on average ({sign}{}, {sign}{percent}), while the median stays at {}: {slow_b} of {} are far longer than the others, {slow_a} of {} were before: {}{kernel}{work}.",
            time(mean_b),
            time(mean_a),
            time(d.median.abs()),
            time(b.median),
            after.steps.len(),
            before.steps.len(),
            why.join(", ")
        );
        return answer;
    }
    answer.sentence = format!(
        "{word} steps take {} instead of {} ({sign}{}, {sign}{percent}{interval}): {}{kernel}{work}.",
        time(b.median),
        time(a.median),
        time(d.median.abs()),
        why.join(", ")
    );
    answer
}

/// Numbers of slow steps and mean step times, baseline first.
type Tail = (usize, usize, i64, i64);

/// Returns the numbers of steps of both sides that are far longer than the baseline's.
fn slow(baseline: &Job, before: &Phase, candidate: &Job, after: &Phase) -> (usize, usize) {
    #[expect(clippy::cast_precision_loss, reason = "times of steps")]
    let lengths = |job: &Job, phase: &Phase| -> Vec<f64> {
        job.of(phase)
            .map(|step| step.row.duration_ns as f64)
            .collect()
    };
    let (a, b) = (lengths(baseline, before), lengths(candidate, after));
    let (_, limit) = rca_cycles::outlier_limit(&a, 0, stats::median(&a));
    let above = |all: &[f64]| all.iter().filter(|ns| **ns > limit).count();
    (above(&a), above(&b))
}

/// Returns the kernel whose time for a step differs most, where that is a notable part of the difference and no part names it: work
/// beside the critical path.
fn kernel(baseline: &Job, candidate: &Job, found: &Comparison) -> String {
    let means = |job: &Job| -> BTreeMap<String, i64> {
        let steps = i64::try_from(job.graph.steps(job.at).len())
            .unwrap_or(1)
            .max(1);
        let kernels = job.headline_facts().kernels.iter();
        kernels
            .map(|kernel| (kernel.name.clone(), kernel.total_ns / steps))
            .collect()
    };
    let (old, new) = (means(baseline), means(candidate));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let of = |all: &BTreeMap<String, i64>, name: &String| all.get(name).copied().unwrap_or(0);
    let most = names
        .into_iter()
        .max_by_key(|name| (of(&new, name) - of(&old, name)).abs());
    let Some(name) = most else {
        return String::new();
    };
    let (a, b) = (of(&old, name), of(&new, name));
    let shown = words::kernel(name);
    let is_named = found
        .parts
        .iter()
        .take(3)
        .any(|part| part.label.contains(&shown));
    match (b - a).abs() * 4 >= found.difference_ns.median.abs() && !is_named && a != b {
        true => format!(
            "; on the GPU {shown} takes {} a step instead of {}",
            time(b),
            time(a)
        ),
        false => String::new(),
    }
}

/// Returns how the work of the sides differs; empty if it is the same or not known.
fn work(baseline: &Job, before: &Phase, candidate: &Job, after: &Phase) -> String {
    let of = |job: &Job, phase: &Phase| {
        let each = job.of(phase).filter_map(|step| step.tokens.or(step.batch));
        median(each.map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
    };
    let (a, b) = (of(baseline, before), of(candidate, after));
    match a != b && a > 0 && b > 0 {
        true => format!(
            "; the work differs as well: {b} tokens or requests a step instead of {a} (medians)"
        ),
        false => String::new(),
    }
}
