//! Starts an engine and collects data while it runs.

mod channel;
mod clock;
mod command;
mod found;
mod machine;
mod mapped;
mod marks;
mod observe;
mod options;
mod processes;
mod record;
mod result;
mod sensors;
mod stop;
mod watch;

use self::result::OBSERVED_TOUCHES;
pub(crate) use machine::free_bytes;
pub use observe::next_folder;
pub use options::{RunOptions, Sampling};
pub use result::{FIRST_TOUCHES, RunResult};
pub use stop::Stop;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use byte_source::OpenOptions;
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{AddressRange, InputOptions, Names, Phases, RowStream};
use serde_json::{Map, Value, json};

use self::clock::epoch_offset_ns;
use self::command::{choose, engine_command, input_of, is_profiler, wrapped};
use self::found::FoundPhases;
use self::mapped::{mapped, shifted};
use self::observe::{Observed, prepare};
use self::record::{TokenCounts, prompt_outputs};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::export::RunExporter;
use crate::manifest::{write_json, write_manifest};
use crate::pipeline::Steps;

/// File with the prompt and the output of an engine.
pub const PROMPTS_FILE: &str = "prompt_outputs.json";
/// Minimum free space before a collection, in bytes.
const NEEDED_BYTES: u64 = 1 << 30;

/// Runs a command under a collector and creates its run folder.
///
/// # Errors
///
/// [`Error::NoCollector`], [`Error::DiskFull`], [`Error::Start`], and errors of reading and
/// writing.
pub fn run_command(command: &[String], folder: &Path, options: &RunOptions) -> Result<RunResult> {
    let run_id = folder
        .file_name()
        .map_or("run".to_owned(), |name| name.to_string_lossy().into_owned());
    collect(command, folder, &run_id, options, Map::new(), None)
}

/// Runs all runs of an experiment in sequence; no run starts after the stop.
///
/// # Errors
///
/// Same as [`run_command`]; the first run that fails to start ends the experiment.
pub fn run_experiment(experiment: &Experiment, options: &RunOptions) -> Result<Vec<RunResult>> {
    let config = &experiment.config;
    let mut options = options.clone();
    options.configure(config)?;
    experiment
        .plan()
        .iter()
        .take_while(|_| !options.stop.is_asked())
        .map(|run| {
            let (command, prompt) = engine_command(experiment, run)?;
            let mut metadata = Map::new();
            metadata.insert(
                "generation".to_owned(),
                json!({
                    "context_length": run.context_length,
                    "batch_size": run.batch_size,
                    "output_tokens": run.output_tokens,
                    "rep_index": run.rep_index,
                }),
            );
            let model = config.models.get(run.model_index);
            metadata.insert(
                "model".to_owned(),
                model.map_or(Value::Null, |model| json!(model)),
            );
            metadata.insert("experiment".to_owned(), json!(config.experiment));
            collect(
                &command,
                &run.output_dir,
                &run.run_id,
                &options,
                metadata,
                prompt.as_deref(),
            )
        })
        .collect()
}

