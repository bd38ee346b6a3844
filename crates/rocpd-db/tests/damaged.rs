//! Input that is not what it should be: errors and counted rows, never a panic, nothing executed.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../fuzz/body.rs"]
mod body;

use std::path::{Path, PathBuf};

use rocpd_db::{
    Allocation, Dispatch, Error, Filter, KernelNames, MergeOptions, OpenOptions, Order, RocpdSet,
    Summary, SummaryOptions, merge,
};
use rocpd_synth::{Shape, generate};
use rusqlite::Connection;

fn small(folder: &Path) -> PathBuf {
    generate(folder, &Shape::small()).unwrap().remove(0).path
}

fn open(path: &Path) -> Result<RocpdSet, Error> {
    RocpdSet::open(&[path], &OpenOptions::default())
}

fn table(connection: &Connection, base: &str) -> String {
    connection
        .query_row(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?1",
            [format!("{base}%")],
            |row| row.get(0),
        )
        .unwrap()
}

fn summarise(set: &RocpdSet) -> Result<u64, Error> {
    let filter = Filter::default();
    let summary = Summary::collect(set, &filter, &SummaryOptions::default())?;
    Ok(summary.domains().iter().map(|row| row.stat.calls).sum())
}

#[test]
fn what_is_no_rocpd_database() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert!(matches!(
        open(&write("a.db", b"{}")),
        Err(Error::NotSqlite { .. })
    ));
    assert!(matches!(
        open(&write("b.db", b"SQLite format 3\0")),
        Err(Error::Truncated { .. })
    ));
    let missing = folder.path().join("missing.db");
    assert!(open(&missing).is_err());
    assert!(!missing.exists(), "an input was made");
    let rpd = folder.path().join("old.rpd");
    Connection::open(&rpd)
        .unwrap()
        .execute_batch("CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY); CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY)")
        .unwrap();
    let error = open(&rpd).unwrap_err().to_string();
    assert!(error.contains("rocmProfileData"), "{error}");
}

#[test]
fn every_truncation_is_an_error_or_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let bytes = std::fs::read(&path).unwrap();
    for part in 1..20 {
        let cut = folder.path().join("cut.db");
        std::fs::write(&cut, &bytes[..bytes.len() * part / 20]).unwrap();
        assert!(
            matches!(open(&cut), Err(Error::Truncated { .. })),
            "part {part}"
        );
    }
    // The other files are kept when asked for.
    let cut = folder.path().join("cut.db");
    let mut options = OpenOptions::default();
    options.keep_going = true;
    let set = RocpdSet::open(&[cut.as_path(), path.as_path()], &options).unwrap();
    assert_eq!(set.partitions().len(), 1);
    assert_eq!(set.warnings().len(), 1);
}

#[test]
fn flipped_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let bytes = std::fs::read(&path).unwrap();
    let mut state = 12_345_u64;
    let mut errors = 0;
    for _ in 0..150 {
        let mut damaged = bytes.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 20).unwrap() % damaged.len();
            damaged[at] ^= 1 << (state & 7);
        }
        let bad = folder.path().join("bad.db");
        std::fs::write(&bad, &damaged).unwrap();
        body::try_all(&bad);
        if let Ok(set) = open(&bad) {
            errors += u32::from(summarise(&set).is_err());
        } else {
            errors += 1;
        }
    }
    assert!(errors > 0);
}

