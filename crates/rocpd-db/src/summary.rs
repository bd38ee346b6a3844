//! What took how long: kernels, copies, allocations, calls by domain, markers.

mod newer;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::filter::{Filter, domain_of, first_word_of};
use crate::info::Process;
use crate::records::{AllocLevel, Allocation, Copy, Dispatch, Region, Sample};
use crate::scan::Order;
use crate::set::RocpdSet;
use crate::stats::{Quantiles, Stat};

/// What to summarise.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SummaryOptions {
    /// What to summarise, in any case: domains of regions, `MARKER` or `MARKERS`, and views by name or first word (`KERNEL`,
    /// `MEMORY`, `SCRATCH_MEMORY`); everything if `None`. `NONE` alone means all views and no regions.
    pub region_categories: Option<Vec<String>>,
    /// Follow the reference of August 2025: `region_categories` choose regions only, and a domain is the first word of its
    /// category (`rocm` instead of `rocm_hip`).
    pub compat: bool,
    /// Keep every duration, for quantiles: 8 bytes of memory a record.
    pub quantiles: bool,
    /// How kernels are called.
    pub names: crate::KernelNames,
}

/// Durations of one name in one process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SummaryRow {
    /// Number of the process among [`Summary::processes`].
    pub process: usize,
    /// What it is called.
    pub name: String,
    /// Its durations.
    pub stat: Stat,
    /// Bytes, of copies and allocations.
    pub bytes: i128,
    /// Number of records that end before they start; their durations, below 0, are in the sums.
    pub reversed: u64,
    /// Sum of those durations, at most 0.
    pub reversed_ns: i128,
    /// Number of dispatches that repeat another one to collect further counters (kernel replay).
    pub replays: u64,
    /// Every duration, when asked for.
    pub durations_ns: Vec<i64>,
}

/// Names that belong together: a view, or a domain of calls.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SummaryView {
    /// For example `kernels`, `memory_copies`, `hip`, `markers`.
    pub view: String,
    rows: Vec<SummaryRow>,
}

/// All summaries, made in one pass over each table.
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary<'a> {
    /// The processes, in the order of the files.
    pub processes: Vec<&'a Process>,
    /// The views that have rows: kernels, memory_copies, memory_allocations, scratch_memory, graph_launches (by category) and
    /// hip_events since generations 3.0.2 and 3.0.4, domains by name, markers.
    pub views: Vec<SummaryView>,
    /// Records that the views of the format leave out, because something they join is missing: dispatches, copies,
    /// allocations, regions and samples.
    pub lost: Lost,
    /// Dispatches that repeat another one to collect further counters (kernel replay, pass 1 and later). Each is a row of the
    /// view `kernels` with a duration of its own, and is counted there.
    pub replays: u64,
}

/// Records that joined views leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Dispatches without region name, event, agent, kernel, queue, process of the queue, or thread.
    pub dispatches: u64,
    /// Copies without agent, event, name, process or thread.
    pub copies: u64,
    /// Allocations without event, process or thread.
    pub allocations: u64,
    /// Regions without event, name, process or thread.
    pub regions: u64,
    /// Samples without event, process or thread.
    pub samples: u64,
}

impl Lost {
    /// Returns the counts that are not 0, each with what these records lack.
    pub fn counts(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (
                self.dispatches,
                "dispatches without region name, event, kernel, agent, queue, process or thread",
            ),
            (
                self.copies,
                "copies without agent, event, name, process or thread",
            ),
            (
                self.allocations,
                "allocations without event, process or thread",
            ),
            (
                self.regions,
                "regions without event, name, process or thread",
            ),
            (self.samples, "samples without event, process or thread"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }
}

/// The name of what has none: markers without message, kernels without any name.
const NO_NAME: &str = "<none>";

/// Rows under construction, found by where their names lie in memory and merged by text at the end.
#[derive(Default)]
struct Rows<'a> {
    by_place: FxHashMap<(usize, usize, usize), usize>,
    by_text: FxHashMap<(usize, String), usize>,
    rows: Vec<SummaryRow>,
    kept: std::marker::PhantomData<&'a str>,
}

