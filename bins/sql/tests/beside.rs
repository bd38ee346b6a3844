//! Tests the tables beside those of recordings: findings, logs, and tables of databases, against what makes or holds them.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata")
        .join(name)
}

/// Runs a query; returns the exit code and what was written.
fn run(format: &str, query: &str, paths: &[&Path]) -> (u8, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut words: Vec<OsString> = ["sql", "-q", "--format", format, "-o"]
        .map(OsString::from)
        .to_vec();
    words.extend([out.clone().into_os_string(), query.into()]);
    words.extend(paths.iter().map(OsString::from));
    let code = sql::main_from(words);
    (code, fs::read_to_string(out).unwrap_or_default())
}

fn rows(query: &str, paths: &[&Path]) -> Vec<Value> {
    let (code, text) = run("json", query, paths);
    assert_eq!(code, 0, "{query}");
    serde_json::from_str(&text).unwrap()
}

fn csv(query: &str, paths: &[&Path]) -> String {
    let (code, text) = run("csv", query, paths);
    assert_eq!(code, 0, "{query}");
    text
}

#[test]
fn findings_are_those_of_why() {
    let folder = data("demo");
    let paths = [folder.as_path()];
    let question = why_input::Question::of(
        vec![folder.clone()],
        cli::InputArgs::default(),
        cli::VerbosityArgs::default(),
    );
    let document = why_input::answer(&question, String::new()).unwrap();
    let document = serde_json::to_value(&document).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let found = rows("SELECT * FROM findings", &paths);
    assert!(found.len() == findings.len() && found.len() > 2);
    for (position, (row, finding)) in (1..).zip(found.iter().zip(findings)) {
        assert_eq!(row["position"], Value::from(position));
        for key in [
            "id",
            "kind",
            "title",
            "confidence",
            "cost_ns_total",
            "of_steps",
            "share_pct",
            "is_gain_known",
            "gain_ceiling_ns_per_step",
            "gain_pct",
            "refute",
        ] {
            let same = match (row[key].as_f64(), finding[key].as_f64()) {
                (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
                _ => row[key] == finding[key],
            };
            assert!(same, "{key}: {} {}", row[key], finding[key]);
        }
        for key in ["side", "rank", "device", "phase", "step_count", "name"] {
            assert_eq!(row[key], finding["where"][key], "{key}");
        }
        for key in ["cost_ns_per_step", "cost_ns_per_affected_step"] {
            assert_eq!(row[key], finding[key]["median"]);
            assert_eq!(row[&format!("{key}_low")], finding[key]["low"]);
            assert_eq!(row[&format!("{key}_high")], finding[key]["high"]);
        }
        assert_eq!(row["step"], finding["where"]["steps"][0]);
        assert_eq!(row["remedy"], finding["remedy"]["text"]);
        assert_eq!(row["command"], finding["commands"][0]);
    }
    // Its slices are those of the other tables.
    let joined = rows(
        "SELECT f.id, s.name, f.start_ns, s.ts, f.file_id, s.file_id AS of_slice FROM findings f \
         JOIN slices s ON f.slice_id = s.id",
        &paths,
    );
    let placed = found.iter().filter(|row| !row["slice_id"].is_null());
    assert_eq!(joined.len(), placed.count());
    assert!(!joined.is_empty());
    for row in &joined {
        assert_eq!(row["file_id"], row["of_slice"]);
        let evidence = findings.iter().find(|finding| finding["id"] == row["id"]);
        let evidence = evidence.unwrap()["evidence"].as_array().unwrap();
        assert!(evidence.iter().any(|of| of["name"] == row["name"]), "{row}");
    }
    let steps = rows(
        "SELECT f.id FROM findings f JOIN steps s ON f.file_id = s.file_id AND f.step = s.step",
        &paths,
    );
    assert!(!steps.is_empty());
}

/// A value of SQLite as the JSON of a row has it.
fn shown(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => value.into(),
        ValueRef::Real(value) => value.into(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into(),
        ValueRef::Blob(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            digits.into()
        }
    }
}

/// Returns the rows of a table as SQLite reads them.
fn by_sqlite(file: &Path, table: &str) -> Vec<BTreeMap<String, Value>> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = rusqlite::Connection::open_with_flags(file, flags).unwrap();
    let query = format!("SELECT * FROM \"{table}\" ORDER BY rowid");
    let mut statement = database.prepare(&query).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([]).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = names.iter().enumerate();
        let cells = cells.map(|(at, name)| (name.clone(), shown(row.get_ref(at).unwrap())));
        out.push(cells.collect());
    }
    out
}

