//! Short names of kernels for tables, distinct where the names are.

use std::collections::BTreeMap;

use super::name::{KernelName, demangle};
use super::rules::KernelRules;

/// Prefix of matrix products of Tensile and hipBLASLt.
const TENSILE: &str = "Cijk_";

/// Maximum number of kernels of one function whose template arguments are compared; in larger
/// groups each kernel keeps all its template arguments.
const MOST_COMPARED: usize = 400;

/// Returns a short name for each of `names`: the function without return type, parameters and
/// unnamed namespaces, and only those template arguments that distinguish it from the others. Names
/// that are not C++, and the brackets of memcpy names, are unchanged.
///
/// Cost: quadratic in the number of kernels of each function.
///
/// ```
/// use trace_model::kernel::display_names;
///
/// let names = ["void a::f<int, 4>(int*)", "void a::f<int, 8>(int*)", "_ZN1b1gIiEEvPT_.kd"];
/// let short = display_names(names);
/// assert_eq!(names.map(|name| short[name].as_str()), ["a::f<…4>", "a::f<…8>", "b::g"]);
/// ```
pub fn display_names<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeMap<&'n str, String> {
    let mut groups: BTreeMap<String, Vec<(&'n str, String)>> = BTreeMap::new();
    for name in names {
        let parts = KernelName::of(name);
        let is_text = name.starts_with("Mem") || parts.function.is_empty();
        let (function, arguments) = match is_text {
            true => (name.to_owned(), String::new()),
            // Names of Tensile are lists of settings, hundreds of characters long.
            false if parts.function.starts_with(TENSILE) => {
                let settings = parts.function.get(TENSILE.len()..).unwrap_or("");
                (TENSILE.to_owned(), settings.to_owned())
            }
            false => (
                parts.function.into_owned(),
                parts.arguments.replace("(anonymous namespace)::", ""),
            ),
        };
        let group = groups.entry(function).or_default();
        if group.iter().all(|(known, _)| *known != name) {
            group.push((name, arguments));
        }
    }
    let mut short = BTreeMap::new();
    for (function, group) in &groups {
        for (name, label) in labels(function, group) {
            short.insert(name, label);
        }
    }
    distinct(&mut short);
    short
}

fn labels<'n>(function: &str, group: &[(&'n str, String)]) -> Vec<(&'n str, String)> {
    let is_wrapper = KernelRules::builtin().is_wrapper(function);
    if function == TENSILE {
        return tensile(group);
    }
    if let ([(name, _)], false) = (group, is_wrapper) {
        return vec![(*name, function.to_owned())];
    }
    let tokens: Vec<Vec<&str>> = group
        .iter()
        .map(|(_, arguments)| tokens(arguments))
        .collect();
    let label = |at: usize| {
        let own = tokens.get(at).map(Vec::as_slice).unwrap_or_default();
        if own.is_empty() {
            return function.to_owned();
        }
        let mut kept = vec![group.len() > MOST_COMPARED; own.len()];
        for other in tokens.iter().filter(|_| group.len() <= MOST_COMPARED) {
            let same = own.iter().zip(other).take_while(|(a, b)| a == b).count();
            if let Some(kept) = kept.get_mut(same).filter(|_| other.as_slice() != own) {
                *kept = true;
            }
        }
        // The first word of a wrapper's arguments that is neither a type nor another wrapper names
        // the function that it runs.
        let is_named = |t: &&str| t.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let telling = own.iter().position(|t| is_named(t) && !is_plumbing(t));
        let payload = telling.or_else(|| own.iter().position(is_named));
        let payload = payload.filter(|_| is_wrapper);
        if let Some(kept) = payload.and_then(|at| kept.get_mut(at)) {
            *kept = true;
        }
        format!("{function}<{}>", elided(own, &kept))
    };
    (0..group.len())
        .map(|at| (group[at].0, label(at)))
        .collect()
}

/// Words of template arguments that PyTorch puts around the function that a kernel runs.
const PLUMBING: [&str; 11] = [
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "BinaryFunctor",
    "AUnaryFunctor",
    "BUnaryFunctor",
    "CUDAFunctorOnSelf",
    "ReduceOp",
    "func_wrapper_t",
    "opmath_gpu_kernel_with_scalars",
    "opmath_symmetric_gpu_kernel_with_scalars",
    "gpu_kernel_with_scalars",
];

/// Returns `true` if a word of template arguments is a number type or one of [`PLUMBING`].
fn is_plumbing(word: &str) -> bool {
    let last = word.rsplit("::").next().unwrap_or(word);
    let types = [
        "float",
        "double",
        "int",
        "long",
        "short",
        "char",
        "bool",
        "unsigned",
        "signed",
        "void",
        "const",
        "half",
        "__half",
        "__nv_bfloat16",
        "__hip_bfloat16",
        "BFloat16",
        "Half",
        "complex",
        "Float8_e4m3fn",
        "Float8_e5m2",
    ];
    types.contains(&last) || PLUMBING.contains(&last)
}

