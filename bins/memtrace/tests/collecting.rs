//! Tests the metadata of a run about the machine, and phase marks.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;

use super::*;

fn metadata(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("out/metadata.json")).unwrap()).unwrap()
}

/// Creates a folder of programs that precedes all others in the search path.
fn with_programs(dir: &Path, programs: &[(&str, &str)]) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, script) in programs {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_machine_is_watched_while_a_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // Memory grows with each query; the first device does not report its power.
    let tool = "echo x >> asked; n=$(wc -l < asked); echo \"GPU A, 1000, $((n * 10)), 40, [N/A]\"; echo 'GPU B, 2000, 5, 60, 75.5'";
    let path = with_programs(dir, &[("nvidia-smi", tool)]);
    let words = [
        "run",
        "--collector",
        "monitor",
        "-o",
        "out",
        "--limit",
        "clean_baseline_pct=101",
        "--",
        "sleep",
        "0.3",
    ];
    ok(&command(dir, &words).env("PATH", path).output().unwrap());
    let found = metadata(dir);
    let asked = std::fs::read_to_string(dir.join("asked"))
        .unwrap()
        .lines()
        .count() as u64;
    assert!(asked >= 2);
    let gpus = &found["gpu"]["devices"];
    assert_eq!(found["gpu"]["source"], "nvidia-smi");
    assert_eq!(
        (&gpus[0]["name"], &gpus[1]["name"]),
        (&"GPU A".into(), &"GPU B".into())
    );
    let number = |at: usize, name: &str| gpus[at][name].as_f64();
    assert_eq!(number(0, "vram_total_mb"), Some(1000.0));
    assert_eq!(number(0, "vram_start_mb"), Some(10.0));
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let last = asked as f64 * 10.0;
    assert_eq!(
        (number(0, "vram_end_mb"), number(0, "vram_peak_mb")),
        (Some(last), Some(last))
    );
    assert_eq!(
        (number(1, "utilisation_mean_pct"), number(1, "samples")),
        (Some(60.0), Some(asked as f64))
    );
    assert_eq!(found["gpu_power_draw_w"], 75.5);
    let clock = &found["cpu_frequency"];
    for member in [
        "start_mhz",
        "min_mhz",
        "mean_mhz",
        "end_mhz",
        "hw_max_mhz",
        "scaling_max_mhz",
        "scaling_min_mhz",
        "governor",
    ] {
        assert!(clock.get(member).is_some(), "{member}: {clock}");
    }
    assert!(clock["min_mhz"].as_f64() <= clock["mean_mhz"].as_f64());
    assert_eq!(found["thermal"]["limits"]["clean_baseline_pct"], 101.0);
    for member in [
        "cpu_pct",
        "cpu_pct_max",
        "mem_total_mb",
        "mem_available_mb",
        "mem_used_pct",
        "load_avg_1m",
        "timestamp_s",
    ] {
        assert!(found["baseline"][member].is_number(), "{member}");
    }
    let wrong = [
        "run",
        "--collector",
        "monitor",
        "-o",
        "none",
        "--limit",
        "clean=1",
        "--",
        "true",
    ];
    assert!(fails(dir, &wrong, 2).contains("clean_cpu_pct"));
}

