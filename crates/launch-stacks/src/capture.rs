//! Capture time: which launch calls recorded the kernels of a graph, and which of them each kernel
//! of a replay is.

use std::cmp::Reverse;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::kernel::Activity;
use trace_model::{SliceId, StrId, TrackId};

use crate::graph::GraphLaunch;
use trace_model::align::{kernel_stem, longest_common};
use trace_model::kernel::TraceIndex;

/// A stretch of one thread in which a stream was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capture {
    /// Which of the capture traces it is in.
    pub source: usize,
    /// The launch calls that made kernel nodes, in order.
    pub nodes: Vec<CaptureNode>,
}

impl Capture {
    /// A capture in trace number `source`.
    pub fn new(source: usize, nodes: Vec<CaptureNode>) -> Self {
        Self { source, nodes }
    }
}

/// A launch call that made a kernel node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureNode {
    /// The call.
    pub launch: SliceId,
    /// The kernel's name, where the call states it (HIP).
    pub kernel: Option<String>,
}

impl CaptureNode {
    /// The node that `launch` made, with the kernel's name if the call states it.
    pub fn new(launch: SliceId, kernel: Option<String>) -> Self {
        Self { launch, kernel }
    }
}

/// How the kernels of one graph launch were joined to the nodes of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMatch {
    /// The launch.
    pub graph: GraphLaunch,
    /// Which of the captures, if one fits.
    pub capture: Option<usize>,
    /// The capture trace it is in.
    pub source: Option<usize>,
    /// By kernel of the launch: the node, as a call of the capture's trace.
    pub nodes: Vec<Option<SliceId>>,
    /// Was every kernel matched to the node at its own place?
    pub one_to_one: bool,
}

impl GraphMatch {
    /// How many kernels have a node.
    pub fn matched(&self) -> usize {
        self.nodes.iter().flatten().count()
    }
}

/// The captures of one trace, in ascending time. Launches in the interval that ran a kernel at once
/// were not captured and are left out.
pub fn captures(index: &TraceIndex<'_>, source: usize) -> Vec<Capture> {
    let trace = index.trace();
    let stated = trace.arg_column("kernel");
    let mut ran: Vec<i64> = index
        .kernels()
        .filter_map(|s| index.correlation().id_of(s))
        .map(|id| id.0)
        .collect();
    ran.sort_unstable();
    let mut open: Vec<(TrackId, Capture)> = Vec::new();
    let mut done = Vec::new();
    for call in index.activities().calls() {
        let call = trace.slice(*call);
        let activity = index.activity(call);
        let track = call.track_id();
        let at = open.iter().position(|(t, _)| *t == track);
        match activity {
            Activity::Launch => {
                let nested = call
                    .parent()
                    .is_some_and(|p| index.activity(p) == Activity::Launch);
                let ran_at_once = index
                    .correlation()
                    .id_of(call)
                    .is_some_and(|id| ran.binary_search(&id.0).is_ok());
                if let Some(at) = at.filter(|_| !nested && !ran_at_once) {
                    let kernel = stated.get(call).and_then(trace_model::ArgValue::as_str);
                    open[at].1.nodes.push(CaptureNode {
                        launch: call.id(),
                        kernel: kernel.map(str::to_owned),
                    });
                }
            }
            Activity::OtherApi => {
                let name = call.name().unwrap_or("");
                if name.contains("StreamBeginCapture") && at.is_none() {
                    let capture = Capture {
                        source,
                        nodes: Vec::new(),
                    };
                    open.push((track, capture));
                } else if name.contains("StreamEndCapture")
                    && let Some(at) = at
                {
                    done.push(open.remove(at).1);
                }
            }
            _ => {}
        }
    }
    done.extend(open.into_iter().map(|o| o.1));
    done.sort_by_key(|c| c.nodes.first().map(|n| n.launch));
    done
}

