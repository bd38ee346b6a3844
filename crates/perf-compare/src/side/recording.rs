//! What a recording states about itself: where it was made, and what was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compat::{job_and_phase, plain_name};
use crate::error::{Error, Result};

/// What a recording states about itself. `cycle-rca` writes it beside the tables of a recording, as
/// `<job>_recording.toml`; what it does not state is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Recording {
    /// Models of the GPUs that worked.
    pub gpus: BTreeSet<String>,
    /// Engine, by the rules that cut its steps.
    pub engine: Option<String>,
    /// Rank of the recorded process.
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub world_size: Option<u32>,
    /// Settings of the profiler that cost time or change what is recorded, by name ([`CAPTURE_SETTINGS`]).
    pub capture: BTreeMap<String, bool>,
}

/// Settings of a profiler that slow down the host.
pub const CAPTURE_SETTINGS: [&str; 5] = [
    "with_stack",
    "record_shapes",
    "profile_memory",
    "with_flops",
    "with_modules",
];

impl Recording {
    /// The name of the file that states it for the tables of a job.
    #[must_use]
    pub fn file_name(job: &str) -> String {
        format!("{job}_recording.toml")
    }

    /// Returns the text of that file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Strings of JSON are strings of TOML.
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let gpus: Vec<String> = self.gpus.iter().map(quoted).collect();
        let mut out = format!("gpus = [{}]\n", gpus.join(", "));
        if let Some(engine) = &self.engine {
            out += &format!("engine = {}\n", quoted(engine));
        }
        for (name, value) in [("rank", self.rank), ("world_size", self.world_size)] {
            if let Some(value) = value {
                out += &format!("{name} = {value}\n");
            }
        }
        out += "\n[capture]\n";
        for (name, on) in &self.capture {
            out += &format!("{} = {on}\n", quoted(name));
        }
        out
    }

    /// The statement beside a file of perf data, if there is one.
    pub(super) fn beside(file: &Path) -> Result<Option<Self>> {
        let Some((job, _)) = job_and_phase(file) else {
            return Ok(None);
        };
        let mut path = PathBuf::from(file);
        path.set_file_name(Self::file_name(&job));
        // The job of a table whose name ends like a phase.
        if !path.is_file() {
            let name = plain_name(file);
            let Some(stem) = name.strip_suffix("_perf_data.csv") else {
                return Ok(None);
            };
            path.set_file_name(Self::file_name(stem));
        }
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Io {
            path: path.clone(),
            step: "read",
            source,
        })?;
        // What is no such statement is of another tool.
        Ok(toml::from_str(&text).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let recording = Recording {
            gpus: ["NVIDIA \"H100\"".to_owned()].into(),
            engine: Some("sglang".to_owned()),
            rank: Some(3),
            world_size: None,
            capture: [("with_stack".to_owned(), true)].into(),
        };
        for recording in [recording, Recording::default()] {
            let text = recording.to_toml();
            assert_eq!(toml::from_str::<Recording>(&text).unwrap(), recording);
        }
    }
}
