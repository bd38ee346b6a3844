//! `trace-info kernels --details`: shapes, rates and launch configurations.

use cli::Outcome;
use gpu_time::GpuWork;
use report::SchemaVersion;
use roofline::{KernelDetail, analyse, details_table, kernel_details};
use trace_model::kernel::display_names;

use crate::args::ReportFormat;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::KernelsArgs;
use crate::part;
use crate::roofline::{Known, captures, usage, wants};

const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

struct Answer {
    label: String,
    /// How much has numbers, and how near to the limit that runs.
    answer: String,
    rows: Vec<KernelDetail>,
    notes: Vec<gpu_time::Note>,
}

pub(crate) fn run(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let known = Known::new(args.extensions.as_deref(), args.model.as_deref())?;
    let options = known.options(args.tp, args.device.as_ref());
    let keep = |options: &mut perfetto_reader::ReadOptions| {
        args.part.keep_args(options);
        if let perfetto_reader::ArgPolicy::Only(keys) = &mut options.args {
            let more = roofline::ARG_KEYS.iter().chain(roofline::DETAIL_KEYS);
            keys.extend(more.map(|key| (*key).to_owned()));
        }
    };
    let captures = captures(&args.capture, report, keep)?;
    let each = empty::read_each(report, &report.traces()?, keep, |input| {
        let work: GpuWork<'_> = args.rules.work(&input.trace);
        let (how, notes) = args.part.resolve(input, &work)?;
        let captured: Vec<GpuWork<'_>> = captures.iter().map(|c| GpuWork::new(&c.trace)).collect();
        let captured: Vec<&GpuWork<'_>> = captured.iter().collect();
        let analysis =
            analyse(&work, &captured, &options, |call| wants(&how, call)).map_err(usage)?;
        let answer = Answer {
            label: input.label.clone(),
            answer: roofline::text::answer(&analysis),
            rows: kernel_details(&work, &analysis, |call| wants(&how, call)),
            notes,
        };
        Ok((answer, part::no_gpu_work(&work, &how)))
    })?;
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
    if !is_text {
        for answer in &each.results {
            report
                .verbosity
                .note(format!("{}: {}", answer.label, answer.answer));
        }
    } else {
        for (answer, why) in each.with_reasons() {
            document.heading(&answer.label);
            if empty::instead_of_tables(&mut document, why) {
                continue;
            }
            document.sentence(answer.answer.as_str());
            document.notes(&answer.notes);
            let top = args.top.unwrap_or(20);
            let title = format!(
                "{} of {} rows",
                top.min(answer.rows.len()),
                answer.rows.len()
            );
            let shown = as_shown(answer.rows.iter().take(top));
            document.table(&title, details_table(&[("", &shown)], top, false)?);
            for row in &shown {
                if let (Some(pct), Some(why)) = (row.pct(), row.beyond()) {
                    let text = format!("{} {}: {why}", row.name, report::human::percent(pct));
                    document.line("beyond", text);
                }
            }
        }
    }
    document.write(to)?;
    each.end(report)
}

/// Returns rows with the names of kernels and sizes as text shows them.
fn as_shown<'r>(rows: impl Iterator<Item = &'r KernelDetail> + Clone) -> Vec<KernelDetail> {
    let names = display_names(rows.clone().map(|row| row.name.as_str()));
    rows.map(|row| {
        let mut shown = row.clone();
        if let Some(name) = names.get(row.name.as_str()) {
            shown.name.clone_from(name);
        }
        shown.dims = roofline::text::shapes(&row.dims);
        shown
    })
    .collect()
}
