//! Tests the sentinel on what grows while it is watched, and the page of a recording.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

/// Steps of a law, from `slow` on a third slower.
fn steps(n: i64, slow: i64) -> String {
    let mut text =
        String::from("start_ts,duration_us,batch_size,avg_input_length,avg_output_length\n");
    for i in 0..n {
        let (batch, input) = (1 + i * 7 % 32, 100 + i * 37 % 900);
        let law = 8000 + 50 * batch + batch * input / 25 + i * 13 % 80;
        let law = if i >= slow { law * 4 / 3 } else { law };
        text.push_str(&format!("{},{law},{batch},{input},10\n", i * 30_000));
    }
    text
}

#[test]
fn a_growing_table_is_watched_and_tells_those_who_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("good.csv"), steps(300, i64::MAX)).unwrap();
    let fit = run(&[
        "sentinel",
        "fit",
        text(&path("good.csv")),
        "-o",
        text(&path("model.json")),
    ]);
    assert_eq!(fit.status.code(), Some(0));
    let model = json_of(&path("model.json"));
    let hours = model["models"][0]["false_alarm_hours"].as_f64().unwrap();
    assert!((hours - 24.0).abs() < 1e-6, "{model}");

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let hook = format!("http://{}/alert", server.local_addr().unwrap());
    let receive = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = String::new();
        let mut part = [0; 4096];
        while !request.ends_with('}') {
            let read = stream.read(&mut part).unwrap();
            request.push_str(&String::from_utf8_lossy(&part[..read]));
        }
        stream
            .write_all(b"HTTP/1.0 204 No Content\r\n\r\n")
            .unwrap();
        request
    });
    let all = steps(120, 60);
    let (first, rest) = all.split_at(all.len() / 4);
    std::fs::write(path("live.csv"), first).unwrap();
    let (live, rest) = (path("live.csv"), rest.to_owned());
    let writes = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(600));
        let mut file = std::fs::File::options().append(true).open(live).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
    });
    let watch = run(&[
        "sentinel",
        "watch",
        text(&path("live.csv")),
        "--model",
        text(&path("model.json")),
        "--follow",
        "--interval",
        "0.2",
        "--for",
        "3",
        "--webhook",
        &hook,
        "--metrics",
        text(&path("state.prom")),
    ]);
    writes.join().unwrap();
    assert_eq!(watch.status.code(), Some(1));
    let said = String::from_utf8(watch.stdout).unwrap();
    assert!(
        said.starts_with("alarm: decode step of ") && said.lines().count() == 1,
        "{said}"
    );
    let request = receive.join().unwrap();
    assert!(request.starts_with("POST /alert HTTP/1.1"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["event"], "alarm");
    assert_eq!(body["step"]["alarm"], true);
    let state = std::fs::read_to_string(path("state.prom")).unwrap();
    for line in [
        "inferscope_sentinel_steps_total{phase=\"decode\"} 120",
        "inferscope_sentinel_alarms_total{phase=\"decode\"} 1",
        "inferscope_sentinel_alarm{phase=\"decode\"} 1",
    ] {
        assert!(state.lines().any(|l| l == line), "{line} in {state}");
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn logs_of_an_engine_are_fitted_and_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let log = |slow: bool| {
        let mut text =
            String::from("[2025-07-18 15:00:00 TP0] The server is fired up and ready to roll!\n");
        for i in 0..200_u32 {
            let (running, tokens) = (8 + i * 5 % 40, 20_000 + i * 977 % 30_000);
            // Milliseconds of a step.
            let step = 6.0 + 0.05 * f64::from(running) + f64::from(tokens) / 20_000.0;
            let step =
                if slow && i >= 100 { 1.4 * step } else { step } + f64::from(i * 13 % 10) / 100.0;
            let rate = f64::from(running) / step * 1000.0;
            text.push_str(&format!(
                "[2025-07-18 15:{:02}:{:02} TP0] Decode batch. #running-req: {running}, #token: {tokens}, token usage: 0.10, cuda graph: True, gen throughput (token/s): {rate:.2}, #queue-req: 0\n",
                i / 10 % 60, i % 10 * 6
            ));
        }
        text
    };
    std::fs::write(path("good.log"), log(false)).unwrap();
    std::fs::write(path("bad.log"), log(true)).unwrap();
    let model = path("model.json");
    let fit = run(&[
        "sentinel",
        "fit",
        text(&path("good.log")),
        "-o",
        text(&model),
    ]);
    assert_eq!(
        fit.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&fit.stderr)
    );
    let watch = |file: &str| {
        run(&[
            "sentinel",
            "watch",
            text(&path(file)),
            "--model",
            text(&model),
            "--json",
        ])
    };
    assert_eq!(watch("good.log").status.code(), Some(0));
    let bad = watch("bad.log");
    assert_eq!(bad.status.code(), Some(1));
    let found = json(&bad);
    let alarms: Vec<bool> = found["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["alarm"] == true)
        .collect();
    assert!(alarms[..100].iter().all(|a| !a) && alarms[105..].iter().all(|a| *a));
}

#[test]
fn durations_without_a_law_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut text_of = String::from("start_ts,duration_us,batch_size\n");
    for i in 0..200_u64 {
        text_of.push_str(&format!(
            "{},{},8\n",
            i * 30_000,
            100 + i * i * 7919 % 40_000
        ));
    }
    std::fs::write(path("odd.csv"), text_of).unwrap();
    let fit = run(&[
        "sentinel",
        "fit",
        text(&path("odd.csv")),
        "-o",
        text(&path("model.json")),
    ]);
    assert_ne!(fit.status.code(), Some(0));
    assert!(!path("model.json").exists());
    assert!(String::from_utf8_lossy(&fit.stderr).contains("no law"));
}

#[test]
fn a_recording_becomes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let name = "a_kernel<with, a, very, long, name>".repeat(20);
    let made = make(Config::default()).json.replace(KERNELS[2].0, &name);
    std::fs::write(path("t.json"), made).unwrap();
    let found = run(&[
        "analyse",
        text(&path("t.json")),
        "--html",
        text(&path("page.html")),
    ]);
    assert_eq!(found.status.code(), Some(0));
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    let said = String::from_utf8(found.stdout).unwrap();
    let verdict = said
        .lines()
        .find(|line| line.contains("-bound"))
        .unwrap()
        .trim();
    let first = verdict.split(" (").next().unwrap();
    assert!(page.contains(first), "{first}");
    assert!(page.contains("<svg") && page.contains("GPU time by kernel"));
    assert!(!page.contains("<script"));
}

#[test]
fn a_pipe_that_is_closed_early_changes_no_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("good.csv"), steps(300, i64::MAX)).unwrap();
    std::fs::write(path("slow.csv"), steps(4_000, 100)).unwrap();
    let (good, slow, model) = (path("good.csv"), path("slow.csv"), path("model.json"));
    let fit = run(&["sentinel", "fit", text(&good), "-o", text(&model)]);
    assert_eq!(fit.status.code(), Some(0));
    let words = ["sentinel", "watch", "--model", text(&model), text(&slow)];
    let whole = run(&words);
    let said = String::from_utf8(whole.stdout).unwrap();
    assert_eq!(whole.status.code(), Some(1), "{said}");
    assert!(said.contains(" slower than expected in steps 10"), "{said}");
    // As `head -1` does.
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_cycle-rca"))
        .args(words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
