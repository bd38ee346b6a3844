//! Reads the tables of serving probes: recordings as tables, and the topology of the machine.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::{OpenOptions, Source};
use cli::VerbosityArgs;
use rca_cycles::Topology;
use trace_input::NamedTrace;
use trace_model::{Trace, ranks};

/// A recording as two tables.
pub(crate) struct Pair {
    pub(crate) name: String,
    events: PathBuf,
    counters: PathBuf,
}

impl Pair {
    pub(crate) fn read(&self, verbosity: VerbosityArgs) -> anyhow::Result<NamedTrace> {
        let recording = serving_logs::events(&text(&self.events)?, &text(&self.counters)?)?;
        if recording.skipped > 0 {
            verbosity.note(format!(
                "warning: {}: {} rows could not be read",
                self.name, recording.skipped
            ));
        }
        let name = self.events.display().to_string();
        Ok(NamedTrace::new(name, recording.trace))
    }
}

/// Returns the text of a file, compressed or not.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let source = Source::open(path, &OpenOptions::default())?;
    source
        .into_read()?
        .read_to_string(&mut text)
        .with_context(|| path.display().to_string())?;
    Ok(text)
}

/// Reads the log of an engine.
pub(crate) fn serving(path: &Path) -> anyhow::Result<serving_logs::Serving> {
    Ok(serving_logs::serving(&text(path)?))
}

/// Returns every `micro_event.csv` with its `macro_counter.csv`, named after their folder.
pub(crate) fn pairs(given: &[PathBuf], verbosity: VerbosityArgs) -> anyhow::Result<Vec<Pair>> {
    let mut found = Vec::new();
    for path in given {
        search(path, verbosity, &mut found)?;
    }
    if found.is_empty() {
        return Err(cli::usage(
            "no specified trace files: no micro_event.csv with a macro_counter.csv",
        ));
    }
    Ok(found)
}

fn search(path: &Path, verbosity: VerbosityArgs, found: &mut Vec<Pair>) -> anyhow::Result<()> {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)?
            .filter_map(|e| e.ok().map(|e| e.path()))
            .collect();
        entries.sort();
        for entry in entries {
            search(&entry, verbosity, found)?;
        }
        return Ok(());
    }
    let is_events = path.file_name().is_some_and(|n| n == "micro_event.csv");
    if !is_events {
        return Ok(());
    }
    let counters = path.with_file_name("macro_counter.csv");
    if !counters.is_file() {
        verbosity.note(format!(
            "warning: {}: skipped, there is no macro_counter.csv beside it",
            path.display()
        ));
        return Ok(());
    }
    let folder = path.parent().and_then(Path::file_name);
    found.push(Pair {
        name: folder.unwrap_or_default().to_string_lossy().into_owned(),
        events: path.to_owned(),
        counters,
    });
    Ok(())
}

/// Notes that the name of a file contains another rank than the file states, or one that its job does not have.
pub(crate) fn note_rank(path: &str, trace: &Trace, verbosity: VerbosityArgs) {
    let file = ranks::Recording::new(path, trace.meta());
    if let Some(doubt) = ranks::misnamed(&file) {
        verbosity.note(format!("warning: {doubt}"));
    }
}

/// Returns the topology next to a trace, if there is a readable one.
pub(crate) fn topology(trace: &str, verbosity: VerbosityArgs) -> Option<Topology> {
    let path = Path::new(trace).with_file_name("topo_component.csv");
    if !path.is_file() {
        return None;
    }
    let read = text(&path).and_then(|t| Ok(serving_logs::topology(&t)?));
    let parts = match read {
        Ok(parts) => parts.components,
        Err(error) => {
            verbosity.note(format!("warning: {}: {error:#}", path.display()));
            return None;
        }
    };
    Some(rca_report::capacity(parts))
}
