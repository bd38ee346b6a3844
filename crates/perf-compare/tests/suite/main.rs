//! Tests of the whole comparison, from files to verdict.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::float_cmp,
    reason = "a failed step fails the test, and a skipped one says so; planted numbers are exact"
)]
#![expect(
    dead_code,
    reason = "the example that shares the simulator uses all of it"
)]

#[path = "../../examples/calibrate/measure.rs"]
mod measure;
#[path = "../../examples/calibrate/simulate.rs"]
mod simulate;

mod bad_input;
mod calibration;
mod come_and_go;
mod copies;
mod counted;
mod data;
mod evidence;
mod mix;
mod oracles;
mod planted;
mod published;
mod ranks;
mod real_faults;
mod roll_up;
mod runs;
mod sentences;
mod shifting;
mod stated;
mod tails;
mod work_apart;
mod workload;
