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
        let words = format!("the path of its steps is on rank {late} for 9");
        assert!(said.contains(&words), "{said}");
        // There is one answer: that of all ranks.
        assert_eq!(said.matches("decode: launch-bound").count(), 2, "{said}");
        assert!(!said.contains("communication-bound"), "{said}");
        let advice = format!("Begin with rank {late}: 9");
        assert_eq!(said.matches(&advice).count(), 1, "{said}");
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

/// What the slow rank computes before its collective, and the quick one; from launch to start, and the transfer, in microseconds.
const LATE: i64 = 50;
const EARLY: i64 = 10;
const LAUNCH: i64 = 5;
const TRANSFER: i64 = 25;

/// Returns the begin of each step of [`waiting`], in microseconds, and where the next one would begin.
fn begins() -> Vec<i64> {
    let mut begin = 1_000;
    let each = (0..=STEPS).map(|step| {
        let own = begin;
        // None is so long that it is a stall, of which the budget of the others is free.
        begin += 500 + step * step * 37 % 101 * 4;
        own
    });
    each.collect()
}

/// Generates two ranks of one collective a step, of which rank `late` comes last as its Python code takes longer. The clock of rank
/// 1 is ahead by 5 ms; its recording begins `skip` steps later.
fn waiting(late: usize, skip: usize) -> [String; 2] {
    let all = begins();
    [0, 1].map(|rank| {
        let clock = if rank == 1 { 5_000 } else { 0 };
        let own = if rank == late { LATE } else { EARLY };
        let first = if rank == 1 { skip } else { 0 };
        let steps = all.windows(2).enumerate().skip(first);
        let events = steps.map(|(step, ends)| {
            let begin = ends[0] + clock;
            let arrival = begin + own + LAUNCH;
            // No correlation is 0.
            let id = step + 1;
            let end = begin + LATE + LAUNCH + TRANSFER;
            format!(
                r#"{{"name":"ProfilerStep#{step}","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{begin},"dur":{}}},
                {{"name":"prepare","cat":"python_function","ph":"X","pid":1,"tid":1,"ts":{begin},"dur":{own}}},
                {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":3,"args":{{"correlation":{id}}}}},
                {{"name":"ncclDevKernel_AllReduce_Sum_f16_RING_LL","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{arrival},"dur":{},"args":{{"correlation":{id},"device":{rank},"stream":7}}}}"#,
                ends[1] - ends[0],
                begin + own,
                end - arrival,
            )
        });
        let events: Vec<String> = events.collect();
        format!(
            r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
            events.join(",")
        )
    })
}

/// Writes two ranks, and returns their folder.
fn folder_of(files: &[String]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (i, text) in files.iter().enumerate() {
        std::fs::write(folder.path().join(format!("w{i}.json")), text).unwrap();
    }
    folder
}

/// Returns host, launch and communication time of a step of [`waiting`] in nanoseconds, with all ranks.
fn truth(step: usize) -> [i64; 3] {
    let all = begins();
    // A step lasts from the end of the one before; the first one from its mark.
    let host = match step {
        0 => LATE,
        step => all[step] - all[step - 1] - LAUNCH - TRANSFER,
    };
    [host, LAUNCH, TRANSFER].map(|us| us * 1_000)
}

/// Step time, budget and verdict of every cycle are those of the graph of all ranks, in every format.
#[test]
fn with_all_ranks_there_is_one_truth_about_each_step() {
    for late in [0, 1] {
        let folder = folder_of(&waiting(late, 0));
        let document = json(&run(&["analyse", text(folder.path()), "--format", "json"]));
        for (rank, job) in document["jobs"].as_array().unwrap().iter().enumerate() {
            let mut sums = [0; 3];
            let cycles = job["cycles"].as_array().unwrap();
            assert_eq!(cycles.len(), begins().len() - 1);
            for (at, cycle) in cycles.iter().enumerate() {
                let (step, want) = (&cycle["step"], truth(at));
                let groups = ["host", "launch", "comm"].map(|group| step["groups"][group].as_i64());
                assert_eq!(groups, want.map(Some), "rank {rank}: {cycle}");
                assert_eq!(step["duration_ns"], want.iter().sum::<i64>(), "{cycle}");
                assert_eq!(step["verdict"], "host-bound", "{cycle}");
                assert_eq!(cycle["bound"], "host", "{cycle}");
                let [begin, end, start] =
                    [&step["begin_ns"], &step["end_ns"], &cycle["host_start_ns"]]
                        .map(|at| at.as_i64().unwrap());
                assert_eq!(end - begin, want.iter().sum::<i64>(), "{cycle}");
                // In the clock of the recording, as all other times of the cycle.
                let host = (LATE + LAUNCH + TRANSFER) * 1_000;
                assert_eq!(end - start, host, "{cycle}");
                sums = [0, 1, 2].map(|group| sums[group] + want[group]);
                let away = step["other_ranks_ns"].as_i64().unwrap();
                assert_eq!(away > 0, rank != late, "{cycle}");
            }
            let answer = &job["bottlenecks"][0];
            assert_eq!(answer["bound"], "host", "{answer}");
            let budget =
                ["host", "launch", "comm"].map(|group| answer["budget_ns"][group].as_i64());
            assert_eq!(budget, sums.map(Some), "{answer}");
            let elsewhere = &answer["elsewhere"];
            match rank == late {
                true => assert!(elsewhere.is_null(), "{answer}"),
                false => assert_eq!(elsewhere["rank"], late, "{answer}"),
            }
        }
        let csv = run(&["analyse", text(folder.path()), "--format", "csv"]).stdout;
        let csv = String::from_utf8(csv).unwrap();
        let bounds: Vec<&str> = csv
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(6))
            .collect();
        assert_eq!(bounds.len(), 2 * (begins().len() - 1));
        assert!(bounds.iter().all(|bound| *bound == "host"), "{csv}");
        let (page, path) = (folder.path().join("p.html"), folder.path().join("p.pb"));
        let said = run(&[
            "analyse",
            text(&folder.path().join("w0.json")),
            text(&folder.path().join("w1.json")),
            "--html",
            text(&page),
            "--perfetto",
            text(&path),
        ]);
        let said = String::from_utf8(said.stdout).unwrap();
        let page = std::fs::read_to_string(page).unwrap();
        for shown in [&said, &page] {
            assert!(!shown.contains("communication-bound"), "{shown}");
            assert!(shown.contains("host-bound"), "{shown}");
        }
        let spans = spans(&path);
        let bound: Vec<&str> = spans
            .iter()
            .filter(|(track, ..)| track == "bound")
            .map(|(_, name, _)| name.as_str())
            .collect();
        assert_eq!(bound.len(), 2 * (begins().len() - 1));
        assert!(bound.iter().all(|name| *name == "host-bound"), "{bound:?}");
    }
}

/// A rank alone cannot know what the others do while it waits.
#[test]
fn a_rank_alone_is_judged_by_its_own_recording() {
    let folder = folder_of(&waiting(1, 0));
    let alone = folder.path().join("w0.json");
    let document = json(&run(&["analyse", text(&alone), "--format", "json"]));
    let job = &document["jobs"][0];
    let step = &job["cycles"][0]["step"];
    let waits = (LATE - EARLY + TRANSFER) * 1_000;
    assert_eq!(step["groups"]["comm"], waits, "{step}");
    assert_eq!(step["verdict"], "communication-bound", "{step}");
    assert_eq!(step["other_ranks_ns"], 0, "{step}");
    assert!(document["rank_jobs"].is_null());
}

/// What a rank waits for is not known for steps that the others did not record.
#[test]
fn steps_that_not_all_ranks_recorded_are_left_out_and_said() {
    let skip = 3;
    let folder = folder_of(&waiting(1, skip));
    let output = run(&["analyse", text(folder.path()), "--format", "json"]);
    let document = json(&output);
    let job = &document["jobs"][0];
    let cycles = job["cycles"].as_array().unwrap();
    assert_eq!(cycles.len(), begins().len() - 1);
    let known = cycles.iter().filter(|cycle| !cycle["step"].is_null());
    let known: Vec<i64> = known
        .map(|cycle| cycle["index"].as_i64().unwrap())
        .collect();
    let left_out = cycles.len() - known.len();
    assert!(left_out >= skip, "{known:?}");
    assert!(cycles[0]["bound"].is_null(), "{}", cycles[0]);
    assert_eq!(job["bottlenecks"][0]["steps"], known.len());
    for &at in &known[1..] {
        let at = usize::try_from(at).unwrap();
        assert_eq!(cycles[at]["step"]["groups"]["host"], truth(at)[0]);
    }
    let said = String::from_utf8(run(&["analyse", text(folder.path())]).stdout).unwrap();
    let words = format!("{left_out} of its steps left out");
    assert!(said.contains(&words), "{said}");
}