/// Checks that a table has the rows of the file, all values included.
fn is_as_in_sqlite(table: &str, shown: &str, file: &Path) -> usize {
    let expected = by_sqlite(file, table);
    let found = rows(&format!("SELECT * FROM \"{shown}\""), &[file]);
    assert_eq!(found.len(), expected.len(), "{table}");
    for (row, values) in found.iter().zip(&expected) {
        assert_eq!(row["file"], Value::from(file.display().to_string()));
        for (name, value) in values {
            let own = &row[name];
            let same = match (own, value) {
                // Types are joined: whole numbers of a column of reals, numbers of a column of texts.
                (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
                (Value::String(a), Value::Number(b)) => *a == b.to_string(),
                (a, b) => a == b,
            };
            assert!(same, "{table}.{name}: {own} instead of {value}");
        }
    }
    found.len()
}

/// Writes an export of Nsight Systems with values of all kinds, and with what nobody may see.
fn nsight(file: &Path, extra: &str) {
    let database = rusqlite::Connection::open(file).unwrap();
    database
        .execute_batch(&format!(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
               correlationId INTEGER, globalPid INTEGER, shortName INTEGER, demangledName INTEGER{extra});
             CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER,
               binaryData BLOB, anything, half REAL);
             CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
             CREATE TABLE ProcessStreams (globalPid INTEGER, contentId INTEGER);
             CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
             INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'void gemm<8>()'), (3, 'API_KEY=secret'), (9, 'step');
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName, demangledName)
               VALUES (1000, 2000, 0, 7, 11, 281479271677952, 1, 2), (3000, 4000, 0, 7, 12, 281479271677952, 1, 2);
             INSERT INTO NVTX_EVENTS VALUES
               (500, 5000, 'a', NULL, 281479271677953, x'00ff10', 1, 1), (600, NULL, CAST(x'61ff62' AS TEXT), 9, 281479271677953, NULL, 'x', 2.5),
               (-9223372036854775808, 9223372036854775807, NULL, NULL, NULL, x'', 2.5, NULL);
             INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'API_KEY=secret');
             INSERT INTO ProcessStreams VALUES (1, 3);
             INSERT INTO PROCESSES VALUES (281479271677952, 4, '/usr/bin/python3');"
        ))
        .unwrap();
}

#[test]
fn tables_of_nsight_systems_are_as_in_the_file_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sqlite");
    nsight(&file, "");
    let paths = [file.as_path()];
    for table in ["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"] {
        assert!(is_as_in_sqlite(table, table, &file) > 1);
    }
    // Names need no quotes, in any case; those with quotes are as they are written.
    let query = "SELECT s.value AS name, CORRELATIONID, count(*) AS n FROM cupti_activity_kind_kernel k JOIN StringIds s \
                 ON s.id = k.demangledName WHERE correlationid > 11 GROUP BY s.value, correlationId";
    let found = rows(query, &paths);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["name"], "void gemm<8>()");
    assert_eq!(found[0]["correlationId"], 12);
    let quoted = "SELECT \"correlationid\" FROM \"CUPTI_ACTIVITY_KIND_KERNEL\"";
    assert_eq!(run("csv", quoted, &paths).0, 2);
    // Our own tables beside them.
    assert_eq!(csv("SELECT count(*) AS n FROM kernels", &paths), "n\n2\n");
    let both = "SELECT k.name, n.text FROM kernels k JOIN NVTX_EVENTS n ON n.textId IS NULL AND n.start = 500";
    assert_eq!(rows(both, &paths).len(), 2);
    let tables = csv("SHOW TABLES", &paths);
    assert!(tables.contains("\nNVTX_EVENTS,table,"), "{tables}");
    let columns = csv("DESCRIBE NVTX_EVENTS", &paths);
    for line in [
        "file,VARCHAR",
        "start,BIGINT",
        "text,VARCHAR",
        "binaryData,BYTEA",
        "anything,VARCHAR",
        "half,DOUBLE",
    ] {
        assert!(columns.contains(line), "{columns}");
    }
    // What nobody may see.
    for table in ["META_DATA_CAPTURE", "ProcessStreams"] {
        assert!(!tables.contains(table), "{tables}");
        let query = format!("SELECT * FROM \"{table}\"");
        assert_eq!(run("csv", &query, &paths).0, 3, "{table}");
    }
    let strings = csv("SELECT id, value FROM StringIds", &paths);
    assert_eq!(strings, "id,value\n1,gemm\n2,void gemm<8>()\n9,step\n");
    // The id is not asked for, and still decides.
    assert_eq!(
        csv("SELECT value FROM StringIds", &paths).lines().count(),
        4
    );
    let names = csv("SELECT pid, name FROM \"PROCESSES\"", &paths);
    assert_eq!(names, "pid,name\n4,python3\n");
}

