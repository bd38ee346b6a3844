//! What is in a trace and how healthy it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(trace_info::main_from(std::env::args_os()))
}
