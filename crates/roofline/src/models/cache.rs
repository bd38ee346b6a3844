//! Rotary embeddings and writes into the KV cache.

use crate::numbers::{Answer, Numbers, UnitKind, Unknown};
use crate::recorded::{Context, Recorded, Tensor, times};

/// Three operations for each rotated element: two products and a sum, shared by the pair.
const ROTARY_FLOPS: u128 = 3;

/// `rotary_embedding`: positions, q, k?, head size, table [positions, rotary width], style.
pub(super) fn rotary(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (positions, q) = (recorded.need(0)?, recorded.need(1)?);
    let (k, table) = (recorded.tensor(2), recorded.need(4)?);
    let head = recorded.int(3).and_then(|n| u128::try_from(n).ok());
    let head = match (head, q.rank()) {
        (Some(head), _) => head,
        (None, 3 | 4) => q.dim(-1)?,
        (None, _) => return Err(Unknown::new("the head size is not recorded")),
    };
    let width = table.dim(-1)?;
    let rotated = |t: &Tensor<'_>| times(t.elements(), width).checked_div(head);
    let rotated = |t: &Tensor<'_>| rotated(t).ok_or_else(Unknown::unexpected);
    let m = rotated(&q)?;
    let m_k = k.as_ref().map_or(Ok(0), rotated)?;
    let moved = |m: u128, t: &Tensor<'_>| times(times(m, 2), t.dtype.size());
    let rows = times(times(positions.elements(), width), table.dtype.size());
    let bytes = [
        moved(m, &q),
        k.as_ref().map_or(0, |k| moved(m_k, k)),
        positions.read(),
        rows,
    ];
    let bytes = bytes.into_iter().fold(0, u128::saturating_add);
    let flops = times(m.saturating_add(m_k), ROTARY_FLOPS);
    Ok(Numbers::exact(UnitKind::Vector, flops, bytes))
}

/// `sgl_kernel::apply_rope_pos_ids_cos_sin_cache`: q, k, two results, table, positions.
pub(super) fn sgl_rope(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let all = [0, 1, 2, 3].map(|at| recorded.need(at));
    let [q, k, q_out, k_out] = all;
    let (q, k, q_out, k_out) = (q?, k?, q_out?, k_out?);
    let (table, positions) = (recorded.need(4)?, recorded.need(5)?);
    let (width, head) = (table.dim(-1)?, q.dim(-1)?);
    let rotated = times(q.elements().saturating_add(k.elements()), width);
    let m = rotated.checked_div(head).ok_or_else(Unknown::unexpected)?;
    let rows = times(times(positions.elements(), width), table.dtype.size());
    let bytes = [
        q.read(),
        k.read(),
        q_out.written(),
        k_out.written(),
        positions.read(),
        rows,
    ];
    let bytes = bytes.into_iter().fold(0, u128::saturating_add);
    Ok(Numbers::exact(
        UnitKind::Vector,
        times(m, ROTARY_FLOPS),
        bytes,
    ))
}

/// Elements of one row of `[rows, ..]`.
fn row(tensor: &Tensor<'_>) -> Result<u128, Unknown> {
    let rest = tensor.dims.get(1..).ok_or_else(Unknown::unexpected)?;
    Ok(crate::recorded::product(rest))
}

/// `reshape_and_cache(_flash)`, `sglang::store_cache`: k, v, their caches, slots. Rows without a slot are padding.
pub(super) fn cache_write(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (k, v) = (recorded.need(0)?, recorded.need(1)?);
    let (k_cache, v_cache) = (recorded.need(2)?, recorded.need(3)?);
    let slots = recorded.need(4)?;
    let rows = k.dim(0)?.min(slots.elements());
    let (k_row, v_row) = (row(&k)?, row(&v)?);
    let k_bytes = times(k_row, k.dtype.size() + k_cache.dtype.size());
    let v_bytes = times(v_row, v.dtype.size() + v_cache.dtype.size());
    let bytes = times(rows, k_bytes.saturating_add(v_bytes)).saturating_add(slots.read());
    Ok(Numbers::moved(bytes))
}

/// `concat_and_cache_mla`: latent, rotary part, cache, slots.
pub(super) fn cache_write_mla(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (latent, rotary) = (recorded.need(0)?, recorded.need(1)?);
    let (cache, slots) = (recorded.need(2)?, recorded.need(3)?);
    let rows = latent.dim(0)?.min(slots.elements());
    let part = |t: &Tensor<'_>| Ok(times(row(t)?, t.dtype.size() + cache.dtype.size()));
    let each = part(&latent)?.saturating_add(part(&rotary)?);
    Ok(Numbers::moved(
        times(rows, each).saturating_add(slots.read()),
    ))
}
