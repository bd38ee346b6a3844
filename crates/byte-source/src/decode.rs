//! Implements `Read` for a compressed stream, with located damage and bounded expansion.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::damage::{Damage, DamageKind, DamageLog};
use crate::detect::{Container, LONGEST_SIGNATURE, begins_stream};
use crate::error::Error;
use crate::options::Limits;

/// Number of compressed bytes read at a time.
const INPUT_BYTES: usize = 128 << 10;

/// An incremental decoder.
pub(crate) trait Decode: Send {
    /// Decodes part of `input` into `output`. An empty `input` flushes pending output.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step;

    /// Prepares for another member of the same stream.
    fn restart(&mut self) -> io::Result<()>;
}

/// Result of one step.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
    pub(crate) state: StepState,
}

#[derive(Debug)]
pub(crate) enum StepState {
    /// The member continues.
    More,
    /// The member is complete; its checks may have failed.
    End(Option<DamageKind>),
    /// Nothing more can be decoded.
    Broken(DamageKind),
    /// The decoder needs more memory than allowed.
    Memory,
}

/// Compares the output of a decoder with the input of the whole stack.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    /// Number of bytes the first decoder of the stack has consumed.
    pub(crate) raw_bytes: Arc<AtomicU64>,
    /// `true` for the first decoder.
    pub(crate) is_first: bool,
}

impl Guard {
    fn check(&self, uncompressed_bytes: u64) -> Result<(), Error> {
        let limits = &self.limits;
        if uncompressed_bytes > limits.max_uncompressed_bytes {
            return Err(Error::OutputLimit {
                name: self.name.clone(),
                limit_bytes: limits.max_uncompressed_bytes,
            });
        }
        if let Some(limit) = limits.max_ratio
            && uncompressed_bytes > limits.ratio_grace_bytes
        {
            let compressed_bytes = self.raw_bytes.load(Ordering::Relaxed);
            if uncompressed_bytes > compressed_bytes.saturating_mul(limit) {
                return Err(Error::Bomb {
                    name: self.name.clone(),
                    limit,
                    compressed_bytes,
                    uncompressed_bytes,
                });
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Inside a member.
    Member,
    /// After a member: another one, padding, garbage or the end.
    Between,
    /// No more output follows.
    Done,
}

/// Reads the decoded bytes of a compressed stream.
///
/// Damage ends the stream early and is logged; only exceeded limits and failures of the input are
/// errors.
pub(crate) struct DecodeReader<R> {
    input: R,
    decoder: Box<dyn Decode>,
    container: Container,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    input_ended: bool,
    consumed: u64,
    produced: u64,
    phase: Phase,
    damage: DamageLog,
    guard: Guard,
}

impl<R: Read> DecodeReader<R> {
    pub(crate) fn new(
        input: R,
        container: Container,
        decoder: Box<dyn Decode>,
        damage: DamageLog,
        guard: Guard,
    ) -> Self {
        Self {
            input,
            decoder,
            container,
            buffer: vec![0; INPUT_BYTES],
            start: 0,
            end: 0,
            input_ended: false,
            consumed: 0,
            produced: 0,
            phase: Phase::Member,
            damage,
            guard,
        }
    }

    fn pending(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.consumed += u64::try_from(count).unwrap_or(0);
        if self.guard.is_first {
            // Not the number of bytes read: reading ahead would hide the ratio of a small bomb.
            self.guard.raw_bytes.store(self.consumed, Ordering::Relaxed);
        }
    }

    /// Reads until `wanted` bytes are pending or the input ends.
    fn refill(&mut self, wanted: usize) -> io::Result<()> {
        while self.end - self.start < wanted && !self.input_ended {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let space = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(space) {
                Ok(0) => self.input_ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn report(&mut self, kind: DamageKind) {
        self.damage.push(Damage {
            container: self.container,
            kind,
            compressed_offset: self.consumed,
            uncompressed_offset: self.produced,
        });
    }

    /// Determines what follows a complete member.
    fn between(&mut self) -> io::Result<()> {
        loop {
            self.refill(LONGEST_SIGNATURE)?;
            // Tapes and xz files are padded with zeros, which is not damage.
            let zeros = self.pending().iter().take_while(|&&byte| byte == 0).count();
            if zeros > 0 {
                self.consume(zeros);
                continue;
            }
            break;
        }
        if self.pending().is_empty() {
            self.phase = Phase::Done;
        } else if begins_stream(self.container, self.pending()) {
            self.decoder.restart()?;
            self.phase = Phase::Member;
        } else if self.container != Container::Zip {
            self.report(DamageKind::TrailingGarbage);
            self.phase = Phase::Done;
        } else {
            self.phase = Phase::Done;
        }
        Ok(())
    }
}

impl<R: Read> Read for DecodeReader<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        loop {
            match self.phase {
                Phase::Done => return Ok(0),
                Phase::Between => {
                    self.between()?;
                    continue;
                }
                Phase::Member => {}
            }
            self.refill(1)?;
            let pending = self.buffer.get(self.start..self.end).unwrap_or_default();
            let stuck_is_truncated = pending.is_empty();
            let Step {
                consumed,
                produced,
                state,
            } = self.decoder.step(pending, output);
            self.consume(consumed);
            self.produced += u64::try_from(produced).unwrap_or(0);
            match state {
                StepState::More if consumed == 0 && produced == 0 => {
                    // There is enough input and space, unless the input has ended.
                    self.report(if stuck_is_truncated {
                        DamageKind::Truncated
                    } else {
                        DamageKind::Corrupt
                    });
                    self.phase = Phase::Done;
                }
                StepState::More => {}
                StepState::End(verdict) => {
                    if let Some(kind) = verdict {
                        self.report(kind);
                    }
                    self.phase = Phase::Between;
                }
                StepState::Broken(kind) => {
                    self.report(kind);
                    self.phase = Phase::Done;
                }
                StepState::Memory => {
                    self.phase = Phase::Done;
                    return Err(io::Error::from(Error::DecoderMemory {
                        name: self.guard.name.clone(),
                        container: self.container,
                        limit_bytes: self.guard.limits.max_decoder_bytes,
                    }));
                }
            }
            if produced > 0 {
                if let Err(error) = self.guard.check(self.produced) {
                    self.phase = Phase::Done;
                    return Err(error.into());
                }
                return Ok(produced);
            }
        }
    }
}
