//! From GPU activity to calls with their numbers.

use gpu_time::{GpuEvent, GpuWork, WorkKind};
use rustc_hash::FxHashMap;
use trace_model::kernel::{Activity, CopyDirection};
use trace_model::{Slice, SliceId, StrId, ThreadId};

use crate::calls::{Call, CallList, CallOptions, CaptureCounts, Kind, NO_OPERATOR};
use crate::capture::Captures;
use crate::config::{ConfigError, Experts};
use crate::dtype::Dtype;
use crate::marks::Marks;
use crate::models::{Models, collective_numbers, is_collective};
use crate::numbers::{Numbers, Unknown};
use crate::recorded::{CollectiveSizes, Context, Recorded};
use crate::source::{Signature, Source};

/// Where a call is: an operator of one of the recordings, within a replay or not, or a piece of work alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Site {
    Op {
        source: u32,
        op: SliceId,
        replay: Option<SliceId>,
    },
    Alone(u32),
}

/// A call before it has numbers.
struct Found {
    site: Site,
    /// Its first launch.
    launch: Option<(u32, SliceId)>,
    /// The capture that its replay was joined to.
    capture: Option<usize>,
    launch_ns: Option<i64>,
    in_graph: bool,
    thread: Option<ThreadId>,
    step: Option<u32>,
    until_ns: i64,
    time_ns: i64,
    start_ns: i64,
    device: i64,
    kernels: u32,
    all_host_copies: bool,
    first: u32,
}

impl Found {
    fn add(&mut self, event: &GpuEvent, is_host_copy: bool) {
        let from = self.until_ns.max(event.start_ns);
        self.time_ns = self
            .time_ns
            .saturating_add(event.end_ns.saturating_sub(from).max(0));
        self.until_ns = self.until_ns.max(event.end_ns);
        self.kernels = self.kernels.saturating_add(1);
        self.all_host_copies &= is_host_copy;
    }
}

/// Writes into a KV cache in ascending time, each with the type of the cache.
type Writes = Vec<(i64, Dtype)>;

/// Writes into KV caches by thread, and by capture.
#[derive(Default)]
struct CacheWrites {
    by_thread: FxHashMap<Option<ThreadId>, Writes>,
    by_capture: FxHashMap<usize, Writes>,
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
struct Memo<'t> {
    signature: Signature<'t>,
    kernels: Vec<StrId>,
    step: Option<u32>,
    cache: Option<Dtype>,
    is_host_copy: bool,
    collective: Option<CollectiveSizes>,
    window: Option<u128>,
}

/// Finds the calls of a recording.
pub(crate) struct Builder<'a, 'i, 't> {
    pub(crate) work: &'i GpuWork<'t>,
    pub(crate) sources: Vec<Source<'i, 't>>,
    pub(crate) marks: Marks,
    pub(crate) captures: Captures,
    pub(crate) models: &'a Models,
    pub(crate) options: &'a CallOptions<'a>,
}

