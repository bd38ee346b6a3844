//! The second of two sides against the first.

use std::collections::BTreeMap;

use perf_compare::document::{Finding as Row, Statement};
use perf_compare::{Times, compare_times, slow_steps_by_chance};

use crate::catalogue::Catalogue;
use crate::document::{
    Answer, Comparison, Confidence, DifferencePart, Finding, Interval, Shape, Side,
};
use crate::draft::phase_word;
use crate::job::{Job, Phase, Portion};
use crate::numbers::{interval, median, pct, share, time, whole_ns};
use crate::sentence::{base, capital};
use crate::words;

/// Share of the step time below which a part of the difference is not listed, in percent.
const LEAST_PART: f64 = 1.0;

/// Least share of the step time by which few slow steps move its mean, in percent.
const LEAST: f64 = 1.0;

/// Share of the time of all phases from which a phase is compared, in percent.
const LEAST_PHASE: f64 = 2.0;

/// Probability below which chance is no explanation.
const CHANCE: f64 = 0.05;

/// Maximum number of parts that are tested.
const TESTED: usize = 60;

/// Numbers that a comparison may draw: permutations × steps × parts.
const DRAWS: usize = 300_000_000;

/// Key of a part: class and name.
type Key = (String, String);

/// Times of a part in each step of both sides.
struct Part {
    key: Key,
    ns: [Vec<f64>; 2],
}

impl Part {
    fn mean(&self, side: usize) -> f64 {
        mean(&self.ns[side])
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A phase of both sides.
#[derive(Clone, Copy)]
struct Pair<'a> {
    jobs: [&'a Job; 2],
    phases: [&'a Phase; 2],
}

impl Pair<'_> {
    #[expect(clippy::cast_precision_loss, reason = "times of steps")]
    fn lengths(&self) -> [Vec<f64>; 2] {
        [0, 1].map(|side| {
            let steps = self.jobs[side].of(self.phases[side]);
            steps.map(|step| step.row.duration_ns as f64).collect()
        })
    }

    /// What each step served, where all steps say it.
    fn served(&self) -> [Vec<String>; 2] {
        [0, 1].map(|side| {
            let steps = self.jobs[side].of(self.phases[side]);
            let each = steps.map(|step| Some(step.batch.or(step.tokens)?.to_string()));
            each.collect::<Option<Vec<String>>>().unwrap_or_default()
        })
    }

    /// Parts that take a notable share of a step on a side, most time first.
    #[expect(clippy::cast_precision_loss, reason = "times of steps")]
    fn parts(&self) -> Vec<Part> {
        let mut all: BTreeMap<Key, [Vec<f64>; 2]> = BTreeMap::new();
        let n = [0, 1].map(|side| self.phases[side].steps.len());
        for side in 0..2 {
            for (at, step) in self.jobs[side].of(self.phases[side]).enumerate() {
                for item in &step.items {
                    let name = match item.portion {
                        Portion::Wait => String::new(),
                        _ => item.name.clone(),
                    };
                    let slot = all
                        .entry((item.class_name(), name))
                        .or_insert_with(|| n.map(|n| vec![0.0; n]));
                    slot[side][at] += item.ns as f64;
                }
            }
        }
        let least = LEAST_PART / 100.0 * mean(&self.lengths()[0]);
        let parts = all.into_iter().map(|(key, ns)| Part { key, ns });
        let most = |part: &Part| part.mean(0).max(part.mean(1));
        let mut parts: Vec<Part> = parts.filter(|part| most(part) >= least).collect();
        parts.sort_by(|a, b| most(b).total_cmp(&most(a)).then_with(|| a.key.cmp(&b.key)));
        parts.truncate(TESTED);
        parts
    }
}

/// A phase compared.
struct Compared<'a> {
    pair: Pair<'a>,
    comparison: Comparison,
    step: Row,
    tail: Option<Tail>,
    /// Mean step times, of which the difference is.
    means: [i64; 2],
}

impl Compared<'_> {
    fn is_changed(&self) -> bool {
        let (a, b) = (self.comparison.baseline_ns, self.comparison.candidate_ns);
        let ns = self.comparison.difference_ns.median;
        match self.step.verdict {
            _ if self.tail.is_some() => true,
            Statement::Changed => true,
            // Too few steps for a test: all those of one side are longer.
            Statement::Insufficient => {
                let is_apart = b.low > a.high || b.high < a.low;
                is_apart && share(ns.abs(), self.means[0]) >= LEAST
            }
            _ => false,
        }
    }

