//! All recordings as one graph: nodes in time, dependencies, steps.

use std::collections::BTreeMap;

use gpu_time::comm::{Job, RankDigest};
use trace_model::kernel::collective::Collective;
use trace_model::parallel::both;

use crate::calls::QUIET_NS;
use crate::class::{Class, EdgeKind, Evidence, Group, Lag};
use crate::names::{NONE, place};
use crate::part::Part;
use crate::steps::{Step, steps};

/// A dependency of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) kind: EdgeKind,
    pub(crate) evidence: Evidence,
}

/// Kind and evidence in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tag(u8);

const KINDS: [EdgeKind; 15] = [
    EdgeKind::Work,
    EdgeKind::Transfer,
    EdgeKind::Overlap,
    EdgeKind::Event,
    EdgeKind::Launch,
    EdgeKind::Stream,
    EdgeKind::Arrive,
    EdgeKind::Sync,
    EdgeKind::Spin,
    EdgeKind::QueueFull,
    EdgeKind::Handoff,
    EdgeKind::Issue,
    EdgeKind::Call,
    EdgeKind::Input,
    EdgeKind::Host,
];

impl Tag {
    const DEAD: Self = Self(u8::MAX);

    fn new(kind: EdgeKind, evidence: Evidence) -> Self {
        Self(kind as u8 | (evidence as u8) << 4)
    }

    fn kind(self) -> Option<EdgeKind> {
        KINDS.get(usize::from(self.0 & 15)).copied()
    }

    fn evidence(self) -> Evidence {
        match self.0 >> 4 {
            0 => Evidence::Sure,
            1 => Evidence::Guess,
            _ => Evidence::Timing,
        }
    }
}

/// Kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeOf {
    /// Begin of an operation.
    Start(usize),
    /// End of an operation.
    End(usize),
    /// A point of a host thread.
    Point(usize),
    /// The joint arrival of a collective.
    Arrival,
}

/// Dependency graph of the recordings of one job, with its steps.
///
/// Nodes are begins and ends of GPU activities and calls; all times are nanoseconds of the clock of
/// the first rank.
#[derive(Debug)]
pub struct Graph {
    pub(crate) parts: Vec<Part>,
    /// Number of the first node of each part, then that of the first arrival, then the number of nodes.
    pub(crate) offsets: Vec<u32>,
    pub(crate) time: Vec<i64>,
    first_edge: Vec<u32>,
    from: Vec<u32>,
    tags: Vec<Tag>,
    /// Part of each node; [`NONE`] for a joint arrival, which belongs to no part.
    part: Vec<u32>,
    /// Unexplained time of each node: its recorded time less its latest arrival, with the costs of its dependencies.
    pub(crate) residual: Vec<i64>,
    /// Cost of each dependency: latencies are typical, but for those that explain when a start followed them.
    costs: Vec<i64>,
    /// Group of each cost; `None` if it has several groups or none.
    groups: Vec<Option<Group>>,
    /// Nodes in topological order, which is also ascending in time.
    pub(crate) order: Vec<u32>,
    /// Steps of each part.
    pub(crate) steps: Vec<Vec<Step>>,
    /// Bytes that each collective moves over the slowest link: by part, pairs of operation and
    /// bytes, ascending.
    pub(crate) link_bytes: Vec<Vec<(u32, f64)>>,
    /// Edges by kind and evidence.
    pub(crate) counts: BTreeMap<(EdgeKind, Evidence), u64>,
    pub(crate) contradicted: u64,
    /// Number of launches whose work starts before them.
    pub(crate) early_starts: u64,
    /// Number of collectives that several ranks share.
    pub(crate) joined: u64,
}

