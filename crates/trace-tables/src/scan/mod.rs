//! Reads a recording as the tables of the catalogue, in batches of bounded size.

mod args;
mod column;
mod file;
mod gpu;
mod host;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema};
use trace_model::{Rank, Trace, ranks};

use crate::catalogue::{ArgKeys, TableSpec};

/// Number of files whose ids do not collide is the number of values above these bits.
const ID_BITS: u32 = 32;

/// Default number of rows of a batch.
pub const BATCH_ROWS: usize = 8192;

/// A trace with what its tables state about its file.
#[derive(Debug)]
pub struct Recording {
    /// Number of the file, from 0; `files.file_id`.
    pub file_id: u32,
    /// Path as given.
    pub file: String,
    /// Run that the file belongs to.
    pub run: Option<String>,
    /// Rank, as the file states it, else by its name ([`trace_model::ranks::Recording::rank`]).
    pub rank: Option<Rank>,
    /// SHA-256 of the file as stored, in hexadecimal.
    pub hash: Option<String>,
    /// The trace.
    pub trace: Trace,
    /// All strings of the trace, as the dictionary of its names.
    names: OnceLock<Option<ArrayRef>>,
}

impl Recording {
    /// Creates a recording, whose rank is that of the file by itself.
    #[must_use]
    pub fn new(file_id: u32, file: &str, trace: Trace) -> Self {
        Self::named(file_id, file, trace, false)
    }

    /// Creates a recording among others, of which [`trace_model::ranks::names_have_sizes`] is known.
    #[must_use]
    pub fn named(file_id: u32, file: &str, trace: Trace, sizes_in_names: bool) -> Self {
        Self {
            file_id,
            run: run_of(file),
            rank: ranks::Recording::new(file, trace.meta()).rank(sizes_in_names),
            file: file.to_owned(),
            hash: None,
            trace,
            names: OnceLock::new(),
        }
    }

    /// Returns the id of a row of this file that is unique over all files.
    #[must_use]
    pub fn id(&self, row: usize) -> i64 {
        let row = i64::try_from(row).unwrap_or(i64::MAX);
        (i64::from(self.file_id) << ID_BITS) | row
    }
}

/// Returns the id of a row of a file that is unique over all files; `None` if the row is beyond what ids can hold.
#[must_use]
pub fn joined_id(file: u32, row: u64) -> Option<i64> {
    let row = u32::try_from(row).ok()?;
    Some((i64::from(file) << ID_BITS) | i64::from(row))
}

/// Splits an id into the number of its file and the row in it; `None` for a negative id.
#[must_use]
pub fn split_id(id: i64) -> Option<(u32, u32)> {
    let file = u32::try_from(id >> ID_BITS).ok()?;
    let row = u32::try_from(id & i64::from(u32::MAX)).ok()?;
    Some((file, row))
}

/// Returns the folder of a file, absolute.
fn folder_of(file: &str) -> Option<PathBuf> {
    let path = Path::new(file.split('!').next().unwrap_or(file));
    // A file without a folder has no run.
    path.parent()?.file_name()?;
    std::path::absolute(path)
        .ok()?
        .parent()
        .map(Path::to_path_buf)
}

/// Returns the last `parts` names of a folder, separated by `/`.
fn tail(folder: &Path, parts: usize) -> String {
    let names = folder.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    let from = names.len().saturating_sub(parts);
    names.get(from..).unwrap_or_default().join("/")
}

/// Returns the run of a file: the name of its folder.
fn run_of(file: &str) -> Option<String> {
    Some(tail(&folder_of(file)?, 1)).filter(|name| !name.is_empty())
}

