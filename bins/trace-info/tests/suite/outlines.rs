//! Answers are the same whether slices are read in outline, as those of files are, or as a whole, as those of pipes are.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use crate::support::trace_info;

const COMMANDS: [&[&str]; 12] = [
    &["gpu", "--json"],
    &["gpu", "--per-stream", "--format", "csv"],
    &["gpu", "--per-step", "--format", "csv"],
    &["gpu", "--per-step", "--steps", "cycle", "--format", "csv"],
    &["kernels", "--json"],
    &["kernels", "--by", "class,step", "--format", "csv"],
    &["kernels", "--by", "operator", "--format", "csv"],
    &["summary", "--json"],
    &["summary"],
    &["idle", "--json", "--longest", "100"],
    &["idle", "--per-step", "--format", "csv"],
    &["idle", "--window", "+10us..+2ms"],
];

/// What a command says of a file, and of the same as a pipe: exit code, output, messages.
fn both(words: &[&str], folder: &Path, name: &str) -> [(Option<i32>, String, String); 2] {
    [false, true].map(|is_pipe| {
        let mut command = trace_info();
        command.current_dir(folder).args(words);
        if is_pipe {
            let file = File::open(folder.join(name)).unwrap();
            command.arg("-").stdin(Stdio::from(file));
        } else {
            command.arg(name);
        }
        let out = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(name, "stdin");
        (out.status.code(), text(out.stdout), text(out.stderr))
    })
}

fn same(folder: &Path, name: &str) {
    for words in COMMANDS {
        let [file, pipe] = both(words, folder, name);
        assert_eq!(file, pipe, "{words:?} {name}");
    }
}

#[test]
fn recordings_give_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "demo/demo-rank0.json.gz",
        "serving/collector/rank0.json.gz",
        "kineto/correlation.json",
        "kineto/partial-overlap.json",
        "kineto/flows.json",
        "kineto/phases.json",
        "kineto/rows.json",
        "kineto/truncated.json",
    ] {
        let from = format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"));
        let ending = name.split_once('.').unwrap().1;
        let to = format!("stdin.{ending}");
        std::fs::copy(from, folder.path().join(&to)).unwrap();
        same(folder.path(), &to);
    }
}

/// A recording in which operators say what kernels of unknown name do, threads wait with functions inside, and arrows begin at
/// operators.
fn operators(arrows: bool) -> String {
    let mut events = Vec::new();
    let mut add = |cat: &str, name: &str, (tid, ts, dur): (i64, i64, i64), more: &str| {
        let pid = if tid == 7 { 0 } else { 1 };
        events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}{more}}}"#
        ));
    };
    for n in 0..60 {
        let at = 1_000 + n * 500;
        let id = |n: i64| format!(r#","args":{{"correlation":{n},"device":0,"stream":7}}"#);
        let op = ["c10d::allreduce_", "aten::mm", "mine::other"][usize::try_from(n % 3).unwrap()];
        add("python_function", "model.py(1): forward", (1, at, 400), "");
        add("python_function", "queue.py(2): get", (1, at + 1, 80), "");
        add(
            "python_function",
            "threading.py(3): wait",
            (1, at + 2, 60),
            "",
        );
        add(
            "python_function",
            "signal.py(4): handler",
            (1, at + 10, 20),
            "",
        );
        add(
            "python_function",
            "nn.Module: Attention_0",
            (1, at + 90, 300),
            "",
        );
        add("cpu_op", op, (1, at + 100, 200), "");
        // Inside of the operator that communicates there is computation.
        if n % 2 == 0 {
            add("cpu_op", "aten::add", (1, at + 110, 100), "");
        }
        add(
            "cuda_runtime",
            "cudaLaunchKernel",
            (1, at + 120, 10),
            &id(n + 1),
        );
        add(
            "kernel",
            "unheard_of_name",
            (7, at + 140 + n % 40, 50),
            &id(n + 1),
        );
        // Not linked by any id.
        add("kernel", "gemm", (7, at + 300, 10), "");
    }
    if arrows {
        for (ph, tid, pid, ts) in [("s", 1, 1, 1_100), ("f", 7, 0, 1_300)] {
            events.push(format!(
                r#"{{"ph":"{ph}","bp":"e","id":1,"cat":"ac2g","name":"ac2g","pid":{pid},"tid":{tid},"ts":{ts}}}"#
            ));
        }
    }
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn operators_around_launches_and_arrows_count() {
    let folder = tempfile::tempdir().unwrap();
    for arrows in [false, true] {
        std::fs::write(folder.path().join("stdin.json"), operators(arrows)).unwrap();
        same(folder.path(), "stdin.json");
    }
    // There is something to be told apart.
    let [(_, text, _), _] = both(&["gpu", "--format", "csv"], folder.path(), "stdin.json");
    let table = crate::support::Csv::parse(&text);
    let found = table.column("comm_kernels")[0].parse::<u32>().unwrap();
    assert!((1..60).contains(&found), "{found}");
}
