//! Parts of the reference's analysis that its published outputs do not show, on small traces whose
//! answer can be worked out by hand, and on made ones whose truth is known.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use byte_source::Source;
use model::{Config, Fault, make};
use rca_cycles::Topology;
use rca_cycles::compat::{
    Analysis, DivideBy, Failure, Options, PeriodMethod, Sight, analyse, periods,
};
use trace_model::Trace;

fn read(json: String) -> Trace {
    let source = Source::from_bytes("made.json", json.into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

/// Complete events of category, name, pid, tid, start and duration (µs), arguments.
type Row = (
    &'static str,
    &'static str,
    i64,
    &'static str,
    i64,
    i64,
    &'static str,
);

fn trace(rows: &[Row]) -> Trace {
    let list: Vec<String> = rows
        .iter()
        .map(|(cat, name, pid, tid, ts, dur, args)| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":"{tid}","ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        })
        .collect();
    read(format!("[{}]", list.join(",")))
}

/// Mean distance of the starts of iterations, µs.
fn mean_period(made: &model::Made) -> f64 {
    let (first, last) = (made.iterations.first(), made.iterations.last());
    let span = last.unwrap().start - first.unwrap().start;
    let mean = span / i64::try_from(made.iterations.len() - 1).unwrap();
    f64::from(i32::try_from(mean / 1000).unwrap())
}

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

/// Start and end of each cycle in µs, and whether some process was late.
fn bounds(analysis: &Analysis) -> Vec<(f64, f64, bool)> {
    let cycles = analysis.reports.iter().flat_map(|r| &r.cycles);
    cycles.map(|c| (c.start_us, c.end_us, c.delayed)).collect()
}

/// Steps of 10 ms every 11 ms: of process 1 from the beginning, of process 2 from `late` on.
fn two_processes(steps: i64, late: i64) -> Trace {
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..steps {
        rows.push(("python", "S.step", 1, "a", i * 11_000, 10_000, ""));
        rows.push(("python", "S.decode", 1, "a", i * 11_000 + 10, 5_000, ""));
        if i >= late {
            rows.push(("python", "S.step", 2, "b", i * 11_000 + 300, 10_000, ""));
            rows.push(("python", "S.decode", 2, "b", i * 11_000 + 310, 5_000, ""));
        }
    }
    trace(&rows)
}

#[test]
fn aligned_cycles_hold_one_step_of_each_process() {
    let align = options(|o| o.align = true);
    let found = analyse(&two_processes(6, 0), &align).unwrap();
    let cycles = bounds(&found);
    assert_eq!(cycles.len(), 6);
    // From the first start of either to the last end of either, nobody late.
    assert_eq!(cycles[0], (0.0, 10_300.0, false));
    // Without it, the smallest process alone makes cycles.
    let plain = analyse(&two_processes(6, 0), &Options::default()).unwrap();
    assert_eq!(bounds(&plain).len(), 6);
    assert!(bounds(&plain).iter().all(|c| !c.2));
}

#[test]
fn a_late_process_makes_one_long_first_cycle_that_is_marked() {
    let align = options(|o| o.align = true);
    // Process 2 begins in the fourth step: the steps of process 1 up to then are one cycle with it.
    let found = analyse(&two_processes(8, 3), &align).unwrap();
    let cycles = bounds(&found);
    assert_eq!(cycles[0], (0.0, 43_300.0, true));
    assert_eq!(
        cycles.len(),
        5,
        "four of eight are in the first: {cycles:?}"
    );
    assert!(cycles[1..].iter().all(|c| !c.2));
    // What was late is among those that stand out.
    assert!(found.reports[0].representatives.contains(&1));
}

#[test]
fn blanks_around_a_name_are_no_part_of_it() {
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..6 {
        let ts = i * 1_000;
        let step = if i % 3 == 1 {
            " Engine.step "
        } else {
            "Engine.step"
        };
        rows.push(("python", step, 1, "a", ts, 900, ""));
        rows.push(("python", "Engine.forward", 1, "a", ts + 10, 400, ""));
        rows.push(("CAT_CPU", "runq ", 1, "cpu 0", ts + 20, 50, ""));
    }
    let found = analyse(&trace(&rows), &Options::default()).unwrap();
    assert_eq!(found.anchor, "Engine.step");
    assert_eq!(bounds(&found).len(), 6);
    let waits = found.reports[0].rows.iter();
    let waits: Vec<&str> = waits.map(|row| row.function_name.as_str()).collect();
    assert_eq!(waits, ["runq"; 6]);
}

#[test]
fn layers_are_cycles_where_they_are_outermost() {
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..6 {
        let ts = i * 1_000;
        rows.push(("python", "DecoderLayer.forward", 1, "a", ts, 900, ""));
        rows.push(("python", "Attention.forward", 1, "a", ts + 10, 400, ""));
        rows.push(("python", "MLP.forward", 1, "a", ts + 450, 400, ""));
    }
    let layer = options(|o| o.divide_by = DivideBy::Layer);
    let found = analyse(&trace(&rows), &layer).unwrap();
    assert_eq!(found.anchor, "DecoderLayer.forward");
    assert_eq!(found.reports.len(), 1);
    assert_eq!(found.reports[0].suffix, "_layer");
    let cycles = bounds(&found);
    assert_eq!(cycles.len(), 6);
    assert_eq!(cycles[2], (2_000.0, 2_900.0, false));
    // Nested in a recorded step they are none, as in the reference.
    for seed in 1..4 {
        let config = Config {
            seed,
            iterations: 6,
            ..Config::default()
        };
        let nested = analyse(&read(make(config).json), &layer);
        assert_eq!(nested.unwrap_err(), Failure::NoLayer);
    }
}

#[test]
fn a_topology_names_devices_and_makes_levels_shares() {
    for seed in 1..4 {
        let config = Config {
            seed,
            iterations: 20,
            ..Config::default()
        };
        let trace = read(make(config).json);
        let mut topology = Topology::default();
        topology.process_gpu.insert(("node0".to_owned(), 4000), 0);
        topology.gpu_gb.insert(("node0".to_owned(), 0), 80.0);
        topology.cpu_mhz.insert("node0".to_owned(), 4000.0);
        topology.cores.insert("node0".to_owned(), 64.0);
        let with = options(|o| o.topology = Some(topology));
        let (plain, with) = (
            analyse(&trace, &Options::default()).unwrap(),
            analyse(&trace, &with).unwrap(),
        );
        let level = |analysis: &Analysis, counter: &str| {
            let rows = analysis.reports.iter().flat_map(|r| &r.rows);
            let mut found = rows.filter_map(|r| r.metric.filter(|m| m.0 == counter));
            found.next().map(|m| m.1).unwrap()
        };
        let same = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.abs(), "{a} for {b}");
        let gib = 1024.0 * 1024.0 * 1024.0;
        same(
            level(&with, "gpu_mem_used") * 80.0 * gib,
            level(&plain, "gpu_mem_used"),
        );
        same(
            level(&with, "cpu_frequency") * 4000.0,
            level(&plain, "cpu_frequency"),
        );
        let devices = |analysis: &Analysis| {
            let rows = analysis.reports.iter().flat_map(|r| &r.rows);
            let mut names: Vec<String> = rows.map(|r| r.device.clone()).collect();
            names.sort();
            names.dedup();
            names
        };
        assert_eq!(devices(&plain), ["GPU 0 (virtual)", "Host"]);
        assert_eq!(devices(&with), ["GPU 0", "Host"]);
    }
}

