//! `rocpd merge` and `rocpd package`.

use std::path::PathBuf;

use anyhow::Context as _;
use cli::{OrExit as _, Outcome};
use rocpd_db::{Align, MergeOptions, OpenOptions, PackageOptions, RocpdSet};

use crate::args::{MergeArgs, PackageArgs};
use crate::{console, select};

pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Outcome> {
    let set = RocpdSet::open(&args.input.paths(), &OpenOptions::default())?;
    select::tell(&set, args.verbosity);
    std::fs::create_dir_all(&args.output_path)?;
    let mut name = args.output_file.clone();
    if !name.ends_with(".db") {
        name.push_str(".db");
    }
    let path = args.output_path.join(name);
    let mut options = MergeOptions::default();
    options.reassign_ids = args.reassign_ids;
    options.align = args.align.as_deref().map(align).transpose()?;
    let merged = rocpd_db::merge(&set, &path, &options)?;
    for file in &merged.removed {
        args.verbosity.note(format!(
            "note: removed {file}, left by a merge that was killed"
        ));
    }
    for note in &merged.notes {
        args.verbosity.note(format!("note: {note}"));
    }
    for offset in &merged.offsets {
        console::print(&format!(
            "Times of {}: {:+} ns\n",
            offset.node, offset.offset_ns
        ))?;
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

/// Parses the clock alignment of `--align`.
fn align(text: &str) -> anyhow::Result<Align> {
    if text == "init" {
        return Ok(Align::Init);
    }
    if let Some(message) = text.strip_prefix("marker:") {
        return Ok(Align::Marker(message.to_owned()));
    }
    let read = std::fs::read_to_string(text).with_context(|| {
        format!("--align {text}: neither init nor marker:MESSAGE, nor a file that can be read")
    });
    Ok(Align::Offsets(
        offsets(text, &read.or_exit(cli::Outcome::Usage)?).or_exit(cli::Outcome::Usage)?,
    ))
}

/// Parses offsets from a file: a line for each node, with its name and nanoseconds. A first line
/// without a number is a header.
fn offsets(path: &str, text: &str) -> anyhow::Result<Vec<(String, i64)>> {
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, offset) = line.rsplit_once(',').unwrap_or((line, ""));
        match offset.trim().parse() {
            Ok(offset) => list.push((name.trim().trim_matches('"').to_owned(), offset)),
            Err(_) if list.is_empty() && number == 0 && !offset.is_empty() => {}
            Err(_) => anyhow::bail!(
                "{path}:{}: found `{line}`: a line is the name of a host, a comma and nanoseconds",
                number + 1
            ),
        }
    }
    Ok(list)
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
        (None, true) => PathBuf::from(format!("rocpd-{}.rpdb", rocpd_convert::now().0)),
        (None, false) => PathBuf::from("."),
    };
    let mut options = PackageOptions::default();
    options.consolidate = args.consolidate;
    options.copy = args.copy;
    let index = match rocpd_db::package(&args.input.paths(), &folder, &options) {
        Err(error) if error.is_output() => return Err(error).or_exit(Outcome::OutputFailed),
        index => index?,
    };
    console::print(&format!("Package index: {}\n", index.display()))?;
    Ok(Outcome::Fine)
}
