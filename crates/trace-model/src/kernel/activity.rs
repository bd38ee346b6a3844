//! Classifies the slices of GPU traces.

use crate::ids::SliceId;
use crate::kernel::{Vocabulary, rows};
use crate::table::slice::CategoryId;
use crate::trace::{Slice, Trace};

/// Activity of a slice, from its category and name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Activity {
    /// None of the others.
    Other,
    /// A Python function.
    PythonFunction,
    /// An operator of the framework.
    CpuOp,
    /// A range that the program marked on the host.
    UserAnnotation,
    /// The projection of such a range onto the device.
    GpuAnnotation,
    /// A runtime or driver call that launches a kernel.
    Launch,
    /// A call that launches a recorded graph of kernels.
    GraphLaunch,
    /// A runtime or driver call for a memcpy.
    MemcpyApi,
    /// A runtime or driver call for a memset.
    MemsetApi,
    /// A runtime or driver call that waits for the device.
    SyncApi,
    /// Any other runtime or driver call.
    OtherApi,
    /// A call of the collective library.
    CollectiveApi,
    /// A kernel on the device.
    Kernel,
    /// A memcpy on the device.
    GpuMemcpy,
    /// A memset on the device.
    GpuMemset,
    /// A graph of kernels that was recorded as a whole: one activity for each launch, of unknown composition.
    GpuGraph,
    /// A wait or event on the device.
    GpuSync,
    /// Profiler overhead.
    Overhead,
}

impl Activity {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::PythonFunction => "python_function",
            Self::CpuOp => "cpu_op",
            Self::UserAnnotation => "user_annotation",
            Self::GpuAnnotation => "gpu_annotation",
            Self::Launch => "launch",
            Self::GraphLaunch => "graph_launch",
            Self::MemcpyApi => "memcpy_api",
            Self::MemsetApi => "memset_api",
            Self::SyncApi => "sync_api",
            Self::OtherApi => "other_api",
            Self::CollectiveApi => "collective_api",
            Self::Kernel => "kernel",
            Self::GpuMemcpy => "gpu_memcpy",
            Self::GpuMemset => "gpu_memset",
            Self::GpuGraph => "gpu_graph",
            Self::GpuSync => "gpu_sync",
            Self::Overhead => "overhead",
        }
    }

    /// Returns `true` for calls of the runtime or driver on the host.
    pub fn is_api(self) -> bool {
        matches!(
            self,
            Self::Launch
                | Self::GraphLaunch
                | Self::MemcpyApi
                | Self::MemsetApi
                | Self::SyncApi
                | Self::OtherApi
        )
    }

    /// Returns `true` for activities of a host thread.
    pub fn is_on_host(self) -> bool {
        matches!(
            self,
            Self::PythonFunction
                | Self::CpuOp
                | Self::UserAnnotation
                | Self::CollectiveApi
                | Self::Overhead
        ) || self.is_api()
    }

    /// Returns `true` for GPU activity: kernel, memcpy, memset, or a graph recorded as a whole.
    pub fn is_device_work(self) -> bool {
        matches!(
            self,
            Self::Kernel | Self::GpuMemcpy | Self::GpuMemset | Self::GpuGraph
        )
    }
}

/// One row of the table: case-insensitive globs, alternatives separated by `|`.
#[derive(Clone, Copy, Debug)]
pub struct ActivityRule {
    /// Category of the slice.
    pub category: &'static str,
    /// Name of the slice.
    pub name: &'static str,
    /// Activity of matching slices.
    pub activity: Activity,
}

const fn rule(category: &'static str, name: &'static str, activity: Activity) -> ActivityRule {
    ActivityRule {
        category,
        name,
        activity,
    }
}

/// Runtime and driver calls: Kineto (also for HIP), rocprofv3, rocprofiler-systems, XPU and MTIA.
const API: &str = "cuda_runtime|cuda_driver|hip_api|hip_runtime_api|hip_runtime|hip_compiler_api|hsa_api|\
rocm_hip_api|rocm_hip_runtime_api|rocm_hsa_api|xpu_runtime|mtia_runtime|privateuse1_runtime";

