//! Several ranks: late ones, recordings of different lengths.

use byte_source::Source;
use critical_path::{Graph, Options, Part, PartOptions, analyse, marks, sentences};
use gpu_time::comm::{CommRules, Job, RankDigest, assign_ranks};
use trace_model::kernel::{TraceIndex, Vocabulary};

/// Two ranks with a collective in each of six steps; the host of rank 1 is late by 400 us in every other one.
fn a_late_rank() -> Graph {
    let (mut parts, mut digests) = (Vec::new(), Vec::new());
    for rank in 0..2_u32 {
        let mut rows = Vec::new();
        let (mut at, mut id) = (0_u32, 0);
        for step in 0..6_u32 {
            let late = if step % 2 == 0 { 400 } else { 0 };
            let own = if rank == 1 { late } else { 0 };
            let mut add = |category: &str,
                           name: &str,
                           tid: u32,
                           from: u32,
                           dur: u32,
                           args: &str| {
                let pid = u32::from(category != "kernel");
                rows.push(format!(
                    "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{from},\"dur\":{dur},\"args\":{{{args}}}}}"
                ));
            };
            let end = at + late + 171;
            add(
                "user_annotation",
                &format!("ProfilerStep#{step}"),
                10,
                at,
                end + 8 - at,
                "",
            );
            add("python_function", "slow_tokenize", 10, at, own + 9, "");
            for (nth, name) in [
                "sgemm_128x64_kernel",
                "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
            ]
            .into_iter()
            .enumerate()
            {
                id += 1;
                let args = format!("\"correlation\":{id},\"stream\":7,\"device\":0");
                let (launched, start, stop) = match nth {
                    0 => (at + own + 10, at + own + 20, at + own + 70),
                    _ => (at + own + 15, at + own + 71, end),
                };
                add("cuda_runtime", "cudaLaunchKernel", 10, launched, 3, &args);
                add("kernel", name, 7, start, stop - start, &args);
            }
            add(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                10,
                at + own + 20,
                end + 5 - at - own - 20,
                "",
            );
            at = end + 10;
        }
        let json = format!(
            "{{\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":2}},\"traceEvents\":[{}]}}",
            rows.join(",")
        );
        let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
        let trace =
            perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        digests.push(RankDigest::of_part(
            &format!("rank{rank}.json"),
            &index,
            CommRules::Extended,
            |_| true,
        ));
        parts.push(Part::new(
            &index,
            rank,
            &marks(&index, None),
            PartOptions::default(),
        ));
    }
    assign_ranks(&mut digests).unwrap();
    let job = Job::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}

#[test]
fn waiting_for_other_ranks_is_touched_where_it_is_cut() {
    let mut options = Options::default();
    options.what_if.push("comm:wait=0".parse().unwrap());
    let analysis = analyse(&a_late_rank(), &options).unwrap();
    assert!(analysis.what_if[0].touched > 0);
}

#[test]
fn a_rank_as_fast_as_the_median_one_loses_what_it_was_late() {
    let mut options = Options::default();
    options.what_if.push("rank:1=median".parse().unwrap());
    options
        .what_if
        .push("host:slow_tokenize=0".parse().unwrap());
    let analysis = analyse(&a_late_rank(), &options).unwrap();
    assert_eq!(analysis.collectives, 6);
    let gain = analysis.what_if[0].gain_ns;
    assert!((gain - 1_200_000).abs() < 24_000, "{gain}");
}

#[test]
fn the_steps_of_all_ranks_are_steps_of_one_job() {
    let analysis = analyse(&a_late_rank(), &Options::default()).unwrap();
    assert_eq!(analysis.steps.len(), 12);
    let first = &sentences(&analysis)[0];
    assert!(
        first.starts_with("6 ProfilerStep#* steps of 2 ranks, median "),
        "{first}"
    );
}

