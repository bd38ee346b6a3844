//! Recordings as data sets of Hive-partitioned Parquet files.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(export::main_from(std::env::args_os()))
}