impl Graph {
    /// Joins the recordings of one job; `parts` are in order of rank, and `job` has their
    /// collectives and clocks in the same order.
    ///
    /// Cost: n log n in the number of operations and calls; about 40 bytes for each node and 5 for each dependency.
    pub fn new(mut parts: Vec<Part>, job: Option<(&[RankDigest], &Job)>) -> Self {
        if let Some((digests, job)) = job {
            align(&mut parts, digests, job);
        }
        let mut offsets = vec![0_u32];
        for part in &parts {
            let last = offsets.last().copied().unwrap_or(0);
            offsets.push(last.saturating_add(place(part.nodes())));
        }
        let mut graph = Self {
            steps: Vec::new(),
            time: Vec::new(),
            first_edge: Vec::new(),
            from: Vec::new(),
            tags: Vec::new(),
            part: Vec::new(),
            residual: Vec::new(),
            costs: Vec::new(),
            groups: Vec::new(),
            order: Vec::new(),
            link_bytes: Vec::new(),
            counts: BTreeMap::new(),
            contradicted: parts.iter().map(|part| part.contradicted).sum(),
            early_starts: 0,
            joined: 0,
            parts,
            offsets,
        };
        for (at, part) in graph.parts.iter().enumerate() {
            let nodes = 0..place(part.nodes());
            graph.time.extend(nodes.map(|node| part.time(node)));
            graph.part.resize(graph.time.len(), place(at));
        }
        let joins = match job {
            Some((digests, job)) => graph.join(digests, job),
            None => Vec::new(),
        };
        graph.offsets.push(place(graph.time.len()));
        graph.part.resize(graph.time.len(), NONE);
        graph.connect(&joins);
        graph.sort();
        graph.price();
        let each = graph.parts.iter().zip(&graph.offsets);
        graph.steps = each
            .map(|(part, offset)| steps(part, &part.assigned, *offset))
            .collect();
        graph
    }

    /// Finds the collectives that several ranks share, and creates a node for each joint arrival.
    fn join(&mut self, digests: &[RankDigest], job: &Job) -> Vec<Vec<(usize, u32)>> {
        // The kernels of a digest are the collective kernels of the part, in the same order.
        let ops: Vec<Vec<u32>> = self
            .parts
            .iter()
            .map(|part| {
                let comm = (0..part.ops.len()).filter(|op| part.ops.is_comm(*op));
                comm.map(place).collect()
            })
            .collect();
        self.link_bytes = digests
            .iter()
            .zip(&ops)
            .map(|(digest, ops)| {
                let runs = digest.runs.iter().zip(ops);
                let known = runs.filter_map(|(run, op)| {
                    let what: &Collective = digest.what(run)?;
                    Some((*op, what.busbw(1)?))
                });
                known.collect()
            })
            .collect();
        let mut joins = Vec::new();
        for runs in shared_runs(job) {
            let runs = runs.into_iter();
            let mut runs: Vec<(usize, u32)> = runs
                .filter_map(|(member, run)| Some((member, *ops.get(member)?.get(run)?)))
                .collect();
            let start = |&(member, op): &(usize, u32)| self.parts[member].ops.start[op as usize];
            let Some(arrival) = runs.iter().map(start).max() else {
                continue;
            };
            // A rank that ends before another arrives did not wait for it.
            let before = runs.len();
            runs.retain(|(member, op)| self.parts[*member].ops.end[*op as usize] >= arrival);
            self.contradicted += (before - runs.len()) as u64;
            if runs.len() > 1 {
                self.time.push(arrival);
                joins.push(runs);
            }
        }
        self.joined = joins.len() as u64;
        joins
    }

