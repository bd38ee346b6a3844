//! Finds what calls and streams waited for: synchronization, events, a full launch queue.

use rustc_hash::FxHashMap;
use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{ArgColumn, ArgValue, CorrelationId, Slice};

use crate::calls::{CallKind, Calls, Host};
use crate::class::{EdgeKind, Evidence};
use crate::names::{NONE, Waits, place};
use crate::ops::Ops;

/// Minimum length of a synchronization without a record of what it waited for, in nanoseconds.
pub(crate) const LONG_WAIT_NS: i64 = 10_000;

/// Minimum number of outstanding launches of a full queue.
const FULL: usize = 32;

/// Maximum number of launches searched for the one that a stream wait delays.
const NEXT_LAUNCHES: usize = 64;

/// An end of a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// Begin of an operation.
    Start(u32),
    /// End of an operation.
    End(u32),
    /// Issue of a call.
    Issue(u32),
    /// End of a call.
    CallEnd(u32),
    /// An extra node.
    Extra(u32),
}

/// A dependency between points of one recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tie {
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) kind: EdgeKind,
    pub(crate) evidence: Evidence,
}

/// A record of the object that a call waited for.
#[derive(Clone, Copy, Debug)]
struct Record {
    device: i64,
    stream: i64,
    wait_on_stream: Option<i64>,
    /// The call that recorded the event.
    recorded_by: Option<u32>,
}

/// Waits of calls and streams, found once for a recording.
pub(crate) struct Waiting<'w> {
    ops: &'w Ops,
    records: FxHashMap<u32, Record>,
    /// `true` if records show which streams waited for events.
    pub(crate) has_wait_records: bool,
    pub(crate) ties: Vec<Tie>,
    pub(crate) contradicted: u64,
    /// Synchronizations with a record of what they waited for: by operation, how long it ended behind the call, negative before.
    pub(crate) behind: Vec<(u32, i64)>,
}

impl<'w> Waiting<'w> {
    pub(crate) fn new(index: &TraceIndex<'_>, host: &Host, ops: &'w Ops) -> Self {
        let mut waiting = Self {
            ops,
            records: FxHashMap::default(),
            has_wait_records: false,
            ties: Vec::new(),
            contradicted: 0,
            behind: Vec::new(),
        };
        waiting.read(index, host);
        waiting
    }

    fn read(&mut self, index: &TraceIndex<'_>, host: &Host) {
        let trace = index.trace();
        // Most recordings have no such slices, and few slices are of this kind.
        let vocabulary = index.vocabulary();
        let mut categories = trace.categories();
        if !categories.any(|(_, name)| vocabulary.activity(name, "") == Activity::GpuSync) {
            return;
        }
        let is_sync = |slice: &Slice<'_>| index.activity(*slice) == Activity::GpuSync;
        let kinds = trace.arg_column("cuda_sync_kind");
        let on = trace.arg_column("wait_on_stream");
        let by = trace.arg_column("wait_on_cuda_event_record_corr_id");
        let streams = trace.arg_column("stream");
        for slice in trace.slices().filter(is_sync) {
            let Some(id) = index.correlation().id_of(slice) else {
                continue;
            };
            let call_of = |id: CorrelationId| {
                let calls = index.correlation().calls(id);
                calls.iter().find_map(|call| host.call_of(*call))
            };
            let Some(call) = call_of(id) else { continue };
            let kind = text(&kinds, slice).or(slice.name()).unwrap_or("");
            self.has_wait_records |= kind.contains("Wait Event");
            let recorded = by.int(slice).filter(|id| *id > 0);
            let record = Record {
                device: index.device(slice).0,
                stream: streams.int(slice).unwrap_or_else(|| index.stream(slice).0),
                wait_on_stream: on.int(slice).filter(|stream| *stream >= 0),
                recorded_by: recorded.and_then(|id| call_of(CorrelationId(id))),
            };
            self.records.insert(call, record);
        }
    }

