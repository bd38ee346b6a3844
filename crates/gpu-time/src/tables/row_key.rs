//! What a row is of.

use report::{Cell, Column};

/// What a row is of: a trace, or a step of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowKey {
    /// The trace.
    pub trace: String,
    /// The number of the step, for results by step.
    pub step_index: Option<u64>,
    /// The name of the step, or of what belongs to none.
    pub step: Option<String>,
    /// Why the step is not whole, if it is not.
    pub partial: Option<String>,
}

impl RowKey {
    /// The step for people: its number, its name, and whether it is whole.
    pub fn step_label(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.step_index.map(|at| at.to_string()));
        words.extend(self.step.clone());
        words.extend(self.partial.as_ref().map(|why| format!("(partial: {why})")));
        words.join(" ")
    }
}

/// Which columns say what rows are of.
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
        }
        columns
    }

    pub(super) fn cells(self, of: &RowKey) -> Vec<Cell<'_>> {
        let mut cells = vec![Cell::from(&of.trace)];
        if self.step {
            cells.push(of.step_index.into());
            cells.push(of.step.as_deref().into());
            cells.push(of.partial.as_deref().into());
        }
        cells
    }
}