#[test]
fn rows_of_several_databases_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (
        folder.path().join("a.sqlite"),
        folder.path().join("b.sqlite"),
    );
    nsight(&first, "");
    nsight(&second, ", gridX INTEGER DEFAULT 5");
    for paths in [[&first, &second], [&second, &first]] {
        let paths = paths.map(PathBuf::as_path);
        let found = rows(
            "SELECT file, start, gridX FROM CUPTI_ACTIVITY_KIND_KERNEL",
            &paths,
        );
        let expected: Vec<(String, i64)> = paths
            .iter()
            .flat_map(|path| [1000, 3000].map(|start| (path.display().to_string(), start)))
            .collect();
        let order: Vec<(String, i64)> = found
            .iter()
            .map(|row| {
                (
                    row["file"].as_str().unwrap().to_owned(),
                    row["start"].as_i64().unwrap(),
                )
            })
            .collect();
        assert_eq!(order, expected);
        for row in &found {
            let grid = match row["file"].as_str().unwrap().ends_with("b.sqlite") {
                true => Value::from(5),
                false => Value::Null,
            };
            assert_eq!(row["gridX"], grid);
        }
    }
    let limited = rows("SELECT start FROM NVTX_EVENTS LIMIT 1", &[&first, &second]);
    assert_eq!(limited.len(), 1);
}

#[test]
fn tables_and_views_of_rocpd_are_as_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small()).unwrap();
    assert!(!made.is_empty());
    let mut files: Vec<PathBuf> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "db"))
        .collect();
    files.sort();
    let file = &files[0];
    let database = rusqlite::Connection::open(file).unwrap();
    let query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_kernel_dispatch%'";
    let table: String = database.query_row(query, [], |row| row.get(0)).unwrap();
    let suffix = table.strip_prefix("rocpd_kernel_dispatch").unwrap();
    let mut compared = 0;
    for base in [
        "rocpd_kernel_dispatch",
        "rocpd_string",
        "rocpd_event",
        "rocpd_region",
        "rocpd_info_agent",
        "rocpd_arg",
    ] {
        compared += is_as_in_sqlite(&format!("{base}{suffix}"), base, file);
    }
    assert!(compared > 100, "{compared}");
    // `kernels` is ours, and that of rocPD has its name in front.
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let count = |query: &str| rows(query, &paths)[0]["n"].as_i64().unwrap();
    let dispatches = count("SELECT count(*) AS n FROM rocpd_kernel_dispatch");
    assert!(dispatches > 10);
    let joined = count("SELECT count(*) AS n FROM rocpd_kernels");
    assert!(joined > 10 && joined <= dispatches);
    // Each row of the view is a dispatch of its file.
    let same = "SELECT count(*) AS n FROM rocpd_kernels v JOIN rocpd_kernel_dispatch d ON v.file = d.file AND v.guid = d.guid \
                AND v.id = d.id AND v.start = d.start AND v.duration = d.\"end\" - d.start";
    assert_eq!(count(same), joined);
    // And all of them are our kernels.
    let times = "SELECT count(DISTINCT k.id) AS n FROM rocpd_kernels v JOIN kernels k ON v.start = k.ts AND v.duration = k.dur AND v.name = k.name";
    assert_eq!(count(times), joined);
    let tables = csv("SHOW TABLES", &paths);
    assert!(tables.contains("\nrocpd_kernels,") && tables.contains("\nmemory_copies,"));
    let columns = csv("DESCRIBE rocpd_info_process", &paths);
    assert!(
        columns.contains("\ncommand,") && !columns.contains("environment"),
        "{columns}"
    );
}

