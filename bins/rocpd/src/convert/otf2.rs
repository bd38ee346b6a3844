//! OTF2 archives, written as the records come.

mod places;

use anyhow::Context as _;
use byte_source::unfinished::Unfinished;
use otf2_writer::{Archive, Role};
use rocpd_db::{
    AllocType, Allocation, Copy, Dispatch, Filter, KernelNames, Process, Region, RocpdSet,
};

use self::places::{Place, Places};
use super::items::{Item, Items};
use crate::args::ConvertArgs;
use crate::names::OutputNames;

/// Writes `<base>_results.otf2`, which is there when everything else of the archive is.
pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
) -> anyhow::Result<()> {
    let anchor = names.with("results.otf2")?;
    let (Some(folder), Some(name)) = (anchor.parent(), anchor.file_stem()) else {
        anyhow::bail!("{}: no name for an archive", anchor.display());
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
        .with_context(|| format!("{}: cannot make a temporary folder", folder.display()))?;

    let creator = concat!("inferscope rocpd ", env!("CARGO_PKG_VERSION"));
    let archive = Archive::create(made.path(), &name, creator)?;
    let mut places = Places::new(archive, set, args);
    let kernel_names = KernelNames::from(&args.names);
    let mut items = Items::new(set, filter)?;
    let (mut before_zero, mut reversed) = (0_u64, 0_u64);
    while let Some(item) = items.next()? {
        let (start, end) = match &item {
            Item::Region(r) => (r.start_ns, r.end_ns),
            Item::Dispatch(r) => (r.start_ns, r.end_ns),
            Item::Copy(r) => (r.start_ns, r.end_ns),
            Item::Allocation(r) => (r.start_ns, r.end_ns),
        };
        // The format has no times below 0.
        if start < 0 {
            before_zero += 1;
            continue;
        }
        reversed += u64::from(end < start);
        match item {
            Item::Region(record) => region(&mut places, record)?,
            Item::Dispatch(record) => dispatch(&mut places, record, kernel_names)?,
            Item::Copy(record) => copy(&mut places, record)?,
            Item::Allocation(record) => allocation(&mut places, record)?,
        }
    }
    places.finish()?;
    let verbosity = args.shared.verbosity;
    if before_zero > 0 {
        verbosity.note(format!(
            "warning: {before_zero} records begin before time 0 and are left out"
        ));
    }
    if reversed > 0 {
        verbosity.note(format!(
            "warning: {reversed} records end before they start: the archive has them with length 0"
        ));
    }

    let put = |from: std::path::PathBuf, to: &std::path::Path| {
        std::fs::rename(&from, to)
            .with_context(|| format!("{}: cannot put it in place", to.display()))
    };
    if events.is_dir() {
        std::fs::remove_dir_all(&events)
            .with_context(|| format!("{}: cannot replace it", events.display()))?;
    }
    let made_events = made.path().join(&*name);
    if made_events.is_dir() {
        put(made_events, &events)?;
    }
    for extension in ["def", "otf2"] {
        let from = made.path().join(format!("{name}.{extension}"));
        put(from, &anchor.with_extension(extension))?;
    }
    Ok(())
}

/// A folder of the archive's name is replaced only if it is one of events.
fn check_replaceable(events: &std::path::Path) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(events) else {
        return Ok(());
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(".evt") && !name.ends_with(".def") {
            anyhow::bail!(
                "{}: is in the way of the archive and holds {name}: choose another name with -o",
                events.display()
            );
        }
    }
    Ok(())
}

fn region(places: &mut Places, r: &Region<'_>) -> anyhow::Result<()> {
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

fn dispatch(
    places: &mut Places,
    r: &Dispatch<'_>,
    kernel_names: KernelNames,
) -> anyhow::Result<()> {
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

fn copy(places: &mut Places, r: &Copy<'_>) -> anyhow::Result<()> {
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

fn allocation(places: &mut Places, r: &Allocation<'_>) -> anyhow::Result<()> {
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

/// What a process is called in the archive.
fn program(process: &Process) -> &str {
    let command = process.command.as_deref().unwrap_or_default();
    command.split_whitespace().next().unwrap_or("process")
}
