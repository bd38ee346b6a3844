//! Families of findings, each with its own rule.

mod beside;
mod communication;
mod device;
mod device_speed;
mod host;
mod kernels;
mod launches;
mod memory;
mod pauses;
mod phases;
mod pipeline;
mod skew;
mod synchronisation;
mod workload;

pub(crate) use device::{limit_of as device_limit, why_unknown};
pub(crate) use pauses::{begins_behind_another, excess};
pub(crate) use skew::late_ranks;

use critical_path::{Change, Class, scaled};

use crate::catalogue::Catalogue;
use crate::draft::{Draft, Gain};
use crate::job::{Job, Phase};

/// What all families need.
pub(crate) struct Context<'a> {
    pub(crate) job: &'a Job,
    pub(crate) catalogue: &'a Catalogue,
    /// Reads from storage beside the recordings.
    pub(crate) reads: Option<&'a crate::storage::Reads>,
    /// Logs of GPUs and engines beside the recordings, on their clock.
    pub(crate) logs: &'a [crate::beside::Beside<'a>],
    /// The captures of the graphs that they replay.
    pub(crate) captures: Vec<String>,
    /// The recordings of the job as arguments of a command: logs and captures beside them are none for other tools.
    pub(crate) traces: String,
}

impl Context<'_> {
    /// A command that shows the distance from the limit, with the captures that hold the sizes.
    pub(crate) fn roofline(&self) -> String {
        let captures = self.captures.iter();
        let captures: String = captures.map(|path| format!(" --capture {path}")).collect();
        format!("inferscope trace-info roofline {}{captures}", self.traces)
    }

    /// A command that shows the path of the step that a draft costs most.
    pub(crate) fn path_command(&self, draft: &Draft) -> String {
        let longest = draft
            .values
            .iter()
            .max_by_key(|(at, ns)| (*ns, std::cmp::Reverse(*at)));
        let step = longest.map_or_else(String::new, |(at, _)| {
            format!(" --step {}", self.job.steps[*at].row.step)
        });
        format!(
            "inferscope trace-info critical-path {}{step} --path",
            self.traces
        )
    }
}

/// Returns the drafts of all families for a phase, in no order.
pub(crate) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = Vec::new();
    // Pauses and the late rank come first: what they explain is not found again.
    out.extend(pauses::drafts(context, phase));
    out.extend(skew::drafts(context, phase));
    let covered = launches::coverage(context, phase)
        .or_else(|| launches::pieces(context, phase))
        .or_else(|| launches::one_long(context, phase));
    match covered {
        Some(draft) => out.push(draft),
        None => out.extend(launches::bound(context, phase)),
    }
    out.extend(device::drafts(context, phase));
    out.extend(device_speed::drafts(context, phase));
    out.extend(workload::drafts(context, phase));
    out.extend(kernels::drafts(context, phase));
    out.extend(synchronisation::drafts(context, phase));
    out.extend(communication::drafts(context, phase));
    out.extend(pipeline::drafts(context, phase));
    // Allocations and copies that make few steps far longer were found as that.
    let longer = |kind: &str| -> i64 {
        let own = out.iter().filter(|draft| draft.kind == kind);
        own.map(Draft::total_ns).sum()
    };
    let (allocations, copies) = (longer("allocation"), longer("copy"));
    let memory = memory::drafts(context, phase).into_iter();
    out.extend(memory.filter(|draft| match draft.kind {
        "allocation" => allocations == 0,
        // More of it is in the other steps.
        "copy" => draft.total_ns() > copies + copies / 2,
        _ => true,
    }));
    out.extend(phases::drafts(context, phase));
    let reads = context.reads;
    out.extend(reads.and_then(|reads| crate::storage::draft(context, phase, reads)));
    // A slow device among ranks is not found again as slow steps.
    if out.iter().any(|draft| draft.kind == "slow_device") {
        out.retain(|draft| draft.kind != "slow_device_phase");
    }
    let known: Vec<(&'static str, String, i64)> = out
        .iter()
        .filter_map(|draft| Some((draft.kind, draft.name.clone()?, draft.total_ns())))
        .collect();
    let host = host::drafts(context, phase).into_iter();
    out.extend(host.filter(|draft| !is_explained(draft, &known)));
    // A range says where many operators run, which their number does not.
    let operators = host::operators(context, phase);
    match host::range(context, phase, &out) {
        Some(range) => {
            let is_more = |draft: &Draft| draft.total_ns() > 2 * range.total_ns();
            out.extend(operators.filter(is_more));
            out.push(range);
        }
        None => out.extend(operators),
    }
    beside::annotate(context, phase, &mut out);
    out.extend(beside::drafts(context, phase));
    out
}

