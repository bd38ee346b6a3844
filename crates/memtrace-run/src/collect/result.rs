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
    /// What the rows are: `loads and stores`, `first touches`, `allocations`, or `nothing` without a trace.
    pub observed: &'static str,
    /// Class of validity: how much the collector or the machine disturbed the run.
    pub validity: &'static str,
    /// Why the run is not `clean`.
    pub validity_reasons: Vec<String>,
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

    /// The result as text: one line, and below it what keeps the run from answering.
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

/// What page faults are called.
pub(super) const OBSERVED_TOUCHES: &str = "first touches";

/// What page faults cannot answer, and what to record.
pub const FIRST_TOUCHES: &str = "only page faults were recorded, the first touch of each page: which memory was used and when it was \
    first used is known; loads, stores, retention and phases are not. Record loads and stores: perf mem on a machine with \
    memory-sampling counters, or valgrind --tool=lackey --trace-mem=yes";
