//! GPU time breakdown: busy, idle, computation, communication and memcpy time, and the exposed
//! parts.

use serde::Serialize;
use trace_model::TimeRange;
use trace_model::interval::{Interval, IntervalSet};

use crate::rules::{Role, Roles, Rules};
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// Minimum length of a large gap, in nanoseconds.
pub const LARGE_GAP_NS: i64 = 10_000;

/// Breakdown of GPU time. Every time is the measure of a union of half-open intervals over all
/// streams and devices of the breakdown, in integer nanoseconds.
///
/// `comp + exposed_comm + exposed_memcpy + exposed_other + idle == span`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GpuTime {
    /// Number of kernels, memcpys, memsets and graphs recorded as a whole.
    pub gpu_events: u64,
    /// Number of kernels.
    pub kernels: u64,
    /// Number of memcpys.
    pub memcpy: u64,
    /// Number of memsets.
    pub memset: u64,
    /// Number of graphs recorded as a whole.
    pub graphs: u64,
    /// Number of communication kernels.
    pub comm_kernels: u64,
    /// First start; 0 without GPU activity.
    pub start_ns: i64,
    /// Time from the first start to the last end, or the length of the window.
    pub span_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Time in which nothing ran.
    pub idle_ns: i64,
    /// Time in which computation ran: kernels other than communication, and memsets.
    pub comp_ns: i64,
    /// Time in which communication ran.
    pub comm_ns: i64,
    /// Time in which a memcpy ran.
    pub memcpy_ns: i64,
    /// Time in which communication ran without computation.
    pub exposed_comm_ns: i64,
    /// Time in which a memcpy ran without computation and communication.
    pub exposed_memcpy_ns: i64,
    /// Time in which only GPU activity outside the three classes ran; 0 except with [`Rules::Hta`].
    pub exposed_other_ns: i64,
    /// Time in which computation kernels ran: `comp_ns` without memsets and without kernels named
    /// `Memcpy*` or `Memset*`.
    pub kernel_comp_ns: i64,
    /// Time in which communication and computation kernels ran at once.
    pub overlap_ns: i64,
    /// Number of gaps of 10 µs or more between GPU activities.
    pub gaps_ge_10us: u64,
    /// Idle time in shorter gaps.
    pub micro_idle_ns: i64,
    /// Idle time in gaps of 10 µs or more.
    pub macro_idle_ns: i64,
    /// Number of kernels, memcpys and memsets shorter than 1 µs.
    pub subus_gpu_events: u64,
    /// Number of GPU activities of zero length; they count and cover no time.
    pub zero_ns_events: u64,
    /// Sum of all durations; exceeds `busy_ns` by the time that ran concurrently.
    pub total_dur_ns: i64,
}

impl GpuTime {
    /// Returns the share of communication time in which computation kernels ran, in percent; `None`
    /// without communication.
    pub fn comm_comp_overlap_pct(&self) -> Option<f64> {
        percent(self.overlap_ns, self.comm_ns)
    }

    /// Counts an activity, and adds its duration to the sum.
    pub(crate) fn count(&mut self, kind: WorkKind, role: Role, dur_ns: i64) {
        self.gpu_events += 1;
        match kind {
            WorkKind::Kernel => self.kernels += 1,
            WorkKind::Memcpy => self.memcpy += 1,
            WorkKind::Memset => self.memset += 1,
            WorkKind::Graph => self.graphs += 1,
        }
        self.total_dur_ns = self.total_dur_ns.saturating_add(dur_ns);
        self.subus_gpu_events += u64::from(dur_ns < 1000);
        self.zero_ns_events += u64::from(dur_ns == 0);
        self.comm_kernels += u64::from(role == Role::Communication && kind == WorkKind::Kernel);
    }

    /// Returns the busy time in which no computation kernel ran.
    pub fn noncompute_ns(&self) -> i64 {
        self.busy_ns.saturating_sub(self.kernel_comp_ns)
    }
}

