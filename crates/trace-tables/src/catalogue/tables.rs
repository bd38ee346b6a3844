//! The tables.

use super::{COMMON, ColumnSpec, TableSpec, bytes, flag, int, ns, real, text};

const fn spec(
    name: &'static str,
    sorted_by: Option<&'static str>,
    doc: &'static str,
    own: &'static [ColumnSpec],
) -> TableSpec {
    TableSpec {
        name,
        doc,
        head: &COMMON,
        own,
        sorted_by,
    }
}

/// All tables, in the order of the guide.
pub const TABLES: &[TableSpec] = &[
    spec(
        "files",
        None,
        "One row for each file.",
        &[
            text(
                "file",
                "Path as given, with the member of an archive after `!`.",
            ),
            text(
                "run",
                "Run that the file belongs to: the name of its folder.",
            ),
            text(
                "hash",
                "SHA-256 of the file as stored; null for a stream or a folder.",
            ),
            text(
                "format",
                "Format: `chrome-json`, `perfetto`, `rocpd`, `nsys` and others.",
            ),
            text("host", "Name of the machine, if the file states it."),
            int(
                "world_size",
                "Number of ranks of the job, if the file states it.",
            ),
            text("devices", "Devices with GPU activity, separated by commas."),
            text("clock", "Clock of the times."),
            ns(
                "base_time_ns",
                "Offset from a time to Unix time; 0 if the file does not state it.",
            ),
            ns("start_ns", "First start."),
            ns("end_ns", "Last end."),
            bytes("bytes", "Size after decompression."),
            int("slices", "Number of slices."),
            int("flows", "Number of flows."),
            int("counter_samples", "Number of counter samples."),
            int("kernels", "Number of kernels, without memcpy and memset."),
            int(
                "unlinked_kernels",
                "Kernels whose launch is not in the file.",
            ),
            int(
                "unlinked_flows",
                "Flows without a start or without a slice to bind to.",
            ),
            int("dropped", "Events of the file that are unusable."),
            int("lost", "Places where the recorder or the file lost data."),
            int(
                "clipped",
                "Slices that were truncated at the end of their parent.",
            ),
            int("unclosed", "Slices that were never closed."),
            int(
                "overlapping",
                "Slices that overlap another one of their track in part.",
            ),
            flag(
                "complete",
                "True if nothing is lost, truncated, dropped or unlinked.",
            ),
            text(
                "reasons",
                "Reasons why the file is not complete, separated by `; `.",
            ),
        ],
    ),
    spec(
        "slices",
        Some("ts"),
        "One row for each slice, in ascending time, parents first. An instant is a slice with `dur` 0.",
        &[
            int("id", "Id of the slice, unique over all files of a query."),
            ns("ts", "Start."),
            ns("dur", "Duration; -1 if the slice was never closed."),
            int("track_id", "Track: `tracks.id`."),
            text("category", "Category as recorded."),
            text("name", "Name."),
            int("depth", "Number of slices around it on its track."),
            int("parent_id", "Id of the slice around it."),
            int(
                "arg_set_id",
                "Key of its arguments in `args`; null without arguments.",
            ),
            ns(
                "thread_ts",
                "CPU time of the thread at its start, if recorded.",
            ),
            ns("thread_dur", "CPU time spent in it, if recorded."),
            text(
                "activity",
                "What it is: `kernel`, `launch`, `cpu_op`, `python_function` and so on.",
            ),
            int("utid", "Thread: `threads.utid`."),
            int("upid", "Process: `processes.upid`."),
            int(
                "tid",
                "Number of the thread as recorded; of a GPU stream that of the stream.",
            ),
            int("pid", "Number of the process as recorded."),
            text(
                "track_name",
                "Name of the track; null for the track of a thread.",
            ),
            text("thread_name", "Name of the thread."),
            text("process_name", "Name of the process."),
        ],
    ),
    spec(
        "flows",
        None,
        "One row for each arrow between two slices, in order of creation.",
        &[
            int("id", "Id of the flow."),
            int("slice_out", "Slice at the tail: `slices.id`."),
            int("slice_in", "Slice at the head."),
            int("trace_id", "The producer's id."),
            text("category", "Category, if recorded."),
            text("name", "Name, if recorded."),
        ],
    ),
    spec(
        "counters",
        Some("ts"),
        "One row for each sample of a counter, in ascending time.",
        &[
            int("id", "Id of the sample."),
            ns("ts", "Time."),
            int("track_id", "Track of the counter: `tracks.id`."),
            real("value", "", "Value, in the unit of the counter."),
            text("name", "Name of the counter."),
            text("unit", "Unit of the values, if known."),
            int("utid", "Thread, of a counter of a thread."),
            int("upid", "Process, of a counter of a process or thread."),
        ],
    ),
    spec(
        "args",
        None,
        "One row for each value of the arguments of a slice, ordered by slice, then by key.",
        &[
            int("id", "Id of the row in its file."),
            int(
                "arg_set_id",
                "Slice of the argument: `slices.arg_set_id`, which equals its `id`.",
            ),
            text("flat_key", "Key without array indices."),
            text(
                "key",
                "Key: `args.stream` in JSON, `debug.stream` in protobuf, with array indices.",
            ),
            text(
                "value_type",
                "`int`, `uint`, `real`, `bool`, `string`, `pointer` or `json`.",
            ),
            int(
                "int_value",
                "Value of an integer, a pointer or a truth value.",
            ),
            text("string_value", "Value of a text."),
            real("real_value", "", "Value of a real number."),
            text("display_value", "Value as text."),
        ],
    ),
    spec(
        "processes",
        None,
        "One row for each process.",
        &[
            int(
                "upid",
                "Id of the process, unique over all files of a query.",
            ),
            int("pid", "Number as recorded."),
            text("name", "Name."),
            text("labels", "Label, for example `GPU 0`."),
            int("sort_index", "Sort position in viewers."),
        ],
    ),
    spec(
        "threads",
        None,
        "One row for each thread or GPU stream.",
        &[
            int(
                "utid",
                "Id of the thread, unique over all files of a query.",
            ),
            int("tid", "Number as recorded."),
            text("name", "Name."),
            int("upid", "Process: `processes.upid`."),
            flag("is_main_thread", "True for the main thread of its process."),
            int("sort_index", "Sort position in viewers."),
        ],
    ),
    spec(
        "tracks",
        None,
        "One row for each track of slices or of a counter.",
        &[
            int("id", "Id of the track, unique over all files of a query."),
            text("name", "Name; null for the track of a thread."),
            text("type", "Kind of the track, in Perfetto's words."),
            text(
                "kind",
                "`thread`, `overflow`, `process`, `async`, `counter` or `global`.",
            ),
            int("parent_id", "Track around it."),
            int("utid", "Thread: `threads.utid`."),
            int("upid", "Process: `processes.upid`."),
            text("unit", "Unit of a counter."),
        ],
    ),
    spec(
        "kernels",
        Some("ts"),
        "One row for each GPU activity (kernel, memcpy, memset, or a graph that was recorded as a whole), in ascending time.",
        &[
            int("id", "Slice of the activity: `slices.id`."),
            ns("ts", "Start."),
            ns("dur", "Duration."),
            text("name", "Name."),
            text("kind", "`kernel`, `memcpy`, `memset` or `graph`."),
            text(
                "class",
                "What it computes: `gemm`, `attention`, `collective`, `copy` and so on.",
            ),
            int("device", "Device on which it ran."),
            int("stream", "Stream on which it ran."),
            int("correlation", "Correlation id, as recorded."),
            int(
                "launch_id",
                "Call that launched it: `slices.id`; null if it is not in the file.",
            ),
            text(
                "operator",
                "Innermost operator around the launch, else the call.",
            ),
            text(
                "module",
                "Python module around the launch, without instance numbers.",
            ),
            text(
                "shapes",
                "Shapes of the inputs of that operator, if recorded.",
            ),
            int("stack_id", "Stack of the launch of a kernel: `stacks.id`."),
            int(
                "step",
                "Step in whose host time it was launched: `steps.step`.",
            ),
        ],
    ),
    spec(
        "launches",
        Some("ts"),
        "One row for each GPU activity whose launch is in the file, in ascending time of the calls.",
        &[
            int("kernel_id", "The activity: `kernels.id`."),
            int("launch_id", "The call: `slices.id`."),
            ns("ts", "Start of the call."),
            ns("dur", "Duration of the call."),
            text("name", "Name of the call."),
            text("kind", "`kernel`, `graph`, `memcpy` or `memset`."),
            int("utid", "Thread that called: `threads.utid`."),
            ns("start_ns", "Start of the activity."),
            ns(
                "latency_ns",
                "From the start of the call to the start of the activity.",
            ),
            ns(
                "in_call_ns",
                "Part of it during the call; null where the clocks disagree.",
            ),
            ns(
                "queued_ns",
                "Part of it after the call, while earlier work of the stream ran.",
            ),
            ns("dispatch_ns", "The rest of it."),
        ],
    ),
    spec(
        "stacks",
        None,
        "One row for each frame of each distinct stack that launched a kernel.",
        &[
            int("id", "Id of the stack, unique over all files of a query."),
            int("depth", "Position of the frame, from 0 for the outermost."),
            text(
                "frame",
                "Function, operator or call, with trailing digits removed except in the call.",
            ),
            int("launches", "Number of distinct calls with this stack."),
        ],
    ),
    spec(
        "collectives",
        Some("ts"),
        "One row for each collective kernel, in ascending time.",
        &[
            ns("ts", "Start."),
            ns("dur", "Duration."),
            ns("end_ns", "End."),
            ns(
                "exposed_ns",
                "Part in which no computation ran on the device.",
            ),
            ns("launch_ns", "Start of the launch API call."),
            int("device", "Device."),
            int("stream", "Stream."),
            text("group_name", "Process group."),
            text("group_ranks", "Members of the group, as recorded."),
            int("group_size", "Number of members."),
            int("seq", "Sequence number within the group, as recorded."),
            text(
                "type",
                "`all_reduce`, `all_gather` and so on, else the recorded name.",
            ),
            text("kernel", "Name of the kernel."),
            text("library", "Implementation of the kernel."),
            text("dtype", "Dtype of the elements."),
            bytes("in_bytes", "Input of one rank."),
            bytes("out_bytes", "Output of one rank."),
            bytes(
                "message_bytes",
                "Message size by the convention of nccl-tests.",
            ),
            text(
                "message_from",
                "Source of the size: `metadata` or `operator_input`.",
            ),
        ],
    ),
    spec(
        "steps",
        Some("ts"),
        "One row for each step of the engine. A step lasts from the end of the step before to the end of its last work on the main \
         stream, of this file alone.",
        &[
            int("step", "Number of the step, from 1."),
            text("name", "Name."),
            text("found_by", "`annotation`, `cycle`, `gpu_burst` or `whole`."),
            text(
                "phase",
                "`prefill`, `decode` or `mixed`, if the name states it.",
            ),
            int(
                "requests",
                "Number of requests of the batch, if the name states it.",
            ),
            int(
                "tokens",
                "Number of processed tokens, if the name states it.",
            ),
            ns("ts", "Begin of the step."),
            ns("dur", "Step time."),
            ns("host_ts", "Begin of its host interval."),
            ns("host_dur", "Length of its host interval."),
            ns("device_ts", "First start of its GPU activity."),
            ns(
                "device_dur",
                "From there to the last end of its GPU activity.",
            ),
            text(
                "verdict",
                "Largest group of the critical path: `gpu-bound`, `host-bound` and so on.",
            ),
            real("share_pct", "%", "Share of that group."),
            ns("gpu_ns", "Time of the critical path in GPU work."),
            ns("comm_ns", "In communication."),
            ns("launch_ns", "In launches."),
            ns("host_ns", "In host code."),
            ns("sync_ns", "In synchronisation."),
            ns("wait_ns", "In waiting for requests."),
            ns("input_ns", "In input."),
            ns(
                "unknown_ns",
                "Unexplained. The eight groups add up to `dur`.",
            ),
            ns("model_ns", "Step time with typical latencies alone."),
            text(
                "flags",
                "Peculiarities of its begin or end, separated by commas.",
            ),
        ],
    ),
    spec(
        "functions",
        None,
        "One row for each function or kernel and each cycle of the engine's loop in which it ran.",
        &[
            int("cycle", "Number of the cycle, from 1."),
            text("phase", "Phase of the cycle."),
            flag("partial", "True if the cycle is recorded in part."),
            text("name", "Name as recorded."),
            text(
                "kind",
                "`python`, `op`, `launch`, `sync`, `compute`, `communication`, `copy` and so on.",
            ),
            text("class", "Class of a kernel."),
            int("device", "Device; -1 on the host."),
            int("calls", "Number of calls."),
            ns("self_ns", "Own time: without the functions that it calls."),
            ns("total_ns", "Time with the functions that it calls."),
            ns("longest_ns", "Own time of its longest call."),
            ns("longest_ts", "Start of that call."),
        ],
    ),
    spec(
        "gaps",
        Some("ts"),
        "One row for each gap in which no device ran anything, in ascending time.",
        &[
            ns("ts", "Start."),
            ns("dur", "Duration."),
            int("device", "Device of the activity that ends it."),
            int("stream", "Stream of that activity."),
            text("cause", "Largest of the causes below, without `_ns`."),
            text("before", "Activity that ran last before it."),
            text("after", "Activity that ends it."),
            text("call", "Call that launched that activity."),
            text(
                "host_function",
                "What the thread of that call spent most of the time in, if one function has more than half.",
            ),
            ns(
                "host_wait_ns",
                "CPU-bound: the launch call had not been made yet.",
            ),
            ns(
                "input_wait_ns",
                "Nor could it be: its thread waited for requests, data, a lock or another thread.",
            ),
            ns(
                "synchronisation_ns",
                "Nor could it be: its thread waited for the device.",
            ),
            ns("launch_call_ns", "In the launch API call."),
            ns("launch_latency_ns", "Between the call and the start."),
            ns("kernel_wait_ns", "Between two queued activities."),
            ns("blocked_ns", "Submitted; the stream was blocked."),
            ns(
                "other_ns",
                "The call is not in the file. The causes add up to `dur`.",
            ),
        ],
    ),
];
