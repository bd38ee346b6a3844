//! Tests the tool: formats, sources of statements, exit codes; the queries of Perfetto users against the reference tables.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo")
        .join(name)
}

/// Runs the tool; returns the exit code and what it wrote.
fn run(words: &[&str]) -> (u8, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let first = ["sql", "-q", "-o", out.to_str().unwrap()];
    let words = first.iter().chain(words);
    let code = sql::main_from(words.map(OsString::from));
    (code, fs::read(out).unwrap_or_default())
}

fn json(query: &str, path: &Path) -> Vec<Value> {
    let (code, out) = run(&["--json", query, path.to_str().unwrap()]);
    assert_eq!(code, 0, "{query}");
    serde_json::from_slice(&out).unwrap()
}

/// Same as [`json`], of a trace read as Perfetto does.
fn as_perfetto(query: &str, path: &Path) -> Vec<Value> {
    let (code, out) = run(&["--json", "--compat", query, path.to_str().unwrap()]);
    assert_eq!(code, 0, "{query}");
    serde_json::from_slice(&out).unwrap()
}

/// Returns the rank of each file, with a job of so many ranks in it, as a query over all of them has it.
fn ranks(files: &[(&str, Option<u32>)]) -> Vec<Option<i64>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, world_size) in files {
        let job = world_size.map_or(String::new(), |size| {
            format!("\"distributedInfo\":{{\"backend\":\"nccl\",\"world_size\":{size}}},")
        });
        let event = "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2}";
        fs::write(path(name), format!("{{{job}\"traceEvents\":[{event}]}}")).unwrap();
    }
    let paths: Vec<String> = files.iter().map(|(name, _)| path(name)).collect();
    let query = "SELECT rank FROM files ORDER BY file_id";
    let words = ["--json", query]
        .into_iter()
        .chain(paths.iter().map(String::as_str));
    let (code, out) = run(&words.collect::<Vec<_>>());
    assert_eq!(code, 0, "{files:?}");
    let rows: Vec<Value> = serde_json::from_slice(&out).unwrap();
    rows.iter().map(|row| row["rank"].as_i64()).collect()
}

#[test]
fn numbers_in_names_are_ranks_as_in_other_tools() {
    assert_eq!(ranks(&[("rank7.json", Some(8))]), [Some(7)]);
    assert_eq!(ranks(&[("rank9.json", Some(8))]), [None]);
    assert_eq!(
        ranks(&[("rank2.json", Some(2)), ("rank1.json", Some(2))]),
        [None, Some(1)]
    );
    assert_eq!(
        ranks(&[("tp1.json", None), ("tp0.json", None)]),
        [Some(1), Some(0)]
    );
    assert_eq!(
        ranks(&[("llama_tp4.json", None), ("llama_tp8.json", None)]),
        [None, None]
    );
    assert_eq!(
        ranks(&[("llama_tp8.json", Some(8)), ("llama_tp4.json", Some(8))]),
        [None, Some(4)]
    );
}

#[test]
fn every_format_has_the_same_rows() {
    let rank = demo("demo-rank0.json.gz");
    let rank = rank.to_str().unwrap();
    let query = "SELECT name, count(*) AS n FROM kernels GROUP BY name ORDER BY name";
    let csv = String::from_utf8(run(&["--format", "csv", query, rank]).1).unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&run(&["--json", query, rank]).1).unwrap();
    assert_eq!(rows.len(), csv.lines().count() - 1);
    for (row, line) in rows.iter().zip(csv.lines().skip(1)) {
        assert!(line.ends_with(&format!(",{}", row["n"])), "{line}");
    }
    let text = String::from_utf8(run(&["--limit", "2", query, rank]).1).unwrap();
    assert!(text.contains("only the first 2 rows"), "{text}");
    assert_eq!(&run(&["--format", "parquet", query, rank]).1[..4], b"PAR1");
    assert_eq!(&run(&["--format", "arrow", query, rank]).1[..6], b"ARROW1");
    // From a file, with several statements.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("query.sql");
    fs::write(
        &file,
        format!("-- A comment; with a semicolon\nCREATE VIEW v AS {query};\nSELECT * FROM v ORDER BY name;"),
    )
    .unwrap();
    let (code, out) = run(&["--format", "csv", "--file", file.to_str().unwrap(), rank]);
    assert_eq!((code, String::from_utf8(out).unwrap()), (0, csv));
}

