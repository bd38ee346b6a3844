//! Flushes, unlike phases, rounds, and other processes: what limits, and why two runs differ, of recordings whose truth is planted.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// Requests of threads that each wait, flush, pause, and issue the next. Times are in microseconds.
#[derive(Clone, Copy)]
struct Loop {
    comm: &'static str,
    start_us: u64,
    threads: u64,
    /// Requests of each thread.
    rounds: u64,
    is_write: bool,
    kib: u64,
    latency_us: u64,
    /// Time of a flush behind each request; 0 for none.
    flush_us: u64,
    pause_us: u64,
    /// Threads issue together, and wait for each other.
    is_in_rounds: bool,
}

const READS: Loop = Loop {
    comm: "job",
    start_us: 0,
    threads: 1,
    rounds: 2000,
    is_write: false,
    kib: 64,
    latency_us: 100,
    flush_us: 0,
    pause_us: 3,
    is_in_rounds: false,
};

/// Events of all loops as the collector writes them, with latencies and pauses that vary by a tenth.
fn trace(loops: &[Loop]) -> String {
    let mut state = 11_u64;
    let mut about = |us: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        us * 900 + (state >> 33) % (us * 200).max(1)
    };
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    let mut place = 0;
    for app in loops {
        let mut put = |issue: u64, end: u64, rwbs: &str, kib: u64| {
            place += 9973;
            let (sector, of_end) = match kib {
                0 => (0, u64::MAX),
                _ => (place % 400_000 * 4096, place % 400_000 * 4096),
            };
            for (kind, order, t_ns, sector) in [('I', 1, issue, sector), ('C', 0, end, of_end)] {
                let mut line = String::new();
                let (bytes, sectors) = (kib << 10, kib * 2);
                let _ = writeln!(
                    line,
                    "{kind}, {t_ns}, 1, 259, 0, {rwbs}, {bytes}, {sector}, {sectors}, 0, 42, {}",
                    app.comm
                );
                lines.push((t_ns, order, line));
            }
        };
        let start = 1_000_000_000 + app.start_us * 1000;
        let mut free: Vec<u64> = (0..app.threads).map(|n| start + n * 300).collect();
        for _ in 0..app.rounds {
            for ready in &mut free {
                let mut end = *ready + about(app.latency_us);
                put(*ready, end, if app.is_write { "WS" } else { "R" }, app.kib);
                if app.flush_us > 0 {
                    let flushed = end + about(app.flush_us);
                    put(end, flushed, "FF", 0);
                    end = flushed;
                }
                *ready = end;
            }
            if app.is_in_rounds {
                let next = free.iter().max().unwrap() + about(app.pause_us);
                (0..)
                    .zip(&mut free)
                    .for_each(|(n, ready)| *ready = next + n * 300);
            } else {
                free.iter_mut()
                    .for_each(|ready| *ready += about(app.pause_us));
            }
        }
    }
    lines.sort();
    lines.into_iter().map(|(.., line)| line).collect()
}

fn stats(loops: &[Loop], more: &[&str]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, trace(loops)).unwrap();
    let path = path.to_str().unwrap();
    let said = |words: &[&str]| crate::blkio(dir.path(), words);
    let document = crate::json(&said(&[&["stats", path, "--json"], more].concat()));
    let text = said(&[&["stats", path], more].concat());
    (
        document,
        crate::joined(&String::from_utf8_lossy(&text.stdout)),
    )
}

