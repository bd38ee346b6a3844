//! Nodes and dependencies of one recording, kept without the trace.

use trace_model::kernel::TraceIndex;

use crate::calls::{CallKind, Host};
use crate::class::{EdgeKind, Evidence, Lag};
use crate::clocks::Clocks;
use crate::guess::{Guesses, timing};
use crate::lags::{FEW, LagTime, Lags};
use crate::names::{NONE, Names, place};
use crate::ops::Ops;
use crate::points::{Points, Role};
use crate::steps::{Assigned, Mark, Step, steps};
use crate::waits::{At, ThreadOps, Tie, Waiting};

/// Maximum distance between launches of one run, in nanoseconds.
const RUN_NS: i64 = 1_000_000;

/// Options of [`Part::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PartOptions {
    /// `true` to infer dependencies from documented rules or from timing. Default is `true`.
    pub guesses: bool,
}

impl Default for PartOptions {
    fn default() -> Self {
        Self { guesses: true }
    }
}

/// Operations, calls, host time and dependencies of the trace of one rank. The trace itself may be
/// dropped.
#[derive(Debug)]
pub struct Part {
    pub(crate) rank: u32,
    pub(crate) names: Vec<String>,
    pub(crate) ops: Ops,
    pub(crate) host: Host,
    pub(crate) points: Points,
    pub(crate) lags: Lags,
    pub(crate) ties: Vec<Tie>,
    pub(crate) contradicted: u64,
    /// Number of other processes that mark steps of their own and submit work.
    pub(crate) other_engines: u32,
    /// It captures a graph and replays none: its launches ran on no GPU.
    pub(crate) is_capture: bool,
    pub(crate) assigned: Assigned,
    /// Begin node of each call.
    call_node: Vec<u32>,
    /// Run of launches of each call.
    pub(crate) run: Vec<u32>,
    /// `true` for each node of a thread to which host time between launches of one run leads.
    pub(crate) dispatch: Vec<bool>,
    /// First call of each run.
    pub(crate) run_first: Vec<u32>,
}

impl Part {
    /// Reads the recording of one rank. Each of `marks` begins a step; without marks the whole
    /// recording is one step.
    ///
    /// Cost: two passes over the slices of the threads that make runtime API calls, one over the
    /// GPU activities; memory is about 60 bytes for each activity and call, and 13 for each piece
    /// of host time.
    pub fn new(index: &TraceIndex<'_>, rank: u32, marks: &[Mark], options: PartOptions) -> Self {
        Self::with_clocks(index, rank, marks, (options, &Clocks::default()))
    }

