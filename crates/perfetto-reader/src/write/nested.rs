//! Writes slices with a known parent: each goes to a lane where exactly its ancestors enclose it.

use std::io::{self, Write};

use trace_model::ArgValue;

use crate::write::annotations::encode_args;
use crate::write::dictionary::{Dictionary, Table};
use crate::write::encode::Encoder;
use crate::write::spec::WriterTrack;
use crate::write::stream::{Open, TraceWriter};

impl<W: Write> TraceWriter<W> {
    /// Writes a slice with a known position in the nesting: `order` identifies it from now on,
    /// `parent` is the order of the enclosing slice. Slices come by ascending time, parents first.
    ///
    /// If begins and ends cannot express the position (a slice that outlives its parent), the slice
    /// goes to a sibling track, where it has no parent.
    pub(super) fn nested_slice<'a>(
        &mut self,
        track: WriterTrack,
        (ts, end): (i64, Option<i64>),
        order: u64,
        parent: Option<u64>,
        is_leaf: bool,
        encode: impl FnOnce(&mut SliceEncoder<'_, 'a>),
    ) -> io::Result<()> {
        self.write_ends_before(ts)?;
        let lane = self.nested_lane(track, ts, end, parent)?;
        // An instant directly after another one at the same time would nest in it when read.
        let is_instant = is_leaf && end == Some(ts) && self.lanes[lane].instant != Some(ts);
        self.begin_event(if is_instant { 3 } else { 1 }, lane);
        let mut encoder = SliceEncoder {
            event: &mut self.event,
            dictionary: &mut self.dictionary,
            lifetime: std::marker::PhantomData,
        };
        encode(&mut encoder);
        self.write_event_packet(ts)?;
        self.lanes[lane].instant = is_instant.then_some(ts);
        if is_instant {
            return Ok(());
        }
        if is_leaf && end == Some(ts) {
            return self.write_event(2, lane, ts, None);
        }
        self.push(lane, end, order, is_leaf);
        Ok(())
    }

    /// Returns the lane on which a slice is enclosed by `parent`, else one where nothing encloses
    /// it.
    fn nested_lane(
        &mut self,
        track: WriterTrack,
        ts: i64,
        end: Option<i64>,
        parent: Option<u64>,
    ) -> io::Result<usize> {
        let lanes = self.tracks[track.0 as usize].lanes.clone();
        let home = lanes.iter().copied().find(|&lane| match parent {
            Some(parent) => self.lanes[lane].stack.iter().any(|o| o.order == parent),
            None => lanes.first() == Some(&lane),
        });
        if let Some(lane) = home {
            while let Some(&open) = self.lanes[lane].stack.last()
                && Some(open.order) != parent
                && open.end.is_some_and(|e| e <= ts)
            {
                self.pop(lane);
                self.lanes[lane].instant = None;
                self.write_event(2, lane, open.end.unwrap_or(ts), None)?;
            }
            let fits = match (self.lanes[lane].stack.last(), parent) {
                (None, None) => true,
                (Some(top), Some(parent)) if top.order == parent => match (top.end, end) {
                    (None, _) => true,
                    (Some(outer), Some(end)) => end <= outer,
                    (Some(_), None) => false,
                },
                _ => false,
            };
            if fits {
                return Ok(lane);
            }
        }
        for lane in lanes {
            let over = |open: &Open| open.is_leaf && open.end.is_some_and(|e| e <= ts);
            if self.lanes[lane].stack.iter().all(over) {
                self.close_until(lane, ts)?;
                return Ok(lane);
            }
        }
        self.new_lane(track)
    }
}

/// Adds the data of a slice to the event under construction.
pub(super) struct SliceEncoder<'w, 'a> {
    pub(super) event: &'w mut Encoder,
    pub(super) dictionary: &'w mut Dictionary,
    pub(super) lifetime: std::marker::PhantomData<&'a str>,
}

impl<'a> SliceEncoder<'_, 'a> {
    pub(super) fn names(&mut self, name: Option<&str>, category: Option<&str>) {
        if let Some(category) = category {
            // Readers join categories with commas; a text that cannot be split cleanly stays whole.
            let is_list =
                category.as_bytes().contains(&b',') && !category.split(',').any(str::is_empty);
            if is_list {
                for part in category.split(',') {
                    let iid = self.dictionary.intern(Table::Category, part);
                    self.event.uint(3, iid);
                }
            } else {
                let iid = self.dictionary.intern(Table::Category, category);
                self.event.uint(3, iid);
            }
        }
        if let Some(name) = name {
            let iid = self.dictionary.intern(Table::Name, name);
            self.event.uint(10, iid);
        }
    }

    pub(super) fn flows(&mut self, through: &[u64], terminating: &[u64]) {
        for &id in through {
            self.event.fixed64(47, id);
        }
        for &id in terminating {
            self.event.fixed64(48, id);
        }
    }

    pub(super) fn args(&mut self, args: impl Iterator<Item = (&'a str, ArgValue<'a>)>) {
        encode_args(self.event, self.dictionary, args);
    }
}
