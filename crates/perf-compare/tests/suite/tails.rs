//! Means, typical cycles and tails: one estimator for a sentence, and none of them says that longer is as long.

use perf_compare::document::{Change, Report, Statement};
use perf_compare::{FailOn, Gate, LoadOptions, Options, Side, compare, load};

/// Cycles of so many microseconds, each with one kernel of half of that.
fn side(name: &str, lengths: &[f64]) -> Side {
    let mut rows = String::from(
        "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name\n",
    );
    let mut at = 0.0;
    for (cycle, length) in (1..).zip(lengths) {
        rows += &format!(
            "{cycle},1,h,50,gemm,N/A,GPU 0,gpu_compute,,,{},,step,{length},{at},1,gemm\n",
            length / 2.0
        );
        at += length;
    }
    Side::from_csv(name, rows.as_bytes(), None::<&[u8]>).unwrap()
}

fn judge(of: impl Fn(usize, usize) -> f64, n: usize) -> Report {
    let lengths = |side: usize| (0..n).map(|at| of(side, at)).collect::<Vec<f64>>();
    let mut options = Options::default();
    options.permutations = 1999;
    options.resamples = 499;
    compare(&side("a", &lengths(0)), &side("b", &lengths(1)), &options)
}

/// From -1 to 1, in no order.
fn noise(at: usize) -> f64 {
    let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f64 / f64::from(1_u32 << 23) - 1.0
}

fn typical(side: usize, at: usize) -> f64 {
    4400.0 * (1.0 + 0.01 * noise(1000 * side + at))
}

#[test]
fn a_longer_mean_is_neither_equal_nor_faster() {
    // Two cycles of forty are 20 times as long: no test can tell that from chance.
    let report = judge(
        |side, at| match at % 20 {
            7 if side == 1 => 20.0 * typical(side, at),
            _ => typical(side, at),
        },
        40,
    );
    let time = &report.cycle_time[0];
    assert!(time.mean_us[1] > 1.8 * time.mean_us[0]);
    assert_ne!(time.verdict, Statement::Equivalent, "{}", report.headline);
    assert_ne!(time.change, Change::Faster);
    assert!(
        !report.headline.contains("No change:"),
        "{}",
        report.headline
    );
    assert!(report.headline.contains(" -> 8."), "{}", report.headline);
    assert_ne!(report.gate(FailOn::Regressed, 0.0), Gate::Pass);
    // The effect is of one estimator: its ends differ by what it says.
    let effect = &time.effect;
    assert!((effect.candidate - effect.baseline - effect.delta).abs() < 1e-6);
    // Most cycles a little shorter, the mean longer.
    let report = judge(
        |side, at| match at % 20 {
            7 if side == 1 => 20.0 * typical(side, at),
            _ if side == 1 => 0.9 * typical(side, at),
            _ => typical(side, at),
        },
        40,
    );
    assert_ne!(
        report.cycle_time[0].change,
        Change::Faster,
        "{}",
        report.headline
    );
}

#[test]
fn a_longer_tail_fails_the_gate() {
    // One cycle in twelve is 14 % longer: too little for a pause, and the typical cycle is as before.
    let report = judge(
        |side, at| match at % 12 {
            5 if side == 1 => 1.14 * typical(side, at),
            _ => typical(side, at),
        },
        240,
    );
    let time = &report.cycle_time[0];
    let tail = time.tail.as_ref().unwrap();
    assert!(tail.longer && tail.quantile < 0.99, "{tail:?}");
    assert!(report.headline.contains("p95"), "{}", report.headline);
    assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse);
    let same = judge(typical, 240);
    assert!(same.cycle_time[0].tail.is_none());
    assert_eq!(
        same.gate(FailOn::Regressed, 0.0),
        Gate::Pass,
        "{}",
        same.headline
    );
}

#[test]
fn a_token_time_a_quarter_longer_is_slower() {
    for spread in [0.01, 0.2] {
        let report = judge(
            |side, at| {
                let factor = if side == 1 { 1.26 } else { 1.0 };
                4400.0 * factor * (1.0 + spread * noise(1000 * side + at))
            },
            60,
        );
        let time = &report.cycle_time[0];
        assert_eq!(time.change, Change::Slower, "{spread}: {}", report.headline);
    }
}

