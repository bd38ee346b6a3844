//! Rows with gaps, against SQL over the tables as they are.

use rocpd_db::{
    Dispatch, Error, Filter, KernelNames, Order, Region, Stat, Summary, SummaryOptions, ViewScan,
};
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
    // Kernels that the recording has no name for are called as other things without name.
    let unnamed = number(&format!(
        "SELECT COUNT(*) {kernels} WHERE S.display_name IS NULL"
    ));
    let view = summary.views.iter().find(|view| view.view == "kernels");
    let rows = view.unwrap().overall();
    let row = rows.iter().find(|row| row.name == "<none>").unwrap();
    assert_eq!(i64::try_from(row.stat.calls).unwrap(), unnamed);
    let mut mangled = SummaryOptions::default();
    mangled.names.mangled = true;
    let named = Summary::collect(&set, &filter, &mangled).unwrap();
    let kernels_named = named.views[0].overall();
    assert!(kernels_named.iter().all(|row| row.name != "<none>"));
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

/// Scans and SQL must agree on what the views join: a process that no row describes is none.
#[test]
fn rows_of_unknown_processes_are_in_no_view() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    plain.pragma_update(None, "foreign_keys", false).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    let set = |what: &str, table: &str, rest: &str| {
        let sql = format!("UPDATE \"rocpd_{table}_{suffix}\" SET {what} WHERE {rest}");
        u64::try_from(plain.execute(&sql, []).unwrap()).unwrap()
    };
    let before = {
        let set = open(&paths(&made));
        let filter = Filter::default();
        Summary::collect(&set, &filter, &SummaryOptions::default())
            .unwrap()
            .lost
    };
    // Rows that were in their views before.
    let lost = [
        set("pid = 99", "region", "id % 3 = 0 AND event_id > 0"),
        set(
            "pid = 99",
            "memory_copy",
            "id % 2 = 0 AND src_agent_id >= 0",
        ),
        set("pid = 99", "memory_allocate", "id % 2 = 0"),
        set("pid = NULL", "track", "1"),
    ];
    // The view of dispatches joins the process of the queue; that of the dispatch does not matter.
    set("pid = 99", "kernel_dispatch", "id % 2 = 0");
    let queue = "id = (SELECT MIN(queue_id) FROM \"rocpd_kernel_dispatch_{suffix}\")";
    set(
        "pid = 99",
        "info_queue",
        &queue.replace("{suffix}", &suffix),
    );
    assert!(lost.iter().all(|rows| *rows > 0), "{lost:?}");

    let set = open(&paths(&made));
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    let found = summary.lost;
    assert_eq!(
        [
            found.regions,
            found.copies,
            found.allocations,
            found.samples
        ],
        [
            before.regions + lost[0],
            before.copies + lost[1],
            before.allocations + lost[2],
            made[0].truth.samples
        ]
    );
    assert!(found.dispatches > before.dispatches);
    for view in ["kernels", "regions", "memory_copies", "memory_allocations"] {
        let mut rows = 0;
        ViewScan::of_query(&format!("SELECT * FROM {view}"))
            .unwrap()
            .each(&set, None, |_| {
                rows += 1;
                Ok::<(), Error>(())
            })
            .unwrap();
        let joined = count(&set, &format!("SELECT COUNT(*) FROM {view}"));
        assert_eq!(rows, joined, "{view}");
    }
    let calls: u64 = summary
        .views
        .iter()
        .filter(|view| view.view == "kernels")
        .flat_map(|view| view.overall())
        .map(|row| row.stat.calls)
        .sum();
    let kernels = count(&set, "SELECT COUNT(*) FROM kernels");
    assert_eq!(i64::try_from(calls).unwrap(), kernels);
}

#[test]
fn shares_and_deviations_that_are_not_defined_are_none() {
    let mut stat = Stat::default();
    stat.add(0);
    assert_eq!(stat.share_pct(0), None);
    assert_eq!(stat.share_pct(5), Some(0.0));

    // Every kernel is called otherwise: no name has a deviation, so there is no sum of them either.
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    let sql = format!(
        "DELETE FROM \"rocpd_kernel_dispatch_{suffix}\" WHERE id NOT IN (SELECT MIN(id) FROM \"rocpd_kernel_dispatch_{suffix}\" GROUP BY kernel_id)"
    );
    plain.execute(&sql, []).unwrap();
    let set = open(&paths(&made));
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    let domains = summary.domains();
    let kernels = domains.iter().find(|row| row.name == "KERNELS").unwrap();
    assert!(kernels.stat.calls > 1);
    assert_eq!(kernels.sum_of_stddevs_ns, None);
}