/// Rules by category, then by name. Kineto's categories are those of its `ActivityType`;
/// rocprofv3's and rocprofiler-systems' are those of their Perfetto output.
pub const ACTIVITY_RULES: &[ActivityRule] = &[
    rule("python_function", "*", Activity::PythonFunction),
    rule("cpu_op|operator", "*", Activity::CpuOp),
    rule(
        "user_annotation|marker_api|marker_core_api|marker_core_range_api|rocm_marker_api|roctx|nvtx",
        "*",
        Activity::UserAnnotation,
    ),
    rule("gpu_user_annotation", "*", Activity::GpuAnnotation),
    rule(
        "kernel|concurrent_kernel|kernel_dispatch|rocm_kernel_dispatch|device_hip_activity|mtia_ccp_events",
        "*",
        Activity::Kernel,
    ),
    rule(
        "gpu_memcpy|memory_copy|rocm_memory_copy",
        "*",
        Activity::GpuMemcpy,
    ),
    rule("gpu_memset", "*", Activity::GpuMemset),
    rule("cuda_graph", "*", Activity::GpuGraph),
    rule(
        "cuda_sync|cuda_event|xpu_sync|hip_sync",
        "*",
        Activity::GpuSync,
    ),
    rule("rccl_api|rocm_rccl_api", "*", Activity::CollectiveApi),
    rule(API, "*GraphLaunch*", Activity::GraphLaunch),
    rule(
        API,
        "*LaunchHostFunc*|*Graph*|*Capture*|*CallConfiguration*",
        Activity::OtherApi,
    ),
    rule(
        API,
        "*Launch*Kernel*|cudaLaunch|cuLaunch|cuLaunchGrid*|hipLaunchByPtr|*enqueueKernel*|*AppendLaunch*",
        Activity::Launch,
    ),
    rule(API, "*Memcpy*|*MemoryCopy*", Activity::MemcpyApi),
    rule(API, "*Memset*|*MemoryFill*", Activity::MemsetApi),
    rule(API, "*Synchronize*|*WaitEvent*", Activity::SyncApi),
    rule(API, "*", Activity::OtherApi),
    rule("overhead|python_gc", "*", Activity::Overhead),
];

/// Returns `true` if `name` is a runtime or driver call that launches a kernel, but not a graph.
/// The names are those of CUDA and HIP; the category is ignored.
pub fn is_launch_api(name: &str) -> bool {
    builtin_api(name) == Activity::Launch
}

/// Returns `true` if `name` is a call that launches a graph (`cudaGraphLaunch`, `cuGraphLaunch`,
/// `hipGraphLaunch`).
pub fn is_graph_launch(name: &str) -> bool {
    builtin_api(name) == Activity::GraphLaunch
}

fn builtin_api(name: &str) -> Activity {
    Vocabulary::default().activity("cuda_runtime", name)
}

/// The [`Activity`] of every slice of one trace; each category and name is classified once.
#[derive(Clone, Debug)]
pub struct ActivityMap {
    /// Activity of each category, or the table of names to use.
    by_category: Vec<Verdict>,
    /// Activities by name, for the categories where the name matters.
    by_name: Vec<Vec<Option<Activity>>>,
    /// Table of names for slices without a category, for each track.
    by_track: Vec<Option<usize>>,
    device_work: Vec<SliceId>,
    calls: Vec<SliceId>,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Always(Activity),
    ByName(usize),
}

impl ActivityMap {
    /// Classifies all categories and names of `trace`. Cost: one pass over three columns, and the
    /// patterns once for each distinct name of a runtime API call.
    pub fn new(trace: &Trace, vocabulary: &Vocabulary) -> Self {
        let mut tables = 0;
        let categories: Vec<&str> = trace.categories().map(|c| c.1).collect();
        let by_category: Vec<Verdict> = categories
            .iter()
            .map(|category| match vocabulary.activity_of_category(category) {
                Some(activity) => Verdict::Always(activity),
                None => {
                    tables += 1;
                    Verdict::ByName(tables - 1)
                }
            })
            .collect();
        let (rows, by_track) = rows::of_tracks(trace);
        let by_track = by_track.into_iter();
        let mut map = Self {
            by_category,
            by_name: vec![vec![None; trace.strings().len()]; tables + rows.len()],
            by_track: by_track.map(|set| Some(set? + tables)).collect(),
            device_work: Vec::new(),
            calls: Vec::new(),
        };
        let columns = trace.slices.category.iter().zip(&trace.slices.name);
        for (row, (category, name)) in columns.enumerate() {
            let at = usize::from(category.0);
            let activity = match map.by_category.get(at) {
                None => {
                    let track = trace.slices.track.get(row);
                    let table = track.and_then(|t| *map.by_track.get(t.index())?);
                    let (Some(table), Some(name)) = (table, name) else {
                        continue;
                    };
                    let Some(known) = map.by_name[table].get_mut(name.index()) else {
                        continue;
                    };
                    *known.get_or_insert_with(|| rows[table - tables].activity(trace.text(*name)))
                }
                Some(Verdict::Always(activity)) => *activity,
                Some(Verdict::ByName(table)) => {
                    let known = name.and_then(|n| map.by_name.get_mut(*table)?.get_mut(n.index()));
                    match (known, name) {
                        (Some(known), Some(name)) => *known.get_or_insert_with(|| {
                            vocabulary.activity(categories[at], trace.text(*name))
                        }),
                        _ => Activity::OtherApi,
                    }
                }
            };
            if activity.is_device_work() {
                map.device_work.extend(SliceId::new(row));
            } else if activity.is_api() || activity == Activity::CollectiveApi {
                map.calls.extend(SliceId::new(row));
            }
        }
        map
    }

