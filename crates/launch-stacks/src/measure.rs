//! Measures the cost of kernels: times, latencies, exposure, bandwidth.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rank_align::real::real;
use rustc_hash::FxBuildHasher;
use stats::percentile;
use trace_model::kernel::CommLibrary;
use trace_model::{DeviceId, Slice, SliceId, StrId, StreamId};

use crate::exposure::Exposure;
use crate::link::Launch;
use trace_model::kernel::TraceIndex;
use trace_model::kernel::collective::{Collective, CollectiveKind, CollectiveReader, KnownKinds};

/// Distribution of durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// Number of values.
    pub count: usize,
    /// Sum.
    pub total_ns: i64,
    /// Minimum.
    pub min_ns: i64,
    /// The median, as the other percentiles by [`percentile`].
    pub p50_ns: f64,
    /// The 90th percentile.
    pub p90_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// Maximum.
    pub max_ns: i64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Standard deviation of the sample (divided by n - 1); 0 for fewer than two values.
    pub stddev_ns: f64,
}

impl Distribution {
    /// Returns the distribution of `values`, which it sorts. Cost: the sort.
    pub fn of(values: &mut [i64]) -> Self {
        values.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let total: i128 = values.iter().map(|v| i128::from(*v)).sum();
        #[expect(clippy::cast_precision_loss, reason = "means are statistics")]
        let (n, total_real) = (values.len() as f64, total as f64);
        let mean_ns = total_real / n;
        #[expect(clippy::cast_precision_loss, reason = "deviations are statistics")]
        let squares: f64 = values.iter().map(|v| (*v as f64 - mean_ns).powi(2)).sum();
        Self {
            count: values.len(),
            total_ns: i64::try_from(total).unwrap_or(i64::MAX),
            min_ns,
            p50_ns: percentile(values, 50.0),
            p90_ns: percentile(values, 90.0),
            p99_ns: percentile(values, 99.0),
            max_ns,
            mean_ns,
            stddev_ns: if values.len() < 2 {
                0.0
            } else {
                (squares / (n - 1.0)).sqrt()
            },
        }
    }
}

/// The bandwidth of a set of collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Bandwidth {
    /// Collectives of which size, group and time are known.
    pub collectives: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their time.
    pub time_ns: i64,
    /// The bytes, each collective's times its factor for the bus; none without an operation whose factor is known.
    bus_bytes: Option<f64>,
}

impl Bandwidth {
    /// Adds one collective that took `time_ns`; one of unknown size or group does not count.
    pub fn add(&mut self, what: &Collective, time_ns: i64) {
        let (Some(_), Some(bytes)) = (what.algbw(time_ns), what.bytes) else {
            return;
        };
        self.collectives += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time_ns = self.time_ns.saturating_add(time_ns);
        if let Some(bus) = what.busbw(time_ns) {
            self.bus_bytes = Some(self.bus_bytes.unwrap_or(0.0) + bus * real(time_ns));
        }
    }

    /// Returns the bandwidth of both sets together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let bus = [self.bus_bytes, other.bus_bytes];
        Self {
            collectives: self.collectives + other.collectives,
            bytes: self.bytes.saturating_add(other.bytes),
            time_ns: self.time_ns.saturating_add(other.time_ns),
            bus_bytes: bus.into_iter().flatten().reduce(|a, b| a + b),
        }
    }

    /// Returns the algorithm bandwidth in bytes per second: all bytes by all time.
    pub fn algbw_bytes_per_s(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        self.per_second(self.bytes as f64)
    }

    /// Returns the bus bandwidth in bytes per second, weighted by time.
    pub fn busbw_bytes_per_s(&self) -> Option<f64> {
        self.per_second(self.bus_bytes?)
    }

    fn per_second(&self, bytes: f64) -> Option<f64> {
        (self.time_ns > 0).then(|| bytes / real(self.time_ns) * 1e9)
    }
}

