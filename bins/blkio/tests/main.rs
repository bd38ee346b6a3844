//! The tool as a user runs it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod bases;
mod changes;
mod clocks;
mod comparisons;
mod devices;
mod levers;
mod limits;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Text with its lines joined, since long ones are folded.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn blkio(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir)
        .args(words)
        .output()
        .unwrap()
}

/// With this on standard input.
fn piped(dir: &Path, words: &[&str], input: &[u8]) -> Output {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input).unwrap();
    drop(pipe);
    child.wait_with_output().unwrap()
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
    // Bins fit the trace, which lasts 49 ms, unless they are given.
    assert_eq!(page.matches("in bins of 0.001 s").count(), 3);

    let args = ["stats", "a", "--html", "b.html", "--bin", "10ms"];
    assert!(blkio(dir, &args).status.success());
    let page = std::fs::read_to_string(dir.join("b.html")).unwrap();
    assert_eq!(page.matches("in bins of 0.01 s").count(), 3);
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
    let text = blkio(dir, &words[..words.len() - 1]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("GPU: busy 50.0 % on average"), "{text}");
    assert!(
        text.contains("clocks by anchors, give or take 1.000 ms"),
        "{text}"
    );
    std::fs::write(dir.join("engine"), "nothing of an engine\n").unwrap();
    let text = blkio(dir, &["stats", "a", "--engine", "engine"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("engine not compared: the log has no latencies"),
        "{text}"
    );
    assert_eq!(found["wall_minus_trace_ns"], wall_ns - 5_000_000_000);
    let info = json(&blkio(dir, &["info", "clock.json", "--json"]));
    assert_eq!(info["files"][0]["kind"], "clock-json");
    assert_eq!(info["files"][0]["detail"]["readings"], 1);
    std::fs::write(dir.join("no.json"), "{}").unwrap();
    let output = blkio(dir, &["stats", "a", "--clock", "no.json"]);
    assert_eq!(output.status.code(), Some(3));
    // Of a device that is not in the trace.
    let line = "I, 1, 0, 7, 0, R, 4096, 8, 8, 0, 1, a\n";
    std::fs::write(dir.join("b"), line).unwrap();
    let output = blkio(dir, &["stats", "b", "--device", "7:1"]);
    assert_eq!(output.status.code(), Some(3));
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
        output.status.code() == Some(3) && said.contains("line 2"),
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
    let input = std::fs::read(dir.join("a")).unwrap();
    let text = piped(dir, &["info", "-"], &input).stdout;
    assert!(String::from_utf8(text).unwrap().contains("issues: 2"));
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_looked_at_of_a_pipe_is_counted_too() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than what is looked at to tell the format.
    let mut log = String::new();
    for number in 0..5_000 {
        log += &format!("{}, R, 4096, {}, 8\n", 1_000_000 + number, number * 8);
    }
    for name in ["-", "/dev/stdin"] {
        let found = piped(dir.path(), &["info", name, "--json"], log.as_bytes());
        assert_eq!(
            json(&found)["files"][0]["detail"]["issues"],
            5_000,
            "{name}"
        );
    }
    let nothing = json(&piped(dir.path(), &["info", "-", "--json"], b""));
    assert_eq!(nothing["files"][0]["kind"], "no-events");
}

/// Reads, writes, two flushes and a discard, in bins of a second.
const MIXED: &str = "\
    I, 10000000000, 0, 7, 0, R, 4096, 0, 8, 0, 42, job\n\
    C, 10000500000, 0, 7, 0, R, 4096, 0, 8, 0, 0, swapper\n\
    I, 10100000000, 0, 7, 0, FF, 0, 0, 0, 0, 9, jbd2\n\
    C, 11100000000, 0, 7, 0, FF, 0, 18446744073709551615, 0, 0, 0, swapper\n\
    I, 12200000000, 0, 7, 0, D, 40960, 800, 80, 0, 9, jbd2\n\
    C, 12300000000, 0, 7, 0, D, 40960, 800, 80, 0, 0, swapper\n\
    I, 12400000000, 0, 7, 0, RA, 4096, 108, 8, 0, 42, job\n\
    C, 12400100000, 0, 7, 0, RA, 4096, 108, 8, 0, 0, swapper\n\
    I, 12500000000, 0, 7, 0, RA, 8192, 16, 16, 0, 42, job\n\
    C, 12500100000, 0, 7, 0, RA, 8192, 16, 16, 0, 0, swapper\n\
    I, 12600000000, 0, 7, 0, FF, 0, 0, 0, 0, 9, jbd2\n\
    C, 12600200000, 0, 7, 0, FF, 0, 18446744073709551615, 0, 0, 0, swapper\n";

