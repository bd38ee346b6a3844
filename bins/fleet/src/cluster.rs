//! Summaries on a cluster: what the client sends, and what executors make of it.

use std::num::NonZeroUsize;

use cli::InputArgs;
use fleet::store::summary_maker;
use trace_cluster::{Address, Jobs};
use trace_dataset::{Error, Maker, Order};

use crate::Files;

/// Name of the work on executors.
pub const WORK: &str = "fleet";

/// Returns the client's side.
pub(crate) fn jobs(address: &Address, input: &InputArgs) -> Result<Jobs, Error> {
    let jobs = Jobs::new(address, WORK, input.words());
    jobs.map_err(|error| Error::Elsewhere {
        text: error.to_string(),
    })
}

/// Returns what makes the summary of a recording on an executor.
///
/// # Errors
///
/// Returns one sentence on options of another version.
pub fn maker(options: &str, order: &Order) -> Result<Box<dyn Maker>, String> {
    let mut input = InputArgs::of_words(options)?;
    // Tasks run at once.
    input.threads = Some(NonZeroUsize::MIN);
    let files = vec![(order.path.clone(), order.name.clone())];
    Ok(Box::new(summary_maker(Files::new(
        files,
        input,
        trace_input::ClassesArgs::default(),
    ))))
}
