//! Contents of one piece of the file: events with lanes, names and diagnostics, in a dictionary of
//! its own, so that pieces can be scanned on different threads.

use rustc_hash::FxHashMap;
use trace_model::{Arg, CategoryId, Diagnostics, EventBatch, IssueKind, LaneId, Place, StrId};

use super::args::Keys;
use super::config::Config;
use super::number::LastInteger;
use super::scan::Scan;
use super::share::AsyncEvent;
use super::text;

/// A process or thread number as in the file. Texts are ids of the part's strings, or of the
/// reader's own strings after merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Missing,
    Int(i64),
    Text(StrId),
}

/// Identifies a group of events that becomes a track once the whole file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LaneKey {
    Thread {
        pid: Id,
        tid: Id,
    },
    ProcessInstants {
        pid: Id,
    },
    GlobalInstants,
    Async(AsyncKey),
    /// The thread, only if it is a text: collectors use it to name the device of a sample.
    Counter {
        pid: Id,
        tid: Id,
        name: StrId,
    },
}

/// Identity of async events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AsyncKey {
    /// Category, or name for the phases `S`, `T`, `p`, `F`.
    pub(super) scope: Option<StrId>,
    pub(super) is_old: bool,
    pub(super) id: StrId,
    /// The process, if the id is valid only in one.
    pub(super) local_to: Option<Id>,
}

/// A lane and its properties so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    /// `true` if it has GPU activity (kernels, memcpy, memset).
    pub(super) is_device: bool,
    /// Time and name of the earliest event; the name becomes that of an async identity's track.
    pub(super) first: Option<(i64, Option<StrId>)>,
}

/// Contents of a metadata event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    ProcessName(StrId),
    ProcessLabels(StrId),
    ProcessSortIndex(i64),
    ThreadName(StrId),
    ThreadSortIndex(i64),
    /// Only the existence of the thread.
    Nothing,
}

/// A metadata event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming {
    pub(super) ts: i64,
    pub(super) pid: Id,
    pub(super) tid: Id,
    pub(super) says: Says,
}

/// Raw text of a category and its interned values.
pub(super) struct Category {
    raw: Box<[u8]>,
    pub(super) text: Option<StrId>,
    pub(super) id: CategoryId,
    pub(super) is_device: bool,
    pub(super) is_wanted: bool,
    /// By name, whether only the outlines of such slices are kept.
    outlined: Vec<Option<bool>>,
}

/// Number of slots of the name cache.
const NAME_SLOTS: usize = 1024;
/// Maximum number of categories remembered by their bytes.
const CATEGORY_SLOTS: usize = 32;

pub(super) struct Part<'c> {
    pub(super) config: &'c Config,
    pub(super) batch: EventBatch,
    pub(super) lanes: Vec<Lane>,
    lane_ids: FxHashMap<LaneKey, LaneId>,
    last_lane: Option<(LaneKey, LaneId)>,
    pub(super) last_pid: LastInteger,
    pub(super) last_tid: LastInteger,
    /// The last thread identified by numbers.
    last_thread: Option<(i64, i64, LaneId)>,
    pub(super) namings: Vec<Naming>,
    /// Async events, for `compat`.
    pub(super) asyncs: Vec<AsyncEvent>,
    pub(super) diagnostics: Diagnostics,
    /// Number of events of each phase.
    pub(super) phases: [u64; 128],
    /// Issues of the current event, counted once it is known to be complete.
    pub(super) notes: Vec<(IssueKind, Option<char>)>,
    pub(super) keys: Keys,
    /// Arguments of the current event.
    pub(super) list: Vec<Arg>,
    categories: Vec<Category>,
    last_category: usize,
    names: Vec<Option<StrId>>,
    scratch: String,
}

