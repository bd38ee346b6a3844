//! Rules that classify an access by its phase, operation, symbol and object.

use regex::Regex;
use yaml_rust2::{Yaml, YamlLoader};

use crate::error::{Error, Result};

/// One rule: everything it names must hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LabelRule {
    /// What the access is then.
    pub region_type: String,
    /// Phase, exactly.
    pub phase: Option<String>,
    /// Operation, exactly.
    pub op_type: Option<String>,
    /// Found anywhere in the symbol.
    pub symbol: Option<Regex>,
    /// Found anywhere in the object.
    pub dso: Option<Regex>,
}

impl LabelRule {
    fn holds(&self, phase: Option<&str>, op: &str, symbol: &str, dso: &str) -> bool {
        self.phase.as_deref().is_none_or(|want| phase == Some(want))
            && self.op_type.as_deref().is_none_or(|want| op == want)
            && self
                .symbol
                .as_ref()
                .is_none_or(|want| want.is_match(symbol))
            && self.dso.as_ref().is_none_or(|want| want.is_match(dso))
    }
}

/// An ordered list of rules; the first that holds decides.
///
/// ```
/// use memtrace_labeller::RuleSet;
/// let rules = RuleSet::llama_cpp();
/// assert_eq!(rules.classify(None, "load", "llama_kv_cell", ""), Some("kv_cache"));
/// assert_eq!(rules.classify(Some("weight_load"), "load", "memcpy", ""), Some("weight"));
/// assert_eq!(rules.classify(None, "load", "main", ""), None);
/// ```
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Vec<LabelRule>,
}

/// Region type, phase, operation, symbol.
type Row = (
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    &'static str,
);

/// The reference's table, in its order. `ggml_q4_0` is no weight: an underscore is part of the word.
const LLAMA_CPP: &[Row] = &[
    ("weight", Some("weight_load"), Some("store"), ""),
    ("weight", Some("weight_load"), None, ""),
    (
        "kv_cache",
        None,
        None,
        "kv_cache|kv_update|kv_read|kv_write|attn_cache|llama_kv",
    ),
    (
        "weight",
        None,
        None,
        r"ggml_vec_dot|ggml_mul_mat|ggml_q4_k|ggml_q8_k|ggml_q[48]\b",
    ),
    (
        "weight",
        None,
        None,
        "ggml_init|ggml_new_tensor|ggml_set_|model_load|load_model|load_weight",
    ),
    (
        "activation",
        None,
        None,
        "ggml_compute|ggml_add|ggml_silu|ggml_norm|ggml_rms_norm|ggml_rope",
    ),
    (
        "runtime",
        None,
        None,
        r"\A(?:malloc|calloc|realloc|free|mmap|munmap|brk)\n?\z",
    ),
];

/// Kernels of PyTorch, vLLM and TensorRT-LLM.
const ENGINES: &[Row] = &[
    (
        "kv_cache",
        None,
        None,
        "reshape_and_cache|paged_attention|kv_?cache|copy_blocks|swap_blocks|concat_and_cache",
    ),
    (
        "weight",
        None,
        None,
        "gemm|gemv|cublas|mkldnn|dnnl|onednn|matmul|linear|safetensors|load_state_dict|embedding",
    ),
    (
        "activation",
        None,
        None,
        "at::native::|flash|softmax|layer_?norm|rms_?norm|rotary|silu|gelu|sampl",
    ),
];

impl RuleSet {
    /// The reference's rules, made for llama.cpp.
    #[must_use]
    pub fn llama_cpp() -> Self {
        Self::table(LLAMA_CPP)
    }

    /// The rules for llama.cpp and after them those for kernels of PyTorch, vLLM and TensorRT-LLM.
    #[must_use]
    pub fn engines() -> Self {
        let mut set = Self::llama_cpp();
        set.rules.extend(Self::table(ENGINES).rules);
        set
    }

    fn table(rows: &[Row]) -> Self {
        let rules = rows
            .iter()
            .map(|(region_type, phase, op, symbol)| LabelRule {
                region_type: (*region_type).to_owned(),
                phase: phase.map(str::to_owned),
                op_type: op.map(str::to_owned),
                // The tables are tested; a pattern that did not compile would match nothing.
                symbol: if symbol.is_empty() {
                    None
                } else {
                    Regex::new(&format!("(?i){symbol}")).ok()
                },
                dso: None,
            })
            .collect();
        Self { rules }
    }

