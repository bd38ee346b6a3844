//! What is looked up again and again in one trace.

use std::sync::OnceLock;

use crate::correlation::{CorrelationIndex, ExternalIndex, LinkMethod};
use crate::ids::{DeviceId, SliceId, StreamId};
use crate::kernel::launched;
use crate::kernel::{Activity, ActivityMap, Communication, DevicePlaces, KernelClass, Vocabulary};
use crate::trace::{Slice, Trace};

/// The classification and the id indexes of one trace, each made when it is first needed.
#[derive(Debug)]
pub struct TraceIndex<'t> {
    trace: &'t Trace,
    vocabulary: Vocabulary,
    activities: ActivityMap,
    correlation: OnceLock<CorrelationIndex>,
    external: OnceLock<ExternalIndex>,
    places: OnceLock<DevicePlaces>,
    /// By place among the device work: the call at the begin of the arrows that lead there.
    chains: OnceLock<Vec<Option<SliceId>>>,
    /// By place among the device work: what it computes.
    classes: OnceLock<Vec<KernelClass>>,
    /// By name: what kernels of this name communicate.
    communication: OnceLock<Vec<Option<Communication>>>,
    /// Kernels of unknown name that communicate by their operator.
    exchanges: OnceLock<Vec<(SliceId, Communication)>>,
}

impl<'t> TraceIndex<'t> {
    /// Classifies the slices of `trace`. Cost: one pass over two columns.
    pub fn new(trace: &'t Trace, vocabulary: Vocabulary) -> Self {
        Self {
            trace,
            activities: ActivityMap::new(trace, &vocabulary),
            vocabulary,
            correlation: OnceLock::new(),
            external: OnceLock::new(),
            places: OnceLock::new(),
            chains: OnceLock::new(),
            classes: OnceLock::new(),
            communication: OnceLock::new(),
            exchanges: OnceLock::new(),
        }
    }

    /// The trace.
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// The rules that classify.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// What each slice is.
    pub fn activities(&self) -> &ActivityMap {
        &self.activities
    }

    /// What `slice` is.
    pub fn activity(&self, slice: Slice<'_>) -> Activity {
        self.activities.of(slice)
    }

    /// Is `slice` a kernel?
    pub fn is_kernel(&self, slice: Slice<'_>) -> bool {
        self.activity(slice) == Activity::Kernel
    }

    /// The kernels, copies and fills in ascending time.
    pub fn device_work(&self) -> impl Iterator<Item = Slice<'t>> + '_ {
        let work = self.activities.device_work();
        work.iter().map(|w| self.trace.slice(*w))
    }

    /// The kernels in ascending time.
    pub fn kernels(&self) -> impl Iterator<Item = Slice<'t>> + '_ {
        self.device_work().filter(|s| self.is_kernel(*s))
    }

    /// Correlation id → calls.
    pub fn correlation(&self) -> &CorrelationIndex {
        self.correlation
            .get_or_init(|| CorrelationIndex::new(self.trace, &self.activities))
    }

    /// External id → operators.
    pub fn external(&self) -> &ExternalIndex {
        self.external
            .get_or_init(|| ExternalIndex::new(self.trace, &self.activities))
    }

    /// The call that launched `work` (with [`LinkMethod::ExternalId`] the operator around it) and
    /// the evidence for it: the correlation id, else an arrow from the host, else the external id.
    ///
    /// Cost: a look-up of each kind; the indexes are made at the first call.
    pub fn launch_of(&self, work: Slice<'t>) -> Option<(Slice<'t>, LinkMethod)> {
        let by_id = self.correlation().launch_of(work, &self.activities);
        if let Some(call) = by_id {
            return Some((call, LinkMethod::Correlation));
        }
        if let Some(call) = self.called_from(work.id()) {
            return Some((self.trace.slice(call), LinkMethod::Flow));
        }
        let op = self.external().op_of(work)?;
        Some((op, LinkMethod::ExternalId))
    }

