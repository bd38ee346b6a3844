//! `rocpd merge` and `rocpd package`.

use std::path::PathBuf;

use rocpd_db::{MergeOptions, OpenOptions, PackageOptions, RocpdSet};
use shell::Outcome;

use crate::args::{MergeArgs, PackageArgs};
use crate::{console, names};

pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Outcome> {
    let set = RocpdSet::open(&args.input, &OpenOptions::default())?;
    for warning in set.warnings() {
        args.verbosity.note(format!("warning: {warning}"));
    }
    std::fs::create_dir_all(&args.output_path)?;
    let mut name = args.output_file.clone();
    if !name.ends_with(".db") {
        name.push_str(".db");
    }
    let path = args.output_path.join(name);
    let mut options = MergeOptions::default();
    options.reassign_ids = args.reassign_ids;
    let merged = rocpd_db::merge(&set, &path, &options)?;
    for file in &merged.removed {
        args.verbosity.note(format!(
            "note: removed {file}, left by a merge that was killed"
        ));
    }
    console::print(&format!(
        "Merged {} databases, {} tables, {} rows: {}\n",
        merged.files,
        merged.tables,
        merged.rows,
        path.display()
    ))?;
    Ok(Outcome::Fine)
}

pub(crate) fn run(args: &PackageArgs) -> anyhow::Result<Outcome> {
    let folder = match (&args.output_path, args.consolidate) {
        (Some(name), _) => {
            let mut name = name.clone().into_os_string();
            if !name.to_string_lossy().ends_with(".rpdb") {
                name.push(".rpdb");
            }
            PathBuf::from(name)
        }
        (None, true) => PathBuf::from(format!("rocpd-{}.rpdb", names::now().0)),
        (None, false) => PathBuf::from("."),
    };
    let mut options = PackageOptions::default();
    options.consolidate = args.consolidate;
    options.copy = args.copy;
    let index = rocpd_db::package(&args.input, &folder, &options)?;
    console::print(&format!("Package index: {}\n", index.display()))?;
    Ok(Outcome::Fine)
}
