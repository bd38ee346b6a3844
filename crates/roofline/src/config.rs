//! Sizes of a model, from its configuration (keys of Hugging Face), and what a forward pass needs.
//!
//! Per rank of tensor parallelism: heads, inner widths and vocabulary are divided, keys and values repeated where there are
//! fewer heads of them than ranks. Rows of the embedding table are not counted.

mod fit;

pub(crate) use fit::Shown;

use serde_json::Value;

use crate::device::PeakKey;
use crate::dtype::Precision;
use crate::limit::{Peaks, real};
use crate::models::touched;
use crate::recorded::times;

/// Bits that one stored weight takes, as a fraction: block scales make it no integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bits {
    over: u128,
    under: u128,
}

impl Bits {
    /// bfloat16.
    const PLAIN: Self = Self::new(16, 0, 1);

    /// `bits` for each weight, and a scale of `scale` bits for each block of `block` weights.
    const fn new(bits: u128, scale: u128, block: u128) -> Self {
        Self {
            over: bits * block + scale,
            under: block,
        }
    }

    /// Bytes of `n` weights, rounded to the nearest one.
    pub(crate) fn bytes(self, n: u128) -> u128 {
        let bits = times(n, self.over);
        let bytes = self.under * 8;
        bits.saturating_add(bytes / 2) / bytes
    }
}

/// The experts of a layer, per rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Experts {
    /// Experts of the layer.
    pub(crate) all: u128,
    /// Experts that each token takes.
    pub(crate) k: u128,
    /// Width of the hidden states.
    pub(crate) hidden: u128,
    /// Weights of one expert.
    pub(crate) values_each: u128,
    pub(crate) bits: Bits,
}

impl Experts {
    /// Bytes of weights that `tokens` tokens read of `experts` experts: at least, on average, at most.
    pub(crate) fn read(&self, experts: u128, tokens: u128) -> (u128, u128, u128) {
        let (low, mean, high) = self.read_exactly(experts, tokens);
        (low, rounded(mean), high)
    }

    /// The same; the mean is no integer.
    fn read_exactly(&self, experts: u128, tokens: u128) -> (u128, f64, u128) {
        let of = |n: u128| self.bits.bytes(times(n, self.values_each));
        if tokens == 0 || experts == 0 {
            return (0, 0.0, 0);
        }
        let share = touched(experts, self.k, tokens) / real(experts);
        (
            of(experts.min(self.k)),
            real(of(experts)) * share,
            of(experts.min(times(tokens, self.k))),
        )
    }
}

/// The nearest integer of a number of bytes, of two equally near ones the even one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate that is not negative"
)]
pub(crate) fn rounded(bytes: f64) -> u128 {
    bytes.round_ties_even() as u128
}

/// Error in a configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// A size that is needed is missing, no positive integer or larger than any model's.
    #[error("{0} is missing, no positive integer or too large")]
    Missing(&'static str),
    /// The ranks do not divide a size.
    #[error("{tp} ranks do not divide {what} ({size})")]
    Ranks {
        /// Ranks.
        tp: u128,
        /// Size to be divided.
        what: &'static str,
        /// Its size.
        size: u128,
    },
    /// A size differs from what the recording has.
    #[error("the configuration has {what} {config}, the recording {recorded}")]
    Contradiction {
        /// Quantity that differs.
        what: &'static str,
        /// Its value in the configuration.
        config: u128,
        /// Its value in the recording.
        recorded: u128,
    },
}

/// Latent attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Latent {
    kv_rank: u128,
    q_rank: Option<u128>,
    rope: u128,
    nope: u128,
    v: u128,
}

/// How weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Storage {
    linear: Bits,
    experts: Bits,
    /// Arithmetic of products with weights.
    arithmetic: Precision,
}

/// Sizes of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    hidden: u128,
    layers: u128,
    heads: u128,
    kv_heads: u128,
    head_dim: u128,
    inner: u128,
    vocabulary: u128,
    expert_inner: u128,
    experts: u128,
    experts_per_token: u128,
    shared_experts: u128,
    first_dense: u128,
    moe_every: u128,
    window: Option<u128>,
    layer_types: Option<Vec<bool>>,
    latent: Option<Latent>,
    storage: Storage,
    /// Some layers are of another kind than attention.
    is_hybrid: bool,
}

