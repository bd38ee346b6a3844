//! Numbers of threads of both sides that explain their depths, and with these their pauses.

use blkio_companions::num::whole;

use super::{CHANGED, SAME};
use crate::comparison::pace::Pace;

/// Mean that splits a difference into logarithms.
pub(super) fn log_mean(a: f64, b: f64) -> f64 {
    let log = (b / a).ln();
    if log.abs() < 1e-9 || !log.is_finite() {
        return (a + b) / 2.0;
    }
    (b - a) / log
}

/// Returns numbers of threads of both sides that the depths of both allow: those that are known, else the same if there is one, else those
/// that change pauses least. And others that would do, too.
pub(super) fn threads(a: &Pace, b: &Pace) -> ([f64; 2], Option<[f64; 2]>) {
    let near = |known: f64, other: &Pace| {
        let range = other.threads();
        whole(known.round().max(1.0)).clamp(range.start, range.end - 1) as f64
    };
    match (a.known_threads(), b.known_threads()) {
        (Some(x), Some(y)) => ([x, y], None),
        (Some(x), None) => ([x, near(x, b)], None),
        (None, Some(y)) => ([near(y, a), y], None),
        (None, None) => by_depths(a, b),
    }
}

/// The same by depths alone.
fn by_depths(a: &Pace, b: &Pace) -> ([f64; 2], Option<[f64; 2]>) {
    let (of_a, of_b) = (a.threads(), b.threads());
    let least = of_a.start.max(of_b.start);
    let least_change = || {
        let pauses = |count: u64| -> u64 {
            let of_b_ns = b.latency() + b.flush();
            let wanted = (a.pause(count as f64) + of_b_ns) / b.interval().max(1e-9);
            whole(wanted.round().max(1.0)).clamp(of_b.start, of_b.end - 1)
        };
        let change = |[x, y]: &[u64; 2]| (a.pause(*x as f64) - b.pause(*y as f64)).abs();
        let all = of_a.clone().map(|count| [count, pauses(count)]);
        all.min_by(|x, y| change(x).total_cmp(&change(y)))
            .unwrap_or([of_a.start, of_b.start])
    };
    let are_alike = |[x, y]: [u64; 2], within: f64| {
        let (x, y) = (a.pause(x as f64), b.pause(y as f64));
        (x - y).abs() <= within * log_mean(x + a.latency(), y + b.latency())
    };
    let real = |[x, y]: [u64; 2]| [x as f64, y as f64];
    // Threads that keep out of each other's way are more than the depths show. The same number with the same pauses explains both sides by
    // latency or size alone; where depth or pauses changed, latency and the time per request do not change in the ratio of such a number.
    let same = (least..=least * 2).find(|count| are_alike([*count; 2], SAME));
    if let Some(count) = same {
        return (real([count; 2]), None);
    }
    if least >= of_a.end.min(of_b.end) {
        return (real(least_change()), None);
    }
    let other = least_change();
    let [x, y] = real(other);
    let is_vague = other[0] != other[1]
        && are_alike(other, CHANGED)
        && a.allows_threads(x)
        && b.allows_threads(y);
    (real([least; 2]), is_vague.then(|| real(other)))
}
