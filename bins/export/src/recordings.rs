//! Reads recordings for an export.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cli::{InputArgs, VerbosityArgs};
use perfetto_reader::ArgPolicy;
use trace_dataset::Reader;
use trace_input::ClassesArgs;
use trace_tables::Recording;
use trace_tables::catalogue::ArgKeys;

/// The inputs; each has its share of the threads.
pub(crate) struct Recordings {
    /// Path and name of each.
    files: Vec<(PathBuf, String)>,
    input: InputArgs,
    classes: ClassesArgs,
    /// Numbers after `tp` in the names are sizes of jobs, not ranks.
    sizes_in_names: bool,
    /// What is wrong with the inputs that were read, by place.
    warnings: Mutex<BTreeMap<usize, Vec<String>>>,
}

impl Recordings {
    /// Reads paths, which are named as they are.
    pub(crate) fn new(paths: &[PathBuf], input: InputArgs, classes: ClassesArgs) -> Self {
        let name = |path: &PathBuf| (path.clone(), path.display().to_string());
        Self {
            files: paths.iter().map(name).collect(),
            input,
            classes,
            sizes_in_names: sizes_in_names(paths),
            warnings: Mutex::default(),
        }
    }

    /// Reads one path for another process, which has another name for it, and knows [`sizes_in_names`] of all.
    #[cfg(feature = "cluster")]
    pub(crate) fn named(
        (path, name): (PathBuf, String),
        sizes_in_names: bool,
        input: InputArgs,
    ) -> Self {
        Self {
            files: vec![(path, name)],
            input,
            classes: ClassesArgs::default(),
            sizes_in_names,
            warnings: Mutex::default(),
        }
    }
}

/// Returns `true` if numbers after `tp` in the names of inputs are sizes of jobs, not ranks.
pub(crate) fn sizes_in_names(paths: &[PathBuf]) -> bool {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    trace_input::names_have_sizes(&names)
}

impl Reader for Recordings {
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String> {
        let Some((path, name)) = self.files.get(place) else {
            return Err(format!("no input {place}"));
        };
        let quiet = VerbosityArgs {
            quiet: true,
            verbose: false,
        };
        // Texts name inputs as they were given.
        let named = |text: String| text.replace(&path.display().to_string(), name);
        let read = trace_input::read(path, &self.input, quiet, |options| {
            options.kernel_rules = self.classes.rules();
            options.args = match args {
                ArgKeys::None => ArgPolicy::None,
                ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
                ArgKeys::All => ArgPolicy::All,
            };
        });
        let read = read.map_err(|error| named(format!("{error:#}")))?;
        let mut found = trace_input::warnings(&read);
        found.extend(trace_input::nothing_inside(&read));
        found.extend(trace_input::doubt_on_rank(name, &read.trace));
        if !found.is_empty() {
            let found = found.into_iter().map(named).collect();
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.insert(place, found);
        }
        let sizes = self.sizes_in_names;
        Ok(Recording::named(file_id, name, read.trace, sizes))
    }

    fn hash(&self, place: usize) -> Option<String> {
        let (path, _) = self.files.get(place)?;
        byte_source::remote::hash(trace_input::file_of(path))
    }

    fn notes(&self, place: usize) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.remove(&place).unwrap_or_default()
    }
}