/// Requests of a step that is asked for: `count` times `new` tokens that see `keys` keys, their own included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// New tokens.
    pub new: u128,
    /// Keys.
    pub keys: u128,
    /// How many such requests.
    pub count: u128,
}

/// Needs of a forward pass, per rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Forward {
    /// New tokens.
    pub tokens: u128,
    /// Requests.
    pub requests: u128,
    /// Bytes of weights; of experts the mean of uniform draws.
    pub weight_bytes: u128,
    /// The same with as few experts as possible.
    pub weight_bytes_low: u128,
    /// The same with as many as possible.
    pub weight_bytes_high: u128,
    /// Bytes of keys and values.
    pub kv_bytes: u128,
    /// FLOPs of matrix products with weights.
    pub linear_flops: u128,
    /// FLOPs of attention.
    pub attention_flops: u128,
    /// Bytes that go into all-reduces.
    pub allreduce_bytes: u128,
}

/// Largest size of a model, so that products of three fit 128 bits.
const LARGEST: u128 = 1 << 32;

/// Largest number of layers, each of which is looked at.
const MOST_LAYERS: u128 = 1 << 16;

fn number(json: &Value, keys: &[&'static str]) -> Option<u128> {
    let found = keys.iter().find_map(|key| json.get(key)?.as_u64());
    found.map(u128::from).filter(|n| *n <= LARGEST)
}

/// Keys of models whose layers are not all attention.
const HYBRID: [&str; 7] = [
    "full_attention_interval",
    "attn_layer_period",
    "attn_layer_indices",
    "hybrid_override_pattern",
    "layers_block_type",
    "linear_attn_config",
    "full_attn_idxs",
];

fn is_hybrid(json: &Value) -> bool {
    let kinds = json.get("layer_types").and_then(Value::as_array);
    let is_other = |kind: &Value| {
        let kind = kind.as_str().unwrap_or("");
        !kind.ends_with("attention") || kind.contains("linear")
    };
    HYBRID
        .iter()
        .any(|key| json.get(*key).is_some_and(|value| !value.is_null()))
        || kinds.is_some_and(|kinds| kinds.iter().any(is_other))
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`ConfigError`] with what is missing.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let json: Value =
            serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        // Models of text and images keep the sizes of the language model apart.
        let json = match json.get("text_config") {
            Some(inner) if json.get("hidden_size").is_none() => inner,
            _ => &json,
        };
        let need = |key: &'static str| {
            let found = number(json, &[key]).filter(|n| *n > 0);
            found.ok_or(ConfigError::Missing(key))
        };
        let or = |keys: &[&'static str], default: u128| number(json, keys).unwrap_or(default);
        let (hidden, heads) = (need("hidden_size")?, need("num_attention_heads")?);
        let inner = or(&["intermediate_size"], 0);
        let latent = match number(json, &["kv_lora_rank"]) {
            Some(kv_rank) => Some(Latent {
                kv_rank,
                q_rank: number(json, &["q_lora_rank"]),
                rope: need("qk_rope_head_dim")?,
                nope: need("qk_nope_head_dim")?,
                v: need("v_head_dim")?,
            }),
            None => None,
        };
        let layer_types = json.get("layer_types").and_then(Value::as_array);
        let uses_window = json
            .get("use_sliding_window")
            .and_then(Value::as_bool)
            .unwrap_or(true);
        Ok(Self {
            hidden,
            layers: match need("num_hidden_layers")? {
                layers if layers <= MOST_LAYERS => layers,
                _ => return Err(ConfigError::Missing("num_hidden_layers")),
            },
            heads,
            kv_heads: or(&["num_key_value_heads"], heads),
            head_dim: or(&["head_dim"], hidden / heads),
            inner,
            vocabulary: need("vocab_size")?,
            expert_inner: or(&["moe_intermediate_size"], inner),
            experts: or(&["num_experts", "num_local_experts", "n_routed_experts"], 0),
            experts_per_token: or(&["num_experts_per_tok", "experts_per_token"], 0),
            shared_experts: or(&["n_shared_experts"], 0),
            first_dense: or(&["first_k_dense_replace"], 0),
            moe_every: or(&["moe_layer_freq"], 1).max(1),
            window: number(json, &["sliding_window"]).filter(|w| uses_window && *w > 0),
            layer_types: layer_types.map(|all| {
                let slides = |kind: &Value| kind.as_str() == Some("sliding_attention");
                all.iter().map(slides).collect()
            }),
            latent,
            storage: Storage::of(json),
            is_hybrid: is_hybrid(json),
        })
    }

    /// Number of layers.
    pub fn layers(&self) -> u128 {
        self.layers
    }

    /// Query heads of the whole model.
    pub fn heads(&self) -> u128 {
        self.heads
    }

    /// Experts of a layer; 0 without.
    pub fn experts_of_layer(&self) -> u128 {
        self.experts
    }

    /// Keys that a query of layer `at` sees at most, its own included.
    pub(crate) fn window_of(&self, at: u128) -> Option<u128> {
        let slides = match &self.layer_types {
            Some(kinds) => {
                let kind = usize::try_from(at).ok().and_then(|at| kinds.get(at));
                kind.copied().unwrap_or(false)
            }
            None => true,
        };
        self.window.filter(|_| slides)
    }

    /// Checks that `tp` ranks can share the model.
    ///
    /// # Errors
    /// [`ConfigError::Ranks`] with the size that they do not divide.
    pub fn check_ranks(&self, tp: u128) -> Result<(), ConfigError> {
        for (what, size) in [
            ("num_attention_heads", self.heads),
            ("intermediate_size", self.inner),
            ("moe_intermediate_size", self.expert_inner),
        ] {
            if tp == 0 || size % tp != 0 {
                return Err(ConfigError::Ranks { tp, what, size });
            }
        }
        Ok(())
    }

    /// The experts of a layer, per rank; `None` without.
    pub(crate) fn experts(&self, tp: u128) -> Option<Experts> {
        (self.experts > 0 && self.experts_per_token > 0).then(|| Experts {
            all: self.experts,
            k: self.experts_per_token,
            hidden: self.hidden,
            values_each: 3 * self.hidden * (self.expert_inner / tp.max(1)),
            bits: self.storage.experts,
        })
    }

    fn is_moe(&self, layer: u128) -> bool {
        self.experts > 0
            && layer >= self.first_dense
            && (layer - self.first_dense).is_multiple_of(self.moe_every)
    }

    /// Weights of the attention of a layer.
    fn attention_weights(&self, tp: u128) -> u128 {
        let heads = self.heads / tp;
        match &self.latent {
            None => {
                let kv = (self.kv_heads / tp).max(1);
                let d = self.head_dim;
                self.hidden * (heads + 2 * kv) * d + heads * d * self.hidden
            }
            Some(latent) => {
                let q = heads * (latent.nope + latent.rope);
                let queries = match latent.q_rank {
                    Some(rank) => self.hidden * rank + rank * q,
                    None => self.hidden * q,
                };
                queries
                    + self.hidden * (latent.kv_rank + latent.rope)
                    + latent.kv_rank * heads * (latent.nope + latent.v)
                    + heads * latent.v * self.hidden
            }
        }
    }

    /// Returns what a step with these requests needs per rank, with keys and values of `cache_bytes` bytes each.
    ///
    /// ```
    /// use roofline::config::{Config, Request};
    ///
    /// let text = r#"{"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4,
    ///     "intermediate_size": 16, "vocab_size": 10}"#;
    /// let request = Request { new: 1, keys: 5, count: 2 };
    /// let needs = Config::parse(text).unwrap().forward(1, &[request], 2);
    /// let weights = 8 * 6 * 4 + 2 * 4 * 8 + 3 * 8 * 16 + 8 * 10;
    /// assert_eq!(needs.linear_flops, 2 * 2 * weights);
    /// assert_eq!(needs.weight_bytes, 2 * weights + 4 * 8 + 2 * 8);
    /// assert_eq!(needs.kv_bytes, 2 * 5 * 2 * 8 * 2);
    /// ```
    pub fn forward(&self, tp: u128, requests: &[Request], cache_bytes: u128) -> Forward {
        let tp = tp.max(1);
        let tokens: u128 = requests.iter().map(|r| times(r.new, r.count)).sum();
        let count: u128 = requests.iter().map(|r| r.count).sum();
        let attention = self.attention_weights(tp);
        let mlp = 3 * self.hidden * (self.inner / tp);
        let head = self.hidden * self.vocabulary.div_ceil(tp);
        let shared = self.shared_experts * 3 * self.hidden * (self.expert_inner / tp);
        let (mut low, mut mean, mut high) = (0_u128, 0.0_f64, 0_u128);
        let mut plain_all = 0_u128;
        let (mut per_token, mut kv, mut pairs_flops) = (0_u128, 0_u128, 0_u128);
        for layer in 0..self.layers {
            let mut linear = attention;
            let mut plain = 0;
            let experts = self.experts(tp).filter(|_| self.is_moe(layer));
            per_token += match &experts {
                None => {
                    linear += mlp;
                    linear
                }
                Some(experts) => {
                    linear += shared;
                    let router = self.hidden * self.experts;
                    plain += Bits::PLAIN.bytes(router);
                    let read = experts.read_exactly(self.experts, tokens);
                    low += read.0;
                    mean += read.1;
                    high += read.2;
                    linear + router + experts.k * experts.values_each
                }
            };
            // Two norms of 16 bits.
            plain += 4 * self.hidden;
            plain_all += self.storage.linear.bytes(linear) + plain;
            let (keys, pairs) = self.seen(layer, requests);
            let heads = self.heads / tp;
            let (d_both, d_cache) = match &self.latent {
                None => (
                    2 * self.head_dim,
                    (self.kv_heads / tp).max(1) * 2 * self.head_dim,
                ),
                Some(latent) => {
                    let key = latent.kv_rank + latent.rope;
                    (key + latent.kv_rank, key)
                }
            };
            kv += times(keys, d_cache * cache_bytes);
            pairs_flops += times(times(2 * heads, pairs), d_both);
        }
        let rest = plain_all + Bits::PLAIN.bytes(head) + 2 * self.hidden;
        let allreduce = match tp {
            1 => 0,
            _ => times(2 * self.layers * self.hidden * 2, tokens),
        };
        Forward {
            tokens,
            requests: count,
            weight_bytes: rounded(mean) + rest,
            weight_bytes_low: low + rest,
            weight_bytes_high: high + rest,
            kv_bytes: kv,
            linear_flops: times(2 * per_token, tokens) + times(2 * head, count),
            attention_flops: pairs_flops,
            allreduce_bytes: allreduce,
        }
    }

    /// Keys that are read in `layer`, and pairs of query and key.
    fn seen(&self, layer: u128, requests: &[Request]) -> (u128, u128) {
        let window = self.window_of(layer);
        requests.iter().fold((0, 0), |(keys, pairs), r| {
            let (new, own) = (r.new.min(r.keys), r.keys);
            // The i-th new token sees own - new + i + 1 keys.
            let all = times(new, own).saturating_sub(times(new, new.saturating_sub(1)) / 2);
            let (seen, all) = match window {
                None => (own, all),
                Some(w) => {
                    let short = own.saturating_sub(new);
                    // Tokens whose prefix is shorter than the window see all of it.
                    let inside = w.saturating_sub(short).min(new);
                    let first = times(inside, short) + times(inside, inside + 1) / 2;
                    let rest = times(new - inside, w);
                    (own.min((w + new).saturating_sub(1)), first + rest)
                }
            };
            (keys + times(seen, r.count), pairs + times(all, r.count))
        })
    }
}

