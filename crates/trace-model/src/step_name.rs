//! Names of steps: the annotations that mark the steps of an engine or a training loop, and the
//! batch data in their names.
//!
//! The formats, with letters for numbers:
//!
//! | written by | name |
//! |---|---|
//! | PyTorch profiler | `ProfilerStep#N` |
//! | vLLM | `execute_new_N_cached_M`, `execute_model…` |
//! | vLLM | `execute_context_N(T)_generation_M(T)`, `execute_T_context_N(sqTskK…)_generation_M(sqTskK…)` |
//! | SGLang | `step[DECODE bs=N toks=T]`, `step[EXTEND bs=N toks=T]`, `decode[bs=N]` |
//! | TensorRT-LLM | `[Executor] _forward_step I: N ctx reqs, T ctx tokens, M gen reqs`, `executeStep: N ctx reqs, M gen reqs` |
//!
//! `N` counts requests whose prompts are processed, `M` requests that get a token, `T` processed
//! tokens and `K` attended tokens. vLLM's `new` requests are scheduled for the first time, `cached`
//! ones were scheduled before; the latter include the later chunks of a prompt that is processed in
//! chunks.

use std::borrow::Cow;

/// Patterns (globs) of the annotations that mark steps, in order of preference.
pub const STEP_PATTERNS: &[&str] = &[
    "ProfilerStep#*",
    "execute_*context_*",
    "execute_new_*_cached_*",
    "execute_model*",
    "gpu_model_runner: forward*",
    "step[*",
    "decode[bs=*",
    "prefill[bs=*",
    "extend[bs=*",
    "[Executor] _forward_step*",
    "_forward_step* ctx reqs*",
    "executeStep: *",
    "execute_diffusion*",
];

/// Phase of a step of a serving engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum StepPhase {
    /// Prompts are processed.
    Prefill,
    /// Tokens are generated.
    Decode,
    /// Both in one batch.
    Mixed,
}

impl StepPhase {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
        }
    }
}

/// Requests of one kind in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StepPart {
    /// Number of requests.
    pub requests: u64,
    /// Number of processed tokens, summed over the requests.
    pub tokens: Option<u64>,
    /// Number of attended tokens, including the processed ones, summed over the requests.
    pub context_tokens: Option<u64>,
}

impl StepPart {
    const fn requests(requests: u64) -> Self {
        Self {
            requests,
            tokens: None,
            context_tokens: None,
        }
    }
}

/// Batch data in the name of a step; `None` for missing values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StepBatch {
    /// Phase of the step.
    pub phase: Option<StepPhase>,
    /// Number of all requests, if they are not counted by kind.
    pub requests: Option<u64>,
    /// Number of all processed tokens.
    pub tokens: Option<u64>,
    /// Number of all attended tokens, if they are not counted by kind.
    pub context_tokens: Option<u64>,
    /// Number of prompt tokens that were cached before.
    pub cached_tokens: Option<u64>,
    /// Requests whose prompts are processed, where requests are counted by kind.
    pub prefill: Option<StepPart>,
    /// Requests that get a token, where requests are counted by kind.
    pub decode: Option<StepPart>,
}

impl StepBatch {
    /// Returns the number of requests in the batch.
    pub fn batch_size(&self) -> Option<u64> {
        match (self.prefill, self.decode) {
            (Some(prefill), Some(decode)) => prefill.requests.checked_add(decode.requests),
            _ => self.requests,
        }
    }

    /// Returns the number of processed tokens: the total in the name, or the sum over both kinds of
    /// requests.
    pub fn all_tokens(&self) -> Option<u64> {
        let by_kind = || self.prefill?.tokens?.checked_add(self.decode?.tokens?);
        self.tokens.or_else(by_kind)
    }

    /// Returns the requests whose prompts are processed, if their number is known.
    pub fn prefills(&self) -> Option<StepPart> {
        self.part(self.prefill, StepPhase::Prefill, self.tokens)
    }

    /// Returns the requests that get a token, if their number is known.
    pub fn decodes(&self) -> Option<StepPart> {
        self.part(self.decode, StepPhase::Decode, None)
    }

