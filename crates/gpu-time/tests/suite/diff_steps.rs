//! Compares steps of two generated traces: per step, regardless of the number of steps.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "numbers are small, and sums of few integers divided by counts are exact"
)]

use crate::support::{Dice, Maker, Value};
use gpu_time::diff::{
    Basis, Comparison, HostKind, Metric, answers, compare, compare_chosen, lines,
};
use gpu_time::{GpuWork, Rules, steps};
use trace_model::{TimeRange, Trace};

/// A step: its name, the durations of its kernels, and the pause of the host after it.
struct Made {
    name: &'static str,
    kernels: Vec<i64>,
    pause: i64,
}

fn made(list: &[Made]) -> Trace {
    let mut maker = Maker::new();
    let (mut at, mut id) = (1_000, 0);
    for (number, step) in list.iter().enumerate() {
        let begin = at;
        for (kernel, ns) in step.kernels.iter().enumerate() {
            id += 1;
            let args = [("correlation", Value::Int(id))];
            maker.host((at, 10), "cuda_runtime", "cudaLaunchKernel", &args);
            maker.kernel(7, (at + 20, *ns), &format!("kernel_{kernel}"), &args);
            at += 20 + ns;
        }
        let name = format!("{} bs={}]", step.name, number + 3);
        maker.host((begin, at - begin), "user_annotation", &name, &[]);
        at += 1 + step.pause;
    }
    maker.finish()
}

fn compared(a: &[Made], b: &[Made]) -> Comparison {
    let (a, b) = (made(a), made(b));
    let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
    let found = works.map(|work| steps(work, None));
    let both = [found[0].as_slice(), found[1].as_slice()];
    compare(works, Rules::Extended, Some(both), [None, None])
}

fn of(name: &'static str, n: i64, kernels: &[i64], pause: i64) -> Vec<Made> {
    let one = |_| Made {
        name,
        kernels: kernels.to_vec(),
        pause,
    };
    (0..n).map(one).collect()
}

#[test]
fn the_number_of_steps_does_not_matter() {
    let mut dice = Dice(11);
    for _ in 0..30 {
        let kernels: Vec<i64> = (0..1 + dice.below(6))
            .map(|_| 50 + dice.below(900))
            .collect();
        let (n, m) = (2 + dice.below(6), 2 + dice.below(6));
        let pause = dice.below(5_000);
        let found = compared(
            &of("step[DECODE", n, &kernels, 10),
            &of("step[DECODE", m, &kernels, 10 + pause),
        );
        assert_eq!(found.basis, Basis::Steps);
        assert_eq!(found.left_out, [(0, 0); 2]);
        let [kind] = found.kinds.as_slice() else {
            panic!("{:?}", found.kinds);
        };
        assert_eq!(kind.name, "decode");
        assert_eq!(kind.steps, [n as u64, m as u64]);
        for row in &found.diff.kernels {
            let [a, b] = row.per_step_ns();
            assert!((a - b).abs() < 1e-6, "{row:?}");
            assert_eq!(row.status(), "matched");
            assert_eq!(row.diff_ns().is_some(), n == m);
        }
        for (side, total) in found.diff.totals.iter().enumerate() {
            let steps = [n, m][side];
            assert_eq!(total.ns, steps * kernels.iter().sum::<i64>());
        }
        // The pause after the last step of a trace is not recorded, so that this step has no time.
        let idle = kind.metric(Metric::Idle);
        assert_eq!((idle[1].mean_ns - idle[0].mean_ns) as i64, pause);
        let wall = kind.metric(Metric::Wall);
        assert_eq!(wall.map(|side| side.count), [n as u64 - 1, m as u64 - 1]);
        assert_eq!(wall[1].min_ns, wall[1].max_ns);
        for side in &found.steps {
            for step in side {
                let t = &step.time;
                assert_eq!(t.busy_ns + t.idle_ns, t.span_ns);
            }
        }
    }
}

#[test]
fn a_single_step_is_compared_with_the_last_one() {
    let found = compared(
        &of("step[DECODE", 1, &[700, 100], 900),
        &of("step[DECODE", 5, &[700, 100], 900),
    );
    let [a, b] = found.kinds[0].metric(Metric::Wall);
    assert_eq!((a.count, b.count), (1, 1));
    assert_eq!(a, b);
}

#[test]
fn steps_of_other_kinds_are_left_out() {
    let mut a = of("step[EXTEND", 2, &[9_000, 8_000], 5);
    a.extend(of("step[DECODE", 5, &[100, 200], 5));
    let found = compared(&a, &of("step[DECODE", 3, &[100, 400], 5));
    assert_eq!(found.kinds.len(), 1);
    assert_eq!(found.lonely.len(), 1);
    assert_eq!(found.lonely[0].steps, [2, 0]);
    assert_eq!(found.left_out, [(4, 34_000), (0, 0)]);
    let slow = &found.diff.kernels[0];
    assert_eq!(slow.per_step_ns(), [200.0, 400.0]);
    assert_eq!(found.diff.totals[0].ns, 1_500);
}

