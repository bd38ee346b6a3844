//! Names of host code, equal for one place in the code.

use trace_model::callstack::without_addresses;
use trace_model::step_name::{step_batch, step_kind};

/// Returns the name of a place in the code: marks have the number of their step, and methods the address of their object. `*`
/// stands for the numbers that begin a word; those within one (`Qwen3Attention`) and line numbers are part of the name.
pub(crate) fn place_in_code(name: &str) -> String {
    if step_batch(name).is_some() {
        return step_kind(name);
    }
    let name = without_addresses(name);
    let mut out = String::with_capacity(name.len());
    let mut rest = &*name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(at);
        out.push_str(before);
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        let is_within = |c: char| c.is_alphanumeric() || matches!(c, '.' | '(');
        let is_part = out.ends_with(is_within) || after.starts_with(char::is_alphabetic);
        out.push_str(if is_part { number } else { "*" });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_count_are_left_out() {
        for (name, wanted) in [
            ("ProfilerStep#17", "ProfilerStep#*"),
            ("iteration 3 of 12", "iteration * of *"),
            ("step[DECODE bs=32]", "step[DECODE bs=*]"),
            ("nn.Module: Layer_31", "nn.Module: Layer_*"),
            ("Qwen3Attention.forward", "Qwen3Attention.forward"),
            (
                "engine/v1/core.py(271): step",
                "engine/v1/core.py(271): step",
            ),
            (
                "<built-in method acquire of _thread.lock object at 0x7f31c4a2d9b0>",
                "<built-in method acquire of _thread.lock object at 0x*>",
            ),
            ("", ""),
        ] {
            assert_eq!(place_in_code(name), wanted);
        }
    }
}
