//! Attention: 2·heads·pairs·(d_qk + d_v) FLOPs over the pairs of query and key that the mask leaves.
//!
//! Where keys of earlier steps are read from a cache, lengths come from the annotation of the step: with its sums
//! pairs = Σqk − (Σq² − Σq)/2, since a request of q new tokens and k keys has q·k − q(q−1)/2; without them only a lower
//! bound is known. Places of arguments are those of the schemas of PyTorch, flash-attention, vLLM, SGLang and aiter.

use crate::dtype::{Dtype, Precision};
use crate::models::pairs::{Causal, even_pairs, pairs};
use crate::numbers::{Answer, Basis, Numbers, Unknown};
use crate::recorded::{Context, Recorded, Tensor, times};

fn flops(heads: u128, pairs: u128, d: u128) -> u128 {
    [heads, pairs, d].into_iter().fold(2, times)
}

/// Places of batch, sequence and heads in a dense tensor.
#[derive(Clone, Copy)]
struct Layout {
    sequence: isize,
    heads: isize,
}

/// `[B, H, N, D]`, as PyTorch has it.
const HEADS_FIRST: Layout = Layout {
    sequence: 2,
    heads: 1,
};

/// `[B, N, H, D]`, as flash-attention has it.
const SEQUENCE_FIRST: Layout = Layout {
    sequence: 1,
    heads: 2,
};

fn qkv(recorded: &Recorded) -> Result<[Tensor<'_>; 3], Unknown> {
    Ok([recorded.need(0)?, recorded.need(1)?, recorded.need(2)?])
}

fn dense(
    recorded: &Recorded,
    layout: Layout,
    mask: Option<usize>,
    flag: usize,
    causal: Causal,
) -> Answer {
    let [q, k, v] = qkv(recorded)?;
    if [q, k, v].iter().any(|t| t.rank() != 4) {
        return Err(Unknown::unexpected());
    }
    let is_recorded = recorded.flag(flag).is_some();
    let causal = match recorded.flag(flag) {
        Some(false) => Causal::No,
        // A mask that is not recorded leaves at least the pairs of a causal one.
        Some(true) | None => causal,
    };
    let (batch, heads, queries) = (q.dim(0)?, q.dim(layout.heads)?, q.dim(layout.sequence)?);
    let keys = k.dim(layout.sequence)?;
    let (d_qk, d_v) = (q.dim(3)?, v.dim(3)?);
    let all = times(batch, pairs(queries, keys, causal));
    let kv = k.read().saturating_add(v.read());
    let result = [batch, queries, heads, d_v]
        .into_iter()
        .fold(q.dtype.size(), times);
    let mask = mask.and_then(|at| recorded.tensor(at));
    let bytes = [q.read(), kv, result, mask.map_or(0, |m| m.read())];
    let bytes = bytes.into_iter().fold(0, u128::saturating_add);
    let flops = flops(heads, all, d_qk + d_v);
    let numbers = Numbers::matrix(Precision::of(q.dtype), flops, bytes).kv(kv);
    Ok(match is_recorded {
        true => numbers,
        false => numbers.basis(Basis::Bound, MASK),
    })
}

/// Why numbers of attention are a lower bound.
const MASK: &str = "whether the mask is causal is not recorded";

/// `aten::_scaled_dot_product_flash_attention`: q, k, v, dropout, causal.
pub(super) fn sdpa_flash(recorded: &Recorded, _: &Context<'_>) -> Answer {
    dense(recorded, HEADS_FIRST, None, 4, Causal::First)
}

/// `_scaled_dot_product_efficient_attention`, `_cudnn_attention`: q, k, v, mask?, log-sum-exp, dropout, causal.
pub(super) fn sdpa_masked(recorded: &Recorded, _: &Context<'_>) -> Answer {
    dense(recorded, HEADS_FIRST, Some(3), 6, Causal::First)
}

/// `aten::_flash_attention_forward`: q, k, v, lengths of q?, lengths of k?, longest q, longest k, dropout, causal.
pub(super) fn flash_forward(recorded: &Recorded, _: &Context<'_>) -> Answer {
    match recorded.tensor(3) {
        Some(_) => varlen(recorded, 3, 8),
        None => dense(recorded, SEQUENCE_FIRST, None, 8, Causal::Last),
    }
}

/// `flash_attn::_flash_attn_forward`, `aiter::mha_fwd`: q, k, v, dropout, scale, causal.
pub(super) fn flash_dense(recorded: &Recorded, _: &Context<'_>) -> Answer {
    dense(recorded, SEQUENCE_FIRST, None, 5, Causal::Last)
}

/// `flash_attn::_flash_attn_varlen_forward`: q, k, v, lengths of q, lengths of k, longest q, longest k, dropout, scale,
/// causal.
pub(super) fn flash_varlen(recorded: &Recorded, _: &Context<'_>) -> Answer {
    varlen(recorded, 3, 9)
}

