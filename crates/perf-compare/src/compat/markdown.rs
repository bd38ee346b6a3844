//! The Markdown report of one comparison.

use std::fmt::Write as _;

use super::measure::{Comparison, Line};

/// Lines above this score are findings.
const ISSUE: f64 = 10.0;
/// Shown functions, and metrics of each.
const SHOWN: usize = 3;

/// What the headings say.
pub(super) struct Heading<'a> {
    pub(super) title: String,
    pub(super) labels: [&'a str; 2],
}

/// The whole report.
pub(super) fn report(comparison: &Comparison, heading: &Heading<'_>) -> String {
    let mut out = format!("# {}\n\n", heading.title);
    out.push_str("## 1. High-Level Performance Summary\n\n");
    body(comparison, heading.labels, &mut out);
    out
}

/// The sections below the title of the first one.
pub(super) fn body(comparison: &Comparison, labels: [&str; 2], out: &mut String) {
    overview(comparison, labels, out);
    out.push_str("\n## 2. Cycle Duration Distribution Comparison\n\n");
    distribution(comparison, labels, out);
    out.push_str("\n## 3. In-depth Core Metric Comparison\n\n### Overview\n\n");
    let issues = comparison.lines.iter().filter(|line| line.score > ISSUE);
    let _ = writeln!(
        out,
        "{} combinations of function, metric and device, {} of them with a score above {ISSUE}.",
        comparison.lines.len(),
        issues.count()
    );
    out.push_str("\n### Key Findings\n\n");
    findings(comparison, labels, out);
    out.push_str("\n### Detailed Comparison Table\n\n");
    table(comparison, labels, out);
    out.push_str(
        "\n## 4. Legend\n\n\
- β: share of the cycle in percent, summed over threads and streams (so it may exceed 100).\n\
- μ: mean of the counter while the function ran; a coincidence, not a cause.\n\
- Z-Score: difference of means in units of the baseline's standard deviation.\n\
- p-value: Welch's t test; U-test p: Mann–Whitney test, both two-sided and not corrected for their number.\n\
- Suspicion Score: |Δβ| · (|Z(β)| + |Z(log μ)|).\n",
    );
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn overview(comparison: &Comparison, labels: [&str; 2], out: &mut String) {
    let [one, two] = &comparison.cycles_us;
    let _ = writeln!(
        out,
        "| Metric | {} | {} | Difference | Change |",
        labels[0], labels[1]
    );
    out.push_str("|---|---|---|---|---|\n");
    let mut row = |name: &str, a: f64, b: f64, decimals: usize| {
        let change = if a == 0.0 {
            f64::INFINITY
        } else {
            (b - a) / a * 100.0
        };
        let _ = writeln!(
            out,
            "| {name} | {a:.decimals$} | {b:.decimals$} | {:+.decimals$} | {change:+.2}% |",
            b - a
        );
    };
    row("Total Cycles", one.len() as f64, two.len() as f64, 0);
    row("Avg Cycle Time (us)", mean(one), mean(two), 2);
}

fn distribution(comparison: &Comparison, labels: [&str; 2], out: &mut String) {
    let [one, two] = &comparison.cycles_us;
    let _ = writeln!(
        out,
        "| Rank | {} (us) | {} (us) | Difference | Change |",
        labels[0], labels[1]
    );
    out.push_str("|---|---|---|---|---|\n");
    for at in 0..one.len().max(two.len()) {
        let show =
            |value: Option<&f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let (difference, change) = match (one.get(at), two.get(at)) {
            (Some(a), Some(b)) => (
                format!("{:+.2}", b - a),
                format!("{:+.2}%", (b - a) / a * 100.0),
            ),
            _ => ("-".to_owned(), "-".to_owned()),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {difference} | {change} |",
            at + 1,
            show(one.get(at)),
            show(two.get(at))
        );
    }
}

fn findings(comparison: &Comparison, labels: [&str; 2], out: &mut String) {
    let issues: Vec<&Line> = comparison
        .lines
        .iter()
        .filter(|line| line.score > ISSUE)
        .collect();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for line in &issues {
        let key = (line.function.as_str(), line.device.as_str());
        if seen.len() < SHOWN && !seen.contains(&key) {
            seen.push(key);
        }
    }
    if seen.is_empty() {
        out.push_str("There are no significant differences.\n");
    }
    for (function, device) in seen {
        let of = |line: &&&Line| line.function == function && line.device == device;
        let Some(first) = issues.iter().find(of) else {
            continue;
        };
        let word = if first.p_beta < 0.05 {
            "significant"
        } else {
            "not significant"
        };
        let _ = writeln!(
            out,
            "- `{function}` on {device}: β {:.2}% ({}) to {:.2}% ({}), Δβ {:+.2}%, p {:.3} ({word})",
            first.beta[0], labels[0], first.beta[1], labels[1], first.beta_change, first.p_beta
        );
        let moved = issues
            .iter()
            .filter(of)
            .filter(|line| line.mu_change.abs() > 1e-6);
        for line in moved.take(SHOWN) {
            let _ = writeln!(
                out,
                "  - {}: {} to {} ({})",
                line.metric,
                grouped(line.mu[0]),
                grouped(line.mu[1]),
                signed(line.mu_change)
            );
        }
    }
    if comparison
        .lines
        .iter()
        .any(|line| line.beta.iter().any(|beta| *beta > 100.0))
    {
        out.push_str("\nA share above 100% means that the function ran on several threads or streams at once.\n");
    }
}

fn table(comparison: &Comparison, labels: [&str; 2], out: &mut String) {
    let [one, two] = labels;
    let _ = writeln!(
        out,
        "| Function Name | Metric Name | Device | Suspicion Score | β_{one}(%) | β_{two}(%) | Δβ(%) | Z-Score(β) | p-value(β) | U-test p(β) | μ_{one} | μ_{two} | Δμ | Z-Score(μ) | Z-Score(log_μ) | p-value(μ) | U-test p(μ) |"
    );
    out.push_str(&format!("|{}\n", "---|".repeat(17)));
    let p = |value: f64| {
        if value.is_nan() {
            String::new()
        } else {
            format!("{value:.3}")
        }
    };
    for line in &comparison.lines {
        let z = |value: Option<f64>| format!("{:+.2}", value.unwrap_or(0.0));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.4} | {:.2} | {:.2} | {:+.2} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            line.function.replace('|', "\\|").replace('\n', " "),
            line.metric,
            line.device,
            line.score,
            line.beta[0],
            line.beta[1],
            line.beta_change,
            z(line.z_beta),
            p(line.p_beta),
            p(line.u_beta),
            grouped(line.mu[0]),
            grouped(line.mu[1]),
            signed(line.mu_change),
            z(line.z_mu),
            z(line.z_log_mu),
            p(line.p_mu),
            p(line.u_mu),
        );
    }
}

/// Two decimals and commas between thousands.
fn grouped(value: f64) -> String {
    let text = format!("{:.2}", value.abs());
    let (whole, part) = text.split_once('.').unwrap_or((&text, "00"));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{out}.{part}")
}

fn signed(value: f64) -> String {
    if value < 0.0 {
        grouped(value)
    } else {
        format!("+{}", grouped(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        assert_eq!(grouped(1_234_567.891), "1,234,567.89");
        assert_eq!(grouped(-123.0), "-123.00");
        assert_eq!(signed(1000.0), "+1,000.00");
    }
}
