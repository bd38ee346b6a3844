//! Numbers against counting by hand: every multiplication, mask position, touched address, tap and drawn expert.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use roofline::{CollectiveSizes, Context, Models, Numbers, Recorded};
use serde_json::json;

fn numbers(op: &str, dims: &serde_json::Value, types: &[&str], more: More<'_>) -> Numbers {
    let recorded = Recorded::parse(
        Some(&dims.to_string()),
        Some(&json!(types).to_string()),
        more.strides.map(|s| s.to_string()).as_deref(),
        more.concrete.map(|c| json!(c).to_string()).as_deref(),
    );
    Models::builtin()
        .numbers(op, &recorded, &more.context)
        .unwrap()
}

#[derive(Default)]
struct More<'a> {
    strides: Option<&'a serde_json::Value>,
    concrete: Option<&'a [&'a str]>,
    context: Context<'a>,
}

/// All indices of a shape.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![Vec::new()], |all, n| {
        let longer = all.iter().flat_map(|index| {
            (0..*n).map(move |i| {
                let mut index = index.clone();
                index.push(i);
                index
            })
        });
        longer.collect()
    })
}

/// Addresses that are touched by all indices of a tensor.
fn touched(shape: &[u64], strides: &[u64]) -> usize {
    let address = |index: &Vec<u64>| index.iter().zip(strides).map(|(i, s)| i * s).sum::<u64>();
    let all: BTreeSet<u64> = indices(shape).iter().map(address).collect();
    all.len()
}

/// Contiguous strides, 0 where a dimension is expanded.
fn strides(shape: &[u64], expanded: &[bool]) -> Vec<u64> {
    let mut strides = vec![0; shape.len()];
    let mut next = 1;
    for at in (0..shape.len()).rev() {
        if !expanded[at] {
            strides[at] = next;
            next *= shape[at].max(1);
        }
    }
    strides
}

