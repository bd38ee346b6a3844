//! One recording: the operators around a launch, and what is recorded of them.

use trace_model::kernel::{Activity, CopySizes, TraceIndex};
use trace_model::{ArgColumn, ArgValue, Slice, SliceId};

use crate::models::{Models, is_collective};
use crate::operators::Operators;
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

/// What the models know of operators of one name.
#[derive(Clone, Copy, Default)]
pub(crate) struct OpInfo {
    /// There is a model.
    is_known: bool,
    /// The place of the queries, for attention over a cache.
    pub(crate) query: Option<usize>,
    /// The place of the KV cache, for a write into it.
    pub(crate) cache: Option<usize>,
    /// The place of the router's logits, for a layer of experts.
    pub(crate) router: Option<usize>,
    pub(crate) is_collective: bool,
}

impl OpInfo {
    fn new(name: &str, models: &Models) -> Self {
        Self {
            is_known: models.knows(name),
            query: models.query_argument(name),
            cache: models.cache_argument(name),
            router: models.router_argument(name),
            is_collective: is_collective(name),
        }
    }
}

/// One recording and the columns of arguments that are read.
pub(crate) struct Source<'i, 't> {
    pub(crate) index: &'i TraceIndex<'t>,
    /// Operators of threads where they overlap with other slices.
    overlaps: Operators,
    dims: ArgColumn,
    types: ArgColumn,
    strides: ArgColumn,
    concrete: ArgColumn,
    pub(crate) bytes: CopySizes,
    collective: [ArgColumn; 5],
    /// By name of an operator; `None` until asked.
    known: Vec<Option<OpInfo>>,
}

impl<'i, 't> Source<'i, 't> {
    pub(crate) fn new(index: &'i TraceIndex<'t>) -> Self {
        let trace = index.trace();
        let column = |key| trace.arg_column(key);
        Self {
            index,
            overlaps: Operators::of_overlaps(index),
            dims: column("Input Dims"),
            types: column("Input type"),
            strides: column("Input Strides"),
            concrete: column("Concrete Inputs"),
            bytes: CopySizes::new(trace),
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
        if self.overlaps.has_thread_of(launch) {
            let around = self.overlaps.around(launch);
            let around = around.filter_map(|at| self.overlaps.get(at));
            let around: Vec<SliceId> = around.map(|op| op.slice).collect();
            let around = around.into_iter().map(|op| index.trace().slice(op));
            return self.innermost_known(around, models);
        }
        let around = launch.ancestors();
        let around = around.filter(|slice| index.activity(*slice) == Activity::CpuOp);
        self.innermost_known(around, models)
    }

    /// Returns the operator whose model counts: the first of a chain, innermost first, that has one.
    fn innermost_known(
        &mut self,
        mut chain: impl Iterator<Item = Slice<'t>>,
        models: &Models,
    ) -> Option<Slice<'t>> {
        let mut innermost = None;
        let known = chain.find(|slice| {
            innermost.get_or_insert(*slice);
            self.learn(*slice, models).is_known
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

    fn learn(&mut self, slice: Slice<'_>, models: &Models) -> OpInfo {
        let info = || OpInfo::new(slice.name().unwrap_or(""), models);
        match slice
            .name_id()
            .and_then(|id| self.known.get_mut(id.index()))
        {
            Some(known) => *known.get_or_insert_with(info),
            None => info(),
        }
    }

    /// What the models know of an operator that [`Self::operator`] returned.
    pub(crate) fn info(&self, op: Slice<'_>) -> OpInfo {
        let known = op.name_id().and_then(|id| *self.known.get(id.index())?);
        known.unwrap_or_default()
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
#[derive(Clone, Copy)]
pub(crate) struct Signature<'t> {
    pub(crate) op: &'t str,
    pub(crate) dims: Option<&'t str>,
    pub(crate) types: Option<&'t str>,
    strides: Option<&'t str>,
    concrete: Option<&'t str>,
}

/// Empty texts may have the address of another.
fn address(text: &str) -> usize {
    match text.is_empty() {
        true => 1,
        false => text.as_ptr().addr(),
    }
}

/// The addresses of the texts of a signature. Texts are stored once in a trace, so equal addresses are equal texts; texts that
/// are equal and stored twice only cost a second look at them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SignatureKey([usize; 5]);

impl Signature<'_> {
    pub(crate) fn key(&self) -> SignatureKey {
        let texts = [self.dims, self.types, self.strides, self.concrete];
        let [dims, types, strides, concrete] = texts.map(|text| text.map_or(0, address));
        SignatureKey([address(self.op), dims, types, strides, concrete])
    }

    pub(crate) fn recorded(&self) -> Recorded {
        Recorded::parse(self.dims, self.types, self.strides, self.concrete)
    }
}
