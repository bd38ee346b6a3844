//! Pairs of recordings of a modelled engine, one side with a planted fault, and the truth.
//!
//! `cargo xtask dataset --faults --output FOLDER [--seeds N]` creates for each fault and seed a
//! folder with `normal/result.json`, `abnormal/result.json` and `truth.json`; also pairs without a
//! fault.

mod model;

use std::path::Path;

use anyhow::{Context as _, Result};

use self::model::{COLLECTIVE, Config, Fault, KERNELS, make};
use crate::dataset::put;
use crate::options::Options;

/// Name of the folder, fault, ranks, and accepted root causes.
type Plan = (&'static str, Fault, usize, &'static [&'static str]);

const PLANS: &[Plan] = &[
    (
        "frequency_cap",
        Fault::FrequencyCap(70),
        1,
        &["gpu_frequency", "gpu_sm_frequency"],
    ),
    (
        "frequency_cap_2_ranks",
        Fault::FrequencyCap(50),
        2,
        &["gpu_frequency", "gpu_sm_frequency"],
    ),
    (
        "memory_squeeze",
        Fault::MemorySqueeze,
        1,
        &[
            "gpu_mem_used",
            "cudaMalloc",
            "Memcpy DtoH (Device -> Pinned)",
        ],
    ),
    (
        "link_contention",
        Fault::LinkContention(300),
        2,
        &["gpu_link_transmit", "gpu_link_receive", COLLECTIVE],
    ),
    ("slow_rank", Fault::SlowRank(1, 140), 4, &["rank 1"]),
    ("collector_pause", Fault::CollectorPause, 1, &["gc.collect"]),
    ("slow_disk", Fault::SlowDisk(1500), 1, &["write"]),
    (
        "slow_python",
        Fault::SlowPython(200),
        1,
        &["Sampler.forward"],
    ),
    (
        "slow_kernel",
        Fault::SlowKernel(KERNELS[1].0, 130),
        1,
        &[KERNELS[1].0],
    ),
    (
        "new_kernel",
        Fault::NewKernel(60),
        1,
        &["void debug_copy_kernel<float>(float*)"],
    ),
    ("intermittent", Fault::Intermittent, 1, &["Sampler.forward"]),
    ("none", Fault::None, 1, &[]),
    ("none_2_ranks", Fault::None, 2, &[]),
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

pub(super) fn run(options: &Options) -> Result<()> {
    let folder = options
        .value("output")
        .context("--faults needs --output FOLDER")?;
    let seeds: u64 = options
        .value("seeds")
        .unwrap_or("3")
        .parse()
        .context("--seeds needs a number")?;
    let mut events = 0;
    for (name, fault, ranks, culprits) in PLANS {
        for seed in 1..=seeds {
            let case = Path::new(folder).join(name).join(format!("seed{seed}"));
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
            events += normal.events + abnormal.events;
            put(&case.join("normal/result.json"), normal.json.as_bytes())?;
            put(&case.join("abnormal/result.json"), abnormal.json.as_bytes())?;
            put(
                &case.join("truth.json"),
                truth(name, culprits, &abnormal).as_bytes(),
            )?;
        }
    }
    let pairs = PLANS.len() as u64 * seeds;
    println!("{pairs} pairs of {events} events in {folder}");
    Ok(())
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
