//! Exports recordings.

use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest as _, Sha256};
use trace_tables::Recording;
use trace_tables::catalogue::{ArgKeys, CATALOGUE_VERSION, TableSpec};
use trace_tables::scan::{Request, runs_of};

use crate::error::Error;
use crate::manifest::{Done, Manifest, ManifestInput, Part, remove_done, state, write_done};
use crate::write;

/// Value of a partition without a value, as Hive writes it.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Table that a file has a row in when all of its tables are there.
const LAST: &str = "files";

/// A file to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Path as given; identifies the input.
    pub name: String,
    /// The file whose bytes are hashed; `None` for folders and streams, which are exported each time.
    pub path: Option<PathBuf>,
}

/// Reads the inputs.
pub trait Reader: Sync {
    /// Reads an input by its place, with the arguments that the tables need. `file_id` is the number of the recording.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the reason.
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String>;
}

/// What to export, and how.
#[derive(Clone, Debug)]
pub struct Export<'e> {
    /// Folder of the data set.
    pub folder: &'e Path,
    /// Tables; `files` is always one of them.
    pub tables: Vec<&'static TableSpec>,
    /// Version of the tool, for the manifest.
    pub tool_version: &'e str,
    /// Number of inputs that are exported at once.
    pub threads: usize,
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Inputs that were exported.
    pub exported: usize,
    /// Inputs that were there already.
    pub skipped: usize,
    /// Rows written.
    pub rows: u64,
    /// Inputs that could not be read, each with the reason.
    pub failures: Vec<(String, String)>,
}

enum Outcome {
    Skipped,
    Exported(Done),
    Failed(String),
}

/// Exports inputs. The files do not depend on the number of threads.
///
/// # Errors
///
/// Returns an error if the folder cannot be written or holds something else. An input that cannot be read is a row of `failures`.
pub fn export(
    inputs: &[Input],
    reader: &dyn Reader,
    options: &Export<'_>,
) -> Result<Report, Error> {
    let folder = options.folder;
    let before = Manifest::read(folder)?;
    let own = state(folder);
    let made = own.join("inputs");
    fs::create_dir_all(&made).map_err(Error::io("create the folder", &made))?;
    let _lock = lock(folder)?;
    let aside = own.join("tmp");
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(Error::io("remove", &aside))?;
    }
    let mut manifest = before.unwrap_or_else(|| Manifest {
        schema_version: String::new(),
        tool_version: String::new(),
        inputs: Vec::new(),
    });
    manifest.schema_version = CATALOGUE_VERSION.to_string();
    manifest.tool_version = options.tool_version.to_owned();
    // Numbers are given before anything is written, so that they do not depend on which inputs fail or when a run is killed.
    let mut places: Vec<usize> = Vec::with_capacity(inputs.len());
    let mut given: Vec<&Input> = Vec::with_capacity(inputs.len());
    for input in inputs {
        let place = place(&mut manifest, input);
        if !places.contains(&place) {
            places.push(place);
            given.push(input);
        }
    }
    let twice = inputs.len() - given.len();
    manifest.write(folder)?;
    let mut tables = options.tables.clone();
    tables.sort_by_key(|table| table.name == LAST);
    let places_of = |input: &Input| inputs.iter().position(|other| other == input);
    let jobs: Vec<(usize, &Input, &ManifestInput)> = given
        .iter()
        .zip(&places)
        .filter_map(|(input, place)| {
            Some((places_of(input)?, *input, manifest.inputs.get(*place)?))
        })
        .collect();
    // Folders of one name are told apart, those of earlier calls as well.
    let files: Vec<String> = manifest
        .inputs
        .iter()
        .map(|known| known.file.clone())
        .collect();
    let runs = runs_of(&files);
    let one = |job: &(usize, &Input, &ManifestInput)| -> Result<Outcome, Error> {
        let (at, input, known) = *job;
        let run = usize::try_from(known.file_id).ok();
        let run = run.and_then(|at| runs.get(at).cloned().flatten());
        one_input(
            at,
            input,
            (known, &manifest.inputs, run),
            reader,
            folder,
            &tables,
        )
    };
    let outcomes = in_parallel(&jobs, options.threads, one);
    drop(jobs);
    let mut report = Report {
        skipped: twice,
        ..Report::default()
    };
    let mut first_error = None;
    for ((input, place), outcome) in given.iter().zip(&places).zip(outcomes) {
        let Some(slot) = manifest.inputs.get_mut(*place) else {
            continue;
        };
        match outcome {
            Ok(Outcome::Skipped) => {
                report.skipped += 1;
                slot.error = None;
            }
            Ok(Outcome::Exported(done)) => {
                report.exported += 1;
                report.rows += done.parts.iter().map(|part| part.rows).sum::<u64>();
                slot.done = Some(done);
                slot.error = None;
            }
            Ok(Outcome::Failed(error)) => {
                report.failures.push((input.name.clone(), error.clone()));
                slot.done = None;
                slot.error = Some(error);
            }
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    write_failures(folder, &aside, &manifest)?;
    manifest.write(folder)?;
    // Nothing is left aside; an error is of no consequence.
    let _ = fs::remove_dir_all(&aside);
    Ok(report)
}

/// Keeps other exports away from a folder as long as the file is open.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = state(folder).join("lock");
    let file = File::create(&path).map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
    }
}