/// A place in a list, which is shorter than 2^32.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl<'t> Builder<'_, '_, 't> {
    pub(crate) fn build(mut self) -> Result<CallList, ConfigError> {
        let (found, call_of) = self.find();
        let writes = self.cache_writes(&found);
        let tp = self.ranks(&found)?;
        let experts = self
            .options
            .config
            .and_then(|config| config.experts(tp.unwrap_or(1)));
        self.check_experts(&found, experts.as_ref())?;
        let windows = self.windows(&found);
        let mut events: Vec<Vec<StrId>> = vec![Vec::new(); found.len()];
        for (event, call) in self.work.events().iter().zip(&call_of) {
            events[*call as usize].extend(event.name);
        }
        let meta = self.work.trace().meta();
        let stated = meta.distributed.as_ref().and_then(|job| job.world_size);
        let world_size = stated.or(self.options.world_size);
        let mut kinds = Kinds::default();
        let mut memo: FxHashMap<Memo<'t>, u32> = FxHashMap::default();
        let mut calls = Vec::with_capacity(found.len());
        for (at, (call, mut kernels)) in found.iter().zip(events).enumerate() {
            kernels.sort_unstable();
            kernels.dedup();
            let kind = match call.site {
                Site::Alone(event) => kinds.place(self.alone(event, world_size)),
                Site::Op { source, op, .. } => {
                    let own = &self.sources[source as usize];
                    let slice = own.index.trace().slice(op);
                    let signature = own.signature(slice);
                    let query = self.models.query_argument(signature.op);
                    let is_attention = query.is_some();
                    let key = Memo {
                        collective: is_collective(signature.op)
                            .then(|| self.collective(slice, source, call))
                            .flatten(),
                        step: call.step.filter(|_| is_attention),
                        cache: match is_attention {
                            true => self.cache_of(call, &writes),
                            false => None,
                        },
                        window: windows.get(&place(at)).copied(),
                        is_host_copy: call.all_host_copies,
                        kernels,
                        signature,
                    };
                    match memo.get(&key) {
                        Some(kind) => *kind,
                        None => {
                            let kind =
                                kinds.place(self.operator(&key, world_size, experts.as_ref()));
                            memo.insert(key, kind);
                            kind
                        }
                    }
                }
            };
            calls.push(Call {
                kind,
                kernels: call.kernels,
                time_ns: call.time_ns,
                start_ns: call.start_ns,
                device: call.device,
                step: call.step,
                launch: call.launch,
                launch_ns: call.launch_ns,
                in_graph: call.in_graph,
            });
        }
        let [matched, nearly, unmatched] = self.captures.counts;
        let cache = writes.by_thread.values();
        let cache = cache.chain(writes.by_capture.values()).flatten();
        let cache_bytes = cache.map(|(_, dtype)| dtype.size()).max();
        Ok(CallList {
            cache_bytes,
            calls,
            kinds: kinds.all,
            steps: self.marks.all,
            call_of,
            captures: CaptureCounts {
                captures: self.captures.len() as u64,
                matched,
                nearly,
                unmatched,
            },
            tp: self.options.config.is_some().then_some(tp.unwrap_or(1)),
        })
    }

    /// The calls, and that of each piece of work.
    fn find(&mut self) -> (Vec<Found>, Vec<u32>) {
        let (work, trace) = (self.work, self.work.trace());
        let replayed = self.replayed();
        let mut at_site: FxHashMap<Site, u32> = FxHashMap::default();
        let mut found: Vec<Found> = Vec::new();
        let mut call_of = Vec::with_capacity(work.events().len());
        let mut last: Option<(SliceId, Option<SliceId>)> = None;
        for (at, event) in work.events().iter().enumerate() {
            let launch = work.launch_of(event);
            let is_graph =
                launch.is_some_and(|l| work.index().activity(l) == Activity::GraphLaunch);
            let mut captured = None;
            let (site, own_launch) = match (launch, is_graph) {
                (None, _) => (Site::Alone(place(at)), None),
                (Some(launch), true) => match replayed.get(&event.slice) {
                    Some((capture, node)) => {
                        let source = self.captures.get(*capture).map_or(0, |c| c.source);
                        captured = Some(*capture);
                        let own = &mut self.sources[source];
                        let node = own.index.trace().slice(*node);
                        let site = match own.operator(node, self.models) {
                            Some(op) => Site::Op {
                                source: place(source),
                                op: op.id(),
                                replay: Some(launch.id()),
                            },
                            None => Site::Alone(place(at)),
                        };
                        (site, Some((place(source), node.id())))
                    }
                    None => (Site::Alone(place(at)), Some((0, launch.id()))),
                },
                (Some(launch), false) => {
                    let op = match last {
                        Some((known, op)) if known == launch.id() => op,
                        _ => {
                            let op = self.sources[0].operator(launch, self.models);
                            op.map(|op| op.id())
                        }
                    };
                    last = Some((launch.id(), op));
                    let site = match op {
                        Some(op) => Site::Op {
                            source: 0,
                            op,
                            replay: None,
                        },
                        None => Site::Alone(place(at)),
                    };
                    (site, Some((0, launch.id())))
                }
            };
            let is_host_copy = event.kind == WorkKind::Memcpy
                && CopyDirection::of_name(work.name(event)) != CopyDirection::DeviceToDevice;
            let call = *at_site.entry(site).or_insert_with(|| {
                let thread = launch.and_then(|launch| launch.track().thread);
                let launch_ns = launch.map(|launch| launch.ts().nanos());
                let step = launch_ns.and_then(|ns| self.marks.at(ns, thread));
                found.push(Found {
                    site,
                    launch: own_launch,
                    capture: captured,
                    launch_ns,
                    in_graph: is_graph,
                    thread,
                    step: step.map(place),
                    until_ns: event.start_ns,
                    time_ns: 0,
                    start_ns: event.start_ns,
                    device: event.device.0,
                    kernels: 0,
                    all_host_copies: true,
                    first: place(at),
                });
                place(found.len() - 1)
            });
            found[call as usize].add(event, is_host_copy);
            call_of.push(call);
        }
        debug_assert!(trace.len() >= found.len());
        (found, call_of)
    }

    /// Returns the capture, and the launch call within it, of each replayed GPU activity.
    fn replayed(&mut self) -> FxHashMap<SliceId, (usize, SliceId)> {
        let mut joined = FxHashMap::default();
        if self.captures.is_empty() {
            return joined;
        }
        let work = self.work;
        let mut replays: Vec<(Slice<'t>, Vec<usize>)> = Vec::new();
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
            replays[replay].1.push(at);
        }
        replays.sort_by_key(|(launch, _)| launch.id());
        for (launch, events) in replays {
            let names = events.iter().map(|at| work.events()[*at].name);
            let names: Vec<Option<StrId>> = names.collect();
            let step = self.marks.at(launch.ts().nanos(), launch.track().thread);
            let tokens = step.and_then(|at| {
                let lengths = self.marks.all[at].lengths;
                lengths.tokens().or_else(|| lengths.requests())
            });
            let Some(found) = self.captures.join(work.trace(), &names, tokens) else {
                continue;
            };
            for (at, node) in events.iter().zip(&found.launches) {
                if let Some(node) = node {
                    joined.insert(work.events()[*at].slice, (found.capture, *node));
                }
            }
        }
        joined
    }

    /// Writes into the cache by thread, and by capture.
    fn cache_writes(&self, found: &[Found]) -> CacheWrites {
        let mut writes = CacheWrites::default();
        for call in found {
            let Site::Op { source, op, .. } = call.site else {
                continue;
            };
            let own = &self.sources[source as usize];
            let op = own.index.trace().slice(op);
            let Some(argument) = self.models.cache_argument(op.name().unwrap_or("")) else {
                continue;
            };
            let signature = own.signature(op);
            let recorded = signature.recorded();
            let Some(tensor) = recorded.tensor(argument) else {
                continue;
            };
            let launch = call
                .launch
                .map(|(_, launch)| own.index.trace().slice(launch));
            let at = launch.map_or(0, |launch| launch.ts().nanos());
            match call.capture {
                Some(capture) => writes.by_capture.entry(capture).or_default(),
                None => writes.by_thread.entry(call.thread).or_default(),
            }
            .push((at, tensor.dtype));
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

    fn cache_of(&self, call: &Found, writes: &CacheWrites) -> Option<Dtype> {
        let (source, launch) = call.launch?;
        let index = self.sources[source as usize].index;
        let at = index.trace().slice(launch).ts().nanos();
        match call.capture {
            Some(capture) => cache_type(writes.by_capture.get(&capture), at),
            None => cache_type(writes.by_thread.get(&call.thread), at),
        }
    }

    /// The operator of a call with the parsed arguments.
    fn recorded_of(&self, call: &Found) -> Option<(&'t str, Recorded)> {
        let Site::Op { source, op, .. } = call.site else {
            return None;
        };
        let own = &self.sources[source as usize];
        let signature = own.signature(own.index.trace().slice(op));
        Some((signature.op, signature.recorded()))
    }

    /// Is the call attention over a cache?
    fn is_attention(&self, call: &Found) -> bool {
        let Site::Op { source, op, .. } = call.site else {
            return false;
        };
        let slice = self.sources[source as usize].index.trace().slice(op);
        let name = slice.name().unwrap_or("");
        self.models.query_argument(name).is_some()
    }

    /// Ranks of tensor parallelism: as given, else by the heads of queries, which must not contradict the configuration.
    fn ranks(&self, found: &[Found]) -> Result<Option<u128>, ConfigError> {
        let Some(config) = self.options.config else {
            return Ok(self.options.tp);
        };
        let attention = found.iter().find(|call| self.is_attention(call));
        let heads = attention.and_then(|call| {
            let (op, recorded) = self.recorded_of(call)?;
            let queries = recorded.tensor(self.models.query_argument(op)?)?;
            queries.dim(-2).ok().filter(|n| *n > 0)
        });
        let tp = match (self.options.tp, heads) {
            (Some(tp), _) => tp,
            (None, Some(heads)) => (config.heads() / heads).max(1),
            (None, None) => 1,
        };
        config.check_ranks(tp)?;
        let own = config.heads() / tp;
        match heads {
            Some(recorded) if recorded != own => Err(ConfigError::Contradiction {
                what: "query heads per rank",
                config: own,
                recorded,
            }),
            _ => Ok(Some(tp)),
        }
    }

    fn check_experts(&self, found: &[Found], experts: Option<&Experts>) -> Result<(), ConfigError> {
        if self.options.config.is_none() {
            return Ok(());
        }
        let own = experts.map_or(0, |experts| experts.all);
        for call in found {
            let Site::Op { source, op, .. } = call.site else {
                continue;
            };
            let slice = self.sources[source as usize].index.trace().slice(op);
            let Some(at) = self.models.router_argument(slice.name().unwrap_or("")) else {
                continue;
            };
            let recorded = self.recorded_of(call);
            let logits = recorded
                .as_ref()
                .and_then(|(_, r)| r.tensor(at)?.dim(-1).ok());
            return match logits {
                Some(recorded) if recorded != own => Err(ConfigError::Contradiction {
                    what: "experts",
                    config: own,
                    recorded,
                }),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// Left windows of attention calls whose layer is certain: those of a step are one a layer, in order.
    fn windows(&self, found: &[Found]) -> FxHashMap<u32, u128> {
        let mut windows = FxHashMap::default();
        let Some(config) = self.options.config else {
            return windows;
        };
        let mut by_step: Vec<Vec<u32>> = vec![Vec::new(); self.marks.all.len()];
        for (at, call) in found.iter().enumerate() {
            if let Some(step) = call.step.filter(|_| self.is_attention(call)) {
                by_step[step as usize].push(place(at));
            }
        }
        let layers = config.layers();
        for calls in by_step {
            let count = calls.len() as u128;
            if count == 0 || !count.is_multiple_of(layers) {
                continue;
            }
            for (call, n) in calls.into_iter().zip(0_u128..) {
                if let Some(window) = config.window_of(n % layers) {
                    windows.insert(call, window.saturating_sub(1));
                }
            }
        }
        windows
    }

    /// The sizes of a collective: as its operator states them, else as its first kernel does.
    fn collective(&self, op: Slice<'t>, source: u32, call: &Found) -> Option<CollectiveSizes> {
        let stated = self.sources[source as usize].collective(op);
        stated.or_else(|| {
            let event = self.work.events().get(call.first as usize)?;
            self.sources[0].collective(self.work.slice(event))
        })
    }

    fn operator(&self, key: &Memo<'t>, world_size: Option<u32>, experts: Option<&Experts>) -> Kind {
        let signature = &key.signature;
        let recorded = signature.recorded();
        let trace = self.work.trace();
        let kernels: Vec<&str> = key.kernels.iter().map(|name| trace.text(*name)).collect();
        let lengths = key.step.map(|at| self.marks.all[at as usize].lengths);
        let context = Context {
            kernels: &kernels,
            collective: key.collective.as_ref(),
            lengths: lengths.as_ref(),
            cache_type: key.cache,
            world_size,
            is_host_copy: key.is_host_copy,
            window: key.window,
            experts,
        };
        Kind {
            op: signature.op.to_owned(),
            kernel: String::new(),
            dims: compact(signature.dims),
            types: compact(signature.types),
            answer: self.models.numbers(signature.op, &recorded, &context),
        }
    }

    /// Work without operator: copies have their bytes, collectives their sizes.
    fn alone(&self, event: u32, world_size: Option<u32>) -> Kind {
        let event = &self.work.events()[event as usize];
        let (slice, name) = (self.work.slice(event), self.work.name(event));
        let source = &self.sources[0];
        let bytes = source.bytes.int(slice);
        let bytes = bytes.and_then(|n| u128::try_from(n).ok());
        let unknown = || Unknown::new(Unknown::NO_OPERATOR);
        let answer = match (event.kind, bytes) {
            (WorkKind::Memcpy, Some(bytes)) => Ok(match CopyDirection::of_name(name) {
                CopyDirection::DeviceToDevice => Numbers::moved(bytes.saturating_mul(2)),
                _ => Numbers::host_copy(bytes),
            }),
            (WorkKind::Memset, Some(bytes)) => Ok(Numbers::moved(bytes)),
            (WorkKind::Kernel, _) => {
                let sizes = source.collective(slice);
                let context = Context {
                    world_size,
                    ..Context::default()
                };
                match sizes {
                    Some(sizes) => collective_numbers(Some(&sizes), &context),
                    None => Err(unknown()),
                }
            }
            _ => Err(unknown()),
        };
        Kind {
            op: NO_OPERATOR.to_owned(),
            kernel: name.to_owned(),
            dims: String::new(),
            types: String::new(),
            answer,
        }
    }
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
