//! Result of a run.

use std::path::PathBuf;

use serde::Serialize;

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunResult {
    /// Name of the run.
    pub run_id: String,
    /// Folder of the run.
    pub folder: PathBuf,
    /// The collector used.
    pub collector: String,
    /// Collectors that were tried before, and why they could not run.
    pub fallback_reason: Option<String>,
    /// Exit code of the command; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Number of rows of the trace; `None` when there is no trace.
    pub rows: Option<u64>,
    /// Kind of the rows: `loads and stores`, `first touches`, `allocations`, or `nothing` without a
    /// trace.
    pub observed: &'static str,
    /// Validity class: how much the collector or the machine disturbed the run.
    pub validity: &'static str,
    /// Reasons why the run is not `clean`.
    pub validity_reasons: Vec<String>,
    /// Source of the phases: `pipe` (or the socket), `output`, `pipe and output`, `inferred`, or
    /// `none`.
    pub phases: &'static str,
    /// `true` if the run was stopped before its end.
    pub interrupted: bool,
}

impl RunResult {
    /// Returns `true` if the command failed by itself.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.exit_code != Some(0) && !self.interrupted
    }

    /// Returns the result as text: one line, followed by lines on the run's limitations.
    #[must_use]
    pub fn line(&self) -> String {
        let rows = self.rows.map_or("no trace".to_owned(), |rows| {
            format!("{rows} {}", self.observed)
        });
        let mut text = format!(
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
        );
        if self.observed == OBSERVED_TOUCHES {
            text.push_str("\n  ");
            text.push_str(FIRST_TOUCHES);
        }
        for reason in &self.validity_reasons {
            text.push_str(&format!("\n  {}: {reason}", self.validity));
        }
        text
    }
}

/// Name for rows from page faults.
pub(super) const OBSERVED_TOUCHES: &str = "first touches";

/// Limitations of page faults, and what to record instead.
pub const FIRST_TOUCHES: &str = "only page faults were recorded, the first touch of each page: which memory was used and when it was \
    first used is known; loads, stores, retention and phases are not. Record loads and stores: perf mem on a machine with \
    memory-sampling counters, or valgrind --tool=lackey --trace-mem=yes";
