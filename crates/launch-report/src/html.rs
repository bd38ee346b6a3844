//! A self-contained page.

use std::io::Write;

use charts::html::{Page, Section};

use crate::{Report, svg, tables};

/// Maximum number of rows of a table in the page.
const MOST_ROWS: usize = 200;

/// Writes the page.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let caption = format!("width: {}", report.weight_title());
    let figure = Section::new("Flame graph").figure(&svg::figure(report), &caption);
    let mut page = Page::new("Launch stacks")
        .subtitle(report.kernels.clone())
        .section(figure);
    for trace in report.traces {
        let heading = format!("Rank {}: {}", trace.input.rank, trace.input.path);
        let mut section = Section::new(heading).text(&format!(
            "{} distinct stacks ({}).",
            trace.answer.groups.len() + trace.answer.left_out,
            trace.answer.outcome.name()
        ));
        if !report.style.compat {
            for (title, table) in tables::of_trace(report, trace)? {
                section = section.text(&title).table(&table, MOST_ROWS);
            }
        }
        for (i, stack) in trace.answer.groups.iter().enumerate() {
            let count = stack.group.count();
            section = section
                .text(&format!("Stack {i}, {count} launches:"))
                .code(&report.frames(trace, stack).join("\n"));
        }
        page = page.section(section);
    }
    for (title, table) in tables::across_traces(report)? {
        let heading = title.trim_end_matches(':').to_owned();
        page = page.section(Section::new(heading).table(&table, MOST_ROWS));
    }
    out.write_all(page.to_html().as_bytes())?;
    Ok(())
}
