//! Recomputes times under a change.
//!
//! In topological order each node gets the latest arrival of its dependencies, plus the time that
//! these did not explain in the recording. A latency costs the recorded time, at most the typical
//! one; the excess is unexplained.

use crate::change::{Action, Change};
use crate::class::{EdgeKind, Evidence};
use crate::effect::{Effects, Scope};
use crate::graph::{Graph, NodeOf};
use crate::names::NONE;

/// Times of a window under a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// New time of each node.
    pub(crate) time: Vec<i64>,
    /// Number of matches of the change.
    pub touched: u64,
}

/// The replayed interval: times before it stay as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Window {
    /// Begin, in nanoseconds.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
}

impl Window {
    /// The interval from `begin_ns` to `end_ns`.
    pub fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self { begin_ns, end_ns }
    }
}

/// Mode of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Latencies as recorded, with unexplained time.
    Recorded,
    /// The same without guessed dependencies: what they explain is unexplained.
    Sure,
    /// Typical latencies alone.
    Model,
}

impl Graph {
    /// Recomputes all times after the begin of a window under a change. Without an action the times
    /// are the recorded ones.
    ///
    /// Cost: one pass over all dependencies, and one over the pieces of host time if the change
    /// affects these.
    pub fn replay(&self, change: &Change, window: Window) -> Replay {
        let effects = Effects::new(self, change, window);
        self.run(&effects, window, Mode::Recorded)
    }

    /// Returns the times that typical latencies alone would give.
    pub(crate) fn model(&self, window: Window) -> Replay {
        let none = Change::of("", Vec::new());
        let effects = Effects::new(self, &none, window);
        self.run(&effects, window, Mode::Model)
    }

    pub(crate) fn run(&self, effects: &Effects<'_>, window: Window, mode: Mode) -> Replay {
        let mut time = self.time.clone();
        let mut touched = effects.touched;
        let joins = self.first_joins();
        // By how much the last joint arrival is later than recorded.
        let mut shift = 0;
        for &node in &self.order {
            let recorded = self.time[node as usize];
            if recorded <= window.begin_ns {
                continue;
            }
            let (part, of) = self.node(node);
            let scope = Scope { part, of, node };
            let mut latest: Option<i64> = None;
            let mut waits = false;
            // The latest arrival in the recording without the guessed ones, where some are left out.
            let (mut is_left_out, mut sure) = (false, i64::MIN);
            for (at, edge) in self.edges_at(node) {
                if mode == Mode::Sure {
                    if edge.evidence != Evidence::Sure {
                        is_left_out = true;
                        continue;
                    }
                    let arrival = self.time[edge.from as usize].saturating_add(self.price_of(at).0);
                    sure = sure.max(arrival);
                }
                waits = true;
                let known = match mode {
                    Mode::Recorded | Mode::Sure => effects.unchanged(self, at, edge),
                    Mode::Model => None,
                };
                let changed = match known {
                    Some(cost) => Some((cost, false)),
                    None => effects.cost(self, (at, edge), scope, mode, window),
                };
                let Some((cost, is_touched)) = changed else {
                    touched += 1;
                    continue;
                };
                touched += u64::from(is_touched);
                let base = match edge.kind {
                    // The transfer does not include the wait for other ranks.
                    EdgeKind::Transfer => {
                        let base = effects.transfer_base(self, edge, scope, &time);
                        touched += u64::from(base != time[edge.from as usize]);
                        base
                    }
                    _ => time[edge.from as usize],
                };
                let at = base.saturating_add(cost);
                latest = Some(latest.map_or(at, |known| known.max(at)));
            }
            if !waits {
                // No dependency leads here: it comes from outside and keeps its time. A rank whose recording began amid the
                // collectives of the others was in step with them before, though.
                if shift != 0 && joins.get(part).is_some_and(|join| recorded < *join) {
                    time[node as usize] = recorded.saturating_add(shift).max(window.begin_ns);
                }
                continue;
            }
            let residual = match mode {
                Mode::Model => 0,
                Mode::Sure if is_left_out => recorded.saturating_sub(sure).max(0),
                Mode::Recorded | Mode::Sure => {
                    let (left, is_touched) =
                        effects.residual(self, scope, self.residual[node as usize]);
                    touched += u64::from(is_touched);
                    left
                }
            };
            // A node whose dependencies are all removed follows the begin of the window.
            let new = latest.unwrap_or(window.begin_ns).saturating_add(residual);
            time[node as usize] = match effects.arrives(self, scope) {
                Some(arrival) => new.max(arrival),
                None => new,
            };
            if of == NodeOf::Arrival {
                shift = time[node as usize].saturating_sub(recorded);
            }
        }
        Replay { time, touched }
    }

    /// Returns the time of the first joint arrival of each part.
    fn first_joins(&self) -> Vec<i64> {
        let mut out = vec![i64::MIN; self.parts.len()];
        let first = self.offsets.get(self.parts.len()).copied();
        for joint in first.unwrap_or(u32::MAX)..crate::names::place(self.time.len()) {
            let at = self.time[joint as usize];
            for part in self.edges(joint).filter_map(|edge| self.part_of(edge.from)) {
                out[part] = match out[part] {
                    i64::MIN => at,
                    known => known.min(at),
                };
            }
        }
        out
    }

    /// Returns the new begin and end of each of `steps`, which are (rank, step) in order.
    pub(crate) fn new_ends(&self, replay: &Replay, steps: &[(usize, usize)]) -> Vec<(i64, i64)> {
        let mut out: Vec<(i64, i64)> = Vec::with_capacity(steps.len());
        let mut last: Option<(usize, i64)> = None;
        for &(part, step) in steps {
            let Some(step) = self.steps[part].get(step) else {
                continue;
            };
            let begin = match last {
                Some((before, end)) if before == part => end,
                _ => step.begin_ns,
            };
            let end = match step.node {
                NONE => begin.saturating_add(step.duration_ns()),
                node => replay.time[node as usize].max(begin),
            };
            out.push((begin, end));
            last = Some((part, end));
        }
        out
    }
}

impl Change {
    /// Returns `true` if the change removes all waiting for requests or data.
    pub(crate) fn moves_input(&self) -> bool {
        use crate::change::Target;
        self.actions.iter().any(|action| {
            matches!(
                action,
                Action::Scale {
                    target: Target::Requests | Target::Input,
                    ..
                }
            )
        })
    }
}
