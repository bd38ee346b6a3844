//! Host threads and their runtime API calls.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{Slice, SliceId, StrId, ThreadId, TrackKind};

use crate::class::Class;
use crate::names::{NONE, Names, Waits, is_event_record, is_wait_event, place};
use crate::ops::Ops;
use crate::steps::Mark;
use crate::waits::LONG_WAIT_NS;

/// Minimum length of a quiet stretch, in nanoseconds: a stretch of a thread in which no slice
/// begins or ends.
pub(crate) const QUIET_NS: i64 = 100_000;

/// Maximum time from the begin of a call that waits for its own work to the issue of that work, in
/// nanoseconds.
const ISSUE_NS: i64 = 2_000;

/// Part of the GPU time without a call from which links count as lost: one in so many.
const LOST: i64 = 5;

/// Launches without work to those with work from which links count as lost: one to so many.
const LOST_CALLS: usize = 10;

/// Kind of a runtime API call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallKind {
    /// Launches a kernel, a memcpy or a memset on the device.
    Launch,
    /// Launches a graph.
    Graph,
    /// Copies memory between host and device.
    HostCopy,
    /// Waits on the host.
    Sync(Waits),
    /// Records an event.
    Record,
    /// Makes a stream wait.
    WaitEvent,
    /// Any other runtime API call.
    Api,
}

/// The outermost runtime API calls of all host threads, ordered by thread, then by begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) begin: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) name: Vec<u32>,
    pub(crate) thread: Vec<u32>,
    pub(crate) kind: Vec<CallKind>,
    /// Start of the earliest GPU activity that the call submitted, clamped into the call; the end
    /// of the call if it submitted none.
    pub(crate) issue: Vec<i64>,
    /// The earliest GPU activity that the call submitted.
    pub(crate) first_op: Vec<u32>,
    /// Time until which the call waited for GPU work; its begin if it did not wait.
    pub(crate) waited_until: Vec<i64>,
    /// Calls that copied memory to the device all the time and returned with the last part on its way, ascending.
    staged: Vec<u32>,
    /// Calls that waited for work that is not recorded, ascending.
    pub(crate) unseen: Vec<u32>,
    /// Calls that are nodes although they neither submit nor wait, ascending: steps without work
    /// end with them.
    pub(crate) ending: Vec<u32>,
    /// By thread: `true` if it is of another engine than the one that the marks are of; empty if none is.
    pub(crate) of_others: Vec<bool>,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.begin.len()
    }

    pub(crate) fn submits(&self, call: usize) -> bool {
        self.first_op[call] != NONE
    }

    /// Returns `true` if the call is a node of the graph rather than part of the host time around
    /// it.
    pub(crate) fn is_node(&self, call: usize) -> bool {
        self.submits(call)
            || matches!(self.kind[call], CallKind::Sync(_))
            || self.ending.binary_search(&place(call)).is_ok()
    }

    /// Returns `true` if another engine of the recording, with steps of its own, made the call.
    pub(crate) fn is_of_other(&self, call: usize) -> bool {
        let thread = self.thread[call] as usize;
        self.of_others.get(thread) == Some(&true)
    }

    /// Returns `true` if the call launches work on the device.
    pub(crate) fn launches(&self, call: usize) -> bool {
        matches!(self.kind[call], CallKind::Launch | CallKind::Graph)
    }

    /// Returns the number of launches in an interval that come behind all launches with work.
    pub(crate) fn end_without_work(&self, (begin, end): (i64, i64)) -> usize {
        let own = (0..self.len()).filter(|call| {
            let at = self.begin[*call];
            begin <= at && at < end && !self.is_of_other(*call)
        });
        let with = own.clone().filter(|call| self.submits(*call));
        let Some(last) = with.map(|call| self.begin[call]).max() else {
            return 0;
        };
        own.filter(|call| self.launches(*call) && self.begin[*call] > last)
            .count()
    }

    /// Returns synchronisations and copies in an interval that took long enough to be a wait, but have no recorded work.
    pub(crate) fn waits_without_work<'c>(
        &'c self,
        (begin, end): (i64, i64),
        copies: &'c dyn Fn(u32) -> bool,
    ) -> impl Iterator<Item = usize> + 'c {
        (0..self.len()).filter(move |call| {
            let at = self.begin[*call];
            let waits = matches!(self.kind[*call], CallKind::Sync(_)) || copies(self.name[*call]);
            (begin <= at && at < end)
                && waits
                && self.end[*call] - at >= LONG_WAIT_NS
                && !self.submits(*call)
                && !self.waited(*call)
        })
    }

    pub(crate) fn waited(&self, call: usize) -> bool {
        self.waited_until[call] > self.begin[call]
    }

    /// Returns the class that the time of the call counts as.
    pub(crate) fn class(&self, call: usize) -> Class {
        match self.kind[call] {
            CallKind::Sync(_) if self.waited(call) => Class::Sync,
            _ if self.unseen.binary_search(&place(call)).is_ok() => Class::Sync,
            _ if self.staged.binary_search(&place(call)).is_ok() => Class::MemcpyH2d,
            _ if self.submits(call) => Class::LaunchCall,
            _ => Class::Api,
        }
    }

    fn push(&mut self, slice: Slice<'_>, kind: CallKind, name: u32, thread: u32) {
        let (begin, end) = (slice.ts().nanos(), slice.end().nanos());
        self.begin.push(begin);
        self.end.push(end.max(begin));
        self.name.push(name);
        self.thread.push(thread);
        self.kind.push(kind);
        self.issue.push(end.max(begin));
        self.first_op.push(NONE);
        self.waited_until.push(begin);
    }
}