    fn stream_of(&self, device: i64, stream: i64) -> Option<usize> {
        let streams = &self.ops.streams;
        let exact = streams.iter().position(|known| *known == (device, stream));
        exact.or_else(|| {
            // Some profilers give all records the first device: a number that is used once tells the stream.
            let mut same = streams.iter().enumerate().filter(|(_, s)| s.1 == stream);
            let (at, _) = same.next()?;
            same.next().is_none().then_some(at)
        })
    }

    /// Returns the last operation of a stream that was submitted before an instant; for unlinked
    /// operations, the last that had begun by `begun`.
    fn last_before(&self, calls: &Calls, stream: usize, at: i64, begun: i64) -> Option<u32> {
        let list = self.ops.by_stream.get(stream)?;
        let upper = list.partition_point(|&op| self.ops.start[op as usize] <= begun);
        // Work submitted before the instant may have begun long after it.
        let later = list[upper..].iter().take_while(|&&op| {
            let call = self.ops.call[op as usize];
            call != NONE && calls.begin[call as usize] < at
        });
        if let Some(op) = later.last() {
            return Some(*op);
        }
        let submitted = |op: &&u32| match self.ops.call[**op as usize] {
            NONE => self.ops.end[**op as usize] <= begun,
            call => calls.begin[call as usize] < at,
        };
        list[..upper]
            .iter()
            .rev()
            .take(4096)
            .find(submitted)
            .copied()
    }

    /// Finds the work that synchronizing calls waited for.
    pub(crate) fn synchronisations(&mut self, calls: &mut Calls, thread_ops: &ThreadOps) {
        for c in 0..calls.len() {
            let (begin, end) = (calls.begin[c], calls.end[c]);
            if calls.waited(c) && calls.submits(c) {
                let own = self.own_copy(calls, c);
                self.sync(calls, own, c, Evidence::Sure);
                continue;
            }
            let CallKind::Sync(waits) = calls.kind[c] else {
                continue;
            };
            let record = self.records.get(&place(c)).copied();
            let used = self.ops.streams.len();
            match (waits, record) {
                (Waits::Device, record) => {
                    let device = record.map(|r| r.device).or_else(|| {
                        let op = thread_ops.last_before(calls, c)?;
                        let stream = self.ops.stream[op as usize];
                        Some(self.ops.streams.get(stream as usize)?.0)
                    });
                    for stream in 0..used {
                        if device.is_some_and(|device| device != self.ops.streams[stream].0) {
                            continue;
                        }
                        let op = self.last_before(calls, stream, begin, end);
                        self.sync(calls, op, c, Evidence::Sure);
                    }
                }
                (Waits::Stream, Some(record))
                    if self.stream_of(record.device, record.stream).is_some() =>
                {
                    if let Some(stream) = self.stream_of(record.device, record.stream) {
                        let op = self.last_before(calls, stream, begin, end);
                        self.sync(calls, op, c, Evidence::Sure);
                    }
                }
                (
                    Waits::Event,
                    Some(Record {
                        device,
                        wait_on_stream: Some(stream),
                        recorded_by: Some(by),
                        ..
                    }),
                ) => {
                    let at = calls.end[by as usize].max(calls.begin[by as usize] + 1);
                    if let Some(stream) = self.stream_of(device, stream) {
                        let op = self.last_before(calls, stream, at, at);
                        self.sync(calls, op, c, Evidence::Sure);
                    }
                }
                (Waits::Stream, _) if used == 1 => {
                    let op = self.last_before(calls, 0, begin, end);
                    self.sync(calls, op, c, Evidence::Sure);
                }
                (Waits::Event, _) if used == 1 && self.done_on(calls, 0, c).is_some() => {
                    let op = self.done_on(calls, 0, c);
                    self.sync(calls, op, c, Evidence::Sure);
                }
                _ => {
                    let is_long = end.saturating_sub(begin) >= LONG_WAIT_NS;
                    let ended = is_long.then(|| self.last_ended_in(calls, begin, end));
                    // A thread that computes on one stream waits for that stream.
                    let own = thread_ops.only_stream[calls.thread[c] as usize];
                    let found = ended.flatten().or_else(|| self.done_on(calls, own?, c));
                    self.sync(calls, found, c, Evidence::Guess);
                }
            }
        }
    }

