//! The results as tables. Files have the names of the columns, the page and text have their titles.

use critical_path::Group;
use report::{Cell, Column, Result, SchemaVersion, Table, Unit};

use crate::finding::Finding;
use crate::reduce::{
    BudgetRow, Cell as StepRow, ClassRow, FactorRow, Failure, Fleet, KernelRow, LinkRow, RankRow,
};

/// Version of the tables.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 3);

/// Tables of [`all`], each with the meaning of a row.
pub const TABLES: [(&str, &str); 9] = [
    (
        "findings",
        "One row for each finding, by descending cost; those without one, and then those about recordings, last.",
    ),
    (
        "ranks",
        "One row for each rank, those that others wait for longest first.",
    ),
    (
        "factors",
        "One row for each rack, host and device of the ranks that others wait for.",
    ),
    (
        "links",
        "One row for each group of ranks, operation and size of its collectives.",
    ),
    (
        "budgets",
        "One row for each rank and phase: where the time of its steps goes.",
    ),
    (
        "steps",
        "One row for each rank and step that its summary keeps.",
    ),
    (
        "kernels",
        "One row for each kernel and shape over all ranks, by descending time.",
    ),
    (
        "classes",
        "One row for each class of kernels over all ranks.",
    ),
    (
        "failures",
        "One row for each recording that could not be read.",
    ),
];

/// Returns all tables, each with its name.
///
/// # Errors
///
/// Returns an error if a row does not fit its columns.
pub fn all(fleet: &Fleet) -> Result<Vec<Table>> {
    Ok(vec![
        table("findings", &fleet.findings, findings())?,
        table("ranks", &fleet.ranks, ranks())?,
        table("factors", &fleet.factors, factors())?,
        table("links", &fleet.links, links())?,
        table("budgets", &fleet.budgets, budgets())?,
        table("steps", &fleet.steps, steps())?,
        table("kernels", &fleet.kernels, kernels())?,
        table("classes", &fleet.classes, classes())?,
        table("failures", &fleet.failures, failures())?,
    ])
}

/// A column, and its value in a row.
struct Field<R> {
    column: Column,
    value: Box<Value<R>>,
}

/// Returns a value of a row.
type Value<R> = dyn for<'r> Fn(&'r R) -> Shown<'r>;

/// A value that is part of its row, or a text that is made of it.
enum Shown<'r> {
    Cell(Cell<'r>),
    Made(String),
}

/// The columns of a table, in order.
struct Fields<R>(Vec<Field<R>>);

impl<R> Fields<R> {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn add(mut self, column: Column, value: impl for<'r> Fn(&'r R) -> Shown<'r> + 'static) -> Self {
        self.0.push(Field {
            column,
            value: Box::new(value),
        });
        self
    }
}

fn table<R>(name: &'static str, rows: &[R], Fields(fields): Fields<R>) -> Result<Table> {
    let columns = fields.iter().map(|field| field.column.clone());
    let mut table = Table::new(name, columns.collect())?;
    for row in rows {
        let shown: Vec<Shown<'_>> = fields.iter().map(|field| (field.value)(row)).collect();
        let cells = shown.iter().map(|shown| match shown {
            Shown::Cell(cell) => *cell,
            Shown::Made(text) => Cell::Text(text),
        });
        table.push(&cells.collect::<Vec<_>>())?;
    }
    Ok(table)
}

fn ns(name: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos)
}

fn pct(name: &'static str) -> Column {
    Column::real(name).unit(Unit::Pct)
}

/// Returns a value as it is.
fn cell<'r>(value: impl Into<Cell<'r>>) -> Shown<'r> {
    Shown::Cell(value.into())
}

/// Returns a count as a signed number.
fn int(value: impl TryInto<i64>) -> Shown<'static> {
    Shown::Cell(Cell::Int(value.try_into().unwrap_or(i64::MAX)))
}

/// Returns a count that may be unknown.
fn maybe(value: Option<impl TryInto<i64>>) -> Shown<'static> {
    value.map_or(Shown::Cell(Cell::Null), int)
}

fn joined(ranks: &[u32]) -> Shown<'static> {
    let texts: Vec<String> = ranks.iter().map(u32::to_string).collect();
    Shown::Made(texts.join(","))
}

