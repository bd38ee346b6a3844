//! Tests of counters of replayed dispatches, and counters sampled while kernels run.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::csv::csv;
use crate::support::{Run, ok, two};

/// Returns guid and suffix of each database, and a connection to it.
fn databases(run: &Run) -> Vec<(String, String, Connection)> {
    let open = |made: &rocpd_synth::Made| {
        let guid = made.truth.guid.clone();
        let suffix = format!("_{}", guid.replace('-', "_"));
        (guid, suffix, Connection::open(&made.path).unwrap())
    };
    run.made.iter().map(open).collect()
}

#[test]
fn passes_of_kernel_replay_are_never_added_up() {
    let mut shape = two();
    shape.generation = 5;
    let run = Run::new(&shape);
    let mut expected = BTreeMap::new();
    let mut added = 0;
    for (guid, suffix, plain) in databases(&run) {
        // Every third dispatch runs two more times; each pass has its own event, times and values.
        plain
            .execute_batch(&format!(
                "UPDATE \"rocpd_kernel_dispatch{suffix}\" SET replay_pass = 0 WHERE id % 3 = 0;"
            ))
            .unwrap();
        for pass in 1..3 {
            let by = 1_000_000 * pass;
            plain
                .execute_batch(&format!(
                    "INSERT INTO \"rocpd_event{suffix}\" (id, guid, category_id, stack_id, parent_stack_id, correlation_id) \
                     SELECT E.id + {by}, E.guid, category_id, stack_id, parent_stack_id, correlation_id FROM \"rocpd_event{suffix}\" E \
                     JOIN \"rocpd_kernel_dispatch{suffix}\" K ON K.event_id = E.id WHERE K.replay_pass = 0; \
                     INSERT INTO \"rocpd_pmc_event{suffix}\" (guid, event_id, pmc_id, value) \
                     SELECT P.guid, P.event_id + {by}, pmc_id, value * 2 + {pass} FROM \"rocpd_pmc_event{suffix}\" P \
                     JOIN \"rocpd_kernel_dispatch{suffix}\" K ON K.event_id = P.event_id WHERE K.replay_pass = 0; \
                     CREATE TEMP TABLE pass AS SELECT * FROM \"rocpd_kernel_dispatch{suffix}\" WHERE replay_pass = 0; \
                     UPDATE temp.pass SET id = NULL, event_id = event_id + {by}, start = start + 7, \"end\" = \"end\" + 7, replay_pass = {pass}; \
                     INSERT INTO \"rocpd_kernel_dispatch{suffix}\" SELECT * FROM temp.pass; DROP TABLE temp.pass"
                ))
                .unwrap();
        }
        let mut statement = plain
            .prepare(&format!(
                "SELECT K.dispatch_id, COALESCE(K.replay_pass, ''), I.name, SUM(P.value) FROM \"rocpd_pmc_event{suffix}\" P \
                 JOIN \"rocpd_info_pmc{suffix}\" I ON I.id = P.pmc_id \
                 JOIN \"rocpd_kernel_dispatch{suffix}\" K ON K.event_id = P.event_id GROUP BY P.event_id, I.name"
            ))
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let pass = match row.get_ref(1).unwrap() {
                rusqlite::types::ValueRef::Integer(pass) => pass.to_string(),
                _ => String::new(),
            };
            added += usize::from(!pass.is_empty() && pass != "0");
            let dispatch: i64 = row.get(0).unwrap();
            let name: String = row.get(2).unwrap();
            let value: f64 = row.get(3).unwrap();
            let key = (guid.clone(), dispatch.to_string(), pass, name);
            assert!(expected.insert(key, value).is_none());
        }
    }
    assert!(added > 0);
    let key = |row: &BTreeMap<String, String>, columns: [&str; 4]| {
        let [a, b, c, d] = columns.map(|column| row[column].clone());
        (a, b, c, d)
    };
    ok(&run.call(&["convert", "-f", "csv", "-d", "out", "-o", "c"]));
    let columns = ["Guid", "Dispatch_Id", "Replay_Pass", "Counter_Name"];
    let found: BTreeMap<_, f64> = csv(&run.path("out/c_counter_collection_trace.csv"))
        .iter()
        .map(|row| (key(row, columns), row["Counter_Value"].parse().unwrap()))
        .collect();
    assert_eq!(found, expected);
    // SQL gives the same, over the inputs and over both kinds of merged files.
    for merge in [&[][..], &["--reassign-ids"]] {
        ok(&run.call(&[&["merge", "-d", "out", "-o", "merged"], merge].concat()));
        for input in ["in", "out/merged.db"] {
            let query = "SELECT guid, dispatch_id, replay_pass, counter_name, value FROM counters_collection";
            let words = [
                "query", "-i", input, "--query", query, "--format", "csv", "-d", "out", "-o", "q",
            ];
            ok(&crate::support::call(run.folder.path(), &words));
            let columns = ["guid", "dispatch_id", "replay_pass", "counter_name"];
            let found: BTreeMap<_, f64> = csv(&run.path("out/q.csv"))
                .iter()
                .map(|row| (key(row, columns), row["value"].parse().unwrap()))
                .collect();
            assert_eq!(found, expected, "{input} {merge:?}");
        }
    }
    let info = ok(&run.call(&["info"]));
    let passes = info.matches("repeat others, in 3 passes").count();
    assert_eq!(passes, run.made.len(), "{info}");
    let output = run.call(&["summary", "-d", "out"]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("passes of kernel replay"), "{notes}");
}

