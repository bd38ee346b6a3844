//! Files of SQLite itself, read page by page: sizes of pages, logs, damage.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;

use rusqlite::Connection;
use sqlite_scan::{Database, Error, Leaves, Lookup, Value};

/// Creates a table of `rows` rows with a long text in some.
fn write(path: &Path, pragmas: &str, rows: i64) -> Connection {
    let made = Connection::open(path).unwrap();
    made.execute_batch(pragmas).unwrap();
    made.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, -- (a), \"quoted\", AS VIRTUAL\n\"end\" INTEGER, text TEXT)")
        .unwrap();
    let insert = "INSERT INTO t VALUES (?1, ?1 * 3, -?1, CASE WHEN ?1 % 50 = 0 THEN printf('%.*c', 9000, 'x') ELSE 'n' || ?1 END)";
    let transaction = made.unchecked_transaction().unwrap();
    for row in 1..=rows {
        transaction.execute(insert, [row * 2]).unwrap();
    }
    transaction.commit().unwrap();
    made
}

fn read(database: &Database) -> Vec<(i64, i64, i64, usize)> {
    let mut rows = Vec::new();
    let table = database.table("t").unwrap();
    table
        .scan(["a", "END", "text", "id", "absent"], |rowid, values| {
            let [a, end, text, id, absent] = values;
            assert_eq!((id, absent), (Value::Int(rowid), Value::Null));
            let Value::Text(text) = text else {
                panic!("no text: {text:?}");
            };
            rows.push((
                rowid,
                a.as_int().unwrap(),
                end.as_int().unwrap(),
                text.len(),
            ));
            Ok::<_, Error>(())
        })
        .unwrap();
    rows
}

#[test]
fn all_page_sizes_and_vacuum_modes_give_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = None;
    for (number, pragmas) in [
        "PRAGMA page_size=512",
        "PRAGMA page_size=4096; PRAGMA auto_vacuum=FULL",
        "PRAGMA page_size=65536",
        "PRAGMA page_size=1024; PRAGMA auto_vacuum=INCREMENTAL",
    ]
    .iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{number}.sqlite"));
        drop(write(&path, pragmas, 700));
        let database = Database::open(&path).unwrap();
        let rows = read(&database);
        assert_eq!(rows.len(), 700, "{pragmas}");
        assert_eq!(database.table("t").unwrap().rows().unwrap(), 700);
        assert_eq!(first.get_or_insert_with(|| rows.clone()), &rows);
        let def = database.table("t").unwrap().def();
        let leaves = Leaves::of(database.file(), def.root).unwrap();
        let mut lookup = Lookup::new(database.file(), &leaves);
        let pick = def.pick(["a"]);
        for (id, want) in [(2, Some(6)), (1400, Some(4200)), (3, None), (-1, None)] {
            let found = lookup.get(id, &pick).unwrap();
            assert_eq!(found.map(|[a]| a.as_int().unwrap()), want);
        }
    }
}

#[test]
fn committed_frames_of_a_log_count_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let made = write(
        &path,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0",
        300,
    );
    made.execute("UPDATE t SET a = 7 WHERE id = 4", []).unwrap();
    // The copy has the log that the open connection would fold at its end.
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for name in ["a.sqlite", "a.sqlite-wal"] {
        std::fs::copy(folder.path().join(name), copy.join(name)).unwrap();
    }
    let place = copy.join("a.sqlite");
    let before = std::fs::read(&place).unwrap();
    let database = Database::open(&place).unwrap();
    assert!(database.log().is_some());
    let rows = read(&database);
    assert_eq!((rows.len(), rows[1].1), (300, 7));
    assert_eq!(std::fs::read(&place).unwrap(), before);
    assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 2);
    // Frames after a damaged one are not committed.
    let log = copy.join("a.sqlite-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(read(&Database::open(&place).unwrap())[1].1, 12);
}

#[test]
fn damaged_files_are_errors_or_fewer_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    drop(write(&path, "PRAGMA page_size=512", 200));
    let whole = std::fs::read(&path).unwrap();
    let try_all = |bytes: &[u8]| {
        let source = byte_source::Source::from_bytes("damaged", bytes.to_vec());
        let database = source
            .map_err(Error::from)
            .and_then(|source| Database::from_source(source, None))?;
        let mut rows = 0;
        for table in &database.catalog().tables {
            let table = database.table(&table.name).unwrap();
            table.scan(["a", "text"], |_, _| {
                rows += 1;
                Ok::<_, Error>(())
            })?;
        }
        Ok::<i32, Error>(rows)
    };
    assert_eq!(try_all(&whole).unwrap(), 200);
    for length in [0, 50, 100, 511, 1000, whole.len() / 2, whole.len() - 1] {
        assert!(try_all(&whole[..length]).is_err(), "{length} bytes");
    }
    // No bytes cause a panic or an endless loop.
    let mut state = 1_u64;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] = state.to_le_bytes()[6];
        }
        let _ = try_all(&bytes);
    }
}

#[test]
fn what_is_no_plain_table_is_named_and_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let made = write(&path, "", 3);
    made.execute_batch(
        "CREATE VIEW v AS SELECT load_extension('evil');
         CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT raise(abort, 'no'); END;
         CREATE TABLE w (a PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE late (a INTEGER); INSERT INTO late VALUES (1);
         ALTER TABLE late ADD COLUMN b INTEGER DEFAULT 5;",
    )
    .unwrap();
    drop(made);
    let database = Database::open(&path).unwrap();
    let mut ignored: Vec<&str> = database
        .catalog()
        .ignored
        .iter()
        .map(|i| i.name.as_str())
        .collect();
    ignored.sort_unstable();
    assert_eq!(ignored, ["g", "v", "w"]);
    assert!(database.table("v").is_none() && database.table("w").is_none());
    let late = database.table("late").unwrap();
    late.scan(["a", "b"], |_, values| {
        assert_eq!(values, [Value::Int(1), Value::Int(5)]);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn parts_of_a_table_are_all_its_rows_in_order_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    // Small pages, so that there are several parts.
    drop(write(&path, "PRAGMA page_size=512", 30_000));
    let database = Database::open(&path).unwrap();
    let table = database.table("t").unwrap();
    let want: Vec<i64> = read(&database).into_iter().map(|row| row.1).collect();
    let mut counts = Vec::new();
    for threads in [0, 1, 2, 5] {
        let parts = table
            .scan_parts(
                ["a"],
                threads,
                || Ok::<_, Error>(Vec::new()),
                |part, _, [a]| {
                    part.push(a.as_int().unwrap());
                    Ok(())
                },
            )
            .unwrap();
        counts.push(parts.len());
        assert_eq!(parts.concat(), want, "{threads}");
    }
    assert!(
        counts[0] > 2 && counts.iter().all(|count| *count == counts[0]),
        "{counts:?}"
    );
    let failed = table.scan_parts(
        ["a"],
        3,
        || Ok(()),
        |(), rowid, [_]| match rowid > 20_000 {
            true => Err(Stop(rowid)),
            false => Ok(()),
        },
    );
    assert!(matches!(failed, Err(Stop(20_002))));
}

/// The row at which a scan ended.
struct Stop(i64);

impl From<Error> for Stop {
    fn from(_: Error) -> Self {
        Self(0)
    }
}