impl<'a> Rows<'a> {
    /// A name from a dictionary, which stays where it is.
    #[inline]
    fn lasting(&mut self, process: usize, name: &'a str) -> &mut SummaryRow {
        let place = (process, name.as_ptr().addr(), name.len());
        let at = match self.by_place.get(&place) {
            Some(&at) => at,
            None => {
                let at = self.index(process, name);
                self.by_place.insert(place, at);
                at
            }
        };
        &mut self.rows[at]
    }

    /// Any name.
    fn passing(&mut self, process: usize, name: &str) -> &mut SummaryRow {
        let at = self.index(process, name);
        &mut self.rows[at]
    }

    fn index(&mut self, process: usize, name: &str) -> usize {
        *self
            .by_text
            .entry((process, name.to_owned()))
            .or_insert_with(|| {
                self.rows.push(SummaryRow {
                    process,
                    name: name.to_owned(),
                    stat: Stat::default(),
                    bytes: 0,
                    reversed: 0,
                    reversed_ns: 0,
                    replays: 0,
                    durations_ns: Vec::new(),
                });
                self.rows.len() - 1
            })
    }

    fn view(self, view: String) -> SummaryView {
        SummaryView {
            view,
            rows: self.rows,
        }
    }
}

impl SummaryRow {
    #[inline]
    fn add(&mut self, duration_ns: i64, quantiles: bool) {
        self.stat.add(duration_ns);
        self.reversed += u64::from(duration_ns < 0);
        self.reversed_ns += i128::from(duration_ns.min(0));
        if quantiles {
            self.durations_ns.push(duration_ns);
        }
    }
}

/// The views besides those of regions.
const VIEWS: [&str; 6] = [
    "kernels",
    "memory_copies",
    "memory_allocations",
    "scratch_memory",
    "graph_launches",
    "hip_events",
];

/// Which domains of regions are wanted.
struct Wanted {
    all: bool,
    list: Vec<String>,
}

impl Wanted {
    fn new(options: &SummaryOptions) -> Self {
        let list: Vec<String> = options
            .region_categories
            .iter()
            .flatten()
            .map(|name| name.to_ascii_uppercase())
            .collect();
        Self {
            all: options.region_categories.is_none(),
            list,
        }
    }

    /// Singular and plural are the same.
    fn has(&self, domain: &str) -> bool {
        let domain = domain.to_ascii_uppercase();
        let same = |name: &str| {
            name == domain
                || name.strip_suffix('S') == Some(&domain)
                || domain.strip_suffix('S') == Some(name)
        };
        self.all || self.list.iter().any(|name| same(name))
    }

    /// Returns `true` if no regions are wanted, but all views.
    fn is_none(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|name| name == "NONE")
    }

    /// Returns `true` if a view is wanted: by its name, singular or plural, or by the first word of it.
    fn has_view(&self, view: &str) -> bool {
        let view = view.to_ascii_uppercase();
        let named = |name: &str| {
            let plural = match name.strip_suffix('Y') {
                Some(stem) => format!("{stem}IES"),
                None => format!("{name}S"),
            };
            let starts = |start: &str| {
                let rest = view.strip_prefix(start);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
            };
            view == name || view == plural || starts(name) || starts(&plural)
        };
        self.all || self.is_none() || self.list.iter().any(|name| named(name))
    }

    /// Names that the data do not have.
    fn unknown(&self, domains: &[String]) -> Option<&str> {
        self.list
            .iter()
            .find(|name| {
                let one = Self {
                    all: false,
                    list: vec![(*name).clone()],
                };
                *name != "NONE"
                    && *name != "MARKER"
                    && *name != "MARKERS"
                    && !domains.iter().any(|d| one.has(d))
                    && !VIEWS.iter().any(|view| one.has_view(view))
            })
            .map(String::as_str)
    }
}

