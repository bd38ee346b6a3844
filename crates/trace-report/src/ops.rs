//! Operators of the host: time, calls, memory, FLOPs; copies by direction.

use gpu_time::{ARG_KEYS, GpuWork, Lack, Note, Recorder};
use report::{Align, Cell, Column, SchemaVersion, Table, Unit, human};
use roofline::{CopyRow, Knowledge, OPS_KEYS, OpRow, OpSort, copies, copies_table, ops, ops_table};
use trace_model::Trace;

use crate::part::PartChoice;
use crate::{Answered, Document, Form, Result};

/// Version of the tables.
const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// Rows of each recording in text.
const TOP: usize = 20;

/// What is asked about operators.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which window of each recording; operators have no steps.
    pub part: PartChoice,
    /// `true` for a row for each operator and shapes of its inputs.
    pub by_shape: bool,
    /// Order of the rows.
    pub sort: OpSort,
    /// Maximum number of rows of each recording.
    pub top: Option<usize>,
    /// What is made of the answer.
    pub form: Form,
}

impl Question {
    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let keys = ARG_KEYS.iter().chain(OPS_KEYS);
        keys.map(|key| (*key).to_owned()).collect()
    }
}

/// Operators of one recording.
#[derive(Debug)]
pub struct Answer {
    ops: Vec<OpRow>,
    copies: Vec<CopyRow>,
    notes: Vec<Note>,
    recorder: Recorder,
}

impl Answer {
    /// Adds up the operators of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the window that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let knowledge = Knowledge::default();
        let work = GpuWork::new(trace);
        let (how, notes) = question.part.resolve(&work)?;
        let by_shape = question.by_shape;
        let answer = Self {
            ops: ops(
                &work,
                &knowledge.models,
                by_shape,
                how.window,
                question.sort,
            ),
            copies: copies(&work, how.window),
            notes,
            recorder: Recorder::of(trace),
        };
        let why = match answer.ops.is_empty() {
            true => gpu_time::no_gpu_work(work.index()),
            false => None,
        };
        Ok(Answered::new(label, answer, why))
    }
}

/// Returns the document: operators and copies of each recording.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let by_shape = question.by_shape;
    let mut document = Document::new(VERSION);
    let all = answered.iter();
    let rows: Vec<(&str, &[OpRow])> = all
        .clone()
        .map(|one| (one.label.as_str(), &*one.answer.ops))
        .collect();
    let top = question.top.unwrap_or(usize::MAX);
    document.push(ops_table(&rows, by_shape, top)?);
    let rows: Vec<(&str, &[CopyRow])> = all
        .map(|one| (one.label.as_str(), &*one.answer.copies))
        .collect();
    document.push(copies_table(&rows, true)?);
    for one in answered.iter().filter(|_| question.form.is_text()) {
        let answer = &one.answer;
        document.heading(&one.label);
        document.notes(&answer.notes);
        if answer.ops.is_empty() {
            document.line(
                "operators",
                format!(
                    "none recorded: record them ({})",
                    Lack::Operators.how(answer.recorder)
                ),
            );
        } else {
            let top = question.top.unwrap_or(TOP).min(answer.ops.len());
            let title = format!("{top} of {} operators", answer.ops.len());
            document.table(&title, narrow(&answer.ops[..top], by_shape)?);
        }
        if !answer.copies.is_empty() {
            document.table("copies", copies_table(&[("", &answer.copies)], false)?);
        }
    }
    Ok(document)
}

/// Returns operators for text: what is zero in all rows is left out.
fn narrow(rows: &[OpRow], by_shape: bool) -> Result<Table> {
    let has = |get: fn(&OpRow) -> bool| rows.iter().any(get);
    let has_gpu = has(|row| row.total_gpu_ns > 0);
    let has_cpu_bytes = has(|row| row.total_cpu_bytes != 0);
    let has_gpu_bytes = has(|row| row.total_gpu_bytes != 0);
    let has_flops = has(|row| row.flops.is_some());
    let mut columns = vec![Column::text("op")];
    if by_shape {
        columns.push(Column::text("shapes"));
    }
    let nanos = |name| Column::int(name).unit(Unit::Nanos);
    let bytes = |name| Column::int(name).unit(Unit::Bytes);
    columns.extend([
        Column::uint("calls").unit(Unit::Count),
        nanos("self CPU"),
        nanos("CPU"),
    ]);
    if has_gpu {
        columns.extend([nanos("self GPU"), nanos("GPU")]);
    }
    if has_cpu_bytes {
        columns.push(bytes("CPU memory"));
    }
    if has_gpu_bytes {
        columns.push(bytes("GPU memory"));
    }
    if has_flops {
        columns.push(Column::text("FLOP").align(Align::Right));
    }
    let mut table = Table::new("ops", columns)?;
    for row in rows {
        #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
        let flops = row.flops.map(|n| human::short_count(n as f64));
        let mut cells: Vec<Cell<'_>> = vec![row.name.as_str().into()];
        if by_shape {
            cells.push(row.dims.as_str().into());
        }
        cells.extend([
            Cell::from(row.calls),
            row.self_ns.into(),
            row.total_ns.into(),
        ]);
        if has_gpu {
            cells.extend([Cell::from(row.self_gpu_ns), row.total_gpu_ns.into()]);
        }
        if has_cpu_bytes {
            cells.push(row.total_cpu_bytes.into());
        }
        if has_gpu_bytes {
            cells.push(row.total_gpu_bytes.into());
        }
        if has_flops {
            cells.push(flops.as_deref().unwrap_or("").into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}
