//! Finds the rank that holds up the others, and what it needs longer for.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::calls::CallKind;
use crate::class::Class;
use crate::graph::Graph;
use crate::names::place;
use crate::points::Role;
use crate::replay::Window;
use crate::rows::{Prediction, Straggler};
use crate::steps::Step;

/// Minimum gain of a window with a rank as fast as the median one from which the rank is named, in percent.
const NOTABLE: f64 = 5.0;

/// Returns the rank that the others wait for longest in their collectives; `None` if it does not cause most of the waits: ranks
/// that are late in turn hold each other up.
pub(crate) fn candidate(graph: &Graph, window: Window) -> Option<u32> {
    let mut caused: BTreeMap<u32, i64> = BTreeMap::new();
    let first = graph.offsets.get(graph.parts.len()).copied()?;
    for joint in first..place(graph.time.len()) {
        let arrival = graph.time[joint as usize];
        if arrival <= window.begin_ns || arrival > window.end_ns {
            continue;
        }
        let begins = || {
            graph.edges(joint).filter_map(|edge| {
                let part = graph.part_of(edge.from)?;
                Some((graph.time[edge.from as usize], graph.parts[part].rank))
            })
        };
        let last = begins().max_by_key(|(at, rank)| (*at, std::cmp::Reverse(*rank)));
        let waited: i64 = begins().map(|(at, _)| arrival - at).sum();
        if let Some((_, rank)) = last {
            *caused.entry(rank).or_default() += waited;
        }
    }
    let all: i64 = caused.values().sum();
    let most = caused
        .into_iter()
        .filter(|(_, ns)| ns.saturating_mul(2) > all);
    let most = most.max_by_key(|(rank, ns)| (*ns, std::cmp::Reverse(*rank)));
    most.map(|(rank, _)| rank)
}

/// Returns the rank as one that holds up the others, unless the prediction for it gains little.
pub(crate) fn straggler(
    graph: &Graph,
    rank: u32,
    prediction: &Prediction,
    window: Window,
) -> Option<Straggler> {
    if prediction.gain_pct < NOTABLE {
        return None;
    }
    let at = graph.parts.iter().position(|part| part.rank == rank)?;
    let common = common_window(graph, window);
    let all: Vec<BTreeMap<(Class, &str), i64>> = (0..graph.parts.len())
        .map(|at| own_times(graph, at, common.unwrap_or(window)))
        .collect();
    let longer = all.get(at)?.iter().map(|(key, ns)| {
        let mut each: Vec<i64> = all
            .iter()
            .map(|own| own.get(key).copied().unwrap_or(0))
            .collect();
        each.sort_unstable();
        let median = each.get((each.len().max(1) - 1) / 2).copied().unwrap_or(0);
        (ns - median, *key)
    });
    let most = longer.max_by_key(|(ns, key)| (*ns, std::cmp::Reverse(*key)));
    let (longer_ns, (class, name)) = most?;
    Some(Straggler {
        rank,
        gain_ns: prediction.gain_ns,
        gain_pct: prediction.gain_pct,
        class,
        name: name.to_owned(),
        longer_ns: longer_ns.max(0),
        common_steps: common.map(|common| inside(graph.steps(at), common).count()),
    })
}

/// Returns the part of a window in which all ranks have steps, if some rank lacks steps and there is such a part: sums over
/// different steps do not compare.
pub(crate) fn common_window(graph: &Graph, window: Window) -> Option<Window> {
    let counts: Vec<usize> = (0..graph.parts.len())
        .map(|at| inside(graph.steps(at), window).count())
        .collect();
    if counts.windows(2).all(|pair| pair[0] == pair[1]) {
        return None;
    }
    let edge = |of: fn(&Step) -> i64, last: bool| {
        let each = (0..graph.parts.len()).filter_map(move |at| {
            let mut steps = inside(graph.steps(at), window);
            match last {
                true => steps.last().map(of),
                false => steps.next().map(of),
            }
        });
        each.collect::<Vec<i64>>()
    };
    let begin_ns = edge(|step| step.begin_ns, false).into_iter().max()?;
    let end_ns = edge(|step| step.end_ns, true).into_iter().min()?;
    (begin_ns < end_ns).then_some(Window { begin_ns, end_ns })
}

/// Returns the steps whose middle lies in a window.
fn inside(steps: &[Step], window: Window) -> impl Iterator<Item = &Step> {
    steps.iter().filter(move |step| is_inside(step, window))
}

/// Returns `true` if the middle of a step lies in a window.
pub(crate) fn is_inside(step: &Step, window: Window) -> bool {
    let middle = step.begin_ns + step.duration_ns() / 2;
    window.begin_ns <= middle && middle <= window.end_ns
}

/// Returns the time of GPU activities, host code and calls of a rank in a window, by name; without waits and collectives.
fn own_times(graph: &Graph, at: usize, window: Window) -> BTreeMap<(Class, &str), i64> {
    let part = &graph.parts[at];
    let mut by_name: FxHashMap<(Class, u32), i64> = FxHashMap::default();
    let mut add = |class: Class, name: u32, from: i64, to: i64| {
        let ns = to.min(window.end_ns) - from.max(window.begin_ns);
        if ns > 0 {
            *by_name.entry((class, name)).or_default() += ns;
        }
    };
    let ops = &part.ops;
    for op in (0..ops.len()).filter(|op| !ops.is_comm(*op)) {
        add(ops.class[op], ops.name[op], ops.start[op], ops.end[op]);
    }
    let calls = &part.host.calls;
    for call in 0..calls.len() {
        let waits = calls.waited(call) || matches!(calls.kind[call], CallKind::Sync(_));
        if calls.is_node(call) && !waits {
            let class = calls.class(call);
            add(class, calls.name[call], calls.begin[call], calls.end[call]);
        }
    }
    let points = &part.points;
    for point in 0..points.len() {
        let is_host = matches!(
            points.role[point],
            Role::CallBegin | Role::WaitBegin | Role::Plain
        );
        let mut end = points.time[point];
        for piece in points.pieces_of(point).rev() {
            let begin = points.pieces.start[piece];
            if is_host {
                add(
                    points.pieces.class[piece],
                    points.pieces.name[piece],
                    begin,
                    end,
                );
            }
            end = begin;
        }
    }
    let mut out = BTreeMap::new();
    #[expect(
        clippy::iter_over_hash_type,
        reason = "sums do not depend on the order"
    )]
    for ((class, name), ns) in by_name {
        *out.entry((class, part.text(name))).or_default() += ns;
    }
    out
}
