//! Durations of kernels, memcpys and memsets by name, class, operator, module or stream.

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::kernel::KernelClass;
use trace_model::{ArgColumn, ArgValue, SliceId, StrId, StringTable};

use crate::account::percent;
use crate::origin::{module_of, operator_of};
use crate::spread::Spread;
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// Group name of GPU activity whose launch is not in the trace.
pub const NO_LAUNCH: &str = "(launch not in the trace)";
/// Group name of GPU activity launched outside of any Python frame.
pub const NO_MODULE: &str = "(no Python frame)";
/// Group name of GPU activity of operators whose shapes were not recorded.
pub const NO_SHAPE: &str = "(no shapes recorded)";

/// Grouping key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelsBy {
    /// Name; kernels are separate from memcpys and memsets.
    #[default]
    Name,
    /// Class of the kernel; [`KernelClass::Copy`] for memcpys and memsets.
    Class,
    /// Innermost operator around the launch; the call itself if there is none.
    Operator,
    /// Python module around the launch; see [`module_of`].
    Module,
    /// Device and stream.
    Stream,
    /// Shapes of the inputs of the innermost operator around the launch (`Input Dims`).
    Shape,
}

/// Grouping and order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelOptions {
    /// Grouping key.
    pub by: KernelsBy,
    /// Further grouping keys.
    pub also: Vec<KernelsBy>,
    /// The order.
    pub sort: KernelSort,
    /// `true` to keep the numbers of module instances.
    pub numbered: bool,
}

/// Order of groups: largest first; equal groups by time, then by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum KernelSort {
    /// Sum of durations.
    #[default]
    Sum,
    /// Count.
    Count,
    /// Mean duration.
    Mean,
    /// Maximum duration.
    Max,
    /// Name, ascending.
    Name,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelGroup {
    /// Value of the first key.
    pub name: String,
    /// Values of [`KernelOptions::also`].
    pub also: Vec<String>,
    /// Kind of the members, in groups by name.
    pub kind: Option<WorkKind>,
    /// Class of the members, in groups by name and class; the class with the most time where
    /// launches differ.
    pub class: Option<KernelClass>,
    /// Share of the sum of durations that launches of this class have, in percent: groups by name with less are several things,
    /// which [`KernelsBy::Class`] tells apart.
    pub class_share_pct: Option<f64>,
    /// Durations.
    pub spread: Spread,
    /// Time in which any member ran.
    pub busy_ns: i64,
    /// Share of the sum of their durations in the sum of all durations, in percent.
    pub share_gpu_pct: f64,
    /// Share of `busy_ns` in the time in which anything ran, in percent. As activities may overlap,
    /// these shares can add up to more than 100.
    pub share_busy_pct: f64,
}

/// All groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kernels {
    /// Groups, largest first.
    pub groups: Vec<KernelGroup>,
    /// Number of kernels, memcpys and memsets.
    pub events: u64,
    /// Sum of all durations.
    pub total_dur_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Number of activities whose launch is not in the trace; counted if groups need the launch.
    pub unlinked: Option<u64>,
}

/// Measure of a union of intervals that come in order of start.
#[derive(Clone, Copy, Debug, Default)]
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

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    Name(WorkKind, Option<StrId>),
    Class(KernelClass),
    Text(StrId),
    Stream(i64, i64),
}

#[derive(Debug, Default)]
struct Group {
    durations: Vec<i64>,
    busy: Running,
    /// Time by class; kernels of one name may have several classes, by their launches.
    classes: Vec<(KernelClass, i64)>,
}

impl Group {
    fn add_class(&mut self, class: KernelClass, dur_ns: i64) {
        match self.classes.iter_mut().find(|(known, _)| *known == class) {
            Some((_, sum)) => *sum = sum.saturating_add(dur_ns),
            None => self.classes.push((class, dur_ns)),
        }
    }

    /// Returns the class with the most time, the first of equal ones, and that time.
    fn class(&self) -> Option<(KernelClass, i64)> {
        self.classes
            .iter()
            .rev()
            .max_by_key(|(_, sum)| *sum)
            .copied()
    }
}