    fn part(
        &self,
        stated: Option<StepPart>,
        of: StepPhase,
        tokens: Option<u64>,
    ) -> Option<StepPart> {
        if stated.is_some() {
            return stated;
        }
        let requests = self.requests?;
        match self.phase? {
            StepPhase::Mixed => None,
            phase if phase == of => Some(StepPart {
                tokens,
                ..StepPart::requests(requests)
            }),
            _ => Some(StepPart::default()),
        }
    }

    /// Creates a batch whose requests are counted by kind.
    fn counted(prefill: StepPart, decode: StepPart) -> Self {
        let phase = match (prefill.requests > 0, decode.requests > 0) {
            (true, true) => Some(StepPhase::Mixed),
            (true, false) => Some(StepPhase::Prefill),
            (false, true) => Some(StepPhase::Decode),
            (false, false) => None,
        };
        Self {
            phase,
            prefill: Some(prefill),
            decode: Some(decode),
            ..Self::default()
        }
    }
}

/// Returns the batch data in the name of a step, or `None` if there are none.
///
/// ```
/// use trace_model::step_name::{StepPhase, step_batch};
///
/// let batch = step_batch("[Executor] _forward_step 3: 1 ctx reqs, 8 gen reqs").unwrap();
/// assert_eq!((batch.phase, batch.batch_size()), (Some(StepPhase::Mixed), Some(9)));
/// assert_eq!(step_batch("execute_new_0_cached_32").unwrap().phase, Some(StepPhase::Decode));
/// assert_eq!(step_batch("ProfilerStep#3"), None);
/// ```
pub fn step_batch(name: &str) -> Option<StepBatch> {
    context_and_generation(name)
        .or_else(|| new_and_cached(name))
        .or_else(|| ctx_and_gen(name))
        .or_else(|| pairs(name))
}

/// Returns the phase in the name of a step: from its batch, else from a separate word (`decode_step
/// 7`, not `decoder`).
pub fn step_phase(name: &str) -> Option<StepPhase> {
    match step_batch(name) {
        // If requests are counted by kind, words in the name add nothing.
        Some(batch) if batch.prefill.is_some() || batch.phase.is_some() => batch.phase,
        _ => phase_word(name),
    }
}

/// Words in names that denote a phase.
const PHASE_WORDS: [(&str, StepPhase); 4] = [
    ("prefill", StepPhase::Prefill),
    ("extend", StepPhase::Prefill),
    ("decode", StepPhase::Decode),
    ("mixed", StepPhase::Mixed),
];

/// Returns the phase that a single word denotes.
pub fn phase_of_word(word: &str) -> Option<StepPhase> {
    let known = PHASE_WORDS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(word));
    known.map(|(_, phase)| *phase)
}

/// Returns the phase that a separate word in a name denotes.
pub fn phase_word(name: &str) -> Option<StepPhase> {
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(phase_of_word)
}

/// Returns the kind of a step, which equal steps share: its name with `*` for numbers. If requests
/// are counted by kind, a count of 0 stays, since it distinguishes phases.
///
/// ```
/// use trace_model::step_name::step_kind;
///
/// assert_eq!(step_kind("ProfilerStep#0"), "ProfilerStep#*");
/// assert_eq!(step_kind("step[DECODE bs=32]"), "step[DECODE bs=*]");
/// assert_eq!(step_kind("execute_new_0_cached_32"), "execute_new_0_cached_*");
/// ```
pub fn step_kind(name: &str) -> String {
    let is_counted = step_batch(name).is_some_and(|batch| batch.prefill.is_some());
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(at);
        out.push_str(before);
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        let is_zero = number.bytes().all(|b| b == b'0');
        // A number before a colon is the step number.
        let is_count = is_counted && !after.starts_with(':');
        out.push_str(if is_zero && is_count { "0" } else { "*" });
        rest = after;
    }
    out + rest
}

/// Returns the group of steps that are alike: the phase that the name states, else the kind of the step.
///
/// ```
/// use trace_model::step_name::step_group;
///
/// assert_eq!(step_group("execute_context_0(0)_generation_32(32)"), "decode");
/// assert_eq!(step_group("ProfilerStep#3"), "ProfilerStep#*");
/// ```
pub fn step_group(name: &str) -> String {
    match step_phase(name) {
        Some(phase) => phase.name().to_owned(),
        None => step_kind(name),
    }
}

