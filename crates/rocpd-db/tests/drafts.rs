//! Call stacks and source lines of the 4.1.0 draft, and drafts and older formats that are not read.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use rocpd_db::{
    Error, Filter, KernelNames, MergeOptions, OpenOptions, Order, Region, RocpdSet, SqlValue, merge,
};
use rocpd_synth::{Made, Shape, generate};
use rusqlite::Connection;

use crate::planted::{open, paths};

fn lines(set: &RocpdSet, sql: &str) -> Vec<String> {
    let session = set.sql(None, KernelNames::default()).unwrap();
    let mut statement = session.prepare(sql).unwrap();
    let mut rows = statement.query(&[]).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        match row.get(0) {
            SqlValue::Text(text) => out.push(text.to_owned()),
            other => panic!("{other:?}"),
        }
    }
    out
}

/// Gives each third event a stack of two frames and a source line, in the tables of the draft, and returns the stacks.
fn with_stacks(made: &[Made]) -> Vec<String> {
    let mut expected = Vec::new();
    for (number, made) in made.iter().enumerate() {
        let s = made.truth.guid.replace('-', "_");
        let plain = Connection::open(&made.path).unwrap();
        plain
            .execute_batch(&format!(
                "ALTER TABLE \"rocpd_event_{s}\" DROP COLUMN call_stack; ALTER TABLE \"rocpd_event_{s}\" DROP COLUMN line_info; \
                 CREATE TABLE \"rocpd_info_address_range_{s}\" (id INTEGER PRIMARY KEY, guid TEXT, nid, pid, address_base BIGINT, \
                 address_low BIGINT, address_high BIGINT); \
                 CREATE TABLE \"rocpd_info_pc_{s}\" (id INTEGER PRIMARY KEY, guid TEXT, nid, pid, function TEXT, address_id INTEGER, \
                 file TEXT, line INTEGER); \
                 CREATE TABLE \"rocpd_info_source_code_{s}\" (id INTEGER PRIMARY KEY, guid TEXT, nid, pid, address_id INTEGER, \
                 file TEXT, line_number INTEGER, lines, instructions); \
                 CREATE TABLE \"rocpd_call_stack_{s}\" (id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pc_id INTEGER, depth INTEGER); \
                 CREATE TABLE \"rocpd_line_info_{s}\" (id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, source_code_id INTEGER, \
                 pc_id INTEGER); \
                 INSERT INTO \"rocpd_info_address_range_{s}\" VALUES (5, '{g}', 1, 1, 4096, 4100, 4200); \
                 INSERT INTO \"rocpd_info_pc_{s}\" VALUES (7, '{g}', 1, 1, 'inner{number}', 5, 'a.cpp', 10), \
                 (8, '{g}', 1, 1, 'outer', NULL, 'b.cpp', 20); \
                 INSERT INTO \"rocpd_info_source_code_{s}\" VALUES (3, '{g}', 1, 1, 5, 'c.cpp', 33, '[]', '[]'); \
                 INSERT INTO \"rocpd_call_stack_{s}\" (guid, event_id, pc_id, depth) \
                 SELECT guid, id, 8, 1 FROM \"rocpd_event_{s}\" WHERE id % 3 = 0; \
                 INSERT INTO \"rocpd_call_stack_{s}\" (guid, event_id, pc_id, depth) \
                 SELECT guid, id, 7, 0 FROM \"rocpd_event_{s}\" WHERE id % 3 = 0; \
                 INSERT INTO \"rocpd_line_info_{s}\" (guid, event_id, source_code_id, pc_id) \
                 SELECT guid, id, 3, 7 FROM \"rocpd_event_{s}\" WHERE id % 3 = 0",
                g = made.truth.guid
            ))
            .unwrap();
        let sql = format!("SELECT COUNT(*) FROM \"rocpd_region_{s}\" WHERE event_id % 3 = 0");
        let regions: i64 = plain.query_row(&sql, [], |row| row.get(0)).unwrap();
        for _ in 0..regions {
            expected.push(format!(
                "[{{\"depth\":0,\"function\":\"inner{number}\",\"file\":\"a.cpp\",\"line\":10}},\
                 {{\"depth\":1,\"function\":\"outer\",\"file\":\"b.cpp\",\"line\":20}}]"
            ));
        }
    }
    expected.sort();
    assert!(expected.len() > 4);
    expected
}

