//! `trace-info convert`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::output::AtomicFile;
use byte_source::unfinished::Unfinished;
use cli::{InputArgs, OrExit as _, Outcome, Output, Stage, VerbosityArgs};
use perfetto_reader::write;
use tempfile::TempDir;
use trace_model::Trace;
use trace_tables::{Table, TableOptions};

use crate::args::{ConvertArgs, Target};
use crate::tables;

/// Suffixes of output names with their formats.
const ENDINGS: &[(&str, Target)] = &[
    (".pftrace", Target::Perfetto),
    (".perfetto-trace", Target::Perfetto),
    (".perfetto", Target::Perfetto),
    (".json", Target::ChromeJson),
    (".json.gz", Target::ChromeJson),
    (".parquet", Target::Parquet),
    (".tables", Target::Parquet),
];

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let target = target(args.to, &args.output)?;
    let to = Writer::open(&[&args.trace], &args.output, target)?;
    let mut trace = read(&args.trace, &args.copy.input, args.copy.verbosity)?;
    if args.copy.redact {
        trace = trace_convert::redact(&trace)?;
    }
    let _stage = Stage::start("write", args.copy.verbosity);
    to.write(&trace)?;
    Ok(Outcome::Fine)
}

/// A destination, opened before the trace is read, so that a wrong path fails at once.
pub(crate) enum Writer {
    File {
        out: Output,
        target: Target,
        is_gzip: bool,
    },
    Folder(NewFolder),
}

impl Writer {
    pub(crate) fn open(inputs: &[&Path], output: &Path, target: Target) -> anyhow::Result<Self> {
        cli::refuse_overwrite(inputs, [output])?;
        let is_stdout = output.as_os_str() == "-";
        match target {
            Target::Parquet if is_stdout => Err(cli::usage(
                "--to parquet needs --output FOLDER: a folder is not written to standard output",
            )),
            Target::Parquet => Ok(Self::Folder(NewFolder::create(output)?)),
            target => Ok(Self::File {
                out: match is_stdout {
                    true => Output::stdout(),
                    false => Output::file(output)?,
                },
                target,
                is_gzip: output.extension().is_some_and(|end| end == "gz"),
            }),
        }
    }

    pub(crate) fn write(self, trace: &Trace) -> anyhow::Result<()> {
        match self {
            Self::Folder(folder) => {
                for table in Table::ALL {
                    let path = folder.path().join(format!("{table}.parquet"));
                    let mut file = AtomicFile::create(&path)?;
                    tables::parquet(trace, table, &TableOptions::default(), &mut file)
                        .with_context(|| format!("table {table}"))?;
                    file.commit()?;
                }
                folder.commit()
            }
            Self::File {
                mut out,
                target,
                is_gzip,
            } => {
                match (target, is_gzip) {
                    (Target::ChromeJson, true) => {
                        write::write_chrome_json_gz(trace, &mut out)?;
                    }
                    (Target::ChromeJson, false) => {
                        write::write_chrome_json(trace, &mut out)?;
                    }
                    _ => {
                        write::write_trace(trace, &mut out)?;
                    }
                }
                out.finish()
            }
        }
    }
}

/// Returns the requested format, else that of the output's name.
pub(crate) fn target(to: Option<Target>, output: &Path) -> anyhow::Result<Target> {
    let name = output.to_string_lossy().to_ascii_lowercase();
    let by_name = || {
        let found = ENDINGS.iter().find(|(end, _)| name.ends_with(end));
        found.map(|(_, target)| *target)
    };
    to.or_else(by_name).ok_or_else(|| {
        let endings: Vec<&str> = ENDINGS.iter().map(|(end, _)| *end).collect();
        cli::usage(format!(
            "no format is known by the name {}: give --to perfetto, chrome-json or parquet, or one of the endings {}",
            output.display(),
            endings.join(", ")
        ))
    })
}

/// Reads a trace with all that it has, times as recorded.
pub(crate) fn read(
    path: &Path,
    input: &InputArgs,
    verbosity: VerbosityArgs,
) -> anyhow::Result<Trace> {
    let input = trace_input::read(path, input, verbosity, |options| {
        options.snap_ns = 0;
    })?;
    if let Some(nothing) = trace_input::nothing_inside(&input) {
        verbosity.note(nothing);
    }
    Ok(input.trace)
}

/// A folder that is moved to its path only when it is complete.
pub(crate) struct NewFolder {
    temporary: TempDir,
    _unfinished: Unfinished,
    target: PathBuf,
}

impl NewFolder {
    pub(crate) fn create(target: &Path) -> anyhow::Result<Self> {
        let name = target.display();
        // An empty folder may be replaced, in one step.
        let taken = match fs::read_dir(target) {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) => target.symlink_metadata().is_ok(),
        };
        if taken {
            return Err(cli::usage(format!(
                "{name}: exists already: name a folder that does not, or remove it"
            )));
        }
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !parent.is_dir() {
            return Err(anyhow::anyhow!(
                "{name}: no directory `{}`: create it first",
                parent.display()
            ))
            .or_exit(Outcome::OutputFailed);
        }
        let make = || {
            tempfile::Builder::new()
                .prefix(".trace-info.")
                .suffix(".tmp")
                .tempdir_in(parent)
        };
        let (temporary, unfinished) = Unfinished::made(make, TempDir::path)
            .with_context(|| format!("{name}: cannot create the folder"))?;
        Ok(Self {
            temporary,
            _unfinished: unfinished,
            target: target.to_owned(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn commit(self) -> anyhow::Result<()> {
        open_to_others(self.temporary.path())?;
        fs::rename(self.temporary.path(), &self.target).with_context(|| {
            format!("{}: cannot put the folder in place", self.target.display())
        })?;
        // The folder was moved: nothing is left to remove.
        let _ = self.temporary.keep();
        Ok(())
    }
}

/// Sets the mode of a new folder, since temporary folders are private.
#[cfg(unix)]
fn open_to_others(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let probe = folder.join(".mode");
    fs::create_dir(&probe)?;
    let mode = fs::metadata(&probe)?.permissions().mode();
    fs::remove_dir(&probe)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    Ok(())
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> anyhow::Result<()> {
    Ok(())
}
