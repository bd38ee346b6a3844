//! Step-wise decoders for Zstandard frames and xz streams, with the same interface as gzip.

use std::io;

use liblzma::stream::{Action, Error as XzError, Status, Stream};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::damage::DamageKind;
use crate::decode::{Decode, Step, StepState};

/// Decodes consecutive zstd frames; skippable frames produce no output.
pub(crate) struct ZstdDecoder {
    decoder: Decoder<'static>,
    /// Number of input bytes that the decoder can use without reading past the current block.
    ///
    /// If it gets no more, nothing before a broken block is lost: the library discards the output
    /// of a call that fails.
    hint: usize,
}

/// Enough for every frame header.
const FIRST_HINT: usize = 18;

impl ZstdDecoder {
    pub(crate) fn new(max_window_bytes: u64) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        // The library accepts 10 to 31.
        let log = max_window_bytes.max(1).ilog2().clamp(10, 31);
        decoder.set_parameter(DParameter::WindowLogMax(log))?;
        Ok(Self {
            decoder,
            hint: FIRST_HINT,
        })
    }
}

impl Decode for ZstdDecoder {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let fed = input
            .get(..self.hint.max(1).min(input.len()))
            .unwrap_or_default();
        let mut source = InBuffer::around(fed);
        let mut sink = OutBuffer::around(output);
        let result = self.decoder.run(&mut source, &mut sink);
        let state = match result {
            Ok(0) => StepState::End(None),
            Ok(hint) => {
                self.hint = hint;
                StepState::More
            }
            Err(error) => {
                // The library reports errors only as text: ZSTD_getErrorString.
                let text = error.to_string();
                if text.contains("too much memory") {
                    StepState::Memory
                } else if text.contains("checksum") {
                    StepState::Broken(DamageKind::Checksum)
                } else {
                    StepState::Broken(DamageKind::Corrupt)
                }
            }
        };
        Step {
            consumed: source.pos,
            produced: sink.pos(),
            state,
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.hint = FIRST_HINT;
        self.decoder.reinit()
    }
}

/// Decodes consecutive xz streams.
pub(crate) struct XzDecoder {
    stream: Stream,
    max_bytes: u64,
}

impl XzDecoder {
    pub(crate) fn new(max_bytes: u64) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::new_stream_decoder(max_bytes, 0)?,
            max_bytes,
        })
    }
}

impl Decode for XzDecoder {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
        let result = self.stream.process(input, output, Action::Run);
        let count = |after: u64, before: u64| usize::try_from(after - before).unwrap_or(0);
        let state = match result {
            Ok(Status::StreamEnd) => StepState::End(None),
            // `MemNeeded` is the binding's name for "no progress without more input".
            Ok(Status::Ok | Status::GetCheck | Status::MemNeeded) => StepState::More,
            Err(XzError::MemLimit | XzError::Mem) => StepState::Memory,
            Err(_) => StepState::Broken(DamageKind::Corrupt),
        };
        Step {
            consumed: count(self.stream.total_in(), in_before),
            produced: count(self.stream.total_out(), out_before),
            state,
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.stream = Stream::new_stream_decoder(self.max_bytes, 0)?;
        Ok(())
    }
}
