//! Digest of one rank's trace: its collectives, their costs, and the work before each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use serde::Serialize;
use trace_model::correlation::EXTERNAL_ID_KEY;
use trace_model::interval::{Interval, IntervalSet};
use trace_model::kernel::collective::{
    COLLECTIVE_KEYS, Collective, CollectiveReader, KnownKinds, SHAPE_KEYS, SizeSource,
};
use trace_model::kernel::{Activity, CommLibrary, INDEX_KEYS, TraceIndex, Vocabulary};
use trace_model::ranks::{NotOneJob, RankDoubt, RankEvidence, Recording, assign};
use trace_model::{ArgValue, DeviceId, Rank, Slice, SliceId, StreamId, Trace};

use crate::comm::host::{HostCollectives, host_collectives};
use crate::comm::named_ranks::ranks_in_name;
use crate::comm::preceding_work::{self, Before};
use crate::recorder::Recorder;

/// Returns the keys, without prefix, of the arguments that [`RankDigest::new`] reads; a reader may
/// leave out all others.
pub fn arg_keys() -> Vec<String> {
    let of_collectives = COLLECTIVE_KEYS.into_iter().chain(SHAPE_KEYS);
    let more = of_collectives.chain([EXTERNAL_ID_KEY, "Rank"]);
    let keys = INDEX_KEYS.into_iter().chain(more);
    keys.map(str::to_owned).collect()
}

/// Rules that select communication kernels and the source of their metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CommRules {
    /// All kernels that the vocabulary classifies as collectives, including those of peer and
    /// symmetric memory; metadata comes from the kernel, else from the slices around its launch.
    #[default]
    Extended,
    /// Rules of TraceLens' `NcclAnalyser`: kernels of category `kernel` whose name contains `nccl`,
    /// `rccl` or `cross_device_reduce` and that carry a correlation or external id; metadata comes
    /// from the kernel alone.
    TraceLens,
}

/// Source of the rank of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RankSource {
    /// The file states it.
    Stated,
    /// All its collectives agree on it.
    Arguments,
    /// The file name contains it.
    FileName,
    /// Position among the files.
    Place,
}

impl RankSource {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stated => "file",
            Self::Arguments => "arguments",
            Self::FileName => "file_name",
            Self::Place => "place",
        }
    }
}

/// One collective kernel. Times are nanoseconds of the trace's own clock, without its base time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// Index of the kernel's name in [`RankDigest::names`].
    pub kernel: u32,
    /// Index of the collective in [`RankDigest::kinds`].
    pub kind: u32,
    /// Sequence number within the group.
    pub seq: Option<i64>,
    /// Device on which it ran.
    pub device: DeviceId,
    /// Stream on which it ran.
    pub stream: StreamId,
    /// Start.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Part of its time in which no computation ran on its device.
    pub exposed_ns: i64,
    /// Start of the launch API call.
    pub launch_ns: Option<i64>,
    /// The implementation of the kernel.
    pub library: CommLibrary,
}

impl Run {
    /// Creates a run of which a name, a collective and its times are known.
    pub fn new(kernel: u32, kind: u32, start_ns: i64, end_ns: i64) -> Self {
        Self {
            kernel,
            kind,
            seq: None,
            device: DeviceId(0),
            stream: StreamId(0),
            start_ns,
            end_ns,
            exposed_ns: 0,
            launch_ns: None,
            library: CommLibrary::Other,
        }
    }

    /// Returns the duration.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the part of its time in which computation ran too; adds up to the duration with
    /// [`Run::exposed_ns`].
    pub fn overlapped_ns(&self) -> i64 {
        self.duration_ns().saturating_sub(self.exposed_ns)
    }
}

/// Time of one rank: lengths of unions over each device, summed over devices, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankTime {
    /// Time in which communication ran.
    pub comm_ns: i64,
    /// Part of `comm_ns` without computation (kernels other than communication, and memsets).
    pub exposed_ns: i64,
    /// Part of `comm_ns` with computation.
    pub overlapped_ns: i64,
    /// Time in which computation ran.
    pub computation_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Time from the first start to the last end of GPU activity.
    pub span_ns: i64,
}

