//! From GPU activity to calls with their numbers.

mod configured;

use gpu_time::{GpuWork, WorkKind};
use rustc_hash::FxHashMap;
use trace_model::kernel::{Activity, CopyDirection};
use trace_model::{Slice, SliceId, StrId, ThreadId};

use crate::calls::{CallList, CallOptions, CaptureCounts, Kept, Kind, NO_OPERATOR, flag};
use crate::capture::{Captures, Unsure};
use crate::config::{ConfigError, Experts};
use crate::dtype::Dtype;
use crate::marks::Marks;
use crate::models::{Models, collective_numbers};
use crate::name_sets::NameSets;
use crate::numbers::{Answer, Numbers, Unknown};
use crate::recorded::{CollectiveSizes, Context, Recorded};
use crate::source::{Signature, SignatureKey, Source};
use crate::step_name::Lengths;

/// What is known of a call until it has numbers, besides what is kept.
#[derive(Clone, Copy)]
struct Found {
    /// Its operator, in this recording or that of its node; `None` for a piece of work alone.
    op: Option<SliceId>,
    /// End of its work so far.
    until_ns: i64,
}

/// The node of a capture that a piece of work of a replay is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    capture: u32,
    launch: SliceId,
    /// Operators that may be its own instead, as a place in [`Builder::others`].
    others: u32,
}

/// A node with what is known of it.
struct KnownNode {
    node: Node,
    /// The recording of its capture.
    source: u32,
    op: Option<SliceId>,
}

/// The nodes that pieces of work are.
#[derive(Default)]
struct Replayed {
    /// By place from 1 on.
    nodes: Vec<KnownNode>,
    /// For each piece of work the place of its node, 0 for none, and the first piece of the same replay that has the same operator.
    of_work: Vec<(u32, u32)>,
}

impl Replayed {
    fn node(&self, place: u32) -> Option<&KnownNode> {
        self.nodes.get((place as usize).checked_sub(1)?)
    }
}

/// The calls of a recording, while their numbers are sought.
struct Sought {
    calls: Vec<Kept>,
    found: Vec<Found>,
    call_of: Vec<u32>,
    nodes: Vec<KnownNode>,
}

impl Sought {
    fn node(&self, call: &Kept) -> Option<&KnownNode> {
        self.nodes.get((call.node as usize).checked_sub(1)?)
    }

    /// The calls with their operators, each in the recording of this place.
    fn operators(&self) -> impl Iterator<Item = (&Kept, Option<(u32, SliceId)>)> {
        let all = self.calls.iter().zip(&self.found);
        all.map(|(call, found)| {
            let source = self.node(call).map_or(0, |node| node.source);
            (call, found.op.map(|op| (source, op)))
        })
    }
}

/// Writes into a KV cache in ascending time, each with the type of the cache.
type Writes = Vec<(i64, Dtype)>;

/// Writes into KV caches by thread, and by capture.
#[derive(Default)]
struct CacheWrites {
    by_thread: FxHashMap<Option<ThreadId>, Writes>,
    by_capture: FxHashMap<u32, Writes>,
}

/// The type of the latest write before, else of the first one after.
fn cache_type(writes: Option<&Writes>, at: i64) -> Option<Dtype> {
    let writes = writes?;
    let before = writes.partition_point(|(time, _)| *time <= at);
    let found = match before.checked_sub(1) {
        Some(last) => writes.get(last),
        None => writes.first(),
    };
    found.map(|(_, dtype)| *dtype)
}

/// Everything that the numbers of an operator depend on.
#[derive(PartialEq, Eq, Hash)]
struct Memo {
    signature: SignatureKey,
    names: u32,
    lengths: Option<Lengths>,
    cache: Option<Dtype>,
    is_host_copy: bool,
    collective: Option<CollectiveSizes>,
    window: Option<u128>,
    others: u32,
}

