//! Generates a simulated job, rank by rank.

mod calls;
mod describe;
mod device;

use std::path::{Path, PathBuf};

use rusqlite::types::Value;

use crate::database::{Database, Error};
use crate::random::Random;
use crate::shape::Shape;
use crate::truth::Truth;

/// A database and the truth about it.
#[derive(Debug, Clone)]
pub struct Made {
    /// The file.
    pub path: PathBuf,
    /// The truth about it.
    pub truth: Truth,
}

/// Writes one database for each rank into a folder.
///
/// # Errors
///
/// Returns an error if files cannot be written.
pub fn generate(folder: &Path, shape: &Shape) -> Result<Vec<Made>, Error> {
    std::fs::create_dir_all(folder)?;
    (0..shape.ranks)
        .map(|rank| one(folder, shape, rank))
        .collect()
}

const KERNELS: [(&str, &str, i64); 7] = [
    (
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_SE_K1.kd",
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_SE_K1",
        90_000,
    ),
    (
        "_ZN2ck11kernel_gemmIfLi256ELb1EEEvNS_4ArgsE.kd",
        "void ck::kernel_gemm<float, 256, true>(ck::Args)",
        60_000,
    ),
    (
        "_Z12flash_attn_fPKfS0_Pfi.kd",
        "flash_attn_f(float const*, float const*, float*, int)",
        42_000,
    ),
    (
        "_Z14rmsnorm_kernelIfEvPT_S1_.kd",
        "void rmsnorm_kernel<float>(float*, float*)",
        5_000,
    ),
    (
        "_Z15silu_mul_kernelPfS_.kd",
        "silu_mul_kernel(float*, float*)",
        4_900,
    ),
    (
        "zeilen\numbruch.kd",
        "odd \"name\", with\nnewline, comma and \u{fc}ml\u{e4}ut",
        1_500,
    ),
    ("_Z8one_shotv.kd", "one_shot()", 900),
];

const COPIES: [&str; 3] = [
    "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
];

const COUNTERS: [&str; 2] = ["SQ_WAVES", "GRBM_GUI_ACTIVE"];

/// One rank under construction.
struct Rank<'a> {
    shape: &'a Shape,
    db: Database,
    random: Random,
    truth: Truth,
    nid: i64,
    pid: i64,
    stack_id: i64,
    dispatch_id: i64,
    /// Current time of the host's clock.
    now: i64,
    /// Time from which each stream is free.
    free: Vec<i64>,
    /// Addresses in use and their sizes.
    live: Vec<(i64, i64)>,
    live_bytes: i64,
    tracks: Vec<Option<i64>>,
}

fn int(value: i64) -> Value {
    Value::Integer(value)
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn one(folder: &Path, shape: &Shape, rank: u32) -> Result<Made, Error> {
    let node = i64::from(rank % shape.nodes.max(1));
    let number = i64::from(rank);
    let mut random = Random(
        shape
            .seed
            .wrapping_mul(0x1000_0001)
            .wrapping_add(u64::from(rank)),
    );
    let word = random.next();
    let guid = format!(
        "{:08x}-{:04x}-7{:03x}-8{:03x}-{:012x}",
        word >> 32,
        word >> 16 & 0xffff,
        word & 0xfff,
        random.next() & 0xfff,
        random.next() & 0xffff_ffff_ffff
    );
    let suffix = match shape.without_suffix {
        true => String::new(),
        false => format!("_{}", guid.replace('-', "_")),
    };
    let pid = if shape.equal_pids {
        4000
    } else {
        4000 + number
    };
    let hostname = format!("host-{node}");
    let path = folder.join(format!("{hostname}_{pid}_{rank}_results.db"));
    let mut db = Database::create(&path, &guid, &suffix, shape.generation)?;
    let nid = 1_000_003 + node;
    let clock = shape.time_offset_ns + node * shape.clock_skew_ns;
    let begin = 1_700_000_000_000_000 + clock + number * 1_000;
    let version = match shape.generation {
        0 => "3".to_owned(),
        n => format!("3.0.{n}"),
    };
    for (tag, value) in [
        ("schema_version", version),
        ("uuid", suffix),
        ("guid", guid.clone()),
    ] {
        db.add("metadata", "tag, value", [text(tag), text(value)])?;
    }
    db.add_with_id(
        "info_node",
        "hash, machine_id, system_name, hostname, release, version",
        nid,
        [
            int(nid * 77),
            text(format!("machine-{node}")),
            text("Linux"),
            text(hostname.clone()),
            text("6.8.0"),
            text("#1 SMP"),
        ],
    )?;
    db.add_with_id(
        "info_process",
        "nid, ppid, pid, init, fini, start, \"end\", command, environment",
        pid,
        [
            int(nid),
            int(pid - 1),
            int(pid),
            int(begin),
            int(begin + 60_000_000_000),
            int(begin),
            Value::Null,
            text(format!("/opt/bin/serve --rank {rank}")),
            text(format!("{{\"OMPI_COMM_WORLD_RANK\": \"{rank}\"}}")),
        ],
    )?;
    let truth = Truth {
        guid,
        pid,
        hostname,
        bounds_ns: (i64::MAX, i64::MIN),
        ..Truth::default()
    };
    let streams = shape.streams as usize + 1;
    let mut this = Rank {
        shape,
        db,
        random,
        truth,
        nid,
        pid,
        stack_id: 0,
        dispatch_id: 0,
        now: begin + 1_000_000,
        free: vec![0; streams],
        live: Vec::new(),
        live_bytes: 0,
        tracks: vec![None; shape.threads as usize],
    };
    this.describe()?;
    for step in 0..shape.steps {
        this.step(step)?;
        if shape.kfd {
            this.kfd(step)?;
        }
    }
    if shape.orphans {
        this.orphans()?;
    }
    this.truth.live_bytes_end = this.live_bytes;
    this.db.finish()?;
    Ok(Made {
        path,
        truth: this.truth,
    })
}
