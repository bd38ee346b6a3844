//! Nodes of host threads, and the host time between them.

use trace_model::kernel::{Activity, TraceIndex};

use crate::calls::{Host, HostThread, slices_of};
use crate::class::Class;
use crate::names::{NONE, Names, place};

/// Role of a node of a thread; determines the edge that leads to it along the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// First slice of the thread: no edge.
    First,
    /// Begin of a call: host time.
    CallBegin,
    /// Issue of the work of a call.
    Issue,
    /// End of a call.
    CallEnd,
    /// Begin of a wait for external input: host time.
    WaitBegin,
    /// Arrival of external input.
    WaitEnd,
    /// Any other point in host time.
    Plain,
    /// The thread takes over from another one: no edge along the thread.
    Apart,
}

/// A node to insert into a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extra {
    pub(crate) thread: u32,
    pub(crate) time: i64,
    pub(crate) role: Role,
}

/// The nodes of all threads, thread by thread in order, as columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) time: Vec<i64>,
    pub(crate) role: Vec<Role>,
    pub(crate) thread: Vec<u32>,
    /// Call of the node.
    pub(crate) call: Vec<u32>,
    /// End of the pieces before the node, as an index into the pieces.
    pub(crate) pieces_end: Vec<u32>,
    pub(crate) pieces: Pieces,
    /// Node of each extra.
    pub(crate) extras: Vec<u32>,
}

/// Host time by innermost slice, as columns; a piece ends where the next one or the node begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) start: Vec<i64>,
    pub(crate) name: Vec<u32>,
    pub(crate) class: Vec<Class>,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.start.len()
    }

    fn push(&mut self, start: i64, name: u32, class: Class, from: usize) {
        let last = self.len().checked_sub(1).filter(|last| *last >= from);
        if last.is_some_and(|last| self.name[last] == name && self.class[last] == class) {
            return;
        }
        self.start.push(start);
        self.name.push(name);
        self.class.push(class);
    }

    fn truncate(&mut self, len: usize) {
        self.start.truncate(len);
        self.name.truncate(len);
        self.class.truncate(len);
    }
}

impl Points {
    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    /// Returns the pieces of host time that lead to a node.
    pub(crate) fn pieces_of(&self, point: usize) -> std::ops::Range<usize> {
        let from = match point.checked_sub(1) {
            Some(before) => self.pieces_end[before] as usize,
            None => 0,
        };
        from..self.pieces_end[point] as usize
    }

    /// Walks all threads once more and creates the nodes.
    pub(crate) fn read(
        index: &TraceIndex<'_>,
        names: &mut Names<'_>,
        host: &Host,
        extras: &[Extra],
    ) -> Self {
        let mut points = Self {
            extras: vec![NONE; extras.len()],
            ..Self::default()
        };
        let mut order: Vec<usize> = (0..extras.len()).collect();
        order.sort_by_key(|&i| (extras[i].thread, extras[i].time, i));
        let mut rest = order.as_slice();
        for (t, thread) in host.threads.iter().enumerate() {
            let here = rest.partition_point(|&i| extras[i].thread as usize <= t);
            let (own, later) = rest.split_at(here);
            rest = later;
            let has_nodes = thread.calls.clone().any(|call| host.calls.is_node(call));
            if !has_nodes && own.is_empty() {
                continue;
            }
            let mut walk = Walk {
                points: &mut points,
                thread: place(t),
                cursor: thread.span.0,
                open: Vec::new(),
                extras,
                own,
            };
            walk.point(thread.span.0, Role::First, NONE);
            walk.thread(index, names, host, thread);
        }
        points
    }
}

/// An open slice of a thread.
#[derive(Clone, Copy)]
struct Open {
    end: i64,
    name: u32,
    class: Class,
    requests: bool,
    data: bool,
}

struct Walk<'w> {
    points: &'w mut Points,
    thread: u32,
    /// Time up to which host time is assigned.
    cursor: i64,
    open: Vec<Open>,
    extras: &'w [Extra],
    /// Extras of the thread that are not yet placed, in order of time.
    own: &'w [usize],
}

