//! Phases of a run and their source.

use std::path::Path;

use byte_source::OpenOptions;
use memtrace_labeller::{PhaseBoundary, RowStream};
use serde_json::{Map, Value};

use super::input_options;
use crate::detector::{infer_phases, phases_json};
use crate::error::Result;
use crate::manifest::write_json;

/// Phases of a run and their source.
pub(super) struct FoundPhases {
    pub(super) boundaries: Vec<PhaseBoundary>,
    pub(super) source: &'static str,
}

impl FoundPhases {
    pub(super) fn shift(&mut self, offset_ns: i64) {
        for phase in &mut self.boundaries {
            phase.start_ns = phase.start_ns.saturating_add(offset_ns);
            phase.end_ns = phase.end_ns.saturating_add(offset_ns);
        }
    }

    /// Infers the phases from the accesses.
    pub(super) fn infer(&mut self, path: &Path) -> Result<()> {
        let mut stream = RowStream::open_path(path, &OpenOptions::default(), &input_options())?;
        self.boundaries = infer_phases(&mut stream)?;
        if !self.boundaries.is_empty() {
            self.source = "inferred";
        }
        Ok(())
    }

    /// Writes them to a file that `--phases` reads, and to the metadata.
    pub(super) fn write(
        &self,
        raw: &Path,
        ignored: u64,
        metadata: &mut Map<String, Value>,
    ) -> Result<()> {
        let mut document = phases_json(&self.boundaries, self.source);
        if let Some(members) = document.as_object_mut().filter(|_| ignored > 0) {
            members.insert("ignored_lines".to_owned(), ignored.into());
        }
        write_json(&raw.join("phases.json"), &document)?;
        metadata.insert("phases".to_owned(), document);
        Ok(())
    }
}
