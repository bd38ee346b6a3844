//! Exports on a cluster: what the client sends, and what executors make of it.

use std::num::NonZeroUsize;

use cli::InputArgs;
use trace_cluster::{Address, Jobs};
use trace_dataset::{Error, Maker, Order, table_maker};
use trace_tables::catalogue::{TableSpec, table};

use crate::recordings::Recordings;

/// Name of the work on executors.
pub const WORK: &str = "export";

/// Words of the command line, tables, and whether numbers after `tp` in the names of all inputs are sizes of jobs.
type Options = (String, Vec<String>, bool);

/// Returns the client's side.
pub(crate) fn jobs(
    address: &Address,
    input: &InputArgs,
    tables: &[&'static TableSpec],
    sizes_in_names: bool,
) -> Result<Jobs, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Elsewhere {
        text: error.to_string(),
    };
    let names = tables.iter().map(|table| table.name.to_owned());
    let options: Options = (input.words(), names.collect(), sizes_in_names);
    let options = serde_json::to_string(&options).map_err(|error| failed(&error))?;
    Jobs::new(address, WORK, options).map_err(|error| failed(&error))
}

/// Returns what makes the files of a recording on an executor.
///
/// # Errors
///
/// Returns one sentence on options of another version.
pub fn maker(options: &str, order: &Order) -> Result<Box<dyn Maker>, String> {
    let options = serde_json::from_str(options).map_err(|error| error.to_string())?;
    let (words, names, sizes_in_names): Options = options;
    let mut input = InputArgs::of_words(&words)?;
    // Tasks run at once.
    input.threads = Some(NonZeroUsize::MIN);
    let known = |name: &String| table(name).ok_or_else(|| format!("no table `{name}`"));
    let tables: Vec<&'static TableSpec> = names.iter().map(known).collect::<Result<_, _>>()?;
    let file = (order.path.clone(), order.name.clone());
    let recordings = Recordings::named(file, sizes_in_names, input);
    Ok(Box::new(table_maker(recordings, tables)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_another_version_are_refused() {
        let order = serde_json::json!({
            "name": "a.json", "path": "/nowhere/a.json", "file_id": 3
        });
        let order: Order = serde_json::from_value(order).unwrap();
        assert!(maker("[\"--strict\",[\"kernels\",\"files\"],true]", &order).is_ok());
        for (options, expected) in [
            ("[\"\",[\"later\"],false]", "no table `later`"),
            ("[\"--later\",[],false]", "--later"),
            ("{}", ""),
        ] {
            let refused = maker(options, &order).map(drop).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
