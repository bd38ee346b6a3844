//! Writes the report as a self-contained page with distributions and intervals.

use charts::html::{Page, Section};
use charts::plot::{Axis, LinePlot, Mark, RefLine, Series};
use perf_compare::Report;
use perf_compare::document::{CycleTime, Evidence, Finding, Statement};
use report::{Align, Cell, Column, Table, Unit};

/// Maximum number of rows of tables, and of lines in the figure of intervals.
const ROWS: usize = 40;
const LINES: usize = 12;
/// Width of figures in pixels, equal to that of the page.
const WIDTH: f64 = 1240.0;

pub(crate) fn html(report: &Report) -> String {
    let mut page = Page::new(format!("{}.", report.headline)).subtitle(format!(
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
    if let Some(open) = open(report) {
        page = page.section(open);
    }
    if !report.notes.is_empty() {
        page = page.section(Section::new("Notes").text(&report.notes.join("\n\n")));
    }
    page.to_html()
}

fn verdict(report: &Report) -> Section {
    let verdict = &report.verdict;
    let mut section = Section::new(format!("Cause: {}", verdict.cause)).text(&verdict.covers);
    for reason in &report.comparability.reasons {
        section = section.warning(&reason.text);
    }
    if let Some(table) = evidence(&verdict.evidence) {
        section = section.table(&table, ROWS);
    }
    if !verdict.not_judged.is_empty() {
        let causes: Vec<&str> = verdict
            .not_judged
            .iter()
            .map(|o| o.cause.as_str())
            .collect();
        section = section.text(&format!(
            "Not recorded, so neither shown nor ruled out: {}.",
            causes.join(", ")
        ));
    }
    section
}

/// Returns the other causes, and why they are excluded or open.
fn open(report: &Report) -> Option<Section> {
    let columns = vec![
        Column::text("cause"),
        Column::text("state"),
        Column::text("reason"),
    ];
    let mut table = Table::new("other causes", columns).ok()?;
    let out = report.verdict.ruled_out.iter().map(|o| (o, "ruled out"));
    let open = report.verdict.not_judged.iter().map(|o| (o, "open"));
    for (other, state) in out.chain(open) {
        let cells = [other.cause.clone(), state.to_owned(), other.why.clone()];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    (table.rows() > 0).then(|| Section::new("Other causes").table(&table, ROWS))
}

/// Returns a column of numbers with four digits.
fn number(name: &'static str) -> Column {
    Column::text(name).align(Align::Right)
}

/// Formats four significant digits.
fn four(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match size {
        _ if size >= 1000.0 || size <= 0.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 10.0 => 2,
        _ => 3,
    };
    if size < 1e-3 && size > 0.0 {
        return format!("{value:.1e}");
    }
    if size >= 1e7 {
        return format!("{value:.3e}");
    }
    format!("{value:.decimals$}")
}

/// Shortens a name to fit a column; its end distinguishes generated names.
fn fitted(name: &str) -> String {
    const FIRST: usize = 18;
    const LAST: usize = 28;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= FIRST + LAST + 1 {
        return name.to_owned();
    }
    let head: String = letters.iter().take(FIRST).collect();
    let tail: String = letters.iter().skip(letters.len() - LAST).collect();
    format!("{head}…{tail}")
}

fn evidence(rows: &[Evidence]) -> Option<Table> {
    let columns = vec![
        Column::text("metric"),
        Column::text("device"),
        number("baseline"),
        number("candidate"),
        number("change_pct"),
        Column::text("unit"),
    ];
    let mut table = Table::new("evidence", columns).ok()?;
    for row in rows {
        let change = row.change_pct.map_or("-".to_owned(), four);
        let cells = [
            row.metric.clone(),
            fitted(&row.device),
            four(row.baseline),
            four(row.candidate),
            change,
            row.unit.clone(),
        ];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    (!rows.is_empty()).then_some(table)
}

/// Returns mean and quantiles of both sides.
fn quantiles(time: &CycleTime) -> Option<Table> {
    let columns = vec![
        Column::text("cycle_time_us"),
        number("baseline"),
        number("candidate"),
        number("difference"),
        number("low"),
        number("high"),
    ];
    let mut table = Table::new("cycle time", columns).ok()?;
    let mean = &time.effect;
    let ends = mean.interval.unwrap_or([f64::NAN; 2]);
    let rows = [
        ("mean", [mean.baseline, mean.candidate], (mean.delta, ends)),
        ("p50", time.median_us, time.median_change_us),
        ("p95", time.p95_us, time.p95_change_us),
        ("p99", time.p99_us, time.p99_change_us),
    ];
    for (name, [a, b], (difference, [low, high])) in rows {
        let cells = [
            name.to_owned(),
            four(a),
            four(b),
            four(difference),
            four(low),
            four(high),
        ];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    Some(table)
}

/// Returns the cycle times in order of time, and their distributions.
fn cycles(time: &CycleTime) -> Section {
    let kind = match time.cycle_type.as_str() {
        "" => "cycles".to_owned(),
        _ => time.kind(),
    };
    let seconds = |us: f64| us / 1e6;
    let mut over_time = LinePlot::new(
        "Cycle time",
        Axis::new("cycle", Unit::Count),
        Axis::new("length", Unit::Seconds),
    );
    let mut shares = LinePlot::new(
        "Distribution of cycle time",
        Axis::new("length", Unit::Seconds),
        Axis::from_zero("cycles not longer", Unit::Pct),
    );
    over_time.width_px = WIDTH;
    shares.width_px = WIDTH;
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
    let mut section = Section::new(format!("Time of {kind}"));
    if let Some(table) = quantiles(time) {
        section = section.table(&table, ROWS);
    }
    section
        .figure(&over_time.draw(), "Every cycle in the order of time.")
        .figure(&shares.draw(), "Share of cycles up to each length.")
}

fn findings(report: &Report) -> Section {
    let shown: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|f| f.effect.interval.is_some() && f.verdict == Statement::Changed)
        .take(LINES)
        .collect();
    let mut plot = LinePlot::new(
        "Differences with 95 % intervals",
        Axis::new("candidate - baseline, in the unit of the row", Unit::None),
        Axis::new("row of the table below", Unit::Count),
    );
    plot.width_px = WIDTH;
    for (at, finding) in (1..).zip(&shown) {
        let Some([low, high]) = finding.effect.interval else {
            continue;
        };
        let y = f64::from(at);
        let name = format!("{} {}", finding.id, fitted(&finding.name));
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
            "Declared changes in rank order, with 95 % intervals.",
        );
    }
    if let Ok(mut table) = Table::new("findings", columns) {
        for f in &report.findings {
            let maybe = |value: Option<f64>| value.map_or("-".to_owned(), four);
            let verdict = match f.verdict {
                Statement::Changed => "changed",
                Statement::Equivalent => "equivalent",
                Statement::Small => "small",
                Statement::Insufficient => "insufficient",
                _ => "inconclusive",
            };
            let cells = [
                f.id.clone(),
                fitted(&f.name),
                match &f.rank {
                    Some(rank) => format!("{rank}, {}", f.device),
                    None => f.device.clone(),
                },
                verdict.to_owned(),
                four(f.effect.baseline),
                four(f.effect.candidate),
                four(f.effect.delta),
                maybe(f.effect.interval.map(|i| i[0])),
                maybe(f.effect.interval.map(|i| i[1])),
                maybe(f.q),
                f.unit.clone(),
            ];
            let _ = table.push(&cells.each_ref().map(Cell::from));
        }
        section = section.table(&table, ROWS);
    }
    section
}