/// A stretch of a thread in which no slice begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quiet {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// Name of the innermost function around the stretch.
    pub(crate) name: u32,
}

/// One host thread.
#[derive(Clone, Debug)]
pub(crate) struct HostThread {
    pub(crate) id: ThreadId,
    pub(crate) process: Option<trace_model::ProcessId>,
    /// Calls of the thread, as a range of [`Calls`].
    pub(crate) calls: std::ops::Range<usize>,
    /// Begin of the first slice and end of the last one.
    pub(crate) span: (i64, i64),
    pub(crate) quiet: Vec<Quiet>,
}

/// Host threads with runtime API calls, and the call that each slice belongs to.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) threads: Vec<HostThread>,
    pub(crate) calls: Calls,
    /// Slices of calls, outer and inner ones, each with the index of the outer call; ascending.
    of_slice: Vec<(SliceId, u32)>,
}

impl Host {
    /// Returns the call that a slice is or lies in.
    pub(crate) fn call_of(&self, slice: SliceId) -> Option<u32> {
        let at = self.of_slice.binary_search_by_key(&slice, |entry| entry.0);
        Some(self.of_slice.get(at.ok()?)?.1)
    }

    /// Sets apart the processes that submit work and mark steps of their own beside the engine that `marks` are of; returns
    /// their number.
    pub(crate) fn set_apart(&mut self, index: &TraceIndex<'_>, marks: &[Mark]) -> u32 {
        let first = self.threads.first().map(|thread| thread.process);
        let is_one = self
            .threads
            .iter()
            .all(|thread| Some(thread.process) == first);
        if is_one || marks.is_empty() {
            return 0;
        }
        let engines = gpu_time::step_marks_by_process(index);
        // Marks of two engines may begin at the same time.
        let common = |steps: &[gpu_time::Step]| {
            let begins: FxHashSet<i64> =
                steps.iter().map(|step| step.range.start.nanos()).collect();
            marks
                .iter()
                .filter(|mark| begins.contains(&mark.begin_ns))
                .count()
        };
        let each = engines.iter().enumerate();
        let own = each
            .map(|(at, engine)| (common(&engine.1), std::cmp::Reverse(at)))
            .max();
        let Some((1.., std::cmp::Reverse(own))) = own else {
            return 0;
        };
        let calls = &self.calls;
        let submits = |process| {
            let mut threads = self
                .threads
                .iter()
                .filter(|thread| thread.process == process);
            threads.any(|thread| thread.calls.clone().any(|call| calls.submits(call)))
        };
        let others = engines
            .iter()
            .enumerate()
            .filter(|(at, engine)| *at != own && submits(engine.0));
        let others: Vec<_> = others.map(|(_, engine)| engine.0).collect();
        if !others.is_empty() {
            let each = self.threads.iter();
            self.calls.of_others = each
                .map(|thread| others.contains(&thread.process))
                .collect();
        }
        place(others.len())
    }

    /// Reads the threads of a trace that make runtime API calls.
    pub(crate) fn read(index: &TraceIndex<'_>, names: &mut Names<'_>) -> Self {
        let mut host = Self::default();
        for (id, process) in threads_with_calls(index) {
            host.read_thread(index, names, id, process);
        }
        host.of_slice.sort_unstable();
        host
    }

