//! Rows with gaps, against SQL over the tables as they are.

use rocpd_db::{Filter, Summary, SummaryOptions};
use rocpd_synth::{Shape, generate};

use crate::planted::{count, open, paths};

#[test]
fn nulls_anywhere_count_as_plain_sql_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        seed: 77,
        steps: 30,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    let table = |base: &str| format!("\"rocpd_{base}_{suffix}\"");
    for (base, column, every) in [
        ("kernel_dispatch", "region_name_id", 5),
        ("kernel_dispatch", "event_id", 7),
        ("kernel_dispatch", "tid", 9),
        ("event", "category_id", 3),
        ("event", "stack_id", 4),
        ("region", "event_id", 6),
        ("memory_copy", "src_agent_id", 2),
        ("memory_copy", "dst_agent_id", 3),
        ("memory_allocate", "agent_id", 2),
        ("memory_allocate", "event_id", 5),
        ("info_kernel_symbol", "display_name", 4),
    ] {
        let base = table(base);
        let sql = format!("UPDATE {base} SET {column} = NULL WHERE id % {every} = 1");
        assert!(plain.execute(&sql, []).unwrap() > 0, "{base} {column}");
    }
    let number = |sql: &str| -> i64 { plain.query_row(sql, [], |row| row.get(0)).unwrap() };
    let kernels = format!(
        "FROM {} K JOIN {} A ON A.id = K.agent_id JOIN {} E ON E.id = K.event_id JOIN {} R ON R.id = K.region_name_id \
         JOIN {} S ON S.id = K.kernel_id JOIN {} Q ON Q.id = K.queue_id JOIN {} T ON T.id = K.tid",
        table("kernel_dispatch"),
        table("info_agent"),
        table("event"),
        table("string"),
        table("info_kernel_symbol"),
        table("info_queue"),
        table("info_thread"),
    );
    let regions = format!(
        "FROM {} K JOIN {} E ON E.id = K.event_id JOIN {} N ON N.id = K.name_id JOIN {} T ON T.id = K.tid",
        table("region"),
        table("event"),
        table("string"),
        table("info_thread"),
    );
    let copies = format!(
        "FROM {} K JOIN {} N ON N.id = K.name_id JOIN {} D ON D.id = K.dst_agent_id JOIN {} S ON S.id = K.src_agent_id \
         JOIN {} E ON E.id = K.event_id JOIN {} T ON T.id = K.tid",
        table("memory_copy"),
        table("string"),
        table("info_agent"),
        table("info_agent"),
        table("event"),
        table("info_thread"),
    );
    let allocations = format!(
        "FROM {} K JOIN {} E ON E.id = K.event_id JOIN {} T ON T.id = K.tid",
        table("memory_allocate"),
        table("event"),
        table("info_thread"),
    );
    let set = open(&paths(&made));
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    for (view, joined) in [
        ("kernels", kernels),
        ("regions", regions),
        ("memory_copies", copies),
        ("memory_allocations", allocations),
    ] {
        let rows = number(&format!("SELECT COUNT(*) {joined}"));
        let total = number(&format!("SELECT SUM(K.\"end\" - K.start) {joined}"));
        assert!(rows > 0, "{view}");
        assert_eq!(
            count(&set, &format!("SELECT COUNT(*) FROM {view}")),
            rows,
            "{view}"
        );
        let sum = format!("SELECT SUM(duration) FROM {view}");
        assert_eq!(count(&set, &sum), total, "{view}");
        let Some(found) = summary.views.iter().find(|found| found.view == view) else {
            continue;
        };
        let found = found.overall();
        let calls: u64 = found.iter().map(|row| row.stat.calls).sum();
        let summed: i128 = found.iter().map(|row| row.stat.total_ns).sum();
        assert_eq!(
            (i64::try_from(calls).unwrap(), summed),
            (rows, i128::from(total)),
            "{view}"
        );
    }
}
