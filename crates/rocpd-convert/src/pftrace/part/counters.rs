//! Counters of a part: bytes in transfer and in use, and hardware counters.

use std::io::Write;

use perfetto_reader::write::CounterUnit;
use rocpd_db::{Agent, AllocLevel, AllocType, Allocation, Copy, Dispatch, Event, Process};

use super::{Key, Part, Span, kind};
use crate::Result;

impl<W: Write> Part<'_, W> {
    /// Returns the counters of a record, in a buffer to be given back.
    pub(super) fn counted(
        &mut self,
        process: &Process,
        event: Option<Event<'_>>,
    ) -> Result<Vec<(usize, f64)>> {
        let mut room = std::mem::take(&mut self.counted);
        self.job.sums.find(process, event, &mut room)?;
        Ok(room)
    }

    /// Writes the counters of a dispatch, constant from its begin to its end.
    pub(super) fn counters(&mut self, r: &Dispatch<'_>, span: Span) -> Result<()> {
        if !self.job.options.counters {
            return Ok(());
        }
        let counted = self.counted(r.process, r.event)?;
        for (number, value) in &counted {
            let counter = self.pmc(r.process, Some(r.agent), *number)?;
            self.timeline
                .hold(counter, *value, span.start, Some(span.end));
        }
        self.counted = counted;
        Ok(())
    }

    /// Writes a value of a counter that was sampled while kernels ran; it is valid until the next
    /// one.
    pub(in crate::pftrace) fn sampled(
        &mut self,
        process: &Process,
        agent: Option<&Agent>,
        counter: &str,
        at: i64,
        value: f64,
    ) -> Result<()> {
        let (label, index) = self.agent_parts(agent);
        let name = format!("{label} [{index}] SPM {counter}");
        let key = Key::new(process, name);
        let unit = CounterUnit::None;
        let counter = self
            .timeline
            .counter(&mut self.writer, &self.places, &key, unit)?;
        self.timeline.hold(counter, value, at, None);
        // There may be many of them between two records.
        self.timeline.flush(&mut self.writer, at)
    }

    /// Writes the bytes of a memcpy as in transfer from its begin to its end.
    pub(super) fn copied_bytes(&mut self, r: &Copy<'_>, span: Span) -> Result<()> {
        if self.job.options.counters
            && span.first
            && let Some(agent) = r.dst_agent
        {
            let (label, at) = self.agent_parts(r.dst_agent);
            let name = format!("COPY BYTES to {label} [{at}] ({})", kind(Some(agent)));
            let counter = self.bytes_counter(&Key::new(r.process, name))?;
            self.timeline.add(r.start_ns, counter, r.size_bytes);
            let end = r.end_ns.max(r.start_ns);
            self.timeline
                .add(end, counter, r.size_bytes.saturating_neg());
        }
        Ok(())
    }

    /// Writes the bytes in use, which change when the call ends; frees are matched by address.
    pub(super) fn allocation(&mut self, r: &Allocation<'_>) -> Result<()> {
        if !self.job.options.counters
            || matches!(r.level, AllocLevel::Scratch | AllocLevel::Virtual)
        {
            return Ok(());
        }
        let place = (r.process.partition, r.process.id, r.address.unwrap_or(0));
        let at = r.end_ns.max(r.start_ns);
        let before = self.live.allocated.remove(&place);
        let gives = matches!(r.kind, AllocType::Alloc | AllocType::Realloc);
        match &before {
            Some((key, size)) => {
                let counter = self.bytes_counter(key)?;
                self.timeline.add(at, counter, size.saturating_neg());
            }
            None if !gives => self.report.unmatched_frees += 1,
            None => {}
        }
        if gives {
            let name = match r.agent {
                Some(_) => {
                    let (label, index) = self.agent_parts(r.agent);
                    format!("ALLOCATE BYTES on {label} [{index}] ({})", kind(r.agent))
                }
                None => "ALLOCATE BYTES".to_owned(),
            };
            let key = Key::new(r.process, name);
            let counter = self.bytes_counter(&key)?;
            self.timeline.add(at, counter, r.size_bytes);
            self.live.allocated.insert(place, (key, r.size_bytes));
        }
        Ok(())
    }

    pub(super) fn bytes_counter(&mut self, key: &Key) -> Result<usize> {
        let unit = CounterUnit::Bytes;
        self.timeline
            .counter(&mut self.writer, &self.places, key, unit)
    }

    /// Returns the hardware counter of a process, or of one of its agents (`Some(None)`: of no known
    /// agent).
    pub(super) fn pmc(
        &mut self,
        process: &Process,
        agent: Option<Option<&Agent>>,
        number: usize,
    ) -> Result<usize> {
        let own = agent.map(|agent| agent.map_or(i64::MIN, |agent| agent.id));
        let known = (process.partition, process.id, own, number);
        if let Some(&counter) = self.pmc.get(&known) {
            return Ok(counter);
        }
        let name = self.job.sums.name(number);
        let name = match agent {
            Some(agent) => {
                let (label, at) = self.agent_parts(agent);
                format!("{label} [{at}] PMC {name}")
            }
            None => format!("PMC {name}"),
        };
        let key = Key::new(process, name);
        let unit = CounterUnit::None;
        let counter = self
            .timeline
            .counter(&mut self.writer, &self.places, &key, unit)?;
        self.pmc.insert(known, counter);
        Ok(counter)
    }
}
