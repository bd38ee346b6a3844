//! Tables beside those of recordings: the findings of `why`, and logs of other kinds than traces.

use super::{COMMON, ColumnSpec, TableSpec, bytes, flag, int, ns, real, text};

/// Column that tables of logs begin with.
const FILE: [ColumnSpec; 1] = [text("file", "Path as given or found.")];

const fn of_log(name: &'static str, doc: &'static str, own: &'static [ColumnSpec]) -> TableSpec {
    TableSpec {
        name,
        doc,
        head: &FILE,
        own,
        sorted_by: None,
    }
}

/// The tables, in the order of the guide. Nothing of them is made from a [`Recording`](crate::Recording) alone.
pub const BESIDE: &[TableSpec] = &[
    TableSpec {
        name: "findings",
        doc: "One row for each finding of `inferscope why` over the same paths, by descending gain. Its numbers are those of `why --json`.",
        head: &COMMON,
        own: &[
            text(
                "id",
                "Id, the same over runs; `inferscope show ID PATH...` prints the finding.",
            ),
            int("position", "Position in the order of gain, from 1."),
            text(
                "kind",
                "Kind, from the catalogue of findings: `host_bound`, `launch_bound` and so on.",
            ),
            text("title", "The finding in one line."),
            text("confidence", "`established`, `likely` or `possible`."),
            text("side", "`only`, `baseline` or `candidate`."),
            int("device", "Device, if it is about one."),
            text("phase", "Phase of the steps."),
            int("step", "The longest step that it affects: `steps.step`."),
            text(
                "steps",
                "Numbers of the steps that it affects, the longest first, twenty at most, separated by commas.",
            ),
            int("step_count", "Number of steps that it affects."),
            int("of_steps", "Number of steps that its share is of."),
            text(
                "name",
                "Function, kernel, operator, class or module that it is about.",
            ),
            text("stack", "Host stack, outermost first, separated by `; `."),
            ns(
                "cost_ns_per_step",
                "Cost of a step: median of the steps of the phase, or their mean where it affects few of them.",
            ),
            ns("cost_ns_per_step_low", "Lower end of the 95 % interval."),
            ns("cost_ns_per_step_high", "Upper end of the 95 % interval."),
            ns(
                "cost_ns_per_affected_step",
                "Median cost of a step that it affects.",
            ),
            ns(
                "cost_ns_per_affected_step_low",
                "Lower end of the 95 % interval.",
            ),
            ns(
                "cost_ns_per_affected_step_high",
                "Upper end of the 95 % interval.",
            ),
            ns("cost_ns_total", "Sum over the steps that it affects."),
            real(
                "share_pct",
                "%",
                "Share of the time of all steps of the phase.",
            ),
            flag(
                "is_gain_known",
                "False if neither a replay nor a comparison of steps tells what would be saved; the two gains are 0 then.",
            ),
            ns(
                "gain_ceiling_ns_per_step",
                "Time of a step that a replay without it saves: an upper bound.",
            ),
            real(
                "gain_pct",
                "%",
                "What the replay saves of all steps of the phase.",
            ),
            text("remedy", "What helps."),
            text("remedy_source", "Document that says so."),
            text("refute", "What would show that the finding is wrong."),
            text("evidence", "Rows of evidence, separated by `; `."),
            text("command", "Command that shows it."),
            text(
                "file",
                "File of the first row of evidence that names a place.",
            ),
            int("slice_id", "Slice of that row: `slices.id`."),
            ns(
                "start_ns",
                "Start of that row, on the clock of the first recording.",
            ),
            ns("end_ns", "End of that row."),
        ],
        sorted_by: None,
    },
    of_log(
        "block_requests",
        "One row for each block I/O request of a log whose issue and completion were recorded, in the order of completion.",
        &[
            text("device", "Device; null if the log names none."),
            ns("issue_ns", "Issue to the driver, on the clock of the log."),
            ns("complete_ns", "Completion."),
            ns("latency_ns", "From issue to completion."),
            ns(
                "queue_ns",
                "From the queueing of its first bio to the issue, if the log has queue events.",
            ),
            ns(
                "first_issue_ns",
                "First issue, if the driver gave the request back since.",
            ),
            int("sector", "First sector of 512 bytes."),
            bytes("offset_bytes", "Offset of the first byte on the device."),
            bytes("size_bytes", "Size."),
            text(
                "operation",
                "Letters of the operation, as recorded: `R`, `WS` and so on.",
            ),
            text(
                "direction",
                "`read`, `write`, `discard`, `flush` and so on.",
            ),
            int("pid", "Process that issued it; null if the log names none."),
            text("command", "Name of that process."),
        ],
    ),
    of_log(
        "block_events",
        "One row for each event of a block I/O log, in ascending time: the table of `inferscope blkio convert`.",
        &[
            ns("t_ns", "Time, on the clock of the log."),
            text("kind", "`queue`, `issue`, `complete` and so on."),
            text("device", "Device; null if the log names none."),
            text("rwbs", "Letters of the operation, as recorded."),
            text(
                "direction",
                "`read`, `write`, `discard`, `flush` and so on.",
            ),
            int("sector", "First sector of 512 bytes."),
            int("nr_sector", "Number of sectors."),
            bytes("bytes", "Size."),
            int("cpu", "Processor, if recorded."),
            int("pid", "Process, if recorded."),
            text("comm", "Name of the process, if recorded."),
            int("error", "Negative errno of a completion; 0 without error."),
        ],
    ),
    of_log(
        "accesses",
        "One row for each memory access of a capture, in the order of the capture: the table of `inferscope memtrace label`.",
        &[
            text(
                "run_id",
                "Run, as the capture names it, else the name of the file.",
            ),
            int(
                "sample_id",
                "Number of the row among those that were read, from 0.",
            ),
            ns("timestamp_ns", "Time, on the clock of the capture."),
            text("phase", "Phase of inference, if the capture states it."),
            int(
                "address",
                "Virtual address; that of the upper half of the address space is negative.",
            ),
            int("address_page", "Page of 4096 bytes."),
            text("op_type", "`load`, `store`, `page_fault`, or as recorded."),
            text("symbol", "Function that made the access."),
            text("dso", "Object file of that function."),
            text(
                "region_type",
                "What was touched: `weights`, `kv_cache`, `activations` and so on; `unknown` otherwise.",
            ),
            int("region_id", "Region; 0 if unknown."),
            int(
                "access_latency_ns",
                "Latency as recorded: cycles where the clock of the cores is not known.",
            ),
            text("cache_level", "Source of the data."),
            int("numa_node", "Remote bit of the data source."),
            int("cpu_id", "Processor."),
            int("thread_id", "Thread, or process if only that is recorded."),
            int("token_index", "Token that was being made."),
            int("context_tokens", "Tokens in the context."),
            int(
                "latency_cycles",
                "Latency in cycles of the core, if recorded.",
            ),
            int("remote", "Remote bit, if a data source states it."),
            int("hops", "Hops to the data; 0 if it was near."),
            bytes("size_bytes", "Size of the access, if recorded."),
            int("period", "Accesses that the row stands for, if recorded."),
            int("process_id", "Process, if recorded beside the thread."),
        ],
    ),
];
