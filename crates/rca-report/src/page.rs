//! Writes recordings as a self-contained page: the answer, every step, where its time goes.

use charts::html::{Page, Section};
use charts::plot::{Axis, LinePlot, Mark, Series};
use critical_path::Group;
use rca_cycles::{Analysis, Function, Phase, StepPaths, bottlenecks};
use report::{Align, Cell, Column, Table, Unit};

use crate::bound;
use crate::document::{blame, sums};
use crate::text::{Names, kernel_names, shown_name, time};

/// Maximum number of rows of a table.
const ROWS: usize = 40;
/// Width of figures in pixels, equal to that of the page.
const WIDTH: f64 = 1240.0;

/// Returns the page of all recordings; the first answer is its title.
#[must_use]
pub fn html(jobs: Vec<Vec<Section>>, answer: String) -> String {
    let several = match jobs.len() {
        1 => "one recording".to_owned(),
        n => format!("{n} recordings"),
    };
    let page = Page::new(answer).subtitle(several);
    let all = jobs.into_iter().flatten();
    all.fold(page, Page::section).to_html()
}

/// Returns the sections of a recording.
#[must_use]
pub fn sections(job: &str, analysis: &Analysis, paths: &StepPaths) -> Vec<Section> {
    let found = bottlenecks(analysis, paths);
    let mut first = Section::new(job.to_owned());
    for b in &found {
        first = first.text(&bound::sentences(Names::Whole, analysis, b).join(" "));
    }
    if let Some(table) = budgets(&found) {
        first = first.table(&table, ROWS);
    }
    let mut all = vec![first.figure(
        &lengths(analysis),
        "Every whole step in the order of time, by phase.",
    )];
    let (kernels, host): (Vec<_>, Vec<_>) = blame(analysis)
        .into_iter()
        .partition(|f| f.kind.is_device());
    for (title, list) in [
        ("GPU time by kernel", kernels),
        ("Own time of host functions", host),
    ] {
        if let Some(table) = costs(analysis, &list) {
            all.push(Section::new(format!("{job}: {title}")).table(&table, ROWS));
        }
    }
    if let Some(table) = few(analysis) {
        all.push(Section::new(format!("{job}: slow in a few cycles only")).table(&table, ROWS));
    }
    all
}

/// Returns the first answer of a recording.
#[must_use]
pub fn answer(analysis: &Analysis, paths: &StepPaths) -> Option<String> {
    let found = bottlenecks(analysis, paths);
    let most = found.iter().max_by_key(|b| b.steps)?;
    bound::sentences(Names::Whole, analysis, most)
        .into_iter()
        .next()
}

fn number(name: &'static str) -> Column {
    Column::text(name).align(Align::Right)
}

/// Returns the parts of a step by phase, in percent.
fn budgets(found: &[rca_cycles::Bottleneck]) -> Option<Table> {
    let columns = vec![
        Column::text("phase"),
        number("steps"),
        number("p50"),
        number("p95"),
        number("p99"),
        Column::text("budget"),
    ];
    let mut table = Table::new("budgets", columns).ok()?;
    for b in found {
        let total = b.budget.total().max(1);
        #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
        let share = |ns: i64| report::human::percent(ns as f64 / total as f64 * 100.0);
        let parts = Group::ALL.iter().filter(|group| b.budget.of(**group) > 0);
        let parts: Vec<String> = parts
            .map(|group| format!("{} {}", group.words(), share(b.budget.of(*group))))
            .collect();
        let [p50, p95, p99] = b.step_ns.map(time);
        let cells = [
            b.phase.name().to_owned(),
            b.steps.to_string(),
            p50,
            p95,
            p99,
            parts.join(", "),
        ];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    (!found.is_empty()).then_some(table)
}

/// Draws the length of each whole cycle.
fn lengths(analysis: &Analysis) -> charts::Svg {
    let mut plot = LinePlot::new(
        "Length of cycles",
        Axis::new("cycle", Unit::Count),
        Axis::new("length", Unit::Seconds),
    );
    plot.width_px = WIDTH;
    for phase in [Phase::Prefill, Phase::Mixed, Phase::Decode, Phase::Unknown] {
        let of_phase = analysis.cycles.iter().enumerate();
        let of_phase = of_phase.filter(|(_, c)| c.phase == phase && c.partial.is_none());
        #[expect(clippy::cast_precision_loss, reason = "drawn")]
        let points: Vec<(f64, f64)> = of_phase
            .map(|(at, c)| ((at + 1) as f64, c.length_ns() as f64 / 1e9))
            .collect();
        if !points.is_empty() {
            plot.series
                .push(Series::new(phase.name(), Mark::Dots, points));
        }
    }
    plot.draw()
}

/// Returns functions with their own time and calls in all whole cycles.
fn costs(analysis: &Analysis, list: &[&Function]) -> Option<Table> {
    let columns = vec![
        Column::text("name"),
        Column::text("kind"),
        number("own_time"),
        number("calls"),
    ];
    let short = kernel_names(analysis);
    let mut table = Table::new("costs", columns).ok()?;
    for f in list {
        let (own, _, calls, _, _) = sums(analysis, f);
        let cells = [
            shown_name(&short, f).to_owned(),
            f.kind.name().to_owned(),
            time(own),
            calls.to_string(),
        ];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    (!list.is_empty()).then_some(table)
}

/// Returns the functions that are slow in a few cycles only.
fn few(analysis: &Analysis) -> Option<Table> {
    let columns = vec![
        Column::text("name"),
        number("excess"),
        Column::text("phase"),
        Column::text("cycles"),
    ];
    let short = kernel_names(analysis);
    let mut table = Table::new("slow cycles", columns).ok()?;
    for i in &analysis.interference {
        let cycles: Vec<String> = i.cycles.iter().map(|c| (c + 1).to_string()).collect();
        let cells = [
            shown_name(&short, &analysis.functions[i.function]).to_owned(),
            time(i.excess_ns),
            i.phase.name().to_owned(),
            cycles.join(", "),
        ];
        table.push(&cells.each_ref().map(Cell::from)).ok()?;
    }
    (!analysis.interference.is_empty()).then_some(table)
}
