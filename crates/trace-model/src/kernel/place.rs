//! Finds device and stream of GPU activities, from the arguments that producers write, else from
//! the name of the track.

use rustc_hash::FxHashSet;

use crate::correlation::CORRELATION_KEYS;
use crate::ids::ProcessId;
use crate::table::args::ArgValue;
use crate::trace::{ArgColumn, Slice, Trace};

/// Keys, without prefix, under which producers write device and stream of GPU activities.
///
/// Kineto writes `device` and `stream` as numbers; rocprofv3 `agent` (`Agent 1`), for memcpys
/// `src_agent` and `dst_agent` (`Agent-1`), `stream_id` and `queue`.
pub const PLACE_KEYS: [&str; 7] = [
    "device",
    "agent",
    "stream",
    "stream_id",
    "queue",
    "dst_agent",
    "src_agent",
];

/// Keys, without prefix, that a [`TraceIndex`](crate::kernel::TraceIndex) reads to link GPU
/// activities with their launches and to place them: the correlation ids and [`PLACE_KEYS`].
pub const INDEX_KEYS: [&str; 10] = [
    CORRELATION_KEYS[0],
    CORRELATION_KEYS[1],
    CORRELATION_KEYS[2],
    PLACE_KEYS[0],
    PLACE_KEYS[1],
    PLACE_KEYS[2],
    PLACE_KEYS[3],
    PLACE_KEYS[4],
    PLACE_KEYS[5],
    PLACE_KEYS[6],
];

/// Returns [`INDEX_KEYS`] followed by `more`, for an analysis that reads other keys as well.
///
/// # Panics
/// At compile time in a constant, unless `ALL` is the number of all keys.
#[expect(
    clippy::indexing_slicing,
    reason = "constants have no iterators; the bounds are asserted"
)]
pub const fn with_index_keys<const N: usize, const ALL: usize>(
    more: [&'static str; N],
) -> [&'static str; ALL] {
    assert!(ALL == INDEX_KEYS.len() + N, "ALL counts all keys");
    let mut all = [""; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = match at < INDEX_KEYS.len() {
            true => INDEX_KEYS[at],
            false => more[at - INDEX_KEYS.len()],
        };
        at += 1;
    }
    all
}

/// Reads device and stream of the GPU activities of one trace.
#[derive(Clone, Debug)]
pub struct DevicePlaces {
    device: ArgColumn,
    agent: ArgColumn,
    streams: [ArgColumn; 3],
    /// Destination and source of a memcpy.
    ends: [ArgColumn; 2],
    /// Agents that run kernels, by process and in any process.
    computing: FxHashSet<(Option<ProcessId>, i64)>,
    /// Device and stream in the name of each track.
    lanes: Vec<Option<DeviceLane>>,
}

/// Device and stream in the name of a device track, in rocprofv3's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLane {
    /// Device, if the name contains it.
    pub device: Option<i64>,
    /// Stream, or the queue of the device.
    pub stream: i64,
}

impl DeviceLane {
    /// Parses `STREAM [2]`, `COMPUTE Agent [1] QUEUE [0] GPU` or `COPY to AGENT [1] THREAD [3]
    /// (GPU)`, also with a suffix ` #2`; `None` for other names.
    ///
    /// ```
    /// use trace_model::kernel::DeviceLane;
    ///
    /// let lane = DeviceLane::of_name("COMPUTE Agent [1] QUEUE [0] GPU #2");
    /// assert_eq!(lane, Some(DeviceLane { device: Some(1), stream: 0 }));
    /// assert_eq!(DeviceLane::of_name("STREAM [2]").map(|lane| lane.stream), Some(2));
    /// assert_eq!(DeviceLane::of_name("STREAMING [2]"), None);
    /// ```
    pub fn of_name(name: &str) -> Option<Self> {
        let (head, mut numbers) = (name.split('[').next()?, bracketed(name));
        let stream = |device, stream| Some(Self { device, stream });
        if head == "STREAM " {
            return stream(None, numbers.next()?);
        }
        let is_compute = head.starts_with("COMPUTE ") && name.contains(" QUEUE [");
        if is_compute || head == "COPY to AGENT " {
            let device = numbers.next()?;
            return stream(Some(device), numbers.next()?);
        }
        None
    }
}

/// Returns the whole numbers in brackets.
fn bracketed(text: &str) -> impl Iterator<Item = i64> {
    let inside = text.split('[').skip(1);
    inside.filter_map(|rest| rest.split_once(']')?.0.parse().ok())
}

