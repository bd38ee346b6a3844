//! Executable of `perf-compare`: tests whether the second run differs from the first, by how much,
//! and why.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(perf_compare_tool::main_from(std::env::args_os()))
}
