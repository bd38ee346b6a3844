//! The part of Perfetto's schema that this crate reads and writes, declared by hand for [`prost`].
//!
//! Field numbers are those of `protos/perfetto/trace` in github.com/google/perfetto; the member
//! `oracle` compares all of them with the full schema. Decoders skip what is not declared here.
//! Names that come from the operating system are bytes: Linux cuts thread names after 15 bytes,
//! in the middle of a character if need be.

use prost::Message;

/// A trace: the top level is a list of packets. The reader never builds this one.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One record.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Time in the packet's clock.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Clock of `timestamp`.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    /// Writer within the trace.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// Process that wrote it.
    #[prost(int32, optional, tag = "79")]
    pub trusted_pid: Option<i32>,
    /// 1: state cleared, 2: needs state.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Older form of flag 1.
    #[prost(bool, optional, tag = "41")]
    pub incremental_state_cleared: Option<bool>,
    /// Why packets before this one were lost, as a bit mask.
    #[prost(uint32, optional, tag = "42")]
    pub previous_packet_dropped: Option<u32>,
    /// First of its sequence.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
    /// Machine that recorded it; absent for the host.
    #[prost(uint32, optional, tag = "98")]
    pub machine_id: Option<u32>,
    /// Dictionary entries for this and later packets of the sequence.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// Defaults for this and later packets of the sequence.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
    /// A process, older form.
    #[prost(message, optional, tag = "43")]
    pub process_descriptor: Option<ProcessDescriptor>,
    /// A thread, older form.
    #[prost(message, optional, tag = "44")]
    pub thread_descriptor: Option<ThreadDescriptor>,
    /// Clocks read at the same time.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// Packets as a zlib stream.
    #[prost(bytes = "vec", optional, tag = "50")]
    pub compressed_packets: Option<Vec<u8>>,
    /// Packets as a zstd frame.
    #[prost(bytes = "vec", optional, tag = "133")]
    pub zstd_compressed_packets: Option<Vec<u8>>,
    /// Processes and threads of the machine.
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    /// Identity of the trace.
    #[prost(message, optional, tag = "89")]
    pub trace_uuid: Option<TraceUuid>,
}

/// Defaults of a sequence.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// Clock of packets that name none.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    /// Defaults of track events.
    #[prost(message, optional, tag = "11")]
    pub track_event_defaults: Option<TrackEventDefaults>,
}

/// Defaults of track events.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEventDefaults {
    /// Track of events that name none.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Tracks of extra integer values.
    #[prost(uint64, repeated, packed = "false", tag = "31")]
    pub extra_counter_track_uuids: Vec<u64>,
    /// Tracks of extra real values.
    #[prost(uint64, repeated, packed = "false", tag = "45")]
    pub extra_double_counter_track_uuids: Vec<u64>,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Interned categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// Categories.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// Interned name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// Name.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// 1 begin, 2 end, 3 instant, 4 counter, 5 state.
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Integer sample.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Real sample.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    /// Tracks of extra integer samples.
    #[prost(uint64, repeated, packed = "false", tag = "31")]
    pub extra_counter_track_uuids: Vec<u64>,
    /// Extra integer samples.
    #[prost(int64, repeated, packed = "false", tag = "12")]
    pub extra_counter_values: Vec<i64>,
    /// Tracks of extra real samples.
    #[prost(uint64, repeated, packed = "false", tag = "45")]
    pub extra_double_counter_track_uuids: Vec<u64>,
    /// Extra real samples.
    #[prost(double, repeated, packed = "false", tag = "46")]
    pub extra_double_counter_values: Vec<f64>,
    /// Flows through the event.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Older form of `flow_ids`.
    #[prost(uint64, repeated, packed = "false", tag = "36")]
    pub flow_ids_old: Vec<u64>,
    /// Flows that end at the event.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
    /// Older form of `terminating_flow_ids`.
    #[prost(uint64, repeated, packed = "false", tag = "42")]
    pub terminating_flow_ids_old: Vec<u64>,
    /// Arguments.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Fields of Chrome's older format.
    #[prost(message, optional, tag = "6")]
    pub legacy_event: Option<LegacyEvent>,
    /// Microseconds since the event before.
    #[prost(int64, optional, tag = "1")]
    pub timestamp_delta_us: Option<i64>,
    /// Microseconds of the monotonic clock.
    #[prost(int64, optional, tag = "16")]
    pub timestamp_absolute_us: Option<i64>,
    /// CPU time since the event before.
    #[prost(int64, optional, tag = "2")]
    pub thread_time_delta_us: Option<i64>,
    /// CPU time.
    #[prost(int64, optional, tag = "17")]
    pub thread_time_absolute_us: Option<i64>,
    /// Instructions since the event before.
    #[prost(int64, optional, tag = "8")]
    pub thread_instruction_count_delta: Option<i64>,
    /// Instructions.
    #[prost(int64, optional, tag = "20")]
    pub thread_instruction_count_absolute: Option<i64>,
    /// Joins slices of one operation.
    #[prost(uint64, optional, tag = "52")]
    pub correlation_id: Option<u64>,
    /// The same as a text.
    #[prost(string, optional, tag = "53")]
    pub correlation_id_str: Option<String>,
    /// The same as an interned text.
    #[prost(uint64, optional, tag = "54")]
    pub correlation_id_str_iid: Option<u64>,
    /// Call stack of the event.
    #[prost(message, optional, tag = "55")]
    pub callstack: Option<Callstack>,
    /// Place in the source code.
    #[prost(message, optional, tag = "33")]
    pub source_location: Option<SourceLocation>,
    /// Interned place in the source code.
    #[prost(uint64, optional, tag = "34")]
    pub source_location_iid: Option<u64>,
}

