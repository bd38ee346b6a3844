//! Results of `vllm bench serve` and `sglang.bench_serving`: a JSON object for each run, one after the other.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::samples::Samples;

/// Totals of a run that are samples of it, with their units.
const TOTALS: &[(&str, &str)] = &[
    ("request_throughput", "1/s"),
    ("request_goodput", "1/s"),
    ("input_throughput", "1/s"),
    ("output_throughput", "1/s"),
    ("total_token_throughput", "1/s"),
    ("total_throughput", "1/s"),
    ("duration", "s"),
];

/// Settings of a benchmark that make the load of the server.
pub const LOAD_SETTINGS: &[&str] = &[
    "dataset_name",
    "request_rate",
    "burstiness",
    "max_concurrency",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "sharegpt_output_len",
];

/// Settings that name the model.
pub const MODEL_SETTINGS: &[&str] = &["model_id", "model"];

/// Other settings that are worth a remark where they differ.
pub const OTHER_SETTINGS: &[&str] = &["backend", "endpoint_type", "tokenizer_id", "num_prompts"];

/// The settings that a run states.
fn settings(value: &Value) -> BTreeMap<String, String> {
    let all = [LOAD_SETTINGS, MODEL_SETTINGS, OTHER_SETTINGS].concat();
    let stated = all.into_iter().filter_map(|key| {
        let text = match value.get(key)? {
            Value::String(text) => text.clone(),
            // 4 and 4.0 are one rate.
            Value::Number(number) => number.as_f64()?.to_string(),
            Value::Bool(on) => on.to_string(),
            _ => return None,
        };
        Some((key.to_owned(), text))
    });
    stated.collect()
}

/// Latencies whose mean and 99th percentile stand for a run without details.
const LATENCIES: &[&str] = &["ttft", "tpot", "itl", "e2el", "e2e_latency"];

/// Returns `true` if a file begins as the results of a serving benchmark do: with an object that has its totals.
///
/// ```
/// assert!(serving_logs::is_bench(br#"{"date": "x", "backend": "vllm", "request_throughput": 3.1}"#));
/// assert!(!serving_logs::is_bench(br#"{"traceEvents": []}"#));
/// ```
pub fn is_bench(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let has = |key: &str| head.contains(&format!("\"{key}\""));
    let names = ["backend", "endpoint_type", "tokenizer_id", "dataset_name"];
    let totals = [
        "request_rate",
        "max_concurrency",
        "num_prompts",
        "duration",
        "request_throughput",
    ];
    head.trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('{')
        && names.into_iter().any(has)
        && totals.into_iter().any(has)
}

/// Reads the results of a serving benchmark. With details (`--save-detailed`, `--output-details`) each request that succeeded is a sample
/// of its time to first token, latency, time per output token, and of each gap between tokens; always, each run is one of its totals.
///
/// # Errors
/// [`BenchError`] if the text is no sequence of JSON objects.
///
/// ```
/// let text = r#"{"backend": "vllm", "duration": 2.0, "ttfts": [0.5], "itls": [[0.1, 0.3]], "output_lens": [3], "errors": [""]}"#;
/// let found = serving_logs::bench(text)?;
/// let of = |metric: &str| -> Vec<f64> {
///     found.samples.iter().filter(|s| s.metric == metric).map(|s| s.value).collect()
/// };
/// assert_eq!((of("ttft"), of("itl"), of("tpot")), (vec![0.5], vec![0.1, 0.3], vec![0.2]));
/// # Ok::<(), serving_logs::BenchError>(())
/// ```
pub fn bench(text: &str) -> Result<Samples, BenchError> {
    let mut found = Samples::default();
    let text = text.trim_start_matches('\u{feff}');
    let runs = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for (run, value) in (1..).zip(runs) {
        let value = value.map_err(|error| BenchError {
            line: error.line(),
            what: error.to_string(),
        })?;
        match value {
            Value::Object(_) => {
                found.settings.push(settings(&value));
                add_run(&mut found, run, &value);
            }
            _ => {
                return Err(BenchError {
                    line: 1,
                    what: "expected an object for each run".to_owned(),
                });
            }
        }
    }
    Ok(found)
}

/// The text is not that of a benchmark's results.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "line {line}: not the results of a serving benchmark: {what}: run the benchmark again, or give another file"
)]
#[non_exhaustive]
pub struct BenchError {
    /// The line, from 1.
    pub line: usize,
    what: String,
}

