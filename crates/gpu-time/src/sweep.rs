//! GPU time breakdown of activities that come in order of start, in constant memory.

use trace_model::interval::Interval;

use crate::account::{GpuTime, gap};
use crate::rules::Role;
use crate::work::WorkKind;

/// Classes of which it is known until when the activities so far run.
#[derive(Clone, Copy, Debug)]
struct Until {
    busy: i64,
    comp: i64,
    kernel_comp: i64,
    comm: i64,
    memcpy: i64,
}

/// Accumulates the breakdown that [`Account`](crate::Account) gives, from activities whose starts never decrease: between two
/// starts, each class runs from the first of them until its last end or the second, so nothing but these ends is kept.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    time: GpuTime,
    /// First start, and last end.
    span: Option<Interval>,
    /// All before is measured.
    at: i64,
    until: Until,
}

impl Default for Sweep {
    fn default() -> Self {
        let first = i64::MIN;
        Self {
            time: GpuTime::default(),
            span: None,
            at: first,
            until: Until {
                busy: first,
                comp: first,
                kernel_comp: first,
                comm: first,
                memcpy: first,
            },
        }
    }
}

impl Sweep {
    /// Creates an empty breakdown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an activity, which starts no sooner than those before.
    pub fn add(&mut self, kind: WorkKind, role: Role, (start, end): Interval) {
        let end = end.max(start);
        self.time.count(kind, role, end.saturating_sub(start));
        self.measure_to(start);
        if self.span.is_none() {
            // Idle time counts from here.
            self.until.busy = start;
        }
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first, last.max(end)));
        if start == end {
            return;
        }
        gap(&mut self.time, self.until.busy, start);
        let until = &mut self.until;
        until.busy = until.busy.max(end);
        let of_role: &mut [&mut i64] = match role {
            Role::Computation => &mut [&mut until.comp, &mut until.kernel_comp],
            Role::CopyKernel | Role::Memset => &mut [&mut until.comp],
            Role::Communication => &mut [&mut until.comm],
            Role::Memcpy => &mut [&mut until.memcpy],
            Role::Neither => &mut [],
        };
        for class in of_role {
            **class = (**class).max(end);
        }
    }

    /// Measures the time from where it is measured to `to`, in which nothing starts.
    fn measure_to(&mut self, to: i64) {
        let from = self.at;
        if to <= from {
            return;
        }
        let Until {
            busy,
            comp,
            kernel_comp,
            comm,
            memcpy,
        } = self.until;
        let [busy, comp, kernel_comp, comm, memcpy] =
            [busy, comp, kernel_comp, comm, memcpy].map(|end| end.clamp(from, to));
        let time = &mut self.time;
        time.busy_ns += busy - from;
        time.comp_ns += comp - from;
        time.kernel_comp_ns += kernel_comp - from;
        time.comm_ns += comm - from;
        time.memcpy_ns += memcpy - from;
        time.exposed_comm_ns += (comm - comp).max(0);
        time.exposed_memcpy_ns += (memcpy - comp.max(comm)).max(0);
        time.overlap_ns += comm.min(kernel_comp) - from;
        self.at = to;
    }

    /// Returns the breakdown of the activities so far.
    pub fn finish(&self) -> GpuTime {
        let mut whole = *self;
        let (start, end) = self.span.unwrap_or((0, 0));
        whole.measure_to(end);
        gap(&mut whole.time, self.until.busy.max(start), end);
        let mut time = whole.time;
        time.start_ns = start;
        time.span_ns = end.saturating_sub(start);
        time.idle_ns = time.span_ns.saturating_sub(time.busy_ns);
        time.exposed_other_ns =
            time.busy_ns - time.comp_ns - time.exposed_comm_ns - time.exposed_memcpy_ns;
        time
    }
}