    fn read_thread(
        &mut self,
        index: &TraceIndex<'_>,
        names: &mut Names<'_>,
        id: ThreadId,
        process: Option<trace_model::ProcessId>,
    ) {
        let trace = index.trace();
        let thread = place(self.threads.len());
        let from = self.calls.len();
        let mut call_end = i64::MIN;
        let mut quiet = Vec::new();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let mut open: Vec<(i64, bool, Option<StrId>)> = Vec::new();
        // `edge` is the latest begin or end of a slice; slices within calls do not count.
        let mut edge = i64::MIN;
        let mut found = |edge: &mut i64, at: i64, in_call: bool, name: Option<StrId>| {
            if *edge != i64::MIN && !in_call && at.saturating_sub(*edge) >= QUIET_NS {
                quiet.push((*edge, at, name));
            }
            *edge = at.max(*edge);
        };
        let slices = slices_of(index, id);
        for slice in slices.iter().map(|slice| trace.slice(*slice)) {
            let activity = index.activity(slice);
            if activity.is_device_work()
                || matches!(activity, Activity::GpuAnnotation | Activity::GpuSync)
            {
                continue;
            }
            let (begin, end) = (slice.ts().nanos(), slice.end().nanos());
            first = first.min(begin);
            last = last.max(end);
            if is_call(activity) && begin < call_end {
                let outer = place(self.calls.len().saturating_sub(1));
                self.of_slice.push((slice.id(), outer));
                continue;
            }
            if begin < call_end {
                continue;
            }
            while let Some((ended, was_call, name)) = open.last().copied().filter(|o| o.0 <= begin)
            {
                found(&mut edge, ended, was_call, name);
                open.pop();
            }
            let around = open.last().and_then(|o| o.2);
            found(&mut edge, begin, false, around);
            if activity == Activity::UserAnnotation {
                // Its code enters and leaves it, but the function stays the one around it.
                open.push((end, false, around));
                continue;
            }
            if is_call(activity) {
                let name = slice.name().unwrap_or("");
                let kind = kind_of(activity, name);
                let name = names.place(slice.name_id());
                self.of_slice.push((slice.id(), place(self.calls.len())));
                self.calls.push(slice, kind, name, thread);
                call_end = end;
            }
            open.push((end, is_call(activity), slice.name_id()));
        }
        while let Some((ended, was_call, name)) = open.pop() {
            found(&mut edge, ended, was_call, name);
        }
        let quiet = quiet.into_iter().map(|(begin, end, name)| Quiet {
            begin,
            end,
            name: names.place(name),
        });
        self.threads.push(HostThread {
            id,
            process,
            calls: from..self.calls.len(),
            span: (first, last),
            quiet: quiet.collect(),
        });
    }

    /// Returns `true` if so many links between calls and GPU activities are lost that those that are left mislead: much of the GPU
    /// time has no call, while calls amid others have no work. Calls at the end are those whose work was not recorded any more,
    /// and activities without any call may be of another process.
    pub(crate) fn has_lost_links(&self, ops: &Ops, submitted_by: &[Option<SliceId>]) -> bool {
        let (mut all, mut without) = (0_i64, 0_i64);
        let mut submits = vec![false; self.calls.len()];
        for (op, slice) in submitted_by.iter().enumerate() {
            let ns = ops.end[op] - ops.start[op];
            all += ns;
            match slice.and_then(|slice| self.call_of(slice)) {
                Some(call) => submits[call as usize] = true,
                None => without += ns,
            }
        }
        let calls = &self.calls;
        let with = (0..calls.len()).filter(|call| submits[*call]);
        let Some(last) = with.clone().map(|call| calls.begin[call]).max() else {
            return false;
        };
        let empty = (0..calls.len())
            .filter(|call| calls.launches(*call) && !submits[*call] && calls.begin[*call] < last);
        without.saturating_mul(LOST) >= all
            && empty.count().saturating_mul(LOST_CALLS) >= with.count()
    }

