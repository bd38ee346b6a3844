//! From a serving trace to cycles, per-cycle performance and the cause.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cycle_rca::main_from(std::env::args_os()))
}
