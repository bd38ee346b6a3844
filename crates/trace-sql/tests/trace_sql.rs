//! Runs SQL over the demo traces: results against the store, files, errors, refusals.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use perfetto_reader::{ArgPolicy, ReadOptions};
use report::{Cell, Column, RowSink as _};
use trace_sql::sink::{Format, TextResults};
use trace_sql::{Engine, ErrorKind, FileTable, Inputs, Options, SqlError, Wanted};
use trace_tables::catalogue::{ArgKeys, BESIDE, TABLES, VIEWS, any_table};
use trace_tables::{Batches, Beside, OwnTable, Recording, TakeBatch};

/// Files, and what each was read with.
#[derive(Debug, Default)]
struct Files {
    names: Vec<String>,
    read: Mutex<Vec<(usize, Wanted)>>,
}

impl Files {
    fn new(paths: &[PathBuf]) -> Arc<Self> {
        Arc::new(Self {
            names: paths
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            read: Mutex::default(),
        })
    }
}

impl Inputs for Files {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn open(&self, file: usize, wanted: &Wanted) -> Result<Recording, String> {
        self.read.lock().unwrap().push((file, wanted.clone()));
        let name = &self.names[file];
        let source =
            byte_source::Source::open(Path::new(name), &byte_source::OpenOptions::default());
        let mut options = ReadOptions::default();
        options.args = match &wanted.args {
            ArgKeys::None => ArgPolicy::None,
            ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
            ArgKeys::All => ArgPolicy::All,
        };
        let trace = source
            .map_err(|error| error.to_string())
            .and_then(|source| {
                perfetto_reader::read(source, &options).map_err(|error| error.to_string())
            })?;
        Ok(Recording::new(u32::try_from(file).unwrap(), name, trace))
    }
}

/// Inputs with tables beside those of recordings, and how often these were read.
#[derive(Debug, Default)]
struct WithOthers {
    listed: AtomicUsize,
    read: Mutex<Vec<(String, Vec<usize>)>>,
}

impl Inputs for WithOthers {
    fn names(&self) -> &[String] {
        &[]
    }

    fn open(&self, _: usize, _: &Wanted) -> Result<Recording, String> {
        Err("there is none".to_owned())
    }

    fn beside(&self) -> &dyn Beside {
        self
    }
}

impl WithOthers {
    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("file", DataType::Utf8, true),
            Field::new("eventCount", DataType::Int64, true),
            Field::new("isSet", DataType::Int64, true),
        ]))
    }
}

impl Beside for WithOthers {
    fn own_tables(&self) -> Vec<OwnTable> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        ["RAW_EVENTS", "Twice", "TWICE"]
            .map(|name| OwnTable {
                name: name.to_owned(),
                doc: "A row.".to_owned(),
            })
            .to_vec()
    }

    fn own_schema(&self, name: &str) -> Option<Result<SchemaRef, String>> {
        match name {
            "secret" => Some(Err("secret is never read".to_owned())),
            "RAW_EVENTS" | "Twice" | "TWICE" => Some(Ok(Self::schema())),
            _ => None,
        }
    }

    fn read(&self, name: &str, columns: &[usize], take: &mut TakeBatch<'_>) -> Result<(), String> {
        self.read
            .lock()
            .unwrap()
            .push((name.to_owned(), columns.to_vec()));
        if name == "accesses" {
            return Err("run.txt: it is damaged".to_owned());
        }
        if let Some(table) = any_table(name) {
            let mut sink = Batches::new(table, columns, &mut *take).unwrap();
            let names = table.columns().map(|column| Column::int(column.name));
            sink.begin(&names.collect::<Vec<_>>()).unwrap();
            let cells = vec![Cell::Null; table.columns().count()];
            while sink.row(&cells).is_ok() {}
            return Ok(());
        }
        let schema = Arc::new(Self::schema().project(columns).unwrap());
        let arrays = schema.fields().iter().map(|field| -> ArrayRef {
            match field.name().as_str() {
                "file" => Arc::new(StringArray::from(vec![name, name])),
                _ => Arc::new(Int64Array::from(vec![1, 2])),
            }
        });
        let arrays = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(2));
        take(RecordBatch::try_new_with_options(schema, arrays, &options).unwrap());
        Ok(())
    }
}

