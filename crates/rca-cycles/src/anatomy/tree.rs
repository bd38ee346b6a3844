//! Layers as trees: Python functions, the calls in them, and the kernels that these launched.

use rustc_hash::FxHashMap;
use trace_model::{Slice, SliceId};

use super::{Durations, Folding, unnumbered};
use crate::timeline::{Kind, Timeline};

/// A call or kernel with what is below it; equal neighbours are one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// Durations of the calls that it stands for.
    pub durations: Durations,
    /// What it is.
    pub kind: Kind,
    /// Time of the calls that is in none of the host's calls below, ns.
    pub own_ns: i64,
    /// What is below, in order of time.
    pub children: Vec<Node>,
}

/// One call, before equal ones are put together.
struct Call {
    name: String,
    kind: Kind,
    ns: i64,
    children: Vec<Call>,
}

/// The calls below each call.
type Below<'t> = FxHashMap<SliceId, Vec<Slice<'t>>>;

/// Least share of a layer, one in so many, that a Python function is shown from.
const VISIBLE: i64 = 1_000;

/// These calls of layers as trees, equal ones put together.
pub(super) fn layers(timeline: &Timeline<'_>, list: &[Slice<'_>], folding: Folding) -> Vec<Node> {
    let mut kernels: FxHashMap<SliceId, Vec<usize>> = FxHashMap::default();
    for (i, work) in timeline.work.iter().enumerate() {
        if let Some((call, _)) = work.launch {
            kernels.entry(call).or_default().push(i);
        }
    }
    let trees = list
        .iter()
        .map(|layer| {
            let mut below: Below<'_> = FxHashMap::default();
            let thread = timeline.thread(*layer);
            for slice in timeline.trace.starting_in(layer.range()) {
                if timeline.thread(slice) == thread
                    && timeline.kind(slice).is_code()
                    && let Some(parent) = slice.parent()
                {
                    below.entry(parent.id()).or_default().push(slice);
                }
            }
            let least = layer.range().duration().get() / VISIBLE;
            call(timeline, *layer, (&below, &kernels), (least, folding))
        })
        .collect();
    fold(trees)
}

/// A call with all below it. Frames of Python lie a few dozen deep, which bounds the recursion.
fn call(
    timeline: &Timeline<'_>,
    slice: Slice<'_>,
    (below, kernels): (&Below<'_>, &FxHashMap<SliceId, Vec<usize>>),
    (least, folding): (i64, Folding),
) -> Call {
    let mut children = Vec::new();
    // An explicit limit: a damaged trace may nest without end.
    if slice.depth() < 512 {
        for child in below.get(&slice.id()).into_iter().flatten() {
            let one = call(timeline, *child, (below, kernels), (least, folding));
            if one.kind == Kind::Python && one.ns < least && one.children.is_empty() {
                continue;
            }
            if wraps(&one, folding) {
                children.extend(one.children);
            } else {
                children.push(one);
            }
        }
    }
    for &i in kernels.get(&slice.id()).into_iter().flatten() {
        let work = &timeline.work[i];
        children.push(Call {
            name: timeline.trace.text(work.name).to_owned(),
            kind: work.kind,
            ns: work.end - work.ts,
            children: Vec::new(),
        });
    }
    Call {
        name: unnumbered(slice.name().unwrap_or("")).to_owned(),
        kind: timeline.kind(slice),
        ns: slice.range().duration().get(),
        children,
    }
}

/// Does a function only wrap others of its class, which take more than four fifths of it, or, if asked
/// for, any one that takes more than nine tenths?
fn wraps(call: &Call, folding: Folding) -> bool {
    if call.kind != Kind::Python {
        return false;
    }
    let passes_on =
        |c: &Call| c.kind == Kind::Python && c.ns.saturating_mul(10) > call.ns.saturating_mul(9);
    if folding == Folding::Aggressive && call.children.iter().any(passes_on) {
        return true;
    }
    let base = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    let own = base(&call.name);
    let same: i64 = call
        .children
        .iter()
        .filter(|c| c.kind == Kind::Python && base(&c.name) == own)
        .map(|c| c.ns)
        .sum();
    same.saturating_mul(5) > call.ns.saturating_mul(4)
}

/// Are two calls equal in name and in all below?
fn equal(a: &Call, b: &Call) -> bool {
    a.name == b.name
        && a.kind == b.kind
        && a.children.len() == b.children.len()
        && a.children.iter().zip(&b.children).all(|(x, y)| equal(x, y))
}

/// Equal calls as one node, in order of first sight.
fn fold(calls: Vec<Call>) -> Vec<Node> {
    let mut groups: Vec<Vec<Call>> = Vec::new();
    for call in calls {
        let group = groups
            .iter_mut()
            .find(|g| g.first().is_some_and(|f| equal(f, &call)));
        match group {
            Some(group) => group.push(call),
            None => groups.push(vec![call]),
        }
    }
    groups.into_iter().filter_map(node).collect()
}

fn node(group: Vec<Call>) -> Option<Node> {
    let first = group.first()?;
    let (name, kind) = (first.name.clone(), first.kind);
    let durs: Vec<i64> = group.iter().map(|c| c.ns).collect();
    let on_host: i64 = group
        .iter()
        .flat_map(|c| &c.children)
        .filter(|c| !c.kind.is_device())
        .map(|c| c.ns)
        .sum();
    let durations = Durations::new(&name, &durs);
    let mut children: Vec<Call> = Vec::new();
    for call in group {
        children.extend(call.children);
    }
    Some(Node {
        own_ns: (durations.total_ns - on_host).max(0),
        durations,
        kind,
        children: fold(children),
    })
}
