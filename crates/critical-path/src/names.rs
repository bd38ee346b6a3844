//! Known names of host slices and calls, and the strings kept of a recording.

use rustc_hash::FxHashMap;
use trace_model::{StrId, Trace, Waiting, loads_data, takes_requests};

/// Returns `true` for a primitive that only waits: for a socket, a lock, a process or a timer. Functions of Python, which are
/// recorded with their file and line (`threading.py(607): wait`), call one of these, and their own time is work.
fn is_blocking(name: &str) -> bool {
    let is_python = name.contains("): ") && !name.starts_with('<');
    !is_python
        && (matches!(Waiting::of_call(name), Some(Waiting::Input | Waiting::Peer))
            || name.contains("sched_yield"))
}

/// Returns `true` for the functions by which workers of vLLM take messages of their scheduler from shared memory.
fn takes_messages(name: &str) -> bool {
    name.contains("shm_broadcast.py")
        && (name.ends_with("dequeue") || name.ends_with("acquire_read"))
}

/// Calls of the operating system that return when a message or a connection arrives from outside.
const MESSAGES: [&str; 12] = [
    "epoll_wait",
    "epoll_pwait",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
];

/// Meaning of the name of a host slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostName {
    /// Receives requests.
    pub(crate) requests: bool,
    /// Loads data.
    pub(crate) data: bool,
    /// Only waits.
    pub(crate) blocking: bool,
    /// Returns when a message arrives.
    pub(crate) message: bool,
}

/// Scope of a synchronizing call, derived from its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// All streams.
    Device,
    /// One stream.
    Stream,
    /// Work submitted before an event was recorded.
    Event,
}

impl Waits {
    /// Parses the name of a call that synchronizes the host; `None` for other calls.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        if name.contains("WaitEvent") {
            None
        } else if name.contains("Stream") {
            Some(Self::Stream)
        } else if name.contains("Event") {
            Some(Self::Event)
        } else {
            Some(Self::Device)
        }
    }
}

/// Returns `true` for a call that records an event into a stream.
pub(crate) fn is_event_record(name: &str) -> bool {
    name.contains("EventRecord")
}

/// Returns `true` for a call that makes a stream wait for an event.
pub(crate) fn is_wait_event(name: &str) -> bool {
    name.contains("WaitEvent")
}

/// Interned strings of a trace, and the meaning of host names.
#[derive(Debug)]
pub(crate) struct Names<'t> {
    trace: &'t Trace,
    of: Vec<u32>,
    texts: Vec<String>,
    own: FxHashMap<&'static str, u32>,
    host: Vec<Option<HostName>>,
}

impl<'t> Names<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            of: vec![u32::MAX; trace.strings().len()],
            texts: Vec::new(),
            own: FxHashMap::default(),
            host: vec![None; trace.strings().len()],
        }
    }

    /// Returns the index of a string of the trace; the index of the empty string for `None`.
    pub(crate) fn place(&mut self, id: Option<StrId>) -> u32 {
        let Some(id) = id else {
            return self.own("");
        };
        let next = place(self.texts.len());
        match self.of.get_mut(id.index()) {
            Some(slot) if *slot == u32::MAX => {
                *slot = next;
                self.texts.push(self.trace.text(id).to_owned());
                next
            }
            Some(slot) => *slot,
            None => self.own(""),
        }
    }

    /// Returns the index of a string of this crate.
    pub(crate) fn own(&mut self, text: &'static str) -> u32 {
        let next = place(self.texts.len());
        let texts = &mut self.texts;
        *self.own.entry(text).or_insert_with(|| {
            texts.push(text.to_owned());
            next
        })
    }

    /// Returns the meaning of the name of a host slice. Patterns are tried once for each name.
    pub(crate) fn host(&mut self, id: Option<StrId>) -> HostName {
        let Some(slot) = id.and_then(|id| self.host.get_mut(id.index())) else {
            return HostName::default();
        };
        let trace = self.trace;
        *slot.get_or_insert_with(|| {
            let name = id.map_or("", |id| trace.text(id));
            HostName {
                requests: takes_requests(name) || takes_messages(name),
                data: loads_data(name),
                blocking: is_blocking(name),
                message: MESSAGES.contains(&name),
            }
        })
    }

    pub(crate) fn text(&self, name: u32) -> &str {
        self.texts.get(name as usize).map_or("", String::as_str)
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Converts an index to 32 bits; lists of a trace are shorter than that.
pub(crate) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Marks a missing index.
pub(crate) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::is_blocking;

    #[test]
    fn primitives_wait_and_functions_of_python_work() {
        for (name, want) in [
            ("time.sleep", true),
            ("<built-in function sleep>", true),
            ("epoll_wait", true),
            ("<built-in function sched_yield>", true),
            (
                "<built-in method acquire of _thread.lock object at 0x7f>",
                true,
            ),
            ("threading.py(607): wait", false),
            ("vllm/v1/engine/core.py(702): sleep", false),
            ("schedule", false),
            ("aten::item", false),
        ] {
            assert_eq!(is_blocking(name), want, "{name}");
        }
    }
}