    /// Links GPU activities to the calls that submitted them.
    pub(crate) fn link(
        &mut self,
        ops: &mut Ops,
        submitted_by: &[Option<SliceId>],
        is_async: impl Fn(u32) -> bool,
        is_pageable: impl Fn(u32) -> bool,
    ) {
        let calls = &mut self.calls;
        let mut own_end: FxHashMap<u32, i64> = FxHashMap::default();
        for (op, slice) in submitted_by.iter().enumerate() {
            let Some(slice) = slice else { continue };
            let at = self.of_slice.binary_search_by_key(slice, |entry| entry.0);
            let Some((_, call)) = at.ok().and_then(|at| self.of_slice.get(at)) else {
                continue;
            };
            let c = *call as usize;
            ops.call[op] = *call;
            let begin = ops.start[op].clamp(calls.begin[c], calls.end[c]);
            match calls.first_op[c] {
                NONE => {
                    calls.first_op[c] = place(op);
                    calls.issue[c] = begin;
                }
                first if ops.start[op] < ops.start[first as usize] => {
                    calls.first_op[c] = place(op);
                    calls.issue[c] = begin;
                }
                _ => {}
            }
            if matches!(ops.class[op], Class::MemcpyD2h | Class::MemcpyH2d) {
                calls.kind[c] = CallKind::HostCopy;
            }
            // A memcpy to the host blocks its call, and so does any other unless the name of the
            // call marks it asynchronous. Pageable memory is copied by the call, whatever its name.
            let is_copy = ops.class[op] == Class::MemcpyD2h
                || (ops.class[op].is_copy()
                    && (!is_async(calls.name[c]) || is_pageable(ops.name[op])));
            if is_copy {
                let end = own_end.entry(*call).or_insert(i64::MIN);
                *end = (*end).max(ops.end[op]);
            }
        }
        // A memcpy that ended within its call was waited for.
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each entry changes its own call alone"
        )]
        for (call, end) in own_end {
            let c = call as usize;
            if end > calls.end[c] {
                let first = calls.first_op[c] as usize;
                let copied = calls.end[c].saturating_sub(ops.start[first]);
                if ops.class[first] == Class::MemcpyH2d
                    && copied.saturating_mul(2) > calls.end[c] - calls.begin[c]
                {
                    calls.staged.push(call);
                }
            }
            if end > calls.begin[c] && end <= calls.end[c] {
                calls.waited_until[c] = end;
                // Behind other work on its stream, it was issued long before it started.
                let first = calls.first_op[c] as usize;
                let ahead = ops.ahead[first];
                if ahead == NONE || ops.end[ahead as usize] <= calls.begin[c] {
                    continue;
                }
                let soon = calls.begin[c].saturating_add(ISSUE_NS).min(calls.end[c]);
                calls.issue[c] = calls.issue[c].min(soon);
            }
        }
        calls.staged.sort_unstable();
    }
}

fn is_call(activity: Activity) -> bool {
    activity.is_api() || activity == Activity::CollectiveApi
}

fn kind_of(activity: Activity, name: &str) -> CallKind {
    match activity {
        Activity::Launch | Activity::MemcpyApi | Activity::MemsetApi => CallKind::Launch,
        Activity::GraphLaunch => CallKind::Graph,
        Activity::SyncApi => match Waits::of_name(name) {
            Some(waits) => CallKind::Sync(waits),
            None => CallKind::WaitEvent,
        },
        _ if is_event_record(name) => CallKind::Record,
        _ if is_wait_event(name) => CallKind::WaitEvent,
        _ => CallKind::Api,
    }
}

/// Returns the threads that make runtime API calls, in order of their first call.
fn threads_with_calls(index: &TraceIndex<'_>) -> Vec<(ThreadId, Option<trace_model::ProcessId>)> {
    let trace = index.trace();
    let mut known = vec![false; trace.threads().len()];
    let mut out = Vec::new();
    for call in index.activities().calls() {
        let Some(thread) = trace.slice(*call).track().thread else {
            continue;
        };
        if let Some(flag) = known.get_mut(thread.index())
            && !*flag
        {
            *flag = true;
            out.push((thread, trace.thread(thread).process));
        }
    }
    out
}

/// Returns the slices of a thread in ascending time, including those moved to other tracks because
/// they overlap.
pub(crate) fn slices_of<'t>(index: &TraceIndex<'t>, thread: ThreadId) -> Cow<'t, [SliceId]> {
    let trace = index.trace();
    let mut tracks = trace.track_ids().filter(|id| {
        let track = trace.track(*id);
        track.thread == Some(thread)
            && matches!(track.kind, TrackKind::Thread | TrackKind::ThreadOverflow)
    });
    let first = tracks.next().map_or(&[][..], |id| trace.slices_on(id));
    let mut all = Cow::Borrowed(first);
    for track in tracks {
        all.to_mut().extend_from_slice(trace.slices_on(track));
    }
    if let Cow::Owned(all) = &mut all {
        // The slices of each track ascend: the stable sort merges such runs, the other one would start over.
        all.sort();
    }
    all
}
