//! Phases of anchors, cycles of anchors, and what happened in each cycle.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::event::{Events, Kind};
use super::ownership::Ownership;
use super::tree::{Anchors, NONE};
use super::{DivideBy, Options};
use crate::num::{median, quantile};

/// The phase of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Prompts are processed.
    Prefill,
    /// Tokens are generated.
    Decode,
    /// Neither could be told.
    Generic,
}

/// An event of a cycle, perhaps cut to the cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) event: u32,
    pub(crate) ts: f64,
    pub(crate) dur: f64,
}

/// One cycle.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    /// Places in the list of events.
    pub(crate) anchors: Vec<u32>,
    pub(crate) representative: u32,
    pub(crate) phase: Phase,
    pub(crate) delayed: bool,
    /// Start by the definition of the cycle, later that of its Python functions.
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) members: Vec<Member>,
}

pub(crate) fn cycles(
    events: &Events<'_>,
    ownership: &Ownership,
    anchors: &Anchors,
    options: &Options,
) -> Vec<Cycle> {
    let phases = classify(events, ownership, anchors, options);
    let mut cycles = group(events, ownership, &phases, options);
    if options.divide_by == DivideBy::Token {
        cycles = chain(events, cycles, options);
    }
    fill(events, ownership, &mut cycles, options);
    for cycle in &mut cycles {
        let mut bounds: Option<(f64, f64)> = None;
        for m in &cycle.members {
            if events.list[m.event as usize].kind == Kind::Python {
                let (a, b) = bounds.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
                bounds = Some((a.min(m.ts), b.max(m.ts + m.dur)));
            }
        }
        if let Some((start, end)) = bounds {
            (cycle.start, cycle.end) = (start, end);
        }
    }
    cycles.sort_by(|a, b| a.start.total_cmp(&b.start));
    if options.divide_by == DivideBy::Layer {
        for cycle in &mut cycles {
            cycle.phase = Phase::Generic;
        }
    } else {
        settle(&mut cycles);
    }
    cycles
}

/// The phase of each anchor.
fn classify(
    events: &Events<'_>,
    ownership: &Ownership,
    anchors: &Anchors,
    options: &Options,
) -> Vec<Phase> {
    let list = &ownership.anchors;
    if options.divide_by == DivideBy::Layer {
        return vec![Phase::Decode; list.len()];
    }
    if let Some(prefill) = &anchors.prefill {
        return list
            .iter()
            .map(|&a| {
                if events.name(a as usize) == prefill {
                    Phase::Prefill
                } else {
                    Phase::Decode
                }
            })
            .collect();
    }
    let by_name = by_keywords(events, ownership);
    if by_name.iter().any(|&p| p != Phase::Generic) {
        return by_name;
    }
    by_duration(events, list)
}

/// What the name of an event says of the phase.
#[derive(Clone, Copy, Default)]
struct Says {
    extend: bool,
    decode: bool,
    exactly_decode: bool,
}

fn by_keywords(events: &Events<'_>, ownership: &Ownership) -> Vec<Phase> {
    let mut cache: FxHashMap<trace_model::StrId, Says> = FxHashMap::default();
    let n = ownership.anchors.len();
    let (mut extend, mut decode, mut exact) = (vec![false; n], vec![false; n], vec![false; n]);
    let mut encodes = false;
    for (i, event) in events.list.iter().enumerate() {
        let text = events.text(event.name);
        let says = *cache.entry(event.name).or_insert_with(|| {
            encodes |= text == "encode";
            Says {
                extend: text.to_lowercase().contains("forward_extend"),
                decode: has_decode(text),
                exactly_decode: text == "decode",
            }
        });
        let own = ownership.owner[i];
        if own == NONE {
            continue;
        }
        let own = own as usize;
        extend[own] |= says.extend;
        decode[own] |= says.decode && !says.exactly_decode;
        exact[own] |= says.exactly_decode;
    }
    (0..n)
        .map(|k| {
            if extend[k] {
                Phase::Prefill
            } else if decode[k] || (exact[k] && !encodes) {
                Phase::Decode
            } else {
                Phase::Generic
            }
        })
        .collect()
}

/// `decode` or `Decode`, with no small letter behind it.
fn has_decode(text: &str) -> bool {
    ["decode", "Decode"].iter().any(|word| {
        text.match_indices(word)
            .any(|(at, _)| !text[at + word.len()..].starts_with(|c: char| c.is_ascii_lowercase()))
    })
}