#[test]
fn phases_are_marked_through_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let script = "test -S $MEMTRACE_PHASE_SOCKET || exit 3; while [ ! -e go ]; do sleep 0.02; done";
    let words = [
        "run",
        "--collector",
        "monitor",
        "-o",
        "out",
        "--phase-socket",
        "here.socket",
        "--",
        "sh",
        "-c",
        script,
    ];
    let child = command(dir, &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    let path = dir.join("here.socket");
    // Kept open until the run is over, as by an engine that does not end cleanly.
    let mut socket = loop {
        match UnixStream::connect(&path) {
            Ok(socket) => break socket,
            Err(error) => assert!(start.elapsed().as_secs() < 60, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    socket
        .write_all(b"phase weight_load start 5\nphase weight_load end 9\nphase generation start 9")
        .unwrap();
    std::fs::write(dir.join("go"), "").unwrap();
    ok(&child.wait_with_output().unwrap());
    let (names, source) = phases_of(&dir.join("out"));
    assert_eq!(
        (names, source.as_str()),
        (
            vec!["weight_load".to_owned(), "generation".to_owned()],
            "pipe"
        )
    );
    assert!(!path.exists());
    let taken = [
        "run",
        "--collector",
        "monitor",
        "-o",
        "none",
        "--phase-socket",
        "go",
        "--",
        "true",
    ];
    assert!(fails(dir, &taken, 5).contains("go: "));
}

#[test]
fn the_doctor_reads_the_kernel_log() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let log =
        "echo '[    0.2] Performance Events: unsupported CPU no PMU driver, software events only.'";
    let path = with_programs(dir, &[("dmesg", log), ("perf", "exit 1")]);
    let output = command(dir, &["doctor", "--json", "-o", "doctor.json"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let found: Value =
        serde_json::from_slice(&std::fs::read(dir.join("doctor.json")).unwrap()).unwrap();
    let check = |name: &str| {
        let checks = found["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|check| check["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(check("pmu_dmesg")["status"], "WARN");
    assert!(
        check("pmu_dmesg")["data"]["line"]
            .as_str()
            .unwrap()
            .starts_with("Performance Events:")
    );
    assert_eq!(check("smoke")["status"], "FAIL");
}

/// If the configuration uses memray and it is not installed, `-v` reports it.
#[test]
fn a_missing_memray_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let text = "experiment: {name: demo}\nmodels: [{id: m, engine: vllm, hf_repo: a/b}]\n";
    std::fs::write(dir.join("c.yaml"), text).unwrap();
    let path = with_programs(dir, &[("python3", "exit 1")]);
    let bin = path.split(':').next().unwrap();
    let validate = |words: &[&str]| {
        let output = command(dir, words).env("PATH", bin).output().unwrap();
        (
            ok(&output),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (out, said) = validate(&["validate", "--config", "c.yaml", "-v"]);
    assert!(
        said.contains("[WARN]  memray is not installed, collector.fallback"),
        "{said}"
    );
    // The common output with the reference is the same with and without memray.
    assert_eq!(
        validate(&["validate", "--config", "c.yaml"]),
        (out, String::new())
    );
    let (document, _) = validate(&["validate", "--config", "c.yaml", "--json"]);
    assert!(document.contains("memray is not installed"), "{document}");
}

/// A machine without counters can record page faults: which memory was touched first, but no reads.
#[test]
fn page_faults_are_no_reads() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut text = String::new();
    for page in 0..400_u64 {
        let _ = writeln!(
            text,
            "llm 7/7 [000] {}.{:03}: 1 page-faults:u: {:x} 401136 read_model+0x4 (/opt/llm)",
            1 + page / 1000,
            page % 1000,
            0x7f00_0000_0000 + page * 4096,
        );
    }
    std::fs::write(dir.join("faults.txt"), &text).unwrap();
    let perf = "if [ $1 = script ]; then cat $FAULTS; exit; fi\n\
        while [ $# -gt 0 ]; do case $1 in -o) touch $2;; --) shift; exec \"$@\";; esac; shift; done";
    let path = with_programs(dir, &[("perf", perf)]);
    let words = ["run", "--collector", "pagefaults", "-o", "out", "--"];
    let marks = "echo 'phase weight_load start 0' > $MEMTRACE_PHASES; sleep 0.2";
    let words = [&words[..], &["sh", "-c", marks]].concat();
    let told = ok(&command(dir, &words)
        .env("PATH", path)
        .env("FAULTS", dir.join("faults.txt"))
        .output()
        .unwrap());
    assert!(told.contains("400 first touches by pagefaults"), "{told}");
    let checked = call(dir, &["check", "out"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(
        said.contains("retention") && !said.contains("fine"),
        "{said}"
    );
    let words = ["analyse", "faults.txt", "--infer-phases", "--json"];
    for found in [
        json(&call(dir, &words)),
        json(&call(dir, &["analyse", "out", "--json"])),
    ] {
        assert!(cell(&found, "retention_summary", "unknown", "retention_p50_s").is_null());
        let reads = found["read_freq"]["rows"].as_array().unwrap();
        assert!(reads.iter().all(|row| row["total_reads"] == 0), "{reads:?}");
        assert_eq!(
            found["retention_summary"]["rows"].as_array().unwrap().len(),
            1
        );
    }
}
