//! Clocks of a trace, a GPU's log and an engine's: what the tool says of them, and what it makes of both together.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{blkio, json as document_of};

fn stats(dir: &Path, words: &[&str]) -> Output {
    blkio(dir, &[&["stats"], words].concat())
}

fn json(dir: &Path, words: &[&str]) -> Value {
    document_of(&stats(dir, &[words, &["--json"]].concat()))
}

/// 2025-01-21 01:00:00 as nanoseconds since 1970.
const HOUR_NS: u64 = 1_737_421_200_000_000_000;
/// The trace's clock at the first issue.
const FIRST_NS: u64 = 500_000_000_000;

/// Reads at an even rate for so many seconds, as bpftrace prints them.
fn reads(seconds: u64) -> String {
    let mut log = String::from("Attaching 1 probe...\n");
    for at in 0..=seconds * 50 {
        let t_ns = FIRST_NS + at * 20_000_000;
        writeln!(log, "{t_ns}, RA, 131072, {}, 256", at * 256).unwrap();
    }
    log
}

/// Readings of a GPU from the hour on, every 200 ms for so many seconds.
fn gpu(seconds: u64, percent: impl Fn(u64) -> u64) -> String {
    let mut log = String::from("timestamp, utilization.gpu [%]\n");
    for ms in (0..=seconds * 1000).step_by(200) {
        let (minute, second) = (ms / 60_000, ms / 1000 % 60);
        let percent = percent(ms);
        writeln!(
            log,
            "2025/01/21 01:{minute:02}:{second:02}.{:03}, {percent} %",
            ms % 1000
        )
        .unwrap();
    }
    log
}

#[test]
fn the_order_of_starting_is_the_last_resort() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("io"), reads(100)).unwrap();
    let words = ["io", "--gpu", "gpu"];
    // Nothing in either goes with the other. The first request was recorded 2 s behind the first reading or later, the last
    // one 5 s before the last reading or later.
    std::fs::write(dir.join("gpu"), gpu(105, |_| 50)).unwrap();
    let document = json(dir, &words);
    let found = &document["gpu_against_io"]["alignment"];
    assert_eq!(found["method"], "process start order");
    let wall = HOUR_NS + 3_000_000_000;
    assert_eq!(found["wall_minus_trace_ns"], wall - FIRST_NS);
    assert_eq!(found["uncertainty_ns"], 4_000_000_000_u64);
    assert!(found["assumes"].as_str().unwrap().contains("2 to 4 s"));
    let text = String::from_utf8(stats(dir, &words).stdout).unwrap();
    let said = "clocks by process start order, give or take 4.000 s";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("if nvidia-smi and bpftrace were"), "{text}");
    // Clocks as doubtful as that tell no phases.
    assert_eq!(document["phases"]["with_gpu"], false);

    // The engine's last line is as late as its last read.
    let engine =
        "[2025-01-21 01:01:44,000] [INFO] [launch.py:351:main] Process 1 exits successfully.\n";
    std::fs::write(dir.join("engine"), engine).unwrap();
    let both = json(dir, &["io", "--gpu", "gpu", "--engine", "engine"]);
    let found = &both["gpu_against_io"]["alignment"];
    assert_eq!(found["uncertainty_ns"], 3_000_000_000_u64);

    for (seconds, why) in [
        (90, "nor were the processes started in the order"),
        (300, "known to 199.0 s, too little for a trace of 100.0 s"),
    ] {
        std::fs::write(dir.join("gpu"), gpu(seconds, |_| 50)).unwrap();
        let document = json(dir, &words);
        let refused = document["gpu_against_io"]["refused"].as_str().unwrap();
        assert!(refused.contains(why), "{refused}");
        assert!(refused.ends_with("give --clock-offset"), "{refused}");
    }

    // Others than bpftrace are started by hand.
    std::fs::write(dir.join("gpu"), gpu(105, |_| 50)).unwrap();
    let line = |second: u64| {
        format!(
            "  fio-26257   [001] .....  {second}.996254: block_rq_issue: 7,0 RS 131072 () 68920 + 256 be,0,4 [fio]\n"
        )
    };
    std::fs::write(dir.join("io"), (0..100).map(line).collect::<String>()).unwrap();
    let document = json(dir, &words);
    let refused = document["gpu_against_io"]["refused"].as_str().unwrap();
    assert!(refused.contains("only known of bpftrace"), "{refused}");
}

