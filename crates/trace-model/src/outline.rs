//! Slices of which only the outline is kept: they took part in nesting, are counted, and can be looked at in excerpts.

use rustc_hash::FxHashMap;

use crate::builder::batch::{EventColumns, SliceData};
use crate::builder::{FinishOptions, TraceBuilder};
use crate::ids::{LaneId, SliceId, StrId, TrackId};
use crate::table::args::ArgsRef;
use crate::table::slice::CategoryId;
use crate::time::TimeRange;
use crate::trace::Trace;

/// Slices of which only the outline is kept: those that a reader added with
/// [`EventBatch::outline`](crate::EventBatch::outline), less those that were dropped.
///
/// They are none of [`Trace::slices`], but all else is as if they were: the depths of the others, the overflow tracks, the span.
#[derive(Clone, Debug, Default)]
pub struct Outlines {
    groups: Vec<OutlineGroup>,
    places: FxHashMap<(TrackId, CategoryId), usize>,
    last: Option<usize>,
    named: Vec<bool>,
    deepest: u64,
    arrows: u64,
    half_arrows: u64,
    /// In processing order, if they are kept.
    pub(crate) rows: Vec<OutlineRow>,
    /// The columns to which the rows refer.
    columns: EventColumns,
    snap_ns: i64,
}

/// Outlines of one track and category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineGroup {
    /// The track.
    pub track: TrackId,
    /// The category, as an entry of the trace's dictionary.
    pub category: CategoryId,
    /// Number of slices.
    pub slices: u64,
    /// Number of those without duration.
    pub instants: u64,
    /// First start, in ns.
    pub first_ns: i64,
    /// Last end, in ns.
    pub last_ns: i64,
}

/// A kept outline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutlineRow {
    event: u32,
    /// Number of slices that come before it.
    before: u32,
}

impl OutlineRow {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "numbers of events are below 2^32"
    )]
    pub(crate) fn new(event: usize, before: usize) -> Self {
        Self {
            event: event as u32,
            before: before as u32,
        }
    }
}

impl Outlines {
    /// Returns the number of outlines, of all tracks.
    pub fn len(&self) -> u64 {
        self.groups.iter().map(|group| group.slices).sum()
    }

    /// Returns `true` if every slice is kept.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the outlines by track and category, in order of appearance.
    pub fn groups(&self) -> &[OutlineGroup] {
        &self.groups
    }

    /// Returns `true` if an outline has this name.
    pub fn has_name(&self, name: StrId) -> bool {
        self.named.get(name.index()).is_some_and(|named| *named)
    }

    /// Returns the number of nested slices on the deepest outline, itself included; 0 without any.
    pub fn deepest(&self) -> u64 {
        self.deepest
    }

    /// Returns the number of arrows that begin or end at an outline; they are none of [`Trace::flows`].
    pub fn arrows(&self) -> u64 {
        self.arrows
    }

    /// Returns the number of those whose other end is a slice that is kept: what they say of it is lost.
    pub fn half_arrows(&self) -> u64 {
        self.half_arrows
    }

    /// Returns `true` if excerpts show them.
    pub fn are_kept(&self) -> bool {
        !self.rows.is_empty()
    }

    pub(crate) fn count(
        &mut self,
        (track, category, name): (TrackId, CategoryId, Option<StrId>),
        (ts, dur): (i64, i64),
        depth: u16,
    ) {
        let groups = &mut self.groups;
        let is_last = |at: &usize| {
            let last = groups.get(*at);
            last.is_some_and(|last| last.track == track && last.category == category)
        };
        let at = match self.last.filter(is_last) {
            Some(at) => at,
            None => *self.places.entry((track, category)).or_insert_with(|| {
                groups.push(OutlineGroup {
                    track,
                    category,
                    slices: 0,
                    instants: 0,
                    first_ns: i64::MAX,
                    last_ns: i64::MIN,
                });
                groups.len() - 1
            }),
        };
        self.last = Some(at);
        if let Some(group) = self.groups.get_mut(at) {
            group.slices += 1;
            group.instants += u64::from(dur == 0);
            group.first_ns = group.first_ns.min(ts);
            group.last_ns = group.last_ns.max(ts.saturating_add(dur));
        }
        self.deepest = self.deepest.max(u64::from(depth) + 1);
        if let Some(name) = name {
            if self.named.len() <= name.index() {
                self.named.resize(name.index() + 1, false);
            }
            if let Some(named) = self.named.get_mut(name.index()) {
                *named = true;
            }
        }
    }

    pub(crate) fn set_arrows(&mut self, (all, half): (u64, u64)) {
        (self.arrows, self.half_arrows) = (all, half);
    }

    /// Takes the columns to which kept rows refer.
    pub(crate) fn keep(&mut self, columns: &mut EventColumns, snap_ns: i64) {
        if self.rows.is_empty() {
            return;
        }
        self.columns = EventColumns {
            ts: std::mem::take(&mut columns.ts),
            tag: std::mem::take(&mut columns.tag),
            hidden: std::mem::take(&mut columns.hidden),
            hidden_long: std::mem::take(&mut columns.hidden_long),
            ..EventColumns::default()
        };
        self.snap_ns = snap_ns;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<OutlineRow>() + self.columns.hidden.capacity() * 28
    }
}

