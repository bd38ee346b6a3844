//! Reads and groups the stacks of launches.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::callstack::{Normalise, StackId, StackReader, StackRules, StackTable};
use trace_model::kernel::Activity;
use trace_model::{Slice, SliceId};

use crate::autograd::Backward;
use crate::capture::GraphMatch;
use crate::link::Launch;
use trace_model::kernel::TraceIndex;

/// Frame between a backward stack and its forward stack.
pub const AUTOGRAD_FRAME: &str = "[autograd]";

/// Options for reading and grouping stacks.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct StackOptions {
    /// Depth, normalisation, filter, recursion.
    pub rules: StackRules,
    /// `true` to add frames that are not in the chain of slices around the call: a frame for the
    /// launch of a graph, the stack of its capture, the forward stack of a backward operator,
    /// Python stacks that old profilers wrote as an argument.
    pub extend: bool,
}

/// Launches with one stack.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackGroup {
    /// The stack in [`Stacks::table`].
    pub stack: StackId,
    /// Distinct launch calls, in ascending time.
    pub launches: Vec<SliceId>,
    /// The kernels with their launches.
    pub links: Vec<Launch>,
    /// Number of links whose stack was truncated at the maximum depth.
    pub cut: usize,
}

impl StackGroup {
    /// Returns the number of distinct launch calls with the stack.
    pub fn count(&self) -> usize {
        self.launches.len()
    }
}

/// Distinct stacks with their launches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stacks {
    /// The frames.
    pub table: StackTable,
    /// Groups in the order of the report: most launches first, then by text, descending.
    pub groups: Vec<StackGroup>,
}

/// Reads the stacks of `links` and groups equal ones. With `graphs`, kernels of graph launches that
/// were matched to a capture get the stack of their capture, read from its trace in `captures`.
///
/// Cost: a few hashes per frame of each link; consecutive links with the same launch are read once.
pub fn stacks(
    index: &TraceIndex<'_>,
    links: &[Launch],
    options: StackOptions,
    graphs: &[GraphMatch],
    captures: &[&TraceIndex<'_>],
) -> Stacks {
    let mut table = StackTable::new();
    let mut reader = Frames::new(index, options);
    let mut sources: Vec<Frames<'_>> = captures
        .iter()
        .map(|source| Frames::new(source, options))
        .collect();
    let nodes = node_of_kernel(graphs);
    let mut at: HashMap<StackId, usize, FxBuildHasher> = HashMap::default();
    let mut groups: Vec<StackGroup> = Vec::new();
    let mut last: Option<(SliceId, StackId, bool)> = None;
    for link in links {
        let (mut stack, mut cut) = match last {
            Some((call, stack, cut)) if call == link.launch => (stack, cut),
            _ => {
                let read =
                    reader.stack(index.trace().slice(link.launch), StackId::EMPTY, &mut table);
                last = Some((link.launch, read.0, read.1));
                read
            }
        };
        if link.graph && options.extend {
            stack = table.push(
                stack,
                &graph_frame(index, link.launch, options.rules.normalise),
            );
            if let Some((source, node)) = nodes.get(&link.kernel)
                && let Some(frames) = sources.get_mut(*source)
            {
                let call = frames.index.trace().slice(*node);
                let read = frames.stack(call, stack, &mut table);
                (stack, cut) = (read.0, cut || read.1);
            }
        }
        let group = *at.entry(stack).or_insert_with(|| {
            groups.push(StackGroup {
                stack,
                launches: Vec::new(),
                links: Vec::new(),
                cut: 0,
            });
            groups.len() - 1
        });
        let group = &mut groups[group];
        group.links.push(*link);
        group.cut += usize::from(cut);
    }
    for group in &mut groups {
        group.launches = group.links.iter().map(|l| l.launch).collect();
        group.launches.sort_unstable();
        group.launches.dedup();
    }
    let mut out = Stacks { table, groups };
    out.sort_by(|g| g.count() as u64);
    out
}

impl Stacks {
    /// Sorts the groups by `key`, largest first; equal ones by their text from the innermost frame
    /// outwards, joined by ` <- `, bytewise descending.
    pub fn sort_by(&mut self, key: impl Fn(&StackGroup) -> u64) {
        let table = &self.table;
        self.groups.sort_by_cached_key(|g| {
            (
                std::cmp::Reverse(key(g)),
                std::cmp::Reverse(joined(table, g.stack)),
            )
        });
    }

    /// Returns the number of distinct launch calls over all groups.
    pub fn launches(&self) -> usize {
        let mut all: Vec<SliceId> = self
            .groups
            .iter()
            .flat_map(|g| g.launches.iter().copied())
            .collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }
}

fn joined(table: &StackTable, stack: StackId) -> String {
    table.leaf_first(stack).collect::<Vec<_>>().join(" <- ")
}

fn graph_frame(index: &TraceIndex<'_>, launch: SliceId, normalise: Normalise) -> String {
    match index.correlation().id_of(index.trace().slice(launch)) {
        Some(id) if normalise != Normalise::Smart => format!("[graph launch {id}]"),
        _ => "[graph launch]".to_owned(),
    }
}

/// Returns the node of each kernel: (capture trace, launch call).
fn node_of_kernel(graphs: &[GraphMatch]) -> HashMap<SliceId, (usize, SliceId), FxBuildHasher> {
    let mut nodes = HashMap::default();
    for graph in graphs {
        let Some(source) = graph.source else {
            continue;
        };
        for (kernel, node) in graph.graph.kernels.iter().zip(&graph.nodes) {
            if let Some(node) = node {
                nodes.insert(*kernel, (source, *node));
            }
        }
    }
    nodes
}

/// Reads the frames of one trace, including those of [`StackOptions::extend`].
struct Frames<'t> {
    index: &'t TraceIndex<'t>,
    reader: StackReader<'t>,
    backward: Option<Backward>,
    /// Python stacks as arguments of operators, if Python functions are not slices.
    call_stack: Option<trace_model::ArgColumn>,
    /// Native frames as an argument of calls, from the innermost on, one a line.
    call_chain: Option<trace_model::ArgColumn>,
}

