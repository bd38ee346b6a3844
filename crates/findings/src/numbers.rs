//! Medians with intervals, shares, and numbers as text.

use report::human;

use crate::document::Interval;

/// Returns the median of values (the lower one of the middle two) and the 95 % interval of the median from order statistics: the
/// ranks between which the median lies with at least that probability, whatever the distribution. Up to five values have no such
/// ranks: their interval is all of them.
pub(crate) fn interval(values: impl IntoIterator<Item = i64>) -> Interval {
    let mut values: Vec<i64> = values.into_iter().collect();
    values.sort_unstable();
    let n = values.len();
    let Some(last) = n.checked_sub(1) else {
        return Interval::default();
    };
    let below = ranks_below(n);
    Interval {
        median: values[last / 2],
        low: values[below],
        high: values[last - below],
    }
}

/// Returns how many of `n` ordered values may be left out at each end so that those left contain the median with a probability
/// of 95 %: the binomial test of the median.
fn ranks_below(n: usize) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
    let n_real = n as f64;
    let ln_choose = |k: f64| {
        stats::ln_gamma(n_real + 1.0) - stats::ln_gamma(k + 1.0) - stats::ln_gamma(n_real - k + 1.0)
    };
    let (mut tail, mut k) = (0.0, 0);
    loop {
        #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
        let at = k as f64;
        tail += (ln_choose(at) - n_real * std::f64::consts::LN_2).exp();
        if tail > 0.025 || k >= n / 2 {
            // The last number whose tail was small enough.
            return k.saturating_sub(1);
        }
        k += 1;
    }
}

/// Returns the lower median; 0 without values.
pub(crate) fn median(values: impl IntoIterator<Item = i64>) -> i64 {
    interval(values).median
}

/// Returns a share in percent; 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 * 100.0 / whole as f64,
    }
}

/// Returns a time as text.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn time(ns: i64) -> String {
    human::duration(ns as f64)
}

/// Returns a share as text.
pub(crate) fn pct(share: f64) -> String {
    human::percent(share)
}

/// Returns a real number of nanoseconds as an integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "limits are far below 2^63 ns; casts of reals saturate"
)]
pub(crate) fn whole_ns(ns: f64) -> i64 {
    ns.round() as i64
}

/// Returns a part of a time.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn part_of(ns: i64, part: f64) -> i64 {
    whole_ns(ns as f64 * part)
}

/// Returns a count as `1 step`, `1,200 steps`.
pub(crate) fn counted(n: u64, one: &str, several: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{} {several}", human::count(n)),
    }
}

/// Returns the text shortened to `most` characters, with an ellipsis in its middle.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most || most < 8 {
        return text.to_owned();
    }
    let (front, back) = (most / 2, most - most / 2 - 1);
    let start: String = text.chars().take(front).collect();
    let end: String = text.chars().skip(length - back).collect();
    format!("{start}…{end}")
}

/// Returns text of a trace without control characters, at most `most` characters long: it is data, and must not move the cursor
/// of a terminal or break a line.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    shortened(&clean, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_have_the_interval_of_the_sign_test() {
        // Tables of the sign test: 6 values give all of them, 10 the second to the ninth, 20 the sixth to the fifteenth.
        let of = |n: i64| interval(1..=n);
        assert_eq!(
            of(1),
            Interval {
                median: 1,
                low: 1,
                high: 1
            }
        );
        assert_eq!(
            of(6),
            Interval {
                median: 3,
                low: 1,
                high: 6
            }
        );
        assert_eq!(
            of(10),
            Interval {
                median: 5,
                low: 2,
                high: 9
            }
        );
        assert_eq!(
            of(20),
            Interval {
                median: 10,
                low: 6,
                high: 15
            }
        );
        assert_eq!(
            of(100),
            Interval {
                median: 50,
                low: 40,
                high: 61
            }
        );
        assert_eq!(interval([]), Interval::default());
    }

    #[test]
    fn texts_of_traces_are_data() {
        assert_eq!(plain("a\u{1b}[31m\nb", 20), "a [31m b");
        assert_eq!(shortened("abcdefghijkl", 9), "abcd…ijkl");
        assert_eq!(counted(1200, "step", "steps"), "1,200 steps");
    }
}
