//! The clock that collectors and engines share.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::doctor::system_text;

/// What the system's uptime was at an instant.
static ZERO: OnceLock<(Instant, i64)> = OnceLock::new();

/// Nanoseconds of CLOCK_MONOTONIC: those of the system's uptime, which is the same unless the machine slept.
///
/// The system says its uptime in hundredths of a second, so the first call waits for the next one; from there the clock of the
/// standard library, which is the same but does not say its zero, counts on.
pub(super) fn monotonic_ns() -> i64 {
    let (zero, uptime) = *ZERO.get_or_init(|| {
        let first = uptime_ns();
        let start = Instant::now();
        let mut now = uptime_ns();
        while now == first && start.elapsed() < Duration::from_millis(20) {
            now = uptime_ns();
        }
        (Instant::now(), now)
    });
    uptime.saturating_add(i64::try_from(zero.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

fn uptime_ns() -> i64 {
    let text = system_text("/proc/uptime").unwrap_or_default();
    let (seconds, rest) = text.split_once('.').unwrap_or((&text, ""));
    let seconds: i64 = seconds.trim().parse().unwrap_or(0);
    let hundredths: i64 = rest.get(..2).and_then(|two| two.parse().ok()).unwrap_or(0);
    seconds * 1_000_000_000 + hundredths * 10_000_000
}

/// What is to be added to a monotonic time to have the time since 1970.
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
            before <= times[0] + 1 && times[999] < after + 20_000_000,
            "{before} {times:?} {after}"
        );
        assert!(epoch_offset_ns() > 0);
    }
}
