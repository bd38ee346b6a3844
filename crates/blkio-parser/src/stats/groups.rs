//! Analyses that share a thread, and how batches come to them.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::analyse::Analyser;
use crate::analyse::access::SectorAccess;
use crate::analyse::bursts::Arrivals;
use crate::analyse::by_cpu::ByCpu;
use crate::analyse::by_pid::ByPid;
use crate::analyse::composition::Composition;
use crate::analyse::devices::Parts;
use crate::analyse::duplicates::Duplicates;
use crate::analyse::heat::HeatMap;
use crate::analyse::intervals::Intervals;
use crate::analyse::pairs::Pairs;
use crate::analyse::reuse::Reuse;
use crate::analyse::runs::Batch;
use crate::analyse::sequential::Sequentiality;
use crate::analyse::stages::Stages;
use crate::analyse::traffic::Traffic;
use crate::analyse::user_phases::UserPhases;
use crate::analyse::working_set::WindowedSet;
use crate::stats::StatsOptions;

/// What continues what, and when that was.
pub(super) type Placed = (Sequentiality, Composition);

/// What happened to requests on their way, and who made them where.
pub(super) type Stepped = (Option<Stages>, UserPhases, Option<ByPid>, Option<ByCpu>);

/// Analyses that share a thread.
#[derive(Debug, Clone)]
pub(super) enum Group {
    Flow(Box<(Traffic, Arrivals, Option<HeatMap>, Duplicates)>),
    Steps(Box<Stepped>),
    Places(Box<Option<Placed>>),
    Access(Box<Option<SectorAccess>>),
    Blocks(Box<(Option<Reuse>, Option<WindowedSet>)>),
    Times(Box<Option<Intervals>>),
    Pairs(Box<Option<Pairs>>),
}

pub(super) fn feed<A: Analyser>(analyser: &mut Option<A>, batch: &Batch) {
    if let Some(analyser) = analyser {
        analyser.observe(batch);
    }
}

/// Hands batches to the groups: to those with threads several at a time, since to wake a thread costs as much as a thousand
/// events.
#[derive(Default)]
pub(super) struct Fan {
    /// Those without a thread.
    pub(super) here: Vec<GroupSet>,
    pub(super) senders: Vec<SyncSender<Vec<Arc<Parts>>>>,
    waiting: Vec<Arc<Parts>>,
    events: usize,
}

/// Events that are handed on together.
pub(super) const TOGETHER: usize = 1 << 14;
/// Times as many that may wait for a group.
pub(super) const IN_FLIGHT: usize = 4;

impl Fan {
    pub(super) fn take(&mut self, parts: Parts) {
        self.here.iter_mut().for_each(|set| set.take(&parts));
        self.events += parts.all.events.len();
        self.waiting.push(Arc::new(parts));
        if self.events >= TOGETHER {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        self.events = 0;
        let batches = std::mem::take(&mut self.waiting);
        for sender in &self.senders {
            // A thread that died is found when it is joined.
            let _ = sender.send(batches.clone());
        }
    }

    /// Hands on what is left and ends the threads; returns the groups without one, finished.
    pub(super) fn finish(mut self) -> Vec<GroupSet> {
        self.hand_on();
        self.here.into_iter().map(GroupSet::finish).collect()
    }
}

impl Group {
    pub(super) fn all(options: &StatsOptions) -> Vec<Self> {
        let wanted = options.wanted;
        vec![
            Self::Flow(Box::new((
                Traffic::new(options.grid()),
                Arrivals::new(options.burst_gap_ns),
                wanted.heat.then(HeatMap::default),
                Duplicates::default(),
            ))),
            Self::Places(Box::new(wanted.sequentiality.then(Default::default))),
            Self::Access(Box::new(wanted.access.then(SectorAccess::default))),
            Self::Blocks(Box::new((
                wanted
                    .reuse
                    .then(|| Reuse::new(options.reuse_block_sectors))
                    .map(|reuse| {
                        if options.exact_reuse {
                            reuse.exactly()
                        } else {
                            reuse
                        }
                    }),
                wanted
                    .working_set
                    .then(|| WindowedSet::new(options.working_set_window_ns)),
            ))),
            Self::Times(Box::new(wanted.reuse.then(Intervals::default))),
            Self::Steps(Box::new((
                wanted.latency.then(Stages::default),
                UserPhases::new(&options.phases),
                wanted.sequentiality.then(ByPid::default),
                wanted.sequentiality.then(ByCpu::default),
            ))),
            Self::Pairs(Box::new(
                wanted
                    .latency
                    .then(|| Pairs::new(options.stale_ns, options.grid())),
            )),
        ]
    }