/// Times that a forward pass takes at least.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct ForwardLimit {
    /// Time to read weights, keys and values.
    pub memory_ns: f64,
    /// Time of the arithmetic.
    pub compute_ns: f64,
    /// Time of the all-reduces; `None` if the link is not known.
    pub link_ns: Option<f64>,
    /// Arithmetic of products with weights, or what the device computes with instead.
    pub precision: Precision,
}

impl ForwardLimit {
    /// The least time of the pass, as the first line of the ladder of a step has it.
    pub fn ns(&self) -> f64 {
        self.memory_ns.max(self.compute_ns) + self.link_ns.unwrap_or(0.0)
    }
}

impl Forward {
    /// Returns what the pass takes at least on one of `ranks` devices; `None` if a peak that it takes is not known.
    pub fn limit(&self, config: &Config, ranks: u128, peaks: &Peaks) -> Option<ForwardLimit> {
        let hbm = peaks.get(PeakKey::Hbm)?;
        let (linear, precision) = peaks.matrix(config.storage.arithmetic)?;
        let (attention, _) = peaks.matrix(Precision::Bf16)?;
        // A ring sends 2(n-1)/n of what is reduced.
        let sent = times(self.allreduce_bytes, 2 * ranks.saturating_sub(1)) / ranks.max(1);
        Some(ForwardLimit {
            memory_ns: real(self.weight_bytes.saturating_add(self.kv_bytes)) / hbm,
            compute_ns: real(self.linear_flops) / (linear * 1e3)
                + real(self.attention_flops) / (attention * 1e3),
            link_ns: match sent {
                0 => Some(0.0),
                sent => peaks.get(PeakKey::Link).map(|link| real(sent) / link),
            },
            precision,
        })
    }
}

