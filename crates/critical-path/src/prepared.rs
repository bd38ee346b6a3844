//! Selections of a change, computed once before a replay.

use std::collections::BTreeMap;

use trace_model::kernel::NamePattern;

use crate::change::Selector;
use crate::class::Class;
use crate::graph::{Graph, NodeOf};
use crate::names::{NONE, place};
use crate::replay::Window;
use crate::steps::Step;

/// Kernels that fuse with the one ahead of them.
pub(crate) struct Fusion {
    pub(crate) factor: f64,
    /// `true` if an operation fuses with the one ahead, by part and operation.
    pub(crate) joins: Vec<Vec<bool>>,
    /// `true` for each selected operation, by part and operation.
    pub(crate) selected: Vec<Vec<bool>>,
}

/// Returns by part and name whether the selector matches.
pub(crate) fn selected_names(graph: &Graph, selector: &Selector) -> Vec<Vec<bool>> {
    let matches: Box<dyn Fn(&str) -> bool> = match selector {
        Selector::Name(pattern) => Box::new(|name| pattern.matches(name)),
        Selector::Exact(wanted) => Box::new(move |name| name == wanted),
        _ => return Vec::new(),
    };
    let parts = graph.parts.iter();
    parts
        .map(|part| part.names.iter().map(|name| matches(name)).collect())
        .collect()
}

pub(crate) fn fusion(graph: &Graph, name: &NamePattern, factor: f64) -> Fusion {
    let mut out = Fusion {
        factor,
        joins: Vec::new(),
        selected: Vec::new(),
    };
    for part in &graph.parts {
        let names: Vec<bool> = part.names.iter().map(|text| name.matches(text)).collect();
        let ops = &part.ops;
        let selected = |op: usize| {
            matches!(ops.class[op], Class::Kernel(_))
                && names.get(ops.name[op] as usize) == Some(&true)
        };
        let mut joins = vec![false; ops.len()];
        for list in &ops.by_stream {
            for pair in list.windows(2) {
                let (ahead, op) = (pair[0] as usize, pair[1] as usize);
                joins[op] = selected(ahead) && selected(op);
            }
        }
        // A selected kernel without such a neighbour stays as it is.
        let mut all = joins.clone();
        for list in &ops.by_stream {
            for pair in list.windows(2) {
                let (ahead, op) = (pair[0] as usize, pair[1] as usize);
                all[ahead] |= joins[op];
            }
        }
        out.joins.push(joins);
        out.selected.push(all);
    }
    out
}

/// Returns by call whether its thread submits work after it.
pub(crate) fn submits_later(part: &crate::part::Part) -> Vec<bool> {
    let calls = &part.host.calls;
    let mut out = vec![false; calls.len()];
    for thread in &part.host.threads {
        let mut later = false;
        for call in thread.calls.clone().rev() {
            out[call] = later;
            later |= calls.submits(call);
        }
    }
    out
}

/// Returns what makes a rank as fast as the median one, as stretches of its time: the recorded end of each and a factor.
///
/// Between two collectives a rank is late by what it needs longer for its own work than the median rank; so each stretch has a
/// factor of its own. One factor for a step would shorten stretches that were in time as well, which no other rank waits for,
/// and leave a part of the late ones.
pub(crate) fn to_median(graph: &Graph, part: usize, window: Window) -> Vec<(i64, f64)> {
    let all = meetings(graph, window);
    let Some(of_rank) = all.get(part).filter(|list| !list.is_empty()) else {
        return Vec::new();
    };
    // By collective: own time of each rank before it.
    let mut own: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for meeting in all.iter().flatten() {
        own.entry(meeting.joint).or_default().push(meeting.own);
    }
    for list in own.values_mut() {
        list.sort_unstable();
    }
    let factor = |meeting: &Meeting| {
        let list = own.get(&meeting.joint).map_or(&[][..], Vec::as_slice);
        let median = list.get((list.len().max(1) - 1) / 2);
        match median {
            Some(median) if meeting.own > 0 && list.len() > 1 => ratio(*median, meeting.own),
            _ => 1.0,
        }
    };
    let mut out = Vec::with_capacity(2 * of_rank.len());
    for meeting in of_rank {
        out.push((meeting.begin, factor(meeting)));
        out.push((meeting.end, 1.0));
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of times")]
fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

/// A collective on one rank.
struct Meeting {
    /// Node of its joint arrival; [`NONE`] for the end of the window, where all ranks meet.
    joint: u32,
    begin: i64,
    end: i64,
    /// Time since the collectives before it.
    own: i64,
}

/// Returns by part the shared collectives in a window, in order of time.
fn meetings(graph: &Graph, window: Window) -> Vec<Vec<Meeting>> {
    let mut all: Vec<Vec<Meeting>> = (0..graph.parts.len()).map(|_| Vec::new()).collect();
    let first = graph.offsets.get(graph.parts.len()).copied().unwrap_or(0);
    for joint in first..place(graph.time.len()) {
        for edge in graph.edges(joint) {
            let begin = graph.time[edge.from as usize];
            if begin <= window.begin_ns || begin > window.end_ns {
                continue;
            }
            if let (part, NodeOf::Start(op)) = graph.node(edge.from) {
                let end = graph.parts[part].ops.end[op];
                let own = 0;
                all[part].push(Meeting {
                    joint,
                    begin,
                    end,
                    own,
                });
            }
        }
    }
    for (part, list) in all.iter_mut().enumerate() {
        list.sort_by_key(|meeting| (meeting.begin, meeting.joint));
        let steps = graph.steps(part).iter();
        let inside =
            |step: &&Step| step.begin_ns >= window.begin_ns && step.end_ns <= window.end_ns;
        let steps: Vec<&Step> = steps.filter(inside).collect();
        let begin = steps.iter().map(|step| step.begin_ns).min();
        let mut since = begin.unwrap_or(window.begin_ns);
        // Collectives may overlap: each entry ends at or after the one before.
        for meeting in list.iter_mut() {
            meeting.own = (meeting.begin - since).max(0);
            meeting.begin = meeting.begin.max(since);
            meeting.end = meeting.end.max(meeting.begin);
            since = meeting.end;
        }
        let end = steps.iter().map(|step| step.end_ns).max().unwrap_or(since);
        if !list.is_empty() {
            list.push(Meeting {
                joint: NONE,
                begin: i64::MAX,
                end: i64::MAX,
                own: (end - since).max(0),
            });
        }
    }
    all
}
