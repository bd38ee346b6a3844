//! The sentence of an answer: exactly one of four shapes.

use critical_path::Group;

use crate::budget::classes;
use crate::catalogue::Catalogue;
use crate::document::{Answer, Confidence, Finding, Interval, Missing, Shape};
use crate::draft::phase_word;
use crate::explain::is_cause;
use crate::family_device_limit;
use crate::job::{Job, Phase};
use crate::numbers::{counted, interval, pct, share, time};

/// Gain from which a likely cause is the answer, in percent of the steps of its phase.
const LIKELY_PCT: f64 = 5.0;

/// Gain from which an established cause is the answer.
const SURE_PCT: f64 = 2.5;

/// Least share of the time of all phases that an answer saves, in percent.
const LEAST_PCT: f64 = 2.0;

/// Part of the gain of a likely cause from which an established one saves about as much.
const ABOUT: f64 = 0.9;

/// Part of the gain of the largest cause from which one that differs from other steps or ranks is the answer.
const DEVIATION: f64 = 0.5;

/// Classes of kernels that are no work of a model's layers.
const BESIDE_LAYERS: [&str; 4] = ["sort", "sampling", "random", "copy"];

/// What recordings lack where the distance from the limit is not known.
const LIMIT_LACKS: [&str; 2] = ["sizes of operators", "capture of the graphs"];

/// Returns the answer of one side.
pub(crate) fn answer(
    job: &Job,
    catalogue: &Catalogue,
    findings: &[Finding],
    missing: &[Missing],
) -> Answer {
    let Some(phase) = job.phases.first() else {
        return Answer::default();
    };
    if let Some(at) = job.focus {
        return crate::single::answer(job, catalogue, findings, at);
    }
    // Findings are in the order of the time that their replays save.
    let all: i64 = job.phases.iter().map(|phase| phase.total_ns).sum();
    // A cause of a phase with little time is not why the job takes as long as it does.
    let is_answer = |catalogue: &Catalogue, finding: &Finding| {
        let steps = i64::try_from(finding.of_steps).unwrap_or(1);
        let gain = finding.gain_ceiling_ns_per_step.saturating_mul(steps);
        is_answer(catalogue, finding) && share(gain, all) >= LEAST_PCT
    };
    let cause = findings
        .iter()
        .find(|finding| is_answer(catalogue, finding));
    // Shares of different phases compare as shares of all.
    let saves = |finding: &Finding| {
        let steps = i64::try_from(finding.of_steps).unwrap_or(1);
        share(finding.gain_ceiling_ns_per_step.saturating_mul(steps), all)
    };
    // What differs from other steps or ranks is abnormal, what all of them have may be as it has to be.
    let deviation = findings.iter().find(|finding| {
        let least = cause.map_or(0.0, |cause| saves(cause) * DEVIATION);
        is_deviation(catalogue, finding) && is_answer(catalogue, finding) && saves(finding) >= least
    });
    let is_usual = cause.is_some_and(|cause| !is_deviation(catalogue, cause));
    let cause = match deviation.filter(|_| is_usual) {
        Some(deviation) => Some(deviation),
        None => cause,
    };
    // What was recorded directly comes before what is likely, if it saves about as much.
    let sure = findings.iter().find(|finding| {
        let least = cause.map_or(f64::INFINITY, |cause| saves(cause) * ABOUT);
        finding.confidence == Confidence::Established
            && is_answer(catalogue, finding)
            && saves(finding) >= least
    });
    let is_sure = cause.is_some_and(|cause| cause.confidence == Confidence::Established);
    let cause = match sure.filter(|_| !is_sure) {
        Some(sure) => Some(sure),
        None => cause,
    };
    let stages = findings.iter().filter(|finding| {
        finding.kind == "pipeline_bubble" && Some(&phase.name) == finding.place.phase.as_ref()
    });
    // Waiting for a stage of the pipeline is known as that.
    let stages: f64 = stages.map(|finding| finding.share_pct).sum();
    let unknown = undivided(job, phase) - stages;
    let is_most = match cause {
        Some(cause) => unknown >= UNDIVIDED_PCT && cause.gain_pct < unknown,
        None if bound(job, phase) == Some(Group::Comm) => unknown >= UNDIVIDED_PCT,
        None => unknown >= MOSTLY_UNDIVIDED_PCT,
    };
    if is_most {
        return not_divided(job, phase, unknown, findings, missing);
    }
    if let Some(cause) = cause.filter(|cause| is_small(job, phase, catalogue, cause)) {
        let answer = limit_or_nothing(job, phase, catalogue, findings, missing);
        if answer.shape == Shape::Limit {
            let sentence = format!(
                "{} The largest cause found: {}; without it {} less at most ({}).",
                answer.sentence,
                titled(job, cause),
                pct(cause.gain_pct),
                cause.confidence.name()
            );
            return Answer { sentence, ..answer };
        }
    }
    if let Some(cause) = cause {
        let own = job.phases.iter();
        let own = own
            .clone()
            .find(|own| Some(own.name.as_str()) == cause.place.phase.as_deref());
        return because(job, own.unwrap_or(phase), cause, catalogue);
    }
    limit_or_nothing(job, phase, catalogue, findings, missing)
}

