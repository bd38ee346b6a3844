//! The tool as a user runs it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn blkio(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir)
        .args(words)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_made_up_run_through_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let words = [
        "synth",
        "--events",
        "--seed",
        "7",
        "--truth",
        "truth.json",
        "-o",
        "a.txt",
    ];
    assert!(blkio(dir, &words).status.success());
    let truth: Value =
        serde_json::from_slice(&std::fs::read(dir.join("truth.json")).unwrap()).unwrap();
    let found = json(&blkio(
        dir,
        &[
            "stats", "a.txt", "--json", "--html", "a.html", "--out", "tables",
        ],
    ));
    assert_eq!(found["metrics"]["issues"], truth["requests"]);
    assert_eq!(
        found["metrics"]["pairing_newest"]["matching"]["pairs"],
        truth["events"]["pairs"]
    );
    assert!(
        std::fs::read_to_string(dir.join("a.html"))
            .unwrap()
            .contains("Address against time")
    );
    tables(dir, &found);
    let info = json(&blkio(dir, &["info", "a.txt", "--json"]));
    assert_eq!(info["files"][0]["kind"], "collector");
    assert!(
        blkio(dir, &["convert", "a.txt", "a.parquet"])
            .status
            .success()
    );
    assert!(blkio(dir, &["convert", "a.txt", "a.csv"]).status.success());
    let rows = std::fs::read_to_string(dir.join("a.csv"))
        .unwrap()
        .lines()
        .count();
    let events = truth["requests"].as_u64().unwrap() + truth["events"]["pairs"].as_u64().unwrap();
    assert_eq!(rows as u64, events + 1);
    assert!(
        std::fs::read(dir.join("a.parquet"))
            .unwrap()
            .starts_with(b"PAR1")
    );
    let same = json(&blkio(dir, &["compare", "a.txt", "a.txt", "--json"]));
    assert_eq!(same["rows"][0]["change_pct"], 0.0);
    let findings = |compared: &Value| -> Vec<(String, String)> {
        let found = compared["samples"]["comparison"]["findings"]
            .as_array()
            .unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        found
            .iter()
            .map(|f| (text(&f["name"]), text(&f["verdict"])))
            .collect()
    };
    let of_same = findings(&same);
    assert!(!of_same.is_empty() && of_same.iter().all(|(_, verdict)| verdict != "changed"));
    let threads = blkio(dir, &["stats", "a.txt", "--json", "--threads", "3"]);
    assert_eq!(
        threads.stdout,
        blkio(dir, &["stats", "a.txt", "--json", "--threads", "1"]).stdout
    );
}

#[test]
fn the_page_shows_latencies_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // All of 300 us: between 2^18 and 2^19 ns.
    let log: String = (0..50_u64)
        .map(|n| {
            let (issue_ns, sector) = (n * 1_000_000, n * 8);
            let done_ns = issue_ns + 300_000;
            format!(
                "R, {}, {done_ns}, 0, 7, 0, R, 4096, {sector}, 8, 0, 1, a\n",
                issue_ns + 1
            )
        })
        .collect();
    std::fs::write(dir.join("a"), log).unwrap();
    assert!(
        blkio(dir, &["stats", "a", "--html", "a.html"])
            .status
            .success()
    );
    let page = std::fs::read_to_string(dir.join("a.html")).unwrap();
    let from = page.find("Latency of read requests").unwrap();
    let figure = &page[from..from + page[from..].find("</figure>").unwrap()];
    assert!(
        figure.contains("262.1 µs") && figure.contains("524.3 µs"),
        "{figure}"
    );
    assert!(!figure.contains("131.1 µs"), "{figure}");
    assert!(page.contains("Queue depth") && page.contains("Address against time: reads"));
    // There are none.
    assert!(!page.contains("Address against time: writes"));
}