/// Groups of activities that come in order of start.
#[derive(Debug)]
pub(crate) struct Grouping {
    places: FxHashMap<(Key, Vec<Key>), usize>,
    keys: Vec<(Key, Vec<Key>)>,
    groups: Vec<Group>,
    busy: Running,
    total_ns: i64,
    events: u64,
}

impl Grouping {
    pub(crate) fn new() -> Self {
        Self {
            places: FxHashMap::default(),
            keys: Vec::new(),
            groups: Vec::new(),
            busy: Running::default(),
            total_ns: 0,
            events: 0,
        }
    }

    /// Adds an activity to the group of these keys; `class` only if groups have one.
    pub(crate) fn add(
        &mut self,
        (key, also): (Key, Vec<Key>),
        class: Option<KernelClass>,
        (start, end): (i64, i64),
    ) {
        let (keys, groups) = (&mut self.keys, &mut self.groups);
        let at = *self
            .places
            .entry((key, also))
            .or_insert_with_key(|(key, also)| {
                keys.push((*key, also.clone()));
                groups.push(Group::default());
                groups.len() - 1
            });
        let group = &mut groups[at];
        let dur_ns = end.saturating_sub(start);
        if let Some(class) = class {
            group.add_class(class, dur_ns);
        }
        group.durations.push(dur_ns);
        group.busy.cover((start, end));
        self.busy.cover((start, end));
        self.total_ns = self.total_ns.saturating_add(dur_ns);
        self.events += 1;
    }

    /// Describes each group; `text` returns the text of a key.
    pub(crate) fn finish(self, options: &KernelOptions, text: impl Fn(Key) -> String) -> Kernels {
        self.finish_with_durations(options, text).0
    }

    /// Same as [`finish`](Self::finish), with the durations of each group as well, ascending.
    fn finish_with_durations(
        self,
        options: &KernelOptions,
        text: impl Fn(Key) -> String,
    ) -> (Kernels, Vec<Vec<i64>>) {
        let (total, busy_ns) = (self.total_ns, self.busy.measure_ns);
        let mut out: Vec<(KernelGroup, Vec<i64>)> = self
            .keys
            .into_iter()
            .zip(self.groups)
            .map(|((key, also), mut group)| {
                let spread = Spread::of(&mut group.durations);
                let class = group.class();
                let described = KernelGroup {
                    name: text(key),
                    also: also.into_iter().map(&text).collect(),
                    kind: match key {
                        Key::Name(kind, _) => Some(kind),
                        _ => None,
                    },
                    class: class.map(|(class, _)| class),
                    // Of durations of 0 ns, all have the class.
                    class_share_pct: class
                        .map(|(_, ns)| percent(ns, spread.sum_ns).unwrap_or(100.0)),
                    spread,
                    busy_ns: group.busy.measure_ns,
                    share_gpu_pct: percent(spread.sum_ns, total).unwrap_or(0.0),
                    share_busy_pct: percent(group.busy.measure_ns, busy_ns).unwrap_or(0.0),
                };
                (described, group.durations)
            })
            .collect();
        out.sort_by(|(a, _), (b, _)| {
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
                .then_with(|| a.also.cmp(&b.also))
                .then(a.kind.cmp(&b.kind))
        });
        let (groups, durations) = out.into_iter().unzip();
        let found = Kernels {
            groups,
            events: self.events,
            total_dur_ns: total,
            busy_ns,
            unlinked: None,
        };
        (found, durations)
    }
}

impl KernelOptions {
    /// Returns all grouping keys.
    fn all_by(&self) -> impl Iterator<Item = KernelsBy> {
        std::iter::once(self.by).chain(self.also.iter().copied())
    }

    /// Returns `true` if groups depend on the launch of an activity.
    pub fn needs_launch(&self) -> bool {
        let by_launch = [KernelsBy::Operator, KernelsBy::Module, KernelsBy::Shape];
        self.all_by().any(|by| by_launch.contains(&by))
    }

    /// Returns `true` if groups have a class.
    pub(crate) fn names_class(&self) -> bool {
        self.all_by()
            .any(|by| matches!(by, KernelsBy::Name | KernelsBy::Class))
    }
}

/// Groups `events`, which are in ascending time, and describes each group.
///
/// Cost: a look-up for each event and a sort of each group's durations; by operator and module also
/// a walk up from each launch.
pub fn kernels(work: &GpuWork<'_>, events: &[GpuEvent], options: &KernelOptions) -> Kernels {
    kernels_with_durations(work, events, options).0
}

