//! Offsets between the clock of one stream and wall time.

use serde_json::Value;

/// A pair of readings of two clocks, written by the collector or the tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The trace's clock in nanoseconds.
    pub trace_ns: u64,
    /// Wall time in nanoseconds since 1970 as printed, without zone unless it was printed.
    pub wall_ns: u64,
    /// Maximum time between both readings in nanoseconds; 0 if unknown.
    pub uncertainty_ns: u64,
}

/// Offset of a clock to wall time.
#[derive(Debug, Clone, PartialEq)]
pub struct Alignment {
    /// Method of the alignment: `given`, `anchors`, `correlation`, `process start order`.
    pub method: &'static str,
    /// Wall time minus trace time in nanoseconds; at the first reading, if there are readings.
    pub offset_ns: i128,
    /// Uncertainty of the offset, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Change of the offset over time, in parts per million, when there are two anchors or more.
    pub drift_ppm: Option<f64>,
    /// For correlations: the best value and the best one elsewhere.
    pub correlation: Option<(Peak, Peak)>,
    /// Change of the offset, if there are two readings or more.
    pub drift: Option<Drift>,
    /// Assumption on which the uncertainty depends, if it goes beyond the readings.
    pub assumes: Option<&'static str>,
}

/// A correlation and the shift at which it occurs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Peak {
    /// Its value; 0 if there is none.
    pub value: f64,
    /// Nanoseconds from the start of one series to that of the other.
    pub lag_ns: i64,
}

/// Change of an offset from the first reading of both clocks to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift {
    /// Trace time of the first reading.
    from_ns: u64,
    /// Time to the last reading, on the trace's clock.
    elapsed_ns: u64,
    /// Gain of wall time on the trace's clock in that time.
    gained_ns: i128,
}

impl Drift {
    /// Returns the gain of wall time at `since_ns` after the first reading; `elapsed_ns` is the time
    /// between the first and the last reading on the same clock.
    fn gained(&self, since_ns: i128, elapsed_ns: i128) -> i128 {
        // Readings that differ by centuries do not belong to one run.
        let product = self.gained_ns.checked_mul(since_ns);
        product
            .filter(|_| elapsed_ns > 0)
            .map_or(0, |product| product.div_euclid(elapsed_ns))
    }
}

impl Alignment {
    /// Returns the wall time of a trace time: on the line through the first and the last reading.
    #[must_use]
    pub fn wall_of(&self, trace_ns: u64) -> i128 {
        let trace_ns = i128::from(trace_ns);
        let gained = self.drift.map_or(0, |drift| {
            drift.gained(
                trace_ns - i128::from(drift.from_ns),
                drift.elapsed_ns.into(),
            )
        });
        trace_ns + self.offset_ns + gained
    }

    /// Returns the trace time of a wall time.
    #[must_use]
    pub fn trace_of(&self, wall_ns: u64) -> i128 {
        let without = i128::from(wall_ns) - self.offset_ns;
        let gained = self.drift.map_or(0, |drift| {
            let elapsed_ns = i128::from(drift.elapsed_ns) + drift.gained_ns;
            drift.gained(without - i128::from(drift.from_ns), elapsed_ns)
        });
        without - gained
    }
}

/// Returns the readings in `clock.json` and in a recording's `manifest.json`: every object with
/// both `boottime_ns` and `realtime_ns`, ordered by time; with `uncertainty_ns` if the object has
/// it. Empty if there is none.
#[must_use]
pub fn anchors_of_json(text: &[u8]) -> Vec<Anchor> {
    let mut anchors = Vec::new();
    if let Ok(value) = serde_json::from_slice::<Value>(text) {
        collect_anchors(&value, &mut anchors);
    }
    anchors.sort_unstable_by_key(|anchor| (anchor.trace_ns, anchor.wall_ns));
    anchors
}

fn collect_anchors(value: &Value, anchors: &mut Vec<Anchor>) {
    let reading = |key: &str| value.get(key).and_then(Value::as_u64);
    if let (Some(trace_ns), Some(wall_ns)) = (reading("boottime_ns"), reading("realtime_ns")) {
        let uncertainty_ns = reading("uncertainty_ns").unwrap_or(0);
        anchors.push(Anchor {
            trace_ns,
            wall_ns,
            uncertainty_ns,
        });
    }
    match value {
        Value::Object(members) => members.values().for_each(|v| collect_anchors(v, anchors)),
        Value::Array(items) => items.iter().for_each(|v| collect_anchors(v, anchors)),
        _ => {}
    }
}

