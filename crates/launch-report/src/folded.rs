//! Folded stacks: `root;...;leaf weight`, one line each.

use std::borrow::Cow;
use std::io::Write;

use crate::Report;

/// Writes the stacks of all traces; with several, the rank is the outermost frame.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    for trace in report.traces {
        for stack in &trace.answer.groups {
            let mut line = String::new();
            if report.traces.len() > 1 {
                line.push_str(&format!("rank {};", trace.input.rank));
            }
            let frames = report.frames(trace, stack);
            let frames: Vec<Cow<'_, str>> = frames.iter().map(|f| folded(f)).collect();
            line.push_str(&frames.join(";"));
            writeln!(out, "{line} {}", report.weight(stack))?;
        }
    }
    Ok(())
}

/// Returns a name without the characters that separate frames and stacks.
fn folded(name: &str) -> Cow<'_, str> {
    if name.contains([';', '\n', '\r']) {
        Cow::Owned(name.replace(';', ":").replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn separators_inside_names_are_replaced() {
        assert_eq!(super::folded("a;b\nc"), "a:b c");
    }
}
