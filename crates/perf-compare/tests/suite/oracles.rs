//! The shared pairs judged as an engineer would, and halves of one run judged as the same.

use std::path::Path;

use perf_compare::document::{Change, Report, Statement, Status};
use perf_compare::{LoadOptions, Options, compare, load};

use crate::data::{part, recordings};

pub(crate) fn judge(a: &Path, b: &Path) -> Report {
    let load = |path: &Path| load(path, &LoadOptions::default()).unwrap();
    let mut options = Options::default();
    options.permutations = 1999;
    options.resamples = 499;
    options.threads = 2;
    compare(&load(a), &load(b), &options)
}

fn tell(name: &str, report: &Report) {
    eprintln!(
        "== {name}: {:?} {:?}",
        report.comparability.status, report.comparability.reasons
    );
    eprintln!(
        "   {} {:.2} {:?} {}",
        report.verdict.cause,
        report.verdict.confidence,
        report.verdict.on_critical_path,
        report.verdict.summary
    );
    eprintln!("   runner up {:?}", report.verdict.runner_up);
    for c in &report.cycle_time {
        eprintln!(
            "   cycle {:?} delta {:.0} {:?} p {:?} rho {:.2} block {} needed {:?}",
            c.verdict,
            c.effect.delta,
            c.effect.interval,
            c.effect.p,
            c.effect.autocorrelation,
            c.effect.block,
            c.cycles_needed_for_2pct
        );
    }
    for f in report.findings.iter().take(6) {
        eprintln!(
            "   {:?} {:?} {} {} delta {:.0} {:?} q {:?}",
            f.verdict,
            f.change,
            f.kind,
            f.name.get(..40.min(f.name.len())).unwrap_or(""),
            f.effect.delta,
            f.effect.interval,
            f.q
        );
    }
    for r in report
        .verdict
        .ruled_out
        .iter()
        .filter(|_| std::env::var_os("TELL").is_some())
    {
        eprintln!("   not {}: {}", r.cause, r.why);
    }
    for n in &report.notes {
        eprintln!("   note {n}");
    }
}

fn pair(scenario: &str) -> Report {
    let case = recordings().join("Processed").join(scenario);
    let report = judge(
        &case.join("normal_perf_data"),
        &case.join("abnormal_perf_data"),
    );
    tell(scenario, &report);
    report
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn a_clamped_cpu_is_named_although_cycles_cannot_be_compared() {
    let report = pair("SGLang/cpu_frequency_reduction");
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert!(report.findings.is_empty() && report.cycle_time.is_empty());
    assert_eq!(report.verdict.cause, "cpu_frequency");
    assert_eq!(report.verdict.on_critical_path, None);
    let row = &report.verdict.evidence[0];
    assert_eq!(
        (row.metric.as_str(), row.unit.as_str()),
        ("cpu_frequency", "MHz")
    );
    assert!((3490.0..3510.0).contains(&row.baseline));
    assert!((895.0..905.0).contains(&row.candidate));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn a_locked_gpu_clock_is_named_on_both_engines() {
    for (scenario, gpu) in [
        ("SGLang/gpu_instability", "GPU 7"),
        ("vLLM/gpu_instability", "GPU 3"),
    ] {
        let report = pair(scenario);
        assert_ne!(report.comparability.status, Status::NotComparable);
        assert_eq!(report.verdict.cause, "gpu_frequency");
        let clock = report
            .verdict
            .evidence
            .iter()
            .find(|row| row.metric == "gpu_sm_frequency")
            .unwrap();
        assert_eq!(clock.device, gpu);
        assert!((clock.candidate - 210.0).abs() < 1e-6);
        let slow = report
            .findings
            .iter()
            .filter(|f| f.class == "kernel" && f.verdict == Statement::Changed);
        let slow = slow.count();
        // The others add less than the practical limit of 0.5 % of the cycle.
        assert!(slow >= 2, "only {slow} kernels are declared slower");
    }
    let report = pair("SGLang/gpu_instability");
    assert_ne!(report.cycle_time[0].verdict, Statement::Changed);
    assert_eq!(report.verdict.on_critical_path, Some(false));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn peer_traffic_is_named_and_the_rank_swap_is_not() {
    let report = pair("SGLang/gpu_memory_squeeze_out_NVLink");
    assert_eq!(report.verdict.cause, "nvlink_contention");
    assert_eq!(report.verdict.on_critical_path, Some(false));
    assert_ne!(report.cycle_time[0].change, Change::Slower);
    assert!(
        report
            .verdict
            .ruled_out
            .iter()
            .any(|r| r.cause == "rank_role_swap" && r.why.contains("cross_device_reduce"))
    );
    assert_eq!(report.roles.len(), 2);
    assert_eq!(report.roles[0].devices, [["GPU 6"], ["GPU 6"]]);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn halves_of_one_run_have_no_cause() {
    let data = recordings();
    let mut failures = Vec::new();
    for scenario in [
        "SGLang/cpu_frequency_reduction",
        "SGLang/gpu_instability",
        "SGLang/gpu_memory_squeeze_out_NVLink",
        "vLLM/gpu_instability",
    ] {
        let from = data
            .join("Processed")
            .join(scenario)
            .join("normal_perf_data");
        type Split = fn(usize, usize) -> bool;
        let splits: [(&str, Split); 3] = [
            ("odd and even", |at, _| at % 2 == 0),
            ("blocks", |at, _| (at / 3) % 2 == 0),
            ("halves", |at, n| at < n / 2),
        ];
        for (name, split) in splits {
            let folder = tempfile::tempdir().unwrap();
            let (a, b) = (folder.path().join("a"), folder.path().join("b"));
            part(&from, &a, split);
            part(&from, &b, |at, n| !split(at, n));
            for (one, two) in [(&a, &b), (&b, &a)] {
                let report = judge(one, two);
                let declared = report
                    .findings
                    .iter()
                    .filter(|f| f.verdict == Statement::Changed)
                    .count();
                if report.verdict.cause != "none" || declared > 0 {
                    tell(&format!("{scenario} {name}"), &report);
                    failures.push(format!(
                        "{scenario} {name}: {} with {declared} declared",
                        report.verdict.cause
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn the_planted_kernel_of_the_synthetic_pair() {
    let data = recordings();
    let case = data.join("synthetic/kernel_x2/reference");
    let report = judge(
        &case.join("normal_perf_data"),
        &case.join("abnormal_perf_data"),
    );
    tell("kernel_x2", &report);
    assert_eq!(report.verdict.cause, "gpu_kernel");
    assert_eq!(report.findings[0].name, "_Z20paged_attention_kernPfS_i");
    assert_eq!(report.findings[0].verdict, Statement::Changed);
}
