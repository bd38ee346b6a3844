//! Reads events that are not slices: counter samples, and names of processes and threads.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use trace_model::{IssueKind, LaneId};

use super::args::Members;
use super::event::{Field, Fields};
use super::number::{Number, any_scalar, number_of};
use super::part::{Id, LaneKey, Naming, Part, Says};
use super::scan::{Scan, skip_value};

impl Part<'_> {
    pub(super) fn counter(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        self.note_thread(w, f)?;
        let Some(args) = f.args.filter(|a| a.first == b'{') else {
            self.note(IssueKind::JsonBadCounter);
            return Ok(());
        };
        let Some(ts) = self.ts(f) else {
            return Ok(());
        };
        let pid = self.id(w, f.pid)?;
        let tid = match f.tid {
            Field::Text(_) if !self.config.compat => self.id(w, f.tid)?,
            _ => Id::Missing,
        };
        let mut name = String::new();
        let mut part = String::new();
        if let Some(text) = f.name {
            super::text::decode(text.raw(w), text.escaped, &mut name)?;
        }
        if let Field::Text(text) = f.id
            && !text.raw(w).is_empty()
        {
            super::text::decode(text.raw(w), text.escaped, &mut part)?;
            name.push_str(" id: ");
            name.push_str(&part);
        }
        name.push(' ');
        let prefix = name.len();
        // The last of several equal members counts; in the reference all of them count.
        let mut samples: Vec<(LaneId, Option<f64>)> = Vec::new();
        let mut places: FxHashMap<LaneId, usize> = FxHashMap::default();
        let w = args.window(w);
        let mut members = Members::of(args.start);
        while let Some(member) = members.next(w)? {
            let (value, end) = self.sample(w, member.value, member.first)?;
            members.resume(end);
            let key = w.get(member.key.0..member.key.1).unwrap_or_default();
            super::text::decode(key, member.escaped, &mut part)?;
            if member.first == b'"' && value.is_none() && part == "hostname" && !self.config.compat
            {
                // Says where the value is of.
                continue;
            }
            name.truncate(prefix);
            name.push_str(&part);
            let name = self.batch.strings.intern(&name);
            let lane = self.lane(LaneKey::Counter { pid, tid, name });
            match places.entry(lane) {
                Entry::Occupied(place) if !self.config.compat => samples[*place.get()].1 = value,
                place => {
                    place.insert_entry(samples.len());
                    samples.push((lane, value));
                }
            }
        }
        for (lane, value) in samples {
            match value {
                Some(value) => self.batch.counter(lane, ts, value),
                None => self.note(IssueKind::JsonBadCounter),
            }
        }
        Ok(())
    }

    /// Parses a counter value: a number, or a text that contains one.
    fn sample(&mut self, w: &[u8], at: usize, first: u8) -> Scan<(Option<f64>, usize)> {
        match first {
            b'"' => {
                let mut field = Field::Missing;
                let end = self.any_field(w, at, first, &mut field)?;
                let Field::Text(text) = field else {
                    return Ok((None, end));
                };
                let value = match number_of(text.raw(w)) {
                    // The reference accepts more forms of numbers, as C does.
                    None if self.config.compat => std::str::from_utf8(text.raw(w))
                        .ok()
                        .and_then(|text| text.trim_start().parse().ok()),
                    number => number.map(Number::as_f64),
                };
                Ok((value, end))
            }
            b'{' | b'[' => Ok((None, skip_value(w, at, first, self.config.max_depth)?)),
            _ => {
                let (scalar, end) = any_scalar(w, at)?;
                let value = match scalar {
                    super::number::Scalar::Number(n) => Some(n.as_f64()),
                    _ => None,
                };
                Ok((value, end))
            }
        }
    }

    pub(super) fn metadata(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let mut says = Says::Nothing;
        if let (Some(name), Some(args)) = (f.name, f.args)
            && args.first == b'{'
        {
            let wanted: &[u8] = match name.raw(w) {
                b"process_name" | b"thread_name" => b"name",
                b"process_labels" => b"labels",
                b"process_sort_index" | b"thread_sort_index" => b"sort_index",
                _ => b"",
            };
            if !wanted.is_empty()
                && let Some(field) = self.member(args.window(w), args.start, wanted)?
            {
                says = self.saying(w, name.raw(w), field)?;
            }
        }
        let naming = Naming {
            ts: f.ts.map_or(0, |t| t.ns),
            pid: self.id(w, f.pid)?,
            tid: self.id(w, f.tid)?,
            says,
        };
        if says != Says::Nothing || self.config.compat {
            self.namings.push(naming);
        }
        Ok(())
    }

    fn saying(&mut self, w: &[u8], name: &[u8], field: Field) -> Scan<Says> {
        Ok(match (name, field) {
            (b"process_sort_index", Field::Number(n, _)) => Says::ProcessSortIndex(n.truncated()),
            (b"thread_sort_index", Field::Number(n, _)) => Says::ThreadSortIndex(n.truncated()),
            (_, Field::Text(text)) if !text.raw(w).is_empty() => {
                let id = self.text(text.raw(w), text.escaped)?;
                match name {
                    b"process_name" => Says::ProcessName(id),
                    b"thread_name" => Says::ThreadName(id),
                    b"process_labels" => Says::ProcessLabels(id),
                    _ => Says::Nothing,
                }
            }
            _ => Says::Nothing,
        })
    }

    /// Returns the last member `key` of the object at `at`.
    fn member(&mut self, w: &[u8], at: usize, key: &[u8]) -> Scan<Option<Field>> {
        let mut found = None;
        let mut members = Members::of(at);
        while let Some(member) = members.next(w)? {
            let mut field = Field::Missing;
            let end = self.any_field(w, member.value, member.first, &mut field)?;
            members.resume(end);
            if w.get(member.key.0..member.key.1) == Some(key) {
                found = Some(field);
            }
        }
        Ok(found)
    }
}