/// Returns `true` for a finding that differs from other steps or ranks.
fn is_deviation(catalogue: &Catalogue, finding: &Finding) -> bool {
    let is_sure = finding.confidence == Confidence::Established;
    catalogue
        .kind(&finding.kind)
        .is_some_and(|kind| kind.is_deviation && (is_sure || !kind.is_deviation_if_sure))
}

/// Gain below which a likely cause that all steps have is no answer for steps that are nearly all GPU work, in percent.
const SMALL_PCT: f64 = 6.0;

/// Share of GPU work in such steps, in percent.
const NEARLY_GPU: f64 = 75.0;

fn is_small(job: &Job, phase: &Phase, catalogue: &Catalogue, cause: &Finding) -> bool {
    let gpu = job.of(phase).map(|step| step.row.groups.of(Group::Gpu));
    !is_deviation(catalogue, cause)
        && cause.confidence < Confidence::Established
        && cause.gain_pct < SMALL_PCT
        && share(gpu.sum(), phase.total_ns) >= NEARLY_GPU
}

/// Share of the path in collectives from which it matters that waiting and transfer cannot be told apart, in percent.
const UNDIVIDED_PCT: f64 = 20.0;

/// The same where no cause is known.
const MOSTLY_UNDIVIDED_PCT: f64 = 25.0;

/// Returns the share of the path in collectives that may be waiting, in percent: for ranks that are not recorded, or in messages
/// between two ranks.
fn undivided(job: &Job, phase: &Phase) -> f64 {
    if job.knows_all_waits() {
        return 0.0;
    }
    let is_undivided = |item: &crate::job::Item| {
        item.group() == Group::Comm && item.portion != crate::job::Portion::Wait
    };
    let ns = job.of(phase).map(|step| step.sum(is_undivided));
    share(ns.sum(), phase.total_ns)
}

/// The answer where collectives take most of what could be saved, and ranks are missing.
fn not_divided(
    job: &Job,
    phase: &Phase,
    part: f64,
    findings: &[Finding],
    missing: &[Missing],
) -> Answer {
    let found = findings.iter().find(|finding| {
        finding.kind == "communication_exposed"
            && finding.place.phase.as_deref() == Some(phase.name.as_str())
    });
    let ranks = missing_ranks(job);
    let which = match ranks.as_slice() {
        [] if job.facts.len() > 1 => {
            "they are messages between ranks, whose waits are not measured".to_owned()
        }
        [] => "the other ranks are not given".to_owned(),
        [one] => format!("rank {one} of the job is not recorded"),
        all => format!(
            "{} of the job are not recorded",
            counted(all.len() as u64, "rank", "ranks")
        ),
    };
    let lack = missing.iter().find(|lack| lack.what == "other ranks");
    let lack = lack.map_or_else(String::new, |lack| record(std::slice::from_ref(lack)));
    Answer {
        shape: Shape::CannotSay,
        sentence: format!(
            "Cannot say: {}, and collectives take {} of the critical path; whether they move data or wait for a late rank is not known, as {which}.{lack}",
            subject(job, phase),
            pct(part),
        ),
        finding: found.map(|finding| finding.id.clone()),
        ..base(job, phase)
    }
}

