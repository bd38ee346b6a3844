//! The report as one self-contained page, with distributions and intervals drawn.

use charts::html::{Page, Section};
use charts::plot::{Axis, LinePlot, Mark, RefLine, Series};
use perf_compare::Report;
use perf_compare::document::{CycleTime, Evidence, Finding, Statement};
use report::{Cell, Column, RealFormat, Table, Unit};

/// Rows of tables, and lines of the figure of intervals.
const ROWS: usize = 40;
const LINES: usize = 20;

pub(crate) fn html(report: &Report) -> String {
    let mut page = Page::new("Two runs compared").subtitle(format!(
        "{} against {}",
        report.candidate.name, report.baseline.name
    ));
    page = page.section(verdict(report));
    for time in &report.cycle_time {
        page = page.section(cycles(time));
    }
    if !report.findings.is_empty() {
        page = page.section(findings(report));
    }
    if !report.notes.is_empty() {
        page = page.section(Section::new("Notes").text(&report.notes.join("\n\n")));
    }
    page.to_html()
}

fn verdict(report: &Report) -> Section {
    let verdict = &report.verdict;
    let mut section = Section::new(format!("Cause: {}", verdict.cause))
        .text(&verdict.summary)
        .text(&verdict.covers);
    for reason in &report.comparability.reasons {
        section = section.warning(&reason.text);
    }
    if let Some(table) = evidence(&verdict.evidence) {
        section = section.table(&table, ROWS);
    }
    let columns = vec![Column::text("cause"), Column::text("why_not")];
    if let Ok(mut table) = Table::new("ruled out", columns) {
        for out in &verdict.ruled_out {
            // Cells fit their columns, so a row cannot fail.
            let _ = table.push(&[Cell::from(&*out.cause), Cell::from(&*out.why)]);
        }
        section = section.table(&table, ROWS);
    }
    section
}

fn number(name: &'static str) -> Column {
    Column::real(name).reals(RealFormat::Significant15)
}

fn evidence(rows: &[Evidence]) -> Option<Table> {
    let columns = vec![
        Column::text("metric"),
        Column::text("device"),
        number("baseline"),
        number("candidate"),
        Column::text("unit"),
        Column::text("role"),
    ];
    let mut table = Table::new("evidence", columns).ok()?;
    for row in rows {
        let cells = [
            Cell::from(&*row.metric),
            Cell::from(&*row.device),
            Cell::from(row.baseline),
            Cell::from(row.candidate),
            Cell::from(&*row.unit),
            Cell::from(row.role),
        ];
        table.push(&cells).ok()?;
    }
    (!rows.is_empty()).then_some(table)
}

/// Cycle times in the order of time, and their distributions.
fn cycles(time: &CycleTime) -> Section {
    let kind = if time.cycle_type.is_empty() {
        "cycles"
    } else {
        &time.cycle_type
    };
    let seconds = |us: f64| us / 1e6;
    let mut over_time = LinePlot::new(
        "Cycle time",
        Axis::new("cycle", Unit::Count),
        Axis::from_zero("length", Unit::Seconds),
    );
    let mut shares = LinePlot::new(
        "Distribution of cycle time",
        Axis::new("length", Unit::Seconds),
        Axis::from_zero("cycles not longer", Unit::Pct),
    );
    for (side, name) in ["baseline", "candidate"].into_iter().enumerate() {
        let values = &time.cycles_us[side];
        let points = (1..)
            .zip(values)
            .map(|(at, us)| (f64::from(at), seconds(*us)))
            .collect();
        over_time.series.push(Series::new(name, Mark::Dots, points));
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let steps = (1..)
            .zip(&sorted)
            .map(|(at, us)| (seconds(*us), f64::from(at) / n * 100.0))
            .collect();
        shares.series.push(Series::new(name, Mark::Line, steps));
        over_time.ref_lines.push(RefLine::new(
            format!("median, {name}"),
            seconds(time.median_us[side]),
        ));
    }
    Section::new(format!("Time of {kind}"))
        .text(&format!(
            "Mean {:.0} µs in the baseline, {:.0} µs in the candidate; {}.",
            time.effect.baseline,
            time.effect.candidate,
            match time.effect.interval {
                Some([low, high]) => format!("the difference is {low:.0} to {high:.0} µs (95 %)"),
                None => "too few cycles for an interval".to_owned(),
            }
        ))
        .figure(&over_time.draw(), "Every cycle in the order of time.")
        .figure(&shares.draw(), "Share of cycles up to each length.")
}

fn findings(report: &Report) -> Section {
    let shown: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|f| f.effect.interval.is_some())
        .take(LINES)
        .collect();
    let mut plot = LinePlot::new(
        "Differences with 95 % intervals",
        Axis::new("candidate - baseline, in the unit of the row", Unit::None),
        Axis::new("row of the table below", Unit::Count),
    );
    for (at, finding) in (1..).zip(&shown) {
        let Some([low, high]) = finding.effect.interval else {
            continue;
        };
        let y = f64::from(at);
        let name = format!(
            "{} {}",
            finding.id,
            report::text::shorten(&finding.name, 24)
        );
        plot.series.push(Series::new(
            name,
            Mark::Line,
            vec![(low, y), (finding.effect.delta, y), (high, y)],
        ));
    }
    let columns = vec![
        Column::text("id"),
        Column::text("name"),
        Column::text("device"),
        Column::text("verdict"),
        number("baseline"),
        number("candidate"),
        number("delta"),
        number("low"),
        number("high"),
        number("q"),
        Column::text("unit"),
    ];
    let mut section = Section::new("Functions and metrics");
    if !shown.is_empty() {
        section = section.figure(
            &plot.draw(),
            "Rows in rank order; an interval without zero is a difference.",
        );
    }
    if let Ok(mut table) = Table::new("findings", columns) {
        for f in &report.findings {
            let maybe = |value: Option<f64>| value.map_or(Cell::Null, Cell::from);
            let verdict = match f.verdict {
                Statement::Changed => "changed",
                Statement::Equivalent => "equivalent",
                Statement::Insufficient => "insufficient",
                _ => "inconclusive",
            };
            let _ = table.push(&[
                Cell::from(&*f.id),
                Cell::from(&*f.name),
                Cell::from(&*f.device),
                Cell::from(verdict),
                Cell::from(f.effect.baseline),
                Cell::from(f.effect.candidate),
                Cell::from(f.effect.delta),
                maybe(f.effect.interval.map(|i| i[0])),
                maybe(f.effect.interval.map(|i| i[1])),
                maybe(f.q),
                Cell::from(&*f.unit),
            ]);
        }
        section = section.table(&table, ROWS);
    }
    section
}
