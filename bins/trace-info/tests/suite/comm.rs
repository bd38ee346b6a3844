//! Tests of `trace-info comm` on the two ranks of the demo, whose truth is known.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Relative, so that the header, which shows the path as given, fits wherever the workspace is.
fn demo(name: &str) -> PathBuf {
    Path::new("../../testdata/demo").join(name)
}

/// Returns the standard output of `trace-info comm` on both ranks, the second first.
fn comm(more: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "80")
        .arg("comm")
        .args([demo("demo-rank1.json.gz"), demo("demo-rank0.json.gz")])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    output.stdout
}

fn json(more: &[&str]) -> Value {
    serde_json::from_slice(&comm(&[&["--json"], more].concat())).unwrap()
}

fn rows<'d>(document: &'d Value, table: &str) -> &'d [Value] {
    document[table]["rows"].as_array().unwrap()
}

#[test]
fn clocks_waits_and_causes_are_those_that_were_planted() {
    let truth: Value =
        serde_json::from_slice(&std::fs::read(demo("demo-ranks.truth.json")).unwrap()).unwrap();
    let document = json(&[]);
    let ranks = rows(&document, "ranks");
    assert_eq!(ranks.len(), 2);
    let planted = truth["planted"]["clock_offset_ns_rank1"].as_i64().unwrap();
    let ahead = ranks[1]["clock_ahead_ns"].as_i64().unwrap();
    let error = ranks[1]["clock_error_ns"].as_i64().unwrap();
    assert!(
        (ahead - planted).abs() <= error,
        "{ahead} ± {error} for {planted}"
    );
    assert!(error < 80, "{error}");
    for (rank, row) in ranks.iter().enumerate() {
        let want = truth["wait_total_ns"][rank].as_i64().unwrap();
        let got = row["waited_ns"].as_i64().unwrap();
        // The end of a collective differs by up to 80 ns; there are 190 of them.
        assert!(
            (want - got).abs() < 1_000,
            "rank {rank} waited {got}, {want} planted"
        );
        assert_eq!(row["rank_source"], "file");
    }
    let late = rows(&document, "late");
    for (row, kind, name, extra) in [
        (&late[0], "slower_host", "collect", 1_200_000),
        (&late[1], "slower_kernels", "FlashAttnFwd", 850_000),
    ] {
        assert_eq!(
            (row["rank"].as_u64(), &row["cause"]),
            (Some(1), &Value::from(kind))
        );
        assert!(row["cause_name"].as_str().unwrap().contains(name), "{row}");
        let excess = row["here_ns"].as_i64().unwrap() - row["others_ns"].as_i64().unwrap();
        assert!((excess - extra).abs() < 20_000, "{row}");
    }
    // The collectives of the truth, in its order: equally late, with the same rank last.
    let collectives: Vec<&Value> = rows(&document, "collectives")
        .iter()
        .filter(|c| c["type"] == "all_reduce" && !c["seq"].is_null())
        .collect();
    let mut compared = 0;
    for planted in truth["collectives"].as_array().unwrap() {
        let Some(ours) = collectives.iter().find(|c| c["seq"] == planted["seq"]) else {
            continue;
        };
        let error =
            ours["skew_ns"].as_i64().unwrap() - planted["start_spread_ns"].as_i64().unwrap();
        assert!(error.abs() <= 80, "{ours} {planted}");
        if planted["start_spread_ns"].as_i64().unwrap() > 100 {
            assert_eq!(ours["last_rank"], planted["last_rank"], "{ours}");
        }
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn exposed_and_overlapped_time_make_up_every_kernel() {
    let document = json(&[]);
    let kernels = rows(&document, "kernels");
    assert_eq!(kernels.len(), 380);
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
    for row in kernels {
        assert_eq!(
            number(row, "exposed_ns") + number(row, "overlapped_ns"),
            number(row, "dur_ns")
        );
    }
    // 16 MiB over two ranks: bus and algorithm bandwidth are the same.
    let first = kernels
        .iter()
        .find(|k| k["message_bytes"] == 16 << 20)
        .unwrap();
    let rate = first["algbw_bytes_per_s"].as_f64().unwrap();
    let want = f64::from(16 << 20) / (first["dur_ns"].as_f64().unwrap() / 1e9);
    assert!((rate - want).abs() < want * 1e-12);
    assert_eq!(first["algbw_bytes_per_s"], first["busbw_bytes_per_s"]);
}

#[test]
fn of_a_rank_alone_no_waits_are_known() {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "80")
        .args(["comm", "--json"])
        .arg(demo("demo-rank0.json.gz"))
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rank = &rows(&document, "ranks")[0];
    assert_eq!(rank["collectives"], 0);
    for unknown in ["waited_ns", "inflicted_ns", "avoidable_ns", "times_last"] {
        assert!(rank[unknown].is_null(), "{unknown}: {rank}");
    }
}

#[test]
fn every_format_and_number_of_threads_says_the_same() {
    let once = comm(&["--threads", "1", "--json"]);
    assert_eq!(once, comm(&["--threads", "4", "--json"]));
    let csv = String::from_utf8(comm(&["--format", "csv", "--table", "ranks"])).unwrap();
    assert!(csv.starts_with("rank,source,rank_source,"));
    assert_eq!(csv.lines().count(), 3);
    let text = String::from_utf8(comm(&[])).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("rank 1, last in"), "{text}");
    let md = String::from_utf8(comm(&["--format", "md"])).unwrap();
    assert!(md.contains("\n## ranks\n"), "{md}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernels.parquet");
    comm(&["--format", "parquet", "-o", path.to_str().unwrap()]);
    let file = std::fs::File::open(path).unwrap();
    let rows: usize = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(rows, 380);
}

