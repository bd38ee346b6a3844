//! Reads user-defined rules for kernels.

use trace_model::kernel::KernelRules;

/// Reads the rules in the file `path` (docs/kernels.md).
///
/// # Errors
///
/// Returns an error if the file cannot be read, or a line is not a rule (with its number).
pub fn kernel_rules(path: &str) -> Result<KernelRules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    KernelRules::parse(&text).map_err(|error| error.to_string())
}
