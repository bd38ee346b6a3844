//! Perfetto traces, written as the records come.

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

use cli::{Output, usage};
use rocpd_db::{DeviceNumbers, Filter, RocpdSet};
use serde_json::json;

use super::items::{Items, Kept};
use crate::args::{ConvertArgs, SplitBy};
use crate::names::OutputNames;
use call_args::ArgTable;
use packed::TraceFile;
use part::{Job, Part};
use report::Report;
use sampled::Sampled;
use split::Cuts;
use sums::CounterSums;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
) -> anyhow::Result<()> {
    let perfetto = &args.perfetto;
    if perfetto.split_time.is_some() && perfetto.split_bytes.is_some() {
        return Err(usage("--split-time and --split-bytes: choose one"));
    }
    // What is too much for memory waits where the traces go, which has room for more.
    let folder = names.with("results.pftrace")?;
    let folder = folder.parent().unwrap_or(&folder);
    let job = Job {
        set,
        args,
        sums: CounterSums::read(set, args, folder)?,
        call_args: ArgTable::read(set, perfetto, folder)?,
        devices: DeviceNumbers::new(set),
    };
    let groups = groups(set, filter, perfetto.split_by);
    let split = groups.len() > 1
        || perfetto.split_time.is_some()
        || perfetto.split_bytes.is_some()
        || perfetto.split_by.is_some();
    let mut parts = Vec::new();
    for (label, filter) in &groups {
        let cuts = Cuts::new(set, filter, perfetto)?;
        one_group(
            &job,
            filter,
            names,
            &cuts,
            label.as_deref(),
            split,
            &mut parts,
        )?;
    }
    let (mut warned, mut before_zero) = (0, 0);
    for (_, report) in &parts {
        warned += report.unmatched_frees;
        before_zero += report.before_zero;
    }
    if before_zero > 0 {
        args.shared.verbosity.note(format!(
            "warning: {before_zero} records begin before time 0 and are left out"
        ));
    }
    if warned > 0 {
        args.shared.verbosity.note(format!(
            "note: {warned} frees of addresses that were not allocated in the recording"
        ));
    }
    if split {
        let path = names.with("manifest.json")?;
        let list: Vec<serde_json::Value> = parts
            .iter()
            .map(|(file, report)| report.json(file))
            .collect();
        let mut out = Output::file(&path)?;
        serde_json::to_writer_pretty(&mut out, &json!({"schema_version": "1.0", "parts": list}))?;
        std::io::Write::write_all(&mut out, b"\n")?;
        out.finish()?;
    }
    Ok(())
}

/// The files by what they hold: everything, or a process or node each.
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
    names: &OutputNames,
    cuts: &Cuts,
    label: Option<&str>,
    split: bool,
    parts: &mut Vec<(String, Report)>,
) -> anyhow::Result<()> {
    let mut number = 0;
    let mut open = |cut: (Option<i64>, Option<i64>)| -> anyhow::Result<Part<'a, TraceFile>> {
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
        let packed = job.args.perfetto.gzip;
        let extension = if packed { "pftrace.gz" } else { "pftrace" };
        let path = names.with(&format!("{name}results.{extension}"))?;
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
    let session = match job.args.perfetto.no_counters {
        true => None,
        false => sampled::session(job.set, filter)?,
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
            // A part that is full ends where this record begins; one of a span of time at its end.
            window += 1;
            let bounds = cuts.bounds(window);
            let at = bounds.0.unwrap_or(item.start_ns());
            sampled.write(&mut part, at)?;
            let mut done = part.finish(at)?;
            let live = std::mem::take(&mut done.live);
            let cutter = std::mem::take(&mut done.cutter);
            close(done, split, parts)?;
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
    close(done, split, parts)
}

fn close(
    done: part::Done<'_, TraceFile>,
    split: bool,
    parts: &mut Vec<(String, Report)>,
) -> anyhow::Result<()> {
    let file = done.file;
    if done.report.events == 0 && (split || !parts.is_empty()) {
        // An empty span of time needs no file.
        return Ok(());
    }
    let mut report = done.report;
    report.file_bytes = done.out.finish()?;
    parts.push((file, report));
    Ok(())
}
