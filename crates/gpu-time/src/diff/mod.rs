//! Compares two traces of the same model: matches operators and kernels by their place in the
//! program, so that runs on different hardware with differently named kernels line up.
//!
//! The host slices that launched GPU activity form a tree for each trace. The trees are aligned
//! from the root downwards: children as sequences, by name and shapes of arguments, by name, by
//! name without counters. Kernels are compared under their lowest common ancestor; activity
//! launched before the recording began is compared by name and class. Every GPU activity is in
//! exactly one row, so that each side adds up to its own total.
//!
//! [`compare()`] compares step with step where both traces have steps of the same kind, else
//! windows or whole recordings, and breaks down the time of both sides.
//!
//! [`hta`] and [`tracelens`] are the tables of other analyzers by their own rules.

mod answer;
mod compare;
mod host;
pub mod hta;
mod pair;
pub mod tracelens;
mod tree;

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::correlation::EXTERNAL_ID_KEY;
use trace_model::kernel::{KernelClass, with_index_keys};

pub use answer::{a_step, answers, lines, steps_of};
pub use compare::{
    Basis, Comparison, ENOUGH_STEPS, Metric, StepKind, StepTime, compare, compare_chosen,
    step_group,
};
pub use host::{HostChange, HostKind};
pub use pair::Evidence;

use crate::diff::pair::{Places, Side, keys, pair};
use crate::diff::tree::{Kinds, Node, Texts, Tree, python_track};
use crate::kernels::class_of;
use crate::work::{GpuWork, WorkKind};

/// Operator name of GPU activity whose launch was not recorded.
pub const NO_LAUNCH: &str = "(launch not in the trace)";

/// Keys, without prefix, of the arguments that this module reads.
pub const ARG_KEYS: [&str; 15] = with_index_keys([
    EXTERNAL_ID_KEY,
    "Input Dims",
    "Input Strides",
    "Input type",
    "Concrete Inputs",
]);

/// Kernels of one name on each side, at one place of the program. In arrays, the first entry
/// belongs to the first trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelPair {
    /// Kind of step, as an index of [`Comparison::kinds`]; 0 for [`diff`].
    pub step_kind: usize,
    /// Number of steps of that kind over which `count` and `ns` are summed; 1 for whole traces.
    pub steps: [u64; 2],
    /// Modules around it, outermost first, without instance numbers: `Model/DecoderLayer/MLP`.
    pub module: String,
    /// Lowest operator or function around it in both traces; around it in its own where only one
    /// trace has it.
    pub operator: String,
    /// Name of the kernel; `None` where the trace has no counterpart.
    pub kernels: [Option<String>; 2],
    /// Kernel, memcpy or memset.
    pub kind: WorkKind,
    /// Class of the kernel.
    pub class: KernelClass,
    /// Evidence for the match.
    pub evidence: Evidence,
    /// Number of activities.
    pub count: [u64; 2],
    /// Sum of their durations.
    pub ns: [i64; 2],
}

impl KernelPair {
    /// Returns the second sum minus the first; `None` unless both cover the same number of steps.
    pub fn diff_ns(&self) -> Option<i64> {
        (self.steps[0] == self.steps[1]).then(|| self.ns[1].saturating_sub(self.ns[0]))
    }

    /// Returns the time per step of each side, in nanoseconds.
    pub fn per_step_ns(&self) -> [f64; 2] {
        per_step(self.ns, self.steps)
    }

    /// Returns `matched`, `gone` (only in the first trace) or `new` (only in the second).
    pub fn status(&self) -> &'static str {
        status([self.kernels[0].is_some(), self.kernels[1].is_some()])
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
fn per_step(ns: [i64; 2], steps: [u64; 2]) -> [f64; 2] {
    let mean = |i: usize| ns[i] as f64 / steps[i].max(1) as f64;
    [mean(0), mean(1)]
}

/// Returns the absolute difference per step, by which rows are sorted.
fn weight(ns: [i64; 2], steps: [u64; 2]) -> f64 {
    let [a, b] = per_step(ns, steps);
    (b - a).abs()
}

fn status(has: [bool; 2]) -> &'static str {
    match has {
        [true, false] => "gone",
        [false, true] => "new",
        _ => "matched",
    }
}