/// Cost of a set of kernels.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measures {
    /// Number of distinct launch calls.
    pub launches: usize,
    /// Number of distinct kernels.
    pub kernels: usize,
    /// Durations of the kernels.
    pub gpu: Distribution,
    /// Start of the kernel minus start of its launch.
    pub latency: Distribution,
    /// Number of kernels that start before their launch (clock skew).
    pub negative_latencies: usize,
    /// Start of the kernel minus end of its launch: the queue delay. Negative if the kernel starts
    /// while the call still runs.
    pub queue: Distribution,
    /// Exposed communication charged to the kernels; `None` without collectives among them.
    pub exposed_ns: Option<i64>,
    /// Bytes of all collectives with known size.
    pub bytes: Option<u64>,
    /// Bandwidth over the times of the collectives without waiting, which only the recordings of all ranks tell
    /// ([`Answer::set_transfers`](crate::Answer::set_transfers)); unknown until then.
    pub bandwidth: Bandwidth,
    /// Bandwidth over the durations of the kernels, which include waiting for other ranks: a lower bound.
    pub kernel_bandwidth: Bandwidth,
    /// Number of collectives by size in bytes, ascending: (size, count).
    pub sizes: Vec<(u64, usize)>,
    /// Names of the collectives, as their producers wrote them.
    pub collectives: Vec<String>,
}

impl Measures {
    /// Returns the number of collectives by powers of two of their sizes, ascending: each from that many bytes up to twice as
    /// many. Empty messages are at 0.
    #[must_use]
    pub fn size_histogram(&self) -> Vec<(u64, usize)> {
        let mut bins: BTreeMap<u64, usize> = BTreeMap::new();
        for (bytes, count) in &self.sizes {
            let from = bytes.checked_ilog2().map_or(0, |power| 1 << power);
            *bins.entry(from).or_default() += count;
        }
        bins.into_iter().collect()
    }
}

/// Kernels with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelPart {
    /// Name.
    pub name: String,
    /// Number of kernels.
    pub kernels: usize,
    /// Kernel time.
    pub gpu_ns: i64,
}

/// Kernels of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPart {
    /// Device.
    pub device: DeviceId,
    /// Stream.
    pub stream: StreamId,
    /// Number of kernels.
    pub kernels: usize,
    /// Kernel time.
    pub gpu_ns: i64,
}

/// The kernels of a set by name and by stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Breakdown {
    /// By name.
    pub kernels: Vec<KernelPart>,
    /// By stream.
    pub streams: Vec<StreamPart>,
}

/// One collective kernel and its bandwidth.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectiveRun {
    /// The kernel.
    pub kernel: SliceId,
    /// The collective.
    pub what: Collective,
    /// Duration of the kernel.
    pub duration_ns: i64,
    /// Device of the kernel.
    pub device: DeviceId,
    /// Stream of the kernel.
    pub stream: StreamId,
    /// Implementation of the kernel.
    pub library: CommLibrary,
}

impl CollectiveRun {
    /// Creates the record of the collective `what` for a kernel of `index`'s trace.
    pub fn new(index: &TraceIndex<'_>, kernel: Slice<'_>, what: Collective) -> Self {
        Self {
            kernel: kernel.id(),
            what,
            duration_ns: kernel.dur().map_or(0, |d| d.get()),
            device: index.device(kernel),
            stream: index.stream(kernel),
            library: index
                .communication(kernel)
                .map_or(CommLibrary::Other, |c| c.library),
        }
    }
}

/// Measures sets of links of one trace.
#[derive(Debug)]
pub struct Meter<'a, 't> {
    index: &'a TraceIndex<'t>,
    exposure: &'a Exposure,
    /// Sorted by kernel.
    runs: Vec<CollectiveRun>,
}

impl<'a, 't> Meter<'a, 't> {
    /// Creates a meter for subsets of `links`, whose kernels belong to `index`'s trace. Cost:
    /// reading the arguments of each collective.
    pub fn new(index: &'a TraceIndex<'t>, exposure: &'a Exposure, links: &[Launch]) -> Self {
        let trace = index.trace();
        let reader = CollectiveReader::new(trace);
        let mut known = KnownKinds::default();
        let mut sorted: Vec<&Launch> = links.iter().collect();
        sorted.sort_by_key(|l| l.kernel);
        sorted.dedup_by_key(|l| l.kernel);
        // Grown step by step, the list would temporarily take up to three times its size.
        let mut runs = Vec::with_capacity(sorted.len());
        let mut shares = Ascending::new(exposure.shares(), |s| s.0);
        runs.extend(sorted.into_iter().filter_map(|link| {
            let kernel = trace.slice(link.kernel);
            if shares.at(link.kernel).is_none() && !reader.is_annotated(kernel) {
                return None;
            }
            let launch = (!link.graph).then(|| trace.slice(link.launch));
            let what = reader.find(index, kernel, launch, &mut known)?;
            Some(CollectiveRun::new(index, kernel, what))
        }));
        runs.shrink_to_fit();
        Self {
            runs,
            index,
            exposure,
        }
    }

