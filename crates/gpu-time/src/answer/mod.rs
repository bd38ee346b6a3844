//! Answers in words: a sentence on the GPU time of a recording.

mod gpu;
mod idle;
mod launch;

pub use gpu::{devices, traces};
pub use idle::{host_in_gaps, idle};
pub use launch::launch;