fn add_run(found: &mut Samples, run: u64, value: &Value) {
    for (key, unit) in TOTALS {
        // Absent and null alike.
        if let Some(total) = value.get(*key).filter(|total| !total.is_null()) {
            found.push((key, unit), "", (run, 0), total.as_f64());
        }
    }
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let Some(first_tokens) = list("ttfts") else {
        for latency in LATENCIES {
            for statistic in ["mean", "p99"] {
                let key = format!("{statistic}_{latency}_ms");
                if let Some(own) = value.get(&key).filter(|own| !own.is_null()) {
                    let metric = format!("{statistic}_{latency}");
                    found.push((&metric, "ms"), "", (run, 0), own.as_f64());
                }
            }
        }
        return;
    };
    let (gaps, errors, lengths) = (list("itls"), list("errors"), list("output_lens"));
    for (cycle, (at, first)) in (0..).zip(first_tokens.iter().enumerate()) {
        let error = errors.and_then(|errors| errors.get(at)?.as_str());
        if error.is_some_and(|error| !error.is_empty()) {
            found.failed_requests += 1;
            continue;
        }
        let place = (run, cycle);
        let first = first.as_f64();
        found.push(("ttft", "s"), "", place, first);
        let Some(gaps) = gaps.and_then(|gaps| gaps.get(at)?.as_array()) else {
            continue;
        };
        let gaps: Option<Vec<f64>> = gaps.iter().map(Value::as_f64).collect();
        let Some(gaps) = gaps else {
            found.bad_values += 1;
            continue;
        };
        for gap in &gaps {
            found.push(("itl", "s"), "", place, Some(*gap));
        }
        let decode: f64 = gaps.iter().sum();
        found.push(
            ("e2e_latency", "s"),
            "",
            place,
            first.map(|first| first + decode),
        );
        // Several tokens may come at once, so that there are fewer gaps than tokens.
        let tokens = lengths.and_then(|lengths| lengths.get(at)?.as_f64());
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 1.0) {
            found.push(("tpot", "s"), "", place, Some(decode / (tokens - 1.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_one_another_and_failed_requests_are_left_out() {
        let text = concat!(
            r#"{"backend":"sglang","request_throughput":2.5,"mean_ttft_ms":20.0,"p99_ttft_ms":90,"mean_itl_ms":null}"#,
            "\n",
            r#"{"backend":"sglang","request_throughput":3.5,"ttfts":[0.25,0.0,0.5],"itls":[[],[],[0.5,0.25]],"errors":["","timeout",""],"output_lens":[1,0,4]}"#,
            "\n"
        );
        let found = bench(text).unwrap();
        let rows: Vec<(&str, u64, u64, f64)> = found
            .samples
            .iter()
            .map(|s| (s.metric.as_str(), s.run, s.cycle, s.value))
            .collect();
        assert_eq!(
            rows,
            [
                ("request_throughput", 1, 0, 2.5),
                ("mean_ttft", 1, 0, 20.0),
                ("p99_ttft", 1, 0, 90.0),
                ("request_throughput", 2, 0, 3.5),
                ("ttft", 2, 0, 0.25),
                ("e2e_latency", 2, 0, 0.25),
                ("ttft", 2, 2, 0.5),
                ("itl", 2, 2, 0.5),
                ("itl", 2, 2, 0.25),
                ("e2e_latency", 2, 2, 1.25),
                ("tpot", 2, 2, 0.25),
            ]
        );
        assert_eq!((found.failed_requests, found.bad_values), (1, 0));
        assert!(
            found.to_csv().starts_with(
                "metric,unit,value,group,run,cycle\nrequest_throughput,1/s,2.5,,1,0\n"
            )
        );
    }

    #[test]
    fn runs_of_several_files_are_grouped_by_what_they_were_asked() {
        let of = |rate: &str| {
            let text = format!(
                r#"{{"backend":"vllm","model_id":"m","request_rate":{rate},"request_throughput":3.5}}"#
            );
            bench(&text).unwrap()
        };
        let mut found = of("4");
        found.append(of("4.0"));
        let same = found.clone();
        found.group_by_load();
        assert_eq!(found, same);
        found.append(of("\"inf\""));
        found.group_by_load();
        let groups: Vec<(u64, &str)> = found
            .samples
            .iter()
            .map(|s| (s.run, s.group.as_str()))
            .collect();
        assert_eq!(
            groups,
            [
                (1, "request_rate 4"),
                (2, "request_rate 4"),
                (3, "request_rate inf")
            ]
        );
        assert_eq!(found.settings[2]["model_id"], "m");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let cut = bench("{\"backend\": \"vllm\",\n \"ttfts\": [0.1").unwrap_err();
        assert_eq!(cut.line, 2);
        assert!(bench("[1, 2]").is_err());
        assert_eq!(bench("").unwrap(), Samples::default());
        let odd =
            bench(r#"{"ttfts":["x",1e999,null],"itls":[[],{"a":1},[1,"b"]],"duration":"long"}"#);
        // A number beyond the range of doubles is an error of its line or no value, never a sample.
        assert!(odd.is_err() || odd.unwrap().samples.is_empty());
    }
}
