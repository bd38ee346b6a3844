//! Query, summarise, convert, merge and package rocPD databases.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(rocpd::main_from(std::env::args_os()))
}
