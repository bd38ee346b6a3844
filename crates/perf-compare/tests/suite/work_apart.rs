//! Steps that did other work, and a fault beside it; cycles of two modes; captures that drift or wander.

use perf_compare::document::{Report, Statement};
use perf_compare::{FailOn, Gate, Options, Side, compare};

use crate::simulate::{Noise, World};

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    options
}

/// Contexts half as long again, which attention follows by a quarter, and a fault.
fn longer(change: impl Fn(&mut World)) -> Report {
    let healthy = World {
        context: 30_000,
        ..World::default()
    };
    let mut sick = World {
        context: 45_000,
        kernel: |_, name| if name == "paged_attention" { 1.25 } else { 1.0 },
        ..healthy.clone()
    };
    change(&mut sick);
    compare(&healthy.side(2), &sick.side(3), &options())
}

#[test]
fn a_longer_context_hides_no_other_cause() {
    let alone = longer(|_| {});
    assert_eq!(alone.verdict.cause, "workload_shift", "{}", alone.headline);
    let attention = (alone.findings.iter()).find(|f| f.name == "paged_attention");
    assert!(attention.is_some_and(|f| f.by_work));
    let work = alone.workload.unwrap();
    // A quarter of 3300 us.
    assert!((work.explained_us - 825.0).abs() < 60.0, "{work:?}");
    assert_eq!(work.functions, ["paged_attention"]);

    let host = longer(|w| w.python_us *= 4.0);
    assert_eq!(host.verdict.cause, "host_code", "{}", host.headline);
    let gemm = longer(|w| {
        w.kernel = |_, name| match name {
            "paged_attention" => 1.25,
            "gemm_b" => 1.5,
            _ => 1.0,
        };
    });
    assert_eq!(gemm.verdict.cause, "gpu_kernel", "{}", gemm.headline);
    assert!(gemm.headline.contains("gemm_b"), "{}", gemm.headline);
    for report in [host, gemm] {
        let told = &report.headline;
        assert!(told.contains("context tokens 3"), "{told}");
        assert!(told.contains("which explains at most +"), "{told}");
    }
}

/// Steps of so many requests that take their functions of the host, which follow the requests, then the kernels, of which
/// attention does, and `idle` microseconds in which nothing is recorded.
fn serving(name: &str, requests: u32, idle: f64) -> Side {
    let mut noise = Noise::new(u64::from(requests) + 7);
    let (mut rows, mut at) = (String::from(HEADER), 0.0);
    let of = f64::from(requests) / 16.0;
    for cycle in 1..=40 {
        let tokens = 1200 * requests;
        let anchor = format!(
            "execute_context_0(sq0sk0sqsq0sqsk0)_generation_{requests}(sq{requests}sk{tokens}sqsq{requests}sqsk{tokens})"
        );
        let parts = [
            ("update_from_output", "Host", "python", 100.0 * of),
            ("schedule", "Host", "python", 60.0 * of),
            ("prepare_inputs", "Host", "python", 40.0 * of),
            ("gemm", "GPU 0", "gpu_compute", 1500.0),
            ("paged_attention", "GPU 0", "gpu_compute", 200.0 * of),
        ];
        let parts = parts.map(|(name, device, kind, us)| {
            (name, device, kind, us * (1.0 + 0.004 * noise.normal()))
        });
        let length = idle + parts.iter().map(|part| part.3).sum::<f64>();
        for (name, device, kind, us) in parts {
            rows += &format!(
                "{cycle},1,h,50,{name},N/A,{device},{kind},,,{us},,{anchor},{length},{at},1,{name}\n"
            );
        }
        at += length;
    }
    Side::from_csv(name, rows.as_bytes(), None::<&[u8]>).unwrap()
}

/// The GPU is idle longer while functions of the host do three times the work: that is no other cause.
#[test]
fn idle_time_of_functions_that_follow_the_work_follows_it_too() {
    let unknown = "no function that was recorded on the host takes that time";
    let baseline = serving("a", 16, 500.0);
    let more = compare(&baseline, &serving("b", 48, 500.0), &options());
    assert_eq!(more.verdict.cause, "workload_shift", "{}", more.headline);
    assert!(!more.headline.contains(unknown), "{}", more.headline);
    // Time beyond it that no function takes is told.
    let idle = compare(&baseline, &serving("b", 48, 1700.0), &options());
    assert_eq!(idle.verdict.cause, "host_code", "{}", idle.headline);
    assert!(idle.headline.contains(unknown), "{}", idle.headline);
}