#[test]
fn collectives_and_operators_are_shown_beside_what_they_stand_for() {
    const COMM: &str = r#""commHash":"c","rank":"0","node":"0","cudaDev":"3","hostname":"h0""#;
    const PEER: &str =
        r#""commHash":"c","rank":"1","node":"0","cudaDev":"4","hostname":"h0","rp":"0""#;
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..4 {
        let t = i * 1_000;
        rows.push(("python", "S.step", 1, "a", t, 900, ""));
        rows.push(("python", "MyLayer.forward", 1, "a", t + 10, 700, ""));
        rows.push(("python", "Attention.forward", 1, "a", t + 20, 300, ""));
        rows.push(("python", "MLP.forward", 1, "a", t + 400, 300, ""));
    }
    for (call, launch, kernel) in [
        (
            ("CAT_APP", "ncclAllReduce", 1, "user probe", 500, 20, COMM),
            (
                "cuda_runtime",
                "cudaLaunchKernel",
                1,
                "a",
                505,
                5,
                r#""correlation":1"#,
            ),
            (
                "Kernel",
                "ncclDevKernel_AllReduce_Sum",
                1,
                "d",
                600,
                40,
                r#""correlation":1"#,
            ),
        ),
        (
            ("CAT_APP", "ncclSend", 1, "user probe", 1_500, 20, PEER),
            (
                "cuda_runtime",
                "cudaLaunchKernel",
                1,
                "a",
                1_505,
                5,
                r#""correlation":2"#,
            ),
            (
                "Kernel",
                "ncclDevKernel_Send_x",
                1,
                "d",
                1_600,
                50,
                r#""correlation":2"#,
            ),
        ),
        (
            ("python", "x", 1, "other", 1_030, 1, ""),
            (
                "cuda_runtime",
                "cudaLaunchKernel",
                1,
                "a",
                1_030,
                5,
                r#""correlation":3"#,
            ),
            ("Kernel", "gemm", 1, "d", 1_100, 70, r#""correlation":3"#),
        ),
    ] {
        rows.extend([call, launch, kernel]);
    }
    let found = analyse(&trace(&rows), &Options::default()).unwrap();
    let cycles: Vec<_> = found.reports.iter().flat_map(|r| &r.cycles).collect();
    let shown = |n: usize, category: &str| -> Vec<(String, f64, f64, usize)> {
        let all = cycles[n].virtuals.iter();
        all.filter(|v| v.category == category)
            .map(|v| (v.name.clone(), v.ts_us, v.dur_us, v.kernels))
            .collect()
    };
    assert_eq!(
        shown(0, "virtual_nccl_kernel"),
        [("ncclDevKernel_AllReduce_Sum".to_owned(), 600.0, 40.0, 1)]
    );
    assert_eq!(
        shown(0, "virtual_op_kernels"),
        [("MLP_kernels".to_owned(), 600.0, 40.0, 1)]
    );
    // The second step: attention launched the product, and the peer of the send is known.
    assert_eq!(
        shown(1, "virtual_op_kernels"),
        [
            ("Attention_kernels".to_owned(), 1_100.0, 70.0, 1),
            ("MLP_kernels".to_owned(), 1_600.0, 50.0, 1)
        ]
    );
    let send = cycles[1]
        .virtuals
        .iter()
        .find(|v| v.name == "ncclDevKernel_Send_x")
        .unwrap();
    assert_eq!(
        send.args,
        [("rp_peer_info".to_owned(), "host:h0,dev:3".to_owned())]
    );
    assert!(shown(2, "virtual_cycle_kernels").is_empty(), "no kernels");
}

#[test]
fn functions_that_end_together_are_shown_one_microsecond_apart() {
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..4 {
        let t = i * 1_000;
        rows.push(("python", "S.step", 1, "a", t, 900, ""));
        rows.push(("python", "S.inner", 1, "a", t + 100, 800, ""));
        rows.push(("python", "S.last", 1, "a", t + 899, 1, ""));
    }
    let trace = trace(&rows);
    let found = analyse(&trace, &Options::default()).unwrap();
    let cycle = &found.reports[0].cycles[1];
    let mut shown: Vec<(&str, f64)> = cycle
        .events
        .iter()
        .map(|e| (trace.slice(e.slice).name().unwrap(), e.dur_us))
        .collect();
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    // The last is no longer than the two that it would lose.
    assert_eq!(
        shown,
        [("S.step", 900.0), ("S.inner", 799.0), ("S.last", 1.0)]
    );
}

#[test]
fn the_period_of_kernels_is_that_of_the_steps() {
    for seed in 1..5 {
        let config = Config {
            seed,
            iterations: 200,
            layers: 4,
            ..Config::default()
        };
        let made = make(config);
        let trace = read(made.json.clone());
        for method in [PeriodMethod::Cuda, PeriodMethod::Python] {
            let found = periods(&trace, &Options::default(), method, Sight::Reference).unwrap();
            let n = found.list.len();
            assert!((198..=202).contains(&n), "seed {seed}, {method:?}: {n}");
            // Starts snap to any kernel near the beat, so that only their mean distance is exact.
            let span = found.list[n - 1].start_us - found.list[0].start_us;
            let cycles = f64::from(u32::try_from(n - 1).unwrap());
            let mean = span / cycles;
            let truth = mean_period(&made);
            assert!(
                (mean - truth).abs() < 0.01 * truth,
                "{method:?}: {mean} for {truth}"
            );
            assert_eq!(found.list[4].count, 5);
        }
        // No probes in user space.
        let probes = periods(
            &trace,
            &Options::default(),
            PeriodMethod::Probe,
            Sight::Full,
        );
        assert!(probes.is_none());
    }
}

#[test]
fn the_reference_is_blind_below_twenty_milliseconds_and_we_are_not() {
    for seed in 1..5 {
        let config = Config {
            seed,
            iterations: 200,
            layers: 4,
            period_ns: 8_000_000,
            python: false,
            fault: Fault::None,
            ..Config::default()
        };
        let made = make(config);
        let trace = read(made.json.clone());
        let median = |sight| -> Option<f64> {
            let found = periods(&trace, &Options::default(), PeriodMethod::Cuda, sight)?;
            let mut lengths: Vec<f64> = found.list.iter().map(|p| p.end_us - p.start_us).collect();
            lengths.sort_by(f64::total_cmp);
            lengths.get(lengths.len() / 2).copied()
        };
        let ours = median(Sight::Full).unwrap();
        let truth = mean_period(&made);
        assert!(
            (ours - truth).abs() < 0.03 * truth,
            "seed {seed}: {ours} for {truth}"
        );
        let theirs = median(Sight::Reference);
        assert!(
            theirs.is_none_or(|t| t > 12_000.0),
            "seed {seed}: {theirs:?}"
        );
    }
}