#[test]
fn an_empty_message_is_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    let sql = format!(
        "UPDATE \"rocpd_event_{suffix}\" SET extdata = '{{\"message\": \"\"}}' WHERE extdata LIKE '%message%'"
    );
    assert!(plain.execute(&sql, []).unwrap() > 0);
    let set = open(&paths(&made));
    let filter = Filter::default();
    let mut markers = 0;
    for region in set.scan::<Region<'_>>(&filter, Order::Stored).unwrap() {
        let region = region.unwrap();
        if region.message.as_deref() == Some("") {
            markers += 1;
            assert_eq!(region.shown_name(), region.name);
            assert!(region.name.is_some_and(|name| !name.is_empty()));
        }
    }
    assert!(markers > 0);
}

#[test]
fn properties_that_are_no_json_take_no_view_away() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let views = ["kernel_symbols", "code_objects", "stream_args", "steps"];
    let before = views.map(|view| {
        count(
            &open(&paths(&made)),
            &format!("SELECT COUNT(*) FROM {view}"),
        )
    });
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    for table in ["info_kernel_symbol", "info_code_object", "arg", "event"] {
        let table = format!("\"rocpd_{table}_{suffix}\"");
        let sql = format!(
            "UPDATE {table} SET extdata = '{{\"size\":' WHERE id = (SELECT MIN(id) FROM {table})"
        );
        assert_eq!(plain.execute(&sql, []).unwrap(), 1);
    }
    let set = open(&paths(&made));
    for (view, before) in views.into_iter().zip(before) {
        // Every row is made, not only counted: the broken text is looked at.
        let session = set.sql(None, KernelNames::default()).unwrap();
        let mut statement = session.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let mut rows = statement.query(&[]).unwrap();
        let mut found = 0;
        while rows.next().unwrap().is_some() {
            found += 1;
        }
        let lost = i64::from(view == "stream_args");
        assert!(
            found == before || found == before - lost,
            "{view}: {found} of {before}"
        );
        assert!(found > 0 || view == "stream_args", "{view}");
    }
}

/// The view of dispatches shows the process of the queue, and so do scans.
#[test]
fn dispatches_on_a_queue_of_another_process_are_of_that_one() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let plain = rusqlite::Connection::open(&made[0].path).unwrap();
    let suffix = made[0].truth.guid.replace('-', "_");
    plain
        .execute_batch(&format!(
            "INSERT INTO \"rocpd_info_process_{suffix}\" (id, nid, pid) SELECT 98765, nid, 98765 FROM \"rocpd_info_process_{suffix}\"; \
             UPDATE \"rocpd_info_queue_{suffix}\" SET pid = 98765 WHERE id = (SELECT MAX(queue_id) FROM \"rocpd_kernel_dispatch_{suffix}\")"
        ))
        .unwrap();
    let set = open(&paths(&made));
    let other = count(&set, "SELECT COUNT(*) FROM kernels WHERE pid = 98765");
    assert!(other > 0);
    let filter = Filter {
        pids: Some(vec![98765]),
        ..Filter::default()
    };
    let dispatches = set
        .scan::<Dispatch<'_>>(&filter, Order::Stored)
        .unwrap()
        .filter(|dispatch| dispatch.as_ref().unwrap().in_view())
        .count();
    assert_eq!(i64::try_from(dispatches).unwrap(), other);
    // Both have one guid, and rows of their own in summaries by rank.
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    let of_other = |process: usize| summary.processes[process].pid == 98765;
    let kernels = summary.views.iter().find(|v| v.view == "kernels").unwrap();
    let by_rank = kernels.by_rank(&summary.processes);
    let own = by_rank.iter().filter(|row| of_other(row.process));
    let calls: u64 = own.map(|row| row.stat.calls).sum();
    assert_eq!(i64::try_from(calls).unwrap(), other);
    for view in &summary.views {
        let calls =
            |rows: &[rocpd_db::SummaryRow]| -> u64 { rows.iter().map(|r| r.stat.calls).sum() };
        let by_rank = view.by_rank(&summary.processes);
        assert_eq!(calls(&by_rank), calls(&view.overall()), "{}", view.view);
        assert!(view.view == "kernels" || by_rank.iter().all(|row| !of_other(row.process)));
    }
}
