//! Results as tables.

use report::{Cell, Column, SchemaVersion, Table, Unit};

use super::answer::ranks_text;
use super::{Group, Job, ProblemKind};
use crate::error::Result;

/// Schema version of the tables.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 1);

fn count(name: &'static str, title: &'static str) -> Column {
    Column::uint(name).unit(Unit::Count).title(title)
}

/// Returns one row for each process group: its first collective that did not complete, why, and who.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn groups(job: &Job) -> Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::text("description"),
        Column::text("ranks"),
        Column::text("without_dump").title("no dump"),
        Column::int("first_seq").title("first"),
        Column::int("last_seq").title("last"),
        Column::text("problem"),
        Column::bool("is_root").title("root"),
        Column::int("seq"),
        Column::text("operation"),
        Column::text("sizes"),
        Column::text("dtypes"),
        Column::text("missing_ranks").title("did not call"),
        Column::text("not_started_ranks").title("not begun"),
        Column::text("waiting_ranks").title("wait"),
        Column::int("mismatch_seq"),
        Column::text("mismatch"),
        Column::text("mismatch_ranks"),
        Column::text("place"),
        Column::text("unknown_ranks").title("unknown"),
        Column::int("unfinished_seq"),
        Column::text("unfinished_ranks"),
    ];
    let mut table = Table::new("flight_groups", columns)?;
    for group in &job.groups {
        let unknown = ranks_text(&group.unknown);
        let unfinished = group.unfinished.as_ref();
        let inside = unfinished.map(|inside| ranks_text(&inside.ranks));
        let problem = group.problem.as_ref();
        let call = problem.and_then(|problem| job.call_of(group, problem));
        let text = |ranks: Option<&Vec<u32>>| ranks.map(|ranks| ranks_text(ranks));
        let (missing, not_started, waiting) = (
            text(problem.map(|p| &p.missing)),
            text(problem.map(|p| &p.not_started)),
            text(problem.map(|p| &p.waiting)),
        );
        let (sizes, dtypes, place) = (
            call.map(|(_, entry)| entry.inputs.sizes_text()),
            call.map(|(_, entry)| entry.inputs.dtypes_text()),
            call.and_then(|(rank, entry)| job.place(rank, entry.stack)),
        );
        let (ranks, without) = (ranks_text(&group.ranks), ranks_text(&group.without_dump));
        let differing = group
            .mismatch
            .as_ref()
            .map(|(_, _, ranks)| ranks_text(ranks));
        let last = group
            .last
            .values()
            .map(|last| last[0])
            .max()
            .filter(|last| *last > 0);
        table.push(&[
            Cell::from(&group.name),
            Cell::from(&group.description),
            Cell::from(&ranks),
            Cell::from(&without),
            group.first_seq.into(),
            last.into(),
            problem.map(|problem| problem.kind.name()).into(),
            problem.map(|_| group.is_root).into(),
            problem.map(|problem| problem.seq).into(),
            problem.map(|problem| problem.operation.as_str()).into(),
            sizes.as_deref().into(),
            dtypes.as_deref().into(),
            missing.as_deref().into(),
            not_started.as_deref().into(),
            waiting.as_deref().into(),
            group.mismatch.as_ref().map(|(seq, ..)| *seq).into(),
            group.mismatch.as_ref().map(|(_, how, _)| how.name()).into(),
            differing.as_deref().into(),
            place.as_deref().into(),
            Cell::from(&unknown),
            unfinished.map(|inside| inside.seq).into(),
            inside.as_deref().into(),
        ])?;
    }
    Ok(table)
}

