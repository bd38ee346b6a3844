//! Everything about one recording.

use gpu_time::GpuWork;
use trace_model::kernel::TraceIndex;

use crate::calls::{Call, CallList, CallOptions};
use crate::config::{Config, ConfigError, Forward, Request};
use crate::coverage::Coverage;
use crate::device::DeviceProperties;
use crate::dtype::Precision;
use crate::limit::{DeviceOptions, NoSuchDevice, RecordedDevices};
use crate::numbers::Basis;
use crate::steps::{StepRow, steps};
use crate::views::{By, Origin, Rows, Sort, rows};

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
    pub forward: Vec<Option<Forward>>,
    /// 1st percentile of the durations of kernels.
    pub shortest_ns: Option<i64>,
    /// Types without units of their own, and what was taken instead.
    pub fallbacks: Vec<(Precision, Precision)>,
}

/// Analyses the calls of `work` that `wants` takes, with `captures` for the kernels of replayed graphs.
///
/// # Errors
/// [`Error`] for an unknown device and for a configuration that does not fit.
pub fn analyse(
    work: &GpuWork<'_>,
    captures: &[&GpuWork<'_>],
    options: &Options<'_>,
    wants: impl Fn(&Call) -> bool,
) -> Result<Analysis, Error> {
    let indexes: Vec<&TraceIndex<'_>> = captures.iter().map(|work| work.index()).collect();
    let list = CallList::new(work, &indexes, &options.calls)?;
    let mut time_on: Vec<(i64, i64)> = Vec::new();
    for call in &list.calls {
        match time_on.iter_mut().find(|(id, _)| *id == call.device) {
            Some((_, ns)) => *ns = ns.saturating_add(call.time_ns),
            None => time_on.push((call.device, call.time_ns)),
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
    let calls = rows(&list, &origin, &devices, (By::Call, options.sort), &wants);
    let ops = rows(&list, &origin, &devices, (By::Op, Sort::Gain), &wants);
    let other = match options.by {
        By::Call => calls.clone(),
        by => rows(&list, &origin, &devices, (by, options.sort), &wants),
    };
    let steps = steps(&list, work, &devices, &wants);
    let forward = steps
        .iter()
        .map(|step| forward_of(&list, step, options.calls.config))
        .collect();
    let mut durations: Vec<i64> = work
        .events()
        .iter()
        .map(gpu_time::GpuEvent::dur_ns)
        .collect();
    durations.sort_unstable();
    Ok(Analysis {
        coverage: Coverage::new(&list, &wants),
        main_device: most.map_or(0, |(id, _)| *id),
        fallbacks: fallbacks(&list, &calls),
        shortest_ns: durations.get(durations.len() / 100).copied(),
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
fn forward_of(list: &CallList, step: &StepRow, config: Option<&Config>) -> Option<Forward> {
    let config = config?;
    let (context, generation) = (step.lengths.context, step.lengths.generation);
    let mut requests = Vec::new();
    for kind in [context, generation] {
        let (count, sums) = (kind.requests?, kind.sums?);
        if count == 0 {
            continue;
        }
        // As even as possible; the remainders go to the first.
        let (new, keys) = (sums.q / count, sums.k / count);
        let (more_new, more_keys) = (sums.q % count, sums.k % count);
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
    Some(config.forward(list.tp.unwrap_or(1), &requests, cache))
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
    /// Sum of the limits of all calls with numbers against the time of those, in percent; `None` without limits.
    pub fn pct(&self) -> Option<f64> {
        let mut limit = 0.0;
        let mut time = 0_i64;
        for row in self
            .calls
            .rows
            .iter()
            .filter(|r| r.basis() != Basis::Unknown)
        {
            limit += row.limit_ns?;
            time = time.saturating_add(row.known_time_ns);
        }
        (time > 0).then(|| 100.0 * limit / crate::views::nanos(time))
    }

    /// Returns the least and the greatest value that [`Self::pct`] can have: by the low and by the high ends of all calls that have
    /// numbers; `None` where an end is not known.
    pub fn pct_ends(&self) -> [Option<f64>; 2] {
        let known = || {
            let rows = self.calls.rows.iter();
            rows.filter(|row| row.basis() != Basis::Unknown)
        };
        let time: i64 = known().map(|row| row.known_time_ns).sum();
        let low = known().map(|row| row.limit_low_ns).sum::<Option<f64>>();
        let high = known().map(|row| row.limit_high_ns).sum::<Option<f64>>();
        [low, high].map(|limit| {
            limit
                .filter(|_| time > 0)
                .map(|ns| 100.0 * ns / crate::views::nanos(time))
        })
    }
}
