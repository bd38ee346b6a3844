//! A flame graph, or the difference of two.

use std::io::Write;

use charts::Svg;
use charts::flame::{DiffFlameGraph, DiffWidth, FlameGraph, FlameOptions};
use report::Unit;

use crate::Report;

/// Writes the figure as a file of its own.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    writeln!(out, "{}", figure(report))?;
    Ok(())
}

/// Returns the figure; with several traces the rank is the outermost frame.
pub(crate) fn figure(report: &Report<'_>) -> Svg {
    let mut options = FlameOptions::default();
    options.title = format!("Launch stacks by {}", report.weight_title()).into();
    options.subtitle = report.kernels.clone().into();
    options.unit = if report.weighs_time() {
        Unit::Nanos
    } else {
        Unit::Count
    };
    if let ([first, second], true) = (report.traces, report.style.diff) {
        let mut graph = DiffFlameGraph::new(DiffWidth::Mean);
        for stack in &first.answer.groups {
            graph.add_first(report.frames(first, stack), report.weight(stack));
        }
        for stack in &second.answer.groups {
            graph.add_second(report.frames(second, stack), report.weight(stack));
        }
        return graph.draw(&options).svg;
    }
    let mut graph = FlameGraph::new();
    for trace in report.traces {
        let rank = format!("rank {}", trace.input.rank);
        let several = report.traces.len() > 1;
        for stack in &trace.answer.groups {
            let frames = report.frames(trace, stack);
            let outer = several.then_some(rank.as_str());
            graph.add(outer.into_iter().chain(frames), report.weight(stack));
        }
    }
    graph.draw(&options).svg
}