#[test]
fn a_gpu_beside_the_trace_tells_phases() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("io"), reads(40)).unwrap();
    // The GPU begins to work 22 s behind the first issue, which is 4 s behind its first reading.
    let percent = |ms: u64| if ms <= 26_000 { 2 } else { 60 + ms / 200 % 7 };
    std::fs::write(dir.join("gpu"), gpu(50, percent)).unwrap();
    let clock = |uncertainty_ns: u64| {
        let wall_ns = HOUR_NS + 4_000_000_000;
        let text = format!(
            "{{\"boottime_ns\": {FIRST_NS}, \"realtime_ns\": {wall_ns}, \"uncertainty_ns\": {uncertainty_ns}}}"
        );
        std::fs::write(dir.join("clock.json"), text).unwrap();
    };
    let words = ["io", "--gpu", "gpu", "--clock", "clock.json"];
    clock(300_000);
    let document = json(dir, &words);
    let found = &document["phases"];
    assert_eq!(found["with_gpu"], true);
    let phases = found["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2, "{found}");
    let end_ns = phases[0]["end_ns"].as_u64().unwrap() - FIRST_NS;
    assert!(end_ns.abs_diff(22_000_000_000) <= 100_000_000, "{end_ns}");
    let means = document["gpu_against_io"]["by_phase"].as_array().unwrap();
    let mean = |at: usize| means[at]["gpu_mean_percent"].as_f64().unwrap();
    assert!((mean(0) - 2.0).abs() < 1.0 && mean(1) > 59.0, "{means:?}");
    // Without it there is one.
    let alone = json(dir, &["io"]);
    assert_eq!(alone["phases"]["with_gpu"], false);
    assert_eq!(alone["phases"]["phases"].as_array().unwrap().len(), 1);

    // Readings that may be seconds apart are said to be so, and tell nothing.
    clock(3_000_000_000);
    let document = json(dir, &words);
    let found = &document["gpu_against_io"]["alignment"];
    assert_eq!(found["uncertainty_ns"], 3_000_000_000_u64);
    assert_eq!(document["phases"], alone["phases"]);
}

#[test]
fn tokens_of_decode_are_those_that_the_engine_counts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("io"), reads(100)).unwrap();
    // 4 sequences of 8 tokens, of which prefill gives the first.
    let engine = "cmd --prompt-len 16 --gen-len 8\ncache size: 1.000 GB\n\
        benchmark, prompt_len = 16, execute_gen_len = 8, input_ids.shape = torch.Size([4, 16])\n\
        prefill latency: 10.000 s\tprefill throughput: 6.400 token/s\n\
        decode latency: 70.000 s\tdecode throughput: 0.400 token/s\n\
        total latency: 80.000 s\ttotal throughput: 0.400 token/s\n";
    std::fs::write(dir.join("engine"), engine).unwrap();
    let document = json(dir, &["io", "--engine", "engine"]);
    let phases = &document["engine_phases"]["phases"];
    let prefill = &phases[1];
    assert_eq!(
        (&prefill["name"], &prefill["per_token"]["tokens"]),
        (&"prefill".into(), &64.0.into())
    );
    assert_eq!(prefill["tokens_per_s"], 6.4);
    let decode = &phases[2];
    assert_eq!(decode["per_token"]["tokens"], 28.0);
    assert_eq!(decode["tokens_per_s"], 0.4);
    let bytes = decode["read"]["bytes"].as_f64().unwrap();
    assert_eq!(decode["per_token"]["read_bytes"], bytes / 28.0);
    // What the GPU did in each of them, if it is known.
    std::fs::write(
        dir.join("gpu"),
        gpu(105, |ms| if ms > 40_000 { 80 } else { 10 }),
    )
    .unwrap();
    let words = ["io", "--engine", "engine", "--gpu", "gpu", "--clock-offset"];
    let offset_s = ((HOUR_NS - FIRST_NS) / 1_000_000_000).to_string();
    let both = json(dir, &[&words[..], &[&offset_s]].concat());
    let by_phase = both["gpu_against_io"]["by_phase"].as_array().unwrap();
    let mean = |name: &str| {
        let of = by_phase.iter().find(|phase| phase["phase"] == name);
        of.unwrap()["gpu_mean_percent"].as_f64().unwrap()
    };
    // Reading ends 100 s behind the first issue: prefill is from 20 to 30 s, decode until then.
    assert!((mean("prefill") - 10.0).abs() < 1e-9);
    assert!((mean("decode") - 70.0).abs() < 0.3, "{by_phase:?}");
    let args = ["--html", "page.html"];
    let words = [&words[..], &[&offset_s], &args].concat();
    assert!(stats(dir, &words).status.success());
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    for said in [
        "Clocks by given",
        "waiting for the device",
        "The last 3 are the engine",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let amplification = document["engine_phases"]["decode_read_amplification"].as_f64();
    assert_eq!(amplification, Some(bytes / (7.0 * f64::from(1 << 30))));
}

