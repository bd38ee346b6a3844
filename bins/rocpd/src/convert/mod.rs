//! `rocpd convert`.

mod csv;
mod items;
mod labels;
mod otf2;
mod pftrace;
mod rows;

use cli::{Outcome, Stage};

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;
use crate::{console, select};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let shared = &args.shared;
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
            ConvertFormat::Otf2 => otf2::write(&set, &filter, args, &names)?,
        }
    }
    select::report_issues(&set, shared.verbosity);
    Ok(Outcome::Fine)
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
