//! Norms and softmax: a fixed number of operations per element, by convention (mean, variance, scale, shift each count one).

use crate::dtype::Dtype;
use crate::numbers::{Answer, Numbers, UnitKind, Unknown};
use crate::recorded::{Context, Recorded, Tensor, times};

/// A result like `x`, made from `x` and the other tensors.
fn new_result(x: &Tensor<'_>, flops_each: u128, others: &[Option<Tensor<'_>>]) -> Numbers {
    let read = others.iter().flatten().map(Tensor::read);
    let bytes = read.fold(x.read().saturating_add(x.written()), u128::saturating_add);
    Numbers::exact(UnitKind::Vector, times(x.elements(), flops_each), bytes)
}

/// `aiter::rms_norm`: x, w, epsilon.
pub(super) fn rms_norm_new(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    Ok(new_result(&x, 4, &[Some(w)]))
}

/// `aten::_fused_rms_norm`: x, shape, w?
pub(super) fn fused_rms_norm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.tensor(2));
    let each = if w.is_some() { 4 } else { 3 };
    Ok(new_result(&x, each, &[w]))
}

fn affine(recorded: &Recorded, w: usize, b: usize) -> Answer {
    let x = recorded.need(0)?;
    let more = [recorded.tensor(w), recorded.tensor(b)];
    let each = 5 + more.iter().flatten().count() as u128;
    Ok(new_result(&x, each, &more))
}

/// `aten::native_layer_norm`: x, shape, w?, b?
pub(super) fn layer_norm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    affine(recorded, 2, 3)
}

/// `aten::native_group_norm`: x, w?, b?
pub(super) fn group_norm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    affine(recorded, 1, 2)
}

/// `aiter::_groupnorm_run`: x, groups, w, b.
pub(super) fn aiter_group_norm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    affine(recorded, 2, 3)
}

/// Batch norm: x, w?, b?, running mean?, running variance?, training. Training writes the running statistics, too.
pub(super) fn batch_norm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let x = recorded.need(0)?;
    let training = recorded
        .flag(5)
        .ok_or_else(|| Unknown::new("training or inference was not recorded"))?;
    let others = [1, 2, 3, 4].map(|at| recorded.tensor(at));
    let mut numbers = new_result(&x, if training { 7 } else { 2 }, &others);
    if training {
        let written = others[2..].iter().flatten().map(Tensor::written);
        let bytes = written.fold(numbers.bytes, u128::saturating_add);
        numbers = Numbers::exact(UnitKind::Vector, numbers.flops.unwrap_or(0), bytes);
    }
    Ok(numbers)
}

/// Gradient, input and `reads` are read; of the three results those are written that the mask asks for.
fn backward(recorded: &Recorded, reads: &[usize], (w, b): (usize, usize), mask: usize) -> Answer {
    let (gradient, x) = (recorded.need(0)?, recorded.need(1)?);
    let mask = recorded.flags(mask).filter(|mask| mask.len() == 3);
    let mask = mask.ok_or_else(|| Unknown::new("the mask of results was not recorded"))?;
    let tensors = reads.iter().filter_map(|at| recorded.tensor(*at));
    let read = gradient.read().saturating_add(x.read());
    let mut bytes = tensors.fold(read, |all, t| all.saturating_add(t.read()));
    let written = |at: usize| recorded.tensor(at).map_or(0, |t| t.written());
    for (asked, size) in mask.into_iter().zip([x.written(), written(w), written(b)]) {
        bytes = bytes.saturating_add(if asked { size } else { 0 });
    }
    let flops = times(x.elements(), 8);
    Ok(Numbers::exact(UnitKind::Vector, flops, bytes))
}

/// `aten::native_layer_norm_backward`: gradient, x, shape, mean, rstd, w?, b?, mask.
pub(super) fn norm_backward(recorded: &Recorded, _: &Context<'_>) -> Answer {
    backward(recorded, &[3, 4, 5], (5, 6), 7)
}

/// `aten::native_batch_norm_backward`: gradient, x, w?, running mean?, running variance?, saved mean?, saved rstd?, training,
/// epsilon, mask. The gradient of the shift is as large as that of the scale. Without training the running statistics serve.
pub(super) fn batch_norm_backward(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let reads: &[usize] = match recorded.flag(7) {
        Some(false) => &[2, 3, 4],
        _ => &[2, 5, 6],
    };
    backward(recorded, reads, (2, 2), 9)
}

/// `aten::_softmax`, `_log_softmax`: x, dimension, half to float.
pub(super) fn softmax(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let x = recorded.need(0)?;
    let out = match recorded.flag(2) {
        Some(true) => Dtype::Fp32,
        _ => x.dtype,
    };
    let bytes = x.read().saturating_add(times(x.elements(), out.size()));
    Ok(Numbers::exact(
        UnitKind::Vector,
        times(x.elements(), 5),
        bytes,
    ))
}