    fn with_clocks(
        index: &TraceIndex<'_>,
        rank: u32,
        marks: &[Mark],
        (options, ahead): (PartOptions, &Clocks),
    ) -> Self {
        let mut names = Names::new(index.trace());
        let (ops, mut host, other_engines) = read(index, &mut names, marks, ahead);
        let thread_ops = ThreadOps::new(&host, &ops);
        let mut waiting = Waiting::new(index, &host, &ops);
        waiting.synchronisations(&mut host.calls, &thread_ops);
        if ahead.is_empty() {
            let ahead = Clocks::ahead(&waiting, &ops, &host);
            if !ahead.is_empty() {
                return Self::with_clocks(index, rank, marks, (options, &ahead));
            }
        }
        waiting.events(&host, &thread_ops);
        if options.guesses {
            waiting.full_queues(&mut host.calls);
        }
        let Waiting {
            mut ties,
            mut contradicted,
            has_wait_records,
            ..
        } = waiting;
        if !options.guesses {
            ties.retain(|tie| tie.evidence == Evidence::Sure);
        }
        let mut lags = Lags::default();
        let mut ends = ops.end.clone();
        ends.sort_unstable();
        let launch = launch_lag(&ops, &host, &ends);
        lags.0[Lag::Launch as usize] = launch;
        for lag in [Lag::Stream, Lag::Graph, Lag::Copy, Lag::AfterCopy] {
            lags.0[lag as usize] = stream_lag(&ops, &host, lag, &ends, launch);
        }
        drop(ends);
        let mut guesses = Guesses::default();
        if options.guesses {
            let explained = guesses.handoffs(&host, &thread_ops);
            guesses.spins(&host, &ops, &thread_ops, &explained);
            guesses.virtual_launches(&host, &ops, &lags);
        }
        let mut assigned = Assigned::new(&ops, &host.calls, marks);
        let text = |name| names.text(name);
        assigned.find_lost(&ops, &host.calls, text);
        host.calls.unseen = assigned.unseen_waits(&ops, &host.calls, text);
        host.calls.ending = assigned.ending_calls(&host.calls);
        host.calls.ending.sort_unstable();
        let points = Points::read(index, &mut names, &host, &guesses.extras);
        ties.extend(guesses.ties);
        let mut part = Self {
            rank,
            names: Vec::new(),
            ops,
            host,
            points,
            lags,
            ties,
            contradicted: 0,
            other_engines,
            is_capture: index.launch_calls().is_capture,
            assigned,
            call_node: Vec::new(),
            run: Vec::new(),
            dispatch: Vec::new(),
            run_first: Vec::new(),
        };
        part.find_nodes();
        part.sample_ties();
        // A recording of all waits has no others.
        if options.guesses && !has_wait_records {
            let explained = part.explained_by_events();
            let more = timing(&part.ops, |op| {
                part.is_unexplained(op) && explained.binary_search(&place(op)).is_err()
            });
            part.ties.extend(more);
        }
        contradicted += part.drop_contradicted();
        part.contradicted = contradicted;
        part.find_runs();
        names.own("");
        part.names = names.into_texts();
        part
    }

    /// Returns the steps of a recording, on its own clock, as a [`Graph`](crate::Graph) of it alone has them, without building
    /// one: times of steps need no dependencies.
    ///
    /// Cost: one pass over the slices of the threads that make runtime API calls, one over the GPU activities.
    pub fn steps_of(index: &TraceIndex<'_>, marks: &[Mark]) -> Vec<Step> {
        let mut names = Names::new(index.trace());
        let (mut ops, mut host, other_engines) = read(index, &mut names, marks, &Clocks::default());
        let mut waiting = Waiting::new(index, &host, &ops);
        let thread_ops = ThreadOps::new(&host, &ops);
        waiting.synchronisations(&mut host.calls, &thread_ops);
        let ahead = Clocks::ahead(&waiting, &ops, &host);
        if !ahead.is_empty() {
            (ops, host, _) = read(index, &mut names, marks, &ahead);
        }
        let mut assigned = Assigned::new(&ops, &host.calls, marks);
        assigned.find_lost(&ops, &host.calls, |name| names.text(name));
        let part = Self {
            rank: 0,
            names: Vec::new(),
            ops,
            host,
            points: Points::default(),
            lags: Lags::default(),
            ties: Vec::new(),
            contradicted: 0,
            other_engines,
            is_capture: index.launch_calls().is_capture,
            assigned,
            call_node: Vec::new(),
            run: Vec::new(),
            dispatch: Vec::new(),
            run_first: Vec::new(),
        };
        steps(&part, &part.assigned, 0)
    }

    /// Returns the rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Sets the rank, for callers that know it only after all recordings are read.
    pub fn set_rank(&mut self, rank: u32) {
        self.rank = rank;
    }

    fn find_nodes(&mut self) {
        self.call_node = vec![NONE; self.host.calls.len()];
        for point in 0..self.points.len() {
            if self.points.role[point] == Role::CallBegin {
                self.call_node[self.points.call[point] as usize] = place(point);
            }
        }
    }

    /// Returns the number of nodes: two for each activity, then those of threads.
    pub(crate) fn nodes(&self) -> usize {
        2 * self.ops.len() + self.points.len()
    }

    pub(crate) fn end_node(&self, op: u32) -> u32 {
        2 * op + 1
    }

