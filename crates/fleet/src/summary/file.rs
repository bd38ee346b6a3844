//! Summaries as files: compressed JSON of bounded size.

use std::io::{self, Read as _, Write as _};

use byte_source::output::Gzip;
use byte_source::{OpenOptions, Source};

use super::{MAX_BYTES, RankSummary, VERSION};

/// Maximum size of a summary after decompression: far more than any has.
const MAX_TEXT: u64 = 64 << 20;

/// Error of a summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read or decompressed.
    #[error("the summary cannot be read")]
    Bytes(#[source] Box<byte_source::Error>),
    /// It is no summary.
    #[error("the summary is damaged")]
    Json(#[from] serde_json::Error),
    /// Its version is another one.
    #[error(
        "the summary has version {found}, this tool reads {VERSION}: summarise the recordings again, to a new folder"
    )]
    Version {
        /// The version.
        found: String,
    },
}

impl From<byte_source::Error> for FileError {
    fn from(error: byte_source::Error) -> Self {
        Self::Bytes(Box::new(error))
    }
}

/// Returns a summary as the bytes of a file of at most [`MAX_BYTES`]. Steps and collectives are thinned until they fit, those first that
/// have more rows; then kernels are left out.
///
/// # Errors
///
/// Returns an error if compression fails.
pub fn write(summary: &RankSummary) -> io::Result<Vec<u8>> {
    write_within(summary, MAX_BYTES)
}

/// Returns a summary as [`write()`] does, of at most `limit` bytes.
///
/// # Errors
///
/// Returns an error if compression fails.
pub fn write_within(summary: &RankSummary, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = packed(summary)?;
    if bytes.len() <= limit {
        return Ok(bytes);
    }
    let mut less = summary.clone();
    while bytes.len() > limit {
        // A step has a dozen numbers, a collective three.
        let (steps, runs) = (less.steps.len().saturating_mul(4), less.collectives.len());
        if steps.max(runs) > 64 {
            match steps > runs {
                true => less.steps.thin(),
                false => less.collectives.thin(less.rank),
            }
        } else if less.kernels.len() > 1 {
            let kept = less.kernels.len() / 2;
            less.kernels_left_out += (less.kernels.len() - kept) as u64;
            less.kernels.truncate(kept);
        } else {
            break;
        }
        bytes = packed(&less)?;
    }
    Ok(bytes)
}

fn packed(summary: &RankSummary) -> io::Result<Vec<u8>> {
    let mut out = Gzip::new(Vec::new());
    let text = serde_json::to_vec(summary).map_err(io::Error::other)?;
    out.write_all(&text)?;
    out.finish()
}

/// Reads a summary from the bytes of its file.
///
/// # Errors
///
/// Returns an error for damaged files and for other versions.
pub fn read(name: &str, bytes: Vec<u8>) -> Result<RankSummary, FileError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: String,
    }
    let mut options = OpenOptions::default();
    options.limits.max_uncompressed_bytes = MAX_TEXT;
    let source = Source::from_bytes_with(name, bytes, &options)?;
    let mut text = String::new();
    let mut reader = source.into_read()?;
    reader
        .read_to_string(&mut text)
        .map_err(serde_json::Error::io)?;
    let Version { version } = serde_json::from_str(&text)?;
    if version != VERSION {
        return Err(FileError::Version { found: version });
    }
    Ok(serde_json::from_str(&text)?)
}
