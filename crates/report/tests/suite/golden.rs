//! Compares reals with the output of two other programs: the reference tables of the shared data
//! are reproduced character by character.

use std::path::PathBuf;

use report::{RealFormat, real_text};

/// Returns the folder of the reference data of these tests.
fn golden() -> PathBuf {
    test_data::reference("perfetto/golden")
}

/// Returns the files with this name, one per trace.
fn tables(name: &str) -> Vec<String> {
    let dirs = std::fs::read_dir(golden()).unwrap();
    let files = dirs
        .map(|entry| entry.unwrap().path().join(name))
        .filter(|path| path.is_file());
    files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn reals_of_arguments_have_fifteen_digits() {
    let mut seen = 0;
    for table in tables("args.csv") {
        for (_, value) in table.lines().filter_map(|line| line.split_once(",real,")) {
            let real: f64 = value.parse().unwrap();
            assert_eq!(real_text(real, RealFormat::Significant15), value);
            seen += 1;
        }
    }
    assert!(seen > 0, "no real argument in the tables");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn counters_have_the_shortest_digits_and_a_point() {
    let mut seen = 0;
    for table in tables("counters.csv") {
        for line in table.lines().skip(1) {
            let value = line.split(',').nth(1).unwrap();
            let real: f64 = value.parse().unwrap();
            assert_eq!(real_text(real, RealFormat::ShortestPoint), value);
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} counter values in the tables");
}