/// Takes a slice of a track: what makes the piece, begin and end.
type AddPiece<'a> = dyn FnMut(TrackId, &dyn Fn() -> Piece, (i64, i64)) + 'a;

/// A slice of an excerpt.
struct Piece {
    ts: i64,
    dur: i64,
    name: Option<StrId>,
    category: CategoryId,
}

impl Trace {
    /// Returns for each track and range a trace with one track: that one, with all its slices that touch the range, outlines
    /// included, nested as they are here, without arguments and flows. Ranges of one track do not overlap each other.
    ///
    /// Cost: one pass over the outlines that are kept, a look at each slice of the tracks, and the excerpts.
    pub fn excerpts(&self, ranges: &[(TrackId, TimeRange)]) -> Vec<Self> {
        let mut by_track: FxHashMap<TrackId, Vec<(TimeRange, usize)>> = FxHashMap::default();
        for (at, (track, range)) in ranges.iter().enumerate() {
            by_track.entry(*track).or_default().push((*range, at));
        }
        #[expect(clippy::iter_over_hash_type, reason = "each list for itself")]
        for list in by_track.values_mut() {
            list.sort_by_key(|(range, at)| (range.start, *at));
        }
        let mut found: Vec<Vec<Piece>> = Vec::new();
        found.resize_with(ranges.len(), Vec::new);
        let mut add = |track: TrackId, piece: &dyn Fn() -> Piece, (ts, end): (i64, i64)| {
            let Some(list) = by_track.get(&track) else {
                return;
            };
            let from = list.partition_point(|(range, _)| range.end.nanos() <= ts);
            let touched = list.get(from..).unwrap_or_default().iter();
            // What lies within a slice may end a little behind it.
            let end = end.saturating_add(self.outlines.snap_ns);
            for (_, at) in touched.take_while(|(range, _)| range.start.nanos() < end) {
                if let Some(pieces) = found.get_mut(*at) {
                    pieces.push(piece());
                }
            }
        };
        // Slices of the tracks and outlines, both in processing order.
        let tracks: Vec<TrackId> = {
            let mut tracks: Vec<TrackId> = ranges.iter().map(|(track, _)| *track).collect();
            tracks.sort_unstable();
            tracks.dedup();
            tracks
        };
        let mut kept: Vec<SliceId> = tracks
            .iter()
            .flat_map(|track| self.slices_on(*track).iter().copied())
            .collect();
        kept.sort_unstable();
        let mut kept = kept.into_iter().peekable();
        let columns = &self.outlines.columns;
        let add_kept = |id: SliceId, add: &mut AddPiece<'_>| {
            let slice = self.slice(id);
            let (ts, end) = (slice.ts().nanos(), slice.end().nanos());
            let piece = || Piece {
                ts,
                dur: end.saturating_sub(ts),
                name: slice.name_id(),
                category: slice.category_id(),
            };
            add(slice.track_id(), &piece, (ts, end));
        };
        for row in &self.outlines.rows {
            while let Some(id) = kept.next_if(|id| id.index() < row.before as usize) {
                add_kept(id, &mut add);
            }
            let event = row.event as usize;
            let (Some(&ts), Some(tag)) = (columns.ts.get(event), columns.tag.get(event)) else {
                continue;
            };
            let Some(hidden) = columns.hidden.get(tag.row()) else {
                continue;
            };
            let Some(track) = TrackId::new(hidden.lane.index()) else {
                continue;
            };
            let dur = columns.outlined_dur(tag.row()).unwrap_or(0);
            let piece = || Piece {
                ts,
                dur,
                name: hidden.name,
                category: hidden.category,
            };
            add(track, &piece, (ts, ts.saturating_add(dur)));
        }
        for id in kept {
            add_kept(id, &mut add);
        }
        let pieces = found.into_iter().zip(ranges);
        pieces
            .map(|(pieces, (track, _))| self.excerpt(*track, &pieces))
            .collect()
    }

    fn excerpt(&self, track: TrackId, pieces: &[Piece]) -> Self {
        let mut builder = TraceBuilder::new();
        let mut only = crate::Track::new(self.track(track).kind);
        only.name = self
            .track(track)
            .name
            .map(|name| builder.string(self.text(name)));
        let only = builder.track(only);
        let lane: LaneId = builder.lane(Some(only));
        for piece in pieces {
            let events = &mut builder.events;
            let name = piece
                .name
                .map(|name| events.strings.intern(self.text(name)));
            let category = self.category_name(piece.category);
            let category = category.map(|name| events.strings.intern(name));
            let data = SliceData {
                name,
                category: category.map_or(CategoryId::NONE, |name| events.category(name)),
                args: ArgsRef::NONE,
            };
            events.complete(lane, piece.ts, piece.dur, data);
        }
        let options = FinishOptions {
            snap_ns: self.outlines.snap_ns,
            keep_negative: true,
            ..FinishOptions::default()
        };
        // Fewer events than here.
        builder.finish(&options).unwrap_or_default()
    }
}