proptest! {
    #[test]
    fn products(b in 1_u64..4, m in 0_u64..5, n in 0_u64..5, k in 0_u64..5, wide in prop::collection::vec(any::<bool>(), 6)) {
        let (left, right) = ([b, m, k], [b, k, n]);
        let (s, t) = (strides(&left, &wide[..3]), strides(&right, &wide[3..]));
        let all = json!([s, t]);
        let more = More { strides: Some(&all), ..More::default() };
        let found = numbers("aten::bmm", &json!([left, right]), &["c10::Half", "c10::Half"], more);
        let multiplied = indices(&[b, m, n, k]).len() as u128;
        prop_assert_eq!(found.flops, Some(2 * multiplied));
        let moved = touched(&left, &s) + touched(&right, &t) + indices(&[b, m, n]).len();
        prop_assert_eq!(found.bytes, 2 * moved as u128);
        let flat = numbers("aten::mm", &json!([[m, k], [k, n]]), &["float", "float"], More::default());
        prop_assert_eq!(flat.flops, Some(2 * indices(&[m, n, k]).len() as u128));
        prop_assert_eq!(flat.weight_bytes, 4 * u128::from(k * n));
        let linear = numbers("aiter::gemm_a16w16", &json!([[m, k], [n, k]]), &["float", "float"], More::default());
        prop_assert_eq!((linear.flops, linear.bytes), (flat.flops, flat.bytes));
    }

    #[test]
    fn pointwise_broadcasts(a in prop::collection::vec(1_u64..4, 0..4), expand in prop::collection::vec(any::<bool>(), 4)) {
        // The other operand is of length 1 where it is repeated.
        let b: Vec<u64> = a.iter().zip(&expand).map(|(n, one)| if *one { 1 } else { *n }).collect();
        let found = numbers("aten::mul", &json!([a, b]), &["float", "c10::Half"], More::default());
        let all = indices(&a).len() as u128;
        prop_assert_eq!(found.flops, Some(all));
        let read = if a.is_empty() { 0 } else { 4 * all + 2 * indices(&b).len() as u128 };
        prop_assert_eq!(found.bytes, read + 4 * all);
    }

    #[test]
    fn reductions(shape in prop::collection::vec(1_u64..4, 1..4), which in prop::collection::vec(any::<bool>(), 3)) {
        let dims: Vec<usize> = (0..shape.len()).filter(|at| which[*at]).collect();
        let text = json!(dims).to_string();
        let concrete = ["", text.as_str(), "False", ""];
        let more = More { concrete: Some(&concrete), ..More::default() };
        let types = ["int", "ScalarList", "Scalar", ""];
        let found = numbers("aten::sum", &json!([shape, [], [], []]), &types, more);
        // None of the dimensions stands for all.
        let keeps = |at: usize| !dims.is_empty() && !dims.contains(&at);
        let kept: BTreeSet<Vec<u64>> = indices(&shape).into_iter().map(|index| {
            index.into_iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, i)| i).collect()
        }).collect();
        let all = indices(&shape).len() as u128;
        prop_assert_eq!(found.flops, Some(all));
        prop_assert_eq!(found.bytes, 4 * all + 8 * kept.len() as u128);
    }

    #[test]
    fn attention(b in 1_u64..3, h in 1_u64..4, q in 0_u64..6, k in 0_u64..6, d in 1_u64..4, causal in any::<bool>()) {
        let flag = if causal { "True" } else { "False" };
        let flags = ["", "", "", "0.0", flag];
        let types = ["float", "float", "float", "Scalar", "Scalar"];
        let dims = json!([[b, h, q, d], [b, h, k, d], [b, h, k, d], [], []]);
        let more = More { concrete: Some(&flags), ..More::default() };
        let found = numbers("aten::_scaled_dot_product_flash_attention", &dims, &types, more);
        let pairs = |sees: &dyn Fn(u64, u64) -> bool| {
            indices(&[b, h, q, k]).iter().filter(|i| !causal || sees(i[2], i[3])).count() as u128
        };
        let first = pairs(&|i, j| j <= i);
        prop_assert_eq!(found.flops, Some(2 * first * 2 * u128::from(d)));
        let flags = ["", "", "", "0.0", "1.0", flag];
        let types = ["float", "float", "float", "Scalar", "Scalar", "Scalar"];
        let dims = json!([[b, q, h, d], [b, k, h, d], [b, k, h, d], [], [], []]);
        let more = More { concrete: Some(&flags), ..More::default() };
        let found = numbers("flash_attn::_flash_attn_forward", &dims, &types, more);
        let last = pairs(&|i, j| j + q <= i + k);
        prop_assert_eq!(found.flops, Some(2 * last * 2 * u128::from(d)));
        let moved = 4 * u128::from(b * h * d) * u128::from(2 * q + 2 * k);
        prop_assert_eq!((found.bytes, found.kv_bytes), (moved, 4 * u128::from(2 * b * h * d * k)));
    }

    #[test]
    fn windows_of_dense_attention(
        b in 1_u64..3, q in 0_u64..7, k in 0_u64..7, left in -1_i64..8, right in -1_i64..8, causal in any::<bool>()
    ) {
        let (h, d) = (2, 3);
        let flag = if causal { "True" } else { "False" };
        let windows = [left.to_string(), right.to_string()];
        // Places of the flag and of the left window; the other arguments count nothing here.
        for (op, flag_at, left_at) in [
            ("flash_attn_3::fwd", 24, 25),
            ("sgl_kernel::fwd", 24, 25),
            ("flash_attn::_flash_attn_forward", 5, 6),
            ("aten::_flash_attention_forward", 8, 11),
        ] {
            let mut concrete = vec![""; 33];
            concrete[flag_at] = flag;
            concrete[left_at] = &windows[0];
            concrete[left_at + 1] = &windows[1];
            let mut types = vec![""; 33];
            types[..3].fill("float");
            let mut dims = vec![json!([]); 33];
            dims[0] = json!([b, q, h, d]);
            dims[1] = json!([b, k, h, d]);
            dims[2] = json!([b, k, h, d]);
            let more = More { concrete: Some(&concrete), ..More::default() };
            let found = numbers(op, &json!(dims), &types, more);
            // The last query is lined up with the last key.
            let sees = |i: u64, j: u64| {
                let distance = i64::try_from(j + q).unwrap() - i64::try_from(i + k).unwrap();
                let after = if causal { 0 } else { right };
                (left < 0 || -distance <= left) && (after < 0 || distance <= after)
            };
            let pairs = indices(&[q, k]).iter().filter(|i| sees(i[0], i[1])).count() as u64;
            prop_assert_eq!(found.flops, Some(u128::from(2 * b * h * pairs * 2 * d)), "{} {:?}", op, found.note);
            // Keys before the window of the first query are not read.
            let first = i64::try_from(k).unwrap() - i64::try_from(q).unwrap() - left;
            let unread = if left < 0 { 0 } else { u64::try_from(first).unwrap_or(0).min(k) };
            let moved = 4 * b * h * d * (2 * q + 2 * (k - unread));
            prop_assert_eq!(found.bytes, u128::from(moved));
            prop_assert_eq!(found.basis, roofline::Basis::Exact);
        }
    }

    #[test]
    fn convolutions(n in 1_u64..9, k in 1_u64..4, s in 1_u64..4, p in 0_u64..3, d in 1_u64..3, groups in 1_u64..3) {
        let (c_in, c_out) = (2 * groups, 3 * groups);
        let texts = [s, p, d].map(|x| format!("[{x}]"));
        let group = groups.to_string();
        let concrete = ["", "", "", &texts[0], &texts[1], &texts[2], "False", "[0]", &group];
        let types = ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"];
        let dims = json!([[2, c_in, n], [c_out, c_in / groups, k], [], [], [], [], [], [], []]);
        let more = More { concrete: Some(&concrete), ..More::default() };
        let found = numbers("aten::convolution", &dims, &types, more);
        // Windows that lie in the padded row.
        let reach = d * (k - 1);
        let windows = (0..n + 2 * p).step_by(usize::try_from(s).unwrap()).filter(|at| at + reach < n + 2 * p).count() as u128;
        let taps = 2 * u128::from(c_out) * windows * u128::from(c_in / groups * k);
        prop_assert_eq!(found.flops, Some(2 * taps));
        let moved = u128::from(2 * c_in * n + c_out * (c_in / groups) * k) + 2 * u128::from(c_out) * windows;
        prop_assert_eq!(found.bytes, 4 * moved);
    }

    #[test]
    fn rings_send_what_is_counted(n in 2_u64..9, chunk in 1_u64..5) {
        // A ring passes a chunk to the next device in each of n - 1 rounds; an all-reduce does it twice.
        let elements = i64::try_from(n * chunk).unwrap();
        let sent_once = u128::from(4 * chunk * (n - 1));
        for (name, inside, outside, sent) in [
            ("allreduce", elements, elements, 2 * sent_once),
            ("_allgather_base", elements / i64::try_from(n).unwrap(), elements, sent_once),
            ("_reduce_scatter_base", elements, elements / i64::try_from(n).unwrap(), sent_once),
            ("all_to_all", elements, elements, sent_once),
            ("broadcast", elements, elements, u128::from(4 * n * chunk)),
        ] {
            let sizes = CollectiveSizes {
                name: name.to_owned(),
                dtype: "Float".to_owned(),
                in_elements: Some(inside),
                out_elements: Some(outside),
                group_size: i64::try_from(n).ok(),
            };
            let context = Context { collective: Some(&sizes), ..Context::default() };
            let more = More { context, ..More::default() };
            let found = numbers("record_param_comms", &json!([]), &[], more);
            prop_assert_eq!(found.link_bytes, sent, "{}", name);
            prop_assert_eq!(found.bytes, 4 * u128::try_from(inside + outside).unwrap());
        }
    }
}

