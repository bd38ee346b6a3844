//! Merges parts in file order.

use rustc_hash::FxHashMap;
use trace_model::{LaneId, StrId, StringTable, TraceBuilder};

use super::part::{AsyncKey, Id, Lane, LaneKey, Naming, Part, Says};
use super::share::AsyncEvent;

/// Everything read so far. Texts of lanes and namings are ids of `texts`.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) builder: TraceBuilder,
    pub(super) lanes: Vec<Lane>,
    lane_ids: FxHashMap<LaneKey, LaneId>,
    pub(super) texts: StringTable,
    pub(super) namings: Vec<Naming>,
    pub(super) asyncs: Vec<AsyncEvent>,
    phases: Vec<u64>,
}

impl Merged {
    pub(super) fn add(&mut self, part: Part<'_>) {
        let Part {
            batch,
            lanes,
            namings,
            asyncs,
            diagnostics,
            phases,
            ..
        } = part;
        let mut texts = Texts {
            from: &batch.strings,
            to: &mut self.texts,
        };
        let mut ids = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let key = texts.lane_key(lane.key);
            let first = lane.first.map(|(ts, name)| (ts, texts.option(name)));
            let id = *self.lane_ids.entry(key).or_insert_with(|| {
                self.lanes.push(Lane {
                    key,
                    is_device: false,
                    first,
                });
                self.builder.lane(None)
            });
            ids.push(id);
            let merged = &mut self.lanes[id.index()];
            merged.is_device |= lane.is_device;
            if let (Some(a), Some(b)) = (merged.first, first)
                && b.0 < a.0
            {
                merged.first = first;
            }
        }
        self.namings.extend(namings.into_iter().map(|n| Naming {
            ts: n.ts,
            pid: texts.id(n.pid),
            tid: texts.id(n.tid),
            says: match n.says {
                Says::ProcessName(s) => Says::ProcessName(texts.string(s)),
                Says::ProcessLabels(s) => Says::ProcessLabels(texts.string(s)),
                Says::ThreadName(s) => Says::ThreadName(texts.string(s)),
                other => other,
            },
        }));
        let before = self.builder.events.len();
        self.asyncs.extend(asyncs.into_iter().map(|a| AsyncEvent {
            event: before + a.event,
            lane: ids[a.lane.index()],
            name: texts.option(a.name),
            ..a
        }));
        self.phases.resize(phases.len(), 0);
        for (sum, n) in self.phases.iter_mut().zip(phases) {
            *sum += n;
        }
        self.builder.diagnostics.merge(diagnostics);
        self.builder.events.append(batch, &ids);
    }

    /// Returns the number of events per phase, ordered by letter.
    pub(super) fn records(&self) -> Vec<(String, u64)> {
        (0_u8..)
            .zip(&self.phases)
            .filter(|&(_, &n)| n > 0)
            .map(|(phase, &n)| match phase {
                0 => ("no phase".to_owned(), n),
                phase => (char::from(phase).to_string(), n),
            })
            .collect()
    }

    /// Returns the number of events with a phase.
    pub(super) fn events(&self) -> u64 {
        self.phases.iter().skip(1).sum()
    }
}

/// Translates ids of one string table to another.
struct Texts<'a> {
    from: &'a StringTable,
    to: &'a mut StringTable,
}

impl Texts<'_> {
    fn string(&mut self, id: StrId) -> StrId {
        self.to.intern(self.from.get(id))
    }

    fn option(&mut self, id: Option<StrId>) -> Option<StrId> {
        id.map(|id| self.string(id))
    }

    fn id(&mut self, id: Id) -> Id {
        match id {
            Id::Text(text) => Id::Text(self.string(text)),
            other => other,
        }
    }

    fn lane_key(&mut self, key: LaneKey) -> LaneKey {
        match key {
            LaneKey::Thread { pid, tid } => LaneKey::Thread {
                pid: self.id(pid),
                tid: self.id(tid),
            },
            LaneKey::ProcessInstants { pid } => LaneKey::ProcessInstants { pid: self.id(pid) },
            LaneKey::GlobalInstants => LaneKey::GlobalInstants,
            LaneKey::Async(key) => LaneKey::Async(AsyncKey {
                scope: self.option(key.scope),
                is_old: key.is_old,
                id: self.string(key.id),
                local_to: key.local_to.map(|pid| self.id(pid)),
            }),
            LaneKey::Counter { pid, tid, name } => LaneKey::Counter {
                pid: self.id(pid),
                tid: self.id(tid),
                name: self.string(name),
            },
        }
    }
}