    fn is_certain(&self) -> bool {
        self.tail.is_some() || self.step.verdict == Statement::Changed
    }

    /// What the difference makes of all steps of the candidate.
    fn whole(&self) -> i64 {
        let n = i64::try_from(self.pair.phases[1].steps.len()).unwrap_or(i64::MAX);
        self.comparison.difference_ns.median.abs().saturating_mul(n)
    }
}

/// Compares the steps of all phases that both sides have, and answers for the one whose change takes most time.
pub(crate) fn compare(
    baseline: &Job,
    candidate: &Job,
    catalogue: &Catalogue,
    findings: &[Finding],
) -> (Answer, Option<Comparison>) {
    let whole: i64 = candidate.phases.iter().map(|phase| phase.total_ns).sum();
    let pairs = candidate.phases.iter().filter_map(|phase| {
        let mut others = baseline.phases.iter();
        let other = others.find(|other| other.name == phase.name)?;
        Some(Pair {
            jobs: [baseline, candidate],
            phases: [other, phase],
        })
    });
    let mut compared = pairs
        .enumerate()
        .filter(|(at, pair)| *at == 0 || share(pair.phases[1].total_ns, whole) >= LEAST_PHASE)
        .map(|(_, pair)| compared(pair, catalogue, findings))
        .collect::<Vec<_>>();
    // The first has most time.
    let changed = compared.iter().enumerate().rev();
    let changed = changed.filter(|(_, one)| one.is_changed());
    // What is certain comes before what chance explains as well.
    let at = changed.max_by_key(|(_, one)| (one.is_certain(), one.whole()));
    let at = at.map_or(0, |(at, _)| at);
    if compared.is_empty() {
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
    }
    let found = compared.swap_remove(at);
    let answer = answer(&found, catalogue, findings);
    (answer, Some(found.comparison))
}

fn compared<'a>(pair: Pair<'a>, catalogue: &Catalogue, findings: &[Finding]) -> Compared<'a> {
    let lengths = pair.lengths();
    let parts = pair.parts();
    let served = pair.served();
    let columns = [lengths.clone()];
    let columns = columns
        .into_iter()
        .chain(parts.iter().map(|part| part.ns.clone()));
    let times: Vec<Times> = columns
        .map(|ns| Times {
            ns,
            served: served.clone(),
        })
        .collect();
    let mut options = perf_compare::Options::default();
    let numbers = times.len() * (lengths[0].len() + lengths[1].len());
    options.permutations = (DRAWS / numbers.max(1)).clamp(999, options.permutations);
    let (mut rows, notes) = compare_times(&times, &options);
    let step = rows.remove(0);
    let tail = tail(pair, &lengths, &step, findings);
    let baseline_ns = interval(pair.jobs[0].of(pair.phases[0]).map(|s| s.row.duration_ns));
    let candidate_ns = interval(pair.jobs[1].of(pair.phases[1]).map(|s| s.row.duration_ns));
    let (means, difference) = match &tail {
        // Few slow steps: of the means, whose interval is that of chance alone.
        Some(_) => {
            let means = [0, 1].map(|side| whole_ns(mean(&lengths[side])));
            (means, interval([means[1] - means[0]]))
        }
        None => {
            let delta = whole_ns(step.effect.delta);
            let [low, high] = step.effect.interval.map_or([delta; 2], |i| i.map(whole_ns));
            let means = [step.effect.baseline, step.effect.candidate].map(whole_ns);
            let difference = Interval {
                median: delta,
                low,
                high,
            };
            (means, difference)
        }
    };
    let mut list: Vec<(i64, DifferencePart)> = parts
        .iter()
        .zip(&rows)
        .filter_map(|(part, row)| {
            let delta = match tail {
                Some(_) => part.mean(1) - part.mean(0),
                None => row.effect.delta,
            };
            let ns = whole_ns(delta);
            let is_large = share(ns.abs(), baseline_ns.median) >= LEAST_PART;
            // What chance explains as well stays in the rest.
            let is_declared = tail.is_some()
                || row.verdict == Statement::Insufficient
                || row.q.is_some_and(|q| q <= CHANCE);
            let ends = row.effect.interval.filter(|_| tail.is_none());
            (is_large && is_declared).then(|| {
                let part = DifferencePart {
                    low_ns: ends.map(|ends| whole_ns(ends[0])),
                    high_ns: ends.map(|ends| whole_ns(ends[1])),
                    q: row.q,
                    ..labelled(&part.key, ns, catalogue, findings)
                };
                (ns, part)
            })
        })
        .collect();
    merge_replaced(&parts, &mut list, catalogue);
    list.sort_by_key(|(ns, part)| (std::cmp::Reverse(ns.abs()), part.label.clone()));
    let explained: i64 = list.iter().map(|(ns, _)| ns).sum();
    let comparison = Comparison {
        phase: pair.phases[1].name.clone(),
        baseline_ns,
        candidate_ns,
        difference_ns: difference,
        unexplained_ns: difference.median - explained,
        parts: list.into_iter().map(|(_, part)| part).collect(),
        p: step.effect.p,
        method: step.effect.method.clone(),
        notes,
    };
    Compared {
        pair,
        comparison,
        step,
        tail,
        means,
    }
}

