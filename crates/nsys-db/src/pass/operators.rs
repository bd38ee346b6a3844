//! Which operators are around the calls that launched GPU activities, as far as they can matter.
//!
//! Operators that can matter are few, and so are the operators and calls within them: only these are kept. What is around a call
//! is then found as [`trace_model::TraceBuilder`] nests slices of a thread. Where ranges cross, it would move some to tracks of
//! their own, and nothing is said here.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::Value;

use crate::ids::ProcessKey;
use crate::links::CallStarts;
use crate::operator::Operator;
use crate::pass::Deciding;
use crate::strings::lossy;

/// Maximum number of operators and calls that are kept: 50 bytes each.
const MAX_KEPT: usize = 1 << 20;

/// Start and end of a range.
type Times = (i64, i64);

/// Which operators are looked for.
pub(crate) struct Wanted<'d> {
    /// Says of a name whether it can matter; `None` if all do.
    decides: Option<Deciding<'d>>,
    process: Option<ProcessKey>,
    kept: AtomicUsize,
}

/// Operators that can matter, of a part of the ranges.
#[derive(Default)]
pub(crate) struct Found {
    /// What is known of names.
    names: FxHashMap<String, bool>,
    /// Labels of ranges that are strings by id.
    pub(super) label_ids: FxHashSet<i64>,
    ranges: Vec<(i64, Times)>,
    /// They cannot all be kept.
    pub(super) is_too_much: bool,
}

impl<'d> Wanted<'d> {
    pub(super) fn new(decides: Option<Deciding<'d>>, process: Option<ProcessKey>) -> Self {
        Self {
            decides,
            process,
            kept: AtomicUsize::new(0),
        }
    }

    /// Looks at a range of a thread that is in no domain.
    pub(crate) fn look(
        &self,
        found: &mut Found,
        thread: i64,
        (label, label_id): (Value<'_>, Value<'_>),
        times: impl FnOnce() -> Option<Times>,
    ) {
        if self
            .process
            .is_some_and(|wanted| wanted != ProcessKey::of(thread))
        {
            return;
        }
        let Some(label) = lossy(label) else {
            found.label_ids.extend(label_id.as_int());
            return;
        };
        let Some(name) = Operator::name_in(&label) else {
            return;
        };
        let can_matter = match found.names.get(name) {
            Some(known) => *known,
            None => {
                let can_matter = self.decides.is_none_or(|decides| decides(name));
                found.names.insert(name.to_owned(), can_matter);
                can_matter
            }
        };
        if can_matter
            && Operator::parse(&label).is_some()
            && let Some(times) = times()
        {
            match self.may_keep() && self.decides.is_some() {
                true => found.ranges.push((thread, times)),
                false => found.is_too_much = true,
            }
        }
    }

    /// Returns `true` if one more operator or call may be kept.
    pub(super) fn may_keep(&self) -> bool {
        self.kept.fetch_add(1, Ordering::Relaxed) < MAX_KEPT
    }
}

impl Found {
    pub(crate) fn absorb(&mut self, later: Self) {
        self.label_ids.extend(later.label_ids);
        self.ranges.extend(later.ranges);
        self.is_too_much |= later.is_too_much;
    }
}

/// The time that operators that can matter cover on each thread, as ranges one after the other.
#[derive(Default)]
pub(super) struct Covered(FxHashMap<i64, Vec<Times>>);

/// Where a range or call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// Beside or around covered time.
    Outside,
    /// Within covered time.
    Inside,
    /// Neither: it crosses an operator that can matter.
    Across,
}

