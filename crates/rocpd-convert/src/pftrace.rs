//! Writes Perfetto traces in one pass over the records.

mod annotations;
mod by_event;
mod call_args;
mod overlap;
mod packed;
mod part;
mod places;
mod report;
mod sampled;
mod split;
mod sums;
mod texts;
mod timeline;

use rocpd_db::{DeviceNumbers, Filter, KernelNames, RocpdSet};
use serde_json::json;

use crate::file::OutputFile;
use crate::items::{Items, Kept};
use crate::{AgentIndex, Destination, Result};
use call_args::ArgTable;
use packed::TraceFile;
use part::{Job, Part};
use sampled::Sampled;
use split::Cuts;
use sums::CounterSums;

pub use report::PartReport;

/// Policy for overlapping device slices of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Places each slice on a track where it overlaps with none.
    #[default]
    Lanes,
    /// Keeps all on one track; two that overlap are both cut in the middle of their intersection
    /// (flag `clipped`), across all parts.
    Split,
    /// Keeps all on one track uncut, as nested slices where they nest.
    Raw,
}

/// Unit of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBy {
    /// Each process.
    Process,
    /// Each rank.
    Rank,
    /// Each node.
    Node,
}

/// Splits one recording into several files over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// Writes one file.
    #[default]
    Whole,
    /// Writes this number of files of equal duration.
    Parts(u32),
    /// Writes a file for each interval of this length, in nanoseconds.
    Every(i64),
    /// Closes a file once it has this many bytes, before compression.
    Bytes(u64),
}

/// Arguments of slices to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shown {
    /// All arguments.
    #[default]
    All,
    /// The arguments with these keys; none if the list is empty.
    Only(Vec<String>),
}

/// Options of a trace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Numbering of agents.
    pub agents: AgentIndex,
    /// Form of kernel names.
    pub kernels: KernelNames,
    /// `true` for tracks by queue instead of stream.
    pub group_by_queue: bool,
    /// Arguments of slices to write.
    pub shown: Shown,
    /// `true` to write the arguments of calls (`args.NAME`) too.
    pub call_args: bool,
    /// `true` to write the arguments of kernel driver events (KFD), even without
    /// [`Self::call_args`] if all arguments are written.
    pub kfd_args: bool,
    /// `true` to write counters in the slices of their kernels, regardless of [`Self::shown`] and
    /// [`Self::counters`].
    pub counters_in_slices: bool,
    /// `true` to write flow arrows from calls to the activity that they launched.
    pub flows: bool,
    /// `true` to write counters.
    pub counters: bool,
    /// Policy for overlapping device slices.
    pub overlap: Overlap,
    /// `true` to compress files with gzip.
    pub gzip: bool,
    /// Split into several files over time.
    pub cut: Cut,
    /// Split into several files by process, rank or node.
    pub split_by: Option<SplitBy>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            agents: AgentIndex::default(),
            kernels: KernelNames::default(),
            group_by_queue: false,
            shown: Shown::default(),
            call_args: false,
            kfd_args: true,
            counters_in_slices: false,
            flows: true,
            counters: true,
            overlap: Overlap::default(),
            gzip: false,
            cut: Cut::default(),
            split_by: None,
        }
    }
}

impl Options {
    fn splits(&self) -> bool {
        self.cut != Cut::Whole || self.split_by.is_some()
    }
}

/// Report on the written files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Each file, in the order in which they were written.
    pub parts: Vec<PartReport>,
}

impl Report {
    /// Returns the number of records left out since they begin before time 0, which the format
    /// cannot represent.
    #[must_use]
    pub fn before_zero(&self) -> u64 {
        self.parts.iter().map(|part| part.before_zero).sum()
    }

    /// Returns the number of records that end before they start, which are instants in the trace.
    #[must_use]
    pub fn reversed(&self) -> u64 {
        self.parts.iter().map(|part| part.reversed).sum()
    }

    /// Returns the number of frees of addresses that were not allocated in the recording.
    #[must_use]
    pub fn unmatched_frees(&self) -> u64 {
        self.parts.iter().map(|part| part.unmatched_frees).sum()
    }
}

/// Writes `<base>_results.pftrace`; with [`Options::cut`] or [`Options::split_by`] several files
/// and a manifest, `<base>_manifest.json`, that describes each.
///
/// Cost: one pass over all records in order of time. Memory is proportional to the names, tracks
/// and open records; other data that exceed memory are stored in unnamed files in the folder of the
/// output.
///
/// # Errors
///
/// Returns an error if a database cannot be read, a file cannot be written, or cuts would make more
/// than 100,000 files.
pub fn write(
    set: &RocpdSet,
    filter: &Filter,
    options: &Options,
    to: &Destination,
) -> Result<Report> {
    // Data that exceed memory are stored in the folder of the traces, which has room for more.
    let folder = to.file("results.pftrace")?;
    let folder = folder.parent().unwrap_or(&folder);
    let job = Job {
        set,
        options,
        sums: CounterSums::read(set, options, folder)?,
        call_args: ArgTable::read(set, options, folder)?,
        devices: DeviceNumbers::new(set),
    };
    let groups = groups(set, filter, options.split_by);
    let mut parts = Vec::new();
    for (label, filter) in &groups {
        let cuts = Cuts::new(set, filter, options.cut)?;
        one_group(&job, filter, to, &cuts, label.as_deref(), &mut parts)?;
    }
    if options.splits() {
        let path = to.file("manifest.json")?;
        let list: Vec<serde_json::Value> = parts.iter().map(PartReport::json).collect();
        let mut out = OutputFile::create(&path)?;
        serde_json::to_writer_pretty(&mut out, &json!({"schema_version": "1.0", "parts": list}))?;
        std::io::Write::write_all(&mut out, b"\n")?;
        out.finish()?;
    }
    Ok(Report { parts })
}