fn by_duration(events: &Events<'_>, anchors: &[u32]) -> Vec<Phase> {
    let durs: Vec<f64> = anchors
        .iter()
        .map(|&a| events.list[a as usize].dur)
        .collect();
    let long: Vec<f64> = durs.iter().copied().filter(|&d| d > 1000.0).collect();
    let middle = median(&long);
    let largest = long.iter().copied().fold(0.0, f64::max);
    if long.len() < 3 || middle <= 0.0 || largest / middle <= 3.0 {
        return vec![Phase::Generic; anchors.len()];
    }
    let threshold = quantile(&long, 0.8);
    durs.iter()
        .map(|&d| {
            if d > threshold && d > 3.0 * middle {
                Phase::Prefill
            } else {
                Phase::Decode
            }
        })
        .collect()
}

fn group(
    events: &Events<'_>,
    ownership: &Ownership,
    phases: &[Phase],
    options: &Options,
) -> Vec<Cycle> {
    let of = |wanted: Phase| -> Vec<u32> {
        let both = ownership.anchors.iter().zip(phases);
        both.filter(|&(_, &p)| p == wanted)
            .map(|(&a, _)| a)
            .collect()
    };
    let mut cycles = Vec::new();
    let mut rest = of(Phase::Prefill);
    while let Some(&first) = rest.first() {
        let r = &events.list[first as usize];
        let (low, high) = (r.ts - 0.5 * r.dur, r.ts + 0.5 * r.dur);
        let (near, far): (Vec<u32>, Vec<u32>) = rest.iter().partition(|&&a| {
            let ts = events.list[a as usize].ts;
            a == first || (low <= ts && ts < high)
        });
        rest = far;
        cycles.push(cycle(events, near, Phase::Prefill));
    }
    let decode = of(Phase::Decode);
    if options.align {
        aligned(events, decode, &mut cycles);
    } else {
        let least = decode.iter().map(|&a| events.list[a as usize].pid).min();
        for a in decode {
            if Some(events.list[a as usize].pid) == least {
                cycles.push(cycle(events, vec![a], Phase::Decode));
            }
        }
    }
    for a in of(Phase::Generic) {
        cycles.push(cycle(events, vec![a], Phase::Generic));
    }
    cycles.sort_by(|a, b| a.start.total_cmp(&b.start));
    cycles
}

fn cycle(events: &Events<'_>, anchors: Vec<u32>, phase: Phase) -> Cycle {
    let each = || anchors.iter().map(|&a| &events.list[a as usize]);
    let start = each().map(|e| e.ts).fold(f64::INFINITY, f64::min);
    let end = each().map(super::event::Event::end).fold(start, f64::max);
    let mut representative = anchors.first().copied().unwrap_or(0);
    for &a in &anchors {
        if events.list[a as usize].dur > events.list[representative as usize].dur {
            representative = a;
        }
    }
    Cycle {
        anchors,
        representative,
        phase,
        delayed: false,
        start,
        end,
        members: Vec::new(),
    }
}

/// Anchors of several processes side by side: the process with most sets the pace.
fn aligned(events: &Events<'_>, mut rest: Vec<u32>, cycles: &mut Vec<Cycle>) {
    while !rest.is_empty() {
        let mut counts: Vec<(i64, usize)> = Vec::new();
        for &a in &rest {
            let pid = events.list[a as usize].pid;
            match counts.iter_mut().find(|c| c.0 == pid) {
                Some(c) => c.1 += 1,
                None => counts.push((pid, 1)),
            }
        }
        let most = counts.iter().map(|c| c.1).max().unwrap_or(0);
        let pacer = counts.iter().find(|c| c.1 == most).map_or(-1, |c| c.0);
        let (lead, mut others): (Vec<u32>, Vec<u32>) = rest
            .iter()
            .partition(|&&a| events.list[a as usize].pid == pacer);
        for a in lead {
            let head = &events.list[a as usize];
            let mut members = vec![a];
            for &(pid, _) in counts.iter().filter(|c| c.0 != pacer) {
                let near = others
                    .iter()
                    .copied()
                    .filter(|&o| {
                        let e = &events.list[o as usize];
                        e.pid == pid && (e.ts - head.ts).abs() <= 0.5 * head.dur
                    })
                    .min_by(|&x, &y| {
                        let gap = |i: u32| (events.list[i as usize].ts - head.ts).abs();
                        gap(x).total_cmp(&gap(y))
                    });
                if let Some(o) = near {
                    others.retain(|&x| x != o);
                    members.push(o);
                }
            }
            cycles.push(cycle(events, members, Phase::Decode));
        }
        rest = others;
    }
}