impl<'c> Part<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self {
            config,
            batch: EventBatch::new(),
            lanes: Vec::new(),
            lane_ids: FxHashMap::default(),
            last_lane: None,
            last_pid: LastInteger::default(),
            last_tid: LastInteger::default(),
            last_thread: None,
            namings: Vec::new(),
            asyncs: Vec::new(),
            diagnostics: Diagnostics::with_places(config.places),
            phases: [0; 128],
            notes: Vec::new(),
            keys: Keys::default(),
            list: Vec::new(),
            categories: Vec::new(),
            last_category: 0,
            names: vec![None; NAME_SLOTS],
            scratch: String::new(),
        }
    }

    /// Notes an issue of the current event.
    pub(super) fn note(&mut self, kind: IssueKind) {
        self.notes.push((kind, None));
    }

    /// Counts the noted issues: the event at `byte` is complete.
    #[inline]
    pub(super) fn count_notes(&mut self, byte: u64) {
        if self.notes.is_empty() {
            return;
        }
        for (kind, detail) in self.notes.drain(..) {
            match detail {
                Some(c) => self
                    .diagnostics
                    .note(kind, Place::Byte(byte), format!("phase `{c}`")),
                None => self.diagnostics.count(kind, Place::Byte(byte)),
            }
        }
    }

    /// Decodes and interns the string between two quotes.
    #[inline]
    pub(super) fn text(&mut self, raw: &[u8], escaped: bool) -> Scan<StrId> {
        if !escaped && let Some(id) = self.batch.strings.find_bytes(raw) {
            return Ok(id);
        }
        self.new_text(raw, escaped)
    }

    #[inline(never)]
    fn new_text(&mut self, raw: &[u8], escaped: bool) -> Scan<StrId> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let repairs = text::decode(raw, escaped, &mut scratch);
        let id = repairs.map(|repairs| {
            if repairs.invalid_utf8 {
                self.note(IssueKind::InvalidUtf8);
            }
            for _ in 0..repairs.lone_surrogates {
                self.note(IssueKind::LoneSurrogate);
            }
            self.batch.strings.intern(&scratch)
        });
        self.scratch = scratch;
        id
    }

    /// Same as [`Part::text`], for strings of which few values repeat often.
    #[inline]
    pub(super) fn name(&mut self, raw: &[u8], escaped: bool) -> Scan<StrId> {
        let slot = name_slot(raw);
        if !escaped
            && let Some(id) = self.names[slot]
            && self.batch.strings.get(id).as_bytes() == raw
        {
            return Ok(id);
        }
        let id = self.text(raw, escaped)?;
        self.names[slot] = Some(id);
        Ok(id)
    }

    /// Returns the category of this text; an empty text is no category.
    #[inline]
    pub(super) fn category(&mut self, raw: &[u8], escaped: bool) -> Scan<&Category> {
        let hit = |c: &Category| *c.raw == *raw && !escaped;
        if !self.categories.get(self.last_category).is_some_and(hit) {
            self.last_category = match self.categories.iter().position(hit) {
                Some(at) => at,
                None => self.new_category(raw, escaped)?,
            };
        }
        Ok(&self.categories[self.last_category])
    }

    #[inline(never)]
    fn new_category(&mut self, raw: &[u8], escaped: bool) -> Scan<usize> {
        let text = match raw {
            b"" => None,
            raw => Some(self.text(raw, escaped)?),
        };
        let decoded = text.map_or("", |id| self.batch.strings.get(id));
        let category = Category {
            // A category with escapes is never found by its bytes.
            raw: if escaped { (*b"\"").into() } else { raw.into() },
            text,
            id: CategoryId::NONE,
            is_device: is_device_category(decoded),
            is_wanted: match &self.config.categories {
                None => true,
                Some(list) => text.is_some() && list.iter().any(|c| **c == *decoded.as_bytes()),
            },
            outlined: Vec::new(),
        };
        let id = text.map_or(CategoryId::NONE, |id| self.batch.category(id));
        if self.categories.len() >= CATEGORY_SLOTS {
            self.categories.clear();
        }
        self.categories.push(Category { id, ..category });
        Ok(self.categories.len() - 1)
    }

    /// Returns `true` if only the outline is kept of a slice of this name and of the category looked up last.
    #[inline]
    pub(super) fn is_outlined(&mut self, name: StrId) -> bool {
        let Some(outlining) = &self.config.outline else {
            return false;
        };
        let Some(category) = self.categories.get_mut(self.last_category) else {
            return false;
        };
        let Some(text) = category.text else {
            return false;
        };
        if let Some(Some(verdict)) = category.outlined.get(name.index()) {
            return *verdict;
        }
        let strings = &self.batch.strings;
        let verdict = outlining.selects(strings.get(text), strings.get(name));
        if category.outlined.len() <= name.index() {
            category.outlined.resize(name.index() + 1, None);
        }
        category.outlined[name.index()] = Some(verdict);
        verdict
    }

    /// Returns the lane of a thread; creates it if needed.
    #[inline(always)]
    pub(super) fn thread(&mut self, pid: Id, tid: Id) -> LaneId {
        let (Id::Int(p), Id::Int(t)) = (pid, tid) else {
            return self.lane(LaneKey::Thread { pid, tid });
        };
        match self.last_thread {
            Some((pid, tid, lane)) if pid == p && tid == t => lane,
            _ => {
                let lane = self.lane(LaneKey::Thread { pid, tid });
                self.last_thread = Some((p, t, lane));
                lane
            }
        }
    }

    /// Returns the lane of `key`; creates it if needed.
    #[inline]
    pub(super) fn lane(&mut self, key: LaneKey) -> LaneId {
        match self.last_lane {
            Some((last, id)) if last == key => id,
            _ => self.other_lane(key),
        }
    }

    #[inline(never)]
    fn other_lane(&mut self, key: LaneKey) -> LaneId {
        let lanes = &mut self.lanes;
        let id = *self.lane_ids.entry(key).or_insert_with(|| {
            lanes.push(Lane {
                key,
                is_device: false,
                first: None,
            });
            LaneId::new(lanes.len() - 1).expect("a part has fewer than 2^32 lanes")
        });
        self.last_lane = Some((key, id));
        id
    }
}

fn is_device_category(text: &str) -> bool {
    text == "kernel" || text.starts_with("gpu_")
}

#[inline(always)]
fn name_slot(raw: &[u8]) -> usize {
    let (first, last) = match (raw.first_chunk::<8>(), raw.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => {
            let mut short = [0; 8];
            for (to, from) in short.iter_mut().zip(raw) {
                *to = *from;
            }
            (u64::from_le_bytes(short), 0)
        }
    };
    let middle = raw
        .get(raw.len() / 2..)
        .and_then(|r| r.first_chunk::<8>())
        .map_or(0, |b| u64::from_le_bytes(*b));
    let mixed =
        first ^ last.rotate_left(23) ^ middle.rotate_left(41) ^ (raw.len() as u64).rotate_left(7);
    let slot = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
    slot % NAME_SLOTS
}
