//! Tests of merging and packaging, including interruptions.

use std::process::Command;

use rocpd_synth::Shape;

use crate::support::{Run, call, names_in, ok, two};

#[test]
fn merged_and_packaged_databases_give_the_same_summary() {
    let run = Run::new(&two());
    ok(&run.call(&["merge", "-d", "m", "-o", "all"]));
    ok(&call(
        run.folder.path(),
        &["package", "-i", "in", "-d", "set", "-c", "--copy"],
    ));
    for (input, out) in [("in", "a"), ("m/all.db", "b"), ("set.rpdb", "c")] {
        ok(&call(
            run.folder.path(),
            &[
                "summary",
                "-i",
                input,
                "-d",
                out,
                "-f",
                "csv",
                "--domain-summary",
            ],
        ));
    }
    for name in [
        "kernels_summary.csv",
        "domain_summary.csv",
        "markers_summary.csv",
    ] {
        let text = |out: &str| std::fs::read_to_string(run.path(out).join(name)).unwrap();
        assert_eq!(text("a"), text("b"));
        assert_eq!(text("a"), text("c"));
    }
    let info = ok(&run.call(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["healthy"], true);
    assert_eq!(info["partitions"].as_array().unwrap().len(), 2);
    // The same rows as a table.
    let table = ok(&run.call(&["info", "--format", "csv"]));
    let counts = info["partitions"].as_array().unwrap().iter();
    let counts = counts.flat_map(|p| p["rows"].as_object().unwrap().iter());
    let expected: Vec<String> = counts.map(|(t, n)| format!(",{t},{n}")).collect();
    assert_eq!(table.lines().count(), 1 + expected.len());
    for (line, end) in table.lines().skip(1).zip(&expected) {
        assert!(line.ends_with(end), "{line} {end}");
    }
}

#[test]
fn a_merge_may_be_killed_at_any_moment() {
    let run = Run::new(&Shape {
        ranks: 6,
        steps: 40,
        ..Shape::small()
    });
    let inputs = names_in(&run.path("in"));
    let bytes = || -> Vec<Vec<u8>> {
        inputs
            .iter()
            .map(|name| std::fs::read(run.path("in").join(name)).unwrap())
            .collect()
    };
    let before = bytes();
    let merge = |flags: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rocpd"))
            .current_dir(run.folder.path())
            .args(["merge", "-i", "in", "-d", "m", "-o", "all", "-q"])
            .args(flags)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let started = std::time::Instant::now();
    assert!(merge(&[]).wait().unwrap().success());
    let whole = started.elapsed();
    std::fs::remove_file(run.path("m/all.db")).unwrap();
    let mut killed = 0;
    for step in 0..24_u32 {
        let flags: &[&str] = if step % 2 == 0 {
            &[]
        } else {
            &["--reassign-ids"]
        };
        let mut child = merge(flags);
        std::thread::sleep(whole * step / 20);
        // SIGKILL ends the whole process.
        let _ = child.kill();
        killed += u32::from(!child.wait().unwrap().success());
        assert!(before == bytes(), "inputs changed");
        for name in names_in(&run.path("m")) {
            if name == "all.db" {
                // The file is complete if it exists at all.
                let summary = ok(&call(
                    run.folder.path(),
                    &["info", "-i", "m/all.db", "--json"],
                ));
                let info: serde_json::Value = serde_json::from_str(&summary).unwrap();
                assert_eq!(info["healthy"], true);
                std::fs::remove_file(run.path("m/all.db")).unwrap();
            } else {
                assert!(
                    name.starts_with(".merge.") && name.ends_with(".tmp"),
                    "{name}"
                );
            }
        }
    }
    assert!(killed > 0, "no merge was slow enough to be killed");
    // The next run cleans up.
    assert!(merge(&[]).wait().unwrap().success());
    assert_eq!(names_in(&run.path("m")), ["all.db"]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_removes_temporary_files() {
    let run = Run::new(&Shape {
        steps: 400,
        ..Shape::small()
    });
    for command in [
        &["merge", "-i", "in", "-d", "m", "-q"][..],
        &["convert", "-i", "in", "-d", "m", "-f", "pftrace", "-q"][..],
    ] {
        let mut interrupted = 0;
        for wait in 1..40_u64 {
            let mut child = Command::new(env!("CARGO_BIN_EXE_rocpd"))
                .current_dir(run.folder.path())
                .args(command)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(wait * 5));
            let sent = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
            assert!(sent.is_ok());
            interrupted += u32::from(!child.wait().unwrap().success());
            let left: Vec<String> = names_in(&run.path("m"))
                .into_iter()
                .filter(|name| name.ends_with(".tmp") || name.starts_with('.'))
                .collect();
            assert!(left.is_empty(), "{left:?} after {wait}");
            if interrupted > 5 {
                break;
            }
        }
        assert!(interrupted > 0, "{command:?} was never interrupted");
    }
}

#[test]
fn clocks_of_nodes_are_brought_together() {
    const SKEW: i64 = 3_600_000_000_017;
    let run = Run::new(&Shape {
        nodes: 2,
        ranks: 4,
        clock_skew_ns: SKEW,
        ..Shape::small()
    });
    // By rank: one time of each kind of record, and begin of the process.
    let query = "SELECT P.guid, P.init AS init, \
         (SELECT MIN(R.start) FROM rocpd_region R WHERE R.guid = P.guid) AS region, \
         (SELECT MIN(S.timestamp) FROM rocpd_sample S WHERE S.guid = P.guid) AS sample, \
         (SELECT MAX(D.\"end\") FROM rocpd_kernel_dispatch D WHERE D.guid = P.guid) AS kernel, \
         (SELECT MAX(C.\"end\") FROM rocpd_memory_copy C WHERE C.guid = P.guid) AS copy, \
         (SELECT MAX(A.\"end\") FROM rocpd_memory_allocate A WHERE A.guid = P.guid) AS alloc, \
         (SELECT COUNT(*) FROM rocpd_event E WHERE E.guid = P.guid) AS events \
         FROM rocpd_info_process P ORDER BY P.pid";
    let times = |input: &str| -> Vec<Vec<i64>> {
        ok(&call(
            run.folder.path(),
            &[
                "query", "-i", input, "--query", query, "--format", "json", "-d", ".", "-o", "t",
            ],
        ));
        let text = std::fs::read_to_string(run.path("t.json")).unwrap();
        let rows: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(&text).unwrap();
        let numbers = |row: &serde_json::Map<String, serde_json::Value>| {
            row.values().filter_map(serde_json::Value::as_i64).collect()
        };
        rows.iter().map(numbers).collect()
    };
    let recorded = times("in");
    assert_eq!(recorded.len(), 4);
    std::fs::write(
        run.path("offsets.csv"),
        format!("host,offset_ns\nhost-1,-{SKEW}\n"),
    )
    .unwrap();
    // Processes begin 1 us apart, and the first of the second node is the second of all.
    for (align, offset) in [
        ("init", -SKEW - 1000),
        ("marker:prefill", -SKEW - 1000),
        ("offsets.csv", -SKEW),
    ] {
        for more in [&[][..], &["--reassign-ids"][..]] {
            let said = ok(&run.call(&[&["merge", "-d", "m", "--align", align], more].concat()));
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines[0], "Times of host-0: +0 ns");
            assert_eq!(lines[1], format!("Times of host-1: {offset} ns"));
            let mut expected = recorded.clone();
            for own in [1, 3] {
                let times = expected[own].len() - 1;
                for time in &mut expected[own][..times] {
                    *time += offset;
                }
            }
            assert_eq!(times("m/merged.db"), expected, "{align} {more:?}");
            let tags = ok(&call(
                run.folder.path(),
                &[
                    "query",
                    "-i",
                    "m/merged.db",
                    "--query",
                    "SELECT value FROM rocpd_metadata WHERE tag LIKE 'clock_offset_ns:%'",
                ],
            ));
            assert_eq!(tags.matches(&offset.to_string()).count(), 2, "{tags}");
        }
    }
    // Without the option nothing moves.
    ok(&run.call(&["merge", "-d", "m"]));
    assert_eq!(times("m/merged.db"), recorded);
    // Missing or wrong input is reported, and no file is created.
    std::fs::write(run.path("wrong.csv"), "host,offset_ns\nhost-1,soon\n").unwrap();
    std::fs::write(run.path("far.csv"), format!("host-1,{}\n", i64::MAX)).unwrap();
    std::fs::write(run.path("other.csv"), "host-7,5\n").unwrap();
    for (align, code, message) in [
        ("marker:nothing", 3, "node host-0 has no marker \"nothing\""),
        ("nothing", 2, "--align nothing"),
        ("wrong.csv", 2, "wrong.csv:2: found `host-1,soon`"),
        ("other.csv", 3, "host-7: the hosts are host-0, host-1"),
        ("far.csv", 3, "cannot move by 9223372036854775807 ns"),
    ] {
        let failed = run.call(&["merge", "-d", "none", "--align", align]);
        let errors = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert_eq!(failed.status.code(), Some(code), "{errors}");
        assert!(errors.contains(message), "{errors}");
        assert_eq!(names_in(&run.path("none")), Vec::<String>::new());
    }
}

#[test]
fn a_process_that_comes_twice_does_not_mix_up_the_others() {
    let run = Run::new(&two());
    ok(&run.call(&["merge", "-d", "m", "-o", "all"]));
    let first = run.made[0].path.to_str().unwrap().to_owned();
    ok(&run.call(&["convert", "-f", "json", "-d", "once", "-o", ""]));
    // The merged file contains the first one again, and the second.
    let twice = call(
        run.folder.path(),
        &[
            "convert", "-i", &first, "m/all.db", "-f", "json", "-d", "twice", "-o", "",
        ],
    );
    ok(&twice);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("already: read once"));
    let names = names_in(&run.path("once"));
    assert_eq!(names_in(&run.path("twice")), names);
    for name in names {
        let lines = |folder: &str| -> Vec<String> {
            let text = std::fs::read_to_string(run.path(folder).join(&name)).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        assert!(lines("once") == lines("twice"), "{name}");
    }
}
