//! Computes the effect of a change on each cost of a graph.

use trace_model::kernel::KernelClass;

use crate::calls::CallKind;
use crate::change::{Action, Change, Selector, Target};
use crate::class::{Class, EdgeKind, Group, Lag};
use crate::graph::{Edge, Graph, NodeOf};
use crate::lags::LagTime;
use crate::names::{NONE, place};
use crate::points::Role;
use crate::prepared::{Fusion, fusion, selected_names, submits_later, to_median};
use crate::replay::{Mode, Window};

/// Assumed time of a graph launch, in nanoseconds.
const GRAPH_LAUNCH_NS: i64 = 10_000;

/// The place where a cost arises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) part: usize,
    pub(crate) of: NodeOf,
    pub(crate) node: u32,
}

/// How large a latency between work of one stream may be where the trace does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    /// Half of the default.
    Low,
    /// The high value of the default.
    High,
}

/// A factor for the selected time.
struct Rule<'c> {
    target: Target,
    selector: &'c Selector,
    factor: f64,
    /// `true` for each selected name, by part and name.
    names: Vec<Vec<bool>>,
}

/// A change, prepared for a graph.
pub(crate) struct Effects<'c> {
    rules: Vec<Rule<'c>>,
    link: Option<f64>,
    graph: bool,
    asynchronous: bool,
    /// `true` if the thread of a call submits work after it, by part and call.
    submits_later: Vec<Vec<bool>>,
    fusions: Vec<Fusion>,
    /// Factor by part.
    ranks: Vec<f64>,
    /// By part: factor of each stretch of time, as its recorded end and the factor, ascending.
    medians: Vec<Vec<(i64, f64)>>,
    group: Option<Group>,
    /// `true` if the change affects at most one group.
    is_of_groups: bool,
    /// Replaces a gap between work of a stream that the trace does not show.
    gap: Option<Gap>,
    /// Number of matches found before the replay.
    pub(crate) touched: u64,
}

impl<'c> Effects<'c> {
    pub(crate) fn new(graph: &Graph, change: &'c Change, window: Window) -> Self {
        let mut effects = Self {
            rules: Vec::new(),
            link: None,
            graph: false,
            asynchronous: false,
            submits_later: Vec::new(),
            fusions: Vec::new(),
            ranks: vec![1.0; graph.parts.len()],
            medians: vec![Vec::new(); graph.parts.len()],
            group: None,
            is_of_groups: change.actions.is_empty(),
            gap: None,
            touched: 0,
        };
        for action in &change.actions {
            match action {
                Action::Scale {
                    target,
                    selector,
                    factor,
                } => effects.rules.push(Rule {
                    target: *target,
                    selector,
                    factor: *factor,
                    names: selected_names(graph, selector),
                }),
                Action::Link(speed) => effects.link = Some(*speed),
                Action::Graph => effects.graph = true,
                Action::Async => {
                    effects.asynchronous = true;
                    effects.submits_later = graph.parts.iter().map(submits_later).collect();
                }
                Action::Fuse { name, factor } => {
                    let fusion = fusion(graph, name, *factor);
                    effects.fusions.push(fusion);
                }
                Action::Rank { rank, factor } => {
                    let at = graph.parts.iter().position(|part| part.rank == *rank);
                    if let Some(at) = at {
                        match factor {
                            Some(factor) => effects.ranks[at] *= factor,
                            None => effects.medians[at] = to_median(graph, at, window),
                        }
                        effects.touched += 1;
                    }
                }
            }
        }
        effects
    }

    /// Returns the same effects with another gap between work of a stream, where the trace does not show that gap.
    pub(crate) fn with_gap(mut self, gap: Gap) -> Self {
        self.gap = Some(gap);
        self
    }

    /// Returns the cost of a dependency along a stream with the other gap; `None` if the gap is known or shows in this start.
    fn other_gap(&self, graph: &Graph, edge: Edge, scope: Scope) -> Option<i64> {
        let gap = self.gap.filter(|_| edge.kind == EdgeKind::Stream)?;
        let node = scope.node;
        let lag = self.lag_of(graph, edge, scope)?;
        let in_graph = self.in_graph(graph, scope);
        let is_binding = || graph.binding(node).is_some_and(|binding| binding == edge);
        if !lag.is_assumed() || (!in_graph && is_binding()) {
            return None;
        }
        let other = match gap {
            Gap::Low => lag.typical_ns / 2,
            Gap::High => lag.high_ns,
        };
        // In the recording it is over when the binding dependency arrives.
        let explained = graph.recorded(edge, node) - graph.residual[node as usize];
        Some(other.min(explained))
    }