fn findings() -> Fields<Finding> {
    Fields::<Finding>::new()
        .add(Column::text("id").title("finding"), |row| cell(&row.id))
        .add(Column::text("kind"), |row| cell(row.kind.name()))
        .add(Column::text("strength").title("certainty"), |row| {
            cell(row.strength.name())
        })
        .add(Column::text("ranks"), |row| joined(&row.ranks))
        .add(Column::text("rack"), |row| cell(row.rack.as_ref()))
        .add(Column::text("host"), |row| cell(row.host.as_ref()))
        .add(Column::text("group"), |row| cell(row.group.as_ref()))
        .add(Column::text("kernel"), |row| cell(row.kernel.as_ref()))
        .add(ns("cost_ns").title("cost"), |row| cell(row.cost_ns))
        .add(
            pct("share_pct").title("share of time in collectives"),
            |row| cell(row.share_pct),
        )
        .add(Column::text("title").title("what is found"), |row| {
            cell(&row.title)
        })
        .add(Column::int("rank").title("shown on rank"), |row| {
            maybe(row.window.as_ref().map(|w| w.rank))
        })
        .add(Column::text("file").title("recording"), |row| {
            cell(row.window.as_ref().map(|w| &w.file))
        })
        .add(Column::int("begin_ns").title("from (ns)"), |row| {
            cell(row.window.as_ref().map(|w| w.begin_ns))
        })
        .add(Column::int("end_ns").title("to (ns)"), |row| {
            cell(row.window.as_ref().map(|w| w.end_ns))
        })
        .add(Column::text("command"), |row| cell(row.command.as_ref()))
}

fn ranks() -> Fields<RankRow> {
    Fields::<RankRow>::new()
        .add(Column::int("rank"), |row| int(row.rank))
        .add(Column::text("host"), |row| cell(row.host.as_ref()))
        .add(Column::text("rack"), |row| cell(row.rack.as_ref()))
        .add(Column::text("devices"), |row| cell(&row.devices))
        .add(Column::int("steps"), |row| int(row.steps))
        .add(ns("step_median_ns").title("median step"), |row| {
            cell(row.step_median_ns)
        })
        .add(ns("span_ns").title("time span"), |row| cell(row.span_ns))
        .add(ns("busy_ns").title("GPU busy"), |row| cell(row.busy_ns))
        .add(ns("comm_ns").title("communication"), |row| {
            cell(row.comm_ns)
        })
        .add(
            ns("exposed_comm_ns").title("exposed communication"),
            |row| cell(row.exposed_comm_ns),
        )
        .add(Column::int("part").title("part of the job"), |row| {
            maybe(row.part)
        })
        .add(Column::int("collectives"), |row| int(row.collectives))
        .add(ns("waited_ns").title("waits for others"), |row| {
            cell(row.waited_ns)
        })
        .add(ns("inflicted_ns").title("others wait for it"), |row| {
            cell(row.inflicted_ns)
        })
        .add(
            ns("inflicted_at_least_ns").title("at least, of these"),
            |row| cell(row.inflicted_at_least_ns),
        )
        .add(ns("avoidable_ns").title("avoidable"), |row| {
            cell(row.avoidable_ns)
        })
        .add(
            ns("own_delay_ns").title("others would wait for it alone"),
            |row| cell(row.own_delay_ns),
        )
        .add(
            pct("delay_share_pct").title("share of others' time"),
            |row| cell(row.delay_share_pct),
        )
        .add(Column::int("times_last").title("times last"), |row| {
            maybe(row.times_last)
        })
        .add(
            Column::real("kernel_time_ratio").title("kernel time to median rank"),
            |row| cell(row.kernel_time_ratio),
        )
        .add(
            Column::int("kernels_compared").title("kernels compared"),
            |row| int(row.kernels_compared),
        )
        .add(ns("clock_ahead_ns").title("clock ahead"), |row| {
            cell(row.clock_ahead_ns)
        })
        .add(ns("clock_error_ns").title("± clock"), |row| {
            cell(row.clock_error_ns)
        })
        .add(Column::bool("complete"), |row| cell(row.complete))
        .add(Column::int("slices"), |row| int(row.slices))
        .add(Column::int("kernels"), |row| int(row.kernels))
        .add(Column::int("dropped").title("unusable events"), |row| {
            int(row.dropped)
        })
        .add(Column::int("lost").title("losses"), |row| int(row.lost))
        .add(Column::int("bytes"), |row| int(row.bytes))
        .add(Column::text("file").title("recording"), |row| {
            cell(&row.file)
        })
}

fn factors() -> Fields<FactorRow> {
    Fields::<FactorRow>::new()
        .add(Column::text("factor").title("what"), |row| {
            cell(&row.factor)
        })
        .add(Column::text("value").title("which"), |row| cell(&row.value))
        .add(Column::int("ranks"), |row| int(row.ranks))
        .add(ns("delay_ns").title("others wait for them"), |row| {
            cell(row.delay_ns)
        })
        .add(pct("share_pct").title("share of all delays"), |row| {
            cell(row.share_pct)
        })
        .add(
            pct("share_of_ranks_pct").title("share of the ranks"),
            |row| cell(row.share_of_ranks_pct),
        )
        .add(
            Column::real("chance").title("probability of chance"),
            |row| cell(Some(row.chance).filter(|chance| !chance.is_nan())),
        )
}

