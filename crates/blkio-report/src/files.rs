//! Reads small files whole.

use std::path::Path;

use byte_source::{OpenOptions, Source};

use crate::error::{Error, Result};

/// Maximum number of bytes of a file that is read whole.
const MAX_WHOLE: usize = 1 << 30;

/// Reads a whole file, decompressed; an empty one is empty.
///
/// # Errors
///
/// A file that cannot be read or has more than 1 GiB.
pub fn whole(path: &Path) -> Result<Vec<u8>> {
    match Source::open(path, &OpenOptions::default()) {
        Ok(source) => whole_of(source),
        Err(byte_source::Error::Empty { .. }) => Ok(Vec::new()),
        Err(error) => Err(unreadable(error)),
    }
}

/// Reads all that is left of a source.
///
/// # Errors
///
/// As [`whole`].
pub fn whole_of(source: Source) -> Result<Vec<u8>> {
    let name = source.name().to_owned();
    let mut content = Vec::new();
    let mut chunks = source.into_chunks(byte_source::ChunkOptions::default())?;
    while let Some(chunk) = chunks.next().map_err(unreadable)? {
        content.extend_from_slice(chunk.data());
        if content.len() > MAX_WHOLE {
            return Err(Error::Input(format!(
                "{name}: more than 1 GiB: too much for this kind of file"
            )));
        }
    }
    Ok(content)
}

/// Returns the input is to blame, not an output.
fn unreadable(error: byte_source::Error) -> Error {
    Error::Trace(error.into())
}
