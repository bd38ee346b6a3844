//! Exports of Nsight Systems: files, folders, and single processes of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use byte_source::{Source, remote};
use cli::VerbosityArgs;
use nsys_db::{Export, LoadOptions, ProcessKey};
use perfetto_reader::{ArgPolicy, HostSlices, ReadOptions};
use sqlite_scan::Database;
use trace_model::Trace;

use crate::read::{Take, kept_args};

/// Separates an export from one of its processes, as an archive from a member.
const SEPARATOR: char = '!';

/// Folders within folders that are searched for exports.
const MAX_DEPTH: usize = 6;

/// Returns the file or folder that a path names, without the process of an export: `run.sqlite` for `run.sqlite!70001`.
pub fn file_of(path: &Path) -> &Path {
    selected(path).map_or(path, |(file, _)| file)
}

/// Size of an export from which on not all calls of its host are kept where the answer can do without, in bytes: a trace of all
/// has several times the size of its file.
const LARGE: u64 = 128 << 20;

/// Size of the text of a JSON recording for which that holds, in bytes: a trace of all is nearly as large.
const LARGE_TEXT: u64 = 1 << 30;

/// How many times larger the text of a compressed JSON recording is than its file, at least.
const COMPRESSED: u64 = 8;

/// Returns `true` for a recording so large that not all of its host should be kept: a database, or JSON.
pub fn is_large(path: &Path) -> bool {
    let path = file_of(path);
    let bytes = match remote::stat(path) {
        Ok(Some(object)) => object.bytes,
        _ => std::fs::metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 }),
    };
    if bytes <= LARGE {
        return false;
    }
    let head = match remote::is_url(path) {
        true => remote_head(path),
        false => head_of(path),
    };
    let Some(head) = head else {
        return false;
    };
    let name = path.to_string_lossy();
    let text = match name.ends_with(byte_source::logical_name(&name)) {
        true => bytes,
        false => bytes.saturating_mul(COMPRESSED),
    };
    let is_json = matches!(
        byte_source::magic::first_non_blank(byte_source::magic::skip_utf8_bom(&head)),
        Some(b'{' | b'[')
    );
    byte_source::magic::looks_like_sqlite(&head) || (is_json && text > LARGE_TEXT)
}

/// Returns the first bytes of a file, decompressed.
fn head_of(path: &Path) -> Option<[u8; 16]> {
    let source = Source::open(path, &byte_source::OpenOptions::default());
    source.ok()?.head(16).ok()?.try_into().ok()
}

/// Returns the first bytes of an object.
fn remote_head(path: &Path) -> Option<[u8; 16]> {
    let source = Source::open_as_is(path, &byte_source::OpenOptions::default());
    source.ok()?.head(16).ok()?.try_into().ok()
}

/// Returns the export and the process that a path selects, if it does.
fn selected(path: &Path) -> Option<(&Path, (Option<u64>, i64))> {
    let text = path.to_str()?;
    let (file, process) = text.rsplit_once(SEPARATOR)?;
    let (machine, pid) = match process.split_once('.') {
        Some((machine, pid)) => (Some(machine.parse().ok()?), pid),
        None => (None, process),
    };
    let file = Path::new(file);
    let is_export = remote::exists(file) && !remote::exists(path);
    is_export.then_some((file, (machine, pid.parse().ok()?)))
}

/// Returns `true` for a database, also a compressed one, and for a folder of tables.
fn is_export(path: &Path) -> bool {
    let source = || Source::open(path, &byte_source::OpenOptions::default());
    let head = |mut source: Source| {
        source
            .head(16)
            .is_ok_and(byte_source::magic::looks_like_sqlite)
    };
    remote::is_dir(path) || source().is_ok_and(head)
}

/// Returns the file and the process that a path selects of a file of another format than an export.
pub(crate) fn process_of_copy(path: &Path) -> Option<(&Path, i64)> {
    let (file, (_, pid)) = selected(path)?;
    (!is_export(file)).then_some((file, pid))
}

/// Returns one path for each rank that a copy of an export states in its first bytes, if there are several.
fn ranks_of_copy(path: &Path) -> Option<Vec<PathBuf>> {
    let mut source = Source::open(path, &byte_source::OpenOptions::default()).ok()?;
    let head = source.head(Source::HEAD_BYTES).ok()?;
    let key = trace_convert::RANKS.as_bytes();
    let at = head.windows(key.len()).position(|part| part == key)?;
    // In JSON `":` is between the key and the list, in a Perfetto trace a tag and a length.
    let rest = head.get(at + key.len()..)?;
    let start = rest.iter().take(6).position(|byte| *byte == b'[')?;
    let list = rest.get(start..)?;
    let end = list.windows(2).position(|part| part == b"]]")?;
    let text = std::str::from_utf8(list.get(..end + 2)?).ok()?;
    let ranks = trace_convert::stated_ranks(text);
    let one = |pid: i64| PathBuf::from(format!("{}{SEPARATOR}{pid}", path.display()));
    (ranks.len() > 1).then(|| ranks.iter().map(|(pid, _)| one(*pid)).collect())
}

