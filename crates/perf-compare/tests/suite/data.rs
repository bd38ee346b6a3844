//! Published recordings: where they are, and parts of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};

/// The reference data of these tests.
pub(crate) fn recordings() -> PathBuf {
    test_data::reference("deepdive")
}

/// The text of a file, decompressed.
pub(crate) fn text(path: &Path) -> String {
    let mut text = String::new();
    let source = Source::open(path, &OpenOptions::default()).unwrap();
    source
        .into_read()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Writes the cycles for which `keep` (place in time, from 0) says yes, and the counters inside them, as a folder.
pub(crate) fn part(from: &Path, to: &Path, keep: impl Fn(usize, usize) -> bool) {
    fs::create_dir_all(to).unwrap();
    let perf = text(&from.join("result_perf_data.csv.xz"));
    let mut reader = csv::Reader::from_reader(perf.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let number = |row: &csv::StringRecord, at: usize| row[at].parse::<f64>().unwrap();
    let mut cycles: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for row in &rows {
        cycles.insert(row[0].parse().unwrap(), (number(row, 14), number(row, 13)));
    }
    let count = cycles.len();
    let kept: BTreeMap<u64, (f64, f64)> = cycles
        .into_iter()
        .enumerate()
        .filter(|(at, _)| keep(*at, count))
        .map(|(_, cycle)| cycle)
        .collect();
    let mut out = csv::Writer::from_path(to.join("result_perf_data.csv")).unwrap();
    out.write_record(&header).unwrap();
    for row in rows
        .iter()
        .filter(|row| kept.contains_key(&row[0].parse().unwrap()))
    {
        out.write_record(row).unwrap();
    }
    out.flush().unwrap();
    let mut reader = csv::Reader::from_reader(std::io::Cursor::new(text(
        &from.join("result_counters_data.csv.xz"),
    )));
    let mut out = csv::Writer::from_path(to.join("result_counters_data.csv")).unwrap();
    out.write_record(reader.headers().unwrap()).unwrap();
    for row in reader.records() {
        let row = row.unwrap();
        let time = number(&row, 1);
        if kept
            .values()
            .any(|(start, dur)| time >= *start && time <= start + dur)
        {
            out.write_record(&row).unwrap();
        }
    }
    out.flush().unwrap();
}
