//! The tool as it is called.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocpd_synth::{Made, Shape, generate};
use tempfile::TempDir;

struct Run {
    folder: TempDir,
    made: Vec<Made>,
}

impl Run {
    fn new(shape: &Shape) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = generate(&folder.path().join("in"), shape).unwrap();
        Self { folder, made }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the tool in the folder with the databases as input.
    fn call(&self, words: &[&str]) -> Output {
        call(
            self.folder.path(),
            &[&words[..1], &["-i", "in"], &words[1..]].concat(),
        )
    }
}

fn call(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocpd"))
        .current_dir(folder)
        .env_remove("ROCPD_OUTPUT_NAME")
        .env_remove("ROCPD_OUTPUT_PATH")
        .args(words)
        .output()
        .unwrap()
}

fn ok(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn two() -> Shape {
    Shape {
        ranks: 2,
        nodes: 2,
        equal_pids: true,
        ..Shape::small()
    }
}

#[test]
fn summaries_are_files_with_the_spellings_of_the_format() {
    let run = Run::new(&two());
    let words = [
        "summary",
        "-d",
        "out",
        "-o",
        "run",
        "-f",
        "csv",
        "--domain-summary",
        "--summary-by-rank",
    ];
    ok(&run.call(&words));
    for name in [
        "kernels",
        "memory_copies",
        "memory_allocations",
        "scratch_memory",
        "hip",
        "hsa",
        "rccl",
        "markers",
        "domain",
    ] {
        for end in ["summary", "summary_by_rank"] {
            let path = run.path(&format!("out/run_{name}_{end}.csv"));
            assert!(path.is_file(), "{}", path.display());
        }
    }
    let text = std::fs::read_to_string(run.path("out/run_domain_summary_by_rank.csv")).unwrap();
    let header = text.lines().next().unwrap();
    assert_eq!(
        header,
        "ProcessID,Hostname,Name,Calls,DURATION (nsec),AVERAGE (nsec),PERCENT (INC),MIN (nsec),MAX (nsec),STD_DEV"
    );
    // Equal process ids on two hosts: each has its own rows.
    for made in &run.made {
        let start = format!(
            "4000,{},KERNELS,{},",
            made.truth.hostname, made.truth.dispatches
        );
        assert!(text.lines().any(|line| line.starts_with(&start)), "{start}");
    }
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(",KERNELS,"))
            .count(),
        2
    );
}

#[test]
fn extended_summaries_find_what_was_planted() {
    let mut shape = Shape::large(2000);
    shape.ranks = 2;
    let run = Run::new(&shape);
    ok(&run.call(&["summary", "-d", "out", "-f", "csv", "--extended"]));
    let anomalies = std::fs::read_to_string(run.path("out/anomalies.csv")).unwrap();
    for made in &run.made {
        let own = anomalies
            .lines()
            .filter(|line| line.contains(&made.truth.guid))
            .count();
        assert_eq!(own, made.truth.outliers.len());
    }
    let busy = std::fs::read_to_string(run.path("out/busy_summary.csv")).unwrap();
    for made in &run.made {
        let sum = made.truth.busy_ns[&4].to_string();
        assert!(
            busy.lines()
                .any(|line| line.contains(&made.truth.guid) && line.contains(&sum))
        );
    }
    assert!(run.path("out/launch_latency_summary.csv").is_file());
    assert!(run.path("out/rank_imbalance_summary.csv").is_file());
}