/// An operator in both traces, with the GPU activity that it launched directly.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperatorPair {
    /// Kind of step; see [`KernelPair::step_kind`].
    pub step_kind: usize,
    /// Number of steps; see [`KernelPair::steps`].
    pub steps: [u64; 2],
    /// Modules around it.
    pub module: String,
    /// Name of the operator.
    pub operator: String,
    /// Number of calls that launched GPU activity.
    pub calls: [u64; 2],
    /// Number of calls with a counterpart.
    pub matched: u64,
    /// Number of kernels, memcpys and memsets that it launched directly.
    pub kernels: [u64; 2],
    /// Sum of their durations.
    pub ns: [i64; 2],
}

impl OperatorPair {
    /// Returns the second sum minus the first; `None` unless both cover the same number of steps.
    pub fn diff_ns(&self) -> Option<i64> {
        (self.steps[0] == self.steps[1]).then(|| self.ns[1].saturating_sub(self.ns[0]))
    }

    /// Returns the time per step of each side, in nanoseconds.
    pub fn per_step_ns(&self) -> [f64; 2] {
        per_step(self.ns, self.steps)
    }

    /// Returns the number of kernels, memcpys and memsets per step of each side.
    pub fn kernels_per_step(&self) -> [f64; 2] {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        per_step(self.kernels.map(count), self.steps)
    }

    /// Returns `matched`, `gone` or `new`.
    pub fn status(&self) -> &'static str {
        status(self.calls.map(|c| c > 0))
    }
}

/// Totals of the GPU activity of one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SideTotal {
    /// Number of kernels, memcpys and memsets.
    pub events: u64,
    /// Sum of their durations.
    pub ns: i64,
    /// Part of `ns` matched by each kind of evidence, in the order of [`Evidence::ALL`].
    pub by_evidence_ns: [i64; 4],
    /// Part of `ns` launched outside of the recording.
    pub unlinked_ns: i64,
}

/// Comparison of the kernels and operators of two traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// Kernels, largest absolute difference first.
    pub kernels: Vec<KernelPair>,
    /// Operators, largest absolute difference first.
    pub operators: Vec<OperatorPair>,
    /// Totals of each side; equal to the sums over the rows.
    pub totals: [SideTotal; 2],
}

/// Compares two traces. Cost: near linear in their GPU activities, plus the number of differences
/// times the length of the sequences that differ.
///
/// ```
/// use gpu_time::{GpuWork, diff::diff};
/// use trace_model::{FinishOptions, TraceBuilder};
///
/// let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
/// let work = GpuWork::new(&trace);
/// assert_eq!(diff(&work, &work).totals[0].ns, 0);
/// # Ok::<(), trace_model::BuildError>(())
/// ```
pub fn diff(first: &GpuWork<'_>, second: &GpuWork<'_>) -> Diff {
    let all = |work: &GpuWork<'_>| vec![(0..work.events().len()).collect()];
    diff_kinds([first, second], &[[all(first), all(second)]])
}

/// Steps of one kind on both sides, each as its events: ascending indices of `work.events()`.
pub(crate) type Steps = [Vec<Vec<usize>>; 2];