/// Returns one row for each rank of each group: its last collectives.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn ranks(job: &Job) -> Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::int("rank"),
        count("calls", "calls"),
        Column::int("last_called").title("called"),
        Column::int("last_started").title("begun"),
        Column::int("last_completed").title("completed"),
        Column::text("operation").title("last call"),
        Column::text("state"),
        Column::text("place").title("called in"),
        Column::text("stack"),
    ];
    let mut table = Table::new("flight_ranks", columns)?;
    for group in &job.groups {
        for (rank, last) in &group.last {
            let calls = job.calls_of(group, *rank).count();
            let call = job.calls_of(group, *rank).next_back();
            let place = call.and_then(|call| job.place(*rank, call.stack));
            let stack = call.and_then(|call| Some(job.ranks.get(rank)?.stacks.text(call.stack)));
            table.push(&[
                Cell::from(&group.name),
                rank_cell(*rank),
                calls.into(),
                known(group, *rank, last[0]),
                known(group, *rank, last[1]),
                known(group, *rank, last[2]),
                call.map(|call| call.operation.as_str()).into(),
                call.map(|call| call.state.name()).into(),
                place.as_deref().into(),
                stack.as_deref().filter(|stack| !stack.is_empty()).into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns a number of a rank in a group, if its dump tells it.
fn known(group: &Group, rank: u32, seq: i64) -> Cell<'static> {
    let seq = Some(seq).filter(|_| !group.unknown.contains(&rank));
    seq.into()
}

fn rank_cell(rank: u32) -> Cell<'static> {
    Cell::Int(rank.into())
}

/// Returns the calls of the first collective of each group that did not complete, by rank.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn calls(job: &Job) -> Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::int("seq"),
        Column::int("rank"),
        Column::text("operation"),
        Column::text("state"),
        Column::text("input_sizes").title("inputs"),
        Column::text("output_sizes").title("outputs"),
        Column::text("input_dtypes").title("dtype"),
        Column::text("output_dtypes"),
        Column::int("created_ns"),
        Column::text("place").title("called in"),
    ];
    let mut table = Table::new("flight_calls", columns)?;
    for group in &job.groups {
        let Some(problem) = &group.problem else {
            continue;
        };
        for rank in group.last.keys() {
            for entry in job
                .calls_of(group, *rank)
                .filter(|entry| entry.seq == problem.seq)
            {
                let (inputs, outputs) = (entry.inputs.sizes_text(), entry.outputs.sizes_text());
                let (from, to) = (entry.inputs.dtypes_text(), entry.outputs.dtypes_text());
                let place = job.place(*rank, entry.stack);
                table.push(&[
                    Cell::from(&group.name),
                    problem.seq.into(),
                    rank_cell(*rank),
                    Cell::from(&entry.operation),
                    entry.state.name().into(),
                    Cell::from(&inputs),
                    Cell::from(&outputs),
                    Cell::from(&from),
                    Cell::from(&to),
                    entry.created_ns.into(),
                    place.as_deref().into(),
                ])?;
            }
        }
    }
    Ok(table)
}

/// Returns the groups for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn groups_narrow(job: &Job) -> Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::text("ranks"),
        Column::int("last").title("last call"),
        Column::text("problem"),
        Column::text("collective"),
        Column::text("who").title("waited for"),
    ];
    let mut table = Table::new("flight_groups", columns)?;
    for group in &job.groups {
        let problem = group.problem.as_ref();
        let (label, ranks) = (group.label(), ranks_text(&group.ranks));
        let what = problem.map(|problem| format!("{} {}", problem.operation, problem.seq));
        let who = problem.map(|problem| match (&group.mismatch, problem.kind) {
            (Some((_, _, ranks)), ProblemKind::Mismatch) => ranks_text(ranks),
            _ => ranks_text(problem.blamed()),
        });
        let last = group
            .last
            .values()
            .map(|last| last[0])
            .max()
            .filter(|last| *last > 0);
        table.push(&[
            Cell::from(&label),
            Cell::from(&ranks),
            last.into(),
            problem.map(|problem| problem.kind.name()).into(),
            what.as_deref().into(),
            who.as_deref().into(),
        ])?;
    }
    Ok(table)
}

/// Returns the ranks for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn ranks_narrow(job: &Job) -> Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::int("rank"),
        Column::int("called"),
        Column::int("begun"),
        Column::int("completed"),
        Column::text("last").title("last call"),
        Column::text("place").title("called in"),
    ];
    let mut table = Table::new("flight_ranks", columns)?;
    for group in job.groups.iter().filter(|group| group.problem.is_some()) {
        for (rank, last) in &group.last {
            let call = job.calls_of(group, *rank).next_back();
            let text = call.map(|call| format!("{} ({})", call.operation, call.state.name()));
            let place = call.and_then(|call| job.place(*rank, call.stack));
            table.push(&[
                Cell::from(&group.name),
                rank_cell(*rank),
                known(group, *rank, last[0]),
                known(group, *rank, last[1]),
                known(group, *rank, last[2]),
                text.as_deref().into(),
                place.as_deref().into(),
            ])?;
        }
    }
    Ok(table)
}