#[test]
fn queries_in_every_format() {
    let run = Run::new(&two());
    let query = "SELECT name, COUNT(*) AS n, AVG(duration) AS mean, NULL AS missing FROM kernels GROUP BY name ORDER BY name";
    for format in [
        "csv",
        "tsv",
        "json",
        "jsonl",
        "md",
        "html",
        "dashboard",
        "pdf",
        "parquet",
        "arrow",
    ] {
        let out = ok(&run.call(&[
            "query", "--query", query, "--format", format, "-d", "out", "-o", "q",
        ]));
        let path = run.path(&format!("out/q.{format}"));
        assert!(path.is_file(), "{format}");
        assert!(out.starts_with("Exported to: "), "{out}");
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for made in &run.made {
        for (name, kernel) in &made.truth.kernels {
            *calls.entry(name.clone()).or_default() += kernel.calls;
        }
    }
    let json = std::fs::read_to_string(run.path("out/q.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let found: BTreeMap<String, u64> = rows
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["n"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, calls);
    assert!(rows.iter().all(|row| row["missing"].is_null()));
    let console = ok(&run.call(&["query", "--query", query]));
    assert_eq!(
        console
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["name", "n", "mean", "missing"]
    );
    let pdf = std::fs::read(run.path("out/q.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF-1.4") && pdf.ends_with(b"%%EOF\n"));
    assert_eq!(
        &std::fs::read(run.path("out/q.parquet")).unwrap()[..4],
        b"PAR1"
    );
}

#[test]
fn empty_results_and_errors() {
    let run = Run::new(&two());
    let none = run.call(&[
        "query",
        "--query",
        "SELECT 1 WHERE 0",
        "--format",
        "csv",
        "-d",
        "out",
    ]);
    ok(&none);
    assert!(String::from_utf8_lossy(&none.stderr).contains("No results found for query"));
    assert!(!run.path("out/out.csv").exists());
    let wrong = run.call(&["query", "--query", "SELEKT"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("near \"SELEKT\": syntax error"));
    let compat = run.call(&["query", "--compat", "--query", "SELEKT"]);
    assert_eq!(compat.status.code(), Some(0));
    assert!(ok(&compat).starts_with("Error: Execution failed on sql 'SELEKT'"));
    let missing = call(run.folder.path(), &["info", "-i", "nothing.db"]);
    assert_eq!(missing.status.code(), Some(1));
    let missing = call(
        run.folder.path(),
        &["query", "-i", "nothing.db", "--query", "SELECT 1"],
    );
    assert_eq!(missing.status.code(), Some(2));
    assert!(!run.path("nothing.db").exists());
    let otf2 = run.call(&["convert", "-f", "otf2"]);
    assert_eq!(otf2.status.code(), Some(3));
    let unknown = run.call(&["summary", "--region-categories", "HIPP", "-d", "out"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("HIP, HSA"));
    assert!(ok(&call(run.folder.path(), &[])).contains("Usage"));
}

#[test]
fn csv_in_both_layouts() {
    let run = Run::new(&two());
    ok(&run.call(&["convert", "-f", "csv", "-d", "out", "-o", "u"]));
    ok(&run.call(&[
        "convert",
        "-f",
        "csv",
        "--csv-layout",
        "classic",
        "-d",
        "out",
        "-o",
        "c",
    ]));
    // A name with a line break makes a row of two lines: rows are counted by their guids.
    let rows = |file: &str| {
        let text = std::fs::read_to_string(run.path(&format!("out/{file}"))).unwrap();
        run.made
            .iter()
            .map(|made| text.matches(made.truth.guid.as_str()).count() as u64)
            .sum::<u64>()
    };
    let sum =
        |get: fn(&rocpd_synth::Truth) -> u64| run.made.iter().map(|m| get(&m.truth)).sum::<u64>();
    let dispatches = sum(|t| t.dispatches);
    assert_eq!(rows("u_kernel_trace.csv"), dispatches);
    assert_eq!(rows("c_kernel_trace.csv"), dispatches);
    assert_eq!(rows("u_regions_trace.csv"), sum(|t| t.regions + t.samples));
    let markers = sum(|t| t.markers.values().map(|m| m.calls).sum());
    assert_eq!(rows("c_marker_api_trace.csv"), markers);
    let hip = sum(|t| t.domains["HIP"].values().map(|m| m.calls).sum());
    assert_eq!(rows("c_hip_api_trace.csv"), hip);
    assert_eq!(rows("c_agent_info.csv"), 6);
    let text = std::fs::read_to_string(run.path("out/c_kernel_trace.csv")).unwrap();
    assert!(text.starts_with("\"Guid\",\"Kind\",\"Agent_Id\""));
    assert!(text.contains("\"odd \"\"name\"\", with\nnewline"));
}

fn trace(path: &Path) -> trace_model::Trace {
    let source = byte_source::Source::open(path, &byte_source::OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap()
}

#[test]
fn perfetto_read_back_has_every_record_and_counter() {
    let mut shape = two();
    shape.steps = 20;
    let run = Run::new(&shape);
    ok(&run.call(&["convert", "-f", "pftrace", "-d", "out", "-o", "p"]));
    let trace = trace(&run.path("out/p_results.pftrace"));
    let of = |category: &str| -> (u64, i64) {
        trace
            .slices()
            .filter(|s| s.category() == Some(category))
            .fold((0, 0), |(n, sum), s| {
                (n + 1, sum + s.dur().map_or(0, |d| d.get()))
            })
    };
    let truth = || run.made.iter().map(|made| &made.truth);
    let (kernels, busy) = of("kernel_dispatch");
    assert_eq!(
        kernels,
        truth()
            .map(|t| t.dispatches + t.lost_dispatches)
            .sum::<u64>()
    );
    let (copies, copied) = of("memory_copy");
    assert_eq!(
        copies,
        truth()
            .map(|t| t.copies.values().map(|c| c.calls).sum::<u64>() + t.lost_copies)
            .sum::<u64>()
    );
    assert_eq!(
        busy + copied,
        truth().flat_map(|t| t.busy_ns.values()).sum::<i64>()
    );
    let (markers, marked) = of("marker_api");
    assert_eq!(
        markers,
        truth()
            .flat_map(|t| t.markers.values())
            .map(|m| m.calls)
            .sum::<u64>()
    );
    assert_eq!(
        marked,
        truth()
            .flat_map(|t| t.markers.values())
            .map(|m| m.total_ns)
            .sum::<i64>()
    );
    // Two nodes with equal ids are two processes.
    assert_eq!(trace.processes().len(), 2);
    // No slice of a device lies in another one: what overlaps is on lanes.
    assert!(
        trace
            .slices()
            .filter(|s| s.category() == Some("kernel_dispatch"))
            .all(|s| s.depth() == 0)
    );
    // Counters end where the truth ends, and reach its peak.
    let mut ends: Vec<i64> = Vec::new();
    let mut peaks: Vec<i64> = Vec::new();
    for (id, track) in trace.track_ids().zip(trace.tracks()) {
        let name = track
            .name
            .map(|name| trace.strings().get(name))
            .unwrap_or_default();
        if name.starts_with("ALLOCATE BYTES") {
            let own = trace.counters().iter().filter(|sample| sample.track == id);
            let values: Vec<i64> = own.map(|sample| whole(sample.value)).collect();
            ends.push(*values.last().unwrap());
            peaks.push(*values.iter().max().unwrap());
        }
    }
    ends.sort_unstable();
    peaks.sort_unstable();
    let sorted = |get: fn(&rocpd_synth::Truth) -> i64| {
        let mut list: Vec<i64> = truth().map(get).collect();
        list.sort_unstable();
        list
    };
    assert_eq!(ends, sorted(|t| t.live_bytes_end));
    assert_eq!(peaks, sorted(|t| t.live_bytes_peak));
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "counters of bytes are whole"
)]
fn whole(value: f64) -> i64 {
    value as i64
}

#[test]
fn perfetto_in_parts_is_the_same_in_sum() {
    let mut shape = two();
    shape.steps = 12;
    let run = Run::new(&shape);
    ok(&run.call(&["convert", "-f", "pftrace", "-d", "whole", "-o", ""]));
    ok(&run.call(&[
        "convert",
        "-f",
        "pftrace",
        "-d",
        "parts",
        "-o",
        "",
        "--split-time",
        "4",
    ]));
    let manifest = std::fs::read_to_string(run.path("parts/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let parts = manifest["parts"].as_array().unwrap();
    assert!(parts.len() > 1 && parts.len() <= 4);
    let total = |trace: &trace_model::Trace| -> i64 {
        trace
            .slices()
            .filter(|s| s.category() == Some("kernel_dispatch"))
            .map(|s| s.dur().map_or(0, |d| d.get()))
            .sum()
    };
    let sum: i64 = parts
        .iter()
        .map(|part| {
            total(&trace(
                &run.path("parts").join(part["file"].as_str().unwrap()),
            ))
        })
        .sum();
    assert_eq!(sum, total(&trace(&run.path("whole/results.pftrace"))));
    ok(&run.call(&[
        "convert",
        "-f",
        "pftrace",
        "-d",
        "nodes",
        "-o",
        "",
        "--split-by",
        "node",
        "--drop",
        "hsa",
    ]));
    for made in &run.made {
        let trace = trace(&run.path(&format!("nodes/{}_results.pftrace", made.truth.hostname)));
        assert_eq!(trace.processes().len(), 1);
        assert!(trace.slices().all(|s| s.category() != Some("hsa_api")));
    }
}

#[test]
fn merged_and_packaged_databases_give_the_same_summary() {
    let run = Run::new(&two());
    ok(&run.call(&["merge", "-d", "m", "-o", "all"]));
    ok(&call(
        run.folder.path(),
        &["package", "-i", "in", "-d", "set", "-c", "--copy"],
    ));
    for (input, out) in [("in", "a"), ("m/all.db", "b"), ("set.rpdb", "c")] {
        ok(&call(
            run.folder.path(),
            &[
                "summary",
                "-i",
                input,
                "-d",
                out,
                "-f",
                "csv",
                "--domain-summary",
            ],
        ));
    }
    for name in [
        "kernels_summary.csv",
        "domain_summary.csv",
        "markers_summary.csv",
    ] {
        let text = |out: &str| std::fs::read_to_string(run.path(out).join(name)).unwrap();
        assert_eq!(text("a"), text("b"));
        assert_eq!(text("a"), text("c"));
    }
    let info = ok(&run.call(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["healthy"], true);
    assert_eq!(info["partitions"].as_array().unwrap().len(), 2);
}

/// Names of what is in a folder.
fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

#[test]
fn a_merge_may_be_killed_at_any_moment() {
    let run = Run::new(&Shape {
        ranks: 6,
        steps: 40,
        ..Shape::small()
    });
    let inputs = names_in(&run.path("in"));
    let bytes = || -> Vec<Vec<u8>> {
        inputs
            .iter()
            .map(|name| std::fs::read(run.path("in").join(name)).unwrap())
            .collect()
    };
    let before = bytes();
    let merge = |flags: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rocpd"))
            .current_dir(run.folder.path())
            .args(["merge", "-i", "in", "-d", "m", "-o", "all", "-q"])
            .args(flags)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let started = std::time::Instant::now();
    assert!(merge(&[]).wait().unwrap().success());
    let whole = started.elapsed();
    std::fs::remove_file(run.path("m/all.db")).unwrap();
    let mut killed = 0;
    for step in 0..24_u32 {
        let flags: &[&str] = if step % 2 == 0 {
            &[]
        } else {
            &["--reassign-ids"]
        };
        let mut child = merge(flags);
        std::thread::sleep(whole * step / 20);
        // SIGKILL: nothing of the process runs any more.
        let _ = child.kill();
        killed += u32::from(!child.wait().unwrap().success());
        assert!(before == bytes(), "inputs changed");
        for name in names_in(&run.path("m")) {
            if name == "all.db" {
                // Whole, if it is there at all.
                let summary = ok(&call(
                    run.folder.path(),
                    &["info", "-i", "m/all.db", "--json"],
                ));
                let info: serde_json::Value = serde_json::from_str(&summary).unwrap();
                assert_eq!(info["healthy"], true);
                std::fs::remove_file(run.path("m/all.db")).unwrap();
            } else {
                assert!(
                    name.starts_with(".merge.") && name.ends_with(".tmp"),
                    "{name}"
                );
            }
        }
    }
    assert!(killed > 0, "no merge was slow enough to be killed");
    // The next one clears up.
    assert!(merge(&[]).wait().unwrap().success());
    assert_eq!(names_in(&run.path("m")), ["all.db"]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_removes_temporary_files() {
    let run = Run::new(&Shape {
        steps: 400,
        ..Shape::small()
    });
    for command in [
        &["merge", "-i", "in", "-d", "m", "-q"][..],
        &["convert", "-i", "in", "-d", "m", "-f", "pftrace", "-q"][..],
    ] {
        let mut interrupted = 0;
        for wait in 1..40_u64 {
            let mut child = Command::new(env!("CARGO_BIN_EXE_rocpd"))
                .current_dir(run.folder.path())
                .args(command)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(wait * 5));
            let sent = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
            assert!(sent.is_ok());
            interrupted += u32::from(!child.wait().unwrap().success());
            let left: Vec<String> = names_in(&run.path("m"))
                .into_iter()
                .filter(|name| name.ends_with(".tmp") || name.starts_with('.'))
                .collect();
            assert!(left.is_empty(), "{left:?} after {wait}");
            if interrupted > 5 {
                break;
            }
        }
        assert!(interrupted > 0, "{command:?} was never interrupted");
    }
}

#[test]
fn other_names_of_the_tool() {
    let run = Run::new(&Shape::small());
    let called = Command::new(env!("CARGO_BIN_EXE_rocpd2csv"))
        .current_dir(run.folder.path())
        .args(["-i", "in", "-d", "out", "-o", "x"])
        .output()
        .unwrap();
    ok(&called);
    assert!(run.path("out/x_kernel_trace.csv").is_file());
}

/// A mail server that takes one message and returns its text.
fn mail_server(listener: TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut answer = stream.try_clone().unwrap();
        let mut lines = BufReader::new(stream);
        let mut message = String::new();
        let mut in_data = false;
        answer.write_all(b"220 here\r\n").unwrap();
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            if in_data {
                if line == ".\r\n" {
                    in_data = false;
                    answer.write_all(b"250 taken\r\n").unwrap();
                } else {
                    message.push_str(&line);
                }
            } else if line.starts_with("DATA") {
                in_data = true;
                answer.write_all(b"354 go on\r\n").unwrap();
            } else if line.starts_with("QUIT") {
                answer.write_all(b"221 bye\r\n").unwrap();
                break;
            } else {
                message.push_str(&line);
                answer.write_all(b"250 fine\r\n").unwrap();
            }
            line.clear();
        }
        message
    })
}

#[test]
fn results_by_mail() {
    let run = Run::new(&Shape::small());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = mail_server(listener);
    ok(&run.call(&[
        "query",
        "--query",
        "SELECT COUNT(*) AS n FROM kernels",
        "--format",
        "csv",
        "-d",
        "out",
        "--email-to",
        "a@example.org,b@example.org",
        "--email-from",
        "me@example.org",
        "--smtp-server",
        "127.0.0.1",
        "--smtp-port",
        &port,
        "--inline-preview",
        "--zip-attachments",
    ]));
    let message = server.join().unwrap();
    assert!(
        message.contains("RCPT TO:<a@example.org>") && message.contains("RCPT TO:<b@example.org>")
    );
    assert!(message.contains("Subject: SQLite Query Report"));
    assert!(message.contains("out.csv.zip"));
}
