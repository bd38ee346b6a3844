//! SQL over recordings and data sets on many machines: Ballista, the scheduler and executors of Apache DataFusion, with the tables and
//! functions of [`trace_sql`](https://docs.rs/inferscope-trace-sql).
//!
//! * `Client` is the cluster of an engine (`trace_sql::Options::cluster`): queries are planned there, and run by the executors;
//! * `scheduler` and `executor` are Ballista's own processes. They know what of a plan is ours by the codecs that are registered here;
//! * `Jobs` has executors make the files of recordings, for `trace_dataset::make_elsewhere`;
//! * `Address` is what `HOST:PORT` of a command line says.
//!
//! Scheduling, exchange of rows and retries are Ballista's. Everything is behind the feature `ballista`, so that a build of the
//! workspace does not compile it.

#[cfg(feature = "ballista")]
mod address;
#[cfg(feature = "ballista")]
mod client;
#[cfg(feature = "ballista")]
mod codec;
#[cfg(feature = "ballista")]
mod jobs;
#[cfg(feature = "ballista")]
mod server;

/// Refusal of rules for kernels, which executors do not get.
pub const NO_CLASSES: &str =
    "executors classify kernels with the built-in table: give --classes without --cluster";

#[cfg(feature = "ballista")]
pub use address::Address;
#[cfg(feature = "ballista")]
pub use client::Client;
#[cfg(feature = "ballista")]
pub use jobs::Jobs;
#[cfg(feature = "ballista")]
pub use server::{ExecutorOptions, executor, scheduler};