/// Returns `part` of `whole` in percent; `None` unless `whole` is positive.
#[expect(clippy::cast_precision_loss, reason = "percentages are ratios")]
pub fn percent(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Interval unions from which a breakdown is computed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Unions {
    /// All GPU activity.
    pub busy: IntervalSet,
    /// Computation.
    pub comp: IntervalSet,
    /// Computation kernels.
    pub kernel_comp: IntervalSet,
    /// Communication.
    pub comm: IntervalSet,
    /// Memcpys.
    pub memcpy: IntervalSet,
}

/// Accumulates a breakdown one GPU activity at a time. Amortized O(1) per activity if starts are
/// non-decreasing; memory is proportional to the unions.
#[derive(Clone, Debug, Default)]
pub struct Account {
    time: GpuTime,
    unions: Unions,
    span: Option<Interval>,
    window: Option<Interval>,
}

impl Account {
    /// Creates a breakdown of all time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a breakdown of `window`: GPU activity is cut at its ends, and its length is the
    /// span.
    pub fn within(window: TimeRange) -> Self {
        Self {
            window: Some((window.start.nanos(), window.end.nanos())),
            ..Self::default()
        }
    }

    /// Adds a GPU activity. Returns `true` if any of it lies in the window.
    pub fn add(&mut self, kind: WorkKind, role: Role, (start, end): Interval) -> bool {
        let (mut from, mut to) = (start, end.max(start));
        if let Some((first, last)) = self.window {
            let inside = (from.max(first), to.min(last));
            let is_in = match from < to {
                true => inside.0 < inside.1,
                false => first <= from && from < last,
            };
            if !is_in {
                return false;
            }
            (from, to) = inside;
        }
        self.time.count(kind, role, to.saturating_sub(from));
        self.span = Some(match self.span {
            None => (from, to),
            Some((first, last)) => (first.min(from), last.max(to)),
        });
        let unions = &mut self.unions;
        unions.busy.cover((from, to));
        match role {
            Role::Computation => {
                unions.comp.cover((from, to));
                unions.kernel_comp.cover((from, to));
            }
            Role::CopyKernel | Role::Memset => unions.comp.cover((from, to)),
            Role::Communication => unions.comm.cover((from, to)),
            Role::Memcpy => unions.memcpy.cover((from, to)),
            Role::Neither => {}
        }
        true
    }

    /// Returns the unions so far.
    pub fn unions(&self) -> &Unions {
        &self.unions
    }

    /// Returns the breakdown. Cost: one pass over the unions.
    pub fn finish(&self) -> GpuTime {
        let Unions {
            busy,
            comp,
            kernel_comp,
            comm,
            memcpy,
        } = &self.unions;
        let (start, end) = self.window.or(self.span).unwrap_or((0, 0));
        let mut time = self.time;
        time.start_ns = start;
        time.span_ns = end.saturating_sub(start);
        time.busy_ns = busy.measure().get();
        time.idle_ns = time.span_ns.saturating_sub(time.busy_ns);
        time.comp_ns = comp.measure().get();
        time.kernel_comp_ns = kernel_comp.measure().get();
        time.comm_ns = comm.measure().get();
        time.memcpy_ns = memcpy.measure().get();
        let exposed_comm = comm.subtract(comp);
        let exposed_memcpy = memcpy.subtract(comp).subtract(comm);
        time.exposed_comm_ns = exposed_comm.measure().get();
        time.exposed_memcpy_ns = exposed_memcpy.measure().get();
        time.exposed_other_ns =
            time.busy_ns - time.comp_ns - time.exposed_comm_ns - time.exposed_memcpy_ns;
        time.overlap_ns = comm.intersect(kernel_comp).measure().get();
        let mut at = start;
        for &(from, to) in busy.as_slice() {
            gap(&mut time, at, from);
            at = to;
        }
        gap(&mut time, at, end);
        time
    }
}

pub(crate) fn gap(time: &mut GpuTime, from: i64, to: i64) {
    let gap = to.saturating_sub(from);
    if gap >= LARGE_GAP_NS {
        time.gaps_ge_10us += 1;
        time.macro_idle_ns += gap;
    } else if gap > 0 {
        time.micro_idle_ns += gap;
    }
}

/// Returns the breakdown of `events`, over all time or in a window.
pub fn account<'e>(
    roles: &mut Roles<'_, '_>,
    events: impl IntoIterator<Item = &'e GpuEvent>,
    window: Option<TimeRange>,
) -> GpuTime {
    let mut account = window.map_or_else(Account::new, Account::within);
    for event in events {
        let role = roles.of(event);
        account.add(event.kind, role, event.interval());
    }
    account.finish()
}

/// Returns the breakdown of a whole trace by `rules`, except for the step window of [`Rules::Hta`].
///
/// Cost: one pass over the GPU activities.
pub fn gpu_time(work: &GpuWork<'_>, rules: Rules) -> GpuTime {
    account(&mut Roles::new(work, rules), work.events(), None)
}
