//! What stands out among the ranks of a job of any size.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fleet_tool::main_from(std::env::args_os()))
}
