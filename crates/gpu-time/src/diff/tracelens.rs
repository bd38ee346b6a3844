//! Rows of TraceLens' `TraceDiff` (`diff_stats_df`), by its rules.
//!
//! The trees hold operators, runtime API calls and GPU activity; children of equal nodes are
//! aligned by edit distance over names, without addresses. Entries without a counterpart are listed
//! with the nearest operator around their launch and the name of the node above (the lowest common
//! ancestor). GPU activity that is equal on both sides, calls included, is not listed, nor is
//! activity that no operator launched.

use std::borrow::Cow;

use serde::Serialize;
use trace_model::align::longest_common;
use trace_model::correlation::LinkMethod;
use trace_model::interval::IntervalSet;
use trace_model::{ArgColumn, ArgValue, SliceId};

use crate::diff::tree::{Kinds, Texts, Tree};
use crate::work::GpuWork;

/// A GPU activity without an equal counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiffStatsRow {
    /// Its name.
    pub name: String,
    /// Operator that launched it.
    pub operator: String,
    /// Its trace, 0 or 1.
    pub side: usize,
    /// Arguments of the operator as Python writes tuples: `Input Dims`, `Input Strides`, `Input
    /// type`, `Concrete Inputs`; empty where they were not recorded.
    pub inputs: [String; 4],
    /// Its duration.
    pub kernel_ns: i64,
    /// Time in which any activity of the same ancestor and trace ran.
    pub busy_ns: i64,
    /// Name of the lowest common ancestor.
    pub ancestor: String,
    /// Number of the ancestor, in order of appearance.
    pub ancestor_number: usize,
    /// The event in its trace.
    pub event: SliceId,
}

/// A child of a node.
#[derive(Clone, Copy)]
enum Child {
    Node(usize),
    Event(usize),
}

struct Side<'w, 't> {
    work: &'w GpuWork<'t>,
    tree: Tree,
    /// Node of the call of each event, if linked by correlation id or flow.
    node_of: Vec<Option<usize>>,
    inputs: [ArgColumn; 4],
}

impl<'w, 't> Side<'w, 't> {
    fn new(work: &'w GpuWork<'t>, texts: &mut Texts) -> Self {
        let mut tree = Tree::new(work, Kinds::OpsAndCalls, texts);
        let mut node_of = vec![None; work.events().len()];
        for (at, node) in tree.nodes.iter_mut().enumerate() {
            // An operator known by external id alone is not a launch.
            node.events.retain(|e| {
                let event = work.events().get(*e);
                event.is_some_and(|event| {
                    let launch = work.index().launch_of(work.slice(event));
                    launch.is_some_and(|l| l.1 != LinkMethod::ExternalId)
                })
            });
            for event in &node.events {
                if let Some(slot) = node_of.get_mut(*event) {
                    *slot = Some(at);
                }
            }
        }
        let keys = [
            "Input Dims",
            "Input Strides",
            "Input type",
            "Concrete Inputs",
        ];
        Self {
            inputs: keys.map(|k| work.trace().arg_column(k)),
            work,
            tree,
            node_of,
        }
    }

    /// Returns the nodes and events below a node in ascending time.
    fn children(&self, at: usize) -> Vec<Child> {
        let Some(node) = self.tree.nodes.get(at) else {
            return Vec::new();
        };
        let nodes = node.children.iter().map(|c| {
            let start = self.tree.nodes.get(*c).map_or(0, |n| n.start_ns);
            (start, Child::Node(*c))
        });
        let events = node.events.iter().map(|e| {
            let start = self.work.events().get(*e).map_or(0, |e| e.start_ns);
            (start, Child::Event(*e))
        });
        let mut all: Vec<(i64, Child)> = nodes
            .filter(|(_, c)| matches!(c, Child::Node(n) if !self.below(*n).is_empty()))
            .chain(events)
            .collect();
        all.sort_by_key(|c| c.0);
        all.into_iter().map(|c| c.1).collect()
    }

    fn below(&self, at: usize) -> Vec<usize> {
        self.tree.events_below(at)
    }

    fn name(&self, child: Child, texts: &mut Texts) -> u32 {
        match child {
            Child::Node(n) => self.tree.nodes.get(n).map_or(0, |n| n.name),
            Child::Event(e) => {
                let name = self.work.events().get(e).map_or("", |e| self.work.name(e));
                texts.place(name)
            }
        }
    }

    /// Returns the operator around an event's launch.
    fn operator(&self, event: usize) -> Option<usize> {
        let mut at = (*self.node_of.get(event)?)?;
        loop {
            let node = self.tree.nodes.get(at)?;
            if node.is_op {
                return Some(at);
            }
            if node.parent == at {
                return None;
            }
            at = node.parent;
        }
    }
}

