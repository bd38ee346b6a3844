//! The results as tables.

use critical_path::Group;
use report::{Cell, Column, Result, SchemaVersion, Table, Unit};

use crate::reduce::Fleet;

/// Version of the tables.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 2);

fn ns(name: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos)
}

fn joined(ranks: &[u32]) -> String {
    let texts: Vec<String> = ranks.iter().map(u32::to_string).collect();
    texts.join(",")
}

fn int(value: u64) -> Cell<'static> {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn size(value: usize) -> Cell<'static> {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Names of the tables of [`all`].
pub const NAMES: [&str; 9] = [
    "findings", "ranks", "factors", "links", "budgets", "steps", "kernels", "classes", "failures",
];

/// Returns all tables, each with its name.
///
/// # Errors
///
/// Returns an error if a row does not fit its columns.
pub fn all(fleet: &Fleet) -> Result<Vec<Table>> {
    Ok(vec![
        findings(fleet)?,
        ranks(fleet)?,
        factors(fleet)?,
        links(fleet)?,
        budgets(fleet)?,
        steps(fleet)?,
        kernels(fleet)?,
        classes(fleet)?,
        failures(fleet)?,
    ])
}

fn findings(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "findings",
        vec![
            Column::text("id"),
            Column::text("kind"),
            Column::text("strength"),
            Column::text("ranks"),
            Column::text("rack"),
            Column::text("host"),
            Column::text("group"),
            Column::text("kernel"),
            ns("cost_ns"),
            Column::real("share_pct").unit(Unit::Pct),
            Column::text("title"),
            Column::int("rank"),
            Column::text("file"),
            Column::int("begin_ns"),
            Column::int("end_ns"),
            Column::text("command"),
        ],
    )?;
    for finding in &fleet.findings {
        let ranks = joined(&finding.ranks);
        let window = finding.window.as_ref();
        table.push(&[
            Cell::from(&finding.id),
            Cell::from(finding.kind.name()),
            Cell::from(finding.strength.name()),
            Cell::from(&ranks),
            Cell::from(finding.rack.as_ref()),
            Cell::from(finding.host.as_ref()),
            Cell::from(finding.group.as_ref()),
            Cell::from(finding.kernel.as_ref()),
            Cell::from(finding.cost_ns),
            Cell::from(finding.share_pct),
            Cell::from(&finding.title),
            Cell::from(window.map(|window| i64::from(window.rank))),
            Cell::from(window.map(|window| &window.file)),
            Cell::from(window.map(|window| window.begin_ns)),
            Cell::from(window.map(|window| window.end_ns)),
            Cell::from(finding.command.as_ref()),
        ])?;
    }
    Ok(table)
}

fn ranks(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "ranks",
        vec![
            Column::int("rank"),
            Column::text("host"),
            Column::text("rack"),
            Column::text("devices"),
            Column::int("steps"),
            ns("step_median_ns"),
            ns("span_ns"),
            ns("busy_ns"),
            ns("comm_ns"),
            ns("exposed_comm_ns"),
            Column::int("part"),
            Column::int("collectives"),
            ns("waited_ns"),
            ns("inflicted_ns"),
            ns("inflicted_at_least_ns"),
            ns("avoidable_ns"),
            Column::real("delay_share_pct").unit(Unit::Pct),
            Column::int("times_last"),
            Column::real("kernel_time_ratio"),
            Column::int("kernels_compared"),
            ns("clock_ahead_ns"),
            ns("clock_error_ns"),
            Column::bool("complete"),
            Column::int("slices"),
            Column::int("kernels"),
            Column::int("dropped"),
            Column::int("lost"),
            Column::int("bytes"),
            Column::text("file"),
        ],
    )?;
    for row in &fleet.ranks {
        table.push(&[
            Cell::Int(row.rank.into()),
            Cell::from(row.host.as_ref()),
            Cell::from(row.rack.as_ref()),
            Cell::from(&row.devices),
            int(row.steps),
            Cell::from(row.step_median_ns),
            Cell::Int(row.span_ns),
            Cell::Int(row.busy_ns),
            Cell::Int(row.comm_ns),
            Cell::Int(row.exposed_comm_ns),
            row.part.map_or(Cell::Null, size),
            size(row.collectives),
            Cell::from(row.waited_ns),
            Cell::from(row.inflicted_ns),
            Cell::from(row.inflicted_at_least_ns),
            Cell::from(row.avoidable_ns),
            Cell::from(row.delay_share_pct),
            row.times_last.map_or(Cell::Null, size),
            Cell::from(row.kernel_time_ratio),
            size(row.kernels_compared),
            Cell::from(row.clock_ahead_ns),
            Cell::from(row.clock_error_ns),
            Cell::Bool(row.complete),
            int(row.slices),
            int(row.kernels),
            int(row.dropped),
            int(row.lost),
            int(row.bytes),
            Cell::from(&row.file),
        ])?;
    }
    Ok(table)
}

fn factors(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "factors",
        vec![
            Column::text("factor"),
            Column::text("value"),
            Column::int("ranks"),
            ns("delay_ns"),
            Column::real("share_pct").unit(Unit::Pct),
            Column::real("share_of_ranks_pct").unit(Unit::Pct),
            Column::real("chance"),
        ],
    )?;
    for row in &fleet.factors {
        let chance = Some(row.chance).filter(|chance| !chance.is_nan());
        table.push(&[
            Cell::from(&row.factor),
            Cell::from(&row.value),
            size(row.ranks),
            Cell::Int(row.delay_ns),
            Cell::Real(row.share_pct),
            Cell::Real(row.share_of_ranks_pct),
            Cell::from(chance),
        ])?;
    }
    Ok(table)
}

