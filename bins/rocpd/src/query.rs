//! `rocpd query`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cli::{Outcome, Stage};
use rocpd_convert::tables::{Format, Look, RowTaker};
use rocpd_db::{KernelNames, RocpdSet};

use crate::args::QueryArgs;
use crate::names::{converted, destination};
use crate::{console, mail, select, tables};

pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<Outcome> {
    let format = tables::file_format(args.format)?;
    let shared = &args.shared;
    let letter = mail::letter(&args.mail)?;
    let set = Stage::time("open", shared.verbosity, || select::open(shared))?;
    let window = select::window(&set, &args.window, shared)?;
    let names = destination(shared, "out")?;
    let path = match format {
        None => PathBuf::new(),
        Some(format) => converted(names.with_extension(format.extension(shared.compat)))?,
    };
    let mut look = tables::look(shared.compat, None);
    if let Some(path) = &args.template_path {
        let template = std::fs::read_to_string(path)
            .with_context(|| format!("{}: cannot read the template", path.display()))?;
        look.template = Some(template);
    }
    let stage = Stage::start("query", shared.verbosity);
    let found = match answer(&set, args, window, (format, &path), &look) {
        Err(error) if shared.compat && is_sql(&error) => {
            console::print(&format!("Error: {error}\n"))?;
            return Ok(Outcome::Fine);
        }
        found => found?,
    };
    drop(stage);
    select::report_issues(&set, shared.verbosity);
    if !found {
        shared
            .verbosity
            .note(format!("No results found for query: {}", args.query));
        return Ok(Outcome::Fine);
    }
    if format.is_some() {
        console::print(&format!("Exported to: {}\n\n", path.display()))?;
    }
    let Some(letter) = letter else {
        return Ok(Outcome::Fine);
    };
    if format.is_none() {
        // Console output is not a file: the mail has it as CSV.
        let folder = tempfile::tempdir()?;
        let base = Path::new(names.base()).file_name();
        let mut name = base.unwrap_or_default().to_owned();
        name.push(".csv");
        let path = folder.path().join(name);
        answer(&set, args, window, (Some(Format::Csv), &path), &look)?;
        mail::send(letter, &args.mail, &path)?;
    } else {
        mail::send(letter, &args.mail, &path)?;
    }
    Ok(Outcome::Fine)
}

fn is_sql(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<rocpd_db::Error>(),
        Some(rocpd_db::Error::Sql { .. })
    )
}

/// Runs the query. Returns `true` if it gave rows.
fn answer(
    set: &RocpdSet,
    args: &QueryArgs,
    window: Option<rocpd_db::Window>,
    (format, path): (Option<Format>, &Path),
    look: &Look,
) -> anyhow::Result<bool> {
    let names = KernelNames::from(&args.names);
    let mut sink: Option<Box<dyn RowTaker>> = None;
    if args.script.is_none()
        && names == KernelNames::default()
        && let Some(view) = rocpd_db::ViewScan::of_query(&args.query)
        && view.is_faithful(set)
    {
        // A plain view needs no SQL engine.
        let columns: Vec<String> = view.columns(set).into_iter().map(str::to_owned).collect();
        view.each(set, window, |value| -> anyhow::Result<()> {
            if sink.is_none() {
                sink = Some(tables::open(format, &columns, path, look)?);
            }
            match &mut sink {
                Some(sink) => converted(sink.row(value)),
                None => Ok(()),
            }
        })?;
    } else {
        let session = set.sql(window, names)?;
        if let Some(script) = &args.script {
            let text = std::fs::read_to_string(script)
                .with_context(|| format!("{}: cannot read the script", script.display()))?;
            session.run_script(&text)?;
        }
        let mut statement = session.prepare(&args.query)?;
        let columns = statement.columns();
        let mut rows = statement.query(&[])?;
        while let Some(row) = rows.next()? {
            if sink.is_none() {
                sink = Some(tables::open(format, &columns, path, look)?);
            }
            if let Some(sink) = &mut sink {
                converted(sink.row(&|column| row.get(column)))?;
            }
        }
    }
    match sink {
        Some(sink) => {
            converted(sink.finish())?;
            Ok(true)
        }
        None => Ok(false),
    }
}
