//! Turns the fields of an event into rows of the batch, by phase.

use trace_model::{
    ArgsRef, CategoryId, EndData, EndOrder, IssueKind, LaneId, SliceData, StrId, Timestamp,
};

use super::config::Wanted;
use super::event::{Args, Field, Fields, has_arguments};
use super::number::Number;
use super::part::{Id, LaneKey, Naming, Part, Says};
use super::scan::Scan;

/// Name of slices without a name, as in Perfetto's trace processor.
pub(super) const NO_NAME: &str = "[No name]";

/// How a slice ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Complete(i64),
    Begin,
    Instant,
}

impl Part<'_> {
    /// Adds a complete event to the batch.
    #[inline]
    pub(super) fn emit(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        if self.config.compat && !self.is_taken_in_compat(w, f)? {
            // Already counted.
        } else if f.phase == b'X' {
            self.complete(w, f)?;
        } else {
            self.other_phase(w, f)?;
        }
        if f.bad_field {
            self.note(IssueKind::JsonBadField);
        }
        self.phases[usize::from(f.phase & 127)] += 1;
        Ok(())
    }

    /// Returns `true` if the reference gets as far as the phase. It drops events without a time or
    /// before time zero, and makes a thread row of every other event, used or not.
    #[inline(never)]
    fn is_taken_in_compat(&mut self, w: &[u8], f: &Fields) -> Scan<bool> {
        match f.ts {
            Some(ts) if ts.ns < 0 => {
                self.note(IssueKind::NegativeTimestamp);
                return Ok(false);
            }
            None if !matches!(f.phase, b'M' | 0) => {
                self.note(IssueKind::JsonNoTimestamp);
                return Ok(false);
            }
            _ => {}
        }
        let makes_lane = match f.phase {
            b'X' => f.dur.is_some_and(|dur| dur.ns >= 0),
            phase => matches!(phase, b'B' | b'E' | b's' | b't' | b'f' | b'M' | b'P' | 0),
        };
        if !makes_lane {
            self.note_thread(w, f)?;
        }
        Ok(true)
    }

    #[inline(never)]
    fn other_phase(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        match f.phase {
            0 => {
                self.note(IssueKind::JsonNoPhase);
                Ok(())
            }
            b'M' => self.metadata(w, f),
            b'B' => self.thread_slice(w, f, Extent::Begin),
            b'E' => self.end(w, f),
            b'i' | b'I' | b'R' => self.instant(w, f),
            b's' | b't' | b'f' => self.flow(w, f),
            b'C' => self.counter(w, f),
            b'b' | b'e' | b'n' => self.async_event(w, f, f.phase),
            b'S' if !self.config.compat => self.async_event(w, f, b'b'),
            b'T' | b'p' if !self.config.compat => self.async_event(w, f, b'n'),
            b'F' if !self.config.compat => self.async_event(w, f, b'e'),
            other => {
                let shown = char::from(other);
                self.notes.push((IssueKind::JsonPhaseIgnored, Some(shown)));
                Ok(())
            }
        }
    }

    /// Returns the time of the event if it has one inside the selected range.
    #[inline(always)]
    pub(super) fn ts(&mut self, f: &Fields) -> Option<i64> {
        let Some(ts) = f.ts else {
            self.note(IssueKind::JsonNoTimestamp);
            return None;
        };
        if !self.config.range.contains(Timestamp::from_nanos(ts.ns)) {
            return None;
        }
        self.note_rounding(f);
        Some(ts.ns)
    }

    /// Returns the time of a begin or end event, and `true` if it is inside the selected range.
    /// Unlike [`Part::ts`], the event counts for the nesting in any case.
    pub(super) fn ts_of_pair(&mut self, f: &Fields) -> Option<(i64, bool)> {
        let Some(ts) = f.ts else {
            self.note(IssueKind::JsonNoTimestamp);
            return None;
        };
        self.note_rounding(f);
        let in_range = self.config.range.contains(Timestamp::from_nanos(ts.ns));
        Some((ts.ns, in_range))
    }

    #[inline(always)]
    fn note_rounding(&mut self, f: &Fields) {
        if f.ts.is_some_and(|t| t.rounded) || f.dur.is_some_and(|t| t.rounded) {
            self.note(IssueKind::RoundedTimestamp);
        }
    }

    #[inline(always)]
    fn complete(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let Some(dur) = f.dur else {
            let missing = match f.ts {
                Some(_) => IssueKind::JsonNoDuration,
                None => IssueKind::JsonNoTimestamp,
            };
            self.note(missing);
            return Ok(());
        };
        if dur.ns < 0 {
            self.note(IssueKind::NegativeDuration);
            return Ok(());
        }
        self.thread_slice(w, f, Extent::Complete(dur.ns))
    }

    #[inline(always)]
    fn thread_slice(&mut self, w: &[u8], f: &Fields, extent: Extent) -> Scan<()> {
        let ts = if extent == Extent::Begin {
            self.ts_of_pair(f)
        } else {
            self.ts(f).map(|ts| (ts, true))
        };
        let Some((ts, in_range)) = ts else {
            return Ok(());
        };
        let category = match f.category {
            Some(text) => {
                let category = self.category(text.raw(w), text.escaped)?;
                (category.id, category.is_device, category.is_wanted)
            }
            None => (CategoryId::NONE, false, self.config.categories.is_none()),
        };
        let (category, is_device, is_wanted) = category;
        let lane = self.thread_lane(w, f)?;
        if is_device && let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.is_device = true;
        }
        let is_kept = is_wanted && in_range;
        if !is_kept && extent != Extent::Begin {
            return Ok(());
        }
        let mut name = self.name_of(w, f)?;
        if name.is_none() && self.config.compat {
            name = Some(self.batch.strings.intern(NO_NAME));
        }
        if !is_kept {
            self.batch
                .hidden_begin(lane, ts, without_args(name, category));
            return Ok(());
        }
        if let (Extent::Complete(dur), Some(named), true, true) = (
            extent,
            name,
            f.category.is_some(),
            matches!(f.bind_id, Field::Missing),
        ) && self.is_outlined(named)
        {
            self.read_args(w, f)?;
            self.batch.outline(lane, ts, dur, (name, category));
            return Ok(());
        }
        let data = SliceData {
            name,
            category,
            args: self.args_of(w, f)?,
        };
        match extent {
            Extent::Complete(dur) => self.batch.complete(lane, ts, dur, data),
            Extent::Begin => self.batch.begin(lane, ts, data),
            Extent::Instant => self.batch.instant(lane, ts, data),
        }
        if let Some(thread_ts) = f.thread_ts {
            let dur = match extent {
                Extent::Complete(_) => f.thread_dur.map(|d| d.ns),
                // The reference waits for the end; instants have none.
                _ if self.config.compat => None,
                Extent::Instant => Some(0),
                Extent::Begin => f.thread_dur.map(|d| d.ns),
            };
            self.batch.thread_time(thread_ts.ns, dur);
        }
        if !matches!(f.bind_id, Field::Missing) && extent != Extent::Instant {
            self.attach_bind_id(w, f)?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn name_of(&mut self, w: &[u8], f: &Fields) -> Scan<Option<StrId>> {
        match f.name {
            Some(text) if !text.raw(w).is_empty() => self.name(text.raw(w), text.escaped).map(Some),
            _ => Ok(None),
        }
    }

    #[inline(always)]
    pub(super) fn args_of(&mut self, w: &[u8], f: &Fields) -> Scan<ArgsRef> {
        let has_stack = !matches!((f.stack, f.stack_frame), (Field::Missing, Field::Missing));
        if !self.read_args(w, f)? {
            if !has_stack {
                return Ok(ArgsRef::NONE);
            }
            self.list.clear();
        }
        if has_stack && self.config.stacks {
            self.add_stack(w, f)?;
        }
        if self.list.is_empty() {
            return Ok(ArgsRef::NONE);
        }
        Ok(self.batch.args(&self.list))
    }

    /// Reads the arguments of the event into the list, unless they are there; returns `false` if there are none.
    #[inline(always)]
    fn read_args(&mut self, w: &[u8], f: &Fields) -> Scan<bool> {
        let Some(args) = f.args else {
            return Ok(false);
        };
        if !f.args_read {
            if matches!(self.config.args, Wanted::None) || !has_arguments(f.phase) {
                return Ok(false);
            }
            self.late_args(w, args)?;
        }
        Ok(true)
    }

    #[inline(never)]
    fn late_args(&mut self, w: &[u8], args: Args) -> Scan<()> {
        if args.first == b'{' {
            self.args(args.window(w), args.start)?;
        } else if matches!(self.config.args, Wanted::All) && !self.config.compat {
            self.lone_arg(w, args.start, args.first)?;
        } else {
            self.list.clear();
        }
        Ok(())
    }

    /// Reads a field as a process or thread number.
    #[inline(always)]
    pub(super) fn id(&mut self, w: &[u8], field: Field) -> Scan<Id> {
        match field {
            Field::Missing => Ok(Id::Missing),
            Field::Number(Number::Int(n), _) => Ok(Id::Int(n)),
            other => self.odd_id(w, other),
        }
    }

    #[inline(never)]
    fn odd_id(&mut self, w: &[u8], field: Field) -> Scan<Id> {
        Ok(match field {
            Field::Number(n, _) => Id::Int(n.truncated()),
            Field::Text(text) => Id::Text(self.text(text.raw(w), text.escaped)?),
            Field::Missing => Id::Missing,
            Field::Bool(_) | Field::Nested(..) => {
                self.note(IssueKind::JsonBadField);
                Id::Missing
            }
        })
    }

    #[inline(always)]
    pub(super) fn thread_lane(&mut self, w: &[u8], f: &Fields) -> Scan<LaneId> {
        let pid = self.id(w, f.pid)?;
        let tid = self.id(w, f.tid)?;
        Ok(self.thread(pid, tid))
    }

    /// Registers the thread of an event that is on no thread track; the reference makes a row of
    /// it.
    pub(super) fn note_thread(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let (pid, tid) = (self.id(w, f.pid)?, self.id(w, f.tid)?);
        let says = Says::Nothing;
        let last = self.namings.last().map(|n| (n.pid, n.tid, n.says));
        if last != Some((pid, tid, says)) {
            self.namings.push(Naming {
                ts: 0,
                pid,
                tid,
                says,
            });
        }
        Ok(())
    }

    fn end(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let Some((ts, _)) = self.ts_of_pair(f) else {
            return Ok(());
        };
        let lane = self.thread_lane(w, f)?;
        let data = self.end_data(w, f)?;
        self.batch.end(lane, ts, EndOrder::First, data);
        Ok(())
    }

    pub(super) fn end_data(&mut self, w: &[u8], f: &Fields) -> Scan<EndData> {
        Ok(EndData {
            name: self.name_of(w, f)?,
            category: self.category_of(w, f)?.0,
            args: self.args_of(w, f)?,
            thread_ts: f.thread_ts.map(|t| t.ns),
        })
    }

    /// Returns the category as dictionary entry and as text, and `true` if it is selected.
    pub(super) fn category_of(
        &mut self,
        w: &[u8],
        f: &Fields,
    ) -> Scan<(CategoryId, Option<StrId>, bool)> {
        match f.category {
            Some(text) => {
                let category = self.category(text.raw(w), text.escaped)?;
                Ok((category.id, category.text, category.is_wanted))
            }
            None => Ok((CategoryId::NONE, None, self.config.categories.is_none())),
        }
    }

    fn instant(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let scope = match f.scope {
            Field::Missing => "t",
            Field::Text(text) => match text.raw(w) {
                b"g" => "g",
                b"p" => "p",
                b"t" | b"" => "t",
                _ => "",
            },
            _ => "",
        };
        let key = match scope {
            "g" => LaneKey::GlobalInstants,
            "p" => {
                let pid = self.id(w, f.pid)?;
                if pid == Id::Missing && self.config.compat {
                    self.note(IssueKind::JsonBadField);
                    return Ok(());
                }
                LaneKey::ProcessInstants { pid }
            }
            other => {
                // Unknown scopes are treated as missing.
                if other != "t" {
                    self.note(IssueKind::JsonBadField);
                }
                let has_tid = matches!(f.tid, Field::Number(..) | Field::Text(_));
                if self.config.compat && !has_tid {
                    self.note(IssueKind::JsonBadField);
                    return Ok(());
                }
                return self.thread_slice(w, f, Extent::Instant);
            }
        };
        let Some(ts) = self.ts(f) else {
            return Ok(());
        };
        let (category, _, is_wanted) = self.category_of(w, f)?;
        if is_wanted {
            let data = SliceData {
                name: self.name_of(w, f)?,
                category,
                args: self.args_of(w, f)?,
            };
            let lane = self.lane(key);
            self.batch.instant(lane, ts, data);
        }
        Ok(())
    }
}

pub(super) fn without_args(name: Option<StrId>, category: CategoryId) -> SliceData {
    SliceData {
        name,
        category,
        args: ArgsRef::NONE,
    }
}
