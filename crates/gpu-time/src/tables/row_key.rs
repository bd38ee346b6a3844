//! Key of a row.

use report::{Cell, Column};
use trace_model::step_name::{StepBatch, StepPhase, step_batch, step_phase};

/// Key of a row: a trace, or a step of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowKey {
    /// Name of the trace.
    pub trace: String,
    /// Number of the step, for results by step.
    pub step_index: Option<u64>,
    /// Name of the step, or of the activity outside of all steps.
    pub step: Option<String>,
    /// Reason why the step is not complete, if so.
    pub partial: Option<String>,
}

impl RowKey {
    /// Returns the step for text output: its number, its name, and whether it is complete.
    pub fn step_label(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.step_index.map(|at| at.to_string()));
        words.extend(self.step.clone());
        words.extend(self.partial.as_ref().map(|why| format!("(partial: {why})")));
        words.join(" ")
    }

    /// Returns the batch that the name of the step states.
    fn batch(&self) -> StepBatch {
        let batch = self.step.as_deref().and_then(step_batch);
        batch.unwrap_or_default()
    }

    fn phase(&self) -> Option<StepPhase> {
        self.step.as_deref().and_then(step_phase)
    }

    /// Returns the batch of the step for text output, if its name states its phase: `decode 32`;
    /// for a mixed step the number of prompts and of requests that get a token, `mixed 2+30`.
    pub fn batch_label(&self) -> Option<String> {
        let phase = self.phase()?;
        let batch = self.batch();
        let size = match (batch.prefill, batch.decode) {
            (Some(prefill), Some(decode)) if phase == StepPhase::Mixed => {
                Some(format!("{}+{}", prefill.requests, decode.requests))
            }
            _ => batch.batch_size().map(|n| n.to_string()),
        };
        Some(match size {
            Some(size) => format!("{} {size}", phase.name()),
            None => phase.name().to_owned(),
        })
    }
}

/// Key columns of the rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys {
    step: bool,
}

impl Keys {
    pub(super) fn of<'o>(mut rows: impl Iterator<Item = &'o RowKey>) -> Self {
        Self {
            step: rows.any(|of| of.step.is_some()),
        }
    }

    pub(super) fn columns(self) -> Vec<Column> {
        let mut columns = vec![super::trace()];
        if self.step {
            columns.push(Column::uint("step_index"));
            columns.push(Column::text("step"));
            columns.push(Column::text("step_partial"));
            columns.push(Column::text("step_phase"));
            columns.push(Column::uint("step_requests"));
            columns.push(Column::uint("step_tokens"));
        }
        columns
    }

    pub(super) fn cells(self, of: &RowKey) -> Vec<Cell<'_>> {
        let mut cells = vec![Cell::from(&of.trace)];
        if self.step {
            cells.push(of.step_index.into());
            cells.push(of.step.as_deref().into());
            cells.push(of.partial.as_deref().into());
            let batch = of.batch();
            cells.push(of.phase().map(StepPhase::name).into());
            cells.push(batch.batch_size().into());
            cells.push(batch.all_tokens().into());
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_in_text() {
        for (name, want) in [
            (
                "[Executor] _forward_step 3: 1 ctx reqs, 0 gen reqs",
                Some("prefill 1"),
            ),
            ("execute_new_2_cached_30", Some("mixed 2+30")),
            ("step[DECODE bs=32 toks=32]", Some("decode 32")),
            ("decode", Some("decode")),
            ("ProfilerStep#3", None),
        ] {
            let key = RowKey {
                step: Some(name.to_owned()),
                ..RowKey::default()
            };
            assert_eq!(key.batch_label().as_deref(), want, "{name}");
        }
    }
}