/// Cycles of a chain of decode steps begin where the one before ended.
fn chain(events: &Events<'_>, cycles: Vec<Cycle>, options: &Options) -> Vec<Cycle> {
    let decode = || cycles.iter().filter(|c| c.phase == Phase::Decode);
    let anchors = || decode().flat_map(|c| c.anchors.iter().map(|&a| &events.list[a as usize]));
    let durs: Vec<f64> = anchors().map(|e| e.dur).collect();
    let idle = (5.0 * median(&durs)).max(50_000.0);
    let pids: FxHashSet<i64> = anchors().map(|e| e.pid).collect();
    let mut done: Vec<Cycle> = Vec::with_capacity(cycles.len());
    let mut open: Vec<Cycle> = Vec::new();
    let mut end = f64::NEG_INFINITY;
    let close = |open: &mut Vec<Cycle>, done: &mut Vec<Cycle>| {
        let chain = std::mem::take(open);
        done.extend(if options.align {
            aligned_chain(events, chain, &pids)
        } else {
            token_chain(chain)
        });
    };
    for cycle in cycles {
        let goes_on = cycle.phase == Phase::Decode && cycle.start - end < idle;
        if !goes_on {
            close(&mut open, &mut done);
        }
        if cycle.phase == Phase::Decode {
            end = cycle.end;
            open.push(cycle);
        } else {
            end = f64::NEG_INFINITY;
            done.push(cycle);
        }
    }
    close(&mut open, &mut done);
    done
}

/// Each cycle begins one microsecond after the one before, the first after its own start.
fn token_chain(mut chain: Vec<Cycle>) -> Vec<Cycle> {
    let mut previous: Option<f64> = None;
    for cycle in &mut chain {
        cycle.start = previous.unwrap_or(cycle.start) + 1.0;
        previous = Some(cycle.end);
    }
    chain
}

/// The first cycle holds the first anchor of every process, if each has one, and all that lies within
/// these; each later one lasts from the earliest end of the one before to its own latest end.
fn aligned_chain(events: &Events<'_>, chain: Vec<Cycle>, pids: &FxHashSet<i64>) -> Vec<Cycle> {
    let mut firsts: BTreeMap<i64, u32> = BTreeMap::new();
    for &a in chain.iter().flat_map(|c| &c.anchors) {
        let e = &events.list[a as usize];
        let first = firsts.entry(e.pid).or_insert(a);
        if e.ts < events.list[*first as usize].ts {
            *first = a;
        }
    }
    let all_present = firsts.len() == pids.len();
    let each = || firsts.values().map(|&a| &events.list[a as usize]);
    let start = each().map(|e| e.ts).fold(f64::INFINITY, f64::min);
    let end = each()
        .map(super::event::Event::end)
        .fold(f64::NEG_INFINITY, f64::max);
    let inside = |a: &u32| {
        let e = &events.list[*a as usize];
        all_present && e.ts >= start && e.end() <= end + 0.1 * e.dur
    };
    let mut genesis: Vec<u32> = Vec::new();
    let mut done: Vec<Cycle> = Vec::with_capacity(chain.len());
    for one in chain {
        let (early, rest): (Vec<u32>, Vec<u32>) = one.anchors.iter().partition(|a| inside(a));
        if early.is_empty() {
            done.push(one);
            continue;
        }
        genesis.extend(early);
        if !rest.is_empty() {
            done.push(cycle(events, rest, Phase::Decode));
        }
    }
    if !genesis.is_empty() {
        let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
        for &a in &genesis {
            *counts.entry(events.list[a as usize].pid).or_default() += 1;
        }
        let mut first = cycle(events, genesis, Phase::Decode);
        (first.start, first.end) = (start, end);
        let least = counts.values().min();
        first.delayed = counts.len() < pids.len() || least != counts.values().max();
        done.insert(0, first);
    } else if let Some(first) = done.first_mut() {
        first.delayed = true;
    }
    let mut previous: Option<f64> = None;
    for cycle in &mut done {
        if let Some(end) = previous {
            cycle.start = end.min(cycle.end);
        }
        let ends = cycle.anchors.iter().map(|&a| events.list[a as usize].end());
        previous = Some(ends.fold(f64::INFINITY, f64::min));
    }
    done
}

