//! Indexes of one trace for repeated look-ups.

use std::sync::OnceLock;

use crate::correlation::{CorrelationIndex, ExternalIndex, LinkMethod};
use crate::ids::{DeviceId, SliceId, StreamId};
use crate::kernel::launched;
use crate::kernel::{Activity, ActivityMap, Communication, DevicePlaces, KernelClass, Vocabulary};
use crate::outline::OutlineGroup;
use crate::trace::{Slice, Trace};

/// Classification and id indexes of one trace; each is built when it is first needed.
#[derive(Debug)]
pub struct TraceIndex<'t> {
    trace: &'t Trace,
    vocabulary: Vocabulary,
    activities: ActivityMap,
    correlation: OnceLock<CorrelationIndex>,
    external: OnceLock<ExternalIndex>,
    places: OnceLock<DevicePlaces>,
    /// Call at the begin of the flow arrows that lead to each GPU activity, by its index.
    chains: OnceLock<Vec<Option<SliceId>>>,
    /// Class of each GPU activity, by its index.
    classes: OnceLock<Vec<KernelClass>>,
    /// Communication of kernels, by name.
    communication: OnceLock<Vec<Option<Communication>>>,
    /// Kernels of unknown name whose operators communicate.
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

    /// Returns the trace.
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the activities of all slices.
    pub fn activities(&self) -> &ActivityMap {
        &self.activities
    }

    /// Returns the activity of `slice`.
    pub fn activity(&self, slice: Slice<'_>) -> Activity {
        self.activities.of(slice)
    }

    /// Returns the activity of slices of which only the outline is kept.
    pub fn activity_of(&self, group: &OutlineGroup) -> Activity {
        self.activities.of_category(group.category)
    }

    /// Returns `true` if `slice` is a kernel.
    pub fn is_kernel(&self, slice: Slice<'_>) -> bool {
        self.activity(slice) == Activity::Kernel
    }

    /// Returns the kernels, memcpys and memsets in ascending time.
    pub fn device_work(&self) -> impl Iterator<Item = Slice<'t>> + '_ {
        let work = self.activities.device_work();
        work.iter().map(|w| self.trace.slice(*w))
    }

    /// Returns the kernels in ascending time.
    pub fn kernels(&self) -> impl Iterator<Item = Slice<'t>> + '_ {
        self.device_work().filter(|s| self.is_kernel(*s))
    }

    /// Returns the index from correlation id to calls.
    pub fn correlation(&self) -> &CorrelationIndex {
        self.correlation
            .get_or_init(|| CorrelationIndex::new(self.trace, &self.activities))
    }

    /// Returns the index from external id to operators.
    pub fn external(&self) -> &ExternalIndex {
        self.external
            .get_or_init(|| ExternalIndex::new(self.trace, &self.activities))
    }

    /// Returns the call that launched `work` (with [`LinkMethod::ExternalId`] the operator around
    /// it) and the evidence: the correlation id, else a flow from the host, else the external id.
    ///
    /// Cost: a look-up of each kind; the indexes are built at the first call.
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

    /// Returns the host's end of the flows to `work`: of the flow itself or, if one call launched
    /// several activities, of the flows that lead from one to the next.
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
                // Earlier activities are resolved already; an arrow backward in time leads nowhere.
                let before = |tail| *chains.get(all.binary_search(&tail).ok()?)?;
                chains.push(call.or_else(|| tails().find_map(before)));
            }
            chains
        });
        *chains.get(all.binary_search(&work).ok()?)?
    }

    /// Returns the class of the kernel `slice`: from the operators, modules and Python functions
    /// around its launch, or from its name alone without a launch or within a graph.
    /// [`KernelClass::Other`] if it is not a kernel.
    ///
    /// Cost: the first call classifies all kernels, which visits each launch and the slices around
    /// it.
    pub fn class(&self, slice: Slice<'_>) -> KernelClass {
        let classes = self.classes.get_or_init(|| launched::classes(self));
        let at = self.activities.device_work().binary_search(&slice.id());
        at.ok()
            .and_then(|at| classes.get(at))
            .map_or(KernelClass::Other, |class| *class)
    }

    /// Returns the communication between devices of the kernel `slice`; `None` if it does not
    /// communicate or is not a kernel.
    ///
    /// This is the only definition of communication: from the kernel's name, else, for a kernel of
    /// unknown name, from the innermost operator around its launch. Each name is matched once.
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

    /// Returns the device of a GPU activity: from arguments or track name, else the process number
    /// of its track.
    pub fn device(&self, slice: Slice<'_>) -> DeviceId {
        let row = || {
            let process = slice.track().process?;
            Some(self.trace.process(process).pid.0)
        };
        DeviceId(self.places().device(slice).or_else(row).unwrap_or(0))
    }

    /// Returns the stream of a GPU activity: from arguments or track name, else the thread number
    /// of its track.
    pub fn stream(&self, slice: Slice<'_>) -> StreamId {
        let row = || {
            let thread = slice.track().thread?;
            Some(self.trace.thread(thread).tid.0)
        };
        StreamId(self.places().stream(slice).or_else(row).unwrap_or(0))
    }
}