/// `TrackEvent.LegacyEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct LegacyEvent {
    /// Interned name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Letter of the phase.
    #[prost(int32, optional, tag = "2")]
    pub phase: Option<i32>,
    /// Duration of phase X.
    #[prost(int64, optional, tag = "3")]
    pub duration_us: Option<i64>,
    /// CPU time of phase X.
    #[prost(int64, optional, tag = "4")]
    pub thread_duration_us: Option<i64>,
    /// Id valid in the trace or the process.
    #[prost(uint64, optional, tag = "6")]
    pub unscoped_id: Option<u64>,
    /// Id valid in the process.
    #[prost(uint64, optional, tag = "10")]
    pub local_id: Option<u64>,
    /// Id valid in the trace.
    #[prost(uint64, optional, tag = "11")]
    pub global_id: Option<u64>,
    /// Scope of the id.
    #[prost(string, optional, tag = "7")]
    pub id_scope: Option<String>,
    /// Flow of a slice.
    #[prost(uint64, optional, tag = "8")]
    pub bind_id: Option<u64>,
    /// Bind to the enclosing slice instead of the next.
    #[prost(bool, optional, tag = "12")]
    pub bind_to_enclosing: Option<bool>,
    /// 1 in, 2 out, 3 both.
    #[prost(int32, optional, tag = "13")]
    pub flow_direction: Option<i32>,
    /// 1 global, 2 process, 3 thread.
    #[prost(int32, optional, tag = "14")]
    pub instant_event_scope: Option<i32>,
    /// Process, if not the writer's.
    #[prost(int32, optional, tag = "18")]
    pub pid_override: Option<i32>,
    /// Thread, if not the writer's.
    #[prost(int32, optional, tag = "19")]
    pub tid_override: Option<i32>,
}

/// A call stack written out.
#[derive(Clone, PartialEq, Message)]
pub struct Callstack {
    /// Outermost first.
    #[prost(message, repeated, tag = "1")]
    pub frames: Vec<Frame>,
}

/// A frame of [`Callstack`].
#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    /// Function.
    #[prost(string, optional, tag = "1")]
    pub function_name: Option<String>,
    /// File.
    #[prost(string, optional, tag = "2")]
    pub source_file: Option<String>,
    /// Line.
    #[prost(uint32, optional, tag = "3")]
    pub line_number: Option<u32>,
}

/// A place in the source code, interned or not.
#[derive(Clone, PartialEq, Message)]
pub struct SourceLocation {
    /// Id of the entry.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// File.
    #[prost(string, optional, tag = "2")]
    pub file_name: Option<String>,
    /// Function.
    #[prost(string, optional, tag = "3")]
    pub function_name: Option<String>,
    /// Line.
    #[prost(uint32, optional, tag = "4")]
    pub line_number: Option<u32>,
}

/// An argument, or a part of one.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Interned name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// Truth value.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// Unsigned integer.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Signed integer.
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    /// Binary64.
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    /// Text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// Interned text.
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
    /// Address.
    #[prost(uint64, optional, tag = "7")]
    pub pointer_value: Option<u64>,
    /// Older form of nested values.
    #[prost(message, optional, tag = "8")]
    pub nested_value: Option<NestedValue>,
    /// JSON text.
    #[prost(string, optional, tag = "9")]
    pub legacy_json_value: Option<String>,
    /// Members of an object.
    #[prost(message, repeated, tag = "11")]
    pub dict_entries: Vec<DebugAnnotation>,
    /// Elements of an array.
    #[prost(message, repeated, tag = "12")]
    pub array_values: Vec<DebugAnnotation>,
    /// A message of another schema.
    #[prost(bytes = "vec", optional, tag = "14")]
    pub proto_value: Option<Vec<u8>>,
}

/// `DebugAnnotation.NestedValue`.
#[derive(Clone, PartialEq, Message)]
pub struct NestedValue {
    /// 0 leaf, 1 object, 2 array.
    #[prost(int32, optional, tag = "1")]
    pub nested_type: Option<i32>,
    /// Keys of an object.
    #[prost(string, repeated, tag = "2")]
    pub dict_keys: Vec<String>,
    /// Values of an object.
    #[prost(message, repeated, tag = "3")]
    pub dict_values: Vec<NestedValue>,
    /// Elements of an array.
    #[prost(message, repeated, tag = "4")]
    pub array_values: Vec<NestedValue>,
    /// Signed integer.
    #[prost(int64, optional, tag = "5")]
    pub int_value: Option<i64>,
    /// Binary64.
    #[prost(double, optional, tag = "6")]
    pub double_value: Option<f64>,
    /// Truth value.
    #[prost(bool, optional, tag = "7")]
    pub bool_value: Option<bool>,
    /// Text.
    #[prost(string, optional, tag = "8")]
    pub string_value: Option<String>,
}