    /// Returns the kernels, memcpys, memsets and graphs of the trace in ascending time.
    pub fn device_work(&self) -> &[SliceId] {
        &self.device_work
    }

    /// Returns the calls of runtime, driver and collective library in ascending time.
    pub fn calls(&self) -> &[SliceId] {
        &self.calls
    }

    /// Returns the activity of `slice`, by its category; without a category, by its track
    /// ([`ROW_RULES`](crate::kernel::ROW_RULES)).
    pub fn of(&self, slice: Slice<'_>) -> Activity {
        match self.by_category.get(usize::from(slice.category_id().0)) {
            None => self.on_row(slice).unwrap_or(Activity::Other),
            Some(Verdict::Always(activity)) => *activity,
            Some(Verdict::ByName(table)) => slice
                .name_id()
                .and_then(|name| *self.by_name.get(*table)?.get(name.index())?)
                .unwrap_or(Activity::OtherApi),
        }
    }

    /// Returns the activity of all slices of a category: [`Activity::Other`] where it depends on their names.
    pub fn of_category(&self, category: CategoryId) -> Activity {
        let verdict = category.index().and_then(|at| self.by_category.get(at));
        match verdict {
            Some(Verdict::Always(activity)) => *activity,
            _ => Activity::Other,
        }
    }

    fn on_row(&self, slice: Slice<'_>) -> Option<Activity> {
        let table = (*self.by_track.get(slice.track_id().index())?)?;
        *self.by_name.get(table)?.get(slice.name_id()?.index())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Vocabulary;

    #[test]
    fn names_of_calls_decide_what_they_are() {
        let v = Vocabulary::default();
        for (name, want) in [
            ("cudaLaunchKernel", Activity::Launch),
            ("cudaLaunchKernelExC", Activity::Launch),
            ("cuLaunchKernelEx", Activity::Launch),
            (
                "cudaLaunchCooperativeKernelMultiDevice_v9000",
                Activity::Launch,
            ),
            ("hipExtModuleLaunchKernel", Activity::Launch),
            ("hipModuleLaunchKernel", Activity::Launch),
            ("hipExtLaunchKernel", Activity::Launch),
            ("hipGraphLaunch", Activity::GraphLaunch),
            ("cudaGraphLaunch_v10000", Activity::GraphLaunch),
            ("cuGraphLaunch", Activity::GraphLaunch),
            ("cudaGraphKernelNodeSetParams", Activity::OtherApi),
            ("hipStreamGetCaptureInfo", Activity::OtherApi),
            ("cudaLaunchHostFunc", Activity::OtherApi),
            ("__hipPushCallConfiguration", Activity::OtherApi),
            ("hipMemcpyWithStream", Activity::MemcpyApi),
            ("cudaMemsetAsync", Activity::MemsetApi),
            ("cudaDeviceSynchronize", Activity::SyncApi),
            ("hipStreamWaitEvent", Activity::SyncApi),
            ("hipGetDevicePropertiesR0600", Activity::OtherApi),
        ] {
            assert_eq!(v.activity("cuda_runtime", name), want, "{name}");
            assert_eq!(v.activity("hip_api", name), want, "{name}");
            assert_eq!(is_launch_api(name), want == Activity::Launch, "{name}");
            assert_eq!(is_graph_launch(name), want == Activity::GraphLaunch);
        }
    }

    #[test]
    fn categories_of_other_producers_are_known() {
        let v = Vocabulary::default();
        for (category, want) in [
            ("kernel_dispatch", Activity::Kernel),
            ("rocm_kernel_dispatch", Activity::Kernel),
            ("memory_copy", Activity::GpuMemcpy),
            ("marker_api", Activity::UserAnnotation),
            ("rccl_api", Activity::CollectiveApi),
            ("gpu_user_annotation", Activity::GpuAnnotation),
            ("overhead", Activity::Overhead),
            ("ac2g", Activity::Other),
        ] {
            assert_eq!(v.activity(category, "anything"), want, "{category}");
        }
    }
}
