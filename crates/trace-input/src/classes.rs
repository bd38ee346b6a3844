//! Rules for kernels of the user's own.

use trace_model::kernel::KernelRules;

/// Reads the rows of the file `path` (docs/kernels.md).
///
/// # Errors
///
/// A file that cannot be read, and a row that is none, with its line.
pub fn kernel_rules(path: &str) -> Result<KernelRules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    KernelRules::parse(&text).map_err(|error| error.to_string())
}