#[test]
fn without_launches_a_step_holds_what_starts_in_it() {
    let side = |n: i64, ns: i64| {
        let mut maker = Maker::new();
        for step in 0..n {
            let at = 10_000 * step;
            maker.host(
                (at, 5_000),
                "user_annotation",
                &format!("ProfilerStep#{step}"),
                &[],
            );
            maker.kernel(7, (at + 100, ns), "replayed", &[]);
            maker.kernel(7, (at + 7_000, ns), "replayed late", &[]);
        }
        maker.finish()
    };
    let (a, b) = (side(3, 500), side(4, 700));
    let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
    let found = works.map(|work| steps(work, None));
    let both = [found[0].as_slice(), found[1].as_slice()];
    let found = compare(works, Rules::Extended, Some(both), [None, None]);
    assert_eq!(found.basis, Basis::StepsByTime);
    assert_eq!(found.left_out, [(0, 0); 2]);
    for row in &found.diff.kernels {
        assert_eq!(row.per_step_ns(), [500.0, 700.0]);
    }
    assert_eq!(found.kinds[0].metric(Metric::Wall)[0].max_ns, 10_000);
}

#[test]
fn the_time_of_a_chosen_step_ends_where_the_next_one_begins() {
    let mut dice = Dice(5);
    for _ in 0..20 {
        let (extend, more) = (1_000 + dice.below(5_000), dice.below(3_000));
        let side = |extend: i64| {
            let mut all = Vec::new();
            for _ in 0..4 {
                all.extend(of("step[EXTEND", 1, &[extend, 300], 40));
                all.extend(of("step[DECODE", 3, &[200, 100], 40));
            }
            made(&all)
        };
        let (a, b) = (side(extend), side(extend + more));
        let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
        let all = works.map(|work| steps(work, None));
        let places = [0, 4, 8, 12];
        let both = [all[0].as_slice(), all[1].as_slice()];
        let rules = Rules::Extended;
        let everything = compare(works, rules, Some(both), [None, None]);
        let chosen = compare_chosen(works, rules, both, [Some(&places); 2]);
        let [kind] = chosen.kinds.as_slice() else {
            panic!("{:?}", chosen.kinds);
        };
        let same = everything.kinds.iter().find(|k| k.name == kind.name);
        assert_eq!(Some(kind), same);
        let [x, y] = kind.metric(Metric::Wall);
        assert_eq!((x.count, y.count), (4, 4));
        assert_eq!((y.median_ns - x.median_ns) as i64, more);
        // The 12 steps of the other kind have two kernels each.
        assert_eq!(chosen.left_out, [(24, 12 * 300); 2]);
    }
}

/// Steps in which the host schedules before it launches a kernel.
fn scheduled(n: i64, schedule_ns: i64, line: i64) -> Trace {
    let mut maker = Maker::new();
    let mut dice = Dice(17);
    let mut at = 1_000_000;
    for step in 0..n {
        let begin = at;
        let own = schedule_ns + dice.below(2_000);
        maker.host(
            (begin, own),
            "python_function",
            &format!("scheduler.py({line}): schedule"),
            &[],
        );
        at += own;
        let args = [("correlation", Value::Int(step + 1))];
        maker.host((at, 40_000), "python_function", "runner.py(7): run", &[]);
        maker.host(
            (at + 1_000, 10_000),
            "cuda_runtime",
            "cudaLaunchKernel",
            &args,
        );
        maker.kernel(7, (at + 15_000, 200_000), "gemm", &args);
        // Waiting for the GPU is no code.
        maker.host(
            (at + 50_000, 170_000),
            "cuda_runtime",
            "cudaStreamSynchronize",
            &[],
        );
        at += 225_000;
        maker.host(
            (begin, at - begin),
            "user_annotation",
            "step[DECODE bs=4]",
            &[],
        );
    }
    maker.finish()
}

