//! From rows to records.

use crate::error::Result;
use crate::records::context::text_of;
use crate::records::types::{
    AllocLevel, AllocType, Allocation, Arg, Copy, Dispatch, PmcEvent, Region, Sample,
};
use crate::records::{Context, WIDTH, sealed};
use crate::value::{BadSlot, Fields};

/// Unwraps a value of a row, or returns its slot.
macro_rules! good {
    ($value:expr) => {
        match $value {
            Ok(value) => value,
            Err(slot) => return Ok(Err(slot)),
        }
    };
}

/// Gives the row up when the filter does not want it.
macro_rules! wanted {
    ($condition:expr) => {
        if !$condition {
            return Ok(Ok(None));
        }
    };
}

/// The value of an option, or gives the row up.
macro_rules! known {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(Ok(None)),
        }
    };
}

/// What to show of a message and a name.
fn shown<'t>(message: Option<&'t str>, name: Option<&'t str>) -> Option<&'t str> {
    message.filter(|message| !message.is_empty()).or(name)
}

const fn columns<const N: usize>(names: [&'static str; N]) -> [&'static str; WIDTH] {
    let mut out = [""; WIDTH];
    let mut at = 0;
    while at < N {
        out[at] = names[at];
        at += 1;
    }
    out
}

impl<'a> sealed::Read<'a> for Dispatch<'a> {
    const TABLE: &'static str = "rocpd_kernel_dispatch";
    const COLUMNS: [&'static str; WIDTH] = columns([
        "nid",
        "pid",
        "tid",
        "agent_id",
        "kernel_id",
        "dispatch_id",
        "queue_id",
        "stream_id",
        "start",
        "end",
        "private_segment_size",
        "group_segment_size",
        "workgroup_size_x",
        "workgroup_size_y",
        "workgroup_size_z",
        "grid_size_x",
        "grid_size_y",
        "grid_size_z",
        "region_name_id",
        "event_id",
        "graph_exec_id",
        "graph_node_id",
        "replay_pass",
        "track_id",
    ]);
    const TIMES: Option<(usize, usize)> = Some((8, 9));

    #[inline]
    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let start = good!(row.need(8));
        let end = good!(row.need(9));
        let (start_ns, end_ns) = known!(context.filter.keep(start, end));
        let track = context.track(good!(row.int(23)));
        let queue_id = good!(row.int(6)).or(track.and_then(|t| t.queue_id));
        let queue = context.queue(queue_id);
        // The view joins the process of the queue.
        let of_queue = queue.map(|queue| queue.process_id);
        let owner = known!(good!(context.owner_or(row, 23, of_queue)));
        let kernel_id = good!(row.int(4));
        let symbol = kernel_id.and_then(|id| context.names.symbols.get(id));
        wanted!(
            context.filter.name.is_none()
                || context
                    .filter
                    .accepts_name(symbol.and_then(|s| s.display_name.as_deref()))
        );
        let agent = context.agent(good!(row.int(3)).or(track.and_then(|t| t.agent_id)));
        let stream_id = good!(row.int(7)).or(track.and_then(|t| t.stream_id));
        wanted!(
            context
                .filter
                .accepts_place(agent.and_then(|a| a.absolute_index), stream_id)
        );
        let event = context.event(good!(row.int(19)))?;
        wanted!(
            !context.filter.has_category_condition()
                || context
                    .filter
                    .accepts_category(event.as_ref().and_then(|e| e.category))
        );
        let region = context.string(good!(row.int(18)));
        let complete = agent.is_some()
            && event.is_some()
            && region.is_some()
            && symbol.is_some()
            && context.names_process(of_queue)
            && owner.thread.is_some();
        Ok(Ok(Some(Self {
            complete,
            process: owner.process,
            id: rowid,
            nid: owner.nid,
            thread: owner.thread,
            agent,
            symbol,
            kernel_id,
            dispatch_id: good!(row.int(5)),
            queue_id,
            queue,
            stream_id,
            stream: context.stream(stream_id),
            start_ns,
            end_ns,
            scratch_bytes: good!(row.int(10)),
            lds_bytes: good!(row.int(11)),
            workgroup: [good!(row.int(12)), good!(row.int(13)), good!(row.int(14))],
            grid: [good!(row.int(15)), good!(row.int(16)), good!(row.int(17))],
            region,
            event,
            graph_exec_id: good!(row.int(20)),
            graph_node_id: good!(row.int(21)),
            replay_pass: good!(row.int(22)),
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (self.start_ns, self.end_ns, self.id)
    }
}

impl Dispatch<'_> {
    /// Nanoseconds from begin to end.
    #[must_use]
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether the view `kernels` has it: nothing that the view joins is missing.
    #[must_use]
    pub fn in_view(&self) -> bool {
        self.complete
    }
}

impl<'a> sealed::Read<'a> for Copy<'a> {
    const TABLE: &'static str = "rocpd_memory_copy";
    const COLUMNS: [&'static str; WIDTH] = columns([
        "nid",
        "pid",
        "tid",
        "start",
        "end",
        "name_id",
        "dst_agent_id",
        "dst_address",
        "src_agent_id",
        "src_address",
        "size",
        "queue_id",
        "stream_id",
        "region_name_id",
        "event_id",
        "graph_exec_id",
        "graph_node_id",
        "track_id",
    ]);
    const TIMES: Option<(usize, usize)> = Some((3, 4));

    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let start = good!(row.need(3));
        let end = good!(row.need(4));
        let (start_ns, end_ns) = known!(context.filter.keep(start, end));
        let owner = known!(good!(context.owner(row, 17)));
        let track = owner.track;
        let name = context.string(good!(row.int(5)));
        wanted!(context.filter.accepts_name(name));
        let dst_agent = context.agent(good!(row.int(6)));
        let stream_id = good!(row.int(12)).or(track.and_then(|t| t.stream_id));
        let queue_id = good!(row.int(11)).or(track.and_then(|t| t.queue_id));
        wanted!(
            context
                .filter
                .accepts_place(dst_agent.and_then(|a| a.absolute_index), stream_id)
        );
        let event = context.event(good!(row.int(14)))?;
        wanted!(
            context
                .filter
                .accepts_category(event.as_ref().and_then(|e| e.category))
        );
        let src_agent = context.agent(good!(row.int(8)));
        let complete = name.is_some()
            && dst_agent.is_some()
            && src_agent.is_some()
            && event.is_some()
            && owner.named
            && owner.thread.is_some();
        Ok(Ok(Some(Self {
            complete,
            process: owner.process,
            id: rowid,
            nid: owner.nid,
            thread: owner.thread,
            start_ns,
            end_ns,
            name,
            dst_agent,
            dst_address: good!(row.int(7)),
            src_agent,
            src_address: good!(row.int(9)),
            size_bytes: good!(row.int(10)).unwrap_or(0),
            queue_id,
            queue: context.queue(queue_id),
            stream_id,
            stream: context.stream(stream_id),
            region: context.string(good!(row.int(13))),
            event,
            graph_exec_id: good!(row.int(15)),
            graph_node_id: good!(row.int(16)),
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (self.start_ns, self.end_ns, self.id)
    }
}

impl Copy<'_> {
    /// Nanoseconds from begin to end.
    #[must_use]
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether the view `memory_copies` has it: nothing that the view joins is missing.
    #[must_use]
    pub fn in_view(&self) -> bool {
        self.complete
    }
}

impl<'a> sealed::Read<'a> for Allocation<'a> {
    const TABLE: &'static str = "rocpd_memory_allocate";
    const COLUMNS: [&'static str; WIDTH] = columns([
        "nid",
        "pid",
        "tid",
        "agent_id",
        "type",
        "level",
        "start",
        "end",
        "address",
        "size",
        "queue_id",
        "stream_id",
        "event_id",
        "extdata",
        "track_id",
    ]);
    const TIMES: Option<(usize, usize)> = Some((6, 7));

    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let start = good!(row.need(6));
        let end = good!(row.need(7));
        let (start_ns, end_ns) = known!(context.filter.keep(start, end));
        let owner = known!(good!(context.owner(row, 14)));
        let track = owner.track;
        let agent = context.agent(good!(row.int(3)).or(track.and_then(|t| t.agent_id)));
        let stream_id = good!(row.int(11)).or(track.and_then(|t| t.stream_id));
        let queue_id = good!(row.int(10)).or(track.and_then(|t| t.queue_id));
        wanted!(
            context
                .filter
                .accepts_place(agent.and_then(|a| a.absolute_index), stream_id)
        );
        let event = context.event(good!(row.int(12)))?;
        wanted!(
            context
                .filter
                .accepts_category(event.as_ref().and_then(|e| e.category))
        );
        let kind = match row.bytes(4) {
            b"ALLOC" => AllocType::Alloc,
            b"FREE" => AllocType::Free,
            b"REALLOC" => AllocType::Realloc,
            b"RECLAIM" => AllocType::Reclaim,
            _ => AllocType::Unknown,
        };
        wanted!(context.filter.accepts_name(Some(kind.text())));
        let level = match row.bytes(5) {
            b"REAL" => AllocLevel::Real,
            b"VIRTUAL" => AllocLevel::Virtual,
            b"SCRATCH" => AllocLevel::Scratch,
            _ => AllocLevel::Unknown,
        };
        Ok(Ok(Some(Self {
            complete: event.is_some() && owner.named && owner.thread.is_some(),
            process: owner.process,
            id: rowid,
            nid: owner.nid,
            thread: owner.thread,
            agent,
            kind,
            level,
            start_ns,
            end_ns,
            address: good!(row.int(8)),
            size_bytes: good!(row.int(9)).unwrap_or(0),
            queue_id,
            queue: context.queue(queue_id),
            stream_id,
            stream: context.stream(stream_id),
            flags: flags_of(row.bytes(13)),
            event,
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (self.start_ns, self.end_ns, self.id)
    }
}

/// The member `flags` of a JSON object, as the text that SQL shows.
fn flags_of(extdata: &[u8]) -> Option<Box<str>> {
    if extdata.len() < 9 {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(extdata).ok()?;
    text_of(value.get("flags")?)
}

impl Allocation<'_> {
    /// Nanoseconds from begin to end.
    #[must_use]
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether the view `memory_allocations` has it: nothing that the view joins is missing.
    #[must_use]
    pub fn in_view(&self) -> bool {
        self.complete
    }
}

impl<'a> sealed::Read<'a> for Region<'a> {
    const TABLE: &'static str = "rocpd_region";
    const COLUMNS: [&'static str; WIDTH] = columns([
        "nid", "pid", "tid", "start", "end", "name_id", "event_id", "track_id",
    ]);
    const TIMES: Option<(usize, usize)> = Some((3, 4));

    #[inline]
    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let start = good!(row.need(3));
        let end = good!(row.need(4));
        let (start_ns, end_ns) = known!(context.filter.keep(start, end));
        let owner = known!(good!(context.owner(row, 7)));
        let name = context.string(good!(row.int(5)));
        let event = context.event(good!(row.int(6)))?;
        wanted!(
            !context.filter.has_category_condition()
                || context
                    .filter
                    .accepts_category(event.as_ref().and_then(|e| e.category))
        );
        let (message, texts) = context.texts(event.as_ref())?;
        wanted!(
            context.filter.name.is_none()
                || context.filter.accepts_name(shown(message.as_deref(), name))
        );
        Ok(Ok(Some(Self {
            complete: event.is_some() && name.is_some() && owner.named && owner.thread.is_some(),
            process: owner.process,
            id: rowid,
            nid: owner.nid,
            thread: owner.thread,
            start_ns,
            end_ns,
            name,
            event,
            message,
            texts,
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (self.start_ns, self.end_ns, self.id)
    }
}

impl Region<'_> {
    /// Nanoseconds from begin to end.
    #[must_use]
    pub fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its message if it has one that says something, else its name.
    #[must_use]
    pub fn shown_name(&self) -> Option<&str> {
        shown(self.message.as_deref(), self.name)
    }

    /// Category of its event.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        self.event.as_ref().and_then(|event| event.category)
    }

    /// Whether the view `regions`, or `sample_regions` for what was a sample, has it: nothing that it joins is missing.
    #[must_use]
    pub fn in_view(&self) -> bool {
        self.complete
    }
}

impl<'a> sealed::Read<'a> for Sample<'a> {
    const TABLE: &'static str = "rocpd_sample";
    const COLUMNS: [&'static str; WIDTH] =
        columns(["track_id", "timestamp", "event_id", "name_id"]);
    const TIMES: Option<(usize, usize)> = Some((1, 1));

    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let timestamp_ns = good!(row.need(1));
        let _ = known!(match &context.filter.window {
            Some(window) => window.keep(timestamp_ns, timestamp_ns),
            None => Some((0, 0)),
        });
        let track = context.track(good!(row.int(0)));
        let process_id = track.and_then(|t| t.process_id);
        let process = known!(context.process(process_id));
        wanted!(context.filter.accepts_process(process));
        // Generation 4 names each sample.
        let own_name = good!(row.int(3));
        let name = context.string(own_name.or(track.and_then(|t| t.name_id)));
        let event = context.event(good!(row.int(2)))?;
        wanted!(
            context
                .filter
                .accepts_category(event.as_ref().and_then(|e| e.category))
        );
        let (message, texts) = context.texts(event.as_ref())?;
        wanted!(context.filter.accepts_name(shown(message.as_deref(), name)));
        let thread = context.thread(track.and_then(|t| t.thread_id));
        Ok(Ok(Some(Self {
            complete: event.is_some() && context.names_process(process_id) && thread.is_some(),
            process,
            id: rowid,
            nid: track.and_then(|t| t.nid),
            thread,
            timestamp_ns,
            name,
            event,
            message,
            texts,
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (self.timestamp_ns, self.timestamp_ns, self.id)
    }
}

impl<'a> Sample<'a> {
    /// Category of its event.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        self.event.as_ref().and_then(|event| event.category)
    }

    /// Whether the view `samples` has it: nothing that the view joins is missing.
    #[must_use]
    pub fn in_view(&self) -> bool {
        self.complete
    }

    /// The same as a region without duration, as the view `sample_regions` has it.
    #[must_use]
    pub fn as_region(&self) -> Region<'a> {
        Region {
            complete: self.complete,
            process: self.process,
            id: self.id,
            nid: self.nid,
            thread: self.thread,
            start_ns: self.timestamp_ns,
            end_ns: self.timestamp_ns,
            name: self.name,
            event: self.event,
            message: self.message.clone(),
            texts: self.texts.clone(),
        }
    }
}

impl<'a> sealed::Read<'a> for PmcEvent<'a> {
    const TABLE: &'static str = "rocpd_pmc_event";
    const COLUMNS: [&'static str; WIDTH] = columns(["event_id", "pmc_id", "value", "sample_id"]);
    const TIMES: Option<(usize, usize)> = None;

    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        let pmc_id = good!(row.need(1));
        Ok(Ok(Some(Self {
            partition: context.number,
            id: rowid,
            event_id: good!(row.int(0)),
            pmc: context.names.pmcs.get(pmc_id),
            pmc_id,
            value: good!(row.real(2)),
            sample_id: good!(row.int(3)),
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (0, 0, self.id)
    }
}

impl<'a> sealed::Read<'a> for Arg {
    const TABLE: &'static str = "rocpd_arg";
    const COLUMNS: [&'static str; WIDTH] =
        columns(["event_id", "position", "type", "name", "value"]);
    const TIMES: Option<(usize, usize)> = None;

    fn read(
        context: &mut Context<'a>,
        rowid: i64,
        row: Fields<'_, '_>,
    ) -> Result<std::result::Result<Option<Self>, BadSlot>> {
        Ok(Ok(Some(Self {
            partition: context.number,
            id: rowid,
            event_id: good!(row.need(0)),
            position: good!(row.int(1)).unwrap_or(0),
            kind: row.text(2).unwrap_or_default(),
            name: row.text(3).unwrap_or_default(),
            value: row.text(4),
        })))
    }

    fn times(&self) -> (i64, i64, i64) {
        (0, 0, self.id)
    }
}
