//! Processes, threads and tracks.

use crate::ids::{Pid, ProcessId, StrId, ThreadId, Tid, TrackId};
use crate::units::Unit;

/// A process. Named pids (Kineto's "Spans") have an artificial [`Pid`] and the name as `name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// The number as written.
    pub pid: Pid,
    /// Name from metadata, or the text written instead of the number.
    pub name: Option<StrId>,
    /// Label, for example `CPU` or `GPU 0`.
    pub labels: Option<StrId>,
    /// Sort position in viewers.
    pub sort_index: Option<i64>,
    /// `true` if the pid was a text, so that the number is meaningless.
    pub artificial: bool,
}

impl Process {
    /// Creates a process of which only the number is known.
    pub fn new(pid: Pid) -> Self {
        Self {
            pid,
            name: None,
            labels: None,
            sort_index: None,
            artificial: false,
        }
    }
}

/// Returns whether the name of a process is one that profilers give in every recording (`CPU`, `Spans`, `GPU 0`, the planes of XLA):
/// it tells neither a program nor a machine.
pub fn is_profiler_label(name: &str) -> bool {
    let plane = name
        .strip_prefix("/device:")
        .or_else(|| name.strip_prefix("/host:"));
    if let Some(plane) = plane {
        return plane
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ":_- ()".contains(c));
    }
    let mut words = name.split_whitespace();
    matches!(name, "python" | "python3")
        || words.all(|word| {
            let is_row = matches!(
                word,
                "CPU" | "GPU" | "Spans" | "Traces" | "PyTorch" | "Profiler"
            );
            is_row || word.parse::<u64>().is_ok()
        })
}

/// A thread; in Kineto traces also a GPU stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// The number as written.
    pub tid: Tid,
    /// The process it belongs to, if known.
    pub process: Option<ProcessId>,
    /// Name from metadata, or the text written instead of the number.
    pub name: Option<StrId>,
    /// Sort position in viewers.
    pub sort_index: Option<i64>,
    /// `true` for the main thread of its process.
    pub is_main: bool,
    /// `true` if the tid was a text, so that the number is meaningless.
    pub artificial: bool,
}

impl Thread {
    /// Creates a thread of which only number and process are known.
    pub fn new(tid: Tid, process: Option<ProcessId>) -> Self {
        Self {
            tid,
            process,
            name: None,
            sort_index: None,
            is_main: false,
            artificial: false,
        }
    }
}

/// Content of a track. The names of [`TrackKind::type_name`] are those of Perfetto's tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TrackKind {
    /// The slices of a thread or GPU stream.
    Thread,
    /// Slices that partially overlap one on the thread's own track.
    ThreadOverflow,
    /// Instants of a process (JSON).
    ProcessInstant,
    /// Instants of the whole trace (JSON).
    GlobalInstant,
    /// An async identity valid in the whole trace (JSON).
    GlobalAsync,
    /// An async identity of one process (JSON).
    ProcessAsync,
    /// A named child track of a thread (protobuf).
    ThreadChild,
    /// A named child track of a process (protobuf).
    ProcessChild,
    /// A track that belongs to no process (protobuf).
    Global,
    /// Like [`TrackKind::ThreadChild`], but never merged with siblings of the same name.
    ThreadChildUnmerged,
    /// Like [`TrackKind::ProcessChild`], but never merged with siblings of the same name.
    ProcessChildUnmerged,
    /// Like [`TrackKind::Global`], but never merged with siblings of the same name.
    GlobalUnmerged,
    /// Counter of a process (JSON).
    JsonCounter,
    /// Counter of a thread (protobuf).
    ThreadCounter,
    /// Counter of a process (protobuf).
    ProcessCounter,
    /// Counter of no process (protobuf).
    GlobalCounter,
    /// CPU time of a thread, from fields of its events (older protobuf).
    ThreadTime,
    /// Instructions of a thread, from fields of its events (older protobuf).
    ThreadInstructions,
}

impl TrackKind {
    /// Returns Perfetto's name of the kind.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Thread => "thread_execution",
            Self::ThreadOverflow => "thread_overlapping_slice",
            Self::ProcessInstant => "chrome_process_instant",
            Self::GlobalInstant => "legacy_chrome_global_instants",
            Self::GlobalAsync => "legacy_async_global_slice",
            Self::ProcessAsync => "legacy_async_process_slice",
            Self::ThreadChild => "thread_merged_track_event",
            Self::ProcessChild => "process_merged_track_event",
            Self::Global => "global_merged_track_event",
            Self::ThreadChildUnmerged => "thread_track_event",
            Self::ProcessChildUnmerged => "process_track_event",
            Self::GlobalUnmerged => "global_track_event",
            Self::JsonCounter => "json_counter",
            Self::ThreadCounter => "thread_counter_track_event",
            Self::ProcessCounter => "process_counter_track_event",
            Self::GlobalCounter => "global_counter_track_event",
            Self::ThreadTime => "thread_time",
            Self::ThreadInstructions => "thread_instructions",
        }
    }

    /// Returns `true` if the track holds counter samples instead of slices.
    pub fn is_counter(self) -> bool {
        matches!(
            self,
            Self::JsonCounter
                | Self::ThreadCounter
                | Self::ProcessCounter
                | Self::GlobalCounter
                | Self::ThreadTime
                | Self::ThreadInstructions
        )
    }

    /// Returns `true` if viewers fold tracks of the same name and owner onto shared lanes.
    pub fn is_merged(self) -> bool {
        matches!(
            self,
            Self::GlobalAsync
                | Self::ProcessAsync
                | Self::ThreadChild
                | Self::ProcessChild
                | Self::Global
        )
    }
}

/// A track of nested slices, or of counter samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Content.
    pub kind: TrackKind,
    /// Name, if it has one of its own (thread tracks are named by their thread).
    pub name: Option<StrId>,
    /// Parent track.
    pub parent: Option<TrackId>,
    /// The process it belongs to.
    pub process: Option<ProcessId>,
    /// The thread it belongs to.
    pub thread: Option<ThreadId>,
    /// The producer's 64-bit id (protobuf).
    pub uuid: Option<u64>,
    /// Unit of a counter, if it is a known one.
    pub unit: Option<Unit>,
    /// Unit of a counter as the producer wrote it, for example `W`.
    pub unit_name: Option<StrId>,
    /// `true` if the track is a display lane already: viewers fold no other track onto it,
    /// regardless of its kind.
    pub is_lane: bool,
}

impl Track {
    /// Creates a track of `kind` with nothing else known.
    pub fn new(kind: TrackKind) -> Self {
        Self {
            kind,
            name: None,
            parent: None,
            process: None,
            thread: None,
            uuid: None,
            unit: None,
            unit_name: None,
            is_lane: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_profilers_are_told_from_names() {
        for label in [
            "CPU",
            "GPU 0",
            "Spans",
            "PyTorch Profiler",
            "/device:GPU:0",
            "/host:CPU",
        ] {
            assert!(is_profiler_label(label), "{label}");
        }
        for name in [
            "node0(4000)",
            "GPU-server",
            "vllm",
            "/job:acme/device:GPU:0",
            "/device:GPU:0/acme",
        ] {
            assert!(!is_profiler_label(name), "{name}");
        }
    }
}
