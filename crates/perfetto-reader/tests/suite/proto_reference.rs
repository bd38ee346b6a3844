//! Tests corner cases of Perfetto's importer, derived from its rules, in `compat` mode.

use byte_source::Source;
use perfetto_reader::{ReadOptions, proto};
use trace_model::{ArgValue, Trace};

/// A message under construction.
#[derive(Clone, Default)]
struct Msg(Vec<u8>);

impl Msg {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
            n >>= 7;
        }
        self.0.push(u8::try_from(n).unwrap());
    }

    /// Adds an integer field.
    fn int(mut self, field: u64, n: u64) -> Self {
        self.varint(field << 3);
        self.varint(n);
        self
    }

    /// Adds a text, bytes or message field.
    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn msg(self, field: u64, inner: Self) -> Self {
        self.bytes(field, &inner.0)
    }
}

fn m() -> Msg {
    Msg::default()
}

/// A file of packets, all of sequence 1, whose state the first one clears.
#[derive(Default)]
struct File(Vec<u8>);

impl File {
    fn packet(mut self, packet: Msg) -> Self {
        let first = self.0.is_empty();
        let packet = packet.int(10, 1).int(13, if first { 1 } else { 2 });
        self.0.extend(m().msg(1, packet).0);
        self
    }

    fn track(self, descriptor: Msg) -> Self {
        self.packet(m().msg(60, descriptor))
    }

    fn process(self, uuid: u64, pid: u64) -> Self {
        self.track(m().int(1, uuid).msg(3, m().int(1, pid)))
    }

    fn thread(self, uuid: u64, pid: u64, tid: u64, name: &str) -> Self {
        let thread = m().int(1, pid).int(2, tid).text(5, name);
        self.track(m().int(1, uuid).msg(4, thread))
    }

    fn event(self, ts: u64, event: Msg) -> Self {
        self.packet(m().int(8, ts).msg(11, event))
    }

    fn begin(self, ts: u64, uuid: u64, name: &str) -> Self {
        self.event(ts, m().int(9, 1).int(11, uuid).text(23, name))
    }

    fn end(self, ts: u64, uuid: u64) -> Self {
        self.event(ts, m().int(9, 2).int(11, uuid))
    }

    fn instant(self, ts: u64, uuid: u64, name: &str) -> Self {
        self.event(ts, m().int(9, 3).int(11, uuid).text(23, name))
    }

    /// Adds a legacy event of `phase` on the thread that the sequence described.
    fn legacy(self, ts: u64, phase: u8, name: &str, more: impl FnOnce(Msg) -> Msg) -> Self {
        let legacy = more(m().int(2, phase.into()));
        self.event(ts, m().text(23, name).msg(6, legacy))
    }

    fn read(&self, compat: bool) -> Trace {
        let source = Source::from_bytes("test.pftrace", self.0.clone()).unwrap();
        let mut options = ReadOptions::default();
        options.compat = compat;
        proto::read(source, &options).unwrap()
    }
}

/// Returns name, track type and name, depth and duration of every slice.
fn slices(trace: &Trace) -> Vec<String> {
    trace
        .slices()
        .map(|s| {
            let track = s.track();
            format!(
                "{} {} {} {} {}",
                s.name().unwrap_or("-"),
                track.kind.type_name(),
                track.name.map_or("-", |n| trace.text(n)),
                s.depth(),
                s.dur().map_or(-1, |d| d.get()),
            )
        })
        .collect()
}

/// Returns the arguments of slice `at` in the order of their keys.
fn args(trace: &Trace, at: usize) -> Vec<String> {
    let slice = trace.slices().nth(at).unwrap();
    let mut all: Vec<String> = slice
        .args()
        .map(|(key, value)| match value {
            ArgValue::Int(n) => format!("{key}=int {n}"),
            ArgValue::UInt(n) => format!("{key}=uint {n}"),
            ArgValue::Str(s) => format!("{key}=string {s}"),
            other => format!("{key}={other:?}"),
        })
        .collect();
    all.sort();
    all
}

