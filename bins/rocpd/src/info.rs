//! `rocpd info`.

use cli::{Format, Outcome};
use rocpd_convert::info;
use rocpd_db::{OpenOptions, RocpdSet};

use crate::args::InfoArgs;
use crate::names::converted;
use crate::{console, select};

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<Outcome> {
    let mut options = OpenOptions::default();
    options.keep_going = args.keep_going;
    let inputs = args.input.paths();
    select::check_inputs(&inputs, false)?;
    let set = RocpdSet::open(&inputs, &options)?;
    let document = converted(info::document(&set))?;
    let shown = match args.format.format() {
        Format::Json => serde_json::to_string_pretty(&document)? + "\n",
        Format::Csv => converted(info::csv(&document))?,
        Format::Text => info::text(&document),
    };
    console::print(&shown)?;
    Ok(Outcome::Fine)
}
