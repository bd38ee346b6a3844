//! All analyses of one trace in one pass.

mod groups;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::analyse::access::SectorAccess;
use crate::analyse::bursts::Arrivals;
use crate::analyse::by_cpu::ByCpu;
use crate::analyse::by_pid::ByPid;
use crate::analyse::composition::Composition;
use crate::analyse::devices::{MAX_DEVICES, Parts, Split};
use crate::analyse::duplicates::Duplicates;
use crate::analyse::heat::HeatMap;
use crate::analyse::intervals::Intervals;
use crate::analyse::nesting::{Evidence, Nesting, may_lie_on_others};
use crate::analyse::pairing::Pairing;
use crate::analyse::pairs::Pairs;
use crate::analyse::reuse::Reuse;
use crate::analyse::sequential::Sequentiality;
use crate::analyse::stages::Stages;
use crate::analyse::traffic::{Grid, SECOND, Traffic};
use crate::analyse::user_phases::{Named, UserPhases};
use crate::analyse::working_set::WindowedSet;
use crate::error::{Error, Result};
use crate::pipeline::{Outcome, ReadOptions, is_pipe, read};
use groups::{Fan, Group, GroupSet, IN_FLIGHT};

/// The analyses to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each analysis can be left out on its own"
)]
#[non_exhaustive]
pub struct AnalysisSet {
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

impl AnalysisSet {
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

/// Options of the analyses.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatsOptions {
    /// Options of reading.
    pub read: ReadOptions,
    /// Width of the bins of the series in nanoseconds.
    pub bin_ns: u64,
    /// Make these bins narrower for short traces, so that a series has a few hundred of them. The inputs are then read twice;
    /// bins of pipes stay as they are.
    pub adapt_bins: bool,
    /// `true` if these bins begin at multiples of their width of the trace's clock, rather than at the first issue.
    pub bins_by_clock: bool,
    /// Gap that ends a burst.
    pub burst_gap_ns: u64,
    /// Age at which an outstanding request is given up.
    pub stale_ns: u64,
    /// Sectors of the blocks of reuse distances.
    pub reuse_block_sectors: u64,
    /// `true` if reuse distances are those of every block however many there are, instead of a sample of very many.
    pub exact_reuse: bool,
    /// Width of the windows of the working set over time.
    pub working_set_window_ns: u64,
    /// Phases the user knows.
    pub phases: Vec<Named>,
    /// Analyse only these devices (`major << 20 | minor`). With `None`, devices that lie on others of the trace are left out,
    /// since their requests are there twice.
    pub devices: Option<Vec<u32>>,
    /// The analyses to make.
    pub wanted: AnalysisSet,
}

impl Default for StatsOptions {
    fn default() -> Self {
        Self {
            read: ReadOptions::default(),
            bin_ns: SECOND,
            adapt_bins: false,
            bins_by_clock: false,
            burst_gap_ns: 100_000_000,
            stale_ns: 5 * SECOND,
            reuse_block_sectors: 256,
            exact_reuse: false,
            working_set_window_ns: 10 * SECOND,
            phases: Vec::new(),
            devices: None,
            wanted: AnalysisSet::ALL,
        }
    }
}

impl StatsOptions {
    /// Returns the bins of the series.
    fn grid(&self) -> Grid {
        Grid::new(self.bin_ns, self.bins_by_clock)
    }
}

/// The analyses of a trace.
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// Totals by processor.
    pub by_cpu: Option<ByCpu>,
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
    pub given: UserPhases,
    /// Pairs, a lost completion costing one request.
    pub newest: Option<Pairing>,
    /// Pairs, requests of one place queueing.
    pub fifo: Option<Pairing>,
    /// The analyses of each device, by device number, where the trace has requests of several; at most
    /// [`MAX_DEVICES`]. Times count from the first request of the device.
    pub devices: Vec<(u32, Stats)>,
    /// Devices of the trace that lie on others.
    pub stacked: Vec<Stacked>,
    /// The analyses of the devices that are left out of the totals since they lie on others.
    pub apart: Vec<(u32, Stats)>,
    /// Devices whose bios are left out, since the trace shows neither requests for them nor where they go on.
    pub bios_left_out: Vec<u32>,
}