/// Returns `true` if another finding names the same function and costs about as much.
fn is_explained(draft: &Draft, known: &[(&'static str, String, i64)]) -> bool {
    known.iter().any(|(kind, name, ns)| {
        // One wait is not told twice, however long its steps are.
        let is_same = *kind == draft.kind && draft.kind == "input_starvation";
        draft.name.as_ref() == Some(name)
            && (is_same || draft.total_ns() <= ns.saturating_add(ns / 2))
    })
}

/// The gain of a change given as text; the texts are those of this crate.
pub(crate) fn replay(change: &str) -> Gain {
    match change.parse::<Change>() {
        Ok(change) => Gain::Replay {
            change,
            is_capped: false,
        },
        Err(_) => Gain::Unknown,
    }
}

/// The gain if everything of a class with a name took no time.
pub(crate) fn without(class: Class, name: &str) -> Gain {
    match scaled(class, name, 0.0) {
        Some(change) => Gain::Replay {
            change,
            is_capped: false,
        },
        None => Gain::Unknown,
    }
}

/// Returns the host code with most time on the path of a phase.
pub(crate) fn host_name(context: &Context<'_>, phase: &Phase) -> Option<(Class, String)> {
    let all = sums(context.job, phase, |item| {
        let is_host = matches!(
            item.group(),
            critical_path::Group::Host | critical_path::Group::Wait | critical_path::Group::Input
        );
        (is_host && !item.name.is_empty()).then(|| (item.class, item.name.clone()))
    });
    all.into_iter().next().map(|(key, _)| key)
}

/// Returns the rank on which at least four fifths of the time pass, where several are recorded; `None` also for code that all of
/// them run alike.
pub(crate) fn place_of(
    context: &Context<'_>,
    phase: &Phase,
    takes: impl Fn(&crate::job::Item) -> bool,
) -> Option<u32> {
    let job = context.job;
    if job.facts.len() < 2 {
        return Some(job.rank());
    }
    let ranks = sums(job, phase, |item| takes(item).then_some(item.on_rank));
    let all: i64 = ranks.iter().map(|(_, ns)| *ns).sum();
    let (rank, ns) = ranks.first()?;
    let names = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    let is_on_all = names.first().is_some_and(|(name, _)| is_on_all(job, name));
    (ns * 5 >= all * 4 && !is_on_all).then_some(*rank)
}

/// Returns `true` if the longest events of a name are comparable on all ranks.
pub(crate) fn is_on_all(job: &Job, name: &str) -> bool {
    let longest = |facts: &crate::recording::Facts| {
        let named = facts.examples.of(name)?;
        named.longest.first().map(|event| event.duration_ns)
    };
    let each: Option<Vec<i64>> = job.facts.iter().map(longest).collect();
    each.is_some_and(|all| {
        let most = all.iter().max().copied().unwrap_or(0);
        all.iter().all(|ns| *ns * 2 >= most)
    })
}

/// Returns the sums of a phase by a key, largest first.
pub(crate) fn sums<K: Ord + Clone>(
    job: &Job,
    phase: &Phase,
    key: impl Fn(&crate::job::Item) -> Option<K>,
) -> Vec<(K, i64)> {
    let mut all: std::collections::BTreeMap<K, i64> = std::collections::BTreeMap::new();
    for item in job.of(phase).flat_map(|step| &step.items) {
        if let Some(key) = key(item) {
            *all.entry(key).or_default() += item.ns;
        }
    }
    let mut all: Vec<(K, i64)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}
