//! Reads the log of a serving engine's configuration: arguments and attributes recorded by probes,
//! one JSON object per line.

mod generic;
mod sglang;
mod vllm;

use std::collections::BTreeMap;

use serde_json::Value;

/// Information on the engine in a log.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Serving {
    /// `sglang`, `vllm`, or `None` for another engine.
    pub framework: Option<&'static str>,
    /// Last component of the model's path.
    pub model: Option<String>,
    /// dtype of the model, for example `bfloat16`.
    pub precision: Option<String>,
    /// Number of layers.
    pub layers: Option<u64>,
    /// Maximum sequence length in tokens.
    pub max_positions: Option<u64>,
    /// Start arguments of the engine, as JSON text.
    pub startup: Option<String>,
    /// Batch sizes in the order of the log.
    pub batch_sizes: Vec<u64>,
    /// Input lengths of requests in tokens, in order of first appearance.
    pub input_lengths: Vec<u64>,
    /// Parallel sizes of the model: `tp_size`, `pp_size`, `dp_size`, `nnodes`.
    pub parallel: BTreeMap<&'static str, u64>,
    /// Name of the device.
    pub device: Option<String>,
    /// Number of devices: stated, or the product of the parallel sizes.
    pub devices: Option<u64>,
    /// Cache sizes by name, as written in the log.
    pub caches: BTreeMap<String, String>,
    /// Lines that are not JSON and matched no pattern either.
    pub skipped: usize,
}

/// One line as a record: the recorded attribute and its value.
#[derive(Debug, Default)]
struct Record {
    class: String,
    attribute: String,
    argument: String,
    value: String,
}

impl Record {
    /// Parses a line of JSON, or the readable part of a broken one.
    fn read(line: &str) -> Option<Self> {
        if let Ok(document) = serde_json::from_str::<Value>(line) {
            let of = &document["kunlunClassAttr"];
            let text = |v: &Value| match v {
                Value::Null => String::new(),
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            let value = [&document["Value"], &document["ClassObjectJson"]]
                .into_iter()
                .find(|v| !v.is_null())
                .map_or_else(String::new, text);
            return Some(Self {
                class: text(&of["class"]),
                attribute: text(&of["attr"]),
                argument: text(&of["arg_name"]),
                value,
            });
        }
        let value = ["Value", "ClassObjectJson"].into_iter().find_map(|key| {
            let at = line.find(&format!("\"{key}\""))? + key.len() + 2;
            Some(line[at..].trim_start().strip_prefix(':')?.trim().to_owned())
        })?;
        let part = |key| quoted(line, key).unwrap_or_default();
        Some(Self {
            class: part("class"),
            attribute: part("attr"),
            argument: part("arg_name"),
            value,
        })
    }
}

/// Reads the text of a log. The engine is identified by the modules named in it.
pub fn serving(text: &str) -> Serving {
    let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
    let mut found = Serving::default();
    let mut other = generic::Facts::default();
    if has(&[
        "vllm.core.scheduler",
        "vllm.worker.model_runner",
        "vllm.v1.worker.gpu_model_runner",
    ]) {
        found.framework = Some("vllm");
    } else if has(&["sglang.srt"]) {
        found.framework = Some("sglang");
    }
    let mut sglang = sglang::Requests::default();
    let mut vllm = vllm::Requests::default();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let record = Record::read(line);
        match (found.framework, &record) {
            (Some("sglang"), Some(record)) => sglang.take(record, line, &mut found),
            (Some("vllm"), Some(record)) => vllm.take(record, &mut found),
            _ => {}
        }
        let facts = other.take(record.as_ref().map_or(line, |r| &r.value));
        found.skipped += usize::from(record.is_none() && !facts);
    }
    other.fill(&mut found);
    if found.devices.is_none() {
        let product: u64 = found.parallel.values().product();
        found.devices = (product > 1).then_some(product);
    }
    found
}

/// Returns the last component of a path.
fn model_name(path: &str) -> Option<String> {
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the value of `key` in text that is nearly JSON, or that Python printed: `"key": v`,
/// `'key': v`, `key=v`. Quoted values end at the quote, others at a comma or closing bracket.
fn quoted(text: &str, key: &str) -> Option<String> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(key) {
        let at = from + at;
        from = at + key.len();
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = text[from..]
            .trim_start_matches(['\\', '"', '\''])
            .trim_start();
        let Some(rest) = rest.strip_prefix([':', '=']) else {
            continue;
        };
        let rest = rest.trim_start();
        let plain = rest.trim_start_matches('\\');
        let value = if let Some(inner) = plain.strip_prefix(['"', '\'']) {
            inner.split(['"', '\'', '\\']).next().unwrap_or("")
        } else {
            rest.split([',', '}', ')', ']', '\n', ' '])
                .next()
                .unwrap_or("")
        };
        if !value.is_empty() {
            return Some(value.to_owned());
        }
    }
    None
}

/// Same as [`quoted`], for a whole number.
fn number(text: &str, key: &str) -> Option<u64> {
    quoted(text, key)?.parse().ok()
}

