//! `why` on small recordings whose every time is written down here.

use std::process::{Command, Output};

use serde_json::Value;

/// Slices of a Kineto recording: microseconds.
#[derive(Default)]
struct Kineto {
    events: Vec<String>,
    calls: u32,
}

impl Kineto {
    fn slice(&mut self, cat: &str, name: &str, ts: f64, dur: f64, args: &str) {
        let (pid, tid) = match cat {
            "kernel" | "cuda_sync" => (0, 7),
            _ => (4242, 1),
        };
        self.events.push(format!(
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts:.3},\"dur\":{dur:.3},\"args\":{{{args}}}}}"
        ));
    }

    /// A launch of 2 us, and its kernel.
    fn kernel(&mut self, name: &str, launched: f64, begins: f64, dur: f64) {
        self.calls += 1;
        let id = format!("\"correlation\":{}", self.calls);
        self.slice("cuda_runtime", "cudaLaunchKernel", launched, 2.0, &id);
        let on = format!("{id},\"device\":0,\"stream\":7");
        self.slice("kernel", name, begins, dur, &on);
    }

    fn write(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "{{\"schemaVersion\":1,\"deviceProperties\":[{{\"id\":0,\"name\":\"NVIDIA H100 80GB HBM3\"}}],\"traceEvents\":[{}]}}",
            self.events.join(",")
        );
        std::fs::write(folder.path().join("trace.json"), text).expect("a file");
        folder
    }
}

fn why(words: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_why")).args(words).output();
    run.expect("the tool runs")
}

fn answer(recording: &Kineto) -> Value {
    let folder = recording.write();
    let path = folder.path().join("trace.json").display().to_string();
    let output = why(&[&path, "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn of_kind<'d>(document: &'d Value, kind: &str) -> Vec<&'d Value> {
    let all = document["findings"].as_array().expect("findings").iter();
    all.filter(|finding| finding["kind"] == kind).collect()
}

/// Forty steps of a kernel of 300 us that the host waits for. In two of them a thread waits 3 ms before it launches.
fn waits_for_requests(name: &str) -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..40 {
        let waits = if [11, 27].contains(&step) {
            3_000.0
        } else {
            0.0
        };
        let mark = "execute_context_0(0)_generation_8(8)";
        out.slice("user_annotation", mark, at, waits + 360.0, "");
        if waits > 0.0 {
            out.slice("python_function", name, at + 2.0, waits, "");
        }
        let launch = at + waits + 20.0;
        out.kernel("gemm_kernel", launch, launch + 8.0, 300.0);
        let sync = launch + 5.0;
        out.slice("cuda_runtime", "cudaStreamSynchronize", sync, 306.0, "");
        at = sync + 306.0 + 40.0;
    }
    out
}

#[test]
fn a_wait_for_others_is_no_cost_of_the_synchronisation_before_it() {
    let name = "<built-in method acquire of _thread.lock object at 0x7f11d0>";
    let document = answer(&waits_for_requests(name));
    let waits = of_kind(&document, "input_starvation");
    let total: i64 = waits
        .iter()
        .filter_map(|finding| finding["cost_ns_total"].as_i64())
        .max()
        .expect("a wait");
    // Two of 3 ms.
    assert!((total - 6_000_000).abs() < 120_000, "{total}");
    let id = &document["answer"]["finding"];
    assert!(
        waits.iter().any(|finding| finding["id"] == *id),
        "{}",
        document["answer"]
    );
    for finding in of_kind(&document, "synchronisation") {
        let share = finding["gain_pct"].as_f64().expect("a share");
        assert!(share < 20.0, "{finding}");
    }
}

/// Twenty steps of five kernels; one run takes 2,140 us, all others 80.
fn one_long_run() -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..20 {
        let long = if step == 12 { 2_060.0 } else { 0.0 };
        let ends = at + 50.0 + 5.0 * 82.0 + long;
        let mark = format!("ProfilerStep#{step}");
        out.slice("user_annotation", &mark, at, ends - at, "");
        let mut begins = at + 20.0;
        for kernel in 0..5 {
            let dur = if kernel == 2 { 80.0 + long } else { 80.0 };
            out.kernel("Cijk_gemm", at + 3.0 + 3.0 * f64::from(kernel), begins, dur);
            begins += dur + 2.0;
        }
        at = ends;
    }
    out
}