#[test]
fn tracks_of_one_merge_key_are_drawn_on_the_lanes_of_whoever_came_first() {
    let keyed = |uuid, name| {
        m().int(1, uuid)
            .int(5, 1)
            .text(2, name)
            .int(15, 3)
            .text(16, "key")
    };
    let file = File::default()
        .process(1, 10)
        .track(keyed(2, "first"))
        .track(keyed(3, "second"))
        .begin(100, 3, "a")
        .begin(110, 2, "b")
        .end(120, 3)
        .end(130, 2)
        .begin(140, 2, "c")
        .end(150, 2);
    let merged = "process_merged_track_event";
    assert_eq!(
        slices(&file.read(true)),
        [
            format!("a {merged} second 0 20"),
            format!("b {merged} first 0 20"),
            format!("c {merged} first 0 10"),
        ]
    );
    // A lane without an open slice is taken over, with its name.
    let file = File::default()
        .process(1, 10)
        .track(keyed(2, "first"))
        .track(keyed(3, "second"))
        .begin(100, 3, "a")
        .end(120, 3)
        .begin(140, 2, "c")
        .end(150, 2);
    assert_eq!(
        slices(&file.read(true)),
        [
            format!("a {merged} second 0 20"),
            format!("c {merged} second 0 10"),
        ]
    );
    assert_eq!(
        slices(&file.read(false))[1],
        format!("c {merged} first 0 10")
    );
}

#[test]
fn instants_of_one_time_nest_on_a_shared_lane() {
    let file = File::default()
        .track(m().int(1, 2).text(2, "x"))
        .track(m().int(1, 3).text(2, "x"))
        .instant(100, 2, "a")
        .instant(100, 3, "b");
    assert_eq!(
        slices(&file.read(true)),
        [
            "a global_merged_track_event x 0 0",
            "b global_merged_track_event x 1 0"
        ]
    );
    assert_eq!(
        slices(&file.read(false))[1],
        "b global_merged_track_event x 0 0"
    );
}

#[test]
fn tracks_without_name_are_named_by_their_first_event_even_if_it_has_none() {
    let file = File::default()
        .track(m().int(1, 2))
        .track(m().int(1, 3))
        .end(90, 2)
        .instant(100, 2, "a")
        .instant(100, 3, "b");
    assert_eq!(
        slices(&file.read(true)),
        [
            "a global_merged_track_event - 0 0",
            "b global_merged_track_event b 0 0"
        ]
    );
}

#[test]
fn steps_of_older_async_events_free_their_lane() {
    let id = |id: u64| move |legacy: Msg| legacy.int(6, id);
    let file = File::default()
        .thread(1, 10, 11, "main")
        .legacy(100, b'S', "op", id(7))
        .legacy(110, b'T', "op", id(7))
        .legacy(120, b'S', "op", id(8))
        .legacy(130, b'F', "op", id(7))
        .legacy(140, b'F', "op", id(8));
    let trace = file.read(true);
    let kind = "legacy_async_global_slice op";
    assert_eq!(
        slices(&trace),
        [
            format!("op {kind} 0 -1"),
            format!("op {kind} 1 0"),
            format!("op {kind} 1 20")
        ]
    );
    assert_eq!(
        args(&trace, 0),
        [
            "legacy_event.passthrough_utid=uint 1",
            "legacy_event.phase=string S",
            "legacy_trace_source_id=int 7"
        ]
    );
    assert_eq!(slices(&file.read(false))[0], format!("op {kind} 0 30"));
}

#[test]
fn phases_of_threads_are_refused_on_other_tracks() {
    let legacy = |phase: u64, uuid| m().int(11, uuid).text(23, "x").msg(6, m().int(2, phase));
    let file = File::default()
        .process(1, 10)
        .track(m().int(1, 2).int(5, 1).text(2, "child"))
        .event(100, legacy(u64::from(b'B'), 2))
        .event(110, legacy(u64::from(b'i'), 2))
        .event(120, legacy(u64::from(b'X'), 2))
        .event(130, legacy(u64::from(b'R'), 2));
    assert_eq!(
        slices(&file.read(true)),
        ["x process_merged_track_event child 0 0"]
    );
    assert_eq!(file.read(false).slices().count(), 4);
}

#[test]
fn states_are_no_slices_of_the_reference() {
    let state = |name| m().int(9, 5).int(11, 2).text(23, name);
    let file = File::default()
        .track(m().int(1, 2).text(2, "phase").bytes(18, &[]))
        .event(100, state("warm up"))
        .event(200, state("run"));
    assert_eq!(file.read(true).slices().count(), 0);
    assert_eq!(
        slices(&file.read(false)),
        [
            "warm up global_merged_track_event phase 0 100",
            "run global_merged_track_event phase 0 -1"
        ]
    );
}

