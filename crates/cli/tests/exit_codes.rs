//! Tests the external behaviour of a tool through `examples/probe.rs`.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};

    /// Returns the example that `cargo test` builds with this test.
    fn probe() -> Command {
        let here = std::env::current_exe().unwrap();
        let profile = here.ancestors().nth(2).unwrap();
        let path: PathBuf = profile
            .join("examples/probe")
            .with_extension(std::env::consts::EXE_EXTENSION);
        assert!(
            path.exists(),
            "{}: not built: run `cargo test -p inferscope-cli` without choosing targets",
            path.display()
        );
        let mut command = Command::new(path);
        command.env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    fn run(args: &[&str]) -> (Option<i32>, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = probe().args(args).output().unwrap();
        (
            status.code(),
            String::from_utf8(stdout).unwrap(),
            String::from_utf8(stderr).unwrap(),
        )
    }

    #[test]
    fn help_and_version_are_results() {
        let (code, out, err) = run(&["--help"]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        for argument in [
            "--format",
            "--json",
            "--output",
            "--max-uncompressed",
            "--strict",
        ] {
            assert!(out.contains(argument), "{out}");
        }
        let (code, out, _) = run(&["--version"]);
        assert_eq!(code, Some(0));
        assert!(out.starts_with("probe "), "{out}");
    }

    #[test]
    fn conditions_failures_and_usage() {
        assert_eq!(run(&["condition"]), (Some(1), String::new(), String::new()));
        assert_eq!(
            run(&["fail"]),
            (
                Some(3),
                String::new(),
                "probe: error: doing what was asked: planted cause\n".to_owned()
            )
        );
        let (code, _, err) = run(&["no-answer"]);
        assert_eq!(code, Some(4));
        assert_eq!(err, "probe: error: not comparable\n");
        let (code, _, err) = run(&["usage"]);
        assert_eq!(code, Some(2));
        assert_eq!(
            err,
            "probe: error: --to is before --from\ntry 'probe --help'\n"
        );
        let (code, out, err) = run(&["--no-such-thing"]);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(err.contains("--no-such-thing"), "{err}");
    }

    #[test]
    fn a_panic_is_one_line() {
        let (code, out, err) = run(&["panic"]);
        assert_eq!((code, out.as_str()), (Some(101), ""));
        assert!(
            err.starts_with("probe: error: internal defect: planted ("),
            "{err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }

    #[test]
    fn inputs_are_read_and_damage_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plain.json");
        fs::write(&path, "0123456789").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(
            run(&["length", path]),
            (Some(0), "10\n".to_owned(), String::new())
        );
        let (code, out, _) = run(&["--json", "length", path]);
        assert_eq!((code, out.as_str()), (Some(0), "{\"length_bytes\": 10}\n"));
        let (_, _, err) = run(&["-v", "length", path]);
        assert!(err.starts_with("read: 0."), "{err}");
        let (code, _, err) = run(&["length", "no/such/file"]);
        assert_eq!(code, Some(3));
        assert_eq!(
            err,
            "probe: error: no/such/file: no such file: check the path\n"
        );
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        let mut child = probe()
            .arg("endless")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 4096];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert_eq!(status.code(), Some(0));
        assert_eq!(String::from_utf8(stderr).unwrap(), "");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_failure() {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t");
        fs::write(&path, "1").unwrap();
        let Output { status, stderr, .. } = probe()
            .arg("length")
            .arg(&path)
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(status.code(), Some(5));
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(
            stderr.starts_with("probe: error: no space left on device"),
            "{stderr}"
        );
    }

    #[test]
    fn outputs_go_to_files() {
        let directory = tempfile::tempdir().unwrap();
        let (input, output) = (directory.path().join("in"), directory.path().join("out"));
        fs::write(&input, "12345").unwrap();
        let paths = [input.to_str().unwrap(), output.to_str().unwrap()];
        assert_eq!(
            run(&["-o", paths[1], "length", paths[0]]),
            (Some(0), String::new(), String::new())
        );
        assert_eq!(fs::read_to_string(&output).unwrap(), "5\n");
        assert_eq!(run(&["-o", "-", "length", paths[0]]).1, "5\n");
        let (code, _, err) = run(&["-o", "no/such/dir/out", "length", paths[0]]);
        assert_eq!(code, Some(5));
        assert_eq!(
            err,
            "probe: error: no/such/dir/out: no directory `no/such/dir`: create it first\n"
        );
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[cfg(unix)]
    #[test]
    fn signals_leave_no_temporary_files() {
        use std::os::unix::process::ExitStatusExt as _;

        let mut signals = vec![("INT", 2), ("TERM", 15)];
        // Under `nohup` the probe rightly ignores it.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        if ignored.is_some_and(|mask| mask.ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e'])) {
            signals.push(("HUP", 1));
        }
        for (name, number) in signals {
            let directory = tempfile::tempdir().unwrap();
            let output = directory.path().join("report.json");
            fs::write(&output, "old").unwrap();
            let mut child = probe()
                .arg("-o")
                .arg(&output)
                .arg("wait")
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stderr = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            assert_eq!(names(directory.path()).len(), 2);
            let killed = Command::new("kill")
                .args(["-s", name, &child.id().to_string()])
                .status()
                .unwrap();
            assert!(killed.success());
            // Kept open: closing it would let the child finish before the signal arrives.
            let stdin = child.stdin.take();
            let status = child.wait().unwrap();
            drop(stdin);
            assert_eq!(status.signal(), Some(number));
            assert_eq!(names(directory.path()), ["report.json"]);
            assert_eq!(fs::read_to_string(&output).unwrap(), "old");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn behind_nohup_the_terminal_may_end() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("report.json");
        let probe = probe();
        let mut child = Command::new("sh")
            .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
            .arg(probe.get_program())
            .args(probe.get_args())
            .arg("-o")
            .arg(&output)
            .arg("wait")
            .envs(
                probe
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let killed = Command::new("kill")
            .args(["-s", "HUP", &child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(names(directory.path()), ["report.json"]);
    }
}
