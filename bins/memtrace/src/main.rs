//! Executable of `memtrace`: analyses how long data lives in memory during inference.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(memtrace::main_from(std::env::args_os()))
}
