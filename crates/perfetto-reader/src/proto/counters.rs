//! Reads counter samples: those of counter events, and extra ones attached to other events.

use trace_model::{IssueKind, LaneId};

use crate::proto::import::Importer;

/// Maximum number of extra counters of one event.
const MAX_EXTRA_COUNTERS: usize = 8;

impl Importer<'_> {
    /// Adds the sample of a counter event and returns its lane.
    pub(super) fn counter_event(&mut self, at: usize) -> Option<LaneId> {
        let (one, rare) = (self.event.scalars, self.event.rare);
        let uuid = one.track_uuid.or(self.sequences[at].defaults.track_uuid);
        let value = rare.counter_value.map(to_f64).or(rare.double_counter_value);
        let (Some(uuid), Some(value)) = (uuid, value) else {
            self.note(
                IssueKind::BadTrackEvent,
                "a counter event without track or value",
            );
            return None;
        };
        let (lane, value, _) = self.sample(at, uuid, value)?;
        self.samples.push((lane, value));
        Some(lane)
    }

    /// Returns lane and sample in the counter's unit; `None` if the track is not a counter.
    fn sample(&mut self, at: usize, uuid: u64, value: f64) -> Option<(LaneId, f64, bool)> {
        let descriptor = self.tracks.descriptors.get(&uuid);
        let Some((counter, name)) = descriptor.and_then(|d| Some((d.counter?, d.name))) else {
            self.count(IssueKind::CounterTrack);
            return None;
        };
        let mut value = value;
        if counter.multiplier > 0 {
            value *= to_f64(counter.multiplier);
        }
        if counter.incremental {
            let sum = self.sequences[at].counters.entry(uuid).or_default();
            *sum += value;
            value = *sum;
        }
        let is_thread_time = match self.options.compat {
            // The reference decides by the name of the track.
            true => name.is_some_and(|n| self.builder.events.strings.get(n) == "thread_time"),
            false => counter.builtin == 1,
        };
        let lane = self.tracks.uuid_lane(&mut self.builder, uuid);
        Some((lane, value, is_thread_time))
    }

    /// Adds the samples of extra counters, and returns the CPU time if it is among them. `None`
    /// drops the event.
    #[expect(
        clippy::option_option,
        reason = "outer: is the event good; inner: did it say the CPU time"
    )]
    pub(super) fn extra_counters(&mut self, at: usize) -> Option<Option<i64>> {
        let defaults = &self.sequences[at].defaults;
        let pick = |own: &[u64], default: &[u64]| -> Vec<u64> {
            if own.is_empty() {
                default.to_vec()
            } else {
                own.to_vec()
            }
        };
        let uuids = pick(&self.event.extra_uuids, &defaults.extra_uuids);
        let double_uuids = pick(&self.event.extra_double_uuids, &defaults.extra_double_uuids);
        let values = std::mem::take(&mut self.event.extra_values);
        let doubles = std::mem::take(&mut self.event.extra_double_values);
        let total = values.len() + doubles.len();
        let result = if uuids.len() < values.len()
            || double_uuids.len() < doubles.len()
            || total > MAX_EXTRA_COUNTERS
        {
            self.note(
                IssueKind::BadTrackEvent,
                "extra counters without tracks, or too many",
            );
            None
        } else {
            let ints = values.iter().map(|&n| to_f64(n.cast_signed()));
            let reals = doubles.iter().map(|&bits| f64::from_bits(bits));
            let pairs = uuids.iter().zip(ints).chain(double_uuids.iter().zip(reals));
            let mut time = None;
            let mut good = true;
            for (&uuid, value) in pairs {
                match self.sample(at, uuid, value) {
                    Some((lane, value, is_time)) => {
                        self.samples.push((lane, value));
                        if is_time {
                            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
                            let ns = value as i64;
                            time = Some(ns);
                        }
                    }
                    None => {
                        good = false;
                        break;
                    }
                }
            }
            good.then_some(time)
        };
        // Return the buffers.
        self.event.extra_values = values;
        self.event.extra_double_values = doubles;
        result
    }
}

/// Counters are binary64 in the model.
#[expect(clippy::cast_precision_loss, reason = "the format asks for it")]
pub(super) fn to_f64(n: i64) -> f64 {
    n as f64
}
