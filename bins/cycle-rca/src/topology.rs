//! `cycle-rca topology`.

use anyhow::{Context as _, bail};
use cli::{Format, Outcome};
use rca_report::document;
use rca_report::topology::Machine;
use report::{CsvOptions, CsvWriter, JsonDocument};

use crate::args::{TopologyArgs, TopologyReport, format_of};
use crate::files::must_exist;
use crate::{names, probes};

pub(crate) fn run(args: &TopologyArgs) -> anyhow::Result<Outcome> {
    must_exist(&args.file)?;
    let path = match args.file.is_dir() {
        true => args.file.join("topo_component.csv"),
        false => args.file.clone(),
    };
    let found = serving_logs::topology(&probes::text(&path)?)
        .with_context(|| path.display().to_string())?;
    if found.components.is_empty() {
        bail!("{}: no component of a host in it", path.display());
    }
    if found.skipped > 0 {
        let line = format!("{}: {} rows name no host", path.display(), found.skipped);
        args.verbosity.note(line);
    }
    let machine = Machine::new(&found.components);
    let detailed = args.report == TopologyReport::Detailed;
    let mut out = args.output.open()?;
    match format_of(&args.format, &args.output) {
        Format::Json => {
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            document.member("hosts", &machine.hosts())?;
            document.member("categories", &machine.categories(detailed))?;
            document.member("rows_without_host", &found.skipped)?;
            document.finish()?;
        }
        Format::Csv => {
            machine.rows(&mut CsvWriter::new(&mut out, CsvOptions::default()))?;
        }
        Format::Text => machine.text(&mut out, names(), detailed)?,
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