/// Dictionary entries.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Categories.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedName>,
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedName>,
    /// Names of annotations.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedName>,
    /// Places in the source code.
    #[prost(message, repeated, tag = "4")]
    pub source_locations: Vec<SourceLocation>,
    /// Texts of annotations.
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedName>,
}

/// `EventCategory`, `EventName`, `DebugAnnotationName` and `InternedString`: all the same on the wire.
#[derive(Clone, PartialEq, Message)]
pub struct InternedName {
    /// Id of the entry.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The text.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub name: Option<Vec<u8>>,
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Identity.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Uuid of the parent track.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// Name.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub name: Option<Vec<u8>>,
    /// Name that is a constant of the program.
    #[prost(bytes = "vec", optional, tag = "10")]
    pub static_name: Option<Vec<u8>>,
    /// Name from Android's older tracing.
    #[prost(bytes = "vec", optional, tag = "13")]
    pub atrace_name: Option<Vec<u8>>,
    /// The process, if the track is one.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The thread, if the track is one.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The counter, if the track is one.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// Keeps it apart from the thread's own track.
    #[prost(bool, optional, tag = "9")]
    pub disallow_merging_with_system_tracks: Option<bool>,
    /// Order of its children.
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Place among its siblings.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    /// 0, 1: by name, 2: none, 3: by key.
    #[prost(int32, optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
    /// Key to merge by.
    #[prost(string, optional, tag = "16")]
    pub sibling_merge_key: Option<String>,
    /// Key to merge by.
    #[prost(uint64, optional, tag = "17")]
    pub sibling_merge_key_int: Option<u64>,
    /// Marks a track of states; as far as is known, an empty message.
    #[prost(bytes = "vec", optional, tag = "18")]
    pub state: Option<Vec<u8>>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Arguments of the program.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub cmdline: Vec<Vec<u8>>,
    /// Position in older viewers.
    #[prost(int32, optional, tag = "3")]
    pub legacy_sort_index: Option<i32>,
    /// Name.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub process_name: Option<Vec<u8>>,
    /// Labels.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub process_labels: Vec<Vec<u8>>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Number of the process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Number.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// Position in older viewers.
    #[prost(int32, optional, tag = "3")]
    pub legacy_sort_index: Option<i32>,
    /// Name.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub thread_name: Option<Vec<u8>>,
    /// Base of `timestamp_delta_us`.
    #[prost(int64, optional, tag = "6")]
    pub reference_timestamp_us: Option<i64>,
    /// Base of `thread_time_delta_us`.
    #[prost(int64, optional, tag = "7")]
    pub reference_thread_time_us: Option<i64>,
    /// Base of `thread_instruction_count_delta`.
    #[prost(int64, optional, tag = "8")]
    pub reference_thread_instruction_count: Option<i64>,
}

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// 1: CPU time of the thread, 2: its instructions.
    #[prost(int32, optional, tag = "1")]
    pub r#type: Option<i32>,
    /// 1: ns, 2: count, 3: bytes.
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
    /// Any other unit.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub unit_name: Option<Vec<u8>>,
    /// Factor of all samples.
    #[prost(int64, optional, tag = "4")]
    pub unit_multiplier: Option<i64>,
    /// Samples are differences.
    #[prost(bool, optional, tag = "5")]
    pub is_incremental: Option<bool>,
}

/// Clocks read at the same time.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    /// The clocks.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// The clock of the trace.
    #[prost(int32, optional, tag = "2")]
    pub primary_trace_clock: Option<i32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    /// Id of the clock.
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// Reading of the clock.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
    /// Its timestamps are differences.
    #[prost(bool, optional, tag = "3")]
    pub is_incremental: Option<bool>,
    /// Its unit.
    #[prost(uint64, optional, tag = "4")]
    pub unit_multiplier_ns: Option<u64>,
}

/// Processes and threads of a machine.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    /// Processes.
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<TreeProcess>,
    /// Threads.
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<TreeThread>,
}

/// `ProcessTree.Process`.
#[derive(Clone, PartialEq, Message)]
pub struct TreeProcess {
    /// Number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Arguments of the program.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub cmdline: Vec<Vec<u8>>,
}

/// `ProcessTree.Thread`.
#[derive(Clone, PartialEq, Message)]
pub struct TreeThread {
    /// Number.
    #[prost(int32, optional, tag = "1")]
    pub tid: Option<i32>,
    /// Number of the process.
    #[prost(int32, optional, tag = "3")]
    pub tgid: Option<i32>,
    /// Name.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub name: Option<Vec<u8>>,
}

/// Identity of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct TraceUuid {
    /// Upper half.
    #[prost(int64, optional, tag = "1")]
    pub msb: Option<i64>,
    /// Lower half.
    #[prost(int64, optional, tag = "2")]
    pub lsb: Option<i64>,
}