/// Returns the files by content: a single one, or one for each process, rank or node.
fn groups(set: &RocpdSet, filter: &Filter, by: Option<SplitBy>) -> Vec<(Option<String>, Filter)> {
    let Some(by) = by else {
        return vec![(None, filter.clone())];
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for process in set.processes() {
        let label = match by {
            SplitBy::Node => process.hostname.clone(),
            SplitBy::Rank => match process.rank {
                Some(rank) => format!("rank{rank}"),
                None => format!("{}_{}", process.hostname, process.pid),
            },
            SplitBy::Process => format!("{}_{}", process.hostname, process.pid),
        };
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, guids)) => guids.push(process.guid.clone()),
            None => groups.push((label, vec![process.guid.clone()])),
        }
    }
    groups
        .into_iter()
        .map(|(label, guids)| {
            let mut filter = filter.clone();
            filter.guids = Some(match filter.guids.take() {
                Some(list) => guids
                    .into_iter()
                    .filter(|guid| list.contains(guid))
                    .collect(),
                None => guids,
            });
            (Some(label), filter)
        })
        .collect()
}

fn one_group<'a>(
    job: &'a Job<'a>,
    filter: &'a Filter,
    to: &Destination,
    cuts: &Cuts,
    label: Option<&str>,
    parts: &mut Vec<PartReport>,
) -> Result<()> {
    let mut number = 0;
    let mut open = |cut: (Option<i64>, Option<i64>)| -> Result<Part<'a, TraceFile>> {
        let mut name = String::new();
        if let Some(label) = label {
            name += &label.replace(
                |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c),
                "_",
            );
            name.push('_');
        }
        if cuts.several() {
            name += &format!("part{number:04}_");
        }
        number += 1;
        let packed = job.options.gzip;
        let extension = if packed { "pftrace.gz" } else { "pftrace" };
        let path = to.file(&format!("{name}results.{extension}"))?;
        let file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let out = TraceFile::create(&path, packed)?;
        Part::new(file, out, job, filter, cut.1)
    };
    let mut part = open(cuts.bounds(0))?;
    let mut window = 0;
    let mut carried: Vec<Kept<'a>> = Vec::new();
    let session = match job.options.counters {
        true => sampled::session(job.set, filter)?,
        false => None,
    };
    let mut statement = session.as_ref().map(sampled::statement).transpose()?;
    let mut sampled = Sampled::new(job.set, filter, statement.as_mut())?;
    let mut items = Items::new(job.set, filter)?;
    while let Some(item) = items.next()? {
        loop {
            let due = cuts.is_due(window, item.start_ns()) || cuts.is_full(part.bytes_written());
            if !due {
                break;
            }
            // A full part ends where this record begins; a part of a time interval at its end.
            window += 1;
            let bounds = cuts.bounds(window);
            let at = bounds.0.unwrap_or(item.start_ns());
            sampled.write(&mut part, at)?;
            let mut done = part.finish(at)?;
            let live = std::mem::take(&mut done.live);
            let cutter = std::mem::take(&mut done.cutter);
            close(done, job.options.splits(), parts)?;
            part = open(bounds)?;
            part.resume(live, cutter, at)?;
            carried.retain(|kept| kept.item().end_ns() > at);
            if cuts.by_time() {
                for kept in &carried {
                    part.add(kept.item(), at)?;
                }
            }
        }
        if cuts.by_time() && cuts.bounds(window).1.is_some_and(|end| item.end_ns() > end) {
            carried.push(item.kept());
        }
        sampled.write(&mut part, item.start_ns())?;
        part.add(item, item.start_ns())?;
    }
    sampled.write(&mut part, i64::MAX)?;
    let done = part.finish(i64::MAX)?;
    close(done, job.options.splits(), parts)
}

fn close(done: part::Done<'_, TraceFile>, split: bool, parts: &mut Vec<PartReport>) -> Result<()> {
    if done.report.events == 0 && (split || !parts.is_empty()) {
        // An empty interval needs no file.
        return Ok(());
    }
    let mut report = done.report;
    report.file_bytes = done.out.finish()?;
    parts.push(report);
    Ok(())
}