#[test]
fn sampled_counters_name_their_dispatch_and_instance() {
    let mut shape = two();
    shape.generation = 3;
    let run = Run::new(&shape);
    let mut expected = BTreeMap::new();
    for (guid, suffix, plain) in databases(&run) {
        plain
            .execute_batch(&format!(
                "UPDATE \"rocpd_pmc_event{suffix}\" SET sample_id = (SELECT MIN(id) FROM \"rocpd_sample{suffix}\") + id % 5, \
                 xcc = id % 2, shader_engine = CASE WHEN id % 4 > 1 THEN 1 END, instance = id, value = value + 0.25 WHERE id % 2 = 0"
            ))
            .unwrap();
        let mut statement = plain
            .prepare(&format!(
                "SELECT P.instance, P.value, I.name, I.symbol, P.xcc, P.shader_engine, K.dispatch_id, S.display_name, R.timestamp \
                 FROM \"rocpd_pmc_event{suffix}\" P JOIN \"rocpd_info_pmc{suffix}\" I ON I.id = P.pmc_id \
                 JOIN \"rocpd_sample{suffix}\" R ON R.id = P.sample_id \
                 JOIN \"rocpd_kernel_dispatch{suffix}\" K ON K.event_id = P.event_id \
                 JOIN \"rocpd_info_kernel_symbol{suffix}\" S ON S.id = K.kernel_id"
            ))
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let instance: i64 = row.get(0).unwrap();
            let name: String = row.get(2).unwrap();
            let xcc: i64 = row.get(4).unwrap();
            let engine: Option<i64> = row.get(5).unwrap();
            let engine = engine.map_or_else(String::new, |engine| format!(", SE: {engine}"));
            let value: f64 = row.get(1).unwrap();
            expected.insert(
                format!("{name}[XCC: {xcc}{engine}, Instance: {instance}] {guid}"),
                [
                    value.to_string(),
                    row.get::<_, i64>(6).unwrap().to_string(),
                    row.get::<_, String>(7).unwrap(),
                    row.get::<_, i64>(8).unwrap().to_string(),
                ],
            );
        }
    }
    assert!(!expected.is_empty());
    ok(&run.call(&["convert", "-f", "csv", "-d", "out", "-o", "c"]));
    let path = run.path("out/c_spm_counter_collection_trace.csv");
    let rows = csv(&path);
    assert!(rows[0].contains_key("Agent_Id") && rows[0]["Agent_Id"].starts_with("Agent "));
    let found: BTreeMap<_, _> = rows
        .iter()
        .map(|row| {
            let cells = ["Counter_Value", "Dispatch_Id", "Kernel_Name", "Timestamp"];
            (
                format!("{} {}", row["Counter_Name"], row["Guid"]),
                cells.map(|column| row[column].clone()),
            )
        })
        .collect();
    assert_eq!(found, expected);
    // Upstream names, and those used before.
    let query = "SELECT COUNT(*) AS n FROM spm_counters WHERE value = counter_value AND kernel_name IS NOT NULL AND pid IS NOT NULL \
                 AND tid IS NOT NULL AND agent_abs_index IS NOT NULL AND counter_symbol IS NOT NULL AND counter_id = pmc_id";
    let console = ok(&run.call(&["query", "--query", query]));
    let count = console.split_whitespace().last().unwrap();
    assert_eq!(count, expected.len().to_string());
}
