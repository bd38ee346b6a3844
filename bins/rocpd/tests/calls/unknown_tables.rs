//! Tests that tables and columns unknown to this version of the tool are neither hidden nor lost.

use rusqlite::Connection;

use crate::support::{Run, call, ok, two};

/// Adds tables and a column of no version of the format to each database; returns the expected
/// result of queries.
fn plant(run: &Run) -> (String, String) {
    let mut operations = Vec::new();
    let mut added = 0;
    for (number, made) in run.made.iter().enumerate() {
        let suffix = made.truth.guid.replace('-', "_");
        let plain = Connection::open(&made.path).unwrap();
        plain
            .execute_batch(&format!(
                "CREATE TABLE \"rocpd_event_operation_{suffix}\" (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, guid TEXT, \
                 event_id INTEGER, kind_id INTEGER, value REAL, payload BLOB); \
                 INSERT INTO \"rocpd_event_operation_{suffix}\" (guid, event_id, kind_id, value, payload) \
                 SELECT guid, id, id * 1000 + {number}, id + 0.5, x'00ff' FROM \"rocpd_event_{suffix}\" WHERE id % 7 = 0; \
                 CREATE TABLE \"rocpd_info_blob_schema_{suffix}\" (name TEXT, version); \
                 INSERT INTO \"rocpd_info_blob_schema_{suffix}\" VALUES ('schema {number}', 1.5), (NULL, 'two'); \
                 ALTER TABLE \"rocpd_region_{suffix}\" ADD COLUMN color TEXT; \
                 UPDATE \"rocpd_region_{suffix}\" SET color = 'red' WHERE id % 5 = 0"
            ))
            .unwrap();
        // The owner of an operation, without the ids that merging may change.
        let mut statement = plain
            .prepare(&format!(
                "SELECT O.guid || ' ' || E.stack_id || ' ' || O.kind_id || ' ' || O.value || ' ' || HEX(O.payload) \
                 FROM \"rocpd_event_operation_{suffix}\" O JOIN \"rocpd_event_{suffix}\" E ON E.id = O.event_id"
            ))
            .unwrap();
        let rows = statement
            .query_map([], |row| row.get::<_, String>(0))
            .unwrap();
        operations.extend(rows.map(Result::unwrap));
        added += plain
            .query_row(
                &format!("SELECT COUNT(*) FROM \"rocpd_region_{suffix}\" WHERE color = 'red'"),
                [],
                |row| row.get::<_, i64>(0),
            )
            .unwrap();
    }
    operations.sort();
    assert!(added > 0 && !operations.is_empty());
    (operations.join("\n"), added.to_string())
}

fn query(run: &Run, input: &str, sql: &str) -> String {
    let words = [
        "query", "-i", input, "--query", sql, "--format", "tsv", "-d", "out", "-o", "q",
    ];
    ok(&call(run.folder.path(), &words));
    let text = std::fs::read_to_string(run.path("out/q.tsv")).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    lines.join("\n")
}

fn check(run: &Run, input: &str, operations: &str, added: &str) {
    let sql = "SELECT O.guid || ' ' || E.stack_id || ' ' || O.kind_id || ' ' || O.value || ' ' || HEX(O.payload) AS line \
               FROM rocpd_event_operation O JOIN rocpd_event E ON E.id = O.event_id AND E.guid = O.guid ORDER BY 1";
    assert_eq!(query(run, input, sql), operations, "{input}");
    let sql = "SELECT COUNT(*) FROM rocpd_region WHERE color = 'red'";
    assert_eq!(query(run, input, sql), added, "{input}");
    let sql = "SELECT COALESCE(name, '-') || TYPEOF(version) AS line FROM rocpd_info_blob_schema ORDER BY 1";
    let schemas = "-text\n-text\nschema 0real\nschema 1real";
    assert_eq!(query(run, input, sql), schemas, "{input}");
    let info = ok(&call(run.folder.path(), &["info", "-i", input]));
    assert!(info.contains("rocpd_event_operation  (not known"), "{info}");
}