    /// Drops the heat map, which is one of a single device.
    pub(super) fn forget_map(&mut self) {
        if let Self::Flow(group) = self {
            group.2 = None;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Flow(_) => false,
            Self::Steps(group) => {
                group.0.is_none() && group.1.phases.is_empty() && group.2.is_none()
            }
            Self::Places(places) => places.is_none(),
            Self::Access(access) => access.is_none(),
            Self::Blocks(group) => group.0.is_none() && group.1.is_none(),
            Self::Times(intervals) => intervals.is_none(),
            Self::Pairs(pairs) => pairs.is_none(),
        }
    }

    /// Closes what is open and sorts what percentiles need, each group on its own thread.
    pub(super) fn finish(mut self) -> Self {
        match &mut self {
            Self::Flow(group) => {
                group.1.finish();
                group.2.iter_mut().for_each(HeatMap::finish);
            }
            Self::Places(places) => {
                if let Some((sequentiality, composition)) = places.as_mut() {
                    sequentiality.finish();
                    composition.finish();
                }
            }
            Self::Access(access) => access.iter_mut().for_each(SectorAccess::finish),
            Self::Blocks(group) => {
                group.0.iter_mut().for_each(Reuse::finish);
                group.1.iter_mut().for_each(WindowedSet::finish);
            }
            Self::Steps(group) => {
                group.1.finish();
                group.2.iter_mut().for_each(ByPid::finish);
            }
            Self::Times(intervals) => intervals.iter_mut().for_each(Intervals::finish),
            Self::Pairs(pairs) => pairs.iter_mut().for_each(Pairs::finish),
        }
        self
    }

    pub(super) fn take(&mut self, batch: &Arc<Batch>) {
        match self {
            Self::Flow(group) => {
                group.0.observe(batch);
                group.1.observe(batch);
                feed(&mut group.2, batch);
                group.3.observe(batch);
            }
            Self::Steps(group) => {
                feed(&mut group.0, batch);
                group.1.observe(batch);
                feed(&mut group.2, batch);
                feed(&mut group.3, batch);
            }
            Self::Places(places) => {
                if let Some((sequentiality, composition)) = places.as_mut() {
                    composition.take(batch, sequentiality);
                }
            }
            Self::Access(access) => feed(access, batch),
            Self::Blocks(group) => {
                feed(&mut group.0, batch);
                feed(&mut group.1, batch);
            }
            Self::Times(intervals) => feed(intervals, batch),
            Self::Pairs(pairs) => {
                if let Some(pairs) = pairs.as_mut() {
                    pairs.take(batch);
                }
            }
        }
    }
}

/// A group for all devices together, and for each of several devices.
pub(super) struct GroupSet {
    pub(super) all: Group,
    pub(super) devices: Vec<Group>,
    /// Those of devices that are no part of all.
    pub(super) apart: Vec<Group>,
    /// How such a group begins.
    pub(super) empty: Group,
}

impl GroupSet {
    pub(super) fn all_of(options: &StatsOptions) -> Vec<Self> {
        let groups = Group::all(options).into_iter();
        let set = |group: Group| Self {
            all: group.clone(),
            devices: Vec::new(),
            apart: Vec::new(),
            empty: group,
        };
        groups.map(set).collect()
    }

    pub(super) fn take(&mut self, parts: &Parts) {
        for (number, batch) in &parts.devices {
            if self.devices.is_empty() {
                // Everything so far was of the first device.
                self.devices.push(self.all.clone());
                self.all.forget_map();
            }
            while self.devices.len() <= *number {
                self.devices.push(self.empty.clone());
            }
            if let Some(group) = self.devices.get_mut(*number) {
                group.take(batch);
            }
        }
        for (number, batch) in &parts.apart {
            while self.apart.len() <= *number {
                self.apart.push(self.empty.clone());
            }
            if let Some(group) = self.apart.get_mut(*number) {
                group.take(batch);
            }
        }
        self.all.take(&parts.all);
    }

    pub(super) fn finish(self) -> Self {
        Self {
            all: self.all.finish(),
            devices: self.devices.into_iter().map(Group::finish).collect(),
            apart: self.apart.into_iter().map(Group::finish).collect(),
            empty: self.empty,
        }
    }
}