/// Ranks with a collective of 20 us in each of eight steps of 100 us; the host of rank 1 works for 60 us of each and rank 0 waits
/// for it. The recording of rank 0 begins with the step numbered `first` and ends before that numbered `last`.
fn recorded_for(first: u32, last: u32) -> Graph {
    let (mut parts, mut digests) = (Vec::new(), Vec::new());
    for rank in 0..2_u32 {
        let mut rows = Vec::new();
        for step in 0..8_u32 {
            if rank == 0 && !(first..last).contains(&step) {
                continue;
            }
            let at = 100 * step;
            let host = if rank == 1 { 60 } else { 10 };
            let mut add = |category: &str, name: &str, from: u32, dur: u32, args: &str| {
                let (pid, tid) = if category == "kernel" {
                    (0, 7)
                } else {
                    (1, 10)
                };
                rows.push(format!(
                    "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{from},\"dur\":{dur},\"args\":{{{args}}}}}"
                ));
            };
            add(
                "user_annotation",
                &format!("ProfilerStep#{step}"),
                at,
                99,
                "",
            );
            add("python_function", "prepare", at, host, "");
            let (compute, reduce) = (2 * step + 1, 2 * step + 2);
            let on = |id: u32| format!("\"correlation\":{id},\"stream\":7,\"device\":0");
            add(
                "cuda_runtime",
                "cudaLaunchKernel",
                at + host,
                2,
                &on(compute),
            );
            add(
                "cuda_runtime",
                "cudaLaunchKernel",
                at + host + 3,
                2,
                &on(reduce),
            );
            add("kernel", "rms_norm_kernel", at + host + 5, 5, &on(compute));
            // It begins behind the own kernel and ends for both ranks at once.
            let begin = at + host + 11;
            let name = "ncclDevKernel_AllReduce_Sum_f16_RING_LL";
            add("kernel", name, begin, at + 91 - begin, &on(reduce));
            add(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                at + host + 6,
                91 + 4 - host - 6,
                "",
            );
        }
        let json = format!(
            "{{\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":2}},\"traceEvents\":[{}]}}",
            rows.join(",")
        );
        let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
        let options = perfetto_reader::ReadOptions::default();
        let trace = perfetto_reader::read(source, &options).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let name = format!("rank{rank}.json");
        let digest = RankDigest::of_part(&name, &index, CommRules::Extended, |_| true);
        digests.push(digest);
        let found = marks(&index, None);
        parts.push(Part::new(&index, rank, &found, PartOptions::default()));
    }
    assign_ranks(&mut digests).unwrap();
    let job = Job::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}

#[test]
fn steps_that_one_rank_alone_recorded_are_left_out() {
    let predicted = |first, last| {
        let mut options = Options::default();
        options.what_if.push("host:prepare=0".parse().unwrap());
        let analysis = analyse(&recorded_for(first, last), &options).unwrap();
        let groups = analysis.window.groups.total();
        // A step of a rank covers what its window holds.
        assert_eq!(groups, analysis.window.duration_ns, "{:?}", analysis.window);
        let steps = analysis.steps.len() as i64 / 2;
        (
            analysis.left_out,
            steps,
            analysis.what_if[0].predicted_ns / steps,
        )
    };
    let (left_out, steps, whole) = predicted(0, 8);
    assert_eq!((left_out, steps), (0, 8));
    // Of 100 us, 60 are code of the host; the same is predicted of the steps that both have.
    assert!((35_000..=45_000).contains(&whole), "{whole}");
    for (first, last, left_out) in [(2, 8, 2), (0, 6, 2), (1, 7, 2)] {
        let found = predicted(first, last);
        assert_eq!(found.0, left_out);
        assert!((found.2 - whole).abs() * 20 < whole, "{found:?} {whole}");
    }
    // Where few steps are common, all stay.
    assert_eq!(predicted_all(6, 8), 10);
}

fn predicted_all(first: u32, last: u32) -> usize {
    let analysis = analyse(&recorded_for(first, last), &Options::default()).unwrap();
    analysis.steps.len()
}