#[test]
fn a_single_long_run_of_a_kernel_is_named() {
    let document = answer(&one_long_run());
    let found = of_kind(&document, "slow_kernel");
    let cost: Vec<i64> = found
        .iter()
        .filter_map(|finding| finding["cost_ns_total"].as_i64())
        .collect();
    assert_eq!(cost, [2_060_000], "{}", document["answer"]);
    assert_eq!(found[0]["where"]["steps"], serde_json::json!([13]));
    let title = found[0]["title"].as_str().expect("a title");
    assert!(title.contains("the other 99 runs"), "{title}");
}

/// Ten training steps: 30 kernels beside their launches, then 4 ms of the optimizer in which many operators take 100 us each.
fn optimizer() -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..10 {
        let mark = format!("ProfilerStep#{step}");
        out.slice("user_annotation", &mark, at, 5_980.0, "");
        let mut begins = at + 30.0;
        for kernel in 0..30 {
            out.kernel(
                "gemm_kernel",
                at + 10.0 + 4.0 * f64::from(kernel),
                begins,
                60.0,
            );
            begins += 61.0;
        }
        let range = at + 1_900.0;
        out.slice(
            "user_annotation",
            "Optimizer.step#SGD.step",
            range,
            4_050.0,
            "",
        );
        for op in 0..40 {
            let name = format!("aten::op{op}");
            out.slice("cpu_op", &name, range + 100.0 * f64::from(op), 99.0, "");
        }
        out.kernel("update_kernel", range + 4_010.0, range + 4_020.0, 20.0);
        at += 6_000.0;
    }
    out
}

#[test]
fn a_range_names_what_many_operators_share() {
    let document = answer(&optimizer());
    let found = of_kind(&document, "host_range");
    assert_eq!(found.len(), 1, "{}", document["findings"]);
    let cost = found[0]["cost_ns_per_step"]["median"].as_i64().expect("ns");
    // The GPU works until 1,889 us at most and again from 5,920.
    assert!((cost - 4_020_000).abs() < 80_000, "{cost}");
    assert_eq!(found[0]["where"]["name"], "Optimizer.step#SGD.step");
    // It trains: no engine of inference is advised.
    let remedy = found[0]["remedy"]["text"].as_str().expect("a remedy");
    assert!(remedy.contains("fused=True"), "{remedy}");
    let all = document["findings"].to_string();
    assert!(!all.contains("async scheduling"), "{all}");
}

/// Ten steps of four layers whose attention is two products with a softmax between.
fn attention(is_fused: bool) -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..10 {
        let mut begins = at + 30.0;
        let mut launched = at + 3.0;
        let mut run = |name: &str, dur: f64| {
            out.kernel(name, launched, begins, dur);
            launched += 3.0;
            begins += dur + 1.0;
        };
        for _ in 0..4 {
            run("layer_norm_kernel", 20.0);
            run("gemm_qkv", 100.0);
            match is_fused {
                true => run("flash_fwd_kernel", 60.0),
                false => {
                    run("gemm_scores", 40.0);
                    run("elementwise_kernel", 30.0);
                    run("softmax_warp_forward", 50.0);
                    run("gemm_values", 40.0);
                }
            }
            run("gemm_out", 100.0);
        }
        let mark = format!("ProfilerStep#{step}");
        out.slice("user_annotation", &mark, at, begins - at, "");
        at = begins + 5.0;
    }
    out
}

#[test]
fn attention_in_separate_kernels_is_named() {
    let document = answer(&attention(false));
    let found = of_kind(&document, "unfused_attention");
    assert_eq!(found.len(), 1, "{}", document["answer"]);
    // Four layers of 40 + 30 + 50 + 40 us.
    let cost = found[0]["cost_ns_per_step"]["median"].as_i64();
    assert_eq!(cost, Some(640_000));
    let title = found[0]["title"].as_str().expect("a title");
    assert!(title.contains("16 separate kernels (4 times"), "{title}");
    let fused = answer(&attention(true));
    assert!(of_kind(&fused, "unfused_attention").is_empty());
}

