//! The CSV of one comparison.

use super::measure::{Comparison, Line};

/// The file's bytes: 17 columns, six decimals, LF.
pub(super) fn csv(comparison: &Comparison, labels: [&str; 2]) -> Vec<u8> {
    let [one, two] = labels;
    let lines = &comparison.lines;
    let mut out = String::new();
    if lines.is_empty() {
        // The tests add their columns to lines only.
        out.push_str(&format!(
            "Function Name,Metric Name,Device,Suspicion Score,β_{one}(%),β_{two}(%),Δβ(%),Z-Score(β),μ_{one},μ_{two},Δμ,Z-Score(μ),Z-Score(log_μ)\n"
        ));
        return out.into_bytes();
    }
    let header = [
        "Function Name".to_owned(),
        "Metric Name".to_owned(),
        "Device".to_owned(),
        "Suspicion Score".to_owned(),
        format!("β_{one}(%)"),
        format!("β_{two}(%)"),
        "Δβ(%)".to_owned(),
        "Z-Score(β)".to_owned(),
        "p-value(β)".to_owned(),
        "U-test p(β)".to_owned(),
        format!("μ_{one}"),
        format!("μ_{two}"),
        "Δμ".to_owned(),
        "Z-Score(μ)".to_owned(),
        "Z-Score(log_μ)".to_owned(),
        "p-value(μ)".to_owned(),
        "U-test p(μ)".to_owned(),
    ];
    let header: Vec<String> = header.iter().map(|name| quoted(name)).collect();
    out.push_str(&header.join(","));
    out.push('\n');
    let whole = |z: fn(&Line) -> Option<f64>| lines.iter().all(|line| z(line).is_none());
    let [whole_beta, whole_mu, whole_log] = [
        whole(|l| l.z_beta),
        whole(|l| l.z_mu),
        whole(|l| l.z_log_mu),
    ];
    let z = |value: Option<f64>, whole: bool| match (value, whole) {
        (_, true) => "0".to_owned(),
        (value, false) => real(value.unwrap_or(0.0)),
    };
    for line in lines {
        let fields = [
            quoted(&line.function),
            quoted(&line.metric),
            quoted(&line.device),
            real(line.score),
            real(line.beta[0]),
            real(line.beta[1]),
            real(line.beta_change),
            z(line.z_beta, whole_beta),
            real(line.p_beta),
            real(line.u_beta),
            real(line.mu[0]),
            real(line.mu[1]),
            real(line.mu_change),
            z(line.z_mu, whole_mu),
            z(line.z_log_mu, whole_log),
            real(line.p_mu),
            real(line.u_mu),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out.into_bytes()
}

/// `%.6f`; nothing for NaN.
fn real(value: f64) -> String {
    if value.is_nan() {
        String::new()
    } else {
        format!("{value:.6}")
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
