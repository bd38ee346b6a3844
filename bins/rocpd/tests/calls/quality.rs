//! Tests of summaries and `info` on odd data, and of the selection of summaries.

use rocpd_synth::Shape;
use rusqlite::Connection;

use crate::csv::csv;
use crate::support::{Run, call, names_in, ok, two};

/// Runs SQL on each database; `{s}` is replaced by the suffix of its tables.
fn alter(run: &Run, sql: &str) {
    for made in &run.made {
        let suffix = made.truth.guid.replace('-', "_");
        let plain = Connection::open(&made.path).unwrap();
        plain.execute_batch(&sql.replace("{s}", &suffix)).unwrap();
    }
}

#[test]
fn info_is_unhealthy_where_rows_are_left_out_or_times_cannot_be() {
    let cases = [
        (
            "rocpd_kernel_dispatch",
            "start = 10.5",
            "column start has 10.5",
        ),
        (
            "rocpd_memory_copy",
            "\"end\" = 'abc'",
            "column end has the text \"abc\"",
        ),
        (
            "rocpd_sample",
            "timestamp = 'late'",
            "column timestamp has the text \"late\"",
        ),
        (
            "rocpd_pmc_event",
            "pmc_id = 'x'",
            "column pmc_id has the text \"x\"",
        ),
        (
            "rocpd_region",
            "\"end\" = start - 60",
            "rows end before they start",
        ),
        (
            "rocpd_memory_allocate",
            "start = -7",
            "rows have times below 0",
        ),
        ("rocpd_sample", "timestamp = -1", "rows have times below 0"),
        // 193 years; 105 days; the year 2100.
        (
            "rocpd_kernel_dispatch",
            "start = 1, \"end\" = 6100000000000000000",
            "rows last longer than 104 days or lie beyond the year 2043",
        ),
        (
            "rocpd_memory_copy",
            "\"end\" = start + 9072000000000000",
            "rows last longer than 104 days or lie beyond the year 2043",
        ),
        (
            "rocpd_sample",
            "timestamp = 4102444800000000000",
            "rows last longer than 104 days or lie beyond the year 2043",
        ),
        ("rocpd_memory_copy", "size = -5", "rows have sizes below 0"),
        (
            "rocpd_pmc_event",
            "value = 'NaN'",
            "column value has the text \"NaN\"",
        ),
        ("rocpd_pmc_event", "value = NULL", "rows have no value"),
        (
            "rocpd_region",
            "guid = 'someone else'",
            "name no row of rocpd_info_process in column guid",
        ),
    ];
    let plain = Run::new(&two());
    let before = ok(&plain.call(&["info"]));
    for (table, change, expected) in cases {
        let run = Run::new(&two());
        alter(
            &run,
            &format!(
                "UPDATE \"{table}_{{s}}\" SET {change} WHERE id IN (SELECT id FROM \"{table}_{{s}}\" ORDER BY id LIMIT 2)"
            ),
        );
        let info = ok(&run.call(&["info"]));
        assert!(info.contains("healthy: no"), "{table} {change}: {info}");
        let found: Vec<&str> = info.lines().filter(|l| l.contains(expected)).collect();
        assert_eq!(found.len(), 2, "{table} {change}: {info}");
        assert!(found.iter().all(|l| l.contains("2 rows")), "{found:?}");
        assert!(!before.contains(expected));
    }
}

#[test]
fn a_counter_with_an_instance_that_has_no_value_has_no_sum() {
    for value in ["'NaN'", "'inf'", "'-inf'", "NULL", "x'00'"] {
        let run = Run::new(&two());
        let count = |sql: &str| -> String {
            let words = ["query", "--query", sql, "-f", "csv", "-d", "out", "-o", "q"];
            ok(&run.call(&words));
            let rows = csv(&run.path("out/q.csv"));
            rows[0].values().next().cloned().unwrap_or_default()
        };
        let all = count("SELECT COUNT(*) AS n FROM counters_collection");
        let sums = "SELECT COUNT(*) AS n FROM counters_collection WHERE value IS NOT NULL";
        assert_eq!(count(sums), all);
        alter(
            &run,
            &format!(
                "UPDATE \"rocpd_pmc_event_{{s}}\" SET value = {value} WHERE id = (SELECT MIN(P.id) FROM \"rocpd_pmc_event_{{s}}\" P \
                 JOIN \"rocpd_kernel_dispatch_{{s}}\" K ON K.event_id = P.event_id)"
            ),
        );
        let rest = all.parse::<u64>().unwrap() - 2;
        assert_eq!(count(sums), rest.to_string(), "{value}");
        assert_eq!(count("SELECT COUNT(*) AS n FROM counters_collection"), all);
    }
}

