//! All analyses of one trace in one pass.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::analyse::Analyser;
use crate::analyse::access::SectorAccess;
use crate::analyse::bursts::Arrivals;
use crate::analyse::by_pid::ByPid;
use crate::analyse::composition::Composition;
use crate::analyse::duplicates::Duplicates;
use crate::analyse::given::{GivenPhases, Named};
use crate::analyse::heat::HeatMap;
use crate::analyse::intervals::Intervals;
use crate::analyse::pairing::Pairing;
use crate::analyse::pairs::Pairs;
use crate::analyse::reuse::Reuse;
use crate::analyse::runs::Batch;
use crate::analyse::sequential::Sequentiality;
use crate::analyse::stages::Stages;
use crate::analyse::traffic::{Grid, SECOND, Traffic};
use crate::analyse::working_set::WindowedSet;
use crate::error::{Error, Result};
use crate::pipeline::{Outcome, ReadOptions, read_shapes};

/// Which analyses to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each analysis can be left out on its own"
)]
pub struct Wanted {
    /// Sequentiality, seeks and strides.
    pub sequentiality: bool,
    /// Access counts of sectors and blocks, and the distinct blocks of all time.
    pub access: bool,
    /// Heat map.
    pub heat: bool,
    /// Distinct blocks of windows of time.
    pub working_set: bool,
    /// Reuse distances.
    pub reuse: bool,
    /// Latency and queue depth.
    pub latency: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self {
        sequentiality: true,
        access: true,
        heat: true,
        working_set: true,
        reuse: true,
        latency: true,
    };

    /// Totals, sizes, series and arrivals only.
    pub const TRAFFIC: Self = Self {
        sequentiality: false,
        access: false,
        heat: false,
        working_set: false,
        reuse: false,
        latency: false,
    };
}

/// How to analyse.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatsOptions {
    /// How to read.
    pub read: ReadOptions,
    /// Width of the bins of the series in nanoseconds.
    pub bin_ns: u64,
    /// Whether these bins begin at multiples of their width of the trace's clock, rather than at the first issue.
    pub bins_by_clock: bool,
    /// Gap that ends a burst.
    pub burst_gap_ns: u64,
    /// Age at which an outstanding request is given up.
    pub stale_ns: u64,
    /// Sectors of the blocks of reuse distances.
    pub reuse_block_sectors: u64,
    /// Whether reuse distances are those of every block however many there are, instead of a sample of very many.
    pub exact_reuse: bool,
    /// Width of the windows of the working set over time.
    pub working_set_window_ns: u64,
    /// Phases the user knows.
    pub phases: Vec<Named>,
    /// Which analyses to make.
    pub wanted: Wanted,
}

impl Default for StatsOptions {
    fn default() -> Self {
        Self {
            read: ReadOptions::default(),
            bin_ns: SECOND,
            bins_by_clock: false,
            burst_gap_ns: 100_000_000,
            stale_ns: 5 * SECOND,
            reuse_block_sectors: 256,
            exact_reuse: false,
            working_set_window_ns: 10 * SECOND,
            phases: Vec::new(),
            wanted: Wanted::ALL,
        }
    }
}

impl StatsOptions {
    /// The bins of the series.
    fn grid(&self) -> Grid {
        Grid::new(self.bin_ns, self.bins_by_clock)
    }
}

/// The analyses of a trace.
#[derive(Debug, Clone)]
pub struct Stats {
    /// What was read.
    pub outcome: Outcome,
    /// Totals, sizes, series.
    pub traffic: Traffic,
    /// Bursts and times between issues.
    pub arrivals: Arrivals,
    /// Events that are there twice.
    pub duplicates: Duplicates,
    /// Address against time.
    pub heat: Option<HeatMap>,
    /// Sequentiality.
    pub sequentiality: Option<Sequentiality>,
    /// Sequentiality by process, where the trace names processes.
    pub by_pid: Option<ByPid>,
    /// What was issued when; for phases.
    pub composition: Option<Composition>,
    /// Access counts by sector.
    pub access: Option<SectorAccess>,
    /// Distinct blocks, of all time and of windows of ten seconds.
    pub windowed_set: Option<WindowedSet>,
    /// Reuse distances.
    pub reuse: Option<Reuse>,
    /// Times between touches of a block.
    pub intervals: Option<Intervals>,
    /// Times between the stages of the block layer.
    pub stages: Option<Stages>,
    /// What was issued in the phases given.
    pub given: GivenPhases,
    /// Pairs, a lost completion costing one request.
    pub newest: Option<Pairing>,
    /// Pairs, requests of one place queueing.
    pub fifo: Option<Pairing>,
}

/// What continues what, and when that was.
type Placed = (Sequentiality, Composition);

/// Analyses that share a thread.
enum Group {
    Flow(Box<(Traffic, Arrivals, Option<HeatMap>, Duplicates)>),
    Steps(Box<(Option<Stages>, GivenPhases, Option<ByPid>)>),
    Places(Box<Option<Placed>>),
    Access(Box<Option<SectorAccess>>),
    Blocks(Box<(Option<Reuse>, Option<WindowedSet>)>),
    Times(Box<Option<Intervals>>),
    Pairs(Box<Option<Pairs>>),
}

fn feed<A: Analyser>(analyser: &mut Option<A>, batch: &Batch) {
    if let Some(analyser) = analyser {
        analyser.observe_batch(batch);
    }
}

/// Hands batches to the threads of the groups, several at a time: to wake a thread costs as much as a thousand events.
#[derive(Default)]
struct Fan {
    senders: Vec<SyncSender<Vec<Arc<Batch>>>>,
    waiting: Vec<Arc<Batch>>,
    events: usize,
}

