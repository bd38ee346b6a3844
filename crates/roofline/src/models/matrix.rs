//! Matrix products: 2·B·M·N·K FLOPs, and the bytes of the operands, the result and what is listed beside.
//!
//! Places of arguments are those of the schemas of PyTorch (`native_functions.yaml`), vLLM (`csrc/torch_bindings.cpp`),
//! SGLang (`sgl-kernel/csrc/common_extension.cc`) and aiter.

use crate::dtype::{Dtype, Precision};
use crate::models::product_precision;
use crate::numbers::{Answer, Numbers, Shape, Unknown};
use crate::recorded::{Context, Recorded, Tensor, times};

/// Sizes of a product.
#[derive(Clone, Copy)]
struct Sizes {
    b: u128,
    m: u128,
    n: u128,
    k: u128,
}

impl Sizes {
    /// `[M, K] · [K, N]`.
    fn of(a: &Tensor<'_>, b: &Tensor<'_>) -> Result<Self, Unknown> {
        if a.rank() != 2 || b.rank() != 2 || a.dim(1)? != b.dim(0)? {
            return Err(Unknown::unexpected());
        }
        Ok(Self {
            b: 1,
            m: a.dim(0)?,
            n: b.dim(1)?,
            k: a.dim(1)?,
        })
    }

    /// `[B, M, K] · [B, K, N]`.
    fn batched(a: &Tensor<'_>, b: &Tensor<'_>) -> Result<Self, Unknown> {
        let fits = a.rank() == 3 && b.rank() == 3;
        if !fits || a.dim(0)? != b.dim(0)? || a.dim(2)? != b.dim(1)? {
            return Err(Unknown::unexpected());
        }
        Ok(Self {
            b: a.dim(0)?,
            m: a.dim(1)?,
            n: b.dim(2)?,
            k: a.dim(2)?,
        })
    }

    /// `[.., K] · [N, K]ᵀ`, as a linear layer has them.
    fn linear(x: &Tensor<'_>, w: &Tensor<'_>) -> Result<Self, Unknown> {
        if x.rank() == 0 || w.rank() != 2 || x.dim(-1)? != w.dim(1)? {
            return Err(Unknown::unexpected());
        }
        let rows = x.dims[..x.rank() - 1].iter();
        Ok(Self {
            b: 1,
            m: rows.fold(1, |all, n| times(all, crate::recorded::size(*n))),
            n: w.dim(0)?,
            k: w.dim(1)?,
        })
    }

    fn flops(self) -> u128 {
        [self.b, self.m, self.n, self.k].into_iter().fold(2, times)
    }

    fn result(self, dtype: Dtype) -> u128 {
        [self.b, self.m, self.n]
            .into_iter()
            .fold(dtype.size(), times)
    }
}

/// Bytes of all arguments of these places that are tensors.
fn read(recorded: &Recorded, places: impl IntoIterator<Item = usize>) -> u128 {
    let tensors = places.into_iter().filter_map(|at| recorded.tensor(at));
    tensors.fold(0, |all, tensor| all.saturating_add(tensor.read()))
}

/// A product of arguments `a` and `b` with a result of type `out`; `more` bytes are read beside.
fn product(
    sizes: Sizes,
    (a, b): (&Tensor<'_>, &Tensor<'_>),
    out: Dtype,
    more: u128,
    precision: Precision,
) -> Numbers {
    let operands = a.read().saturating_add(b.read()).saturating_add(more);
    let bytes = operands.saturating_add(sizes.result(out));
    let mut numbers = Numbers::matrix(precision, sizes.flops(), bytes);
    numbers.rows = Some(sizes.m);
    numbers.shape = Some(Shape::Product {
        inner: sizes.k,
        outer: sizes.n,
    });
    numbers
}

fn plain(
    recorded: &Recorded,
    context: &Context<'_>,
    (a, b): (usize, usize),
    sizes: fn(&Tensor<'_>, &Tensor<'_>) -> Result<Sizes, Unknown>,
    out: usize,
    more: u128,
) -> Result<(Numbers, u128), Unknown> {
    let (a, b) = (recorded.need(a)?, recorded.need(b)?);
    let sizes = sizes(&a, &b)?;
    let dtype = recorded.tensor(out).map_or(a.dtype, |out| out.dtype);
    let precision = product_precision(a.dtype, b.dtype, context);
    Ok((product(sizes, (&a, &b), dtype, more, precision), b.read()))
}

