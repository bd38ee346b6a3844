//! Decides what bounds an idle GPU from the causes of its idle time; all commands share this
//! decision.

use serde::Serialize;

use crate::account::percent;
use crate::idle::{Idle, IdleCause, IdleScope, IdleTime};

/// Minimum share of idle time in the span that bounds the work, in percent.
pub const IDLE_MUCH_PCT: f64 = 20.0;

/// Minimum time in a single launch API call that is not launch overhead, in nanoseconds.
pub const LONG_CALL_NS: i64 = 1_000_000;

/// The bound of an idle GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdleBound {
    /// It idles for less than [`IDLE_MUCH_PCT`] of the span.
    NotIdle,
    /// Most idle time is [`IdleCause::HostWait`]: the host launched nothing.
    Host,
    /// Most idle time is [`IdleCause::InputWait`]: the host waited for requests, data, a lock
    /// or another thread.
    Input,
    /// Most idle time is one launch API call, longer than [`LONG_CALL_NS`]: module load, compilation
    /// or allocation, not launch overhead.
    LongCall,
    /// Most idle time is [`IdleCause::Synchronisation`]: the host launched nothing, as it waited for the GPU.
    Synchronisation,
    /// Most idle time is [`IdleCause::LaunchCall`] or [`IdleCause::LaunchLatency`]: launch
    /// overhead.
    Launch,
    /// Most idle time is that of [`IdleBound::Host`], [`IdleBound::Synchronisation`] and
    /// [`IdleBound::Launch`] together, but of none of them alone.
    HostAndLaunch,
    /// Most idle time is [`IdleCause::KernelWait`]: gaps between queued work.
    Gaps,
    /// Most idle time is [`IdleCause::Blocked`]: submitted work was held back.
    Blocked,
    /// Most idle time is [`IdleCause::Other`].
    Unknown,
    /// No cause has more than half of the idle time.
    Several,
}

impl IdleBound {
    /// Causes of idle time of each bound, in the order in which bounds are tried.
    const CAUSES: [(Self, &[IdleCause]); 8] = [
        (Self::Host, &[IdleCause::HostWait]),
        (Self::Input, &[IdleCause::InputWait]),
        (Self::Synchronisation, &[IdleCause::Synchronisation]),
        (
            Self::Launch,
            &[IdleCause::LaunchCall, IdleCause::LaunchLatency],
        ),
        (
            Self::HostAndLaunch,
            &[
                IdleCause::HostWait,
                IdleCause::Synchronisation,
                IdleCause::LaunchCall,
                IdleCause::LaunchLatency,
            ],
        ),
        (Self::Gaps, &[IdleCause::KernelWait]),
        (Self::Blocked, &[IdleCause::Blocked]),
        (Self::Unknown, &[IdleCause::Other]),
    ];

    /// Returns `true` if launch overhead is most of the idle time, or part of the idle time that
    /// the host causes.
    pub fn is_launch(self) -> bool {
        matches!(self, Self::Launch | Self::HostAndLaunch)
    }

    /// Returns the bound as text, to start a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotIdle => "Not bound by idle time",
            Self::Host => "Host-bound",
            Self::Input => "Wait-bound",
            Self::LongCall => "Bound by one long launch call",
            Self::Synchronisation => "Host-bound, by synchronisation",
            Self::Launch => "Launch-bound",
            Self::HostAndLaunch => "Host- and launch-bound",
            Self::Gaps => "Bound by gaps between queued work",
            Self::Blocked => "Bound by blocked streams",
            Self::Unknown => "Idle for reasons that are not recorded",
            Self::Several => "Idle for several reasons",
        }
    }
}

/// Idle time of one or several parts of a trace, with the resulting bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdleVerdict {
    /// Total length of the parts.
    pub span_ns: i64,
    /// Time in which no device ran anything, by cause.
    pub time: IdleTime,
    /// The bound of the GPU.
    pub bound: IdleBound,
}

impl IdleVerdict {
    /// Combines parts of one trace; each contributes the time in which none of its devices ran
    /// anything. Cost: one pass.
    pub fn of<'i>(parts: impl IntoIterator<Item = &'i Idle>) -> Self {
        let (mut span_ns, mut time) = (0_i64, IdleTime::default());
        let mut longest_call_ns = 0;
        for part in parts {
            longest_call_ns = longest_call_ns.max(part.longest_call_ns);
            let whole = part.rows.iter().find(|row| row.scope == IdleScope::Trace);
            if let Some(row) = whole {
                span_ns = span_ns.saturating_add(row.span_ns);
                time.add(&row.time);
            }
        }
        let is_idle = percent(time.idle_ns, span_ns).is_some_and(|pct| pct >= IDLE_MUCH_PCT);
        let sum = |causes: &[IdleCause]| causes.iter().map(|cause| time.of(*cause)).sum::<i64>();
        let most = IdleBound::CAUSES
            .into_iter()
            .find(|(_, causes)| sum(causes) > time.idle_ns / 2);
        let bound = match (is_idle, most) {
            (false, _) => IdleBound::NotIdle,
            (true, _) if longest_call_ns > LONG_CALL_NS.max(time.idle_ns / 2) => {
                IdleBound::LongCall
            }
            (true, Some((bound, _))) => bound,
            (true, None) => IdleBound::Several,
        };
        Self {
            span_ns,
            time,
            bound,
        }
    }

    /// Returns the share of the span in which no device ran anything, in percent.
    pub fn idle_pct(&self) -> f64 {
        percent(self.time.idle_ns, self.span_ns).unwrap_or(0.0)
    }

    /// Returns the causes with their time, longest first, without those that took no time.
    pub fn causes(&self) -> Vec<(IdleCause, i64)> {
        let mut causes: Vec<(IdleCause, i64)> = IdleCause::ALL
            .into_iter()
            .map(|cause| (cause, self.time.of(cause)))
            .filter(|(_, ns)| *ns > 0)
            .collect();
        causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        causes
    }
}
