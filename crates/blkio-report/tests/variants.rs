//! The same things as different kernels and tools write them.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it should be"
)]

use std::path::PathBuf;

use blkio_parser::{AnalysisSet, Format, Kind, Stats, StatsOptions, detect};
use blkio_report::document::{self, DocumentOptions};
use blkio_report::series::Series;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The document of a trace in several files.
fn document(files: &[&[u8]], compat: bool) -> Value {
    let dir = TempDir::new().unwrap();
    let path = |(number, content): (usize, &&[u8])| -> PathBuf {
        let path = dir.path().join(format!("x.blktrace.{number}"));
        std::fs::write(&path, content).unwrap();
        path
    };
    let paths: Vec<PathBuf> = files.iter().enumerate().map(path).collect();
    let mut stats = Stats::of_files(&paths, &StatsOptions::default()).unwrap();
    let mut options = DocumentOptions::default();
    options.compat = compat;
    document::stats(&mut stats, &options)
}

#[test]
fn one_request_in_many_layouts() {
    let wanted = document(
        &[b"  8,0    1        1     1.000000000 77  D  RS 64 + 8 [fio]\n  8,0    0        1     1.000250000 0  C  RS 64 + 8 [0]\n"],
        false,
    )["metrics"]
        .clone();
    assert_eq!(
        (&wanted["issues"], &wanted["completions"]),
        (&json!(1), &json!(1))
    );
    let event = |before: &str, after: &str| {
        format!(
            "{before}block_rq_issue: 8,0 RS 4096 () 64 + 8 none,0,0 [fio]\n{after}block_rq_complete: 8,0 RS () 64 + 8 none,0,0 [0]\n"
        )
    };
    for (format, text) in [
        ("tracefs", event("             fio-77      [001] d..1.     1.000000: ", "          <idle>-0       [000] d.h1.     1.000250: ")),
        ("tracefs", event("             fio-77      (     77) [001] d..1     1.000000: ", "          <idle>-0       (-------) [000] d.h1     1.000250: ")),
        ("tracefs", event("     fio-77        1d..1. 1000000us+: ", "  <idle>-0         0d.h1. 1000250us : ")),
        ("tracefs", event("     fio [1] 5-77      [001]     1.000000000: ", "          <idle>-0       [000]     1.000250000: ")),
        ("trace-cmd", format!("cpus=2\n{}", event("bkio:        fio-77    [001]     1.000000000: ", "bkio:     <idle>-0     [000]     1.000250000: "))),
        ("trace-cmd", format!("cpus=2\n{}", event("        fio-77      1d..1.     1.000000: ", "     <idle>-0       0d.h1.     1.000250: "))),
        ("perf-script", event("     fio    77 [001]     1.000000:    block:", " swapper     0 [000]     1.000250:  block:")),
        ("perf-script", event("     fio    77/77    [001]     1.000000000:  1  block:", " swapper     0/0   [000]     1.000250000:  1  block:")),
        ("perf-script", event("     fio    77     1.000000:    block:", " swapper     0     1.000250:  block:")),
        ("perf-script", event("     1.000000:    block:", "     1.000250:  block:")),
        ("blkparse", "  8,0    1        1     1.000000000 77  D  RS 64 + 8 (   12.50) [fio]\n  8,0    0        1     1.000250000 0  C  RS 64 + 8 (  250000) [0]\n".to_owned()),
        ("blkparse", "1.000000000 D RS 64 8 4096\n1.000250000 C RS 64 8 4096\n".to_owned()),
        ("blk-tracer", "             fio-77    [001] d..1.     1.000000:   8,0    D  RS 64 + 8 [fio]\n          <idle>-0     [000] d.h1.     1.000250:   8,0    C  RS 64 + 8 [0]\n".to_owned()),
        ("blk-tracer", "             fio-77    [001] d..1.     1.000000:   8,0  /system.slice/x    D  RS 64 + 8 [fio]\n          <idle>-0     [000] d.h1.     1.000250:   8,0  1a3,1    C  RS 64 + 8 [0]\n".to_owned()),
        ("blk-tracer", "             fio-77    [001] d..1.     1.000000:   8,0 issue  RS 64 + 8 [fio]\n          <idle>-0     [000] d.h1.     1.000250:   8,0 complete  RS 64 + 8 [0]\n".to_owned()),
    ] {
        for mark in [&b""[..], b"\xef\xbb\xbf"] {
            let text = [mark, text.as_bytes()].concat();
            assert_eq!(detect(&text).name(), format);
            let mut found = document(&[&text], false)["metrics"].clone();
            assert_eq!(found["lines_not_events"], u64::from(format == "trace-cmd"));
            found["lines_not_events"] = 0.into();
            assert_eq!(found, wanted, "{format}: {}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn latencies_of_bpftrace_s_biosnoop() {
    let text = b"Attaching 4 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash             4179        10\n612          nvme0n1 cksum            4179         2\n627          nvme0n1 cksum            4179        15\n";
    let found = document(&[text], false);
    let latency = &found["extra"]["latency"]["none"]["issue_to_complete_ns"];
    assert_eq!(
        (&latency["count"], &latency["max"], &latency["p50"]),
        (&json!(3), &json!(15_000_000), &json!(10_000_000)),
        "{latency}"
    );
    assert_eq!(found["metrics"]["totals"]["none"]["bytes"], 0);
}

#[test]
fn a_loss_of_unknown_size_is_said() {
    let text = b"cpus=1\nCPU:0 [EVENTS DROPPED]\n  fio-7 [000] 1.000000: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]\n";
    let quality = document(&[text], false)["quality"].clone();
    assert_eq!(quality["lost_events"], 0);
    let warnings = quality["warnings"].to_string();
    assert!(warnings.contains("not how many"), "{warnings}");
}

#[test]
fn what_holds_no_event_is_told_from_what_is_unknown() {
    for text in [&b"\n \n\n"[..], b"cpus=4\n", b"Attached 1 probe\n"] {
        assert_eq!(detect(text), Kind::NoEvents, "{text:?}");
    }
    assert_eq!(
        detect(b"{\"fio version\":\"fio-3.36\",\"jobs\":[]}"),
        Kind::Companion(blkio_companions::Companion::FioJson)
    );
}

/// A record of blktrace, in little-endian order.
fn record(t_ns: u64, sector: u64, words: [u32; 5], payload: &[u8]) -> Vec<u8> {
    let [bytes, action, pid, cpu, sequence] = words;
    let mut out = Vec::new();
    out.extend(0x6561_7407_u32.to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.extend(t_ns.to_le_bytes());
    out.extend(sector.to_le_bytes());
    for word in [bytes, action, pid, 259 << 20, cpu] {
        out.extend(word.to_le_bytes());
    }
    out.extend(u32::try_from(payload.len() << 16).unwrap().to_le_bytes());
    out.extend(payload);
    out
}

const ISSUE: u32 = 7 | 0x41 << 16;
const COMPLETE: u32 = 8 | 0x81 << 16;
const NAME: u32 = 0x400 << 16;

#[test]
fn processors_that_saw_nothing_change_nothing() {
    let zero = [
        record(5_000, 64, [4096, ISSUE, 7, 0, 1], b""),
        record(9_000, 64, [4096, COMPLETE, 0, 0, 2], b""),
    ]
    .concat();
    let alone = document(&[&zero], false)["metrics"].clone();
    assert_eq!(alone["first_issue_ns"], 0);
    assert_eq!(document(&[&zero, b""], false)["metrics"], alone);
    assert_eq!(document(&[b"", &zero], false)["metrics"], alone);
}

#[test]
fn processes_have_the_names_that_another_processor_wrote() {
    // The second file begins more than the window before the end of the first.
    let later = |from: u64| -> Vec<u8> {
        let issues = (0..4_u64).map(|n| {
            record(
                from + n * 1_000_000_000,
                64 + n * 8,
                [4096, ISSUE, 7, 0, 1],
                b"",
            )
        });
        issues.collect::<Vec<_>>().concat()
    };
    let zero = later(5_000);
    let one = [
        record(1_000, 0, [0, NAME, 7, 1, 0], b"python\0"),
        later(6_000),
    ]
    .concat();
    for files in [[&zero[..], &one], [&one, &zero]] {
        let found = document(&files, false);
        let wanted = json!({"python": {"ios": 8, "bytes": 8 * 4096}});
        assert_eq!(found["quality"]["processes"], wanted);
    }
}

#[test]
fn processes_of_a_text_have_the_names_that_a_binary_file_wrote() {
    // Longer than blocks and the window, so that runs are found by the threads that parse, which know no names.
    let count = 60_000_u64;
    let text: String = (0..count)
        .map(|n| {
            let (seconds, millis, sector) = (n / 1000, n % 1000, 64 + n * 8);
            format!("259,0  0 {n} {seconds}.{millis:03}000000 7  D  RS {sector} + 8 [(null)]\n")
        })
        .collect();
    let binary = record(0, 0, [0, NAME, 7, 0, 1], b"python\0");
    let found = document(&[&binary, text.as_bytes()], false);
    let wanted = json!({"python": {"ios": count, "bytes": count * 4096}});
    assert_eq!(found["quality"]["processes"], wanted);
}

#[test]
fn what_is_read_again_is_counted_by_sectors() {
    let text = b"10000000000, R, 512, 9, 1\n10000000001, R, 512, 9, 1\n10000000002, W, 1024, 10, 2\n10000000003, R, 512, 10, 1\n";
    assert_eq!(
        document(&[text], false)["extra"]["reuse"],
        json!({"re_read_factor": 1.5, "bytes_written_never_read": 512, "distinct_bytes": 1536}),
    );
}

#[test]
fn zone_resets_are_reads_for_the_published_scripts_alone() {
    let text = b"10000000000, R, 4096, 8, 8\n11000000000, ZR, 8192, 16, 16\n";
    let reads = |compat| {
        let document = document(&[text], compat);
        document["series"]["kib_per_second"]["ALL_READS"]["size"].clone()
    };
    assert_eq!(reads(false), json!([4]));
    assert_eq!(reads(true), json!([4, 8]));
}

#[test]
fn a_trace_in_all_layouts_of_tracefs() {
    // One recording of Linux 6.18, its output switched between the layouts.
    let plain = document(
        &[b"            sync-20740   [000] ..... 48519.918894: block_rq_issue: 254,0 RA 16384 () 12947152 + 32 be,0,4 [bash]\n          <idle>-0       [001] ..s1. 48519.919185: block_rq_complete: 254,0 RA () 12947152 + 32 be,0,4 [0]\n"],
        false,
    )["metrics"]
        .clone();
    assert_eq!(
        (&plain["issues"], &plain["completions"]),
        (&json!(1), &json!(1))
    );
    for (layout, text) in [
        ("verbose", &b"            sync   20740   0 0 00000000 00000006 [b4c03352e] 21.556ms (+0.291ms): block_rq_issue: 254,0 RA 16384 () 12947152 + 32 be,0,4 [bash]\n          <idle>       0   1 16 00000001 00000007 [b4c033651] 21.848ms (+0.016ms): block_rq_complete: 254,0 RA () 12947152 + 32 be,0,4 [0]\n"[..]),
        ("fields", b"            sync-20740   [000] ..... 48519.918894: block_rq_issue: dev=0xfe00000 (266338304) sector=0xc58ed0 (12947152) nr_sector=0x20 (32) bytes=0x4000 (16384) ioprio=0x4004 (16388) rwbs=RA comm=bash cmd=\n          <idle>-0       [001] ..s1. 48519.919185: block_rq_complete: dev=0xfe00000 (266338304) sector=0xc58ed0 (12947152) nr_sector=0x20 (32) error=0x0 (0) ioprio=0x4004 (16388) rwbs=RA cmd=\n"),
    ] {
        let found = document(&[text], false);
        assert_eq!(found["metrics"], plain, "{layout}");
        assert_eq!(found["quality"]["lines"]["malformed"], 0, "{layout}");
    }
}

#[test]
fn maps_behind_events_hide_no_events() {
    let events = "Attaching 3 probes...\n100, R, 4096, 8, 8\n200, W, 4096, 16, 8\n\n";
    for map in [
        "@usecs:\n[64, 128)  32 |@@@  |\n[128, 256)  2 |@    |\n\n",
        "@[\n    submit_bio+1\n]: 3\n",
        "@[fio, \n    submit_bio+1\n]: 3\n",
    ] {
        let text = [events, map].concat();
        assert_eq!(detect(text.as_bytes()), Kind::Events(Format::FiveColumn));
        let found = document(&[text.as_bytes()], false);
        assert_eq!(found["metrics"]["issues"], 2, "{map}");
        assert!(!matches!(detect(map.as_bytes()), Kind::Events(_)), "{map}");
    }
}

#[test]
fn sizes_are_in_the_order_of_the_lines_whatever_the_threads() {
    // Times that step back by up to half a second, and more lines than one block of the input holds.
    let mut text = String::new();
    let mut state = 1_u64;
    let mut wanted: Vec<(&str, Vec<u64>)> = vec![
        ("ALL_READS", Vec::new()),
        ("ALL_WRITES", Vec::new()),
        ("R", Vec::new()),
        ("RA", Vec::new()),
        ("WS", Vec::new()),
    ];
    for line in 0..60_000_u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        let (all, rwbs) = [(0, "R"), (0, "RA"), (1, "WS")][usize::try_from(random % 3).unwrap()];
        // New sizes keep coming, so that every block has some.
        let bytes = 512 * (1 + random / 3 % (1 + line / 100));
        let time = 10_000_000_000 + line * 10_000 - random % 500_000_000;
        text.push_str(&format!(
            "{time}, {rwbs}, {bytes}, {}, {}\n",
            random % 4096 * 8,
            bytes / 512
        ));
        let kib = bytes / 1024;
        for (number, (name, sizes)) in wanted.iter_mut().enumerate() {
            if (number == all || *name == rwbs) && !sizes.contains(&kib) {
                sizes.push(kib);
            }
        }
    }
    assert!(wanted.iter().all(|(_, sizes)| !sizes.is_sorted()));
    let dir = TempDir::new().unwrap();
    let (one, half) = ([dir.path().join("one")], text.len() / 2);
    let cut = half + text[half..].find('\n').unwrap() + 1;
    std::fs::write(&one[0], &text).unwrap();
    let halves = [dir.path().join("a"), dir.path().join("b")];
    std::fs::write(&halves[0], &text[..cut]).unwrap();
    std::fs::write(&halves[1], &text[cut..]).unwrap();
    for (files, threads, window_ns) in [
        (&one[..], 1, 1_000_000_000),
        (&one, 4, 1_000_000_000),
        (&one, 3, 1_000),
        (&halves, 2, 1_000_000_000),
    ] {
        let mut options = StatsOptions::default();
        options.read.threads = threads;
        options.read.window_ns = window_ns;
        options.read.first_sizes = true;
        options.wanted = AnalysisSet::TRAFFIC;
        let mut stats = Stats::of_files(files, &options).unwrap();
        let series = Series::published(&mut stats);
        for (name, sizes) in &wanted {
            let group = series.group(name).unwrap();
            assert!(&group.order_kib == sizes, "{name} {threads} {window_ns}");
        }
        let info = blkio_report::cheops::info_text(&series, None);
        let first = wanted[0].1[0];
        assert!(
            info.starts_with(&format!("ALL_READS\n{{{first}: ")),
            "{info}"
        );
    }
    // Where it was not asked for, they ascend.
    let mut stats = Stats::of_files(&halves, &StatsOptions::default()).unwrap();
    let series = Series::published(&mut stats);
    assert!(series.group("R").unwrap().order_kib.is_sorted());
    assert!(!series.group("R").unwrap().order_kib.is_empty());
    // What several figures lack is said once.
    let none = Series::default();
    let (_, missing) = blkio_report::cheops::run_figures(5, &none, &stats.traffic, None, true);
    let kinds = missing.iter().filter(|what| what.contains("of kind RA"));
    assert_eq!(kinds.count(), 1, "{missing:?}");
}