#[test]
fn tables_and_columns_of_unknown_versions_are_kept() {
    let run = Run::new(&two());
    let (operations, added) = plant(&run);
    check(&run, "in", &operations, &added);
    ok(&run.call(&["merge", "-d", "out", "-o", "verbatim"]));
    check(&run, "out/verbatim.db", &operations, &added);
    let output = run.call(&["merge", "-d", "out", "-o", "new", "--reassign-ids"]);
    ok(&output);
    check(&run, "out/new.db", &operations, &added);
    // Keys of no known table are kept, and the tool reports them.
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        notes.contains(
            "columns with new ids: event_id; columns as recorded: kind_id, value, payload"
        ),
        "{notes}"
    );
    ok(&run.call(&["package", "-d", "set", "-c", "--copy"]));
    check(&run, "set.rpdb", &operations, &added);
}

#[test]
fn rows_of_unknown_tables_keep_their_guid_and_other_tables_are_named() {
    let run = Run::new(&two());
    for made in &run.made {
        let suffix = made.truth.guid.replace('-', "_");
        Connection::open(&made.path)
            .unwrap()
            .execute_batch(&format!(
                "CREATE TABLE \"rocpd_odd_{suffix}\" (id INTEGER PRIMARY KEY, guid TEXT); \
                 INSERT INTO \"rocpd_odd_{suffix}\" (guid) VALUES ('g'), (NULL); \
                 CREATE TABLE my_notes (id INTEGER PRIMARY KEY, note TEXT); INSERT INTO my_notes (note) VALUES ('a'), ('b'), ('c')"
            ))
            .unwrap();
    }
    let info = ok(&run.call(&["info"]));
    let line = "3  my_notes  (not part of the format: merge leaves it out)";
    assert_eq!(info.matches(line).count(), 2, "{info}");
    let document: serde_json::Value =
        serde_json::from_str(&ok(&run.call(&["info", "--json"]))).unwrap();
    assert_eq!(document["partitions"][1]["other_tables"]["my_notes"], 3);
    let output = run.call(&["merge", "-d", "out", "-o", "verbatim"]);
    ok(&output);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        notes.matches("my_notes is not part of the format").count(),
        2
    );
    for input in ["in", "out/verbatim.db"] {
        let sql = "SELECT COALESCE(guid, '-') AS guid FROM rocpd_odd ORDER BY 1";
        assert_eq!(query(&run, input, sql), "-\n-\ng\ng", "{input}");
    }
}

#[test]
fn keys_that_name_nothing_are_kept_in_unknown_tables() {
    let run = Run::new(&two());
    for made in &run.made {
        let suffix = made.truth.guid.replace('-', "_");
        Connection::open(&made.path)
            .unwrap()
            .execute_batch(&format!(
                "CREATE TABLE \"rocpd_odd_{suffix}\" (id TEXT, pid INTEGER, nid INTEGER); \
                 INSERT INTO \"rocpd_odd_{suffix}\" SELECT 'x', 99999999, id FROM \"rocpd_info_node_{suffix}\""
            ))
            .unwrap();
    }
    ok(&run.call(&["merge", "-d", "out", "-o", "new", "--reassign-ids"]));
    let sql = "SELECT O.id, O.pid, N.hostname FROM rocpd_odd O JOIN rocpd_info_node N ON N.id = O.nid ORDER BY 3";
    assert_eq!(
        query(&run, "out/new.db", sql),
        "x\t99999999\thost-0\nx\t99999999\thost-1"
    );
}

#[test]
fn a_table_that_cannot_be_read_is_never_left_out_of_a_merge() {
    for change in [
        "ALTER TABLE \"rocpd_kernel_dispatch_{s}\" RENAME TO kept; \
         CREATE VIEW \"rocpd_kernel_dispatch_{s}\" AS SELECT * FROM kept",
        "CREATE TABLE \"rocpd_newer_{s}\" (id TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "CREATE TABLE \"rocpd_newer_{s}\" (id INTEGER PRIMARY KEY, value, twice AS (value * 2))",
    ] {
        let run = Run::new(&two());
        let suffix = run.made[1].truth.guid.replace('-', "_");
        let plain = Connection::open(&run.made[1].path).unwrap();
        plain
            .execute_batch(&change.replace("{s}", &suffix))
            .unwrap();
        for more in [&[][..], &["--reassign-ids"]] {
            let output = run.call(&[&["merge", "-d", "out", "-o", "m"], more].concat());
            assert_eq!(output.status.code(), Some(3), "{change}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("no plain table"));
            assert!(!run.path("out/m.db").exists());
        }
        assert!(ok(&run.call(&["info"])).contains("healthy: no"), "{change}");
    }
}
