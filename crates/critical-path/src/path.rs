//! Computes the path of a step: where its time went, without gap or overlap.

use serde::Serialize;

use crate::class::{Class, EdgeKind, Evidence, Group, Limit};
use crate::graph::{Edge, Graph, NodeOf};
use crate::names::NONE;
use crate::steps::Step;

/// A stretch of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) class: Class,
    /// Index of its name in the part; `NONE` if it has no name.
    pub(crate) name: u32,
    /// A name of this crate instead of one of the part.
    pub(crate) own_name: Option<&'static str>,
    pub(crate) evidence: Evidence,
    /// The part in which it happened.
    pub(crate) part: usize,
    /// The resource that limits it.
    pub(crate) limit: Option<Limit>,
}

/// A stretch of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Segment {
    /// Begin, in nanoseconds.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Class of the time.
    pub class: Class,
    /// Name of the kernel, call or function.
    pub name: String,
    /// Evidence for the dependency.
    pub evidence: Evidence,
    /// Rank on which it happened.
    pub on_rank: u32,
}

/// Time by group, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Groups(pub(crate) [i64; Group::ALL.len()]);

impl Groups {
    /// Returns the time of a group.
    pub fn of(&self, group: Group) -> i64 {
        self.0[group as usize]
    }

    pub(crate) fn add(&mut self, group: Group, ns: i64) {
        self.0[group as usize] += ns;
    }

    /// Adds the time of other groups.
    pub fn add_all(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own = own.saturating_add(more);
        }
    }

    /// Returns the time of all groups.
    pub fn total(&self) -> i64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Returns the largest group, the first of equal ones; `None` if there is no time.
    pub fn largest(&self) -> Option<Group> {
        let mut groups = Group::ALL.into_iter();
        let first = groups.next()?;
        let largest = groups.fold(first, |best, next| match self.of(next) > self.of(best) {
            true => next,
            false => best,
        });
        (self.of(largest) > 0).then_some(largest)
    }
}

impl Serialize for Groups {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Group::ALL.map(|group| (group.name(), self.of(group))))
    }
}

/// Time on a path by limiting resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limits {
    memory: i64,
    compute: i64,
    gpu: i64,
}

impl Limits {
    pub(crate) fn add(&mut self, stretch: &Stretch) {
        if stretch.class.group() != Group::Gpu {
            return;
        }
        let ns = stretch.end - stretch.begin;
        self.gpu += ns;
        match stretch.limit {
            Some(Limit::Memory) => self.memory += ns,
            Some(Limit::Compute) => self.compute += ns,
            _ => {}
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.memory += other.memory;
        self.compute += other.compute;
        self.gpu += other.gpu;
    }

    pub(crate) fn limit(&self) -> Limit {
        if self.memory.saturating_mul(2) > self.gpu {
            Limit::Memory
        } else if self.compute.saturating_mul(2) > self.gpu {
            Limit::Compute
        } else {
            Limit::Mixed
        }
    }
}

impl Graph {
    /// Walks the path of a step from its end to its begin, latest stretch first; merges adjacent
    /// equal stretches.
    pub(crate) fn walk(&self, part: usize, step: &Step, mut visit: impl FnMut(Stretch)) {
        let mut last: Option<Stretch> = None;
        let mut give = |stretch: Stretch| {
            if stretch.begin >= stretch.end {
                return;
            }
            match &mut last {
                Some(before) if before.is_continued_by(&stretch) => before.begin = stretch.begin,
                _ => {
                    if let Some(before) = last.replace(stretch) {
                        visit(before);
                    }
                }
            }
        };
        let begin = step.begin_ns;
        let mut at = step.end_ns;
        let mut node = step.node;
        if node != NONE && step.end_ns > begin {
            while at > begin {
                let Some(edge) = self.binding(node) else {
                    break;
                };
                let high = self.cost(edge, node, true);
                let arrival = self.time[edge.from as usize].saturating_add(high);
                self.stretches(node, edge, arrival, begin, &mut give);
                node = edge.from;
                at = self.time[node as usize];
            }
        }
        if at > begin {
            give(Stretch {
                begin,
                end: at,
                class: Class::Outside,
                name: NONE,
                own_name: None,
                evidence: Evidence::Sure,
                part: match node {
                    NONE => part,
                    node => self.part_of(node).unwrap_or(part),
                },
                limit: None,
            });
        }
        if let Some(last) = last {
            visit(last);
        }
    }

