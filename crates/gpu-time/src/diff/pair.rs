//! Matches the trees of two traces, and the kernels under matched nodes.

use std::collections::{HashMap, VecDeque};

use rustc_hash::{FxBuildHasher, FxHashMap};
use trace_model::align::{kernel_stem, longest_common};
use trace_model::kernel::KernelClass;

use crate::diff::tree::{Node, Texts, Tree};
use crate::kernels::class_of;
use crate::work::{GpuWork, WorkKind};

/// Evidence that two GPU activities are the same operation of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Evidence {
    /// They were launched at the same place of the same operators and functions.
    Structure,
    /// They have the same name, at the same place of what is left without a place.
    Name,
    /// They have the same class, by their names or else by their launches, at the same place of
    /// what is left.
    Class,
    /// No match: only one trace has it.
    Unmatched,
}

impl Evidence {
    /// All kinds, strongest first.
    pub const ALL: [Self; 4] = [Self::Structure, Self::Name, Self::Class, Self::Unmatched];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Name => "name",
            Self::Class => "class",
            Self::Unmatched => "unmatched",
        }
    }
}

/// A GPU activity and its counterpart, as event indices in each trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventPair {
    pub(crate) events: [Option<usize>; 2],
    pub(crate) evidence: Evidence,
    /// Lowest node around it in both traces, in each tree; its own where it has no counterpart.
    pub(crate) nodes: [usize; 2],
}

/// One trace, or one step of it, as input of a comparison.
pub(crate) struct Side<'s, 't> {
    pub(crate) work: &'s GpuWork<'t>,
    pub(crate) tree: Tree,
    /// Name, stem, kind and class of each event of the trace.
    pub(crate) keys: &'s [Key],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    name: u32,
    stem: u32,
    /// Class from the name alone: what one operator launches is of one class, and its kernels must
    /// be distinguished.
    class: (WorkKind, KernelClass),
    /// Class from the launch, for kernels whose names differ in class on both sides.
    launched: (WorkKind, KernelClass),
}

/// Returns the comparison key of each event of a trace. Cost: a look-up for each distinct name.
pub(crate) fn keys(work: &GpuWork<'_>, texts: &mut Texts) -> Vec<Key> {
    let mut known: Vec<Option<(u32, u32, KernelClass)>> =
        vec![None; work.trace().strings().len() + 1];
    work.events()
        .iter()
        .map(|event| {
            let at = event.name.map_or(known.len() - 1, |n| n.index());
            let name = work.name(event);
            let mut make = || {
                let class = work.index().vocabulary().class(name);
                (texts.place(name), texts.place(&kernel_stem(name)), class)
            };
            let (name, stem, class) = match known.get_mut(at) {
                Some(slot) => *slot.get_or_insert_with(make),
                None => make(),
            };
            Key {
                name,
                stem,
                class: (event.kind, class),
                launched: (event.kind, class_of(work, event)),
            }
        })
        .collect()
}

impl Side<'_, '_> {
    fn node(&self, at: usize) -> Option<&Node> {
        self.tree.nodes.get(at)
    }

    fn list<T>(&self, events: &[usize], f: impl Fn(&Key) -> T) -> Vec<T> {
        events
            .iter()
            .filter_map(|e| self.keys.get(*e))
            .map(f)
            .collect()
    }
}

/// Pairs all GPU activity of `a` with that of `b`. Every event is in exactly one pair.
///
/// Nodes are matched from the root downwards: the children of matched nodes are aligned as
/// sequences, first by name and shapes of arguments, in the gaps by name, in the rest by name
/// without counters; two operators that are alone in a gap match each other. A node without a
/// counterpart is skipped: its GPU activity belongs to the lowest matched node around it.
pub(crate) fn pair(a: &Side<'_, '_>, b: &Side<'_, '_>) -> (Vec<EventPair>, Places) {
    let mut out = Vec::new();
    let mut matched = Places::new();
    let mut open = vec![(0_usize, 0_usize)];
    while let Some((x, y)) = open.pop() {
        let (Some(left), Some(right)) = (a.node(x), b.node(y)) else {
            continue;
        };
        matched.push((x, y));
        let matches = children(a, &left.children, b, &right.children);
        let mut here = [left.events.clone(), right.events.clone()];
        for child in others(&left.children, matches.iter().map(|m| m.0)) {
            here[0].extend(a.tree.events_below(child));
        }
        for child in others(&right.children, matches.iter().map(|m| m.1)) {
            here[1].extend(b.tree.events_below(child));
        }
        // Order of launch, which is the order of indices for activity launched by one thread.
        here.iter_mut().for_each(|h| h.sort_unstable());
        events(
            a,
            &here[0],
            b,
            &here[1],
            [x, y],
            Evidence::Structure,
            &mut out,
        );
        for (i, j) in matches.into_iter().rev() {
            if let (Some(i), Some(j)) = (left.children.get(i), right.children.get(j)) {
                open.push((*i, *j));
            }
        }
    }
    let nowhere = [0, 0];
    let (left, right) = (&a.tree.unlinked, &b.tree.unlinked);
    events(a, left, b, right, nowhere, Evidence::Name, &mut out);
    let mut out = by_name(a, b, out);
    at_their_own_nodes([a, b], &mut out);
    (out, matched)
}