#[test]
fn rules_of_another_analyser_have_its_columns() {
    let words = [
        "--rules",
        "tracelens",
        "--table",
        "collectives",
        "--format",
        "csv",
    ];
    let csv = String::from_utf8(comm(&words)).unwrap();
    assert!(csv.starts_with("collective_id,Process Group Name,"));
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "80")
        .args(["comm", "--rules", "tracelens", "--table", "late"])
        .arg(demo("demo-rank0.json.gz"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Generates traces of two ranks with these host annotations and the kernels that they launched.
fn ranks_with(folder: &Path, marks: &[(&str, &str, &str)], kernel: Option<&str>) -> Vec<PathBuf> {
    (0..2)
        .map(|rank| {
            let mut events = Vec::new();
            for (i, (name, dims, types)) in marks.iter().enumerate() {
                let (at, id) = (1_000 * i, i + 1);
                events.push(format!(
                    r#"{{"ph":"X","ts":{at},"dur":50,"name":"{name}","cat":"user_annotation","pid":1,"tid":1,"args":{{"Input Dims":{dims},"Input type":{types}}}}}"#
                ));
                let Some(kernel) = kernel else { continue };
                let start = at + 60 + 10 * rank;
                events.push(format!(
                    r#"{{"ph":"X","ts":{at},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{start},"dur":100,"name":"{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#
                ));
            }
            let path = folder.join(format!("rank{rank}.json"));
            let text = format!(
                r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
                events.join(",")
            );
            std::fs::write(&path, text).unwrap();
            path
        })
        .collect()
}

fn output(files: &[PathBuf], more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .arg("comm")
        .args(files)
        .args(more)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn marks_of_the_backend_give_sizes_of_all_kinds() {
    let folder = tempfile::tempdir().unwrap();
    for (mark, dims, types, kernel, want) in [
        (
            "nccl:all_to_all",
            "[[6144]]",
            r#"["float"]"#,
            "ncclDevKernel_SendRecv",
            24_576,
        ),
        (
            "nccl:_all_gather_base",
            "[[10, 10]]",
            r#"["c10::Half"]"#,
            "ncclDevKernel_AllGather",
            400,
        ),
        (
            "nccl:_reduce_scatter_base",
            "[[800]]",
            r#"["c10::BFloat16"]"#,
            "ncclDevKernel_ReduceScatter",
            1_600,
        ),
        (
            "nccl:broadcast",
            "[[16]]",
            r#"["long"]"#,
            "ncclDevKernel_Broadcast",
            128,
        ),
        (
            "nccl:allreduce_coalesced",
            "[[3], [5]]",
            r#"["float", "float"]"#,
            "ncclDevKernel_AllReduce",
            32,
        ),
    ] {
        let marks = vec![(mark, dims, types); 20];
        let files = ranks_with(folder.path(), &marks, Some(kernel));
        let document: Value = serde_json::from_str(&output(&files, &["--json"])).unwrap();
        let all = rows(&document, "collectives");
        assert_eq!(all.len(), 20, "{mark}");
        for row in all {
            // All ranks of the world are recorded, so the group is known to be the world.
            assert_eq!(
                (row["message_bytes"].as_i64(), row["group_size"].as_i64()),
                (Some(want), Some(2)),
                "{mark} {row}"
            );
            assert!(row["busbw_bytes_per_s"].as_f64().unwrap() > 0.0);
        }
        // For a single rank latency is duration, and bandwidth is unknown.
        let document: Value = serde_json::from_str(&output(&files[..1], &["--json"])).unwrap();
        for row in rows(&document, "types") {
            assert_eq!(row["latency_includes_wait"], true);
            for unknown in ["busbw_bytes_per_s", "algbw_bytes_per_s", "wait_ns"] {
                assert!(row[unknown].is_null(), "{unknown}: {row}");
            }
        }
    }
}

#[test]
fn without_waits_nothing_is_concluded() {
    let folder = tempfile::tempdir().unwrap();
    let marks = [("gloo:all_reduce", "[[1024, 3]]", r#"["float"]"#); 3];
    let files = ranks_with(folder.path(), &marks, None);
    let text = output(&files, &[]);
    assert!(text.starts_with("Cannot say which rank is late"), "{text}");
    assert!(text.contains("12.00 KiB"), "{text}");
    let document: Value = serde_json::from_str(&output(&files, &["--json"])).unwrap();
    let host = rows(&document, "host_collectives");
    assert_eq!(host.len(), 2);
    assert_eq!(
        (
            host[1]["message_bytes"].as_i64(),
            host[1]["count"].as_i64(),
            host[1]["sum_ns"].as_i64()
        ),
        (Some(12_288), Some(3), Some(150_000))
    );
    let text = output(
        &ranks_with(folder.path(), &[("f", "[]", "[]")], Some("gemm")),
        &[],
    );
    assert!(
        text.starts_with("Cannot say anything about collectives"),
        "{text}"
    );
    assert!(!text.contains("straggler") && !text.contains('─'), "{text}");
}

#[test]
fn two_ranks_of_a_larger_job_are_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let marks = [("nccl:all_reduce", "[[1024, 3]]", r#"["float"]"#); 20];
    let files = ranks_with(folder.path(), &marks, Some("ncclDevKernel_AllReduce"));
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.replace("\"world_size\":2", "\"world_size\":8");
        std::fs::write(file, text).unwrap();
    }
    let document: Value = serde_json::from_str(&output(&files, &["--json"])).unwrap();
    for row in rows(&document, "collectives") {
        assert!(row["busbw_bytes_per_s"].is_null(), "{row}");
        assert!(row["late_ns"].is_null(), "{row}");
    }
    let text = output(&files, &[]);
    assert!(text.starts_with("Cannot say which rank is late"), "{text}");
}

/// Generates one launch per row: name, arguments and category of the surrounding slice, and the
/// kernel.
fn launches(folder: &Path, list: &[(&str, &str, &str)]) -> Value {
    let mut events = Vec::new();
    for (at, (name, args, kernel)) in list.iter().enumerate() {
        let (ts, id) = (1_000 * at, at + 1);
        events.push(format!(
            r#"{{"ph":"X","ts":{ts},"dur":50,"name":"{name}","cat":"cpu_op","pid":1,"tid":1,"args":{{{args}}}}},
{{"ph":"X","ts":{},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{},"dur":90,"name":"{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
            ts + 10,
            ts + 60
        ));
    }
    let path = folder.join("t.json");
    std::fs::write(&path, format!("[{}]", events.join(","))).unwrap();
    serde_json::from_str(&output(&[path], &["--json"])).unwrap()
}

#[test]
fn messages_between_pairs_are_what_their_operators_say() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    let stated = |name: &str| {
        format!(
            r#""Collective name":"{name}","In msg nelems":512,"Out msg nelems":512,"dtype":"BFloat16","Group size":4,"Process Group Name":"0""#
        )
    };
    let base = r#""Input Dims":[[256, 4],[256, 4]],"Input type":["float","float"]"#;
    let tokens = r#""Input Dims":[[128, 7168],[]],"Input type":["c10::BFloat16",""]"#;
    let ep = "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)";
    let [coalesced, sent, gathered] = ["coalesced", "send", "coalesced"].map(stated);
    let all = [
        // Nothing marks it as an all-to-all: a pipeline sends the same way.
        ("my_op", "", pairs, "send_recv", None),
        (
            "c10d::alltoall_base_",
            base,
            pairs,
            "all_to_all",
            Some(4_096),
        ),
        ("c10d::send", "", pairs, "send", None),
        ("record_param_comms", &sent, pairs, "send", Some(1_024)),
        (
            "record_param_comms",
            &coalesced,
            pairs,
            "send_recv",
            Some(1_024),
        ),
        (
            "record_param_comms",
            &gathered,
            "ncclDevKernel_AllGather_RING_LL",
            "all_gather",
            Some(1_024),
        ),
        (
            "deep_ep::dispatch",
            tokens,
            ep,
            "all_to_all",
            Some(1_835_008),
        ),
    ];
    let list = all.map(|(name, args, kernel, ..)| (name, args, kernel));
    let document = launches(folder.path(), &list);
    let found = rows(&document, "kernels");
    assert_eq!(found.len(), all.len());
    for ((name, _, _, op, bytes), row) in all.iter().zip(found) {
        assert_eq!(row["type"], *op, "{name} {row}");
        assert_eq!(row["message_bytes"].as_i64(), *bytes, "{name} {row}");
    }
    // The destination of tokens is unknown, and so is the bandwidth.
    let tokens = found.last().unwrap();
    assert_eq!(tokens["dtype"], "BFloat16");
    assert_eq!(tokens["in_bytes"], 1_835_008);
    assert!(tokens["out_bytes"].is_null() && tokens["busbw_bytes_per_s"].is_null());
}

#[test]
fn gathers_of_the_host_have_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let marks = [("gloo:all_gather", "[[500]]", r#"["c10::BFloat16"]"#); 2];
    let files = ranks_with(folder.path(), &marks, None);
    let document: Value = serde_json::from_str(&output(&files, &["--json"])).unwrap();
    for row in rows(&document, "host_collectives") {
        let sizes = ["in_bytes", "message_bytes"].map(|key| row[key].as_i64());
        assert_eq!(sizes, [Some(1_000), Some(2_000)], "{row}");
    }
}

/// Twelve all-reduces of 200 us on two ranks; the second rank arrives `late_us` after the first at two of them.
fn late_twice(folder: &Path, late_us: usize) -> Vec<PathBuf> {
    let of_rank = |rank: usize| {
        let mut events = vec![format!(
            r#"{{"ph":"M","name":"process_labels","pid":0,"tid":0,"args":{{"labels":"GPU {rank}"}}}}"#
        )];
        for step in 0..12 {
            let at = 1_000 + step * 1_000;
            // Jitter of a nanosecond, so that no rank is always the last.
            let jitter = if step % 2 == rank { "" } else { ".001" };
            let late = match rank == 1 && (step == 3 || step == 8) {
                true => late_us,
                false => 0,
            };
            let (start, dur) = (at + late, 200 - late);
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL","pid":0,"tid":7,"ts":{start}{jitter},"dur":{dur},"args":{{"device":{rank},"stream":7,"Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":2,"dtype":"BFloat16","Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{step}}}}}"#
            ));
        }
        let path = folder.join(format!("late{late_us}-rank{rank}.json"));
        let text = format!(
            r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
            events.join(",")
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    vec![of_rank(0), of_rank(1)]
}

#[test]
fn a_little_waiting_is_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(&late_twice(folder.path(), 150), &[]);
    assert!(text.contains("causes most of the waiting"), "{text}");
    let text = output(&late_twice(folder.path(), 4), &[]);
    assert!(
        text.starts_with("Ranks hardly wait for each other"),
        "{text}"
    );
}
