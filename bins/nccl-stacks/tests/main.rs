//! Tests of the tool as a whole, in one program.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step is a failed test; a missing folder must be said aloud"
)]

mod capture;
mod cases;
mod cli;
mod demo;
mod formats;
mod matrix;
mod measures;
mod samples;
mod support;
