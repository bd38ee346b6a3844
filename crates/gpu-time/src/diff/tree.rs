//! Builds a tree of the host slices that launched GPU activity, one for each trace.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use trace_model::callstack::{smart, without_addresses};
use trace_model::kernel::Activity;
use trace_model::{ArgColumn, Slice, SliceId, StrId, TrackId};

use crate::work::{GpuEvent, GpuWork};

/// Interned strings of both traces.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    places: HashMap<String, u32, FxBuildHasher>,
    list: Vec<String>,
}

impl Texts {
    pub(crate) fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.places.insert(text.to_owned(), place);
        self.list.push(text.to_owned());
        place
    }

    pub(crate) fn get(&self, place: u32) -> &str {
        self.list.get(place as usize).map_or("", String::as_str)
    }
}

/// A host slice that launched GPU activity, directly or through slices below it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The slice; `None` for the root and for threads.
    pub(crate) slice: Option<SliceId>,
    pub(crate) parent: usize,
    /// Its name as compared.
    pub(crate) name: u32,
    /// Its name without the numbers that count instances.
    pub(crate) family: u32,
    /// Shapes of its arguments, if they were recorded.
    pub(crate) shape: Option<u32>,
    /// `true` for operators.
    pub(crate) is_op: bool,
    pub(crate) start_ns: i64,
    /// Child nodes, in ascending time.
    pub(crate) children: Vec<usize>,
    /// Indices of the events that it launched directly, in order of launch.
    pub(crate) events: Vec<usize>,
}

/// The tree of one trace.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The root first; parents before children.
    pub(crate) nodes: Vec<Node>,
    /// Events whose launch was not recorded, in ascending time.
    pub(crate) unlinked: Vec<usize>,
}

/// Kinds of slices that become nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kinds {
    /// Python functions, annotations and operators.
    All,
    /// Operators and runtime API calls.
    OpsAndCalls,
}

struct Builder<'w, 't> {
    work: &'w GpuWork<'t>,
    kinds: Kinds,
    texts: &'w mut Texts,
    dims: ArgColumn,
    nodes: Vec<Node>,
    by_slice: HashMap<SliceId, usize, FxBuildHasher>,
    threads: BTreeMap<TrackId, usize>,
    /// Names of the trace: (compared name, family).
    names: HashMap<(Option<StrId>, bool), (u32, u32), FxBuildHasher>,
    /// The only track with Python functions, for threads whose operators are on another track.
    python: Option<TrackId>,
}

impl Tree {
    /// Builds the tree of all GPU activity. Cost: linear in the ancestors of launches.
    pub(crate) fn new(work: &GpuWork<'_>, kinds: Kinds, texts: &mut Texts) -> Self {
        let python = (kinds == Kinds::All).then(|| python_track(work)).flatten();
        Self::of(work, kinds, 0..work.events().len(), python, texts)
    }

    /// Builds the tree of some events, which are ascending indices of `work.events()`; `python` is
    /// the trace's [`python_track`].
    pub(crate) fn of(
        work: &GpuWork<'_>,
        kinds: Kinds,
        events: impl IntoIterator<Item = usize>,
        python: Option<TrackId>,
        texts: &mut Texts,
    ) -> Self {
        let trace = work.trace();
        let root = Node {
            slice: None,
            parent: 0,
            name: texts.place(""),
            family: texts.place(""),
            shape: None,
            is_op: false,
            start_ns: i64::MIN,
            children: Vec::new(),
            events: Vec::new(),
        };
        let mut builder = Builder {
            python,
            work,
            kinds,
            texts,
            dims: trace.arg_column("Input Dims"),
            nodes: vec![root],
            by_slice: HashMap::default(),
            threads: BTreeMap::new(),
            names: HashMap::default(),
        };
        let mut unlinked = Vec::new();
        let mut launches: Vec<(i64, usize, Slice<'_>)> = Vec::new();
        for at in events {
            let Some(event) = work.events().get(at) else {
                continue;
            };
            match launch(work, event) {
                Some(call) => launches.push((call.ts().nanos(), at, call)),
                None => unlinked.push(at),
            }
        }
        launches.sort_by_key(|l| (l.0, l.1));
        for (_, at, call) in launches {
            let node = builder.node_of(call);
            if let Some(node) = builder.nodes.get_mut(node) {
                node.events.push(at);
            }
        }
        let mut nodes = builder.nodes;
        let starts: Vec<i64> = nodes.iter().map(|n| n.start_ns).collect();
        for node in &mut nodes {
            node.children.sort_by_key(|c| (starts.get(*c).copied(), *c));
        }
        Self { nodes, unlinked }
    }

    /// Returns all events at and below `node`, in order of nodes.
    pub(crate) fn events_below(&self, node: usize) -> Vec<usize> {
        let mut out = Vec::new();
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            if let Some(node) = self.nodes.get(at) {
                out.extend_from_slice(&node.events);
                open.extend(node.children.iter().rev());
            }
        }
        out
    }
}

/// Returns the launch of an event; with only an external id, the operator around the launch.
fn launch<'t>(work: &GpuWork<'t>, event: &GpuEvent) -> Option<Slice<'t>> {
    work.index().launch_of(work.slice(event)).map(|l| l.0)
}

/// Returns the only track with Python functions, for threads whose operators are on another track;
/// `None` if there are several. Cost: one pass over the slices.
pub(crate) fn python_track(work: &GpuWork<'_>) -> Option<TrackId> {
    let trace = work.trace();
    let mut found = None;
    for slice in trace.slices() {
        if work.index().activity(slice) != Activity::PythonFunction {
            continue;
        }
        let track = slice.track_id();
        if found.is_some_and(|f| f != track) {
            return None;
        }
        found = Some(track);
    }
    found
}

