//! Limits of a recording's kernels, and the products that its modules run.

use gpu_time::GpuWork;
use roofline::{By, CallOptions, Knowledge, Options as RooflineOptions};
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::kernel::KernelClass;

/// What the roofline of a recording gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Name of the device; empty if it is not known.
    pub(crate) device: String,
    pub(crate) flops: Vec<(String, f64)>,
    pub(crate) bytes_per_s: Option<f64>,
    pub(crate) link_bytes_per_s: Option<f64>,
    /// Share of GPU time with numbers.
    pub(crate) coverage_pct: Option<f64>,
    /// Operator or kernel with most time of those without numbers, and why it has none.
    pub(crate) without: Option<(String, String)>,
    /// Rows by class of kernel.
    pub(crate) classes: Vec<LimitRow>,
    /// Operators with the largest gains.
    pub(crate) operators: Vec<LimitRow>,
    pub(crate) steps: Vec<roofline::StepRow>,
    /// Time that the arithmetic and that the bytes of each of them need, in nanoseconds.
    pub(crate) needs: Vec<(f64, f64)>,
    /// Kinds of calls with most time.
    pub(crate) kinds: Vec<SlowRow>,
}

/// Calls of one operator, sizes and types.
#[derive(Clone, Debug)]
pub(crate) struct SlowRow {
    pub(crate) op: String,
    pub(crate) dims: String,
    /// Kernel with most of its time, and its class.
    pub(crate) kernel: String,
    pub(crate) class: String,
    /// The module that runs it, without number, if it is always the same.
    pub(crate) module: Option<String>,
    pub(crate) time_ns: i64,
    pub(crate) limit_ns: f64,
    pub(crate) pct: f64,
    pub(crate) bound: &'static str,
    pub(crate) is_launch_bound: bool,
    /// Begin and time of each call on the device, ascending.
    pub(crate) calls: Vec<(i64, i64)>,
}

/// A product that a module ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleCall {
    /// Begin of the launch.
    pub(crate) at_ns: i64,
    /// Place of the name of the module.
    pub(crate) module: u32,
    /// Number of the operator and its sizes.
    pub(crate) dims: u32,
    pub(crate) gpu_ns: i64,
}