#[test]
fn the_host_function_behind_idle_time_is_named() {
    let (a, b) = (scheduled(12, 50_000, 100), scheduled(15, 650_000, 104));
    let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
    let found = works.map(|work| steps(work, None));
    let both = [found[0].as_slice(), found[1].as_slice()];
    let found = compare(works, Rules::Extended, Some(both), [None, None]);
    let row = &found.host[0];
    assert_eq!(row.name, "scheduler.py(104): schedule");
    assert!((row.diff_ns() - 600_000.0).abs() < 2_000.0, "{row:?}");
    let run = found
        .host
        .iter()
        .find(|row| row.name.contains("run"))
        .unwrap();
    assert!(run.diff_ns().abs() < 1.0, "{run:?}");
    let text = answers(&found, false).join(" ");
    assert!(
        text.contains("On the host, scheduler.py(104): schedule takes 65"),
        "{text}"
    );
    let text: String = lines(&found).into_iter().map(|line| line.1).collect();
    assert!(
        text.contains("decode 11 of 12 in A and 14 of 15 in B"),
        "{text}"
    );
    // The same without functions: nothing is named.
    let idle = compared(
        &of("step[DECODE", 9, &[700], 10),
        &of("step[DECODE", 9, &[700], 5_000),
    );
    assert!(idle.host.iter().all(|row| row.kind != HostKind::Code));
    let text = answers(&idle, false).join(" ");
    assert!(text.contains("record Python functions"), "{text}");
}

/// What the host does in a step, in nanoseconds.
#[derive(Clone, Copy)]
struct Host {
    /// Waiting for requests.
    poll: i64,
    /// Each of ten launch calls.
    launch: i64,
    /// Number of synchronizations after these.
    syncs: i64,
    name: &'static str,
    /// An additional pause in every fifth step.
    tail: i64,
}

const HOST: Host = Host {
    poll: 0,
    launch: 4_000,
    syncs: 1,
    name: "step[DECODE bs=4]",
    tail: 0,
};

/// Twenty steps in which the host takes requests, then launches kernels of 2 us that begin 1 us after
/// their calls, then synchronizes.
fn hosted(host: Host) -> Trace {
    let mut maker = Maker::new();
    let (mut at, mut id) = (1_000_000, 0);
    for step in 0..20 {
        let begin = at;
        let take = "scheduler.py(9): recv_requests";
        maker.host((at, host.poll + 2_000), "python_function", take, &[]);
        let poll = "<built-in method poll of zmq.Poller object at 0x7f>";
        if host.poll > 0 {
            maker.host((at + 1_000, host.poll), "python_function", poll, &[]);
        }
        at += host.poll + 2_000 + if step % 5 == 4 { host.tail } else { 0 };
        for _ in 0..10 {
            id += 1;
            let args = [("correlation", Value::Int(id))];
            maker.host((at, host.launch + 2_000), "cpu_op", "aten::mm", &[]);
            maker.host(
                (at + 1_000, host.launch),
                "cuda_runtime",
                "cudaLaunchKernel",
                &args,
            );
            maker.kernel(7, (at + 2_000 + host.launch, 2_000), "gemm", &args);
            at += host.launch + 2_000;
        }
        at += 500;
        for _ in 0..host.syncs {
            maker.host((at, 5_000), "cuda_runtime", "cudaStreamSynchronize", &[]);
            at += 6_000;
        }
        maker.host((begin, at - begin), "user_annotation", host.name, &[]);
    }
    maker.finish()
}

fn said(a: Host, b: Host) -> (String, Comparison) {
    let (a, b) = (hosted(a), hosted(b));
    let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
    let found = works.map(|work| steps(work, None));
    let both = [found[0].as_slice(), found[1].as_slice()];
    let found = compare(works, Rules::Extended, Some(both), [None, None]);
    (answers(&found, false).join(" "), found)
}

#[test]
fn waits_and_calls_of_the_host_are_compared_too() {
    // A wait for requests belongs to the function that takes them.
    let waits = Host {
        poll: 2_000_000,
        ..HOST
    };
    for (a, b, times) in [
        (HOST, waits, "2.002 ms per step instead of 2.000"),
        (waits, HOST, "2.000 \u{b5}s per step instead of 2.002"),
    ] {
        let (text, _) = said(a, b);
        let want = "On the host, scheduler.py(9): recv_requests (a wait for requests, data, a lock or time) takes ";
        assert!(text.contains(want), "{text}");
        let times = times.replace(
            '\u{b5}',
            if text.contains('\u{b5}') {
                "\u{b5}"
            } else {
                "u"
            },
        );
        assert!(text.contains(&times), "{text}");
    }
    // Slower launch calls are not the fault of the operator that makes them.
    let (text, found) = said(
        HOST,
        Host {
            launch: 8_000,
            ..HOST
        },
    );
    assert!(
        text.contains("On the host, cudaLaunchKernel takes 80.00"),
        "{text}"
    );
    let row = &found.host[0];
    assert_eq!(
        (row.name.as_str(), row.kind),
        ("cudaLaunchKernel", HostKind::Call)
    );
    assert_eq!(
        (row.per_step_ns, row.calls_per_step),
        ([40_000.0, 80_000.0], [10.0; 2])
    );
    let operator = found
        .host
        .iter()
        .find(|row| row.name == "aten::mm")
        .unwrap();
    assert_eq!(operator.per_step_ns, [20_000.0; 2]);
    // More synchronizations are a reason, longer ones are none.
    let (text, _) = said(HOST, Host { syncs: 7, ..HOST });
    assert!(
        text.contains(
            "On the host, cudaStreamSynchronize is called 7 times per step instead of 1."
        ),
        "{text}"
    );
}

