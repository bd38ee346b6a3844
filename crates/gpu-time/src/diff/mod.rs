//! Two traces of the same model side by side: operators and kernels matched by where they are in
//! the program, so that runs on different hardware with differently named kernels line up.
//!
//! The host slices that led to device work form a tree for each trace. The trees are aligned from
//! the root downwards: children as sequences, by name and shapes of arguments, by name, by name
//! without counters. Kernels are compared under their lowest common ancestor; what was launched
//! before the recording began is compared by name and class. Every piece of device work is in
//! exactly one row, so that each side adds up to its own total.
//!
//! [`hta`] and [`tracelens`] are the tables of other analysers by their own rules.

pub mod hta;
mod pair;
pub mod tracelens;
mod tree;

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::kernel::KernelClass;

pub use pair::Evidence;

use crate::diff::pair::{Places, Side, pair};
use crate::diff::tree::{Kinds, Node, Texts, Tree};
use crate::work::{GpuWork, WorkKind};

/// Name of the operator of work whose launch was not recorded.
pub const NO_LAUNCH: &str = "(launch not in the trace)";
/// Keys, without prefix, of the arguments that this module reads.
pub const ARG_KEYS: [&str; 15] = [
    "correlation",
    "corr_id",
    "correlation_id",
    "External id",
    "device",
    "agent",
    "stream",
    "stream_id",
    "queue",
    "src_agent",
    "dst_agent",
    "Input Dims",
    "Input Strides",
    "Input type",
    "Concrete Inputs",
];

/// Kernels of one name on each side, at one place of the program. Of arrays the first entry is the
/// first trace's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelPair {
    /// The modules around, outermost first, without instance numbers: `Model/DecoderLayer/MLP`.
    pub module: String,
    /// The lowest operator or function that both traces have around.
    pub operator: String,
    /// Name of the kernel; none where the trace has no counterpart.
    pub kernels: [Option<String>; 2],
    /// Kernel, copy or fill.
    pub kind: WorkKind,
    /// What it computes.
    pub class: KernelClass,
    /// What says that they belong together.
    pub evidence: Evidence,
    /// How many.
    pub count: [u64; 2],
    /// Their durations together.
    pub ns: [i64; 2],
}

impl KernelPair {
    /// Second minus first.
    pub fn diff_ns(&self) -> i64 {
        self.ns[1].saturating_sub(self.ns[0])
    }

    /// `matched`, `gone` (only in the first trace) or `new` (only in the second).
    pub fn status(&self) -> &'static str {
        status([self.kernels[0].is_some(), self.kernels[1].is_some()])
    }
}

fn status(has: [bool; 2]) -> &'static str {
    match has {
        [true, false] => "gone",
        [false, true] => "new",
        _ => "matched",
    }
}

/// An operator in both traces, with the device work that it launched itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperatorPair {
    /// The modules around.
    pub module: String,
    /// Name of the operator.
    pub operator: String,
    /// Calls that led to device work.
    pub calls: [u64; 2],
    /// Calls that have a counterpart.
    pub matched: u64,
    /// Kernels, copies and fills that it launched itself.
    pub kernels: [u64; 2],
    /// Their durations together.
    pub ns: [i64; 2],
}

impl OperatorPair {
    /// Second minus first.
    pub fn diff_ns(&self) -> i64 {
        self.ns[1].saturating_sub(self.ns[0])
    }

    /// `matched`, `gone` or `new`.
    pub fn status(&self) -> &'static str {
        status(self.calls.map(|c| c > 0))
    }
}

/// Device work of one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SideTotal {
    /// Kernels, copies and fills.
    pub events: u64,
    /// Their durations together.
    pub ns: i64,
    /// Of it, by [`Evidence::ALL`], what is matched by each kind of evidence.
    pub by_evidence_ns: [i64; 4],
    /// Of it, what was launched outside of the recording.
    pub unlinked_ns: i64,
}

/// Two traces side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// Largest absolute difference first.
    pub kernels: Vec<KernelPair>,
    /// Largest absolute difference first.
    pub operators: Vec<OperatorPair>,
    /// Each side; equal to the sums over the rows.
    pub totals: [SideTotal; 2],
}

