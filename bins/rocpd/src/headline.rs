//! One-sentence answer of `rocpd summary --extended`: how busy the GPUs were, and with what.

use rocpd_db::{Filter, RocpdSet, Summary};

use crate::console;

/// The interval to which shares refer, the same for all agents.
const SPAN: &str = "from the first to the last activity of any agent";

/// Prints the sentence.
pub(crate) fn print(set: &RocpdSet, filter: &Filter, summary: &Summary<'_>) -> anyhow::Result<()> {
    let busy = rocpd_db::busy(set, filter)?;
    let mut gpus: Vec<_> = busy
        .iter()
        .filter(|row| row.kind == "GPU" && row.wall_ns > 0)
        .map(|row| (percent(row.busy_ns, row.wall_ns), row))
        .collect();
    gpus.sort_by(|a, b| a.0.total_cmp(&b.0));
    let kernels = summary.views.iter().find(|view| view.view == "kernels");
    let longest = kernels.map(|view| view.overall()).and_then(|rows| {
        let whole: i128 = rows.iter().map(|row| row.stat.total_ns).sum();
        let first = rows.first()?;
        Some((first.clone(), first.stat.share_pct(whole)?))
    });
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
        text += &format!(
            "; most kernel time is in {} ({share:.1} %, {} calls).\n",
            report::text::printable(&row.name),
            row.stat.calls
        );
    } else if !gpus.is_empty() {
        text += ".\n";
    }
    console::print(&text)
}

#[expect(clippy::cast_precision_loss, reason = "a share is a ratio of reals")]
fn percent(part: i64, whole: i64) -> f64 {
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
