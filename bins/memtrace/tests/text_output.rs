//! Tests text output: tables in parts, unknown values, problems with an input.

use super::*;

/// The answers and the classes come first and alone; the other tables are named, and shown on request.
#[test]
fn text_is_short_unless_tables_are_asked_for() {
    let folder = folder();
    let call = |words: &[&str]| {
        ok(&call(
            folder.path(),
            &[&["analyse", "perf.txt"], words].concat(),
        ))
    };
    let (short, long) = (call(&[]), call(&["--summaries"]));
    assert!(short.lines().count() <= 60, "{short}");
    let others = ["retention summary\n", "working set summary\n", "sampling\n"];
    for table in others {
        assert!(
            !short.contains(table) && long.contains(table),
            "{table}: {short}"
        );
    }
    let (answer, rest) = short.split_once("\nsuitability\n").unwrap();
    assert!(long.starts_with(answer), "{short}");
    assert!(
        rest.contains("tables left out (retention_summary, "),
        "{rest}"
    );
    // What several types lack is said once.
    for advice in ["record the period", "10x denser"] {
        assert!(short.matches(advice).count() <= 1, "{short}");
    }
    let asked = call(&["--metrics", "retention_duration"]);
    assert!(asked.contains("retention summary\n"), "{asked}");
}

#[test]
fn each_part_of_a_wide_table_says_what_its_rows_are_about() {
    let folder = folder();
    let dir = folder.path();
    let text = ok(&call(dir, &["compare", "perf.txt", "perf.txt"]));
    let parts: Vec<&str> = text.split("\n\n").collect();
    assert!(parts.len() > 1, "{text}");
    for part in parts {
        let head: Vec<&str> = part
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(head[..2], ["region_type", "metric"], "{text}");
    }
}

#[test]
fn loads_alone_say_nothing_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let loads: String = capture(5)
        .lines()
        .filter(|line| line.contains("mem-loads"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(dir.join("perf.txt"), loads).unwrap();
    // Number of values and loads by what is known of their store, and of short values; other cells
    // would be invented.
    for (table, known) in [("values", 6), ("refresh_need", 0)] {
        let words = ["analyse", "perf.txt", "--format", "csv", "--table", table];
        let csv = ok(&call(dir, &words));
        assert!(csv.lines().count() > 1, "{csv}");
        for row in csv.lines().skip(1) {
            let cells = row.split(',').skip(1);
            assert_eq!(
                cells.filter(|cell| !cell.is_empty()).count(),
                known,
                "{csv}"
            );
        }
    }
}

#[test]
fn an_empty_input_is_said_to_be_empty() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("empty.txt"), "").unwrap();
    for step in ["parse", "label", "analyse"] {
        let said = call(dir, &[step, "empty.txt"]);
        ok(&said);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("the input is empty"), "{step}: {said}");
        let quiet = call(dir, &[step, "empty.txt", "-q"]);
        assert!(quiet.stderr.is_empty(), "{step}");
    }
}

#[test]
fn what_is_no_parquet_cannot_be_checked_and_the_way_is_named() {
    let folder = folder();
    let dir = folder.path();
    let said = call(dir, &["check", "perf.txt"]);
    assert_eq!(said.status.code(), Some(1));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("`memtrace label` writes one"), "{text}");
    ok(&call(dir, &["label", "perf.txt", "-o", "trace.parquet"]));
    assert!(ok(&call(dir, &["check", "trace.parquet"])).contains("schema ok"));
}

#[test]
fn no_output_replaces_the_input() {
    let folder = folder();
    let dir = folder.path();
    for step in ["parse", "label", "convert", "analyse"] {
        let said = fails(dir, &[step, "perf.txt", "-o", "./perf.txt"], 2);
        assert!(said.contains("would replace"), "{step}: {said}");
    }
    let kept = std::fs::read_to_string(dir.join("perf.txt")).unwrap();
    assert_eq!(kept, capture(5));
}
