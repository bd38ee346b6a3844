//! Fused kernels of PyTorch's compiler, whose launches record the sizes of their pointers and, last, the extents of their loops.

use crate::models::Model;
use crate::numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
use crate::recorded::{Context, Recorded, times};

/// Returns the model of a kernel of the compiler: pointwise, or one of two forms of reductions.
pub(super) fn find(name: &str) -> Option<&'static Model> {
    static POINTWISE: Model = Model::Function("fused", pointwise);
    static REDUCTION: Model = Model::Function("fused", reduction);
    let is = |prefix: &str| name.starts_with(prefix);
    if is("triton_poi_") {
        return Some(&POINTWISE);
    }
    (is("triton_red_") || is("triton_per_")).then_some(&REDUCTION)
}

fn pointwise(recorded: &Recorded, _: &Context<'_>) -> Answer {
    fused(recorded, false)
}

/// Rows and columns are two extents.
fn reduction(recorded: &Recorded, _: &Context<'_>) -> Answer {
    fused(recorded, true)
}

/// A pointer is touched at most once for each turn of the loops, and at most in full. Which are read and which written is not
/// recorded: what is changed in place counts once.
fn fused(recorded: &Recorded, reduces: bool) -> Answer {
    let sizes = (0..recorded.len()).filter_map(|at| {
        let is_integer = recorded.type_name(at) == "Scalar";
        is_integer.then(|| recorded.int(at)).flatten()
    });
    let sizes: Vec<u128> = sizes.filter_map(|n| u128::try_from(n).ok()).collect();
    let pointers: Vec<_> = recorded.tensors().map(|(_, tensor)| tensor).collect();
    if pointers.is_empty() || (0..recorded.len()).any(|at| recorded.is_unknown_tensor(at)) {
        return Err(Unknown::unexpected());
    }
    let full = pointers.iter().map(|t| t.read());
    let full = full.fold(0, u128::saturating_add);
    let mut numbers = Numbers::exact(UnitKind::Vector, 0, full);
    numbers.flops = None;
    let Some((last, before)) = sizes.split_last() else {
        return Ok(numbers
            .between(0, Some(full))
            .basis(Basis::Bound, "extent of a fused kernel is not recorded"));
    };
    let extent = match before.last() {
        Some(rows) if reduces => times(*rows, *last),
        _ => *last,
    };
    let touched = pointers
        .iter()
        .map(|t| times(t.distinct().min(extent), t.dtype.size()));
    let low = touched.clone().max().unwrap_or(0);
    numbers.bytes = touched.fold(0, u128::saturating_add);
    Ok(numbers.between(low, Some(full)).basis(
        Basis::Estimate,
        "each tensor of a fused kernel taken as touched once",
    ))
}