/// Returns `name` with each number, including a `#` before it, replaced by `#`.
pub fn without_numbers(name: &str) -> Cow<'_, str> {
    if !name.bytes().any(|b| b.is_ascii_digit()) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c.is_ascii_digit() {
            false => out.push(c),
            true if out.ends_with('#') => {}
            true => out.push('#'),
        }
    }
    Cow::Owned(out)
}

/// Returns the number at the start of a text, and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// Parses requests, tokens and attended tokens of `3(sq48sk900…)`, and of `3(888)` and
/// `3(888_788544)`, which have no attended tokens.
///
/// `sqsk` is a sum of products, so the attended tokens are the number after the first one.
fn counted(text: &str) -> Option<StepPart> {
    let (requests, rest) = number(text)?;
    let inside = rest.strip_prefix('(').unwrap_or("");
    let with_context = inside.strip_prefix("sq");
    let tokens = number(with_context.unwrap_or(inside));
    let context = tokens
        .filter(|_| with_context.is_some())
        .and_then(|(_, rest)| number(rest.strip_prefix("sk")?));
    Some(StepPart {
        requests,
        tokens: tokens.map(|t| t.0),
        context_tokens: context.map(|c| c.0),
    })
}

/// Parses `execute_34_context_2(sq30sk930…)_generation_4(sq4sk8100…)` and
/// `execute_context_1(888)_generation_0(0)`.
fn context_and_generation(name: &str) -> Option<StepBatch> {
    let (head, generation) = name.split_once("generation_")?;
    let (head, context) = head.split_once("context_")?;
    let decode = counted(generation)?;
    let mut prefill = counted(context)?;
    let tokens = head.strip_prefix("execute_").and_then(number);
    let tokens = tokens.map(|t| t.0);
    // The tokens of a batch are those of prompts plus one for each other request.
    prefill.tokens = prefill
        .tokens
        .or_else(|| tokens?.checked_sub(decode.requests));
    Some(StepBatch {
        tokens,
        ..StepBatch::counted(prefill, decode)
    })
}

/// Parses `execute_new_1_cached_32`.
fn new_and_cached(name: &str) -> Option<StepBatch> {
    let (new, rest) = number(name.strip_prefix("execute_new_")?)?;
    let (cached, _) = number(rest.strip_prefix("_cached_")?)?;
    Some(StepBatch::counted(
        StepPart::requests(new),
        StepPart::requests(cached),
    ))
}

/// Parses `[Executor] _forward_step 3: 1 ctx reqs, 64 ctx tokens, 32 gen reqs`.
fn ctx_and_gen(name: &str) -> Option<StepBatch> {
    let before = |what: &str| {
        let head = name.split_once(what)?.0;
        let digits = head.bytes().rev().take_while(u8::is_ascii_digit).count();
        number(head.get(head.len() - digits..)?).map(|n| n.0)
    };
    let mut prefill = StepPart::requests(before(" ctx reqs")?);
    prefill.tokens = before(" ctx tokens");
    let mut decode = StepPart::requests(before(" gen reqs")?);
    decode.tokens = before(" gen tokens");
    Some(StepBatch::counted(prefill, decode))
}

