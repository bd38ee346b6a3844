//! What a step did, as engines write it into the step's name ([`trace_model::step_name`]).

use std::collections::BTreeMap;

use trace_model::step_name::{StepBatch, step_batch, without_numbers};

/// Numbers of one step by name.
pub(crate) type Work = BTreeMap<&'static str, f64>;

/// The numbers of a batch, as they are called here.
fn quantities(batch: &StepBatch) -> [(&'static str, Option<u64>); 7] {
    let (prefill, decode) = (batch.prefill, batch.decode);
    [
        ("requests", decode.map(|d| d.requests).or(batch.requests)),
        ("tokens", batch.tokens),
        (
            "context tokens",
            decode
                .and_then(|d| d.context_tokens)
                .or(batch.context_tokens),
        ),
        ("cached tokens", batch.cached_tokens),
        ("prompt requests", prefill.map(|p| p.requests)),
        ("prompt tokens", prefill.and_then(|p| p.tokens)),
        (
            "prompt context tokens",
            prefill.and_then(|p| p.context_tokens),
        ),
    ]
}

/// Returns what a step did, if its name says it.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn work(name: &str) -> Option<Work> {
    let batch = step_batch(name)?;
    let known = quantities(&batch).into_iter();
    Some(
        known
            .filter_map(|(name, n)| Some((name, n? as f64)))
            .collect(),
    )
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
    without_numbers(name).into_owned()
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
