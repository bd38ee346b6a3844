//! `trace-info convert`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::output::AtomicFile;
use byte_source::unfinished::Unfinished;
use cli::{OrExit as _, Outcome, Output, Stage};
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
    (".parquet", Target::Parquet),
    (".tables", Target::Parquet),
];

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    cli::refuse_overwrite([&args.trace], [&args.output])?;
    match target(args)? {
        Target::Perfetto => {
            // Created before the trace is read, so that a wrong path fails at once.
            let mut out = match is_stdout(args) {
                true => Output::stdout(),
                false => Output::file(&args.output)?,
            };
            let trace = read(args)?;
            let _stage = Stage::start("write", args.verbosity);
            perfetto_reader::write::write_trace(&trace, &mut out)?;
            out.finish()?;
        }
        Target::Parquet if is_stdout(args) => {
            return Err(cli::usage(
                "--to parquet needs --output FOLDER: a folder is not written to standard output",
            ));
        }
        Target::Parquet => {
            let folder = NewFolder::create(&args.output)?;
            let trace = read(args)?;
            let _stage = Stage::start("write", args.verbosity);
            for table in Table::ALL {
                let path = folder.path().join(format!("{table}.parquet"));
                let mut file = AtomicFile::create(&path)?;
                tables::parquet(&trace, table, &TableOptions::default(), &mut file)
                    .with_context(|| format!("table {table}"))?;
                file.commit()?;
            }
            folder.commit()?;
        }
    }
    Ok(Outcome::Fine)
}

fn is_stdout(args: &ConvertArgs) -> bool {
    args.output.as_os_str() == "-"
}

/// Returns the requested format, else that of the output's name.
fn target(args: &ConvertArgs) -> anyhow::Result<Target> {
    let name = args.output.to_string_lossy().to_ascii_lowercase();
    let by_name = || {
        let found = ENDINGS.iter().find(|(end, _)| name.ends_with(end));
        found.map(|(_, target)| *target)
    };
    args.to.or_else(by_name).ok_or_else(|| {
        let endings: Vec<&str> = ENDINGS.iter().map(|(end, _)| *end).collect();
        cli::usage(format!(
            "no format is known by the name {}: give --to perfetto or --to parquet, or one of the endings {}",
            args.output.display(),
            endings.join(", ")
        ))
    })
}

fn read(args: &ConvertArgs) -> anyhow::Result<Trace> {
    let input = trace_input::read(&args.trace, &args.input, args.verbosity, |options| {
        // Keeps times as recorded.
        options.snap_ns = 0;
    })?;
    Ok(input.trace)
}

/// A folder that is moved to its path only when it is complete.
struct NewFolder {
    temporary: TempDir,
    _unfinished: Unfinished,
    target: PathBuf,
}

impl NewFolder {
    fn create(target: &Path) -> anyhow::Result<Self> {
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

    fn path(&self) -> &Path {
        self.temporary.path()
    }

    fn commit(self) -> anyhow::Result<()> {
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
