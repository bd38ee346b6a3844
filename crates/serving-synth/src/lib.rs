//! Recordings of simulated serving jobs with planted faults, for tests, demonstrations and measurements.
//!
//! * [`sim`]: host threads, streams and collectives that wait for each other, in true nanoseconds;
//! * [`kineto`]: a rank of a simulation as a trace of Kineto;
//! * [`jobs`]: jobs of 1, 2 or 8 ranks with one of many faults, or none, and what is true of them;
//! * [`fleet`]: jobs of any number of small ranks, with planted differences between them;
//! * [`json`], [`rng`]: what they are written and drawn with.
//!
//! The crate uses no reader and no analysis, so it cannot share their mistakes.
//!
//! ```
//! use serving_synth::jobs::{Fault, Job};
//!
//! let made = Job { ranks: 2, steps: 4, ..Job::default() }.make();
//! assert_eq!(made.ranks.len(), 2);
//! assert_eq!(made.truth.fault, Fault::None);
//! ```

pub mod fleet;
pub mod jobs;
pub mod json;
pub mod kineto;
pub mod rng;
pub mod sim;