#[test]
fn summaries_and_archives_say_what_times_cannot_be() {
    let run = Run::new(&two());
    alter(
        &run,
        "UPDATE \"rocpd_memory_copy_{s}\" SET \"end\" = start - 60 WHERE id IN \
         (SELECT id FROM \"rocpd_memory_copy_{s}\" ORDER BY id LIMIT 3); \
         UPDATE \"rocpd_region_{s}\" SET start = -7 WHERE id IN \
         (SELECT id FROM \"rocpd_region_{s}\" ORDER BY id LIMIT 2)",
    );
    let said = |words: &[&str]| {
        let output = run.call(words);
        ok(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let summary = said(&["summary", "-f", "csv", "-d", "out"]);
    let wanted = "memory_copies: 6 records end before they start";
    assert!(summary.contains(wanted), "{summary}");
    assert_eq!(summary.matches("before they start").count(), 1, "{summary}");
    let archive = said(&["convert", "-f", "otf2", "-d", "out"]);
    assert!(
        archive.contains("4 records begin before time 0"),
        "{archive}"
    );
    assert!(
        archive.contains("6 records end before they start"),
        "{archive}"
    );
    let trace = said(&["convert", "-f", "pftrace", "-d", "out"]);
    assert!(trace.contains("records end before they start"), "{trace}");
    // Time below 0 is no time: shares of the answer are those of the other records.
    let answer = ok(&run.call(&["summary", "--extended"]));
    let answer = answer.lines().next().unwrap();
    let share = answer
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(" %"));
    let share: f64 = share.unwrap().0.parse().unwrap();
    assert!((0.0..=100.0).contains(&share), "{answer}");
}

#[test]
fn info_names_what_summary_does_not_count() {
    let run = Run::new(&two());
    alter(
        &run,
        "UPDATE \"rocpd_kernel_dispatch_{s}\" SET event_id = NULL WHERE id IN (SELECT id FROM \"rocpd_kernel_dispatch_{s}\" ORDER BY id LIMIT 2)",
    );
    let mut lacking = 0;
    for made in &run.made {
        let suffix = made.truth.guid.replace('-', "_");
        let sql = format!(
            "SELECT count(*) FROM \"rocpd_kernel_dispatch_{suffix}\" WHERE event_id IS NULL OR region_name_id IS NULL"
        );
        let plain = Connection::open(&made.path).unwrap();
        lacking += plain
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .unwrap();
    }
    assert!(lacking >= 4);
    let info = ok(&run.call(&["info"]));
    assert!(info.contains("healthy: yes"), "{info}");
    assert!(
        info.contains(&format!("{lacking} dispatches without"))
            && info.contains("summary does not count"),
        "{info}"
    );
}

#[test]
fn events_of_kernels_and_copies_join_with_their_arguments() {
    let run = Run::new(&two());
    ok(&run.call(&["convert", "-f", "json", "-d", "out"]));
    for (file, table) in [
        ("kernels", "rocpd_kernel_dispatch"),
        ("memory_copies", "rocpd_memory_copy"),
        ("memory_allocations", "rocpd_memory_allocate"),
    ] {
        let mut planted = Vec::new();
        for made in &run.made {
            let suffix = made.truth.guid.replace('-', "_");
            let plain = Connection::open(&made.path).unwrap();
            let sql = format!("SELECT id, event_id FROM \"{table}_{suffix}\"");
            let mut statement = plain.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            let rows = rows.unwrap().map(Result::unwrap);
            planted.extend(rows.map(|(id, event)| (made.truth.guid.clone(), id, event)));
        }
        let folder = run.path("out");
        let name = names_in(&folder)
            .into_iter()
            .find(|name| name.contains(&format!("{file}.jsonl")))
            .unwrap();
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let mut found: Vec<(String, i64, i64)> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|row| {
                let number = |key: &str| row[key].as_i64().unwrap();
                let guid = row["guid"].as_str().unwrap().to_owned();
                (guid, number("id"), number("event_id"))
            })
            .collect();
        planted.sort();
        found.sort();
        assert!(!planted.is_empty());
        assert_eq!(found, planted, "{file}");
    }
}

