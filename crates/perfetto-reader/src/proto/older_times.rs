//! Reads the times of older events: deltas to a thread descriptor, and CPU time and instruction
//! counts of the event.

use trace_model::IssueKind;

use crate::proto::clock::{ClockId, MONOTONIC};
use crate::proto::counters::to_f64;
use crate::proto::import::{Importer, Stamp};
use crate::proto::sequence;
use crate::proto::tracks::{Base, LaneKey};

/// CPU time and instruction count of an older event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadCounts {
    pub(super) time_ns: Option<i64>,
    pub(super) instructions: Option<i64>,
}

impl Importer<'_> {
    /// Returns time, CPU time and instruction count in the older encodings. `None` drops the event.
    pub(super) fn legacy_time(&mut self, at: usize, stamp: Stamp) -> Option<(Stamp, ThreadCounts)> {
        let one = self.event.rare;
        let needs_base = one.delta_us.is_some()
            || one.thread_time_delta_us.is_some()
            || one.instructions_delta.is_some();
        let machine = self.sequences[at].machine;
        let mut none = sequence::Base::default();
        let base = match (&mut self.sequences[at].base, needs_base) {
            (Some(base), _) => base,
            (None, false) => &mut none,
            (None, true) => {
                self.note(
                    IssueKind::NeedsState,
                    "a time difference without a thread descriptor",
                );
                return None;
            }
        };
        let micros = |us: i64| us.saturating_mul(1000);
        let mut counts = ThreadCounts::default();
        let mut own = None;
        if let Some(delta) = one.delta_us {
            base.ts_ns = base.ts_ns.saturating_add(micros(delta));
            own = Some(base.ts_ns);
        } else if one.absolute_us != 0 {
            own = Some(micros(one.absolute_us));
        }
        if let Some(delta) = one.thread_time_delta_us {
            base.thread_time_ns = base.thread_time_ns.saturating_add(micros(delta));
            counts.time_ns = Some(base.thread_time_ns);
        } else {
            counts.time_ns = one.thread_time_absolute_us.map(micros);
        }
        if let Some(delta) = one.instructions_delta {
            base.instructions = base.instructions.saturating_add(delta);
            counts.instructions = Some(base.instructions);
        } else {
            counts.instructions = one.instructions_absolute;
        }
        let stamp = match own {
            Some(ns) => Stamp::Known(self.monotonic_to_trace(machine, ns)),
            None => stamp,
        };
        Some((stamp, counts))
    }

    /// Converts a monotonic time to trace time; unchanged if no snapshot relates the two.
    fn monotonic_to_trace(&mut self, machine: u32, ns: i64) -> i64 {
        let clock = ClockId {
            id: MONOTONIC,
            sequence: 0,
            machine,
        };
        let time = self.clocks.absolute(clock, ns);
        time.and_then(|time| self.clocks.convert(time))
            .unwrap_or(ns)
    }

    /// Adds samples of CPU time and instructions in the older encoding.
    pub(super) fn thread_samples(&mut self, base: Base, counts: ThreadCounts) {
        for (key, value) in [
            (LaneKey::ThreadTime(base), counts.time_ns),
            (LaneKey::Instructions(base), counts.instructions),
        ] {
            if let Some(value) = value {
                let lane = self.tracks.lane(&mut self.builder, key);
                self.samples.push((lane, to_f64(value)));
            }
        }
    }
}
