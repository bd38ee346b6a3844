//! Steps: what all calls of each need, and where the time beyond that is.

use gpu_time::GpuWork;

use crate::calls::{Call, CallList};
use crate::dtype::Precision;
use crate::limit::{Peaks, RecordedDevices, real};
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

    fn add(&mut self, call: &Call, numbers: Option<&Numbers>, peaks: Option<&Peaks>) {
        self.kernels += u64::from(call.kernels);
        let Some(numbers) = numbers else {
            self.unknown_time_ns = self.unknown_time_ns.saturating_add(call.time_ns);
            return;
        };
        self.known_time_ns = self.known_time_ns.saturating_add(call.time_ns);
        if numbers.basis == Basis::Bound {
            self.bounded_time_ns = self.bounded_time_ns.saturating_add(call.time_ns);
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
        let limits = peaks.and_then(|peaks| {
            let by_row = peaks.limit_with(numbers, numbers.bytes)?.ns;
            Some((by_row, peaks.limit(numbers)?.ns, peaks.launch_ns()))
        });
        match limits {
            Some((by_row, sure, launch)) => {
                let floor = f64::from(call.kernels) * launch;
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

/// Returns the steps that have GPU activity, in ascending time, with the calls that `wants` takes.
pub fn steps(
    list: &CallList,
    work: &GpuWork<'_>,
    devices: &RecordedDevices,
    wants: impl Fn(&Call) -> bool,
) -> Vec<StepRow> {
    let mut rows: Vec<Option<StepRow>> = vec![None; list.steps.len()];
    let mut busy: Vec<Running> = vec![Running::default(); list.steps.len()];
    for (event, call) in work.events().iter().zip(&list.call_of) {
        let Some(call) = list.calls.get(*call as usize).filter(|call| wants(call)) else {
            continue;
        };
        let Some(step) = call.step.map(|step| step as usize) else {
            continue;
        };
        busy[step].cover(event.start_ns, event.end_ns);
        let mark = &list.steps[step];
        let row = rows[step].get_or_insert_with(|| StepRow {
            name: mark.name.clone(),
            lengths: mark.lengths,
            host_ns: (mark.begin_ns, mark.end_ns),
            device_ns: (event.start_ns, event.end_ns),
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
            device: call.device,
            balance_tokens: None,
        });
        row.device_ns.1 = row.device_ns.1.max(event.end_ns);
    }
    for call in list.calls.iter().filter(|call| wants(call)) {
        let Some(row) = call.step.and_then(|step| rows[step as usize].as_mut()) else {
            continue;
        };
        let peaks = devices.get(call.device).map(|device| &device.peaks);
        let numbers = list.numbers(call);
        row.needs.add(call, numbers, peaks);
        if let Some(numbers) = numbers.filter(|n| n.weight_bytes > 0) {
            row.rows = row.rows.max(numbers.rows);
        }
    }
    let rows = rows.into_iter().zip(busy).filter_map(|(row, busy)| {
        let mut row = row?;
        row.busy_ns = busy.ns;
        let peaks = &devices.get(row.device)?.peaks;
        row.climb(peaks);
        Some(row)
    });
    rows.collect()
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