/// Sixty steps of three short kernels and one of 900 us, each waited for, on a device whose clock is 6.5 us ahead: calls return 5.0 to
/// 6.0 us before the work that they waited for seems to end. In one step it is ahead by 1 us, which leaves a launch 5 us.
fn clock_ahead() -> Kineto {
    let mut out = Kineto::default();
    for step in 0..60 {
        let at = 1_000.0 * f64::from(step);
        let ahead = if step == 33 { 1.0 } else { 6.5 };
        out.slice(
            "user_annotation",
            &format!("ProfilerStep#{step}"),
            at,
            990.0,
            "",
        );
        let mut begins = at + 14.0;
        for kernel in 0..4 {
            let dur = if kernel == 3 { 900.0 } else { 5.0 };
            let launched = at + 10.0 + 3.0 * f64::from(kernel);
            out.kernel("gemm_kernel", launched, begins + ahead, dur);
            begins += dur + 1.0;
        }
        let ends = begins - 1.0 + 0.5 + 0.5 * f64::from(step % 3);
        let begin = at + 24.0;
        out.calls += 1;
        let id = format!("\"correlation\":{}", out.calls);
        let name = "cudaStreamSynchronize";
        out.slice("cuda_runtime", name, begin, ends - begin, &id);
        let record =
            format!("{id},\"device\":0,\"stream\":7,\"cuda_sync_kind\":\"Stream Synchronize\"");
        out.slice(
            "cuda_sync",
            "Stream Synchronize",
            begin,
            ends - begin,
            &record,
        );
    }
    out
}

#[test]
fn a_clock_that_is_ahead_makes_no_work_of_the_gpu_time_of_the_host() {
    let document = answer(&clock_ahead());
    let parts = document["budget"][0]["parts"].as_array().expect("parts");
    let share = |group: &str| -> f64 {
        let own = parts.iter().filter(|part| part["group"] == group);
        own.filter_map(|part| part["share_pct"].as_f64()).sum()
    };
    // 915 us of each 1,000.
    assert!((share("gpu") - 91.5).abs() < 1.5, "{parts:?}");
    // Sixty synchronizations that return before their work ends would be contradictions.
    let notes = document["trust"]["notes"].to_string();
    assert!(!notes.contains("contradict"), "{notes}");
}

#[test]
fn one_file_that_cannot_be_read_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rank0.json.gz");
    std::fs::write(&path, b"no archive").expect("a file");
    let name = path.display().to_string();
    let output = why(&[&name]);
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(
        error.contains("error: ") && error.contains(&name),
        "{error}"
    );
}

#[test]
fn an_earlier_result_is_replaced_only_if_that_is_asked() {
    let folder = one_long_run().write();
    let trace = folder.path().join("trace.json").display().to_string();
    let page = folder.path().join("why.html");
    std::fs::write(&page, b"kept").expect("a file");
    let name = page.display().to_string();
    let output = why(&[&trace, "-o", &name]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(error.contains("--force"), "{error}");
    assert_eq!(std::fs::read(&page).expect("the file"), b"kept");
    assert_eq!(
        why(&[&trace, "-o", &name, "--force"]).status.code(),
        Some(0)
    );
    assert!(std::fs::read(&page).is_ok_and(|page| page.len() > 1_000));
    // An input is never replaced.
    assert_eq!(
        why(&[&trace, "-o", &trace, "--force"]).status.code(),
        Some(2)
    );
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_listed_is_named_and_the_rest_answered() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = one_long_run().write();
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    let set = |path: &std::path::Path, bits| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("permissions");
    };
    set(&closed, 0o000);
    set(folder.path(), 0o755);
    let place = tempfile::tempdir().expect("a folder");
    let tried = |word: &str| {
        let mut tool = test_data::unprivileged(env!("CARGO_BIN_EXE_why").as_ref(), place.path());
        tool.arg(folder.path())
            .arg(word)
            .output()
            .expect("the tool runs")
    };
    let (output, strict) = (tried("--json"), tried("--strict"));
    set(&closed, 0o700);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let files = document["scope"]["files"].as_array().expect("files");
    let name = closed.display().to_string();
    assert!(
        files
            .iter()
            .any(|file| file["name"] == *name && file["problem"].is_string()),
        "{files:?}"
    );
    assert!(!strict.status.success());
}

