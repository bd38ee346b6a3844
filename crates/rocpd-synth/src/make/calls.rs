//! Host activity: steps, calls, marks.

use rusqlite::types::Value;

use super::{KERNELS, Rank, int, text};
use crate::database::Error;

impl Rank<'_> {
    pub(super) fn tid(&self, thread: i64) -> i64 {
        self.pid + thread * 1000
    }

    pub(super) fn event(
        &mut self,
        category: &str,
        stack: i64,
        parent: i64,
        extdata: Option<String>,
    ) -> Result<i64, Error> {
        let category = self.db.string(category)?;
        self.db.add(
            "event",
            "category_id, stack_id, parent_stack_id, correlation_id, extdata",
            [
                int(category),
                int(stack),
                int(parent),
                int(0),
                text(extdata.unwrap_or_else(|| "{}".to_owned())),
            ],
        )
    }

    pub(super) fn bounds(&mut self, start: i64, end: i64) {
        let bounds = &mut self.truth.bounds_ns;
        *bounds = (bounds.0.min(start), bounds.1.max(end));
    }

    /// Adds a region of a domain.
    pub(super) fn region(
        &mut self,
        thread: i64,
        (start, end): (i64, i64),
        category: &str,
        name: &str,
        (stack, parent): (i64, i64),
    ) -> Result<i64, Error> {
        let event = self.event(category, stack, parent, None)?;
        self.region_row(thread, (start, end), name, event)?;
        let domain = category.split('_').next().unwrap_or_default().to_owned();
        self.truth
            .domains
            .entry(domain)
            .or_default()
            .entry(name.to_owned())
            .or_default()
            .add(end - start);
        self.truth.regions += 1;
        self.bounds(start, end);
        Ok(event)
    }

    fn region_row(
        &mut self,
        thread: i64,
        (start, end): (i64, i64),
        name: &str,
        event: i64,
    ) -> Result<(), Error> {
        let name_id = self.db.string(name)?;
        let tid = self.tid(thread);
        self.db.add(
            "region",
            "nid, pid, tid, start, \"end\", name_id, event_id",
            [
                int(self.nid),
                int(self.pid),
                int(tid),
                int(start),
                int(end),
                int(name_id),
                int(event),
            ],
        )?;
        Ok(())
    }

    /// Adds a marker range.
    pub(super) fn marker(
        &mut self,
        thread: i64,
        (start, end): (i64, i64),
        message: &str,
        (stack, parent): (i64, i64),
    ) -> Result<(), Error> {
        let event = self.event(
            "MARKER_CORE_RANGE_API",
            stack,
            parent,
            Some(format!("{{\"message\": \"{message}\"}}")),
        )?;
        self.region_row(thread, (start, end), "roctxRangePushA", event)?;
        self.truth
            .markers
            .entry(message.to_owned())
            .or_default()
            .add(end - start);
        self.truth.regions += 1;
        self.bounds(start, end);
        Ok(())
    }

    pub(super) fn next_stack(&mut self) -> i64 {
        self.stack_id += 1;
        self.stack_id
    }

    pub(super) fn step(&mut self, step: u32) -> Result<(), Error> {
        let thread = i64::from(step % self.shape.threads.max(1));
        let step_stack = self.next_stack();
        let step_start = self.now;
        for layer in 0..self.shape.layers {
            let layer_stack = self.next_stack();
            let layer_start = self.now;
            for launch in 0..self.shape.launches {
                self.launch(thread, layer_stack, step == 0 && layer == 0 && launch == 0)?;
            }
            let end = self.now;
            if self.shape.ranges {
                let message = format!("layer_{layer}");
                let stacks = (layer_stack, step_stack);
                self.marker(thread, (layer_start, end), &message, stacks)?;
            }
            self.now += 50;
        }
        self.copy(thread, step)?;
        self.allocate(thread, step)?;
        if step % 2 == 1 {
            let stack = self.next_stack();
            let start = self.now;
            let end = start + self.random.between(5_000, 15_000);
            self.region(
                thread,
                (start, end),
                "RCCL_API",
                "ncclAllReduce",
                (stack, 0),
            )?;
            self.now = end + 100;
        }
        self.mark(thread, step)?;
        let end = self.now;
        let message = if step == 0 { "prefill" } else { "decode" };
        if self.shape.ranges {
            self.marker(thread, (step_start, end), message, (step_stack, 0))?;
        }
        self.truth.steps_ns.push((step_start, end));
        self.now += 500;
        Ok(())
    }

    /// Adds a launch, the HSA calls in it, and the kernel.
    pub(super) fn launch(&mut self, thread: i64, parent: i64, first: bool) -> Result<(), Error> {
        let stack = self.next_stack();
        let start = self.now;
        let end = start + self.random.between(1_000, 2_500);
        if self.shape.hsa {
            let a = start + 100;
            let b = a + self.random.between(50, 400);
            let own = self.next_stack();
            let event = self.region(
                thread,
                (a, b),
                "HSA_CORE_API",
                "hsa_signal_store_screlease",
                (own, stack),
            )?;
            if self.shape.args {
                self.arg(event, "hsa_signal_t", "signal", &own.to_string(), "{}")?;
            }
        }
        let stream = self.random.between(0, i64::from(self.shape.streams));
        let event = self.region(
            thread,
            (start, end),
            "HIP_RUNTIME_API_EXT",
            "hipLaunchKernel",
            (stack, parent),
        )?;
        if self.shape.args {
            self.arg(
                event,
                "hipStream_t",
                "stream",
                &stream.to_string(),
                &format!("{{\"stream_id\": {stream}}}"),
            )?;
        }
        self.now = end + self.random.between(20, 200);
        let last = i64::try_from(KERNELS.len()).unwrap_or(1) - 1;
        // The last kernel runs only once.
        let kernel = if first {
            last
        } else {
            self.random.between(0, last - 1)
        };
        self.dispatch(thread, stack, stream, kernel, end)
    }

    pub(super) fn arg(
        &mut self,
        event: i64,
        kind: &str,
        name: &str,
        value: &str,
        extdata: &str,
    ) -> Result<(), Error> {
        self.db.add(
            "arg",
            "event_id, position, type, name, value, extdata",
            [
                int(event),
                int(0),
                text(kind),
                text(name),
                text(value),
                text(extdata),
            ],
        )?;
        Ok(())
    }

    /// Adds a migration of pages, as the kernel driver reports it.
    pub(super) fn kfd(&mut self, step: u32) -> Result<(), Error> {
        let stack = self.next_stack();
        let span = (self.now, self.now + 700);
        let name = "KFD_PAGE_MIGRATE_PREFETCH";
        let event = self.region(0, span, "KFD_PAGE_MIGRATE", name, (stack, 0))?;
        // Stored from last to first.
        let arguments = [
            (2, "kind", step.to_string()),
            (1, "end_addr", "0x7fff".to_owned()),
            (0, "start_addr", "0x7f00".to_owned()),
        ];
        for (position, name, value) in arguments {
            self.db.add(
                "arg",
                "event_id, position, type, name, value, extdata",
                [
                    int(event),
                    int(position),
                    text("uint64_t"),
                    text(name),
                    text(value),
                    text("{}"),
                ],
            )?;
        }
        self.now = span.1 + 50;
        Ok(())
    }

    /// Adds a mark: a sample on a track of its thread.
    pub(super) fn mark(&mut self, thread: i64, step: u32) -> Result<(), Error> {
        let name = self.db.string("MARKER_CORE_API")?;
        let place = usize::try_from(thread).unwrap_or(0);
        let track = match self.tracks[place] {
            Some(track) => track,
            None => {
                let tid = self.tid(thread);
                self.db.add(
                    "track",
                    "nid, pid, tid, name_id",
                    [int(self.nid), int(self.pid), int(tid), int(name)],
                )?
            }
        };
        self.tracks[place] = Some(track);
        let stack = self.next_stack();
        let message = format!("token_{}", step % 4);
        let event = self.event(
            "MARKER_CORE_API",
            stack,
            0,
            Some(format!("{{\"message\": \"{message}\"}}")),
        )?;
        let now = self.now;
        self.db.add(
            "sample",
            "track_id, timestamp, event_id",
            [int(track), int(now), int(event)],
        )?;
        self.truth.markers.entry(message).or_default().add(0);
        self.truth.samples += 1;
        self.bounds(now, now);
        Ok(())
    }

    /// Adds a region without an event.
    pub(super) fn orphans(&mut self) -> Result<(), Error> {
        let name = self.db.string("hipOrphan")?;
        let (start, end) = (self.now, self.now + 777);
        self.db.add(
            "region",
            "nid, pid, tid, start, \"end\", name_id, event_id",
            [
                int(self.nid),
                int(self.pid),
                int(self.tid(0)),
                int(start),
                int(end),
                int(name),
                Value::Null,
            ],
        )?;
        self.truth.lost_regions += 1;
        self.bounds(start, end);
        Ok(())
    }
}