    /// Returns the effects of a change in which a group takes no time.
    pub(crate) fn without(graph: &Graph, group: Group) -> Self {
        Self {
            rules: Vec::new(),
            link: None,
            graph: false,
            asynchronous: false,
            submits_later: Vec::new(),
            fusions: Vec::new(),
            ranks: vec![1.0; graph.parts.len()],
            medians: vec![Vec::new(); graph.parts.len()],
            group: Some(group),
            is_of_groups: true,
            gap: None,
            touched: 0,
        }
    }

    /// Returns the product of the factors of all rules for `targets` that select the name or class,
    /// and whether there are any.
    fn factor(
        &self,
        targets: &[Target],
        part: usize,
        name: u32,
        class: Class,
        word: &str,
    ) -> (f64, bool) {
        let mut found = (1.0, false);
        for rule in self
            .rules
            .iter()
            .filter(|rule| targets.contains(&rule.target))
        {
            let selects = match rule.selector {
                Selector::All => true,
                Selector::Class(wanted) => match class {
                    Class::Kernel(kernel) => {
                        kernel.name() == wanted
                            || class.name() == *wanted
                            // `gemm` includes the matrix products of experts.
                            || (wanted == "gemm" && kernel == KernelClass::MoeGemm)
                    }
                    class => class.name() == *wanted,
                },
                Selector::Part(part) => *part == word,
                Selector::Name(_) | Selector::Exact(_) => {
                    let names = rule.names.get(part);
                    names.and_then(|names| names.get(name as usize)) == Some(&true)
                }
            };
            if selects {
                found = (found.0 * rule.factor, true);
            }
        }
        found
    }

    /// Returns the factor of a class: 0 if it belongs to the group that takes no time.
    fn group_factor(&self, class: Class) -> (f64, bool) {
        let Some(group) = self.group else {
            return (1.0, false);
        };
        let is_in = match group {
            // A handover is not code that could be faster.
            Group::Host => {
                class == Class::Dispatch || (class.group() == group && class != Class::Handoff)
            }
            group => class.group() == group,
        };
        match is_in {
            true => (0.0, true),
            false => (1.0, false),
        }
    }

    /// Returns the factor of the rank of a node.
    fn rank(&self, graph: &Graph, scope: Scope) -> f64 {
        let steps = &self.medians[scope.part];
        let at = graph.time[scope.node as usize];
        let step = steps.get(steps.partition_point(|step| step.0 < at));
        self.ranks[scope.part] * step.map_or(1.0, |step| step.1)
    }

    /// Returns the recorded cost of a dependency if the change plainly does not affect it.
    pub(crate) fn unchanged(&self, graph: &Graph, at: usize, edge: Edge) -> Option<i64> {
        if !self.is_of_groups {
            return None;
        }
        let (cost, group) = graph.price_of(at);
        let is_other = match (edge.kind, group) {
            (EdgeKind::Input, _) => false,
            (EdgeKind::Host, _) => matches!(
                self.group,
                None | Some(Group::Gpu | Group::Comm | Group::Sync | Group::Unknown)
            ),
            (_, Some(group)) => self.group != Some(group),
            _ => false,
        };
        is_other.then_some(cost)
    }