#[test]
fn the_benchmark_ends_before_the_engine_exits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Another process reads as much from 40 s behind the engine's last read on.
    let log = reads(100);
    let later = log.lines().skip(1).map(|line| {
        let (t_ns, rest) = line.split_once(',').unwrap();
        let t_ns: u64 = t_ns.parse().unwrap();
        format!("{},{rest}\n", t_ns + 140_000_000_000)
    });
    std::fs::write(dir.join("io"), log.clone() + &later.collect::<String>()).unwrap();
    let offset_s = ((HOUR_NS - FIRST_NS) / 1_000_000_000).to_string();
    let words = [
        "io",
        "--engine",
        "engine",
        "--gpu",
        "gpu",
        "--clock-offset",
        &offset_s,
    ];
    std::fs::write(dir.join("gpu"), gpu(200, |_| 50)).unwrap();
    let end = |exit: &str| {
        let engine = format!(
            "prefill latency: 10.000 s\ndecode latency: 70.000 s\ntotal latency: 80.000 s\n\
            [2025-01-21 01:{exit},000] [INFO] [launch.py:351:main] Process 1 exits successfully.\n\
            [2025-01-21 01:59:00,000] [INFO] bye\n"
        );
        std::fs::write(dir.join("engine"), engine).unwrap();
        let found = json(dir, &words)["engine_phases"].clone();
        let end_ns = found["phases"][2]["end_ns"].as_u64().unwrap() - FIRST_NS;
        let uncertainty_ns = found["uncertainty_ns"].as_u64().unwrap();
        (end_ns / 1_000_000, uncertainty_ns / 1_000_000_000)
    };
    // Reading ends 100 s behind the first issue.
    assert_eq!(end("01:54"), (100_100, 1));
    // Without reading for that long nobody knows how long it took to exit.
    assert_eq!(end("02:15"), (135_000, 30));
    // Of an exit behind the other process' reads nothing is known of whose they are.
    assert_eq!(end("04:10"), (240_100, 1));
}

#[test]
fn a_log_of_another_trace_is_refused_in_every_output() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("io"), reads(100)).unwrap();
    let log = |total: u64| {
        format!(
            "prefill latency: 10.000 s\ndecode latency: {}.000 s\ntotal latency: {total}.000 s\n",
            total - 10
        )
    };
    for (total, key, words) in [
        (
            1485,
            "refused",
            "the log is not of this trace: the run took 1485.0 s",
        ),
        (20, "caveat", "the log accounts for 20.0 s of"),
    ] {
        std::fs::write(dir.join("engine"), log(total)).unwrap();
        let found = json(dir, &["io", "--engine", "engine"]);
        let reason = found["engine_phases"][key].as_str().unwrap();
        assert!(reason.starts_with(words), "{reason}");
        let is_refused = key == "refused";
        assert_eq!(found["engine_phases"]["phases"].is_null(), is_refused);
        let text = stats(dir, &["io", "--engine", "engine", "--html", "page.html"]).stdout;
        let text = crate::joined(&String::from_utf8_lossy(&text));
        assert!(text.contains(words), "{text}");
        assert_eq!(text.contains("engine not compared: "), is_refused, "{text}");
        assert!(!text.contains("per token"), "{text}");
        let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
        assert!(page.contains(words), "{total}");
    }
}

/// A record of blktrace on processor 0.
fn record(t_ns: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
    let mut record = 0x6561_7407_u32.to_le_bytes().to_vec();
    record.extend(0_u32.to_le_bytes());
    record.extend(t_ns.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 42, 7 << 20, 0] {
        record.extend(word.to_le_bytes());
    }
    record.extend(0_u16.to_le_bytes());
    record.extend(u16::try_from(pdu.len()).unwrap().to_le_bytes());
    record.extend(pdu);
    record
}

/// blkparse 1.2 printed the texts from the very records.
#[test]
fn a_binary_trace_counts_from_the_first_message_as_its_text_does() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    const BASE_NS: u64 = 5_000_000_000;
    let wall = record(
        BASE_NS - 500,
        0,
        0,
        1 | 0x400 << 16,
        &[1, 0, 0, 0, 5, 0, 0, 0],
    );
    let process = record(BASE_NS - 400, 0, 0, 0x400 << 16, b"job\0");
    let message = |t_ns, flags: u32| record(t_ns, 0, 0, 2 | flags | 0x400 << 16, b"12345678hello");
    let issue = record(BASE_NS + 1_000, 800, 4096, 7 | 0x41 << 16, &[]);
    let end = record(BASE_NS + 2_500, 800, 4096, 8 | 0x81 << 16, &[]);
    let text = |issue_ns: u64| {
        format!(
            "  7,0    0        2     0.{issue_ns:09}    42  D   R 800 + 8 [job]\n  7,0    0        3     0.{:09}    42  C   R 800 + 8 [0]\n",
            issue_ns + 1_500
        )
    };
    let note = "  7,0    0        0     0.000000000     0  m   N hello\n";
    for (first, printed) in [
        (vec![], text(0)),
        (message(BASE_NS - 200, 0), note.to_owned() + &text(1_200)),
        // Of a control group, which blkparse 1.2 leaves out and 1.3 does not.
        (
            message(BASE_NS - 200, 0x100),
            note.to_owned() + &text(1_200),
        ),
        // Behind the first event.
        (message(BASE_NS + 9_000, 0), text(0)),
    ] {
        let binary = [&wall[..], &process, &first, &issue, &end].concat();
        std::fs::write(dir.join("a.blktrace.0"), binary).unwrap();
        std::fs::write(dir.join("a.txt"), printed).unwrap();
        let issued = |file: &str| json(dir, &[file])["metrics"]["first_issue_ns"].clone();
        assert_eq!(issued("a.blktrace.0"), issued("a.txt"));
    }
}
