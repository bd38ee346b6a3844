//! More work in words: more calls, more copies, more bytes.

use super::kernels::ranks;
use super::{added, all_changed, of};
use crate::document::{Change, Finding, Report};
use crate::report_text::{label, short, times};
use crate::side::is_wait;

/// Bytes with a binary prefix.
fn bytes(value: f64) -> String {
    let (mut scaled, mut unit) = (value, "B");
    for larger in ["KiB", "MiB", "GiB"] {
        if scaled.abs() < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, larger);
    }
    format!("{} {unit}", short(scaled))
}

/// Blocks that are moved between host and GPU, with the function of the host that is new with them.
pub(super) fn swaps(report: &Report) -> Option<String> {
    of(report, "copies_both_ways_pct")?;
    let row = |metric: &str| of(report, metric);
    let size = |metric: &str| row(metric).map_or(0.0, |row| row.effect.abs());
    let what = match report.verdict.direction {
        "better" => "Blocks are no longer moved from the GPU to the host and back",
        _ => "Blocks are moved from the GPU to the host and back",
    };
    let takes = row("copy_us").map_or(String::new(), |row| {
        format!(
            ", copies take {}",
            super::from_to(row.baseline, row.candidate)
        )
    });
    let wanted = match report.verdict.direction {
        "better" => Change::Gone,
        _ => Change::New,
    };
    let new = all_changed(report, &["host"]).find(|f| f.change == wanted && !is_wait(&f.name));
    let new = new.map_or(String::new(), |f| {
        let word = if wanted == Change::New { "new" } else { "gone" };
        format!(", host function {} is {word}", label(&f.name))
    });
    Some(format!(
        "{what}: {} out and {} in more per cycle{}{takes}{new}{}, {}",
        bytes(size("copy_to_host_bytes")),
        bytes(size("copy_to_device_bytes")),
        of_all(report),
        in_some(report),
        added(report, None)
    ))
}

/// Says that copies are counted over all ranks. Their times are those of the rank that copies longest.
fn of_all(report: &Report) -> String {
    match report.roles.len() {
        0 | 1 => String::new(),
        n => format!(" of all {n} ranks together"),
    }
}

/// In how many cycles more is copied, where the evidence is that of slow cycles alone.
fn in_some(report: &Report) -> String {
    let mut paused = report.cycle_time.iter().filter_map(|t| t.pauses.as_ref());
    let slow = paused.find(|pauses| pauses.established && pauses.more_in_candidate);
    slow.filter(|_| report.verdict.in_slow_cycles)
        .map_or(String::new(), |pauses| {
            let every = pauses
                .every
                .map_or(String::new(), |n| format!(", one every {n} cycles"));
            format!(
                ", in {} of {} cycles{every} ({} of {} in the baseline)",
                pauses.cycles[1], pauses.of[1], pauses.cycles[0], pauses.of[0]
            )
        })
}

/// Whether the time of a function changed because it is called more or less often: how many times as often.
pub(crate) fn called(finding: &Finding) -> Option<f64> {
    let (calls, total) = (finding.calls_ratio?, finding.effect.ratio?);
    let (calls_log, total_log) = (calls.ln(), total.ln());
    let is_cause = calls_log * total_log > 0.0 && calls_log.abs() >= 0.5 * total_log.abs();
    (is_cause && calls_log.abs() >= 1.1_f64.ln()).then_some(calls)
}

/// `slower`, `faster`, or how many times as often it is called.
pub(super) fn how(finding: &Finding) -> String {
    match called(finding) {
        _ if finding.change == Change::New => "new".to_owned(),
        _ if finding.change == Change::Gone => "gone".to_owned(),
        Some(ratio) => format!("called {} times as often", times(ratio)),
        None if finding.effect.delta > 0.0 => "slower".to_owned(),
        None => "faster".to_owned(),
    }
}

/// Kernels that are called more often, or more copies, or more bytes in them.
pub(super) fn more_work(report: &Report) -> Option<String> {
    if let Some(row) = of(report, "kernel_top_calls") {
        let (place, name) = row.device.split_once(": ").unwrap_or(("", &row.device));
        let on = match ranks(report, name) {
            Some(ranks) => format!(" on {ranks}"),
            None if place.is_empty() => String::new(),
            None => format!(" on {place}"),
        };
        return Some(format!(
            "Kernel {}{on} is called {} times as often ({} -> {} per cycle), {}",
            label(name),
            times(row.candidate / row.baseline),
            times(row.baseline),
            times(row.candidate),
            added(report, None)
        ));
    }
    if let Some(row) = of(report, "copies_on_device") {
        let what = match row.baseline > 0.0 {
            true => format!(
                "{} times as many copies within the GPU ({} -> {} per cycle{})",
                times(row.candidate / row.baseline),
                times(row.baseline),
                times(row.candidate),
                of_all(report)
            ),
            false => format!(
                "New copies within the GPU ({} per cycle{})",
                times(row.candidate),
                of_all(report)
            ),
        };
        let takes = of(report, "copy_on_device_us").map_or(String::new(), |row| {
            format!(", {}", super::from_to(row.baseline, row.candidate))
        });
        return Some(format!("{what}{takes}, {}", added(report, None)));
    }
    of(report, "copy_us")?;
    let directions = [("to_device", "to the GPU"), ("to_host", "from the GPU")];
    let (calls, size, direction) = directions.into_iter().find_map(|(key, words)| {
        let calls = of(report, &format!("copies_{key}"));
        let size = of(report, &format!("copy_{key}_bytes"));
        (calls.is_some() || size.is_some()).then_some((calls, size, words))
    })?;
    let mut said: Vec<String> = Vec::new();
    if let Some(row) = calls {
        said.push(match row.baseline > 0.0 {
            true => format!(
                "{} times as many copies {direction} ({} -> {} per cycle{})",
                times(row.candidate / row.baseline),
                times(row.baseline),
                times(row.candidate),
                of_all(report)
            ),
            false => format!(
                "New copies {direction} ({} per cycle{})",
                times(row.candidate),
                of_all(report)
            ),
        });
    }
    if let Some(row) = size {
        let times = times(row.candidate / row.baseline);
        let amounts = format!("{} -> {}", bytes(row.baseline), bytes(row.candidate));
        said.push(match calls {
            _ if row.baseline <= 0.0 => bytes(row.candidate),
            Some(_) => format!("{times} times as many bytes ({amounts})"),
            None => format!("{times} times as many bytes copied {direction} ({amounts} per cycle)"),
        });
    }
    Some(format!(
        "{}{}, {}",
        said.join(", "),
        in_some(report),
        added(report, None)
    ))
}