#[test]
fn exit_codes_tell_the_cause() {
    let rank = demo("demo-rank0.json.gz");
    let rank = rank.to_str().unwrap();
    assert_eq!(run(&["SELECT nothing FROM slices", rank]).0, 2);
    assert_eq!(run(&["SELECT 1 AS one"]).0, 2);
    assert_eq!(run(&["SHOW TABLES"]).0, 0);
    assert_eq!(
        run(&["SELECT count(*) FROM slices", "no-such-file.json"]).0,
        3
    );
    let (code, out) = run(&[
        "--json",
        "SELECT count(*) AS n FROM files",
        rank,
        "no-such-file.json",
    ]);
    let rows: Vec<Value> = serde_json::from_slice(&out).unwrap();
    assert_eq!((code, &rows[0]["n"]), (3, &Value::from(1)));
    assert_eq!(run(&["SELECT 1 / 0 FROM slices", rank]).0, 4);
    let folder = tempfile::tempdir().unwrap();
    let copied = folder.path().join("k.csv");
    let copy = format!(
        "COPY (SELECT id FROM kernels) TO '{}' STORED AS CSV",
        copied.display()
    );
    assert_eq!(run(&[&copy, rank]).0, 2);
    assert!(!copied.exists());
    assert_eq!(
        run(&[
            &copy,
            rank,
            "--allow-write",
            folder.path().to_str().unwrap()
        ])
        .0,
        0
    );
    assert!(fs::read_to_string(copied).unwrap().lines().count() > 1);
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The three queries of a published stack analyser, as it sends them to Perfetto's trace processor.
struct Analyser<'c> {
    trace: PathBuf,
    case: &'c Value,
}

impl Analyser<'_> {
    fn text(&self, key: &str) -> &str {
        self.case[key].as_str().unwrap_or_default()
    }

    /// Slices that give the window.
    fn windows(&self) -> Vec<(i64, i64)> {
        let name = self.text("function_name");
        let operator = if name.contains('%') { "LIKE" } else { "=" };
        let query = format!(
            "SELECT id, ts, dur, name FROM slice WHERE category IS NOT NULL AND category != 'kernel' AND name {operator} {} ORDER BY ts, id",
            quoted(name)
        );
        let rows = json(&query, &self.trace);
        rows.iter()
            .map(|row| (row["ts"].as_i64().unwrap(), row["dur"].as_i64().unwrap()))
            .collect()
    }

    /// Stacks of the launches in the window, with their counts.
    fn stacks(&self, from: i64, to: i64) -> Vec<(String, i64)> {
        let query = format!(
            "WITH RECURSIVE launches AS (
               SELECT DISTINCT l.id AS id FROM flow f JOIN slice k ON f.slice_in = k.id JOIN slice l ON f.slice_out = l.id
               WHERE k.category = 'kernel' AND k.name = {} AND l.ts > {from} AND l.ts < {to}),
             chain(launch, id, parent_id, name, level) AS (
               SELECT s.id, s.id, s.parent_id, s.name, 0 FROM launches l JOIN slice s ON s.id = l.id
               UNION ALL
               SELECT c.launch, p.id, p.parent_id, RTRIM(p.name, '0123456789'), c.level + 1
               FROM chain c JOIN slice p ON p.id = c.parent_id WHERE c.level < {}),
             stacks AS (SELECT launch, GROUP_CONCAT(name, ' <- ' ORDER BY level) AS stack FROM chain GROUP BY launch)
             SELECT stack, COUNT(*) AS n FROM stacks GROUP BY stack ORDER BY n DESC, stack DESC",
            quoted(self.text("kernel_name")),
            self.case["stack_depth"],
        );
        let rows = json(&query, &self.trace);
        let row = |row: &Value| {
            (
                row["stack"].as_str().unwrap().to_owned(),
                row["n"].as_i64().unwrap(),
            )
        };
        rows.iter().map(row).collect()
    }

    /// Kernels in the window with their counts.
    fn kernels(&self, from: i64, to: i64) -> Vec<(String, i64)> {
        let query = format!(
            "SELECT name, COUNT(*) AS n FROM slice WHERE category = 'kernel' AND ts >= {from} AND ts < {to} GROUP BY name \
             ORDER BY n DESC, name DESC"
        );
        let rows = json(&query, &self.trace);
        let row = |row: &Value| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["n"].as_i64().unwrap(),
            )
        };
        rows.iter().map(row).collect()
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn queries_of_the_stack_analyser_give_its_answers() {
    let folder = test_data::root().join("perfetto");
    let mut compared = 0;
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let is_case =
            file.extension().is_some_and(|end| end == "json") && !file.ends_with("index.json");
        if !is_case {
            continue;
        }
        let case: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let analyser = Analyser {
            trace: folder.join(case["trace"].as_str().unwrap()),
            case: &case,
        };
        let id = &case["id"];
        let (from, dur) = match case["start_ts"].as_i64() {
            Some(start) => (start, case["duration"].as_i64().unwrap()),
            None => {
                let windows = analyser.windows();
                assert_eq!(
                    windows.len() as u64,
                    case["matching_slices"].as_u64().unwrap(),
                    "{id}"
                );
                let Some(window) =
                    windows.get(usize::try_from(case["index"].as_u64().unwrap()).unwrap())
                else {
                    compared += 1;
                    continue;
                };
                // The reference computes with binary64 microseconds: a few nanoseconds.
                let stated = case["window"]["start_ts"].as_i64().unwrap();
                assert!((window.0 - stated).abs() <= 1_000, "{id}");
                *window
            }
        };
        let stacks = analyser.stacks(from, from + dur);
        let expected: Vec<(String, i64)> = case["stacks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|stack| {
                let frames = stack["frames_leaf_first"].as_array().unwrap();
                let frames: Vec<&str> =
                    frames.iter().map(|frame| frame.as_str().unwrap()).collect();
                (frames.join(" <- "), stack["count"].as_i64().unwrap())
            })
            .collect();
        assert_eq!(stacks, expected, "{id}");
        if let Some(kernels) = case["kernels_in_window"].as_u64() {
            assert_eq!(
                analyser.kernels(from, from + dur).len() as u64,
                kernels,
                "{id}"
            );
        }
        compared += 1;
    }
    assert!(compared > 20);
}

