//! What limits the steps of a phase, in one verdict with its numbers.

use std::collections::{BTreeMap, BTreeSet};

use critical_path::{Group, Groups, StepRow, common_limit, usual_steps, whole_steps};
use trace_model::kernel::KernelClass;

use crate::analysis::{Analysis, Cycle};
use crate::num::{median, nanos, quantile, real, span};
use crate::outlier::{self, Interference};
use crate::paths::StepPaths;
use crate::phase::Phase;
use crate::slack::{Limit, Slack};
use crate::timeline::Kind;

/// The steps of one phase and what limits them. Times are per step, medians over whole steps, ns.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Bottleneck {
    /// The phase.
    pub phase: Phase,
    /// Whole steps; all of them if none is whole.
    pub steps: usize,
    /// What takes most of their path; none if GPU activity is not recorded, or not that of the launches.
    pub verdict: Option<Group>,
    /// The same as text, with shares.
    pub answer: String,
    /// The resource that limits the kernels of most of them, if the GPU bounds them.
    pub gpu_limit: Option<critical_path::Limit>,
    /// Their time by group of the path.
    pub budget: Groups,
    /// The rank on which most of their path lies, where that is another one, and its share, 0 to 1.
    pub elsewhere: Option<(u32, f64)>,
    /// `true` if the other ranks of the job are part of the path.
    pub is_joined: bool,
    /// Which side waits for the other; none where that was not recorded.
    pub limit: Option<Limit>,
    /// The share of their time that the device waits for launches, 0 to 1.
    pub device_free: f64,
    /// The share of their time that the host waits for the device, 0 to 1.
    pub host_wait: f64,
    /// The share of the path that the verdict takes, 0 to 1.
    pub share: f64,
    /// The largest other share, and of what.
    pub second: Option<(Group, f64)>,
    /// Time of a step at the 50 %, 95 % and 99 % quantile.
    pub step_ns: [i64; 3],
    /// How long the GPU worked for a step, overlaps counted once.
    pub gpu_ns: i64,
    /// How long the host worked for it, waits left out.
    pub host_ns: i64,
    /// From a launch call to the start of its first work, median.
    pub queue_ns: i64,
    /// Calls that launched work.
    pub launch_calls: f64,
    /// How many of these launched a graph.
    pub graph_launches: f64,
    /// Kernels, copies and fills.
    pub gpu_operations: f64,
    /// The longest time that a first step was queued behind earlier work.
    pub queued_ns: i64,
    /// GPU time by class of kernel, largest first, as share of it: 0 to 1.
    pub classes: Vec<(String, f64)>,
    /// The kernel with most time of the first class, and its share of the GPU time.
    pub kernel: Option<(usize, f64)>,
    /// The host function with most own time, and that per step.
    pub function: Option<(usize, i64)>,
    /// The few steps that take much longer than the others.
    pub stalls: Option<Stalls>,
}

/// Steps of a phase that take much longer than the others: few, so that medians do not show them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Stalls {
    /// The cycles, ascending.
    pub cycles: Vec<usize>,
    /// Mean time beyond the median of the phase, ns.
    pub excess_ns: i64,
    /// The function that takes at least half of that time; none if no recorded one does.
    pub function: Option<usize>,
}

/// Fewer steps than this have no typical length.
const LEAST_STEPS: usize = 8;

