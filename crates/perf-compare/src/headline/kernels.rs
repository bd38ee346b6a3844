//! Kernels in words: one, a class of them, all of a GPU.

use super::{added, changed, cycle, from_to, of};
use crate::document::{Change, Evidence, Report, SlowCalls, Statement};
use crate::report_text::{label, time};
use crate::verdict::{is_attention, is_matrix};

/// The ranks on which a kernel changed in the direction of the verdict; `None` unless there are several.
pub(super) fn ranks(report: &Report, name: &str) -> Option<String> {
    let better = report.verdict.direction == "better";
    let mut roles: Vec<usize> = report
        .findings
        .iter()
        .filter(|f| f.name == name && f.verdict == Statement::Changed)
        .filter(|f| (f.effect.delta < 0.0) == better)
        .filter_map(|f| f.role)
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.len() < 2 {
        return None;
    }
    if roles.len() == report.roles.len() {
        return Some(format!("all {} ranks", roles.len()));
    }
    let named = |role: &usize| report.roles.get(*role).map(|role| role.device(1));
    let shown: Vec<String> = roles.iter().filter_map(named).take(4).collect();
    let rest = roles.len() - shown.len();
    let more = if rest > 0 {
        format!(" and {rest} more ranks")
    } else {
        String::new()
    };
    Some(format!("{}{more}", shown.join(", ")))
}

pub(super) fn kernel(report: &Report) -> String {
    let word = |name: &str| {
        if is_attention(name) {
            "Attention kernel"
        } else if is_matrix(name) {
            "GEMM kernel"
        } else {
            "Kernel"
        }
    };
    if let Some(row) = of(report, "kernel_class_us") {
        return classes(report, row);
    }
    let finding = changed(report, &["kernel"]);
    if let Some(row) = of(report, "kernel_top_us_per_call") {
        let (place, name) = row.device.split_once(": ").unwrap_or(("", &row.device));
        let ratio = row.candidate / row.baseline;
        let same = finding.filter(|f| f.name == name);
        let on = match ranks(report, name) {
            Some(ranks) if !place.starts_with("all ") => format!(" on {ranks}"),
            _ if place.is_empty() => String::new(),
            _ => format!(" on {place}"),
        };
        let doubt = match is_attention(name) {
            true => lengths_unknown(report),
            false => "",
        };
        if let Some(calls) = few_calls(report, name) {
            return format!(
                "{} {}{on}: {calls}, {}{doubt}",
                word(name),
                label(name),
                added(report, same)
            );
        }
        return format!(
            "{} {}{on} {:.1} % {} per call ({}), {}{doubt}",
            word(name),
            label(name),
            (ratio - 1.0).abs() * 100.0,
            if ratio >= 1.0 { "slower" } else { "faster" },
            from_to(row.baseline, row.candidate),
            added(report, same),
        );
    }
    match finding {
        Some(f) => {
            let what = match f.change {
                Change::New => "is new",
                Change::Gone => "is gone",
                _ => "changed",
            };
            let gone = match f.change {
                Change::New => gone(report),
                _ => String::new(),
            };
            format!(
                "{} {} {what}{gone}, {}",
                word(&f.name),
                label(&f.name),
                added(report, Some(f))
            )
        }
        None => format!("Kernels changed, {}", added(report, None)),
    }
}

/// Which few calls of a kernel changed, if it is few of many.
fn few_calls(report: &Report, name: &str) -> Option<String> {
    let better = report.verdict.direction == "better";
    let own = report.findings.iter().filter(|f| {
        f.name == name && f.verdict == Statement::Changed && (f.effect.delta < 0.0) == better
    });
    own.filter_map(|f| f.slow_calls.as_ref())
        .map(SlowCalls::said)
        .next()
}