/// Makes one part of kernels of one class of which each side has some that the other lacks: the same work with another kernel.
fn merge_replaced(parts: &[Part], list: &mut Vec<(i64, DifferencePart)>, catalogue: &Catalogue) {
    let mut classes: Vec<&str> = parts.iter().map(|part| part.key.0.as_str()).collect();
    classes.retain(|class| class.starts_with("kernel."));
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let only = |side: usize| -> Vec<&Part> {
            let own = parts.iter().filter(|part| part.key.0 == class);
            own.filter(|part| part.mean(side) > 0.0 && part.mean(1 - side) <= 0.0)
                .collect()
        };
        let (gone, new) = (only(0), only(1));
        let (Some(old_first), Some(new_first)) = (gone.first(), new.first()) else {
            continue;
        };
        let each = gone.iter().chain(&new);
        let ns: f64 = each.map(|part| part.mean(1) - part.mean(0)).sum();
        let labels: Vec<String> = gone
            .iter()
            .chain(&new)
            .map(|part| labelled(&part.key, 0, catalogue, &[]).label)
            .collect();
        let finding = list
            .iter()
            .filter(|(_, part)| labels.contains(&part.label))
            .find_map(|(_, part)| part.finding.clone());
        list.retain(|(_, part)| !labels.contains(&part.label));
        let ns = whole_ns(ns);
        // Shortened together, so that they differ.
        let [new_name, old_name] = words::two_kernels(&new_first.key.1, &old_first.key.1);
        let part = DifferencePart {
            label: format!(
                "{} ({new_name} instead of {old_name})",
                catalogue.label(class),
            ),
            class: class.to_owned(),
            difference_ns: ns,
            finding,
            ..DifferencePart::default()
        };
        list.push((ns, part));
    }
}

