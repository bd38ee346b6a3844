//! The numbers of the report as tables.

use launch_stacks::{
    Answer, GraphMatch, LinkMethod, MeasuredStack, Measures, compare, waits_by_rank,
};
use report::{Cell, Column, Table, Unit};
use trace_model::kernel::display_names;

use crate::frame::joined;
use crate::{Answered, Report};

type Titled = Vec<(String, Table)>;

/// Definition of exposed communication, as in all commands.
pub(crate) const EXPOSED: &str = "communication without computation, memcpy aside";

/// Returns the tables of one trace: costs of stacks, devices, graphs, and with `--diagnostics` the
/// evidence.
pub(crate) fn of_trace(report: &Report<'_>, trace: &Answered) -> report::Result<Titled> {
    let mut out = Vec::new();
    let answer = &trace.answer;
    if !answer.groups.is_empty() {
        let title = format!("Cost of the stacks (exposed: {EXPOSED}):");
        out.push((title, costs(answer)?));
        let collectives = bandwidths(answer)?;
        if collectives.rows() > 0 {
            out.push((messages_title(report, answer), collectives));
        }
    }
    if answer.devices.iter().any(|d| d.1.collective_ns > 0) {
        out.push((
            "Communication by device, whole trace (exposed: without computation):".to_owned(),
            devices(answer)?,
        ));
    }
    if answer.graphs.iter().any(|graph| graph.matched() > 0) {
        out.push(("Graph launches:".to_owned(), graphs(report, trace)?));
    }
    if report.style.diagnostics {
        out.push(("Evidence:".to_owned(), evidence(trace)?));
        if !answer.launches.conflicts.is_empty() {
            out.push((
                "Kernels whose arrow and correlation id disagree (the id was believed):".to_owned(),
                conflicts(trace)?,
            ));
        }
        if !answer.launches.unlinked.is_empty() {
            out.push(("Kernels without a launch:".to_owned(), unlinked(trace)?));
        }
    }
    Ok(out)
}

/// Returns a hint on how to get stacks for the kernels of graphs, if no such kernel has one.
pub(crate) fn capture_advice(report: &Report<'_>, trace: &Answered) -> Option<String> {
    let graphs = &trace.answer.graphs;
    if graphs.is_empty() || graphs.iter().any(|graph| graph.matched() > 0) {
        return None;
    }
    let kernels: usize = graphs.iter().map(|graph| graph.graph.kernels.len()).sum();
    let count = |n: usize| report::human::count(n as u64);
    let remedy = match report.captures.is_empty() {
        true => "give the trace recorded while the graphs were captured with --capture",
        false => "none of the traces given with --capture is that of these graphs",
    };
    Some(format!(
        "{} graph launches run {} kernels whose stacks are those of the capture:\n{remedy}.",
        count(graphs.len()),
        count(kernels)
    ))
}

/// Returns one row for each stack.
pub(crate) fn costs(answer: &Answer) -> report::Result<Table> {
    let ns =
        |name: &'static str, title: &'static str| Column::int(name).unit(Unit::Nanos).title(title);
    let real_ns =
        |name: &'static str, title: &'static str| Column::real(name).unit(Unit::Nanos).title(title);
    let mut table = Table::new(
        "costs",
        vec![
            Column::uint("stack").title("#"),
            Column::uint("launches"),
            Column::uint("kernels"),
            ns("gpu_total_ns", "gpu"),
            real_ns("gpu_p50_ns", "median"),
            ns("gpu_max_ns", "longest"),
            ns("exposed_ns", "exposed"),
            real_ns("latency_p50_ns", "latency"),
            Column::text("link"),
        ],
    )?;
    for (i, stack) in answer.groups.iter().enumerate() {
        let Some(m) = &stack.measures else { continue };
        table.push(&[
            Cell::from(i),
            Cell::from(m.launches),
            Cell::from(m.kernels),
            Cell::Int(m.gpu.total_ns),
            Cell::Real(m.gpu.p50_ns),
            Cell::Int(m.gpu.max_ns),
            Cell::from(m.exposed_ns),
            Cell::Real(m.latency.p50_ns),
            Cell::from(&short_methods(stack)),
        ])?;
    }
    Ok(table)
}

/// Returns the kinds of evidence for a stack as abbreviations, best first.
fn short_methods(stack: &MeasuredStack) -> String {
    let short = |method: LinkMethod| match method {
        LinkMethod::Correlation => "id",
        LinkMethod::Flow => "arrow",
        LinkMethod::ExternalId => "op",
        _ => "order",
    };
    let names: Vec<&str> = kinds(stack).into_iter().map(short).collect();
    names.join("+")
}

