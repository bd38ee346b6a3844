//! The traces of the command line.

use std::path::Path;

use byte_source::Source;
use launch_report::Input;
use perfetto_reader::{ArgPolicy, ReadOptions};
use sha2::{Digest as _, Sha256};
use trace_input::{NamedTrace, expand_ranks, ranks, read};
use trace_model::{Rank, Trace};

use crate::args::{Cli, Format};

/// The traces of the command line.
pub(crate) struct Inputs {
    /// The traces that could be read, by rank.
    pub(crate) inputs: Vec<Input>,
    /// Evidence against them being the ranks of one job.
    pub(crate) doubts: Vec<String>,
    /// The error to end with, if a trace could not be read.
    pub(crate) failed: Option<anyhow::Error>,
}

/// Reads all traces of the command line and assigns each its rank, by which they are sorted. With
/// several traces, one that cannot be read is reported and left out.
pub(crate) fn traces(cli: &Cli) -> anyhow::Result<Inputs> {
    let mut paths = expand_ranks(&cli.traces, cli.verbosity)?;
    let mut unreadable = Vec::new();
    let mut traces = Vec::with_capacity(paths.len());
    let mut digests = Vec::with_capacity(paths.len());
    for path in &paths {
        let digest = || (cli.format.format() == Format::Json).then(|| sha256(path, cli));
        let read = std::thread::scope(|s| {
            let hashing = s.spawn(digest);
            let trace = load(cli, path)?;
            anyhow::Ok((trace, hashing.join().ok().flatten().flatten()))
        });
        match read {
            Ok((trace, digest)) => {
                traces.push(trace);
                digests.push(digest);
            }
            Err(error) if paths.len() == 1 || cli.compat || cli.report.diff => return Err(error),
            Err(error) => {
                cli::complain(&error);
                unreadable.push(path.clone());
            }
        }
    }
    let failed = unreadable.last().map(|path| {
        anyhow::anyhow!(
            "not all traces could be read, the last one was {}",
            path.display()
        )
    });
    if traces.is_empty()
        && let Some(failed) = failed
    {
        return Err(failed);
    }
    paths.retain(|path| !unreadable.contains(path));
    // A comparison may be of one rank before and after a change.
    let (ranks, doubts) = match cli.report.diff {
        true => match ranks(&traces) {
            Ok(found) => (found.ranks, Vec::new()),
            Err(_) => ((0..).map(Rank).take(traces.len()).collect(), Vec::new()),
        },
        false => {
            let found = ranks(&traces)?;
            (found.ranks, found.doubts)
        }
    };
    for doubt in &doubts {
        cli.verbosity.note(format!("warning: {doubt}"));
    }
    let mut inputs: Vec<Input> = traces
        .into_iter()
        .zip(digests)
        .zip(paths)
        .zip(ranks)
        .map(|(((trace, sha256), path), rank)| Input {
            path: path.display().to_string(),
            sha256,
            rank,
            trace: trace.trace,
        })
        .collect();
    inputs.sort_by_key(|input| input.rank.0);
    Ok(Inputs {
        inputs,
        doubts,
        failed,
    })
}

/// Reads the traces of `--capture`.
pub(crate) fn captures(cli: &Cli) -> anyhow::Result<Vec<(String, Trace)>> {
    expand_ranks(&cli.kernels.capture, cli.verbosity)?
        .iter()
        .map(|path| Ok((path.display().to_string(), load(cli, path)?.trace)))
        .collect()
}

fn load(cli: &Cli, path: &Path) -> anyhow::Result<NamedTrace> {
    cli.verbosity.note(format!("loading {}", path.display()));
    read(
        path,
        &cli.input,
        cli.verbosity,
        |options: &mut ReadOptions| {
            options.compat = cli.compat;
            options.counters = false;
            options.args = if cli.compat {
                ArgPolicy::None
            } else {
                let keys = launch_stacks::arg_keys().into_iter();
                ArgPolicy::Only(keys.map(str::to_owned).collect())
            };
        },
    )
}

/// Returns `None` for pipes and other inputs that cannot be read twice.
fn sha256(path: &Path, cli: &Cli) -> Option<String> {
    // An existing path that is not a file is a pipe; a missing one may be a member of an archive.
    if path.as_os_str() == "-" || path.metadata().is_ok_and(|path| !path.is_file()) {
        return None;
    }
    let path = trace_input::file_of(path);
    if let Some(hash) = byte_source::remote::hash(path) {
        return Some(hash);
    }
    let source = Source::open_as_is(path, &cli.input.open_options(None)).ok()?;
    let mut bytes = source.into_read().ok()?;
    let mut hash = Sha256::new();
    std::io::copy(&mut bytes, &mut hash).ok()?;
    Some(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
