//! Cycles as tracks to open beside the trace.

use std::path::Path;

use perfetto_reader::write::write_trace;
use rca_cycles::Analysis;
use shell::Output;
use trace_model::{
    ArgsRef, FinishOptions, Pid, Process, SliceData, TraceBuilder, Track, TrackKind,
};

/// Name, start and end of a span, ns.
type Span = (String, i64, i64);

/// Spans of one job, ns, by track.
pub(crate) struct Job {
    name: String,
    /// Names of tracks and what is on them.
    tracks: Vec<(String, Vec<Span>)>,
}

pub(crate) fn job(name: &str, analysis: &Analysis) -> Job {
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
    let bound = analysis
        .cycles
        .iter()
        .filter_map(|c| {
            let bound = c.critical_path.bound()?;
            Some((format!("{} bound", bound.name()), c.start_ns, c.end_ns))
        })
        .collect();
    tracks.push(("critical path".to_owned(), bound));
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

pub(crate) fn write(path: &Path, jobs: &[&Job]) -> anyhow::Result<()> {
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
    let trace = builder.finish(&FinishOptions::default())?;
    let mut out = Output::file(path)?;
    write_trace(&trace, &mut out)?;
    out.finish()
}
