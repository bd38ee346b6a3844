//! `blkio deepnvme`.

use blkio_report::cheops::deepnvme_results;
use blkio_report::tables::print_table;
use cli::Outcome;
use report::{Column, RealFormat};
use serde_json::{Map, Value, json};

use crate::args::DeepnvmeArgs;
use crate::reading::{OrCode as _, table_format, write_json};

pub(crate) fn run(args: &DeepnvmeArgs) -> anyhow::Result<Outcome> {
    let found = deepnvme_results(&args.dir).or_code()?;
    let missing = found.missing();
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            let mut document = Map::new();
            document.insert("schema_version".to_owned(), 1.into());
            let names: Vec<&String> = found.file_systems.keys().collect();
            document.insert("file_systems".to_owned(), json!(names));
            document.insert("problems".to_owned(), json!(found.problems));
            document.insert("missing".to_owned(), json!(missing));
            found.put(&mut document);
            write_json(&Value::Object(document), &mut out)?;
        }
        format => {
            let columns = [
                Column::text("file_system"),
                Column::text("series"),
                Column::uint("size_mib"),
                Column::real("gib_per_s"),
                Column::real("seconds"),
            ];
            // Nobody reads sixteen digits.
            let digits = if format == cli::Format::Csv {
                RealFormat::Shortest
            } else {
                RealFormat::Fixed(6)
            };
            let columns = columns.map(|column| column.reals(digits));
            let all = found.file_systems.iter().flat_map(|(name, results)| {
                let all = results.iter().flat_map(move |(series, sizes)| {
                    sizes.iter().map(move |(size, found)| (series, size, found))
                });
                all.map(move |(series, size, found)| {
                    [
                        Value::from(name.as_str()),
                        (*series).into(),
                        (*size).into(),
                        found.exact.into(),
                        found.seconds.into(),
                    ]
                    .to_vec()
                })
            });
            print_table(&mut out, table_format(format), &columns, all)?;
        }
    }
    out.finish()?;
    for problem in &found.problems {
        args.verbosity.note(format!("blkio: {problem}"));
    }
    if let Some(first) = missing.first() {
        let count = missing.len();
        args.verbosity.note(format!(
            "blkio: {count} of the published runs are missing: {first}{}",
            if count > 1 { ", ..." } else { "" }
        ));
    }
    Ok(Outcome::Fine)
}