impl<'a> Summary<'a> {
    /// Reads everything that the filter wants.
    ///
    /// Time: one pass over each table, and a look at the event of each record. Memory: the names, and with quantiles the
    /// durations.
    ///
    /// # Errors
    ///
    /// When a file is damaged, or a region category is asked for that the data do not have.
    pub fn collect(
        set: &'a RocpdSet,
        filter: &'a Filter,
        options: &SummaryOptions,
    ) -> Result<Self> {
        let processes: Vec<&Process> = set.processes().collect();
        let mut summary = Self {
            views: Vec::new(),
            lost: Lost::default(),
            replays: 0,
            processes,
        };
        let numbers: FxHashMap<(usize, i64), usize> = (0..)
            .zip(&summary.processes)
            .map(|(number, process)| ((process.partition, process.id), number))
            .collect();
        let number = |process: &Process| {
            numbers
                .get(&(process.partition, process.id))
                .copied()
                .unwrap_or_default()
        };
        let quantiles = options.quantiles;
        let kernels = summary.kernels(set, filter, options, &number)?;
        summary.views.push(kernels);

        let mut rows = Rows::default();
        for copy in set.scan::<Copy<'_>>(filter, Order::Stored)? {
            let copy = copy?;
            match copy.name.filter(|_| copy.in_view()) {
                Some(name) => {
                    let row = rows.lasting(number(copy.process), name);
                    row.add(copy.duration_ns(), quantiles);
                    row.bytes += i128::from(copy.size_bytes);
                }
                None => summary.lost.copies += 1,
            }
        }
        summary.views.push(rows.view("memory_copies".to_owned()));

