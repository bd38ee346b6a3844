//! How several devices or recordings differ, in words.

use rank_align::real::real;
use report::human;

use crate::tables::GpuRow;
use crate::{GpuTime, Part, percent};

/// Returns how busy each of several devices of one trace is, as a sentence. Devices without
/// activity in `parts` are idle all the time.
pub fn devices(parts: &[Part], count: usize, whole: &GpuTime) -> String {
    let mut shares: Vec<f64> = parts
        .iter()
        .filter_map(|part| percent(part.time.busy_ns, whole.span_ns))
        .collect();
    shares.resize(count.max(shares.len()), 0.0);
    shares.sort_by(f64::total_cmp);
    let end = |share: Option<&f64>| human::percent(share.copied().unwrap_or(0.0));
    let (least, most) = (end(shares.first()), end(shares.last()));
    let each = match least == most {
        true => least,
        false => format!("{least} to {most}"),
    };
    format!(
        "{count} GPUs in one trace: each is busy {each} of {}, at least one {} (--per-device for each).",
        human::duration(real(whole.span_ns)),
        human::percent(percent(whole.busy_ns, whole.span_ns).unwrap_or(0.0)),
    )
}

/// Returns how several traces differ, as a sentence; those without GPU activity are counted
/// separately.
pub fn traces(rows: &[GpuRow]) -> String {
    let all = rows.len();
    let rows: Vec<&GpuRow> = rows.iter().filter(|row| row.time.span_ns > 0).collect();
    let without = match all - rows.len() {
        0 => String::new(),
        n => format!(" ({n} more without GPU activity)"),
    };
    if rows.is_empty() {
        return format!(
            "Cannot say anything about the GPU: none of {all} traces has GPU activity."
        );
    }
    let range = |name: &str, f: fn(&GpuTime) -> i64| {
        let share = |row: &&GpuRow| percent(f(&row.time), row.time.span_ns).unwrap_or(0.0);
        let low = (rows.iter().copied()).min_by(|a, b| share(a).total_cmp(&share(b)));
        let high = (rows.iter().copied()).max_by(|a, b| share(a).total_cmp(&share(b)));
        let (Some(low), Some(high)) = (low, high) else {
            return String::new();
        };
        format!(
            "{name} {} ({}) to {} ({})",
            human::percent(share(&low)),
            low.of.trace,
            human::percent(share(&high)),
            high.of.trace
        )
    };
    format!(
        "{} trace{}{without}: {}, {}.",
        rows.len(),
        if rows.len() == 1 { "" } else { "s" },
        range("idle", |t| t.idle_ns),
        range("exposed communication", |t| t.exposed_comm_ns)
    )
}
