//! The events as the reference sees them: binary64 microseconds, in order of time.

use rustc_hash::FxHashMap;
use trace_model::{SliceId, StrId, Trace};

use crate::num::micros;
use crate::origin::{Names, Origins, nested, nested_int};

/// What an event is to the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Python,
    Runtime,
    Driver,
    Kernel,
    Memcpy,
    Memset,
    Cpu,
    Disk,
    App,
    Operator,
    Other,
}

impl Kind {
    pub(crate) fn is_gpu(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset)
    }

    /// Calls that carry the correlation of the work they launch.
    pub(crate) fn launches(self) -> bool {
        matches!(self, Self::Runtime | Self::Driver)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) slice: SliceId,
    pub(crate) name: StrId,
    pub(crate) kind: Kind,
    pub(crate) pid: i64,
    pub(crate) tid: u32,
    pub(crate) host: Option<u32>,
    pub(crate) ts: f64,
    pub(crate) dur: f64,
    pub(crate) correlation: i64,
    pub(crate) device: Option<i64>,
}

impl Event {
    pub(crate) fn end(&self) -> f64 {
        self.ts + self.dur
    }
}

/// One counter sample.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: u32,
    pub(crate) host: Option<u32>,
    pub(crate) instance: i64,
    pub(crate) ts: f64,
    pub(crate) value: f64,
}

/// All events of one job.
pub(crate) struct Events<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) list: Vec<Event>,
    /// In order of time.
    pub(crate) samples: Vec<Sample>,
    /// Texts of threads, hosts and counters.
    pub(crate) names: Names,
}

impl<'t> Events<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        let origins = Origins::new(trace, true);
        let mut names = Names::default();
        let correlation = trace.arg_column("correlation");
        let device = trace.arg_column("device");
        let hostname = trace.arg_column("hostname");
        let inner = trace.arg_column("args");
        let categories: Vec<&str> = trace.categories().map(|c| c.1).collect();
        let mut list = Vec::with_capacity(trace.len());
        let mut stripped = StrippedNames::default();
        for slice in trace.slices() {
            let (Some(name), Some(dur)) = (slice.name_id(), slice.dur()) else {
                continue;
            };
            let name = stripped.one_id(trace, name);
            let category = slice
                .category_id()
                .index()
                .and_then(|i| categories.get(i).copied())
                .unwrap_or("");
            let kind = match category {
                "python" => Kind::Python,
                "cuda_runtime" => Kind::Runtime,
                "cuda_driver" => Kind::Driver,
                "CAT_APP" if trace.text(name).trim() == "cuLaunchKernelEx" => Kind::Driver,
                "CAT_APP" => Kind::App,
                "Operator" => Kind::Operator,
                "Kernel" => Kind::Kernel,
                "Memcpy" => Kind::Memcpy,
                "Memset" => Kind::Memset,
                "CAT_CPU" => Kind::Cpu,
                "CAT_DISK" => Kind::Disk,
                _ => Kind::Other,
            };
            let origin = origins.of_slice(slice);
            // Arguments in a text overrule those beside it.
            let text = inner.get(slice).and_then(trace_model::ArgValue::as_str);
            let stated = text
                .and_then(|t| nested(t, "hostname"))
                .or_else(|| hostname.get(slice).and_then(trace_model::ArgValue::as_str));
            let host = stated.or(origin.host.as_deref()).map(|h| names.intern(h));
            list.push(Event {
                slice: slice.id(),
                name,
                kind,
                pid: origin.pid,
                tid: names.intern(&origin.tid),
                host,
                ts: micros(slice.ts().nanos()),
                dur: micros(dur.get()),
                correlation: text
                    .and_then(|t| nested_int(t, "correlation"))
                    .or_else(|| correlation.int(slice))
                    .unwrap_or(0),
                device: text
                    .and_then(|t| nested_int(t, "device"))
                    .or_else(|| device.int(slice)),
            });
        }
        list.sort_by(|a, b| a.ts.total_cmp(&b.ts));
        enrich_hosts(&mut list);
        let samples = samples(trace, &origins, &mut names);
        Self {
            trace,
            list,
            samples,
            names,
        }
    }

    pub(crate) fn name(&self, event: usize) -> &'t str {
        self.text(self.list[event].name)
    }

    /// The text of a name, without the blanks around it.
    pub(crate) fn text(&self, name: StrId) -> &'t str {
        self.trace.text(name).trim()
    }
}

/// Names that differ only in blanks around them are one name to the reference.
#[derive(Default)]
struct StrippedNames<'t> {
    by_text: FxHashMap<&'t str, StrId>,
    seen: FxHashMap<StrId, StrId>,
}

impl<'t> StrippedNames<'t> {
    fn one_id(&mut self, trace: &'t Trace, name: StrId) -> StrId {
        let by_text = &mut self.by_text;
        *self
            .seen
            .entry(name)
            .or_insert_with(|| *by_text.entry(trace.text(name).trim()).or_insert(name))
    }
}

/// Events without a host get that of another event of their process.
fn enrich_hosts(list: &mut [Event]) {
    let mut hosts = FxHashMap::default();
    for event in list.iter() {
        if let Some(host) = event.host {
            hosts.insert(event.pid, host);
        }
    }
    for event in list.iter_mut() {
        event.host = event.host.or_else(|| hosts.get(&event.pid).copied());
    }
}

fn samples(trace: &Trace, origins: &Origins, names: &mut Names) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(trace.counters().len());
    for sample in trace.counters().iter() {
        let track = trace.track(sample.track);
        let full = track.name.map_or("", |n| trace.text(n));
        // The reader appends the member that held the value.
        let Some(name) = full.strip_suffix(" value") else {
            continue;
        };
        let origin = origins.of(sample.track);
        samples.push(Sample {
            name: names.intern(name.trim()),
            host: origin.host.as_deref().map(|h| names.intern(h)),
            instance: instance(name.trim(), &origin.tid),
            ts: micros(sample.ts.nanos()),
            value: sample.value,
        });
    }
    samples.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    samples
}

/// The device of a device counter, else the number behind the counter's name, else -1.
fn instance(name: &str, tid: &str) -> i64 {
    if let Some(at) = tid.find("CAT_XPU_") {
        let rest = &tid[at + 8..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(device) = rest[..digits].parse() {
            return device;
        }
    }
    name.rsplit_once('_')
        .and_then(|(_, tail)| tail.parse().ok())
        .unwrap_or(-1)
}
