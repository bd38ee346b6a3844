//! Checks that the rules of the public analyzers reproduce their published tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byte_source::Source;
use gpu_time::compat::{hta, tracelens};
use gpu_time::{GpuTime, GpuWork, KernelOptions, Roles, Rules, account, gpu_time, kernels};
use perfetto_reader::ReadOptions;
use trace_model::Trace;

/// Returns the folder of the reference data of these tests.
fn peers() -> PathBuf {
    test_data::reference("peers")
}

fn read(peers: &Path, name: &str) -> Trace {
    let path = peers.join(format!("traces/{name}.json.gz"));
    let source = Source::open(&path, &Default::default()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

type Row = BTreeMap<String, String>;

fn csv(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    let (mut field, mut quoted) = (String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            '\r' if !quoted => {}
            ',' | '\n' if !quoted => {
                rows.last_mut().unwrap().push(std::mem::take(&mut field));
                if c == '\n' {
                    rows.push(Vec::new());
                }
            }
            c => field.push(c),
        }
    }
    let header = rows.remove(0);
    let rows = rows.into_iter().filter(|row| row.len() == header.len());
    rows.map(|row| header.iter().cloned().zip(row).collect())
        .collect()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "compared with tolerance")]
fn us(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!(
        (got - want).abs() <= tolerance,
        "{what}: {got}, want {want}"
    );
}

/// Returns the tolerance for the tools' binary64 arithmetic in microseconds: 25 where times are
/// microseconds since 1970.
fn tolerance(trace: &Trace) -> f64 {
    let epoch = trace.span().start.nanos() > 10_000_000_000_000_000;
    if epoch { 25.0 } else { 0.1 }
}

const ALL: [&str; 7] = [
    "mi300_resnet_nccl",
    "mi300_qwen15",
    "h100_qwen15",
    "sglang_prefilldecode",
    "hta_nccl_data",
    "sampled_rank0",
    "sampled_rank1",
];

/// Returns the folder with the tables of a trace, and its rank in them.
fn hta_folder(name: &str) -> (&str, &str) {
    match name {
        "sampled_rank0" => ("sampled_2rank", "0"),
        "sampled_rank1" => ("sampled_2rank", "1"),
        other => (other, "0"),
    }
}

fn of_rank(path: &Path, rank: &str) -> Vec<Row> {
    let rows = csv(path).into_iter();
    rows.filter(|r| r.get("rank").is_none_or(|n| n == rank))
        .collect()
}