    /// Returns the new cost of a dependency, and whether the change affects it; `None` if the
    /// dependency is removed.
    pub(crate) fn cost(
        &self,
        graph: &Graph,
        (at, edge): (usize, Edge),
        scope: Scope,
        mode: Mode,
        window: Window,
    ) -> Option<(i64, bool)> {
        let part = &graph.parts[scope.part];
        let recorded = graph.recorded(edge, scope.node);
        // Time before the window stays as recorded.
        let before = window
            .begin_ns
            .saturating_sub(graph.time[edge.from as usize])
            .clamp(0, recorded.max(0));
        let both = |a: (f64, bool), b: (f64, bool)| (a.0 * b.0, a.1 || b.1);
        let scaled = |cost: i64, (factor, touched): (f64, bool)| {
            let rank = self.rank(graph, scope);
            let before = before.min(cost);
            Some((before + scale(cost - before, factor * rank), touched))
        };
        // What a latency takes beyond the typical time, and its factor.
        let excess = match edge.kind.delays_start() {
            true => graph.price_of(at).0 - graph.cost(edge, scope.node, false),
            false => 0,
        };
        let excess = match excess {
            0 => (0, (1.0, false)),
            excess => (excess, self.unexplained(graph, scope)),
        };
        let is_touched = (1.0, excess.1.1);
        let latency = || {
            let lag = self.lag_of(graph, edge, scope);
            match (lag, mode) {
                (Some(lag), Mode::Model) => lag.typical_ns,
                (Some(lag), _) if self.other_gap(graph, edge, scope).is_none() => {
                    let excess = match self.in_graph(graph, scope) {
                        true => 0,
                        false => scale(excess.0, excess.1.0),
                    };
                    recorded.min(lag.typical_ns).saturating_add(excess)
                }
                _ => self.other_gap(graph, edge, scope).unwrap_or(recorded),
            }
        };
        match (edge.kind, scope.of) {
            (EdgeKind::Work, NodeOf::End(op)) => self.work(graph, scope.part, op, recorded, scaled),
            (EdgeKind::Transfer, NodeOf::End(op)) => {
                let (name, class) = (part.ops.name[op], part.ops.class[op]);
                let factor = self.factor(&[Target::Comm], scope.part, name, class, "transfer");
                let factor = both(factor, self.group_factor(class));
                let linked = self.linked(graph, scope.part, op);
                let cost = scale(linked.unwrap_or(recorded), factor.0);
                Some((cost, factor.1 || linked.is_some()))
            }
            (EdgeKind::Overlap, NodeOf::Start(_)) => {
                let NodeOf::Start(ahead) = graph.node(edge.from).1 else {
                    return Some((recorded, false));
                };
                self.work(graph, scope.part, ahead, recorded, scaled)
            }
            (EdgeKind::Stream | EdgeKind::Event, NodeOf::Start(op)) => {
                if edge.kind == EdgeKind::Stream && self.joins(scope.part, op) {
                    return Some((0, true));
                }
                let name = part.ops.name[op];
                let factor = self.factor(&[Target::Gap], scope.part, name, Class::Queue, "");
                let factor = both(both(factor, is_touched), self.group_factor(Class::Queue));
                scaled(latency(), factor)
            }
            (EdgeKind::Launch, NodeOf::Start(op)) => {
                if self.joins(scope.part, op) {
                    return None;
                }
                let class = Class::LaunchLatency;
                let name = part.ops.name[op];
                let factor = self.factor(&[Target::Launch], scope.part, name, class, "latency");
                let factor = both(both(factor, is_touched), self.group_factor(class));
                scaled(latency(), factor)
            }
            (EdgeKind::Sync | EdgeKind::Spin, NodeOf::Point(point)) => {
                let call = part.points.call[point];
                let later = || match call {
                    NONE => true,
                    call => self.submits_later[scope.part][call as usize],
                };
                if self.asynchronous && later() {
                    return None;
                }
                let name = graph.call_class(scope.part, point).1;
                let factor = self.factor(&[Target::Sync], scope.part, name, Class::Sync, "");
                scaled(latency(), both(factor, self.group_factor(Class::Sync)))
            }
            (EdgeKind::QueueFull, _) => scaled(latency(), self.group_factor(Class::QueueFull)),
            (EdgeKind::Handoff, _) => scaled(
                graph.cost(edge, scope.node, false),
                self.group_factor(Class::Handoff),
            ),
            (EdgeKind::Issue | EdgeKind::Call, NodeOf::Point(point)) => {
                self.call(graph, edge, scope, point, scaled)
            }
            (EdgeKind::Input, NodeOf::Point(point)) => {
                let pieces = part.points.pieces_of(point);
                let factor = self.waiting(graph, scope.part, pieces.start);
                match factor.1 {
                    true => scaled(recorded, factor),
                    // It ends when something arrives.
                    false => Some((0, false)),
                }
            }
            (EdgeKind::Host, NodeOf::Point(point)) => self.host(graph, edge, scope, point, window),
            (EdgeKind::Arrive, _) => Some((0, false)),
            _ => Some((recorded, false)),
        }
    }

