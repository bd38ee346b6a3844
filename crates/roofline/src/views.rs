//! Rows: calls merged by what they are, by operator, kernel, class, module, layer or phase.

use std::cmp::Ordering;

use gpu_time::{GpuWork, WorkKind, module_of};
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::kernel::{Activity, KernelClass, TraceIndex};

use crate::beyond::Reasons;
use crate::calls::{Call, CallList, NO_OPERATOR};
use crate::coverage::Cause;
use crate::limit::{Bound, Limit, RecordedDevices, real};
use crate::numbers::{Basis, Numbers};

/// Key of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum By {
    /// Operator, sizes, types and numbers.
    #[default]
    Call,
    /// Operator.
    Op,
    /// Name of the kernel.
    Kernel,
    /// Kernel class.
    Class,
    /// The Python module around the launch.
    Module,
    /// The layer of the model around the launch.
    Layer,
    /// Kind of work of the step.
    Phase,
}

/// The order of rows, most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// Time.
    #[default]
    Time,
    /// Time beyond the limit.
    Gain,
    /// Percent of the limit, least first: the farthest from it.
    Pct,
    /// FLOPs.
    Flops,
    /// Bytes.
    Bytes,
}

/// Merged calls.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Row {
    /// Its key: a place in [`CallList::kinds`] for rows by call, else one in [`Rows::names`].
    pub name: u32,
    /// Its device, where the recording has different ones: rows are then of one device each.
    pub device: Option<i64>,
    /// Calls.
    pub calls: u64,
    /// Kernels, copies and memsets.
    pub kernels: u64,
    /// Time of the calls.
    pub time_ns: i64,
    /// Time of those with numbers.
    pub known_time_ns: i64,
    /// FLOPs of all calls; `None` where those of none are known.
    pub flops: Option<u128>,
    /// Bytes of all calls.
    pub bytes: u128,
    /// Lower end.
    pub bytes_low: u128,
    /// Upper end; `None` where one has none.
    pub bytes_high: Option<u128>,
    /// Bytes that are certain: of lower bounds the lower end.
    sure_bytes: u128,
    /// Bytes over links.
    pub link_bytes: u128,
    /// Sum of the limits of calls with numbers; `None` if a peak is not known.
    pub limit_ns: Option<f64>,
    /// The same for the lower ends of the bytes.
    pub limit_low_ns: Option<f64>,
    /// The same for the upper ends; `None` where there is none.
    pub limit_high_ns: Option<f64>,
    /// The same with achievable peaks.
    pub achievable_ns: Option<f64>,
    /// Limits by what bounds them.
    bounds: [f64; 3],
    /// The least certain basis of its calls with numbers.
    basis: Option<Basis>,
    /// A fallback peak was used.
    pub fallback: Option<crate::dtype::Precision>,
    /// Why calls took less time than their limit, if some did.
    pub beyond: Reasons,
}

/// Rows and the names that they have.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Rows {
    /// Key of the rows.
    pub by: By,
    /// In the order that was asked for.
    pub rows: Vec<Row>,
    /// Names of rows that are not by call.
    pub names: Vec<String>,
}

impl Row {
    fn new(name: u32, device: Option<i64>) -> Self {
        Self {
            name,
            device,
            bytes_high: Some(0),
            limit_ns: Some(0.0),
            limit_low_ns: Some(0.0),
            limit_high_ns: Some(0.0),
            achievable_ns: Some(0.0),
            ..Self::default()
        }
    }

    /// Time that would be gained at the limit; `None` without numbers or without limit.
    pub fn gain_ns(&self) -> Option<f64> {
        Some(nanos(self.known_time_ns) - self.known_limit()?)
    }

    fn known_limit(&self) -> Option<f64> {
        self.basis?;
        self.limit_ns
    }

    /// Percent of the limit that is reached.
    pub fn pct(&self) -> Option<f64> {
        let limit = self.known_limit()?;
        (self.known_time_ns > 0).then(|| 100.0 * limit / nanos(self.known_time_ns))
    }

    /// Returns `true` if its kernels are so short that the least time of a kernel bounds them, whatever they need.
    pub fn is_launch_bound(&self, peaks: &crate::limit::Peaks) -> bool {
        let floor = peaks.launch_ns() * real(u128::from(self.kernels));
        self.bound().is_some() && nanos(self.time_ns) < floor
    }

