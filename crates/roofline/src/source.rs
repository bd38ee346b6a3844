//! One recording: the operators around a launch, and what is recorded of them.

use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{ArgColumn, ArgValue, Slice};

use crate::models::Models;
use crate::recorded::{CollectiveSizes, Recorded};

/// Operators that are only the inner part of others in the same chain, which have the better arguments.
const WITHIN: &[(&str, &str)] = &[
    ("aten::cudnn_convolution", "aten::convolution"),
    ("aten::miopen_convolution", "aten::convolution"),
    (
        "aten::_flash_attention_forward",
        "aten::_scaled_dot_product_flash_attention",
    ),
    (
        "aten::_efficient_attention_forward",
        "aten::_scaled_dot_product_efficient_attention",
    ),
    (
        "aten::_cudnn_attention_forward",
        "aten::_scaled_dot_product_cudnn_attention",
    ),
    ("aten::gather", "aten::embedding"),
    ("aten::index_select", "aten::embedding"),
    ("aten::gather", "aten::index_select"),
];

/// One recording and the columns of arguments that are read.
pub(crate) struct Source<'i, 't> {
    pub(crate) index: &'i TraceIndex<'t>,
    dims: ArgColumn,
    types: ArgColumn,
    strides: ArgColumn,
    concrete: ArgColumn,
    pub(crate) bytes: ArgColumn,
    collective: [ArgColumn; 5],
    /// `true` for names of operators with a model; `None` until asked.
    known: Vec<Option<bool>>,
}

impl<'i, 't> Source<'i, 't> {
    pub(crate) fn new(index: &'i TraceIndex<'t>) -> Self {
        let trace = index.trace();
        let column = |key| trace.arg_column(key);
        Self {
            index,
            dims: column("Input Dims"),
            types: column("Input type"),
            strides: column("Input Strides"),
            concrete: column("Concrete Inputs"),
            bytes: column("bytes"),
            collective: [
                "Collective name",
                "dtype",
                "In msg nelems",
                "Out msg nelems",
                "Group size",
            ]
            .map(column),
            known: vec![None; trace.strings().len()],
        }
    }

    /// The operator whose call the work is that `launch` launched.
    pub(crate) fn operator(&mut self, launch: Slice<'t>, models: &Models) -> Option<Slice<'t>> {
        let index = self.index;
        let mut chain = launch
            .ancestors()
            .filter(|slice| index.activity(*slice) == Activity::CpuOp);
        let mut innermost = None;
        let known = chain.find(|slice| {
            innermost.get_or_insert(*slice);
            self.knows(*slice, models)
        });
        let Some(mut call) = known else {
            return innermost;
        };
        for outer in chain {
            let (inner, outer_name) = (call.name().unwrap_or(""), outer.name().unwrap_or(""));
            if WITHIN.contains(&(inner, outer_name)) {
                call = outer;
            }
        }
        Some(call)
    }

    fn knows(&mut self, slice: Slice<'_>, models: &Models) -> bool {
        let name = slice.name().unwrap_or("");
        match slice
            .name_id()
            .and_then(|id| self.known.get_mut(id.index()))
        {
            Some(known) => *known.get_or_insert_with(|| models.knows(name)),
            None => models.knows(name),
        }
    }

    fn text<'s>(column: &ArgColumn, slice: Slice<'s>) -> Option<&'s str> {
        column.get(slice).and_then(ArgValue::as_str)
    }

    pub(crate) fn signature(&self, op: Slice<'t>) -> Signature<'t> {
        Signature {
            op: op.name().unwrap_or(""),
            dims: Self::text(&self.dims, op),
            types: Self::text(&self.types, op),
            strides: Self::text(&self.strides, op),
            concrete: Self::text(&self.concrete, op),
        }
    }

    /// Returns the sizes recorded with a collective, or with its kernel.
    pub(crate) fn collective(&self, slice: Slice<'_>) -> Option<CollectiveSizes> {
        let [name, dtype, before, after, group] = &self.collective;
        let sizes = CollectiveSizes {
            name: Self::text(name, slice).unwrap_or("").to_owned(),
            dtype: Self::text(dtype, slice).unwrap_or("").to_owned(),
            in_elements: before.int(slice),
            out_elements: after.int(slice),
            group_size: group.int(slice),
        };
        let states = sizes.in_elements.is_some() || sizes.out_elements.is_some();
        states.then_some(sizes)
    }
}

/// Arguments of an operator, as texts of its trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature<'t> {
    pub(crate) op: &'t str,
    pub(crate) dims: Option<&'t str>,
    pub(crate) types: Option<&'t str>,
    strides: Option<&'t str>,
    concrete: Option<&'t str>,
}

impl Signature<'_> {
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded::parse(self.dims, self.types, self.strides, self.concrete)
    }
}
