//! Opens the recordings of a query.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cli::in_process::Call;
use cli::{InputArgs, VerbosityArgs};
use perfetto_reader::ArgPolicy;
use table_input::Tables;
use trace_input::ClassesArgs;
use trace_sql::{Inputs, Wanted};
use trace_tables::catalogue::ArgKeys;
use trace_tables::scan::runs_of;
use trace_tables::{Beside, Recording};

use crate::args::SqlCli;

/// The files of the command line.
#[derive(Debug)]
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    names: Vec<String>,
    /// Options of the reader, with the threads of one file.
    input: InputArgs,
    compat: bool,
    classes: ClassesArgs,
    /// Run of each file.
    runs: Vec<Option<String>>,
    /// Numbers after `tp` in the names are sizes of jobs, not ranks.
    sizes_in_names: bool,
    /// Tables beside those of the recordings.
    tables: Tables,
    /// What is wrong with the files that were read, by file.
    warnings: Mutex<BTreeMap<usize, Vec<String>>>,
    /// The run that threads of the engine read for, within another program.
    call: Option<Call>,
}

impl Files {
    /// Opens recordings, which are what the paths of `tables` expand to.
    pub(crate) fn new(paths: Vec<PathBuf>, tables: Tables, args: &SqlCli) -> Self {
        let (_, input) = args.input.shared_by(paths.len());
        let names = paths.iter().map(|path| path.display().to_string());
        let names: Vec<String> = names.collect();
        Self {
            runs: runs_of(&names),
            sizes_in_names: trace_input::names_have_sizes(&names),
            names,
            tables: tables
                .with_recordings(paths.clone())
                .with_classes(args.classes.clone()),
            warnings: Mutex::default(),
            paths,
            input,
            compat: args.compat,
            classes: args.classes.clone(),
            call: cli::in_process::current(),
        }
    }

    fn opening(&self, file: usize) -> Option<Opening<'_>> {
        Some(Opening {
            file,
            path: self.paths.get(file)?,
            name: self.names.get(file)?,
            run: self.runs.get(file)?.as_deref(),
            sizes_in_names: self.sizes_in_names,
        })
    }

    /// Returns what was wrong with the files that were read since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let of_files = std::mem::take(&mut *warnings).into_values().flatten();
        of_files.chain(self.tables.take_notes()).collect()
    }

    /// Returns the files that are not there, each with one sentence. A query that reads no file does not miss them.
    pub(crate) fn missing(&self) -> Vec<String> {
        let is_missing = |path: &PathBuf| {
            let name = path.to_string_lossy();
            name != "-" && !name.contains('!') && !byte_source::remote::exists(path)
        };
        let missing = self.paths.iter().filter(|path| is_missing(path));
        missing
            .map(|path| format!("{}: no such file", path.display()))
            .collect()
    }
}

impl Inputs for Files {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn beside(&self) -> &dyn Beside {
        &self.tables
    }

    fn open(&self, file: usize, wanted: &Wanted) -> Result<Recording, String> {
        let Some(opening) = self.opening(file) else {
            return Err(format!("no file {file}"));
        };
        let how = (self.compat, &self.classes);
        let open = || open(&opening, &self.input, how, wanted);
        let (recording, found) = match &self.call {
            Some(call) => call.within(open),
            None => open(),
        }?;
        if !found.is_empty() {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.insert(file, found);
        }
        Ok(recording)
    }

    #[cfg(feature = "cluster")]
    fn recipe_options(&self) -> Option<String> {
        Some(crate::cluster::options(&self.input, self.compat))
    }

    #[cfg(feature = "cluster")]
    fn recipe(&self, file: usize) -> Option<String> {
        crate::cluster::recipe(&self.opening(file)?)
    }
}

/// A file to be opened.
pub(crate) struct Opening<'f> {
    /// Its place among the files of the query.
    pub(crate) file: usize,
    pub(crate) path: &'f Path,
    pub(crate) name: &'f str,
    pub(crate) run: Option<&'f str>,
    /// Numbers after `tp` in the names of all files are sizes of jobs, not ranks.
    pub(crate) sizes_in_names: bool,
}

/// Opens a file with at least what is wanted. Also returns what is missing of it, a sentence each.
pub(crate) fn open(
    opening: &Opening<'_>,
    input: &InputArgs,
    (compat, classes): (bool, &ClassesArgs),
    wanted: &Wanted,
) -> Result<(Recording, Vec<String>), String> {
    let quiet = VerbosityArgs {
        quiet: true,
        verbose: false,
    };
    let (path, name) = (opening.path, opening.name);
    let read = trace_input::read(path, input, quiet, |options| {
        options.compat = compat;
        options.kernel_rules = classes.rules();
        options.args = match &wanted.args {
            ArgKeys::None => ArgPolicy::None,
            ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
            ArgKeys::All => ArgPolicy::All,
        };
    });
    let read = read.map_err(|error| format!("{error:#}"))?;
    let mut found = trace_input::warnings(&read);
    found.extend(trace_input::nothing_inside(&read));
    let number = u32::try_from(opening.file).map_err(|_| format!("{name}: too many files"))?;
    found.extend(trace_input::doubt_on_rank(name, &read.trace));
    let mut recording = Recording::named(number, name, read.trace, opening.sizes_in_names);
    recording.run = opening.run.map(str::to_owned);
    if wanted.hash && byte_source::remote::is_url(path) {
        recording.hash = byte_source::remote::hash(trace_input::file_of(path));
    } else if wanted.hash && path.is_file() {
        let hash = trace_dataset::hash_of(path);
        recording.hash = Some(hash.map_err(|error| format!("{name}: {error}"))?);
    }
    Ok((recording, found))
}
