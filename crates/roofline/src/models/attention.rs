//! Attention: 2·heads·pairs·(d_qk + d_v) FLOPs over the pairs of query and key that the mask leaves.
//!
//! Where keys of earlier steps are read from a cache, lengths come from the annotation of the step: with its sums
//! pairs = Σqk − (Σq² − Σq)/2, since a request of q new tokens and k keys has q·k − q(q−1)/2; without them only a lower
//! bound is known. Places of arguments are those of the schemas of PyTorch, flash-attention, vLLM, SGLang and aiter.

use crate::dtype::{Dtype, Precision};
use crate::models::pairs::{Mask, even, pairs, seen};
use crate::numbers::{Answer, Basis, NO_WINDOW, Numbers, Shape, Unknown};
use crate::recorded::{Context, Recorded, Tensor, times};

fn flops(heads: u128, pairs: u128, d: u128) -> u128 {
    [heads, pairs, d].into_iter().fold(2, times)
}

/// An operator over whole tensors q, k and v, its first three arguments.
#[derive(Clone, Copy)]
struct Whole {
    /// Places of sequence and heads in a tensor of four dimensions.
    layout: (isize, isize),
    /// The argument that is a mask.
    mask: Option<usize>,
    /// The argument that tells whether the mask is causal.
    causal: usize,
    /// The mask if it is.
    if_causal: Mask,
    /// The argument that is the number of keys before a query's own that it sees, -1 for all; the next one is that of keys
    /// after it.
    window: Option<usize>,
    /// The argument of cumulative lengths, where tensors may have sequences after one another.
    lengths: Option<usize>,
}

/// `[B, H, N, D]` and masks that line up at the first key, as PyTorch has it.
const TORCH: Whole = Whole {
    layout: (2, 1),
    mask: None,
    causal: 4,
    if_causal: Mask::First,
    window: None,
    lengths: None,
};

/// `[B, N, H, D]` and masks that line up at the last key, as flash-attention has it.
const FLASH: Whole = Whole {
    layout: (1, 2),
    mask: None,
    causal: 5,
    if_causal: Mask::CAUSAL,
    window: Some(6),
    lengths: None,
};

/// `aten::_scaled_dot_product_flash_attention`: q, k, v, dropout, causal.
pub(super) fn sdpa_flash(recorded: &Recorded, _: &Context<'_>) -> Answer {
    TORCH.numbers(recorded)
}

/// `_scaled_dot_product_efficient_attention`, `_cudnn_attention`: q, k, v, mask?, log-sum-exp, dropout, causal.
pub(super) fn sdpa_masked(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let places = Whole {
        mask: Some(3),
        causal: 6,
        ..TORCH
    };
    places.numbers(recorded)
}

/// `aten::_flash_attention_forward`: q, k, v, lengths of q?, lengths of k?, longest q, longest k, dropout, causal, debug mask,
/// scale, left window, right window.
pub(super) fn flash_forward(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let places = Whole {
        causal: 8,
        window: Some(11),
        lengths: Some(3),
        ..FLASH
    };
    places.numbers(recorded)
}

/// `flash_attn::_flash_attn_forward`, `aiter::mha_fwd`: q, k, v, dropout, scale, causal, left window, right window.
pub(super) fn flash_dense(recorded: &Recorded, _: &Context<'_>) -> Answer {
    FLASH.numbers(recorded)
}

/// `flash_attn::_flash_attn_varlen_forward`: q, k, v, lengths of q, lengths of k, longest q, longest k, dropout, scale,
/// causal, left window, right window.
pub(super) fn flash_varlen(recorded: &Recorded, _: &Context<'_>) -> Answer {
    recorded.need(3)?;
    let places = Whole {
        causal: 9,
        window: Some(10),
        lengths: Some(3),
        ..FLASH
    };
    places.numbers(recorded)
}

/// Why numbers of attention are a lower bound.
const MASK: &str = "whether the mask is causal is not recorded";

/// A window; -1 and what is not recorded are none.
fn window(recorded: &Recorded, at: usize) -> Option<u128> {
    u128::try_from(recorded.int(at)?).ok()
}

