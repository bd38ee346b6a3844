//! One command from recordings to the reason.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(why::main_from(std::env::args_os()))
}
