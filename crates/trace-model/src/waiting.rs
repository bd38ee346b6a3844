//! Recognizes waiting host functions by name.

/// The object that a function waits for while it is idle itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Waiting {
    /// GPU activity.
    Device,
    /// External input: a request, a message, a queue, a lock, a timer.
    Input,
    /// Another thread or process that works.
    Peer,
}

/// Functions that wait for the device, by plain name.
const DEVICE: [&str; 5] = [
    "synchronize",
    "synchronise",
    "item",
    "tolist",
    "_local_scalar_dense",
];

/// Functions that wait for external input. SGLang and vLLM receive requests with the last five.
const INPUT: [&str; 25] = [
    "acquire",
    "select",
    "poll",
    "ppoll",
    "pselect",
    "epoll",
    "epoll_wait",
    "epoll_pwait",
    "kevent",
    "sleep",
    "nanosleep",
    "clock_nanosleep",
    "accept",
    "recv",
    "recv_into",
    "recvfrom",
    "recvmsg",
    "recv_bytes",
    "recv_json",
    "recv_multipart",
    "recv_pyobj",
    "recv_requests",
    "recv_reqs",
    "get_requests",
    "pull_requests",
];

/// Functions that wait for another thread or process.
const PEER: [&str; 11] = [
    "wait",
    "wait_for",
    "wait_for_tokens",
    "barrier",
    "waitpid",
    "waitid",
    "wait3",
    "wait4",
    "futex",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
];

/// Functions that run others and wait between these: their own time is waiting, that of their
/// callees is not.
const LOOPS: [&str; 10] = [
    "run_forever",
    "_run_once",
    "get_output",
    "dequeue",
    "_process_input_queue",
    "process_input_sockets",
    "_fetch_and_activate_new_requests",
    "_fetch_new_requests",
    "fetch_new_requests",
    "get_from_request_queue",
];

/// Returns the name of a function without file, class, namespace and object: `acquire` for
/// `threading.Lock.acquire`, `get` for `queue.py(12): get`, `poll` for `<built-in method poll of
/// select.epoll object at 0x7f>` and for `<method 'poll' of 'select.epoll' objects>`.
fn plain(name: &str) -> &str {
    for head in ["<built-in method ", "<built-in function "] {
        if let Some(rest) = name.strip_prefix(head) {
            let own = rest.split([' ', '>']).next().unwrap_or(rest);
            let own = own.rsplit('.').next().unwrap_or(own);
            return own.strip_prefix("posix_").unwrap_or(own);
        }
    }
    if let Some(rest) = name.strip_prefix("<method '") {
        return rest.split('\'').next().unwrap_or(rest);
    }
    let last = name.rsplit([' ', '.', '/', ':']).next().unwrap_or(name);
    last.trim_end_matches("()").trim_end_matches('>')
}

/// Returns `true` for `os.read`, by which pipes of other processes are read. The `read` of files and of other objects mostly waits for nothing.
fn is_os_read(name: &str) -> bool {
    matches!(
        name,
        "<built-in function read>" | "<built-in method posix.read>" | "posix.read" | "os.read"
    ) || name.starts_with("<built-in method read of module object")
}

/// Parts of the names of functions that take requests from outside (SGLang, vLLM, TensorRT-LLM).
const TAKES_REQUESTS: [&str; 9] = [
    "recv_requests",
    "recv_reqs",
    "_process_input_queue",
    "process_input_sockets",
    "get_requests",
    "pull_requests",
    "fetch_new_requests",
    "_fetch_and_activate_new_requests",
    "get_from_request_queue",
];

/// Returns `true` for functions of serving engines that take requests from outside: what blocks inside them waits for
/// requests, whatever primitive it uses.
///
/// ```
/// assert!(trace_model::takes_requests("vllm/v1/engine/core.py(702): _process_input_queue"));
/// assert!(!trace_model::takes_requests("queue.py(154): get"));
/// ```
#[must_use]
pub fn takes_requests(name: &str) -> bool {
    TAKES_REQUESTS.iter().any(|part| name.contains(part))
}

/// Functions that load a batch of data, by plain name, whatever their file is called.
const LOADS_DATA: [&str; 8] = [
    "get_batch",
    "get_next_batch",
    "next_batch",
    "fetch_batch",
    "load_batch",
    "_next_data",
    "_try_get_data",
    "IteratorGetNext",
];

/// Returns `true` for functions of data loaders: what blocks inside them waits for batches of data, whatever primitive it uses.
///
/// Names are those of Python profilers, of probes (`DataLoader.__next__`) and of marked ranges (`enumerate(DataLoader)#…`).
///
/// ```
/// assert!(trace_model::loads_data("torch/utils/data/dataloader.py(701): __next__"));
/// assert!(trace_model::loads_data("megatron/training.py(40): get_batch"));
/// assert!(!trace_model::loads_data("sglang/srt/managers/scheduler.py(1700): get_next_batch_to_run"));
/// ```
#[must_use]
pub fn loads_data(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut loaders = ["dataloader", "data_loader"].iter();
    loaders.any(|part| lower.contains(part)) || LOADS_DATA.contains(&plain(name))
}