#[test]
fn clocks_and_devices_are_what_the_user_says() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let log: String = (0..100_u64)
        .map(|n| {
            format!(
                "{}, R, 4096, {}, 8\n",
                5_000_000_000 + n * 50_000_000,
                n * 8
            )
        })
        .collect();
    std::fs::write(dir.join("a"), log).unwrap();
    // 2025-01-21 01:31:52 is second 5 of the trace's clock.
    let wall_ns = 1_737_423_112_000_000_000_u64;
    let clock =
        format!("{{\"before\": {{\"boottime_ns\": 5000000000, \"realtime_ns\": {wall_ns}}}}}");
    std::fs::write(dir.join("clock.json"), clock).unwrap();
    let mut gpu = "timestamp, utilization.gpu [%]\n".to_owned();
    for second in 50..60 {
        gpu += &format!("2025/01/21 01:31:{second}.000, 50 %\n");
    }
    std::fs::write(dir.join("gpu.csv"), gpu).unwrap();
    let words = [
        "stats",
        "a",
        "--gpu",
        "gpu.csv",
        "--clock",
        "clock.json",
        "--json",
    ];
    let document = json(&blkio(dir, &words));
    let found = &document["gpu_against_io"]["alignment"];
    assert_eq!(found["method"], "anchors");
    assert_eq!(found["wall_minus_trace_ns"], wall_ns - 5_000_000_000);
    let info = json(&blkio(dir, &["info", "clock.json", "--json"]));
    assert_eq!(info["files"][0]["kind"], "clock-json");
    assert_eq!(info["files"][0]["detail"]["readings"], 1);
    std::fs::write(dir.join("no.json"), "{}").unwrap();
    let output = blkio(dir, &["stats", "a", "--clock", "no.json"]);
    assert_eq!(output.status.code(), Some(2));
    // Of a device that is not in the trace.
    let line = "I, 1, 0, 7, 0, R, 4096, 8, 8, 0, 1, a\n";
    std::fs::write(dir.join("b"), line).unwrap();
    let output = blkio(dir, &["stats", "b", "--device", "7:1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("whole disk"), "{said}");
}

#[test]
fn a_slower_disk_is_told_from_another_seed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, latency_ns, seed) in [
        ("a", 120_000, "1"),
        ("b", 120_000, "2"),
        ("c", 200_000, "3"),
    ] {
        let spec = format!("{{\"requests\": 6000, \"mean_latency_ns\": {latency_ns}}}");
        std::fs::write(dir.join("spec.json"), spec).unwrap();
        let words = [
            "synth",
            "--spec",
            "spec.json",
            "--events",
            "--seed",
            seed,
            "-o",
            name,
        ];
        assert!(blkio(dir, &words).status.success());
    }
    let changed = |other: &str| -> Vec<String> {
        let document = json(&blkio(dir, &["compare", "a", other, "--json"]));
        let found = document["samples"]["comparison"]["findings"]
            .as_array()
            .unwrap();
        let found = found.iter().filter(|f| f["verdict"] == "changed");
        found
            .map(|f| f["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(!changed("b").iter().any(|name| name.contains("latency")));
    let slower = changed("c");
    assert!(
        slower.contains(&"read latency p50".to_owned()),
        "{slower:?}"
    );
    assert!(
        !slower.iter().any(|name| name.contains("throughput")),
        "{slower:?}"
    );
    let text = blkio(dir, &["compare", "a", "c"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("slower read latency p50"), "{text}");
}

#[test]
fn runs_of_centuries_are_compared_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let log = "0, R, 4096, 0, 8\n5, W, 4096, 0, 8\n18446744073709551615, R, 4096, 64, 8\n";
    std::fs::write(dir.path().join("a"), log).unwrap();
    let document = json(&blkio(dir.path(), &["compare", "a", "a", "--json"]));
    let bin_ns = document["samples"]["bin_ns"].as_u64().unwrap();
    assert!(u64::MAX / bin_ns <= 2000, "{bin_ns}");
    assert_eq!(document["rows"][0]["a"], 2.0);
    // A request in flight across the end of time, and one that begins there.
    let late = "I, 18446744073709551000, 0, 7, 0, R, 4096, 8, 8, 0, 1, a\nC, 18446744073709551615, 0, 7, 0, R, 4096, 8, 8, 0, 1, a\nI, 18446744073709551615, 0, 7, 0, W, 4096, 18446744073709551615, 8, 0, 1, a\n";
    std::fs::write(dir.path().join("late"), late).unwrap();
    for file in ["a", "late"] {
        let words = [
            "stats",
            file,
            "--html",
            "page.html",
            "--out",
            "tables",
            "--json",
            "--phase",
            "a=1ns..2ns",
        ];
        assert_eq!(json(&blkio(dir.path(), &words))["quality"]["malformed"], 0);
    }
}

#[test]
fn given_phases_are_cut_where_they_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let log = "1000, W, 4096, 0, 8\n1999, WS, 8192, 8, 16\n2000, R, 4096, 64, 8\n2999, R, 4096, 72, 8\n3000, D, 512, 0, 1\n";
    std::fs::write(dir.join("a.txt"), log).unwrap();
    let words = [
        "stats",
        "a.txt",
        "--json",
        "--phase",
        "prefill=0s..1us",
        "--phase",
        "decode=1us..2us",
    ];
    let document = json(&blkio(dir, &words));
    let [prefill, decode] = &document["given_phases"].as_array().unwrap()[..] else {
        panic!("{document}");
    };
    assert_eq!(prefill["name"], "prefill");
    assert_eq!(prefill["write"]["bytes"], 12288);
    assert_eq!(prefill["operations"]["WS"]["ios"], 1);
    assert_eq!(prefill["read"]["ios"], 0);
    assert_eq!(decode["read"]["ios"], 2);
    assert_eq!(decode["read_share_of_bytes"], 1.0);
    assert_eq!(decode["sequentiality"]["read"]["sequential_share"], 0.5);
    assert_eq!(
        (&decode["start_ns"], &decode["end_ns"]),
        (&Value::from(2000), &Value::from(3000))
    );
    assert_eq!(document["quality"]["devices"]["not recorded"]["ios"], 5);
    let words = ["stats", "a.txt", "--json", "--device", "259:4"];
    let document = json(&blkio(dir, &words));
    assert_eq!(document["quality"]["devices"]["259:4"]["ios"], 5);
}

#[test]
fn phases_and_clocks_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let log = |offset: u64| -> String {
        let line = |n: u64| format!("{}, R, 4096, {}, 8\n", offset + n * 1000, n * 8);
        (0..50).map(line).collect()
    };
    std::fs::write(dir.join("a"), log(5_000)).unwrap();
    std::fs::write(dir.join("b"), log(905_000)).unwrap();
    std::fs::write(dir.join("phases"), "# by hand\n\nearly=0s..10us\n").unwrap();
    let words = ["stats", "a", "--phase-file", "phases", "--json"];
    let document = json(&blkio(dir, &words));
    assert_eq!(document["given_phases"][0]["name"], "early");
    assert_eq!(document["given_phases"][0]["read"]["ios"], 10);
    std::fs::write(dir.join("phases"), "early=0s..10us\nlate\n").unwrap();
    let output = blkio(dir, &["stats", "a", "--phase-file", "phases"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && said.contains("line 2"),
        "{said}"
    );
    let document = json(&blkio(dir, &["compare", "a", "b", "--clocks", "--json"]));
    let found = &document["clocks"];
    assert_eq!(
        (&found["requests"], &found["b_minus_a_ns"]),
        (&Value::from(50), &Value::from(900_000))
    );
    let text = blkio(dir, &["compare", "a", "b", "--clocks"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("clock of B is 900.0 µs ahead"), "{text}");
}

#[test]
fn disks_keep_their_names_across_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let head = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n";
    // Names are first seen in another order in each file.
    let row = |at: u32, comm: &str, disk: &str| {
        format!(
            "0.{at:06}    {comm}   7    {disk} R {}       4096   0.12\n",
            at * 8
        )
    };
    let a = [row(1, "one", "sda"), row(2, "two", "sdb")].concat();
    let b = [row(3, "two", "sdb"), row(4, "one", "sdb")].concat();
    std::fs::write(dir.join("a"), format!("{head}{a}")).unwrap();
    std::fs::write(dir.join("b"), format!("{head}{b}")).unwrap();
    let document = json(&blkio(dir, &["stats", "a", "b", "--json"]));
    let devices = &document["quality"]["devices"];
    assert_eq!(
        (&devices["sda"]["ios"], &devices["sdb"]["ios"]),
        (&Value::from(1), &Value::from(3))
    );
    assert!(blkio(dir, &["convert", "b", "b.csv"]).status.success());
    let table = std::fs::read_to_string(dir.join("b.csv")).unwrap();
    assert!(
        table.lines().nth(1).unwrap().contains(",issue,sdb,R,"),
        "{table}"
    );
    let piped = Command::new(env!("CARGO_BIN_EXE_blkio"))
        .args(["info", "-"])
        .stdin(std::fs::File::open(dir.join("a")).unwrap())
        .output()
        .unwrap();
    assert!(
        String::from_utf8(piped.stdout)
            .unwrap()
            .contains("issues: 2")
    );
}

/// The files of `--out`, as CSV in `tables` and once more as Parquet.
fn tables(dir: &Path, document: &Value) {
    let read = |name: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(dir.join("tables").join(name)).unwrap();
        let lines = text
            .lines()
            .map(|line| line.split(',').map(str::to_owned).collect());
        lines.collect()
    };
    let seconds = read("per_second.csv");
    assert_eq!(
        seconds[0].join(","),
        "second,read_ios,read_bytes,write_ios,write_bytes"
    );
    let sum: u64 = seconds[1..]
        .iter()
        .map(|row| row[2].parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, document["metrics"]["totals"]["read"]["bytes"]);
    let latency = read("latency.csv");
    let reads = latency
        .iter()
        .find(|row| row[..2] == ["read", "all"])
        .unwrap();
    let wanted = &document["metrics"]["pairing_newest"]["latency_ns"]["read"];
    assert_eq!(reads[2], wanted["count"].to_string());
    assert_eq!(reads[5], wanted["p50"].to_string());
    let depths = read("queue_depth.csv");
    let busy: u64 = depths[1..]
        .iter()
        .map(|row| row[1].parse::<u64>().unwrap())
        .sum();
    assert_eq!(
        busy,
        document["metrics"]["pairing_newest"]["queue_depth"]["busy_ns"]
    );
    assert_eq!(read("seeks.csv").last().unwrap()[2], "1");
    let output = blkio(dir, &["stats", "a.txt", "--out", "more", "--parquet"]);
    assert!(output.status.success());
    let names = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(dir.join(folder)).unwrap();
        let name =
            |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = files.map(|file| name(file.unwrap().path())).collect();
        names.sort();
        names
    };
    assert_eq!(names("more"), names("tables"));
    assert_eq!(names("more").len(), 16);
    let heat = read("heatmap.csv");
    let sum = |column: usize| -> u64 {
        let cells = heat[1..]
            .iter()
            .map(|row| row[column].parse::<u64>().unwrap());
        cells.sum()
    };
    let totals = &document["metrics"]["totals"];
    assert_eq!(sum(3), totals["read"]["bytes"]);
    assert_eq!(sum(4), totals["write"]["bytes"]);
    assert_eq!(sum(2), sum(3) + sum(4));
    let pids = read("sequentiality_per_pid.csv");
    let all = pids[1..].iter().filter(|row| row[1] == "all");
    let requests: u64 = all.map(|row| row[3].parse::<u64>().unwrap()).sum();
    assert_eq!(
        requests,
        document["metrics"]["sequentiality"]["all"]["requests"]
    );
    assert_eq!(read("queue_depth_per_bin.csv")[0].join(","), "bin,max,mean");
    let phases = read("phases.csv");
    assert_eq!(phases[0][5], "read_p50_ns");
    let first = &document["phases"]["phases"][0];
    assert_eq!(
        phases[1][9],
        first["latency_ns"]["write"]["p50"].to_string()
    );
    let intervals = read("block_intervals.csv");
    let again = intervals
        .iter()
        .find(|row| row[0] == "read_after_write")
        .unwrap();
    let wanted = &document["extra"]["intervals_of_128k_blocks_ns"]["read_after_write"]["count"];
    assert_eq!(again[1], wanted.to_string());
    let file = std::fs::read(dir.join("more/latency.parquet")).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
}

