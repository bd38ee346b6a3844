//! What the answers say of recordings that lack the work of their launches, and of captures of graphs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn answer(command: &str, file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "400")
        .arg(command)
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{command}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Five steps of 20 launches of 4 us and a synchronisation. Of the kernels those with a number that `takes` are recorded; `more` are
/// calls at the beginning.
fn steps(folder: &Path, more: &[&str], takes: impl Fn(u64) -> bool) -> PathBuf {
    let mut events = Vec::new();
    let mut push = |category: &str, name: &str, ts: u64, dur: u64, args: String| {
        let (process, thread) = if category == "kernel" { (0, 7) } else { (1, 1) };
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{process},"tid":{thread},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    };
    for (at, name) in more.iter().enumerate() {
        push("cuda_runtime", name, 10 * at as u64, 5, String::new());
    }
    for step in 0..5_u64 {
        let at = 1_000 + step * 2_000;
        let mark = format!("ProfilerStep#{step}");
        push("user_annotation", &mark, at, 1_990, String::new());
        for n in 0..20 {
            let number = 20 * step + n;
            let id = format!(r#""correlation":{}"#, number + 1);
            push(
                "cuda_runtime",
                "cudaLaunchKernel",
                at + 10 + 10 * n,
                4,
                id.clone(),
            );
            if takes(number) {
                let id = format!(r#"{id},"device":0,"stream":7"#);
                push("kernel", "gemm", at + 20 + 90 * n, 88, id);
            }
        }
        push(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            at + 230,
            1_590,
            String::new(),
        );
    }
    let path = folder.join("steps.json");
    std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    path
}

#[test]
fn nothing_is_said_of_steps_whose_work_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let whole = steps(folder.path(), &[], |_| true);
    assert!(answer("gpu", &whole).contains("GPU-bound"));
    assert!(answer("summary", &whole).contains("answer complete"));
    assert!(answer("critical-path", &whole).contains("gpu-bound"));
    // One of three kernels is left, everywhere.
    let lost = steps(folder.path(), &[], |number| number % 3 == 0);
    let gpu = answer("gpu", &lost);
    let text = "What limits it cannot be said, as 66 of 100 launches have no GPU activity";
    assert!(gpu.contains(text), "{gpu}");
    let summary = answer("summary", &lost);
    let text = "INCOMPLETE (66 of 100 launches have no GPU activity";
    assert!(summary.contains(text), "{summary}");
    let path = answer("critical-path", &lost);
    let text = "what bounds them cannot be said, as their launches have no GPU activity";
    assert!(path.contains(text) && path.contains("at least"), "{path}");
    // The first step alone is recorded: it speaks for itself.
    let cut = steps(folder.path(), &[], |number| number < 20);
    let path = answer("critical-path", &cut);
    assert!(
        path.contains("1 ProfilerStep#* step takes") && path.contains("gpu-bound"),
        "{path}"
    );
}

#[test]
fn launches_of_a_capture_run_on_no_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let capture = steps(folder.path(), &["cudaStreamBeginCapture"], |number| {
        number < 2
    });
    let gpu = answer("gpu", &capture);
    assert!(gpu.contains("The recording of a graph capture"), "{gpu}");
    let path = answer("critical-path", &capture);
    assert!(
        path.contains("this is the recording of a graph capture"),
        "{path}"
    );
    let summary = answer("summary", &capture);
    assert!(summary.contains("answer complete"), "{summary}");
}
