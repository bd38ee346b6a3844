//! `rocpd summary`.

use cli::{OrExit as _, Outcome, Stage};
use rocpd_convert::{extended, headline, summary_tables};
use rocpd_db::{SqlValue, Summary, SummaryOptions};

use crate::args::SummaryArgs;
use crate::names::{converted, destination};
use crate::{console, select, tables};

pub(crate) fn run(args: &SummaryArgs) -> anyhow::Result<Outcome> {
    let shared = &args.shared;
    let set = Stage::time("open", shared.verbosity, || select::open(shared))?;
    let window = select::window(&set, &args.window, shared)?;
    let filter = select::filter(&args.filter, window);
    let mut options = SummaryOptions::default();
    options.region_categories = args.region_categories.as_ref().map(|list| {
        list.iter()
            .flat_map(|part| part.split(','))
            .map(str::to_owned)
            .collect()
    });
    options.compat = shared.compat;
    options.quantiles = args.extended;
    options.names = (&args.names).into();
    let summary = Stage::time("summarise", shared.verbosity, || {
        Summary::collect(&set, &filter, &options)
    });
    let summary = match summary {
        Err(error @ rocpd_db::Error::UnknownCategory { .. }) => {
            return Err(error).or_exit(Outcome::Usage);
        }
        summary => summary?,
    };
    let format = tables::file_format(args.format)?;
    let names = &destination(shared, "")?;
    if args.extended && format.is_none() && !shared.compat {
        console::print(&converted(headline(&set, &filter, &summary))?)?;
    }
    let put = |compat: bool| {
        move |file: &str, columns: &[&str], rows: Vec<Vec<SqlValue<'_>>>| -> anyhow::Result<()> {
            let path = match format {
                None => std::path::PathBuf::new(),
                Some(format) => {
                    let extension = format.extension(shared.compat);
                    converted(names.file(&format!("{file}.{extension}")))?
                }
            };
            let columns: Vec<String> = columns.iter().map(|&of| of.to_owned()).collect();
            let look = tables::look(compat, Some(file.to_ascii_uppercase()));
            let mut sink = tables::open(format, &columns, &path, &look)?;
            for values in rows {
                let value = |column| values.get(column).copied().unwrap_or(SqlValue::Null);
                converted(sink.row(&value))?;
            }
            converted(sink.finish())
        }
    };
    let options = summary_tables::Options {
        by_rank: args.summary_by_rank,
        domains: args.domain_summary,
        extended: args.extended,
        compat: shared.compat,
    };
    summary_tables::each(&summary, options, &put(shared.compat))?;
    if args.extended {
        extended::each(&set, &filter, &summary, (&args.names).into(), &put(false))?;
    }
    for (count, what) in summary.lost.counts() {
        shared.verbosity.note(format!(
            "note: {count} {what} are in no view and not counted"
        ));
    }
    for view in &summary.views {
        let reversed = view.reversed();
        if reversed > 0 {
            shared.verbosity.note(format!(
                "warning: {}: {reversed} records end before they start: their durations, below 0, are in DURATION, AVERAGE and MIN",
                view.view
            ));
        }
    }
    if summary.replays > 0 {
        shared.verbosity.note(format!(
            "note: {} dispatches are further passes of kernel replay: calls and durations of kernels count every pass",
            summary.replays
        ));
    }
    if summary.views.is_empty() {
        shared
            .verbosity
            .note("warning: no records: nothing was written");
    }
    select::report_issues(&set, shared.verbosity);
    Ok(Outcome::Fine)
}
