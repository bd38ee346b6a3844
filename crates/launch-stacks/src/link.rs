//! Links kernels to the calls that launched them.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::correlation::LinkMethod;
use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{Slice, SliceId, Trace};

use crate::select::KernelSelector;

/// Evidence that may link a kernel to a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Linking {
    /// Only arrows, as in the original. A kernel may have several.
    Flows,
    /// The best available: correlation id, else arrow, else external id.
    #[default]
    Best,
    /// Same as `Best`, and finally the order of launches with the same kernel name.
    Heuristic,
}

/// A kernel and its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// The kernel.
    pub kernel: SliceId,
    /// The call, or with [`LinkMethod::ExternalId`] the operator.
    pub launch: SliceId,
    /// Evidence for the link.
    pub method: LinkMethod,
    /// `true` if the call is a graph launch.
    pub graph: bool,
}

/// Two pieces of evidence with different launches; the correlation id was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The kernel.
    pub kernel: SliceId,
    /// The call with its correlation id.
    pub by_correlation: SliceId,
    /// The source of its arrow.
    pub by_flow: SliceId,
}

/// Result of [`launches`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Launches {
    /// Kernels with their launches, in ascending time of the kernels.
    pub links: Vec<Launch>,
    /// Selected kernels without a launch.
    pub unlinked: Vec<SliceId>,
    /// Contradictory evidence.
    pub conflicts: Vec<Conflict>,
    /// Number of selected kernels.
    pub kernels: usize,
    /// Number of arrows to selected kernels, from any source.
    pub arrows: usize,
}

impl Launches {
    /// Returns the number of kernels linked by each kind of evidence, in order of preference.
    pub fn by_method(&self) -> Vec<(LinkMethod, usize)> {
        let all = [
            LinkMethod::Correlation,
            LinkMethod::Flow,
            LinkMethod::ExternalId,
            LinkMethod::Order,
        ];
        all.map(|m| (m, self.links.iter().filter(|l| l.method == m).count()))
            .to_vec()
    }

    /// Returns the number of kernels that belong to graph launches.
    pub fn under_graphs(&self) -> usize {
        self.links.iter().filter(|l| l.graph).count()
    }
}

/// Links the selected kernels to their launches, wherever these are. Cost: a pass over the slices,
/// one over the arrows, and a look-up per selected kernel.
pub fn launches(index: &TraceIndex<'_>, selector: &KernelSelector, linking: Linking) -> Launches {
    let trace = index.trace();
    let kernels = selector.kernels(trace, index);
    let arrows = arrows_to(trace, &kernels);
    let mut out = Launches {
        kernels: kernels.len(),
        arrows: arrows.len(),
        ..Launches::default()
    };
    if linking == Linking::Flows {
        let mut linked = 0;
        for (kernel, tail) in arrows {
            while linked < kernels.len() && kernels[linked] < kernel {
                out.unlinked.push(kernels[linked]);
                linked += 1;
            }
            if kernels.get(linked) == Some(&kernel) {
                linked += 1;
            }
            out.links.push(link(index, kernel, tail, LinkMethod::Flow));
        }
        out.unlinked.extend_from_slice(&kernels[linked..]);
        return out;
    }
    let mut arrows = arrows.into_iter().peekable();
    for kernel in kernels {
        let slice = trace.slice(kernel);
        let mut by_flow = None;
        while let Some((_, tail)) = arrows.next_if(|a| a.0 <= kernel) {
            let host = !index.activity(trace.slice(tail)).is_device_work();
            by_flow = by_flow.or(host.then_some(tail));
        }
        let by_correlation = index
            .correlation()
            .launch_of(slice, index.activities())
            .map(Slice::id);
        let found = match (by_correlation, by_flow) {
            (Some(call), Some(tail)) if call != tail => {
                out.conflicts.push(Conflict {
                    kernel,
                    by_correlation: call,
                    by_flow: tail,
                });
                Some((call, LinkMethod::Correlation))
            }
            (Some(call), _) => Some((call, LinkMethod::Correlation)),
            (None, Some(tail)) => Some((tail, LinkMethod::Flow)),
            (None, None) => index
                .external()
                .op_of(slice)
                .map(|op| (op.id(), LinkMethod::ExternalId)),
        };
        match found {
            Some((launch, method)) => out.links.push(link(index, kernel, launch, method)),
            None => out.unlinked.push(kernel),
        }
    }
    if linking == Linking::Heuristic && !out.unlinked.is_empty() {
        by_order(index, &mut out);
    }
    out
}

fn link(index: &TraceIndex<'_>, kernel: SliceId, launch: SliceId, method: LinkMethod) -> Launch {
    let graph = index.activity(index.trace().slice(launch)) == Activity::GraphLaunch;
    Launch {
        kernel,
        launch,
        method,
        graph,
    }
}

/// Returns arrows into `kernels` as (head, tail), sorted by head, then in order of creation.
fn arrows_to(trace: &Trace, kernels: &[SliceId]) -> Vec<(SliceId, SliceId)> {
    if kernels.is_empty() {
        return Vec::new();
    }
    let mut wanted = vec![0_u64; trace.len() / 64 + 1];
    for kernel in kernels {
        wanted[kernel.index() / 64] |= 1 << (kernel.index() % 64);
    }
    let is_wanted = |s: SliceId| wanted[s.index() / 64] >> (s.index() % 64) & 1 == 1;
    let mut arrows: Vec<(SliceId, SliceId)> = trace
        .flows()
        .iter()
        .filter(|f| is_wanted(f.to))
        .map(|f| (f.to, f.from))
        .collect();
    arrows.sort_by_key(|a| a.0);
    arrows
}

/// Links by order: HIP's launch calls state the kernel's name, so the k-th call without a known
/// kernel is taken as the launch of the k-th kernel of that name without a known launch.
fn by_order(index: &TraceIndex<'_>, out: &mut Launches) {
    let trace = index.trace();
    let stated = trace.arg_column("kernel");
    if stated.is_empty() {
        return;
    }
    // Calls linked by the ids of any GPU activity, including unselected kernels, are taken.
    let mut taken: Vec<SliceId> = index
        .activities()
        .device_work()
        .iter()
        .filter_map(|w| {
            index
                .correlation()
                .launch_of(trace.slice(*w), index.activities())
        })
        .map(Slice::id)
        .chain(out.links.iter().map(|l| l.launch))
        .collect();
    taken.sort_unstable();
    let mut free: HashMap<&str, Vec<SliceId>, FxBuildHasher> = HashMap::default();
    for call in index.activities().calls() {
        let call = trace.slice(*call);
        if index.activity(call) == Activity::Launch
            && taken.binary_search(&call.id()).is_err()
            && let Some(name) = stated.get(call).and_then(trace_model::ArgValue::as_str)
        {
            free.entry(name).or_default().push(call.id());
        }
    }
    let mut next: HashMap<&str, usize, FxBuildHasher> = HashMap::default();
    let mut unlinked = Vec::new();
    for kernel in std::mem::take(&mut out.unlinked) {
        let name = trace.slice(kernel).name().unwrap_or("");
        let k = next.entry(name).or_default();
        match free.get(name).and_then(|calls| calls.get(*k)) {
            Some(call) => {
                *k += 1;
                out.links
                    .push(link(index, kernel, *call, LinkMethod::Order));
            }
            None => unlinked.push(kernel),
        }
    }
    out.unlinked = unlinked;
    out.links.sort_by_key(|l| l.kernel);
}
