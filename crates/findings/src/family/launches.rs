//! Launches that take longer than the kernels, and steps that do not replay a graph.

use critical_path::{Class, Group};
use trace_model::kernel::Activity;

use super::{Context, replay};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::numbers::{counted, median, time};

fn is_launch(item: &Item) -> bool {
    item.group() == Group::Launch
}

/// Returns the time of a step that launching can cost at most: what runs beside GPU work keeps nothing waiting. Where all ranks
/// are known, the replay sees what others hide; a collective that waits for a launch elsewhere is no work.
fn unhidden(context: &Context<'_>, step: &StepFact) -> i64 {
    match context.job.knows_waits() {
        true => step.row.duration_ns,
        false => step.idle(|item| item.group() != Group::Comm),
    }
}

/// Numbers of launches and of graph launches of a step.
pub(super) fn numbers(context: &Context<'_>, step: &StepFact) -> (u64, u64) {
    let facts = context.job.headline_facts();
    let graphs = facts.calls_in(step.host());
    let graphs = graphs
        .filter(|call| call.kind == Activity::GraphLaunch)
        .count();
    (facts.launches_in(step.host()), graphs as u64)
}

/// Fewer launches of a step than this do not bound it.
const LEAST_LAUNCHES: i64 = 8;

/// Steps that are bound by their launches.
pub(super) fn bound(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("launch_bound", phase).over(job, phase, is_launch);
    draft.reported(context.catalogue, phase)?;
    let steps: Vec<&StepFact> = job.of(phase).collect();
    let numbers: Vec<(u64, u64)> = steps.iter().map(|step| numbers(context, step)).collect();
    let middle = |of: fn(&(u64, u64)) -> u64| {
        median(
            numbers
                .iter()
                .map(|n| i64::try_from(of(n)).unwrap_or(i64::MAX)),
        )
    };
    let (launches, graphs) = (middle(|n| n.0), middle(|n| n.1));
    // A few launches are no matter of launching: what the host does between them is found as that.
    if launches + graphs < LEAST_LAUNCHES {
        return None;
    }
    let on_path = draft.total_ns();
    // What launching costs is what graph launches would save; with few launches besides graphs that is nothing.
    let change: critical_path::Change = "graph".parse().ok()?;
    let predicted = job.predict(std::slice::from_ref(&change));
    let new = predicted.first()?;
    for (at, ns) in &mut draft.values {
        let row = &job.steps[*at].row;
        let gain = new.gain_ns(row);
        // Launches beside GPU work keep nothing waiting.
        *ns = gain.min(unhidden(context, &job.steps[*at]));
    }
    draft.values.retain(|(_, ns)| *ns > 0);
    draft.reported(context.catalogue, phase)?;
    draft.strength = match launches >= 20 {
        true => Strength::Recorded,
        false => Strength::Favoured,
    };
    draft.gain = Gain::Cost;
    draft.rank = super::place_of(context, phase, is_launch);
    // Ranks that launch late keep others waiting as well, which is no idle time of the others.
    let idle = |step: &&StepFact| step.idle(|item| item.group() != Group::Comm);
    let idle: i64 = steps.iter().map(idle).sum();
    let gpus = match draft.total_ns() > idle {
        true => "the GPUs idle or wait for each other",
        false => "the GPU idles",
    };
    draft = draft.word("gpus", gpus);
    draft = draft.word("launches", report::human::count(launches)).word(
        "graphs",
        match graphs {
            0 => ", none of them of a graph".to_owned(),
            n => format!(
                " besides {}",
                counted(n.unsigned_abs(), "graph launch", "graph launches")
            ),
        },
    );
    let name = super::sums(job, phase, |item| {
        is_launch(item).then(|| item.name.clone())
    });
    if let Some((name, _)) = name.into_iter().find(|(name, _)| !name.is_empty()) {
        draft
            .evidence
            .extend(longest_of(job, &steps, &name, |item| {
                is_launch(item) && item.name == name
            }));
    }
    let of = |class: Class| {
        median(
            steps
                .iter()
                .map(|step| step.sum(|item| item.class == class)),
        )
    };
    draft.evidence.push(said(
        job,
        format!(
            "on the path of a median step: {} in launch calls, {} host code between launches, {} launch latency; {} of all steps",
            time(of(Class::LaunchCall)),
            time(of(Class::Dispatch)),
            time(of(Class::LaunchLatency)),
            crate::numbers::pct(crate::numbers::share(on_path, phase.total_ns))
        ),
    ));
    draft.evidence.push(said(
        job,
        "the cost is what a replay with one graph launch of 10 us for each run of launches saves"
            .to_owned(),
    ));
    draft.commands.push(format!(
        "inferscope trace-info critical-path {} --what-if graph",
        context.traces
    ));
    draft
        .commands
        .push(format!("inferscope trace-info launch {}", context.traces));
    Some(draft)
}

