//! Infers dependencies that are not recorded by documented rules; each is marked as a guess.

use rustc_hash::FxHashMap;

use crate::calls::{Host, QUIET_NS, Quiet};
use crate::class::{EdgeKind, Evidence, Lag};
use crate::lags::Lags;
use crate::names::{NONE, place};
use crate::ops::Ops;
use crate::points::{Extra, Role};
use crate::waits::{At, ThreadOps, Tie};

/// Maximum time from an end on another stream to an otherwise unexplained start that is taken to
/// wait for it, in nanoseconds.
const TIMING_NS: i64 = 4_000;

/// Minimum number of stretches of one function that have to end alike.
const STRETCHES: usize = 3;

/// Extra nodes, and the dependencies that lead to and from them.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    pub(crate) extras: Vec<Extra>,
    pub(crate) ties: Vec<Tie>,
}

impl Guesses {
    fn extra(&mut self, thread: usize, time: i64, role: Role) -> At {
        self.extras.push(Extra {
            thread: place(thread),
            time,
            role,
        });
        At::Extra(place(self.extras.len() - 1))
    }

    fn tie(&mut self, from: At, to: At, kind: EdgeKind) {
        let evidence = Evidence::Guess;
        self.ties.push(Tie {
            from,
            to,
            kind,
            evidence,
        });
    }

    /// Finds threads that hand over to another thread and take over again.
    ///
    /// Returns by thread which of its quiet stretches this explains.
    pub(crate) fn handoffs(&mut self, host: &Host, thread_ops: &ThreadOps) -> Vec<Vec<bool>> {
        let threads = &host.threads;
        let mut explained: Vec<Vec<bool>> = threads
            .iter()
            .map(|thread| vec![false; thread.quiet.len()])
            .collect();
        // Stretches of work of each thread, between its quiet ones.
        let busy: Vec<Vec<(i64, i64)>> = threads.iter().map(|t| busy(t.span, &t.quiet)).collect();
        let submits = |thread: usize, from: i64, to: i64| {
            thread_ops
                .of
                .get(thread)
                .is_some_and(|list: &Vec<(i64, u32)>| {
                    let at = list.partition_point(|entry| entry.0 < from);
                    list.get(at).is_some_and(|entry| entry.0 < to)
                })
        };
        for (t, thread) in threads.iter().enumerate() {
            if thread_ops.of.get(t).is_none_or(Vec::is_empty) {
                continue;
            }
            for (q, quiet) in thread.quiet.iter().enumerate() {
                let other = |u: &usize| *u != t && threads[*u].process == thread.process;
                let worked = (0..threads.len()).filter(other).filter_map(|u| {
                    let (from, to) = worked_in(&busy[u], quiet)?;
                    let enough = (to - from).saturating_mul(2) >= quiet.end - quiet.begin;
                    (enough && submits(u, from, to)).then_some((
                        to - from,
                        std::cmp::Reverse(u),
                        from,
                        to,
                    ))
                });
                let Some((_, std::cmp::Reverse(u), from, to)) = worked.max() else {
                    continue;
                };
                explained[t][q] = true;
                let leaves = self.extra(t, quiet.begin, Role::Plain);
                let first = self.extra(u, from, Role::Apart);
                let last = self.extra(u, to, Role::Plain);
                let back = self.extra(t, quiet.end, Role::Apart);
                self.tie(leaves, first, EdgeKind::Handoff);
                self.tie(last, back, EdgeKind::Handoff);
            }
        }
        explained
    }

    /// Finds quiet stretches that end when work is done, as in code that polls without API calls.
    ///
    /// The rule needs three or more stretches of one function that all end the same time after work
    /// which the thread submitted.
    pub(crate) fn spins(
        &mut self,
        host: &Host,
        ops: &Ops,
        thread_ops: &ThreadOps,
        explained: &[Vec<bool>],
    ) {
        let mut ends: Vec<(i64, u32)> = (0..ops.len())
            .filter(|&op| ops.call[op] != NONE)
            .map(|op| (ops.end[op], place(op)))
            .collect();
        ends.sort_unstable();
        for (t, thread) in host.threads.iter().enumerate() {
            if thread_ops.of.get(t).is_none_or(Vec::is_empty) {
                continue;
            }
            let mut by_name: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
            for (q, quiet) in thread.quiet.iter().enumerate() {
                if !explained[t][q] {
                    by_name.entry(quiet.name).or_default().push(q);
                }
            }
            let mut by_name: Vec<_> = by_name.into_iter().collect();
            by_name.sort_unstable();
            // A thread that polls waits for all that it has submitted to a stream, and not for a kernel amid others.
            let is_last = |op: u32, begin: i64| {
                let list = &ops.by_stream[ops.stream[op as usize] as usize];
                let next = list.get(list.partition_point(|other| *other <= op));
                next.is_none_or(|next| match ops.call[*next as usize] {
                    NONE => true,
                    call => host.calls.begin[call as usize] >= begin,
                })
            };
            for (_, stretches) in by_name.iter().filter(|(_, list)| list.len() >= STRETCHES) {
                let found: Option<Vec<(usize, u32, i64)>> = stretches
                    .iter()
                    .map(|&q| {
                        let quiet = &thread.quiet[q];
                        let before = ends.partition_point(|end| end.0 <= quiet.end);
                        let mut latest = ends[..before].iter().rev().take(STRETCHES);
                        let (done, op) = latest.find(|(_, op)| {
                            let call = ops.call[*op as usize] as usize;
                            host.calls.thread[call] as usize == t
                                && host.calls.begin[call] < quiet.begin
                                && is_last(*op, quiet.begin)
                        })?;
                        (*done > quiet.begin).then_some((q, *op, quiet.end - done))
                    })
                    .collect();
                let Some(found) = found else { continue };
                let least = found.iter().map(|f| f.2).min().unwrap_or(0);
                let most = found.iter().map(|f| f.2).max().unwrap_or(0);
                // The delay is constant: it varies by at most a fifth, or by the time of a poll.
                if most - least > (least / 5).max(2_000) || most > QUIET_NS / 2 {
                    continue;
                }
                for (q, op, _) in found {
                    let quiet = thread.quiet[q];
                    self.extra(t, quiet.begin, Role::Plain);
                    let back = self.extra(t, quiet.end, Role::Apart);
                    self.tie(At::End(op), back, EdgeKind::Spin);
                }
            }
        }
    }

