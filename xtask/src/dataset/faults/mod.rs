//! Pairs of recordings of a modelled engine, one side with a planted fault, and the truth: a base of [`crate::inject`].

mod model;

use std::path::Path;

use anyhow::Result;

use self::model::{COLLECTIVE, Config, Fault, KERNELS, make};
use crate::dataset::put;
use crate::inject;

/// Kind, fault, ranks, accepted root causes, accepted causes of the verdict.
type Plan = (
    &'static str,
    Fault,
    usize,
    &'static [&'static str],
    &'static [&'static str],
);

const PLANS: &[Plan] = &[
    (
        "frequency_cap",
        Fault::FrequencyCap(70),
        1,
        &["clock", "gpu_frequency", "gpu_sm_frequency"],
        &["gpu_frequency"],
    ),
    (
        "frequency_cap_2_ranks",
        Fault::FrequencyCap(50),
        2,
        &["clock", "gpu_frequency", "gpu_sm_frequency"],
        &["gpu_frequency"],
    ),
    (
        "memory_squeeze",
        Fault::MemorySqueeze,
        1,
        &[
            "emory",
            "gpu_mem_used",
            "cudaMalloc",
            "Memcpy DtoH (Device -> Pinned)",
        ],
        &["memory_pressure"],
    ),
    (
        "link_contention",
        Fault::LinkContention(300),
        2,
        &["ink", "ollective", COLLECTIVE],
        &["nvlink_contention"],
    ),
    (
        "slow_rank",
        Fault::SlowRank(1, 140),
        4,
        &["rank 1", "GPU 1"],
        &["collective_straggler"],
    ),
    (
        "collector_pause",
        Fault::CollectorPause,
        1,
        &["gc.collect"],
        &["pauses", "host_code"],
    ),
    (
        "slow_disk",
        Fault::SlowDisk(1500),
        1,
        &["write", "rites"],
        &["disk_contention"],
    ),
    (
        "slow_python",
        Fault::SlowPython(200),
        1,
        &["Sampler.forward"],
        &["host_code"],
    ),
    (
        "slow_kernel",
        Fault::SlowKernel(KERNELS[1].0, 130),
        1,
        &[KERNELS[1].0, "paged_attention"],
        &["gpu_kernel"],
    ),
    (
        "new_kernel",
        Fault::NewKernel(60),
        1,
        &["debug_copy_kernel"],
        &["gpu_kernel"],
    ),
    (
        "intermittent",
        Fault::Intermittent,
        1,
        &["Sampler.forward"],
        &["pauses", "host_code"],
    ),
    ("null_model", Fault::None, 1, &[], &["none"]),
    ("null_model_2_ranks", Fault::None, 2, &[], &["none"]),
];

/// Two recordings of one engine, and their difference.
pub(super) struct Pair {
    pub(super) normal: String,
    pub(super) abnormal: String,
    pub(super) truth: String,
}

/// Returns a small pair whose second side has a slower function on the host.
pub(super) fn sampler_pair(seed: u64) -> Pair {
    let config = Config {
        seed,
        iterations: 24,
        layers: 4,
        ..Config::default()
    };
    let normal = make(config);
    let abnormal = make(Config {
        seed: seed + 1000,
        fault: Fault::SlowPython(200),
        ..config
    });
    Pair {
        normal: normal.json,
        truth: truth("slow_python", &["Sampler.forward"], &abnormal),
        abnormal: abnormal.json,
    }
}

/// Writes the pairs of a seed as cases of the base `model`; returns how many.
pub(crate) fn write(folder: &Path, seed: u64, only: Option<&str>) -> Result<usize> {
    let mut cases = 0;
    for (at, (name, fault, ranks, culprits, causes)) in PLANS.iter().enumerate() {
        let place = format!("{name}/model-1-{seed}");
        if only.is_some_and(|only| !place.contains(only)) {
            continue;
        }
        let case = folder.join(&place);
        let config = Config {
            seed,
            ranks: *ranks,
            prefill_every: 20,
            ..Config::default()
        };
        let normal = make(config);
        let abnormal = make(Config {
            seed: seed + 1000,
            fault: *fault,
            ..config
        });
        put(&case.join("normal/result.json"), normal.json.as_bytes())?;
        put(&case.join("abnormal/result.json"), abnormal.json.as_bytes())?;
        let known: Vec<String> = culprits.iter().map(|c| (*c).to_owned()).collect();
        let mean = [&normal, &abnormal].map(|made| mean_step_us(&made.iterations));
        let truth = inject::truth(
            &inject::Truth {
                kind: name,
                base: "model",
                size: 0.0,
                half: at % 2,
                causes,
            },
            &known,
            mean,
        );
        put(&case.join("truth.json"), truth.as_bytes())?;
        cases += 1;
    }
    Ok(cases)
}

fn mean_step_us(steps: &[model::Iteration]) -> f64 {
    let ends = steps.first().zip(steps.last());
    let span = ends.map_or(0, |(first, last)| last.start - first.start);
    span as f64 / 1000.0 / (steps.len().max(2) - 1) as f64
}

fn truth(name: &str, culprits: &[&str], abnormal: &model::Made) -> String {
    let names: Vec<String> = culprits.iter().map(|c| format!("{c:?}")).collect();
    let cycles: Vec<String> = abnormal
        .iterations
        .iter()
        .map(|i| {
            format!(
                "{{\"start_ns\":{},\"end_ns\":{},\"phase\":\"{}\",\"faulty\":{},\"correlations\":[{},{}]}}",
                i.start,
                i.end,
                if i.prefill { "prefill" } else { "decode" },
                i.faulty,
                i.correlations.0,
                i.correlations.1
            )
        })
        .collect();
    format!(
        "{{\"fault\":\"{name}\",\"culprits\":[{}],\"abnormal_cycles\":[\n{}\n]}}\n",
        names.join(","),
        cycles.join(",\n")
    )
}
