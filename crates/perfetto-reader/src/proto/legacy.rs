//! Reads legacy events: phases of Chrome's older format inside track events.

use trace_model::{Arg, ArgsRef, FlowPoint, FlowRole, FlowSpace, IssueKind, LaneId, Place, StrId};

use crate::proto::annotation::{ArgIssues, ArgReader};
use crate::proto::emit::{Action, Resolved};
use crate::proto::event::{EventType, LegacyEvent};
use crate::proto::import::Importer;
use crate::proto::sequence::Location;
use crate::proto::tracks::{Base, LaneKey, Owner, Tracks};
use crate::proto::wire::{Cursor, Span, Value, low32};

impl Importer<'_> {
    /// Resolves an event with a legacy part. `None` if it produces no event.
    pub(super) fn legacy_event(
        &mut self,
        at: usize,
        legacy: &LegacyEvent,
        base: Base,
        (bytes, name, category): (&[u8], Option<StrId>, Option<StrId>),
    ) -> Option<(Action, LaneId)> {
        let action = match legacy.phase {
            0 => match self.event.scalars.kind {
                EventType::SliceBegin => Action::Begin,
                EventType::SliceEnd => Action::End,
                EventType::Instant => Action::Instant,
                EventType::State => Action::State,
                _ => {
                    self.note(IssueKind::BadTrackEvent, "a track event of an unknown type");
                    return None;
                }
            },
            b'B' | b'b' | b'S' => Action::Begin,
            b'E' | b'e' | b'F' => Action::End,
            b'i' | b'I' | b'R' | b'n' | b'T' | b'p' => Action::Instant,
            b'X' => {
                let dur = legacy.duration_us.saturating_mul(1000);
                if dur < 0 {
                    self.count(IssueKind::NegativeDuration);
                    return None;
                }
                Action::Complete(dur)
            }
            b's' | b't' | b'f' => {
                let Some(id) = legacy.unscoped_id else {
                    self.note(IssueKind::BadTrackEvent, "a flow event without id");
                    return None;
                };
                let role = match (legacy.phase, legacy.bind_to_enclosing) {
                    (b's', _) => FlowRole::Start,
                    (b't', _) => FlowRole::Step,
                    (_, true) => FlowRole::End,
                    (_, false) => FlowRole::EndAtNext,
                };
                Action::Flow(FlowPoint {
                    id,
                    category,
                    name,
                    space: FlowSpace::Chrome,
                    role,
                })
            }
            b'M' => {
                let base = self.base_now(at, base)?;
                self.metadata_event(base, bytes, name);
                return None;
            }
            phase => {
                let detail = format!("legacy phase {}", char::from(phase));
                self.builder.diagnostics.note(
                    IssueKind::PacketIgnored,
                    Place::Byte(self.at),
                    detail,
                );
                return None;
            }
        };
        let key = self.legacy_lane(legacy, bytes, base, name, category)?;
        let lane = self.tracks.lane(&mut self.builder, key);
        Some((action, lane))
    }

    /// Returns the lane of a legacy event; its phase may imply another track than the event's.
    fn legacy_lane(
        &mut self,
        legacy: &LegacyEvent,
        bytes: &[u8],
        base: Base,
        name: Option<StrId>,
        category: Option<StrId>,
    ) -> Option<LaneKey> {
        match legacy.phase {
            b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F' => {
                let ids = (legacy.unscoped_id.or(legacy.global_id), legacy.local_id);
                let (id, local) = match ids {
                    (Some(id), _) => (id, None),
                    (None, Some(id)) => (id, Some(base)),
                    (None, None) => {
                        self.note(IssueKind::BadTrackEvent, "an async event without id");
                        return None;
                    }
                };
                let scope = match legacy.id_scope {
                    Some(scope) => {
                        let events = &mut self.builder.events;
                        let category = category.map_or("", |c| events.strings.get(c));
                        let scope = String::from_utf8_lossy(scope.bytes(bytes));
                        let joined = format!("{category}:{scope}");
                        Some(events.strings.intern(&joined))
                    }
                    None if matches!(legacy.phase, b'b' | b'e' | b'n') => category,
                    None => name,
                };
                Some(LaneKey::Async { id, scope, local })
            }
            b'i' | b'I' if legacy.instant_scope == 1 => Some(LaneKey::GlobalInstant),
            b'i' | b'I' if legacy.instant_scope == 2 => Some(LaneKey::ProcessInstant(base)),
            // The reference rejects these phases on other tracks.
            b'B' | b'E' | b'i' | b'I' if self.options.compat => Some(LaneKey::Legacy {
                base,
                of_thread: true,
                unshared: false,
            }),
            b'X' | b's' | b't' | b'f' if self.options.compat => Some(LaneKey::Legacy {
                base,
                of_thread: legacy.phase == b'X',
                unshared: true,
            }),
            _ => Some(LaneKey::On(base)),
        }
    }

    /// Applies the names of threads and processes.
    fn metadata_event(&mut self, base: Base, bytes: &[u8], name: Option<StrId>) {
        let text = self.event.annotations.first().and_then(|span| {
            let mut fields = Cursor::new(span.bytes(bytes));
            let mut text = None;
            while let Ok(Some(field)) = fields.field() {
                if let (6, Value::Bytes(b)) = field {
                    text = Some(b);
                }
            }
            text.filter(|t| !t.is_empty())
        });
        let what = name.map_or("", |n| self.builder.events.strings.get(n));
        let (is_thread, is_process) = (what == "thread_name", what == "process_name");
        let (Some(text), true) = (text, is_thread || is_process) else {
            self.note(IssueKind::PacketIgnored, "a metadata event of another kind");
            return;
        };
        let text = self.intern_text(text);
        let owner = self.tracks.owner_of(base).ok().flatten();
        match owner {
            Some(Owner::Thread(thread)) if is_thread && self.tracks.keeps_name(thread) => {}
            Some(Owner::Thread(thread)) if is_thread => {
                self.builder.threads_mut()[thread.index()].name = Some(text);
            }
            Some(owner) if is_process => {
                if let Some(process) = Tracks::process_of(&mut self.builder, owner) {
                    let slot = &mut self.builder.processes_mut()[process.index()].name;
                    slot.get_or_insert(text);
                }
            }
            _ => self.note(IssueKind::BadTrackEvent, "a name without thread or process"),
        }
    }

    /// Reads the arguments of the event that was decoded last.
    #[inline]
    pub(super) fn event_args(
        &mut self,
        at: usize,
        bytes: &[u8],
        annotations: &[Span],
        (event, legacy, is_simple): (&Resolved, &LegacyEvent, bool),
    ) -> ArgsRef {
        let without = matches!(event.action, Action::Flow(_) | Action::Counters);
        if self.arg_filter.keeps_none() || without {
            return ArgsRef::NONE;
        }
        self.args.clear();
        if !is_simple {
            self.typed_args(at, bytes);
        }
        if !annotations.is_empty() {
            let mut reader = ArgReader {
                strings: &mut self.builder.events.strings,
                interned: &self.sequences[at].interned,
                filter: &self.arg_filter,
                list: &mut self.args,
                key: &mut self.key,
                key_bytes: &mut self.key_bytes,
                names: &mut self.inline_names,
                max_depth: self.options.max_depth,
                issues: ArgIssues::default(),
                compat: self.options.compat,
            };
            for span in annotations {
                reader.annotation(span.bytes(bytes));
            }
            let issues = reader.issues;
            if issues != ArgIssues::default() {
                self.arg_issues(issues);
            }
        }
        if self.options.compat {
            self.compat_args(at, event.base, legacy);
            self.keep_last_args();
        }
        if self.args.is_empty() {
            return ArgsRef::NONE;
        }
        self.builder.events.args(&self.args)
    }

    #[cold]
    fn arg_issues(&mut self, issues: ArgIssues) {
        self.repaired(issues.repaired);
        for _ in 0..issues.unknown {
            self.note(IssueKind::UnknownInterned, "a name or text of an argument");
        }
        for _ in 0..issues.dropped {
            self.note(
                IssueKind::BadTrackEvent,
                "an argument that does not decode, has no name or is nested too deep",
            );
        }
    }

    /// Reads arguments that have dedicated fields.
    fn typed_args(&mut self, at: usize, bytes: &[u8]) {
        let one = self.event.rare;
        if let Some(id) = one.correlation_id {
            let key = self.builder.string("correlation_id");
            let arg = if self.options.compat {
                let text = self.builder.string(&format!("tp:#{id}"));
                Arg::text(key, text)
            } else {
                Arg::uint(key, id)
            };
            self.typed_arg("correlation_id", arg);
        }
        let text = match (one.correlation_text, one.correlation_iid) {
            (Some(span), None) => Some(self.intern_text(span.bytes(bytes))),
            (_, Some(iid)) => {
                let text = self.sequences[at].interned.correlations.get(iid);
                if text.is_none() {
                    self.note(IssueKind::UnknownInterned, "a correlation id");
                }
                text
            }
            (None, None) => None,
        };
        if let Some(text) = text {
            let key = self.builder.string("correlation_id");
            self.typed_arg("correlation_id", Arg::text(key, text));
        }
        let location = match (one.source_location, one.source_location_iid) {
            (Some(span), _) => Some(self.inline_location(span.bytes(bytes))),
            (None, Some(iid)) => {
                let location = self.sequences[at].interned.locations.get(iid);
                if location.is_none() {
                    self.note(IssueKind::UnknownInterned, "a source location");
                }
                location
            }
            (None, None) => None,
        };
        if let Some(location) = location {
            // An inline location is shown as its message, an interned one as its values.
            let prefix = match one.source_location {
                Some(_) if self.options.compat => "source_location",
                _ => "source",
            };
            self.location_args(prefix, location);
        }
        if let (Some(iid), true) = (one.source_location_iid, self.options.compat) {
            let key = self.builder.string("source_location_iid");
            self.typed_arg("source_location_iid", Arg::uint(key, iid));
        }
        if let Some(span) = one.task_execution {
            let mut fields = Cursor::new(span.bytes(bytes));
            while let Ok(Some(field)) = fields.field() {
                let (1, Value::Varint(iid)) = field else {
                    continue;
                };
                match self.sequences[at].interned.locations.get(iid) {
                    Some(location) => self.location_args("task.posted_from", location),
                    None => self.note(IssueKind::UnknownInterned, "a source location"),
                }
            }
        }
        if let Some(span) = one.callstack
            && !self.options.compat
        {
            let frames = callstack_json(span.bytes(bytes));
            let key = self.builder.string("callstack");
            let text = self.builder.string(&frames);
            self.typed_arg("callstack", Arg::json(key, text));
        }
    }

    fn location_args(&mut self, prefix: &str, location: Location) {
        for (name, text) in [
            ("file_name", location.file),
            ("function_name", location.function),
        ] {
            if let Some(mut text) = text {
                let path = self.builder.events.strings.get(text);
                if self.options.compat && name == "file_name" && path.contains('\\') {
                    let path = path.replace('\\', "/");
                    text = self.builder.string(&path);
                }
                let name = format!("{prefix}.{name}");
                let key = self.builder.string(&name);
                self.typed_arg(&name, Arg::text(key, text));
            }
        }
        let name = format!("{prefix}.line_number");
        let key = self.builder.string(&name);
        self.typed_arg(&name, Arg::uint(key, location.line.into()));
    }

    fn typed_arg(&mut self, bare: &str, arg: Arg) {
        if self.arg_filter.wants(bare) {
            self.args.push(arg);
        }
    }

    fn inline_location(&mut self, bytes: &[u8]) -> Location {
        let mut location = Location::default();
        let mut fields = Cursor::new(bytes);
        while let Ok(Some(field)) = fields.field() {
            match field {
                (2, Value::Bytes(b)) => location.file = Some(self.intern_text(b)),
                (3, Value::Bytes(b)) => location.function = Some(self.intern_text(b)),
                (4, Value::Varint(n)) => location.line = low32(n),
                _ => {}
            }
        }
        location
    }

    /// Keeps the last of several arguments with one key, at the position of the first.
    fn keep_last_args(&mut self) {
        let mut at = 1;
        while let Some(&arg) = self.args.get(at) {
            match self.args.iter().take(at).position(|a| a.key == arg.key) {
                Some(first) => {
                    self.args.remove(at);
                    if let Some(slot) = self.args.get_mut(first) {
                        *slot = arg;
                    }
                }
                None => at += 1,
            }
        }
    }

    /// Adds the arguments that Perfetto's importer adds for its own export to JSON.
    fn compat_args(&mut self, at: usize, base: Base, legacy: &LegacyEvent) {
        if is_async(legacy) {
            let id = legacy.unscoped_id.or(legacy.global_id).or(legacy.local_id);
            let key = self.builder.string("legacy_trace_source_id");
            self.args.push(Arg::int(key, id.unwrap_or(0).cast_signed()));
        }
        if let Some(thread) = self.passthrough_thread(at, base, legacy) {
            let key = self.builder.string("legacy_event.passthrough_utid");
            // Row 0 of the reference's thread table is the idle thread.
            self.args.push(Arg::uint(key, thread + 1));
        }
        if let b'R' | b'S' | b'T' | b'p' = legacy.phase {
            let key = self.builder.string("legacy_event.phase");
            let phase = self.builder.string(&char::from(legacy.phase).to_string());
            self.args.push(Arg::text(key, phase));
        }
    }

    /// Returns the thread of an event that is shown elsewhere: its own, or the one that the
    /// sequence described.
    fn passthrough_thread(&mut self, at: usize, base: Base, legacy: &LegacyEvent) -> Option<u64> {
        let base = self.base_now(at, base)?;
        if is_async(legacy) || is_wide_instant(legacy) {
            return match self.tracks.owner_of(base) {
                Ok(Some(Owner::Thread(thread))) => Some(thread.index() as u64),
                _ => None,
            };
        }
        let Base::Uuid(uuid) = base else { return None };
        if uuid == 0 {
            return None;
        }
        let (pid, tid) = self.sequences[at].thread?;
        let machine = self.sequences[at].machine;
        let owner = self.tracks.owner_of(base).ok()?;
        if let Some(Owner::Thread(_)) = owner {
            return None;
        }
        let thread = self.tracks.thread(&mut self.builder, machine, pid, tid);
        let process = self.builder.threads_mut()[thread.index()].process;
        match owner {
            Some(Owner::Process(owner)) if Some(owner) != process => None,
            _ => Some(thread.index() as u64),
        }
    }
}

