//! Everything about one recording.

use gpu_time::{GpuWork, Recorder, WorkKind};
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::StrId;
use trace_model::kernel::TraceIndex;

use crate::calls::{Call, CallList, CallOptions};
use crate::config::{Config, ConfigError, Forward, Request};
use crate::coverage::Coverage;
use crate::device::DeviceProperties;
use crate::dtype::Precision;
use crate::limit::{DeviceOptions, Limit, NoSuchDevice, RecordedDevice, RecordedDevices};
use crate::numbers::Numbers;
use crate::steps::{StepRow, steps};
use crate::views::{By, Limits, Origin, Row, Rows, Sort, Tally, rows, rows_of, tallies};

/// Error of an analysis.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device that was asked for is not known.
    #[error(transparent)]
    Device(#[from] NoSuchDevice),
    /// The configuration contradicts the recording, or cannot be divided among the ranks.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Options of an analysis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Knowledge besides the recording.
    pub calls: CallOptions<'a>,
    /// Devices and peaks stated by the caller.
    pub devices: DeviceOptions,
    /// Key of the rows besides those by call.
    pub by: By,
    /// The order of rows.
    pub sort: Sort,
    /// Returns `true` for names of layers of the model.
    pub is_layer: fn(&str) -> bool,
}

impl<'a> Options<'a> {
    /// Rows by call, most time first.
    pub fn new(calls: CallOptions<'a>) -> Self {
        Self {
            calls,
            devices: DeviceOptions::default(),
            by: By::default(),
            sort: Sort::default(),
            is_layer: |_| false,
        }
    }
}

/// Everything about one recording, which can then be dropped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Analysis {
    /// The calls, and what they are.
    pub list: CallList,
    /// What recorded them.
    pub recorder: Recorder,
    /// Rows by call.
    pub calls: Rows,
    /// Rows by what was asked for; the same as `calls` if that is calls.
    pub rows: Rows,
    /// Rows by operator.
    pub ops: Rows,
    /// Steps with GPU activity.
    pub steps: Vec<StepRow>,
    /// How much has numbers.
    pub coverage: Coverage,
    /// The devices.
    pub devices: RecordedDevices,
    /// The device with most GPU time.
    pub main_device: i64,
    /// Steps with lengths, as the configuration has them; by place among `steps`.
    pub forward: Vec<Option<StepForward>>,
    /// 1st percentile of the durations of kernels.
    pub shortest_ns: Option<i64>,
    /// Types without units of their own, and what was taken instead.
    pub fallbacks: Vec<(Precision, Precision)>,
    /// Operators that would gain most at their limit, most first.
    pub gains: Vec<Gain>,
    /// Sums by device, in the order of the devices.
    pub by_device: Vec<DeviceSums>,
}

/// A step as the configuration has it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct StepForward {
    /// What it needs.
    pub needs: Forward,
    /// Keys of earlier steps are not recorded: keys and values are those of the new tokens at least.
    pub at_least: bool,
    /// The least time that it takes, with as few weights of experts as possible; `None` without peaks.
    pub limit_ns: Option<f64>,
}

/// Number of operators in [`Analysis::gains`].
const GAINS: usize = 3;

/// An operator whose calls lose time against their limit.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Gain {
    /// Its row, by operator.
    pub row: Row,
    /// Operator.
    pub op: String,
    /// How many different calls it has: of other sizes, types or numbers.
    pub kinds: u64,
    /// The kernel with most time in its calls; empty if there is none.
    pub kernel: String,
    /// Time of that kernel.
    pub kernel_ns: i64,
    /// It is attention that may have a window, which neither the recording nor a configuration gives.
    pub no_window: bool,
}

/// Time and limits of the calls on one device.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct DeviceSums {
    /// Its number in the recording.
    pub id: i64,
    /// Time of all calls.
    pub time_ns: i64,
    /// Time of those with numbers.
    pub known_ns: i64,
    /// Their limits; `None` where a peak is not known.
    pub limit_ns: Option<f64>,
    /// The same by the lower ends.
    pub low_ns: Option<f64>,
    /// The same by the upper ends; `None` where there is none.
    pub high_ns: Option<f64>,
    /// The same with achievable peaks.
    pub achievable_ns: Option<f64>,
}

