//! Reading files of `perf script` text, line-aligned blocks on several threads.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use byte_source::{ChunkOptions, DamageLog, Source};
use memchr::memrchr;

use super::fields::KERNEL_START;
use super::{Grammar, Skip, for_each_line, parse_line, to_access};
use crate::access::Access;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::report::ReadReport;

/// Longer lines are given up.
const MAX_LINE: usize = 16 << 20;

/// What a line reader makes of a line; shared by the text formats.
pub(crate) type LineParser =
    Arc<dyn Fn(&[u8], &mut Names, &mut Vec<Access>) -> Result<(), Skip> + Send + Sync>;

/// The parser of `perf script` lines.
pub(crate) fn perf_lines(grammar: Grammar, drop_kernel: bool) -> LineParser {
    Arc::new(move |line, names, rows| {
        let sample = parse_line(line, grammar)?;
        if drop_kernel && (sample.wide.is_some() || sample.address >= KERNEL_START) {
            return Err(Skip::KernelAddress);
        }
        rows.push(to_access(&sample, names));
        Ok(())
    })
}

/// Whole lines, and whether one before them was too long.
struct Block {
    bytes: Vec<u8>,
    overlong: u64,
    result: Sender<Parsed>,
}

struct Parsed {
    rows: Vec<Access>,
    names: Names,
    report: ReadReport,
}

/// Reads rows from lines. Blocks are parsed by workers with tables of texts of their own, and joined in the order of the file.
#[derive(Debug)]
pub(crate) struct LineRows {
    order: Receiver<Result<Receiver<Parsed>, byte_source::Error>>,
    damage: DamageLog,
    report: ReadReport,
}

impl LineRows {
    pub(crate) fn new(
        source: Source,
        parser: LineParser,
        threads: NonZeroUsize,
        format: &'static str,
        clock: &'static str,
    ) -> Result<Self> {
        let damage = source.damage();
        let ahead = threads.get() * 2;
        let (order_in, order) = sync_channel(ahead);
        let (jobs_in, jobs) = sync_channel::<Block>(ahead);
        let jobs = Arc::new(Mutex::new(jobs));
        for worker in 0..threads.get() {
            let (jobs, parser) = (Arc::clone(&jobs), Arc::clone(&parser));
            thread::Builder::new()
                .name(format!("lines-{worker}"))
                .spawn(move || work(&jobs, &parser))
                .map_err(|_| Error::Thread)?;
        }
        thread::Builder::new()
            .name("blocks".to_owned())
            .spawn(move || cut(source, &jobs_in, &order_in))
            .map_err(|_| Error::Thread)?;
        Ok(Self {
            order,
            damage,
            report: ReadReport::new(format, clock),
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let Ok(next) = self.order.recv() else {
            return Ok(false);
        };
        let parsed = next?.recv().map_err(|_| Error::Thread)?;
        let map = names.absorb(&parsed.names);
        let first = self.report.rows;
        rows.reserve(parsed.rows.len());
        for (at, mut row) in (first..).zip(parsed.rows) {
            row.renumber(&map);
            row.sample_id = at;
            rows.push(row);
        }
        let before = self.report.lines;
        self.report.absorb(&parsed.report, before);
        Ok(true)
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = crate::lines::damage(&self.damage);
        report
    }
}

fn work(jobs: &Mutex<Receiver<Block>>, parser: &LineParser) {
    loop {
        let job = match jobs.lock() {
            Ok(jobs) => jobs.recv(),
            Err(_) => return,
        };
        let Ok(block) = job else { return };
        // Whoever asked may be gone.
        let _ = block.result.send(parse(&block, parser));
    }
}

fn parse(block: &Block, parser: &LineParser) -> Parsed {
    let mut parsed = Parsed {
        rows: Vec::with_capacity(block.bytes.len() / 100),
        names: Names::new(),
        report: ReadReport::default(),
    };
    let mut lines = 0;
    for _ in 0..block.overlong {
        lines += 1;
        parsed.report.skip(Skip::Truncated, lines);
    }
    for_each_line(&block.bytes, |_, line| {
        lines += 1;
        if let Err(reason) = parser(line, &mut parsed.names, &mut parsed.rows) {
            parsed.report.skip(reason, lines);
        }
    });
    parsed.report.lines = lines;
    parsed.report.rows = parsed.rows.len() as u64;
    parsed
}

/// Cuts the source into blocks of whole lines.
fn cut(
    source: Source,
    jobs: &SyncSender<Block>,
    order: &SyncSender<Result<Receiver<Parsed>, byte_source::Error>>,
) {
    // Nobody listens any more when a send fails; then there is nothing left to do.
    let send = |bytes: Vec<u8>, overlong: u64| {
        let (result, later) = channel();
        order.send(Ok(later)).is_ok()
            && jobs
                .send(Block {
                    bytes,
                    overlong,
                    result,
                })
                .is_ok()
    };
    let mut chunks = match source.into_chunks(ChunkOptions::default()) {
        Ok(chunks) => chunks,
        Err(error) => {
            let _ = order.send(Err(error));
            return;
        }
    };
    let mut carry: Vec<u8> = Vec::new();
    let mut overlong = 0;
    let mut skipping = false;
    loop {
        let chunk = match chunks.next() {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(error) => {
                let _ = order.send(Err(error));
                return;
            }
        };
        let mut data: &[u8] = &chunk;
        if skipping {
            match memchr::memchr2(b'\n', b'\r', data) {
                Some(end) => {
                    skipping = false;
                    data = data.get(end + 1..).unwrap_or_default();
                }
                None => continue,
            }
        }
        // A CR at the very end may be half of a CRLF.
        let end = memrchr(b'\n', data)
            .or_else(|| {
                memrchr(
                    b'\r',
                    data.get(..data.len().saturating_sub(1)).unwrap_or_default(),
                )
            })
            .map_or(0, |at| at + 1);
        let (whole, rest) = data.split_at(end);
        if end > 0 {
            let mut bytes = std::mem::take(&mut carry);
            bytes.extend_from_slice(whole);
            if !send(bytes, std::mem::take(&mut overlong)) {
                return;
            }
        }
        carry.extend_from_slice(rest);
        if carry.len() > MAX_LINE {
            carry = Vec::new();
            overlong += 1;
            skipping = true;
        }
    }
    if !carry.is_empty() || overlong > 0 {
        send(carry, overlong);
    }
}
