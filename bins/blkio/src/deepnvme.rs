//! `blkio deepnvme`, and figure 2 of `blkio cheops25`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use blkio_parser::cheops::deepnvme_figures;
use blkio_parser::deepnvme::{Results, parse, run_of};
use cli::{OrExit as _, Outcome};
use report::{Column, RealFormat};
use serde_json::{Map, Value, json};

use crate::NO_INPUT;
use crate::args::{CheopsArgs, DeepnvmeArgs};
use crate::cheops::{files_in, finish, save, uncompressed};
use crate::side::whole;
use crate::tables;

/// What the logs of a folder say.
struct Found {
    /// Results by file system.
    file_systems: BTreeMap<String, Results>,
    problems: Vec<String>,
}

/// All results below a folder.
fn results(dir: &Path) -> anyhow::Result<Found> {
    let mut file_systems: BTreeMap<String, Results> = BTreeMap::new();
    let mut problems = Vec::new();
    let mut folders = vec![dir.to_owned()];
    // A link may lead back.
    let mut seen = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            continue;
        }
        for path in files_in(&folder)? {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            let Some((series, file_system, size)) = run_of(uncompressed(name)) else {
                continue;
            };
            let results = file_systems.entry(file_system).or_default();
            match parse(&whole(&path)?) {
                Some(found) => {
                    if !found.is_consistent() {
                        problems.push(format!(
                            "{name}: printed {} GB/s, but {} follows from size and time",
                            found.printed, found.exact
                        ));
                    }
                    results.entry(series).or_default().insert(size, found);
                }
                None => problems.push(format!("{name}: no result line")),
            }
        }
    }
    if file_systems.values().all(Results::is_empty) {
        let what = match problems.as_slice() {
            [] => "no deepnvme logs (deepnvme-ENGINE-FS-EXPERIMENT-SIZE-mb.txt)".to_owned(),
            [first, ..] => format!(
                "no result in any of {} deepnvme logs, as the runs failed or the logs are cut: {first}",
                problems.len()
            ),
        };
        return Err(anyhow::anyhow!("{}: {what}", dir.display())).or_exit(NO_INPUT);
    }
    Ok(Found {
        file_systems,
        problems,
    })
}

fn results_value(results: &Results, exact: bool) -> Value {
    Value::Object(
        results
            .iter()
            .map(|(series, sizes)| {
                let sizes: Map<String, Value> = sizes
                    .iter()
                    .map(|(size, found)| {
                        (
                            size.to_string(),
                            json!(if exact { found.exact } else { found.printed }),
                        )
                    })
                    .collect();
                ((*series).to_owned(), Value::Object(sizes))
            })
            .collect(),
    )
}

impl Found {
    /// The bandwidths as members of a document: those of a single file system by themselves, those of several by name.
    fn put(&self, document: &mut Map<String, Value>) {
        let only = match self.file_systems.values().collect::<Vec<_>>()[..] {
            [only] => Some(only),
            _ => None,
        };
        for (member, exact) in [
            ("deepnvme_gb_per_s", false),
            ("deepnvme_gib_per_s_exact", true),
        ] {
            let value = match only {
                Some(results) => results_value(results, exact),
                None => self
                    .file_systems
                    .iter()
                    .map(|(name, results)| (name.clone(), results_value(results, exact)))
                    .collect(),
            };
            document.insert(member.to_owned(), value);
        }
    }

    /// Runs of the published set that have no result.
    fn missing(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, results) in &self.file_systems {
            let (_, missing) = deepnvme_figures(results, false);
            all.extend(missing.into_iter().map(|what| self.of(name, what)));
        }
        all
    }

    /// A text with its file system where there are several.
    fn of(&self, file_system: &str, what: String) -> String {
        if self.file_systems.len() > 1 {
            format!("{file_system}: {what}")
        } else {
            what
        }
    }
}

pub(crate) fn figure_2(args: &CheopsArgs) -> anyhow::Result<Outcome> {
    let found = results(&args.dir)?;
    let mut missing = found.missing();
    missing.extend(found.problems.iter().cloned());
    let mut document = Map::new();
    document.insert("schema_version".to_owned(), 1.into());
    document.insert("figure".to_owned(), 2.into());
    document.insert("compat".to_owned(), args.compat.into());
    document.insert("missing".to_owned(), missing.into());
    found.put(&mut document);
    let mut all = Vec::new();
    for (stem, results) in &found.file_systems {
        let (figures, _) = deepnvme_figures(results, args.compat);
        if let Some(dir) = &args.out {
            save(dir, stem, &figures, args.compat)?;
        }
        all.extend(figures.into_iter().map(|figure| (stem.clone(), figure)));
    }
    let shown = all.iter().map(|(stem, figure)| figure.to_json(stem));
    document.insert("figures".to_owned(), shown.collect());
    finish(args, &Value::Object(document), &all)
}

pub(crate) fn deepnvme(args: &DeepnvmeArgs) -> anyhow::Result<Outcome> {
    let found = results(&args.dir)?;
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
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        format => {
            let columns = [
                Column::text("file_system"),
                Column::text("series"),
                Column::uint("size_mib"),
                Column::real("gib_per_s"),
                Column::real("seconds"),
            ];
            // People need no sixteen digits.
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
            tables::print(&mut out, format, &columns, all)?;
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
