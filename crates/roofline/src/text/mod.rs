//! Results as text for readers: the answer first, then the ladder of a step, what gains most, on what that rests, and a table.

mod advice;
mod answer;
mod basis;
mod gain;
mod ladder;
mod model;
mod phases;
mod rows;
mod words;

use report::{Result, Table, human};

use crate::analysis::Analysis;
use crate::beyond::Beyond;
use crate::device::PeakKey;
use crate::views::{By, Row};

pub use answer::answer;
pub use model::{forward, quantities};
pub use words::{bytes, count_of, shapes};

/// Rows unless another number is asked for.
const SHOWN: usize = 20;

/// A label, and what it is about.
pub type Line = (&'static str, String);

/// The result for one recording, in the order in which it is read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Text {
    /// The answer, then the ladders.
    pub sentences: Vec<String>,
    /// What gains most, and on what the numbers rest.
    pub lines: Vec<Line>,
    /// Title of the table.
    pub title: String,
    /// Rows or steps.
    pub table: Table,
    /// Remarks on rows of the table, and what would tell more.
    pub remarks: Vec<Line>,
}

/// What the table of a [`Text`] has.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Key of the rows; `None` for steps.
    pub by: Option<By>,
    /// Name of the column of their names.
    pub name: &'static str,
    /// Keep the order of the rows, instead of most gain first.
    pub is_sorted: bool,
    /// Number of rows; 20 if `None`.
    pub top: Option<usize>,
    /// Fractions of peaks that were given as achievable.
    pub achievable: &'a [(PeakKey, f64)],
}

/// Returns the result for one recording.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn text(analysis: &Analysis, shown: &Shown<'_>) -> Result<Text> {
    let mut sentences = vec![answer(analysis)];
    sentences.extend(ladder::ladders(analysis));
    let gains = analysis.gains.iter();
    let gains = gains.map(|gain| ("gain", gain::gain_text(gain, analysis)));
    let mut lines: Vec<Line> = gains.collect();
    lines.push(("numbers", basis::numbers_line(analysis)));
    if let Some(pct) = analysis.achievable_pct() {
        let fractions = shown.achievable.iter();
        let fractions = fractions.map(|(key, by)| format!("{} {by}", key.name()));
        let text = format!(
            "calls with numbers reach {} of what is achievable at fractions of {}",
            human::percent(pct),
            fractions.collect::<Vec<_>>().join(", ")
        );
        lines.push(("achievable", text));
    }
    lines.extend(basis::window_line(analysis).map(|text| ("window", text)));
    lines.extend(basis::head(analysis));
    let top = shown.top.unwrap_or(SHOWN);
    let mut remarks = Vec::new();
    let (title, table) = match shown.by {
        None => ("steps".to_owned(), rows::steps(analysis, top)?),
        Some(by) => {
            let order = order(analysis, by, shown.is_sorted);
            let count = top.min(order.len());
            let names = rows::RowNames::new(analysis, by, &order[..count]);
            remarks = order[..count]
                .iter()
                .filter_map(|row| beyond(&names, row))
                .collect();
            let table = rows::rows_table(analysis, (by, shown.name), &order[..count])?;
            (format!("{count} of {} rows", order.len()), table)
        }
    };
    remarks.push(("more", advice::advice(analysis)));
    Ok(Text {
        sentences,
        lines,
        title,
        table,
        remarks,
    })
}

/// The rows in the order in which they are shown: the question is what to gain, unless another order was asked for.
fn order(analysis: &Analysis, by: By, is_sorted: bool) -> Vec<&Row> {
    let rows = match by {
        By::Call => &analysis.calls,
        _ => &analysis.rows,
    };
    let mut order: Vec<&Row> = rows.rows.iter().collect();
    if !is_sorted {
        order.sort_by(|a, b| {
            let key = |row: &Row| row.gain_ns().unwrap_or(f64::NEG_INFINITY);
            key(b).total_cmp(&key(a))
        });
    }
    order
}

/// Why a row took less time than its limit, if it did.
fn beyond(names: &rows::RowNames<'_>, row: &Row) -> Option<Line> {
    let pct = row.pct().filter(|pct| *pct > 100.0)?;
    let reasons: Vec<&str> = row.beyond.iter().map(Beyond::text).collect();
    let name = names.of(row);
    let text = format!("{name} {}: {}", human::percent(pct), reasons.join("; "));
    Some(("beyond", text))
}
