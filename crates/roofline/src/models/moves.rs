//! Operators that move data, and running sums.

use trace_model::kernel::CopyDirection;

use crate::dtype::{Category, Dtype};
use crate::numbers::{Answer, Numbers, UnitKind, Unknown};
use crate::recorded::{Context, Recorded, product, size, times};

/// `aten::cumsum`: x, dimension, type?
pub(super) fn cumsum(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let x = recorded.need(0)?;
    let out = recorded.dtype(2).unwrap_or(match x.dtype.category() {
        Category::Bool | Category::Integer => Dtype::Int64,
        Category::Float | Category::Complex => x.dtype,
    });
    let bytes = x.read().saturating_add(times(x.elements(), out.size()));
    Ok(Numbers::exact(UnitKind::Vector, x.elements(), bytes))
}

/// `aten::copy_`: destination, source. Between device and host only one side is memory of the device.
pub(super) fn copy(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let (to, from) = (recorded.need(0)?, recorded.need(1)?);
    if context.is_host_copy {
        let is_upload = context
            .kernels
            .iter()
            .any(|name| CopyDirection::of_name(name) == CopyDirection::HostToDevice);
        return Ok(Numbers::host_copy(match is_upload {
            true => to.written(),
            false => from.read(),
        }));
    }
    Ok(Numbers::moved(from.read().saturating_add(to.written())))
}

/// `aten::_local_scalar_dense`: one element that the host wants to know.
pub(super) fn item(recorded: &Recorded, _: &Context<'_>) -> Answer {
    Ok(Numbers::host_copy(recorded.need(0)?.written()))
}

/// `fill_`, `zero_`, `normal_`, `uniform_`: the first argument is written.
pub(super) fn fill(recorded: &Recorded, _: &Context<'_>) -> Answer {
    Ok(Numbers::moved(recorded.need(0)?.written()))
}

/// `elements` of type `dtype` are read and written, picked by an index.
fn picked(elements: u128, dtype: Dtype, index: u128) -> Numbers {
    let moved = times(times(elements, 2), dtype.size());
    Numbers::moved(moved.saturating_add(index))
}

/// `aten::embedding`: table, rows that are picked.
pub(super) fn embedding(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (table, index) = (recorded.need(0)?, recorded.need(1)?);
    let row = table.dims.get(1..).ok_or_else(Unknown::unexpected)?;
    let elements = times(index.elements(), product(row));
    Ok(picked(elements, table.dtype, index.read()))
}

/// `aten::index_select`: x, dimension, index.
pub(super) fn index_select(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, index) = (recorded.need(0)?, recorded.need(2)?);
    let dimension = recorded.int(1);
    let dimension = dimension.ok_or_else(|| Unknown::new("the dimension is not recorded"))?;
    let at = super::reduction::place(dimension, x.rank()).ok_or_else(Unknown::unexpected)?;
    let others = x.dims.iter().enumerate().filter(|(i, _)| *i != at);
    let others = others.fold(1, |all, (_, n)| times(all, size(*n)));
    Ok(picked(
        times(others, index.elements()),
        x.dtype,
        index.read(),
    ))
}

/// `aten::gather`: x, dimension, index; as many elements as the index has are picked.
pub(super) fn gather(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let (x, index) = (recorded.need(0)?, recorded.need(2)?);
    Ok(picked(index.elements(), x.dtype, index.read()))
}

/// `aten::upsample_nearest*`: x, size of the result, or factors.
pub(super) fn upsample(recorded: &Recorded, _: &Context<'_>) -> Answer {
    let x = recorded.need(0)?;
    if x.rank() < 3 {
        return Err(Unknown::unexpected());
    }
    let sizes = recorded.ints(1).filter(|n| n.len() == x.rank() - 2);
    let sizes = sizes.ok_or_else(|| Unknown::new("the size of the result is not recorded"))?;
    let result = times(product(&x.dims[..2]), product(&sizes));
    let written = times(result, x.dtype.size());
    Ok(Numbers::moved(x.read().saturating_add(written)))
}

/// `aten::cat`: list of tensors, dimension. The type is not recorded; the size of an element is in the name of the kernel.
pub(super) fn cat(recorded: &Recorded, context: &Context<'_>) -> Answer {
    let Some(list) = recorded.list(0) else {
        let has_list = (0..recorded.len()).any(|at| recorded.type_name(at) == "TensorList");
        return Err(match has_list {
            true => Unknown::new("shapes of a list of tensors are not recorded"),
            false => Unknown::unexpected(),
        });
    };
    let all = list.fold(0, |all: u128, dims| all.saturating_add(product(dims)));
    let element = context.kernels.iter().find_map(|name| element_size(name));
    let element = element
        .ok_or_else(|| Unknown::new("the element type of a list of tensors is not recorded"))?;
    Ok(Numbers::moved(times(times(all, 2), element)))
}

/// The size in `CatArrayBatchedCopy<…OpaqueType<4u>`.
fn element_size(kernel: &str) -> Option<u128> {
    let (_, rest) = kernel.split_once("CatArrayBatchedCopy")?;
    let (_, rest) = rest.split_once("OpaqueType<")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..digits].parse().ok()
}