    /// Returns the collectives among the links, in ascending time.
    pub fn collectives(&self) -> &[CollectiveRun] {
        &self.runs
    }

    /// Returns the collectives among the links and drops the meter.
    pub fn into_collectives(self) -> Vec<CollectiveRun> {
        self.runs
    }

    /// Returns the kernels of `links` by name and by stream, most time first. Cost: a sort.
    pub fn breakdown(&self, links: &[Launch]) -> Breakdown {
        let trace = self.index.trace();
        let mut kernels: Vec<SliceId> = links.iter().map(|l| l.kernel).collect();
        kernels.sort_unstable();
        kernels.dedup();
        let mut by_name: HashMap<Option<StrId>, (usize, i64), FxBuildHasher> = HashMap::default();
        let mut by_stream: HashMap<(i64, i64), (usize, i64), FxBuildHasher> = HashMap::default();
        for kernel in kernels {
            let kernel = trace.slice(kernel);
            let ns = (kernel.end() - kernel.ts()).get();
            let stream = (self.index.device(kernel).0, self.index.stream(kernel).0);
            for row in [
                by_name.entry(kernel.name_id()).or_default(),
                by_stream.entry(stream).or_default(),
            ] {
                row.0 += 1;
                row.1 = row.1.saturating_add(ns);
            }
        }
        let text = |name: Option<StrId>| {
            name.map_or(trace_model::callstack::NO_NAME, |name| trace.text(name))
        };
        // A kernel without a name and one with the placeholder as its name share a row.
        let mut names: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
        let by_name: BTreeMap<_, _> = by_name.into_iter().collect();
        for (name, (kernels, ns)) in by_name {
            let row = names.entry(text(name)).or_default();
            row.0 += kernels;
            row.1 = row.1.saturating_add(ns);
        }
        let streams: BTreeMap<(i64, i64), _> = by_stream.into_iter().collect();
        let mut out = Breakdown::default();
        for (name, (kernels, gpu_ns)) in names {
            out.kernels.push(KernelPart {
                name: name.to_owned(),
                kernels,
                gpu_ns,
            });
        }
        for ((device, stream), (kernels, gpu_ns)) in streams {
            out.streams.push(StreamPart {
                device: DeviceId(device),
                stream: StreamId(stream),
                kernels,
                gpu_ns,
            });
        }
        out.kernels.sort_by_key(|k| std::cmp::Reverse(k.gpu_ns));
        out.streams.sort_by_key(|s| std::cmp::Reverse(s.gpu_ns));
        out
    }

    /// Measures `links`; a kernel in several of them counts once. Cost: a few sorts.
    pub fn measure(&self, links: &[Launch]) -> Measures {
        let trace = self.index.trace();
        let mut distinct: Vec<&Launch> = links.iter().collect();
        distinct.sort_by_key(|l| l.kernel);
        distinct.dedup_by_key(|l| l.kernel);
        let mut calls: Vec<SliceId> = links.iter().map(|l| l.launch).collect();
        calls.sort_unstable();
        calls.dedup();
        let (mut gpu, mut latency, mut queue) = (Vec::new(), Vec::new(), Vec::new());
        let mut exposed: Option<i64> = None;
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        let mut names: Vec<&str> = Vec::new();
        let mut last: Option<&Arc<CollectiveKind>> = None;
        let mut bytes: Option<u64> = None;
        let mut kernel_bandwidth = Bandwidth::default();
        let mut runs = Ascending::new(&self.runs, |run: &CollectiveRun| run.kernel);
        let mut shares = Ascending::new(self.exposure.shares(), |s| s.0);
        for link in &distinct {
            let (kernel, launch) = (trace.slice(link.kernel), trace.slice(link.launch));
            gpu.push((kernel.end() - kernel.ts()).get());
            latency.push((kernel.ts() - launch.ts()).get());
            queue.push((kernel.ts() - launch.end()).get());
            if let Some((_, share)) = shares.at(link.kernel) {
                exposed = Some(exposed.unwrap_or(0).saturating_add(*share));
            }
            let Some(run) = runs.at(link.kernel) else {
                continue;
            };
            if let Some(size) = run.what.bytes {
                bytes = Some(bytes.unwrap_or(0).saturating_add(size));
                *sizes.entry(size).or_default() += 1;
                kernel_bandwidth.add(&run.what, run.duration_ns);
            }
            // Consecutive runs are mostly of one kind.
            let kind = &run.what.kind;
            if !last.is_some_and(|l| Arc::ptr_eq(l, kind)) && !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
            last = Some(kind);
        }
        names.sort_unstable();
        let collectives = names.into_iter().map(str::to_owned).collect();
        Measures {
            launches: calls.len(),
            kernels: distinct.len(),
            negative_latencies: latency.iter().filter(|l| **l < 0).count(),
            gpu: Distribution::of(&mut gpu),
            latency: Distribution::of(&mut latency),
            queue: Distribution::of(&mut queue),
            exposed_ns: exposed,
            bytes,
            bandwidth: Bandwidth::default(),
            kernel_bandwidth,
            sizes: sizes.into_iter().collect(),
            collectives,
        }
    }
}

