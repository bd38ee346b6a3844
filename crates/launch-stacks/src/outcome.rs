//! Outcome of a query, and the reason if there are no stacks.

use std::cmp::Reverse;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::kernel::{COLLECTIVE_HINTS, KernelClass};
use trace_model::{StrId, Trace};

use crate::select::KernelSelector;
use crate::window::Window;
use trace_model::kernel::TraceIndex;

/// Outcome of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// There are stacks.
    Stacks,
    /// No kernel runs in the windows.
    NoKernelsInWindow,
    /// Selected kernels run in the windows, but no evidence links them to a launch there.
    KernelPresentButUntracked,
    /// Only other kernels run in the windows.
    KernelAbsent,
}

impl Outcome {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stacks => "stacks",
            Self::NoKernelsInWindow => "no-kernels-in-window",
            Self::KernelPresentButUntracked => "kernel-present-but-untracked",
            Self::KernelAbsent => "kernel-absent",
        }
    }
}

/// A kernel name and its number of occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCount {
    /// Name.
    pub name: String,
    /// Number of kernels with that name that start in the windows.
    pub count: usize,
}

/// Kernels in the windows if no stack was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absence {
    /// One of the outcomes without stacks.
    pub outcome: Outcome,
    /// Kernels that start in the windows (start inclusive), most frequent first, ties by name
    /// bytewise descending.
    pub kernels: Vec<KernelCount>,
    /// Kernels among them whose name suggests a collective; only for [`Outcome::KernelAbsent`].
    pub related: Vec<KernelCount>,
}

/// Determines why there are no stacks, from the kernels that run in the windows by their own time.
/// Cost: one pass over the kernels.
pub fn absence(index: &TraceIndex<'_>, selector: &KernelSelector, windows: &[Window]) -> Absence {
    let trace = index.trace();
    let kernel = trace.find_category("kernel");
    let mut counts: HashMap<Option<StrId>, usize, FxBuildHasher> = HashMap::default();
    for slice in index.kernels() {
        let counts_as_kernel = !selector.strict_category || Some(slice.category_id()) == kernel;
        let ts = slice.ts();
        if counts_as_kernel && windows.iter().any(|w| w.start <= ts && ts < w.end) {
            *counts.entry(slice.name_id()).or_default() += 1;
        }
    }
    let kernels = ordered(trace, counts);
    let outcome = if kernels.is_empty() {
        Outcome::NoKernelsInWindow
    } else if kernels
        .iter()
        .any(|k| selector.matches(&k.name, index.vocabulary()))
    {
        Outcome::KernelPresentButUntracked
    } else {
        Outcome::KernelAbsent
    };
    let related = match outcome {
        Outcome::KernelAbsent => {
            // If collectives are asked for by what they are, kernels of another known class are
            // none, whatever they sound like.
            let is_other = |name: &str| {
                selector.collectives && index.vocabulary().class(name) != KernelClass::Other
            };
            let related = kernels
                .iter()
                .filter(|k| hints(&k.name) && !is_other(&k.name));
            related.cloned().collect()
        }
        _ => Vec::new(),
    };
    Absence {
        outcome,
        kernels,
        related,
    }
}

fn ordered(
    trace: &Trace,
    counts: HashMap<Option<StrId>, usize, FxBuildHasher>,
) -> Vec<KernelCount> {
    let mut list: Vec<KernelCount> = counts
        .into_iter()
        .map(|(name, count)| KernelCount {
            name: name
                .map_or(trace_model::callstack::NO_NAME, |n| trace.text(n))
                .to_owned(),
            count,
        })
        .collect();
    list.sort_by(|a, b| (Reverse(a.count), &b.name).cmp(&(Reverse(b.count), &a.name)));
    list
}

fn hints(name: &str) -> bool {
    let lower = name.to_lowercase();
    COLLECTIVE_HINTS.iter().any(|hint| lower.contains(hint))
}
