//! Steps: assigns time, calls and GPU work to them.

use serde::Serialize;

use crate::calls::Calls;
use crate::class::Class;
use crate::names::{NONE, place};
use crate::ops::Ops;
use crate::part::Part;

/// Minimum wait of the first work of the main stream on an idle stream from which unrecorded work
/// is assumed ahead of it, in nanoseconds.
const UNRECORDED_NS: i64 = 1_000_000;

/// A step as seen by the host: a mark of the engine, or a cycle that the caller found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Begin, in nanoseconds of the trace's clock.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
}

/// A peculiarity of the begin or end of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flag {
    /// Earlier work was still running when the step began on the host: the step begins when that
    /// work ends.
    Queued,
    /// Its first work was submitted before the recording: the step begins with that work.
    Clipped,
    /// It ended before its predecessor, and takes no time.
    Hidden,
    /// It has no GPU work: it ends with its last call.
    Host,
    /// The recording ends before its last work: launches of it have none.
    Cut,
    /// Its GPU work was not recorded, though that of other steps was: it ends with the last recorded event.
    Lost,
}

impl Flag {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Clipped => "clipped",
            Self::Hidden => "hidden",
            Self::Host => "host",
            Self::Cut => "cut",
            Self::Lost => "lost",
        }
    }
}

/// The time of one step of one rank; instants are nanoseconds of the clock of the first rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Its number among the steps of the rank, from 1.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// From the begin of its mark to the begin of the next one.
    pub host_ns: (i64, i64),
    /// From the first start to the last end of its GPU work.
    pub device_ns: Option<(i64, i64)>,
    /// Begin: the end of the step before.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Peculiarities of its begin or end.
    pub flags: Vec<Flag>,
    /// The node that ends it.
    pub(crate) node: u32,
}

impl Step {
    /// Returns the step time.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// The host intervals of the steps of a part, with the step of each operation and call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assigned {
    /// Begin and end of each interval.
    pub(crate) host: Vec<(i64, i64)>,
    pub(crate) names: Vec<String>,
    /// Step of each operation.
    pub(crate) of_op: Vec<u32>,
    pub(crate) whole: bool,
    /// Number of launches without recorded work, by step; 0 where none is expected or the cause cannot be told.
    pub(crate) lost: Vec<u64>,
}

/// A step counts as lost if at least one in this many of its launches has no work.
const LOST_SHARE: u64 = 10;

impl Assigned {
    /// Returns the step whose host interval contains an instant.
    pub(crate) fn at(&self, instant: i64) -> u32 {
        let behind = self.host.partition_point(|host| host.0 <= instant);
        match behind.checked_sub(1) {
            Some(step) if instant < self.host[step].1 => place(step),
            _ => NONE,
        }
    }

    /// Assigns calls and work to the steps that `marks` begin; without marks all belong to one
    /// step.
    pub(crate) fn new(ops: &Ops, calls: &Calls, marks: &[Mark]) -> Self {
        let mut out = Self {
            of_op: vec![NONE; ops.len()],
            ..Self::default()
        };
        if marks.is_empty() {
            out.whole = true;
            let first = calls.begin.iter().chain(&ops.start).min();
            let last = calls.end.iter().chain(&ops.end).max();
            if let (Some(first), Some(last)) = (first, last) {
                out.host.push((*first, last.saturating_add(1)));
                out.names.push("whole".to_owned());
                out.of_op.fill(0);
            }
            return out;
        }
        for (i, mark) in marks.iter().enumerate() {
            let next = marks.get(i + 1).map(|next| next.begin_ns);
            let end = next.unwrap_or(mark.end_ns).max(mark.begin_ns);
            out.host.push((mark.begin_ns, end));
            out.names.push(mark.name.clone());
        }
        let has_links = ops.call.iter().any(|call| *call != NONE);
        for op in 0..ops.len() {
            let call = ops.call[op];
            if call != NONE {
                if !calls.is_of_other(call as usize) {
                    out.of_op[op] = out.at(calls.begin[call as usize]);
                }
            } else if !has_links {
                // Where no work has a call, its own time is all that tells its step.
                out.of_op[op] = out.at(ops.start[op]);
            }
        }
        // Unlinked work between two operations of one step on a stream belongs to that step.
        for list in &ops.by_stream {
            let mut since: Option<(usize, u32)> = None;
            for (at, &op) in list.iter().enumerate() {
                if ops.call[op as usize] == NONE {
                    continue;
                }
                let step = out.of_op[op as usize];
                if let Some((from, before)) = since
                    && before == step
                {
                    for &between in &list[from + 1..at] {
                        out.of_op[between as usize] = step;
                    }
                }
                since = Some((at, step));
            }
        }
        out
    }