#[test]
fn names_of_descriptors_outrank_those_of_metadata_events() {
    let named = |legacy: Msg| legacy;
    let annotation = m().text(10, "name").text(6, "late");
    let metadata = m()
        .text(23, "thread_name")
        .msg(6, m().int(2, u64::from(b'M')))
        .msg(4, annotation);
    let file = File::default()
        .thread(1, 10, 11, "early")
        .event(100, metadata)
        .legacy(100, b'I', "i", named);
    let name = |compat| {
        let trace = file.read(compat);
        let thread = trace.threads().iter().find(|t| t.tid.0 == 11).unwrap();
        trace.text(thread.name.unwrap()).to_owned()
    };
    assert_eq!((name(true), name(false)), ("early".into(), "late".into()));
}

#[test]
fn a_contradicting_descriptor_still_names_its_thread() {
    let file = File::default()
        .thread(1, 10, 11, "a")
        .thread(1, 10, 12, "b")
        .instant(100, 1, "i");
    let names = |compat| -> Vec<(i64, Option<String>)> {
        let trace = file.read(compat);
        let text = |id| trace.text(id).to_owned();
        trace
            .threads()
            .iter()
            .map(|t| (t.tid.0, t.name.map(text)))
            .collect()
    };
    let named = |tid, name: &str| (tid, Some(name.to_owned()));
    assert_eq!(names(true), [named(11, "a"), (10, None), named(12, "b")]);
    assert_eq!(names(false), [named(11, "a")]);
}

#[test]
fn arguments_in_corner_cases() {
    let int = |name, n| m().text(10, name).int(4, n);
    let location = m().int(1, 4).text(2, "a\\b.cc").text(3, "f").int(4, 12);
    let json = r#"{"a.b": [null, [], 5], "big": 18446744073709551615}"#;
    let event = m()
        .int(9, 3)
        .int(11, 9)
        .text(23, "i")
        .msg(4, int("twice", 1))
        .msg(4, int("twice", 2))
        .msg(4, m().text(10, "j").text(9, json))
        .msg(4, m().text(10, "broken").text(9, "{"))
        .msg(
            4,
            m().text(10, "p")
                .text(16, "no.such.Type")
                .bytes(14, &[8, 1]),
        )
        .int(34, 4)
        .msg(5, m().int(1, 4))
        .int(52, 6)
        .int(54, 2);
    let inline = m()
        .int(9, 3)
        .int(11, 9)
        .msg(33, m().text(2, "c.cc").text(3, "g").int(4, 3));
    let interned = m().msg(4, location).msg(43, m().int(1, 2).text(2, "corr"));
    let file = File::default()
        .packet(m().msg(12, interned))
        .event(100, event)
        .event(200, inline);
    let trace = file.read(true);
    assert_eq!(
        args(&trace, 0),
        [
            "correlation_id=string corr",
            "debug.j.a.b[1]=int 5",
            "debug.j.big=Real(-1.0)",
            "debug.twice=int 2",
            "source.file_name=string a/b.cc",
            "source.function_name=string f",
            "source.line_number=uint 12",
            "source_location_iid=uint 4",
            "task.posted_from.file_name=string a/b.cc",
            "task.posted_from.function_name=string f",
            "task.posted_from.line_number=uint 12",
        ]
    );
    assert_eq!(
        args(&trace, 1),
        [
            "source_location.file_name=string c.cc",
            "source_location.function_name=string g",
            "source_location.line_number=uint 3",
        ]
    );
    let default = args(&file.read(false), 0);
    for kept in [
        "debug.twice=int 1",
        "debug.broken=string {",
        "debug.p=string 0801",
    ] {
        assert!(default.iter().any(|a| a == kept), "{kept} in {default:?}");
    }
}

#[test]
fn cpu_time_is_a_counter_of_the_thread_and_belongs_to_its_slices_only() {
    let time = |kind, uuid, us| m().int(9, kind).int(11, uuid).text(23, "s").int(17, us);
    let file = File::default()
        .process(1, 10)
        .thread(2, 10, 11, "t")
        .event(100, time(1, 1, 5))
        .event(200, time(1, 2, 5))
        .event(300, time(2, 2, 5))
        .event(400, time(1, 2, 6))
        .event(500, time(2, 2, 8));
    let trace = file.read(true);
    let of: Vec<_> = trace.slices().map(|s| s.thread_time()).collect();
    assert_eq!(of, [None, Some((5000, None)), Some((6000, Some(2000)))]);
    let kinds: Vec<_> = trace
        .counters()
        .iter()
        .map(|c| (trace.track(c.track).kind.type_name(), c.value))
        .collect();
    let expected = [5000.0, 5000.0, 6000.0, 8000.0].map(|time| ("thread_time", time));
    assert_eq!(kinds, expected);
}
