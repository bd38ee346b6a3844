//! Pointwise operators: one operation per element of the broadcast result.
//!
//! Result types follow type promotion of PyTorch (documentation of `torch.result_type`): tensors with dimensions before those
//! without, which raise the category only.

use crate::dtype::{Category, Dtype};
use crate::numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
use crate::recorded::{Recorded, Tensor, size, times};

/// The type of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ResultType {
    /// That of the promoted operands.
    Promoted,
    /// The same, floating point for integers.
    Float,
    /// As [`ResultType::Float`], but that of the promoted operands where the quotient is rounded: there is another argument, which is no
    /// tensor.
    Quotient,
    /// That of the promoted operands, of complex numbers that of their parts.
    Real,
    /// Truth values.
    Bool,
    /// That of the first argument.
    First,
    /// That of all operands but the first, which is a condition.
    Rest,
}

/// Whether a quotient is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rounding {
    No,
    Yes,
    /// It may be: the argument is there, without a value.
    Unknown,
}

/// A pointwise operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pointwise {
    arguments: usize,
    result: ResultType,
    in_place: bool,
}

impl Pointwise {
    pub(crate) fn new(arguments: usize, result: Option<&str>) -> Result<Self, String> {
        let result = match result {
            None | Some("promoted") => ResultType::Promoted,
            Some("float") => ResultType::Float,
            Some("quotient") => ResultType::Quotient,
            Some("real") => ResultType::Real,
            Some("bool") => ResultType::Bool,
            Some("first") => ResultType::First,
            Some("rest") => ResultType::Rest,
            Some(other) => {
                return Err(format!(
                    "unknown result {other:?}; expected promoted, float, quotient, real, bool, first or rest"
                ));
            }
        };
        if arguments == 0 {
            return Err("pointwise = 0; expected the number of operands".to_owned());
        }
        Ok(Self {
            arguments,
            result,
            in_place: false,
        })
    }

    /// The form that writes its result into the first argument.
    pub(crate) fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    pub(crate) fn numbers(&self, recorded: &Recorded) -> Answer {
        let operands: Vec<(usize, Tensor<'_>)> = recorded
            .tensors()
            .take_while(|(at, _)| *at < self.arguments)
            .collect();
        if (0..self.arguments).any(|at| recorded.is_unknown_tensor(at)) {
            return Err(Unknown::unexpected());
        }
        let out = recorded.tensors().find(|(at, _)| *at >= self.arguments);
        if operands.is_empty() && out.is_none() {
            return Err(Unknown::new("argument 0 is no tensor"));
        }
        let shapes = operands.iter().map(|(_, t)| t.dims);
        let shape = broadcast(shapes).ok_or_else(|| Unknown::new("shapes do not broadcast"))?;
        let first = operands.first().filter(|(at, _)| *at == 0).map(|(_, t)| *t);
        let elements = crate::recorded::product(&shape);
        let read = operands.iter().filter(|(_, t)| t.rank() > 0);
        let mut bytes = read.fold(0, |all: u128, (_, t)| all.saturating_add(t.read()));
        if self.in_place {
            let own = first.ok_or_else(|| Unknown::new("argument 0 is no tensor"))?;
            if own.dims != shape {
                return Err(Unknown::new("shapes do not broadcast"));
            }
            if own.rank() == 0 {
                bytes = bytes.saturating_add(own.read());
            }
            bytes = bytes.saturating_add(own.written());
            return Ok(Numbers::exact(UnitKind::Vector, elements, bytes));
        }
        let dtype = match out {
            Some((_, out)) => out.dtype,
            None => self.result_type(recorded, &operands)?,
        };
        let with = |dtype: Dtype| bytes.saturating_add(times(elements, dtype.size()));
        let numbers = Numbers::exact(UnitKind::Vector, elements, with(dtype));
        // PyTorch does not record texts: rounded, the result has the type of the operands, else it is floating point.
        if out.is_none()
            && self.rounding(recorded) == Rounding::Unknown
            && dtype.category() < Category::Float
        {
            let ends = [with(dtype), with(Dtype::Fp32)];
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            return Ok(numbers
                .between(low, Some(high))
                .basis(Basis::Estimate, "the rounding mode is not recorded"));
        }
        Ok(numbers)
    }

    /// Whether the quotient is rounded.
    fn rounding(&self, recorded: &Recorded) -> Rounding {
        let at = self.arguments;
        if self.result != ResultType::Quotient || at >= recorded.len() {
            return Rounding::No;
        }
        match (recorded.tensor(at), recorded.value(at)) {
            (Some(_), _) | (None, Some("None")) => Rounding::No,
            (None, Some(_)) => Rounding::Yes,
            (None, None) => Rounding::Unknown,
        }
    }

    fn result_type(
        &self,
        recorded: &Recorded,
        operands: &[(usize, Tensor<'_>)],
    ) -> Result<Dtype, Unknown> {
        let first = match self.result {
            ResultType::Bool => return Ok(Dtype::Bool),
            ResultType::First => {
                return operands
                    .iter()
                    .find(|(at, _)| *at == 0)
                    .map(|(_, t)| t.dtype)
                    .ok_or_else(|| Unknown::new("argument 0 is no tensor"));
            }
            ResultType::Rest => 1,
            ResultType::Promoted | ResultType::Float | ResultType::Quotient | ResultType::Real => 0,
        };
        let typed = operands.iter().filter(|(at, _)| *at >= first);
        let of = |with_dims: bool| {
            let all = typed
                .clone()
                .filter(|(_, t)| (t.rank() > 0) == with_dims)
                .map(|(_, t)| t.dtype);
            all.reduce(Dtype::promote)
        };
        let scalars = (first..self.arguments).filter_map(|at| recorded.scalar_category(at));
        let scalar = scalars.max();
        let mut dtype = match (of(true), of(false)) {
            (Some(with), Some(without)) if without.category() > with.category() => match without {
                // A number of Python is recorded as binary64 and has the default type.
                Dtype::Fp64 => Dtype::Fp32,
                other => other,
            },
            (Some(dtype), _) | (None, Some(dtype)) => dtype,
            (None, None) => match scalar.ok_or_else(Unknown::unexpected)? {
                Category::Bool => Dtype::Bool,
                Category::Integer => Dtype::Int64,
                _ => Dtype::Fp32,
            },
        };
        match scalar {
            Some(Category::Float) if dtype.category() < Category::Float => dtype = Dtype::Fp32,
            Some(Category::Integer) if dtype == Dtype::Bool => dtype = Dtype::Int64,
            _ => {}
        }
        let is_float = match self.result {
            ResultType::Quotient => self.rounding(recorded) == Rounding::No,
            result => result == ResultType::Float,
        };
        if self.result == ResultType::Real {
            dtype = dtype.real();
        }
        Ok(match is_float {
            true if dtype.category() < Category::Float => Dtype::Fp32,
            _ => dtype,
        })
    }
}

/// The shape that all of these broadcast to; `None` if they do not.
fn broadcast<'a>(shapes: impl Iterator<Item = &'a [i64]>) -> Option<Vec<i64>> {
    let mut result: Vec<i64> = Vec::new();
    for shape in shapes {
        if shape.len() > result.len() {
            let missing = shape.len() - result.len();
            result.splice(0..0, std::iter::repeat_n(1, missing));
        }
        let from = result.len() - shape.len();
        for (all, own) in result[from..].iter_mut().zip(shape) {
            match (*all, *own) {
                (a, b) if a == b => {}
                (1, b) => *all = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    debug_assert!(result.iter().all(|n| size(*n) < u128::MAX));
    Some(result)
}
