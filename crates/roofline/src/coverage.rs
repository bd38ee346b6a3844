//! How much of the GPU time has numbers, and what is left out.

use rustc_hash::FxHashMap;

use crate::calls::{Call, CallList};
use crate::numbers::Basis;

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
    /// The coverage of the calls that `wants` takes.
    pub fn new(list: &CallList, wants: impl Fn(&Call) -> bool) -> Self {
        let mut coverage = Self::default();
        let mut missing: FxHashMap<u32, Share> = FxHashMap::default();
        for call in list.calls.iter().filter(|call| wants(call)) {
            let basis = match list.numbers(call) {
                Some(numbers) => numbers.basis,
                None => Basis::Unknown,
            };
            let at = Basis::ALL.iter().position(|b| *b == basis).unwrap_or(0);
            let mut shares = vec![&mut coverage.by_basis[at]];
            if basis == Basis::Unknown {
                shares.push(missing.entry(call.kind).or_default());
            }
            for share in shares {
                share.time_ns = share.time_ns.saturating_add(call.time_ns);
                share.calls += 1;
            }
        }
        let mut merged: FxHashMap<(String, String), Share> = FxHashMap::default();
        #[expect(clippy::iter_over_hash_type, reason = "sums, which are sorted below")]
        for (kind, share) in missing {
            let Some(kind) = list.kinds.get(kind as usize) else {
                continue;
            };
            let Err(reason) = &kind.answer else { continue };
            let op = match kind.kernel.as_str() {
                "" => kind.op.clone(),
                kernel => kernel.to_owned(),
            };
            let own = merged.entry((reason.to_string(), op)).or_default();
            own.time_ns = own.time_ns.saturating_add(share.time_ns);
            own.calls += share.calls;
        }
        #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
        for ((reason, op), share) in merged {
            coverage.missing.push(Missing {
                reason,
                op,
                time_ns: share.time_ns,
                calls: share.calls,
            });
        }
        let key = |m: &Missing| (std::cmp::Reverse(m.time_ns), m.op.clone(), m.reason.clone());
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

    /// Returns `true` if no call has numbers.
    pub fn is_empty(&self) -> bool {
        let known = &self.by_basis[..Basis::ALL.len() - 1];
        known.iter().all(|share| share.calls == 0)
    }
}