#[test]
fn batches_that_differ_are_said() {
    let (text, _) = said(
        HOST,
        Host {
            name: "step[DECODE bs=16]",
            launch: 8_000,
            ..HOST
        },
    );
    assert!(
        text.contains(
            "Not like with like: by their names, steps of B hold 16 against 4 requests (medians)."
        ),
        "{text}"
    );
    let prefill = |name, launch| Host {
        name,
        launch,
        ..HOST
    };
    let (text, _) = said(
        prefill("step[EXTEND bs=1 toks=1024]", 4_000),
        prefill("step[EXTEND bs=1 toks=4096]", 9_000),
    );
    assert!(
        text.contains("steps of B hold 4,096 against 1,024 tokens (medians)."),
        "{text}"
    );
    assert!(
        !said(
            HOST,
            Host {
                launch: 8_000,
                ..HOST
            }
        )
        .0
        .contains("like with like")
    );
}

#[test]
fn a_longer_tail_is_not_hidden_by_the_median() {
    let (text, _) = said(
        HOST,
        Host {
            tail: 3_000_000,
            ..HOST
        },
    );
    // One step of five takes many times as long: 600 us more in the mean, and at the 90th percentile.
    assert!(text.starts_with("B is slower than A per"), "{text}");
    assert!(text.contains("(mean of "), "{text}");
    assert!(
        text.contains("Most steps are alike: the median is "),
        "{text}"
    );
    // Half as long again as a step, in one of five: the medians say more of most steps.
    let (text, _) = said(
        HOST,
        Host {
            tail: 30_000,
            ..HOST
        },
    );
    assert!(text.contains("about as fast as"), "{text}");
    assert!(
        text.contains("Only the medians are alike: the mean is "),
        "{text}"
    );
    assert!(!said(HOST, HOST).0.contains("Only the medians"));
}

/// Compares with step times: from the end of the work of the step before to the end of its own, of the first one from its mark.
fn timed(a: &[Made], b: &[Made]) -> Comparison {
    let (a, b) = (made(a), made(b));
    let works = [&GpuWork::new(&a), &GpuWork::new(&b)];
    let found = works.map(|work| {
        let mut found = steps(work, None);
        let mut before = found[0].range.start;
        for step in &mut found {
            // The mark ends with its last kernel.
            let end = step.range.end;
            step.took = Some(TimeRange::new(before, end));
            before = end;
        }
        found
    });
    let both = [found[0].as_slice(), found[1].as_slice()];
    compare(works, Rules::Extended, Some(both), [None, None])
}

#[test]
fn with_step_times_the_host_time_before_a_step_is_in_that_step() {
    // Before each prefill the host takes its time; decode steps are alike.
    let side = |prefills: usize| {
        let mut list = Vec::new();
        for _ in 0..6 {
            list.extend(of("step[DECODE", 2, &[500, 500], 10));
            if prefills > 0 {
                list.last_mut().unwrap().pause = 40_000;
                list.extend(of("step[EXTEND", 1, &[3_000], 10));
            }
        }
        list
    };
    let found = timed(&side(0), &side(1));
    let decode = found.kinds.iter().find(|kind| kind.name == "decode");
    let [a, b] = decode.unwrap().metric(Metric::Wall);
    // All steps have an end, and their times do not differ; before the first one there is no time.
    assert_eq!((a.count, b.count), (11, 11));
    assert_eq!((a.median_ns, a.max_ns), (b.median_ns, b.max_ns));
    let total = |side: usize| -> i64 {
        let steps = found.steps[side].iter();
        steps
            .map(|step| step.time.busy_ns + step.time.idle_ns)
            .sum()
    };
    let of_mark = |list: &[Made]| -> i64 {
        let all = list.iter().map(|step| {
            let kernels = step.kernels.iter().map(|ns| 20 + ns);
            kernels.sum::<i64>() + 1 + step.pause
        });
        all.sum::<i64>() - 1 - list.last().unwrap().pause
    };
    // Step times add up to the time from the first mark to the last end.
    assert_eq!([total(0), total(1)], [of_mark(&side(0)), of_mark(&side(1))]);
}
