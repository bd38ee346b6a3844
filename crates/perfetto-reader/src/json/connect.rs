//! Reads events that ids connect: async events and flows.

use trace_model::{EndOrder, FlowPoint, FlowRole, FlowSpace, IssueKind, SliceData, StrId};

use super::args::Members;
use super::emit::{NO_NAME, without_args};
use super::event::{Field, Fields};
use super::number::Number;
use super::part::{AsyncKey, Id, LaneKey, Part};
use super::scan::Scan;
use super::share::{AsyncEvent, Change};

impl Part<'_> {
    pub(super) fn async_event(&mut self, w: &[u8], f: &Fields, kind: u8) -> Scan<()> {
        let pid = self.id(w, f.pid)?;
        let id = self.async_id(w, f)?;
        let (Some((id, is_local)), true) = (id, pid != Id::Missing) else {
            self.note(IssueKind::JsonNoId);
            return Ok(());
        };
        let ts = match kind {
            b'n' => self.ts(f).map(|ts| (ts, true)),
            _ => self.ts_of_pair(f),
        };
        let Some((ts, in_range)) = ts else {
            return Ok(());
        };
        let is_old = f.phase != kind || f.phase == b'T' || f.phase == b'p';
        let (category, category_text, is_wanted) = self.category_of(w, f)?;
        let mut name = self.name_of(w, f)?;
        let key = AsyncKey {
            scope: if is_old { name } else { category_text },
            is_old,
            id,
            local_to: is_local.then_some(match pid {
                // The reference reads numbers that do not fit in 32 bits as 0.
                Id::Int(n) if self.config.compat && u32::try_from(n).is_err() => Id::Int(0),
                pid => pid,
            }),
        };
        let lane = self.lane(LaneKey::Async(key));
        if let Some(lane) = self.lanes.get_mut(lane.index())
            && lane.first.is_none_or(|(first, _)| ts < first)
        {
            lane.first = Some((ts, name));
        }
        if self.config.compat {
            self.asyncs.push(AsyncEvent {
                ts,
                event: self.batch.len(),
                lane,
                name,
                change: match kind {
                    b'b' => Change::Begin,
                    b'e' => Change::End,
                    _ => Change::Instant,
                },
            });
        }
        if kind == b'e' {
            let data = self.end_data(w, f)?;
            self.batch.end(lane, ts, EndOrder::InPlace, data);
            return Ok(());
        }
        if name.is_none() && kind == b'b' && self.config.compat {
            name = Some(self.batch.strings.intern(NO_NAME));
        }
        if !(is_wanted && in_range) {
            if kind == b'b' {
                self.batch
                    .hidden_begin(lane, ts, without_args(name, category));
            }
            return Ok(());
        }
        let data = SliceData {
            name,
            category,
            args: self.args_of(w, f)?,
        };
        if kind == b'b' {
            self.batch.begin(lane, ts, data);
        } else {
            self.batch.instant(lane, ts, data);
        }
        if !matches!(f.bind_id, Field::Missing) {
            self.attach_bind_id(w, f)?;
        }
        Ok(())
    }

    /// Returns the id of an async event, and `true` if it is valid only in its process.
    fn async_id(&mut self, w: &[u8], f: &Fields) -> Scan<Option<(StrId, bool)>> {
        if let Some(id) = self.id_text(w, f.id)? {
            return Ok(Some((id, false)));
        }
        let Field::Nested(at, b'{') = f.id2 else {
            return Ok(None);
        };
        let (mut global, mut local) = (None, None);
        let mut members = Members::of(at);
        while let Some(member) = members.next(w)? {
            let mut field = Field::Missing;
            let end = self.any_field(w, member.value, member.first, &mut field)?;
            members.resume(end);
            match w.get(member.key.0..member.key.1) {
                Some(b"global") => global = self.id_text(w, field)?,
                Some(b"local") => local = self.id_text(w, field)?,
                _ => {}
            }
        }
        Ok(global.or(local).map(|id| (id, global.is_none())))
    }

    /// Returns the text of an id, which may be a number or a string. In the reference a number
    /// differs from its text, only integers are numbers, and a text may be empty.
    fn id_text(&mut self, w: &[u8], field: Field) -> Scan<Option<StrId>> {
        let compat = self.config.compat;
        match field {
            Field::Number(Number::Int(n), _) if compat => {
                Ok(Some(self.batch.strings.intern(&format!("\0{n}"))))
            }
            Field::Number(..) if compat => Ok(None),
            Field::Number(_, text) => self.text(text.raw(w), text.escaped).map(Some),
            Field::Text(text) if compat || !text.raw(w).is_empty() => {
                self.text(text.raw(w), text.escaped).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn flow(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let lane = self.thread_lane(w, f)?;
        let Some(id) = self.flow_id(w, f.id)? else {
            self.note(IssueKind::JsonNoId);
            return Ok(());
        };
        let Some(ts) = self.ts(f) else {
            return Ok(());
        };
        let role = match f.phase {
            b's' => FlowRole::Start,
            b't' => FlowRole::Step,
            _ => match f.bind_point {
                Field::Text(text) if text.raw(w) == b"e" => FlowRole::End,
                _ => FlowRole::EndAtNext,
            },
        };
        let point = FlowPoint {
            id,
            category: self.category_of(w, f)?.1,
            name: self.name_of(w, f)?,
            space: FlowSpace::Chrome,
            role,
        };
        self.batch.flow(lane, ts, point);
        Ok(())
    }

    pub(super) fn attach_bind_id(&mut self, w: &[u8], f: &Fields) -> Scan<()> {
        let role = match (f.flow_in, f.flow_out) {
            (true, true) => FlowRole::Step,
            (false, true) => FlowRole::Start,
            (true, false) => FlowRole::End,
            (false, false) => return Ok(()),
        };
        match self.flow_id(w, f.bind_id)? {
            Some(id) => self.batch.attach_flow(FlowPoint {
                id,
                category: None,
                name: None,
                space: FlowSpace::BindId,
                role,
            }),
            None => self.note(IssueKind::JsonNoId),
        }
        Ok(())
    }

    /// Parses a flow id: a number, or a hexadecimal text.
    fn flow_id(&mut self, w: &[u8], field: Field) -> Scan<Option<u64>> {
        Ok(match field {
            Field::Number(n, _) if !self.config.compat || matches!(n, Number::Int(_)) => {
                Some(n.as_id())
            }
            Field::Text(text) => {
                let mut decoded = String::new();
                if super::text::decode(text.raw(w), text.escaped, &mut decoded).is_err() {
                    return Ok(None);
                }
                let digits = decoded
                    .strip_prefix("0x")
                    .or_else(|| decoded.strip_prefix("0X"))
                    .unwrap_or(&decoded);
                u64::from_str_radix(digits, 16).ok()
            }
            _ => None,
        })
    }
}