impl Whole {
    fn numbers(&self, recorded: &Recorded) -> Answer {
        let [q, k, v] = [recorded.need(0)?, recorded.need(1)?, recorded.need(2)?];
        let lengths = self.lengths.and_then(|at| recorded.tensor(at));
        // Sequences after one another are `[tokens, heads, d]`; only their number is recorded.
        let (batch, sequence, heads) = match &lengths {
            Some(lengths) => {
                let sequences = lengths.dim(0)?.checked_sub(1);
                (sequences.ok_or_else(Unknown::unexpected)?, 0, 1)
            }
            None => (q.dim(0)?, self.layout.0, self.layout.1),
        };
        let rank = match lengths.is_some() {
            true => 3,
            false => 4,
        };
        if [q, k, v].iter().any(|t| t.rank() != rank) {
            return Err(Unknown::unexpected());
        }
        let is_recorded = recorded.flag(self.causal).is_some();
        let mask = self.mask_of(recorded);
        let (heads, queries) = (q.dim(heads)?, q.dim(sequence)?);
        let keys = k.dim(sequence)?;
        let (d_qk, d_v) = (q.dim(-1)?, v.dim(-1)?);
        let (rows, all, read) = match lengths.is_some() {
            true => {
                let sum = |count| even(batch, (queries, keys), mask, count);
                (queries, sum(pairs), sum(seen))
            }
            false => {
                let all = times(batch, pairs(queries, keys, mask));
                (times(batch, queries), all, seen(queries, keys, mask))
            }
        };
        // Keys before every window are not read; tensors that repeat one key hold nothing to leave out.
        let kv = k.read().saturating_add(v.read());
        let kv = match kv.checked_rem(keys) {
            Some(0) if read < keys && batch > 0 => times(kv / keys, read),
            _ => kv,
        };
        let result = [rows, heads, d_v].into_iter().fold(q.dtype.size(), times);
        let masked = self.mask.and_then(|at| recorded.tensor(at));
        let bytes = [q.read(), kv, result, masked.map_or(0, |m| m.read())];
        let bytes = bytes.into_iter().fold(0, u128::saturating_add);
        let flops = flops(heads, all, d_qk.saturating_add(d_v));
        let numbers = Numbers::matrix(Precision::of(q.dtype), flops, bytes).kv(kv);
        Ok(match (is_recorded, lengths.is_some() && batch > 1) {
            (false, _) => numbers.basis(Basis::Bound, MASK),
            (true, false) => numbers,
            (true, true) => numbers.basis(
                Basis::Estimate,
                "sequences taken as equally long: their lengths are not recorded",
            ),
        })
    }

    fn mask_of(&self, recorded: &Recorded) -> Mask {
        let at = |more: usize| self.window.and_then(|at| window(recorded, at + more));
        let (left, right) = (at(0), at(1));
        match (recorded.flag(self.causal), self.if_causal) {
            (Some(false), _) if left.is_some() || right.is_some() => Mask::Last { left, right },
            (Some(false), _) => Mask::All,
            // A mask that is not recorded leaves at least the pairs of a causal one.
            (Some(true) | None, Mask::Last { right, .. }) => Mask::Last { left, right },
            (Some(true) | None, mask) => mask,
        }
    }
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
    /// Queries `[.., heads, d]` with one head of keys and values of that size.
    fn new(q: &Tensor<'_>, out: Option<Tensor<'_>>, cache: Dtype) -> Result<Self, Unknown> {
        let (heads, d) = heads(q)?;
        Ok(Self {
            heads,
            heads_kv: 1,
            d_qk: d,
            d_v: d,
            query: q.dtype,
            out: out.map_or(q.dtype, |out| out.dtype),
            cache,
            rows: match q.rank() {
                4 => times(q.dim(0)?, q.dim(1)?),
                _ => q.dim(0)?,
            },
            window: None,
            latent: false,
        })
    }

