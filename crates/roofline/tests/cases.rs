//! Single calls of many operators with known numbers.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fmt::Write as _;

use roofline::{CollectiveSizes, Context, Dtype, Lengths, Models, Recorded};
use serde_json::Value;

/// What is wanted against what was found, as text; empty if equal.
fn difference(case: &Value) -> Option<String> {
    let text = |key: &str| match &case[key] {
        Value::Null => None,
        value => Some(value.to_string()),
    };
    let (dims, types) = (text("dims"), text("types"));
    let (strides, concrete) = (text("strides"), text("concrete"));
    let recorded = Recorded::parse(
        dims.as_deref(),
        types.as_deref(),
        strides.as_deref(),
        concrete.as_deref(),
    );
    let kernels: Vec<&str> = case["kernels"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let args = &case["args"];
    let sizes = args["Collective name"]
        .as_str()
        .map(|name| CollectiveSizes {
            name: name.to_owned(),
            dtype: args["dtype"].as_str().unwrap_or("").to_owned(),
            in_elements: args["In msg nelems"].as_i64(),
            out_elements: args["Out msg nelems"].as_i64(),
            group_size: args["Group size"].as_i64(),
        });
    let lengths = case["step"].as_str().and_then(Lengths::of_name);
    let is_copy = |name: &&str| name.contains("HtoD") || name.contains("DtoH");
    let context = Context {
        kernels: &kernels,
        collective: sizes.as_ref(),
        lengths: lengths.as_ref(),
        cache_type: case["cache_type"].as_str().and_then(Dtype::of_name),
        world_size: case["world_size"]
            .as_u64()
            .and_then(|n| u32::try_from(n).ok()),
        is_host_copy: !kernels.is_empty() && kernels.iter().all(is_copy),
        ..Context::default()
    };
    let op = case["op"].as_str().unwrap();
    let want = &case["expect"];
    let found = Models::builtin().numbers(op, &recorded, &context);
    let mut wrong = String::new();
    match (&found, want["unknown"].as_str()) {
        (Err(why), Some(reason)) if why.to_string() == reason => {}
        (Err(why), _) => write!(wrong, "unknown: {why}").unwrap(),
        (Ok(_), Some(reason)) => write!(wrong, "wanted unknown: {reason}").unwrap(),
        (Ok(numbers), None) => {
            let mut same = |key: &str, found: Value| {
                if want[key] != found {
                    write!(wrong, " {key} {found} wanted {};", want[key]).unwrap();
                }
            };
            let int = |n: u128| Value::from(u64::try_from(n).unwrap());
            same("flops", numbers.flops.map_or(Value::Null, int));
            same("bytes", int(numbers.bytes));
            same("bytes_low", int(numbers.bytes_low));
            same("bytes_high", numbers.bytes_high.map_or(Value::Null, int));
            same("link_bytes", int(numbers.link_bytes));
            same("unit", numbers.unit.name().into());
            // Whether float operands are rounded is in the names of kernels, which some cases do not give.
            let dtype = numbers.precision.map_or("", |p| p.name());
            let is_rounded = want["dtype"] == "tf32" && case["kernels"].is_null();
            same("dtype", if is_rounded { "tf32" } else { dtype }.into());
            same("basis", numbers.basis.name().into());
            same("weight_bytes", int(numbers.weight_bytes));
            same("kv_bytes", int(numbers.kv_bytes));
        }
    }
    (!wrong.is_empty()).then(|| format!("{op} {} {}: {wrong}", case["dims"], case["types"]))
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn all_calls_have_their_numbers() {
    let path = test_data::reference("roofline").join("cases.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(cases.len() > 300);
    let wrong: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
