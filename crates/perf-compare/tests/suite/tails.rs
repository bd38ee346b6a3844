//! Means, typical cycles and tails: one estimator for a sentence, and none of them says that longer is as long.

use perf_compare::document::{Change, Report, Statement};
use perf_compare::{FailOn, Gate, Options, Side, compare};

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
