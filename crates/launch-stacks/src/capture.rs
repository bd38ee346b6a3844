//! Graph captures: finds the launch calls that recorded the kernels of a graph, and assigns them to
//! the kernels of a replay.

use std::cmp::Reverse;
use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::kernel::Activity;
use trace_model::{SliceId, StrId, TrackId};

use crate::graph::GraphLaunch;
use trace_model::align::{kernel_stem, longest_common};
use trace_model::kernel::TraceIndex;

/// An interval of one thread in which a stream was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capture {
    /// Index of its capture trace.
    pub source: usize,
    /// Launch calls that created kernel nodes, in order.
    pub nodes: Vec<CaptureNode>,
}

impl Capture {
    /// Creates a capture in trace number `source`.
    pub fn new(source: usize, nodes: Vec<CaptureNode>) -> Self {
        Self { source, nodes }
    }
}

/// A launch call that created a kernel node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureNode {
    /// The call.
    pub launch: SliceId,
    /// Name of the kernel, if the call states it (HIP).
    pub kernel: Option<String>,
}

impl CaptureNode {
    /// Creates the node of `launch`, with the kernel's name if the call states it.
    pub fn new(launch: SliceId, kernel: Option<String>) -> Self {
        Self { launch, kernel }
    }
}

/// Assignment of the kernels of one graph launch to the nodes of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMatch {
    /// The graph launch.
    pub graph: GraphLaunch,
    /// Index of the capture, if one matches.
    pub capture: Option<usize>,
    /// Index of its capture trace.
    pub source: Option<usize>,
    /// Node of each kernel of the launch, as a call of the capture's trace.
    pub nodes: Vec<Option<SliceId>>,
    /// `true` if every kernel matches the node at its position.
    pub one_to_one: bool,
}

impl GraphMatch {
    /// Returns the number of kernels with a node.
    pub fn matched(&self) -> usize {
        self.nodes.iter().flatten().count()
    }
}

/// Returns the captures of one trace, in ascending time. Launches in the interval that ran a kernel
/// immediately were not captured and are left out.
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
/// A capture of the same length whose stated names are all equal, or that states none, matches
/// exactly: kernel k is node k. Graphs with the same list of kernels (piecewise graphs, one for
/// each layer) take the captures with that list in turn. If no capture matches exactly, the one
/// with the longest common subsequence of kernel names is used, ignoring template arguments and
/// clone suffixes.
pub fn match_graphs(
    index: &TraceIndex<'_>,
    graphs: Vec<GraphLaunch>,
    captures: &[Capture],
) -> Vec<GraphMatch> {
    // Number of uses of each capture, so that equal ones are used in turn.
    let mut used = vec![0_usize; captures.len()];
    // Replays of one graph have the same list of kernels; it is matched once.
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

/// Match of a list of kernels with the captures.
enum Fit {
    /// All nodes match, equally well for these captures.
    Exact(Vec<usize>),
    /// Partial match: pairs of kernel and node of a capture.
    Partial(usize, Vec<(usize, usize)>),
    /// No match.
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
        // Captures with stated names precede those without.
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
