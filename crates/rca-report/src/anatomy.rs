//! Report in Markdown: contents of a recording, and a breakdown of outlier cycles.

use std::borrow::Cow;
use std::fmt::Write as _;

use rca_cycles::Analysis;
use rca_cycles::anatomy::{Anatomy, CallGraph, CycleAnatomy, Durations, Node};
use report::human;
use trace_model::kernel::demangle;

/// Maximum number of rows of tables of operators and kernels.
const ROWS: usize = 15;

#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
fn time(ns: i64) -> String {
    human::duration(ns as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn share(part: i64, whole: i64) -> String {
    human::percent(part as f64 / whole.max(1) as f64 * 100.0)
}

/// Returns a demangled name, escaped for a table.
fn name(text: &str) -> String {
    let plain = demangle(text).map_or(Cow::Borrowed(text), Cow::Owned);
    let plain = report::text::printable(&plain)
        .replace('|', "\\|")
        .replace('`', "'");
    report::text::shorten(&plain, 100).into_owned()
}

/// Returns the report; `size` is that of the file in bytes.
#[must_use]
pub fn markdown(job: &str, size: Option<u64>, analysis: &Analysis, found: &Anatomy) -> String {
    let mut out = String::new();
    let (hosts, processes, threads) = found.places;
    let (start, end) = found.range_ns;
    let _ = writeln!(out, "# {}\n\n## Overview\n", name(job));
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "* {what}: {value}");
    };
    if let Some(size) = size {
        line("size of the file", format!("{size} bytes"));
    }
    line(
        "hosts, processes, threads",
        format!("{hosts}, {processes}, {threads}"),
    );
    line("start", format!("{start} ns"));
    line("span", time(end - start));
    line(
        "cycles",
        format!(
            "{}, cut at `{}`",
            analysis.cycles.len(),
            name(&analysis.anchor)
        ),
    );
    out.push_str("\n| category | events |\n|---|---:|\n");
    for (category, n) in &found.categories {
        let _ = writeln!(out, "| {} | {n} |", name(category));
    }
    let whole = end - start;
    table(&mut out, "Layers", &found.layers, whole, usize::MAX);
    table(&mut out, "Operators", &found.operators, whole, 40);
    for one in &found.cycles {
        cycle(&mut out, analysis, one);
    }
    out
}

fn table(out: &mut String, title: &str, list: &[Durations], whole: i64, rows: usize) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n### {title}\n\n| name | time | share | count | mean | least | most | deviation |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for d in list.iter().take(rows) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            name(&d.name),
            time(d.total_ns),
            share(d.total_ns, whole),
            d.count,
            time(mean(d)),
            time(d.least_ns),
            time(d.most_ns),
            time(d.deviation_ns),
        );
    }
    if list.len() > rows {
        let _ = writeln!(out, "\nand {} more.", list.len() - rows);
    }
}

fn mean(d: &Durations) -> i64 {
    d.total_ns / i64::try_from(d.count.max(1)).unwrap_or(i64::MAX)
}

fn cycle(out: &mut String, analysis: &Analysis, one: &CycleAnatomy) {
    let Some(c) = analysis.cycles.get(one.cycle) else {
        return;
    };
    let length = c.length_ns();
    let _ = writeln!(
        out,
        "\n## Cycle {} ({}, {})",
        one.cycle + 1,
        c.phase.name(),
        time(length)
    );
    table(
        out,
        "Python functions that last longest",
        &one.python,
        length,
        5,
    );
    table(out, "Kernels that last longest", &one.device, length, 5);
    for (depth, level) in one.by_depth.iter().enumerate() {
        table(out, &format!("Call depth {depth}"), level, length, ROWS);
    }
    let _ = writeln!(
        out,
        "\n### Devices\n\nbusy {}, idle {}",
        time(one.busy_ns),
        time(one.idle_ns)
    );
    table(out, "Work by name", &one.device, length, ROWS);
    table(out, "Work by stream", &one.streams, length, ROWS);
    if !one.layers.is_empty() {
        out.push_str("\n### Layers, as trees\n\n");
        for layer in &one.layers {
            tree(out, layer, 0);
        }
    }
}

fn tree(out: &mut String, node: &Node, depth: usize) {
    let d = &node.durations;
    let _ = write!(
        out,
        "{}* `{}` {}",
        "  ".repeat(depth),
        name(&d.name),
        time(mean(d))
    );
    if d.count > 1 {
        let _ = write!(
            out,
            " [x{}], {} to {}, deviation {}",
            d.count,
            time(d.least_ns),
            time(d.most_ns),
            time(d.deviation_ns)
        );
    }
    if !node.children.is_empty() && !node.kind.is_device() {
        let _ = write!(out, ", own {}", time(node.own_ns));
    }
    out.push('\n');
    for child in &node.children {
        tree(out, child, depth + 1);
    }
}

/// Returns the call graph in the language of Graphviz; frequent calls have wider lines.
#[must_use]
pub fn dot(graph: &CallGraph) -> String {
    let mut out = String::from("digraph calls {\n  node [shape=box];\n");
    let quoted = |text: &str| {
        report::text::printable(text)
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
    };
    for (i, d) in graph.functions.iter().enumerate() {
        let _ = writeln!(
            out,
            "  n{i} [label=\"{}\\n{}, {} calls, mean {}\"];",
            quoted(&d.name),
            time(d.total_ns),
            d.count,
            time(mean(d))
        );
    }
    let most = graph.calls.iter().map(|c| c.2).max().unwrap_or(1).max(1);
    for &(from, to, n) in &graph.calls {
        // Width in hundredths of a point, from one to five points.
        let width = 100 + 400 * n / most;
        let _ = writeln!(
            out,
            "  n{from} -> n{to} [label=\"{n}\", penwidth={}.{:02}];",
            width / 100,
            width % 100
        );
    }
    out.push_str("}\n");
    out
}
