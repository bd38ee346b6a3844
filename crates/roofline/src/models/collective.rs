//! Collectives: bytes of local memory, and those that one device sends at least.
//!
//! With n devices and S the larger side, a device of a ring or of any other algorithm sends at least 2(n−1)/n·S in an
//! all-reduce and (n−1)/n·S in an all-gather, reduce-scatter or all-to-all (Patarasuk and Yuan, Bandwidth optimal all-reduce
//! algorithms, 2009); with addition in the switch (n+1)/n·S.

use trace_model::kernel::collective::CollectiveOp;

use crate::dtype::Dtype;
use crate::numbers::{Answer, Numbers, UnitKind, Unknown};
use crate::recorded::{CollectiveSizes, Context, Recorded, times};

/// Bytes sent by one of `n` devices.
fn sent(name: &str, n: u128, s: u128) -> u128 {
    if n <= 1 {
        return 0;
    }
    match CollectiveOp::from_name(name) {
        Some(CollectiveOp::AllReduce) => times(times(s, 2), n - 1) / n,
        Some(CollectiveOp::AllGather | CollectiveOp::ReduceScatter | CollectiveOp::AllToAll) => {
            times(s, n - 1) / n
        }
        _ => s,
    }
}

/// Numbers from the sizes that the operator or the kernel states.
pub(crate) fn numbers(sizes: Option<&CollectiveSizes>, context: &Context<'_>) -> Answer {
    let missing = || Unknown::new("sizes of the collective are not recorded");
    let sizes = sizes.ok_or_else(missing)?;
    let count = |n: Option<i64>| n.and_then(|n| u128::try_from(n).ok());
    let (before, after) = (count(sizes.in_elements), count(sizes.out_elements));
    let dtype = Dtype::of_name(&sizes.dtype).ok_or_else(missing)?;
    let (Some(before), Some(after)) = (before.or(after), after.or(before)) else {
        return Err(missing());
    };
    let (before, after) = (times(before, dtype.size()), times(after, dtype.size()));
    let group = count(sizes.group_size).filter(|n| *n > 0);
    let group = group.or(context.world_size.map(u128::from));
    let group = group.ok_or_else(no_group)?;
    let link = sent(&sizes.name, group, before.max(after));
    let bytes = before.saturating_add(after);
    Ok(Numbers::exact(UnitKind::Link, 0, bytes).link(link))
}

fn no_group() -> Unknown {
    Unknown::new("the size of the group is not recorded")
}

/// `record_param_comms`.
pub(super) fn recorded(_: &Recorded, context: &Context<'_>) -> Answer {
    numbers(context.collective, context)
}

fn all_reduce(recorded: &Recorded, context: &Context<'_>, link: fn(u128, u128) -> u128) -> Answer {
    let mut tensors = recorded.tensors().filter(|(_, t)| t.rank() > 0);
    let (_, tensor) = tensors.next().ok_or_else(Unknown::unexpected)?;
    let group = context.world_size.map(u128::from).ok_or_else(no_group)?;
    let s = tensor.written();
    let sent = match group {
        0 | 1 => 0,
        n => link(n, s),
    };
    Ok(Numbers::exact(UnitKind::Link, 0, times(s, 2)).link(sent))
}

/// All-reduces of engines (vLLM, SGLang, symmetric memory): the first tensor is reduced.
pub(super) fn custom_all_reduce(recorded: &Recorded, context: &Context<'_>) -> Answer {
    all_reduce(recorded, context, |n, s| times(times(s, 2), n - 1) / n)
}

/// `symm_mem::multimem_all_reduce_`: the switch adds.
pub(super) fn in_switch_all_reduce(recorded: &Recorded, context: &Context<'_>) -> Answer {
    all_reduce(recorded, context, |n, s| times(s, n + 1) / n)
}