fn links() -> Fields<LinkRow> {
    Fields::<LinkRow>::new()
        .add(Column::text("group"), |row| cell(&row.group))
        .add(Column::text("members").title("ranks of the group"), |row| {
            joined(&row.members)
        })
        .add(Column::text("op").title("operation"), |row| cell(&row.op))
        .add(
            Column::int("bytes").unit(Unit::Bytes).title("message size"),
            |row| int(row.bytes),
        )
        .add(Column::int("ranks").title("number of ranks"), |row| {
            int(row.ranks)
        })
        .add(Column::int("collectives"), |row| int(row.collectives))
        .add(ns("transfer_ns").title("transfer time"), |row| {
            cell(row.transfer_ns)
        })
        .add(ns("usual_ns").title("other groups"), |row| {
            cell(row.usual_ns)
        })
        .add(Column::real("ratio").title("times the others"), |row| {
            cell(row.ratio)
        })
        .add(
            Column::int("groups_compared").title("groups compared"),
            |row| int(row.groups_compared),
        )
        .add(Column::bool("is_slow").title("slow"), |row| {
            cell(row.is_slow)
        })
}

/// Returns the column of a group of time.
fn of_group(group: Group) -> Column {
    let words = group.name().replace('_', " ");
    Column::int(format!("{}_ns", group.name()))
        .unit(Unit::Nanos)
        .title(words)
}

fn budgets() -> Fields<BudgetRow> {
    let fields = Fields::<BudgetRow>::new()
        .add(Column::int("rank"), |row| int(row.rank))
        .add(Column::text("phase"), |row| cell(&row.phase))
        .add(Column::int("steps"), |row| int(row.steps))
        .add(ns("time_ns").title("time"), |row| cell(row.time_ns))
        .add(ns("median_ns").title("median step"), |row| {
            cell(row.median_ns)
        });
    Group::ALL.into_iter().fold(fields, |fields, group| {
        fields.add(of_group(group), move |row| {
            cell(row.groups.get(group.name()).copied().unwrap_or(0))
        })
    })
}

fn steps() -> Fields<StepRow> {
    let fields = Fields::<StepRow>::new()
        .add(Column::int("rank"), |row| int(row.rank))
        .add(Column::int("step"), |row| cell(row.step))
        .add(Column::text("phase"), |row| cell(&row.phase))
        .add(Column::int("begin_ns").title("from (ns)"), |row| {
            cell(row.begin_ns)
        })
        .add(ns("duration_ns").title("step time"), |row| {
            cell(row.duration_ns)
        })
        .add(ns("late_ns").title("late"), |row| cell(row.late_ns));
    let groups = Group::ALL.into_iter().enumerate();
    groups.fold(fields, |fields, (at, group)| {
        fields.add(of_group(group), move |row| {
            cell(row.groups.get(at).copied())
        })
    })
}

fn kernels() -> Fields<KernelRow> {
    Fields::<KernelRow>::new()
        .add(Column::text("name").title("kernel"), |row| cell(&row.name))
        .add(Column::text("shape").title("input shapes"), |row| {
            cell(row.shape.as_ref())
        })
        .add(Column::text("class"), |row| cell(&row.class))
        .add(Column::int("ranks"), |row| int(row.ranks))
        .add(Column::int("count").title("runs"), |row| int(row.count))
        .add(ns("sum_ns").title("time"), |row| cell(row.sum_ns))
        .add(ns("median_ns").title("median"), |row| cell(row.median_ns))
        .add(ns("p99_ns").title("99th percentile"), |row| {
            cell(row.p99_ns)
        })
}

fn classes() -> Fields<ClassRow> {
    Fields::<ClassRow>::new()
        .add(Column::text("class"), |row| cell(&row.class))
        .add(Column::int("count").title("runs"), |row| int(row.count))
        .add(ns("sum_ns").title("time"), |row| cell(row.sum_ns))
        .add(ns("median_ns").title("median"), |row| cell(row.median_ns))
        .add(ns("p99_ns").title("99th percentile"), |row| {
            cell(row.p99_ns)
        })
}

fn failures() -> Fields<Failure> {
    Fields::<Failure>::new()
        .add(Column::int("rank"), |row| maybe(row.rank))
        .add(Column::text("file").title("recording"), |row| {
            cell(&row.file)
        })
        .add(Column::text("error").title("why"), |row| cell(&row.error))
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
            Cell::from(
                row.times_last
                    .map(|times| i64::try_from(times).unwrap_or(i64::MAX)),
            ),
            Cell::from(row.waited_ns),
            Cell::from(row.step_median_ns),
            Cell::from(ratio.as_ref()),
        ])?;
    }
    Ok(table)
}