/// Returns the number of `Agent 1`, `Agent-1` or `GPU 0`, and whether it is marked as a CPU.
fn agent_of(text: &str) -> Option<(i64, bool)> {
    let (kind, number) = text.rsplit_once([' ', '-'])?;
    Some((number.parse().ok()?, kind == "CPU"))
}

impl DevicePlaces {
    /// Finds the keys in the shapes of `trace`. Cost: a look at each of the `kernels` if memcpys
    /// name agents.
    pub fn new<'t>(trace: &'t Trace, kernels: impl Iterator<Item = Slice<'t>>) -> Self {
        let [device, agent, stream, id, queue, to, from] =
            PLACE_KEYS.map(|key| trace.arg_column(key));
        let lanes = trace.tracks().iter();
        let lanes = lanes.map(|track| {
            let named = track
                .name
                .and_then(|name| DeviceLane::of_name(trace.text(name)));
            named.or_else(|| {
                let (device, stream) = super::rows::place(trace, track)?;
                let device = Some(device);
                Some(DeviceLane { device, stream })
            })
        });
        let mut places = Self {
            device,
            agent,
            streams: [stream, id, queue],
            ends: [to, from],
            computing: FxHashSet::default(),
            lanes: lanes.collect(),
        };
        if places.ends.iter().any(|end| !end.is_empty()) {
            for kernel in kernels {
                if let Some((agent, _)) = places.agent(&places.agent, kernel) {
                    places.computing.insert((kernel.track().process, agent));
                    places.computing.insert((None, agent));
                }
            }
        }
        places
    }

    /// Returns the recorded device of `work`.
    pub fn device(&self, work: Slice<'_>) -> Option<i64> {
        let stated = self.device.int(work);
        stated
            .or_else(|| self.agent(&self.agent, work).map(|agent| agent.0))
            .or_else(|| self.copying(work))
            .or_else(|| self.lane(work)?.device)
    }

    /// Returns the recorded stream of `work`.
    pub fn stream(&self, work: Slice<'_>) -> Option<i64> {
        let stated = self.streams.iter().find_map(|column| column.int(work));
        stated.or_else(|| Some(self.lane(work)?.stream))
    }

    /// Returns device and stream in the name of its track.
    pub fn lane(&self, work: Slice<'_>) -> Option<DeviceLane> {
        *self.lanes.get(work.track_id().index())?
    }

    fn agent(&self, column: &ArgColumn, work: Slice<'_>) -> Option<(i64, bool)> {
        match column.get(work)? {
            ArgValue::Str(text) => agent_of(text),
            value => Some((value.as_i64()?, false)),
        }
    }

    /// Returns the GPU to which a memcpy goes, else the one from which it comes.
    ///
    /// Agents are known to be GPUs only if they are numbered by type; else GPUs are the agents that
    /// run kernels.
    fn copying(&self, copy: Slice<'_>) -> Option<i64> {
        let ends = self.ends.each_ref().map(|end| self.agent(end, copy));
        let process = copy.track().process;
        let gpus = ends.iter().flatten().filter(|(_, is_cpu)| !is_cpu);
        let computes = |process| {
            let mut gpus = gpus.clone();
            gpus.find(|(agent, _)| self.computing.contains(&(process, *agent)))
        };
        let found = computes(process).or_else(|| computes(None));
        found
            .or_else(|| gpus.clone().next())
            .or_else(|| ends.iter().flatten().next())
            .map(|(agent, _)| *agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_numbered_in_any_spelling() {
        assert_eq!(agent_of("Agent 1"), Some((1, false)));
        assert_eq!(agent_of("Agent-12"), Some((12, false)));
        assert_eq!(agent_of("CPU 0"), Some((0, true)));
        assert_eq!(agent_of("Agent"), None);
        assert_eq!(agent_of("Agent x"), None);
    }

    #[test]
    fn tracks_of_devices_say_which() {
        let lane = |device, stream| Some(DeviceLane { device, stream });
        for (name, want) in [
            ("STREAM [7]", lane(None, 7)),
            ("STREAM [7] #3", lane(None, 7)),
            ("COMPUTE Agent [1] QUEUE [4] GPU", lane(Some(1), 4)),
            ("COMPUTE GPU [0] QUEUE [1] GPU #2", lane(Some(0), 1)),
            ("COPY to AGENT [2] THREAD [77] (UNK)", lane(Some(2), 77)),
            ("COPY BYTES to Agent [1] (GPU)", None),
            ("STREAM 7", None),
            ("STREAM [x]", None),
            ("COMPUTE [1]", None),
            ("", None),
        ] {
            assert_eq!(DeviceLane::of_name(name), want, "{name}");
        }
    }
}