/// `aten::mm`: a, b, out?
pub(super) fn mm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (numbers, weights) = plain(recorded, context, (0, 1), Sizes::of, 2, 0)?;
    Ok(numbers.weights(weights))
}

/// `aten::bmm`: a, b, out? Neither operand is a weight.
pub(super) fn batched(recorded: &Recorded, context: &Context<'_>) -> Answer {
    Ok(plain(recorded, context, (0, 1), Sizes::batched, 2, 0)?.0)
}

/// `aten::dot`: two vectors.
pub(super) fn dot(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    if a.rank() != 1 || b.rank() != 1 || a.dim(0)? != b.dim(0)? {
        return Err(Unknown::unexpected());
    }
    let sizes = Sizes {
        b: 1,
        m: 1,
        n: 1,
        k: a.dim(0)?,
    };
    let out = recorded.tensor(2).map_or(a.dtype, |out| out.dtype);
    let precision = product_precision(a.dtype, b.dtype, context);
    Ok(product(sizes, (&a, &b), out, 0, precision))
}

/// A matrix at `a` and a vector at `b`; the matrix is the weight.
fn matrix_vector(
    recorded: &Recorded,
    context: &Context<'_>,
    (a, b): (usize, usize),
    out: usize,
    more: u128,
) -> Answer {
    let (a, b) = (recorded.need(a)?, recorded.need(b)?);
    if a.rank() != 2 || b.rank() != 1 || a.dim(1)? != b.dim(0)? {
        return Err(Unknown::unexpected());
    }
    let sizes = Sizes {
        b: 1,
        m: a.dim(0)?,
        n: 1,
        k: a.dim(1)?,
    };
    let dtype = recorded.tensor(out).map_or(a.dtype, |out| out.dtype);
    let precision = product_precision(a.dtype, b.dtype, context);
    Ok(product(sizes, (&a, &b), dtype, more, precision).weights(a.read()))
}

/// `aten::mv`: matrix, vector, out?
pub(super) fn mv(recorded: &Recorded, context: &Context<'_>) -> Answer {
    matrix_vector(recorded, context, (0, 1), 2, 0)
}

/// Bytes of the bias at 0, which is not read where `beta` at 3 is 0.
fn bias(recorded: &Recorded) -> u128 {
    let beta: Option<f64> = recorded.value(3).and_then(|text| text.parse().ok());
    match beta {
        Some(0.0) => 0,
        _ => read(recorded, [0]),
    }
}

/// `aten::addmm`, `_addmm_activation`: bias, a, b, beta, alpha.
pub(super) fn addmm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (numbers, weights) = plain(recorded, context, (1, 2), Sizes::of, 5, bias(recorded))?;
    Ok(numbers.weights(weights))
}

/// A product for each group where both operands have a matrix for each: a, b, and what is read at `beside`.
pub(super) fn of_groups(
    recorded: &Recorded,
    out: Dtype,
    precision: Precision,
    beside: &[usize],
) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::batched(&a, &b)?;
    let more = read(recorded, beside.iter().copied());
    Ok(product(sizes, (&a, &b), out, more, precision).weights(b.read()))
}

/// `aten::baddbmm`: bias, a, b, beta, alpha.
pub(super) fn baddbmm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    Ok(plain(recorded, context, (1, 2), Sizes::batched, 5, bias(recorded))?.0)
}

/// `aten::addmv`: bias, matrix, vector, beta, alpha.
pub(super) fn addmv(recorded: &Recorded, context: &Context<'_>) -> Answer {
    matrix_vector(recorded, context, (1, 2), 5, bias(recorded))
}

/// `aten::_scaled_mm`: a, b, scale of a, scale of b, bias?, scale of the result?, type of the result.
pub(super) fn scaled_mm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    let out = recorded.dtype(6).unwrap_or(a.dtype);
    let sizes = Sizes::of(&a, &b)?;
    let precision = product_precision(a.dtype, b.dtype, context);
    let more = read(recorded, 2..5);
    Ok(product(sizes, (&a, &b), out, more, precision).weights(b.read()))
}