/// Returns the rows of a reference table, by column.
fn reference(folder: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let plain = folder.join(format!("{name}.csv"));
    let path = if plain.is_file() {
        plain
    } else {
        folder.join(format!("{name}.csv.gz"))
    };
    let source = byte_source::Source::open(&path, &byte_source::OpenOptions::default()).unwrap();
    let mut reader = csv::Reader::from_reader(source.into_read().unwrap());
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn plain_queries_count_as_the_reference_tables() {
    let folder = test_data::root().join("perfetto");
    let mut compared = 0;
    for trace in [
        "b200_vllm_eager.json.gz",
        "hta_nccl_data.json.gz",
        "mi300_resnet_act_checkpoint.json.gz",
        "sglang_Qwen3-8B_decode.json.gz",
    ] {
        let (path, golden) = (
            folder.join("traces").join(trace),
            folder.join("golden").join(trace),
        );
        let slices = reference(&golden, "slices");
        let null = |text: &str| match text {
            "\\N" => String::new(),
            text => text.to_owned(),
        };
        let mut counts: BTreeMap<(String, String, String), i64> = BTreeMap::new();
        for row in &slices {
            *counts
                .entry((null(&row["cat"]), null(&row["name"]), row["depth"].clone()))
                .or_default() += 1;
        }
        let query =
            "SELECT category, name, depth, COUNT(*) AS n FROM slice GROUP BY category, name, depth";
        let found: BTreeMap<(String, String, String), i64> = as_perfetto(query, &path)
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                (
                    (text("category"), text("name"), row["depth"].to_string()),
                    row["n"].as_i64().unwrap(),
                )
            })
            .collect();
        assert_eq!(found, counts, "{trace}");
        let one = |query: &str| as_perfetto(query, &path)[0]["n"].as_i64().unwrap();
        assert_eq!(
            one("SELECT COUNT(*) AS n FROM flow"),
            reference(&golden, "flows").len() as i64,
            "{trace}"
        );
        assert_eq!(
            one("SELECT COUNT(*) AS n FROM counter"),
            reference(&golden, "counters").len() as i64,
            "{trace}"
        );
        // Arrows by the names of their ends, through two joins.
        let mut arrows: BTreeMap<(String, String), i64> = BTreeMap::new();
        for row in reference(&golden, "flows") {
            *arrows
                .entry((null(&row["out_name"]), null(&row["in_name"])))
                .or_default() += 1;
        }
        let query = "SELECT o.name AS out_name, i.name AS in_name, COUNT(*) AS n FROM flow JOIN slice o ON flow.slice_out = o.id \
                     JOIN slice i ON flow.slice_in = i.id GROUP BY 1, 2";
        let found: BTreeMap<(String, String), i64> = as_perfetto(query, &path)
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                (
                    (text("out_name"), text("in_name")),
                    row["n"].as_i64().unwrap(),
                )
            })
            .collect();
        assert_eq!(found, arrows, "{trace}");
        // Slices by thread and process, through tracks.
        let mut threads: BTreeMap<(String, String), i64> = BTreeMap::new();
        for row in slices
            .iter()
            .filter(|row| row["track_type"].starts_with("thread_"))
        {
            *threads
                .entry((null(&row["pid"]), null(&row["tid"])))
                .or_default() += 1;
        }
        let query = "SELECT p.pid AS pid, t.tid AS tid, COUNT(*) AS n FROM slice s JOIN thread_track tt ON s.track_id = tt.id \
                     JOIN thread t USING (utid) LEFT JOIN process p USING (upid) GROUP BY p.pid, t.tid";
        let total: i64 = as_perfetto(query, &path)
            .iter()
            .map(|row| row["n"].as_i64().unwrap())
            .sum();
        assert_eq!(total, threads.values().sum::<i64>(), "{trace}");
        compared += 1;
    }
    assert_eq!(compared, 4);
}