/// Data kept of one rank's trace: a few hundred bytes for each collective, so that the trace can be
/// dropped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankDigest {
    /// Name of the trace.
    pub source: String,
    /// The rank.
    pub rank: Rank,
    /// Source of the rank.
    pub rank_source: RankSource,
    /// Number of ranks in the job, if the file states it.
    pub world_size: Option<u32>,
    /// Offset that converts a time to nanoseconds since 1970, if the trace states it.
    pub base_time_ns: i64,
    /// Names of kernels and host slices.
    pub names: Vec<String>,
    /// Distinct collectives, without sequence numbers.
    pub kinds: Vec<Collective>,
    /// The collective kernels in ascending time.
    pub runs: Vec<Run>,
    /// Work of the rank since the collective before, for each of `runs`.
    pub before: Vec<Before>,
    /// Time of the rank.
    pub time: RankTime,
    /// Number of collective kernels with metadata, their own or that around their launch.
    pub annotated: usize,
    /// Number of further collective kernels whose size is known from the input of the operator
    /// around the launch.
    pub sized_by_operator: usize,
    /// Number of collective kernels whose launch is not in the trace.
    pub unlinked: usize,
    /// Collectives carried out by the host itself, as Gloo does.
    pub host: Vec<HostCollectives>,
    /// What recorded it.
    pub recorder: Recorder,
    /// Number of CUDA graphs that are recorded as a whole: collectives inside them are not known.
    pub graphs_whole: u64,
}

/// Interned strings.
#[derive(Default)]
pub(crate) struct Names<'t> {
    places: HashMap<&'t str, u32, FxBuildHasher>,
    texts: Vec<String>,
}

impl<'t> Names<'t> {
    pub(crate) fn place(&mut self, text: &'t str) -> u32 {
        let next = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let texts = &mut self.texts;
        *self.places.entry(text).or_insert_with(|| {
            texts.push(text.to_owned());
            next
        })
    }
}

impl RankDigest {
    /// Extracts a digest from `trace`, whose name is `source`. Cost: one pass over the GPU
    /// activities, one over the slices of the threads that launched collectives, and a sort of
    /// intervals.
    ///
    /// The rank is that of the file, else that of its collectives' arguments, else that of its
    /// name, else 0; [`assign_ranks`] settles it among several files.
    pub fn new(source: &str, trace: &Trace, rules: CommRules) -> Self {
        Self::with_vocabulary(source, trace, rules, Vocabulary::of(trace))
    }

    /// Extracts a digest as [`RankDigest::new`] does, with the vocabulary of the caller.
    pub fn with_vocabulary(
        source: &str,
        trace: &Trace,
        rules: CommRules,
        vocabulary: Vocabulary,
    ) -> Self {
        let index = TraceIndex::new(trace, vocabulary);
        Self::of_part(source, &index, rules, |_| true)
    }