    /// Stores the dependencies grouped by their target node.
    fn connect(&mut self, joins: &[Vec<(usize, u32)>]) {
        let nodes = self.time.len();
        let arrivals = self.offsets.get(self.parts.len()).copied().unwrap_or(0);
        // The work of these nodes is transfer after the joint arrival.
        let mut shared: rustc_hash::FxHashMap<u32, u32> = rustc_hash::FxHashMap::default();
        for (at, runs) in joins.iter().enumerate() {
            for (member, op) in runs {
                let end = self.offsets[*member] + 2 * op + 1;
                shared.insert(end, arrivals + place(at));
            }
        }
        let mut list: Vec<(u32, u32, Tag)> = Vec::new();
        for (part, offset) in self.parts.iter().zip(&self.offsets) {
            let early = part.edges(|to, from, kind, evidence| {
                let (to, from) = (to + offset, from + offset);
                match shared.get(&to) {
                    Some(arrival) if kind == EdgeKind::Work => {
                        list.push((to, *arrival, Tag::new(EdgeKind::Transfer, evidence)));
                        list.push((*arrival, from, Tag::new(EdgeKind::Arrive, evidence)));
                    }
                    _ => list.push((to, from, Tag::new(kind, evidence))),
                }
            });
            self.early_starts += early;
            self.contradicted += early;
        }
        // Counting sort: the list is long, and nodes are small integers.
        self.first_edge = vec![0; nodes + 1];
        for (to, ..) in &list {
            self.first_edge[*to as usize + 1] += 1;
        }
        for node in 0..nodes {
            self.first_edge[node + 1] += self.first_edge[node];
        }
        let mut next = self.first_edge.clone();
        self.from = vec![0; list.len()];
        self.tags = vec![Tag::DEAD; list.len()];
        for (to, from, tag) in list {
            let slot = &mut next[to as usize];
            self.from[*slot as usize] = from;
            self.tags[*slot as usize] = tag;
            *slot += 1;
            if let Some(kind) = tag.kind() {
                *self.counts.entry((kind, tag.evidence())).or_default() += 1;
            }
        }
    }

    /// Orders nodes by time, nodes of equal time by their dependencies; drops a dependency that
    /// would close a cycle.
    fn sort(&mut self) {
        let time = &self.time;
        let mut order: Vec<u32> = (0..place(time.len())).collect();
        let key = |node: &u32| (time[*node as usize], *node);
        let (some, others) = order.split_at_mut(time.len() / 2);
        both(
            time.len(),
            || some.sort_unstable_by_key(key),
            || others.sort_unstable_by_key(key),
        );
        // The stable sort merges the two halves.
        order.sort_by_key(key);
        let mut from = 0;
        let mut state = vec![0_u8; self.time.len()];
        while from < order.len() {
            let at = self.time[order[from] as usize];
            let mut to = from + 1;
            while to < order.len() && self.time[order[to] as usize] == at {
                to += 1;
            }
            if to - from > 1 {
                let group = order[from..to].to_vec();
                let mut sorted = Vec::with_capacity(group.len());
                for node in group {
                    self.visit(node, &mut state, &mut sorted);
                }
                order[from..to].copy_from_slice(&sorted);
            }
            from = to;
        }
        self.order = order;
    }

    /// Appends a node after the nodes of equal time that it depends on.
    fn visit(&mut self, node: u32, state: &mut [u8], out: &mut Vec<u32>) {
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        if state[node as usize] != 0 {
            return;
        }
        let at = self.time[node as usize];
        state[node as usize] = OPEN;
        let mut stack = vec![(node, self.first_edge[node as usize])];
        while let Some((node, edge)) = stack.last_mut() {
            if *edge == self.first_edge[*node as usize + 1] {
                state[*node as usize] = DONE;
                out.push(*node);
                stack.pop();
                continue;
            }
            let here = *edge as usize;
            *edge += 1;
            let from = self.from[here];
            if self.time[from as usize] != at || self.tags[here] == Tag::DEAD {
                continue;
            }
            match state[from as usize] {
                0 => {
                    state[from as usize] = OPEN;
                    stack.push((from, self.first_edge[from as usize]));
                }
                OPEN => {
                    self.tags[here] = Tag::DEAD;
                    self.contradicted += 1;
                }
                _ => {}
            }
        }
    }

