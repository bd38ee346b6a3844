//! Tables of tensors from the headers of model files: which bytes of the file hold which tensor.
//!
//! Only the header is read, never the data, so a model of any size costs the size of its header. Everything the header says is
//! checked before it is used; nothing is allocated because of a number in it.

mod gguf;
mod header;
mod safetensors;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use self::header::Header;
use crate::error::{Error, Result};

/// Bytes of a header, at most. Vocabularies of a quarter of a million words take some tens of megabytes.
const MAX_HEADER: u64 = 512 << 20;

/// One tensor of a model file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tensor {
    /// Its name, for example `blk.0.attn_q.weight`.
    pub name: String,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes it takes; up to the next tensor (or the end of the file) where the element type is not known.
    pub bytes: u64,
}

/// The tensors of a model file, by offset.
///
/// ```
/// use memtrace_labeller::TensorTable;
/// let header = br#"{"wte": {"dtype": "F16", "shape": [2, 4], "data_offsets": [0, 16]}}"#;
/// let mut file = (header.len() as u64).to_le_bytes().to_vec();
/// file.extend_from_slice(header);
/// file.extend_from_slice(&[0; 16]);
/// let table = TensorTable::read("m.safetensors", &file[..], Some(file.len() as u64))?;
/// assert_eq!((table.tensors[0].name.as_str(), table.tensors[0].bytes), ("wte", 16));
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorTable {
    /// `gguf` or `safetensors`.
    pub format: &'static str,
    /// First byte behind the header.
    pub data_start: u64,
    /// The tensors, by offset and name.
    pub tensors: Vec<Tensor>,
}

impl TensorTable {
    /// Reads the header of a GGUF (versions 1 to 3, either byte order) or safetensors file. With the size of the file, tensors
    /// that lie beyond its end are an error.
    ///
    /// # Errors
    ///
    /// [`Error::Unrecognised`] for other files, [`Error::Version`], [`Error::Broken`] with the place, [`Error::Json`].
    pub fn read(name: &str, from: impl Read, file_bytes: Option<u64>) -> Result<Self> {
        let mut header = Header::new(name, BufReader::new(from), MAX_HEADER);
        let first = header.peek(9)?.to_vec();
        let mut table = if first.starts_with(b"GGUF") {
            gguf::read(&mut header, file_bytes)?
        } else if first.get(8) == Some(&b'{') {
            safetensors::read(&mut header)?
        } else {
            return Err(Error::Unrecognised {
                name: name.to_owned(),
                head: byte_source::magic::hex_preview(&first),
            });
        };
        table
            .tensors
            .sort_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
        let beyond = |tensor: &&Tensor| {
            let end = tensor.offset.checked_add(tensor.bytes);
            end.is_none_or(|end| file_bytes.is_some_and(|size| end > size))
        };
        if let Some(tensor) = table.tensors.iter().find(beyond) {
            return Err(Error::Tensor {
                name: name.to_owned(),
                tensor: tensor.name.clone(),
                what: "lies beyond the end of the file",
            });
        }
        Ok(table)
    }

    /// As [`TensorTable::read`], from a file on disk.
    ///
    /// # Errors
    ///
    /// Those, and [`Error::Io`].
    pub fn read_path(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let io = |source| Error::Io {
            name: name.clone(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        let size = meta.is_file().then_some(meta.len());
        Self::read(&name, file, size)
    }
}