fn kinds(stack: &MeasuredStack) -> Vec<LinkMethod> {
    let mut methods: Vec<_> = stack.group.links.iter().map(|l| l.method).collect();
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// Returns the kinds of evidence for a stack, best first.
pub(crate) fn methods(stack: &MeasuredStack) -> String {
    let names: Vec<&str> = kinds(stack).iter().map(|m| m.name()).collect();
    names.join("+")
}

/// Returns the definition of the bandwidths, or the reason why there are none.
fn messages_title(report: &Report<'_>, answer: &Answer) -> String {
    let measures = answer.groups.iter().filter_map(|s| s.measures.as_ref());
    let known: usize = measures.map(|m| m.bandwidth.collectives).sum();
    let why = match (known > 0, report.ranks.is_some()) {
        (true, _) => "bandwidth over the shortest duration of each collective on all its ranks",
        (false, false) => {
            "bandwidth: cannot say, it needs all ranks; durations of one rank include waiting for the others"
        }
        (false, true) => {
            "bandwidth: cannot say, size or group are not known or ranks of the group are missing"
        }
    };
    format!("Messages of the collectives, by stack ({why}):")
}

/// Maximum number of sizes listed one by one.
const MOST_SIZES: usize = 3;

/// Returns the exact sizes of messages: each of a few, the range of more.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn sizes(m: &Measures) -> String {
    let size = |bytes: u64| report::human::bytes(bytes as f64);
    let count = |n: usize| report::human::count(n as u64);
    if m.sizes.len() <= MOST_SIZES {
        let each = m.sizes.iter();
        let each = each.map(|(bytes, n)| format!("{} x {}", count(*n), size(*bytes)));
        return each.collect::<Vec<_>>().join(", ");
    }
    let (first, last) = (m.sizes.first(), m.sizes.last());
    let range = first
        .zip(last)
        .map(|((least, _), (most, _))| (*least, *most));
    let (least, most) = range.unwrap_or_default();
    format!(
        "{} of {} to {}, {} sizes",
        count(m.sizes.iter().map(|(_, n)| n).sum()),
        size(least),
        size(most),
        count(m.sizes.len())
    )
}

fn bandwidths(answer: &Answer) -> report::Result<Table> {
    let rate = |name: &'static str, title: &'static str| {
        Column::real(name).unit(Unit::BytesPerSecond).title(title)
    };
    let mut table = Table::new(
        "bandwidths",
        vec![
            Column::uint("stack").title("#"),
            Column::text("collectives").title("collective"),
            Column::uint("bytes").unit(Unit::Bytes).title("moved"),
            Column::text("sizes").title("messages by size"),
            rate("algbw", "algorithm"),
            rate("busbw", "bus"),
        ],
    )?;
    let measures = answer.groups.iter().filter_map(|s| s.measures.as_ref());
    let names = display_names(measures.flat_map(|m| &m.collectives).map(String::as_str));
    for (i, stack) in answer.groups.iter().enumerate() {
        let Some(m) = &stack.measures else { continue };
        if m.collectives.is_empty() {
            continue;
        }
        let short = m.collectives.iter().map(String::as_str);
        let short: Vec<&str> = short
            .map(|name| names.get(name).map_or(name, String::as_str))
            .collect();
        table.push(&[
            Cell::from(i),
            Cell::from(&some_of(&short)),
            Cell::from(m.bytes),
            Cell::from(&sizes(m)),
            Cell::from(m.bandwidth.algbw_bytes_per_s()),
            Cell::from(m.bandwidth.busbw_bytes_per_s()),
        ])?;
    }
    Ok(table)
}

/// Maximum number of kernels that a cell lists.
const MOST_NAMES: usize = 2;

/// Returns the first names, and how many more there are; the JSON document has all.
fn some_of(names: &[&str]) -> String {
    match names.get(MOST_NAMES..) {
        Some(more) if !more.is_empty() => {
            let first: Vec<&str> = names.iter().take(MOST_NAMES).copied().collect();
            format!("{} and {} more", first.join(", "), more.len())
        }
        _ => names.join(", "),
    }
}

fn devices(answer: &Answer) -> report::Result<Table> {
    let ns =
        |name: &'static str, title: &'static str| Column::int(name).unit(Unit::Nanos).title(title);
    let mut table = Table::new(
        "devices",
        vec![
            Column::int("device"),
            ns("collective_ns", "collectives"),
            ns("other_ns", "other work"),
            ns("exposed_ns", "exposed"),
            ns("hidden_ns", "hidden"),
        ],
    )?;
    for (device, time) in &answer.devices {
        table.push(&[
            Cell::Int(device.0),
            Cell::Int(time.collective_ns),
            Cell::Int(time.other_ns),
            Cell::Int(time.exposed_ns),
            Cell::Int(time.hidden_ns),
        ])?;
    }
    Ok(table)
}

