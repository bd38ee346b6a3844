//! Markdown for tickets.

use std::fmt::Write as _;
use std::io::Write;

use report::TextOptions;

use crate::{Report, tables};

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let options = TextOptions {
        markdown: true,
        ..TextOptions::default()
    };
    let mut text = format!("# Launch stacks of `{}`\n\n", report.kernels);
    for trace in report.traces {
        let outcome = trace.answer.outcome.name();
        let _ = writeln!(
            text,
            "## Rank {}: `{}`\n\n{} distinct stacks ({outcome}).\n",
            trace.input.rank,
            trace.input.path,
            trace.answer.groups.len() + trace.answer.left_out,
        );
        for (i, stack) in trace.answer.groups.iter().enumerate() {
            let _ = writeln!(
                text,
                "### Stack {i}: {} launches\n\n```text",
                stack.group.count()
            );
            for frame in report.frames(trace, stack) {
                let _ = writeln!(text, "{}", report::text::printable(frame));
            }
            text.push_str("```\n\n");
        }
        if !report.style.compat {
            for (title, table) in tables::of_trace(report, trace)? {
                let _ = writeln!(text, "{title}\n\n{}", table.to_text(&options));
            }
        }
    }
    for (title, table) in tables::across_traces(report)? {
        let _ = writeln!(text, "{title}\n\n{}", table.to_text(&options));
    }
    out.write_all(text.as_bytes())?;
    Ok(())
}
