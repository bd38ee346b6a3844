//! Cuts overlapping slices of devices so that they no longer overlap.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::part::Span;
use super::places::Device;
use crate::items::Kept;

/// A track of a device: partition, process, device.
pub(super) type Track = (usize, i64, Device);

/// A slice that may still be cut.
#[derive(Debug, Clone)]
pub(super) struct Waiting<'a> {
    pub(super) record: Kept<'a>,
    pub(super) span: Span,
}

/// Slices of devices by track, kept until time has passed their ends: before that the next one of
/// the track may cut them.
///
/// Two that overlap are both cut in the middle of their intersection. A slice that encloses another
/// one therefore loses the part after it.
#[derive(Debug, Default)]
pub(super) struct Cutter<'a> {
    /// Slices by end, then by order of arrival.
    slices: BTreeMap<Place, (Track, Waiting<'a>)>,
    /// The last slice of each track.
    last: FxHashMap<Track, Place>,
    order: u64,
}

/// Key of a waiting slice: its end and its order of arrival.
type Place = (i64, u64);

impl<'a> Cutter<'a> {
    /// Adds the next slice of a track.
    pub(super) fn add(&mut self, track: Track, mut next: Waiting<'a>) {
        let last = self.last.get(&track);
        let last = last.and_then(|place| self.slices.remove(place));
        if let Some((_, mut last)) = last {
            let from = last.span.start.max(next.span.start);
            let to = last.span.end.min(next.span.end);
            if last.span.end > next.span.start && to <= from {
                // Nothing is left of it next to the one before, which begins where it was cut.
                next.span.clipped |= to < from;
                next.span.start = from;
                next.span.end = from;
                self.keep(track, next);
                self.keep(track, last);
                return;
            }
            if from < to {
                let middle = from + (to - from) / 2;
                last.span.end = middle;
                last.span.clipped = true;
                next.span.start = middle;
                next.span.clipped = true;
            }
            self.keep(track, last);
        }
        self.keep(track, next);
    }

    /// Stores a slice as the last one of its track.
    fn keep(&mut self, track: Track, slice: Waiting<'a>) {
        self.order += 1;
        let place = (slice.span.end, self.order);
        self.slices.insert(place, (track, slice));
        self.last.insert(track, place);
    }