/// Exports files as the tool does.
fn exported(paths: &[PathBuf], folder: &Path) {
    struct Reader<'a>(&'a [PathBuf]);
    impl trace_dataset::Reader for Reader<'_> {
        fn open(
            &self,
            place: usize,
            file_id: u32,
            _: &trace_tables::catalogue::ArgKeys,
        ) -> Result<trace_tables::Recording, String> {
            let path = &self.0[place];
            let input = cli::InputArgs::default();
            let read = trace_input::read(path, &input, cli::VerbosityArgs::default(), |options| {
                options.args = perfetto_reader::ArgPolicy::All;
            });
            let read = read.map_err(|error| format!("{error:#}"))?;
            Ok(trace_tables::Recording::new(
                file_id,
                &path.display().to_string(),
                read.trace,
            ))
        }
    }
    let inputs: Vec<trace_dataset::Input> = paths
        .iter()
        .map(|path| trace_dataset::Input {
            name: path.display().to_string(),
            path: Some(path.clone()).filter(|path| path.is_file()),
            tag: None,
        })
        .collect();
    let options = trace_dataset::Export {
        folder,
        tables: trace_tables::catalogue::TABLES.iter().collect(),
        tool_version: "0",
        rules: None,
        threads: 1,
    };
    trace_dataset::export(&inputs, &Reader(paths), &options).unwrap();
}