/// Compares steps with steps of the same kind, for each of `kinds`. Each step of the side with more
/// steps is matched with one of the other side, some of which serve several times but count once:
/// each step is in the sums of its side exactly once.
pub(crate) fn diff_kinds(works: [&GpuWork<'_>; 2], kinds: &[Steps]) -> Diff {
    let mut texts = Texts::default();
    let keys_of = works.map(|work| keys(work, &mut texts));
    let python = works.map(python_track);
    let mut rows = Rows::default();
    for (kind, steps) in kinds.iter().enumerate() {
        let counts = [steps[0].len(), steps[1].len()];
        let mut sides: [Vec<Side<'_, '_>>; 2] = [Vec::new(), Vec::new()];
        for i in 0..2 {
            // A kind that only one side has is compared with nothing.
            let nothing = [Vec::new()];
            let list = if steps[i].is_empty() {
                &nothing[..]
            } else {
                &steps[i]
            };
            for events in list {
                let events = events.iter().copied();
                let tree = Tree::of(works[i], Kinds::All, events, python[i], &mut texts);
                sides[i].push(Side {
                    work: works[i],
                    tree,
                    keys: &keys_of[i],
                });
            }
        }
        for at in 0..counts[0].max(counts[1]) {
            let [a, b] = [0, 1].map(|i| sides[i].get(at % sides[i].len()));
            if let (Some(a), Some(b)) = (a, b) {
                rows.add(kind, [a, b], counts.map(|n| at < n), &texts);
            }
        }
    }
    let steps = |kind: usize| {
        kinds
            .get(kind)
            .map_or([0; 2], |k| [k[0].len() as u64, k[1].len() as u64])
    };
    rows.finish(steps)
}

/// Sums over all pairs of steps.
#[derive(Default)]
struct Rows {
    /// Measures by key, with the class of the first kernel.
    kernels: BTreeMap<Key, (KernelClass, [Measure; 2])>,
    operators: BTreeMap<(usize, String, String), OperatorPair>,
    totals: [SideTotal; 2],
}

impl Rows {
    /// Matches two steps and adds the measures that count.
    fn add(
        &mut self,
        step_kind: usize,
        sides: [&Side<'_, '_>; 2],
        counts: [bool; 2],
        texts: &Texts,
    ) {
        let (pairs, matched) = pair(sides[0], sides[1]);
        for p in &pairs {
            if (0..2).all(|i| p.events[i].is_none() || !counts[i]) {
                continue;
            }
            let named = usize::from(p.events[0].is_none());
            let (Some(side), Some(node)) = (sides.get(named), p.nodes.get(named)) else {
                continue;
            };
            let mut names = [None, None];
            let mut measures = [Measure::default(); 2];
            let (mut what, mut class) = (None, None);
            for i in 0..2 {
                let Some(event) = p.events[i].and_then(|e| sides[i].work.events().get(e)) else {
                    continue;
                };
                what = what.or(Some(event.kind));
                class = class.or_else(|| Some(class_of(sides[i].work, event)));
                names[i] = Some(sides[i].work.name(event).to_owned());
                if !counts[i] {
                    continue;
                }
                measures[i] = Measure {
                    count: 1,
                    ns: event.dur_ns(),
                };
                let total = &mut self.totals[i];
                total.events += 1;
                total.ns = total.ns.saturating_add(event.dur_ns());
                let place = Evidence::ALL.iter().position(|e| *e == p.evidence);
                if let Some(sum) = place.and_then(|at| total.by_evidence_ns.get_mut(at)) {
                    *sum = sum.saturating_add(event.dur_ns());
                }
            }
            let Some(kind) = what else { continue };
            let (module, operator) = match p.linked(sides[0], sides[1]) {
                true => (
                    module(&side.tree, *node, texts),
                    label(&side.tree, *node, texts),
                ),
                false => (String::new(), NO_LAUNCH.to_owned()),
            };
            let key = Key {
                step_kind,
                module,
                operator,
                names,
                kind,
                evidence: p.evidence,
            };
            let class = class.unwrap_or(KernelClass::Other);
            let fresh = (class, <[Measure; 2]>::default());
            let (_, entry) = self.kernels.entry(key).or_insert(fresh);
            entry[0].add(measures[0]);
            entry[1].add(measures[1]);
        }
        for i in (0..2).filter(|i| counts[*i]) {
            let side = sides[i];
            let unlinked = side.tree.unlinked.iter();
            let unlinked = unlinked.filter_map(|e| side.work.events().get(*e));
            self.totals[i].unlinked_ns += unlinked.map(|e| e.dur_ns()).sum::<i64>();
        }
        operators(
            step_kind,
            sides,
            counts,
            &matched,
            texts,
            &mut self.operators,
        );
    }

    fn finish(self, steps: impl Fn(usize) -> [u64; 2]) -> Diff {
        let mut kernels: Vec<KernelPair> = self
            .kernels
            .into_iter()
            .map(|(key, (class, [x, y]))| KernelPair {
                class,
                steps: steps(key.step_kind),
                step_kind: key.step_kind,
                module: key.module,
                operator: key.operator,
                kernels: key.names,
                kind: key.kind,
                evidence: key.evidence,
                count: [x.count, y.count],
                ns: [x.ns, y.ns],
            })
            .collect();
        let order = |a: ([i64; 2], [u64; 2]), b: ([i64; 2], [u64; 2])| {
            weight(b.0, b.1).total_cmp(&weight(a.0, a.1))
        };
        kernels.sort_by(|a, b| order((a.ns, a.steps), (b.ns, b.steps)));
        let mut operators: Vec<OperatorPair> = self.operators.into_values().collect();
        for row in &mut operators {
            row.steps = steps(row.step_kind);
        }
        operators.sort_by(|a, b| order((a.ns, a.steps), (b.ns, b.steps)));
        Diff {
            kernels,
            operators,
            totals: self.totals,
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    step_kind: usize,
    module: String,
    operator: String,
    names: [Option<String>; 2],
    kind: WorkKind,
    evidence: Evidence,
}

#[derive(Clone, Copy, Default)]
struct Measure {
    count: u64,
    ns: i64,
}

impl Measure {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// Returns a node and its ancestors, innermost first.
fn upwards(tree: &Tree, at: usize) -> impl Iterator<Item = &Node> {
    let parent = |n: &&Node| tree.nodes.get(n.parent);
    let first = tree.nodes.get(at);
    // The root is its own parent.
    std::iter::successors(first, move |n| {
        let up = parent(n)?;
        (!std::ptr::eq(up, *n)).then_some(up)
    })
}

const MODULE: &str = "nn.Module: ";

/// Returns the modules around a node, outermost first.
fn module(tree: &Tree, at: usize, texts: &Texts) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut last = None;
    for node in upwards(tree, at) {
        if let Some(module) = texts.get(node.family).strip_prefix(MODULE) {
            // `__call__` and `forward` of one module may both carry its name.
            if last != Some(node.name) {
                path.push(module.trim_end_matches('_'));
            }
            last = Some(node.name);
        }
    }
    path.reverse();
    path.join("/")
}

/// Returns the label of a node: the name of the operator or function.
fn label(tree: &Tree, at: usize, texts: &Texts) -> String {
    match tree.nodes.get(at) {
        Some(node) if node.is_op => texts.get(node.name).to_owned(),
        Some(node) => texts.get(node.family).trim_end_matches('_').to_owned(),
        None => String::new(),
    }
}

/// Adds the operators of two matched steps.
fn operators(
    step_kind: usize,
    sides: [&Side<'_, '_>; 2],
    counts: [bool; 2],
    matched: &Places,
    texts: &Texts,
    table: &mut BTreeMap<(usize, String, String), OperatorPair>,
) {
    let mut row = |tree: &Tree, at: Option<usize>, change: &mut dyn FnMut(&mut OperatorPair)| {
        let (module, operator) = match at {
            Some(at) => (module(tree, at, texts), label(tree, at, texts)),
            None => (String::new(), NO_LAUNCH.to_owned()),
        };
        let key = (step_kind, module, operator);
        let entry = table.entry(key).or_insert_with_key(|key| OperatorPair {
            step_kind,
            steps: [0; 2],
            module: key.1.clone(),
            operator: key.2.clone(),
            calls: [0; 2],
            matched: 0,
            kernels: [0; 2],
            ns: [0; 2],
        });
        change(entry);
    };
    for i in (0..2).filter(|i| counts[*i]) {
        let side = sides[i];
        let mut add = |at: Option<usize>, events: &[usize], calls: u64| {
            let ns: i64 = events
                .iter()
                .filter_map(|e| side.work.events().get(*e))
                .map(|e| e.dur_ns())
                .sum();
            row(&side.tree, at, &mut |r| {
                r.calls[i] += calls;
                r.kernels[i] += events.len() as u64;
                r.ns[i] = r.ns[i].saturating_add(ns);
            });
        };
        for (at, node) in side.tree.nodes.iter().enumerate() {
            // Activity that no operator launched belongs to the function around the launch.
            if node.is_op || !node.events.is_empty() {
                add(Some(at), &node.events, 1);
            }
        }
        if !side.tree.unlinked.is_empty() {
            add(None, &side.tree.unlinked, 0);
        }
    }
    if counts != [true; 2] {
        return;
    }
    let tree = &sides[0].tree;
    for (x, _) in matched {
        let node = tree.nodes.get(*x);
        if node.is_some_and(|n| n.is_op || !n.events.is_empty()) {
            row(tree, Some(*x), &mut |r| r.matched += 1);
        }
    }
}