/// Parses words of the form `name=number` in brackets: `step[DECODE bs=32 toks=32]`.
fn pairs(name: &str) -> Option<StepBatch> {
    let inner = name.get(name.find(['[', '('])? + 1..)?;
    let words = inner.split(|c: char| !(c.is_ascii_alphanumeric() || "=_.:".contains(c)));
    let mut batch = StepBatch::default();
    let mut is_known = false;
    for word in words {
        let Some((key, value)) = word.split_once(['=', ':']) else {
            continue;
        };
        let Ok(value) = value.parse() else {
            continue;
        };
        let place = match key.to_ascii_lowercase().as_str() {
            "bs" | "batch" | "batch_size" | "num_reqs" | "reqs" => &mut batch.requests,
            "toks" | "tokens" | "num_tokens" | "input_len" | "seqlen" => &mut batch.tokens,
            "ctx" | "kv" | "seq_lens_sum" | "context_len" | "kv_len" => &mut batch.context_tokens,
            "cached" | "cached_tokens" | "prefix_len" => &mut batch.cached_tokens,
            _ => continue,
        };
        *place = Some(value);
        is_known = true;
    }
    batch.phase = phase_word(name);
    is_known.then_some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::NamePattern;

    fn part(requests: u64, tokens: Option<u64>, context_tokens: Option<u64>) -> StepPart {
        StepPart {
            requests,
            tokens,
            context_tokens,
        }
    }

    #[test]
    fn names_of_engines_are_steps_and_state_their_batches() {
        let vllm =
            "execute_34_context_2(sq30sk930sqsq500sqsk14000)_generation_4(sq4sk8100sqsq4sqsk8100)";
        for (name, phase, size, prefill, decode) in [
            (
                "execute_context_1(888_788544)_generation_0(0)",
                StepPhase::Prefill,
                1,
                part(1, Some(888), None),
                part(0, Some(0), None),
            ),
            (
                "execute_context_2(512)_generation_3(3)",
                StepPhase::Mixed,
                5,
                part(2, Some(512), None),
                part(3, Some(3), None),
            ),
            (
                vllm,
                StepPhase::Mixed,
                6,
                part(2, Some(30), Some(930)),
                part(4, Some(4), Some(8100)),
            ),
            (
                "execute_new_1_cached_0",
                StepPhase::Prefill,
                1,
                part(1, None, None),
                part(0, None, None),
            ),
            (
                "execute_new_0_cached_256",
                StepPhase::Decode,
                256,
                part(0, None, None),
                part(256, None, None),
            ),
            (
                "[Executor] _forward_step 3: 1 ctx reqs, 0 gen reqs",
                StepPhase::Prefill,
                1,
                part(1, None, None),
                part(0, None, None),
            ),
            (
                "[Executor] _forward_step 9: 2 ctx reqs, 64 ctx tokens, 32 gen reqs",
                StepPhase::Mixed,
                34,
                part(2, Some(64), None),
                part(32, None, None),
            ),
            (
                "_forward_step: 0 ctx reqs, 7 gen reqs",
                StepPhase::Decode,
                7,
                part(0, None, None),
                part(7, None, None),
            ),
            (
                "executeStep: 1 ctx reqs, 7 gen reqs",
                StepPhase::Mixed,
                8,
                part(1, None, None),
                part(7, None, None),
            ),
            (
                "step[DECODE bs=32 toks=32]",
                StepPhase::Decode,
                32,
                part(0, None, None),
                part(32, None, None),
            ),
            (
                "step[EXTEND bs=15 toks=15360]",
                StepPhase::Prefill,
                15,
                part(15, Some(15_360), None),
                part(0, None, None),
            ),
            (
                "decode[bs=8]",
                StepPhase::Decode,
                8,
                part(0, None, None),
                part(8, None, None),
            ),
        ] {
            let batch = step_batch(name).unwrap();
            assert_eq!(step_phase(name), Some(phase), "{name}");
            assert_eq!(batch.batch_size(), Some(size), "{name}");
            assert_eq!(batch.prefills(), Some(prefill), "{name}");
            assert_eq!(batch.decodes(), Some(decode), "{name}");
            let is_step = |pattern: &&str| NamePattern::glob(pattern).matches(name);
            assert!(STEP_PATTERNS.iter().any(is_step), "{name}");
        }
        let mixed = step_batch("step[MIXED bs=4 toks=90]").unwrap();
        assert_eq!((mixed.prefills(), mixed.decodes()), (None, None));
        assert_eq!(mixed.batch_size(), Some(4));
        for name in ["ProfilerStep#6", "Scheduler.run_batch", "decode_step 7", ""] {
            assert_eq!(step_batch(name), None, "{name}");
        }
        assert_eq!(step_phase("decode_step 7"), Some(StepPhase::Decode));
        assert_eq!(step_phase("decoder"), None);
    }

    #[test]
    fn steps_of_one_kind_differ_in_numbers_only() {
        for (name, kind) in [
            ("ProfilerStep#0", "ProfilerStep#*"),
            ("step 0", "step *"),
            (
                "execute_context_0(0)_generation_32(32)",
                "execute_context_0(0)_generation_*(*)",
            ),
            ("execute_new_2_cached_0", "execute_new_*_cached_0"),
            (
                "[Executor] _forward_step 0: 1 ctx reqs, 0 gen reqs",
                "[Executor] _forward_step *: * ctx reqs, 0 gen reqs",
            ),
        ] {
            assert_eq!(step_kind(name), kind);
        }
        assert_eq!(without_numbers("a12b3"), "a#b#");
        assert_eq!(without_numbers("ProfilerStep#12"), "ProfilerStep#");
    }
}