/// `aten::_int_mm`: a, b; the result has 32 bits.
pub(super) fn int_mm(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::of(&a, &b)?;
    Ok(product(sizes, (&a, &b), Dtype::Int32, 0, Precision::Int8).weights(b.read()))
}

/// `aten::_weight_int4pack_mm`: x [M, K], packed weight, size of a group, scales and zeros [groups, N, 2]. The layout of the weight depends
/// on the device; its values do not.
pub(super) fn int4pack(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w, scales) = (recorded.need(0)?, recorded.need(1)?, recorded.need(3)?);
    if x.rank() != 2 || scales.rank() != 3 {
        return Err(Unknown::unexpected());
    }
    let sizes = Sizes {
        b: 1,
        m: x.dim(0)?,
        n: scales.dim(1)?,
        k: x.dim(1)?,
    };
    // Half a byte each.
    if w.read().saturating_mul(2) != times(sizes.n, sizes.k) {
        return Err(Unknown::unexpected());
    }
    let precision = product_precision(x.dtype, x.dtype, context);
    Ok(product(sizes, (&x, &w), x.dtype, scales.read(), precision).weights(w.read()))
}

/// `aten::_weight_int8pack_mm`: x [M, K], weight [N, K], a scale for each row. Weights are widened before they are multiplied.
pub(super) fn int8pack(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::linear(&x, &w)?;
    let precision = product_precision(x.dtype, x.dtype, context);
    Ok(product(sizes, (&x, &w), x.dtype, read(recorded, [2]), precision).weights(w.read()))
}

/// `_C::cutlass_scaled_mm(_azp)`: out, a, b, scales and what follows.
pub(super) fn cutlass_scaled_mm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (out, a, b) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    let sizes = Sizes::of(&a, &b)?;
    let precision = product_precision(a.dtype, b.dtype, context);
    let more = read(recorded, 3..recorded.len());
    Ok(product(sizes, (&a, &b), out.dtype, more, precision).weights(b.read()))
}

/// Two values in each byte along the inner length.
fn packed(sizes: Sizes) -> Sizes {
    Sizes {
        k: times(sizes.k, 2),
        ..sizes
    }
}

/// `cutlass_scaled_fp4_mm`: out, a [M, K/2], b [N, K/2], two block scales.
pub(super) fn cutlass_fp4(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (out, a, b) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    let sizes = packed(Sizes::linear(&a, &b)?);
    let more = read(recorded, 3..5);
    Ok(product(sizes, (&a, &b), out.dtype, more, Precision::Fp4).weights(b.read()))
}

/// `sgl_kernel::fp8_scaled_mm` and its kin: a, b, two scales, type of the result, bias?
pub(super) fn sgl_scaled_mm(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (a, b) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::of(&a, &b)?;
    let out = recorded.dtype(4).unwrap_or(Dtype::Bf16);
    let precision = product_precision(a.dtype, b.dtype, context);
    let more = read(recorded, [2, 3, 5]);
    Ok(product(sizes, (&a, &b), out, more, precision).weights(b.read()))
}

/// `vllm::rocm_unquantized_gemm`, `aiter::gemm_a16w16`: x [.., K], w [N, K], bias?
pub(super) fn linear(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::linear(&x, &w)?;
    let precision = product_precision(x.dtype, w.dtype, context);
    Ok(product(sizes, (&x, &w), x.dtype, read(recorded, [2]), precision).weights(w.read()))
}

/// `dsv3_router_gemm`, `dsv3_fused_a_gemm`: out, x [M, K], w [N, K] or [K, N].
pub(super) fn linear_out(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (out, x, w) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    // Of a square weight either reading gives the same numbers.
    let sizes = Sizes::linear(&x, &w).or_else(|_| Sizes::of(&x, &w))?;
    let precision = product_precision(x.dtype, w.dtype, context);
    Ok(product(sizes, (&x, &w), out.dtype, 0, precision).weights(w.read()))
}

