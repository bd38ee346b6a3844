//! Conversions and other copies of traces: what is asked of a copy has the answer of the original.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Csv, run, table};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn testdata(name: &str) -> PathBuf {
    Path::new("../../testdata").join(name)
}

/// Runs a command that must succeed; returns standard output and standard error.
fn done(words: &[&str]) -> (String, String) {
    let output = run(words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, errors) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{words:?}: {errors}");
    (out, errors)
}

/// Rows of the main table of an analysis, without the name of the trace and the number of records, which formats count differently.
fn answer(command: &str, trace: &Path) -> Vec<Vec<String>> {
    let (text, _) = done(&[command, trace.to_str().unwrap(), "--format", "csv"]);
    let csv = Csv::parse(&text);
    let left_out = |name: &String| name == "trace" || name == "events_total";
    let kept: Vec<usize> = (0..csv.columns.len())
        .filter(|at| !left_out(&csv.columns[*at]))
        .collect();
    let rows = csv.rows.iter();
    rows.map(|row| kept.iter().map(|at| row[*at].clone()).collect())
        .collect()
}

fn converted(trace: &Path, to: &Path, more: &[&str]) {
    let mut words = vec![
        "convert",
        trace.to_str().unwrap(),
        "-o",
        to.to_str().unwrap(),
    ];
    words.extend(more);
    done(&words);
}

#[test]
fn a_conversion_to_chrome_json_has_the_answers_of_the_original() {
    let folder = folder();
    for name in [
        "demo/demo-rank0.json.gz",
        "perfetto/rocprof.pftrace",
        "kineto/correlation.json",
        "kineto/partial-overlap.json",
    ] {
        let original = testdata(name);
        for to in ["t.json", "t.json.gz"] {
            let copy = folder.path().join(to);
            converted(&original, &copy, &[]);
            for command in ["gpu", "kernels", "launch", "idle"] {
                let (before, after) = (answer(command, &original), answer(command, &copy));
                assert_eq!(before, after, "{command} {name}");
            }
        }
    }
}

/// One export in two formats: the answers are equal, also where processes use the same correlation ids.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn exports_of_nsight_have_the_same_answers_as_chrome_json() {
    let data = test_data::reference("nsys").join("synthetic");
    let folder = folder();
    for (name, file) in [
        ("ranks", "ranks"),
        ("ranks-nomap", "ranks"),
        ("decode-node", "decode"),
        ("old", "old"),
    ] {
        let inside = data.join(name);
        let packed = fs::read_dir(&inside)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().ends_with(".sqlite.xz"))
            .unwrap_or_else(|| panic!("{name} {file}"));
        let copy = folder.path().join(format!("{name}.json.gz"));
        converted(&packed, &copy, &[]);
        for command in ["gpu", "kernels", "launch"] {
            let (before, after) = (answer(command, &packed), answer(command, &copy));
            assert_eq!(before, after, "{command} {name}");
        }
    }
}

/// A host thread with operators, launches and Python frames, and kernels, on a grid of 10 µs.
fn grid(name: &str) -> String {
    let mut events = Vec::new();
    let mut add = |cat: &str, name: &str, pid: i64, tid: i64, ts: i64, dur: i64, args: &str| {
        events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    };
    for i in 0..20 {
        let at = 100 * i;
        let id = format!(r#""correlation":{},"device":0,"stream":7"#, i + 1);
        add(
            "python_function",
            &format!("/Users/secretuser/{name}.py({i}): run"),
            1,
            1,
            at,
            90,
            "",
        );
        add(
            "python_function",
            "idle.py(1): nothing",
            1,
            1,
            at + 60,
            20,
            "",
        );
        add(
            "cpu_op",
            "aten::mm",
            1,
            1,
            at + 10,
            40,
            r#""Input Dims":[[2,2],[2,2]]"#,
        );
        add("cuda_runtime", "cudaLaunchKernel", 1, 1, at + 20, 10, &id);
        add("kernel", "gemm", 0, 7, at + 40, 30, &id);
        add("user_annotation", "secret range", 1, 1, at + 5, 80, "");
    }
    format!(
        r#"{{"host_name":"secrethost","traceName":"/Users/secretuser/t.json","traceEvents":[{},
        {{"ph":"M","name":"process_name","pid":1,"args":{{"name":"secretprocess"}}}}]}}"#,
        events.join(",\n")
    )
}

