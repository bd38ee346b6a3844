//! Tests of the tool as a whole, in one program.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod capture;
mod cases;
mod cli;
mod demo;
mod formats;
mod matrix;
mod measures;
mod samples;
mod support;
