//! Where does the GPU time of a trace go, to the nanosecond?
//!
//! * [`GpuWork`]: the kernels, copies and fills of a trace;
//! * [`Rules`], [`Roles`]: what of it is communication, computation and copying, by definitions
//!   that are stated and can be chosen;
//! * [`gpu_time`], [`Account`], [`split()`]: busy and idle time, exposed communication, overlap, of
//!   all of the time, a window, a step or a stream; [`notes`]: how far these numbers could move;
//! * [`kernels()`]: durations by name, class, operator, Python module or stream;
//! * [`idle()`], [`idle_parts`]: gaps and what the device was waiting for;
//! * [`launches`], [`launch_parts`]: the way from the call to the device, and the depth of the
//!   queues;
//! * [`memory()`]: allocations, where they were recorded;
//! * [`no_gpu_work`]: why a trace holds no GPU activity, in one sentence;
//! * [`compat`]: the windows, classes and tables of HolisticTraceAnalysis and TraceLens.
//! * [`diff`]: two traces of the same model, matched by structure;
//! * [`comm`]: collectives of all ranks of a job, clocks, waits, the straggler.
//!
//! All results can be serialised (`serde::Serialize`); kinds are then their stable names.
//!
//! All times are integer nanoseconds and unions of half-open intervals, never sums of rounded
//! numbers. [`tables`] makes tables of the results. What this crate does not do: no files, no
//! formats.
//!
//! ```
//! use gpu_time::{Account, Role, WorkKind};
//!
//! let mut account = Account::new();
//! account.add(WorkKind::Kernel, Role::Computation, (0, 60));
//! account.add(WorkKind::Kernel, Role::Communication, (40, 100));
//! account.add(WorkKind::Memcpy, Role::Memcpy, (120, 130));
//! let time = account.finish();
//! assert_eq!((time.span_ns, time.busy_ns, time.idle_ns), (130, 110, 20));
//! assert_eq!((time.comp_ns, time.exposed_comm_ns, time.exposed_memcpy_ns), (60, 40, 10));
//! ```

mod account;
pub mod answer;
mod bound;
mod caveats;
pub mod comm;
pub mod compat;
pub mod diff;
mod error;
mod host_code;
mod idle;
mod kernels;
mod launch;
mod marks;
mod memory;
mod named;
mod no_work;
mod note;
mod origin;
mod overview;
mod own_time;
mod passing;
mod recorder;
mod rules;
mod split;
mod spread;
mod submission;
mod sweep;
pub mod tables;
mod work;

pub use account::{Account, GpuTime, LARGE_GAP_NS, Unions, account, gpu_time, percent};
pub use bound::{IDLE_MUCH_PCT, IdleBound, IdleVerdict, LONG_CALL_NS};
pub use caveats::{damage, granularity_ns, launch_calls, notes};
pub use error::Error;
pub use idle::{
    Gap, Idle, IdleCause, IdlePart, IdleRow, IdleScope, IdleTime, PLAUSIBLE_LATENCY_NS, idle,
    idle_parts,
};
pub use kernels::{
    KernelGroup, KernelOptions, KernelSort, Kernels, KernelsBy, NO_LAUNCH, NO_MODULE, NO_SHAPE,
    class_of, kernels, kernels_with_durations,
};
pub use launch::{
    DepthPoint, DepthRow, EachLaunch, LaunchKind, LaunchPart, LaunchRow, LaunchTimes, Launches,
    each_launch, launch_parts, launches,
};
pub use marks::{step_marks, step_marks_by_process};
pub use memory::{MEMORY_KEYS, Memory, MemoryLines, MemoryPoint, MemoryRow, MemorySource, memory};
pub use no_work::{NoGpuReason, NoGpuWork, no_gpu_work, no_gpu_work_in};
pub use note::Note;
pub use origin::{module_of, operator_of};
pub use overview::{Overview, TopKernel};
pub use passing::{Passing, PassingKernels, PassingTime};
pub use recorder::{Lack, Recorder};
pub use rules::{Role, Roles, Rules};
pub use split::{
    Part, PlaceKind, STEP_PATTERNS, Split, Step, StepRule, WindowSpec, events_by_part, split, steps,
};
pub use spread::Spread;
pub use sweep::Sweep;
pub use work::{ARG_KEYS, GpuEvent, GpuWork, Selection, WorkKind};