impl Covered {
    /// Returns `None` if the operators cross.
    pub(super) fn new(found: Found) -> Option<Self> {
        let mut ranges = found.ranges;
        ranges.sort_unstable_by_key(|(thread, (start, end))| (*thread, *start, Reverse(*end)));
        let mut covered: FxHashMap<i64, Vec<Times>> = FxHashMap::default();
        for (thread, (start, end)) in ranges {
            let own = covered.entry(thread).or_default();
            // Whether an instant is within another depends on more than times.
            if start == end {
                return None;
            }
            match own.last() {
                Some((_, last)) if start < *last && end > *last => return None,
                Some((_, last)) if start < *last => {}
                _ => own.push((start, end)),
            }
        }
        Some(Self(covered))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn place(&self, thread: i64, (start, end): Times) -> Where {
        let Some(own) = self.0.get(&thread) else {
            return Where::Outside;
        };
        let first = own.partition_point(|(_, last)| *last <= start);
        let Some((from, to)) = own.get(first) else {
            return Where::Outside;
        };
        if *from <= start && end <= *to {
            return Where::Inside;
        }
        if end <= *from {
            return Where::Outside;
        }
        // All that begin before its end must lie within it.
        let behind = own.partition_point(|(from, _)| *from < end);
        let last = behind.checked_sub(1).and_then(|at| own.get(at));
        match last {
            Some((_, last)) if *from < start || *last > end => Where::Across,
            _ => Where::Outside,
        }
    }
}

/// An operator within another one that can matter, or that one.
pub(super) struct Inner {
    pub(super) thread: i64,
    pub(super) times: Times,
    pub(super) row: i64,
    /// Number of its name.
    pub(super) name: u32,
}

/// A call within an operator that can matter.
pub(super) struct InnerCall {
    pub(super) thread: i64,
    pub(super) times: Times,
    pub(super) row: i64,
    pub(super) correlation: i64,
    pub(super) launches_graph: bool,
}

/// Lists of operators around calls.
#[derive(Default)]
pub(super) struct Around {
    /// Names, innermost first.
    lists: Vec<Vec<String>>,
    of_call: FxHashMap<(ProcessKey, i64), u32>,
}

/// What the sweep over a thread passes.
enum Item<'i> {
    Operator(&'i Inner),
    Call(&'i InnerCall),
}

impl Item<'_> {
    /// Slices nest in this order: by start, long ones first, and ranges are added to a trace before calls.
    fn key(&self) -> (i64, i64, Reverse<i64>, bool, i64) {
        let (thread, (start, end), is_call, row) = match self {
            Self::Operator(one) => (one.thread, one.times, false, one.row),
            Self::Call(one) => (one.thread, one.times, true, one.row),
        };
        (thread, start, Reverse(end), is_call, row)
    }
}

impl Around {
    /// Finds the operators around the calls that launched activities; `None` if anything crosses. Cost: a sort of all.
    pub(super) fn new(
        operators: &[Inner],
        names: &[String],
        calls: &[InnerCall],
        starts: &CallStarts,
    ) -> Option<Self> {
        let mut items: Vec<Item<'_>> = operators.iter().map(Item::Operator).collect();
        items.extend(calls.iter().map(Item::Call));
        items.sort_unstable_by_key(Item::key);
        let mut tree = Tree::default();
        let mut around = Self::default();
        let mut lists: FxHashMap<u32, u32> = FxHashMap::default();
        let mut stack: Vec<(Times, Option<u32>)> = Vec::new();
        let mut thread = None;
        for item in items {
            let (on, start, Reverse(end), ..) = item.key();
            if thread != Some(on) {
                thread = Some(on);
                stack.clear();
            }
            let is_over =
                |(from, to): Times| to < start || (to == start && (from < to || start < end));
            while stack.last().is_some_and(|(times, _)| is_over(*times)) {
                stack.pop();
            }
            let (outer, node) = match stack.last() {
                Some(((_, to), node)) => (*to, *node),
                None => (end, None),
            };
            if end > outer {
                return None;
            }
            let node = match &item {
                Item::Operator(one) => Some(tree.node(node, one.name)),
                Item::Call(_) => node,
            };
            stack.push(((start, end), node));
            let Item::Call(call) = item else { continue };
            let key = (ProcessKey::of(call.thread), call.correlation);
            // What a graph runs was recorded elsewhere.
            if call.launches_graph || starts.of(key.0, key.1) != Some(start) {
                continue;
            }
            let Some(node) = node else { continue };
            let list = *lists.entry(node).or_insert_with(|| {
                around.lists.push(tree.names_from(node, names));
                u32::try_from(around.lists.len() - 1).unwrap_or(u32::MAX)
            });
            around.of_call.insert(key, list);
        }
        Some(around)
    }

    /// Returns the number of the list of operators around the call that launched the activities of an id.
    pub(super) fn of(&self, process: ProcessKey, id: i64) -> Option<u32> {
        if self.of_call.is_empty() {
            return None;
        }
        self.of_call.get(&(process, id)).copied()
    }

    /// Returns a list by its number.
    pub(super) fn list(&self, number: u32) -> &[String] {
        self.lists.get(number as usize).map_or(&[], Vec::as_slice)
    }
}

/// Names of operators within others: equal ways from the outermost one have equal numbers.
#[derive(Default)]
struct Tree {
    numbers: FxHashMap<(Option<u32>, u32), u32>,
    nodes: Vec<(Option<u32>, u32)>,
}

impl Tree {
    fn node(&mut self, parent: Option<u32>, name: u32) -> u32 {
        let nodes = &mut self.nodes;
        *self.numbers.entry((parent, name)).or_insert_with(|| {
            nodes.push((parent, name));
            u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Returns the names from a node to the outermost one.
    fn names_from(&self, node: u32, names: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        let mut next = Some(node);
        while let Some((parent, name)) = next.and_then(|node| self.nodes.get(node as usize)) {
            found.extend(names.get(*name as usize).cloned());
            next = *parent;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_range_is_among_covered_time() {
        let ranges = [(10, 20), (12, 15), (20, 30), (50, 60)];
        let found = |ranges: &[Times]| Found {
            ranges: ranges.iter().map(|times| (7, *times)).collect(),
            ..Found::default()
        };
        let covered = Covered::new(found(&ranges)).unwrap();
        for (times, want) in [
            ((10, 20), Where::Inside),
            ((12, 15), Where::Inside),
            ((20, 20), Where::Inside),
            ((30, 30), Where::Outside),
            ((0, 10), Where::Outside),
            ((0, 12), Where::Across),
            ((15, 25), Where::Across),
            ((10, 30), Where::Outside),
            ((5, 60), Where::Outside),
            ((5, 55), Where::Across),
            ((30, 50), Where::Outside),
            ((55, 70), Where::Across),
            ((60, 70), Where::Outside),
        ] {
            assert_eq!(covered.place(7, times), want, "{times:?}");
            assert_eq!(covered.place(8, times), Where::Outside);
        }
        assert!(Covered::new(found(&[(0, 5), (4, 6)])).is_none());
    }
}
