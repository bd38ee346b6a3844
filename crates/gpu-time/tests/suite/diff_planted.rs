//! Compares two generated traces of one model with planted differences.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a failed step fails the test; sizes are small"
)]

use crate::support::{Dice, Maker, Value};
use gpu_time::GpuWork;
use gpu_time::diff::{Diff, Evidence, diff};
use trace_model::Trace;

/// Differences of one side from the other.
#[derive(Clone, Copy)]
struct Vendor {
    product: &'static str,
    add: &'static str,
    call: &'static str,
    /// `true` to insert a memset before each product.
    fills: bool,
    /// `true` to wrap each product in a function.
    wrapper: bool,
    /// A layer to leave out.
    without: Option<i64>,
    product_ns: i64,
    folder: &'static str,
}

const A: Vendor = Vendor {
    product: "sm90_gemm_128x128",
    add: "vectorized_elementwise_kernel<4>",
    call: "cudaLaunchKernel",
    fills: true,
    wrapper: false,
    without: None,
    product_ns: 10_000,
    folder: "/opt/conda/lib/python3.11/site-packages/model",
};
const B: Vendor = Vendor {
    product: "Cijk_Alik_Bljk_MT256",
    add: "vectorized_elementwise_kernel<8>",
    call: "hipLaunchKernel",
    fills: false,
    wrapper: true,
    without: Some(2),
    product_ns: 13_000,
    folder: "/usr/lib/python3/model",
};

fn made(v: Vendor) -> Trace {
    let mut maker = Maker::new();
    let mut correlation = 0;
    let mut launch = |maker: &mut Maker, at: i64, name: &str, ns: i64| {
        correlation += 1;
        let id = [("correlation", Value::Int(correlation))];
        maker.host((at, 2), "cuda_runtime", v.call, &id);
        maker.kernel(7, (at + 100_000_000, ns), name, &id);
    };
    // Activity launched before the recording.
    maker.kernel(7, (10, 5_000), v.product, &[]);
    for layer in 0..6 {
        if v.without == Some(layer) {
            continue;
        }
        let at = 1_000_000 + layer * 100_000;
        let name = format!("nn.Module: Layer_{layer}");
        maker.host((at, 90_000), "python_function", &name, &[]);
        let line = 10 + v.product_ns / 1000;
        let forward = format!("{}/layer.py({line}): forward", v.folder);
        maker.host((at + 1, 89_000), "python_function", &forward, &[]);
        if v.wrapper {
            maker.host((at + 2, 44_000), "python_function", "tuned.py(3): mm", &[]);
        }
        let dims = [("Input Dims", Value::Text("[[8, 16], [16, 4]]".into()))];
        maker.host((at + 10, 40_000), "cpu_op", "aten::mm", &dims);
        if v.fills {
            launch(&mut maker, at + 20, "fill_kernel", 500);
        }
        launch(&mut maker, at + 10_000, v.product, v.product_ns);
        maker.host((at + 50_000, 30_000), "cpu_op", "aten::add", &[]);
        launch(&mut maker, at + 50_100, v.add, 2_000);
    }
    maker.finish()
}

fn check_totals(found: &Diff, work: [&GpuWork<'_>; 2]) {
    for (side, work) in work.into_iter().enumerate() {
        let ns: i64 = work.events().iter().map(|e| e.dur_ns()).sum();
        assert_eq!(found.totals[side].ns, ns);
        assert_eq!(found.totals[side].by_evidence_ns.iter().sum::<i64>(), ns);
        assert_eq!(found.kernels.iter().map(|k| k.ns[side]).sum::<i64>(), ns);
        assert_eq!(found.operators.iter().map(|o| o.ns[side]).sum::<i64>(), ns);
    }
}

#[test]
fn other_names_paths_and_wrappers_do_not_hide_the_model() {
    let (a, b) = (made(A), made(B));
    let (a, b) = (GpuWork::new(&a), GpuWork::new(&b));
    let found = diff(&a, &b);
    check_totals(&found, [&a, &b]);
    let row = |name: &str| {
        found
            .kernels
            .iter()
            .find(|k| k.kernels[0].as_deref() == Some(name) && k.evidence == Evidence::Structure)
    };
    let product = row(A.product).unwrap();
    assert_eq!(product.kernels[1].as_deref(), Some(B.product));
    assert_eq!((product.count, product.ns), ([5, 5], [50_000, 65_000]));
    assert_eq!(product.module, "Layer");
    let add = row(A.add).unwrap();
    assert_eq!(
        (add.operator.as_str(), add.count, add.diff_ns()),
        ("aten::add", [5, 5], Some(0))
    );
    // The memsets are gone, and so is the layer that only the first side has.
    let gone: u64 = found
        .kernels
        .iter()
        .filter(|k| k.status() == "gone")
        .map(|k| k.count[0])
        .sum();
    assert_eq!(gone, 6 + 2);
    assert_eq!(
        found.kernels.iter().filter(|k| k.status() == "new").count(),
        0
    );
    let before = found
        .kernels
        .iter()
        .find(|k| k.evidence == Evidence::Class)
        .unwrap();
    assert_eq!((before.count, before.ns), ([1, 1], [5_000, 5_000]));
    let adds = found
        .operators
        .iter()
        .find(|o| o.operator == "aten::add")
        .unwrap();
    assert_eq!(
        (adds.calls, adds.matched, adds.status()),
        ([6, 5], 5, "matched")
    );
}

/// For any two traces, every GPU activity is in one row, and swapping the sides swaps the rows'
/// sides.
#[test]
fn totals_hold_for_whatever_is_compared() {
    let mut dice = Dice(3);
    for run in 0..60 {
        let traces: Vec<Trace> = (0..2)
            .map(|_| {
                let mut maker = Maker::new();
                for i in 0..dice.below(40) {
                    let at = 1_000 + i * 1_000;
                    let op = ["aten::mm", "aten::add", "aten::mul"][dice.below(3) as usize];
                    let kernel = ["gemm_a", "gemm_b", "copy_kernel", "k<1>", "k<2>"];
                    let id = [("correlation", Value::Int(i + 1))];
                    if dice.below(4) > 0 {
                        let layer = format!("nn.Module: L_{}", dice.below(3));
                        maker.host((at, 900), "python_function", &layer, &[]);
                    }
                    if dice.below(4) > 0 {
                        maker.host((at + 1, 800), "cpu_op", op, &[]);
                    }
                    if dice.below(5) > 0 {
                        maker.host((at + 2, 10), "cuda_runtime", "cudaLaunchKernel", &id);
                    }
                    let name = kernel[dice.below(5) as usize];
                    maker.kernel(dice.below(2), (at + 50, 1 + dice.below(900)), name, &id);
                }
                maker.finish()
            })
            .collect();
        let (a, b) = (GpuWork::new(&traces[0]), GpuWork::new(&traces[1]));
        check_totals(&diff(&a, &b), [&a, &b]);
        check_totals(&diff(&b, &a), [&b, &a]);
        let same = diff(&a, &a);
        assert!(
            same.kernels.iter().all(|k| k.diff_ns() == Some(0)),
            "run {run}"
        );
        assert_eq!(same.totals[0].by_evidence_ns[3], 0, "run {run}");
    }
}