    /// Returns the dependencies of a node.
    pub(crate) fn edges(&self, node: u32) -> impl Iterator<Item = Edge> + '_ {
        self.edges_at(node).map(|(_, edge)| edge)
    }

    /// Returns the dependencies of a node, each with its index.
    pub(crate) fn edges_at(&self, node: u32) -> impl Iterator<Item = (usize, Edge)> + '_ {
        let from = self.first_edge[node as usize] as usize;
        let to = self.first_edge[node as usize + 1] as usize;
        (from..to).filter_map(|at| {
            let tag = self.tags[at];
            if tag == Tag::DEAD {
                return None;
            }
            let edge = Edge {
                from: self.from[at],
                kind: tag.kind()?,
                evidence: tag.evidence(),
            };
            Some((at, edge))
        })
    }

    /// Returns the part of a node; `None` for a joint arrival.
    pub(crate) fn part_of(&self, node: u32) -> Option<usize> {
        let part = self.part.get(node as usize).copied()?;
        (part != NONE).then_some(part as usize)
    }

    /// Stores the cost of each dependency with its group, and the unexplained time of each node.
    fn price(&mut self) {
        let nodes = self.time.len();
        let half = nodes / 2;
        let cut = self.first_edge.get(half).copied().unwrap_or(0) as usize;
        let mut costs = vec![0; self.from.len()];
        let mut groups = vec![None; self.from.len()];
        let mut residual = vec![0; nodes];
        {
            let costs = costs.split_at_mut(cut);
            let groups = groups.split_at_mut(cut);
            let residual = residual.split_at_mut(half);
            let graph = &*self;
            both(
                nodes,
                || graph.price_nodes(0, costs.0, groups.0, residual.0),
                || graph.price_nodes(half, costs.1, groups.1, residual.1),
            );
        }
        (self.costs, self.groups, self.residual) = (costs, groups, residual);
    }

    /// Fills in what [`Graph::price`] stores for the nodes from `begin` on, one for each of `residual`.
    fn price_nodes(
        &self,
        begin: usize,
        costs: &mut [i64],
        groups: &mut [Option<Group>],
        residual: &mut [i64],
    ) {
        let base = self.first_edge[begin] as usize;
        for (node, residual) in (begin..).zip(residual) {
            let (from, to) = (
                self.first_edge[node] as usize,
                self.first_edge[node + 1] as usize,
            );
            let node = place(node);
            for at in from..to {
                let Some(kind) = self.tags[at].kind() else {
                    continue;
                };
                let edge = Edge {
                    from: self.from[at],
                    kind,
                    evidence: self.tags[at].evidence(),
                };
                costs[at - base] = self.cost(edge, node, false);
                groups[at - base] = self.group_of(edge, node);
            }
            *residual = self.take_in_excess(node, &mut costs[from - base..to - base]);
        }
    }

    /// Returns the group of the cost of a dependency.
    fn group_of(&self, edge: Edge, to: u32) -> Option<Group> {
        let (part, of) = self.node(to);
        match (edge.kind, of) {
            (EdgeKind::Work | EdgeKind::Transfer, NodeOf::End(op)) => {
                Some(self.parts[part].ops.class[op].group())
            }
            (EdgeKind::Overlap, _) => match self.node(edge.from) {
                (part, NodeOf::Start(op)) => Some(self.parts[part].ops.class[op].group()),
                _ => None,
            },
            (EdgeKind::Stream | EdgeKind::Event | EdgeKind::QueueFull, _) => Some(Group::Gpu),
            (EdgeKind::Launch, _) => Some(Group::Launch),
            (EdgeKind::Sync | EdgeKind::Spin, _) => Some(Group::Sync),
            (EdgeKind::Issue | EdgeKind::Call, NodeOf::Point(point)) => {
                Some(self.call_class(part, point).0.group())
            }
            _ => None,
        }
    }

    /// Returns the cost and the group of the dependency at an index of [`Graph::edges_at`]; the
    /// group is `None` unless there is exactly one.
    pub(crate) fn price_of(&self, at: usize) -> (i64, Option<Group>) {
        (self.costs[at], self.groups[at])
    }

    /// Returns the recorded time of a node less its latest arrival. Where the binding latency explains that time up to its high
    /// value, adds it to the cost of that latency, one of the `costs` of its dependencies: where something else arrives later
    /// under a change, a start no longer waits for it.
    fn take_in_excess(&self, node: u32, costs: &mut [i64]) -> i64 {
        let recorded = self.time[node as usize];
        let first = self.first_edge[node as usize] as usize;
        let arrivals = self
            .edges_at(node)
            .map(|(at, edge)| self.time[edge.from as usize].saturating_add(costs[at - first]));
        let latest = arrivals.max().unwrap_or(recorded);
        let residual = recorded.saturating_sub(latest).max(0);
        if residual == 0 {
            return 0;
        }
        let Some((at, edge)) = self
            .binding_at(node)
            .filter(|(_, edge)| edge.kind.delays_start())
        else {
            return residual;
        };
        let excess = self.cost(edge, node, true) - self.cost(edge, node, false);
        match residual <= excess {
            true => {
                costs[at - first] += residual;
                0
            }
            // The latency does not explain the start: nothing tells what it waited for.
            false => residual,
        }
    }

    /// Returns the part and kind of a node.
    pub(crate) fn node(&self, node: u32) -> (usize, NodeOf) {
        let Some(part) = self.part_of(node) else {
            return (0, NodeOf::Arrival);
        };
        let own = (node - self.offsets[part]) as usize;
        let ops = self.parts[part].ops.len();
        let of = match own < 2 * ops {
            true if own.is_multiple_of(2) => NodeOf::Start(own / 2),
            true => NodeOf::End(own / 2),
            false => NodeOf::Point(own - 2 * ops),
        };
        (part, of)
    }

    pub(crate) fn start_node(&self, part: usize, op: usize) -> u32 {
        self.offsets[part] + place(2 * op)
    }

    /// Returns the recorded time of a dependency.
    pub(crate) fn recorded(&self, edge: Edge, to: u32) -> i64 {
        self.time[to as usize].saturating_sub(self.time[edge.from as usize])
    }

    /// Returns a latency of the part of a node.
    pub(crate) fn lag(&self, node: u32, lag: Lag) -> crate::lags::LagTime {
        let part = self.part_of(node).unwrap_or(0);
        self.parts[part].lags.of(lag)
    }

    /// Returns the latency that a dependency costs, if any.
    pub(crate) fn lag_of(&self, edge: Edge, to: u32) -> Option<Lag> {
        match edge.kind {
            EdgeKind::Stream => {
                let (part, NodeOf::Start(op)) = self.node(to) else {
                    return Some(Lag::Stream);
                };
                let ops = &self.parts[part].ops;
                Some(ops.gap_lag(op))
            }
            kind => kind.lag(),
        }
    }

    /// Returns the cost of a dependency: the recorded time, for latencies at most the typical one,
    /// or the high one if `high`.
    pub(crate) fn cost(&self, edge: Edge, to: u32, high: bool) -> i64 {
        let kind = self.lag_of(edge, to);
        let recorded = self.recorded(edge, to);
        match kind {
            Some(lag) => {
                let lag = self.lag(to, lag);
                recorded.min(if high { lag.high_ns } else { lag.typical_ns })
            }
            // A call that waited returns as soon as the wait is over; a collective begins with its
            // last rank.
            None if matches!(edge.kind, EdgeKind::Call | EdgeKind::Arrive) => 0,
            // When neither thread does anything for longer, nothing tells what they wait for.
            None if edge.kind == EdgeKind::Handoff => recorded.min(QUIET_NS),
            None => recorded,
        }
    }

    /// Returns the dependency with the latest arrival at a node, with typical latencies. Of equal
    /// arrivals the first kind counts.
    pub(crate) fn binding(&self, node: u32) -> Option<Edge> {
        self.binding_at(node).map(|(_, edge)| edge)
    }

    /// Returns [`Graph::binding`] with its index.
    fn binding_at(&self, node: u32) -> Option<(usize, Edge)> {
        let arrivals = self.edges_at(node).map(|(index, edge)| {
            let at = self.time[edge.from as usize].saturating_add(self.cost(edge, node, false));
            (index, edge, at)
        });
        // Keeps the first of equal arrivals unless a later one is of a preferred kind.
        let latest = arrivals.reduce(|best, next| {
            let better =
                (next.2, std::cmp::Reverse(next.1.kind)) > (best.2, std::cmp::Reverse(best.1.kind));
            if better { next } else { best }
        });
        latest.map(|(index, edge, _)| (index, edge))
    }

    /// Returns the recordings, to be joined with others.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Returns the time that the paths of the steps of a recording spend on each rank.
    pub fn path_by_rank(&self, recording: usize) -> BTreeMap<u32, i64> {
        let mut out = BTreeMap::new();
        for step in self.steps(recording) {
            self.walk(recording, step, |stretch| {
                let rank = self.parts[stretch.part].rank;
                *out.entry(rank).or_default() += stretch.end - stretch.begin;
            });
        }
        out
    }

    /// Returns the ranks, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().map(|part| part.rank)
    }

    /// Returns the steps of the recording at this index.
    pub fn steps(&self, recording: usize) -> &[Step] {
        self.steps.get(recording).map_or(&[], Vec::as_slice)
    }

    /// Returns the class and name of the time of a call.
    pub(crate) fn call_class(&self, part: usize, point: usize) -> (Class, u32) {
        let part = &self.parts[part];
        match part.points.call[point] {
            NONE => (Class::HostUntraced, NONE),
            call => (
                part.host.calls.class(call as usize),
                part.host.calls.name[call as usize],
            ),
        }
    }

    /// Returns the name of the work or call of a node, as an index into the names of its part.
    pub(crate) fn name_of(&self, part: usize, of: NodeOf) -> u32 {
        match of {
            NodeOf::Start(op) => self.parts[part].ops.name[op],
            NodeOf::Point(point) => self.call_class(part, point).1,
            _ => NONE,
        }
    }

    /// Returns `true` if the host time before a node lies between two launches of one run.
    pub(crate) fn is_dispatch(&self, part: usize, point: usize) -> bool {
        self.parts[part].dispatch.get(point) == Some(&true)
    }
}

