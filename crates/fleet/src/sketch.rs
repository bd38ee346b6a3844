//! Quantiles of durations that can be merged between ranks.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sketches_ddsketch::{Config, DDSketch};

/// Relative error of a quantile.
pub(crate) const ACCURACY: f64 = 0.01;

/// Distribution of durations in nanoseconds: exact number and sum, quantiles with a relative error of at most 1 % ([`DDSketch`]).
#[derive(Clone, Default)]
pub struct Sketch {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub sum_ns: i64,
    values: Option<DDSketch>,
}

impl Sketch {
    /// Creates the sketch of some durations.
    pub fn of(durations: &[i64]) -> Self {
        let mut out = Self::default();
        // Equal values are neighbours in sorted lists.
        for run in durations.chunk_by(|a, b| a == b) {
            if let Some(first) = run.first() {
                out.add(*first, run.len() as u64);
            }
        }
        out
    }

    /// Adds a duration several times.
    pub fn add(&mut self, duration_ns: i64, times: u64) {
        let all = duration_ns.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
        self.count = self.count.saturating_add(times);
        self.sum_ns = self.sum_ns.saturating_add(all);
        let values = self.values.get_or_insert_with(empty);
        values.add_with_count(crate::words::real(duration_ns), times);
    }

    /// Adds all durations of another sketch.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        let Some(more) = &other.values else {
            return;
        };
        match &mut self.values {
            // All have the same configuration, so that merging cannot fail.
            Some(own) => _ = own.merge(more),
            None => self.values = Some(more.clone()),
        }
    }

    /// Returns the `q` quantile (0 to 1) in nanoseconds; `None` without durations.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.values.as_ref()?.quantile(q).ok().flatten()
    }

    /// Returns the median in nanoseconds, 0 without durations.
    pub fn median(&self) -> f64 {
        self.quantile(0.5).unwrap_or(0.0)
    }
}

fn empty() -> DDSketch {
    DDSketch::new(Config::new(ACCURACY, 2048, 1.0))
}

impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |sketch: &Self| sketch.values.as_ref().map(DDSketch::to_java_bytes);
        (self.count, self.sum_ns, bytes(self)) == (other.count, other.sum_ns, bytes(other))
    }
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sketch({}, {} ns)", self.count, self.sum_ns)
    }
}

/// The form in files: number, sum, and the bins in the binary form of all implementations of `DDSketch`, as hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Stored(u64, i64, String);

impl Serialize for Sketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.values.as_ref().map(DDSketch::to_java_bytes);
        let digits = bytes.unwrap_or_default();
        let digits = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        Stored(self.count, self.sum_ns, digits).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Stored(count, sum_ns, digits) = Stored::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("bins that are no hexadecimal digits"))?;
        if bytes.is_empty() {
            return Ok(Self {
                count,
                sum_ns,
                values: None,
            });
        }
        let read = DDSketch::from_java_bytes(&bytes)
            .map_err(|error| D::Error::custom(format!("bins of a sketch: {error}")))?;
        // The decoded configuration may differ in its limit, which must be the same for a merge.
        let mut values = empty();
        if values.merge(&read).is_err() {
            values = read;
        }
        Ok(Self {
            count,
            sum_ns,
            values: Some(values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(seed: u64, n: usize) -> Vec<i64> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(1 + (state >> 40)).unwrap()
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn quantiles_of_merged_sketches_are_those_of_all_values() {
        let (one, two) = (durations(1, 3000), durations(2, 500));
        let mut merged = Sketch::of(&one);
        merged.merge(&Sketch::of(&two));
        let mut all = [one, two].concat();
        all.sort_unstable();
        assert_eq!(merged.count, 3500);
        assert_eq!(merged.sum_ns, all.iter().sum::<i64>());
        for q in [0.01, 0.25, 0.5, 0.9, 0.99] {
            let exact = stats::percentile(&all, q * 100.0);
            let found = merged.quantile(q).unwrap();
            assert!(
                (found / exact - 1.0).abs() < 0.02,
                "{q}: {found} instead of {exact}"
            );
        }
    }

    #[test]
    fn files_keep_sketches_and_these_can_be_merged() {
        let sketch = Sketch::of(&durations(3, 400));
        let text = serde_json::to_string(&sketch).unwrap();
        let read: Sketch = serde_json::from_str(&text).unwrap();
        assert_eq!(read.median().to_bits(), sketch.median().to_bits());
        let mut twice = read.clone();
        twice.merge(&sketch);
        assert_eq!(twice.count, 800);
        assert_eq!(twice.median().to_bits(), sketch.median().to_bits());
        let nothing: Sketch =
            serde_json::from_str(&serde_json::to_string(&Sketch::default()).unwrap()).unwrap();
        assert_eq!(nothing, Sketch::default());
        for broken in ["[1,2,\"zz\"]", "[1,2,\"02\"]", "[1,2,\"ffffff\"]"] {
            // Neither is a panic.
            let _ = serde_json::from_str::<Sketch>(broken);
        }
    }
}