/// Sets the node of each activity without a counterpart to the one that launched it: there is no
/// other side with which the node must agree.
fn at_their_own_nodes(sides: [&Side<'_, '_>; 2], pairs: &mut [EventPair]) {
    for (at, side) in sides.into_iter().enumerate() {
        let mut own: FxHashMap<usize, usize> = FxHashMap::default();
        for (place, node) in side.tree.nodes.iter().enumerate() {
            own.extend(node.events.iter().map(|event| (*event, place)));
        }
        for pair in pairs.iter_mut() {
            let is_alone = pair.evidence == Evidence::Unmatched;
            let (Some(event), Some(node)) = (pair.events[at], pair.nodes.get_mut(at)) else {
                continue;
            };
            if is_alone && let Some(place) = own.get(&event) {
                *node = *place;
            }
        }
    }
}

/// Returns the entries of `list` at indices other than the given ones.
fn others(list: &[usize], places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut taken = vec![false; list.len()];
    for place in places {
        if let Some(flag) = taken.get_mut(place) {
            *flag = true;
        }
    }
    let free = list.iter().zip(taken).filter(|(_, taken)| !taken);
    free.map(|(entry, _)| *entry).collect()
}

/// Pairs of indices, ascending.
pub(crate) type Places = Vec<(usize, usize)>;

/// Aligns the gaps that `found` leaves by a further key.
fn refine<K: PartialEq>(found: Places, a: &[K], b: &[K]) -> Places {
    let mut out = Places::new();
    let (mut i, mut j) = (0, 0);
    let ends = found.iter().copied().chain([(a.len(), b.len())]);
    for (p, q) in ends {
        let (left, right) = (a.get(i..p).unwrap_or(&[]), b.get(j..q).unwrap_or(&[]));
        out.extend(
            longest_common(left, right)
                .into_iter()
                .map(|(s, t)| (s + i, t + j)),
        );
        if p < a.len() && q < b.len() {
            out.push((p, q));
        }
        (i, j) = (p + 1, q + 1);
    }
    out
}

/// A class of an event.
type ClassKey = fn(&Key) -> (WorkKind, KernelClass);

/// Comparison key of a node.
type NodeKey = fn(&Node) -> (u32, Option<u32>);

fn children(a: &Side<'_, '_>, left: &[usize], b: &Side<'_, '_>, right: &[usize]) -> Places {
    if left.is_empty() || right.is_empty() {
        return Places::new();
    }
    let keys = |side: &Side<'_, '_>, list: &[usize], f: NodeKey| {
        let nodes = list.iter().filter_map(|n| side.node(*n));
        nodes.map(f).collect::<Vec<_>>()
    };
    let by: [NodeKey; 3] = [
        |n| (n.name, n.shape),
        |n| (n.name, None),
        |n| (n.family, None),
    ];
    let mut found = Places::new();
    for f in by {
        found = refine(found, &keys(a, left, f), &keys(b, right, f));
    }
    // Operators that are alone between the same neighbors.
    let is_op = |side: &Side<'_, '_>, list: &[usize], at: usize| {
        let node = list.get(at).and_then(|n| side.node(*n));
        node.is_some_and(|n| n.is_op)
    };
    let mut out = Places::new();
    let (mut i, mut j) = (0, 0);
    for (p, q) in found.into_iter().chain([(left.len(), right.len())]) {
        if p == i + 1 && q == j + 1 && is_op(a, left, i) && is_op(b, right, j) {
            out.push((i, j));
        }
        if p < left.len() && q < right.len() {
            out.push((p, q));
        }
        (i, j) = (p + 1, q + 1);
    }
    out
}