    /// Returns the last work submitted to a stream before a call, unless it ended after the call: then the call waited for
    /// something earlier.
    fn done_on(&self, calls: &Calls, stream: usize, call: usize) -> Option<u32> {
        let (begin, end) = (calls.begin[call], calls.end[call]);
        let last = self.last_before(calls, stream, begin, end)?;
        (self.ops.end[last as usize] <= end).then_some(last)
    }

    /// Returns the memcpy between host and device that a call waited for.
    fn own_copy(&self, calls: &Calls, call: usize) -> Option<u32> {
        let first = calls.first_op[call] as usize;
        let stream = self.ops.stream.get(first).copied()? as usize;
        let list = &self.ops.by_stream[stream];
        let from = list.partition_point(|&op| (op as usize) < first);
        let own = list[from..].iter().take(NEXT_LAUNCHES);
        own.copied()
            .find(|&op| {
                self.ops.call[op as usize] as usize == call
                    && self.ops.end[op as usize] == calls.waited_until[call]
            })
            .or(Some(place(first)))
    }

    /// Returns the last work to end within a call, of that submitted before the call.
    fn last_ended_in(&self, calls: &Calls, begin: i64, end: i64) -> Option<u32> {
        let of_stream = |list: &Vec<u32>| {
            let upper = list.partition_point(|&op| self.ops.start[op as usize] <= end);
            let mut ended = list[..upper].iter().rev().take(NEXT_LAUNCHES);
            ended
                .find(|&&op| {
                    let op = op as usize;
                    let call = self.ops.call[op];
                    let before = call == NONE || calls.begin[call as usize] < begin;
                    before && self.ops.end[op] <= end && self.ops.end[op] >= begin
                })
                .copied()
        };
        let found = self.ops.by_stream.iter().filter_map(of_stream);
        found.max_by_key(|&op| (self.ops.end[op as usize], std::cmp::Reverse(op)))
    }

    fn sync(&mut self, calls: &mut Calls, op: Option<u32>, call: usize, evidence: Evidence) {
        let Some(op) = op else { return };
        let done = self.ops.end[op as usize];
        // Work that had ended when the call began was not waited for, and tells no clock.
        if evidence == Evidence::Sure && !calls.submits(call) && done > calls.begin[call] {
            self.behind.push((op, done - calls.end[call]));
        }
        if done > calls.end[call] {
            self.contradicted += 1;
            return;
        }
        calls.waited_until[call] = calls.waited_until[call].max(done);
        self.ties.push(Tie {
            from: At::End(op),
            to: At::CallEnd(place(call)),
            kind: EdgeKind::Sync,
            evidence,
        });
    }