/// Experts that all draws of `k` of `experts` for each of `tokens` tokens touch, on average.
fn drawn(experts: u32, k: u32, tokens: u32) -> f64 {
    let sets: Vec<u32> = (0..1_u32 << experts)
        .filter(|set| set.count_ones() == k)
        .collect();
    let mut unions = vec![0_u32];
    for _ in 0..tokens {
        unions = unions
            .iter()
            .flat_map(|union| sets.iter().map(move |set| union | set))
            .collect();
    }
    let sum: u64 = unions
        .iter()
        .map(|union| u64::from(union.count_ones()))
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let mean = sum as f64 / unions.len() as f64;
    mean
}

#[test]
fn experts_are_drawn_uniformly() {
    for (experts, k, tokens) in [(3, 1, 4), (4, 2, 3), (5, 2, 2), (4, 4, 2), (3, 2, 1)] {
        let (width, rows, inner) = (8, 6, 4);
        let dims = json!([
            [tokens, width],
            [experts, rows, width],
            [experts, width, inner],
            [tokens, k],
            [tokens, k]
        ]);
        let types = ["float", "float", "float", "float", "int"];
        let found = numbers(
            "vllm::outplace_fused_experts",
            &dims,
            &types,
            More::default(),
        );
        let each = u128::from(4_u32 * (rows * width + width * inner));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small counts"
        )]
        let mean = (each as f64 * drawn(experts, k, tokens)).round_ties_even() as u128;
        assert_eq!(found.weight_bytes, mean, "{experts} {k} {tokens}");
        let fixed = found.bytes - mean;
        assert_eq!(found.bytes_low - fixed, each * u128::from(k.min(experts)));
        let most = u128::from(experts.min(tokens * k));
        assert_eq!(found.bytes_high, Some(fixed + each * most));
        let flops = 2 * u128::from(tokens * k * (rows * width + width * inner));
        assert_eq!(found.flops, Some(flops));
    }
}

