//! Numbers for sentences.

use trace_model::kernel::display_names;

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

/// A function's name without what a reader does not need first: return type, template arguments, parameters. Names that are
/// nothing but these stay as they are.
pub(crate) fn label(name: &str) -> String {
    let plain = name.trim();
    let is_host = plain.starts_with(['(', '<']) || plain.contains(".py");
    let short = display_names([plain].into_iter().filter(|_| !is_host));
    let shown = short.get(plain).filter(|short| short.len() >= 4);
    report::text::printable(shown.map_or(plain, String::as_str)).into_owned()
}

/// Microseconds in a readable unit, four digits.
pub(crate) fn time(us: f64) -> String {
    let size = us.abs();
    match size {
        _ if size >= 1e6 => format!("{} s", short(us / 1e6)),
        _ if size >= 1e3 => format!("{} ms", short(us / 1e3)),
        _ if size >= 1.0 || size <= 0.0 => format!("{} us", short(us)),
        _ => format!("{} ns", short(us * 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::{label, short, time};

    #[test]
    fn names_and_times() {
        assert_eq!(
            label("void paged_attention<0, bf16>(float*)"),
            "paged_attention"
        );
        assert_eq!(
            label("futures/_base.py(428): result"),
            "futures/_base.py(428): result"
        );
        assert_eq!(label("_ZN1b8gelu_mulIiEEvPT_.kd"), "b::gelu_mul");
        let one = format!("Cijk_Alik_Bljk_{}_MT128x256", "x_".repeat(40));
        let two = format!("Cijk_Alik_Bljk_{}_MT64x32", "x_".repeat(40));
        assert_ne!(label(&one), label(&two));
        assert!(label(&one).contains("MT128x256"), "{}", label(&one));
        assert_eq!(
            [0.5, 12.0, 9_800.0].map(time),
            ["500.0 ns", "12.00 us", "9.800 ms"]
        );
    }

    #[test]
    fn four_digits() {
        let all = [0.0, 3500.4, 12.345, 6.0e10, 0.5, 1e-9].map(short);
        assert_eq!(all, ["0", "3500", "12.35", "6.000e10", "0.500", "1.000e-9"]);
    }
}
