//! Sizes of a model, from its configuration.

use crate::models::{scaled, touched};
use crate::recorded::times;

/// Bits that one stored weight takes, as a fraction: block scales make it no integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bits {
    over: u128,
    under: u128,
}

impl Bits {
    /// `bits` for each weight, and a scale of `scale` bits for each block of `block` weights.
    pub(crate) const fn new(bits: u128, scale: u128, block: u128) -> Self {
        Self {
            over: bits * block + scale,
            under: block,
        }
    }

    /// bfloat16.
    pub(crate) const PLAIN: Self = Self::new(16, 0, 1);

    /// Bytes of `n` weights, rounded to the nearest one.
    pub(crate) fn bytes(self, n: u128) -> u128 {
        let bits = times(n, self.over);
        let bytes = self.under * 8;
        bits.saturating_add(bytes / 2) / bytes
    }
}

/// The experts of a layer, per rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Experts {
    /// Experts that each token takes.
    pub(crate) k: u128,
    /// Width of the hidden states.
    pub(crate) hidden: u128,
    /// Weights of one expert.
    pub(crate) values_each: u128,
    pub(crate) bits: Bits,
}

impl Experts {
    /// Bytes of weights that `tokens` tokens read of `experts` experts: at least, on average, at most.
    pub(crate) fn read(&self, experts: u128, tokens: u128) -> (u128, u128, u128) {
        let of = |n: u128| self.bits.bytes(times(n, self.values_each));
        if tokens == 0 {
            return (0, 0, 0);
        }
        // The mean is no integer: a thousandth of an expert is resolved by scaling the bytes of all.
        let all = of(experts);
        let share = match experts {
            0 => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "numbers of experts are small")]
            n => touched(n, self.k, tokens) / n as f64,
        };
        (
            of(experts.min(self.k)),
            scaled(all, share),
            of(experts.min(times(tokens, self.k))),
        )
    }
}
