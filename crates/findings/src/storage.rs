//! Reads from storage beside the steps, on the clock of the recordings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use blkio_companions::clock::{Anchor, anchors_of_json, from_anchors};
use blkio_parser::pipeline::{self, ReadOptions};
use blkio_parser::{Direction, EventKind};
use trace_model::interval::Interval;

use crate::document::{Evidence, StepBytes, Storage};
use crate::draft::{Draft, Gain, Strength};
use crate::family::{Context, without};
use crate::job::{Job, Phase, overlap};
use crate::numbers::{median, time};

/// A read request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    issue_ns: i64,
    complete_ns: i64,
    bytes: u64,
}

/// Read requests of a block I/O trace, in wall time.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    name: String,
    /// By issue, nanoseconds since 1970.
    reads: Vec<Read>,
    /// How the clocks were joined; empty if they were not.
    clock: String,
    within_ns: i64,
    /// Why the reads cannot be put beside the steps.
    problem: Option<String>,
}

impl Reads {
    /// Reads the requests of a block I/O trace: one file, or the files of blktrace by processor. `clock` is a file of readings of
    /// both clocks beside it, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error of the file as text.
    pub fn new(paths: &[PathBuf], clock: Option<&[u8]>) -> Result<Self, String> {
        let mut open: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
        let mut found: Vec<(u64, u64, u64)> = Vec::new();
        let mut options = ReadOptions::default();
        options.threads = 1;
        let cell = std::cell::RefCell::new((&mut open, &mut found));
        let outcome = pipeline::read(
            paths,
            &options,
            &mut |events| {
                let (open, found) = &mut *cell.borrow_mut();
                for event in events
                    .iter()
                    .filter(|event| event.direction == Direction::Read)
                {
                    let place = (event.dev, event.sector);
                    match event.kind {
                        EventKind::Issue if event.other_ns > 0 => {
                            found.push((event.t_ns, event.other_ns, event.bytes.into()));
                        }
                        EventKind::Issue => {
                            open.insert(place, (event.t_ns, event.bytes.into()));
                        }
                        EventKind::Complete => {
                            if let Some((issue, bytes)) = open.remove(&place) {
                                found.push((issue, event.t_ns, bytes));
                            }
                        }
                        _ => {}
                    }
                }
            },
            &mut || {
                let (open, found) = &mut *cell.borrow_mut();
                open.clear();
                found.clear();
            },
        )
        .map_err(|error| error.to_string())?;
        let counts = outcome.counts();
        let mut anchors: Vec<Anchor> = counts.anchors;
        let of_file = clock.map(anchors_of_json).unwrap_or_default();
        let is_of_file = anchors.is_empty() && !of_file.is_empty();
        if is_of_file {
            anchors = of_file;
        }
        let name = paths
            .first()
            .map_or_else(String::new, |path| path.display().to_string());
        let Some(alignment) = from_anchors(&anchors) else {
            return Ok(Self {
                name,
                problem: Some(
                    "it holds no readings of wall time, so that its clock cannot be joined to that of the recording: record it with 'inferscope blkio collect', or give its clock.json"
                        .to_owned(),
                ),
                ..Self::default()
            });
        };
        let wall = |ns: u64| i64::try_from(alignment.wall_of(ns)).unwrap_or(i64::MAX);
        let mut reads: Vec<Read> = found
            .into_iter()
            .map(|(issue, complete, bytes)| Read {
                issue_ns: wall(issue),
                complete_ns: wall(complete.max(issue)),
                bytes,
            })
            .collect();
        reads.sort_unstable_by_key(|read| (read.issue_ns, read.complete_ns));
        Ok(Self {
            name,
            reads,
            clock: match is_of_file {
                true => "readings of both clocks beside the block I/O trace",
                false => "readings of both clocks in the block I/O trace",
            }
            .to_owned(),
            within_ns: i64::try_from(alignment.uncertainty_ns).unwrap_or(i64::MAX),
            problem: None,
        })
    }