    /// The host's end of the arrows to `work`: of the arrow itself, or where one call launched several pieces of work, of
    /// those that lead from one to the next.
    fn called_from(&self, work: SliceId) -> Option<SliceId> {
        let tails = || self.trace.flows_to(work).map(|(_, flow)| flow.from);
        let is_work = |tail: SliceId| self.activity(self.trace.slice(tail)).is_device_work();
        if let Some(call) = tails().find(|tail| !is_work(*tail)) {
            return Some(call);
        }
        tails().next()?;
        let all = self.activities.device_work();
        let chains = self.chains.get_or_init(|| {
            let mut chains: Vec<Option<SliceId>> = Vec::with_capacity(all.len());
            for own in all {
                let tails = || self.trace.flows_to(*own).map(|(_, flow)| flow.from);
                let call = tails().find(|tail| !is_work(*tail));
                // What comes before in time is known already; an arrow back in time leads nowhere.
                let before = |tail| *chains.get(all.binary_search(&tail).ok()?)?;
                chains.push(call.or_else(|| tails().find_map(before)));
            }
            chains
        });
        *chains.get(all.binary_search(&work).ok()?)?
    }

    /// Returns what the kernel `slice` computes: by the operators, modules and Python functions around its launch, by its
    /// name alone without a launch or within a graph. [`KernelClass::Other`] if it is no kernel.
    ///
    /// Cost: the first call classifies all kernels, which looks at each launch and the slices around it.
    pub fn class(&self, slice: Slice<'_>) -> KernelClass {
        let classes = self.classes.get_or_init(|| launched::classes(self));
        let at = self.activities.device_work().binary_search(&slice.id());
        at.ok()
            .and_then(|at| classes.get(at))
            .map_or(KernelClass::Other, |class| *class)
    }

    /// Returns what the kernel `slice` communicates between devices; `None` if it does not or is no kernel.
    ///
    /// This is the one definition of communication, by the kernel's name, else by the innermost operator around the launch
    /// of a kernel whose name no rule knows. Names are tried once each.
    pub fn communication(&self, slice: Slice<'_>) -> Option<Communication> {
        if !self.is_kernel(slice) {
            return None;
        }
        let known = self.communication.get_or_init(|| {
            let mut known = vec![None; self.trace.strings().len()];
            for s in self.kernels() {
                if let Some(slot) = s.name_id().and_then(|n| known.get_mut(n.index())) {
                    slot.get_or_insert_with(|| {
                        self.vocabulary.communication(s.name().unwrap_or(""))
                    });
                }
            }
            known.into_iter().map(Option::flatten).collect()
        });
        let by_name = slice.name_id().and_then(|n| *known.get(n.index())?);
        if by_name.is_some() {
            return by_name;
        }
        let launched = self.exchanges.get_or_init(|| launched::exchanges(self));
        let at = launched.binary_search_by_key(&slice.id(), |(id, _)| *id);
        Some(launched.get(at.ok()?)?.1)
    }

    /// Returns `true` if `slice` is a communication kernel.
    pub fn is_collective(&self, slice: Slice<'_>) -> bool {
        self.communication(slice).is_some()
    }

    fn places(&self) -> &DevicePlaces {
        self.places
            .get_or_init(|| DevicePlaces::new(self.trace, self.kernels()))
    }

    /// The device that device work ran on: what arguments or track name, else the process number of its row.
    pub fn device(&self, slice: Slice<'_>) -> DeviceId {
        let row = || {
            let process = slice.track().process?;
            Some(self.trace.process(process).pid.0)
        };
        DeviceId(self.places().device(slice).or_else(row).unwrap_or(0))
    }

    /// The stream that device work ran on: what arguments or track name, else the thread number of its row.
    pub fn stream(&self, slice: Slice<'_>) -> StreamId {
        let row = || {
            let thread = slice.track().thread?;
            Some(self.trace.thread(thread).tid.0)
        };
        StreamId(self.places().stream(slice).or_else(row).unwrap_or(0))
    }
}
