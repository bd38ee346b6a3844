//! Tests of the text output on a terminal.

use std::collections::BTreeSet;

use super::*;

#[test]
fn kernels_can_be_told_apart_and_columns_are_aligned() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trace = trace.join("../../testdata/demo/demo-rank0.json.gz");
    // As wide as a terminal.
    let output = Command::new(env!("CARGO_BIN_EXE_cycle-rca"))
        .args(["analyse", text(&trace)])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 80));
    let list = shown
        .lines()
        .skip_while(|line| !line.contains("GPU time by kernel"));
    let rows: Vec<&str> = list.skip(1).take_while(|l| !l.is_empty()).collect();
    assert!(rows.len() > 5, "{shown}");
    let ends: BTreeSet<Option<usize>> = rows.iter().map(|row| row.find(" % ")).collect();
    assert_eq!(ends.len(), 1, "{shown}");
    // No share exceeds 100 %.
    let shares = shown
        .split(" %")
        .filter_map(|t| t.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(shares.into_iter().all(|share| share <= 100.0), "{shown}");
    assert!(shown.contains("-bound"), "{shown}");
    let names = rows.iter().filter_map(|row| row.split(" x ").nth(1));
    let names: BTreeSet<&str> = names.collect();
    assert_eq!(names.len(), rows.len(), "{shown}");
    assert!(names.contains("cublasLt::splitKreduce_kernel  compute_kernel"));
}

#[test]
fn nothing_is_cut_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("long.json");
    let long = format!("prepare_{}", "inputs_".repeat(30));
    std::fs::write(&trace, host_bound().replace("serve.py(1): schedule", &long)).unwrap();
    let shown = |wide: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cycle-rca"));
        command
            .args(["analyse", text(&trace)])
            .env_remove("COLUMNS");
        command.envs(wide.map(|columns| ("COLUMNS", columns)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(shown(None).contains(&long));
    assert!(!shown(Some("80")).contains(&long));
}

/// Generates 48 steps of 10 ms whose host never waits, with 6 ms of GPU time each; 4 of them last
/// 25 ms longer.
fn host_bound() -> String {
    let mut events = Vec::new();
    let mut at = 1_000;
    for step in 0..48 {
        let pause = if step % 12 == 5 { 25_000 } else { 0 };
        let id = step + 1;
        events.push(format!(
            r#"{{"name":"step[DECODE bs=4]","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{at},"dur":{}}},
            {{"name":"serve.py(1): schedule","cat":"python_function","ph":"X","pid":1,"tid":1,"ts":{at},"dur":9900}},
            {{"name":"cudaGraphLaunch","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":50,"args":{{"correlation":{id}}}}},
            {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"correlation":{id},"device":0}}}}"#,
            9_900 + pause,
            at + 100,
            at + 160,
            6_000 + step * 7 % 40
        ));
        if pause > 0 {
            events.push(format!(
                r#"{{"name":"gc_collect","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{},"dur":{pause}}}"#,
                at + 9_900
            ));
        }
        at += 10_000 + pause;
    }
    format!("[{}]", events.join(","))
}

#[test]
fn who_waits_and_what_stalls_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("host.json");
    std::fs::write(&trace, host_bound()).unwrap();
    let output = run(&["analyse", text(&trace), "--json"]);
    let found = &json(&output)["jobs"][0]["bottlenecks"][0];
    // Work takes most of the path from one end of work to the next, and the host would be late without it as well.
    assert_eq!(found["bound"], "gpu", "{found}");
    assert_eq!(found["limit"], "host", "{found}");
    assert!(found["host_waits_pct"].as_f64().unwrap() < 1.0, "{found}");
    assert!(found["gpu_waits_pct"].as_f64().unwrap() > 30.0, "{found}");
    assert_eq!(found["stalls"]["function"], "gc_collect", "{found}");
    let cycles = serde_json::json!([6, 18, 30, 42]);
    assert_eq!(found["stalls"]["cycles"], cycles, "{found}");
    let shown = String::from_utf8(run(&["analyse", text(&trace)]).stdout).unwrap();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "faster kernels alone do not shorten these steps",
        "Begin with serve.py(1): schedule",
        "steps stall 2",
        "in gc_collect",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
}