#[test]
fn groups_of_rows_are_multiplied_with_their_matrix() {
    let (inner, outer) = (6_u32, 5_u32);
    for (groups, tokens) in [(1, 4), (3, 4), (4, 2)] {
        // Rows of tokens against a matrix of each group, and the same with both operands transposed.
        let forward = json!([[tokens, inner], [groups, inner, outer], [groups], [], []]);
        let turned = json!([[groups, outer, inner], [inner, tokens], [groups], [], []]);
        let types = ["c10::BFloat16", "c10::BFloat16", "int", "", ""];
        let multiplied = u128::from(tokens * inner * outer);
        let each = u128::from(2 * inner * outer);
        let fixed = u128::from(2 * tokens * (inner + outer) + 4 * groups);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small counts"
        )]
        let mean = (each as f64 * drawn(groups, 1, tokens)).round_ties_even() as u128;
        for dims in [forward, turned] {
            let found = numbers("aten::_grouped_mm", &dims, &types, More::default());
            assert_eq!(found.flops, Some(2 * multiplied), "{dims}");
            assert_eq!((found.weight_bytes, found.bytes), (mean, fixed + mean));
            assert_eq!(found.bytes_low, fixed + each);
            let most = u128::from(groups.min(tokens));
            assert_eq!(found.bytes_high, Some(fixed + each * most));
        }
        // Gradients: the tokens are divided among the groups, and each has a result.
        let dims = json!([[inner, tokens], [tokens, outer], [groups], [], []]);
        let found = numbers("aten::_grouped_mm", &dims, &types, More::default());
        assert_eq!(found.flops, Some(2 * multiplied));
        let moved = 2 * (tokens * (inner + outer) + groups * inner * outer) + 4 * groups;
        assert_eq!(found.bytes, u128::from(moved));
        assert_eq!(found.basis, roofline::Basis::Exact);
        // Bytes of one, scales of each row and column, a result of two bytes.
        let dims = json!([
            [tokens, inner],
            [groups, inner, outer],
            [tokens],
            [groups, outer],
            [groups],
            [],
            [],
            [],
            []
        ]);
        let fp8 = "c10::Float8_e4m3fn";
        let types = [
            fp8, fp8, "float", "float", "int", "", "", "Scalar", "Scalar",
        ];
        let found = numbers("aten::_scaled_grouped_mm", &dims, &types, More::default());
        let scales = 4 * (tokens + groups * outer + groups);
        let fixed = u128::from(tokens * inner + 2 * tokens * outer + scales);
        assert_eq!(found.bytes - found.weight_bytes, fixed);
        assert_eq!(found.flops, Some(2 * multiplied));
    }
    // As many matrices on both sides.
    let dims = json!([[3, 4, 5], [3, 5, 6], [], [], []]);
    let types = ["c10::BFloat16", "c10::BFloat16", "", "", ""];
    let found = numbers("aten::_grouped_mm", &dims, &types, More::default());
    assert_eq!(found.flops, Some(2 * 3 * 4 * 5 * 6));
    assert_eq!(found.bytes, 2 * 3 * (4 * 5 + 5 * 6 + 4 * 6));
}

