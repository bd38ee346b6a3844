//! Times in each stage of the block layer, where the trace has the events of the stages.
//!
//! The stages are those of blktrace: a bio is queued (Q), gets a request (G) or is merged into one (M), the request is
//! inserted into the scheduler (I), issued to the driver (D) and completed (C). A merged bio is found at issue by the range
//! of sectors that the request covers.

use std::collections::BTreeMap;

use super::Analyser;
use super::distribution::Distribution;
use super::runs::Batch;
use crate::event::{Event, EventKind};

/// Bios between queueing and issue that are kept; a trace without issues has no more.
const MAX_WAITING: usize = 1 << 20;

/// A bio on its way to the driver.
#[derive(Debug, Clone, Copy, Default)]
struct Bio {
    queued_ns: Option<u64>,
    got_ns: Option<u64>,
    inserted_ns: Option<u64>,
    merged_ns: Option<u64>,
}

/// Times between stages, by name.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    waiting: BTreeMap<(u32, u64), Bio>,
    last_queued_ns: Option<u64>,
    /// Between successive bios.
    pub q2q: Distribution,
    /// Queued until there is a request for it.
    pub q2g: Distribution,
    /// Time from the request until it is in the scheduler.
    pub g2i: Distribution,
    /// Time from the request until it is issued, for requests that never were in the scheduler.
    pub g2d: Distribution,
    /// Queued until merged.
    pub q2m: Distribution,
    /// In the scheduler.
    pub i2d: Distribution,
    /// Merged until its request is issued.
    pub m2d: Distribution,
    /// Queued until its request is issued.
    pub q2d: Distribution,
    /// Bios that were cut in two, because they were larger than the device takes.
    pub splits: u64,
    /// Bios that were queued.
    pub queued: u64,
    /// Bios that were merged into requests.
    pub merges: u64,
    /// Times that a queue was held back.
    pub plugs: u64,
    /// Times that a queue was released.
    pub unplugs: u64,
    /// Requests that these releases report.
    pub unplugged: u64,
    /// Bios that were given up, because too many were waiting.
    pub given_up: u64,
}

impl Stages {
    /// Returns the names and times, without those that never happened.
    pub fn by_name(&mut self) -> impl Iterator<Item = (&'static str, &mut Distribution)> {
        [
            ("q2q", &mut self.q2q),
            ("q2g", &mut self.q2g),
            ("g2i", &mut self.g2i),
            ("g2d", &mut self.g2d),
            ("q2m", &mut self.q2m),
            ("i2d", &mut self.i2d),
            ("m2d", &mut self.m2d),
            ("q2d", &mut self.q2d),
        ]
        .into_iter()
        .filter(|(_, times)| times.count > 0)
    }

    fn bio(&mut self, event: &Event) -> &mut Bio {
        if self.waiting.len() >= MAX_WAITING {
            self.given_up += self.waiting.len() as u64;
            self.waiting.clear();
        }
        self.waiting.entry((event.dev, event.sector)).or_default()
    }

    fn issue(&mut self, event: &Event) {
        let end = event.sector.saturating_add(event.nr_sector.into());
        let range = (event.dev, event.sector)..(event.dev, end);
        while let Some((place, bio)) = self.waiting.range(range.clone()).next() {
            let (place, bio) = (*place, *bio);
            self.waiting.remove(&place);
            let mut add = |from: Option<u64>, times: fn(&mut Self) -> &mut Distribution| {
                if let Some(from) = from {
                    times(self).add(event.t_ns.saturating_sub(from));
                }
            };
            add(bio.queued_ns, |stages| &mut stages.q2d);
            add(bio.merged_ns, |stages| &mut stages.m2d);
            add(bio.inserted_ns, |stages| &mut stages.i2d);
            if bio.inserted_ns.is_none() {
                add(bio.got_ns, |stages| &mut stages.g2d);
            }
        }
    }
}

impl Analyser for Stages {
    fn observe(&mut self, batch: &Batch) {
        // Most traces have issues and completions alone.
        if batch.has_others() || !self.waiting.is_empty() {
            batch.events.iter().for_each(|event| self.add(event));
        }
    }
}

impl Stages {
    fn add(&mut self, event: &Event) {
        match event.kind {
            EventKind::Split => self.splits += 1,
            EventKind::Plug => self.plugs += 1,
            EventKind::Unplug => {
                self.unplugs += 1;
                self.unplugged += u64::try_from(event.error).unwrap_or(0);
            }
            _ => {}
        }
        if !event.direction.is_data() || event.nr_sector == 0 {
            return;
        }
        let now = event.t_ns;
        match event.kind {
            EventKind::Queue => {
                self.queued += 1;
                if let Some(before) = self.last_queued_ns.replace(now) {
                    self.q2q.add(now.saturating_sub(before));
                }
                *self.bio(event) = Bio {
                    queued_ns: Some(now),
                    ..Bio::default()
                };
            }
            EventKind::GetRq => {
                let bio = self.bio(event);
                bio.got_ns = Some(now);
                if let Some(queued) = bio.queued_ns {
                    self.q2g.add(now.saturating_sub(queued));
                }
            }
            EventKind::Insert => {
                let bio = self.bio(event);
                bio.inserted_ns = Some(now);
                if let Some(got) = bio.got_ns {
                    self.g2i.add(now.saturating_sub(got));
                }
            }
            EventKind::Merge => {
                self.merges += 1;
                let bio = self.bio(event);
                bio.merged_ns = Some(now);
                if let Some(queued) = bio.queued_ns {
                    self.q2m.add(now.saturating_sub(queued));
                }
            }
            EventKind::Issue if !self.waiting.is_empty() => self.issue(event),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rwbs::Direction;

    #[test]
    fn stages_of_a_request_and_of_a_bio_merged_into_it() {
        let mut stages = Stages::default();
        let steps = [
            (EventKind::Queue, 100, 64, 8),
            (EventKind::GetRq, 103, 64, 8),
            (EventKind::Queue, 110, 72, 8),
            (EventKind::Merge, 114, 72, 8),
            (EventKind::Insert, 120, 64, 16),
            // Elsewhere, and issued without the scheduler.
            (EventKind::Queue, 130, 800, 8),
            (EventKind::GetRq, 131, 800, 8),
            (EventKind::Issue, 140, 800, 8),
            (EventKind::Issue, 150, 64, 16),
        ];
        for (kind, t_ns, sector, nr_sector) in steps {
            stages.add(&Event {
                t_ns,
                sector,
                nr_sector,
                bytes: nr_sector * 512,
                dev: 5,
                kind,
                direction: Direction::Write,
                ..Event::BLANK
            });
        }
        assert!(stages.waiting.is_empty());
        let found: Vec<_> = stages
            .by_name()
            .map(|(name, times)| (name, times.count, times.sum))
            .collect();
        assert_eq!(
            found,
            [
                ("q2q", 2, 30),
                ("q2g", 2, 4),
                ("g2i", 1, 17),
                ("g2d", 1, 9),
                ("q2m", 1, 4),
                ("i2d", 1, 30),
                ("m2d", 1, 36),
                ("q2d", 3, 10 + 50 + 40),
            ]
        );
    }
}
