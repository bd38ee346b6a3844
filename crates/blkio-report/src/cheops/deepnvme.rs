//! Result logs of deepnvme in a folder, and figure 2 of the study.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use blkio_companions::deepnvme::{Results, parse, run_of};
use serde_json::{Map, Value, json};

use super::deepnvme_figures;
use super::run::{Figures, files_in, save, uncompressed};
use crate::error::{Error, Result};
use crate::files::whole;

/// Results of the deepnvme logs of a folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeepnvmeResults {
    /// Results by file system.
    pub file_systems: BTreeMap<String, Results>,
    /// Logs without a result, or whose result contradicts itself, a sentence each.
    pub problems: Vec<String>,
}

/// Reads all results below a folder.
///
/// # Errors
///
/// A folder without any result.
pub fn deepnvme_results(dir: &Path) -> Result<DeepnvmeResults> {
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
        return Err(Error::Input(format!("{}: {what}", dir.display())));
    }
    Ok(DeepnvmeResults {
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

impl DeepnvmeResults {
    /// Adds the bandwidths as members of a document: those of a single file system by themselves, those of several by name.
    pub fn put(&self, document: &mut Map<String, Value>) {
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

    /// Returns the runs of the published set that have no result.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (name, results) in &self.file_systems {
            let (_, missing) = deepnvme_figures(results, false);
            all.extend(missing.into_iter().map(|what| self.of(name, what)));
        }
        all
    }

    /// Returns a text with its file system where there are several.
    fn of(&self, file_system: &str, what: String) -> String {
        if self.file_systems.len() > 1 {
            format!("{file_system}: {what}")
        } else {
            what
        }
    }
}

/// Makes figure 2 of the study from a folder of logs, and writes it into `out`.
///
/// # Errors
///
/// A folder without any result, files that cannot be written.
pub fn figure_2(dir: &Path, compat: bool, out: Option<&Path>) -> Result<Figures> {
    let found = deepnvme_results(dir)?;
    let mut missing = found.missing();
    missing.extend(found.problems.iter().cloned());
    let mut document = Map::new();
    document.insert("schema_version".to_owned(), 1.into());
    document.insert("figure".to_owned(), 2.into());
    document.insert("compat".to_owned(), compat.into());
    document.insert("missing".to_owned(), missing.clone().into());
    found.put(&mut document);
    let mut all = Vec::new();
    for (stem, results) in &found.file_systems {
        let (figures, _) = deepnvme_figures(results, compat);
        if let Some(dir) = out {
            save(dir, stem, &figures, compat)?;
        }
        all.extend(figures.into_iter().map(|figure| (stem.clone(), figure)));
    }
    let shown = all.iter().map(|(stem, figure)| figure.to_json(stem));
    document.insert("figures".to_owned(), shown.collect());
    Ok(Figures {
        document: Value::Object(document),
        figures: all,
        missing,
        warnings: Vec::new(),
    })
}
