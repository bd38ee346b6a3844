//! Steps: what all calls of each need, and where the time beyond that is.

use gpu_time::{GpuEvent, GpuWork};
use rustc_hash::FxHashMap;

use crate::calls::{Call, CallList};
use crate::dtype::Precision;
use crate::limit::{Peaks, RecordedDevices, real};
use crate::marks::Mark;
use crate::numbers::{Basis, Numbers, UnitKind};
use crate::step_name::{Lengths, Phase};

/// Share of a step's GPU time that has numbers from which on its share of the limit is stated, in percent.
pub const ENOUGH_KNOWN: f64 = 90.0;

/// Needs and times of the calls of a step, or of several.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Needs {
    /// Kernels, copies and memsets.
    pub kernels: u64,
    /// Time of calls with numbers.
    pub known_time_ns: i64,
    /// Time of calls without.
    pub unknown_time_ns: i64,
    /// Time of calls whose numbers are a lower bound.
    pub bounded_time_ns: i64,
    /// FLOPs of matrix units by arithmetic, in the order of [`Precision::ALL`].
    pub flops: [u128; Precision::ALL.len()],
    /// Bytes of weights.
    pub weight_bytes: u128,
    /// Lower end of them.
    pub weight_bytes_low: u128,
    /// Upper end of them; `None` where there is none.
    pub weight_bytes_high: Option<u128>,
    /// Bytes of keys and values.
    pub kv_bytes: u128,
    /// Bytes of all calls with numbers.
    pub op_bytes: u128,
    /// Bytes that collectives send.
    pub link_bytes: u128,
    /// Sum of the limits of calls with numbers, by the bytes of their rows.
    pub limits_ns: f64,
    /// The same, with kernels that take at least the launch floor.
    pub floors_ns: f64,
    /// Sum of the limits that are certain: of lower bounds by the lower end.
    pub sure_limits_ns: f64,
    /// The same, with kernels that take at least the launch floor.
    pub sure_floors_ns: f64,
    /// A call needed a peak that is not known.
    pub without_limit: bool,
}

impl Needs {
    /// FLOPs of matrix units.
    pub fn matrix_flops(&self) -> u128 {
        self.flops.iter().fold(0, |all, n| all.saturating_add(*n))
    }

    fn add(&mut self, call: &Call<'_, '_>, numbers: Option<&Numbers>, limits: Option<CallLimits>) {
        self.kernels += u64::from(call.kernels());
        let Some(numbers) = numbers else {
            self.unknown_time_ns = self.unknown_time_ns.saturating_add(call.time_ns());
            return;
        };
        self.known_time_ns = self.known_time_ns.saturating_add(call.time_ns());
        if numbers.basis == Basis::Bound {
            self.bounded_time_ns = self.bounded_time_ns.saturating_add(call.time_ns());
        }
        if numbers.unit == UnitKind::Matrix
            && let Some(precision) = numbers.precision
            && let Some(at) = Precision::ALL.iter().position(|p| *p == precision)
        {
            let flops = numbers.flops.unwrap_or(0);
            self.flops[at] = self.flops[at].saturating_add(flops);
        }
        self.weight_bytes = self.weight_bytes.saturating_add(numbers.weight_bytes);
        if numbers.weight_bytes > 0 {
            let fewer = numbers.bytes.saturating_sub(numbers.bytes_low);
            let low = numbers.weight_bytes.saturating_sub(fewer);
            self.weight_bytes_low = self.weight_bytes_low.saturating_add(low);
            let more = numbers
                .bytes_high
                .map(|high| high.saturating_sub(numbers.bytes));
            let high = self.weight_bytes_high.zip(more);
            self.weight_bytes_high = high
                .map(|(all, more)| all.saturating_add(numbers.weight_bytes.saturating_add(more)));
        }
        self.kv_bytes = self.kv_bytes.saturating_add(numbers.kv_bytes);
        self.op_bytes = self.op_bytes.saturating_add(numbers.bytes);
        if !numbers.to_host {
            self.link_bytes = self.link_bytes.saturating_add(numbers.link_bytes);
        }
        match limits {
            Some(CallLimits {
                by_row,
                sure,
                launch,
            }) => {
                let floor = f64::from(call.kernels()) * launch;
                self.limits_ns += by_row;
                self.floors_ns += by_row.max(floor);
                self.sure_limits_ns += sure;
                self.sure_floors_ns += sure.max(floor);
            }
            None => self.without_limit = true,
        }
    }

    /// Time that the model's arithmetic, weights, keys and values and collectives take at least.
    pub fn model_ns(&self, peaks: &Peaks) -> Option<f64> {
        self.model_ns_with(peaks, self.weight_bytes)
    }

