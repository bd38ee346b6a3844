//! Tests of the tool as used.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod counters;
mod csv;
#[cfg(feature = "mail")]
mod mail;
mod merge;
mod otf2;
mod perfetto;
mod quality;
mod support;
mod unknown_tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rocpd_synth::Shape;

use support::{Run, call, names_in, ok, two};

#[test]
fn summaries_are_files_with_the_spellings_of_the_format() {
    let run = Run::new(&two());
    let words = [
        "summary",
        "-d",
        "out",
        "-o",
        "run",
        "-f",
        "csv",
        "--domain-summary",
        "--summary-by-rank",
    ];
    ok(&run.call(&words));
    for name in [
        "kernels",
        "memory_copies",
        "memory_allocations",
        "scratch_memory",
        "hip",
        "hsa",
        "rccl",
        "markers",
        "domain",
    ] {
        for end in ["summary", "summary_by_rank"] {
            let path = run.path(&format!("out/run_{name}_{end}.csv"));
            assert!(path.is_file(), "{}", path.display());
        }
    }
    let text = std::fs::read_to_string(run.path("out/run_domain_summary_by_rank.csv")).unwrap();
    let header = text.lines().next().unwrap();
    assert_eq!(
        header,
        "ProcessID,Hostname,Name,Calls,DURATION (nsec),AVERAGE (nsec),PERCENT (INC),MIN (nsec),MAX (nsec),STD_DEV"
    );
    // Equal process ids on two hosts: each has its own rows.
    for made in &run.made {
        let start = format!(
            "4000,{},KERNELS,{},",
            made.truth.hostname, made.truth.dispatches
        );
        assert!(text.lines().any(|line| line.starts_with(&start)), "{start}");
    }
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(",KERNELS,"))
            .count(),
        2
    );
}

#[test]
fn extended_summaries_find_what_was_planted() {
    let mut shape = Shape::large(2000);
    shape.ranks = 2;
    let run = Run::new(&shape);
    ok(&run.call(&["summary", "-d", "out", "-f", "csv", "--extended"]));
    let anomalies = std::fs::read_to_string(run.path("out/anomalies.csv")).unwrap();
    for made in &run.made {
        let own = anomalies
            .lines()
            .filter(|line| line.contains(&made.truth.guid))
            .count();
        assert_eq!(own, made.truth.outliers.len());
    }
    let busy = std::fs::read_to_string(run.path("out/busy_summary.csv")).unwrap();
    for made in &run.made {
        let sum = made.truth.busy_ns[&4].to_string();
        assert!(
            busy.lines()
                .any(|line| line.contains(&made.truth.guid) && line.contains(&sum))
        );
    }
    assert!(run.path("out/launch_latency_summary.csv").is_file());
    assert!(run.path("out/rank_imbalance_summary.csv").is_file());
}

