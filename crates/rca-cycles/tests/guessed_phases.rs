//! Phases that no name states: steps are guessed to be prompts by what they compute, never by how long they take.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::compare::{self, Comparison};
use rca_cycles::{Options, Phase, analyse};
use trace_model::Trace;

/// Steps of `step_us` and a load before each, every eighth step `long` times as long. With `kernels`, one of them computes for
/// the whole step: the second one in long steps.
fn steps(load_us: i64, step_us: i64, long: i64, kernels: Option<[&str; 2]>) -> Trace {
    let mut events: Vec<String> = Vec::new();
    let mut add = |category: &str, name: &str, tid: &str, ts: i64, dur: i64, args: &str| {
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":7,"tid":"{tid}","ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    };
    let mut at = 1_000_000;
    for i in 0..40 {
        let wobble = i * 7 % 5;
        let step = if i % 8 == 7 { long * step_us } else { step_us } + wobble;
        add("python", "Loop.step", "main", at, load_us + step + 20, "");
        let load = load_us + wobble;
        add("python", "Loader.fetch", "main", at + 1, load, "");
        let begin = at + load + 3;
        add("python", "Net.forward", "main", begin, step - 10, "");
        if let Some(kernels) = kernels {
            let args = format!(r#""correlation":{}"#, i + 1);
            add(
                "cuda_runtime",
                "cudaLaunchKernel",
                "main",
                begin + 1,
                3,
                &args,
            );
            let args = format!(r#""correlation":{},"device":0"#, i + 1);
            add(
                "kernel",
                kernels[usize::from(i % 8 == 7)],
                "stream 7",
                begin + 5,
                step - 20,
                &args,
            );
        }
        at += load_us + step + 40;
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("made.json", json.into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

fn compared(normal: &Trace, abnormal: &Trace) -> Comparison {
    let pair = compare::analyse_pair(normal, abnormal, &Options::default()).unwrap();
    compare::compare(&pair, &compare::Options::default())
}

fn is_guessed(trace: &Trace) -> bool {
    let analysis = analyse(trace, &Options::default()).unwrap();
    analysis.cycles.iter().any(|c| c.phase == Phase::Prefill)
}

#[test]
fn a_slower_loader_is_found_although_it_hides_the_long_steps() {
    // Long steps last nearly four times as long as the others, and with the slow loader little more than twice.
    let (normal, abnormal) = (steps(50, 1_000, 4, None), steps(1_500, 1_000, 4, None));
    assert!(!is_guessed(&normal) && !is_guessed(&abnormal));
    let found = compared(&normal, &abnormal);
    assert_eq!(found.phases.len(), 1);
    assert_eq!(found.phases[0].phase, Phase::Unknown);
    assert_eq!(found.culprits[0].name, "Loader.fetch");
}

#[test]
fn what_the_device_computes_tells_long_steps_whatever_the_host_does() {
    let kernels = Some(["paged_attention_token", "flash_attention_prompt"]);
    let (normal, abnormal) = (
        steps(50, 1_000, 4, kernels),
        steps(1_500, 1_000, 4, kernels),
    );
    let found = compared(&normal, &abnormal);
    let phases: Vec<Phase> = found.phases.iter().map(|p| p.phase).collect();
    assert_eq!(phases, [Phase::Decode, Phase::Prefill]);
    assert_eq!(found.culprits[0].name, "Loader.fetch");
}

#[test]
fn long_steps_of_other_work_are_no_prompts_where_nothing_attends() {
    for long in ["evaluate_kernel", "gemm_kernel"] {
        let kernels = Some(["train_kernel", long]);
        let analysis = analyse(&steps(50, 1_000, 4, kernels), &Options::default()).unwrap();
        let phases: Vec<Phase> = analysis.cycles.iter().map(|c| c.phase).collect();
        assert!(phases.iter().all(|p| *p == Phase::Unknown), "{phases:?}");
    }
}

#[test]
fn slow_steps_that_run_the_same_kernels_are_no_prompts() {
    let kernels = Some(["work_kernel"; 2]);
    let (normal, abnormal) = (steps(50, 1_000, 1, kernels), steps(50, 1_000, 4, kernels));
    assert!(!is_guessed(&abnormal));
    let found = compared(&normal, &abnormal);
    let cycles: Vec<(Phase, usize)> = found
        .phases
        .iter()
        .map(|p| (p.phase, p.abnormal_cycles))
        .collect();
    // The first and the last cycle may be partial.
    assert!(
        matches!(cycles[..], [(Phase::Unknown, 38..=40)]),
        "{cycles:?}"
    );
}
