//! Compares the tables of every reference trace with those of Perfetto's trace processor.
//!
//! Allowed differences, from the notes of the reference data: the numbers of processes and threads
//! whose number was a text (names are compared instead), the numbers of lanes (which slices share
//! one is compared), the reference's built-in idle thread, and issue counters that only one side
//! has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::support::{Csv, run, table};

/// Returns the folder of the reference data of these tests.
fn reference_data() -> PathBuf {
    test_data::reference("perfetto")
}

/// Returns a file's bytes, decompressed if necessary.
fn bytes_of(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .unwrap();
    out
}

/// A reference trace with its tables.
struct Golden {
    name: String,
    folder: PathBuf,
    trace: PathBuf,
}

fn goldens() -> Vec<Golden> {
    let root = reference_data();
    let mut all: Vec<Golden> = std::fs::read_dir(root.join("golden"))
        .unwrap()
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let trace = ["traces", "synth"]
                .map(|folder| root.join(folder).join(&name))
                .into_iter()
                .find(|path| path.exists())
                .unwrap();
            Golden {
                folder: root.join("golden").join(&name),
                name,
                trace,
            }
        })
        .filter(|golden| !golden.folder.join("load_error.txt").exists())
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(all.len(), 27, "reference traces with tables");
    all
}

impl Golden {
    fn table(&self, name: &str) -> Option<Csv> {
        let plain = self.folder.join(format!("{name}.csv"));
        let packed = self.folder.join(format!("{name}.csv.gz"));
        let path = [plain, packed].into_iter().find(|path| path.exists())?;
        Some(Csv::parse(std::str::from_utf8(&bytes_of(&path)).unwrap()))
    }
}

/// Collects the differences of one trace, and shows the first of them.
#[derive(Default)]
struct Differences(BTreeMap<String, (usize, String)>);

impl Differences {
    fn add(&mut self, trace: &str, what: &str, detail: impl FnOnce() -> String) {
        self.0
            .entry(format!("{trace}: {what}"))
            .and_modify(|(n, _)| *n += 1)
            .or_insert_with(|| (1, detail()));
    }

    fn check(self) {
        let text: Vec<String> = self
            .0
            .iter()
            .map(|(what, (count, first))| format!("{what}: {count} times, first {first}"))
            .collect();
        assert!(text.is_empty(), "\n{}", text.join("\n"));
    }
}

/// Allows a difference in a column of two rows, ours and the reference's.
type Same<'f> = &'f dyn Fn(&str, &[String], &[String]) -> bool;

/// Compares the cells of equally named columns, except `skip`; `same` may allow a difference.
fn compare(
    trace: &str,
    ours: &Csv,
    golden: &Csv,
    skip: &[&str],
    same: Same<'_>,
    out: &mut Differences,
) {
    assert_eq!(ours.columns, golden.columns, "{trace}");
    if ours.rows.len() != golden.rows.len() {
        out.add(trace, "number of rows", || {
            format!("{} for {}", ours.rows.len(), golden.rows.len())
        });
    }
    for (a, b) in ours.rows.iter().zip(&golden.rows) {
        for (at, column) in golden.columns.iter().enumerate() {
            if a[at] != b[at] && !skip.contains(&column.as_str()) && !same(column, a, b) {
                out.add(trace, &format!("column {column}"), || {
                    format!("{a:?} for {b:?}")
                });
            }
        }
    }
}

/// Names of processes and threads by number, for rows whose numbers are meaningless.
struct Names {
    process: HashMap<String, String>,
    thread: HashMap<(String, String), String>,
}

impl Names {
    fn new(threads: &Csv) -> Self {
        let (tid, name) = (threads.at("tid"), threads.at("name"));
        let (pid, process) = (threads.at("pid"), threads.at("process_name"));
        Self {
            process: threads
                .rows
                .iter()
                .map(|r| (r[pid].clone(), r[process].clone()))
                .collect(),
            thread: threads
                .rows
                .iter()
                .map(|r| ((r[pid].clone(), r[tid].clone()), r[name].clone()))
                .collect(),
        }
    }
}

