//! A recording taken apart for a report that people read: what is in it, its layers and operators, and
//! chosen cycles by call depth, kernel, stream and layer.

mod tree;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::interval::IntervalSet;
use trace_model::{Slice, StrId, TimeRange, Timestamp, Trace};

use crate::analysis::{Analysis, Cycle};
use crate::engine::is_layer;
use crate::num::{mean_std, nanos, span};
use crate::timeline::{Kind, Timeline, lane_of};

pub use self::tree::Node;

/// How much of what only passes time on is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folding {
    /// Functions that wrap others of their class, which take more than four fifths of them.
    #[default]
    Wrappers,
    /// Also functions of which one Python function below takes more than nine tenths, and depths of
    /// which the next one does.
    Aggressive,
}

/// Durations of equal things.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Durations {
    /// What they are of.
    pub name: String,
    /// How many.
    pub count: usize,
    /// Their sum, ns.
    pub total_ns: i64,
    /// The shortest, ns.
    pub least_ns: i64,
    /// The longest, ns.
    pub most_ns: i64,
    /// Population standard deviation, ns.
    pub deviation_ns: i64,
}

impl Durations {
    fn new(name: &str, list: &[i64]) -> Self {
        let real: Vec<f64> = list.iter().map(|d| span(*d)).collect();
        Self {
            name: name.to_owned(),
            count: list.len(),
            total_ns: list.iter().sum(),
            least_ns: list.iter().copied().min().unwrap_or(0),
            most_ns: list.iter().copied().max().unwrap_or(0),
            deviation_ns: nanos(mean_std(&real).1),
        }
    }
}

/// One cycle taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CycleAnatomy {
    /// Which cycle, from 0.
    pub cycle: usize,
    /// Functions of the thread that drives the engine, by call depth, longest first. Depths that are
    /// folded away are empty.
    pub by_depth: Vec<Vec<Durations>>,
    /// Python functions of the process, longest first; without those that only wrap others.
    pub python: Vec<Durations>,
    /// Work on devices by name, longest first.
    pub device: Vec<Durations>,
    /// Work on devices by stream.
    pub streams: Vec<Durations>,
    /// When any device of the process worked on this cycle: the measure of the union, ns.
    pub busy_ns: i64,
    /// From the first start of such work to the last end, less that, ns.
    pub idle_ns: i64,
    /// Its layers, each as a tree from Python down to kernels, equal ones put together.
    pub layers: Vec<Node>,
}

/// A call graph: functions with their calls, and who calls whom how often.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CallGraph {
    /// Python functions in order of name.
    pub functions: Vec<Durations>,
    /// Caller and callee by place in `functions`, and how often.
    pub calls: Vec<(usize, usize, usize)>,
}

/// A recording taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Anatomy {
    /// Slices by category.
    pub categories: Vec<(String, usize)>,
    /// Hosts, processes and threads.
    pub places: (usize, usize, usize),
    /// Start and end of everything, ns.
    pub range_ns: (i64, i64),
    /// Calls that are named after layers.
    pub layers: Vec<Durations>,
    /// Operators of the framework, longest first.
    pub operators: Vec<Durations>,
    /// Who calls whom.
    pub graph: CallGraph,
    /// The cycles asked for.
    pub cycles: Vec<CycleAnatomy>,
}

/// Takes `trace` apart, and these of its cycles.
///
/// Cost: a few passes over the slices, and one more for each cycle.
pub fn anatomy(trace: &Trace, analysis: &Analysis, cycles: &[usize], folding: Folding) -> Anatomy {
    let timeline = Timeline::new(trace);
    let mut categories: BTreeMap<&str, usize> = BTreeMap::new();
    let mut layers: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut operators: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for slice in trace.slices() {
        *categories
            .entry(slice.category().unwrap_or(""))
            .or_default() += 1;
        let (kind, name) = (timeline.kind(slice), slice.name().unwrap_or(""));
        let dur = slice.range().duration().get();
        if kind == Kind::Python && is_layer(name) {
            layers.entry(unnumbered(name)).or_default().push(dur);
        } else if kind == Kind::Op {
            operators.entry(name).or_default().push(dur);
        }
    }
    let hosts: std::collections::BTreeSet<_> = timeline
        .members
        .iter()
        .filter_map(|m| m.host.as_ref())
        .collect();
    let range = trace.span();
    let chosen = cycles
        .iter()
        .filter_map(|&i| Some((i, analysis.cycles.get(i)?)));
    Anatomy {
        categories: categories
            .into_iter()
            .map(|(name, n)| (name.to_owned(), n))
            .collect(),
        places: (hosts.len(), timeline.members.len(), timeline.threads),
        range_ns: (range.start.nanos(), range.end.nanos()),
        layers: longest_first(layers),
        operators: longest_first(operators),
        graph: graph(&timeline),
        cycles: chosen
            .map(|(i, c)| one(&timeline, analysis, (i, c), folding))
            .collect(),
    }
}