#[test]
fn weights_of_four_bits_are_half_a_byte() {
    let (tokens, inner, outer, group) = (7_u32, 256_u32, 96_u32, 128_u32);
    let dims = json!([
        [tokens, inner],
        [outer / 8, inner / 64, 32, 2],
        [],
        [inner / group, outer, 2]
    ]);
    let types = ["c10::BFloat16", "int", "Scalar", "c10::BFloat16"];
    let found = numbers("aten::_weight_int4pack_mm", &dims, &types, More::default());
    assert_eq!(found.flops, Some(u128::from(2 * tokens * inner * outer)));
    let weight = inner * outer / 2;
    let scales = 2 * 2 * (inner / group) * outer;
    let moved = 2 * tokens * (inner + outer) + weight + scales;
    assert_eq!(found.bytes, u128::from(moved));
    assert_eq!(found.weight_bytes, u128::from(weight));
    // Of eight bits a byte each, with a scale for each row.
    let dims = json!([[tokens, inner], [outer, inner], [outer]]);
    let types = ["c10::BFloat16", "signed char", "c10::BFloat16"];
    let found = numbers("aten::_weight_int8pack_mm", &dims, &types, More::default());
    assert_eq!(found.flops, Some(u128::from(2 * tokens * inner * outer)));
    let moved = 2 * tokens * (inner + outer) + inner * outer + 2 * outer;
    assert_eq!(found.bytes, u128::from(moved));
}

#[test]
fn bounds_may_be_tensors() {
    let half = "c10::Half";
    for (op, dims, types, read) in [
        // Bounds of a row and of a column.
        (
            "aten::clamp",
            json!([[9, 17], [17], [9, 1]]),
            vec![half; 3],
            9 * 17 + 17 + 9,
        ),
        (
            "aten::clamp_min",
            json!([[9, 17], [9, 17]]),
            vec![half; 2],
            2 * 9 * 17,
        ),
        // The bound makes the result larger.
        (
            "aten::clamp_max",
            json!([[1, 17], [9, 1]]),
            vec![half; 2],
            17 + 9,
        ),
        (
            "aten::clamp_",
            json!([[9, 17], [17], []]),
            vec![half, half, ""],
            9 * 17 + 17,
        ),
        (
            "aten::clamp",
            json!([[9, 17], [], []]),
            vec![half, "Scalar", "Scalar"],
            9 * 17,
        ),
    ] {
        let found = numbers(op, &dims, &types, More::default());
        assert_eq!(found.flops, Some(9 * 17), "{op} {dims}");
        assert_eq!(found.bytes, 2 * (read + 9 * 17), "{op} {dims}");
    }
    // A bound of a wider type widens the result.
    let types = [half, "", "float"];
    let found = numbers(
        "aten::clamp",
        &json!([[9, 17], [], [17]]),
        &types,
        More::default(),
    );
    assert_eq!(found.bytes, 2 * 9 * 17 + 4 * 17 + 4 * 9 * 17);
}

#[test]
fn magnitudes_are_real() {
    for (kind, width, of_result) in [("c10::complex<float>", 8, 4), ("double", 8, 8)] {
        let found = numbers("aten::abs", &json!([[9, 33]]), &[kind], More::default());
        assert_eq!(found.bytes, 9 * 33 * (width + of_result), "{kind}");
    }
}

