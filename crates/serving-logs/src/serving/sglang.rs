//! Reads the values of SGLang's classes.

use std::collections::BTreeSet;

use super::{Record, Serving, count_in_brackets, model_name, number, quoted};

/// Requests so far.
#[derive(Debug, Default)]
pub(super) struct Requests {
    seen: BTreeSet<String>,
}

impl Requests {
    pub(super) fn take(&mut self, record: &Record, line: &str, found: &mut Serving) {
        let value = &record.value;
        if record.argument == "server_args" {
            found.startup = Some(value.clone());
            if let Some(name) = quoted(value, "model_path").and_then(|p| model_name(&p)) {
                found.model = Some(name);
            }
            if let Some(dtype) = quoted(value, "dtype").filter(|d| d != "auto") {
                found.precision = Some(dtype);
            }
            for key in ["tp_size", "pp_size", "dp_size", "nnodes"] {
                if let Some(n) = number(value, key) {
                    found.parallel.insert(key, n);
                }
            }
        }
        match record.attribute.as_str() {
            "model_config" => {
                let dtype = quoted(value, "torch_dtype").or_else(|| quoted(value, "dtype"));
                found.precision = dtype.or(found.precision.take());
                found.layers = number(value, "num_hidden_layers").or(found.layers);
                if found.model.is_none() {
                    found.model = quoted(value, "_name_or_path").and_then(|p| model_name(&p));
                }
            }
            "batch_size" => found.batch_sizes.extend(value.trim().parse::<u64>()),
            _ => {}
        }
        if record.attribute == "reqs" || line.contains("\"attr\":\"reqs\"") {
            self.requests(value, found);
        }
    }

    /// Counts each `Req(rid=<32 hexadecimal digits>, input_ids=[…]` once.
    fn requests(&mut self, value: &str, found: &mut Serving) {
        let mut from = 0;
        while let Some(at) = value.get(from..).and_then(|rest| rest.find("Req(rid=")) {
            let start = from + at + "Req(rid=".len();
            let id: String = value[start..]
                .chars()
                .skip_while(|c| matches!(c, '\'' | '"'))
                .take_while(char::is_ascii_hexdigit)
                .collect();
            from = start;
            let own = value[start..]
                .find("Req(rid=")
                .map_or(value.len(), |i| start + i);
            if id.len() == 32
                && let Some((count, _)) = count_in_brackets(&value[..own], "input_ids=", start)
                && self.seen.insert(id)
            {
                found.input_lengths.push(count);
            }
        }
    }
}