/// Least time of a launch call that is named by itself, in nanoseconds.
const LONG_NS: i64 = 500_000;

/// A single launch call that takes most of the launch time: the first use of a kernel, or a full queue.
pub(super) fn one_long(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let all: i64 = job.of(phase).map(|step| step.sum(is_launch)).sum();
    let mut longest: Option<(usize, &Item)> = None;
    for at in &phase.steps {
        let items = job.steps[*at].items.iter();
        for item in items.filter(|item| item.class == Class::LaunchCall) {
            if longest.is_none_or(|(_, known)| known.longest_ns < item.longest_ns) {
                longest = Some((*at, item));
            }
        }
    }
    let (at, item) = longest?;
    if item.longest_ns * 2 < all || item.longest_ns < LONG_NS {
        return None;
    }
    let mut draft = Draft::new("slow_launch", phase);
    draft.values = vec![(at, item.longest_ns)];
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(item.on_rank);
    draft.about = item.name.clone();
    draft.name = Some(item.name.clone());
    let takes = |other: &Item| other.class == item.class && other.name == item.name;
    draft
        .evidence
        .extend(longest_of(job, &[&job.steps[at]], &item.name, takes));
    let named = job.headline_facts().examples.of(&item.name);
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    let within = draft.stack.last().map_or_else(String::new, |frame| {
        format!(" (in {})", crate::words::function(frame))
    });
    draft.commands.push(context.path_command(&draft));
    let name = item.name.clone();
    Some(draft.word("name", name).word("within", within))
}

/// Number of graph launches of a step from which the graph of a step counts as broken into pieces.
const PIECES: i64 = 4;

/// Steps whose graph is broken into pieces, with host code between these on the path.
pub(super) fn pieces(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let facts = job.headline_facts();
    let graphs = |step: &StepFact| -> Vec<i64> {
        let calls = facts.calls_in(step.host());
        let calls = calls.filter(|call| call.kind == Activity::GraphLaunch);
        calls.map(|call| call.begin_ns).collect()
    };
    let count = |step| i64::try_from(graphs(step).len()).unwrap_or(i64::MAX);
    let middle = median(job.of(phase).map(count));
    if middle < PIECES {
        return None;
    }
    let mut draft = Draft::new("graph_coverage", phase);
    for at in &phase.steps {
        let step = &job.steps[*at];
        let launches = graphs(step);
        let (Some(first), Some(last)) = (launches.first(), launches.last()) else {
            continue;
        };
        // From the first piece to the last one.
        let (first, last) = (*first, *last);
        let ns = step
            .gaps
            .iter()
            .map(|gap| ((gap.begin_ns + gap.ns).min(last) - gap.begin_ns.max(first)).max(0))
            .sum();
        draft.values.push((*at, ns));
    }
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    // In one piece the GPU would wait neither for the launches nor for the code around them, but its own work would still take
    // its time.
    let host = super::sums(job, phase, |item| {
        (item.group() == Group::Host && !item.name.is_empty()).then(|| item.name.clone())
    });
    let host = host.into_iter().next().map(|(name, _)| name);
    let around = host
        .as_deref()
        .map_or_else(String::new, |name| format!("host:{}=0,", glob_of(name)));
    let change: critical_path::Change = format!("{around}dispatch=0,launch=0").parse().ok()?;
    let predicted = job.predict(std::slice::from_ref(&change));
    let new = predicted.first()?;
    for (at, ns) in &mut draft.values {
        let row = &job.steps[*at].row;
        let gain = new.gain_ns(row);
        *ns = (*ns)
            .min(gain.max(0))
            .min(unhidden(context, &job.steps[*at]));
    }
    draft.values.retain(|(_, ns)| *ns > 0);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Recorded;
    draft.gain = Gain::Cost;
    draft.rank = super::place_of(context, phase, is_launch);
    if let Some(name) = host {
        let steps: Vec<&StepFact> = job.of(phase).collect();
        draft
            .evidence
            .extend(longest_of(job, &steps, &name, |item| item.name == name));
        let named = facts.examples.of(&name);
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
        draft.name = Some(name);
    }
    draft.commands.push(context.path_command(&draft));
    let count = format!(
        "the graph of a {} step",
        crate::draft::phase_word(&phase.name)
    );
    Some(draft.word("subject", count).word(
        "what",
        format!(" is broken into {middle} pieces, and the GPU waits between them"),
    ))
}