fn check(set: &RocpdSet, expected: &[String]) {
    // Typed records have the same.
    let filter = Filter {
        texts: true,
        ..Filter::default()
    };
    let mut typed = Vec::new();
    let mut sources = 0;
    for region in set.scan::<Region<'_>>(&filter, Order::Stored).unwrap() {
        // A region without event has no texts.
        let texts = region.unwrap().texts.unwrap_or_default();
        typed.extend(texts.call_stack);
        sources += usize::from(texts.line_info.is_some());
    }
    typed.sort();
    assert_eq!(typed, expected);
    assert_eq!(sources, expected.len());
    let stacks = "SELECT call_stack FROM regions WHERE call_stack IS NOT NULL ORDER BY 1";
    assert_eq!(lines(set, stacks), expected);
    let sources = lines(
        set,
        "SELECT line_info FROM regions WHERE line_info IS NOT NULL",
    );
    assert_eq!(sources.len(), expected.len());
    assert!(
        sources
            .iter()
            .all(|line| line.contains("\"file\":\"c.cpp\",\"line\":33"))
    );
    // The same frames one by one, and through the tables of the draft.
    let frames = lines(
        set,
        "SELECT C.function || ' ' || C.depth || ' ' || COALESCE(C.address_low, '') AS line FROM call_stacks C \
         JOIN rocpd_region R ON R.event_id = C.event_id AND R.guid = C.guid",
    );
    assert_eq!(frames.len(), 2 * expected.len());
    assert!(frames.iter().any(|line| line.starts_with("inner0 0 4100")));
    let files = lines(
        set,
        "SELECT file FROM source_lines UNION SELECT file FROM rocpd_info_pc",
    );
    assert_eq!(files, ["a.cpp", "b.cpp", "c.cpp"]);
}

#[test]
fn call_stacks_and_source_lines_of_the_draft_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 2,
        nodes: 2,
        ..Shape::small()
    };
    let made = generate(&folder.path().join("in"), &shape).unwrap();
    let expected = with_stacks(&made);
    let set = open(&paths(&made));
    check(&set, &expected);
    let odd: Vec<String> = set
        .orphans()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(odd.iter().all(|line| !line.contains("rocpd_call_stack")));
    // A frame whose address nobody knows is reported.
    let s = made[0].truth.guid.replace('-', "_");
    Connection::open(&made[0].path)
        .unwrap()
        .execute_batch(&format!(
            "INSERT INTO \"rocpd_call_stack_{s}\" (guid, event_id, pc_id, depth) SELECT guid, 1, 4711, 5 FROM \"rocpd_info_node_{s}\""
        ))
        .unwrap();
    let odd = open(&paths(&made)).orphans().unwrap();
    let frames = odd
        .iter()
        .find(|odd| odd.table == "rocpd_call_stack")
        .unwrap();
    assert_eq!((frames.column, frames.rows), ("pc_id", 1));
    Connection::open(&made[0].path)
        .unwrap()
        .execute_batch(&format!(
            "DELETE FROM \"rocpd_call_stack_{s}\" WHERE pc_id = 4711"
        ))
        .unwrap();
    let set = open(&paths(&made));
    for reassign_ids in [false, true] {
        let mut options = MergeOptions::default();
        let merged = folder.path().join("merged.db");
        options.reassign_ids = reassign_ids;
        merge(&set, &merged, &options).unwrap();
        check(&open(&[merged]), &expected);
    }
}

#[test]
fn other_formats_and_drafts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, sql: &str| {
        let path = folder.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        RocpdSet::open(&[path], &OpenOptions::default()).unwrap_err()
    };
    // The tables of rocmProfileData, of which two have names of this format.
    let error = refused(
        "old.rpd",
        "CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid, tid, start, end, apiName_id, args_id); \
         CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id); \
         CREATE TABLE rocpd_kernelapi (api_ptr_id INTEGER PRIMARY KEY, stream, gridX); \
         CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT); \
         CREATE TABLE rocpd_metadata (id INTEGER PRIMARY KEY, tag TEXT, value TEXT); \
         INSERT INTO rocpd_metadata (tag, value) VALUES ('schema_version', '2')",
    );
    assert!(matches!(error, Error::NotRocpd { .. }));
    assert!(error.to_string().contains("rocmProfileData"), "{error}");
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let s = made[0].truth.guid.replace('-', "_");
    let plain = Connection::open(&made[0].path).unwrap();
    plain
        .execute_batch(&format!(
            "CREATE TABLE \"rocpd_blob_event_{s}\" (id INTEGER PRIMARY KEY, payload BLOB); \
             INSERT INTO \"rocpd_blob_event_{s}\" (payload) VALUES (x'01'), (x'02')"
        ))
        .unwrap();
    let set = open(&paths(&made));
    assert!(set.warnings()[0].contains("2 rows of rocpd_blob_event"));
    drop(set);
    plain
        .execute_batch(&format!(
            "INSERT INTO \"rocpd_metadata_{s}\" (tag, value) VALUES ('compression', 'lz4-frame-v1')"
        ))
        .unwrap();
    let error = RocpdSet::open(&paths(&made), &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Compressed { .. }), "{error}");
}