    /// Returns the resource that bounds most of the limit.
    pub fn bound(&self) -> Option<Bound> {
        self.known_limit()?;
        let all = [Bound::Compute, Bound::Memory, Bound::Link];
        let most = all.into_iter().zip(self.bounds).rev();
        let most = most.max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, ns)| *ns > 0.0).map(|(bound, _)| bound)
    }

    /// The least certain basis of its calls; unknown if none has numbers.
    pub fn basis(&self) -> Basis {
        self.basis.unwrap_or(Basis::Unknown)
    }

    /// TFLOP/s that its calls with numbers reach.
    pub fn tflops(&self) -> Option<f64> {
        self.basis?;
        let flops = real(self.flops?);
        (self.known_time_ns > 0).then(|| flops / nanos(self.known_time_ns) / 1e3)
    }

    /// GB/s of memory that its calls with numbers reach, at least.
    pub fn gbs(&self) -> Option<f64> {
        self.basis?;
        (self.known_time_ns > 0).then(|| real(self.sure_bytes) / nanos(self.known_time_ns))
    }

    /// FLOPs for each byte.
    pub fn intensity(&self) -> Option<f64> {
        self.basis?;
        let flops = self.flops?;
        (self.bytes > 0).then(|| real(flops) / real(self.bytes))
    }

    /// Adds equal calls, or a kernel of one.
    fn add(&mut self, more: Added, numbers: Option<&Numbers>, limits: &Limits) {
        let Added {
            calls,
            kernels,
            time_ns,
        } = more;
        self.calls += calls;
        self.kernels += kernels;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        let Some(numbers) = numbers else {
            return;
        };
        // A kernel that has the numbers of its call is all of it.
        let calls = u128::from(calls);
        let sum = |all: u128, one: u128| all.saturating_add(one.saturating_mul(calls));
        self.known_time_ns = self.known_time_ns.saturating_add(time_ns);
        if let Some(flops) = numbers.flops {
            self.flops = Some(sum(self.flops.unwrap_or(0), flops));
        }
        self.bytes = sum(self.bytes, numbers.bytes);
        self.sure_bytes = sum(self.sure_bytes, numbers.sure_bytes());
        self.bytes_low = sum(self.bytes_low, numbers.bytes_low);
        let high = self.bytes_high.zip(numbers.bytes_high);
        self.bytes_high = high.map(|(all, one)| sum(all, one));
        self.link_bytes = sum(self.link_bytes, numbers.link_bytes);
        self.basis = self.basis.max(Some(numbers.basis));
        let times = real(calls);
        let sum = |all: Option<f64>, one: Option<Limit>| Some(all? + one?.ns * times);
        self.limit_ns = sum(self.limit_ns, limits.own);
        self.limit_low_ns = sum(self.limit_low_ns, limits.low);
        self.limit_high_ns = sum(self.limit_high_ns, limits.high);
        self.achievable_ns = sum(self.achievable_ns, limits.achievable);
        if let Some(limit) = limits.own {
            let ns = limit.ns * times;
            self.fallback = self.fallback.or(limit.fallback);
            match limit.bound {
                Some(Bound::Compute) => self.bounds[0] += ns,
                Some(Bound::Memory) => self.bounds[1] += ns,
                Some(Bound::Link) => self.bounds[2] += ns,
                None => {}
            }
            if ns > nanos(time_ns) {
                let factor = ns / nanos(time_ns);
                self.beyond
                    .merge(limits.beyond.of_factor(factor, limits.tf32_gain));
            }
        }
    }
}

/// What is added to a row.
#[derive(Clone, Copy)]
struct Added {
    calls: u64,
    kernels: u64,
    time_ns: i64,
}

/// Calls of one kind on one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Place in [`CallList::kinds`].
    pub(crate) kind: u32,
    pub(crate) device: i64,
    /// Why there is no operator, if there is none.
    pub(crate) cause: Option<Cause>,
    pub(crate) calls: u64,
    pub(crate) kernels: u64,
    pub(crate) time_ns: i64,
}