/// A device whose requests cause requests of another device of the same trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stacked {
    /// The upper device, as in [`Event::dev`](crate::Event::dev).
    pub upper: u32,
    /// The device below it.
    pub lower: u32,
    /// The evidence for it.
    pub evidence: Evidence,
    /// `true` if the upper device is left out of the analyses.
    pub is_left_out: bool,
    /// `false` if the upper device has no requests of its own: it passes its bios on, which are queued at the device below again.
    pub upper_has_requests: bool,
    /// Share of the upper device's bytes that requests of lower devices of the trace were found for.
    pub share_below: Option<f64>,
}

/// Bins that a series has at most where its bins adapt.
const FITTING_BINS: u64 = 300;

/// Returns the width of bins for a trace of this length: 1, 2 or 5 times a power of ten, from a millisecond on.
fn fitting_bin(span_ns: u64) -> u64 {
    let least = span_ns / FITTING_BINS;
    let mut decade: u64 = 1_000_000;
    loop {
        for times in [1, 2, 5] {
            if decade.saturating_mul(times) >= least {
                return decade.saturating_mul(times);
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// What a pass over the inputs gives.
struct Passed {
    outcome: Outcome,
    sets: Vec<GroupSet>,
    /// Devices with requests, in order of their first one.
    devices: Vec<u32>,
    /// Devices at which bios were queued.
    queued: BTreeSet<u32>,
    nesting: Nesting,
}

impl Passed {
    /// Returns the time from the first issue to the last completion.
    fn span_ns(&self) -> u64 {
        let traffic = self.sets.iter().find_map(|set| match &set.all {
            Group::Flow(group) => Some(&group.0),
            _ => None,
        });
        traffic.map_or(0, Traffic::run_ns)
    }

    /// Devices that lie on others: by remap events, else by requests that lie inside others.
    fn stacked(&self) -> Vec<Stacked> {
        let remaps = self.outcome.counts().remaps.into_iter();
        let remaps = remaps.map(|pair| (pair, Evidence::Remap));
        let nested = self.nesting.stacked(&self.outcome.symbols).into_iter();
        let nested = nested.map(|pair| (pair, Evidence::Nested));
        let mut found: Vec<Stacked> = Vec::new();
        for ((upper, lower), evidence) in remaps.chain(nested) {
            let is_here = [upper, lower].iter().all(|dev| self.devices.contains(dev));
            // No device lies on itself by way of others: the first evidence holds.
            let is_new = !found.iter().any(|pair| {
                (pair.upper, pair.lower) == (upper, lower)
                    || (pair.upper, pair.lower) == (lower, upper)
            });
            if is_here && is_new {
                found.push(Stacked {
                    upper,
                    lower,
                    evidence,
                    is_left_out: false,
                    upper_has_requests: true,
                    share_below: self.nesting.share_below(upper),
                });
            }
        }
        found.extend(self.passed_on());
        found.sort_unstable_by_key(|pair| (pair.upper, pair.lower));
        found
    }

    /// Devices that pass their bios on to others, where these are queued again. The bios of a partition are queued once.
    fn passed_on(&self) -> impl Iterator<Item = Stacked> {
        let queued = &self.queued;
        let remaps = self.outcome.counts().remaps.into_iter();
        let pairs = remaps.filter(|(upper, lower)| {
            queued.contains(upper) && queued.contains(lower) && !self.devices.contains(upper)
        });
        pairs.map(|(upper, lower)| Stacked {
            upper,
            lower,
            evidence: Evidence::Remap,
            is_left_out: false,
            upper_has_requests: false,
            share_below: None,
        })
    }

    /// Devices of which the trace has bios alone, while others have bios and requests: what issues the former is not told by the trace, and a
    /// request of the latter has none of them.
    fn without_requests(&self) -> Vec<u32> {
        let has_requests = |dev: &u32| self.devices.contains(dev);
        if !self.queued.iter().any(has_requests) {
            return Vec::new();
        }
        let remaps = self.outcome.counts().remaps;
        let is_remapped = |dev: u32| remaps.iter().any(|(upper, _)| *upper == dev);
        let bios = self.queued.iter().filter(|dev| !has_requests(dev));
        let apart = bios.filter(|dev| {
            // One of the same driver may be a partition of a disk with requests.
            let is_alike = self.devices.iter().any(|other| other >> 20 == **dev >> 20);
            !is_remapped(**dev) && !is_alike && may_lie_on_others(**dev, &self.outcome.symbols)
        });
        apart.copied().collect()
    }
}

impl Stats {
    /// Reads all inputs as one trace and makes the analyses asked for.
    ///
    /// Memory follows what was touched (distinct blocks, distinct request borders, bins of time), not the number of lines.
    ///
    /// Devices are told apart: places are those of each device, and totals are sums. Where the trace shows that a device lies
    /// on others (device mapper, RAID, loop), its requests or bios are there twice; the inputs are then read again without the upper
    /// device, which is not possible for pipes.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub fn of_files(paths: &[PathBuf], options: &StatsOptions) -> Result<Self> {
        let passed = Self::pass(paths, options, &[])?;
        let mut stacked = match options.devices {
            None => passed.stacked(),
            Some(_) => Vec::new(),
        };
        let alone = match options.devices {
            None => passed.without_requests(),
            Some(_) => Vec::new(),
        };
        let is_upper = |dev: &u32| stacked.iter().any(|pair| pair.upper == *dev);
        let kept = passed.devices.iter().copied().filter(|dev| !is_upper(dev));
        let mut kept: Vec<u32> = kept.collect();
        let passes_on = passed
            .queued
            .iter()
            .any(|dev| is_upper(dev) || alone.contains(dev));
        let leaves_out = !kept.is_empty() && (kept.len() < passed.devices.len() || passes_on);
        // Bios of partitions belong to the requests of their disks.
        let bios = passed.queued.iter().copied();
        let bios = bios.filter(|dev| !passed.devices.contains(dev));
        kept.extend(bios.filter(|dev| !is_upper(dev) && !alone.contains(dev)));
        let uppers = passed.devices.iter().copied().filter(is_upper);
        let mut apart: Vec<u32> = uppers.take(MAX_DEVICES).collect();
        apart.sort_unstable();
        let bin_ns = options.adapt_bins.then(|| fitting_bin(passed.span_ns()));
        let bin_ns = bin_ns.filter(|bin_ns| *bin_ns < options.bin_ns);
        let again = options.read.opened.is_none() && !paths.iter().any(|path| is_pipe(path));
        let passed = if again && (leaves_out || bin_ns.is_some()) {
            drop(passed);
            let mut options = options.clone();
            options.bin_ns = bin_ns.unwrap_or(options.bin_ns);
            if leaves_out {
                stacked.iter_mut().for_each(|pair| pair.is_left_out = true);
                options.devices = Some(kept);
            } else {
                apart.clear();
            }
            Self::pass(paths, &options, &apart)?
        } else {
            apart.clear();
            passed
        };
        let mut stats = Self::assemble(passed, &apart);
        stats.stacked = stacked;
        stats.bios_left_out = if leaves_out && again {
            alone
        } else {
            Vec::new()
        };
        Ok(stats)
    }

    /// One pass over the inputs, with the devices of the options, and with others apart from all.
    fn pass(paths: &[PathBuf], options: &StatsOptions, apart: &[u32]) -> Result<Passed> {
        let split = || Split::new(options.devices.clone(), apart, options.grid());
        thread::scope(|scope| {
            let start = || {
                let mut fan = Fan::default();
                let mut threads = Vec::new();
                for mut set in GroupSet::all_of(options) {
                    if options.read.threads <= 1 || set.all.is_idle() {
                        fan.here.push(set);
                        continue;
                    }
                    let (sender, batches) = sync_channel::<Vec<Arc<Parts>>>(IN_FLIGHT);
                    fan.senders.push(sender);
                    threads.push(scope.spawn(move || {
                        while let Ok(batches) = batches.recv() {
                            batches.iter().for_each(|parts| set.take(parts));
                        }
                        set.finish()
                    }));
                }
                (split(), fan, threads)
            };
            let cell = std::cell::RefCell::new(start());
            let outcome = read(
                paths,
                &options.read,
                &mut |events| {
                    let (split, fan, _) = &mut *cell.borrow_mut();
                    fan.take(split.parts(events));
                },
                &mut || *cell.borrow_mut() = start(),
            );
            let (split, fan, threads) = cell.into_inner();
            let mut sets = fan.finish();
            for thread in threads {
                let name = paths.first().map(|path| path.display().to_string());
                sets.push(thread.join().map_err(|_| Error::ThreadDied {
                    name: name.unwrap_or_default(),
                })?);
            }
            let (devices, queued, nesting) = split.finish();
            Ok(Passed {
                outcome: outcome?,
                sets,
                devices,
                queued,
                nesting,
            })
        })
    }

    /// Puts the results of all groups together, with those of the devices apart.
    fn assemble(passed: Passed, apart: &[u32]) -> Self {
        let Passed {
            outcome,
            mut sets,
            devices,
            ..
        } = passed;
        let mut of_devices: Vec<(u32, Self)> = Vec::new();
        for (number, dev) in devices.iter().enumerate().take(MAX_DEVICES) {
            if devices.len() < 2 {
                break;
            }
            let groups = sets.iter_mut();
            let groups = groups.map(|set| take_group(&mut set.devices, number, &set.empty));
            of_devices.push((*dev, Self::of_groups(outcome.clone(), groups.collect())));
        }
        of_devices.sort_unstable_by_key(|(dev, _)| *dev);
        let apart = apart.iter().enumerate().map(|(number, dev)| {
            let groups = sets.iter_mut();
            let groups = groups.map(|set| take_group(&mut set.apart, number, &set.empty));
            (*dev, Self::of_groups(outcome.clone(), groups.collect()))
        });
        let apart: Vec<(u32, Self)> = apart.collect();
        let groups = sets.into_iter().map(|set| set.all).collect();
        let mut stats = Self::of_groups(outcome, groups);
        let accesses = of_devices.iter().filter_map(|(_, of)| of.access.as_ref());
        if let Some(access) = stats.access.as_mut().filter(|_| !of_devices.is_empty()) {
            // Sectors of all devices have been moved apart.
            (access.min_sector, access.max_sector) =
                accesses.map(|of| (of.min_sector, of.max_sector)).fold(
                    (None, None),
                    |(low, high): (Option<u64>, Option<u64>), (min, max)| {
                        let low = low.into_iter().chain(min).min();
                        (low, high.max(max))
                    },
                );
        }
        stats.devices = of_devices;
        stats.apart = apart;
        stats
    }

    fn of_groups(outcome: Outcome, groups: Vec<Group>) -> Self {
        let mut stats = Self {
            outcome,
            traffic: Traffic::new(Grid::new(SECOND, false)),
            arrivals: Arrivals::new(0),
            duplicates: Duplicates::default(),
            heat: None,
            sequentiality: None,
            by_pid: None,
            by_cpu: None,
            composition: None,
            access: None,
            windowed_set: None,
            reuse: None,
            intervals: None,
            stages: None,
            given: UserPhases::default(),
            newest: None,
            fifo: None,
            devices: Vec::new(),
            stacked: Vec::new(),
            apart: Vec::new(),
            bios_left_out: Vec::new(),
        };
        for group in groups {
            match group {
                Group::Flow(group) => {
                    (stats.traffic, stats.arrivals, stats.heat, stats.duplicates) = *group;
                }
                Group::Times(intervals) => stats.intervals = *intervals,
                Group::Steps(group) => {
                    (stats.stages, stats.given, stats.by_pid, stats.by_cpu) = *group
                }
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

/// Takes the group of a number; one without work has no more than its empty form.
fn take_group(groups: &mut [Group], number: usize, empty: &Group) -> Group {
    match groups.get_mut(number) {
        Some(group) => std::mem::replace(group, empty.clone()),
        None => empty.clone(),
    }
}