#[test]
fn tables_beside_recordings_are_read_when_they_are_asked_for() {
    let inputs = Arc::new(WithOthers::default());
    let engine = Engine::new(Arc::clone(&inputs) as Arc<dyn Inputs>, Options::default()).unwrap();
    // Our own names need no list of others, and read nothing of them.
    assert_eq!(row(&engine, "SELECT count(*) FROM kernels"), "0");
    assert_eq!(inputs.listed.load(Ordering::Relaxed), 0);
    assert!(inputs.read.lock().unwrap().is_empty());
    // Only the columns that a query needs, and only as many rows.
    let limited = csv(&engine, "SELECT rank, title FROM findings LIMIT 3").unwrap();
    assert_eq!(limited.lines().count(), 4);
    let read = inputs.read.lock().unwrap().pop().unwrap();
    assert_eq!(read, ("findings".to_owned(), vec![1, 5]));
    let error = csv(&engine, "SELECT count(address) FROM accesses").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(error.to_string(), "run.txt: it is damaged");
    // Tables of inputs: with and without quotes.
    for sql in [
        "SELECT sum(EVENTCOUNT) FROM raw_events WHERE isset > 1",
        "SELECT sum(r.\"eventCount\") FROM \"RAW_EVENTS\" r WHERE r.isSet > 1",
        "WITH x AS (SELECT eventCount AS EVENTCOUNT FROM Raw_Events) SELECT max(eventcount) FROM x",
        "CREATE VIEW mine AS SELECT eventCount FROM RAW_EVENTS; SELECT max(EventCount) FROM mine; DROP VIEW mine",
    ] {
        assert_eq!(row(&engine, sql), "2", "{sql}");
    }
    assert_eq!(row(&engine, "SELECT DISTINCT file FROM \"TWICE\""), "TWICE");
    let error = csv(&engine, "SELECT count(*) FROM twice").unwrap_err();
    assert!(error.to_string().contains("no table `twice`"), "{error}");
    let error = csv(&engine, "SELECT count(*) FROM Secret").unwrap_err();
    assert_eq!(error.to_string(), "secret is never read");
    let described = csv(&engine, "DESCRIBE RAW_EVENTS").unwrap();
    assert_eq!(described.lines().nth(2), Some("eventCount,BIGINT,,"));
    let tables = csv(&engine, "SHOW TABLES").unwrap();
    assert!(tables.contains("\nRAW_EVENTS,table,A row."), "{tables}");
}

#[test]
fn files_of_a_folder_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let mut made =
        report::Table::new("ranks", vec![Column::int("rank"), Column::text("host")]).unwrap();
    for rank in 0..3 {
        made.push(&[Cell::Int(rank), Cell::Text("node")]).unwrap();
    }
    let path = folder.path().join("ranks.parquet");
    let mut file = std::fs::File::create(&path).unwrap();
    made.write_to(&mut report::ParquetWriter::new(
        &mut file,
        report::SchemaVersion::new(1, 0),
    ))
    .unwrap();
    let table = FileTable {
        // The catalogue has a table of this name, with other columns.
        name: "kernels".to_owned(),
        doc: "One row for each rank.".to_owned(),
        path,
    };
    let engine = Engine::folder(folder.path(), &[table], Options::default()).unwrap();
    assert_eq!(
        csv(&engine, "SHOW TABLES").unwrap(),
        "name,kind,rows\nkernels,table,One row for each rank.\n"
    );
    let described = csv(&engine, "DESCRIBE kernels").unwrap();
    assert_eq!(
        described,
        "column,type,unit,meaning\nrank,BIGINT,,\nhost,VARCHAR,,\n"
    );
    assert_eq!(
        row(&engine, "SELECT host, sum(rank) FROM kernels GROUP BY host"),
        "node,3"
    );
    let error = csv(&engine, "SELECT * FROM slices").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo")
        .join(name)
}

fn ranks() -> Vec<PathBuf> {
    vec![demo("demo-rank0.json.gz"), demo("demo-rank1.json.gz")]
}

fn engine(paths: &[PathBuf], threads: usize) -> Engine {
    let mut options = Options::default();
    options.threads = NonZeroUsize::new(threads).unwrap();
    Engine::new(Files::new(paths), options).unwrap()
}