    /// Returns `true` for the start of work that follows other work of its run, where the launches of the run become one graph.
    fn in_graph(&self, graph: &Graph, scope: Scope) -> bool {
        let NodeOf::Start(op) = scope.of else {
            return false;
        };
        let part = &graph.parts[scope.part];
        let run_of = |op: u32| {
            let call = *part.ops.call.get(op as usize)?;
            part.run.get(call as usize).copied()
        };
        let run = run_of(place(op)).filter(|run| *run != NONE);
        self.graph && run.is_some() && run == run_of(part.ops.ahead[op])
    }

    /// Returns the latency of a dependency: gaps inside a graph are those of graphs.
    fn lag_of(&self, graph: &Graph, edge: Edge, scope: Scope) -> Option<LagTime> {
        let lag = match edge.kind {
            EdgeKind::Stream if self.in_graph(graph, scope) => Lag::Graph,
            _ => graph.lag_of(edge, scope.node)?,
        };
        Some(graph.lag(scope.node, lag))
    }

    fn joins(&self, part: usize, op: usize) -> bool {
        let mut fusions = self.fusions.iter();
        fusions.any(|fusion| fusion.joins[part][op])
    }

    /// Returns `true` if the point belongs to a launch whose kernel is fused into the one ahead.
    fn launches_fused(&self, graph: &Graph, part: usize, point: usize) -> bool {
        if self.fusions.is_empty() {
            return false;
        }
        let points = &graph.parts[part].points;
        let calls = &graph.parts[part].host.calls;
        let call = points.call[point];
        if call == NONE || calls.kind[call as usize] != CallKind::Launch {
            return false;
        }
        let op = calls.first_op[call as usize];
        op != NONE && self.joins(part, op as usize)
    }

    /// Returns the bytes of a collective divided by the speed of the link, in nanoseconds.
    fn linked(&self, graph: &Graph, part: usize, op: usize) -> Option<i64> {
        let speed = self.link?;
        let known = graph.link_bytes.get(part)?;
        let at = known
            .binary_search_by_key(&op, |entry| entry.0 as usize)
            .ok()?;
        Some(nearest(known.get(at)?.1 / speed))
    }

    fn work(
        &self,
        graph: &Graph,
        part: usize,
        op: usize,
        recorded: i64,
        scaled: impl Fn(i64, (f64, bool)) -> Option<(i64, bool)>,
    ) -> Option<(i64, bool)> {
        let ops = &graph.parts[part].ops;
        let (name, class) = (ops.name[op], ops.class[op]);
        let (target, word) = match class {
            Class::Kernel(_) => (Target::Kernel, ""),
            Class::MemcpyH2d => (Target::Memcpy, "h2d"),
            Class::MemcpyD2h => (Target::Memcpy, "d2h"),
            Class::MemcpyD2d => (Target::Memcpy, "d2d"),
            Class::Memset => (Target::Memset, ""),
            // A collective recorded on one rank alone does not separate wait time from transfer.
            _ => (Target::Comm, ""),
        };
        let mut factor = self.factor(&[target], part, name, class, word);
        for fusion in &self.fusions {
            if fusion.selected[part][op] {
                factor = (factor.0 * fusion.factor, true);
            }
        }
        let group = self.group_factor(class);
        let factor = (factor.0 * group.0, factor.1 || group.1);
        if class == Class::Comm
            && let Some(linked) = self.linked(graph, part, op)
        {
            return Some((scale(linked, factor.0), true));
        }
        scaled(recorded, factor)
    }

    /// Returns when the transfer of a collective begins: at the joint arrival, or earlier if the
    /// wait time is cut.
    pub(crate) fn transfer_base(
        &self,
        graph: &Graph,
        edge: Edge,
        scope: Scope,
        time: &[i64],
    ) -> i64 {
        let arrival = time[edge.from as usize];
        let NodeOf::End(op) = scope.of else {
            return arrival;
        };
        let ops = &graph.parts[scope.part].ops;
        let mut factor = None;
        for rule in &self.rules {
            if rule.target == Target::Comm && *rule.selector == Selector::Part("wait") {
                factor = Some(factor.unwrap_or(1.0) * rule.factor);
            }
        }
        match factor {
            Some(factor) if ops.is_comm(op) => {
                let own = time[graph.start_node(scope.part, op) as usize];
                own.saturating_add(scale(arrival.saturating_sub(own).max(0), factor))
            }
            _ => arrival,
        }
    }

