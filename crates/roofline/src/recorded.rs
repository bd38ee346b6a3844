//! The arguments of an operator as profilers record them.

use serde_json::Value;

use crate::dtype::{Category, Dtype};
use crate::numbers::Unknown;
use crate::step_name::Lengths;

/// Sizes of one argument.
#[derive(Clone, PartialEq, Debug)]
enum Dims {
    Tensor(Vec<i64>),
    List(Vec<Vec<i64>>),
    Bad,
}

/// The arguments of one occurrence of an operator, parsed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recorded {
    dims: Vec<Dims>,
    types: Vec<String>,
    strides: Option<Vec<Dims>>,
    concrete: Option<Vec<String>>,
}

/// Context of a call: everything recorded besides its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Names of its kernels, copies and memsets.
    pub kernels: &'a [&'a str],
    /// Sizes of the collective, where it is one.
    pub collective: Option<&'a CollectiveSizes>,
    /// Lengths of the requests of its step.
    pub lengths: Option<&'a Lengths>,
    /// Type of the KV cache, from the cache write that belongs to it.
    pub cache_type: Option<Dtype>,
    /// Ranks of the job.
    pub world_size: Option<u32>,
    /// All of its work is copies between device and host.
    pub is_host_copy: bool,
    /// Keys that a query sees before its own, from the configuration of the model.
    pub window: Option<u128>,
    /// Sizes of experts, from the configuration of the model.
    pub experts: Option<&'a crate::config::Experts>,
}

/// Sizes of a collective, as recorded.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CollectiveSizes {
    /// Operation, for example `allreduce`.
    pub name: String,
    /// Type of its elements.
    pub dtype: String,
    /// Elements that go in on each device.
    pub in_elements: Option<i64>,
    /// Elements that come out on each device.
    pub out_elements: Option<i64>,
    /// Devices that take part.
    pub group_size: Option<i64>,
}

/// One tensor argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) dims: &'a [i64],
    strides: Option<&'a [i64]>,
    pub(crate) dtype: Dtype,
}