#[test]
fn nothing_stored_in_an_input_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let expected = summarise(&open(&path).unwrap()).unwrap();
    let connection = Connection::open(&path).unwrap();
    let region = table(&connection, "rocpd_region");
    // Views that never end, or lie, under all names that a reader might use; triggers; a table of other columns.
    connection
        .execute_batch(&format!(
            "CREATE VIEW rocpd_region AS WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT n FROM x;
             CREATE VIEW regions AS SELECT * FROM rocpd_region;
             CREATE VIEW kernels AS SELECT 'fake' AS name, 1 AS duration;
             CREATE VIEW top AS SELECT load_extension('x');
             CREATE TABLE log (text);
             CREATE TRIGGER t AFTER INSERT ON \"{region}\" BEGIN INSERT INTO log VALUES ('run'); END;
             CREATE TABLE \"rocpd_odd'name\" (a);
             CREATE TABLE rocpd_computed (a, b AS (a + 1));
             CREATE VIRTUAL TABLE rocpd_memory_copy USING fts5(start, \"end\");
             CREATE VIRTUAL TABLE rocpd_info_process USING rtree(id, a, b);
             INSERT INTO rocpd_info_process VALUES (1, 2, 3);"
        ))
        .unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let set = open(&path).unwrap();
    assert_eq!(summarise(&set).unwrap(), expected);
    let session = set.sql(None, KernelNames::default()).unwrap();
    let mut statement = session
        .prepare("SELECT COUNT(*) FROM kernels WHERE name = 'fake'")
        .unwrap();
    let mut rows = statement.query(&[]).unwrap();
    assert_eq!(
        rows.next().unwrap().unwrap().get(0),
        rocpd_db::SqlValue::Int(0)
    );
    drop(rows);
    drop(statement);
    // Neither is anything written, nor anything else opened.
    assert!(session.run_script("DELETE FROM rocpd_region").is_err());
    let other = folder.path().join("other.db");
    let attach = format!("ATTACH DATABASE '{}' AS o", other.display());
    assert!(session.run_script(&attach).is_err());
    assert!(!other.exists());
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn scripts_are_split_where_sqlite_splits_them() {
    let folder = tempfile::tempdir().unwrap();
    let set = open(&small(folder.path())).unwrap();
    let session = set.sql(None, KernelNames::default()).unwrap();
    session
        .run_script(
            "CREATE TEMP TABLE t (a TEXT); CREATE TEMP TABLE u (b TEXT); -- a comment; with a semicolon
             CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO u VALUES ('x;y'); INSERT INTO u VALUES (NEW.a); END;
             INSERT INTO t VALUES ('a;b');",
        )
        .unwrap();
    let mut statement = session
        .prepare("SELECT group_concat(b, '|') FROM u WHERE b <> ?1")
        .unwrap();
    let mut rows = statement
        .query(&[rocpd_db::SqlValue::Text("none")])
        .unwrap();
    assert_eq!(
        rows.next().unwrap().unwrap().get(0),
        rocpd_db::SqlValue::Text("x;y|a;b")
    );
}

#[test]
fn wrong_types_are_counted_and_whole_reals_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let connection = Connection::open(&path).unwrap();
    let dispatch = table(&connection, "rocpd_kernel_dispatch");
    connection
        .execute_batch(&format!(
            "UPDATE \"{dispatch}\" SET start = 'soon' WHERE id = 1; UPDATE \"{dispatch}\" SET start = x'00ff' WHERE id = 2;
             UPDATE \"{dispatch}\" SET grid_size_x = '4096.0' WHERE id = 3"
        ))
        .unwrap();
    drop(connection);
    let set = open(&path).unwrap();
    let filter = Filter::default();
    let records: Vec<Dispatch<'_>> = set
        .scan(&filter, Order::Stored)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(records[0].id, 3);
    assert_eq!(records[0].grid[0], Some(4096));
    let issues = set.issues();
    assert_eq!(issues.len(), 1);
    assert_eq!(
        (
            issues[0].count,
            issues[0].first_rowid,
            issues[0].column.as_str()
        ),
        (2, 1, "start")
    );
    assert!(issues[0].found.contains("soon"));
}

#[test]
fn a_recording_without_metadata_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let connection = Connection::open(&path).unwrap();
    let name = table(&connection, "rocpd_metadata");
    connection
        .execute_batch(&format!("DROP TABLE \"{name}\""))
        .unwrap();
    drop(connection);
    let set = open(&path).unwrap();
    let kernels = summarise(&set).unwrap();
    assert!(kernels > 0);
    for reassign_ids in [false, true] {
        let mut options = MergeOptions::default();
        options.reassign_ids = reassign_ids;
        let merged = folder.path().join("merged");
        merge(&set, &merged, &options).unwrap();
        assert_eq!(summarise(&open(&merged).unwrap()).unwrap(), kernels);
    }
}