    fn model_ns_with(&self, peaks: &Peaks, weights: u128) -> Option<f64> {
        let memory =
            real(weights.saturating_add(self.kv_bytes)) / peaks.get(crate::device::PeakKey::Hbm)?;
        let mut compute = 0.0;
        for (flops, precision) in self.flops.iter().zip(Precision::ALL) {
            if *flops > 0 {
                compute += real(*flops) / (peaks.matrix(precision)?.0 * 1e3);
            }
        }
        let link = match self.link_bytes {
            0 => 0.0,
            sent => real(sent) / peaks.get(crate::device::PeakKey::Link)?,
        };
        Some(compute.max(memory) + link)
    }
}

/// A step with its ladder, from what physics allows to what was measured.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StepRow {
    /// Name of the annotation.
    pub name: String,
    /// Requests and tokens that it gives.
    pub lengths: Lengths,
    /// Begin and end of the annotation on the host.
    pub host_ns: (i64, i64),
    /// Begin of the first and end of the last work.
    pub device_ns: (i64, i64),
    /// Needs of its calls.
    pub needs: Needs,
    /// Time in which any of its work ran.
    pub busy_ns: i64,
    /// Time of the step, where the caller measured it; the span of its work stands for it otherwise.
    pub step_ns: Option<i64>,
    /// 1. What the model needs.
    pub model_limit_ns: Option<f64>,
    /// The same by the lower and by the upper end of the weights.
    pub model_ends_ns: [Option<f64>; 2],
    /// 2. What its operators need: intermediate results go through memory. Lower bounds count with the bytes of their rows.
    pub ops_limit_ns: Option<f64>,
    /// 3. The same, with the least time that a kernel takes.
    pub floor_limit_ns: Option<f64>,
    /// The second and the third with what is certain of lower bounds, as [`Self::ladder`] has them.
    pub(crate) sure_ns: Option<[f64; 2]>,
    /// Maximum number of rows of a matrix product, with padding.
    pub rows: Option<u128>,
    /// Its device.
    pub device: i64,
    /// Tokens at which matrix products would take as long as their weights: bandwidth against arithmetic.
    pub balance_tokens: Option<f64>,
}

impl StepRow {
    /// From the begin of its first to the end of its last work.
    pub fn span_ns(&self) -> i64 {
        self.device_ns.1.saturating_sub(self.device_ns.0)
    }

    /// Returns `true` if at least [`ENOUGH_KNOWN`] percent of its GPU time has numbers.
    pub fn is_known_enough(&self) -> bool {
        self.known_pct().is_some_and(|pct| pct >= ENOUGH_KNOWN)
    }

    /// Share of the limit that the step reaches in its busy time, in percent, with its lower and upper end; `None` if less than
    /// [`ENOUGH_KNOWN`] of its GPU time has numbers, or without limits.
    pub fn share_of_limit(&self) -> Option<(f64, [Option<f64>; 2])> {
        self.share_of(self.busy_ns)
    }

    /// The same of the time that the step takes, with that in which the GPU is idle; `None` if that time is not known.
    pub fn share_of_time(&self) -> Option<(f64, [Option<f64>; 2])> {
        self.share_of(self.step_ns?)
    }

    fn share_of(&self, ns: i64) -> Option<(f64, [Option<f64>; 2])> {
        if !self.is_known_enough() {
            return None;
        }
        let all = crate::views::nanos(ns);
        let pct = |ns: f64| 100.0 * ns / all;
        let own = self.model_limit_ns.filter(|_| all > 0.0)?;
        Some((pct(own), self.model_ends_ns.map(|ns| ns.map(pct))))
    }

    /// Time of the step in which the GPU is idle, where that is more than all kernels together could gain.
    pub fn idle_before_all_ns(&self) -> Option<i64> {
        let idle = self.step_ns?.saturating_sub(self.busy_ns);
        let limit = self.model_limit_ns?;
        let gain = (crate::views::nanos(self.busy_ns) - limit).max(0.0);
        (idle > 0 && crate::views::nanos(idle) > gain).then_some(idle)
    }

    /// Returns its kind of work, as far as its name gives it.
    pub fn phase(&self) -> Option<Phase> {
        self.lengths.phase()
    }
}

/// Limits of a call on a device.
#[derive(Clone, Copy)]
struct CallLimits {
    /// By the bytes of its row.
    by_row: f64,
    /// By the bytes that are certain.
    sure: f64,
    /// Least time of a kernel.
    launch: f64,
}

impl CallLimits {
    fn new(numbers: &Numbers, peaks: &Peaks) -> Option<Self> {
        Some(Self {
            by_row: peaks.limit_with(numbers, numbers.bytes)?.ns,
            sure: peaks.limit(numbers)?.ns,
            launch: peaks.launch_ns(),
        })
    }
}

