//! Detects the kind of a companion file by its content.

use crate::scan::{contains, trim};
use crate::{blkparse_summary, fio, gpu, latency_histogram};

/// Kind of a companion file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Companion {
    /// GPU utilisation of nvidia-smi.
    GpuCsv,
    /// Standard output of FlexGen or DeepSpeed.
    EngineLog,
    /// A result log of deepnvme.
    DeepNvme,
    /// Kernel and user stacks counted by bpftrace.
    Stacks,
    /// Histograms of bpftrace or biolatency.
    Histograms,
    /// Result of fio.
    FioJson,
    /// Readings of boot time and wall time, as the collector writes them.
    Clock,
    /// A log of fio: time, value, direction, block size.
    FioLog,
    /// A job file of fio.
    FioJob,
    /// The summary of blkparse without its events.
    BlkparseSummary,
    /// Times between stages, printed by btt.
    Btt,
}

impl Companion {
    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GpuCsv => "gpu-csv",
            Self::EngineLog => "engine-log",
            Self::DeepNvme => "deepnvme-log",
            Self::Stacks => "stacks",
            Self::Histograms => "histograms",
            Self::FioJson => "fio-json",
            Self::Clock => "clock-json",
            Self::FioLog => "fio-log",
            Self::FioJob => "fio-job",
            Self::BlkparseSummary => "blkparse-summary",
            Self::Btt => "btt",
        }
    }

    /// Returns `true` if a text contains the summary of blkparse, which may also follow events.
    #[must_use]
    pub fn is_blkparse_summary(head: &[u8]) -> bool {
        blkparse_summary::is_summary(head)
    }

    /// Detects the kind of a companion file from its first whole lines; `None` if unknown.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        let first = lines(head).find(|line| !line.is_empty())?;
        if contains(first, b"utilization.gpu") || gpu::looks_like_row(first) {
            return Some(Self::GpuCsv);
        }
        let has_line = |test: &dyn Fn(&[u8]) -> bool| lines(head).any(test);
        if has_line(&|line| line.starts_with(b"@") && line.contains(&b'[') && !line.contains(&b']'))
            && has_line(&|line| matches!(line.first(), Some(b']' | b',')) && contains(line, b"]:"))
        {
            return Some(Self::Stacks);
        }
        if has_line(&|line| line.starts_with(b"{")) && contains(head, b"\"fio version\"") {
            return Some(Self::FioJson);
        }
        if first.starts_with(b"{") && contains(head, b"\"realtime_ns\"") {
            return Some(Self::Clock);
        }
        if blkparse_summary::is_btt(head) {
            return Some(Self::Btt);
        }
        if fio::is_job_file(head) {
            return Some(Self::FioJob);
        }
        if has_line(&|line| contains(line, b" GB/sec") && contains(line, b" secs,")) {
            return Some(Self::DeepNvme);
        }
        if contains(head, b"prefill latency:")
            || contains(head, b"<run_flexllmgen>")
            || contains(head, b"<run_flexgen>")
            || contains(head, b"[launch.py:")
            || contains(head, b"token_latency=[")
        {
            return Some(Self::EngineLog);
        }
        if has_line(&latency_histogram::is_row) {
            return Some(Self::Histograms);
        }
        if fio::is_log_line(first) {
            return Some(Self::FioLog);
        }
        None
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|b| *b == b'\n').map(trim)
}
