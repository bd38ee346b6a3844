//! Compares `trace-info gpu` with the reference on every published trace, to the nanosecond.

use std::path::PathBuf;
use std::process::Command;

/// Returns the folder of the reference data of these tests.
fn peers() -> PathBuf {
    test_data::reference("peers")
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_column_of_every_trace_equals_the_reference() {
    let peers = peers();
    let text = std::fs::read_to_string(peers.join("reference_gpu_time.csv")).unwrap();
    let want = text.replace("\r\n", "\n");
    let traces: Vec<PathBuf> = want
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap())
        .map(|name| peers.join("traces").join(format!("{name}.json.gz")))
        .collect();
    assert_eq!(traces.len(), 7);
    for threads in ["1", "5"] {
        let mut words = vec!["gpu".as_ref(), "--format".as_ref(), "csv".as_ref()];
        words.extend(["--rules", "exact", "--threads", threads].map(std::ffi::OsStr::new));
        words.extend(traces.iter().map(|path| path.as_os_str()));
        let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), want);
    }
    // The tool's own rules give the same times in nanoseconds.
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .args(["gpu", "--format", "csv"])
        .args(&traces)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("nan") && !text.contains("_us,"), "{text}");
    let cell = |text: &str, line: usize, name: &str| -> String {
        let names = text.lines().next().unwrap().split(',');
        let at = names.into_iter().position(|n| n == name).unwrap();
        let cells = text.lines().nth(line).unwrap().split(',');
        cells.into_iter().nth(at).unwrap().to_owned()
    };
    for line in 1..=traces.len() {
        for name in ["span", "busy", "idle", "comp", "comm", "exposed_memcpy"] {
            let micros = cell(&want, line, &format!("{name}_us")).replace('.', "");
            let nanos = cell(&text, line, &format!("{name}_ns"));
            let number = |text: &str| text.parse::<i64>().unwrap();
            assert_eq!(number(&micros), number(&nanos), "{name} of row {line}");
        }
    }
}