    /// Returns the name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns why it cannot be put beside the steps of a recording.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the uncertainty of its clock.
    pub(crate) fn within_ns(&self) -> i64 {
        self.within_ns
    }

    /// Returns `true` if reads lie in the steps of a job.
    pub(crate) fn meets(&self, job: &Job) -> bool {
        self.on(job).is_some()
    }

    /// Returns the reads on the clock of a job; `None` if that has no wall time, or none of them lies in its steps.
    fn on(&self, job: &Job) -> Option<Vec<Read>> {
        if self.problem.is_some() || job.base_ns == 0 {
            return None;
        }
        let moved = self.reads.iter().map(|read| Read {
            issue_ns: read.issue_ns - job.base_ns,
            complete_ns: read.complete_ns - job.base_ns,
            bytes: read.bytes,
        });
        let begin = job.steps.first()?.row.begin_ns - self.within_ns;
        let end = job.steps.last()?.row.end_ns + self.within_ns;
        let all: Vec<Read> = moved
            .filter(|read| read.complete_ns > begin && read.issue_ns < end)
            .collect();
        (!all.is_empty()).then_some(all)
    }
}

/// Returns the union of the reads in flight.
fn in_flight(reads: &[Read]) -> Vec<Interval> {
    let mut out: Vec<Interval> = Vec::new();
    for read in reads {
        match out.last_mut() {
            Some(last) if read.issue_ns <= last.1 => last.1 = last.1.max(read.complete_ns),
            _ => out.push((read.issue_ns, read.complete_ns)),
        }
    }
    out
}

/// Returns the time of an interval in which the GPU idled while reads were in flight.
fn idle_while(busy: &[Interval], flying: &[Interval], (begin, end): Interval) -> i64 {
    let from = flying.partition_point(|(_, last)| *last <= begin);
    let mut sum = 0;
    for (first, last) in flying.get(from..).unwrap_or_default() {
        if *first >= end {
            break;
        }
        let part = (*first.max(&begin), *last.min(&end));
        sum += part.1 - part.0 - overlap(busy, part);
    }
    sum
}

/// Ratio to what chance makes below which idle time has nothing to do with reads.
const CHANCE: f64 = 1.1;

/// Ratio from which it clearly has.
const CLEAR: f64 = 1.5;

/// Returns how many times as much the GPU idles while reads are in flight as it does over all steps of a phase: 1 if reads are
/// unrelated to the steps.
#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn beside_by_chance(job: &Job, phase: &Phase, busy: &[Interval], flying: &[Interval]) -> f64 {
    let (mut whole, mut idle, mut flight, mut both) = (0, 0, 0, 0);
    for step in job.of(phase) {
        let span = (step.row.begin_ns, step.row.end_ns);
        whole += span.1 - span.0;
        idle += span.1 - span.0 - overlap(busy, span);
        flight += overlap(flying, span);
        both += idle_while(busy, flying, span);
    }
    let share = |part: i64, whole: i64| part as f64 / whole.max(1) as f64;
    let usual = share(idle, whole);
    match usual > 0.0 && flight > 0 {
        true => share(both, flight) / usual,
        false => 0.0,
    }
}

