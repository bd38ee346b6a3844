//! Metrics of serving engines in the text format of Prometheus.

use std::collections::BTreeMap;

use crate::{StepRow, prometheus};

/// The values of one scrape, summed over label sets: of several engines behind one address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    values: BTreeMap<String, f64>,
    /// Tokens that the caches of keys and values hold, as `cache_config_info` of vLLM states it.
    cache_tokens: Option<f64>,
}

/// Histograms of the time between two tokens of a request, seconds.
const TOKEN_TIMES: [&str; 4] = [
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
    "sglang:inter_token_latency_seconds",
    "sglang:time_per_output_token_seconds",
];
/// Requests in a batch.
const RUNNING: [&str; 2] = ["vllm:num_requests_running", "sglang:num_running_reqs"];
/// Part of the cache in use.
const USAGE: [&str; 2] = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"];
/// Tokens in the cache.
const TOKENS: &str = "sglang:num_used_tokens";

/// Returns the value of a label.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = labels;
    while let Some((before, after)) = rest.split_once(name) {
        let starts = before.is_empty() || before.ends_with([',', '{', ' ']);
        if let (true, Some(value)) = (starts, after.strip_prefix("=\"")) {
            return value.split('"').next();
        }
        rest = after;
    }
    None
}

/// Reads the text of a scrape. Lines that are no samples are skipped, as the format allows.
#[must_use]
pub fn metrics(text: &str) -> Metrics {
    let mut found = Metrics::default();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, labels, value, _)) = prometheus::reading(line) else {
            continue;
        };
        if name == "vllm:cache_config_info" {
            let number = |of| label(labels, of)?.parse::<f64>().ok();
            let tokens = number("num_gpu_blocks").zip(number("block_size"));
            found.cache_tokens = tokens.map(|(blocks, size)| blocks * size);
        }
        if !name.ends_with("_bucket") && value.is_finite() {
            *found.values.entry(name.to_owned()).or_default() += value;
        }
    }
    found
}

impl Metrics {
    fn first(&self, names: &[&str]) -> Option<f64> {
        names
            .iter()
            .find_map(|name| self.values.get(*name).copied())
    }

    /// Returns `true` if an engine whose metrics are known wrote this.
    #[must_use]
    pub fn is_of_engine(&self) -> bool {
        self.first(&RUNNING).is_some()
    }

    /// Returns the mean step since an earlier scrape: the mean time between two tokens, with the requests that run now and the length
    /// of their contexts. `None` where no token came, or the engine was started anew.
    ///
    /// ```
    /// let scrape = |sum: f64, count: u32| {
    ///     serving_logs::metrics(&format!(
    ///         "# TYPE vllm:num_requests_running gauge\n\
    ///         vllm:num_requests_running{{model_name=\"m\"}} 8\n\
    ///         vllm:inter_token_latency_seconds_sum{{model_name=\"m\"}} {sum}\n\
    ///         vllm:inter_token_latency_seconds_count{{model_name=\"m\"}} {count}\n"
    ///     ))
    /// };
    /// let step = scrape(3.0, 300).step_since(&scrape(1.0, 100), 5e6).unwrap();
    /// assert_eq!((step.duration_us, step.batch), (10_000.0, 8.0));
    /// assert_eq!(scrape(0.1, 10).step_since(&scrape(1.0, 100), 5e6), None);
    /// ```
    #[must_use]
    pub fn step_since(&self, earlier: &Self, at_us: f64) -> Option<StepRow> {
        let grown = |name: &str, end: &str| {
            let name = format!("{name}{end}");
            Some(self.values.get(&name)? - earlier.values.get(&name)?)
        };
        let mean_s = TOKEN_TIMES.iter().find_map(|name| {
            let (sum, count) = (grown(name, "_sum")?, grown(name, "_count")?);
            (count >= 1.0 && sum > 0.0).then(|| sum / count)
        })?;
        let batch = self.first(&RUNNING).filter(|n| *n >= 1.0)?;
        let usage = self.first(&USAGE);
        let context = self.values.get(TOKENS).copied().or_else(|| {
            // Without the size of the cache its percents count as thousands of tokens, as in logs.
            Some(usage? * self.cache_tokens.unwrap_or(100_000.0))
        });
        Some(StepRow {
            start_us: at_us,
            duration_us: mean_s * 1e6,
            batch,
            input: context.unwrap_or(0.0) / batch,
            ..StepRow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_summed_and_labels_are_read() {
        let text = "# HELP x y\nvllm:num_requests_running{engine=\"0\",model_name=\"a {b} c\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 5\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",num_gpu_blocks=\"1000\"} 1.0\n\
            vllm:inter_token_latency_seconds_bucket{le=\"+Inf\"} 7\nvllm:inter_token_latency_seconds_sum 0.5\nvllm:inter_token_latency_seconds_count 50\n\
            broken{ 1\nlone\nnan NaN\n";
        let later = metrics(text);
        assert!(later.is_of_engine() && !metrics("go_goroutines 5\n").is_of_engine());
        let mut earlier = later.clone();
        for end in ["_sum", "_count"] {
            earlier
                .values
                .insert(format!("{}{end}", TOKEN_TIMES[0]), 0.0);
        }
        let step = later.step_since(&earlier, 1.0).unwrap();
        assert!((step.duration_us - 10_000.0).abs() < 1e-6);
        // A quarter of 16,000 tokens, for eight requests.
        assert_eq!((step.batch, step.input), (8.0, 500.0));
        assert_eq!(later.step_since(&later, 1.0), None);
        assert_eq!(
            label("a_block_size=\"1\",block_size=\"2\"", "block_size"),
            Some("2")
        );
    }
}