/// Factor by which the kernels of the candidate take longer or shorter, where nearly all do so alike: not the work, but the device.
#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn all_alike(baseline: &Job, candidate: &Job) -> Option<f64> {
    const LEAST: f64 = 0.04;
    const SPREAD: f64 = 0.1;
    const PART: f64 = 0.7;
    let per_step = |job: &Job| -> BTreeMap<String, (f64, f64)> {
        let steps = job.graph.steps(job.at).len().max(1) as f64;
        let kernels = job.headline_facts().kernels.iter();
        kernels
            .filter(|kernel| !matches!(kernel.class.as_str(), "collective" | "memcpy"))
            .map(|kernel| {
                let calls = kernel.calls as f64 / steps;
                (kernel.name.clone(), (calls, kernel.total_ns as f64 / steps))
            })
            .collect()
    };
    let (old, new) = (per_step(baseline), per_step(candidate));
    let all: f64 = new.values().map(|(_, ns)| ns).sum();
    let both: Vec<(f64, f64)> = new
        .iter()
        .filter_map(|(name, (calls, ns))| {
            let (known, before) = old.get(name)?;
            ((calls / known - 1.0).abs() < 0.02).then_some((*before, *ns))
        })
        .collect();
    let sum = both.iter().fold((0.0, 0.0), |s, (a, b)| (s.0 + a, s.1 + b));
    let factor = sum.1 / sum.0;
    let alike = both
        .iter()
        .filter(|(a, b)| (b / a / factor - 1.0).abs() <= SPREAD);
    let (names, ns) = alike.fold((0, 0.0), |s, (_, b)| (s.0 + 1, s.1 + b));
    let is_all = names >= 3 && ns >= PART * all && (factor - 1.0).abs() >= LEAST;
    is_all.then_some(factor)
}

/// Returns the numbers of slow steps where they move the mean and not the usual step.
fn tail(pair: Pair<'_>, lengths: &[Vec<f64>; 2], step: &Row, findings: &[Finding]) -> Option<Tail> {
    let is_changed = step.verdict == Statement::Changed;
    let slow = slow(lengths);
    let moved = mean(&lengths[1]) - mean(&lengths[0]);
    let is_large = moved.abs() * 100.0 >= LEAST * mean(&lengths[0]);
    if is_changed || !is_large || slow[0] == slow[1] || (moved > 0.0) != (slow[1] > slow[0]) {
        return None;
    }
    let of = pair.phases.map(|phase| phase.steps.len());
    let p = slow_steps_by_chance(slow, of);
    // Few slow steps are chance by their number, unless what made them slow was recorded on that side alone.
    let side = |slow: bool| match slow == (moved > 0.0) {
        true => Side::Candidate,
        false => Side::Baseline,
    };
    let has = |side: Side| {
        findings.iter().any(|finding| {
            finding.place.side == side
                && matches!(finding.kind.as_str(), "periodic_stall" | "pause")
                && finding.confidence >= Confidence::Likely
        })
    };
    let is_recorded = has(side(true)) && !has(side(false));
    (p <= CHANCE || is_recorded).then_some(Tail { slow, p })
}

fn labelled(
    (class, name): &Key,
    ns: i64,
    catalogue: &Catalogue,
    findings: &[Finding],
) -> DifferencePart {
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
        class: class.clone(),
        difference_ns: ns,
        finding: finding.map(|finding| finding.id.clone()),
        ..DifferencePart::default()
    }
}

/// A time with its sign.
fn signed(ns: i64) -> String {
    match ns < 0 {
        true => format!("-{}", time(-ns)),
        false => format!("+{}", time(ns)),
    }
}

