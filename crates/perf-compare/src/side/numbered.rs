//! Names that differ in one number only.

/// Returns a name with its last number replaced by `*`, if the number stands for one of several: `DecoderLayer_*`,
/// `layers.*.mlp`. Lines of source files and numbers inside words are no such number.
pub(crate) fn numbered(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let mut end = bytes.len();
    while end > 0 {
        let stop = bytes[..end].iter().rposition(u8::is_ascii_digit)? + 1;
        let head = name
            .get(..stop)?
            .trim_end_matches(|c: char| c.is_ascii_digit());
        let is_one_of = head.ends_with(['_', '.', '[', '#', ' ', '-'])
            && head.len() > 1
            && !name[stop..].starts_with(|c: char| c.is_alphanumeric());
        if is_one_of {
            return Some(format!("{head}*{}", &name[stop..]));
        }
        end = head.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn one_number_of_a_name_is_left_open() {
        for (name, wanted) in [
            (
                "nn.Module: LlamaDecoderLayer_17",
                Some("nn.Module: LlamaDecoderLayer_*"),
            ),
            ("model.layers.3.mlp", Some("model.layers.*.mlp")),
            ("layer[12]", Some("layer[*]")),
            ("decoder layer 7", Some("decoder layer *")),
            // A line of a file, sizes in words, an address.
            ("modeling_qwen2.py(243): forward", None),
            ("aten::conv2d", None),
            ("Int8Linear", None),
            ("forward", None),
            ("7", None),
            ("h\u{e9}_4", Some("h\u{e9}_*")),
        ] {
            assert_eq!(numbered(name).as_deref(), wanted, "{name}");
        }
    }
}