/// Returns the offset from pairs of readings: the line through the first and the last of them. Its
/// uncertainty is the largest distance of any reading from it plus the uncertainty of that reading
/// (at least a millisecond, the width of a printed reading).
#[must_use]
pub fn from_anchors(anchors: &[Anchor]) -> Option<Alignment> {
    let offset = |a: &Anchor| i128::from(a.wall_ns) - i128::from(a.trace_ns);
    let first = anchors.iter().min_by_key(|a| a.trace_ns)?;
    let last = anchors.iter().max_by_key(|a| a.trace_ns)?;
    let elapsed_ns = last.trace_ns - first.trace_ns;
    let gained_ns = offset(last) - offset(first);
    let mut found = Alignment {
        method: "anchors",
        offset_ns: offset(first),
        uncertainty_ns: 0,
        drift_ppm: (elapsed_ns > 0).then(|| gained_ns as f64 / elapsed_ns as f64 * 1e6),
        correlation: None,
        drift: (elapsed_ns > 0).then_some(Drift {
            from_ns: first.trace_ns,
            elapsed_ns,
            gained_ns,
        }),
        assumes: None,
    };
    let distances = anchors.iter().map(|a| {
        let distance = (i128::from(a.wall_ns) - found.wall_of(a.trace_ns)).unsigned_abs();
        distance.saturating_add(a.uncertainty_ns.into())
    });
    let farthest = u64::try_from(distances.max()?).unwrap_or(u64::MAX);
    found.uncertainty_ns = farthest.max(1_000_000);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_all_shapes_of_json() {
        let one = br#"{"boottime_ns":7,"realtime_ns":1000}"#;
        assert_eq!(anchors_of_json(one).len(), 1);
        let doubtful = br#"{"boottime_ns":7,"realtime_ns":1000,"uncertainty_ns":4000000}"#;
        let found = from_anchors(&anchors_of_json(doubtful)).unwrap();
        assert_eq!(found.uncertainty_ns, 4_000_000);
        let manifest = br#"{"clocks": {"after": {"boottime_ns": 90, "realtime_ns": 1090},
            "before": {"boottime_ns": 10, "realtime_ns": 1008}}, "device": [{"name": "x"}]}"#;
        let found = anchors_of_json(manifest);
        assert_eq!(
            found.iter().map(|a| a.trace_ns).collect::<Vec<_>>(),
            [10, 90]
        );
        assert_eq!(from_anchors(&found).unwrap().offset_ns, 998);
        for nothing in [
            &b"{"[..],
            b"[1]",
            br#"{"boottime_ns": -1, "realtime_ns": 5}"#,
        ] {
            assert_eq!(anchors_of_json(nothing), []);
        }
    }

    #[test]
    fn anchors_give_offset_spread_and_drift() {
        let anchor = |trace_ns, wall_ns| Anchor {
            trace_ns,
            wall_ns,
            uncertainty_ns: 0,
        };
        let found = from_anchors(&[
            anchor(0, 1_000_000_000),
            anchor(10_000_000_000, 11_000_000_000),
            anchor(20_000_000_000, 21_010_000_000),
        ])
        .unwrap();
        assert_eq!(found.offset_ns, 1_000_000_000);
        assert_eq!(found.uncertainty_ns, 5_000_000);
        assert!((found.drift_ppm.unwrap() - 500.0).abs() < 1e-9);
        // On the line, between the readings and beyond, in both directions.
        for (trace_ns, wall_ns) in [
            (0, 1_000_000_000),
            (10_000_000_000, 11_005_000_000),
            (40_000_000_000, 41_020_000_000),
        ] {
            assert_eq!(found.wall_of(trace_ns), i128::from(wall_ns));
            assert_eq!(found.trace_of(wall_ns), i128::from(trace_ns));
        }
        let one = from_anchors(&[anchor(5, 1_000)]).unwrap();
        assert_eq!((one.wall_of(7), one.trace_of(1_002)), (1_002, 7));
        // If the wall clock ran backwards, there is no line to invert.
        let back = from_anchors(&[anchor(0, 1_000), anchor(50, 900)]).unwrap();
        assert_eq!((back.wall_of(50), back.trace_of(1_000)), (900, 0));
        let wild = from_anchors(&[anchor(0, u64::MAX), anchor(u64::MAX, 0)]).unwrap();
        assert_eq!(wild.uncertainty_ns, u64::MAX);
        // The uncertainty of a reading counts as much as its distance from the line.
        let read = |trace_ns, wall_ns, uncertainty_ns| Anchor {
            trace_ns,
            wall_ns,
            uncertainty_ns,
        };
        for (anchors, uncertainty_ns) in [
            (vec![read(5, 1_000, 7_000_000)], 7_000_000),
            (vec![read(5, 1_000, 70)], 1_000_000),
            (
                vec![
                    read(0, 1_000_000_000, 9),
                    read(10_000_000_000, 11_000_000_000, 2_000_000),
                    read(20_000_000_000, 21_010_000_000, 6_000_000),
                ],
                7_000_000,
            ),
        ] {
            assert_eq!(
                from_anchors(&anchors).unwrap().uncertainty_ns,
                uncertainty_ns
            );
        }
        assert!(from_anchors(&[]).is_none());
    }
}