#[test]
fn without_a_block_log_there_is_the_figure_of_the_right_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let gpu = |percent: u32| {
        format!(
            "timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.000, {percent} %\n2025/01/21 01:31:52.200, {percent} %\n"
        )
    };
    std::fs::write(dir.join("opt-13b-model-offload-bs-1-ext4-gpu.txt"), gpu(10)).unwrap();
    std::fs::write(dir.join("opt-6.7b-kv-offload-bs-64-ext4-gpu.txt"), gpu(30)).unwrap();
    for (figure, line) in [("3", "10.00%"), ("5", "30.00%")] {
        let document = json(&blkio(
            dir,
            &["cheops25", ".", "--figure", figure, "--json"],
        ));
        let average = document["average_gpu_util_line"].as_str().unwrap();
        assert!(average.ends_with(line), "{average}");
        assert_eq!(document["figures"].as_array().unwrap().len(), 1);
        let missing = document["missing"].as_array().unwrap();
        assert!(
            missing
                .iter()
                .any(|what| what.as_str().unwrap().contains("block I/O log"))
        );
    }
    let nothing = tempfile::tempdir().unwrap();
    let output = blkio(nothing.path(), &["cheops25", ".", "--figure", "4"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn figures_of_a_result_folder() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let log = "opt-6.7b-kv-offload-bs-64-ext4-bpftrace-block.txt";
    let made = blkio(&run, &["synth", "-o", log]);
    assert!(made.status.success());
    let gpu = "timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.000, 10 %\n2025/01/21 01:31:52.200, 30 %\n";
    std::fs::write(run.join("opt-6.7b-kv-offload-bs-64-ext4-gpu.txt"), gpu).unwrap();
    let words = [
        "cheops25", "run", "--figure", "5", "--compat", "--json", "--out", "figures",
    ];
    let output = blkio(dir.path(), &words);
    if String::from_utf8_lossy(&output.stderr).contains("no fonts") {
        return;
    }
    let found = json(&output);
    assert_eq!(
        found["average_gpu_util_line"],
        "Average GPU Utilization: 20.00%"
    );
    let stem = "figures/opt-13b-model-offload-bs-64-ext4-bitesize-pre-sec-readwrite";
    for (extension, magic) in [
        ("svg", "<svg"),
        ("png", "\u{fffd}PNG"),
        ("pdf", "%PDF"),
        ("csv", "x,read,write"),
    ] {
        let bytes = std::fs::read(dir.path().join(format!("{stem}.{extension}"))).unwrap();
        assert!(
            String::from_utf8_lossy(&bytes).starts_with(magic),
            "{extension}"
        );
    }
    let missing = found["missing"].as_array().unwrap();
    assert!(missing.iter().any(|what| what == "engine log"));
}

#[test]
fn exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let code = |words: &[&str]| blkio(dir, words).status.code();
    std::fs::write(
        dir.join("lossy.txt"),
        "1, R, 4096, 8, 8\nLost 9 events\n2, R\n",
    )
    .unwrap();
    std::fs::write(dir.join("empty.txt"), "").unwrap();
    assert_eq!(code(&["stats", "lossy.txt"]), Some(0));
    assert_eq!(code(&["stats", "lossy.txt", "--max-loss", "1"]), Some(3));
    assert_eq!(
        code(&["stats", "lossy.txt", "--max-malformed", "0"]),
        Some(3)
    );
    assert_eq!(code(&["stats", "lossy.txt", "--strict"]), Some(2));
    assert_eq!(code(&["stats", "empty.txt"]), Some(2));
    assert_eq!(code(&["stats", "absent.txt"]), Some(2));
    assert_eq!(code(&["stats"]), Some(2));
    assert_eq!(code(&["stacks", "lossy.txt"]), Some(2));
}