fn links(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "links",
        vec![
            Column::text("group"),
            Column::text("members"),
            Column::text("op"),
            Column::int("bytes").unit(Unit::Bytes),
            Column::int("ranks"),
            Column::int("collectives"),
            ns("transfer_ns"),
            ns("usual_ns"),
            Column::real("ratio"),
            Column::int("groups_compared"),
            Column::bool("is_slow"),
        ],
    )?;
    for row in &fleet.links {
        let members = joined(&row.members);
        table.push(&[
            Cell::from(&row.group),
            Cell::from(&members),
            Cell::from(&row.op),
            int(row.bytes),
            size(row.ranks),
            size(row.collectives),
            Cell::Int(row.transfer_ns),
            Cell::Int(row.usual_ns),
            Cell::Real(row.ratio),
            size(row.groups_compared),
            Cell::Bool(row.is_slow),
        ])?;
    }
    Ok(table)
}

/// Returns the columns of the groups of time.
fn groups() -> impl Iterator<Item = Column> {
    let names = Group::ALL.map(|group| format!("{}_ns", group.name()));
    let columns = names.map(|name| Column::int(name).unit(Unit::Nanos));
    columns.into_iter()
}

fn budgets(fleet: &Fleet) -> Result<Table> {
    let mut columns = vec![
        Column::int("rank"),
        Column::text("phase"),
        Column::int("steps"),
        ns("time_ns"),
        ns("median_ns"),
    ];
    columns.extend(groups());
    let mut table = Table::new("budgets", columns)?;
    for row in &fleet.budgets {
        let mut cells = vec![
            Cell::Int(row.rank.into()),
            Cell::from(&row.phase),
            int(row.steps),
            Cell::Int(row.time_ns),
            Cell::Int(row.median_ns),
        ];
        let of = Group::ALL.map(|group| row.groups.get(group.name()).copied().unwrap_or(0));
        cells.extend(of.map(Cell::Int));
        table.push(&cells)?;
    }
    Ok(table)
}

fn steps(fleet: &Fleet) -> Result<Table> {
    let mut columns = vec![
        Column::int("rank"),
        Column::int("step"),
        Column::text("phase"),
        Column::int("begin_ns"),
        ns("duration_ns"),
        ns("late_ns"),
    ];
    columns.extend(groups());
    let mut table = Table::new("steps", columns)?;
    for row in &fleet.steps {
        let mut cells = vec![
            Cell::Int(row.rank.into()),
            Cell::Int(row.step),
            Cell::from(&row.phase),
            Cell::Int(row.begin_ns),
            Cell::Int(row.duration_ns),
            Cell::Int(row.late_ns),
        ];
        cells.extend(row.groups.iter().map(|time| Cell::Int(*time)));
        table.push(&cells)?;
    }
    Ok(table)
}

fn kernels(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "kernels",
        vec![
            Column::text("name"),
            Column::text("shape"),
            Column::text("class"),
            Column::int("ranks"),
            Column::int("count"),
            ns("sum_ns"),
            ns("median_ns"),
            ns("p99_ns"),
        ],
    )?;
    for row in &fleet.kernels {
        table.push(&[
            Cell::from(&row.name),
            Cell::from(row.shape.as_ref()),
            Cell::from(&row.class),
            size(row.ranks),
            int(row.count),
            Cell::Int(row.sum_ns),
            Cell::Int(row.median_ns),
            Cell::Int(row.p99_ns),
        ])?;
    }
    Ok(table)
}

fn classes(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "classes",
        vec![
            Column::text("class"),
            Column::int("count"),
            ns("sum_ns"),
            ns("median_ns"),
            ns("p99_ns"),
        ],
    )?;
    for row in &fleet.classes {
        table.push(&[
            Cell::from(&row.class),
            int(row.count),
            Cell::Int(row.sum_ns),
            Cell::Int(row.median_ns),
            Cell::Int(row.p99_ns),
        ])?;
    }
    Ok(table)
}

fn failures(fleet: &Fleet) -> Result<Table> {
    let mut table = Table::new(
        "failures",
        vec![
            Column::int("rank"),
            Column::text("file"),
            Column::text("error"),
        ],
    )?;
    for row in &fleet.failures {
        table.push(&[
            Cell::from(row.rank.map(i64::from)),
            Cell::from(&row.file),
            Cell::from(&row.error),
        ])?;
    }
    Ok(table)
}

/// Returns the ranks that others wait for longest, in the columns that fit 80 columns of text.
///
/// # Errors
///
/// Returns an error if a row does not fit its columns.
pub fn latest(fleet: &Fleet, rows: usize) -> Result<Table> {
    let mut table = Table::new(
        "",
        vec![
            Column::int("rank"),
            Column::text("host"),
            ns("delay_ns").title("others wait"),
            Column::real("delay_share_pct")
                .unit(Unit::Pct)
                .title("of them"),
            Column::int("times_last").title("last"),
            ns("waited_ns").title("waits"),
            ns("step_median_ns").title("step"),
            Column::text("kernel_time").title("kernels"),
        ],
    )?;
    for row in fleet.ranks.iter().take(rows) {
        let ratio = row.kernel_time_ratio;
        let ratio = ratio.map(|ratio| format!("{}x", crate::words::factor(ratio)));
        table.push(&[
            Cell::Int(row.rank.into()),
            Cell::from(row.host.as_ref()),
            Cell::from(row.inflicted_ns),
            Cell::from(row.delay_share_pct),
            row.times_last.map_or(Cell::Null, size),
            Cell::from(row.waited_ns),
            Cell::from(row.step_median_ns),
            Cell::from(ratio.as_ref()),
        ])?;
    }
    Ok(table)
}