#[test]
fn every_direction_has_its_series_and_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("mixed.txt"), MIXED).unwrap();
    let words = [
        "stats",
        "mixed.txt",
        "--bin",
        "1s",
        "--json",
        "--out",
        "tables",
    ];
    let extra = &json(&blkio(dir, &words))["extra"];
    let peak = |bin: u64, key: &str, value: u64| serde_json::json!({"bin": bin, key: value});
    let issued = &extra["issued_per_bin"];
    assert_eq!(issued["flush"]["ios"], Value::from(vec![1, 0, 1]));
    assert_eq!(issued["flush"]["peak_ios"], peak(0, "ios", 1));
    assert_eq!(issued["discard"]["bytes"], Value::from(vec![0, 0, 40960]));
    assert_eq!(issued["read"]["peak_bytes"], peak(2, "bytes", 12288));
    assert_eq!(issued["write"]["peak_ios"], Value::Null);
    assert!(issued["none"].is_null() && issued["zone"].is_null());
    let completed = &extra["completed_per_bin"]["flush"]["ios"];
    assert_eq!(*completed, Value::from(vec![0, 1, 1]));
    let sizes = &extra["size_histogram_bytes_by_operation"];
    assert_eq!(sizes["RA"], serde_json::json!({"4096": 1, "8192": 1}));
    assert_eq!(sizes["FF"], serde_json::json!({"0": 2}));
    // From behind the first to 108 and from 116 to 16: 100 sectors each.
    assert_eq!(
        extra["sequentiality"]["read"]["abs_seek_sectors_mean"],
        100.0
    );
    assert_eq!(
        extra["latency"]["discard"]["by_size"]["<=64KiB"]["max"],
        100_000_000
    );
    // Issues at 10, 10.1, 12.2, 12.4, 12.5 and 12.6 s: gaps of 100 ms end a burst.
    let bursts = extra["bursts"].as_array().unwrap();
    let idle: Vec<u64> = bursts
        .iter()
        .filter_map(|b| b["idle_after_ns"].as_u64())
        .collect();
    let tenth = 100_000_000;
    assert_eq!(idle, [tenth, 21 * tenth, 2 * tenth, tenth, tenth]);
    let table = std::fs::read_to_string(dir.join("tables/bursts.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + bursts.len(), "{table}");
    let table = std::fs::read_to_string(dir.join("tables/per_bin.csv")).unwrap();
    assert!(table.starts_with("bin,start_ns,read_ios,"), "{table}");
    assert!(table.lines().nth(3).unwrap().ends_with(",1,1,"), "{table}");
    let table = std::fs::read_to_string(dir.join("tables/sizes_per_operation.csv")).unwrap();
    assert!(table.contains("\nRA,8192,1\n"), "{table}");
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
    // Everything that was issued, what of it completed, and the same bytes while in flight.
    let bins = read("per_bin.csv");
    let sum = |column: &str| -> u64 {
        let at = bins[0].iter().position(|name| name == column).unwrap();
        let cells = bins[1..]
            .iter()
            .filter_map(|row| row[at].parse::<u64>().ok());
        cells.sum()
    };
    assert_eq!(
        sum("read_bytes"),
        document["metrics"]["totals"]["read"]["bytes"]
    );
    assert!(sum("completed_read_bytes") > 0);
    assert_eq!(sum("completed_write_bytes"), sum("spread_write_bytes"));
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
    assert_eq!(names("more").len(), 20);
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
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn utilisation_without_a_row_is_missing_and_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = "opt-6.7b-kv-offload-bs-64-ext4";
    let heading = "timestamp, utilization.gpu [%]\n";
    std::fs::write(dir.join(format!("{run}-gpu.txt")), heading).unwrap();
    let log = "10000000000, RA, 4096, 8, 8\n11000000000, W, 8192, 16, 16\n";
    std::fs::write(dir.join(format!("{run}-bpftrace-block.txt")), log).unwrap();
    let output = blkio(dir, &["cheops25", ".", "--figure", "5", "--json"]);
    let document = json(&output);
    assert!(document["gpu"].is_null());
    let missing = document["missing"].to_string();
    assert!(missing.contains("no row of GPU utilisation"), "{missing}");
    assert_eq!(document["info"]["RA"], serde_json::json!({"4": 1}));
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
        #[cfg(feature = "pdf")]
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
    let counts = dir
        .path()
        .join("figures/opt-13b-model-offload-bs-64-ext4-sector-access-count-all");
    let text = std::fs::read_to_string(counts.with_extension("txt")).unwrap();
    let pickle = std::fs::read(counts.with_extension("pkl")).unwrap();
    assert!(pickle.starts_with(b"\x80\x02}(X") && pickle.ends_with(b"u."));
    for name in text.lines().step_by(2) {
        let length = u32::try_from(name.len()).unwrap().to_le_bytes();
        let key = [b"X", &length[..], name.as_bytes(), b"}"].concat();
        assert!(pickle.windows(key.len()).any(|part| part == key), "{name}");
    }
}

#[test]
fn what_a_trace_does_not_tell_is_empty_in_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let five = "100, R, 4096, 8, 8\n";
    let tracefs = "  fio-7   [000] ..... 1.000000: block_rq_issue: 8,0 R 4096 () 8 + 8 none,0,0 [fio]\n  <idle>-0   [000] ..... 1.000100: block_rq_complete: 8,0 R () 8 + 8 none,0,0 [-5]\n";
    let biosnoop = "TIME(s)     COMM           PID     DISK    T SECTOR     BYTES   LAT(ms)\n0.000004    fio            7       sda     R 8          4096       0.74\n";
    for (name, text, wanted) in [
        ("five", five, &["100,issue,,R,read,8,8,4096,,,,"][..]),
        (
            "tracefs",
            tracefs,
            &[
                "1000000000,issue,8:0,R,read,8,8,4096,0,7,fio,",
                "1000100000,complete,8:0,R,read,8,8,4096,0,0,<idle>,-5",
            ],
        ),
        (
            "biosnoop",
            biosnoop,
            &[
                "999999264000,issue,sda,R,read,8,8,4096,,7,fio,",
                "1000000004000,complete,sda,R,read,8,8,4096,,7,fio,",
            ],
        ),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
        let output = blkio(dir, &["convert", name, "o.csv"]);
        assert!(output.status.success(), "{output:?}");
        let table = std::fs::read_to_string(dir.join("o.csv")).unwrap();
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(rows, wanted, "{name}");
        assert!(blkio(dir, &["convert", name, "o.parquet"]).status.success());
        let bytes = std::fs::read(dir.join("o.parquet")).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // The metadata stands in the footer as it is.
        assert!(
            text.contains(&format!("[{{\"name\":\"{name}\",\"format\":")),
            "{name}"
        );
    }
}