#[test]
fn queries_in_every_format() {
    let run = Run::new(&two());
    let query = "SELECT name, COUNT(*) AS n, AVG(duration) AS mean, NULL AS missing FROM kernels GROUP BY name ORDER BY name";
    for format in [
        "csv",
        "tsv",
        "json",
        "jsonl",
        "md",
        "html",
        "dashboard",
        "pdf",
        "parquet",
        "arrow",
    ] {
        let out = ok(&run.call(&[
            "query", "--query", query, "--format", format, "-d", "out", "-o", "q",
        ]));
        let end = if format == "dashboard" { ".html" } else { "" };
        let path = run.path(&format!("out/q.{format}{end}"));
        assert!(path.is_file(), "{format}");
        assert!(out.starts_with("Exported to: "), "{out}");
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for made in &run.made {
        for (name, kernel) in &made.truth.kernels {
            *calls.entry(name.clone()).or_default() += kernel.calls;
        }
    }
    let json = std::fs::read_to_string(run.path("out/q.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let found: BTreeMap<String, u64> = rows
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["n"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, calls);
    assert!(rows.iter().all(|row| row["missing"].is_null()));
    let console = ok(&run.call(&["query", "--query", query]));
    assert_eq!(
        console
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["name", "n", "mean", "missing"]
    );
    let pdf = std::fs::read(run.path("out/q.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF-1.4") && pdf.ends_with(b"%%EOF\n"));
    assert_eq!(
        &std::fs::read(run.path("out/q.parquet")).unwrap()[..4],
        b"PAR1"
    );
}

#[test]
fn arrow_files_come_in_batches() {
    let run = Run::new(&Shape::small());
    let numbers =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)";
    let query = format!(
        "{numbers} SELECT i, i / 2.0 AS half, CASE WHEN i % 3 THEN 't' || i END AS name FROM n"
    );
    ok(&run.call(&[
        "query", "--query", &query, "--format", "arrow", "-d", "out", "-o", "q",
    ]));
    let file = std::fs::File::open(run.path("out/q.arrow")).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let batches: Vec<_> = reader.map(|batch| batch.unwrap()).collect();
    let rows: Vec<usize> = batches.iter().map(|batch| batch.num_rows()).collect();
    assert_eq!(rows, [50_000, 50_000, 20_000]);
    let sum: i64 = batches
        .iter()
        .map(|batch| {
            let column: &arrow_array::Int64Array = batch["i"].as_any().downcast_ref().unwrap();
            column.values().iter().sum::<i64>()
        })
        .sum();
    assert_eq!(sum, 120_000 * 120_001 / 2);
    let nulls: usize = batches.iter().map(|batch| batch["name"].null_count()).sum();
    assert_eq!(nulls, 40_000);
    // A value that does not fit the column's type is an error, and leaves no partial file.
    let query = format!("{numbers} SELECT CASE WHEN i < 60000 THEN i ELSE 'x' END AS odd FROM n");
    let odd = run.call(&[
        "query", "--query", &query, "--format", "arrow", "-d", "out", "-o", "odd",
    ]);
    assert_eq!(odd.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&odd.stderr).contains("column odd has values of several types")
    );
    assert_eq!(names_in(&run.path("out")), ["q.arrow"]);
}

#[test]
fn records_as_arrow_files_are_those_of_json() {
    let run = Run::new(&two());
    ok(&run.call(&["convert", "-f", "arrow", "json", "-d", "out", "-o", "r"]));
    let lists: Vec<String> = names_in(&run.path("out"))
        .into_iter()
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    assert!(lists.len() >= 4, "{lists:?}");
    for list in lists {
        let text = std::fs::read_to_string(run.path("out").join(&list)).unwrap();
        let file =
            std::fs::File::open(run.path("out").join(list.replace(".jsonl", ".arrow"))).unwrap();
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        let schema = reader.schema();
        let kind = |name: &str| schema.field_with_name(name).map(|f| f.data_type().clone());
        // Names are indices into a dictionary; texts that differ from row to row are not.
        let names = ["guid", "hostname", "name", "category", "type", "counter"];
        for name in names {
            let text = kind(name).map_or("Dictionary(Int32, Utf8)".to_owned(), |k| k.to_string());
            assert_eq!(text, "Dictionary(Int32, Utf8)", "{list}: {name}");
        }
        if list == "r_regions.jsonl" {
            assert_eq!(kind("message").unwrap().to_string(), "Utf8");
        }
        // Every value, including line breaks.
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut rows = lines.iter();
        let shown = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => String::new(),
            value => value.to_string(),
        };
        for batch in reader.map(Result::unwrap) {
            for row in 0..batch.num_rows() {
                let line = rows.next().unwrap().as_object().unwrap();
                assert_eq!(line.len(), schema.fields().len(), "{list}");
                for (field, column) in schema.fields().iter().zip(batch.columns()) {
                    let stored = arrow_cast::display::array_value_to_string(column, row).unwrap();
                    assert_eq!(
                        stored,
                        shown(&line[field.name()]),
                        "{list}: {}",
                        field.name()
                    );
                }
            }
        }
        assert!(rows.next().is_none(), "{list}");
        if list == "r_kernels.jsonl" {
            let odd = |line: &serde_json::Value| line["name"].as_str().unwrap().contains('\n');
            assert!(lines.iter().any(odd));
        }
    }
}

