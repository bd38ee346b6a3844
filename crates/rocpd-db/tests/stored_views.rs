//! What other tools find in a merged database: tables and views of the format, with the rows that SQL over the inputs gives.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;

use rocpd_db::{KernelNames, MergeOptions, OpenOptions, RocpdSet, SqlSession, SqlValue, merge};
use rocpd_synth::{Shape, generate};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// The rows of a query as sorted texts, by a session over databases.
fn unified(session: &SqlSession, sql: &str) -> Vec<String> {
    let mut statement = session.prepare(sql).unwrap();
    let columns = statement.columns().len();
    let mut rows = statement.query(&[]).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..columns).map(|at| match row.get(at) {
            SqlValue::Null => "-".to_owned(),
            SqlValue::Int(value) => value.to_string(),
            SqlValue::Real(value) => format!("{value:e}"),
            SqlValue::Text(text) => text.to_owned(),
            SqlValue::Blob(_) => "blob".to_owned(),
        });
        out.push(cells.collect::<Vec<_>>().join("|"));
    }
    out.sort();
    out
}

/// The same by plain SQLite, which knows nothing of the format.
fn plain(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let flags = rusqlite::functions::FunctionFlags::default();
    connection
        .create_scalar_function("sqrt", 1, flags, |context| {
            let value: Option<f64> = context.get(0)?;
            Ok(value.map(f64::sqrt))
        })
        .unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..columns).map(|at| match row.get_ref(at).unwrap() {
            ValueRef::Null => "-".to_owned(),
            ValueRef::Integer(value) => value.to_string(),
            ValueRef::Real(value) => format!("{value:e}"),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Blob(_) => "blob".to_owned(),
        });
        out.push(cells.collect::<Vec<_>>().join("|"));
    }
    out.sort();
    out
}

#[test]
fn merged_databases_have_the_views_of_the_format() {
    for generation in [0, 3, 5] {
        let folder = tempfile::tempdir().unwrap();
        let shape = Shape {
            ranks: 3,
            nodes: 3,
            equal_pids: true,
            generation,
            ..Shape::small()
        };
        generate(&folder.path().join("in"), &shape).unwrap();
        let set = RocpdSet::open(&[folder.path().join("in")], &OpenOptions::default()).unwrap();
        let session = set.sql(None, KernelNames::default()).unwrap();
        let mut options = MergeOptions::default();
        let merged = folder.path().join("merged.db");
        merge(&set, &merged, &options).unwrap();
        options.reassign_ids = true;
        let renumbered = folder.path().join("renumbered.db");
        merge(&set, &renumbered, &options).unwrap();
        for name in SqlSession::tables().filter(|name| *name != "rocpd_metadata") {
            let sql = format!("SELECT * FROM {name}");
            let expected = unified(&session, &sql);
            assert_eq!(plain(&merged, &sql), expected, "{name}");
            // Tables of generations that no input has are not made anew.
            if !name.starts_with("rocpd_") || !expected.is_empty() {
                assert_eq!(plain(&renumbered, &sql).len(), expected.len(), "{name}");
            }
        }
        // Where no ids are shown, new ones change nothing.
        for name in [
            "top",
            "top_kernels",
            "kernel_summary",
            "memory_copy_summary",
        ] {
            let sql = format!("SELECT * FROM {name}");
            assert!(!unified(&session, &sql).is_empty());
            assert_eq!(plain(&renumbered, &sql), unified(&session, &sql), "{name}");
        }
    }
}

/// Deviations by SQL, and by hand.
#[test]
fn summaries_by_sql_are_those_of_their_definition() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), &Shape::small()).unwrap();
    let set = RocpdSet::open(&[folder.path()], &OpenOptions::default()).unwrap();
    let session = set.sql(None, KernelNames::default()).unwrap();
    let mut statement = session
        .prepare("SELECT name, duration FROM kernels")
        .unwrap();
    let mut durations: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
    let mut rows = statement.query(&[]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (SqlValue::Text(name), SqlValue::Int(value)) = (row.get(0), row.get(1)) else {
            panic!("a kernel has a name and a duration");
        };
        let value = i32::try_from(value).unwrap();
        durations
            .entry(name.to_owned())
            .or_default()
            .push(f64::from(value));
    }
    let mut statement = session
        .prepare("SELECT name, calls, STD_DEV, VARIANCE, power(sqrt(VARIANCE), 2.0), ceil(3) FROM kernel_summary")
        .unwrap();
    let mut rows = statement.query(&[]).unwrap();
    let mut seen = 0;
    while let Some(row) = rows.next().unwrap() {
        let SqlValue::Text(name) = row.get(0) else {
            panic!("a summary has a name");
        };
        let list = &durations[name];
        let count = f64::from(u32::try_from(list.len()).unwrap());
        assert_eq!(
            row.get(1),
            SqlValue::Int(i64::try_from(list.len()).unwrap())
        );
        assert_eq!(row.get(5), SqlValue::Int(3));
        seen += 1;
        let mean = list.iter().sum::<f64>() / count;
        let variance = list.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0);
        if list.len() == 1 {
            assert_eq!(row.get(2), SqlValue::Null);
            continue;
        }
        let close = |found: SqlValue<'_>, want: f64| match found {
            SqlValue::Real(found) => (found - want).abs() <= 1e-9 * want.abs(),
            _ => false,
        };
        assert!(close(row.get(2), variance.sqrt()), "{name}");
        assert!(close(row.get(3), variance), "{name}");
        assert!(close(row.get(4), variance), "{name}");
    }
    assert_eq!(seen, durations.len());
}
