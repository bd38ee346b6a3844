//! Group size stated in the name of a collective kernel.

/// Returns the number of ranks in the name of a peer-memory all-reduce, where it is the last
/// template argument: 8 for `cross_device_reduce_2stage<half, 8>`.
pub(crate) fn ranks_in_name(name: &str) -> Option<u32> {
    let at = name.find("cross_device_reduce")?;
    let arguments = name.get(at..)?.split_once('<')?.1;
    let mut depth = 1_usize;
    let mut last = 0;
    for (i, c) in arguments.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => {
                depth -= 1;
                if depth == 0 {
                    let size = arguments.get(last..i)?.trim().parse().ok()?;
                    return (2..=64).contains(&size).then_some(size);
                }
            }
            ',' if depth == 1 => last = i + 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_in_the_template_arguments() {
        for (name, want) in [
            (
                "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(RankData*)",
                Some(8),
            ),
            (
                "void x::cross_device_reduce_1stage<T<1, 2>, 4, false>()",
                None,
            ),
            ("void x::cross_device_reduce_1stage<T<1, 2>, 4>()", Some(4)),
            ("cross_device_reduce_1stage", None),
            ("f<half, 8>", None),
        ] {
            assert_eq!(ranks_in_name(name), want, "{name}");
        }
    }
}
