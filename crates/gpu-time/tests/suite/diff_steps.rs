//! Compares steps of two generated traces: per step, regardless of the number of steps.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "numbers are small, and sums of few integers divided by counts are exact"
)]

use crate::support::{Dice, Maker, Value};
use gpu_time::diff::{Basis, Comparison, Metric, answers, compare, compare_chosen, lines};
use gpu_time::{GpuWork, Rules, steps};
use trace_model::Trace;

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
    assert!(idle.host.is_empty());
    let text = answers(&idle, false).join(" ");
    assert!(text.contains("record Python functions"), "{text}");
}
