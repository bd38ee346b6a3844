//! Runs all steps for one question about one trace.

use trace_model::kernel::Vocabulary;
use trace_model::parallel::both;
use trace_model::{SliceId, Trace};

use crate::Error;
use crate::capture::{Capture, GraphMatch, captures, match_graphs};
use crate::exposure::{DeviceTime, Exposure, HiddenBy};
use crate::filter::{LaunchFilter, in_windows};
use crate::graph::graph_launches;
use crate::link::{Launch, Launches, Linking, launches};
use crate::measure::{Bandwidth, Breakdown, CollectiveRun, Measures, Meter};
use crate::outcome::{Absence, Outcome, absence};
use crate::ranks::Transfer;
use crate::select::KernelSelector;
use crate::stacks::{StackGroup, StackOptions, Stacks, stacks};
use crate::window::{NameMatch, Pick, Window, find_windows};
use trace_model::correlation::EXTERNAL_ID_KEY;
use trace_model::kernel::collective::{COLLECTIVE_KEYS, SHAPE_KEYS};
use trace_model::kernel::{INDEX_KEYS, TraceIndex};

/// Returns the keys, without prefix, of all arguments that the analysis reads; a reader may leave out all others.
pub fn arg_keys() -> Vec<&'static str> {
    let links = [
        EXTERNAL_ID_KEY,
        "kernel",
        "Sequence number",
        "Fwd thread id",
        "Call stack",
        "call chain",
    ];
    let of_collectives = COLLECTIVE_KEYS.into_iter().chain(SHAPE_KEYS);
    let all = INDEX_KEYS.into_iter().chain(links).chain(of_collectives);
    all.collect()
}

/// Windows of a question.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum WindowChoice {
    /// The whole trace.
    #[default]
    WholeTrace,
    /// The given windows.
    Given(Vec<Window>),
    /// Windows spanned by slices with a name.
    Function(NameMatch, Pick),
}

/// A question about one trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Query {
    /// Windows. Default is the whole trace.
    pub windows: WindowChoice,
    /// Selection of kernels. Default is none.
    pub kernels: KernelSelector,
    /// Evidence for links. Default is the best available.
    pub linking: Linking,
    /// Selection of launches.
    pub filter: LaunchFilter,
    /// Options for reading stacks.
    pub stacks: StackOptions,
    /// `true` to measure the cost of the kernels. Default is `false`.
    pub measure: bool,
    /// Activities that hide communication, for exposed time.
    pub hidden_by: HiddenBy,
    /// Classification of slices.
    pub vocabulary: Vocabulary,
}

/// One stack of the answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MeasuredStack {
    /// The stack and its launches.
    pub group: StackGroup,
    /// Cost of its kernels, if measured.
    pub measures: Option<Measures>,
    /// Its kernels by name and by stream, if measured.
    pub breakdown: Option<Breakdown>,
}

impl MeasuredStack {
    /// Returns the number of distinct kernels.
    pub fn kernels(&self) -> usize {
        match &self.measures {
            Some(m) => m.kernels,
            None => {
                let mut kernels: Vec<_> = self.group.links.iter().map(|l| l.kernel).collect();
                kernels.sort_unstable();
                kernels.dedup();
                kernels.len()
            }
        }
    }
}

/// Sort key of stacks, largest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Order {
    /// Number of distinct launch calls.
    #[default]
    Count,
    /// Kernel time.
    Gpu,
    /// Exposed communication.
    Exposed,
    /// Bytes of collectives.
    Bytes,
}

/// The answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Number of windows for the requested name.
    pub candidates: usize,
    /// The windows used.
    pub windows: Vec<Window>,
    /// Outcome of the query.
    pub outcome: Outcome,
    /// The selected kernels of the whole trace with their launches.
    pub launches: Launches,
    /// The stacks; their groups have been moved to `groups`.
    pub stacks: Stacks,
    /// The stacks with their costs, in the order of the report.
    pub groups: Vec<MeasuredStack>,
    /// Number of stacks that [`Answer::arrange`] left out.
    pub left_out: usize,
    /// Kernels in the windows, if there are no stacks.
    pub absence: Option<Absence>,
    /// Graph launches in the windows.
    pub graphs: Vec<GraphMatch>,
    /// The available captures.
    pub captures: Vec<Capture>,
    /// Measures of all links in the windows together, if measured.
    pub total: Option<Measures>,
    /// Collectives in the windows in ascending time, if measured.
    pub collectives: Vec<CollectiveRun>,
    /// Time of each device over the whole trace, if measured.
    pub devices: Vec<(trace_model::DeviceId, DeviceTime)>,
}

