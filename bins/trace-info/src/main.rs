//! Describes the contents and the data quality of a trace.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(trace_info::main_from(std::env::args_os()))
}
