//! Reads the tables that serving probes write in addition to traces or instead of them.
//!
//! * [`topology()`]: `topo_component.csv`, the components of the machine;
//! * [`steps()`]: tables of steps with their workload;
//! * [`log_step()`]: lines of an engine's log that state its throughput; [`engine_states()`]: its running and waiting requests over time;
//! * [`metrics()`]: metrics of an engine in the text format of Prometheus;
//! * [`serving()`]: the log of an engine's configuration, with its batches and requests;
//! * [`bench()`]: results of `vllm bench serve` and `sglang.bench_serving`, [`prometheus()`]: metrics, both as [`Samples`];
//! * [`events()`]: `micro_event.csv` and `macro_counter.csv`, a recording as two tables.
//!
//! Rows that cannot be read are counted and skipped. The crate opens no files (the caller passes
//! the texts) and analyses nothing; Chrome JSON of the same probes is read by `perfetto-reader`.
//!
//! ```
//! let text = "name,category,config,inventory\n\
//!     CPU0,CAT_CPU,\"{\"\"env\"\":{\"\"hostname\"\":\"\"h\"\"}}\",\"{\"\"macro\"\":{\"\"freq\"\":\"\"4000 MHz\"\",\"\"cores\"\":32}}\"\n";
//! let found = serving_logs::topology(text)?;
//! assert_eq!(found.components[0].cores, Some(32.0));
//! assert_eq!(found.components[0].cpu_mhz, Some(4000.0));
//! # Ok::<(), serving_logs::Error>(())
//! ```

mod bench;
mod csv;
mod engine_log;
mod events;
mod log_clock;
mod metrics;
mod prometheus;
mod samples;
mod serving;
mod steps;
mod topology;

pub use bench::{BenchError, LOAD_SETTINGS, MODEL_SETTINGS, OTHER_SETTINGS, bench, is_bench};
pub use engine_log::{
    EngineState, EngineStates, Preemption, engine_states, is_engine_log, log_step,
};
pub use events::{Recording, events};
pub use log_clock::LogClock;
pub use metrics::{Metrics, metrics};
pub use prometheus::{is_prometheus, prometheus};
pub use samples::{Sample, Samples};
pub use serving::{Serving, serving};
pub use steps::{StepRow, steps};
pub use topology::{Component, Topology, topology};

/// Error that makes a table unreadable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A required column is missing.
    #[error("no column {column:?} in the first line; is this the right file?")]
    NoColumn {
        /// The column.
        column: &'static str,
    },
    /// A step has an impossible duration.
    #[error("line {line}: duration {value:?}; expected microseconds, zero or more")]
    Duration {
        /// The line, from 1.
        line: usize,
        /// The cell.
        value: String,
    },
    /// There are more events than a trace can hold.
    #[error("too many events for one trace")]
    TooMany,
}

impl Error {
    /// Returns the same error with another line, for a text that is read in pieces.
    #[must_use]
    pub fn at_line(self, line: usize) -> Self {
        match self {
            Self::Duration { value, .. } => Self::Duration { line, value },
            other => other,
        }
    }
}