fn fill(events: &Events<'_>, ownership: &Ownership, cycles: &mut [Cycle], options: &Options) {
    let mut cycle_of = vec![NONE; ownership.anchors.len()];
    let mut place: FxHashMap<u32, usize> = FxHashMap::default();
    for (k, &a) in ownership.anchors.iter().enumerate() {
        place.insert(a, k);
    }
    for (c, cycle) in cycles.iter().enumerate() {
        for a in &cycle.anchors {
            if let Some(&k) = place.get(a) {
                cycle_of[k] = crate::num::row(c);
            }
        }
    }
    // The cycles are in order of start; an event looks at those that start before it ends.
    let mut latest = f64::NEG_INFINITY;
    let reach: Vec<f64> = cycles
        .iter()
        .map(|c| {
            latest = latest.max(c.end);
            latest
        })
        .collect();
    let mut order: Vec<usize> = (0..cycles.len()).collect();
    order.sort_by(|&a, &b| cycles[a].start.total_cmp(&cycles[b].start));
    let mut launched: FxHashMap<(i64, i64), u32> = FxHashMap::default();
    for (i, event) in events.list.iter().enumerate() {
        if event.kind.is_gpu() {
            continue;
        }
        let i = crate::num::row(i);
        let own = ownership.owner[i as usize];
        let cycle = if own == NONE {
            NONE
        } else {
            cycle_of[own as usize]
        };
        if cycle != NONE {
            cycles[cycle as usize].members.push(Member {
                event: i,
                ts: event.ts,
                dur: event.dur,
            });
            if event.kind.launches() && event.correlation != 0 {
                launched.insert((event.pid, event.correlation), cycle);
            }
            continue;
        }
        if options.anchor_only {
            continue;
        }
        let from = reach.partition_point(|&e| e <= event.ts);
        for &c in order.get(from..).unwrap_or_default() {
            let cycle = &mut cycles[c];
            if cycle.start >= event.end() {
                break;
            }
            if cycle.end <= event.ts {
                continue;
            }
            let start = event.ts.max(cycle.start);
            let end = event.end().min(cycle.end);
            let cut = event.ts < cycle.start || event.end() > cycle.end;
            if cut && options.whole_events {
                continue;
            }
            cycle.members.push(Member {
                event: i,
                ts: if cut { start } else { event.ts },
                dur: if cut { end - start } else { event.dur },
            });
            if !cut && event.kind.launches() && event.correlation != 0 {
                launched.insert((event.pid, event.correlation), crate::num::row(c));
            }
        }
    }
    for (i, event) in events.list.iter().enumerate() {
        if !event.kind.is_gpu() {
            continue;
        }
        if let Some(&c) = launched.get(&(event.pid, event.correlation)) {
            cycles[c as usize].members.push(Member {
                event: crate::num::row(i),
                ts: event.ts,
                dur: event.dur,
            });
        }
    }
}

/// Cycles without a phase take that of their neighbours.
fn settle(cycles: &mut [Cycle]) {
    for i in 0..cycles.len() {
        if cycles[i].phase != Phase::Generic {
            continue;
        }
        let length = |c: &Cycle| c.end - c.start;
        let typed = |c: Option<&Cycle>| {
            c.filter(|c| c.phase != Phase::Generic)
                .map(|c| (c.phase, length(c)))
        };
        let before = typed(i.checked_sub(1).and_then(|at| cycles.get(at)));
        let after = typed(cycles.get(i + 1));
        let own = length(&cycles[i]);
        cycles[i].phase = match (before, after) {
            (Some(b), Some(a)) if b.0 == a.0 => b.0,
            (Some(b), Some(a)) => {
                if (b.1 - own).abs() <= (a.1 - own).abs() {
                    b.0
                } else {
                    a.0
                }
            }
            (Some(one), None) | (None, Some(one)) => one.0,
            (None, None) => Phase::Generic,
        };
    }
}