    /// Reads rules from YAML: a list, or a list under `rules:`. Each has `region_type`, and as wanted `phase`, `op_type`,
    /// `symbol` and `dso`, the last two being regular expressions searched anywhere without regard to case.
    ///
    /// # Errors
    ///
    /// [`Error::Rules`] and [`Error::Pattern`], naming the rule.
    ///
    /// ```
    /// use memtrace_labeller::RuleSet;
    /// let rules = RuleSet::from_yaml("rules: [{region_type: kv_cache, symbol: ^paged_}]")?;
    /// assert_eq!(rules.classify(None, "load", "Paged_attn", ""), Some("kv_cache"));
    /// # Ok::<(), memtrace_labeller::Error>(())
    /// ```
    pub fn from_yaml(text: &str) -> Result<Self> {
        let bad = |what: String| Error::Rules { what };
        let documents = YamlLoader::load_from_str(text).map_err(|error| bad(error.to_string()))?;
        let document = documents
            .first()
            .ok_or_else(|| bad("the file is empty".to_owned()))?;
        let list = match document {
            Yaml::Array(list) => list,
            other => other["rules"]
                .as_vec()
                .ok_or_else(|| bad("expected a list of rules, or one under 'rules'".to_owned()))?,
        };
        let rules = list
            .iter()
            .enumerate()
            .map(|(at, value)| rule(at + 1, value))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { rules })
    }

    /// The rules, in order.
    #[must_use]
    pub fn rules(&self) -> &[LabelRule] {
        &self.rules
    }

    /// The region type of an access. O(rules).
    #[must_use]
    pub fn classify(&self, phase: Option<&str>, op: &str, symbol: &str, dso: &str) -> Option<&str> {
        self.rules
            .iter()
            .find(|rule| rule.holds(phase, op, symbol, dso))
            .map(|rule| &*rule.region_type)
    }
}

fn rule(number: usize, value: &Yaml) -> Result<LabelRule> {
    let bad = |what: String| Error::Rules {
        what: format!("rule {number}: {what}"),
    };
    let Some(table) = value.as_hash() else {
        return Err(bad("expected a table with region_type".to_owned()));
    };
    const KNOWN: [&str; 7] = [
        "region_type",
        "phase",
        "op_type",
        "symbol",
        "dso",
        "name",
        "description",
    ];
    for key in table.keys() {
        let key = key.as_str().unwrap_or("?");
        if !KNOWN.contains(&key) {
            return Err(bad(format!(
                "unknown key '{key}'; known are {}",
                KNOWN.join(", ")
            )));
        }
    }
    let text = |key: &str| -> Result<Option<String>> {
        match &value[key] {
            Yaml::BadValue | Yaml::Null => Ok(None),
            Yaml::String(text) => Ok(Some(text.clone())),
            _ => Err(bad(format!("'{key}' is no text"))),
        }
    };
    let pattern = |key: &str| -> Result<Option<Regex>> {
        text(key)?
            .map(|pattern| {
                Regex::new(&format!("(?i){pattern}")).map_err(|source| Error::Pattern {
                    rule: number,
                    source: Box::new(source),
                })
            })
            .transpose()
    };
    Ok(LabelRule {
        region_type: text("region_type")?.ok_or_else(|| bad("no region_type".to_owned()))?,
        phase: text("phase")?,
        op_type: text("op_type")?,
        symbol: pattern("symbol")?,
        dso: pattern("dso")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_patterns_compile() {
        for rows in [LLAMA_CPP, ENGINES] {
            for ((_, _, _, symbol), rule) in rows.iter().zip(&RuleSet::table(rows).rules) {
                assert_eq!(symbol.is_empty(), rule.symbol.is_none(), "{symbol}");
            }
        }
    }

    #[test]
    fn mistakes_in_rules_are_told() {
        let error = |text: &str| RuleSet::from_yaml(text).unwrap_err().to_string();
        assert!(error("").contains("empty"));
        assert!(error("[{symbol: x}]").contains("rule 1: no region_type"));
        assert!(error("[{region_type: kv, symbl: x}]").contains("unknown key 'symbl'"));
        assert!(error("[{region_type: kv, symbol: '('}]").starts_with("rule 1:"));
    }
}
