//! Files to measure: generated ones, and copies of a published recording if available.

use crate::dataset::large;
use crate::workspace::root;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// A file and its query.
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// Kernel whose stacks are queried.
    pub(super) kernel: String,
    /// Goals for wall time and memory with all cores, and with one.
    pub(super) goal: &'static str,
    pub(super) goal_one_core: &'static str,
    pub(super) gzip: bool,
    pub(super) json: bool,
}

/// A recording and its most launched kernel.
pub(super) const RECORDING: (&str, &str) = (
    "perfetto/traces/sglang_Qwen3-8B_prefilldecode.json.gz",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
);
const GENERIC: &str = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)";
const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// With all cores, with one.
type Goals = [&'static str; 2];
const JSON: Goals = ["0.6 s, 1.1 CPU s, 400 MB", ""];
const GZIP: Goals = ["inflating + 10 %", ""];
const PROTOBUF: Goals = ["2.5 s, 600 MB", ""];
const SMALL: Goals = ["0.1 s", ""];

impl Input {
    fn new(path: PathBuf, kernel: &str, [goal, goal_one_core]: Goals) -> Self {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let (gzip, json) = (name.ends_with(".gz"), name.contains(".json"));
        Self {
            path,
            kernel: kernel.to_owned(),
            goal,
            goal_one_core,
            gzip,
            json,
        }
    }
}

/// Returns the files given on the command line.
pub(super) fn given(files: &[&str], kernel: Option<&str>) -> Result<Vec<Input>> {
    let input = |file: &&str| {
        let path = Path::new(file)
            .canonicalize()
            .with_context(|| format!("no file {file}"))?;
        Ok(Input::new(path, kernel.unwrap_or(ALL_REDUCE), ["", ""]))
    };
    files.iter().map(input).collect()
}

/// Returns the folder of published recordings, which may be absent.
pub(super) fn shared_data() -> PathBuf {
    std::env::var_os("INFERSCOPE_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

/// Returns the standard files, generated under `target/bench-data` if missing.
pub(super) fn standard() -> Result<Vec<Input>> {
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder)?;
    let mut inputs = Vec::new();
    let recording = shared_data().join(RECORDING.0);
    if recording.is_file() {
        for (name, goal) in [
            ("sglang-33-copies.json", JSON),
            ("sglang-33-copies.json.gz", GZIP),
        ] {
            let path = folder.join(name);
            make(&path, |path| large::copies(&recording, 33, path))?;
            inputs.push(Input::new(path, RECORDING.1, goal));
        }
    } else {
        eprintln!(
            "bench: {} is absent (set INFERSCOPE_DATA); only generated traces are measured",
            recording.display()
        );
    }
    for (name, format, events, kernel, goal) in [
        ("kineto-2M.json", "kineto", 2_000_000, GENERIC, JSON),
        ("kineto-2M.json.gz", "kineto", 2_000_000, GENERIC, GZIP),
        (
            "perfetto-10M.pftrace",
            "perfetto",
            10_350_000,
            ALL_REDUCE,
            PROTOBUF,
        ),
    ] {
        let path = folder.join(name);
        make(&path, |path| {
            large::generate(format, events, 0, name.ends_with(".gz"), path)
        })?;
        inputs.push(Input::new(path, kernel, goal));
    }
    inputs.push(Input::new(
        root().join("testdata/demo/demo-rank0.json.gz"),
        ALL_REDUCE,
        SMALL,
    ));
    Ok(inputs)
}

/// Writes a file under a temporary name first, so that an interrupted run leaves no seemingly
/// complete file.
pub(super) fn make<T>(path: &Path, write: impl FnOnce(&Path) -> Result<T>) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    println!("making {name}");
    let part = path.with_file_name(format!("part-{name}"));
    write(&part)?;
    Ok(std::fs::rename(part, path)?)
}