/// The kernel that is there no longer, if it is one: what a new one may be in place of.
fn gone(report: &Report) -> String {
    const MOST: f64 = 0.8;
    let gone = || {
        report.findings.iter().filter(|f| {
            f.class == "kernel" && f.change == Change::Gone && f.verdict == Statement::Changed
        })
    };
    let Some(most) = gone().max_by(|a, b| a.effect.baseline.total_cmp(&b.effect.baseline)) else {
        return String::new();
    };
    let of = |name: &str| {
        let own = gone().filter(|f| f.name == name);
        own.map(|f| f.effect.baseline).sum::<f64>()
    };
    let all: f64 = gone().map(|f| f.effect.baseline).sum();
    match of(&most.name) >= MOST * all {
        true => format!(
            " and {} is gone ({} per cycle before)",
            label(&most.name),
            time(most.effect.baseline)
        ),
        false => String::new(),
    }
}

/// Names in a list of a sentence: `a, b and c`.
fn listed(names: &str) -> String {
    match names.rsplit_once(", ") {
        Some((first, last)) => format!("{first} and {last}"),
        None => names.to_owned(),
    }
}

/// Kernels of one or several classes.
fn classes(report: &Report, row: &Evidence) -> String {
    let (place, names) = row.device.split_once(": ").unwrap_or(("", &row.device));
    let value = |metric: &str| {
        let mut rows = report.counters.iter();
        rows.find(|other| other.metric == metric && other.device == row.device)
    };
    let by = value("kernel_class_slower_pct").map_or(String::new(), |row| {
        format!(" by {:.1} %", row.candidate.abs())
    });
    let count = value("kernel_class_kernels").map_or(String::new(), |row| {
        format!("{:.0} kernels, ", row.candidate)
    });
    let (better, names) = (report.verdict.direction == "better", listed(names));
    let how = if better {
        "are faster than in the baseline"
    } else {
        "are slower"
    };
    // Counted backwards, the classes are those that were slower in the baseline.
    let by = if better { String::new() } else { by };
    let doubt = match names == "attention" {
        true => lengths_unknown(report),
        false => "",
    };
    format!(
        "All {names} kernels of {place} {how}{by} ({count}{} per cycle), the others take as long as before; {}{doubt}",
        from_to(row.baseline, row.candidate),
        cycle(report).unwrap_or_default(),
    )
}

/// Attention takes longer with longer sequences, too: what is said where steps do not tell how long they are.
fn lengths_unknown(report: &Report) -> &'static str {
    let is_length = |row: &Evidence| {
        let metric = row.metric.as_str();
        metric.starts_with("step_") && (metric.contains("context") || metric.contains("prompt"))
            || ["num_tokens", "avg_input_length", "compute_avg_input_length"].contains(&metric)
    };
    match report.counters.iter().any(is_length) {
        false => "; or longer sequences: lengths were not recorded",
        true => "",
    }
}

/// Returns `true` if attention is to blame, and longer sequences would look the same.
pub(super) fn may_be_lengths(report: &Report) -> bool {
    let row = of(report, "kernel_class_us").or_else(|| of(report, "kernel_top_us_per_call"));
    let name = row.and_then(|row| row.device.split_once(": "));
    let is_attention = name.is_some_and(|(_, name)| name == "attention" || is_attention(name));
    report.verdict.cause == "gpu_kernel" && is_attention && !lengths_unknown(report).is_empty()
}

/// The GPUs whose kernels changed about as much as those of the one that changed most.
pub(super) fn slow_gpus(report: &Report, most: &Evidence) -> String {
    let all = || {
        report
            .counters
            .iter()
            // The row of all GPUs is of none by itself.
            .filter(|row| row.metric == most.metric && !row.device.starts_with("all "))
    };
    let like = |row: &&Evidence| row.effect.abs() >= 0.5 * most.effect.abs();
    match (all().filter(like).count(), all().count()) {
        (like, all) if like > 1 && like == all => format!("all {all} GPUs"),
        (count, _) if count > 1 => {
            let first = all().find(like).unwrap_or(most);
            format!("{} and {} more GPUs", first.device, count - 1)
        }
        _ => most.device.clone(),
    }
}