/// The arguments of an operator, parsed.
struct Parsed {
    dims: String,
    types: String,
    recorded: Recorded,
}

impl Parsed {
    fn new(signature: &Signature<'_>) -> Self {
        Self {
            dims: compact(signature.dims),
            types: compact(signature.types),
            recorded: signature.recorded(),
        }
    }
}

/// Everything that the numbers of work without operator depend on, if it is no collective.
type AloneMemo = (Option<StrId>, WorkKind, Option<i64>);

/// Finds the calls of a recording.
pub(crate) struct Builder<'a, 'i, 't> {
    pub(crate) work: &'i GpuWork<'t>,
    pub(crate) sources: Vec<Source<'i, 't>>,
    pub(crate) marks: Marks,
    pub(crate) captures: Captures,
    pub(crate) models: &'a Models,
    pub(crate) options: &'a CallOptions<'a>,
    /// Operators among which nothing decides, by place; none at place 0.
    pub(crate) others: Vec<Vec<(u32, SliceId)>>,
}

/// A place in a list, which is shorter than 2^32.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl<'t> Builder<'_, '_, 't> {
    pub(crate) fn build(mut self) -> Result<CallList, ConfigError> {
        let mut sets = NameSets::new();
        let mut sought = self.find(&mut sets);
        let writes = self.cache_writes(&sought);
        let tp = self.ranks(&sought)?;
        let experts = self
            .options
            .config
            .and_then(|config| config.experts(tp.unwrap_or(1)));
        self.check_experts(&sought, experts.as_ref())?;
        let windows = self.windows(&sought);
        let meta = self.work.trace().meta();
        let stated = meta.distributed.as_ref().and_then(|job| job.world_size);
        let world_size = stated.or(self.options.world_size);
        let mut kinds = Kinds::default();
        let mut memo: FxHashMap<Memo, u32> = FxHashMap::default();
        let mut alone: FxHashMap<AloneMemo, u32> = FxHashMap::default();
        // Steps of other lengths have the same arguments.
        let mut parsed: FxHashMap<SignatureKey, Parsed> = FxHashMap::default();
        for at in 0..sought.calls.len() {
            let call = sought.calls[at];
            let node = sought.node(&call);
            let Some(op) = sought.found[at].op else {
                let kind = self.alone(call.first, world_size, &mut alone, &mut kinds);
                sought.calls[at].kind = kind;
                continue;
            };
            let source = node.map_or(0, |node| node.source);
            let own = &self.sources[source as usize];
            let slice = own.index.trace().slice(op);
            let info = own.info(slice);
            let signature = own.signature(slice);
            let is_attention = info.query.is_some();
            let key = Memo {
                signature: signature.key(),
                names: call.kind,
                lengths: call
                    .step()
                    .filter(|_| is_attention)
                    .map(|at| self.marks.all[at as usize].lengths),
                cache: match is_attention {
                    true => self.cache_of(&call, node, &writes),
                    false => None,
                },
                is_host_copy: !call.has(flag::NOT_HOST_COPY),
                collective: match info.is_collective {
                    true => self.collective(slice, source, call.first),
                    false => None,
                },
                window: windows.get(&place(at)).copied(),
                others: node.map_or(0, |node| node.node.others),
            };
            sought.calls[at].kind = match memo.get(&key) {
                Some(kind) => *kind,
                None => {
                    let names = &sets.all[key.names as usize];
                    let parsed = parsed
                        .entry(key.signature)
                        .or_insert_with(|| Parsed::new(&signature));
                    let op = (signature.op, &*parsed);
                    let kind = self.operator(op, &key, names, world_size, experts.as_ref());
                    let kind = kinds.place(kind);
                    memo.insert(key, kind);
                    kind
                }
            };
        }
        self.check_sizes(&sought, &kinds.all, tp, world_size)?;
        let cache = writes.by_thread.values();
        let cache = cache.chain(writes.by_capture.values()).flatten();
        let cache_bytes = cache.map(|(_, dtype)| dtype.size()).max();
        let nodes = sought.nodes.iter();
        let nodes = nodes.map(|node| Some((node.source, node.node.launch)));
        Ok(CallList {
            cache_bytes,
            nodes: std::iter::once(None).chain(nodes).collect(),
            kept: sought.calls,
            kinds: kinds.all,
            steps: self.marks.all,
            call_of: sought.call_of,
            captures: CaptureCounts {
                recordings: self.sources.len().saturating_sub(1) as u64,
                captures: self.captures.len() as u64,
                ..self.captures.counts
            },
            tp: self.options.config.is_some().then_some(tp.unwrap_or(1)),
        })
    }

    /// The calls, what is known of each, and the call of each piece of work.
    fn find(&mut self, sets: &mut NameSets) -> Sought {
        let work = self.work;
        let replayed = self.replayed();
        // By operator of this recording.
        let mut of_op: Vec<u32> = vec![u32::MAX; work.trace().len()];
        // A call has one piece of work at least; what is not used is never touched.
        let count = work.events().len();
        let mut calls: Vec<Kept> = Vec::with_capacity(count);
        let mut found: Vec<Found> = Vec::with_capacity(count);
        let mut call_of: Vec<u32> = Vec::with_capacity(count);
        let mut last: Option<(SliceId, Option<SliceId>)> = None;
        let mut host_copies: FxHashMap<Option<StrId>, bool> = FxHashMap::default();
        for (at, event) in work.events().iter().enumerate() {
            let launch = work.launch_of(event);
            let is_graph =
                launch.is_some_and(|l| work.index().activity(l) == Activity::GraphLaunch);
            let next = place(calls.len());
            let mut op = None;
            let mut node = 0;
            let mut call = next;
            match launch {
                Some(_) if is_graph => {
                    let (own, first) = replayed.of_work.get(at).copied().unwrap_or_default();
                    node = own;
                    op = replayed.node(own).and_then(|node| node.op);
                    if op.is_some() && (first as usize) < at {
                        call = call_of[first as usize];
                    }
                }
                Some(launch) => {
                    op = match last {
                        Some((known, op)) if known == launch.id() => op,
                        _ => {
                            let op = self.sources[0].operator(launch, self.models);
                            op.map(|op| op.id())
                        }
                    };
                    last = Some((launch.id(), op));
                    if let Some(op) = op {
                        let own = &mut of_op[op.index()];
                        if *own == u32::MAX {
                            *own = next;
                        }
                        call = *own;
                    }
                }
                None => {}
            }
            let is_host_copy = event.kind == WorkKind::Memcpy
                && *host_copies.entry(event.name).or_insert_with(|| {
                    CopyDirection::of_name(work.name(event)) != CopyDirection::DeviceToDevice
                });
            if call == next {
                let step = launch
                    .and_then(|launch| self.marks.at(launch.ts().nanos(), launch.track().thread));
                let launched = if launch.is_some() { flag::LAUNCHED } else { 0 };
                calls.push(Kept {
                    kind: 0,
                    first: place(at),
                    kernels: 0,
                    step: step.map_or(Kept::NONE, place),
                    node,
                    flags: launched | if is_graph { flag::IN_GRAPH } else { 0 },
                    time_ns: 0,
                });
                found.push(Found {
                    op,
                    until_ns: event.start_ns,
                });
            }
            let (own, more) = (&mut calls[call as usize], &mut found[call as usize]);
            let from = more.until_ns.max(event.start_ns);
            let longer = event.end_ns.saturating_sub(from).max(0);
            own.time_ns = own.time_ns.saturating_add(longer);
            own.kernels = own.kernels.saturating_add(1);
            if event.kind == WorkKind::Kernel {
                own.flags |= match own.has(flag::KERNEL) {
                    true => flag::KERNELS,
                    false => flag::KERNEL,
                };
            }
            more.until_ns = more.until_ns.max(event.end_ns);
            if !is_host_copy {
                own.flags |= flag::NOT_HOST_COPY;
            }
            if let Some(name) = event.name {
                own.kind = sets.with(own.kind, name);
            }
            call_of.push(call);
        }
        Sought {
            calls,
            found,
            call_of,
            nodes: replayed.nodes,
        }
    }

    /// Returns the node of each piece of work of a replay; nothing without captures.
    fn replayed(&mut self) -> Replayed {
        let mut joined = Replayed::default();
        if self.captures.is_empty() {
            return joined;
        }
        let work = self.work;
        joined.of_work = vec![(0, 0); work.events().len()];
        let mut replays: Vec<(Slice<'t>, Vec<u32>)> = Vec::new();
        let mut places: FxHashMap<SliceId, usize> = FxHashMap::default();
        for (at, event) in work.events().iter().enumerate() {
            let Some(launch) = work.launch_of(event) else {
                continue;
            };
            if work.index().activity(launch) != Activity::GraphLaunch {
                continue;
            }
            let replay = *places.entry(launch.id()).or_insert_with(|| {
                replays.push((launch, Vec::new()));
                replays.len() - 1
            });
            replays[replay].1.push(place(at));
        }
        replays.sort_by_key(|(launch, _)| launch.id());
        let mut unsure: FxHashMap<Unsure, Vec<u32>> = FxHashMap::default();
        let mut nodes: FxHashMap<Node, u32> = FxHashMap::default();
        let mut firsts: FxHashMap<(u32, SliceId), u32> = FxHashMap::default();
        for (launch, events) in replays {
            let names = events.iter().map(|at| work.events()[*at as usize].name);
            let names: Vec<Option<StrId>> = names.collect();
            let step = self.marks.at(launch.ts().nanos(), launch.track().thread);
            let tokens = step.and_then(|at| {
                let lengths = self.marks.all[at].lengths;
                lengths.tokens().or_else(|| lengths.requests())
            });
            let Some(found) = self.captures.join(work.trace(), &names, tokens) else {
                continue;
            };
            let others = match found.unsure {
                None => Vec::new(),
                Some(own) => match unsure.get(&own) {
                    Some(known) => known.clone(),
                    None => {
                        let all = self.captures.alternatives(&own, names.len());
                        let others = self.operators_of(&all, names.len());
                        unsure.insert(own, others.clone());
                        others
                    }
                },
            };
            firsts.clear();
            for (n, (at, launch)) in events.iter().zip(&found.launches).enumerate() {
                let Some(launch) = launch else { continue };
                let node = Node {
                    capture: place(found.capture),
                    launch: *launch,
                    others: others.get(n).copied().unwrap_or(0),
                };
                let next = place(joined.nodes.len() + 1);
                let known = *nodes.entry(node).or_insert(next);
                if known == next {
                    joined.nodes.push(self.known(node));
                }
                let own = joined.node(known);
                let op = own.and_then(|own| Some((own.source, own.op?)));
                let first = op.map_or(*at, |op| *firsts.entry(op).or_insert(*at));
                joined.of_work[*at as usize] = (known, first);
            }
        }
        joined
    }

    fn known(&mut self, node: Node) -> KnownNode {
        let source = self.captures.get(node.capture as usize);
        let source = source.map_or(0, |capture| capture.source);
        let own = &mut self.sources[source];
        let launch = own.index.trace().slice(node.launch);
        let op = own.operator(launch, self.models);
        KnownNode {
            node,
            source: place(source),
            op: op.map(|op| op.id()),
        }
    }

    /// For each of `count` pieces of work of a replay, the operators of the launch calls that it may come from, as a place in
    /// [`Self::others`].
    fn operators_of(&mut self, all: &[(usize, Vec<Option<SliceId>>)], count: usize) -> Vec<u32> {
        let each = (0..count).map(|n| {
            let mut found: Vec<(u32, SliceId)> = Vec::new();
            for (source, launches) in all {
                let own = &mut self.sources[*source];
                let launch = launches.get(n).copied().flatten();
                let op = launch
                    .and_then(|launch| own.operator(own.index.trace().slice(launch), self.models));
                found.extend(op.map(|op| (place(*source), op.id())));
            }
            self.others.push(found);
            place(self.others.len() - 1)
        });
        each.collect()
    }

    /// Writes into the cache by thread, and by capture.
    fn cache_writes(&self, sought: &Sought) -> CacheWrites {
        let mut writes = CacheWrites::default();
        let mut known: FxHashMap<SignatureKey, Option<Dtype>> = FxHashMap::default();
        for (call, op) in sought.operators() {
            let Some((source, op)) = op else {
                continue;
            };
            let own = &self.sources[source as usize];
            let op = own.index.trace().slice(op);
            let Some(argument) = own.info(op).cache else {
                continue;
            };
            let signature = own.signature(op);
            let dtype = *known.entry(signature.key()).or_insert_with(|| {
                let recorded = signature.recorded();
                recorded.tensor(argument).map(|tensor| tensor.dtype)
            });
            let Some(dtype) = dtype else {
                continue;
            };
            let node = sought.node(call);
            let launch = self.launch(call, node);
            let at = launch.map_or(0, |launch| launch.ts().nanos());
            match node {
                Some(node) => writes.by_capture.entry(node.node.capture).or_default(),
                None => {
                    let thread = launch.and_then(|launch| launch.track().thread);
                    writes.by_thread.entry(thread).or_default()
                }
            }
            .push((at, dtype));
        }
        let threads = writes.by_thread.values_mut();
        threads
            .chain(writes.by_capture.values_mut())
            .for_each(|list| {
                list.sort_unstable();
                list.dedup();
            });
        writes
    }

    /// The launch call of a call: in the capture where its replay was joined to one.
    fn launch(&self, call: &Kept, node: Option<&KnownNode>) -> Option<Slice<'t>> {
        match node {
            Some(node) => {
                let index = self.sources[node.source as usize].index;
                Some(index.trace().slice(node.node.launch))
            }
            None => {
                let event = self.work.events().get(call.first as usize)?;
                self.work.launch_of(event)
            }
        }
    }

    fn cache_of(
        &self,
        call: &Kept,
        node: Option<&KnownNode>,
        writes: &CacheWrites,
    ) -> Option<Dtype> {
        let launch = self.launch(call, node)?;
        let at = launch.ts().nanos();
        match node {
            Some(node) => cache_type(writes.by_capture.get(&node.node.capture), at),
            None => cache_type(writes.by_thread.get(&launch.track().thread), at),
        }
    }

    /// The recording and the operator of a call.
    fn operator_of(&self, op: Option<(u32, SliceId)>) -> Option<(&Source<'_, 't>, Slice<'t>)> {
        let (source, op) = op?;
        let own = &self.sources[source as usize];
        Some((own, own.index.trace().slice(op)))
    }

    /// Is the operator attention over a cache?
    fn is_attention(&self, op: Option<(u32, SliceId)>) -> bool {
        self.operator_of(op)
            .is_some_and(|(own, op)| own.info(op).query.is_some())
    }

    /// The sizes of a collective: as its operator states them, else as its first kernel does.
    fn collective(&self, op: Slice<'t>, source: u32, first: u32) -> Option<CollectiveSizes> {
        let stated = self.sources[source as usize].collective(op);
        stated.or_else(|| {
            let event = self.work.events().get(first as usize)?;
            self.sources[0].collective(self.work.slice(event))
        })
    }

    fn operator(
        &self,
        (op, parsed): (&str, &Parsed),
        key: &Memo,
        names: &[StrId],
        world_size: Option<u32>,
        experts: Option<&Experts>,
    ) -> Kind {
        let trace = self.work.trace();
        let kernels: Vec<&str> = names.iter().map(|name| trace.text(*name)).collect();
        let context = Context {
            kernels: &kernels,
            collective: key.collective.as_ref(),
            lengths: key.lengths.as_ref(),
            cache_type: key.cache,
            world_size,
            is_host_copy: key.is_host_copy,
            window: key.window,
            experts,
        };
        let mut own = self.models.numbers(op, &parsed.recorded, &context);
        if let Some(others) = self.others.get(key.others as usize)
            && !others.is_empty()
        {
            let others = others.iter().map(|(source, op)| {
                let own = &self.sources[*source as usize];
                let signature = own.signature(own.index.trace().slice(*op));
                let recorded = signature.recorded();
                self.models.numbers(signature.op, &recorded, &context)
            });
            let others: Vec<Answer> = others.collect();
            own = own.and_then(|own| own.one_of(&others));
        }
        Kind {
            op: op.to_owned(),
            kernel: String::new(),
            dims: parsed.dims.clone(),
            types: parsed.types.clone(),
            answer: own,
        }
    }

    /// The kind of work without operator: copies have their bytes, collectives their sizes.
    fn alone(
        &self,
        event: u32,
        world_size: Option<u32>,
        known: &mut FxHashMap<AloneMemo, u32>,
        kinds: &mut Kinds,
    ) -> u32 {
        let event = &self.work.events()[event as usize];
        let (slice, name) = (self.work.slice(event), self.work.name(event));
        let source = &self.sources[0];
        let kind = |answer| Kind {
            op: NO_OPERATOR.to_owned(),
            kernel: name.to_owned(),
            dims: String::new(),
            types: String::new(),
            answer,
        };
        if event.kind == WorkKind::Kernel
            && let Some(sizes) = source.collective(slice)
        {
            let context = Context {
                world_size,
                ..Context::default()
            };
            return kinds.place(kind(collective_numbers(Some(&sizes), &context)));
        }
        let bytes = match event.kind {
            WorkKind::Kernel | WorkKind::Graph => None,
            WorkKind::Memcpy | WorkKind::Memset => source.bytes.of(slice),
        };
        let make = || {
            let bytes = bytes.and_then(|n| u128::try_from(n).ok());
            kind(match (event.kind, bytes) {
                (WorkKind::Memcpy, Some(bytes)) => Ok(copied(name, bytes)),
                (WorkKind::Memset, Some(bytes)) => Ok(Numbers::moved(bytes)),
                _ => Err(Unknown::new(Unknown::NO_OPERATOR)),
            })
        };
        let key = (event.name, event.kind, bytes);
        *known.entry(key).or_insert_with(|| kinds.place(make()))
    }
}

/// A copy of this name and so many bytes.
fn copied(name: &str, bytes: u128) -> Numbers {
    match CopyDirection::of_name(name) {
        // Neither side is memory of a device.
        CopyDirection::DeviceToDevice if is_within_host(name) => Numbers::moved(0),
        CopyDirection::DeviceToDevice => Numbers::moved(bytes.saturating_mul(2)),
        _ => Numbers::host_copy(bytes),
    }
}

/// Is it a copy from the host's memory to itself?
fn is_within_host(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', ' '], "");
    name.contains("htoh") || name.contains("hosttohost")
}

/// JSON without blanks; text that is none as it is.
fn compact(text: Option<&str>) -> String {
    let text = text.unwrap_or("");
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Kinds, each once.
#[derive(Default)]
struct Kinds {
    all: Vec<Kind>,
    places: FxHashMap<Kind, u32>,
}

impl Kinds {
    fn place(&mut self, kind: Kind) -> u32 {
        let next = place(self.all.len());
        let all = &mut self.all;
        *self.places.entry(kind).or_insert_with_key(|kind| {
            all.push(kind.clone());
            next
        })
    }
}