fn answer(found: &Compared<'_>, catalogue: &Catalogue, findings: &[Finding]) -> Answer {
    let Pair {
        jobs: [baseline, candidate],
        phases: [before, after],
    } = found.pair;
    let comparison = &found.comparison;
    let mut answer = base(candidate, after);
    let word = capital(&phase_word(&after.name));
    let d = comparison.difference_ns;
    let [a, b] = found.means;
    let work = work(found);
    let percent = pct(share(d.median.abs(), a));
    let sign = if d.median > 0 { "+" } else { "-" };
    if !found.is_changed() {
        answer.shape = Shape::Nothing;
        answer.sentence = unchanged(found, &word, &work);
        return answer;
    }
    let interval = match (d.low == d.high, found.step.verdict) {
        (true, _) | (_, Statement::Insufficient) => String::new(),
        _ => format!("; 95 % interval {} to {}", signed(d.low), signed(d.high)),
    };
    let same_way: Vec<&DifferencePart> = comparison
        .parts
        .iter()
        .filter(|part| (part.difference_ns > 0) == (d.median > 0))
        .take(3)
        .collect();
    let mut why: Vec<String> = same_way
        .iter()
        .map(|part| format!("{} {}", signed(part.difference_ns), part.label))
        .collect();
    let mut rest = d.median - same_way.iter().map(|part| part.difference_ns).sum::<i64>();
    // A large part that goes the other way would vanish in the rest.
    let least = same_way.first().map_or(0, |part| part.difference_ns.abs()) / 2;
    let mut others = comparison.parts.iter();
    let against = others.find(|part| {
        (part.difference_ns > 0) != (d.median > 0) && part.difference_ns.abs() > least
    });
    if let Some(part) = against {
        why.push(format!("yet {} {}", signed(part.difference_ns), part.label));
        rest -= part.difference_ns;
    }
    why.push(format!("{} in all other parts", signed(rest)));
    let own = |kind: &str| {
        let mut own = findings
            .iter()
            .filter(|finding| finding.place.side == Side::Candidate);
        own.find(|finding| finding.kind == kind)
            .map(|finding| finding.id.clone())
    };
    let of_tail = found.tail.as_ref();
    let of_tail = of_tail.and_then(|_| own("periodic_stall").or_else(|| own("pause")));
    // What became slower is no cause of faster steps.
    let cause = of_tail.or_else(|| {
        let mut parts = comparison.parts.iter();
        parts.find_map(|part| {
            let is_same_way = (part.difference_ns > 0) == (d.median > 0);
            part.finding.clone().filter(|_| is_same_way)
        })
    });
    let kind = findings
        .iter()
        .find(|finding| Some(&finding.id) == cause.as_ref());
    answer.shape = Shape::Cause;
    answer.cause = kind
        .and_then(|finding| catalogue.kind(&finding.kind))
        .and_then(|kind| kind.cause.clone());
    answer.finding = cause;
    let kernel = kernel(baseline, candidate, comparison);
    let alike = all_alike(baseline, candidate);
    let alike = alike.filter(|factor| (*factor > 1.0) == (d.median > 0));
    // What the device does as a whole, and what it had to do, come before their parts.
    if let Some(factor) = alike {
        why.insert(
            0,
            format!("all kernels take {factor:.2} times as long for the same calls, as with another clock"),
        );
        answer.cause = Some("gpu_slow".to_owned());
    } else if !kernel.is_empty() {
        why.insert(0, kernel);
        answer.cause = answer.cause.or_else(|| Some("gpu_kernel".to_owned()));
    } else if answer.cause.is_none() {
        // The class of the largest part, by the names of perf-compare.
        answer.cause = same_way.first().and_then(|part| cause_of(&part.class));
    }
    let is_more_work = !work.is_empty() && !work.contains("same number");
    if is_more_work {
        why.insert(0, work.trim_start_matches("; ").to_owned());
        answer.cause = Some("workload_shift".to_owned());
    }
    let mut work = if is_more_work { String::new() } else { work };
    let device = |job: &Job| job.headline_facts().limits.device.clone();
    let (one, two) = (device(baseline), device(candidate));
    if one != two && !one.is_empty() && !two.is_empty() {
        work += &format!("; the devices differ ({one}, then {two})");
    }
    let counts = [before.steps.len(), after.steps.len()];
    if let Some(Tail { slow, p }) = &found.tail {
        let chance = match *p > CHANCE {
            true => format!(
                "; by their number alone that could be chance (p = {p:.2}), but what makes them slow is recorded"
            ),
            false => String::new(),
        };
        answer.sentence = format!(
            "{word} steps take {} instead of {} on average ({sign}{}, {sign}{percent}), while the median stays at {}: {} of {} are far longer than the others, {} of {} were before: {}{chance}{work}.",
            time(b),
            time(a),
            time(d.median.abs()),
            time(comparison.candidate_ns.median),
            slow[1],
            counts[1],
            slow[0],
            counts[0],
            why.join(", ")
        );
        return answer;
    }
    let few = match found.step.verdict {
        Statement::Insufficient => format!(
            "; with {} and {} steps chance cannot be told from a change",
            counts[0], counts[1]
        ),
        _ => String::new(),
    };
    let on_average = match counts {
        [1, 1] => "",
        _ => " on average",
    };
    answer.sentence = format!(
        "{word} steps take {} instead of {}{on_average} ({sign}{}, {sign}{percent}{interval}): {}{few}{work}.",
        time(b),
        time(a),
        time(d.median.abs()),
        why.join(", ")
    );
    answer
}