/// Sequences after one another in `[tokens, heads, d]`; only their number is recorded.
fn varlen(recorded: &Recorded, lengths: usize, flag: usize) -> Answer {
    let [q, k, v] = qkv(recorded)?;
    let sequences = recorded.need(lengths)?.dim(0)?;
    let sequences = sequences.checked_sub(1).ok_or_else(Unknown::unexpected)?;
    if [q, k, v].iter().any(|t| t.rank() != 3) {
        return Err(Unknown::unexpected());
    }
    let is_recorded = recorded.flag(flag).is_some();
    let causal = match recorded.flag(flag) {
        Some(false) => Causal::No,
        Some(true) | None => Causal::Last,
    };
    let (tokens, heads) = (q.dim(0)?, q.dim(1)?);
    let (d_qk, d_v) = (q.dim(2)?, v.dim(2)?);
    let all = even_pairs(sequences, tokens, k.dim(0)?, causal);
    let kv = k.read().saturating_add(v.read());
    let result = [tokens, heads, d_v].into_iter().fold(q.dtype.size(), times);
    let bytes = q.read().saturating_add(kv).saturating_add(result);
    let numbers =
        Numbers::matrix(Precision::of(q.dtype), flops(heads, all, d_qk + d_v), bytes).kv(kv);
    Ok(match sequences {
        _ if !is_recorded => numbers.basis(Basis::Bound, MASK),
        0 | 1 => numbers,
        _ => numbers.basis(
            Basis::Estimate,
            "sequences taken as equally long: their lengths are not recorded",
        ),
    })
}

/// Sizes of attention over a cache.
struct Paged {
    heads: u128,
    heads_kv: u128,
    d_qk: u128,
    d_v: u128,
    query: Dtype,
    out: Dtype,
    cache: Dtype,
    /// Rows of the queries, padded ones included.
    rows: u128,
    /// Keys that are seen before a query's own, where recorded.
    window: Option<u128>,
    /// Keys serve as values, too: bytes of a key are those of `d_qk`.
    latent: bool,
}

impl Paged {
    fn numbers(&self, context: &Context<'_>) -> Answer {
        let lengths = context.lengths;
        let tokens = lengths.and_then(|l| l.tokens());
        let (mut basis, mut note) = (Basis::Annotation, "no window assumed".to_owned());
        let (tokens, mut keys, mut all) = match lengths.and_then(|l| Some((l, l.sums()?))) {
            Some((_, sums)) => {
                let own = sums.qq.saturating_sub(sums.q) / 2;
                (sums.q, sums.k, sums.qk.saturating_sub(own))
            }
            None => {
                basis = Basis::Bound;
                note = "keys of earlier steps are not recorded".to_owned();
                let tokens = tokens.unwrap_or(self.rows);
                (tokens, tokens, self.least_pairs(context, tokens))
            }
        };
        if let Some(window) = self.window.or(context.window) {
            if basis == Basis::Annotation {
                basis = Basis::Estimate;
                note = format!("window of {} keys", window.saturating_add(1));
                all = all.min(times(tokens, window.saturating_add(1)));
                let requests = lengths.and_then(|l| l.requests());
                if let Some(requests) = requests {
                    keys = keys.min(times(requests, window).saturating_add(tokens));
                }
            } else {
                // A longer prompt may have its first tokens outside; each token sees itself.
                all = tokens;
            }
        }
        let d_cache = match self.latent {
            true => self.d_qk,
            false => self.d_qk.saturating_add(self.d_v),
        };
        let kv = [keys, self.heads_kv, d_cache]
            .into_iter()
            .fold(self.cache.size(), times);
        let row =
            times(self.d_qk, self.query.size()).saturating_add(times(self.d_v, self.out.size()));
        let bytes = [tokens, self.heads].into_iter().fold(row, times);
        let bytes = bytes.saturating_add(kv);
        let flops = flops(self.heads, all, self.d_qk.saturating_add(self.d_v));
        let numbers = Numbers::matrix(Precision::of(self.query), flops, bytes).kv(kv);
        let high = (basis != Basis::Bound).then_some(bytes);
        Ok(numbers.basis(basis, note).between(bytes, high))
    }

    /// The pairs that there are at least: each prompt token sees those before it in this step, each generated one itself.
    fn least_pairs(&self, context: &Context<'_>, rows: u128) -> u128 {
        let known = context.lengths.and_then(|l| {
            let (context, generation) = (l.context, l.generation);
            Some((context, context.tokens?, generation.tokens?))
        });
        let Some((context, prompt, generated)) = known else {
            return rows;
        };
        let square = times(prompt, prompt);
        let least = match context.requests {
            Some(0) | None => prompt,
            Some(requests) => square.div_ceil(requests),
        };
        let squares = context.qq.unwrap_or(least);
        (squares.saturating_add(prompt) / 2).saturating_add(generated)
    }
}

/// Heads and head size of `[tokens, heads, d]`.
fn heads(tensor: &Tensor<'_>) -> Result<(u128, u128), Unknown> {
    match tensor.rank() {
        3 | 4 => Ok((tensor.dim(-2)?, tensor.dim(-1)?)),
        _ => Err(Unknown::unexpected()),
    }
}