#[test]
fn options_and_files_that_say_nothing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("a"), "100, R, 4096, 8, 8\n").unwrap();
    std::fs::write(dir.join("empty"), "").unwrap();
    let said = |words: &[&str]| {
        let output = blkio(dir, &[&["stats", "a"], words].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (words, option) in [
        (&["--tz", "+01:00"][..], "--tz"),
        (&["--clock-offset", "5"], "--clock-offset"),
        (&["--no-latency", "--stale", "1s"], "--stale"),
        (&["--traffic-only", "--reuse-block", "64K"], "--reuse-block"),
        (&["--traffic-only", "--exact-reuse"], "--exact-reuse"),
        (
            &["--traffic-only", "--working-set-window", "1s"],
            "--working-set-window",
        ),
    ] {
        let said = said(words);
        let wanted = format!("warning: {option} says nothing w");
        assert_eq!(said.matches(&wanted).count(), 1, "{words:?} {said}");
        assert_eq!(said.lines().count(), 1, "{words:?} {said}");
    }
    assert_eq!(
        said(&["--stale", "1s", "--reuse-block", "64K", "--exact-reuse"]),
        ""
    );
    assert!(said(&["--engine", "a"]).contains("a: nothing of what FlexGen"));
    let json = "{\n\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\", \"read\": {\"io_bytes\": 8192, \"total_ios\": 2}}]\n}\n";
    std::fs::write(dir.join("fio.json"), json).unwrap();
    let words = |trace| ["fio", "fio.json", "--trace", trace];
    assert!(blkio(dir, &words("a")).status.success());
    let output = blkio(dir, &words("empty"));
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no requests in empty"));
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "100, R, 4096, 8, 8\n";
    std::fs::write(dir.join("a.csv"), text).unwrap();
    for words in [
        &["convert", "a.csv", "./a.csv"][..],
        &["stats", "a.csv", "-o", "a.csv"],
        &["stats", "a.csv", "--html", "a.csv"],
        &["info", "a.csv", "-o", "a.csv"],
        &["compare", "a.csv", "b", "-o", "a.csv"],
        &["stacks", "a.csv", "--svg", "a.csv"],
        &["fio", "x", "--trace", "a.csv", "-o", "a.csv"],
        &["synth", "-o", "new", "--truth", "new"],
    ] {
        let output = blkio(dir, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("name another"), "{words:?} {said}");
        assert_eq!(std::fs::read_to_string(dir.join("a.csv")).unwrap(), text);
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
    assert!(
        blkio(dir, &["stats", "a.csv", "-o", "-", "--html", "/dev/null"])
            .status
            .success()
    );
}

#[test]
fn folders_of_deepnvme_that_fail_lead_back_or_are_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let failed = dir.join("failed");
    std::fs::create_dir(&failed).unwrap();
    std::fs::write(
        failed.join("deepnvme-py-ext4-load-cpu-2-mb.txt"),
        "killed\n",
    )
    .unwrap();
    let output = blkio(dir, &["deepnvme", "failed"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no result in any of 1") && said.contains("load-cpu-2-mb.txt"),
        "{said}"
    );
    std::os::unix::fs::symlink(".", dir.join("loop")).unwrap();
    let line = "aio load_cpu: 0.5 GB, 0.25 secs,  2.00 GB/sec\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, line.as_bytes()).unwrap();
    let name = "deepnvme-aio-ext4-load-cpu-1-mb.txt.gz";
    std::fs::write(dir.join(name), packed.finish().unwrap()).unwrap();
    let found = json(&blkio(dir, &["deepnvme", ".", "--json"]));
    assert_eq!(
        found["deepnvme_gb_per_s"]["aio-load-cpu"]["1"], 2.0,
        "{found}"
    );
}

#[test]
fn a_pointer_in_place_of_the_log_leaves_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let stem = "opt-6.7b-kv-offload-bs-64-ext4";
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 275388642\n";
    std::fs::write(dir.join(format!("{stem}-bpftrace-block.txt")), pointer).unwrap();
    let words = ["cheops25", ".", "--figure", "5", "--json"];
    assert_eq!(blkio(dir, &words).status.code(), Some(3));
    let gpu = "timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.000, 10 %\n";
    std::fs::write(dir.join(format!("{stem}-gpu.txt")), gpu).unwrap();
    let found = json(&blkio(dir, &words));
    assert_eq!(
        found["average_gpu_util_line"],
        "Average GPU Utilization: 10.00%"
    );
    assert_eq!(found["figures"].as_array().unwrap().len(), 1);
    // What the engine printed is checked against the command, which has a file of its own.
    let engine = "prefill latency: 21.923 s\tprefill throughput: 747.328 token/s\n";
    std::fs::write(dir.join(format!("{stem}.txt")), engine).unwrap();
    let command =
        "python3 -m flexgen.flex_opt --gpu-batch-size 64 --prompt-len 256 --gen-len 256\n";
    std::fs::write(dir.join("flexgen-kv-offload-trace-log.txt"), command).unwrap();
    let engine = json(&blkio(dir, &words))["engine"].clone();
    assert_eq!(
        (&engine["batch"], &engine["prompt_len"]),
        (&64.into(), &256.into())
    );
    assert_eq!(engine["identities"][0]["holds"], true, "{engine}");
    let missing = found["missing"].to_string();
    assert!(
        missing.contains("Git LFS pointer") && missing.contains("275388642"),
        "{missing}"
    );
}

#[test]
fn stacks_by_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "@m[fio, \n    submit_bio+1\n    wb_workfn+3\n]: 3\n@m[dd, \n    submit_bio+1\n    wb_workfn+3\n]: 5\n@m[dd, \n    sub";
    std::fs::write(dir.join("s"), text).unwrap();
    let output = blkio(dir, &["stacks", "s", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("s: entries that are cut"), "{said}");
    let map = json(&output)["maps"]["m"].clone();
    assert_eq!(map["requests"], 8);
    assert_eq!(map["classes"][0]["class"], "writeback");
    assert_eq!(map["keys"][0]["key"], "dd");
    assert_eq!(map["keys"][0]["requests"], 5);
    let folded = blkio(dir, &["stacks", "s", "--folded"]).stdout;
    assert_eq!(
        folded,
        b"m;fio;wb_workfn;submit_bio 3\nm;dd;wb_workfn;submit_bio 5\n"
    );
    let csv = blkio(dir, &["stacks", "s", "--format", "csv"]).stdout;
    assert!(String::from_utf8_lossy(&csv).contains("m,key,dd,5,0.625"));
    let text = blkio(dir, &["stacks", "s"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("  of fio: 3\n"));
    let most = u64::MAX;
    let wild = format!("@m[\n    submit_bio+1\n]: {most}\n@m[\n    wb_workfn+3\n]: 5\n");
    std::fs::write(dir.join("wild"), wild).unwrap();
    let found = json(&blkio(dir, &["stacks", "wild", "--json"]));
    assert_eq!(found["maps"]["m"]["requests"], most);
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
    assert_eq!(code(&["stats", "lossy.txt", "--max-loss", "1"]), Some(1));
    assert_eq!(
        code(&["stats", "lossy.txt", "--max-malformed", "0"]),
        Some(1)
    );
    assert_eq!(code(&["stats", "lossy.txt", "--strict"]), Some(3));
    assert_eq!(code(&["stats", "empty.txt"]), Some(3));
    assert_eq!(code(&["stats", "absent.txt"]), Some(3));
    assert_eq!(code(&["stats"]), Some(2));
    assert_eq!(code(&["stacks", "lossy.txt"]), Some(3));
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
            assert_eq!(output.status.code(), Some(3), "{command} {name}: {said}");
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
    wait("1 lines");
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
        let text = blkio(&dir, &["stats", &file]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.contains("no completions"), name == "issues.txt");
        assert_eq!(text.contains(" records, "), name == "blktrace.0");
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

/// A recording of blktrace: issues and completions by turns on two processors, as the files `NAME.blktrace.0` and `.1`.
fn blktrace(name: &Path, requests: u32, latency_ns: u64) {
    for cpu in 0..2_u32 {
        let mut bytes = Vec::new();
        let mut sequence = 0_u32;
        for number in (0..requests).filter(|number| number % 2 == cpu) {
            let issue_ns = 1_000_000 + u64::from(number) * 1_000_000;
            let sector = u64::from(number) * 8;
            // Issue and completion of a read: categories read and issue, read and complete.
            for (t_ns, action) in [
                (issue_ns, 7 | 0x41 << 16),
                (issue_ns + latency_ns, 8 | 0x81 << 16),
            ] {
                let action: u32 = action;
                sequence += 1;
                bytes.extend(0x6561_7407_u32.to_le_bytes());
                bytes.extend(sequence.to_le_bytes());
                bytes.extend(t_ns.to_le_bytes());
                bytes.extend(sector.to_le_bytes());
                for word in [4096, action, 42, 259 << 20, cpu, 0] {
                    bytes.extend(word.to_le_bytes());
                }
            }
        }
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".blktrace.{cpu}"));
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_recording_of_blktrace_is_given_by_its_folder_its_name_or_its_parts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (folder, latency_ns) in [("a", 100_000), ("b", 200_000)] {
        std::fs::create_dir(dir.join(folder)).unwrap();
        blktrace(&dir.join(folder).join("blk"), 300, latency_ns);
    }
    let metrics = |words: &[&str]| {
        let words = [&["stats", "--json"], words].concat();
        json(&blkio(dir, &words))["metrics"].clone()
    };
    let parts = metrics(&["a/blk.blktrace.0", "a/blk.blktrace.1"]);
    assert_eq!(parts["issues"], 300);
    assert_eq!(metrics(&["a"]), parts);
    assert_eq!(metrics(&["a/blk"]), parts);
    let one = blkio(dir, &["stats", "a/blk.blktrace.1"]);
    let said = String::from_utf8(one.stderr).unwrap();
    assert!(said.contains("1 of the 2 parts of a/blk"), "{said}");
    assert!(
        String::from_utf8(one.stdout)
            .unwrap()
            .contains("150 requests")
    );

    let p50 = |words: &[&str]| {
        let words = [&["compare", "--json"], words].concat();
        let rows = json(&blkio(dir, &words))["rows"].clone();
        let rows = rows.as_array().unwrap();
        let row = rows.iter().find(|row| row["what"] == "read_latency_p50_ns");
        let ios = rows.iter().find(|row| row["what"] == "read_ios").unwrap();
        assert_eq!(
            (&ios["a"], &ios["b"]),
            (&Value::from(300.0), &Value::from(300.0))
        );
        row.map(|row| (row["a"].as_f64().unwrap(), row["b"].as_f64().unwrap()))
    };
    let wanted = Some((100_000.0, 200_000.0));
    assert_eq!(p50(&["a", "b"]), wanted);
    let sides = [
        "a/blk.blktrace.0",
        "a/blk.blktrace.1",
        "--with",
        "b/blk.blktrace.1",
        "b/blk.blktrace.0",
    ];
    assert_eq!(p50(&sides), wanted);
    assert_eq!(p50(&["a/blk", "--with", "b"]), wanted);
    for wrong in [&["a"][..], &["a", "b", "a"], &[]] {
        let words = [&["compare"], wrong].concat();
        assert_eq!(blkio(dir, &words).status.code(), Some(2), "{wrong:?}");
    }
    blktrace(&dir.join("a").join("other"), 3, 5);
    let output = blkio(dir, &["stats", "a"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(3) && said.contains("several recordings"),
        "{said}"
    );
    std::fs::create_dir(dir.join("c")).unwrap();
    assert_eq!(blkio(dir, &["stats", "c"]).status.code(), Some(3));
    std::fs::write(dir.join("c").join("events.txt"), "10, R, 4096, 64, 8\n").unwrap();
    assert_eq!(metrics(&["c"])["issues"], 1);
}

#[test]
fn every_file_beside_a_trace_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let btt = "==================== All Devices ====================\n\nD2C               0.000016965   0.001131335   0.021166567       16662\n";
    let summary = "CPU0 (sda):\n Reads Queued:          10,       40KiB\t Writes Queued:          1,      512KiB\n Read Dispatches:      10,       40KiB\t Write Dispatches:        1,      512KiB\n\nEvents (sda): 44 entries\nSkips: 0 forward (0 -   0.0%)\n";
    let engine = "prefill latency: 2.000 s\tprefill throughput: 8.000 token/s\n";
    for (name, kind, content, place, value) in [
        (
            "btt.txt",
            "btt",
            btt,
            "/stages/D2C/mean_ns",
            Value::from(1_131_335),
        ),
        (
            "summary",
            "blkparse-summary",
            summary,
            "/0/read/queued/bytes",
            40_960.into(),
        ),
        (
            "job.fio",
            "fio-job",
            "[global]\nbs=4k\n[a]\nrw=read\n",
            "/a/rw",
            "read".into(),
        ),
        (
            "a_clat.1.log",
            "fio-log",
            "1, 500, 0, 4096, 0\n3, 700, 0, 4096, 0\n",
            "/read/max_completion_latency_ns",
            700.into(),
        ),
        (
            "w_clat.1.log",
            "fio-log",
            "500, 4000, 9000, 0, 0, 0\n1000, 5000, 8000, 0, 0, 0\n",
            "/read/max_completion_latency_ns",
            9000.into(),
        ),
        (
            "fio.json",
            "fio-json",
            "{\n\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\", \"read\": {\"io_bytes\": 8192, \"total_ios\": 2}}]\n}\n",
            "/jobs/0/read/bytes",
            8192.into(),
        ),
        (
            "clock.json",
            "clock-json",
            "{\"boottime_ns\": 5, \"realtime_ns\": 1000000005}",
            "/first_wall_time",
            "1970-01-01T00:00:01.000000Z".into(),
        ),
        (
            "gpu",
            "gpu-csv",
            "timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.978, 40 %\n",
            "/mean_percent",
            40.0.into(),
        ),
        (
            "engine",
            "engine-log",
            engine,
            "/values/prefill latency",
            2.0.into(),
        ),
        (
            "stacks",
            "stacks",
            "@kernel_stacks[\n    blk_flush_plug+1\n    aio_read+3\n]: 64\n",
            "/stacks",
            1.into(),
        ),
        (
            "deepnvme-aio-ext4-load-cpu-1-mb.txt",
            "deepnvme-log",
            "aio load_cpu: 0.5 GB, 0.25 secs,  2.00 GB/sec\n",
            "/run/series",
            "aio-load-cpu".into(),
        ),
        (
            "hist",
            "histograms",
            "@usecs: \n[64, 128)             32 |@@@@|\n",
            "/0/p50_between/0",
            64.into(),
        ),
        (
            "truth.json",
            "json",
            "{\"requests\": 5}\n",
            "/members/0",
            "requests".into(),
        ),
        ("notes", "text", "nothing\nin here\n", "/lines", 2.into()),
    ] {
        std::fs::write(dir.join(name), content).unwrap();
        let found = json(&blkio(dir, &["info", name, "--json"]));
        let file = &found["files"][0];
        assert_eq!(file["kind"], kind, "{file}");
        assert_eq!(file["detail"].pointer(place), Some(&value), "{file}");
        // None of them is a trace.
        assert_eq!(
            blkio(dir, &["stats", name]).status.code(),
            Some(3),
            "{name}"
        );
        // From standard input it is the same, but for a name that says more.
        let piped = json(&piped(dir, &["info", "-", "--json"], content.as_bytes()));
        assert_eq!(piped["files"][0]["kind"], kind);
        if kind != "deepnvme-log" && kind != "fio-log" {
            assert_eq!(piped["files"][0]["detail"], file["detail"], "{name}");
        }
        let text = blkio(dir, &["info", name]);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.starts_with(&format!("{name}: {kind}\n")), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
    // A folder is all that is in it, and what cannot be read is no reason to say nothing of the rest.
    let all = blkio(dir, &["info", "no such", ".", "--json"]);
    assert_eq!(all.status.code(), Some(3));
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    std::fs::create_dir(dir.join("nothing")).unwrap();
    assert_eq!(blkio(dir, &["info", "nothing"]).status.code(), Some(3));
    assert_eq!(all["files"].as_array().unwrap().len(), 15);
    assert_eq!(all["files"][0]["kind"], "unreadable");
    assert_eq!(all["files"][1]["kind"], "fio-log");
    let table = blkio(dir, &["info", ".", "--format", "csv"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert_eq!(table.lines().count(), 15, "{table}");
}

#[test]
fn a_loss_is_seen_without_pairing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut log = String::new();
    for number in 0..10_u64 {
        let line = |kind, t| {
            format!(
                "{kind}, {t}, 0, 7, 0, WS, 4096, {}, 8, 0, 1, a\n",
                number * 8
            )
        };
        log += &line('I', number * 1000);
        if number != 4 {
            log += &line('C', number * 1000 + 500);
        }
    }
    // The end of a flush sequence is no completion of a request.
    log += "C, 20000, 0, 7, 0, WS, 0, 8, 0, 0, 1, a\n";
    std::fs::write(dir.join("a"), log).unwrap();
    for mode in [&[][..], &["--no-latency"], &["--traffic-only"]] {
        let words = [&["stats", "a", "--json"], mode].concat();
        let document = json(&blkio(dir, &words));
        let quality = &document["quality"];
        assert_eq!(quality["missing_share_estimate"], 0.1, "{mode:?}");
        assert_eq!(quality["completions_per_issue"], 0.9, "{mode:?}");
        assert_eq!(quality["sequence_end_completions"], 1, "{mode:?}");
        // What nobody looked for is not zero.
        let is_paired = mode.is_empty();
        assert_eq!(
            quality["unmatched_issues"].is_null(),
            !is_paired,
            "{mode:?}"
        );
        assert_eq!(document["metrics"]["pairing_newest"].is_object(), is_paired);
        assert_eq!(
            document["metrics"]["sequentiality"].is_object(),
            mode != ["--traffic-only"]
        );
        let words = [&["stats", "a", "--max-loss", "5"], mode].concat();
        assert_eq!(blkio(dir, &words).status.code(), Some(1), "{mode:?}");
    }
}

#[test]
fn readings_of_another_clock_are_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = "  fio-26257   [001] .....  1048.996254: block_rq_issue: 7,0 WS 131072 () 68920 + 256 be,0,4 [fio]\n";
    std::fs::write(dir.join("local"), line).unwrap();
    std::fs::write(dir.join("boot"), format!("# trace clock: boot\n{line}")).unwrap();
    std::fs::write(
        dir.join("rebased"),
        "  7,0    1        1     0.000000000 28449  D  RM 68872 + 8 [fio]\n",
    )
    .unwrap();
    let reading = "{\"boottime_ns\": 1048000000000, \"realtime_ns\": 1737423112000000000}";
    std::fs::write(dir.join("clock.json"), reading).unwrap();
    let gpu: String = (10..20)
        .map(|second| {
            format!("2025/01/21 01:31:{second}.000, 50 %\n2025/01/21 01:32:{second}.000, 50 %\n")
        })
        .collect();
    std::fs::write(dir.join("gpu"), gpu).unwrap();
    for (file, clock, code, uncertainty_ns) in [
        ("boot", "boottime", 0, 1_000_000),
        ("local", "local", 0, 100_000_000),
        ("rebased", "rebased", 3, 0),
    ] {
        let words = [
            "stats",
            file,
            "--clock",
            "clock.json",
            "--gpu",
            "gpu",
            "--json",
        ];
        let output = blkio(dir, &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{file}: {said}");
        assert_eq!(
            said.contains(&format!("`{clock}`")),
            clock != "boottime",
            "{said}"
        );
        if code == 0 {
            let document = json(&output);
            assert_eq!(document["inputs"][0]["clock"], clock);
            assert_eq!(document["quality"]["clocks"][0], clock);
            let found = &document["gpu_against_io"]["alignment"]["uncertainty_ns"];
            assert_eq!(found, uncertainty_ns, "{document}");
        }
    }
}

#[test]
fn tables_are_tables_and_doubts_are_said_by_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let stacks = "@kernel_stacks[\n    blkdev_issue_flush+1\n]: 3\n@kernel_stacks[\n    blkdev_direct_IO+1\n    blkdev_read_iter+3\n    aio_read+3\n]: 1\n";
    std::fs::write(dir.join("stacks"), stacks).unwrap();
    let found = text(&blkio(dir, &["stacks", "stacks", "--format", "csv"]));
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("map,by,name,requests,share"));
    assert_eq!(lines.next(), Some("kernel_stacks,class,flush,3,0.75"));
    assert!(found.contains("kernel_stacks,submission,"), "{found}");
    let fio = "{\n\"fio version\": \"fio-3.33\", \"global options\": {\"direct\": \"1\"}, \"jobs\": [{\"jobname\": \"a\", \"read\": {\"io_bytes\": 8192, \"total_ios\": 2}}]\n}\n";
    std::fs::write(dir.join("fio.json"), fio).unwrap();
    let log = "I, 10, 0, 7, 0, RS, 4096, 8, 8, 0, 1, a\nC, 90, 0, 7, 0, RS, 4096, 8, 8, 0, 1, a\nI, x\nLost 3 events\n";
    std::fs::write(dir.join("log"), log).unwrap();
    let words = ["fio", "fio.json", "--trace", "log", "--format", "csv"];
    let output = blkio(dir, &words);
    assert_eq!(
        text(&output).lines().nth(1),
        Some("\"direct reads, trace R and RS\",2,8192,1,4096,-1,-4096")
    );
    let mut said = vec![output.stderr];
    said.push(blkio(dir, &["compare", "log", "log"]).stderr);
    said.push(blkio(dir, &["convert", "log", "log.csv"]).stderr);
    said.push(blkio(dir, &["stats", "log"]).stderr);
    for said in said {
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("malformed lines, left out: 1"), "{said}");
        assert!(said.contains("lost"), "{said}");
    }
    let name = "deepnvme-aio-ext4-load-cpu-1-mb.txt";
    std::fs::write(
        dir.join(name),
        "aio load_cpu: 0.5 GB, 0.25 secs,  2.00 GB/sec\n",
    )
    .unwrap();
    let found = text(&blkio(dir, &["deepnvme", "."]));
    let lines: Vec<&str> = found.lines().collect();
    // Cells stand below their headings.
    let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
    assert_eq!(
        ends(lines[0], "gib_per_s"),
        ends(lines[lines.len() - 1], "2.000000"),
        "{found}"
    );
    for command in [&["deepnvme"][..], &["cheops25", "--figure", "5"]] {
        let words = [command, &[name]].concat();
        let output = blkio(dir, &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(3) && said.contains("a file, where the folder"),
            "{said}"
        );
    }
    let found = text(&blkio(dir, &["compare", "log", "log"]));
    assert!(
        found.contains("80 ns") && found.contains("4.000 KiB"),
        "{found}"
    );
}

#[test]
fn widths_that_are_asked_for_are_those_of_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // A request of 4 KiB every 20 ms, each place twice.
    let log: String = (0..200_u64)
        .map(|n| format!("{}, R, 4096, {}, 8\n", n * 20_000_000 + 1, n % 100 * 8))
        .collect();
    std::fs::write(dir.join("a"), log).unwrap();
    let of = |more: &[&str]| -> serde_json::Value {
        let args = [&["stats", "a", "--json"], more].concat();
        serde_json::from_slice(&blkio(dir, &args).stdout).unwrap()
    };
    let usual = of(&[]);
    assert_eq!(
        usual["metrics"]["bursts_gap_100ms"]["count"], 1,
        "{}",
        usual["metrics"]
    );
    let distance = &usual["metrics"]["reuse_distance_128k_blocks"];
    assert_eq!(
        (&distance["cold"], &distance["max"]),
        (&4.into(), &3.into())
    );
    let narrow = of(&[
        "--burst-gap",
        "10ms",
        "--reuse-block",
        "4K",
        "--working-set-window",
        "1s",
    ]);
    assert_eq!(narrow["metrics"]["bursts_gap_10ms"]["count"], 200);
    let distance = &narrow["metrics"]["reuse_distance_4k_blocks"];
    assert_eq!(
        (&distance["cold"], &distance["max"]),
        (&100.into(), &99.into())
    );
    let windows = |of: &serde_json::Value| {
        let windows = of["extra"]["working_set_4k_blocks_by_window"]["windows"].as_array();
        windows.map(Vec::len)
    };
    assert_eq!((windows(&usual), windows(&narrow)), (Some(1), Some(4)));
    let refused = blkio(dir, &["stats", "a", "--reuse-block", "100"]);
    assert_eq!(refused.status.code(), Some(2));
}