    pub(crate) fn point_node(&self, point: u32) -> u32 {
        place(2 * self.ops.len()) + point
    }

    /// Returns the end node of a call.
    pub(crate) fn call_end_node(&self, call: u32) -> Option<u32> {
        let begin = *self.call_node.get(call as usize)?;
        let behind = 1 + u32::from(self.host.calls.submits(call as usize));
        (begin != NONE).then(|| self.point_node(begin + behind))
    }

    fn issue_node(&self, call: u32) -> Option<u32> {
        let begin = *self.call_node.get(call as usize)?;
        (begin != NONE && self.host.calls.submits(call as usize))
            .then(|| self.point_node(begin + 1))
    }

    /// Returns the node of an end of a dependency.
    pub(crate) fn node(&self, at: At) -> Option<u32> {
        match at {
            At::Start(op) => Some(2 * op),
            At::End(op) => Some(2 * op + 1),
            At::Issue(call) => self.issue_node(call),
            At::CallEnd(call) => self.call_end_node(call),
            At::Extra(extra) => {
                let point = *self.points.extras.get(extra as usize)?;
                (point != NONE).then(|| self.point_node(point))
            }
        }
    }

    /// Returns the time of a node.
    pub(crate) fn time(&self, node: u32) -> i64 {
        let node = node as usize;
        let ops = self.ops.len();
        match node < 2 * ops {
            true if node.is_multiple_of(2) => self.ops.start[node / 2],
            true => self.ops.end[node / 2],
            false => self.points.time[node - 2 * ops],
        }
    }

    /// Returns when an operation was issued.
    pub(crate) fn issue(&self, op: usize) -> Option<i64> {
        let call = self.ops.call[op];
        (call != NONE).then(|| self.host.calls.issue[call as usize])
    }

    /// Returns `true` for the first operation of a call on its stream.
    pub(crate) fn is_launched(&self, op: usize) -> bool {
        launched(&self.ops, op)
    }

    fn sample_ties(&mut self) {
        for lag in [Lag::Event, Lag::Sync, Lag::Spin, Lag::QueueFull] {
            // Of several dependencies to one node the latest counts.
            let mut latest: rustc_hash::FxHashMap<u32, i64> = rustc_hash::FxHashMap::default();
            for tie in self.ties.iter().filter(|tie| tie.kind.lag() == Some(lag)) {
                let (Some(from), Some(to)) = (self.node(tie.from), self.node(tie.to)) else {
                    continue;
                };
                let took = self.time(to) - self.time(from);
                let began = match tie.to {
                    At::CallEnd(call) => self.host.calls.begin[call as usize],
                    At::Start(op) => {
                        let issue = self.issue(op as usize).unwrap_or(i64::MIN);
                        let ahead = self.ops.ahead[op as usize];
                        let ahead = match ahead {
                            NONE => i64::MIN,
                            ahead => self.ops.end[ahead as usize],
                        };
                        issue.max(ahead)
                    }
                    _ => i64::MIN,
                };
                if took >= 0 && self.time(from) >= began {
                    let slot = latest.entry(to).or_insert(took);
                    *slot = (*slot).min(took);
                }
            }
            let mut samples: Vec<i64> = latest.into_values().collect();
            self.lags.0[lag as usize] = LagTime::of(lag, &mut samples);
        }
    }

    /// Returns `true` if no dependency explains the start of an operation.
    fn is_unexplained(&self, op: usize) -> bool {
        let start = self.ops.start[op];
        let mut latest = i64::MIN;
        let ahead = self.ops.ahead[op];
        if ahead != NONE {
            let end = self.ops.end[ahead as usize];
            if end >= start {
                return false;
            }
            latest = end.saturating_add(self.lags.of(self.ops.gap_lag(op)).high_ns);
        }
        if self.is_launched(op)
            && let Some(issue) = self.issue(op)
        {
            latest = latest.max(issue.saturating_add(self.lags.of(Lag::Launch).high_ns));
        }
        latest < start
    }