/// The JSON and the text of a comparison.
fn compare(a: &[Loop], b: &[Loop]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, loops: &[Loop]| {
        let path = dir.path().join(name);
        std::fs::write(&path, trace(loops)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let paths = [write("a", a), write("b", b)];
    let said = |more: &[&str]| {
        let words = [&["compare", &paths[0], &paths[1]], more].concat();
        crate::blkio(Path::new("."), &words)
    };
    let document = crate::json(&said(&["--json"]));
    let text = String::from_utf8_lossy(&said(&[]).stdout).into_owned();
    (document, text)
}

fn causes(document: &Value) -> Vec<(&str, &str)> {
    let causes = document["causes"].as_array().unwrap().iter();
    causes
        .map(|of| (of["what"].as_str().unwrap(), of["part"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_flush_in_flight_is_time_of_the_device() {
    for threads in [1, 4] {
        let writer = Loop {
            is_write: true,
            flush_us: 500,
            threads,
            rounds: 1500,
            ..READS
        };
        let (document, text) = stats(&[writer], &[]);
        let limit = &document["limit"];
        assert_eq!(limit["limiter"], "flush", "{limit}");
        assert!(limit["idle_share"].as_f64().unwrap() < 0.01, "{limit}");
        assert_eq!(limit["flushes"], 1500 * threads);
        assert!(
            text.starts_with("Limited by flushes of the device"),
            "{text}"
        );
        let flush = &document["metrics"]["pairing_newest"]["latency_ns"]["flush"];
        let mean = flush["mean"].as_f64().unwrap();
        assert!((mean / 500_000.0 - 1.0).abs() < 0.02, "{flush}");
        // Slower flushes, and flushes where there were none, are no think time.
        let slower = Loop {
            flush_us: 3000,
            rounds: 400,
            ..writer
        };
        let without = Loop {
            flush_us: 0,
            ..writer
        };
        for (a, b) in [(writer, slower), (without, writer)] {
            let (document, text) = compare(&[a], &[b]);
            assert_eq!(causes(&document), [("flush", "write-heavy")], "{text}");
            assert!(
                text.contains("flush_ios") && text.contains("flush_time_ns"),
                "{text}"
            );
        }
    }
}

#[test]
fn phases_are_compared_with_their_like() {
    let load = Loop {
        threads: 4,
        rounds: 4000,
        kib: 32,
        ..READS
    };
    let behind = |pause_us, threads| Loop {
        start_us: 900_000,
        rounds: 1000,
        kib: 128,
        pause_us,
        threads,
        ..READS
    };
    for (a, b, cause) in [
        (behind(1000, 1), behind(3000, 1), "think time"),
        (behind(3000, 1), behind(1000, 1), "think time"),
        (behind(3, 4), behind(3, 1), "queue depth"),
    ] {
        let (document, text) = compare(&[load, a], &[load, b]);
        assert_eq!(
            causes(&document),
            [(cause, "read-heavy (number 2)")],
            "{text}"
        );
        assert!(!text.contains("No cause"), "{text}");
    }
    let (document, text) = compare(&[load, behind(1000, 1)], &[load, behind(1000, 1)]);
    assert!(causes(&document).is_empty(), "{text}");
}

#[test]
fn requests_of_a_round_are_counted_and_its_pause_is_measured() {
    let rounds = |threads, pause_us| Loop {
        threads,
        pause_us,
        rounds: 600,
        is_in_rounds: true,
        ..READS
    };
    for (x, y) in [(2, 8), (8, 32), (16, 4)] {
        let (document, text) = compare(&[rounds(x, 2000)], &[rounds(y, 2000)]);
        assert_eq!(causes(&document), [("queue depth", "read-heavy")], "{text}");
        for (side, threads) in [("a", x), ("b", y)] {
            let side = &document["parts"][0][side];
            assert_eq!(side["threads"].as_f64(), Some(threads as f64), "{side}");
            let pause = side["mean_pause_ns"].as_f64().unwrap();
            assert!((pause / 2e6 - 1.0).abs() < 0.02, "{side}");
        }
    }
    let (document, text) = compare(&[rounds(8, 2000)], &[rounds(8, 5000)]);
    assert_eq!(causes(&document), [("think time", "read-heavy")], "{text}");
}

#[test]
fn another_process_is_named() {
    let own = |latency_us| Loop {
        threads: 2,
        rounds: 3000,
        latency_us,
        ..READS
    };
    let other = Loop {
        comm: "rsync",
        is_write: true,
        kib: 512,
        latency_us: 900,
        rounds: 600,
        ..READS
    };
    // It writes for the first two thirds of the run, in which the reads of the job take longer.
    let later = Loop {
        start_us: 660_000,
        rounds: 1000,
        ..own(100)
    };
    let slowed = Loop {
        rounds: 2000,
        ..own(300)
    };
    let (document, text) = compare(&[own(100)], &[slowed, later, other]);
    let one_line = crate::joined(&text);
    assert!(
        one_line.starts_with("Another process uses the device in B only: rsync, 300.0 MiB written"),
        "{text}"
    );
    assert_eq!(
        causes(&document),
        [("other process", "read-heavy")],
        "{text}"
    );
    assert_eq!(document["other_processes"]["main"], "job");
    // A process that does the same in both is none of the difference.
    let (document, text) = compare(&[own(100), other], &[own(100), other]);
    assert!(
        document["other_processes"].is_null() && !text.contains("rsync"),
        "{text}"
    );
}

#[test]
fn what_is_not_established_is_not_denied() {
    let part = |start_us, latency_us, rounds| Loop {
        start_us,
        latency_us,
        rounds,
        ..READS
    };
    // Four stalls: the time per byte changes by a fifth, and few requests show it.
    let mut stalled = Vec::new();
    for n in 0..5 {
        stalled.push(part(n * 113_000, 100, 900));
        stalled.push(part(n * 113_000 + 93_500, 18_000, 1));
    }
    let (document, text) = compare(&[part(0, 100, 4500)], &stalled);
    let change = document["parts"][0]["change_pct"].as_f64().unwrap();
    assert!(change > 10.0, "{change}");
    assert!(!text.contains("No cause: "), "{text}");
    assert!(!text.contains("No change established"), "{text}");
    if causes(&document).is_empty() {
        assert!(text.contains("none is ruled out"), "{text}");
    }
}

#[test]
fn a_yardstick_that_the_trace_exceeds_while_busy_is_not_used() {
    let paused = Loop {
        pause_us: 900,
        ..READS
    };
    let (_, text) = stats(&[paused], &["--yardstick", "300MB/s"]);
    // 64 KiB in 100 us are 655 MB/s.
    assert!(text.contains("too low, and is not used"), "{text}");
    let gain = text
        .split_once("up to ")
        .unwrap()
        .1
        .split_once('x')
        .unwrap()
        .0;
    let gain: f64 = gain.parse().unwrap();
    assert!((9.5..10.5).contains(&gain), "{text}");
}

#[test]
fn a_recording_of_flushes_has_no_limit_of_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    let writer = Loop {
        is_write: true,
        flush_us: 400,
        rounds: 200,
        ..READS
    };
    let text = trace(&[writer]);
    let flushes: String = text
        .split_inclusive('\n')
        .filter(|line| line.contains("FF"))
        .collect();
    std::fs::write(&path, flushes).unwrap();
    let out = crate::blkio(dir.path(), &["stats", path.to_str().unwrap()]);
    let text = crate::joined(&String::from_utf8_lossy(&out.stdout));
    assert!(
        text.starts_with("No read or write limits it: the recording has only 200 flushes"),
        "{text}"
    );
}
