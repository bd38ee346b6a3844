//! What kind of work a function is.

use trace_model::Waiting;
use trace_model::kernel::is_collective;

/// Kinds of work, from the function's type and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// A kernel that computes.
    Kernel,
    /// A kernel that communicates, and so may wait for other ranks.
    Collective,
    CopyToDevice,
    CopyToHost,
    CopyOnDevice,
    /// Threads on a processor.
    OnCpu,
    /// Threads that wait for a processor.
    RunQueue,
    /// Reads and writes.
    Disk,
    /// Waiting for the device.
    Sync,
    /// Memory system calls.
    MemoryCall,
    /// Waiting for input (requests, batches of data, items of a queue), as the recorder states it by what the call is inside.
    Requests,
    /// Waiting for a lock, another thread or process, or a timer, as the recorder states it.
    Blocked,
    /// Anything else on the host: functions of the program.
    Host,
}

/// Returns `true` for calls that wait: for the device, another thread or process, input. Their time follows that of what they
/// wait for.
pub(crate) fn is_wait(name: &str) -> bool {
    waits_for(name).is_some()
}

/// Returns what a function waits for in its own time, if it does.
pub(crate) fn waits_for(name: &str) -> Option<Waiting> {
    Waiting::of_own_time(name).or_else(|| {
        // A blocking copy waits for all work before it.
        let runtime = ["cuda", "hip", "cu"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))?;
        let lower = runtime.to_ascii_lowercase();
        (lower.starts_with("memcpy") && !lower.contains("async")).then_some(Waiting::Device)
    })
}

impl Class {
    pub(crate) fn of(func_type: &str, name: &str, device: &str) -> Self {
        match func_type {
            "gpu_comm" => Self::Collective,
            "gpu_compute" if is_collective(name) => Self::Collective,
            "gpu_compute" => Self::Kernel,
            "gpu_memcpy_h2d" if name.starts_with("Memset") => Self::Kernel,
            "gpu_memcpy_h2d" => Self::CopyToDevice,
            "gpu_memcpy_d2h" => Self::CopyToHost,
            "gpu_memcpy_d2d" => Self::CopyOnDevice,
            "oncpu" => Self::OnCpu,
            "runq" => Self::RunQueue,
            "disk_read_and_write" => Self::Disk,
            "cpu_sync" => Self::Sync,
            "cpu_os_syscall_mem" => Self::MemoryCall,
            "requests" => Self::Requests,
            "blocked" => Self::Blocked,
            _ if device.starts_with("GPU") && name.starts_with("Memcpy HtoD") => Self::CopyToDevice,
            _ if device.starts_with("GPU") && name.starts_with("Memcpy DtoH") => Self::CopyToHost,
            _ if device.starts_with("GPU") && name.starts_with("Memcpy") => Self::CopyOnDevice,
            _ if device.starts_with("GPU") && is_collective(name) => Self::Collective,
            _ if device.starts_with("GPU") => Self::Kernel,
            _ if name.starts_with("oncpu") => Self::OnCpu,
            _ if name == "runq" => Self::RunQueue,
            _ if matches!(
                name,
                "read" | "readv" | "write" | "writev" | "pread64" | "pwrite64" | "fsync"
            ) =>
            {
                Self::Disk
            }
            _ if matches!(name, "mmap" | "munmap" | "mprotect" | "madvise" | "brk") => {
                Self::MemoryCall
            }
            // Allocation on the device stops the program as a system call does.
            _ if ["cuda", "cu", "hip"]
                .iter()
                .filter_map(|prefix| name.strip_prefix(prefix))
                .any(|rest| {
                    [
                        "Malloc",
                        "Free",
                        "MemAlloc",
                        "MemFree",
                        "MemMap",
                        "MemUnmap",
                        "HostAlloc",
                    ]
                    .iter()
                    .any(|call| rest.starts_with(call))
                }) =>
            {
                Self::MemoryCall
            }
            _ if name.ends_with("StreamSynchronize")
                || name.ends_with("DeviceSynchronize")
                || name.ends_with("EventSynchronize") =>
            {
                Self::Sync
            }
            _ => Self::Host,
        }
    }

    /// Returns `true` if a capture that has any function of its device, or any of the host, would have this: what such a
    /// capture lacks did not happen. Threads on processors, accesses to disks and memory system calls are recorded apart.
    pub(crate) fn is_recorded_with_others(self) -> bool {
        !matches!(
            self,
            Self::OnCpu | Self::RunQueue | Self::Disk | Self::MemoryCall
        )
    }

    /// Returns `true` for calls that allocate or free memory of a GPU: unlike system calls they are recorded with all other
    /// calls of the runtime, so that a side without them made none.
    pub(crate) fn is_of_runtime(name: &str) -> bool {
        ["cuda", "cu", "hip"].iter().any(|api| {
            let rest = name.strip_prefix(api);
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        })
    }

    /// Whether it runs on a device.
    pub(crate) fn on_device(self) -> bool {
        matches!(
            self,
            Self::Kernel
                | Self::Collective
                | Self::CopyToDevice
                | Self::CopyToHost
                | Self::CopyOnDevice
        )
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Collective => "collective",
            Self::CopyToDevice => "copy_to_device",
            Self::CopyToHost => "copy_to_host",
            Self::CopyOnDevice => "copy_on_device",
            Self::OnCpu => "on_cpu",
            Self::RunQueue => "run_queue",
            Self::Disk => "disk",
            Self::Sync => "sync",
            Self::MemoryCall => "memory_call",
            Self::Requests => "requests",
            Self::Blocked => "blocked",
            Self::Host => "host",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_names() {
        assert_eq!(
            Class::of(
                "gpu_compute",
                "void sglang::cross_device_reduce_1stage<x>()",
                "GPU 6"
            ),
            Class::Collective
        );
        assert_eq!(Class::of("gpu_compute", "gemm", "GPU 6"), Class::Kernel);
        assert_eq!(
            Class::of("", "ncclDevKernel_AllGather", "GPU 0"),
            Class::Collective
        );
        assert_eq!(Class::of("", "Scheduler.process", "Host"), Class::Host);
        assert_eq!(Class::of("", "write", "Host"), Class::Disk);
        assert_eq!(Class::of("", "cudaMallocAsync", "Host"), Class::MemoryCall);
        assert_eq!(Class::of("", "customer.find", "Host"), Class::Host);
        let lock = "<method 'acquire' of '_thread.lock' objects>";
        assert_eq!(Class::of("requests", lock, "Host"), Class::Requests);
        assert_eq!(Class::of("blocked", lock, "Host"), Class::Blocked);
        for name in [
            "concurrent/futures/_base.py(428): result",
            "threading.py(607): wait",
            "<built-in method select of x>",
            "hipMemcpyWithStream",
            "cudaStreamSynchronize",
            "aten::item",
        ] {
            assert!(is_wait(name), "{name}");
        }
        for name in [
            "cudaMemcpyAsync",
            "Scheduler.process_batch_result",
            "cudaLaunchKernel",
        ] {
            assert!(!is_wait(name), "{name}");
        }
    }
}