    /// Finds streams that waited for events: from records, else from the order in which a thread
    /// submitted.
    pub(crate) fn events(&mut self, host: &Host, thread_ops: &ThreadOps) {
        let calls = &host.calls;
        for (t, thread) in host.threads.iter().enumerate() {
            let mut recorded: Option<usize> = None;
            for c in thread.calls.clone() {
                match calls.kind[c] {
                    CallKind::Record => recorded = Some(c),
                    CallKind::WaitEvent => {
                        if let Some(record) = self.records.get(&place(c)).copied() {
                            self.recorded_wait(calls, record, c);
                        } else if !self.has_wait_records {
                            let since = recorded.map(|record| calls.begin[record]);
                            self.guessed_wait(thread_ops, t, since, calls.begin[c]);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn recorded_wait(&mut self, calls: &Calls, record: Record, call: usize) {
        let (Some(on), Some(by)) = (record.wait_on_stream, record.recorded_by) else {
            return;
        };
        let source = self.stream_of(record.device, on);
        let target = self.stream_of(record.device, record.stream);
        let (Some(source), Some(target)) = (source, target) else {
            return;
        };
        let at = calls.end[by as usize].max(calls.begin[by as usize] + 1);
        let Some(from) = self.last_before(calls, source, at, at) else {
            return;
        };
        // The dependency leads to the next work of the waiting stream that was submitted after the
        // wait.
        let list = &self.ops.by_stream[target];
        let after = self.ops.end[from as usize].min(calls.end[call]);
        let lower = list.partition_point(|&op| self.ops.start[op as usize] < after);
        let next = list[lower..].iter().take(4096).find(|&&op| {
            let of = self.ops.call[op as usize];
            of != NONE && calls.begin[of as usize] >= calls.end[call]
        });
        if let Some(to) = next.copied() {
            self.event(from, to, Evidence::Sure);
        }
    }

    /// Guesses the wait of the next work that a thread launches: for a recorded event on another
    /// stream than the work before, else for the last work that was submitted to another stream
    /// than its own.
    fn guessed_wait(
        &mut self,
        thread_ops: &ThreadOps,
        thread: usize,
        recorded: Option<i64>,
        waits: i64,
    ) {
        let Some(list) = thread_ops.of.get(thread) else {
            return;
        };
        let behind = list.partition_point(|entry| entry.0 < waits);
        let stream_of = |op: u32| self.ops.stream[op as usize];
        let found = match recorded {
            Some(recorded) => {
                let before = list.partition_point(|entry| entry.0 < recorded);
                let from = before.checked_sub(1).and_then(|at| list.get(at));
                from.and_then(|(_, from)| {
                    let mut next = list[behind..].iter().take(NEXT_LAUNCHES);
                    let to = next.find(|entry| stream_of(entry.1) != stream_of(*from))?;
                    Some((*from, to.1))
                })
            }
            None => list.get(behind).and_then(|(_, to)| {
                let all = &thread_ops.all;
                let before = all.partition_point(|entry| entry.0 < waits);
                let mut before = all[..before].iter().rev().take(4096);
                let from = before.find(|entry| stream_of(entry.1) != stream_of(*to))?;
                Some((from.1, *to))
            }),
        };
        if let Some((from, to)) = found {
            self.event(self.last_of_call(from), to, Evidence::Guess);
        }
    }

    /// Returns the last work that the call of `op` submitted to its stream: graphs submit many kernels.
    fn last_of_call(&self, op: u32) -> u32 {
        let call = self.ops.call[op as usize];
        let list = &self.ops.by_stream[self.ops.stream[op as usize] as usize];
        let from = list.partition_point(|other| *other < op);
        let own = list[from..]
            .iter()
            .take_while(|other| self.ops.call[**other as usize] == call);
        own.last().copied().unwrap_or(op)
    }

    fn event(&mut self, from: u32, to: u32, evidence: Evidence) {
        if self.ops.end[from as usize] > self.ops.start[to as usize] {
            self.contradicted += 1;
            return;
        }
        self.ties.push(Tie {
            from: At::End(from),
            to: At::Start(to),
            kind: EdgeKind::Event,
            evidence,
        });
    }

    /// Finds launch API calls that waited for room in the queue.
    pub(crate) fn full_queues(&mut self, calls: &mut Calls) {
        let mut devices: Vec<i64> = self.ops.streams.iter().map(|s| s.0).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            self.full_queue(calls, device);
        }
    }

    fn full_queue(&mut self, calls: &mut Calls, device: i64) {
        let on_device = |c: &usize| {
            let op = calls.first_op[*c];
            op != NONE && {
                let stream = self.ops.stream[op as usize] as usize;
                self.ops.streams[stream].0 == device
            }
        };
        let mut launches: Vec<usize> = (0..calls.len()).filter(on_device).collect();
        if launches.len() <= FULL {
            return;
        }
        launches.sort_by_key(|&c| (calls.begin[c], c));
        let mut starts: Vec<(i64, u32)> = launches
            .iter()
            .map(|&c| {
                (
                    self.ops.start[calls.first_op[c] as usize],
                    calls.first_op[c],
                )
            })
            .collect();
        starts.sort_unstable();
        let outstanding = |k: usize, at: i64| {
            let started = starts.partition_point(|s| s.0 <= at);
            k.saturating_sub(started)
        };
        let depth: Vec<usize> = launches
            .iter()
            .enumerate()
            .map(|(k, &c)| outstanding(k, calls.begin[c]))
            .collect();
        let most = depth.iter().copied().max().unwrap_or(0);
        let is_full = |depth: usize| depth >= FULL && depth * 10 >= most * 9;
        // A host that is always ahead waits in most calls: only those with room ahead of them show what a call takes.
        let with_room = launches.iter().zip(&depth);
        let with_room = with_room.filter(|(_, depth)| !is_full(**depth));
        let mut took: Vec<i64> = with_room
            .map(|(&c, _)| calls.end[c] - calls.begin[c])
            .collect();
        took.sort_unstable();
        let usual = took.get(took.len() / 2).copied().unwrap_or(0);
        let long = usual.saturating_mul(4).max(LONG_WAIT_NS);
        for (&c, depth) in launches.iter().zip(depth) {
            let (begin, end) = (calls.begin[c], calls.end[c]);
            if !is_full(depth)
                || end - begin < long
                || calls.waited(c)
                || calls.kind[c] != CallKind::Launch
            {
                continue;
            }
            let upper = starts.partition_point(|s| s.0 <= end);
            let Some((start, op)) = upper.checked_sub(1).and_then(|at| starts.get(at)).copied()
            else {
                continue;
            };
            if start <= begin || op == calls.first_op[c] {
                continue;
            }
            calls.waited_until[c] = start;
            // What it does itself takes as long as with room; the rest is waiting, which depends on that start.
            calls.issue[c] = calls.issue[c].min(begin.saturating_add(usual));
            self.ties.push(Tie {
                from: At::Start(op),
                to: At::CallEnd(place(c)),
                kind: EdgeKind::QueueFull,
                evidence: Evidence::Guess,
            });
        }
    }
}

fn text<'t>(column: &ArgColumn, slice: Slice<'t>) -> Option<&'t str> {
    column.get(slice).and_then(ArgValue::as_str)
}

/// Work submitted by each thread, in order of the calls: begin of the call, operation.
pub(crate) struct ThreadOps {
    pub(crate) of: Vec<Vec<(i64, u32)>>,
    /// Work submitted by all threads.
    all: Vec<(i64, u32)>,
    /// The stream of each thread that submits to one stream alone, apart from collectives.
    only_stream: Vec<Option<usize>>,
}

impl ThreadOps {
    pub(crate) fn new(host: &Host, ops: &Ops) -> Self {
        let mut of = vec![Vec::new(); host.threads.len()];
        // Only the first operation of each call and stream counts.
        let mut seen: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        for op in 0..ops.len() {
            let call = ops.call[op];
            if call == NONE {
                continue;
            }
            let entry = (call, ops.stream[op]);
            if seen.insert(ops.stream[op], entry) == Some(entry) {
                continue;
            }
            let thread = host.calls.thread[call as usize] as usize;
            of[thread].push((host.calls.begin[call as usize], place(op)));
        }
        for list in &mut of {
            list.sort_unstable();
        }
        let mut all = of.concat();
        all.sort_unstable();
        let only_stream = of.iter().map(|list: &Vec<(i64, u32)>| {
            // Collectives have streams of their own, which events join.
            let computes = list.iter().filter(|entry| !ops.is_comm(entry.1 as usize));
            let mut streams = computes.map(|entry| ops.stream[entry.1 as usize]);
            let first = streams.next()?;
            streams
                .all(|stream| stream == first)
                .then_some(first as usize)
        });
        let only_stream = only_stream.collect();
        Self {
            of,
            all,
            only_stream,
        }
    }

    /// Returns the last operation that the thread of a call submitted before it.
    fn last_before(&self, calls: &Calls, call: usize) -> Option<u32> {
        let list = self.of.get(calls.thread[call] as usize)?;
        let before = list.partition_point(|entry| entry.0 < calls.begin[call]);
        Some(list.get(before.checked_sub(1)?)?.1)
    }
}