fn hta_time(work: &GpuWork<'_>, rounding: bool) -> GpuTime {
    let events = hta::events(work, rounding);
    account(&mut Roles::new(work, Rules::Hta), &events, None)
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn breakdowns_of_hta_without_rounding() {
    let peers = peers();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let (folder, rank) = hta_folder(name);
        let folder = peers.join(folder).join("hta_no_rounding");
        let time = hta_time(&work, false);
        let tolerance = tolerance(&trace);
        if folder.join("temporal_breakdown.csv").exists() {
            let rows = of_rank(&folder.join("temporal_breakdown.csv"), rank);
            let idle = number(&rows[0], "idle_time(us)");
            close(us(time.idle_ns), idle, tolerance, name);
            let comp = number(&rows[0], "compute_time(us)");
            close(us(time.comp_ns), comp, tolerance, name);
            let span = number(&rows[0], "kernel_time(us)");
            close(us(time.span_ns), span, tolerance, name);
        }
        let overlap = &of_rank(&folder.join("comm_comp_overlap.csv"), rank)[0];
        match time.comm_comp_overlap_pct() {
            None => assert_eq!(overlap["comp_comm_overlap_pctg"], "", "{name}"),
            Some(got) => close(
                got,
                number(overlap, "comp_comm_overlap_pctg"),
                0.005001,
                name,
            ),
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn breakdowns_of_hta_with_rounding() {
    let peers = peers();
    for name in ALL {
        let (folder, rank) = hta_folder(name);
        let path = peers
            .join(folder)
            .join("hta_default/temporal_breakdown.csv");
        if !path.exists() {
            continue;
        }
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let time = hta_time(&work, true);
        let row = &of_rank(&path, rank)[0];
        close(us(time.idle_ns), number(row, "idle_time(us)"), 0.0, name);
        close(us(time.span_ns), number(row, "kernel_time(us)"), 0.0, name);
        // In the tool, events that end before they start reduce the time.
        let events = hta::events(&work, true);
        let inverted = events.iter().filter(|e| e.end_ns < e.start_ns).count();
        let lost = us(time.comp_ns) - number(row, "compute_time(us)");
        let most = us(i64::try_from(inverted).unwrap() * 1000);
        assert!((0.0..=most).contains(&lost), "{name}: {lost} of {most}");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn combinations_of_kernel_types() {
    let peers = peers();
    let mut folders: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let events = hta::events(&work, false);
        let sums = folders.entry(hta_folder(name).0).or_default();
        for row in hta::combinations(&mut Roles::new(&work, Rules::Hta), &events) {
            *sums.entry(row.types).or_default() += row.cut_ns / 1000;
        }
    }
    for (folder, mut got) in folders {
        let path = peers
            .join(folder)
            .join("hta_no_rounding/gpu_kernel_breakdown_0.csv");
        let mut want = BTreeMap::new();
        for row in csv(&path) {
            want.insert(
                row["kernel_type"].clone(),
                row["sum"].parse::<i64>().unwrap(),
            );
        }
        for types in want.keys() {
            got.entry(types.clone()).or_default();
        }
        assert_eq!(got, want, "{folder}");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn kernels_of_hta() {
    let peers = peers();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let (folder, rank) = hta_folder(name);
        let path = peers
            .join(folder)
            .join("hta_no_rounding/gpu_kernel_breakdown_1.csv");
        let events = hta::events(&work, false);
        let found = kernels(&work, &events, &KernelOptions::default());
        let mut got: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
        for row in &found.groups {
            let sum = got
                .entry(row.name.as_str())
                .or_insert((0.0, 0.0, f64::INFINITY));
            sum.0 += us(row.spread.sum_ns);
            sum.1 = sum.1.max(us(row.spread.max_ns));
            sum.2 = sum.2.min(us(row.spread.min_ns));
        }
        let rows = of_rank(&path, rank);
        assert_eq!(rows.len(), got.len(), "{name}");
        for row in rows {
            let kernel = row["name"].as_str();
            let (sum, max, min) = got[kernel];
            close(sum, number(&row, "sum (us)"), 0.01, kernel);
            close(max, number(&row, "max (us)"), 0.0005, kernel);
            close(min, number(&row, "min (us)"), 0.0005, kernel);
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn idle_time_of_hta_with_rounding() {
    let peers = peers();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let (folder, rank) = hta_folder(name);
        let path = peers
            .join(folder)
            .join("hta_default/idle_time_breakdown_0.csv");
        let mut want: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for row in of_rank(&path, rank) {
            let key = (row["stream"].parse().unwrap(), row["idle_category"].clone());
            #[expect(clippy::cast_possible_truncation, reason = "whole microseconds")]
            want.insert(key, number(&row, "idle_time") as i64 * 1000);
        }
        let events = hta::events(&work, true);
        let mut got = BTreeMap::new();
        for idle in hta::idle(&work, &events, true) {
            for (cause, ns) in [
                ("host_wait", idle.host_wait_ns),
                ("kernel_wait", idle.kernel_wait_ns),
                ("other", idle.other_ns),
            ] {
                let key = (idle.stream, cause.to_owned());
                if ns != 0 || want.contains_key(&key) {
                    got.insert(key, ns);
                }
            }
        }
        assert_eq!(got, want, "{name}");
    }
}

fn check_timeline(path: &Path, time: &GpuTime, tolerance_us: f64) {
    let what = path.display().to_string();
    for row in csv(path) {
        let want = number(&row, "time ms") * 1000.0;
        let got = match row["type"].as_str() {
            "computation_time" => time.comp_ns,
            "exposed_comm_time" => time.exposed_comm_ns,
            "exposed_memcpy_time" => time.exposed_memcpy_ns,
            "busy_time" => time.busy_ns,
            "idle_time" => time.idle_ns,
            "micro_idle_time" => time.micro_idle_ns,
            "macro_idle_time" => time.macro_idle_ns,
            "total_time" => time.span_ns,
            "total_comm_time" => time.comm_ns,
            "total_memcpy_time" => time.memcpy_ns,
            other => panic!("{other}"),
        };
        close(
            us(got),
            want,
            tolerance_us,
            &format!("{what} {}", row["type"]),
        );
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn timelines_of_tracelens() {
    let peers = peers();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let folder = peers.join(name).join("tracelens");
        let tolerance = tolerance(&trace);
        let time = gpu_time(&work, Rules::TraceLens);
        check_timeline(&folder.join("gpu_timeline_all.csv"), &time, tolerance);
        check_timeline(&folder.join("gpu_timeline_micro10us.csv"), &time, tolerance);
        let path = folder.join("gpu_timeline_linked_only.csv");
        if path.exists() {
            let linked = tracelens::linked(&work);
            let mut roles = Roles::new(&work, Rules::TraceLens);
            check_timeline(&path, &account(&mut roles, &linked, None), tolerance);
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn kernel_summaries_of_tracelens() {
    let peers = peers();
    for name in ALL {
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let path = peers.join(name).join("tracelens/kernel_summary.csv");
        let rows = csv(&path);
        let found = kernels(&work, work.events(), &KernelOptions::default());
        assert_eq!(rows.len(), found.groups.len(), "{name}");
        let got: BTreeMap<_, _> = found
            .groups
            .iter()
            .map(|g| ((g.kind.unwrap().category(), g.name.as_str()), &g.spread))
            .collect();
        for row in rows {
            let kernel = row["name"].as_str();
            let s = got[&(row["cat"].as_str(), kernel)];
            assert_eq!(s.count, row["count"].parse::<u64>().unwrap(), "{kernel}");
            close(us(s.sum_ns), number(&row, "sum_us"), 0.01, kernel);
            close(us(s.min_ns), number(&row, "min_us"), 0.0005, kernel);
            close(us(s.max_ns), number(&row, "max_us"), 0.0005, kernel);
            close(s.mean_ns / 1000.0, number(&row, "mean_us"), 0.0005, kernel);
            close(
                s.median_ns / 1000.0,
                number(&row, "median_us"),
                0.0006,
                kernel,
            );
            match s.std_ns {
                None => assert!(matches!(row["std_us"].as_str(), "" | "nan"), "{kernel}"),
                Some(std) => close(std / 1000.0, number(&row, "std_us"), 0.0005, kernel),
            }
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn launchers_of_tracelens() {
    let peers = peers();
    let mut compared = 0;
    for name in ALL {
        let path = peers
            .join(name)
            .join("tracelens/kernel_launchers_summary.csv");
        if !path.exists() {
            continue;
        }
        compared += 1;
        let trace = read(&peers, name);
        let work = GpuWork::new(&trace);
        let got = tracelens::launchers(&work, &tracelens::linked(&work));
        let rows = csv(&path);
        assert_eq!(got.len(), rows.len(), "{name}");
        for row in rows {
            let launcher = got.iter().find(|l| l.name == row["name"]).unwrap();
            let what = format!("{name} {}", launcher.name);
            assert_eq!(
                launcher.count,
                row["Count"].parse::<u64>().unwrap(),
                "{what}"
            );
            let direct = number(&row, "total_direct_kernel_time_sum");
            close(us(launcher.direct_ns), direct, 0.2, &what);
            let subtree = number(&row, "total_subtree_kernel_time_sum");
            close(us(launcher.subtree_ns), subtree, 0.2, &what);
        }
    }
    assert_eq!(compared, 5);
}