/// Returns how many numbers are in the brackets after `key`, at the first occurrence from `from`
/// on, and the position of the closing bracket.
fn count_in_brackets(text: &str, key: &str, from: usize) -> Option<(u64, usize)> {
    let at = from + text.get(from..)?.find(key)? + key.len();
    let open = at + text[at..].find('[')?;
    let end = open + text[open..].find(']')?;
    let count = text[open + 1..end]
        .split(',')
        .filter(|part| part.trim().parse::<i64>().is_ok())
        .count();
    Some((u64::try_from(count).ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(module: &str, class: &str, attr: &str, arg: &str, value: &Value) -> String {
        serde_json::json!({
            "kunlunClassAttr": {
                "module": module, "class": class, "fn": "f", "attr": attr, "arg_name": arg,
            },
            "Value": value,
            "start_time": 1,
        })
        .to_string()
    }

    #[test]
    fn sglang_says_what_it_was_started_with_and_what_it_ran() {
        let id = "0123456789abcdef0123456789abcdef";
        let module = "sglang.srt.managers.scheduler";
        let server = serde_json::json!(
            {"model_path": "/models/Qwen3-8B/", "tp_size": 2, "pp_size": 2, "dtype": "auto"}
        );
        let model = serde_json::json!({"torch_dtype": "bfloat16", "num_hidden_layers": 36});
        let requests = format!(
            "[Req(rid={id}, input_ids=[1, 2, 3], x), Req(rid=f{}, input_ids=[9])]",
            &id[1..]
        );
        let text = [
            line(
                module,
                "Scheduler",
                "",
                "server_args",
                &Value::String(server.to_string()),
            ),
            line(
                module,
                "ModelRunner",
                "model_config",
                "",
                &Value::String(model.to_string()),
            ),
            line(
                module,
                "ScheduleBatch",
                "batch_size",
                "",
                &serde_json::json!("4"),
            ),
            line(
                module,
                "ScheduleBatch",
                "batch_size",
                "",
                &serde_json::json!(7),
            ),
            line(
                module,
                "ScheduleBatch",
                "reqs",
                "",
                &Value::String(requests.clone()),
            ),
            // Repeated requests are not counted again.
            line(
                module,
                "ScheduleBatch",
                "reqs",
                "",
                &Value::String(requests),
            ),
        ]
        .join("\n");
        let found = serving(&text);
        assert_eq!(found.framework, Some("sglang"));
        assert_eq!(found.model.as_deref(), Some("Qwen3-8B"));
        assert_eq!(found.precision.as_deref(), Some("bfloat16"));
        assert_eq!((found.layers, found.devices), (Some(36), Some(4)));
        assert_eq!(found.batch_sizes, [4, 7]);
        assert_eq!(found.input_lengths, [3, 1]);
        assert_eq!(found.startup, Some(server.to_string()));
        assert_eq!(found.skipped, 0);
    }

    #[test]
    fn vllm_of_both_engines() {
        let v1 = "vllm.v1.worker.gpu_model_runner";
        let requests = "{'a-1': CachedRequestState(prompt_token_ids=[1,2,3,4]), 'b': CachedRequestState(prompt_token_ids=[5])}";
        let text = line(
            v1,
            "GPUModelRunner",
            "requests",
            "",
            &Value::String(requests.into()),
        );
        let found = serving(&text);
        assert_eq!(found.framework, Some("vllm"));
        assert_eq!(
            (found.batch_sizes, found.input_lengths),
            (vec![2], vec![4, 1])
        );

        let v0 = "vllm.core.scheduler";
        let groups = |ids: &[&str]| {
            let each: Vec<String> = ids
                .iter()
                .map(|i| format!("SequenceGroup(request_id={i}, x)"))
                .collect();
            line(
                v0,
                "SchedulerOutputs",
                "scheduled_seq_groups",
                "",
                &Value::String(each.join(" ")),
            )
        };
        let block = |attr: &str, value: &str| {
            line(
                v0,
                "SelfAttnBlockSpaceManager",
                attr,
                "",
                &Value::String(value.into()),
            )
        };
        let config = "model='/m/Llama-3-8B', dtype=torch.bfloat16, tensor_parallel_size=4, max_model_len=4096";
        let text = [
            line(v0, "VllmConfig", "__str__", "", &Value::String(config.into())),
            groups(&["r1", "r2"]),
            groups(&["r2", "r1"]),
            groups(&["r2"]),
            block("request_id", "r1"),
            block("prompt_token_ids", "[1, 2, 3]"),
            block("prompt_token_ids", "[7, 8]"),
            block("request_id", "r2"),
            // The readable part of a truncated line is used.
            r#"{"kunlunClassAttr":{"module":"vllm.core.scheduler","class":"SchedulerOutputs","attr":"scheduled_seq_groups"},"Value":"G(request_id=r9, "#.to_owned(),
            "garbage".to_owned(),
        ]
        .join("\n");
        let found = serving(&text);
        assert_eq!(found.batch_sizes, [2, 1, 1]);
        assert_eq!(found.input_lengths, [3, 2]);
        assert_eq!(found.model.as_deref(), Some("Llama-3-8B"));
        assert_eq!(found.startup.as_deref(), Some(config));
        assert_eq!(found.parallel.get("tp_size"), Some(&4));
        assert_eq!(found.skipped, 1);
    }

    #[test]
    fn of_an_unknown_engine_the_best_statement_counts() {
        let text = r#"{"Value": "{\"precision\": \"unknown\", \"model_name\": \"m\"}"}
{"Value": "{\"precision\": \"AUTO\", \"tp_size\": 2, \"num_hidden_layers\": 12}"}
{"Value": "{\"precision\": \"BF16\", \"nnodes\": 2, \"device_name\": \"H20\"}"}
{"Value": "{\"precision\": \"half\", \"device_name\": \"(NULL)\", \"kv_cache_size\": \"8 GB\"}"}"#;
        let found = serving(text);
        assert_eq!(found.framework, None);
        assert_eq!(found.precision.as_deref(), Some("BF16"));
        assert_eq!(found.device.as_deref(), Some("H20"));
        assert_eq!((found.layers, found.devices), (Some(12), Some(4)));
        assert_eq!(
            found.caches.get("kv_cache_size").map(String::as_str),
            Some("8 GB")
        );
        assert_eq!(serving("").framework, None);
    }
}
