//! Merging and packaging, also when they are interrupted.

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
        // SIGKILL: nothing of the process runs any more.
        let _ = child.kill();
        killed += u32::from(!child.wait().unwrap().success());
        assert!(before == bytes(), "inputs changed");
        for name in names_in(&run.path("m")) {
            if name == "all.db" {
                // Whole, if it is there at all.
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
    // The next one clears up.
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