/// Returns the rows for two traces, those of one ancestor next to each other.
pub fn diff_stats(first: &GpuWork<'_>, second: &GpuWork<'_>) -> Vec<DiffStatsRow> {
    let mut texts = Texts::default();
    let a = Side::new(first, &mut texts);
    let b = Side::new(second, &mut texts);
    let mut out = Vec::new();
    let mut ancestors = 0;
    let mut open = vec![(0, 0)];
    while let Some((x, y)) = open.pop() {
        let (left, right) = (a.children(x), b.children(y));
        let mut names = |side: &Side<'_, '_>, list: &[Child]| -> Vec<u32> {
            list.iter().map(|c| side.name(*c, &mut texts)).collect()
        };
        let (of_left, of_right) = (names(&a, &left), names(&b, &right));
        let pairs = align(&of_left, &of_right);
        let mut lonely: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        for (i, (side, list)) in [(&a, &left), (&b, &right)].into_iter().enumerate() {
            for (place, child) in list.iter().enumerate() {
                let matched = pairs.iter().any(|p| [p.0, p.1].get(i) == Some(&place));
                match (matched, child) {
                    (true, _) => {}
                    (false, Child::Node(n)) => lonely[i].extend(side.below(*n)),
                    (false, Child::Event(e)) => lonely[i].push(*e),
                }
            }
        }
        if lonely.iter().any(|l| !l.is_empty()) {
            let name = a.tree.nodes.get(x).map_or(0, |n| n.name);
            for (i, side) in [&a, &b].into_iter().enumerate() {
                rows(side, i, &lonely[i], (texts.get(name), ancestors), &mut out);
            }
            ancestors += 1;
        }
        for (i, j) in pairs.into_iter().rev() {
            if let (Some(Child::Node(p)), Some(Child::Node(q))) = (left.get(i), right.get(j)) {
                open.push((*p, *q));
            }
        }
    }
    out
}

fn rows(
    side: &Side<'_, '_>,
    number: usize,
    events: &[usize],
    (ancestor, ancestor_number): (&str, usize),
    out: &mut Vec<DiffStatsRow>,
) {
    let listed: Vec<(usize, usize)> = events
        .iter()
        .filter_map(|e| Some((*e, side.operator(*e)?)))
        .collect();
    let spans = listed
        .iter()
        .filter_map(|(e, _)| side.work.events().get(*e));
    let busy: IntervalSet = spans.map(|e| e.interval()).collect();
    for (event, operator) in listed {
        let (Some(event), Some(slice)) = (
            side.work.events().get(event),
            side.tree.nodes.get(operator).and_then(|n| n.slice),
        ) else {
            continue;
        };
        let slice = side.work.trace().slice(slice);
        let input = |c: &ArgColumn| c.get(slice).and_then(ArgValue::as_str).map(python_tuple);
        out.push(DiffStatsRow {
            name: side.work.name(event).to_owned(),
            operator: slice.name().unwrap_or("").to_owned(),
            side: number,
            inputs: [0, 1, 2, 3].map(|i| side.inputs.get(i).and_then(input).unwrap_or_default()),
            kernel_ns: event.dur_ns(),
            busy_ns: busy.measure().get(),
            ancestor: ancestor.to_owned(),
            ancestor_number,
            event: event.slice,
        });
    }
}

/// Maximum number of cells of the edit distance table; above it a longest common subsequence is
/// used.
const MOST_CELLS: usize = 20_000_000;

/// Aligns two lists by edit distance: from the ends, equal entries are joined, else an entry of the
/// first list is skipped if that is on a shortest path, else one of the second.
fn align(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    if (a.len() + 1).saturating_mul(width) > MOST_CELLS {
        return longest_common(a, b);
    }
    let mut cost = vec![0_u32; (a.len() + 1) * width];
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let at = |i: usize, j: usize| cost[i * width + j];
            cost[i * width + j] = match (i, j) {
                (0, j) => small(j),
                (i, 0) => small(i),
                (i, j) => {
                    let change = u32::from(a[i - 1] != b[j - 1]);
                    let step = at(i - 1, j).min(at(i, j - 1)) + 1;
                    step.min(at(i - 1, j - 1) + change)
                }
            };
        }
    }
    let (mut i, mut j) = (a.len(), b.len());
    let mut pairs = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            pairs.push((i, j));
        } else if cost[i * width + j] == cost[(i - 1) * width + j] + 1 {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    pairs.reverse();
    pairs
}

/// Converts JSON arrays to Python's notation of nested tuples: `[[1, 2], [], ["x"]]` becomes `((1,
/// 2), (), ('x',))`. Other text is returned unchanged.
fn python_tuple(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 8);
    // Number of entries so far of each open bracket.
    let mut entries: Vec<usize> = Vec::new();
    let mut chars = json.chars().peekable();
    let mut fresh = true;
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        if fresh
            && c != ']'
            && let Some(n) = entries.last_mut()
        {
            *n += 1;
        }
        match c {
            '[' => {
                entries.push(0);
                out.push('(');
                fresh = true;
            }
            ']' => {
                out.push_str(if entries.pop() == Some(1) { ",)" } else { ")" });
                fresh = false;
            }
            ',' => {
                out.push_str(", ");
                fresh = true;
            }
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    match c {
                        '\\' => text.extend(chars.next()),
                        c => text.push(c),
                    }
                }
                let quote = if text.contains('\'') { '"' } else { '\'' };
                out.push(quote);
                out.push_str(&text);
                out.push(quote);
                fresh = false;
            }
            c => {
                out.push(c);
                fresh = false;
            }
        }
    }
    if json.trim_start().starts_with('[') {
        return out;
    }
    Cow::Borrowed(json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_as_python_writes_them() {
        for (json, want) in [
            (
                "[[151936, 1024], [], [8944]]",
                "((151936, 1024), (), (8944,))",
            ),
            ("[[[1]],[]]", "(((1,),), ())"),
            (r#"["", "0", "it's"]"#, r#"('', '0', "it's")"#),
            ("[\n  [\n1\n], 2]", "((1,), 2)"),
            ("[]", "()"),
            ("[true]", "(true,)"),
        ] {
            assert_eq!(python_tuple(json), want);
        }
    }

    #[test]
    fn equal_entries_are_joined_from_the_end() {
        assert_eq!(align(&[1, 2, 3], &[1, 3]), [(0, 0), (2, 1)]);
        assert_eq!(align(&[1, 1], &[1]), [(1, 0)]);
        assert_eq!(align(&[1], &[2]), []);
    }
}