/// PyTorch numbers the modules that it marks; their class is what they have in common.
fn unnumbered(name: &str) -> &str {
    let number = name
        .strip_prefix("nn.Module: ")
        .and_then(|class| class.rsplit_once('_'))
        .filter(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    number.map_or(name, |(_, n)| &name[..name.len() - n.len() - 1])
}

fn longest_first<K: AsRef<str>>(map: BTreeMap<K, Vec<i64>>) -> Vec<Durations> {
    let mut list: Vec<Durations> = map
        .iter()
        .map(|(name, durs)| Durations::new(name.as_ref(), durs))
        .collect();
    list.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    list
}

fn graph(timeline: &Timeline<'_>) -> CallGraph {
    let mut durations: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut calls: FxHashMap<(StrId, StrId), usize> = FxHashMap::default();
    for slice in timeline.trace.slices() {
        let (Kind::Python, Some(name)) = (timeline.kind(slice), slice.name_id()) else {
            continue;
        };
        let of = durations.entry(timeline.trace.text(name)).or_default();
        of.push(slice.range().duration().get());
        let caller = slice
            .ancestors()
            .find(|a| timeline.kind(*a) == Kind::Python);
        if let Some(caller) = caller.and_then(Slice::name_id) {
            *calls.entry((caller, name)).or_default() += 1;
        }
    }
    let names: Vec<&str> = durations.keys().copied().collect();
    let place = |id: StrId| names.binary_search(&timeline.trace.text(id)).ok();
    let mut edges: Vec<(usize, usize, usize)> = calls
        .iter()
        .filter_map(|(&(from, to), &n)| Some((place(from)?, place(to)?, n)))
        .collect();
    edges.sort_unstable();
    CallGraph {
        functions: durations
            .iter()
            .map(|(name, durs)| Durations::new(name, durs))
            .collect(),
        calls: edges,
    }
}

fn one(
    timeline: &Timeline<'_>,
    analysis: &Analysis,
    (index, cycle): (usize, &Cycle),
    folding: Folding,
) -> CycleAnatomy {
    let trace = timeline.trace;
    let range = TimeRange::new(
        Timestamp::from_nanos(cycle.host_ns.0),
        Timestamp::from_nanos(cycle.host_ns.1),
    );
    let anchor = cycle.anchor.map(|id| trace.slice(id));
    let thread = anchor.map(|a| timeline.thread(a));
    let mut depths: BTreeMap<usize, BTreeMap<&str, Vec<i64>>> = BTreeMap::new();
    let mut python: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut layers: Vec<Slice<'_>> = Vec::new();
    for slice in trace.starting_in(range) {
        let name = slice.name().unwrap_or("");
        let dur = slice.range().duration().get();
        let kind = timeline.kind(slice);
        if kind.is_code() && Some(timeline.thread(slice)) == thread {
            let level = depths.entry(slice.depth()).or_default();
            level.entry(name).or_default().push(dur);
        }
        if kind != Kind::Python || timeline.process(slice) != analysis.reference {
            continue;
        }
        if !crate::engine::is_wrapper(name) {
            python.entry(name).or_default().push(dur);
        }
        let in_layer = || slice.ancestors().any(|a| a.name().is_some_and(is_layer));
        if is_layer(name) && !in_layer() {
            layers.push(slice);
        }
    }
    let mut device: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut streams: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut busy = IntervalSet::new();
    for work in &timeline.work {
        let at = work.launch.map_or(work.ts, |l| l.1);
        if at < cycle.host_ns.0 || at >= cycle.host_ns.1 {
            continue;
        }
        let dur = work.end - work.ts;
        device.entry(trace.text(work.name)).or_default().push(dur);
        let stream = format!(
            "device {} stream {}",
            work.device,
            stream_name(timeline, work.stream)
        );
        streams.entry(stream).or_default().push(dur);
        busy.cover((work.ts, work.end));
    }
    let extent = match (busy.as_slice().first(), busy.as_slice().last()) {
        (Some(first), Some(last)) => last.1 - first.0,
        _ => 0,
    };
    let busy_ns = busy.measure().get();
    // What lasts less than a ten-thousandth of the cycle is left out.
    let visible = |list: Vec<Durations>| -> Vec<Durations> {
        let mut list = list;
        list.retain(|d| d.total_ns.saturating_mul(10_000) >= cycle.length_ns());
        list.truncate(15);
        list
    };
    CycleAnatomy {
        cycle: index,
        by_depth: unfolded(depths.into_values().map(longest_first).collect(), folding)
            .into_iter()
            .map(visible)
            .collect(),
        python: longest_first(python),
        device: longest_first(device),
        streams: longest_first(streams),
        busy_ns,
        idle_ns: extent - busy_ns,
        layers: tree::layers(timeline, &layers, folding),
    }
}

/// The depths, those emptied that only pass their time on to the next one.
fn unfolded(mut depths: Vec<Vec<Durations>>, folding: Folding) -> Vec<Vec<Durations>> {
    if folding == Folding::Aggressive {
        let total = |level: &Vec<Durations>| level.iter().map(|d| d.total_ns).sum::<i64>();
        let totals: Vec<i64> = depths.iter().map(total).collect();
        for (level, pair) in depths.iter_mut().zip(totals.windows(2)) {
            if pair[1].saturating_mul(10) > pair[0].saturating_mul(9) {
                level.clear();
            }
        }
    }
    depths
}

/// The text that stands for a stream's thread, or its number.
fn stream_name(timeline: &Timeline<'_>, thread: u32) -> String {
    let trace = timeline.trace;
    let track = timeline.thread_of_track.iter().position(|t| *t == thread);
    let track = track.and_then(|i| trace.track_ids().nth(i));
    let of = track
        .and_then(|t| trace.track(t).thread)
        .map(|t| trace.thread(t));
    match of {
        Some(t) if t.artificial => t.name.map_or("", |n| trace.text(n)).to_owned(),
        Some(t) => t.tid.0.to_string(),
        None => track
            .and_then(|t| lane_of(trace, t))
            .map_or_else(String::new, |lane| lane.stream.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::unnumbered;

    #[test]
    fn modules_are_named_by_their_class() {
        for (name, want) in [
            ("nn.Module: DecoderLayer_12", "nn.Module: DecoderLayer"),
            ("nn.Module: Linear_", "nn.Module: Linear_"),
            ("nn.Module: My_Layer", "nn.Module: My_Layer"),
            ("run_7", "run_7"),
        ] {
            assert_eq!(unnumbered(name), want);
        }
    }
}
