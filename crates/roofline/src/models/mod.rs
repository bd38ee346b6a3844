//! Models of operators: which numbers follow from the arguments of each.
//!
//! The table `data/operators.toml` names a model for each operator: roles of the arguments, pointwise, reduction, or one of
//! the functions of the modules here. A caller's own rows ([`Models::extend`]) go before it.

mod attention;
mod cache;
mod collective;
mod convolution;
mod experts;
mod fused;
mod matrix;
mod moves;
mod norms;
mod pairs;
mod pointwise;
mod reduction;
mod roles;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub(crate) use collective::numbers as collective_numbers;
pub(crate) use experts::touched;
use roles::Roles;

use crate::dtype::{Dtype, Precision};
use crate::extensions::{ExtensionError, OperatorRow, OperatorRows};
use crate::numbers::{Answer, Unknown};
use crate::recorded::{Context, Recorded};

/// A function that knows an operator.
type Function = fn(&Recorded, &Context<'_>) -> Answer;

/// How the numbers of an operator follow from its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    Roles(Roles),
    Pointwise(pointwise::Pointwise),
    Reduction(reduction::Reduction),
    /// A function of this crate, with its name in the table.
    Function(&'static str, Function),
    /// Another operator's model, with arguments of these places.
    Like(Box<Model>, Vec<usize>),
    /// Known to have no numbers.
    Without(String),
}

/// The models of all operators that are known.
#[derive(Clone, Debug, Default)]
pub struct Models {
    by_name: FxHashMap<String, Model>,
}

static BUILTIN: LazyLock<Models> = LazyLock::new(|| {
    // A test parses the table; without it no operator would have a model.
    let rows = OperatorRows::parse(include_str!("../../data/operators.toml")).unwrap_or_default();
    let mut models = Models::default();
    match models.extend(&rows) {
        Ok(()) => models,
        Err(_) => Models::default(),
    }
});

/// The functions by the names that `model = "…"` has in the table.
const FUNCTIONS: &[(&str, Function)] = &[
    ("mm", matrix::mm),
    ("batched_mm", matrix::batched),
    ("dot", matrix::dot),
    ("mv", matrix::mv),
    ("addmm", matrix::addmm),
    ("baddbmm", matrix::baddbmm),
    ("addmv", matrix::addmv),
    ("scaled_mm", matrix::scaled_mm),
    ("int_mm", matrix::int_mm),
    ("int4pack_mm", matrix::int4pack),
    ("int8pack_mm", matrix::int8pack),
    ("grouped_mm", experts::grouped),
    ("scaled_grouped_mm", experts::scaled_grouped),
    ("cutlass_scaled_mm", matrix::cutlass_scaled_mm),
    ("cutlass_fp4", matrix::cutlass_fp4),
    ("sgl_scaled_mm", matrix::sgl_scaled_mm),
    ("linear", matrix::linear),
    ("linear_out", matrix::linear_out),
    ("linear_scaled", matrix::linear_scaled),
    ("linear_fp4", matrix::linear_fp4),
    ("linear_dynamic_quant", matrix::linear_dynamic_quant),
    ("awq", matrix::awq),
    ("gptq", matrix::gptq),
    ("marlin", matrix::marlin),
    ("sgl_marlin", matrix::sgl_marlin),
    ("convolution", convolution::convolution),
    ("cudnn_convolution", convolution::cudnn),
    ("miopen_convolution", convolution::miopen),
    ("convolution_backward", convolution::backward),
    ("sdpa_flash", attention::sdpa_flash),
    ("sdpa_masked", attention::sdpa_masked),
    ("flash_forward", attention::flash_forward),
    ("flash_dense", attention::flash_dense),
    ("flash_varlen", attention::flash_varlen),
    ("flash3", attention::flash3),
    ("vllm_unified", attention::vllm_unified),
    ("vllm_mla", attention::vllm_mla),
    ("paged_v1", attention::paged_v1),
    ("paged_v2", attention::paged_v2),
    ("aiter_prefill", attention::aiter_prefill),
    ("aiter_ragged", attention::aiter_ragged),
    ("fused_experts", experts::fused),
    ("whole_experts", experts::whole),
    ("rms_norm_new", norms::rms_norm_new),
    ("fused_rms_norm", norms::fused_rms_norm),
    ("layer_norm", norms::layer_norm),
    ("group_norm", norms::group_norm),
    ("aiter_group_norm", norms::aiter_group_norm),
    ("batch_norm", norms::batch_norm),
    ("norm_backward", norms::norm_backward),
    ("batch_norm_backward", norms::batch_norm_backward),
    ("softmax", norms::softmax),
    ("rotary", cache::rotary),
    ("sgl_rope", cache::sgl_rope),
    ("cache_write", cache::cache_write),
    ("cache_write_mla", cache::cache_write_mla),
    ("cumsum", moves::cumsum),
    ("copy", moves::copy),
    ("item", moves::item),
    ("fill", moves::fill),
    ("embedding", moves::embedding),
    ("index_select", moves::index_select),
    ("gather", moves::gather),
    ("upsample", moves::upsample),
    ("cat", moves::cat),
    ("all_reduce", collective::custom_all_reduce),
    ("all_reduce_in_switch", collective::in_switch_all_reduce),
    ("collective", collective::recorded),
];

impl Models {
    /// Returns the models that are built in.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Adds rows, which go before those that are there.
    ///
    /// # Errors
    /// [`ExtensionError`] names the row with an unknown model, roles that are none or an operator that it is said to be like
    /// and that is not known.
    pub fn extend(&mut self, rows: &OperatorRows) -> Result<(), ExtensionError> {
        for row in &rows.rows {
            let model = self.model_of(row)?;
            for name in &row.names {
                if let Model::Pointwise(pointwise) = &model
                    && !name.ends_with("__")
                    && !name.ends_with('_')
                {
                    let in_place = pointwise.in_place();
                    self.by_name
                        .insert(format!("{name}_"), Model::Pointwise(in_place));
                }
                self.by_name.insert(name.clone(), model.clone());
            }
        }
        Ok(())
    }

    fn model_of(&self, row: &OperatorRow) -> Result<Model, ExtensionError> {
        let bad = |what: String| ExtensionError::Operator {
            name: row.names.first().cloned().unwrap_or_default(),
            what,
        };
        let stated = [
            row.roles.is_some(),
            row.pointwise.is_some(),
            row.reduction.is_some(),
            row.model.is_some(),
            row.like.is_some(),
            row.unknown.is_some(),
        ];
        if stated.iter().filter(|is| **is).count() != 1 {
            return Err(bad(
                "expected exactly one of roles, pointwise, reduction, like, model, unknown".into(),
            ));
        }
        if let Some(roles) = &row.roles {
            let roles = Roles::parse(roles, row.flops_per_element, row.of).map_err(bad)?;
            return Ok(Model::Roles(roles));
        }
        if let Some(arguments) = row.pointwise {
            let pointwise = pointwise::Pointwise::new(arguments, row.result.as_deref());
            return pointwise.map(Model::Pointwise).map_err(bad);
        }
        if let Some(flops) = row.reduction {
            let reduction = reduction::Reduction::new(flops, row.result.as_deref());
            return reduction.map(Model::Reduction).map_err(bad);
        }
        if let Some(other) = &row.like {
            let model = self.find(other).ok_or_else(|| {
                bad(format!(
                    "like names {other:?}, which has no model; expected an operator of docs/guide/limit.md"
                ))
            })?;
            let arguments = row.arguments.clone().unwrap_or_default();
            return Ok(Model::Like(Box::new(model.clone()), arguments));
        }
        if let Some(reason) = &row.unknown {
            return Ok(Model::Without(reason.clone()));
        }
        let name = row.model.as_deref().unwrap_or("");
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let found = found.ok_or_else(|| bad(format!("there is no model {name:?}")))?;
        Ok(Model::Function(found.0, found.1))
    }

    /// The model of the operator `name`.
    pub(crate) fn find(&self, name: &str) -> Option<&Model> {
        if let Some(model) = self.by_name.get(name) {
            return Some(model);
        }
        if let Some(model) = fused::find(name) {
            return Some(model);
        }
        // A profiling patch numbers the operators that it wraps around others.
        let wrapped = name.strip_prefix("sglang_profiler::")?;
        let stem = wrapped.trim_end_matches(|c: char| c.is_ascii_digit());
        let stem = stem
            .strip_suffix('_')
            .filter(|_| stem.len() < wrapped.len())?;
        self.by_name.get(&format!("sglang_profiler::{stem}"))
    }

    /// The place of an argument of the operator `name` by the function that knows it.
    fn place_of(&self, name: &str, places: &[(&str, usize)]) -> Option<usize> {
        let place = |function: &str| {
            let found = places.iter().find(|(known, _)| *known == function);
            found.map(|(_, at)| *at)
        };
        match self.find(name)? {
            Model::Function(function, _) => place(function),
            Model::Like(inner, own) => match &**inner {
                Model::Function(function, _) if own.is_empty() => place(function),
                Model::Function(function, _) => own.get(place(function)?).copied(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The place of the argument that is the KV cache, if the operator `name` writes into it.
    pub(crate) fn cache_argument(&self, name: &str) -> Option<usize> {
        self.place_of(name, &[("cache_write", 2), ("cache_write_mla", 2)])
    }

    /// The place of the queries, if the operator `name` is attention over a cache.
    pub(crate) fn query_argument(&self, name: &str) -> Option<usize> {
        let places = [
            ("vllm_unified", 0),
            ("vllm_mla", 0),
            ("paged_v1", 1),
            ("paged_v2", 4),
            ("aiter_prefill", 0),
            ("aiter_ragged", 2),
            ("flash3", 0),
        ];
        self.place_of(name, &places)
    }

    /// The place of the logits of a router over all experts, if the operator `name` is a layer of experts.
    pub(crate) fn router_argument(&self, name: &str) -> Option<usize> {
        self.place_of(name, &[("whole_experts", 1)])
    }

    /// The names of all operators with a model, in order; kernels of PyTorch's compiler are known by their prefixes.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns `true` if the operator `name` has a model.
    pub fn knows(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns what a call of the operator `name` needs at least, or why that is not known.
    ///
    /// ```
    /// use roofline::{Context, Models, Recorded};
    ///
    /// let recorded = Recorded::parse(
    ///     Some("[[32, 4096], [4096, 9216]]"),
    ///     Some(r#"["c10::BFloat16", "c10::BFloat16"]"#),
    ///     None,
    ///     None,
    /// );
    /// let numbers = Models::builtin().numbers("aten::mm", &recorded, &Context::default()).unwrap();
    /// assert_eq!(numbers.flops, Some(2 * 32 * 4096 * 9216));
    /// assert_eq!(numbers.bytes, 2 * (32 * 4096 + 4096 * 9216 + 32 * 9216));
    /// ```
    ///
    /// # Errors
    /// [`Unknown`] with the reason.
    pub fn numbers(&self, name: &str, recorded: &Recorded, context: &Context<'_>) -> Answer {
        let model = self.find(name);
        let model = model.ok_or_else(|| Unknown::new(Unknown::NO_MODEL))?;
        if !recorded.has_shapes() && !is_collective(name) {
            return Err(Unknown::new(Unknown::NO_SHAPES));
        }
        let numbers = apply(model, recorded, context)?;
        let all = [numbers.flops.unwrap_or(0), numbers.bytes];
        match all.contains(&u128::MAX) {
            true => Err(Unknown::unexpected()),
            false => Ok(numbers),
        }
    }
}

/// The operator that PyTorch records around each collective.
pub(crate) fn is_collective(name: &str) -> bool {
    name == "record_param_comms"
}

fn apply(model: &Model, recorded: &Recorded, context: &Context<'_>) -> Answer {
    match model {
        Model::Roles(roles) => roles.numbers(recorded),
        Model::Pointwise(pointwise) => pointwise.numbers(recorded),
        Model::Reduction(reduction) => reduction.numbers(recorded),
        Model::Function(_, function) => function(recorded, context),
        Model::Like(model, places) if places.is_empty() => apply(model, recorded, context),
        Model::Like(model, places) => apply(model, &recorded.reordered(places), context),
        Model::Without(reason) => Err(Unknown::new(reason)),
    }
}

/// The arithmetic of a product of float operands depends on the kernel that was chosen.
fn product_precision(a: Dtype, b: Dtype, context: &Context<'_>) -> Precision {
    let wider = match a.size() >= b.size() {
        true => a,
        false => b,
    };
    let precision = Precision::of(wider);
    let is_rounded = |kernel: &&str| ["tf32", "xf32", "s1688"].iter().any(|p| kernel.contains(p));
    match precision {
        Precision::Fp32 if wider == Dtype::Fp32 && context.kernels.iter().any(is_rounded) => {
            Precision::Tf32
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let rows = OperatorRows::parse(include_str!("../../data/operators.toml")).unwrap();
        Models::default().extend(&rows).unwrap();
        assert!(Models::builtin().knows("aten::add_"));
        assert!(Models::builtin().knows("triton_red_fused_x_3"));
        assert!(Models::builtin().knows("sglang_profiler::attention_paged_attention_ragged_41"));
        assert!(!Models::builtin().knows("sglang_profiler::attention_paged_attention_ragged_"));
        assert!(!Models::builtin().knows("aten::nothing"));
    }
}