/// Returns one path for each process of an export that communicates, if there are several; `None` for everything else.
///
/// # Errors
///
/// Returns an error if the export is damaged.
pub(crate) fn processes(path: &Path) -> anyhow::Result<Option<Vec<PathBuf>>> {
    if selected(path).is_some() || path.as_os_str() == "-" {
        return Ok(None);
    }
    let Some(export) = recognised(path)? else {
        return Ok(match remote::is_file(path) {
            true => ranks_of_copy(path),
            false => None,
        });
    };
    let ranks = nsys_db::communicating_processes(&export)?;
    if ranks.len() < 2 {
        return Ok(None);
    }
    let pids: BTreeSet<i64> = ranks.iter().map(|rank| rank.process.pid()).collect();
    let is_unique = pids.len() == ranks.len();
    let one = |process: ProcessKey| {
        let (machine, pid) = (process.machine(), process.pid());
        let which = match is_unique {
            true => pid.to_string(),
            false => format!("{machine}.{pid}"),
        };
        PathBuf::from(format!("{}{SEPARATOR}{which}", path.display()))
    };
    Ok(Some(ranks.iter().map(|rank| one(rank.process)).collect()))
}

/// Opens an export, if the path is one. Errors of files that are none are left to their reader.
fn recognised(path: &Path) -> anyhow::Result<Option<Export>> {
    if remote::is_dir(path) {
        let is_one = is_parquet_folder(path);
        return is_one.then(|| open_folder(path)).transpose();
    }
    let Ok(mut source) = Source::open(path, &byte_source::OpenOptions::default()) else {
        return Ok(None);
    };
    let is_database = source
        .head(16)
        .is_ok_and(byte_source::magic::looks_like_sqlite);
    if !is_database || !remote::is_file(path) {
        return Ok(None);
    }
    let Ok(database) = Database::from_source(source, Some(path)) else {
        return Ok(None);
    };
    let is_one = nsys_db::kind_of(&database) == nsys_db::DatabaseKind::Nsys;
    Ok(is_one
        .then(|| Export::from_database(database))
        .transpose()?)
}

/// Returns `false` for a file with an ending of SQLite that is certainly no recording: other programs use these endings too. A
/// damaged database may be one; its reader reports the damage.
pub(crate) fn may_be_recording(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = byte_source::logical_name(&name);
    if !name.ends_with(".sqlite") && !name.ends_with(".sqlite3") {
        return true;
    }
    let Ok(mut source) = Source::open(path, &byte_source::OpenOptions::default()) else {
        return path.metadata().is_ok_and(|found| found.len() > 0);
    };
    let is_database = source
        .head(16)
        .is_ok_and(byte_source::magic::looks_like_sqlite);
    if !is_database {
        return false;
    }
    match Database::from_source(source, None) {
        Ok(database) => {
            let mut tables = database.catalog().tables.iter();
            nsys_db::kind_of(&database) != nsys_db::DatabaseKind::Other
                || tables.any(|table| table.name.starts_with("rocpd_"))
        }
        Err(_) => true,
    }
}

/// Returns the folders with one Parquet file for each table within a folder.
pub(crate) fn parquet_folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if remote::is_url(folder) {
        // What cannot be listed is reported by the search for traces.
        let objects = remote::list(folder).unwrap_or_default().into_iter();
        let strings = objects.filter(|object| object.url.ends_with("StringIds.parquet"));
        let folders = strings.filter_map(|object| object.url.parent().map(Path::to_path_buf));
        found.extend(folders.filter(|folder| is_parquet_folder(folder)));
        return found;
    }
    search(folder, MAX_DEPTH, &mut found);
    found
}

/// Returns `true` for a folder with one Parquet file for each table, local or in a bucket.
pub(crate) fn is_parquet_folder(path: &Path) -> bool {
    if !remote::is_url(path) {
        return nsys_db::is_parquet_folder(path);
    }
    if !remote::is_dir(path) || !remote::is_file(&path.join("StringIds.parquet")) {
        return false;
    }
    let files = remote::files_in(path).unwrap_or_default();
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    nsys_db::DatabaseKind::of(names.filter_map(|name| name.strip_suffix(".parquet")))
        == nsys_db::DatabaseKind::Nsys
}