    /// Adds launches that are not recorded: unlinked work on an idle stream between linked work of
    /// one thread.
    pub(crate) fn virtual_launches(&mut self, host: &Host, ops: &Ops, lags: &Lags) {
        let launch = lags.of(Lag::Launch).typical_ns;
        let idle = lags.of(Lag::Stream).high_ns;
        for list in &ops.by_stream {
            let thread_of = |op: u32| {
                let call = ops.call[op as usize];
                (call != NONE).then(|| host.calls.thread[call as usize])
            };
            let mut next = vec![None; list.len()];
            let mut behind = None;
            for at in (0..list.len()).rev() {
                next[at] = behind;
                behind = thread_of(list[at]).or(behind);
            }
            let mut before = None;
            for (at, &op) in list.iter().enumerate() {
                if let Some(thread) = thread_of(op) {
                    before = Some(thread);
                    continue;
                }
                let start = ops.start[op as usize];
                let ahead = ops.ahead[op as usize];
                let is_idle = ahead == NONE || start - ops.end[ahead as usize] > idle;
                if let (true, Some(thread), Some(other)) = (is_idle, before, next[at])
                    && thread == other
                {
                    let from = self.extra(thread as usize, start - launch, Role::Plain);
                    self.tie(from, At::Start(op), EdgeKind::Launch);
                }
            }
        }
    }
}

/// Returns the busy intervals of a thread, between its quiet stretches.
fn busy(span: (i64, i64), quiet: &[Quiet]) -> Vec<(i64, i64)> {
    let mut out = Vec::with_capacity(quiet.len() + 1);
    let mut from = span.0;
    for stretch in quiet {
        out.push((from, stretch.begin));
        from = stretch.end;
    }
    out.push((from, span.1));
    out
}

/// Returns the interval from the first to the last work that a thread began and ended within a
/// quiet stretch of another thread.
fn worked_in(busy: &[(i64, i64)], quiet: &Quiet) -> Option<(i64, i64)> {
    let from = busy.partition_point(|work| work.0 < quiet.begin);
    let to = busy.partition_point(|work| work.1 <= quiet.end);
    let (first, last) = (busy.get(from)?, busy.get(to.checked_sub(1)?)?);
    (from < to).then_some((first.0, last.1))
}

/// Finds starts that only the end of work on another stream explains.
pub(crate) fn timing(ops: &Ops, unexplained: impl Fn(usize) -> bool) -> Vec<Tie> {
    if ops.streams.len() < 2 {
        return Vec::new();
    }
    let mut ends: Vec<(i64, u32)> = (0..ops.len()).map(|op| (ops.end[op], place(op))).collect();
    ends.sort_unstable();
    let mut out = Vec::new();
    for op in 0..ops.len() {
        if !unexplained(op) {
            continue;
        }
        let start = ops.start[op];
        let stream = ops.stream[op] as usize;
        let upper = ends.partition_point(|end| end.0 <= start);
        let near = ends[..upper].iter().rev();
        let mut near = near.take_while(|end| start - end.0 <= TIMING_NS).take(64);
        let found = near.find(|(_, other)| {
            let other = *other as usize;
            ops.stream[other] as usize != stream
                && ops.streams[ops.stream[other] as usize].0 == ops.streams[stream].0
                && other != op
                && ops.start[other] < start
        });
        if let Some((_, other)) = found {
            out.push(Tie {
                from: At::End(*other),
                to: At::Start(place(op)),
                kind: EdgeKind::Event,
                evidence: Evidence::Timing,
            });
        }
    }
    out
}
