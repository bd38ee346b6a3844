//! Opens the recordings of a query.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use cli::{InputArgs, VerbosityArgs};
use perfetto_reader::ArgPolicy;
use trace_sql::{Inputs, Wanted};
use trace_tables::Recording;
use trace_tables::catalogue::ArgKeys;

use crate::args::SqlCli;

/// The files of the command line.
#[derive(Debug)]
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    names: Vec<String>,
    /// Options of the reader, with the threads of one file.
    input: InputArgs,
    compat: bool,
}

impl Files {
    pub(crate) fn new(paths: Vec<PathBuf>, args: &SqlCli) -> Self {
        let mut input = args.input.clone();
        let threads = input.threads().get();
        let each = threads.div_ceil(paths.len().clamp(1, threads));
        input.threads = NonZeroUsize::new(each);
        Self {
            names: paths
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            paths,
            input,
            compat: args.compat,
        }
    }
}

impl Inputs for Files {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn open(&self, file: usize, wanted: &Wanted) -> Result<Recording, String> {
        let quiet = VerbosityArgs {
            quiet: true,
            verbose: false,
        };
        let Some((path, name)) = self.paths.get(file).zip(self.names.get(file)) else {
            return Err(format!("no file {file}"));
        };
        let read = trace_input::read(path, &self.input, quiet, |options| {
            options.compat = self.compat;
            options.args = match &wanted.args {
                ArgKeys::None => ArgPolicy::None,
                ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
                ArgKeys::All => ArgPolicy::All,
            };
        });
        let read = read.map_err(|error| format!("{error:#}"))?;
        let number = u32::try_from(file).map_err(|_| format!("{name}: too many files"))?;
        let mut recording = Recording::new(number, name, read.trace);
        if wanted.hash && path.is_file() {
            let hash = trace_dataset::hash_of(path);
            recording.hash = Some(hash.map_err(|error| format!("{name}: {error}"))?);
        }
        Ok(recording)
    }
}