fn is_answer(catalogue: &Catalogue, finding: &Finding) -> bool {
    let own = catalogue
        .kind(&finding.kind)
        .and_then(|kind| kind.answer_pct);
    let usual = match finding.confidence {
        Confidence::Established => SURE_PCT,
        _ => LIKELY_PCT,
    };
    let least = own.unwrap_or(usual);
    is_cause(catalogue, finding) && finding.gain_pct >= least
}

/// Returns the beginning of a sentence: how long the steps take.
pub(crate) fn subject(job: &Job, phase: &Phase) -> String {
    let times = interval(job.of(phase).map(|step| step.row.duration_ns));
    let word = phase_word(&phase.name);
    let n = phase.steps.len();
    match (n, phase.name.as_str()) {
        (1, "whole") => format!(
            "The recording takes {} to the last work of its main stream",
            time(times.median)
        ),
        (1, _) => format!("The {word} step takes {}", time(times.median)),
        // The median of two would be one of them.
        (2, _) => format!(
            "The 2 {word} steps take {} and {}",
            time(times.low),
            time(times.high)
        ),
        _ => format!("{} steps take {}", capital(&word), with_interval(times, n)),
    }
}

/// Returns a median with its number of steps and its interval.
pub(crate) fn with_interval(times: Interval, n: usize) -> String {
    let median = time(times.median);
    match n >= 6 {
        true => format!(
            "{median} (median of {n}; 95 % interval {} to {})",
            time(times.low),
            time(times.high)
        ),
        false => format!(
            "{median} (median of {n}; {} to {})",
            time(times.low),
            time(times.high)
        ),
    }
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// Returns the group of the path with most time.
pub(crate) fn bound(job: &Job, phase: &Phase) -> Option<Group> {
    let mut groups = critical_path::Groups::default();
    for step in job.of(phase) {
        groups.add_all(&step.row.groups);
    }
    groups.largest()
}

pub(crate) fn base(job: &Job, phase: &Phase) -> Answer {
    Answer {
        bound: bound(job, phase).map(|group| group.verdict().to_owned()),
        phase: Some(phase.name.clone()),
        rank: Some(job.rank()),
        step_time_ns: Some(interval(job.of(phase).map(|step| step.row.duration_ns))),
        ..Answer::default()
    }
}

fn because(job: &Job, phase: &Phase, cause: &Finding, catalogue: &Catalogue) -> Answer {
    let n = cause.of_steps;
    let cost = cause.cost_ns_per_affected_step;
    let each = match (cause.place.step_count, n) {
        (_, 1) => String::new(),
        (count, n) if count >= n => " of each step".to_owned(),
        (count, n) => format!(" of {count} of {n} steps"),
    };
    let affected = i64::try_from(cause.place.step_count).unwrap_or(1).max(1);
    let mean = cause.cost_ns_total / affected;
    // Where few steps cost most, the median is far from the mean.
    let spread = match (
        time(cost.low) == time(cost.high),
        (mean - cost.median).abs() * 10 > mean,
    ) {
        (true, false) => String::new(),
        (_, false) => format!(" ({} to {})", time(cost.low), time(cost.high)),
        (_, true) => format!(" on average (median {})", time(cost.median)),
    };
    // The interval is that of the median.
    let shown = match (mean - cost.median).abs() * 10 > mean {
        true => mean,
        false => cost.median,
    };
    let costs = format!(
        "That is {}{each}{spread}, {} of their time",
        time(shown),
        pct(cause.share_pct)
    );
    let costs = match cause.place.step_count < n {
        true => costs.replace("of their time", &format!("of the time of all {n} steps")),
        false => costs,
    };
    let costs = match n {
        1 => costs.replace("of their time", "of its time"),
        _ => costs,
    };
    let gain = match cause.gain_ceiling_ns_per_step > 0 {
        true => format!(
            "; without it they would be {} shorter at most",
            pct(cause.gain_pct)
        ),
        false => String::new(),
    };
    let gain = match n {
        1 if phase.name == "whole" && !gain.is_empty() => {
            format!("; {} shorter at most without it", pct(cause.gain_pct))
        }
        1 => gain.replace("they would", "the step would"),
        _ => gain,
    };
    Answer {
        shape: Shape::Cause,
        sentence: format!(
            "{}{}: {}. {costs}{gain} ({}).",
            subject(job, phase),
            bound_by(job, phase, cause),
            titled(job, cause),
            cause.confidence.name()
        ),
        rank: cause.place.rank.or(Some(job.rank())),
        cause: catalogue
            .kind(&cause.kind)
            .and_then(|kind| kind.cause.clone()),
        finding: Some(cause.id.clone()),
        ..base(job, phase)
    }
}

/// Returns the title of a cause with its rank, where there are several and the title names none.
fn titled(job: &Job, cause: &Finding) -> String {
    match cause.place.rank {
        Some(rank) if job.facts.len() > 1 && !cause.title.contains("rank") => {
            format!("on rank {rank}, {}", cause.title)
        }
        _ => cause.title.clone(),
    }
}

/// Share of GPU work from which it is said beside a cause that saves less than the rest, in percent.
const MOSTLY_GPU: f64 = 70.0;

/// Returns what bounds the steps, where the cause is a small part of them.
fn bound_by(job: &Job, phase: &Phase, cause: &Finding) -> String {
    let ns: i64 = job
        .of(phase)
        .map(|step| step.row.groups.of(Group::Gpu))
        .sum();
    let part = share(ns, phase.total_ns);
    match part >= MOSTLY_GPU && cause.gain_pct < 100.0 - MOSTLY_GPU {
        true => format!(", {} of it GPU work", pct(part)),
        false => String::new(),
    }
}

/// Returns the largest classes of a phase with their shares.
pub(crate) fn mostly(
    job: &Job,
    phase: &Phase,
    catalogue: &Catalogue,
    group: Option<Group>,
    most: usize,
) -> String {
    let mut all: Vec<(String, i64)> = classes(job, phase)
        .into_iter()
        .filter(|((of, _), _)| group.is_none_or(|group| group == *of))
        .map(|((_, class), ns)| (class, ns))
        .collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let words: Vec<String> = all
        .iter()
        .take(most)
        .filter(|(_, ns)| share(*ns, phase.total_ns) >= 3.0)
        .map(|(class, ns)| {
            format!(
                "{} {}",
                pct(share(*ns, phase.total_ns)),
                catalogue.label(class)
            )
        })
        .collect();
    words.join(", ")
}

fn limit_or_nothing(
    job: &Job,
    phase: &Phase,
    catalogue: &Catalogue,
    findings: &[Finding],
    missing: &[Missing],
) -> Answer {
    let group = bound(job, phase);
    let mut answer = base(job, phase);
    let subject = subject(job, phase);
    // What bounds the steps, not what else they do.
    let bounding = group.filter(|group| matches!(group, Group::Gpu | Group::Comm));
    let mostly = mostly(job, phase, catalogue, bounding, 3);
    let limit = findings.iter().find(|finding| {
        finding.kind.starts_with("device_limit")
            && finding.place.phase.as_deref() == Some(phase.name.as_str())
    });
    if let (Some(finding), Some(found)) = (limit, family_device_limit(job, phase)) {
        let resource = match (finding.kind.as_str(), found.is_arithmetic) {
            ("device_limit_compute", _) => "bound by arithmetic".to_owned(),
            ("device_limit_memory", _) => "bound by memory bandwidth".to_owned(),
            (_, is_arithmetic) => format!(
                "bound by GPU work that reaches {} of the device's limit, which would be {}",
                pct(found.reached_pct),
                if is_arithmetic {
                    "arithmetic"
                } else {
                    "memory bandwidth"
                }
            ),
        };
        let device = &job.headline_facts().limits.device;
        answer.shape = Shape::Limit;
        answer.finding = Some(finding.id.clone());
        let (takes, would) = match phase.steps.len() {
            1 => ("is", "it would take"),
            _ => ("are", "a step would take"),
        };
        let n = i64::try_from(phase.steps.len()).unwrap_or(i64::MAX).max(1);
        let mean = phase.total_ns / n;
        let median = answer.step_time_ns.unwrap_or_default().median;
        let is_some = found.steps < phase.steps.len();
        // Numbers are of the mean step, which may be far from the median one, or of the steps whose sizes are known.
        let average = match (is_some, (mean - median).abs() * 20 > median) {
            (true, _) => format!(
                " on average instead of {}, in the {} whose sizes are known",
                time(found.mean_ns),
                counted(found.steps as u64, "step", "steps")
            ),
            (_, true) => format!(" on average, instead of {}", time(mean)),
            _ => String::new(),
        };
        let kept = match finding.gain_ceiling_ns_per_step {
            _ if is_some => String::new(),
            0 => String::new(),
            gain => format!(
                "; with each class of kernels at its own limit, and all else as recorded, {}",
                time((mean - gain).max(0))
            ),
        };
        answer.sentence = format!(
            "{subject} and {takes} {resource}: {mostly}. At the limit of the {device} {would} {}{average} ({} of the time){kept}.",
            time(found.limit_ns),
            pct(found.pct)
        );
        return answer;
    }
    let groups_share = group.map(|group| {
        let ns: i64 = job.of(phase).map(|step| step.row.groups.of(group)).sum();
        share(ns, phase.total_ns)
    });
    let (Some(group), Some(part)) = (group, groups_share) else {
        answer.shape = Shape::CannotSay;
        answer.sentence = format!("Cannot say: {subject}, and nothing of it is on a path.");
        return answer;
    };
    if group == Group::Unknown || job.analysis.replay.is_large() {
        answer.shape = Shape::CannotSay;
        let outside = job
            .of(phase)
            .map(|step| step.sum(|item| item.class == critical_path::Class::Outside));
        let outside = share(outside.sum(), phase.total_ns);
        // Marks of steps would not show what came before the recording.
        let is_outside = group == Group::Unknown && outside * 2.0 > part;
        let why = match group {
            Group::Unknown if is_outside => {
                format!("{} of it lie before the first recorded event", pct(outside))
            }
            Group::Unknown => format!("no recorded dependency explains {} of it", pct(part)),
            _ => "typical latencies miss the recorded time by more than a quarter".to_owned(),
        };
        let record = match is_outside {
            true => " Record the launches as well, from before this work was launched: that decides what the GPU waited for.".to_owned(),
            false => record(missing),
        };
        answer.sentence = format!("Cannot say: {subject}, but {why}.{record}");
        return answer;
    }
    let is_gpu = matches!(group, Group::Gpu);
    if is_gpu && part >= 50.0 {
        answer.shape = Shape::Limit;
        let of_kind = |kind: &str| {
            findings.iter().find(|finding| {
                finding.kind == kind && finding.place.phase.as_deref() == Some(phase.name.as_str())
            })
        };
        // What dominates and is no work of the layers is what to look at.
        let beside = of_kind("kernel_class_dominates").filter(|finding| {
            let class = finding.place.name.as_deref().unwrap_or("");
            BESIDE_LAYERS.contains(&class)
        });
        let unknown = beside.or_else(|| of_kind("device_limit"));
        answer.finding = unknown.map(|finding| finding.id.clone());
        let one = phase.steps.len() == 1;
        answer.sentence = format!(
            "{subject} and {} bound by GPU work: {mostly}. How far that is from the limit of the device is not known{}.",
            if one { "is" } else { "are" },
            match missing
                .iter()
                .find(|m| LIMIT_LACKS.contains(&m.what.as_str()))
            {
                Some(lack) => format!(": the recording lacks the {}", lack.what),
                None => without_numbers(job, phase),
            }
        );
        return answer;
    }
    if group == Group::Comm && part >= 50.0 {
        let found = findings.iter().find(|finding| {
            finding.kind == "communication_exposed"
                && finding.place.phase.as_deref() == Some(phase.name.as_str())
        });
        answer.shape = Shape::Limit;
        answer.finding = found.map(|finding| finding.id.clone());
        let (are, waiting) = (
            if phase.steps.len() == 1 { "is" } else { "are" },
            match job.knows_waits() {
                true => "",
                false => " Waiting for ranks that are not recorded is part of that.",
            },
        );
        answer.sentence = format!("{subject} and {are} bound by communication: {mostly}.{waiting}");
        return answer;
    }
    // Nothing is abnormal only if nothing was found.
    let possible = findings.iter().find(|finding| {
        let kind = catalogue.kind(&finding.kind);
        kind.is_some_and(|kind| kind.role == crate::catalogue::KindRole::Cause)
            && finding.gain_pct >= LIKELY_PCT
            && finding.place.phase.as_deref() == Some(phase.name.as_str())
    });
    if let Some(cause) = possible {
        return because(job, phase, cause, catalogue);
    }
    answer.shape = Shape::Nothing;
    let looked = catalogue
        .kinds()
        .iter()
        .filter(|kind| kind.role == crate::catalogue::KindRole::Cause)
        .count();
    let times = answer.step_time_ns.unwrap_or_default();
    let within = (times.high - times.low) / 2;
    let smallest = within.max(times.median * 3 / 100);
    answer.sentence = format!(
        "{subject}: nothing abnormal among {looked} kinds of causes; the largest part is {} ({}): {mostly}. A cause of {} a step would have been found.",
        group.words(),
        pct(part),
        time(smallest)
    );
    answer
}

/// Returns how much of the GPU time has a limit, and what most of the rest is.
fn without_numbers(job: &Job, phase: &Phase) -> String {
    let limits = &job.headline_facts().limits;
    let (Some(known), Some((op, reason))) = (limits.coverage_pct, &limits.without) else {
        return String::new();
    };
    if known >= 50.0 {
        return crate::family::why_unknown(job, phase);
    }
    format!(
        ": {} of the GPU time has one; the largest part without is {} ({})",
        pct(known),
        crate::words::kernel(op),
        crate::numbers::plain(reason, 80)
    )
}

/// Returns the ranks of the job that are not recorded.
fn missing_ranks(job: &Job) -> Vec<u32> {
    let world = job.facts.iter().filter_map(|facts| facts.world_size).max();
    let all = 0..world.unwrap_or(0).min(4_096);
    all.filter(|rank| job.facts.iter().all(|facts| facts.rank != *rank))
        .collect()
}

/// Returns what to record, as a sentence.
fn record(missing: &[Missing]) -> String {
    let generic = || {
        " Record all threads and streams of the process, with the runtime's calls: that decides what the GPU waited for.".to_owned()
    };
    missing.first().map_or_else(generic, |lack| {
        format!(
            " Record {} ({}): that decides {}.",
            lack.what, lack.record, lack.decides
        )
    })
}
