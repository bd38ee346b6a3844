//! More bytes in a copy are other work, lower bandwidth is a fault of the link.

use std::fmt::Write as _;
use std::path::Path;

use perf_compare::document::Report;
use perf_compare::{LoadOptions, Options, compare, load};

/// Steps of a kernel of 9 ms and a copy to the GPU of this duration and size.
fn side(folder: &Path, copy_us: f64, bytes: Option<u64>) {
    std::fs::create_dir_all(folder).unwrap();
    let mut text = String::from(
        "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
         interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name",
    );
    text.push_str(if bytes.is_some() {
        ",copy_bytes\n"
    } else {
        "\n"
    });
    let size = bytes.map_or(String::new(), |b| format!(",{b}"));
    let none = bytes.map_or("", |_| ",");
    for cycle in 0..48_u32 {
        let noise = f64::from(cycle * 37 % 11);
        let (kernel, copy) = (9_000.0 + noise, copy_us * (1.0 + noise / 1_000.0));
        let length = 500.0 + kernel + copy;
        let mut row = |name: &str, kind: &str, us: f64, size: &str| {
            let at = cycle * 20_000;
            let _ = writeln!(
                text,
                "{},1,,{:.4},{name},N/A,GPU 0,{kind},,,{us:.4}, ,step,{length:.4},{at}.0,1,{name}{size}",
                cycle + 1,
                us / length * 100.0,
            );
        };
        row("gemm", "gpu_compute", kernel, none);
        row("Memcpy HtoD", "gpu_memcpy_h2d", copy, &size);
    }
    std::fs::write(folder.join("result_perf_data.csv"), text).unwrap();
}

fn judge(sides: [(f64, Option<u64>); 2]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [0, 1].map(|at| {
        let to = folder.path().join(at.to_string());
        side(&to, sides[at].0, sides[at].1);
        load(&to, &LoadOptions::default()).unwrap()
    });
    compare(&a, &b, &Options::default())
}

#[test]
fn more_bytes_are_other_work_and_the_same_bytes_in_more_time_are_not() {
    const MIB: u64 = 1 << 20;
    let more = judge([(20.0, Some(MIB)), (1_200.0, Some(60 * MIB))]);
    assert_eq!(more.verdict.cause, "workload_shift", "{}", more.headline);
    assert!(
        more.headline.contains(
            "60 times as many bytes copied to the GPU (1.000 MiB -> 60.00 MiB per cycle)"
        ),
        "{}",
        more.headline
    );
    for size in [Some(MIB), None] {
        let slow = judge([(20.0, size), (1_200.0, size)]);
        assert_eq!(slow.verdict.cause, "pcie_contention", "{}", slow.headline);
    }
}