/// Opens a folder with one Parquet file for each table; of one in a bucket, a copy.
fn open_folder(path: &Path) -> anyhow::Result<Export> {
    let copy = remote::fetched_folder(path, &byte_source::OpenOptions::default())?;
    Ok(Export::open(copy)?)
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if nsys_db::is_parquet_folder(folder) {
        found.push(folder.to_owned());
        return;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    for folder in folders {
        search(&folder, depth, found);
    }
}

/// Returns the nanoseconds to add to the Unix time of each path, so that reports of one host are on its clock.
pub(crate) fn clock_shifts(paths: &[PathBuf], verbosity: VerbosityArgs) -> Vec<i64> {
    if paths.len() < 2 {
        return vec![0; paths.len()];
    }
    // What cannot be read is reported by its reader.
    let clock = |path: &PathBuf| {
        let export = recognised(file_of(path)).ok()??;
        nsys_db::SessionClock::read(&export).ok()
    };
    let clocks: Vec<_> = paths.iter().map(clock).collect();
    let found = nsys_db::align(&clocks);
    if found.utc_error_ns > 0 {
        verbosity.note(format!(
            "note: {} reports are aligned by the system clock of their host; UTC differs from it by up to {} ns",
            found.by_system_clock + 1,
            found.utc_error_ns
        ));
    } else if found.by_utc > 0 {
        verbosity.detail(|| {
            format!(
                "clocks: {} reports are aligned by UTC, whose error is not known",
                found.by_utc + 1
            )
        });
    }
    found.shifts_ns
}

/// Input that this module reads.
pub(crate) enum Found {
    /// An export, and the process selected of it.
    Export(Export, Option<ProcessKey>),
    /// A database of another format.
    OtherDatabase,
    /// Anything else, not consumed.
    Source(Box<Source>),
}

/// Opens what a path that is not `-` names as a folder or a process of an export.
///
/// # Errors
///
/// Returns an error if it is a damaged export, or a folder of an export that is not read.
pub(crate) fn open_path(path: &Path) -> anyhow::Result<Option<Found>> {
    if let Some((file, which)) = selected(path).filter(|(file, _)| is_export(file)) {
        let export = match remote::is_dir(file) {
            true => open_folder(file)?,
            false => Export::open(file)?,
        };
        let process = find(&export, which)?;
        return Ok(Some(Found::Export(export, Some(process))));
    }
    if let Some(error) = nsys_db::arrow_folder(path) {
        return Err(error.into());
    }
    if is_parquet_folder(path) {
        return Ok(Some(Found::Export(open_folder(path)?, None)));
    }
    Ok(None)
}

fn find(export: &Export, (machine, pid): (Option<u64>, i64)) -> anyhow::Result<ProcessKey> {
    let ranks = nsys_db::communicating_processes(export)?;
    let found = ranks.iter().map(|rank| rank.process).find(|process| {
        process.pid() == pid && machine.is_none_or(|machine| process.machine() == machine)
    });
    found.ok_or_else(|| {
        anyhow::anyhow!(
            "{}: no process {pid} with communication kernels: give the file itself",
            export.name()
        )
    })
}

/// Opens a source as an export if it is one.
///
/// # Errors
///
/// Returns an error if it is a damaged database, a profile of nvprof, a report of Nsight Systems, or an export of another kind.
pub(crate) fn open(mut source: Source, path: &Path) -> anyhow::Result<Found> {
    let name = source.name().to_owned();
    let head = source.head(1 << 12)?;
    if byte_source::magic::looks_like_sqlite(head) {
        // Journals lie next to plain files only.
        let beside = Some(path).filter(|path| path.is_file());
        let database = Database::from_source(source, beside)?;
        return Ok(match nsys_db::kind_of(&database) {
            nsys_db::DatabaseKind::Other => Found::OtherDatabase,
            _ => Found::Export(Export::from_database(database)?, None),
        });
    }
    if let Some(error) = nsys_db::not_exported(&name, head) {
        return Err(error.into());
    }
    Ok(Found::Source(Box::new(source)))
}

/// Reads an export into a trace; if there is a `take` and it is possible, all but GPU activities, which go there. The second
/// result says whether they did.
///
/// # Errors
///
/// Returns an error if the export is damaged.
pub(crate) fn load(
    export: &Export,
    process: Option<ProcessKey>,
    options: &ReadOptions,
    clock_shift_ns: i64,
    (verbosity, take): (VerbosityArgs, Option<Take<'_>>),
) -> anyhow::Result<(Trace, bool)> {
    if let Some(warning) = export.warning() {
        verbosity.note(format!("warning: {warning}"));
    }
    let mut load = LoadOptions::default();
    load.args = kept_args(options);
    load.categories.clone_from(&options.categories);
    load.range = options.range;
    load.counters = options.counters;
    load.host_names = match &options.host {
        HostSlices::All => None,
        HostSlices::Launching(names) => Some(names.clone()),
    };
    load.places = options.places;
    load.clock_shift_ns = clock_shift_ns;
    load.process = process;
    load.threads = options.worker_threads();
    let is_whole = options.args == ArgPolicy::All && options.host == HostSlices::All;
    if is_whole && process.is_none() {
        let ranks = nsys_db::communicating_processes(export)?;
        let pids: BTreeSet<i64> = ranks.iter().map(|rank| rank.process.pid()).collect();
        if pids.len() > 1 && pids.len() == ranks.len() {
            load.ranks = ranks.iter().map(|rank| rank.process).collect();
        }
    }
    if let Some(take) = take {
        load.launches = take.deciding.is_some();
        if let Some(rest) = nsys_db::pass(export, &load, take.deciding, take.each)? {
            return Ok((rest, true));
        }
    }
    Ok((nsys_db::load(export, &load)?, false))
}
