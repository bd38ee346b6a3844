//! Why a call can take less time than its limit.

use crate::device::PeakKey;
use crate::dtype::Precision;
use crate::limit::{Bound, Limit, Peaks};
use crate::numbers::Numbers;

/// One reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Beyond {
    /// The bytes of an estimate have a lower end.
    FewerBytes,
    /// Attention may have a window that is not recorded.
    Window,
    /// All bytes fit into the last cache.
    Cache,
    /// The peak of another type was taken.
    Fallback,
    /// A product of float operands may be rounded to TF32.
    Tf32,
    /// Other units than the recorded types tell.
    Units,
    /// The link to the host.
    HostLink,
    /// The link between devices.
    Link,
    /// Memory traffic beyond the cache.
    Memory,
}

impl Beyond {
    /// All of them, in the order in which they are named.
    const ALL: [Self; 9] = [
        Self::FewerBytes,
        Self::Window,
        Self::Cache,
        Self::Fallback,
        Self::Tf32,
        Self::Units,
        Self::HostLink,
        Self::Link,
        Self::Memory,
    ];

    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::FewerBytes => "bytes may be fewer",
            Self::Window => "attention may have a window, which is not recorded",
            Self::Cache => "may stay in cache",
            Self::Fallback => "the device may have faster units than the fallback",
            Self::Tf32 => "may run in TF32",
            Self::Units => "faster than the peak: sparsity, a lower precision or another device",
            Self::HostLink => "faster than the table's link to the host",
            Self::Link => {
                "faster than the table's link: the switch may add, or the link is another"
            }
            Self::Memory => "faster than the memory: arguments not read in full, or another device",
        }
    }
}

/// A set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reasons(u16);

impl Reasons {
    fn add(&mut self, reason: Beyond) {
        self.0 |= 1 << reason as u16;
    }

    /// The reasons of both.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The reasons, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Beyond> {
        let all = Beyond::ALL.into_iter();
        all.filter(move |reason| self.0 & (1 << *reason as u16) != 0)
    }

    /// The reasons that fit a call that is `factor` times faster than its limit, where TF32 is `gain` times faster than binary32.
    pub(crate) fn of_factor(mut self, factor: f64, gain: f64) -> Self {
        /// Durations are rounded, and clocks differ from those of the table.
        const ROUNDED: f64 = 1.05;
        let tf32 = 1 << Beyond::Tf32 as u16;
        if self.0 & tf32 != 0 && factor > gain * ROUNDED {
            self.0 &= !tf32;
            if self == Self::default() {
                self.add(Beyond::Units);
            }
        }
        self
    }

    /// Why a call with these numbers may take less time than this limit: only what can lower the time that bounds it.
    pub(crate) fn new(numbers: &Numbers, limit: Limit, peaks: &Peaks) -> Self {
        let mut found = Self::default();
        let Some(bound) = limit.bound else {
            return found;
        };
        if bound != Bound::Link && numbers.note.contains(crate::numbers::NO_WINDOW) {
            found.add(Beyond::Window);
        }
        match bound {
            Bound::Memory => {
                if numbers.bytes_low < numbers.sure_bytes() {
                    found.add(Beyond::FewerBytes);
                }
                if peaks.fits_cache(numbers.sure_bytes()) {
                    found.add(Beyond::Cache);
                }
                if found == Self::default() {
                    found.add(Beyond::Memory);
                }
            }
            Bound::Compute => {
                if limit.fallback.is_some() {
                    found.add(Beyond::Fallback);
                }
                let tf32 = peaks.get(PeakKey::Arithmetic(Precision::Tf32));
                if numbers.precision == Some(Precision::Fp32) && tf32.is_some() {
                    found.add(Beyond::Tf32);
                }
                if found == Self::default() {
                    found.add(Beyond::Units);
                }
            }
            Bound::Link if numbers.to_host => found.add(Beyond::HostLink),
            Bound::Link => found.add(Beyond::Link),
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Basis;

    fn texts(numbers: &Numbers, peaks: &Peaks) -> Vec<&'static str> {
        let limit = peaks.limit(numbers).unwrap();
        let reasons = Reasons::new(numbers, limit, peaks);
        reasons.iter().map(Beyond::text).collect()
    }

    #[test]
    fn a_reason_fits_what_bounds_the_call() {
        let peaks = Peaks::new(crate::Devices::builtin().of_key("h200"), None, &[]);
        // The cache holds 50 MB.
        assert_eq!(texts(&Numbers::moved(1000), &peaks), ["may stay in cache"]);
        let many = Numbers::moved(1 << 40);
        assert!(texts(&many, &peaks)[0].contains("not read in full"));
        let estimate = many.basis(Basis::Estimate, "").between(1, Some(1 << 41));
        assert_eq!(texts(&estimate, &peaks), ["bytes may be fewer"]);
        // A small product fits the cache, which has nothing to do with its arithmetic.
        let product = |precision| Numbers::matrix(precision, 1 << 40, 8);
        assert!(texts(&product(Precision::Bf16), &peaks)[0].contains("sparsity"));
        assert_eq!(
            texts(&product(Precision::Fp32), &peaks),
            ["may run in TF32"]
        );
        // TF32 is 7.4 times as fast there: no call is 20 times faster by it.
        let limit = peaks.limit(&product(Precision::Fp32)).unwrap();
        let reasons = Reasons::new(&product(Precision::Fp32), limit, &peaks);
        for (factor, want) in [(7.0, Beyond::Tf32), (20.0, Beyond::Units)] {
            let found = reasons.of_factor(factor, peaks.tf32_gain());
            assert_eq!(found.iter().collect::<Vec<_>>(), [want], "{factor}");
        }
        assert!(texts(&product(Precision::Fp4), &peaks)[0].contains("fallback"));
        let attention = product(Precision::Bf16).basis(Basis::Annotation, "no window assumed");
        assert!(texts(&attention, &peaks)[0].contains("window"));
        assert!(texts(&Numbers::host_copy(8), &peaks)[0].contains("host"));
        let collective = Numbers::moved(8).link(1 << 30);
        assert!(texts(&collective, &peaks)[0].contains("switch"));
    }
}
