//! Generates rocPD databases with known truth, for tests and measurements.
//!
//! [`generate`] writes one database for each rank of a simulated job: steps with layers as nested
//! markers, launches with HSA calls inside them, kernels, memcpy, allocations that reuse addresses,
//! scratch, RCCL calls, marks and counters. The truth about the rows is accumulated while they are
//! generated, never by SQL, and returned as [`Truth`].
//!
//! The same [`Shape`] always gives the same rows. The crate does not imitate any program and does
//! not read databases.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let mut shape = rocpd_synth::Shape::small();
//! shape.ranks = 2;
//! let made = rocpd_synth::generate(folder.path(), &shape)?;
//! assert_eq!(made.len(), 2);
//! assert_eq!(made[0].truth.kernels.values().map(|k| k.calls).sum::<u64>(), made[0].truth.dispatches);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod database;
mod make;
mod random;
mod schema;
mod shape;
mod truth;

pub use database::Error;
pub use make::{Made, generate};
pub use shape::Shape;
pub use truth::{Moments, Truth};
