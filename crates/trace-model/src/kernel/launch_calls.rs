//! Calls that launch kernels, against the kernels that were recorded: what a recording lost.

use crate::ids::SliceId;
use crate::kernel::{Activity, TraceIndex};
use crate::trace::Slice;

/// Calls of the host that launch kernels one by one, and those of which no work is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchCalls {
    /// Calls, without those that a graph captured.
    pub calls: u64,
    /// Calls without any activity of the device: it was lost, or the recording ends before it. Activities without a call count
    /// against these, since they may be the same work.
    pub without_work: u64,
    /// The recording captures a graph and replays none, and hardly anything ran on the device.
    pub is_capture: bool,
}

/// Share of the launches without work, in percent, from which nothing can be said of what limits the recorded time.
const MANY_PCT: u64 = 10;

/// Fewer launches without work than this are the end of any recording.
const FEW: u64 = 2;

impl LaunchCalls {
    /// Returns `true` if so much work is missing that what limits the recorded time cannot be said.
    #[must_use]
    pub fn lack_much(&self) -> bool {
        self.without_work >= FEW && self.without_work * 100 >= self.calls * MANY_PCT
    }
}

/// Calls that launched work, as a set of their numbers.
#[derive(Debug, Default)]
struct Launched(Vec<u64>);

impl Launched {
    fn add(&mut self, call: SliceId) {
        let at = call.index();
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(at / 64) {
            *bits |= 1 << (at % 64);
        }
    }

    fn has(&self, call: SliceId) -> bool {
        let at = call.index();
        self.0
            .get(at / 64)
            .is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }
}

impl TraceIndex<'_> {
    /// Counts launches of kernels and those without work. Where as many kernels are recorded as calls, none is taken to be without:
    /// kernels of graphs hide what others lost.
    ///
    /// Cost: a pass over calls and kernels; where calls outnumber kernels, a look-up of the launch of each activity as well.
    pub fn launch_calls(&self) -> LaunchCalls {
        let trace = self.trace();
        let calls = self.activities().calls().iter().map(|id| trace.slice(*id));
        let is_launch = |call: Slice<'_>| {
            let is_host = call.name().is_some_and(|name| name.contains("HostFunc"));
            self.activity(call) == Activity::Launch && !is_host
        };
        // A driver call within a runtime call is the same launch.
        let outer = |call: Slice<'_>| {
            let parent = call.ancestors().next()?;
            is_launch(parent).then(|| parent.id())
        };
        let mut found = LaunchCalls {
            calls: calls
                .clone()
                .filter(|call| is_launch(*call) && outer(*call).is_none())
                .count() as u64,
            ..LaunchCalls::default()
        };
        let kernels = self.kernels().count() as u64;
        if kernels >= found.calls {
            return found;
        }
        let mut launched = Launched::default();
        let mut unlinked = 0_u64;
        for work in self.device_work() {
            match self.launch_of(work) {
                Some((call, _)) => launched.add(call.id()),
                None => unlinked += u64::from(self.is_kernel(work)),
            }
        }
        let (mut begins, mut ends, mut graphs) = (Vec::new(), Vec::new(), 0_u64);
        for call in calls.clone() {
            match call.name().unwrap_or("") {
                name if name.contains("StreamBeginCapture") => begins.push(call.ts()),
                name if name.contains("StreamEndCapture") => ends.push(call.ts()),
                _ => {}
            }
            graphs += u64::from(self.activity(call) == Activity::GraphLaunch);
            if launched.has(call.id())
                && let Some(outer) = outer(call)
            {
                launched.add(outer);
            }
        }
        begins.sort_unstable();
        ends.sort_unstable();
        // Captures do not nest: within one, more have begun than ended.
        let is_captured = |call: Slice<'_>| {
            let before = |all: &[_]| all.partition_point(|at| *at <= call.ts());
            before(&begins) > before(&ends)
        };
        let captures = !begins.is_empty() || !ends.is_empty();
        found.is_capture = captures && graphs == 0 && kernels * 2 < found.calls;
        for call in calls.filter(|call| is_launch(*call) && outer(*call).is_none()) {
            match launched.has(call.id()) {
                true => {}
                false if is_captured(call) => found.calls -= 1,
                false => found.without_work += 1,
            }
        }
        found.without_work = found.without_work.saturating_sub(unlinked);
        found
    }
}
