//! Removes the numbers from frame names that separate equal code.

use std::borrow::Cow;

use crate::step_name::step_batch;

/// Treatment of numbers in the frame names of a stack. The launch API call's own name always stays
/// unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Normalise {
    /// Keeps names unchanged.
    None,
    /// Removes all ASCII digits at the end: `nn.Module: Layer_31` becomes `nn.Module: Layer_`.
    #[default]
    Digits,
    /// Applies [`smart`].
    Smart,
}

impl Normalise {
    /// Returns the text of a frame.
    pub fn apply(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::None => Cow::Borrowed(name),
            Self::Digits => Cow::Borrowed(trim_digits(name)),
            Self::Smart => smart(name),
        }
    }
}

/// Returns `name` without the ASCII digits at its end.
pub fn trim_digits(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Returns `name` with every counter in it replaced, so that instances of the same code are equal:
///
/// | written | becomes |
/// |---|---|
/// | `nn.Module: Layer_31` | `nn.Module: Layer_` |
/// | `layers.17.mlp`, `<eval_with_key>.123(4): forward` | `layers.N.mlp`, `<eval_with_key>.N(4): forward` |
/// | `at 0x7f31c4a2d9b0` | `at 0x*` |
/// | `ProfilerStep#7` | `ProfilerStep#` |
/// | `execute_32_context_0(sq0sk0)_generation_4(sq1)` | `execute_N_context_N(sqNskN)_generation_N(sqN)` |
/// | `torchinductor_root/zg/czgnk….py(267): call` | `torchinductor_root/*/*.py(267): call` |
///
/// ```
/// # use trace_model::callstack::smart;
/// assert_eq!(smart("<eval_with_key>.10(4): forward"), smart("<eval_with_key>.12(4): forward"));
/// assert_eq!(smart("python3.12/site.py(17): f"), "python3.12/site.py(17): f");
/// ```
pub fn smart(name: &str) -> Cow<'_, str> {
    if is_generated_step(name) {
        return Cow::Owned(digits_to_n(name));
    }
    let trimmed = trim_digits(name);
    let counters = trimmed.contains('.') || trimmed.contains("0x");
    if !counters {
        return Cow::Borrowed(trimmed);
    }
    let text = replace_counters(trimmed);
    match without_cache_hash(&text) {
        Some(short) => Cow::Owned(short),
        None if text == trimmed => Cow::Borrowed(trimmed),
        None => Cow::Owned(text),
    }
}

/// Returns `name` without the addresses of objects, which differ from process to process: by them, a method would be gone in
/// one recording and new in another. Only names with an address change.
///
/// ```
/// # use trace_model::callstack::without_addresses;
/// let lock = "<built-in method acquire of _thread.lock object at 0x7f31c4a2d9b0>";
/// assert_eq!(without_addresses(lock), "<built-in method acquire of _thread.lock object at 0x*>");
/// assert_eq!(without_addresses("Layer_31"), "Layer_31");
/// ```
pub fn without_addresses(name: &str) -> Cow<'_, str> {
    match name.contains(" at 0x") {
        true => smart(name),
        false => Cow::Borrowed(name),
    }
}

/// Returns `true` for the step annotations of engines, whose names contain batch sizes and token
/// counts.
fn is_generated_step(name: &str) -> bool {
    name.starts_with("step[") || step_batch(name).is_some_and(|batch| batch.prefill.is_some())
}

fn digits_to_n(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_number = false;
    for c in name.chars() {
        let digit = c.is_ascii_digit();
        if !digit {
            out.push(c);
        } else if !in_number {
            out.push('N');
        }
        in_number = digit;
    }
    out
}

/// Replaces numbers between dots, and addresses.
fn replace_counters(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        if let Some(digits) = rest.strip_prefix("0x") {
            let after = digits.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            let word = before.is_some_and(char::is_alphanumeric);
            if digits.len() - after.len() >= 4 && !word {
                out.push_str("0x*");
                before = Some('*');
                rest = after;
                continue;
            }
        }
        if let Some(digits) = rest.strip_prefix('.') {
            let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            let ends = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            // `3.12` is a version, not a layer.
            let version = before.is_some_and(|c: char| c.is_ascii_digit());
            if after.len() < digits.len() && ends && !version {
                out.push_str(".N");
                before = Some('N');
                rest = after;
                continue;
            }
        }
        out.push(c);
        before = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Removes the hash at the end of paths of compiler-generated code.
fn without_cache_hash(name: &str) -> Option<String> {
    let marker = ["torchinductor_", "inductor_cache/"]
        .iter()
        .find_map(|m| name.find(m))?;
    let py = marker + name[marker..].find(".py(")?;
    let start = marker + name[marker..].find('/')?;
    (start < py).then(|| format!("{}/*/*{}", &name[..start], &name[py..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_at_the_end_go() {
        assert_eq!(
            trim_digits("nn.Module: DecoderLayer_31"),
            "nn.Module: DecoderLayer_"
        );
        assert_eq!(trim_digits("Foo_1)"), "Foo_1)");
        assert_eq!(trim_digits("12345"), "");
        assert_eq!(
            trim_digits("x\u{0661}"),
            "x\u{0661}",
            "other scripts' digits stay"
        );
    }

    #[test]
    fn counters_of_all_kinds_are_replaced() {
        for (name, want) in [
            ("model.layers.17.mlp.3", "model.layers.N.mlp."),
            ("<eval_with_key>.123", "<eval_with_key>."),
            (
                "<eval_with_key>.10(4): forward",
                "<eval_with_key>.N(4): forward",
            ),
            (
                "<built-in method f of T object at 0x7f31c4a2d9b0>",
                "<built-in method f of T object at 0x*>",
            ),
            ("ProfilerStep#134", "ProfilerStep#"),
            (
                "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086)",
                "execute_N_context_N(sqNskNsqsqNsqskN)_generation_N(sqNskN)",
            ),
            (
                "execute_context_1(888_788544)_generation_0(0)",
                "execute_context_N(N_N)_generation_N(N)",
            ),
            (
                "/tmp/torchinductor_root/zg/czgnkp.py(267): call",
                "/tmp/torchinductor_root/*/*.py(267): call",
            ),
            (
                "torch/_ops.py(1244): __call__",
                "torch/_ops.py(1244): __call__",
            ),
            (
                "lib/python3.12/threading.py(973): run",
                "lib/python3.12/threading.py(973): run",
            ),
            ("a.1b", "a.1b"),
            ("mask 0xff", "mask 0xff"),
        ] {
            assert_eq!(smart(name), want);
        }
    }
}