/// A log with all that went wrong in one of them: events wrapped, far away, out of order, torn.
const BAD: &str = "Attaching 1 probe...\n\
    1000000000, W, -2147483648, 8, 4194304\n\
    2000000000, RA, 4096, 5000000000, 8\n\
    1500000000, R, 4096, 18446744073709551, 8\n\
    \u{fffd}garbage\n\
    1600000000, FF, 0, 0, 0\n\
    1700000000 R 4096 8 8\n\
    3000000000, R, 131072, 8, 25";

#[test]
fn bad_input_is_counted_and_the_rest_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("bad.txt"), BAD).unwrap();
    let found = json(&blkio(dir, &["stats", "bad.txt", "--json"]));
    let metrics = &found["metrics"];
    assert_eq!(metrics["issues"], 4);
    assert_eq!(metrics["totals"]["write"]["bytes"], 1_u64 << 31);
    assert_eq!(metrics["totals"]["read"]["bytes"], 8192);
    assert_eq!(metrics["last_issue_ns"], 2_000_000_000_u64);
    let quality = &found["quality"];
    // No commas, and the last line, whose number of sectors is cut.
    assert_eq!(quality["malformed"], 2);
    assert_eq!(quality["lines"]["unterminated_last_line"], true);
    assert_eq!(quality["largest_backward_step_ns"], 500_000_000);
    assert_eq!(quality["lines"]["other"], 1);
}

