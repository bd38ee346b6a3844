//! Text output: the documented form of the stacks, then additional results.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

use launch_stacks::{Absence, Answer, KernelCount, Outcome};
use report::text::wrapped;
use report::{Table, TextOptions};

use crate::frame::readable;
use crate::{Answered, Calls, Report, tables};

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let mut text = String::new();
    // Results across ranks come before the single ranks.
    if !report.style.compat {
        for (title, table) in tables::across_traces(report)? {
            titled(report, &title, &table, &mut text);
        }
        merged_blocks(report, &mut text);
    }
    for trace in report.traces {
        if report.traces.len() > 1 {
            let rank = trace.input.rank;
            let _ = writeln!(text, "\nRank {rank}: {}", shown(report, &trace.input.path));
        }
        match report.style.compat {
            true => documented(report, trace, &mut text),
            false => one(report, trace, &mut text)?,
        }
    }
    if report.style.compat {
        for (title, table) in tables::across_traces(report)? {
            titled(report, &title, &table, &mut text);
        }
    }
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Number of columns of titles.
const TITLE_WIDTH: usize = 80;

/// Appends a table below its title.
fn titled(report: &Report<'_>, title: &str, table: &Table, text: &mut String) {
    let title = wrapped(title, TITLE_WIDTH).join("\n");
    let options = TextOptions {
        width: report.style.width,
        ..TextOptions::default()
    };
    let _ = writeln!(text, "{title}\n\n{}", table.to_text(&options));
}

/// Appends the number of stacks found.
fn header(trace: &Answered, text: &mut String) {
    let answer = &trace.answer;
    let total = answer.groups.len() + answer.left_out;
    let noun = if total == 1 { "stack" } else { "stacks" };
    let _ = match answer.left_out {
        0 => writeln!(text, "\nFound {total} distinct {noun}:\n"),
        n => writeln!(
            text,
            "\nFound {total} distinct {noun}, {n} of them not shown:\n"
        ),
    };
}

/// Appends the documented form: the stacks alone.
fn documented(report: &Report<'_>, trace: &Answered, text: &mut String) {
    if let Some(absence) = &trace.answer.absence {
        nothing(report, trace, absence, text);
    } else {
        header(trace, text);
        blocks(report, trace, text);
    }
}

/// Appends the costs of the stacks, then the stacks with their numbers in the table; with several
/// ranks only the tables, since the stacks of all ranks come first.
fn one(report: &Report<'_>, trace: &Answered, text: &mut String) -> report::Result<()> {
    let answer = &trace.answer;
    if let Some(absence) = &answer.absence {
        nothing(report, trace, absence, text);
    } else {
        header(trace, text);
        if let Some(most) = most_time(answer) {
            let _ = writeln!(text, "{most}");
        }
        whole_graphs(report, trace, text);
    }
    for (title, table) in tables::of_trace(report, trace)? {
        titled(report, &title, &table, text);
    }
    if let Some(advice) = tables::capture_advice(report, trace) {
        let _ = writeln!(text, "{advice}\n");
    }
    if report.ranks.is_none() {
        for (at, stack) in answer.groups.iter().enumerate() {
            let count = stack.group.count();
            let _ = writeln!(text, "#{at}  {}", launches(count));
            frames(report, &report.frames(trace, stack), text);
        }
    }
    Ok(())
}

fn launches(count: usize) -> String {
    let plural = if count == 1 { "" } else { "es" };
    format!("{} launch{plural}", report::human::count(count as u64))
}

/// Appends the stacks of all ranks, with their numbers in the table.
fn merged_blocks(report: &Report<'_>, text: &mut String) {
    let merged = report.ranks.iter().flat_map(|r| &r.merged);
    for (at, stack) in merged.enumerate() {
        let _ = writeln!(text, "#{at}  {} on all ranks", launches(stack.launches()));
        let all: Vec<&str> = stack.frames.iter().map(String::as_str).collect();
        frames(report, &all, text);
    }
}