impl<'t> Builder<'_, 't> {
    fn keeps(&self, slice: Slice<'t>) -> bool {
        let activity = self.work.index().activity(slice);
        match self.kinds {
            Kinds::All => matches!(
                activity,
                Activity::PythonFunction | Activity::CpuOp | Activity::UserAnnotation
            ),
            Kinds::OpsAndCalls => activity == Activity::CpuOp || activity.is_api(),
        }
    }

    /// Returns the node of the innermost kept slice at or around `slice`; creates missing nodes.
    fn node_of(&mut self, slice: Slice<'t>) -> usize {
        let mut missing: Vec<Slice<'t>> = Vec::new();
        let mut known = None;
        let mut outermost = slice;
        for s in std::iter::once(slice).chain(slice.ancestors()) {
            outermost = s;
            if let Some(node) = self.by_slice.get(&s.id()) {
                known = Some(*node);
                break;
            }
            if self.keeps(s) {
                missing.push(s);
            }
        }
        if known.is_none()
            && let Some(python) = self.python
            && python != outermost.track_id()
        {
            for s in self.open_at(python, outermost.ts().nanos()) {
                if let Some(node) = self.by_slice.get(&s.id()) {
                    known = Some(*node);
                    break;
                }
                missing.push(s);
            }
        }
        let mut at = known.unwrap_or_else(|| self.thread(outermost.track_id()));
        for s in missing.into_iter().rev() {
            at = self.add(s, at);
        }
        at
    }

    /// Returns the slices of a track that are open at an instant, innermost first.
    fn open_at(&self, track: TrackId, at: i64) -> Vec<Slice<'t>> {
        let trace = self.work.trace();
        let list = trace.slices_on(track);
        let next = list.partition_point(|s| trace.slice(*s).ts().nanos() <= at);
        let Some(last) = next.checked_sub(1).and_then(|i| list.get(i)) else {
            return Vec::new();
        };
        let last = trace.slice(*last);
        std::iter::once(last)
            .chain(last.ancestors())
            .filter(|s| s.end().nanos() > at)
            .collect()
    }

    fn thread(&mut self, track: TrackId) -> usize {
        // The operators of a thread and its Python functions may be on different tracks.
        let track = self.python.unwrap_or(track);
        if let Some(node) = self.threads.get(&track) {
            return *node;
        }
        let number = self.threads.len();
        let name = self.texts.place(&format!("(thread {number})"));
        let node = self.push(Node {
            slice: None,
            parent: 0,
            name,
            family: name,
            shape: None,
            is_op: false,
            start_ns: i64::try_from(number).unwrap_or(i64::MAX),
            children: Vec::new(),
            events: Vec::new(),
        });
        self.threads.insert(track, node);
        node
    }

    fn add(&mut self, slice: Slice<'t>, parent: usize) -> usize {
        let is_op = self.work.index().activity(slice) == Activity::CpuOp;
        let (name, family) = self.names_of(slice, is_op);
        let shape = match is_op {
            true => self.dims.get(slice).and_then(trace_model::ArgValue::as_str),
            false => None,
        };
        let shape = shape.map(|s| self.texts.place(s));
        let node = self.push(Node {
            slice: Some(slice.id()),
            parent,
            name,
            family,
            shape,
            is_op,
            start_ns: slice.ts().nanos(),
            children: Vec::new(),
            events: Vec::new(),
        });
        self.by_slice.insert(slice.id(), node);
        node
    }

    fn push(&mut self, node: Node) -> usize {
        let at = self.nodes.len();
        if let Some(parent) = self.nodes.get_mut(node.parent) {
            parent.children.push(at);
        }
        self.nodes.push(node);
        at
    }

    fn names_of(&mut self, slice: Slice<'t>, is_op: bool) -> (u32, u32) {
        let key = (slice.name_id(), is_op);
        if let Some(known) = self.names.get(&key) {
            return *known;
        }
        let name = slice.name().unwrap_or("");
        let compared = match self.kinds {
            Kinds::OpsAndCalls => Cow::Borrowed(name),
            Kinds::All => without_place(name),
        };
        let family = match is_op {
            true => compared.clone(),
            false => smart(&compared),
        };
        let both = (self.texts.place(&compared), self.texts.place(&family));
        self.names.insert(key, both);
        both
    }
}

/// Returns the name of a Python function without the parts that differ between installations: the
/// folders above the last two parts of its path, its line number, and addresses.
///
/// `/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py(124): forward` is
/// `modules/linear.py: forward`.
pub(crate) fn without_place(name: &str) -> Cow<'_, str> {
    let Some((place, function)) = name.rsplit_once("): ") else {
        return without_addresses(name);
    };
    let Some((path, line)) = place.rsplit_once('(') else {
        return Cow::Borrowed(name);
    };
    if line.is_empty() || !line.bytes().all(|b| b.is_ascii_digit()) {
        return Cow::Borrowed(name);
    }
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or(path);
    match parts.next().filter(|p| !p.is_empty()) {
        Some(folder) => Cow::Owned(format!("{folder}/{file}: {function}")),
        None => Cow::Owned(format!("{file}: {function}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installations_do_not_show() {
        for (name, want) in [
            (
                "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py(124): forward",
                "modules/linear.py: forward",
            ),
            ("linear.py(1): f", "linear.py: f"),
            ("nn.Module: Linear_3", "nn.Module: Linear_3"),
            (
                "<built-in method mm of type object at 0x7f9a3dfe1d20>",
                "<built-in method mm of type object at 0x*>",
            ),
            ("aten::mm", "aten::mm"),
            ("f(x): g", "f(x): g"),
        ] {
            assert_eq!(without_place(name), want);
        }
    }
}