/// A table of one metric.
fn table(metric: &str, unit: &str, values: &[f64]) -> Side {
    let mut text = String::from("metric,value,unit\n");
    for value in values {
        text += &format!("{metric},{value},{unit}\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.csv");
    std::fs::write(&path, text).unwrap();
    load(&path, &LoadOptions::default()).unwrap()
}

fn compare_tables(metric: &str, unit: &str, of: impl Fn(usize, usize) -> f64, n: usize) -> Report {
    let values = |side: usize| (0..n).map(|at| of(side, at)).collect::<Vec<f64>>();
    let [a, b] = [0, 1].map(|side| table(metric, unit, &values(side)));
    let mut options = Options::default();
    options.permutations = 1999;
    options.resamples = 499;
    compare(&a, &b, &options)
}

#[test]
fn the_tail_of_a_table_of_samples_is_compared() {
    // Every thirty-third sample of the candidate is six times as long, at no regular distance.
    let mut random = crate::simulate::Noise::new(11);
    let usual: Vec<f64> = (0..1200)
        .map(|_| 4400.0 * (1.0 + 0.01 * random.normal()))
        .collect();
    let is_slow: Vec<bool> = (0..600).map(|_| random.uniform() < 0.03).collect();
    let slow = |side: usize, at: usize| {
        usual[600 * side + at] * if side == 1 && is_slow[at] { 6.0 } else { 1.0 }
    };
    let report = compare_tables("itl", "us", slow, 600);
    let tail = report.findings.iter().find(|f| f.kind == "tail").unwrap();
    assert_eq!(
        (tail.name.as_str(), tail.change),
        ("p99 of itl", Change::Slower)
    );
    assert!(
        report.headline.starts_with("P99 of itl is "),
        "{}",
        report.headline
    );
    assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse);
    // The mean is longer by a seventh: that is not equal.
    let whole = report.findings.iter().find(|f| f.kind == "metric").unwrap();
    assert_ne!(whole.verdict, Statement::Equivalent);
    // The same tail on both sides, and a heavy one that chance makes.
    let same = |_: usize, at: usize| slow(1, at);
    let report = compare_tables("itl", "us", same, 600);
    assert!(report.findings.iter().all(|f| f.kind != "tail"));
    let mut called = 0;
    for seed in 0..40 {
        let heavy = |side: usize, at: usize| {
            let uniform = (noise(7000 * seed + 1000 * side + at) + 1.0) / 2.0;
            60.0 + 20.0 * (1.0 - uniform.min(0.9999)).powf(-1.0 / 1.6)
        };
        let report = compare_tables("ttft", "ms", heavy, 300);
        called += usize::from(report.findings.iter().any(|f| f.kind == "tail"));
    }
    assert!(called <= 2, "{called} of 40");
}

#[test]
fn clocks_and_load_are_higher_and_none_is_slower() {
    let higher = |side: usize, at: usize| typical(side, at) * (1.0 + 0.2 * side as f64);
    for (metric, unit, change, gate) in [
        ("gpu_sm_frequency", "MHz", Change::Higher, Gate::Pass),
        ("kv_cache_usage", "%", Change::Higher, Gate::Pass),
        ("prefix_cache_hit_rate", "%", Change::Faster, Gate::Pass),
        ("output_throughput", "tok/s", Change::Faster, Gate::Pass),
        ("ttft", "ms", Change::Slower, Gate::Worse),
        ("errors", "", Change::Slower, Gate::Worse),
    ] {
        let report = compare_tables(metric, unit, higher, 40);
        assert_eq!(report.findings[0].change, change, "{metric}");
        assert_eq!(report.gate(FailOn::Regressed, 0.0), gate, "{metric}");
        assert_eq!(report.gate(FailOn::Changed, 0.0), Gate::Worse, "{metric}");
    }
}

#[test]
fn what_is_the_same_within_the_margin_is_no_drift() {
    // Both sides become slower by 2 % a hundred cycles, and the longer one is longer on average by that.
    let lengths = |side: usize| -> Vec<f64> {
        let n = if side == 0 { 60 } else { 20 };
        let drift = |at: usize| 1.0 + 0.0002 * at as f64;
        (0..n)
            .map(|at| 3750.0 * drift(at) * (1.0 + 0.002 * noise(500 * side + at)))
            .collect()
    };
    let report = compare(
        &side("a", &lengths(0)),
        &side("b", &lengths(1)),
        &Options::default(),
    );
    assert_eq!(report.verdict.cause, "none", "{}", report.headline);
}