#[test]
fn what_cannot_be_read_is_named_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("folder")).unwrap();
    std::fs::write(dir.join("zero.txt"), "").unwrap();
    std::fs::write(dir.join("closed.txt"), "1, R, 4096, 8, 8\n").unwrap();
    let mut names = vec!["folder", "zero.txt", "absent.txt"];
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(dir.join("closed.txt"), closed).unwrap();
        // Root reads everything.
        if std::fs::File::open(dir.join("closed.txt")).is_err() {
            names.push("closed.txt");
        }
    }
    for name in names {
        for command in ["stats", "convert"] {
            let words = [command, name, "out.csv"];
            let words = if command == "stats" {
                &words[..2]
            } else {
                &words[..]
            };
            let output = blkio(dir, words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command} {name}: {said}");
            assert!(
                said.contains("error") && !said.contains("panicked"),
                "{said}"
            );
        }
        assert!(!dir.join("out.csv").exists());
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir.path())
        .args(["synth", "--requests", "200000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_following_with_the_report() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.txt");
    std::fs::write(&path, "1, R, 4096, 8, 8\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir.path())
        .args(["stats", "log.txt", "--json", "--follow", "1ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut wait = |lines: &str| while !said.next().unwrap().unwrap().contains(lines) {};
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(b"2, R, 4096, 16, 8\n").unwrap();
    wait("2 lines");
    let ended = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(ended.success());
    let output = child.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["metrics"]["issues"], 2);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_table_is_in_order_even_when_the_trace_steps_back_far() {
    let dir = tempfile::tempdir().unwrap();
    // So many that some are written before the early line is met.
    let mut text: String = (0..150_000_u64)
        .map(|i| format!("{}, R, 4096, 8, 8\n", 5_000_000_000 + i * 100_000))
        .collect();
    text += "7, W, 512, 1, 1\n";
    std::fs::write(dir.path().join("a.txt"), text).unwrap();
    let output = blkio(dir.path(), &["convert", "a.txt", "a.csv", "--threads", "2"]);
    assert!(output.status.success());
    let table = std::fs::read_to_string(dir.path().join("a.csv")).unwrap();
    let times: Vec<u64> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!((times.len(), times[0]), (150_001, 7));
    assert!(times.is_sorted());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// The run of `testdata/blkio`, written as five recorders would have, is one run, and the planted one.
#[test]
fn the_offloading_run_in_five_formats() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/blkio");
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let truth: Value = serde_json::from_slice(&read("offload.truth.json")).unwrap();
    for name in [
        "issues.txt",
        "events.txt",
        "blkparse.txt",
        "perf.txt",
        "blktrace.0",
    ] {
        let file = format!("offload.{name}");
        let document = json(&blkio(&dir, &["stats", &file, "--json"]));
        let found = &document["metrics"];
        assert_eq!(found["issues"], truth["issues"], "{name}");
        for direction in ["read", "write"] {
            assert_eq!(found["totals"][direction], truth[direction], "{name}");
        }
        let span = |of: &Value| {
            let at = |key: &str| of[key].as_u64().unwrap();
            at("last_issue_ns") - at("first_issue_ns")
        };
        assert_eq!(span(found), span(&truth), "{name}");
        if name == "issues.txt" {
            continue;
        }
        let pairing = &found["pairing_newest"];
        assert_eq!(pairing["matching"]["pairs"], truth["issues"], "{name}");
        for direction in ["read", "write"] {
            let found = &pairing["latency_ns"][direction];
            let planted = &truth["latency_ns"][direction];
            for key in ["count", "min", "max"] {
                assert_eq!(found[key], planted[key], "{name} {direction} {key}");
            }
            let mean = planted["sum"].as_f64().unwrap() / planted["count"].as_f64().unwrap();
            assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-6 * mean);
        }
    }
}

#[test]
fn file_systems_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    for (file_system, seconds) in [("ext4", "1.0"), ("xfs", "2.0")] {
        let folder = dir
            .path()
            .join(format!("deepnvme-results-{file_system}/aio-load-cpu"));
        std::fs::create_dir_all(&folder).unwrap();
        let gb = 4.0 / seconds.parse::<f64>().unwrap();
        let line = format!("aio load_cpu: 4.0 GB, {seconds} secs,  {gb:.2} GB/sec\n");
        let name = format!("deepnvme-aio-{file_system}-load-cpu-4096-mb.txt");
        std::fs::write(folder.join(name), line).unwrap();
    }
    let found = json(&blkio(dir.path(), &["deepnvme", ".", "--json"]));
    let shown = &found["deepnvme_gb_per_s"];
    assert_eq!(shown["ext4"]["aio-load-cpu"]["4096"], 4.0);
    assert_eq!(shown["xfs"]["aio-load-cpu"]["4096"], 2.0);
    assert_eq!(found["missing"].as_array().unwrap().len(), 2 * (8 * 13 - 1));
    let words = ["cheops25", ".", "--figure", "2", "--json"];
    let drawn = json(&blkio(dir.path(), &words));
    let files: Vec<_> = drawn["figures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figure| figure["file"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(files.len(), 4);
    assert!(files[0].starts_with("ext4-") && files[3].starts_with("xfs-"));
    let words = ["deepnvme", "deepnvme-results-xfs", "--json"];
    let one = json(&blkio(dir.path(), &words));
    assert_eq!(one["deepnvme_gb_per_s"]["aio-load-cpu"]["4096"], 2.0);
}
