//! Computes exposed communication: time of collectives that no computation overlaps.

use std::collections::BTreeMap;

use trace_model::interval::{Interval, IntervalSet, share};
use trace_model::{DeviceId, Slice, SliceId};

use trace_model::kernel::{Activity, TraceIndex};

/// What hides communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum HiddenBy {
    /// Computation: kernels that are no communication, and memset. Memcpy does not, as in the account of time of `gpu-time`.
    #[default]
    Computation,
    /// Any other activity of the device, memcpy included.
    AnyActivity,
}

/// Time of one device. `exposed_ns + hidden_ns` is `collective_ns`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceTime {
    /// Time with a collective running.
    pub collective_ns: i64,
    /// Time with any other activity: other kernels, memcpy, memset.
    pub other_ns: i64,
    /// Time with a collective running and nothing that hides it.
    pub exposed_ns: i64,
    /// Time with both.
    pub hidden_ns: i64,
}

/// GPU activities of one device.
#[derive(Default)]
struct Work {
    kernels: Vec<SliceId>,
    /// Interval of each of `kernels`.
    collectives: Vec<Interval>,
    others: Vec<Interval>,
    /// Those of the others that do not hide communication.
    beside: Vec<Interval>,
}

/// Exposed communication of a whole trace.
#[derive(Clone, Debug, Default)]
pub struct Exposure {
    devices: BTreeMap<DeviceId, DeviceTime>,
    /// Exposed time charged to each collective kernel, ascending by kernel.
    shares: Vec<(SliceId, i64)>,
}

impl Exposure {
    /// Sweeps the time line of each device; `is_collective` decides which kernels are
    /// communication, and `hidden_by` what hides it. An exposed nanosecond is shared equally by the collectives that run in it.
    ///
    /// Cost: a sort of each device's work.
    pub fn new(
        index: &TraceIndex<'_>,
        hidden_by: HiddenBy,
        is_collective: impl Fn(Slice<'_>) -> bool,
    ) -> Self {
        let mut work: BTreeMap<DeviceId, Work> = BTreeMap::new();
        for slice in index.device_work() {
            let span = (slice.ts().nanos(), slice.end().nanos());
            let device = work.entry(index.device(slice)).or_default();
            if index.is_kernel(slice) && is_collective(slice) {
                device.kernels.push(slice.id());
                device.collectives.push(span);
            } else if hidden_by == HiddenBy::Computation
                && index.activity(slice) == Activity::GpuMemcpy
            {
                device.beside.push(span);
            } else {
                device.others.push(span);
            }
        }
        let mut out = Self::default();
        for (device, work) in work {
            let communication: IntervalSet = work.collectives.iter().copied().collect();
            let hiding: IntervalSet = work.others.iter().copied().collect();
            let other: IntervalSet = work.others.into_iter().chain(work.beside).collect();
            let exposed = communication.subtract(&hiding);
            let time = DeviceTime {
                collective_ns: communication.measure().get(),
                other_ns: other.measure().get(),
                exposed_ns: exposed.measure().get(),
                hidden_ns: communication.intersect(&hiding).measure().get(),
            };
            out.devices.insert(device, time);
            let shares = share(&work.collectives, &exposed);
            out.shares.extend(work.kernels.into_iter().zip(shares));
        }
        out.shares.sort_unstable_by_key(|s| s.0);
        out
    }

    /// Returns every device with any activity, in ascending order.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (DeviceId, DeviceTime)> + '_ {
        self.devices.iter().map(|(d, t)| (*d, *t))
    }

    /// Returns the exposed time charged to `kernel`; `None` if it is not a collective.
    ///
    /// Cost: a binary search; use [`Exposure::shares`] to walk over many kernels.
    pub fn of(&self, kernel: SliceId) -> Option<i64> {
        let at = self.shares.binary_search_by_key(&kernel, |s| s.0).ok()?;
        Some(self.shares[at].1)
    }

    /// Returns every collective kernel with the exposed time charged to it, ascending by kernel.
    pub fn shares(&self) -> &[(SliceId, i64)] {
        &self.shares
    }
}