fn stalls(analysis: &Analysis, list: &[(usize, &Cycle)]) -> Option<Stalls> {
    if list.len() < LEAST_STEPS {
        return None;
    }
    let lengths: Vec<f64> = list.iter().map(|c| span(c.1.length_ns())).collect();
    let (middle, limit) = outlier::limit(&lengths, 0, median(&lengths));
    let slow = list.iter().zip(&lengths).filter(|(_, ns)| **ns > limit);
    let cycles: Vec<usize> = slow.clone().map(|(c, _)| c.0).collect();
    if cycles.is_empty() || real(cycles.len()) > outlier::MOST * real(list.len()) {
        return None;
    }
    let excess: f64 = slow.map(|(_, ns)| ns - middle).sum();
    let in_them = |i: &Interference| {
        let common = i.cycles.iter().filter(|c| cycles.contains(&(**c as usize)));
        span(i.excess_ns) * real(common.count())
    };
    // A wait is what a stall of others looks like: the code that runs meanwhile comes first.
    let is_symptom = |i: &Interference| {
        let f = &analysis.functions[i.function];
        f.kind == Kind::Sync || crate::engine::is_wait(&f.name)
    };
    let of_phase = |i: &&Interference| i.phase == list[0].1.phase;
    let mut causes: Vec<&Interference> = analysis.interference.iter().filter(of_phase).collect();
    causes.retain(|i| in_them(i) >= 0.5 * excess);
    causes.sort_by(|a, b| {
        let key = |i: &Interference| (is_symptom(i), -in_them(i));
        key(a)
            .partial_cmp(&key(b))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Some(Stalls {
        excess_ns: nanos(excess / real(cycles.len())),
        function: causes.first().map(|i| i.function),
        cycles,
    })
}

/// What limits the steps of each phase that occurs.
pub fn bottlenecks(analysis: &Analysis, paths: &StepPaths) -> Vec<Bottleneck> {
    [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown]
        .into_iter()
        .filter_map(|phase| one(analysis, paths, phase))
        .collect()
}

fn one(analysis: &Analysis, paths: &StepPaths, phase: Phase) -> Option<Bottleneck> {
    let of = |c: &&(usize, &Cycle)| c.1.phase == phase;
    let all: Vec<(usize, &Cycle)> = analysis.cycles.iter().enumerate().collect();
    let mut list: Vec<(usize, &Cycle)> = all.iter().filter(of).copied().collect();
    if list.iter().any(|c| c.1.partial.is_none()) {
        list.retain(|c| c.1.partial.is_none());
    }
    if list.is_empty() {
        return None;
    }
    let mut slack = Slack::default();
    for (_, c) in &list {
        slack.add(&c.slack);
    }
    let steps: Vec<&StepRow> = list.iter().filter_map(|c| paths.of_cycle(c.0)).collect();
    // Of steps whose work is missing nothing is known, unless that is all of them.
    let whole = whole_steps(&steps);
    let lacks_work = whole.is_empty() && !steps.is_empty();
    let steps = match whole.is_empty() {
        true => steps,
        false => whole,
    };
    if !steps.is_empty() {
        // A range without any call is no step; its time belongs to the next one.
        let is_own = |step: &StepRow| steps.iter().any(|own| std::ptr::eq(*own, step));
        list.retain(|c| paths.of_cycle(c.0).is_some_and(is_own));
    }
    // What the answer is about: a few far longer steps are stalls.
    let usual = usual_steps(&steps);
    let numbers: BTreeSet<u32> = usual.iter().map(|step| step.step).collect();
    let is_usual = |cycle: usize| {
        let step = paths.of_cycle(cycle);
        step.is_none_or(|step| numbers.contains(&step.step))
    };
    let usual_list: Vec<(usize, &Cycle)> = list.iter().filter(|c| is_usual(c.0)).copied().collect();
    let mut budget = Groups::default();
    for step in &usual {
        budget.add_all(&step.groups);
    }
    let total = span(budget.total().max(1));
    let mut order = Group::ALL;
    order.sort_by_key(|group| std::cmp::Reverse(budget.of(*group)));
    let [largest, second, ..] = order;
    let verdict = budget.largest().unwrap_or(Group::Unknown);
    let middle = |f: &dyn Fn(&Cycle) -> f64| {
        let values: Vec<f64> = list.iter().map(|c| f(c.1)).collect();
        median(&values)
    };
    let lengths: Vec<f64> = match steps.is_empty() {
        true => list.iter().map(|c| span(c.1.length_ns())).collect(),
        false => steps.iter().map(|step| span(step.duration_ns)).collect(),
    };
    let launch_calls = middle(&|c| real(c.launches.calls));
    let (classes, kernel, function) = costs(analysis, &usual_list);
    let no_gpu = analysis.functions.iter().all(|f| !f.kind.is_device());
    let is_capture = paths.is_capture();
    let answer = match is_capture {
        true => Some(
            "what bounds a step cannot be said: a graph is captured and none replayed, and launches of a capture run on no GPU"
                .to_owned(),
        ),
        false => paths.bound_by(&usual),
    };
    let is_unknown = no_gpu || lacks_work || is_capture;
    Some(Bottleneck {
        phase,
        steps: list.len(),
        verdict: Some(verdict).filter(|_| !is_unknown),
        answer: answer.unwrap_or_else(|| match paths.is_joined() {
            true => "what bounds it is unknown, as not all ranks were recorded then".to_owned(),
            false => "what bounds it is unknown".to_owned(),
        }),
        gpu_limit: common_limit(&usual).filter(|_| verdict == Group::Gpu),
        budget,
        elsewhere: paths.elsewhere(&usual),
        is_joined: paths.is_joined(),
        limit: slack.limit().filter(|_| !is_unknown),
        device_free: slack.device_free(),
        host_wait: slack.host_wait(),
        share: span(budget.of(largest)) / total,
        second: (budget.of(second) > 0).then(|| (second, span(budget.of(second)) / total)),
        step_ns: [0.5, 0.95, 0.99].map(|q| nanos(quantile(&lengths, q))),
        gpu_ns: nanos(middle(&|c| span(c.gpu_ns))),
        host_ns: nanos(middle(&|c| span(c.host_active_ns))),
        queue_ns: nanos(middle(&|c| c.launches.lead_median_ns)),
        launch_calls,
        graph_launches: middle(&|c| real(c.launches.graphs)),
        gpu_operations: middle(&|c| real(c.launches.count)),
        queued_ns: list.iter().map(|c| c.1.queued_ns).max().unwrap_or(0),
        classes,
        kernel,
        function: function.map(|(i, ns)| (i, nanos(span(ns) / real(usual_list.len())))),
        stalls: stalls(analysis, &list),
    })
}

/// A function and what it cost, ns or as a share.
type Top<T> = Option<(usize, T)>;

/// GPU time by class, the kernel of the largest class and the host function with most time over the cycles.
fn costs(
    analysis: &Analysis,
    list: &[(usize, &Cycle)],
) -> (Vec<(String, f64)>, Top<f64>, Top<i64>) {
    let mut classes: BTreeMap<&str, i64> = BTreeMap::new();
    let mut kernels: BTreeMap<&str, Top<i64>> = BTreeMap::new();
    let mut function: Top<i64> = None;
    let mut is_in = vec![false; analysis.cycles.len()];
    for (i, _) in list {
        is_in[*i] = true;
    }
    for (i, f) in analysis.functions.iter().enumerate() {
        let cells = f.cells.iter().filter(|c| is_in[c.cycle as usize]);
        let own: i64 = cells.map(|c| c.self_ns).sum();
        let best = if f.kind.is_device() {
            let class = match f.kind {
                Kind::Compute => f.class.unwrap_or(KernelClass::Other).name(),
                Kind::Communication => "collective",
                _ => "memcpy and memset",
            };
            *classes.entry(class).or_default() += own;
            // What other launches of the kernel make of it is theirs.
            let others = f.other_classes.iter();
            for (_, other, ns) in others.filter(|(cycle, ..)| is_in[*cycle as usize]) {
                *classes.entry(class).or_default() -= ns;
                *classes.entry(other.name()).or_default() += ns;
            }
            kernels.entry(class).or_default()
        } else if matches!(f.kind, Kind::Python | Kind::Op) && !crate::engine::is_wait(&f.name) {
            &mut function
        } else {
            continue;
        };
        if best.is_none_or(|b| own > b.1) && own > 0 {
            *best = Some((i, own));
        }
    }
    let largest = classes
        .iter()
        .max_by_key(|(name, ns)| (**ns, std::cmp::Reverse(**name)));
    let kernel = largest.and_then(|(name, _)| kernels.get(name).copied().flatten());
    let total = span(classes.values().sum::<i64>().max(1));
    let mut classes: Vec<(String, f64)> = classes
        .into_iter()
        .map(|(name, ns)| (name.to_owned(), span(ns) / total))
        .collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    (
        classes,
        kernel.map(|(i, ns)| (i, span(ns) / total)),
        function,
    )
}
