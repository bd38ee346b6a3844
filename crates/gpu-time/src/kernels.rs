//! Kernels, copies and fills by name, class, operator, module or stream.

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::kernel::KernelClass;
use trace_model::{SliceId, StrId, StringTable};

use crate::account::percent;
use crate::origin::{module_of, operator_of};
use crate::spread::Spread;
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// The name of the group of work whose launch is not in the trace.
pub const NO_LAUNCH: &str = "(launch not in the trace)";
/// The name of the group of work that no Python frame is around.
pub const NO_MODULE: &str = "(no Python frame)";

/// What makes a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelsBy {
    /// Name, kernels apart from copies and fills.
    #[default]
    Name,
    /// What it computes; copies and fills are copies.
    Class,
    /// The innermost operator around the launch; the call itself where there is none.
    Operator,
    /// The Python module around the launch; see [`module_of`].
    Module,
    /// Device and stream.
    Stream,
}

/// How to group and order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelOptions {
    /// What makes a group.
    pub by: KernelsBy,
    /// The order.
    pub sort: KernelSort,
    /// Keep the numbers of module instances.
    pub numbered: bool,
}

/// The order of groups: most first; groups that are equal in it by time, then by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum KernelSort {
    /// By sum of durations.
    #[default]
    Sum,
    /// By number.
    Count,
    /// By mean.
    Mean,
    /// By longest.
    Max,
    /// By name, ascending.
    Name,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelGroup {
    /// What its members have in common.
    pub name: String,
    /// What they are, in groups by name.
    pub kind: Option<WorkKind>,
    /// What they compute, in groups by name and class.
    pub class: Option<KernelClass>,
    /// Durations.
    pub spread: Spread,
    /// Time in which any of them ran.
    pub busy_ns: i64,
    /// Their sum in the sum of all durations, in percent.
    pub share_gpu_pct: f64,
    /// Time in which any of them ran in the time in which anything ran, in percent. As work may
    /// overlap, these can add up to more than 100.
    pub share_busy_pct: f64,
}

/// All groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kernels {
    /// Most first.
    pub groups: Vec<KernelGroup>,
    /// Kernels, copies and fills.
    pub events: u64,
    /// Sum of all durations.
    pub total_dur_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Work whose launch is not in the trace; counted when groups need the launch.
    pub unlinked: Option<u64>,
}

/// Measure of a union of intervals that come in order of start.
#[derive(Clone, Copy, Default)]
pub(crate) struct Running {
    until: Option<i64>,
    pub(crate) measure_ns: i64,
}

impl Running {
    pub(crate) fn cover(&mut self, (start, end): (i64, i64)) {
        let from = self.until.map_or(start, |until| until.max(start));
        if end > from {
            self.measure_ns = self.measure_ns.saturating_add(end.saturating_sub(from));
        }
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Name(WorkKind, Option<StrId>),
    Class(KernelClass),
    Text(StrId),
    Stream(i64, i64),
}

#[derive(Default)]
struct Group {
    durations: Vec<i64>,
    busy: Running,
    class: Option<KernelClass>,
}

/// Groups `events`, which are in ascending time, and describes each group.
///
/// Cost: a look-up for each event and a sort of each group's durations; by operator and module also
/// a walk up from each launch.
pub fn kernels(work: &GpuWork<'_>, events: &[GpuEvent], options: &KernelOptions) -> Kernels {
    let mut places: FxHashMap<Key, usize> = FxHashMap::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut texts = StringTable::new();
    let mut last: Option<(SliceId, Key)> = None;
    let mut busy = Running::default();
    let (mut total, mut unlinked) = (0_i64, 0_u64);
    for event in events {
        let key = match options.by {
            KernelsBy::Name => Key::Name(event.kind, event.name),
            KernelsBy::Class => Key::Class(class_of(work, event)),
            KernelsBy::Stream => Key::Stream(event.device.0, event.stream.0),
            KernelsBy::Operator | KernelsBy::Module => match work.launch_of(event) {
                None => {
                    unlinked += 1;
                    Key::Text(texts.intern(NO_LAUNCH))
                }
                Some(call) => match last {
                    Some((known, key)) if known == call.id() => key,
                    _ => {
                        let key = if options.by == KernelsBy::Operator {
                            let op = operator_of(work, call).unwrap_or(call);
                            Key::Text(texts.intern(op.name().unwrap_or("")))
                        } else {
                            let module = module_of(work, call, options.numbered);
                            Key::Text(texts.intern(module.as_deref().unwrap_or(NO_MODULE)))
                        };
                        last = Some((call.id(), key));
                        key
                    }
                },
            },
        };
        let at = *places.entry(key).or_insert_with(|| {
            keys.push(key);
            groups.push(Group {
                class: match key {
                    Key::Name(..) => Some(class_of(work, event)),
                    Key::Class(class) => Some(class),
                    _ => None,
                },
                ..Group::default()
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.durations.push(event.dur_ns());
        group.busy.cover(event.interval());
        busy.cover(event.interval());
        total = total.saturating_add(event.dur_ns());
    }
    let mut out: Vec<KernelGroup> = keys
        .into_iter()
        .zip(groups)
        .map(|(key, mut group)| {
            let spread = Spread::of(&mut group.durations);
            KernelGroup {
                name: match key {
                    Key::Name(_, name) => name.map_or("", |id| work.trace().text(id)).to_owned(),
                    Key::Class(class) => class.name().to_owned(),
                    Key::Text(id) => texts.get(id).to_owned(),
                    Key::Stream(device, stream) => format!("device {device} stream {stream}"),
                },
                kind: match key {
                    Key::Name(kind, _) => Some(kind),
                    _ => None,
                },
                class: group.class,
                spread,
                busy_ns: group.busy.measure_ns,
                share_gpu_pct: percent(spread.sum_ns, total).unwrap_or(0.0),
                share_busy_pct: percent(group.busy.measure_ns, busy.measure_ns).unwrap_or(0.0),
            }
        })
        .collect();
    out.sort_by(|a, b| {
        let (x, y) = (&a.spread, &b.spread);
        let first = match options.sort {
            KernelSort::Sum => y.sum_ns.cmp(&x.sum_ns),
            KernelSort::Count => y.count.cmp(&x.count),
            KernelSort::Mean => y.mean_ns.total_cmp(&x.mean_ns),
            KernelSort::Max => y.max_ns.cmp(&x.max_ns),
            KernelSort::Name => a.name.cmp(&b.name),
        };
        first
            .then(y.sum_ns.cmp(&x.sum_ns))
            .then_with(|| a.name.cmp(&b.name))
            .then(a.kind.cmp(&b.kind))
    });
    Kernels {
        groups: out,
        events: events.len() as u64,
        total_dur_ns: total,
        busy_ns: busy.measure_ns,
        unlinked: matches!(options.by, KernelsBy::Operator | KernelsBy::Module).then_some(unlinked),
    }
}

fn class_of(work: &GpuWork<'_>, event: &GpuEvent) -> KernelClass {
    match event.kind {
        WorkKind::Kernel => work.index().class(work.slice(event)),
        WorkKind::Memcpy | WorkKind::Memset => KernelClass::Copy,
    }
}
