//! Memory mappings observed while the engine ran, and the model in them.

use std::path::Path;

use memtrace_labeller::{AddressRange, MapsSnapshot, ModelFile, ranges_of_maps};

use super::RunOptions;
use crate::error::Result;
use crate::manifest::write_whole;

/// Stores the observed mappings, and returns those that contain the tensors of a model.
pub(super) fn mapped(
    raw: &Path,
    maps: Option<&str>,
    command: &[String],
    options: &RunOptions,
) -> Result<Vec<AddressRange>> {
    let Some(text) = maps else {
        return Ok(Vec::new());
    };
    let file = raw.join("maps.txt");
    write_whole(&file, text.as_bytes())?;
    let models: Vec<ModelFile> = if options.models.is_empty() {
        // Only models named on the engine's command line; files that merely look like a model do
        // not count.
        command
            .iter()
            .map(Path::new)
            .filter(|path| is_model_name(path) && path.is_file())
            .filter_map(|path| ModelFile::open(path).ok())
            .collect()
    } else {
        let files = options.models.iter();
        files
            .map(|path| Ok(ModelFile::open(path)?))
            .collect::<Result<_>>()?
    };
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let snapshots = MapsSnapshot::read("maps.txt", text.as_bytes())?;
    Ok(ranges_of_maps(&snapshots, &models))
}

fn is_model_name(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("gguf" | "safetensors"))
}

/// Converts the time range of an address range to another clock.
pub(super) fn shifted(range: AddressRange, offset_ns: i64) -> AddressRange {
    let moved = |time: Option<u64>| time.map(|time| time.saturating_add_signed(offset_ns));
    let (from_ns, to_ns) = (moved(range.from_ns), moved(range.to_ns));
    range.valid(from_ns, to_ns)
}
