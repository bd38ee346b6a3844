//! The runtime that waits for servers.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that wait for servers, decrypt and copy.
const THREADS: usize = 2;

static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

/// Returns the runtime.
///
/// # Errors
///
/// Returns an error if the system starts no threads.
pub(crate) fn handle() -> io::Result<&'static Handle> {
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("objects");
        builder.enable_all().build().ok()
    });
    let none = || io::Error::other("the system starts no threads for downloads");
    runtime.as_ref().map(Runtime::handle).ok_or_else(none)
}

/// Waits for a result. Unlike `Runtime::block_on` it may be called from a thread of any runtime.
///
/// # Errors
///
/// Returns an error if the system starts no threads.
pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = sync_channel(1);
    handle()?.spawn(async move {
        // The receiver waits below.
        let _ = done.send(work.await);
    });
    let ended = |_| io::Error::other("the download stopped unexpectedly");
    result.recv().map_err(ended)
}