/// Measure of a union of intervals that come in order of begin.
#[derive(Clone, Copy, Default)]
struct Running {
    until: Option<i64>,
    ns: i64,
}

impl Running {
    fn cover(&mut self, begin: i64, end: i64) {
        let from = self.until.map_or(begin, |until| until.max(begin));
        self.ns = self.ns.saturating_add(end.saturating_sub(from).max(0));
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }
}

/// Returns the steps that have GPU activity, in ascending time, with the calls that `wants` takes: on each device by itself, as devices
/// work at the same time and each has limits of its own.
pub fn steps(
    list: &CallList,
    work: &GpuWork<'_>,
    devices: &RecordedDevices,
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Vec<StepRow> {
    let mut rows: Vec<(u32, StepRow, Running)> = Vec::new();
    // Mostly a step has one device, and is at the place of the step before or the next one.
    let mut places: FxHashMap<(u32, i64), usize> = FxHashMap::default();
    for (event, _, call) in list.activities(work) {
        let Some(step) = call.step().filter(|_| wants(&call)) else {
            continue;
        };
        let device = call.device();
        let at = *places.entry((step, device)).or_insert_with(|| {
            let mark = &list.steps[step as usize];
            rows.push((step, StepRow::new(mark, event, device), Running::default()));
            rows.len() - 1
        });
        let (_, row, busy) = &mut rows[at];
        busy.cover(event.start_ns, event.end_ns);
        row.device_ns.1 = row.device_ns.1.max(event.end_ns);
    }
    let mut limits: FxHashMap<(u32, i64), Option<CallLimits>> = FxHashMap::default();
    for call in list.calls(work) {
        let Some(step) = call.step().filter(|_| wants(&call)) else {
            continue;
        };
        let device = call.device();
        let Some(at) = places.get(&(step, device)) else {
            continue;
        };
        let row = &mut rows[*at].1;
        let numbers = list.numbers(&call);
        let limits = *limits.entry((call.kind(), device)).or_insert_with(|| {
            let peaks = &devices.get(device)?.peaks;
            CallLimits::new(numbers?, peaks)
        });
        row.needs.add(&call, numbers, limits);
        if let Some(numbers) = numbers.filter(|n| n.weight_bytes > 0) {
            row.rows = row.rows.max(numbers.rows);
        }
    }
    rows.sort_by_key(|(step, row, _)| (*step, row.device));
    let rows = rows.into_iter().filter_map(|(_, mut row, busy)| {
        row.busy_ns = busy.ns;
        let peaks = &devices.get(row.device)?.peaks;
        row.climb(peaks);
        Some(row)
    });
    rows.collect()
}

impl StepRow {
    /// A step without needs, with its first work on a device.
    fn new(mark: &Mark, first: &GpuEvent, device: i64) -> Self {
        Self {
            name: mark.name.clone(),
            lengths: mark.lengths,
            host_ns: (mark.begin_ns, mark.end_ns),
            device_ns: (first.start_ns, first.end_ns),
            needs: Needs {
                weight_bytes_high: Some(0),
                ..Needs::default()
            },
            busy_ns: 0,
            step_ns: None,
            model_limit_ns: None,
            model_ends_ns: [None; 2],
            ops_limit_ns: None,
            floor_limit_ns: None,
            sure_ns: None,
            rows: None,
            device,
            balance_tokens: None,
        }
    }
}

impl StepRow {
    fn climb(&mut self, peaks: &Peaks) {
        let needs = &self.needs;
        if !peaks.is_known() {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "durations are below 2^52 ns")]
        let rest = needs.unknown_time_ns as f64;
        self.model_limit_ns = needs.model_ns(peaks);
        let ends = [Some(needs.weight_bytes_low), needs.weight_bytes_high];
        self.model_ends_ns = ends.map(|weights| needs.model_ns_with(peaks, weights?));
        if !needs.without_limit {
            self.ops_limit_ns = Some(needs.limits_ns + rest);
            self.floor_limit_ns = Some(needs.floors_ns + rest);
            self.sure_ns = Some([needs.sure_limits_ns, needs.sure_floors_ns].map(|ns| ns + rest));
        }
        let hbm = peaks.get(crate::device::PeakKey::Hbm);
        let compute = || {
            let times = needs.flops.iter().zip(Precision::ALL);
            let times = times
                .filter(|(flops, _)| **flops > 0)
                .map(|(flops, p)| Some(real(*flops) / (peaks.matrix(p)?.0 * 1e3)));
            times.sum::<Option<f64>>()
        };
        self.balance_tokens = (|| {
            let tokens = real(self.lengths.tokens()?);
            let per_token = compute()? / tokens;
            let weights = real(needs.weight_bytes) / hbm?;
            (per_token > 0.0 && per_token.is_finite() && weights > 0.0)
                .then_some(weights / per_token)
        })();
    }
}
