//! Every tool in one executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(inferscope::main_from(std::env::args_os()))
}
