//! How much of the GPU time has numbers, and what is left out.

use gpu_time::GpuWork;
use rustc_hash::FxHashMap;

use crate::calls::{Call, CallList};
use crate::numbers::Basis;
use crate::views::{Tally, tallies};

/// Why GPU activity has no operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// No launch call in the recording leads to it.
    NoLaunch,
    /// It is part of a replayed graph that is joined to no capture.
    Graph,
    /// No operator is around its launch.
    NoOperator,
}

impl Cause {
    pub(crate) fn of(call: &Call<'_, '_>) -> Self {
        match (call.is_launched(), call.in_graph()) {
            (false, _) => Self::NoLaunch,
            (true, true) => Self::Graph,
            (true, false) => Self::NoOperator,
        }
    }

    /// The cause as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoLaunch => "its launch is not in the recording",
            Self::Graph => "a replayed graph",
            Self::NoOperator => "launched outside of operators",
        }
    }
}

/// Time and calls of one basis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Share {
    /// Time of the calls.
    pub time_ns: i64,
    /// Calls.
    pub calls: u64,
}

/// Calls without numbers for one reason.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Missing {
    /// Why.
    pub reason: String,
    /// Why there is no operator, if that is the reason.
    pub cause: Option<Cause>,
    /// Operator, or kernel where there is none.
    pub op: String,
    /// Time of the calls.
    pub time_ns: i64,
    /// Calls.
    pub calls: u64,
}

/// How much has numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Coverage {
    /// Share of each basis, in the order of [`Basis::ALL`].
    pub by_basis: [Share; Basis::ALL.len()],
    /// Calls without numbers, most time first.
    pub missing: Vec<Missing>,
}

impl Coverage {
    /// The coverage of the calls of `work` that `wants` takes.
    pub fn new(list: &CallList, work: &GpuWork<'_>, wants: impl Fn(&Call<'_, '_>) -> bool) -> Self {
        Self::of(list, &tallies(list, work, wants))
    }

    pub(crate) fn of(list: &CallList, tallies: &[Tally]) -> Self {
        let mut coverage = Self::default();
        let mut merged: FxHashMap<(&str, Option<Cause>, &str), Share> = FxHashMap::default();
        for own in tallies {
            let Some(kind) = list.kinds.get(own.kind as usize) else {
                continue;
            };
            let (basis, missing) = match &kind.answer {
                Ok(numbers) => (numbers.basis, None),
                Err(reason) => {
                    let op = match kind.kernel.as_str() {
                        "" => kind.op.as_str(),
                        kernel => kernel,
                    };
                    (Basis::Unknown, Some((reason.0.as_str(), own.cause, op)))
                }
            };
            let at = Basis::ALL.iter().position(|b| *b == basis).unwrap_or(0);
            let mut shares = vec![&mut coverage.by_basis[at]];
            shares.extend(missing.map(|key| merged.entry(key).or_default()));
            for share in shares {
                share.time_ns = share.time_ns.saturating_add(own.time_ns);
                share.calls += own.calls;
            }
        }
        #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
        for ((reason, cause, op), share) in merged {
            coverage.missing.push(Missing {
                reason: reason.to_owned(),
                cause,
                op: op.to_owned(),
                time_ns: share.time_ns,
                calls: share.calls,
            });
        }
        let key = |m: &Missing| {
            let (op, reason) = (m.op.clone(), m.reason.clone());
            (std::cmp::Reverse(m.time_ns), op, reason, m.cause)
        };
        coverage.missing.sort_by_key(key);
        coverage
    }

    /// Time of all calls.
    pub fn time_ns(&self) -> i64 {
        self.by_basis.iter().map(|share| share.time_ns).sum()
    }

    /// Share of the time that has numbers, in percent; `None` without any time.
    pub fn known_pct(&self) -> Option<f64> {
        let all = self.time_ns();
        let unknown = self.by_basis[Basis::ALL.len() - 1].time_ns;
        gpu_time::percent(all - unknown, all)
    }

    /// Time without operator for this cause.
    pub fn time_without(&self, cause: Cause) -> i64 {
        let all = self.missing.iter();
        let own = all.filter(|m| m.cause == Some(cause));
        own.map(|m| m.time_ns).sum()
    }

    /// Returns `true` if no call has numbers.
    pub fn is_empty(&self) -> bool {
        let known = &self.by_basis[..Basis::ALL.len() - 1];
        known.iter().all(|share| share.calls == 0)
    }
}