#[test]
fn a_window_outside_of_the_recording_is_an_error_and_no_copy() {
    let folder = folder();
    let trace = folder.path().join("t.json");
    fs::write(&trace, grid("a")).unwrap();
    let small = folder.path().join("small.json");
    let out = run([
        "slim",
        trace.to_str().unwrap(),
        "--window",
        "900000000..900000001",
        "-o",
        small.to_str().unwrap(),
    ]);
    assert_eq!(out.status.code(), Some(4));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        errors.contains("which lasts from 0 to 1990000 ns"),
        "{errors}"
    );
    assert!(!small.exists());
}

#[test]
fn a_slim_copy_has_the_window_and_nothing_that_was_dropped() {
    let folder = folder();
    let trace = folder.path().join("t.json");
    fs::write(&trace, grid("a")).unwrap();
    let small = folder.path().join("small.json");
    let (_, errors) = done(&[
        "slim",
        trace.to_str().unwrap(),
        "--window",
        "450000..1050000",
        "--drop-args",
        "Input Dims",
        "--launch-stacks",
        "-o",
        small.to_str().unwrap(),
    ]);
    assert!(
        errors.contains("slices in ") && errors.contains("of 120 in "),
        "{errors}"
    );
    let (before, after) = (table(&trace, "slice", &[]), table(&small, "slice", &[]));
    let numbers = |csv: &Csv, column: &str| -> Vec<i64> {
        let column = csv.column(column);
        column.iter().map(|n| n.parse().unwrap()).collect()
    };
    // Brute force: what overlaps the window, without frames that launch nothing; both ends of every launch with one end inside.
    let overlaps = |ts: i64, dur: i64| ts < 1_050_000 && ts + dur > 450_000;
    let mut wanted: Vec<(i64, String)> = Vec::new();
    let rows = numbers(&before, "ts")
        .into_iter()
        .zip(numbers(&before, "dur"));
    for ((ts, dur), name) in rows.zip(before.column("name")) {
        let step = ts / 100_000;
        let has_work =
            overlaps(step * 100_000 + 20_000, 10_000) || overlaps(step * 100_000 + 40_000, 30_000);
        let is_kernel_or_around = !matches!(name, "idle.py(1): nothing" | "secret range");
        let around = name == "secret range" && has_work;
        if name != "idle.py(1): nothing"
            && (overlaps(ts, dur) || (has_work && is_kernel_or_around) || around)
        {
            wanted.push((ts, name.to_owned()));
        }
    }
    let found: Vec<(i64, String)> = numbers(&after, "ts")
        .into_iter()
        .zip(after.column("name"))
        .map(|(ts, name)| (ts, name.to_owned()))
        .collect();
    assert_eq!(found, wanted);
    assert!(
        fs::read_to_string(&small)
            .unwrap()
            .contains("\"correlation\"")
    );
    assert!(!fs::read_to_string(&small).unwrap().contains("Input Dims"));
}

#[test]
fn a_redacted_copy_tells_nothing_and_answers_the_same() {
    let folder = folder();
    let trace = folder.path().join("t.json");
    fs::write(&trace, grid("a")).unwrap();
    for to in ["r.json", "r.pftrace"] {
        let copy = folder.path().join(to);
        converted(&trace, &copy, &["--redact"]);
        let bytes = fs::read(&copy).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("secret") && !text.contains("/home"), "{to}");
        assert!(text.contains("range-1") && text.contains("gemm"), "{to}");
        assert_eq!(answer("gpu", &trace), answer("gpu", &copy), "{to}");
    }
}

