//! Memory snapshots, Flight Recorder dumps and XSpace recordings from outside.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn data(folder: &str, name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
        root.join(folder).join("tests/data").join(name)
    }

    fn run(words: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn path(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn a_snapshot_is_answered_in_all_formats() {
        let file = data("torch-dumps", "cut.pickle");
        let (code, text, err) = run(&["memory", path(&file), "--series", "3"]);
        assert_eq!((code, err.as_str()), (0, ""), "{text}");
        assert!(
            text.contains("Allocated memory of GPU 0 peaks at 14.43 MiB"),
            "{text}"
        );
        assert!(
            text.contains("KV cache") && text.contains("over time"),
            "{text}"
        );
        let (_, csv, _) = run(&["memory", path(&file), "--format", "csv"]);
        assert!(
            csv.starts_with("trace,device,category,allocations,bytes,share_pct,place,stack\n"),
            "{csv}"
        );
        let sum: i64 = csv
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(4).unwrap().parse::<i64>().unwrap())
            .sum();
        assert_eq!(sum, 15_130_495);
        let (_, json, _) = run(&["memory", path(&file), "--json", "--series", "3"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        for table in [
            "memory_holders",
            "memory",
            "memory_fragmentation",
            "memory_series",
        ] {
            assert!(json[table]["rows"].is_array(), "{table}");
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.parquet");
        assert_eq!(
            run(&[
                "memory",
                path(&file),
                "--format",
                "parquet",
                "-o",
                path(&out)
            ])
            .0,
            0
        );
        assert_eq!(std::fs::read(out).unwrap().get(..4), Some(&b"PAR1"[..]));
        assert_eq!(run(&["memory", path(&file), "--window", "1..2"]).0, 2);
    }

    #[test]
    fn dumps_of_a_folder_are_one_job() {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..4 {
            let name = format!("nccl_trace_rank_{rank}");
            std::fs::copy(data("torch-dumps", &name), folder.path().join(name)).unwrap();
        }
        let (code, text, err) = run(&["comm", path(folder.path())]);
        assert_eq!((code, err.as_str()), (0, ""), "{text}");
        assert!(
            text.starts_with("Rank 2 did not arrive: all_reduce 7"),
            "{text}"
        );
        let (_, csv, _) = run(&["comm", path(folder.path()), "--format", "csv"]);
        assert!(
            csv.contains("not_called") && csv.lines().count() == 2,
            "{csv}"
        );
        let (_, ranks, _) = run(&[
            "comm",
            path(folder.path()),
            "--format",
            "csv",
            "--table",
            "ranks",
        ]);
        assert_eq!(ranks.lines().count(), 5, "{ranks}");
        std::fs::write(folder.path().join("t.json"), r#"{"traceEvents": []}"#).unwrap();
        let (code, _, err) = run(&["comm", path(folder.path())]);
        assert_eq!(code, 2);
        assert!(err.contains("give dumps and traces separately"), "{err}");
    }

    #[test]
    fn each_dump_is_sent_to_its_command() {
        let (snapshot, flight) = (
            data("torch-dumps", "cut.pickle"),
            data("torch-dumps", "nccl_trace_rank_0"),
        );
        let (code, _, err) = run(&["memory", path(&flight)]);
        assert!(code == 2 && err.contains("`trace-info comm`"), "{err}");
        let (code, _, err) = run(&["comm", path(&snapshot)]);
        assert!(code == 2 && err.contains("`trace-info memory`"), "{err}");
        for command in ["gpu", "summary"] {
            let (code, out, err) = run(&[command, path(&snapshot)]);
            assert!(
                code == 3 && out.is_empty() && err.contains("`trace-info memory`"),
                "{err}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let hostile = folder.path().join("x.pickle");
        std::fs::write(&hostile, b"cposix\nsystem\n(S'id'\ntR.").unwrap();
        let bytes = std::fs::read(&snapshot).unwrap();
        let cut = folder.path().join("cut.pickle");
        std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
        for (file, what) in [(&hostile, "posix.system"), (&cut, "cut off at byte")] {
            for command in ["memory", "comm"] {
                let (code, out, err) = run(&[command, path(file)]);
                assert!(code == 3 && out.is_empty(), "{err}");
                assert!(err.contains(what) && err.contains(".pickle"), "{err}");
            }
        }
    }

    /// A folder with the dumps of four ranks, of which rank 2 did not arrive.
    fn job() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..4 {
            let name = format!("nccl_trace_rank_{rank}");
            std::fs::copy(data("torch-dumps", &name), folder.path().join(name)).unwrap();
        }
        folder
    }

    #[test]
    fn a_broken_dump_is_named_and_the_others_answer() {
        let whole = std::fs::read(data("torch-dumps", "nccl_trace_rank_0")).unwrap();
        let broken: [(&[u8], &str); 4] = [
            (&whole[..whole.len() / 2], "cut off at byte"),
            (b"cposix\nsystem\n(S'id'\ntR.", "posix.system"),
            (b"", "empty"),
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
                "a Git LFS pointer",
            ),
        ];
        for (bytes, what) in broken {
            let folder = job();
            let files: Vec<PathBuf> = (0..4)
                .map(|rank| folder.path().join(format!("nccl_trace_rank_{rank}")))
                .collect();
            std::fs::write(&files[0], bytes).unwrap();
            let mut named = vec!["comm"];
            named.extend(files.iter().map(|file| path(file)));
            for words in [vec!["comm", path(folder.path())], named] {
                let (code, out, err) = run(&words);
                assert_eq!(code, 3, "{out}{err}");
                assert!(out.starts_with("Rank 2 did not arrive"), "{out}");
                let out: Vec<&str> = out.split_whitespace().collect();
                assert!(out.join(" ").contains("the dump of rank 0 cannot be read"));
                assert!(
                    err.contains(what) && err.contains("nccl_trace_rank_0"),
                    "{err}"
                );
            }
        }
        // The same of memory snapshots.
        let folder = tempfile::tempdir().unwrap();
        let (good, cut) = (
            folder.path().join("a.pickle"),
            folder.path().join("b.pickle"),
        );
        std::fs::copy(data("torch-dumps", "cut.pickle"), &good).unwrap();
        std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
        let (code, out, err) = run(&["memory", path(&good), path(&cut)]);
        assert!(
            code == 3 && out.contains("peaks at 14.43 MiB"),
            "{out}{err}"
        );
        assert!(err.contains("b.pickle") && err.contains("cut off"), "{err}");
        // A dump of the other kind is left out of a folder.
        std::fs::write(&cut, &whole).unwrap();
        let (code, out, err) = run(&["memory", path(folder.path())]);
        assert!(
            code == 0 && out.contains("peaks at 14.43 MiB"),
            "{out}{err}"
        );
        assert!(
            err.contains("left out") && err.contains("`trace-info comm`"),
            "{err}"
        );
    }

    #[test]
    fn dumps_come_from_pipes_and_archives() {
        use std::io::Write as _;
        let snapshot = std::fs::read(data("torch-dumps", "cut.pickle")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&snapshot).unwrap();
        for bytes in [snapshot, packed.finish().unwrap()] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_trace-info"))
                .args(["memory", "-"])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success() && text.contains("peaks at 14.43 MiB"),
                "{text}"
            );
        }
        let folder = job();
        let tar = folder.path().join("dumps.tar");
        let made = Command::new("tar")
            .arg("cf")
            .arg(&tar)
            .arg("-C")
            .arg(folder.path())
            .args((0..4).map(|rank| format!("nccl_trace_rank_{rank}")))
            .status()
            .unwrap();
        assert!(made.success());
        let (code, out, err) = run(&["comm", path(&tar)]);
        assert!(
            code == 0 && out.starts_with("Rank 2 did not arrive"),
            "{out}{err}"
        );
    }

    /// An export with a kernel and its launch, of a host with two clocks.
    fn export(path: &Path, utc_ns: i64, system_ns: i64) {
        let database = rusqlite::Connection::open(path).unwrap();
        database
            .execute_batch(&format!(
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                 INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (2, 'cudaLaunchKernel_v7000'),
                     (3, 'cudaEventRecord'), (4, 'gemm');
                 CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, systemClockNs INTEGER);
                 INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({utc_ns}, {system_ns});
                 CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
                 INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'secret-host');
                 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
                     streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
                 INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 9000, 0, 1, 7, 1, 16777216, 1),
                     (20000, 29000, 0, 1, 7, 2, 16777216, 4), (30000, 39000, 0, 1, 7, 99, 16777216, 4);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
                     correlationId INTEGER, nameId INTEGER);
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 2000, 0, 16777217, 1, 2),
                     (3000, 4000, 0, 16777217, 5, 3), (31000, 32000, 0, 16777217, 2, 2);
                 CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT);
                 INSERT INTO NVTX_EVENTS VALUES (500, 40000, 59, 16777217, 'step'), (600, 700, 59, 16777217, 'gloo:all_reduce');"
            ))
            .unwrap();
    }

    #[test]
    fn reports_of_one_host_are_on_its_clock() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            folder.path().join("rank0.sqlite"),
            folder.path().join("rank1.sqlite"),
        ];
        export(&files[0], 1_700_000_000_000_000_000, 5_000);
        export(&files[1], 1_700_000_000_000_900_000, 605_000);
        let words = [
            "comm",
            path(&files[0]),
            path(&files[1]),
            "--table",
            "ranks",
            "--format",
            "csv",
        ];
        let (code, csv, err) = run(&words);
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("2 reports are aligned by the system clock of their host; UTC differs from it by up to 300000 ns"), "{err}");
        assert!(!err.contains("secret-host") && !csv.contains("secret-host"));
        let at = csv
            .lines()
            .next()
            .unwrap()
            .split(',')
            .position(|c| c == "base_time_ns")
            .unwrap();
        let bases: Vec<&str> = csv
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(at).unwrap())
            .collect();
        assert_eq!(bases, ["1700000000000000000", "1700000000000600000"]);
    }

    #[test]
    fn tables_are_equal_whether_or_not_all_calls_are_loaded() {
        // Text output of one trace reads all calls of the host, JSON and CSV only the launches.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sqlite");
        export(&file, 1, 1);
        let (code, csv, err) = run(&["gpu", path(&file), "--format", "csv"]);
        assert_eq!(code, 0, "{err}");
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let row: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
        let cell = |name| row[header.iter().position(|c| *c == name).unwrap()];
        // Three kernels, three calls, two ranges.
        assert_eq!(
            (cell("events_total"), cell("kernels"), cell("busy_ns")),
            ("8", "3", "22000")
        );
        let (_, json, _) = run(&["gpu", path(&file), "--json"]);
        let (_, text, _) = run(&["gpu", path(&file)]);
        for what in [
            "launched by no call in the trace",
            "start before their launch call does",
            "gloo:all_reduce",
        ] {
            assert!(json.contains(what), "{what}: {json}");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains(what), "{what}: {text}");
        }
        let kernels = |by: &str| run(&["kernels", path(&file), "--by", by, "--format", "csv"]).1;
        // By operator, all ranges are read.
        assert!(kernels("name").contains("gemm,") && kernels("operator").lines().count() >= 2);
    }

    /// An export of two processes whose calls have the same correlation ids; one kernel of the second has no call of its own, and
    /// the first range begins before the recording does.
    fn two_processes(path: &Path) {
        export(path, 5_000_000_000, 1);
        let database = rusqlite::Connection::open(path).unwrap();
        database
            .execute_batch(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (50000, 51000, 1, 1, 7, 1, 33554432, 4),
                     (60000, 61000, 1, 1, 7, 2, 33554432, 4);
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (45000, 46000, 0, 33554433, 1, 2);
                 INSERT INTO NVTX_EVENTS VALUES (-700, 100, 59, 16777217, 'early');",
            )
            .unwrap();
    }

    #[test]
    fn a_conversion_keeps_processes_links_and_early_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sqlite");
        two_processes(&file);
        let unlinked = |file: &Path| {
            let (code, json, err) = run(&["summary", path(file), "--json"]);
            assert_eq!(code, 0, "{err}");
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let text = json.to_string();
            let at = text.find("\"unlinked_kernels\":").unwrap();
            text[at..]
                .chars()
                .skip(19)
                .take_while(char::is_ascii_digit)
                .collect::<String>()
        };
        let launch = |file: &Path| {
            let (code, csv, err) = run(&["launch", path(file), "--format", "csv"]);
            assert_eq!(code, 0, "{err}");
            csv.lines()
                .skip(1)
                .map(|line| line.split_once(',').unwrap().1.to_owned())
                .collect::<Vec<_>>()
        };
        let ranges = |file: &Path| {
            let (code, out, err) = run(&["tables", path(file), "--table", "slice"]);
            assert_eq!(code, 0, "{err}");
            out.matches("early").count()
        };
        let source = (unlinked(&file), launch(&file), ranges(&file));
        for name in ["b.pftrace", "b.json.gz"] {
            let made = folder.path().join(name);
            let (code, _, err) = run(&["convert", path(&file), "-o", path(&made)]);
            assert_eq!(code, 0, "{err}");
            assert_eq!(
                (unlinked(&made), launch(&made), ranges(&made)),
                source,
                "{name}"
            );
        }
        assert_eq!(source.2, 1);
    }

    #[test]
    fn a_table_of_kernels_that_is_not_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sqlite");
        export(&file, 1, 1);
        let database = rusqlite::Connection::open(&file).unwrap();
        database
            .execute_batch(
                "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k;
                 CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM k;
                 CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
                     streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);
                 INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5000, 5100, 0, 1, 7, 1, 16777216, 0, 64, 2);",
            )
            .unwrap();
        drop(database);
        let out = folder.path().join("o.json");
        for words in [
            vec!["gpu", path(&file)],
            vec!["kernels", path(&file)],
            vec!["convert", path(&file), "-o", path(&out)],
        ] {
            let (_, _, err) = run(&words);
            assert!(
                err.contains("CUPTI_ACTIVITY_KIND_KERNEL"),
                "{words:?}: {err}"
            );
        }
    }

    #[test]
    fn ranks_of_one_file_are_numbered_by_their_processes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sqlite");
        export(&file, 1, 1);
        let database = rusqlite::Connection::open(&file).unwrap();
        // Process 2 is on the GPU first.
        database
            .execute_batch(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 1, 1, 7, 1, 33554432, 1);
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50, 60, 0, 33554433, 1, 2);",
            )
            .unwrap();
        drop(database);
        let ranks = folder.path().join("ranks");
        let (code, _, err) = run(&["repair", path(&file), "--part-ranks", "-o", path(&ranks)]);
        assert_eq!(code, 0, "{err}");
        let (first, second) = (
            err.find("rank0.pftrace: process 1"),
            err.find("rank1.pftrace: process 2"),
        );
        assert!(first.is_some() && second.is_some(), "{err}");
    }

    #[test]
    fn tables_of_rocprofv3_give_what_its_json_gives() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("7_results.json");
        std::fs::write(
            &json,
            r#"{"rocprofiler-sdk-tool":[{"metadata":{"pid":77,"command":["python3"]},
            "agents":[{"id":{"handle":11},"type":1,"node_id":0,"logical_node_id":0},
                {"id":{"handle":22},"type":2,"node_id":4,"logical_node_id":1,"product_name":"AMD Instinct MI300X"}],
            "strings":{"buffer_records":[{"kind":"NONE","operations":[]},{"kind":"KERNEL_DISPATCH","operations":["NONE"]},
                {"kind":"MEMORY_COPY","operations":["NONE","MEMORY_COPY_HOST_TO_DEVICE"]},{"kind":"HIP_RUNTIME_API","operations":["hipMalloc","hipLaunchKernel"]}]},
            "kernel_symbols":[{"kernel_id":5,"formatted_kernel_name":"gemm, \"f32\" (float*)"}],
            "buffer_records":{"kernel_dispatch":[{"kind":1,"operation":0,"thread_id":9,"correlation_id":{"internal":3},"start_timestamp":2000,"end_timestamp":2600,
                "dispatch_info":{"agent_id":{"handle":22},"queue_id":{"handle":3},"kernel_id":5},"stream_id":{"handle":2}}],
              "memory_copy":[{"kind":2,"operation":1,"thread_id":0,"correlation_id":{"internal":8},"start_timestamp":3000,"end_timestamp":3100,
                "dst_agent_id":{"handle":22},"src_agent_id":{"handle":11},"stream_id":{"handle":0}}],
              "hip_api":[{"kind":3,"operation":1,"thread_id":9,"correlation_id":{"internal":3},"start_timestamp":1000,"end_timestamp":1100}]}}]}"#,
        )
        .unwrap();
        let tables = folder.path().join("csv");
        std::fs::create_dir(&tables).unwrap();
        for (name, text) in [
            (
                "7_agent_info.csv",
                "Node_Id,Logical_Node_Id,Agent_Type,Name,Product_Name\n0,0,CPU,EPYC,EPYC\n4,1,GPU,gfx942,AMD Instinct MI300X\n",
            ),
            (
                "7_kernel_trace.csv",
                "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 KERNEL_DISPATCH,Agent 4,3,2,9,\"gemm, \"\"f32\"\" (float*)\",3,2000,2600\n",
            ),
            (
                "7_hip_api_trace.csv",
                "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 HIP_RUNTIME_API,hipLaunchKernel,77,9,3,1000,1100\n",
            ),
            (
                "7_memory_copy_trace.csv",
                "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 MEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,0,Agent 0,Agent 4,8,3000,3100\n",
            ),
        ] {
            std::fs::write(tables.join(name), text).unwrap();
        }
        for words in [
            &["gpu", "--per-stream"][..],
            &["gpu", "--per-device"],
            &["kernels"],
            &["launch"],
            &["idle"],
        ] {
            let csv = |file: &Path| {
                let all = [words, &[path(file), "--format", "csv"]].concat();
                let (code, csv, err) = run(&all);
                assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
                let rows = csv
                    .lines()
                    .map(|line| line.split_once(',').unwrap().1.to_owned());
                rows.collect::<Vec<_>>()
            };
            let wanted = csv(&json);
            assert!(wanted.len() > 1);
            // The same calls in the one file that `rocpd convert` writes.
            let unified = folder.path().join("unified");
            std::fs::create_dir_all(&unified).unwrap();
            for (from, to) in [
                ("7_agent_info.csv", "out_agent_info.csv"),
                ("7_kernel_trace.csv", "out_kernel_trace.csv"),
                ("7_hip_api_trace.csv", "out_regions_trace.csv"),
                ("7_memory_copy_trace.csv", "out_memory_copy_trace.csv"),
            ] {
                std::fs::copy(tables.join(from), unified.join(to)).unwrap();
            }
            assert_eq!(csv(&unified), wanted, "{words:?}");
            // The folder, and any file of it.
            for given in [tables.clone(), tables.join("7_hip_api_trace.csv")] {
                assert_eq!(csv(&given), wanted, "{words:?} {}", given.display());
            }
        }
    }

    #[test]
    fn text_of_a_large_export_reads_launches_only() {
        use std::io::{Seek as _, SeekFrom, Write as _};
        let folder = tempfile::tempdir().unwrap();
        let (small, large) = (
            folder.path().join("a.sqlite"),
            folder.path().join("b.sqlite"),
        );
        export(&small, 1, 1);
        export(&large, 1, 1);
        // Pages behind the end that nothing refers to; the file system stores none of them.
        let mut file = std::fs::File::options().write(true).open(&large).unwrap();
        let pages: u32 = ((5_u64 << 30) >> 12).try_into().unwrap();
        file.set_len(u64::from(pages) << 12).unwrap();
        file.seek(SeekFrom::Start(28)).unwrap();
        file.write_all(&pages.to_be_bytes()).unwrap();
        drop(file);
        let text = |file: &Path| {
            let (code, text, err) = run(&["gpu", path(file)]);
            assert_eq!(code, 0, "{err}");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (all, lean) = (text(&small), text(&large));
        assert!(
            lean.contains("Host not examined") && !all.contains("Host not examined"),
            "{lean}"
        );
        // The numbers are the same.
        let numbers = |text: &str| {
            let from = text.find("the GPU computes").unwrap();
            text[from..].split(';').next().unwrap().to_owned()
        };
        assert_eq!(numbers(&all), numbers(&lean));
    }

    #[test]
    fn stacks_that_repeat_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let stack = "frame;".repeat(200);
        let event = |at: i32| {
            format!(
                r#"{{"ph":"X","pid":1,"tid":1,"ts":{at},"dur":1,"name":"launch","args":{{"Call stack":"{stack}"}}}}"#
            )
        };
        let events: Vec<String> = (0..50).map(|at| event(2 * at)).collect();
        let json = folder.path().join("t.json");
        std::fs::write(&json, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
        let slim = folder.path().join("t.pftrace");
        assert_eq!(run(&["slim", path(&json), "-o", path(&slim)]).0, 0);
        let bytes = std::fs::read(&slim).unwrap();
        let count = bytes
            .windows(stack.len())
            .filter(|part| *part == stack.as_bytes())
            .count();
        assert_eq!(count, 2, "inline when it is new, then in the dictionary");
        let args = |file: &Path| {
            run(&["tables", path(file), "--table", "args"])
                .1
                .matches(&stack)
                .count()
        };
        assert_eq!((args(&json), args(&slim)), (50, 50));
    }

    #[test]
    fn a_recording_of_jax_opens_in_either_form() {
        let (space, json) = (
            data("xplane", "jax_cpu.xplane.pb"),
            data("xplane", "jax_cpu.trace.json.gz"),
        );
        let slices = |file: &Path| {
            let (code, out, err) = run(&["tables", path(file), "--table", "slice"]);
            assert_eq!((code, err.as_str()), (0, ""));
            out.lines().count()
        };
        assert_eq!(slices(&space), slices(&json));
        let (code, text, err) = run(&["gpu", path(&space)]);
        assert_eq!(code, 0, "{err}");
        assert!(text.contains("a recording of JAX or XLA"), "{text}{err}");
        // Both are one recording.
        let folder = tempfile::tempdir().unwrap();
        for file in [&space, &json] {
            std::fs::copy(file, folder.path().join(file.file_name().unwrap())).unwrap();
        }
        let (code, out, err) = run(&["summary", path(folder.path()), "--json"]);
        let out: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (code, out["traces"].as_array().unwrap().len()),
            (0, 1),
            "{err}"
        );
        assert!(err.contains("holds the same recording"), "{err}");
    }
}
