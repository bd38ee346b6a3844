//! Writes OTF2 archives in one pass over the records.
//!
//! Threads, queues and memcpys of each process are locations, with an additional location for each
//! depth of overlap.

mod places;

use std::io;
use std::path::{Path, PathBuf};

use byte_source::unfinished::Unfinished;
use otf2_writer::{Archive, Role};
use rocpd_db::{
    AllocType, Allocation, Copy, Dispatch, Filter, KernelNames, Process, Region, RocpdSet,
};

use self::places::{Place, Places};
use crate::items::{Item, Items};
use crate::{AgentIndex, Destination, Error, Result};

/// Options of an archive.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options {
    /// Numbering of agents.
    pub agents: AgentIndex,
    /// Form of kernel names.
    pub kernels: KernelNames,
}

/// Records that the archive could not represent as recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of records left out since they begin before time 0, which the format cannot
    /// represent.
    pub before_zero: u64,
    /// Number of records that end before they start, which have length 0 in the archive.
    pub reversed: u64,
}

/// Writes `<base>_results.otf2`, which appears after everything else of the archive.
///
/// Cost: one pass over all records in order of time; memory is proportional to the number of
/// locations and names.
///
/// # Errors
///
/// Returns an error if a database cannot be read, a file cannot be written, or a folder of the
/// archive's name holds something else.
pub fn write(
    set: &RocpdSet,
    filter: &Filter,
    options: Options,
    to: &Destination,
) -> Result<Report> {
    let anchor = to.file("results.otf2")?;
    let (Some(folder), Some(name)) = (anchor.parent(), anchor.file_stem()) else {
        return Err(Error::Option {
            option: "output name",
            problem: format!("{} names no archive", anchor.display()),
        });
    };
    let name = name.to_string_lossy();
    let events = folder.join(&*name);
    check_replaceable(&events)?;
    let make = || {
        tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".tmp")
            .tempdir_in(folder)
    };
    let (made, _unfinished) = Unfinished::made(make, tempfile::TempDir::path)
        .map_err(failed(folder, "cannot make a temporary folder"))?;

    let creator = concat!("inferscope rocpd ", env!("CARGO_PKG_VERSION"));
    let archive = Archive::create(made.path(), &name, creator)?;
    let mut places = Places::new(archive, set, options.agents);
    let mut items = Items::new(set, filter)?;
    let mut report = Report::default();
    while let Some(item) = items.next()? {
        let (start, end) = match &item {
            Item::Region(r) => (r.start_ns, r.end_ns),
            Item::Dispatch(r) => (r.start_ns, r.end_ns),
            Item::Copy(r) => (r.start_ns, r.end_ns),
            Item::Allocation(r) => (r.start_ns, r.end_ns),
        };
        // The format has no negative times.
        if start < 0 {
            report.before_zero += 1;
            continue;
        }
        report.reversed += u64::from(end < start);
        match item {
            Item::Region(record) => region(&mut places, record)?,
            Item::Dispatch(record) => dispatch(&mut places, record, options.kernels)?,
            Item::Copy(record) => copy(&mut places, record)?,
            Item::Allocation(record) => allocation(&mut places, record)?,
        }
    }
    places.finish()?;
    let put = |from: PathBuf, to: &Path| {
        std::fs::rename(from, to).map_err(failed(to, "cannot put it in place"))
    };
    if events.is_dir() {
        std::fs::remove_dir_all(&events).map_err(failed(&events, "cannot replace it"))?;
    }
    let made_events = made.path().join(&*name);
    if made_events.is_dir() {
        put(made_events, &events)?;
    }
    for extension in ["def", "otf2"] {
        let from = made.path().join(format!("{name}.{extension}"));
        put(from, &anchor.with_extension(extension))?;
    }
    Ok(report)
}

/// Adds the path of a file or folder to an error.
fn failed(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, step, source }
}

/// Checks that a folder of the archive's name holds only events and definitions, so that it may be
/// replaced.
fn check_replaceable(events: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(events) else {
        return Ok(());
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(".evt") && !name.ends_with(".def") {
            return Err(Error::InTheWay {
                path: events.to_owned(),
                holds: name.into_owned(),
            });
        }
    }
    Ok(())
}

fn region(places: &mut Places, r: &Region<'_>) -> Result<()> {
    let place = Place::Thread(r.thread.map(|t| t.id));
    let thread = thread_name(r.thread);
    let name = r.shown_name().unwrap_or("?");
    let at = places.of(r.process, place, (r.start_ns, r.end_ns), || thread)?;
    places.put(
        at,
        (r.start_ns, r.end_ns),
        (name, Role::Function),
        r.category(),
    )
}

fn dispatch(places: &mut Places, r: &Dispatch<'_>, kernel_names: KernelNames) -> Result<()> {
    let made;
    let name = match kernel_names.plain(r) {
        Some(name) => name,
        None => {
            made = kernel_names.of(r);
            &made
        }
    };
    let agent = r.agent.map_or(0, |agent| agent.id);
    let queue = r.queue_id.unwrap_or(0);
    let ordinal = places.queue_number(r.process, agent, queue);
    let place = Place::Compute(r.thread.map(|t| t.id), agent, queue);
    let label = places.agent(r.agent);
    let thread = thread_name(r.thread);
    let at = places.of(r.process, place, (r.start_ns, r.end_ns), || {
        format!("{thread}, Compute on {label}, Queue {ordinal}")
    })?;
    let category = r.event.and_then(|event| event.category);
    places.put(at, (r.start_ns, r.end_ns), (name, Role::Function), category)
}

fn copy(places: &mut Places, r: &Copy<'_>) -> Result<()> {
    let agent = r.dst_agent.map_or(0, |agent| agent.id);
    let place = Place::Copy(r.thread.map(|t| t.id), agent);
    let label = places.agent(r.dst_agent);
    let thread = thread_name(r.thread);
    let at = places.of(r.process, place, (r.start_ns, r.end_ns), || {
        format!("{thread}, Copy to {label}")
    })?;
    let category = r.event.and_then(|event| event.category);
    let what = (r.name.unwrap_or("?"), Role::DataTransfer);
    places.put(at, (r.start_ns, r.end_ns), what, category)
}

fn allocation(places: &mut Places, r: &Allocation<'_>) -> Result<()> {
    let thread = thread_name(r.thread);
    let (place, role) = match r.kind {
        AllocType::Free | AllocType::Reclaim => {
            (Place::Free(r.thread.map(|t| t.id)), Role::Deallocate)
        }
        _ => {
            let agent = r.agent.map_or(0, |agent| agent.id);
            (
                Place::Allocate(r.thread.map(|t| t.id), agent),
                Role::Allocate,
            )
        }
    };
    let label = places.agent(r.agent);
    let at = places.of(r.process, place, (r.start_ns, r.end_ns), || match role {
        Role::Deallocate => format!("{thread}, Memory Deallocate (Free)"),
        _ => format!("{thread}, Memory Allocate at {label}"),
    })?;
    let category = r.event.and_then(|event| event.category);
    let name = format!("MEMORY_ALLOCATION_{}", r.kind.text());
    places.put(at, (r.start_ns, r.end_ns), (&name, role), category)
}

fn thread_name(thread: Option<&rocpd_db::Thread>) -> String {
    match thread {
        Some(thread) => format!("Thread {}", thread.tid),
        None => "Thread ?".to_owned(),
    }
}

/// Returns the name of a process in the archive.
fn program(process: &Process) -> &str {
    let command = process.command.as_deref().unwrap_or_default();
    command.split_whitespace().next().unwrap_or("process")
}