/// The recordings of the reference data of which an earlier version said something false.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn recordings_of_others_are_told_truly() {
    let ask = |path: &str, words: &[&str]| -> Value {
        let path = test_data::root().join(path).display().to_string();
        let mut all = vec![path.as_str(), "--json"];
        all.extend(words);
        let text = String::from_utf8(why(&all).stdout).expect("text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    // All 24 calls of its attention kernel take 30 us.
    let document = ask("perfetto/synth/te_llm.pftrace", &[]);
    assert!(of_kind(&document, "slow_kernel").is_empty());
    // The kernels of its decode steps are replayed: their sizes are not recorded.
    let document = ask("roofline/synthetic/syn11.json.gz", &[]);
    let sentence = document["answer"]["sentence"].as_str().expect("a sentence");
    assert!(!sentence.contains("At the limit"), "{sentence}");
    let lacks = document["not_recorded"].to_string();
    assert!(lacks.contains("capture of the graphs"), "{lacks}");
    // What the host does after a prefill step is no pause of the decode step behind it.
    let slow = "deepdive/synthetic/kernel_x2/abnormal/result.json.gz";
    let document = ask(slow, &["--phase", "decode"]);
    assert!(of_kind(&document, "pause").is_empty());
    // By hand: the GPU work of the prefill step ends at 322.4 ms, and the decode step at 339.3 ms begins with `recv_requests`.
    let step = ask(slow, &["--step", "7"]);
    let sentence = step["answer"]["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.contains(" of it pass before its own begin on the host"),
        "{sentence}"
    );
    let lacks = document["not_recorded"].to_string();
    assert!(!lacks.contains("Python functions"), "{lacks}");
    // Its harness synchronises before the first launch.
    let document = ask("peers/traces/h100_qwen15.json.gz", &[]);
    for finding in of_kind(&document, "synchronisation") {
        let title = finding["title"].as_str().expect("a title");
        assert!(!title.contains("in the middle"), "{title}");
    }
}

/// Twelve training steps that keep the GPU waiting for six operators of 300 us each.
fn operators_on_the_host() -> Kineto {
    let mut out = Kineto::default();
    for step in 0..12 {
        let at = 3_000.0 * f64::from(step);
        let mark = format!("ProfilerStep#{step}");
        out.slice("user_annotation", &mark, at, 2_990.0, "");
        for op in 0..6 {
            let begin = at + 10.0 + 320.0 * f64::from(op);
            out.slice("cpu_op", &format!("aten::op_{op}"), begin, 300.0, "");
        }
        let launched = at + 1_950.0;
        out.kernel("gemm_kernel", launched, launched + 8.0, 900.0);
        out.slice(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            launched + 5.0,
            910.0,
            "",
        );
    }
    out
}

#[test]
fn operators_that_share_the_time_of_the_host_are_one_cause() {
    let document = answer(&operators_on_the_host());
    let id = document["answer"]["finding"].as_str().expect("a finding");
    assert!(id.ends_with(".operators"), "{}", document["answer"]);
    let found = of_kind(&document, "host_bound");
    let own = found
        .iter()
        .find(|finding| finding["id"] == id)
        .expect("it");
    // Six operators of 300 us.
    let cost = own["cost_ns_per_step"]["median"].as_i64().expect("ns");
    assert!((cost - 1_800_000).abs() < 40_000, "{own}");
    // What a replay saves is never more than what is told of it.
    for finding in found {
        let gain = finding["gain_ceiling_ns_per_step"].as_i64().expect("ns");
        let steps = finding["of_steps"].as_i64().expect("steps");
        let cost = finding["cost_ns_total"].as_i64().expect("ns");
        assert!(gain * steps <= cost + steps, "{finding}");
    }
}

/// Forty decode steps of 400 us; in one of them a copy of pageable memory takes 5 ms.
fn one_long_copy() -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..40 {
        let copies = if step == 22 { 5_000.0 } else { 0.0 };
        let mark = "execute_context_0(0)_generation_8(8)";
        out.slice("user_annotation", mark, at, copies + 350.0, "");
        if copies > 0.0 {
            out.calls += 1;
            let id = format!("\"correlation\":{}", out.calls);
            out.slice("cuda_runtime", "cudaMemcpyAsync", at + 5.0, copies, &id);
            let on = format!("{id},\"device\":0,\"stream\":7");
            let name = "Memcpy HtoD (Pageable -> Device)";
            out.slice("gpu_memcpy", name, at + 8.0, copies - 4.0, &on);
        }
        let launch = at + copies + 20.0;
        out.kernel("gemm_kernel", launch, launch + 8.0, 300.0);
        out.slice(
            "cuda_runtime",
            "cudaStreamSynchronize",
            launch + 5.0,
            306.0,
            "",
        );
        at = launch + 5.0 + 306.0 + 40.0;
    }
    out
}

