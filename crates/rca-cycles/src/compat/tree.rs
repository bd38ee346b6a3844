//! The call tree of Python functions and the functions that may be anchors.

use rustc_hash::FxHashMap;
use trace_model::StrId;

use super::event::{Events, Kind};
use crate::num::{mean_std, real};

/// No event.
pub(crate) const NONE: u32 = u32::MAX;

/// Functions that wait or wrap, and cut nothing.
const BLACKLIST: [&str; 4] = [
    "_call_impl",
    "Event.wait",
    "Condition.wait",
    "Scheduler.recv_requests",
];

/// Parents and depths of events, by place in the list.
pub(crate) struct Tree {
    pub(crate) parent: Vec<u32>,
    /// -1 if unknown.
    pub(crate) depth: Vec<i32>,
    pub(crate) functions: Vec<Function>,
}

/// What is known of one function of the tree, in order of first sight.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: StrId,
    /// Durations of the calls at depth 0.
    pub(crate) top: Vec<f64>,
    pub(crate) depth_sum: f64,
    pub(crate) depth_min: i32,
    pub(crate) calls: usize,
    pub(crate) total: f64,
}

/// A function that may be an anchor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Name of the function.
    pub name: String,
    /// Calls at depth 0.
    pub count: usize,
    /// Their durations together, µs.
    pub total_us: f64,
    /// Their mean duration, µs.
    pub average_us: f64,
    /// Population standard deviation over mean.
    pub instability: f64,
    /// Mean depth over all calls.
    pub average_depth: f64,
    /// Smallest depth over all calls.
    pub min_depth: i32,
}

impl Tree {
    pub(crate) fn new(events: &Events<'_>) -> Self {
        let n = events.list.len();
        let mut tree = Self {
            parent: vec![NONE; n],
            depth: vec![-1; n],
            functions: Vec::new(),
        };
        let mut groups: FxHashMap<u32, usize> = FxHashMap::default();
        let mut threads: Vec<Vec<u32>> = Vec::new();
        for (i, event) in events.list.iter().enumerate() {
            if event.kind == Kind::Python && event.dur > 0.0 {
                let at = *groups.entry(event.tid).or_insert_with(|| {
                    threads.push(Vec::new());
                    threads.len() - 1
                });
                threads[at].push(crate::num::row(i));
            }
        }
        let mut places: FxHashMap<StrId, usize> = FxHashMap::default();
        for thread in threads.iter().filter(|t| t.len() > 1) {
            tree.nest(events, thread, &mut places);
        }
        tree
    }

    fn nest(&mut self, events: &Events<'_>, thread: &[u32], places: &mut FxHashMap<StrId, usize>) {
        let mut stack: Vec<u32> = Vec::new();
        for &i in thread {
            let event = &events.list[i as usize];
            while let Some(&top) = stack.last() {
                if event.ts < events.list[top as usize].end() {
                    break;
                }
                stack.pop();
            }
            let depth = i32::try_from(stack.len()).unwrap_or(i32::MAX);
            self.depth[i as usize] = depth;
            self.parent[i as usize] = stack.last().copied().unwrap_or(NONE);
            let at = *places.entry(event.name).or_insert_with(|| {
                self.functions.push(Function {
                    name: event.name,
                    top: Vec::new(),
                    depth_sum: 0.0,
                    depth_min: i32::MAX,
                    calls: 0,
                    total: 0.0,
                });
                self.functions.len() - 1
            });
            let recursive = stack
                .iter()
                .any(|&s| events.list[s as usize].name == event.name);
            if !recursive {
                let function = &mut self.functions[at];
                function.calls += 1;
                function.total += event.dur;
                function.depth_sum += f64::from(depth);
                function.depth_min = function.depth_min.min(depth);
                if depth == 0 {
                    function.top.push(event.dur);
                }
            }
            stack.push(i);
        }
    }

    /// The functions that may be anchors, best first.
    pub(crate) fn candidates(&self, events: &Events<'_>) -> Vec<Candidate> {
        let found = self.functions.iter().filter_map(|f| {
            let name = events.text(f.name);
            if f.top.len() <= 2 || BLACKLIST.contains(&name) {
                return None;
            }
            let (average, std) = mean_std(&f.top);
            Some(Candidate {
                name: name.to_owned(),
                count: f.top.len(),
                total_us: f.top.iter().sum(),
                average_us: average,
                instability: if average > 0.0 { std / average } else { 0.0 },
                average_depth: f.depth_sum / real(f.calls.max(1)),
                min_depth: f.depth_min,
            })
        });
        ordered(found.collect())
    }

    /// Events on the way up, the given one first.
    pub(crate) fn chain(&self, from: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(from), |&i| {
            let parent = self.parent[i as usize];
            (parent != NONE).then_some(parent)
        })
    }
}

/// Does `a` come before `b`? Totals within a tenth count as equal, which is no order: the result
/// depends on how one sorts, so this sorts as the reference does (a run, then binary insertion).
fn before(a: &Candidate, b: &Candidate) -> bool {
    let (small, large) = (a.total_us.min(b.total_us), a.total_us.max(b.total_us));
    if large > 0.0 && small / large >= 0.90 {
        a.average_us > b.average_us
    } else {
        a.total_us > b.total_us
    }
}

fn ordered(mut list: Vec<Candidate>) -> Vec<Candidate> {
    if list.len() < 2 {
        return list;
    }
    let mut run = 2;
    if before(&list[1], &list[0]) {
        while run < list.len() && before(&list[run], &list[run - 1]) {
            run += 1;
        }
        list[..run].reverse();
    } else {
        while run < list.len() && !before(&list[run], &list[run - 1]) {
            run += 1;
        }
    }
    for i in run..list.len() {
        let (mut low, mut high) = (0, i);
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(&list[i], &list[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        list[low..=i].rotate_right(1);
    }
    list
}

/// The anchors of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Anchors {
    pub(crate) decode: String,
    pub(crate) prefill: Option<String>,
}

/// The function of rare and long calls beside the main anchor.
pub(crate) fn prefill_anchor(
    tree: &Tree,
    events: &Events<'_>,
    candidates: &[Candidate],
    main: &Candidate,
) -> Option<String> {
    let mut best: Option<(&str, f64)> = None;
    for f in &tree.functions {
        let name = events.text(f.name);
        if f.top.is_empty() || name == main.name || BLACKLIST.contains(&name) {
            continue;
        }
        let average = candidates
            .iter()
            .find(|c| c.name == name)
            .map_or(0.0, |c| c.average_us);
        let total: f64 = f.top.iter().sum();
        if real(f.top.len()) <= 0.1 * real(main.count)
            && average > 3.0 * main.average_us
            && best.is_none_or(|(_, t)| total > t)
        {
            best = Some((name, total));
        }
    }
    best.map(|(name, _)| name.to_owned())
}

/// The anchor of layer mode: the outermost, longest, steadiest function that is called a layer.
pub(crate) fn layer_anchor(candidates: &[Candidate]) -> Option<&Candidate> {
    let layers: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.name.to_lowercase().contains("layer"))
        .collect();
    let least = layers.iter().map(|c| c.min_depth).min()?;
    layers
        .into_iter()
        .filter(|c| c.min_depth == least)
        .min_by(|a, b| {
            a.average_depth
                .total_cmp(&b.average_depth)
                .then(b.average_us.total_cmp(&a.average_us))
                .then(a.instability.total_cmp(&b.instability))
                .then(b.total_us.total_cmp(&a.total_us))
        })
}