impl Walk<'_> {
    fn point(&mut self, time: i64, role: Role, call: u32) -> u32 {
        let points = &mut *self.points;
        let before = points.pieces_end.last().map_or(0, |end| *end as usize);
        if matches!(role, Role::Apart | Role::First) {
            points.pieces.truncate(before);
        }
        points.time.push(time);
        points.role.push(role);
        points.thread.push(self.thread);
        points.call.push(call);
        points.pieces_end.push(place(points.pieces.len()));
        place(points.time.len() - 1)
    }

    /// Assigns host time up to `to`, and places the extras in it.
    fn advance(&mut self, to: i64) {
        while let Some((&first, rest)) = self.own.split_first() {
            let extra = self.extras[first];
            if extra.time > to {
                break;
            }
            self.own = rest;
            self.pieces(extra.time);
            let at = self.point(extra.time.max(self.cursor), extra.role, NONE);
            self.points.extras[first] = at;
        }
        self.pieces(to);
    }

    fn pieces(&mut self, to: i64) {
        let from = self.points.pieces_end.last().map_or(0, |end| *end as usize);
        while self.cursor < to {
            while self.open.last().is_some_and(|o| o.end <= self.cursor) {
                self.open.pop();
            }
            let (end, name, class) = match self.open.last() {
                Some(open) => (open.end.min(to), open.name, open.class),
                None => (to, NONE, Class::HostUntraced),
            };
            self.points.pieces.push(self.cursor, name, class, from);
            self.cursor = end;
        }
        while self.open.last().is_some_and(|o| o.end <= to) {
            self.open.pop();
        }
    }

    fn thread(
        &mut self,
        index: &TraceIndex<'_>,
        names: &mut Names<'_>,
        host: &Host,
        thread: &HostThread,
    ) {
        let trace = index.trace();
        // Slices that begin before this time lie in a call or a wait.
        let mut hidden = i64::MIN;
        let mut next_call = thread.calls.clone();
        let mut call = next_call.next();
        for slice in slices_of(index, thread.id).iter() {
            let slice = trace.slice(*slice);
            let activity = index.activity(slice);
            if activity.is_device_work()
                || matches!(activity, Activity::GpuAnnotation | Activity::GpuSync)
            {
                continue;
            }
            let (begin, end) = (slice.ts().nanos(), slice.end().nanos());
            if begin < hidden {
                // Time of a slice after the end of the call is host time.
                if end > hidden && !activity.is_api() {
                    self.push(names, slice, activity, end);
                }
                continue;
            }
            let is_next = call.is_some_and(|c| {
                host.calls.begin[c] == begin && host.call_of(slice.id()) == Some(place(c))
            });
            match call.filter(|_| is_next) {
                Some(c) => {
                    call = next_call.next();
                    let end = host.calls.end[c];
                    if host.calls.is_node(c) {
                        self.advance(begin);
                        self.point(begin, Role::CallBegin, place(c));
                        if host.calls.submits(c) {
                            self.point(host.calls.issue[c], Role::Issue, place(c));
                        }
                        self.point(end, Role::CallEnd, place(c));
                        self.cursor = self.cursor.max(end);
                    } else {
                        self.advance(begin);
                        let (class, name) = (host.calls.class(c), host.calls.name[c]);
                        let around = self.around(end);
                        let requests = around.is_some_and(|o| o.requests);
                        let data = around.is_some_and(|o| o.data);
                        self.open.push(Open {
                            end,
                            name,
                            class,
                            requests,
                            data,
                        });
                    }
                    hidden = end;
                }
                None => {
                    self.advance(begin);
                    let waits = self.push(names, slice, activity, end);
                    if waits && end > begin {
                        self.point(begin, Role::WaitBegin, NONE);
                        self.pieces(end);
                        self.point(end, Role::WaitEnd, NONE);
                        hidden = end;
                    }
                }
            }
        }
        self.advance(thread.span.1);
        // Places the extras behind the last slice.
        self.extras_left();
        let before = self.points.pieces_end.last().map_or(0, |end| *end as usize);
        self.points.pieces.truncate(before);
    }

    /// Places the extras behind the last slice.
    fn extras_left(&mut self) {
        if let Some(last) = self.own.last() {
            self.advance(self.extras[*last].time.max(self.cursor));
        }
    }

    /// Returns the innermost open slice that a slice with this end lies in. Times are rounded, so that a slice may begin a
    /// little before the one ahead of it ends.
    fn around(&self, end: i64) -> Option<&Open> {
        self.open.iter().rev().find(|open| open.end >= end)
    }

    /// Opens a slice. Returns `true` if it waits for something from outside.
    fn push(
        &mut self,
        names: &mut Names<'_>,
        slice: trace_model::Slice<'_>,
        activity: Activity,
        end: i64,
    ) -> bool {
        let meaning = names.host(slice.name_id());
        while self.open.last().is_some_and(|o| o.end <= self.cursor) {
            self.open.pop();
        }
        let around = self.around(end);
        let requests = meaning.requests || around.is_some_and(|o| o.requests);
        let data = meaning.data || around.is_some_and(|o| o.data);
        let is_python = activity == Activity::PythonFunction;
        let class = match activity {
            _ if requests => Class::Requests,
            _ if data => Class::Input,
            // Operators share names with primitives, and compute.
            _ if meaning.blocking && activity != Activity::CpuOp => Class::Blocked,
            Activity::PythonFunction => Class::HostPython,
            Activity::CpuOp => Class::HostOp,
            Activity::Overhead => Class::Profiler,
            _ => Class::HostOther,
        };
        let name = names.place(slice.name_id());
        self.open.push(Open {
            end,
            name,
            class,
            requests,
            data,
        });
        let is_message = meaning.message && activity == Activity::Other;
        is_message || (meaning.blocking && is_python && (requests || data))
    }
}