#[test]
fn events_of_a_block_log_are_those_of_the_instrument() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "offload.events.txt",
        "offload.blkparse.txt",
        "offload.blktrace.0",
        "offload.perf.txt",
    ] {
        let log = data("blkio").join(name);
        let table = folder.path().join("events.csv");
        let read = blkio_parser::pipeline::ReadOptions::default();
        blkio_report::event_table::write_events(std::slice::from_ref(&log), &read, &table).unwrap();
        let expected = fs::read_to_string(&table).unwrap();
        let columns = expected.lines().next().unwrap();
        let found = csv(&format!("SELECT {columns} FROM block_events"), &[&log]);
        assert!(found.lines().count() > 10);
        assert_eq!(found, expected, "{name}");
        let file = csv("SELECT DISTINCT file FROM block_events", &[&log]);
        assert!(file.contains(name), "{file}");
    }
}

#[test]
fn requests_of_a_block_log_have_the_latencies_of_the_statistics() {
    for name in [
        "offload.events.txt",
        "offload.blkparse.txt",
        "offload.blktrace.0",
    ] {
        let log = data("blkio").join(name);
        let options = blkio_parser::StatsOptions::default();
        let stats = blkio_parser::Stats::of_files(std::slice::from_ref(&log), &options).unwrap();
        let mut pairs = stats.newest.unwrap();
        let found = rows("SELECT * FROM block_requests", &[&log]);
        assert_eq!(found.len() as u64, pairs.matching.pairs, "{name}");
        for direction in [
            blkio_parser::Direction::Read,
            blkio_parser::Direction::Write,
        ] {
            let own = found
                .iter()
                .filter(|row| row["direction"] == direction.name());
            let mut latencies: Vec<u64> =
                own.map(|row| row["latency_ns"].as_u64().unwrap()).collect();
            latencies.sort_unstable();
            let stated = &mut pairs.latency[direction.slot()];
            assert!(!latencies.is_empty());
            assert_eq!(latencies.last(), Some(&stated.max), "{name}");
            assert_eq!(
                latencies.iter().sum::<u64>(),
                u64::try_from(stated.sum).unwrap()
            );
            let median = stated.percentiles(&[50.0])[0];
            assert!(latencies.contains(&median), "{name}");
        }
        for row in &found {
            let int = |key: &str| row[key].as_u64().unwrap();
            assert_eq!(int("complete_ns") - int("issue_ns"), int("latency_ns"));
            assert_eq!(int("sector") * 512, int("offset_bytes"));
        }
    }
}

#[test]
fn requests_are_paired_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("events.txt");
    // A read; a write that completes in two parts; a read that the driver gives back and takes again; one that never ends.
    fs::write(
        &log,
        "# blkio-events 1\n\
         I, 1000000, 0, 259, 0, R, 4096, 128, 8, 0, 77, engine\n\
         I, 1100000, 0, 259, 0, W, 8192, 1024, 16, 0, 78, writer\n\
         C, 1200000, 0, 259, 0, W, 4096, 1024, 8, 0, 0, swapper\n\
         C, 1250000, 0, 259, 0, R, 4096, 128, 8, 0, 0, swapper\n\
         C, 1300000, 0, 259, 0, W, 4096, 1032, 8, 0, 0, swapper\n\
         I, 1400000, 0, 259, 0, R, 4096, 4096, 8, 0, 77, engine\n",
    )
    .unwrap();
    let columns = "operation, direction, issue_ns, complete_ns, latency_ns, sector, offset_bytes, size_bytes, pid, command, queue_ns";
    let found = csv(&format!("SELECT {columns} FROM block_requests"), &[&log]);
    assert_eq!(
        found.lines().skip(1).collect::<Vec<_>>(),
        [
            "R,read,1000000,1250000,250000,128,65536,4096,77,engine,",
            "W,write,1100000,1300000,200000,1024,524288,8192,78,writer,",
        ]
    );
}