#[test]
fn files_of_columns_say_whose_they_are_and_are_in_order() {
    let run = Run::new(&two());
    ok(&run.call(&[
        "convert", "-f", "arrow", "parquet", "json", "-d", "out", "-o", "",
    ]));
    let sum = |get: fn(&rocpd_synth::Truth) -> u64| run.made.iter().map(|m| get(&m.truth)).sum();
    let counts: [(&str, u64, &str); 3] = [
        (
            "kernels",
            sum(|t| t.dispatches + t.lost_dispatches),
            "start_ns",
        ),
        ("regions", sum(|t| t.regions + t.lost_regions), "start_ns"),
        ("samples", sum(|t| t.samples), "timestamp_ns"),
    ];
    for (name, count, time) in counts {
        let text = std::fs::read_to_string(run.path(&format!("out/{name}.jsonl"))).unwrap();
        let rows: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len() as u64, count, "{name}");
        // Rows of both processes together.
        assert!(rows.is_sorted_by_key(|row| row[time].as_i64()), "{name}");
        let first = &rows[0]["guid"];
        assert!(rows.iter().any(|row| row["guid"] != *first), "{name}");
    }
    let file = std::fs::File::open(run.path("out/kernels.arrow")).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let said: serde_json::Value =
        serde_json::from_str(&reader.schema().metadata()["processes"]).unwrap();
    assert_eq!(said.as_object().unwrap().len(), 2);
    for made in &run.made {
        let own = &said[&made.truth.guid];
        assert_eq!(own["hostname"], made.truth.hostname);
        assert_eq!(own["pid"], made.truth.pid);
        assert!(own["rank"].is_i64());
    }
    // In Parquet files it is in the footer.
    let bytes = std::fs::read(run.path("out/args.parquet")).unwrap();
    let footer =
        String::from_utf8_lossy(&bytes[bytes.len() - 4096.min(bytes.len())..]).into_owned();
    assert!(
        footer.contains(&serde_json::to_string(&said).unwrap()),
        "{footer}"
    );
}

