//! Runs a tool on a thread of its own while the caller's thread looks after signals and progress.

use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use cli::in_process::Call;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::answer::Answer;

/// Time between two looks at signals: an interrupt ends a call within twice of it.
const LOOK: Duration = Duration::from_millis(50);

/// Stack of the thread: that of a main thread, where the tools run on a command line.
const STACK_BYTES: usize = 8 << 20;

/// Runs a command line and returns what it answered. `progress` is called with the bytes read so far and those to read in all,
/// every 0.05 s, and may raise to end the call.
///
/// When a signal's handler raises, the tool is told to stop and its thread is left to end by itself; nothing waits for it.
#[pyfunction]
#[pyo3(signature = (words, progress=None))]
pub(crate) fn call(
    py: Python<'_>,
    words: Vec<OsString>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    let call = Call::default();
    let (send, receive) = channel();
    let mine = call.clone();
    let work = move || {
        // The receiver is gone after an interrupt.
        let _ = send.send(mine.run(|| inferscope::main_from(words)));
    };
    thread::Builder::new()
        .name("inferscope".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    let mut receive = receive;
    loop {
        let found = py.detach(|| {
            let found = receive.recv_timeout(LOOK);
            (found, receive)
        });
        receive = found.1;
        match found.0 {
            Ok(answer) => return Ok(Answer::new(answer)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "internal defect: the thread of the tool ended without an answer",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let asked = py.check_signals().and_then(|()| match &progress {
            Some(progress) => progress.call1(py, call.progress()).map(drop),
            None => Ok(()),
        });
        if let Err(error) = asked {
            call.stop();
            return Err(error);
        }
    }
}