const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name\n";

/// Cycles of so many microseconds: a kernel takes half of each, and `collect` what is beyond `pause`.
fn side(name: &str, lengths: &[f64], pause: f64) -> Side {
    let (mut rows, mut at) = (String::from(HEADER), 0.0);
    for (cycle, length) in (1..).zip(lengths) {
        let kernel = length.min(pause) / 2.0;
        rows += &format!(
            "{cycle},1,h,50,gemm,N/A,GPU 0,gpu_compute,,,{kernel},,step,{length},{at},1,gemm\n"
        );
        rows += &format!(
            "{cycle},1,h,50,schedule,N/A,Host,python,,,100,,step,{length},{at},1,schedule\n"
        );
        if *length > pause {
            let own = length - pause;
            rows += &format!(
                "{cycle},1,h,50,collect,N/A,Host,python,,,{own},,step,{length},{at},1,collect\n"
            );
        }
        at += length;
    }
    Side::from_csv(name, rows.as_bytes(), None::<&[u8]>).unwrap()
}

#[test]
fn more_of_the_long_cycles_is_a_change() {
    const PAUSE: f64 = 25_000.0;
    let of = |seed: u64, is_long: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let mut noise = Noise::new(seed);
        (0..100)
            .map(|at| {
                let beyond = if is_long(at) { PAUSE } else { 0.0 };
                2000.0 * (1.0 + 0.005 * noise.normal()) + beyond
            })
            .collect()
    };
    // 5 of 100, then 18 of 100, some of these next to each other.
    let few = of(1, &|at| at % 20 == 7);
    let more = of(2, &|at| at * 37 % 100 < 18);
    let report = compare(
        &side("a", &few, 2100.0),
        &side("b", &more, 2100.0),
        &options(),
    );
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "pauses", "{told}");
    assert_eq!(report.verdict.direction, "worse");
    assert!(
        told.starts_with("18 of 100 cycles of the candidate pause"),
        "{told}"
    );
    assert!(told.contains("(5 of 100 in the baseline)"), "{told}");
    assert!(told.contains("mean cycle 3.2"), "{told}");
    assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse);
    assert!(!report.to_text().contains("/short"));
    let back = compare(
        &side("b", &more, 2100.0),
        &side("a", &few, 2100.0),
        &options(),
    );
    assert_eq!(back.verdict.direction, "better", "{}", back.headline);
    let same = of(3, &|at| at % 20 == 9);
    let same = compare(
        &side("a", &few, 2100.0),
        &side("b", &same, 2100.0),
        &options(),
    );
    assert_eq!(same.verdict.cause, "none", "{}", same.headline);

    // Too many to be pauses: two modes, of which the candidate has more long ones.
    let half = |seed, part: usize| of(seed, &move |at| at * 37 % 100 < part);
    let [a, b] = [half(4, 30), half(5, 60)].map(|lengths| side("x", &lengths, 2100.0));
    let report = compare(&a, &b, &options());
    let mix = report.mix.as_ref().unwrap();
    assert!(mix.established && mix.limit_us.is_some());
    assert_eq!((mix.steps, mix.of), ([30, 60], [100, 100]));
    assert!(
        report
            .headline
            .starts_with("More cycles are long: cycles longer than "),
        "{}",
        report.headline
    );
    assert_ne!(report.verdict.cause, "none");
    assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse);
}

#[test]
fn pauses_next_to_each_other_are_each_as_long_as_one() {
    let of = |paused: &[usize]| -> Vec<f64> {
        let length = |at: usize| 2000.0 + if paused.contains(&at) { 25_000.0 } else { 0.0 };
        (0..39).map(length).collect()
    };
    let lengths = [of(&[]), of(&[14, 15, 24, 28])];
    let [a, b] = lengths.map(|lengths| side("x", &lengths, 2000.0));
    let report = compare(&a, &b, &options());
    let pauses = report.cycle_time[0].pauses.as_ref().unwrap();
    assert_eq!((pauses.cycles, pauses.pauses), ([0, 4], [0, 4]));
    assert!((pauses.excess_us[1].unwrap() - 25_000.0).abs() < 1e-6);
    assert!((pauses.functions[0].excess_us - 25_000.0).abs() < 1e-6);
}

