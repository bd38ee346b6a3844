//! Answers from GPU activities that come one after the other and are not kept.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::kernel::{KernelClass, Vocabulary};
use trace_model::{DeviceId, StrId, StreamId, Trace};

use crate::account::GpuTime;
use crate::caveats::{Evidence, gcd, notes_of};
use crate::kernels::{Grouping, KernelOptions, Kernels, KernelsBy, Key, stream_name};
use crate::note::Note;
use crate::rules::{Role, Rules};
use crate::split::{Part, PlaceKind};
use crate::sweep::Sweep;
use crate::work::WorkKind;

/// A GPU activity of which nothing else is known; activities come in order of start.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Start.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Kind.
    pub kind: WorkKind,
    /// Name, with its number: names are numbered from 0 on as they come up.
    pub name: Option<(usize, &'a str)>,
    /// Device.
    pub device: DeviceId,
    /// Stream.
    pub stream: StreamId,
    /// Start of the call that launched it, if that is known.
    pub launch_ns: Option<i64>,
    /// Names of the operators around that call, innermost first, with the number of this list: those of a kernel that can tell
    /// whether it communicates ([`Vocabulary::may_communicate`]), and all within them.
    pub operators: Option<(usize, &'a [String])>,
}

/// What names say of activities, each examined once.
#[derive(Debug)]
struct Named {
    vocabulary: Vocabulary,
    rules: Rules,
    texts: Vec<String>,
    /// By name and kind: role, role by [`Rules::Extended`], and class.
    known: Vec<[Option<Says>; 4]>,
    nameless: [Option<Says>; 4],
    /// By name and list of operators: whether kernels communicate.
    exchanges: FxHashMap<(Option<usize>, usize), bool>,
}

type Says = (Role, Role, KernelClass);

impl Named {
    fn new(vocabulary: Vocabulary, rules: Rules) -> Self {
        Self {
            vocabulary,
            rules,
            texts: Vec::new(),
            known: Vec::new(),
            nameless: [None; 4],
            exchanges: FxHashMap::default(),
        }
    }

    /// Returns the roles of an activity, by the rules and by [`Rules::Extended`].
    fn roles(&mut self, work: &Passing<'_>) -> (Role, Role) {
        let (role, extended, _) = self.says(work);
        let Some((number, operators)) = work.operators.filter(|_| work.kind == WorkKind::Kernel)
        else {
            return (role, extended);
        };
        let (vocabulary, name) = (&self.vocabulary, work.name);
        let key = (name.map(|(number, _)| number), number);
        let communicates = *self.exchanges.entry(key).or_insert_with(|| {
            let name = name.map_or("", |(_, text)| text);
            let operators = operators.iter().map(String::as_str);
            vocabulary.communication_within(name, operators).is_some()
        });
        match (communicates, self.rules) {
            (false, _) => (role, extended),
            (true, Rules::Extended) => (Role::Communication, Role::Communication),
            (true, _) => (role, Role::Communication),
        }
    }

    fn says(&mut self, work: &Passing<'_>) -> Says {
        let kind = work.kind as usize;
        let (vocabulary, rules) = (&self.vocabulary, self.rules);
        let look = |name: &str| {
            let role = |rules: Rules| {
                rules.role(work.kind, name, || vocabulary.communication(name).is_some())
            };
            let class = match work.kind {
                WorkKind::Kernel => vocabulary.class(name),
                WorkKind::Memcpy | WorkKind::Memset => KernelClass::Copy,
                WorkKind::Graph => KernelClass::Other,
            };
            (role(rules), role(Rules::Extended), class)
        };
        let Some((number, name)) = work.name else {
            return *self.nameless[kind].get_or_insert_with(|| look(""));
        };
        while self.known.len() <= number {
            self.known.push([None; 4]);
            self.texts.push(String::new());
        }
        let slot = &mut self.known[number][kind];
        *slot.get_or_insert_with(|| {
            name.clone_into(&mut self.texts[number]);
            look(name)
        })
    }
}

/// The breakdown of GPU time that [`account`](crate::account()) and [`split()`](crate::split()) give, with the caveats of
/// [`notes`](crate::notes).
#[derive(Debug)]
pub struct PassingTime {
    named: Named,
    by_place: Option<PlaceKind>,
    whole: Sweep,
    /// Without activities that no call launched; `None` while there are none.
    linked: Option<Sweep>,
    devices: BTreeMap<DeviceId, Sweep>,
    streams: BTreeMap<(DeviceId, StreamId), Sweep>,
    found: Evidence,
    first_ns: Option<i64>,
    step_ns: u64,
}

impl PassingTime {
    /// Creates a breakdown by `rules`, which are not those with a window of their own; with `by_place` also by stream.
    pub fn new(vocabulary: Vocabulary, rules: Rules, by_place: Option<PlaceKind>) -> Self {
        Self {
            named: Named::new(vocabulary, rules),
            by_place,
            whole: Sweep::new(),
            linked: None,
            devices: BTreeMap::new(),
            streams: BTreeMap::new(),
            found: Evidence::default(),
            first_ns: None,
            step_ns: 0,
        }
    }

    /// Adds an activity.
    pub fn add(&mut self, work: &Passing<'_>) {
        let (role, extended) = self.named.roles(work);
        let at = (work.start_ns, work.end_ns);
        let dur_ns = work.end_ns.saturating_sub(work.start_ns);
        match work.launch_ns {
            Some(launch_ns) => {
                self.found.skewed += u64::from(launch_ns > work.start_ns);
                if let Some(linked) = &mut self.linked {
                    linked.add(work.kind, role, at);
                }
            }
            None => {
                self.linked.get_or_insert(self.whole);
                self.found.unlinked += 1;
                self.found.unlinked_ns = self.found.unlinked_ns.saturating_add(dur_ns);
            }
        }
        self.whole.add(work.kind, role, at);
        let device = self.devices.entry(work.device).or_default();
        device.add(work.kind, role, at);
        if self.by_place == Some(PlaceKind::Stream) {
            let place = (work.device, work.stream);
            self.streams
                .entry(place)
                .or_default()
                .add(work.kind, role, at);
        }
        if extended == Role::Communication
            && role != Role::Communication
            && work.kind == WorkKind::Kernel
        {
            self.found.custom.0 += 1;
            self.found.custom.1 = self.found.custom.1.saturating_add(dur_ns);
        }
        let first = *self.first_ns.get_or_insert(work.start_ns);
        if self.step_ns != 1 {
            self.step_ns = gcd(self.step_ns, work.start_ns.abs_diff(first));
            self.step_ns = gcd(self.step_ns, dur_ns.unsigned_abs());
        }
    }

    /// Returns the breakdown of all.
    pub fn whole(&self) -> GpuTime {
        self.whole.finish()
    }

    /// Returns the breakdown of each device, in ascending order.
    pub fn devices(&self) -> Vec<Part> {
        let parts = self.devices.iter();
        parts
            .map(|(device, sweep)| Part {
                step: None,
                device: Some(*device),
                stream: None,
                time: sweep.finish(),
            })
            .collect()
    }

    /// Returns the breakdowns by place that were asked for.
    pub fn parts(&self) -> Vec<Part> {
        match self.by_place {
            None => Vec::new(),
            Some(PlaceKind::Device) => self.devices(),
            Some(PlaceKind::Stream) => {
                let parts = self.streams.iter();
                parts
                    .map(|((device, stream), sweep)| Part {
                        step: None,
                        device: Some(*device),
                        stream: Some(*stream),
                        time: sweep.finish(),
                    })
                    .collect()
            }
        }
    }

    /// Returns the caveats; `rest` is the trace of everything else.
    pub fn notes(mut self, rest: &Trace) -> Vec<Note> {
        let time = self.whole();
        if let Some(linked) = &self.linked {
            self.found.linked = linked.finish();
        }
        self.found.step_ns = (time.gpu_events > 1 && self.step_ns > 0).then_some(self.step_ns);
        notes_of(rest, self.named.rules, &time, &self.found)
    }
}

/// The groups that [`kernels()`](crate::kernels()) gives by name, class and stream, of activities whose operators are not known.
#[derive(Debug)]
pub struct PassingKernels {
    named: Named,
    options: KernelOptions,
    grouping: Grouping,
}

impl PassingKernels {
    /// Creates groups; `None` if they depend on launches.
    pub fn new(vocabulary: Vocabulary, options: &KernelOptions) -> Option<Self> {
        (!options.needs_launch()).then(|| Self {
            named: Named::new(vocabulary, Rules::default()),
            options: options.clone(),
            grouping: Grouping::new(),
        })
    }

    /// Adds an activity.
    pub fn add(&mut self, work: &Passing<'_>) {
        let (_, _, class) = self.named.says(work);
        let key = |by: KernelsBy| match by {
            KernelsBy::Class => Key::Class(class),
            KernelsBy::Stream => Key::Stream(work.device.0, work.stream.0),
            _ => Key::Name(
                work.kind,
                work.name.and_then(|(number, _)| StrId::new(number)),
            ),
        };
        let also = self.options.also.iter().map(|by| key(*by)).collect();
        let class = self.options.names_class().then_some(class);
        let at = (work.start_ns, work.end_ns);
        self.grouping.add((key(self.options.by), also), class, at);
    }

    /// Returns the groups.
    pub fn finish(self) -> Kernels {
        let texts = self.named.texts;
        let text = |key: Key| match key {
            Key::Name(_, name) => {
                let text = name.and_then(|name| texts.get(name.index()));
                text.cloned().unwrap_or_default()
            }
            Key::Class(class) => class.name().to_owned(),
            Key::Stream(device, stream) => stream_name(device, stream),
            Key::Text(_) => String::new(),
        };
        self.grouping.finish(&self.options, text)
    }
}
