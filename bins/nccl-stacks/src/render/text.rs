//! Text for people: the documented form of the stacks, then what is known beyond it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

use launch_stacks::{Absence, KernelCount, Outcome};
use report::TextOptions;

use crate::render::{Answered, Report, tables};

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut text = String::new();
    for trace in report.traces {
        if report.traces.len() > 1 {
            let rank = trace.input.rank;
            let _ = writeln!(text, "\nRank {rank}: {}", shown(report, &trace.input.path));
        }
        one(report, trace, &mut text);
    }
    let options = TextOptions {
        width: Some(shell::terminal::width()),
        ..TextOptions::default()
    };
    for (title, table) in tables::across_traces(report)? {
        let _ = writeln!(text, "{title}\n\n{}", table.to_text(&options));
    }
    out.write_all(text.as_bytes())?;
    Ok(())
}

fn one(report: &Report<'_>, trace: &Answered, text: &mut String) {
    let answer = &trace.answer;
    if let Some(absence) = &answer.absence {
        nothing(report, absence, text);
    } else {
        let total = answer.groups.len() + answer.left_out;
        let noun = if total == 1 { "stack" } else { "stacks" };
        let _ = match answer.left_out {
            0 => writeln!(text, "\nFound {total} distinct {noun}:\n"),
            n => writeln!(
                text,
                "\nFound {total} distinct {noun}, {n} of them not shown:\n"
            ),
        };
        blocks(report, trace, text);
    }
    if report.cli.compat {
        return;
    }
    let options = TextOptions {
        width: Some(shell::terminal::width()),
        ..TextOptions::default()
    };
    // Tables of the same columns in every report cannot be rejected.
    for (title, table) in tables::of_trace(report, trace).unwrap_or_default() {
        let _ = writeln!(text, "{title}\n\n{}", table.to_text(&options));
    }
}

/// The stacks, one name a line.
fn blocks(report: &Report<'_>, trace: &Answered, text: &mut String) {
    for stack in &trace.answer.groups {
        let mut frames = report.frames(trace, stack);
        let between = if report.cli.report.is_leaf_first() {
            frames.reverse();
            " <-\n"
        } else {
            "\n ->\n"
        };
        for (i, frame) in frames.iter().enumerate() {
            if i > 0 {
                text.push_str(between);
            }
            text.push_str(&shown(report, frame));
        }
        let _ = writeln!(text, "\nAppeared {} times\n", stack.group.count());
    }
}

fn nothing(report: &Report<'_>, absence: &Absence, text: &mut String) {
    let wanted = shown(report, &report.kernels);
    let _ = writeln!(text, "\nNo launch stacks found for {wanted}.\n");
    match absence.outcome {
        Outcome::NoKernelsInWindow => text.push_str(
            "No kernel starts in the window at all. Work of the GPU runs later than its launch:\n\
             the kernels of these launches may lie after the window.\n\n",
        ),
        Outcome::KernelPresentButUntracked => text.push_str(
            "The kernel runs in the window, but nothing joins it to a launch there: it was probably\n\
             launched through a graph, whose kernels the recording does not track.\n\n",
        ),
        _ => {
            let names = absence.kernels.len();
            let _ = writeln!(
                text,
                "The kernel does not run in the window; kernels of {names} other names do.\n"
            );
            related(report, &absence.related, text);
        }
    }
}

fn related(report: &Report<'_>, related: &[KernelCount], text: &mut String) {
    if related.is_empty() {
        text.push_str("None of them sounds like a collective.\n\n");
        return;
    }
    let _ = writeln!(
        text,
        "Kernels that sound like collectives: {}",
        related.len()
    );
    let _ = writeln!(text, "{:<10} name", "count");
    let _ = writeln!(text, "{}", "-".repeat(100));
    for kernel in related {
        let _ = writeln!(text, "{:<10} {}", kernel.count, shown(report, &kernel.name));
    }
    text.push('\n');
}

/// Text as it is, or with `--escape` without control and non-ASCII characters.
pub(crate) fn shown<'s>(report: &Report<'_>, text: &'s str) -> Cow<'s, str> {
    let plain = |b: u8| (b' '..0x7f).contains(&b);
    if !report.cli.report.escape || text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for b in text.bytes() {
        if plain(b) {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "\\x{b:02X}");
        }
    }
    Cow::Owned(out)
}