#[test]
fn without_an_established_change_there_is_no_cause() {
    let flat = |seed: u64| -> Vec<f64> {
        let mut noise = Noise::new(seed);
        (0..60)
            .map(|_| 2000.0 * (1.0 + 0.002 * noise.normal()))
            .collect()
    };
    // All kernels of the candidate become slower by 12 % from the first cycle to the last; the first cycle is a long one.
    let mut warming = flat(7);
    for (at, length) in warming.iter_mut().enumerate() {
        *length *= 1.0 + 0.12 * at as f64 / 60.0;
    }
    warming[0] *= 1.2;
    let of = |name: &str, lengths: &[f64]| side(name, lengths, 1e9);
    let report = compare(&of("a", &flat(6)), &of("b", &warming), &options());
    let told = &report.headline;
    // It begins as the baseline is: a growth, and no change from one side to the other.
    assert_eq!(report.verdict.cause, "drift", "{told}");
    assert!(
        told.contains("The candidate becomes slower within itself"),
        "{told}"
    );

    // Random walks: by how much they differ says nothing.
    let mut called = 0;
    for seed in 0..40 {
        let walk = |seed: u64| -> Vec<f64> {
            let (mut noise, mut level) = (Noise::new(seed), 1.0);
            (0..60)
                .map(|_| {
                    level += 0.004 * noise.normal();
                    2000.0 * (level + 0.005 * noise.normal())
                })
                .collect()
        };
        let [a, b] = [2 * seed, 2 * seed + 1].map(|seed| of("x", &walk(seed + 100)));
        let report = compare(&a, &b, &options());
        let is_cause = !["none", "unknown", "drift"].contains(&report.verdict.cause.as_str());
        let changed = report.cycle_time[0].verdict == Statement::Changed;
        called += u32::from(is_cause || changed);
    }
    // 5 % of 40 and two standard errors.
    assert!(called <= 5, "{called} of 40");
}

/// Where cycles vary slowly, a longer function may lengthen them without proof. That is no proof of the opposite.
#[test]
fn a_change_that_is_not_established_is_not_called_hidden() {
    let side = |seed: u64, more: f64| {
        let mut noise = Noise::new(seed);
        let (mut rows, mut at, mut slow) = (String::from(HEADER), 0.0, noise.normal());
        for cycle in 1..=36 {
            slow = 0.9 * slow + (1.0_f64 - 0.81).sqrt() * noise.normal();
            let kernel = 1500.0 * (1.0 + 0.05 * slow);
            let own = more * (1.0 + 0.01 * noise.normal());
            let length = kernel + 500.0 + own;
            for (name, device, kind, us) in [
                ("gemm", "GPU 0", "gpu_compute", kernel),
                ("get_next_batch", "Host", "python", 100.0 + own),
            ] {
                rows += &format!(
                    "{cycle},1,h,50,{name},N/A,{device},{kind},,,{us},,step,{length},{at},1,{name}\n"
                );
            }
            at += length;
        }
        Side::from_csv("x", rows.as_bytes(), None::<&[u8]>).unwrap()
    };
    let mut open = 0;
    for seed in 0..6 {
        for more in [150.0, 300.0, 900.0] {
            let report = compare(&side(2 * seed, 0.0), &side(2 * seed + 1, more), &options());
            let time = &report.cycle_time[0];
            let is_likely = time.effect.interval.is_some_and(|[low, _]| low > 0.0);
            let is_proven = matches!(time.verdict, Statement::Changed | Statement::Equivalent);
            if !is_likely || is_proven {
                continue;
            }
            open += 1;
            assert_ne!(
                report.verdict.on_critical_path,
                Some(false),
                "{seed} {more}"
            );
            assert!(
                !report.headline.contains("hidden behind"),
                "{}",
                report.headline
            );
        }
    }
    assert!(open > 0, "no case is open");
}
