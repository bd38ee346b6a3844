//! Tables in SQL against the commands that have the same numbers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{inferscope, text};

fn data(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that succeeds, and returns what it prints.
fn printed(words: &[&str]) -> String {
    let answer = inferscope(words);
    assert_eq!(
        answer.status.code(),
        Some(0),
        "{words:?}: {}",
        text(&answer.stderr)
    );
    text(&answer.stdout)
}

fn csv(query: &str, path: &str) -> String {
    printed(&["sql", "-q", "--format", "csv", query, path])
}

#[test]
fn the_answer_of_a_fleet_is_queried_by_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (tables, csvs) = (at("tables"), at("csv"));
    printed(&["fleet", "-q", &data("demo"), "-o", &tables]);
    printed(&["fleet", "-q", "--tables", "csv", &data("demo"), "-o", &csvs]);
    let listed = csv("SHOW TABLES", &tables);
    let names: Vec<&str> = listed
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').next())
        .collect();
    assert_eq!(names.len(), 9, "{listed}");
    for name in names {
        let expected = fs::read_to_string(Path::new(&csvs).join(format!("{name}.csv"))).unwrap();
        assert_eq!(
            csv(&format!("SELECT * FROM {name}"), &tables),
            expected,
            "{name}"
        );
        let described = csv(&format!("DESCRIBE {name}"), &tables);
        let columns = expected.lines().next().unwrap().split(',').count();
        assert_eq!(described.lines().count(), columns + 1, "{name}");
    }
    // Without Parquet there is nothing to query, and with other paths beside it is not clear what is meant.
    assert_eq!(
        inferscope(&["sql", "-q", "SHOW TABLES", &csvs])
            .status
            .code(),
        Some(3)
    );
    let both = ["sql", "-q", "SELECT 1 AS one", &tables, &data("demo")];
    assert_eq!(inferscope(&both).status.code(), Some(2));
}

#[test]
fn findings_logs_and_accesses_are_those_of_their_commands() {
    let why: Value =
        serde_json::from_str(&printed(&["why", "-q", "--json", &data("demo")])).unwrap();
    let rows = printed(&[
        "sql",
        "-q",
        "--json",
        "SELECT id, title, cost_ns_total, gain_pct FROM findings",
        &data("demo"),
    ]);
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let findings = why["findings"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.len() == findings.len());
    for (row, finding) in rows.iter().zip(findings) {
        for key in ["id", "title", "cost_ns_total", "gain_pct"] {
            assert_eq!(row[key], finding[key], "{key}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv").display().to_string();
    for (command, sql, path) in [
        ("blkio convert", "block_events", "blkio/offload.events.txt"),
        ("memtrace label", "accesses", "memtrace/mapped.perf.txt"),
    ] {
        let input = data(path);
        let mut words: Vec<&str> = command.split(' ').collect();
        words.push(&input);
        // One names the table behind the input, the other with an option.
        if sql == "accesses" {
            words.push("-o");
        }
        words.push(&table);
        printed(&words);
        let expected = fs::read_to_string(&table).unwrap();
        let columns = expected.lines().next().unwrap();
        let found = csv(&format!("SELECT {columns} FROM {sql}"), &input);
        assert!(found.lines().count() > 10 && found == expected, "{sql}");
        fs::remove_file(&table).unwrap();
    }
}
