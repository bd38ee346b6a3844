//! Reads the clock that collectors and engines share.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::doctor::system_text;

/// The system's uptime in ns at an instant.
static ZERO: OnceLock<(Instant, i64)> = OnceLock::new();

/// Acceptable uncertainty of the clock's offset.
const ENOUGH: Duration = Duration::from_micros(50);
/// Maximum number of attempts.
const LOOKS: usize = 6;

/// Returns CLOCK_MONOTONIC in nanoseconds, measured as the system's uptime; the two are equal
/// unless the machine slept.
///
/// The system reports its uptime in hundredths of a second, so the first call waits for the next
/// step of the uptime. From then on the monotonic clock of the standard library, which hides its
/// zero, is used. A thread that is delayed between a step and its observation sees the step late,
/// so the observation with the least uncertainty counts.
pub(super) fn monotonic_ns() -> i64 {
    let (zero, uptime) = *ZERO.get_or_init(|| {
        let mut best = step();
        for _ in 1..LOOKS {
            if best.doubt <= ENOUGH {
                break;
            }
            let next = step();
            if next.doubt < best.doubt {
                best = next;
            }
        }
        (best.at, best.uptime_ns)
    });
    uptime.saturating_add(i64::try_from(zero.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

/// A step of the uptime, observed within `doubt` around `at`.
struct Step {
    at: Instant,
    doubt: Duration,
    uptime_ns: i64,
}

/// Waits for the next step.
fn step() -> Step {
    let start = Instant::now();
    let first = uptime_ns();
    let mut earlier = start;
    loop {
        let before = Instant::now();
        let uptime_ns = uptime_ns();
        let doubt = earlier.elapsed();
        // A system without an uptime never steps.
        if uptime_ns != first || start.elapsed() > Duration::from_millis(100) {
            return Step {
                at: earlier + doubt / 2,
                doubt,
                uptime_ns,
            };
        }
        earlier = before;
    }
}

fn uptime_ns() -> i64 {
    let text = system_text("/proc/uptime").unwrap_or_default();
    let (seconds, rest) = text.split_once('.').unwrap_or((&text, ""));
    let seconds: i64 = seconds.trim().parse().unwrap_or(0);
    let hundredths: i64 = rest.get(..2).and_then(|two| two.parse().ok()).unwrap_or(0);
    seconds * 1_000_000_000 + hundredths * 10_000_000
}

/// Returns the offset from monotonic time to the time since 1970, in ns.
pub(super) fn epoch_offset_ns() -> i64 {
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let epoch = epoch.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    });
    epoch.saturating_sub(monotonic_ns())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_uptime_and_does_not_go_back() {
        let before = uptime_ns();
        let times: Vec<i64> = (0..1000).map(|_| monotonic_ns()).collect();
        let after = uptime_ns();
        assert!(times.is_sorted());
        assert!(
            before <= times[0] + 10_000_000 && times[999] < after + 20_000_000,
            "{before} {times:?} {after}"
        );
        assert!(epoch_offset_ns() > 0);
    }
}
