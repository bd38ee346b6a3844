//! Input in every bad state, and ways of input that must change nothing.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it should be"
)]

use std::io::Write as _;
use std::path::PathBuf;

use blkio_parser::{Error, Stats, StatsOptions};
use blkio_report::document::{self, DocumentOptions};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

fn write(dir: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn stats(paths: &[PathBuf], threads: usize) -> Result<Stats, Error> {
    let mut options = StatsOptions::default();
    options.read.threads = threads;
    Stats::of_files(paths, &options)
}

fn metrics(paths: &[PathBuf], threads: usize) -> Value {
    let mut stats = stats(paths, threads).unwrap();
    let mut document = document::stats(&mut stats, &DocumentOptions::default());
    document["metrics"].take()
}

/// A log of `n` requests with a small step back now and then.
fn log(n: u64) -> Vec<String> {
    (0..n)
        .map(|i| {
            let back = if i % 7 == 3 { 900_000 } else { 0 };
            let t = 1_000_000_000 + i * 250_000 - back;
            let rwbs = ["RA", "W", "WS", "FF"][usize::try_from(i * i % 4).unwrap()];
            let nr = if rwbs == "FF" { 0 } else { 8 << (i % 6) };
            let sector = if rwbs == "FF" {
                0
            } else {
                i * 7919 % 100_000 * 8
            };
            format!("{t}, {rwbs}, {}, {sector}, {nr}\n", nr * 512)
        })
        .collect()
}

#[test]
fn cutting_shuffling_compressing_and_threads_change_nothing() {
    let dir = TempDir::new().unwrap();
    let lines = log(20_000);
    let whole = write(&dir, "whole.txt", lines.concat().as_bytes());
    let wanted = metrics(std::slice::from_ref(&whole), 1);
    assert_eq!(wanted["issues"], 20_000);
    assert_eq!(metrics(&[whole], 4), wanted);
    let halves = [
        write(&dir, "a.txt", lines[..7777].concat().as_bytes()),
        write(&dir, "b.txt", lines[7777..].concat().as_bytes()),
    ];
    assert_eq!(metrics(&halves, 2), wanted);
    // Within a second the order of lines does not matter, as long as no two have the same time.
    let mut shuffled = lines.clone();
    for block in shuffled.chunks_mut(1000) {
        block.reverse();
    }
    let path = write(&dir, "shuffled.txt", shuffled.concat().as_bytes());
    let mut found = metrics(&[path], 2);
    let mut same = wanted.clone();
    // At equal times the input's order decides; none are equal here but those that stepped back.
    for key in ["sequentiality", "reuse_distance_128k_blocks"] {
        found[key].take();
        same[key].take();
    }
    assert_eq!(found, same);
}

#[test]
fn every_bad_state_is_counted() {
    let dir = TempDir::new().unwrap();
    let counts = |content: &[u8]| {
        let path = write(&dir, "log.txt", content);
        stats(&[path], 1).unwrap()
    };
    let empty = counts(b"");
    assert_eq!((empty.traffic.issues, empty.outcome.counts().lines), (0, 0));
    let header = counts(b"ERROR: cannot attach\nAttaching 1 probe...\n");
    assert_eq!(header.outcome.counts().error, 1);
    let wrapped = counts(b"1, W, -2147483648, 100, 4194304\n2, R, -512, 0, -1\n");
    assert_eq!(wrapped.traffic.issues, 2);
    assert_eq!(wrapped.outcome.counts().malformed, 0);
    let far = counts(b"1, RA, 131072, 5000000000, 256\n2, RA, 131072, 18446744073709551500, 256\n");
    assert_eq!(far.access.unwrap().distinct_blocks().read, 32 + 15);
    let long = [
        b"1, R, 4096, 8, 8\n".as_slice(),
        &[b'7'; 3_000_000],
        b"\n2, R, 4096, 8, 8\n",
    ]
    .concat();
    let long = counts(&long);
    assert_eq!(
        (long.traffic.issues, long.outcome.counts().malformed),
        (2, 1)
    );
    assert_eq!(
        long.outcome.counts().malformed_samples[0].reason,
        "line longer than 4 KiB"
    );
    let noise = counts(b"1, R, 4096, 8, 8\n\x00\xff\xfe garbage\n\n2, R, 4096, 8, 8\r\n2, R, 40");
    assert_eq!(noise.traffic.issues, 2);
    assert_eq!(
        noise.outcome.counts().malformed_samples[0].reason,
        "truncated"
    );
    let absurd = counts(b"1, R, 4096, 8, 8\n18446744073709551615, R, 4096, 8, 8\n");
    assert_eq!(absurd.traffic.issues, 2);
}

#[test]
fn a_compressed_log_that_ends_early_is_read_as_far_as_it_goes_and_said() {
    let dir = TempDir::new().unwrap();
    let text = log(20_000).concat();
    let gzip = |path: &PathBuf| {
        let file = std::fs::File::open(path).unwrap();
        let mut command = std::process::Command::new("gzip");
        command.arg("-c").stdin(file).output().unwrap().stdout
    };
    let packed = gzip(&write(&dir, "log.txt", text.as_bytes()));
    let cut = write(&dir, "cut.gz", &packed[..packed.len() / 2]);
    let mut found = stats(&[cut], 2).unwrap();
    assert!((1..20_000).contains(&found.traffic.issues));
    let document = document::stats(&mut found, &DocumentOptions::default());
    let warnings = document["quality"]["warnings"].to_string();
    assert!(warnings.contains("ends early"), "{warnings}");
    let whole = write(&dir, "whole.gz", &packed);
    let mut found = stats(&[whole], 2).unwrap();
    assert_eq!(found.traffic.issues, 20_000);
    let document = document::stats(&mut found, &DocumentOptions::default());
    assert_eq!(document["quality"]["warnings"], serde_json::json!([]));
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let refuse = |content: &[u8]| stats(&[write(&dir, "x.txt", content)], 1).unwrap_err();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1069223555\n";
    assert!(matches!(
        refuse(pointer),
        Error::LfsPointer {
            size: 1_069_223_555,
            ..
        }
    ));
    assert!(matches!(
        refuse(b"hello\nworld\n"),
        Error::UnknownFormat { .. }
    ));
    let gpu = b"timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.978, 0 %\n";
    assert!(matches!(
        refuse(gpu),
        Error::WrongKind {
            found: "gpu-csv",
            ..
        }
    ));
    let mut options = StatsOptions::default();
    options.read.strict = true;
    let path = write(&dir, "bad.txt", b"1, R, 4096, 8, 8\n2, R\n");
    let error = Stats::of_files(&[path], &options).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Malformed {
                line: 2,
                offset: 17,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn steps_back_beyond_the_window_are_put_right_by_reading_again() {
    let dir = TempDir::new().unwrap();
    // More than a million requests, so that some are handed on before the early one is met.
    let path = dir.path().join("big.txt");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for i in 0..1_200_000_u64 {
        writeln!(file, "{}, R, 4096, {}, 8", 1_000_000 + i * 10_000, i * 8).unwrap();
    }
    writeln!(file, "7, W, 4096, 0, 8").unwrap();
    drop(file);
    for threads in [1, 2] {
        let found = stats(std::slice::from_ref(&path), threads).unwrap();
        assert_eq!(found.traffic.first_issue_ns, Some(7));
        assert_eq!(found.traffic.issues, 1_200_001);
        assert_eq!(found.outcome.late_events, 0);
    }
}

proptest! {
    #[test]
    fn no_input_panics_and_no_valid_line_is_lost(
        pieces in prop::collection::vec(
            prop_oneof![
                Just(b"5, R, 4096, 8, 8\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..40),
                Just(b"  7,0    1        5     0.000037285 28449  D  RM 68872 + 8 [fio]\n".to_vec()),
                Just(b" fio-1 [001] ..... 1.000001: block_rq_issue: 7,0 R 512 () 1 + 1 [x]\n".to_vec()),
                Just(b"\x07tae".to_vec()),
            ],
            0..20,
        )
    ) {
        let dir = TempDir::new().unwrap();
        let path = write(&dir, "x", &pieces.concat());
        let _ = stats(&[path], 1);
        let kind = blkio_parser::detect(&pieces.concat());
        prop_assert!(!kind.name().is_empty());
    }
}