fn csv(engine: &Engine, sql: &str) -> Result<String, SqlError> {
    let mut out = Vec::new();
    engine.run(
        sql,
        &mut TextResults::new(&mut out, Format::Csv, None, None),
    )?;
    Ok(String::from_utf8(out).unwrap())
}

/// Returns the single row of a query, without the header.
fn row(engine: &Engine, sql: &str) -> String {
    let text = csv(engine, sql).unwrap();
    let mut lines = text.lines().skip(1);
    let row = lines.next().unwrap_or_default().to_owned();
    assert_eq!(lines.next(), None, "{sql}: {text}");
    row
}

#[test]
fn every_table_and_view_can_be_read_whole() {
    let engine = engine(&ranks(), 2);
    for table in TABLES {
        let count: u64 = row(&engine, &format!("SELECT count(*) FROM {}", table.name))
            .parse()
            .unwrap();
        let all = csv(&engine, &format!("SELECT * FROM {}", table.name)).unwrap();
        let header: Vec<&str> = table.columns().map(|column| column.name).collect();
        assert_eq!(all.lines().next().unwrap(), header.join(","));
        // The demo has no counters.
        assert!(count > 0 || table.name == "counters", "{}", table.name);
        let described = csv(&engine, &format!("DESCRIBE {}", table.name)).unwrap();
        assert_eq!(described.lines().count(), header.len() + 1);
        let quoted = csv(&engine, &format!("DESCRIBE \"{}\"", table.name)).unwrap();
        assert_eq!(quoted, described);
    }
    for view in VIEWS {
        csv(
            &engine,
            &format!(
                "SELECT * FROM {} LIMIT 3; EXPLAIN SELECT * FROM {0}",
                view.name
            ),
        )
        .unwrap();
    }
    let tables = csv(&engine, "SHOW TABLES").unwrap();
    // `failures` is beside the catalogue.
    assert_eq!(
        tables.lines().count(),
        2 + TABLES.len() + BESIDE.len() + VIEWS.len()
    );
    assert!(engine.take_failures().is_empty());
}

#[test]
fn results_do_not_depend_on_threads_and_files_are_read_once() {
    let sql = "SELECT name, rank, count(*) AS n, sum(dur) AS ns FROM slices GROUP BY name, rank; \
               SELECT id, ts, name FROM kernels WHERE dur > 1000; \
               SELECT k.id, s.name FROM kernels k JOIN slices s ON k.launch_id = s.id";
    let one = csv(&engine(&ranks(), 1), sql).unwrap();
    for threads in [2, 5] {
        assert_eq!(csv(&engine(&ranks(), threads), sql).unwrap(), one);
    }
    let files = Files::new(&ranks());
    let engine = Engine::new(Arc::clone(&files) as Arc<dyn Inputs>, Options::default()).unwrap();
    csv(&engine, "SELECT count(*) FROM kernels k JOIN slices s ON k.launch_id = s.id JOIN thread_track t ON s.track_id = t.id").unwrap();
    let mut read: Vec<usize> = files
        .read
        .lock()
        .unwrap()
        .iter()
        .map(|(file, _)| *file)
        .collect();
    read.sort_unstable();
    assert_eq!(read, [0, 1]);
    // Names of slices need no arguments, and only files of the condition are read.
    let files = Files::new(&ranks());
    let engine = Engine::new(Arc::clone(&files) as Arc<dyn Inputs>, Options::default()).unwrap();
    csv(&engine, "SELECT name FROM slices WHERE file_id = 1").unwrap();
    let read = files.read.lock().unwrap().clone();
    assert_eq!(read.len(), 1);
    assert_eq!((read[0].0, &read[0].1.args), (1, &ArgKeys::None));
}

#[test]
fn conditions_that_a_scan_uses_change_no_result() {
    let engine = engine(&ranks(), 2);
    let middle = row(
        &engine,
        "SELECT CAST(avg(ts) AS BIGINT) FROM slices WHERE rank = 0",
    );
    for condition in [
        format!("ts > {middle}"),
        format!("ts <= {middle} AND dur > 5"),
        format!("ts BETWEEN {middle} - 100000000 AND {middle}"),
        "name = 'cudaLaunchKernel'".to_owned(),
        "name IN ('cudaLaunchKernel', 'nothing') AND rank = 1".to_owned(),
    ] {
        let pushed = row(
            &engine,
            &format!("SELECT count(*), sum(dur) FROM slices WHERE {condition}"),
        );
        // The same condition behind a window function, which no scan can use.
        let all = format!(
            "SELECT count(*), sum(dur) FROM (SELECT *, row_number() OVER () AS number FROM slices) WHERE {condition}"
        );
        assert_eq!(pushed, row(&engine, &all), "{condition}");
        assert!(!pushed.starts_with("0,"), "{condition}");
    }
}

