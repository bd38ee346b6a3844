//! Which anchor each event belongs to.

use rustc_hash::{FxHashMap, FxHashSet};

use super::event::{Events, Kind};
use super::tree::{Anchors, NONE, Tree};
use crate::num::row;

/// Anchors and the owners of events, both by place in the list of events.
pub(crate) struct Ownership {
    /// Anchors that are in no call of themselves, in order of time.
    pub(crate) anchors: Vec<u32>,
    /// Place in `anchors`, or none.
    pub(crate) owner: Vec<u32>,
}

pub(crate) fn own(events: &Events<'_>, tree: &mut Tree, anchors: &Anchors) -> Ownership {
    hang_calls(events, tree);
    let is_anchor = |i: usize| {
        let name = events.name(i);
        name == anchors.decode || anchors.prefill.as_deref() == Some(name)
    };
    let mut effective = Vec::new();
    for i in 0..events.list.len() {
        if !is_anchor(i) {
            continue;
        }
        let name = events.list[i].name;
        let nested = tree
            .chain(row(i))
            .skip(1)
            .any(|p| events.list[p as usize].name == name);
        if !nested {
            effective.push(row(i));
        }
    }
    let mut owner = owners(events, tree, &effective);
    transitions(events, tree, &effective, &mut owner);
    first_cycle(events, tree, &effective, &mut owner);
    Ownership {
        anchors: effective,
        owner,
    }
}

/// Calls of other kinds hang under the Python function of their process that started last, if that
/// holds them. Of several runs of one process in the list only the last is looked at.
fn hang_calls(events: &Events<'_>, tree: &mut Tree) {
    let python: Vec<u32> = (0..events.list.len())
        .filter(|&i| events.list[i].kind == Kind::Python && events.list[i].dur > 0.0)
        .map(row)
        .collect();
    let mut runs: FxHashMap<i64, (usize, usize)> = FxHashMap::default();
    let mut start = 0;
    while start < python.len() {
        let pid = events.list[python[start] as usize].pid;
        let mut end = start;
        while end < python.len() && events.list[python[end] as usize].pid == pid {
            end += 1;
        }
        runs.insert(pid, (start, end));
        start = end;
    }
    for (i, event) in events.list.iter().enumerate() {
        if event.kind == Kind::Python || event.kind.is_gpu() {
            continue;
        }
        let Some(&(from, to)) = runs.get(&event.pid) else {
            continue;
        };
        let run = &python[from..to];
        let after = run.partition_point(|&p| events.list[p as usize].ts <= event.ts);
        let Some(&last) = after.checked_sub(1).and_then(|at| run.get(at)) else {
            continue;
        };
        if event.end() <= events.list[last as usize].end() {
            tree.parent[i] = last;
        }
    }
}

fn owners(events: &Events<'_>, tree: &Tree, anchors: &[u32]) -> Vec<u32> {
    let mut place = vec![NONE; events.list.len()];
    for (k, &a) in anchors.iter().enumerate() {
        place[a as usize] = row(k);
    }
    // Parents come before their children in time, but equal times may be in any order.
    let mut owner = vec![NONE; events.list.len()];
    for i in 0..events.list.len() {
        if events.list[i].kind.is_gpu() && place[i] == NONE {
            continue;
        }
        owner[i] = tree
            .chain(row(i))
            .map(|p| place[p as usize])
            .find(|&p| p != NONE)
            .unwrap_or(NONE);
    }
    owner
}

/// What lies wholly between two anchors of a process belongs to the later one.
fn transitions(events: &Events<'_>, tree: &Tree, anchors: &[u32], owner: &mut [u32]) {
    let mut within = vec![0_u32; events.list.len()];
    for &a in anchors {
        for up in tree.chain(a) {
            within[up as usize] += 1;
        }
    }
    let mut by_pid: FxHashMap<i64, Vec<(f64, f64, u32)>> = FxHashMap::default();
    for (k, &a) in anchors.iter().enumerate() {
        let mut node = a;
        while tree.parent[node as usize] != NONE {
            let up = tree.parent[node as usize];
            if within[up as usize] != within[a as usize] {
                break;
            }
            node = up;
        }
        let event = &events.list[node as usize];
        let list = by_pid.entry(event.pid).or_default();
        list.push((event.ts, event.end(), row(k)));
    }
    #[expect(clippy::iter_over_hash_type, reason = "each list is sorted by itself")]
    for list in by_pid.values_mut() {
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    for (i, event) in events.list.iter().enumerate() {
        if owner[i] != NONE || event.kind.is_gpu() {
            continue;
        }
        let Some(list) = by_pid.get(&event.pid) else {
            continue;
        };
        let next = list.partition_point(|b| b.0 < event.end());
        if next > 0
            && let Some(&(_, _, anchor)) = list.get(next)
            && list[next - 1].1 <= event.ts
        {
            owner[i] = anchor;
        }
    }
}

/// The first anchor also owns what comes before it, from the first function on that later anchors
/// own at their depth.
fn first_cycle(events: &Events<'_>, tree: &Tree, anchors: &[u32], owner: &mut [u32]) {
    let Some(&first) = anchors.first() else {
        return;
    };
    let mut taken = vec![0_u8; anchors.len()];
    let mut names = FxHashSet::default();
    for (i, event) in events.list.iter().enumerate() {
        let own = owner[i];
        if own == NONE || own == 0 || event.kind != Kind::Python {
            continue;
        }
        let anchor = anchors[own as usize] as usize;
        if taken[own as usize] < 5
            && event.tid == events.list[anchor].tid
            && tree.depth[i] == tree.depth[anchor]
        {
            taken[own as usize] += 1;
            names.insert(event.name);
        }
    }
    let head = &events.list[first as usize];
    let start = events
        .list
        .iter()
        .filter(|e| {
            e.kind == Kind::Python
                && e.tid == head.tid
                && e.end() <= head.ts
                && names.contains(&e.name)
        })
        .map(|e| e.ts)
        .fold(f64::INFINITY, f64::min);
    for (i, event) in events.list.iter().enumerate() {
        if owner[i] == NONE && !event.kind.is_gpu() && event.ts >= start && event.end() <= head.ts {
            owner[i] = 0;
        }
    }
}