/// Returns the figures of storage.
pub(crate) fn figures(job: &Job, reads: &Reads) -> Option<Storage> {
    let all = reads.on(job)?;
    let flying = in_flight(&all);
    let busy = &job.headline_facts().busy;
    let mut bytes_per_step = Vec::new();
    for step in &job.steps {
        let (begin, end) = (step.row.begin_ns, step.row.end_ns);
        let from = all.partition_point(|read| read.issue_ns < begin);
        let own = all.get(from..).unwrap_or_default().iter();
        let bytes = own
            .take_while(|read| read.issue_ns < end)
            .map(|read| read.bytes)
            .sum();
        bytes_per_step.push(StepBytes {
            rank: job.rank(),
            step: step.row.step,
            bytes,
            idle_ns: idle_while(busy, &flying, (begin, end)),
        });
    }
    let tokens: Option<u64> = job.steps.iter().map(|step| step.tokens).sum();
    let bytes: u64 = bytes_per_step.iter().map(|step| step.bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let per_token = tokens
        .filter(|tokens| *tokens > 0)
        .map(|tokens| bytes as f64 / tokens as f64);
    Some(Storage {
        clock: reads.clock.clone(),
        clock_within_ns: reads.within_ns,
        idle_while_reading_ns: bytes_per_step.iter().map(|step| step.idle_ns).sum(),
        longest_ns: all
            .iter()
            .map(|read| read.complete_ns - read.issue_ns)
            .max()
            .unwrap_or(0),
        bytes_per_step,
        bytes_per_token: per_token,
    })
}

/// Returns the draft for steps that wait for reads.
pub(crate) fn draft(context: &Context<'_>, phase: &Phase, reads: &Reads) -> Option<Draft> {
    let job = context.job;
    let all = reads.on(job)?;
    let flying = in_flight(&all);
    let busy = &job.headline_facts().busy;
    let mut draft = Draft::new("disk_reads", phase);
    let each = phase.steps.iter().map(|at| {
        let row = &job.steps[*at].row;
        (*at, idle_while(busy, &flying, (row.begin_ns, row.end_ns)))
    });
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let by_chance = beside_by_chance(job, phase, busy, &flying);
    if by_chance < CHANCE {
        return None;
    }
    // The clocks have to be known far better than the time that is claimed.
    let typical = median(draft.values.iter().map(|(_, ns)| *ns));
    draft.strength = match (reads.within_ns * 4 <= typical, reads.within_ns <= typical) {
        (true, _) => Strength::Recorded,
        (_, true) => Strength::Favoured,
        _ => Strength::Fits,
    };
    if by_chance < CLEAR {
        draft.strength = Strength::Fits;
    }
    draft.evidence.push(Evidence {
        text: format!(
            "the GPU idles {by_chance:.2} times as much while reads are in flight as in all of these steps"
        ),
        file: Some(reads.name.clone()),
        ..Evidence::default()
    });
    draft.rank = Some(job.rank());
    // What the host did meanwhile: the name with most time on the path in the idle time.
    let host = super::family::host_name(context, phase);
    draft.gain = match &host {
        Some((class, name)) => without(*class, name).capped(),
        None => Gain::Unknown,
    };
    if let Some((_, name)) = host {
        let named = job.headline_facts().examples.of(&name);
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
        draft.name = Some(name);
    }
    let bytes: u64 = all.iter().map(|read| read.bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let size = report::human::bytes(bytes as f64);
    draft.evidence.push(Evidence {
        text: format!(
            "{} reads of {size} in all during the steps; the longest takes {}; clocks joined by {}, within {}",
            report::human::count(all.len() as u64),
            time(all.iter().map(|read| read.complete_ns - read.issue_ns).max().unwrap_or(0)),
            reads.clock,
            time(reads.within_ns)
        ),
        file: Some(reads.name.clone()),
        ..Evidence::default()
    });
    draft.commands.push(format!(
        "inferscope blkio stats {}",
        crate::words::quoted(&reads.name)
    ));
    draft.commands.push(context.path_command(&draft));
    Some(draft.word("idle", time(typical)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_beside_reads_is_that_of_single_instants() {
        let busy = [(0, 4), (9, 12), (15, 16)];
        let flying = [(2, 6), (8, 11), (13, 20)];
        let is_in = |all: &[Interval], at: i64| all.iter().any(|(a, b)| *a <= at && at < *b);
        for begin in 0..22 {
            for end in begin..22 {
                let each = (begin..end).filter(|at| is_in(&flying, *at) && !is_in(&busy, *at));
                assert_eq!(
                    idle_while(&busy, &flying, (begin, end)),
                    each.count() as i64
                );
            }
        }
    }
}