#[test]
fn merging_says_what_it_leaves_out() {
    let run = Run::new(&two());
    alter(
        &run,
        "CREATE TABLE my_notes (text TEXT); INSERT INTO my_notes VALUES ('a'), ('b'); \
         UPDATE \"rocpd_memory_copy_{s}\" SET stream_id = 987654 WHERE id IN \
         (SELECT id FROM \"rocpd_memory_copy_{s}\" ORDER BY id LIMIT 3)",
    );
    let said = |words: &[&str]| {
        let output = run.call(words);
        ok(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let plain = said(&["merge", "-d", "out", "-o", "a"]);
    assert_eq!(
        plain
            .matches("table my_notes is not part of the format")
            .count(),
        2,
        "{plain}"
    );
    assert!(plain.contains("(rows: 2)"), "{plain}");
    assert!(!plain.contains("names no row"), "{plain}");
    let new = said(&["merge", "-d", "out", "-o", "b", "--reassign-ids"]);
    let wanted = "3 rows have a stream_id that names no row of rocpd_info_stream";
    assert_eq!(new.matches(wanted).count(), 2, "{new}");
}

#[test]
fn sums_beyond_64_bits_are_not_cut() {
    let run = Run::new(&two());
    alter(
        &run,
        "UPDATE \"rocpd_memory_copy_{s}\" SET start = 0, \"end\" = 9223372036854775807, size = 9223372036854775807",
    );
    let words = [
        "summary",
        "-f",
        "csv",
        "-d",
        "out",
        "--extended",
        "--domain-summary",
        "--summary-by-rank",
    ];
    ok(&run.call(&words));
    let (mut calls, mut total, mut bytes) = (0_i128, 0_i128, 0_i128);
    for row in csv(&run.path("out/memory_copies_summary.csv")) {
        calls += row["Calls"].parse::<i128>().unwrap();
        total += row["DURATION (nsec)"].parse::<i128>().unwrap();
        bytes += row["BYTES"].parse::<i128>().unwrap();
    }
    assert!(calls > 2);
    assert_eq!(total, calls * i128::from(i64::MAX));
    assert_eq!(bytes, total);
    let rows = csv(&run.path("out/domain_summary.csv"));
    let copies = rows.iter().find(|r| r["Name"] == "MEMORY_COPIES").unwrap();
    assert_eq!(copies["DURATION (nsec)"], total.to_string());
}

#[test]
fn categories_choose_views_too() {
    let run = Run::new(&two());
    let files = |categories: &[&str], more: &[&str]| {
        let folder = format!("out{}{}", categories.join("-"), more.len());
        let words = ["summary", "-f", "csv", "-d", &folder, "--region-categories"];
        ok(&run.call(&[&words, categories, more].concat()));
        let names = names_in(&run.path(&folder));
        names
            .iter()
            .map(|name| name.trim_end_matches("_summary.csv").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(files(&["KERNEL"], &[]), ["kernels"]);
    assert_eq!(files(&["hip", "kernels"], &[]), ["hip", "kernels"]);
    assert_eq!(
        files(&["MEMORY"], &[]),
        ["memory_allocations", "memory_copies"]
    );
    assert_eq!(files(&["memory_copy"], &[]), ["memory_copies"]);
    assert_eq!(files(&["MARKERS"], &[]), ["markers"]);
    let views = [
        "kernels",
        "memory_allocations",
        "memory_copies",
        "scratch_memory",
    ];
    assert_eq!(files(&["NONE"], &[]), views);
    // The reference of August 2025 selects only regions.
    let all = [
        "hip",
        "kernels",
        "memory_allocations",
        "memory_copies",
        "scratch_memory",
    ];
    assert_eq!(files(&["HIP"], &["--compat"]), all);
}

#[test]
fn domains_of_rocprofiler_systems_are_told_apart() {
    let run = Run::new(&two());
    alter(
        &run,
        "UPDATE \"rocpd_string_{s}\" SET string = 'rocm_hip_api' || SUBSTR(string, 16) WHERE string LIKE 'HIP_RUNTIME%'; \
         UPDATE \"rocpd_string_{s}\" SET string = 'rocm_hsa_api' || SUBSTR(string, 13) WHERE string LIKE 'HSA_CORE%'",
    );
    ok(&run.call(&["summary", "-f", "csv", "-d", "out"]));
    ok(&run.call(&["summary", "-f", "csv", "-d", "old", "--compat"]));
    let calls = |file: &str| -> u64 {
        let rows = csv(&run.path(file));
        rows.iter()
            .map(|r| r["Calls"].parse::<u64>().unwrap())
            .sum()
    };
    let hip = calls("out/rocm_hip_summary.csv");
    let hsa = calls("out/rocm_hsa_summary.csv");
    assert!(hip > 0 && hsa > 0);
    assert_eq!(calls("old/rocm_summary.csv"), hip + hsa);
}

#[test]
fn processes_of_one_guid_have_rows_of_their_own() {
    let run = Run::new(&two());
    // A second process on another host, with half of the dispatches.
    alter(
        &run,
        "INSERT INTO \"rocpd_info_node_{s}\" (id, guid, hash, machine_id, hostname) \
         SELECT id + 1, guid, hash + 1, machine_id || 'x', 'other' FROM \"rocpd_info_node_{s}\"; \
         INSERT INTO \"rocpd_info_process_{s}\" (id, guid, nid, ppid, pid, command) \
         SELECT 999999, guid, nid + 1, ppid, 777, command FROM \"rocpd_info_process_{s}\"; \
         UPDATE \"rocpd_memory_copy_{s}\" SET pid = 999999 WHERE id % 2 = 0",
    );
    for compat in [&[][..], &["--compat"]] {
        let words = ["summary", "-f", "csv", "-d", "out", "--summary-by-rank"];
        ok(&run.call(&[&words[..], compat].concat()));
        let mut own: Vec<(String, u64)> = Vec::new();
        let rows = csv(&run.path("out/memory_copies_summary_by_rank.csv"));
        for row in &rows {
            let key = format!("{} {}", row["ProcessID"], row["Hostname"]);
            let calls: u64 = row["Calls"].parse().unwrap();
            match own.iter_mut().find(|(known, _)| *known == key) {
                Some((_, sum)) => *sum += calls,
                None => own.push((key, calls)),
            }
        }
        let copies: u64 = own.iter().map(|(_, calls)| calls).sum();
        let others = own.iter().find(|(key, _)| key == "777 other").unwrap().1;
        assert!(own.len() == 3 && others > 0 && others < copies, "{own:?}");
    }
}

#[test]
fn extended_summaries_begin_with_the_answer_and_give_no_rate_of_allocations() {
    let run = Run::new(&two());
    let text = ok(&run.call(&["summary", "--extended"]));
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("GPUs were busy") && first.contains("most kernel time is in "),
        "{first}"
    );
    ok(&run.call(&["summary", "--extended", "-f", "csv", "-d", "out"]));
    let rates = |file: &str| {
        let rows = csv(&run.path(file));
        rows.iter().map(|r| r["GB/s"].clone()).collect::<Vec<_>>()
    };
    assert!(
        rates("out/memory_allocations_summary.csv")
            .iter()
            .all(String::is_empty)
    );
    assert!(
        rates("out/memory_copies_summary.csv")
            .iter()
            .all(|rate| !rate.is_empty())
    );
    // Busy time of all agents is a share of one span.
    let busy = csv(&run.path("out/busy_summary.csv"));
    let hosts: std::collections::BTreeSet<&String> =
        busy.iter().map(|row| &row["Hostname"]).collect();
    assert!(hosts.len() > 1, "{busy:?}");
    for row in &busy {
        assert_eq!(row["WALL (nsec)"], busy[0]["WALL (nsec)"]);
    }
    assert!(
        first.contains(" from the first to the last activity of any agent"),
        "{first}"
    );
}

#[test]
fn pages_are_the_same_each_time_and_pipes_are_refused() {
    let run = Run::new(&two());
    let mut pages = Vec::new();
    for folder in ["one", "two"] {
        ok(&run.call(&["summary", "-f", "dashboard", "-d", folder]));
        let names = names_in(&run.path(folder));
        assert!(!names.is_empty() && names.iter().all(|n| n.ends_with(".dashboard.html")));
        let read = |name: &String| std::fs::read(run.path(folder).join(name)).unwrap();
        pages.push(names.iter().map(read).collect::<Vec<_>>());
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    assert_eq!(pages[0], pages[1]);
    assert!(ok(&call(run.folder.path(), &["version"])).starts_with("rocpd "));
    #[cfg(unix)]
    {
        let made = std::process::Command::new("mkfifo")
            .arg(run.path("pipe.db"))
            .status();
        if made.is_ok_and(|status| status.success()) {
            for command in ["info", "summary"] {
                let output = call(run.folder.path(), &[command, "-i", "pipe.db"]);
                assert_eq!(output.status.code(), Some(2));
            }
        }
    }
}

/// Databases need no option, and a recording that is still open and read with its log is complete.
#[test]
fn a_database_in_use_is_healthy_by_its_name_alone() {
    let run = Run::new(&Shape::small());
    let by_option = ok(&run.call(&["info", "--json"]));
    let by_name = ok(&call(run.folder.path(), &["info", "in", "--json"]));
    assert_eq!(by_name, by_option);
    let summary = ["summary", "in", "-f", "csv", "-d", "out", "-o", "named"];
    ok(&call(run.folder.path(), &summary));
    assert!(run.path("out/named_kernels_summary.csv").is_file());

    let path = &run.made[0].path;
    let open = rusqlite::Connection::open(path).unwrap();
    open.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))
        .unwrap();
    open.query_row("PRAGMA wal_autocheckpoint=0", [], |_| Ok(()))
        .unwrap();
    let suffix = run.made[0].truth.guid.replace('-', "_");
    open.execute_batch(&format!("DELETE FROM \"rocpd_arg_{suffix}\" WHERE id = 1"))
        .unwrap();
    let name = path.to_str().unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&ok(&call(run.folder.path(), &["info", name, "--json"]))).unwrap();
    assert_eq!(document["healthy"], true, "{document}");
    assert_eq!(document["notes"].as_array().unwrap().len(), 1, "{document}");
    assert!(document["warnings"].as_array().unwrap().is_empty());
    let text = ok(&call(run.folder.path(), &["info", name]));
    assert!(text.contains("healthy: yes\n"), "{text}");
    assert!(text.contains("note: "), "{text}");
    drop(open);
}

/// A copy that does not fit leaves no part of it in the package.
#[cfg(unix)]
#[test]
fn a_package_that_does_not_fit_has_no_cut_off_copy() {
    let run = Run::new(&Shape::small());
    // Files of this shell have at most 32 blocks of 512 bytes; the signal that tells so is ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f 32; exec {} package in -d pkg -c --copy",
        env!("CARGO_BIN_EXE_rocpd")
    );
    let out = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(run.folder.path())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(5), "{out:?}");
    let left = names_in(&run.path("pkg.rpdb"));
    assert!(!left.iter().any(|name| name.ends_with(".db")), "{left:?}");
    assert!(run.made[0].path.is_file());
}
