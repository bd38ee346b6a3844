//! Keys that name no row are counted, and only those.

use rocpd_synth::{Shape, generate};

use crate::planted::{open, paths};

#[test]
fn keys_that_name_no_row_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    assert_eq!(open(&paths(&made)).orphans().unwrap(), []);
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    plain.pragma_update(None, "foreign_keys", false).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    let table = |base: &str| format!("\"rocpd_{base}_{suffix}\"");
    // What is broken, and that NULL is allowed in some columns.
    for (base, change) in [
        ("arg", "event_id = 900000 + id WHERE id % 7 = 2"),
        ("region", "tid = 77 WHERE id % 5 = 1"),
        ("region", "pid = -3 WHERE id % 6 = 1"),
        ("region", "event_id = NULL WHERE id % 11 = 1"),
        ("kernel_dispatch", "agent_id = 99 WHERE id % 3 = 0"),
        ("kernel_dispatch", "kernel_id = 9999 WHERE id % 4 = 0"),
        (
            "kernel_dispatch",
            "region_name_id = 123456 WHERE id % 9 = 0",
        ),
        ("memory_copy", "src_agent_id = 99 WHERE id % 2 = 0"),
        (
            "info_thread",
            "pid = 4711 WHERE id = (SELECT MAX(id) FROM {})",
        ),
    ] {
        let base = table(base);
        let sql = format!("UPDATE {base} SET {}", change.replace("{}", &base));
        assert!(plain.execute(&sql, []).unwrap() > 0, "{sql}");
    }
    // Rows without what they name, and a hole among the ids.
    let events = table("event");
    let sql = format!("DELETE FROM {events} WHERE id % 13 = 4");
    assert!(plain.execute(&sql, []).unwrap() > 0);
    let found: Vec<_> = open(&paths(&made))
        .orphans()
        .unwrap()
        .into_iter()
        .map(|o| (o.table, o.column, o.target, o.rows, o.first_rowid))
        .collect();
    let mut expected = Vec::new();
    for (base, column, target) in [
        ("rocpd_info_thread", "pid", "rocpd_info_process"),
        ("rocpd_arg", "event_id", "rocpd_event"),
        ("rocpd_pmc_event", "event_id", "rocpd_event"),
        ("rocpd_region", "pid", "rocpd_info_process"),
        ("rocpd_region", "tid", "rocpd_info_thread"),
        ("rocpd_region", "event_id", "rocpd_event"),
        ("rocpd_sample", "event_id", "rocpd_event"),
        ("rocpd_kernel_dispatch", "agent_id", "rocpd_info_agent"),
        (
            "rocpd_kernel_dispatch",
            "kernel_id",
            "rocpd_info_kernel_symbol",
        ),
        ("rocpd_kernel_dispatch", "region_name_id", "rocpd_string"),
        ("rocpd_kernel_dispatch", "event_id", "rocpd_event"),
        ("rocpd_memory_copy", "src_agent_id", "rocpd_info_agent"),
        ("rocpd_memory_copy", "event_id", "rocpd_event"),
        ("rocpd_memory_allocate", "event_id", "rocpd_event"),
    ] {
        let name = |base: &str| format!("\"{base}_{suffix}\"");
        let sql = format!(
            "SELECT COUNT(*), MIN(id) FROM {} WHERE {column} NOT IN (SELECT id FROM {})",
            name(base),
            name(target)
        );
        let (rows, first): (i64, Option<i64>) = plain
            .query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        if let Some(first) = first {
            let rows = u64::try_from(rows).unwrap();
            expected.push((base, column, target, rows, first));
        }
    }
    assert!(expected.len() > 8, "{expected:?}");
    assert_eq!(found, expected);
}

#[test]
fn a_name_that_must_be_there_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    // The columns of this file say NOT NULL: a writer that does not.
    plain
        .execute_batch(&format!(
            "CREATE TABLE made AS SELECT * FROM \"rocpd_sample_{suffix}\"; DROP TABLE \"rocpd_sample_{suffix}\"; \
             UPDATE made SET track_id = NULL WHERE id % 2 = 0; ALTER TABLE made RENAME TO \"rocpd_sample_{suffix}\""
        ))
        .unwrap();
    let sql = format!("SELECT COUNT(*) FROM \"rocpd_sample_{suffix}\" WHERE track_id IS NULL");
    let missing: i64 = plain.query_row(&sql, [], |row| row.get(0)).unwrap();
    let found = open(&paths(&made)).orphans().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].column, i64::try_from(found[0].rows).unwrap()),
        ("track_id", missing)
    );
    assert!(missing > 0);
    let said = found[0].to_string();
    assert!(
        said.contains("rows of rocpd_sample name no row of rocpd_track"),
        "{said}"
    );
}
