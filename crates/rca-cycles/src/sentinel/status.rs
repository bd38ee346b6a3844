//! What a watch has seen so far, for those who are alarmed by it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Seen, Step};
use crate::phase::Phase;

/// A change of the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Steps of a phase take longer than they should from now on.
    Begins,
    /// They do no longer.
    Ends,
}

/// Counts of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Of {
    steps: u64,
    unknown_load: u64,
    alarm_steps: u64,
    alarms: u64,
    is_alarm: bool,
    duration_ns: f64,
    expected_ns: f64,
    z: f64,
}

/// Counts and the last step of each phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    phases: BTreeMap<Phase, Of>,
    /// Steps of phases without a usable model.
    unmodelled: u64,
}

impl Status {
    /// Adds a step with what the watch says of it. Returns whether an alarm of its phase begins or ends with it. A step of a
    /// workload that the model has not seen changes neither.
    pub fn add(&mut self, step: &Step, seen: Option<&Seen>) -> Option<Event> {
        let Some(seen) = seen else {
            self.unmodelled += 1;
            return None;
        };
        let of = self.phases.entry(step.phase).or_default();
        of.steps += 1;
        of.unknown_load += u64::from(seen.out_of_support);
        (of.duration_ns, of.expected_ns, of.z) = (step.duration_ns, seen.expected_ns, seen.z);
        if seen.out_of_support {
            return None;
        }
        let before = std::mem::replace(&mut of.is_alarm, seen.alarm);
        of.alarm_steps += u64::from(seen.alarm);
        match (before, seen.alarm) {
            (false, true) => {
                of.alarms += 1;
                Some(Event::Begins)
            }
            (true, false) => Some(Event::Ends),
            _ => None,
        }
    }

    /// Number of steps that were added.
    pub fn steps(&self) -> u64 {
        self.unmodelled + self.phases.values().map(|of| of.steps).sum::<u64>()
    }

    /// Number of steps that alarmed.
    pub fn alarm_steps(&self) -> u64 {
        self.phases.values().map(|of| of.alarm_steps).sum()
    }

    /// Returns the state as metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        type Value = fn(&Of) -> f64;
        #[expect(clippy::cast_precision_loss, reason = "counts of steps")]
        let rows: [(&str, &str, &str, Value); 8] = [
            ("steps_total", "counter", "Steps watched", |of| {
                of.steps as f64
            }),
            (
                "unknown_load_steps_total",
                "counter",
                "Steps of a workload that the model was not fitted to",
                |of| of.unknown_load as f64,
            ),
            (
                "alarm_steps_total",
                "counter",
                "Steps during an alarm",
                |of| of.alarm_steps as f64,
            ),
            ("alarms_total", "counter", "Alarms that began", |of| {
                of.alarms as f64
            }),
            ("alarm", "gauge", "1 during an alarm", |of| {
                f64::from(u8::from(of.is_alarm))
            }),
            ("step_seconds", "gauge", "Duration of the last step", |of| {
                of.duration_ns / 1e9
            }),
            (
                "expected_step_seconds",
                "gauge",
                "What the model expects of the last step",
                |of| of.expected_ns / 1e9,
            ),
            (
                "deviation",
                "gauge",
                "Deviation of the last step in standard deviations",
                |of| of.z,
            ),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            let name = format!("inferscope_sentinel_{name}");
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
            for (phase, of) in &self.phases {
                let _ = writeln!(text, "{name}{{phase=\"{}\"}} {}", phase.name(), value(of));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_begin_and_end_once() {
        let step = Step {
            start_ns: 0,
            duration_ns: 2e6,
            phase: Phase::Decode,
            batch: 1.0,
            input: 1.0,
            output: 0.0,
        };
        let seen = |alarm, outside| Seen {
            expected_ns: 1e6,
            band_ns: (0.9e6, 1.1e6),
            z: 3.0,
            ewma: 0.0,
            cusum: 0.0,
            out_of_support: outside,
            alarm,
        };
        let mut status = Status::default();
        let mut add = |alarm, outside| status.add(&step, Some(&seen(alarm, outside)));
        assert_eq!(add(false, false), None);
        assert_eq!(add(true, false), Some(Event::Begins));
        assert_eq!(add(false, true), None);
        assert_eq!(add(true, false), None);
        assert_eq!(add(false, false), Some(Event::Ends));
        assert_eq!(status.add(&step, None), None);
        assert_eq!((status.steps(), status.alarm_steps()), (6, 2));
        let text = status.metrics();
        for line in [
            "inferscope_sentinel_steps_total{phase=\"decode\"} 5",
            "inferscope_sentinel_alarms_total{phase=\"decode\"} 1",
            "inferscope_sentinel_alarm{phase=\"decode\"} 0",
            "inferscope_sentinel_step_seconds{phase=\"decode\"} 0.002",
            "# TYPE inferscope_sentinel_deviation gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
    }
}