/// Compares two traces. Cost: near linear in their device work, and the number of differences times
/// the length of the sequences that differ.
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
    let mut texts = Texts::default();
    let mut side = |work| {
        let tree = Tree::new(work, Kinds::All, &mut texts);
        Side::new(work, tree, &mut texts)
    };
    // Not an array literal: the second needs the texts of the first.
    let a = side(first);
    let b = side(second);
    let sides = [&a, &b];
    let (pairs, matched) = pair(&a, &b);
    let mut totals = [SideTotal::default(); 2];
    let mut table: BTreeMap<Key, (Measure, Measure)> = BTreeMap::new();
    for p in &pairs {
        let named = usize::from(p.events[0].is_none());
        let (Some(side), Some(node)) = (sides.get(named), p.nodes.get(named)) else {
            continue;
        };
        let mut names = [None, None];
        let mut measures = [Measure::default(); 2];
        let mut what = None;
        for i in 0..2 {
            let Some(event) = p.events[i].and_then(|e| sides[i].work.events().get(e)) else {
                continue;
            };
            let name = sides[i].work.name(event);
            what = what.or_else(|| Some((event.kind, sides[i].work.index().vocabulary(), name)));
            names[i] = Some(name.to_owned());
            measures[i] = Measure {
                count: 1,
                ns: event.dur_ns(),
            };
            let total = &mut totals[i];
            total.events += 1;
            total.ns = total.ns.saturating_add(event.dur_ns());
            let place = Evidence::ALL.iter().position(|e| *e == p.evidence);
            if let Some(sum) = place.and_then(|at| total.by_evidence_ns.get_mut(at)) {
                *sum = sum.saturating_add(event.dur_ns());
            }
        }
        let Some((kind, ..)) = what else { continue };
        let (module, operator) = match p.linked(&a, &b) {
            true => (
                module(&side.tree, *node, &texts),
                label(&side.tree, *node, &texts),
            ),
            false => (String::new(), NO_LAUNCH.to_owned()),
        };
        let key = Key {
            module,
            operator,
            names,
            kind,
            evidence: p.evidence,
        };
        let entry = table.entry(key).or_default();
        entry.0.add(measures[0]);
        entry.1.add(measures[1]);
    }
    for (total, side) in totals.iter_mut().zip(sides) {
        let unlinked = side
            .tree
            .unlinked
            .iter()
            .filter_map(|e| side.work.events().get(*e));
        total.unlinked_ns = unlinked.map(|e| e.dur_ns()).sum();
    }
    let vocabulary = first.index().vocabulary();
    let mut kernels: Vec<KernelPair> = table
        .into_iter()
        .map(|(key, (x, y))| {
            let name = key.names.iter().flatten().next();
            KernelPair {
                class: name.map_or(KernelClass::Other, |n| vocabulary.class(n)),
                module: key.module,
                operator: key.operator,
                kernels: key.names,
                kind: key.kind,
                evidence: key.evidence,
                count: [x.count, y.count],
                ns: [x.ns, y.ns],
            }
        })
        .collect();
    kernels.sort_by_key(|k| std::cmp::Reverse(k.diff_ns().unsigned_abs()));
    Diff {
        kernels,
        operators: operators(sides, &matched, &texts),
        totals,
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
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

/// A node and those around it, innermost first.
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

/// The modules around a node, outermost first.
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

/// What a node is called: operators and functions by their name.
fn label(tree: &Tree, at: usize, texts: &Texts) -> String {
    match tree.nodes.get(at) {
        Some(node) if node.is_op => texts.get(node.name).to_owned(),
        Some(node) => texts.get(node.family).trim_end_matches('_').to_owned(),
        None => String::new(),
    }
}

fn operators(sides: [&Side<'_, '_>; 2], matched: &Places, texts: &Texts) -> Vec<OperatorPair> {
    let mut table: BTreeMap<(String, String), OperatorPair> = BTreeMap::new();
    let mut row = |tree: &Tree, at: Option<usize>, change: &mut dyn FnMut(&mut OperatorPair)| {
        let key = match at {
            Some(at) => (module(tree, at, texts), label(tree, at, texts)),
            None => (String::new(), NO_LAUNCH.to_owned()),
        };
        let entry = table.entry(key).or_insert_with_key(|key| OperatorPair {
            module: key.0.clone(),
            operator: key.1.clone(),
            calls: [0; 2],
            matched: 0,
            kernels: [0; 2],
            ns: [0; 2],
        });
        change(entry);
    };
    for (i, side) in sides.into_iter().enumerate() {
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
            // Work that no operator launched belongs to the function around the launch.
            if node.is_op || !node.events.is_empty() {
                add(Some(at), &node.events, 1);
            }
        }
        if !side.tree.unlinked.is_empty() {
            add(None, &side.tree.unlinked, 0);
        }
    }
    let tree = &sides[0].tree;
    for (x, _) in matched {
        let node = tree.nodes.get(*x);
        if node.is_some_and(|n| n.is_op || !n.events.is_empty()) {
            row(tree, Some(*x), &mut |r| r.matched += 1);
        }
    }
    let mut rows: Vec<OperatorPair> = table.into_values().collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.diff_ns().unsigned_abs()));
    rows
}