fn is_async(legacy: &LegacyEvent) -> bool {
    matches!(legacy.phase, b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F')
}

/// Returns `true` for an instant of a process or of the whole trace.
fn is_wide_instant(legacy: &LegacyEvent) -> bool {
    matches!(legacy.phase, b'i' | b'I') && matches!(legacy.instant_scope, 1 | 2)
}

/// Returns the frames as a JSON list of texts, outermost first.
fn callstack_json(bytes: &[u8]) -> String {
    let mut frames = Vec::new();
    let mut fields = Cursor::new(bytes);
    while let Ok(Some(field)) = fields.field() {
        let (1, Value::Bytes(frame)) = field else {
            continue;
        };
        let (mut function, mut file, mut line) = (String::new(), String::new(), 0);
        let mut fields = Cursor::new(frame);
        while let Ok(Some(field)) = fields.field() {
            match field {
                (1, Value::Bytes(b)) => function = String::from_utf8_lossy(b).into_owned(),
                (2, Value::Bytes(b)) => file = String::from_utf8_lossy(b).into_owned(),
                (3, Value::Varint(n)) => line = low32(n),
                _ => {}
            }
        }
        frames.push(match (file.is_empty(), line) {
            (true, _) => function,
            (false, 0) => format!("{function} ({file})"),
            (false, line) => format!("{function} ({file}:{line})"),
        });
    }
    serde_json::Value::from(frames).to_string()
}
