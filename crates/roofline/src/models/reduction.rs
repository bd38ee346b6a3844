//! Reductions: a fixed number of operations per element that goes in.

use crate::dtype::{Category, Dtype};
use crate::models::pointwise::Pointwise;
use crate::numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
use crate::recorded::{Recorded, size, times};

/// Meaning of the arguments after the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `sum`, `mean`, `prod`: dimensions, keep, type; or the type alone.
    Sum,
    /// The same, with a result like the input for integers.
    Mean,
    /// `amax`, `amin`, `logsumexp`: dimensions, keep.
    Plain,
    /// `max`, `min`: nothing; a dimension, whose place is a second result; or another tensor.
    Extreme,
    /// `argmax`, `argmin`: dimension.
    Place,
    /// `all`, `any`: dimension.
    Truth,
    /// `var`, `std`: dimensions, correction, keep; or unbiased alone.
    Variance,
    /// `norm`, `linalg_vector_norm`: order, dimensions, keep, type.
    Norm,
}

/// A reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reduction {
    flops_each: u128,
    form: Form,
}

/// A dimension, from the last one if negative, as a place. A tensor without dimensions has one for this purpose.
pub(super) fn place(dimension: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank.max(1)).ok()?;
    let at = match dimension < 0 {
        true => dimension.checked_add(rank)?,
        false => dimension,
    };
    usize::try_from(at).ok().filter(|_| at < rank)
}

impl Reduction {
    pub(crate) fn new(flops_each: u64, form: Option<&str>) -> Result<Self, String> {
        let form = match form {
            Some("sum") => Form::Sum,
            Some("mean") => Form::Mean,
            None | Some("plain") => Form::Plain,
            Some("extreme") => Form::Extreme,
            Some("place") => Form::Place,
            Some("truth") => Form::Truth,
            Some("variance") => Form::Variance,
            Some("norm") => Form::Norm,
            Some(other) => {
                return Err(format!(
                    "unknown form {other:?} of a reduction; expected sum, mean, plain, extreme, place, truth, variance or norm"
                ));
            }
        };
        Ok(Self {
            flops_each: u128::from(flops_each),
            form,
        })
    }

    pub(crate) fn numbers(&self, recorded: &Recorded) -> Answer {
        let x = recorded.need(0)?;
        if self.form == Form::Extreme && recorded.tensor(1).is_some_and(|t| t.rank() > 0) {
            return Pointwise::new(2, None)
                .map_err(|text| Unknown::new(&text))?
                .numbers(recorded);
        }
        let flops = times(x.elements(), self.flops_each);
        if !recorded.has_concrete() {
            let low = x.read();
            let high = low.saturating_add(x.written());
            return Ok(Numbers::exact(UnitKind::Vector, flops, low)
                .between(low, Some(high))
                .basis(Basis::Bound, "what is reduced is not recorded"));
        }
        let dtype = self.result_type(recorded, x.dtype);
        let dimensions = self.dimensions(recorded);
        let mut kept = 1_u128;
        let mut reduced = vec![dimensions.is_empty(); x.rank()];
        for dimension in &dimensions {
            let at = place(*dimension, x.rank()).ok_or_else(Unknown::unexpected)?;
            if let Some(slot) = reduced.get_mut(at) {
                *slot = true;
            }
        }
        for (n, reduced) in x.dims.iter().zip(&reduced) {
            if !reduced {
                kept = times(kept, size(*n));
            }
        }
        let mut each = dtype.size();
        if self.form == Form::Extreme && !dimensions.is_empty() {
            each += Dtype::Int64.size();
        }
        let bytes = x.read().saturating_add(times(kept, each));
        Ok(Numbers::exact(UnitKind::Vector, flops, bytes))
    }

    /// The dimensions that are reduced; none stands for all.
    fn dimensions(&self, recorded: &Recorded) -> Vec<i64> {
        let at = match self.form {
            Form::Norm => 2,
            // With two arguments the second is a type, or says whether to correct.
            Form::Sum | Form::Mean | Form::Variance if recorded.len() == 2 => return Vec::new(),
            _ => 1,
        };
        recorded.ints(at).unwrap_or_default()
    }

    fn result_type(&self, recorded: &Recorded, x: Dtype) -> Dtype {
        let stated = match self.form {
            Form::Sum | Form::Mean if recorded.len() == 2 => recorded.dtype(1),
            Form::Sum | Form::Mean => recorded.dtype(3),
            Form::Norm => recorded.dtype(4),
            // Of two outputs the last is that of the places.
            Form::Extreme => return x,
            _ => None,
        };
        // An output that is given stands last.
        let out = recorded.tensors().filter(|(at, _)| *at > 1).last();
        if let Some(dtype) = stated.or(out.map(|(_, out)| out.dtype)) {
            return dtype;
        }
        match self.form {
            Form::Place => Dtype::Int64,
            Form::Truth => Dtype::Bool,
            Form::Sum if x.category() < Category::Float => Dtype::Int64,
            _ => x,
        }
    }
}