    /// Counts the launches whose work is missing. Those of a graph that is captured have none, and where as many activities have
    /// no launch, links are lost and not work. `text` is the name of a call.
    pub(crate) fn find_lost<'n>(
        &mut self,
        ops: &Ops,
        calls: &Calls,
        text: impl Fn(u32) -> &'n str,
    ) {
        let mut captures = vec![false; self.host.len()];
        // By step: launches with work and without.
        let mut counts = vec![(0_u64, 0_u64); self.host.len()];
        for call in (0..calls.len()).filter(|call| !calls.is_of_other(*call)) {
            let step = self.at(calls.begin[call]) as usize;
            let (Some(count), Some(captures)) = (counts.get_mut(step), captures.get_mut(step))
            else {
                continue;
            };
            let name = text(calls.name[call]);
            *captures |= name.contains("BeginCapture");
            match calls.submits(call) {
                true => count.0 += 1,
                // A copy of nothing, or of host memory, is no work of the device.
                false => count.1 += u64::from(calls.launches(call) && !is_copy(name)),
            }
        }
        let sum = |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).sum::<u64>();
        let unlinked = ops.call.iter().filter(|call| **call == NONE).count() as u64;
        let (with, without) = (sum(|count| count.0), sum(|count| count.1));
        // Where nothing is linked, links may be what lacks: then far more launches than activities tell.
        let is_told = match with {
            0 => ops.len() > 0 && unlinked.saturating_mul(2) <= without,
            _ => unlinked < without,
        };
        let lost = counts
            .iter()
            .zip(captures)
            .map(|((with, without), is_capture)| {
                let is_much = match with {
                    0 => *without > 0,
                    _ => *without >= 2 && without * LOST_SHARE >= with + without,
                };
                match is_told && is_much && !is_capture {
                    true => *without,
                    false => 0,
                }
            });
        self.lost = lost.collect();
    }

    /// Returns the calls that waited for work that is not recorded, ascending.
    pub(crate) fn unseen_waits<'n>(
        &self,
        ops: &Ops,
        calls: &Calls,
        text: impl Fn(u32) -> &'n str,
    ) -> Vec<u32> {
        let has_none = ops.len() == 0;
        let copies = |name: u32| is_copy(text(name));
        let lost = self.lost.iter().zip(&self.host);
        let lost = lost.filter(|(lost, _)| has_none || **lost > 0);
        let waits = lost.flat_map(|(_, host)| calls.waits_without_work(*host, &copies));
        let mut waits: Vec<u32> = waits.map(place).collect();
        waits.sort_unstable();
        waits
    }

    /// Returns the last call of each step.
    pub(crate) fn last_calls(&self, calls: &Calls) -> Vec<u32> {
        let mut last = vec![NONE; self.host.len()];
        for call in (0..calls.len()).filter(|call| !calls.is_of_other(*call)) {
            let step = self.at(calls.begin[call]) as usize;
            if let Some(slot) = last.get_mut(step)
                && (*slot == NONE || calls.end[call] >= calls.end[*slot as usize])
            {
                *slot = place(call);
            }
        }
        last
    }

    /// Returns the last calls of steps without GPU work, which end with them.
    pub(crate) fn ending_calls(&self, calls: &Calls) -> Vec<u32> {
        let mut works = vec![false; self.host.len()];
        for step in &self.of_op {
            if let Some(works) = works.get_mut(*step as usize) {
                *works = true;
            }
        }
        let last = self.last_calls(calls).into_iter().zip(works);
        last.filter(|(call, works)| *call != NONE && !works)
            .map(|(call, _)| call)
            .collect()
    }
}

/// Returns `true` for the name of a call that copies or fills memory.
fn is_copy(name: &str) -> bool {
    name.contains("Memcpy") || name.contains("Memset")
}