/// Appends one frame per line, the outermost first unless requested otherwise.
fn frames(report: &Report<'_>, root_first: &[&str], text: &mut String) {
    let mut all = root_first.to_vec();
    if report.style.leaf_first {
        all.reverse();
    }
    for frame in all {
        let _ = writeln!(text, "    {}", shown(report, &readable(frame)));
    }
    text.push('\n');
}

/// Returns the shown stack with the most kernel time and its share of the time of all stacks, shown
/// or not, if times are known.
fn most_time(answer: &Answer) -> Option<String> {
    let times = answer
        .groups
        .iter()
        .map(|s| Some(s.measures.as_ref()?.gpu.total_ns));
    let times: Vec<i64> = times.collect::<Option<_>>()?;
    let all = match &answer.total {
        Some(total) => total.gpu.total_ns,
        None => times.iter().sum(),
    };
    let (at, most) = times
        .iter()
        .enumerate()
        .max_by_key(|(at, ns)| (**ns, std::cmp::Reverse(*at)))?;
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let (all, most) = (all as f64, *most as f64);
    (all > 0.0).then(|| {
        let share = report::human::quantity(100.0 * most / all, report::Unit::Pct);
        format!(
            "Most kernel time{}: #{at} with {share} of {}.\n",
            match answer.left_out {
                0 => "",
                _ => " of the stacks shown",
            },
            report::human::duration(all)
        )
    })
}

/// Appends the stacks in the documented form, one name per line.
fn blocks(report: &Report<'_>, trace: &Answered, text: &mut String) {
    for stack in &trace.answer.groups {
        let mut frames = report.frames(trace, stack);
        let between = if report.style.leaf_first {
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

fn nothing(report: &Report<'_>, trace: &Answered, absence: &Absence, text: &mut String) {
    let wanted = shown(report, &report.kernels);
    let _ = writeln!(text, "\nNo launch stacks found for {wanted}.\n");
    if let (Some(why), false) = (&trace.no_gpu_activity, report.style.compat) {
        let _ = writeln!(text, "{why}.\n");
        return;
    }
    whole_graphs(report, trace, text);
    match absence.outcome {
        Outcome::NoKernelsInWindow => text.push_str(
            "No kernel starts in the window. Kernels run after the calls that launch them: those of\n\
             these calls may start after the end of the window.\n\n",
        ),
        Outcome::KernelPresentButUntracked => {
            let why = match trace.calls {
                Calls { launches: 0, graphs: 0 } => {
                    "the recording holds no launch call at all; record\n\
                     the host's CUDA or HIP calls as well."
                }
                Calls { graphs: 0, .. } => {
                    "their launches lie outside the window or were\n\
                     not recorded."
                }
                Calls { .. } => {
                    "it was probably launched through a graph, whose\n\
                     kernels have the stacks of the capture: give its trace with --capture."
                }
            };
            let _ = writeln!(
                text,
                "The kernel runs in the window, but nothing joins it to a launch there:\n{why}\n"
            );
        }
        _ => {
            let names = absence.kernels.len();
            let _ = writeln!(
                text,
                "No such kernel in the window ({names} other kernel names found).\n"
            );
            match absence.related.is_empty() && trace.graphs_whole > 0 {
                true => text.push_str("None of the recorded names sounds like a collective.\n\n"),
                false => related(report, &absence.related, text),
            }
        }
    }
}

/// Appends that the kernels of graphs are not recorded, where that is so.
fn whole_graphs(report: &Report<'_>, trace: &Answered, text: &mut String) {
    let graphs = match trace.graphs_whole {
        0 => return,
        1 => "1 CUDA graph is".to_owned(),
        n => format!("{} CUDA graphs are", report::human::count(n)),
    };
    if !report.style.compat {
        let _ = writeln!(
            text,
            "{graphs} recorded as a whole: the kernels inside, collectives included, are not recorded.\n\
             Record with `nsys profile --cuda-graph-trace=node`.\n"
        );
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

/// Returns the text unchanged, or with `--escape` with escaped control and non-ASCII characters.
pub(crate) fn shown<'s>(report: &Report<'_>, text: &'s str) -> Cow<'s, str> {
    let plain = |b: u8| (b' '..0x7f).contains(&b);
    if !report.style.escape || text.bytes().all(plain) {
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