fn graphs(report: &Report<'_>, trace: &Answered) -> report::Result<Table> {
    let mut table = Table::new(
        "graphs",
        vec![
            Column::int("correlation"),
            Column::int("launch_ts_ns").title("launched at (ns)"),
            Column::uint("kernels"),
            Column::real("matched_pct").unit(Unit::Pct).title("matched"),
            Column::text("capture"),
        ],
    )?;
    for graph in &trace.answer.graphs {
        let capture = graph
            .source
            .and_then(|s| report.captures.get(s))
            .map_or("", |c| c.0.as_str());
        table.push(&[
            Cell::from(graph.graph.correlation.map(|c| c.0)),
            Cell::Int(trace.input.trace.slice(graph.graph.launch).ts().nanos()),
            Cell::from(graph.graph.kernels.len()),
            Cell::Real(matched_pct(graph)),
            Cell::from(capture),
        ])?;
    }
    Ok(table)
}

/// Returns the share of a graph's kernels that were matched to its capture, in percent.
pub(crate) fn matched_pct(graph: &GraphMatch) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = graph.matched() as f64 / graph.graph.kernels.len().max(1) as f64;
    share * 100.0
}

fn evidence(trace: &Answered) -> report::Result<Table> {
    let launches = &trace.answer.launches;
    let mut table = Table::new(
        "evidence",
        vec![Column::text("what"), Column::uint("kernels")],
    )?;
    let mut row = |what: &str, n: usize| table.push(&[Cell::from(what), Cell::from(n)]);
    row("selected kernels in the trace", launches.kernels)?;
    for (method, n) in launches.by_method() {
        row(&format!("linked by {}", method.name()), n)?;
    }
    row("of these under graph launches", launches.under_graphs())?;
    row("without a launch", launches.unlinked.len())?;
    row(
        "arrow and correlation id disagree",
        launches.conflicts.len(),
    )?;
    Ok(table)
}

/// Maximum number of rows of long lists in text.
const MOST_ROWS: usize = 20;

fn conflicts(trace: &Answered) -> report::Result<Table> {
    let mut table = Table::new(
        "conflicts",
        vec![
            Column::text("kernel"),
            Column::int("kernel_ts_ns").title("started at (ns)"),
            Column::text("by_correlation").title("by id"),
            Column::text("by_flow").title("by arrow"),
        ],
    )?;
    let all = &trace.input.trace;
    for c in trace.answer.launches.conflicts.iter().take(MOST_ROWS) {
        table.push(&[
            Cell::from(all.slice(c.kernel).name()),
            Cell::Int(all.slice(c.kernel).ts().nanos()),
            Cell::from(all.slice(c.by_correlation).name()),
            Cell::from(all.slice(c.by_flow).name()),
        ])?;
    }
    Ok(table)
}

fn unlinked(trace: &Answered) -> report::Result<Table> {
    let mut table = Table::new(
        "unlinked",
        vec![
            Column::text("kernel"),
            Column::int("kernel_ts_ns").title("started at (ns)"),
        ],
    )?;
    for kernel in trace.answer.launches.unlinked.iter().take(MOST_ROWS) {
        let kernel = trace.input.trace.slice(*kernel);
        table.push(&[Cell::from(kernel.name()), Cell::Int(kernel.ts().nanos())])?;
    }
    Ok(table)
}

