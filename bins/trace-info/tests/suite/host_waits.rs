//! What `trace-info idle`, `launch` and `gpu` answer where the GPU waits for a host that waits itself, or for one long
//! call.

use std::path::{Path, PathBuf};
use std::process::Command;

fn answer(command: &str, more: &[&str], file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "400")
        .arg(command)
        .args(more)
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

fn slice(category: &str, name: &str, ts: u64, dur: u64, args: &str) -> String {
    let (process, thread) = if category == "kernel" { (0, 7) } else { (1, 1) };
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{process},"tid":{thread},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

/// Ten rounds: 400 us in the functions, outermost first, then a kernel of 100 us, for which the host waits.
fn rounds(folder: &Path, functions: &[&str]) -> PathBuf {
    let mut events = Vec::new();
    for round in 0..10_u64 {
        let at = 1_000 + round * 520;
        for (depth, name) in functions.iter().enumerate() {
            let depth = depth as u64;
            events.push(slice(
                "python_function",
                name,
                at + depth,
                400 - 2 * depth,
                "",
            ));
        }
        let id = format!(r#""correlation":{}"#, round + 1);
        let kernel = format!(r#"{id},"device":0,"stream":7"#);
        events.push(slice("cuda_runtime", "cudaLaunchKernel", at + 403, 4, &id));
        events.push(slice("kernel", "gemm", at + 409, 100, &kernel));
        events.push(slice(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            at + 410,
            102,
            "",
        ));
    }
    written(folder, &events)
}

/// The answer without the heading, its lines joined.
fn sentences(command: &str, file: &Path) -> String {
    let text = answer(command, &[], file);
    let body: Vec<&str> = text
        .lines()
        .skip(1)
        .flat_map(str::split_whitespace)
        .collect();
    body.join(" ")
}

fn written(folder: &Path, events: &[String]) -> PathBuf {
    let path = folder.join("t.json");
    std::fs::write(&path, format!("[{}]", events.join(","))).unwrap();
    path
}

#[test]
fn a_host_that_waits_for_requests_is_not_cpu_bound() {
    let folder = tempfile::tempdir().unwrap();
    let lock = "<built-in method acquire of _thread.lock object at 0x7f8e1c0d>";
    let loader = "torch/utils/data/dataloader.py(733): __next__";
    let engine = "vllm/v1/engine/core.py(700): _process_input_queue";
    let get = "queue.py(154): get";
    for functions in [
        &[engine, get, lock][..],
        &[loader, get],
        &["zmq/socket.py(7): recv"],
    ] {
        let file = rounds(folder.path(), functions);
        let idle = sentences("idle", &file);
        assert!(idle.starts_with("Wait-bound:"), "{idle}");
        assert!(
            idle.contains("the launching thread waited mostly in "),
            "{idle}"
        );
        if let [.., caller, innermost] = functions {
            assert!(
                idle.contains(&format!("mostly in {innermost} in {caller}")),
                "{idle}"
            );
        }
        let launch = sentences("launch", &file);
        assert!(launch.starts_with("Wait-bound, not launch"), "{launch}");
        let gpu = sentences("gpu", &file);
        assert!(gpu.starts_with("The GPU idles"), "{gpu}");
    }
}

#[test]
fn a_host_that_computes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = rounds(
        folder.path(),
        &["detokenize.py(9): detok", "<built-in method decode>"],
    );
    let idle = sentences("idle", &file);
    assert!(idle.starts_with("Host-bound"), "{idle}");
    assert!(idle.contains("mostly in detokenize.py(9): detok"), "{idle}");
    // Waiting for another thread is no computing either.
    let lock = "<built-in method acquire of _thread.lock object at 0x7f8e1c0d>";
    let file = rounds(folder.path(), &["threading.py(607): wait", lock]);
    assert!(sentences("idle", &file).starts_with("Wait-bound: "));
}

#[test]
fn one_long_call_is_not_launch_overhead() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = r#""device":0,"stream":7,"correlation":"#;
    let file = written(
        folder.path(),
        &[
            slice(
                "cuda_runtime",
                "cudaLaunchKernel",
                1_000,
                4,
                r#""correlation":1"#,
            ),
            slice("kernel", "gemm", 1_009, 100, &format!("{kernel}1")),
            slice(
                "cuda_runtime",
                "cudaLaunchKernel",
                1_013,
                899_977,
                r#""correlation":2"#,
            ),
            slice("kernel", "gemm", 900_992, 100, &format!("{kernel}2")),
        ],
    );
    for command in ["idle", "launch"] {
        let text = sentences(command, &file);
        assert!(text.starts_with("Bound by one long launch call"), "{text}");
    }
    assert!(sentences("gpu", &file).contains("in the launch API call"));
}

/// Prefills last longer than decodes; only the decode that lasts longer than others of its kind is marked.
#[test]
fn long_steps_are_marked_among_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    let mut at = 1_000;
    for step in 0..14_u64 {
        let (mark, dur) = match step {
            0 | 5 | 10 => ("execute_context_1(900)_generation_0(0)", 5_000),
            7 => ("execute_context_0(0)_generation_8(8)", 1_500),
            _ => ("execute_context_0(0)_generation_8(8)", 500),
        };
        events.push(slice("user_annotation", mark, at, dur + 20, ""));
        let id = format!(r#""correlation":{}"#, step + 1);
        events.push(slice("cuda_runtime", "cudaLaunchKernel", at + 1, 4, &id));
        let kernel = format!(r#"{id},"device":0,"stream":7"#);
        events.push(slice("kernel", "gemm", at + 10, dur, &kernel));
        at += dur + 100;
    }
    let file = written(folder.path(), &events);
    let text = answer("gpu", &["--per-step"], &file);
    let marked = text
        .lines()
        .filter(|line| line.starts_with("! ") && line.contains("decode 8"));
    assert_eq!(marked.count(), 1, "{text}");
    let prefills = text
        .lines()
        .filter(|line| line.starts_with("! ") && line.contains("prefill"));
    assert_eq!(prefills.count(), 0, "{text}");
    assert!(
        text.contains("lasts more than twice the median step of its kind"),
        "{text}"
    );
}

/// Rounds of a kernel of 10 us and a copy of 500 us.
#[test]
fn copies_that_take_most_of_the_time_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    for round in 0..10_u64 {
        let at = 1_000 + round * 520;
        let id = |n| format!(r#""correlation":{}"#, 2 * round + n);
        let on = |n| format!(r#"{},"device":0,"stream":7"#, id(n));
        events.push(slice("cuda_runtime", "cudaLaunchKernel", at, 3, &id(1)));
        events.push(slice("kernel", "gemm", at + 5, 10, &on(1)));
        events.push(slice(
            "cuda_runtime",
            "cudaMemcpyAsync",
            at + 4,
            510,
            &id(2),
        ));
        let copy = slice(
            "gpu_memcpy",
            "Memcpy HtoD (Pageable -> Device)",
            at + 15,
            500,
            &on(2),
        );
        events.push(copy);
    }
    let file = written(folder.path(), &events);
    let gpu = sentences("gpu", &file);
    assert!(gpu.starts_with("Copy-bound: "), "{gpu}");
    assert!(gpu.contains("copies exposed 96"), "{gpu}");
    // No call takes the median of both kinds.
    let launch = sentences("launch", &file);
    assert!(
        launch.contains("the call of a kernel takes 3.000")
            || launch.contains("the call of a memcpy takes 510"),
        "{launch}"
    );
}

#[test]
fn a_gap_without_functions_names_no_operator() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    for round in 0..10_u64 {
        let at = 1_000 + round * 3_000;
        let id = format!(r#""correlation":{}"#, round + 1);
        let kernel = format!(r#"{id},"device":0,"stream":7"#);
        events.push(slice("cpu_op", "_C::rms_norm", at, 8, ""));
        events.push(slice("cuda_runtime", "cudaLaunchKernel", at + 2, 4, &id));
        events.push(slice("kernel", "gemm", at + 9, 100, &kernel));
    }
    let idle = sentences("idle", &written(folder.path(), &events));
    assert!(!idle.contains("rms_norm"), "{idle}");
    assert!(
        idle.contains("no function or operator is recorded on the launching thread for most of the time: record Python functions to see what it did"),
        "{idle}"
    );
}