#[test]
fn a_data_set_answers_as_the_recordings_do_and_names_lost_parts() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("data");
    let missing = folder.path().join("missing.json");
    let paths = [
        demo("demo-rank0.json.gz"),
        missing.clone(),
        demo("demo-rank1.json.gz"),
    ];
    exported(&paths, &set);
    let both = |query: &str| {
        let mut words = vec!["--format", "csv", query];
        words.extend(paths.iter().map(|path| path.to_str().unwrap()));
        let recordings = run(&words);
        let stored = run(&["--format", "csv", query, set.to_str().unwrap()]);
        assert_eq!((recordings.0, stored.0), (3, 0), "{query}");
        let text = String::from_utf8(recordings.1).unwrap();
        assert_eq!(text, String::from_utf8(stored.1).unwrap(), "{query}");
        text
    };
    let streams = both(
        "SELECT extract_arg(arg_set_id, 'args.stream') AS s, sum(extract_arg_int(arg_set_id, 'correlation')) AS c, \
         count(*) AS n FROM slice GROUP BY 1 ORDER BY s",
    );
    assert!(streams.lines().count() > 2, "{streams}");
    let (_, id) = run(&[
        "--format",
        "csv",
        "SELECT max(id) AS id FROM slices WHERE depth = 2 AND rank = 1",
        set.to_str().unwrap(),
    ]);
    let id = String::from_utf8(id)
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    let up = both(&format!(
        "SELECT id, name, depth FROM ancestor_slice({id}) ORDER BY id"
    ));
    assert_eq!(up.lines().count(), 3, "{up}");
    let root = up.lines().nth(1).unwrap().split(',').next().unwrap();
    let down = both(&format!(
        "SELECT count(*) AS n, max(id) AS last FROM descendant_slice({root})"
    ));
    assert!(!down.contains("\n0,"), "{down}");
    let failures = both("SELECT file_id, file FROM failures");
    assert!(failures.contains("missing.json"), "{failures}");
    // A part that is missing, and one that is cut: the others answer, and the exit code tells.
    let part = |rank: u32, number: u32| {
        set.join(format!(
            "table=kernels/run=demo/rank={rank}/part-{number:06}.parquet"
        ))
    };
    let count = || {
        let (code, out) = run(&[
            "--json",
            "SELECT rank, count(*) AS n FROM kernels GROUP BY rank",
            set.to_str().unwrap(),
        ]);
        let rows: Vec<Value> = serde_json::from_slice(&out).unwrap();
        (
            code,
            rows.iter()
                .map(|row| row["rank"].as_i64().unwrap())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(count().0, 0);
    let whole = fs::read(part(1, 2)).unwrap();
    fs::write(part(1, 2), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(count(), (3, vec![0]));
    fs::remove_file(part(1, 2)).unwrap();
    assert_eq!(count(), (3, vec![0]));
    // Repeating the export repairs it.
    exported(&paths, &set);
    assert_eq!(count().0, 0);
    assert_eq!(fs::read(part(1, 2)).unwrap().len(), whole.len());
    // A data set of another version is refused.
    let manifest = set.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let version = trace_tables::catalogue::CATALOGUE_VERSION.to_string();
    fs::write(
        &manifest,
        text.replacen(&format!("\"{version}\""), "\"9.0\"", 1),
    )
    .unwrap();
    assert_eq!(run(&["SELECT 1 AS one", set.to_str().unwrap()]).0, 3);
}

#[test]
fn folders_of_one_name_are_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["d1/out", "d2/out"]
        .iter()
        .map(|name| {
            let own = folder.path().join(name);
            fs::create_dir_all(&own).unwrap();
            fs::copy(demo("demo-rank0.json.gz"), own.join("r.json.gz")).unwrap();
            own
        })
        .collect();
    let mut words = vec![
        "--format",
        "csv",
        "SELECT DISTINCT run FROM files ORDER BY run",
    ];
    words.extend(paths.iter().map(|path| path.to_str().unwrap()));
    let (code, out) = run(&words);
    assert_eq!(
        (code, String::from_utf8(out).unwrap().as_str()),
        (0, "run\nd1/out\nd2/out\n")
    );
}

#[test]
fn what_is_missing_of_a_file_is_said() {
    let text = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_inferscope-sql"))
            .args(words)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let cut = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kineto/truncated.json");
    let (code, err) = text(&["SELECT count(*) AS n FROM slice", cut.to_str().unwrap()]);
    assert!(code == Some(0) && err.contains("truncated.json"), "{err}");
    let (code, err) = text(&["SELECT 1 AS one", "no-such-file.json"]);
    assert!(
        code == Some(3) && err.contains("no-such-file.json: no such file"),
        "{err}"
    );
}

#[test]
fn classes_are_those_of_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("own.rules");
    fs::write(&rules, "kernel moe nvjet_*\n").unwrap();
    let (rank, rules) = (demo("demo-rank0.json.gz"), rules.to_str().unwrap());
    let rank = rank.to_str().unwrap();
    let query = "SELECT DISTINCT name, class FROM kernels ORDER BY name";
    let (code, out) = run(&["--json", "--classes", rules, query, rank]);
    assert_eq!(code, 0);
    let own: Vec<Value> = serde_json::from_slice(&out).unwrap();
    let built_in = json(query, Path::new(rank));
    let mut changed = 0;
    for (own, built_in) in own.iter().zip(&built_in) {
        let name = own["name"].as_str().unwrap();
        assert_eq!(own["name"], built_in["name"]);
        match name.contains("nvjet_") {
            true => assert_eq!(own["class"], "moe", "{name}"),
            false => assert_eq!(own["class"], built_in["class"], "{name}"),
        }
        changed += usize::from(own["class"] != built_in["class"]);
    }
    assert!(changed > 0 && own.len() == built_in.len(), "{own:?}");
    // What was exported has its classes already.
    let data = folder.path().join("data");
    let options = trace_dataset::Export {
        folder: &data,
        tables: Vec::new(),
        tool_version: "0",
        rules: None,
        threads: 1,
    };
    let reader = Nothing;
    trace_dataset::export(&[], &reader, &options).unwrap();
    let data = data.to_str().unwrap();
    assert_eq!(run(&["--classes", rules, query, data]).0, 2);
}

/// Reads no recording.
struct Nothing;

impl trace_dataset::Reader for Nothing {
    fn open(
        &self,
        _: usize,
        _: u32,
        _: &trace_tables::catalogue::ArgKeys,
    ) -> Result<trace_tables::Recording, String> {
        Err("nothing is there".to_owned())
    }
}
