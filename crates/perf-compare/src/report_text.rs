//! Numbers for sentences.

/// Four significant digits, with an exponent where the number is long: for sentences and tables, not for exchange.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if !(1e-3..1e6).contains(&size) => format!("{value:.3e}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn four_digits() {
        let all = [0.0, 3500.4, 12.345, 6.0e10, 0.5, 1e-9].map(short);
        assert_eq!(all, ["0", "3500", "12.35", "6.000e10", "0.500", "1.000e-9"]);
    }
}
