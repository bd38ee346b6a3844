//! The answer of a summary in one sentence: how busy the GPUs were, and with what.

use rocpd_db::{Filter, RocpdSet, Summary, SummaryRow, SummaryView};

use crate::Result;

/// The interval to which shares refer, the same for all agents.
const SPAN: &str = "from the first to the last activity of any agent";

/// Returns the sentence, with its line end.
///
/// # Errors
///
/// A database that cannot be read.
pub fn headline(set: &RocpdSet, filter: &Filter, summary: &Summary<'_>) -> Result<String> {
    let busy = rocpd_db::busy(set, filter)?;
    let mut gpus: Vec<_> = busy
        .iter()
        .filter(|row| row.kind == "GPU" && row.wall_ns > 0)
        .map(|row| (percent(row.busy_ns, row.wall_ns), row))
        .collect();
    gpus.sort_by(|a, b| a.0.total_cmp(&b.0));
    let kernels = summary.views.iter().find(|view| view.view == "kernels");
    // Durations below 0 are in the tables, as recorded. They are no time.
    let time_ns = |row: &SummaryRow| row.stat.total_ns - row.reversed_ns;
    let longest = kernels.map(|view| view.overall()).and_then(|rows| {
        let whole: i128 = rows.iter().map(time_ns).sum();
        let first = rows.iter().max_by(|a, b| {
            time_ns(a)
                .cmp(&time_ns(b))
                .then_with(|| b.name.cmp(&a.name))
        })?;
        (whole > 0).then(|| (first.clone(), percent_of(time_ns(first), whole)))
    });
    let reversed = kernels.map_or(0, SummaryView::reversed);
    let mut text = match (gpus.as_slice(), gpus.first()) {
        ([], _) | (_, None) => {
            "No GPU activity is recorded: record with rocprofv3 --kernel-trace --memory-copy-trace.\n"
                .to_owned()
        }
        ([(share, row)], _) => format!(
            "The GPU was busy {share:.1} % of {} {SPAN}",
            span(row.wall_ns)
        ),
        (all, Some((least, row))) => {
            let mean = all.iter().map(|(share, _)| share).sum::<f64>() / count(all.len());
            format!(
                "{} GPUs were busy {mean:.1} % of {} {SPAN} on average, the least agent {} of process {} on {}: {least:.1} %",
                all.len(),
                span(row.wall_ns),
                row.agent,
                row.process.pid,
                report::text::printable(&row.process.hostname)
            )
        }
    };
    if let Some((row, share)) = longest.filter(|_| !gpus.is_empty()) {
        let calls = row.stat.calls - row.reversed;
        text += &format!(
            "; most kernel time is in {} ({share:.1} %, {})",
            report::text::printable(&row.name),
            match row.replays {
                0 => format!("{calls} calls"),
                // A pass is no call of the program.
                replays => format!(
                    "{} calls, of which kernel replay made {calls} passes",
                    calls.saturating_sub(replays)
                ),
            }
        );
        text += &match reversed {
            0 => ".\n".to_owned(),
            1 => ", without a record that ends before it starts.\n".to_owned(),
            count => format!(", without {count} records that end before they start.\n"),
        };
    } else if !gpus.is_empty() {
        text += ".\n";
    }
    Ok(text)
}

#[expect(clippy::cast_precision_loss, reason = "a share is a ratio of reals")]
fn percent(part: i64, whole: i64) -> f64 {
    part as f64 * 100.0 / whole as f64
}

#[expect(clippy::cast_precision_loss, reason = "a share is a ratio of reals")]
fn percent_of(part: i128, whole: i128) -> f64 {
    part as f64 * 100.0 / whole as f64
}

#[expect(clippy::cast_precision_loss, reason = "agents are few")]
fn count(number: usize) -> f64 {
    number as f64
}

/// Formats a duration with its unit.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn span(ns: i64) -> String {
    report::human::duration(ns as f64)
}