/// Returns the runs (rank, run) of each collective that several ranks share.
///
/// Uses the matches of `comm`. In a group without any match, since a few collectives have no
/// rhythm, the n-th collectives of all ranks belong together if all ranks have equally many.
fn shared_runs(job: &Job) -> Vec<Vec<(usize, usize)>> {
    let mut out = Vec::new();
    let mut alone: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    let mut matched: Vec<usize> = Vec::new();
    for collective in job.collectives.iter().filter(|c| c.synchronising) {
        let runs = &collective.matched.runs;
        if runs.len() > 1 {
            matched.push(collective.matched.group);
            let is_known = |member: usize| job.clocks.get(member).is_some_and(Option::is_some);
            out.push(runs.iter().copied().filter(|run| is_known(run.0)).collect());
        }
        if let [(member, run)] = runs.as_slice() {
            let group = alone.entry(collective.matched.group).or_default();
            group.entry(*member).or_default().push(*run);
        }
    }
    for (group, members) in alone {
        let count = members.values().map(Vec::len).max().unwrap_or(0);
        let is_even = members.values().all(|runs| runs.len() == count);
        if members.len() < 2 || !is_even || matched.contains(&group) {
            continue;
        }
        for nth in 0..count {
            let runs = members.iter();
            out.push(
                runs.filter_map(|(member, runs)| Some((*member, *runs.get(nth)?)))
                    .collect(),
            );
        }
    }
    out
}

/// Converts the times of all ranks to the clock of the first one.
fn align(parts: &mut [Part], digests: &[RankDigest], job: &Job) {
    let base = digests.first().map_or(0, |digest| digest.base_time_ns);
    for ((part, digest), clock) in parts.iter_mut().zip(digests).zip(&job.clocks) {
        let own_base = digest.base_time_ns;
        match clock {
            Some(clock) if clock.fit.samples > 0 => {
                part.shift(|at| {
                    clock
                        .fit
                        .to_reference(at.saturating_add(own_base))
                        .saturating_sub(base)
                });
            }
            _ if own_base != base => {
                part.shift(|at| at.saturating_add(own_base).saturating_sub(base));
            }
            _ => {}
        }
    }
}