#[test]
fn functions_of_perfetto_work() {
    let engine = engine(&ranks(), 2);
    let by_function = "SELECT count(*), sum(extract_arg_int(arg_set_id, 'correlation')) FROM slices \
                       WHERE extract_arg(arg_set_id, 'args.correlation') IS NOT NULL";
    let by_table = "SELECT count(*), sum(int_value) FROM args WHERE key = 'args.correlation'";
    assert_eq!(row(&engine, by_function), row(&engine, by_table));
    let id = row(
        &engine,
        "SELECT max(id) FROM slices WHERE depth = 2 AND rank = 1",
    );
    let walk = format!(
        "WITH RECURSIVE up(id, parent_id) AS (SELECT id, parent_id FROM slice WHERE id = {id} UNION ALL \
         SELECT s.id, s.parent_id FROM slice s JOIN up ON s.id = up.parent_id) SELECT count(*), min(id) FROM up WHERE id <> {id}"
    );
    let function = format!("SELECT count(*), min(id) FROM ancestor_slice({id})");
    assert_eq!(row(&engine, &walk), row(&engine, &function));
    let root = row(
        &engine,
        &format!("SELECT min(id) FROM ancestor_slice({id})"),
    );
    let below = format!(
        "WITH RECURSIVE down(id) AS (SELECT id FROM slice WHERE id = {root} UNION ALL \
         SELECT s.id FROM slice s JOIN down ON s.parent_id = down.id) SELECT count(*) - 1 FROM down"
    );
    let function = format!("SELECT count(*) FROM descendant_slice({root})");
    assert_eq!(row(&engine, &below), row(&engine, &function));
    // LIKE ignores case in queries over Perfetto's views only; GLOB never does.
    let count = |condition: &str, table: &str| {
        row(
            &engine,
            &format!("SELECT count(*) FROM {table} WHERE name {condition}"),
        )
    };
    assert_ne!(count("LIKE 'CUDALAUNCH%'", "slice"), "0");
    assert_eq!(count("LIKE 'CUDALAUNCH%'", "slices"), "0");
    assert_eq!(count("GLOB 'CUDALAUNCH*'", "slice"), "0");
    assert_eq!(
        count("GLOB 'cudaLaunch*'", "slice"),
        count("LIKE 'cudaLaunch%'", "slices")
    );
    assert_eq!(
        row(
            &engine,
            "SELECT id, id, max(id) FROM process WHERE upid = 0 GROUP BY id"
        ),
        "0,0,0"
    );
    assert_eq!(
        row(
            &engine,
            "SELECT group_concat(name) FROM (SELECT DISTINCT name FROM thread WHERE tid = 7 ORDER BY name)"
        ),
        row(
            &engine,
            "SELECT string_agg(name, ',') FROM (SELECT DISTINCT name FROM thread WHERE tid = 7 ORDER BY name)"
        ),
    );
}

