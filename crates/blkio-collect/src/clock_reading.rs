//! Reads boot time and wall time together.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::script::clock_line;

/// Maximum time without a change of the time since boot.
const TICK: Duration = Duration::from_millis(50);
/// Required accuracy of a joint reading of both clocks, and maximum number of attempts.
const CLOSE: Duration = Duration::from_micros(100);
const TRIES: usize = 5;

/// Readings of both clocks at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    boottime_ns: Option<u64>,
    realtime_ns: Option<u64>,
    uncertainty: Duration,
}

impl Reading {
    /// Reads both clocks now; retries if the machine was busy.
    pub(crate) fn now() -> Self {
        let mut best = Self::once();
        for _ in 1..TRIES {
            if best.uncertainty < CLOSE {
                break;
            }
            let other = Self::once();
            if other.uncertainty < best.uncertainty {
                best = other;
            }
        }
        best
    }

    /// Reads both clocks once. The kernel reports the time since boot in hundredths of a second, so
    /// it is read until it changes; it is then known to within the time since the previous reading
    /// began.
    fn once() -> Self {
        let boottime_ns = || -> Option<u64> {
            let text = fs::read_to_string("/proc/uptime").ok()?;
            let (seconds, hundredths) = text.split(' ').next()?.split_once('.')?;
            let seconds: u64 = seconds.parse().ok()?;
            let hundredths: u64 = hundredths.parse().ok()?;
            seconds
                .checked_mul(1_000_000_000)?
                .checked_add(hundredths * 10_000_000)
        };
        let began = Instant::now();
        let first = boottime_ns();
        let mut before = began;
        loop {
            let start = Instant::now();
            let boot = boottime_ns();
            let wall = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let changed = boot != first;
            if changed || began.elapsed() > TICK {
                let uncertainty = if changed { before.elapsed() } else { TICK };
                return Self {
                    boottime_ns: boot,
                    realtime_ns: u64::try_from(wall.as_nanos()).ok(),
                    uncertainty,
                };
            }
            before = start;
        }
    }

    pub(crate) fn value(self) -> Value {
        json!({
            "boottime_ns": self.boottime_ns,
            "realtime_ns": self.realtime_ns,
            "uncertainty_ns": u64::try_from(self.uncertainty.as_nanos()).ok(),
        })
    }

    /// Returns the readings as a line of a log; empty if the time since boot cannot be read.
    pub(crate) fn line(self) -> String {
        let readings = self.boottime_ns.zip(self.realtime_ns);
        readings.map_or(String::new(), |(boot, wall)| clock_line(boot, wall))
    }
}
