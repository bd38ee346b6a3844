//! What a step did, as engines write it into the step's name.
//!
//! vLLM: `execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)`, that is tokens, then for prompts
//! and for generation the number of requests, their query tokens (`sq`) and their context tokens (`sk`). SGLang:
//! `step[DECODE bs=32 toks=32]`. Other names count if they have words of the form `name=number` in brackets.

use std::collections::BTreeMap;

/// Numbers of one step by name.
pub(crate) type Work = BTreeMap<&'static str, f64>;

/// Quantities, as they are called here and in names of steps.
const WORDS: [(&str, &[&str]); 4] = [
    (
        "requests",
        &["bs", "batch", "batch_size", "num_reqs", "reqs"],
    ),
    (
        "tokens",
        &["toks", "tokens", "num_tokens", "input_len", "seqlen"],
    ),
    (
        "context tokens",
        &["ctx", "kv", "seq_lens_sum", "context_len", "kv_len"],
    ),
    ("cached tokens", &["cached", "cached_tokens", "prefix_len"]),
];

/// The number at the start of a text, and the rest.
fn number(text: &str) -> Option<(f64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// The number right behind a word.
fn behind(text: &str, word: &str) -> Option<f64> {
    let at = text.find(word)?;
    let rest = text.get(at + word.len()..)?;
    Some(number(rest)?.0)
}

fn vllm(name: &str) -> Option<Work> {
    let at = name.find("generation_")?;
    let (head, generation) = name.split_at_checked(at)?;
    let context = head.get(head.find("context_")?..)?;
    let mut work = Work::new();
    if let Some(tokens) = behind(head, "execute_") {
        work.insert("tokens", tokens);
    }
    for (part, word, requests, context_tokens) in [
        (
            context,
            "context_",
            "prompt requests",
            "prompt context tokens",
        ),
        (generation, "generation_", "requests", "context tokens"),
    ] {
        work.insert(requests, behind(part, word)?);
        // `sqsk` is a product: the context is what follows the first number.
        let inner = part.find("(sq").and_then(|at| part.get(at + 3..));
        if let Some((queries, rest)) = inner.and_then(number) {
            if word == "context_" {
                work.insert("prompt tokens", queries);
            }
            if let Some((context, _)) = rest.strip_prefix("sk").and_then(number) {
                work.insert(context_tokens, context);
            }
        } else if word == "context_"
            && let Some((prompt, _)) = part.find('(').and_then(|at| number(part.get(at + 1..)?))
        {
            work.insert("prompt tokens", prompt);
        }
    }
    Some(work)
}

fn pairs(name: &str) -> Option<Work> {
    let inner = name.get(name.find(['[', '('])? + 1..)?;
    let words = inner.split(|c: char| !(c.is_ascii_alphanumeric() || "=_.:".contains(c)));
    let mut work = Work::new();
    for word in words {
        let Some((key, value)) = word.split_once(['=', ':']) else {
            continue;
        };
        let key = key.trim_start_matches('#').to_ascii_lowercase();
        let known = WORDS
            .iter()
            .find(|(_, names)| names.contains(&key.as_str()));
        if let (Some((known, _)), Ok(value)) = (known, value.parse::<f64>()) {
            work.insert(known, value);
        }
    }
    (!work.is_empty()).then_some(work)
}

/// Returns what a step did, if its name says it.
pub(crate) fn work(name: &str) -> Option<Work> {
    vllm(name).or_else(|| pairs(name))
}

/// The name of a step without what differs from step to step: numbers are replaced by `#` if the name says what the step did.
pub(crate) fn template(name: &str) -> String {
    if work(name).is_none() {
        return name.to_owned();
    }
    shape(name)
}

/// A name with each number replaced by `#`.
pub(crate) fn shape(name: &str) -> String {
    let mut out = String::new();
    let mut digits = false;
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !digits {
            out.push('#');
        }
        digits = c.is_ascii_digit();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers are exact")]
    fn names_of_engines() {
        let decode = work(
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
        )
        .unwrap();
        assert_eq!(decode["requests"], 32.0);
        assert_eq!(decode["context tokens"], 32785.0);
        assert_eq!(decode["tokens"], 32.0);
        assert_eq!(decode["prompt tokens"], 0.0);
        let prefill = work("execute_context_1(888)_generation_0(0)").unwrap();
        assert_eq!(
            (prefill["prompt requests"], prefill["prompt tokens"]),
            (1.0, 888.0)
        );
        let step = work("step[EXTEND bs=15 toks=15360]").unwrap();
        assert_eq!((step["requests"], step["tokens"]), (15.0, 15360.0));
        for name in [
            "Scheduler.run_batch",
            "gemm<128, 64>(float*)",
            "decode_step 7",
            "",
        ] {
            assert_eq!(work(name), None, "{name}");
        }
    }

    #[test]
    fn templates_join_steps_of_one_kind() {
        let [a, b] = [40, 9].map(|n| template(&format!("step[DECODE bs={n} toks={n}]")));
        assert_eq!(a, b);
        assert_eq!(a, "step[DECODE bs=# toks=#]");
        assert_eq!(template("layer_17"), "layer_17");
    }
}
