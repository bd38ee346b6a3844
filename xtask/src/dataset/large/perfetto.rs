//! Generates a protobuf trace of any size: nested slices of an inference loop, launches joined to
//! kernels by flow ids.
//!
//! Two sequences with interned names and incremental clocks: the host thread, and the device with
//! its two streams.

use super::super::proto::Message;
use super::super::rng::Rng;
use super::Written;
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::Write;

const HOST: usize = 0;
const DEVICE: usize = 1;
const PROCESS: u64 = 10;
const THREAD: u64 = 11;
const COMPUTE: u64 = 107;
const COMM: u64 = 123;
const LAYERS: u64 = 36;
const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

struct Sequence {
    id: u64,
    /// Trace time of the last event.
    last: i64,
    iids: BTreeMap<String, u64>,
}

struct Trace<'a> {
    out: &'a mut dyn Write,
    packet: Message,
    framed: Message,
    sequences: [Sequence; 2],
    rng: Rng,
    now: i64,
    free: [i64; 2],
    correlation: u64,
    wanted: u64,
    written: Written,
}

/// Writes a trace of exactly `events` track events.
pub(super) fn write(events: u64, out: &mut dyn Write) -> Result<Written> {
    const START: i64 = 1_000_000;
    let sequence = |id| Sequence {
        id,
        last: START,
        iids: BTreeMap::new(),
    };
    let mut trace = Trace {
        out,
        packet: Message::new(),
        framed: Message::new(),
        sequences: [sequence(1), sequence(2)],
        rng: Rng::new(2),
        now: START,
        free: [START; 2],
        correlation: 1000,
        wanted: events,
        written: Written::default(),
    };
    trace.head(START)?;
    while trace.written.events < events {
        trace.step()?;
    }
    Ok(trace.written)
}

impl Trace<'_> {
    fn send(&mut self) -> Result<()> {
        self.framed.0.clear();
        self.framed.message(1, &self.packet);
        self.packet.0.clear();
        Ok(self.out.write_all(&self.framed.0)?)
    }

    fn head(&mut self, start: i64) -> Result<()> {
        for id in [1, 2] {
            self.packet
                .uint(10, id)
                .uint(13, 1)
                .uint(87, 1)
                .nested(59, |defaults| _ = defaults.uint(58, 64));
            self.send()?;
            self.packet.uint(10, id).nested(6, |snapshot| {
                snapshot.nested(1, |clock| _ = clock.uint(1, 6).int(2, start));
                snapshot.nested(1, |clock| {
                    _ = clock.uint(1, 64).int(2, start).uint(3, 1).uint(4, 1)
                });
            });
            self.send()?;
        }
        self.packet.uint(10, 1).nested(60, |track| {
            track.uint(1, PROCESS).nested(3, |process| {
                _ = process.uint(1, 4242).text(2, "python3 -m server")
            });
        });
        self.send()?;
        self.packet.uint(10, 1).nested(60, |track| {
            track.uint(1, THREAD).uint(5, PROCESS).nested(4, |thread| {
                _ = thread.uint(1, 4242).uint(2, 4242).text(5, "scheduler")
            });
        });
        self.send()?;
        for (uuid, name) in [(COMPUTE, "GPU 0 stream 7"), (COMM, "GPU 0 stream 23")] {
            self.packet.uint(10, 1).nested(60, |track| {
                _ = track.uint(1, uuid).text(2, name).uint(5, PROCESS)
            });
            self.send()?;
        }
        Ok(())
    }

    /// Writes one track event, unless the requested number is reached.
    fn event(
        &mut self,
        at: usize,
        ts: i64,
        begin: Option<(&str, &str)>,
        fill: impl FnOnce(&mut Message),
    ) -> Result<()> {
        if self.written.events >= self.wanted {
            return Ok(());
        }
        self.written.events += 1;
        let sequence = &mut self.sequences[at];
        let mut interned = Message::new();
        let mut event = Message::new();
        if let Some((name, cat)) = begin {
            for (field, kind, text) in [(3, 1, cat), (10, 2, name)] {
                let next = u64::try_from(sequence.iids.len()).unwrap_or(0) + 1;
                let iid = match sequence.iids.get(text) {
                    Some(&iid) => iid,
                    None => {
                        sequence.iids.insert(text.to_owned(), next);
                        interned.nested(kind, |entry| _ = entry.uint(1, next).text(2, text));
                        next
                    }
                };
                event.uint(field, iid);
            }
        }
        event.uint(9, if begin.is_some() { 1 } else { 2 });
        fill(&mut event);
        self.packet
            .int(8, ts - std::mem::replace(&mut sequence.last, ts))
            .uint(10, sequence.id)
            .message(11, &event);
        if !interned.0.is_empty() {
            self.packet.message(12, &interned);
        }
        self.packet.uint(13, 2);
        self.send()
    }

    fn open(&mut self, name: &str, cat: &str) -> Result<()> {
        self.now += self.rng.between(100, 300);
        self.event(HOST, self.now, Some((name, cat)), |event| {
            _ = event.uint(11, THREAD)
        })
    }

    fn close(&mut self) -> Result<()> {
        self.now += self.rng.between(20, 200);
        self.event(HOST, self.now, None, |event| _ = event.uint(11, THREAD))
    }

    fn launch(&mut self, kernel: &str, stream: usize, dur: i64) -> Result<()> {
        self.correlation += 1;
        let id = self.correlation;
        let correlation = |event: &mut Message| {
            event.nested(4, |note| _ = note.uint(4, id).text(10, "correlation"));
        };
        self.now += self.rng.between(100, 300);
        let start = self.now;
        self.event(
            HOST,
            start,
            Some(("cudaLaunchKernelExC", "cuda_runtime")),
            |event| {
                correlation(event);
                event.uint(11, THREAD).fixed64(47, id);
            },
        )?;
        self.now += self.rng.between(3_000, 5_000);
        self.event(HOST, self.now, None, |event| _ = event.uint(11, THREAD))?;
        // The device's events come in the order of its own clock.
        let begin = self
            .free
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .max(start + 2_000);
        let track = [COMPUTE, COMM][stream];
        self.event(DEVICE, begin, Some((kernel, "kernel")), |event| {
            correlation(event);
            event.uint(11, track).fixed64(48, id);
        })?;
        self.free[stream] = begin + dur;
        self.written.kernels += 1;
        self.event(DEVICE, begin + dur, None, |event| _ = event.uint(11, track))
    }

    fn all_reduce(&mut self) -> Result<()> {
        self.open("all_reduce", "cpu_op")?;
        let dur = self.rng.between(18_000, 22_000);
        self.launch(ALL_REDUCE, 1, dur)?;
        self.close()
    }

    fn step(&mut self) -> Result<()> {
        self.open(
            "/srv/engine/worker.py(232): forward_batch",
            "python_function",
        )?;
        for layer in 0..LAYERS {
            self.open(
                &format!("nn.Module: DecoderLayer_{layer}"),
                "python_function",
            )?;
            self.open(&format!("nn.Module: Attention_{layer}"), "python_function")?;
            self.launch("flash_fwd_kernel", 0, 9_000)?;
            self.all_reduce()?;
            self.close()?;
            self.open(&format!("nn.Module: MLP_{layer}"), "python_function")?;
            self.launch("cutlass_gemm", 0, 12_000)?;
            self.all_reduce()?;
            self.close()?;
            self.close()?;
        }
        self.close()?;
        self.now += 20_000;
        Ok(())
    }
}
