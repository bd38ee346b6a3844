//! Whose an event is, as far as the event and its sequence say.

use trace_model::IssueKind;

use crate::proto::event::{EventScalars, EventType, LegacyEvent};
use crate::proto::import::Importer;
use crate::proto::tracks::{Base, OfSequence};

impl Importer<'_> {
    /// The track of the event: its own, the default of its sequence, or for older events the
    /// thread that the sequence described.
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
            // Unless the event says that it belongs to no track.
            falls_back: one.track_uuid.is_none() || one.kind == EventType::Unspecified,
            pid: legacy.pid_override,
            tid: legacy.tid_override,
        };
        if self.options.compat {
            // In the reference the last descriptor holds for all events until the state is cleared.
            return Some(self.tracks.later(asked));
        }
        let described = sequence.thread;
        let base = self.tracks.base_of(&mut self.builder, &asked, described);
        if base.is_none() {
            self.note(IssueKind::BadTrackEvent, "an event of pid or tid 0");
        }
        base
    }

    /// The track of an event by what its sequence has said so far.
    pub(super) fn base_now(&mut self, at: usize, base: Base) -> Option<Base> {
        let described = self.sequences[at].thread;
        match self.tracks.asked(base) {
            Some(asked) => self.tracks.base_of(&mut self.builder, &asked, described),
            None => Some(base),
        }
    }
}
