//! Classes of kernels from their launches.

use crate::ids::SliceId;
use crate::ids::StrId;
use crate::kernel::{
    Activity, Certainty, Communication, KernelClass, Named, TraceIndex, Vocabulary,
};
use crate::trace::Slice;

/// Returns the class of each kernel of a trace, by index among the GPU activities; other GPU
/// activity is [`KernelClass::Other`].
///
/// The innermost known operator around the launch gives the class, else the kernel's name; then the
/// operators, modules and Python functions around it may change the class (a softmax within
/// attention). Kernels of a graph were recorded elsewhere: the slices around the launch of the
/// graph do not apply to them.
pub(super) fn classes(index: &TraceIndex<'_>) -> Vec<KernelClass> {
    let trace = index.trace();
    let work = index.activities().device_work();
    let mut known = Known::new(index.vocabulary(), trace.strings().len());
    let classes = work.iter().map(|id| {
        let slice = trace.slice(*id);
        if index.activity(slice) != Activity::Kernel {
            return KernelClass::Other;
        }
        if index.is_collective(slice) {
            return KernelClass::Collective;
        }
        let named = known.name(slice);
        if named.certainty == Certainty::Fixed {
            return named.class;
        }
        match index.launch_of(slice) {
            Some((call, _)) if index.activity(call) != Activity::GraphLaunch => {
                launched_by(index, &mut known, slice, call, named)
            }
            _ => named.class,
        }
    });
    classes.collect()
}

/// Returns the kernels of unknown name whose launching operators communicate, in the order of the
/// GPU activities.
///
/// The innermost operator around the launch that a rule names decides, so a kernel of `aten::add`
/// within an all-reduce is computation. Cost: a look at the name of each kernel, and at the
/// operators around the launch of those of unknown name.
pub(super) fn exchanges(index: &TraceIndex<'_>) -> Vec<(SliceId, Communication)> {
    let mut known = Known::new(index.vocabulary(), index.trace().strings().len());
    let mut found = Vec::new();
    for slice in index.kernels() {
        if known.name(slice).certainty != Certainty::Unknown {
            continue;
        }
        let Some((call, _)) = index.launch_of(slice) else {
            continue;
        };
        if index.activity(call) == Activity::GraphLaunch {
            continue;
        }
        let decides = operators(index, slice, call).find_map(|s| known.exchange(s));
        if let Some(Some(communication)) = decides {
            found.push((slice.id(), communication));
        }
    }
    found
}

/// Returns the operators around the launch `call` of the kernel `slice`, innermost first.
/// Compiler-generated operators have the names of their kernels and are left out.
fn operators<'t>(
    index: &TraceIndex<'_>,
    slice: Slice<'t>,
    call: Slice<'t>,
) -> impl Iterator<Item = Slice<'t>> {
    std::iter::once(call)
        .chain(call.ancestors())
        .filter(move |s| index.activity(*s) == Activity::CpuOp && s.name_id() != slice.name_id())
}

/// Returns the class of a kernel named `slice`, whose name gives `named` and which `call` launched.
fn launched_by(
    index: &TraceIndex<'_>,
    known: &mut Known<'_>,
    slice: Slice<'_>,
    call: Slice<'_>,
    named: Named,
) -> KernelClass {
    let around = || std::iter::once(call).chain(call.ancestors());
    let class = match operators(index, slice, call).find_map(|s| known.operator(s)) {
        Some((of, decides)) if decides || named.certainty == Certainty::Unknown => of,
        _ => named.class,
    };
    if !known.changes.contains(&class) {
        return class;
    }
    around()
        .find_map(|s| known.context(s, index.activity(s), class))
        .unwrap_or(class)
}

type Becomes = Vec<(KernelClass, KernelClass)>;

/// Results of name look-ups, each computed once.
struct Known<'v> {
    vocabulary: &'v Vocabulary,
    kernels: Vec<Option<Named>>,
    exchanges: Vec<Option<Option<Option<Communication>>>>,
    operators: Vec<Option<Option<(KernelClass, bool)>>>,
    contexts: Vec<Option<Becomes>>,
    /// Classes that some context changes.
    changes: Vec<KernelClass>,
}

impl<'v> Known<'v> {
    fn new(vocabulary: &'v Vocabulary, names: usize) -> Self {
        Self {
            vocabulary,
            kernels: vec![None; names],
            exchanges: vec![None; names],
            operators: vec![None; names],
            contexts: vec![None; names],
            changes: vocabulary.changed_by_context(),
        }
    }

    fn name(&mut self, slice: Slice<'_>) -> Named {
        let look = || self.vocabulary.named(slice.name().unwrap_or(""));
        match slot(&mut self.kernels, slice.name_id()) {
            Some(slot) => *slot.get_or_insert_with(look),
            None => look(),
        }
    }

    fn exchange(&mut self, slice: Slice<'_>) -> Option<Option<Communication>> {
        let look = || self.vocabulary.exchange_of(slice.name().unwrap_or(""));
        *slot(&mut self.exchanges, slice.name_id())?.get_or_insert_with(look)
    }

    fn operator(&mut self, slice: Slice<'_>) -> Option<(KernelClass, bool)> {
        let look = || self.vocabulary.operator(slice.name().unwrap_or(""));
        *slot(&mut self.operators, slice.name_id())?.get_or_insert_with(look)
    }

    fn context(
        &mut self,
        slice: Slice<'_>,
        activity: Activity,
        class: KernelClass,
    ) -> Option<KernelClass> {
        if !matches!(activity, Activity::CpuOp | Activity::PythonFunction) {
            return None;
        }
        let look = || {
            self.vocabulary
                .context(context_name(slice.name().unwrap_or("")))
        };
        let changes = slot(&mut self.contexts, slice.name_id())?.get_or_insert_with(look);
        let row = changes.iter().find(|(of, _)| *of == class)?;
        Some(row.1)
    }
}

fn slot<T>(table: &mut [Option<T>], name: Option<StrId>) -> Option<&mut Option<T>> {
    table.get_mut(name?.index())
}

/// Returns the module of `nn.Module: LlamaAttention_3` and the function of `file.py(12): forward`;
/// other names are unchanged.
pub(super) fn context_name(name: &str) -> &str {
    if let Some(module) = name.strip_prefix("nn.Module: ") {
        let (class, number) = module.rsplit_once('_').unwrap_or((module, ""));
        let is_number = number.bytes().all(|b| b.is_ascii_digit());
        return if is_number { class } else { module };
    }
    name.rsplit_once("): ")
        .map_or(name, |(_, function)| function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_modules_and_functions() {
        for (name, want) in [
            ("nn.Module: LlamaAttention_3", "LlamaAttention"),
            ("nn.Module: Linear_", "Linear"),
            ("nn.Module: Linear", "Linear"),
            ("nn.Module: My_Norm", "My_Norm"),
            ("attention/model.py(12): forward", "forward"),
            ("aten::softmax", "aten::softmax"),
        ] {
            assert_eq!(context_name(name), want);
        }
    }
}
