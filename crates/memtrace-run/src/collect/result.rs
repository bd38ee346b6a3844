//! What a run was.

use std::path::PathBuf;

use serde::Serialize;

/// What a run was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunResult {
    /// Its name.
    pub run_id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What collected.
    pub collector: String,
    /// What was tried before, and why it could not.
    pub fallback_reason: Option<String>,
    /// Exit code of the command; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Rows of the trace; `None` when there is no trace.
    pub rows: Option<u64>,
    /// Class of validity.
    pub validity: &'static str,
    /// Where the phases are from: `pipe` (or the socket), `output`, `pipe and output`, `inferred`, or `none`.
    pub phases: &'static str,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl RunResult {
    /// Whether the command failed by itself.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.exit_code != Some(0) && !self.interrupted
    }

    /// The result as a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let rows = self
            .rows
            .map_or("no trace".to_owned(), |rows| format!("{rows} rows"));
        format!(
            "{}: {} by {}, phases {}, {}{}, in {}",
            self.run_id,
            rows,
            self.collector,
            self.phases,
            self.validity,
            if self.interrupted {
                ", interrupted"
            } else {
                ""
            },
            self.folder.display()
        )
    }
}