/// Returns a glob for a name: characters with a meaning in changes match any; `*` stays.
pub(super) fn glob_of(name: &str) -> String {
    let each = name.chars();
    each.map(|c| match c.is_ascii_alphanumeric() || "_./ *".contains(c) {
        true => c,
        false => '?',
    })
    .collect()
}

/// Steps without a graph launch among steps of the same phase with one.
pub(super) fn coverage(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let each = phase.steps.iter();
    let each: Vec<(usize, u64, u64)> = each
        .map(|at| {
            let (launches, graphs) = numbers(context, &job.steps[*at]);
            (*at, launches, graphs)
        })
        .collect();
    let (with, without): (Vec<_>, Vec<_>) = each.into_iter().partition(|step| step.2 > 0);
    if with.len() < 2 || without.is_empty() {
        return None;
    }
    let launches = |steps: &[(usize, u64, u64)]| {
        median(
            steps
                .iter()
                .map(|step| i64::try_from(step.1).unwrap_or(i64::MAX)),
        )
    };
    // Only where kernels are launched one by one instead.
    if launches(&without) < 20.max(launches(&with).saturating_mul(3)) {
        return None;
    }
    let usual = median(with.iter().map(|step| job.steps[step.0].row.duration_ns));
    let mut draft = Draft::new("graph_coverage", phase);
    let longer = without.iter().map(|step| {
        let ns = job.steps[step.0].row.duration_ns - usual;
        (step.0, ns.max(0))
    });
    draft.values = longer.filter(|(_, ns)| *ns > 0).collect();
    draft.reported(context.catalogue, phase)?;
    // Few steps, or times that overlap, may differ for another reason.
    let time_of = |step: &(usize, u64, u64)| job.steps[step.0].row.duration_ns;
    let is_apart = without.iter().map(time_of).min() > with.iter().map(time_of).max();
    draft.strength = match is_apart && with.len() >= 3 && without.len() >= 3 {
        true => Strength::Recorded,
        false => Strength::Favoured,
    };
    draft.gain = replay("graph");
    draft.rank = Some(job.rank());
    let sizes = |steps: &[(usize, u64, u64)]| -> Vec<u64> {
        let mut sizes: Vec<u64> = steps.iter().filter_map(|s| job.steps[s.0].batch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let (with_sizes, without_sizes) = (sizes(&with), sizes(&without));
    let shown = |sizes: &[u64]| match sizes {
        [] => "unknown".to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    };
    let apart = !without_sizes.iter().any(|size| with_sizes.contains(size));
    let sizes = match apart && !with_sizes.is_empty() && !without_sizes.is_empty() {
        true => format!(
            " (batch {} without, {} with)",
            shown(&without_sizes),
            shown(&with_sizes)
        ),
        false => String::new(),
    };
    draft = draft
        .word(
            "subject",
            format!(
                "{} of {} {}",
                without.len(),
                phase.steps.len(),
                crate::draft::phase_word(&phase.name)
            ),
        )
        .word(
            "what",
            format!(" steps launch kernels one by one, the others replay a graph{sizes}"),
        );
    draft.evidence.push(said(
        job,
        format!(
            "steps with a graph take {} (median of {}), those without {} (median of {}), with {} launches each",
            time(usual),
            with.len(),
            time(median(without.iter().map(|s| job.steps[s.0].row.duration_ns))),
            without.len(),
            launches(&without)
        ),
    ));
    draft.commands.push(context.path_command(&draft));
    Some(draft)
}
