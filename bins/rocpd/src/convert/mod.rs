//! `rocpd convert`.

mod csv;
mod items;
mod labels;
#[cfg(feature = "otf2")]
mod otf2;
mod pftrace;
mod rows;

use shell::{OrExit as _, Outcome, Stage};

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;
use crate::{console, select};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let shared = &args.shared;
    if cfg!(not(feature = "otf2")) && args.output_format.contains(&ConvertFormat::Otf2) {
        return Err(anyhow::anyhow!(
            "-f otf2: this build has no OTF2 support: build it with --features otf2 where the OTF2 C library is installed (Debian: libotf2-trace-dev), or convert to pftrace, parquet or csv"
        ))
        .or_exit(3);
    }
    let set = Stage::time("open", shared.verbosity, || select::open(shared))?;
    if args.list_categories {
        return list_categories(&set);
    }
    let window = select::window(&set, &args.window, shared)?;
    let filter = select::filter(&args.filter, window);
    let names = OutputNames::new(shared, "out")?;
    for format in &args.output_format {
        let word = format.word();
        if shared.compat {
            console::print(&format!("Converting database(s) to {word} format:\n"))?;
        } else {
            shared.verbosity.detail(|| format!("converting to {word}"));
        }
        let _stage = Stage::start("convert", shared.verbosity);
        match format {
            ConvertFormat::Csv => csv::write(&set, &filter, args, &names)?,
            ConvertFormat::Pftrace => pftrace::write(&set, &filter, args, &names)?,
            ConvertFormat::Parquet | ConvertFormat::Arrow | ConvertFormat::Json => {
                rows::write(&set, &filter, args, &names, *format)?;
            }
            #[cfg(feature = "otf2")]
            ConvertFormat::Otf2 => otf2::write(&set, &filter, args, &names)?,
            #[cfg(not(feature = "otf2"))]
            ConvertFormat::Otf2 => {}
        }
    }
    select::report_issues(&set, shared.verbosity);
    Ok(Outcome::Fine)
}

fn list_categories(set: &rocpd_db::RocpdSet) -> anyhow::Result<Outcome> {
    let session = set.sql(None, rocpd_db::KernelNames::default())?;
    let mut statement = session.prepare(
        "SELECT DISTINCT S.string FROM rocpd_event E JOIN rocpd_string S ON S.id = E.category_id AND S.guid = E.guid ORDER BY 1",
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
