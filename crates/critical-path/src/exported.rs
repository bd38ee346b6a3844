//! Exports the path as a trace.

use trace_model::{
    ArgsRef, BuildError, FinishOptions, FlowPoint, FlowRole, FlowSpace, Pid, Process, SliceData,
    Thread, Tid, Trace, TraceBuilder, Track, TrackKind,
};

use crate::Analysis;

/// Returns the path as a trace: a process for each rank, a track for each group, flow arrows from
/// one segment to the next.
///
/// The trace holds the segments that the analysis was asked to keep; open it next to the recording
/// in a viewer.
///
/// # Errors
///
/// Returns an error if there are more segments than a trace can hold.
pub fn path_trace(analysis: &Analysis) -> Result<Trace, BuildError> {
    let mut builder = TraceBuilder::new();
    let mut lanes = std::collections::BTreeMap::new();
    let category = builder.events.strings.intern("critical_path");
    let category = builder.events.category(category);
    let mut before: Option<(u32, u32)> = None;
    for (at, row) in analysis.segments.iter().enumerate() {
        let group = row.segment.class.group();
        let key = (row.rank, group);
        let lane = *lanes.entry(key).or_insert_with(|| {
            let name = format!("critical path of rank {}", row.rank);
            let name = builder.events.strings.intern(&name);
            let process = builder.process(Process {
                name: Some(name),
                ..Process::new(Pid(i64::from(row.rank) + 1))
            });
            let name = builder.events.strings.intern(group.name());
            let thread = builder.thread(Thread {
                name: Some(name),
                ..Thread::new(Tid(group as i64 + 1), Some(process))
            });
            let track = builder.track(Track {
                process: Some(process),
                thread: Some(thread),
                ..Track::new(TrackKind::Thread)
            });
            builder.lane(Some(track))
        });
        let segment = &row.segment;
        let name = match segment.name.as_str() {
            "" => segment.class.name(),
            name => format!("{}: {name}", segment.class.name()),
        };
        let data = SliceData {
            name: Some(builder.events.strings.intern(&name)),
            category,
            args: ArgsRef::NONE,
        };
        let length = segment.end_ns - segment.begin_ns;
        builder
            .events
            .complete(lane, segment.begin_ns, length, data);
        let point = |id: usize, role| FlowPoint {
            id: id as u64,
            category: None,
            name: None,
            space: FlowSpace::Chrome,
            role,
        };
        if before == Some((row.rank, row.step)) {
            builder.events.attach_flow(point(at, FlowRole::End));
        }
        let next = analysis.segments.get(at + 1);
        if next.is_some_and(|next| (next.rank, next.step) == (row.rank, row.step)) {
            builder.events.attach_flow(point(at + 1, FlowRole::Start));
        }
        before = Some((row.rank, row.step));
    }
    builder.finish(&FinishOptions::default())
}