#[test]
fn ranks_are_merged_on_one_clock() {
    let folder = folder();
    let ranks = [
        testdata("demo/demo-rank0.json.gz"),
        testdata("demo/demo-rank1.json.gz"),
    ];
    let merged = folder.path().join("job.pftrace");
    let manifest = folder.path().join("perfetto_manifest.json");
    done(&[
        "merge",
        ranks[1].to_str().unwrap(),
        ranks[0].to_str().unwrap(),
        "--align",
        "-o",
        merged.to_str().unwrap(),
        "--manifest",
        manifest.to_str().unwrap(),
    ]);
    let truth = fs::read(testdata("demo/demo-ranks.truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    let ahead = truth["planted"]["clock_offset_ns_rank1"].as_i64().unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    let files = manifest["perfetto_manifest"]["files"].as_array().unwrap();
    assert_eq!(files[0]["path"], "demo-rank0.json.gz");
    assert_eq!(files[1]["clocks"]["sync_to"]["file"], "demo-rank0.json.gz");
    let offset = files[1]["clocks"]["offset_ns"].as_i64().unwrap();
    // Times of a file are without its base time.
    let base = |rank: &Path| {
        let json = folder.path().join("base.json");
        converted(rank, &json, &[]);
        let document: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        document["baseTimeNanoseconds"].as_i64().unwrap()
    };
    let apart = base(&ranks[1]) - base(&ranks[0]);
    assert!(
        (offset - apart + ahead).abs() < 2_000,
        "{offset} {apart} {ahead}"
    );
    // All slices of both, those of the second rank moved.
    let all = table(&merged, "slice", &[]);
    let counts: Vec<usize> = ranks
        .iter()
        .map(|rank| table(rank, "slice", &[]).rows.len())
        .collect();
    assert_eq!(all.rows.len(), counts.iter().sum::<usize>());
    let processes = table(&merged, "process", &[]);
    let names = processes.column("name");
    for rank in ["rank 0: ", "rank 1: "] {
        assert!(names.iter().any(|name| name.starts_with(rank)), "{names:?}");
    }
    // Equal ids of two ranks link nothing: each rank's kernels keep their launches.
    let of = |trace: &Path| {
        let csv = answer("launch", trace);
        csv.len()
    };
    assert!(of(&merged) >= of(&ranks[0]));
    let busy = |trace: &Path| {
        let (text, _) = done(&["kernels", trace.to_str().unwrap(), "--format", "csv"]);
        let csv = Csv::parse(&text);
        let counts = csv.column("count");
        counts
            .iter()
            .map(|n| n.parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!(busy(&merged), busy(&ranks[0]) + busy(&ranks[1]));
}

#[test]
fn a_repaired_copy_nests_and_ends() {
    let folder = folder();
    let trace = folder.path().join("t.json");
    let text = r#"[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":10,"name":"a"},
        {"ph":"X","pid":1,"tid":1,"ts":5,"dur":10,"name":"b"},
        {"ph":"X","pid":1,"tid":2,"ts":0,"dur":20,"name":"outer"},
        {"ph":"B","pid":1,"tid":2,"ts":3,"name":"open"},
        {"ph":"X","pid":1,"tid":3,"ts":1,"dur":"#;
    fs::write(&trace, text).unwrap();
    let copy = folder.path().join("r.json");
    let (_, errors) = done(&[
        "repair",
        trace.to_str().unwrap(),
        "-o",
        copy.to_str().unwrap(),
    ]);
    assert!(errors.contains("1 overlapping slices moved"), "{errors}");
    assert!(errors.contains("1 open slices closed"), "{errors}");
    let slices = table(&copy, "slice", &[]);
    let column = |name: &str| slices.column(name);
    let rows: Vec<String> = column("name")
        .iter()
        .zip(column("ts"))
        .zip(column("dur"))
        .map(|((name, ts), dur)| format!("{name} {ts} {dur}"))
        .collect();
    let mut sorted = rows.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            "a 0 10000",
            "b 5000 10000",
            "open 3000 17000",
            "outer 0 20000"
        ]
    );
    // The overlapping slice is on a thread of its own.
    let document: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&copy).unwrap()).unwrap();
    let tid = |name: &str| {
        let events = document["traceEvents"].as_array().unwrap();
        events.iter().find(|e| e["name"] == name).unwrap()["tid"].clone()
    };
    assert_ne!(tid("a"), tid("b"));
}

#[test]
fn ranks_of_one_file_are_parted() {
    let folder = folder();
    let mut events = Vec::new();
    for rank in 0..2 {
        let (host, device) = (10 + rank, rank);
        for i in 0..=rank {
            let id = 100 * rank + i + 1;
            let at = 100 * i + 7 * rank;
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{host},"tid":{host},"ts":{at},"dur":5,"args":{{"correlation":{id}}}}},
                {{"ph":"X","cat":"kernel","name":"k{rank}","pid":{device},"tid":7,"ts":{},"dur":5,"args":{{"correlation":{id},"device":{device},"stream":7}}}}"#,
                at + 20
            ));
        }
    }
    let trace = folder.path().join("both.json");
    fs::write(&trace, format!("[{}]", events.join(","))).unwrap();
    let parts = folder.path().join("parts");
    done(&[
        "repair",
        trace.to_str().unwrap(),
        "--part-ranks",
        "--to",
        "chrome-json",
        "-o",
        parts.to_str().unwrap(),
    ]);
    for (rank, kernels) in [(0, vec!["k0"]), (1, vec!["k1", "k1"])] {
        let own = parts.join(format!("rank{rank}.json.gz"));
        let csv = table(&own, "slice", &[]);
        let names: Vec<&str> = csv
            .column("name")
            .into_iter()
            .filter(|n| n.starts_with('k'))
            .collect();
        assert_eq!(names, kernels);
        // slim takes the same part.
        let slim = folder.path().join("slim.json");
        let number = rank.to_string();
        done(&[
            "slim",
            trace.to_str().unwrap(),
            "--rank",
            &number,
            "-o",
            slim.to_str().unwrap(),
        ]);
        assert_eq!(table(&slim, "slice", &[]).rows.len(), csv.rows.len());
    }
    let output = run([
        "slim",
        trace.to_str().unwrap(),
        "--rank",
        "2",
        "-o",
        "x.json",
    ]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_copy_of_a_cut_recording_says_that_it_was_cut() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mut whole = grid("k");
    // The last events are cut off.
    whole.truncate(whole.len() - whole.len() / 5);
    fs::write(at("cut.json"), whole).unwrap();
    let said = |trace: &Path| -> (bool, String) {
        let (text, _) = done(&["summary", trace.to_str().unwrap(), "--json"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let trace = &document["traces"][0];
        let reasons = trace["reasons"].to_string();
        (trace["healthy"].as_bool().unwrap(), reasons)
    };
    let (is_healthy, reasons) = said(&at("cut.json"));
    assert!(!is_healthy && reasons.contains("truncated"), "{reasons}");
    for copy in ["copy.json", "copy.pftrace", "copy.json.gz"] {
        converted(&at("cut.json"), &at(copy), &[]);
        let (is_healthy, reasons) = said(&at(copy));
        assert!(
            !is_healthy && reasons.contains("source_incomplete") && reasons.contains("ends early"),
            "{copy}: {reasons}"
        );
        // Commands say it too, and so does a copy of the copy, once.
        let (text, warnings) = done(&["gpu", at(copy).to_str().unwrap(), "--format", "json"]);
        assert!(text.contains("source_incomplete"), "{copy}: {text}");
        assert!(warnings.contains("was incomplete"), "{copy}: {warnings}");
        converted(&at(copy), &at("again.pftrace"), &[]);
        let (_, again) = said(&at("again.pftrace"));
        assert_eq!(again, reasons, "{copy}");
    }
    for command in ["slim", "repair"] {
        let (from, to) = (at("cut.json"), at("other.pftrace"));
        done(&[command, from.to_str().unwrap(), "-o", to.to_str().unwrap()]);
        let (is_healthy, reasons) = said(&to);
        assert!(
            !is_healthy && reasons.contains("ends early"),
            "{command}: {reasons}"
        );
    }
    converted(&testdata("demo/demo-rank0.json.gz"), &at("fine.json"), &[]);
    let (_, reasons) = said(&at("fine.json"));
    assert!(!reasons.contains("source_incomplete"), "{reasons}");
}

#[test]
fn a_manifest_names_only_what_perfetto_opens() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rank = |name: &str, pid: i64| {
        let base = rusqlite::Connection::open(at(name)).unwrap();
        let rows: Vec<String> = (1..20)
            .map(|n| {
                format!(
                    "({}, {}, 0, 1, 7, {n}, {}, 1)",
                    n * 1000,
                    n * 1000 + 400,
                    pid << 24
                )
            })
            .collect();
        base.execute_batch(&format!(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL');
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
             streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {}",
            rows.join(", ")
        ))
        .unwrap();
        at(name)
    };
    let (one, two) = (rank("one.sqlite", 10), rank("two.sqlite", 11));
    let (_, warnings) = done(&["merge", &one, &two, "--manifest", &at("m.json")]);
    assert!(
        warnings.contains("trace-info convert") && warnings.contains("one.sqlite.pftrace"),
        "{warnings}"
    );
    let text = fs::read_to_string(at("m.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let files = manifest["perfetto_manifest"]["files"].as_array().unwrap();
    for (file, name) in files
        .iter()
        .zip(["one.sqlite.pftrace", "two.sqlite.pftrace"])
    {
        assert_eq!(file["path"], name);
    }
    assert_eq!(files[1]["clocks"]["sync_to"]["clock"], "BOOTTIME");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn ranks_of_one_export_are_ranks_of_its_copy() {
    let export = test_data::reference("nsys").join("synthetic/ranks");
    let export = fs::read_dir(export)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".sqlite.xz"))
        .unwrap();
    let folder = folder();
    let unpacked = folder.path().join("job.sqlite");
    let source = byte_source::Source::open(&export, &byte_source::OpenOptions::default()).unwrap();
    let mut file = fs::File::create(&unpacked).unwrap();
    std::io::copy(&mut source.into_read().unwrap(), &mut file).unwrap();
    // What the job says: which rank, how many collectives, who is last, how long it waits.
    let of = |trace: &Path, words: &[&str]| -> Vec<Vec<String>> {
        let (text, _) = done(
            &[
                &[words[0], trace.to_str().unwrap(), "--format", "csv"],
                &words[1..],
            ]
            .concat(),
        );
        let text = text.replace(trace.to_str().unwrap(), "job");
        let csv = Csv::parse(&text);
        let kept: Vec<usize> = (0..csv.columns.len())
            .filter(|at| !["trace", "source", "file"].contains(&csv.columns[*at].as_str()))
            .collect();
        let rows = csv.rows.iter();
        rows.map(|row| kept.iter().map(|at| row[*at].clone()).collect())
            .collect()
    };
    for copy in ["job.json.gz", "job.pftrace"] {
        let copy = folder.path().join(copy);
        converted(&unpacked, &copy, &[]);
        for words in [
            &["comm", "--table", "kernels"][..],
            &["comm", "--table", "ranks"],
        ] {
            let want = of(&unpacked, words);
            assert!(want.len() > 1, "{want:?}");
            assert_eq!(of(&copy, words), want, "{words:?} {}", copy.display());
        }
    }
}