    /// Produces the stretches of one dependency, latest first, cut at `begin`.
    fn stretches(
        &self,
        node: u32,
        edge: Edge,
        arrival: i64,
        begin: i64,
        give: &mut impl FnMut(Stretch),
    ) {
        let (from, to) = (self.time[edge.from as usize], self.time[node as usize]);
        let (part, of) = self.node(node);
        let mut stretch = Stretch {
            begin: from.max(begin),
            end: to,
            class: Class::Unexplained,
            name: NONE,
            own_name: None,
            evidence: edge.evidence,
            part,
            limit: None,
        };
        match (edge.kind, of) {
            (EdgeKind::Work | EdgeKind::Transfer, NodeOf::End(op)) => {
                let ops = &self.parts[part].ops;
                (stretch.class, stretch.name) = (ops.class[op], ops.name[op]);
                stretch.limit = ops.limit[op];
                give(stretch);
            }
            (EdgeKind::Overlap, _) => {
                let (part, NodeOf::Start(op)) = self.node(edge.from) else {
                    return;
                };
                let ops = &self.parts[part].ops;
                (stretch.class, stretch.name) = (ops.class[op], ops.name[op]);
                stretch.limit = ops.limit[op];
                give(stretch);
            }
            (EdgeKind::Host | EdgeKind::Input, NodeOf::Point(point)) => {
                self.host_stretches(part, point, stretch, give);
            }
            (EdgeKind::Issue | EdgeKind::Call, NodeOf::Point(point)) => {
                (stretch.class, stretch.name) = self.call_class(part, point);
                give(stretch);
            }
            (EdgeKind::Arrive, _) => {
                stretch.class = Class::Comm;
                give(stretch);
            }
            (kind, of) => {
                let (class, name) = match of {
                    NodeOf::Start(op) => {
                        let class = match kind {
                            EdgeKind::Launch => Class::LaunchLatency,
                            _ => Class::Queue,
                        };
                        (class, self.parts[part].ops.name[op])
                    }
                    NodeOf::Point(_) if kind == EdgeKind::Handoff => (Class::Handoff, NONE),
                    NodeOf::Point(point) => {
                        let class = match kind {
                            EdgeKind::QueueFull => Class::QueueFull,
                            _ => Class::Sync,
                        };
                        (class, self.call_class(part, point).1)
                    }
                    _ => (Class::Unexplained, NONE),
                };
                // Time beyond the latency is unexplained.
                if arrival < to {
                    give(Stretch {
                        begin: arrival.max(begin),
                        own_name: Some(kind.name()),
                        ..stretch
                    });
                }
                give(Stretch {
                    end: arrival.min(to),
                    class,
                    name,
                    ..stretch
                });
            }
        }
    }

    fn host_stretches(
        &self,
        part: usize,
        point: usize,
        whole: Stretch,
        give: &mut impl FnMut(Stretch),
    ) {
        let is_dispatch = self.is_dispatch(part, point);
        let points = &self.parts[part].points;
        let mut end = whole.end;
        for piece in points.pieces_of(point).rev() {
            if end <= whole.begin {
                break;
            }
            let class = points.pieces.class[piece];
            let begin = points.pieces.start[piece].max(whole.begin);
            give(Stretch {
                begin,
                end,
                class: match is_dispatch {
                    true => dispatched(class),
                    false => class,
                },
                name: points.pieces.name[piece],
                ..whole
            });
            end = begin.min(end);
        }
        if end > whole.begin {
            give(Stretch {
                end,
                class: Class::HostUntraced,
                ..whole
            });
        }
    }

    pub(crate) fn segment(&self, stretch: &Stretch) -> Segment {
        let part = &self.parts[stretch.part];
        Segment {
            begin_ns: stretch.begin,
            end_ns: stretch.end,
            class: stretch.class,
            name: self.stretch_name(stretch).to_owned(),
            evidence: stretch.evidence,
            on_rank: part.rank,
        }
    }

    pub(crate) fn stretch_name(&self, stretch: &Stretch) -> &str {
        match stretch.own_name {
            Some(name) => name,
            None => self.parts[stretch.part].text(stretch.name),
        }
    }

    /// Returns the path of a step in ascending time: its segments cover the step without gap or
    /// overlap.
    pub fn path(&self, recording: usize, step: &Step) -> Vec<Segment> {
        let mut out = Vec::new();
        if recording < self.parts.len() {
            self.walk(recording, step, |stretch| out.push(self.segment(&stretch)));
        }
        out.reverse();
        out
    }
}

/// Returns the class of host time between the launches of a run.
pub(crate) fn dispatched(class: Class) -> Class {
    match class {
        Class::HostPython | Class::HostOp | Class::HostOther | Class::HostUntraced => {
            Class::Dispatch
        }
        other => other,
    }
}

impl Stretch {
    fn is_continued_by(&self, earlier: &Self) -> bool {
        self.begin == earlier.end
            && self.class == earlier.class
            && self.name == earlier.name
            && self.own_name == earlier.own_name
            && self.evidence == earlier.evidence
            && self.part == earlier.part
            && self.limit == earlier.limit
    }
}