/// Pairs the events of two lists: by name, in the gaps by name without templates, then the k-th of
/// a class with the k-th of that class, by names and in the rest by launches. With `best` other
/// than structure, pairs of the last step are marked as matched by class.
fn events(
    a: &Side<'_, '_>,
    left: &[usize],
    b: &Side<'_, '_>,
    right: &[usize],
    nodes: [usize; 2],
    best: Evidence,
    out: &mut Vec<EventPair>,
) {
    let found = longest_common(&a.list(left, |k| k.name), &b.list(right, |k| k.name));
    let found = refine(found, &a.list(left, |k| k.stem), &b.list(right, |k| k.stem));
    for (i, j) in &found {
        let events = [left.get(*i).copied(), right.get(*j).copied()];
        out.push(EventPair {
            events,
            evidence: best,
            nodes,
        });
    }
    let mut rest = others(left, found.iter().map(|f| f.0));
    let mut remaining = others(right, found.iter().map(|f| f.1));
    let by_class = match best {
        Evidence::Structure => Evidence::Structure,
        _ => Evidence::Class,
    };
    let classes: [ClassKey; 2] = [|key| key.class, |key| key.launched];
    for class in classes {
        let mut free: HashMap<_, VecDeque<usize>, FxBuildHasher> = HashMap::default();
        for event in &remaining {
            if let Some(key) = b.keys.get(*event) {
                free.entry(class(key)).or_default().push_back(*event);
            }
        }
        let mut taken: Vec<usize> = Vec::new();
        rest.retain(|event| {
            let class = a.keys.get(*event).map(class);
            let other = class.and_then(|class| free.get_mut(&class)?.pop_front());
            taken.extend(other);
            out.extend(other.map(|other| EventPair {
                events: [Some(*event), Some(other)],
                evidence: by_class,
                nodes,
            }));
            other.is_none()
        });
        taken.sort_unstable();
        remaining.retain(|event| taken.binary_search(event).is_err());
    }
    let alone = |events| EventPair {
        events,
        evidence: Evidence::Unmatched,
        nodes,
    };
    out.extend(rest.into_iter().map(|event| alone([Some(event), None])));
    out.extend(
        remaining
            .into_iter()
            .map(|event| alone([None, Some(event)])),
    );
}

/// Matches what has no counterpart at its place with the same name anywhere else.
fn by_name(a: &Side<'_, '_>, b: &Side<'_, '_>, pairs: Vec<EventPair>) -> Vec<EventPair> {
    let (mut out, rest): (Vec<EventPair>, Vec<EventPair>) = pairs
        .into_iter()
        .partition(|p| p.evidence != Evidence::Unmatched);
    let (mut left, mut right): (Vec<EventPair>, Vec<EventPair>) =
        rest.into_iter().partition(|p| p.events[0].is_some());
    left.sort_by_key(|p| p.events[0]);
    right.sort_by_key(|p| p.events[1]);
    let name = |side: &Side<'_, '_>, event: Option<usize>| {
        event.and_then(|e| side.keys.get(e)).map(|k| k.name)
    };
    let found = longest_common(
        &left
            .iter()
            .map(|p| name(a, p.events[0]))
            .collect::<Vec<_>>(),
        &right
            .iter()
            .map(|p| name(b, p.events[1]))
            .collect::<Vec<_>>(),
    );
    let (mut used_left, mut used_right) = (vec![false; left.len()], vec![false; right.len()]);
    for (i, j) in found {
        if let (Some(p), Some(q), Some(x), Some(y)) = (
            left.get(i),
            right.get(j),
            used_left.get_mut(i),
            used_right.get_mut(j),
        ) {
            (*x, *y) = (true, true);
            out.push(EventPair {
                events: [p.events[0], q.events[1]],
                evidence: Evidence::Name,
                nodes: [p.nodes[0], q.nodes[1]],
            });
        }
    }
    let left = left.into_iter().zip(used_left);
    let right = right.into_iter().zip(used_right);
    out.extend(left.chain(right).filter(|p| !p.1).map(|p| p.0));
    out
}

impl EventPair {
    /// Returns `true` if it was launched within the recordings.
    pub(crate) fn linked(&self, a: &Side<'_, '_>, b: &Side<'_, '_>) -> bool {
        let known = |side: &Side<'_, '_>, event: Option<usize>| {
            event.map(|e| side.tree.unlinked.binary_search(&e).is_err())
        };
        known(a, self.events[0])
            .or_else(|| known(b, self.events[1]))
            .unwrap_or(false)
    }
}
