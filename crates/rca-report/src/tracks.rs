//! Cycles as tracks to open next to the trace.

use rca_cycles::compare::Comparison;
use rca_cycles::{Analysis, StepPaths};
use trace_model::{
    ArgsRef, BuildError, FinishOptions, Pid, Process, SliceData, Trace, TraceBuilder, Track,
    TrackKind,
};

use crate::document::{blame, sums};

/// Name, start and end of a span, in nanoseconds.
type Span = (String, i64, i64);

/// Name of the track of what bounds each step.
const BOUND: &str = "bound";

/// Spans of one job, in nanoseconds, by track.
#[derive(Debug, Clone)]
pub struct Job {
    name: String,
    /// Names of tracks with their spans.
    tracks: Vec<(String, Vec<Span>)>,
}

/// Returns cycles, phases, exposed communication and the functions that are slow in a few cycles.
#[must_use]
pub fn job(name: &str, analysis: &Analysis) -> Job {
    let cycles = analysis.cycles.iter().enumerate();
    let spans = cycles
        .map(|(i, c)| {
            let partial = if c.partial.is_some() {
                " (partial)"
            } else {
                ""
            };
            let text = format!("cycle {i} {}{partial}", c.phase.name());
            (text, c.start_ns, c.end_ns)
        })
        .collect();
    let mut tracks = vec![("cycles".to_owned(), spans)];
    tracks.push(("phases".to_owned(), phases(analysis)));
    let exposed = analysis.exposed_communication.iter();
    tracks.push((
        "exposed communication".to_owned(),
        exposed
            .map(|&(start, end)| ("exposed communication".to_owned(), start, end))
            .collect(),
    ));
    for i in analysis.interference.iter().take(10) {
        let f = &analysis.functions[i.function];
        let spans = i.cycles.iter().filter_map(|&c| {
            let c = analysis.cycles.get(c as usize)?;
            Some((f.name.clone(), c.start_ns, c.end_ns))
        });
        tracks.push((format!("slow: {}", f.name), spans.collect()));
    }
    Job {
        name: name.to_owned(),
        tracks,
    }
}

/// Returns the runs of cycles of one phase.
fn phases(analysis: &Analysis) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for c in &analysis.cycles {
        match spans.last_mut() {
            Some((name, _, end)) if *name == c.phase.name() && *end == c.start_ns => {
                *end = c.end_ns;
            }
            _ => spans.push((c.phase.name().to_owned(), c.start_ns, c.end_ns)),
        }
    }
    spans
}

impl Job {
    /// Adds the steps of the cycles with what bounds each, instead of those added before.
    #[must_use]
    pub fn with_steps(mut self, analysis: &Analysis, paths: &StepPaths) -> Self {
        let steps = (0..analysis.cycles.len()).filter_map(|at| paths.of_cycle(at));
        let spans = steps.map(|step| (step.verdict.to_owned(), step.begin_ns, step.end_ns));
        let spans = spans.collect();
        match self.tracks.iter_mut().find(|(title, _)| title == BOUND) {
            Some((_, before)) => *before = spans,
            None => self.tracks.push((BOUND.to_owned(), spans)),
        }
        self
    }

    /// Adds the most costly functions of the trace: the longest event of each.
    #[must_use]
    pub fn with_blame(mut self, trace: &Trace, analysis: &Analysis) -> Self {
        for (i, f) in blame(analysis).into_iter().take(10).enumerate() {
            let Some(slice) = sums(analysis, f).4.map(|id| trace.slice(id)) else {
                continue;
            };
            let span = (f.name.clone(), slice.ts().nanos(), slice.end().nanos());
            let title = format!("cost {}: {} {}", i + 1, f.kind.name(), f.name);
            self.tracks.push((title, vec![span]));
        }
        self
    }

    /// Adds what makes this recording, one of the abnormal side, slower than the normal side: the
    /// events that show each culprit.
    #[must_use]
    pub fn with_culprits(mut self, run: usize, found: &Comparison) -> Self {
        for (i, c) in found.culprits.iter().enumerate() {
            let shown = c.evidence.iter().filter(|e| e.run == run);
            let mut spans: Vec<Span> = shown
                .map(|e| {
                    let text = format!("{} (+{} ns a cycle)", c.name, c.effect_ns);
                    (text, e.at_ns.0, e.at_ns.1)
                })
                .collect();
            spans.sort_by_key(|s| (s.1, s.2));
            spans.dedup();
            if !spans.is_empty() {
                let title = format!("culprit {}: {} {}", i + 1, c.kind.name(), c.name);
                self.tracks.push((title, spans));
            }
        }
        self
    }
}

/// Returns the spans of all jobs as a trace, a process for each job.
///
/// # Errors
///
/// More spans than a trace can hold.
pub fn trace(jobs: &[&Job]) -> Result<Trace, BuildError> {
    let mut builder = TraceBuilder::new();
    for (n, job) in jobs.iter().enumerate() {
        let name = builder.string(&format!("cycle-rca {}", job.name));
        let process = builder.process(Process {
            name: Some(name),
            ..Process::new(Pid(900_000_000 + i64::try_from(n).unwrap_or(0)))
        });
        for (title, spans) in &job.tracks {
            let title = builder.string(title);
            let track = builder.track(Track {
                name: Some(title),
                process: Some(process),
                ..Track::new(TrackKind::ProcessChild)
            });
            let lane = builder.lane(Some(track));
            let text = builder.string("cycle-rca");
            let category = builder.events.category(text);
            for (text, start, end) in spans {
                let name = Some(builder.string(text));
                let data = SliceData {
                    name,
                    category,
                    args: ArgsRef::NONE,
                };
                builder.events.complete(lane, *start, end - start, data);
            }
        }
    }
    builder.finish(&FinishOptions::default())
}
