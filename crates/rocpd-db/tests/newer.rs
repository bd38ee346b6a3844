//! Records that only newer generations have.

use rocpd_db::{Filter, Summary, SummaryOptions};
use rocpd_synth::{Shape, generate};

use crate::planted::{open, paths};

#[test]
fn a_trace_tells_that_kernels_were_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        generation: 5,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    let limit = || {
        let set = open(&paths(&made));
        let trace = rocpd_db::load(&set, &Filter::default()).unwrap();
        trace.meta().limit("kernel_replay").cloned()
    };
    assert_eq!(limit(), None);
    let mut repeated = 0;
    for made in &made {
        let suffix = made.truth.guid.replace('-', "_");
        let plain = rusqlite::Connection::open(&made.path).unwrap();
        let sql = format!(
            "UPDATE \"rocpd_kernel_dispatch_{suffix}\" SET replay_pass = id % 3 WHERE id <= 9"
        );
        assert_eq!(plain.execute(&sql, []).unwrap(), 9);
        repeated += 6;
    }
    let found = limit().unwrap();
    assert_eq!((found.count, found.is_reason), (repeated, false));
    assert!(
        found.text.contains(&format!("{repeated} dispatches")),
        "{}",
        found.text
    );
    assert!(found.text.contains("(3 passes)"), "{}", found.text);
}

#[test]
fn launches_of_graphs_are_summarised() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        generation: 2,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    // Launches that take as long as the dispatches they stand for, and one whose process nobody knows.
    plain
        .execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS \"rocpd_graph_launch_{suffix}\" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, \
             tid INTEGER, agent_id INTEGER, queue_id INTEGER, start BIGINT, \"end\" BIGINT, graph_exec_id INTEGER, \
             kernel_dispatch_count INTEGER, event_id INTEGER); \
             INSERT INTO \"rocpd_graph_launch_{suffix}\" SELECT id, guid, nid, pid, tid, agent_id, queue_id, start, \"end\", 1, 1, event_id \
             FROM \"rocpd_kernel_dispatch_{suffix}\" WHERE event_id IS NOT NULL AND id % 3 = 0; \
             INSERT INTO \"rocpd_graph_launch_{suffix}\" SELECT NULL, guid, nid, 99, tid, agent_id, queue_id, start, \"end\", 1, 1, event_id \
             FROM \"rocpd_kernel_dispatch_{suffix}\" LIMIT 1"
        ))
        .unwrap();
    let (calls, total): (i64, i64) = plain
        .query_row(
            &format!(
                "SELECT COUNT(*), SUM(\"end\" - start) FROM \"rocpd_kernel_dispatch_{suffix}\" \
                 WHERE event_id IS NOT NULL AND id % 3 = 0"
            ),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let set = open(&paths(&made));
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    let view = summary
        .views
        .iter()
        .find(|view| view.view == "graph_launches")
        .unwrap();
    let rows = view.overall();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].name, "KERNEL_DISPATCH");
    assert_eq!(i64::try_from(rows[0].stat.calls).unwrap(), calls);
    assert_eq!(rows[0].stat.total_ns, i128::from(total));
    assert!(
        summary
            .domains()
            .iter()
            .any(|row| row.name == "GRAPH_LAUNCHES" && row.stat.total_ns == i128::from(total))
    );
    // They count for the span of the recording too.
    let before = set.time_bounds(&filter).unwrap().unwrap();
    let late = before.last_ns + 1000;
    plain
        .execute(
            &format!("UPDATE \"rocpd_graph_launch_{suffix}\" SET \"end\" = ?1 WHERE id = 3"),
            [late],
        )
        .unwrap();
    let after = open(&paths(&made)).time_bounds(&filter).unwrap().unwrap();
    assert_eq!((after.first_ns, after.last_ns), (before.first_ns, late));
}