impl Storage {
    /// The storage that a configuration names; bfloat16 otherwise.
    fn of(json: &Value) -> Self {
        let plain = Bits::PLAIN;
        let name = json.get("quant").and_then(Value::as_str);
        let quantized = json.get("quantization_config");
        let text = |key: &str| quantized.and_then(|q| q.get(key)?.as_str());
        let number = |key: &str| quantized.and_then(|q| q.get(key)?.as_u64());
        let method = text("quant_method");
        let all = |bits: Bits| Self {
            linear: bits,
            experts: bits,
            arithmetic: Precision::Bf16,
        };
        let fp8 = |bits: Bits| Self {
            arithmetic: Precision::Fp8,
            ..all(bits)
        };
        let block = quantized.and_then(|q| q.get("weight_block_size")?.as_array());
        match (name, method) {
            (Some("mxfp4-experts"), _) | (None, Some("mxfp4")) => Self {
                linear: plain,
                experts: Bits::new(4, 8, 32),
                // Weights of four bits are widened before they are multiplied.
                arithmetic: Precision::Bf16,
            },
            (Some("fp8-block"), _) => fp8(Bits::new(8, 32, 128 * 128)),
            (None, Some("fp8")) => {
                let sizes = block.map(|b| b.iter().filter_map(Value::as_u64).product::<u64>());
                match sizes.filter(|n| *n > 0) {
                    Some(block) => fp8(Bits::new(8, 32, u128::from(block))),
                    None => fp8(Bits::new(8, 0, 1)),
                }
            }
            (Some("int4-g128"), _) => all(Bits::new(4, 20, 128)),
            (None, Some("awq" | "gptq")) => {
                let bits = u128::from(number("bits").unwrap_or(4));
                let group = u128::from(number("group_size").filter(|n| *n > 0).unwrap_or(128));
                // A scale of 16 bits and a zero as wide as a weight.
                all(Bits::new(bits, 16 + bits, group))
            }
            _ => all(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let text = format!(
            r#"{{"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 10, "intermediate_size": 16{more}}}"#
        );
        Config::parse(&text).unwrap()
    }

    #[test]
    fn windows_are_counted_token_by_token() {
        for w in 1..6 {
            let sliding = config(&format!(r#", "sliding_window": {w}"#));
            for keys in 0..9_u128 {
                for new in 0..=keys {
                    let request = Request {
                        new,
                        keys,
                        count: 1,
                    };
                    let sees = |i: u128| (keys - new + i + 1).min(w);
                    let pairs: u128 = (0..new).map(sees).sum();
                    let (seen, found) = sliding.seen(0, &[request]);
                    assert_eq!(found, pairs, "{w} {keys} {new}");
                    assert_eq!(seen, keys.min((w + new).saturating_sub(1)));
                }
            }
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = Config::parse("{}").unwrap_err().to_string();
        assert_eq!(
            error,
            "hidden_size is missing, no positive integer or too large"
        );
        assert!(matches!(
            Config::parse("nonsense"),
            Err(ConfigError::Json(_))
        ));
        let error = config("").check_ranks(3).unwrap_err().to_string();
        assert_eq!(error, "3 ranks do not divide num_attention_heads (2)");
        assert!(config("").check_ranks(0).is_err());
        let huge = r#"{"hidden_size": 18446744073709551615}"#;
        assert_eq!(
            Config::parse(huge),
            Err(ConfigError::Missing("hidden_size"))
        );
    }

    #[test]
    fn layers_slide_as_the_configuration_says() {
        let off = config(r#", "sliding_window": 4, "use_sliding_window": false"#);
        assert_eq!(off.window_of(0), None);
        let some = config(
            r#", "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"]"#,
        );
        assert_eq!((some.window_of(0), some.window_of(1)), (None, Some(4)));
        assert_eq!(some.window_of(7), None);
    }
}
