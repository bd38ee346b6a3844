//! Reads what is recorded beside a block I/O trace.
//!
//! * [`gpu`]: GPU utilisation as `nvidia-smi` logs it;
//! * [`engine`]: what FlexGen and DeepSpeed print: latencies, throughputs, tokens;
//! * [`fio`]: results and logs of fio; [`deepnvme`]: result logs of deepnvme;
//! * [`latency_histogram`]: histograms of biolatency and bpftrace;
//! * [`blkparse_summary`]: the summary behind the events of blkparse, and that of btt;
//! * [`clock`]: offsets between the clock of a trace and wall time, from readings of both;
//! * [`wall_clock`], [`scan`], [`num`]: wall times, words and numbers of such texts, shared with the readers of traces.
//!
//! [`Companion`] tells the kind of a file from its content. All parsers take bytes, ignore what they do not know, and never panic. Relating companions to a trace is the task of
//! `blkio-report`.
//!
//! ```
//! use blkio_companions::gpu::GpuLog;
//!
//! let csv = b"timestamp, utilization.gpu [%]\n\
//!     2025/01/21 01:31:52.800, 40 %\n\
//!     2025/01/21 01:31:53.000, 60 %\n";
//! let log = GpuLog::parse("gpu.csv", csv)?;
//! assert_eq!((log.samples.len(), log.mean()), (2, Some(50.0)));
//! # Ok::<(), blkio_companions::Error>(())
//! ```

pub mod blkparse_summary;
pub mod clock;
mod companion;
pub mod deepnvme;
pub mod engine;
mod error;
pub mod fio;
pub mod gpu;
pub mod latency_histogram;
pub mod num;
pub mod scan;
pub mod wall_clock;

pub use companion::Companion;
pub use error::{Error, Result};

/// Requests and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds another amount.
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
    }
}
