//! Reads the values of the classes of vLLM's two engines.

use std::collections::BTreeSet;

use super::{Record, Serving, count_in_brackets, model_name, number, quoted};

/// Requests so far.
#[derive(Debug, Default)]
pub(super) struct Requests {
    scheduled: BTreeSet<String>,
    /// A request whose tokens have not been read yet, or the reverse.
    waiting_id: Option<String>,
    waiting_tokens: Option<u64>,
    known: BTreeSet<String>,
}

impl Requests {
    pub(super) fn take(&mut self, record: &Record, found: &mut Serving) {
        let value = &record.value;
        match (record.class.as_str(), record.attribute.as_str()) {
            ("GPUModelRunner", "requests") => self.runner(value, found),
            ("SchedulerOutputs", "scheduled_seq_groups") => {
                let ids: BTreeSet<String> = ids(value).collect();
                // Only a different set of requests is a new batch.
                if !ids.is_empty() && ids != self.scheduled {
                    found
                        .batch_sizes
                        .push(u64::try_from(ids.len()).unwrap_or(0));
                    self.scheduled = ids;
                }
            }
            ("SelfAttnBlockSpaceManager", "request_id") => {
                self.waiting_id = Some(value.trim_matches(['"', '\'', ' ']).to_owned());
                self.pair(found);
            }
            ("SelfAttnBlockSpaceManager", "prompt_token_ids") => {
                self.waiting_tokens = count_in_brackets(value, "", 0).map(|c| c.0);
                self.pair(found);
            }
            ("VllmConfig", "__str__") => {
                config(value, found);
                found.startup = Some(value.clone());
            }
            (_, "model_config") => config(value, found),
            _ => {}
        }
    }

    /// Reads the requests of a worker of the newer engine: one key each.
    fn runner(&mut self, value: &str, found: &mut Serving) {
        let mut count = 0_u64;
        let mut from = 0;
        while let Some((tokens, end)) = count_in_brackets(value, "prompt_token_ids", from) {
            let head = &value[from..end];
            let key = head
                .split(['\'', '"'])
                .nth(1)
                .unwrap_or_default()
                .to_owned();
            count += 1;
            if self.known.insert(key) {
                found.input_lengths.push(tokens);
            }
            from = end;
        }
        if count > 0 {
            found.batch_sizes.push(count);
        }
    }

    /// Joins a request and its tokens, which follow each other in either order.
    fn pair(&mut self, found: &mut Serving) {
        if let (Some(id), Some(tokens)) = (&self.waiting_id, self.waiting_tokens) {
            if self.known.insert(id.clone()) {
                found.input_lengths.push(tokens);
            }
            (self.waiting_id, self.waiting_tokens) = (None, None);
        }
    }
}

/// Returns every value after `request_id=`.
fn ids(text: &str) -> impl Iterator<Item = String> {
    text.split("request_id=").skip(1).map(|rest| {
        rest.trim_start_matches(['\'', '"'])
            .chars()
            .take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
            .collect()
    })
}

fn config(value: &str, found: &mut Serving) {
    let model = quoted(value, "model").or_else(|| quoted(value, "_name_or_path"));
    found.model = model.and_then(|m| model_name(&m)).or(found.model.take());
    let dtype = quoted(value, "torch_dtype").or_else(|| quoted(value, "dtype"));
    found.precision = dtype
        .map(|d| d.trim_start_matches("torch.").to_owned())
        .or(found.precision.take());
    found.layers = number(value, "num_hidden_layers").or(found.layers);
    found.max_positions = number(value, "max_position_embeddings").or(found.max_positions);
    for (key, name) in [
        ("tensor_parallel_size", "tp_size"),
        ("pipeline_parallel_size", "pp_size"),
        ("data_parallel_size", "dp_size"),
    ] {
        if let Some(n) = number(value, key) {
            found.parallel.insert(name, n);
        }
    }
}