/// Returns the labels of matrix products of Tensile: layout and dtypes, the tile (`MT128x256x32`),
/// and the settings that distinguish one from the others.
fn tensile<'n>(group: &[(&'n str, String)]) -> Vec<(&'n str, String)> {
    let settings: Vec<Vec<&str>> = group.iter().map(|(_, s)| s.split('_').collect()).collect();
    let label = |own: &[&str]| {
        let tile = own
            .iter()
            .position(|s| s.starts_with("MT"))
            .unwrap_or(own.len());
        let mut kept: Vec<bool> = (0..own.len())
            .map(|at| at < 3.min(tile) || at == tile)
            .collect();
        for other in &settings {
            let same = own.iter().zip(other).take_while(|(a, b)| a == b).count();
            if let Some(kept) = kept.get_mut(same).filter(|_| other.as_slice() != own) {
                *kept = true;
            }
        }
        let mut out = TENSILE.to_owned();
        let mut gap = false;
        for (at, setting) in own.iter().enumerate() {
            if !kept[at] {
                gap = true;
                continue;
            }
            match std::mem::take(&mut gap) {
                true => out.push('…'),
                false if at > 0 => out.push('_'),
                false => {}
            }
            out.push_str(setting);
        }
        if gap {
            out.push('…');
        }
        out
    };
    let labels = settings.iter().map(|own| label(own));
    group.iter().map(|(name, _)| *name).zip(labels).collect()
}

/// Splits a text into words and the text between them; namespaces belong to their word.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in text.char_indices() {
        if last.is_some_and(|last| last != is_word(c)) {
            tokens.push(&text[start..at]);
            start = at;
        }
        last = Some(is_word(c));
    }
    if start < text.len() {
        tokens.push(&text[start..]);
    }
    tokens
}

/// Joins the kept tokens without their namespaces, with `…` for all others; text between two kept
/// words stays.
fn elided(tokens: &[&str], kept: &[bool]) -> String {
    let is_word = |t: &str| t.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let keeps = |at: usize| kept.get(at).copied().unwrap_or(false);
    let mut out = String::new();
    let mut gap = false;
    for (at, token) in tokens.iter().enumerate() {
        let joins = !is_word(token) && at > 0 && keeps(at - 1) && keeps(at + 1);
        if !keeps(at) && !joins {
            gap = true;
            continue;
        }
        let shown = match is_word(token) {
            true => token.rsplit("::").next().unwrap_or(token),
            false => token,
        };
        if shown.is_empty() {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) {
            out.push('…');
        }
        out.push_str(shown);
    }
    if gap && !out.is_empty() {
        out.push('…');
    }
    out
}

/// Replaces equal labels by the full names: demangled if that is distinct, else unchanged.
fn distinct(short: &mut BTreeMap<&str, String>) {
    let mut demangled = true;
    loop {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for label in short.values() {
            *times.entry(label.clone()).or_default() += 1;
        }
        let mut changed = false;
        for (name, label) in short.iter_mut() {
            if label.is_empty() || times.get(label) != Some(&1) {
                let full = demangle(name).filter(|_| demangled);
                let full = full.unwrap_or_else(|| (*name).to_owned());
                changed |= full != *label;
                *label = full;
            }
        }
        // Unchanged names are distinct, so this ends.
        if !changed && !demangled {
            return;
        }
        demangled = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_tells_kernels_apart_stays() {
        let names = [
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel(X&)::{lambda()#1}, std::array<char*, 2ul> >(int)",
            "std::enable_if<(((8)>(0)))&&v::C<c10::Half>::exists, void>::type vllm::norm_kernel<c10::Half, 8>(c10::Half*)",
            "void (anonymous namespace)::store<2048l>(Params)",
            "Memcpy HtoD (Pinned -> Device)",
            "Cijk_Alik_Bljk_MT64x64_SN_ISA942_K1_MIWT1.kd",
            "Cijk_Alik_Bljk_MT64x64_SN_ISA942_K1_MIWT2.kd",
            "Cijk_Alik_Bljk_MT64x64_SN_ISA90a_K1_MIWT1.kd",
            "triton_poi_fused_add_0",
            "_ZN2ck3runIiEEvPT_.kd",
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::{lambda()#1}>(X)::{lambda(int)#1}>(int)",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, float, 4> >(int)",
        ];
        let short = display_names(names);
        let short = names.map(|name| short[name].as_str());
        assert_eq!(
            short,
            [
                "at::native::vectorized_elementwise_kernel<…FillFunctor<int…>",
                "at::native::vectorized_elementwise_kernel<…FillFunctor<long…>",
                "at::native::vectorized_elementwise_kernel<…neg_kernel…>",
                "vllm::norm_kernel",
                "store",
                "Memcpy HtoD (Pinned -> Device)",
                "Cijk_Alik_Bljk_MT64x64…ISA942…MIWT1",
                "Cijk_Alik_Bljk_MT64x64…ISA942…MIWT2",
                "Cijk_Alik_Bljk_MT64x64…ISA90a…",
                "triton_poi_fused_add_0",
                "ck::run",
                "at::native::elementwise_kernel<…where_kernel_impl…>",
                "at::native::reduce_kernel<…MeanOps…>",
            ]
        );
    }

    proptest! {
        #[test]
        fn labels_are_distinct(
            names in prop::collection::btree_set("(void )?(a::|b::|_Z1)?[fg](<[ab:, 12<>]{0,8}>)?(\\([ab*]{0,3}\\))?(\\.kd)?", 1..12)
        ) {
            let short = display_names(names.iter().map(String::as_str));
            prop_assert_eq!(short.len(), names.len());
            let labels: BTreeSet<&String> = short.values().collect();
            prop_assert_eq!(labels.len(), names.len(), "{:?}", short);
        }
    }
}