#[test]
fn accesses_are_the_labelled_rows_of_the_instrument() {
    let capture = data("memtrace/mapped.perf.txt");
    let mut names = memtrace_labeller::Names::new();
    let mut options = memtrace_labeller::InputOptions::default();
    options.run_id = memtrace_run::run_name(&capture);
    let open = byte_source::OpenOptions::default();
    let stream = memtrace_labeller::RowStream::open_path(&capture, &open, &options).unwrap();
    let mut steps = memtrace_run::Steps::default();
    steps.label = Some(memtrace_labeller::LabelOptions::native());
    steps.infer_kv_blocks = true;
    struct Lines(Vec<u8>);
    impl memtrace_run::RowOutput for Lines {
        fn rows(
            &mut self,
            rows: &[memtrace_labeller::Access],
            names: &memtrace_labeller::Names,
        ) -> memtrace_run::Result<()> {
            for row in rows {
                memtrace_labeller::push_csv_row(row, names, true, &mut self.0);
            }
            Ok(())
        }
    }
    let mut lines = Lines(memtrace_labeller::csv_header(true).into_bytes());
    names = memtrace_run::process(stream, names, steps, Some(&mut lines))
        .unwrap()
        .names;
    drop(names);
    let expected = String::from_utf8(lines.0).unwrap();
    let columns = expected.lines().next().unwrap();
    let found = csv(&format!("SELECT {columns} FROM accesses"), &[&capture]);
    assert!(found.lines().count() > 10);
    for (line, own) in expected.lines().zip(found.lines()) {
        assert_eq!(own, line);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn logs_are_found_in_folders_beside_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::copy(data("demo/demo-rank0.json.gz"), at("rank0.json.gz")).unwrap();
    fs::copy(data("blkio/offload.events.txt"), at("disk.txt")).unwrap();
    fs::copy(data("memtrace/mapped.perf.txt"), at("memory.txt")).unwrap();
    fs::write(at("notes.txt"), "Nothing to see here.\n").unwrap();
    let query = "SELECT (SELECT count(*) FROM kernels) AS k, (SELECT count(*) FROM block_requests) AS b, \
                 (SELECT count(*) FROM accesses) AS a, (SELECT count(*) FROM files) AS f";
    let found = &rows(query, &[folder.path()])[0];
    for key in ["k", "b", "a"] {
        assert!(found[key].as_i64().unwrap() > 0, "{found}");
    }
    assert_eq!(found["f"], 1);
    // Logs alone are enough, and without logs the tables are empty.
    fs::remove_file(at("rank0.json.gz")).unwrap();
    let alone = &rows("SELECT count(*) AS n FROM block_requests", &[folder.path()])[0];
    assert_eq!(alone["n"], found["b"]);
    let rank = data("demo/demo-rank0.json.gz");
    for table in ["block_requests", "block_events", "accesses"] {
        let none = csv(&format!("SELECT count(*) AS n FROM {table}"), &[&rank]);
        assert_eq!(none, "n\n0\n");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn parts_of_a_recording_by_processor_are_one_log() {
    let folder = test_data::root().join("blkio/real/multi-e");
    // blkparse has put them together.
    let whole = rows(
        "SELECT * EXCEPT (file) FROM block_requests",
        &[&folder.join("blkparse.txt.gz")],
    );
    let parts = [0, 1].map(|part| folder.join(format!("blk.blktrace.{part}.gz")));
    let scratch = tempfile::tempdir().unwrap();
    for part in &parts {
        fs::copy(part, scratch.path().join(part.file_name().unwrap())).unwrap();
    }
    let query = "SELECT * EXCEPT (file) FROM block_requests";
    let named = rows(query, &[&parts[0], &parts[1]]);
    assert_eq!(rows(query, &[scratch.path()]), named);
    assert!(whole.len() > 1000 && named.len() == whole.len());
    for (one, other) in named.iter().zip(&whole) {
        for key in ["sector", "size_bytes", "operation", "pid", "command"] {
            assert_eq!(one[key], other[key], "{key}");
        }
        let ns = |row: &Value| row["latency_ns"].as_i64().unwrap();
        // blkparse prints nanoseconds of the same clock.
        assert_eq!(ns(one), ns(other));
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_table_of_reference_exports_is_as_in_the_file() {
    let mut folders = vec![test_data::root().join("nsys/synthetic")];
    let scratch = tempfile::tempdir().unwrap();
    let mut compared = 0;
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_export = path.to_string_lossy().ends_with(".sqlite.xz");
            if !is_export || path.metadata().unwrap().len() > 1 << 20 || compared > 60 {
                continue;
            }
            let plain = scratch.path().join("plain.sqlite");
            let source = byte_source::Source::open(&path, &byte_source::OpenOptions::default());
            let mut reader = source.unwrap().into_read().unwrap();
            std::io::copy(&mut reader, &mut fs::File::create(&plain).unwrap()).unwrap();
            let tables = csv("SHOW TABLES", &[&plain]);
            let own = tables
                .lines()
                .filter(|line| line.ends_with("Table of Nsight Systems."));
            for line in own {
                let table = line.split(',').next().unwrap();
                // These two have less than the file on purpose.
                if !["StringIds", "PROCESSES"].contains(&table) {
                    is_as_in_sqlite(table, table, &plain);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 20, "{compared}");
}