    /// Returns the operations whose start is explained by the end of an event's work, ascending.
    fn explained_by_events(&self) -> Vec<u32> {
        let events = self.ties.iter().filter_map(|tie| {
            let (At::Start(op), Some(lag)) = (tie.to, tie.kind.lag()) else {
                return None;
            };
            let from = self.time(self.node(tie.from)?);
            let arrival = from.saturating_add(self.lags.of(lag).high_ns);
            (arrival >= self.ops.start[op as usize]).then_some(op)
        });
        let mut out: Vec<u32> = events.collect();
        out.sort_unstable();
        out
    }

    /// Removes dependencies that run backward in time and those that lead nowhere. Returns the
    /// number of the former.
    fn drop_contradicted(&mut self) -> u64 {
        let mut against = 0;
        let ties = std::mem::take(&mut self.ties);
        self.ties = ties
            .into_iter()
            .filter(|tie| {
                let (Some(from), Some(to)) = (self.node(tie.from), self.node(tie.to)) else {
                    return false;
                };
                let fits = self.time(from) <= self.time(to);
                against += u64::from(!fits);
                fits
            })
            .collect();
        against
    }

    /// Finds runs: two or more launches of a thread and step, close together, without a wait, host
    /// memcpy or graph launch between them.
    fn find_runs(&mut self) {
        let calls = &self.host.calls;
        self.run = vec![NONE; calls.len()];
        let mut in_run = vec![false; calls.len()];
        for thread in &self.host.threads {
            let mut before: Option<usize> = None;
            for c in thread.calls.clone() {
                let breaks = match calls.kind[c] {
                    CallKind::Sync(_) | CallKind::HostCopy | CallKind::Graph => true,
                    _ => calls.waited(c),
                };
                if breaks {
                    before = None;
                    continue;
                }
                if !calls.submits(c) {
                    continue;
                }
                let joins = before.filter(|&b| {
                    calls.begin[c] - calls.end[b] < RUN_NS
                        && self.assigned.at(calls.begin[b]) == self.assigned.at(calls.begin[c])
                        && self.is_unbroken(b, c)
                });
                if let Some(b) = joins {
                    if self.run[b] == NONE {
                        self.run[b] = place(self.run_first.len());
                        self.run_first.push(place(b));
                    }
                    self.run[c] = self.run[b];
                    in_run[c] = true;
                }
                before = Some(c);
            }
        }
        // Other nodes before a call lie in the same host time.
        let points = &self.points;
        self.dispatch = vec![false; points.len()];
        let mut joins = false;
        for point in (0..points.len()).rev() {
            joins = match (points.role[point], points.call[point]) {
                (Role::CallBegin, call) if call != NONE => in_run[call as usize],
                (Role::Plain, _) => joins,
                _ => false,
            };
            self.dispatch[point] = joins;
        }
    }

    /// Returns `true` if there is no wait between two calls of a thread.
    fn is_unbroken(&self, from: usize, to: usize) -> bool {
        let (first, last) = (self.call_node[from], self.call_node[to]);
        if first == NONE || last == NONE {
            return false;
        }
        let between = first as usize..last as usize;
        self.points.role[between]
            .iter()
            .all(|role| !matches!(role, Role::WaitEnd | Role::Apart))
    }

    /// Returns the string at an index.
    pub(crate) fn text(&self, name: u32) -> &str {
        self.names.get(name as usize).map_or("", String::as_str)
    }

    /// Returns the number of GPU activities without a recorded launch.
    pub(crate) fn unlinked(&self) -> u64 {
        self.ops.call.iter().filter(|call| **call == NONE).count() as u64
    }

    /// Converts all times to another clock; `to` has to be monotonic.
    pub(crate) fn shift(&mut self, to: impl Fn(i64) -> i64) {
        let calls = &mut self.host.calls;
        let columns = [
            &mut self.ops.start,
            &mut self.ops.end,
            &mut calls.begin,
            &mut calls.end,
            &mut calls.issue,
            &mut calls.waited_until,
            &mut self.points.time,
            &mut self.points.pieces.start,
        ];
        for time in columns.into_iter().flatten() {
            *time = to(*time);
        }
        for host in &mut self.assigned.host {
            *host = (to(host.0), to(host.1));
        }
    }

