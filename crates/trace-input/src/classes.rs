//! Rules of the user for kernels.

use clap::Args;
use trace_model::kernel::{KernelRules, Vocabulary};

/// `--classes FILE`: how kernels are classified.
#[derive(Debug, Clone, Default, Args)]
pub struct ClassesArgs {
    /// Rows of your own for the table of kernel classes and communication (docs/kernels.md)
    #[arg(long, help_heading = "Rules", value_name = "FILE", value_parser = kernel_rules)]
    pub classes: Option<KernelRules>,
}

impl ClassesArgs {
    /// Returns the rows of the user, for [`perfetto_reader::ReadOptions::kernel_rules`].
    #[must_use]
    pub fn rules(&self) -> KernelRules {
        self.classes.clone().unwrap_or_default()
    }

    /// Returns the built-in table, preceded by the rows of the user.
    #[must_use]
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary::default().with_rules(self.rules())
    }
}

/// Reads the rules in the file `path` (docs/kernels.md).
///
/// # Errors
///
/// Returns an error if the file cannot be read, or a line is not a rule (with its number).
pub fn kernel_rules(path: &str) -> Result<KernelRules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    KernelRules::parse(&text).map_err(|error| error.to_string())
}
