//! Resolves the process and thread of an event from the event and its packet sequence.

use trace_model::IssueKind;

use crate::proto::event::{EventScalars, EventType, LegacyEvent};
use crate::proto::import::Importer;
use crate::proto::tracks::{Base, OfSequence};

impl Importer<'_> {
    /// Returns the track of the event: its own, the default of its sequence, or, for older events,
    /// the thread that the sequence described.
    #[inline]
    pub(super) fn base(
        &mut self,
        at: usize,
        one: &EventScalars,
        legacy: &LegacyEvent,
    ) -> Option<Base> {
        let sequence = &self.sequences[at];
        let uuid = one.track_uuid.or(sequence.defaults.track_uuid).unwrap_or(0);
        if uuid != 0 {
            return Some(Base::Uuid(uuid));
        }
        let asked = OfSequence {
            at,
            generation: sequence.generation,
            machine: sequence.machine,
            // Except when the event states that it belongs to no track.
            falls_back: one.track_uuid.is_none() || one.kind == EventType::Unspecified,
            pid: legacy.pid_override,
            tid: legacy.tid_override,
        };
        if self.options.compat {
            // In the reference the last descriptor applies to all events until the state is
            // cleared.
            return Some(self.tracks.later(asked));
        }
        let described = sequence.thread;
        let base = self.tracks.base_of(&mut self.builder, &asked, described);
        if base.is_none() {
            self.note(IssueKind::BadTrackEvent, "an event of pid or tid 0");
        }
        base
    }

    /// Returns the track of an event as determined by its sequence so far.
    pub(super) fn base_now(&mut self, at: usize, base: Base) -> Option<Base> {
        let described = self.sequences[at].thread;
        match self.tracks.asked(base) {
            Some(asked) => self.tracks.base_of(&mut self.builder, &asked, described),
            None => Some(base),
        }
    }
}