/// `vllm::unified_attention(_with_output)`: q, k, v of the step's tokens, out?
pub(super) fn vllm_unified(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let [q, k, v] = qkv(recorded)?;
    let ((heads_q, d_qk), (heads_kv, _), (_, d_v)) = (heads(&q)?, heads(&k)?, heads(&v)?);
    let out = recorded.tensor(3).map_or(q.dtype, |out| out.dtype);
    Paged {
        heads: heads_q,
        heads_kv,
        d_qk,
        d_v,
        query: q.dtype,
        out,
        cache: context.cache_type.unwrap_or(k.dtype),
        rows: q.dim(0)?,
        window: None,
        latent: false,
    }
    .numbers(context)
}

/// `vllm::unified_mla_attention_with_output`: q [T, H, L+R], latent [T, L], rotary part [T, 1, R], out [T, H, L].
pub(super) fn vllm_mla(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let [q, latent, rotary] = qkv(recorded)?;
    let (heads_q, _) = heads(&q)?;
    let (l, r) = (latent.dim(-1)?, rotary.dim(-1)?);
    let out = recorded.tensor(3).map_or(q.dtype, |out| out.dtype);
    Paged {
        heads: heads_q,
        heads_kv: 1,
        d_qk: l.saturating_add(r),
        d_v: l,
        query: q.dtype,
        out,
        cache: context.cache_type.unwrap_or(latent.dtype),
        rows: q.dim(0)?,
        window: None,
        latent: true,
    }
    .numbers(context)
}

/// `_C::paged_attention_v1`: out, q [T, H, D], key cache, value cache, heads of keys.
pub(super) fn paged_v1(recorded: &Recorded, context: &Context<'_>) -> Answer {
    paged(recorded, context, 1)
}

/// `_C::paged_attention_v2`: out, three workspaces, then as the first version.
pub(super) fn paged_v2(recorded: &Recorded, context: &Context<'_>) -> Answer {
    paged(recorded, context, 4)
}

fn paged(recorded: &Recorded, context: &Context<'_>, first: usize) -> Answer {
    let (out, q) = (recorded.need(0)?, recorded.need(first)?);
    let cache = recorded.need(first + 1)?;
    let (heads_q, d) = heads(&q)?;
    // The key cache is [blocks, heads, d/x, block, x].
    let heads_kv = match recorded.int(first + 3).and_then(|n| u128::try_from(n).ok()) {
        Some(stated) => stated,
        None => cache.dim(1)?,
    };
    Paged {
        heads: heads_q,
        heads_kv,
        d_qk: d,
        d_v: d,
        query: q.dtype,
        out: out.dtype,
        cache: cache.dtype,
        rows: q.dim(0)?,
        window: None,
        latent: false,
    }
    .numbers(context)
}

/// `aiter::mha_batch_prefill`: q [T, H, D], key cache [.., heads, D], value cache.
pub(super) fn aiter_prefill(recorded: &Recorded, context: &Context<'_>) -> Answer {
    caches(recorded, context, (0, 1, 2), None)
}

/// `paged_attention_ragged` of aiter: out, workspace, q, key cache, value cache.
pub(super) fn aiter_ragged(recorded: &Recorded, context: &Context<'_>) -> Answer {
    caches(recorded, context, (2, 3, 4), Some(0))
}

fn caches(
    recorded: &Recorded,
    context: &Context<'_>,
    (q, k, v): (usize, usize, usize),
    out: Option<usize>,
) -> Answer {
    let (q, k, v) = (recorded.need(q)?, recorded.need(k)?, recorded.need(v)?);
    let ((heads_q, d_qk), (heads_kv, _), (_, d_v)) = (heads(&q)?, heads(&k)?, heads(&v)?);
    let out = out.and_then(|at| recorded.tensor(at));
    Paged {
        heads: heads_q,
        heads_kv,
        d_qk,
        d_v,
        query: q.dtype,
        out: out.map_or(q.dtype, |out| out.dtype),
        cache: k.dtype,
        rows: q.dim(0)?,
        window: None,
        latent: false,
    }
    .numbers(context)
}

/// `sgl_kernel::fwd`, `flash_attn_3::fwd`: q, k, v, new k?, new v?, q of v?, out?, lengths of q? (7), page table? (14),
/// causal (24), left window (25).
pub(super) fn flash3(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let [q, k, v] = qkv(recorded)?;
    if recorded.tensor(14).is_none() {
        return match (q.rank(), recorded.tensor(7)) {
            (3, Some(_)) => varlen(recorded, 7, 24),
            _ => dense(recorded, SEQUENCE_FIRST, None, 24, Causal::Last),
        };
    }
    let ((heads_q, d_qk), (heads_kv, _), (_, d_v)) = (heads(&q)?, heads(&k)?, heads(&v)?);
    let out = recorded.tensor(6).map_or(q.dtype, |out| out.dtype);
    let rows = match q.rank() {
        3 => q.dim(0)?,
        _ => times(q.dim(0)?, q.dim(1)?),
    };
    let window = recorded.int(25).and_then(|n| u128::try_from(n).ok());
    Paged {
        heads: heads_q,
        heads_kv,
        d_qk,
        d_v,
        query: q.dtype,
        out,
        cache: k.dtype,
        rows,
        window,
        latent: false,
    }
    .numbers(context)
}