/// Threads that help to sort at the end, when there is nothing else to do.
const HELPERS: usize = 2;
/// Events that are handed on together.
const TOGETHER: usize = 1 << 14;
/// Times as many that may wait for a group.
const IN_FLIGHT: usize = 4;

impl Fan {
    fn take(&mut self, batch: &Arc<Batch>) {
        self.events += batch.events.len();
        self.waiting.push(Arc::clone(batch));
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
}

impl Group {
    fn all(options: &StatsOptions) -> Vec<Self> {
        let wanted = options.wanted;
        vec![
            Self::Flow(Box::new((
                if options.bins_by_clock {
                    Traffic::by_clock(options.bin_ns)
                } else {
                    Traffic::new(options.bin_ns)
                },
                Arrivals::new(options.burst_gap_ns),
                wanted.heat.then(HeatMap::default),
                Duplicates::default(),
            ))),
            Self::Places(Box::new(wanted.sequentiality.then(Default::default))),
            Self::Access(Box::new(wanted.access.then(|| {
                let is_alone = options.read.threads <= 1;
                SectorAccess::default().with_helpers(if is_alone { 0 } else { HELPERS })
            }))),
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
                GivenPhases::new(&options.phases),
                wanted.sequentiality.then(ByPid::default),
            ))),
            Self::Pairs(Box::new(
                wanted
                    .latency
                    .then(|| Pairs::new(options.stale_ns, options.grid())),
            )),
        ]
    }

    fn is_idle(&self) -> bool {
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
    fn finish(mut self) -> Self {
        match &mut self {
            Self::Flow(group) => {
                group.0.finish();
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

    fn take(&mut self, batch: &Arc<Batch>) {
        match self {
            Self::Flow(group) => {
                group.0.observe_batch(batch);
                group.1.observe_batch(batch);
                feed(&mut group.2, batch);
                group.3.observe_batch(batch);
            }
            Self::Steps(group) => {
                feed(&mut group.0, batch);
                group.1.observe_batch(batch);
                feed(&mut group.2, batch);
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

impl Stats {
    /// Reads all inputs as one trace and makes the analyses asked for.
    ///
    /// Memory follows what was touched (distinct blocks, distinct request borders, bins of time), not the number of lines.
    ///
    /// # Errors
    ///
    /// As [`read`](crate::pipeline::read).
    pub fn of_files(paths: &[PathBuf], options: &StatsOptions) -> Result<Self> {
        if options.read.threads <= 1 {
            let start = || Group::all(options);
            let cell = std::cell::RefCell::new(start());
            let outcome = read_shapes(
                paths,
                &options.read,
                &mut |batch| {
                    let groups = &mut *cell.borrow_mut();
                    groups.iter_mut().for_each(|group| group.take(batch));
                },
                &mut || *cell.borrow_mut() = start(),
            )?;
            let groups = cell.into_inner().into_iter();
            return Ok(Self::assemble(outcome, groups.map(Group::finish).collect()));
        }
        thread::scope(|scope| {
            let start = || {
                let mut fan = Fan::default();
                let mut threads = Vec::new();
                for mut group in Group::all(options) {
                    if group.is_idle() {
                        threads.push(scope.spawn(move || group));
                        continue;
                    }
                    let (sender, batches) = sync_channel::<Vec<Arc<Batch>>>(IN_FLIGHT);
                    fan.senders.push(sender);
                    threads.push(scope.spawn(move || {
                        while let Ok(batches) = batches.recv() {
                            batches.iter().for_each(|batch| group.take(batch));
                        }
                        group.finish()
                    }));
                }
                (fan, threads)
            };
            let cell = std::cell::RefCell::new(start());
            let outcome = read_shapes(
                paths,
                &options.read,
                &mut |batch| cell.borrow_mut().0.take(batch),
                &mut || *cell.borrow_mut() = start(),
            );
            let (mut fan, threads) = cell.into_inner();
            fan.hand_on();
            drop(fan);
            let mut groups = Vec::new();
            for thread in threads {
                groups.push(thread.join().map_err(|_| {
                    Error::ThreadDied {
                        name: paths
                            .first()
                            .map(|path| path.display().to_string())
                            .unwrap_or_default(),
                    }
                })?);
            }
            Ok(Self::assemble(outcome?, groups))
        })
    }

    fn assemble(outcome: Outcome, groups: Vec<Group>) -> Self {
        let mut stats = Self {
            outcome,
            traffic: Traffic::new(SECOND),
            arrivals: Arrivals::new(0),
            duplicates: Duplicates::default(),
            heat: None,
            sequentiality: None,
            by_pid: None,
            composition: None,
            access: None,
            windowed_set: None,
            reuse: None,
            intervals: None,
            stages: None,
            given: GivenPhases::default(),
            newest: None,
            fifo: None,
        };
        for group in groups {
            match group {
                Group::Flow(group) => {
                    (stats.traffic, stats.arrivals, stats.heat, stats.duplicates) = *group;
                }
                Group::Times(intervals) => stats.intervals = *intervals,
                Group::Steps(group) => (stats.stages, stats.given, stats.by_pid) = *group,
                Group::Places(places) => {
                    (stats.sequentiality, stats.composition) = places.unzip();
                }
                Group::Access(access) => stats.access = *access,
                Group::Blocks(group) => {
                    (stats.reuse, stats.windowed_set) = *group;
                }
                Group::Pairs(pairs) => {
                    (stats.newest, stats.fifo) = pairs.map(Pairs::both).unzip();
                }
            }
        }
        stats
    }
}
