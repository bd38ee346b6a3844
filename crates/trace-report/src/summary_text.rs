//! The description of a recording as text.

use std::borrow::Cow;
use std::io::{self, Write};

use report::human;
use report::text::{shorten, wrapped};
use report::{Cell, Column, RowSink, TextOptions, TextWriter, Unit};
use trace_tables::Summary;
use trace_tables::summary::{Finding, IssueCount, PlaceFacts};

use crate::summary::Described;

/// Maximum number of rows of each list, unless all are requested.
const SHOWN: usize = 12;
/// Width of the labels on the left.
const LABEL: usize = 11;

/// Writes one summary, with all rows of its lists if `all`.
pub(crate) fn write(
    found: &Described,
    all: bool,
    width: Option<usize>,
    out: &mut dyn Write,
) -> report::Result<()> {
    let s = &found.summary;
    writeln!(out, "{}", s.file.name)?;
    overview(found, width, out)?;
    facts(s, out)?;
    verdict(found, out)?;
    let shown = if all { usize::MAX } else { SHOWN };
    // These rows concern only the file's format.
    let inner = if all { usize::MAX } else { 0 };
    let count = |n: u64| Cell::UInt(n);
    // Many files list every device of the machine.
    let busy: Vec<_> = s
        .processes
        .iter()
        .filter(|p| all || p.slices + p.counter_samples > 0)
        .collect();
    list(
        (out, width),
        "what the slices are",
        &[Column::text("activity"), number("slices")],
        s.activities
            .iter()
            .map(|a| vec![a.name.as_deref().into(), count(a.count)]),
        shown,
    )?;
    list(
        (out, width),
        "categories",
        &[Column::text("category"), number("slices")],
        s.categories
            .iter()
            .map(|c| vec![c.name.as_deref().into(), count(c.count)]),
        shown,
    )?;
    list(
        (out, width),
        "processes",
        &[
            Column::int("pid"),
            Column::text("name"),
            Column::text("labels"),
            number("threads"),
            number("slices"),
        ],
        busy.iter().map(|p| {
            vec![
                p.pid.into(),
                p.name.as_deref().into(),
                p.labels.as_deref().into(),
                count(p.threads),
                count(p.slices),
            ]
        }),
        shown,
    )?;
    list(
        (out, width),
        "threads and streams",
        &[
            Column::int("pid"),
            Column::int("tid"),
            Column::text("name"),
            number("slices"),
        ],
        s.threads.iter().map(|t| {
            vec![
                t.pid.into(),
                t.tid.into(),
                t.name.as_deref().into(),
                count(t.slices),
            ]
        }),
        shown,
    )?;
    list(
        (out, width),
        "kinds of tracks",
        &[Column::text("kind"), number("tracks"), number("rows")],
        s.track_kinds
            .iter()
            .map(|k| vec![k.kind.into(), count(k.tracks), count(k.rows)]),
        inner,
    )?;
    list(
        (out, width),
        "records of the file",
        &[Column::text("kind"), number("records")],
        s.file
            .records
            .iter()
            .map(|r| vec![r.name.as_deref().into(), count(r.count)]),
        inner,
    )?;
    issues(&s.issues, out)?;
    Ok(())
}

fn number(name: &'static str) -> Column {
    Column::uint(name).unit(Unit::Count)
}

fn line(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let room = 80 - LABEL - 2;
    for (at, part) in wrapped(text, room).iter().enumerate() {
        let label = if at == 0 { label } else { "" };
        writeln!(out, "  {label:<LABEL$}{part}")?;
    }
    Ok(())
}

/// Writes the answer in one sentence, and the main facts.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown of times")]
fn overview(found: &Described, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let o = &found.overview;
    let mut sentence = data(found).to_owned();
    if let Some(first) = found.summary.reasons.first() {
        sentence.push_str(&format!(" ({})", first.text));
    }
    match (&found.no_gpu_activity, o.busy_pct()) {
        (Some(why), _) => sentence.push_str(&format!("; {}", why.text)),
        (None, Some(busy)) => sentence.push_str(&format!(
            "; GPU busy {} of {}",
            human::quantity(busy, Unit::Pct),
            human::duration(o.gpu_span_ns as f64)
        )),
        (None, None) => {}
    }
    if let Some(steps) = o.steps_text() {
        sentence.push_str(&format!("; {steps}"));
    }
    line(out, "answer", &sentence)?;
    let facts = [
        ("GPU", o.gpus()),
        ("software", o.software()),
        ("recorded", o.recorded_utc.clone()),
    ];
    for (label, text) in facts {
        if let Some(text) = text {
            line(out, label, &text)?;
        }
    }
    if let Some(top) = &o.top_kernel {
        let share = human::quantity(top.share_gpu_pct, Unit::Pct);
        let text = format!(
            "{share} of GPU time, {}: {}",
            many(top.count, "time"),
            shortened(&top.name, width)
        );
        line(out, "top kernel", &text)?;
    }
    if let Some(text) = &o.host_communication {
        line(out, "host comm.", text)?;
    }
    Ok(())
}

/// Returns whether the recording is complete, as a word.
fn data(found: &Described) -> &'static str {
    let s = &found.summary;
    match s.rows.slices == 0 && s.rows.counter_samples == 0 {
        true => "EMPTY",
        false if s.healthy => "complete",
        false => "INCOMPLETE",
    }
}