/// Time and limit of a class or an operator.
#[derive(Clone, Debug)]
pub(crate) struct LimitRow {
    pub(crate) name: String,
    /// Kernel with most of its time; empty for classes.
    pub(crate) kernel: String,
    pub(crate) known_ns: i64,
    pub(crate) limit_ns: Option<f64>,
    pub(crate) pct: Option<f64>,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    pub(crate) bound: &'static str,
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn limits_of(
    work: &GpuWork<'_>,
    captures: &[GpuWork<'_>],
) -> (Limits, Vec<ModuleCall>, Vec<String>) {
    let knowledge = Knowledge::default();
    let mut options = RooflineOptions::new(CallOptions::new(&knowledge));
    options.by = By::Class;
    let captures: Vec<&GpuWork<'_>> = captures.iter().collect();
    let Ok(analysis) = roofline::analyse(work, &captures, &options, |_| true) else {
        return Default::default();
    };
    let device = analysis.devices.get(analysis.main_device);
    let peaks = device.map(|device| &device.peaks);
    let row = |row: &roofline::Row, name: &str, kernel: &str| LimitRow {
        name: name.to_owned(),
        kernel: kernel.to_owned(),
        known_ns: row.known_time_ns,
        limit_ns: row.limit_ns.filter(|_| row.pct().is_some()),
        pct: row.pct(),
        flops: row.flops.unwrap_or(0) as f64,
        bytes: row.bytes as f64,
        bound: row.bound().map_or("", |bound| bound.name()),
    };
    let classes = analysis.rows.rows.iter();
    let classes = classes.map(|r| {
        let name = analysis.rows.names.get(r.name as usize);
        row(r, name.map_or("", String::as_str), "")
    });
    let operators = analysis.gains.iter();
    let operators = operators.map(|gain| row(&gain.row, &gain.op, &gain.kernel));
    let key_name = |key: roofline::PeakKey| key.name().to_owned();
    let flops = peaks.map_or_else(Vec::new, |peaks| {
        let all = peaks.iter();
        let all = all.filter(|(key, _)| matches!(key, roofline::PeakKey::Arithmetic(_)));
        all.filter_map(|(key, _)| Some((key_name(key), peaks.get(key)? * 1e12)))
            .collect()
    });
    let (modules, names) = modules_of(work, &analysis);
    let kinds = kinds_of(work, &analysis, &modules, &names);
    let needs = analysis.steps.iter();
    let peak = |key| peaks.and_then(|peaks| peaks.get(key));
    let needs = needs.map(|row| needs_of(row, &peak)).collect();
    let rate = |key| peaks.and_then(|peaks| peaks.get(key)).map(|gb| gb * 1e9);
    let limits = Limits {
        device: device
            .filter(|device| device.peaks.is_known())
            .map_or_else(String::new, |device| device.name.clone()),
        flops,
        bytes_per_s: rate(roofline::PeakKey::Hbm),
        link_bytes_per_s: rate(roofline::PeakKey::Link),
        coverage_pct: analysis.coverage.known_pct(),
        without: analysis
            .coverage
            .missing
            .first()
            .map(|missing| (missing.op.clone(), missing.reason.clone())),
        classes: classes.collect(),
        operators: operators.collect(),
        steps: analysis.steps.clone(),
        needs,
        kinds,
    };
    (limits, modules, names)
}

/// Returns the nanoseconds that the arithmetic of a step and that its bytes need.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn needs_of(
    row: &roofline::StepRow,
    rate: &dyn Fn(roofline::PeakKey) -> Option<f64>,
) -> (f64, f64) {
    let flops = roofline::Precision::ALL.iter().zip(row.needs.flops);
    let arithmetic = flops.filter_map(|(precision, flops)| {
        let rate = rate(roofline::PeakKey::Arithmetic(*precision))?;
        Some(flops as f64 / (rate * 1e3))
    });
    let bytes = rate(roofline::PeakKey::Hbm).map_or(0.0, |rate| row.needs.op_bytes as f64 / rate);
    (arithmetic.sum(), bytes)
}

/// Maximum number of kinds of calls that are kept.
pub(crate) const KINDS: usize = 100;

/// Returns the products of matrices by the module that ran them, ascending by launch, and the names of the modules.
fn modules_of(work: &GpuWork<'_>, analysis: &roofline::Analysis) -> (Vec<ModuleCall>, Vec<String>) {
    let index = work.index();
    let (mut out, mut names) = (Vec::new(), Vec::new());
    let mut known: FxHashMap<StrId, Option<u32>> = FxHashMap::default();
    let mut done: Vec<bool> = vec![false; analysis.list.len()];
    for (event, at, call) in analysis.list.activities(work) {
        let slice = work.slice(event);
        let is_product = event.kind == gpu_time::WorkKind::Kernel
            && matches!(index.class(slice), KernelClass::Gemm | KernelClass::MoeGemm);
        let Some(is_done) = done.get_mut(at as usize) else {
            continue;
        };
        if !is_product || *is_done || call.in_graph() {
            continue;
        }
        let Some(launch) = work.launch_of(event) else {
            continue;
        };
        let module = launch.ancestors().find_map(|slice| {
            let id = slice.name_id()?;
            *known.entry(id).or_insert_with(|| {
                let name = work.trace().text(id);
                name.starts_with("nn.Module: ").then(|| {
                    names.push(name.to_owned());
                    u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
                })
            })
        });
        if let Some(module) = module {
            *is_done = true;
            out.push(ModuleCall {
                at_ns: launch.ts().nanos(),
                module,
                dims: call.kind(),
                gpu_ns: call.time_ns(),
            });
        }
    }
    out.sort_by_key(|call| (call.at_ns, call.module, call.dims));
    (out, names)
}

/// Returns the kinds of calls with numbers, most time first.
fn kinds_of(
    work: &GpuWork<'_>,
    analysis: &roofline::Analysis,
    modules: &[ModuleCall],
    names: &[String],
) -> Vec<SlowRow> {
    let device = analysis.devices.get(analysis.main_device);
    let Some(peaks) = device.map(|device| &device.peaks) else {
        return Vec::new();
    };
    let mut rows: Vec<&roofline::Row> = analysis
        .calls
        .rows
        .iter()
        .filter(|row| row.pct().is_some())
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.time_ns), row.name));
    rows.truncate(KINDS);
    let mut kernels: FxHashMap<u32, FxHashMap<StrId, i64>> = FxHashMap::default();
    for row in &rows {
        kernels.insert(row.name, FxHashMap::default());
    }
    for (event, _, call) in analysis.list.activities(work) {
        let slot = kernels.get_mut(&call.kind());
        if let (Some(slot), Some(name)) = (slot, event.name) {
            *slot.entry(name).or_default() += event.dur_ns();
        }
    }
    let mut calls: FxHashMap<u32, Vec<(i64, i64)>> = FxHashMap::default();
    for call in analysis.list.calls(work) {
        if kernels.contains_key(&call.kind()) {
            calls
                .entry(call.kind())
                .or_default()
                .push((call.start_ns(), call.time_ns()));
        }
    }
    let rows = rows.into_iter().filter_map(|row| {
        let kind = analysis.list.kinds.get(row.name as usize)?;
        let longest = kernels.get(&row.name)?.iter();
        let longest = longest.max_by_key(|(name, ns)| (**ns, std::cmp::Reverse(name.index())));
        let kernel = longest.map_or("", |(name, _)| work.trace().text(*name));
        let mut own: Vec<&str> = modules
            .iter()
            .filter(|call| call.dims == row.name)
            .filter_map(|call| names.get(call.module as usize))
            .map(|name| module_stem(name))
            .collect();
        own.dedup();
        let module = own
            .first()
            .filter(|first| own.iter().all(|name| name == *first));
        let mut calls = calls.remove(&row.name).unwrap_or_default();
        calls.sort_unstable();
        Some(SlowRow {
            op: kind.op.clone(),
            dims: kind.dims.clone(),
            class: trace_model::kernel::class_of(kernel).name().to_owned(),
            kernel: kernel.to_owned(),
            module: module.map(|name| (*name).to_owned()),
            time_ns: row.known_time_ns,
            // What is certain at most: sizes that only bound the limit from below make no kernel slow.
            limit_ns: row.limit_high_ns?,
            pct: high_pct(row)?,
            bound: row.bound().map_or("", |bound| bound.name()),
            is_launch_bound: row.is_launch_bound(peaks),
            calls,
        })
    });
    rows.collect()
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn high_pct(row: &roofline::Row) -> Option<f64> {
    let limit = row.limit_high_ns?;
    (row.known_time_ns > 0).then(|| 100.0 * limit / row.known_time_ns as f64)
}

/// Returns the name of a module without prefix and number of its instance.
fn module_stem(name: &str) -> &str {
    let name = name.strip_prefix("nn.Module: ").unwrap_or(name);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('_').unwrap_or(name)
}