    fn numbers(&self, context: &Context<'_>) -> Answer {
        let lengths = context.lengths;
        let tokens = lengths.and_then(|l| l.tokens());
        let (mut basis, mut note) = (Basis::Annotation, NO_WINDOW.to_owned());
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
        let mut numbers = numbers.basis(basis, note).between(bytes, high);
        numbers.shape = Some(Shape::Attention {
            heads_kv: (!self.latent).then_some(self.heads_kv),
            size: self.d_qk,
        });
        Ok(numbers)
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

/// An operator over q, and over keys and values with heads and head size last.
struct Places {
    q: usize,
    k: usize,
    v: usize,
    out: Option<usize>,
    /// Keys and values are those of the step's tokens and not the cache, whose type a write into it shows.
    is_of_step: bool,
    /// Keys that are seen before a query's own, -1 for all.
    window: Option<usize>,
}

impl Places {
    fn numbers(&self, recorded: &Recorded, context: &Context<'_>) -> Answer {
        let [q, k, v] = [self.q, self.k, self.v].map(|at| recorded.need(at));
        let (q, k, v) = (q?, k?, v?);
        let ((heads_kv, _), (_, d_v)) = (heads(&k)?, heads(&v)?);
        let cache = context.cache_type.filter(|_| self.is_of_step);
        let out = self.out.and_then(|at| recorded.tensor(at));
        Paged {
            heads_kv,
            d_v,
            window: self.window.and_then(|at| window(recorded, at)),
            ..Paged::new(&q, out, cache.unwrap_or(k.dtype))?
        }
        .numbers(context)
    }
}

/// `vllm::unified_attention(_with_output)`: q, k, v of the step's tokens, out?
pub(super) fn vllm_unified(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let places = Places {
        q: 0,
        k: 1,
        v: 2,
        out: Some(3),
        is_of_step: true,
        window: None,
    };
    places.numbers(recorded, context)
}

/// `vllm::unified_mla_attention_with_output`: q [T, H, L+R], latent [T, L], rotary part [T, 1, R], out [T, H, L].
pub(super) fn vllm_mla(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (q, latent, rotary) = (recorded.need(0)?, recorded.need(1)?, recorded.need(2)?);
    let (l, r) = (latent.dim(-1)?, rotary.dim(-1)?);
    let cache = context.cache_type.unwrap_or(latent.dtype);
    Paged {
        d_qk: l.saturating_add(r),
        d_v: l,
        latent: true,
        ..Paged::new(&q, recorded.tensor(3), cache)?
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
    // The key cache is [blocks, heads, d/x, block, x].
    let stated = recorded.int(first + 3);
    let heads_kv = match stated.and_then(|n| u128::try_from(n).ok()) {
        Some(stated) => stated,
        None => cache.dim(1)?,
    };
    Paged {
        heads_kv,
        ..Paged::new(&q, Some(out), cache.dtype)?
    }
    .numbers(context)
}

/// `aiter::mha_batch_prefill`: q [T, H, D], key cache [.., heads, D], value cache.
pub(super) fn aiter_prefill(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let places = Places {
        q: 0,
        k: 1,
        v: 2,
        out: None,
        is_of_step: false,
        window: None,
    };
    places.numbers(recorded, context)
}

/// `paged_attention_ragged` of aiter: out, workspace, q, key cache, value cache.
pub(super) fn aiter_ragged(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let places = Places {
        q: 2,
        k: 3,
        v: 4,
        out: Some(0),
        is_of_step: false,
        window: None,
    };
    places.numbers(recorded, context)
}

/// `sgl_kernel::fwd`, `flash_attn_3::fwd`: q, k, v, new k?, new v?, q of v?, out?, lengths of q? (7), page table? (14),
/// causal (24), left window (25), right window (26).
pub(super) fn flash3(recorded: &Recorded, context: &Context<'_>) -> Answer {
    if recorded.tensor(14).is_some() {
        let places = Places {
            q: 0,
            k: 1,
            v: 2,
            out: Some(6),
            is_of_step: false,
            window: Some(25),
        };
        return places.numbers(recorded, context);
    }
    let is_varlen = recorded.need(0)?.rank() == 3;
    let places = Whole {
        causal: 24,
        window: Some(25),
        lengths: Some(7).filter(|_| is_varlen),
        ..FLASH
    };
    places.numbers(recorded)
}