#[test]
fn a_copy_that_makes_one_step_longer_is_a_copy() {
    let document = answer(&one_long_copy());
    let found = of_kind(&document, "copy");
    assert_eq!(found.len(), 1, "{}", document["findings"]);
    assert_eq!(
        document["answer"]["finding"], found[0]["id"],
        "{}",
        document["answer"]
    );
    let cost = found[0]["cost_ns_total"].as_i64().expect("ns");
    assert!((cost - 5_000_000).abs() < 100_000, "{cost}");
    let title = found[0]["title"].as_str().expect("a title");
    assert!(title.contains("makes 1 of 40 decode steps"), "{title}");
    assert!(of_kind(&document, "pause").is_empty());
}

/// Norms of five kernels (power, mean, root, two products) of 6 us in each of eight layers with a product of 40 us.
fn separate_norms() -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..10 {
        let (mut begins, mut launched) = (at + 150.0, at + 3.0);
        for _ in 0..8 {
            for (name, dur) in [
                ("void at::native::vectorized_elementwise_kernel<pow>", 6.0),
                ("void at::native::reduce_kernel<MeanOps>", 6.0),
                ("void at::native::vectorized_elementwise_kernel<rsqrt>", 6.0),
                ("void at::native::elementwise_kernel<mul>", 6.0),
                ("void at::native::vectorized_elementwise_kernel<add>", 6.0),
                ("sgemm_128x64_kernel", 40.0),
            ] {
                out.kernel(name, launched, begins, dur);
                launched += 3.0;
                begins += dur + 1.0;
            }
        }
        let mark = format!("ProfilerStep#{step}");
        out.slice("user_annotation", &mark, at, begins - at, "");
        at = begins + 5.0;
    }
    out
}

#[test]
fn a_norm_of_separate_kernels_is_one_chain() {
    let document = answer(&separate_norms());
    let found = of_kind(&document, "unfused_chain");
    assert_eq!(found.len(), 1, "{}", document["findings"]);
    let title = found[0]["title"].as_str().expect("a title");
    assert!(title.starts_with("40 kernels in 8 chains"), "{title}");
    // Five of 6 us with four gaps of 1 us between them, in eight layers.
    let cost = found[0]["cost_ns_per_step"]["median"].as_i64();
    assert_eq!(cost, Some(8 * 34_000));
    // One kernel as long as one of them is left of each, and the gaps are gone.
    let gain = found[0]["gain_ceiling_ns_per_step"].as_i64().expect("ns");
    assert!((gain - 8 * 28_000).abs() < 8 * 2_000, "{gain}");
}

