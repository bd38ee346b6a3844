//! Tests with files of the ranks of one job.

use super::*;

const STEPS: i64 = 12;
const LAYERS: i64 = 4;

/// Generates two ranks whose collectives end together; before each of them the host of `late` takes
/// 300 µs longer. The clock of rank 1 is ahead by 5 ms.
fn ranks(late: usize) -> [String; 2] {
    ranks_with(late, |step| 50 + step * step * 37 % 101 * 10)
}

/// Generates the same with the given pause after each step. A function of its own takes the time of
/// the late rank in each layer.
fn ranks_with(late: usize, pause: impl Fn(i64) -> i64) -> [String; 2] {
    let mut events: [Vec<String>; 2] = Default::default();
    let (mut host, mut free) = ([1_000_i64; 2], [0_i64; 2]);
    let mut id = 0;
    for step in 0..STEPS {
        let begin = host;
        for layer in 0..LAYERS {
            let mut arrives = [0; 2];
            for r in 0..2 {
                let clock = 5_000 * i64::try_from(r).unwrap();
                id += 1;
                if r == late {
                    events[r].push(format!(
                        r#"{{"name":"prepare_{layer}","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{},"dur":300}}"#,
                        host[r] + 1 + clock
                    ));
                }
                host[r] += if r == late { 400 } else { 100 };
                let start = free[r].max(host[r] + 5);
                free[r] = start + 50;
                arrives[r] = free[r].max(host[r] + 15);
                events[r].push(format!(
                    r#"{{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":3,"args":{{"correlation":{id}}}}},
                    {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":50,"args":{{"correlation":{id},"device":{r},"stream":7}}}},
                    {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":3,"args":{{"correlation":{}}}}}"#,
                    host[r] + clock,
                    start + clock,
                    host[r] + 10 + clock,
                    id + 100_000
                ));
            }
            let end = arrives[0].max(arrives[1]) + 20;
            for r in 0..2 {
                let clock = 5_000 * i64::try_from(r).unwrap();
                events[r].push(format!(
                    r#"{{"name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"correlation":{},"device":{r},"stream":7}}}}"#,
                    arrives[r] + clock,
                    end - arrives[r],
                    id - 1 + i64::try_from(r).unwrap() + 100_000
                ));
                free[r] = end;
                host[r] = host[r].max(end);
            }
        }
        for r in 0..2 {
            let clock = 5_000 * i64::try_from(r).unwrap();
            events[r].push(format!(
                r#"{{"name":"execute_8_context_0(0)_generation_8(sq8sk{})","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{},"dur":{}}}"#,
                800 + 8 * step,
                begin[r] + clock,
                host[r] - begin[r]
            ));
            // No two steps are equal: a rhythm without a distinctive feature could be joined
            // anywhere.
            host[r] += pause(step);
        }
    }
    let mut rank = 0;
    events.map(|list| {
        let text = format!(
            r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
            list.join(",")
        );
        rank += 1;
        text
    })
}

#[test]
fn a_folder_of_ranks_is_one_job_and_the_late_one_is_to_blame() {
    for late in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        for (i, text) in ranks(late).iter().enumerate() {
            std::fs::write(folder.path().join(format!("w{i}.json")), text).unwrap();
        }
        let output = run(&["analyse", text(folder.path()), "--format", "json"]);
        assert_eq!(output.status.code(), Some(0));
        let document = json(&output);
        let joined = &document["rank_jobs"][0];
        assert_eq!(joined["ranks"], serde_json::json!([0, 1]));
        assert_eq!(joined["collectives"], STEPS * LAYERS);
        assert_eq!(joined["straggler"]["rank"], late, "{joined}");
        for job in document["jobs"].as_array().unwrap() {
            let waits = job["rank"]["waited_ns"].as_i64().unwrap();
            let of_late = job["rank"]["rank"] == late;
            assert_eq!(waits * 10 < STEPS * LAYERS * 300_000, of_late, "{waits}");
            let cycles = job["cycles"].as_array().unwrap();
            for cycle in &cycles[1..] {
                assert_eq!(cycle["skew"]["straggler"]["rank"], late, "{cycle}");
                let spread = cycle["skew"]["spread_ns"].as_i64().unwrap();
                assert!((spread - LAYERS * 300_000).abs() < 200_000, "{spread}");
            }
        }
        let said = run(&["analyse", text(folder.path())]).stdout;
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(&format!("rank {late} comes last")), "{said}");
        assert!(said.contains(&format!("mostly for rank {late}")), "{said}");
        // What bounds the rank that waits is the code between the launches of the other one.
        let waits = &document["jobs"][1 - late]["rank"]["joined"];
        assert_eq!(waits["verdict"], "launch-bound", "{waits}");
        assert_eq!(
            waits["verdict"],
            document["jobs"][late]["rank"]["joined"]["verdict"]
        );
        let by_rank = waits["path_ns_by_rank"].as_array().unwrap();
        let of = |rank: usize| by_rank.iter().find(|row| row["rank"] == rank);
        let ns = |rank: usize| of(rank).map_or(0, |row| row["path_ns"].as_i64().unwrap());
        assert!(ns(late) > 4 * ns(1 - late), "{waits}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!(
            "Joined with the others, the steps of rank {} are launch-bound",
            1 - late
        );
        assert!(said.contains(&words), "{said}");
        let words = format!("the path is on rank {late} for 9");
        assert!(said.contains(&words), "{said}");
    }
}

#[test]
fn causes_of_lateness_are_counted_over_all_functions_and_even_rhythms_are_said() {
    let said = |files: &[String]| {
        let folder = tempfile::tempdir().unwrap();
        for (i, text) in files.iter().enumerate() {
            std::fs::write(folder.path().join(format!("w{i}.json")), text).unwrap();
        }
        let output = run(&["analyse", text(folder.path()), "--format", "json"]);
        let document = json(&output);
        document["rank_jobs"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let uneven = said(&ranks(1));
    // Each of the four functions precedes a quarter of the collectives; nothing was recorded before
    // the first one.
    let all = STEPS * LAYERS;
    assert!(
        uneven.contains(&format!("Before {} of them: slower host", all - 1)),
        "{uneven}"
    );
    assert!(uneven.contains("12 times)"), "{uneven}");
    assert!(!uneven.contains("more than one way"), "{uneven}");
    let even = said(&ranks_with(1, |_| 50));
    assert!(even.contains("more than one way"), "{even}");
}
