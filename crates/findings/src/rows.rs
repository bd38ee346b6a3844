//! Findings as rows of a table.

use report::{Cell, Column, Result, RowSink, Unit};

use crate::document::{Confidence, Document, Evidence, Finding, Side};

/// Turns names of files and numbers of events into the ids of the tables of recordings.
pub struct Ids<'i> {
    /// Returns the id of a file; `None` if the tables do not have it.
    pub file: &'i dyn Fn(&str) -> Option<i64>,
    /// Returns the id of an event of a file.
    pub event: &'i dyn Fn(i64, u64) -> Option<i64>,
}

impl std::fmt::Debug for Ids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ids").finish_non_exhaustive()
    }
}

fn columns() -> Vec<Column> {
    let ns = |name: &'static str| Column::int(name).unit(Unit::Nanos);
    let pct = |name: &'static str| Column::real(name).unit(Unit::Pct);
    vec![
        Column::int("file_id"),
        Column::int("rank"),
        Column::text("id"),
        Column::int("position"),
        Column::text("kind"),
        Column::text("title"),
        Column::text("confidence"),
        Column::text("side"),
        Column::int("device"),
        Column::text("phase"),
        Column::int("step"),
        Column::text("steps"),
        Column::int("step_count"),
        Column::int("of_steps"),
        Column::text("name"),
        Column::text("stack"),
        ns("cost_ns_per_step"),
        ns("cost_ns_per_step_low"),
        ns("cost_ns_per_step_high"),
        ns("cost_ns_per_affected_step"),
        ns("cost_ns_per_affected_step_low"),
        ns("cost_ns_per_affected_step_high"),
        ns("cost_ns_total"),
        pct("share_pct"),
        Column::bool("is_gain_known"),
        ns("gain_ceiling_ns_per_step"),
        pct("gain_pct"),
        Column::text("remedy"),
        Column::text("remedy_source"),
        Column::text("refute"),
        Column::text("evidence"),
        Column::text("command"),
        Column::text("file"),
        Column::int("slice_id"),
        Column::int("start_ns"),
        Column::int("end_ns"),
    ]
}

/// Writes one row for each finding of a document, in its order. Lists are joined to one text; of the evidence, the first row with a
/// place in a file gives file, slice and times.
///
/// # Errors
///
/// Returns the error of the sink.
pub fn write_rows(document: &Document, ids: &Ids<'_>, sink: &mut dyn RowSink) -> Result<()> {
    sink.begin(&columns())?;
    for (position, finding) in (1..).zip(&document.findings) {
        row(document, finding, position, ids, sink)?;
    }
    sink.finish()
}

fn row(
    document: &Document,
    finding: &Finding,
    position: i64,
    ids: &Ids<'_>,
    sink: &mut dyn RowSink,
) -> Result<()> {
    let place = &finding.place;
    let is_placed = |row: &&Evidence| row.file.is_some() && row.begin_ns.is_some();
    let shown = finding.evidence.iter().find(is_placed);
    let file = shown.and_then(|row| row.file.as_deref());
    // Without evidence in a file, it is the one of the rank, if there is only one.
    let of_rank = || {
        let files = document.scope.files.iter();
        let mut own = files.filter(|file| {
            file.problem.is_none()
                && place.rank.is_some()
                && file.rank == place.rank
                && file.side == place.side
        });
        let name = own.next().map(|file| file.name.as_str());
        name.filter(|_| own.next().is_none())
    };
    let file_id = file.or_else(of_rank).and_then(ids.file);
    let event = shown.and_then(|row| row.event_id);
    let slice_id = file_id
        .zip(event)
        .and_then(|(file, event)| (ids.event)(file, event));
    let begin_ns = shown.and_then(|row| row.begin_ns);
    let end_ns = shown.and_then(|row| row.begin_ns?.checked_add(row.duration_ns?));
    let steps: Vec<String> = place.steps.iter().map(u32::to_string).collect();
    let steps = Some(steps.join(",")).filter(|text| !text.is_empty());
    let stack = Some(place.stack.join("; ")).filter(|text| !text.is_empty());
    let evidence: Vec<&str> = finding
        .evidence
        .iter()
        .map(|row| row.text.as_str())
        .collect();
    let evidence = Some(evidence.join("; ")).filter(|text| !text.is_empty());
    let remedy = finding.remedy.as_ref();
    let (cost, affected) = (finding.cost_ns_per_step, finding.cost_ns_per_affected_step);
    let count = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    sink.row(&[
        Cell::from(file_id),
        Cell::from(place.rank.map(i64::from)),
        Cell::from(&finding.id),
        Cell::Int(position),
        Cell::from(&finding.kind),
        Cell::from(&finding.title),
        Cell::Text(confidence(finding.confidence)),
        Cell::Text(side(place.side)),
        Cell::from(place.device),
        Cell::from(place.phase.as_ref()),
        Cell::from(place.steps.first().map(|step| i64::from(*step))),
        Cell::from(steps.as_ref()),
        count(place.step_count),
        count(finding.of_steps),
        Cell::from(place.name.as_ref()),
        Cell::from(stack.as_ref()),
        Cell::Int(cost.median),
        Cell::Int(cost.low),
        Cell::Int(cost.high),
        Cell::Int(affected.median),
        Cell::Int(affected.low),
        Cell::Int(affected.high),
        Cell::Int(finding.cost_ns_total),
        Cell::Real(finding.share_pct),
        Cell::Bool(finding.is_gain_known),
        Cell::Int(finding.gain_ceiling_ns_per_step),
        Cell::Real(finding.gain_pct),
        Cell::from(remedy.map(|remedy| &remedy.text)),
        Cell::from(remedy.map(|remedy| &remedy.source)),
        Cell::from(&finding.refute),
        Cell::from(evidence.as_ref()),
        Cell::from(finding.commands.first()),
        Cell::from(shown.and_then(|row| row.file.as_ref())),
        Cell::from(slice_id),
        Cell::from(begin_ns),
        Cell::from(end_ns),
    ])
}

/// Returns the word of `why --json`.
fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Possible => "possible",
        Confidence::Likely => "likely",
        Confidence::Established => "established",
    }
}

/// Returns the word of `why --json`.
fn side(side: Side) -> &'static str {
    match side {
        Side::Only => "only",
        Side::Baseline => "baseline",
        Side::Candidate => "candidate",
    }
}