/// Returns the steps of a part; `offset` is the number of its first node.
pub(crate) fn steps(part: &Part, assigned: &Assigned, offset: u32) -> Vec<Step> {
    let count = assigned.host.len();
    let ops = &part.ops;
    // By step: device interval, last work on the main stream, last work anywhere, last call.
    let mut device: Vec<Option<(i64, i64)>> = vec![None; count];
    let mut last_main = vec![NONE; count];
    let mut last_any = vec![NONE; count];
    let last_call = assigned.last_calls(&part.host.calls);
    let later = |slot: &mut u32, op: usize| {
        if *slot == NONE || ops.end[op] >= ops.end[*slot as usize] {
            *slot = place(op);
        }
    };
    for op in 0..ops.len() {
        let step = assigned.of_op[op] as usize;
        if step >= count {
            continue;
        }
        let (start, end) = (ops.start[op], ops.end[op]);
        device[step] = Some(match device[step] {
            Some((from, to)) => (from.min(start), to.max(end)),
            None => (start, end),
        });
        later(&mut last_any[step], op);
        if ops.stream[op] == ops.main {
            later(&mut last_main[step], op);
        }
    }
    let calls = &part.host.calls;
    let mut out: Vec<Step> = Vec::with_capacity(count);
    for step in 0..count {
        let host = assigned.host[step];
        let work = [last_main[step], last_any[step]];
        let mut flags = Vec::new();
        let (mut end, node) = match work.into_iter().find(|op| *op != NONE) {
            Some(op) => (ops.end[op as usize], offset + part.end_node(op)),
            None if last_call[step] != NONE => {
                flags.push(Flag::Host);
                let call = last_call[step];
                let node = part.call_end_node(call).map_or(NONE, |node| offset + node);
                (calls.end[call as usize], node)
            }
            None => continue,
        };
        let before = out.last().map(|before| before.end_ns);
        let begin = match before {
            Some(before) => before,
            None if assigned.whole => host.0,
            None => {
                let (begin, flag) = first_begin(part, assigned, step);
                flags.extend(flag);
                begin.min(end)
            }
        };
        if assigned.lost.get(step).is_some_and(|lost| *lost > 0) {
            flags.push(Flag::Lost);
        }
        if before.is_some_and(|before| end <= before) {
            flags.push(Flag::Hidden);
            end = begin;
        }
        out.push(Step {
            number: place(out.len() + 1),
            name: assigned.names[step].clone(),
            host_ns: host,
            device_ns: device[step],
            begin_ns: begin,
            end_ns: end,
            flags,
            node,
        });
    }
    if let Some(last) = out.last_mut()
        && !last.flags.contains(&Flag::Host)
        && calls.end_without_work(last.host_ns) >= LEAST_CUT
    {
        last.flags.retain(|flag| *flag != Flag::Lost);
        last.flags.push(Flag::Cut);
    }
    out
}

/// Fewer launches than this without work at the end of a recording do not show that it ends before the work does.
const LEAST_CUT: usize = 2;

/// Returns when the first step begins: with its mark, after earlier work, or with its first work.
fn first_begin(part: &Part, assigned: &Assigned, step: usize) -> (i64, Option<Flag>) {
    let ops = &part.ops;
    let mark = assigned.host[step].0;
    let own = |op: u32| assigned.of_op[op as usize] as usize == step;
    let list = match ops.by_stream.get(ops.main as usize) {
        Some(list) if list.iter().any(|&op| own(op)) => list.as_slice(),
        _ => {
            let other = ops
                .by_stream
                .iter()
                .find(|list| list.iter().any(|&op| own(op)));
            other.map_or(&[][..], Vec::as_slice)
        }
    };
    let Some(at) = list.iter().position(|&op| own(op)) else {
        return (mark, None);
    };
    let first = list[at] as usize;
    if ops.call[first] == NONE && ops.start[first] > mark {
        return (ops.start[first], Some(Flag::Clipped));
    }
    let earlier = list[..at].iter().map(|&op| ops.end[op as usize]).max();
    if let Some(earlier) = earlier.filter(|earlier| *earlier > mark) {
        return (earlier.min(ops.start[first]), Some(Flag::Queued));
    }
    // No recorded work was ahead of it, yet it waited: for work submitted before the recording.
    let waited = part
        .issue(first)
        .map_or(0, |issue| ops.start[first] - issue);
    let is_idle = waited >= UNRECORDED_NS && ops.class[first] != Class::Comm;
    match is_idle {
        true => (ops.start[first], Some(Flag::Queued)),
        false => (mark, None),
    }
}