        let mut rows = Rows::default();
        let mut scratch = Rows::default();
        for allocation in set.scan::<Allocation<'_>>(filter, Order::Stored)? {
            let allocation = allocation?;
            if !allocation.in_view() {
                summary.lost.allocations += 1;
                continue;
            }
            let process = number(allocation.process);
            let name = match allocation.kind.text() {
                "" => NO_NAME,
                text => text,
            };
            let duration_ns = allocation.duration_ns();
            let row = rows.lasting(process, name);
            row.add(duration_ns, quantiles);
            row.bytes += i128::from(allocation.size_bytes);
            if allocation.level == AllocLevel::Scratch {
                let row = scratch.lasting(process, name);
                row.add(duration_ns, quantiles);
                row.bytes += i128::from(allocation.size_bytes);
            }
        }
        summary
            .views
            .push(rows.view("memory_allocations".to_owned()));
        summary
            .views
            .push(scratch.view("scratch_memory".to_owned()));
        summary.newer(set, filter, quantiles)?;
        if !options.compat {
            let wanted = Wanted::new(options);
            summary.views.retain(|view| wanted.has_view(&view.view));
        }
        summary.regions(set, filter, options, &number)?;
        summary.views.retain(|view| !view.rows.is_empty());
        Ok(summary)
    }

    fn kernels(
        &mut self,
        set: &'a RocpdSet,
        filter: &'a Filter,
        options: &SummaryOptions,
        number: &dyn Fn(&Process) -> usize,
    ) -> Result<SummaryView> {
        let mut rows = Rows::default();
        for dispatch in set.scan::<Dispatch<'_>>(filter, Order::Stored)? {
            let dispatch = dispatch?;
            if !dispatch.in_view() {
                self.lost.dispatches += 1;
                continue;
            }
            let process = number(dispatch.process);
            let row = match options.names.in_view(&dispatch) {
                Some(Cow::Borrowed(name)) => rows.lasting(process, name),
                Some(Cow::Owned(name)) => rows.passing(process, &name),
                None => rows.lasting(process, NO_NAME),
            };
            row.add(dispatch.duration_ns(), options.quantiles);
            if dispatch.replay_pass.is_some_and(|pass| pass > 0) {
                self.replays += 1;
                row.replays += 1;
            }
        }
        Ok(rows.view("kernels".to_owned()))
    }

    fn regions(
        &mut self,
        set: &'a RocpdSet,
        filter: &'a Filter,
        options: &SummaryOptions,
        number: &dyn Fn(&Process) -> usize,
    ) -> Result<()> {
        let wanted = Wanted::new(options);
        if wanted.is_none() {
            return Ok(());
        }
        let mut domains: Vec<(String, Rows<'_>)> = Vec::new();
        let mut by_category: FxHashMap<(usize, usize), Option<usize>> = FxHashMap::default();
        let mut known: Vec<String> = Vec::new();
        let mut markers = Rows::default();
        let quantiles = options.quantiles;
        let mut add = |region: &Region<'a>| {
            let category = region.event.as_ref().and_then(|event| event.category);
            let place = category.map_or((0, 0), |c| (c.as_ptr().addr(), c.len()));
            let at = *by_category.entry(place).or_insert_with(|| {
                let domain = match options.compat {
                    true => first_word_of(category),
                    false => domain_of(category),
                };
                if !known.iter().any(|name| name == domain) {
                    known.push(domain.to_owned());
                }
                if domain.to_ascii_uppercase().contains("MARKER") {
                    return wanted.has("MARKER").then_some(usize::MAX);
                }
                if !wanted.has(domain) {
                    return None;
                }
                let view = domain.to_lowercase();
                let at = domains.iter().position(|(name, _)| *name == view);
                Some(at.unwrap_or_else(|| {
                    domains.push((view, Rows::default()));
                    domains.len() - 1
                }))
            });
            let process = number(region.process);
            let duration_ns = region.duration_ns();
            match at {
                None => {}
                Some(usize::MAX) => {
                    let is_systems = category.is_some_and(|c| !c.starts_with("MARKER"));
                    let own = region.name.filter(|_| is_systems);
                    let name = region.message.as_deref().or(own).unwrap_or(NO_NAME);
                    markers.passing(process, name).add(duration_ns, quantiles);
                }
                Some(at) => {
                    if let Some((_, rows)) = domains.get_mut(at) {
                        let name = region.name.unwrap_or(NO_NAME);
                        rows.lasting(process, name).add(duration_ns, quantiles);
                    }
                }
            }
        };
        for region in set.scan::<Region<'_>>(filter, Order::Stored)? {
            let region = region?;
            match region.in_view() {
                true => add(&region),
                false => self.lost.regions += 1,
            }
        }
        for sample in set.scan::<Sample<'_>>(filter, Order::Stored)? {
            let sample = sample?;
            match sample.in_view() {
                true => add(&sample.as_region()),
                false => self.lost.samples += 1,
            }
        }
        known.sort();
        if let Some(found) = wanted.unknown(&known) {
            return Err(Error::UnknownCategory {
                found: found.to_owned(),
                known: [known.join(", "), VIEWS.join(", ").to_uppercase()].join(", "),
            });
        }
        domains.sort_by(|a, b| a.0.cmp(&b.0));
        self.views
            .extend(domains.into_iter().map(|(view, rows)| rows.view(view)));
        self.views.push(markers.view("markers".to_owned()));
        Ok(())
    }
}

impl SummaryView {
    /// One row for each name, all processes together: longest total first, then by name.
    #[must_use]
    pub fn overall(&self) -> Vec<SummaryRow> {
        let mut merged: Vec<SummaryRow> = Vec::new();
        let mut index: FxHashMap<&str, usize> = FxHashMap::default();
        for row in &self.rows {
            match index.get(row.name.as_str()).copied() {
                Some(at) => {
                    if let Some(found) = merged.get_mut(at) {
                        found.stat.merge(&row.stat);
                        found.bytes += row.bytes;
                        found.reversed += row.reversed;
                        found.reversed_ns += row.reversed_ns;
                        found.replays += row.replays;
                        found.durations_ns.extend(&row.durations_ns);
                    }
                }
                None => {
                    index.insert(&row.name, merged.len());
                    merged.push(row.clone());
                }
            }
        }
        merged.sort_by(by_total);
        merged
    }

    /// Returns the number of records that end before they start.
    #[must_use]
    pub fn reversed(&self) -> u64 {
        self.rows.iter().map(|row| row.reversed).sum()
    }