#[test]
fn rounded_quotients_have_the_type_of_the_operands() {
    let of = |op: &str, types: &[&str], mode: Option<&str>| {
        let dims = match types.len() {
            2 => json!([[5, 3], [5, 3]]),
            _ => json!([[5, 3], [5, 3], []]),
        };
        let concrete = ["", "", mode.unwrap_or("")];
        let more = More {
            concrete: Some(&concrete),
            ..More::default()
        };
        numbers(op, &dims, types, more)
    };
    let bytes = |width: u128| 15 * (8 + 8 + width);
    let plain = of("aten::div", &["long int", "long int"], None);
    assert_eq!(
        (plain.bytes, plain.basis),
        (bytes(4), roofline::Basis::Exact)
    );
    let floor = of("aten::div", &["long int", "long int", ""], Some("floor"));
    assert_eq!(
        (floor.bytes, floor.basis),
        (bytes(8), roofline::Basis::Exact)
    );
    // Texts are not recorded: one of the two.
    let either = of("aten::div", &["long int", "long int", ""], None);
    assert_eq!(
        (either.bytes, either.basis),
        (bytes(8), roofline::Basis::Estimate)
    );
    assert_eq!(
        (either.bytes_low, either.bytes_high),
        (bytes(4), Some(bytes(8)))
    );
    let real = of("aten::div", &["double", "double", ""], None);
    assert_eq!((real.bytes, real.basis), (bytes(8), roofline::Basis::Exact));
    let inside = of("aten::div_", &["long int", "long int", ""], None);
    assert_eq!(
        (inside.bytes, inside.basis),
        (bytes(8), roofline::Basis::Exact)
    );
}

/// Texts that may be anything, and some that nearly fit.
fn odd_text() -> impl Strategy<Value = String> {
    let list = prop::collection::vec(
        prop_oneof![
            Just("[]".to_owned()),
            Just("[-1]".to_owned()),
            Just("[0, 0]".to_owned()),
            Just("[9223372036854775807, 9223372036854775807]".to_owned()),
            Just("[3, 4]".to_owned()),
            Just("[2, 3, 4]".to_owned()),
            Just("[2, 3, 4, 5]".to_owned()),
            Just("[[2], [3]]".to_owned()),
            Just("\"c10::BFloat16\"".to_owned()),
            Just("\"float\"".to_owned()),
            Just("\"Scalar\"".to_owned()),
            Just("\"[0, 1]\"".to_owned()),
            Just("\"True\"".to_owned()),
            Just("\"-9223372036854775808\"".to_owned()),
            Just("\"inf\"".to_owned()),
            Just("1e400".to_owned()),
            Just("null".to_owned()),
        ],
        0..28,
    );
    prop_oneof![
        list.prop_map(|parts| format!("[{}]", parts.join(", "))),
        ".{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_arguments_make_a_model_fail(
        dims in odd_text(), types in odd_text(), strides in odd_text(), concrete in odd_text(),
    ) {
        let recorded = Recorded::parse(Some(&dims), Some(&types), Some(&strides), Some(&concrete));
        let lengths = roofline::Lengths::of_name("execute_context_2(273_52229)_generation_25(25)");
        let context = Context { lengths: lengths.as_ref(), world_size: Some(8), window: Some(3), ..Context::default() };
        for name in Models::builtin().names() {
            let _ = Models::builtin().numbers(name, &recorded, &context);
        }
        let _ = Models::builtin().numbers("triton_red_x", &recorded, &context);
    }
}

#[test]
fn empty_and_huge_tensors_have_numbers_or_a_reason() {
    let found = numbers(
        "aten::mm",
        &json!([[0, 7], [7, 3]]),
        &["float", "float"],
        More::default(),
    );
    assert_eq!((found.flops, found.bytes), (Some(0), 4 * 21));
    let wide = json!([[1_u64 << 32, 1_u64 << 31], [1_u64 << 31, 4]]);
    let found = numbers("aten::mm", &wide, &["float", "float"], More::default());
    assert_eq!(found.flops, Some(2 << 65));
    let most = i64::MAX;
    let recorded = Recorded::parse(
        Some(&format!("[[{most}, {most}, {most}]]")),
        Some(r#"["double"]"#),
        None,
        None,
    );
    let why = Models::builtin().numbers("aten::neg", &recorded, &Context::default());
    assert_eq!(why.unwrap_err().to_string(), "arguments not as expected");
}
