//! What must hold on traces whose truth is known, over several seeds.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panic, and say when they are skipped"
)]

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use byte_source::Source;
use model::{COLLECTIVE, Config, Fault, KERNELS, Made, Style, make};
use rca_cycles::compare::{self, Comparison, CulpritKind, Pair};
use rca_cycles::compat;
use rca_cycles::{Analysis, Options, Partial, Phase, analyse};
use trace_model::Trace;

const SEEDS: std::ops::Range<u64> = 1..6;

fn read(made: &Made) -> Trace {
    let source = Source::from_bytes("made.json", made.json.clone().into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

fn analysed(config: Config) -> (Made, Analysis) {
    let made = make(config);
    let analysis = analyse(&read(&made), &Options::default()).unwrap();
    (made, analysis)
}

fn pair(config: Config, fault: Fault) -> (Pair, Comparison) {
    let normal = read(&make(config));
    let abnormal = read(&make(Config {
        seed: config.seed + 1000,
        fault,
        ..config
    }));
    let pair = compare::analyse_pair(&normal, &abnormal, &Options::default()).unwrap();
    let comparison = compare::compare(&pair, &compare::Options::default());
    (pair, comparison)
}

fn whole(analysis: &Analysis) -> Vec<&rca_cycles::Cycle> {
    let cycles = analysis.cycles.iter();
    cycles.filter(|c| c.partial.is_none()).collect()
}

#[test]
fn t1_steady_decode_is_cut_exactly() {
    for seed in SEEDS {
        let (made, analysis) = analysed(Config {
            seed,
            ..Config::default()
        });
        assert_eq!(analysis.engine.as_deref(), Some("sglang"));
        assert_eq!(analysis.cycles.len(), 60, "seed {seed}");
        for (cycle, truth) in analysis.cycles.iter().zip(&made.iterations) {
            assert!((cycle.start_ns - truth.start).abs() <= 1000);
            assert_eq!(cycle.partial, None);
            assert_eq!(cycle.gaps.total_ns(), cycle.length_ns());
        }
        let mut periods: Vec<i64> = made
            .iterations
            .windows(2)
            .map(|w| w[1].start - w[0].start)
            .collect();
        periods.sort_unstable();
        let truth = periods[periods.len() / 2];
        let found = analysis.period_ns().unwrap();
        assert!((found - truth).abs() * 1000 <= truth, "{found} for {truth}");
    }
}

#[test]
fn t2_prefills_are_told_from_decodes() {
    for seed in SEEDS {
        let (made, analysis) = analysed(Config {
            seed,
            prefill_every: 20,
            ..Config::default()
        });
        let found: Vec<bool> = analysis
            .cycles
            .iter()
            .map(|c| c.phase == Phase::Prefill)
            .collect();
        let truth: Vec<bool> = made.iterations.iter().map(|i| i.prefill).collect();
        assert_eq!(found, truth);
        assert_eq!(found.iter().filter(|p| **p).count(), 3);
        // No decode carries the work of the prefill before it.
        let decodes: Vec<i64> = whole(&analysis)
            .iter()
            .filter(|c| c.phase == Phase::Decode)
            .map(|c| c.length_ns())
            .collect();
        let (least, most) = (decodes.iter().min().unwrap(), decodes.iter().max().unwrap());
        assert!(most * 100 < least * 125, "{least} to {most}");
    }
}

#[test]
fn t3_a_slow_kernel_is_first_also_by_a_tenth() {
    let silu = KERNELS[2].0;
    for seed in SEEDS {
        for percent in [300, 150, 110] {
            for prefill_every in [0, 20] {
                let config = Config {
                    seed,
                    prefill_every,
                    ..Config::default()
                };
                let (_, c) = pair(config, Fault::SlowKernel(silu, percent));
                let first = c
                    .culprits
                    .first()
                    .unwrap_or_else(|| panic!("seed {seed}, {percent} %: nothing"));
                assert_eq!(
                    first.name, silu,
                    "seed {seed}, {percent} %: {:#?}",
                    c.culprits
                );
                assert_eq!(first.kind, CulpritKind::Kernel);
                assert!(first.interval_ns.0 > 0 && !first.evidence.is_empty());
            }
        }
    }
}

#[test]
fn t4_a_slow_python_function_is_first() {
    for seed in SEEDS {
        let config = Config {
            seed,
            ..Config::default()
        };
        let (_, c) = pair(config, Fault::SlowPython(300));
        assert_eq!(c.culprits[0].name, "Sampler.forward", "{:#?}", c.culprits);
        assert_eq!(c.culprits[0].kind, CulpritKind::Function);
        // Three times 5 % of 30 ms.
        let effect = c.culprits[0].effect_ns;
        assert!((2_850_000..3_150_000).contains(&effect), "{effect}");
    }
}

#[test]
fn t5_pairs_without_a_difference_give_nothing_at_the_stated_rate() {
    let mut wrong = 0;
    let pairs = 200;
    for seed in 0..pairs {
        let config = Config {
            seed: seed * 7 + 3,
            iterations: 30,
            layers: 3,
            prefill_every: if seed % 2 == 0 { 10 } else { 0 },
            ..Config::default()
        };
        let (_, c) = pair(config, Fault::None);
        wrong += u64::from(!c.culprits.is_empty());
    }
    // 5 % of 200 are 10; 17 and more would happen by chance once in fifty at exactly that rate.
    assert!(wrong < 17, "{wrong} of {pairs}");
}

#[test]
fn t6_a_kernel_of_one_side_only_is_new() {
    for seed in SEEDS {
        let config = Config {
            seed,
            ..Config::default()
        };
        let (_, c) = pair(config, Fault::NewKernel(60));
        let first = &c.culprits[0];
        assert_eq!(first.name, "void debug_copy_kernel<float>(float*)");
        assert!(first.is_new);
    }
}

#[test]
fn t7_the_slow_rank_is_named() {
    for seed in SEEDS {
        for (ranks, slow) in [(2, 1), (4, 2), (8, 5)] {
            let config = Config {
                seed,
                ranks,
                iterations: 20,
                layers: 4,
                ..Config::default()
            };
            let (p, c) = pair(config, Fault::SlowRank(slow, 150));
            let first = &c.culprits[0];
            assert_eq!(first.kind, CulpritKind::Rank, "{:#?}", c.culprits);
            assert_eq!(first.rank, u32::try_from(slow).ok());
            let straggler = p.abnormal.cycles[3].skew.unwrap();
            let ranks_found = compare::ranks(&p.abnormal);
            assert_eq!(ranks_found.len(), ranks, "every process sees device 0");
            assert_eq!(ranks_found[slow], straggler.straggler);
            assert_eq!(straggler.collectives, 4);
        }
    }
}

#[test]
fn t8_a_low_clock_is_to_blame_and_not_the_kernels() {
    for seed in SEEDS {
        let config = Config {
            seed,
            ..Config::default()
        };
        let (_, c) = pair(config, Fault::FrequencyCap(50));
        let first = &c.culprits[0];
        assert_eq!(first.kind, CulpritKind::Counter, "{:#?}", c.culprits);
        assert!(first.name.contains("frequency"), "{}", first.name);
    }
}

#[test]
fn t9_cycles_cut_by_the_recording_are_flagged() {
    for seed in SEEDS {
        let (made, analysis) = analysed(Config {
            seed,
            cut: true,
            ..Config::default()
        });
        let whole = whole(&analysis);
        assert_eq!(whole.len(), 58, "seed {seed}");
        for (cycle, truth) in whole.iter().zip(&made.iterations[1..]) {
            assert!((cycle.start_ns - truth.start).abs() <= 1000);
        }
        let first = analysis.cycles.first().unwrap().partial;
        let last = analysis.cycles.last().unwrap().partial;
        assert_eq!((first, last), (Some(Partial::Head), Some(Partial::Tail)));
    }
}

#[test]
fn t10_a_missing_outer_frame_is_never_compared_silently() {
    for seed in SEEDS {
        let normal = read(&make(Config {
            seed,
            ..Config::default()
        }));
        let abnormal = read(&make(Config {
            seed: seed + 50,
            outer_missing: true,
            ..Config::default()
        }));
        let pair = compare::analyse_pair(&normal, &abnormal, &Options::default()).unwrap();
        let told = pair.re_anchored.is_some() || pair.not_comparable.is_some();
        assert!(told, "{} and {}", pair.normal.anchor, pair.abnormal.anchor);
        let c = compare::compare(&pair, &compare::Options::default());
        assert!(pair.not_comparable.is_none() || c.culprits.is_empty());
    }
}

#[test]
fn t11_traces_that_lack_something_are_no_crash() {
    let lacking = [
        (true, false, true),
        (true, true, false),
        (false, true, true),
        (false, false, true),
        (true, false, false),
    ];
    for (seed, (python, device, counters)) in SEEDS.flat_map(|s| lacking.map(|l| (s, l))) {
        let made = make(Config {
            seed,
            python,
            device,
            counters,
            ..Config::default()
        });
        let result = analyse(&read(&made), &Options::default());
        if python {
            assert_eq!(result.unwrap().cycles.len(), 60);
        } else if device {
            assert!(!result.unwrap().cycles.is_empty());
        } else {
            assert!(result.is_err());
        }
    }
    assert!(analyse(&Trace::default(), &Options::default()).is_err());
}

#[test]
fn t12_the_way_of_writing_does_not_matter() {
    let styles = [
        Style {
            bare: true,
            ..Style::default()
        },
        Style {
            shuffled: true,
            ..Style::default()
        },
        Style {
            int_pid: true,
            ..Style::default()
        },
        Style {
            nested_args: true,
            ..Style::default()
        },
    ];
    for (seed, style) in SEEDS.flat_map(|s| styles.map(|style| (s, style))) {
        let base = Config {
            seed,
            prefill_every: 20,
            ..Config::default()
        };
        let (made, want) = analysed(base);
        let (_, got) = analysed(Config { style, ..base });
        assert_eq!(want.cycles.len(), got.cycles.len(), "{style:?}");
        for (a, b) in want.cycles.iter().zip(&got.cycles) {
            assert_eq!(
                (a.start_ns, a.end_ns, a.phase, a.gaps, a.launches),
                (b.start_ns, b.end_ns, b.phase, b.gaps, b.launches),
                "{style:?}"
            );
        }
        // Compression is no difference either.
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, made.json.as_bytes()).unwrap();
        let source = Source::from_bytes("made.json.gz", packed.finish().unwrap()).unwrap();
        let trace = perfetto_reader::read(source, &Default::default()).unwrap();
        let packed = analyse(&trace, &Options::default()).unwrap();
        assert_eq!(packed.cycles, want.cycles);
        let table = |x: &Analysis| {
            let mut rows: Vec<(String, i64, i64)> = x
                .functions
                .iter()
                .map(|f| {
                    let own = f.cells.iter().map(|c| c.self_ns).sum();
                    (f.name.clone(), f.device, own)
                })
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(table(&want), table(&got), "{style:?}");
    }
}

#[test]
fn t13_short_periods_are_found_without_python() {
    for seed in SEEDS {
        let (made, analysis) = analysed(Config {
            seed,
            period_ns: 8_000_000,
            python: false,
            iterations: 100,
            ..Config::default()
        });
        let mean = (made.iterations[99].start - made.iterations[0].start) / 99;
        let found = analysis.period_ns().unwrap();
        assert!(
            (found - mean).abs() * 50 < mean,
            "{found} for {mean}, {} cycles",
            analysis.cycles.len()
        );
    }
}

#[test]
fn t14_kernels_stay_with_the_iteration_that_launched_them() {
    for seed in SEEDS {
        let (_, analysis) = analysed(Config {
            seed,
            overlap: true,
            ..Config::default()
        });
        let gemm = analysis
            .functions
            .iter()
            .find(|f| f.name == KERNELS[0].0)
            .unwrap();
        assert_eq!(gemm.cells.len(), 60);
        assert!(gemm.cells.iter().all(|c| c.calls == 8));
    }
}

#[test]
fn t15_interference_in_a_tenth_of_the_cycles_is_listed() {
    for seed in SEEDS {
        let (made, analysis) = analysed(Config {
            seed,
            fault: Fault::Intermittent,
            ..Config::default()
        });
        let truth: Vec<u32> = (0_u32..60)
            .filter(|i| made.iterations[*i as usize].faulty)
            .collect();
        let first = &analysis.interference[0];
        assert_eq!(analysis.functions[first.function].name, "Sampler.forward");
        assert_eq!(first.cycles, truth);
        // Seven times 5 % of 30 ms.
        assert!((10_000_000..11_000_000).contains(&first.excess_ns));
    }
}

#[test]
fn interference_in_a_tenth_of_the_cycles_of_one_side_is_to_blame() {
    for seed in 1..21 {
        let config = Config {
            seed,
            prefill_every: 20,
            ..Config::default()
        };
        let fault = Fault::Intermittent;
        let (_, c) = pair(config, fault);
        let first = c.culprits.first();
        let first = first.unwrap_or_else(|| panic!("seed {seed}: nothing"));
        assert_eq!(first.name, "Sampler.forward", "{:#?}", c.culprits);
        let slow: Vec<u32> = first.slow_cycles.iter().map(|s| s.1).collect();
        assert_eq!(slow, [7, 17, 27, 37, 47, 57]);
        assert!(first.evidence.iter().all(|e| slow.contains(&e.cycle)));
        // Both sides alike: nothing is to blame.
        let alike = |seed: u64| {
            let made = make(Config {
                seed,
                fault,
                ..config
            });
            read(&made)
        };
        let both = (alike(seed + 40), alike(seed + 90));
        let pair = compare::analyse_pair(&both.0, &both.1, &Options::default()).unwrap();
        let none = compare::compare(&pair, &compare::Options::default());
        assert!(none.culprits.iter().all(|c| c.slow_cycles.is_empty()));
    }
}

#[test]
fn layers_inside_steps_are_cycles_if_asked_for() {
    let mut options = Options::default();
    options.divide_by = compat::DivideBy::Layer;
    for seed in SEEDS {
        let made = make(Config {
            seed,
            ..Config::default()
        });
        let trace = read(&made);
        let analysis = analyse(&trace, &options).unwrap();
        assert_eq!(analysis.anchor, "Qwen3DecoderLayer.forward");
        let whole = whole(&analysis);
        assert_eq!(whole.len(), 60 * 8, "seed {seed}");
        let starts: Vec<i64> = trace
            .slices()
            .filter(|s| s.name() == Some("Qwen3DecoderLayer.forward"))
            .map(|s| s.ts().nanos())
            .collect();
        for (cycle, start) in whole.iter().zip(starts) {
            assert_eq!(cycle.start_ns, start);
            assert_eq!(cycle.gaps.total_ns(), cycle.length_ns());
        }
        let gemm = analysis.functions.iter().find(|f| f.name == KERNELS[0].0);
        assert!(gemm.unwrap().cells.iter().all(|c| c.calls == 1));
    }
    let bare = make(Config {
        python: false,
        ..Config::default()
    });
    let none = analyse(&read(&bare), &options);
    assert_eq!(none.unwrap_err(), rca_cycles::Failure::NoLayers);
}

#[test]
fn a_slow_disk_comes_before_the_function_that_waits_for_it() {
    for (seed, prefill_every) in SEEDS.flat_map(|s| [(s, 0), (s, 20)]) {
        let config = Config {
            seed,
            prefill_every,
            ..Config::default()
        };
        let (_, c) = pair(config, Fault::SlowDisk(1500));
        let names: Vec<&str> = c.culprits.iter().map(|x| x.name.as_str()).collect();
        assert_eq!(names[0], "write", "{names:?}");
        assert_eq!(names[1], "Scheduler.process_batch_result", "{names:?}");
    }
}

/// Things that count as the culprit of a fault.
fn names_of(fault: Fault) -> Vec<String> {
    let names: &[&str] = match fault {
        Fault::FrequencyCap(_) => &["gpu_frequency", "gpu_sm_frequency"],
        Fault::MemorySqueeze => &[
            "gpu_mem_used",
            "cudaMalloc",
            "Memcpy DtoH (Device -> Pinned)",
        ],
        Fault::LinkContention(_) => &["gpu_link_transmit", "gpu_link_receive", COLLECTIVE],
        Fault::CollectorPause => &["gc.collect"],
        Fault::SlowDisk(_) => &["write"],
        Fault::SlowPython(_) => &["Sampler.forward"],
        Fault::SlowKernel(name, _) => return vec![name.to_owned()],
        Fault::SlowRank(rank, _) => return vec![format!("rank {rank}")],
        _ => &[],
    };
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn planted_faults_are_found() {
    let (mut cases, mut first, mut among) = (0, 0, 0);
    let mut missed = Vec::new();
    for seed in 1..5 {
        for (fault, ranks) in [
            (Fault::FrequencyCap(70), 1),
            (Fault::FrequencyCap(50), 2),
            (Fault::MemorySqueeze, 1),
            (Fault::LinkContention(300), 2),
            (Fault::SlowRank(1, 140), 4),
            (Fault::CollectorPause, 1),
            (Fault::SlowDisk(1500), 1),
            (Fault::SlowPython(200), 1),
            (Fault::SlowKernel(KERNELS[1].0, 130), 1),
            (Fault::SlowKernel(KERNELS[1].0, 130), 2),
        ] {
            let config = Config {
                seed,
                ranks,
                iterations: 30,
                layers: 4,
                ..Config::default()
            };
            let (_, c) = pair(config, fault);
            let names = names_of(fault);
            let place = c.culprits.iter().position(|x| names.contains(&x.name));
            cases += 1;
            first += usize::from(place == Some(0));
            among += usize::from(place.is_some_and(|p| p < 3));
            if place != Some(0) {
                let top: Vec<&str> = c.culprits.iter().take(3).map(|x| x.name.as_str()).collect();
                missed.push(format!("{fault:?} seed {seed}: {place:?} {top:?}"));
            }
        }
    }
    assert!(among * 10 >= cases * 9, "{among} of {cases}: {missed:#?}");
    assert!(first * 4 >= cases * 3, "{first} of {cases}: {missed:#?}");
}

/// Marked batches of these sizes that take what the law of decode says, on one device.
fn batches(sizes: impl Iterator<Item = i64>) -> trace_model::Trace {
    let (mut events, mut ts) = (Vec::new(), 1_000_000_i64);
    for (i, size) in sizes.enumerate() {
        let dur = 8000 + 200 * size;
        let name = format!("execute_context_0(0)_generation_{size}({size})");
        events.push(format!(
            r#"{{"name":"{name}","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{ts},"dur":{dur}}},
            {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{ts},"dur":5,"args":{{"correlation":{0}}}}},
            {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{1},"dur":{2},"args":{{"correlation":{0},"device":0}}}}"#,
            i + 1,
            ts + 10,
            dur - 20,
        ));
        ts += dur + 50;
    }
    let json = format!("[{}]", events.join(","));
    let source = byte_source::Source::from_bytes("batches.json", json.into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

#[test]
fn more_work_is_no_slower_software() {
    let normal = batches((0..60).map(|i| 1 + i * 7 % 64));
    for (sizes, want) in [
        (40, compare::Normalisation::Scaled),
        (400, compare::Normalisation::Outside),
    ] {
        let abnormal = batches((0..60).map(|i| sizes + i * 5 % 24));
        let pair = compare::analyse_pair(&normal, &abnormal, &Options::default()).unwrap();
        let found = compare::compare(&pair, &compare::Options::default());
        assert_eq!(found.phases[0].normalisation, want);
        assert!(found.culprits.is_empty(), "{:?}", found.culprits);
    }
}
