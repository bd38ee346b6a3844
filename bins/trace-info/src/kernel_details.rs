//! `trace-info kernels --details`: shapes, rates and launch configurations.

use cli::Outcome;
use gpu_time::GpuWork;
use report::SchemaVersion;
use roofline::{
    CallOptions, DeviceOptions, KernelDetail, Knowledge, Options, analyse, details_table,
    kernel_details,
};

use crate::args::ReportFormat;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::KernelsArgs;
use crate::part;
use crate::roofline::wants;
use crate::roofline_text;

const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

struct Answer {
    label: String,
    rows: Vec<KernelDetail>,
    notes: Vec<gpu_time::Note>,
}

pub(crate) fn run(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let knowledge = Knowledge::default();
    let mut options = Options::new(CallOptions::new(&knowledge));
    let mut devices = DeviceOptions::default();
    devices.key.clone_from(&args.device);
    options.devices = devices;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| {
            args.part.keep_args(options);
            if let perfetto_reader::ArgPolicy::Only(keys) = &mut options.args {
                let more = roofline::ARG_KEYS.iter().chain(roofline::DETAIL_KEYS);
                keys.extend(more.map(|key| (*key).to_owned()));
            }
        },
        |input| {
            let work: GpuWork<'_> = args.rules.work(&input.trace);
            let (how, notes) = args.part.resolve(input, &work)?;
            let analysis = analyse(&work, &[], &options, |call| wants(&how, call))
                .map_err(|error| cli::usage(error.to_string()))?;
            let answer = Answer {
                label: input.label.clone(),
                rows: kernel_details(&work, &analysis, |call| wants(&how, call)),
                notes,
            };
            Ok((answer, part::no_gpu_work(&work, &how)))
        },
    )?;
    let mut document = Document::new(VERSION);
    let all: Vec<(&str, &[KernelDetail])> = each
        .results
        .iter()
        .map(|answer| (answer.label.as_str(), &*answer.rows))
        .collect();
    let top = args.top.unwrap_or(usize::MAX);
    document.tables.push(details_table(&all, top, true)?);
    let is_text = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    if is_text {
        for (answer, why) in each.with_reasons() {
            document.heading(&answer.label);
            if empty::instead_of_tables(&mut document, why) {
                continue;
            }
            document.notes(&answer.notes);
            let top = args.top.unwrap_or(20);
            let title = format!(
                "{} of {} rows",
                top.min(answer.rows.len()),
                answer.rows.len()
            );
            let shown: Vec<KernelDetail> = answer.rows.iter().take(top).map(shortened).collect();
            document.table(&title, details_table(&[("", &shown)], top, false)?);
        }
    }
    document.write(to)?;
    each.end(report)
}

/// Returns a row with names that fit a line.
fn shortened(row: &KernelDetail) -> KernelDetail {
    let mut row = row.clone();
    row.name = roofline_text::short(&row.name);
    row.op = roofline_text::cut(&row.op);
    row.dims = roofline_text::shapes(&row.dims);
    row
}
