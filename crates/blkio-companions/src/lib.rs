//! Reads companion files of a block I/O trace.
//!
//! * [`gpu`]: GPU utilisation logged by `nvidia-smi`;
//! * [`engine`]: output of FlexGen and DeepSpeed: latencies, throughputs, tokens;
//! * [`fio`]: results and logs of fio; [`deepnvme`]: result logs of deepnvme;
//! * [`latency_histogram`]: histograms of biolatency and bpftrace;
//! * [`blkparse_summary`]: the summary after the events of blkparse, and that of btt;
//! * [`clock`]: offsets between the clock of a trace and wall time, from readings of both;
//! * [`wall_clock`], [`scan`], [`num`]: wall times, words and numbers of such texts, shared with
//!   the readers of traces.
//!
//! [`Companion`] detects the kind of a file by its content. All parsers take bytes, ignore unknown
//! content, and never panic. Relating companion files to a trace is the task of `blkio-report`.
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
pub mod parts;
pub mod scan;
pub mod wall_clock;

pub use companion::Companion;
pub use error::{Error, Result};

/// Number of requests and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Number of requests.
    pub ios: u64,
    /// Number of bytes.
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