/// Steps of 1 ms in which the host prepares for 300 us while another stream communicates for 100 us, then launches 40 kernels that run
/// one after the other, and the next communication. At the end a call waits for the GPU, if waits are recorded.
fn host_beside_communication(has_waits: bool) -> Kineto {
    let mut out = Kineto::default();
    for step in 0..12 {
        let at = 1_000.0 * f64::from(step);
        out.slice(
            "user_annotation",
            &format!("ProfilerStep#{step}"),
            at,
            990.0,
            "",
        );
        out.slice("cpu_op", "aten::_foreach_mul_", at + 4.0, 300.0, "");
        for n in 0..40 {
            let n = f64::from(n);
            let launched = at + 306.0 + 3.0 * n;
            out.kernel("sgemm_128x64_kernel", launched, at + 312.0 + 16.0 * n, 15.0);
        }
        out.calls += 1;
        let id = format!("\"correlation\":{}", out.calls);
        out.slice("cuda_runtime", "cudaLaunchKernel", at + 980.0, 2.0, &id);
        let on = format!("{id},\"device\":0,\"stream\":20");
        let name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
        out.slice("kernel", name, at + 1_010.0, 100.0, &on);
    }
    if has_waits {
        out.slice("cuda_runtime", "cudaDeviceSynchronize", 12_000.0, 5.0, "");
    }
    out
}

#[test]
fn a_host_beside_gpu_work_may_wait_for_it_where_no_wait_is_recorded() {
    let of = |has_waits| {
        let document = answer(&host_beside_communication(has_waits));
        let found = of_kind(&document, "host_bound");
        let Some(found) = found.first() else {
            panic!("{}", document["findings"]);
        };
        (
            found["title"].as_str().unwrap_or_default().to_owned(),
            found["confidence"].clone(),
            found["evidence"].to_string(),
        )
    };
    let (title, confidence, _) = of(true);
    assert_ne!(confidence, "possible", "{title}");
    let (title, confidence, evidence) = of(false);
    assert!(
        title.contains("no call that waits for the GPU is recorded"),
        "{title}"
    );
    assert_eq!(confidence, "possible", "{title}");
    assert!(
        evidence.contains("computes nothing for 1.100 ms"),
        "{evidence}"
    );
}

#[test]
fn parts_of_a_log_by_processor_are_one_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/blkio");
    for (from, to) in [
        ("offload.blktrace.0", "a.blktrace.0"),
        ("offload.blktrace.0", "a.blktrace.1"),
        ("offload.events.txt", "z.txt"),
    ] {
        std::fs::copy(data.join(from), folder.path().join(to)).expect("a file");
    }
    let path = folder.path().display().to_string();
    let output = why(&[&path, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sentence = document["answer"]["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.contains("no recording of steps is given"),
        "{sentence}"
    );
    let files = document["scope"]["files"].as_array().expect("files");
    let second: Vec<&str> = files
        .iter()
        .filter(|file| {
            file["problem"]
                .as_str()
                .is_some_and(|text| text.starts_with("one block I/O log"))
        })
        .filter_map(|file| file["name"].as_str())
        .collect();
    assert!(
        second.len() == 1 && second[0].ends_with("z.txt"),
        "{second:?}"
    );
}

/// Two stages of a pipeline: rank 0 computes for 300 us, sends, and waits until rank 1 takes the message; that computes for 900 us.
fn stages(folder: &std::path::Path, ranks: &[(u32, f64)]) {
    let longest = ranks.iter().map(|rank| rank.1).fold(0.0, f64::max);
    for (rank, computes) in ranks {
        let mut out = Kineto::default();
        for step in 0..12 {
            let at = (longest + 100.0) * f64::from(step);
            let mark = format!("ProfilerStep#{step}");
            out.slice("user_annotation", &mark, at, longest + 90.0, "");
            let (op, begin, end) = match rank {
                0 => ("send", at + 20.0 + computes, at + longest + 60.0),
                _ => ("recv", at + 20.0 + computes, at + longest + 60.0),
            };
            out.kernel("sgemm_128x64_kernel", at + 3.0, at + 15.0, *computes);
            out.calls += 1;
            let id = format!("\"correlation\":{}", out.calls);
            out.slice("cuda_runtime", "cudaLaunchKernel", at + 8.0, 2.0, &id);
            let on = format!(
                "{id},\"device\":0,\"stream\":7,\"Collective name\":\"{op}\",\"In msg nelems\":4194304,\"Out msg nelems\":4194304,\"Group size\":2,\"dtype\":\"BFloat16\",\"Process Group Name\":\"pp0\""
            );
            out.slice(
                "kernel",
                "ncclDevKernel_SendRecv(args)",
                begin,
                end - begin,
                &on,
            );
            out.slice(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                at + 12.0,
                end - at - 8.0,
                "",
            );
        }
        let text = format!(
            "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":2}},\"deviceProperties\":[{{\"id\":0,\"name\":\"NVIDIA H100 80GB HBM3\"}}],\"traceEvents\":[{}]}}",
            out.events.join(",")
        );
        std::fs::write(folder.join(format!("rank{rank}.json")), text).expect("a file");
    }
}

