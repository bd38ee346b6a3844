//! The answer as one page.

use charts::html::{Page, Section};
use charts::plot::{Axis, HeatMap};
use report::{Result, Unit};

use crate::answer::lines;
use crate::reduce::Fleet;
use crate::tables;
use crate::words::real;

/// Maximum size of a page.
const MAX_BYTES: usize = 2_000_000;

/// Number of ranks and of steps that the heat map shows one by one; more share a cell.
const CELLS: (usize, usize) = (256, 160);

/// Number of rows of a table.
const ROWS: usize = 60;

/// Returns the page: the answer, findings with the commands that show them, the heat map of lateness by rank and step, tables. It has at most
/// two million bytes: cells of the heat map are merged until it fits.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn html(fleet: &Fleet) -> Result<String> {
    let (mut rows, mut columns) = CELLS;
    loop {
        let page = write(fleet, rows, columns)?;
        if page.len() <= MAX_BYTES || rows <= 8 {
            return Ok(page);
        }
        (rows, columns) = (rows / 2, columns / 2);
    }
}

fn write(fleet: &Fleet, rows: usize, columns: usize) -> Result<String> {
    let mut page = Page::new("Ranks of a job").subtitle(fleet.answer.clone());
    let mut findings = Section::new("Findings");
    for (label, text) in lines(fleet) {
        findings = match label {
            "see" => findings.code(&text),
            "caution" | "recordings" => findings.warning(&text),
            label => findings.text(&format!("{label}: {text}")),
        };
    }
    page = page.section(findings);
    if let Some(section) = lateness(fleet, rows, columns) {
        page = page.section(section);
    }
    for table in tables::all(fleet)? {
        let (name, rows) = match table.name() {
            "ranks" => ("Ranks, those first for which others wait longest", ROWS),
            "factors" => ("Racks, hosts and devices", ROWS),
            "links" => ("Transfer times, slow ones first", ROWS),
            "kernels" => ("Kernels of all ranks", ROWS),
            "classes" => ("Classes of kernels", ROWS),
            "failures" => ("Recordings that cannot be read", ROWS),
            _ => continue,
        };
        if table.rows() > 0 {
            page = page.section(Section::new(name).table(&table, rows));
        }
    }
    Ok(page.to_html())
}

/// Returns the heat map of ranks and steps; `None` without steps. Ranks are numbered from below; a cell of several ranks and steps shows the
/// largest value, so that a single late rank stays visible.
fn lateness(fleet: &Fleet, rows: usize, columns: usize) -> Option<Section> {
    let ranks = fleet.steps.iter().map(|cell| cell.rank as usize);
    let steps = fleet
        .steps
        .iter()
        .filter_map(|cell| usize::try_from(cell.step).ok());
    let (last_rank, last_step) = (ranks.max()?, steps.max()?);
    let first_step = fleet
        .steps
        .iter()
        .filter_map(|cell| usize::try_from(cell.step).ok())
        .min()?;
    let (all_ranks, all_steps) = (last_rank + 1, last_step - first_step + 1);
    let (of_rank, of_step) = (all_ranks.div_ceil(rows), all_steps.div_ceil(columns));
    let (high, wide) = (all_ranks.div_ceil(of_rank), all_steps.div_ceil(of_step));
    let mut cells = vec![0.0_f64; high * wide];
    for cell in &fleet.steps {
        let step = usize::try_from(cell.step).ok()?.checked_sub(first_step)?;
        let at = cell.rank as usize / of_rank * wide + step / of_step;
        if let Some(slot) = cells.get_mut(at) {
            *slot = slot.max(real(cell.late_ns));
        }
    }
    let axis = |label: &'static str, from: usize, cells: usize, each: usize| {
        let ends = (
            crate::words::count(from),
            crate::words::count(from + cells * each),
        );
        Axis::new(label, Unit::Count).range(ends.0, ends.1)
    };
    let map = HeatMap::new(
        "Lateness by rank and step",
        axis("step", first_step, wide, of_step),
        axis("rank", 0, high, of_rank),
        wide,
        cells,
        Unit::Nanos,
    );
    let caption = format!(
        "Time by which a rank arrives behind the median rank, summed over the collectives of a step. Steps are numbered in \
         each recording. A cell is {} and {}, and shows the largest value.",
        crate::words::counted(of_rank, "rank", "ranks"),
        crate::words::counted(of_step, "step", "steps"),
    );
    Some(Section::new("Lateness").figure(&map.draw(), &caption))
}