/// Counts the calls that `wants` takes by kind, device and cause.
pub(crate) fn tallies(
    list: &CallList,
    work: &GpuWork<'_>,
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Vec<Tally> {
    let is_alone: Vec<bool> = list
        .kinds
        .iter()
        .map(|kind| kind.op == NO_OPERATOR)
        .collect();
    let mut all: Vec<Tally> = Vec::new();
    let mut places: FxHashMap<(u32, i64, Option<Cause>), usize> = FxHashMap::default();
    // Calls of a kind are mostly alike in the rest.
    let mut latest: Vec<Option<usize>> = vec![None; list.kinds.len()];
    for call in list.calls(work).filter(|call| wants(call)) {
        let (kind, device) = (call.kind(), call.device());
        let Some(latest) = latest.get_mut(kind as usize) else {
            continue;
        };
        let cause = is_alone[kind as usize].then(|| Cause::of(&call));
        let is_same = |at: &usize| {
            let own: &Tally = &all[*at];
            (own.device, own.cause) == (device, cause)
        };
        let at = latest.filter(is_same).unwrap_or_else(|| {
            *places.entry((kind, device, cause)).or_insert_with(|| {
                all.push(Tally {
                    kind,
                    device,
                    cause,
                    calls: 0,
                    kernels: 0,
                    time_ns: 0,
                });
                all.len() - 1
            })
        });
        *latest = Some(at);
        let own = &mut all[at];
        own.calls += 1;
        own.kernels += u64::from(call.kernels());
        own.time_ns = own.time_ns.saturating_add(call.time_ns());
    }
    all
}

/// Limits of one kind of call on one device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) own: Option<Limit>,
    pub(crate) low: Option<Limit>,
    pub(crate) high: Option<Limit>,
    pub(crate) achievable: Option<Limit>,
    beyond: Reasons,
    tf32_gain: f64,
}

impl Limits {
    pub(crate) fn new(numbers: &Numbers, device: i64, devices: &RecordedDevices) -> Self {
        let Some(device) = devices.get(device) else {
            return Self::default();
        };
        let peaks = &device.peaks;
        let with = |bytes: u128| peaks.limit_with(numbers, bytes);
        let own = peaks.limit(numbers);
        Self {
            own,
            low: with(numbers.bytes_low),
            high: numbers.bytes_high.and_then(with),
            achievable: device.achievable.as_ref().and_then(|p| p.limit(numbers)),
            beyond: own.map_or(Reasons::default(), |own| Reasons::new(numbers, own, peaks)),
            tf32_gain: peaks.tf32_gain(),
        }
    }
}

/// A span as a number; durations are far below 2^52 ns.
#[expect(clippy::cast_precision_loss, reason = "durations are below 2^52 ns")]
pub(crate) fn nanos(ns: i64) -> f64 {
    ns as f64
}

/// Where calls come from: the recording, and those of captures.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a, 't> {
    /// The recording.
    pub work: &'a GpuWork<'t>,
    /// Recordings of captures, in the order that [`CallList::new`] had.
    pub captures: &'a [&'a GpuWork<'t>],
    /// Returns `true` for slices that are layers of the model, by their name.
    pub is_layer: fn(&str) -> bool,
}

/// The name of calls whose launch is in no module, or layer.
const NO_MODULE: &str = gpu_time::NO_MODULE;
/// The name of calls whose launch is in no step with lengths.
const NO_STEP: &str = "(no step)";
/// The name of calls whose launch is in no layer.
const NO_LAYER: &str = "(no layer)";

impl<'t> Origin<'_, 't> {
    fn index(&self, source: u32) -> Option<&TraceIndex<'t>> {
        match source.checked_sub(1) {
            None => Some(self.work.index()),
            Some(at) => self.captures.get(at as usize).map(|work| work.index()),
        }
    }

    fn module(&self, call: &Call<'_, '_>) -> Option<String> {
        let (source, launch) = call.launch()?;
        let work = match source.checked_sub(1) {
            None => self.work,
            Some(at) => self.captures.get(at as usize)?,
        };
        module_of(work, work.trace().slice(launch), false)
    }

    fn layer(&self, call: &Call<'_, '_>) -> Option<String> {
        let (source, launch) = call.launch()?;
        let index = self.index(source)?;
        let launch = index.trace().slice(launch);
        let found = launch.ancestors().find(|slice| {
            let named = slice.name().is_some_and(self.is_layer);
            named && index.activity(*slice) == Activity::PythonFunction
        });
        let name = found?.name()?;
        Some(name.strip_prefix("nn.Module: ").unwrap_or(name).to_owned())
    }
}

