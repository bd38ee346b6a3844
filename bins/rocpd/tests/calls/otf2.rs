//! Reads archives with OTF2's own printer: every record is an enter and a leave, and the totals are
//! those planted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rocpd_synth::{Made, Moments, Shape, generate};

/// Calls and their total, by name.
type Totals = BTreeMap<String, (u64, i64)>;

/// Returns the output of `otf2-print` for an archive.
fn printed(archive: &Path, options: &[&str]) -> String {
    let output = Command::new("otf2-print")
        .args(options)
        .arg(archive)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A record: name, begin, end, location.
type Record = (String, i64, i64, String);

/// Parses records from lines such as `ENTER   3   1700000000   Region: "name" <7>`; `locations` has
/// the number of events of each.
fn records(text: &str, locations: &BTreeMap<String, (String, u64)>) -> Vec<Record> {
    let mut open: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
    let mut records = Vec::new();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    let mut events: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        if kind != "ENTER" && kind != "LEAVE" {
            continue;
        }
        let location = words.next().unwrap();
        *events.entry(location).or_default() += 1;
        let time: i64 = words.next().unwrap().parse().unwrap();
        let name = line.split_once("Region: \"").unwrap().1;
        let name = name.rsplit_once("\" <").unwrap().0;
        // Within a location time does not go back, and regions nest.
        let before = last.insert(location, time).unwrap_or(i64::MIN);
        assert!(before <= time, "{line}");
        let stack = open.entry(location).or_default();
        if kind == "ENTER" {
            stack.push((name, time));
            continue;
        }
        let (entered, start) = stack.pop().unwrap();
        assert_eq!(entered, name, "{line}");
        records.push((name.to_owned(), start, time, locations[location].0.clone()));
    }
    assert!(open.values().all(Vec::is_empty), "an enter without leave");
    for (location, count) in events {
        assert_eq!(
            locations[location].1, count,
            "events of location {location}"
        );
    }
    records
}

/// Parses names and numbers of events of locations, from lines such as `LOCATION  3  Name: "Thread
/// 7" <9>, Type: ..., # Events: 12, ...`.
fn locations(text: &str) -> BTreeMap<String, (String, u64)> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let is_location = words.next() == Some("LOCATION");
        let number = words.next().filter(|_| is_location)?;
        let name = line.split_once("Name: \"")?.1.split_once("\" <")?.0;
        let events = line.split_once("# Events: ")?.1.split_once(',')?.0;
        Some((
            number.to_owned(),
            (name.to_owned(), events.parse().unwrap()),
        ))
    };
    text.lines().filter_map(of).collect()
}

/// Returns calls and total time by name.
fn totals(records: &[Record]) -> Totals {
    let mut totals = Totals::new();
    for (name, start, end, _) in records {
        let total = totals.entry(name.clone()).or_default();
        total.0 += 1;
        total.1 += end - start;
    }
    totals
}

/// Returns the records of the CSV files of the same databases: name, times, and the location
/// without the number of its lane. Their allocations do not name the thread.
fn tabulated(folder: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    let mut add = |file: &str, name: &str, place: &dyn Fn(&BTreeMap<String, String>) -> String| {
        for row in crate::csv::csv(&folder.join(format!("a_{file}_trace.csv"))) {
            let time = |column: &str| row[column].parse::<i64>().unwrap();
            let times = (time("Start_Timestamp"), time("End_Timestamp"));
            records.push((row[name].replace('\n', " "), times.0, times.1, place(&row)));
        }
    };
    let thread = |row: &BTreeMap<String, String>| format!("Thread {}", row["Thread_Id"]);
    add("regions", "Function", &thread);
    add("samples", "Function", &thread);
    add("kernel", "Kernel_Name", &|row| {
        format!(
            "{}, Compute on GPU {}",
            thread(row),
            row["Agent_Id"].replace(' ', "-")
        )
    });
    add("memory_copy", "Direction", &|row| {
        format!("Copy to {}", row["Destination_Agent_Id"].replace(' ', "-"))
    });
    add("memory_allocation", "Operation", &|_| "Memory".to_owned());
    records
}

/// Converts a record of the archive to the same form.
fn comparable(record: Record) -> Record {
    let (name, start, end, location) = record;
    let location = location.split(" #").next().unwrap().to_owned();
    let location = match location.split_once(", ") {
        Some((thread, place)) if place.starts_with("Compute") => {
            format!("{thread}, {}", place.split(", Queue").next().unwrap())
        }
        Some((_, place)) if place.starts_with("Copy to ") => {
            // The kind of the agent is not in the CSV file.
            format!("Copy to {}", place.rsplit(' ').next().unwrap())
        }
        Some(_) => "Memory".to_owned(),
        None => location,
    };
    (name, start, end, location)
}

fn planted(made: &[Made]) -> Totals {
    let mut totals = Totals::new();
    let mut add = |name: &str, moments: &Moments| {
        let total = totals.entry(name.to_owned()).or_default();
        total.0 += moments.calls;
        total.1 += moments.total_ns;
    };
    for truth in made.iter().map(|made| &made.truth) {
        for (name, moments) in truth.kernels.iter().chain(&truth.copies) {
            add(name, moments);
        }
        for (name, moments) in truth.domains.values().flatten().chain(&truth.markers) {
            add(name, moments);
        }
        for (kind, moments) in &truth.allocations {
            add(&format!("MEMORY_ALLOCATION_{kind}"), moments);
        }
    }
    totals
}

#[test]
#[ignore = "needs otf2-print (Debian: otf2-tools)"]
fn otf2_print_reads_what_was_planted() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 2,
        nodes: 2,
        equal_pids: true,
        orphans: false,
        steps: 12,
        ..Shape::small()
    };
    let made = generate(&folder.path().join("in"), &shape).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rocpd"))
        .current_dir(folder.path())
        .args([
            "convert", "-i", "in", "-f", "otf2", "csv", "-d", "out", "-o", "a",
        ])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let archive = folder.path().join("out/a_results.otf2");
    let (text, definitions) = (printed(&archive, &[]), printed(&archive, &["-G"]));
    // Names are printed verbatim, including a line break: lines of one event are joined again.
    let text = text.replace("with\nnewline", "with newline");
    let found = records(&text, &locations(&definitions));
    let mut expected = Totals::new();
    for (name, (calls, total)) in planted(&made) {
        let own = expected.entry(name.replace('\n', " ")).or_default();
        own.0 += calls;
        own.1 += total;
    }
    assert_eq!(totals(&found), expected);
    // Record by record equal to the CSV files of the same databases.
    let sorted = |list: Vec<Record>| {
        let mut list: Vec<Record> = list.into_iter().map(anonymous).collect();
        list.sort();
        list
    };
    let found = found.into_iter().map(comparable).collect();
    let (found, expected) = (sorted(found), sorted(tabulated(&folder.path().join("out"))));
    let different = found.iter().zip(&expected).find(|(a, b)| a != b);
    assert_eq!((different, found.len()), (None, expected.len()));
}

/// Allocations are identified by their times: their names differ between the formats.
fn anonymous(record: Record) -> Record {
    match record.3.as_str() {
        "Memory" => (String::new(), record.1, record.2, record.3),
        _ => record,
    }
}