#[test]
fn missing_tables_and_empty_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let connection = Connection::open(&path).unwrap();
    let names =
        ["rocpd_sample", "rocpd_memory_copy", "rocpd_arg"].map(|base| table(&connection, base));
    for name in &names {
        connection
            .execute_batch(&format!("DROP TABLE \"{name}\""))
            .unwrap();
    }
    let event = table(&connection, "rocpd_event");
    let memory = table(&connection, "rocpd_memory_allocate");
    connection
        .execute_batch(&format!(
            "DELETE FROM \"{memory}\"; UPDATE \"{event}\" SET category_id = NULL WHERE id % 2 = 0"
        ))
        .unwrap();
    drop(connection);
    let set = open(&path).unwrap();
    // Nothing is lost without a word.
    let [said] = set.warnings() else {
        panic!("{:?}", set.warnings());
    };
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
    assert!(!said.contains(&event), "{said}");
    assert!(summarise(&set).unwrap() > 0);
    let session = set.sql(None, KernelNames::default()).unwrap();
    for view in [
        "samples",
        "memory_copies",
        "events_args",
        "busy",
        "top",
        "regions_and_samples",
    ] {
        session
            .prepare(&format!("SELECT * FROM {view}"))
            .unwrap()
            .query(&[])
            .unwrap()
            .next()
            .unwrap();
    }
    drop(session);
    let connection = Connection::open(&path).unwrap();
    let threads = table(&connection, "rocpd_info_thread");
    connection
        .execute_batch(&format!("DROP TABLE \"{threads}\""))
        .unwrap();
    drop(connection);
    assert!(matches!(
        open(&path),
        Err(Error::MissingTable {
            table: "rocpd_info_thread",
            ..
        })
    ));
}

#[test]
fn a_log_left_over_is_read_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let live = folder.path().join("live's copy.db");
    std::fs::copy(&path, &live).unwrap();
    let connection = Connection::open(&live).unwrap();
    connection
        .query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
        .unwrap();
    connection
        .query_row("PRAGMA wal_autocheckpoint=0", [], |_| Ok(()))
        .unwrap();
    let dispatch = table(&connection, "rocpd_kernel_dispatch");
    connection
        .execute_batch(&format!("DELETE FROM \"{dispatch}\" WHERE id > 5"))
        .unwrap();
    // What a killed process leaves: both files as they are now.
    let left = folder.path().join("left");
    std::fs::create_dir(&left).unwrap();
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", live.display());
        std::fs::copy(from, left.join(format!("x.db{suffix}"))).unwrap();
    }
    let set = open(&left.join("x.db")).unwrap();
    let filter = Filter::default();
    assert_eq!(
        set.scan::<Dispatch<'_>>(&filter, Order::Stored)
            .unwrap()
            .count(),
        5
    );
    // The log is read, so nothing is missing.
    assert_eq!(set.notes().len(), 1);
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
    let mut names: Vec<_> = std::fs::read_dir(&left)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["x.db", "x.db-wal"],
        "something was written beside the input"
    );
    drop(connection);
}

#[test]
fn schemas_of_other_generations() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let version = |version: &str| {
        let connection = Connection::open(&path).unwrap();
        let metadata = table(&connection, "rocpd_metadata");
        connection
            .execute(
                &format!("UPDATE \"{metadata}\" SET value = ?1 WHERE tag = 'schema_version'"),
                [version],
            )
            .unwrap();
        drop(connection);
        open(&path)
    };
    assert!(version("3.0.9").is_ok());
    assert!(version("4.1.0").is_ok());
    assert!(matches!(version("7"), Err(Error::UnsupportedSchema { .. })));
}

