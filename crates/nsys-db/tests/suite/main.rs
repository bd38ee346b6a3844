//! Small exports made here, with planted truth: old and new schemas, equal ids in two processes, graphs, payloads, damage.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod collectives;
mod lean;
mod reading;
mod robustness;
mod support;
