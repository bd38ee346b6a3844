//! Reads the log of any engine, by keys that look like the wanted ones.

use super::{Serving, model_name, quoted};

/// A value with its rating.
type Best = Option<(u8, String)>;

#[derive(Debug, Default)]
pub(super) struct Facts {
    model: Best,
    precision: Best,
    layers: Best,
    positions: Best,
    device: Best,
    devices: Best,
    parallel: [Best; 4],
    caches: std::collections::BTreeMap<String, String>,
}

/// Parallel sizes of a model, and their names in logs.
const PARALLEL: [(&str, &[&str]); 4] = [
    ("tp_size", &["tp_size", "tensor_parallel_size"]),
    ("pp_size", &["pp_size", "pipeline_parallel_size"]),
    ("dp_size", &["dp_size", "data_parallel_size"]),
    ("nnodes", &["nnodes", "num_nodes"]),
];

const CACHES: [&str; 5] = [
    "kv_cache_size",
    "kv_cache_dtype",
    "num_gpu_blocks",
    "max_total_num_tokens",
    "block_size",
];

/// Rates a value: 4 exact statement, 3 other text, 2 left open, 1 stated as unknown, 0 nothing.
fn worth(value: &str) -> u8 {
    const EXACT: [&str; 7] = ["FP16", "BF16", "FP8", "INT", "SM", "HOPPER", "AMPERE"];
    let upper = value.trim().to_uppercase();
    match upper.as_str() {
        "" | "NONE" | "NULL" => 0,
        "UNKNOWN" => 1,
        "AUTO" | "(NULL)" => 2,
        _ if upper.bytes().any(|b| b.is_ascii_digit())
            || EXACT.iter().any(|w| upper.contains(w)) =>
        {
            4
        }
        _ => 3,
    }
}

/// Keeps the better value; of equal ones the newer.
fn keep(best: &mut Best, text: &str, keys: &[&str]) -> bool {
    let Some(value) = keys.iter().find_map(|key| quoted(text, key)) else {
        return false;
    };
    let worth = worth(&value);
    if worth > 0 && best.as_ref().is_none_or(|b| worth >= b.0) {
        *best = Some((worth, value));
    }
    true
}

impl Facts {
    /// Reads the values of a text; returns `false` if it has none.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let mut any = keep(
            &mut self.model,
            text,
            &["model_name", "model_path", "_name_or_path"],
        );
        any |= keep(
            &mut self.precision,
            text,
            &["precision", "torch_dtype", "dtype"],
        );
        any |= keep(&mut self.layers, text, &["num_hidden_layers", "num_layers"]);
        any |= keep(&mut self.positions, text, &["max_position_embeddings"]);
        any |= keep(
            &mut self.device,
            text,
            &["device_name", "gpu_name", "gpu_model"],
        );
        any |= keep(&mut self.devices, text, &["num_gpus", "world_size"]);
        for (best, (_, keys)) in self.parallel.iter_mut().zip(PARALLEL) {
            any |= keep(best, text, keys);
        }
        for key in CACHES {
            if let Some(value) = quoted(text, key) {
                self.caches.insert(key.to_owned(), value);
                any = true;
            }
        }
        any
    }

    /// Fills in fields that the engine's own classes did not set.
    pub(super) fn fill(self, found: &mut Serving) {
        let text = |best: Best| best.filter(|b| b.0 > 1).map(|b| b.1);
        let whole = |best: Best| best.and_then(|b| b.1.parse().ok());
        if found.model.is_none() {
            found.model = text(self.model).and_then(|p| model_name(&p));
        }
        if found.precision.is_none() {
            found.precision = text(self.precision);
        }
        found.layers = found.layers.or_else(|| whole(self.layers));
        found.max_positions = found.max_positions.or_else(|| whole(self.positions));
        found.device = text(self.device);
        found.devices = whole(self.devices);
        for (best, (name, _)) in self.parallel.into_iter().zip(PARALLEL) {
            if let Some(n) = whole(best) {
                found.parallel.entry(name).or_insert(n);
            }
        }
        found.caches = self.caches;
    }
}
