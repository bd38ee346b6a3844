//! Issues of the input: every dropped, repaired or guessed item is counted here with the places of
//! its first occurrences.

use std::borrow::Cow;
use std::fmt;

/// Number of places kept per issue.
pub const DEFAULT_PLACES: usize = 100;

/// Place in the input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Place {
    /// Byte offset in the uncompressed input.
    Byte(u64),
    /// Row of a table, counted from 1.
    Row(u64),
    /// Time of the event, where the byte offset is no longer known.
    At(i64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
            Self::At(n) => write!(f, "ts {n}"),
        }
    }
}

/// Severity of an issue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Severity {
    /// Information; nothing was lost.
    Info,
    /// Events were lost before or during recording or reading.
    DataLoss,
    /// The input breaks a rule of its format, or an event could not be kept as it was.
    Error,
}

impl Severity {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::DataLoss => "data_loss",
            Self::Error => "error",
        }
    }
}

macro_rules! issues {
    ($($(#[$doc:meta])* $variant:ident $name:literal $severity:ident $text:literal;)*) => {
        /// Kinds of issues that readers and the store count.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum IssueKind {
            $($(#[$doc])* $variant,)*
        }

        impl IssueKind {
            /// Returns the stable machine name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the severity.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Returns the meaning as text.
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

issues! {
    /// The file ends inside a packet.
    TruncatedTail "truncated_tail" DataLoss "the file ends inside a packet";
    /// The JSON document has no end.
    TruncatedJson "truncated_json" DataLoss "the JSON document ends early; all complete events were kept";
    /// The compressed stream is damaged; what was decoded before is kept.
    DamagedCompression "damaged_compression" DataLoss "the compressed stream is damaged; what could be decoded was kept";
    /// Bytes after the end of the document.
    TrailingBytes "trailing_bytes" Info "there are bytes after the end of the document";
    /// A second JSON document after the first.
    SecondDocument "second_json_document" DataLoss "a second JSON document follows the first and is not read; split the file";
    /// Text that is not UTF-8 was repaired.
    InvalidUtf8 "invalid_utf8" Error "invalid UTF-8 was replaced by U+FFFD";
    /// A surrogate escape without its partner was replaced.
    LoneSurrogate "lone_surrogate" Error "a lone surrogate escape was replaced by U+FFFD";
    /// UTF-16 input was transcoded.
    Utf16Transcoded "utf16_transcoded" Info "the input was UTF-16 and was transcoded";
    /// A JSON event with a syntax error was skipped.
    JsonEventSkipped "json_event_skipped" Error "an event with a syntax error was skipped";
    /// An event without a phase.
    JsonNoPhase "json_no_phase" Error "an event has no phase (`ph`)";
    /// An event of a phase that is counted but has no place in the model.
    JsonPhaseIgnored "json_phase_ignored" Info "events of a phase without meaning here were ignored";
    /// An event without a usable timestamp.
    JsonNoTimestamp "json_no_timestamp" Error "an event has no valid `ts`";
    /// A complete event without a duration.
    JsonNoDuration "json_no_duration" Error "a complete event has no valid `dur`";
    /// A complete event with a negative duration.
    NegativeDuration "slice_negative_duration" Error "an event has a negative duration";
    /// An async event without an id.
    JsonNoId "json_no_id" Error "an async or flow event has no id";
    /// A counter value that is not a number.
    JsonBadCounter "json_bad_counter" Error "a counter value is not a number";
    /// An event with an otherwise unusable field.
    JsonBadField "json_bad_field" Error "a field has a value of the wrong type";
    /// A timestamp with more than three decimals was rounded.
    RoundedTimestamp "rounded_timestamp" Info "times with more than three decimals were rounded to nanoseconds";
    /// An event refers to a stack frame that the table of the file does not have, or whose callers it does not have.
    UnknownStackFrame "stack_frame_unknown" Error "stacks of events refer to frames that are not in the file (`stackFrames`), or are too many to keep whole";
    /// `systemTraceEvents` were skipped.
    SystemTraceSkipped "system_trace_skipped" Info "systemTraceEvents were skipped";
    /// An event before time zero was dropped.
    NegativeTimestamp "trace_sorter_negative_timestamp_dropped" Error "an event before time zero was dropped";
    /// An event at a time, or of a duration, that no recording can have.
    FarTime "time_out_of_range" Error "events more than 73 years from the origin of their clock, or longer than 104 days, were dropped";
    /// A slice partially overlaps another one of its track and went to an overflow track.
    Overlap "slice_spill_overlapping_complete_event" Error "slices partially overlap another of their track and are on overflow tracks";
    /// A slice partially overlaps another one and was dropped.
    OverlapDropped "slice_drop_overlapping_complete_event" Error "slices partially overlap another of their track and were dropped";
    /// A slice overlapped another one of its track by no more than the snap tolerance.
    Snapped "slice_snapped" Info "slices overlap another of their host thread by no more than the precision of its clocks: they count as inside or after it";
    /// Nesting is deeper than the limit.
    TooDeep "slice_max_depth_exceeded" Error "slices nested deeper than 512 were dropped";
    /// An end without a begin.
    EndWithoutBegin "slice_end_without_begin" Info "ends without a matching begin were ignored";
    /// An enclosing slice ended before an inner one was closed.
    MisplacedEnd "misplaced_end_event" DataLoss "unclosed slices were cut at the end of the slice around them";
    /// A slice that was never closed.
    NeverClosed "slice_never_closed" Info "slices were still open when the recording ended";
    /// A flow event where no slice was ever opened.
    FlowNoSlice "flow_no_enclosing_slice" Error "flow events have no slice to bind to";
    /// A second start of the same flow.
    FlowDuplicate "flow_duplicate_id" Error "a flow was started twice; the first start counts";
    /// A step of a flow that was not started.
    FlowStepWithoutStart "flow_step_without_start" Info "steps of flows that never started were ignored";
    /// An end of a flow that was not started.
    FlowEndWithoutStart "flow_end_without_start" Info "ends of flows without a start were ignored (runtime calls that launched nothing write these)";
    /// Argument lists with too many distinct shapes were stored as one text.
    ArgShapesExhausted "arg_shapes_exhausted" Info "argument lists of too many shapes are stored as one JSON text";
    /// Categories beyond the dictionary's size.
    CategoriesExhausted "categories_exhausted" Error "more than 65,534 categories; the rest have none";
    /// The producer lost packets of a sequence.
    PacketLoss "traced_packet_loss" DataLoss "the producer lost packets";
    /// Packets that need state which was lost.
    NeedsState "packet_skipped_seq_needs_incremental_state_invalid" DataLoss "packets were skipped because the state they need was lost";
    /// Interned entries that came while the state was invalid.
    InternedWhileInvalid "interned_data_while_state_invalid" DataLoss "interned entries came while the state of their sequence was invalid";
    /// A reference to an interned entry that does not exist.
    UnknownInterned "interned_id_unknown" Error "references to interned entries that do not exist";
    /// No relation between a clock and the trace clock.
    ClockSync "clock_sync_failure" Error "packets were dropped because their clock cannot be converted";
    /// A clock snapshot that breaks the rules.
    BadClockSnapshot "clock_snapshot_rejected" Error "clock snapshots that contradict earlier ones were ignored";
    /// A TrackEvent without the fields it needs.
    BadTrackEvent "track_event_malformed" Error "track events without the fields they need were dropped";
    /// A track whose ancestors cannot be resolved.
    BadTrack "track_unresolvable" Error "events on tracks with a broken chain of parents were dropped";
    /// A descriptor that contradicts an earlier one.
    TrackConflict "track_descriptor_conflict" Error "track descriptors that contradict earlier ones were ignored";
    /// A counter event on a track that is not a counter.
    CounterTrack "track_event_counter_invalid_track_uuid" Error "counter events on tracks that are no counters were dropped";
    /// A packet or field that does not decode.
    BadPacket "packet_malformed" Error "packets that do not decode were dropped";
    /// Compressed packets that do not decode or exceed the limits.
    BadCompressedPacket "compressed_packet_malformed" DataLoss "compressed packets that do not decode were dropped";
    /// Packets of kinds that have no place in the model.
    PacketIgnored "packet_kind_ignored" Info "packets of kinds without meaning here were skipped";
    /// A row of a table whose start or end is no integer, or no possible time.
    BadValue "bad_value" Info "rows of tables whose start or end is no integer, or no possible time, were left out";
    /// Two paths from a kernel to its launch disagree.
    LinkConflict "launch_link_conflict" Info "correlation id and flow arrow of a kernel name different launches";
}

/// A kind of issue with its count and first places.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// Kind.
    pub kind: IssueKind,
    /// Number of occurrences.
    pub count: u64,
    /// First places, at most the limit of the [`Diagnostics`].
    pub places: Vec<Place>,
    /// A detail of the first occurrence, for example the offending phase or clock.
    pub detail: Option<Cow<'static, str>>,
}

/// All issues of one input, ordered by kind. Nothing is logged; the caller decides what to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostics {
    issues: Vec<Issue>,
    places_kept: usize,
}

impl Default for Diagnostics {
    fn default() -> Self {
        Self {
            issues: Vec::new(),
            places_kept: DEFAULT_PLACES,
        }
    }
}

impl Diagnostics {
    /// Creates diagnostics that keep the first `places` places of each kind.
    pub fn with_places(places: usize) -> Self {
        Self {
            issues: Vec::new(),
            places_kept: places,
        }
    }

    /// Creates empty diagnostics that keep as many places.
    pub(crate) fn fresh(&self) -> Self {
        Self::with_places(self.places_kept)
    }

    fn entry(&mut self, kind: IssueKind) -> &mut Issue {
        let at = match self.issues.binary_search_by_key(&kind, |i| i.kind) {
            Ok(at) => at,
            Err(at) => {
                self.issues.insert(
                    at,
                    Issue {
                        kind,
                        count: 0,
                        places: Vec::new(),
                        detail: None,
                    },
                );
                at
            }
        };
        &mut self.issues[at]
    }

    /// Counts one occurrence.
    pub fn count(&mut self, kind: IssueKind, place: Place) {
        self.add(kind, 1, [place]);
    }

    /// Counts `count` occurrences with the places of some of them.
    pub fn add(&mut self, kind: IssueKind, count: u64, places: impl IntoIterator<Item = Place>) {
        if count == 0 {
            return;
        }
        let kept = self.places_kept;
        let issue = self.entry(kind);
        issue.count += count;
        let free = kept.saturating_sub(issue.places.len());
        issue.places.extend(places.into_iter().take(free));
    }

    /// Counts one occurrence and keeps `detail` if it is the first of its kind.
    pub fn note(&mut self, kind: IssueKind, place: Place, detail: impl Into<Cow<'static, str>>) {
        self.count(kind, place);
        let issue = self.entry(kind);
        issue.detail.get_or_insert_with(|| detail.into());
    }

    /// Replaces the detail of a kind that has occurred.
    pub fn set_detail(&mut self, kind: IssueKind, detail: impl Into<Cow<'static, str>>) {
        if let Some(issue) = self.issues.iter_mut().find(|i| i.kind == kind) {
            issue.detail = Some(detail.into());
        }
    }

    /// Adds the issues of a later part of the same input.
    pub fn merge(&mut self, later: Self) {
        for issue in later.issues {
            self.add(issue.kind, issue.count, issue.places);
            if let Some(detail) = issue.detail {
                self.entry(issue.kind).detail.get_or_insert(detail);
            }
        }
    }

    /// Returns the number of occurrences of `kind`.
    pub fn count_of(&self, kind: IssueKind) -> u64 {
        self.issues
            .iter()
            .find(|i| i.kind == kind)
            .map_or(0, |i| i.count)
    }

    /// Returns all issues, ordered by kind.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    /// Returns `true` if no issue is worse than [`Severity::Info`].
    pub fn is_clean(&self) -> bool {
        self.issues
            .iter()
            .all(|i| i.kind.severity() == Severity::Info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_and_keeps_the_first_places() {
        let mut d = Diagnostics::with_places(2);
        for byte in [5, 9, 12] {
            d.count(IssueKind::JsonEventSkipped, Place::Byte(byte));
        }
        let mut later = Diagnostics::default();
        later.note(IssueKind::JsonEventSkipped, Place::Byte(20), "bad escape");
        d.merge(later);
        let issue = &d.issues()[0];
        assert_eq!(issue.count, 4);
        assert_eq!(issue.places, [Place::Byte(5), Place::Byte(9)]);
        assert_eq!(issue.detail.as_deref(), Some("bad escape"));
        assert!(!d.is_clean());
    }
}
