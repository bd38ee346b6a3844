//! Computes the slack of each GPU activity.

use serde::Serialize;

use crate::class::{Class, EdgeKind};
use crate::graph::Graph;
use crate::names::NONE;
use crate::replay::Window;

/// A GPU activity with its slack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Op {
    /// Its rank.
    pub rank: u32,
    /// Number of the step that it belongs to; `None` outside of steps.
    pub step: Option<u32>,
    /// Class of the activity.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Device.
    pub device: i64,
    /// Stream.
    pub stream: i64,
    /// Begin, in nanoseconds.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Maximum delay of its start that does not move the end of the window.
    pub slack_ns: i64,
}

impl Graph {
    /// Returns the slack of each node, in nanoseconds.
    pub(crate) fn slack(&self, window: Window) -> Vec<i64> {
        // `latest` is the latest time of each node that keeps the end of the window.
        let mut latest = vec![i64::MAX; self.time.len()];
        for (node, time) in self.time.iter().enumerate() {
            // Nodes in the window may end at its end at the latest; later nodes may move.
            if *time <= window.end_ns {
                latest[node] = window.end_ns;
            }
        }
        for &node in self.order.iter().rev() {
            let own = latest[node as usize];
            let residual = self.residual[node as usize];
            for (at, edge) in self.edges_at(node) {
                let cost = match edge.kind {
                    EdgeKind::Input => 0,
                    _ => self.price_of(at).0,
                };
                if own == i64::MAX {
                    continue;
                }
                let limit = own.saturating_sub(residual).saturating_sub(cost);
                let slot = &mut latest[edge.from as usize];
                *slot = (*slot).min(limit);
            }
        }
        let each = latest.iter().zip(&self.time);
        each.map(|(latest, time)| latest.saturating_sub(*time).max(0))
            .collect()
    }

    /// Returns the GPU activities that start in a window, with their slack, by rank and start.
    /// Cost: one pass over all dependencies.
    pub fn ops(&self, window: Window) -> Vec<Op> {
        let slack = self.slack(window);
        let mut out = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let ops = &part.ops;
            for op in 0..ops.len() {
                let inside = ops.end[op] > window.begin_ns && ops.start[op] < window.end_ns;
                if !inside {
                    continue;
                }
                let (device, stream) = ops.streams[ops.stream[op] as usize];
                let step = match part.assigned.of_op[op] {
                    NONE => None,
                    step => self.number_of(at, step),
                };
                out.push(Op {
                    rank: part.rank,
                    step,
                    class: ops.class[op],
                    name: part.text(ops.name[op]).to_owned(),
                    device,
                    stream,
                    begin_ns: ops.start[op],
                    end_ns: ops.end[op],
                    slack_ns: slack[self.start_node(at, op) as usize],
                });
            }
        }
        out
    }

    /// Returns the number of the step with this host interval of a part.
    fn number_of(&self, part: usize, interval: u32) -> Option<u32> {
        let host = self.parts[part].assigned.host.get(interval as usize)?;
        let steps = &self.steps[part];
        let at = steps.binary_search_by_key(host, |step| step.host_ns).ok()?;
        Some(steps[at].number)
    }
}