    /// One row for each process and name: by process id, host and guid, then as [`SummaryView::overall`].
    #[must_use]
    pub fn by_rank(&self, processes: &[&Process]) -> Vec<SummaryRow> {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| {
            by_process(processes, a.process, b.process).then_with(|| by_total(a, b))
        });
        rows
    }
}

fn by_total(a: &SummaryRow, b: &SummaryRow) -> std::cmp::Ordering {
    (b.stat.total_ns, &a.name).cmp(&(a.stat.total_ns, &b.name))
}

/// Processes by process id, then host and guid.
pub(crate) fn by_process(processes: &[&Process], a: usize, b: usize) -> std::cmp::Ordering {
    let key = |at: usize| {
        processes
            .get(at)
            .map(|process| (process.pid, &process.hostname, &process.guid))
    };
    key(a).cmp(&key(b))
}

/// A line of the summary of domains.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DomainRow {
    /// Number of the process; 0 where all are together.
    pub process: usize,
    /// The view in capitals.
    pub name: String,
    /// All durations of the domain.
    pub stat: Stat,
    /// The reference's AVERAGE: the sum of the averages of each name.
    pub sum_of_means_ns: f64,
    /// The reference's STD_DEV: the sum of the deviations of each name; none where no name has one.
    pub sum_of_stddevs_ns: Option<f64>,
    /// Quantiles, when durations were kept.
    pub quantiles: Option<Quantiles>,
    /// Share of the sum over domains, percent; none of a sum of 0.
    pub share_pct: Option<f64>,
}

fn domain_row(view: &SummaryView, process: usize, rows: &[SummaryRow]) -> DomainRow {
    let mut row = DomainRow {
        process,
        name: view.view.to_uppercase(),
        stat: Stat::default(),
        sum_of_means_ns: 0.0,
        sum_of_stddevs_ns: None,
        quantiles: None,
        share_pct: None,
    };
    let mut durations = Vec::new();
    for part in rows {
        row.stat.merge(&part.stat);
        row.sum_of_means_ns += part.stat.mean_ns();
        if let Some(stddev_ns) = part.stat.stddev_ns() {
            *row.sum_of_stddevs_ns.get_or_insert(0.0) += stddev_ns;
        }
        durations.extend(&part.durations_ns);
    }
    row.quantiles = (!durations.is_empty()).then(|| Quantiles::of(&mut durations));
    row
}

impl Summary<'_> {
    /// One row for each view, longest total first.
    #[must_use]
    pub fn domains(&self) -> Vec<DomainRow> {
        let mut rows: Vec<DomainRow> = self
            .views
            .iter()
            .map(|view| domain_row(view, 0, &view.overall()))
            .collect();
        let total: i128 = rows.iter().map(|row| row.stat.total_ns).sum();
        for row in &mut rows {
            row.share_pct = row.stat.share_pct(total);
        }
        rows.sort_by(|a, b| (b.stat.total_ns, &a.name).cmp(&(a.stat.total_ns, &b.name)));
        rows
    }

    /// One row for each process and view: by process, then view.
    #[must_use]
    pub fn domains_by_rank(&self) -> Vec<DomainRow> {
        let mut rows = Vec::new();
        for view in &self.views {
            for process in 0..self.processes.len() {
                let own: Vec<SummaryRow> = view
                    .by_rank(&self.processes)
                    .into_iter()
                    .filter(|row| row.process == process)
                    .collect();
                if !own.is_empty() {
                    rows.push(domain_row(view, process, &own));
                }
            }
        }
        let mut totals = vec![0_i128; self.processes.len()];
        for row in &rows {
            totals[row.process] += row.stat.total_ns;
        }
        for row in &mut rows {
            row.share_pct = row.stat.share_pct(totals[row.process]);
        }
        rows.sort_by(|a, b| {
            by_process(&self.processes, a.process, b.process).then_with(|| a.name.cmp(&b.name))
        });
        rows
    }
}