/// Answers `query` about `trace`; `capture_traces` were taken while its graphs were captured.
///
/// # Errors
///
/// [`Error::FunctionNotFound`] and [`Error::IndexOutOfRange`] when there is no such window.
pub fn analyse(trace: &Trace, query: &Query, capture_traces: &[&Trace]) -> Result<Answer, Error> {
    let (windows, candidates) = choose_windows(trace, &query.windows)?;
    let index = TraceIndex::new(trace, query.vocabulary.clone());
    // Device activity does not depend on the question.
    let (exposure, found) = both(
        trace.len(),
        || {
            query
                .measure
                .then(|| Exposure::new(&index, query.hidden_by, |s| index.is_collective(s)))
        },
        || find_stacks(&index, query, &windows, capture_traces),
    );
    let Found {
        launches,
        links,
        mut stacks,
        graphs,
        captures,
    } = found;
    let absence = stacks
        .groups
        .is_empty()
        .then(|| absence(&index, &query.kernels, &windows));
    let mut answer = Answer {
        candidates,
        windows,
        outcome: absence.as_ref().map_or(Outcome::Stacks, |a| a.outcome),
        launches,
        groups: Vec::new(),
        left_out: 0,
        absence,
        graphs,
        captures,
        total: None,
        collectives: Vec::new(),
        devices: Vec::new(),
        stacks: Stacks::default(),
    };
    let groups = std::mem::take(&mut stacks.groups);
    answer.stacks = stacks;
    if let Some(exposure) = exposure {
        let meter = Meter::new(&index, &exposure, &links);
        answer.devices = exposure.devices().collect();
        let measured = |group: StackGroup| MeasuredStack {
            measures: Some(meter.measure(&group.links)),
            breakdown: Some(meter.breakdown(&group.links)),
            group,
        };
        // The total takes as much work as all groups together.
        let (total, groups) = both(
            links.len(),
            || meter.measure(&links),
            || groups.into_iter().map(measured).collect(),
        );
        (answer.total, answer.groups) = (Some(total), groups);
        answer.collectives = meter.into_collectives();
    } else {
        answer.groups = groups
            .into_iter()
            .map(|group| MeasuredStack {
                group,
                measures: None,
                breakdown: None,
            })
            .collect();
    }
    Ok(answer)
}

/// Links from the question to the trace.
struct Found {
    launches: Launches,
    /// The links of `launches` that pass the windows and the filter.
    links: Vec<Launch>,
    stacks: Stacks,
    graphs: Vec<GraphMatch>,
    captures: Vec<Capture>,
}

fn find_stacks(
    index: &TraceIndex<'_>,
    query: &Query,
    windows: &[Window],
    capture_traces: &[&Trace],
) -> Found {
    let launches = launches(index, &query.kernels, query.linking);
    let links = in_windows(index, &launches.links, windows, &query.filter);
    let sources: Vec<TraceIndex<'_>> = capture_traces
        .iter()
        .map(|t| TraceIndex::new(t, query.vocabulary.clone()))
        .collect();
    let extend = query.stacks.extend;
    let graphs = if extend {
        graph_launches(index, &links)
    } else {
        Vec::new()
    };
    let captures: Vec<Capture> = sources
        .iter()
        .enumerate()
        .filter(|_| extend)
        .flat_map(|(i, source)| captures(source, i))
        .collect();
    let graphs = match_graphs(index, graphs, &captures);
    let sources: Vec<&TraceIndex<'_>> = sources.iter().collect();
    let stacks = stacks(index, &links, query.stacks, &graphs, &sources);
    Found {
        launches,
        links,
        stacks,
        graphs,
        captures,
    }
}

impl Answer {
    /// Gives the stacks the bandwidths that follow from the times of their collectives without waiting, one for each of
    /// [`Answer::collectives`] as [`transfers`](crate::transfers) has them. Cost: a search for each kernel of a stack.
    pub fn set_transfers(&mut self, transfers: &[Option<Transfer>]) {
        let runs = &self.collectives;
        let of = |links: &[Launch]| {
            let mut kernels: Vec<SliceId> = links.iter().map(|link| link.kernel).collect();
            kernels.sort_unstable();
            kernels.dedup();
            let mut out = Bandwidth::default();
            for kernel in kernels {
                let at = runs.binary_search_by_key(&kernel, |run| run.kernel);
                let known = at.ok().and_then(|at| transfers.get(at)?.as_ref());
                if let Some(transfer) = known {
                    out.add(&transfer.what, transfer.latency_ns);
                }
            }
            out
        };
        let mut all = Bandwidth::default();
        for group in &mut self.groups {
            let found = of(&group.group.links);
            all = all.with(&found);
            if let Some(measures) = &mut group.measures {
                measures.bandwidth = found;
            }
        }
        if let Some(total) = &mut self.total {
            total.bandwidth = all;
        }
    }

    /// Sorts the stacks by `order` (equal ones stay as they are), then leaves out those with fewer
    /// than `min_count` launches and all after the first `top`.
    pub fn arrange(&mut self, order: Order, min_count: usize, top: Option<usize>) {
        let key = |s: &MeasuredStack| -> i128 {
            let m = s.measures.as_ref();
            match order {
                Order::Count => i128::try_from(s.group.count()).unwrap_or(i128::MAX),
                Order::Gpu => m.map_or(0, |m| i128::from(m.gpu.total_ns)),
                Order::Exposed => m.and_then(|m| m.exposed_ns).map_or(-1, i128::from),
                Order::Bytes => m.and_then(|m| m.bytes).map_or(-1, i128::from),
            }
        };
        self.groups.sort_by_key(|s| std::cmp::Reverse(key(s)));
        let before = self.groups.len();
        self.groups.retain(|s| s.group.count() >= min_count);
        self.groups.truncate(top.unwrap_or(usize::MAX));
        self.left_out += before - self.groups.len();
    }
}

fn choose_windows(trace: &Trace, choice: &WindowChoice) -> Result<(Vec<Window>, usize), Error> {
    match choice {
        WindowChoice::WholeTrace => Ok((vec![Window::whole_trace()], 1)),
        WindowChoice::Given(windows) => Ok((windows.clone(), windows.len())),
        WindowChoice::Function(name, pick) => {
            let all = find_windows(trace, name);
            if all.is_empty() {
                return Err(Error::FunctionNotFound {
                    name: name.text().to_owned(),
                });
            }
            Ok((pick.of(&all)?, all.len()))
        }
    }
}