/// Returns the place of an input in the manifest, which is its number.
fn place(manifest: &mut Manifest, input: &Input) -> usize {
    // One file may be given by several paths.
    let whole = |path: &Path| path.canonicalize().ok();
    let own = input.path.as_deref().and_then(whole);
    let is_same = |known: &ManifestInput| {
        known.file == input.name || (own.is_some() && own == whole(Path::new(&known.file)))
    };
    let known = manifest.inputs.iter().position(is_same);
    known.unwrap_or_else(|| {
        let place = manifest.inputs.len();
        manifest.inputs.push(ManifestInput {
            file_id: u32::try_from(place).unwrap_or(u32::MAX),
            file: input.name.clone(),
            done: None,
            error: None,
        });
        place
    })
}

/// Calls `one` with each job, several at once; results are in the order of the jobs.
fn in_parallel<J: Sync, T: Send>(
    jobs: &[J],
    threads: usize,
    one: impl Fn(&J) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return done;
            };
            done.push((at, one(job)));
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let workers = threads.min(jobs.len()).max(1);
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let each = handles.into_iter().flat_map(|handle| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        each.collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

fn one_input(
    at: usize,
    input: &Input,
    (known, all, run): (&ManifestInput, &[ManifestInput], Option<String>),
    reader: &dyn Reader,
    folder: &Path,
    tables: &[&'static TableSpec],
) -> Result<Outcome, Error> {
    let hash = match input.path.as_deref().map(hash_of).transpose() {
        Ok(hash) => hash,
        Err(error) => {
            forget(folder, known)?;
            return Ok(Outcome::Failed(format!("{}: {error}", input.name)));
        }
    };
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    let is_current = |of: &ManifestInput| {
        let done = of.done.as_ref();
        done.is_some_and(|done| done.is_current(folder, hash.as_deref(), &names))
    };
    // A copy, or the same file given from elsewhere, is the same recording.
    let is_there = known.done.is_none() && hash.is_some() && all.iter().any(is_current);
    if is_current(known) || is_there {
        return Ok(Outcome::Skipped);
    }
    let mut args = ArgKeys::None;
    for table in tables {
        args.add(&Request::all(table).arg_keys(table));
    }
    let mut recording = match reader.open(at, known.file_id, &args) {
        Ok(recording) => recording,
        Err(error) => {
            forget(folder, known)?;
            return Ok(Outcome::Failed(error));
        }
    };
    recording.hash.clone_from(&hash);
    recording.run = run;
    let aside = state(folder)
        .join("tmp")
        .join(format!("{:06}", known.file_id));
    fs::create_dir_all(&aside).map_err(Error::io("create the folder", &aside))?;
    let run = recording
        .run
        .as_deref()
        .map_or_else(|| NO_VALUE.to_owned(), encoded);
    let rank = recording
        .rank
        .map_or_else(|| NO_VALUE.to_owned(), |rank| rank.0.to_string());
    let mut parts = Vec::with_capacity(tables.len());
    for table in tables {
        let made = aside.join(table.name);
        let rows = write::table(&made, &recording, table)?;
        let bytes = fs::metadata(&made).map_err(Error::io("read", &made))?.len();
        let path = format!(
            "table={}/run={run}/rank={rank}/part-{:06}.parquet",
            table.name, known.file_id
        );
        parts.push(Part::new(table.name, path, rows, bytes));
    }
    drop(recording);
    forget(folder, known)?;
    for part in &parts {
        let target = folder.join(&part.path);
        let parent = target.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::io("create the folder", parent))?;
        fs::rename(aside.join(&part.table), &target).map_err(Error::io("write", &target))?;
    }
    let done = Done::new(hash, parts);
    write_done(folder, known.file_id, &done)?;
    Ok(Outcome::Exported(done))
}

/// Removes what there is of an input, its row in `files` first.
fn forget(folder: &Path, known: &ManifestInput) -> Result<(), Error> {
    let Some(done) = &known.done else {
        return Ok(());
    };
    remove_done(folder, known.file_id)?;
    for part in done.parts.iter().rev() {
        let path = folder.join(&part.path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_failures(folder: &Path, aside: &Path, manifest: &Manifest) -> Result<(), Error> {
    let inputs = manifest.inputs.iter();
    let rows: Vec<(u32, &str, &str)> = inputs
        .filter_map(|input| Some((input.file_id, input.file.as_str(), input.error.as_deref()?)))
        .collect();
    let table = folder.join("table=failures");
    for folder in [&table, aside] {
        fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
    }
    let made = aside.join("failures");
    write::failures(&made, &rows)?;
    let target = table.join("part-000000.parquet");
    fs::rename(&made, &target).map_err(Error::io("write", &target))
}

/// Returns the SHA-256 of a file in hexadecimal.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
    let bytes = hasher.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Encodes a value of a partition as Hive does: letters, digits and a few signs stay.
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'+' | b'@' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    match out.as_str() {
        "" | "." | ".." => NO_VALUE.to_owned(),
        _ => out,
    }
}
