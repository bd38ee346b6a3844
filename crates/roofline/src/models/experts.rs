//! Mixture of experts: each token takes k experts of E; the weights of each expert that is touched are read once.
//!
//! Which experts are drawn is not recorded. Of M tokens at least min(E, k) and at most min(E, M·k) are touched; the mean of
//! uniform independent draws is E·(1 − (1 − k/E)^M). Real routing is less even, so the mean is likely too high for few tokens.

use crate::config::rounded;
use crate::dtype::{Dtype, Precision};
use crate::limit::real;
use crate::models::product_precision;
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

/// `aten::_grouped_mm`: a, b, ends of the groups?, bias?, type of the result?
pub(super) fn grouped(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let out = recorded.dtype(4);
    groups(recorded, context, 2, &[3], out)
}

/// `aten::_scaled_grouped_mm`: a, b, two scales, ends of the groups?, bias?, scale of the result?, type of the result?
pub(super) fn scaled_grouped(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let out = recorded.dtype(7).unwrap_or(Dtype::Bf16);
    groups(recorded, context, 4, &[2, 3, 5, 6], Some(out))
}

/// A product for each group. Rows (or columns, or inner places) of the groups lie one behind the other in a matrix, up to the ends at `ends`;
/// what has a matrix for each group has three dimensions. Which groups are empty is not recorded: with T rows at least one matrix and at most
/// min(E, T) are read, on average of uniform draws E·(1 − (1 − 1/E)^T).
fn groups(
    recorded: &Recorded,
    context: &Context<'_>,
    ends: usize,
    beside: &[usize],
    out: Option<Dtype>,
) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    let dtype = out.unwrap_or(a.dtype);
    let precision = product_precision(a.dtype, b.dtype, context);
    if (a.rank(), b.rank()) == (3, 3) {
        return super::matrix::of_groups(recorded, dtype, precision, beside);
    }
    let offsets = recorded.need(ends)?;
    let beside = beside.iter().filter_map(|at| recorded.tensor(*at));
    let beside = beside.fold(offsets.read(), |all, t| all.saturating_add(t.read()));
    let count = offsets.elements();
    let written = |elements: u128| times(elements, dtype.size());
    let (tokens, rows, matrices, each) = match (a.rank(), b.rank()) {
        // Tokens against the weights of their experts.
        (2, 3) if a.dim(1)? == b.dim(1)? && b.dim(0)? == count => (a.dim(0)?, &a, &b, b.dim(2)?),
        (3, 2) if a.dim(2)? == b.dim(0)? && a.dim(0)? == count => (b.dim(1)?, &b, &a, a.dim(1)?),
        // Gradients of the weights: the inner length is divided.
        (2, 2) if a.dim(1)? == b.dim(0)? => {
            let plane = times(a.dim(0)?, b.dim(1)?);
            let operands = a.read().saturating_add(b.read()).saturating_add(beside);
            let bytes = operands.saturating_add(written(times(plane, count)));
            let flops = [plane, a.dim(1)?].into_iter().fold(2, times);
            return Ok(Numbers::matrix(precision, flops, bytes));
        }
        _ => return Err(Unknown::unexpected()),
    };
    let weights = Weights {
        experts: count,
        k: 1,
        bytes_each: matrices.written().checked_div(count).unwrap_or(0),
    };
    let (low, mean, high) = weights.read(tokens);
    let rest = [rows.read(), beside, written(times(tokens, each))];
    let rest: u128 = rest.into_iter().fold(0, u128::saturating_add);
    let flops = [rows.elements(), each].into_iter().fold(2, times);
    let numbers = Numbers::matrix(precision, flops, rest.saturating_add(mean));
    Ok(numbers
        .weights(mean)
        .between(rest.saturating_add(low), Some(rest.saturating_add(high)))
        .basis(Basis::Estimate, "experts taken as drawn uniformly"))
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
