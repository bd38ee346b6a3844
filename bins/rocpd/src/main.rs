//! Query, summarise, convert, merge and package rocPD databases.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocpd::main()
}