/// Returns the name of perf-compare for a difference of a class.
fn cause_of(class: &str) -> Option<String> {
    let name = match class {
        "comm.wait" => "collective_straggler",
        "comm.transfer" => "collective_slow",
        "requests" | "input" => "waiting_for_input",
        "host_python" | "host_op" | "host_other" | "dispatch" => "host_code",
        class if class.starts_with("kernel.") => "gpu_kernel",
        _ => return None,
    };
    Some(name.to_owned())
}

/// The sentence where no change is declared.
fn unchanged(found: &Compared<'_>, word: &str, work: &str) -> String {
    let d = found.comparison.difference_ns;
    let [a, b] = found.means;
    let both = format!(
        "{word} steps take {} on the baseline and {} on the candidate on average",
        time(a),
        time(b)
    );
    let interval = format!("{} to {}", signed(d.low), signed(d.high));
    let half = (d.high - d.low) / 2;
    match found.step.verdict {
        _ if d.low == d.high && d.median == 0 => format!("{both}: no difference{work}."),
        Statement::Insufficient => format!(
            "{both}: with {} and {} steps that is no difference that chance cannot make{work}.",
            found.pair.phases[0].steps.len(),
            found.pair.phases[1].steps.len()
        ),
        Statement::Equivalent => format!(
            "{both}: no difference was found, and none is left that matters (95 % interval {interval}){work}."
        ),
        Statement::Small => format!(
            "{both}: a difference of {} is beyond chance, but too small to matter (95 % interval {interval}){work}.",
            signed(d.median)
        ),
        _ => format!(
            "{both}: no difference was found that chance does not explain (95 % interval {interval}); one of {} would have been{work}.",
            time(half.max(a / 100))
        ),
    }
}

/// Steps that are far longer than the others, baseline first, and the probability that chance alone divides them like this.
struct Tail {
    slow: [usize; 2],
    p: f64,
}

/// Returns the numbers of steps of both sides that are far longer than the baseline's.
fn slow(lengths: &[Vec<f64>; 2]) -> [usize; 2] {
    let [a, _] = lengths;
    let (_, limit) = rca_cycles::outlier_limit(a, 0, stats::median(a));
    lengths
        .each_ref()
        .map(|all| all.iter().filter(|ns| **ns > limit).count())
}

/// Returns the kernel whose time for a step differs most, where that is at least half of the difference and no part names it: work
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
    let d = found.difference_ns.median;
    let is_same_way = (b > a) == (d > 0);
    match (b - a).abs() * 2 >= d.abs() && is_same_way && !is_named && a != b {
        true => format!(
            "on the GPU {shown} takes {} a step instead of {}",
            time(b),
            time(a)
        ),
        false => String::new(),
    }
}

/// Returns how the work of the sides differs; empty if it is the same or not known.
fn work(found: &Compared<'_>) -> String {
    let of = |side: usize| {
        let each = found.pair.jobs[side].of(found.pair.phases[side]);
        let each = each.filter_map(|step| step.tokens.or(step.batch));
        median(each.map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
    };
    let (a, b) = (of(0), of(1));
    if a == b || a <= 0 || b <= 0 {
        return String::new();
    }
    let within = found.comparison.notes.iter();
    let within = within
        .clone()
        .any(|note| note.starts_with("compared within"));
    match within {
        true => format!(
            "; a step has {b} tokens or requests instead of {a} (medians), and the times are those of steps with the same number"
        ),
        false => {
            format!("; the work differs: {b} tokens or requests a step instead of {a} (medians)")
        }
    }
}
