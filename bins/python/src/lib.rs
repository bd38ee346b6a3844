//! The native half of the Python package `inferscope`: runs the tools in this process, without the lock of the interpreter, and
//! exports their tables as Arrow streams. Names, options and representations for people are in `python/inferscope`.

mod answer;
mod document;
mod running;

use std::ffi::OsString;
use std::path::PathBuf;

use cli::VerbosityArgs;

use pyo3::prelude::*;

/// Runs a command line as the executable does, with the process's own streams. Returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| inferscope::main_from(words))
}

/// Returns the traces that paths stand for, and why there are none.
#[pyfunction]
fn expand(py: Python<'_>, paths: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let quiet = VerbosityArgs {
        quiet: true,
        verbose: false,
    };
    let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    match py.detach(|| trace_input::expand(&paths, quiet)) {
        Ok(files) => (files.into_iter().map(OsString::from).collect(), None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<answer::Table>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(expand, module)?)?;
    module.add_function(wrap_pyfunction!(running::call, module)?)?;
    module.add_function(wrap_pyfunction!(answer::parse, module)?)
}