    /// Calls `add` with each dependency, including those along streams and threads, as (to, from,
    /// kind, evidence) of nodes of this part.
    pub(crate) fn edges(&self, mut add: impl FnMut(u32, u32, EdgeKind, Evidence)) -> u64 {
        let mut against = 0;
        let sure = Evidence::Sure;
        for op in 0..self.ops.len() {
            let (start, end) = (place(2 * op), place(2 * op + 1));
            add(end, start, EdgeKind::Work, sure);
            let ahead = self.ops.ahead[op];
            if ahead != NONE {
                match self.ops.end[ahead as usize] <= self.ops.start[op] {
                    true => add(start, 2 * ahead + 1, EdgeKind::Stream, sure),
                    false => add(start, 2 * ahead, EdgeKind::Overlap, sure),
                }
            }
            if self.is_launched(op)
                && let Some(issue) = self.node(At::Issue(self.ops.call[op]))
            {
                match self.time(issue) <= self.ops.start[op] {
                    true => add(start, issue, EdgeKind::Launch, sure),
                    false => against += 1,
                }
            }
        }
        for point in 0..self.points.len() {
            let (to, from) = (self.point_node(place(point)), place(point).wrapping_sub(1));
            let call = self.points.call[point] as usize;
            let kind = match self.points.role[point] {
                Role::First | Role::Apart => continue,
                Role::Issue => EdgeKind::Issue,
                Role::CallEnd if self.host.calls.waited(call) => EdgeKind::Call,
                Role::CallEnd => EdgeKind::Issue,
                Role::WaitEnd => EdgeKind::Input,
                Role::CallBegin | Role::WaitBegin | Role::Plain => EdgeKind::Host,
            };
            add(to, self.point_node(from), kind, sure);
        }
        for tie in &self.ties {
            if let (Some(from), Some(to)) = (self.node(tie.from), self.node(tie.to)) {
                add(to, from, tie.kind, tie.evidence);
            }
        }
        against
    }
}

/// Reads operations and calls, those of each device set back by what its clock is `ahead`.
fn read(
    index: &TraceIndex<'_>,
    names: &mut Names<'_>,
    marks: &[Mark],
    ahead: &Clocks,
) -> (Ops, Host, u32) {
    let (mut ops, mut submitted_by) = Ops::read(index, names, ahead);
    let mut host = Host::read(index, names);
    if host.has_lost_links(&ops, &submitted_by) {
        ops.lost_links = submitted_by.iter().filter(|call| call.is_none()).count() as u64;
        submitted_by.fill(None);
    }
    let is_async = |name| names.text(name).contains("Async");
    let is_pageable = |name| names.text(name).contains("Pageable");
    host.link(&mut ops, &submitted_by, is_async, is_pageable);
    drop(submitted_by);
    let other_engines = host.set_apart(index, marks);
    if other_engines > 0 {
        ops.choose_main(|call| !host.calls.is_of_other(call));
    }
    (ops, host, other_engines)
}

fn launched(ops: &Ops, op: usize) -> bool {
    let call = ops.call[op];
    if call == NONE {
        return false;
    }
    let list = &ops.by_stream[ops.stream[op] as usize];
    match list.binary_search(&place(op)) {
        Ok(0) => true,
        Ok(at) => ops.call[list[at - 1] as usize] != call,
        Err(_) => false,
    }
}

/// Returns `true` if work of any stream ends after `from` and not after `to`: what starts at `to` may have waited for that
/// work, with or without a recorded event. `ends` are the ends of all work, ascending.
fn may_wait_for_other(ends: &[i64], from: i64, to: i64) -> bool {
    let next = ends.get(ends.partition_point(|end| *end <= from));
    next.is_some_and(|end| *end <= to)
}

/// A start behind earlier work of its stream: time since its issue, time since the end of that work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Behind {
    since_issue: i64,
    since_end: i64,
}

