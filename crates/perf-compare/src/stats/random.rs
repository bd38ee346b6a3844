//! Random numbers that depend on the seed, the purpose and the index alone, so that work may be shared among threads in any way.

/// Steps of the generator (the odd constant of SplitMix64).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of 64-bit numbers (SplitMix64), addressed by seed, purpose and index.
#[derive(Debug, Clone)]
pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: u64, index: u64) -> Self {
        let key = mix(seed ^ mix(purpose.wrapping_mul(STEP).wrapping_add(1)));
        Self(mix(key ^ mix(index.wrapping_mul(STEP).wrapping_add(7))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, by multiplication; the bias is below `limit / 2^64`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next()) * limit as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, purpose, index| Stream::new(seed, purpose, index).next();
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        assert_ne!(first(1, 2, 3), first(1, 2, 4));
        assert_ne!(first(1, 2, 3), first(1, 3, 2));
        let mut stream = Stream::new(1, 1, 1);
        let mut counts = [0; 5];
        for _ in 0..5000 {
            counts[stream.below(5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
    }
}