/// Moves what the draft of generation 4 keeps elsewhere: places of records to tracks, categories to a table.
fn as_draft(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let name = |base: &str| table(&connection, base);
    let suffix = name("rocpd_region").replacen("rocpd_region", "", 1);
    let mut script = format!(
        "UPDATE \"{}\" SET value = '4.1.0' WHERE tag = 'schema_version';
         CREATE TABLE \"rocpd_info_category{suffix}\" (id INTEGER PRIMARY KEY, guid TEXT, name TEXT);
         INSERT INTO \"rocpd_info_category{suffix}\" SELECT 100 + S.id, S.guid, S.string FROM \"{string}\" S
           WHERE S.id IN (SELECT category_id FROM \"{event}\");
         UPDATE \"{event}\" SET category_id = category_id + 100;",
        name("rocpd_metadata"),
        string = name("rocpd_string"),
        event = name("rocpd_event"),
    );
    let track = name("rocpd_track");
    for column in ["agent_id", "queue_id", "stream_id"] {
        script += &format!("ALTER TABLE \"{track}\" ADD COLUMN {column} INTEGER;");
    }
    for (base, place) in [
        ("rocpd_region", &["nid", "pid", "tid"][..]),
        (
            "rocpd_kernel_dispatch",
            &["nid", "pid", "tid", "agent_id", "queue_id", "stream_id"],
        ),
        (
            "rocpd_memory_allocate",
            &["nid", "pid", "tid", "agent_id", "queue_id", "stream_id"],
        ),
        (
            "rocpd_memory_copy",
            &["nid", "pid", "tid", "queue_id", "stream_id"],
        ),
    ] {
        let base = name(base);
        let list = place.join(", ");
        let same: Vec<String> = place.iter().map(|c| format!("T.{c} IS R.{c}")).collect();
        // Tracks are told apart by their extdata, which nothing reads.
        script += &format!(
            "INSERT INTO \"{track}\" ({list}, extdata) SELECT DISTINCT {list}, '{base}' FROM \"{base}\";
             ALTER TABLE \"{base}\" ADD COLUMN track_id INTEGER;
             UPDATE \"{base}\" AS R SET track_id = (SELECT T.id FROM \"{track}\" T WHERE T.extdata = '{base}' AND {});",
            same.join(" AND ")
        );
        for column in place {
            script += &format!("ALTER TABLE \"{base}\" DROP COLUMN {column};");
        }
    }
    connection.execute_batch(&script).unwrap();
}

fn whole(set: &RocpdSet, sql: &str) -> Vec<String> {
    let session = set.sql(None, KernelNames::default()).unwrap();
    let mut statement = session.prepare(sql).unwrap();
    let mut rows = statement.query(&[]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells: Vec<String> = (0..row.len())
            .map(|at| format!("{:?}", row.get(at)))
            .collect();
        all.push(cells.join(" "));
    }
    all
}

#[test]
fn the_draft_of_generation_four_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let queries = [
        "SELECT name, tid, agent_abs_index, queue_id, stream_id, category, start, duration FROM kernels ORDER BY id",
        "SELECT name, category, pid, tid, start, duration FROM regions ORDER BY id",
        "SELECT name, category, tid, timestamp FROM samples ORDER BY id",
        "SELECT * FROM memory_allocations ORDER BY id",
        "SELECT * FROM memory_copies ORDER BY id",
        "SELECT * FROM top ORDER BY name",
    ];
    let records = |set: &RocpdSet| -> Vec<String> {
        let filter = Filter::default();
        set.scan::<Dispatch<'_>>(&filter, Order::Start)
            .unwrap()
            .map(|record| format!("{:?}", record.unwrap()))
            .chain(
                set.scan::<Allocation<'_>>(&filter, Order::Start)
                    .unwrap()
                    .map(|record| format!("{:?}", record.unwrap())),
            )
            .collect()
    };
    let (before, scanned, summed) = {
        let set = open(&path).unwrap();
        let before: Vec<Vec<String>> = queries.iter().map(|sql| whole(&set, sql)).collect();
        (before, records(&set), summarise(&set).unwrap())
    };
    assert!(before.iter().all(|rows| !rows.is_empty()));
    as_draft(&path);
    let set = open(&path).unwrap();
    assert_eq!(set.partitions()[0].schema(), "4.1.0");
    assert_eq!(summarise(&set).unwrap(), summed);
    assert_eq!(records(&set), scanned);
    for (sql, before) in queries.iter().zip(before) {
        assert_eq!(whole(&set, sql), before, "{sql}");
    }
    assert!(set.issues().is_empty());
}

#[test]
fn a_draft_with_times_in_a_table_of_their_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let connection = Connection::open(&path).unwrap();
    let region = table(&connection, "rocpd_region");
    connection
        .execute_batch(&format!(
            "CREATE TABLE rocpd_timestamp (id INTEGER PRIMARY KEY, guid TEXT, value BIGINT);
             ALTER TABLE \"{region}\" RENAME COLUMN start TO start_id;
             ALTER TABLE \"{region}\" RENAME COLUMN \"end\" TO end_id;"
        ))
        .unwrap();
    drop(connection);
    let error = open(&path).unwrap_err();
    assert!(matches!(
        error,
        Error::UnsupportedSchema {
            lacks: Some(("rocpd_region", "start")),
            ..
        }
    ));
    let error = error.to_string();
    assert!(
        error.contains("schema 3, whose table rocpd_region has no column start"),
        "{error}"
    );
}