/// Groups `events` as [`kernels()`] does, and returns the durations of each group as well, ascending.
pub fn kernels_with_durations(
    work: &GpuWork<'_>,
    events: &[GpuEvent],
    options: &KernelOptions,
) -> (Kernels, Vec<Vec<i64>>) {
    let mut named = Namer {
        work,
        numbered: options.numbered,
        dims: work.trace().arg_column("Input Dims"),
        texts: StringTable::new(),
        last: [None; 3],
    };
    let mut grouping = Grouping::new();
    let mut unlinked = 0_u64;
    let (needs_launch, names_class) = (options.needs_launch(), options.names_class());
    for event in events {
        unlinked += u64::from(needs_launch && work.launch_of(event).is_none());
        let also = options.also.iter().map(|by| named.key(*by, event));
        let also: Vec<Key> = also.collect();
        let key = named.key(options.by, event);
        let class = names_class.then(|| class_of(work, event));
        grouping.add((key, also), class, event.interval());
    }
    let (mut found, durations) = grouping.finish_with_durations(options, |key| named.text(key));
    found.unlinked = needs_launch.then_some(unlinked);
    (found, durations)
}

/// Creates keys of events, and texts of keys.
struct Namer<'w, 't> {
    work: &'w GpuWork<'t>,
    numbered: bool,
    dims: ArgColumn,
    texts: StringTable,
    /// The last call and its key, for operators, modules and shapes: a call often launches several
    /// activities in a row.
    last: [Option<(SliceId, Key)>; 3],
}

impl Namer<'_, '_> {
    fn key(&mut self, by: KernelsBy, event: &GpuEvent) -> Key {
        let work = self.work;
        let kind = match by {
            KernelsBy::Name => return Key::Name(event.kind, event.name),
            KernelsBy::Class => return Key::Class(class_of(work, event)),
            KernelsBy::Stream => return Key::Stream(event.device.0, event.stream.0),
            KernelsBy::Operator => 0,
            KernelsBy::Module => 1,
            KernelsBy::Shape => 2,
        };
        let Some(call) = work.launch_of(event) else {
            return Key::Text(self.texts.intern(NO_LAUNCH));
        };
        if let Some((known, key)) = self.last[kind]
            && known == call.id()
        {
            return key;
        }
        let key = match by {
            KernelsBy::Module => {
                let module = module_of(work, call, self.numbered);
                Key::Text(self.texts.intern(module.as_deref().unwrap_or(NO_MODULE)))
            }
            KernelsBy::Shape => {
                let shape = operator_of(work, call)
                    .and_then(|op| self.dims.get(op).and_then(ArgValue::as_str));
                // Exporters write one number per line, or blanks of their own.
                let shape = shape.map(|text| text.split_whitespace().collect::<String>());
                Key::Text(self.texts.intern(shape.as_deref().unwrap_or(NO_SHAPE)))
            }
            _ => {
                let op = operator_of(work, call).unwrap_or(call);
                Key::Text(self.texts.intern(op.name().unwrap_or("")))
            }
        };
        self.last[kind] = Some((call.id(), key));
        key
    }

    fn text(&self, key: Key) -> String {
        match key {
            Key::Name(_, name) => name.map_or("", |id| self.work.trace().text(id)).to_owned(),
            Key::Class(class) => class.name().to_owned(),
            Key::Text(id) => self.texts.get(id).to_owned(),
            Key::Stream(device, stream) => stream_name(device, stream),
        }
    }
}

/// Returns the name of a group by stream.
pub(crate) fn stream_name(device: i64, stream: i64) -> String {
    format!("device {device} stream {stream}")
}

/// Returns the class of `event`; for a kernel, that of
/// [`TraceIndex::class`](trace_model::kernel::TraceIndex::class).
pub fn class_of(work: &GpuWork<'_>, event: &GpuEvent) -> KernelClass {
    match event.kind {
        WorkKind::Kernel => work.index().class(work.slice(event)),
        WorkKind::Memcpy | WorkKind::Memset => KernelClass::Copy,
        WorkKind::Graph => KernelClass::Other,
    }
}
