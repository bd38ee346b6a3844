//! Writes `metrics.csv`: one row per region type.

use std::fmt::Write as _;

use memtrace_analyser::{Analysis, Semantics};
use memtrace_labeller::Records;

/// Columns of `metrics.csv`, in order.
pub const METRICS_COLUMNS: [&str; 11] = [
    "region_type",
    "n_regions",
    "retention_p50_s",
    "retention_p90_s",
    "retention_p99_s",
    "retention_mean_s",
    "write_once_ratio_mean",
    "reads_per_write_mean",
    "working_set_mb_total",
    "unique_pages_total",
    "suitability",
];

/// Returns the text of `metrics.csv`: commas, LF, shortest numbers that read back exactly. The
/// ratio is empty for a type without stores, and for samples, which show too few stores.
#[must_use]
pub fn metrics_csv(analysis: &Analysis) -> String {
    let mut out = METRICS_COLUMNS.join(",");
    out.push('\n');
    for kind in analysis.types.iter().filter(|kind| kind.n_regions > 0) {
        // First touches alone give no retention.
        let known = kind.has_accesses() || analysis.semantics == Semantics::Mrm;
        let time = |seconds| if known { real(seconds) } else { String::new() };
        let [p50, p90, p99, mean] = kind.retention_s.map(time);
        let ratio = kind.write_once().map(real).unwrap_or_default();
        // Allocations give no reads.
        let reads = match analysis.records {
            Records::Allocations => String::new(),
            _ => real(kind.reads_per_write_mean),
        };
        #[expect(clippy::cast_precision_loss, reason = "a size in MiB is a real")]
        let mib = (kind.total_pages * 4096) as f64 / 1_048_576.0;
        let _ = writeln!(
            out,
            "{},{},{p50},{p90},{p99},{mean},{ratio},{},{},{},{}",
            quoted(&kind.region_type),
            kind.n_regions,
            reads,
            real(mib),
            kind.total_pages,
            kind.suitability,
        );
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats a real as Python does: shortest text that reads back, exponent of two digits below 1e-4
/// and from 1e16.
fn real(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) && value.is_finite() {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        };
    }
    let text = format!("{value}");
    if text.contains('.') || !value.is_finite() {
        text
    } else {
        format!("{text}.0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_are_those_of_python() {
        for (value, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (3.915e-7, "3.915e-07"),
            (0.0001, "0.0001"),
            (0.00005, "5e-05"),
            (1e16, "1e+16"),
            (0.19999, "0.19999"),
        ] {
            assert_eq!(real(value), text);
        }
    }
}