#[test]
fn empty_results_and_errors() {
    let run = Run::new(&two());
    let none = run.call(&[
        "query",
        "--query",
        "SELECT 1 WHERE 0",
        "--format",
        "csv",
        "-d",
        "out",
    ]);
    ok(&none);
    assert!(String::from_utf8_lossy(&none.stderr).contains("No results found for query"));
    assert!(!run.path("out/out.csv").exists());
    let wrong = run.call(&["query", "--query", "SELEKT"]);
    assert_eq!(wrong.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("near \"SELEKT\": syntax error"));
    let compat = run.call(&["query", "--compat", "--query", "SELEKT"]);
    assert_eq!(compat.status.code(), Some(0));
    assert!(ok(&compat).starts_with("Error: Execution failed on sql 'SELEKT'"));
    let missing = call(run.folder.path(), &["info", "-i", "nothing.db"]);
    assert_eq!(missing.status.code(), Some(2));
    let time = run.call(&["summary", "--start", "abc", "-d", "out"]);
    assert_eq!(time.status.code(), Some(2));
    let missing = call(
        run.folder.path(),
        &["query", "-i", "nothing.db", "--query", "SELECT 1"],
    );
    assert_eq!(missing.status.code(), Some(2));
    assert!(!run.path("nothing.db").exists());
    let unknown = run.call(&["summary", "--region-categories", "HIPP", "-d", "out"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("HIP, HSA"));
    assert!(ok(&call(run.folder.path(), &[])).contains("Usage"));
}

#[test]
fn inputs_are_never_written_over() {
    let run = Run::new(&Shape::small());
    let path = run.made[0].path.clone();
    let before = std::fs::read(&path).unwrap();
    // The output's name resolves to the database.
    for name in [
        "out.csv",
        "out.parquet",
        "kernels.jsonl",
        "results.pftrace",
        "kernels_summary.csv",
    ] {
        std::os::unix::fs::symlink(&path, run.path(name)).unwrap();
    }
    let query = ["query", "--query", "SELECT 1 AS n", "-d", "."];
    for words in [
        &[&query[..], &["--format", "csv"]].concat()[..],
        &[&query[..], &["--format", "parquet"]].concat(),
        &["convert", "-f", "json", "-d", ".", "-o", ""],
        &["convert", "-f", "pftrace", "-d", ".", "-o", ""],
        &["summary", "-f", "csv", "-d", "."],
    ] {
        let refused = run.call(words);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(errors.contains("it is one of the inputs"), "{errors}");
        assert!(std::fs::read(&path).unwrap() == before, "{words:?}");
    }
}

#[test]
fn windows_that_the_reference_refuses_are_refused_in_its_words() {
    let run = Run::new(&Shape::small());
    let call = |more: &[&str]| {
        let called = run.call(&[&["summary", "-f", "csv", "-d", "out"], more].concat());
        let text = String::from_utf8_lossy(&called.stderr).into_owned();
        (called.status.code(), text)
    };
    for (words, said) in [
        (
            &["--start", "120%"][..],
            "ERROR: Invalid percentage '120%' - must be between '0%' and '100%'\n",
        ),
        (
            &["--end", "-1%"],
            "ERROR: Invalid percentage '-1%' - must be between '0%' and '100%'\n",
        ),
        (
            &["--start", "abc"],
            "ERROR: Invalid time value 'abc' - must be percentage (e.g., '50%') or a number (nanoseconds since epoch) \n",
        ),
        (
            &["--start", "x%"],
            "could not convert string to float: 'x'\n",
        ),
        (
            &["--start", "7", "--end", "5"],
            "ERROR: Invalid time range - end time (5.0) must be greater than start time (7.0)\n",
        ),
        (
            &["--start", "5", "--end", "5"],
            "ERROR: Invalid time range - end time (5.0) must be greater than start time (5.0)\n",
        ),
    ] {
        let (code, text) = call(&[words, &["--compat"]].concat());
        assert_eq!((code, text.as_str()), (Some(1), said));
        // Otherwise in the words of this tool.
        let (_, text) = call(words);
        assert!(!text.contains("ERROR"), "{text}");
    }
    // A time outside counts as the edge of the data, and a single instant is a window.
    assert_eq!(call(&["--start", "-20%", "--end", "120%"]).0, Some(0));
    assert_eq!(call(&["--start", "50%", "--end", "50%"]).0, Some(0));
    // Offsets are an extension, also with --compat.
    assert_eq!(call(&["--start", "+1us", "--compat"]).0, Some(0));
    let missing = crate::support::call(
        run.folder.path(),
        &["summary", "-i", "No.db", "--compat", "-d", "out"],
    );
    assert_eq!(missing.status.code(), Some(2));
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(text, "File 'No.db' does not exist.\n");
}

#[test]
fn what_is_missing_is_named_as_the_reference_names_it() {
    let run = Run::new(&Shape::small());
    let query = "SELECT NULL AS n, 1.5 AS x UNION ALL SELECT 'a', NULL";
    let shown = ok(&run.call(&["query", "--compat", "--query", query]));
    let lines: Vec<&str> = shown.lines().take(3).collect();
    assert_eq!(lines, ["   n    x", "None  1.5", "   a  NaN"]);
    let shown = ok(&run.call(&["query", "--query", query]));
    assert_eq!(shown, "n    x\n   1.5\na\n");
    // A column without name and values is still a column.
    let shown = ok(&run.call(&["query", "--query", "SELECT NULL AS \"\", 15 AS n"]));
    assert_eq!(shown, "   n\n  15\n");
}

#[test]
fn categories_are_listed_without_a_format() {
    let run = Run::new(&Shape::small());
    let listed = ok(&run.call(&["convert", "--list-categories"]));
    assert!(listed.lines().any(|line| line == "RCCL_API"), "{listed}");
    assert_eq!(run.call(&["convert"]).status.code(), Some(2));
}

#[test]
fn recordings_without_records_are_no_errors() {
    let run = Run::new(&Shape {
        steps: 0,
        orphans: false,
        ..two()
    });
    let query = "SELECT * FROM kernels";
    for words in [
        &["info"][..],
        &[
            "summary",
            "-f",
            "csv",
            "-d",
            "out",
            "--domain-summary",
            "--summary-by-rank",
        ],
        &["summary", "-f", "csv", "-d", "out", "--extended"],
        &["query", "--query", query, "--format", "arrow", "-d", "out"],
        &[
            "convert", "-f", "csv", "pftrace", "parquet", "json", "-d", "out",
        ],
        &["merge", "-d", "m"],
        &["merge", "-d", "m", "--reassign-ids"],
    ] {
        ok(&run.call(words));
    }
    // Tables without rows create no files.
    let made = names_in(&run.path("out"));
    let parquet = made.iter().any(|name| name.ends_with(".parquet"));
    assert!(!parquet, "{made:?}");
    assert!(
        !made.contains(&"kernels_summary.csv".to_owned()),
        "{made:?}"
    );
    assert_eq!(names_in(&run.path("m")), ["merged.db"]);
}

#[test]
fn csv_in_both_layouts() {
    let run = Run::new(&two());
    ok(&run.call(&["convert", "-f", "csv", "-d", "out", "-o", "u"]));
    ok(&run.call(&[
        "convert",
        "-f",
        "csv",
        "--csv-layout",
        "classic",
        "-d",
        "out",
        "-o",
        "c",
    ]));
    // A name with a line break makes a row of two lines: rows are counted by their guids.
    let rows = |file: &str| {
        let text = std::fs::read_to_string(run.path(&format!("out/{file}"))).unwrap();
        run.made
            .iter()
            .map(|made| text.matches(made.truth.guid.as_str()).count() as u64)
            .sum::<u64>()
    };
    let sum =
        |get: fn(&rocpd_synth::Truth) -> u64| run.made.iter().map(|m| get(&m.truth)).sum::<u64>();
    let dispatches = sum(|t| t.dispatches);
    assert_eq!(rows("u_kernel_trace.csv"), dispatches);
    assert_eq!(rows("c_kernel_trace.csv"), dispatches);
    // The view `regions` has no instants: they are in a file of their own, which the reference does
    // not write.
    assert_eq!(rows("u_regions_trace.csv"), sum(|t| t.regions));
    assert_eq!(rows("u_samples_trace.csv"), sum(|t| t.samples));
    ok(&run.call(&["convert", "-f", "csv", "--compat", "-d", "out", "-o", "r"]));
    assert_eq!(rows("r_regions_trace.csv"), sum(|t| t.regions));
    assert!(!names_in(&run.path("out")).contains(&"r_samples_trace.csv".to_owned()));
    // With --compat calls have the names of the view; otherwise markers have their messages.
    let text = |file: &str| std::fs::read_to_string(run.path(&format!("out/{file}"))).unwrap();
    let marker = run.made[0].truth.markers.keys().next().unwrap();
    assert!(text("u_regions_trace.csv").contains(&format!(",{marker},")));
    assert!(!text("r_regions_trace.csv").contains(&format!(",{marker},")));
    let markers = sum(|t| t.markers.values().map(|m| m.calls).sum());
    assert_eq!(rows("c_marker_api_trace.csv"), markers);
    let hip = sum(|t| t.domains["HIP"].values().map(|m| m.calls).sum());
    assert_eq!(rows("c_hip_api_trace.csv"), hip);
    assert_eq!(rows("c_agent_info.csv"), 6);
    let text = std::fs::read_to_string(run.path("out/c_kernel_trace.csv")).unwrap();
    assert!(text.starts_with("\"Guid\",\"Kind\",\"Agent_Id\""));
    assert!(text.contains("\"odd \"\"name\"\", with\nnewline"));
    let header = |file: &str| {
        let text = std::fs::read_to_string(run.path(&format!("out/{file}"))).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    // Titles of the newer layout are capitalised words, and only dispatches have a duration.
    assert!(
        header("u_kernel_trace.csv").contains(",Duration,Lds_Block_Size,Scratch_Size,Vgpr_Count,")
    );
    assert!(header("u_memory_copy_trace.csv").ends_with(",Start_Timestamp,End_Timestamp"));
    assert_eq!(header("u_agent_info.csv").matches(",Cap_").count(), 25);
    assert!(header("c_agent_info.csv").contains("\"Capability\""));
    let frees = std::fs::read_to_string(run.path("out/c_memory_allocation_trace.csv")).unwrap();
    let quoted = |line: &&str| line.contains(",\"\"\"\",");
    assert!(frees.lines().any(|line| quoted(&line)));
    for line in frees.lines() {
        assert_eq!(quoted(&line), line.contains("_FREE\""), "{line}");
    }
}

/// A domain becomes part of a file's name, which must stay in the folder.
#[test]
fn domains_lead_to_no_other_folder() {
    let run = Run::new(&two());
    let plain = rusqlite::Connection::open(&run.made[0].path).unwrap();
    let table = format!(
        "\"rocpd_string_{}\"",
        run.made[0].truth.guid.replace('-', "_")
    );
    let long = "x".repeat(400);
    for (from, to) in [("HIP\\_%", "../up/"), ("HSA\\_%", &long)] {
        let sql = format!(
            "UPDATE {table} SET string = ?2 || '_' || string WHERE string LIKE ?1 ESCAPE '\\'"
        );
        assert!(plain.execute(&sql, [from, to]).unwrap() > 0);
    }
    ok(&run.call(&["summary", "-f", "csv", "-d", "a/b"]));
    assert_eq!(names_in(&run.path("a")), ["b"]);
    let made = names_in(&run.path("a/b"));
    assert!(made.contains(&".._up__summary.csv".to_owned()), "{made:?}");
    assert!(
        made.contains(&format!("{}_summary.csv", &long[..120])),
        "{made:?}"
    );
}

#[test]
fn the_databases_of_the_repository_say_what_their_truth_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocpd");
    let query = "SELECT guid, name, COUNT(*) AS calls, SUM(duration) AS total_ns, MIN(duration) AS min_ns, MAX(duration) AS max_ns FROM kernels GROUP BY guid, name";
    let out = tempfile::tempdir().unwrap();
    ok(&call(
        out.path(),
        &[
            "query",
            "-i",
            folder.to_str().unwrap(),
            "--query",
            query,
            "--format",
            "json",
            "-d",
            ".",
        ],
    ));
    let text = std::fs::read_to_string(out.path().join("out.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut truths = 0;
    let mut kernels = 0;
    for name in names_in(&folder) {
        if !name.ends_with(".truth.json") {
            continue;
        }
        let truth = std::fs::read_to_string(folder.join(name)).unwrap();
        let truth: serde_json::Value = serde_json::from_str(&truth).unwrap();
        truths += 1;
        for (name, kernel) in truth["kernels"].as_object().unwrap() {
            let row = rows
                .iter()
                .find(|row| row["guid"] == truth["guid"] && row["name"] == *name)
                .unwrap();
            for key in ["calls", "total_ns", "min_ns", "max_ns"] {
                assert_eq!(row[key], kernel[key], "{name} {key}");
            }
            kernels += 1;
        }
    }
    assert_eq!((truths, kernels), (2, rows.len()));
}

/// Makes a link to the tool under another name.
fn called(name: &str, folder: &std::path::Path) -> std::path::PathBuf {
    let link = folder.join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_rocpd"), &link).unwrap();
    link
}

#[test]
fn other_names_of_the_tool() {
    let run = Run::new(&Shape::small());
    let called = Command::new(called("rocpd2csv", run.folder.path()))
        .current_dir(run.folder.path())
        .args(["-i", "in", "-d", "out", "-o", "x"])
        .output()
        .unwrap();
    ok(&called);
    assert!(run.path("out/x_kernel_trace.csv").is_file());
}

/// A folder of compressed databases is read like one of plain ones, and duplicates count once.
#[test]
fn folders_of_packed_databases() {
    let run = Run::new(&two());
    let plain = ok(&run.call(&["info", "--json"]));
    let pack = |path: &std::path::Path| {
        let packed = path.with_extension("db.xz");
        let mut out = liblzma::write::XzEncoder::new(std::fs::File::create(&packed).unwrap(), 1);
        std::io::copy(&mut std::fs::File::open(path).unwrap(), &mut out).unwrap();
        out.finish().unwrap();
    };
    let [first, second] = run.made.as_slice() else {
        panic!("two databases were asked for");
    };
    pack(&first.path);
    pack(&second.path);
    // Compressed next to plain: nothing is decompressed, nothing is reported.
    let both = run.call(&["info", "--json"]);
    assert_eq!(ok(&both), plain);
    assert!(both.stderr.is_empty());
    std::fs::remove_file(&first.path).unwrap();
    std::fs::remove_file(&second.path).unwrap();
    let packed = ok(&run.call(&["info", "--json"]));
    assert_eq!(packed.replace(".db.xz", ".db"), plain);
}

#[test]
fn other_names_show_themselves_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["rocpd2csv", "rocpd2pftrace", "rocpd2otf2", "rocpd2summary"] {
        let binary = called(name, folder.path());
        let call = |words: &[&str]| {
            let mut command = std::process::Command::new(&binary);
            command
                .current_dir(folder.path())
                .args(words)
                .output()
                .unwrap()
        };
        let help = ok(&call(&["--help"]));
        assert!(
            help.contains(&format!("Usage: {name} [OPTIONS] [FILE]...\n")),
            "{help}"
        );
        // The name implies the format.
        assert!(!help.contains("--output-format"), "{help}");
        // Filters are those of the command, whose help shows them.
        assert!(help.lines().count() <= 80, "{help}");
        assert!(
            !help.contains("--keep-domain") && help.contains("--help\n"),
            "{help}"
        );
        // Options of other formats are not shown.
        assert_eq!(help.contains("--no-flows"), name == "rocpd2pftrace");
        assert_eq!(help.contains("--csv-layout"), name == "rocpd2csv");
        let wrong = call(&["--no-such-option"]);
        assert_eq!(wrong.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(!errors.contains("convert"), "{errors}");
        assert!(ok(&call(&["--version"])).starts_with(name));
    }
}

#[test]
fn info_counts_keys_that_name_nothing() {
    let run = Run::new(&Shape::small());
    let info = |run: &Run| -> serde_json::Value {
        serde_json::from_str(&ok(&run.call(&["info", "--json"]))).unwrap()
    };
    assert_eq!(info(&run)["healthy"], true);
    let made = &run.made[0];
    let plain = rusqlite::Connection::open(&made.path).unwrap();
    plain.pragma_update(None, "foreign_keys", false).unwrap();
    let suffix = made.truth.guid.replace('-', "_");
    let sql = format!("UPDATE \"rocpd_region_{suffix}\" SET tid = 77 WHERE id % 5 = 1");
    let broken = plain.execute(&sql, []).unwrap();
    drop(plain);
    let said = info(&run);
    assert_eq!(said["healthy"], false);
    assert_eq!(said["orphans"].as_array().unwrap().len(), 1);
    let orphans = &said["orphans"][0];
    assert_eq!(orphans["table"], "rocpd_region");
    assert_eq!(orphans["column"], "tid");
    assert_eq!(orphans["rows"], broken);
    let text = ok(&run.call(&["info"]));
    assert!(text.contains("healthy: no\n"), "{text}");
    assert!(
        text.contains(&format!(
            "{broken} rows of rocpd_region name no row of rocpd_info_thread in column tid"
        )),
        "{text}"
    );
}
