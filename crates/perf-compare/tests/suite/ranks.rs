//! Files of ranks, as engines write them: one for each rank, process numbers of a container each.

use std::fs;
use std::path::Path;

use perf_compare::document::{Report, Statement, Status};
use perf_compare::{LoadOptions, Options, compare, load};

use crate::simulate::{Noise, World};

/// Writes the rows of each process to a file of its own; every process is number 7 there.
fn write(world: &World, seed: u64, folder: &Path, name: fn(usize) -> String) {
    fs::create_dir_all(folder).unwrap();
    let (perf, _) = world.files(seed);
    let mut lines = perf.lines();
    let header = lines.next().unwrap();
    let lines: Vec<&str> = lines.collect();
    for rank in 0..world.ranks {
        let pid = format!(",{},", world.pid + i64::try_from(rank).unwrap());
        let own = lines.iter().filter(|line| line.contains(&pid));
        let own: Vec<String> = own.map(|line| line.replacen(&pid, ",7,", 1)).collect();
        let text = format!("{header}\n{}\n", own.join("\n"));
        fs::write(folder.join(format!("{}_perf_data.csv", name(rank))), text).unwrap();
    }
}

fn judge(name: fn(usize) -> String, change: impl Fn(&mut World)) -> Report {
    let healthy = World {
        ranks: 2,
        cycles: 30,
        ..World::default()
    };
    let mut sick = healthy.clone();
    change(&mut sick);
    let folder = tempfile::tempdir().unwrap();
    let side = |world: &World, seed, part: &str| {
        let to = folder.path().join(part);
        write(world, seed, &to, name);
        load(&to, &LoadOptions::default()).unwrap()
    };
    let (a, b) = (side(&healthy, 1, "a"), side(&sick, 2, "b"));
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    compare(&a, &b, &options)
}

/// Names of rank files: of vLLM, of SGLang, and without any rank.
const NAMES: [fn(usize) -> String; 3] = [
    |rank| format!("rank{rank}.17{rank}.pt.trace"),
    |rank| format!("1757-TP-{rank}-DP-0"),
    |rank| format!("host_{}{rank}", 41),
];

#[test]
fn a_slow_device_is_named_by_its_rank() {
    for name in NAMES {
        let report = judge(name, |w| {
            w.kernel = |rank, _| if rank == 1 { 1.3 } else { 1.0 };
            w.late_us = 3000.0;
        });
        assert_eq!(report.roles.len(), 2, "{}", name(0));
        assert_eq!(report.roles[1].pids, [7, 7]);
        let slow = report.findings.iter().filter(|f| {
            f.verdict == Statement::Changed && f.class == "kernel" && f.effect.delta > 0.0
        });
        let devices: Vec<&str> = slow.map(|f| f.device.as_str()).collect();
        assert!(
            devices.len() >= 5 && devices.iter().all(|d| *d == "GPU 1"),
            "{}: {devices:?}",
            name(0)
        );
        assert_eq!(
            report.verdict.cause, "collective_straggler",
            "{}",
            report.verdict.summary
        );
        assert!(
            report.verdict.summary.contains("GPU 1"),
            "{}",
            report.verdict.summary
        );
    }
}

#[test]
fn a_rank_that_is_late_on_its_host_is_named() {
    let report = judge(NAMES[0], |w| w.late_us = 4000.0);
    assert_eq!(
        report.verdict.cause, "collective_straggler",
        "{}",
        report.verdict.summary
    );
    assert!(
        report.verdict.summary.contains("rank 1"),
        "{}",
        report.verdict.summary
    );
}

#[test]
fn equal_ranks_are_no_change() {
    let report = judge(NAMES[1], |_| {});
    assert_eq!(report.verdict.cause, "none", "{}", report.verdict.summary);
    assert_eq!(report.cycle_time[0].effect.n, [30, 30]);
}

#[test]
fn another_number_of_devices_is_not_comparable() {
    let folder = tempfile::tempdir().unwrap();
    let side = |ranks: usize, part: &str| {
        let world = World {
            ranks,
            cycles: 12,
            ..World::default()
        };
        let to = folder.path().join(part);
        write(&world, 3, &to, NAMES[0]);
        load(&to, &LoadOptions::default()).unwrap()
    };
    let report = compare(&side(1, "a"), &side(2, "b"), &Options::default());
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert!(
        report
            .comparability
            .reasons
            .iter()
            .any(|r| r.code == "devices")
    );
}

/// Three ranks reduce in each cycle; where rank 1 pauses for 9 ms, the others wait for it as long.
fn pausing(folder: &Path, pauses: fn(usize) -> bool) {
    fs::create_dir_all(folder).unwrap();
    let mut noise = Noise::new(11);
    let lengths: Vec<f64> = (0..40)
        .map(|_| 3000.0 * (1.0 + 0.004 * noise.normal()))
        .collect();
    for rank in 0..3 {
        let mut text = String::from(
            "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name\n",
        );
        let mut at = 0.0;
        for (cycle, length) in lengths.iter().enumerate() {
            let pause = if pauses(cycle) { 9000.0 } else { 0.0 };
            let length = length + pause;
            let mut row = |name: &str, device: &str, kind: &str, us: f64| {
                text += &format!(
                    "{cycle},7,h,50,{name},N/A,{device},{kind},,,{us},,step,{length},{at},1,{name}\n"
                );
            };
            row("schedule", "Host", "python", 400.0);
            row("gemm", &format!("GPU {rank}"), "gpu_compute", 1800.0);
            let reduce = if rank == 1 { 100.0 } else { 100.0 + pause };
            row(
                "ncclDevKernel_AllReduce",
                &format!("GPU {rank}"),
                "gpu_comm",
                reduce,
            );
            if rank == 1 && pause > 0.0 {
                row("collect", "Host", "python", pause);
            }
            at += length;
        }
        fs::write(folder.join(format!("rank{rank}_perf_data.csv")), text).unwrap();
    }
}

#[test]
fn a_rank_that_pauses_is_named_and_those_that_wait_for_it_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let side = |part: &str, pauses| {
        let to = folder.path().join(part);
        pausing(&to, pauses);
        load(&to, &LoadOptions::default()).unwrap()
    };
    let (a, b) = (side("a", |_| false), side("b", |cycle| cycle % 7 == 3));
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    let told = compare(&a, &b, &options).headline;
    assert!(
        told.starts_with("6 of 40 cycles of the candidate pause"),
        "{told}"
    );
    assert!(
        told.contains("in them: collect +9.000 ms on rank 1;"),
        "{told}"
    );
}