impl<'t> Frames<'t> {
    fn new(index: &'t TraceIndex<'t>, options: StackOptions) -> Self {
        let trace = index.trace();
        let call_stack = trace.arg_column("Call stack");
        let call_chain = trace.arg_column("call chain");
        let no_python = trace.find_category("python_function").is_none();
        Self {
            index,
            reader: StackReader::new(trace, index.activities(), options.rules),
            backward: options.extend.then(|| Backward::new(index)),
            call_stack: (options.extend && no_python && !call_stack.is_empty())
                .then_some(call_stack),
            call_chain: (!call_chain.is_empty()).then_some(call_chain),
        }
    }

    fn stack(
        &mut self,
        call: Slice<'_>,
        caller: StackId,
        table: &mut StackTable,
    ) -> (StackId, bool) {
        let forward = self
            .backward
            .as_mut()
            .and_then(|b| b.forward_of(self.index, call));
        let chain = self.call_chain.as_ref().and_then(|c| c.get(call)?.as_str());
        if forward.is_none() && self.call_stack.is_none() && chain.is_none() {
            return self.reader.stack(call, caller, table);
        }
        let rules = self.reader.rules();
        let mut list = vec![table.frame(call.name().unwrap_or(trace_model::callstack::NO_NAME))];
        // The frames lie between the ranges around the call and the call itself.
        for frame in chain.into_iter().flat_map(str::lines) {
            list.push(table.frame(&rules.normalise.apply(frame)));
        }
        let mut cut = self.reader.ancestors(call, &mut list, table);
        if let Some(forward) = forward.filter(|_| !cut) {
            list.push(table.frame(AUTOGRAD_FRAME));
            let op = rules
                .normalise
                .apply(forward.name().unwrap_or(""))
                .into_owned();
            list.push(table.frame(&op));
            cut = self.reader.ancestors(forward, &mut list, table);
        }
        if let Some(column) = self.call_stack.as_ref().filter(|_| !cut) {
            let outermost = forward.unwrap_or(call);
            let text = std::iter::once(outermost)
                .chain(outermost.ancestors())
                .filter(|s| self.index.activity(*s) == Activity::CpuOp)
                .filter_map(|s| column.get(s)?.as_str())
                .last()
                .unwrap_or("");
            for frame in text.split(';').map(str::trim).filter(|f| !f.is_empty()) {
                list.push(table.frame(&rules.normalise.apply(frame)));
            }
        }
        if list.len() > rules.depth + 1 {
            list.truncate(rules.depth + 1);
            cut = true;
        }
        let stack = list
            .iter()
            .rev()
            .fold(caller, |stack, frame| table.push_frame(stack, *frame));
        (stack, cut)
    }
}