impl Tensor<'_> {
    /// Number of elements.
    pub(crate) fn elements(&self) -> u128 {
        product(self.dims)
    }

    /// Number of distinct elements: a dimension of stride 0 repeats what is there once.
    pub(crate) fn distinct(&self) -> u128 {
        if self.elements() == 0 {
            return 0;
        }
        match self.strides.filter(|s| s.len() == self.dims.len()) {
            None => self.elements(),
            Some(strides) => {
                let kept = self.dims.iter().zip(strides).filter(|(_, s)| **s != 0);
                kept.fold(1, |all, (n, _)| times(all, size(*n)))
            }
        }
    }

    /// Bytes to read it once.
    pub(crate) fn read(&self) -> u128 {
        times(self.distinct(), self.dtype.size())
    }

    /// Bytes to write all of it.
    pub(crate) fn written(&self) -> u128 {
        times(self.elements(), self.dtype.size())
    }

    /// The length of dimension `at`, from the last one if negative.
    pub(crate) fn dim(&self, at: isize) -> Result<u128, Unknown> {
        let place = match usize::try_from(at) {
            Ok(place) => Some(place),
            Err(_) => self.dims.len().checked_add_signed(at),
        };
        let length = place.and_then(|place| self.dims.get(place));
        length.map(|n| size(*n)).ok_or_else(Unknown::unexpected)
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// A length; those of stored tensors are not negative.
pub(crate) fn size(length: i64) -> u128 {
    u128::try_from(length).unwrap_or(0)
}

/// Product that stays at the largest number instead of overflowing.
pub(crate) fn times(a: u128, b: u128) -> u128 {
    a.saturating_mul(b)
}

/// Number of elements of a tensor of these sizes.
pub(crate) fn product(dims: &[i64]) -> u128 {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter().fold(1, |all, n| times(all, size(*n)))
}

impl Recorded {
    /// Parses the JSON texts of `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs`. What is malformed
    /// counts as not recorded; a call then has no numbers, with a reason.
    ///
    /// ```
    /// let recorded = roofline::Recorded::parse(Some("[[2, 3], []]"), Some(r#"["float", "Scalar"]"#), None, None);
    /// assert!(recorded.has_shapes());
    /// ```
    pub fn parse(
        dims: Option<&str>,
        types: Option<&str>,
        strides: Option<&str>,
        concrete: Option<&str>,
    ) -> Self {
        let list = |text: Option<&str>| -> Option<Vec<Value>> { serde_json::from_str(text?).ok() };
        let texts = |text| -> Option<Vec<String>> {
            let all = list(text)?.into_iter();
            Some(
                all.map(|value| match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                })
                .collect(),
            )
        };
        let sizes = |text| -> Option<Vec<Dims>> {
            Some(list(text)?.into_iter().map(|v| Dims::of(&v)).collect())
        };
        Self {
            dims: sizes(dims).unwrap_or_default(),
            types: texts(types).unwrap_or_default(),
            strides: sizes(strides),
            concrete: texts(concrete),
        }
    }

    /// Returns `true` if the sizes of the arguments are recorded.
    pub fn has_shapes(&self) -> bool {
        !self.dims.is_empty()
    }

    /// Number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.dims.len()
    }

    /// Returns `true` if values of scalars are recorded.
    pub(crate) fn has_concrete(&self) -> bool {
        self.concrete.is_some()
    }

    pub(crate) fn type_name(&self, at: usize) -> &str {
        self.types.get(at).map_or("", String::as_str)
    }

    /// Argument `at` if it is a tensor; `None` for scalars, absent arguments and lists.
    pub(crate) fn tensor(&self, at: usize) -> Option<Tensor<'_>> {
        let Dims::Tensor(dims) = self.dims.get(at)? else {
            return None;
        };
        let strides = self.strides.as_ref().and_then(|all| match all.get(at)? {
            Dims::Tensor(strides) => Some(strides.as_slice()),
            _ => None,
        });
        Some(Tensor {
            dims,
            strides,
            dtype: Dtype::of_name(self.type_name(at))?,
        })
    }

    /// Argument `at`, which must be a tensor.
    pub(crate) fn need(&self, at: usize) -> Result<Tensor<'_>, Unknown> {
        self.tensor(at).ok_or_else(|| self.why_not(at))
    }

    fn why_not(&self, at: usize) -> Unknown {
        match (self.dims.get(at), self.type_name(at)) {
            (Some(Dims::Tensor(_)), "" | "Scalar" | "ScalarList" | "TensorList") => {
                Unknown(format!("argument {at} is no tensor"))
            }
            _ => Unknown::unexpected(),
        }
    }

    /// All tensor arguments with their places.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (usize, Tensor<'_>)> {
        (0..self.len()).filter_map(|at| Some((at, self.tensor(at)?)))
    }

    /// Sizes of a list of tensors.
    pub(crate) fn list(&self, at: usize) -> Option<impl Iterator<Item = &[i64]>> {
        match self.dims.get(at)? {
            Dims::List(all) => Some(all.iter().map(Vec::as_slice)),
            _ => None,
        }
    }

    /// Returns `true` if argument `at` has sizes but is of no known type, or sizes that are none.
    pub(crate) fn is_unknown_tensor(&self, at: usize) -> bool {
        match self.dims.get(at) {
            Some(Dims::Tensor(dims)) => !dims.is_empty() && self.tensor(at).is_none(),
            Some(Dims::Bad) => true,
            Some(Dims::List(_)) | None => false,
        }
    }

    /// The category of the number at `at`, as far as its text says.
    pub(crate) fn scalar_category(&self, at: usize) -> Option<Category> {
        if self.type_name(at) != "Scalar" {
            return None;
        }
        Some(match self.value(at)? {
            "True" | "False" => Category::Bool,
            text if text.parse::<i64>().is_ok() => Category::Integer,
            text if text.parse::<f64>().is_ok() => Category::Float,
            _ => return None,
        })
    }

    /// The same call with the arguments of these places, in this order.
    pub(crate) fn reordered(&self, places: &[usize]) -> Self {
        let dims = places.iter().map(|at| self.dims.get(*at).cloned());
        let texts = |all: &[String]| -> Vec<String> {
            let picked = places.iter().map(|at| all.get(*at).cloned());
            picked.map(Option::unwrap_or_default).collect()
        };
        let nothing = || Dims::Tensor(Vec::new());
        Self {
            dims: dims.map(|d| d.unwrap_or_else(nothing)).collect(),
            types: texts(&self.types),
            strides: self.strides.as_ref().map(|all| {
                let picked = places.iter().map(|at| all.get(*at).cloned());
                picked.map(|d| d.unwrap_or_else(nothing)).collect()
            }),
            concrete: self.concrete.as_ref().map(|all| texts(all)),
        }
    }

    /// The text of a scalar argument; `None` if it is not recorded, empty or absent.
    pub(crate) fn value(&self, at: usize) -> Option<&str> {
        let text = self.concrete.as_ref()?.get(at)?.trim();
        (!text.is_empty()).then_some(text)
    }

    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        self.value(at)?.parse().ok()
    }

    /// A truth value; `None` if it is not recorded.
    pub(crate) fn flag(&self, at: usize) -> Option<bool> {
        match self.value(at)? {
            "True" | "true" | "1" => Some(true),
            "False" | "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// A list of integers; a single one is a list of one.
    pub(crate) fn ints(&self, at: usize) -> Option<Vec<i64>> {
        let text = self.value(at)?;
        let inside = text
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix(']'))
            .unwrap_or(text);
        let parts = inside.split(',').map(str::trim).filter(|t| !t.is_empty());
        parts.map(|t| t.parse().ok()).collect()
    }

    /// A list of truth values.
    pub(crate) fn flags(&self, at: usize) -> Option<Vec<bool>> {
        let inside = self.value(at)?.strip_prefix('[')?.strip_suffix(']')?;
        let parts = inside.split(',').map(str::trim).filter(|t| !t.is_empty());
        parts
            .map(|t| match t {
                "True" | "true" | "1" => Some(true),
                "False" | "false" | "0" => Some(false),
                _ => None,
            })
            .collect()
    }

    /// A data type given by number.
    pub(crate) fn dtype(&self, at: usize) -> Option<Dtype> {
        Dtype::of_number(self.int(at)?)
    }
}

impl Dims {
    fn of(value: &Value) -> Self {
        let Value::Array(all) = value else {
            return Self::Bad;
        };
        if all.iter().any(Value::is_array) {
            let list: Option<Vec<Vec<i64>>> = all.iter().map(lengths).collect();
            return list.map_or(Self::Bad, Self::List);
        }
        lengths(value).map_or(Self::Bad, Self::Tensor)
    }
}

/// A flat list of integers that are not negative.
fn lengths(value: &Value) -> Option<Vec<i64>> {
    let all = value.as_array()?.iter();
    all.map(|n| n.as_i64().filter(|n| *n >= 0)).collect()
}