/// Returns the tables that need several traces: ranks side by side, wait times, or a comparison.
pub(crate) fn across_traces(report: &Report<'_>) -> report::Result<Titled> {
    let mut out = Vec::new();
    if let Some(ranks) = &report.ranks {
        if !ranks.merged.is_empty() {
            out.push((
                "All ranks (launches by rank, '-' where a rank lacks the stack):".to_owned(),
                merged(report)?,
            ));
        }
        if !ranks.by_stack.is_empty() {
            out.push((
                "Waiting for the last rank, by stack:".to_owned(),
                waits(report)?,
            ));
            let doubt = match ranks.alignment.ambiguous() {
                0 => String::new(),
                n => format!(
                    "Ranks (the collectives of {n} repeat so evenly that they could be joined with the others in more \
                     than one way; clocks and waits hold for the join that pairs most of them):"
                ),
            };
            let title = if doubt.is_empty() {
                "Ranks:".to_owned()
            } else {
                doubt
            };
            out.push((title, ranks_table(report)?));
        }
    }
    if report.style.diff
        && let [first, second] = report.traces
    {
        let rows = compare(&first.answer, &second.answer);
        let mut table = Table::new(
            "difference",
            vec![
                Column::text("stack"),
                Column::uint("launches_first").title("launches"),
                Column::uint("launches_second").title("then"),
                Column::int("gpu_first_ns").unit(Unit::Nanos).title("gpu"),
                Column::int("gpu_second_ns").unit(Unit::Nanos).title("then"),
            ],
        )?;
        let frames: Vec<&[String]> = rows.iter().map(|row| row.frames.as_slice()).collect();
        for (row, stack) in rows.iter().zip(stacks(report, &frames)) {
            table.push(&[
                Cell::from(&stack),
                Cell::from(row.launches[0]),
                Cell::from(row.launches[1]),
                Cell::Int(row.gpu_ns[0]),
                Cell::Int(row.gpu_ns[1]),
            ])?;
        }
        out.push((
            "Change from the first to the second trace:".to_owned(),
            table,
        ));
    }
    Ok(out)
}

/// Returns stacks as cells: with `--compat` as recorded.
fn stacks(report: &Report<'_>, frames: &[&[String]]) -> Vec<String> {
    match report.style.compat {
        true => frames.iter().map(|stack| stack.join(";")).collect(),
        false => joined(frames),
    }
}

fn merged(report: &Report<'_>) -> report::Result<Table> {
    let mut table = Table::new(
        "merged",
        vec![
            Column::uint("number").title("#"),
            Column::text("by_rank").title("by rank"),
            Column::uint("count_skew").title("skew"),
            Column::int("gpu_ns").unit(Unit::Nanos).title("gpu"),
            Column::real("time_skew").title("max/min"),
            Column::text("stack"),
        ],
    )?;
    let all = || report.ranks.iter().flat_map(|r| &r.merged);
    let frames: Vec<&[String]> = all().map(|stack| stack.frames.as_slice()).collect();
    for (at, (stack, text)) in all().zip(stacks(report, &frames)).enumerate() {
        let counts: Vec<String> = stack
            .ranks
            .iter()
            .map(|r| match r.launches {
                0 => "-".to_owned(),
                n => n.to_string(),
            })
            .collect();
        table.push(&[
            Cell::from(at),
            Cell::from(&counts.join(" ")),
            Cell::from(stack.count_skew()),
            Cell::Int(stack.gpu_ns()),
            Cell::from(stack.time_skew().map(|s| (s * 1000.0).round() / 1000.0)),
            Cell::from(&text),
        ])?;
    }
    Ok(table)
}

fn waits(report: &Report<'_>) -> report::Result<Table> {
    let mut table = Table::new(
        "waits",
        vec![
            Column::text("stack"),
            Column::int("wait_ns").unit(Unit::Nanos).title("waited"),
            Column::int("longest_ns").unit(Unit::Nanos).title("longest"),
            Column::text("last").title("last by rank"),
        ],
    )?;
    let all = || report.ranks.iter().flat_map(|r| &r.by_stack);
    let frames: Vec<&[String]> = all().map(|wait| wait.frames.as_slice()).collect();
    for (wait, text) in all().zip(stacks(report, &frames)) {
        let last: Vec<String> = wait.last.iter().map(ToString::to_string).collect();
        table.push(&[
            Cell::from(&text),
            Cell::Int(wait.total_ns()),
            Cell::Int(wait.longest_ns),
            Cell::from(&last.join(" ")),
        ])?;
    }
    Ok(table)
}

fn ranks_table(report: &Report<'_>) -> report::Result<Table> {
    let mut table = Table::new(
        "ranks",
        vec![
            Column::uint("rank"),
            Column::int("ahead_ns")
                .unit(Unit::Nanos)
                .title("clock ahead"),
            Column::uint("collectives").title("joined collectives"),
            Column::int("wait_ns").unit(Unit::Nanos).title("waited"),
            Column::uint("last").title("was last"),
        ],
    )?;
    let Some(ranks) = &report.ranks else {
        return Ok(table);
    };
    let totals = waits_by_rank(report.traces.len(), &ranks.waits);
    for (i, trace) in report.traces.iter().enumerate() {
        table.push(&[
            Cell::from(trace.input.rank.0),
            Cell::from(ranks.alignment.ahead_ns(i)),
            Cell::from(ranks.alignment.collectives(i)),
            Cell::Int(totals[i].0),
            Cell::from(totals[i].1),
        ])?;
    }
    Ok(table)
}
