//! What the kernels of a trace compute, by what launched them.

use crate::ids::StrId;
use crate::kernel::{Activity, KernelClass, TraceIndex, Vocabulary};
use crate::trace::Slice;

/// The class of each kernel of a trace by its place among the device work; other device work is
/// [`KernelClass::Other`].
///
/// The innermost operator around the launch that the rules know gives the class, else the kernel's name; then the
/// operators, modules and Python functions around it may change the class (a softmax within attention). Kernels of a graph
/// were recorded elsewhere: what is around the launch of the graph says nothing about them.
pub(super) fn classes(index: &TraceIndex<'_>) -> Vec<KernelClass> {
    let trace = index.trace();
    let work = index.activities().device_work();
    let mut known = Known::new(index.vocabulary(), trace.strings().len());
    let classes = work.iter().map(|id| {
        let slice = trace.slice(*id);
        if index.activity(slice) != Activity::Kernel {
            return KernelClass::Other;
        }
        let (class, fixed) = known.name(slice);
        if fixed {
            return class;
        }
        match index.launch_of(slice) {
            Some((call, _)) if index.activity(call) != Activity::GraphLaunch => {
                launched_by(index, &mut known, slice, call, class)
            }
            _ => class,
        }
    });
    classes.collect()
}

/// The class of a kernel called `slice`, whose name says `class` and which `call` launched.
fn launched_by(
    index: &TraceIndex<'_>,
    known: &mut Known<'_>,
    slice: Slice<'_>,
    call: Slice<'_>,
    class: KernelClass,
) -> KernelClass {
    let around = || std::iter::once(call).chain(call.ancestors());
    // Operators that compilers make are called as their kernels.
    let mut operators = around()
        .filter(|s| index.activity(*s) == Activity::CpuOp && s.name_id() != slice.name_id());
    let class = match operators.find_map(|s| known.operator(s)) {
        Some((of, decides)) if decides || class == KernelClass::Other => of,
        _ => class,
    };
    if !known.changes.contains(&class) {
        return class;
    }
    around()
        .find_map(|s| known.context(s, index.activity(s), class))
        .unwrap_or(class)
}

type Becomes = Vec<(KernelClass, KernelClass)>;

/// What names say, each looked up once.
struct Known<'v> {
    vocabulary: &'v Vocabulary,
    kernels: Vec<Option<(KernelClass, bool)>>,
    operators: Vec<Option<Option<(KernelClass, bool)>>>,
    contexts: Vec<Option<Becomes>>,
    /// The classes that some context changes.
    changes: Vec<KernelClass>,
}

impl<'v> Known<'v> {
    fn new(vocabulary: &'v Vocabulary, names: usize) -> Self {
        Self {
            vocabulary,
            kernels: vec![None; names],
            operators: vec![None; names],
            contexts: vec![None; names],
            changes: vocabulary.changed_by_context(),
        }
    }

    fn name(&mut self, slice: Slice<'_>) -> (KernelClass, bool) {
        let look = || self.vocabulary.named(slice.name().unwrap_or(""));
        match slot(&mut self.kernels, slice.name_id()) {
            Some(slot) => *slot.get_or_insert_with(look),
            None => look(),
        }
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

/// The module of `nn.Module: LlamaAttention_3` and the function of `file.py(12): forward`; other names as they are.
fn context_name(name: &str) -> &str {
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
