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

/// A count or how many times as much, without decimals that say nothing: `4`, `2.366`.
pub(crate) fn times(ratio: f64) -> String {
    match (ratio - ratio.round()).abs() <= 5e-4 * ratio {
        true if ratio < 1e4 => format!("{:.0}", ratio.round()),
        _ => short(ratio),
    }
}

/// A quantity in words.
pub(crate) fn quantity(metric: &str) -> String {
    let words = match metric {
        "copy_to_device_us_per_call" => "time of a copy to the GPU",
        "copy_to_host_us_per_call" => "time of a copy from the GPU",
        "copy_on_device_us_per_call" => "time of a copy on the GPU",
        "run_queue_pct" => "waiting for a processor",
        "run_queue_us_per_call" => "time of a wait for a processor",
        "disk_us_per_call" => "time of a read or write",
        "memory_call_us_per_call" => "time of a memory call",
        "memory_call_pct" => "memory calls",
        "collective_transfer_us_per_call" => "time of a transfer",
        "collective_us" => "collectives",
        "collective_pct" => "collectives",
        "kernel_time_index" => "time of the kernels",
        "kernel_time_beyond_clock_pct" => "time of the kernels beyond what the clock explains",
        _ => return metric.replace('_', " "),
    };
    words.to_owned()
}

/// Columns that a name takes at most in a sentence.
const NAME: usize = 60;

/// A function's name without what a reader does not need first: return type, template arguments, parameters. Names that are
/// nothing but these stay as they are. The middle of what is still long is left out.
pub(crate) fn label(name: &str) -> String {
    let plain = name.trim();
    // `enumerate(DataLoader)#…` is a marked range and no signature.
    let is_host = plain.starts_with(['(', '<']) || plain.contains(".py") || plain.contains(")#");
    let short = display_names([plain].into_iter().filter(|_| !is_host));
    let shown = short.get(plain).filter(|short| short.len() >= 4);
    let text = report::text::printable(shown.map_or(plain, String::as_str));
    report::text::shorten(of_file(&text), NAME).into_owned()
}

/// A long name of a Python function with no more of its path than the file and its folder.
fn of_file(name: &str) -> &str {
    let path = match name.find(".py(") {
        Some(end) if name.len() > NAME => &name[..end],
        _ => return name,
    };
    let mut cuts = path.rmatch_indices('/').map(|(at, _)| at + 1);
    cuts.nth(1).map_or(name, |from| &name[from..])
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
    use super::{label, quantity, short, time, times};

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
        assert_eq!(
            label(
                "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(1820): get_next_batch"
            ),
            "managers/scheduler.py(1820): get_next_batch"
        );
        assert_eq!(label("_ZN1b8gelu_mulIiEEvPT_.kd"), "b::gelu_mul");
        let range = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        assert_eq!(label(range), range);
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
    fn ratios_and_quantities() {
        assert_eq!(
            [4.0, 2.366, 55.0, 141.333].map(times),
            ["4", "2.366", "55", "141.3"]
        );
        assert_eq!(quantity("gpu_sm_frequency"), "gpu sm frequency");
        assert_eq!(
            quantity("copy_to_device_us_per_call"),
            "time of a copy to the GPU"
        );
        let long = format!("bmm_{}_sm100f", "Bfloat16_".repeat(20));
        assert!(label(&long).chars().count() <= 60 && label(&long).ends_with("sm100f"));
    }

    #[test]
    fn four_digits() {
        let all = [0.0, 3500.4, 12.345, 6.0e10, 0.5, 1e-9].map(short);
        assert_eq!(all, ["0", "3500", "12.35", "6.000e10", "0.500", "1.000e-9"]);
    }
}