/// Finds for each graph launch the capture it replays and joins kernels to nodes.
///
/// A capture of the same length whose stated names are all equal, or that states none, fits
/// exactly: kernel k is node k. Graphs with the same list of kernels (piecewise graphs, one for
/// each layer) take the captures with that list in turn. Where no capture fits exactly, the one
/// with the longest common subsequence of kernel names is used, without template arguments and
/// clone suffixes.
pub fn match_graphs(
    index: &TraceIndex<'_>,
    graphs: Vec<GraphLaunch>,
    captures: &[Capture],
) -> Vec<GraphMatch> {
    // How often each capture was used, so that equal ones are used in turn.
    let mut used = vec![0_usize; captures.len()];
    // Replays of one graph have one list of kernels; how it fits is found out once.
    let mut fits: HashMap<Vec<Option<StrId>>, Fit, FxBuildHasher> = HashMap::default();
    let trace = index.trace();
    graphs
        .into_iter()
        .map(|graph| {
            let kernels = graph.kernels.iter();
            let names: Vec<_> = kernels.map(|k| trace.slice(*k).name_id()).collect();
            let fit = fits.entry(names).or_insert_with_key(|names| {
                let texts = names.iter().map(|n| n.map_or("", |n| trace.text(n)));
                Fit::find(&texts.collect::<Vec<_>>(), captures)
            });
            fit.apply(graph, captures, &mut used)
        })
        .collect()
}

/// How a list of kernels fits the captures.
enum Fit {
    /// Node for node, these captures equally well.
    Exact(Vec<usize>),
    /// In part, these pairs of kernel and node of a capture.
    Partial(usize, Vec<(usize, usize)>),
    /// Not at all.
    None,
}

impl Fit {
    fn find(names: &[&str], captures: &[Capture]) -> Self {
        if names.is_empty() {
            return Self::None;
        }
        let same_length = || {
            let all = captures.iter().enumerate();
            all.filter(|(_, c)| c.nodes.len() == names.len())
        };
        let is = |n: &CaptureNode, name: &str| n.kernel.as_deref().map(|k| k == name);
        // Captures that state names come before those that state none.
        for stated in [true, false] {
            let exact: Vec<usize> = same_length()
                .filter(|(_, c)| {
                    let mut nodes = c.nodes.iter().zip(names);
                    nodes.all(|(n, name)| is(n, name).unwrap_or(!stated))
                })
                .map(|(i, _)| i)
                .collect();
            if !exact.is_empty() {
                return Self::Exact(exact);
            }
        }
        let stems: Vec<String> = names.iter().map(|n| kernel_stem(n)).collect();
        captures
            .iter()
            .enumerate()
            .filter_map(|(i, c)| {
                let nodes = c.nodes.iter();
                let nodes: Option<Vec<String>> = nodes
                    .map(|n| n.kernel.as_deref().map(kernel_stem))
                    .collect();
                let pairs = longest_common(&stems, &nodes?);
                (!pairs.is_empty()).then_some((i, pairs))
            })
            .min_by_key(|(i, pairs)| {
                let surplus = captures[*i].nodes.len().abs_diff(stems.len());
                (Reverse(pairs.len()), surplus, *i)
            })
            .map_or(Self::None, |(i, pairs)| Self::Partial(i, pairs))
    }

    fn apply(&self, graph: GraphLaunch, captures: &[Capture], used: &mut [usize]) -> GraphMatch {
        let mut nodes = vec![None; graph.kernels.len()];
        let capture = match self {
            Self::None => None,
            Self::Exact(fitting) => {
                let next = fitting.iter().copied().min_by_key(|i| (used[*i], *i));
                if let Some(i) = next {
                    nodes = captures[i].nodes.iter().map(|n| Some(n.launch)).collect();
                }
                next
            }
            Self::Partial(i, pairs) => {
                for (kernel, node) in pairs {
                    nodes[*kernel] = Some(captures[*i].nodes[*node].launch);
                }
                Some(*i)
            }
        };
        if let Some(i) = capture {
            used[i] += 1;
        }
        GraphMatch {
            graph,
            capture,
            source: capture.map(|i| captures[i].source),
            nodes,
            one_to_one: matches!(self, Self::Exact(_)),
        }
    }
}