/// Returns `true` if these starts followed their launches and not the work ahead of them: the time since the issue then varies
/// less than the time since that end. Kernels that are shorter than the launch latency are launched before their predecessor
/// ends, and look queued.
fn follow_their_launches(starts: &[Behind]) -> bool {
    starts.len() >= FEW
        && spread(starts.iter().map(|start| start.since_issue))
            < spread(starts.iter().map(|start| start.since_end))
}

/// Returns the distance of the quartiles.
fn spread(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    let quarter = |quarters: usize| values.get(values.len() * quarters / 4).copied();
    quarter(3).unwrap_or(0) - quarter(1).unwrap_or(0)
}

/// Estimates the latency from issue to start, on streams that were idle at the issue; where there are few, from starts behind
/// other work that followed their launches.
fn launch_lag(ops: &Ops, host: &Host, ends: &[i64]) -> LagTime {
    let mut samples = Vec::new();
    let mut behind = Vec::new();
    for op in 0..ops.len() {
        if !launched(ops, op) {
            continue;
        }
        let (issue, start) = (host.calls.issue[ops.call[op] as usize], ops.start[op]);
        let end = match ops.ahead[op] {
            NONE => i64::MIN,
            ahead => ops.end[ahead as usize],
        };
        if start < issue.max(end) || may_wait_for_other(ends, issue.max(end), start) {
            continue;
        }
        let since_issue = start - issue;
        if end <= issue {
            samples.push(since_issue);
        } else {
            let since_end = start - end;
            behind.push(Behind {
                since_issue,
                since_end,
            });
        }
    }
    if samples.len() < FEW && follow_their_launches(&behind) {
        samples.extend(behind.iter().map(|start| start.since_issue));
    }
    LagTime::of(Lag::Launch, &mut samples)
}

/// Estimates the latency between operations of a stream, where the later one was queued when the
/// earlier one ended, and waited for nothing else.
///
/// Work without a recorded launch is no sample: whether it was queued or came late is not known. Work that was launched before
/// its predecessor ended, by less than the launch latency, was still on its way: the time since that end then depends on when
/// the launch arrived, and is an upper limit of the latency alone.
fn stream_lag(ops: &Ops, host: &Host, lag: Lag, ends: &[i64], launch: LagTime) -> LagTime {
    let mut samples = Vec::new();
    let mut behind = Vec::new();
    for op in 0..ops.len() {
        let (ahead, call) = (ops.ahead[op], ops.call[op]);
        if ahead == NONE || call == NONE || ops.gap_lag(op) != lag {
            continue;
        }
        let (end, start) = (ops.end[ahead as usize], ops.start[op]);
        if start < end || may_wait_for_other(ends, end, start) {
            continue;
        }
        let since_end = start - end;
        let issue = host.calls.issue[call as usize];
        // Further work of one call is queued with its first.
        if !launched(ops, op) || issue.saturating_add(launch.high_ns) <= end {
            samples.push(since_end);
        } else if issue <= end {
            let since_issue = start - issue;
            behind.push(Behind {
                since_issue,
                since_end,
            });
        }
    }
    if samples.len() >= FEW {
        return LagTime::of(lag, &mut samples);
    }
    let waited: Vec<Behind> = match launch.is_assumed() {
        true if follow_their_launches(&behind) => Vec::new(),
        true => behind.clone(),
        // They start later than their launches explain.
        false => {
            let late = behind.iter().copied();
            let late = late.filter(|start| start.since_issue > launch.high_ns);
            late.collect()
        }
    };
    // A few exceed the high value of a latency by chance.
    if waited.len() * 2 > behind.len() {
        samples.extend(waited.iter().map(|start| start.since_end));
        return LagTime::of(lag, &mut samples);
    }
    let mut longest: Vec<i64> = behind.iter().map(|start| start.since_end).collect();
    longest.sort_unstable();
    LagTime::at_most(lag, longest.get(longest.len() / 20).copied(), samples.len())
}
