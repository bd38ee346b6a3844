//! Finds the host code from which a GPU activity originates.

use trace_model::callstack::trim_digits;
use trace_model::kernel::Activity;
use trace_model::{Slice, StrId};

use crate::work::GpuWork;

/// Prefix of PyTorch's names of module slices.
const MODULE: &str = "nn.Module: ";

/// Returns the innermost framework operator around a call.
pub fn operator_of<'t>(work: &GpuWork<'t>, call: Slice<'t>) -> Option<Slice<'t>> {
    call.ancestors()
        .find(|s| work.index().activity(*s) == Activity::CpuOp)
}

/// Returns the Python module around a call: the `nn.Module` slices from the outermost to the
/// innermost, without instance numbers unless `numbered`, joined by `/`. Without such slices,
/// returns the innermost Python function that has a file.
pub fn module_of(work: &GpuWork<'_>, call: Slice<'_>, numbered: bool) -> Option<String> {
    let (mut path, mut function): (Vec<&str>, Option<&str>) = (Vec::new(), None);
    let mut last: Option<StrId> = None;
    for slice in call.ancestors() {
        if work.index().activity(slice) != Activity::PythonFunction {
            continue;
        }
        let name = slice.name().unwrap_or("");
        if let Some(module) = name.strip_prefix(MODULE) {
            // `__call__` and `forward` of one module may both carry its name.
            if last != slice.name_id() {
                path.push(module);
            }
            last = slice.name_id();
        } else if function.is_none() && name.contains(".py(") {
            function = Some(name);
        }
    }
    if path.is_empty() {
        return function.map(str::to_owned);
    }
    path.reverse();
    let bare = |name: &&str| match numbered {
        true => (*name).to_owned(),
        false => trim_digits(name).trim_end_matches('_').to_owned(),
    };
    Some(path.iter().map(bare).collect::<Vec<_>>().join("/"))
}
