//! Which way a quantity is better, by its unit and name.

/// Which way a quantity is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Times, errors, and everything that is not known: a cost.
    Less,
    /// Rates of work done, and shares of it that pay.
    More,
    /// Settings and states, such as clocks, power and load: they explain a change and are none for the worse.
    Neither,
}

/// Parts of names of times, whatever else a name has.
const TIMES: &[&str] = &[
    "latency", "duration", "delay", "ttft", "tpot", "itl", "e2el",
];

/// Parts of names of what is better when there is more of it.
const MORE: &[&str] = &[
    "throughput",
    "per_second",
    "per_sec",
    "goodput",
    "mfu",
    "mbu",
    "acceptance",
    "accepted",
    "hit_rate",
    "hit_ratio",
    "speedup",
    "efficiency",
    "attainment",
];

/// Parts of names of settings and states.
const NEITHER: &[&str] = &[
    "frequency",
    "clock",
    "freq_",
    "_freq",
    "power",
    "temperature",
    "util",
    "usage",
    "occupancy",
    "voltage",
    "batch_size",
    "concurrency",
    "running",
];

/// Units of settings and states.
const NEITHER_UNITS: &[&str] = &[
    "hz", "khz", "mhz", "ghz", "w", "mw", "v", "mv", "c", "°c", "rpm",
];

/// Endings of names that state a unit of time.
const TIME_ENDINGS: &[&str] = &["_ns", "_us", "_ms", "_s", "_sec", "_seconds"];

/// Returns which way a quantity is better.
pub(crate) fn better(metric: &str, unit: &str) -> Better {
    let (metric, unit) = (metric.to_ascii_lowercase(), unit.trim().to_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| metric.contains(word));
    if unit.contains("/s") || unit.contains("per_s") || metric.ends_with("_per_s") {
        return Better::More;
    }
    let is_time = crate::side::unit_to_us(&unit).is_some() || has(TIMES);
    match (is_time, has(MORE)) {
        (true, _) => Better::Less,
        (false, true) => Better::More,
        (false, false) if TIME_ENDINGS.iter().any(|end| metric.ends_with(end)) => Better::Less,
        _ if has(NEITHER) || NEITHER_UNITS.contains(&unit.as_str()) => Better::Neither,
        _ => Better::Less,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_units_tell() {
        for (metric, unit, expected) in [
            ("ttft_ms", "", Better::Less),
            ("cycle", "us", Better::Less),
            ("wall_clock", "ms", Better::Less),
            ("cache_hit_latency", "", Better::Less),
            ("error_rate", "%", Better::Less),
            ("anything", "", Better::Less),
            ("output_throughput", "", Better::More),
            ("tokens_per_s", "", Better::More),
            ("requests", "req/s", Better::More),
            ("prefix_cache_hit_rate", "%", Better::More),
            ("spec_acceptance_rate", "", Better::More),
            ("mfu_pct", "%", Better::More),
            ("gpu_sm_frequency", "MHz", Better::Neither),
            ("gpu_power", "W", Better::Neither),
            ("gpu_sm_util", "%", Better::Neither),
            ("kv_cache_usage", "%", Better::Neither),
        ] {
            assert_eq!(better(metric, unit), expected, "{metric} {unit}");
        }
    }
}