/// Returns the texts that replace a process number in the input.
fn text_pids(trace: &Path) -> BTreeSet<String> {
    let bytes = bytes_of(trace);
    let text = String::from_utf8_lossy(&bytes);
    text.split("\"pid\":")
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"'))
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

fn same_owner(
    pids: &BTreeSet<String>,
    ours: &Names,
    golden: &Names,
    column: &str,
    a: &[String],
    b: &[String],
) -> bool {
    // pid and tid are columns 9 and 10 of slices.
    let (pid_a, pid_b) = (&a[9], &b[9]);
    let Some(process) = golden
        .process
        .get(pid_b)
        .filter(|name| pids.contains(*name))
    else {
        return false;
    };
    if ours.process.get(pid_a) != Some(process) {
        return false;
    }
    match column {
        "pid" => true,
        "tid" => {
            ours.thread.get(&(pid_a.clone(), a[10].clone()))
                == golden.thread.get(&(pid_b.clone(), b[10].clone()))
        }
        _ => false,
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn slices_are_the_same_in_id_time_nesting_owner_and_lane() {
    let mut out = Differences::default();
    let mut slices = 0;
    for golden in goldens() {
        let expected = golden.table("slices").unwrap();
        let ours = table(&golden.trace, "slice", &["--compat"]);
        let pids = text_pids(&golden.trace);
        let names = Names::new(&table(&golden.trace, "thread", &["--compat"]));
        let golden_names = Names::new(&golden.table("threads").unwrap());
        let same = |column: &str, a: &[String], b: &[String]| {
            same_owner(&pids, &names, &golden_names, column, a, b)
        };
        compare(
            &golden.name,
            &ours,
            &expected,
            &["track_id"],
            &same,
            &mut out,
        );
        slices += expected.rows.len();
        // Lanes correspond one to one.
        let mut forth = HashMap::new();
        let mut back = HashMap::new();
        for (a, b) in ours
            .column("track_id")
            .iter()
            .zip(expected.column("track_id"))
        {
            if *forth.entry(a.to_string()).or_insert(b) != b
                || back.entry(b).or_insert(a.to_string()) != a
            {
                out.add(&golden.name, "lanes", || format!("{a} for {b}"));
            }
        }
    }
    out.check();
    assert!(slices == 0 || slices == 171_510, "{slices} slices compared");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn flows_are_the_same() {
    let mut out = Differences::default();
    for golden in goldens() {
        let expected = golden.table("flows").unwrap();
        let ours = table(&golden.trace, "flow", &["--compat"]);
        compare(
            &golden.name,
            &ours,
            &expected,
            &[],
            &|_, _, _| false,
            &mut out,
        );
    }
    out.check();
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn counters_are_the_same() {
    let mut out = Differences::default();
    for golden in goldens() {
        let expected = golden.table("counters").unwrap();
        let ours = table(&golden.trace, "counter", &["--compat"]);
        compare(
            &golden.name,
            &ours,
            &expected,
            &[],
            &|_, _, _| false,
            &mut out,
        );
    }
    out.check();
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn threads_are_the_same() {
    let mut out = Differences::default();
    for golden in goldens() {
        let mut expected = golden.table("threads").unwrap();
        // The built-in idle thread comes first.
        let idle = expected.rows.remove(0);
        assert!(["\\N", "swapper"].contains(&idle[1].as_str()));
        assert_eq!([&idle[0], &idle[2], &idle[3]], ["0", "0", "\\N"]);
        let mut ours = table(&golden.trace, "thread", &["--compat"]);
        // Numbers that were texts are meaningless, and so are positions in an order by them.
        let pids = text_pids(&golden.trace);
        for csv in [&mut ours, &mut expected] {
            let (texts, mut rows): (Vec<_>, Vec<_>) = std::mem::take(&mut csv.rows)
                .into_iter()
                .partition(|row| pids.contains(&row[3]));
            let mut texts: Vec<Vec<String>> = texts
                .into_iter()
                .map(|row| {
                    vec![
                        "*".to_owned(),
                        row[1].clone(),
                        "*".to_owned(),
                        row[3].clone(),
                    ]
                })
                .collect();
            texts.sort();
            rows.extend(texts);
            csv.rows = rows;
        }
        compare(
            &golden.name,
            &ours,
            &expected,
            &[],
            &|_, _, _| false,
            &mut out,
        );
    }
    out.check();
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn arguments_are_the_same() {
    let mut out = Differences::default();
    let mut compared = 0;
    for golden in goldens() {
        let Some(expected) = golden.table("args") else {
            continue;
        };
        let ours = table(&golden.trace, "args", &["--compat"]);
        compare(
            &golden.name,
            &ours,
            &expected,
            &[],
            &|_, _, _| false,
            &mut out,
        );
        compared += 1;
    }
    out.check();
    assert!(
        compared == 0 || compared == 23,
        "{compared} tables of arguments"
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn what_both_count_is_counted_the_same() {
    let mut out = Differences::default();
    let goldens = goldens();
    let shared: BTreeSet<String> = goldens
        .iter()
        .flat_map(|golden| {
            let stats = golden.table("stats").unwrap();
            stats.rows.into_iter().map(|row| row[0].clone())
        })
        .collect();
    for golden in &goldens {
        let of = |csv: Csv| -> BTreeMap<String, String> {
            csv.rows
                .into_iter()
                .filter(|row| shared.contains(&row[0]))
                .map(|row| (row[0].clone(), row[4].clone()))
                .collect()
        };
        let expected = of(golden.table("stats").unwrap());
        let ours = of(table(&golden.trace, "stats", &["--compat"]));
        let ours_names: BTreeSet<_> = trace_tables_names();
        for name in shared.iter().filter(|n| ours_names.contains(n.as_str())) {
            if ours.get(name) != expected.get(name) {
                out.add(&golden.name, name, || {
                    format!("{:?} for {:?}", ours.get(name), expected.get(name))
                });
            }
        }
    }
    out.check();
}

/// Returns the counters that have the reference's names.
fn trace_tables_names() -> BTreeSet<&'static str> {
    [
        "slice_spill_overlapping_complete_event",
        "misplaced_end_event",
        "flow_duplicate_id",
        "flow_no_enclosing_slice",
        "trace_sorter_negative_timestamp_dropped",
        "track_event_counter_invalid_track_uuid",
        "packet_skipped_seq_needs_incremental_state_invalid",
    ]
    .into()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn what_the_reference_rejects_is_read() {
    let root = reference_data();
    for (name, names) in [
        ("js_surrogates.json", ["\u{1f600} ok", ""]),
        ("js_object_truncated.json", ["a", "b"]),
    ] {
        let folder = root.join("golden").join(name);
        assert!(folder.join("load_error.txt").exists());
        for mode in [&[][..], &["--compat"]] {
            let slices = table(&root.join("synth").join(name), "slice", mode);
            let found = slices.column("name");
            assert_eq!(found.len(), 2, "{name}");
            for (found, name) in found.iter().zip(names) {
                assert!(name.is_empty() || *found == name, "{found} for {name}");
            }
        }
    }
    let truncated = root.join("synth/js_object_truncated.json");
    let output = run(["tables", truncated.to_str().unwrap(), "--table", "stats"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("truncated_json"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ends early"));
}

/// Counts of the summary, with the names of the brute-force counts over the same file.
const LINKS: [(&str, &str); 6] = [
    ("kernels", "kernels"),
    ("by_flow", "kernels_with_flow_start"),
    ("by_correlation", "kernels_linked_by_correlation"),
    ("under_graph_launch", "kernels_under_graph_launch"),
    ("unlinked", "kernels_unlinked"),
    ("graph_launches", "graph_launches_with_kernels"),
];

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn kernels_are_linked_as_brute_force_finds() {
    let root = reference_data();
    let measures = std::fs::read_to_string(root.join("measures.json")).unwrap();
    let measures: serde_json::Value = serde_json::from_str(&measures).unwrap();
    for (name, expected) in measures.as_object().unwrap() {
        let trace = root.join("traces").join(name);
        let output = run([trace.to_str().unwrap(), "--json"]);
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = &summary["traces"][0]["kernels"];
        for (ours, theirs) in LINKS {
            assert_eq!(found[ours], expected[theirs], "{name}: {ours}");
        }
    }
}

/// The fields of an event whose text is compared.
#[derive(serde::Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow)]
    ph: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    ts: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    dur: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    name: Option<std::borrow::Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
struct RawTrace<'a> {
    #[serde(rename = "traceEvents", borrow)]
    events: Vec<RawEvent<'a>>,
}

/// Converts a decimal number of microseconds with at most three decimals to nanoseconds, digit by
/// digit.
fn exact_ns(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    assert!(part.len() <= 3, "{text}");
    let ns: i64 = format!("{part:0<3}").parse().unwrap();
    whole.parse::<i64>().unwrap() * 1000 + ns
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn without_compat_times_are_the_decimals_of_the_file() {
    let root = reference_data();
    for name in [
        "mi300_resnet_act_checkpoint.json.gz",
        "hta_nccl_data.json.gz",
        "vllm_decode_full.json.gz",
    ] {
        let trace = root.join("traces").join(name);
        let bytes = bytes_of(&trace);
        let raw: RawTrace<'_> = serde_json::from_slice(&bytes).unwrap();
        let mut expected: Vec<(i64, i64, String)> = raw
            .events
            .iter()
            .filter(|event| event.ph.as_deref() == Some("X"))
            .map(|event| {
                (
                    exact_ns(event.ts.unwrap().get()),
                    exact_ns(event.dur.unwrap().get()),
                    event.name.as_deref().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        let slices = table(&trace, "slice", &[]);
        let (kind, ts) = (slices.at("track_type"), slices.at("ts"));
        let (dur, slice) = (slices.at("dur"), slices.at("name"));
        let mut found: Vec<(i64, i64, String)> = slices
            .rows
            .iter()
            .filter(|row| row[kind].starts_with("thread_"))
            .map(|row| {
                (
                    row[ts].parse().unwrap(),
                    row[dur].parse().unwrap(),
                    row[slice].clone(),
                )
            })
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{name}");
        }
    }
}