/// Analyses the calls of `work` that `wants` takes, with `captures` for the kernels of replayed graphs.
///
/// # Errors
/// [`Error`] for an unknown device and for a configuration that does not fit.
pub fn analyse(
    work: &GpuWork<'_>,
    captures: &[&GpuWork<'_>],
    options: &Options<'_>,
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Result<Analysis, Error> {
    let indexes: Vec<&TraceIndex<'_>> = captures.iter().map(|work| work.index()).collect();
    let list = CallList::new(work, &indexes, &options.calls)?;
    let mut time_on: Vec<(i64, i64)> = Vec::new();
    for call in list.calls(work) {
        let (device, time) = (call.device(), call.time_ns());
        match time_on.iter_mut().find(|(id, _)| *id == device) {
            Some((_, ns)) => *ns = ns.saturating_add(time),
            None => time_on.push((device, time)),
        }
    }
    time_on.sort_unstable();
    let ids: Vec<i64> = match time_on.is_empty() {
        true => vec![0],
        false => time_on.iter().map(|(id, _)| *id).collect(),
    };
    let most = time_on.iter().rev().max_by_key(|(_, ns)| *ns);
    let properties = work.trace().meta().entry("deviceProperties").unwrap_or("");
    let devices = RecordedDevices::new(
        &options.calls.knowledge.devices,
        &DeviceProperties::parse(properties),
        &ids,
        &options.devices,
    )?;
    let origin = Origin {
        work,
        captures,
        is_layer: options.is_layer,
    };
    let tallies = tallies(&list, work, &wants);
    let calls = rows_of(&list, &tallies, &devices, (By::Call, options.sort));
    let ops = rows_of(&list, &tallies, &devices, (By::Op, Sort::Gain));
    let other = match options.by {
        By::Call => calls.clone(),
        by => rows(&list, &origin, &devices, (by, options.sort), &wants),
    };
    let steps = steps(&list, work, &devices, &wants);
    let forward = steps
        .iter()
        .map(|step| forward_of(&list, step, options.calls.config, &devices))
        .collect();
    Ok(Analysis {
        recorder: Recorder::of(work.trace()),
        coverage: Coverage::of(&list, &tallies),
        gains: gains(&list, work, &ops, &tallies, &wants),
        by_device: by_device(&list, &devices, &tallies),
        main_device: most.map_or(0, |(id, _)| *id),
        fallbacks: fallbacks(&list, &calls),
        shortest_ns: shortest(work),
        rows: other,
        ops,
        calls,
        steps,
        devices,
        forward,
        list,
    })
}

/// Returns the needs of a step by the configuration, for a step whose lengths are recorded as sums: requests of equal lengths stand for them, which
/// leaves weights, keys and FLOPs of products as they are.
fn forward_of(
    list: &CallList,
    step: &StepRow,
    config: Option<&Config>,
    devices: &RecordedDevices,
) -> Option<StepForward> {
    let config = config?;
    let (context, generation) = (step.lengths.context, step.lengths.generation);
    let mut requests = Vec::new();
    let mut at_least = false;
    for kind in [context, generation] {
        let count = kind.requests?;
        if count == 0 {
            continue;
        }
        // Each token sees itself at least.
        let (tokens, all_keys) = match kind.sums {
            Some(sums) => (sums.q, sums.k),
            None => (kind.tokens?, kind.tokens?),
        };
        at_least |= kind.sums.is_none();
        // As even as possible; the remainders go to the first.
        let (new, keys) = (tokens / count, all_keys / count);
        let (more_new, more_keys) = (tokens % count, all_keys % count);
        for (new, keys, count) in [
            (new + 1, keys + 1, more_new.min(more_keys)),
            (
                new + u128::from(more_new > more_keys),
                keys + u128::from(more_keys > more_new),
                more_new.abs_diff(more_keys),
            ),
            (new, keys, count - more_new.max(more_keys)),
        ] {
            if count > 0 {
                requests.push(Request { new, keys, count });
            }
        }
    }
    let cache = list.cache_bytes.unwrap_or(2);
    let ranks = list.tp.unwrap_or(1);
    let needs = config.forward(ranks, &requests, cache);
    let least = Forward {
        weight_bytes: needs.weight_bytes_low,
        ..needs
    };
    let peaks = devices.get(step.device).map(|device| &device.peaks);
    let limit = peaks.and_then(|peaks| least.limit(config, ranks, peaks));
    Some(StepForward {
        needs,
        at_least,
        limit_ns: limit.map(|limit| limit.ns()),
    })
}

/// Returns the 1st percentile of the durations.
fn shortest(work: &GpuWork<'_>) -> Option<i64> {
    let events = work.events().iter();
    let mut durations: Vec<i64> = events.map(gpu_time::GpuEvent::dur_ns).collect();
    let at = durations.len() / 100;
    (!durations.is_empty()).then(|| *durations.select_nth_unstable(at).1)
}

/// Returns the operators with the largest gains, with the kernel that takes most of their time.
fn gains(
    list: &CallList,
    work: &GpuWork<'_>,
    ops: &Rows,
    tallies: &[Tally],
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Vec<Gain> {
    let most = ops.rows.iter();
    let most = most.filter(|row| row.gain_ns().is_some_and(|gain| gain > 0.0));
    let mut gains: Vec<Gain> = most
        .take(GAINS)
        .map(|row| Gain {
            row: *row,
            op: ops.name(list, row).to_owned(),
            kinds: 0,
            kernel: String::new(),
            kernel_ns: 0,
            no_window: false,
        })
        .collect();
    // An operator has a row for each device, where these differ.
    let of_kind: Vec<Vec<(Option<i64>, usize)>> = list
        .kinds
        .iter()
        .map(|kind| {
            let own = gains.iter().enumerate();
            let own = own.filter(|(_, gain)| kind.answer.is_ok() && gain.op == kind.op);
            own.map(|(at, gain)| (gain.row.device, at)).collect()
        })
        .collect();
    let gain_of = |kind: u32, device: i64| -> Option<usize> {
        let all = of_kind.get(kind as usize)?.iter();
        let mut own = all.filter(|(on, _)| on.is_none_or(|on| on == device));
        own.next().map(|(_, at)| *at)
    };
    let mut counted: FxHashSet<(usize, u32)> = FxHashSet::default();
    for own in tallies {
        if let Some(gain) = gain_of(own.kind, own.device)
            && counted.insert((gain, own.kind))
        {
            let kind = list.kinds.get(own.kind as usize);
            let numbers = kind.and_then(|kind| kind.answer.as_ref().ok());
            let may_have = numbers.is_some_and(Numbers::assumes_no_window);
            gains[gain].no_window |= may_have && list.tp.is_none();
            gains[gain].kinds += 1;
        }
    }
    let mut times: FxHashMap<(usize, StrId), i64> = FxHashMap::default();
    for (event, _, call) in list.activities(work) {
        if let Some(gain) = gain_of(call.kind(), call.device())
            && let Some(name) = event.name
            && (event.kind == WorkKind::Kernel || !call.has_kernel())
            && wants(&call)
        {
            let time = times.entry((gain, name)).or_default();
            *time = time.saturating_add(event.dur_ns());
        }
    }
    let mut times: Vec<((usize, StrId), i64)> = times.into_iter().collect();
    let text = |name: StrId| work.trace().text(name);
    times.sort_by(|((_, a), x), ((_, b), y)| y.cmp(x).then_with(|| text(*a).cmp(text(*b))));
    for ((gain, name), ns) in times {
        let gain = &mut gains[gain];
        if gain.kernel.is_empty() {
            gain.kernel = text(name).to_owned();
            gain.kernel_ns = ns;
        }
    }
    gains
}

impl DeviceSums {
    /// Share of the limit, with its ends, as [`Analysis::pct`] has it for all devices.
    pub fn pct(&self) -> Option<(f64, [Option<f64>; 2])> {
        let time = crate::views::nanos(self.known_ns);
        let pct = |ns: f64| 100.0 * ns / time;
        let own = self.limit_ns.filter(|_| self.known_ns > 0)?;
        Some((pct(own), [self.low_ns, self.high_ns].map(|ns| ns.map(pct))))
    }
}

fn by_device(list: &CallList, devices: &RecordedDevices, tallies: &[Tally]) -> Vec<DeviceSums> {
    let of = |device: &RecordedDevice| {
        let mut sums = DeviceSums {
            id: device.id,
            time_ns: 0,
            known_ns: 0,
            limit_ns: Some(0.0),
            low_ns: Some(0.0),
            high_ns: Some(0.0),
            achievable_ns: device.achievable.as_ref().map(|_| 0.0),
        };
        for own in tallies.iter().filter(|own| own.device == device.id) {
            sums.time_ns = sums.time_ns.saturating_add(own.time_ns);
            let kind = list.kinds.get(own.kind as usize);
            let Some(numbers) = kind.and_then(|kind| kind.answer.as_ref().ok()) else {
                continue;
            };
            sums.known_ns = sums.known_ns.saturating_add(own.time_ns);
            let limits = Limits::new(numbers, device.id, devices);
            #[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
            let calls = own.calls as f64;
            let add = |all: &mut Option<f64>, one: Option<Limit>| {
                *all = all.zip(one).map(|(all, one)| all + one.ns * calls);
            };
            add(&mut sums.limit_ns, limits.own);
            add(&mut sums.low_ns, limits.low);
            add(&mut sums.high_ns, limits.high);
            add(&mut sums.achievable_ns, limits.achievable);
        }
        sums
    };
    devices.iter().map(of).collect()
}

fn fallbacks(list: &CallList, calls: &Rows) -> Vec<(Precision, Precision)> {
    let mut found: Vec<(Precision, Precision)> = calls
        .rows
        .iter()
        .filter_map(|row| {
            let kind = list.kinds.get(row.name as usize)?;
            Some((kind.answer.as_ref().ok()?.precision?, row.fallback?))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

impl Analysis {
    /// Sums of the devices whose peaks are known.
    fn with_limits(&self) -> impl Iterator<Item = &DeviceSums> {
        let all = self.by_device.iter();
        all.filter(|sums| sums.known_ns > 0 && sums.limit_ns.is_some())
    }

    /// The devices with calls that have limits.
    pub fn limited_devices(&self) -> Vec<&RecordedDevice> {
        let all = self.with_limits();
        all.filter_map(|sums| self.devices.get(sums.id)).collect()
    }

    /// Time of calls with numbers on devices whose peaks are not known, where those of others are.
    pub fn unlimited_ns(&self) -> i64 {
        let all = self.by_device.iter();
        let without = all.filter(|sums| sums.limit_ns.is_none());
        without.map(|sums| sums.known_ns).sum()
    }

    fn share(&self, of: fn(&DeviceSums) -> Option<f64>) -> Option<f64> {
        let time: i64 = self.with_limits().map(|sums| sums.known_ns).sum();
        let limit = self.with_limits().map(of).sum::<Option<f64>>()?;
        (time > 0).then(|| 100.0 * limit / crate::views::nanos(time))
    }

    /// Sum of the limits of all calls with numbers against the time of those, in percent, on the devices whose peaks are known;
    /// `None` without limits.
    pub fn pct(&self) -> Option<f64> {
        self.share(|sums| sums.limit_ns)
    }

    /// Returns the least and the greatest value that [`Self::pct`] can have: by the low and by the high ends of all calls that have
    /// numbers; `None` where an end is not known.
    pub fn pct_ends(&self) -> [Option<f64>; 2] {
        [
            self.share(|sums| sums.low_ns),
            self.share(|sums| sums.high_ns),
        ]
    }

    /// The same as [`Self::pct`] with achievable peaks, if any were given.
    pub fn achievable_pct(&self) -> Option<f64> {
        self.share(|sums| sums.achievable_ns)
    }
}
