//! Generated jobs, summarised and reduced.

#![allow(dead_code, reason = "each test file uses a part")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use byte_source::{OpenOptions, Source};
use fleet::store::{Recordings, Store, read, stored, summarise_all};
use fleet::{Finding, Kind, Racks, reduce, summary};
use perfetto_reader::{ArgPolicy, ReadOptions};
use serving_synth::fleet as synth;
use trace_dataset::Input;
use trace_model::Trace;

/// Reads recordings, and counts them.
pub(crate) struct Files<'f> {
    pub(crate) inputs: &'f [Input],
    pub(crate) read: AtomicUsize,
}

impl Recordings for Files<'_> {
    fn open(&self, place: usize) -> Result<(String, Trace), String> {
        self.read.fetch_add(1, Ordering::Relaxed);
        let name = &self.inputs[place].name;
        let mut options = ReadOptions::default();
        options.args = ArgPolicy::Only(summary::arg_keys());
        options.threads = 1;
        options.strict = false;
        let source = Source::open(Path::new(name), &OpenOptions::default());
        let source = source.map_err(|error| error.to_string())?;
        let trace = perfetto_reader::read(source, &options);
        Ok((name.clone(), trace.map_err(|error| error.to_string())?))
    }
}

/// Writes a job, without the ranks in `missing`.
pub(crate) fn write(job: &synth::Fleet, folder: &Path, missing: &[u32]) -> Vec<Input> {
    let line = job.timeline();
    let mut inputs = Vec::new();
    for rank in (0..job.ranks).filter(|rank| !missing.contains(rank)) {
        let path = folder.join(synth::Fleet::name(rank));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, line.rank(rank)).unwrap();
        inputs.push(input(&path));
    }
    inputs
}

pub(crate) fn input(path: &Path) -> Input {
    Input {
        name: path.display().to_string(),
        path: Some(path.to_owned()),
        tag: None,
    }
}

/// Summarises and reduces; returns the number of recordings that were read as well.
pub(crate) fn run(inputs: &[Input], folder: &Path, threads: usize) -> (fleet::Fleet, usize) {
    run_in(inputs, folder, threads, &Racks::default())
}

pub(crate) fn run_in(
    inputs: &[Input],
    folder: &Path,
    threads: usize,
    racks: &Racks,
) -> (fleet::Fleet, usize) {
    let files = Files {
        inputs,
        read: AtomicUsize::new(0),
    };
    let store = Store {
        folder,
        tool_version: "0",
        rules: None,
        threads,
    };
    summarise_all(inputs, &files, store).unwrap();
    let there = stored(folder).unwrap();
    for (_, path) in &there.summaries {
        let bytes = fs::metadata(path).unwrap().len();
        assert!(bytes <= summary::MAX_BYTES as u64, "{bytes} bytes");
    }
    let summaries = there.summaries.iter().map(|(file, path)| read(file, path));
    let found = reduce(summaries, there.failures, racks).unwrap();
    (found, files.read.into_inner())
}

/// Runs a job and returns the findings by kind.
pub(crate) fn findings(job: &synth::Fleet) -> (fleet::Fleet, BTreeMap<Kind, Vec<Finding>>) {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write(job, folder.path(), &[]);
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    let by_kind = by_kind(&found);
    (found, by_kind)
}

pub(crate) fn by_kind(found: &fleet::Fleet) -> BTreeMap<Kind, Vec<Finding>> {
    let mut by_kind: BTreeMap<Kind, Vec<Finding>> = BTreeMap::new();
    for finding in &found.findings {
        by_kind
            .entry(finding.kind)
            .or_default()
            .push(finding.clone());
    }
    by_kind
}

pub(crate) fn titles(found: &fleet::Fleet) -> Vec<&str> {
    found.findings.iter().map(|f| f.title.as_str()).collect()
}
