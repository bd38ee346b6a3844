//! Tests of kernel classes that follow from the launch.

use std::collections::BTreeMap;

use byte_source::Source;
use gpu_time::{GpuWork, KernelOptions, KernelsBy, kernels};
use perfetto_reader::ReadOptions;
use trace_model::Trace;

/// Slices around a launch API call, outermost first: category and name.
type Around<'a> = &'a [(&'a str, &'a str)];

/// Builds a trace with one launch of each `(slices around the call, outermost first, call,
/// kernel)`.
fn launches(list: &[(Around<'_>, &str, &str)]) -> Trace {
    let mut events = Vec::new();
    for (at, (around, call, kernel)) in list.iter().enumerate() {
        let start = at * 100;
        let mut slice = |cat: &str, name: &str, tid: usize, from: usize, dur: usize, args: &str| {
            let name = name.replace('"', "");
            events.push(format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":{tid},"ts":{from},"dur":{dur},"args":{{{args}}}}}"#
            ));
        };
        for (depth, (cat, name)) in around.iter().enumerate() {
            slice(cat, name, 1, start + depth, 50 - 2 * depth, "");
        }
        let id = format!(r#""correlation":{}"#, at + 1);
        slice("cuda_runtime", call, 1, start + 20, 2, &id);
        let id = format!(r#""correlation":{},"device":0,"stream":7"#, at + 1);
        slice("kernel", kernel, 7, start + 60, 1, &id);
    }
    let text = format!("[{}]", events.join(","));
    let source = Source::from_bytes("made.json", text.into_bytes()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

const LAUNCH: &str = "cudaLaunchKernel";
const SOFTMAX: &str = "void softmax_warp_forward<float, float, 10>(float*)";

#[test]
fn operators_decide_before_names_and_contexts_last() {
    let cases: &[(Around<'_>, &str, &str, &str)] = &[
        // The operator decides, regardless of the kernel's name.
        (
            &[("cpu_op", "aten::mm")],
            LAUNCH,
            "anything_softmax",
            "gemm",
        ),
        (
            &[("cpu_op", "aten::cudnn_batch_norm")],
            LAUNCH,
            "void cudnn::bn_fw<float>(int)",
            "norm",
        ),
        (
            &[("cpu_op", "aten::embedding_dense_backward")],
            LAUNCH,
            "void cub::DeviceRadixSortOnesweepKernel<int>(int*)",
            "embedding",
        ),
        (
            &[("cpu_op", "aten::cudnn_convolution")],
            LAUNCH,
            "cutlass_80_tensorop_s1688gemm_128x128",
            "convolution",
        ),
        (
            &[("cpu_op", "aten::normal_")],
            LAUNCH,
            "void distribution_kernel<float>(int)",
            "random",
        ),
        (
            &[("cpu_op", "aten::native_group_norm_backward")],
            LAUNCH,
            "unknown_1",
            "norm",
        ),
        // The innermost operator known to the rules counts.
        (
            &[("cpu_op", "vllm::moe_forward"), ("cpu_op", "aten::mm")],
            LAUNCH,
            "x",
            "moe_gemm",
        ),
        (
            &[("cpu_op", "vllm::moe_forward"), ("cpu_op", "acme::inner")],
            LAUNCH,
            "x",
            "moe",
        ),
        (
            &[("cpu_op", "vllm::moe_forward")],
            LAUNCH,
            "bmm_E2m1_t128x8x512_s5_dynBatch_sm100a",
            "moe_gemm",
        ),
        // Operators of other libraries prepare what they multiply.
        (
            &[("cpu_op", "_C::gptq_gemm")],
            LAUNCH,
            "void vllm::gptq::reconstruct_exllama_4bit_kernel(unsigned int const*)",
            "quantization",
        ),
        (
            &[("cpu_op", "sglang::deep_gemm_fp8_fp8_bf16_nt")],
            LAUNCH,
            "void deep_gemm::transpose_fp32<512u, 64u>(float const*)",
            "copy",
        ),
        (&[("cpu_op", "_C::gptq_gemm")], LAUNCH, "acme_3", "gemm"),
        (
            &[("cpu_op", "vllm::moe_forward")],
            LAUNCH,
            "_silu_mul_fp8_quant_deep_gemm",
            "activation",
        ),
        (
            &[("cpu_op", "vllm::unified_attention_with_output")],
            LAUNCH,
            "acme_17",
            "attention",
        ),
        // Softmax is attention in attention and never sampling without a sampler.
        (&[("cpu_op", "aten::_softmax")], LAUNCH, SOFTMAX, "softmax"),
        (
            &[
                ("python_function", "nn.Module: Owlv2Attention_3"),
                ("cpu_op", "aten::softmax"),
                ("cpu_op", "aten::_softmax"),
            ],
            LAUNCH,
            SOFTMAX,
            "attention",
        ),
        (
            &[
                ("cpu_op", "aten::scaled_dot_product_attention"),
                ("cpu_op", "aten::bmm"),
            ],
            LAUNCH,
            "x",
            "attention",
        ),
        (
            &[
                ("python_function", "nn.Module: Sampler_0"),
                ("cpu_op", "aten::_softmax"),
            ],
            LAUNCH,
            SOFTMAX,
            "sampling",
        ),
        (
            &[
                ("python_function", "nn.Module: LlamaAttention_0"),
                ("cpu_op", "aten::addmm"),
            ],
            LAUNCH,
            "x",
            "gemm",
        ),
        (
            &[
                ("python_function", "nn.Module: LlamaRMSNorm_7"),
                ("cpu_op", "aten::pow"),
            ],
            LAUNCH,
            "x",
            "norm",
        ),
        (
            &[
                ("python_function", "attention_lab/main.py(3): <module>"),
                ("cpu_op", "aten::_softmax"),
            ],
            LAUNCH,
            SOFTMAX,
            "softmax",
        ),
        // Communication is known by its name, and kernels of a graph too.
        (
            &[("cpu_op", "aten::mm")],
            LAUNCH,
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            "collective",
        ),
        (
            &[("cpu_op", "aten::mm")],
            "cudaGraphLaunch",
            "void vllm::rms_norm_kernel<float>(int)",
            "norm",
        ),
        (
            &[],
            LAUNCH,
            "void vllm::rotary_embedding_kernel<float>(int)",
            "rotary",
        ),
        (
            &[("cpu_op", "aten::mul")],
            LAUNCH,
            "void deep_ep::intranode::combine<8>(int)",
            "collective",
        ),
    ];
    let list: Vec<_> = cases.iter().map(|(a, c, k, _)| (*a, *c, *k)).collect();
    let trace = launches(&list);
    let work = GpuWork::new(&trace);
    assert_eq!(work.events().len(), cases.len());
    for (event, (around, _, kernel, class)) in work.events().iter().zip(cases) {
        let found = work.index().class(work.slice(event));
        assert_eq!(found.name(), *class, "{kernel} in {around:?}");
    }
}

#[test]
fn a_name_has_the_class_with_most_time() {
    let trace = launches(&[
        (&[("cpu_op", "aten::mm")], LAUNCH, "k"),
        (&[("cpu_op", "aten::silu")], LAUNCH, "k"),
        (&[("cpu_op", "aten::silu")], LAUNCH, "k"),
    ]);
    let work = GpuWork::new(&trace);
    let found = kernels(&work, work.events(), &KernelOptions::default());
    let [only] = found.groups.as_slice() else {
        panic!("one name");
    };
    assert_eq!(only.class.map(|class| class.name()), Some("activation"));
}

/// Checks shares of kernel time in public recordings, by operator and by hand.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn classes_of_public_recordings() {
    let share = |file: &str| -> BTreeMap<String, f64> {
        let path = test_data::reference("perfetto").join("traces").join(file);
        let source = Source::open(&path, &Default::default()).unwrap();
        let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
        let work = GpuWork::new(&trace);
        let mut options = KernelOptions::default();
        options.by = KernelsBy::Class;
        let found = kernels(&work, work.events(), &options);
        let groups = found.groups.into_iter();
        groups
            .map(|group| (group.name, group.share_gpu_pct))
            .collect()
    };
    let of =
        |shares: &BTreeMap<String, f64>, class: &str| shares.get(class).copied().unwrap_or(0.0);
    let b200 = share("b200_vllm_eager.json.gz");
    let products = of(&b200, "gemm") + of(&b200, "moe_gemm");
    assert!((50.0..60.0).contains(&products), "{b200:?}");
    assert!(
        of(&b200, "moe_gemm") > 40.0 && of(&b200, "activation") < 1.0,
        "{b200:?}"
    );
    for file in [
        "h100_gaunernst_bert-small-uncased.json.gz",
        "mi300_Falconsai_nsfw_image_detection.json.gz",
    ] {
        let shares = share(file);
        assert!(of(&shares, "sampling") < 0.01, "{file} {shares:?}");
        assert!(
            of(&shares, "attention") > 10.0 && of(&shares, "norm") > 5.0,
            "{file} {shares:?}"
        );
    }
    for file in [
        "b200_vllm_eager.json.gz",
        "vllm_decode_full.json.gz",
        "sglang_Qwen3-8B_decode.json.gz",
    ] {
        let shares = share(file);
        assert!(of(&shares, "other") < 0.1, "{file} {shares:?}");
    }
}

#[test]
fn operators_for_communication_decide_for_kernels_of_unknown_name() {
    const CAST: &str = "void at::native::elementwise_kernel<direct_copy_kernel_cuda>(int)";
    type Launched<'a> = (Vec<(&'a str, &'a str)>, &'a str, &'a str);
    let mut list: Vec<Launched<'_>> = Vec::new();
    for operator in [
        "_C_custom_ar::all_reduce",
        "vllm::all_reduce",
        "sglang::inplace_all_reduce",
        "deep_ep::dispatch",
        "symm_mem::one_shot_all_reduce",
        "c10d::allreduce_",
        "_c10d_functional::reduce_scatter_tensor",
        "acme::all_to_all",
    ] {
        let op = ("cpu_op", operator);
        list.push((vec![op], "acme_17", "collective"));
        list.push((vec![op], "triton_acme", "collective"));
        list.push((vec![op, ("cpu_op", "aten::empty")], "acme_18", "collective"));
        // The name, or an inner operator, is more specific.
        list.push((vec![op], CAST, "copy"));
        list.push((vec![op, ("cpu_op", "aten::add")], "acme_19", "elementwise"));
        list.push((vec![("cpu_op", "aten::mm"), op], "nvjet_tst", "gemm"));
    }
    for operator in [
        "fsdp::all_gather_copy_in",
        "symm_mem::fused_all_gather_matmul",
    ] {
        list.push((vec![("cpu_op", operator)], "acme_20", "other"));
    }
    for (around, kernel, class) in list {
        let trace = launches(&[(&around, LAUNCH, kernel)]);
        let work = GpuWork::new(&trace);
        let slice = work.index().kernels().next().unwrap();
        assert_eq!(
            work.index().class(slice).name(),
            class,
            "{around:?} {kernel}"
        );
        let mut roles = gpu_time::Roles::new(&work, gpu_time::Rules::Extended);
        let is_communication = roles.of(&work.events()[0]) == gpu_time::Role::Communication;
        assert_eq!(
            is_communication,
            class == "collective",
            "{around:?} {kernel}"
        );
    }
    let graph = launches(&[(
        &[("cpu_op", "vllm::all_reduce")],
        "cudaGraphLaunch",
        "acme_17",
    )]);
    let work = GpuWork::new(&graph);
    assert!(
        work.index()
            .kernels()
            .all(|k| !work.index().is_collective(k))
    );
}
