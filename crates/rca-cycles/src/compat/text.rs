//! The report as the reference prints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::PerfRow;

const WIDTH: usize = 80;

const LEGEND: [&str; 5] = [
    "Report is filtered to prioritize functions with a time contribution (β) > 0.1%.",
    "β (Beta): The percentage of a function's total duration relative to the cycle's total duration. \
It measures time cost and is a key indicator for bottlenecks.",
    "μ (Mu): The average resource utilization during the function's execution, such as GPU SM or CPU \
utilization.",
    "σ (Sigma): The standard deviation of resource utilization, measuring its stability. A smaller value \
is better.",
    "I (Interpolation): Indicates how μ and σ were calculated. ' ' means real values, '*' means partially \
interpolated, and '**' means fully interpolated (less statistically significant).",
];

/// Shortened to `width` characters, three dots at the end.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width - 3).collect();
    head + "..."
}

/// Two decimals, with commas between thousands.
fn grouped(value: f64) -> String {
    let plain = format!("{value:.2}");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.as_str()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "00"));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out.push('.');
    out.push_str(part);
    out
}

fn centred(text: &str) -> String {
    let inner = format!(" {text} ");
    let room = WIDTH.saturating_sub(inner.chars().count());
    let left = room / 2;
    format!("{}{inner}{}", "=".repeat(left), "=".repeat(room - left))
}

pub(crate) fn report(title: &str, cycles: &[(usize, &[PerfRow])]) -> String {
    let mut out = String::new();
    if cycles.iter().all(|c| c.1.is_empty()) {
        return out;
    }
    let rule = "=".repeat(WIDTH);
    let _ = write!(out, "\n{rule}\n{}\n{rule}\n", centred(title));
    for (number, rows) in cycles {
        let Some(first) = rows.first() else {
            continue;
        };
        let _ = writeln!(
            out,
            "\n--- Cycle {number} Analysis (Anchor: {}, Duration: {} us) ---",
            first.anchor_name,
            grouped(first.anchor_dur_us)
        );
        let _ = writeln!(
            out,
            "  {:<45} | {:>8} | {:<20} | {:>8} | {:>15}",
            "Function Name", "PID", "Device@Host", "β (%)", "Total time (us)"
        );
        let _ = writeln!(out, "  {}", "-".repeat(110));
        table(&mut out, rows);
    }
    let _ = writeln!(out, "\n{rule}\nLegend:");
    for line in LEGEND {
        let _ = writeln!(out, "  - {line}");
    }
    let _ = writeln!(out, "{rule}");
    out
}

fn table(out: &mut String, rows: &[PerfRow]) {
    let mut functions: BTreeMap<(&str, i64, &str), Vec<&PerfRow>> = BTreeMap::new();
    for row in rows {
        functions
            .entry((&row.function_name, row.pid, &row.device))
            .or_default()
            .push(row);
    }
    let some_large = rows.iter().any(|r| r.beta_pct > 0.1);
    for ((name, pid, device), list) in functions {
        let Some(head) = list.first() else {
            continue;
        };
        if some_large && head.beta_pct <= 0.1 {
            continue;
        }
        let place = fit(&format!("{device}@{}", head.hostname), 20);
        let _ = writeln!(
            out,
            "  {:<45} | {pid:>8} | {place:<20} | {:>8.2} | {:>15}",
            fit(name, 45),
            head.beta_pct,
            grouped(head.duration_us)
        );
        if list.iter().all(|r| r.metric.is_none()) {
            continue;
        }
        let _ = writeln!(
            out,
            "    └ {:<40} | {:>8} | {:>8} | {:<3}",
            "Metric Name", "μ (%)", "σ (%)", "I"
        );
        for row in list {
            if let Some((metric, mu, sigma)) = row.metric {
                let _ = writeln!(
                    out,
                    "      {metric:<40} | {mu:>8.2} | {sigma:>8.2} | {:<3}",
                    row.interpolation
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        assert_eq!(grouped(1_234_567.891), "1,234,567.89");
        assert_eq!(grouped(999.0), "999.00");
        assert_eq!(grouped(-1000.0), "-1,000.00");
    }
}