/// Returns a name that fits two lines of this width; unchanged without one.
fn shortened(name: &str, width: Option<usize>) -> Cow<'_, str> {
    match width {
        Some(width) => shorten(name, 2 * width.saturating_sub(LABEL + 2)),
        None => Cow::Borrowed(name),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "four digits are shown of spans and sizes"
)]
fn facts(s: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let ns = |ns: i64| human::duration(ns as f64);
    let file = &s.file;
    let size = human::bytes(file.uncompressed_bytes as f64);
    line(
        out,
        "format",
        &format!("{}, {size} uncompressed", file.format),
    )?;
    line(
        out,
        "span",
        &format!(
            "{} from {} ns, clock {}",
            ns(file.span_ns),
            file.start_ns,
            file.clock
        ),
    )?;
    if file.base_time_ns != 0 {
        line(
            out,
            "base time",
            &format!("{} ns since 1970", file.base_time_ns),
        )?;
    }
    if file.rank.is_some() || file.world_size.is_some() {
        let known = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let backend = file.backend.as_deref().unwrap_or("unknown backend");
        line(
            out,
            "job",
            &format!(
                "rank {} of {}, {backend}, {}",
                known(file.rank),
                known(file.world_size),
                many(file.groups.len() as u64, "process group")
            ),
        )?;
    }
    let producer: Vec<String> = file
        .producer
        .iter()
        .filter(|entry| entry.key.contains("version") || entry.key == "schemaVersion")
        .map(|entry| format!("{} {}", entry.key, entry.text))
        .collect();
    if !producer.is_empty() {
        line(out, "producer", &producer.join(", "))?;
    }
    let settings: Vec<&str> = file
        .producer
        .iter()
        .filter(|entry| is_setting(&entry.key) && ["1", "true"].contains(&entry.text.as_str()))
        .map(|entry| entry.key.as_str())
        .collect();
    if !settings.is_empty() {
        line(out, "settings", &settings.join(", "))?;
    }
    let n = human::count;
    line(
        out,
        "rows",
        &format!(
            "{} ({}, {}, {} deep), {}, {}, {}",
            many(s.rows.slices, "slice"),
            many(s.rows.instants, "instant"),
            many(s.rows.names, "name"),
            s.rows.deepest,
            many(s.rows.flows, "flow"),
            many(s.rows.counter_samples, "counter sample"),
            many(s.rows.tracks, "track")
        ),
    )?;
    let k = &s.kernels;
    if k.kernels > 0 {
        line(
            out,
            "kernels",
            &format!(
                "{}; launch known by flow for {}, by correlation for {} ({} in {}), unknown for {}",
                n(k.kernels),
                n(k.by_flow),
                n(k.by_correlation),
                n(k.under_graph_launch),
                many(k.graph_launches, "graph launch"),
                n(k.unlinked)
            ),
        )?;
    }
    for edge in &s.edges {
        line(
            out,
            edge.side,
            &format!(
                "begins {} after the start, ends {} before the end",
                ns(edge.gap_begin_ns),
                ns(edge.gap_end_ns)
            ),
        )?;
    }
    Ok(())
}

/// Returns `true` for the recording options of the profiler.
fn is_setting(key: &str) -> bool {
    key.starts_with("with_") || ["record_shapes", "profile_memory"].contains(&key)
}

/// Returns `1 slice`, `2 slices`.
fn many(count: u64, what: &str) -> String {
    let plural = match (count, what.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", human::count(count))
}

fn verdict(found: &Described, out: &mut dyn Write) -> io::Result<()> {
    let s = &found.summary;
    line(out, "data", data(found))?;
    let finding = |f: &Finding| {
        let count = human::count(f.count);
        // Texts that begin with their number have said it.
        match f.text.split(' ').next() == Some(count.as_str()) {
            true => format!("{}: {}", f.code, f.text),
            false => format!("{}: {} ({count})", f.code, f.text),
        }
    };
    for reason in &s.reasons {
        line(out, "", &finding(reason))?;
    }
    for (at, remark) in s.remarks.iter().enumerate() {
        line(out, if at == 0 { "note" } else { "" }, &finding(remark))?;
    }
    Ok(())
}

fn list<'s>(
    (out, width): (&mut dyn Write, Option<usize>),
    title: &str,
    columns: &[Column],
    rows: impl ExactSizeIterator<Item = Vec<Cell<'s>>>,
    shown: usize,
) -> report::Result<()> {
    let total = rows.len();
    if total == 0 || shown == 0 {
        return Ok(());
    }
    let hidden = total.saturating_sub(shown);
    let more = match hidden {
        0 => String::new(),
        n => format!(" (first {shown}, {n} more with -v)"),
    };
    writeln!(out, "\n{title}{more}")?;
    let options = TextOptions {
        width,
        ..TextOptions::default()
    };
    let mut sink = TextWriter::new(out, options);
    sink.begin(columns)?;
    for row in rows.take(shown) {
        sink.row(&row)?;
    }
    sink.finish()?;
    Ok(())
}

fn issues(issues: &[IssueCount], out: &mut dyn Write) -> io::Result<()> {
    if issues.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nissues")?;
    for issue in issues {
        let detail = issue
            .detail
            .as_ref()
            .map(|d| format!(" ({d})"))
            .unwrap_or_default();
        let head = format!(
            "{} × {} [{}]: {}{detail}{}",
            human::count(issue.count),
            issue.name,
            issue.severity,
            issue.text,
            places(&issue.places)
        );
        for (at, part) in wrapped(&head, 74).iter().enumerate() {
            writeln!(out, "{}{part}", if at == 0 { "  " } else { "      " })?;
        }
    }
    Ok(())
}

/// Formats the first three places.
fn places(places: &[PlaceFacts]) -> String {
    let shown: Vec<String> = places
        .iter()
        .take(3)
        .map(|place| match place {
            PlaceFacts::Byte(n) => format!("byte {n}"),
            PlaceFacts::Row(n) => format!("row {n}"),
            PlaceFacts::AtNs(n) => format!("ts {n}"),
            _ => "elsewhere".to_owned(),
        })
        .collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!("; at {}", shown.join(", ")),
    }
}
