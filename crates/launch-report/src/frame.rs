//! Names of frames for people.

use std::borrow::Cow;
use std::collections::BTreeMap;

use trace_model::kernel::demangle;

/// Returns a frame without parts that mean nothing to a reader: the object that a built-in method is bound to, the underscore
/// that remains of a module's number, and the mangling of a C++ symbol.
pub(crate) fn readable(frame: &str) -> Cow<'_, str> {
    if let Some(module) = frame.strip_prefix("nn.Module: ") {
        return Cow::Owned(format!("nn.Module: {}", module.trim_end_matches('_')));
    }
    if frame.starts_with("_Z")
        && let Some(name) = demangle(frame)
    {
        return Cow::Owned(name);
    }
    let is_bound = frame.starts_with("<built-in method ") && frame.ends_with('>');
    match frame.split_once(" of ") {
        Some((method, object)) if is_bound && object.contains(" object at ") => {
            Cow::Owned(format!("{method}>"))
        }
        _ => Cow::Borrowed(frame),
    }
}

/// Returns the stacks of a table as one text each. Different stacks that read the same keep the names as recorded, so that
/// rows differ.
pub(crate) fn joined(stacks: &[&[String]]) -> Vec<String> {
    let short: Vec<String> = stacks
        .iter()
        .map(|stack| {
            let frames: Vec<Cow<'_, str>> = stack.iter().map(|frame| readable(frame)).collect();
            frames.join(";")
        })
        .collect();
    let mut same: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
    for (text, stack) in short.iter().zip(stacks) {
        let group = same.entry(text).or_default();
        if !group.contains(stack) {
            group.push(stack);
        }
    }
    let texts = short.iter().zip(stacks);
    texts
        .map(|(text, stack)| match same[text.as_str()].len() {
            1 => text.clone(),
            _ => stack.join(";"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lose_what_says_nothing() {
        for (frame, want) in [
            (
                "<built-in method f of pybind11_x object at 0x*>",
                "<built-in method f>",
            ),
            (
                "<built-in method f of type object>",
                "<built-in method f of type object>",
            ),
            ("nn.Module: Linear_", "nn.Module: Linear"),
            ("nn.Module: Linear", "nn.Module: Linear"),
            ("a of b object at c", "a of b object at c"),
            ("_ZN4vllm4stepEi", "vllm::step(int)"),
            ("_Zebra", "_Zebra"),
        ] {
            assert_eq!(readable(frame), want);
        }
    }

    #[test]
    fn different_stacks_never_read_the_same() {
        let stack = |frames: &[&str]| -> Vec<String> {
            frames.iter().map(|frame| (*frame).to_owned()).collect()
        };
        let [a, b, c] = [
            stack(&["nn.Module: Linear_", "f"]),
            stack(&["nn.Module: Linear", "f"]),
            stack(&["nn.Module: Norm_", "<built-in method g of X object at 0x*>"]),
        ];
        assert_eq!(
            joined(&[&a, &b, &c, &c]),
            [
                "nn.Module: Linear_;f",
                "nn.Module: Linear;f",
                "nn.Module: Norm;<built-in method g>",
                "nn.Module: Norm;<built-in method g>"
            ]
        );
    }
}
