//! Amplitudes of a histogram of times by frequency, and the peaks among them.

use crate::num::{median, real};

/// Bins of a histogram; a power of two, as the transform wants.
pub(crate) const BINS: usize = 4096;

/// A frequency that stands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peak {
    /// Cycles per microsecond.
    pub(crate) frequency: f64,
    /// Amplitude over the noise floor, which is the median of all amplitudes.
    pub(crate) snr: f64,
}

/// The peaks of events at `times` (µs, ascending): at least four times as high as the noise floor and
/// three times as prominent; none if they have no extent.
pub(crate) fn peaks(times: &[f64]) -> Vec<Peak> {
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return Vec::new();
    };
    let span = last - first;
    if span <= 0.0 {
        return Vec::new();
    }
    let mut re = vec![0.0; BINS];
    for &t in times {
        let at = crate::num::bin((t - first) / span * real(BINS));
        re[at.min(BINS - 1)] += 1.0;
    }
    for (i, v) in re.iter_mut().enumerate() {
        // Hann's window, symmetric.
        let angle = 2.0 * std::f64::consts::PI * real(i) / real(BINS - 1);
        *v *= 0.5 - 0.5 * angle.cos();
    }
    let mut im = vec![0.0; BINS];
    transform(&mut re, &mut im);
    // Without the constant part.
    let amplitudes: Vec<f64> = (1..=BINS / 2).map(|k| re[k].hypot(im[k])).collect();
    let floor = median(&amplitudes).max(1e-9);
    maxima(&amplitudes)
        .into_iter()
        .filter(|&i| amplitudes[i] >= 4.0 * floor && prominence(&amplitudes, i) >= 3.0 * floor)
        .map(|i| Peak {
            frequency: real(i + 1) / span,
            snr: amplitudes[i] / floor,
        })
        .collect()
}

/// Places higher than both neighbours; of a level top its middle.
fn maxima(values: &[f64]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut i = 1;
    while i + 1 < values.len() {
        if values[i - 1] < values[i] {
            let mut j = i;
            while j + 1 < values.len() && values[j + 1].total_cmp(&values[i]).is_eq() {
                j += 1;
            }
            if values.get(j + 1).is_some_and(|next| *next < values[i]) {
                found.push(usize::midpoint(i, j));
            }
            i = j;
        }
        i += 1;
    }
    found
}

/// How far one has to go down from a peak to get to higher ground.
fn prominence(values: &[f64], peak: usize) -> f64 {
    let top = values[peak];
    let lowest = |side: &mut dyn Iterator<Item = &f64>| {
        let mut low = top;
        for &v in side {
            if v > top {
                break;
            }
            low = low.min(v);
        }
        low
    };
    let left = lowest(&mut values[..peak].iter().rev());
    let right = lowest(&mut values[peak + 1..].iter());
    top - left.max(right)
}

/// The discrete Fourier transform in place, by Cooley and Tukey's method for powers of two.
fn transform(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    debug_assert!(n.is_power_of_two() && im.len() == n);
    let mut j = 0;
    for i in 1..n {
        let mut bit = n >> 1;
        while j & bit != 0 {
            j ^= bit;
            bit >>= 1;
        }
        j |= bit;
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    let mut length = 2;
    while length <= n {
        let angle = -2.0 * std::f64::consts::PI / real(length);
        for start in (0..n).step_by(length) {
            for k in 0..length / 2 {
                // Computed anew each time: products of roots drift.
                let (sin, cos) = (angle * real(k)).sin_cos();
                let (a, b) = (start + k, start + k + length / 2);
                let (x, y) = (re[b] * cos - im[b] * sin, re[b] * sin + im[b] * cos);
                (re[b], im[b]) = (re[a] - x, im[a] - y);
                (re[a], im[a]) = (re[a] + x, im[a] + y);
            }
        }
        length *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_sum_it_stands_for() {
        let n = 64;
        let values: Vec<f64> = (0..n).map(|i| real(i * i * 7 % 31) - 11.0).collect();
        let (mut re, mut im) = (values.clone(), vec![0.0; n]);
        transform(&mut re, &mut im);
        for k in 0..n {
            let (mut x, mut y) = (0.0, 0.0);
            for (i, v) in values.iter().enumerate() {
                let angle = -2.0 * std::f64::consts::PI * real(i * k) / real(n);
                x += v * angle.cos();
                y += v * angle.sin();
            }
            assert!((re[k] - x).abs() < 1e-9 && (im[k] - y).abs() < 1e-9, "{k}");
        }
    }

    #[test]
    fn peaks_are_as_prominent_as_they_look() {
        let values = [0.0, 2.0, 1.0, 5.0, 5.0, 3.0, 4.0, 0.0];
        assert_eq!(maxima(&values), [1, 3, 6]);
        let found: Vec<f64> = [1, 3, 6].map(|i| prominence(&values, i)).to_vec();
        for (got, want) in found.iter().zip([1.0, 5.0, 1.0]) {
            assert!((got - want).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn a_regular_beat_is_the_strongest_peak() {
        let times: Vec<f64> = (0..200).map(|i| 30_000.0 * real(i)).collect();
        let found = peaks(&times);
        let best = found
            .iter()
            .find(|p| (1.0 / p.frequency - 30_000.0).abs() < 300.0);
        assert!(best.is_some(), "{found:?}");
        assert!(peaks(&[5.0; 30]).is_empty());
    }
}
