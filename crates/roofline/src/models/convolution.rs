//! Convolutions: each element of the result takes one filter of an output channel, the padded border included.
//!
//! The length of a result is that of PyTorch's documentation of `Conv2d` and `ConvTranspose2d`.

use crate::models::product_precision;
use crate::numbers::{Answer, Numbers, Unknown};
use crate::recorded::{Context, Recorded, Tensor, product, size, times};

/// Scalars of a convolution.
struct Shape {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    transposed: bool,
    output_padding: Vec<i64>,
    groups: i64,
}

fn missing() -> Unknown {
    Unknown::new("stride, padding and dilation are not recorded")
}

impl Shape {
    /// Entry `at` of a list; a list of one stands for all dimensions.
    fn of(list: &[i64], at: usize) -> Option<i64> {
        match list {
            [one] => Some(*one),
            _ => list.get(at).copied(),
        }
    }

    /// Sizes of the result.
    fn result(&self, x: &Tensor<'_>, w: &Tensor<'_>) -> Result<Vec<i64>, Unknown> {
        if x.rank() < 3 || x.rank() != w.rank() {
            return Err(Unknown::unexpected());
        }
        let channels = match self.transposed {
            true => w.dims[1].checked_mul(self.groups),
            false => Some(w.dims[0]),
        };
        let mut result = vec![x.dims[0], channels.ok_or_else(Unknown::unexpected)?];
        for at in 0..x.rank() - 2 {
            let length = self.length(x.dims[at + 2], w.dims[at + 2], at);
            result.push(length.ok_or_else(Unknown::unexpected)?);
        }
        Ok(result)
    }

    fn length(&self, n: i64, k: i64, at: usize) -> Option<i64> {
        let stride = Self::of(&self.stride, at).filter(|s| *s > 0)?;
        let padding = Self::of(&self.padding, at)?;
        let reach = Self::of(&self.dilation, at)?.checked_mul(k.checked_sub(1)?)?;
        let border = padding.checked_mul(2)?;
        let length = match self.transposed {
            true => {
                let more = Self::of(&self.output_padding, at).unwrap_or(0);
                let inner = n.checked_sub(1)?.checked_mul(stride)?.checked_sub(border)?;
                inner
                    .checked_add(reach)?
                    .checked_add(more)?
                    .checked_add(1)?
            }
            false => {
                let inner = n.checked_add(border)?.checked_sub(reach)?.checked_sub(1)?;
                inner.div_euclid(stride).checked_add(1)?
            }
        };
        Some(length.max(0))
    }

    /// FLOPs of the forward pass with this result.
    fn flops(&self, x: &Tensor<'_>, w: &Tensor<'_>, result: &[i64]) -> u128 {
        let filter = product(&w.dims[1..]);
        let all = match self.transposed {
            true => x.elements(),
            false => product(result),
        };
        times(times(2, all), filter)
    }
}

fn forward(recorded: &Recorded, context: &Context<'_>, shape: &Shape) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let result = shape.result(&x, &w)?;
    let flops = shape.flops(&x, &w, &result);
    let written = times(product(&result), x.dtype.size());
    let bytes = x.read().saturating_add(w.read()).saturating_add(written);
    let precision = product_precision(x.dtype, w.dtype, context);
    Ok(Numbers::matrix(precision, flops, bytes).weights(w.read()))
}

/// `aten::convolution`: x, w, b, stride, padding, dilation, transposed, output padding, groups.
pub(super) fn convolution(recorded: &Recorded, context: &Context<'_>) -> Answer {
    forward(recorded, context, &shape_at(recorded, 3)?)
}

/// The scalars of `aten::convolution` and of its backward pass, which follow one another from `first` on.
fn shape_at(recorded: &Recorded, first: usize) -> Result<Shape, Unknown> {
    let list = |at: usize| recorded.ints(at).ok_or_else(missing);
    Ok(Shape {
        stride: list(first)?,
        padding: list(first + 1)?,
        dilation: list(first + 2)?,
        transposed: recorded.flag(first + 3).ok_or_else(missing)?,
        output_padding: recorded.ints(first + 4).unwrap_or_default(),
        groups: recorded.int(first + 5).ok_or_else(missing)?,
    })
}

/// Places of padding, stride, dilation and groups from `first` on.
fn backend(recorded: &Recorded, context: &Context<'_>, first: usize) -> Answer {
    let list = |at: usize| recorded.ints(at).ok_or_else(missing);
    let shape = Shape {
        padding: list(first)?,
        stride: list(first + 1)?,
        dilation: list(first + 2)?,
        transposed: false,
        output_padding: Vec::new(),
        groups: recorded.int(first + 3).unwrap_or(1),
    };
    forward(recorded, context, &shape)
}

/// `aten::cudnn_convolution`: x, w, padding, stride, dilation, groups.
pub(super) fn cudnn(recorded: &Recorded, context: &Context<'_>) -> Answer {
    backend(recorded, context, 2)
}

/// `aten::miopen_convolution`: x, w, b?, padding, stride, dilation, groups.
pub(super) fn miopen(recorded: &Recorded, context: &Context<'_>) -> Answer {
    backend(recorded, context, 3)
}

/// `aten::convolution_backward`: gradient, x, w, sizes of the bias, then as forward, mask of the results at 10.
///
/// The gradient of the input and that of the weight each take the FLOPs of the forward pass.
pub(super) fn backward(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (gradient, x, w) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    let shape = shape_at(recorded, 4)?;
    let mask = recorded.flags(10).filter(|mask| mask.len() == 3);
    let mask = mask.ok_or_else(|| Unknown::new("the mask of results was not recorded"))?;
    let once = shape.flops(&x, &w, gradient.dims);
    let (mut flops, mut bytes) = (0_u128, gradient.read());
    if mask[0] {
        flops = flops.saturating_add(once);
        bytes = bytes.saturating_add(w.read()).saturating_add(x.written());
    }
    if mask[1] {
        flops = flops.saturating_add(once);
        bytes = bytes.saturating_add(x.read()).saturating_add(w.written());
    }
    if mask[2] {
        let channels = gradient.dims.get(1).map_or(0, |n| size(*n));
        bytes = bytes.saturating_add(times(channels, w.dtype.size()));
    }
    let precision = product_precision(x.dtype, w.dtype, context);
    Ok(Numbers::matrix(precision, flops, bytes))
}