/// `aiter::gemm_a8w8_*`: x, w [N, K], two scales; the result is bfloat16.
pub(super) fn linear_scaled(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = Sizes::linear(&x, &w)?;
    let precision = product_precision(x.dtype, w.dtype, context);
    let more = read(recorded, 2..4);
    Ok(product(sizes, (&x, &w), Dtype::Bf16, more, precision).weights(w.read()))
}

/// `aiter::gemm_a4w4`: x [M, K/2], w [N, K/2], two scales; the result is bfloat16.
pub(super) fn linear_fp4(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let sizes = packed(Sizes::linear(&x, &w)?);
    let more = read(recorded, 2..4);
    Ok(product(sizes, (&x, &w), Dtype::Bf16, more, Precision::Fp4).weights(w.read()))
}

/// `vllm::gemm_with_dynamic_quant`: x [M, K], w [N, K/2], scale.
pub(super) fn linear_dynamic_quant(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    if x.rank() == 0 || w.rank() != 2 {
        return Err(Unknown::unexpected());
    }
    let (k, held) = (x.dim(-1)?, w.dim(1)?);
    let precision = match held {
        held if held == k => product_precision(x.dtype, w.dtype, context),
        held if times(held, 2) == k => Precision::Fp4,
        _ => return Err(Unknown::unexpected()),
    };
    let rows = x.dims[..x.rank() - 1].iter();
    let m = rows.fold(1, |all, n| times(all, crate::recorded::size(*n)));
    let sizes = Sizes {
        b: 1,
        m,
        n: w.dim(0)?,
        k,
    };
    let more = read(recorded, [2]);
    Ok(product(sizes, (&x, &w), x.dtype, more, precision).weights(w.read()))
}

/// `_C::awq_gemm`: x [M, K], w [K, N/8] as 32 bits, scales, zeros. Weights are widened before they are multiplied.
pub(super) fn awq(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    let mut sizes = Sizes::of(&x, &w)?;
    sizes.n = times(sizes.n, 8);
    let precision = product_precision(x.dtype, x.dtype, context);
    let more = read(recorded, 2..4);
    Ok(product(sizes, (&x, &w), x.dtype, more, precision).weights(w.read()))
}

/// `gptq_gemm`: x [M, K], w [K·bits/32, N], zeros, scales, order.
pub(super) fn gptq(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(1)?);
    if x.rank() != 2 || w.rank() != 2 {
        return Err(Unknown::unexpected());
    }
    let sizes = Sizes {
        b: 1,
        m: x.dim(0)?,
        n: w.dim(1)?,
        k: x.dim(1)?,
    };
    let precision = product_precision(x.dtype, x.dtype, context);
    let more = read(recorded, 2..5);
    Ok(product(sizes, (&x, &w), x.dtype, more, precision).weights(w.read()))
}

/// Marlin's products of vLLM: M, N, K are integers from 12 on, the workspace is argument 10.
pub(super) fn marlin(recorded: &Recorded, context: &Context<'_>) -> Answer {
    marlin_at(recorded, context, 12, 10)
}

/// The form of SGLang: M, N, K from 10 on, the workspace is argument 8.
pub(super) fn sgl_marlin(recorded: &Recorded, context: &Context<'_>) -> Answer {
    marlin_at(recorded, context, 10, 8)
}

fn marlin_at(recorded: &Recorded, context: &Context<'_>, sizes: usize, workspace: usize) -> Answer {
    let (x, w) = (recorded.need(0)?, recorded.need(2)?);
    let int = |at| {
        let n = recorded.int(at).and_then(|n| u128::try_from(n).ok());
        n.ok_or_else(Unknown::unexpected)
    };
    let sizes = Sizes {
        b: 1,
        m: int(sizes)?,
        n: int(sizes + 1)?,
        k: int(sizes + 2)?,
    };
    let out = recorded.tensor(1).map_or(x.dtype, |out| out.dtype);
    let precision = product_precision(x.dtype, x.dtype, context);
    // Argument 1 is the output, where it is given.
    let more = (3..recorded.len()).filter(|at| *at != workspace);
    let more = read(recorded, more);
    Ok(product(sizes, (&x, &w), out, more, precision).weights(w.read()))
}
