//! The account of time: busy, idle, computation, communication, copying, and what of it is exposed.

use serde::Serialize;
use trace_model::TimeRange;
use trace_model::interval::{Interval, IntervalSet};

use crate::rules::{Role, Roles, Rules};
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// A gap this long is a large one.
pub const LARGE_GAP_NS: i64 = 10_000;

/// Where time went. Every time is the measure of a union of half-open intervals over all streams
/// and devices of the account, in integer nanoseconds.
///
/// `comp + exposed_comm + exposed_memcpy + exposed_other + idle == span`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GpuTime {
    /// Kernels, copies and fills.
    pub gpu_events: u64,
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub memcpy: u64,
    /// Fills.
    pub memset: u64,
    /// Kernels that are communication.
    pub comm_kernels: u64,
    /// First start; 0 without any.
    pub start_ns: i64,
    /// From the first start to the last end, or the length of the window.
    pub span_ns: i64,
    /// Something ran.
    pub busy_ns: i64,
    /// Nothing ran.
    pub idle_ns: i64,
    /// Computation ran: kernels that are no communication, and fills.
    pub comp_ns: i64,
    /// Communication ran.
    pub comm_ns: i64,
    /// A copy ran.
    pub memcpy_ns: i64,
    /// Communication ran and no computation.
    pub exposed_comm_ns: i64,
    /// A copy ran, and neither computation nor communication.
    pub exposed_memcpy_ns: i64,
    /// Something ran that is none of the three; 0 but for [`Rules::Hta`].
    pub exposed_other_ns: i64,
    /// Computation by kernels ran: as `comp_ns`, without fills and without kernels named `Memcpy*`
    /// or `Memset*`.
    pub kernel_comp_ns: i64,
    /// Communication and computation by kernels ran at once.
    pub overlap_ns: i64,
    /// Gaps of 10 µs or more between stretches of work.
    pub gaps_ge_10us: u64,
    /// Idle time in shorter gaps.
    pub micro_idle_ns: i64,
    /// Idle time in gaps of 10 µs or more.
    pub macro_idle_ns: i64,
    /// Kernels, copies and fills shorter than 1 µs.
    pub subus_gpu_events: u64,
    /// Those that take no time; they count and cover nothing.
    pub zero_ns_events: u64,
    /// Sum of all durations: above `busy_ns` by what ran at the same time.
    pub total_dur_ns: i64,
}

impl GpuTime {
    /// Share of communication during which computation by kernels ran, in percent; none without
    /// communication.
    pub fn comm_comp_overlap_pct(&self) -> Option<f64> {
        percent(self.overlap_ns, self.comm_ns)
    }

    /// Busy time that is not computation by kernels.
    pub fn noncompute_ns(&self) -> i64 {
        self.busy_ns.saturating_sub(self.kernel_comp_ns)
    }
}

/// `part` of `whole` in percent; none of nothing.
#[expect(clippy::cast_precision_loss, reason = "percentages are ratios")]
pub fn percent(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The unions an account is made of.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Unions {
    /// All work.
    pub busy: IntervalSet,
    /// Computation.
    pub comp: IntervalSet,
    /// Computation by kernels.
    pub kernel_comp: IntervalSet,
    /// Communication.
    pub comm: IntervalSet,
    /// Copies.
    pub memcpy: IntervalSet,
}

/// Adds up work piece by piece. Cost: none to speak of when work comes in order of start; memory
/// follows the unions.
#[derive(Clone, Debug, Default)]
pub struct Account {
    time: GpuTime,
    unions: Unions,
    span: Option<Interval>,
    window: Option<Interval>,
}

impl Account {
    /// An account of everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// An account of what lies in `window`: work is cut at its ends, and its length is the span.
    pub fn within(window: TimeRange) -> Self {
        Self {
            window: Some((window.start.nanos(), window.end.nanos())),
            ..Self::default()
        }
    }

    /// Adds work; returns whether any of it lies in the window.
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
        let time = &mut self.time;
        time.gpu_events += 1;
        match kind {
            WorkKind::Kernel => time.kernels += 1,
            WorkKind::Memcpy => time.memcpy += 1,
            WorkKind::Memset => time.memset += 1,
        }
        let dur = to.saturating_sub(from);
        time.total_dur_ns = time.total_dur_ns.saturating_add(dur);
        time.subus_gpu_events += u64::from(dur < 1000);
        time.zero_ns_events += u64::from(dur == 0);
        time.comm_kernels += u64::from(role == Role::Communication && kind == WorkKind::Kernel);
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

    /// The unions so far.
    pub fn unions(&self) -> &Unions {
        &self.unions
    }

    /// The account. Cost: a pass over the unions.
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

fn gap(time: &mut GpuTime, from: i64, to: i64) {
    let gap = to.saturating_sub(from);
    if gap >= LARGE_GAP_NS {
        time.gaps_ge_10us += 1;
        time.macro_idle_ns += gap;
    } else if gap > 0 {
        time.micro_idle_ns += gap;
    }
}

/// The account of `events`, of all of the time or of a window.
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

/// The account of a whole trace by `rules`, [`Rules::Hta`]'s window apart.
///
/// Cost: a pass over the device work.
pub fn gpu_time(work: &GpuWork<'_>, rules: Rules) -> GpuTime {
    account(&mut Roles::new(work, rules), work.events(), None)
}