/// Returns the runs of files that are read together: the names of their folders, and where two folders have one name, with as
/// many of the folders around them as tell them apart.
#[must_use]
pub fn runs_of(files: &[String]) -> Vec<Option<String>> {
    let folders: Vec<Option<PathBuf>> = files.iter().map(|file| folder_of(file)).collect();
    let mut names: BTreeMap<&Path, String> = BTreeMap::new();
    let all: BTreeSet<&Path> = folders.iter().flatten().map(PathBuf::as_path).collect();
    let deepest = all.iter().map(|folder| folder.components().count());
    let deepest = deepest.max().unwrap_or(0);
    let mut open = all;
    for parts in 1..=deepest {
        let mut groups: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
        for folder in std::mem::take(&mut open) {
            groups.entry(tail(folder, parts)).or_default().push(folder);
        }
        for (name, folders) in groups {
            match folders.as_slice() {
                [one] => _ = names.insert(one, name),
                _ => open.extend(folders),
            }
        }
    }
    let name = |folder: &Option<PathBuf>| {
        let name = names.get(folder.as_deref()?)?;
        Some(name.clone()).filter(|name| !name.is_empty())
    };
    folders.iter().map(name).collect()
}

/// Columns and rows of a table that are wanted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Positions of the columns in [`TableSpec::columns`].
    pub columns: Vec<usize>,
    /// Only rows whose column [`TableSpec::sorted_by`] lies between these values, both included. The tables of steps, and those
    /// that are not sorted, ignore it.
    pub between: Option<(i64, i64)>,
    /// Only rows with one of these names, of `slices` and `kernels`; other tables ignore it.
    pub names: Option<Vec<String>>,
    /// Only arguments with one of these keys or flat keys, of `args`.
    pub keys: Option<Vec<String>>,
    /// Only these rows of the file, ascending, of any table but `args`.
    pub rows: Option<Vec<usize>>,
    /// Maximum number of rows of a batch.
    pub batch_rows: usize,
}

impl Request {
    /// Requests these columns of all rows.
    #[must_use]
    pub fn columns(columns: Vec<usize>) -> Self {
        Self {
            columns,
            between: None,
            names: None,
            keys: None,
            rows: None,
            batch_rows: BATCH_ROWS,
        }
    }

    /// Requests all columns of all rows.
    #[must_use]
    pub fn all(table: &TableSpec) -> Self {
        Self::columns((0..table.columns().count()).collect())
    }

    fn wants(&self, table: &TableSpec, names: &[&str]) -> bool {
        let columns: Vec<&str> = table.columns().map(|column| column.name).collect();
        let wanted = self.columns.iter().filter_map(|at| columns.get(*at));
        wanted.into_iter().any(|name| names.contains(name))
    }

    /// Returns the arguments of slices that a trace must have been read with.
    #[must_use]
    pub fn arg_keys(&self, table: &TableSpec) -> ArgKeys {
        let only = |keys: &[&str]| ArgKeys::Only(keys.iter().map(|k| (*k).to_owned()).collect());
        let mut keys = match table.name {
            "files" => only(gpu_time::ARG_KEYS),
            "kernels" | "launches" | "gaps" => only(gpu_time::ARG_KEYS),
            "stacks" => only(&launch_stacks::arg_keys()),
            "collectives" => ArgKeys::Only(gpu_time::comm::arg_keys()),
            "steps" => only(&step_keys()),
            "functions" => only(rca_cycles::ARG_KEYS),
            "args" => match &self.keys {
                Some(keys) => ArgKeys::Only(keys.iter().map(|key| top_key(key)).collect()),
                None => ArgKeys::All,
            },
            "slices" if self.wants(table, &["arg_set_id"]) => ArgKeys::All,
            _ => ArgKeys::None,
        };
        if table.name == "kernels" {
            if self.wants(table, &["shapes"]) {
                keys.add(&only(&["Input Dims"]));
            }
            if self.wants(table, &["stack_id"]) {
                keys.add(&only(&launch_stacks::arg_keys()));
            }
            if self.wants(table, &["step"]) {
                keys.add(&only(&step_keys()));
            }
        }
        keys
    }
}

fn step_keys() -> Vec<&'static str> {
    let keys = critical_path::ARG_KEYS.iter().chain(rca_cycles::ARG_KEYS);
    keys.copied().collect()
}