#[test]
fn errors_are_one_sentence_with_place_and_nearest_name() {
    let engine = engine(&ranks(), 1);
    for (sql, expected) in [
        (
            "SELECT nam FROM slices",
            "line 1, column 8: no column `nam` in `slices`: did you mean `name`?",
        ),
        (
            "SELECT 1;\nSELECT * FROM slcies",
            "line 2, column 15: no table `slcies`: did you mean `slices`?",
        ),
        (
            "SELECT * FROM sched",
            "line 1, column 15: no table `sched`: SHOW TABLES lists them",
        ),
        ("SELECT FROM FROM slices", "line 1, column "),
        (
            "SELECT coutn(*) FROM slices",
            "no function `coutn`: did you mean `count`?",
        ),
        (
            "DESCRIBE kernel",
            "no table `kernel`: did you mean `kernels`?",
        ),
        ("SELECT 'a", "line 1, column 8: "),
        ("SELECT * FROM 'file.parquet'", "no table"),
        ("COPY (SELECT 1) TO 'x.csv'", "--allow-write DIR"),
        (
            "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'",
            "--allow-write DIR",
        ),
        (
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "--allow-write DIR",
        ),
        ("SET datafusion.execution.batch_size = 1", "only queries"),
        ("DROP VIEW slice", "is a table of the catalogue"),
        (
            "CREATE OR REPLACE VIEW kernels AS SELECT 1",
            "is a table of the catalogue",
        ),
        ("INSERT INTO kernels VALUES (1)", ""),
        ("SELECT * FROM ancestor_slice(parent_id)", "WITH RECURSIVE"),
    ] {
        let error = csv(&engine, sql).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{sql}: {text}");
        assert!(!text.contains('\n'));
        assert_eq!(error.kind(), ErrorKind::Usage, "{sql}: {text}");
    }
    // Views and tables of one's own are allowed, and last.
    let made = "CREATE VIEW long AS SELECT * FROM kernels WHERE dur > 0; CREATE TABLE t AS SELECT count(*) AS n FROM long; SELECT n FROM t";
    assert_eq!(
        csv(&engine, made).unwrap(),
        csv(&engine, "SELECT count(*) AS n FROM kernels WHERE dur > 0").unwrap()
    );
    assert!(engine.table_names().contains(&"long".to_owned()));
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_answer() {
    let mut paths = ranks();
    paths.insert(1, demo("no-such-file.json"));
    let engine = engine(&paths, 2);
    let counts = csv(
        &engine,
        "SELECT file_id, count(*) AS n FROM kernels GROUP BY file_id ORDER BY file_id",
    )
    .unwrap();
    let files: Vec<&str> = counts
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').next())
        .collect();
    assert_eq!(files, ["0", "2"]);
    let failures = engine.take_failures();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("no-such-file.json"));
    let alone = Engine::new(Files::new(&[demo("no-such-file.json")]), Options::default()).unwrap();
    assert_eq!(
        csv(&alone, "SELECT * FROM slices").unwrap_err().kind(),
        ErrorKind::Input
    );
}

#[test]
fn memory_has_a_limit() {
    let mut options = Options::default();
    options.memory = 10_000;
    let engine = Engine::new(Files::new(&ranks()), options).unwrap();
    // The side of a join that is kept does not fit.
    let sql = "SELECT count(*) FROM slices a JOIN slices b ON a.id = b.id";
    let error = csv(&engine, sql).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    assert!(error.to_string().contains("--memory"));
}

#[test]
fn text_states_its_limit() {
    let engine = engine(&ranks(), 1);
    let mut out = Vec::new();
    let mut results = TextResults::new(&mut out, Format::Text, Some(80), Some(2));
    engine
        .run(
            "SELECT name, dur FROM kernels ORDER BY dur DESC",
            &mut results,
        )
        .unwrap();
    drop(results);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    let mut out = Vec::new();
    let mut results = TextResults::new(&mut out, Format::Text, None, None);
    engine
        .run("EXPLAIN SELECT count(*) FROM kernels", &mut results)
        .unwrap();
    drop(results);
    let plan = String::from_utf8(out).unwrap();
    assert!(plan.lines().count() > 4 && !plan.contains("\\n"), "{plan}");
    assert!(
        text.ends_with("only the first 2 rows are shown: --limit N shows more, --limit 0 all\n")
    );
}

