//! Samples of counters, as columns in ascending time.

use crate::ids::TrackId;
use crate::time::Timestamp;

/// All counter samples of a trace. Equal times keep the order of the file.
#[derive(Clone, Debug, Default)]
pub struct CounterTable {
    pub(crate) ts: Vec<i64>,
    pub(crate) track: Vec<TrackId>,
    pub(crate) value: Vec<f64>,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSample {
    /// Time.
    pub ts: Timestamp,
    /// Track of the counter.
    pub track: TrackId,
    /// The value, in the counter's unit.
    pub value: f64,
}

impl CounterTable {
    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    /// Returns `true` if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Returns all samples in ascending time.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CounterSample> + '_ {
        self.ts
            .iter()
            .zip(&self.track)
            .zip(&self.value)
            .map(|((&ts, &track), &value)| CounterSample {
                ts: Timestamp::from_nanos(ts),
                track,
                value,
            })
    }
}