    /// Extracts a digest as [`RankDigest::new`] does, from the GPU activities that `keep` accepts.
    pub fn of_part(
        source: &str,
        index: &TraceIndex<'_>,
        rules: CommRules,
        keep: impl Fn(SliceId) -> bool,
    ) -> Self {
        let trace = index.trace();
        let mut chosen: Vec<Slice<'_>> = match rules {
            CommRules::Extended => index
                .kernels()
                .filter(|k| index.is_collective(*k))
                .collect(),
            CommRules::TraceLens => tracelens_kernels(index),
        };
        chosen.retain(|slice| keep(slice.id()));
        let mut names = Names::default();
        let mut kinds = Kinds::default();
        let reader = CollectiveReader::new(trace);
        let mut known_kinds = KnownKinds::default();
        let (mut runs, mut threads) = (Vec::with_capacity(chosen.len()), Vec::new());
        let (mut annotated, mut sized_by_operator, mut unlinked) = (0, 0, 0);
        for kernel in &chosen {
            let launch = index.launch_of(*kernel).map(|l| l.0);
            unlinked += usize::from(launch.is_none());
            let known = match rules {
                CommRules::Extended => reader.find(index, *kernel, launch, &mut known_kinds),
                CommRules::TraceLens => reader.on(*kernel),
            };
            let name = kernel.name().unwrap_or("");
            let mut what = known.unwrap_or_else(|| Collective::named("", None));
            if what.size_source == Some(SizeSource::Operator) {
                sized_by_operator += 1;
            } else if what.group.is_some() || what.elements_in.is_some() {
                annotated += 1;
            }
            if rules == CommRules::Extended
                && what.group_size.is_none()
                && let Some(ranks) = ranks_in_name(name)
            {
                Arc::make_mut(&mut what.kind).group_size = Some(ranks);
            }
            let seq = what.seq.take();
            runs.push(Run {
                kernel: names.place(name),
                kind: kinds.place(what),
                seq,
                device: index.device(*kernel),
                stream: index.stream(*kernel),
                start_ns: kernel.ts().nanos(),
                end_ns: kernel.end().nanos(),
                exposed_ns: 0,
                launch_ns: launch.map(|l| l.ts().nanos()),
                library: index
                    .communication(*kernel)
                    .map_or(CommLibrary::Other, |c| c.library),
            });
            threads.push(launch.map(Slice::track_id));
        }
        let devices = Devices::new(index, &chosen, &keep);
        let time = devices.time();
        for run in &mut runs {
            let one: IntervalSet = [(run.start_ns, run.end_ns)].into_iter().collect();
            let range = trace_model::TimeRange::new(
                trace_model::Timestamp::from_nanos(run.start_ns),
                trace_model::Timestamp::from_nanos(run.end_ns),
            );
            run.exposed_ns = match devices.by_id.get(&run.device) {
                Some(device) => one
                    .subtract(&device.computation.clip(range))
                    .measure()
                    .get(),
                None => one.measure().get(),
            };
        }
        let before = preceding_work::all(trace, &devices.by_id, &runs, &threads, &mut names);
        let meta = trace.meta();
        let (rank, rank_source) = meta
            .rank()
            .map(|r| (r, RankSource::Stated))
            .or_else(|| Some((rank_of_arguments(trace)?, RankSource::Arguments)))
            .or_else(|| {
                let rank = Recording::new(source, meta).rank(false)?;
                Some((rank, RankSource::FileName))
            })
            .unwrap_or((Rank(0), RankSource::Place));
        let host = match rules {
            CommRules::Extended => host_collectives(trace),
            CommRules::TraceLens => Vec::new(),
        };
        Self {
            host,
            source: source.to_owned(),
            rank,
            rank_source,
            world_size: meta.distributed.as_ref().and_then(|d| d.world_size),
            base_time_ns: meta.base_time_ns,
            names: names.texts,
            kinds: kinds.list,
            runs,
            before,
            time,
            annotated,
            sized_by_operator,
            unlinked,
            recorder: Recorder::of(trace),
            graphs_whole: meta.limit("graphs_whole").map_or(0, |limit| limit.count),
        }
    }

    /// Creates a digest without collectives, to be filled with what was kept of another one.
    pub fn empty(source: &str, rank: Rank, rank_source: RankSource) -> Self {
        Self {
            source: source.to_owned(),
            rank,
            rank_source,
            world_size: None,
            base_time_ns: 0,
            names: Vec::new(),
            kinds: Vec::new(),
            runs: Vec::new(),
            before: Vec::new(),
            time: RankTime::default(),
            annotated: 0,
            sized_by_operator: 0,
            unlinked: 0,
            host: Vec::new(),
            recorder: Recorder::default(),
            graphs_whole: 0,
        }
    }

    /// Returns the file whose processes are ranks, which have one clock; `None` for recordings of one rank. Behind `!` is the number
    /// of the process; a name there is that of a member of an archive.
    pub fn recording(&self) -> Option<&str> {
        let (file, process) = self.source.rsplit_once('!')?;
        let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        (!process.is_empty() && process.bytes().all(is_number)).then_some(file)
    }

    /// Returns the name of a run's kernel.
    pub fn kernel_name(&self, run: &Run) -> &str {
        self.text(run.kernel)
    }

    /// Returns the collective of a run.
    pub fn what(&self, run: &Run) -> Option<&Collective> {
        self.kinds.get(run.kind as usize)
    }

    /// Returns the string at an index of [`RankDigest::names`].
    pub fn text(&self, place: u32) -> &str {
        self.names.get(place as usize).map_or("", String::as_str)
    }

    /// Returns the start of a run in nanoseconds since the clock's zero, base time included.
    pub fn start_ns(&self, run: &Run) -> i64 {
        run.start_ns.saturating_add(self.base_time_ns)
    }

    /// Returns the end of a run in nanoseconds since the clock's zero, base time included.
    pub fn end_ns(&self, run: &Run) -> i64 {
        run.end_ns.saturating_add(self.base_time_ns)
    }
}

/// Result of [`assign_ranks`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankAssignment {
    /// `true` if ranks had to be taken from the order of the files.
    pub placed: bool,
    /// Evidence against the files being the ranks of one job.
    pub doubts: Vec<RankDoubt>,
}

/// Assigns a rank to every digest by [`trace_model::ranks::assign`], and sorts by rank. The files
/// may come in any order.
///
/// # Errors
///
/// Returns an error if the files are not the ranks of one job.
pub fn assign_ranks(digests: &mut [RankDigest]) -> Result<RankAssignment, NotOneJob> {
    let recording = |digest| -> Recording<'_> {
        let digest: &RankDigest = digest;
        let is_stated = matches!(
            digest.rank_source,
            RankSource::Stated | RankSource::Arguments
        );
        Recording {
            name: &digest.source,
            stated: is_stated.then_some(digest.rank),
            world_size: digest.world_size,
            start_ns: digest.runs.first().map(|run| digest.start_ns(run)),
            end_ns: digest.runs.last().map(|run| digest.end_ns(run)),
        }
    };
    let files: Vec<Recording<'_>> = digests.iter().map(recording).collect();
    let found = assign(&files)?;
    let placed = found.evidence == RankEvidence::Place;
    for (digest, rank) in digests.iter_mut().zip(found.ranks) {
        digest.rank_source = match digest.rank_source {
            _ if placed => RankSource::Place,
            RankSource::Place => RankSource::FileName,
            known => known,
        };
        digest.rank = rank;
    }
    digests.sort_by(|a, b| a.rank.cmp(&b.rank).then_with(|| a.source.cmp(&b.source)));
    Ok(RankAssignment {
        placed,
        doubts: found.doubts,
    })
}