#[test]
fn integers_do_not_wrap() {
    let engine = engine(&ranks(), 2);
    let numbers =
        "(VALUES (9223372036854775807, 1), (1, 1), (-5, 2), (CAST(NULL AS BIGINT), 3)) AS t(a, g)";
    for sql in [
        format!("SELECT sum(a) FROM {numbers} WHERE a > 0"),
        format!("SELECT sum(DISTINCT a) FROM {numbers} WHERE a > 0"),
        format!("SELECT g, sum(a) FROM {numbers} GROUP BY g"),
        format!("SELECT sum(a) OVER (ORDER BY a DESC) FROM {numbers} WHERE a > 0"),
        "SELECT 9223372036854775807 + 1".to_owned(),
        "SELECT -9223372036854775807 - 2".to_owned(),
        format!("SELECT a * 2 FROM {numbers}"),
        format!("SELECT a FROM {numbers} WHERE a + 1 < 0"),
        format!("SELECT count(*) FROM {numbers} GROUP BY a * 3"),
        format!("SELECT (SELECT max(a + 7) FROM {numbers})"),
        "SELECT max(ts * 4000000000000) FROM kernels".to_owned(),
    ] {
        let error = csv(&engine, &sql).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{sql}");
        let text = error.to_string();
        assert!(
            text.contains("integer overflow") && text.contains("DECIMAL"),
            "{sql}: {text}"
        );
    }
    // What fits is as before, in whatever order it is added; groups without a value are null.
    let row = |sql: &str| {
        csv(&engine, sql)
            .unwrap()
            .lines()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        row(&format!("SELECT sum(a - 10) FROM {numbers} WHERE a < 2")),
        "-24"
    );
    assert_eq!(
        row(&format!(
            "SELECT sum(b) FROM (SELECT a - 6 AS b FROM {numbers}) WHERE b IS NOT NULL"
        )),
        "9223372036854775785"
    );
    assert_eq!(
        row(&format!(
            "SELECT g, sum(a) FROM {numbers} WHERE g > 1 GROUP BY g ORDER BY g"
        )),
        "2,-5 3,"
    );
    assert_eq!(
        row(&format!(
            "SELECT sum(DISTINCT g), sum(g) FILTER (WHERE a < 0) FROM {numbers}"
        )),
        "6,2"
    );
    assert_eq!(
        row(
            "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1), (2), (4)) AS t(x) ORDER BY 1"
        ),
        "1 3 6"
    );
    assert_eq!(
        row(&format!(
            "SELECT sum(CAST(a AS DECIMAL(38, 0))) FROM {numbers} WHERE a > 0"
        )),
        "9223372036854775808"
    );
    // Names of columns are those of the statement.
    let header = csv(
        &engine,
        "SELECT sum(ts + dur), ts + 1 AS b, dur * 2 FROM kernels GROUP BY ts, dur LIMIT 1",
    )
    .unwrap();
    let header = header.lines().next().unwrap_or_default().to_owned();
    assert!(
        header.contains("sum(kernels.ts + kernels.dur)") && !header.contains("exact"),
        "{header}"
    );
    let sums = row("SELECT sum(dur), sum(dur * 1), sum(1 * dur + 0) FROM kernels");
    let sums: Vec<&str> = sums.split(',').collect();
    assert!(
        sums[0] == sums[1] && sums[0] == sums[2] && sums[0] != "0",
        "{sums:?}"
    );
}

#[test]
fn calls_that_differ_in_a_cast_alone_run_side_by_side() {
    let engine = engine(&ranks(), 1);
    let sql = "SELECT sum(dur) AS a, sum(CAST(dur AS DOUBLE)) AS b, min(dur) AS c, min(dur::INT) AS d, \
               count(name) AS e, count(CAST(name AS VARCHAR)) AS f, sum(dur) OVER () IS NULL AS g \
               FROM (SELECT * FROM kernels LIMIT 1) GROUP BY dur HAVING sum(CAST(dur AS DOUBLE)) > 0";
    let cells = row(&engine, &sql.replace(", sum(dur) OVER () IS NULL AS g", ""));
    let cells: Vec<&str> = cells.split(',').collect();
    assert_eq!(cells[0], cells[1]);
    assert!(cells[2] == cells[3] && cells[4] == cells[5], "{cells:?}");
    let names = csv(&engine, "SELECT dur, CAST(dur AS DOUBLE), sum(ts) OVER (), sum(CAST(ts AS DOUBLE)) OVER () FROM kernels WHERE dur < 0").unwrap();
    assert_eq!(
        names.lines().next().unwrap().split(',').count(),
        4,
        "{names}"
    );
}

#[test]
fn failures_are_a_table() {
    let mut paths = ranks();
    paths.insert(1, demo("no-such-file.json"));
    let engine = engine(&paths, 2);
    assert_eq!(
        row(&engine, "SELECT count(*), min(file_id) FROM failures"),
        "1,1"
    );
    let error = row(
        &engine,
        "SELECT error FROM failures WHERE file LIKE '%no-such%'",
    );
    assert!(error.contains("no-such-file.json"), "{error}");
    assert_eq!(
        csv(&engine, "DESCRIBE failures").unwrap().lines().count(),
        4
    );
}
