//! What is in a recording and what is missing in it.

use std::io::Write;

use gpu_time::comm::SHAPE_KEYS;
use gpu_time::{GpuWork, NoGpuWork, Overview, no_gpu_work};
use report::JsonDocument;
use serde::Serialize;
use serde_json::{Map, Value};
use trace_model::Trace;
use trace_model::correlation::CORRELATION_KEYS;
use trace_model::kernel::PLACE_KEYS;
use trace_tables::{SUMMARY_VERSION, Summary, summarise};

use crate::summary_text;

/// Description of one recording.
#[derive(Debug, Serialize)]
pub struct Described {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Facts of single formats, by the name of their section.
    #[serde(flatten)]
    sections: Map<String, Value>,
    pub(crate) overview: Overview,
    /// Reason for missing GPU activity, if there is none.
    pub(crate) no_gpu_activity: Option<NoGpuWork>,
}

/// Returns the keys of the arguments that a description needs.
#[must_use]
pub fn arg_keys() -> Vec<String> {
    let keys = CORRELATION_KEYS
        .iter()
        .chain(&PLACE_KEYS)
        .chain(&SHAPE_KEYS);
    keys.map(|key| (*key).to_owned()).collect()
}

impl Described {
    /// Describes a recording.
    #[must_use]
    pub fn new(name: &str, trace: &Trace) -> Self {
        let work = GpuWork::new(trace);
        Self {
            summary: summarise(name, trace),
            sections: sections(trace),
            overview: Overview::new(&work),
            no_gpu_activity: no_gpu_work(work.index()),
        }
    }

    /// Returns the contents and the data quality.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the reason for missing GPU activity, if there is none.
    #[must_use]
    pub fn no_gpu_activity(&self) -> Option<&NoGpuWork> {
        self.no_gpu_activity.as_ref()
    }

    /// Writes the description as text: with all rows of its lists if `all`, tables at most `table_width` characters wide.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn write_text(
        &self,
        all: bool,
        table_width: Option<usize>,
        out: &mut dyn Write,
    ) -> report::Result<()> {
        summary_text::write(self, all, table_width, out)
    }
}

/// Returns the sections that the reader added to the metadata.
fn sections(trace: &Trace) -> Map<String, Value> {
    let sections = trace.meta().sections.iter();
    let parsed = sections.filter_map(|(name, text)| {
        let value = serde_json::from_str(text).ok()?;
        Some(((*name).to_owned(), value))
    });
    parsed.collect()
}

/// Writes descriptions as one JSON document.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_json(all: &[Described], out: &mut dyn Write) -> report::Result<()> {
    let mut document = JsonDocument::new(out, SUMMARY_VERSION)?;
    document.member("traces", all)?;
    document.finish()?;
    Ok(())
}
