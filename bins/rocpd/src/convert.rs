//! `rocpd convert`.

use cli::{Outcome, Stage, VerbosityArgs, usage};
use rocpd_convert::{csv, otf2, pftrace, rows};
use rocpd_db::{KernelNames, TimePoint};

use crate::args::{ConvertArgs, ConvertFormat, PerfettoArgs};
use crate::names::{converted, destination};
use crate::{console, select};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let shared = &args.shared;
    let set = Stage::time("open", shared.verbosity, || select::open(shared))?;
    if args.list_categories {
        return list_categories(&set);
    }
    let window = select::window(&set, &args.window, shared)?;
    let filter = select::filter(&args.filter, window);
    let to = destination(shared, "out")?;
    let kernels = KernelNames::from(&args.names);
    let agents = args.agent_index_value.into();
    for format in &args.output_format {
        let word = format.word();
        if shared.compat {
            console::print(&format!("Converting database(s) to {word} format:\n"))?;
        } else {
            shared.verbosity.detail(|| format!("converting to {word}"));
        }
        let _stage = Stage::start("convert", shared.verbosity);
        let table = |format| converted(rows::write(&set, &filter, kernels, format, &to));
        match format {
            ConvertFormat::Csv => {
                let mut options = csv::Options::default();
                options.layout = args.csv_layout.into();
                options.agents = agents;
                options.kernels = kernels;
                options.reference_names = shared.compat;
                converted(csv::write(&set, &filter, options, &to))?;
            }
            ConvertFormat::Pftrace => {
                let mut options = pftrace_options(&args.perfetto)?;
                options.agents = agents;
                options.kernels = kernels;
                let report = converted(pftrace::write(&set, &filter, &options, &to))?;
                say_before_zero(report.before_zero(), shared.verbosity);
                say_reversed(report.reversed(), "trace", shared.verbosity);
                let frees = report.unmatched_frees();
                if frees > 0 {
                    shared.verbosity.note(format!(
                        "note: {frees} frees of addresses that were not allocated in the recording"
                    ));
                }
            }
            ConvertFormat::Parquet => table(rows::Format::Parquet)?,
            ConvertFormat::Arrow => table(rows::Format::Arrow)?,
            ConvertFormat::Json => table(rows::Format::Json)?,
            ConvertFormat::Otf2 => {
                let mut options = otf2::Options::default();
                options.agents = agents;
                options.kernels = kernels;
                let report = converted(otf2::write(&set, &filter, options, &to))?;
                say_before_zero(report.before_zero, shared.verbosity);
                say_reversed(report.reversed, "archive", shared.verbosity);
            }
        }
    }
    select::report_issues(&set, shared.verbosity);
    Ok(Outcome::Fine)
}

fn say_before_zero(records: u64, verbosity: VerbosityArgs) {
    if records > 0 {
        verbosity.note(format!(
            "warning: {records} records begin before time 0 and are left out"
        ));
    }
}

fn say_reversed(records: u64, place: &str, verbosity: VerbosityArgs) {
    if records > 0 {
        verbosity.note(format!(
            "warning: {records} records end before they start: the {place} has them with length 0"
        ));
    }
}

fn pftrace_options(args: &PerfettoArgs) -> anyhow::Result<pftrace::Options> {
    let mut options = pftrace::Options::default();
    options.group_by_queue = args.group_by_queue;
    options.shown = match &args.annotations {
        _ if args.no_annotations => pftrace::Shown::Only(Vec::new()),
        Some(keys) => pftrace::Shown::Only(keys.clone()),
        None => pftrace::Shown::All,
    };
    options.call_args = args.annotate_args;
    options.kfd_args = !args.no_annotate_kfd;
    options.counters_in_slices = args.annotate_pmc;
    options.flows = !args.no_flows;
    options.counters = !args.no_counters;
    options.overlap = args.overlap.into();
    options.gzip = args.gzip;
    options.cut = cut(args)?;
    options.split_by = args.split_by.map(Into::into);
    Ok(options)
}

fn cut(args: &PerfettoArgs) -> anyhow::Result<pftrace::Cut> {
    let wrong = |text: &str| {
        usage(format!(
            "--split-time {text}: a number of parts, or a time such as 250ms"
        ))
    };
    Ok(match (&args.split_time, args.split_bytes) {
        (Some(_), Some(_)) => {
            return Err(usage("--split-time and --split-bytes: choose one"));
        }
        (None, None) => pftrace::Cut::Whole,
        (None, Some(size)) => pftrace::Cut::Bytes(size.bytes()),
        (Some(text), None) => match TimePoint::parse(text) {
            Ok(TimePoint::Absolute(parts)) => {
                pftrace::Cut::Parts(u32::try_from(parts).map_err(|_| wrong(text))?)
            }
            Ok(TimePoint::Offset(length)) if length > 0 => pftrace::Cut::Every(length),
            _ => return Err(wrong(text)),
        },
    })
}

fn list_categories(set: &rocpd_db::RocpdSet) -> anyhow::Result<Outcome> {
    let session = set.sql(None, rocpd_db::KernelNames::default())?;
    let mut statement = session.prepare(
        "SELECT DISTINCT COALESCE(C.name, S.string) FROM rocpd_event E \
         LEFT JOIN rocpd_info_category C ON C.id = E.category_id AND C.guid = E.guid \
         LEFT JOIN rocpd_string S ON S.id = E.category_id AND S.guid = E.guid ORDER BY 1",
    )?;
    let mut rows = statement.query(&[])?;
    let mut out = String::new();
    while let Some(row) = rows.next()? {
        if let rocpd_db::SqlValue::Text(category) = row.get(0) {
            out += category;
            out.push('\n');
        }
    }
    console::print(&out)?;
    Ok(Outcome::Fine)
}