    /// Ends a part of the trace at a time: returns the parts of slices before it, and keeps the
    /// parts after it. Later slices begin there or later, so they cut nothing before it, and parts
    /// are cut as the whole would be.
    pub(super) fn until(&mut self, at: i64) -> Vec<Waiting<'a>> {
        let begun = self
            .slices
            .iter()
            .filter(|(_, (_, slice))| slice.span.start < at);
        let places: Vec<Place> = begun.map(|(place, _)| *place).collect();
        let mut pieces = Vec::with_capacity(places.len());
        for place in places {
            if place.0 <= at {
                let done = self.slices.remove(&place);
                pieces.extend(done.map(|(track, slice)| {
                    self.forget(&track, place);
                    slice
                }));
            } else if let Some((_, slice)) = self.slices.get_mut(&place) {
                let mut piece = slice.clone();
                piece.span.end = at;
                piece.span.clipped = true;
                pieces.push(piece);
                slice.span.start = at;
                slice.span.clipped = true;
                slice.span.first = false;
            }
        }
        pieces
    }

    /// Removes a slice as the last one of its track.
    fn forget(&mut self, track: &Track, place: Place) {
        if self.last.get(track) == Some(&place) {
            self.last.remove(track);
        }
    }

    /// Returns a slice that ends at or before a time, so that no later slice can overlap with it.
    pub(super) fn ended(&mut self, now: i64) -> Option<Waiting<'a>> {
        let first = self.slices.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let (place, (track, slice)) = first.remove_entry();
        self.forget(&track, place);
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts spans of one track; with `parts` also at the end of each part, with the pieces joined
    /// again.
    fn cut_in(spans: &[(i64, i64)], parts: &[i64]) -> Vec<(i64, i64, bool)> {
        let folder = tempfile::tempdir().unwrap();
        rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small()).unwrap();
        let options = rocpd_db::OpenOptions::default();
        let set = rocpd_db::RocpdSet::open(&[folder.path()], &options).unwrap();
        let filter = rocpd_db::Filter::default();
        let order = rocpd_db::Order::Stored;
        let mut scan = set.scan::<rocpd_db::Dispatch<'_>>(&filter, order).unwrap();
        let record = scan.next().unwrap().unwrap();
        let track = (0, 0, Device::Stream(0));
        let mut cutter = Cutter::default();
        let mut done = Vec::new();
        let mut parts = parts.iter().copied().peekable();
        let mut pieces = Vec::new();
        for &(start, end) in spans {
            while let Some(at) = parts.next_if(|at| *at <= start) {
                while let Some(slice) = cutter.ended(at - 1) {
                    done.push(slice.span);
                }
                for piece in cutter.until(at) {
                    assert!(piece.span.start < at && piece.span.end <= at);
                    match piece.span.end == at && piece.span.clipped {
                        true => pieces.push(piece.span),
                        false => done.push(piece.span),
                    }
                }
            }
            while let Some(slice) = cutter.ended(start) {
                done.push(slice.span);
            }
            let span = Span {
                start,
                end,
                clipped: false,
                first: true,
            };
            let record = Kept::Dispatch(record.clone());
            cutter.add(track, Waiting { record, span });
        }
        while let Some(slice) = cutter.ended(i64::MAX) {
            done.push(slice.span);
        }
        // A piece cut at the end of a part continues with the piece that begins there.
        while let Some(piece) = pieces.pop() {
            let rest = done
                .iter_mut()
                .find(|rest| rest.start == piece.end && !rest.first);
            match rest {
                Some(rest) => {
                    rest.start = piece.start;
                    rest.first = piece.first;
                }
                None => done.push(piece),
            }
        }
        assert_eq!(done.len(), spans.len());
        let mut done: Vec<_> = done.iter().map(|s| (s.start, s.end, s.clipped)).collect();
        done.sort_unstable();
        done
    }

    fn cut(spans: &[(i64, i64)]) -> Vec<(i64, i64, bool)> {
        cut_in(spans, &[])
    }

    #[test]
    fn parts_are_cut_as_the_whole() {
        let mut state = 1_u64;
        let mut number = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            i64::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..40 {
            let mut spans: Vec<(i64, i64)> = (0..12)
                .map(|_| {
                    let start = number(200);
                    (start, start + number(60))
                })
                .collect();
            spans.sort_by_key(|(start, end)| (*start, -end));
            let shown = |cut: Vec<(i64, i64, bool)>| -> Vec<(i64, i64)> {
                cut.into_iter()
                    .map(|(start, end, _)| (start, end))
                    .collect()
            };
            let whole = shown(cut(&spans));
            let part = 7 + number(90);
            let parts: Vec<i64> = (1..40).map(|number| number * part).collect();
            assert_eq!(shown(cut_in(&spans, &parts)), whole, "{spans:?} by {part}");
        }
    }

    #[test]
    fn overlaps_end_in_their_middle() {
        let (cut_off, whole) = (true, false);
        assert_eq!(cut(&[(0, 10), (10, 20)]), [(0, 10, whole), (10, 20, whole)]);
        assert_eq!(
            cut(&[(0, 100), (60, 160)]),
            [(0, 80, cut_off), (80, 160, cut_off)]
        );
        // From left to right: the second is cut twice.
        assert_eq!(
            cut(&[(0, 100), (60, 160), (150, 200), (300, 301)]),
            [
                (0, 80, cut_off),
                (80, 155, cut_off),
                (155, 200, cut_off),
                (300, 301, whole)
            ]
        );
        // One within another one, and three at once: no end lies before its begin.
        assert_eq!(
            cut(&[(0, 100), (10, 20)]),
            [(0, 15, cut_off), (15, 20, cut_off)]
        );
        assert_eq!(
            cut(&[(0, 100), (1, 101), (2, 10)]),
            [(0, 50, cut_off), (50, 50, cut_off), (50, 101, cut_off)]
        );
        for (start, end, _) in cut(&[(0, 9), (0, 9), (0, 9), (3, 3), (4, 5), (4, 30)]) {
            assert!(start <= end);
        }
    }
}