/// Returns the rank in the host's records of collectives, if all agree.
fn rank_of_arguments(trace: &Trace) -> Option<Rank> {
    let column = trace.arg_column("Rank");
    if column.is_empty() {
        return None;
    }
    let mut ranks = trace.slices().filter_map(|s| column.int(s));
    let first = ranks.next()?;
    let same = ranks.all(|r| r == first);
    same.then(|| u32::try_from(first).ok().map(Rank)).flatten()
}

fn tracelens_kernels<'t>(index: &TraceIndex<'t>) -> Vec<Slice<'t>> {
    let trace = index.trace();
    let ids = ["correlation", "External id"].map(|k| trace.arg_column(k));
    index
        .kernels()
        .filter(|k| k.category() == Some("kernel"))
        .filter(|k| is_tracelens_comm(k.name().unwrap_or("")))
        .filter(|k| {
            ids.iter().any(|c| {
                c.get(*k)
                    .is_some_and(|v: ArgValue<'_>| v.as_i64().is_some())
            })
        })
        .collect()
}

/// Returns `true` for kernels that TraceLens classifies as communication.
pub(crate) fn is_tracelens_comm(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["nccl", "rccl", "cross_device_reduce"]
        .iter()
        .any(|part| name.contains(part))
}

/// Distinct collectives.
#[derive(Default)]
pub(super) struct Kinds {
    pub(super) list: Vec<Collective>,
    /// Indices by the fields that differ most; few entries share one.
    places: BTreeMap<(String, Option<String>, Option<u64>), Vec<u32>>,
}

impl Kinds {
    pub(super) fn place(&mut self, what: Collective) -> u32 {
        let key = (what.name.clone(), what.group.clone(), what.elements_in);
        let same = self.places.entry(key).or_default();
        for at in same.iter() {
            if self.list.get(*at as usize) == Some(&what) {
                return *at;
            }
        }
        let at = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        same.push(at);
        self.list.push(what);
        at
    }
}

/// GPU activity of one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceWork<'t> {
    /// Activity other than communication, in ascending time.
    pub(crate) others: Vec<(Interval, Slice<'t>)>,
    /// Kernels other than communication, and memsets.
    pub(crate) computation: IntervalSet,
    /// All activity.
    pub(crate) busy: IntervalSet,
    communication: IntervalSet,
}

struct Devices<'t> {
    by_id: BTreeMap<DeviceId, DeviceWork<'t>>,
}

impl<'t> Devices<'t> {
    fn new(
        index: &TraceIndex<'t>,
        collectives: &[Slice<'t>],
        keep: &impl Fn(SliceId) -> bool,
    ) -> Self {
        type Parts<'t> = (Vec<(Interval, Slice<'t>)>, Vec<Interval>, Vec<Interval>);
        let mut parts: BTreeMap<DeviceId, Parts<'t>> = BTreeMap::new();
        let mut next = collectives.iter().peekable();
        for slice in index.device_work().filter(|slice| keep(slice.id())) {
            let span = (slice.ts().nanos(), slice.end().nanos());
            let (others, computation, communication) =
                parts.entry(index.device(slice)).or_default();
            // Both are in ascending order of id.
            if next.next_if(|c| c.id() == slice.id()).is_some() {
                communication.push(span);
                continue;
            }
            others.push((span, slice));
            if index.activity(slice) != Activity::GpuMemcpy {
                computation.push(span);
            }
        }
        let by_id = parts
            .into_iter()
            .map(|(id, (others, computation, communication))| {
                let all = others
                    .iter()
                    .map(|o| o.0)
                    .chain(communication.iter().copied());
                let work = DeviceWork {
                    busy: all.collect(),
                    others,
                    computation: computation.into_iter().collect(),
                    communication: communication.into_iter().collect(),
                };
                (id, work)
            });
        Self {
            by_id: by_id.collect(),
        }
    }

    fn time(&self) -> RankTime {
        let mut time = RankTime::default();
        for work in self.by_id.values() {
            let exposed = work.communication.subtract(&work.computation);
            time.comm_ns += work.communication.measure().get();
            time.exposed_ns += exposed.measure().get();
            time.overlapped_ns += work
                .communication
                .intersect(&work.computation)
                .measure()
                .get();
            time.computation_ns += work.computation.measure().get();
            time.busy_ns += work.busy.measure().get();
            let spans = work.busy.as_slice();
            if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
                time.span_ns += last.1.saturating_sub(first.0);
            }
        }
        time
    }
}
