//! A small seeded random number generator, so that data sets never change with a library version.

/// SplitMix64 (Steele, Lea and Flood 2014): one 64-bit state, full period, good enough to vary durations.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a stream that depends only on `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..n`; `n` must not be 0. The bias of the remainder is negligible for
    /// fixtures.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// Returns a number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.abs_diff(low) + 1;
        low.saturating_add_unsigned(self.below(width))
    }

    /// Returns `base` plus or minus up to `percent` of it.
    pub fn around(&mut self, base: i64, percent: i64) -> i64 {
        let swing = base * percent / 100;
        self.between(base - swing, base + swing)
    }

    /// Returns one of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let last = i64::try_from(items.len()).unwrap_or(1) - 1;
        &items[usize::try_from(self.between(0, last)).unwrap_or(0)]
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = usize::try_from(self.between(0, i64::try_from(i).unwrap_or(0))).unwrap_or(0);
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567, as published with the algorithm.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn between_includes_both_ends() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[usize::try_from(rng.between(-1, 1) + 1).expect("in range")] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
