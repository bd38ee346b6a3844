//! Mixture of experts: each token takes k experts of E; the weights of each expert that is touched are read once.
//!
//! Which experts are drawn is not recorded. Of M tokens at least min(E, k) and at most min(E, M·k) are touched; the mean of
//! uniform independent draws is E·(1 − (1 − k/E)^M). Real routing is less even, so the mean is likely too high for few tokens.

use crate::config::rounded;
use crate::dtype::Precision;
use crate::limit::real;
use crate::numbers::{Answer, Basis, Numbers, Shape, Unknown};
use crate::recorded::{Context, Recorded, times};

/// Mean number of experts that M uniform draws of k out of E touch.
pub(crate) fn touched(experts: u128, k: u128, tokens: u128) -> f64 {
    if experts == 0 {
        return 0.0;
    }
    let missed = 1.0 - real(k.min(experts)) / real(experts);
    let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
    real(experts) * (1.0 - missed.powi(tokens))
}

/// Experts of a layer: how many, of how many bytes each.
struct Weights {
    experts: u128,
    k: u128,
    bytes_each: u128,
}

impl Weights {
    /// Bytes read of them: low, mean, high.
    fn read(&self, tokens: u128) -> (u128, u128, u128) {
        let at = |n: u128| times(n, self.bytes_each);
        if tokens == 0 {
            return (0, 0, 0);
        }
        (
            at(self.experts.min(self.k)),
            rounded(real(self.bytes_each) * touched(self.experts, self.k, tokens)),
            at(self.experts.min(times(tokens, self.k))),
        )
    }
}

/// Fused experts: x [M, K], first weights [E, R, K'], second weights [E, K, N'], weights of the router, ids [M, k]. A packed
/// weight (K' < K) holds K/K' values in an element.
pub(super) fn fused(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, w1, w2) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    let (router, ids) = (recorded.need(3)?, recorded.need(4)?);
    if x.rank() != 2 || w1.rank() != 3 || w2.rank() != 3 || ids.rank() != 2 {
        return Err(Unknown::unexpected());
    }
    let (tokens, width) = (x.dim(0)?, x.dim(1)?);
    let (experts, rows, held) = (w1.dim(0)?, w1.dim(1)?, w1.dim(2)?);
    if held == 0 || width % held != 0 || w2.dim(0)? != experts || w2.dim(1)? != width {
        return Err(Unknown::unexpected());
    }
    let packing = width / held;
    let inner = times(w2.dim(2)?, packing);
    let k = ids.dim(1)?;
    let each = times(rows, width).saturating_add(times(width, inner));
    let flops = [tokens, k, each].into_iter().fold(2, times);
    let per_expert = |w: &crate::recorded::Tensor<'_>| w.written().checked_div(experts);
    let bytes_each = per_expert(&w1).unwrap_or(0);
    let bytes_each = bytes_each.saturating_add(per_expert(&w2).unwrap_or(0));
    let weights = Weights {
        experts,
        k,
        bytes_each,
    };
    let (low, mean, high) = weights.read(tokens);
    let rest = [x.read(), x.written(), ids.read(), router.read()];
    let rest: u128 = rest.into_iter().fold(0, u128::saturating_add);
    let numbers = Numbers::matrix(Precision::of(x.dtype), flops, rest.saturating_add(mean));
    let mut numbers = numbers
        .weights(mean)
        .between(rest.saturating_add(low), Some(rest.saturating_add(high)))
        .basis(Basis::Estimate, "experts taken as drawn uniformly");
    numbers.shape = Some(Shape::Experts {
        all: experts,
        each_token: k,
    });
    Ok(numbers)
}

/// `vllm::moe_forward(_shared)`: hidden states [M, h], logits of the router [M, E]. The sizes of experts come from the
/// configuration, if there is one.
pub(crate) fn whole(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, logits) = (recorded.need(0)?, recorded.need(1)?);
    let Some(sizes) = context.experts else {
        return Err(Unknown::new("sizes of the experts are not recorded"));
    };
    if x.rank() != 2 || logits.rank() != 2 {
        return Err(Unknown::unexpected());
    }
    let (tokens, experts) = (x.dim(0)?, logits.dim(1)?);
    let values = sizes.values_each;
    let flops = [tokens, sizes.k, values].into_iter().fold(2, times);
    let (low, mean, high) = sizes.read(experts, tokens);
    // The hidden states may be padded for the kernels; the configuration has the width that is needed.
    let hidden = times(times(tokens, sizes.hidden), x.dtype.size());
    let rest = hidden.saturating_mul(2).saturating_add(logits.read());
    let numbers = Numbers::matrix(Precision::of(x.dtype), flops, rest.saturating_add(mean));
    Ok(numbers
        .weights(mean)
        .between(rest.saturating_add(low), Some(rest.saturating_add(high)))
        .basis(
            Basis::Estimate,
            "sizes of the experts from the configuration",
        ))
}