/// Texts that are compressed without the metadata saying so are named: when the file is opened, and where they are read.
#[test]
fn compressed_texts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let s = made[0].truth.guid.replace('-', "_");
    let set = open(&paths(&made));
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
    drop(set);
    let plain = Connection::open(&made[0].path).unwrap();
    let changed = plain
        .execute(
            &format!(
                "UPDATE \"rocpd_event_{s}\" SET extdata = x'04224d1864405c' WHERE extdata LIKE '%message%'"
            ),
            [],
        )
        .unwrap();
    assert!(changed > 0);
    drop(plain);
    let set = open(&paths(&made));
    let said = &set.warnings()[0];
    assert!(
        said.contains("extdata of rocpd_event") && said.contains("compressed with LZ4, not read"),
        "{said}"
    );
    for region in set
        .scan::<Region<'_>>(&Filter::default(), Order::Stored)
        .unwrap()
    {
        region.unwrap();
    }
    let issues = set.issues();
    let [issue] = issues.as_slice() else {
        panic!("{issues:?}");
    };
    assert!(
        issue.only_value && (1..=changed as u64).contains(&issue.count),
        "{issue}"
    );
    assert!(
        issue
            .to_string()
            .contains("read without a value: column extdata has a text compressed with LZ4"),
        "{issue}"
    );
}

/// Rows of the metadata that this version does not know stay, with what process they are of; so do tables and columns.
#[test]
fn new_ids_keep_the_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    for (number, made) in made.iter().enumerate() {
        let s = made.truth.guid.replace('-', "_");
        Connection::open(&made.path)
            .unwrap()
            .execute_batch(&format!(
                "ALTER TABLE \"rocpd_metadata_{s}\" ADD COLUMN note TEXT; \
                 INSERT INTO \"rocpd_metadata_{s}\" (tag, value, note) VALUES ('driver', '6.{number}', 'a'), ('driver', 'same', NULL); \
                 CREATE TABLE \"rocpd_metadata_extra_{s}\" (id INTEGER PRIMARY KEY, key TEXT, agent_id INTEGER); \
                 INSERT INTO \"rocpd_metadata_extra_{s}\" (key, agent_id) SELECT 'of agent', id FROM \"rocpd_info_agent_{s}\""
            ))
            .unwrap();
    }
    let rows = |path: &std::path::Path, sql: &str| -> Vec<(String, String)> {
        let plain = Connection::open(path).unwrap();
        let mut statement = plain.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let mut options = MergeOptions::default();
    options.reassign_ids = true;
    let merged = folder.path().join("merged.db");
    merge(&open(&paths(&made)), &merged, &options).unwrap();
    // Merged again, nothing is lost or said twice.
    let again = folder.path().join("again.db");
    merge(&open(std::slice::from_ref(&merged)), &again, &options).unwrap();
    for path in [merged, again] {
        let found = rows(
            &path,
            "SELECT guid, value || COALESCE(note, '') FROM rocpd_metadata WHERE tag = 'driver' ORDER BY id",
        );
        let expected: Vec<(String, String)> = made
            .iter()
            .enumerate()
            .flat_map(|(number, made)| {
                let guid = &made.truth.guid;
                [
                    (guid.clone(), format!("6.{number}a")),
                    (guid.clone(), "same".to_owned()),
                ]
            })
            .collect();
        assert_eq!(found, expected);
        let schemas = rows(
            &path,
            "SELECT tag, COUNT(*) || '' FROM rocpd_metadata WHERE tag IN ('schema_version', 'guid') GROUP BY tag ORDER BY tag",
        );
        assert!(schemas.iter().all(|(_, count)| count == "1"), "{schemas:?}");
        // The other table goes on naming the agents that it named.
        let agents = rows(
            &path,
            "SELECT X.guid, A.guid FROM rocpd_metadata_extra X LEFT JOIN rocpd_info_agent A ON A.id = X.agent_id",
        );
        assert!(
            !agents.is_empty() && agents.iter().all(|(a, b)| a == b),
            "{agents:?}"
        );
    }
}