/// Finds rows by kernel where both rows and queries ascend. A step costs the logarithm of its
/// distance, so a walk does not search all rows again for each kernel.
struct Ascending<'a, T, F> {
    rows: &'a [T],
    key: F,
}

impl<'a, T, F: Fn(&T) -> SliceId> Ascending<'a, T, F> {
    fn new(rows: &'a [T], key: F) -> Self {
        Self { rows, key }
    }

    /// Returns the row of `kernel`. Rows of smaller kernels are skipped permanently.
    fn at(&mut self, kernel: SliceId) -> Option<&'a T> {
        let mut reach = 1;
        while self.rows.get(reach).is_some_and(|r| (self.key)(r) < kernel) {
            reach *= 2;
        }
        let near = &self.rows[..self.rows.len().min(reach + 1)];
        let passed = near.len().min(reach / 2);
        let at = passed + near[passed..].partition_point(|r| (self.key)(r) < kernel);
        self.rows = &self.rows[at..];
        self.rows.first().filter(|r| (self.key)(r) == kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_a_search_finds() {
        let id = |i| SliceId::new(i).unwrap();
        let all: Vec<SliceId> = (0..300).filter(|i| i % 7 < 3).map(id).collect();
        for step in [1, 2, 5, 40, 299] {
            let mut walk = Ascending::new(&all, |s| *s);
            for kernel in (0..310).step_by(step).map(id) {
                let expected = all.binary_search(&kernel).ok().map(|at| &all[at]);
                assert_eq!(walk.at(kernel), expected, "{step} {kernel:?}");
            }
        }
        assert_eq!(Ascending::new(&[], |s: &SliceId| *s).at(id(3)), None);
    }

    #[test]
    fn percentiles_interpolate() {
        let mut values: Vec<i64> = (1..=10).rev().collect();
        let d = Distribution::of(&mut values);
        assert_eq!((d.min_ns, d.max_ns), (1, 10));
        // numpy.quantile(range(1, 11), [0.5, 0.9, 0.99])
        for (got, want) in [(d.p50_ns, 5.5), (d.p90_ns, 9.1), (d.p99_ns, 9.91)] {
            assert!((got - want).abs() < 1e-9, "{got} against {want}");
        }
        assert_eq!((d.count, d.total_ns), (10, 55));
        assert!((d.mean_ns - 5.5).abs() < 1e-12);
        assert!((d.stddev_ns - 3.027_650_354_097_491_6).abs() < 1e-12);
        assert_eq!(Distribution::of(&mut []), Distribution::default());
        assert!(Distribution::of(&mut [7]).stddev_ns.abs() < f64::EPSILON);
    }

    #[test]
    fn sizes_by_powers_of_two() {
        let measures = Measures {
            sizes: vec![(0, 1), (1, 2), (1023, 3), (1024, 4), (2047, 5), (2048, 6)],
            ..Measures::default()
        };
        let bins = measures.size_histogram();
        assert_eq!(bins, [(0, 1), (1, 2), (512, 3), (1024, 9), (2048, 6)]);
    }
}