/// Merges the calls that `wants` takes.
///
/// Cost: a look-up for each distinct kind of call, by kernel and class for each piece of work; by phase, module and layer for each call, with
/// a walk up from its launch.
pub fn rows(
    list: &CallList,
    origin: &Origin<'_, '_>,
    devices: &RecordedDevices,
    (by, sort): (By, Sort),
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Rows {
    match by {
        By::Call | By::Op => {
            let tallies = tallies(list, origin.work, wants);
            rows_of(list, &tallies, devices, (by, sort))
        }
        By::Kernel => {
            let mut builder = RowsBuilder::default();
            by_kernel(&mut builder, list, origin.work, devices, &wants);
            builder.rows(list, (by, sort))
        }
        By::Class | By::Module | By::Layer | By::Phase => {
            let mut builder = RowsBuilder::default();
            let classes = match by {
                By::Class => classes(list, origin.work),
                _ => Vec::new(),
            };
            let calls = list.calls(origin.work).enumerate();
            for (at, call) in calls.filter(|(_, call)| wants(call)) {
                let device = devices.row_of(call.device());
                let at =
                    match by {
                        By::Class => {
                            builder.named(classes.get(at).map_or("", |class| class.name()), device)
                        }
                        By::Module => builder
                            .named(origin.module(&call).as_deref().unwrap_or(NO_MODULE), device),
                        By::Layer => builder
                            .named(origin.layer(&call).as_deref().unwrap_or(NO_LAYER), device),
                        _ => {
                            let step = call.step().and_then(|step| list.steps.get(step as usize));
                            let phase = step.and_then(|mark| mark.lengths.phase());
                            builder.named(phase.map_or(NO_STEP, |phase| phase.name()), device)
                        }
                    };
                let numbers = list.numbers(&call);
                let limits = builder.limits_of((call.kind(), call.device()), numbers, devices);
                let more = Added {
                    calls: 1,
                    kernels: u64::from(call.kernels()),
                    time_ns: call.time_ns(),
                };
                builder.rows[at].add(more, numbers, &limits);
            }
            builder.rows(list, (by, sort))
        }
    }
}

/// Rows by call or by operator of calls that are counted already.
pub(crate) fn rows_of(
    list: &CallList,
    tallies: &[Tally],
    devices: &RecordedDevices,
    (by, sort): (By, Sort),
) -> Rows {
    let mut builder = RowsBuilder::default();
    for own in tallies {
        let Some(kind) = list.kinds.get(own.kind as usize) else {
            continue;
        };
        let device = devices.row_of(own.device);
        let at = match by {
            By::Op => builder.named(&kind.op, device),
            _ => builder.kind(own.kind, device),
        };
        let numbers = kind.answer.as_ref().ok();
        let limits = builder.limits_of((own.kind, own.device), numbers, devices);
        let more = Added {
            calls: own.calls,
            kernels: own.kernels,
            time_ns: own.time_ns,
        };
        builder.rows[at].add(more, numbers, &limits);
    }
    builder.rows(list, (by, sort))
}

/// Rows of kernel names with the calls that they serve. Numbers are those of calls of which a kernel is all.
fn by_kernel(
    builder: &mut RowsBuilder,
    list: &CallList,
    work: &GpuWork<'_>,
    devices: &RecordedDevices,
    wants: impl Fn(&Call<'_, '_>) -> bool,
) {
    // Several kernels of one name in a call serve one call.
    let mut served: FxHashSet<(usize, u32)> = FxHashSet::default();
    for (event, at_call, call) in list.activities(work) {
        if !wants(&call) {
            continue;
        }
        let numbers = list.numbers(&call).filter(|_| call.is_all(event.kind));
        let at = builder.named(work.name(event), devices.row_of(call.device()));
        let is_first = call.kernels() == 1 || served.insert((at, at_call));
        let limits = builder.limits_of((call.kind(), call.device()), numbers, devices);
        let more = Added {
            calls: u64::from(is_first),
            kernels: 1,
            time_ns: event.dur_ns(),
        };
        builder.rows[at].add(more, numbers, &limits);
    }
}

#[derive(Default)]
struct RowsBuilder {
    known: FxHashMap<Option<i64>, FxHashMap<String, usize>>,
    kinds: FxHashMap<(u32, Option<i64>), usize>,
    names: Vec<String>,
    rows: Vec<Row>,
    limits: FxHashMap<(u32, i64), Limits>,
}

impl RowsBuilder {
    fn rows(self, list: &CallList, (by, sort): (By, Sort)) -> Rows {
        let mut rows = Rows {
            by,
            rows: self.rows,
            names: self.names,
        };
        rows.sort(list, sort);
        rows
    }

    fn named(&mut self, name: &str, device: Option<i64>) -> usize {
        let known = self.known.entry(device).or_default();
        if let Some(at) = known.get(name) {
            return *at;
        }
        let at = self.rows.len();
        known.insert(name.to_owned(), at);
        self.names.push(name.to_owned());
        self.rows
            .push(Row::new(u32::try_from(at).unwrap_or(u32::MAX), device));
        at
    }

    /// The row of a kind.
    fn kind(&mut self, kind: u32, device: Option<i64>) -> usize {
        let next = self.rows.len();
        let at = *self.kinds.entry((kind, device)).or_insert(next);
        if at == next {
            self.rows.push(Row::new(kind, device));
        }
        at
    }

    /// The limits of calls of a kind on a device.
    fn limits_of(
        &mut self,
        key: (u32, i64),
        numbers: Option<&Numbers>,
        devices: &RecordedDevices,
    ) -> Limits {
        let Some(numbers) = numbers else {
            return Limits::default();
        };
        *self
            .limits
            .entry(key)
            .or_insert_with(|| Limits::new(numbers, key.1, devices))
    }
}

/// Returns the kernel class of each call, that with most time where its kernels differ.
fn classes(list: &CallList, work: &GpuWork<'_>) -> Vec<KernelClass> {
    let mut times: Vec<Vec<(KernelClass, i64)>> = vec![Vec::new(); list.len()];
    for (event, call, _) in list.activities(work) {
        let class = match event.kind {
            WorkKind::Kernel => work.index().class(work.slice(event)),
            WorkKind::Memcpy | WorkKind::Memset => KernelClass::Copy,
            WorkKind::Graph => KernelClass::Other,
        };
        let own = &mut times[call as usize];
        match own.iter_mut().find(|(known, _)| *known == class) {
            Some((_, ns)) => *ns = ns.saturating_add(event.dur_ns()),
            None => own.push((class, event.dur_ns())),
        }
    }
    let most = times.into_iter().map(|own| {
        let most = own.iter().rev().max_by_key(|(_, ns)| *ns);
        most.map_or(KernelClass::Other, |(class, _)| *class)
    });
    most.collect()
}

impl Rows {
    /// Returns the name of a row: its operator, or the name that it was made by.
    pub fn name<'r>(&'r self, list: &'r CallList, row: &Row) -> &'r str {
        let name = match self.by {
            By::Call => list.kinds.get(row.name as usize).map(|kind| &kind.op),
            _ => self.names.get(row.name as usize),
        };
        name.map_or("", String::as_str)
    }

    fn sort(&mut self, list: &CallList, sort: Sort) {
        let by = self.by;
        let names = &self.names;
        let text = |row: &Row| match by {
            By::Call => {
                let kind = list.kinds.get(row.name as usize);
                kind.map(|k| {
                    (
                        k.op.as_str(),
                        k.kernel.as_str(),
                        k.dims.as_str(),
                        k.types.as_str(),
                    )
                })
            }
            _ => names
                .get(row.name as usize)
                .map(|name| (name.as_str(), "", "", "")),
        };
        let key = |row: &Row| match sort {
            Sort::Time => None,
            Sort::Gain => row.gain_ns(),
            // The farthest from the limit first.
            Sort::Pct => row.pct().map(|pct| -pct),
            Sort::Flops => row.flops.map(real),
            Sort::Bytes => row.basis.map(|_| real(row.bytes)),
        };
        self.rows.sort_by(|a, b| {
            let first = match (key(a), key(b)) {
                (Some(x), Some(y)) => y.total_cmp(&x),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            };
            first
                .then(b.time_ns.cmp(&a.time_ns))
                .then_with(|| text(a).cmp(&text(b)))
                .then(a.device.cmp(&b.device))
                .then(a.name.cmp(&b.name))
        });
    }
}