#[test]
fn a_stage_that_others_wait_for_in_messages_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    stages(folder.path(), &[(0, 300.0), (1, 900.0)]);
    let path = folder.path().display().to_string();
    let text = String::from_utf8(why(&[&path, "--json"]).stdout).expect("text");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let found = of_kind(&document, "pipeline_bubble");
    assert_eq!(found.len(), 1, "{}", document["answer"]);
    assert_eq!(
        document["answer"]["finding"], found[0]["id"],
        "{}",
        document["answer"]
    );
    assert_eq!(found[0]["where"]["rank"], 1);
    let cost = found[0]["cost_ns_per_step"]["median"].as_i64().expect("ns");
    assert!((cost - 595_000).abs() < 12_000, "{cost}");
    let title = found[0]["title"].as_str().expect("a title");
    assert!(
        title.contains("computes 900.0 µs a step instead of 300.0 µs"),
        "{title}"
    );
}

#[test]
fn notes_that_are_not_shown_are_counted() {
    let folder = one_long_run().write();
    for nth in 0..6 {
        let name = format!("rank{nth}.json.gz");
        std::fs::write(folder.path().join(name), b"no archive").expect("a file");
    }
    let path = folder.path().display().to_string();
    let text = String::from_utf8(why(&[&path]).stdout).expect("text");
    let shown = text
        .lines()
        .filter(|line| line.starts_with("note "))
        .count();
    let output = String::from_utf8(why(&[&path, "--json"]).stdout).expect("text");
    let document: Value = serde_json::from_str(&output).expect("JSON");
    let all = document["trust"]["notes"].as_array().expect("notes").len();
    assert!(all >= 6 && shown == 4, "{all} {shown}\n{text}");
    let more = format!("{} more notes, in --json", all - 3);
    assert!(text.contains(&more), "{text}");
}

/// Thirty decode steps of 500 us in which a loop does `host` us of code; in two of them many functions take 60 us each.
fn vague_pauses() -> Kineto {
    let mut out = Kineto::default();
    let mut at = 0.0;
    for step in 0..30 {
        let is_slow = [9, 21].contains(&step);
        let mark = "execute_context_0(0)_generation_8(8)";
        let begin = at;
        at += 5.0;
        out.slice(
            "python_function",
            "prepare.py(3): prepare_inputs",
            at,
            100.0,
            "",
        );
        at += 101.0;
        for function in 0..if is_slow { 10 } else { 0 } {
            let name = format!("module{function}.py(1): part{function}");
            out.slice("python_function", &name, at, 40.0, "");
            at += 41.0;
        }
        out.kernel("gemm_kernel", at, at + 8.0, 370.0);
        out.slice("cuda_runtime", "cudaStreamSynchronize", at + 5.0, 376.0, "");
        at += 400.0;
        out.slice("user_annotation", mark, begin, at - begin - 1.0, "");
    }
    out
}

#[test]
fn a_named_cause_comes_before_a_few_steps_that_are_longer_for_several_things() {
    let document = answer(&vague_pauses());
    let pauses = of_kind(&document, "pause");
    assert!(
        pauses
            .iter()
            .all(|pause| pause["confidence"] != "established"),
        "{pauses:?}"
    );
    let id = document["answer"]["finding"].as_str().expect("a finding");
    assert!(id.starts_with("host_bound."), "{}", document["answer"]);
}