fn collect(
    command: &[String],
    folder: &Path,
    run_id: &str,
    options: &RunOptions,
    mut metadata: Map<String, Value>,
    prompt: Option<&str>,
) -> Result<RunResult> {
    let (collector, fallback_reason) = choose(options, command)?;
    if let Some(free) = free_bytes(folder)
        && free < NEEDED_BYTES
    {
        return Err(Error::DiskFull {
            folder: folder.display().to_string(),
            free_bytes: free,
            needed_bytes: NEEDED_BYTES,
        });
    }
    let mut patterns = marks::patterns(&options.phase_marks, true)?;
    patterns.extend(marks::patterns(&options.phase_patterns, false)?);
    let raw = prepare(folder)?;
    let words = wrapped(&collector, command, &raw, options);
    let observed = Observed::of(&words, &collector, &raw, &patterns, options);
    if observed.is_err() {
        // If nothing was collected, the folder is free for the next attempt.
        let _ = fs::remove_dir(&raw).and_then(|()| fs::remove_dir(folder));
    }
    let observed = observed?;
    let ranges = mapped(&raw, observed.watched.maps.as_deref(), command, options)?;
    let (boundaries, source) = observed.marks.phases(observed.start_ns, observed.end_ns);
    let mut phases = FoundPhases { boundaries, source };
    let (class, validity_reasons) = observed.describe(folder, options, &mut metadata);
    let tokens = TokenCounts::of_logs(&raw);
    let generation = metadata
        .get_mut("generation")
        .and_then(Value::as_object_mut);
    if let (Some(tokens), Some(generation)) = (tokens, generation) {
        tokens.tell(generation);
    }
    if let Some(prompt) = prompt {
        let document = prompt_outputs(prompt, &raw, tokens, observed.duration_s);
        write_json(&folder.join(PROMPTS_FILE), &document)?;
    }
    let input = input_of(&collector, &raw)?;
    let mut used = record::collected(&collector, &raw, input.as_deref())?;
    let (period, frequency) = match is_profiler(&collector) {
        true => rate_of(&words),
        false => (None, None),
    };
    for (name, value) in [
        ("type", json!(collector)),
        ("fallback_reason", json!(fallback_reason)),
        ("command", json!(words)),
        ("event_strings", json!(events_of(&words))),
        ("sample_period", json!(period)),
        ("sample_frequency", json!(frequency)),
    ] {
        used.insert(name.to_owned(), value);
    }
    metadata.insert("collector".to_owned(), used.into());
    // Marks and mappings use the monotonic clock, like perf's samples; memray uses the wall clock.
    let offset = match collector.as_str() {
        "memray" => epoch_offset_ns(),
        _ => 0,
    };
    phases.shift(offset);
    if let Some(path) = &input
        && phases.boundaries.is_empty()
    {
        phases.infer(path)?;
    }
    phases.write(&raw, observed.marks.ignored(), &mut metadata)?;
    if observed.interrupted {
        metadata.insert("interrupted".to_owned(), true.into());
    }
    let mut exporter = RunExporter::new(folder, run_id, "native-1");
    exporter.metadata = metadata;
    exporter.compression = options.compression;
    exporter.figures.clone_from(&options.figures);
    let ranges = ranges.into_iter().map(|range| shifted(range, offset));
    let exported = export(exporter, input, &phases, ranges.collect(), options)?;
    let (rows, observed_as) = match exported {
        Some((rows, accesses)) if accesses == 0 && rows > 0 => (Some(rows), OBSERVED_TOUCHES),
        Some((rows, _)) if collector == "memray" => (Some(rows), "allocations"),
        Some((rows, _)) => (Some(rows), "loads and stores"),
        None => (None, "nothing"),
    };
    Ok(RunResult {
        run_id: run_id.to_owned(),
        folder: folder.to_owned(),
        collector,
        fallback_reason,
        exit_code: observed.status.code(),
        rows,
        observed: observed_as,
        validity: class.name(),
        validity_reasons,
        phases: phases.source,
        interrupted: observed.interrupted,
    })
}

/// Creates the folder from the collected data. Returns the number of rows and the number of loads
/// and stores among them, `None` if there is no input.
fn export(
    mut exporter: RunExporter,
    input: Option<PathBuf>,
    phases: &FoundPhases,
    ranges: Vec<AddressRange>,
    options: &RunOptions,
) -> Result<Option<(u64, u64)>> {
    let Some(path) = input else {
        write_json(&exporter.folder.join("metadata.json"), &exporter.metadata)?;
        write_manifest(&exporter.folder, &exporter.run_id)?;
        return Ok(None);
    };
    let mut names = Names::new();
    let phases = Phases::new(&phases.boundaries, &mut names)?;
    let mut input = input_options();
    input.run_id.clone_from(&exporter.run_id);
    let stream = RowStream::open_path(&path, &OpenOptions::default(), &input)?.with_phases(phases);
    exporter.input = Some(path);
    let mut analysis = AnalysisOptions::default();
    analysis.min_samples = options.min_samples;
    let steps = Steps {
        label: Some(options.label.clone()),
        infer_kv_blocks: true,
        ranges,
        analyse: Some(analysis),
        ..Steps::default()
    };
    let (processed, _) = exporter.export(stream, names, steps)?;
    let types = processed.analysis.iter().flat_map(|found| &found.types);
    let accesses = types.map(|kind| kind.loads + kind.stores).sum();
    Ok(Some((processed.report.rows, accesses)))
}

/// Returns the options for reading the collectors' files.
fn input_options() -> InputOptions {
    let mut input = InputOptions::default();
    input.threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    input
}

/// Returns the events that the command line of a collector requests.
fn events_of(words: &[String]) -> Vec<&String> {
    // Arguments of the command itself do not count.
    let own = words.iter().take_while(|word| *word != "--");
    let pairs = own.clone().zip(own.skip(1));
    pairs
        .filter(|(option, _)| *option == "-e")
        .map(|(_, event)| event)
        .collect()
}

/// Returns the number of accesses per sample, or of samples a second, that a collector's command asks for.
fn rate_of(words: &[String]) -> (Option<u64>, Option<u64>) {
    let own = || words.iter().take_while(|word| *word != "--");
    let after = |option: &str| {
        let value = own().skip_while(|word| *word != option).nth(1)?;
        value.parse().ok()
    };
    (after("-c"), after("-F"))
}