    fn call(
        &self,
        graph: &Graph,
        edge: Edge,
        scope: Scope,
        point: usize,
        scaled: impl Fn(i64, (f64, bool)) -> Option<(i64, bool)>,
    ) -> Option<(i64, bool)> {
        let part = &graph.parts[scope.part];
        let cost = graph.cost(edge, scope.node, false);
        let call = part.points.call[point];
        if call == NONE {
            return Some((cost, false));
        }
        if self.launches_fused(graph, scope.part, point) {
            return Some((0, true));
        }
        let call = call as usize;
        let run = part.run[call];
        if self.graph && run != NONE {
            let is_first = part.run_first[run as usize] as usize == call;
            let issues = part.points.role[point] == Role::Issue;
            let cost = if is_first && issues {
                GRAPH_LAUNCH_NS
            } else {
                0
            };
            return Some((cost, true));
        }
        let (class, name) = graph.call_class(scope.part, point);
        let (target, word) = match class {
            Class::Sync => (Target::Sync, ""),
            Class::LaunchCall if edge.kind == EdgeKind::Call => return scaled(cost, (1.0, false)),
            Class::LaunchCall => (Target::Launch, "call"),
            // A blocking call that copies is on the path in place of its copy.
            Class::MemcpyH2d => (Target::Memcpy, "h2d"),
            _ => (Target::Api, ""),
        };
        let factor = self.factor(&[target], scope.part, name, class, word);
        let group = self.group_factor(class);
        scaled(cost, (factor.0 * group.0, factor.1 || group.1))
    }

    /// Returns the factor of a wait for external input.
    fn waiting(&self, graph: &Graph, part: usize, piece: usize) -> (f64, bool) {
        let pieces = &graph.parts[part].points.pieces;
        let (Some(name), Some(class)) = (pieces.name.get(piece), pieces.class.get(piece)) else {
            return (1.0, false);
        };
        let target = match class {
            Class::Input => Target::Input,
            _ => Target::Requests,
        };
        let factor = self.factor(&[target], part, *name, *class, "");
        let group = self.group_factor(*class);
        (factor.0 * group.0, factor.1 || group.1)
    }