/// Returns the key of the argument that a flattened key is a part of: `stream` for `debug.stream[0].x`.
#[must_use]
pub fn top_key(key: &str) -> String {
    let bare = trace_model::bare_key(key);
    let end = bare.find(['.', '[']).unwrap_or(bare.len());
    bare.get(..end).unwrap_or(bare).to_owned()
}

/// Rows of a table.
trait Rows {
    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns the rows that may satisfy a request, ascending; by default all.
    fn chosen(&self, _: &Request) -> Chosen {
        Chosen::Range(0..self.len())
    }

    /// Returns one column of some rows; `None` for an unknown name, which is a defect.
    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef>;
}

/// Rows of a table that satisfy a request.
enum Chosen {
    Range(Range<usize>),
    List(Vec<usize>),
}

impl Chosen {
    fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    fn chunk(&self, from: usize, rows: usize, out: &mut Vec<usize>) {
        out.clear();
        match self {
            Self::Range(range) => {
                let start = range.start.saturating_add(from).min(range.end);
                out.extend(start..start.saturating_add(rows).min(range.end));
            }
            Self::List(list) => {
                out.extend(list.iter().skip(from).take(rows));
            }
        }
    }
}

/// Passes the rows of a table of one recording to `sink` in batches, until it returns `false`.
///
/// The trace must have been read with the arguments of [`Request::arg_keys`]. Memory beyond the trace is one batch and what the
/// analysis behind the table keeps. Batches of one recording share the dictionary of names.
///
/// # Errors
///
/// Returns an error if a batch cannot be assembled, which is a defect.
pub fn scan(
    recording: &Recording,
    table: &TableSpec,
    request: &Request,
    sink: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<(), ArrowError> {
    let rows: Box<dyn Rows + '_> = match table.name {
        "args" => return args::scan(recording, table, request, sink),
        "files" => Box::new(file::Files::new(
            recording,
            request.wants(table, &file::MEASURED),
        )),
        "slices" => Box::new(host::Slices::new(
            recording,
            request.wants(table, &["activity"]),
        )),
        "flows" => Box::new(host::Flows(recording)),
        "counters" => Box::new(host::Counters::new(recording)),
        "processes" => Box::new(host::Processes(recording)),
        "threads" => Box::new(host::Threads(recording)),
        "tracks" => Box::new(host::Tracks(recording)),
        "kernels" => Box::new(gpu::Kernels::new(recording, |names| {
            request.wants(table, names)
        })),
        "launches" => Box::new(gpu::Launches::new(recording)),
        "gaps" => Box::new(gpu::Gaps::new(recording)),
        "collectives" => Box::new(gpu::Collectives::new(recording)),
        "stacks" => Box::new(steps::Frames::new(recording)),
        "steps" => Box::new(steps::Steps::new(recording)),
        "functions" => Box::new(steps::Functions::new(recording)),
        name => {
            return Err(ArrowError::SchemaError(format!(
                "table {name} is not read from a trace"
            )));
        }
    };
    let schema = Arc::new(projected(table, request)?);
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let chosen = match &request.rows {
        Some(list) => Chosen::List(
            list.iter()
                .copied()
                .filter(|row| *row < rows.len())
                .collect(),
        ),
        None => rows.chosen(request),
    };
    let mut places = Vec::new();
    let mut from = 0;
    while from < chosen.len() {
        chosen.chunk(from, request.batch_rows.max(1), &mut places);
        from += places.len();
        let columns = names.iter().map(|name| {
            let known = column::common(recording, name, places.len());
            known
                .or_else(|| rows.column(name, &places))
                .ok_or_else(|| ArrowError::SchemaError(format!("no column {name}")))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
        if !sink(batch) {
            break;
        }
    }
    Ok(())
}

/// Returns the schema of the requested columns.
fn projected(table: &TableSpec, request: &Request) -> Result<Schema, ArrowError> {
    table.schema().project(&request.columns)
}