/// Returns `true` for tensor operators, which share names with system calls: `select`, `poll`.
fn of_tensors(name: &str) -> bool {
    name.starts_with("aten::")
        || (name.starts_with("<built-in method ")
            && (name.contains(" of Tensor") || name.contains(" of type object")))
        || (name.starts_with("<method ") && name.contains(" of 'torch."))
}

impl Waiting {
    /// Returns what a call waits for in all of its time, including its callees; `None` if it does
    /// not wait.
    ///
    /// Names are those of Python profilers (`file.py(12): function`, `<built-in method …>`), of probes (`Class.method`), of
    /// operators (`aten::item`) and of the C library.
    ///
    /// ```
    /// use trace_model::Waiting;
    ///
    /// let lock = "<built-in method acquire of _thread.lock object at 0x7f3a5c1b2d80>";
    /// assert_eq!(Waiting::of_call(lock), Some(Waiting::Input));
    /// assert_eq!(Waiting::of_call("queue.py(154): get"), Some(Waiting::Input));
    /// assert_eq!(Waiting::of_call("cudaStreamSynchronize"), Some(Waiting::Device));
    /// assert_eq!(Waiting::of_call("customer.find"), None);
    /// ```
    #[must_use]
    pub fn of_call(name: &str) -> Option<Self> {
        let lower = plain(name).to_ascii_lowercase();
        let plain = lower.as_str();
        let holder = || name.to_ascii_lowercase();
        let is_queue = || plain == "get" && holder().contains("queue");
        let is_future = || plain == "result" && name.contains("futures");
        // Excludes the `join` of texts and paths.
        let is_join =
            || plain == "join" && ["thread", "process"].iter().any(|of| holder().contains(of));
        if DEVICE.contains(&plain) || plain.contains("synchronize") {
            Some(Self::Device)
        } else if of_tensors(name) {
            None
        } else if INPUT.contains(&plain) || is_queue() || is_os_read(name) {
            Some(Self::Input)
        } else if PEER.contains(&plain)
            || is_future()
            || is_join()
            || plain.ends_with("_wait")
            || plain.starts_with("wait_")
        {
            Some(Self::Peer)
        } else {
            None
        }
    }

    /// Returns what a function waits for in its own time, without its callees: the result of
    /// [`Waiting::of_call`], or that of a loop that runs others in between.
    #[must_use]
    pub fn of_own_time(name: &str) -> Option<Self> {
        Self::of_call(name).or_else(|| {
            let lower = plain(name).to_ascii_lowercase();
            match lower.as_str() {
                "result" => Some(Self::Peer),
                other => LOOPS.contains(&other).then_some(Self::Input),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_profilers_and_probes() {
        use Waiting::{Device, Input, Peer};
        for (name, want) in [
            (
                "<built-in method acquire of _thread.lock object at 0x7f>",
                Some(Input),
            ),
            (
                "<built-in method poll of select.epoll object at 0x7f>",
                Some(Input),
            ),
            ("<built-in function sleep>", Some(Input)),
            (
                "<built-in method get of _queue.SimpleQueue object at 0x1>",
                Some(Input),
            ),
            ("<method 'acquire' of '_thread.lock' objects>", Some(Input)),
            ("<method 'poll' of 'select.epoll' objects>", Some(Input)),
            ("<built-in method time.sleep>", Some(Input)),
            ("<built-in method select.select>", Some(Input)),
            ("<built-in function read>", Some(Input)),
            ("<built-in method posix.read>", Some(Input)),
            ("<built-in function waitpid>", Some(Peer)),
            ("<built-in function posix_waitpid>", Some(Peer)),
            ("<method 'read' of '_io.BufferedReader' objects>", None),
            ("<built-in method read of _io.BytesIO object at 0x1>", None),
            ("<method 'select' of 'torch._C.TensorBase' objects>", None),
            ("queue.get", Some(Input)),
            ("time.sleep", Some(Input)),
            ("multiprocessing/queues.py(103): get", Some(Input)),
            ("zmq/sugar/socket.py(700): recv_multipart", Some(Input)),
            ("Scheduler.recv_requests", Some(Input)),
            ("threading.py(607): wait", Some(Peer)),
            ("concurrent/futures/_base.py(428): result", Some(Peer)),
            ("std::thread::join", Some(Peer)),
            ("aten::item", Some(Device)),
            ("torch/cuda/streams.py(222): synchronize", Some(Device)),
            ("<built-in method get of dict object at 0x1>", None),
            ("Scheduler.get_next_batch_to_run", None),
            ("Scheduler.process_batch_result", None),
            ("cudaMemcpyAsync", None),
            ("<built-in method join of str object at 0x1>", None),
            ("posixpath.py(71): join", None),
            ("aten::select", None),
            ("<built-in method select of type object at 0x1>", None),
            ("", None),
        ] {
            assert_eq!(Waiting::of_call(name), want, "{name}");
        }
        // TensorRT-LLM activates the requests that it waits for.
        let name =
            "tensorrt_llm/_torch/pyexecutor/py_executor.py(1210): _fetch_and_activate_new_requests";
        assert_eq!(
            (Waiting::of_call(name), Waiting::of_own_time(name)),
            (None, Some(Input))
        );
        assert!(takes_requests(name));
        // A loop waits only in its own time.
        let name = "asyncio/base_events.py(590): run_forever";
        assert_eq!(
            (Waiting::of_call(name), Waiting::of_own_time(name)),
            (None, Some(Input))
        );
    }
}