    fn host(
        &self,
        graph: &Graph,
        edge: Edge,
        scope: Scope,
        point: usize,
        window: Window,
    ) -> Option<(i64, bool)> {
        let recorded = graph.recorded(edge, scope.node);
        let is_fused = self.launches_fused(graph, scope.part, point);
        let is_dispatch =
            (self.graph || is_fused || !self.rules.is_empty() || self.group.is_some())
                && graph.is_dispatch(scope.part, point);
        if (self.graph || is_fused) && is_dispatch {
            return Some((0, true));
        }
        let rank = self.rank(graph, scope);
        let is_host = |rule: &Rule<'_>| {
            matches!(
                rule.target,
                Target::Host | Target::Dispatch | Target::Api | Target::Requests | Target::Input
            )
        };
        let is_plain = !self.rules.iter().any(is_host)
            && match self.group {
                None | Some(Group::Gpu | Group::Comm | Group::Sync | Group::Unknown) => true,
                // The launch group includes host time only between the launches of a run.
                Some(Group::Launch) => !is_dispatch,
                Some(Group::Host | Group::Wait | Group::Input) => false,
            };
        let from = graph.time[edge.from as usize].max(window.begin_ns);
        let to = graph.time[scope.node as usize];
        if is_plain {
            let before = from - graph.time[edge.from as usize];
            let rest = recorded.saturating_sub(before).max(0);
            return Some((before + scale(rest, rank), false));
        }
        let points = &graph.parts[scope.part].points;
        let (mut cost, mut touched) = (recorded, false);
        let mut end = to;
        for piece in points.pieces_of(point).rev() {
            let begin = points.pieces.start[piece].max(from);
            if end <= from {
                break;
            }
            let (class, name) = (points.pieces.class[piece], points.pieces.name[piece]);
            let class = match is_dispatch {
                true => crate::path::dispatched(class),
                false => class,
            };
            let targets: &[Target] = match class {
                Class::Dispatch => &[Target::Host, Target::Dispatch],
                Class::HostPython | Class::HostOp | Class::HostOther | Class::HostUntraced => {
                    &[Target::Host]
                }
                Class::Input => &[Target::Host, Target::Input],
                Class::Requests => &[Target::Requests],
                Class::Api => &[Target::Api],
                Class::Sync => &[Target::Sync],
                _ => &[],
            };
            let factor = self.factor(targets, scope.part, name, class, "");
            let group = self.group_factor(class);
            let factor = (factor.0 * group.0 * rank, factor.1 || group.1);
            touched |= factor.1;
            let took = (end - begin).max(0);
            cost = cost - took + scale(took, factor.0);
            end = begin.min(end);
        }
        Some((cost.max(0), touched))
    }

    /// Returns the factor of a change of time that typical latencies do not explain.
    fn unexplained(&self, graph: &Graph, scope: Scope) -> (f64, bool) {
        let name = graph.name_of(scope.part, scope.of);
        let class = Class::Unexplained;
        self.factor(&[Target::Unexplained], scope.part, name, class, "")
    }

    /// Returns the remaining part of the time that latencies do not explain.
    pub(crate) fn residual(&self, graph: &Graph, scope: Scope, residual: i64) -> (i64, bool) {
        let is_other = self.is_of_groups
            && !matches!(
                self.group,
                Some(Group::Gpu | Group::Launch | Group::Sync | Group::Unknown)
            );
        if residual == 0 || is_other || scope.of == NodeOf::Arrival {
            return (residual, false);
        }
        if let NodeOf::Start(op) = scope.of
            && self.joins(scope.part, op)
        {
            return (0, true);
        }
        if self.in_graph(graph, scope) {
            return (0, true);
        }
        let unexplained = self.unexplained(graph, scope);
        let edge = graph.binding(scope.node);
        let of_rules = |target: Target, class: Class, word: &str| {
            let name = graph.name_of(scope.part, scope.of);
            (self.factor(&[target], scope.part, name, class, word), class)
        };
        let (of_latency, class) = match edge.map(|edge| edge.kind) {
            Some(EdgeKind::Stream | EdgeKind::Event) => of_rules(Target::Gap, Class::Queue, ""),
            Some(EdgeKind::Launch) => of_rules(Target::Launch, Class::LaunchLatency, "latency"),
            // A faster synchronisation takes the typical time; what one took longer stays.
            Some(EdgeKind::Sync | EdgeKind::Spin) => ((1.0, false), Class::Sync),
            Some(EdgeKind::QueueFull) => ((1.0, false), Class::QueueFull),
            _ => ((1.0, false), Class::Unexplained),
        };
        let latency = edge.map_or(0, |edge| {
            graph.cost(edge, scope.node, true) - graph.cost(edge, scope.node, false)
        });
        let latency = latency.clamp(0, residual);
        let rest = residual - latency;
        let both = |a: (f64, bool), b: (f64, bool)| (a.0 * b.0, a.1 || b.1);
        let of_latency = both(of_latency, both(unexplained, self.group_factor(class)));
        let of_rest = both(unexplained, self.group_factor(Class::Unexplained));
        let rank = self.rank(graph, scope);
        (
            scale(latency, of_latency.0 * rank) + scale(rest, of_rest.0 * rank),
            (latency > 0 && of_latency.1) || (rest > 0 && of_rest.1),
        )
    }

    /// Returns when external input arrives, unless the change affects that.
    pub(crate) fn arrives(&self, graph: &Graph, scope: Scope) -> Option<i64> {
        let NodeOf::Point(point) = scope.of else {
            return None;
        };
        if graph.parts[scope.part].points.role[point] != Role::WaitEnd {
            return None;
        }
        let pieces = graph.parts[scope.part].points.pieces_of(point);
        let is_changed = self.waiting(graph, scope.part, pieces.start).1;
        (!is_changed).then_some(graph.time[scope.node as usize])
    }
}

#[expect(clippy::cast_precision_loss, reason = "durations are below 2^53 ns")]
fn scale(ns: i64, factor: f64) -> i64 {
    if (factor - 1.0).abs() < f64::EPSILON {
        return ns;
    }
    if factor <= 0.0 {
        return 0;
    }
    nearest(ns as f64 * factor)
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}
