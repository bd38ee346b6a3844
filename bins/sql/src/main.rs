//! SQL over recordings and exported data sets.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(sql::main_from(std::env::args_os()))
}
